"""JSON outputs of the commands: the format `dpcalc.result/1`, in which fields are only ever added.

Floats are unrounded; infinity is null beside `"finite": false`; NaN is never written.
"""

from collections.abc import Mapping, Sequence

from dpcalc.config.load import Loaded
from dpcalc.config.normal import fingerprint
from dpcalc.guarantee import Row
from dpcalc.planner.evaluate import DeltaResult, Evaluation
from dpcalc.planner.pate import DataDependentResult
from dpcalc.planner.plan import Plan
from dpcalc.planner.search import Goal, NoSolution, Value
from dpcalc.planner.solve import Solution
from dpcalc.planner.words import mechanism_text, sampling_text
from dpcalc.report.json_parts import (
    budget_fields,
    config_fields,
    diagnostic_fields,
    document,
    finite,
    phase_fields,
    row_fields,
    votes_fields,
)
from dpcalc.report.solution import EPSILON, measure
from dpcalc.report.view import note_texts


def evaluation_json(evaluation: Evaluation, loaded: Loaded, private: DataDependentResult | None = None) -> str:
    """Return the output of `epsilon --json`: guarantee, alternatives, phases, budget, assumptions, notes.

    Args:
        evaluation: guarantee and explanation of the plan.
        loaded: the config.
        private: data-dependent cost of the PATE votes that the config names; None for no votes.
    """
    fields = {"config": config_fields(loaded), **_evaluation_fields(evaluation, loaded)}
    fields |= {"with_these_votes": votes_fields(private)} if private else {}
    return document("epsilon", fields)


def units_json(answers: Sequence[tuple[Evaluation, Loaded]]) -> str:
    """Return the output of `epsilon --unit all --json`: the fields of `evaluation_json` for each level, in `units`."""
    _, first = answers[0]
    fields = {
        "config": config_fields(first),
        "units": [_evaluation_fields(evaluation, loaded) for evaluation, loaded in answers],
    }
    return document("epsilon", fields)


def costs_json(costs: Sequence[tuple[Evaluation, Loaded]]) -> str:
    """Return the output of `epsilon A B --json`: the fields of `evaluation_json` for each config, in `configs`."""
    configs = [
        {"config": config_fields(loaded), **_evaluation_fields(evaluation, loaded)} for evaluation, loaded in costs
    ]
    return document("epsilon", {"configs": configs})


def comparisons_json(comparisons: Sequence[tuple[Sequence[Row], Loaded]]) -> str:
    """Return the output of `compare A B --json`: the fields of `comparison_json` for each config, in `configs`."""
    return document("compare", {"configs": [_comparison_fields(rows, loaded) for rows, loaded in comparisons]})


def _evaluation_fields(evaluation: Evaluation, loaded: Loaded) -> dict[str, object]:
    """Return the fields of `evaluation_json` for one config, without the config and its votes."""
    plan = loaded.plan
    return {
        "guarantee": evaluation.guarantee.to_dict(),
        "alternatives": [row_fields(row) for row in evaluation.alternatives],
        "steps": evaluation.steps,
        "phases": [phase_fields(phase) for phase in evaluation.phases],
        "budget": budget_fields(evaluation.guarantee.epsilon, None if plan.budget is None else plan.budget.epsilon),
        "assumptions": list(evaluation.assumptions),
        "notes": list(note_texts(evaluation)),
        "diagnostics": diagnostic_fields(loaded.diagnostics),
        "config_hash": loaded.config_hash,
    }


def comparison_json(rows: Sequence[Row], loaded: Loaded) -> str:
    """Return the output of `compare --json`: unit, adjacency, delta and steps of the plan, and the rows.

    Args:
        rows: one for each accountant and one-step bound.
        loaded: the config.
    """
    return document("compare", _comparison_fields(rows, loaded))


