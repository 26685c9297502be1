"""Groups of units that are protected together: their largest size, and every placement of their members.

Removed units may leave a frame with fewer units than a draw takes; the draw then takes all that are left. Passes of a
shuffle and episodes need as many units as they take.
"""

from collections.abc import Iterable, Sequence

from dpcalc.amplification.contexts import Placement, placements
from dpcalc.errors import InputError, UnsupportedError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import CappedPoisson, Fixed, Shuffle, WithReplacement

# Members whose placements are enumerated; above, union bounds hold for any placement. Under two levels the placements
# of 12 members are the 77 partitions of 12; those of 120 would be 1.8e9.
MAX_PLACED_MEMBERS = 12


def group_refusal(size: int, hierarchies: Iterable[Hierarchy], *, unit: int) -> str:
    """Return why no bound covers a group (at_most, cut, episodes' records, many with replacement); "" if one does.

    Args:
        size: number of members, >= 1.
        hierarchies: one for each phase.
        unit: protected level, from 1.
    """
    phases = tuple(hierarchies) if size > 1 else ()
    for phase in phases:
        limited = (level for level in phase.levels[:unit] if isinstance(level.scheme, Fixed) and level.scheme.at_most)
        for level in limited:
            return f"expected 1 where level {level.name} is drawn with `at_most`, got {size}"
        capped = (level for level in phase.levels[:unit] if isinstance(level.scheme, CappedPoisson))
        for level in capped:
            return f"expected 1 where level {level.name} is drawn with `max_batch_size`, got {size}"
    for phase in phases if unit > 1 else ():
        if phase.episodes is not None:
            return f"expected 1 for records of constructed episodes, got {size}; a group of classes can be protected"
        replaced = any(isinstance(level.scheme, WithReplacement) for level in phase.levels[:unit])
        if replaced and size > MAX_PLACED_MEMBERS:
            return f"expected at most {MAX_PLACED_MEMBERS} units under draws with replacement, got {size}"
    return ""


def min_units_left(hierarchy: Hierarchy, *, unit: int) -> int:
    """Return how many units must remain under each parent: the size of a shuffle, what a task takes; else 0.

    Args:
        hierarchy: levels and schemes, or how episodes are built.
        unit: protected level, from 1.
    """
    if hierarchy.episodes is not None:
        return (hierarchy.episodes.ways, hierarchy.episodes.records)[unit - 1]
    match hierarchy.level(unit).scheme:
        case Shuffle(size=size):
            return size
        case _:
            return 0


def room(hierarchies: Iterable[Hierarchy], *, unit: int, adjacency: Adjacency) -> tuple[int, ...]:
    """Return the most units of a frame that a group can occupy, by level; add-remove leaves `min_units_left`.

    Args:
        hierarchies: one for each phase, over the same data.
        unit: protected level, from 1.
        adjacency: relation between D and D'; add-remove must leave `min_units_left`.
    """
    phases = tuple(hierarchies)
    *above, last = (level.count for level in phases[0].levels[:unit])
    if adjacency is Adjacency.ADD_REMOVE:
        last -= max(min_units_left(phase, unit=unit) for phase in phases)
    return (*above, last)


def max_group_size(hierarchies: Iterable[Hierarchy], *, unit: int, adjacency: Adjacency) -> int:
    """Return the number of units that can be exchanged at once: all, for add-remove less those that must remain.

    Args:
        hierarchies: one for each phase, over the same data.
        unit: protected level, from 1.
        adjacency: relation between D and D'.
    """
    phases = tuple(hierarchies)
    data = phases[0]
    *_, last = room(phases, unit=unit, adjacency=adjacency)
    left = data.level(unit).count - last
    if data.tree is not None:
        return sum(max(0, count - left) for count in data.tree.sizes[unit - 1])
    return data.units(unit - 1) * last


MAX_PLACEMENTS = 128  # each is a run to compose, so that time grows in proportion; above, the placement is left open


@dataclass(frozen=True, kw_only=True)
class Group:
    """Units protected together.

    Attributes:
        size: number of members, >= 1.
        placement: how the members lie in the data; None for one unit, and where the placement is left open.
    """

    size: int = 1
    placement: Placement | None = None

    @property
    def is_left_open(self) -> bool:
        """True if so few members (2 to `MAX_PLACED_MEMBERS`) have too many placements, so that none is considered."""
        return self.placement is None and 1 < self.size <= MAX_PLACED_MEMBERS

    @property
    def words(self) -> str:
        """The placement in words, e.g. "group of 3 placed (1 + 2)"; "" unless the members lie in a nested placement."""
        match self.placement:
            case tuple():
                return f"group of {self.size} placed {_nested(self.placement)}"
            case _:
                return ""

    @property
    def is_together(self) -> bool:
        """True if all members have one parent: one member, level 1, or a placement with one unit at each level."""
        if self.size == 1:
            return True
        inner = self.placement
        while isinstance(inner, tuple) and len(inner) == 1:
            (inner,) = inner
        return isinstance(inner, int)


def _nested(placement: Placement) -> str:
    """Return a placement in brackets, "(1 + 2)"; a plain number without."""
    return f"({' + '.join(map(_nested, placement))})" if isinstance(placement, tuple) else str(placement)


def groups(size: int, phases: Sequence[Hierarchy], *, unit: int, adjacency: Adjacency) -> tuple[Group, ...]:
    """Return a Group for each placement, one open Group if too many; InputError without room, else UnsupportedError.

    Args:
        size: number of members, >= 1.
        phases: the levels and schemes of each phase.
        unit: protected level, from 1.
        adjacency: where units are removed, as many must be left as a step draws.

    Raises:
        InputError: if there is no room for so many.
        UnsupportedError: if no bound covers such a group.
    """
    if size == 1:
        return (Group(),)
    max_size = max_group_size(phases, unit=unit, adjacency=adjacency)
    if size > max_size:
        raise InputError(f"group_size: expected at most {max_size}, more units cannot be exchanged, got {size}")
    why = group_refusal(size, phases, unit=unit)
    if why:
        raise UnsupportedError(f"group_size: {why}")
    if unit == 1:
        return (Group(size=size, placement=size),)
    if size > MAX_PLACED_MEMBERS:
        return (Group(size=size),)
    try:
        ways = placements(size, room(phases, unit=unit, adjacency=adjacency))
    except WorkExceededError:
        return (Group(size=size),)
    if len(ways) > MAX_PLACEMENTS:
        return (Group(size=size),)
    return tuple(Group(size=size, placement=placement) for placement in ways)
