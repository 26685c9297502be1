"""Units that are sampled together with the protected unit: probabilities and amounts of their contributions.

Only draws that are made together with that of the protected unit are random here. A draw below it that changes while
the unit's draw is held will hold something in one step or another, so a unit above such a draw is never taken to be
empty; a draw that is held for longer is taken to be of all there is.

Source: docs/theory.md, Theorem 6.6.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from dpcalc.arrays import IntArray
from dpcalc.records import dataclass
from dpcalc.sampling.counts import (
    CountDistribution,
    binomial,
    binomial_lower,
    convolve_power,
    nonzero_probability,
    power,
)
from dpcalc.sampling.hierarchy import Hierarchy, Level, scheme_for_count
from dpcalc.sampling.paths import Path, Rows, fewest_in_frame, level_rows
from dpcalc.sampling.schemes import All, CappedPoisson, Fixed, Poisson, Scheme, Shuffle, WithReplacement
from dpcalc.sampling.sums import independent_sum

_MAX_BITS = 1024  # of a probability's denominator that is kept exact; longer ones make distributions of counts slow
_MAX_TRIALS = 512  # of a binomial distribution in exact fractions; more take long, and are no better as an upper bound
_KEPT_BITS = 256  # of one that is rounded, by less than 1e-77


def nonempty_probability(levels: Iterable[tuple[Scheme, int]], *, is_rounded_up: bool = True) -> Fraction:
    """Return Pr[a drawn unit holds a drawn record]; an upper bound for passes, caps and long fractions.

    Args:
        levels: (scheme, units under one parent) of the levels below the unit, outermost first.
        is_rounded_up: False rounds long fractions down; a bound by passes or caps stays an upper one. No levels give 1.
    """
    rounded = math.ceil if is_rounded_up else math.floor
    chance = Fraction(1)
    for scheme, count in reversed([*levels]):
        chance = _round_long_fraction(1 - _all_empty_probability(scheme, count, chance), rounded)
    return chance


def _all_empty_probability(scheme: Scheme, count: int, nonempty: Fraction) -> Fraction:
    """Return a lower bound on Pr[all drawn units are empty], each one nonempty with `nonempty`; caps are ignored."""
    # Children are independent given the draw, so that only the distribution of how many are drawn matters. No scheme
    # takes more than all, which are the least likely to be empty: for any other scheme than these a lower bound.
    drawn, rate = count, Fraction(1)
    match scheme:
        case Poisson(probability=probability) | CappedPoisson(probability=probability):
            rate = probability
        case Fixed():
            drawn = scheme.max_drawn(count)
        case WithReplacement(size=size) | Shuffle(size=size):
            drawn = size
    return power(1 - rate * nonempty, drawn)


def _round_long_fraction(chance: Fraction, rounded: Callable[[Fraction], int]) -> Fraction:
    """Return the probability, rounded to 256 bits by `rounded` (at most 1) if its denominator has over 1024 bits."""
    if chance.denominator.bit_length() <= _MAX_BITS:
        return chance
    return min(Fraction(1), Fraction(rounded(chance * (1 << _KEPT_BITS)), 1 << _KEPT_BITS))


def max_nonempty_probability(hierarchy: Hierarchy, number: int, *, hold: int) -> Fraction:
    """Return an upper bound on Pr[a drawn unit holds a record]: draws held longer are whole, shorter ones never empty.

    Args:
        hierarchy: levels and schemes.
        number: of the level, 0 to depth; 0 is the whole batch.
        hold: steps for which the protected unit's draw is held.
    """
    below: list[tuple[Scheme, int]] = []
    for level in hierarchy.levels[number:]:
        if level.redraw_every < hold:
            break
        below.append((level.scheme if level.redraw_every == hold else All(), level.count))
    return nonempty_probability(below)


def contribution_distribution(
    hierarchy: Hierarchy, *, unit: int, clip: int, max_contributions: int
) -> CountDistribution | None:
    """Return an upper law of the contributions that a step draws of a drawn unit; None if only their maximum is known.

    Args:
        hierarchy: levels and schemes.
        unit: level of the unit, which is the protected one, from 1.
        clip: clipping level, `unit` or below.
        max_contributions: largest number of contributions of the unit.
    """
    if _draws_are_exact(hierarchy, unit, clip) and number_of_poisson_levels(hierarchy, unit, clip) > 1:
        return _compound_contributions(hierarchy, unit, clip)
    return _contributions_by_one_level(hierarchy, unit, clip, max_contributions)


def _contributions_by_one_level(
    hierarchy: Hierarchy, unit: int, clip: int, max_contributions: int
) -> CountDistribution | None:
    """Return an upper law by one Poisson or capped level, else by empty draws; None if neither makes it random."""
    # The lowest Poisson level decides how many contributions there are; draws of other schemes take their maximum, and
    # so does everything below a level whose draw changes while the protected unit's is held.
    hold, last = hierarchy.level(unit).redraw_every, _last_drawn_with(hierarchy, unit, clip)
    nonempty = max_nonempty_probability(hierarchy, clip, hold=hold) if last == clip else Fraction(1)
    scheme, count = hierarchy.level(clip).scheme, hierarchy.level(clip).count
    if unit + 1 == last == clip and nonempty == 1 and isinstance(scheme, CappedPoisson):
        return capped_distribution(binomial(count, scheme.probability), scheme.max_batch_size)
    poisson = _lowest_poisson_level(hierarchy, unit, last)
    each = _contributions_of_each(hierarchy.levels[poisson:clip]) if poisson else 0
    if each:
        return _poisson_contributions(max_contributions, each, rate=hierarchy.level(poisson).rate, nonempty=nonempty)
    return binomial(max_contributions, nonempty) if nonempty < 1 else None


def _contributions_of_each(below: Sequence[Level]) -> int:
    """Return the most that one unit draws through the levels below it; 0 if unequal sizes let units differ in it."""
    each = math.prod(level.max_drawn for level in below)
    return each if each == 1 or all(level.is_equal for level in below) else 0


def _lowest_poisson_level(hierarchy: Hierarchy, unit: int, last: int) -> int:
    """Return the number of the lowest level below `unit`, down to `last`, with an uncut Poisson draw; 0 if none has."""
    drawn = (at for at in range(last, unit, -1) if isinstance(hierarchy.level(at).scheme, Poisson))
    return next(drawn, 0)


def _last_drawn_with(hierarchy: Hierarchy, unit: int, clip: int) -> int:
    """Return the last level from `unit` to `clip` before one with another redraw period than `unit`, or `clip`."""
    hold = hierarchy.level(unit).redraw_every
    return next((at for at in range(unit, clip) if hierarchy.levels[at].redraw_every != hold), clip)


def _poisson_contributions(largest: int, each: int, *, rate: Fraction, nonempty: Fraction) -> CountDistribution:
    """Return the upper law of smaller mean: drawn units hold `each` contributions or none, or all units are drawn."""
    # Either a drawn unit contributes `each` if any of its contributions is nonempty, or every unit is drawn.
    some = nonzero_probability(binomial(each, nonempty))
    if rate * some > nonempty:
        return binomial(largest, nonempty)
    return {each * number: chance for number, chance in binomial(largest // each, rate * some).items()}


def capped_distribution(law: CountDistribution, cap: int) -> CountDistribution:
    """Return the distribution of min(count, cap).

    Args:
        law: distribution of the count.
        cap: >= 0.
    """
    capped: CountDistribution = {}
    for count, chance in law.items():
        capped[min(count, cap)] = capped.get(min(count, cap), Fraction(0)) + chance
    return capped


def number_of_poisson_levels(hierarchy: Hierarchy, unit: int, clip: int) -> int:
    """Return how many levels below `unit`, down to level `clip`, make Poisson draws; cut ones do not count.

    Args:
        hierarchy: levels and schemes.
        unit: level, from 0.
        clip: clipping level, `unit` or below.
    """
    return sum(isinstance(level.scheme, Poisson) for level in hierarchy.levels[unit:clip])


def _draws_are_exact(hierarchy: Hierarchy, unit: int, clip: int) -> bool:
    """Return True if levels below `unit` to `clip` have its period, equal sizes and fixed, Poisson or `all` draws."""
    hold = hierarchy.level(unit).redraw_every
    return all(
        level.is_equal and level.redraw_every == hold and isinstance(level.scheme, Fixed | Poisson | All)
        for level in hierarchy.levels[unit:clip]
    )


def _compound_contributions(hierarchy: Hierarchy, unit: int, clip: int) -> CountDistribution:
    """Return an upper law of a unit's contributions, summed level by level; `_draws_are_exact` must hold."""
    each = binomial(1, max_nonempty_probability(hierarchy, clip, hold=hierarchy.level(unit).redraw_every))
    for level in reversed(hierarchy.levels[unit:clip]):
        each = drawn_sum(level, level.count, each)
    return each


