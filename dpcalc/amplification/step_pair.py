"""The one-step bound (K*): the loss of one step of any mechanism but the Gaussian one.

A mechanism is known by its dominating pair `pair(d)` for two batches with d changes between them, the same in either
order and growing with d. Noise on a sum counts changes in clip norms, any other mechanism in units. A one-step bound
says how many changes there are and how likely. (K*) is the counterpart of (K); for Gaussian noise they are equal.

Source: docs/theory.md, Theorem 8.1; Balle, Barthe, Gaboardi 2018 (1807.01647v2), Theorem 2.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from dpcalc.amplification.bound import StepBound
from dpcalc.amplification.counts import Average, Bound, CountPair
from dpcalc.losses.atoms import (
    comonotone_coupling,
    from_first,
    from_second,
    glued,
    public_mixture,
    with_near_losses,
)
from dpcalc.losses.loss import Loss
from dpcalc.numerics import Array, log_fraction, log_sum_exp
from dpcalc.work import ELEMENT, spend

Pairs = Callable[[int], Loss]
"""From a number of changes d >= 0 to a dominating pair; the same in either order, and never falling in d."""


_PositiveLosses = tuple[Array, Array, float]
"""(The finite losses > 0 of one direction P||Q, the log of the P mass of each, the P mass at loss infinity)."""


_LARGE = 600.0  # log ratio above which expm1 is not taken: e^709 overflows a float
_MOST_ODDS = Fraction(10**300)  # of being missed, as a float; fewer make a loss larger
_SMALL_GAP = 0.5  # |ratio - 1| below which its logarithm is log1p of the difference: no cancellation for tiny losses


def step_pair(bound: Bound, pairs: Pairs) -> Loss:
    """Return Loss with an upper bound on a step's loss D||D', whose `swapped` is one on D'||D.

    It holds at every real epsilon.

    Source: docs/theory.md, Theorem 8.1 and Theorem 2.6.
    """

    def near(changes: int) -> Loss:
        return with_near_losses(pairs(changes))

    match bound:
        case StepBound(inclusion=1):
            return pairs(bound.shift)
        case CountPair(law=((h, Fraction(numerator=1, denominator=1)),)):
            return pairs(bound.shift * h)
        case Average(parts=parts):
            return public_mixture([(float(chance), step_pair(part, pairs)) for chance, part in parts])
        case StepBound():
            own = _missed_side(bound, bound.distances, near)
            other = _missed_side(bound, bound.distances_swapped, lambda d: near(d).swapped)
        case CountPair():
            own, other = _count_sides(bound, near)
    # The losses > 0 of `own`, the negated ones of `other`, and all other mass at loss 0.
    ahead, against = (own[1], own[0]), (other[1], -other[0])
    return glued(ahead, against, infinity_mass=own[2], only_other=other[2])


def _missed_side(bound: StepBound, distances: Sequence[int], pairs: Pairs) -> _PositiveLosses:
    """Return the losses > 0 of (K*) in one direction, at their largest over joint laws of its likelihood ratios."""
    # There P is eta C + sum_j v_j M_j and Q is eta B + sum_j v_j M_j, with v_j missed and M_j at `distances`.
    # The ratios dM_j/dC and dB/dC are all taken as non-increasing functions of one uniform variable
    # (`comonotone_coupling`): no other joint law of ratios with these marginals has a larger expectation in (K*).
    log_eta = log_fraction(bound.inclusion)
    missed = [(v / bound.inclusion, d) for v, d in zip(bound.missed, distances, strict=True) if v]
    widths, (same, *others) = comonotone_coupling(
        [from_first(pairs(d)) for d in (bound.shift, *(d for _, d in missed))]
    )
    odds = [odd for odd, _ in missed]

    # Elementwise log dP/dC and the loss log dP/dQ. A small loss is taken from the difference 1 - dQ/dP, which is small
    # then; for a large one the difference would have lost dQ/dP. The share of C in P is not taken from its log: the log
    # of 1e8 has lost two digits of a loss as small as 1e-8.
    common = log_sum_exp([log_fraction(odd) - each for odd, each in zip(odds, others, strict=True)])
    log_p = np.logaddexp(0.0, common)
    with np.errstate(over="ignore"):
        terms = zip(odds, others, strict=True)
        shares = (float(odd if odd < _MOST_ODDS else _MOST_ODDS) * np.exp(-each) for odd, each in terms)
        gap: Array = -np.expm1(-np.maximum(same, -1.0)) / (1.0 + sum(shares, start=np.zeros(same.shape)))
    with np.errstate(divide="ignore"):
        near = -np.log1p(-np.minimum(gap, _SMALL_GAP))
        losses = np.where(gap < _SMALL_GAP, near, log_p - np.logaddexp(-same, common))
    above = losses > 0
    logs = widths[above] + log_eta + log_p[above]
    infinite = np.isinf(losses[above])
    return losses[above][~infinite], logs[~infinite], float(np.exp(logs[infinite]).sum())


def _count_sides(bound: CountPair, pairs: Pairs) -> tuple[_PositiveLosses, _PositiveLosses]:
    """Return upper bounds on the losses > 0 of D||D' and of D'||D, where D draws H members at random."""
    # Under H = 0 a mixture has the ratio sum_h Pr[H = h] Z_h; coupled large with large, which no coupling exceeds.
    law, move = dict(bound.law), bound.shift // 2 if bound.both_ways else bound.shift
    log_none = log_fraction(law.get(0, Fraction(0)))
    counts = [(chance, pairs(move * h)) for h, chance in law.items() if h]
    present, absent = ([from_second(pair) for _, pair in counts], [from_first(pair.swapped) for _, pair in counts])
    infinity_mass = math.fsum(float(chance) * pair.infinity_mass for chance, pair in counts)
    if bound.both_ways:
        # Replaced members move D and D' apart: half of the shift lies on either side of H = 0, and where the ratios of
        # one mixture rise those of the other fall.
        widths, ratios = comonotone_coupling(present + absent)
        own = _log_mixture(counts, log_none, ratios[: len(counts)])
        other = _log_mixture(counts, log_none, [-ratio for ratio in ratios[len(counts) :]])
        infinite = (other == -np.inf) & (own > -np.inf)
        losses = np.subtract(own, other, out=np.zeros(own.shape), where=np.isfinite(own) & np.isfinite(other))
        above = losses > 0
        infinity_mass += float(np.exp((widths + own)[infinite]).sum())
        side = losses[above], (widths + own)[above], infinity_mass
        return side, side

    widths, ratios = comonotone_coupling(present)  # D' has none of the members
    losses = _log_mixture(counts, log_none, ratios)
    above = losses > 0
    ahead = losses[above], widths[above] + losses[above], infinity_mass
    widths, ratios = comonotone_coupling(absent)
    losses = -_log_mixture(counts, log_none, [-ratio for ratio in ratios])
    above, infinite = (losses > 0) & (losses < np.inf), losses == np.inf
    return ahead, (losses[above], widths[above], float(np.exp(widths[infinite]).sum()))


def _log_mixture(counts: list[tuple[Fraction, Loss]], log_none: float, log_ratios: list[Array]) -> Array:
    """Return log(Pr[H = 0] + sum_h Pr[H = h] Z_h) elementwise, from log Z_h; without cancellation where near 0."""
    spend(6 * ELEMENT * len(log_ratios) * log_ratios[0].size)
    gap, largest = np.zeros(log_ratios[0].shape), np.full(log_ratios[0].shape, -np.inf)
    for (chance, _), log_ratio in zip(counts, log_ratios, strict=True):
        # not by way of a log: that of 1e-8 has lost two digits of a loss that is as small
        gap += float(chance) * np.expm1(np.minimum(log_ratio, _LARGE))
        np.maximum(largest, log_ratio, out=largest)
    # Near 1 the log of the sum would lose the digits of a small loss: there the mixture of the differences Z_h - 1.
    near = (np.abs(gap) < _SMALL_GAP) & (largest < _LARGE)
    parts = [log_fraction(chance) + log_ratio for (chance, _), log_ratio in zip(counts, log_ratios, strict=True)]
    mixed = log_sum_exp([*parts, np.full(gap.shape, log_none)])
    return np.where(near, np.log1p(np.where(near, gap, 0.0)), mixed)
