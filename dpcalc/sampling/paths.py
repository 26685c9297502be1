"""Every way from the top of the hierarchy down to a protected unit, and what is drawn beside it.

Units of a level are rows of arrays, siblings that are alike in one row: equal sizes are one row a level, a tree has one
for each kind of units under each kind of parents and, at the last level, one for each kind of parents of records. Units
of a tree are alike if they have the same tree under them, up to the order of siblings.

Source: docs/theory.md, Theorem 6.7.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from dpcalc.numerics import IntArray
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, CappedGroup, CappedPoisson, Fixed, Poisson, Scheme

_FEW_SIZES = 16  # of a capped draw, each of which has a path of its own; of more, nine ranges of sizes have


@dataclass(frozen=True, kw_only=True)
class Path:
    """The units from the outermost level down to a protected unit, as one phase samples them; outermost first."""

    place: tuple[int, ...]  # index of each unit in its parent, from 0; () where nobody knows
    counts: tuple[int, ...]  # units in the frame each is drawn from; where a path stands for several, the fewest
    schemes: tuple[Scheme, ...]  # how they are drawn; a fixed draw of all there are is `all`
    contributions: tuple[int, ...]  # most clipped contributions that one step can draw under each (theory: k_j)
    siblings: tuple[int, ...]  # the most of that under any other unit in the same frame, 0 if there is none
    # The most of that under all other units of the frame that are drawn with it (theory: W_j at its most); what
    # `contributions` allow if it is absent.
    mates: tuple[int, ...] = ()
    # The most units; other than `counts` where a path with a capped draw stands for several.
    max_counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
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
        return math.prod((self.rate(level) for level in range(1, number + 1)), start=Fraction(1))

    def stand_in(self, number: int) -> int:
        """Return the most contributions of the unit that is drawn in the place of a missed one; 0 if none is."""
        return self.siblings[number - 1] if self.schemes[number - 1].has_stand_in else 0

    @property
    def uncut(self) -> "Path":
        """The path with Poisson draws in the place of those that are cut to a maximum."""
        schemes = (Poisson(probability=x.probability) if x.is_cut else x for x in self.schemes)
        return replace(self, schemes=tuple(schemes))

    @property
    def with_whole_passes(self) -> "Path":
        """The path with every shuffle as `All`."""
        return replace(self, schemes=tuple(All() if x.is_shuffled else x for x in self.schemes))

    def missed(self, number: int) -> Fraction:
        """Return the exact probability that a step draws the unit at level number - 1 but not its child on the path."""
        return self.inclusion(number - 1) * (1 - self.rate(number))


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Units of one level as rows; a row stands for `number` alike siblings."""

    parent: IntArray  # row of the level above, ascending
    number: IntArray
    # In a tree the first of them, as a number among all units of the level; of records that of the parent.
    unit: IntArray

    @cached_property
    def first(self) -> NDArray[np.intp]:
        """The first row of each parent."""
        return np.flatnonzero(np.diff(self.parent, prepend=-1))

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


@lru_cache(maxsize=4)
def alike_units(sizes: tuple[tuple[int, ...], ...]) -> tuple[Rows, ...]:
    """Return for each level, outermost first, a row per kind of siblings under the first unit of each kind."""
    # Two sweeps. Upwards: units of a level are of one kind if they hold equally many children of each kind. Downwards:
    # of each kind of parent only the first unit is followed, so that the rows are as many as there are kinds, not
    # units.
    records = np.array(sizes[-1], dtype=np.int64)
    kinds = np.unique(records, return_inverse=True)[1]
    grouped = []
    for level in reversed(sizes[:-1]):
        # Children sorted by parent and kind fall into runs, one a row; the runs of a parent, as bytes, name its kind.
        above = np.repeat(np.arange(len(level)), level)
        order = np.lexsort((kinds, above))
        starts = np.flatnonzero((np.diff(above[order], prepend=-1) != 0) | (np.diff(kinds[order], prepend=-1) != 0))
        runs = Rows(parent=above[order][starts], number=np.diff(starts, append=order.size), unit=order[starts])
        content = np.stack([kinds[order][starts], runs.number], axis=1).astype(np.int64)
        ends = np.searchsorted(runs.parent, np.arange(len(level) + 1)).tolist()
        known: dict[bytes, int] = {}
        names = (content[a:b].tobytes() for a, b in pairwise(ends))
        kinds = np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)
        grouped.append(runs)

    levels, chosen = [], np.zeros(1, dtype=np.int64)
    for runs in reversed(grouped):  # the runs under the chosen parents, sorted by parent and unit
        first, last = np.searchsorted(runs.parent, [chosen, chosen + 1])
        length = last - first
        parent = np.repeat(np.arange(chosen.size), length)
        rows = np.arange(parent.size) - np.repeat(np.cumsum(length) - length - first, length)
        rows = rows[np.lexsort((runs.unit[rows], parent))]
        levels.append(Rows(parent=parent, number=runs.number[rows], unit=runs.unit[rows]))
        chosen = levels[-1].unit
    return (*levels, Rows(parent=np.arange(chosen.size), number=records[chosen], unit=chosen))


