"""The one-step bound where a drawn unit makes a random number of contributions; an empty unit contributes exactly zero.

A unit of which nothing is drawn is the same in D and D', so the inclusion probability falls to that of a non-empty
unit, and (K) is averaged over its contributions. A removed unit under a fixed draw keeps a stand-in out even if it is
empty; there the bound is averaged over the contributions of both. Below a clipping level, what matters is whether the
unit, and any other record in its clipping unit, is drawn.

Source: docs/theory.md, Theorem 6.6, Theorem 6.9 and Theorem 6.11.
"""

import math
import operator
import sys
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from dpcalc.amplification.bound import (
    MAX_UNITS_APART,
    Average,
    Bound,
    CountPair,
    ExchangedPair,
    Member,
    MissedBatch,
    StepBound,
    hidden_draws,
    hidden_group_bound,
    missed_distances,
    path_bound,
)
from dpcalc.amplification.groups import Placement
from dpcalc.amplification.mates import (
    MatesAverage,
    UnitCase,
    few_counts,
    largest_surroundings,
    surroundings,
)
from dpcalc.errors import WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.sampling.counts import (
    CountDistribution,
    coarsen_upwards,
    coarsen_upwards_to,
    convolve_upper,
    nonzero_probability,
    power,
)
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path, contribution_distribution, max_nonempty_probability, sum_upper
from dpcalc.sampling.sums import coarsen_at_quantiles, independent_sum
from dpcalc.work import SECOND, allowance, cached_with_cost

_MATES_WORK = 0.3 * SECOND  # for the distributions of the mates of one unit; with more they are at their largest
_MAX_PARTS = 512  # of an average over the mates before its parts are merged; ten times as many take a second
_MAX_COUNTS = 6  # of contributions if those of a stand-in are random too: 36 pairs; 60 would take 100 times as long
_FEW_PAIRED = (-1.0, 0.0, 1.0, 2.0, 4.0)  # quantiles of the same with random mates, in deviations
_MAX_HIDDEN_CENTERS = 900  # of all parts of an average over mates whose own contributions are not told
_MAX_OWN = 256  # contributions of a unit; more take only a dozen values
# Probability below which being the only drawn record is neglected: it would lower delta by less than that.
_NEGLECTED_CHANCE = Fraction(1, 2**60)


class ContributionLaws(NamedTuple):
    """Upper laws of the contributions of a unit and of its stand-in; the latter 0 unless draws are fixed."""

    own: CountDistribution
    stand_in: CountDistribution


def single_unit_bound(hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency) -> Bound:
    """Return one unit's bound by the law of its contributions; (K) with the most if they are certain or costly.

    (K) if nothing but the draw is random; a CountPair for an outermost unit without stand-ins; else an Average.
    """
    laws, is_fixed = _random_contributions(hierarchy, path, clip), path.schemes[-1].has_stand_in
    unit = len(path.counts)
    if laws is not None and not is_fixed and not any(path.missed(level) for level in range(1, unit)):
        # Below what is surely drawn, without stand-ins, an empty unit leaves the batch of a missed one: the law of H
        # says everything.
        law: CountDistribution = {h: path.rate(unit) * chance for h, chance in laws.own.items()}
        law[0] = law.get(0, Fraction(0)) + 1 - path.rate(unit)
        with suppress(WorkExceededError):
            return Member(own=1, stand_in=None, adjacency=adjacency).bound([(Fraction(1), law)])
        return path_bound(path, clip=clip, adjacency=adjacency)
    if laws is not None:
        if is_fixed:  # which pairs the numbers of both
            laws = ContributionLaws(*(coarsen_upwards_to(law, _MAX_COUNTS) for law in laws))
        laws = laws if len(laws.own) <= _MAX_OWN else laws._replace(own=few_counts(laws.own))
    cases = _unit_cases(hierarchy, path, laws, clip=clip, adjacency=adjacency)
    if len(cases) == 1 and cases[0].is_sure:
        return path_bound(path, clip=clip, adjacency=adjacency)
    return Average(parts=largest_surroundings(path, clip=clip).parts(cases))


