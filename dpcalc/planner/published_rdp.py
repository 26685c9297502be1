"""Renyi divergence of a run of sampled steps as general theorems bound it, from the step without sampling alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpcalc.accountants.rdp import rdp
from dpcalc.adjacency import Adjacency
from dpcalc.curves.atoms import Atoms
from dpcalc.curves.rdp_curve import (
    LARGEST_ORDER,
    RdpCurve,
    Renyi,
    fixed_size_lower,
    fixed_size_upper,
    known,
    poisson_upper,
)
from dpcalc.guarantee import Kind, Row
from dpcalc.mechanisms.approximate_dp import ApproximateDp, approximate_dp_rdp
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.ensemble import Ensemble
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import Diverging, Mechanism
from dpcalc.mechanisms.laplace import Laplace, laplace_rdp
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.rdp_table import RdpTable
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.releases import releasing_phases
from dpcalc.sampling.schemes import Fixed, Poisson

Bound = Callable[[Renyi, float, int], float]
UPPER, LOWER = "general upper bound", "general lower bound"
SIGNS_KNOWN = "general upper bound, odd moments nonnegative"


@dataclass(frozen=True, kw_only=True)
class Published:
    """One of the general bounds for a run.

    Attributes:
        name: of the bound.
        kind: UPPER or LOWER where the theorem speaks of the run's relation, else as published.
        step: divergence of one step, by whole order >= 2; infinite where nothing is known.
        steps: how many there are.
    """

    name: str
    kind: Kind
    step: Callable[[int], float]
    steps: int

    def divergence(self, order: int) -> float:
        """Of the whole run."""
        return self.steps * self.step(order)


def base_rdp(mechanism: Mechanism, shift: int) -> Renyi | None:
    """Divergences of a mechanism on one batch and a neighbouring one, None where they are infinite.

    Args:
        mechanism: any.
        shift: by how many clip norms sums differ, where it is about sums.

    Returns:
        Of each order above 1 an upper bound, and at whole orders what some pair of batches attains but where the
        mechanism is known by its divergences; infinite at infinity where losses have no bound.

    References:
        Canonne, Kamath, Steinke 2020 (2004.00010v4), Proposition 5, for discrete Gaussian noise.
    """
    match mechanism:
        case Gaussian() | DiscreteGaussian():
            noise = mechanism.joint.noise_multiplier if isinstance(mechanism, Gaussian) else mechanism.noise_multiplier
            return lambda order: order * shift**2 / (2 * noise**2)
        case Laplace(noise_multiplier=scale):
            return partial(laplace_rdp, shift / scale)
        case DiscreteLaplace() | RandomizedResponse():
            pair = mechanism.pair(shift) if isinstance(mechanism, DiscreteLaplace) else mechanism.pair()
            return partial(_of_atoms, pair)
        case ApproximateDp(epsilon=epsilon, delta=delta):
            return None if delta else partial(approximate_dp_rdp, epsilon)
        case _:
            return None if isinstance(mechanism, Ensemble) else mechanism.rdp


def _of_atoms(pair: Atoms, order: float) -> float:
    """The divergence of a pair with finitely many losses, all of them finite."""
    if math.isinf(order) or not pair.losses:
        return max(pair.losses, default=0.0)
    raised = np.array(pair.log_masses) + (order - 1) * np.array(pair.losses)
    return float(np.logaddexp.reduce(raised)) / (order - 1)


def published_rdp(plan: Plan) -> tuple[Published, ...]:
    """The general bounds for one phase of one level, single units and clipped vectors; else none.

    Returns:
        For draws of a fixed size and Poisson draws an upper bound; for the latter also the one without the factor 3
        where its condition is proved (Gaussian and Laplace noise) or stated; and a lower bound, the divergence of an
        actual pair, where the mechanism is not known by upper bounds alone.

    References:
        Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Theorem 9 for draws of a fixed size under replacement and
        Proposition 11; Zhu, Wang 2019 (PMLR 97), Theorems 5 and 6 for Poisson draws.
    """
    phases = releasing_phases(plan)
    if len(phases) != 1 or plan.unit != 1 or plan.group_size != 1:
        return ()
    (phase,) = phases
    level, mechanism = phase.hierarchy.level(1), phase.mechanism
    if phase.hierarchy.depth != 1 or phase.clip != 1 or level.redraw_every != 1:
        return ()
    match level.scheme:
        case Fixed(at_most=False):
            kind = Kind.UPPER if plan.adjacency is Adjacency.REPLACE_ONE else Kind.AS_PUBLISHED
            shift = 1 if plan.adjacency is Adjacency.ZERO_OUT else 2
            lines = [(UPPER, kind, fixed_size_upper, 2), (LOWER, Kind.LOWER, fixed_size_lower, shift)]
        case Poisson() if plan.adjacency is not Adjacency.REPLACE_ONE:
            lines = [(UPPER, Kind.UPPER, poisson_upper, 1), (LOWER, Kind.LOWER, fixed_size_lower, 1)]
            if _signs_known(mechanism):
                lines.insert(1, (SIGNS_KNOWN, Kind.UPPER, partial(poisson_upper, factor=1.0), 1))
        case _:
            return ()
    told = (_published(phase, *line) for line in lines if line[0] != LOWER or not isinstance(mechanism, Diverging))
    return tuple(one for one in told if one is not None)


def _signs_known(mechanism: Mechanism) -> bool:
    """Whether the odd moments of P/Q - 1 are known not to be negative."""
    if isinstance(mechanism, RdpTable):
        return mechanism.odd_moments == "nonnegative"
    return isinstance(mechanism, (Gaussian, Laplace))


def _published(phase: Phase, name: str, kind: Kind, bound: Bound, shift: int) -> Published | None:
    """One bound for the steps of a phase."""
    rate, base = float(phase.hierarchy.level(1).rate), base_rdp(phase.mechanism, shift)
    if base is None:
        return None

    def step(order: int) -> float:
        whole = base(float(order))
        return whole if rate == 1 or math.isinf(whole) else max(0.0, bound(base, rate, order))

    return Published(name=name, kind=kind, step=step, steps=phase.steps)


def general_row(plan: Plan) -> Row | None:
    """Epsilon from the best general upper bound on divergences, None where there is none."""
    upper = [one for one in published_rdp(plan) if one.name in {UPPER, SIGNS_KNOWN}]
    if not upper:
        return None
    best = upper[-1]
    points = known(lambda order: best.step(int(order)), range(2, LARGEST_ORDER + 1))
    if not points:
        return None
    curve = RdpCurve(name=f"{best.name} of {plan.phases!r}, {plan.adjacency}", points=points)
    answer = rdp({curve: best.steps}, delta=plan.delta)
    valid = best.kind is Kind.UPPER
    return Row(method="rdp", bound=best.name, epsilon=answer.epsilon, kind=best.kind, valid=valid, note=answer.note)
