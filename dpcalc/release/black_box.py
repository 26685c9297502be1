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

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.atoms import Atoms
from dpcalc.curves.coupled import from_first, from_second, glued, side_by_side, told_apart
from dpcalc.release.bounds import StepBound
from dpcalc.release.counted import Average, Bound, CountPair

Array = NDArray[np.float64]
Pairs = Callable[[int], Atoms]
"""What d >= 0 changes cost: the same both ways, never falling in d."""

_Side = tuple[Array, Array, float]
"""(losses > 0, P mass of each, P mass of infinite loss) of one direction."""


def step_pair(bound: Bound, pairs: Pairs) -> Atoms:
    """An upper bound on the profile of a step in the direction D||D'; `swapped` gives D'||D.

    Args:
        bound: how many changes there can be, and how likely.
        pairs: what they cost.
    """
    match bound:
        case StepBound():
            ahead = _missed_side(bound, bound.distances, pairs)
            return _glued(ahead, _missed_side(bound, bound.distances_swapped, lambda d: pairs(d).swapped))
        case CountPair(both_ways=True):
            side = _replaced_side(bound, pairs)
            return _glued(side, side)
        case CountPair():
            return _glued(_present_side(bound, pairs), _absent_side(bound, pairs))
        case Average(parts=parts):
            return told_apart([(float(chance), step_pair(one, pairs)) for chance, one in parts])


def _glued(own: _Side, other: _Side) -> Atoms:
    """Losses above 0 of one direction, below 0 those of the other; the rest has none."""
    losses, masses, infinite = own
    against, weights, other_infinite = other
    return glued((masses, losses), (weights * np.exp(-against), -against), (infinite, other_infinite))


def _missed_side(bound: StepBound, distances: Sequence[int], pairs: Pairs) -> _Side:
    """(K*), read off where the sum is positive: P is eta C + sum_j v_j M_j there, Q eta B + sum_j v_j M_j."""
    eta = float(bound.inclusion)
    missed = [(float(v), d) for v, d in zip(bound.missed, distances, strict=True) if v]
    widths, (same, *others) = side_by_side([from_first(pairs(d)) for d in (bound.shift, *(d for _, d in missed))])
    common = np.zeros(widths.size)
    for (chance, _), losses in zip(missed, others, strict=True):
        common += chance * np.exp(-losses)
    p, gap = eta + common, -eta * np.expm1(-same)
    infinite = float(widths[(p <= gap) & (gap > 0)].sum()) * eta
    above = (gap > 0) & (gap < p)
    return -np.log1p(-gap[above] / p[above]), widths[above] * p[above], infinite


def _present_side(bound: CountPair, pairs: Pairs) -> _Side:
    """The mixture over H against none: large ratios first."""
    counts = _counts(bound, pairs)
    widths, columns = side_by_side([from_second(pair) for _, pair in counts])
    gap = _gap(counts, columns)
    above = gap > 0
    infinite = math.fsum(chance * pair.infinite for chance, pair in counts)
    return np.log1p(gap[above]), widths[above] * (1 + gap[above]), infinite


def _absent_side(bound: CountPair, pairs: Pairs) -> _Side:
    """None against the mixture over H: small ratios first."""
    counts = _counts(bound, pairs)
    widths, columns = side_by_side([from_first(pair.swapped) for _, pair in counts])
    gap = _gap(counts, [-losses for losses in columns])
    above, nothing = (gap < 0) & (gap > -1), gap <= -1
    return -np.log1p(gap[above]), widths[above], float(widths[nothing].sum())


def _replaced_side(bound: CountPair, pairs: Pairs) -> _Side:
    """Two mixtures over H, seen from none: large ratios of the one meet small ratios of the other."""
    counts = _counts(replace(bound, shift=bound.shift // 2), pairs)
    columns = [from_second(pair) for _, pair in counts] + [from_first(pair.swapped) for _, pair in counts]
    widths, found = side_by_side(columns)
    gap, other = _gap(counts, found[: len(counts)]), _gap(counts, [-losses for losses in found[len(counts) :]])
    above, nothing = (gap > other) & (other > -1), (gap > other) & (other <= -1)
    infinite = math.fsum(chance * pair.infinite for chance, pair in counts)
    infinite += float((widths * (1 + gap))[nothing].sum())
    return np.log1p(gap[above]) - np.log1p(other[above]), (widths * (1 + gap))[above], infinite


def _counts(bound: CountPair, pairs: Pairs) -> list[tuple[float, Atoms]]:
    """(probability, pair) of each H, H = 0 left out where it is possible, for its ratio is 1."""
    return [(float(chance), pairs(bound.shift * h)) for h, chance in bound.law if h]


def _gap(counts: list[tuple[float, Atoms]], logs: list[Array]) -> Array:
    """The ratio of the mixture less 1, from the logarithms of the ratios."""
    return sum((chance * np.expm1(one) for (chance, _), one in zip(counts, logs, strict=True)), start=np.zeros(1))
