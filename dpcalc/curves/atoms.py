"""Losses that take finitely many values: exact for discrete mechanisms, a bound for any profile that is sampled."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
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
_ROUNDED = 8e-16  # relative error of a loss that was computed by a few operations
_BEYOND = 1e-9  # by how much masses may exceed 1: more is no round-off, not even of thousands of losses


@dataclass(frozen=True, kw_only=True)
class Atoms(PrivacyProfile):
    """A pair (P, Q) by the masses of P at each value of the loss log dP/dQ; what P lacks to 1 has no loss.

    Masses are kept as logarithms: at a loss of 800 the mass of P or of Q is smaller than any float, and still decides
    the profile of one direction.

    Attributes:
        losses: different finite values, increasing.
        log_masses: finite, log P mass of each; with `infinite` the masses sum to at most 1, the rest has loss 0.
        infinite: P mass where Q has none.
        other_infinite: Q mass where P has none, if it is known better than as what Q lacks to 1, round-off included.
    """

    losses: tuple[float, ...]
    log_masses: tuple[float, ...]
    infinite: float = 0.0
    other_infinite: float | None = None

    @classmethod
    def of_masses(
        cls,
        losses: Iterable[float],
        masses: Iterable[float],
        *,
        infinite: float = 0.0,
        other_infinite: float | None = None,
    ) -> "Atoms":
        """The pair with these P masses.

        Raises:
            InputError: if a mass is not above 0, or they exceed 1.
        """
        given = tuple(masses)
        if min(given, default=1.0) <= 0:
            raise InputError(f"losses: expected masses > 0, got {min(given)}")
        return cls(
            losses=tuple(losses),
            log_masses=tuple(map(math.log, given)),
            infinite=infinite,
            other_infinite=other_infinite,
        )

    def __post_init__(self) -> None:
        """Refuse what is no pair of distributions: masses beyond 1 in P or in Q."""
        losses, logs = np.array(self.losses), np.array(self.log_masses)
        total = float(np.exp(logs).sum()) + self.infinite
        other = float(np.exp(np.minimum(logs - losses, 1.0)).sum())
        largest = max((abs(loss) for loss in self.losses[:1] + self.losses[-1:]), default=0.0)
        most = 1 + _BEYOND + 10 * _ROUNDED * largest
        if not np.isfinite(logs).all() or self.infinite < 0 or max(total, other + self.at_zero) > most:
            raise InputError(f"losses: expected masses > 0 of two distributions, got {total} and {other} in all")

    @property
    def segments(self) -> tuple[Segment, ...]:
        """No piece of the line."""
        return ()

    @property
    def atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(losses, log masses)."""
        return self.losses, self.log_masses

    @cached_property
    def masses(self) -> tuple[float, ...]:
        """P mass of each loss, 0 where it is smaller than any float."""
        return tuple(map(math.exp, self.log_masses))

    @cached_property
    def at_zero(self) -> float:
        """P mass with loss 0 beside the masses given."""
        return max(0.0, 1 - math.fsum(self.masses) - self.infinite)

    @cached_property
    def only_other(self) -> float:
        """Q mass where P has none."""
        if self.other_infinite is not None:
            return self.other_infinite
        covered = math.fsum(math.exp(log - loss) for loss, log in zip(self.losses, self.log_masses, strict=True))
        return max(0.0, 1 - covered - self.at_zero)

    @cached_property
    def swapped(self) -> "Atoms":
        """(Q, P)."""
        return Atoms(
            losses=tuple(-loss for loss in reversed(self.losses)),
            log_masses=tuple(
                log - loss for loss, log in zip(reversed(self.losses), reversed(self.log_masses), strict=True)
            ),
            infinite=self.only_other,
            other_infinite=self.infinite,
        )

    def delta(self, epsilon: float) -> float:
        """The profile at any real epsilon, in [0, 1]; above the exact one by at most a relative 1e-15 for each loss.

        Between two losses it falls linearly in e^epsilon. Losses are rounded numbers: it is read where epsilon is
        smaller by as much as they may be too small.
        """
        epsilon -= _ROUNDED * abs(epsilon)
        found, first = self.infinite, bisect_right(self.losses, epsilon)
        if first < len(self.losses):
            discounted, above = self._tails[first]
            tail = above - discounted * math.expm1(epsilon - self.losses[first])
            found += tail * (1 + _ROUNDOFF * len(self.losses))
        if epsilon < 0:
            found -= self.at_zero * math.expm1(epsilon)
        return min(1.0, max(0.0, found))

    def epsilon(self, delta: float) -> float:
        """As of any profile, and never beyond the largest loss by more than that is rounded."""
        found = super().epsilon(delta)
        return min(found, max(0.0, *self.losses[-1:]) * (1 + _ROUNDED)) if found < math.inf else found

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
    return Atoms.of_masses((loss for loss, _ in kept), (mass for _, mass in kept), infinite=values[hull[-1]])


def _is_above(x: list[float], values: list[float], i: int, j: int, k: int) -> bool:
    """Whether the point j lies on or above the chord from i to k."""
    return (values[j] - values[i]) * (x[k] - x[i]) >= (values[k] - values[i]) * (x[j] - x[i])
