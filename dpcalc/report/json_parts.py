"""Fields that JSON outputs share: numbers unrounded, infinity as null beside `"finite": false`, NaN never."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dpcalc._version import __version__
from dpcalc.config.source import ConfigError, Diagnostic
from dpcalc.errors import no_verdict_reason
from dpcalc.guarantee import Row

if TYPE_CHECKING:
    from dpcalc.config.load import Loaded
    from dpcalc.planner.pate import DataDependentResult
    from dpcalc.planner.words import PhaseSummary

SCHEMA = "dpcalc.result/1"
_RUNNER_COMMAND = re.compile(r"##(?=\w*\[)")  # a line `##vso[...]` of a log that a CI runner would execute


def document(command: str, fields: Mapping[str, object]) -> str:
    """Return a whole JSON output with its schema, the version of dpcalc and the command; deterministic.

    Args:
        command: name of the command that prints it.
        fields: the result; no NaN and no infinity in it.
    """
    output = {"schema": SCHEMA, "version": __version__, "command": command, **fields}
    text = json.dumps(output, indent=2, allow_nan=False)
    return _RUNNER_COMMAND.sub(r"\\u0023#", text) + "\n"  # parsers read the escape as the same text


def finite(value: float | None) -> float | None:
    """Return a number, or None for infinity and for None; NaN stays, and `document` refuses it."""
    return None if value is None or math.isinf(value) else value


def config_fields(loaded: Loaded) -> dict[str, object]:
    """Return path and name of a config."""
    return {"path": loaded.path, "name": loaded.plan.name}


def row_fields(row: Row) -> dict[str, object]:
    """Return one row of a comparison; `finite` is None where the method does not apply."""
    return {
        "method": row.method,
        "bound": row.bound,
        "epsilon": finite(row.epsilon),
        "epsilon_lower": finite(row.epsilon_lower),
        "finite": None if row.epsilon is None else math.isfinite(row.epsilon),
        "kind": str(row.kind),
        "valid": row.valid,
        "note": row.note,
    }


def phase_fields(phase: PhaseSummary) -> dict[str, object]:
    """Return one phase; inclusion probability and rates of public draws as exact fractions ("1/150")."""
    return {
        "name": phase.name,
        "steps": phase.steps,
        "mechanism": phase.mechanism,
        "noise_multiplier": phase.noise_multiplier,
        "clip": phase.clip,
        "sampling": phase.sampling,
        "inclusion": str(phase.inclusion),
        "shift": phase.shift,
        "distances": list(phase.distances),
        "distances_swapped": list(phase.distances_swapped),
        "hold": phase.hold,
        "revealed": [{"rate": str(rate), "steps": steps} for rate, steps in phase.revealed],
        "steps_of_a_pass": phase.steps_of_a_pass,
        **({"also": list(phase.also), "joint_noise_multiplier": phase.joint_noise_multiplier} if phase.also else {}),
    }


def votes_fields(answer: DataDependentResult) -> dict[str, object]:
    """Return the data-dependent cost of PATE votes, marked as private itself."""
    return {"private": True, "order": answer.order, "guarantee": answer.guarantee.to_dict()}


def budget_fields(epsilon: float, limit: float | None) -> dict[str, object] | None:
    """Return a budget, the spent part of it (1.0 is all, None is infinite) and whether epsilon keeps to it.

    Args:
        epsilon: upper bound, >= 0.
        limit: the budget, >= 0; None returns None.
    """
    if limit is None:
        return None
    used = epsilon / limit if limit > 0 else 0.0 if epsilon == 0 else math.inf
    return {"epsilon": limit, "used": finite(used), "ok": epsilon <= limit}


def diagnostic_fields(diagnostics: Iterable[Diagnostic]) -> list[dict[str, object]]:
    """Return findings with their places, in their order; line and column from 1, or None."""
    return [
        {
            "code": finding.code,
            "level": str(finding.severity),
            "message": finding.message,
            "hint": finding.hint,
            "path": finding.path,
            "line": finding.line,
            "column": finding.column,
        }
        for finding in diagnostics
    ]


# Errors


def error_json(command: str, error: Exception, *, message: str, exit_code: int) -> str:
    """Return the JSON output of a command that an error has ended.

    Args:
        command: name of the command, "" if none was given.
        error: the exception.
        message: the text on standard error.
        exit_code: 2 if the input must be fixed, 3 if there is no verdict.

    Returns:
        A document whose `error` holds the exit code, the rule, the message and, for a config
        that cannot be used, the findings with line and column.
    """
    located = error.diagnostics if isinstance(error, ConfigError) else ()
    code = no_verdict_reason(error)[0] if exit_code == 3 else located[0].code if located else "DPC104"
    fields = {
        "exit_code": exit_code,
        "code": code,
        "message": message.removeprefix("error: "),
        "findings": diagnostic_fields(located),
    }
    return document(command, {"error": fields})
