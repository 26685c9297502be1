"""Pairs of finitely many losses put side by side, composed, told apart, put in a chain.

Putting pairs side by side means to lay out one measure that they share from the largest loss down, so that large
losses of one meet large losses of all others: they are comonotone.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.atoms import Atoms
from dpcalc.numerics.log_sums import log1m_exp, log_cumulative, log_sums_by_place

Array = NDArray[np.float64]
Column = tuple[Array, Array]
"""(logs of masses that sum to 1, the loss of each, falling from `inf` to `-inf`)."""

MOST = 4001  # losses of a pair that is made here
_FACTORS = 501  # losses of each pair that is composed with another one
_LOG_HALF = math.log(0.5)
_LOG_LEAST = math.log(1e-300)
_TOLERATED = 1e-10  # of masses beyond 1: round-off, and what is spent on it
_TINIEST = 5e-324  # the least positive float
_UNIT = 2.0**-52  # relative spacing of floats


def from_first(pair: Atoms) -> Column:
    """P of a pair (P, Q) from the largest loss down."""
    losses, logs = _with_rest(pair)
    return np.append(_log(pair.infinite), logs[::-1]), np.append(np.inf, losses[::-1])


def from_second(pair: Atoms) -> Column:
    """Q of a pair (P, Q) from the largest loss down."""
    losses, logs = _with_rest(pair)
    return np.append((logs - losses)[::-1], _log(pair.only_other)), np.append(losses[::-1], -np.inf)


def _with_rest(pair: Atoms) -> Column:
    """(losses, log P masses) with what has no loss in its place."""
    losses, logs = (np.array(values, dtype=np.float64) for values in pair.atoms)
    at = int(np.searchsorted(losses, 0.0))
    return np.insert(losses, at, 0.0), np.insert(logs, at, _log(pair.at_zero))


def _log(mass: float) -> float:
    """The logarithm, of 0 too."""
    return math.log(mass) if mass > 0 else -math.inf


def side_by_side(columns: Sequence[Column]) -> tuple[Array, list[Array]]:
    """(log mass of each cell, the loss of every column there), columns comonotone.

    Ends of cells are told from whichever side is nearer, so that rare losses keep their digits at both.
    """
    above = [log_cumulative(logs) for logs, _ in columns]
    below = [np.append(log_cumulative(logs[:0:-1])[::-1], -np.inf) for logs, _ in columns]
    upper = np.unique(np.concatenate([a[a <= _LOG_HALF] for a in above]))
    lower = np.unique(np.concatenate([b[a > _LOG_HALF] for a, b in zip(above, below, strict=True)]))[::-1]
    middle = 1.0 - (math.exp(upper[-1]) if upper.size else 0.0) - math.exp(lower[0])
    widths = np.concatenate([_differences(np.append(-np.inf, upper)), [_log(middle)], _differences(lower[::-1])[::-1]])
    found = []
    for a, b, (_, losses) in zip(above, below, columns, strict=True):
        at = np.append(np.searchsorted(a, upper, side="left"), np.searchsorted(-b, -lower, side="left"))
        found.append(losses[at][widths > -np.inf])
    return widths[widths > -np.inf], found


def _differences(logs: Array) -> Array:
    """Logs of the differences of neighbouring e^x, x ascending, shape (n - 1,)."""
    low, high = logs[:-1], logs[1:]
    gaps = np.subtract(high, low, out=np.zeros(high.shape), where=high > -np.inf)
    return np.asarray(high + log1m_exp(gaps), dtype=np.float64)


def _outwards(losses: Array, logs: Array) -> Column:
    """(losses, log masses) raised by what losses, sums of masses, and logarithms of this size are rounded by.

    A cell that ends too early leaves some of its mass to the next smaller loss. If that is a share e of all mass above
    the end, whatever the end, the profile falls by a share e at most: so much is added to every mass. Losses above 0
    rise with their P mass and losses below 0 fall with their Q mass: those are what each direction is read from.
    """
    away = 4 * _UNIT * np.where(np.isfinite(losses), losses, 0.0)
    farthest = float(np.abs(losses).max(initial=0.0, where=np.isfinite(losses)))
    raised = logs + _UNIT * (8 * farthest + logs.size)
    return losses + away, raised + np.minimum(away, 0.0)


def of_cells(losses: Array, logs: Array, alone: tuple[float, float], *, most: int = MOST) -> Atoms:
    """A pair from P masses at some losses, in any order, some of them equal.

    At most `most` different losses are kept: an upper bound, both ways.

    Args:
        losses: of the cells, `inf` included.
        logs: of the P masses.
        alone: (P mass where Q has none, Q mass where P has none) beside the cells.
        most: losses that are kept.
    """
    infinite, other = alone
    beyond = float(np.exp(logs[losses == np.inf]).sum())
    kept = (logs > -np.inf) & np.isfinite(losses)
    values, place = np.unique(losses[kept], return_inverse=True)
    total = log_sums_by_place(place, logs[kept], size=values.size)
    if values.size > most:
        values, total = _thinned(values, total, most)
    everything = min(1.0, infinite + beyond)
    if not values.size:  # accountants look at losses
        values, total = np.zeros(1), np.array([max(_log(1 - everything), _LOG_LEAST)])
    return Atoms(
        losses=tuple(values.tolist()),
        log_masses=tuple(total.tolist()),
        infinite=everything,
        other_infinite=min(1.0, other),
    )


def _thinned(losses: Array, logs: Array, most: int) -> Column:
    """Fewer losses: what lies between two that are kept is split over them, P and Q masses staying.

    That is what chords of the profile do (Doroshenko et al. 2022, 2207.04380v3, section 4): an upper bound.
    """
    kept = np.linspace(0, losses.size - 1, most).round().astype(np.int64)
    ends = losses[kept]
    right = np.clip(np.searchsorted(ends, losses, side="left"), 1, most - 1)
    low, high = ends[right - 1], ends[right]
    all_of_it = log1m_exp(high - low)
    up = logs + log1m_exp(losses - low) - all_of_it
    down = logs + low - losses + log1m_exp(high - losses) - all_of_it
    total = log_sums_by_place(np.append(right, right - 1), np.append(up, down), size=most)
    return ends[total > -np.inf], total[total > -np.inf]


def glued(above: Column, below: Column, alone: tuple[float, float]) -> Atoms:
    """The pair whose losses above 0 are those of one bound on a profile, and below 0 those of another.

    Both bound one convex profile. Where they meet with a corner that no profile has (P masses of more than 1), the
    chord over it lies above the profile, too.

    Args:
        above: (log P masses, losses > 0).
        below: (log Q masses, losses < 0).
        alone: (P mass of the first where Q has none, Q mass of the other where P has none).
    """
    losses, logs = _outwards(np.append(below[1], above[1]), np.append(below[0] + below[1], above[0]))
    order = np.argsort(losses)
    losses, logs = losses[order], logs[order]
    excess = float(np.exp(logs).sum()) + alone[0] - 1
    if excess > _TOLERATED:
        losses, logs = _bridged(losses, logs, excess, int(np.searchsorted(losses, 0.0)))
    return of_cells(losses, logs, alone)


def _bridged(losses: Array, logs: Array, excess: float, zero: int) -> tuple[Array, Array]:
    """The losses around 0 put into two, with so much less of P and of Q."""
    reach = 1
    while True:
        first, last = max(0, zero - reach), min(losses.size - 1, zero + reach - 1)
        inside, (low, high) = slice(first, last + 1), (losses[first], losses[last])
        p = float(np.exp(logs[inside]).sum()) - excess
        q = float(np.exp(logs[inside] - losses[inside]).sum()) - excess
        up = (p - q * math.exp(low)) / -math.expm1(low - high)
        if 0 < up < p or last - first + 1 == losses.size:
            ends, two = np.array([low, high]), np.log(np.maximum([p - up, up], _TINIEST))
            rest = np.append(losses[:first], losses[last + 1 :])
            return np.append(rest, ends), np.append(np.append(logs[:first], logs[last + 1 :]), two)
        reach *= 2


def told_apart(parts: Sequence[tuple[float, Atoms]]) -> Atoms:
    """One of several pairs, by a draw that everybody sees; no release in the rest of the cases.

    Args:
        parts: (probability, pair).
    """
    losses = np.concatenate([np.array(pair.losses, dtype=np.float64) for _, pair in parts])
    logs = np.concatenate([_log(chance) + np.array(pair.log_masses, dtype=np.float64) for chance, pair in parts])
    alone = math.fsum(chance * pair.infinite for chance, pair in parts)
    return of_cells(losses, logs, (alone, math.fsum(chance * pair.only_other for chance, pair in parts)))


def both(a: Atoms, b: Atoms) -> Atoms:
    """Two releases, one after the other: losses add up."""
    (first, p), (second, q) = (_with_rest(_fewer(pair)) for pair in (a, b))
    alone = (
        a.infinite + b.infinite - a.infinite * b.infinite,
        a.only_other + b.only_other - a.only_other * b.only_other,
    )
    losses, logs = np.add.outer(first, second).ravel(), np.add.outer(p, q).ravel()
    return of_cells(*_outwards(losses, logs), alone)


def _fewer(pair: Atoms) -> Atoms:
    """A pair whose product with another one fits in memory."""
    losses, logs = (np.array(values, dtype=np.float64) for values in pair.atoms)
    return of_cells(losses, logs, (pair.infinite, pair.only_other), most=_FACTORS)


def chained(pair: Atoms, links: int) -> Atoms:
    """A bound on (P_0, P_k) where every (P_i, P_{i+1}) is bounded by one pair: the privacy of a group.

    With g the largest power of a test at a level, for the pair: E_{P_0} phi <= g(E_{P_1} phi) <= g(g(E_{P_2} phi)) ...
    and the slopes of g are e^loss, so that the losses of a chain add up along one measure in the middle, laid out by
    falling losses under both neighbours. No smaller bound follows from the pair alone.

    Args:
        pair: of one link.
        links: k >= 0.

    References:
        Dong, Roth, Su 2022 (1905.02383v3), Theorem 2.14.
    """
    found = pair if links else Atoms(losses=(), log_masses=())
    for _ in range(links - 1):
        widths, (outer, inner) = side_by_side([from_second(pair), from_first(found)])
        there = outer > -np.inf
        logs, losses = widths[there] + outer[there], outer[there] + inner[there]
        missed = float(np.exp(widths[~there] - inner[~there]).sum())
        found = of_cells(*_outwards(losses, logs), (pair.infinite, found.only_other + missed))
    return found
