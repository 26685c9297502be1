"""Lower bounds on epsilon and delta without a composition, by reporting of a run only whether rare events happened.

Each step reports whether its output falls into a set E_i of large losses, and the run whether that happened in at least
k steps. That is post-processing of the run, so that its two outcomes obey P(A) <= e^epsilon Q(A) + delta. With p_i, q_i
the masses of E_i in one of T_i steps, P(A) = 1 - prod (1 - p_i)^T_i for k = 1, and for other k Chernoff's bounds hold
on P(A) from below and on Q(A) from above (Hoeffding 1963, theorem 1, with the mean of the probabilities). A set may be
any union of cells; cells are ranked by their ratio of masses.

Source: docs/theory.md, Theorem 10.2.
"""

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np

from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import Curve
from dpcalc.losses.pair import MixturePair, points_around
from dpcalc.numerics import LOG_CDF_ERROR, Array, log1m_exp, log_cumsum_exp, normal_log_cdf_array

# Any set and any k give a valid bound; numbers of sets and deviations only decide how tight it is.
_UNIT = 2.0**-53  # unit round-off
_SETS = 48  # sets of one step that are tried, of each sort
_MAX_CHANCES = 1 << 21  # of all sets of all steps: of more than 120 different steps fewer sets are tried
_LIKELY = np.concatenate([np.log(np.linspace(0.4, 0.98, 24)), np.log1p(-np.geomspace(1e-2, 1e-9, 24))])
_RAREST = -40.0  # log of the smallest mass that a set aims at
_MARGIN = 1e-12  # relative, for the round-off of the few operations on probabilities
_BELOW_MEAN = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0])  # deviations below the mean number at which k is tried


Sets = tuple[Array, Array, Array]
"""Nested sets of cells of one step, set i with the i + 1 largest losses: log ratio of masses of the cell that a set
adds, falling; log P mass of each set, a lower bound; log Q mass, an upper bound; shape (n,) each."""


def two_outcome_epsilon(counts: Mapping[Curve, int], *, delta: float) -> float:
    """Return a lower bound on epsilon from the best event A, log((P(A) - delta) / Q(A)), at least 0."""
    best = 0.0
    for p, log_q in _event_masses(counts):
        with np.errstate(divide="ignore", invalid="ignore"):
            epsilon = np.log(np.maximum(p - delta, 0.0)) - log_q
        known = p > delta * (1 + _MARGIN)
        if known.any():
            best = max(best, float(epsilon[known].max()) * (1 - _MARGIN) - _MARGIN)
    return best


def two_outcome_delta(counts: Mapping[Curve, int], *, epsilon: float) -> float:
    """Return a lower bound on delta from the best event A of rare large losses, P(A) - e^epsilon Q(A), at least 0."""
    best = 0.0
    for p, log_q in _event_masses(counts):
        bounds = p - np.exp(np.minimum(epsilon + log_q, 1.0)) * (1 + _MARGIN) - _UNIT
        best = max(best, float(bounds.max()))
    return best


