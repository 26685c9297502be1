"""Roots against functions whose root is known."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from dpcalc.numerics import bracket_root, falling_root, zoomed_minimum

ENDS = (-20.0, 20.0)
FUNCTIONS = {
    "line": (lambda x: 3 - 2 * x, lambda _: -2.0, 1.5),
    "bent": (lambda x: math.exp(-x) - 0.25 - 0.01 * x, lambda x: -math.exp(-x) - 0.01, None),
    "cubic": (lambda x: -((x - 2.25) ** 3) - (x - 2.25), lambda x: -3 * (x - 2.25) ** 2 - 1, 2.25),
    "steep on the left": (lambda x: math.exp(-4 * x) - 1, lambda x: -4 * math.exp(-4 * x), 0.0),
    "flat": (lambda x: -math.atan(x - 7), lambda x: -1 / (1 + (x - 7) ** 2), 7.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_root_of_scipy_is_in_the_bracket(name):
    f, _, _ = FUNCTIONS[name]
    low, high = bracket_root(f, *ENDS, tolerance=1e-12)
    root = brentq(f, *ENDS, xtol=1e-300, rtol=1e-15)
    slack = 1e-14 * abs(root) + 1e-16  # e^-4x - 1 is 0 in floats for x up to 3e-17
    assert low - slack <= root <= high + slack


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("start", [-3.0, 0.5, 9.0])
@pytest.mark.parametrize("derivative", [True, False])
def test_a_falling_function_is_nearly_zero_there(name, start, derivative):
    f, slope, root = FUNCTIONS[name]
    points = []

    def counted(x):
        points.append(x)
        return f(x), slope(x) if derivative else math.nan

    found = falling_root(counted, start, ENDS, value_tolerance=1e-4)
    assert abs(f(found)) < 1e-6
    assert root is None or found == pytest.approx(root, abs=1e-6)
    assert len(points) < 40


@pytest.mark.parametrize(
    ("f", "least"),
    [
        (lambda x: x, (1.0, 1.0)),
        (lambda x: np.where(x == 10.0, -1.0, abs(x - 10.0)), (-1.0, 10.0)),  # a later grid need not have that point
        (lambda x: np.full(x.shape, np.nan), (math.inf, 1.0)),
    ],
)
def test_the_smallest_value_of_all_rounds_is_kept(f, least):
    value, found, _ = zoomed_minimum(f, np.array([1.0, 3.0, 10.0, 30.0, 100.0]), rounds=3, count=4)
    assert (value, found) == least
