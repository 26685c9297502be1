"""Log moments of a step of which one outcome is almost certain, such as a vote with a clear majority (PATE).

For a step made from a dominating pair (P, Q) and an outcome of probability at least 1 - q on D, E[e^{zL}] is at most
the largest value over sets A of

    integral over A of (dP/dQ)^z dP  +  P(A^c)^(z+1) Q(A^c)^(-z),                                              (M)

P(A) = q for D||D' (P belongs to D), Q(A) = q for D'||D (Q belongs to D).

Source: docs/theory.md, Theorem 12.2.
"""

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.numerics.special import LOG_CDF_ERROR, normal_log_cdf_array, normal_quantile_array

BothWays = tuple[Array, Array]
"""(log moments of D||D', of D'||D); D is the data set on which the outcome has the known probability."""

MIN_MASS = 1e-280
"""Smaller probabilities are raised to this one, so that its powers stay floats."""
_ROUNDOFF = 4e-15  # relative error of an exponential and a few products
_UPPER_SHARES = np.array([0.0, 0.12, 0.25, 0.37, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98, 1.0])  # of q, in the upper tail
_LATTICE = ((-4.0, 0.004), (-12.0, 0.04), (-40.0, 0.4))  # (log of q over the largest q down to which, spacing)


def pure_dp_moments(q: Array, orders: Array, *, epsilon: float) -> BothWays:
    """Return log moments (D||D', D'||D), upper bounds, of (epsilon, 0)-DP steps with one outcome of mass >= 1 - q.

    Args:
        q: bound on the probability of the other outcomes, shape (n,), in [0, 1].
        orders: z > 0, shape (m,).
        epsilon: of one step, > 0.

    Returns:
        K for both directions, shape (n, m) each.

    References:
        Papernot et al. 2017 (1610.05755v4), Theorem 3, lets the certain outcome and the others have their worst
        losses both at once and is never smaller than the first of these.
    """
    # The pair has two losses only, epsilon and -epsilon. So the other outcomes have one of them each, all the same at
    # an extreme point: (M) is the larger of the two, as long as q < 1/(1 + e^epsilon), where the certain outcome
    # reaches the other loss. From there on the step is no better than randomized response.
    z = orders[None, :]
    worst = np.logaddexp(epsilon * (z + 1), -epsilon * z) - np.logaddexp(0.0, epsilon)
    limit = 1 / (1 + np.exp(epsilon))
    inside = np.clip(q, MIN_MASS, limit)[:, None]
    ahead, back = (
        np.maximum(*(_log_moment_of_two_losses(inside, z, loss, swapped=swapped) for loss in (epsilon, -epsilon)))
        for swapped in (0, 1)
    )
    is_unbounded = (q >= limit)[:, None]
    return (
        np.where(is_unbounded, worst, np.minimum(ahead, worst)),
        np.where(is_unbounded, worst, np.minimum(back, worst)),
    )


def _log_moment_of_two_losses(q: Array, z: Array, loss: float, *, swapped: int) -> Array:
    """Return the log moment, rounded up, if the other outcomes (mass q in P; swapped 1: in Q) have this loss."""
    other = np.minimum(q * np.exp(loss if swapped else -loss), 1 - 1e-16)
    p, q = (other, q) if swapped else (q, other)
    log_certain = (z + 1) * np.log1p(-p) - z * np.log1p(-q)
    slack = _ROUNDOFF * (z + 1) * (p / (1 - p) + q / (1 - q))
    return _log_sum(np.log(p) + z * loss, log_certain, slack, blur=_ROUNDOFF * (1 + z * abs(loss)))


def gaussian_moments(q: Array, orders: Array, *, shift: float) -> BothWays:
    """Return log moments (D||D', D'||D), upper bounds, of Gaussian steps with one outcome of mass >= 1 - q.

    Args:
        q: bound on the probability of the other outcomes, shape (n,), in [0, 1].
        orders: z > 0, shape (m,).
        shift: distance of the two means in standard deviations, > 0.

    Returns:
        K for both directions, shape (n, m) each, at most z (z + 1) shift^2 / 2: the Gaussian step itself.
    """
    # (M) in closed form, the upper tail beyond u and the lower one below v. Their shares of q run through cells, of
    # which each is bounded by its larger upper tail with its larger lower tail; q is rounded up to a lattice.
    places, at = _round_up_to_lattice(q)
    full = orders * (orders + 1) * shift**2 / 2
    ahead, back = (_log_moment_of_two_tails(places, orders, shift, mean=mean) for mean in (shift, 0.0))
    return np.minimum(ahead, full)[at], np.minimum(back, full)[at]


def _log_moment_of_two_tails(q: Array, orders: Array, shift: float, *, mean: float) -> Array:
    """Return log moments, shape (q, orders), if other outcomes are two tails of N(mean, 1); worst split."""
    # The share of q in the upper tail is unknown. In the cell of shares [a, b] the tails have at most b q and (1 - a)
    # q; the largest over the cells bounds every share.
    shares = np.stack([_UPPER_SHARES[1:], 1 - _UPPER_SHARES[:-1]])
    masses = np.log(np.minimum(q[:, None, None] * shares * (1 + 2 * LOG_CDF_ERROR), 0.999))
    upper, lower = mean - normal_quantile_array(masses[:, 0]), mean + normal_quantile_array(masses[:, 1])
    p = np.exp(normal_log_cdf_array(shift - upper)) + np.exp(normal_log_cdf_array(lower - shift))
    other = np.exp(normal_log_cdf_array(-upper)) + np.exp(normal_log_cdf_array(lower))
    whole = (upper <= lower) | (p >= 1) | (other >= 1)
    p, other = np.where(whole, 0.5, p), np.where(whole, 0.5, other)
    columns = []
    for z in orders:
        tilt, moved = z * (z + 1) * shift**2 / 2, (z + 1) * shift
        tails = np.logaddexp(normal_log_cdf_array(moved - upper), normal_log_cdf_array(lower - moved)) + tilt
        log_certain = (z + 1) * np.log1p(-p) - z * np.log1p(-other)
        slack = 4 * LOG_CDF_ERROR * (z + 1) * (p / (1 - p) + other / (1 - other))
        moment = _log_sum(tails, log_certain, slack, blur=4 * LOG_CDF_ERROR)
        columns.append(np.where(whole, tilt, moment).max(axis=1))
    return np.stack(columns, axis=1)


def _log_sum(raised: Array, other: Array, slack: Array, *, blur: Array | float) -> Array:
    """Return an upper bound on log(e^raised + e^other), with errors `blur` of e^raised and `slack` of the sum."""
    top = np.maximum(raised, other)
    with np.errstate(over="ignore"):
        near = np.log1p(np.exp(raised) * (1 + blur) + np.expm1(other) + slack)
    return np.where(top < 1, near, np.logaddexp(raised, other) + slack + blur)


def _round_up_to_lattice(q: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return (distinct probabilities, index among them for each q): log q rounded up to a multiple of a spacing."""
    log_q = np.log(np.clip(q, MIN_MASS, 1.0))
    log_ratio = log_q - log_q.max()
    rounded = np.full(q.shape, _LATTICE[-1][0])
    for lowest, step in reversed(_LATTICE):
        rounded = np.where(log_ratio >= lowest, np.ceil(log_ratio / step) * step, rounded)
    places, at = np.unique(np.minimum(rounded + log_q.max(), 0.0), return_inverse=True)
    return np.exp(places), at.reshape(q.shape)
