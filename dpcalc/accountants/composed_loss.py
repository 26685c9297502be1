"""Compose the losses of a run on one grid with certified rounding, and read epsilon or delta from the result."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import exp
from typing import NamedTuple

import numpy as np

from dpcalc.accountants.rdp import log_peak
from dpcalc.arrays import Array
from dpcalc.errors import ConvergenceError, UnsupportedError
from dpcalc.losses.cells import Cells, Resolution, cells, discretize_optimistic, discretize_pessimistic
from dpcalc.losses.coarsen import Rounding, coarsen_optimistic, coarsen_pessimistic
from dpcalc.losses.composition import Loss, TailCap, cap_optimistic, cap_pessimistic, compose_all, compose_copies
from dpcalc.losses.moments import ComposedMoments, Curve, LogMoments, RevealedSubsample, RevealedSubsampleMoments
from dpcalc.losses.pair import LossCurve
from dpcalc.losses.pmf import LossPmf, with_public_draw
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.numerics.convolution import UNIT_ROUNDOFF
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, spend

# Times the budget that rounding down may cost before a step is cut finer, and how much finer. Once only: a second time
# would take most of the work of a lower bound.
_MAX_LOSS_OF_MASS, _FINER = 10.0, 16
ComposedLoss = tuple[LossPmf, float]  # a tilted loss, and its slack
Step = tuple[Curve, LogMoments, int]  # its log moments, and how often it occurs


@dataclass(frozen=True)
class BoundSide:
    """Rounding direction: UPPER never underestimates delta, LOWER never overestimates it.

    Attributes:
        discretize: first discretization of a step.
        coarsen: coarsening of a grid.
        cap_tail: cap of losses above a limit.
        sign: +1 if the errors carried along are added to delta, -1 if taken from it.
    """

    discretize: Callable[[Cells], Loss]
    coarsen: Rounding
    cap_tail: TailCap
    sign: int


UPPER = BoundSide(discretize=discretize_pessimistic, coarsen=coarsen_pessimistic, cap_tail=cap_pessimistic, sign=1)
LOWER = BoundSide(discretize=discretize_optimistic, coarsen=coarsen_optimistic, cap_tail=cap_optimistic, sign=-1)


@dataclass(frozen=True, kw_only=True)
class CompositionSettings:
    """Accuracy of a composition: tilt, budget for rounding, mass that may be cut off, and number format.

    Attributes:
        tilt: order t >= 0 of the exponential tilt e^(t loss) under which the masses are kept.
        budget: about how much rounding may change the log of the composed tilted mass.
        truncated_mass: P mass a step may leave out at each end of each segment.
        precision: conversion of the numbers of a step, `as_float64` or `as_longdouble`.
    """

    tilt: float
    budget: float
    truncated_mass: float
    precision: Callable[[Loss], Loss]


def as_float64(loss: Loss) -> Loss:
    """Return the loss unchanged: its numbers are float64."""
    return loss


def as_longdouble(loss: Loss) -> Loss:
    """Return the loss with its numbers in extended precision; float64 on machines without it."""
    return loss.to_longdouble()


def composed_loss(
    counts: dict[Curve, int], moments: ComposedMoments, settings: CompositionSettings, sides: tuple[BoundSide, ...]
) -> list[ComposedLoss]:
    """Return the composed (tilted loss, log slack) per side; UnsupportedError if an RdpCurve is among the steps.

    (the tilted loss, a bound on the change of the log of its mass by misplaced cell ends and rounded numbers) for
    each side.
    """
    parts = zip(counts.items(), moments.parts, strict=True)
    return _compose_steps([(curve, log_moments, count) for (curve, count), (log_moments, _) in parts], settings, sides)


def _compose_steps(
    steps: list[Step], settings: CompositionSettings, sides: tuple[BoundSide, ...]
) -> list[ComposedLoss]:
    """Compose all steps within a shared budget; return (loss, log slack) per side; ConvergenceError for no steps."""
    # Budgets are shared out before anything is discretized: rounding errors of steps and of their sum add up.
    if not steps:
        raise ConvergenceError("composition: expected at least one step, got none")
    share = 2 if len(steps) == 1 else 4  # the rest is for the sum of the steps
    step_settings = replace(settings, budget=settings.budget / (share * len(steps)))
    starts = [_first_discretizations(step, step_settings, sides) for step in steps]
    composed_sides = []
    for i, side in enumerate(sides):
        parts = [
            compose_copies(settings.precision(start[i][0]), count, step_settings.budget, side.coarsen)
            for start, (_, _, count) in zip(starts, steps, strict=True)
        ]
        slack = sum(count * start[i][1] for start, (_, _, count) in zip(starts, steps, strict=True))
        composed_sides.append((compose_all(parts, settings.budget / 4, side.coarsen), slack))
    return composed_sides


def _first_discretizations(
    step: Step, settings: CompositionSettings, sides: tuple[BoundSide, ...]
) -> list[tuple[Loss, float]]:
    """Return one copy's (loss on a grid, log slack) per side, public draws composed; UnsupportedError for RdpCurve."""
    curve, moments, copies = step
    tilt = settings.tilt
    if isinstance(curve, RdpCurve):
        raise UnsupportedError(
            f"pld: expected a loss distribution, of {curve.name} only Renyi divergences are known; use rdp"
        )
    log_norm = float(moments.cumulants(np.array([tilt]))[0][0])
    if isinstance(curve, RevealedSubsample):
        return _discretize_public_draw(curve, moments, replace(settings, budget=settings.budget / (2 * copies)), sides)
    aim = Resolution(
        tilt=tilt, log_norm=log_norm, copies=copies, budget=settings.budget, truncated_mass=settings.truncated_mass
    )
    cut = cells(curve, aim)
    return [_first_discretization(curve, cut, aim, side) for side in sides]


