"""Composite Gauss-Legendre nodes."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@cache
def _rule(order: int) -> tuple[Array, Array]:
    """Nodes on [0, 1] and log weights of one panel, from the eigenvectors of the Jacobi matrix (Golub, Welsch 1969)."""
    k = np.arange(1, order)
    beside = k / np.sqrt(4.0 * k**2 - 1)
    nodes, vectors = np.linalg.eigh(np.diag(beside, -1))  # numpy's polynomials would take longer to load
    return (nodes + 1) / 2, 2 * np.log(np.abs(vectors[0]))


def panels_between(edges: Array, *, order: int) -> tuple[Array, Array]:
    """Nodes and log weights of one panel between each two neighbouring edges (increasing, shape (n + 1,)).

    Returns:
        (nodes, log weights), each of shape (n * order,).
    """
    unit, log_weights = _rule(order)
    widths = np.diff(edges)
    nodes = edges[:-1, None] + widths[:, None] * unit
    return nodes.ravel(), (np.log(widths)[:, None] + log_weights).ravel()
