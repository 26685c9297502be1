"""How finely the line must be cut for a mixture to be smooth in each cell."""

import math

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.errors import ConvergenceError

Array = NDArray[np.float64]

_LOG_PRESENT = math.log(1e-13)  # share of a density below which a component is not felt
_MOST_ROUGH, _MOST_POINTS = 100_000, 1 << 24


def rough_points(pair: MixturePair, low: float, high: float) -> Array:
    """Points from low to high, at most half a deviation apart: close enough to find where densities matter."""
    return np.linspace(low, high, min(max(8, math.ceil(2 * (high - low) / pair.deviation)), _MOST_ROUGH) + 1)


def scales(pair: MixturePair, y: Array) -> Array:
    """The length on which P and Q change between neighbouring points.

    The logarithmic derivatives of a mixture differ by at most span / deviation^2, where the span is that of the
    components that are felt there; between two points those felt at either.

    Args:
        pair: the mixtures.
        y: increasing, shape (n + 1,).

    Returns:
        Lengths, at most the deviation, shape (n,).
    """
    low, high = np.full(y.shape, np.inf), np.full(y.shape, -np.inf)
    for weights in (pair.weights_p, pair.weights_q):
        used = [(c, math.log(w)) for c, w in zip(pair.centers, weights, strict=True) if w]
        top = np.full(y.shape, -np.inf)
        for c, log_w in used:
            np.maximum(top, (c * y - c * c / 2) / pair.deviation**2 + log_w, out=top)
        for c, log_w in used:
            felt = (c * y - c * c / 2) / pair.deviation**2 + log_w > top + _LOG_PRESENT
            low[felt] = np.minimum(low[felt], c)
            high[felt] = np.maximum(high[felt], c)
    span = np.maximum(high[1:], high[:-1]) - np.minimum(low[1:], low[:-1])
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
