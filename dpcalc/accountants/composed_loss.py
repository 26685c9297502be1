"""The composed loss of a run on one lattice, from above or from below."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp

import numpy as np

from dpcalc.accountants.conversion import Moments
from dpcalc.curves.capped import Gathering, gathered_down, gathered_up
from dpcalc.curves.cells import Cells, Resolution, cells
from dpcalc.curves.coarsen import Rounding, round_down, round_up
from dpcalc.curves.composition import Loss, power, sum_of
from dpcalc.curves.discretize import lattice_down, lattice_up
from dpcalc.curves.dominating_pair import LossCurve
from dpcalc.curves.held import Held, HeldMoments, LogMoments
from dpcalc.curves.loss_moments import Curve
from dpcalc.curves.loss_pmf import LossPmf, told_apart
from dpcalc.curves.rdp_curve import RdpCurve
from dpcalc.errors import ConvergenceError, UnsupportedError
from dpcalc.numerics.convolve import UNIT_ROUNDOFF

_RECUT = 3  # times a step is cut finer
_MUCH = 10.0  # times the budget that rounding down may cost
Composed = tuple[LossPmf, float]  # a tilted loss, and its slack
Step = tuple[Curve, LogMoments, int]  # its log moments, and how often it occurs


@dataclass(frozen=True)
class Side:
    """How to err.

    Attributes:
        lattice: first discretization of a step.
        rounding: coarsening of a lattice.
        gathering: what losses beyond a limit become.
        sign: +1 if the errors carried along are added to delta, -1 if taken from it.
    """

    lattice: Callable[[Cells], Loss]
    rounding: Rounding
    gathering: Gathering
    sign: int


UPPER = Side(lattice=lattice_up, rounding=round_up, gathering=gathered_up, sign=1)
LOWER = Side(lattice=lattice_down, rounding=round_down, gathering=gathered_down, sign=-1)


@dataclass(frozen=True, kw_only=True)
class Fineness:
    """What a composition must keep.

    Attributes:
        tilt: t.
        budget: how much the log of the composed tilted mass may change, about.
        neglect: P mass a step may leave out at each end of each segment.
        precision: what the numbers of a step are held in.
    """

    tilt: float
    budget: float
    neglect: float
    precision: Callable[[Loss], Loss]


def doubles(one: Loss) -> Loss:
    """As it is."""
    return one


def extended(one: Loss) -> Loss:
    """In extended precision, where the machine has it."""
    return one.wider()


def composed_loss(
    counts: dict[Curve, int], moments: Moments, fineness: Fineness, sides: tuple[Side, ...]
) -> list[Composed]:
    """The whole run on one lattice, for each side.

    Args:
        counts: steps and how often each occurs, not empty.
        moments: theirs, in the same order.
        fineness: what is kept.
        sides: how to err.

    Returns:
        (the tilted loss, a bound on the log of what misplaced cell ends and rounded numbers can change) of each side.
    """
    parts = zip(counts.items(), moments.parts, strict=True)
    return _composed([(curve, one, count) for (curve, count), (one, _) in parts], fineness, sides)


def _composed(steps: list[Step], fineness: Fineness, sides: tuple[Side, ...]) -> list[Composed]:
    """The composition of some steps."""
    if not steps:
        raise ConvergenceError("composition: expected at least one step, got none")
    share = 2 if len(steps) == 1 else 4  # the rest is for the sum of the steps
    each = replace(fineness, budget=fineness.budget / (share * len(steps)))
    starts = [_starts(step, each, sides) for step in steps]
    found = []
    for i, side in enumerate(sides):
        parts = [
            power(fineness.precision(start[i][0]), count, each.budget, side.rounding)
            for start, (_, _, count) in zip(starts, steps, strict=True)
        ]
        slack = sum(count * start[i][1] for start, (_, _, count) in zip(starts, steps, strict=True))
        found.append((sum_of(parts, fineness.budget / 4, side.rounding), slack))
    return found


def _starts(step: Step, fineness: Fineness, sides: tuple[Side, ...]) -> list[tuple[Loss, float]]:
    """One step on its first lattice, and its slack, for each side."""
    curve, moments, copies = step
    tilt = fineness.tilt
    if isinstance(curve, RdpCurve):
        raise UnsupportedError(
            f"pld: expected a loss distribution, of {curve.name} only Renyi divergences are known; use rdp"
        )
    log_norm = float(moments.cumulants(np.array([tilt]))[0][0])
    if isinstance(curve, Held):
        return _held(curve, moments, replace(fineness, budget=fineness.budget / (2 * copies)), sides)
    aim = Resolution(tilt=tilt, log_norm=log_norm, copies=copies, budget=fineness.budget, neglect=fineness.neglect)
    cut = cells(curve, aim)
    return [_first(curve, cut, aim, side) for side in sides]


def _first(curve: LossCurve, cut: Cells, aim: Resolution, side: Side) -> tuple[Loss, float]:
    """One step on its first lattice, and its slack; on a finer one where rounding down loses much more than allowed."""
    found = side.lattice(cut)
    for _ in range(_RECUT):
        if aim.copies * (aim.log_norm - found.log_norm) < _MUCH * aim.budget:
            break
        aim = replace(aim, budget=aim.budget / 16)
        try:
            finer = cells(curve, aim)
            found, cut = side.lattice(finer), finer
        except ConvergenceError:  # no room: the coarser one is a valid end, too
            break
    return found, _slack(cut, aim.tilt, side)


def _held(curve: Held, moments: LogMoments, fineness: Fineness, sides: tuple[Side, ...]) -> list[tuple[Loss, float]]:
    """The steps under a held draw, composed; else the loss is 0. Their errors count as often as the draw hits."""
    if not isinstance(moments, HeldMoments):
        raise TypeError("composition: expected the moments of a held draw, got those of a step")
    at = np.array([fineness.tilt])
    inside = sum(count * float(one.cumulants(at)[0][0]) for one, count in moments.parts)
    log_norm = float(moments.cumulants(at)[0][0])
    drawn = min(1.0, max(curve.rate * exp(min(inside - log_norm, 700.0)), 1e-300))
    steps = [(one, its, count) for (one, count), (its, _) in zip(curve.counts, moments.parts, strict=True)]
    composed = _composed(steps, replace(fineness, budget=fineness.budget / drawn), sides)
    return [
        (told_apart(found, curve.rate, log_norm, side.sign).normalized(), slack * drawn)
        for side, (found, slack) in zip(sides, composed, strict=True)
    ]


def _slack(cut: Cells, tilt: float, side: Side) -> float:
    """Bound on the log of what misplaced cell ends and the rounding of a step's numbers can change, for one copy."""
    spread = float((cut.mass * np.abs(cut.loss)).sum())
    rounded = 32 * UNIT_ROUNDOFF * (1 + tilt * spread)
    return rounded + tilt * cut.overshoot if side is UPPER else rounded  # merging needs no cell ends on the lattice
