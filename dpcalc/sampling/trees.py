"""Unequal sizes: nested counts as one list of sizes for each level, and what is wrong with nested counts."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, chain, islice
from typing import Any

from dpcalc.errors import InputError
from dpcalc.records import dataclass

NestedCounts = int | list["NestedCounts"]
"""Numbers of records, nested by level."""
MAX_COUNT = 10**15
MAX_RECORDS = 10**18
_EMPTY = "leave out units that hold nothing"
_DEEPER = "one list within another for each level, the innermost numbers count the units of the last one"


@dataclass(frozen=True, kw_only=True, eq=False)
class Tree:
    """The number of units that each unit holds; equal to trees that differ only in the order of siblings."""

    # For each level, the number of its units under every unit of the level above, in order.
    sizes: tuple[tuple[int, ...], ...] = field(repr=False)

    def __eq__(self, other: object) -> bool:
        """Return True for a tree with the same counts up to the order of siblings: equal sizes, or equal digests."""
        return isinstance(other, Tree) and (self.sizes == other.sizes or self.digest == other.digest)

    def __hash__(self) -> int:
        """Hash the number of units of each level, which the order of siblings does not change."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(map(sum, self.sizes)))

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256, in hex, of the repr of the nested counts with siblings sorted at every level."""
        return sha256(repr(self._nested(sorted)).encode()).hexdigest()

    def nested(self) -> NestedCounts:
        """Return the nested lists of counts that `tree_of` takes."""
        return self._nested(list)

    def _nested(self, arranged: Callable[[Iterable[NestedCounts]], list[NestedCounts]]) -> NestedCounts:
        """Return the nested counts, with the list of each unit's children made by `arranged` (`list` or `sorted`)."""
        # From the records up: each unit takes as many of the lists below it as it has children. Sorted lists are equal
        # for trees that differ only in the order of siblings, at every level.
        units: list[NestedCounts] = list(self.sizes[-1])
        for sizes in reversed(self.sizes[:-1]):
            below = iter(units)
            units = [arranged(islice(below, size)) for size in sizes]
        return units[0]

    def place(self, level: int, unit: int) -> tuple[int, ...]:
        """Return the indices, from 0 and outermost first, of a unit and its ancestors, each within its parent."""
        # From the unit outwards: its parent is the last one whose children begin at or before it.
        indices: list[int] = []
        for sizes in reversed(self.sizes[:level]):
            starts = list(accumulate(sizes, initial=0))
            parent = bisect_right(starts, unit) - 1
            indices.append(unit - starts[parent])
            unit = parent
        return tuple(reversed(indices))

    def smallest_parent(self, level: int) -> str:
        """Return the dotted path of the first unit that holds the fewest units of a level, "data.tree[0][2]"."""
        sizes = self.sizes[level - 1]
        return f"data.tree{indexed(self.place(level - 1, sizes.index(min(sizes))))}"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something in nested counts that is no tree over the levels."""

    at: tuple[int, ...]  # indices from the top, from 0
    text: str  # what is expected there, and what is there instead
    hint: str = ""  # what to do
    is_amount: bool = False  # it is a number, only too small or too large


def indexed(at: Sequence[int]) -> str:
    """Return indices as they are written behind a name, "[1][0]"; "" for none.

    Example:
        >>> "tree" + indexed((1, 0))
        'tree[1][0]'
    """
    return "".join(f"[{index}]" for index in at)


def tree_of(counts: object, names: Sequence[str]) -> Tree:
    """Return the tree of nested lists of record counts, one list level a level; raise InputError for the first fault.

    Example:
        >>> tree_of([[4, 2, 3], [4, 5]], ("clinic", "patient", "visit")).sizes
        ((2,), (3, 2), (4, 2, 3, 4, 5))
    """
    for fault in faults(counts, names):
        raise InputError(f"tree{indexed(fault.at)}: expected {fault.text}")
    return unchecked_tree(counts, names)


def unchecked_tree(counts: object, names: Sequence[str]) -> Tree:
    """Return the tree of nested counts that are known to have no `faults`; nothing is checked."""
    sizes: list[tuple[int, ...]] = []
    units: list[Any] = [counts]
    for _ in names[1:]:
        sizes.append(tuple(map(len, units)))
        units = list(chain.from_iterable(units))
    return Tree(sizes=(*sizes, tuple(units)))


def faults(counts: object, names: Sequence[str]) -> Iterator[Fault]:
    """Yield, in order, each place where `counts` is no tree over these levels; one fault for fewer than two levels."""
    if len(names) < 2:
        yield Fault(at=(), text="over two levels or more, got one", hint="the `count` of a single level says how many")
        return
    # One flat list a level: a search of every place, which names the fault, takes 0.8 s for a million counts, this .06.
    # Types are compared themselves, since a bool is an int.
    units: list[Any] = [counts]
    is_sound = True
    for _ in names[1:]:
        is_sound = is_sound and set(map(type, units)) <= {list, tuple} and all(units)
        units = list(chain.from_iterable(units)) if is_sound else []
    is_sound = is_sound and set(map(type, units)) == {int} and min(units) >= 1 and max(units) <= MAX_COUNT
    if not is_sound:
        yield from _faults(counts, names, ())


def _faults(counts: object, names: Sequence[str], at: tuple[int, ...]) -> Iterator[Fault]:
    """Yield the faults of the nested counts at indices `at`, the innermost of which are counts of records."""
    name = names[0]
    if len(names) > 1:
        if not isinstance(counts, list | tuple):
            yield Fault(at=at, text=f"a list with an entry for each {name}, got {_excerpt(counts)}", hint=_DEEPER)
        elif not counts:
            yield Fault(at=at, text=f"at least one {name}, got an empty list", hint=_EMPTY, is_amount=True)
        else:
            for index, child in enumerate(counts):
                yield from _faults(child, names[1:], (*at, index))
    elif isinstance(counts, list | tuple):
        yield Fault(at=at, text=f"a whole number, how many of level {name}, got a list", hint=_DEEPER)
    elif not isinstance(counts, int) or isinstance(counts, bool):
        yield Fault(at=at, text=f"a whole number, how many of level {name}, got {_excerpt(counts)}")
    elif counts < 1:
        yield Fault(at=at, text=f"at least 1, how many of level {name}, got {counts}", hint=_EMPTY, is_amount=True)
    elif counts > MAX_COUNT:
        yield Fault(at=at, text=f"at most {MAX_COUNT:.0e}, how many of level {name}", is_amount=True)


def _excerpt(value: object) -> str:
    """Return a string, or the repr of another value, cut to 40 characters and "..."."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
