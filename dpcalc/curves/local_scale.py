"""How finely the line must be cut for a mixture to be smooth in each cell."""

import math

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.errors import ConvergenceError

Array = NDArray[np.float64]

_LOG_PRESENT = math.log(1e-13)  # share of a density below which a component is not felt
_NEAR = 50.0  # deviations from a center within which rough points are half a deviation apart
_MOST_ROUGH = 100_000
_MOST_POINTS = 1 << 20  # 100 MB in all; runs with less noise than that allows are bounded by moments


def rough_points(pair: MixturePair, low: float, high: float) -> Array:
    """Points from low to high, close enough to find where densities matter.

    They are at most half a deviation apart. Where that would be too many, they are so near the centers, and further
    away at most a hundredth of the distance from the nearest center apart.
    """
    number = max(8, math.ceil(2 * (high - low) / pair.deviation))
    if number <= _MOST_ROUGH:
        return np.linspace(low, high, number + 1)
    doublings = math.log((high - low) / pair.deviation) - math.log(_NEAR)
    near, far = np.arange(0.0, _NEAR, 0.5), _NEAR * np.exp(np.arange(0.0, max(doublings, 0.0) + 0.01, 0.01))
    away = np.concatenate([near, far]) * pair.deviation
    around = [c + sign * away for c in pair.centers for sign in (1, -1)]
    points: Array = np.sort(np.concatenate([*around, [low, high]]))
    points = points[(points >= low) & (points <= high)]
    rough: Array = points[np.append(True, np.diff(points) > 1e-9 * pair.deviation)]
    return rough


def scales(pair: MixturePair, y: Array, *, order: float = 1.0) -> Array:
    """The length on which P and Q change between neighbouring points.

    The logarithmic derivatives of a mixture differ by at most span / deviation^2, where the span is that of the
    components that are felt there; between two points those felt at either.

    Args:
        pair: the mixtures.
        y: increasing, shape (n + 1,).
        order: of the largest power of P/Q that must be smooth, > 0. Below 1 it may change faster than P and Q do.

    Returns:
        Lengths, at most the deviation, shape (n,).
    """
    ends = []
    for weights in (pair.weights_p, pair.weights_q):
        low, high = np.full(y.shape, np.inf), np.full(y.shape, -np.inf)
        used = [(c, math.log(w)) for c, w in zip(pair.centers, weights, strict=True) if w]
        top = np.full(y.shape, -np.inf)
        for c, log_w in used:
            np.maximum(top, (c * y - c * c / 2) / pair.deviation**2 + log_w, out=top)
        for c, log_w in used:
            felt = (c * y - c * c / 2) / pair.deviation**2 + log_w > top + _LOG_PRESENT
            low[felt] = np.minimum(low[felt], c)
            high[felt] = np.maximum(high[felt], c)
        ends.append((np.minimum(low[1:], low[:-1]), np.maximum(high[1:], high[:-1])))
    (low_p, high_p), (low_q, high_q) = ends
    together = np.maximum(high_p, high_q) - np.minimum(low_p, low_q)
    span = np.maximum(np.maximum(high_p - low_p, high_q - low_q), min(order, 1.0) * together)
    result: Array = pair.deviation**2 / np.maximum(span, pair.deviation)
    return result


def subdivided(y: Array, parts: Array) -> Array:
    """Points with each interval cut into equal parts.

    Args:
        y: increasing, shape (n + 1,).
        parts: how many, >= 1, whole numbers, shape (n,).

    Raises:
        ConvergenceError: if they would be too many.
    """
    below = np.concatenate([[0.0], np.cumsum(parts)])
    if not below[-1] <= _MOST_POINTS:
        raise ConvergenceError(f"privacy loss: expected at most {_MOST_POINTS} points, needs {below[-1]:.3g}; use rdp")
    return np.interp(np.arange(below[-1] + 1), below, y)
