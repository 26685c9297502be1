"""Batches drawn as a training loop draws them, unit by unit: one sampler for each scheme, and rounds of many steps.

This checks the computed inclusion probabilities by other means: it draws indices and shares no formula with them.
"""

from collections.abc import Callable

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
    """Draw units of each frame by a scheme, as (frame, index in it); of a shuffle all, in the order of the pass."""
    match scheme:
        case Fixed():
            return _draw_fixed(scheme, sizes, rng)
        case Poisson(probability=rate):
            return _draw_poisson(float(rate), sizes, rng)
        case CappedPoisson(probability=rate):
            frames, units = _draw_poisson(float(rate), sizes, rng)
            order = np.lexsort((rng.random(frames.size), frames))  # a random order within each frame, cut at the cap
            drawn = np.bincount(frames, minlength=sizes.size)
            kept = order[index_in_frame(frames, drawn) < scheme.max_batch_size]
            return frames[kept], units[kept]
        case WithReplacement():
            frames = np.repeat(np.arange(sizes.size), scheme.size)
            return frames, rng.integers(0, sizes[frames])
        case Shuffle():
            frames, units = _all_units(sizes)
            return frames, units[np.lexsort((rng.random(frames.size), frames))]
        case All() | CyclicPoisson() | BallsInBins() | RandomAllocation():
            return _all_units(sizes)


def is_dense(scheme: Fixed, count: int) -> bool:
    """Return True if a frame is so small that a random order of it is cheaper than picking single units."""
    return count <= _DENSE_FACTOR * scheme.size


def index_in_frame(frames: IntArray, sizes: IntArray) -> IntArray:
    """Return the place, from 0, of each row among those of its frame; rows stand frame after frame."""
    return np.arange(frames.size) - (np.cumsum(sizes) - sizes)[frames]


