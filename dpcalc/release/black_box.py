"""One step of any mechanism from its one-step bound: what a number of changes costs is all that is known of it.

A mechanism says what a pair (P, Q) of batches costs between which there are d changes, whichever they are: `pair(d)`,
the same both ways and growing with d. Noise on a sum counts clip norms, any other mechanism counts units. A one-step
bound says how many changes there are between the batches that can occur, and how likely they are. As in `bounds`,
advanced joint convexity and the coupled draw leave, with C the batch that holds what is protected, B the same draw in
D' and M_j the draws that miss it, for epsilon >= 0 and e^eps0 = 1 + (e^eps - 1) / eta,

    delta(eps) <= E_C[(eta (1 - e^eps Y) - (e^eps - 1) sum_j v_j X_j)_+],     Y = dB/dC,  X_j = dM_j/dC.         (K*)

Split eta in any way into eta_0 + eta_1 + ...: the positive part of a sum is at most the sum of the positive parts, and
each of these is known from one pair alone, E_C[(1 - a Y)_+] <= delta_s(a) and E_C[(1 - a X_j)_+] <= delta_{d_j}(a). The
smallest of all these bounds is (K*) with ratios that rise together along one line on which C is uniform, because there
a split exists that loses nothing: at the point where the sum changes its sign, every part changes its own. For Gaussian
noise this is (K), and for every other symmetric noise with a log-concave density on one line it is met by the same
data. The same holds for the mixtures of `counted` over the number H, by E_M[(sum_h Pr[H = h] Z_h - a)_+] with
Z_h = dP_h/dM, and, replaced, E_M[(sum_h Pr[H = h] (Z_h - a Z'_h))_+], where Z_h rises and Z'_h falls.

All of these grow with every d, and with H in stochastic order: each split does. For eps < 0 a direction takes what the
other one says.
Source: Balle, Barthe, Gaboardi 2018 (1807.01647v2), Theorem 2 for advanced joint convexity.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.atoms import Atoms
from dpcalc.curves.coupled import from_first, from_second, glued, side_by_side, told_apart
from dpcalc.numerics.log_sums import log_sum_of
from dpcalc.release.bounds import StepBound
from dpcalc.release.counted import Average, Bound, CountPair

Array = NDArray[np.float64]
Pairs = Callable[[int], Atoms]
"""What d >= 0 changes cost: the same both ways, never falling in d."""

_Side = tuple[Array, Array, float]
"""(losses > 0, log P mass of each, P mass of infinite loss) of one direction."""

_LEAST = 1e-300  # smaller numbers have fewer digits
_LARGE = 600.0  # exponent of a float
_NEAR = 0.5  # of a ratio less 1: nearer to 1, the logarithm is taken of the difference, which has more digits


def step_pair(bound: Bound, pairs: Pairs) -> Atoms:
    """An upper bound on the profile of a step in the direction D||D'; `swapped` gives D'||D.

    Args:
        bound: how many changes there can be, and how likely.
        pairs: what they cost.
    """
    match bound:
        case StepBound(inclusion=1):
            return pairs(bound.shift)
        case StepBound():
            ahead = _missed_side(bound, bound.distances, pairs)
            return _glued(ahead, _missed_side(bound, bound.distances_swapped, lambda d: pairs(d).swapped))
        case CountPair(law=((h, Fraction(numerator=1, denominator=1)),)):
            return pairs(bound.shift * h)
        case CountPair(both_ways=True):
            side = _replaced_side(bound, pairs)
            return _glued(side, side)
        case CountPair():
            return _glued(_present_side(bound, pairs), _absent_side(bound, pairs))
        case Average(parts=parts):
            return told_apart([(float(chance), step_pair(one, pairs)) for chance, one in parts])


def _glued(own: _Side, other: _Side) -> Atoms:
    """Losses above 0 of one direction, below 0 those of the other; the rest has none."""
    losses, logs, infinite = own
    against, weights, other_infinite = other
    return glued((logs, losses), (weights, -against), (infinite, other_infinite))


def _missed_side(bound: StepBound, distances: Sequence[int], pairs: Pairs) -> _Side:
    """(K*), read off where the sum is positive: P is eta C + sum_j v_j M_j there, Q eta B + sum_j v_j M_j.

    Both over eta: with r = sum_j (v_j / eta) X_j the loss is log(1 + r) - log(Y + r). Where that is small it is taken
    from the difference 1 - Y, which is small then; where it is large, 1 - Y would have lost Y.
    """
    log_eta = _log(bound.inclusion)
    missed = [(_log(v / bound.inclusion), d) for v, d in zip(bound.missed, distances, strict=True) if v]
    widths, (same, *others) = side_by_side([from_first(pairs(d)) for d in (bound.shift, *(d for _, d in missed))])
    common = log_sum_of([odds - losses for (odds, _), losses in zip(missed, others, strict=True)])
    log_p = np.logaddexp(0.0, common)
    gap = -np.expm1(-np.maximum(same, -1.0)) * np.exp(-log_p)
    with np.errstate(divide="ignore"):
        losses = np.where(gap < _NEAR, -np.log1p(-np.minimum(gap, _NEAR)), log_p - np.logaddexp(-same, common))
    above = losses > 0
    logs = widths[above] + log_eta + log_p[above]
    told = np.isinf(losses[above])
    return losses[above][~told], logs[~told], float(np.exp(logs[told]).sum())


def _present_side(bound: CountPair, pairs: Pairs) -> _Side:
    """The mixture over H against none: large ratios first."""
    counts, none = _counts(bound, pairs)
    widths, columns = side_by_side([from_second(pair) for _, pair in counts])
    losses = _log_mixture(counts, none, columns)
    above = losses > 0
    infinite = math.fsum(math.exp(chance) * pair.infinite for chance, pair in counts)
    return losses[above], widths[above] + losses[above], infinite


def _absent_side(bound: CountPair, pairs: Pairs) -> _Side:
    """None against the mixture over H: small ratios first."""
    counts, none = _counts(bound, pairs)
    widths, columns = side_by_side([from_first(pair.swapped) for _, pair in counts])
    losses = -_log_mixture(counts, none, [-one for one in columns])
    above, told = (losses > 0) & (losses < np.inf), losses == np.inf
    return losses[above], widths[above], float(np.exp(widths[told]).sum())


def _replaced_side(bound: CountPair, pairs: Pairs) -> _Side:
    """Two mixtures over H, seen from none: large ratios of the one meet small ratios of the other."""
    counts, none = _counts(replace(bound, shift=bound.shift // 2), pairs)
    columns = [from_second(pair) for _, pair in counts] + [from_first(pair.swapped) for _, pair in counts]
    widths, found = side_by_side(columns)
    own = _log_mixture(counts, none, found[: len(counts)])
    other = _log_mixture(counts, none, [-one for one in found[len(counts) :]])
    told = (other == -np.inf) & (own > -np.inf)
    losses = np.subtract(own, other, out=np.zeros(own.shape), where=np.isfinite(own) & np.isfinite(other))
    above = losses > 0
    infinite = math.fsum(math.exp(chance) * pair.infinite for chance, pair in counts)
    infinite += float(np.exp((widths + own)[told]).sum())
    return losses[above], (widths + own)[above], infinite


def _counts(bound: CountPair, pairs: Pairs) -> tuple[list[tuple[float, Atoms]], float]:
    """(log probability, pair) of each H but 0, for its ratio is 1, and the log probability of that."""
    law = dict(bound.law)
    counts = [(_log(chance), pairs(bound.shift * h)) for h, chance in law.items() if h]
    return counts, _log(law.get(0, Fraction(0)))


def _log_mixture(counts: list[tuple[float, Atoms]], none: float, logs: list[Array]) -> Array:
    """The log of the ratio of the mixture, from the logs of the ratios; -inf where all of them are."""
    gap, largest = np.zeros(logs[0].shape), np.full(logs[0].shape, -np.inf)
    for (chance, _), one in zip(counts, logs, strict=True):
        gap += math.exp(chance) * np.expm1(np.minimum(one, _LARGE))
        np.maximum(largest, one, out=largest)
    near = (np.abs(gap) < _NEAR) & (largest < _LARGE)
    parts = [chance + one for (chance, _), one in zip(counts, logs, strict=True)]
    mixed = log_sum_of([*parts, np.full(gap.shape, none)])
    return np.where(near, np.log1p(np.where(near, gap, 0.0)), mixed)


def _log(chance: Fraction) -> float:
    """The logarithm of a probability, or of odds, that may be smaller than any float; of 0 too."""
    if not chance:
        return -math.inf
    rounded = float(chance)
    return math.log(rounded) if rounded > _LEAST else math.log(chance.numerator) - math.log(chance.denominator)