def _first_discretization(curve: LossCurve, cut: Cells, aim: Resolution, side: BoundSide) -> tuple[Loss, float]:
    """Return (step on a grid, log slack), on a finer grid if copies would lose much mass and there is room for it."""
    first = side.discretize(cut)
    lost = aim.copies * (aim.log_norm - first.log_norm)
    if lost < _MAX_LOSS_OF_MASS * aim.budget:
        return first, _log_slack(cut, aim.tilt, side)
    try:
        finer = cells(curve, replace(aim, budget=aim.budget / _FINER))
        return side.discretize(finer), _log_slack(finer, aim.tilt, side)
    except ConvergenceError:  # no room: the coarser one is a valid end, too
        return first, _log_slack(cut, aim.tilt, side)


def _discretize_public_draw(
    curve: RevealedSubsample, moments: LogMoments, settings: CompositionSettings, sides: tuple[BoundSide, ...]
) -> list[tuple[Loss, float]]:
    """Return (loss on a grid, log slack) per side of a public draw: its composed steps with its rate, else 0."""
    # The errors of the steps count with the tilted probability that the draw takes the unit.
    if not isinstance(moments, RevealedSubsampleMoments):
        raise TypeError("composition: expected the moments of a revealed draw, got those of a step")
    at = np.array([settings.tilt])
    inside = float(moments.steps.cumulants(at)[0][0])
    log_norm = float(moments.cumulants(at)[0][0])
    drawn = min(1.0, max(curve.rate * exp(min(inside - log_norm, 700.0)), 1e-300))
    parts = zip(curve.counts, moments.steps.parts, strict=True)
    steps = [(step, log_moments, count) for (step, count), (log_moments, _) in parts]
    composed = _compose_steps(steps, replace(settings, budget=settings.budget / drawn), sides)
    return [
        (with_public_draw(pmf, curve.rate, log_norm, side.sign).normalized(), slack * drawn)
        for side, (pmf, slack) in zip(sides, composed, strict=True)
    ]


def _log_slack(cut: Cells, tilt: float, side: BoundSide) -> float:
    """Return a bound on the error of one copy's log mass by round-off and, for UPPER, by cell ends off the grid."""
    spread = float((cut.mass * np.abs(cut.loss)).sum())
    rounded = 32 * UNIT_ROUNDOFF * (1 + tilt * spread)
    return rounded + tilt * cut.overshoot if side is UPPER else rounded  # merging needs no cell ends on the lattice


# Reading epsilon and delta from a composed loss, with all errors on one side (docs/theory.md, Theorem 9.4).


_EXTRA_POINTS = 30  # losses without mass below the lowest one, at doubling distances, where epsilon may lie too
LARGE = 300.0  # exponent above which even the smallest error, times e^LARGE, is far above 1


@dataclass(frozen=True, kw_only=True)
class EpsilonBound:
    """A bound on epsilon read from a composed loss, with the facts that decide on another attempt.

    Attributes:
        epsilon: >= 0.
        steepness: |d log delta / d epsilon| there, times epsilon; infinite where nothing was read.
        roundoff: share of delta that comes from round-off and lost mass.
        excess: moment bound on delta at this tilt, divided by delta; 1 if the tilt suits epsilon.
    """

    epsilon: float
    steepness: float
    roundoff: float
    excess: float