def _event_masses(counts: Mapping[Curve, int]) -> Iterator[tuple[Array, Array]]:
    """Yield (P from below, log Q from above) of two kinds of events: a large loss in some step, and in k or more."""
    found = [
        (_nested_sets(curve), count)
        for curve, count in counts.items()
        if isinstance(curve, MixturePair) or (isinstance(curve, Loss) and not (curve.segments or curve.is_drawn))
    ]
    known = [(sets, count) for sets, count in found if sets is not None]
    if not known:
        return
    # Thresholds on the log ratio: 96 whose sets have chosen P masses, and 48 up to the largest ratio. With little noise
    # masses leap from set to set, so that the first kind alone would miss some.
    aims, chosen = np.concatenate([np.linspace(_RAREST, -1.0, _SETS), _LIKELY]), []
    for (ratios, log_p, _), _ in known:
        places = np.searchsorted(log_p, np.minimum(aims, log_p[-1]))
        largest = float(ratios[np.isfinite(ratios)].max(initial=1.0))
        chosen += [ratios[np.minimum(places, ratios.size - 1)] - 1e-9]
        chosen += [np.geomspace(1e-3, max(largest, 1.0), _SETS)]
    thresholds, events = np.unique(np.concatenate(chosen)), []
    thresholds = thresholds[:: -(-thresholds.size * len(known) // _MAX_CHANCES)]
    for (ratios, log_p, log_q), count in known:
        number = np.searchsorted(-ratios, -thresholds, side="left")  # of cells whose log ratio is above it
        events.append((np.append(-np.inf, log_p)[number], np.append(-np.inf, log_q)[number], count))

    # That some step falls into its set.
    with np.errstate(divide="ignore"):
        # The chance of no event as a sum of logarithms; for rare events under Q the union bound keeps more digits.
        none_p, none_q = (
            sum((event[2] * np.log1p(-np.exp(np.minimum(event[at], 0.0))) for event in events), np.zeros(1))
            for at in (0, 1)
        )
        p = -np.expm1(none_p * (1 - _MARGIN)) * (1 - _MARGIN)
        union = np.logaddexp.reduce([each + math.log(copies) for _, each, copies in events], axis=0)
        log_q = np.minimum(union, np.where(none_q < -1e-6, np.log(-np.expm1(none_q * (1 + _MARGIN))), np.inf))
    yield p, _round_up(log_q)

    # That at least k steps do, shape (thresholds, 8 values of k).
    total = float(sum(copies for _, _, copies in events))
    with np.errstate(divide="ignore"):
        p = np.minimum(sum((copies / total * np.exp(each) for each, _, copies in events), np.zeros(1)), 1.0)
        log_q = np.logaddexp.reduce([each + math.log(copies / total) for _, each, copies in events], axis=0)
    # Steps with different probabilities count as equal ones with their mean (Hoeffding 1963, Theorem 1).
    mean, deviation = (total * p)[:, None], np.sqrt(total * p * (1 - p))[:, None]
    k = np.clip(np.ceil(mean - _BELOW_MEAN * deviation), 1.0, total)
    with np.errstate(divide="ignore"):
        log_p = np.log(p)[:, None] - _MARGIN
    fewer, least_fewer = _divergence((k - 1) / total, log_p)
    more, least_more = _divergence(k / total, _round_up(log_q)[:, None])
    happens = np.where(k - 1 < mean, -np.expm1(-total * np.maximum(fewer - least_fewer, 0.0)), 0.0)
    rare = np.where(np.log(k / total) > log_q[:, None], -total * np.maximum(more - least_more, 0.0), 0.0)
    yield np.maximum(happens * (1 - _MARGIN) - _UNIT, 0.0), _round_up(rare)


def _divergence(share: Array, log_chance: Array) -> tuple[Array, Array]:
    """Return the KL divergence of two coins and a bound on its round-off, elementwise; 0 instead of NaN."""
    chance = np.exp(np.minimum(log_chance, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        heads = [np.where(share > 0, share * log_ratio, 0.0) for log_ratio in (np.log(share), -log_chance)]
        tails = [
            np.where(share < 1, (1 - share) * log_ratio, 0.0) for log_ratio in (np.log1p(-share), -np.log1p(-chance))
        ]
    # The four terms cancel where the coins are nearly alike: the error is bounded by their sizes, not by their sum.
    terms = [*heads, *tails]
    total = np.sum(terms, axis=0)
    sizes = np.sum([np.where(np.isfinite(term), np.abs(term), 0.0) for term in terms], axis=0)
    return np.where(np.isnan(total), 0.0, total), 32 * _UNIT * (1 + sizes)


def _round_up(log_q: Array) -> Array:
    """Return log probabilities raised by more than round-off, but not above 0; -inf stays -inf."""
    known = np.isfinite(log_q)
    finite = np.where(known, log_q, 0.0)
    return np.where(known, np.minimum(finite + _MARGIN * (1 + np.abs(finite)), 0.0), log_q)


@lru_cache(maxsize=64)
def _nested_sets(curve: MixturePair | Loss) -> Sets | None:
    """Return nested sets of cells, largest loss first, P rounded down, Q rounded up; None for no or too many cells."""
    if isinstance(curve, Loss):  # a cell is a loss, the infinite one last
        losses, masses = np.array(curve.losses), np.array(curve.log_masses)
        with np.errstate(divide="ignore"):
            infinity_mass = np.log(np.array([curve.infinity_mass]))
        error = 1e-15 * (1 + np.abs(losses) + np.abs(masses))
        log_p, log_q = np.append(masses - error, infinity_mass - _MARGIN), np.append(masses - losses + error, -np.inf)
    else:  # cells cover the line
        ends = points_around(curve)
        if ends is None:
            return None
        log_p = log_q = np.full(ends.size + 1, -np.inf)
        for center, p, q in zip(curve.centers, curve.weights_p, curve.weights_q, strict=True):
            lower, upper = _normal_cells((ends - center) / curve.deviation)
            log_p = np.logaddexp(log_p, math.log(p) + lower) if p else log_p
            log_q = np.logaddexp(log_q, math.log(q) + upper) if q else log_q
        terms = len(curve.centers)
        log_p, log_q = log_p - _log_roundoff(log_p, terms), log_q + _log_roundoff(log_q, terms)
    known = np.isfinite(log_p)
    log_p, log_q = log_p[known], log_q[known]
    if not log_p.size:
        return None
    order = np.argsort(log_q - log_p, kind="stable")
    log_p, log_q = log_p[order], log_q[order]
    sums_p, sums_q = (log_cumsum_exp(logs) for logs in (log_p, log_q))
    lower, upper = sums_p - _log_roundoff(sums_p, log_p.size), sums_q + _log_roundoff(sums_q, log_p.size)
    return log_p - log_q, np.minimum(lower, 0.0), np.minimum(upper, 0.0)


def _log_roundoff(logs: Array, terms: int) -> Array:
    """Return a bound on the round-off of each log of a sum of `terms` masses; finite where a log is infinite."""
    return 8 * _UNIT * (terms + 8) * (1 + np.where(np.isfinite(logs), np.abs(logs), 0.0))


def _normal_cells(ends: Array) -> tuple[Array, Array]:
    """Return (lower, upper) bounds on the log masses of N(0, 1) in the cells between -inf, `ends` and inf."""
    x = np.concatenate([[-np.inf], ends, [np.inf]])
    low, high = np.where(x[:-1] > 0, -x[1:], x[:-1]), np.where(x[:-1] > 0, -x[:-1], x[1:])
    log_upper, log_lower = normal_log_cdf_array(high), normal_log_cdf_array(low)
    # The ends are rounded twice, and the slope of log Phi at x is at most 1 + |x|.
    at_high, at_low = (LOG_CDF_ERROR + 64 * _UNIT * (1 + np.where(np.isfinite(x), x * x, 0.0)) for x in (high, low))
    between = log_upper - log_lower
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        error = np.where(np.isfinite(between), (at_high + at_low) / np.expm1(np.minimum(between, 700.0)), 0.0)
        # The derivative of log(1 - e^-x) grows towards 0: the larger slope is that at the smaller end.
        known = error < 0.1
        share = log1m_exp(np.maximum(between, 0.0))
        lower = np.where(known, log_upper - at_high + share - 2 * error, -np.inf)
        upper = np.where(known, np.minimum(share + 2 * error, 0.0), 0.0) + log_upper + at_high
    return lower, upper
