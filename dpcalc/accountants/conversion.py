"""From log moments of the composed loss to epsilon: the order that minimises the bound.

delta <= e^{K(z) - z epsilon} w(z), w(z) = max_x e^{-zx} (1 - e^{-x}) = z^z / (z + 1)^(z + 1), for every z > 0.
With a = z + 1 and K(z) = z rdp(a) this is Canonne, Kamath, Steinke 2020 (2004.00010v4), Proposition 12.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.loss_moments import LossCurve, LossMoments, loss_moments

Array = NDArray[np.float64]

_LARGEST_ORDER = 1e7


@dataclass(frozen=True)
class Moments:
    """Log moments of a composition, order by order.

    Attributes:
        parts: (moments of one step, how often it occurs).
    """

    parts: tuple[tuple[LossMoments, int], ...]

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """K(z) and K'(z) of the composed loss at real orders, shape of `orders`."""
        value, slope = np.zeros(orders.shape), np.zeros(orders.shape)
        for moments, count in self.parts:
            one, one_slope = moments.cumulants(orders)
            value, slope = value + count * one, slope + count * one_slope
        return value, slope

    @property
    def size(self) -> int:
        """Quadrature nodes in all."""
        return sum(moments.loss.size for moments, _ in self.parts)

    def complex_cumulants(self, orders: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """K(z) of the composed loss at complex orders, shape of `orders`."""
        value = np.zeros(orders.shape, dtype=np.complex128)
        for moments, count in self.parts:
            value += count * moments.complex_cumulants(orders)
        return value


def composed_moments(
    counts: dict[LossCurve, int], *, max_order: float, neglect: float = 0.0, frequency: float = 0.0
) -> Moments:
    """The moments of a composition, good for orders up to `max_order` and imaginary parts up to `frequency`."""
    return Moments(
        tuple(
            (loss_moments(curve, max_order=max_order, neglect=neglect, frequency=frequency), count)
            for curve, count in counts.items()
        )
    )


def log_peak(orders: Array) -> Array:
    """Log w(z) = z log z - (z + 1) log(z + 1) = -z log1p(1/z) - log1p(z)."""
    result: Array = -orders * np.log1p(1 / orders) - np.log1p(orders)
    return result


def best_order(
    counts: dict[LossCurve, int], *, delta: float, neglect: float = 0.0
) -> tuple[float, float, Moments]:
    """The smallest epsilon any order proves, and where.

    Args:
        counts: steps and how often each occurs, not empty.
        delta: in (0, 1).
        neglect: P mass a step may leave out at each end of each segment.

    Returns:
        (epsilon: an upper bound, may be negative; the order z that gives it; the moments used).
    """
    low, high = 1e-3, 32.0
    while True:
        moments = composed_moments(counts, max_order=high, neglect=neglect)
        for _ in range(12):
            orders = np.geomspace(low, high, 24)
            value, _slope = moments.cumulants(orders)
            epsilon = (value + log_peak(orders) - math.log(delta)) / orders
            at = int(np.argmin(epsilon))
            first, last = max(at - 1, 0), min(at + 1, orders.size - 1)
            low_next, high_next = float(orders[first]), float(orders[last])
            if at in {0, orders.size - 1} or high_next / low_next < 1 + 1e-6:
                break
            low, high = low_next, high_next
        if at == orders.size - 1 and high < _LARGEST_ORDER and epsilon[at] > 0:
            low, high = high / 2, 16 * high
        elif at == 0 and low > 1e-9:
            low, high = low / 1e3, 2 * low
        else:
            return float(epsilon[at]), float(orders[at]), moments
