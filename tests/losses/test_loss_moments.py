"""Moments of a loss with very many quadrature nodes, and of mixtures whose components lie far apart."""

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.accountants.rdp import best_epsilon
from dpcalc.losses import quadrature
from dpcalc.losses.pair import MixturePair
from dpcalc.losses.quadrature import LossMoments, loss_moments


def test_many_nodes_and_orders_take_little_memory():
    """A Gaussian loss, K(z) = z (z + 1) mu / 2: all orders at once took half a gigabyte."""
    y = np.linspace(-12.0, 12.0, 100_001)
    mu = 0.5
    mass = -y * y / 2 - np.log(2 * np.pi) / 2 + np.log(y[1] - y[0])
    moments = LossMoments(mass, mu / 2 + np.sqrt(mu) * y, 5.0)
    orders = np.linspace(0.1, 4.0, 50)
    tracemalloc.start()
    values, slopes = moments.cumulants(orders)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert values == pytest.approx(orders * (orders + 1) * mu / 2, rel=1e-10)
    assert slopes == pytest.approx((2 * orders + 1) * mu / 2, rel=1e-10)
    assert peak < 100e6


def test_orders_do_not_depend_on_those_asked_with_them(monkeypatch):
    losses = np.concatenate([np.linspace(-3.0, 6.0, 301), [0.0, 1e-9]])
    moments = LossMoments(-losses * losses - 4.0, losses, 50.0)
    orders = np.geomspace(1e-3, 50.0, 23)
    together = np.array(moments.cumulants(orders))
    one_by_one = [moments.cumulants(order[None]) for order in orders]
    assert np.array_equal(together, np.array(one_by_one)[:, :, 0].T)
    monkeypatch.setattr(quadrature, "_ELEMENTS_AT_ONCE", 5 * losses.size)
    assert np.array_equal(together, np.array(moments.cumulants(orders)))
    assert np.array(moments.cumulants(orders[:0])).shape == (2, 0)


def far_component(rate, sigma, *, distance=1):
    """P = N(0) against Q = (1 - rate) N(0) + rate N(distance): where P is, the loss is -log(1 - rate)."""
    return MixturePair.of({0: Fraction(1)}, {0: 1 - rate, distance: rate}, deviation=sigma)


SIGMAS, RATES = [0.02, 0.05, 0.07, 0.1], [Fraction(1, 10**5), Fraction(1, 1000), Fraction(1, 7)]


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("distance", [1, -1, 3])
def test_truncation_keeps_a_component_that_only_q_has(sigma, rate, distance):
    moments = loss_moments(far_component(rate, sigma, distance=distance), max_order=100.0, truncated_mass=1e-12)
    orders = np.array([0.1, 1.0, 30.0])
    missed = math.erfc(abs(distance) / (2 * sigma) / math.sqrt(2))  # P mass on the other side of the middle
    expected = -orders * math.log1p(-rate)
    assert moments.cumulants(orders)[0] == pytest.approx(expected, rel=1e-9, abs=100 * missed)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("rate", RATES)
def test_upper_bounds_are_above_those_of_one_half_line(sigma, rate):
    """All steps below 1/2: P has at least 1 - n tail there, Q at most ((1 - rate) + rate tail)^n."""
    steps, delta, q = 3000, 1e-6, float(rate)
    tail = math.erfc(1 / (2 * sigma) / math.sqrt(2)) / 2
    below = -steps * math.log1p(-q + q * tail) + math.log(1 - steps * tail - delta)
    counts = {far_component(rate, sigma): steps}
    upper, lower = epsilon_bounds(counts, delta=delta, sides=(UPPER, LOWER))
    assert lower <= upper
    assert upper >= below
    assert lower >= below * (1 - 1e-3)
    assert best_epsilon(counts, delta=delta, truncated_mass=1e-12).value >= below * (1 - 1e-9)
    assert best_epsilon(counts, delta=delta).value >= below
