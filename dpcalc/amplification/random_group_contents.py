"""The one-step bound of a group, averaged over what is drawn beside the members under their outermost units.

Source: docs/theory.md, Theorem 6.11.
"""

import math
import sys
from fractions import Fraction

from dpcalc.amplification.bound import StepBound
from dpcalc.amplification.counts import (
    MAX_UNITS_APART,
    Member,
    hidden_draws,
    hidden_group_bound,
    missed_distances,
)
from dpcalc.amplification.groups import Placement
from dpcalc.amplification.mates import MatesAverage, few_counts
from dpcalc.amplification.random_contents import FEW_PAIRED, member_contribution_distribution
from dpcalc.guarantee import Adjacency
from dpcalc.sampling.co_sampled import contribution_distribution, drawn_sum, mates_sum
from dpcalc.sampling.counts import CountDistribution, convolve_upper
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import Fixed, Poisson
from dpcalc.sampling.sums import coarsen_at_quantiles, independent_sum


def averaged_group_bound(
    hierarchy: Hierarchy, path: Path, placement: tuple[Placement, ...], member: Member, *, clip: int
) -> MatesAverage | None:
    """Return a group's bound averaged over what non-members contribute; None if that is certain or no member is drawn.

    Source: docs/theory.md, Theorem 6.11.
    """
    unit, occupied, max_each = len(path.counts), len(placement), path.contributions[0]
    each = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=member.adjacency)
    largest = hidden_group_bound(path, placement, member, each=each)

    # What non-members contribute under one outermost unit that holds members, and what an outermost stand-in does.
    others = _others_distribution(hierarchy, unit, clip, placement)
    max_stand_in = path.siblings[0] if isinstance(path.schemes[0], Fixed) else 0
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
    redrawn = coarsen_at_quantiles(_sum_of_few(above, occupied), FEW_PAIRED)

    # Stand-ins of units of the group that are not drawn are in the batch: nothing hides them. A part with more than
    # MAX_UNITS_APART units, or of frames of unknown size, stands for fewer of the group too.
    is_equal = hierarchy.level(1).is_equal
    hidden = hidden_draws(path, placement, each)
    parts: list[tuple[Fraction, StepBound]] = []
    for (g, h), chance in hidden.drawn:
        # (probability of a missed batch, what comes in it for the units drawn, largest distance to it): with as many
        # stand-ins for all of them, or with units of the group that hold no member.
        exchanges = [(hidden.missed[0] * p, coming, sys.maxsize) for coming, p in _sum_of_few(stand_in, g).items()]
        cap = missed_distances(path, placement, member, (g, h))[1]
        leave = max_stand_in * (occupied - (min(g, MAX_UNITS_APART + 1) if is_equal else 1))
        is_within_unit = occupied == 1 and unit == 2  # members are exchanged for others of their unit
        for coming, p in ({cap: Fraction(1)} if is_within_unit else redrawn).items():
            exchanges.append((hidden.missed[1] * p, leave + coming, cap))
        for number, share in _sum_of_few(others, g).items():
            leaving, swapped = (min(h * own + number, g * max_each) for own in (member.own, own_swapped))
            bound = StepBound(
                inclusion=hidden.inclusion,
                shift=min(h * member.shift, 2 * max_each * g),
                missed=tuple(missed for missed, _, _ in exchanges),
                distances=tuple(min(leaving + coming, most) for _, coming, most in exchanges),
                distances_swapped=tuple(min(swapped + coming, most) for _, coming, most in exchanges),
            )
            parts.append((chance / hidden.inclusion * share, bound))
    return MatesAverage(parts=tuple(parts), largest=largest)


def _others_distribution(
    hierarchy: Hierarchy, unit: int, clip: int, placement: tuple[Placement, ...]
) -> CountDistribution:
    """Return an upper law of what non-members contribute in one drawn outermost unit that holds members."""
    # The most units of one frame that hold members, by level; they count as drawn. 1 at the first and last level.
    frames, occupied = list(placement), [1] * unit
    for number in range(1, unit - 1):
        inner = [frame for frame in frames if isinstance(frame, tuple)]
        occupied[number] = max(map(len, inner))
        frames = [each for frame in inner for each in frame]

    # From the members' level outwards. No unit counts as missing for those that hold members, but in a Poisson draw of
    # the members themselves, of whom each frame holds one or more.
    law: CountDistribution = {0: Fraction(1)}
    for number in range(unit, 1, -1):
        inside = _sum_of_few(law, occupied[number - 1])
        level = hierarchy.level(number)
        max_each = math.prod(each.max_drawn for each in hierarchy.levels[number:clip])
        known = contribution_distribution(hierarchy, unit=number, clip=clip, max_contributions=max_each)
        sum_of_draw = mates_sum if number == unit and isinstance(level.scheme, Poisson) else drawn_sum
        beside = few_counts(sum_of_draw(level, level.count, known or {max_each: Fraction(1)}))
        law = convolve_upper(beside, inside)
    return few_counts(law)


def _sum_of_few(law: CountDistribution, number: int) -> CountDistribution:
    """Return an upper bound (stochastic order) on the sum of `number` >= 0 independent counts, at few counts."""
    return few_counts(independent_sum(law, number, rate=Fraction(1))) if number != 1 else law
