"""Paths from the root of the hierarchy to a protected unit.

Units of a tree that are alike: those with the same tree under them, up to the order of siblings.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import IntArray
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy, Level, scheme_for_count
from dpcalc.sampling.schemes import All, CappedGroup, CappedPoisson, Fixed, Poisson, Scheme, Shuffle, WithReplacement


@dataclass(frozen=True, kw_only=True)
class Alike:
    """Units of one level, alike siblings in one row, under one unit of each kind of the level above.

    Attributes:
        parent: index among the rows of the level above, ascending.
        number: how many units under one parent are alike.
        unit: the first of them, as a number among all units of the level; of records that of their parent.
    """

    parent: IntArray
    number: IntArray
    unit: IntArray


_FEW_SIZES = 16  # of a capped draw, each of which has a path of its own; of more, nine ranges of sizes have


@lru_cache(maxsize=4)
def alike_units(sizes: tuple[tuple[int, ...], ...]) -> tuple[Alike, ...]:
    """Return, for each level, one row per kind of alike siblings under the first unit of each kind of parent.

    One entry a level, outermost first.
    """
    # Two sweeps. Upwards: units of a level are of one kind if they hold equally many children of each kind, so that a
    # kind is the byte string of its sorted (kind of child, number) pairs. Downwards: of each kind of parent only the
    # first unit is followed, so that the rows are as many as there are kinds, not units.
    records = np.array(sizes[-1], dtype=np.int64)
    kinds = np.unique(records, return_inverse=True)[1]
    grouped = []
    for level in reversed(sizes[:-1]):
        runs, kinds = _group_alike_siblings(np.array(level, dtype=np.int64), kinds)
        grouped.append(runs)
    rows_of_levels = []
    chosen = np.zeros(1, dtype=np.int64)
    for runs in reversed(grouped):
        rows_of_levels.append(_rows_of_parents(runs, chosen))
        chosen = rows_of_levels[-1].unit
    rows_of_levels.append(Alike(parent=np.arange(chosen.size), number=records[chosen], unit=chosen))
    return tuple(rows_of_levels)


def _group_alike_siblings(sizes: IntArray, kinds: IntArray) -> tuple[Alike, IntArray]:
    """Return a row for each parent and kind of its children, and the kinds of the parents: equal if their rows are."""
    # Children sorted by parent and kind fall into runs, one a row; the runs of a parent, as bytes, name its kind.
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


def _rows_of_parents(runs: Alike, chosen: IntArray) -> Alike:
    """Return the rows under the chosen parents, sorted by parent and unit, with `parent` as an index into `chosen`."""
    first, last = np.searchsorted(runs.parent, [chosen, chosen + 1])
    length = last - first
    parent = np.repeat(np.arange(chosen.size), length)
    rows = np.arange(parent.size) - np.repeat(np.cumsum(length) - length - first, length)
    rows = rows[np.lexsort((runs.unit[rows], parent))]
    return Alike(parent=parent, number=runs.number[rows], unit=runs.unit[rows])


# Every way from the top down to a protected unit, and what is drawn beside it.
#
# Units of a level are rows of arrays, siblings that are alike in one row: equal sizes are one row a level, a tree has
# one for each kind of units under each kind of parents and, at the last level, one for each kind of parents of
# records.
#
# Source: docs/theory.md, Theorem 6.7.


@dataclass(frozen=True, kw_only=True)
class Path:
    """The units from the outermost level down to a protected unit, as one phase samples them; outermost first.

    Attributes:
        place: index of each unit on the way in its parent, from 0; () where nobody knows.
        counts: units in the frame each is drawn from; where a path stands for several, the fewest.
        max_counts: the most; the same as `counts` but where a path with a `CappedPoisson` draw stands for several.
        schemes: how they are drawn; a fixed draw of all there are is `all`.
        contributions: most clipped contributions that one step can draw under each (theory: m_j).
        siblings: the most of that under any other unit in the same frame, 0 if there is none.
        mates: the most of that under all other units of the frame that are drawn with it (theory: W_j at its most);
            what `contributions` allow if it is absent.
    """

    place: tuple[int, ...]
    counts: tuple[int, ...]
    schemes: tuple[Scheme, ...]
    contributions: tuple[int, ...]
    siblings: tuple[int, ...]
    mates: tuple[int, ...] = ()
    max_counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Fill in empty `max_counts` from `counts`, and empty `mates` from `contributions`."""
        if not self.max_counts:
            object.__setattr__(self, "max_counts", self.counts)
        if not self.mates:
            others = (above - below for above, below in pairwise(self.contributions))
            object.__setattr__(self, "mates", (0, *others))

    def rate(self, number: int) -> Fraction:
        """Return the exact probability that the unit at level `number` >= 1 is drawn, given that its parent is."""
        return self.schemes[number - 1].rate(self.counts[number - 1])

    def inclusion(self, number: int) -> Fraction:
        """Return the exact probability that one step draws the unit at level `number`, after cuts; 1 for level 0."""
        product = Fraction(1)
        for level in range(1, number + 1):
            product *= self.rate(level)
        return product

    @property
    def uncut(self) -> "Path":
        """The path with Poisson draws in the place of those that are cut to a maximum."""
        schemes = (Poisson(probability=x.probability) if isinstance(x, CappedPoisson) else x for x in self.schemes)
        return replace(self, schemes=tuple(schemes))

    @property
    def with_whole_passes(self) -> "Path":
        """The path with every shuffle as `All`."""
        return replace(self, schemes=tuple(All() if isinstance(x, Shuffle) else x for x in self.schemes))

    def missed(self, number: int) -> Fraction:
        """Return the exact probability that a step draws the unit at level number - 1 but not its child on the path."""
        return self.inclusion(number - 1) * (1 - self.rate(number))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Units of one level as rows; a row stands for `number` alike siblings.

    Attributes:
        parent: row of the level above, ascending.
        number: how many equal units a row stands for.
        unit: in a tree the first of them, as a number among all units of the level; of records that of their parent.
        first: the first row of each parent.
    """

    parent: IntArray
    number: IntArray
    unit: IntArray
    first: NDArray[np.intp]

    @property
    def sizes(self) -> IntArray:
        """Number of units under each parent."""
        return self.sums(np.ones_like(self.number))

    def sums(self, values: IntArray) -> IntArray:
        """Return, for each parent, the sum over its units of their row's value, each row counted `number` times."""
        total: IntArray = np.add.reduceat(self.number * values, self.first)
        return total

    def sums_of_largest(self, values: IntArray, size: int) -> IntArray:
        """Return, for each parent, the sum of its `size` largest values; a row stands for `number` units."""
        # `within` counts the units before a row under its parent: the row has what is left of `size`, or none.
        order = self.order_descending(values)
        before = np.cumsum(self.number[order]) - self.number[order]
        within = before - before[self.first][self.parent]
        taken = np.clip(size - within, 0, self.number[order])
        total: IntArray = np.add.reduceat(taken * values[order], self.first)
        return total

    def largest_sibling(self, values: IntArray) -> IntArray:
        """Return, for each row, the largest value among the other units of its parent; 0 if there are none."""
        # Rows of a parent see its largest row; that row sees itself if it stands for several units, else the second.
        order = self.order_descending(values)
        second = np.zeros_like(self.first)
        several = np.flatnonzero(np.diff(self.first, append=values.size) > 1)
        second[several] = values[order][self.first[several] + 1]
        highest = order[self.first]
        largest = values[highest][self.parent]
        largest[highest] = np.where(self.number[highest] > 1, values[highest], second)
        return largest

    def order_descending(self, values: IntArray) -> NDArray[np.intp]:
        """Return row indices sorted by parent, and under one parent by falling value."""
        if values.min() == values.max():
            return np.arange(values.size)
        return np.lexsort((-values, self.parent))


