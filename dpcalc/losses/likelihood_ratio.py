"""Distribution of a likelihood ratio U = dP/dQ under Q, bounded from above or below, and of sums of such ratios.

A profile is E f(U) with a convex f: delta(epsilon) is E (U - e^epsilon)_+ in one direction and E (1 - e^epsilon U)_+
in the other. To move the mass of a cell to its two ends, mean kept, raises E f for every convex f. To merge masses into
their mean lowers it. Both remain true when independent ratios are added. So every law here lies on lattices, and a sum
is brought back there in one of the two ways. All masses that are added and multiplied are positive and no transform is
used: a tail of 1e-25 keeps its digits.

Source: docs/theory.md, Theorem 9.12.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import TooLargeError
from dpcalc.losses.atoms import glued
from dpcalc.losses.cells import MonotonePiece, monotone_runs, points_with_losses
from dpcalc.losses.loss import Loss, LossCurve
from dpcalc.losses.moments import reach
from dpcalc.losses.pair import length_scales, rough_points, subdivided
from dpcalc.numerics import UNIT_ROUNDOFF, Array, gauss_legendre_panels, log_sum_exp, log_sum_exp_by_index
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, TURN, spend

# Laws on lattices of several spacings, and the sum of two of them
#
# Ratios range over many powers of 2. A law is a mixture of rows, each on the multiples of a power of 2 of its own:
# narrow near the bulk and for small ratios, wider in proportion to the distance from both. A sum is at most as narrow
# as the wider of its rows, so that for each spacing one product of rows is enough: of what lies on it with that and
# with all that is narrower, widened to it.

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
_LEFT_OUT_OF_A_SUM = 1e-270  # bound on the Q mass of all that is left out in a sum: less than 10^10 entries
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
        zero = low_mass - at_first + _LEFT_OUT_OF_A_SUM
        infinite = float((masses[high] * (ratios[high] - top)).sum()) + _LEFT_OUT_OF_A_SUM * top
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


# From the loss of a step to the law of its ratio, and from that of a sum back to a loss

_MAX_LOSSES = 16_000  # of a pair from above; what composes it takes time in proportion
_NODES = 5  # Gauss-Legendre nodes of a panel, which is at most a quarter of the length on which densities change
_CELLS = 30_000  # of equal width in the loss where one ratio of a mean decides: 1e-4 of the loss, and less
_RARE = 50.0  # loss of a pass above which its large ratios are rare: two of them have P mass e^-50
_NO_SMALL = 1e-18  # P mass of smaller losses up to which one ratio decides
_LEFT_OUT = 1e-20  # Q mass of smaller ratios of all steps that quadrature leaves out
_MOVED = 1e-12  # P mass that is moved from large ratios to the others, to cover round-off
_QUADRATURE = 1e-13  # bound on the relative error of the mass of a panel; measured 1e-15
_LOG_TAIL = -62.0  # log of the mass of a step that is neglected
_LOG_NOTHING = -690.0  # log of the smallest mass under Q that is a float
_LARGEST = 560.0  # loss of a step beyond which its ratio is called infinite or 0
_MOST_ZERO = 0.99  # Q mass at ratio 0 up to which the other masses are made to sum to what is missing to 1
_MOST_INFINITE = 0.5  # P mass at infinite ratios from which on a bound tells nothing
_TOLERANCE = 1e-13  # relative error of a ratio from round-off
_MAX_QUOTIENT = 5e-6  # relative error of a ratio from below; about 10^7 ratios
_NO_MASS = 1e-13  # difference of masses that is round-off
_DOUBTFUL_MASS = 1e-9  # difference of masses that may be the quadrature's: of mixtures of many it misses 5e-12
_MARGIN = 1e-15  # relative, for a logarithm and a product


def ratio_law(curve: LossCurve, estimate: Estimate, count: int = 1) -> RatioLaw:
    """Return the law of the likelihood ratio dP/dQ under Q, on lattices; TooLargeError if too few ratios are floats."""
    # The spacings are those for a mean of `count` ratios.
    pieces = _pieces(curve)
    log_p, losses = _some_losses(curve, pieces)
    used = (np.abs(losses) < _LARGEST) & (log_p - losses > _LOG_NOTHING)
    if not used.any():
        raise TooLargeError(f"expected some losses between -{_LARGEST:.0f} and {_LARGEST:.0f}, got none")
    ratios = np.exp(losses[used])
    bulk, ends = _bulk(ratios, np.exp((log_p - losses)[used]), 0.0), (float(ratios[0]), float(ratios[-1]))
    spacings = Spacings.of(bulk, ends, estimate, count=1, total=count)
    parts = [_atoms(curve)]
    for piece in pieces:
        low, high = np.exp(np.clip([piece.loss.min(), piece.loss.max()], -_LARGEST, _LARGEST)).tolist()
        # A panel lies between two lattice points, so that its mass may be moved as one mass at its mean.
        parts.append(_panels(piece, np.log(spacings.lattice(low, high))))
    log_p, losses = _sorted_by_loss(parts)
    if estimate is not Estimate.UPPER:
        # P mass at a smaller ratio: what is larger, and some mass at ratios next to 0, are merged into their mean.
        losses = np.minimum(losses, _LARGEST - 1)
    finite = (np.abs(losses) < _LARGEST) & (log_p - losses > _LOG_NOTHING)
    # A ratio that is no float after a sum is called infinite or 0, which raises both profiles. A lower bound has none
    # of the former, and rounds the latter up where 0 would raise it.
    large, small = ~finite & (losses > 0), ~finite & (losses <= 0)
    infinite = curve.infinity_mass + (float(np.exp(log_p[large]).sum()) if estimate is Estimate.UPPER else 0.0)
    if infinite > _MOST_INFINITE:
        raise TooLargeError(f"expected ratios up to e^{_LARGEST:.0f}, got larger ones in most cases")
    q = np.exp(log_p[finite] - losses[finite])
    rounded_to_zero = float(np.exp(np.minimum(log_p[small] - losses[small], 0.0)).sum())
    missing = max(0.0, 1 - float(q.sum()) - float(np.exp(log_p[large] - losses[large]).sum()))
    zero = missing if missing > _NO_MASS else rounded_to_zero
    error = max(_QUADRATURE, missing if missing < _DOUBTFUL_MASS else 0.0)
    ratios = np.exp(losses[finite])
    if estimate is Estimate.LOWER_REVERSED:
        # Mass at 0 would be an infinite loss in the other direction: what was rounded to it goes to ratio e^-560, and
        # what remains is told from what the quadrature missed.
        ratios, q, zero = np.append(math.exp(-_LARGEST), ratios), np.append(rounded_to_zero, q), zero - rounded_to_zero
        zero = zero if zero > _DOUBTFUL_MASS else 0.0
    # Next to a ratio of 0 the sum to 1 says nothing about what is left.
    law = law_of(ratios, q * (1 - zero) / float(q.sum()) if zero < _MOST_ZERO else q, spacings, estimate)
    return trimmed(replace(law, zero=zero, infinite=infinite, error=error, total=count), estimate)


def _sorted_by_loss(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the (log masses, losses) of all parts as one, by rising loss."""
    log_p, losses = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    order = np.argsort(losses, kind="stable")
    return log_p[order], losses[order]


