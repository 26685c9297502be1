"""`dpcalc curve`, `sweep`, `audit`, `audit-sampler`, `simulate`: charts, grids, and tests of what a run did."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import (
    CommandResult,
    check_picture,
    has_styles,
    on_terminal,
    output_text,
    remarks,
    width,
    write_picture,
)
from dpcalc.cli.progress import announce, report_progress
from dpcalc.cli.sources import config_reader, for_each, loaded_plan, matching_paths, named_config, set_config
from dpcalc.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcalc.audit.scores import ScoreAudit
    from dpcalc.charts.chart import Chart
    from dpcalc.config.load import Loaded
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
    """Return the methods of curves whose name begins with a text, for shell completion."""
    from dpcalc.charts.curves import METHODS

    return options.one_of(METHODS)(incomplete)


def curve(
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
    from dpcalc.charts.chart import chart_csv, chart_output
    from dpcalc.charts.curves import CURVES, CurveRequest
    from dpcalc.charts.plot import chart_picture
    from dpcalc.report.guarantees import config_names
    from dpcalc.sweep.numbers import parse_numbers

    text_format = _text_format(as_csv=as_csv, as_json=as_json)
    if plot:
        check_picture(plot)
    grid = tuple(sorted({float(text) for text in parse_numbers(over, option="--range")})) if over else ()
    # A batch size that no bound covers is accepted where the curve goes over other sizes.
    loaded = _configs_to_draw(context, configs or (), allow_any_size=kind == "rate")
    plans = tuple(zip(config_names(loaded), (config.plan for config in loaded), strict=True))
    lines = tuple(dict.fromkeys(methods or ()))
    announce("curve")
    chart = CURVES[kind](CurveRequest(plans=plans, methods=lines, grid=grid, on_progress=report_progress))
    notes = [write_picture(plot, lambda ending: chart_picture(chart, ending))] if plot else []
    asides = (*remarks([item for config in loaded for item in config.diagnostics]), *notes)
    if text_format == "json":
        text = chart_output(kind, chart, loaded).json_text()
    else:
        text = chart_csv(chart) if text_format == "csv" else _chart_and_lines(chart)
    return CommandResult(text=text, asides=asides, changed=(plot,) if plot else ())


def _text_format(*, as_csv: bool, as_json: bool) -> str:
    """Return "csv", "json" or, without either option, "text"; InputError for both."""
    if as_csv and as_json:
        raise InputError("--csv: expected CSV or JSON, got both; leave out --csv or --json")
    return "csv" if as_csv else "json" if as_json else "text"


def _configs_to_draw(context: typer.Context, configs: Sequence[str], *, allow_any_size: bool) -> list[Loaded]:
    """Return the configs that the words match, or else the default one; ExceptionGroup if any is unusable."""
    reader = config_reader(context)
    paths = [path for word in configs for path in matching_paths(word)]
    loaded, errors = for_each(paths, reader.open if allow_any_size else reader.load)
    if errors:  # one picture is one answer: it is drawn with every config or not at all
        raise ExceptionGroup("configs that cannot be used", errors)
    return loaded or [loaded_plan(context, allow_any_size=allow_any_size)]


def _chart_and_lines(chart: Chart) -> str:
    """Return the table of a chart, below a drawing of the chart if the output is a terminal."""
    from dpcalc.charts.chart import chart_lines
    from dpcalc.charts.plot import MARKS, chart_text

    if not on_terminal():
        return chart_lines(chart)
    return f"{chart_text(chart, width=width())}\n{chart_lines(chart, marks=MARKS, width=width())}"


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


def sweep(
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

    Values are estimates (`inversion`) or certified bounds (`upper`): bounds within 1% of a budget and where no estimate
    is fast. `dpcalc epsilon --set KEY=VALUE` certifies one point.
    """
    from dpcalc.charts.plot import chart_picture
    from dpcalc.sweep.points import InterruptedSweep, dask, in_process, parse_axis, processes, read_config, subtitle
    from dpcalc.sweep.points import sweep as swept
    from dpcalc.sweep.view import heat_picture, summary, sweep_chart

    text_format = _text_format(as_csv=as_csv, as_json=as_json)
    if scheduler and executor is not Executor.DASK:
        raise InputError("--scheduler: expected --executor dask beside it, got processes")
    axes = tuple(map(parse_axis, over))
    if plot:
        check_picture(plot)
        if len(axes) > 2:
            raise InputError(f"--plot: expected one or two --over, got {len(axes)}; a picture has two axes")
        if len(axes) == 1 and axes[0].numbers is None:
            raise InputError(f"--plot: expected numbers for a line, got {', '.join(axes[0].values)}; leave --plot out")
    workers, memory = options.whole_number("--jobs", jobs, min_value=1), options.memory(memory_limit)
    path, key, overrides = named_config(context)
    if path is None:
        loaded_plan(context, assumed=[f"{axis.key}={axis.values[0]}" for axis in axes])  # are there enough flags?
    base = read_config(path, key=key, overrides=overrides)
    count = math.prod(len(axis.values) for axis in axes)
    pool: Pool = in_process  # where a few points take less time than the start of worker processes
    if executor is Executor.DASK:
        pool = partial(dask, scheduler=scheduler, memory_per_process=memory)
    elif count > FEW:
        pool = partial(processes, jobs=workers, memory_per_process=memory)
    announce("sweep", total=count)
    try:
        outcomes = swept(base, axes, pool, report_progress)
    except InterruptedSweep as interrupted:
        finished = interrupted.outcomes
        left_out = f"; {plot} was not written" if plot else ""
        notes = [f"note: {summary(finished)}"] if finished else []
        notes.append(f"interrupted: {len(finished):,} of {count:,} points are finished{left_out}")
        text = _sweep_text(base, axes, finished, text_format, is_complete=False) if finished else ""
        return CommandResult(text=text, code=INTERRUPTED, asides=tuple(notes))
    text = _sweep_text(base, axes, outcomes, text_format, is_complete=True)
    notes = [f"note: {summary(outcomes)}"]
    if plot:
        facts = subtitle(base, axes, outcomes)

        def picture(ending: str) -> bytes:
            if len(axes) == 1:
                return chart_picture(sweep_chart(axes[0], outcomes, subtitle=facts), ending)
            return heat_picture((axes[0], axes[1]), outcomes, ending, subtitle=facts)

        notes.append(write_picture(plot, picture))
    # The worst point decides, as the worst file does in a gate.
    code = max(outcome.code for outcome in outcomes)
    return CommandResult(text=text, code=code, asides=tuple(notes), changed=(plot,) if plot else ())


