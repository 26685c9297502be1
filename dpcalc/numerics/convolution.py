"""Convolution powers of non-negative sequences by real FFT, with bounds on the round-off; sums on an integer grid.

Source: docs/theory.md, Theorem 9.5.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.work import spend

UNIT_ROUNDOFF = 2.0**-53
"""Unit round-off of float64: half the distance from 1 to the next larger number."""


def sum_by_index(indices: NDArray[np.int64], weights: Array, *, size: int) -> Array:
    """Return the sum of the weights of each index from 0 to size - 1; 0 for an index that does not occur."""
    return np.bincount(indices, weights=weights, minlength=size).astype(np.float64)


def in_rows(terms: Array, width: int, *, before: int = 0) -> Array:
    """Return a copy of the terms as rows of `width`, with `before` zeros in front, and zeros to fill the last row."""
    rows = np.zeros(-(-(before + terms.size) // width) * width, dtype=terms.dtype)
    rows[before : before + terms.size] = terms
    return rows.reshape(-1, width)


def unit_roundoff(x: Array) -> float:
    """Return the unit round-off of an array's floating-point type: 2^-53 for float64."""
    return float(np.finfo(x.dtype).eps) / 2


def fft_relative_error(size: int, unit: float) -> float:
    """Return an upper bound on the 2-norm error of one FFT, relative to the 2-norm of its input."""
    return 8 * unit * max(1.0, math.log2(size))


def _transform_work(x: Array, size: int) -> float:
    """Return the estimated work of one FFT of this size, in units of `dpcalc.work`; 4 times as much beyond float64."""
    # Calls cost 10,000 units however short; extended precision takes four times as long as float64.
    return (4 if x.dtype.itemsize > 8 else 1) * (10_000 + size * (5 + math.log2(max(size, 2))))


def fast_fft_size(min_size: int) -> int:
    """Return the smallest even product of a power of 2 and 1, 3, 5, 7, 9 or 15 that is at least `min_size` >= 1."""
    return min(odd << max(1, math.ceil(math.log2(min_size / odd))) for odd in (1, 3, 5, 7, 9, 15))


def cyclic_powers(mass: Array, start: int, counts: tuple[int, ...], *, size: int) -> Iterator[tuple[Array, float]]:
    """Yield the k-fold cyclic convolution by FFT for each k >= 1 in counts, and a bound on its 2-norm round-off."""
    spend(_transform_work(mass, size) * (1 + 2 * len(counts)))
    wrapped = _wrap(mass, start, size)
    spectrum = np.fft.rfft(wrapped)
    unit = unit_roundoff(mass)
    fft_error = fft_relative_error(size, unit)
    length = norm(wrapped)
    for count in counts:
        # By squaring, since numpy's ** takes logarithms, whose round-off has no bound that is as simple.
        raised, factor, remaining = np.ones_like(spectrum), spectrum, count
        while remaining:
            if remaining & 1:
                raised = raised * factor
            factor, remaining = factor * factor, remaining >> 1
        power = np.fft.irfft(raised, size)
        # No entry of the spectrum exceeds 1, so an error of the forward transform grows at most `count` times in the
        # power; repeated squaring adds its own round-off, and the inverse transform adds that of one more FFT.
        yield power, count * (fft_error + 4 * unit) * length + fft_error * norm(power)


def cyclic_power_increments(
    base: tuple[Array, int], addend: tuple[Array, int], counts: tuple[int, ...], *, size: int
) -> Iterator[tuple[Array, float]]:
    """Yield cyclic (base + addend)^k - base^k by FFT for each k in counts, and a bound on its 2-norm round-off."""
    (base_mass, base_start), (addend_mass, addend_start) = base, addend
    spend(_transform_work(addend_mass, size) * (2 + 4 * len(counts)))
    wrapped, wrapped_addend = _wrap(base_mass, base_start, size), _wrap(addend_mass, addend_start, size)
    spectrum, spectrum_addend = np.fft.rfft(wrapped), np.fft.rfft(wrapped_addend)
    unit = unit_roundoff(wrapped_addend)
    fft_error = fft_relative_error(size, unit)
    total, base_norm, addend_norm = float(wrapped_addend.sum()), norm(wrapped), norm(wrapped_addend)
    for count in counts:
        # With D(k) = (base + addend)^k - base^k: D(j + k) = D(j) D(k) + D(j) base^k + base^j D(k).
        raised, change = spectrum, spectrum_addend
        for digit in f"{count:b}"[1:]:
            change = change * (change + 2 * raised)
            raised = raised * raised
            if digit == "1":
                change = change * (spectrum + spectrum_addend) + raised * spectrum_addend
                raised = raised * spectrum
        increment = np.fft.irfft(change, size)
        # Three parts: the addend's transform and the power's own round-off, relative to the addend; the base's
        # transform, which counts only where it meets the addend at least once; the inverse transform.
        of_addend = fft_error + (32 * math.log2(2 * count) + 8 * count) * unit
        of_base = min(1.0, count * total) * (fft_error + 4 * unit)
        yield increment, count * (of_addend * addend_norm + of_base * base_norm) + fft_error * norm(increment)


def norm(x: Array) -> float:
    """Return the 2-norm; by a plain sum, because threads of a BLAS cost more than they save for these sizes."""
    return math.sqrt(float((x * x).sum()))


def _wrap(mass: Array, start: int, size: int) -> Array:
    """Return the sums of the terms by position modulo `size`, where term i has position start + i."""
    return np.roll(in_rows(mass, size).sum(axis=0), start % size)


def convolve(a: Array, b: Array) -> tuple[Array, float]:
    """Return the convolution of two arrays >= 0, and an upper bound on the 2-norm of its round-off."""
    length = a.size + b.size - 1
    size = fast_fft_size(length)
    spend(3 * _transform_work(a, size))
    product = np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)[:length]
    # The error of one transform counts by its 2-norm, that of the other by its largest entry, which is relative to the
    # sum of the terms, about 1. So both are relative to one norm, the smaller, as are the product and the way back.
    error = 4 * fft_relative_error(size, max(unit_roundoff(a), unit_roundoff(b)))
    return product, error * min(norm(a), norm(b))
