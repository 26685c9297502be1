"""Laws of likelihood ratios on lattices of several spacings, and the sum of two of them.

Ratios range over many powers of 2. A law is a mixture of rows, each on the multiples of a power of 2 of its own: narrow
near the bulk and for small ratios, wider in proportion to the distance from both. A sum is at most as narrow as the
wider of its rows, so that for each spacing one product of rows is enough: of what lies on it with that and with all
that is narrower, widened to it.

Source: docs/theory.md, Theorem 9.12.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from itertools import tee
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.losses.ratio_rows import BLOCK, Row, add_rows, convolve_rows, crop_row, widen_row
from dpcalc.numerics.convolution import UNIT_ROUNDOFF
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, spend

# Resolution: the width of the certified interval falls with the square of the number of points. With half as many the
# golden values of tests/amplification/test_allocation.py are no longer certified to 1e-5.
_LOG_POINTS = 10  # log2 of the points of a row: spacing is at most 2^-9 of the distance from 0 or the bulk
_OCTAVES = 60  # powers of 2 that ratios range over for which a row holds one more of them
_MOST_OF_A_ROW = 4  # powers of 2 in a row, at most
_FEW_POINTS = 3  # powers of 2 in a row from which on it has half as many points: profiles change slowly there
# The accuracy of a loss counts relative to its size. So rows of large and of small ratios hold more powers of 2 on 2^8
# points: ((log2 of a ratio to the mean, powers of 2 beyond it), ...). Intervals stay narrower than 1e-4 of epsilon.
_LARGE = ((16, 4), (64, 6))
_SMALL = ((-256, 8), (-64, 6))
_LOG_FEWEST = 8
_LOWEST, _HIGHEST = -1020, 1000  # log2 of spacings: those of ratios that are floats
_BULK = 2.0  # half-widths of the bulk on either side of its middle on which the spacing is narrowest
_MAX_BULK = 1 << 14  # points from the smallest ratio to the middle of the bulk: products of rows of more take 30 ms
_TAIL = 1e-26  # mass under Q and P that is cut at either end after a sum: below any delta after 1e9 passes
_LEVEL = 1e5  # units of work of a level of a sum, beside its products
_NO_ZERO = 1e-18  # Q mass at ratio 0 up to which its sum with another ratio is not resolved point by point
_LEFT_OUT = 1e-270  # bound on the Q mass of all that is left out in a sum: less than 10^10 entries
_TINY = 2.0**-1000  # distance from the bulk that counts as none


class Estimate(Enum):
    """The profiles that a law bounds, and from which side.

    UPPER: delta of both directions from above. LOWER: delta(D, D') from below; mass that cannot be merged is rounded
    down. LOWER_REVERSED: delta(D', D) from below; mass that cannot be merged is rounded up.
    """

    UPPER = "upper"
    LOWER = "lower"
    LOWER_REVERSED = "lower, reversed"


@dataclass(frozen=True)
class RatioLaw:
    """Q masses of a ratio on lattices."""

    rows: dict[int, Row]  # by log2 of the spacing
    zero: float = 0.0  # Q mass at ratio 0
    infinite: float = 0.0  # P mass at an infinite ratio, times the number of ratios that were added
    error: float = 0.0  # bound on the relative error of every mass from round-off
    # largest distance of a mass from its point, relative to the ratio, also in the laws that were added
    distance: float = 0.0
    count: int = 1  # number of ratios that were added
    total: int = 1  # number of ratios in the mean that is wanted

    def points(self) -> tuple[Array, Array]:
        """Return (different ratios > 0, increasing; their Q masses > 0), equal ratios of several rows added up."""
        return points_of(*self.flat())

    def flat(self) -> tuple[Array, Array]:
        """Return (ratios, Q masses) of all entries, row by row."""
        ratios = [row.ratios(level) for level, row in self.rows.items()]
        return np.concatenate(ratios), np.concatenate([row.cells[0] for row in self.rows.values()])


def points_of(ratios: Array, masses: Array) -> tuple[Array, Array]:
    """Return the different ratios of positive mass, increasing, and their masses, those of equal ratios added up."""
    order = np.flatnonzero(masses)
    order = order[np.argsort(ratios[order], kind="stable")]
    ratios, masses = ratios[order], masses[order]
    first = np.flatnonzero(np.append(True, np.diff(ratios) > 0))
    return ratios[first], np.add.reduceat(masses, first)


@dataclass(frozen=True)
class Resolution:
    """The spacing that is narrow enough at each ratio."""

    middle: float  # of the bulk
    bulk_level: int  # log2 of the spacing near the middle
    steps: NDArray[np.int64]  # log2 of the spacings, increasing
    reaches: Array  # for each the distance from 0, or from the middle, below which it is wide enough, increasing

    @classmethod
    def of(
        cls, bulk: tuple[float, float], ends: tuple[float, float], estimate: Estimate, *, count: int, total: int
    ) -> "Resolution":
        """Choose spacings, about 2^-9 of the distance from 0 or from the bulk; wider in wide ranges and in tails."""
        (middle, width), (low, high) = bulk, ends
        octaves, log_points = _row_size(low, high, estimate)
        steps, reaches = _spacings(_tiers(octaves, log_points, count=count, total=total))
        # As many points on the bulk as in a row, unless these were over 2^14 from the smallest ratio to its middle.
        bulk_level = math.frexp(_BULK * width)[1] - log_points
        finest_level = math.ceil(math.log2(max(middle - low, _TINY) / _MAX_BULK))
        return cls(middle, int(steps[np.searchsorted(steps, max(bulk_level, finest_level))]), steps, reaches)

    def levels(self, ratios: Array) -> NDArray[np.int_]:
        """Return log2 of the spacing at each ratio."""
        around = np.maximum(self.bulk_level, self._level_at(np.abs(ratios - self.middle)))
        return np.minimum(self._level_at(ratios), around)

    def levels_between(self, low: int, high: int) -> list[int]:
        """Return log2 of the spacings in use between 2^low and 2^high, increasing."""
        return [int(step) for step in self.steps[(self.steps >= low) & (self.steps <= high)]]

    def relative_spacing(self, low: int, high: int) -> float:
        """Return the largest quotient of a spacing, 2^low to 2^high, and the reach of the next narrower one."""
        first, last = np.maximum(np.searchsorted(self.steps, [low, high + 1]), 1)
        return float((np.ldexp(1.0, self.steps[first:last]) / self.reaches[first - 1 : last - 1]).max())

    def is_wide_enough(self, ratios: Array, level: int) -> NDArray[np.bool_]:
        """Return True where spacing 2^level is wide enough: near 0 or, from `bulk_level` on, near the middle."""
        reach = self._reach(level)
        is_near = ratios < reach
        return is_near | (np.abs(ratios - self.middle) < reach) if level >= self.bulk_level else is_near

    def lattice(self, low: float, high: float) -> Array:
        """Return low, high and all points about between, each a multiple of the spacing at its place; unsorted."""
        first = min(int(self.levels(np.array(low))), self.bulk_level)
        last = int(self._level_at(np.array(max(high, self.middle))))
        parts = [self._points_on_level(level, low, high) for level in self.levels_between(first, last)]
        return np.concatenate([np.array([low, high]), *parts])

    def _points_on_level(self, level: int, low: float, high: float) -> Array:
        """Return the multiples > 0 of 2^level, about from low to high, at which that is the spacing."""
        reach = self._reach(level)
        top = min(high, reach + self.middle if level >= self.bulk_level else reach)
        if top < low:
            return np.zeros(0)
        indices = np.arange(math.floor(math.ldexp(low, -level)), math.ceil(math.ldexp(top, -level)) + 2.0)
        points = np.ldexp(indices, level)
        used: Array = points[(self.levels(points) == level) & (points > 0)]
        return used

    def _level_at(self, distances: Array) -> NDArray[np.int_]:
        """Return for each distance from 0 or the middle the least spacing that is wide enough, log2 of it."""
        return self.steps[np.searchsorted(self.reaches, distances, side="right")]

    def _reach(self, level: int) -> float:
        """Return the distance from 0 or the middle below which a spacing of 2^level is wide enough."""
        return float(self.reaches[max(int(np.searchsorted(self.steps, level, side="right")) - 1, 0)])


class _Tier(NamedTuple):
    """Rows up to one distance, of `octaves` powers of 2 and 2^log_points points each; the last such row reaches it."""

    log_top: float
    octaves: int
    log_points: int


def _row_size(low: float, high: float, estimate: Estimate) -> tuple[int, int]:
    """Return (octaves that a row covers, log2 of its points) for ratios from low to high."""
    octaves = min(_MOST_OF_A_ROW, 1 + math.floor((math.log2(high) - math.log2(low) + 1) / _OCTAVES))
    # Merging costs three products where splitting costs one, and loses half as much.
    is_merged = octaves > 1 and estimate is not Estimate.UPPER
    return octaves, _LOG_POINTS - (octaves >= _FEW_POINTS) - is_merged


def _tiers(octaves: int, log_points: int, *, count: int, total: int) -> list[_Tier]:
    """Return tiers by size of the ratio: rows of more octaves for tiny and huge ratios, of `octaves` between."""
    tops = [*(math.log2(count) + top for top, _ in _SMALL), *(math.log2(total) + end for end, _ in _LARGE), math.inf]
    sizes = [*(size for _, size in _SMALL), octaves, *(size for _, size in _LARGE)]
    points = [*(_LOG_FEWEST for _ in _SMALL), log_points, *(_LOG_FEWEST for _ in _LARGE)]
    return list(map(_Tier, tops, sizes, points))


def _spacings(tiers: list[_Tier]) -> tuple[NDArray[np.int64], Array]:
    """Return (log2 of the spacings, reach of each), rising; each tier adds multiples of its octaves up to its top."""
    steps, ends = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for log_top, octaves, log_points in tiers:
        new = np.arange(_LOWEST // octaves * octaves, _HIGHEST, octaves)
        is_rising = (new > steps.max(initial=2 * _LOWEST)) & (new + log_points > ends.max(initial=2 * _LOWEST))
        new = new[is_rising & (new - octaves + log_points < log_top)]
        steps, ends = np.append(steps, new), np.append(ends, new + log_points)
    return steps, np.ldexp(1.0, ends)


def resolution_for(ratios: Array, masses: Array, estimate: Estimate, *, total: int) -> Resolution:
    """Return the resolution for one ratio in a mean of `total` ratios, from its bulk and its range."""
    ends = float(ratios[0]), float(ratios[-1])
    return Resolution.of(_bulk(ratios, masses, 0.0), ends, estimate, count=1, total=total)


def _bulk(ratios: Array, masses: Array, zero: float) -> tuple[float, float]:
    """Return middle and half-width of the 16 to 84 % range of a ratio; (mean, deviation) if that is one value."""
    # Of rare, large ratios the mean lies far above the bulk: points near it would be wasted.
    below = np.cumsum(masses) + zero
    low, high = (float(ratios[min(int(np.searchsorted(below, x * below[-1])), below.size - 1)]) for x in (0.16, 0.84))
    if low < high:
        return (low + high) / 2, (high - low) / 2
    mean = float((ratios * masses).sum()) / float(below[-1])
    deviation = math.sqrt(float(((ratios - mean) ** 2 * masses).sum()) / float(below[-1]))
    return mean, max(deviation, 1e-9 * mean)


def law_of(ratios: Array, masses: Array, resolution: Resolution, estimate: Estimate) -> RatioLaw:
    """Return a law on lattices: UPPER splits each mass over two points, else the lower one gets it, with a moment."""
    levels, rows = resolution.levels(ratios), {}
    for level in np.unique(levels).tolist():
        is_on_level = levels == level
        row = _row_with_moments(np.ldexp(ratios[is_on_level], -level), masses[is_on_level])
        rows[level] = _split_by_moments(row) if estimate is Estimate.UPPER else row
    return RatioLaw(rows)


def _row_with_moments(positions: Array, masses: Array) -> Row:
    """Return the row of masses at these multiples, not whole, of the spacing: each with a moment at the point below."""
    points = np.floor(positions)
    start = int(points.min())
    place, size = (points - start).astype(np.int64), int(points.max()) - start + 2
    return Row(start, np.array([np.bincount(place, part, size) for part in (masses, masses * (positions - points))]))


def _split_by_moments(row: Row) -> Row:
    """Return the row without moments: each mass split over its point and the next one, mean kept."""
    masses = np.maximum(row.cells[0] - row.cells[1], 0.0)
    masses[1:] += row.cells[1, :-1]
    return Row(row.start, masses[np.newaxis])


def sum_of(a: RatioLaw, b: RatioLaw, estimate: Estimate) -> RatioLaw:
    """Return the law of the sum of two independent ratios, bounded as `estimate` says, or TooLargeError."""
    resolution, highest = _resolution_of_sum(a, b, estimate)
    first, last = min(*a.rows, *b.rows), int(resolution.levels(np.array(highest)))
    levels = sorted({*a.rows, *b.rows, *resolution.levels_between(first, last)})
    rows, terms = _rows_of_sum(a, b, levels, resolution)
    small_zeros = [_add_small_zero(rows, law, zero, estimate) for law, zero in ((a, b.zero), (b, a.zero))]
    law = RatioLaw(
        rows,
        zero=a.zero * b.zero + small_zeros[0] + small_zeros[1],
        infinite=a.infinite + b.infinite,
        error=a.error + b.error + (min(terms, BLOCK) + terms // BLOCK + 4 * len(levels) + 64) * UNIT_ROUNDOFF,
        distance=max(a.distance, b.distance, resolution.relative_spacing(min(first, last), last)),
        count=a.count + b.count,
        total=max(a.total, b.total),
    )
    return trimmed(law, estimate)


def _resolution_of_sum(a: RatioLaw, b: RatioLaw, estimate: Estimate) -> tuple[Resolution, float]:
    """Return the resolution for the sum of two ratios, from smallest to largest value > 0, and the latter."""
    (ratios_a, masses_a), (ratios_b, masses_b) = a.points(), b.points()
    (middle_a, width_a), (middle_b, width_b) = _bulk(ratios_a, masses_a, a.zero), _bulk(ratios_b, masses_b, b.zero)
    bulk = middle_a + middle_b, math.hypot(width_a, width_b)
    low_a, low_b, high = float(ratios_a[0]), float(ratios_b[0]), float(ratios_a[-1]) + float(ratios_b[-1])
    low = min(low_a, low_b) if max(a.zero, b.zero) > _NO_ZERO else low_a + low_b
    return Resolution.of(bulk, (low, high), estimate, count=a.count + b.count, total=max(a.total, b.total)), high


def _rows_of_sum(a: RatioLaw, b: RatioLaw, levels: list[int], resolution: Resolution) -> tuple[dict[int, Row], int]:
    """Return (rows of the sum's ratios > 0 by rising level, largest number of products that an entry adds up)."""
    # From the narrowest spacing up: what this spacing is wide enough for stays in the row, the rest is carried on.
    rows: dict[int, Row] = {}
    carried, terms, previous = None, 0, levels[0]
    parts_a, parts_b = tee(_on_levels(a, levels)) if a is b else (_on_levels(law, levels) for law in (a, b))
    for level, on_a, on_b in zip(levels, parts_a, parts_b, strict=True):
        products = _products(on_a, on_b)
        terms = max([terms, *(min(x.cells.shape[1], y.cells.shape[1]) for x, y in products if x and y)])
        convolved = [convolve_rows(x, y) for x, y in products]
        at_zero = [_row_beside_zero(on_a.row, b.zero), _row_beside_zero(on_b.row, a.zero)]
        row = add_rows(carried and widen_row(carried, level - previous), *convolved, *at_zero)
        kept, carried = (row, None) if level == levels[-1] else _split_by_resolution(row, level, resolution)
        if kept:
            rows[level] = kept
        previous = level
    return rows, terms


class _OnLevel(NamedTuple):
    """A law on one spacing: what has narrower spacings, widened to it; the law's row on it; the sum of both."""

    narrower: Row | None
    row: Row | None
    up_to: Row | None


def _on_levels(law: RatioLaw, levels: list[int]) -> Iterator[_OnLevel]:
    """Yield the part of the law with spacings up to 2^level, widened to that, for each of the rising levels."""
    up_to, previous = None, levels[0]
    for level in levels:
        narrower, row = up_to and widen_row(up_to, level - previous), law.rows.get(level)
        up_to, previous = add_rows(narrower, row), level
        yield _OnLevel(narrower, row, up_to)


def _products(a: _OnLevel, b: _OnLevel) -> list[tuple[Row | None, Row | None]]:
    """Return pairs of rows whose convolutions add up to all sums of two ratios of which the wider has this spacing."""
    if a is b:  # one convolution in the place of two
        return [(a.row, add_rows(a.narrower, a.up_to))]
    return [(a.row, b.up_to), (a.narrower, b.row)]


def _row_beside_zero(row: Row | None, zero: float) -> Row | None:
    """Return the row times the Q mass at ratio 0 of the other law; None if that is at most 1e-18."""
    return Row(row.start, row.cells * zero) if row and zero > _NO_ZERO else None


def _split_by_resolution(row: Row | None, level: int, resolution: Resolution) -> tuple[Row | None, Row | None]:
    """Split a row into points for which 2^level is wide enough and the others; None for a part without points."""
    if not row:
        return None, None
    points = np.ldexp(np.arange(row.start, row.end, dtype=np.float64), level)
    is_kept = resolution.is_wide_enough(points, level)
    spend(ELEMENT * points.size + _LEVEL)
    return crop_row(row, is_kept), crop_row(row, ~is_kept)


def _add_small_zero(rows: dict[int, Row], law: RatioLaw, zero: float, estimate: Estimate) -> float:
    """Move a Q mass <= 1e-18 at 0 into `rows` or drop it, as `estimate` asks; return the part that stays at 0."""
    if not 0 < zero <= _NO_ZERO:  # a larger one is in the rows already
        return 0.0
    if estimate is Estimate.UPPER:
        return _split_at_top(rows, law, zero)
    return zero if estimate is Estimate.LOWER else 0.0


def _split_at_top(rows: dict[int, Row], law: RatioLaw, mass: float) -> float:
    """Move the part of `mass` that keeps the law's mean to the top point of `rows` in place; return what stays at 0."""
    ratios, masses = law.points()
    top = max(rows)
    share = float((ratios * masses).sum()) / math.ldexp(rows[top].end - 1, top)
    rows[top].cells[0, -1] += mass * share
    return mass * (1 - share)


def trimmed(law: RatioLaw, estimate: Estimate) -> RatioLaw:
    """Return the law without tails of less than 1e-26 of its mass; `estimate` says how much stays, and where."""
    ratios, masses = law.flat()
    first, last = _ends_without_tails(ratios, masses)
    low, high = ratios < ratios[first], ratios > ratios[last]
    zero, at_first = _low_tail_shares(ratios[low], masses[low], float(ratios[first]), estimate)
    infinite, at_last = _high_tail_shares(ratios[high], masses[high], float(ratios[last]), estimate)
    growth = np.ones(masses.size)
    growth[first] += at_first / masses[first]
    growth[last] += at_last / masses[last]
    rows = rows_where(law, ~(low | high), growth)
    distance = max([law.distance, *(row.distance(level) for level, row in rows.items())])
    return replace(law, rows=rows, zero=law.zero + zero, infinite=law.infinite + infinite, distance=distance)


def _low_tail_shares(ratios: Array, masses: Array, end: float, estimate: Estimate) -> tuple[float, float]:
    """Return Q masses of a low tail at (ratio 0, ratio `end`): mean kept if UPPER, all at 0 if LOWER, else at `end`."""
    mass = float(masses.sum())
    if estimate is Estimate.UPPER:
        share = float((masses * ratios).sum() / end)
        return mass - share + _LEFT_OUT, share
    return (mass, 0.0) if estimate is Estimate.LOWER else (0.0, mass)


def _high_tail_shares(ratios: Array, masses: Array, end: float, estimate: Estimate) -> tuple[float, float]:
    """Return (P mass at infinity, Q mass at `end`) of a high tail: both kept if UPPER, Q mass if LOWER, else (0, 0)."""
    mass = float(masses.sum())
    if estimate is Estimate.UPPER:
        return float((masses * (ratios - end)).sum()) + _LEFT_OUT * end, mass
    return (0.0, mass) if estimate is Estimate.LOWER else (0.0, 0.0)


def _ends_without_tails(ratios: Array, masses: Array) -> tuple[int, int]:
    """Return indices of the lowest and highest ratio to keep; tails beyond them have less than 1e-26 of the mass."""
    weight = masses * (1 + ratios / float((ratios * masses).sum()))
    order = np.argsort(ratios, kind="stable")
    first = order[int(np.searchsorted(np.cumsum(weight[order]), _TAIL))]
    last = order[-1 - int(np.searchsorted(np.cumsum(weight[order[::-1]]), _TAIL))]
    return int(first), int(last)


def rows_where(law: RatioLaw, is_used: NDArray[np.bool_], growth: Array | float = 1.0) -> dict[int, Row]:
    """Return the law's rows times `growth`, cut to their used entries; rows without any are left out."""
    ends = np.cumsum([row.cells.shape[1] for row in law.rows.values()])[:-1]
    parts = zip(np.split(is_used, ends), np.split(np.broadcast_to(growth, is_used.shape), ends), strict=True)
    kept = (
        (level, crop_row(replace(row, cells=row.cells * factor), used))
        for (level, row), (used, factor) in zip(law.rows.items(), parts, strict=True)
    )
    return {level: row for level, row in kept if row}
