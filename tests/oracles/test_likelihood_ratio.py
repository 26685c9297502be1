"""Sums of likelihood ratios on a lattice: against exact sums of ratios with few values."""

import math
from collections import defaultdict
from fractions import Fraction
from functools import partial

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import quad

from dpcalc.accountants.composed_loss import LOWER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.amplification.schedule import allocated_pass
from dpcalc.losses.likelihood_ratio import Estimate
from dpcalc.losses.loss import Loss
from dpcalc.losses.pair import MixturePair
from tests.few_losses import of_masses


def random_ratio(random):
    """(ratios, Q masses) of a random ratio with mean 1 and two to five values."""
    size = int(random.integers(2, 6))
    ratios = np.exp(random.normal(0.0, random.uniform(0.05, 3.0), size))
    masses = random.dirichlet([0.7] * size)
    masses = np.maximum(masses, 1e-6) / np.maximum(masses, 1e-6).sum()
    ratios = np.sort(ratios)
    return ratios / (ratios * masses).sum(), masses


def exact_sum(ratios, masses, count):
    """{sum: Q mass} by enumeration."""
    law = {0.0: 1.0}
    for _ in range(count):
        following = defaultdict(float)
        for value, mass in law.items():
            for ratio, q in zip(ratios, masses, strict=True):
                following[value + ratio] += mass * q
        law = following
    return law


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 500))])
def test_the_interval_holds_the_truth_of_random_sums(seed):
    random = np.random.default_rng(seed)
    ratios, masses = random_ratio(random)
    count = int(random.integers(1, 8))
    pair = of_masses(np.log(ratios).tolist(), (ratios * masses).tolist())
    exact = exact_sum(ratios, masses, count)
    bounds = {estimate: allocated_pass(((pair, count),), estimate) for estimate in Estimate}
    for epsilon in (0.0, 0.05, 0.3, 1.0, 2.5):
        c = math.exp(epsilon)
        forward = sum(q * max(0.0, u / count - c) for u, q in exact.items())
        back = sum(q * max(0.0, 1 - c * u / count) for u, q in exact.items())
        assert bounds[Estimate.LOWER].delta(epsilon) <= forward + 1e-12
        assert bounds[Estimate.UPPER].delta(epsilon) >= forward - 1e-12
        assert bounds[Estimate.LOWER_REVERSED].delta(epsilon) <= back + 1e-12
        assert bounds[Estimate.UPPER].swapped.delta(epsilon) >= back - 1e-12
        assert bounds[Estimate.UPPER].delta(epsilon) - bounds[Estimate.LOWER].delta(epsilon) < 0.02


def test_a_ratio_next_to_0_is_infinite_for_upper_bounds_alone():
    pair = Loss(losses=(-700.0, 0.1), log_masses=(math.log(-math.expm1(-0.1)) - 700, 0.0))
    upper = allocated_pass(((pair, 1),), Estimate.UPPER)
    assert upper.swapped.infinity_mass >= 0.09
    lower = allocated_pass(((pair, 1),), Estimate.LOWER_REVERSED)
    assert lower.infinity_mass == 0
    for epsilon in (0.0, 1.0, 250.0, 699.0):
        assert lower.delta(epsilon) <= -math.expm1(-0.1) * -math.expm1(epsilon - 700)
    assert lower.delta(1.0) == pytest.approx(-math.expm1(-0.1), rel=1e-9)


def gaussian(sigma):
    return MixturePair.of({1: Fraction(1)}, {0: Fraction(1)}, deviation=sigma)


