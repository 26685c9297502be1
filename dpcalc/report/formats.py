"""The formats of `--report` and of `statement --format`. To add one: a function, and a line here.

The lines are texts, so that the names are known to help and completion before any format is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from dpcalc.records import dataclass

if TYPE_CHECKING:
    from dpcalc.report.gate import GateAnswer
    from dpcalc.report.statement import StatementView

REPORTS: dict[str, str] = {
    "text": "dpcalc.report.gate:TEXT",
    "concise": "dpcalc.report.gate:CONCISE",
    "json": "dpcalc.report.gate:JSON",
    "github": "dpcalc.report.gate:GITHUB",
    "gitlab": "dpcalc.report.gate:GITLAB",
    "junit": "dpcalc.report.gate:JUNIT",
    "sarif": "dpcalc.report.gate:SARIF",
    "markdown": "dpcalc.report.gate:MARKDOWN",
}
"""Formats of `--report` by name: "module:name" of a `ReportFormat`."""
STATEMENTS: dict[str, str] = {
    "text": "dpcalc.report.statement:statement_text",
    "markdown": "dpcalc.report.statement:MARKDOWN",
    "json": "dpcalc.report.statement:statement_json",
    "registry": "dpcalc.report.registry:statement_registry",
    "latex": "dpcalc.report.statement:LATEX",
    "html": "dpcalc.report.statement:HTML",
}
"""Formats of `statement --format` by name: "module:name" of a function of (StatementView, columns of a line)."""


@dataclass(frozen=True, kw_only=True)
class ReportFormat:
    """A format of `--report`; a new report may replace an earlier one, and no other file."""

    text: Callable[[GateAnswer], str]  # turns the answer of a gate into a report
    start: str = ""  # a pattern at the beginning of an earlier report
    end: str = ""  # or one at its end
    for_people: bool = False  # True if a terminal wraps and colours the report

    def is_report(self, start: str, end: str) -> bool:
        """Return True for an earlier report, by the beginning and the end of a file."""
        return bool((self.start and re.match(self.start, start)) or (self.end and re.search(self.end, end)))


def report_format(name: str) -> ReportFormat:
    format_: ReportFormat = resolve_name(REPORTS[name])
    return format_


def statement_format(name: str) -> Callable[[StatementView, int], str]:
    function: Callable[[StatementView, int], str] = resolve_name(STATEMENTS[name])
    return function
