"""Numerical methods without privacy: log-space sums, the normal distribution, quadrature, roots, convolution powers."""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpcalc.work import ELEMENT, TURN, spend

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
Complex = NDArray[np.complex128]


# Log-space sums, the standard normal distribution and Gauss-Legendre quadrature.
# scipy.special has most of this. Functions of arrays that only PATE and lower bounds without a grid need are SciPy's;
# the others are on the start-up path of `dpcalc epsilon`, where importing scipy.special takes longer than all the rest.
# tests/oracles/test_normal.py compares them with SciPy and mpmath.


# Sums and differences of positive numbers that are given by their logarithms.


# Range of logarithms that `log_cumsum_exp` sums on one scale; e^300 squared is near what a float holds.
_MAX_LOG_RANGE = 300.0


_SMALLEST_EXACT = 1e-300  # floats below this have fewer digits, or are 0


def log_fraction(x: Fraction) -> float:
    """Return log(x) of a fraction x >= 0, accurate also below the smallest float; -inf at 0."""
    if not x:
        return -math.inf
    rounded = float(x)
    return math.log(rounded) if rounded > _SMALLEST_EXACT else math.log(x.numerator) - math.log(x.denominator)


def log1m_exp(x: Array) -> Array:
    """Return log(1 - e^-x) for x >= 0, without cancellation for small or large x; -inf at 0; any shape."""
    with np.errstate(divide="ignore"):
        return np.where(x < 0.5, np.log(-np.expm1(-np.minimum(x, 1.0))), np.log1p(-np.exp(-np.maximum(x, 0.1))))


def log_sum_exp(terms: Sequence[Array]) -> Array:
    """Return the elementwise log of the sum of e^x over arrays of one shape; -inf where all terms are -inf."""
    # In place: a stacked copy would double the memory.
    top = terms[0].copy()
    for term in terms[1:]:
        np.maximum(top, term, out=top)
    scale = np.where(np.isfinite(top), top, 0.0)
    total = np.zeros(scale.shape)
    for term in terms:
        total += np.exp(term - scale)
    with np.errstate(divide="ignore"):
        return np.log(total) + scale


def log_cumsum_exp(x: Array) -> Array:
    """Return log(e^x[0] + ... + e^x[i]) for each i; -inf while all terms are -inf."""
    # The relative error of each sum is at most that of its terms, n units in the last place, and that of its logarithm.
    # Terms are added on a common scale, so that a logarithm is taken once for each sum. Where the running maximum
    # has risen by _MAX_LOG_RANGE the sum so far becomes one term on a new scale.
    top = np.maximum.accumulate(x) if x.size else x
    log_sums = np.full(x.shape, -np.inf)
    start, previous = int(np.searchsorted(top, -np.inf, side="right")), -np.inf
    while start < x.size:
        spend(40 * TURN + ELEMENT)
        scale = float(top[start])
        stop = int(np.searchsorted(top, scale + _MAX_LOG_RANGE, side="right"))
        log_sums[start:stop] = scale + np.log(np.exp(previous - scale) + np.cumsum(np.exp(x[start:stop] - scale)))
        start, previous = stop, float(log_sums[stop - 1])
    return log_sums


def log_sum_exp_by_index(indices: NDArray[np.intp], x: Array, *, size: int) -> Array:
    """Return, for each i from 0 to size - 1, the log of the sum of e^x[j] over j with indices[j] = i; -inf for none."""
    top = np.full(size, -np.inf)
    np.maximum.at(top, indices, x)
    scale = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.bincount(indices, weights=np.exp(x - scale[indices]), minlength=size)) + scale


# The standard normal distribution. Phi is its cumulative distribution function, phi its density.


LOG_CDF_ERROR = 1e-10
"""Bound on the absolute error of `normal_log_cdf_array` for x > -900, and on the relative error of the mass below
`normal_quantile_array`. SciPy errs by less than 1e-12 near 0 and by 2^-53 x^2 / 2 far out; callers add this to their
bounds, so ten times more would cost 1e-9 of epsilon."""
_LOG_ROOT_2PI = math.log(math.sqrt(2 * math.pi))
# From which x on Mills' ratio is a continued fraction, and of how many terms: more of them change no digit.
_FRACTION_START, _FRACTION_TERMS = 4.0, 100


def normal_cdf(x: float) -> float:
    """Return Phi(x), within a few units in the last place times 1 + x^2; 0 below -38.5, where it underflows."""
    return math.erfc(-x / math.sqrt(2)) / 2


