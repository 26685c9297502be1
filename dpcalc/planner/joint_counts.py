"""How many of what is protected a step draws: the computed law, and which units of a synthetic data set those are."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import Alternative
from dpcalc.release.contexts import Placement, contexts, large_group, members_drawn
from dpcalc.release.group import groups
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.laws import Law, binomial, hypergeometric, times
from dpcalc.sampling.paths import Path, one_pass
from dpcalc.sampling.schemes import Shuffle, WithReplacement
from dpcalc.sampling.simulate import synthetic_sizes

_TOLD_APART = 48  # counts that the laws of `laws` tell apart; more of them are put together upwards


@dataclass(frozen=True, kw_only=True)
class JointLaw:
    """The computed number of draws of what is protected.

    Attributes:
        chances: probability by count, in one step.
        is_exact: whether it is the law itself, not an upper bound in stochastic order.
        of_a_pass: whether it counts a whole pass of a shuffle.
        in_a_round: probability that some step draws it while the longest draw is held; None where that is not computed.
    """

    chances: Law
    is_exact: bool
    of_a_pass: bool
    in_a_round: float | None


def joint_law(plan: Plan, protected: Alternative, number: int) -> JointLaw:
    """The computed law of one phase.

    Args:
        plan: a training run.
        protected: the unit or group.
        number: of the phase, from 0.
    """
    hierarchy, path = plan.phases[number].hierarchy, protected.paths[number]
    of_a_pass = any(isinstance(level.scheme, Shuffle) for level in hierarchy.levels)
    in_a_round = None
    if hierarchy.episodes is not None:
        law, exact = _episode_law(hierarchy, plan.unit, plan.group_size), True
    elif plan.group_size == 1 and not any(isinstance(scheme, WithReplacement) for scheme in path.schemes):
        frames = zip(hierarchy.levels, _frames(hierarchy, protected, number, plan.unit), strict=False)
        rates = [level.scheme.rate(count) for level, (_, count) in frames]
        law, exact = {1: math.prod(rates, start=Fraction(1))}, True
        in_a_round = None if of_a_pass else _in_a_round(hierarchy, rates)
    else:
        law, exact = _group_law(plan, protected, path)
        exact &= all(level.is_equal for level in hierarchy.levels[: plan.unit])
    return JointLaw(chances=law, is_exact=exact, of_a_pass=of_a_pass, in_a_round=in_a_round)


def _group_law(plan: Plan, protected: Alternative, path: Path) -> tuple[Law, bool]:
    """(law of the number of members drawn, whether it is exact for equal sizes)."""
    placement, path = _placement(plan, protected), one_pass(path)
    if placement is None:
        drawn = math.prod((path.rate(level) for level in range(1, plan.unit)), start=Fraction(1))
        told = large_group(plan.group_size, drawn, path.rate(plan.unit))
    else:
        found = contexts(placement, path.schemes, path.counts)
        told = [(p, members_drawn(context, path.schemes[-1], path.counts[-1])) for context, p in found.items()]
    total: Law = {}
    for chance, law in told:
        for count, part in law.items():
            total[count] = total.get(count, Fraction(0)) + chance * part
    loose = plan.group_size > 1 and any(isinstance(scheme, WithReplacement) for scheme in path.schemes[:-1])
    return total, placement is not None and not loose and max(total) <= _TOLD_APART


def watched_units(plan: Plan, protected: Alternative, number: int) -> tuple[int, ...]:
    """The numbers of the protected units in the synthetic data set."""
    hierarchy = plan.phases[number].hierarchy
    if plan.group_size == 1:
        *_, (unit, _) = _frames(hierarchy, protected, number, plan.unit)
        return (unit,)
    placement = _placement(plan, protected)
    if placement is not None:
        return tuple(_members(hierarchy, placement, 0, 1))
    return tuple(range(plan.group_size))


def _placement(plan: Plan, protected: Alternative) -> Placement | None:
    """Where the protected units are; None where that is left open."""
    if plan.group_size > 1:
        phases = [phase.hierarchy for phase in plan.phases]
        ways = groups(plan.group_size, phases, unit=plan.unit, adjacency=plan.adjacency)
        return next(group.placement for group in ways if group.words == protected.place)
    placement: Placement = 1
    for _ in range(1, plan.unit):
        placement = (placement,)
    return placement


def _members(hierarchy: Hierarchy, placement: Placement, parent: int, level: int) -> Iterator[int]:
    """The numbers of units placed under a unit of the level above."""
    first = int(synthetic_sizes(hierarchy, level, np.array([parent]))[0][0])
    if isinstance(placement, int):
        yield from range(first, first + placement)
        return
    for at, inner in enumerate(placement):
        yield from _members(hierarchy, inner, first + at, level + 1)


def _frames(hierarchy: Hierarchy, protected: Alternative, number: int, unit: int) -> Iterator[tuple[int, int]]:
    """On the way to the protected unit of a phase the number of each unit, and how many there are in its frame."""
    found, place = 0, protected.paths[number].place
    for level in range(1, unit + 1):
        first, size = synthetic_sizes(hierarchy, level, np.array([found]))
        found = int(first[0]) + (place[level - 1] if place else 0)
        yield found, int(size[0])


def _in_a_round(hierarchy: Hierarchy, rates: Sequence[Fraction]) -> float:
    """Probability that the unit is drawn in any step while the draw of the first level is held."""
    chance = float(rates[-1])
    levels = zip(hierarchy.levels, hierarchy.levels[1 : len(rates)], rates, strict=False)
    for level, below, rate in reversed(list(levels)):
        draws = level.redraw_every // below.redraw_every
        chance = float(rate) * -math.expm1(draws * math.log1p(-chance)) if chance < 1 else float(rate)
    return chance


def _episode_law(hierarchy: Hierarchy, unit: int, members: int) -> Law:
    """How many records or classes that are protected the tasks of a step hold, each task for itself."""
    built = hierarchy.episodes
    if built is None:
        raise LookupError("episodes: expected constructed tasks, got none")
    classes, records = hierarchy.levels
    if unit == 1:
        return times(hypergeometric(classes.count, members, built.ways), built.tasks)
    return binomial(built.tasks, built.class_rate(classes.count) * built.record_rate(records.count))
