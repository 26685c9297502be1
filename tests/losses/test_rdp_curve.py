"""Amplification from Renyi divergences alone, against the exact divergences of sampled Gaussian noise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.accountants.rdp import best_epsilon
from dpcalc.amplification.counts import CountPair
from dpcalc.amplification.step_pair import step_pair
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.losses.quadrature import loss_moments
from dpcalc.losses.rdp_curve import RdpCurve, finite_points, fixed_size_lower, fixed_size_upper, poisson_upper
from dpcalc.mechanisms.additive import laplace_pair, laplace_rdp
from dpcalc.mechanisms.black_box import pure_dp_rdp

RATE = 0.01


def gaussian(sigma):
    return lambda order: order / (2 * sigma**2)


def sampled_gaussian(sigma, order):
    """Mironov, Talwar, Zhang 2019 (1908.10530v1), section 3.3: whole orders, Poisson, add-remove."""
    terms = [
        math.lgamma(order + 1)
        - math.lgamma(k + 1)
        - math.lgamma(order - k + 1)
        + (order - k) * math.log1p(-RATE)
        + k * math.log(RATE)
        + k * (k - 1) / (2 * sigma**2)
        for k in range(order + 1)
    ]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 5.0])
@pytest.mark.parametrize("order", [2, 3, 8, 40])
def test_poisson_bounds_hold_for_gaussian_noise(sigma, order):
    exact = sampled_gaussian(sigma, order)
    sharp = poisson_upper(gaussian(sigma), RATE, order, factor=1.0)
    assert sharp == pytest.approx(exact, rel=1e-9)
    assert sharp <= poisson_upper(gaussian(sigma), RATE, order)


@pytest.mark.parametrize("pure", [0.5, 2.0])
@pytest.mark.parametrize("order", [2, 3, 8, 40])
def test_bounds_for_laplace_noise(pure, order):
    """Exact divergences of the sampled pair from its distribution; without the factor 3 the bound is exact."""
    z = float(order - 1)
    law = ((0, 1 - Fraction(RATE)), (1, Fraction(RATE)))
    pair = step_pair(CountPair(law=law, shift=1, both_ways=False), lambda _: laplace_pair(pure))
    exact = float(loss_moments(pair, max_order=64.0).cumulants(np.array([z]))[0][0]) / z
    found = poisson_upper(lambda a: laplace_rdp(pure, a), RATE, order, factor=1.0)
    assert found == pytest.approx(exact, rel=1e-4)
    assert found <= poisson_upper(lambda a: laplace_rdp(pure, a), RATE, order)


def divergence(p, q, order):
    logs = order * np.log(p) + (1 - order) * np.log(q)
    return float(np.logaddexp.reduce(logs)) / (order - 1)


def random_laws(rng, number):
    """Laws on two or three points, some of them far apart, no mass below e^-12."""
    logs = rng.choice([0.3, 1.0, 4.0]) * rng.normal(size=(number, int(rng.integers(2, 4))))
    weights = np.exp(np.clip(logs, -6, 6))
    return weights / weights.sum(axis=1, keepdims=True)


def known_signs(laws, order):
    """Whether all odd moments of p/q - 1 up to an order are at least 0, in both orders."""
    pairs = [(laws[0], laws[1]), (laws[1], laws[0])]
    return all((q * (p / q - 1) ** j).sum() >= 0 for p, q in pairs for j in range(3, order + 1, 2))


def test_no_laws_on_few_points_are_above_the_bounds_of_draws():
    """Any laws of the batch with the unit, without it, and with another in its place, each within rdp of the others."""
    rng, nearest = np.random.default_rng(1), {3.0: 0.0, 1.0: 0.0, "fixed": 0.0}
    for _ in range(1500):
        laws, order, rate = random_laws(rng, 3), int(rng.integers(2, 7)), float(np.exp(rng.uniform(-5, -0.1)))
        some = {3.0: laws[:2], 1.0: laws[:2], "fixed": laws}
        for name, told in some.items():
            if name == 1.0 and not known_signs(told, order):
                continue

            def rdp(at, told=told):
                if math.isinf(at):
                    return float(max(np.log(p / q).max() for p in told for q in told))
                return max(divergence(p, q, at) for p in told for q in told)

            with_it, without = (rate * one + (1 - rate) * told[-1] for one in told[:2])
            first, second = (with_it, without) if name == "fixed" else (with_it, told[-1])
            found = max(divergence(first, second, order), divergence(second, first, order))
            bound = (
                fixed_size_upper(rdp, rate, order) if name == "fixed" else poisson_upper(rdp, rate, order, factor=name)
            )
            if found > 1e-7:
                assert found <= bound * (1 + 1e-7)
                nearest[name] = max(nearest[name], found / bound)
    assert min(nearest.values()) > 0.9, nearest


@pytest.mark.parametrize("order", [2, 3, 8, 40])
@pytest.mark.parametrize("rdp", [gaussian(5.0), gaussian(0.5), lambda a: pure_dp_rdp(1.0, a)])
def test_upper_bounds_are_above_lower_ones(rdp, order):
    assert 0 < fixed_size_lower(rdp, RATE, order) <= fixed_size_upper(rdp, RATE, order) <= rdp(float(order)) * 1.5


def test_amplification_is_of_second_order_in_the_rate():
    values = [fixed_size_upper(gaussian(5.0), rate, 2) for rate in (1e-2, 1e-3)]
    assert values[0] / values[1] == pytest.approx(100, rel=0.01)


def test_a_curve_is_composed_and_converted_like_any_loss():
    rho = 0.01
    curve = RdpCurve(name="zcdp", points=finite_points(lambda a: rho * a, range(2, 257)))
    best = best_epsilon({curve: 10}, delta=1e-6)
    exact = min(10 * rho * a + math.log1p(-1 / a) - math.log(1e-6 * a) / (a - 1) for a in np.linspace(1.5, 60, 5000))
    assert exact <= best.value <= exact * 1.001
    with pytest.raises(UnsupportedError, match="use rdp"):
        curve.cumulants_on_line(1.0, step=0.1, count=4)


def test_a_truncated_curve_knows_its_end():
    curve = RdpCurve(name="truncated", points=finite_points(lambda a: 0.1 * a if a < 5 else math.inf, range(2, 257)))
    assert curve.size == 3
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
    assert [curve.rdp(order) for order in (2.0, 3.0, 4.0)] == pytest.approx([0.2, 0.35, 0.4])
    assert curve.rdp(1.5) == pytest.approx(0.2)
    assert curve.rdp(4.1) == math.inf


def test_a_point_above_the_chord_of_others_is_of_no_use():
    assert RdpCurve(name="hump", points=((2.0, 0.2), (3.0, 0.9), (4.0, 1.0))).rdp(3.0) == pytest.approx((0.2 + 3) / 4)


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
