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


@dataclass(frozen=True, kw_only=True)
class Atoms(PrivacyProfile):
    """A pair (P, Q) by the masses of P at each value of the loss log dP/dQ; what P lacks to 1 has no loss.

    Attributes:
        losses: different finite values, increasing.
        masses: > 0, P mass of each; with `infinite` they sum to at most 1, the rest has loss 0.
        infinite: P mass where Q has none.
    """

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what is no pair of distributions: masses beyond 1 in P or in Q."""
        total = math.fsum(self.masses) + self.infinite
        other = math.fsum(mass * math.exp(-loss) for loss, mass in zip(self.losses, self.masses, strict=True))
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
        )

    def delta(self, epsilon: float) -> float:
        """The exact profile at any real epsilon, in [0, 1]."""
        losses, masses = self._arrays
        first = bisect_right(self.losses, epsilon)
        above = -masses[first:] * np.expm1(epsilon - losses[first:])
        rest = -self.at_zero * math.expm1(epsilon) if epsilon < 0 else 0.0
        return min(1.0, max(0.0, math.fsum(above.tolist()) + rest + self.infinite))

    @cached_property
    def _arrays(self) -> tuple[Array, Array]:
        """(losses, masses)."""
        return np.array(self.losses, dtype=np.float64), np.array(self.masses, dtype=np.float64)


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
