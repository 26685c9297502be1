"""Numbers beside the guarantee that prove nothing: an accurate estimate and a limit theorem."""

import math
from dataclasses import dataclass, replace

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.gaussian import central_limit_mu, epsilon_of_mu
from dpcalc.accountants.inversion import inversion, largest_inversion
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.accountants.rdp import best_epsilon
from dpcalc.accountants.result import StepCounts
from dpcalc.errors import ConvergenceError, UnsupportedError
from dpcalc.guarantee import Adjacency, Kind, Row
from dpcalc.losses.moments import Curve
from dpcalc.mechanisms.matrix_factorization import MatrixFactorization
from dpcalc.planner.composition import BOUND, Composition, composed, is_noiseless, releasing_phases
from dpcalc.planner.optional_parts import optional
from dpcalc.planner.plan import Plan
from dpcalc.planner.published import FLAT_POISSON, GAUSSIAN_ONLY
from dpcalc.sampling.schemes import Fixed


def inversion_row(plan: Plan | Composition) -> Row:
    """Return the row of the uncertified estimate by inversion; epsilon None, and why, if it fails or is unsupported."""
    row = Row(method="inversion", bound=BOUND, epsilon=None, kind=Kind.ESTIMATE, valid=False)
    try:
        composition = composed(plan)
        result, _ = largest_inversion(composition.steps, delta=composition.plan.delta, otherwise=_no_estimate)
    except (ConvergenceError, UnsupportedError) as error:
        return replace(row, note=str(error))
    return replace(row, epsilon=result.epsilon, note="accurate to about nine digits, not certified: pld brackets it")


def _no_estimate(_: StepCounts, error: ConvergenceError) -> float:
    """Raise the error: no other method stands in for the estimate."""
    raise error


def gdp_row(plan: Plan | Composition) -> Row:
    """Return the row of the central limit approximation; epsilon None, with the reason, where it does not apply."""
    row = Row(method="gdp", bound=FLAT_POISSON, epsilon=None, kind=Kind.APPROXIMATION, valid=False)
    composition = composed(plan)
    run = composition.plan
    phases = releasing_phases(run)
    if not run.is_gaussian:
        return replace(row, note=GAUSSIAN_ONLY)
    if run.group_size > 1 or not composition.is_plain:
        return replace(row, note="does not apply: a limit for single units, drawn afresh in every step")
    if run.unit > 1 or any(phase.clip != 1 for phase in phases):
        return replace(row, note="does not apply: a limit for one level of draws with one clipped vector a unit")
    if run.adjacency is Adjacency.REPLACE_ONE:
        return replace(row, note="does not apply: a limit for add-remove")
    steps = [(composition.inclusion(p), p.gaussian.noise_multiplier, p.steps) for p in phases]
    mu = central_limit_mu(steps)
    if math.isinf(mu):
        return replace(row, note="does not apply: with so little noise a step is far from any limit")
    note = f"mu = {mu:.4g}, a limit for many steps of a small rate; may lie below the truth"
    if any(isinstance(level.scheme, Fixed) for phase in phases for level in phase.hierarchy.levels[:1]):
        note += ", and knows Poisson draws only"
    return replace(row, epsilon=epsilon_of_mu(mu, delta=run.delta) if mu else 0.0, note=note)


@dataclass(frozen=True, kw_only=True)
class PrefixErrors:
    """Error of the prefix sums of a phase with correlated noise, which its strategy is chosen for.

    Attributes:
        phase: its name.
        mean: root of the mean over the steps of the variance of one coordinate, in clip norms.
        largest: largest deviation of one coordinate at any step, in clip norms.
    """

    phase: str
    mean: float
    largest: float


def prefix_errors(plan: Plan) -> tuple[PrefixErrors, ...]:
    """Return uncertified errors of phases with correlated noise and steps; those too long or infinite left out."""
    phases = [(phase, phase.mechanism) for phase in plan.phases if phase.steps]
    errors = [
        (phase, mechanism.noise_multiplier, mechanism.strategy.prefix_errors(phase.steps))
        for phase, mechanism in phases
        if isinstance(mechanism, MatrixFactorization)
    ]
    return tuple(
        PrefixErrors(phase=phase.name, mean=noise * each[0], largest=noise * each[1])
        for phase, noise, each in errors
        if each is not None
    )


# The cross-check by two methods that share only the quadrature of one step: the certified interval and the estimate.


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
        """True if there is an estimate and it lies between the certified bounds."""
        return self.estimate is not None and self.lower <= self.estimate <= self.upper

    @property
    def difference(self) -> float:
        """Relative difference of the estimate from the farther bound of the interval; 0 without an estimate."""
        if self.estimate is None or self.upper == 0:
            return 0.0
        return max(abs(self.upper - self.estimate), abs(self.estimate - self.lower)) / self.upper


def cross_checks(plan: Plan | Composition) -> tuple[CrossCheck, ...]:
    """Return epsilon by pld and by inversion, both directions of the costliest unit; () for tuning, no noise, failure.

    Args:
        plan: a training run.

    Returns:
        One entry a direction of the unit that the moment bound finds costliest; none without noise, without
        releases, or where the interval is not to be had.
    """
    composition = composed(plan)
    run = composition.plan
    if is_noiseless(run) or not releasing_phases(run) or run.tuning is not None:
        return ()

    def both() -> tuple[CrossCheck, ...]:
        protected, _ = composition.costliest()
        names = (name for name in protected.direction_names if composition.steps[name])
        return tuple(_checked(name, composition.steps[name], run.delta) for name in names)

    return optional("the cross-check", both, ())[0]


def _checked(direction: str, counts: dict[Curve, int], delta: float) -> CrossCheck:
    """Return the certified bounds and the estimate (None if inversion fails) of one direction, with the best order."""
    estimate, note = None, ""
    try:
        estimate = inversion(counts, delta=delta)
    except ConvergenceError as error:
        note = str(error)
    upper, lower = epsilon_bounds(counts, delta=delta, sides=(UPPER, LOWER))
    order = best_epsilon(counts, delta=delta).order + 1
    return CrossCheck(direction=direction, upper=upper, lower=lower, estimate=estimate, order=order, note=note)
