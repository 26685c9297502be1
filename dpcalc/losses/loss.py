"""The privacy loss of one step: segments of the line, atoms, mass at loss 0 and at infinity.

A privacy profile delta(epsilon) is read from them: on a segment the loss falls along the line, so that losses above an
epsilon >= 0 lie below one point.

Source: docs/theory.md, Theorem 2.6, Theorem 2.7, Theorem 4.5 and Theorem 6.1.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dpcalc.errors import InputError
from dpcalc.losses.pair import MixturePair, Segment, half_line_end, half_line_terms
from dpcalc.numerics import bracket_root
from dpcalc.records import dataclass

_ROUNDOFF = 1e-15  # relative error of delta for each loss that is summed
_ROUNDED = 8e-16  # relative error of a loss that was computed by a few operations
_REACH = 30.0  # deviations beyond which a normal variable has a mass of 1e-197
_MAX_EXCESS = 1e-5  # by which masses may exceed 1: more is a defect, not a bound on the round-off of many sums


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The loss log dP/dQ of one step in one direction, and by `swapped` in the other; hashable, equal for equal steps.

    Its values are those on segments, and single ones: atoms. Their masses are kept as logarithms: at a loss of 800 the
    mass of P or of Q is smaller than any float, and still decides the profile of one direction. P mass that is neither
    on segments nor on atoms, nor infinite, has loss 0.
    """

    # of each part that a public draw chooses from the whole line, or two half-lines: losses above 0, and those below
    segments: tuple[Segment, ...] = ()
    losses: tuple[float, ...] = ()  # different finite values, increasing
    log_masses: tuple[float, ...] = ()  # finite, log P mass of each
    infinity_mass: float = 0.0  # P mass where Q has none
    # Q mass where P has none; None to compute it as the Q mass missing to 1, round-off included
    other_infinite: float | None = None
    # whether (Q, P) is the same pair, so that the Q mass at each loss is the P mass at its negative
    is_symmetric: bool = False
    is_drawn: bool = False  # whether a public draw decides on segments and atoms: closed forms look at one part only
    # whether it bounds one direction from below: Q masses may exceed 1, as losses were lowered; there is no `swapped`
    is_one_way: bool = False
    given_zero_mass: float | None = None  # P mass with loss 0, where it is not the mass that is missing to 1

    def __post_init__(self) -> None:
        """Raise InputError if a log mass is not finite, infinity_mass < 0, or atoms exceed 1 by over 1e-5."""
        losses, logs = np.array(self.losses), np.array(self.log_masses)
        if not np.isfinite(logs).all() or self.infinity_mass < 0:
            raise InputError("losses: expected masses > 0 of two distributions")
        if self.segments:
            return
        total = other = float(np.exp(np.minimum(logs, 1.0)).sum()) + self.infinity_mass
        if not self.is_symmetric:
            other = float(np.exp(np.minimum(logs - losses, 1.0)).sum()) + self.zero_loss_mass
        if max(total, 0.0 if self.is_one_way else other) > 1 + _MAX_EXCESS:
            raise InputError(f"losses: expected masses of two distributions, got {total} and {other} in all")

    @property
    def parts(self) -> list[tuple[Segment, ...]]:
        """The segments by part of a public draw: (whole line,) or (losses above 0, losses below 0)."""
        segments = iter(self.segments)
        return [(each,) if each.high == math.inf else (each, next(segments)) for each in segments]

    @cached_property
    def swapped(self) -> "Loss":
        """The loss of (Q, P): negated and reversed, masses of Q, the two infinity masses exchanged."""
        if self.is_one_way:
            raise TypeError("swapped: expected a pair that bounds both directions, got a lower bound of one")
        if self.is_symmetric:
            return self
        losses, logs = np.array(self.losses)[::-1], np.array(self.log_masses)[::-1]
        return replace(
            self,
            segments=tuple(each.swapped for part in self.parts for each in reversed(part)),
            losses=tuple((-losses).tolist()),
            log_masses=tuple((logs - losses).tolist()),
            infinity_mass=self.only_other,
            other_infinite=None if self.segments else self.infinity_mass,  # of a symmetric step it is the same loss
        )

    @cached_property
    def masses(self) -> tuple[float, ...]:
        """P mass of each atom; 0 if smaller than any float."""
        return tuple(map(math.exp, self.log_masses))

    @cached_property
    def zero_loss_mass(self) -> float:
        """P mass with loss 0: what is missing to 1, never negative."""
        # One part of a public draw may have more than all of its mass, the average less. Only the average bounds a
        # step, so only its mass at 0 must not be negative; keeping it from being negative in each part cost up to a
        # quarter of epsilon.
        if self.given_zero_mass is not None:
            return self.given_zero_mass
        left = 1.0
        for each in self.segments:
            left -= each.weight * (each.pair.mass_below(each.high) if each.high < math.inf else 1)
        return max(0.0, left - _sum_accurately(self.masses) - self.infinity_mass)

    @cached_property
    def only_other(self) -> float:
        """Q mass where P has none; if not given, what the finite losses leave of 1, at least 0: none with segments."""
        if self.segments:
            return 0.0
        if self.other_infinite is not None:
            return self.other_infinite
        covered = map(math.exp, (np.array(self.log_masses) - np.array(self.losses)).tolist())
        return max(0.0, 1 - _sum_accurately(covered) - self.zero_loss_mass)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta, in [0, 1], at any real epsilon.

        Source: docs/theory.md, Theorem 2.6.
        """
        if epsilon < 0 and self.segments:
            return max(0.0, -math.expm1(epsilon) + math.exp(epsilon) * self.swapped.delta(-epsilon))
        total = self.infinity_mass + math.fsum(
            each.weight * min(1.0, max(0.0, sum(half_line_terms(each.pair, each.high, epsilon))))
            for each in self.segments
            if each.max_loss > 0
        )
        # Between two atoms it falls linearly in e^epsilon. Losses are rounded numbers: it is read where epsilon is
        # smaller by as much as they may be too small. Losses ascend, so that a search finds the first one above
        # epsilon; `_tails` holds the sums from there on, which makes a call logarithmic in the number of losses.
        epsilon -= _ROUNDED * abs(epsilon)
        first = bisect_right(self.losses, epsilon)
        if first < len(self.losses):
            discounted, above = self._tails[first]
            tail = above - discounted * math.expm1(epsilon - self.losses[first])
            total += tail * (1 + _ROUNDOFF * len(self.losses))
        if epsilon < 0:
            total -= self.zero_loss_mass * math.expm1(epsilon)
        return min(1.0, max(0.0, total))

    @cached_property
    def _tails(self) -> list[tuple[float, float]]:
        """Sums over the atoms x >= l, for each atom l: of mass e^(l - x) and of mass (1 - e^(l - x))."""
        # From the largest loss down, so that only what is not negative is added.
        tails: list[tuple[float, float]] = []
        discounted, above, last = 0.0, 0.0, math.inf
        for loss, mass in zip(reversed(self.losses), reversed(self.masses), strict=True):
            above -= discounted * math.expm1(loss - last)
            discounted = mass + discounted * math.exp(loss - last)
            tails.append((discounted, above))
            last = loss
        return tails[::-1]

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon >= 0 with delta(epsilon) <= delta, rounded up; inf if delta < infinity_mass."""
        # From 1 upwards by doubling, since a profile falls; the bracket's upper end is the safe one.
        if delta < self.infinity_mass:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        high = 1.0
        while self.delta(high) > delta:
            high *= 2
        smallest = bracket_root(lambda epsilon: self.delta(epsilon) - delta, 0.0, high, tolerance=1e-12)[1]
        return smallest if self.segments else min(smallest, max([0.0, *self.losses[-1:]]) * (1 + _ROUNDED))

    def rdp(self, order: float) -> float:
        """Return the Renyi divergence of order > 1 of atoms (inf: the largest loss); inf if some loss is infinite."""
        if self.infinity_mass:
            return math.inf
        largest = max([0.0, *self.losses] if self.zero_loss_mass or not self.losses else self.losses)
        if math.isinf(order):
            return largest
        raised = np.array(self.log_masses) + (order - 1) * np.array(self.losses)
        log_zero = math.log(self.zero_loss_mass) if self.zero_loss_mass else -math.inf
        return float(np.logaddexp.reduce(np.append(raised, log_zero))) / (order - 1)


