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
    """Q masses near neighbouring multiples of a spacing.

    Attributes:
        start: index of the first point, >= 0; its ratio is the index times the spacing.
        cells: (masses,) at the points, or (masses, moments): a mass may lie off its point, its moment is the mass times
            the distance, in spacings. Shape (1 or 2, n).
    """

    start: int
    cells: Array

    @property
    def end(self) -> int:
        """Index behind the last point."""
        return self.start + int(self.cells.shape[1])

    def ratios(self, level: int) -> Array:
        """Return the mean ratio of the mass at each point, on a spacing of 2^level; the point itself for no mass."""
        index = np.arange(self.start, self.end, dtype=np.float64)
        for moments in self.cells[1:]:
            index += moments / np.where(self.cells[0] > 0, self.cells[0], 1.0)
        return np.ldexp(index, level)

    def distance(self, level: int) -> float:
        """Return the largest distance of a mass from its point, relative to the ratio, on a spacing of 2^level."""
        if self.cells.shape[0] == 1:
            return 0.0
        ratios, points = self.ratios(level), np.ldexp(np.arange(self.start, self.end, dtype=np.float64), level)
        return float((np.abs(ratios - points) / ratios).max())


def add_rows(*rows: Row | None) -> Row | None:
    """Return the sum of the masses of rows on one spacing, None left out; None for no rows, or TooLargeError (2^17)."""
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
    """Return the row of the sum of two independent ratios on one spacing, one of each row; None if either is None.

    Args:
        a: masses, with moments or without.
        b: likewise.
    """
    if not a or not b:
        return None
    cells = [_convolved(a.cells[0], b.cells[0])]
    if a.cells.shape[0] > 1:
        cells.append(_convolved(a.cells[0], b.cells[1]) + _convolved(a.cells[1], b.cells[0]))
    return Row(a.start + b.start, np.array(cells))


def _convolved(a: Array, b: Array) -> Array:
    """Convolve two arrays by sums of products, not by FFT: each entry is right to a few units in its last place."""
    spend(_PRODUCT * a.size * b.size + TURN)
    a, b = sorted((a, b), key=len)
    result = np.zeros(a.size + b.size - 1)
    for at in range(0, a.size, BLOCK):
        block = a[at : at + BLOCK]
        result[at : at + block.size + b.size - 1] += np.convolve(block, b)
    return result


def widen_row(row: Row, octaves: int) -> Row:
    """Return the row on 2^octaves times its spacing, masses split over two points or, if it has moments, merged.

    Args:
        row: on some spacing.
        octaves: doublings of it, >= 0.
    """
    factor, (kinds, size) = 1 << octaves, row.cells.shape
    left = row.start % factor
    blocks = np.zeros((kinds, (left + size) // factor + 1, factor))
    blocks.reshape(kinds, -1)[:, left : left + size] = row.cells
    share = np.arange(factor) / factor
    over = blocks[0] @ share
    if kinds == 1:
        near = blocks[0] @ (1 - share)
        near[1:] += over[:-1]
        near = near if not over[-1] else np.append(near, over[-1])
        return Row(row.start // factor, near[np.newaxis])
    merged = np.array([blocks[0].sum(axis=1), blocks[1].sum(axis=1) / factor + over])
    # Where means drift away from their points the points are renamed: only what lies close together is to be merged.
    drift = max(round(float(merged[1].sum()) / float(merged[0].sum())), -(row.start // factor))
    merged[1] -= drift * merged[0]
    return Row(row.start // factor + drift, merged)


def crop_row(row: Row, is_used: NDArray[np.bool_]) -> Row | None:
    """Return a row's used masses above 1e-280, cut to the first and last of them; None if there is none.

    Args:
        row: any row.
        is_used: of each point.
    """
    is_used = is_used & (row.cells[0] > _LEAST_MASS)
    used = np.flatnonzero(is_used)
    if not used.size:
        return None
    inside = slice(int(used[0]), int(used[-1]) + 1)
    return Row(row.start + inside.start, row.cells[:, inside] * is_used[inside])
