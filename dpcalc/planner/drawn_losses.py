"""Privacy losses drawn from the claimed pairs, beside the certified delta of their composition."""

import math

import numpy as np

from dpcalc.accountants.conversion import best_delta
from dpcalc.accountants.pld import LOWER, UPPER, delta_interval, pld
from dpcalc.curves.held import Held
from dpcalc.curves.loss_moments import Curve, segment_ends
from dpcalc.curves.rdp_curve import RdpCurve
from dpcalc.curves.tilted_draws import infinite_loss, tilted
from dpcalc.errors import UnsupportedError
from dpcalc.numerics.confidence import mean_interval
from dpcalc.planner.chance import DOUBT, Chance, Check
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import BACKWARD, FORWARD, Alternative, releases
from dpcalc.release.tree import step_counts

_LOSSES = 20_000_000  # single losses drawn for one direction, by default
_FEW, _MANY = 400, 100_000  # runs drawn by default
_PARTS = 16  # words about progress for one direction
_NEGLECTED = 1e-4  # share of delta that rare parts may have which are not drawn
_STEEPEST = 1000.0  # tilts beyond this win nothing


def loss_checks(plan: Plan, protected: Alternative, chance: Chance) -> tuple[Check, ...]:
    """Delta in both directions.

    Args:
        plan: one that releases something, with noise.
        protected: the unit or group that costs most.
        chance: where it comes from.

    Returns:
        One check a direction.

    Raises:
        ConvergenceError: there is no certified delta to compare with.
        UnsupportedError: there are no losses to draw.
    """
    trees = releases(plan).releases
    names = (protected.named(FORWARD), protected.named(BACKWARD))
    found = [(name, step_counts(trees[name])) for name in names]
    checks = [_direction(name, plan, at, chance.part(number, 2)) for number, (name, at) in enumerate(found) if at]
    return tuple(checks)


def _direction(name: str, plan: Plan, counts: dict[Curve, int], chance: Chance) -> Check:
    """Delta of one direction at the epsilon that pld gives for it, from tilted privacy losses (`tilted_draws`)."""
    steps = sum(counts.values())
    counts, runs = _affordable(counts, chance.effort.runs)
    epsilon = pld(counts, delta=plan.delta).epsilon
    if not math.isfinite(epsilon):
        raise UnsupportedError(f"losses: expected a finite epsilon at delta {plan.delta}, got an infinite one")
    neglect = _NEGLECTED * plan.delta / segment_ends(counts.items())
    tilt = min(best_delta(counts, epsilon=epsilon, neglect=neglect).order, _STEEPEST)
    parts = [(tilted(curve, tilt=tilt, neglect=neglect), count) for curve, count in counts.items()]
    log_moment = math.fsum(count * part.log_norm for part, count in parts)
    log_most = log_moment - tilt * epsilon - tilt * math.log1p(1 / tilt) - math.log1p(tilt)
    total = 0.0
    for start in range(0, runs, -(-runs // _PARTS)):
        some = min(-(-runs // _PARTS), runs - start)
        losses = sum((part.sums(np.full(some, count), chance.rng) for part, count in parts), start=np.zeros(some))
        above = losses[losses > epsilon]
        total += float((np.exp(log_moment - tilt * above - log_most) * -np.expm1(epsilon - above)).sum())
        chance.tell((start + some) / runs)
    most, mean = math.exp(min(log_most, 700.0)), min(total / runs, 1.0)
    low, high = mean_interval(mean, runs, doubt=DOUBT)
    infinite, left_out = infinite_loss(parts), math.fsum(count * part.left_out for part, count in parts)
    lower, upper = delta_interval(counts, epsilon=epsilon, sides=(LOWER, UPPER))
    return Check(
        phase="",
        quantity=f"delta at epsilon {epsilon:.6g}, {name}",
        computed=(lower, upper),
        observed=mean * most + infinite,
        interval=(low * most + infinite, min(1.0, high * most + infinite + left_out)),
        trials=runs,
        note="" if sum(counts.values()) == steps else f"{sum(counts.values())} of the {steps} steps",
    )


def _affordable(counts: dict[Curve, int], runs: int | None) -> tuple[dict[Curve, int], int]:
    """Steps and runs that can be drawn in a few seconds; all steps where the number of runs is given."""
    work_of_run = math.fsum(count * _work(curve) for curve, count in counts.items())
    if runs is not None:
        return counts, runs
    part = min(1.0, _LOSSES / (_FEW * work_of_run))
    shorter = {curve: max(1, int(count * part)) for curve, count in counts.items()}
    return shorter, int(min(_MANY, max(_FEW, _LOSSES / work_of_run)))


def _work(curve: Curve) -> float:
    """About how long it takes to draw one loss, in losses of a pair of two components."""
    if isinstance(curve, Held):
        return 1 + curve.rate * math.fsum(count * _work(one) for one, count in curve.counts)
    if isinstance(curve, RdpCurve):
        return 1.0
    return max((len(segment.pair.centers) for segment in curve.segments), default=2) / 2
