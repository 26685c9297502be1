"""One-step bounds: (K) for one unit, under any scheme, adjacency and clipping level, and those by numbers of members.

With inclusion probability eta, the direction D||D' is dominated at every epsilon >= 0 by the pair on the line

    eta N(0) + sum_j v_j N(d_j)    against    eta N(s) + sum_j v_j N(d_j),                           (K)

where s is the shift that the unit itself causes, and v_j is the probability that a step draws the unit's ancestor at
level j - 1 and misses the one at level j, which moves the mean by at most d_j. The bound grows with s, with every d_j
and with every rate.

Source: docs/theory.md, Theorem 4.3, Theorem 4.4, Theorem 4.6, Theorem 6.1 and Theorem 6.2.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpcalc.amplification.groups import Group, Placement, contexts, large_group, members_in_batch
from dpcalc.errors import WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.loss import Loss, with_chords
from dpcalc.losses.pair import MixturePair
from dpcalc.numerics import Array
from dpcalc.records import dataclass
from dpcalc.sampling.counts import (
    CountDistribution,
    binomial,
    coarsen_upwards,
    compound,
    convolve_power_upper,
    convolve_upper,
    hypergeometric,
    nonzero_probability,
)
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path, capped_distribution
from dpcalc.sampling.sums import rough_count_distributions
from dpcalc.work import ELEMENT, cached_with_cost, spend

Mixtures = tuple[dict[int, Fraction], dict[int, Fraction]]
"""(P, Q), each as {center in clip norms: weight}."""


class _Pairs:
    """A one-step bound that is a pair of Gaussian mixtures in either direction."""

    @property
    def mixtures(self) -> tuple[Mixtures, Mixtures]:
        """The pairs in the directions D||D' and D'||D."""
        raise NotImplementedError

    @cached_property
    def unit_noise_pairs(self) -> tuple[MixturePair, MixturePair]:
        """The pairs of `mixtures` at noise deviation 1, in floats; cached.

        Phases that differ in their noise alone share them: sums of exact fractions take longer than all the rest.
        """
        ahead, back = self.mixtures
        return MixturePair.of(*ahead, deviation=1.0), MixturePair.of(*back, deviation=1.0)


class MissedBatch(NamedTuple):
    """A batch that misses a unit, and upper bounds on its distances from batches of D and of D' that hold it."""

    chance: Fraction  # exact
    distance: int  # in the direction D||D'
    distance_swapped: int  # in D'||D


@dataclass(frozen=True, kw_only=True)
class StepBound(_Pairs):
    """The parameters of (K) for one step and one unit; lengths in clip norms."""

    inclusion: Fraction  # eta, exact probability that the protected unit is in the batch
    shift: int  # s, distance between the batch means with and without the unit's own contribution
    missed: tuple[MissedBatch, ...]  # by level (v_j, d_j, d'_j); `inclusion` and the chances sum to 1
    # for each ancestor that can be missed, outermost first, (what mates contribute beside it under the one above,
    # contents of its stand-ins), in the first of the missed batches: given what is beside it and above, these have one
    # law whatever is drawn under it; () if that is not known
    shared: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        """Raise ArithmeticError for what is no probability: the theorem needs weights >= 0."""
        if not 0 <= self.inclusion <= 1 or any(chance < 0 for chance in self.chances):
            drawn = f"{self.inclusion} drawn, {self.chances} missed"
            raise ArithmeticError(f"expected probabilities in [0, 1], got {drawn}")

    @classmethod
    def sure(cls, shift: int) -> "StepBound":
        """Return the bound of a step that surely moves the batch mean so far."""
        return cls(inclusion=Fraction(1), shift=shift, missed=())

    @property
    def chances(self) -> tuple[Fraction, ...]:
        """(v_1, ..., v_p)."""
        return tuple(each.chance for each in self.missed)

    @property
    def distances(self) -> tuple[int, ...]:
        """(d_1, ..., d_p)."""
        return tuple(each.distance for each in self.missed)

    @property
    def distances_swapped(self) -> tuple[int, ...]:
        """(d'_1, ..., d'_p)."""
        return tuple(each.distance_swapped for each in self.missed)

    @property
    def max_shift(self) -> int:
        """The largest distance, in clip norms, by which what is protected moves the batch mean."""
        return self.shift

    @property
    def mixtures(self) -> tuple[Mixtures, Mixtures]:
        """The pairs of (K) at epsilon >= 0: missed batches at their distances in both, the unit at 0 or `shift`."""

        def pair(distances: tuple[int, ...]) -> Mixtures:
            # Levels at the same distance share a center: all later work grows with the number of centers.
            common: dict[int, Fraction] = {}
            for weight, distance in zip(self.chances, distances, strict=True):
                if weight:
                    common[distance] = common.get(distance, Fraction(0)) + weight
            p, q = (common | {at: common.get(at, Fraction(0)) + self.inclusion} for at in (0, self.shift))
            return p, q

        return pair(self.distances), pair(self.distances_swapped)


def with_largest_lengths(bounds: Sequence[StepBound]) -> StepBound:
    """Return a StepBound that is at least as large as several bounds of equal inclusion and missed probabilities.

    Source: docs/theory.md, Theorem 4.6.
    """
    missed = [bound.missed for bound in bounds]
    return StepBound(
        inclusion=bounds[0].inclusion,
        shift=max(bound.shift for bound in bounds),
        missed=tuple(MissedBatch(*map(max, zip(*alike, strict=True))) for alike in zip(*missed, strict=True)),
    )