def exchanged_bound(hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency) -> Bound | None:
    """Return one unit's bound in which its contributions and those of what is in its place are not told.

    None if they are not random, if an outermost unit has nobody in its place, or with too many mixtures to compose.

    Source: docs/theory.md, Theorem 6.16.
    """
    laws, unit = _random_contributions(hierarchy, path, clip), len(path.counts)
    is_missed = any(path.missed(level) for level in range(1, unit))
    if laws is None or not (is_missed or path.schemes[-1].has_stand_in):
        return None
    own, other = (tuple(sorted((few_counts if is_missed else coarsen_upwards)(law).items())) for law in laws)
    max_mates = _MAX_HIDDEN_CENTERS // (len(own) + len(other) + unit)
    around = surroundings(hierarchy, path, clip=clip, max_mates=max_mates)
    parts: list[tuple[Fraction, ExchangedPair]] = []
    for chance, mates in around.mates:
        above: dict[int, Fraction] = {}
        for missed, stand_in, cap, all_mates in zip(
            around.missed, around.stand_ins, around.largest, mates, strict=True
        ):
            beside = min(all_mates, cap - around.own)
            for number, share in stand_in.items() if missed else ():
                above[beside + number] = above.get(beside + number, Fraction(0)) + missed * share
        part = ExchangedPair(
            inclusion=path.inclusion(unit),
            missed=path.missed(unit),
            own=own,
            other=other,
            adjacency=adjacency,
            above=tuple(sorted(above.items())),
        )
        parts.append((chance, part))
    centers = len(parts) * (len(own) + len(other) + max(len(part.above) for _, part in parts))
    if len(parts) == 1:
        return parts[0][1]
    return Average(parts=tuple(parts)) if centers <= _MAX_HIDDEN_CENTERS else None


