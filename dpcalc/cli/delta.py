"""`dpcalc delta`: delta for a given epsilon."""

from dataclasses import replace
from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, output_text, remarks
from dpcalc.cli.sources import loaded_plan

EXAMPLE = "Example: dpcalc delta clinic.yaml --epsilon 1"
ASSUMED_DELTA = "privacy.delta=0.5"  # any value in (0, 1): the config need not state what is computed


def delta(
    context: typer.Context,
    *,
    epsilon: Annotated[str, typer.Option("--epsilon", metavar="E", help="The epsilon of the guarantee.")],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> CommandResult:
    """Compute delta for a given epsilon.

    The delta is a certified upper bound for every data set.
    """
    epsilon_value = options.number("--epsilon", epsilon)
    loaded = loaded_plan(context, assumed=[ASSUMED_DELTA])

    from dpcalc.planner.evaluate import delta_of
    from dpcalc.report.solution import delta_output

    # The config's own delta is not used: no warning about its size.
    loaded = replace(loaded, diagnostics=tuple(finding for finding in loaded.diagnostics if finding.code != "DPC203"))
    answer = delta_of(loaded.plan, epsilon=epsilon_value or 0.0)
    asides = remarks(loaded.diagnostics, answer.notes, quiet=quiet)
    return CommandResult(text=output_text(delta_output(answer, loaded), as_json=as_json, quiet=quiet), asides=asides)
