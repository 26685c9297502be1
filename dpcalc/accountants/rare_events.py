"""Refine epsilon when a few rare, large losses dominate delta: compose with losses capped just above an estimate.

Losses far beyond epsilon draw the tilt that suits the moment bound away from it, and the numbers near epsilon lose
their digits. So it is where a few rare losses decide: one of them is beyond epsilon, and by how much hardly matters.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dpcalc.accountants.composed_loss import (
    UPPER,
    BoundSide,
    EpsilonBound,
    composed_loss,
    epsilon_at_delta,
)
from dpcalc.accountants.rdp import best_delta
from dpcalc.arrays import Array
from dpcalc.errors import ConvergenceError
from dpcalc.losses.cells import Resolution
from dpcalc.losses.composition import TailCap, cap_pessimistic, capped
from dpcalc.losses.moments import ComposedMoments, Steps, together, total_infinity_mass
from dpcalc.losses.quadrature import LossMoments

# None of these affects validity: any cap gives a bound. They decide how tight it is and how many attempts it takes.
_MARGINS = 2.0 ** np.arange(-60, 4.5, 0.5)  # distances above epsilon that are tried for the cap; epsilon may be 1e-8
_MAX_TAKEN_BACK = 1e-6  # expected number of negative losses larger than the distance
_DEVIATIONS = 5.0  # of the sum of the small losses that the distance must exceed
_PER_MARGIN = 8  # lattice points in the distance, at least
_UNINFORMATIVE = 1e3  # times delta: a moment bound that says little about it
_CAPPED_SHARE = 0.1  # of the moment bound, to which capping must lower it to be worth it
_HUGE = 600.0  # exponent that leaves room for sums
NEGLECTED = 1e-4  # share of delta spent on losses so rare that they are called infinite
ROUNDED = 3e-4  # share of delta that round-off may have before extended precision is called for
_COARSE_FACTOR = 16.0  # times the budget, for the attempts that look for epsilon
_FINEST = 1 / 64  # of the budget
_ACCURATE = 2.0  # times the width that is aimed at, at which refinement ends
_ATTEMPTS = 7  # compositions at most, each finer or at a better guess
_FAR_EXCESS = 1e3  # excess of the moment bound that calls for another guess
_MIN_STEEPNESS = 0.3  # steepness below which no more accuracy is asked for


def rare_event_bounds(
    counts: Steps,
    moments: ComposedMoments,
    *,
    delta: float,
    truncated_mass: float,
    epsilon_upper: float,
    sides: tuple[BoundSide, ...],
    width: float,
) -> tuple[float, ...] | None:
    """Return the tightest bound on epsilon per side of up to 7 capped compositions; ConvergenceError if none fits."""
    # None unless capping the losses above a rough epsilon lowers the moment bound on delta much.
    parts = [(np.zeros(0), np.zeros(0)), *_expected_losses(moments.parts, 1.0)]
    number, loss = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    order = np.argsort(loss)
    number, loss = number[order], loss[order]

    # A low estimate of epsilon, as if no two losses ever met in one run: rare ones seldom do, and more of them would
    # only raise epsilon.
    rare_number, rare_loss = number[loss > 0], loss[loss > 0]
    above = np.cumsum(rare_number[::-1])[::-1]
    gone = np.cumsum((rare_number * np.exp(-rare_loss))[::-1])[::-1]
    exceeding = np.flatnonzero(above - np.exp(np.minimum(rare_loss, _HUGE)) * gone > delta)
    if not exceeding.size:
        return None
    guess = float(rare_loss[exceeding[-1]])

    # The least margin that bounds nearly all negative losses, larger ones of which would undo a cap, and the sum of the
    # losses below it, which are the bulk.
    order = np.argsort(np.abs(loss))
    bulk_number, bulk_loss = number[order], loss[order]
    within = np.searchsorted(np.abs(bulk_loss), _MARGINS)
    variance = np.append(0.0, np.cumsum(bulk_number * bulk_loss**2))[within]
    back = np.where(bulk_loss < 0, bulk_number, 0.0)
    outside = float(back.sum()) - np.append(0.0, np.cumsum(back))[within]
    enough = (outside < _MAX_TAKEN_BACK) & (_DEVIATIONS * np.sqrt(variance) + variance / 2 < _MARGINS)
    cap_margin = float(_MARGINS[int(np.argmax(enough))]) if enough.any() else float(_MARGINS[-1])
    if guess + cap_margin >= min(epsilon_upper, float(loss[-1])):  # no room for a cap
        return None

    def capped_counts(epsilon: float, cap: TailCap) -> Steps:
        """Return the steps, those losses capped that are far above epsilon, at the next grid point."""
        # On a grid point, so that the atom of the capped mass is not rounded by the grid.
        unit = 2.0 ** math.floor(math.log2(cap_margin / _PER_MARGIN))
        limit = unit * math.ceil((epsilon + cap_margin) / unit)  # a point of every lattice that is fine enough
        return together({capped(curve, limit, cap, min_mass=truncated_mass): count} for curve, count in counts.items())

    uncapped_delta = best_delta(counts, epsilon=guess, truncated_mass=truncated_mass).value
    if uncapped_delta < _UNINFORMATIVE * delta:
        return None
    some = capped_counts(guess, cap_pessimistic)
    if best_delta(some, epsilon=guess, truncated_mass=truncated_mass).value >= _CAPPED_SHARE * uncapped_delta:
        return None

    # An attempt caps the losses above its guess of epsilon and takes the tilt that suits delta there. Once the guess is
    # good, the gain of the last refinement says how much finer the next grid must be: the error of rounding is
    # proportional to the budget.
    ends = []
    for side in sides:
        end = epsilon_upper if side is UPPER else 0.0  # known without any attempt
        near, steepness, has_long_doubles = guess, math.inf, False
        share = _COARSE_FACTOR  # of the budget that would do if all losses were rounded alike
        coarse, gain = math.nan, 1.0  # epsilon at the same guess with a budget larger by `gain`; nan if none
        for attempt in range(_ATTEMPTS):
            bound = EpsilonBound(epsilon=math.inf if side is UPPER else 0.0, steepness=1.0)  # if no delta is left
            try:
                steps = capped_counts(near, side.cap_tail)
                finite_delta = delta_of_finite_losses(steps, delta, side)
                if finite_delta > 0:
                    best = best_delta(steps, epsilon=near, truncated_mass=truncated_mass)
                    scale = min(max(steepness, _MIN_STEEPNESS), max(best.order * near, 1.0))
                    settings = Resolution(
                        tilt=best.order,
                        budget=share * width * scale,
                        truncated_mass=truncated_mass,
                        has_long_doubles=has_long_doubles,
                    )
                    (composed,) = composed_loss(steps, best.moments, settings, (side,))
                    bound = epsilon_at_delta(composed, finite_delta, side)
            except ConvergenceError:
                if not attempt:
                    raise
                break
            epsilon, steepness = bound.epsilon, bound.steepness
            end = min(end, epsilon) if side is UPPER else max(end, epsilon)
            # In this order: more digits if round-off spoils the bound, another guess if the tilt does not suit epsilon
            # or the cap is below it, then finer grids until two of them agree.
            if bound.roundoff > ROUNDED * steepness and not has_long_doubles:
                has_long_doubles = True
            elif epsilon > near + cap_margin / 2 or (bound.excess > _FAR_EXCESS and abs(epsilon - near) > 0.1 * near):
                near, coarse = min(max(epsilon, near / 2), 2 * near, epsilon_upper), math.nan
            elif math.isnan(coarse):
                share, coarse, gain = share / _COARSE_FACTOR, epsilon, _COARSE_FACTOR
            else:
                error, allowed = abs(epsilon - coarse) / (gain - 1), _ACCURATE * width * epsilon
                if error <= allowed or share <= _FINEST:
                    break
                gain = min(max(error / max(allowed, 1e-300), 2.0), _COARSE_FACTOR)
                share, coarse = max(share / gain, _FINEST), epsilon
        ends.append(end)
    return tuple(ends)


def _expected_losses(parts: Iterable[tuple[Any, int]], rate: float) -> Iterator[tuple[Array, Array]]:
    """Yield (expected numbers, losses) of each step, those under a public draw times its rate; other kinds skipped."""
    for moments, count in parts:
        if isinstance(moments, ComposedMoments):
            yield from _expected_losses(moments.parts, rate * moments.rate * count)
        elif isinstance(moments, LossMoments):
            yield rate * count * np.exp(moments.log_mass), moments.loss


def delta_of_finite_losses(counts: Steps, delta: float, side: BoundSide) -> float:
    """Return `delta` less the infinity mass and, for UPPER, less the share that truncation may take; perhaps <= 0."""
    return (delta * (1 - NEGLECTED) if side is UPPER else delta) - total_infinity_mass(counts)
