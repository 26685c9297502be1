"""Renyi divergence of a run of sampled steps as general theorems bound it, from the step without sampling alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpcalc.adjacency import Adjacency
from dpcalc.curves.rdp_curve import Renyi, fixed_size_lower, fixed_size_upper, poisson_upper
from dpcalc.guarantee import Kind
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import releasing_phases
from dpcalc.sampling.schemes import Fixed, Poisson

Bound = Callable[[Renyi, float, int], float]
UPPER, LOWER = "general upper bound", "general lower bound"


@dataclass(frozen=True, kw_only=True)
class Published:
    """One of the general bounds for a run.

    Attributes:
        name: of the bound.
        kind: UPPER or LOWER where the theorem speaks of the run's relation, else as published.
        divergence: of the whole run, by whole order >= 2.
    """

    name: str
    kind: Kind
    divergence: Callable[[int], float]


def published_rdp(plan: Plan) -> tuple[Published, ...]:
    """The general bounds for one phase of one level, single units and clipped vectors; else none.

    References:
        Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Theorem 9 for draws of a fixed size under replacement and
        Proposition 11, the divergence of an actual pair; Zhu, Wang 2019 (PMLR 97), Theorem 6 for Poisson draws.
    """
    phases = releasing_phases(plan)
    if not plan.is_gaussian or len(phases) != 1 or plan.unit != 1 or plan.group_size != 1:
        return ()
    (phase,) = phases
    level = phase.hierarchy.level(1)
    if phase.hierarchy.depth != 1 or phase.clip != 1 or level.redraw_every != 1:
        return ()
    rate, noise = float(level.rate), phase.gaussian.noise_multiplier

    def run(bound: Bound, shift: float) -> Callable[[int], float]:
        def step(order: float) -> float:
            return math.inf if math.isinf(order) else order * shift**2 / (2 * noise**2)

        return lambda order: phase.steps * (step(order) if rate == 1 else bound(step, rate, order))

    match level.scheme:
        case Fixed():
            kind = Kind.UPPER if plan.adjacency is Adjacency.REPLACE_ONE else Kind.AS_PUBLISHED
            shift = 1.0 if plan.adjacency is Adjacency.ZERO_OUT else 2.0
            return (
                Published(name=UPPER, kind=kind, divergence=run(fixed_size_upper, 2.0)),
                Published(name=LOWER, kind=Kind.LOWER, divergence=run(fixed_size_lower, shift)),
            )
        case Poisson() if plan.adjacency is not Adjacency.REPLACE_ONE:
            return (
                Published(name=UPPER, kind=Kind.UPPER, divergence=run(poisson_upper, 1.0)),
                Published(name=LOWER, kind=Kind.LOWER, divergence=run(fixed_size_lower, 1.0)),
            )
        case _:
            return ()
