"""One of several losses by a draw that everybody sees: the reader of the output is told which one it was."""

import math
from dataclasses import dataclass
from functools import cached_property

from dpcalc.curves.dominating_pair import Segment
from dpcalc.curves.privacy_profile import PrivacyProfile


@dataclass(frozen=True, kw_only=True)
class ToldApart(PrivacyProfile):
    """Upper bound on the profile of a step that is `profiles[i]` with probability `weights[i]`, else no release.

    The draw has the same law in D and D', and revealing it can only help the reader, so the profile is the average.

    Attributes:
        weights: > 0, summing to at most 1; what is left has loss 0.
        profiles: one for each weight.
    """

    weights: tuple[float, ...]
    profiles: tuple[PrivacyProfile, ...]

    @property
    def swapped(self) -> "ToldApart":
        """The opposite direction."""
        return ToldApart(weights=self.weights, profiles=tuple(profile.swapped for profile in self.profiles))

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Those of every profile, weighted."""
        return tuple(
            Segment(pair=one.pair, high=one.high, max_loss=one.max_loss, weight=weight * one.weight)
            for weight, profile in zip(self.weights, self.profiles, strict=True)
            for one in profile.segments
        )

    @cached_property
    def at_zero(self) -> float:
        """P mass with loss 0."""
        inside = (weight * profile.at_zero for weight, profile in zip(self.weights, self.profiles, strict=True))
        return max(0.0, 1 - math.fsum(self.weights)) + math.fsum(inside)

    @cached_property
    def atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(losses, log P masses) of single values."""
        pairs = list(zip(self.weights, (profile.atoms for profile in self.profiles), strict=True))
        losses = tuple(loss for _, (values, _) in pairs for loss in values)
        return losses, tuple(math.log(weight) + log for weight, (_, logs) in pairs for log in logs)

    @cached_property
    def infinite(self) -> float:
        """P mass where Q has none."""
        return math.fsum(weight * profile.infinite for weight, profile in zip(self.weights, self.profiles, strict=True))

    def delta(self, epsilon: float) -> float:
        """The profile at any real epsilon: an upper bound, in [0, 1]."""
        rest = max(0.0, 1 - math.fsum(self.weights)) * max(0.0, -math.expm1(epsilon))
        parts = (weight * profile.delta(epsilon) for weight, profile in zip(self.weights, self.profiles, strict=True))
        return rest + math.fsum(parts)
