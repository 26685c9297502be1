"""Epsilon where a few rare losses decide: each attempt looks at the place that the one before has found.

An attempt gathers the losses beyond its guess of epsilon and takes the tilt that suits delta there. Once the place is
known, how much finer the next must be is told by how much the last refinement has won: what rounding costs is
proportional to the budget.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from dpcalc.accountants.composed_loss import UPPER, Fineness, Side, composed_loss, doubles, extended
from dpcalc.accountants.conversion import best_delta
from dpcalc.accountants.crossing import Crossing, crossing
from dpcalc.accountants.far_losses import Rare
from dpcalc.curves.composition import Loss
from dpcalc.curves.loss_moments import infinite_mass
from dpcalc.errors import ConvergenceError

NEGLECTED = 1e-4  # share of delta spent on losses so rare that they are called infinite
ROUNDED = 3e-4  # share of delta that round-off may have before extended precision is called for
_COARSE = 16.0  # times the budget, to find the place
_FINEST = 1 / 64  # of the budget
_ACCURATE = 2.0  # times the width that is aimed at
_ATTEMPTS = 7
_FAR = 1e3  # excess of the moment bound that calls for another place
_FLAT = 0.3  # steepness below which no more accuracy is asked for


@dataclass(frozen=True, kw_only=True)
class _View:
    """How an attempt looks.

    Attributes:
        guess: of epsilon.
        share: budget, in units of the one that would do if the rounding of all that is seen mattered alike.
        precision: of the numbers.
        steepness: of log delta (times epsilon), as far as it is known.
        coarse: epsilon at the same place with a larger budget, if there was such an attempt.
        gain: how many times larger that was.
    """

    guess: float
    share: float
    precision: Callable[[Loss], Loss]
    steepness: float
    coarse: float | None
    gain: float


def end_close_up(rare: Rare, side: Side, width: float) -> float:
    """A certified end of epsilon.

    Args:
        rare: the composition.
        side: how to err.
        width: relative width to aim at.

    Raises:
        ConvergenceError: if there is no room for the first attempt.
    """
    end = rare.most if side is UPPER else 0.0
    view: _View | None = _View(
        guess=rare.guess, share=_COARSE, precision=doubles, steepness=math.inf, coarse=None, gain=1.0
    )
    for attempt in range(_ATTEMPTS):
        if view is None:
            break
        try:
            found = _seen(rare, side, view, width)
        except ConvergenceError:
            if not attempt:
                raise
            break
        end = min(end, found.epsilon) if side is UPPER else max(end, found.epsilon)
        view = _next(rare, view, found, width)
    return end


def _seen(rare: Rare, side: Side, view: _View, width: float) -> Crossing:
    """One attempt."""
    counts = rare.gathered(view.guess, side.gathering)
    spent = (rare.delta * (1 - NEGLECTED) if side is UPPER else rare.delta) - infinite_mass(counts.items())
    if spent <= 0:
        return Crossing(epsilon=math.inf, steepness=1.0, roundoff=0.0, excess=1.0)
    best = best_delta(counts, epsilon=view.guess, neglect=rare.neglect)
    steepness = min(max(view.steepness, _FLAT), max(best.order * view.guess, 1.0))
    fineness = Fineness(
        tilt=best.order, budget=view.share * width * steepness, neglect=rare.neglect, precision=view.precision
    )
    (composed,) = composed_loss(counts, best.moments, fineness, (side,))
    return crossing(composed, spent, side)


def _next(rare: Rare, view: _View, found: Crossing, width: float) -> _View | None:
    """The next attempt; None if this one was good enough."""
    view = replace(view, steepness=found.steepness)
    if found.roundoff > ROUNDED * found.steepness and view.precision is doubles:
        return replace(view, precision=extended)
    elsewhere = found.excess > _FAR and abs(found.epsilon - view.guess) > 0.1 * view.guess
    if elsewhere or found.epsilon > view.guess + rare.away / 2:
        nearby = min(max(found.epsilon, view.guess / 2), 2 * view.guess, rare.most)
        return replace(view, guess=nearby, coarse=None)
    if view.coarse is None:
        return replace(view, share=view.share / _COARSE, coarse=found.epsilon, gain=_COARSE)
    error, allowed = abs(found.epsilon - view.coarse) / (view.gain - 1), _ACCURATE * width * found.epsilon
    if error <= allowed or view.share <= _FINEST:
        return None
    gain = min(max(error / max(allowed, 1e-300), 2.0), _COARSE)
    return replace(view, share=max(view.share / gain, _FINEST), coarse=found.epsilon, gain=gain)
