"""Roots against functions whose root is known."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from dpcalc.numerics.roots import bracket_root, falling_root, zoomed_minimum

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


def counted(f, slope):
    """The function with its derivative, or nan, and the points where it was asked for."""
    points = []

    def both(x):
        points.append(x)
        return f(x), slope(x)

    return both, points


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("start", [-3.0, 0.5, 9.0])
@pytest.mark.parametrize("derivative", [True, False])
def test_a_falling_function_is_nearly_zero_there(name, start, derivative):
    f, slope, root = FUNCTIONS[name]
    both, points = counted(f, slope if derivative else lambda _: math.nan)
    found = falling_root(both, start, ENDS, value_tolerance=1e-4)
    assert abs(f(found)) < 1e-6
    if root is not None:
        assert found == pytest.approx(root, abs=1e-6)
    assert len(points) < 40


def test_derivatives_save_questions():
    f, slope, _ = FUNCTIONS["bent"]
    with_slope, asked = counted(f, slope)
    without, asked_more = counted(f, lambda _: math.nan)
    falling_root(with_slope, 0.0, ENDS, value_tolerance=1e-4)
    falling_root(without, 0.0, ENDS, value_tolerance=1e-4)
    assert len(asked) < len(asked_more)


@pytest.mark.parametrize(("value", "end"), [(1.0, ENDS[1]), (-1.0, ENDS[0])])
def test_without_a_sign_change_the_end_is_returned(value, end):
    assert falling_root(lambda _: (value, math.nan), 0.0, ENDS, value_tolerance=1e-4) == end


@pytest.mark.parametrize("start", ENDS)
def test_a_search_may_begin_at_an_end(start):
    assert falling_root(lambda x: (2 - x, -1.0), start, ENDS, value_tolerance=1e-9) == pytest.approx(2, abs=1e-9)


def test_a_step_and_infinite_values_are_bisected():
    def f(x):
        return (math.inf if x < 1.25 else -1.0), math.nan

    assert falling_root(f, 0.0, ENDS, value_tolerance=1e-4) == pytest.approx(1.25, rel=1e-12)


def test_a_bracket_keeps_the_signs_of_its_ends():
    low, high = bracket_root(lambda x: x * x - 2, 0.0, 2.0, tolerance=1e-12)
    assert low * low <= 2 <= high * high
    assert high - low <= 1e-12 * high


@pytest.mark.parametrize("place", [1e-3, 0.7, 25.0, 1e5])
def test_a_minimum_is_found_next_to_its_place(place):
    with np.errstate(invalid="ignore"):
        value, found, (low, high) = zoomed_minimum(
            lambda x: np.where(x > 1e7, np.nan, (np.log(x) - math.log(place)) ** 2 - 2),
            np.geomspace(1e-5, 1e9, 64),
            rounds=6,
            count=8,
        )
    assert -2 <= value < -2 + 1e-6
    assert low <= found <= high
    assert found == pytest.approx(place, rel=1e-3)
    assert low <= place <= high


def test_a_minimum_at_an_end_is_found():
    value, found, _ = zoomed_minimum(lambda x: x, np.geomspace(1.0, 10.0, 5), rounds=3, count=5)
    assert (value, found) == (1.0, 1.0)


def test_the_smallest_value_of_all_rounds_is_kept():
    """A later grid need not have the best point of an earlier one."""
    points = np.geomspace(1.0, 100.0, 5)
    best = float(points[2])
    value, found, _ = zoomed_minimum(lambda x: np.where(x == best, -1.0, abs(x - best)), points, rounds=3, count=4)
    assert (value, found) == (-1.0, best)


def test_infinite_everywhere_has_no_better_place():
    value, found, _ = zoomed_minimum(lambda x: np.full(x.shape, np.nan), np.geomspace(1, 8, 4), rounds=2, count=4)
    assert (value, found) == (math.inf, 1.0)
