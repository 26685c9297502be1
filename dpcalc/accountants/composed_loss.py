"""Compose the losses of a run on one grid with certified rounding, and read epsilon or delta from the result.

`counts` is always: the steps of one direction and how often each occurs.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dpcalc.accountants.rdp import log_peak
from dpcalc.errors import ConvergenceError, UnsupportedError
from dpcalc.losses.cells import Cells, Resolution, cells, discretize_optimistic, discretize_pessimistic
from dpcalc.losses.composition import (
    LossPmf,
    Pmf,
    Rounding,
    TailCap,
    cap_optimistic,
    cap_pessimistic,
    coarsen_optimistic,
    coarsen_pessimistic,
    compose_all,
    compose_copies,
    with_public_draw,
)
from dpcalc.losses.moments import ComposedMoments, Curve, PublicDraw, RdpCurve, Steps
from dpcalc.numerics import UNIT_ROUNDOFF, Array
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, alike, spend

# Times the budget that rounding down may cost before a step is cut finer, and how much finer. Once only: a second time
# would take most of the work of a lower bound.
_MAX_LOSS_OF_MASS, _FINER = 10.0, 16
_EXTRA_POINTS = 30  # losses without mass below the lowest one, at doubling distances, where epsilon may lie too
LARGE = 300.0  # exponent above which even the smallest error, times e^LARGE, is far above 1

ComposedLoss = tuple[LossPmf, float]
"""A tilted loss, and its slack: a bound on the change of the log of its mass by misplaced cell ends and round-off."""


@dataclass(frozen=True)
class BoundSide:
    """Rounding direction: UPPER never underestimates delta, LOWER never overestimates it."""

    discretize: Callable[[Cells], Pmf]  # first discretization of a step
    coarsen: Rounding  # coarsening of a grid
    cap_tail: TailCap  # cap of losses above a limit
    sign: int  # +1 if the errors carried along are added to delta, -1 if taken from it


UPPER = BoundSide(discretize=discretize_pessimistic, coarsen=coarsen_pessimistic, cap_tail=cap_pessimistic, sign=1)
LOWER = BoundSide(discretize=discretize_optimistic, coarsen=coarsen_optimistic, cap_tail=cap_optimistic, sign=-1)


def composed_loss(
    counts: Steps, moments: ComposedMoments, settings: Resolution, sides: tuple[BoundSide, ...]
) -> list[ComposedLoss]:
    """Return the composed loss for each side; UnsupportedError if an RdpCurve is among the steps."""
    if not counts:
        raise ConvergenceError("composition: expected at least one step, got none")
    # Budgets are shared out before anything is discretized: rounding errors of steps and of their sum add up. What a
    # step does not get is for the sum.
    budget = settings.budget / ((2 if len(counts) == 1 else 4) * len(counts))
    log_norms = [float(value[0]) for value, _ in moments.of_parts(np.array([settings.tilt]))]
    starts = [
        _discretized(curve, of_step, count, replace(settings, budget=budget, log_norm=log_norm), sides)
        for (curve, count), (of_step, _), log_norm in alike(
            [*zip(counts.items(), moments.parts, log_norms, strict=True)]
        )
    ]
    composed = []
    for i, side in enumerate(sides):
        parts, slack = [], 0.0
        for start, count in zip(starts, counts.values(), strict=True):
            loss, step_slack = start[i]
            loss = loss.to_longdouble() if settings.has_long_doubles else loss
            parts.append(compose_copies(loss, count, budget, side.coarsen))
            slack += count * step_slack
        composed.append((compose_all(parts, settings.budget / 4, side.coarsen), slack))
    return composed


def _discretized(
    curve: Curve, moments: Any, copies: int, settings: Resolution, sides: tuple[BoundSide, ...]
) -> list[tuple[Pmf, float]]:
    """Return one copy's (loss on a grid, log slack) for each side; steps under a public draw are composed first."""
    # `settings` have the log moment of the step, whose work is charged here.
    if isinstance(curve, RdpCurve):
        raise UnsupportedError(
            f"pld: expected a loss distribution, of {curve.name} only Renyi divergences are known; use rdp"
        )
    spend(moments.work(1))
    log_norm = settings.log_norm
    if isinstance(curve, PublicDraw):
        # The errors of the steps count with the tilted probability that the draw takes the unit.
        steps = replace(moments, rate=1.0)
        inside = float(steps.cumulants(np.array([settings.tilt]))[0][0])
        drawn = min(1.0, max(curve.rate * math.exp(min(inside - log_norm, 700.0)), 1e-300))
        within = replace(settings, budget=settings.budget / (2 * copies) / drawn)
        return [
            (with_public_draw(pmf, curve.rate, log_norm, side.sign).normalized(), slack * drawn)
            for side, (pmf, slack) in zip(sides, composed_loss(dict(curve.counts), steps, within, sides), strict=True)
        ]
    aim = replace(settings, copies=copies)
    first = cells(curve, aim)
    results = []
    for side in sides:
        cut, loss = first, side.discretize(first)
        if copies * (log_norm - loss.log_norm) >= _MAX_LOSS_OF_MASS * settings.budget:
            with suppress(ConvergenceError):  # no room: the coarser one is a valid end, too
                finer = cells(curve, replace(aim, budget=settings.budget / _FINER))
                cut, loss = finer, side.discretize(finer)
        # Round-off, and for UPPER cell ends off the grid; merging (LOWER) needs no cell ends on the lattice.
        spread = float((cut.mass * np.abs(cut.loss)).sum())
        slack = 32 * UNIT_ROUNDOFF * (1 + settings.tilt * spread)
        results.append((loss, slack + settings.tilt * cut.overshoot if side is UPPER else slack))
    return results