def drawn_sum(level: Level, count: int, each: CountDistribution) -> CountDistribution:
    """Return an upper law of the contributions of a Fixed, Poisson or All draw from `count` units, each of law `each`.

    Args:
        level: whose scheme is `Fixed`, `Poisson` or `All`.
        count: units in the frame.
        each: distribution of the contributions of a drawn unit.
    """
    if isinstance(level.scheme, Poisson):
        return _sum_upper(each, count, level.scheme.probability)
    return _sum_upper(each, level.scheme.max_drawn(count), Fraction(1))


def mates_sum(level: Level, count: int, each: CountDistribution) -> CountDistribution:
    """Return an upper law of the other units' contributions to a Fixed, Poisson or All draw that holds a given unit.

    Args:
        level: whose scheme is `Fixed`, `Poisson` or `All`.
        count: units in the frame, the certain one included.
        each: distribution of the contributions of a drawn unit.
    """
    # A Poisson draw takes each of the others with its rate; a fixed one has so many places, one of them taken.
    if isinstance(level.scheme, Poisson):
        return _sum_upper(each, count - 1, level.scheme.probability)
    return _sum_upper(each, level.scheme.max_drawn(count) - 1, Fraction(1))


def _sum_upper(each: CountDistribution, number: int, rate: Fraction) -> CountDistribution:
    """Return an upper law of the sum of `number` independent counts that each enter with probability `rate`."""
    if {*each} <= {0, 1}:
        each, rate = {1: Fraction(1)}, rate * each.get(1, Fraction(0))
        if number <= _MAX_TRIALS:
            return binomial(number, rate)
    return independent_sum(each, number, rate=rate)


