"""Units that are sampled together with the protected unit: probabilities and amounts of their contributions.

Only draws that are made together with that of the protected unit are random here. A draw below it that changes while
the unit's draw is held will hold something in one step or another, so a unit above such a draw is never taken to be
empty; a draw that is held for longer is taken to be of all there is.

Source: docs/theory.md, Theorem 6.6.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpcalc.numerics import IntArray
from dpcalc.records import dataclass
from dpcalc.sampling.counts import (
    CountDistribution,
    binomial,
    nonzero_probability,
    power,
)
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.paths import Path, fewest_in_frame, level_rows
from dpcalc.sampling.schemes import All, Scheme
from dpcalc.sampling.sums import independent_sum

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


def random_contributions(co_sampled: CoSampled, number: int, *, bits: int) -> CountDistribution:
    """Return a law, which some data attain, of the contributions of an off-path unit; {0: 1} in doubt."""
    # Of a frame as many units contribute as the smallest one of that level has; the same ones in every draw.
    if not co_sampled.frames:
        return {0: Fraction(1)}
    law = {1: co_sampled.nonempty[co_sampled.clip], 0: 1 - co_sampled.nonempty[co_sampled.clip]}
    for level, fewest in reversed(co_sampled.frames[number:]):
        law = level.scheme.sum_of_drawn({value: chance for value, chance in law.items() if chance}, fewest, bits)
    return law
