"""All epsilons of one PATE ensemble in one call, and the numbers that the published analyses print for it."""

import math
from dataclasses import dataclass

import numpy as np

from dpcalc.arrays import Array
from dpcalc.errors import InputError
from dpcalc.guarantee import Guarantee, Kind, Row
from dpcalc.mechanisms.pate import Aggregation, GNMax, LNMax, Votes, other_wins_bound
from dpcalc.pate.sanitised import SanitisedEpsilon, draw_sanitised_epsilon, release_terms
from dpcalc.planner.pate import (
    DataDependentResult,
    data_dependent_guarantee,
    data_independent_guarantee,
    max_queries,
    max_queries_by_votes,
    min_noise,
)

# The published analyses of Papernot et al. 2017 and 2018.


LNMAX_MOMENTS = np.arange(1.0, 9.0)
"""The moments of the published LNMax analysis."""
GNMAX_ORDERS = np.concatenate([np.arange(2.0, 100.0, 0.5), np.geomspace(100.0, 500.0, 100)])
"""Renyi orders of the published GNMax analysis."""


def published_rows(aggregation: Aggregation, votes: Votes, *, delta: float) -> tuple[Row, ...]:
    """Return two rows, the papers' data-independent and data-dependent epsilon; none for Confident-GNMax.

    Args:
        aggregation: with its noise.
        votes: of the teachers.
        delta: in (0, 1).

    Returns:
        Epsilons as published. The data-dependent one is marked as not valid: it covers one direction only, from these
        votes to those of a neighbour.
    """
    other_wins = other_wins_bound(aggregation, votes)
    match aggregation:
        case LNMax(gamma=gamma):
            source, moments = "Papernot et al. 2017", LNMAX_MOMENTS
            independent = votes.queries * pure_dp_log_moments(2 * gamma, moments)
            dependent = lnmax_log_moments(other_wins, gamma, moments).sum(0)
        case GNMax(sigma=sigma):
            source, moments = "Papernot et al. 2018", GNMAX_ORDERS - 1
            independent = votes.queries * moments * (moments + 1) / sigma**2
            dependent = gnmax_log_moments(other_wins, sigma, moments).sum(0)
        case _:
            return ()
    # The tail bound of both papers: epsilon = min over l of (log moment - log delta) / l.
    epsilons = (float(((total - math.log(delta)) / moments).min()) for total in (independent, dependent))
    kinds = (("data-independent", ""), ("data-dependent", "one direction only: from these votes to a neighbour's"))
    return tuple(
        Row(method=source, bound=bound, epsilon=epsilon, kind=Kind.AS_PUBLISHED, valid=not note, note=note)
        for epsilon, (bound, note) in zip(epsilons, kinds, strict=True)
    )


def pure_dp_log_moments(epsilon: float, moments: Array) -> Array:
    """Return min(epsilon l, epsilon^2 l (l + 1) / 2), published for log moments l of an epsilon-DP step.

    Args:
        epsilon: of the step, > 0.
        moments: l > 0, any shape.

    References:
        Papernot et al. 2017 (1610.05755v4), Theorem 2.
    """
    return np.minimum(epsilon * moments, epsilon**2 * moments * (moments + 1) / 2)


def lnmax_log_moments(other_wins: Array, gamma: float, moments: Array) -> Array:
    """Return the published bound on log moments of LNMax, data-dependent where its condition holds, per query.

    Args:
        other_wins: upper bound on the probability that another than the most frequent label wins, shape (queries,).
        gamma: inverse scale of the noise, > 0.
        moments: l > 0, shape (moments,).

    References:
        Papernot et al. 2017 (1610.05755v4), Theorem 3; the data-independent bound where that is smaller.
    """
    # The condition of Theorem 3; where it fails q is replaced by 0, which is not used, to keep logarithms finite.
    q, x = other_wins[:, None], 2 * gamma
    applies = q < math.expm1(x) / math.expm1(2 * x)
    q = np.where(applies, q, 0.0)
    top_wins = (moments + 1) * np.log1p(-q) - moments * np.log1p(-q * math.exp(x))
    with np.errstate(divide="ignore"):
        dependent = np.logaddexp(top_wins, np.log(q) + x * moments)
    independent = pure_dp_log_moments(x, moments)
    return np.where(applies, np.minimum(dependent, independent), independent)


