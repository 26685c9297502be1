"""What is known of a mechanism by its Renyi divergences alone, and what sampling makes of them.

With z = a - 1 the log moment of the loss is at most K(z) = z rdp(a), which is convex in z. A bound that holds at whole
orders only is continued along chords of K.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import InputError, UnsupportedError

Array = NDArray[np.float64]
Renyi = Callable[[float], float]
"""rdp(a) of a mechanism: an upper bound on its Renyi divergence of order a > 1, in nats; `inf` where none is known."""

LARGEST_ORDER = 256  # of a bound that sums over whole orders
_UNKNOWN = 1e200
_FACTOR = 3.0  # of the Poisson bound where the signs of odd moments are not known


@dataclass(frozen=True, kw_only=True)
class RdpCurve:
    """A step of which only Renyi divergences are known, at whole orders, the same in both directions.

    Attributes:
        name: what it is a curve of; equal names must have equal values.
        values: rdp(a) at a = 2, 3, ..., upper bounds, never falling, `inf` from where on none is known.
    """

    name: str
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what is no curve of divergences."""
        known = [value for value in self.values if value < math.inf]
        if not known or known != sorted(known) or known[0] < 0 or list(self.values[: len(known)]) != known:
            raise InputError("rdp curve: expected finite values >= 0 that never fall, at orders 2, 3, ...")

    @property
    def swapped(self) -> "RdpCurve":
        """The opposite direction."""
        return self

    @property
    def size(self) -> int:
        """Known orders."""
        return sum(value < math.inf for value in self.values)

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """(K, K') on the chords of K between whole orders, K(0) = 0; beyond the last one too large to matter."""
        at = np.arange(self.size + 1, dtype=np.float64)
        known = at * np.array([0.0, *self.values[: self.size]])
        place = np.clip(np.ceil(orders).astype(np.int64), 1, self.size)
        slope = known[place] - known[place - 1]
        value = known[place - 1] + slope * (orders - at[place - 1])
        beyond = orders > self.size
        return np.where(beyond, _UNKNOWN, value), np.where(beyond, _UNKNOWN**1.25, slope)

    def tilted_moments(self, order: float) -> tuple[float, float]:
        """Unknown.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(f"{self.name}: expected a loss distribution, got Renyi divergences at {order}; use rdp")

    def cumulants_on_line(self, real: float, *, step: float, count: int) -> NDArray[np.complex128]:
        """Unknown.

        Raises:
            UnsupportedError: always.
        """
        del step, count
        raise UnsupportedError(f"{self.name}: expected a loss distribution, got Renyi divergences at {real}; use rdp")


def whole_orders(rdp: Renyi, *, most: int = LARGEST_ORDER) -> tuple[float, ...]:
    """rdp(2), ..., rdp(most)."""
    return tuple(rdp(float(order)) for order in range(2, most + 1))


def fixed_size_upper(rdp: Renyi, rate: float, order: int) -> float:
    """An upper bound for a batch of a fixed share of the records, replace-one.

    Args:
        rdp: of the mechanism on the batch, replace-one; rdp(inf) is its pure epsilon, `inf` if there is none.
        rate: gamma, share of the records in the batch.
        order: a >= 2, whole.

    References:
        Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Theorem 9.
    """
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
    """A lower bound of the same for mechanisms with a sharp rdp that tell batches with the record apart.

    References:
        Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Proposition 11.
    """
    odds = math.log(rate) - math.log1p(-rate)
    terms = [0.0, math.log(order) + odds]
    terms += [j * odds + _log_comb(order, j) + (j - 1) * rdp(float(j)) for j in range(2, order + 1)]
    return (order * math.log1p(-rate) + float(np.logaddexp.reduce(terms))) / (order - 1)


def poisson_upper(rdp: Renyi, rate: float, order: int, *, signs_known: float = _FACTOR) -> float:
    """An upper bound for Poisson draws, add-remove.

    Args:
        rdp: of the mechanism on the batch, add-remove.
        rate: gamma, probability that a record is drawn.
        order: a >= 2, whole.
        signs_known: 3, or 1 where the odd moments of P/Q - 1 are known not to be negative (Gaussian and Laplace noise).

    References:
        Zhu, Wang 2019, "Poisson subsampled Renyi differential privacy", Theorems 5 and 6.
    """
    terms = [
        (order - 1) * math.log1p(-rate) + math.log1p((order - 1) * rate),
        _log_comb(order, 2) + 2 * math.log(rate) + (order - 2) * math.log1p(-rate) + rdp(2.0),
    ]
    terms += [
        math.log(signs_known)
        + _log_comb(order, j)
        + (order - j) * math.log1p(-rate)
        + j * math.log(rate)
        + (j - 1) * rdp(float(j))
        for j in range(3, order + 1)
    ]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def _log_comb(n: int, k: int) -> float:
    """Log of a binomial coefficient."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _log_expm1(x: float) -> float:
    """log(e^x - 1)."""
    return x + math.log(-math.expm1(-x)) if x > 0 else -math.inf
