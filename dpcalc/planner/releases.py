"""From a plan to the release trees that accountants fold, and to the parameters of each phase's bound."""

from dpcalc.planner.plan import Phase, Plan
from dpcalc.release.bounds import StepBound, one_step_bound
from dpcalc.release.step import glued_profile
from dpcalc.release.tree import Release, Repeat, Sequence, Single, WorstOf

FORWARD, BACKWARD = "D||D'", "D'||D"
BOUND = "one-step bound"


def phase_bound(plan: Plan, phase: Phase) -> StepBound:
    """The one-step bound (K) of one phase."""
    return one_step_bound(phase.hierarchy, unit=plan.unit, clip=phase.clip, adjacency=plan.adjacency)


def releasing_phases(plan: Plan) -> tuple[Phase, ...]:
    """The phases that can draw the protected unit at all."""
    return tuple(p for p in plan.phases if p.steps and p.hierarchy.inclusion(plan.unit))


def is_noiseless(plan: Plan) -> bool:
    """Whether some phase releases the protected unit without noise: no epsilon is finite then."""
    return any(phase.mechanism.noise_multiplier == 0 for phase in releasing_phases(plan))


def releases(plan: Plan) -> WorstOf:
    """Both directions of the whole run under the one-step bound; the plan must not be noiseless."""
    forward: list[Release] = []
    backward: list[Release] = []
    for phase in releasing_phases(plan):
        profile = glued_profile(phase_bound(plan, phase), noise_multiplier=phase.mechanism.noise_multiplier)
        forward.append(Repeat(node=Single(curve=profile), count=phase.steps))
        backward.append(Repeat(node=Single(curve=profile.swapped), count=phase.steps))
    return WorstOf(releases={FORWARD: Sequence(nodes=tuple(forward)), BACKWARD: Sequence(nodes=tuple(backward))})
