"""`dpcalc curve` and `sweep`: charts over another quantity, and epsilon over a grid of configs."""

from __future__ import annotations

import math
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, has_styles, on_terminal, remarks, width
from dpcalc.cli.progress import announce, report_progress
from dpcalc.cli.sources import config_reader, loaded_plan, matching_paths, named_config
from dpcalc.errors import InputError

if TYPE_CHECKING:
    from dpcalc.sweep.points import GridAxis, Outcome, Pool, SweptConfig


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
    from dpcalc.charts.chart import chart_csv, chart_lines, chart_output
    from dpcalc.charts.series import curve_chart
    from dpcalc.charts.shapes import CurveRequest
    from dpcalc.charts.text import MARKS, chart_text
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
        text = chart_lines(chart)
        if on_terminal():
            text = f"{chart_text(chart, width=width())}\n{chart_lines(chart, marks=MARKS, width=width())}"
    return CommandResult(text=text, asides=asides, changed=(plot,) if plot else ())


# `dpcalc sweep`: epsilon over a grid of configs.

SWEEP_EXAMPLE = (
    "Example: dpcalc sweep clinic.yaml --over mechanism.noise_multiplier=0.5:4:20 --over training.steps=1e3,1e4"
)
FEW = 40  # points; as many take less time than the start of worker processes
INTERRUPTED = 130  # exit code after Ctrl-C
MAX_ROWS = 50  # of a table below a map


class Executor(StrEnum):
    """Places where a sweep is computed.

    Attributes:
        PROCESSES: processes of this machine.
        DASK: a Dask cluster.
    """

    PROCESSES = "processes"
    DASK = "dask"


def sweep(  # noqa: PLR0913  one parameter an option
    context: typer.Context,
    *,
    over: Annotated[
        list[str],
        typer.Option(
            "--over",
            metavar="KEY=A:B:N",
            help="N values from A to B for a key, A:B:N:log by equal factors, or A,B,C; several make a grid.",
            autocompletion=options.config_keys(ending="="),
        ),
    ],
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="Draw one key as a line, two as a map: *.svg, *.png, *.pdf."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, every number in full.")] = False,
    as_json: options.Json = False,
    jobs: Annotated[
        str | None,
        typer.Option("--jobs", metavar="N", help="Number of processes.", show_default="one for each processor"),
    ] = None,
    executor: Annotated[
        Executor, typer.Option("--executor", metavar="processes|dask", help="Where to compute.")
    ] = Executor.PROCESSES,
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="ADDRESS", help="The cluster, e.g. tcp://host:8786.")
    ] = None,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
) -> CommandResult:
    """Compute epsilon for every config of a grid.

    Values are inversion estimates, labelled so; within 1% of a budget they are certified bounds.
    """
    from dpcalc.sweep.points import InterruptedSweep, parse_axis
    from dpcalc.sweep.points import sweep as swept
    from dpcalc.sweep.view import summary, sweep_csv, sweep_lines, sweep_output

    if as_csv and as_json:
        raise InputError("--csv: expected CSV or JSON, got both; leave out --csv or --json")
    if scheduler and executor is not Executor.DASK:
        raise InputError("--scheduler: expected --executor dask beside it, got processes")
    axes = tuple(map(parse_axis, over))
    if plot:
        _check_plot(plot, axes)
    workers = options.whole_number("--jobs", jobs, min_value=1)
    base = _base(context, axes)
    count = math.prod(len(axis.values) for axis in axes)
    pool = _pool(executor, scheduler, workers, memory=options.memory(memory_limit), points=count)
    announce("sweep", total=count)
    try:
        outcomes, is_complete = swept(base, axes, pool, report_progress), True
    except InterruptedSweep as interrupted:
        outcomes, is_complete = interrupted.outcomes, False
    if not outcomes:
        text = ""
    elif as_csv:
        text = sweep_csv(axes, outcomes)
    elif as_json:
        text = sweep_output(axes, outcomes, path=base.name, is_complete=is_complete).json_text()
    else:
        text = _drawn(base, axes, outcomes) if is_complete else sweep_lines(axes, outcomes)
    notes = [f"note: {summary(outcomes)}"] if outcomes else []
    if not is_complete:
        left_out = f"; {plot} was not written" if plot else ""
        notes.append(f"interrupted: {len(outcomes):,} of {count:,} points are finished{left_out}")
        return CommandResult(text=text, code=INTERRUPTED, asides=tuple(notes))
    if plot:
        notes.append(_picture_remark(plot, base, axes, outcomes))
    code = max(outcome.code for outcome in outcomes)
    return CommandResult(text=text, code=code, asides=tuple(notes), changed=(plot,) if plot else ())


