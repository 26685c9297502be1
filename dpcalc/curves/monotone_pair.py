"""The profile of one pair of Gaussian mixtures whose loss falls along the line."""

import math
from dataclasses import dataclass
from functools import cached_property

from dpcalc.curves.dominating_pair import MixturePair, Segment
from dpcalc.curves.privacy_profile import PrivacyProfile, half_line_delta


@dataclass(frozen=True, kw_only=True)
class MonotonePair(PrivacyProfile):
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

    def delta(self, epsilon: float) -> float:
        """The exact profile at any real epsilon, in [0, 1]."""
        if epsilon < 0:
            return max(0.0, -math.expm1(epsilon) + math.exp(epsilon) * self.swapped.delta(-epsilon))
        return half_line_delta(self.pair, self.pair.centers[-1] + self.pair.deviation, epsilon)
