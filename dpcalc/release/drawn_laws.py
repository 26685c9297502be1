"""How much of what is protected a step holds: the law of that number, given what the step reveals."""

import math
from fractions import Fraction

from dpcalc.adjacency import Adjacency
from dpcalc.release.bounds import StepBound
from dpcalc.release.contexts import Placement, contexts, large_group, members_drawn
from dpcalc.release.counted import Average, Bound, CountPair, averaged
from dpcalc.release.group import Group
from dpcalc.sampling.episodes import Episodes
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.laws import (
    Law,
    at_least_one,
    binomial,
    compound,
    hypergeometric,
    put_together,
    times_at_most,
)
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import Fixed, WithReplacement

Told = list[tuple[Fraction, Law]]
"""(probability, law of the number given it) of what a step reveals of its draws; probabilities sum to at most 1."""


def drawn_laws(hierarchy: Hierarchy, path: Path, *, clip: int, group: Group, each: Law | None = None) -> Told:
    """How many clipped vectors of a step what is protected can change, the draws above it revealed.

    Args:
        hierarchy: levels and schemes, or how tasks are built.
        path: the way to the protected units, all draws of one rhythm.
        clip: clipping level; where it is above the protected level, such a vector counts once for every unit in it.
        group: how many units are protected together, and where they are.
        each: law of what is counted of a drawn member; None where each counts once.
    """
    if hierarchy.episodes is not None:
        found = _built(hierarchy.episodes, path, clip, group)
    elif group.size > 1 and group.placement is None:
        eta = math.prod((path.rate(level) for level in range(1, len(path.counts))), start=Fraction(1))
        found = large_group(group.size, eta, path.rate(len(path.counts)))
    else:
        *above, scheme = path.schemes
        placement: Placement = 1
        for _ in above:
            placement = (placement,)
        placement = placement if group.placement is None else group.placement
        told = contexts(placement, path.schemes, path.counts)
        found = [(chance, members_drawn(context, scheme, path.counts[-1])) for context, chance in told.items()]
    if each is not None:
        found = [(chance, compound(law, each)) for chance, law in found]
    return [(chance, _at_most(law, clip)) for chance, law in found]


def _at_most(law: Law, clip: int) -> Law:
    """The number of clipped vectors that change, where the whole batch is one."""
    if clip:
        return law
    none = law.get(0, Fraction(0))
    return {h: chance for h, chance in ((0, none), (1, 1 - none)) if chance}


def _built(built: Episodes, path: Path, clip: int, group: Group) -> Told:
    """The law where a step builds its tasks: a class or a record is in each of them independently."""
    if len(path.counts) == 1:
        in_task = hypergeometric(path.counts[0], min(group.size, path.counts[0]), built.ways)
        if clip == 1:
            return [(Fraction(1), binomial(built.tasks, at_least_one(in_task)))]
        return [(Fraction(1), times_at_most(in_task, built.tasks))]
    classes, records = built.class_rate(path.counts[0]), built.record_rate(path.counts[1])
    if clip < 2:
        return [(Fraction(1), binomial(built.tasks, classes * records))]
    told = put_together(binomial(built.tasks, classes))
    return [(chance, binomial(number, records)) for number, chance in told.items()]


def unit_bound(hierarchy: Hierarchy, path: Path, *, adjacency: Adjacency, group: Group) -> Bound:
    """The one-step bound of a mechanism that counts units: (K*) with as many changes as protected units are drawn.

    Removed, replaced or zeroed, a unit is one change, and so is another unit that is drawn in its place.

    Args:
        hierarchy: levels and schemes, or how tasks are built.
        path: the way to the protected units, all draws of one rhythm.
        adjacency: relation between D and D'.
        group: how many units are protected together, and where they are.
    """
    laws = drawn_laws(hierarchy, path, clip=hierarchy.depth, group=group)
    stand_in = hierarchy.episodes is not None or isinstance(path.schemes[-1], Fixed | WithReplacement)
    parts: list[tuple[Fraction, StepBound | CountPair]] = []
    for chance, law in laws:
        if not chance or not at_least_one(law):
            continue
        few = put_together(law)
        if adjacency is Adjacency.ADD_REMOVE or (adjacency is Adjacency.ZERO_OUT and not stand_in):
            parts.append((chance, CountPair(law=tuple(sorted(few.items())), shift=1, both_ways=False)))
        else:
            shares = averaged(few, shift=1, near=1, near_swapped=1)
            parts += [(chance * share, bound) for share, bound in shares]
    return parts[0][1] if len(parts) == 1 and parts[0][0] == 1 else Average(parts=tuple(parts))
