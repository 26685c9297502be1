"""Steps known by their Renyi divergences alone, and bounds for sampling such a mechanism.

With z = a - 1 the log moment of the loss, K(z) = log E_P[e^{zL}] = z D_a(P || Q), is convex in z by Hoelder's
inequality, and K(0) = 0; the largest K of several pairs is convex too. So bounds K(z_i) <= z_i rdp(a_i) at some orders
bound K in between by the lower convex hull. Nothing is claimed beyond the last order.

Source: docs/theory.md, Definition 3.4 and Theorem 8.6.
"""

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpcalc.errors import InputError
from dpcalc.losses.pair import Segment
from dpcalc.numerics import Array
from dpcalc.records import dataclass

Renyi = Callable[[float], float]
"""rdp(a) of a mechanism: an upper bound on its Renyi divergence of order a > 1, in nats; `inf` where none is known."""

LARGEST_ORDER = 256  # of a bound that sums over whole orders: its time grows with the square
MANY_ORDERS = (
    *(1 + float(z) for z in np.geomspace(1e-3, 0.97, 100)),
    *map(float, range(2, LARGEST_ORDER)),
    *map(float, np.geomspace(LARGEST_ORDER, 1e7, 700)),
)
"""So close that chords between them cost less than 1e-3 of what a curve adds to epsilon."""
UNKNOWN = 1e100
"""Divergences from here on count as unknown."""
_BEYOND = 1e200  # log moment above the last order: finite, so that differences are not NaN
_FACTOR = 3.0  # of the Poisson bound if the signs of odd moments are not known


@dataclass(frozen=True, kw_only=True)
class RdpCurve:
    """A step of which only Renyi divergences at some orders are known, in nats, the same in both directions."""

    name: str  # identifies the curve; equal names must have equal values
    points: tuple[tuple[float, float], ...]  # (a, rdp(a)), upper bounds at increasing orders a > 1; finite, >= 0
    segments: ClassVar[tuple[Segment, ...]] = ()  # nothing is known of its losses, which count as finite
    infinity_mass: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Raise InputError for orders that do not increase from above 1, and divergences not in [0, inf)."""
        orders = [order for order, _ in self.points]
        if not orders or not orders[0] > 1 or orders != sorted(set(orders)) or math.isinf(orders[-1]):
            raise InputError("rdp curve: expected finite orders above 1 that rise, at least one")
        if not all(math.isfinite(value) and value >= 0 for _, value in self.points):
            raise InputError("rdp curve: expected finite divergences >= 0")

    @property
    def swapped(self) -> "RdpCurve":
        """The curve of the opposite direction: the same one."""
        return self

    @cached_property
    def _hull(self) -> tuple[Array, Array]:
        """Corners of the lower convex hull of the log moment, as arrays of orders z = a - 1 and of values."""
        # Andrew's monotone chain: a corner goes when the next point shows that it lies above the chord.
        corners = [(0.0, 0.0)]
        for order, value in self.points:
            new = (order - 1, (order - 1) * value)
            while len(corners) > 1:
                (x, y), (middle, height) = corners[-2:]
                rise = (new[1] - y) / (new[0] - x)
                if height < y + rise * (middle - x):
                    break
                corners.pop()
            corners.append(new)
        places, heights = np.array(corners).T
        return places, heights

    @property
    def corners(self) -> Array:
        """The orders z > 0 at which the slope of K changes."""
        return self._hull[0][1:]

    def rdp(self, order: float) -> float:
        """Return an upper bound on the divergence of order > 1, from the convex hull; inf above the last order."""
        if order > self.points[-1][0]:
            return math.inf
        return float(self.cumulants(np.array([order - 1]))[0][0]) / (order - 1)

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return (log moment, its slope) on the hull at orders z = a - 1; (1e200, 1e250) above the last order."""
        places, heights = self._hull
        right = np.clip(np.searchsorted(places, orders), 1, len(places) - 1)
        left = right - 1
        slope = (heights[right] - heights[left]) / (places[right] - places[left])
        value = heights[left] + slope * (orders - places[left])
        is_unknown = orders > places[-1]
        return np.where(is_unknown, _BEYOND, value), np.where(is_unknown, _BEYOND**1.25, slope)


def finite_points(rdp: Renyi, orders: Iterable[float]) -> tuple[tuple[float, float], ...]:
    """Return (order, divergence) at those of the orders at which the divergence is finite."""
    points = ((float(order), rdp(order)) for order in orders)
    return tuple((order, value) for order, value in points if value < math.inf)


def fixed_size_upper(rdp: Renyi, rate: float, order: int) -> float:
    """Return Wang et al.'s upper bound on the Renyi divergence of whole order >= 2 under a fixed-size draw."""
    # Source: Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Theorem 9.
    pure = rdp(math.inf)
    log_range = math.log(math.expm1(pure)) if 0 < pure < 700 else (math.inf if pure else -math.inf)
    second = min(
        math.log(4) + _log_expm1(rdp(2.0)),
        rdp(2.0) + min(math.log(2), 2 * log_range),
    )
    terms = [0.0, 2 * math.log(rate) + _log_comb(order, 2) + second]
    terms += [
        j * math.log(rate) + _log_comb(order, j) + (j - 1) * rdp(float(j)) + min(math.log(2), j * log_range)
        for j in range(3, order + 1)
    ]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def fixed_size_lower(rdp: Renyi, rate: float, order: int) -> float:
    """Return Wang et al.'s lower bound on the divergence of whole order >= 2 under a fixed-size draw, rate < 1."""
    # It holds for mechanisms that attain `rdp` and can distinguish batches with the record.
    # Source: Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Proposition 11.
    odds = math.log(rate) - math.log1p(-rate)
    terms = [0.0, math.log(order) + odds]
    terms += [j * odds + _log_comb(order, j) + (j - 1) * rdp(float(j)) for j in range(2, order + 1)]
    return (order * math.log1p(-rate) + float(np.logaddexp.reduce(terms))) / (order - 1)


def poisson_upper(rdp: Renyi, rate: float, order: int, *, factor: float = _FACTOR) -> float:
    """Return Zhu and Wang's upper bound on the Renyi divergence of whole order >= 2 under a Poisson draw."""
    # `factor` is 3, or 1 where the odd moments E_Q[(P/Q - 1)^j] of all P, Q on neighbouring batches are known not to be
    # negative, as with Gaussian and Laplace noise; the bound is then exact if some pair attains every rdp(j).
    # Source: Zhu, Wang 2019, "Poisson subsampled Renyi differential privacy", Theorems 5 and 6.
    terms = [
        (order - 1) * math.log1p(-rate) + math.log1p((order - 1) * rate),
        _log_comb(order, 2) + 2 * math.log(rate) + (order - 2) * math.log1p(-rate) + rdp(2.0),
    ]
    terms += [
        math.log(factor)
        + _log_comb(order, j)
        + (order - j) * math.log1p(-rate)
        + j * math.log(rate)
        + (j - 1) * rdp(float(j))
        for j in range(3, order + 1)
    ]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def _log_comb(n: int, k: int) -> float:
    """Return the log of the binomial coefficient C(n, k)."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _log_expm1(x: float) -> float:
    """Return log(e^x - 1); -inf for x <= 0."""
    return x + math.log(-math.expm1(-x)) if x > 0 else -math.inf