def epsilon_at_delta(composed: ComposedLoss, delta: float, side: BoundSide) -> EpsilonBound:
    """Return the bound on the epsilon at which the finite losses' delta is `delta`; inf (LOWER: 0) if it stays above.

    The bound; the lowest loss of the grid, but >= 0, (LOWER: 0) if delta(epsilon) is nowhere above `delta`.
    """
    pmf, slack = composed
    losses, plain, error = untilted_masses(pmf, side, slack)

    @cache
    def delta_at(k: int) -> float:
        spend(ELEMENT * (losses.size - k))
        return float((plain[k + 1 :] * -np.expm1(losses[k] - losses[k + 1 :])).sum()) + float(error[k])

    if delta_at(losses.size - 1) > delta:
        return _bound_without_detail(math.inf if side is UPPER else 0.0)
    start = _rough_crossing_index(losses, plain, error, delta, _EXTRA_POINTS + int(np.argmax(pmf.mass)))
    above = _crossing_index(delta_at, delta, start, losses.size - 1)
    if above is None:
        return _bound_without_detail(max(0.0, float(losses[0])) if side is UPPER else 0.0)
    error_above = float(error[above])
    crossing = _crossing_between_points(losses, plain, above, delta_at(above) - delta, delta - error_above)
    # Rounded to the side asked for: near the largest loss an ulp decides whether delta is 0 or many times too large.
    epsilon = max(0.0, crossing.epsilon) * (1 + side.sign * 4 * UNIT_ROUNDOFF)
    return EpsilonBound(
        epsilon=epsilon,
        steepness=crossing.slope * epsilon / delta,
        roundoff=abs(error_above) / delta,
        excess=_moment_excess(pmf, epsilon, delta),
    )


def _moment_excess(pmf: LossPmf, epsilon: float, delta: float) -> float:
    """Return the moment bound on delta at `epsilon`, by the order `pmf.tilt`, over `delta`; at most e^300."""
    log_bound = pmf.log_norm - pmf.tilt * epsilon + float(log_peak(np.array([pmf.tilt]))[0])
    return math.exp(min(log_bound - math.log(delta), LARGE))


def _crossing_index(delta_at: Callable[[int], float], delta: float, start: int, last: int) -> int | None:
    """Return the last index at which the falling `delta_at` is above `delta`, searched from `start`; None if none is.

    Args: delta by index, with delta_at(last) <= delta; None where delta_at(0) <= delta too.
    """
    above = below = start
    step = 1
    while below < last and delta_at(below) > delta:
        above, below, step = below, min(last, below + step), 2 * step
    step = 1
    while above > 0 and delta_at(above) <= delta:
        below, above, step = above, max(0, above - step), 2 * step
    if delta_at(above) <= delta:
        return None
    while below - above > 1:
        middle = (above + below) // 2
        above, below = (middle, below) if delta_at(middle) > delta else (above, middle)
    return above


class _Crossing(NamedTuple):
    """An epsilon at which delta is met, and `slope` = -d delta / d epsilon there."""

    epsilon: float
    slope: float


def _crossing_between_points(
    losses: Array, masses: Array, above: int, excess: float, delta_without_error: float
) -> _Crossing:
    """Return the epsilon between losses[above] and losses[above + 1] at which delta is met, and the slope there.

    Args: losses, P masses, last index with a larger delta, by how much it is larger, delta less its error there.
    """
    # Between two grid points delta(epsilon) = A - e^epsilon B exactly, A and B sums over the losses above.
    below = above + 1
    gap = float(losses[below] - losses[above])
    # A + error - delta as a sum of two positive numbers: where losses lie far apart little more than delta is above
    remaining = excess + float((masses[below:] * np.exp(losses[above] - losses[below:])).sum())
    discounted = float((masses[below:] * np.exp(losses[below] - losses[below:])).sum())  # e^losses[below] B
    # log(discounted / rest), without the ratio: between losses of 1e-12 it is 1 up to its last digits
    missing = delta_without_error - float((masses[below:] * -np.expm1(losses[below] - losses[below:])).sum())
    short = min(math.log1p(max(missing, 0.0) / remaining), gap) if discounted > 0 else 0.0  # else all of it is error
    return _Crossing(float(losses[below]) - short, discounted * math.exp(short - gap))


def _bound_without_detail(epsilon: float) -> EpsilonBound:
    """Return an EpsilonBound that was not read between grid points: infinite steepness, excess 1."""
    return EpsilonBound(epsilon=epsilon, steepness=math.inf, roundoff=0.0, excess=1.0)


