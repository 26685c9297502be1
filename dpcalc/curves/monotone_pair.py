"""The profile of one pair of Gaussian mixtures whose loss falls along the line."""

import math
from dataclasses import dataclass
from functools import cached_property

from dpcalc.curves.dominating_pair import MixturePair, Segment
from dpcalc.curves.privacy_profile import half_line_delta, smallest_epsilon


@dataclass(frozen=True, kw_only=True)
class MonotonePair:
    """A pair (P, Q) of mixtures with exact profile: {P > e^eps Q} is a half-line y < t for every real eps.

    So it is where P is a mixture on centers <= 0 and Q one on centers >= 0: every ratio of a component of P to one
    of Q falls in y.

    Attributes:
        pair: P and Q.
    """

    pair: MixturePair

    @property
    def swapped(self) -> "MonotonePair":
        """(Q, P), the line turned around so that the loss falls again."""
        return MonotonePair(pair=self.pair.swapped.mirrored)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The whole line."""
        return self.pair.segments

    @property
    def at_zero(self) -> float:
        """P mass off the line: none."""
        return 0.0

    @property
    def atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(losses, P masses) off the line: none."""
        return (), ()

    @property
    def infinite(self) -> float:
        """P mass where Q has none: none."""
        return 0.0

    def delta(self, epsilon: float) -> float:
        """The exact profile at any real epsilon, in [0, 1]."""
        if epsilon < 0:
            return max(0.0, -math.expm1(epsilon) + math.exp(epsilon) * self.swapped.delta(-epsilon))
        return half_line_delta(self.pair, self.pair.centers[-1] + self.pair.deviation, epsilon)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon >= 0 with delta(epsilon) <= delta, rounded up to a relative 1e-12."""
        return smallest_epsilon(self, delta)
