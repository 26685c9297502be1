"""Curves of Renyi divergences; amplification from divergences alone is in tests/published/test_subsampled_rdp.py."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.accountants.rdp import best_epsilon
from dpcalc.amplification.counts import CountPair
from dpcalc.amplification.step_pair import step_pair
from dpcalc.errors import InputError
from dpcalc.losses.quadrature import loss_moments
from dpcalc.losses.rdp_curve import RdpCurve, finite_points, poisson_upper
from dpcalc.mechanisms.additive import Laplace, laplace_pair


@pytest.mark.parametrize("pure", [0.5, 2.0])
@pytest.mark.parametrize("order", [2, 3, 8, 40])
def test_bounds_for_laplace_noise(pure, order):
    """Exact divergences of the sampled pair from its distribution; without the factor 3 the bound is exact."""
    rate, z = 0.01, float(order - 1)
    law = ((0, 1 - Fraction(rate)), (1, Fraction(rate)))
    pair = step_pair(CountPair(law=law, shift=1, both_ways=False), lambda _: laplace_pair(pure))
    exact = float(loss_moments(pair, max_order=64.0).cumulants(np.array([z]))[0][0]) / z
    found = poisson_upper(Laplace(noise_multiplier=1 / pure).rdp, rate, order, factor=1.0)
    assert found == pytest.approx(exact, rel=1e-4)
    assert found <= poisson_upper(Laplace(noise_multiplier=1 / pure).rdp, rate, order)


def test_a_curve_is_composed_and_converted_like_any_loss():
    rho = 0.01
    curve = RdpCurve(name="zcdp", points=finite_points(lambda a: rho * a, range(2, 257)))
    best = best_epsilon({curve: 10}, delta=1e-6)
    exact = min(10 * rho * a + math.log1p(-1 / a) - math.log(1e-6 * a) / (a - 1) for a in np.linspace(1.5, 60, 5000))
    assert exact <= best.value <= exact * 1.001


def test_a_truncated_curve_knows_its_end():
    curve = RdpCurve(name="truncated", points=finite_points(lambda a: 0.1 * a if a < 5 else math.inf, range(2, 257)))
    assert len(curve.points) == 3
    value, _ = curve.cumulants(np.array([3.0, 3.1]))
    assert value[0] == pytest.approx(1.2)
    assert value[1] > 1e100
    assert math.isfinite(best_epsilon({curve: 1}, delta=1e-6).value)


@pytest.mark.parametrize(
    "points",
    [
        (),
        ((1.0, 0.1),),
        ((2.0, -0.1),),
        ((2.0, math.inf),),
        ((2.0, math.nan),),
        ((3.0, 0.1), (2.0, 0.2)),
        ((2.0, 0.1), (2.0, 0.2)),
        ((math.inf, 1.0),),
    ],
)
def test_what_is_no_curve_is_refused(points):
    with pytest.raises(InputError, match="rdp curve"):
        RdpCurve(name="wrong", points=points)


def test_between_its_orders_a_curve_is_a_chord_of_log_moments():
    """By hand: z = 1, 3 with K = 0.2, 1.2 make K = 0.7 at z = 2; from 0 to 1 it is a line through 0."""
    curve = RdpCurve(name="two", points=((2.0, 0.2), (4.0, 0.4)))
    found = [curve.rdp(order) for order in (1.5, 2.0, 3.0, 4.0, 4.1)]
    assert found == pytest.approx([0.2, 0.2, 0.35, 0.4, math.inf])
    hump = RdpCurve(name="a point above the chord of others", points=((2.0, 0.2), (3.0, 0.9), (4.0, 1.0)))
    assert hump.rdp(3.0) == pytest.approx((0.2 + 3) / 4)


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=2, max_size=6),
    st.lists(st.floats(1.05, 12), min_size=1, max_size=5, unique=True),
    st.floats(1.01, 12),
)
def test_curves_are_above_the_divergences_they_are_made_from(weights, orders, order):
    """Renyi divergences of two distributions on a few points, summed directly."""
    p, q = (np.array(side) / sum(side) for side in zip(*weights, strict=True))

    def exact(a):
        return max(0.0, math.log((p**a * q ** (1 - a)).sum()) / (a - 1))

    curve = RdpCurve(name="points", points=finite_points(exact, sorted(orders)))
    assert curve.rdp(order) >= exact(order) * (1 - 1e-9) - 1e-12
