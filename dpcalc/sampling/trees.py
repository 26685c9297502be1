"""Unequal sizes: nested counts as one list of sizes for each level, and what is wrong with nested counts."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, chain, islice
from typing import Any

from dpcalc.errors import InputError

Counts = int | list["Counts"]
"""Numbers of records, nested by level."""
MAX_COUNT = 10**15
MAX_RECORDS = 10**18
_EMPTY = "leave out units that hold nothing"
_DEEPER = "one list within another for each level, the innermost numbers count the units of the last one"


@dataclass(frozen=True, kw_only=True, eq=False)
class Tree:
    """How many units each unit holds; equal when equal up to the order of siblings.

    Attributes:
        sizes: for each level, the number of its units under every unit of the level above, in order.
    """

    sizes: tuple[tuple[int, ...], ...] = field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether another tree is the same up to the order of siblings."""
        return isinstance(other, Tree) and (self.sizes == other.sizes or self.digest == other.digest)

    def __hash__(self) -> int:
        """Of what the order does not change."""
        return hash(self._totals)

    @cached_property
    def _totals(self) -> tuple[int, ...]:
        """Number of units of each level."""
        return tuple(map(sum, self.sizes))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the sizes up to the order of siblings."""
        return sha256(repr(self._nested(sorted)).encode()).hexdigest()

    def nested(self) -> Counts:
        """The nested counts that `tree_of` takes."""
        return self._nested(list)

    def _nested(self, arranged: Callable[[Iterable[Counts]], list[Counts]]) -> Counts:
        """Nested counts, the children of each unit arranged in some order."""
        units: list[Counts] = list(self.sizes[-1])
        for sizes in reversed(self.sizes[:-1]):
            below = iter(units)
            units = [arranged(islice(below, size)) for size in sizes]
        return units[0]

    def place(self, level: int, unit: int) -> tuple[int, ...]:
        """Where a unit is: its index and those of the units above it, each in its parent, the outermost first.

        Args:
            level: from 1; 0 is the top and has no indices.
            unit: among all units of the level, from 0.
        """
        indices: list[int] = []
        for sizes in reversed(self.sizes[:level]):
            starts = list(accumulate(sizes, initial=0))
            parent = bisect_right(starts, unit) - 1
            indices.append(unit - starts[parent])
            unit = parent
        return tuple(reversed(indices))

    def first_below(self, level: int, size: int) -> tuple[tuple[int, ...], int] | None:
        """Where the first unit is that holds fewer than `size` units of a level, and how many it holds."""
        for unit, held in enumerate(self.sizes[level - 1]):
            if held < size:
                return self.place(level - 1, unit), held
        return None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something in nested counts that is no tree over the levels.

    Attributes:
        at: indices from the top, from 0.
        text: what is expected there, and what is there instead.
        hint: what to do, or "".
        is_amount: whether it is a number, only too small or too large.
    """

    at: tuple[int, ...]
    text: str
    hint: str = ""
    is_amount: bool = False


def indexed(at: Sequence[int]) -> str:
    """Indices as they are written behind a name.

    Example:
        >>> "tree" + indexed((1, 0))
        'tree[1][0]'
    """
    return "".join(f"[{index}]" for index in at)


def tree_of(counts: object, names: Sequence[str]) -> Tree:
    """The tree of nested record counts.

    Args:
        counts: lists nested by level; [[4, 2, 3], [4, 5]] over three levels are two primary units with three and two
            units of 4, 2, 3 and 4, 5 records.
        names: of the levels, outermost first; at least two.

    Raises:
        InputError: names the first place that does not fit the levels, is empty, or is no count.

    Example:
        >>> tree_of([[4, 2, 3], [4, 5]], ("clinic", "patient", "visit")).sizes
        ((2,), (3, 2), (4, 2, 3, 4, 5))
    """
    for fault in faults(counts, names):
        raise InputError(f"tree{indexed(fault.at)}: expected {fault.text}")
    return grown(counts, names)


def grown(counts: object, names: Sequence[str]) -> Tree:
    """The tree of nested counts in which there are no `faults`; as `tree_of`."""
    sizes: list[tuple[int, ...]] = []
    units: list[Any] = [counts]
    for _ in names[1:]:
        sizes.append(tuple(map(len, units)))
        units = list(chain.from_iterable(units))
    return Tree(sizes=(*sizes, tuple(units)))


def faults(counts: object, names: Sequence[str]) -> Iterator[Fault]:
    """Everything that keeps nested counts from being a tree over some levels.

    Args:
        counts: what should be nested counts; anything may stand anywhere.
        names: of the levels, outermost first.

    Yields:
        One fault for each wrong place, in order.
    """
    if len(names) < 2:
        yield Fault(at=(), text="over two levels or more, got one", hint="the `count` of a single level says how many")
    elif not _is_sound(counts, len(names)):
        yield from _faults(counts, names, ())


def _is_sound(counts: object, depth: int) -> bool:
    """Whether there is no fault in nested counts, at a glance."""
    units: list[Any] = [counts]
    for _ in range(depth - 1):
        if not set(map(type, units)) <= {list, tuple} or not all(units):
            return False
        units = list(chain.from_iterable(units))
    return set(map(type, units)) == {int} and min(units) >= 1 and max(units) <= MAX_COUNT


def _faults(counts: object, names: Sequence[str], at: tuple[int, ...]) -> Iterator[Fault]:
    """The faults under one place; `names` are the levels below it."""
    if len(names) == 1:
        yield from _count_faults(counts, names[0], at)
    elif not isinstance(counts, list | tuple):
        yield Fault(at=at, text=f"a list with an entry for each {names[0]}, got {_shown(counts)}", hint=_DEEPER)
    elif not counts:
        yield Fault(at=at, text=f"at least one {names[0]}, got an empty list", hint=_EMPTY, is_amount=True)
    else:
        for index, child in enumerate(counts):
            yield from _faults(child, names[1:], (*at, index))


def _count_faults(count: object, name: str, at: tuple[int, ...]) -> Iterator[Fault]:
    """What is wrong with a number of records."""
    if isinstance(count, list | tuple):
        yield Fault(at=at, text=f"a whole number, how many of level {name}, got a list", hint=_DEEPER)
    elif not isinstance(count, int) or isinstance(count, bool):
        yield Fault(at=at, text=f"a whole number, how many of level {name}, got {_shown(count)}")
    elif count < 1:
        yield Fault(at=at, text=f"at least 1, how many of level {name}, got {count}", hint=_EMPTY, is_amount=True)
    elif count > MAX_COUNT:
        yield Fault(at=at, text=f"at most {MAX_COUNT:.0e}, how many of level {name}", is_amount=True)


def _shown(value: object) -> str:
    """A value in an error message."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