@dataclass(frozen=True, kw_only=True)
class PathTable:
    """All paths to the units of a level, as each of several phases samples them.

    Attributes:
        hierarchies: the phases' levels, over the same data.
        rows: where the data have each path, `Rows.unit` of its last unit.
        counts: units in the frame, shape (paths, levels); the fewest where a row stands for several paths.
        max_counts: the most, likewise; they matter for `CappedPoisson` draws alone.
        contributions: for each phase the contributions of `Path`, shape (paths, levels).
        siblings: likewise.
        mates: likewise.
        is_merged: whether a row stands for several paths, none of which it is below.
    """

    hierarchies: tuple[Hierarchy, ...]
    rows: IntArray
    counts: IntArray
    max_counts: IntArray
    contributions: tuple[IntArray, ...]
    siblings: tuple[IntArray, ...]
    mates: tuple[IntArray, ...]
    is_merged: bool = False

    @property
    def unit(self) -> int:
        """The protected level, from 1."""
        return int(self.counts.shape[1])

    def paths(self, at: int) -> tuple[Path, ...]:
        """Return row `at` as one `Path` for each phase."""
        place = self._place(int(self.rows[at]))
        return tuple(self._path(at, phase, place) for phase in range(len(self.hierarchies)))

    def _path(self, at: int, phase: int, place: tuple[int, ...]) -> Path:
        """Return row `at` as the path of one phase; an empty `place` means that frame sizes are not exactly known."""
        levels = self.hierarchies[phase].levels[: self.unit]
        counts = tuple(
            self._fewest_units(level, count, is_known=bool(place))
            for level, count in zip(levels, self.counts[at].tolist(), strict=True)
        )
        max_counts = tuple(
            _most_in_frame(level.scheme, count, largest)
            for level, count, largest in zip(levels, counts, self.max_counts[at].tolist(), strict=True)
        )
        return Path(
            place=place,
            counts=counts,
            max_counts=max_counts,
            schemes=tuple(
                scheme_for_count(level.scheme, count) for level, count in zip(levels, max_counts, strict=True)
            ),
            contributions=tuple(self.contributions[phase][at].tolist()),
            siblings=tuple(self.siblings[phase][at].tolist()),
            mates=tuple(self.mates[phase][at].tolist()),
        )

    def _fewest_units(self, level: Level, count: int, *, is_known: bool) -> int:
        """Return the fewest units of a frame of `count`, in whole batches if its exact size is not known."""
        # Where sizes are not known, or several paths are merged, the frame is as small as its draw allows: rates are
        # largest.
        if self.is_merged or (level.min_count < level.count and not is_known):
            count = units_in_whole_batches(level.scheme, count)
        return fewest_in_frame(level.scheme, count)

    def _place(self, number: int) -> tuple[int, ...]:
        """Return the indices that lead to unit `number`, on the last level to its first record; () without a tree."""
        tree = self.hierarchies[0].tree
        if tree is None:
            return ()
        if self.unit == self.hierarchies[0].depth:
            return (*tree.place(self.unit - 1, number), 0)
        return tree.place(self.unit, number)


