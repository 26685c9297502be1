"""What PATE costs: against exact distributions of the winner, all outcomes of few teachers, and closed forms."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from dpcalc.mechanisms.additive import Gaussian
from dpcalc.mechanisms.black_box import ConfidentGNMax, GNMax, LNMax, other_wins_bound
from dpcalc.pate import data_independent_guarantee
from dpcalc.planner.evaluate import delta_of, guarantee
from dpcalc.sampling.schemes import All
from tests.oracles.ballots import ensemble, gaussian, laplace, log_winner, neighbours, outcomes
from tests.oracles.exact_gaussian import exact_epsilon
from tests.runs import run_of

DELTA = 1e-5
ROWS = ([6, 2, 2], [8, 1, 1], [4, 3, 3], [9, 1, 0], [10, 0, 0], [5, 5, 0], [6, 4, 0], [30, 2, 1])
ORDERS = np.array([0.3, 1.0, 3.0, 10.0, 30.0])
NOISES = [
    (GNMax(noise_multiplier=2.0), gaussian(2.0)),
    (GNMax(noise_multiplier=0.8), gaussian(0.8)),
    (LNMax(gamma=0.5), laplace(2.0)),
    (LNMax(gamma=0.1), laplace(10.0)),
]
CONFIDENT = ConfidentGNMax(noise_multiplier=40.0, threshold=200.0, threshold_noise_multiplier=150.0)


def moment(log_p, log_q, z):
    return np.logaddexp.reduce((z + 1) * log_p - z * log_q)


@pytest.mark.heavy
@pytest.mark.parametrize(("aggregation", "noise"), NOISES, ids=[str(aggregation) for aggregation, _ in NOISES])
def test_no_neighbour_is_told_apart_better_than_the_bound_says(aggregation, noise):
    nearest = 0.0
    for row in ROWS:
        votes = ensemble([row])
        own = log_winner(row, noise)
        other_wins = math.exp(np.logaddexp.reduce(np.delete(own, np.argmax(row))))
        assert other_wins <= other_wins_bound(aggregation, votes)[0] * (1 + 1e-6)
        for doubt in (other_wins_bound(aggregation, votes), np.array([other_wins])):
            ahead, back = (each[0] for each in aggregation.log_moments(doubt, votes.top, ORDERS))
            for neighbour in neighbours(row):
                other = log_winner(neighbour, noise)
                for z, one, two in zip(ORDERS, ahead, back, strict=True):
                    for truth, bound in ((moment(own, other, z), one), (moment(other, own, z), two)):
                        assert truth <= bound * (1 + 1e-6) + 1e-12
                        nearest = max(nearest, truth / (bound + 1e-9))
    assert nearest > 0.5  # the bound is no more than twice what a data set attains


@pytest.mark.parametrize(
    "aggregation", [LNMax(gamma=0.05), GNMax(noise_multiplier=40.0), LNMax(gamma=1.0), GNMax(noise_multiplier=3.0)]
)
@pytest.mark.parametrize("lead", [0, 1, 7, 40])
def test_the_chance_that_one_label_overtakes_another(aggregation, lead):
    with mpmath.workdps(30):
        if isinstance(aggregation, GNMax):
            exact = mpmath.erfc(mpmath.mpf(lead) / (2 * aggregation.noise_multiplier)) / 2
        else:
            g = mpmath.mpf(aggregation.gamma)  # P(Z1 > lead + Z2), Laplace both
            tail = lambda x: mpmath.exp(-g * x) / 2 if x >= 0 else 1 - mpmath.exp(g * x) / 2  # noqa: E731
            density = lambda x: g / 2 * mpmath.exp(-g * abs(x))  # noqa: E731
            edges = [-mpmath.inf, -lead, 0, mpmath.inf] if lead else [-mpmath.inf, 0, mpmath.inf]
            exact = mpmath.quad(lambda x: tail(lead + x) * density(x), edges)
        assert aggregation.overtake_probability(np.array([float(lead)]))[0] == pytest.approx(float(exact), rel=1e-9)


@mpmath.workdps(40)
def test_the_check_of_confident_gnmax_is_exact():
    top = np.array([230, 200, 150, 40])
    silent = replace(CONFIDENT, noise_multiplier=1e9, threshold_noise_multiplier=20.0)  # labels that tell nothing
    ahead, back = silent.log_moments(np.full(4, 0.5), top, ORDERS)
    for row, count in enumerate(top):
        p = mpmath.ncdf((mpmath.mpf(int(count)) - 200) / 20)
        for place, z in enumerate(ORDERS):
            q = [mpmath.ncdf((mpmath.mpf(int(count)) + step - 200) / 20) for step in (-1, 0, 1)]
            one = max(mpmath.log(p ** (z + 1) / x**z + (1 - p) ** (z + 1) / (1 - x) ** z) for x in q)
            two = max(mpmath.log(x ** (z + 1) / p**z + (1 - x) ** (z + 1) / (1 - p) ** z) for x in q)
            assert float(one) <= ahead[row, place] <= float(one) * (1 + 1e-5) + 1e-13
            assert float(two) <= back[row, place] <= float(two) * (1 + 1e-5) + 1e-13


@mpmath.workdps(60)
def test_a_check_with_little_noise_far_from_the_threshold():
    sharp = replace(CONFIDENT, noise_multiplier=1e9, threshold_noise_multiplier=0.02)
    ahead, _ = sharp.log_moments(np.array([0.5]), np.array([199]), np.array([60.0]))
    p, q = mpmath.ncdf(mpmath.mpf(-50)), mpmath.ncdf(mpmath.mpf(-100))  # the neighbour with one vote less
    truth = mpmath.log(p**61 / q**60 + (1 - p) ** 61 / (1 - q) ** 60)
    other = mpmath.mpf(1) / 2  # and the one with a vote more, at the threshold
    truth = max(truth, mpmath.log(p**61 / other**60 + (1 - p) ** 61 / other**60))
    assert float(truth) <= ahead[0, 0] <= float(truth) * (1 + 1e-6)
    assert truth > 1e4


@mpmath.workdps(60)
@pytest.mark.parametrize(
    "aggregation",
    [GNMax(noise_multiplier=0.02), replace(CONFIDENT, threshold_noise_multiplier=0.01), GNMax(noise_multiplier=40.0)],
)
@pytest.mark.parametrize("delta", [1e-5, 1e-295])
def test_epsilon_beyond_the_floats_of_the_profile(aggregation, delta):
    check = (
        1 / mpmath.mpf(aggregation.threshold_noise_multiplier) ** 2 if isinstance(aggregation, ConfidentGNMax) else 0
    )
    mu = mpmath.sqrt(10 * (2 / mpmath.mpf(aggregation.noise_multiplier) ** 2 + check))
    epsilon = mpmath.mpf(data_independent_guarantee(aggregation, 10, delta=delta).epsilon)
    truth = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    assert truth <= delta
    assert epsilon < mu**2 / 2 + mu * mpmath.sqrt(-2 * mpmath.log(delta)) + 1e-6


# Plans of queries


def plan(mechanism, queries=100, **more):
    return run_of((250, All()), mechanism=mechanism, steps=queries, **{"adjacency": "replace-one"} | more)


def optimal_delta(epsilon, pure, count):
    """Of `count` answers by randomized response that are (pure, 0)-DP, by the binomial sum."""
    with mpmath.workdps(40):
        true = 1 / (1 + mpmath.exp(-mpmath.mpf(pure)))
        total = mpmath.mpf(0)
        for hits in range(count + 1):
            ways = mpmath.binomial(count, hits)
            p, q = true**hits * (1 - true) ** (count - hits), true ** (count - hits) * (1 - true) ** hits
            total += ways * max(mpmath.mpf(0), p - mpmath.exp(epsilon) * q)
        return float(total)


@pytest.mark.parametrize("together", [1, 3])
@pytest.mark.parametrize("mechanism", [GNMax(noise_multiplier=40.0), CONFIDENT])
def test_gaussian_answers_are_one_gaussian_release(mechanism, together):
    """Squared distances in deviations: 2 of the counts, 1 of the largest one."""
    squared = 2 / 40.0**2 + (1 / 150.0**2 if mechanism.name == "pate-confident-gnmax" else 0)
    found = guarantee(plan(mechanism, group_size=together)).epsilon
    assert found * (1 - 1e-4) < exact_epsilon(100, 1 / (together * math.sqrt(squared)), DELTA) <= found


@pytest.mark.parametrize("together", [1, 4])
def test_lnmax_is_the_optimal_composition(together):
    found = guarantee(plan(LNMax(gamma=0.05), group_size=together)).epsilon
    pure = 2 * 0.05 * together
    assert optimal_delta(found, pure, 100) <= DELTA < optimal_delta(found * (1 - 1e-4), pure, 100)


def test_a_phase_beside_training():
    """Answers of GNMax and Gaussian noise on a sum over the same units are one Gaussian release."""
    answers = plan(GNMax(noise_multiplier=40.0), adjacency="add-remove")
    noise = Gaussian(noise_multiplier=20.0)
    training = replace(answers.phases[0], name="training", mechanism=noise, steps=30)
    found = guarantee(replace(answers, phases=(answers.phases[0], training))).epsilon
    squared = 100 * 2 / 40.0**2 + 30 / 20.0**2
    assert found * (1 - 1e-4) < exact_epsilon(1, 1 / math.sqrt(squared), DELTA) <= found


@pytest.mark.parametrize(
    "mechanism",
    [
        LNMax(gamma=0.3),
        GNMax(noise_multiplier=2.0),
        ConfidentGNMax(noise_multiplier=2.0, threshold=4.0, threshold_noise_multiplier=1.0),
    ],
)
def test_actual_ensembles_cost_no_more(mechanism):
    """One teacher votes otherwise, or is not there."""
    worst = dict.fromkeys((0.0, 0.1, 0.3, 0.6), 0.0)
    for row in ([5, 0, 0], [3, 2, 0], [2, 2, 1], [1, 4, 0]):
        gone = [[count - (at == who) for at, count in enumerate(row)] for who in range(3) if row[who]]
        for other in (*neighbours(row), *gone):
            p, q = (np.exp(outcomes(each, mechanism)) for each in (row, other))
            for epsilon, known in worst.items():
                found = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))
                worst[epsilon] = max(known, float(found))
    for epsilon, found in worst.items():
        bound = delta_of(plan(mechanism, queries=1), epsilon=epsilon).delta
        assert found <= bound + 1e-7
        assert epsilon or found > 0.3 * bound


def test_next_to_no_noise_costs_what_pure_privacy_does():
    """One bit that is true but for e^-102: delta(eps) = 1 - e^(eps - 102)."""
    exact = 102 + math.log1p(-1e-5)
    assert exact <= guarantee(plan(LNMax(gamma=51.0), queries=1)).epsilon <= 102
