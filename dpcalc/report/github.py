"""Findings as workflow commands of GitHub Actions: annotations on the lines of a pull request.

Source: docs.github.com, "Workflow commands for GitHub Actions": `::error file=...,line=...,col=...,title=...::text`,
percent, carriage return and line feed escaped everywhere, colon and comma in properties too.
"""

from collections.abc import Iterator

from dpcalc.config.source import Diagnostic, Severity, visible
from dpcalc.report.formats import ReportFormat
from dpcalc.report.gate import FileView, GateView
from dpcalc.report.rules import RULES
from dpcalc.report.text import gate_lines, is_log

MAX_ANNOTATIONS = 10
"""Largest number of annotations of one level that GitHub shows for a step."""
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def github_commands(view: GateView) -> str:
    """Return the first ten annotations of each level, then the result as text for the log."""
    return "".join(f"{line}\n" for line in _annotations(view)) + gate_lines(view)


def _annotations(view: GateView) -> Iterator[str]:
    """Yield the commands of the visible findings, errors first; beyond ten of a level, the tenth counts the others."""
    for level, command in _COMMANDS.items():
        if level not in view.levels:
            continue
        pairs = [(file, finding) for file in view.files for finding in file.findings if finding.severity is level]
        shown = pairs if len(pairs) <= MAX_ANNOTATIONS else pairs[: MAX_ANNOTATIONS - 1]
        yield from (_annotation(command, file, finding) for file, finding in shown)
        if len(pairs) > len(shown):
            yield f"::{command}::{len(pairs) - len(shown)} more, see the log or the summary of this step"


def _annotation(command: str, file: FileView, finding: Diagnostic) -> str:
    """Return the workflow command of one finding; without a place if its file is standard input."""
    rule = RULES.get(finding.code)
    properties = {"title": f"{finding.code} {rule.title}" if rule else finding.code}
    location, line, column = file.place(finding)
    if location:
        properties = {"file": visible(location), "line": str(line), "col": str(column), **properties}
    values = ",".join(f"{name}={_escaped_property(value)}" for name, value in properties.items())
    hint = f"\n{finding.hint}" if finding.hint else ""
    return f"::{command} {values}::{_escaped_data(finding.message + hint)}"


def _escaped_data(text: str) -> str:
    """Return the text after `::` with escapes for percent signs and line breaks."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    """Return the value of a property with escapes for colons and commas too."""
    return _escaped_data(text).replace(":", "%3A").replace(",", "%2C")


GITHUB = ReportFormat(text=github_commands, is_report=is_log)
