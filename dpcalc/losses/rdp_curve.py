"""Steps known by their Renyi divergences alone, and bounds for sampling such a mechanism.

With z = a - 1 the log moment of the loss, K(z) = log E_P[e^{zL}] = z D_a(P || Q), is convex in z by Hoelder's
inequality, and K(0) = 0; the largest K of several pairs is convex too. So bounds K(z_i) <= z_i rdp(a_i) at some orders
bound K in between by the lower convex hull. Nothing is claimed beyond the last order.

Source: docs/theory.md, Definition 3.4 and Theorem 8.6.
"""

import math
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpcalc.arrays import Array
from dpcalc.errors import InputError
from dpcalc.losses.pair import Segment
from dpcalc.numerics.special import LOG_CDF_ERROR, normal_log_cdf_array, normal_quantile_array
from dpcalc.records import dataclass

Renyi = Callable[[float], float]
"""rdp(a) of a mechanism: an upper bound on its Renyi divergence of order a > 1, in nats; `inf` where none is known."""

LARGEST_ORDER = 256  # of a bound that sums over whole orders: its time grows with the square
MANY_ORDERS = (
    *(1 + float(z) for z in np.geomspace(1e-3, 0.97, 100)),
    *map(float, range(2, LARGEST_ORDER)),
    *map(float, np.geomspace(LARGEST_ORDER, 1e7, 700)),
)
"""So close that chords between them cost less than 1e-3 of what a curve adds to epsilon."""
UNKNOWN = 1e100
"""Divergences from here on count as unknown."""
_BEYOND = 1e200  # log moment above the last order: finite, so that differences are not NaN
_FACTOR = 3.0  # of the Poisson bound if the signs of odd moments are not known


@dataclass(frozen=True, kw_only=True)
class RdpCurve:
    """A step of which only Renyi divergences at some orders are known, in nats, the same in both directions."""

    name: str  # identifies the curve; equal names must have equal values
    points: tuple[tuple[float, float], ...]  # (a, rdp(a)), upper bounds at increasing orders a > 1; finite, >= 0
    segments: ClassVar[tuple[Segment, ...]] = ()  # nothing is known of its losses, which count as finite
    infinity_mass: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Raise InputError for orders that do not increase from above 1, and divergences not in [0, inf)."""
        orders = [order for order, _ in self.points]
        if not orders or not orders[0] > 1 or orders != sorted(set(orders)) or math.isinf(orders[-1]):
            raise InputError("rdp curve: expected finite orders above 1 that rise, at least one")
        if not all(math.isfinite(value) and value >= 0 for _, value in self.points):
            raise InputError("rdp curve: expected finite divergences >= 0")

    @property
    def swapped(self) -> "RdpCurve":
        """The curve of the opposite direction: the same one."""
        return self

    @cached_property
    def _hull(self) -> tuple[Array, Array]:
        """Corners of the lower convex hull of the log moment, as arrays of orders z = a - 1 and of values."""
        # Andrew's monotone chain: a corner goes when the next point shows that it lies above the chord.
        corners = [(0.0, 0.0)]
        for order, value in self.points:
            new = (order - 1, (order - 1) * value)
            while len(corners) > 1:
                (x, y), (middle, height) = corners[-2:]
                rise = (new[1] - y) / (new[0] - x)
                if height < y + rise * (middle - x):
                    break
                corners.pop()
            corners.append(new)
        places, heights = np.array(corners).T
        return places, heights

    @property
    def corners(self) -> Array:
        """The orders z > 0 at which the slope of K changes."""
        return self._hull[0][1:]

    def rdp(self, order: float) -> float:
        """Return an upper bound on the divergence of order > 1, from the convex hull; inf above the last order."""
        if order > self.points[-1][0]:
            return math.inf
        return float(self.cumulants(np.array([order - 1]))[0][0]) / (order - 1)

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return (log moment, its slope) on the hull at orders z = a - 1; (1e200, 1e250) above the last order."""
        places, heights = self._hull
        right = np.clip(np.searchsorted(places, orders), 1, len(places) - 1)
        left = right - 1
        slope = (heights[right] - heights[left]) / (places[right] - places[left])
        value = heights[left] + slope * (orders - places[left])
        is_unknown = orders > places[-1]
        return np.where(is_unknown, _BEYOND, value), np.where(is_unknown, _BEYOND**1.25, slope)


def finite_points(rdp: Renyi, orders: Iterable[float]) -> tuple[tuple[float, float], ...]:
    """Return (order, divergence) at those of the orders at which the divergence is finite."""
    points = ((float(order), rdp(order)) for order in orders)
    return tuple((order, value) for order, value in points if value < math.inf)


