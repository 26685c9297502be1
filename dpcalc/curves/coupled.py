"""Pairs of finitely many losses put side by side, composed, told apart, put in a chain.

Putting pairs side by side means to lay out one measure that they share from the largest loss down, so that large
losses of one meet large losses of all others: they are comonotone.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.atoms import Atoms

Array = NDArray[np.float64]
Column = tuple[Array, Array]
"""(masses that sum to 1, the loss of each, falling from `inf` to `-inf`)."""

MOST = 4001  # losses of a pair that is made here
_FACTORS = 501  # losses of each pair that is composed with another one
_HALF = 0.5
_LEAST = 1e-300
_TOLERATED = 1e-12  # of masses beyond 1: round-off
_LARGEST = 300.0  # of the losses that are told apart


def from_first(pair: Atoms) -> Column:
    """P of a pair (P, Q) from the largest loss down."""
    losses, masses = _with_rest(pair)
    return np.append(pair.infinite, masses[::-1]), np.append(np.inf, losses[::-1])


def from_second(pair: Atoms) -> Column:
    """Q of a pair (P, Q) from the largest loss down."""
    losses, masses = _with_rest(pair)
    return np.append((masses * np.exp(-losses))[::-1], pair.only_other), np.append(losses[::-1], -np.inf)


def _with_rest(pair: Atoms) -> tuple[Array, Array]:
    """(losses, P masses) with what has no loss in its place."""
    losses, masses = (np.array(values, dtype=np.float64) for values in pair.atoms)
    at = int(np.searchsorted(losses, 0.0))
    return np.insert(losses, at, 0.0), np.insert(masses, at, pair.at_zero)


def side_by_side(columns: Sequence[Column]) -> tuple[Array, list[Array]]:
    """(mass of each cell, the loss of every column there), columns comonotone.

    Ends of cells are told from whichever side is nearer, so that rare losses keep their digits at both.
    """
    above = [np.cumsum(masses) for masses, _ in columns]
    below = [np.append(np.cumsum(masses[:0:-1])[::-1], 0.0) for masses, _ in columns]
    upper = np.unique(np.concatenate([a[a <= _HALF] for a in above]))
    lower = np.unique(np.concatenate([b[a > _HALF] for a, b in zip(above, below, strict=True)]))[::-1]
    middle = 1.0 - (upper[-1] if upper.size else 0.0) - lower[0]
    widths = np.concatenate([np.diff(upper, prepend=0.0), [middle], -np.diff(lower)])
    found = []
    for a, b, (_, losses) in zip(above, below, columns, strict=True):
        at = np.append(np.searchsorted(a, upper, side="left"), np.searchsorted(-b, -lower, side="left"))
        found.append(losses[at][widths > 0])
    return widths[widths > 0], found


def of_cells(losses: Array, masses: Array, alone: tuple[float, float], *, most: int = MOST) -> Atoms:
    """A pair from P masses at some losses, in any order, some of them equal.

    Losses beyond what floats hold the power of are called infinite, or 0 where they are negative, and `most` of the
    others are kept: an upper bound, both ways.

    Args:
        losses: of the cells, `inf` included.
        masses: of P.
        alone: (P mass where Q has none, Q mass where P has none) beside the cells.
        most: losses that are kept.
    """
    infinite, other = alone
    below = (masses > 0) & (losses < -_LARGEST)
    other = min(1.0, other + float(np.exp(np.minimum(np.log(masses[below]) - losses[below], 0.0)).sum()))
    beyond = masses[losses > _LARGEST].sum()
    kept = (masses > 0) & (np.abs(losses) <= _LARGEST)
    values, place = np.unique(losses[kept], return_inverse=True)
    total = np.bincount(place, weights=masses[kept], minlength=values.size).astype(np.float64)
    if values.size > most:
        values, total = _thinned(values, total, most)
    everything = min(1.0, infinite + float(beyond))
    if not values.size:  # accountants look at losses
        values, total = np.zeros(1), np.array([max(1 - everything, _LEAST)])
    kept_losses, kept_masses = tuple(values.tolist()), tuple(total.tolist())
    return Atoms(losses=kept_losses, masses=kept_masses, infinite=everything, other_infinite=other)


def within_floats(pair: Atoms) -> Atoms:
    """A pair above without losses whose power no float holds."""
    if all(abs(loss) <= _LARGEST for loss in pair.losses[:1] + pair.losses[-1:]):
        return pair
    losses, masses = (np.array(values, dtype=np.float64) for values in pair.atoms)
    return of_cells(losses, masses, (pair.infinite, pair.only_other), most=losses.size)


def _thinned(losses: Array, masses: Array, most: int) -> Column:
    """Fewer losses: what lies between two that are kept is split over them, P and Q masses staying.

    That is what chords of the profile do (Doroshenko et al. 2022, 2207.04380v3, section 4): an upper bound.
    """
    kept = np.linspace(0, losses.size - 1, most).round().astype(np.int64)
    ends = losses[kept]
    right = np.clip(np.searchsorted(ends, losses, side="left"), 1, most - 1)
    span = ends[right] - ends[right - 1]
    up = np.expm1(ends[right - 1] - losses) / np.expm1(-span)
    down = np.expm1(ends[right] - losses) / np.expm1(span)
    total = np.bincount(right, weights=masses * up, minlength=most).astype(np.float64)
    total += np.bincount(right - 1, weights=masses * down, minlength=most)
    return ends[total > 0], total[total > 0]


def glued(above: Column, below: Column, alone: tuple[float, float]) -> Atoms:
    """The pair whose losses above 0 are those of one bound on a profile, and below 0 those of another.

    Both bound one convex profile. Where they meet with a corner that no profile has (P masses of more than 1), the
    chord over it lies above the profile, too.

    Args:
        above: (P masses, losses > 0).
        below: (P masses, losses < 0).
        alone: (P mass of the first where Q has none, Q mass of the other where P has none).
    """
    losses, masses = np.append(below[1], above[1]), np.append(below[0], above[0])
    order = np.argsort(losses)
    losses, masses = losses[order], masses[order]
    excess = float(masses.sum()) + alone[0] - 1
    if excess > _TOLERATED:
        losses, masses = _bridged(losses, masses, excess, int(np.searchsorted(losses, 0.0)))
    return of_cells(losses, masses, alone)


def _bridged(losses: Array, masses: Array, excess: float, zero: int) -> tuple[Array, Array]:
    """The losses around 0 put into two, with so much less of P and of Q."""
    reach = 1
    while True:
        first, last = max(0, zero - reach), min(losses.size - 1, zero + reach - 1)
        inside, (low, high) = slice(first, last + 1), (losses[first], losses[last])
        p = float(masses[inside].sum()) - excess
        q = float((masses[inside] * np.exp(-losses[inside])).sum()) - excess
        up = (p - q * math.exp(low)) / -math.expm1(low - high)
        if 0 <= up <= p or last - first + 1 == losses.size:
            ends, two = np.array([low, high]), np.array([p - up, up])
            rest = np.append(losses[:first], losses[last + 1 :])
            return np.append(rest, ends), np.append(np.append(masses[:first], masses[last + 1 :]), two)
        reach *= 2


def told_apart(parts: Sequence[tuple[float, Atoms]]) -> Atoms:
    """One of several pairs, by a draw that everybody sees; no release in the rest of the cases.

    Args:
        parts: (probability, pair).
    """
    losses = np.concatenate([np.array(pair.losses, dtype=np.float64) for _, pair in parts])
    masses = np.concatenate([chance * np.array(pair.masses, dtype=np.float64) for chance, pair in parts])
    alone = math.fsum(chance * pair.infinite for chance, pair in parts)
    return of_cells(losses, masses, (alone, math.fsum(chance * pair.only_other for chance, pair in parts)))


def both(a: Atoms, b: Atoms) -> Atoms:
    """Two releases, one after the other: losses add up."""
    (first, p), (second, q) = (_with_rest(_fewer(pair)) for pair in (a, b))
    alone = (
        a.infinite + b.infinite - a.infinite * b.infinite,
        a.only_other + b.only_other - a.only_other * b.only_other,
    )
    return of_cells(np.add.outer(first, second).ravel(), np.multiply.outer(p, q).ravel(), alone)


def _fewer(pair: Atoms) -> Atoms:
    """A pair whose product with another one fits in memory."""
    losses, masses = (np.array(values, dtype=np.float64) for values in pair.atoms)
    return of_cells(losses, masses, (pair.infinite, pair.only_other), most=_FACTORS)


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
    found = pair if links else Atoms(losses=(), masses=())
    for _ in range(links - 1):
        widths, (outer, inner) = side_by_side([from_second(pair), from_first(found)])
        there = outer > -np.inf
        masses, losses = widths[there] * np.exp(outer[there]), outer[there] + inner[there]
        missed = float((widths[~there] * np.exp(-inner[~there])).sum())
        found = of_cells(losses, masses, (pair.infinite, found.only_other + missed))
    return found