def _sweep_text(
    base: SweptConfig, axes: tuple[GridAxis, ...], outcomes: tuple[Outcome, ...], text_format: str, *, is_complete: bool
) -> str:
    """Return a sweep as "json", "csv" or "text": a table, on a terminal below a drawing unless the sweep is partial.

    A line over one key with numbers, or a map over two keys; below it a hint at `--csv` stands for a long table.
    """
    from dpcalc.charts.plot import chart_text
    from dpcalc.sweep.points import subtitle
    from dpcalc.sweep.view import heat_text, sweep_chart, sweep_csv, sweep_lines, sweep_output

    if text_format == "json":
        return sweep_output(axes, outcomes, path=base.name, is_complete=is_complete).json_text()
    if text_format == "csv":
        return sweep_csv(axes, outcomes)
    if not is_complete or not on_terminal():
        return sweep_lines(axes, outcomes)
    drawing = ""
    if len(axes) == 1 and axes[0].numbers is not None:
        facts = subtitle(base, axes, outcomes)
        drawing = chart_text(sweep_chart(axes[0], outcomes, subtitle=facts), width=width()) + "\n"
    elif len(axes) == 2:
        facts = subtitle(base, axes, outcomes)
        shown = (axes[0], axes[1])
        drawing = heat_text(shown, outcomes, width=width(), styled=has_styles(), subtitle=facts) + "\n"
    if drawing and len(outcomes) > MAX_ROWS:
        return f"{drawing}--csv prints all {len(outcomes):,} rows\n"
    return drawing + sweep_lines(axes, outcomes, width=width())


# `dpcalc audit`, `audit-sampler`, `simulate`: scores, logged batches and random draws beside what the config says.

AUDIT_EXAMPLE = "Example: dpcalc audit mnist.yaml scores.csv --guesses 250 --plot roc.svg"
AUDIT_SAMPLER_EXAMPLE = "Example: dpcalc audit-sampler mnist.yaml batches.jsonl"
CONTRADICTED = 1
STDIN = "-"
Config = Annotated[str, typer.Argument(metavar="CONFIG", help="A config file; - is standard input.")]


