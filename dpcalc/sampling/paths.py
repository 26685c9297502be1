"""Every way from the top of the hierarchy down to a protected unit, what is drawn beside it, and which can cost most.

Units of a level are rows of arrays, siblings that are alike in one row: equal sizes are one row a level, a tree has one
for each kind of units under each kind of parents and, at the last level, one for each kind of parents of records. Units
of a tree are alike if they have the same tree under them, up to the order of siblings.

Source: docs/theory.md, Theorem 4.6, Theorem 6.6 and Theorem 6.7.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from dpcalc.numerics import IntArray
from dpcalc.records import dataclass
from dpcalc.sampling.counts import (
    CountDistribution,
    binomial,
    nonzero_probability,
    power,
)
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, CappedGroup, CappedPoisson, Fixed, Poisson, Scheme
from dpcalc.sampling.sums import independent_sum

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


# Units that are sampled together with the protected unit: probabilities and amounts of their contributions
#
# Only draws that are made together with that of the protected unit are random here. A draw below it that changes while
# the unit's draw is held will hold something in one step or another, so a unit above such a draw is never taken to be
# empty; a draw that is held for longer is taken to be of all there is.


_MAX_BITS = 1024  # of a probability's denominator that is kept exact; longer ones make distributions of counts slow
_MAX_TRIALS = 512  # of a binomial distribution in exact fractions; more take long, and are no better as an upper bound
_KEPT_BITS = 256  # of one that is rounded, by less than 1e-77


def nonempty_probability(levels: Iterable[tuple[Scheme, int]], *, is_rounded_up: bool = True) -> Fraction:
    """Return Pr[a drawn unit holds a drawn record]; an upper bound for passes, caps and long fractions."""
    rounded = math.ceil if is_rounded_up else math.floor
    chance = Fraction(1)
    for scheme, count in reversed([*levels]):
        # Children are independent given the draw: only the law of how many are drawn matters.
        drawn, rate = scheme.tried(count)
        chance = 1 - power(1 - rate * chance, drawn)
        if chance.denominator.bit_length() > _MAX_BITS:
            chance = min(Fraction(1), Fraction(rounded(chance * (1 << _KEPT_BITS)), 1 << _KEPT_BITS))
    return chance


def max_nonempty_probability(hierarchy: Hierarchy, number: int, *, hold: int) -> Fraction:
    """Bound Pr[a drawn unit holds a record] from above: draws held longer are whole, shorter ones never empty."""
    below: list[tuple[Scheme, int]] = []
    for level in hierarchy.levels[number:]:
        if level.redraw_every < hold:
            break
        below.append((level.scheme if level.redraw_every == hold else All(), level.count))
    return nonempty_probability(below)


def contribution_distribution(
    hierarchy: Hierarchy, *, unit: int, clip: int, max_contributions: int
) -> CountDistribution | None:
    """Return an upper law of the contributions drawn of a drawn unit; None if only their maximum is known."""
    # `unit` is the protected level, `clip` the same or one below, and no unit makes more than `max_contributions`.
    below, hold = hierarchy.levels[unit:clip], hierarchy.level(unit).redraw_every
    is_known = all(level.is_equal and (level.scheme.is_simple or level.scheme.is_cut) for level in below)
    in_step = [level.redraw_every == hold for level in below]
    nonempty = max_nonempty_probability(hierarchy, clip, hold=hold) if all(in_step) else Fraction(1)
    is_summed = number_of_poisson_levels(hierarchy, unit, clip) > 1 or any(level.scheme.is_cut for level in below)
    if all(in_step) and is_known and is_summed:
        # A cut leaves a subset of a Poisson draw: no more contributions than that has, and than may stay.
        each = binomial(1, nonempty)
        for level in reversed(below):
            most = level.max_drawn * max(each)
            each = sum_upper(each, *level.scheme.tried(level.count))
            each = capped_distribution(each, most) if level.scheme.is_cut else each
        return each
    # The lowest Poisson level decides how many contributions there are; draws of other schemes take their maximum, and
    # so does everything below a level whose draw changes while the protected unit's is held.
    drawn_with = in_step.index(False) if False in in_step else len(below)
    poisson = next((at for at in reversed(range(drawn_with)) if below[at].scheme.is_independent), None)
    if poisson is not None:
        inside = below[poisson + 1 :]
        # The most that one unit draws, unless sizes let units differ in it.
        most = math.prod(level.max_drawn for level in inside)
        if most == 1 or (most and all(level.is_equal for level in inside)):
            # A drawn unit contributes `most` if any of its contributions is nonempty, or every unit is drawn.
            some = below[poisson].rate * nonzero_probability(binomial(most, nonempty))
            if some > nonempty:
                return binomial(max_contributions, nonempty)
            law = binomial(max_contributions // most, some)
            return {most * number: chance for number, chance in law.items()}
    return binomial(max_contributions, nonempty) if nonempty < 1 else None


def capped_distribution(law: CountDistribution, cap: int) -> CountDistribution:
    """Return the distribution of min(count, cap)."""
    capped: CountDistribution = {}
    for count, chance in law.items():
        capped[min(count, cap)] = capped.get(min(count, cap), Fraction(0)) + chance
    return capped


def number_of_poisson_levels(hierarchy: Hierarchy, unit: int, clip: int) -> int:
    """Return how many levels below `unit`, down to level `clip`, make Poisson draws; cut ones do not count."""
    return sum(level.scheme.is_independent for level in hierarchy.levels[unit:clip])


def sum_upper(each: CountDistribution, number: int, rate: Fraction) -> CountDistribution:
    """Return an upper law of the sum of `number` independent counts that each enter with probability `rate`."""
    if {*each} <= {0, 1}:
        each, rate = {1: Fraction(1)}, rate * each.get(1, Fraction(0))
        if number <= _MAX_TRIALS:
            return binomial(number, rate)
    return independent_sum(each, number, rate=rate)


# The certain contributions of the units of one path and of their siblings: enough to write down an actual data set


@dataclass(frozen=True, kw_only=True)
class CoSampled:
    """The protected unit and the units drawn beside it."""

    path: Path  # the way to the protected unit, with the sizes of the data
    clip: int  # clipping level
    # For each level of the path, the clipped contributions of every other unit in the frame whenever it is drawn (with
    # more it can scale them down); 0 if that is random, or for no other.
    sibling_contributions: tuple[int, ...]
    own_contributions: int  # the same for the protected unit
    child_contributions: tuple[int, ...]  # and for each child of it, if they differ and a fixed number is drawn
    # For each level down to the clipping level, (level, fewest units under one parent anywhere); () unless all draws of
    # the hierarchy are of a certain size, Poisson draws, cut ones of equal frames, or of everything.
    frames: tuple[tuple[Level, int], ...]
    levels_below: tuple[tuple[Level, int], ...]  # the same for each level from below the unit down to the clipping one
    # For each level from 0 (the whole batch) to the last, the probability that a drawn unit holds a drawn record of
    # those that contribute; units with more records than others let only as many contribute.
    nonempty: tuple[Fraction, ...]
    own_nonempty: Fraction  # that of the protected unit, or of each unit of the clipping level if that is lower
    is_shuffled: bool  # whether a level from below the clipping level down to the protected one is shuffled
    has_passes: bool  # whether any level is shuffled


def co_sampled_with(hierarchy: Hierarchy, path: Path, *, clip: int, members: int = 1) -> CoSampled:
    """Return what a path's unit and its siblings surely contribute, frame sizes, Pr[nonempty] in actual data."""
    # Sizes only known to lie between two ends are at their largest off the path. If the units of the frame differ, each
    # of several members contributes as the smallest one.
    levels, unit = level_rows(hierarchy), len(path.counts)
    schemes = [level.scheme for level in hierarchy.levels]

    # What a drawn unit surely contributes, by level and row: 1 at `clip` and below, 0 if that is random.
    certain = [np.ones_like(each.number) for each in levels]
    for number in range(clip - 1, 0, -1):
        below, scheme, values = levels[number], schemes[number], certain[number]
        smallest: IntArray = np.minimum.reduceat(values, below.first)
        if scheme.is_whole:
            certain[number - 1] = below.sums(values)
        elif scheme.at_most:
            certain[number - 1] = np.where(below.sizes <= scheme.size, below.sums(values), scheme.size * smallest)
        elif scheme.has_stand_in or scheme.can_repeat or (scheme.is_shuffled and scheme.drop_last):
            certain[number - 1] = scheme.size * smallest
        else:  # a draw that can be empty or short
            certain[number - 1] = np.zeros_like(smallest)

    # The row that stands for each unit of the path. Of the last level's units `Rows.unit` is that of their parent.
    rows, sizes = [0] * unit, [max(level.min_count, n) for level, n in zip(hierarchy.levels, path.counts, strict=False)]
    if hierarchy.tree is not None:
        row = place = 0
        for at, index in enumerate(path.place):
            own = np.flatnonzero(levels[at].parent == row)
            if at < hierarchy.depth - 1:
                place = sum(hierarchy.tree.sizes[at][:place]) + index
            row = rows[at] = int(own[levels[at].unit[own] == place][0])
        sizes = [int(level.sizes[level.parent[row]]) for level, row in zip(levels, rows, strict=False)]
    counts = tuple(fewest_in_frame(scheme, size) for scheme, size in zip(schemes, sizes, strict=False))
    actual = tuple(scheme.for_counts(count, count) for scheme, count in zip(schemes, counts, strict=False))

    # Any member of a group can be any unit of the frame.
    own_rows = range(rows[-1], rows[-1] + 1)
    if members > 1:
        parents = levels[unit - 1].parent
        start, stop = np.searchsorted(parents, [parents[rows[-1]], parents[rows[-1]] + 1]).tolist()
        own_rows = range(start, stop)

    fewest = [fewest_in_frame(scheme, int(level.sizes.min())) for scheme, level in zip(schemes, levels, strict=True)]
    # Rows under one range of parents follow each other, so that two ends say where the range goes on, level by level.
    start, stop = own_rows.start, own_rows.stop
    fewest_below = []
    for below in levels[unit:]:
        fewest_below.append(int(below.sizes[start:stop].min()))
        ends = np.append(below.first, below.number.size)
        start, stop = int(ends[start]), int(ends[stop])

    # Children that differ matter only where a fixed number of them is drawn.
    children: tuple[int, ...] = ()
    if unit < clip and len(own_rows) == 1 and (drawn := schemes[unit]).has_stand_in:
        inside = levels[unit].parent == rows[-1]
        values = np.repeat(certain[unit][inside], levels[unit].number[inside])
        if drawn.size <= values.size and 0 < values.min() < values.max():
            children = tuple(values.tolist())

    siblings = []
    for level, values, row in zip(levels[:unit], certain, rows, strict=False):
        inside = level.parent == level.parent[row]
        inside[row] = level.number[row] > 1  # its own row may stand for others
        siblings.append(int(values[inside].min(initial=np.iinfo(np.int64).max)) if inside.any() else 0)

    is_simple = all(
        (x.scheme.is_simple and not x.scheme.at_most) or x.scheme.can_repeat or (x.scheme.is_cut and x.is_equal)
        for x in hierarchy.levels
    )
    last = max(unit, clip)
    return CoSampled(
        path=replace(path, counts=counts, max_counts=(), schemes=actual),
        clip=clip,
        sibling_contributions=tuple(siblings),
        own_contributions=int(certain[unit - 1][own_rows].min()),
        child_contributions=children,
        frames=tuple(zip(hierarchy.levels[:clip], fewest, strict=False)) if is_simple else (),
        levels_below=tuple(zip(hierarchy.levels[unit:clip], fewest_below, strict=False)),
        nonempty=tuple(
            nonempty_probability(zip(schemes[number:], fewest[number:], strict=True))
            for number in range(len(levels) + 1)
        ),
        own_nonempty=nonempty_probability(
            zip(schemes[last:], fewest_below[last - unit :], strict=True), is_rounded_up=False
        ),
        is_shuffled=any(scheme.is_shuffled for scheme in schemes[clip:unit]),
        has_passes=any(scheme.is_shuffled for scheme in schemes),
    )


