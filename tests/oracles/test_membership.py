"""P-values of guesses and alarms, beside enumeration of mechanisms, linear programs, and published numbers."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from dpcalc.audit.laws import Alarms, Count, Guesses, PrivacyCurve, log_tail
from dpcalc.config.load import load_text
from dpcalc.planner.risk import both_profiles


def gaussian_curve(mu, lines=300):
    epsilons = np.linspace(0, mu * mu / 2 + 6 * mu, lines)
    deltas = norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * norm.cdf(-mu / 2 - epsilons / mu)
    return PrivacyCurve(epsilons, deltas)


def pure_curve(epsilon):
    chance = 1 / (1 + math.exp(-epsilon))
    return PrivacyCurve(np.array([0.0, epsilon]), np.array([2 * chance - 1, 0.0]))


@pytest.mark.parametrize(
    ("canaries", "guessed", "correct", "delta", "epsilon"),
    [
        (1000, 100, 95, 0, 2.17243),
        (1000, 100, 95, 1e-5, 2.16518),
        (5000, 500, 450, 1e-5, 1.94142),
        (1000, 50, 50, 1e-5, 2.75622),
        (1000, 1000, 600, 1e-5, 0.29723),
    ],
)
def test_published_lower_bounds(canaries, guessed, correct, delta, epsilon):
    guesses = Guesses(canaries=canaries, guessed=guessed, correct=correct)
    assert guesses.epsilon_lower(delta=delta, error=0.05) == pytest.approx(epsilon, abs=6e-6)
    alarms = Alarms(included=1000, detected=900, excluded=1000, false=10)
    assert alarms.epsilon_lower(delta=1e-5, error=0.05) == pytest.approx(3.87196, abs=6e-6)


def test_nothing_is_shown_by_chance():
    assert Guesses(canaries=100, guessed=50, correct=25).epsilon_lower(delta=1e-5, error=0.05) == 0
    assert Guesses(canaries=100, guessed=50, correct=0).epsilon_lower(delta=1e-5, error=0.05) == 0
    assert Alarms(included=100, detected=0, excluded=100, false=0).epsilon_lower(delta=1e-5, error=0.05) == 0
    assert Alarms(included=9, detected=9, excluded=9, false=9).epsilon_lower(delta=0, error=0.05) == 0
    for counts in (Guesses(canaries=9, guessed=9, correct=0), Alarms(included=9, detected=0, excluded=9, false=9)):
        assert counts.p_value(gaussian_curve(1)) == 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomized_response_has_the_binomial_tail(epsilon):
    for guessed, correct in ((1, 1), (20, 18), (300, 280), (2000, 1990)):
        exact = binom.sf(correct - 1, guessed, 1 / (1 + math.exp(-epsilon)))
        p_value = Guesses(canaries=5000, guessed=guessed, correct=correct).p_value(pure_curve(epsilon))
        assert exact * (1 - 1e-9) <= p_value <= exact * (1 + 1e-6) + 1e-299


# Every mechanism on three coins: a law over guesses for each of the eight inputs.


def exact_curve(laws, coins, lines=60):
    """The profile of a mechanism, both directions and all coins, at many epsilons."""
    epsilons = np.concatenate([np.linspace(0, 4, lines), [6.0, 9.0]])
    deltas = np.zeros(epsilons.size)
    for bits, law in laws.items():
        for coin in range(coins):
            other = laws[(*bits[:coin], 1 - bits[coin], *bits[coin + 1 :])]
            gaps = np.maximum(law[None, :] - np.exp(epsilons)[:, None] * other[None, :], 0.0).sum(axis=1)
            deltas = np.maximum(deltas, gaps)
    return PrivacyCurve(epsilons, deltas)


def number_law(laws, outputs, guessed):
    """Probabilities of 0, 1, ... right guesses."""
    numbers = np.zeros(guessed + 1)
    for bits, law in laws.items():
        for chance, guesses in zip(law, outputs, strict=True):
            right = sum(guess == bit for guess, bit in zip(guesses, bits, strict=True))
            numbers[right] += chance / len(laws)
    return numbers


@pytest.mark.parametrize("seed", range(12))
def test_no_mechanism_on_three_coins_exceeds_the_p_value(seed):
    rng = np.random.default_rng(seed)
    coins, guessed = 3, 1 + seed % 3
    outputs = [each for each in product((0, 1, None), repeat=coins) if sum(g is not None for g in each) == guessed]
    closest = math.inf
    for _ in range(40):
        # from nearly public to nearly private, more or less alike for inputs that differ in one coin
        sharpness, noise = rng.exponential(3.0), rng.exponential(0.3)
        laws = {}
        for bits in product((0, 1), repeat=coins):
            right = np.array([sum(g == b for g, b in zip(each, bits, strict=True)) for each in outputs])
            weights = np.exp(sharpness * right + noise * rng.normal(size=len(outputs)))
            laws[bits] = weights / weights.sum()
        numbers, curve = number_law(laws, outputs, guessed), exact_curve(laws, coins)
        for correct in range(1, guessed + 1):
            p_value = Guesses(canaries=coins, guessed=guessed, correct=correct).p_value(curve)
            exact = numbers[correct:].sum()
            assert exact <= p_value * (1 + 1e-9)
            closest = min(closest, p_value / exact)
    assert closest < 1.2


def test_revealing_some_coins_attains_the_p_value():
    """With probability m delta / i all of i random coins are revealed, the others by randomized response."""
    canaries = guessed = 2000
    epsilon, delta, correct = 1.0, 1e-4, 1600
    chance = 1 / (1 + math.exp(-epsilon))
    numbers = np.arange(1, guessed + 1)
    gains = binom.sf(correct - 1 - numbers, guessed - numbers, chance) * np.minimum(1, canaries * delta / numbers)
    curve = PrivacyCurve(np.array([0.0, epsilon]), np.array([1.0, delta]))
    p_value = Guesses(canaries=canaries, guessed=guessed, correct=correct).p_value(curve)
    assert 1 <= p_value / gains.max() < 1.3


@pytest.mark.parametrize(("mu", "canaries", "guessed"), [(0.5, 12, 8), (1.0, 30, 10), (1.0, 25, 25), (2.0, 60, 12)])
def test_the_recursion_is_the_optimum_of_a_linear_program(mu, canaries, guessed):
    curve = gaussian_curve(mu, lines=40)
    slopes = np.concatenate([np.exp(curve.epsilons), np.exp(-curve.epsilons)])
    intercepts = np.concatenate([curve.deltas, 1 - np.exp(-curve.epsilons) * (1 - curve.deltas)])
    numbers = np.arange(guessed + 1)
    for correct in (guessed // 2 + 1, guessed - 1, guessed):
        rows, limits = [], []
        for first in range(1, correct + 1):
            right = np.where(numbers >= first, numbers, 0)
            wrong = np.where(numbers >= first - 1, guessed - numbers, 0)
            rows += [right - slope * wrong for slope in slopes]
            limits += [canaries * intercept for intercept in intercepts]
        best = linprog(
            -(numbers >= correct).astype(float),
            A_ub=np.array(rows),
            b_ub=np.array(limits),
            A_eq=np.ones((1, guessed + 1)),
            b_eq=[1.0],
            bounds=(0, 1),
        )
        recursion = Guesses(canaries=canaries, guessed=guessed, correct=correct)._recursive_p_value(curve)
        assert -best.fun * (1 - 1e-6) <= recursion <= -best.fun * 1.01


@pytest.mark.parametrize(("rate", "runs"), [(0.05, (20, 30)), (0.3, (30, 15)), (0.15, (25, 25))])
def test_no_rates_on_the_curve_are_contradicted_too_often(rate, runs):
    """Enumerate the alarms of the best attacker that the curve allows."""
    curve, (included, excluded) = gaussian_curve(1.0, lines=100), runs
    best = norm.cdf(norm.ppf(rate) + 1.0)
    totals = {0.01: 0.0, 0.05: 0.0, 0.2: 0.0}
    for hit, miss in product(range(included + 1), range(excluded + 1)):
        chance = binom.pmf(hit, included, best) * binom.pmf(miss, excluded, rate)
        p_value = Alarms(included=included, detected=hit, excluded=excluded, false=miss).p_value(curve)
        totals = {level: total + chance * (p_value <= level) for level, total in totals.items()}
    assert all(total <= level for level, total in totals.items())
    assert totals[0.2] > 0.002  # it can contradict at all


CONFIG = """\
version: 1
data: {examples: 1000}
sampling: {scheme: all}
mechanism: {noise_multiplier: 2}
training: {steps: 4}
privacy: {adjacency: add-remove, delta: 1e-5}
"""


def test_the_curve_of_a_config_is_above_that_of_its_mechanism_and_close():
    curve = PrivacyCurve.of(both_profiles(load_text(CONFIG, path="").plan, (1e-4, 1e-2, 0.2), (1e-5,)))
    rates = np.geomspace(1e-5, 0.9, 50)
    exact = norm.cdf(norm.ppf(rates) + 1.0)
    bound = curve.true_positive_rates(rates)
    assert np.all(exact <= bound)
    assert np.all(bound <= 1.01 * exact)
    back = curve.false_positive_rates(bound)
    assert np.all(back <= rates * (1 + 1e-9))
    assert np.all(back >= rates * (1 - 1e-6))
    nothing = PrivacyCurve.of(())
    assert list(nothing.true_positive_rates(rates)) == [1.0] * 50
    assert Guesses(canaries=50, guessed=50, correct=50).p_value(nothing) == 1


# Tails of counted events.


@pytest.mark.parametrize(("trials", "rate"), [(1, 0.5), (7, 0.3), (40, 0.01), (300, 0.5), (5000, 0.002), (10**6, 0.9)])
def test_the_bound_is_above_both_binomial_tails_and_not_far(trials, rate):
    spread = math.sqrt(trials * rate * (1 - rate))
    for shift in (-8, -3, -1, 0, 1, 3, 8):
        observed = min(max(round(trials * rate + shift * spread), 0), trials)
        bound = log_tail(Count(observed=observed, expected=trials * rate, trials=trials))
        tail = (
            binom.logsf(observed - 1, trials, rate)
            if observed > trials * rate
            else binom.logcdf(observed, trials, rate)
        )
        assert tail <= bound + 1e-9 <= 1e-9
        assert bound <= tail + math.log(4 + 4 * abs(shift)) + 0.5 * math.log(1 + spread)


def test_impossible_and_certain_counts():
    assert log_tail(Count(observed=1, expected=0, trials=5)) == -math.inf
    assert log_tail(Count(observed=4, expected=5, trials=5)) == -math.inf
    assert log_tail(Count(observed=6, expected=2, trials=5)) == -math.inf  # more than there are, once an exception
    assert log_tail(Count(observed=0, expected=0, trials=0)) == 0
    assert log_tail(Count(observed=5, expected=5, trials=5)) == 0
