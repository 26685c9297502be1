"""Numbers beside the guarantee that prove nothing: an accurate estimate and a limit theorem."""

import math
from dataclasses import replace

from dpcalc.accountants.costliest import Counts
from dpcalc.accountants.gdp import central_limit_mu, gaussian_epsilon
from dpcalc.accountants.inversion import largest_inversion
from dpcalc.adjacency import Adjacency
from dpcalc.errors import ConvergenceError, UnsupportedError
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.plan import Plan
from dpcalc.planner.published import FLAT_POISSON, GAUSSIAN_ONLY
from dpcalc.planner.releases import BOUND, inclusion, is_plain, releases, releasing_phases
from dpcalc.release.tree import step_counts
from dpcalc.sampling.schemes import Fixed


def inversion_row(plan: Plan) -> Row:
    """The exact composition of the one-step bound to about nine digits, without a certificate."""
    row = Row(method="inversion", bound=BOUND, epsilon=None, kind=Kind.ESTIMATE, valid=False)
    try:
        trees = {name: step_counts(tree) for name, tree in releases(plan).releases.items()}
        found, _ = largest_inversion(trees, delta=plan.delta, otherwise=_no_estimate)
    except (ConvergenceError, UnsupportedError) as error:
        return replace(row, note=str(error))
    return replace(row, epsilon=found.epsilon, note="accurate to about nine digits, not certified: pld brackets it")


def _no_estimate(_: Counts, error: ConvergenceError) -> float:
    """No other method stands in for the estimate."""
    raise error


def gdp_row(plan: Plan) -> Row:
    """The central limit approximation, where the run is one it is about."""
    row = Row(method="gdp", bound=FLAT_POISSON, epsilon=None, kind=Kind.APPROXIMATION, valid=False)
    phases = releasing_phases(plan)
    if not plan.is_gaussian:
        return replace(row, note=GAUSSIAN_ONLY)
    if plan.group_size > 1 or not is_plain(plan):
        return replace(row, note="does not apply: a limit for single units, drawn afresh in every step")
    if plan.unit > 1 or any(phase.clip != 1 for phase in phases):
        return replace(row, note="does not apply: a limit for one level of draws with one clipped vector a unit")
    if plan.adjacency is Adjacency.REPLACE_ONE:
        return replace(row, note="does not apply: a limit for add-remove")
    steps = [(inclusion(plan, p), p.gaussian.noise_multiplier, p.steps) for p in phases]
    mu = central_limit_mu(steps)
    if math.isinf(mu):
        return replace(row, note="does not apply: with so little noise a step is far from any limit")
    note = f"mu = {mu:.4g}, a limit for many steps of a small rate; may lie below the truth"
    if any(isinstance(level.scheme, Fixed) for phase in phases for level in phase.hierarchy.levels[:1]):
        note += ", and knows Poisson draws only"
    return replace(row, epsilon=gaussian_epsilon(mu, delta=plan.delta) if mu else 0.0, note=note)
