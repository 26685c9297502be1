"""The result of a gate as Markdown: the summary of a CI step, or a comment on a pull request.

Text that comes from a file stands in code blocks, where it makes no link, image or mention.
"""

import re

from dpcalc.config.source import visible
from dpcalc.report.formats import ReportFormat
from dpcalc.report.gate import FileView, GateView
from dpcalc.report.rounding import as_given, rounded_up

MAX_FILES = 50  # largest number of files whose findings are written out: a step summary may hold 1 MiB


def markdown_text(view: GateView) -> str:
    """Return a table of the files, then the findings of the first 50 files that have any."""
    rows = [f"| {_code(file.result.path)} | {' | '.join(_cells(file))} |" for file in view.files]
    parts = [f"**dpcalc {view.command}: {view.verdict}**, {view.summary}", ""]
    if rows:
        parts += ["| config | verdict | epsilon | budget |", "| --- | --- | --- | --- |", *rows, ""]
    blocks = [lines for file in view.files if (lines := _finding_lines(view, file))]
    for lines in blocks[:MAX_FILES]:
        parts += [*_code_block(lines), ""]
    if len(blocks) > MAX_FILES:
        parts += [f"and {len(blocks) - MAX_FILES} more files with findings", ""]
    return "\n".join(parts)


def _cells(file: FileView) -> tuple[str, str, str]:
    """Return (verdict, epsilon rounded up, limit) of a file; "" for what is not known."""
    guarantee, limit = file.result.guarantee, file.result.limit
    if guarantee is None:
        return str(file.result.verdict), "", ""
    if limit is None:
        return str(file.result.verdict), rounded_up(guarantee.epsilon), ""
    return str(file.result.verdict), rounded_up(guarantee.epsilon, apart_from=limit.value), as_given(limit.value)


def _finding_lines(view: GateView, file: FileView) -> list[str]:
    """Return verdict, changes and visible findings of a file; [] if it has neither changes nor findings."""
    texts = [finding.format() for finding in view.visible_findings(file)]
    return [file.summary, *file.details, *texts] if texts or file.details else []


def _code_block(lines: list[str]) -> list[str]:
    """Return the lines in a fence longer than any run of backticks in them."""
    text = "\n".join(lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return [f"{fence}text", text, fence]


def _code(text: str) -> str:
    """Return text as inline code in a table cell: `visible`, | escaped, a longer fence around backticks."""
    shown = visible(text).replace("|", "\\|")
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    edge = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{edge}{shown}{edge}{ticks}"


def _is_report(text: str, _: object) -> bool:
    """Return whether a file begins with the verdict of a command in bold."""
    return re.match(r"\*\*dpcalc \w+: ", text) is not None


MARKDOWN = ReportFormat(text=markdown_text, is_report=_is_report)