@cached_with_cost(64)
def averaged_unit_bound(hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency) -> Bound:
    """Return one unit's bound averaged over random mates too; `single_unit_bound` if there are none or too costly.

    Source: docs/theory.md, Theorem 6.9.
    """
    largest = single_unit_bound(hierarchy, path, clip=clip, adjacency=adjacency)
    laws = _random_contributions(hierarchy, path, clip)
    if isinstance(largest, CountPair | ExchangedPair) or len(path.counts) == 1:
        return largest
    if laws is not None:  # so few numbers that their combinations with those of the mates stay few
        is_paired = path.schemes[-1].has_stand_in and adjacency is Adjacency.ADD_REMOVE
        laws = ContributionLaws(
            *(coarsen_at_quantiles(law, _FEW_PAIRED) if is_paired else few_counts(law) for law in laws)
        )
    cases = _unit_cases(hierarchy, path, laws, clip=clip, adjacency=adjacency)
    try:
        around = surroundings(hierarchy, path, clip=clip, max_mates=_MAX_PARTS // len(cases))
        return largest if around.is_certain else MatesAverage(parts=around.parts(cases), largest=largest)
    except WorkExceededError:
        return largest


def hidden_unit_bound(
    hierarchy: Hierarchy, path: Path, *, adjacency: Adjacency, max_mates: int, exchange: int
) -> StepBound | MatesAverage:
    """Return (K*) of a unit whose draws are hidden, in numbers of changes; averaged over random mates if cheap.

    A missed ancestor takes the units drawn under it away, and its stand-in brings others.

    An upper bound whose shift and distances are numbers of changes.

    Source: docs/theory.md, Theorem 8.7.
    """
    unit, may_stand_in = len(path.counts), path.schemes[-1].has_stand_in
    missed = exchange if may_stand_in else 1
    match adjacency:  # changes from C to B; units in the place of x in B; changes from B to a batch that misses x
        case Adjacency.ADD_REMOVE:
            shift, contents, swapped = missed, int(may_stand_in), 0
        case Adjacency.ZERO_OUT:
            shift, contents, swapped = 1, 0, int(may_stand_in)
        case Adjacency.REPLACE_ONE:
            shift, contents, swapped = exchange, 1, missed
    case = UnitCase(
        chance=Fraction(1),
        inclusion=path.inclusion(unit),
        shift=shift,
        contents=1,
        contents_swapped=contents,
        near=(MissedBatch(path.missed(unit), missed, swapped),),
        is_sure=True,
    )
    distance = max if exchange == 1 else operator.add  # of units that go and that come, which exchanges pair up
    ((_, largest),) = largest_surroundings(path, clip=unit).parts([case], exchange_distance=distance)
    with allowance(_MATES_WORK), suppress(WorkExceededError):
        if max_mates:
            # Without the levels below: a drawn unit counts, whether or not anything of it is drawn.
            down_to_unit = replace(hierarchy, levels=hierarchy.levels[:unit], tree=None)
            around = surroundings(down_to_unit, path, clip=unit, max_mates=max_mates)
            parts = around.parts([case], exchange_distance=distance)
            return largest if around.is_certain else MatesAverage(parts=parts, largest=largest)
    return largest


def _random_contributions(hierarchy: Hierarchy, path: Path, clip: int) -> ContributionLaws | None:
    """Return upper laws of the unit's and a stand-in's contributions; None if the former are certain or not known.

    They are not known if the unit is clipped from above or the law too costly.
    """
    unit = len(path.counts)
    own = None if clip < unit else _affordable_contribution_distribution(hierarchy, unit, clip, path.contributions[-1])
    if own is None:
        return None
    if not path.schemes[-1].has_stand_in:
        return ContributionLaws(own, {0: Fraction(1)})
    stand_in = _affordable_contribution_distribution(hierarchy, unit, clip, path.siblings[-1])
    return ContributionLaws(own, stand_in or {path.siblings[-1]: Fraction(1)})


def _unit_cases(
    hierarchy: Hierarchy, path: Path, laws: ContributionLaws | None, *, clip: int, adjacency: Adjacency
) -> list[UnitCase]:
    """Return the cases over which (K) of a unit is averaged: by `laws`, or by whether it is alone in a clipped vector.

    Without laws a unit that is not clipped from above has one case.
    """
    bound, is_fixed = path_bound(path, clip=clip, adjacency=adjacency), path.schemes[-1].has_stand_in
    if clip < len(path.counts):
        return _cases_below_clipping_level(hierarchy, path, bound, clip=clip, adjacency=adjacency)
    is_replaced, is_exchanged = adjacency is Adjacency.REPLACE_ONE, is_fixed and adjacency is Adjacency.ADD_REMOVE
    if laws is None:  # the unit and what takes its place in D' make their largest contributions
        own = path.contributions[-1]
        swapped = own if is_replaced else path.siblings[-1] if is_exchanged else 0
        return [
            UnitCase(
                chance=Fraction(1),
                inclusion=bound.inclusion,
                shift=bound.shift,
                contents=own,
                contents_swapped=swapped,
                near=bound.missed[-1:],
                is_sure=True,
            )
        ]
    missed = bound.missed[-1].chance
    if is_exchanged:  # each pair of a removed unit's contributions and its stand-in's, unless both are 0
        return [
            UnitCase(
                chance=p * q,
                inclusion=bound.inclusion,
                shift=x + y,
                contents=x,
                contents_swapped=y,
                near=tuple(MissedBatch(missed * share, x + m, 0) for m, share in laws.stand_in.items()),
            )
            for x, p in laws.own.items()
            for y, q in laws.stand_in.items()
            if x + y
        ]
    # Each number h >= 1 of the unit's contributions; a unit drawn empty counts as missed. Missed batches differ from
    # D's by h and by each number that a stand-in contributes; those that hold it empty by h.
    nonempty = nonzero_probability(laws.own)
    empty = bound.inclusion * (1 - nonempty)
    return [
        UnitCase(
            chance=chance / nonempty,
            inclusion=bound.inclusion * nonempty,
            shift=2 * h if is_replaced else h,
            contents=h,
            contents_swapped=h if is_replaced else 0,
            near=(
                *(MissedBatch(missed * p, h + m, h + m if is_replaced else m) for m, p in laws.stand_in.items()),
                MissedBatch(empty, h, h if is_replaced else 0),
            ),
        )
        for h, chance in laws.own.items()
        if h
    ]


def member_contribution_distribution(
    hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency
) -> CountDistribution | None:
    """Return an upper law of a drawn member's contributions, 0 or 1 if clipped from above; None to count the most.

    Clipped from above (clip < unit), the law of whether the member holds any drawn record. None where the number is
    not random or not known, another unit may take the member's place, or draws are with replacement or build
    episodes.
    """
    unit = len(path.counts)
    if hierarchy.episodes is not None or any(scheme.can_repeat for scheme in path.schemes):
        return None
    # A member under a fixed draw keeps a stand-in out even where it is empty itself: the mean moves all the same.
    if path.schemes[-1].has_stand_in and (clip >= unit or adjacency is Adjacency.ADD_REMOVE):
        return None
    if clip >= unit:
        return _affordable_contribution_distribution(hierarchy, unit, clip, path.contributions[-1])
    nonempty = max_nonempty_probability(hierarchy, unit, hold=hierarchy.level(unit).redraw_every)
    return {0: 1 - nonempty, 1: nonempty} if 0 < nonempty < 1 else None


def _affordable_contribution_distribution(
    hierarchy: Hierarchy, unit: int, clip: int, max_contributions: int
) -> CountDistribution | None:
    """Return `contribution_distribution`; None also if it needs too much work, or if all are surely empty."""
    with suppress(WorkExceededError):
        law = contribution_distribution(hierarchy, unit=unit, clip=clip, max_contributions=max_contributions)
        return law if law is not None and nonzero_probability(law) else None
    return None


def _cases_below_clipping_level(
    hierarchy: Hierarchy, path: Path, bound: StepBound, *, clip: int, adjacency: Adjacency
) -> list[UnitCase]:
    """Return the cases of a unit in a clipped vector: beside other records and, for a removed one, perhaps alone."""
    unit, schemes, hold = len(path.counts), path.schemes, hierarchy.level(len(path.counts)).redraw_every
    law = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=adjacency)
    if law is not None:  # a drawn unit that is empty counts as missed
        nonempty = nonzero_probability(law)
        *above, last = bound.missed
        last = last._replace(chance=last.chance + bound.inclusion * (1 - nonempty))
        bound = replace(bound, inclusion=bound.inclusion * nonempty, missed=(*above, last))
    beside_others = UnitCase(
        chance=Fraction(1),
        inclusion=bound.inclusion,
        shift=bound.shift,
        contents=1,
        contents_swapped=1,
        near=bound.missed[max(clip, 1) - 1 :],
        is_sure=law is None,
    )

    # A lower bound on Pr[the clipping unit of a drawn unit holds no other drawn record]. It is 0 where D' of a fixed
    # draw has a stand-in, draws with replacement may repeat the unit, or the batch of a pass depends on its order.
    alone = Fraction(0)
    if adjacency is Adjacency.ADD_REMOVE and not schemes[-1].has_stand_in:
        alone = Fraction(1)
        for number in range(clip + 1, unit + 1):
            count, nonempty = hierarchy.level(number).count, max_nonempty_probability(hierarchy, number, hold=hold)
            places, rate = schemes[number - 1].tried(count)
            alone *= power(1 - rate * nonempty, places - 1) if schemes[number - 1].is_simple else 0
    if alone < _NEGLECTED_CHANCE:
        return [beside_others]

    # Without other records in it the clipping unit's vector is 0 in D', so that the distances shrink by the direction
    # reversal, from 2 to 1; a stand-in of an ancestor may still hold a record.
    near: list[MissedBatch] = []
    for number in range(max(clip, 1), unit + 1):
        chance = bound.missed[number - 1].chance
        if number < unit and schemes[number - 1].has_stand_in:
            nonempty = max_nonempty_probability(hierarchy, number, hold=hold)
            near += [MissedBatch(chance * nonempty, 2, 1), MissedBatch(chance * (1 - nonempty), 1, 0)]
        else:
            near.append(MissedBatch(chance, 1, 0))
    cases = (
        replace(beside_others, chance=alone, shift=1, contents_swapped=0, near=tuple(near), is_sure=False),
        replace(beside_others, chance=1 - alone, is_sure=False),
    )
    return [case for case in cases if case.chance]


