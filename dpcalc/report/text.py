"""Views as plain text, for pipes, logs and people without a terminal."""

from dpcalc.report.comparison_view import ComparisonView
from dpcalc.report.gate_view import GateView
from dpcalc.report.view import EvaluationView


def evaluation_lines(view: EvaluationView) -> str:
    """An evaluation as `key: value` lines with the names of the JSON output; facts without a value are left out."""
    return _lines(view.facts)


def comparison_lines(view: ComparisonView) -> str:
    """A comparison as one block of `key: value` lines a row, blocks apart by an empty line."""
    return "\n".join(_lines(tuple(zip(view.columns, row, strict=True))) for row in view.rows)


def _lines(facts: tuple[tuple[str, str], ...]) -> str:
    """Pairs as lines."""
    return "".join(f"{key}: {value}\n" for key, value in facts if value)


def gate_lines(view: GateView) -> str:
    """A run of a gate: for each file its verdict, changes and findings, a last line that counts the verdicts."""
    lines: list[str] = []
    for file in view.files:
        lines += [file.summary, *file.details]
        lines += [finding.text for finding in file.findings if finding.level in view.levels]
    return "".join(f"{line}\n" for line in [*lines, view.summary])