def normal_log_cdf(x: float) -> float:
    """Return log Phi(x) of one number, without underflow or cancellation, within a few units in the last place."""
    # Phi(x) underflows far below 0, its logarithm does not; near 1 the complement keeps the digits.
    if x < -_FRACTION_START:
        return -x * x / 2 - _LOG_ROOT_2PI + math.log(mills_ratio(-x))
    return math.log(normal_cdf(x)) if x < 0 else math.log1p(-normal_cdf(-x))


def normal_cdf_array(x: Array) -> Array:
    """Return Phi(x) elementwise, within a relative 1e-13 times 1 + x^2 / 100 for x > -37; loads SciPy."""
    from scipy.special import ndtr

    return ndtr(x)


def normal_log_cdf_array(x: Array) -> Array:
    """Return log Phi(x) elementwise, within an absolute LOG_CDF_ERROR for x > -900; loads SciPy.

    Example:
        >>> [round(float(value), 9) for value in normal_log_cdf_array(np.array([-50.0, -1.0, 0.0]))]
        [-1254.831361139, -1.841021645, -0.693147181]
    """
    from scipy.special import log_ndtr

    return log_ndtr(x)


def normal_quantile_array(log_mass: Array) -> Array:
    """Return x with Phi(x) = e^log_mass elementwise, within a relative LOG_CDF_ERROR of the mass; loads SciPy."""
    from scipy.special import ndtri_exp

    return ndtri_exp(log_mass)


def mills_ratio(x: float) -> float:
    """Return Mills' ratio (1 - Phi(x)) / phi(x) for x >= -37.

    References:
        Laplace's continued fraction, NIST Digital Library of Mathematical Functions, 7.9.1.

    Example:
        >>> round(mills_ratio(0.0), 12), round(mills_ratio(1e6) * 1e6, 11)
        (1.253314137316, 1.0)
    """
    # The continued fraction converges for x > 0 only, and too slowly near 0; above, e^(x^2 / 2) would lose digits.
    if x < _FRACTION_START:
        return math.sqrt(2 * math.pi) * math.exp(x * x / 2) * normal_cdf(-x)
    fraction = x
    for k in range(_FRACTION_TERMS, 0, -1):
        fraction = x + k / fraction
    return 1 / fraction


# Composite Gauss-Legendre quadrature.


@cache
def _unit_rule(order: int) -> tuple[Array, Array]:
    """Return (ascending nodes, log weights) of the Gauss-Legendre rule on [0, 1], shape (order,) each; cached."""
    # From the eigenvectors of the Jacobi matrix (Golub, Welsch 1969); numpy.polynomial would take longer to load.
    k = np.arange(1, order)
    off_diagonal = k / np.sqrt(4.0 * k**2 - 1)
    nodes, vectors = np.linalg.eigh(np.diag(off_diagonal, -1))
    return (nodes + 1) / 2, 2 * np.log(np.abs(vectors[0]))


def gauss_legendre_panels(
    edges: Array, *, order: int, inner: NDArray[np.bool_] | slice = slice(None)
) -> tuple[Array, Array]:
    """Return (nodes, log weights) of Gauss-Legendre quadrature with `order` nodes between neighbouring edges.

    `inner` are the intervals that count.
    """
    unit_nodes, log_weights = _unit_rule(order)
    widths = np.diff(edges)[inner]
    nodes = edges[:-1][inner][:, None] + widths[:, None] * unit_nodes
    return nodes.ravel(), (np.log(widths)[:, None] + log_weights).ravel()


# Roots and minima of functions of one real variable: certified brackets, a quick approximate root, a minimum.


# Longest extrapolations of `falling_root`; its variable is a logarithm, so at most half and eight times the value. Ten
# times longer steps to the left end where moments are expensive.
_MAX_STEP_LEFT, _MAX_STEP_RIGHT = -math.log(2), math.log(8)