LossCurve = Loss | MixturePair
"""The loss of one step as it is composed: of a `MixturePair` all is on one segment, on which it may rise and fall."""


def _sum_accurately(masses: Iterable[float]) -> float:
    """Return the sum of probabilities as a float, added in extended precision."""
    # math.fsum takes a microsecond a term where the terms range over all exponents: seconds for dozens of phases.
    return float(np.array(tuple(masses)).astype(np.longdouble).sum())


def of_falling_pair(pair: MixturePair) -> Loss:
    """Return the exact loss of a pair (P, Q) whose loss falls along the line: P on centers <= 0, Q on centers >= 0.

    {P > e^eps Q} is then a half-line y < t for every real eps.

    Source: docs/theory.md, Theorem 6.1.
    """
    return Loss(segments=pair.segments)


def of_two_halves(*, own: MixturePair, other: MixturePair, ends: tuple[float, float]) -> Loss:
    """Return an upper bound on the loss of one step whose two directions are bounded by different pairs.

    At epsilon >= 0 its profile is that of `own`, at epsilon < 0 it follows from that of `other` at -epsilon: losses > 0
    from `own`, losses < 0 from the swapped `other`, the remaining mass at 0. Of both pairs {P > e^eps Q} is a half-line
    for eps >= 0, for eps = 0 up to `ends`: for eta N(0) + M against eta N(s) + M with M on centers >= 0 up to s / 2.

    Source: docs/theory.md, Theorem 2.6.
    """
    ahead, back = (
        Segment(pair=pair, high=end, max_loss=pair.max_loss, min_loss=0.0)
        for pair, end in zip((own, other), ends, strict=True)
    )
    return Loss(segments=(ahead, back.swapped))


