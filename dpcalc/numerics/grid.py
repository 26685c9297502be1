"""Sums by position on an integer grid."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def summed_by_place(places: NDArray[np.int64], weights: Array, *, size: int) -> Array:
    """Sum of the weights at each of the positions 0 to size - 1.

    Args:
        places: whole numbers in [0, size), shape (n,).
        weights: shape (n,).
        size: number of positions.

    Returns:
        Sums, shape (size,).
    """
    return np.bincount(places, weights=weights, minlength=size).astype(np.float64)
