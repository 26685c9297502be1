"""Amplification from Renyi divergences alone, against the exact divergences of sampled Gaussian noise."""

import math

import numpy as np
import pytest

from dpcalc.accountants.conversion import best_epsilon
from dpcalc.curves.loss_moments import loss_moments
from dpcalc.curves.rdp_curve import RdpCurve, fixed_size_lower, fixed_size_upper, poisson_upper, whole_orders
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.mechanisms.approximate_dp import approximate_dp_rdp
from dpcalc.mechanisms.laplace import laplace_pair, laplace_rdp
from dpcalc.release.black_box import hidden

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
    sharp = poisson_upper(gaussian(sigma), RATE, order, signs_known=1.0)
    assert sharp == pytest.approx(exact, rel=1e-9)
    assert sharp <= poisson_upper(gaussian(sigma), RATE, order)


@pytest.mark.parametrize("pure", [0.5, 2.0])
@pytest.mark.parametrize("order", [2, 3, 8, 40])
def test_bounds_for_laplace_noise(pure, order):
    """Exact divergences of the sampled pair from its distribution; without the factor 3 the bound is exact."""
    z = float(order - 1)
    pair = hidden(laplace_pair(pure), RATE)
    exact = float(loss_moments(pair, max_order=64.0).cumulants(np.array([z]))[0][0]) / z
    found = poisson_upper(lambda a: laplace_rdp(pure, a), RATE, order, signs_known=1.0)
    assert found == pytest.approx(exact, rel=1e-4)
    assert found <= poisson_upper(lambda a: laplace_rdp(pure, a), RATE, order)


@pytest.mark.parametrize("order", [2, 3, 8, 40])
@pytest.mark.parametrize("rdp", [gaussian(5.0), gaussian(0.5), lambda a: approximate_dp_rdp(1.0, a)])
def test_upper_bounds_are_above_lower_ones(rdp, order):
    assert 0 < fixed_size_lower(rdp, RATE, order) <= fixed_size_upper(rdp, RATE, order) <= rdp(float(order)) * 1.5


def test_amplification_is_of_second_order_in_the_rate():
    values = [fixed_size_upper(gaussian(5.0), rate, 2) for rate in (1e-2, 1e-3)]
    assert values[0] / values[1] == pytest.approx(100, rel=0.01)


def test_a_curve_is_composed_and_converted_like_any_loss():
    rho = 0.01
    curve = RdpCurve(name="zcdp", values=whole_orders(lambda a: rho * a))
    best = best_epsilon({curve: 10}, delta=1e-6)
    exact = min(10 * rho * a + math.log1p(-1 / a) - math.log(1e-6 * a) / (a - 1) for a in np.linspace(1.5, 60, 5000))
    assert exact <= best.value <= exact * 1.001
    with pytest.raises(UnsupportedError, match="use rdp"):
        curve.cumulants_on_line(1.0, step=0.1, count=4)


def test_a_truncated_curve_knows_its_end():
    curve = RdpCurve(name="truncated", values=whole_orders(lambda a: 0.1 * a if a < 5 else math.inf))
    assert curve.size == 3
    value, _ = curve.cumulants(np.array([3.0, 3.1]))
    assert value[0] == pytest.approx(1.2)
    assert value[1] > 1e100
    assert math.isfinite(best_epsilon({curve: 1}, delta=1e-6).value)


@pytest.mark.parametrize("values", [(), (math.inf,), (2.0, 1.0), (-1.0,), (1.0, math.inf, 2.0)])
def test_what_is_no_curve_is_refused(values):
    with pytest.raises(InputError, match="rdp curve"):
        RdpCurve(name="wrong", values=values)
