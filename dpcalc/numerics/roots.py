"""Bracketed roots of one variable."""

import math
from collections.abc import Callable

_LONGEST = -math.log(2), math.log(8)  # steps away from what is known, of falling_root


def bracket_root(f: Callable[[float], float], low: float, high: float, *, tolerance: float) -> tuple[float, float]:
    """Shrinks a bracket around a sign change by Chandrupatla's method.

    Args:
        f: continuous; f(low) and f(high) have different signs (0 counts as that of `high`).
        low: one end.
        high: the other end, greater.
        tolerance: largest width of the result, relative to the larger end plus the tiniest float.

    Returns:
        (low, high) with the signs the ends had, high - low within the tolerance: the caller takes the safe side.

    References:
        Chandrupatla 1997, Advances in Engineering Software 28(3), 145-149.
    """
    a, b = high, low
    fa, fb = f(a), f(b)
    c, fc, t = a, fa, 0.5
    while True:
        near = abs(a - b)
        if near <= tolerance * max(abs(a), abs(b)) + 1e-300:
            break
        x = a + t * (b - a)
        fx = f(x)
        if (fx > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, b, fc, fb = b, a, fb, fa
        a, fa = x, fx
        t = _next_fraction((a, b, c), (fa, fb, fc))
        smallest = 0.25 * tolerance * max(abs(a), abs(b)) / max(abs(b - a), 1e-300)
        t = min(1 - smallest, max(smallest, t)) if smallest < 0.5 else 0.5
    return min(a, b), max(a, b)


def falling_root(
    f: Callable[[float], tuple[float, float]], start: float, ends: tuple[float, float], *, tolerance: float
) -> float:
    """Where a smooth falling function is nearly 0, by inverse interpolation with its derivatives.

    Steps to the left are short: there, the functions this is for rise ever faster and cost more.

    Args:
        f: (value, derivative; nan where it is not known) at a point.
        start: where to begin.
        ends: where to search, (low, high).
        tolerance: how far from 0 the last value may be, > 0; the point that is returned lies one step further, so that
            f there is smaller by far.

    Returns:
        The point, or an end where f does not change sign before.
    """
    low, high = -math.inf, math.inf
    known: list[tuple[float, float, float]] = []
    x = start
    while True:
        value, slope = f(x)
        known.append((value, x, slope if slope < 0 else math.nan))
        low, high = (x, high) if value > 0 else (low, x)
        guess = _inverse_at_zero(known[-3:])
        inside = low < guess < high
        if abs(value) <= tolerance:
            return guess if inside else x
        if not inside or (len(known) > 4 and abs(value) > abs(known[-2][0]) / 2):
            guess = (low + high) / 2 if math.isfinite(low + high) else x + _LONGEST[value > 0]
        guess = min(max(guess, x + _LONGEST[0]), x + _LONGEST[1])
        if guess in {low, high} or x == ends[value > 0]:
            return x
        x = min(max(guess, ends[0]), ends[1])


def _inverse_at_zero(known: list[tuple[float, float, float]]) -> float:
    """The point at value 0 of the polynomial through (value, point, derivative or nan), by Newton's differences."""
    if len(known) == 1 and math.isnan(known[0][2]):
        return known[0][1] + known[0][0]
    nodes = [one for one in known for _ in range(1 if math.isnan(one[2]) else 2)]
    values, column = [value for value, _, _ in nodes], [point for _, point, _ in nodes]
    result, product = column[0], 1.0
    for order in range(1, len(nodes)):
        column = [
            _difference(values[i], values[i + order], column[i], column[i + 1], nodes[i][2])
            for i in range(len(nodes) - order)
        ]
        product *= -values[order - 1]
        result += product * column[0]
    return result


def _difference(first: float, last: float, low: float, high: float, slope: float) -> float:
    """A divided difference; of one point taken twice, the derivative of the inverse."""
    if first != last:
        return (high - low) / (last - first)
    return 1 / slope if low == high else math.nan


def _next_fraction(points: tuple[float, float, float], values: tuple[float, float, float]) -> float:
    """Where between a and b to look next: inverse quadratic interpolation where it is safe, else the middle."""
    (a, b, c), (fa, fb, fc) = points, values
    if fa in {fb, fc} or fb == fc or c == b:
        return 0.5
    xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if phi * phi < xi and (1 - phi) ** 2 < 1 - xi:
        return fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return 0.5
