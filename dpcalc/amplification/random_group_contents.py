"""The one-step bound of a group, averaged over what is drawn beside the members under their outermost units.

Source: docs/theory.md, Theorem 6.11.
"""

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from dpcalc.amplification.bound import StepBound
from dpcalc.amplification.counts import (
    MAX_UNITS_APART,
    HiddenDraws,
    Member,
    hidden_draws,
    hidden_group_bound,
    missed_distances,
)
from dpcalc.amplification.groups import Placement
from dpcalc.amplification.mates import MatesAverage, few_counts
from dpcalc.amplification.random_contents import FEW_PAIRED, member_contribution_distribution
from dpcalc.guarantee import Adjacency
from dpcalc.records import dataclass
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
    each = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=member.adjacency)
    largest = hidden_group_bound(path, placement, member, each=each)
    others = _others_distribution(hierarchy, len(path.counts), clip, placement)
    stand_in = _outermost_stand_in_distribution(hierarchy, path, clip)
    if largest is None or (len(others) == 1 and len(stand_in) == 1):
        return None
    around = _BesideMembers(
        path=path,
        placement=placement,
        member=member,
        others=others,
        stand_in=stand_in,
        is_equal=hierarchy.level(1).is_equal,
    )
    hidden = hidden_draws(path, placement, each)
    parts = [
        (chance / hidden.inclusion * share, bound)
        for drawn, chance in hidden.drawn
        for share, bound in around.bounds(drawn, hidden)
    ]
    return MatesAverage(parts=tuple(parts), largest=largest)


def _outermost_stand_in_distribution(hierarchy: Hierarchy, path: Path, clip: int) -> CountDistribution:
    """Return an upper law of an outermost stand-in's contributions; only the largest if no law is known."""
    largest = path.siblings[0] if isinstance(path.schemes[0], Fixed) else 0
    law = contribution_distribution(hierarchy, unit=1, clip=clip, max_contributions=largest) if largest else None
    return few_counts(law) if law else {largest: Fraction(1)}


class _Exchange(NamedTuple):
    """The probability of a missed batch, what comes in it for the units drawn, and the largest distance to it."""

    chance: Fraction
    coming: int
    max_distance: int


@dataclass(frozen=True, kw_only=True)
class _BesideMembers:
    """A group, and what is drawn beside its members in their outermost units, or in exchange for these.

    Attributes:
        path: the path to the members.
        placement: for each outermost unit that holds members, their placement in it.
        member: the effect of one member.
        others: upper law of what non-members contribute under one outermost unit that holds members.
        stand_in: upper law of what an outermost stand-in contributes.
        is_equal: True if all outermost frames hold equally many units.
    """

    path: Path
    placement: tuple[Placement, ...]
    member: Member
    others: CountDistribution
    stand_in: CountDistribution
    is_equal: bool

    def bounds(self, units_and_members: tuple[int, int], hidden: HiddenDraws) -> Iterator[tuple[Fraction, StepBound]]:
        """Yield (share, (K)) given the numbers drawn, for each number that non-members in drawn units contribute."""
        (g, h), member, max_each = units_and_members, self.member, self.path.contributions[0]
        own_swapped = self._own_in_neighbour()
        exchanges = [*self._without_units(g, hidden), *self._without_members(units_and_members, hidden)]
        for number, share in _sum_of_few(self.others, g).items():
            leaving, swapped = (min(h * own + number, g * max_each) for own in (member.own, own_swapped))
            bound = StepBound(
                inclusion=hidden.inclusion,
                shift=min(h * member.shift, 2 * max_each * g),
                missed=tuple(chance for chance, _, _ in exchanges),
                distances=tuple(min(leaving + coming, cap) for _, coming, cap in exchanges),
                distances_swapped=tuple(min(swapped + coming, cap) for _, coming, cap in exchanges),
            )
            yield share, bound

    def _own_in_neighbour(self) -> int:
        """Return the most that D' contributes in a member's place: its own if replaced, a stand-in's if removed."""
        if self.member.adjacency is Adjacency.REPLACE_ONE:
            return self.member.own
        return self.member.stand_in or 0 if self.member.adjacency is Adjacency.ADD_REMOVE else 0

    def _without_units(self, drawn_units: int, hidden: HiddenDraws) -> Iterator[_Exchange]:
        """Yield the exchanges of the units drawn for as many stand-ins, in a batch without any unit of the group."""
        for coming, p in _sum_of_few(self.stand_in, drawn_units).items():
            yield _Exchange(hidden.missed[0] * p, coming, sys.maxsize)

    def _without_members(self, units_and_members: tuple[int, int], hidden: HiddenDraws) -> Iterator[_Exchange]:
        """Yield the exchanges of the units drawn for units of the group, in a batch that holds these and no member."""
        cap = missed_distances(self.path, self.placement, self.member, units_and_members)[1]
        redrawn = _redrawn_distribution(self.others, self.stand_in, len(self.placement))
        if len(self.placement) == 1 and len(self.path.counts) == 2:  # members are exchanged for others of their unit
            redrawn = {cap: Fraction(1)}
        max_leaving = self._max_leaving(units_and_members[0])
        for coming, p in redrawn.items():
            yield _Exchange(hidden.missed[1] * p, max_leaving + coming, cap)

    def _max_leaving(self, drawn_units: int) -> int:
        """Return the most that stand-ins of the group's undrawn units contribute; 0 unless the draw is fixed."""
        # They are those of the batch: nothing hides them. A part with more than MAX_UNITS_APART units, or of frames of
        # unknown size, stands for fewer of the group too.
        max_number = self.path.siblings[0] if isinstance(self.path.schemes[0], Fixed) else 0
        return max_number * (len(self.placement) - (min(drawn_units, MAX_UNITS_APART + 1) if self.is_equal else 1))