def _pieces(curve: LossCurve) -> list[MonotonePiece]:
    """Cut a step's segments into pieces on which the loss is monotone; a segment without mass has none."""
    pieces = []
    for segment in curve.segments:
        low, high = reach(segment, 1.0, 0.0, negligible=_LOG_TAIL)
        if low < high:
            y = rough_points(segment.pair, low, high)
            y = subdivided(y, np.ceil(4 * np.diff(y) / length_scales(segment.pair, y)))
            loss = segment.log_density_and_loss(y)[1]
            pieces += [MonotonePiece(segment, y[run], loss[run]) for run in monotone_runs(loss)]
    return pieces


def _some_losses(curve: LossCurve, pieces: list[MonotonePiece]) -> tuple[Array, Array]:
    """Return (log P masses, losses) by rising loss, only accurate enough to choose a lattice."""
    parts = [_atoms(curve)]
    for piece in pieces:
        nodes, log_width = gauss_legendre_panels(piece.y, order=1)
        density, loss = piece.segment.log_density_and_loss(nodes)
        parts.append((density + log_width, loss))
    return _sorted_by_loss(parts)


def _atoms(curve: LossCurve) -> tuple[Array, Array]:
    """Return (log P masses, losses), unsorted, of the curve's atoms, and of loss 0 if its mass is over 1e-13."""
    losses, log_masses = (np.array(values, dtype=np.float64) for values in (curve.losses, curve.log_masses))
    if curve.zero_loss_mass > _NO_MASS:
        losses, log_masses = np.append(losses, 0.0), np.append(log_masses, math.log(curve.zero_loss_mass))
    return log_masses, losses


