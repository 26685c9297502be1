"""Gaussian and Poisson steps at deltas down to 1e-300 and rates down to 1e-12: sixty digits, more steps by merging."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc import epsilon, plan
from dpcalc.accountants.closed_forms import epsilon_of_mu, gaussian_mu
from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.amplification.bound import MissedBatch, StepBound
from dpcalc.amplification.schedule import glued_profile
from tests.oracles.drawn_gaussian import Step, merged_delta
from tests.oracles.exact_gaussian import exact_delta

DELTAS = (0.5, 1e-5, 1e-30, 1e-65, 1e-100, 1e-200, 1e-300)
SEEDS = [(0, 4), *(pytest.param(seed, 30, marks=pytest.mark.slow) for seed in range(1, 11))]
"""(seed, problems): by default, and in the slow suite."""


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(60):
        yield


def removed(rate, sigma):
    """(1 - q) N(0) + q N(1) against N(0), as the bound of a step."""
    bound = StepBound(inclusion=rate, shift=1, missed=(MissedBatch(1 - rate, 1, 0),))
    return glued_profile(bound, noise_multiplier=sigma)


# Steps without sampling.


@pytest.mark.parametrize(
    ("sigma", "steps"), [(1e4, 3), (20.0, 1), (1.0, 7), (0.1, 1), (0.0546566, 1), (0.0472572, 1), (0.016, 2), (4e-4, 1)]
)
def test_steps_without_sampling(sigma, steps):
    for delta in DELTAS:
        upper, lower = epsilon_bounds({removed(Fraction(1), sigma): steps}, delta=delta, sides=(UPPER, LOWER))
        mu = mpmath.sqrt(steps) / mpmath.mpf(sigma)
        assert exact_delta(mu, mpmath.mpf(upper)) <= delta
        assert lower == 0 or exact_delta(mu, mpmath.mpf(lower)) >= delta
        assert upper - lower <= 1e-8 * upper + 1e-12


@pytest.mark.parametrize("sigma", [0.0047, 0.016, 0.3, 2.0, 100.0])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 100.0, 2000.0])
def test_delta_without_sampling(sigma, epsilon):
    """Once no answer at all where noise is next to none."""
    upper, lower = delta_bounds({removed(Fraction(1), sigma): 1}, epsilon=epsilon, sides=(UPPER, LOWER))
    assert lower <= exact_delta(1 / mpmath.mpf(sigma), mpmath.mpf(epsilon)) <= upper
    assert upper - lower <= 1e-9 * upper + 1e-300


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0, 600.0, 2000.0])
@pytest.mark.parametrize("delta", [0.3, 1e-10, 1e-100, 1e-290])
def test_the_sensitivity_that_has_a_delta(epsilon, delta):
    mu = gaussian_mu(epsilon, delta=delta)
    assert exact_delta(mpmath.mpf(mu), mpmath.mpf(epsilon)) >= delta * (1 - 1e-12)
    assert exact_delta(mpmath.mpf(mu) * (1 - mpmath.mpf("2e-9")), mpmath.mpf(epsilon)) < delta
    assert epsilon_of_mu(mu, delta=delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 1e3])
def test_the_ends_of_sensitivities(epsilon):
    """Found at length: at delta 1, which floats reach at mu = 17, the search had no end."""
    assert gaussian_mu(epsilon, delta=1.0) == math.inf
    assert gaussian_mu(epsilon, delta=0.0) == 0
    assert epsilon_of_mu(math.inf, delta=1e-5) == epsilon_of_mu(1e200, delta=1e-5) == math.inf
    assert epsilon_of_mu(1e-6, delta=1e-5) == 0


# Steps in which the unit is drawn.


@pytest.mark.parametrize(("rate", "sigma"), [("1/10", 0.05), ("1/1000", 0.02), ("1/2", 1.0), ("1/100", 0.3)])
def test_a_drawn_step(rate, sigma):
    rate = Fraction(rate)
    step = Step(mpmath.mpf(rate.numerator) / rate.denominator, sigma)
    for delta in DELTAS:
        upper, lower = epsilon_bounds({removed(rate, sigma): 1}, delta=delta, sides=(UPPER, LOWER))
        assert step.delta(mpmath.mpf(upper)) <= delta
        assert lower == 0 or step.delta(mpmath.mpf(lower)) >= delta
        assert upper - lower <= 1e-6 * upper + 1e-9


def random_problem(rng, *, most):
    rate, sigma = 10 ** rng.uniform(-12, -3), 10 ** rng.uniform(math.log10(0.3), math.log10(20))
    return rate, sigma, int(10 ** rng.uniform(0, math.log10(most))), 10 ** rng.uniform(-60, -3)


def ends_of_plan(rate, sigma, steps, delta):
    found = epsilon(plan(sample_rate=rate, noise_multiplier=sigma, steps=steps, delta=delta))
    assert found.epsilon_lower is not None
    assert found.epsilon_lower <= found.epsilon
    assert not found.tight or found.epsilon - found.epsilon_lower <= 1e-3 * found.epsilon
    return mpmath.mpf(found.epsilon), mpmath.mpf(found.epsilon_lower)


@pytest.mark.heavy
@pytest.mark.parametrize(("seed", "count"), SEEDS)
def test_one_step(seed, count):
    rng = np.random.default_rng([seed, 1])
    for _ in range(count):
        rate, sigma, _, delta = random_problem(rng, most=1)
        upper, lower = ends_of_plan(rate, sigma, 1, delta)
        step = Step(rate, sigma)
        assert max(step.delta(upper), step.delta_added(upper)) <= delta
        assert not lower or max(step.delta(lower), step.delta_added(lower)) >= delta


@pytest.mark.parametrize(("seed", "count"), SEEDS)
def test_many_steps(seed, count):
    rng = np.random.default_rng([seed, 3])
    for _ in range(count // 2):
        rate, sigma, steps, delta = random_problem(rng, most=1e6)
        upper, _ = ends_of_plan(rate, sigma, steps, delta)
        assert not upper or merged_delta(rate, sigma, steps, float(upper)) <= delta


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta"),
    [
        (4.40632e-11, 1.55756, 27, 6.31108e-35),
        (2.29199e-12, 0.82439, 9, 6.46744e-22),
        (1.9e-9, 4.09, 5692, 5e-17),
        (4.1017e-09, 0.455135, 4292, 1.71819e-21),
        pytest.param(1.18958e-12, 0.805043, 462, 7.53405e-49, marks=pytest.mark.slow),
        pytest.param(2.58992e-11, 1.42574, 3, 5.88333e-28, marks=pytest.mark.slow),
        pytest.param(2.04518e-12, 0.835193, 306, 1.91218e-29, marks=pytest.mark.slow),
        pytest.param(4.72311e-12, 0.616746, 303, 2.49809e-29, marks=pytest.mark.slow),
        pytest.param(2.96042e-12, 1.40451, 6, 1.49169e-42, marks=pytest.mark.slow),
    ],
)
def test_few_draws_decide(rate, sigma, steps, delta):
    """Bounds that were far apart, one of them 1000 times: losses were capped 1e-6 above an epsilon of 1e-8 at least."""
    upper, lower = map(float, ends_of_plan(rate, sigma, steps, delta))
    assert upper - lower <= 3e-3 * upper
    assert merged_delta(rate, sigma, steps, upper) <= delta
    if sigma < 4:  # few draws decide: the merged steps are nearly the steps themselves
        assert merged_delta(rate, sigma, steps, 0.99 * lower) >= delta
