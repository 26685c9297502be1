"""Where the divergence of a composed loss crosses delta, with all errors on one side."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcalc.accountants.composed_loss import UPPER, Composed, Side
from dpcalc.accountants.conversion import log_peak
from dpcalc.curves.loss_pmf import LossPmf
from dpcalc.numerics.convolve import UNIT_ROUNDOFF

Array = NDArray[np.float64]

_BEFORE = 30  # doublings of the spacing, from the lowest loss down
LARGE = 300.0  # exponent beyond which even the least error, times e^LARGE, is far above 1


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """An end of epsilon.

    Attributes:
        epsilon: >= 0.
        steepness: of log delta there, times epsilon.
        roundoff: share of delta that is round-off and what was lost.
        excess: the moment bound of the tilt over delta: how much more than delta weighs what is seen under the tilt.
    """

    epsilon: float
    steepness: float
    roundoff: float
    excess: float


def crossing(composed: Composed, delta: float, side: Side) -> Crossing:
    """Where delta(epsilon), with all errors on the side asked for, crosses `delta`; inf if it never does.

    Between two lattice points delta(epsilon) = A - e^epsilon B exactly, A and B sums over the losses above.
    """
    pmf, slack = composed
    losses, plain, error = untilted(pmf, side, slack)

    def delta_at(k: int) -> float:
        return float((plain[k + 1 :] * -np.expm1(losses[k] - losses[k + 1 :])).sum()) + float(error[k])

    if delta_at(losses.size - 1) > delta:
        return _unknown(math.inf if side is UPPER else 0.0)
    above = below = _rough_place(losses, plain, error, delta, _BEFORE + int(np.argmax(pmf.mass)))
    step = 1
    while below < losses.size - 1 and delta_at(below) > delta:
        above, below, step = below, min(losses.size - 1, below + step), 2 * step
    step = 1
    while above > 0 and delta_at(above) <= delta:
        below, above, step = above, max(0, above - step), 2 * step
    if delta_at(above) <= delta:
        return _unknown(max(0.0, float(losses[0])) if side is UPPER else 0.0)
    while below - above > 1:
        middle = (above + below) // 2
        above, below = (middle, below) if delta_at(middle) > delta else (above, middle)
    gap = float(losses[below] - losses[above])
    # A + error - delta as a sum of two positive numbers: where losses lie far apart little more than delta is above
    rest = delta_at(above) - delta + float((plain[below:] * np.exp(losses[above] - losses[below:])).sum())
    discounted = float((plain[below:] * np.exp(losses[below] - losses[below:])).sum())  # e^losses[below] B
    # log(discounted / rest), without the ratio: between losses of 1e-12 it is 1 up to its last digits
    missing = delta - float(error[above]) - float((plain[below:] * -np.expm1(losses[below] - losses[below:])).sum())
    short = min(math.log1p(max(missing, 0.0) / rest), gap) if discounted > 0 else 0.0  # else all of it is error
    # Rounded to the side asked for: near the largest loss an ulp decides whether delta is 0 or many times too large.
    epsilon = max(0.0, float(losses[below]) - short) * (1 + side.sign * 4 * UNIT_ROUNDOFF)
    log_bound = pmf.log_norm - pmf.tilt * epsilon + float(log_peak(np.array([pmf.tilt]))[0])
    return Crossing(
        epsilon=epsilon,
        steepness=discounted * math.exp(short - gap) * epsilon / delta,
        roundoff=abs(float(error[above])) / delta,
        excess=math.exp(min(log_bound - math.log(delta), LARGE)),
    )


def _unknown(epsilon: float) -> Crossing:
    """An end that is none, or beyond the lattice."""
    return Crossing(epsilon=epsilon, steepness=math.inf, roundoff=0.0, excess=1.0)


def _rough_place(losses: Array, plain: Array, error: Array, delta: float, start: int) -> int:
    """About the last loss with delta(loss) > delta, from running sums with round-off; `start` where there is none."""
    above = np.cumsum(plain[::-1])[::-1] - plain
    discounted = np.zeros(losses.size)  # at each loss the sum of what lies above it, times e^(loss - its own)
    end, beyond = losses.size, 0.0
    while end:
        first = int(np.searchsorted(losses[:end], losses[end - 1] - LARGE))
        away = losses[first:end] - losses[first]
        weight = plain[first:end] * np.exp(-away)
        sums = np.cumsum(weight[::-1])[::-1] + beyond * math.exp(-away[-1])
        discounted[first:end] = np.exp(away) * (sums - weight)
        end, beyond = first, float(sums[0]) * math.exp(losses[first - 1] - losses[first]) if first else 0.0
    larger = np.flatnonzero(above - discounted + error > delta)
    return int(larger[-1]) if larger.size else start


def divergence(composed: Composed, epsilon: float, side: Side) -> float:
    """The hockey-stick divergence at epsilon, with all errors on the side asked for."""
    pmf, slack = composed
    losses, plain, _ = untilted(pmf, side, slack)
    above = losses > epsilon
    exponent = pmf.log_norm + side.sign * slack - pmf.tilt * epsilon
    error = side.sign * error_bound(pmf) * math.exp(min(exponent, LARGE))
    return float((plain[above] * -np.expm1(epsilon - losses[above])).sum()) + error


def untilted(pmf: LossPmf, side: Side, slack: float) -> tuple[Array, Array, Array]:
    """(losses, P masses, error of the divergence at each loss), from some losses before the first that have no mass."""
    before = pmf.losses[0] - pmf.spacing * 2.0 ** np.arange(_BEFORE - 1, -1, -1)
    losses = np.concatenate([before, pmf.losses])
    scale = np.exp(np.minimum(pmf.log_norm + side.sign * slack - pmf.tilt * losses, LARGE))
    return losses, np.pad(pmf.mass, (_BEFORE, 0)) * scale, side.sign * error_bound(pmf) * scale


def error_bound(pmf: LossPmf) -> float:
    """Bound on the error of sum_l mass(l) e^{-t(l - epsilon)} (1 - e^{epsilon - l})_+ from what was lost and rounded.

    The weights are at most w(t) (conversion.log_peak); the square of their 2-norm is at most
    1 / (2t (2t + 1) (t + 1) spacing) + 2 w(t)^2.
    """
    t = pmf.tilt
    peak = math.exp(float(log_peak(np.array([t]))[0]))
    norm = math.sqrt(1 / (2 * t * (2 * t + 1) * (t + 1) * pmf.spacing) + 2 * peak**2)
    return min(pmf.lost * peak + pmf.noise * norm, 1e100)