def fewest_in_frame(scheme: Scheme, count: int) -> int:
    """Return the fewest units that a frame of `count` can hold; only a CappedGroup has fewer than `count`."""
    return min(count, scheme.min_count) if isinstance(scheme, CappedGroup) else count


def _most_in_frame(scheme: Scheme, count: int, max_count: int) -> int:
    """Return the most units that a frame of `count` can hold; only a capped draw may have more than `count`."""
    if isinstance(scheme, CappedGroup):
        return scheme.count
    return max_count if isinstance(scheme, CappedPoisson) else count


def units_in_whole_batches(scheme: Scheme, count: int) -> int:
    """Return how many of `count` units a pass holds; fewer only for a shuffle with drop_last.

    A count of which a pass costs as much as of any larger one: a pass over more units has at least as many steps,
    and holds each of them at most once.
    """
    return scheme.drawn_in_a_pass(count) if isinstance(scheme, Shuffle) else count


def one_pass(path: Path) -> Path:
    """Return the path with the innermost shuffle as one draw of all that its pass holds, and those above it as `All`.

    A pass with drop_last draws a fixed number, any other pass draws everything. The draws of shuffles above the
    innermost one are assumed public.
    """
    innermost = max((at for at, scheme in enumerate(path.schemes) if isinstance(scheme, Shuffle)), default=0)
    schemes = list(path.with_whole_passes.schemes)
    scheme, count = path.schemes[innermost], path.counts[innermost]
    if isinstance(scheme, Shuffle):
        schemes[innermost] = scheme_for_count(Fixed(size=scheme.drawn_in_a_pass(count)), count)
    return replace(path, schemes=tuple(schemes))


