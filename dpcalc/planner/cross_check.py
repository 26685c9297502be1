"""Two methods with nothing in common but the quadrature of one step: the certified interval and the estimate."""

from dataclasses import dataclass

from dpcalc.accountants.conversion import best_epsilon
from dpcalc.accountants.inversion import inversion
from dpcalc.accountants.pld import LOWER, UPPER, interval
from dpcalc.curves.loss_moments import Curve
from dpcalc.errors import ConvergenceError
from dpcalc.planner.deciding import deciding
from dpcalc.planner.extras import optional
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import BACKWARD, FORWARD, is_noiseless, releases, releasing_phases
from dpcalc.release.tree import step_counts


@dataclass(frozen=True, kw_only=True)
class CrossCheck:
    """The composed one-step bound of one direction by two methods.

    Attributes:
        direction: the ordered pair of data sets.
        upper: certified upper end of its epsilon.
        lower: certified lower end.
        estimate: the same by inversion, or None where that does not converge.
        order: the Renyi order that bounds it best.
        note: why there is no estimate.
    """

    direction: str
    upper: float
    lower: float
    estimate: float | None
    order: float
    note: str = ""

    @property
    def is_bracketed(self) -> bool:
        """Whether the estimate lies between the certified ends."""
        return self.estimate is not None and self.lower <= self.estimate <= self.upper

    @property
    def difference(self) -> float:
        """Relative difference of the estimate from the farther end of the interval; 0 without an estimate."""
        if self.estimate is None or self.upper == 0:
            return 0.0
        return max(abs(self.upper - self.estimate), abs(self.estimate - self.lower)) / self.upper


def cross_checks(plan: Plan) -> tuple[CrossCheck, ...]:
    """Every direction of a plan by both methods.

    Args:
        plan: a training run.

    Returns:
        One entry a direction of the unit that the moment bound finds costliest; none without noise, without
        releases, or where the interval is not to be had.
    """
    if is_noiseless(plan) or not releasing_phases(plan) or plan.tuning is not None:
        return ()
    protected, _ = deciding(plan)
    tree = releases(plan).releases
    trees = {name: step_counts(tree[name]) for name in (protected.named(FORWARD), protected.named(BACKWARD))}
    found, _ = optional(
        "the cross-check",
        lambda: tuple(_checked(name, counts, plan.delta) for name, counts in trees.items() if counts),
        (),
    )
    return found


def _checked(direction: str, counts: dict[Curve, int], delta: float) -> CrossCheck:
    """One direction."""
    estimate, note = None, ""
    try:
        estimate = inversion(counts, delta=delta)
    except ConvergenceError as error:
        note = str(error)
    upper, lower = interval(counts, delta=delta, sides=(UPPER, LOWER))
    order = best_epsilon(counts, delta=delta).order + 1
    return CrossCheck(direction=direction, upper=upper, lower=lower, estimate=estimate, order=order, note=note)
