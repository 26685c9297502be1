"""Formats of `--report` and of `statement` as somebody would add them: this module, and a line in a registry each."""

from dpcalc.report.gate import GateAnswer, ReportFormat
from dpcalc.report.statement import StatementView


def toy_text(gate: GateAnswer) -> str:
    """Return the verdict of each file as NAME=VERDICT between two marks."""
    pairs = (f"{gate.location(result)}={result.verdict}\n" for result in gate.results)
    return "".join(("<toy>\n", *pairs, "</toy>\n"))


TOY = ReportFormat(text=toy_text, start="<toy>\n")


def toy_statement(view: StatementView, width: int) -> str:
    """Return the headings of a statement and an epsilon in full, cut to the columns of a line."""
    lines = [view.title, *view.sections, str(view.result["guarantee"]["epsilon"])]
    return "".join(f"{line[:width]}\n" for line in lines)