# Groups, averaged over what non-members contribute (docs/theory.md, Theorem 6.11)


def averaged_group_bound(
    hierarchy: Hierarchy, path: Path, placement: tuple[Placement, ...], member: Member, *, clip: int
) -> MatesAverage | None:
    """Return a group's bound averaged over what non-members contribute; None if that is certain or no member is drawn.

    Source: docs/theory.md, Theorem 6.11.
    """
    unit, occupied, max_each = len(path.counts), len(placement), path.contributions[0]
    each = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=member.adjacency)
    largest = hidden_group_bound(path, placement, member, each=each)

    # The most units of one frame that hold members, by level; they count as drawn. 1 at the first and last level.
    frames, holding = list(placement), [1] * unit
    for number in range(1, unit - 1):
        inner = [frame for frame in frames if isinstance(frame, tuple)]
        holding[number] = max(map(len, inner))
        frames = [inside for frame in inner for inside in frame]
    # What non-members contribute in one drawn outermost unit that holds members, from the members' level outwards. No
    # unit counts as missing for those that hold members, but in a Poisson draw of the members themselves, of whom each
    # frame holds one or more.
    others: CountDistribution = {0: Fraction(1)}
    for number in range(unit, 1, -1):
        inside_them, level = _sum_of_few(others, holding[number - 1]), hierarchy.level(number)
        max_below = math.prod(below.max_drawn for below in hierarchy.levels[number:clip])
        known = contribution_distribution(hierarchy, unit=number, clip=clip, max_contributions=max_below)
        places, rate = level.scheme.tried(level.count)
        if number == unit and level.scheme.is_independent:
            places -= 1
        beside = few_counts(sum_upper(known or {max_below: Fraction(1)}, places, rate))
        others = convolve_upper(beside, inside_them)
    others = few_counts(others)
    # What an outermost stand-in contributes.
    max_stand_in = path.stand_in(1)
    stand_in: CountDistribution = {max_stand_in: Fraction(1)}
    if max_stand_in:
        law = contribution_distribution(hierarchy, unit=1, clip=clip, max_contributions=max_stand_in)
        stand_in = few_counts(law) if law else stand_in
    if largest is None or (len(others) == 1 and len(stand_in) == 1):
        return None

    # What D' contributes in a member's place: its own if replaced, a stand-in's if removed.
    own_swapped = member.own if member.adjacency is Adjacency.REPLACE_ONE else 0
    if member.adjacency is Adjacency.ADD_REMOVE:
        own_swapped = member.stand_in or 0

    # What all units of the group contribute in a batch without members: each of them what it holds beside members, or
    # what a unit without members holds, by a law above both.
    above: CountDistribution = {}
    tail = Fraction(0)
    for count in sorted({*others, *stand_in}, reverse=True):
        larger = max(sum((p for k, p in law.items() if k >= count), start=Fraction(0)) for law in (others, stand_in))
        if larger > tail:
            above[count], tail = larger - tail, larger
    redrawn = coarsen_at_quantiles(_sum_of_few(above, occupied), _FEW_PAIRED)

    # Stand-ins of units of the group that are not drawn are in the batch: nothing hides them. A part with more than
    # MAX_UNITS_APART units, or of frames of unknown size, stands for fewer of the group too.
    is_equal = hierarchy.level(1).is_equal
    hidden = hidden_draws(path, placement, each)
    parts: list[tuple[Fraction, StepBound]] = []
    for (g, h), chance in hidden.drawn:
        # (probability of a missed batch, what comes in it for the units drawn, largest distance to it): with as many
        # stand-ins for all of them, or with units of the group that hold no member.
        exchanges = [(hidden.missed[0] * p, coming, sys.maxsize) for coming, p in _sum_of_few(stand_in, g).items()]
        cap = missed_distances(path, placement, member, g, h)[1]
        leave = max_stand_in * (occupied - (min(g, MAX_UNITS_APART + 1) if is_equal else 1))
        is_within_unit = occupied == 1 and unit == 2  # members are exchanged for others of their unit
        for coming, p in ({cap: Fraction(1)} if is_within_unit else redrawn).items():
            exchanges.append((hidden.missed[1] * p, leave + coming, cap))
        for number, share in _sum_of_few(others, g).items():
            leaving, swapped = (min(h * own + number, g * max_each) for own in (member.own, own_swapped))
            bound = StepBound(
                inclusion=hidden.inclusion,
                shift=min(h * member.shift, 2 * max_each * g),
                missed=tuple(
                    MissedBatch(missed, min(leaving + coming, most), min(swapped + coming, most))
                    for missed, coming, most in exchanges
                ),
            )
            parts.append((chance / hidden.inclusion * share, bound))
    return MatesAverage(parts=tuple(parts), largest=largest)


def _sum_of_few(law: CountDistribution, number: int) -> CountDistribution:
    """Return an upper bound (stochastic order) on the sum of `number` >= 0 independent counts, at few counts."""
    return few_counts(independent_sum(law, number, rate=Fraction(1))) if number != 1 else law
