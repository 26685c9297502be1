"""Rows of Q masses on the multiples of one spacing, and their sums, convolutions and wider spacings.

Source: docs/theory.md, Theorem 9.12.
"""

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.errors import TooLargeError
from dpcalc.records import dataclass
from dpcalc.work import TURN, spend

BLOCK = 512  # numbers that are added up in a row: the bound on their round-off grows with their number
_MAX_ENTRIES = 1 << 17  # points of a row; a product of larger ones takes 2 s
_PRODUCT = 0.15  # units of work of one of its products
_LEAST_MASS = 1e-280  # Q mass of an entry below which it is left out: products of such masses have few digits


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


def convolve_rows(a: Row | None, b: Row | None) -> Row | None:
    """Return the row of the sum of two independent ratios on one spacing, with moments if a has; None if either is."""
    if not a or not b:
        return None
    cells = [_convolved(a.cells[0], b.cells[0])]
    if a.cells.shape[0] > 1:
        cells.append(_convolved(a.cells[0], b.cells[1]) + _convolved(a.cells[1], b.cells[0]))
    return Row(a.start + b.start, np.array(cells))


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
    return _split_blocks(start, blocks[0]) if kinds == 1 else _merge_blocks(start, *blocks)


def _split_blocks(start: int, masses: Array) -> Row:
    """Split each row of `masses` over its own point and the next one so that the mean is unchanged."""
    share = np.arange(masses.shape[1]) / masses.shape[1]
    at_next = masses @ share
    cells = masses @ (1 - share)
    cells[1:] += at_next[:-1]
    cells = cells if not at_next[-1] else np.append(cells, at_next[-1])
    return Row(start, cells[np.newaxis])


def _merge_blocks(start: int, masses: Array, moments: Array) -> Row:
    """Merge each row of `masses` into one point with a moment; all indices move along with the mean moment."""
    factor = masses.shape[1]
    offsets = masses @ (np.arange(factor) / factor)
    merged = np.array([masses.sum(axis=1), moments.sum(axis=1) / factor + offsets])
    # Where means drift away from their points the points are renamed: only what lies close together is to be merged.
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
