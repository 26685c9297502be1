"""All that a reviewer asks about a run: the guarantee, what it means for an attacker, and what sampling contributes."""

import contextlib
import math
from dataclasses import dataclass, replace

from dpcalc.accountants import worst
from dpcalc.accountants.auto import auto
from dpcalc.mechanisms.ensemble import Ensemble
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.evaluate import Evaluation, evaluate, guarantee
from dpcalc.planner.extras import FAILURES
from dpcalc.planner.group_chain import chain_epsilon
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import (
    BACKWARD,
    FORWARD,
    Alternative,
    alternatives,
    black_box_steps,
    ensemble_release,
    is_noiseless,
    releasing_phases,
)
from dpcalc.planner.risk import Attack, attack
from dpcalc.release.black_box_steps import known_release
from dpcalc.release.counted import always
from dpcalc.release.timed import phase_release
from dpcalc.release.tree import Release, Sequence, WorstOf

GROUP_SIZES = (2, 5, 10)
MOST_PLACED = 5  # members of a group whose placements below drawn parents are gone through; more take minutes


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What is stated about a run.

    Attributes:
        evaluation: the guarantee and what it rests on.
        unsampled: epsilon if every step were known to hold the unit, an upper bound; `inf` without noise.
        groups: (units together, epsilon at the same delta): upper bounds, `inf` for none, None where none is known.
        attack: what an attacker can gain, upper bounds.
    """

    evaluation: Evaluation
    unsampled: float
    groups: tuple[tuple[int, float | None], ...]
    attack: Attack


def statement(plan: Plan) -> Statement:
    """Everything that a statement about a plan says.

    Args:
        plan: a training run.

    Returns:
        Numbers, unrounded; every one of them an upper bound but the guarantee's own lower end.

    Raises:
        ConvergenceError: if there is no certified answer.
    """
    evaluation = evaluate(plan)
    finite = evaluation.guarantee.finite
    return Statement(
        evaluation=evaluation,
        unsampled=unsampled_epsilon(plan),
        groups=tuple((size, group_epsilon(plan, size) if finite else math.inf) for size in GROUP_SIZES),
        attack=attack(plan),
    )


def group_epsilon(plan: Plan, size: int) -> float | None:
    """Epsilon for any `size` units of a plan together, at the plan's delta.

    Args:
        plan: a training run with a finite guarantee.
        size: >= 1.

    Returns:
        The smaller of the bound for the group and the chain of its members; None where neither is to be had.
    """
    bounds = [chain_epsilon(plan, size)]
    if plan.unit == 1 or size <= MOST_PLACED:
        with contextlib.suppress(*FAILURES):  # a group that does not fit, or no certified answer
            bounds.append(guarantee(replace(plan, group_size=size), method="auto").epsilon)
    return min((bound for bound in bounds if bound is not None), default=None)


def unsampled_epsilon(plan: Plan) -> float:
    """Epsilon if every draw held the protected unit and everybody knew: what a sampler that is not random leaves.

    A draw is that of a step, or of a whole pass of a shuffle.

    Args:
        plan: a training run.

    Returns:
        An upper bound: every step is the mechanism with the shift s of the one-step bound.
    """
    if is_noiseless(plan):
        return math.inf
    found: dict[str, Release] = {}
    releasing = releasing_phases(plan)
    for one in alternatives(plan):
        pairs = [_known(plan, one, place) for place, phase in enumerate(plan.phases) if phase in releasing]
        found[one.named(FORWARD)] = Sequence(nodes=tuple(ahead for ahead, _ in pairs))
        found[one.named(BACKWARD)] = Sequence(nodes=tuple(back for _, back in pairs))
    return worst(WorstOf(releases=found), auto, delta=plan.delta)[0].epsilon


def _known(plan: Plan, protected: Alternative, place: int) -> tuple[Release, Release]:
    """One phase in both directions, every step of which is known to hold the unit."""
    phase, own = plan.phases[place], protected.choices[place][0]
    if isinstance(phase.mechanism, Gaussian):
        known = replace(own, bound=always(own.bound), revealed=())
        return phase_release(known, steps=phase.steps, noise_multiplier=phase.gaussian.noise_multiplier)
    if isinstance(phase.mechanism, Ensemble):
        return ensemble_release(plan, phase)
    return known_release(black_box_steps(plan, protected, place, own))