# The certain contributions of the units of one path and of their siblings: enough to write down an actual data set


@dataclass(frozen=True, kw_only=True)
class CoSampled:
    """The protected unit and the units drawn beside it.

    Attributes:
        path: the way to the protected unit, with the sizes of the data.
        clip: clipping level.
        sibling_contributions: for each level of the path, the number of clipped contributions of every other unit in
            the frame whenever it is drawn (with more it can scale them down); 0 if that is random, or for no other.
        own_contributions: the same for the protected unit.
        child_contributions: the same for each child of the protected unit, if they differ and a fixed number is drawn;
            otherwise ().
        frames: for each level down to the clipping level, (level, fewest units under one parent anywhere); () unless
            all draws of the hierarchy are of a certain size, Poisson draws, or of everything.
        levels_below: for each level below the protected unit down to the clipping level, (level, fewest units under one
            parent).
        nonempty: for each level from 0 (the whole batch) to the last, the probability that a drawn unit holds a drawn
            record of those that contribute; units with more records than others let only as many contribute.
        own_nonempty: the same for the protected unit, or for each unit of the clipping level if that is lower.
        is_shuffled: True if a level from below the clipping level down to the protected one is shuffled.
    """

    path: Path
    clip: int
    sibling_contributions: tuple[int, ...]
    own_contributions: int
    child_contributions: tuple[int, ...]
    frames: tuple[tuple[Level, int], ...]
    levels_below: tuple[tuple[Level, int], ...]
    nonempty: tuple[Fraction, ...]
    own_nonempty: Fraction
    is_shuffled: bool


