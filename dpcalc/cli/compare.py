"""`dpcalc compare`: all accountants and bounds in one table."""

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, output_text, remarks
from dpcalc.cli.sources import add_path_to_errors, loaded_plans

EXAMPLE = "Example: dpcalc compare clinic.yaml --json"


def compare(
    context: typer.Context, configs: options.SeveralConfigs = None, *, as_json: options.Json = False
) -> CommandResult:
    """Show every accountant and bound side by side.

    Each row states its claim, and why it does not apply or is not valid here.
    """
    from dpcalc.planner.compare import compare as rows_of
    from dpcalc.report.evaluation import comparison_output, comparisons_output

    files = loaded_plans(context, configs)
    comparisons = []
    for loaded in files:
        with add_path_to_errors(loaded, among=files):
            comparisons.append((rows_of(loaded.plan), loaded))
    output = comparisons_output(comparisons) if len(files) > 1 else comparison_output(*comparisons[0])
    asides = remarks([diagnostic for loaded in files for diagnostic in loaded.diagnostics])
    return CommandResult(text=output_text(output, as_json=as_json), asides=asides)
