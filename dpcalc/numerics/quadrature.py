"""Composite Gauss-Legendre nodes."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@cache
def _rule(order: int) -> tuple[Array, Array]:
    """Nodes on [0, 1] and log weights of one panel."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return (nodes + 1) / 2, np.log(weights / 2)


def panels_between(edges: Array, *, order: int) -> tuple[Array, Array]:
    """Nodes and log weights of one panel between each two neighbouring edges (increasing, shape (n + 1,)).

    Returns:
        (nodes, log weights), each of shape (n * order,).
    """
    unit, log_weights = _rule(order)
    widths = np.diff(edges)
    nodes = edges[:-1, None] + widths[:, None] * unit
    return nodes.ravel(), (np.log(widths)[:, None] + log_weights).ravel()
