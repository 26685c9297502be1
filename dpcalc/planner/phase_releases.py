"""The releases of one phase under one of its bounds, and which of its bounds hold and is the cheapest."""

import math
from typing import TYPE_CHECKING

from dpcalc.accountants.pld import pld
from dpcalc.accountants.rdp import trimmed_epsilon
from dpcalc.amplification.allocation import allocated_gaussian_steps
from dpcalc.amplification.any_mechanism import (
    BlackBoxSteps,
    black_box_releases,
    repeated_releases,
    unamplified_releases,
)
from dpcalc.amplification.groups import Group
from dpcalc.amplification.joint_distances import MIN_GAIN, JointStepBound
from dpcalc.amplification.phase import black_box_refusal
from dpcalc.amplification.schedule import PhaseBound, ensemble_refusal, phase_steps, query_steps
from dpcalc.errors import UnsupportedError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.moments import Steps
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import AdditiveNoise, BlackBox, PairOnly, change_of
from dpcalc.mechanisms.pate import PateMechanism
from dpcalc.planner.plan import Phase, Plan
from dpcalc.work import own_allowance

if TYPE_CHECKING:  # `composition` imports this module
    from dpcalc.planner.composition import ProtectedUnit

MAX_AVERAGED = 4
"""Different units averaged over their mates, up to a second each; more share one average of them all."""
_MAX_MATES = 512  # draws of a unit's mates that are told apart before they are merged; 5,000 take a second


def releases_of(plan: Plan, protected: "ProtectedUnit", place: int, bound: PhaseBound) -> tuple[Steps, Steps]:
    """Return the upper releases (forward, backward) of a phase; UnsupportedError if it is not covered."""
    phase = plan.phases[place]
    if isinstance(phase.mechanism, Gaussian):
        with own_allowance(math.inf):  # nothing cheaper stands in for them: they are charged, and never left out
            return gaussian_releases(phase, bound)
    if isinstance(phase.mechanism, PateMechanism):
        return ensemble_release(plan, phase)
    why = black_box_refusal(
        phase.mechanism, phase.hierarchy, unit=plan.unit, adjacency=plan.adjacency, group_size=plan.group_size
    )
    if why:
        raise UnsupportedError(f"{phase.name}: {why}")
    return _amplified_within_work(black_box_steps(plan, protected, place, bound))


def _amplified_within_work(steps: BlackBoxSteps) -> tuple[Steps, Steps]:
    """Return the upper releases (forward, backward) of black-box steps; not amplified if that takes too much work."""
    try:
        return black_box_releases(steps)
    except WorkExceededError:
        with own_allowance(math.inf):
            return unamplified_releases(steps)


def gaussian_releases(phase: Phase, bound: PhaseBound) -> tuple[Steps, Steps]:
    """Return the upper releases (forward, backward) of a Gaussian phase; UnsupportedError for other noise."""
    releases = phase_steps if bound.allocation is None else allocated_gaussian_steps
    return releases(bound, steps=phase.steps, noise_multiplier=phase.gaussian.noise_multiplier)


def ensemble_release(plan: Plan, phase: Phase) -> tuple[Steps, Steps]:
    """Return a group's release of PATE queries, twice; UnsupportedError if it is not covered, TypeError for others."""
    if not isinstance(phase.mechanism, PateMechanism):
        raise TypeError(f"{phase.name}: expected teachers, got {phase.mechanism.name}")
    why = ensemble_refusal(phase.mechanism, phase.hierarchy)
    if why:
        raise UnsupportedError(f"{phase.name}: {why}")
    steps = query_steps(phase.mechanism, group_size=plan.group_size, queries=phase.steps)
    return steps, steps


