"""Certified intervals of balls in bins against Monte Carlo simulation, for every delta and up to 100,000 steps."""

import math

import numpy as np
import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.amplification.schedule import allocated_pass
from dpcalc.losses.likelihood_ratio import Estimate
from dpcalc.losses.pair import MixturePair
from tests.oracles.tilted_passes import simulated_delta


def random_problem(seed, max_steps):
    """(sigma, bins, passes, delta, True for D against D') with at most `max_steps` steps; a held choice is one pass."""
    random = np.random.default_rng(seed)
    while True:
        sigma = math.exp(random.uniform(math.log(0.3), math.log(20.0)))
        bins = int(math.exp(random.uniform(math.log(2.0), math.log(1e5))))
        passes = int(math.exp(random.uniform(0.0, math.log(1000.0))))
        if random.random() < 1 / 3:
            sigma, passes = sigma / math.sqrt(passes), 1
        if bins * passes <= max_steps:
            return sigma, bins, passes, 10.0 ** random.uniform(-12, -2), bool(random.random() < 0.7)


def delta_interval(sigma, bins, passes, delta, is_forward):
    """(epsilon at delta, certified bounds on delta at this epsilon)."""
    step = MixturePair.of({1: 1}, {0: 1}, deviation=sigma)
    upper = allocated_pass(((step, bins),), Estimate.UPPER)
    lower = allocated_pass(((step, bins),), Estimate.LOWER if is_forward else Estimate.LOWER_REVERSED)
    upper = upper if is_forward else upper.swapped
    (epsilon,) = epsilon_bounds({upper: passes}, delta=delta, sides=(UPPER,))
    (low,), (high,) = (
        delta_bounds({pair: passes}, epsilon=epsilon, sides=(side,)) for pair, side in ((lower, LOWER), (upper, UPPER))
    )
    return epsilon, low, high


def check_simulated(problem, *, draws, seed, other_sigma=1.0):
    """Return True if simulation resolves the problem to 6 %; fail where it contradicts the interval."""
    sigma, bins, passes, delta, is_forward = problem
    epsilon, low, high = delta_interval(sigma, bins, passes, delta, is_forward)
    if not 0 < epsilon < 300:  # delta at epsilon 0 is smaller than asked for; ratios near e^700 are no floats
        return False
    simulated = sigma * other_sigma, bins, passes
    mean, error, largest = simulated_delta(simulated, epsilon, is_forward=is_forward, draws=draws, seed=seed)
    if error > 0.06 * mean or not mean or largest > 0.05:
        return False
    assert low - 5 * error <= mean <= high + 5 * error, (problem, epsilon, (low, high), (mean, error))
    return True


FORWARD = [(1.0, 64, 1, 1e-8), (0.7, 100, 1, 1e-12), (0.08, 216, 1, 2e-5)]
BACKWARD = [(1.0, 64, 1, 1e-8), (0.1, 50, 1, 1e-6)]
CASES = [*((*problem, True) for problem in FORWARD), *((*problem, False) for problem in BACKWARD)]


@pytest.mark.heavy
@pytest.mark.parametrize("problem", CASES)
def test_simulated_passes_lie_in_the_interval(problem):
    assert check_simulated(problem, draws=1_000_000, seed=1)


@pytest.mark.parametrize("problem", [CASES[0], CASES[3]])
@pytest.mark.parametrize("other_sigma", [0.97, 1.03])
def test_three_percent_of_the_noise_are_noticed(problem, other_sigma):
    with pytest.raises(AssertionError, match=str(problem[1])):
        check_simulated(problem, draws=1_000_000, seed=1, other_sigma=other_sigma)


@pytest.mark.heavy
def test_random_passes_lie_in_the_interval():
    resolved = [check_simulated(random_problem(seed, 2000), draws=2_000_000, seed=seed) for seed in range(12)]
    assert sum(resolved) >= 7


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 200, 10))
def test_more_random_passes_lie_in_the_interval(start):
    seeds = range(start, start + 10)
    resolved = [check_simulated(random_problem(seed, 100_000), draws=40_000_000, seed=seed) for seed in seeds]
    assert sum(resolved) >= 3