def level_rows(hierarchy: Hierarchy) -> tuple[Rows, ...]:
    """Return the rows of each level, outermost first; without a tree one row stands for all units of a level."""
    if hierarchy.tree is not None:
        return alike_units(hierarchy.tree.sizes)
    none = np.zeros(1, dtype=np.int64)
    return tuple(Rows(parent=none, number=np.array([level.count]), unit=none) for level in hierarchy.levels)


@dataclass(frozen=True, kw_only=True)
class PathTable:
    """All paths to the units of a level, as each of several phases samples them; arrays have shape (paths, levels)."""

    hierarchies: tuple[Hierarchy, ...]  # the phases' levels, over the same data
    rows: IntArray  # where the data have each path, `Rows.unit` of its last unit; shape (paths,)
    counts: IntArray  # units in the frame; the fewest where a row stands for several paths
    max_counts: IntArray  # the most, likewise; they matter for `CappedPoisson` draws alone
    contributions: tuple[IntArray, ...]  # for each phase, as `Path` has them
    siblings: tuple[IntArray, ...]
    mates: tuple[IntArray, ...]
    is_merged: bool = False  # a row stands for several paths, none of which it is below

    @property
    def unit(self) -> int:
        """The protected level, from 1."""
        return int(self.counts.shape[1])

    def paths(self, at: int) -> tuple[Path, ...]:
        """Return row `at` as one `Path` for each phase."""
        tree, number, place = self.hierarchies[0].tree, int(self.rows[at]), tuple[int, ...]()
        if tree is not None:
            is_record = self.unit == self.hierarchies[0].depth  # the first one of its parent
            place = (*tree.place(self.unit - 1, number), 0) if is_record else tree.place(self.unit, number)
        paths = []
        for phase, hierarchy in enumerate(self.hierarchies):
            frames = []
            sizes = zip(hierarchy.levels, self.counts[at].tolist(), self.max_counts[at].tolist(), strict=False)
            for level, size, max_size in sizes:
                # Where sizes are not known, or several paths are merged, the frame is as small as its draw allows:
                # rates are largest. Only a capped draw may be of more.
                is_unknown = self.is_merged or (level.min_count < level.count and not place)
                whole = level.scheme.drawn_in_a_pass(size) if is_unknown else size
                fewest = most = fewest_in_frame(level.scheme, whole)
                if level.scheme.is_cut:
                    most = level.scheme.most if isinstance(level.scheme, CappedGroup) else max_size
                scheme = level.scheme.for_counts(most, most)
                if self.is_merged and level.scheme.has_stand_in and max_size > level.scheme.size:
                    # Where a draw takes all of a frame but not of a larger one, the row holds its units for certain, as
                    # in the one, and has a stand-in, as in the other.
                    fewest = most = max(size, level.scheme.size)
                    scheme = level.scheme.for_counts(fewest, max_size)
                frames.append((fewest, most, scheme))
            counts, max_counts, schemes = zip(*frames, strict=True)
            paths.append(
                Path(
                    place=place,
                    counts=counts,
                    max_counts=max_counts,
                    schemes=schemes,
                    contributions=tuple(self.contributions[phase][at].tolist()),
                    siblings=tuple(self.siblings[phase][at].tolist()),
                    mates=tuple(self.mates[phase][at].tolist()),
                )
            )
        return tuple(paths)


def fewest_in_frame(scheme: Scheme, count: int) -> int:
    """Return the fewest units that a frame of `count` can hold; only a CappedGroup has fewer than `count`."""
    return min(count, scheme.fewest) if isinstance(scheme, CappedGroup) else count


def one_pass(path: Path) -> Path:
    """Return the path with the innermost shuffle as one draw of what its pass holds, those above it as `All`."""
    # A pass with drop_last draws a fixed number, any other pass draws everything. The draws of shuffles above the
    # innermost one are assumed public.
    shuffled, schemes = [at for at, x in enumerate(path.schemes) if x.is_shuffled], list(path.with_whole_passes.schemes)
    if shuffled:
        scheme, count = path.schemes[shuffled[-1]], path.counts[shuffled[-1]]
        schemes[shuffled[-1]] = Fixed(size=scheme.drawn_in_a_pass(count)).for_counts(count, count)
    return replace(path, schemes=tuple(schemes))


