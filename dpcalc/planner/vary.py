"""Plans that differ in one quantity, as solvers search them and charts draw them."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from dpcalc.amplification.groups import MAX_PLACED_MEMBERS, group_refusal, max_group_size
from dpcalc.errors import InputError, KeyedInputError, require_whole
from dpcalc.planner.composition import Composition, composed
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Level


def select_phase(plan: Plan, name: str | None, what: str) -> Phase:
    """Return the phase with a name, or the only phase for None; InputError if there is no such one phase."""
    if name is None:
        if len(plan.phases) > 1:
            names = ", ".join(phase.name for phase in plan.phases)
            raise InputError(f"{what}: expected --phase with one of {names}; the phases differ")
        return plan.phases[0]
    for phase in plan.phases:
        if phase.name == name:
            return phase
    raise InputError(f"phase: expected one of {', '.join(p.name for p in plan.phases)}, got {name!r}")


def replace_phase(plan: Plan, old: Phase, new: Phase) -> Plan:
    """Return the plan with `old`, found by identity, replaced wherever it occurs; unchanged if it does not."""
    return replace(plan, phases=tuple(new if phase is old else phase for phase in plan.phases))


def first_steps(plan: Plan, steps: int) -> Plan:
    """Return the plan that ends after its first `steps` steps; InputError if it has fewer."""
    # The first phases, the last of them cut short; draws and passes that are not finished count as what they are.
    expected = f"a whole number from 0 to {plan.steps}, the length of the run"
    if require_whole("steps", steps, expected) > plan.steps:
        raise InputError(f"steps: expected {expected}, got {steps}")
    phases = with_total_steps(plan, steps).phases
    last = max((at for at, phase in enumerate(phases) if phase.steps), default=0)
    return replace(plan, phases=phases[: last + 1])


def with_total_steps(plan: Plan, steps: int) -> Plan:
    """Return the plan with `steps` steps in all: its last phase longer, or its last phases shorter, down to 0 steps."""
    # Phases without steps stay, so that the plan has the same phases at every length.
    left, phases = steps, []
    for phase in plan.phases:
        phase_steps = left if phase is plan.phases[-1] else min(left, phase.steps)
        phases.append(replace(phase, steps=phase_steps))
        left -= phase_steps
    return replace(plan, phases=tuple(phases))


def with_noise(plan: Plan, chosen: Phase, noise_multiplier: float) -> Plan:
    """Return the plan with another noise multiplier in one phase; UnsupportedError if that phase has none."""
    return replace_phase(plan, chosen, chosen.with_noise(noise_multiplier))


def with_scaled_noise(plan: Plan, factor: float) -> Plan:
    """Return the plan with all noise multipliers times a factor; phases without one stay as they are."""
    phases = (
        phase if phase.noise_multiplier is None else phase.with_noise(phase.noise_multiplier * factor)
        for phase in plan.phases
    )
    return replace(plan, phases=tuple(phases))


def with_level(plan: Plan, chosen: Phase, place: int, level: Level) -> Plan:
    """Return the plan with the level at index `place` (from 0) of one phase replaced."""
    levels = (*chosen.hierarchy.levels[:place], level, *chosen.hierarchy.levels[place + 1 :])
    return replace_phase(plan, chosen, with_levels(chosen, levels))


def with_levels(phase: Phase, levels: Iterable[Level]) -> Phase:
    """Return the phase with other levels."""
    return replace(phase, hierarchy=replace(phase.hierarchy, levels=tuple(levels)))


def with_epochs(plan: Plan, number: int, epochs: Fraction) -> Plan:
    """Return the plan with one phase as long as `epochs` passes over the data, rounded up to whole steps."""
    phase = plan.phases[number]
    return replace_phase(plan, phase, replace(phase, steps=phase.hierarchy.steps_of(epochs)))


def largest_group(plan: Plan) -> int:
    """Return the largest group size that some bound covers; at least 1."""
    if plan.parting:
        return 1
    # The largest whose placements are covered.
    hierarchies = [phase.hierarchy for phase in plan.phases]
    largest = max(1, max_group_size(hierarchies, unit=plan.unit, adjacency=plan.adjacency))
    if group_refusal(largest, hierarchies, unit=plan.unit):
        sizes = range(1, min(largest, MAX_PLACED_MEMBERS) + 1)
        largest = max(size for size in sizes if not group_refusal(size, hierarchies, unit=plan.unit))

    def is_too_large(size: int) -> bool:
        return refusal(replace(plan, group_size=size)) is not None

    # A larger group never makes a pass longer, so that the sizes which are refused are those above some size.
    return max(1, bisect_left(range(1, largest + 1), 1, key=is_too_large)) if is_too_large(largest) else largest


def is_covered(plan: Plan) -> bool:
    """Return True unless correlated noise has no proved bound under its sampling; other errors are raised."""
    try:
        plan.independent()
    except KeyedInputError:
        return False
    return True


def refusal(plan: Plan | Composition) -> InputError | None:
    """Return the InputError of finding a run's protected units, if a phase shuffles their level; else None."""
    composition = composed(plan)
    run = composition.plan
    if all(not phase.hierarchy.level(run.unit).scheme.is_shuffled for phase in run.phases):
        return None
    try:
        _ = composition.units
    except InputError as error:
        return error
    return None