def bracket_root(f: Callable[[float], float], low: float, high: float, *, tolerance: float) -> tuple[float, float]:
    """Return a narrow bracket (left, right) of a sign change of f, by Chandrupatla's method."""
    # Source: Chandrupatla 1997, Advances in Engineering Software 28(3), 145-149.
    # a is the newest point, b the end of the bracket opposite to it, c the point before; t is the place of the next
    # one between a and b. The rounded width ends the loop also where the root is 0: hence the tiny absolute term.
    a, b = high, low
    fa, fb = f(a), f(b)
    c, fc, t = a, fa, 0.5
    while True:
        if abs(a - b) <= tolerance * max(abs(a), abs(b)) + 1e-300:
            break
        x = a + t * (b - a)
        fx = f(x)
        if (fx > 0) == (fa > 0):
            c, fc = a, fa
        else:
            c, b, fc, fb = b, a, fb, fa
        a, fa = x, fx
        t = 0.5  # or by inverse interpolation where that is safe
        if fa not in {fb, fc} and fb != fc and c != b:
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            if phi * phi < xi and (1 - phi) ** 2 < 1 - xi:
                t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        min_fraction = 0.25 * tolerance * max(abs(a), abs(b)) / max(abs(b - a), 1e-300)
        t = min(1 - min_fraction, max(min_fraction, t)) if min_fraction < 0.5 else 0.5
    return min(a, b), max(a, b)


def falling_root(
    f: Callable[[float], tuple[float, float]], start: float, ends: tuple[float, float], *, value_tolerance: float
) -> float:
    """Return an approximate root of a falling function; the end of `ends` nearest to the root if it lies outside."""
    low, high = -math.inf, math.inf
    samples: list[Sample] = []
    x = start
    while True:
        value, slope = f(x)
        samples.append((value, x, slope if slope < 0 else math.nan))
        low, high = (x, high) if value > 0 else (low, x)
        # The inverse function is interpolated: it gives the next point at once, without a root of a polynomial.
        has_nodes = len(samples) > 1 or slope < 0
        guess = inverse_at_zero(samples[-3:]) if has_nodes else x + value
        inside = low < guess < high
        if abs(value) <= value_tolerance:
            return guess if inside else x
        # Interpolation also fails where it no longer halves the value (infinite values, steps).
        if not inside or (len(samples) > 4 and abs(value) > abs(samples[-2][0]) / 2):
            # The middle of the bracket or, if an end is infinite, a step towards the root.
            step = _MAX_STEP_RIGHT if value > 0 else _MAX_STEP_LEFT
            guess = (low + high) / 2 if math.isfinite(low + high) else x + step
        guess = min(max(guess, x + _MAX_STEP_LEFT), x + _MAX_STEP_RIGHT)
        if guess in {low, high} or x == ends[value > 0]:
            return x
        x = min(max(guess, ends[0]), ends[1])


Sample = tuple[float, float, float]
"""A function's value, the point where it was taken, and the derivative there, NaN if it is not known."""


def inverse_at_zero(samples: list[Sample]) -> float:
    """Return the point at which the value is 0, by inverse Hermite interpolation of the samples."""
    nodes = [sample for sample in samples for _ in range(1 if math.isnan(sample[2]) else 2)]
    values, column = [value for value, _, _ in nodes], [point for _, point, _ in nodes]
    result, product = column[0], 1.0
    for order in range(1, len(nodes)):
        differences = []  # divided; 1 / slope for two equal nodes, NaN for equal values elsewhere
        for i, (low, high) in enumerate(pairwise(column)):
            first, last = values[i], values[i + order]
            if first != last:
                differences.append((high - low) / (last - first))
            else:
                differences.append(1 / nodes[i][2] if low == high else math.nan)
        column = differences
        product *= -values[order - 1]
        result += product * column[0]
    return result


def zoomed_minimum(
    f: Callable[[Array], Array], points: Array, *, rounds: int, count: int
) -> tuple[float, float, tuple[float, float]]:
    """Return (smallest value of f, its place, neighbours of that on the last grid)."""
    # Over `points` > 0 and `rounds` - 1 finer grids around the best point.
    # Each round evaluates some points at once and goes on between the two neighbours of the best one. For bounds that
    # hold at every order: whatever place is found, the value there is a bound.
    smallest, place = math.inf, float(points[0])
    for _ in range(rounds):
        values = f(points)
        best = int(np.argmin(np.where(np.isnan(values), math.inf, values)))
        if values[best] < smallest:
            smallest, place = float(values[best]), float(points[best])
        low, high = float(points[max(best - 1, 0)]), float(points[min(best + 1, points.size - 1)])
        points = np.geomspace(low, high, count)
    return smallest, place, (low, high)


# Convolution powers of non-negative sequences by real FFT, with bounds on the round-off; sums on an integer grid.
# Source: docs/theory.md, Theorem 9.5.


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
