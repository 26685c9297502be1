"""Refine epsilon when a few rare, large losses dominate delta: compose with losses capped just above an estimate.

Losses far beyond epsilon draw the tilt that suits the moment bound away from it, and the numbers near epsilon lose
their digits. So it is where a few rare losses decide: one of them is beyond epsilon, and by how much hardly matters.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from dpcalc.accountants.composed_loss import (
    UPPER,
    BoundSide,
    CompositionSettings,
    EpsilonBound,
    as_float64,
    as_longdouble,
    composed_loss,
    epsilon_at_delta,
)
from dpcalc.accountants.rdp import best_delta
from dpcalc.arrays import Array
from dpcalc.errors import ConvergenceError
from dpcalc.losses.composition import Loss, TailCap, cap_pessimistic, capped
from dpcalc.losses.moments import (
    ComposedMoments,
    Curve,
    LogMoments,
    RevealedSubsampleMoments,
    total_infinity_mass,
)
from dpcalc.losses.quadrature import LossMoments
from dpcalc.records import dataclass

# None of these affects validity: any cap gives a bound. They decide how tight it is and how many attempts it takes.
_MARGINS = 2.0 ** np.arange(-60, 4.5, 0.5)  # distances above epsilon that are tried for the cap; epsilon may be 1e-8
_MAX_TAKEN_BACK = 1e-6  # expected number of negative losses larger than the distance
_DEVIATIONS = 5.0  # of the sum of the small losses that the distance must exceed
_PER_MARGIN = 8  # lattice points in the distance, at least
_UNINFORMATIVE = 1e3  # times delta: a moment bound that says little about it
_CAPPED_SHARE = 0.1  # of the moment bound, to which capping must lower it to be worth it
_HUGE = 600.0  # exponent that leaves room for sums


@dataclass(frozen=True)
class ExpectedLosses:
    """Expected number of occurrences of each loss in a composition.

    Attributes:
        number: expected number, shape (n,).
        loss: increasing, shape (n,).
    """

    number: Array
    loss: Array

    @classmethod
    def of(cls, moments: ComposedMoments) -> "ExpectedLosses":
        """Return how often each loss is expected to occur, at all quadrature nodes, sorted by loss."""
        parts = [(np.zeros(0), np.zeros(0)), *_expected_losses(moments.parts, 1.0)]
        number, loss = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        order = np.argsort(loss)
        return cls(number[order], loss[order])

    def margin(self) -> float:
        """Return the least margin that bounds nearly all negative losses and the sum of losses below it; at most 16.

        Beyond it at most 1e-6 negative losses are expected; the sum stays within it up to 5 deviations.
        """
        # Losses up to the margin are the bulk, whose sum has to stay within it; larger negative ones would undo a cap.
        order = np.argsort(np.abs(self.loss))
        number, loss = self.number[order], self.loss[order]
        within = np.searchsorted(np.abs(loss), _MARGINS)
        variance = np.append(0.0, np.cumsum(number * loss**2))[within]
        back = np.where(loss < 0, number, 0.0)
        outside = float(back.sum()) - np.append(0.0, np.cumsum(back))[within]
        enough = (outside < _MAX_TAKEN_BACK) & (_DEVIATIONS * np.sqrt(variance) + variance / 2 < _MARGINS)
        return float(_MARGINS[int(np.argmax(enough))]) if enough.any() else float(_MARGINS[-1])

    def single_loss_epsilon(self, delta: float) -> float:
        """Return a low estimate of epsilon, as if no two losses occurred in one run; 0 if delta is never exceeded."""
        # As if no two losses ever met in one run: rare ones seldom do, and more of them would only raise epsilon.
        number, loss = self.number[self.loss > 0], self.loss[self.loss > 0]
        above = np.cumsum(number[::-1])[::-1]
        gone = np.cumsum((number * np.exp(-loss))[::-1])[::-1]
        exceeding = np.flatnonzero(above - np.exp(np.minimum(loss, _HUGE)) * gone > delta)
        return float(loss[exceeding[-1]]) if exceeding.size else 0.0


def _expected_losses(parts: Iterable[tuple[LogMoments, int]], rate: float) -> Iterable[tuple[Array, Array]]:
    """Yield (expected numbers, losses) of each step, those under a public draw times its rate; other kinds skipped."""
    for moments, count in parts:
        if isinstance(moments, RevealedSubsampleMoments):
            yield from _expected_losses(moments.steps.parts, rate * moments.rate * count)
        elif isinstance(moments, LossMoments):
            yield rate * count * np.exp(moments.log_mass), moments.loss


@dataclass(frozen=True, kw_only=True)
class RareEvents:
    """A composition in which a few rare, large losses dominate delta.

    Attributes:
        counts: steps of one direction and how often each occurs.
        delta: in (0, 1).
        truncated_mass: P mass a step may leave out at each end of each segment.
        epsilon_upper: an upper bound on epsilon.
        cap_margin: distance above epsilon from which on losses are capped.
        guess: first estimate of epsilon.
    """

    counts: dict[Curve, int]
    delta: float
    truncated_mass: float
    epsilon_upper: float
    cap_margin: float
    guess: float

    def capped_counts(self, epsilon: float, cap: TailCap) -> dict[Curve, int]:
        """Return the steps with losses far above epsilon capped, and how often each occurs.

        Losses above epsilon + cap_margin are capped at the next grid point; the counts of equal steps are added
        up.
        """
        # On a grid point, so that the atom of the capped mass is not rounded by the grid.
        unit = 2.0 ** math.floor(math.log2(self.cap_margin / _PER_MARGIN))
        limit = unit * math.ceil((epsilon + self.cap_margin) / unit)  # a point of every lattice that is fine enough
        result: dict[Curve, int] = {}
        for curve, count in self.counts.items():
            capped_curve = capped(curve, limit, cap, min_mass=self.truncated_mass)
            result[capped_curve] = result.get(capped_curve, 0) + count
        return result


def find_rare_events(
    counts: dict[Curve, int], moments: ComposedMoments, *, delta: float, truncated_mass: float, epsilon_upper: float
) -> RareEvents | None:
    """Return RareEvents if capping the losses above a rough epsilon lowers the moment bound on delta much;
    else None."""
    losses = ExpectedLosses.of(moments)
    guess = losses.single_loss_epsilon(delta)
    if not guess:
        return None
    cap_margin = losses.margin()
    if guess + cap_margin >= min(epsilon_upper, float(losses.loss[-1])):  # no room for a cap
        return None
    rare_events = RareEvents(
        counts=counts,
        delta=delta,
        truncated_mass=truncated_mass,
        epsilon_upper=epsilon_upper,
        cap_margin=cap_margin,
        guess=guess,
    )
    return rare_events if _capping_helps(rare_events) else None


def _capping_helps(rare: RareEvents) -> bool:
    """Return True if the moment bound at the guess is >= 1000 delta and capping lowers it below a tenth."""
    uncapped_delta = best_delta(rare.counts, epsilon=rare.guess, truncated_mass=rare.truncated_mass).value
    if uncapped_delta < _UNINFORMATIVE * rare.delta:
        return False
    capped = rare.capped_counts(rare.guess, cap_pessimistic)
    return (
        best_delta(capped, epsilon=rare.guess, truncated_mass=rare.truncated_mass).value
        < _CAPPED_SHARE * uncapped_delta
    )


# Refinement of epsilon. An attempt caps the losses above its guess of epsilon and takes the tilt that suits delta
# there. Once the guess is good, the gain of the last refinement says how much finer the next grid must be: the error
# of rounding is proportional to the budget.


NEGLECTED = 1e-4  # share of delta spent on losses so rare that they are called infinite
ROUNDED = 3e-4  # share of delta that round-off may have before extended precision is called for
_COARSE_FACTOR = 16.0  # times the budget, for the attempts that look for epsilon
_FINEST = 1 / 64  # of the budget
_ACCURATE = 2.0  # times the width that is aimed at, at which refinement ends
_ATTEMPTS = 7  # compositions at most, each finer or at a better guess
_FAR_EXCESS = 1e3  # excess of the moment bound that calls for another guess
_MIN_STEEPNESS = 0.3  # steepness below which no more accuracy is asked for


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """Settings of one attempt.

    Attributes:
        guess: estimate of epsilon, above which losses are capped.
        share: rounding budget as a multiple of the one that would do if all losses were rounded alike.
        precision: conversion of the numbers, `as_float64` or `as_longdouble`.
        steepness: |d log delta / d epsilon| times epsilon, infinite before the first attempt.
        coarse: epsilon of the attempt before at the same guess with a larger budget, or None.
        gain: factor by which that budget was larger.
    """

    guess: float
    share: float
    precision: Callable[[Loss], Loss]
    steepness: float
    coarse: float | None
    gain: float


def refine_epsilon(rare: RareEvents, side: BoundSide, epsilon_width: float) -> float:
    """Return the tightest bound on epsilon of up to 7 compositions with capped losses; ConvergenceError if
    none fits."""
    end = rare.epsilon_upper if side is UPPER else 0.0  # known without any attempt
    attempt_settings: _Attempt | None = _Attempt(
        guess=rare.guess, share=_COARSE_FACTOR, precision=as_float64, steepness=math.inf, coarse=None, gain=1.0
    )
    for attempt in range(_ATTEMPTS):
        if attempt_settings is None:
            break
        try:
            bound = _run_attempt(rare, side, attempt_settings, epsilon_width)
        except ConvergenceError:
            if not attempt:
                raise
            break
        end = min(end, bound.epsilon) if side is UPPER else max(end, bound.epsilon)
        attempt_settings = _next_attempt(rare, attempt_settings, bound, epsilon_width)
    return end


def delta_of_finite_losses(counts: dict[Curve, int], delta: float, side: BoundSide) -> float:
    """Return `delta` less the infinity mass and, for UPPER, less the share 1e-4 that truncation may take; may
    be <= 0."""
    return (delta * (1 - NEGLECTED) if side is UPPER else delta) - total_infinity_mass(counts.items())


def _run_attempt(rare: RareEvents, side: BoundSide, attempt: _Attempt, epsilon_width: float) -> EpsilonBound:
    """Return the bound from one composition with losses capped above the guess; inf (LOWER: 0) if no delta is left."""
    counts = rare.capped_counts(attempt.guess, side.cap_tail)
    finite_delta = delta_of_finite_losses(counts, rare.delta, side)
    if finite_delta <= 0:
        nothing_known = math.inf if side is UPPER else 0.0
        return EpsilonBound(epsilon=nothing_known, steepness=1.0, roundoff=0.0, excess=1.0)
    best = best_delta(counts, epsilon=attempt.guess, truncated_mass=rare.truncated_mass)
    steepness = min(max(attempt.steepness, _MIN_STEEPNESS), max(best.order * attempt.guess, 1.0))
    settings = CompositionSettings(
        tilt=best.order,
        budget=attempt.share * epsilon_width * steepness,
        truncated_mass=rare.truncated_mass,
        precision=attempt.precision,
    )
    (composed,) = composed_loss(counts, best.moments, settings, (side,))
    return epsilon_at_delta(composed, finite_delta, side)


def _next_attempt(rare: RareEvents, attempt: _Attempt, bound: EpsilonBound, epsilon_width: float) -> _Attempt | None:
    """Return the next attempt: more digits, another guess or a finer grid; None if two grids agree or none is finer."""
    attempt = replace(attempt, steepness=bound.steepness)
    if bound.roundoff > ROUNDED * bound.steepness and attempt.precision is as_float64:
        return replace(attempt, precision=as_longdouble)
    # In this order: more digits if round-off spoils the bound, another guess if the tilt does not suit epsilon or the
    # cap is below it, then finer grids until two of them agree.
    if _needs_other_guess(rare, attempt, bound):
        nearby = min(max(bound.epsilon, attempt.guess / 2), 2 * attempt.guess, rare.epsilon_upper)
        return replace(attempt, guess=nearby, coarse=None)
    return _finer_attempt(attempt, bound, epsilon_width)


def _needs_other_guess(rare: RareEvents, attempt: _Attempt, bound: EpsilonBound) -> bool:
    """Return True if epsilon lies at the cap, or far from the guess where the moment bound is 1000 times delta."""
    is_far = bound.excess > _FAR_EXCESS and abs(bound.epsilon - attempt.guess) > 0.1 * attempt.guess
    return is_far or bound.epsilon > attempt.guess + rare.cap_margin / 2


def _finer_attempt(attempt: _Attempt, bound: EpsilonBound, epsilon_width: float) -> _Attempt | None:
    """Return an attempt on a finer grid; None if two grids show that the last is accurate, or if it is the finest."""
    if attempt.coarse is None:
        return replace(attempt, share=attempt.share / _COARSE_FACTOR, coarse=bound.epsilon, gain=_COARSE_FACTOR)
    error, allowed = abs(bound.epsilon - attempt.coarse) / (attempt.gain - 1), _ACCURATE * epsilon_width * bound.epsilon
    if error <= allowed or attempt.share <= _FINEST:
        return None
    gain = min(max(error / max(allowed, 1e-300), 2.0), _COARSE_FACTOR)
    return replace(attempt, share=max(attempt.share / gain, _FINEST), coarse=bound.epsilon, gain=gain)
