"""Laws of likelihood ratios on lattices of several spacings, and the sum of two of them.

Ratios range over many powers of 2. A law is a mixture of rows, each on the multiples of a power of 2 of its own: narrow
near the bulk and for small ratios, wider in proportion to the distance from both. A sum is at most as narrow as the
wider of its rows, so that for each spacing one product of rows is enough: of what lies on it with that and with all
that is narrower, widened to it.

Source: docs/theory.md, Theorem 9.12.
"""

import math
from dataclasses import replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import TooLargeError
from dpcalc.numerics import UNIT_ROUNDOFF, Array
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, TURN, spend

# Spacings: the width of the certified interval falls with the square of the number of points. With half as many the
# golden values of tests/oracles/test_allocation.py are no longer certified to 1e-5.
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
BLOCK = 512  # numbers that are added up in a row: the bound on their round-off grows with their number
_MAX_ENTRIES = 1 << 17  # points of a row; a product of larger ones takes 2 s
_PRODUCT = 0.15  # units of work of one of its products
_LEAST_MASS = 1e-280  # Q mass of an entry below which it is left out: products of such masses have few digits


class Estimate(Enum):
    """The profiles that a law bounds, and from which side."""

    # UPPER: delta of both directions from above. LOWER: delta(D, D') from below; mass that cannot be merged is rounded
    # down. LOWER_REVERSED: delta(D', D) from below; mass that cannot be merged is rounded up.

    UPPER = "upper"
    LOWER = "lower"
    LOWER_REVERSED = "lower, reversed"


@dataclass(frozen=True)
class Row:
    """Q masses near neighbouring multiples of a spacing."""

    start: int  # index of the first point, >= 0; its ratio is the index times the spacing
    # (masses,) at the points, or (masses, moments): a mass may lie off its point, its moment is the mass times the
    # distance, in spacings. Shape (1 or 2, n).
    cells: Array

    @property
    def end(self) -> int:
        """Index behind the last point."""
        return self.start + int(self.cells.shape[1])

    def ratios(self, level: int) -> Array:
        """Return the mean ratio at each point, which is the point itself where it has no mass or no moment."""
        index = np.arange(self.start, self.end, dtype=np.float64)
        for moments in self.cells[1:]:
            index += moments / np.where(self.cells[0] > 0, self.cells[0], 1.0)
        return np.ldexp(index, level)

    def distance(self, level: int) -> float:
        """Return the largest relative distance of a mean ratio from its point, spacing 2^level; 0 without moments."""
        if self.cells.shape[0] == 1:
            return 0.0
        ratios, points = self.ratios(level), np.ldexp(np.arange(self.start, self.end, dtype=np.float64), level)
        return float((np.abs(ratios - points) / ratios).max())


def add_rows(*rows: Row | None) -> Row | None:
    """Return the sum of rows on one spacing, ignoring None; None for no rows; TooLargeError above 2^17 points."""
    some = [row for row in rows if row]
    if len(some) < 2:
        return some[0] if some else None
    start, end = min(row.start for row in some), max(row.end for row in some)
    if end - start > _MAX_ENTRIES:
        raise TooLargeError(f"likelihood ratios: expected at most {_MAX_ENTRIES} lattice points, needs more")
    cells = np.zeros((some[0].cells.shape[0], end - start))
    for row in some:
        cells[:, row.start - start : row.end - start] += row.cells
    return Row(start, cells)


def _convolved(a: Array, b: Array) -> Array:
    """Convolve two arrays by direct sums, not by FFT, so that entries >= 0 keep their relative accuracy."""
    spend(_PRODUCT * a.size * b.size + TURN)
    a, b = sorted((a, b), key=len)
    result = np.zeros(a.size + b.size - 1)
    for at in range(0, a.size, BLOCK):
        block = a[at : at + BLOCK]
        result[at : at + block.size + b.size - 1] += np.convolve(block, b)
    return result