def _rough_crossing_index(losses: Array, plain: Array, error: Array, delta: float, start: int) -> int:
    """Return roughly the last index at which delta is above `delta`, by running sums; `start` if there is none."""
    # The discounted sums are taken in blocks of e^LARGE, relative to the block's first loss: no exponent overflows.
    above = np.cumsum(plain[::-1])[::-1] - plain
    discounted = np.zeros(losses.size)  # at each loss the sum of what lies above it, times e^(loss - its own)
    end, mass_above = losses.size, 0.0
    while end:
        first = int(np.searchsorted(losses[:end], losses[end - 1] - LARGE))
        distances = losses[first:end] - losses[first]
        weight = plain[first:end] * np.exp(-distances)
        sums = np.cumsum(weight[::-1])[::-1] + mass_above * math.exp(-distances[-1])
        discounted[first:end] = np.exp(distances) * (sums - weight)
        end, mass_above = first, float(sums[0]) * math.exp(losses[first - 1] - losses[first]) if first else 0.0
    larger = np.flatnonzero(above - discounted + error > delta)
    return int(larger[-1]) if larger.size else start


def delta_at_epsilon(composed: ComposedLoss, epsilon: float, side: BoundSide) -> float:
    """Return a bound on the finite losses' delta at any real epsilon, not clipped: LOWER may be < 0, UPPER > 1."""
    pmf, slack = composed
    losses, plain, _ = untilted_masses(pmf, side, slack)
    above = losses > epsilon
    exponent = pmf.log_norm + side.sign * slack - pmf.tilt * epsilon
    error = side.sign * divergence_error(pmf) * math.exp(min(exponent, LARGE))
    return float((plain[above] * -np.expm1(epsilon - losses[above])).sum()) + error


def untilted_masses(pmf: LossPmf, side: BoundSide, slack: float) -> tuple[Array, Array, Array]:
    """Return (losses, untilted P masses, bound on delta's error), rounded to `side`, after 30 losses without mass.

    Three arrays of one shape. They begin with 30 losses without mass, 1, 2, 4, ... cells below the first one of the
    grid; the masses are raised by the slack for UPPER and lowered for LOWER, and the error is what remains.
    """
    spend(12 * ELEMENT * pmf.mass.size)
    before = pmf.losses[0] - pmf.spacing * 2.0 ** np.arange(_EXTRA_POINTS - 1, -1, -1)
    losses = np.concatenate([before, pmf.losses])
    scale = np.exp(np.minimum(pmf.log_norm + side.sign * slack - pmf.tilt * losses, LARGE))
    plain = np.zeros(losses.size, dtype=pmf.mass.dtype)
    plain[_EXTRA_POINTS:] = pmf.mass
    return losses, plain * scale, side.sign * divergence_error(pmf) * scale


def divergence_error(pmf: LossPmf) -> float:
    """Return E such that lost mass and noise move delta(epsilon) by at most E e^(log_norm - t epsilon), tilt t > 0."""
    # The weights are at most w(t) (rdp.log_peak); the square of their 2-norm is at most 1 / (2t (2t + 1) (t + 1)
    # spacing) + 2 w(t)^2.
    t = pmf.tilt
    peak = math.exp(float(log_peak(np.array([t]))[0]))
    norm = math.sqrt(1 / (2 * t * (2 * t + 1) * (t + 1) * pmf.spacing) + 2 * peak**2)
    return min(pmf.lost * peak + pmf.noise * norm, 1e100)


class UpperProfile:
    """Upper bounds on delta at any epsilons >= 0, read from one composed loss by sums that are made once."""

    def __init__(self, composed: ComposedLoss, *, around: float, added: float) -> None:
        """Prepare sums of the masses above each positive loss, exact near `around`; `added` is added to every delta."""
        pmf, slack = composed
        losses, plain, _ = untilted_masses(pmf, UPPER, slack)
        positive = losses > 0
        self._losses, plain = losses[positive], plain[positive]
        discounted = plain * np.exp(np.minimum(around - self._losses, LARGE))
        self._above, self._discounted = (np.append(np.cumsum(x[::-1])[::-1], 0.0) for x in (plain, discounted))
        self._log_norm, self._tilt = pmf.log_norm + slack, pmf.tilt
        self._error, self._around, self._added = divergence_error(pmf), around, added

    def __call__(self, epsilons: Array) -> Array:
        """Return upper bounds on delta, at most 1, at `epsilons` >= 0, of their shape (n,)."""
        first = np.searchsorted(self._losses, epsilons, side="right")
        above = self._above[first]
        exact = above - np.exp(np.minimum(epsilons - self._around, LARGE)) * self._discounted[first]
        rounded = 8 * self._losses.size * UNIT_ROUNDOFF * above
        error = self._error * np.exp(np.minimum(self._log_norm - self._tilt * epsilons, LARGE))
        ends: Array = np.minimum(np.maximum(exact, 0.0) + rounded + error + self._added, 1.0)
        return ends