def audit(
    context: typer.Context,
    config: Config,
    scores: Annotated[
        str,
        typer.Argument(
            metavar="SCORES",
            help="CSV with columns member (1 in, 0 out) and score, and run if there are many; - is standard input.",
        ),
    ],
    *,
    guesses: Annotated[
        list[str] | None,
        typer.Option(
            "--guesses",
            metavar="N",
            help="One run: guess the N/2 highest in and the N/2 lowest out, or IN:OUT of them. May be repeated.",
            show_default="a quarter of the canaries",
        ),
    ] = None,
    thresholds: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="T",
            help="Many runs: smallest score of an alarm. May be repeated.",
            show_default="chosen by a random half of the runs, which is then left out",
        ),
    ] = None,
    false_alarm: Annotated[
        str, typer.Option(metavar="P", help="Probability with which an honest run may be contradicted.")
    ] = "0.05",
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Write the ROC curve: *.svg, *.png, *.pdf.")
    ] = None,
    as_json: options.Json = False,
) -> CommandResult:
    """Test membership inference scores of canaries against the config.

    Contradicted are scores that detect more than any attacker could if the run kept to its config. Fix --guesses or
    --threshold before you see the scores. Exit code 1: the scores contradict the config.
    """
    from dpcalc.audit.scores import ScoreRules, audit_scores, read_scores
    from dpcalc.audit.view import score_output
    from dpcalc.planner.search import require_pld_method

    rules = ScoreRules(
        guesses=tuple(dict.fromkeys(map(_guess_counts, guesses or ()))),
        thresholds=tuple(dict.fromkeys(options.any_number("--threshold", text) for text in thresholds or ())),
        false_alarm=options.probability("--false-alarm", false_alarm) or 0.0,
    )
    if plot:
        check_picture(plot)
    loaded = _config_beside(context, config, scores, "SCORES")
    result = audit_scores(require_pld_method(loaded.plan), read_scores(scores), rules)
    notes = (_write_roc_curve(plot, result, loaded),) if plot else ()
    return CommandResult(
        text=output_text(score_output(result, loaded, scores), as_json=as_json),
        code=0 if result.agrees else CONTRADICTED,
        asides=(*remarks(loaded.diagnostics, result.notes), *notes),
        changed=(plot,) if plot else (),
    )


def _write_roc_curve(plot: str, result: ScoreAudit, loaded: Loaded) -> str:
    """Write the picture of the ROC curve and return a note; InputError if all canaries are in, or all out."""
    from dpcalc.audit.view import score_chart
    from dpcalc.charts.plot import chart_picture

    if not result.roc:
        raise InputError("--plot: expected canaries that are in and canaries that are out, got one kind alone")
    return write_picture(plot, lambda ending: chart_picture(score_chart(result, loaded), ending))


def _config_beside(context: typer.Context, config: str, file: str, what: str) -> Loaded:
    """Return the loaded config, after setting it in the context; InputError if both files are standard input."""
    if config == file == STDIN:
        raise InputError(f"{what}: expected a file beside a config from standard input, got - for both")
    set_config(context, [config])
    return loaded_plan(context)


def _guess_counts(text: str) -> tuple[int, int]:
    """Return (guessed in, guessed out) of "IN:OUT", or halves of "N"; InputError for other texts and for 0 guesses."""
    match = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", text)
    pair = (0, 0)
    if match:
        high = int(match[1])
        pair = (high - high // 2, high // 2) if match[2] is None else (high, int(match[2]))
    if not sum(pair):
        raise InputError(f"--guesses: expected a number >= 1 such as 250, or IN:OUT such as 250:0, got {text!r}")
    return pair


def audit_sampler(
    context: typer.Context,
    config: Config,
    log: Annotated[
        str,
        typer.Argument(
            metavar="LOG",
            help="JSONL, an array of indices for each step, or CSV with columns step and index; - is standard input.",
        ),
    ],
    *,
    as_json: options.Json = False,
) -> CommandResult:
    """Check the batches of a training loop against the declared sampling.

    Indices count from 0; with nested levels an entry is a path, [task, example]. An honest log is contradicted with
    probability 1e-6 at most. Exit code 1: the log contradicts the config; the answer says what the loader does instead.
    """
    from dpcalc.audit.audit import audit_log
    from dpcalc.audit.view import audit_output

    loaded = _config_beside(context, config, log, "LOG")
    announce("steps of the log", total=loaded.plan.steps)
    result = audit_log(loaded.plan, log, on_progress=report_progress)
    text = output_text(audit_output(result, loaded, log), as_json=as_json)
    asides = remarks(loaded.diagnostics, result.notes)
    return CommandResult(text=text, code=0 if result.agrees else CONTRADICTED, asides=asides)


SIMULATE_EXAMPLE = "Example: dpcalc simulate clinic.yaml --draws 100000 --seed 7"


def simulate(
    context: typer.Context,
    *,
    seed: Annotated[str, typer.Option(metavar="N", help="Seed of the random numbers.")] = "1",
    draws: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Steps to draw from the sampler of each phase; by default a second of all phases."
        ),
    ] = None,
    as_json: options.Json = False,
) -> CommandResult:
    """Check the computed law of the draws by Monte Carlo simulation.

    Draws batches as configured, from data of the declared sizes. Exit code 1: a computed number is contradicted.
    """
    from dpcalc.audit.simulate import simulate_plan, simulation_output

    number = options.whole_number("--seed", seed, min_value=0) or 0
    steps = options.whole_number("--draws", draws, min_value=1)
    loaded = loaded_plan(context)
    announce("simulation")
    result = simulate_plan(loaded.plan, seed=number, draws=steps, on_progress=report_progress)
    asides = remarks(loaded.diagnostics, result.notes)
    code = 0 if all(check.agrees for check in result.checks) else CONTRADICTED
    return CommandResult(text=output_text(simulation_output(result, loaded), as_json=as_json), code=code, asides=asides)