def _others_distribution(
    hierarchy: Hierarchy, unit: int, clip: int, placement: tuple[Placement, ...]
) -> CountDistribution:
    """Return an upper law of what non-members contribute in one drawn outermost unit that holds members."""
    # From the members' level outwards; units that hold members count as drawn.
    occupied = _most_occupied_in_a_frame(placement, unit)
    law: CountDistribution = {0: Fraction(1)}
    for number in range(unit, 1, -1):
        inside = _sum_of_few(law, occupied[number - 1])
        law = convolve_upper(_drawn_beside_members(hierarchy, number, unit, clip), inside)
    return few_counts(law)


def _drawn_beside_members(hierarchy: Hierarchy, number: int, unit_level: int, clip: int) -> CountDistribution:
    """Return an upper law of what a frame's draw at level `number` contributes; a Poisson draw of members omits one."""
    # No unit counts as missing for those that hold members, but in a Poisson draw of the members themselves, of whom
    # each frame holds one or more.
    level = hierarchy.level(number)
    max_each = math.prod(each.max_drawn for each in hierarchy.levels[number:clip])
    each = contribution_distribution(hierarchy, unit=number, clip=clip, max_contributions=max_each)
    sum_of_draw = mates_sum if number == unit_level and isinstance(level.scheme, Poisson) else drawn_sum
    return few_counts(sum_of_draw(level, level.count, each or {max_each: Fraction(1)}))


def _most_occupied_in_a_frame(placement: tuple[Placement, ...], unit_level: int) -> list[int]:
    """Return, for levels 1 to `unit_level`, the most units of one frame that hold members; 1 at the first and last."""
    frames, occupied = list(placement), [1] * unit_level
    for number in range(1, unit_level - 1):
        inner = [frame for frame in frames if isinstance(frame, tuple)]
        occupied[number] = max(map(len, inner))
        frames = [each for frame in inner for each in frame]
    return occupied


def _redrawn_distribution(others: CountDistribution, stand_in: CountDistribution, occupied: int) -> CountDistribution:
    """Return a coarse upper law of the sum of `occupied` units, each of a law that is above both."""
    # Of each unit it is what it holds beside members, or what a unit without members holds: a law above both.
    above: CountDistribution = {}
    tail = Fraction(0)
    for count in sorted({*others, *stand_in}, reverse=True):
        larger = max(sum((p for k, p in law.items() if k >= count), start=Fraction(0)) for law in (others, stand_in))
        if larger > tail:
            above[count], tail = larger - tail, larger
    return coarsen_at_quantiles(_sum_of_few(above, occupied), FEW_PAIRED)


def _sum_of_few(law: CountDistribution, number: int) -> CountDistribution:
    """Return an upper bound (stochastic order) on the sum of `number` >= 0 independent counts, at few counts."""
    return few_counts(independent_sum(law, number, rate=Fraction(1))) if number != 1 else law
