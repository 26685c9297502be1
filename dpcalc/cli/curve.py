"""`dpcalc curve`: epsilon, delta or attack success as a chart over another quantity."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, on_terminal, remarks, width
from dpcalc.cli.progress import report_progress
from dpcalc.cli.sources import config_reader, loaded_plan, matching_paths
from dpcalc.errors import InputError

CURVE_EXAMPLE = "Example: dpcalc curve epochs clinic.yaml --method pld --method moments --plot epsilon.svg"


class Curve(StrEnum):
    """Quantities that can be drawn.

    Attributes:
        STEPS: epsilon over the number of steps.
        EPOCHS: epsilon over passes over the data.
        SIGMA: epsilon over the noise multiplier.
        RATE: epsilon over the sampling rate or batch size.
        GROUP: epsilon over the number of units protected together.
        PROFILE: delta over epsilon.
        TRADEOFF: true positive rate of the best attacker over the false positive rate.
        RDP: Renyi divergence over its order.
    """

    STEPS = "steps"
    EPOCHS = "epochs"
    SIGMA = "sigma"
    RATE = "rate"
    GROUP = "group"
    PROFILE = "profile"
    TRADEOFF = "tradeoff"
    RDP = "rdp"


def _methods(incomplete: str) -> list[str]:
    """Return the completions for the shell of `--method`."""
    from dpcalc.charts.series import METHODS

    return options.one_of(METHODS)(incomplete)


def curve(  # noqa: PLR0913  one parameter an option
    context: typer.Context,
    kind: Annotated[Curve, typer.Argument(metavar="KIND", help=f"What to draw: {', '.join(Curve)}.")],
    configs: Annotated[
        list[str] | None, typer.Argument(metavar="CONFIG", help="Configs, lines for each; - is standard input.")
    ] = None,
    *,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="An accountant (as of `epsilon`), lower, inversion, gdp, strong-composition, theorem-3, flat-poisson, "
            "group-mixture, group-as-one or general-rdp; a line for each.",
            show_default="the config's",
            autocompletion=_methods,
        ),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(
            "--range",
            metavar="A:B:N",
            help="Points of the x axis: N numbers from A to B, A:B:N:log by equal factors, or A,B,C.",
            show_default="around the config",
        ),
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Write a picture too: *.svg, *.png, *.pdf.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, every number in full.")] = False,
    as_json: options.Json = False,
) -> CommandResult:
    """Draw epsilon, delta or attack success as a curve.

    Prints a chart and a table on a terminal, otherwise the table. Lines are upper bounds unless labelled otherwise.
    """
    from dpcalc.charts.series import curve_chart
    from dpcalc.charts.shapes import CurveRequest
    from dpcalc.charts.table import chart_csv, chart_lines, chart_output
    from dpcalc.charts.text import chart_text
    from dpcalc.report.guarantees import config_names
    from dpcalc.sweep.points import parse_numbers

    if as_csv and as_json:
        raise InputError("--csv: expected CSV or JSON, got both; leave out --csv or --json")
    if plot:
        from dpcalc.cli.output import check_picture

        check_picture(plot)
    grid = tuple(sorted({float(text) for text in parse_numbers(over, option="--range")})) if over else ()
    varies_size, reader = kind == "rate", config_reader(context)
    read = reader.open if varies_size else reader.load
    paths = [path for word in configs or () for path in matching_paths(word)]
    loaded = tuple(map(read, paths)) if paths else (loaded_plan(context, allow_any_size=varies_size),)
    names = zip(config_names(loaded), (config.plan for config in loaded), strict=True)
    request = CurveRequest(
        plans=tuple(names), methods=tuple(dict.fromkeys(methods or ())), grid=grid, on_progress=report_progress
    )
    chart = curve_chart(kind, request)
    notes = []
    if plot:
        from dpcalc.charts.plot import chart_picture
        from dpcalc.cli.output import write_picture

        notes.append(write_picture(plot, lambda ending: chart_picture(chart, ending)))
    asides = (*remarks([item for config in loaded for item in config.diagnostics]), *notes)
    if as_csv:
        text = chart_csv(chart)
    elif as_json:
        text = chart_output(kind, chart, loaded).json_text()
    else:
        text = f"{chart_text(chart, width=width())}\n{chart_lines(chart)}" if on_terminal() else chart_lines(chart)
    return CommandResult(text=text, asides=asides, changed=(plot,) if plot else ())
