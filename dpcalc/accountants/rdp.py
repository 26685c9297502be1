"""Renyi differential privacy at real orders, converted at the best order."""

from dpcalc.accountants.answer import Answer
from dpcalc.accountants.conversion import best_epsilon
from dpcalc.curves.loss_moments import LossCurve


def rdp(counts: dict[LossCurve, int], *, delta: float) -> Answer:
    """Sum of the steps' Renyi divergences, the order minimised continuously.

    Glued profiles enter with the moments of both halves (curves/loss_moments), never with one half's pair.

    Args:
        counts: steps of one direction and how often each occurs, not empty.
        delta: in (0, 1).

    Returns:
        An upper bound.

    References:
        Mironov 2017 (1702.07476v3), Propositions 1 and 3; Canonne, Kamath, Steinke 2020 (2004.00010v4), Proposition 12.
    """
    best = best_epsilon(counts, delta=delta)
    return Answer(epsilon=max(0.0, best.value), note=f"order {best.order + 1:.4g}")