def gnmax_log_moments(other_wins: Array, sigma: float, moments: Array) -> Array:
    """Return the published bound on log moments of GNMax, data-dependent where its conditions hold, per query.

    Theorem 6 with the orders mu_2 = sigma sqrt(log(1/q)), mu_1 = mu_2 + 1 of Proposition 10, where its conditions hold;
    the data-independent bound where they do not, or where that is smaller.

    Args:
        other_wins: upper bound on the probability that another than the most frequent label wins, shape (queries,).
        sigma: standard deviation of the noise in votes, > 0.
        moments: Renyi order minus 1, > 0, shape (moments,).

    References:
        Papernot et al. 2018 (1802.08908v1), Theorem 6, Propositions 8 and 10.
    """
    # One teacher changes two counts by one, under noise of deviation sigma: a Gaussian step of distance sqrt(2).
    independent = moments * (moments + 1) / sigma**2
    log_q = np.log(np.maximum(other_wins, 1e-300))[:, None]
    mu_2 = np.maximum(sigma * np.sqrt(-log_q), 1 + 1e-9)
    mu_1 = mu_2 + 1
    rdp_1, rdp_2 = mu_1 / sigma**2, mu_2 / sigma**2
    max_log_q = (mu_2 - 1) * rdp_2 - mu_2 * (np.log(mu_1 / (mu_1 - 1)) + np.log(mu_2 / (mu_2 - 1)))
    # The conditions of Theorem 6: mu_1 is at least the order, q is small enough, and mu_2 is above 1.
    applies = (mu_1 >= moments + 1) & (mu_2 > 1 + 1e-9) & (log_q <= max_log_q) & (-log_q > rdp_2)
    log_top_wins = np.log1p(-np.exp(log_q))
    with np.errstate(invalid="ignore", divide="ignore"):
        # A^(order - 1) and B^(order - 1) of Theorem 6, in log space.
        inner = np.log1p(-np.exp(np.minimum((log_q + rdp_2) * (mu_2 - 1) / mu_2, -1e-300)))
        top_wins = log_top_wins + moments * (log_top_wins - inner)
        other = log_q + moments * (rdp_1 - log_q / (mu_1 - 1))
        dependent = np.logaddexp(top_wins, other)
    return np.where(applies, np.minimum(dependent, independent), independent)


# All results for one ensemble.


@dataclass(frozen=True, kw_only=True)
class PateQuestion:
    """An ensemble, and the queries, votes and target to evaluate.

    Attributes:
        aggregation: the rule by which votes become a label, with its noise.
        queries: number of queries that are put to the teachers, >= 0.
        votes: of these queries, or None where only their number is known.
        delta: in (0, 1).
        target: an epsilon, > 0, that shall not be exceeded, or None.
    """

    aggregation: Aggregation
    queries: int
    votes: Votes | None
    delta: float
    target: float | None = None


@dataclass(frozen=True, kw_only=True)
class PateTarget:
    """The queries and the noise for which epsilon stays within a target.

    Attributes:
        max_queries: queries whatever the votes are.
        max_queries_by_votes: queries with these votes, counted from the first, or None without votes; itself private.
        least_noise: the aggregation with the least noise for all queries whatever the votes are.
    """

    max_queries: int
    max_queries_by_votes: int | None
    least_noise: Aggregation


@dataclass(frozen=True, kw_only=True)
class PateAnswer:
    """All results for one ensemble; the guarantees are upper bounds.

    Attributes:
        question: the ensemble and what was to be evaluated.
        by_number: the data-independent guarantee, which may be published.
        by_votes: the data-dependent guarantee, or None without votes; itself private.
        published: the numbers of the papers' analyses, none without votes.
        target: queries and noise within the target, or None without one.
        sanitised: a data-dependent epsilon that may be published, or None if none was drawn.
    """

    question: PateQuestion
    by_number: Guarantee
    by_votes: DataDependentResult | None
    published: tuple[Row, ...]
    target: PateTarget | None
    sanitised: SanitisedEpsilon | None


def evaluate_pate(question: PateQuestion, *, rng: np.random.Generator | None = None) -> PateAnswer:
    """Return all epsilons of an ensemble; with `rng` also draw a sanitised one (InputError without votes).

    Args:
        question: the ensemble and what to evaluate.
        rng: secret random numbers for an epsilon that may be published; None for no such epsilon.

    Raises:
        InputError: a target or delta out of range, or random numbers without votes.
    """
    aggregation, votes, delta = question.aggregation, question.votes, question.delta
    sanitised = None
    if rng is not None:
        if votes is None:
            raise InputError("--sanitise: expected votes, whose cost is made public, got none")
        # Terms that depended on the votes would be private themselves.
        terms = release_terms(aggregation, question.queries, delta=delta, target=question.target)
        sanitised = draw_sanitised_epsilon(aggregation, votes, terms, delta=delta, rng=rng)
    return PateAnswer(
        question=question,
        by_number=data_independent_guarantee(aggregation, question.queries, delta=delta),
        by_votes=None if votes is None else data_dependent_guarantee(aggregation, votes, delta=delta),
        published=() if votes is None else published_rows(aggregation, votes, delta=delta),
        target=None if question.target is None else _within_target(question, question.target),
        sanitised=sanitised,
    )


def _within_target(question: PateQuestion, target: float) -> PateTarget:
    """Return the largest numbers of queries, and the least noise for all queries, that keep epsilon <= target."""
    aggregation, votes, delta = question.aggregation, question.votes, question.delta
    return PateTarget(
        max_queries=max_queries(aggregation, target=target, delta=delta),
        max_queries_by_votes=None
        if votes is None
        else max_queries_by_votes(aggregation, votes, target=target, delta=delta),
        least_noise=min_noise(aggregation, question.queries, target=target, delta=delta),
    )