def widen_row(row: Row, octaves: int) -> Row:
    """Return the row on a spacing 2^octaves times as wide; masses are split or, if they have moments, merged."""
    factor, (kinds, size) = 1 << octaves, row.cells.shape
    left = row.start % factor
    blocks = np.zeros((kinds, (left + size) // factor + 1, factor))
    blocks.reshape(kinds, -1)[:, left : left + size] = row.cells
    start = row.start // factor
    if kinds == 1:
        # Each row of masses is split over its own point and the next one so that the mean is unchanged.
        share = np.arange(factor) / factor
        at_next, cells = blocks[0] @ share, blocks[0] @ (1 - share)
        cells[1:] += at_next[:-1]
        return Row(start, (np.append(cells, at_next[-1]) if at_next[-1] else cells)[np.newaxis])
    # Each row is merged into one point with a moment. Where means drift away from their points the points are renamed:
    # only what lies close together is to be merged.
    masses, moments = blocks
    offsets = masses @ (np.arange(factor) / factor)
    merged = np.array([masses.sum(axis=1), moments.sum(axis=1) / factor + offsets])
    drift = max(round(float(merged[1].sum()) / float(merged[0].sum())), -start)
    merged[1] -= drift * merged[0]
    return Row(start + drift, merged)


def crop_row(row: Row, is_used: NDArray[np.bool_]) -> Row | None:
    """Return the row from its first to its last used mass above 1e-280, unused ones set to 0; None if none is left."""
    is_used = is_used & (row.cells[0] > _LEAST_MASS)
    used = np.flatnonzero(is_used)
    if not used.size:
        return None
    inside = slice(int(used[0]), int(used[-1]) + 1)
    return Row(row.start + inside.start, row.cells[:, inside] * is_used[inside])


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
class Spacings:
    """The spacing that is narrow enough at each ratio."""

    middle: float  # of the bulk
    bulk_level: int  # log2 of the spacing near the middle
    steps: NDArray[np.int64]  # log2 of the spacings, increasing
    reaches: Array  # for each the distance from 0, or from the middle, below which it is wide enough, increasing

    @classmethod
    def of(
        cls, bulk: tuple[float, float], ends: tuple[float, float], estimate: Estimate, *, count: int, total: int
    ) -> "Spacings":
        """Choose spacings, about 2^-9 of the distance from 0 or from the bulk; wider in wide ranges and in tails."""
        (middle, width), (low, high) = bulk, ends
        octaves = min(_MOST_OF_A_ROW, 1 + math.floor((math.log2(high) - math.log2(low) + 1) / _OCTAVES))
        # Merging costs three products where splitting costs one, and loses half as much.
        is_merged = octaves > 1 and estimate is not Estimate.UPPER
        log_points = _LOG_POINTS - (octaves >= _FEW_POINTS) - is_merged
        # Tiers by size of the ratio, up to 2^top: rows of more octaves for tiny and huge ratios, of `octaves` between.
        # Each adds multiples of its octaves; the last such row reaches the top.
        tiers = (
            *((math.log2(count) + top, more_octaves, _LOG_FEWEST) for top, more_octaves in _SMALL),
            (math.log2(total) + _LARGE[0][0], octaves, log_points),
            (math.log2(total) + _LARGE[1][0], _LARGE[0][1], _LOG_FEWEST),
            (math.inf, _LARGE[1][1], _LOG_FEWEST),
        )
        steps, log_reaches = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for log_top, size, points in tiers:
            new = np.arange(_LOWEST // size * size, _HIGHEST, size)
            is_rising = (new > steps.max(initial=2 * _LOWEST)) & (new + points > log_reaches.max(initial=2 * _LOWEST))
            new = new[is_rising & (new - size + points < log_top)]
            steps, log_reaches = np.append(steps, new), np.append(log_reaches, new + points)
        # As many points on the bulk as in a row, unless these were over 2^14 from the smallest ratio to its middle.
        bulk_level = math.frexp(_BULK * width)[1] - log_points
        finest_level = math.ceil(math.log2(max(middle - low, _TINY) / _MAX_BULK))
        narrowest = int(steps[np.searchsorted(steps, max(bulk_level, finest_level))])
        return cls(middle, narrowest, steps, np.ldexp(1.0, log_reaches))

    def levels(self, ratios: Array) -> NDArray[np.int_]:
        """Return log2 of the spacing at each ratio."""
        around = np.maximum(self.bulk_level, self._level_at(np.abs(ratios - self.middle)))
        return np.minimum(self._level_at(ratios), around)

    def levels_between(self, low: int, high: int) -> list[int]:
        """Return log2 of the spacings in use between 2^low and 2^high, increasing."""
        return [int(step) for step in self.steps[(self.steps >= low) & (self.steps <= high)]]

    def reach(self, level: int) -> float:
        """Return the distance from 0 and, from `bulk_level` on, from the middle below which 2^level is wide enough."""
        return float(self.reaches[max(int(np.searchsorted(self.steps, level, side="right")) - 1, 0)])

    def lattice(self, low: float, high: float) -> Array:
        """Return low, high and all points about between, each a multiple of the spacing at its place; unsorted."""
        first = min(int(self.levels(np.array(low))), self.bulk_level)
        last = int(self._level_at(np.array(max(high, self.middle))))
        parts = [np.array([low, high])]
        for level in self.levels_between(first, last):
            top = min(high, self.reach(level) + (self.middle if level >= self.bulk_level else 0.0))
            if top >= low:
                first_index, last_index = math.floor(math.ldexp(low, -level)), math.ceil(math.ldexp(top, -level))
                points = np.ldexp(np.arange(first_index, last_index + 2.0), level)
                parts.append(points[(self.levels(points) == level) & (points > 0)])
        return np.concatenate(parts)

    def _level_at(self, distances: Array) -> NDArray[np.int_]:
        """Return for each distance from 0 or the middle the least spacing that is wide enough, log2 of it."""
        return self.steps[np.searchsorted(self.reaches, distances, side="right")]


def spacings_for(ratios: Array, masses: Array, estimate: Estimate, *, total: int) -> Spacings:
    """Return the spacings for one ratio in a mean of `total` ratios, from its bulk and its range."""
    ends = float(ratios[0]), float(ratios[-1])
    return Spacings.of(_bulk(ratios, masses, 0.0), ends, estimate, count=1, total=total)


def _bulk(ratios: Array, masses: Array, zero: float) -> tuple[float, float]:
    """Return middle and half-width of the 16 to 84 % range of a ratio; (mean, deviation) if that is one value."""
    # Of rare, large ratios the mean lies far above the bulk: points near it would be wasted.
    below = np.cumsum(masses) + zero
    low, high = (float(ratios[min(int(np.searchsorted(below, x * below[-1])), below.size - 1)]) for x in (0.16, 0.84))
    if low < high:
        return (low + high) / 2, (high - low) / 2
    mean = float((ratios * masses).sum()) / float(below[-1])
    largest = max(float(ratios[-1]), 1.0)  # the square of a ratio may be no float
    variance = float((((ratios - mean) / largest) ** 2 * masses).sum()) / float(below[-1])
    return mean, max(largest * math.sqrt(variance), 1e-9 * mean)


def law_of(ratios: Array, masses: Array, spacings: Spacings, estimate: Estimate) -> RatioLaw:
    """Return a law on lattices: UPPER splits each mass over two points, else the lower one gets it, with a moment."""
    levels, rows = spacings.levels(ratios), {}
    for level in np.unique(levels).tolist():
        positions, on_level = np.ldexp(ratios[levels == level], -level), masses[levels == level]
        points = np.floor(positions)
        start, size = int(points.min()), int(np.ptp(points)) + 2
        place = (points - start).astype(np.int64)
        mass, moment = (np.bincount(place, part, size) for part in (on_level, on_level * (positions - points)))
        if estimate is Estimate.UPPER:
            mass = np.maximum(mass - moment, 0.0)
            mass[1:] += moment[:-1]
            rows[level] = Row(start, mass[np.newaxis])
        else:
            rows[level] = Row(start, np.array([mass, moment]))
    return RatioLaw(rows)


def sum_of(a: RatioLaw, b: RatioLaw, estimate: Estimate) -> RatioLaw:
    """Return the law of the sum of two independent ratios, bounded as `estimate` says, or TooLargeError."""
    (ratios_a, masses_a), (ratios_b, masses_b) = a.points(), b.points()
    (middle_a, width_a), (middle_b, width_b) = _bulk(ratios_a, masses_a, a.zero), _bulk(ratios_b, masses_b, b.zero)
    bulk = middle_a + middle_b, math.hypot(width_a, width_b)
    low_a, low_b, high = float(ratios_a[0]), float(ratios_b[0]), float(ratios_a[-1]) + float(ratios_b[-1])
    low = min(low_a, low_b) if max(a.zero, b.zero) > _NO_ZERO else low_a + low_b
    count, total = a.count + b.count, max(a.total, b.total)
    spacings = Spacings.of(bulk, (low, high), estimate, count=count, total=total)
    first, last = min(*a.rows, *b.rows), int(spacings.levels(np.array(high)))
    levels = sorted({*a.rows, *b.rows, *spacings.levels_between(first, last)})

    # From the narrowest spacing up: what this spacing is wide enough for stays in the row, the rest is carried on.
    rows: dict[int, Row] = {}
    carried: Row | None = None
    up_to_a: Row | None = None  # of a law all that is narrower, widened to this spacing, and its own row
    up_to_b: Row | None = None
    terms, previous = 0, levels[0]
    for level in levels:
        octaves, row_a, row_b = level - previous, a.rows.get(level), b.rows.get(level)
        narrower_a = up_to_a and widen_row(up_to_a, octaves)
        up_to_a = add_rows(narrower_a, row_a)
        if a is b:  # one convolution in the place of two
            products = [(row_a, add_rows(narrower_a, up_to_a))]
        else:
            up_to_b = add_rows(up_to_b and widen_row(up_to_b, octaves), row_b)
            products = [(row_a, up_to_b), (narrower_a, row_b)]
        convolved = []
        for x, y in products:
            if x and y:
                cells = [_convolved(x.cells[0], y.cells[0])]
                if x.cells.shape[0] > 1:  # masses have moments
                    cells.append(_convolved(x.cells[0], y.cells[1]) + _convolved(x.cells[1], y.cells[0]))
                convolved.append(Row(x.start + y.start, np.array(cells)))
                terms = max(terms, min(x.cells.shape[1], y.cells.shape[1]))
        beside_zero = [
            Row(row.start, row.cells * zero)
            for row, zero in ((row_a, b.zero), (row_b, a.zero))
            if row and zero > _NO_ZERO
        ]
        kept = add_rows(carried and widen_row(carried, octaves), *convolved, *beside_zero)
        carried = None
        if kept and level != levels[-1]:
            points = np.ldexp(np.arange(kept.start, kept.end, dtype=np.float64), level)
            is_kept = points < spacings.reach(level)
            if level >= spacings.bulk_level:
                is_kept |= np.abs(points - spacings.middle) < spacings.reach(level)
            spend(ELEMENT * points.size + _LEVEL)
            carried = crop_row(kept, ~is_kept)
            kept = crop_row(kept, is_kept)
        if kept:
            rows[level] = kept
        previous = level

    # A larger Q mass at ratio 0 is in the rows already. UPPER moves the part of a small one that keeps the other law's
    # mean to the top point, LOWER leaves it at 0, LOWER_REVERSED drops it.
    zero_mass = a.zero * b.zero
    for ratios, masses, zero in ((ratios_a, masses_a, b.zero), (ratios_b, masses_b, a.zero)):
        if 0 < zero <= _NO_ZERO and estimate is not Estimate.LOWER_REVERSED:
            share = 0.0
            if estimate is Estimate.UPPER:
                top = max(rows)
                share = float((ratios * masses).sum()) / math.ldexp(rows[top].end - 1, top)
                rows[top].cells[0, -1] += zero * share
            zero_mass += zero * (1 - share)
    # The largest quotient of a spacing and the reach of the next narrower one.
    begin, end = np.maximum(np.searchsorted(spacings.steps, [min(first, last), last + 1]), 1)
    coarsest = np.ldexp(1.0, spacings.steps[begin:end]) / spacings.reaches[begin - 1 : end - 1]
    law = RatioLaw(
        rows,
        zero=zero_mass,
        infinite=a.infinite + b.infinite,
        error=a.error + b.error + (min(terms, BLOCK) + terms // BLOCK + 4 * len(levels) + 64) * UNIT_ROUNDOFF,
        distance=max(a.distance, b.distance, float(coarsest.max())),
        count=count,
        total=total,
    )
    return trimmed(law, estimate)


def trimmed(law: RatioLaw, estimate: Estimate) -> RatioLaw:
    """Return the law without tails of less than 1e-26 of its mass; `estimate` says how much stays, and where."""
    ratios, masses = law.flat()
    weight = masses * (1 + ratios / float((ratios * masses).sum()))
    order = np.argsort(ratios, kind="stable")
    first = int(order[int(np.searchsorted(np.cumsum(weight[order]), _TAIL))])
    last = int(order[-1 - int(np.searchsorted(np.cumsum(weight[order[::-1]]), _TAIL))])
    end, top = float(ratios[first]), float(ratios[last])
    low, high = ratios < end, ratios > top
    low_mass, high_mass = float(masses[low].sum()), float(masses[high].sum())
    # UPPER keeps the mean of the low tail, and Q and P mass of the high one. LOWER puts the low one at ratio 0 and the
    # high one at the last ratio kept; LOWER_REVERSED the low one at the first ratio kept, and drops the high one.
    zero = infinite = at_first = at_last = 0.0
    if estimate is Estimate.UPPER:
        at_first, at_last = float((masses[low] * ratios[low]).sum() / end), high_mass
        zero = low_mass - at_first + _LEFT_OUT
        infinite = float((masses[high] * (ratios[high] - top)).sum()) + _LEFT_OUT * top
    elif estimate is Estimate.LOWER:
        zero, at_last = low_mass, high_mass
    else:
        at_first = low_mass
    growth = np.ones(masses.size)
    growth[first] += at_first / masses[first]
    growth[last] += at_last / masses[last]
    rows = rows_where(law, ~(low | high), growth)
    distance = max([law.distance, *(row.distance(level) for level, row in rows.items())])
    return replace(law, rows=rows, zero=law.zero + zero, infinite=law.infinite + infinite, distance=distance)


def rows_where(law: RatioLaw, is_used: NDArray[np.bool_], growth: Array | float = 1.0) -> dict[int, Row]:
    """Return the law's rows times `growth`, cut to their used entries; rows without any are left out."""
    growth, kept, at = np.broadcast_to(growth, is_used.shape), {}, 0
    for level, row in law.rows.items():
        entries = slice(at, at + row.cells.shape[1])
        at = entries.stop
        cut = crop_row(replace(row, cells=row.cells * growth[entries]), is_used[entries])
        if cut:
            kept[level] = cut
    return kept
