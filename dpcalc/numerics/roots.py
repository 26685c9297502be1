"""Roots and minima of functions of one real variable: certified brackets, a quick approximate root, a minimum."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from dpcalc.arrays import Array

# Longest extrapolations of `falling_root`; its variable is a logarithm, so at most half and eight times the value. Ten
# times longer steps to the left end where moments are expensive; tests/numerics/test_roots.py bounds the evaluations.
_MAX_STEP_LEFT, _MAX_STEP_RIGHT = -math.log(2), math.log(8)


def bracket_root(f: Callable[[float], float], low: float, high: float, *, tolerance: float) -> tuple[float, float]:
    """Return a narrow bracket (left, right) of a sign change of f, by Chandrupatla's method."""
    # Source: Chandrupatla 1997, Advances in Engineering Software 28(3), 145-149.
    # a is the newest point, b the end of the bracket opposite to it, c the point before; t is the place of the next
    # one between a and b. The rounded width ends the loop also where the root is 0: hence the tiny absolute term.
    a, b = high, low
    fa, fb = f(a), f(b)
    c, fc, t = a, fa, 0.5
    while True:
        if abs(a - b) <= tolerance * max(abs(a), abs(b)) + 1e-300:
            break
        x = a + t * (b - a)
        fx = f(x)
        if (fx > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, b, fc, fb = b, a, fb, fa
        a, fa = x, fx
        t = 0.5  # or by inverse interpolation where that is safe
        if fa not in {fb, fc} and fb != fc and c != b:
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            if phi * phi < xi and (1 - phi) ** 2 < 1 - xi:
                t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        min_fraction = 0.25 * tolerance * max(abs(a), abs(b)) / max(abs(b - a), 1e-300)
        t = min(1 - min_fraction, max(min_fraction, t)) if min_fraction < 0.5 else 0.5
    return min(a, b), max(a, b)


def falling_root(
    f: Callable[[float], tuple[float, float]], start: float, ends: tuple[float, float], *, value_tolerance: float
) -> float:
    """Return an approximate root of a falling function; the end of `ends` nearest to the root if it lies outside."""
    low, high = -math.inf, math.inf
    samples: list[Sample] = []
    x = start
    while True:
        value, slope = f(x)
        samples.append((value, x, slope if slope < 0 else math.nan))
        low, high = (x, high) if value > 0 else (low, x)
        # The inverse function is interpolated: it gives the next point at once, without a root of a polynomial.
        has_nodes = len(samples) > 1 or slope < 0
        guess = inverse_at_zero(samples[-3:]) if has_nodes else x + value
        inside = low < guess < high
        if abs(value) <= value_tolerance:
            return guess if inside else x
        # Interpolation also fails where it no longer halves the value (infinite values, steps).
        if not inside or (len(samples) > 4 and abs(value) > abs(samples[-2][0]) / 2):
            # The middle of the bracket or, if an end is infinite, a step towards the root.
            step = _MAX_STEP_RIGHT if value > 0 else _MAX_STEP_LEFT
            guess = (low + high) / 2 if math.isfinite(low + high) else x + step
        guess = min(max(guess, x + _MAX_STEP_LEFT), x + _MAX_STEP_RIGHT)
        if guess in {low, high} or x == ends[value > 0]:
            return x
        x = min(max(guess, ends[0]), ends[1])


Sample = tuple[float, float, float]
"""A function's value, the point where it was taken, and the derivative there, NaN if it is not known."""


def inverse_at_zero(samples: list[Sample]) -> float:
    """Return the point at which the value is 0, by inverse Hermite interpolation of the samples."""
    nodes = [sample for sample in samples for _ in range(1 if math.isnan(sample[2]) else 2)]
    values, column = [value for value, _, _ in nodes], [point for _, point, _ in nodes]
    result, product = column[0], 1.0
    for order in range(1, len(nodes)):
        differences = []  # divided; 1 / slope for two equal nodes, NaN for equal values elsewhere
        for i, (low, high) in enumerate(pairwise(column)):
            first, last = values[i], values[i + order]
            if first != last:
                differences.append((high - low) / (last - first))
            else:
                differences.append(1 / nodes[i][2] if low == high else math.nan)
        column = differences
        product *= -values[order - 1]
        result += product * column[0]
    return result


def zoomed_minimum(
    f: Callable[[Array], Array], points: Array, *, rounds: int, count: int
) -> tuple[float, float, tuple[float, float]]:
    """Return (smallest value of f, its place, neighbours of that on the last grid)."""
    # Over `points` > 0 and `rounds` - 1 finer grids around the best point.
    # Each round evaluates some points at once and goes on between the two neighbours of the best one. For bounds that
    # hold at every order: whatever place is found, the value there is a bound.
    smallest, place = math.inf, float(points[0])
    for _ in range(rounds):
        values = f(points)
        best = int(np.argmin(np.where(np.isnan(values), math.inf, values)))
        if values[best] < smallest:
            smallest, place = float(values[best]), float(points[best])
        low, high = float(points[max(best - 1, 0)]), float(points[min(best + 1, points.size - 1)])
        points = np.geomspace(low, high, count)
    return smallest, place, (low, high)