def black_box_steps(plan: Plan, protected: "ProtectedUnit", place: int, bound: PhaseBound) -> BlackBoxSteps:
    """Return the black-box steps of a unit or group, or of one unit if units choose steps; TypeError for other
    phases."""
    phase = plan.phases[place]
    if not isinstance(phase.mechanism, BlackBox):
        raise TypeError(f"{phase.name}: expected a mechanism on a batch, got {phase.mechanism.name}")
    change = change_of(phase.mechanism, plan.adjacency)
    # To a promise for batches of one size a zeroed unit is one that takes the place of another.
    is_replaced = plan.adjacency is Adjacency.ZERO_OUT and not change.covers_missing
    adjacency = Adjacency.REPLACE_ONE if is_replaced else plan.adjacency
    # What an allocation hides is the removal of one unit; its links make up the group, and the addition of another.
    is_removal = "+" in bound.links
    return BlackBoxSteps(
        mechanism=phase.mechanism,
        hierarchy=phase.hierarchy.given_allocation(),
        path=protected.paths[place],
        clip=plan.counted_level(phase),
        adjacency=Adjacency.ADD_REMOVE if is_removal else adjacency,
        group=protected.group if bound.allocation is None or bound.units_together else Group(),
        removed=protected.group,
        noise=bound,
        number=phase.steps,
        max_mates=_MAX_MATES if protected.shares <= MAX_AVERAGED else 0,
        change=change,
    )


def cheapest_bound(choices: tuple[PhaseBound, ...], phase: Phase, delta: float) -> PhaseBound:
    """Return the bound with the least epsilon for the phase alone; the first one if they cannot be compared."""
    if len(choices) == 1 or not _is_comparable(choices[0], phase):
        return choices[0]
    return min(choices, key=lambda bound: _ranking_cost(bound, phase, delta))


def _ranking_cost(bound: PhaseBound, phase: Phase, delta: float) -> float:
    """Return the costlier direction's epsilon: by pld if units choose steps, else by moments, more if joint."""
    steps = [each for each in _noise_releases(phase, bound) if each]
    if phase.hierarchy.allocated:  # whose large losses are rare: moments would rank them wrongly
        return max((pld(each, delta=delta).epsilon for each in steps), default=0.0)
    # A joint bound takes longer to compose: it is chosen only where it gains something.
    worth = 1 - MIN_GAIN if isinstance(bound.bound, JointStepBound) else 1.0
    return max((trimmed_epsilon(each, delta=delta).value for each in steps), default=0.0) / worth


def _is_comparable(first: PhaseBound, phase: Phase) -> bool:
    """Return True if epsilon can rank the bounds of a phase; False without noise or steps, and for PATE."""
    if not phase.noise_multiplier or not phase.steps or isinstance(phase.mechanism, PateMechanism):
        return False
    return isinstance(phase.mechanism, Gaussian) or not (first.steps_of_a_pass > 1 or first.squared > 1)


def valid_bounds(plan: Plan, phase: Phase, choices: tuple[PhaseBound, ...]) -> tuple[PhaseBound, ...]:
    """Return the bounds that hold for the mechanism of a phase; all of them if it is Gaussian.

    The bounds in their order. Without Gaussian noise not those of ancestors whose passes are one release of the sum
    of squared distances; of an allocation those of `_valid_allocated_bounds`.
    """
    if isinstance(phase.mechanism, Gaussian):
        return choices
    if phase.hierarchy.allocated:
        return _valid_allocated_bounds(plan, phase, choices)
    # The first is that of the unit's own level, whose passes are taken apart.
    return (choices[0], *(bound for bound in choices[1:] if bound.squared == 1))


def _valid_allocated_bounds(plan: Plan, phase: Phase, choices: tuple[PhaseBound, ...]) -> tuple[PhaseBound, ...]:
    """Return the bounds that hide the choice of steps, if the mechanism allows it, and those that reveal it."""
    # The hidden choice needs a mechanism that knows its losses and what a missing unit does.
    is_known = isinstance(phase.mechanism, AdditiveNoise) or (
        isinstance(phase.mechanism, PairOnly) and change_of(phase.mechanism, plan.adjacency).covers_missing
    )
    return tuple(bound for bound in choices if not bound.is_gaussian_alone and (bound.is_revealed or is_known))


def _noise_releases(phase: Phase, bound: PhaseBound) -> tuple[Steps, Steps]:
    """Return the upper releases (forward, backward) of noise on a sum or a black box; TypeError for PATE."""
    if isinstance(phase.mechanism, Gaussian):
        return gaussian_releases(phase, bound)
    if not isinstance(phase.mechanism, BlackBox):
        raise TypeError(f"{phase.name}: expected noise on a sum, got {phase.mechanism.name}")
    return repeated_releases(phase.mechanism, bound, phase.steps)
