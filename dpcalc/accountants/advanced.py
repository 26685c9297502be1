"""Advanced (strong) composition with exact per-step profiles."""

import math
from collections.abc import Callable

from dpcalc.accountants.answer import Answer
from dpcalc.accountants.basic import step_epsilon
from dpcalc.curves.loss_moments import Curve

_FRACTIONS: list[float] = [0.5 ** (k / 4) for k in range(1, 121)]  # of delta, from 0.84 down to 1e-9


def advanced(counts: dict[Curve, int], *, delta: float) -> Answer:
    """Advanced composition with unequal steps; the split of delta is optimised.

    With delta' for the theorem and the rest spread evenly over the steps,
    epsilon = sqrt(2 ln(1/delta') sum eps_i^2) + sum eps_i (e^eps_i - 1).

    Args:
        counts: steps of one direction and how often each occurs, not empty.
        delta: in (0, 1).

    Returns:
        An upper bound.

    References:
        Dwork, Roth 2014, Theorem 3.20; unequal steps by the same martingale.
    """
    steps = sum(counts.values())

    def composed(fraction: float) -> float:
        share = delta * (1 - fraction) / steps
        squares, drift = 0.0, 0.0
        for curve, count in counts.items():
            epsilon = step_epsilon(curve, share)
            squares += count * epsilon**2
            drift += count * epsilon * math.expm1(epsilon) if epsilon < 700 else math.inf
        return math.sqrt(2 * math.log(1 / (delta * fraction)) * squares) + drift

    best = best_fraction(composed)
    return Answer(epsilon=composed(best), note=f"delta' = {best * delta:.3g}")


def best_fraction(composed: Callable[[float], float]) -> float:
    """The best fraction of delta for the theorem; every fraction is valid, so a scan in three passes will do."""
    coarse = min(_FRACTIONS[::8], key=composed)
    fine = min((f for f in _FRACTIONS if coarse / 5 < f < 5 * coarse), key=composed)
    low, high = fine / 2**0.25, min(fine * 2**0.25, 0.999)
    return min((low + (high - low) * k / 16 for k in range(17)), key=composed)
