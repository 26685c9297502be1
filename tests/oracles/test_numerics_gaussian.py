"""Certified ends against the Gaussian mechanism at fifty digits: both contain it, for any number of steps."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from dpcalc.accountants.closed_forms import gaussian_epsilon
from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.inversion import inversion
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds, grid_epsilon_bounds
from dpcalc.accountants.rdp import rdp
from dpcalc.losses.loss import of_two_halves
from dpcalc.losses.moments import loss_moments
from dpcalc.losses.pair import MixturePair
from tests.oracles.exact_gaussian import exact_epsilon

STEPS = (1, 2, 3, 10, 100, 10**4, 10**6, 10**8)
SPREADS = (0.01, 0.1, 1.0, 3.0, 10.0)
DELTAS = (1e-1, 1e-3, 1e-5, 1e-8, 1e-12, 1e-16, 1e-20, 1e-25, 1e-30)
SIZES = list(product(STEPS, SPREADS, DELTAS))
GOLDEN = {1e-8: 5.77610, 1e-10: 6.54792, 1e-12: 7.23849, 1e-13: 7.56020}


def one_step(sigma):
    return MixturePair.of({0: Fraction(1)}, {1: Fraction(1)}, deviation=sigma)


def glued(sigma):
    return of_two_halves(own=one_step(sigma), other=one_step(sigma), ends=(0.5, 0.5))


def contained(counts, exact, delta):
    """The formula and the lattices, which the formula spares."""
    for width, (upper, lower) in (
        (1e-8, epsilon_bounds(counts, delta=delta, sides=(UPPER, LOWER))),
        (1e-3, grid_epsilon_bounds(counts, delta, (UPPER, LOWER))),
    ):
        assert lower <= exact <= upper, (counts, delta)
        assert upper - lower <= max(width * exact, 1e-3 * width)


def bracket(curve, steps, spread, delta):
    sigma = math.sqrt(steps) / spread
    exact = exact_epsilon(steps, sigma, delta)
    contained({curve(sigma): steps}, exact, delta)
    assert exact <= rdp({curve(sigma): steps}, delta=delta).epsilon
    return exact


@pytest.mark.parametrize(("steps", "spread", "delta"), SIZES[::16] + SIZES[3::31])
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
    contained(counts, exact, 1e-9)


def test_what_is_sampled_has_no_formula():
    half = {0: Fraction(1, 2), 1: Fraction(1, 2)}
    sampled = MixturePair.of(half, {0: Fraction(1)}, deviation=1.0)
    for counts in ({sampled: 1}, {one_step(1.0): 1, sampled: 1}):
        assert gaussian_epsilon(counts, delta=1e-5, is_upper=True) is None
        assert gaussian_epsilon(counts, delta=1e-5, is_upper=False) is None


@pytest.mark.parametrize("is_upper", [True, False])
def test_without_any_loss_beyond_delta_the_formula_gives_nothing(is_upper):
    assert gaussian_epsilon({glued(1e6): 1}, delta=0.1, is_upper=is_upper) == 0


@pytest.mark.parametrize("sigma", [1e-6, 1e-4, 1e-2])
def test_moments_of_a_step_with_next_to_no_noise(sigma):
    """P and Q have nothing in common but the share of D' in D: with z = 1 the moment is (1 - q) + q e^{1 / sigma^2}."""
    q = Fraction(1, 100)
    pair = MixturePair.of({0: 1 - q, 1: q}, {0: Fraction(1)}, deviation=sigma)
    order = sigma**2
    moments = loss_moments(pair, max_order=order)
    value, _ = moments.cumulants(np.array([order]))
    assert moments.size < 10_000  # it was 400,000 with panels as fine as a power of P/Q above 1 needs
    with mpmath.workdps(40):
        # E_Q[(P/Q)^(1 + z)]: where N(1) is drawn P/Q is q e^{(y - 1/2) / sigma^2}, elsewhere 1 - q
        z, s, share = mpmath.mpf(order), mpmath.mpf(sigma), mpmath.mpf(1) / 100
        drawn = share ** (1 + z) * mpmath.exp(z * (1 + z) / (2 * s**2))
        exact = float(mpmath.log((1 - share) ** (1 + z) + drawn))
    assert float(value[0]) == pytest.approx(exact, rel=1e-9 + 2.0**-53 / sigma**2)  # exponents are rounded to doubles


@pytest.mark.parametrize(
    ("sigma", "steps", "epsilon"), [(0.726, 20, 0.0), (0.726, 20, 10.0), (1.0, 50, 5.0), (2.1, 173, 0.0)]
)
def test_delta_near_1_has_close_bounds(sigma, steps, epsilon):
    """Against delta = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu), mu^2 = steps / sigma^2."""
    pair = MixturePair.of({0: Fraction(1)}, {1: Fraction(1)}, deviation=sigma)
    with mpmath.workdps(50):
        mu = mpmath.sqrt(steps) / mpmath.mpf(sigma)
        ahead, back = (mpmath.ncdf(sign * mu / 2 - epsilon / mu) for sign in (1, -1))
        exact = ahead - mpmath.exp(epsilon) * back
    upper, lower = delta_bounds({pair: steps}, epsilon=epsilon, sides=(UPPER, LOWER))
    assert lower <= exact <= upper
    assert upper - lower <= 1e-3 * float(exact)
