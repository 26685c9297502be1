"""Any mechanism of which its user knows Renyi divergences."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from dpcalc.curves.rdp_curve import MANY_ORDERS, RdpCurve
from dpcalc.errors import InputError

OddMoments = Literal["unknown", "nonnegative"]


@dataclass(frozen=True, kw_only=True)
class RdpTable:
    """A mechanism with divergences of at most so much at some orders, whichever of two batches comes first.

    Attributes:
        curve: (order, epsilon): orders above 1 that rise, finite epsilons >= 0 that do not fall, as divergences do not.
        epsilon: what no loss exceeds, `inf` where that is not known.
        odd_moments: "nonnegative" where E_Q[(P/Q - 1)^j] is known not to be negative for every odd j and for all P, Q
            of neighbouring batches: the Poisson bound then needs no factor 3.
    """

    name: ClassVar[str] = "rdp-curve"
    curve: tuple[tuple[float, float], ...]
    epsilon: float = math.inf
    odd_moments: OddMoments = "unknown"

    def __post_init__(self) -> None:
        """Refuse what is no guarantee."""
        values = [value for _, value in self.curve]
        if values != sorted(values):
            raise InputError("curve: expected divergences that do not fall with the order")
        if not self.epsilon > 0:
            raise InputError(f"epsilon: expected a number > 0, got {self.epsilon!r}")
        RdpCurve(name=self.name, points=self.curve)

    @cached_property
    def _known(self) -> RdpCurve:
        """The curve between its points."""
        return RdpCurve(name=self.name, points=self.curve)

    @property
    def words(self) -> str:
        """The curve by its ends, and what else is known."""
        (first, least), (last, most) = self.curve[0], self.curve[-1]
        ends = f"{least:g} at order {first:g} to {most:g} at order {last:g}"
        pure = "" if math.isinf(self.epsilon) else f", epsilon {self.epsilon:g}"
        return f"{ends}{pure}{', odd moments nonnegative' if self.odd_moments == 'nonnegative' else ''}"

    @property
    def orders(self) -> tuple[float, ...]:
        """Orders whose divergences tell all that is known."""
        last = self.curve[-1][0]
        beyond = (order for order in MANY_ORDERS if order > last)
        return (*(order for order, _ in self.curve), *(beyond if self.epsilon < math.inf else ()))

    def rdp(self, order: float) -> float:
        """Upper bound on the Renyi divergence of an order above 1, `inf` where there is none."""
        return min(self.epsilon, self._known.rdp(order))
