"""Log-space sums, the standard normal distribution and Gauss-Legendre quadrature.

scipy.special has most of this. Functions of arrays that only PATE and lower bounds without a grid need are SciPy's; the
others are on the start-up path of `dpcalc epsilon`, where importing scipy.special takes longer than all the rest.
tests/numerics/test_normal.py compares them with SciPy and mpmath.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.work import ELEMENT, TURN, spend

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


def gauss_legendre_panels(edges: Array, *, order: int) -> tuple[Array, Array]:
    """Return (nodes, log weights) of Gauss-Legendre quadrature with `order` nodes between neighbouring edges."""
    unit_nodes, log_weights = _unit_rule(order)
    widths = np.diff(edges)
    nodes = edges[:-1, None] + widths[:, None] * unit_nodes
    return nodes.ravel(), (np.log(widths)[:, None] + log_weights).ravel()
