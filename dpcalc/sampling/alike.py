"""Units of a tree that are alike: those with the same tree under them, up to the order of siblings."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Alike:
    """The units of one level under one of each kind of units of the level above, in order of the first of each kind.

    Attributes:
        parent: index among the rows of the level above, ascending.
        number: how many units under one parent are alike.
        unit: the first of them, as a number among all units of the level; of records that of their parent.
    """

    parent: Whole
    number: Whole
    unit: Whole


@lru_cache(maxsize=4)
def alike_units(sizes: tuple[tuple[int, ...], ...]) -> tuple[Alike, ...]:
    """The units of a tree, each kind under a parent once.

    Args:
        sizes: for each level, the number of its units under every unit of the level above; two levels or more.

    Returns:
        One entry a level, outermost first.
    """
    records = np.array(sizes[-1], dtype=np.int64)
    kinds = np.unique(records, return_inverse=True)[1]
    grouped = []
    for level in reversed(sizes[:-1]):
        runs, kinds = _grouped(np.array(level, dtype=np.int64), kinds)
        grouped.append(runs)
    found = []
    chosen = np.zeros(1, dtype=np.int64)
    for runs in reversed(grouped):
        first, last = np.searchsorted(runs.parent, [chosen, chosen + 1])
        length = last - first
        parent = np.repeat(np.arange(chosen.size), length)
        rows = np.arange(parent.size) - np.repeat(np.cumsum(length) - length - first, length)
        rows = rows[np.lexsort((runs.unit[rows], parent))]
        found.append(Alike(parent=parent, number=runs.number[rows], unit=runs.unit[rows]))
        chosen = runs.unit[rows]
    found.append(Alike(parent=np.arange(chosen.size), number=records[chosen], unit=chosen))
    return tuple(found)


def _grouped(sizes: Whole, kinds: Whole) -> tuple[Alike, Whole]:
    """(units of a level by parent and kind, `parent` among all units of the level above; the kinds of the parents)."""
    above = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((kinds, above))
    starts = np.flatnonzero((np.diff(above[order], prepend=-1) != 0) | (np.diff(kinds[order], prepend=-1) != 0))
    number = np.diff(starts, append=order.size)
    parent = above[order][starts]
    content = np.stack([kinds[order][starts], number], axis=1).astype(np.int64)
    ends = np.searchsorted(parent, np.arange(sizes.size + 1)).tolist()
    known: dict[bytes, int] = {}
    names = (content[a:b].tobytes() for a, b in pairwise(ends))
    of_parents = np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)
    return Alike(parent=parent, number=number, unit=order[starts]), of_parents
