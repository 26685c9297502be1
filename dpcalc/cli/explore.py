"""`dpcalc curve`, `sweep`, `audit`, `audit-sampler`, `simulate`: charts, grids, and tests of what a run did."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpcalc.cli import options
from dpcalc.cli.options import (
    Request,
    announce,
    finite,
    for_each,
    given,
    matching_paths,
    one_of,
    probability,
    report_progress,
    whole,
)
from dpcalc.cli.output import (
    INTERRUPTED,
    CommandResult,
    answer,
    check_picture,
    has_styles,
    on_terminal,
    output_text,
    remarks,
    width,
    write_picture,
)
from dpcalc.config.discovery import map_of
from dpcalc.config.files import config_source
from dpcalc.config.load import Loaded
from dpcalc.errors import InputError
from dpcalc.report.guarantees import config_names

if TYPE_CHECKING:
    from dpcalc.sweep import Pool


TABLE = ("", "table")  # forms in which a drawing stands above the table


Curve = Literal["steps", "epochs", "sigma", "rate", "group", "profile", "tradeoff", "rdp"]  # as charts.curves has them


def _methods(incomplete: str) -> list[str]:
    from dpcalc.charts import METHODS

    return one_of(METHODS)(incomplete)


def curve(
    request: Request,
    kind: Annotated[Curve, typer.Argument(metavar="KIND", help="What to draw.")],
    configs: Annotated[
        list[str] | None, typer.Argument(metavar="CONFIG", help="Configs, lines for each; - is standard input.")
    ] = None,
    *,
    methods: Annotated[
        list[str] | None,
        given(
            "NAME",
            "An accountant (as of `epsilon`), lower, inversion, gdp, strong-composition, theorem-3, flat-poisson, "
            "group-mixture, group-as-one or general-rdp; a line for each.",
            None,
            "--method",
            show_default="the config's",
            autocompletion=_methods,
        ),
    ] = None,
    over: Annotated[
        str | None,
        given(
            "A:B:N",
            "Points of the x axis: N numbers from A to B, by equal factors with :log after it, or A,B,C.",
            None,
            "--range",
            show_default="around the config",
        ),
    ] = None,
    plot: options.Plot = None,
    title: Annotated[str, given("TEXT", "A title above the chart's own.", None, "--title", show_default=False)] = "",
) -> CommandResult:
    """Draw epsilon, delta or attack success as a curve.

    Prints a chart in characters and a table on a terminal, otherwise the table. Lines are upper bounds unless labelled
    otherwise. Only the picture of `--plot` needs matplotlib: `pip install matplotlib`.

    Example: dpcalc curve epochs clinic.yaml --method pld --method moments --plot epsilon.svg
    """
    from dataclasses import replace

    from dpcalc.charts import MARKS, CurveRequest, chart_lines, chart_output, chart_picture, chart_text
    from dpcalc.charts import curve as drawn
    from dpcalc.planner.advice import unused_order
    from dpcalc.planner.composition import composed
    from dpcalc.sweep import parse_numbers

    if plot:
        check_picture(plot)
    grid = tuple(sorted({float(text) for text in parse_numbers(over, option="--range")})) if over else ()
    # A batch size that no bound covers is accepted where the curve goes over other sizes.
    any_size = kind == "rate"
    reader = request.reader()
    paths = [path for word in configs or () for path in matching_paths(word)]
    loaded, errors = for_each(paths, reader.open if any_size else reader.load)
    if errors:  # one picture is one answer: it is drawn with every config or not at all
        raise ExceptionGroup("configs that cannot be used", errors)
    loaded = loaded or [request.load(allow_any_size=any_size)]
    plans = tuple(zip(config_names(loaded), (config.plan for config in loaded), strict=True))
    lines = tuple(dict.fromkeys(methods or ()))
    announce("curve")
    chart = drawn(kind, CurveRequest(plans=plans, methods=lines, grid=grid, on_progress=report_progress))
    if title:
        chart = replace(chart, title=title, subtitle=f"{chart.title}\n{chart.subtitle}")
    notes = [write_picture(plot, lambda ending: chart_picture(chart, ending))] if plot else []
    if request.form not in TABLE:
        text = output_text(chart_output(kind, chart, loaded), form=request.form)
    elif on_terminal():
        text = (
            f"{chart_text(chart, width=width(), styled=has_styles())}\n{chart_lines(chart, marks=MARKS, width=width())}"
        )
    else:
        text = chart_lines(chart)
    runs = [] if any_size else [config.plan for config in loaded if not config.plan.tuning]
    unused = [text for run in runs for text in unused_order(composed(run))]
    asides = (*remarks([item for config in loaded for item in config.diagnostics], unused), *notes)
    return CommandResult(text=text, asides=asides, changed=(plot,) if plot else ())


FEW = 40  # points; as many take less time than the start of worker processes
MAX_ROWS = 50  # of a table below a map


def sweep(
    request: Request,
    *,
    over: Annotated[
        list[str],
        given(
            "KEY=A:B:N",
            "N values from A to B for a key, by equal factors with :log after it, or KEY=A,B,C; several make a grid.",
            None,
            "--over",
            autocompletion=options.config_keys(ending="="),
        ),
    ],
    plot: options.Plot = None,
    jobs: Annotated[
        int | None, given("N", "Number of processes.", whole(1), "--jobs", show_default="one for each processor")
    ] = None,
    executor: Annotated[
        Literal["processes", "dask"], given("processes|dask", "Where to compute.", None, "--executor")
    ] = "processes",
    scheduler: Annotated[
        str | None, given("ADDRESS", "The cluster, e.g. tcp://host:8786.", None, "--scheduler")
    ] = None,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
) -> CommandResult:
    """Compute epsilon for every config of a grid.

    Values are estimates (`inversion`) or certified bounds (`upper`): bounds within 1% of a budget and where no estimate
    is fast. `dpcalc epsilon --set KEY=VALUE` certifies one point. `--plot` draws one key as a line, two as a map.

    Example: dpcalc sweep clinic.yaml --over mechanism.noise_multiplier=0.5:4:20 --over training.steps=1e3,1e4
    """
    from dpcalc.charts import chart_picture, chart_text
    from dpcalc.sweep import (
        SweptConfig,
        dask,
        heat_picture,
        heat_text,
        in_process,
        numbers_of,
        parse_axis,
        processes,
        subtitle,
        summary,
        sweep_chart,
        sweep_lines,
        sweep_output,
    )
    from dpcalc.sweep import sweep as swept

    if scheduler and executor != "dask":
        raise InputError("--scheduler: expected --executor dask beside it, got processes")
    axes = tuple(map(parse_axis, over))
    if plot:
        check_picture(plot)
        if len(axes) > 2:
            raise InputError(f"--plot: expected one or two --over, got {len(axes)}; a picture has two axes")
        if len(axes) == 1 and numbers_of(axes[0]) is None:
            raise InputError(f"--plot: expected numbers for a line, got {', '.join(axes[0][1])}; leave --plot out")
    path = request.path()
    if path is None:
        request.load(assumed=[f"{key}={values[0]}" for key, values in axes])  # are there enough flags?
        base = SweptConfig(text=None, name="", place="", overrides=request.overrides())
    else:
        map_path = map_of(path)
        source = config_source(map_path or path)
        base = SweptConfig(
            text=source.text,
            name=source.path,
            place=map_path or path,
            key=request.key,
            mapped=path if map_path else "",
            overrides=request.overrides(),
        )
    count = math.prod(len(values) for _, values in axes)
    pool: Pool = in_process  # where a few points take less time than the start of worker processes
    memory = options.bytes_of(memory_limit)
    if executor == "dask":
        pool = partial(dask, scheduler=scheduler, memory_per_process=memory)
    elif count > FEW:
        pool = partial(processes, jobs=jobs, memory_per_process=memory)
    announce("sweep", total=count)
    outcomes = swept(base, axes, pool, report_progress)
    is_complete = len(outcomes) == count
    notes = [f"note: {summary(outcomes)}"] if outcomes else []
    if not is_complete:
        left_out = f"; {plot} was not written" if plot else ""
        notes.append(f"interrupted: {len(outcomes):,} of {count:,} points are finished{left_out}")
        if not outcomes:
            return CommandResult(text="", code=INTERRUPTED, asides=tuple(notes))
    facts = subtitle(base, axes, outcomes) if is_complete and (plot or on_terminal()) else ""
    if request.form not in TABLE:
        text = output_text(sweep_output(axes, outcomes, path=base.name, is_complete=is_complete), form=request.form)
    elif not is_complete or not on_terminal():
        text = sweep_lines(axes, outcomes)
    else:  # below a drawing: a line over one key with numbers, a map over two keys
        text = ""
        if len(axes) == 1 and numbers_of(axes[0]) is not None:
            drawn = sweep_chart(axes[0][0], outcomes, subtitle=facts)
            text = chart_text(drawn, width=width(), styled=has_styles()) + "\n"
        elif len(axes) == 2:
            text = heat_text(axes, outcomes, width=width(), styled=has_styles(), subtitle=facts) + "\n"
        is_long = text and len(outcomes) > MAX_ROWS
        text += f"--csv prints all {len(outcomes):,} rows\n" if is_long else sweep_lines(axes, outcomes, width=width())
    if not is_complete:
        return CommandResult(text=text, code=INTERRUPTED, asides=tuple(notes))
    if plot:

        def picture(ending: str) -> bytes:
            if len(axes) == 1:
                return chart_picture(sweep_chart(axes[0][0], outcomes, subtitle=facts), ending)
            return heat_picture(axes, outcomes, ending, subtitle=facts)

        notes.append(write_picture(plot, picture))
    # The worst point decides, as the worst file does in a gate.
    code = max(outcome.code for outcome in outcomes)
    return CommandResult(text=text, code=code, asides=tuple(notes), changed=(plot,) if plot else ())


CONTRADICTED = 1
Config = Annotated[str, typer.Argument(metavar="CONFIG", help="A config file; - is standard input.")]


def _guesses(text: str) -> tuple[int, int]:
    """Return (guessed in, guessed out) of "IN:OUT", or halves of "N"."""
    match = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", text)
    if match and (match[2] is not None or int(match[1])):
        high = int(match[1])
        pair = (high - high // 2, high // 2) if match[2] is None else (high, int(match[2]))
        if sum(pair):
            return pair
    raise typer.BadParameter(f"expected a number >= 1 such as 250, or IN:OUT such as 250:0, got {text!r}")


def audit(
    request: Request,
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
        list[Any] | None,
        given(
            "N",
            "One run: guess the N/2 highest in and the N/2 lowest out, or IN:OUT of them. May be repeated.",
            _guesses,
            "--guesses",
            show_default="a quarter of the canaries",
        ),
    ] = None,
    thresholds: Annotated[
        list[float] | None,
        given(
            "T",
            "Many runs: smallest score of an alarm. May be repeated.",
            finite,
            "--threshold",
            show_default="chosen by a random half of the runs, which is then left out",
        ),
    ] = None,
    false_alarm: Annotated[
        float, given("P", "Probability with which an honest run may be contradicted.", probability)
    ] = 0.05,
    plot: options.Plot = None,
    as_json: options.Json = False,
) -> CommandResult:
    """Test membership inference scores of canaries against the config.

    Contradicted are scores that detect more than any attacker could if the run kept to its config. Fix --guesses or
    --threshold before you see the scores. Exit code 1: the scores contradict the config. `--plot` draws the ROC curve.

    Example: dpcalc audit mnist.yaml scores.csv --guesses 250 --plot roc.svg
    """
    from dpcalc.audit.audit import score_chart, score_output
    from dpcalc.audit.scores import audit_scores, read_scores
    from dpcalc.charts import chart_picture
    from dpcalc.planner.solve import require_pld_method

    if plot:
        check_picture(plot)
    loaded = _config_beside(request, config, scores, "SCORES")
    result = audit_scores(
        require_pld_method(loaded.plan),
        read_scores(scores),
        guesses=tuple(dict.fromkeys(guesses or ())),
        thresholds=tuple(dict.fromkeys(thresholds or ())),
        false_alarm=false_alarm,
    )
    drawn = []
    if plot:
        if not result.roc:
            raise InputError("--plot: expected canaries that are in and canaries that are out, got one kind alone")
        drawn.append(write_picture(plot, lambda ending: chart_picture(score_chart(result, loaded), ending)))
    return answer(
        score_output(result, loaded, scores),
        loaded.diagnostics,
        result.notes,
        form="json" if as_json else "",
        asides=drawn,
        code=0 if result.agrees else CONTRADICTED,
        changed=(plot,) if plot else (),
    )


def _config_beside(request: Request, config: str, file: str, what: str) -> Loaded:
    """Return the loaded config; InputError if both files are standard input."""
    if config == file == "-":
        raise InputError(f"{what}: expected a file beside a config from standard input, got - for both")
    return request.about([config]).load()


def audit_sampler(
    request: Request,
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

    Example: dpcalc audit-sampler mnist.yaml batches.jsonl
    """
    from dpcalc.audit.audit import audit_log, audit_output

    loaded = _config_beside(request, config, log, "LOG")
    announce("steps of the log", total=loaded.plan.steps)
    result = audit_log(loaded.plan, log, on_progress=report_progress)
    output, code = audit_output(result, loaded, log), 0 if result.agrees else CONTRADICTED
    return answer(output, loaded.diagnostics, result.notes, form="json" if as_json else "", code=code)


def simulate(
    request: Request,
    *,
    seed: Annotated[int, given("N", "Seed of the random numbers.", whole(0))] = 1,
    draws: Annotated[
        int | None,
        given("N", "Steps to draw from the sampler of each phase; by default a second of all phases.", whole(1)),
    ] = None,
    as_json: options.Json = False,
) -> CommandResult:
    """Check the computed law of the draws by Monte Carlo simulation.

    Draws batches as configured, from data of the declared sizes. Exit code 1: a computed number is contradicted.

    Example: dpcalc simulate clinic.yaml --draws 100000 --seed 7
    """
    from dpcalc.audit.simulate import simulate_plan, simulation_output

    loaded = request.load()
    announce("simulation")
    checks, notes = simulate_plan(loaded.plan, seed=seed, draws=draws, on_progress=report_progress)
    output = simulation_output(checks, notes, seed, loaded)
    code = 0 if all(check["agrees"] for check in checks) else CONTRADICTED
    return answer(output, loaded.diagnostics, notes, form="json" if as_json else "", code=code)
