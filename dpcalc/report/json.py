"""Results as JSON: the format `dpcalc.result/1`, in which fields are only ever added.

Floats are written in full; infinity is null beside `"finite": false`; NaN is never written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dpcalc
from dpcalc.config.fingerprint import fingerprint
from dpcalc.guarantee import Guarantee, Row
from dpcalc.planner.describe import sampling_text
from dpcalc.report.gate_view import FileView, Finding, GateView, findings
from dpcalc.report.statement import COVERED, NOT_COVERED
from dpcalc.report.view import note_texts

if TYPE_CHECKING:  # these load numpy, which `validate` does without
    from dpcalc.config import Loaded
    from dpcalc.planner.evaluate import DeltaAnswer, Evaluation
    from dpcalc.planner.plan import Plan
    from dpcalc.planner.search import NoSolution, Value
    from dpcalc.planner.solve import Solution
    from dpcalc.planner.statement import Statement
    from dpcalc.planner.summary import PhaseSummary

SCHEMA = "dpcalc.result/1"
_COMMAND = re.compile(r"##(?=\w*\[)")


def evaluation_json(evaluation: Evaluation, loaded: Loaded) -> str:
    """The output of `epsilon --json`."""
    plan = loaded.plan
    fields = {
        "config": {"path": loaded.path, "name": plan.name},
        "guarantee": _guarantee(evaluation.guarantee),
        "alternatives": [_row(row) for row in evaluation.alternatives],
        "steps": evaluation.steps,
        "phases": [_phase(phase) for phase in evaluation.phases],
        "budget": _budget(evaluation.guarantee.epsilon, None if plan.budget is None else plan.budget.epsilon),
        "assumptions": list(evaluation.assumptions),
        "notes": list(note_texts(evaluation)),
        "diagnostics": [_finding(diagnostic) for diagnostic in findings(loaded.diagnostics)],
        "config_hash": loaded.config_hash,
    }
    return _document("epsilon", fields)


def statement_json(statement: Statement, loaded: Loaded) -> str:
    """The output of `statement --format json`."""
    plan, evaluation, attack = loaded.plan, statement.evaluation, statement.attack
    fields = {
        "config": {"path": loaded.path, "name": plan.name},
        "guarantee": _guarantee(evaluation.guarantee),
        "attack": {
            "kind": "upper",
            "advantage": attack.advantage,
            "detection": [
                {"false_positive_rate": rate, "true_positive_rate": found} for rate, found in attack.detection
            ],
        },
        "without_amplification": {"epsilon": _finite(statement.unsampled), "kind": "upper"},
        "groups": [
            {
                "group_size": size,
                "epsilon": _finite(epsilon),
                "finite": None if epsilon is None else math.isfinite(epsilon),
                "kind": "upper",
            }
            for size, epsilon in statement.groups
        ],
        "steps": evaluation.steps,
        "phases": [_phase(phase) for phase in evaluation.phases],
        "covered": list(COVERED),
        "not_covered": list(NOT_COVERED),
        "assumptions": list(evaluation.assumptions),
        "diagnostics": [_finding(diagnostic) for diagnostic in findings(loaded.diagnostics)],
        "config_hash": loaded.config_hash,
    }
    return _document("statement", fields)


def comparison_json(rows: Sequence[Row], loaded: Loaded) -> str:
    """The output of `compare --json`."""
    plan = loaded.plan
    fields = {
        "config": {"path": loaded.path, "name": plan.name},
        "unit": plan.unit_name,
        "adjacency": str(plan.adjacency),
        "delta": plan.delta,
        "steps": plan.steps,
        "rows": [_row(row) for row in rows],
        "diagnostics": [_finding(diagnostic) for diagnostic in findings(loaded.diagnostics)],
        "config_hash": loaded.config_hash,
    }
    return _document("compare", fields)


def solution_json(command: str, solution: Solution, loaded: Loaded, *, written: Sequence[str]) -> str:
    """The output of a solver with `--json`.

    Args:
        command: the solver's name.
        solution: what was found, its value as `usable` made it.
        loaded: the config that was asked about.
        written: what `--write` changed.
    """
    found = {
        "name": solution.name,
        "value": _number(solution.value),
        "epsilon": solution.epsilon,
        "target": solution.target,
        "fails_at": None if solution.fails_at is None else _number(solution.fails_at),
        "key": solution.key,
    }
    outcome = {"solution": found, "best": None, "guarantee": _guarantee(solution.guarantee)}
    return _document(command, _solved(outcome, solution.plan, loaded, written))


def no_solution_json(command: str, answer: NoSolution, loaded: Loaded, *, target: float) -> str:
    """The output of a solver with `--json` where there is no solution; `best` is what comes nearest."""
    best = {
        "name": answer.name,
        "value": _number(answer.best_value),
        "epsilon": _finite(answer.best_epsilon),
        "target": target,
    }
    outcome = {"solution": None, "best": best, "guarantee": None}
    return _document(command, _solved(outcome, None, loaded, ()))


def delta_json(answer: DeltaAnswer, loaded: Loaded) -> str:
    """The output of `delta --json`."""
    plan = loaded.plan
    guarantee = {
        "delta": answer.delta,
        "delta_lower": answer.delta_lower,
        "epsilon": answer.epsilon,
        "kind": "upper",
        "unit": plan.unit_name,
        "adjacency": str(plan.adjacency),
        "group_size": 1,
        "method": answer.method,
        "direction": answer.direction,
    }
    fields = {
        "config": {"path": loaded.path, "name": plan.name},
        "guarantee": guarantee,
        "steps": plan.steps,
        "diagnostics": [_finding(diagnostic) for diagnostic in findings(loaded.diagnostics)],
    }
    return _document("delta", fields)


def gate_json(view: GateView) -> str:
    """The output of `check --json` and `validate --json`."""
    return _document(view.command, {"results": [_file(file) for file in view.files], "verdict": str(view.verdict)})


def _solved(
    outcome: Mapping[str, object], plan: Plan | None, loaded: Loaded, written: Sequence[str]
) -> dict[str, object]:
    """A solver's fields; steps, phases and hash are those of the plan with the solution in it."""
    phases = () if plan is None else plan.phases
    return {
        "config": {"path": loaded.path, "name": loaded.plan.name},
        **outcome,
        "steps": None if plan is None else plan.steps,
        "phases": [
            {
                "name": phase.name,
                "steps": phase.steps,
                "noise_multiplier": phase.mechanism.noise_multiplier,
                "sampling": sampling_text(phase),
            }
            for phase in phases
        ],
        "written": list(written),
        "diagnostics": [_finding(diagnostic) for diagnostic in findings(loaded.diagnostics)],
        "config_hash": None if plan is None else fingerprint(plan),
    }


