"""`dpcalc compare`: every accountant and bound side by side."""
# ruff: noqa: PLC0415  heavy imports wait until a command needs them

import typer

from dpcalc.cli import options
from dpcalc.cli.answer import Answer
from dpcalc.cli.remarks import remarks
from dpcalc.cli.sources import loaded_plan
from dpcalc.cli.terminal import on_terminal, styled, width

EXAMPLE = "Example: dpcalc compare clinic.yaml --json"


def compare(context: typer.Context, *, as_json: options.Json = False) -> Answer:
    """Show every accountant and bound side by side.

    Each with what it claims, and why it does not apply or is not valid here.
    """
    from dpcalc.planner.compare import compare as rows_of
    from dpcalc.report.comparison_view import comparison_view
    from dpcalc.report.json import comparison_json
    from dpcalc.report.text import comparison_lines

    loaded = loaded_plan(context)
    rows = rows_of(loaded.plan)
    asides = remarks(loaded.diagnostics)
    if as_json:
        return Answer(text=comparison_json(rows, loaded), asides=asides)
    view = comparison_view(rows, loaded.plan)
    if not on_terminal():
        return Answer(text=comparison_lines(view), asides=asides)

    from dpcalc.report.table import comparison_text

    return Answer(text=comparison_text(view, width=width(), styled=styled()), asides=asides)