def path_table(draws: Sequence[tuple[Hierarchy, int]], *, unit: int) -> PathTable:
    """Return a table of the paths to level `unit` that differ: a row for each kind in a tree, else for ranges of sizes.

    One row for each kind of units of a tree, in order of the first of each. Of sizes only known to lie between two
    ends every larger one means a smaller rate, so that the smallest size, which a fixed draw may exhaust, and the
    next one stand for all; where a draw is of at most some number, the first size of which it leaves something out
    does too. A capped Poisson draw may cost more for a larger size: there a row stands for a range of sizes.
    """
    hierarchies = tuple(phase for phase, _ in draws)
    levels = level_rows(hierarchies[0])
    frames = _frames_by_range(hierarchies, unit) if hierarchies[0].tree is None else _frames_in_tree(levels, unit)
    values = [contributions(levels, *draw) for draw in draws]
    siblings = [[r.largest_sibling(value) for r, value in zip(levels[:unit], each, strict=False)] for each in values]
    mates = [_mates(levels, hierarchy, each) for hierarchy, each in zip(hierarchies, values, strict=True)]
    return PathTable(
        hierarchies=hierarchies,
        rows=frames.rows,
        counts=frames.counts,
        max_counts=frames.max_counts,
        contributions=tuple(_values_along_paths(frames.ancestors, each) for each in values),
        siblings=tuple(_values_along_paths(frames.ancestors, each) for each in siblings),
        mates=tuple(_values_along_paths(frames.ancestors, each) for each in mates),
    )


class _Frames(NamedTuple):
    """The frames along paths to protected units: `rows`, `counts` and `max_counts` of the `PathTable`.

    `ancestors` holds, for each level of the paths, the row of each path's unit there.
    """

    rows: IntArray
    ancestors: list[IntArray]
    counts: IntArray
    max_counts: IntArray


def _frames_in_tree(levels: Sequence[Rows], unit: int) -> _Frames:
    """Return the frames of the paths to each row of level `unit` of a tree, where each size is known."""
    ancestors = _ancestor_rows(levels, unit)
    sizes = _values_along_paths(ancestors, [rows.sizes[rows.parent] for rows in levels[:unit]])
    return _Frames(levels[unit - 1].unit, ancestors, sizes, sizes)


def _frames_by_range(hierarchies: Sequence[Hierarchy], unit: int) -> _Frames:
    """Return the frames of a path for each combination of the levels' ranges of sizes (`_size_ranges`)."""
    phases_of_levels = zip(*(hierarchy.levels[:unit] for hierarchy in hierarchies), strict=True)
    ranges = np.array(list(product(*map(_size_ranges, phases_of_levels))), dtype=np.int64)
    none = np.zeros(len(ranges), dtype=np.int64)
    return _Frames(none, [none] * unit, ranges[:, :, 0], ranges[:, :, 1])


def _size_ranges(phases: Sequence[Level]) -> list[tuple[int, int]]:
    """Return the ranges (fewest, most) of sizes that share a path: min_count alone, then anew where a draw changes."""
    # Within a range the fewest units cost most, unless they are cut.
    fewest, largest = phases[0].min_count, phases[0].count
    starts = {fewest, min(fewest + 1, largest)}
    for level in phases:
        if isinstance(level.scheme, Fixed) and level.scheme.size > level.min_count:
            starts.add(level.scheme.size + 1)  # the first size of which an `at_most` draw leaves something out
        if isinstance(level.scheme, CappedPoisson):
            starts |= _sizes_more_often_cut(level.scheme, level.min_count, level.count)
    ascending = sorted(starts)
    return list(zip(ascending, [*(start - 1 for start in ascending[1:]), largest], strict=True))