def _draw_fixed(scheme: Fixed, sizes: IntArray, rng: Generator) -> UnitIndices:
    """Draw a fixed number of distinct units from each frame, or all units of a smaller frame, in the fastest way."""
    number, max_size = scheme.size, int(sizes.max(initial=0))
    frames = np.repeat(np.arange(sizes.size), np.minimum(number, sizes))
    if is_dense(scheme, max_size):
        # Every unit has a random key, columns beyond a small frame one that is larger: the smallest keys are drawn.
        pieces = [np.zeros(0, dtype=np.int64)]
        rows = max(1, CHUNK // max(max_size, 1))
        for start in range(0, sizes.size, rows):
            chunk = sizes[start : start + rows, None]
            keys = np.where(np.arange(max_size) < chunk, rng.random((chunk.size, max_size)), 2.0)
            smallest = np.argpartition(keys, min(number, max_size) - 1, axis=1)[:, :number]
            pieces.append(smallest[smallest < chunk])
        return frames, np.concatenate(pieces)
    if number**2 > int(sizes.min(initial=max_size)):  # most frames would draw some unit twice, again and again
        picked = [rng.choice(size, min(number, size), replace=False, shuffle=False) for size in sizes.tolist()]
        return frames, np.concatenate([np.zeros(0, dtype=np.int64), *picked])
    units = rng.integers(0, sizes[:, None], (sizes.size, number))
    repeated = np.arange(sizes.size)
    # Rows that draw a unit twice, at most half of them, are drawn anew as a whole: so every set stays equally likely.
    while True:
        in_order = np.sort(units[repeated], axis=1)
        repeated = repeated[(in_order[:, 1:] == in_order[:, :-1]).any(axis=1)]
        if not repeated.size:
            return frames, units.ravel()
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
    """Totals of one level over all rounds."""

    parents: int  # draws from units of the level above, each counted as often as it was drawn from
    offered: int  # units under these parents
    drawn: int  # units that were drawn, repetitions included
    # units that fixed-size draws, or cut ones on average, take by their definition; 0 for other schemes
    nominal: float
    batches: NDArray[np.float64]  # mean number of units in a step, shape (rounds,)
    min_batch: int  # smallest number of units in one step
    max_batch: int  # largest number of units in one step


@dataclass(frozen=True, kw_only=True)
class DrawCounts:
    """Counts of many independent rounds."""

    levels: tuple[LevelCount, ...]  # totals of each level, outermost first
    members: IntArray  # number of draws of watched units in each step of each round, shape (rounds, steps)


@dataclass(frozen=True, kw_only=True)
class WatchedUnits:
    """Units whose draws are counted."""

    level: int  # of the units, from 1
    units: tuple[int, ...]  # their numbers, from 0


def draw_rounds(
    hierarchy: Hierarchy, watched: WatchedUnits, *, rounds: int, rng: Generator, on_progress: Callable[[int], None]
) -> DrawCounts:
    """Draw rounds from a synthetic data set of the declared sizes, and return their counts; InputError if too large.

    Where sizes are only known to lie between two ends the first unit of each level holds the fewest children, all
    others the most. `on_progress` is called with the number of rounds that are done.
    """
    # Rounds are independent, so that chunks of them bound the memory without changing what is drawn.
    chunk = max(1, min(rounds, int(CHUNK / round_cost(hierarchy))))
    parts, members, done = [], [], 0
    while done < rounds:
        number = min(chunk, rounds - done)
        levels, of_chunk = _draw_chunk(hierarchy, watched, number, rng)
        parts.append(levels)
        members.append(of_chunk)
        done += number
        on_progress(done)
    levels = [
        LevelCount(
            parents=sum(part.parents for part in of_level),
            offered=sum(part.offered for part in of_level),
            drawn=sum(part.drawn for part in of_level),
            nominal=sum(part.nominal for part in of_level),
            batches=np.concatenate([part.batches for part in of_level]),
            min_batch=min(part.min_batch for part in of_level),
            max_batch=max(part.max_batch for part in of_level),
        )
        for of_level in zip(*parts, strict=True)
    ]
    return DrawCounts(levels=tuple(levels), members=np.concatenate(members))


def draws_of_step(hierarchy: Hierarchy) -> tuple[int, tuple[Scheme, ...]]:
    """Return (draws in a step, scheme of each level); constructed tasks count as draws of fixed sizes."""
    episodes = hierarchy.episodes
    if episodes is not None:
        return episodes.tasks, (Fixed(size=episodes.ways), Fixed(size=episodes.records))
    return 1, tuple(level.scheme for level in hierarchy.levels)


def steps_per_round(hierarchy: Hierarchy) -> int:
    """Return the steps of a pass or of the outermost redraw period; UnsupportedError if passes do not end together."""
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


def children(hierarchy: Hierarchy, level: int, parents: IntArray) -> tuple[IntArray, IntArray]:
    """Return (first child's number, child count) of each parent; where counts are a range parent 0 has the fewest."""
    if hierarchy.tree is not None:
        sizes = np.array(hierarchy.tree.sizes[level - 1], dtype=np.int64)
        return (np.cumsum(sizes) - sizes)[parents], sizes[parents]
    declared = hierarchy.level(level)
    first = np.where(parents > 0, declared.min_count + (parents - 1) * declared.count, 0)
    return first, np.where(parents > 0, declared.count, declared.min_count)


def round_cost(hierarchy: Hierarchy) -> float:
    """Return the expected cost of a round, at least 1, in units that its draws look at; InputError if too high."""
    # Level by level: the expected number of frames that are drawn from, times what a draw from one of them looks at:
    # the units drawn, for a fixed draw what its method costs.
    copies, schemes = draws_of_step(hierarchy)
    total, parents = 0.0, float(copies)
    for level, scheme in enumerate(schemes, start=1):
        count = hierarchy.units(level) / hierarchy.units(level - 1)
        cost = drawn = expected_draws(scheme, count)
        match scheme:
            case CappedPoisson(probability=rate):
                cost = count * float(rate)
            case Fixed():
                cost = count if is_dense(scheme, hierarchy.level(level).count) else drawn + _PICKING_COST
        total += parents * (cost + _SKIPPING_COST * count)
        parents *= drawn
    total *= steps_per_round(hierarchy)
    if total > _MAX_ROUND_COST:
        raise InputError(
            f"simulate: expected steps that draw at most {_MAX_ROUND_COST:.0e} units, got about {total:.0e}"
        )
    return max(total, 1.0)


def expected_draws(scheme: Scheme, count: float) -> float:
    """Return the expected number of draws from a frame in a step, repetitions included."""
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


def _draw_chunk(
    hierarchy: Hierarchy, watched: WatchedUnits, rounds: int, rng: Generator
) -> tuple[list[LevelCount], IntArray]:
    """Draw rounds at once, level by level; return each level's totals and the watched draws, shape (rounds, steps)."""
    length = steps_per_round(hierarchy)
    copies, schemes = draws_of_step(hierarchy)
    # A row for each draw of a unit: the first step of the draw, counted through all rounds, and the unit; `span` is the
    # number of steps for which a draw is held.
    steps = np.repeat(np.arange(rounds) * length, copies)
    units, span = np.zeros(steps.size, dtype=np.int64), length

    def by_draw(of_steps: IntArray) -> IntArray:
        draws = length // span
        return np.bincount(of_steps // span, minlength=rounds * draws).reshape(rounds, draws)

    levels, members = [], np.zeros((rounds, length), dtype=np.int64)
    for level, scheme in enumerate(schemes, start=1):
        # Each parent is drawn from once a redraw period, or once a pass if this or a lower level has passes.
        has_passes = any(isinstance(inner, Shuffle | Allocation) for inner in schemes[level - 1 :])
        redraws = 1 if has_passes else span // hierarchy.level(level).redraw_every
        span //= redraws
        steps = (steps[:, None] + np.arange(redraws) * span).ravel()
        first, sizes = children(hierarchy, level, np.repeat(units, redraws))
        frames, indices = draw_units(scheme, sizes, rng)
        steps, units = steps[frames], first[frames] + indices
        if isinstance(scheme, BallsInBins):
            steps, span = steps + rng.integers(0, scheme.bins, units.size), 1
        elif isinstance(scheme, RandomAllocation):
            chosen, in_pass = _draw_fixed(Fixed(size=scheme.times), np.full(units.size, scheme.steps), rng)
            steps, units, span = steps[chosen] + in_pass, units[chosen], 1
        elif isinstance(scheme, Shuffle):
            in_pass = index_in_frame(frames, sizes) // scheme.size
            is_kept = in_pass < length  # drop_last leaves out what is beyond the last whole batch
            steps, units, span = (steps + in_pass)[is_kept], units[is_kept], 1
        nominal = 0.0
        if isinstance(scheme, Fixed | CappedPoisson):
            values, numbers = np.unique(sizes, return_counts=True)
            nominal = float(numbers @ np.array([expected_draws(scheme, size) for size in values.tolist()]))
        batches = by_draw(steps)
        levels.append(
            LevelCount(
                parents=sizes.size,
                offered=int(sizes.sum()),
                drawn=int(batches.sum()),
                nominal=nominal,
                batches=batches.mean(axis=1),
                min_batch=int(batches.min()),
                max_batch=int(batches.max()),
            )
        )
        if level == watched.level:  # a drawn unit takes part in every step that its draw spans
            members = np.repeat(by_draw(steps[np.isin(units, watched.units)]), span, axis=1)
    return levels, members
