"""Privacy loss distributions: certified upper and lower ends of epsilon.

Per direction: find the order t that gives the best moment bound, tilt by e^{t loss}, put each different
step on a lattice fine enough for its number of copies, and raise it to that power in rounds of 16. After a
round the loss is wider, so the lattice is widened with it: the cost grows like the logarithm of the
number of steps. All that is cut, wrapped or rounded is added to (upper) or taken from (lower) delta.
Sources: Koskela, Jälkö, Honkela 2020 (1906.03049); Gopi, Lee, Wutschitz 2021 (2106.02848); Doroshenko et
al. 2022 (2207.04380).
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpcalc.accountants.answer import Answer
from dpcalc.accountants.closed_form import closed_form
from dpcalc.accountants.composed_loss import LOWER, UPPER, Fineness, Side, composed_loss, doubles, extended
from dpcalc.accountants.conversion import best_delta, best_epsilon, log_peak
from dpcalc.curves.loss_moments import Curve, infinite_mass, segment_ends
from dpcalc.curves.loss_pmf import LossPmf
from dpcalc.errors import ConvergenceError, UnsupportedError
from dpcalc.numerics.convolve import UNIT_ROUNDOFF

__all__ = ["LOWER", "UPPER", "Side", "delta_curve", "delta_interval", "interval", "pld"]

Array = NDArray[np.float64]

NEGLECTED = 1e-4  # share of delta spent on losses so rare that they are called infinite
ROUNDED = 3e-4  # share of delta that round-off may have before extended precision is called for
WORST_WIDTH = 2e-4  # width that calls for a second attempt
RELATIVE_WIDTH = 2e-5  # aim for the width of the interval around epsilon
ABSOLUTE_WIDTH = 1e-6  # of a small epsilon, instead
ROUGH_WIDTH = 1e-4  # where it only decides whether something else costs more
MANY_WIDER = 4.0  # times that for many different steps, among which it is shared
STEEPEST = 1 / RELATIVE_WIDTH  # tilt times epsilon: with more, a change of epsilon within the aim is one of delta by e
_BEFORE = 30  # doublings of the spacing, from the lowest loss down
_ATTEMPTS = 12  # at finding out how small delta is
_TINY = 1e-300  # a delta below which there is none
_HUGE = 300.0  # exponent beyond which even the least error, times e^_HUGE, is far above 1


def interval(
    counts: dict[Curve, int], *, delta: float, sides: tuple[Side, ...], width: float = RELATIVE_WIDTH
) -> tuple[float, ...]:
    """Certified ends of epsilon of one direction.

    Args:
        counts: steps of one direction and how often each occurs.
        delta: in (0, 1).
        sides: which ends, e.g. (UPPER, LOWER).
        width: relative distance of the ends that is aimed at.

    Returns:
        epsilon >= 0 of each side: UPPER is never below, LOWER never above the exact value.

    Raises:
        ConvergenceError: if no certified number could be had.
    """
    if not counts:
        return tuple(0.0 for _ in sides)
    ends = (closed_form(counts, delta=delta, sign=side.sign) for side in sides)
    known = tuple(end for end in ends if end is not None)
    if len(known) == len(sides):
        return known
    return _on_lattices(counts, delta, sides, width)


def rough_end(counts: dict[Curve, int], *, delta: float) -> float:
    """An upper end as of `interval` that is less sharp and costs about half; infinite where none is to be had."""
    try:
        return interval(counts, delta=delta, sides=(UPPER,), width=ROUGH_WIDTH)[0]
    except (ConvergenceError, UnsupportedError):
        return math.inf


def _on_lattices(
    counts: dict[Curve, int], delta: float, sides: tuple[Side, ...], width: float = RELATIVE_WIDTH
) -> tuple[float, ...]:
    """Certified ends of epsilon of one direction, for steps of any kind, about as far apart as asked."""
    neglect = NEGLECTED * delta / segment_ends(counts.items())
    kept = delta * (1 - NEGLECTED)
    best = best_epsilon(counts, delta=kept, neglect=neglect)
    infinite = infinite_mass(counts.items())
    if best.value == math.inf:
        return tuple(math.inf if side is UPPER else 0.0 for side in sides)
    if best.value <= 0:
        return tuple(0.0 for _ in sides)
    tilt = min(best.order, STEEPEST / best.value)
    width = max(width, ABSOLUTE_WIDTH / best.value)
    aim = width * max(tilt * best.value, 1.0) * min(math.sqrt(len(counts)), MANY_WIDER)
    fineness = Fineness(tilt=tilt, budget=aim, neglect=neglect, precision=doubles)
    composed = composed_loss(counts, best.moments, fineness, sides)
    ends = []
    for side, found in zip(sides, composed, strict=True):
        spent = (kept if side is UPPER else delta) - infinite
        first = _epsilon(*found, spent, side)
        finer = _finer(first, fineness, spent)
        if finer is not None:
            first = _epsilon(*composed_loss(counts, best.moments, finer, (side,))[0], spent, side)
        ends.append(min(best.value, first.epsilon))
    return tuple(ends)


def _finer(found: "_Found", fineness: Fineness, delta: float) -> Fineness | None:
    """What a second attempt needs where the first was too coarse for the slope of log delta.

    The first takes the tilt for that slope. Where rare large losses forbid the tilt that fits epsilon they differ: then
    the cells must be finer, and the round-off of the transforms may matter, too.
    """
    local = found.steepness / max(fineness.tilt * found.epsilon, 1e-300)  # order that acts at epsilon, over the tilt
    budget = max(WORST_WIDTH * found.steepness / max(local, 1.0) ** 2, fineness.budget / 16)
    rough = found.roundoff > ROUNDED * found.steepness * delta
    if not found.epsilon or not (rough or budget < fineness.budget / 2):
        return None
    return replace(fineness, budget=min(budget, fineness.budget), precision=extended if rough else doubles)


@dataclass(frozen=True)
class _Found:
    """An end of epsilon, how steep log delta is there (times epsilon), and how much of delta is round-off."""

    epsilon: float
    steepness: float
    roundoff: float


def delta_interval(counts: dict[Curve, int], *, epsilon: float, sides: tuple[Side, ...]) -> tuple[float, ...]:
    """Certified ends of delta of one direction at an epsilon >= 0; as `interval` otherwise."""
    if not counts:
        return tuple(0.0 for _ in sides)
    rough, infinite = best_delta(counts, epsilon=epsilon).value, infinite_mass(counts.items())
    if rough < _TINY:
        return tuple(_TINY if side is UPPER else 0.0 for side in sides)
    return tuple(min(1.0, infinite + _delta_end(counts, epsilon, rough, side)) for side in sides)


def _delta_end(counts: dict[Curve, int], epsilon: float, rough: float, side: Side) -> float:
    """One end of delta, finite losses; what may be left out depends on it, and it may be far below the moment bound."""
    infinite = infinite_mass(counts.items())
    end = max(min(1.0, rough) - infinite, _TINY)
    for _ in range(_ATTEMPTS):
        neglected = 1e-5 * end
        neglect = neglected / segment_ends(counts.items())
        best = best_delta(counts, epsilon=epsilon, neglect=neglect)
        if best.value - infinite < neglected:
            end = max(best.value - infinite, 1e-16 * infinite) + neglected
            continue
        tilt = min(best.order, STEEPEST / max(epsilon, 1e-300))
        fineness = Fineness(tilt=tilt, budget=1e-4, neglect=neglect, precision=doubles)
        (composed,) = composed_loss(counts, best.moments, fineness, (side,))
        found = _delta(*composed, epsilon, side)
        if found > (0.01 * end if side is UPPER else 0.0):
            return min(end, found + neglected) if side is UPPER else found
        end = 0.01 * end + neglected
    return max(end, _TINY) if side is UPPER else 0.0


def delta_curve(counts: dict[Curve, int], *, epsilons: Array, around: float) -> Array:
    """Certified upper ends of delta at many epsilons of one direction, from a single composition.

    Args:
        counts: steps of one direction and how often each occurs.
        epsilons: any real numbers, shape (n,).
        around: an epsilon >= 0; the ends are tight near it.

    Returns:
        Upper bounds on delta, shape (n,), at most 1.

    Raises:
        ConvergenceError: if the composition does not fit in memory.
    """
    if not counts:
        return np.maximum(-np.expm1(epsilons), 0.0)
    infinite = infinite_mass(counts.items())
    neglected = 1e-5 * min(max(best_delta(counts, epsilon=around).value - infinite, 1e-40), 1.0)
    neglect = neglected / segment_ends(counts.items())
    best = best_delta(counts, epsilon=around, neglect=neglect)
    fineness = Fineness(tilt=best.order, budget=1e-4, neglect=neglect, precision=doubles)
    ((pmf, slack),) = composed_loss(counts, best.moments, fineness, (UPPER,))
    losses, plain, _ = _untilted(pmf, UPPER, slack)
    base = float(epsilons.min())
    losses, plain = losses[losses > base], plain[losses > base]
    first = np.searchsorted(losses, epsilons, side="right")
    above, discounted = (_sums_from(x, first) for x in (plain, plain * np.exp(base - losses)))
    exact = above - np.exp(np.minimum(epsilons - base, _HUGE)) * discounted
    rounded = 8 * losses.size * UNIT_ROUNDOFF * above
    error = _error(pmf) * np.exp(np.minimum(pmf.log_norm + slack - pmf.tilt * epsilons, _HUGE))
    ends: Array = np.minimum(np.maximum(exact, 0.0) + rounded + error + neglected + infinite, 1.0)
    return ends


def _sums_from(values: Array, first: NDArray[np.intp]) -> Array:
    """For each index the sum of the values from there to the end."""
    sums: Array = np.append(np.cumsum(values[::-1])[::-1], 0.0)[first]
    return sums


def _epsilon(pmf: LossPmf, slack: float, delta: float, side: Side) -> _Found:
    """Where delta(epsilon), with all errors on the side asked for, crosses `delta`; inf if it never does.

    Between two lattice points delta(epsilon) = A - e^epsilon B exactly, A and B sums over the losses above.
    """
    losses, plain, error = _untilted(pmf, side, slack)

    def delta_at(k: int) -> float:
        return float((plain[k + 1 :] * -np.expm1(losses[k] - losses[k + 1 :])).sum()) + float(error[k])

    if delta_at(losses.size - 1) > delta:
        return _Found(math.inf if side is UPPER else 0.0, math.inf, 0.0)
    above = below = _crossing(losses, plain, error, delta, _BEFORE + int(np.argmax(pmf.mass)))
    step = 1
    while below < losses.size - 1 and delta_at(below) > delta:
        above, below, step = below, min(losses.size - 1, below + step), 2 * step
    step = 1
    while above > 0 and delta_at(above) <= delta:
        below, above, step = above, max(0, above - step), 2 * step
    if delta_at(above) <= delta:
        return _Found(max(0.0, float(losses[0])) if side is UPPER else 0.0, math.inf, 0.0)
    while below - above > 1:
        middle = (above + below) // 2
        above, below = (middle, below) if delta_at(middle) > delta else (above, middle)
    gap = float(losses[below] - losses[above])
    rest = float(plain[below:].sum()) + float(error[above]) - delta
    discounted = float((plain[below:] * np.exp(losses[below] - losses[below:])).sum())  # e^losses[below] B
    short = min(max(math.log(discounted / rest), 0.0), gap)
    epsilon = max(0.0, float(losses[below]) - short)
    return _Found(epsilon, discounted * math.exp(short - gap) * epsilon / delta, abs(float(error[above])))


def _crossing(losses: Array, plain: Array, error: Array, delta: float, start: int) -> int:
    """About the last loss with delta(loss) > delta, from running sums with round-off; `start` where there is none."""
    above = np.cumsum(plain[::-1])[::-1] - plain
    weight = plain * np.exp(np.minimum(losses[-1] - losses, _HUGE))
    discounted = np.exp(-np.minimum(losses[-1] - losses, _HUGE)) * (np.cumsum(weight[::-1])[::-1] - weight)
    larger = np.flatnonzero(above - discounted + error > delta)
    return int(larger[-1]) if larger.size else start


def _delta(pmf: LossPmf, slack: float, epsilon: float, side: Side) -> float:
    """The hockey-stick divergence at epsilon, with all errors on the side asked for."""
    losses, plain, _ = _untilted(pmf, side, slack)
    above = losses > epsilon
    exponent = pmf.log_norm + side.sign * slack - pmf.tilt * epsilon
    error = side.sign * _error(pmf) * math.exp(min(exponent, _HUGE))
    return float((plain[above] * -np.expm1(epsilon - losses[above])).sum()) + error


def _untilted(pmf: LossPmf, side: Side, slack: float) -> tuple[Array, Array, Array]:
    """(losses, P masses, error of the divergence at each loss), from some losses before the first that have no mass."""
    before = pmf.losses[0] - pmf.spacing * 2.0 ** np.arange(_BEFORE - 1, -1, -1)
    losses = np.concatenate([before, pmf.losses])
    scale = np.exp(np.minimum(pmf.log_norm + side.sign * slack - pmf.tilt * losses, _HUGE))
    return losses, np.pad(pmf.mass, (_BEFORE, 0)) * scale, side.sign * _error(pmf) * scale


def _error(pmf: LossPmf) -> float:
    """Bound on the error of sum_l mass(l) e^{-t(l - epsilon)} (1 - e^{epsilon - l})_+ from what was lost and rounded.

    The weights are at most w(t) (conversion.log_peak); the square of their 2-norm is at most
    1 / (2t (2t + 1) (t + 1) spacing) + 2 w(t)^2.
    """
    t = pmf.tilt
    peak = math.exp(float(log_peak(np.array([t]))[0]))
    norm = math.sqrt(1 / (2 * t * (2 * t + 1) * (t + 1) * pmf.spacing) + 2 * peak**2)
    return min(pmf.lost * peak + pmf.noise * norm, 1e100)


def pld(counts: dict[Curve, int], *, delta: float) -> Answer:
    """The certified upper end of epsilon of one direction.

    Args:
        counts: steps of one direction and how often each occurs, not empty.
        delta: in (0, 1).

    Returns:
        An upper bound, within about 3e-5 relative of the exact value of the composed one-step bound.

    Raises:
        ConvergenceError: if no certified number could be had.
    """
    return Answer(epsilon=interval(counts, delta=delta, sides=(UPPER,))[0])