def _panels(piece: MonotonePiece, ends: Array) -> tuple[Array, Array]:
    """Cut a piece at its points and where its loss is in `ends`; return each panel's (log P mass, log P / Q mass)."""
    inner, _ = points_with_losses(piece, np.unique(ends))
    edges = np.unique(np.append(piece.y, inner))
    spend(6 * ELEMENT * _NODES * edges.size)
    nodes, log_weight = gauss_legendre_panels(edges, order=_NODES)
    log_p, losses = (values.reshape(-1, _NODES) for values in piece.segment.log_density_and_loss(nodes))
    log_p = log_p + log_weight.reshape(-1, _NODES)
    log_q = log_p - losses
    panel_p, panel_q = (log_sum_exp([values[:, i] for i in range(_NODES)]) for values in (log_p, log_q))
    return panel_p, panel_p - panel_q


def sum_of_copies(law: RatioLaw, count: int, estimate: Estimate) -> RatioLaw:
    """Return the law of the sum of `count` independent copies; TooLargeError if a lattice has too many points."""
    if count & (count - 1) == 0:
        for _ in range(count.bit_length() - 1):
            law = sum_of(law, law, estimate)
        return law
    return _multiples(law, count, max(count >> count.bit_length() // 2, 2), estimate)[0]


def _multiples(law: RatioLaw, count: int, fewer: int, estimate: Estimate) -> tuple[RatioLaw, RatioLaw]:
    """Return the laws of sums of `count` and of `fewer` copies, 1 <= fewer < count, by Euclid's algorithm on both."""
    # By count = factor * fewer + rest (Bergeron, Berstel, Brlek and Duboc 1989, "Addition chains using continued
    # fractions"): 65,535 copies take 19 sums, where doubling and adding takes 30.
    factor, remainder = divmod(count, fewer)
    if not remainder:
        smaller = sum_of_copies(law, fewer, estimate)
        return sum_of_copies(smaller, factor, estimate), smaller
    smaller, smallest = _multiples(law, fewer, remainder, estimate)
    return sum_of(sum_of_copies(smaller, factor, estimate), smallest, estimate), smaller


def large_ratio_pair(bins: Sequence[tuple[LossCurve, int]], estimate: Estimate, *, share: float = 1.0) -> Loss | None:
    """Return the `mean_pair` of ratios that are 0 or so large that one decides; None if others have P mass > 1e-18."""
    # Source: docs/theory.md, Theorem 7.9.
    log_count, cut = math.log(sum(number for _, number in bins)), []
    for curve, number in bins:
        cut.append((curve, number, _pieces(curve)))
        log_p, losses = _some_losses(curve, cut[-1][-1])
        small_mass = float(np.exp(log_p[losses < log_count + _RARE]).sum())
        if curve.infinity_mass > _MOST_INFINITE or small_mass > _NO_SMALL:
            return None
    infinite = share * math.fsum(curve.infinity_mass * number for curve, number in bins) / math.exp(log_count)
    # Each step is cut into cells of equal width in loss: log P masses times its share of the mean, log Q masses, ends.
    log_ps, log_qs, lows, highs = [], [], [], []
    for curve, number, pieces in cut:
        parts = [_atoms(curve)]
        span = np.ptp(np.concatenate([parts[0][1], *(piece.loss[[0, -1]] for piece in pieces)]))
        step = max(float(span), 1.0) / _CELLS
        for piece in pieces:
            ends = np.arange(math.floor(piece.loss.min() / step), math.ceil(piece.loss.max() / step) + 1) * step
            parts.append(_panels(piece, ends))
        log_p, losses = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        cells, place = np.unique(np.floor(losses / step), return_inverse=True)
        log_ps.append(log_sum_exp_by_index(place, log_p, size=cells.size) + math.log(number) - log_count)
        log_qs.append(log_sum_exp_by_index(place, log_p - losses, size=cells.size))
        lows.append(cells * step)
        highs.append((cells + 1) * step)

    if estimate is not Estimate.UPPER:
        # Each large ratio alone, rounded down; else, with Q mass 1, ratio 1e-12. Some P mass is moved from large ratios
        # to the others, which covers the round-off of the large ones.
        losses = np.concatenate(lows) - log_count
        is_large = losses > _RARE
        log_p = np.concatenate(log_ps)[is_large] + math.log1p(-_MOVED - 4 * _QUADRATURE)
        log_q, losses = np.append(0.0, log_p - losses[is_large]), np.append(math.log(_MOVED), losses[is_large])
        order = np.argsort(losses, kind="stable")
        losses, place = np.unique(_with_share(losses[order], share), return_inverse=True)
        log_q = log_sum_exp_by_index(place, log_q[order], size=losses.size)
        margin = 4 * _TOLERANCE * (1 + np.abs(losses))
        return _lower_bound((losses, log_q + losses, log_q), (infinite, 0.0), margin, estimate)

    # From above: each cell's P mass at a loss of >= 50. The other direction is bounded by the largest ratio alone,
    # which is at most that of a cell if all are: 0 or in a cell that begins at or below it.
    losses = np.maximum(np.concatenate(highs) - log_count, _RARE)
    log_q, losses = np.concatenate(log_ps) - losses, _with_share(losses, share)
    points = np.unique(np.concatenate(lows))
    log_below, log_zero = np.zeros(points.size), 0.0
    for (_, number), logs, low in zip(bins, log_qs, lows, strict=True):
        order = np.argsort(low, kind="stable")
        masses = np.exp(logs[order])
        missing = max(0.0, 1 - float(masses.sum()))
        zero = missing if missing > _NO_MASS else 0.0
        at = np.searchsorted(low[order], points, side="right")
        below = np.append(0.0, np.cumsum(masses))[at] + zero
        above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)[at]
        with np.errstate(divide="ignore"):
            log_below += number * np.where(above < 0.5, np.log1p(-np.minimum(above, 0.5)), np.log(below))
            log_zero += number * float(np.log(zero))
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.append(log_zero, log_below[:-1])
        log_max = np.where(log_below > before, log_below + np.log(-np.expm1(before - log_below)), -np.inf)
    points = _with_share(points - log_count, share)
    is_used = (points < 0) & (log_max > -np.inf)
    raised = 4 * _QUADRATURE
    return glued(
        (log_q + losses + raised, losses + _TOLERANCE * (1 + losses)),
        (log_max[is_used] + raised * math.exp(log_count), (points - _TOLERANCE * (1 + np.abs(points)))[is_used]),
        infinity_mass=infinite + math.exp(-_RARE),
        only_other=(math.exp(log_zero) if share == 1 else 0.0) + _LEFT_OUT,
        max_losses=_MAX_LOSSES,
    )


def _with_share(losses: Array, share: float) -> Array:
    """Return the logarithms of 1 - share + share * ratio."""
    return losses if share == 1 else np.logaddexp(math.log1p(-share), math.log(share) + losses)


def mean_pair(bins: Sequence[tuple[LossCurve, int]], estimate: Estimate, *, share: float = 1.0) -> Loss:
    """Return the pair of 1 - share + share * (mean of the ratios), a bound of the kind that `estimate` says."""
    # Source: docs/theory.md, Theorem 7.9 and Theorem 9.12.
    if (large := large_ratio_pair(bins, estimate, share=share)) is not None:
        return large
    count = sum(number for _, number in bins)
    laws, rare_ratios, rare_masses = [], [], []
    for curve, number in bins:
        # Sums of ratios that are rare in the mean, those above e^50 count, need not be resolved: at most one of them
        # comes. They are taken out, unless all are.
        law = ratio_law(curve, estimate, count)
        ratios, masses = law.flat()
        is_large = ratios > count * math.exp(_RARE)
        if is_large.any() and (masses[~is_large] > 0).any():
            law = replace(law, rows=rows_where(law, ~is_large))
            rare_ratios.append(ratios[is_large])
            rare_masses.append(masses[is_large] * number)
        laws.append(sum_of_copies(law, number, estimate))
    total = reduce(lambda a, b: sum_of(a, b, estimate), laws)
    # From below, delta(D', D) asks for the small ratios: mass that is left out covers the rare ones.
    rare = None
    if rare_ratios and estimate is not Estimate.LOWER_REVERSED:
        rare = np.concatenate(rare_ratios), np.concatenate(rare_masses)
    return pair_of(total, count, estimate, share=share, rare=rare)


def pair_of(
    law: RatioLaw, count: int, estimate: Estimate, *, share: float = 1.0, rare: tuple[Array, Array] | None = None
) -> Loss:
    """Return the pair of ratio 1 - share + share S / count, S of the law `law`; TooLargeError if round-off decides."""
    # UPPER: a pair that bounds the losses of both directions from above. LOWER: one that bounds delta(D, D') of (P, Q)
    # from below; LOWER_REVERSED: one that bounds delta(D', D) from below, with D' as its first distribution. `rare` are
    # (ratios above e^50 count, their Q masses in all terms) that `law` leaves out.
    ratios, q = law.points()
    if rare is not None:
        ratios, q = points_of(np.append(ratios, rare[0]), np.append(q, rare[1]))
    if ratios.size > _MAX_LOSSES:
        # Three quarters of the places by mass and width: the error of a cell of width w and mass m is near m w^2, in
        # sum least for widths near the cube root. A quarter evenly in loss: a small delta, or composing, raises what is
        # rare.
        width = np.gradient(np.log(ratios))
        weight = np.cbrt(q * (1 + ratios / float((ratios * q).sum())) * width**2)
        below = np.cumsum(3 * weight / float(weight.sum()) + width / float(width.sum()))
        places = np.searchsorted(below, np.linspace(0, float(below[-1]), _MAX_LOSSES - 1))
        kept = np.unique(np.append(np.minimum(places, ratios.size - 1), 0).astype(np.float64)).astype(np.int64)
        if estimate is Estimate.UPPER:  # other ratios are split over their neighbours
            ends: Array = ratios[kept]
            right = np.clip(np.searchsorted(ends, ratios), 1, kept.size - 1)
            part = np.clip((ratios - ends[right - 1]) / (ends[right] - ends[right - 1]), 0.0, 1.0)
            fewer = np.zeros(kept.size)
            fewer += np.bincount(right, q * part, kept.size) + np.bincount(right - 1, q * (1 - part), kept.size)
            ratios, q = ends[fewer > 0], fewer[fewer > 0]
        else:  # merged into means
            mass = np.add.reduceat(q, kept)
            ratios, q = np.add.reduceat(q * ratios, kept) / mass, mass
    losses = np.log(1 - share + share * (ratios / count))
    zero, infinite = law.zero, share * law.infinite / count
    if share < 1:  # then the loss of ratio 0 is finite
        if zero:
            losses, q = np.append(math.log1p(-share), losses), np.append(zero, q)
        zero = 0.0
    # From below a ratio is a mean, whose error is at most that of its weights times the range of what is merged.
    quotient = 0.0 if estimate is Estimate.UPPER else 8 * law.error * law.distance
    if quotient > _MAX_QUOTIENT:
        raise TooLargeError(
            "likelihood ratios: expected fewer of them for a lower bound, got more than round-off allows"
        )
    margin = _TOLERANCE + _MARGIN * (1 + np.abs(losses)) + quotient
    raised = math.log1p(2 * law.error + 1e-14)
    log_q, log_p = np.log(q), np.log(q) + losses
    if estimate is Estimate.UPPER:
        missed = 0.0 if rare is None else math.exp(-_RARE)
        above = losses > 0  # losses are moved away from 0
        return glued(
            ((log_p + raised)[above], (losses + margin)[above]),
            ((log_q + raised)[~above], (losses - margin)[~above]),
            infinity_mass=infinite + 2 * missed,
            only_other=zero + missed,
            max_losses=_MAX_LOSSES,
        )
    # With a small probability nothing is released: that covers masses that are too large by round-off.
    lowered = math.exp(-raised)
    mean = losses, log_p - raised, log_q - raised
    return _lower_bound(mean, (infinite * lowered, zero * lowered), margin, estimate)


def _lower_bound(
    mean: tuple[Array, Array, Array], infinite: tuple[float, float], margin: Array, estimate: Estimate
) -> Loss:
    """Return the pair of LOWER's or LOWER_REVERSED's direction, each of its losses lowered by `margin`."""
    # `mean`: losses of the mean ratio, rising, their log P and log Q masses; `infinite`: P mass where it is infinite, Q
    # mass where it is 0.
    losses, log_p, log_q = mean
    if estimate is Estimate.LOWER:
        losses, logs, infinity_mass = losses - margin, log_p, infinite[0]
    else:
        losses, logs, infinity_mass = (-losses - margin)[::-1], log_q[::-1], infinite[1]
    return Loss(
        losses=tuple(losses.tolist()), log_masses=tuple(logs.tolist()), infinity_mass=infinity_mass, is_one_way=True
    )
