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
            return Atoms(losses=(), log_masses=(), infinite=self.delta, other_infinite=self.delta)
        answered = math.log1p(-self.delta)
        true, false = _log_answers(self.epsilon)
        return Atoms(
            losses=(-self.epsilon, self.epsilon),
            log_masses=(answered + false, answered + true),
            infinite=self.delta,
            other_infinite=self.delta,
        )


def _log_answers(epsilon: float) -> tuple[float, float]:
    """Log probabilities of the true and of the false answer of one bit of randomized response."""
    rest = math.log1p(math.exp(-epsilon))
    return -rest, -epsilon - rest


def approximate_dp_rdp(epsilon: float, order: float) -> float:
    """Renyi divergence of order a > 1 of one bit of randomized response that is epsilon-DP; a may be infinite.

    References:
        Mironov 2017 (1702.07476v3), Proposition 5.
    """
    if math.isinf(order) or epsilon == 0:
        return epsilon
    true, false = _log_answers(epsilon)
    first = order * true + (1 - order) * false
    second = order * false + (1 - order) * true
    top = max(first, second)
    return (top + math.log(math.exp(first - top) + math.exp(second - top))) / (order - 1)
