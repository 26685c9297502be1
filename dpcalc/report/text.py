"""The result of a gate as text for people: with the lines of the file that findings stand in, or a line a finding."""

import re

from dpcalc.config.source import Diagnostic, visible
from dpcalc.report.formats import ReportFormat
from dpcalc.report.gate import GateView

_LAST_LINE = re.compile(r"(?:\A|\n)(?:checked|read|compared) \d+ files?(?:: [^\n]*)?\n?\Z")


def gate_lines(view: GateView) -> str:
    """Return for each file its verdict, changes and visible findings, then a line that counts the verdicts."""
    lines: list[str] = []
    for file in view.files:
        lines += [file.summary, *file.details, *(finding.format() for finding in view.visible_findings(file))]
    return "".join(f"{line}\n" for line in [*lines, view.summary])


def concise_lines(view: GateView) -> str:
    """Return each visible finding as `path:line:column: level[code]: message`, then the counts of verdicts."""
    lines = [_finding_line(finding) for file in view.files for finding in view.visible_findings(file)]
    return "".join(f"{line}\n" for line in [*lines, view.summary])


def _finding_line(finding: Diagnostic) -> str:
    """Return a finding in one line, its hint in parentheses; without line and column if it has none."""
    place = "" if finding.line is None else f":{finding.line}:{finding.column}"
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{visible(finding.path)}{place}: {finding.severity}[{finding.code}]: {finding.message}{hint}"


def is_log(text: str, _: object) -> bool:
    """Return True if the last line counts verdicts, as the formats for people end.

    Args:
        text: of the file.
        _: its content as JSON, ignored.
    """
    return _LAST_LINE.search(text) is not None


TEXT = ReportFormat(text=gate_lines, is_report=is_log, for_people=True)
CONCISE = ReportFormat(text=concise_lines, is_report=is_log, for_people=True)