def with_chords(loss: Loss, deltas: Mapping[float, float]) -> Loss:
    """Return a loss of two halves, or of several such parts, those above 0 lowered to chords between {epsilon: delta}.

    A profile is convex in e^epsilon, so that chords between upper bounds on it are upper bounds. They are the profile
    of finitely many losses, from epsilon 0 on; beyond the last one, where delta is the loss's own, they are as before.

    Source: docs/theory.md, Lemma 2.5 and Theorem 2.6.
    """
    hull: list[tuple[float, float]] = []
    for x, y in sorted((math.expm1(epsilon), delta) for epsilon, delta in deltas.items()):
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0]) >= (y - hull[-2][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()  # it lies on or above the chord
        hull.append((x, y))
    nodes = [(math.log1p(x), y) for x, y in hull]
    last = nodes[-1][0]
    # The profile falls with e^epsilon as fast as the Q mass above epsilon: its slope changes by the mass of a loss.
    slopes = [(b - a) / (math.exp(x) * math.expm1(y - x)) for (x, a), (y, b) in pairwise(nodes)]
    slopes.append(0.0)
    segments: list[Segment] = []
    for ahead, back in loss.parts:
        # Of a part without larger losses next to nothing stays, so that its other half keeps its place.
        end = max(half_line_end(ahead.pair, ahead.high, last), ahead.pair.centers[0] - _REACH * ahead.pair.deviation)
        slopes[-1] -= ahead.weight * ahead.pair.swapped.mass_below(end)
        segments += (replace(ahead, high=end, min_loss=min(last, ahead.max_loss)), back)
    changes = zip(nodes[1:], pairwise(slopes), strict=True)
    corners = [(x, math.log(after - before) + x) for (x, _), (before, after) in changes if after > before]
    atoms = [*(each for each in zip(loss.losses, loss.log_masses, strict=True) if each[0] < 0), *corners]
    return replace(
        loss,
        segments=tuple(segments),
        losses=tuple(x for x, _ in atoms),
        log_masses=tuple(log for _, log in atoms),
    )


def under_draw(parts: Sequence[tuple[float, Loss]]) -> Loss:
    """Return the loss under a public draw of one of some parts, all with segments or none; no part drawn has loss 0.

    The draw, parts of [(probability, loss)], has the same law in D and D', so the profile is the average.

    Source: docs/theory.md, Theorem 2.7.
    """
    if len({bool(loss.segments) for _, loss in parts}) > 1:
        raise TypeError("public draw: expected parts that all are mixtures of Gaussians, or all have few losses")
    parts = [(chance, loss) for chance, loss in parts if chance]  # or less likely than any float
    atoms = [
        (x, math.log(chance) + log)
        for chance, loss in parts
        for x, log in zip(loss.losses, loss.log_masses, strict=True)
    ]
    if len(parts) > 1:
        atoms.sort()
    return Loss(
        segments=tuple(replace(each, weight=chance * each.weight) for chance, loss in parts for each in loss.segments),
        losses=tuple(x for x, _ in atoms),
        log_masses=tuple(log for _, log in atoms),
        infinity_mass=math.fsum(chance * loss.infinity_mass for chance, loss in parts),
        other_infinite=None
        if any(loss.segments for _, loss in parts)
        else math.fsum(chance * loss.only_other for chance, loss in parts if not loss.is_one_way),
        is_symmetric=all(loss.is_symmetric for _, loss in parts),
        is_drawn=True,
        is_one_way=any(loss.is_one_way for _, loss in parts),
    )
