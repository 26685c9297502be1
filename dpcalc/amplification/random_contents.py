"""The one-step bound where a drawn unit makes a random number of contributions; an empty unit contributes exactly zero.

A unit of which nothing is drawn is the same in D and D', so the inclusion probability falls to that of a non-empty
unit, and (K) is averaged over its contributions. A removed unit under a fixed draw keeps a stand-in out even if it is
empty; there the bound is averaged over the contributions of both. Below a clipping level, what matters is whether the
unit, and any other record in its clipping unit, is drawn.

Source: docs/theory.md, Theorem 6.6 and Theorem 6.9.
"""

import operator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from dpcalc.amplification.bound import StepBound, path_bound
from dpcalc.amplification.counts import Average, Bound, CountPair, Member
from dpcalc.amplification.mates import (
    MatesAverage,
    MissedBatch,
    UnitCase,
    few_counts,
    largest_surroundings,
    surroundings,
)
from dpcalc.errors import WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.sampling.co_sampled import contribution_distribution, max_nonempty_probability
from dpcalc.sampling.counts import CountDistribution, coarsen_upwards_to, nonzero_probability, power
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import All, Fixed, Poisson, Scheme, WithReplacement
from dpcalc.sampling.sums import coarsen_at_quantiles
from dpcalc.work import SECOND, allowance, cached_with_cost

_MATES_WORK = 0.3 * SECOND  # for the distributions of the mates of one unit; with more they are at their largest
_MAX_PARTS = 512  # of an average over the mates before its parts are merged; ten times as many take a second
_MAX_COUNTS = 6  # of contributions if those of a stand-in are random too: 36 pairs; 60 would take 100 times as long
FEW_PAIRED = (-1.0, 0.0, 1.0, 2.0, 4.0)  # quantiles of the same with random mates, in deviations
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
    laws = _random_contributions(hierarchy, path, clip)
    is_fixed = isinstance(path.schemes[-1], Fixed)
    if laws is not None and len(path.counts) == 1 and not is_fixed:
        return _outermost_unit_bound(path, laws.own, adjacency) or path_bound(path, clip=clip, adjacency=adjacency)
    few = None if laws is None else _few_single_counts(laws, is_fixed=is_fixed)
    cases = _unit_cases(hierarchy, path, few, clip=clip, adjacency=adjacency)
    if len(cases) == 1 and cases[0].is_sure:
        return path_bound(path, clip=clip, adjacency=adjacency)
    return Average(parts=largest_surroundings(path, clip=clip).parts(cases))


def _outermost_unit_bound(path: Path, own: CountDistribution, adjacency: Adjacency) -> Bound | None:
    """Return the bound of an outermost unit without stand-ins by the law of what it contributes; None if costly."""
    # Without ancestors and stand-ins an empty unit leaves the batch of a missed one: the law of H says everything.
    law: CountDistribution = {h: path.rate(1) * chance for h, chance in own.items()}
    law[0] = law.get(0, Fraction(0)) + 1 - path.rate(1)
    try:
        return Member(own=1, stand_in=None, adjacency=adjacency).bound([(Fraction(1), law)])
    except WorkExceededError:
        return None


def _few_single_counts(laws: ContributionLaws, *, is_fixed: bool) -> ContributionLaws:
    """Return upper laws of few counts: at most 6 each if a fixed draw pairs them, else up to 256 of the unit's own."""
    own, stand_in = laws
    if is_fixed:
        own, stand_in = coarsen_upwards_to(own, _MAX_COUNTS), coarsen_upwards_to(stand_in, _MAX_COUNTS)
    return ContributionLaws(own if len(own) <= _MAX_OWN else few_counts(own), stand_in)


