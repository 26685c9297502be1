"""A stretch of steps under one draw that everybody sees: with probability 1 - rate none of them touches the unit."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dpcalc.curves.loss_moments import Curve

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
_LARGE = 30.0  # a log moment beyond which e^K is all that counts


@dataclass(frozen=True, kw_only=True)
class Held:
    """The losses of all of some steps with probability `rate`, else 0; the steps are composed adaptively.

    Attributes:
        rate: in (0, 1), the same in D and D'.
        counts: (one step's curve, how often), not empty.
    """

    rate: float
    counts: "tuple[tuple[Curve, int], ...]"


class LogMoments(Protocol):
    """K(z) = log E_P[e^{zL}] of a loss; see `LossMoments`."""

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """K(z) and K'(z)."""
        ...

    def tilted_moments(self, order: float) -> tuple[float, float]:
        """Variance and fourth cumulant of the tilted loss."""
        ...

    def cumulants_on_line(self, real: float, *, step: float, count: int) -> Complex:
        """K(z) at z = real + i k step."""
        ...

    @property
    def size(self) -> int:
        """Quadrature nodes."""
        ...


@dataclass(frozen=True)
class HeldMoments:
    """log(1 - rate + rate e^{K(z)}) from the log moments K of the steps; `parts` are (one step, how often)."""

    rate: float
    parts: tuple[tuple[LogMoments, int], ...]

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """K(z) and K'(z); as `LossMoments.cumulants`."""
        value, slope = np.zeros(orders.shape), np.zeros(orders.shape)
        for moments, count in self.parts:
            one, one_slope = moments.cumulants(orders)
            value, slope = value + count * one, slope + count * one_slope
        mixed = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + value)
        mixed = np.where(value < _LARGE, np.log1p(self.rate * np.expm1(np.minimum(value, _LARGE))), mixed)
        return mixed, slope * np.exp(math.log(self.rate) + value - mixed)

    def tilted_moments(self, order: float) -> tuple[float, float]:
        """Variance and fourth cumulant of the tilted loss, the skewness of the steps left out."""
        at = np.array([order])
        mean = sum(count * float(one.cumulants(at)[1][0]) for one, count in self.parts)
        inside = sum(count * float(one.cumulants(at)[0][0]) for one, count in self.parts)
        drawn = math.exp(math.log(self.rate) + inside - float(self.cumulants(at)[0][0]))
        each = [(count, one.tilted_moments(order)) for one, count in self.parts]
        variance, fourth = (sum(count * pair[i] for count, pair in each) for i in (0, 1))
        away = mean * (1 - drawn)
        spread = drawn * variance + drawn * away * mean
        central = fourth + 3 * variance**2 + 6 * variance * away**2 + away**4
        return spread, drawn * central + (1 - drawn) * (drawn * mean) ** 4 - 3 * spread**2

    def cumulants_on_line(self, real: float, *, step: float, count: int) -> Complex:
        """K(z) at z = real + i k step; as `LossMoments.cumulants_on_line`."""
        value = np.zeros(count, dtype=np.complex128)
        for moments, copies in self.parts:
            value += copies * moments.cumulants_on_line(real, step=step, count=count)
        top = float(value[0].real)
        if top < _LARGE:
            return np.asarray(np.log1p(self.rate * np.expm1(value)), dtype=np.complex128)
        rest = (1 - self.rate) * math.exp(-top)
        return np.asarray(np.log(rest + self.rate * np.exp(value - top)) + top, dtype=np.complex128)

    @property
    def size(self) -> int:
        """Quadrature nodes in all."""
        return sum(one.size for one, _ in self.parts)