def path_bound(path: Path, *, clip: int, adjacency: Adjacency) -> StepBound:
    """Return the upper bound (K) on one step for the unit at the end of a path.

    Source: docs/theory.md, Theorem 4.4.
    """
    unit, own, is_fixed = len(path.counts), path.contributions[-1], path.schemes[-1].has_stand_in
    # In clip norms the unit's shift, and the distances from D and from D' of a batch that misses the unit alone.
    if clip < unit:
        # All of the unit enters through one vector of norm 1, which turns around at most. A batch of D', from which the
        # unit was removed, is itself one that misses it: seen from D' the distance is 0.
        lengths = 2, 2, 0 if adjacency is Adjacency.ADD_REMOVE else 2
    else:
        # Under a fixed draw another unit is drawn in the place of a missed or removed one; else its place stays empty.
        stand_in = path.stand_in(unit)
        distance = own + stand_in
        match adjacency:
            case Adjacency.ADD_REMOVE:
                lengths = distance, distance, 0
            case Adjacency.ZERO_OUT:
                lengths = own, distance, stand_in
            case Adjacency.REPLACE_ONE:
                lengths = 2 * own, distance, distance
    shift, missed, missed_swapped = lengths

    # The most by which the mean of D moves if an ancestor is missed: a clipped vector above it turns around at most.
    above = [2 if level > clip else path.contributions[level - 1] + path.stand_in(level) for level in range(1, unit)]
    # An ancestor is nearer to D' by what a missed one could take away of the unit, where D' has nothing of it: not if
    # the clip is above the unit, if the unit is replaced and so contributes in D' too, or if it is removed under a
    # fixed draw, where a stand-in contributes in its place.
    is_kept = adjacency is Adjacency.REPLACE_ONE or (adjacency is Adjacency.ADD_REMOVE and is_fixed)
    drop = 0 if clip < unit or is_kept else own
    return StepBound(
        inclusion=path.inclusion(unit),
        shift=shift,
        missed=(
            *(
                MissedBatch(path.missed(level), distance, distance - drop)
                for level, distance in enumerate(above, start=1)
            ),
            MissedBatch(path.missed(unit), missed, missed_swapped),
        ),
    )


# Bounds that depend on the number H of protected members, or of their contributions, in a batch
#
# They serve groups, draws with replacement, constructed episodes and random numbers of contributions. H is 0 where
# nothing protected was drawn. Where no other unit takes the place of a missed one, D and D' are mixtures over H:
#
#     sum_h Pr[H = h] N(s h)  against  N(0);     replace-one:  sum_h Pr[H = h] N(m h)  against  the same of N(-m h),
#
# and where one does, the bound is the average over h >= 1 of (K) with shift s h and distance d h. All grow with H in
# stochastic order. Draws above the protected level are revealed. Groups under one draw: Schuchardt et al. 2024
# (2403.04867).


CountLaw = tuple[tuple[int, Fraction], ...]
"""(number, its probability), ascending in number, exact."""


