"""Sums and differences of positive numbers that are known by their logarithms."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_WINDOW = 300.0  # range of logarithms that is summed on one scale; twice as much would come near what a float holds


def log1m_exp(x: Array) -> Array:
    """Log(1 - e^-x) for x >= 0, without cancellation at either end; -inf at 0."""
    with np.errstate(divide="ignore"):
        return np.where(x < 0.5, np.log(-np.expm1(-np.minimum(x, 1.0))), np.log1p(-np.exp(-np.maximum(x, 0.1))))


def log_sum_of(terms: Sequence[Array]) -> Array:
    """Log of the sum of e^x over arrays of one shape, at least one; terms may be -inf, also all of them."""
    top = terms[0].copy()
    for term in terms[1:]:
        np.maximum(top, term, out=top)
    scale = np.where(np.isfinite(top), top, 0.0)
    total = np.zeros(scale.shape)
    for term in terms:
        total += np.exp(term - scale)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total) + scale, dtype=np.float64)


def log_cumulative(x: Array) -> Array:
    """Log of the running sums of e^x, shape (n,).

    The relative error of a sum is at most that of its terms, n units in the last place, and that of its logarithm:
    terms are added on a common scale that is changed every e^300, so that a logarithm is taken once for each sum.
    """
    top = np.maximum.accumulate(x) if x.size else x
    found = np.full(x.shape, -np.inf)
    start, before = int(np.searchsorted(top, -np.inf, side="right")), -np.inf
    while start < x.size:
        scale = float(top[start])
        stop = int(np.searchsorted(top, scale + _WINDOW, side="right"))
        found[start:stop] = scale + np.log(np.exp(before - scale) + np.cumsum(np.exp(x[start:stop] - scale)))
        start, before = stop, float(found[stop - 1])
    return found


def log_sums_by_place(place: NDArray[np.intp], x: Array, *, size: int) -> Array:
    """For each place from 0 to size - 1 the log of the sum of e^x there, -inf where there is none; shape (size,)."""
    top = np.full(size, -np.inf)
    np.maximum.at(top, place, x)
    scale = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.bincount(place, weights=np.exp(x - scale[place]), minlength=size)) + scale