def fixed_size_upper(rdp: Renyi, rate: float, order: int) -> float:
    """Return Wang et al.'s upper bound on the Renyi divergence of whole order >= 2 under a fixed-size draw.

    References:
        Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Theorem 9.
    """
    pure = rdp(math.inf)
    log_range = math.log(math.expm1(pure)) if 0 < pure < 700 else (math.inf if pure else -math.inf)
    second = min(
        math.log(4) + _log_expm1(rdp(2.0)),
        rdp(2.0) + min(math.log(2), 2 * log_range),
    )
    terms = [0.0, 2 * math.log(rate) + _log_comb(order, 2) + second]
    terms += [
        j * math.log(rate) + _log_comb(order, j) + (j - 1) * rdp(float(j)) + min(math.log(2), j * log_range)
        for j in range(3, order + 1)
    ]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def fixed_size_lower(rdp: Renyi, rate: float, order: int) -> float:
    """Return Wang et al.'s lower bound on the Renyi divergence of whole order >= 2 under a fixed-size draw, rate < 1.

    It holds for mechanisms that attain `rdp` and can distinguish batches with the record.

    References:
        Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Proposition 11.
    """
    odds = math.log(rate) - math.log1p(-rate)
    terms = [0.0, math.log(order) + odds]
    terms += [j * odds + _log_comb(order, j) + (j - 1) * rdp(float(j)) for j in range(2, order + 1)]
    return (order * math.log1p(-rate) + float(np.logaddexp.reduce(terms))) / (order - 1)