@cached_with_cost(64)
def averaged_unit_bound(hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency) -> Bound:
    """Return one unit's bound averaged over random mates too; `single_unit_bound` if there are none or too costly.

    Source: docs/theory.md, Theorem 6.9.
    """
    largest = single_unit_bound(hierarchy, path, clip=clip, adjacency=adjacency)
    laws = _random_contributions(hierarchy, path, clip)
    if isinstance(largest, CountPair) or len(path.counts) == 1:
        return largest
    if laws is not None:
        is_paired = isinstance(path.schemes[-1], Fixed) and adjacency is Adjacency.ADD_REMOVE
        laws = _few_averaged_counts(laws, is_paired=is_paired)
    cases = _unit_cases(hierarchy, path, laws, clip=clip, adjacency=adjacency)
    try:
        around = surroundings(hierarchy, path, clip=clip, max_mates=_MAX_PARTS // len(cases))
        return largest if around.is_certain else MatesAverage(parts=around.parts(cases), largest=largest)
    except WorkExceededError:
        return largest


def _few_averaged_counts(laws: ContributionLaws, *, is_paired: bool) -> ContributionLaws:
    """Return upper laws of so few counts that their combinations with the numbers of mates stay few."""
    if is_paired:
        return ContributionLaws(*(coarsen_at_quantiles(law, FEW_PAIRED) for law in laws))
    return ContributionLaws(*map(few_counts, laws))


def hidden_unit_bound(
    hierarchy: Hierarchy, path: Path, *, adjacency: Adjacency, max_mates: int, exchange: int
) -> StepBound | MatesAverage:
    """Return (K*) of a unit whose draws are hidden, in numbers of changes; averaged over random mates if cheap.

    A missed ancestor takes the units drawn under it away, and its stand-in brings others.

    An upper bound whose shift and distances are numbers of changes.

    Source: docs/theory.md, Theorem 8.7.
    """
    unit, case = len(path.counts), _case_in_changes(path, adjacency, exchange)
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


def _case_in_changes(path: Path, adjacency: Adjacency, exchange: int) -> UnitCase:
    """Return the only case of a unit where distances count changes; an exchange with a stand-in is `exchange`."""
    may_stand_in = isinstance(path.schemes[-1], Fixed)
    missed = exchange if may_stand_in else 1
    match adjacency:  # changes from C to B; units in the place of x in B; changes from B to a batch that misses x
        case Adjacency.ADD_REMOVE:
            shift, contents, swapped = missed, int(may_stand_in), 0
        case Adjacency.ZERO_OUT:
            shift, contents, swapped = 1, 0, int(may_stand_in)
        case Adjacency.REPLACE_ONE:
            shift, contents, swapped = exchange, 1, missed
    return UnitCase(
        chance=Fraction(1),
        inclusion=path.inclusion(len(path.counts)),
        shift=shift,
        contents=1,
        contents_swapped=contents,
        near=(MissedBatch(path.missed(len(path.counts)), missed, swapped),),
        is_sure=True,
    )


def _random_contributions(hierarchy: Hierarchy, path: Path, clip: int) -> ContributionLaws | None:
    """Return upper laws of the unit's and a stand-in's contributions; None if the former are certain or not known.

    They are not known if the unit is clipped from above or the law too costly.
    """
    unit = len(path.counts)
    own = None if clip < unit else _affordable_contribution_distribution(hierarchy, unit, clip, path.contributions[-1])
    if own is None or not nonzero_probability(own):
        return None
    if not isinstance(path.schemes[-1], Fixed):
        return ContributionLaws(own, {0: Fraction(1)})
    stand_in = _affordable_contribution_distribution(hierarchy, unit, clip, path.siblings[-1])
    return ContributionLaws(own, stand_in or {path.siblings[-1]: Fraction(1)})


def _unit_cases(
    hierarchy: Hierarchy, path: Path, laws: ContributionLaws | None, *, clip: int, adjacency: Adjacency
) -> list[UnitCase]:
    """Return the cases over which (K) of a unit is averaged: by `laws`, or by whether it is alone in a clipped vector.

    Without laws a unit that is not clipped from above has one case.
    """
    bound = path_bound(path, clip=clip, adjacency=adjacency)
    if clip < len(path.counts):
        return _cases_below_clipping_level(hierarchy, path, bound, clip=clip, adjacency=adjacency)
    if laws is None:
        return [_certain_case(path, bound, adjacency)]
    if isinstance(path.schemes[-1], Fixed) and adjacency is Adjacency.ADD_REMOVE:
        return _cases_by_own_and_stand_in(bound, *laws)
    return _cases_by_own_counts(bound, *laws, adjacency)


def _certain_case(path: Path, bound: StepBound, adjacency: Adjacency) -> UnitCase:
    """Return the only case of a unit when it and what takes its place in D' make their largest contributions."""
    own = path.contributions[-1]
    if adjacency is Adjacency.REPLACE_ONE:
        swapped = own
    else:
        is_exchanged = isinstance(path.schemes[-1], Fixed) and adjacency is Adjacency.ADD_REMOVE
        swapped = path.siblings[-1] if is_exchanged else 0
    return UnitCase(
        chance=Fraction(1),
        inclusion=bound.inclusion,
        shift=bound.shift,
        contents=own,
        contents_swapped=swapped,
        near=_missed_from(bound, len(path.counts)),
        is_sure=True,
    )


def _missed_from(bound: StepBound, number: int) -> tuple[MissedBatch, ...]:
    """Return the batches of (K) that miss the unit of level `number` or one below it on the path."""
    batches = zip(bound.missed, bound.distances, bound.distances_swapped, strict=True)
    return tuple(MissedBatch(*batch) for batch in batches)[number - 1 :]


def member_contribution_distribution(
    hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency
) -> CountDistribution | None:
    """Return an upper law of a drawn member's contributions, 0 or 1 if clipped from above; None to count the most.

    Clipped from above (clip < unit), the law of whether the member holds any drawn record. None where the number is
    not random or not known, another unit may take the member's place, or draws are with replacement or build
    episodes.
    """
    unit = len(path.counts)
    if _counts_empty_members(hierarchy, path, clip, adjacency):
        return None
    if clip >= unit:
        law = _affordable_contribution_distribution(hierarchy, unit, clip, path.contributions[-1])
    else:
        nonempty = max_nonempty_probability(hierarchy, unit, hold=hierarchy.level(unit).redraw_every)
        law = {0: 1 - nonempty, 1: nonempty} if nonempty < 1 else None
    return law if law is not None and nonzero_probability(law) else None


def _counts_empty_members(hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency) -> bool:
    """Return True for episodes, replacement, and stand-ins that even an empty member keeps out: it counts in full."""
    if hierarchy.episodes is not None or any(isinstance(scheme, WithReplacement) for scheme in path.schemes):
        return True
    # A member under a fixed draw keeps a stand-in out even where it is empty itself: the mean moves all the same.
    is_exchanged = clip >= len(path.counts) or adjacency is Adjacency.ADD_REMOVE
    return isinstance(path.schemes[-1], Fixed) and is_exchanged


def _affordable_contribution_distribution(
    hierarchy: Hierarchy, unit: int, clip: int, max_contributions: int
) -> CountDistribution | None:
    """Return `contribution_distribution`; None also if it needs too much work."""
    try:
        return contribution_distribution(hierarchy, unit=unit, clip=clip, max_contributions=max_contributions)
    except WorkExceededError:
        return None


def _cases_by_own_counts(
    bound: StepBound, own: CountDistribution, stand_in: CountDistribution, adjacency: Adjacency
) -> list[UnitCase]:
    """Return a UnitCase for each number h >= 1 of the unit's contributions; a unit drawn empty counts as missed."""
    # Missed batches differ from D's by h and by each number that a stand-in contributes; those that hold it empty by h.
    nonempty, replaced = nonzero_probability(own), adjacency is Adjacency.REPLACE_ONE
    return [
        UnitCase(
            chance=chance / nonempty,
            inclusion=bound.inclusion * nonempty,
            shift=2 * h if replaced else h,
            contents=h,
            contents_swapped=h if replaced else 0,
            near=(
                *(MissedBatch(bound.missed[-1] * p, h + m, h + m if replaced else m) for m, p in stand_in.items()),
                MissedBatch(bound.inclusion * (1 - nonempty), h, h if replaced else 0),
            ),
        )
        for h, chance in own.items()
        if h
    ]


def _cases_by_own_and_stand_in(bound: StepBound, own: CountDistribution, stand_in: CountDistribution) -> list[UnitCase]:
    """Return a UnitCase for each pair of a removed unit's contributions and its stand-in's, unless both are 0."""
    return [
        UnitCase(
            chance=p * q,
            inclusion=bound.inclusion,
            shift=x + y,
            contents=x,
            contents_swapped=y,
            near=tuple(MissedBatch(bound.missed[-1] * share, x + m, 0) for m, share in stand_in.items()),
        )
        for x, p in own.items()
        for y, q in stand_in.items()
        if x + y
    ]


def _cases_below_clipping_level(
    hierarchy: Hierarchy, path: Path, bound: StepBound, *, clip: int, adjacency: Adjacency
) -> list[UnitCase]:
    """Return the cases of a unit in a clipped vector: beside other records and, for a removed one, perhaps alone."""
    law = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=adjacency)
    if law is not None:
        bound = _with_empty_as_missed(bound, nonzero_probability(law))
    beside_others = UnitCase(
        chance=Fraction(1),
        inclusion=bound.inclusion,
        shift=bound.shift,
        contents=1,
        contents_swapped=1,
        near=_missed_from(bound, max(clip, 1)),
        is_sure=law is None,
    )
    alone = _chance_of_being_alone(hierarchy, path, clip) if adjacency is Adjacency.ADD_REMOVE else Fraction(0)
    if alone < _NEGLECTED_CHANCE:
        return [beside_others]
    near = _missed_when_alone(hierarchy, path, bound, clip)
    cases = (
        replace(beside_others, chance=alone, shift=1, contents_swapped=0, near=near, is_sure=False),
        replace(beside_others, chance=1 - alone, is_sure=False),
    )
    return [case for case in cases if case.chance]


