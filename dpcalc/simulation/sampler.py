"""Batches drawn as a training loop draws them, unit by unit: one sampler for each scheme, and rounds of many steps.

This checks the computed inclusion probabilities by other means: it draws indices and shares no formula with them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcalc.arrays import IntArray
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import (
    All,
    Allocation,
    BallsInBins,
    CappedPoisson,
    CyclicPoisson,
    Fixed,
    Poisson,
    RandomAllocation,
    Scheme,
    Shuffle,
    WithReplacement,
)

# One draw from each of many frames.


UnitIndices = tuple[IntArray, IntArray]
"""(index of the frame of each drawn unit, index of the unit in its frame), both from 0, shape (drawn units,) each."""

CHUNK = 2_000_000
"""Units handled together, 16 MB an array, of which there are about ten."""
# Frames of at most so many times the draw are put in random order as a whole; from larger ones units are picked.
_DENSE_FACTOR = 64


def draw_units(scheme: Scheme, sizes: IntArray, rng: Generator) -> UnitIndices:
    """Draw units of each frame by a scheme, as (frame, index in it); of a shuffle all, in the order of the pass.

    Args:
        scheme: of all frames; a draw of a fixed size takes all of a smaller frame.
        sizes: units in each frame, shape (frames,).
        rng: random numbers.

    Returns:
        Indices from 0; those in a frame are in the order of the pass for a shuffle, and repeated as often as the unit
        is drawn.
    """
    match scheme:
        case Fixed():
            return _draw_fixed(scheme, sizes, rng)
        case Poisson(probability=rate):
            return _draw_poisson(float(rate), sizes, rng)
        case CappedPoisson(probability=rate):
            return _draw_capped_poisson(float(rate), scheme.max_batch_size, sizes, rng)
        case WithReplacement():
            frames = np.repeat(np.arange(sizes.size), scheme.size)
            return frames, rng.integers(0, sizes[frames])
        case Shuffle():
            frames, units = _all_units(sizes)
            return frames, units[np.lexsort((rng.random(frames.size), frames))]
        case All() | CyclicPoisson() | BallsInBins() | RandomAllocation():
            return _all_units(sizes)


def is_dense(scheme: Fixed, count: int) -> bool:
    """Return True if a frame is so small that a random order of it is cheaper than picking single units.

    Args:
        scheme: a draw of a fixed size.
        count: units in the frame.
    """
    return count <= _DENSE_FACTOR * scheme.size


def index_in_frame(frames: IntArray, sizes: IntArray) -> IntArray:
    """Return the place, from 0, of each row among those of its frame; rows stand frame after frame.

    Args:
        frames: of each row, ascending, shape (sum of sizes,).
        sizes: rows of each frame, shape (frames,).
    """
    return np.arange(frames.size) - (np.cumsum(sizes) - sizes)[frames]


def _draw_fixed(scheme: Fixed, sizes: IntArray, rng: Generator) -> UnitIndices:
    """Draw a fixed number of distinct units from each frame, or all units of a smaller frame, in the fastest way."""
    frames = np.repeat(np.arange(sizes.size), np.minimum(scheme.size, sizes))
    max_size = int(sizes.max(initial=0))
    if is_dense(scheme, max_size):
        return frames, _draw_by_random_keys(scheme.size, sizes, rng)
    # With more units than that most frames would draw some unit twice, and be drawn anew for long.
    if scheme.size**2 <= int(sizes.min(initial=max_size)):
        return frames, _draw_distinct(scheme.size, sizes, rng)
    return frames, _draw_one_by_one(scheme.size, sizes, rng)


def _draw_one_by_one(number: int, sizes: IntArray, rng: Generator) -> IntArray:
    """Return indices of `number` distinct random units of each frame, or of all in a smaller one, frame by frame."""
    picked = [rng.choice(size, min(number, size), replace=False, shuffle=False) for size in sizes.tolist()]
    return np.concatenate([np.zeros(0, dtype=np.int64), *picked])


def _draw_by_random_keys(number: int, sizes: IntArray, rng: Generator) -> IntArray:
    """Return indices of `number` distinct random units of each frame, or of all in a smaller one: the smallest keys."""
    max_size = int(sizes.max(initial=0))
    pieces = [np.zeros(0, dtype=np.int64)]
    rows = max(1, CHUNK // max(max_size, 1))
    for start in range(0, sizes.size, rows):
        chunk = sizes[start : start + rows, None]
        # Every unit has a random key, columns beyond a small frame one that is larger: the smallest keys are drawn.
        keys = np.where(np.arange(max_size) < chunk, rng.random((chunk.size, max_size)), 2.0)
        smallest = np.argpartition(keys, min(number, max_size) - 1, axis=1)[:, :number]
        pieces.append(smallest[smallest < chunk])
    return np.concatenate(pieces)


def _draw_distinct(number: int, sizes: IntArray, rng: Generator) -> IntArray:
    """Return indices of `number` units of each frame, of number^2 or more, drawn anew until all of a frame differ."""
    units = rng.integers(0, sizes[:, None], (sizes.size, number))
    repeated = np.arange(sizes.size)
    # Rows that draw a unit twice, at most half of them, are drawn anew as a whole: so every set stays equally likely.
    while True:
        in_order = np.sort(units[repeated], axis=1)
        repeated = repeated[(in_order[:, 1:] == in_order[:, :-1]).any(axis=1)]
        if not repeated.size:
            return units.ravel()
        units[repeated] = rng.integers(0, sizes[repeated, None], (repeated.size, number))


def _draw_poisson(rate: float, sizes: IntArray, rng: Generator) -> UnitIndices:
    """Draw each unit of each frame independently with probability `rate`, by geometric gaps; none at rate 0."""
    # All frames stand in one line, along which the distances between drawn units are geometric.
    total = int(sizes.sum())
    if not total or not rate:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    pieces, last = [], -1
    while last < total:
        # A tenth more than expected, so that one turn nearly always reaches the end.
        number = int(1.1 * (total - last) * rate) + 20
        positions = last + np.cumsum(np.minimum(rng.geometric(rate, number), total + 1))
        pieces.append(positions)
        last = int(positions[-1])
    line = np.concatenate(pieces)
    line = line[line < total]
    ends = np.cumsum(sizes)
    frames = np.searchsorted(ends, line, side="right")
    return frames, line - (ends - sizes)[frames]


def _draw_capped_poisson(rate: float, max_batch_size: int, sizes: IntArray, rng: Generator) -> UnitIndices:
    """Draw units of each frame as `_draw_poisson` does, and keep `max_batch_size` random ones where there are more."""
    frames, units = _draw_poisson(rate, sizes, rng)
    order = np.lexsort((rng.random(frames.size), frames))  # a random order within each frame, cut at the cap
    kept = order[index_in_frame(frames, np.bincount(frames, minlength=sizes.size)) < max_batch_size]
    return frames[kept], units[kept]


def _all_units(sizes: IntArray) -> UnitIndices:
    """Return every unit of every frame, in order."""
    frames = np.repeat(np.arange(sizes.size), sizes)
    return frames, index_in_frame(frames, sizes)


# Rounds of a nested draw.
#
# The units of a level are numbered from 0, those of one parent in a row. A round is the time after which everything is
# drawn afresh: one step, or the longest redraw period, or one pass of a shuffle. It draws level after level: from each
# drawn unit, as often as it was drawn, some of its children. Many rounds are drawn at once, as rows (step, unit).


_MAX_ROUND_COST = 20_000_000  # units that one round may look at: about a second and a gigabyte
_PICKING_COST = 200.0  # time to pick a few units of a large frame, in units looked at
# Time for a unit that is not looked at; with it, data sets of more units than int64 holds exceed the limit.
_SKIPPING_COST = 1e-9


@dataclass(frozen=True, kw_only=True)
class LevelCount:
    """Totals of one level over all rounds.

    Attributes:
        parents: draws from units of the level above, each counted as often as it was drawn from.
        offered: units under these parents.
        drawn: units that were drawn, repetitions included.
        nominal: units that fixed-size draws, or cut ones on average, take by their definition; 0 for other schemes.
        batches: mean number of units in a step, shape (rounds,).
        min_batch: smallest number of units in one step.
        max_batch: largest number of units in one step.
    """

    parents: int
    offered: int
    drawn: int
    nominal: float
    batches: NDArray[np.float64]
    min_batch: int
    max_batch: int


@dataclass(frozen=True, kw_only=True)
class DrawCounts:
    """Counts of many independent rounds.

    Attributes:
        levels: totals of each level, outermost first.
        members: number of draws of watched units in each step of each round, shape (rounds, steps).
    """

    levels: tuple[LevelCount, ...]
    members: IntArray


@dataclass(frozen=True, kw_only=True)
class WatchedUnits:
    """Units whose draws are counted.

    Attributes:
        level: of the units, from 1.
        units: their numbers, from 0.
    """

    level: int
    units: tuple[int, ...]


def draw_rounds(
    hierarchy: Hierarchy, watched: WatchedUnits, *, rounds: int, rng: Generator, on_progress: Callable[[int], None]
) -> DrawCounts:
    """Draw `rounds` rounds from a synthetic data set of the declared sizes, in chunks, and return their counts.

    Args:
        hierarchy: levels and schemes. Where sizes are only known to lie between two ends the first unit of each level
            holds the fewest children, all others the most.
        watched: units whose draws are counted.
        rounds: their number, >= 1.
        rng: random numbers.
        on_progress: is called with the number of rounds that are done.

    Raises:
        InputError: one round draws too many units.
        UnsupportedError: shuffles whose passes do not end together.
    """
    # Rounds are independent, so that chunks of them bound the memory without changing what is drawn.
    chunk = max(1, min(rounds, int(CHUNK / round_cost(hierarchy))))
    parts = []
    done = 0
    while done < rounds:
        number = min(chunk, rounds - done)
        parts.append(_draw_chunk(hierarchy, watched, number, rng))
        done += number
        on_progress(done)
    return DrawCounts(
        levels=tuple(_merge([part.levels[index] for part in parts]) for index in range(hierarchy.depth)),
        members=np.concatenate([part.members for part in parts]),
    )


def draws_of_step(hierarchy: Hierarchy) -> tuple[int, tuple[Scheme, ...]]:
    """Return (draws in a step, scheme of each level); constructed tasks count as draws of fixed sizes."""
    episodes = hierarchy.episodes
    if episodes is not None:
        return episodes.tasks, (Fixed(size=episodes.ways), Fixed(size=episodes.records))
    return 1, tuple(level.scheme for level in hierarchy.levels)


def steps_per_round(hierarchy: Hierarchy) -> int:
    """Return the steps of a pass, or of the outermost redraw period; UnsupportedError if passes end at different steps.

    Raises:
        UnsupportedError: several shuffles, or one of unequal frames, whose passes do not end together.
    """
    shuffled = [(level, level.scheme) for level in hierarchy.levels if isinstance(level.scheme, Shuffle)]
    if len(shuffled) > 1 or any(not level.is_equal for level, _ in shuffled):
        raise UnsupportedError(
            "simulate: expected at most one shuffle, of frames of one size, got more or unequal ones"
        )
    for level, scheme in shuffled:
        return scheme.steps_of_a_pass(level.count)
    if hierarchy.allocation is not None:
        return hierarchy.allocation.steps_of_a_pass
    return hierarchy.level(1).redraw_every


def draw_allocation(allocation: Allocation, units: int, rng: Generator) -> tuple[IntArray, IntArray]:
    """Draw the steps that each unit chooses in a pass; return rows (unit, step), from 0.

    Args:
        allocation: how units choose their steps.
        units: their number, each choosing on its own.
        rng: random numbers.
    """
    if isinstance(allocation, BallsInBins):
        return np.arange(units), rng.integers(0, allocation.bins, units)
    return _draw_fixed(Fixed(size=allocation.times), np.full(units, allocation.steps), rng)


def children(hierarchy: Hierarchy, level: int, parents: IntArray) -> tuple[IntArray, IntArray]:
    """Return (first child's number, child count) of each parent; where counts are a range parent 0 has the fewest.

    Args:
        hierarchy: levels and sizes.
        level: of the children, from 1.
        parents: numbers of units of the level above, from 0; 0 for the whole data set.
    """
    if hierarchy.tree is not None:
        sizes = np.array(hierarchy.tree.sizes[level - 1], dtype=np.int64)
        return (np.cumsum(sizes) - sizes)[parents], sizes[parents]
    declared = hierarchy.level(level)
    first = np.where(parents > 0, declared.min_count + (parents - 1) * declared.count, 0)
    return first, np.where(parents > 0, declared.count, declared.min_count)


def round_cost(hierarchy: Hierarchy) -> float:
    """Return the expected cost of a round, at least 1, in units looked at by its draws; InputError if it is too high.

    Raises:
        InputError: more units than can be drawn.
        UnsupportedError: shuffles whose passes do not end together.
    """
    # Level by level: the expected number of frames that are drawn from, times what a draw from one of them looks at.
    copies, schemes = draws_of_step(hierarchy)
    total, parents = 0.0, float(copies)
    for level, scheme in enumerate(schemes, start=1):
        count = hierarchy.units(level) / hierarchy.units(level - 1)
        total += parents * (_units_looked_at(scheme, count, hierarchy.level(level).count) + _SKIPPING_COST * count)
        parents *= expected_draws(scheme, count)
    total *= steps_per_round(hierarchy)
    if total > _MAX_ROUND_COST:
        raise InputError(
            f"simulate: expected steps that draw at most {_MAX_ROUND_COST:.0e} units, got about {total:.0e}"
        )
    return max(total, 1.0)


def _units_looked_at(scheme: Scheme, mean_count: float, max_count: int) -> float:
    """Return the expected cost of a draw from a frame: the units drawn, for a fixed draw what its method costs."""
    match scheme:
        case CappedPoisson(probability=rate):
            return mean_count * float(rate)
        case Fixed():
            return mean_count if is_dense(scheme, max_count) else expected_draws(scheme, mean_count) + _PICKING_COST
        case _:
            return expected_draws(scheme, mean_count)


def expected_draws(scheme: Scheme, count: float) -> float:
    """Return the expected number of draws from a frame in a step, repetitions included.

    Args:
        scheme: of the frame.
        count: units in the frame.
    """
    match scheme:
        case Fixed(size=size):
            return min(size, count)
        case WithReplacement(size=size):
            return size
        case Poisson(probability=rate):  # not `rate`, which the simulation checks
            return count * float(rate)
        case CappedPoisson() | BallsInBins() | RandomAllocation():
            return count * float(scheme.rate(round(count)))
        case Shuffle():
            return scheme.drawn_in_a_pass(int(count)) / scheme.steps_of_a_pass(int(count))
        case All() | CyclicPoisson():
            return count


def _merge(parts: Sequence[LevelCount]) -> LevelCount:
    """Return one level's counts over the rounds of all parts together."""
    return LevelCount(
        parents=sum(part.parents for part in parts),
        offered=sum(part.offered for part in parts),
        drawn=sum(part.drawn for part in parts),
        nominal=sum(part.nominal for part in parts),
        batches=np.concatenate([part.batches for part in parts]),
        min_batch=min(part.min_batch for part in parts),
        max_batch=max(part.max_batch for part in parts),
    )


def _draw_chunk(hierarchy: Hierarchy, watched: WatchedUnits, rounds: int, rng: Generator) -> DrawCounts:
    """Draw `rounds` rounds at once, level by level; return each level's totals and the watched draws of each step."""
    length = steps_per_round(hierarchy)
    copies, schemes = draws_of_step(hierarchy)
    steps = np.repeat(np.arange(rounds) * length, copies)
    rows = _Rows(steps, np.zeros(steps.size, dtype=np.int64), length)
    levels = []
    members = np.zeros((rounds, length), dtype=np.int64)
    for level, scheme in enumerate(schemes, start=1):
        rows, sizes = _draw_level(hierarchy, level, rows, rng)
        levels.append(_level_count(scheme, sizes, _units_by_draw(rows, rounds, length)))
        if level == watched.level:
            hits = np.isin(rows.units, watched.units)
            draws = _units_by_draw(_Rows(rows.steps[hits], rows.units[hits], rows.span), rounds, length)
            members = np.repeat(draws, rows.span, axis=1)  # a drawn unit takes part in every step that its draw spans
    return DrawCounts(levels=tuple(levels), members=members)


def _level_count(scheme: Scheme, sizes: IntArray, batches: IntArray) -> LevelCount:
    """Return the totals of one level, from the sizes of its frames and its batch sizes of shape (rounds, draws)."""
    return LevelCount(
        parents=sizes.size,
        offered=int(sizes.sum()),
        drawn=int(batches.sum()),
        nominal=_nominal_draws(scheme, sizes),
        batches=batches.mean(axis=1),
        min_batch=int(batches.min()),
        max_batch=int(batches.max()),
    )


class _Rows(NamedTuple):
    """Draws of units: the first step of each, counted through all rounds, its unit, and the steps that each spans."""

    steps: IntArray
    units: IntArray
    span: int


def _draw_level(hierarchy: Hierarchy, level: int, parents: _Rows, rng: Generator) -> tuple[_Rows, IntArray]:
    """Draw units of a level below each parent, once a redraw period; return (their rows, sizes of the frames)."""
    frames_of, (_, schemes) = _redrawn(hierarchy, level, parents), draws_of_step(hierarchy)
    scheme = schemes[level - 1]
    first, sizes = children(hierarchy, level, frames_of.units)
    frames, indices = draw_units(scheme, sizes, rng)
    rows = _Rows(frames_of.steps[frames], first[frames] + indices, frames_of.span)
    if isinstance(scheme, Allocation):
        return _allocated_rows(rows, scheme, rng), sizes
    if isinstance(scheme, Shuffle):
        return _shuffled_rows(rows, index_in_frame(frames, sizes) // scheme.size, steps_per_round(hierarchy)), sizes
    return rows, sizes


def _redrawn(hierarchy: Hierarchy, level: int, parents: _Rows) -> _Rows:
    """Return a row for each draw from a parent: one a redraw period, one a pass if this or a lower level has passes."""
    _, schemes = draws_of_step(hierarchy)
    is_whole_pass = any(isinstance(inner, Shuffle | Allocation) for inner in schemes[level - 1 :])
    redraws = 1 if is_whole_pass else parents.span // hierarchy.level(level).redraw_every
    span = parents.span // redraws
    steps = (parents.steps[:, None] + np.arange(redraws) * span).ravel()
    return _Rows(steps, np.repeat(parents.units, redraws), span)


def _allocated_rows(passes: _Rows, allocation: Allocation, rng: Generator) -> _Rows:
    """Return a row for each step that the units of whole passes choose at random, from the passes' first steps."""
    chosen, step_in_pass = draw_allocation(allocation, passes.units.size, rng)
    return _Rows(passes.steps[chosen] + step_in_pass, passes.units[chosen], 1)


def _shuffled_rows(passes: _Rows, step_in_pass: IntArray, steps_of_a_pass: int) -> _Rows:
    """Return the rows of whole passes moved to their step in the pass; those after its last step are left out."""
    is_kept = step_in_pass < steps_of_a_pass  # drop_last leaves out what is beyond the last whole batch
    return _Rows((passes.steps + step_in_pass)[is_kept], passes.units[is_kept], 1)


def _nominal_draws(scheme: Scheme, sizes: IntArray) -> float:
    """Return the expected draws from all frames together if the scheme is fixed or capped; 0 for other schemes."""
    if not isinstance(scheme, Fixed | CappedPoisson):
        return 0.0
    values, numbers = np.unique(sizes, return_counts=True)
    return float(numbers @ np.array([expected_draws(scheme, size) for size in values.tolist()]))


def _units_by_draw(rows: _Rows, rounds: int, length: int) -> IntArray:
    """Return the number of rows in each draw of rounds of `length` steps, shape (rounds, length // span)."""
    draws = length // rows.span
    return np.bincount(rows.steps // rows.span, minlength=rounds * draws).reshape(rounds, draws)