def _sizes_more_often_cut(scheme: CappedPoisson, fewest: int, largest: int) -> set[int]:
    """Return frame sizes from which batches are cut more often: all if few, else at most 9 that draw about the cap."""
    if largest - fewest < _FEW_SIZES:
        return set(range(fewest, largest + 1))
    # Standard deviations of the number drawn: at -4 it is hardly ever above the cap, at 4 nearly always.
    means = (scheme.max_batch_size + deviations * math.sqrt(scheme.max_batch_size) for deviations in range(-4, 5))
    return {size for mean in means if fewest < (size := int(mean / scheme.probability)) <= largest}


def level_rows(hierarchy: Hierarchy) -> tuple[Rows, ...]:
    """Return the rows of each level, outermost first; without a tree one row stands for all units of a level."""
    if hierarchy.tree is not None:
        return tuple(
            _rows_with_starts(alike.parent, alike.number, alike.unit) for alike in alike_units(hierarchy.tree.sizes)
        )
    none = np.zeros(1, dtype=np.int64)
    return tuple(_rows_with_starts(none, np.array([level.count]), none) for level in hierarchy.levels)


def contributions(levels: Sequence[Rows], hierarchy: Hierarchy, clip: int) -> list[IntArray]:
    """Return, by level and row, the most clipped contributions that one step draws of a unit; 1 at `clip` and below."""
    # From the clipping level outwards, each draw at its largest. Above `clip` = 0 the batch is one vector: all are 1.
    largest = [np.ones_like(rows.number) for rows in levels]
    for number in range(clip - 1, 0, -1):
        largest[number - 1] = _largest_draws(levels[number], hierarchy.level(number + 1).scheme, largest[number])
    return largest


def _largest_draws(rows: Rows, scheme: Scheme, values: IntArray) -> IntArray:
    """Return, for each parent, the largest sum of the rows' values that one draw of its units can have."""
    match scheme:
        case Fixed(size=size) | Shuffle(size=size) | CappedPoisson(max_batch_size=size):
            return rows.sums_of_largest(values, size)
        case WithReplacement(size=size):
            largest: IntArray = size * np.maximum.reduceat(values, rows.first)
            return largest
        case _:
            return rows.sums(values)


def _mates(levels: Sequence[Rows], hierarchy: Hierarchy, values: Sequence[IntArray]) -> list[IntArray]:
    """Return, by level and row, the most that units drawn with a unit add, each its `contributions`; 0 at level 1."""
    below = zip(levels[1:], hierarchy.levels[1:], values[1:], strict=True)
    return [np.zeros_like(values[0]), *(_largest_mates(rows, level.scheme, each) for rows, level, each in below)]


def _largest_mates(rows: Rows, scheme: Scheme, values: IntArray) -> IntArray:
    """Return, for each row, an upper bound on the sum of the other units' values in a draw that holds it."""
    # Exact for Fixed, Poisson and All. Others add the largest draw less the value whose place the row takes.
    largest = _largest_draws(rows, scheme, values)
    match scheme:
        case WithReplacement():  # a unit may be drawn as well as others in all places
            taken = np.zeros_like(values)
        case Fixed(size=size):  # a unit that is not among the largest takes the place of the smallest of them
            smallest = largest - rows.sums_of_largest(values, size - 1)
            taken = np.maximum(values, smallest[rows.parent])
        case _:
            taken = values
    mates: IntArray = largest[rows.parent] - taken
    return mates


def _rows_with_starts(parent: IntArray, number: IntArray, unit: IntArray) -> Rows:
    """Return `Rows` with the first row of each parent; `parent` must ascend."""
    return Rows(parent=parent, number=number, unit=unit, first=np.flatnonzero(np.diff(parent, prepend=-1)))


def _values_along_paths(up: Sequence[IntArray], values: Sequence[IntArray]) -> IntArray:
    """Return, for each path, the values of its units, from rows `up` of each level on it; shape (paths, levels)."""
    return np.stack([value[rows] for rows, value in zip(up, values, strict=False)], axis=1)


def _ancestor_rows(levels: Sequence[Rows], unit: int) -> list[IntArray]:
    """Return, for each level from 1 to `unit`, the row of each protected unit's ancestor there."""
    rows: list[IntArray] = [np.arange(levels[unit - 1].number.size)]
    for below in reversed(levels[1:unit]):
        rows.append(below.parent[rows[-1]])
    return rows[::-1]
