"""Certified ends against the Gaussian mechanism at fifty digits: both contain it, for any number of steps."""

import math
from fractions import Fraction
from itertools import product

import pytest

from dpcalc.accountants.inversion import inversion
from dpcalc.accountants.pld import LOWER, UPPER, interval
from dpcalc.accountants.rdp import rdp
from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.curves.privacy_profile import GluedProfile

from .exact_gaussian import exact_epsilon

STEPS = (1, 2, 3, 10, 100, 10**4, 10**6, 10**8)
SPREADS = (0.01, 0.1, 1.0, 3.0, 10.0)
DELTAS = (1e-1, 1e-3, 1e-5, 1e-8, 1e-12, 1e-16, 1e-20, 1e-25, 1e-30)
SIZES = list(product(STEPS, SPREADS, DELTAS))
GOLDEN = {1e-8: 5.77610, 1e-10: 6.54792, 1e-12: 7.23849, 1e-13: 7.56020}


def one_step(sigma):
    return MixturePair.of({0: Fraction(1)}, {1: Fraction(1)}, deviation=sigma)


def glued(sigma):
    return GluedProfile(own=one_step(sigma), other=one_step(sigma), shift=1.0)


def bracket(curve, steps, spread, delta):
    sigma = math.sqrt(steps) / spread
    exact = exact_epsilon(steps, sigma, delta)
    upper, lower = interval({curve(sigma): steps}, delta=delta, sides=(UPPER, LOWER))
    assert lower <= exact <= upper, (steps, spread, delta)
    assert upper - lower <= max(1e-3 * exact, 1e-6)
    assert exact <= rdp({curve(sigma): steps}, delta=delta).epsilon
    return exact


@pytest.mark.parametrize(("steps", "spread", "delta"), SIZES[::8] + SIZES[3::31])
def test_the_exact_gaussian_is_inside(steps, spread, delta):
    bracket(glued, steps, spread, delta)


@pytest.mark.slow
@pytest.mark.parametrize("curve", [one_step, glued])
@pytest.mark.parametrize(("steps", "spread", "delta"), SIZES)
def test_the_exact_gaussian_is_inside_everywhere(curve, steps, spread, delta):
    bracket(curve, steps, spread, delta)


@pytest.mark.parametrize("delta", GOLDEN)
def test_known_tools_miss_these_and_we_do_not(delta):
    for steps in (1, 1000, 100_000):
        assert float(bracket(glued, steps, 1.0, delta)) == pytest.approx(GOLDEN[delta], abs=5e-6)


@pytest.mark.parametrize("steps", [10, 1000, 10**8])
@pytest.mark.parametrize("delta", [1e-3, 1e-10, 1e-25])
def test_inversion_gives_the_exact_gaussian(steps, delta):
    sigma = math.sqrt(steps) / 1.5
    exact = float(exact_epsilon(steps, sigma, delta))
    assert inversion({glued(sigma): steps}, delta=delta) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("parts", [(1,) * 20, (3, 7, 90), (1, 10**4, 10**6), (5, 5)])
def test_several_phases_of_different_noise_are_one_gaussian(parts):
    """Phases with mu_i = i-th of a spread compose to sqrt(sum mu_i^2)."""
    spreads = [0.1 * (1 + 0.37 * i) for i in range(len(parts))]
    sigmas = [math.sqrt(count) / spread for count, spread in zip(parts, spreads, strict=True)]
    exact = exact_epsilon(1, 1 / math.sqrt(sum(c / s**2 for c, s in zip(parts, sigmas, strict=True))), 1e-9)
    counts = {glued(sigma): count for sigma, count in zip(sigmas, parts, strict=True)}
    upper, lower = interval(counts, delta=1e-9, sides=(UPPER, LOWER))
    assert lower <= exact <= upper
    assert upper - lower <= 1e-3 * exact
