"""`dpcalc simulate`: Monte Carlo simulation of the sampler and of the privacy loss."""

from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, output_text, remarks
from dpcalc.cli.progress import report_progress
from dpcalc.cli.sources import loaded_plan

EXAMPLE = "Example: dpcalc simulate clinic.yaml --draws 100000 --seed 7"
CONTRADICTED = 1


def simulate(
    context: typer.Context,
    *,
    seed: Annotated[str, typer.Option(metavar="N", help="Seed of the random numbers.")] = "1",
    draws: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Steps to draw from the sampler of each phase; by default one or two seconds of them."
        ),
    ] = None,
    runs: Annotated[
        str | None,
        typer.Option(metavar="N", help="Runs whose privacy loss is drawn; by default one or two seconds of them."),
    ] = None,
    as_json: options.Json = False,
) -> CommandResult:
    """Check the computed numbers by Monte Carlo simulation.

    Draws batches as configured, from data of the declared sizes, and privacy losses of the claimed dominating
    pairs. Exit code 1: a computed number is contradicted.
    """
    from dpcalc.simulation.checks import Effort
    from dpcalc.simulation.simulate import simulate_plan, simulation_output

    effort = Effort(
        seed=options.whole_number("--seed", seed, min_value=0) or 0,
        draws=options.whole_number("--draws", draws, min_value=1),
        runs=options.whole_number("--runs", runs, min_value=1),
    )
    loaded = loaded_plan(context)
    result = simulate_plan(loaded.plan, effort, on_progress=report_progress)
    asides = remarks(loaded.diagnostics, result.notes)
    code = 0 if result.agrees else CONTRADICTED
    return CommandResult(text=output_text(simulation_output(result, loaded), as_json=as_json), code=code, asides=asides)
