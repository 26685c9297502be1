"""Moments of a loss with very many quadrature nodes."""

import tracemalloc

import numpy as np
import pytest

from dpcalc.losses import quadrature
from dpcalc.losses.quadrature import LossMoments


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