def _number(value: Value) -> int | float:
    """A number of JSON; the rates that are printed are short decimals, which a float tells apart."""
    return value if isinstance(value, int) else float(value)


def _document(command: str, fields: Mapping[str, object]) -> str:
    """A whole output; the same input gives the same bytes."""
    document = {"schema": SCHEMA, "version": dpcalc.__version__, "command": command, **fields}
    text = json.dumps(document, indent=2, allow_nan=False)
    return _COMMAND.sub(r"\\u0023#", text) + "\n"  # the same text to a parser, and no command to a runner that logs it


def _finite(value: float | None) -> float | None:
    """A number, or None for infinity; NaN is left for `json` to refuse."""
    return None if value is None or math.isinf(value) else value


def _guarantee(guarantee: Guarantee) -> dict[str, object]:
    """The (epsilon, delta) statement."""
    return {
        "epsilon": _finite(guarantee.epsilon),
        "epsilon_lower": _finite(guarantee.epsilon_lower),
        "tight": guarantee.tight,
        "delta": guarantee.delta,
        "kind": str(guarantee.kind),
        "finite": guarantee.finite,
        "unit": guarantee.unit,
        "adjacency": str(guarantee.adjacency),
        "group_size": guarantee.group_size,
        "method": guarantee.method,
        "bound": guarantee.bound,
        "direction": guarantee.direction,
    }


def _row(row: Row) -> dict[str, object]:
    """One line of a comparison; `finite` is null where the row does not apply."""
    return {
        "method": row.method,
        "bound": row.bound,
        "epsilon": _finite(row.epsilon),
        "epsilon_lower": _finite(row.epsilon_lower),
        "finite": None if row.epsilon is None else math.isfinite(row.epsilon),
        "kind": str(row.kind),
        "valid": row.valid,
        "note": row.note,
    }


def _phase(phase: PhaseSummary) -> dict[str, object]:
    """One phase; `inclusion` as the exact fraction."""
    return {
        "name": phase.name,
        "steps": phase.steps,
        "noise_multiplier": phase.noise_multiplier,
        "clip": phase.clip,
        "sampling": phase.sampling,
        "inclusion": str(phase.inclusion),
        "shift": phase.shift,
        "distances": list(phase.distances),
        "distances_swapped": list(phase.distances_swapped),
    }


def _budget(epsilon: float, limit: float | None) -> dict[str, object] | None:
    """A limit and the part of it that is spent: null where that is no number."""
    if limit is None:
        return None
    used = epsilon / limit if limit > 0 else 0.0 if epsilon == 0 else math.inf
    return {"epsilon": limit, "used": _finite(used), "ok": epsilon <= limit}


def _file(file: FileView) -> dict[str, object]:
    """One file of a gate."""
    limit = None if file.limit is None else file.limit.epsilon
    return {
        "path": file.path,
        "verdict": str(file.verdict),
        "guarantee": None if file.guarantee is None else _guarantee(file.guarantee),
        "budget": None if file.guarantee is None else _budget(file.guarantee.epsilon, limit),
        "findings": [_finding(finding) for finding in file.findings],
    }


def _finding(finding: Finding) -> dict[str, object]:
    """One finding."""
    return {
        "code": finding.code,
        "level": str(finding.level),
        "message": finding.message,
        "hint": finding.hint,
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
    }
