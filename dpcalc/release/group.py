"""Groups of units that are protected together, and every way they can lie in the data."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpcalc.adjacency import Adjacency
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.release.contexts import Placement, placements
from dpcalc.sampling.groups import LARGEST_PLACED, most_together, room, unbounded
from dpcalc.sampling.hierarchy import Hierarchy


@dataclass(frozen=True, kw_only=True)
class Group:
    """Units protected together.

    Attributes:
        size: how many, >= 1.
        placement: where they are; None where that is left open.
    """

    size: int = 1
    placement: Placement | None = None

    @property
    def words(self) -> str:
        """How the group lies."""
        match self.placement:
            case tuple():
                return f"group of {self.size} placed {_nested(self.placement)}"
            case _:
                return ""

    @property
    def is_together(self) -> bool:
        """Whether all are in one unit of the level above."""
        if self.size == 1:
            return True
        inner = self.placement
        while isinstance(inner, tuple) and len(inner) == 1:
            (inner,) = inner
        return isinstance(inner, int)


def _nested(placement: Placement) -> str:
    """A placement in brackets."""
    return f"({' + '.join(map(_nested, placement))})" if isinstance(placement, tuple) else str(placement)


def groups(size: int, phases: Sequence[Hierarchy], *, unit: int, adjacency: Adjacency) -> tuple[Group, ...]:
    """Every way a group can lie, as far as ways are told apart.

    Args:
        size: of the group.
        phases: the levels of each phase.
        unit: protected level.
        adjacency: where units are removed, as many must be left as a step draws.

    Raises:
        InputError: if there is no room for so many.
        UnsupportedError: if nothing is proved for such a group.
    """
    if size == 1:
        return (Group(),)
    most = most_together(phases, unit=unit, adjacency=adjacency)
    if size > most:
        raise InputError(f"group_size: expected at most {most}, more units cannot be exchanged, got {size}")
    why = unbounded(size, phases, unit=unit)
    if why:
        raise UnsupportedError(f"group_size: {why}")
    if unit == 1:
        return (Group(size=size, placement=size),)
    if size > LARGEST_PLACED:
        return (Group(size=size),)
    ways = placements(size, room(phases, unit=unit, adjacency=adjacency))
    return tuple(Group(size=size, placement=placement) for placement in ways)
