"""`dpcalc compare`: all accountants and bounds in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, has_styles, on_terminal, remarks, width
from dpcalc.cli.sources import add_path_to_errors, loaded_plans

if TYPE_CHECKING:
    from dpcalc.report.comparison import ComparisonView

EXAMPLE = "Example: dpcalc compare clinic.yaml --json"


def compare(
    context: typer.Context, configs: options.SeveralConfigs = None, *, as_json: options.Json = False
) -> CommandResult:
    """Show every accountant and bound side by side.

    Each row states its claim, and why it does not apply or is not valid here.
    """
    from dpcalc.planner.compare import compare as rows_of
    from dpcalc.report.comparison import comparison_view
    from dpcalc.report.json import comparison_json, comparisons_json
    from dpcalc.report.plain import comparison_lines, fact_blocks
    from dpcalc.report.several import comparisons_facts, comparisons_view

    files = loaded_plans(context, configs)
    asides = remarks([diagnostic for loaded in files for diagnostic in loaded.diagnostics])
    if len(files) > 1:
        comparisons = []
        for loaded in files:
            with add_path_to_errors(loaded, among=files):
                comparisons.append((rows_of(loaded.plan), loaded))
        if as_json:
            return CommandResult(text=comparisons_json(comparisons), asides=asides)
        if not on_terminal():
            return CommandResult(text=fact_blocks(comparisons_facts(comparisons)), asides=asides)
        return CommandResult(text=_table(comparisons_view(comparisons)), asides=asides)
    (loaded,) = files
    rows = rows_of(loaded.plan)
    if as_json:
        return CommandResult(text=comparison_json(rows, loaded), asides=asides)
    view = comparison_view(rows, loaded.plan)
    if not on_terminal():
        return CommandResult(text=comparison_lines(view), asides=asides)

    return CommandResult(text=_table(view), asides=asides)


def _table(view: ComparisonView) -> str:
    """Return a comparison as a table for a terminal."""
    from dpcalc.report.table import comparison_text

    return comparison_text(view, width=width(), styled=has_styles())