def path_table(draws: Sequence[tuple[Hierarchy, int]], *, unit: int) -> PathTable:
    """Return a table of the paths to level `unit` that differ: a row a kind in a tree, else for ranges of sizes."""
    # One row for each kind of units of a tree, in order of the first of each. Of sizes only known to lie between two
    # ends every larger one means a smaller rate, so that the smallest size, which a fixed draw may exhaust, and the
    # next one stand for all; where a draw is of at most some number, the first size of which it leaves something out
    # does too. A capped Poisson draw may cost more for a larger size: there a row stands for a range of sizes.
    hierarchies = tuple(phase for phase, _ in draws)
    levels, tree = level_rows(hierarchies[0]), hierarchies[0].tree

    def along_paths(values: Sequence[IntArray]) -> IntArray:  # from the rows of each level
        return np.stack([value[at] for at, value in zip(ancestors, values, strict=False)], axis=1)

    # For each path the row of its unit at each level down to the protected one, and the frames of these units.
    if tree is not None:
        ancestors: list[IntArray] = [np.arange(levels[unit - 1].number.size)]
        for below in reversed(levels[1:unit]):
            ancestors.insert(0, below.parent[ancestors[0]])
        rows = levels[unit - 1].unit
        counts = max_counts = along_paths([each.sizes[each.parent] for each in levels[:unit]])
    else:
        phases_of_levels = zip(*(hierarchy.levels[:unit] for hierarchy in hierarchies), strict=True)
        ranges = np.array(list(product(*map(_size_ranges, phases_of_levels))), dtype=np.int64)
        rows = np.zeros(len(ranges), dtype=np.int64)
        ancestors, counts, max_counts = [rows] * unit, ranges[:, :, 0], ranges[:, :, 1]

    contributions, siblings, mates = [], [], []
    for hierarchy, clip in draws:
        if hierarchy.summed:
            raise TypeError("expected copies in the place of several draws that are added up: see `Plan.independent`")
        levels = level_rows(hierarchy)  # below the unit phases may differ: copies are of one phase
        # The most clipped contributions that one step draws of a unit: from the clipping level outwards, each draw at
        # its largest; 1 at `clip` and below. Above `clip` = 0 the batch is one vector: all are 1.
        schemes, most = [level.scheme for level in hierarchy.levels], [np.ones_like(each.number) for each in levels]
        for number in range(clip - 1, 0, -1):
            most[number - 1] = _largest_draws(levels[number], schemes[number], most[number])
        inside = [*zip(levels[:unit], schemes, most, strict=False)]
        contributions.append(along_paths(most))
        siblings.append(along_paths([each.largest_sibling(value) for each, _, value in inside]))
        mates.append(along_paths([np.zeros_like(most[0]), *(_largest_mates(*each) for each in inside[1:])]))
    return PathTable(
        hierarchies=hierarchies,
        rows=rows,
        counts=counts,
        max_counts=max_counts,
        contributions=tuple(contributions),
        siblings=tuple(siblings),
        mates=tuple(mates),
    )


def _size_ranges(phases: Sequence[Level]) -> list[tuple[int, int]]:
    """Return the ranges (fewest, most) of sizes that share a path: min_count alone, then anew where a draw changes."""
    # Within a range the fewest units cost most, unless they are cut.
    fewest, largest = phases[0].min_count, phases[0].count
    starts = {fewest, min(fewest + 1, largest)}
    for level in phases:
        if level.scheme.at_most and level.scheme.size > fewest:
            starts.add(level.scheme.size + 1)  # the first size of which the draw leaves something out
        if isinstance(level.scheme, CappedPoisson):  # sizes from which batches are cut more often
            if largest - fewest < _FEW_SIZES:
                starts |= set(range(fewest, largest + 1))
                continue
            # Standard deviations of the number drawn: at -4 it is hardly ever above the cap, at 4 nearly always.
            cap, rate = level.scheme.max_batch_size, level.scheme.probability
            sizes = (int((cap + deviations * math.sqrt(cap)) / rate) for deviations in range(-4, 5))
            starts |= {size for size in sizes if fewest < size <= largest}
    ascending = sorted(starts)
    return list(zip(ascending, [*(start - 1 for start in ascending[1:]), largest], strict=True))


def _largest_draws(rows: Rows, scheme: Scheme, values: IntArray) -> IntArray:
    """Return, for each parent, the largest sum of the rows' values that one draw of its units can have."""
    if scheme.can_repeat:
        largest: IntArray = scheme.size * np.maximum.reduceat(values, rows.first)
        return largest
    return rows.sums(values) if scheme.limit is None else rows.sums_of_largest(values, scheme.limit)


def _largest_mates(rows: Rows, scheme: Scheme, values: IntArray) -> IntArray:
    """Return, for each row, an upper bound on the sum of the other units' values in a draw that holds it."""
    # Exact for Fixed, Poisson and All. Others add the largest draw less the value whose place the row takes.
    largest = _largest_draws(rows, scheme, values)
    taken = values
    if scheme.can_repeat:  # a unit may be drawn as well as others in all places
        taken = np.zeros_like(values)
    elif scheme.has_stand_in:  # a unit that is not among the largest takes the place of the smallest of them
        smallest = largest - rows.sums_of_largest(values, scheme.size - 1)
        taken = np.maximum(values, smallest[rows.parent])
    mates: IntArray = largest[rows.parent] - taken
    return mates
