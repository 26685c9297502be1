"""Runs on disjoint parts of the data: a unit pays for the runs on its own part and on all data.

Source: docs/theory.md, Theorem 13.3.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations

from dpcalc.accountants.result import StepCounts
from dpcalc.errors import UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.planner.plan import Phase, Plan

Compose = Callable[[Plan], Mapping[str, StepCounts]]


def parted_steps(plan: Plan, compose: Compose) -> dict[str, StepCounts]:
    """Return step counts (upper) for a unit of each part, replaced: also of pairs; UnsupportedError if costs vary.

    Args:
        plan: a plan with phases on parts.
        compose: the counts of a plan without parts, in D||D' and in D'||D.

    Returns:
        Upper bounds, for a unit of each part; of replaced units of level 1 also for each ordered pair of parts, the
        unit's own and that of the unit in its place.

    Raises:
        UnsupportedError: units differ in cost.
    """
    own = {part: tuple(phase for phase in plan.phases if phase.part == part) for part in plan.parts}
    whole = _both(plan, compose, tuple(phase for phase in plan.phases if not phase.part))
    steps: dict[str, StepCounts] = {}
    for part, phases in own.items():
        for direction, of_all, of_part in zip(("D||D'", "D'||D"), whole, _both(plan, compose, phases), strict=True):
            steps[f"{direction}, part {part}"] = _together(of_all, of_part)
    if plan.adjacency is Adjacency.REPLACE_ONE and plan.unit == 1:
        # The unit is removed from its part, and another one is added to another part.
        removal = replace(plan, adjacency=Adjacency.ADD_REMOVE)
        removals = {part: _both(removal, compose, phases) for part, phases in own.items()}
        for part, other in permutations((*removals, ""), 2):
            removed, added = (removals.get(name, ({}, {})) for name in (part, other))
            words = f"a unit of {part or 'no part'} replaced by one of {other or 'no part'}"
            for direction, of_all in zip(("D||D'", "D'||D"), whole, strict=True):
                steps[f"{direction}, {words}"] = _together(of_all, removed[0], added[1])
    distinct = {frozenset(counts.items()): counts for counts in steps.values()}  # equal ones are composed once
    return {name: distinct[frozenset(counts.items())] for name, counts in steps.items()}


def _both(plan: Plan, compose: Compose, phases: tuple[Phase, ...]) -> tuple[StepCounts, StepCounts]:
    """Return both directions' counts of phases as if on all data, ({}, {}) for none; UnsupportedError if costs vary."""
    if not phases:
        return {}, {}
    alone = tuple(replace(phase, part="") for phase in phases)
    steps = compose(replace(plan, phases=alone, partition=None))
    if len(steps) != 2:
        raise UnsupportedError("part: expected units of one cost with parts of the data, got several")
    forward, backward = steps.values()
    return forward, backward


def refuse_parts(plan: Plan) -> None:
    """Raise UnsupportedError for a plan with phases on parts, in which no unit takes part in every phase.

    Args:
        plan: the plan.

    Raises:
        UnsupportedError: it has phases on parts.
    """
    if plan.parts:
        raise UnsupportedError(
            "part: expected a question about epsilon or delta, the only ones answered for runs on parts of the data, "
            "got another one; ask about one run"
        )


def _together(*counts: StepCounts) -> StepCounts:
    """Return the counts of runs that one unit takes part in."""
    return {curve: sum(each.get(curve, 0) for each in counts) for each in counts for curve in each}
