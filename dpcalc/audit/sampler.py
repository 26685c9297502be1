"""Batches drawn as a training loop draws them, index by index: the sampler of Algorithm 1, with a draw of any scheme.

It shares no formula with the computed laws, which `dpcalc.audit.simulate` checks by it.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import field
from fractions import Fraction

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcalc.arrays import IntArray
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import BallsInBins, Fixed, RandomAllocation, Scheme, SummedPoisson

# One draw from each of many frames: (index of the frame of each drawn unit, index of the unit in its frame), both from
# 0, shape (drawn units,) each.

UnitIndices = tuple[IntArray, IntArray]

CHUNK = 2_000_000
"""Units handled together, 16 MB an array, of which there are about ten."""
# Frames of at most so many times the draw are put in random order as a whole; from larger ones units are picked.
_DENSE_FACTOR = 64


def draw_units(scheme: Scheme, sizes: IntArray, rng: Generator) -> UnitIndices:
    """Draw units of each frame by a scheme; of a shuffle all, in the order of the pass."""
    if scheme.has_stand_in:
        return _draw_fixed(scheme.size, sizes, rng)
    if scheme.can_repeat:
        frames = np.repeat(np.arange(sizes.size), scheme.size)
        return frames, rng.integers(0, sizes[frames])
    if isinstance(scheme, SummedPoisson):
        frames, places = _draw_poisson(float(scheme.probability), sizes * scheme.draws, rng)  # one draw after the other
        return frames, places % sizes[frames]
    if scheme.is_independent or scheme.is_cut:
        frames, units = _draw_poisson(float(scheme.probability), sizes, rng)
        if scheme.limit is None:
            return frames, units
        order = np.lexsort((rng.random(frames.size), frames))  # a random order within each frame, cut at the cap
        drawn = np.bincount(frames, minlength=sizes.size)
        kept = order[index_in_frame(frames, drawn) < scheme.limit]
        return frames[kept], units[kept]
    frames = np.repeat(np.arange(sizes.size), sizes)
    units = index_in_frame(frames, sizes)
    if scheme.is_shuffled:
        units = units[np.lexsort((rng.random(frames.size), frames))]
    return frames, units


def index_in_frame(frames: IntArray, sizes: IntArray) -> IntArray:
    return np.arange(frames.size) - (np.cumsum(sizes) - sizes)[frames]


def _draw_fixed(number: int, sizes: IntArray, rng: Generator) -> UnitIndices:
    """Draw a fixed number of distinct units from each frame, or all units of a smaller frame, in the fastest way."""
    max_size = int(sizes.max(initial=0))
    frames = np.repeat(np.arange(sizes.size), np.minimum(number, sizes))
    if max_size <= _DENSE_FACTOR * number:
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


# Rounds of a nested draw.
#
# The units of a level are numbered from 0, those of one parent in a row. A round is the time after which everything is
# drawn afresh: one step, or the longest redraw period, or one pass of a shuffle. It draws level after level: from each
# drawn unit, as often as it was drawn, some of its children. Many rounds are drawn at once, as rows (step, unit).


_MAX_ROUND_COST = 20_000_000  # units that one round may look at: about a second and a gigabyte
_PICKING_COST = 200.0  # time to pick a few units of a large frame, in units looked at
# Time for a unit that is not looked at; with it, data sets of more units than int64 holds exceed the limit.
_SKIPPING_COST = 1e-9


@dataclass(kw_only=True)
class LevelDraws:
    """Running totals of the draws of one level over all rounds."""

    frames: Counter[int] = field(default_factory=Counter)  # number of frames that were drawn from, by their size
    drawn: int = 0  # units that were drawn, repetitions included
    batches: list[NDArray[np.float64]] = field(default_factory=list)  # mean number of units in a step, by round
    sizes: list[int] = field(default_factory=list)  # of the smallest and the largest step of each chunk of rounds


def draw_rounds(
    hierarchy: Hierarchy,
    level: int,
    units: tuple[int, ...],
    *,
    rounds: int,
    rng: Generator,
    on_progress: Callable[[float], None],
) -> tuple[list[LevelDraws], IntArray]:
    """Return the totals of each level, and how often each step draws the watched units, shape (rounds, steps)."""
    copies, schemes = drawn_schemes(hierarchy)
    length = steps_per_round(hierarchy)
    totals = [LevelDraws() for _ in schemes]
    members = []
    done = 0
    # Rounds are independent, so that chunks of them bound the memory without changing what is drawn.
    chunk = max(1, min(rounds, int(CHUNK / round_cost(hierarchy))))
    while done < rounds:
        number = min(chunk, rounds - done)
        # A row for each draw of a unit: the first step of the draw, counted through all rounds, and the unit; `span` is
        # the number of steps for which a draw is held.
        steps = np.repeat(np.arange(number) * length, copies)
        rows = np.zeros(steps.size, dtype=np.int64)
        span = length
        for depth, (scheme, total) in enumerate(zip(schemes, totals, strict=True), start=1):
            # Each parent is drawn from once a redraw period, or once a pass if this or a lower level has passes.
            has_passes = any(inner.is_shuffled or inner.is_allocated for inner in schemes[depth - 1 :])
            redraws = 1 if has_passes else span // hierarchy.level(depth).redraw_every
            span //= redraws
            steps = (steps[:, None] + np.arange(redraws) * span).ravel()
            first, sizes = children(hierarchy, depth, np.repeat(rows, redraws))
            frames, indices = draw_units(scheme, sizes, rng)
            steps = steps[frames]
            rows = first[frames] + indices
            if isinstance(scheme, BallsInBins):
                steps = steps + rng.integers(0, scheme.bins, rows.size)
                span = 1
            elif isinstance(scheme, RandomAllocation):
                chosen, in_pass = _draw_fixed(scheme.times, np.full(rows.size, scheme.steps), rng)
                steps = steps[chosen] + in_pass
                rows = rows[chosen]
                span = 1
            elif scheme.is_shuffled:
                in_pass = index_in_frame(frames, sizes) // scheme.size
                is_kept = in_pass < length  # drop_last leaves out what is beyond the last whole batch
                steps = (steps + in_pass)[is_kept]
                rows = rows[is_kept]
                span = 1

            shape = number, length // span
            batches = np.bincount(steps // span, minlength=math.prod(shape)).reshape(shape)
            values, counts = np.unique(sizes, return_counts=True)
            total.frames.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            total.drawn += int(batches.sum())
            total.batches.append(batches.mean(axis=1))
            total.sizes += [int(batches.min()), int(batches.max())]
            if depth == level:  # a drawn unit takes part in every step that its draw spans
                own = steps[np.isin(rows, units)] // span
                members.append(np.repeat(np.bincount(own, minlength=math.prod(shape)).reshape(shape), span, axis=1))
        done += number
        on_progress(done / rounds)
    return totals, np.concatenate(members)


def drawn_schemes(hierarchy: Hierarchy) -> tuple[int, tuple[Scheme, ...]]:
    """Return (draws in a step, scheme of each level); constructed tasks count as draws of fixed sizes."""
    episodes = hierarchy.episodes
    if episodes is not None:
        return episodes.tasks, (Fixed(size=episodes.ways), Fixed(size=episodes.records))
    return 1, tuple(level.scheme for level in hierarchy.levels)


def steps_per_round(hierarchy: Hierarchy) -> int:
    """Return the steps of a pass or of the outermost redraw period; UnsupportedError if passes do not end together."""
    shuffled = [level for level in hierarchy.levels if level.scheme.is_shuffled]
    if len(shuffled) > 1 or any(not level.is_equal for level in shuffled):
        raise UnsupportedError(
            "simulate: expected at most one shuffle, of frames of one size, got more or unequal ones"
        )
    level = shuffled[0] if shuffled else hierarchy.level(max(1, hierarchy.allocated))
    has_passes = level.scheme.is_shuffled or level.scheme.is_allocated
    return level.scheme.steps_of_a_pass(level.count) if has_passes else hierarchy.level(1).redraw_every


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
    copies, schemes = drawn_schemes(hierarchy)
    total, parents = 0.0, float(copies)
    for level, scheme in enumerate(schemes, start=1):
        count = Fraction(hierarchy.units(level), hierarchy.units(level - 1))
        cost = drawn = float(expected_draws(scheme, count))
        if scheme.is_cut:
            cost = float(count * scheme.probability)
        elif scheme.has_stand_in:
            is_dense = hierarchy.level(level).count <= _DENSE_FACTOR * scheme.size
            cost = float(count) if is_dense else drawn + _PICKING_COST
        total += parents * (cost + _SKIPPING_COST * float(count))
        parents *= drawn
    total *= steps_per_round(hierarchy)
    if total > _MAX_ROUND_COST:
        raise InputError(
            f"simulate: expected steps that draw at most {_MAX_ROUND_COST:.0e} units, got about {total:.0e}"
        )
    return max(total, 1.0)


def expected_draws(scheme: Scheme, count: int | Fraction) -> Fraction:
    """Return the expected number of draws from a frame in a step, repetitions included."""
    if scheme.is_shuffled:
        return Fraction(scheme.drawn_in_a_pass(int(count)), scheme.steps_of_a_pass(int(count)))
    if scheme.is_cut or scheme.is_allocated:
        return count * scheme.rate(round(count))
    # Not `rate`, which the simulation checks.
    number, chance = scheme.tried(count)  # type: ignore[arg-type]  # a mean of unequal frames
    return number * chance