def _check_plot(plot: str, axes: tuple[GridAxis, ...]) -> None:
    """Raise InputError for over two axes, a single one of words, or a picture that cannot be written."""
    from dpcalc.cli.output import check_picture

    check_picture(plot)
    if len(axes) > 2:
        raise InputError(f"--plot: expected one or two --over, got {len(axes)}; a picture has two axes")
    if len(axes) == 1 and axes[0].numbers is None:
        raise InputError(f"--plot: expected numbers for a line, got {', '.join(axes[0].values)}; leave --plot out")


def _base(context: typer.Context, axes: tuple[GridAxis, ...]) -> SweptConfig:
    """Return the config of the sweep, which need not state the swept keys; raise InputError if there is none."""
    from dpcalc.sweep.points import read_config

    path, key, overrides = named_config(context)
    if path is None:
        loaded_plan(context, assumed=[f"{axis.key}={axis.values[0]}" for axis in axes])  # are there enough flags?
    return read_config(path, key=key, overrides=overrides)


def _pool(executor: Executor, scheduler: str | None, jobs: int | None, *, memory: int, points: int) -> Pool:
    """Return the function that computes the points: on Dask, in this process if few, else in workers."""
    from dpcalc.sweep.points import dask, in_process, processes

    if executor is Executor.DASK:
        return partial(dask, scheduler=scheduler, memory=memory)
    return in_process if points <= FEW else partial(processes, jobs=jobs, memory=memory)


def _picture_remark(plot: str, base: SweptConfig, axes: tuple[GridAxis, ...], outcomes: tuple[Outcome, ...]) -> str:
    """Write the picture, a line over one axis or a map of two, over an old one; return the remark on it."""
    from dpcalc.charts.plot import chart_picture
    from dpcalc.cli.output import write_picture
    from dpcalc.sweep.points import subtitle
    from dpcalc.sweep.view import heat_picture, sweep_chart

    facts = subtitle(base, axes, outcomes)
    if len(axes) == 1:
        return write_picture(plot, lambda ending: chart_picture(sweep_chart(axes[0], outcomes, subtitle=facts), ending))
    return write_picture(plot, lambda ending: heat_picture((axes[0], axes[1]), outcomes, ending, subtitle=facts))


def _drawn(base: SweptConfig, axes: tuple[GridAxis, ...], outcomes: tuple[Outcome, ...]) -> str:
    """Return a map or a chart for a terminal, with the table if it is short; otherwise the table alone."""
    from dpcalc.charts.text import chart_text
    from dpcalc.sweep.points import subtitle
    from dpcalc.sweep.view import heat_text, sweep_chart, sweep_lines

    table = sweep_lines(axes, outcomes, width=width() if on_terminal() else 0)
    if not on_terminal() or len(axes) > 2 or (len(axes) == 1 and axes[0].numbers is None):
        return table
    facts = subtitle(base, axes, outcomes)
    if len(axes) == 1:
        drawn = chart_text(sweep_chart(axes[0], outcomes, subtitle=facts), width=width())
    else:
        drawn = heat_text((axes[0], axes[1]), outcomes, width=width(), styled=has_styles(), subtitle=facts)
    return f"{drawn}\n{table}" if len(outcomes) <= MAX_ROWS else f"{drawn}\n--csv prints all {len(outcomes):,} rows\n"
