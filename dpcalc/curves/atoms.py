"""Losses that take finitely many values: exact for discrete mechanisms, a bound for any profile that is sampled."""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.dominating_pair import Segment
from dpcalc.curves.privacy_profile import PrivacyProfile
from dpcalc.errors import InputError

Array = NDArray[np.float64]

_ROUNDOFF = 1e-15  # relative, for each loss


@dataclass(frozen=True, kw_only=True)
class Atoms(PrivacyProfile):
    """A pair (P, Q) by the masses of P at each value of the loss log dP/dQ; what P lacks to 1 has no loss.

    Attributes:
        losses: different finite values, increasing.
        masses: > 0, P mass of each; with `infinite` they sum to at most 1, the rest has loss 0.
        infinite: P mass where Q has none.
        other_infinite: Q mass where P has none, if it is known better than as what Q lacks to 1, round-off included.
    """

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite: float = 0.0
    other_infinite: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no pair of distributions: masses beyond 1 in P or in Q."""
        masses = np.array(self.masses)
        total = float(masses.sum()) + self.infinite
        other = float(masses @ np.exp(-np.array(self.losses)))
        if min(self.masses, default=1.0) <= 0 or self.infinite < 0 or max(total, other + self.at_zero) > 1 + 1e-9:
            raise InputError(f"losses: expected masses > 0 of two distributions, got {total} and {other} in all")

    @property
    def segments(self) -> tuple[Segment, ...]:
        """No piece of the line."""
        return ()

    @property
    def atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(losses, masses)."""
        return self.losses, self.masses

    @cached_property
    def at_zero(self) -> float:
        """P mass with loss 0 beside the masses given."""
        return max(0.0, 1 - math.fsum(self.masses) - self.infinite)

    @cached_property
    def only_other(self) -> float:
        """Q mass where P has none."""
        if self.other_infinite is not None:
            return self.other_infinite
        covered = math.fsum(mass * math.exp(-loss) for loss, mass in zip(self.losses, self.masses, strict=True))
        return max(0.0, 1 - covered - self.at_zero)

    @cached_property
    def swapped(self) -> "Atoms":
        """(Q, P)."""
        pairs = [(-loss, mass * math.exp(-loss)) for loss, mass in zip(self.losses, self.masses, strict=True)]
        kept = [(loss, mass) for loss, mass in reversed(pairs) if mass > 0]
        return Atoms(
            losses=tuple(loss for loss, _ in kept),
            masses=tuple(mass for _, mass in kept),
            infinite=self.only_other,
            other_infinite=self.infinite,
        )

    def delta(self, epsilon: float) -> float:
        """The profile at any real epsilon, in [0, 1]; above the exact one by at most a relative 1e-15 for each loss.

        Between two losses it falls linearly in e^epsilon.
        """
        found, first = self.infinite, bisect_right(self.losses, epsilon)
        if first < len(self.losses):
            discounted, above = self._tails[first]
            tail = above - discounted * math.expm1(epsilon - self.losses[first])
            found += tail * (1 + _ROUNDOFF * len(self.losses))
        if epsilon < 0:
            found -= self.at_zero * math.expm1(epsilon)
        return min(1.0, max(0.0, found))

    @cached_property
    def _tails(self) -> list[tuple[float, float]]:
        """For each loss l: the sums over the losses x >= l of mass e^(l - x) and of mass (1 - e^(l - x)).

        From the largest loss down, so that only what is not negative is added.
        """
        found: list[tuple[float, float]] = []
        discounted, above, last = 0.0, 0.0, math.inf
        for loss, mass in zip(reversed(self.losses), reversed(self.masses), strict=True):
            above -= discounted * math.expm1(loss - last)
            discounted = mass + discounted * math.exp(loss - last)
            found.append((discounted, above))
            last = loss
        return found[::-1]


def of_profile(delta: Callable[[float], float], losses: Array, infinite: float) -> Atoms:
    """The pair whose profile is piecewise linear in e^epsilon between the values of a profile at some losses.

    A profile is convex in e^epsilon, so its chords lie above it (Doroshenko et al. 2022, 2207.04380v3, section 4). The
    loss must be at least the first point wherever P has mass; losses above the last point are called infinite.

    Args:
        delta: an upper bound on a profile, at every real epsilon.
        losses: points, increasing, shape (n,), n >= 2.
        infinite: what delta does not fall below however large epsilon is.

    Returns:
        A pair whose profile is above the bounded one everywhere.
    """
    log_x = [-math.inf, *losses.tolist()]  # at e^epsilon = 0 every profile is 1
    values = [1.0, *(delta(loss) for loss in log_x[1:-1]), max(delta(log_x[-1]), infinite)]
    values = list(accumulate(values, min))  # no profile rises
    x = [math.exp(one) for one in log_x]
    hull: list[int] = []
    for at in range(len(x)):
        while len(hull) > 1 and _is_above(x, values, hull[-2], hull[-1], at):
            hull.pop()
        hull.append(at)
    slopes = [(values[i] - values[j]) / (x[j] - x[i]) for i, j in pairwise(hull)] + [0.0]
    masses = [x[at] * (before - after) for at, (before, after) in zip(hull[1:], pairwise(slopes), strict=True)]
    kept = [(log_x[at], mass) for at, mass in zip(hull[1:], masses, strict=True) if mass > 0]
    return Atoms(
        losses=tuple(loss for loss, _ in kept), masses=tuple(mass for _, mass in kept), infinite=values[hull[-1]]
    )


def _is_above(x: list[float], values: list[float], i: int, j: int, k: int) -> bool:
    """Whether the point j lies on or above the chord from i to k."""
    return (values[j] - values[i]) * (x[k] - x[i]) >= (values[k] - values[i]) * (x[j] - x[i])