# The paths to a protected unit that can be the costliest: those that no other path exceeds in every respect
#
# The one-step bound grows with each rate, shift and distance, so a path that is nowhere above another one costs no more
# in any phase. For the same reason very many paths may be merged into fewer that are above them.


MAX_PATHS = 128  # paths composed one by one; beyond, merged ones stand for neighbours, which is looser
MAX_PATHS_OF_ALL_PHASES = 3200  # paths times phases: with more phases fewer paths are composed one by one
_IRRELEVANT = 2**62  # feature value where a feature has no influence: no smaller than any other value


def worst_paths(draws: Sequence[tuple[Hierarchy, int]], *, unit: int) -> tuple[tuple[Path, ...], ...]:
    """Return tuples of paths, one path a phase, of which some tuple costs at least as much as any unit of the data.

    They are in the order of the data, equal paths once. Beyond MAX_PATHS, or fewer of many phases, neighbours in size
    are merged; the cost of a merged path is an upper bound on theirs. `mates` are the most of any path that a path
    stands for, so that bounds which count them are covered too.
    """
    table, most = path_table(draws, unit=unit), max(min(MAX_PATHS, MAX_PATHS_OF_ALL_PHASES // len(draws)), 1)
    kept = _maximal_rows(_features(table), limit=most)
    if len(kept) > most:
        table = _merge_neighbours(table, most)
        kept = _maximal_rows(_features(table), limit=most)
    # Each kept row has the most mates of all rows that it stands for: the order in which rows are left out knows the
    # contributions under each ancestor, not how they are shared out between the levels.
    raised = [mates.copy() for mates in table.mates]
    for mates, before in zip(raised, table.mates, strict=True):
        for row, members in kept.items():
            mates[row] = before[members].max(axis=0)
    table = replace(table, mates=tuple(raised))
    return tuple(table.paths(row) for row in sorted(kept, key=table.rows.__getitem__))


def path_above_all(ways: Sequence[tuple[Path, ...]]) -> tuple[Path, ...]:
    """Return a path, one `Path` a phase without a place, that costs at least as much as each of several.

    It has the fewest units and the most of everything else.
    """
    above = []
    for paths in zip(*ways, strict=True):
        if len(paths) == 1:
            above.append(paths[0])
            continue
        # By level the first scheme that is not `all`, and the fewest units, in whole batches if they differ. A fixed
        # draw that takes all of the smallest frame stays one: in a larger frame a stand-in exists. Its frame is as
        # large as the draw, so that it holds every unit for certain, as in the smaller frames that it exhausts.
        columns = zip(*(path.schemes for path in paths), strict=True)
        schemes = tuple(next((scheme for scheme in column if scheme != All()), All()) for column in columns)
        counts = []
        for scheme, column in zip(schemes, zip(*(path.counts for path in paths), strict=True), strict=True):
            fewest = column[0] if len({*column}) == 1 else scheme.drawn_in_a_pass(min(column))
            counts.append(max(fewest, scheme.size) if scheme.has_stand_in else fewest)
        own = max(path.contributions[-1] for path in paths)
        others = ([x - path.contributions[-1] for x in path.contributions] for path in paths)
        above.append(
            Path(
                place=(),
                counts=tuple(counts),
                schemes=schemes,
                contributions=tuple(own + max(column) for column in zip(*others, strict=True)),
                siblings=tuple(max(column) for column in zip(*(path.siblings for path in paths), strict=True)),
                mates=tuple(max(column) for column in zip(*(path.mates for path in paths), strict=True)),
                max_counts=tuple(map(max, counts, *(path.max_counts for path in paths))),
            )
        )
    return tuple(above)


def _features(table: PathTable) -> IntArray:
    """Return all quantities of a path with which its cost grows as columns, shape (paths, features)."""
    features: list[IntArray] = []
    for phase, hierarchy in enumerate(table.hierarchies):
        contributions, last = table.contributions[phase], table.unit - 1
        features.append(contributions[:, -1])
        if hierarchy.episodes is not None:  # the smaller a class, the likelier is each of its records
            features.extend(-table.counts.T)
            continue
        for at, level in enumerate(hierarchy.levels[: table.unit]):
            scheme, counts, siblings = level.scheme, table.counts[:, at], table.siblings[phase][:, at]
            # Whether the level's draw can miss a unit: a capped draw always can.
            if is_sized := scheme.has_stand_in or scheme.can_repeat or scheme.is_shuffled:
                # Of rows that stand for several frames some may be larger than the draw, and have a stand-in.
                largest = counts if scheme.is_shuffled else table.max_counts[:, at]
                is_sampled = largest > (1 if scheme.can_repeat else scheme.size)
            else:
                is_sampled = np.full(counts.shape, scheme.is_cut or level.rate < 1)
            # Numbers of units with which cost grows: negated, and unnegated if more may cost more; none for Poisson.
            # And the most that another unit contributes in the place of a missed one.
            stand_in = np.zeros(counts.shape, dtype=siblings.dtype)
            if scheme.is_cut and scheme.limit:  # neither more units nor fewer always cost less
                features += [-counts, table.max_counts[:, at]]
                stand_in = np.where(table.max_counts[:, at] > scheme.limit, siblings, 0)
            elif is_sized:
                features.append(np.where(is_sampled, -counts, 0))
                if scheme.drop_last:  # fewer units may be left out more often
                    features.append(np.where(is_sampled, counts, _IRRELEVANT))
                stand_in = np.where(is_sampled, siblings, 0)
            if at < last:
                # Of an ancestor that draws can miss: its contributions, those without the unit, and its stand-in's.
                all_of_it = contributions[:, at]
                own_and_others = (all_of_it, all_of_it - contributions[:, -1], stand_in)
                features.extend(np.where(is_sampled, x, _IRRELEVANT) for x in own_and_others)
            else:
                features.append(stand_in)
    return np.stack(features, axis=1)


def _maximal_rows(rows: IntArray, *, limit: int) -> dict[int, NDArray[np.intp]]:
    """Return {maximal row: rows at or below it, itself included}, each row once; at most `limit` + 1 entries."""
    # The row with the largest sum of scaled features is above no other row of its rank, so it is maximal among those
    # left; then all rows that it dominates are dropped. That takes (number of maximal rows) passes, not rows squared.
    columns = [column for column in rows.T if column.min() < column.max()]
    weight = sum((column / np.abs(column).max() for column in columns), start=np.zeros(len(rows)))
    kept: dict[int, NDArray[np.intp]] = {}
    left: NDArray[np.intp] = np.arange(len(rows))
    while left.size and len(kept) <= limit:
        best = int(np.argmax(weight))
        above = np.zeros(left.size, dtype=np.bool_)
        for column in columns:
            above |= column > column[best]
        kept[int(left[best])] = left[~above]
        left, weight, columns = left[above], weight[above], [column[above] for column in columns]
    return kept


def _merge_neighbours(table: PathTable, most: int) -> PathTable:
    """Return a table of at most so many rows, each of which costs at least as much as the neighbours it replaces."""
    levels = [
        (at, level.scheme) for hierarchy in table.hierarchies for at, level in enumerate(hierarchy.levels[: table.unit])
    ]
    # Sorted by full draws, units under capped draws, and the unit's contributions: neighbours are then alike, so that a
    # row that stands for several is hardly costlier than the costliest.
    full = [table.counts[:, at] <= scheme.size for at, scheme in levels if scheme.has_stand_in]
    capped = {at: table.counts[:, at] for at, scheme in levels if scheme.is_cut}
    own = np.stack([contributions[:, -1] for contributions in table.contributions], axis=1)
    order = np.lexsort((*own.T, *capped.values(), *full))
    # The first rows of blocks of equal size.
    starts = np.flatnonzero(np.diff(np.arange(len(order)) * most // len(order), prepend=-1))

    def highest(values: IntArray) -> IntArray:
        piecewise: IntArray = np.maximum.reduceat(values[order], starts)
        return piecewise

    # What costs most: few units in a frame, many contributions, siblings and mates.
    return replace(
        table,
        rows=-highest(-table.rows),
        counts=-highest(-table.counts),
        max_counts=highest(table.max_counts),
        contributions=tuple(highest(c[:, -1:]) + highest(c - c[:, -1:]) for c in table.contributions),
        siblings=tuple(highest(siblings) for siblings in table.siblings),
        mates=tuple(highest(mates) for mates in table.mates),
        is_merged=True,
    )
