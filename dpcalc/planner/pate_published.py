"""What the published analyses of PATE print for the same votes."""

import math

import numpy as np
from numpy.typing import NDArray

from dpcalc.guarantee import Kind, Row
from dpcalc.mechanisms.pate import Aggregation, GNMax, LNMax, Votes

Array = NDArray[np.float64]

LNMAX_MOMENTS = np.arange(1.0, 9.0)
"""The moments of the published LNMax analysis."""
GNMAX_ORDERS = np.concatenate([np.arange(2.0, 100.0, 0.5), np.geomspace(100.0, 500.0, 100)])
"""Renyi orders of the published GNMax analysis."""


def published(aggregation: Aggregation, votes: Votes, *, delta: float) -> tuple[Row, ...]:
    """The papers' numbers, data-independent and data-dependent, where there is a paper.

    Args:
        aggregation: LNMax or GNMax; others have no row.
        votes: of the teachers.
        delta: in (0, 1).

    Returns:
        As published: the data-dependent one says how much likelier a label is with these votes than with a neighbour's,
        not the reverse.
    """
    chances = votes.capped(votes.union_bound(aggregation.overtakes(np.arange(votes.teachers + 1.0))))
    match aggregation:
        case LNMax(gamma=gamma):
            source, orders = "Papernot et al. 2017", LNMAX_MOMENTS
            sums = votes.queries * pure_dp(2 * gamma, orders), lnmax(chances, gamma, orders).sum(0)
        case GNMax(sigma=sigma):
            source, orders = "Papernot et al. 2018", GNMAX_ORDERS - 1
            sums = votes.queries * orders * (orders + 1) / sigma**2, gnmax(chances, sigma, orders).sum(0)
        case _:
            return ()
    whatever, of_votes = (float(((total - math.log(delta)) / orders).min()) for total in sums)
    one_way = "one direction only: from these votes to a neighbour's"
    return (
        _row(source, "data-independent", whatever, ""),
        _row(source, "data-dependent", of_votes, one_way),
    )


def _row(source: str, bound: str, epsilon: float, note: str) -> Row:
    """One published number."""
    return Row(method=source, bound=bound, epsilon=epsilon, kind=Kind.AS_PUBLISHED, valid=not note, note=note)


def pure_dp(epsilon: float, moments: Array) -> Array:
    """Log moments of (epsilon, 0)-DP steps: the smaller of epsilon l and epsilon^2 l (l + 1) / 2.

    References:
        Papernot et al. 2017 (1610.05755v4), Theorem 2.
    """
    return np.minimum(epsilon * moments, epsilon**2 * moments * (moments + 1) / 2)


def lnmax(chances: Array, gamma: float, moments: Array) -> Array:
    """Log moments of LNMax, shape (queries, moments).

    References:
        Papernot et al. 2017 (1610.05755v4), Theorem 3 with the data-independent bounds.
    """
    q, x = chances[:, None], 2 * gamma
    applies = q < math.expm1(x) / math.expm1(2 * x)
    inside = np.where(applies, q, 0.0)
    certain = (moments + 1) * np.log1p(-inside) - moments * np.log1p(-inside * math.exp(x))
    with np.errstate(divide="ignore"):
        found = np.logaddexp(certain, np.log(inside) + x * moments)
    return np.where(applies, np.minimum(found, pure_dp(x, moments)), pure_dp(x, moments))


def gnmax(chances: Array, sigma: float, orders: Array) -> Array:
    """(a - 1) times the Renyi divergence of GNMax of order a = orders + 1, shape (queries, orders).

    Theorem 6 with the orders mu_2 = sigma sqrt(log(1/q)), mu_1 = mu_2 + 1 of Proposition 10, where its conditions hold.

    References:
        Papernot et al. 2018 (1802.08908v1), Theorem 6, Propositions 8 and 10.
    """
    whatever = orders * (orders + 1) / sigma**2
    log_q = np.log(np.maximum(chances, 1e-300))[:, None]
    second = np.maximum(sigma * np.sqrt(-log_q), 1 + 1e-9)  # mu_2
    first = second + 1
    of_first, of_second = first / sigma**2, second / sigma**2
    rising = (second - 1) * of_second - second * (np.log(first / (first - 1)) + np.log(second / (second - 1)))
    applies = (first >= orders + 1) & (second > 1 + 1e-9) & (log_q <= rising) & (-log_q > of_second)
    log_rest = np.log1p(-np.exp(log_q))
    with np.errstate(invalid="ignore", divide="ignore"):
        inner = np.log1p(-np.exp(np.minimum((log_q + of_second) * (second - 1) / second, -1e-300)))
        certain = log_rest + orders * (log_rest - inner)
        other = log_q + orders * (of_first - log_q / (first - 1))
        found = np.logaddexp(certain, other)
    return np.where(applies, np.minimum(found, whatever), whatever)