def _comparison_fields(rows: Sequence[Row], loaded: Loaded) -> dict[str, object]:
    """Return the fields of `comparison_json` for one config."""
    plan = loaded.plan
    return {
        "config": config_fields(loaded),
        "unit": plan.unit_name,
        "adjacency": str(plan.adjacency),
        "delta": plan.delta,
        "steps": plan.steps,
        "rows": [row_fields(row) for row in rows],
        "diagnostics": diagnostic_fields(loaded.diagnostics),
        "config_hash": loaded.config_hash,
    }


def solution_json(command: str, solution: Solution, loaded: Loaded, *, written: Sequence[str]) -> str:
    """Return the output of a solver with `--json`: the solution, its guarantee, steps and phases of the solved plan.

    Args:
        command: name of the solver.
        solution: its result, the value a short decimal (`with_safe_decimal`).
        loaded: the config before the search.
        written: keys that `--write` changed.
    """
    fields = {
        "name": solution.name,
        "value": _number(solution.value),
        "epsilon": solution.guarantee.epsilon,
        "target": solution.goal.limit,
        "fails_at": None if solution.fails_at is None else _number(solution.fails_at),
        "key": solution.key,
        "goal": _goal_fields(solution.goal, solution.reached),
    }
    outcome = {"solution": fields, "best": None, "guarantee": solution.guarantee.to_dict()}
    return document(command, _solver_fields(outcome, solution.plan, loaded, written))


def no_solution_json(command: str, answer: NoSolution, loaded: Loaded) -> str:
    """Return the output of a solver with `--json` that found no value: the value nearest to the target as `best`.

    Args:
        command: name of the solver.
        answer: the goal and the best value there is.
        loaded: the config.
    """
    best = {
        "name": answer.name,
        "value": _number(answer.best_value),
        "epsilon": finite(answer.best_reached) if measure(answer.goal) == EPSILON else None,
        "target": answer.goal.limit,
        "goal": _goal_fields(answer.goal, answer.best_reached),
    }
    outcome = {"solution": None, "best": best, "guarantee": None}
    return document(command, _solver_fields(outcome, None, loaded, ()))


def _goal_fields(goal: Goal, reached: float) -> dict[str, object]:
    """Return the measure, the limit and the upper bound that is reached."""
    return {"measure": measure(goal), "words": goal.name, "limit": goal.limit, "reached": finite(reached)}


def delta_json(answer: DeltaResult, loaded: Loaded) -> str:
    """Return the output of `delta --json`: delta with its lower bound, epsilon, unit, adjacency and accountant.

    Args:
        answer: delta at a given epsilon.
        loaded: the config.
    """
    plan = loaded.plan
    guarantee = {
        "delta": answer.delta,
        "delta_lower": answer.delta_lower,
        "epsilon": answer.epsilon,
        "kind": "upper",
        "unit": plan.unit_name,
        "adjacency": str(plan.adjacency),
        "group_size": plan.group_size,
        "method": answer.method,
        "direction": answer.direction,
        "notes": list(answer.notes),
    }
    fields = {
        "config": config_fields(loaded),
        "guarantee": guarantee,
        "steps": plan.steps,
        "diagnostics": diagnostic_fields(loaded.diagnostics),
    }
    return document("delta", fields)


def _solver_fields(
    outcome: Mapping[str, object], plan: Plan | None, loaded: Loaded, written: Sequence[str]
) -> dict[str, object]:
    """Return a solver's fields; steps, phases and hash are those of `plan`, the solved one, or empty for None."""
    phases = () if plan is None else plan.phases
    return {
        "config": config_fields(loaded),
        **outcome,
        "steps": None if plan is None else plan.steps,
        "phases": [
            {
                "name": phase.name,
                "steps": phase.steps,
                "mechanism": mechanism_text(phase),
                "noise_multiplier": phase.noise_multiplier,
                "sampling": sampling_text(phase),
            }
            for phase in phases
        ],
        "written": list(written),
        "diagnostics": diagnostic_fields(loaded.diagnostics),
        "config_hash": None if plan is None else fingerprint(plan),
    }


def _number(value: Value) -> int | float:
    """Return an integer unchanged, else a float: rates are short decimals here, which a float represents."""
    return value if isinstance(value, int) else float(value)
