"""Own numerics against mpmath and against the SciPy functions that do the same."""

import math

import mpmath
import numpy as np
import pytest
from scipy import special

from dpcalc.numerics import (
    LOG_CDF_ERROR,
    gauss_legendre_panels,
    mills_ratio,
    normal_cdf,
    normal_log_cdf,
    normal_log_cdf_array,
    normal_quantile_array,
)

POINTS = [*np.linspace(-60, 10, 141), -900.0, -500.0, -88.2, -37.0, -36.99, -1e-9, 0.0, 8.999, 9.001, 9.3, 40.0]


@pytest.mark.parametrize("x", [-37.5, -20.0, -4.1, -3.9, -1.0, 0.0, 0.5, 4.0, 8.2, 40.0])
def test_numbers_are_those_of_scipy(x):
    assert normal_cdf(x) == pytest.approx(float(special.ndtr(x)), rel=4e-16 * (1 + x * x), abs=1e-300)
    assert normal_log_cdf(x) == pytest.approx(float(special.log_ndtr(x)), rel=4e-15)
    assert mills_ratio(x) == pytest.approx(
        math.sqrt(math.pi / 2) * float(special.erfcx(x / math.sqrt(2))), rel=2e-15 * (1 + (x * x if x < 4 else 0))
    )


@mpmath.workdps(40)
def test_log_probabilities_and_quantiles():
    """Arrays are SciPy's: a version of it with larger errors than callers allow for fails here."""
    exact = [mpmath.log(mpmath.ncdf(mpmath.mpf(x))) for x in POINTS]
    errors = [abs(value - each) for value, each in zip(normal_log_cdf_array(np.array(POINTS)), exact, strict=True)]
    assert max(errors) < LOG_CDF_ERROR
    assert max(error for x, error in zip(POINTS, errors, strict=True) if abs(x) <= 60) < LOG_CDF_ERROR / 2
    for log_mass in [-1e-12, -0.7, -5.0, *-np.geomspace(1e-10, 2000.0, 60)]:
        quantile = mpmath.mpf(float(normal_quantile_array(np.array([log_mass]))[0]))
        mass = mpmath.exp(mpmath.mpf(float(log_mass)))
        assert abs(mpmath.ncdf(quantile) / mass - 1) < LOG_CDF_ERROR
        assert log_mass < -700 or abs(mpmath.ncdf(quantile) - mass) < 1e-4 * min(mass, 1 - mass)
    assert math.isfinite(normal_log_cdf(-1e150))


@pytest.mark.parametrize("order", [3, 6, 8])
def test_gauss_legendre_nodes_are_those_of_scipy(order):
    nodes, log_weights = gauss_legendre_panels(np.array([-1.0, 1.0]), order=order)
    expected_nodes, expected_weights = special.roots_legendre(order)
    np.testing.assert_allclose(nodes, expected_nodes, rtol=0, atol=1e-15)
    np.testing.assert_allclose(log_weights, np.log(expected_weights), rtol=0, atol=4e-14)