def co_sampled_with(hierarchy: Hierarchy, path: Path, *, clip: int, members: int = 1) -> CoSampled:
    """Return the certain contributions of a path's unit and its siblings, frame sizes and Pr[nonempty] in actual data.

    Args:
        hierarchy: levels and schemes; sizes only known to lie between two ends are at their largest off the path.
        path: one of its paths.
        clip: clipping level.
        members: units protected together. If the units of the frame differ, each contributes as the smallest one.
    """
    levels = level_rows(hierarchy)
    certain = _certain_contributions(levels, hierarchy, clip)
    rows = _rows_of_path(hierarchy, path, levels)
    unit = len(rows)
    own_rows = range(rows[-1], rows[-1] + 1) if members == 1 else _rows_of_frame(levels[unit - 1], rows[-1])
    schemes = [level.scheme for level in hierarchy.levels]
    fewest = [fewest_in_frame(scheme, int(level.sizes.min())) for scheme, level in zip(schemes, levels, strict=True)]
    fewest_below = _fewest_below(levels, unit, own_rows)
    last = max(unit, clip)
    return CoSampled(
        path=_path_of_actual_sizes(hierarchy, path, levels, rows),
        clip=clip,
        sibling_contributions=tuple(
            _min_sibling_value(*step) for step in zip(levels[:unit], certain, rows, strict=False)
        ),
        own_contributions=int(certain[unit - 1][own_rows].min()),
        child_contributions=_unequal_child_values(hierarchy.level(unit + 1), levels[unit], certain[unit], rows[-1])
        if unit < clip and len(own_rows) == 1
        else (),
        frames=tuple(zip(hierarchy.levels[:clip], fewest, strict=False)) if _has_simple_draws(schemes) else (),
        levels_below=tuple(zip(hierarchy.levels[unit:clip], fewest_below, strict=False)),
        nonempty=tuple(
            nonempty_probability(zip(schemes[number:], fewest[number:], strict=True))
            for number in range(len(levels) + 1)
        ),
        own_nonempty=nonempty_probability(
            zip(schemes[last:], fewest_below[last - unit :], strict=True), is_rounded_up=False
        ),
        is_shuffled=any(isinstance(scheme, Shuffle) for scheme in schemes[clip:unit]),
    )


def _rows_of_frame(level: Rows, row: int) -> range:
    """Return the rows that have the same parent as the given one, itself included."""
    start, stop = np.searchsorted(level.parent, [level.parent[row], level.parent[row] + 1]).tolist()
    return range(start, stop)


def _has_simple_draws(schemes: Sequence[Scheme]) -> bool:
    """Return True if no draw is with replacement, in passes, or of fewer units where a frame has fewer."""
    return all(type(scheme) in {Poisson, All} or (type(scheme) is Fixed and not scheme.at_most) for scheme in schemes)


def _certain_contributions(levels: Sequence[Rows], hierarchy: Hierarchy, clip: int) -> list[IntArray]:
    """Return, by level and row, the contributions a drawn unit surely makes: 1 at `clip` and below, 0 if random."""
    certain = [np.ones_like(rows.number) for rows in levels]
    for number in range(clip - 1, 0, -1):
        certain[number - 1] = _certain_draws(levels[number], hierarchy.level(number + 1).scheme, certain[number])
    return certain


def _certain_draws(rows: Rows, scheme: Scheme, values: IntArray) -> IntArray:
    """Return, for each parent, the sum that a draw surely has: of all if whole, else size x smallest value, or 0."""
    smallest: IntArray = np.minimum.reduceat(values, rows.first)
    match scheme:
        case All():
            return rows.sums(values)
        case Fixed(size=size, at_most=True):
            return np.where(rows.sizes <= size, rows.sums(values), size * smallest)
        case Fixed(size=size) | WithReplacement(size=size) | Shuffle(size=size, drop_last=True):
            return size * smallest
        case _:  # a draw that can be empty or short
            return np.zeros_like(smallest)


def _rows_of_path(hierarchy: Hierarchy, path: Path, levels: Sequence[Rows]) -> tuple[int, ...]:
    """Return the row that stands for each unit of the path, outermost first; all 0 without a tree."""
    # Of the last level's units `Rows.unit` is that of their parent, so that there the number is not counted on.
    rows = [0] * len(path.counts)
    if hierarchy.tree is None:
        return tuple(rows)
    row = unit = 0
    for at, index in enumerate(path.place):
        own = np.flatnonzero(levels[at].parent == row)
        if at < hierarchy.depth - 1:
            unit = sum(hierarchy.tree.sizes[at][:unit]) + index
        row = rows[at] = int(own[levels[at].unit[own] == unit][0])
    return tuple(rows)