# Reading epsilon and delta from a composed loss, with all errors on one side (docs/theory.md, Theorem 9.4).


@dataclass(frozen=True, kw_only=True)
class EpsilonBound:
    """A bound on epsilon >= 0 read from a composed loss, with the facts that decide on another attempt."""

    epsilon: float
    steepness: float = math.inf  # |d log delta / d epsilon| there, times epsilon; infinite where nothing was read
    roundoff: float = 0.0  # share of delta that comes from round-off and lost mass
    excess: float = 1.0  # moment bound on delta at this tilt, divided by delta; 1 if the tilt suits epsilon


def epsilon_at_delta(composed: ComposedLoss, delta: float, side: BoundSide) -> EpsilonBound:
    """Return the bound on epsilon where the finite losses' delta is `delta`; inf (LOWER: 0) if it stays above."""
    # It is the lowest loss of the grid, but >= 0, (LOWER: 0) if delta(epsilon) is nowhere above `delta`.
    pmf, slack = composed
    losses, plain, error = untilted_masses(pmf, side, slack)
    last = losses.size - 1

    @cache
    def delta_at(k: int) -> float:
        spend(ELEMENT * (losses.size - k))
        return float((plain[k + 1 :] * -np.expm1(losses[k] - losses[k + 1 :])).sum()) + float(error[k])

    if delta_at(last) > delta:
        return EpsilonBound(epsilon=math.inf if side is UPPER else 0.0)
    # The last point at which delta is above `delta`: from a rough one by steps that double, then by halving.
    # The discounted sums are taken in blocks of e^LARGE, relative to the block's first loss: no exponent overflows.
    all_above = np.cumsum(plain[::-1])[::-1] - plain
    all_discounted = np.zeros(losses.size)  # at each loss the sum of what lies above it, times e^(loss - its own)
    end, mass_above = losses.size, 0.0
    while end:
        first = int(np.searchsorted(losses[:end], losses[end - 1] - LARGE))
        distances = losses[first:end] - losses[first]
        weight = plain[first:end] * np.exp(-distances)
        sums = np.cumsum(weight[::-1])[::-1] + mass_above * math.exp(-distances[-1])
        all_discounted[first:end] = np.exp(distances) * (sums - weight)
        end, mass_above = first, float(sums[0]) * math.exp(losses[first - 1] - losses[first]) if first else 0.0
    larger = np.flatnonzero(all_above - all_discounted + error > delta)
    above = below = int(larger[-1]) if larger.size else _EXTRA_POINTS + int(np.argmax(pmf.mass))
    step = 1
    while below < last and delta_at(below) > delta:
        above, below, step = below, min(last, below + step), 2 * step
    step = 1
    while above > 0 and delta_at(above) <= delta:
        below, above, step = above, max(0, above - step), 2 * step
    if delta_at(above) <= delta:
        return EpsilonBound(epsilon=max(0.0, float(losses[0])) if side is UPPER else 0.0)
    while below - above > 1:
        middle = (above + below) // 2
        above, below = (middle, below) if delta_at(middle) > delta else (above, middle)

    # Between two points of the grid delta(epsilon) = A - e^epsilon B exactly, A and B sums over the losses above.
    below, error_above = above + 1, float(error[above])
    gap = float(losses[below] - losses[above])
    # A + error - delta as a sum of two positive numbers: where losses lie far apart little more than delta is above
    remaining = delta_at(above) - delta + float((plain[below:] * np.exp(losses[above] - losses[below:])).sum())
    discounted = float((plain[below:] * np.exp(losses[below] - losses[below:])).sum())  # e^losses[below] B
    # log(discounted / rest), without the ratio: between losses of 1e-12 it is 1 up to its last digits
    missing = delta - error_above - float((plain[below:] * -np.expm1(losses[below] - losses[below:])).sum())
    short = min(math.log1p(max(missing, 0.0) / remaining), gap) if discounted > 0 else 0.0  # else all of it is error

    # Rounded to the side asked for: near the largest loss an ulp decides whether delta is 0 or many times too large.
    epsilon = max(0.0, float(losses[below]) - short) * (1 + side.sign * 4 * UNIT_ROUNDOFF)
    log_moment_bound = pmf.log_norm - pmf.tilt * epsilon + float(log_peak(np.array([pmf.tilt]))[0])
    return EpsilonBound(
        epsilon=epsilon,
        steepness=discounted * math.exp(short - gap) * epsilon / delta,
        roundoff=abs(error_above) / delta,
        excess=math.exp(min(log_moment_bound - math.log(delta), LARGE)),
    )


def delta_at_epsilon(composed: ComposedLoss, epsilon: float, side: BoundSide) -> float:
    """Return a bound on the finite losses' delta at any real epsilon, not clipped: LOWER may be < 0, UPPER > 1."""
    pmf, slack = composed
    losses, plain, _ = untilted_masses(pmf, side, slack)
    above = losses > epsilon
    exponent = pmf.log_norm + side.sign * slack - pmf.tilt * epsilon
    error = side.sign * divergence_error(pmf) * math.exp(min(exponent, LARGE))
    return float((plain[above] * -np.expm1(epsilon - losses[above])).sum()) + error


def untilted_masses(pmf: LossPmf, side: BoundSide, slack: float) -> tuple[Array, Array, Array]:
    """Return (losses, untilted P masses, bound on delta's error), rounded to `side`, of one shape."""
    # They begin with 30 losses without mass, 1, 2, 4, ... cells below the first one of the grid; the masses are raised
    # by the slack for UPPER and lowered for LOWER, and the error is what remains.
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