def poisson_upper(rdp: Renyi, rate: float, order: int, *, factor: float = _FACTOR) -> float:
    """Return Zhu and Wang's upper bound on the Renyi divergence of whole order >= 2 under a Poisson draw.

    `factor` is 3, or 1 where the odd moments E_Q[(P/Q - 1)^j] of all P, Q on neighbouring batches are known not to be
    negative, as with Gaussian and Laplace noise; the bound is then exact if some pair attains every rdp(j).

    References:
        Zhu, Wang 2019, "Poisson subsampled Renyi differential privacy", Theorems 5 and 6.
    """
    terms = [
        (order - 1) * math.log1p(-rate) + math.log1p((order - 1) * rate),
        _log_comb(order, 2) + 2 * math.log(rate) + (order - 2) * math.log1p(-rate) + rdp(2.0),
    ]
    terms += [
        math.log(factor)
        + _log_comb(order, j)
        + (order - j) * math.log1p(-rate)
        + j * math.log(rate)
        + (j - 1) * rdp(float(j))
        for j in range(3, order + 1)
    ]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def _log_comb(n: int, k: int) -> float:
    """Return the log of the binomial coefficient C(n, k)."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _log_expm1(x: float) -> float:
    """Return log(e^x - 1); -inf for x <= 0."""
    return x + math.log(-math.expm1(-x)) if x > 0 else -math.inf


# Log moments of a step of which one outcome is almost certain, such as a vote with a clear majority (PATE).
#
# For a step made from a dominating pair (P, Q) and an outcome of probability at least 1 - q on D, E[e^{zL}] is at most
# the largest value over sets A of
#
#     integral over A of (dP/dQ)^z dP  +  P(A^c)^(z+1) Q(A^c)^(-z),                                              (M)
#
# P(A) = q for D||D' (P belongs to D), Q(A) = q for D'||D (Q belongs to D).
#
# Source: docs/theory.md, Theorem 12.2.

BothWays = tuple[Array, Array]
"""(log moments of D||D', of D'||D); D is the data set on which the outcome has the known probability."""

MIN_MASS = 1e-280
"""Smaller probabilities are raised to this one, so that its powers stay floats."""
_ROUNDOFF = 4e-15  # relative error of an exponential and a few products
_UPPER_SHARES = np.array([0.0, 0.12, 0.25, 0.37, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98, 1.0])  # of q, in the upper tail
_LATTICE = ((-4.0, 0.004), (-12.0, 0.04), (-40.0, 0.4))  # (log of q over the largest q down to which, spacing)


def pure_dp_moments(q: Array, orders: Array, *, epsilon: float) -> BothWays:
    """Return upper bounds on log moments (D||D', D'||D) of an epsilon-DP step with an outcome of probability >= 1 - q.

    For q in [0, 1] of shape (n,) and orders z > 0 of shape (m,), shape (n, m) each; those of randomized response for q
    from 1/(1 + e^epsilon) on.

    References:
        Papernot et al. 2017 (1610.05755v4), Theorem 3, lets the certain outcome and the others have their worst
        losses both at once and is never smaller than the first of these.
    """
    # The pair has two losses only, epsilon and -epsilon. So the other outcomes have one of them each, all the same at
    # an extreme point: (M) is the larger of the two, as long as q < 1/(1 + e^epsilon), where the certain outcome
    # reaches the other loss. From there on the step is no better than randomized response.
    z = orders[None, :]
    randomized_response = np.logaddexp(epsilon * (z + 1), -epsilon * z) - np.logaddexp(0.0, epsilon)
    limit = 1 / (1 + np.exp(epsilon))
    mass = np.clip(q, MIN_MASS, limit)[:, None]

    def log_moment(p: Array, other: Array, loss: float) -> Array:  # if all outcomes but one have this loss
        relative_error = _ROUNDOFF * (1 + z * abs(loss))
        return _log_moment_upper(
            np.log(p) + z * loss, (p, other), z, mass_error=_ROUNDOFF, relative_error=relative_error
        )

    ahead, back = [], []
    for loss in (epsilon, -epsilon):
        ahead.append(log_moment(mass, np.minimum(mass * np.exp(-loss), 1 - 1e-16), loss))
        back.append(log_moment(np.minimum(mass * np.exp(loss), 1 - 1e-16), mass, loss))
    is_bounded = q[:, None] < limit
    return (
        np.where(is_bounded, np.minimum(np.maximum(*ahead), randomized_response), randomized_response),
        np.where(is_bounded, np.minimum(np.maximum(*back), randomized_response), randomized_response),
    )


def gaussian_moments(q: Array, orders: Array, *, shift: float) -> BothWays:
    """Return upper bounds on log moments (D||D', D'||D) of a Gaussian step with an outcome of probability >= 1 - q.

    Shapes as of `pure_dp_moments`; `shift` is the distance of the two means in standard deviations. They are at most
    z (z + 1) shift^2 / 2, the Gaussian step itself.
    """
    # (M) in closed form, the upper tail beyond u and the lower one below v. Their shares of q run through cells, of
    # which each is bounded by its larger upper tail with its larger lower tail; q is rounded up to a lattice.
    log_q = np.log(np.clip(q, MIN_MASS, 1.0))
    log_ratio = log_q - log_q.max()
    rounded = np.full(q.shape, _LATTICE[-1][0])
    for lowest, step in reversed(_LATTICE):
        rounded = np.where(log_ratio >= lowest, np.ceil(log_ratio / step) * step, rounded)
    log_places, at = np.unique(np.minimum(rounded + log_q.max(), 0.0), return_inverse=True)
    places = np.exp(log_places)
    full = orders * (orders + 1) * shift**2 / 2
    ahead, back = (_log_moment_of_two_tails(places, orders, shift, mean=mean) for mean in (shift, 0.0))
    at = at.reshape(q.shape)
    return np.minimum(ahead, full)[at], np.minimum(back, full)[at]


def _log_moment_of_two_tails(q: Array, orders: Array, shift: float, *, mean: float) -> Array:
    """Return log moments, shape (q, orders), if N(mean, 1) has mass q in two tails, worst split; inf if that is all."""
    # The share of q in the upper tail is unknown. In the cell of shares [a, b] the tails have at most b q and (1 - a)
    # q; the largest over the cells bounds every share.
    shares = np.stack([_UPPER_SHARES[1:], 1 - _UPPER_SHARES[:-1]])
    tails = np.log(np.minimum(q[:, None, None] * shares * (1 + 2 * LOG_CDF_ERROR), 0.999))
    upper, lower = mean - normal_quantile_array(tails[:, 0]), mean + normal_quantile_array(tails[:, 1])
    p, other = (np.exp(_log_tail_masses(center, upper, lower)).sum(axis=0) for center in (shift, 0.0))
    is_whole = (upper <= lower) | (p >= 1) | (other >= 1)
    masses = np.where(is_whole, 0.5, p), np.where(is_whole, 0.5, other)
    columns, error = [], 4 * LOG_CDF_ERROR
    for z in orders:
        log_tails = np.logaddexp(*_log_tail_masses((z + 1) * shift, upper, lower)) + z * (z + 1) * shift**2 / 2
        moment = _log_moment_upper(log_tails, masses, z, mass_error=error, relative_error=error)
        columns.append(np.where(is_whole, np.inf, moment).max(axis=1))
    return np.stack(columns, axis=1)


def _log_tail_masses(center: float, upper: Array, lower: Array) -> tuple[Array, Array]:
    """Return the log masses of N(center, 1) above `upper` and below `lower`."""
    return normal_log_cdf_array(center - upper), normal_log_cdf_array(lower - center)


def _log_moment_upper(
    log_outside: Array,
    masses: tuple[Array, Array],
    z: float | Array,
    *,
    mass_error: float,
    relative_error: float | Array,
) -> Array:
    """Return log(e^log_outside + (1 - p)^(z+1) (1 - q)^-z), masses (p, q), rounded up by the given relative errors."""
    p, q = masses
    log_certain = (z + 1) * np.log1p(-p) - z * np.log1p(-q)
    sum_error = mass_error * (z + 1) * (p / (1 - p) + q / (1 - q))
    with np.errstate(over="ignore"):
        near = np.log1p(np.exp(log_outside) * (1 + relative_error) + np.expm1(log_certain) + sum_error)
    far = np.logaddexp(log_outside, log_certain) + sum_error + relative_error
    return np.where(np.maximum(log_outside, log_certain) < 1, near, far)
