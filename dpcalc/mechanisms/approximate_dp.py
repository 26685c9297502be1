"""A mechanism of which only (epsilon, delta) is known; with delta = 0 pure differential privacy."""

import math
from dataclasses import dataclass
from typing import ClassVar

from dpcalc.curves.atoms import Atoms
from dpcalc.errors import InputError


@dataclass(frozen=True, kw_only=True)
class ApproximateDp:
    """Any mechanism that is (epsilon, delta)-DP for batches that differ in one unit, whichever way.

    Attributes:
        epsilon: >= 0.
        delta: in [0, 1).
    """

    name: ClassVar[str] = "approximate-dp"
    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no guarantee."""
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise InputError(f"epsilon: expected a finite number >= 0, got {self.epsilon!r}")
        if not 0 <= self.delta < 1:
            raise InputError(f"delta: expected a number in [0, 1), got {self.delta!r}")

    def pair(self) -> Atoms:
        """The worst such mechanism: tells all with probability delta, else answers one bit by randomized response.

        References:
            Kairouz, Oh, Viswanath 2015 (1311.0776v4), Theorem 3.1.
        """
        if self.epsilon == 0:
            return Atoms(losses=(), masses=(), infinite=self.delta, other_infinite=self.delta)
        false = 1 / (1 + math.exp(self.epsilon))
        masses = ((1 - self.delta) * false, (1 - self.delta) * (1 - false))
        return Atoms(
            losses=(-self.epsilon, self.epsilon), masses=masses, infinite=self.delta, other_infinite=self.delta
        )


def approximate_dp_rdp(epsilon: float, order: float) -> float:
    """Renyi divergence of order a > 1 of one bit of randomized response that is epsilon-DP; a may be infinite.

    References:
        Mironov 2017 (1702.07476v3), Proposition 5.
    """
    if math.isinf(order) or epsilon == 0:
        return epsilon
    true = 1 / (1 + math.exp(-epsilon))
    first = order * math.log(true) + (1 - order) * math.log1p(-true)
    second = order * math.log1p(-true) + (1 - order) * math.log(true)
    top = max(first, second)
    return (top + math.log(math.exp(first - top) + math.exp(second - top))) / (order - 1)