@dataclass(frozen=True, kw_only=True)
class CountPair(_Pairs):
    """A pair of Gaussian mixtures over H, where no other unit takes the place of a missed one."""

    law: CountLaw  # (h, Pr[H = h]), summing to 1
    shift: int  # s, distance in clip norms by which each one of H moves the batch mean
    # True if H also moves the mean of D' to the other side (replace-one); s is then the sum of both moves
    both_ways: bool

    @property
    def max_shift(self) -> int:
        """Largest H times s: the largest distance in clip norms between a mean of D and that of D'."""
        return self.shift * self.law[-1][0]

    @property
    def inclusion(self) -> Fraction:
        """The probability that H is at least 1."""
        return nonzero_probability(dict(self.law))

    @property
    def distances(self) -> tuple[int, ...]:
        """(s,): distance in clip norms, for H = 1, of a batch without anything protected, seen from D."""
        return (self.shift,)

    @property
    def distances_swapped(self) -> tuple[int, ...]:
        """(d',): distance in clip norms, for H = 1, of a batch without anything protected, seen from D'."""
        return (self.shift if self.both_ways else 0,)

    @property
    def mixtures(self) -> tuple[Mixtures, Mixtures]:
        """The pairs over H, whose centers differ by H shifts, half on each side if `both_ways`."""
        # The shift of both is twice one member's contributions, hence even.
        ahead, back = (-self.shift // 2, self.shift // 2) if self.both_ways else (-self.shift, 0)
        p = {ahead * h: chance for h, chance in self.law}
        q = {back * h: chance for h, chance in self.law} if back else {0: Fraction(1)}
        return (p, q), (q, p)


@dataclass(frozen=True, kw_only=True)
class ExchangedPair(_Pairs):
    """Gaussian mixtures of a unit and of another one in its place, both of random numbers that are not told."""

    inclusion: Fraction  # probability that the unit is in the batch
    missed: Fraction  # that its parent is and the unit is not: the other one is in its place
    own: CountLaw  # the unit's contributions, exact probabilities that sum to 1, ascending
    other: CountLaw  # those of the other one; 0 where there is none
    adjacency: Adjacency  # a removed unit has the other one in its place in D'
    above: CountLaw = ()  # (distance of a batch that misses an ancestor from one without either, its probability)

    @property
    def shift(self) -> int:
        """The largest distance in clip norms between a mean of D and that of D'."""
        own, other = self.own[-1][0], self.other[-1][0]
        shifts = {Adjacency.ADD_REMOVE: own + other, Adjacency.ZERO_OUT: own, Adjacency.REPLACE_ONE: 2 * own}
        return shifts[self.adjacency]

    @property
    def max_shift(self) -> int:
        """The same: `shift`."""
        return self.shift

    @property
    def distances(self) -> tuple[int, ...]:
        """The largest distance in clip norms of a batch without the unit, seen from D."""
        return (self.own[-1][0] + max(number for number, _ in (*self.other, *self.above)),)

    @property
    def distances_swapped(self) -> tuple[int, ...]:
        """The largest distance in clip norms of a batch without the unit, seen from D'."""
        return (self.distances[0] - (0 if self.adjacency is Adjacency.REPLACE_ONE else self.own[-1][0]),)

    @property
    def is_glued(self) -> bool:
        """True if the directions are bounded by different pairs, each at epsilon >= 0 alone."""
        return self.adjacency is not Adjacency.ADD_REMOVE or bool(self.above)

    @property
    def mixtures(self) -> tuple[Mixtures, Mixtures]:
        """The pairs in which what is likelier on one side is opposite to all else."""

        def beside(place: CountLaw, side: int, other_side: int = 1) -> dict[int, Fraction]:
            law = dict(self.above)
            for chance, numbers, sign in ((self.missed, self.other, other_side), (self.inclusion, place, side)):
                for number, share in numbers:
                    law[sign * number] = law.get(sign * number, Fraction(0)) + chance * share
            return law

        ahead = beside(self.own, -1), beside(self.replaced, 1)
        if not self.is_glued:
            return ahead, ahead[::-1]
        sign = -1 if self.adjacency is Adjacency.ADD_REMOVE else 1  # a batch that misses a removed unit is one of D'
        return ahead, (beside(self.replaced, -1, sign), beside(self.own, 1, sign))

    @property
    def replaced(self) -> CountLaw:
        """What is in the unit's place in D': the other one's, nothing or own contributions."""
        nothing = ((0, Fraction(1)),)
        laws = {Adjacency.ADD_REMOVE: self.other, Adjacency.ZERO_OUT: nothing, Adjacency.REPLACE_ONE: self.own}
        return laws[self.adjacency]

    def contents(self, noise_multiplier: float) -> MixturePair:
        """The unit against what replaces it, without the batches that hold neither: the same sides of P = Q."""
        own = {-number: chance for number, chance in self.own}
        return MixturePair.of(own, dict(self.replaced), deviation=noise_multiplier)


Part = StepBound | CountPair | ExchangedPair
_UNIT = 2**1600  # denominator of merged probabilities, rounded up by 1e-481: far below the smallest delta, 1e-300
_MAX_PARTS = 64  # of an average: each part has its own privacy profile, ten times as many take ten times as long


@dataclass(frozen=True, kw_only=True)
class Average:
    """A mixture of one-step bounds whose component is public; with the remaining probability the step has loss 0."""

    # (probability > 0, bound); the probabilities sum to at most 1
    parts: tuple[tuple[Fraction, Part], ...]

    @property
    def inclusion(self) -> Fraction:
        """The probability that a step draws anything that is protected."""
        return sum((chance * bound.inclusion for chance, bound in self.parts), start=Fraction(0))

    @property
    def shift(self) -> int:
        """The largest shift s of any part, in clip norms."""
        return max(bound.shift for _, bound in self.parts)

    @property
    def max_shift(self) -> int:
        """The largest distance of any part, in clip norms, between a mean of D and that of D'."""
        return max(bound.max_shift for _, bound in self.parts)

    @property
    def distances(self) -> tuple[int, ...]:
        """(d,): the largest distance of any part, in clip norms, seen from D."""
        return (max(distance for _, bound in self.parts for distance in bound.distances),)

    @property
    def distances_swapped(self) -> tuple[int, ...]:
        """(d',): the largest distance of any part, in clip norms, seen from D'."""
        return (max(distance for _, bound in self.parts for distance in bound.distances_swapped),)


Bound = Part | Average

RevealedCounts = list[tuple[Fraction, CountDistribution]]
"""(probability, law of H given it) for each outcome of the public draws above; sum <= 1, else H is 0."""


def unamplified(bound: Bound) -> Part:
    """Return the bound of a step that surely draws the unit, with H at its largest and in the costliest part."""
    # H at its largest for sure is above every law of it, and the part with the largest shift above every other.
    match bound:
        case CountPair(law=law):
            return replace(bound, law=((law[-1][0], Fraction(1)),))
        case Average(parts=parts):
            return max((unamplified(part) for _, part in parts), key=lambda part: part.max_shift)
        case _:
            return StepBound.sure(bound.shift)


@dataclass(frozen=True, kw_only=True)
class Member:
    """The effect on the batch mean of each one of the H that are counted: a protected unit, or a contribution of it."""

    own: int  # its clipped contributions at most; 1 for a clipped vector above it, which it can turn around
    # the most contributions of the unit that is drawn in its place; 0 if its frame has no other unit; None under
    # schemes that draw no unit in its place
    stand_in: int | None
    # relation between D and D'. For a clipped vector above the unit, `replace-one` stands for `zero-out` too
    adjacency: Adjacency

    @property
    def shift(self) -> int:
        """Distance in clip norms of D and D': own + stand_in (add-remove), own (zero-out), 2 own (replace-one)."""
        match self.adjacency:
            case Adjacency.ADD_REMOVE:
                return self.distance
            case Adjacency.ZERO_OUT:
                return self.own
            case Adjacency.REPLACE_ONE:
                return 2 * self.own

    @property
    def distance(self) -> int:
        """Distance in clip norms between a batch of D with the member and one that misses it: own + stand_in."""
        return self.own + (self.stand_in or 0)

    def bound(self, contexts: RevealedCounts) -> Bound:
        """Return the bound averaged over the revealed contexts in which H can be above 0, in about 64 parts."""

        def parts(law: CountDistribution) -> list[tuple[Fraction, Part]]:
            if self.adjacency is Adjacency.ADD_REMOVE or self.stand_in is None:
                both = self.adjacency is Adjacency.REPLACE_ONE
                return [(Fraction(1), CountPair(law=tuple(sorted(law.items())), shift=self.shift, both_ways=both))]
            swapped = self.stand_in if self.adjacency is Adjacency.ZERO_OUT else self.distance
            return average_over_counts(law, shift=self.shift, distance=self.distance, distance_swapped=swapped)

        return _averaged(contexts, parts, is_merged=True)


def _averaged(
    laws: RevealedCounts, parts_given: Callable[[CountDistribution], list[tuple[Fraction, Part]]], *, is_merged: bool
) -> Bound:
    """Return the average of the parts of all laws in which H can be above 0; in about 64 parts if `is_merged`."""
    parts = tuple(
        (chance * share, part)
        for chance, law in laws
        if chance and nonzero_probability(law)
        for share, part in parts_given(coarsen_upwards(law))
    )
    parts = _merge_parts(parts) if is_merged else parts
    return parts[0][1] if len(parts) == 1 and parts[0][0] == 1 else Average(parts=parts)


def _merge_parts(parts: tuple[tuple[Fraction, Part], ...]) -> tuple[tuple[Fraction, Part], ...]:
    """Return the parts; if they are over 64 and all StepBounds, about 64 that cost at least as much.

    The 32 likeliest stay, and the others are merged, by shift, into about 32.
    """
    rated = [(float(p), float(part.inclusion), p, part) for p, part in parts if isinstance(part, StepBound)]
    if len(rated) <= _MAX_PARTS or len(rated) < len(parts):
        return parts
    rated.sort(key=lambda each: (each[3].shift, each[1]))
    threshold = sorted((likely for likely, *_ in rated), reverse=True)[_MAX_PARTS // 2]
    others = [each for each in rated if each[0] <= threshold]
    kept: list[tuple[Fraction, Part]] = [(chance, part) for likely, _, chance, part in rated if likely > threshold]
    width = -(-len(others) // (_MAX_PARTS // 2))
    for start in range(0, len(others), width):
        merged = others[start : start + width]
        largest = merged[-1][3]  # sorted by shift, and distances are multiples of it
        above = min(Fraction(1), Fraction(math.nextafter(max(inclusion for _, inclusion, *_ in merged), 2.0)))
        chance = Fraction(sum(-(-share.numerator * _UNIT // share.denominator) for _, _, share, _ in merged), _UNIT)
        kept.append((chance, replace(largest, inclusion=above, missed=(largest.missed[0]._replace(chance=1 - above),))))
    return tuple(kept)


def average_over_counts(
    law: CountDistribution, *, shift: int, distance: int, distance_swapped: int
) -> list[tuple[Fraction, Part]]:
    """Return [(Pr[H = h | H >= 1], StepBound of inclusion Pr[H >= 1] and h times the lengths)] for h >= 1, ascending.

    Source: docs/theory.md, Theorem 6.2.
    """
    inclusion = nonzero_probability(law)
    return [
        (
            chance / inclusion,
            StepBound(
                inclusion=inclusion,
                shift=shift * h,
                missed=(MissedBatch(1 - inclusion, distance * h, distance_swapped * h),),
            ),
        )
        for h, chance in sorted(law.items())
        if h
    ]


# The distribution of H, given the draws above, which are revealed (docs/theory.md, Theorem 6.3 and Theorem 6.5)


def revealed_count_distributions(
    hierarchy: Hierarchy, path: Path, *, clip: int, group: Group, each: CountDistribution | None = None
) -> RevealedCounts:
    """Return (probability, upper law of H) by outcome of the public draws above; H is cut to 1 for a clipped batch.

    H counts the members drawn or, if `each` is the law of what one contributes, their contributions. Above the
    protected level it counts a clipped vector once for each member in it. All draws of the path have one redraw period.
    Where the work runs out the laws are those of union bounds, with the most contributions of each drawn member.
    """
    built, size, laws = hierarchy.episodes, group.size, None
    is_unplaced = built is None and size > 1 and group.placement is None
    if not is_unplaced or not any(scheme.can_repeat for scheme in path.schemes):
        with suppress(WorkExceededError):
            members = member_counts(hierarchy, path, clip, group)
            laws = [(chance, coarsen_upwards(law if each is None else compound(law, each))) for chance, law in members]
    if laws is None:  # too costly, or no better law is proved
        max_contributions = max(each) if each is not None else 1
        if built is None:
            laws = rough_count_distributions([*zip(path.schemes, path.counts, strict=True)], size, max_contributions)
        else:  # the chance that any task holds a member, with all members in all tasks
            chance = min(Fraction(1), size * built.tasks * built.rate(path.counts))
            laws = [(chance, {size * built.tasks * max_contributions: Fraction(1)})]
    return laws if clip else [(chance, capped_distribution(law, 1)) for chance, law in laws]


def member_counts(hierarchy: Hierarchy, path: Path, clip: int, group: Group) -> RevealedCounts:
    """Return upper laws of the members drawn, by how episodes are built, a placement, or union bounds without one."""
    scheme, count = path.schemes[-1], path.counts[-1]
    if (built := hierarchy.episodes) is not None and len(path.counts) == 1:
        # A task holds a class at most once, so that its protected classes are those of one draw without replacement.
        in_task = hypergeometric(count, min(group.size, count), built.ways)
        if clip == 1:  # the tasks that hold any
            return [(Fraction(1), binomial(built.tasks, nonzero_probability(in_task)))]
        return [(Fraction(1), convolve_power_upper(in_task, built.tasks))]
    if built is not None:
        if clip < 2:
            return [(Fraction(1), binomial(built.tasks, built.rate(path.counts)))]
        records = Fraction(built.records, path.counts[1])
        tasks_with_class = coarsen_upwards(binomial(built.tasks, built.rate(path.counts[:1])))
        return [(chance, binomial(number, records)) for number, chance in tasks_with_class.items()]
    if group.size > 1 and group.placement is None:
        parent_rate = math.prod((path.rate(level) for level in range(1, len(path.counts))), start=Fraction(1))
        return large_group(group.size, parent_rate, path.rate(len(path.counts)))
    placement: Placement = 1 if group.placement is None else group.placement
    if group.placement is None:
        for _ in path.schemes[1:]:
            placement = (placement,)
    by_context = contexts(placement, path.schemes, path.counts)
    return [(chance, members_in_batch(context, scheme, count)) for context, chance in by_context.items()]


def unit_count_bound(hierarchy: Hierarchy, path: Path, *, adjacency: Adjacency, group: Group, exchange: int) -> Bound:
    """Return the upper bound on a step, averaged over the public draws above, with distances in changes.

    Source: docs/theory.md, Theorem 8.1.
    """
    laws = revealed_count_distributions(hierarchy, path, clip=hierarchy.depth, group=group)
    has_stand_in = hierarchy.episodes is not None or path.schemes[-1].has_stand_in or path.schemes[-1].can_repeat
    missed = exchange if has_stand_in else 1

    def parts(law: CountDistribution) -> list[tuple[Fraction, Part]]:
        # A batch of D' without the units is one that misses them, if nothing of them is left there.
        if adjacency is Adjacency.ADD_REMOVE or (adjacency is Adjacency.ZERO_OUT and not has_stand_in):
            return [(Fraction(1), CountPair(law=tuple(sorted(law.items())), shift=missed, both_ways=False))]
        if adjacency is Adjacency.ZERO_OUT:
            return average_over_counts(law, shift=1, distance=missed, distance_swapped=1)
        return average_over_counts(law, shift=exchange, distance=missed, distance_swapped=missed)

    return _averaged(laws, parts, is_merged=False)


# Groups below drawn units, with the draws above them hidden (docs/theory.md, Theorem 6.4)
#
# g is the number of outermost units drawn that hold members, h the number of members drawn, b the number of outermost
# units that hold members at all.

MAX_UNITS_APART = 2  # outermost units drawn that get parts of their own; more count as all that hold members


def hidden_group_bound(
    path: Path, placement: tuple[Placement, ...], member: Member, *, each: CountDistribution | None = None
) -> Average | None:
    """Return a group's bound averaged over how many members a hidden draw holds; None if they are never drawn.

    Source: docs/theory.md, Theorem 6.4.
    """
    inclusion, missed, drawn = hidden_draws(path, placement, each)
    if not inclusion:
        return None
    parts = []
    for (g, h), chance in drawn:
        # h members move the mean by their own contributions, but no more than the g units above them can turn around.
        shift = min(h * member.shift, 2 * path.contributions[0] * g)
        distances = missed_distances(path, placement, member, g, h)
        batches = tuple(MissedBatch(share, apart, apart) for share, apart in zip(missed, distances, strict=True))
        bound = StepBound(inclusion=inclusion, shift=shift, missed=batches)
        parts.append((chance / inclusion, bound))
    return Average(parts=tuple(parts))


class HiddenDraws(NamedTuple):
    """The law of (g, h), the outermost units of a group and its members that a step draws."""

    inclusion: Fraction  # Pr[h >= 1]
    missed: tuple[Fraction, Fraction]  # (Pr[g = 0], Pr[g >= 1, h = 0])
    # ((g, h), probability) for h >= 1, ascending; their probabilities sum to `inclusion`
    drawn: list[tuple[tuple[int, int], Fraction]]


def hidden_draws(path: Path, placement: tuple[Placement, ...], each: CountDistribution | None) -> HiddenDraws:
    """Return the law of (g, h), the group's outermost units and members drawn; g > 2 counts as all of them."""
    joint: dict[tuple[int, int], Fraction] = {}
    kinds, outermost = Counter(placement), path.schemes[0]
    below: list[CountDistribution] = []
    for kind in kinds:
        law: CountDistribution = {}
        for context, chance in contexts(kind, path.schemes[1:], path.counts[1:]).items():
            for members, weight in members_in_batch(context, path.schemes[-1], path.counts[-1]).items():
                law[members] = law.get(members, Fraction(0)) + chance * weight
        below.append(law if each is None else compound(law, each))
    for units, chance in outermost.units_by_kind(path.counts[0], tuple(kinds.values())):
        law = {0: chance}
        for number, each_kind in zip(units, below, strict=True):
            law = convolve_upper(law, convolve_power_upper(each_kind, number))
        for members, weight in law.items():
            joint[sum(units), members] = joint.get((sum(units), members), Fraction(0)) + weight

    inclusion = sum((chance for (_, h), chance in joint.items() if h), start=Fraction(0))
    without_members = sum((chance for (g, h), chance in joint.items() if g and not h), start=Fraction(0))
    drawn: dict[tuple[int, int], Fraction] = {}
    for (g, h), chance in joint.items():
        key = (g if g <= MAX_UNITS_APART else len(placement), h)
        if h:
            drawn[key] = drawn.get(key, Fraction(0)) + chance
    return HiddenDraws(inclusion, (joint.get((0, 0), Fraction(0)), without_members), sorted(drawn.items()))


def missed_distances(path: Path, placement: tuple[Placement, ...], member: Member, g: int, h: int) -> tuple[int, int]:
    """Return the largest distances of a batch to one with other units drawn for the group's, and for its members."""
    occupied, largest = len(placement), path.contributions[0]
    stand_in, without_members = path.stand_in(1), (g + occupied) * largest
    if path.schemes[
        0
    ].has_stand_in:  # each unit that leaves has a stand-in, and one in both batches turns around at most
        without_members = max(g, occupied) * max(largest + stand_in, 2 * largest)
    if occupied == 1 and len(path.counts) == 2:  # members are exchanged for others of the same frame alone
        without_members = min(without_members, h * member.distance)
    return g * (largest + stand_in), without_members


# A sharper D||D' for a removed unit under a draw of a fixed size: its mates and a stand-in share one geometry.
# (K) takes the distance of each missed batch at its largest. Under a draw of a fixed size the removed unit takes the
# place of one of its mates. A mate that is opposite to the unit and a sum of mates that is opposite to the stand-in of
# an ancestor exclude each other, so that not all distances are at their largest at once. The bound is the largest value
# of an integral over three angles and lengths, found by branch and bound over cells in each of which the integral has a
# proved upper bound.
# Source: docs/theory.md, Theorem 6.10.


MIN_GAIN = 0.05  # of epsilon, below which the bound is not worth its half second
_MIN_NOISE = 0.25  # of the largest contribution: with less noise exponentials of the search overflow
_EPSILONS = 20  # at which the profile is bounded; chords between 16 of them cost .2 % of epsilon more
_SHARES = 0.9, 1e-6  # of (K) at epsilon 0, between which the search is made: beyond them it does not matter
_MORE_EPSILONS, _FAR_SHARE = 60, 1e-12  # values of (K) itself beside them, up to this share
_MATE_CELLS = 24  # of the angle between a mate and the missed batch
_MAX_DISTANCE = 20.0  # deviations to the missed batch
_NODES = 36  # of the law of a likelihood ratio that is integrated
_FIRST_CELLS = 6  # of the unit's angle, and of the missed batch's distance, to begin with
_ROUNDS, _SPLIT = 3, 12  # rounds in each of which the cells with the largest values are cut into four
_THREATS = 0.0, 0.6  # shares of what is missed that are charged to mates by their angle
_ROUNDOFF = 1e-13  # of an integral of terms of about 1; its largest values are 1e-7 and more
_TELLING_SHARES = 0.3, 0.1, 0.03  # of (K) at epsilon 0, where the gain is estimated
_NEARLY = 0.8  # of (K) there, above which the search ends: a profile .8 of another one lowers epsilon by 3 %
_LINES, _POINTS_OF_A_LINE = 9, 400  # data sets on a line, and points of the integral over the noise
_NEARLY_ON_A_LINE = 0.75  # the same for data on a line, which are below the bound: it then lowers epsilon by under 5 %
_LOGS = 5  # transcendental functions of an element


@dataclass(frozen=True, kw_only=True)
class JointStepBound(StepBound):
    """(K), and what is known of the places of the missed batches relative to each other."""

    mates: int  # units of the protected level that are drawn from the frame without the unit, >= 1
    radius: int  # most contributions of the unit and of a mate, >= 1: the length of their sums, in clip norms
    reach: int  # most contributions, other than the mates', that a missed ancestor takes away and its stand-in brings
    missed_chance: Fraction  # v_j of that ancestor


def joint_step_bound(bound: StepBound, path: Path, *, clip: int, adjacency: Adjacency) -> JointStepBound | None:
    """Return (K) with the geometry of its likeliest missed ancestor; None unless a removed unit has one and a stand-in.

    Source: docs/theory.md, Theorem 6.10.
    """
    unit, scheme = len(path.counts), path.schemes[-1]
    if adjacency is not Adjacency.ADD_REMOVE or clip < unit or not scheme.has_stand_in or path.rate(unit) == 1:
        return None
    ancestor = max(range(unit - 1), key=lambda at: bound.missed[at].chance, default=None)
    if ancestor is None or not bound.missed[ancestor].chance:
        return None
    return JointStepBound(
        **{field.name: getattr(bound, field.name) for field in fields(StepBound)},
        mates=scheme.size,
        radius=max(path.contributions[-1], path.siblings[-1]),
        reach=sum(path.mates[ancestor + 1 : unit - 1]) + path.stand_in(ancestor + 1),
        missed_chance=bound.missed[ancestor].chance,
    )


@cached_with_cost(64)
def joint_profile(bound: JointStepBound, plain: Loss) -> Loss:
    """Return an upper profile of (K) that uses the joint distances; `plain` if noise is low or the gain small.

    Source: docs/theory.md, Theorem 6.10.
    """
    deviation = plain.segments[0].pair.deviation
    if deviation < _MIN_NOISE * bound.radius:
        return plain
    at_0 = plain.delta(0.0)
    first, last = (plain.epsilon(share * at_0) for share in _SHARES)
    far = plain.epsilon(_FAR_SHARE * at_0)
    search = _Search(bound, deviation)
    # Data on one line cost no more than the bound, and are quicker: where they cost nearly (K), nothing can be gained.
    telling = [(plain.epsilon(share * at_0), share * at_0) for share in _TELLING_SHARES]
    for value, nearly in ((search.on_a_line, _NEARLY_ON_A_LINE), (search.largest, _NEARLY)):
        if all(value(epsilon) > nearly * delta for epsilon, delta in telling):
            return plain
    deltas = dict.fromkeys([0.0], at_0)
    deltas |= {epsilon: plain.delta(epsilon) for epsilon in np.geomspace(first / 20, far, _MORE_EPSILONS).tolist()}
    for epsilon in np.geomspace(first, last, _EPSILONS).tolist():
        deltas[epsilon] = min(plain.delta(epsilon), search.largest(epsilon))
    return with_chords(plain, deltas)


_Cells = tuple[Array, Array]
"""Least and largest (angle between the unit and the missed batch, distance of that in radii), shape (cells, 2) each."""


class _Search:
    """The supremum of Theorem 6.10 under one noise, by branch and bound. Lengths are in units of the radius.

    A cell holds all unit vectors x, directions and distances of the missed batch of a range. In a cell each angle of
    the mates, cut into cells as well, has an upper bound; the mean over the mates is the largest under the constraint
    on their mean.

    Source: docs/theory.md, Theorem 6.14.
    """

    def __init__(self, bound: JointStepBound, deviation: float) -> None:
        """Prepare a search with lengths relative to the radius and grids of the mates' angle and the noise."""
        self.noise, self.mates = deviation / bound.radius, bound.mates
        self.reach = bound.reach / bound.radius
        self.inclusion = float(bound.inclusion)
        self.near = float((bound.inclusion + bound.missed[-1].chance) / bound.inclusion)
        self.far = float(bound.missed_chance / bound.inclusion)
        ends = np.linspace(math.pi, 0.0, _MATE_CELLS + 1)  # cosines ascend
        self.angles = np.stack([ends[1:], ends[:-1]], axis=1)
        self.low, self.high = np.cos(ends[:-1]), np.cos(ends[1:])
        self.points = np.linspace(-6.5 - 2 / self.noise, 6.0 + 2 / self.noise, _NODES)
        self.pairs = np.triu_indices(_MATE_CELLS, 1)

    def largest(self, epsilon: float) -> float:
        """Return an upper bound on delta at an epsilon > 0, by three rounds of branch and bound; NaN on overflow."""
        # A grid over all angles of the unit from 0 to pi, and distances up to the largest.
        unit, distance = (np.linspace(0.0, end, _FIRST_CELLS + 1) for end in (math.pi, self.reach + self.mates))
        rows, columns = (index.ravel() for index in np.indices((_FIRST_CELLS, _FIRST_CELLS)))
        angles = np.stack([unit[rows], unit[rows + 1]], axis=1)
        cells = angles, np.stack([distance[columns], distance[columns + 1]], axis=1)
        values, kept = self._upper_bounds(cells, math.expm1(epsilon)), np.zeros(1)
        for _ in range(_ROUNDS):
            order = np.argsort(-values)
            kept = np.append(kept, values[order[_SPLIT:]].max(initial=0.0))  # nan stays nan, which is no bound
            split = order[:_SPLIT]
            # Four blocks of all these cells: block k has half k % 2 of the angle and half k // 2 of the distance.
            halves = [np.stack([x[split, 0], x[split].mean(axis=1), x[split, 1]], axis=1) for x in cells]
            unit_halves, distance_halves = ([each[:, :2], each[:, 1:]] for each in halves)
            doubled = [*unit_halves, *unit_halves]
            cells = np.concatenate(doubled), np.concatenate([distance_halves[k // 2] for k in range(4)])
            values = np.minimum(self._upper_bounds(cells, math.expm1(epsilon)), np.tile(values[split], 4))
        return self.inclusion * (float(np.append(kept, values).max()) + _ROUNDOFF)

    def on_a_line(self, epsilon: float) -> float:
        """Return the largest delta of data on one line, over numbers of mates opposite to the unit; not certified."""
        opposite = np.unique(np.linspace(0, min(self.mates, (self.reach + self.mates) // 2), _LINES).round())[:, None]
        y = np.linspace(-8 - 2 / self.noise, 8.0, _POINTS_OF_A_LINE)
        lengths = np.array([[-2.0]]), self.reach + self.mates - 2 * opposite
        near, far = (np.exp(np.minimum((y - x / self.noise / 2) * x / self.noise, 700.0)) for x in lengths)
        paid = math.expm1(epsilon) * (self.near + self.far * far)
        gained = np.maximum(opposite / self.mates * (near - 1) - paid, 0.0)
        density = np.exp(-y * y / 2) / math.sqrt(2 * math.pi)
        return self.inclusion * float((gained * density).sum(axis=1).max()) * float(y[1] - y[0])

    def _upper_bounds(self, cells: _Cells, expm1_epsilon: float) -> Array:
        """Return, by cell, the smallest bound on delta / inclusion at the worst mates, over the shares in _THREATS."""
        from scipy.special import ndtr

        # The lengths that make the integral largest, in deviations, by cell of the search and cell of a mate's angle:
        # of the unit minus a mate, along the missed batch and across it, and of that batch.
        unit, distances = cells
        along = np.cos(unit[:, 1:]) - self.high
        along = np.where(along > 0, along * (distances[:, :1] / distances[:, 1:]), along)
        sums = [unit[:, at, None] + self.angles[:, at] for at in (0, 1)]
        length = 2 * np.sin(np.clip(math.pi / 2, sums[0] / 2, sums[1] / 2))
        across = np.sqrt(np.maximum(length * length - along * along, 1e-10)) / self.noise
        along, distance = along / self.noise, distances[:, 1] / self.noise
        # Exponentials of longer distances underflow; there X_q, which only subtracts, is next to 0 and is left out.
        far = np.where(distance <= _MAX_DISTANCE, self.far, 0.0)[:, None]
        distance = np.minimum(distance, _MAX_DISTANCE)
        ratios, weights = _ratio_law(distance, self.points)
        step = self.points[1] - self.points[0]
        swell = np.maximum(along * (distance[:, None] - along), 0.0) * step * step / 8
        log_forward = along[:, :, None] * self.points + (swell - along * along / 2)[:, :, None]
        outside = ndtr(self.points[0] - along) + ndtr(along - self.points[-1])

        mean = np.minimum((self.reach - distances[:, 0]) / self.mates, 1.0)[:, None]  # largest mean cosine of the mates
        first, second = self.pairs
        share = (mean - self.low[first]) / (self.low[second] - self.low[first])
        best = np.full(mean.shape[0], np.inf)
        for threat in _THREATS:
            # Charging the mates by their angle for a share of what is missed is valid.
            charge = 1 - threat + threat * (self.low + 1) / (mean + 1 + 1e-12)
            strikes = 1 + expm1_epsilon * charge[:, :, None] * (self.near + far * ratios)[:, None, :]
            spend(_LOGS * ELEMENT * strikes.size)
            # Upper bounds on E (X_p - strike)^+ by cell and mate cell: weighted Black-Scholes prices plus tails.
            upper = (log_forward - np.log(strikes)) / across[:, :, None] + across[:, :, None] / 2
            inside = np.exp(log_forward) * ndtr(upper) - strikes * ndtr(upper - across[:, :, None])
            values = np.maximum((inside * weights[:, None, :]).sum(axis=2), 0.0) + outside
            # Their largest mean over laws of the mates' cosine with mean at most `mean`, a linear programme with two
            # constraints: one cell, or two cells on either side of the mean.
            alone = np.where(self.low <= mean + 1e-12, values, 0.0).max(axis=1)
            both = (1 - share) * values[:, first] + share * values[:, second]
            largest = np.maximum(alone, np.where((share >= 0) & (share <= 1), both, 0.0).max(axis=1))
            best = np.minimum(best, largest)
        return best


def _ratio_law(distance: Array, points: Array) -> tuple[Array, Array]:
    """Return values and masses of a discrete law above the likelihood ratio X_q in convex order, tails left out."""
    # X_q = exp(distance y - distance^2 / 2) under y ~ N(0); the mass between two points is split between them so that
    # the mean stays; mass outside the points is left out.
    d = distance[:, None]
    mass = _normal_masses(points)
    values = np.exp(d * points - d * d / 2)
    upper = (_normal_masses(points - d) - values[:, :-1] * mass) / np.diff(values, axis=1)
    upper = np.clip(upper, 0.0, mass)
    masses = np.zeros(values.shape)
    masses[:, 1:] += upper
    masses[:, :-1] += mass - upper
    return values, masses


def _normal_masses(points: Array) -> Array:
    """Return the masses that N(0, 1) has between neighbouring points, which ascend along the last axis."""
    from scipy.special import ndtr

    # Beyond 8.3 deviations Phi is 1: there the masses are differences of upper tails.
    masses: Array = np.where(points[..., :-1] > 0, -np.diff(ndtr(-points)), np.diff(ndtr(points)))
    return masses