def _actual_sizes(hierarchy: Hierarchy, path: Path, levels: Sequence[Rows], rows: Sequence[int]) -> list[int]:
    """Return the tree's number of units in each frame of the path; without a tree, max(min_count, the path's count)."""
    if hierarchy.tree is None:
        return [max(level.min_count, count) for level, count in zip(hierarchy.levels, path.counts, strict=False)]
    return [int(level.sizes[level.parent[row]]) for level, row in zip(levels, rows, strict=False)]


def _path_of_actual_sizes(hierarchy: Hierarchy, path: Path, levels: Sequence[Rows], rows: Sequence[int]) -> Path:
    """Return the path with `_actual_sizes` of its frames, the fewest of a group, and the schemes for these sizes."""
    levels_of, sizes = hierarchy.levels[: len(path.counts)], _actual_sizes(hierarchy, path, levels, rows)
    counts = tuple(fewest_in_frame(level.scheme, size) for level, size in zip(levels_of, sizes, strict=True))
    schemes = (scheme_for_count(level.scheme, count) for level, count in zip(levels_of, counts, strict=True))
    return replace(path, counts=counts, max_counts=(), schemes=tuple(schemes))


def _min_sibling_value(level: Rows, values: IntArray, row: int) -> int:
    """Return the least value among a unit's siblings, some of which its own row may stand for; 0 without any."""
    inside = level.parent == level.parent[row]
    inside[row] = level.number[row] > 1
    return int(values[inside].min(initial=np.iinfo(np.int64).max)) if inside.any() else 0


def _unequal_child_values(level: Level, rows: Rows, values: IntArray, row: int) -> tuple[int, ...]:
    """Return the values of a row's children if they differ, none is 0, and they fill a Fixed draw; else ()."""
    inside = rows.parent == row
    of_children = np.repeat(values[inside], rows.number[inside])
    if not isinstance(level.scheme, Fixed) or level.scheme.size > of_children.size:
        return ()
    return tuple(of_children.tolist()) if 0 < of_children.min() < of_children.max() else ()


def _fewest_below(levels: Sequence[Rows], unit: int, rows: range) -> list[int]:
    """Return, for each level below `unit`, the fewest children of any one parent that is in `rows` or below them."""
    # Rows under one range of parents follow each other, so that two ends say where the range goes on, level by level.
    start, stop = rows.start, rows.stop
    fewest = []
    for level in levels[unit:]:
        fewest.append(int(level.sizes[start:stop].min()))
        ends = np.append(level.first, level.number.size)
        start, stop = int(ends[start]), int(ends[stop])
    return fewest


def random_contributions(co_sampled: CoSampled, number: int, *, limit: int) -> CountDistribution:
    """Return a law, which some data attain, of at most `limit` contributions of an off-path unit; {0: 1} in doubt.

    Of a frame as many units contribute as the smallest one of that level has, or fewer; the same ones in every draw.

    Args:
        co_sampled: the protected unit and the units drawn with it.
        number: of the level of the unit, which is not on the path.
        limit: most contributions, >= 0.
    """
    if not co_sampled.frames:
        return {0: Fraction(1)}
    counts = binomial(1, co_sampled.nonempty[co_sampled.clip])
    for level, fewest in reversed(co_sampled.frames[number:]):
        contributing = _contributing_units(level.scheme, fewest, limit // max(1, *counts))
        if not contributing:
            return {0: Fraction(1)}
        rate = level.scheme.probability if isinstance(level.scheme, Poisson) else Fraction(1)
        counts = _sum_lower(counts, contributing, rate)
    return counts


def _contributing_units(scheme: Scheme, count: int, limit: int) -> int:
    """Return how many units of a frame, at most `limit`, can contribute; 0 if a Fixed draw takes more than `limit`."""
    # Which of the units of a larger Fixed draw contribute would be random, too.
    drawn = scheme.max_drawn(count)
    return 0 if isinstance(scheme, Fixed) and limit < drawn else min(drawn, limit)


def _sum_lower(each: CountDistribution, number: int, rate: Fraction) -> CountDistribution:
    """Return a lower law of the sum of those of `number` counts that each enter with `rate`."""
    if max(each) == 1:
        return binomial_lower(number, rate * each[1])
    total: CountDistribution = {}
    for entered, weight in binomial_lower(number, rate).items():
        for value, chance in convolve_power(each, entered).items():
            total[value] = total.get(value, Fraction(0)) + weight * chance
    return total
