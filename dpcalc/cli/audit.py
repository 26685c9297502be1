"""`dpcalc audit`, `audit-sampler`, `simulate`: scores, logged batches and random draws beside what the config says."""

import re
from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, output_text, remarks
from dpcalc.cli.progress import report_progress
from dpcalc.cli.sources import loaded_plan, set_config
from dpcalc.errors import InputError

AUDIT_EXAMPLE = "Example: dpcalc audit mnist.yaml scores.csv --guesses 250 --plot roc.svg"
AUDIT_SAMPLER_EXAMPLE = "Example: dpcalc audit-sampler mnist.yaml batches.jsonl"
CONTRADICTED = 1
STDIN = "-"
Config = Annotated[str, typer.Argument(metavar="CONFIG", help="A config file; - is standard input.")]


def audit(  # noqa: PLR0913  one parameter an option
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
    from dpcalc.audit.view import score_chart, score_output
    from dpcalc.planner.search import require_pld_method

    rules = ScoreRules(
        guesses=tuple(dict.fromkeys(map(_guesses, guesses or ()))),
        thresholds=tuple(dict.fromkeys(options.any_number("--threshold", text) for text in thresholds or ())),
        false_alarm=options.probability("--false-alarm", false_alarm) or 0.0,
    )
    if plot:
        from dpcalc.cli.output import check_picture

        check_picture(plot)
    if config == scores == STDIN:
        raise InputError("SCORES: expected a file beside a config from standard input, got - for both")
    set_config(context, [config])
    loaded = loaded_plan(context)
    result = audit_scores(require_pld_method(loaded.plan), read_scores(scores), rules)
    notes = []
    if plot:
        if not result.roc:
            raise InputError("--plot: expected canaries that are in and canaries that are out, got one kind alone")
        from dpcalc.charts.plot import chart_picture
        from dpcalc.cli.output import write_picture

        notes.append(write_picture(plot, lambda ending: chart_picture(score_chart(result, loaded), ending)))
    return CommandResult(
        text=output_text(score_output(result, loaded, scores), as_json=as_json),
        code=0 if result.agrees else CONTRADICTED,
        asides=(*remarks(loaded.diagnostics, result.notes), *notes),
        changed=(plot,) if plot else (),
    )


def _guesses(text: str) -> tuple[int, int]:
    """Return (guessed in, guessed out) of "N", halved, the odd one in, or of "IN:OUT"; InputError for 0 or others."""
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

    if config == log == STDIN:
        raise InputError("LOG: expected a file beside a config from standard input, got - for both")
    set_config(context, [config])
    loaded = loaded_plan(context)
    result = audit_log(loaded.plan, log, on_progress=report_progress)
    output = audit_output(result, loaded, log)
    text = output_text(output, as_json=as_json)
    asides = remarks(loaded.diagnostics, result.notes)
    return CommandResult(text=text, code=0 if result.agrees else CONTRADICTED, asides=asides)


# `dpcalc simulate`: Monte Carlo simulation of the sampler and of the privacy loss.

SIMULATE_EXAMPLE = "Example: dpcalc simulate clinic.yaml --draws 100000 --seed 7"


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