@mp.workdps(30)
def two_steps(sigmas, epsilon, share):
    """(delta of D against D', of D' against D) of a mean of two log-normal ratios: one is integrated in closed form."""
    (v, w), c = (1 / mp.mpf(sigma) for sigma in sigmas), mp.exp(epsilon)

    def option(strike, sign):
        """E (sign (X - strike))_+ for log-normal X with mean 1 and volatility w; sign 1 or -1."""
        if strike <= 0:
            return (1 - strike) * (sign > 0)
        d = -mp.log(strike) / w + w / 2
        return sign * (mp.ncdf(sign * d) - strike * mp.ncdf(sign * (d - w)))

    def mean(total, sign):
        corner = mp.log(total) / v + v / 2  # where the strike of the other ratio becomes 0
        near = (x + corner for x in (-8, -4, -2, -1, -0.5, 0, 0.5, 1, 2, 4, 8))
        ends = sorted({-14, 14 + v, *near, *range(-14, 14, 2)})
        return mp.quad(lambda x: mp.npdf(x) * option(total - mp.exp(v * x - v * v / 2), sign), ends)

    forward, back = 1 + (c - 1) / share, (1 / c - (1 - share)) / share
    return float(share / 2 * mean(2 * forward, 1)), float(share / 2 * c * mean(2 * back, -1)) if back > 0 else 0.0


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("sigmas", "share", "epsilons"),
    [
        ((0.03, 0.028), 1.0, (660,)),
        ((0.03, 0.03), 0.5, (550,)),
        ((0.08, 0.08), 0.3, (52,)),  # some losses are above 50 and left out of the sums, some are below
        slow((0.08, 0.08), 0.3, (49, 120)),
        slow((0.1, 0.09), 1.0, (5, 45, 60, 100)),
        slow((0.12, 0.1), 0.01, (30, 49, 50, 51, 70)),
        slow((0.05, 0.06), 1.0, (10, 50, 150, 200, 290)),
        slow((0.03, 0.03), 1.0, (300, 550, 650, 700)),
        slow((0.02, 0.02), 1.0, (1240, 1400)),
        slow((0.03, 0.028), 1.0, (550, 700)),
        slow((0.03, 0.035), 0.01, (550, 650)),
    ],
)
def test_large_ratios_against_quadrature(sigmas, share, epsilons):
    steps = tuple((gaussian(sigma), 1) for sigma in sigmas)
    upper, lower, back = (allocated_pass(steps, estimate, share=share) for estimate in Estimate)
    for epsilon in epsilons:
        exact, reverse = two_steps(sigmas, epsilon, share)
        rounded_up = 1 + 1e-15 * len(lower.losses)  # `Loss.delta` errs upwards by this factor
        assert lower.delta(epsilon) <= exact * rounded_up
        assert exact <= upper.delta(epsilon)
        assert back.delta(epsilon) <= reverse * rounded_up
        assert reverse <= upper.swapped.delta(epsilon)
        assert upper.delta(epsilon) - lower.delta(epsilon) <= 6e-2 * exact
        assert upper.swapped.delta(epsilon) <= 1.06 * reverse + 1e-18


@pytest.mark.heavy
def test_what_quadrature_misses_is_no_infinite_loss():
    """17 components on each side: masses sum to 1 - 1.4e-13; once that was a loss of infinity with this chance."""
    chance = Fraction(1, 17)
    pair = MixturePair.of(dict.fromkeys(range(1, 18), chance), dict.fromkeys(range(17), chance), deviation=0.1)
    law = allocated_pass(((pair, 1),), Estimate.LOWER_REVERSED)
    assert law.infinity_mass == 0
    (epsilon,) = epsilon_bounds({law: 1}, delta=1.43e-13, sides=(LOWER,))
    q, p = (partial(_mixture_density, centers=np.arange(17) + first, deviation=0.1) for first in (0, 1))
    delta = quad(lambda x: max(0.0, q(x) - math.exp(epsilon) * p(x)), -2, 0.3, epsabs=0, epsrel=1e-9, limit=400)[0]
    assert 1.43e-13 <= delta <= 1.45e-13


def _mixture_density(x, *, centers, deviation):
    return float(np.exp(-(((x - centers) / deviation) ** 2) / 2).mean() / (deviation * math.sqrt(2 * math.pi)))


@pytest.mark.parametrize("count", [1, 2, 9, 16, 17])
def test_a_sum_is_0_no_more_often_than_all_its_terms_are(count):
    """Read backwards a ratio of 0 is an infinite loss, of which a lower bound may have no more than there is."""
    pair = Loss(losses=(-0.2, 0.3), log_masses=(math.log(0.4), math.log(0.6)))
    zero = 1 - 0.4 * math.exp(0.2) - 0.6 * math.exp(-0.3)
    found = allocated_pass(((pair, count),), Estimate.LOWER_REVERSED).infinity_mass
    assert found <= zero**count * (1 + 1e-12)