def _with_empty_as_missed(bound: StepBound, nonempty: Fraction) -> StepBound:
    """Return (K) in which a drawn unit that is empty, with probability 1 - `nonempty`, counts as missed."""
    empty = bound.inclusion * (1 - nonempty)
    missed = (*bound.missed[:-1], bound.missed[-1] + empty)
    return replace(bound, inclusion=bound.inclusion * nonempty, missed=missed)


def _chance_of_being_alone(hierarchy: Hierarchy, path: Path, clip: int) -> Fraction:
    """Return a lower bound on Pr[a drawn unit's clipping unit holds no other drawn record]; 0 if its draw is fixed."""
    if isinstance(path.schemes[-1], Fixed):  # in D' a stand-in is there
        return Fraction(0)
    hold = hierarchy.level(len(path.counts)).redraw_every
    alone = Fraction(1)
    for number in range(clip + 1, len(path.counts) + 1):
        nonempty = max_nonempty_probability(hierarchy, number, hold=hold)
        alone *= _chance_of_no_other_record(path.schemes[number - 1], hierarchy.level(number).count, nonempty)
    return alone


def _chance_of_no_other_record(scheme: Scheme, count: int, nonempty: Fraction) -> Fraction:
    """Return a lower bound on Pr[no other drawn unit has a record] for Poisson, fixed and full draws; 0 for others."""
    # With replacement the unit may be drawn again, and a batch of a pass depends on its order: 0 bounds those.
    match scheme:
        case Poisson(probability=rate):
            return power(1 - rate * nonempty, count - 1)
        case All():
            return power(1 - nonempty, count - 1)
        case Fixed(size=size):
            return power(1 - nonempty, size - 1)
        case _:
            return Fraction(0)


def _missed_when_alone(hierarchy: Hierarchy, path: Path, bound: StepBound, clip: int) -> tuple[MissedBatch, ...]:
    """Return the batches that miss a removed unit or an ancestor down from `clip`, if it alone fills its vector."""
    unit, hold = len(path.counts), hierarchy.level(len(path.counts)).redraw_every
    batches: list[MissedBatch] = []
    # Without other records in it the clipping unit's vector is 0 in D', so that the distances shrink by the direction
    # reversal, from 2 to 1; a stand-in of an ancestor may still hold a record.
    for number in range(max(clip, 1), unit + 1):
        chance = bound.missed[number - 1]
        if number < unit and isinstance(path.schemes[number - 1], Fixed):
            nonempty = max_nonempty_probability(hierarchy, number, hold=hold)
            batches += [MissedBatch(chance * nonempty, 2, 1), MissedBatch(chance * (1 - nonempty), 1, 0)]
        else:
            batches.append(MissedBatch(chance, 1, 0))
    return tuple(batches)
