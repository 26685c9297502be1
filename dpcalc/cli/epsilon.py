"""`dpcalc epsilon`, `delta`, `risk`, `compare` and `statement`: the privacy cost of configs."""

from __future__ import annotations

import posixpath
from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, on_terminal, output_text, remarks, width, with_errors
from dpcalc.cli.sources import (
    has_every_unit,
    loaded_for_every_unit,
    loaded_plan,
    plan_results,
    set_config,
    several_paths,
)
from dpcalc.errors import DpcalcError, InputError, UnsupportedError
from dpcalc.report.formats import STATEMENTS, statement_format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcalc.config.load import Loaded
    from dpcalc.mechanisms.pate import Aggregation, Votes
    from dpcalc.planner.evaluate import Evaluation
    from dpcalc.planner.pate import DataDependentResult
    from dpcalc.planner.plan import Plan
    from dpcalc.report.output import Output
    from dpcalc.report.statement import StatementView


EPSILON_EXAMPLE = "Example: dpcalc epsilon clinic.yaml --set mechanism.noise_multiplier=8"


def epsilon(
    context: typer.Context,
    configs: options.SeveralConfigs = None,
    *,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Compute the privacy cost (epsilon) of a training run.

    The epsilon is a certified upper bound for every data set.
    """
    if has_every_unit(context):
        set_config(context, configs)
        answer = _epsilon_of_every_unit(loaded_for_every_unit(context))
    elif paths := several_paths(context, configs):
        answer = _epsilon_of_several(context, paths)
    else:
        # Cross-checks take as long as the answer: only where they are printed.
        with_checks = verbose and (as_json or not quiet)
        answer = _epsilon_of_one(loaded_plan(context), with_checks=with_checks, with_votes=as_json or not quiet)
    findings = tuple(dict.fromkeys(finding for loaded in answer.files for finding in loaded.diagnostics))
    asides = (*remarks(findings, answer.notes, quiet=quiet), *answer.warnings)
    text = output_text(answer.output, as_json=as_json, quiet=quiet)
    return CommandResult(text=text, asides=asides, errors=answer.errors)


class _Answer(NamedTuple):
    """Result of `epsilon`, the configs that it is about, and what is said beside it; errors are of other configs."""

    output: Output
    files: Sequence[Loaded]
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    errors: tuple[DpcalcError, ...] = ()


def _epsilon_of_one(loaded: Loaded, *, with_checks: bool, with_votes: bool) -> _Answer:
    """Return the answer on one config, on request with cross-checks or with the data-dependent cost of its votes."""
    from dpcalc.planner.composition import composed
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import evaluation_output, note_texts

    composition = composed(loaded.plan)
    evaluation = evaluate(composition)
    cost = _cost_of_votes(loaded) if with_votes else None
    output, notes = evaluation_output(evaluation, loaded), list(note_texts(evaluation))
    if with_checks:
        from dpcalc.planner.compare import cross_checks, prefix_errors
        from dpcalc.planner.gdp import gaussian_summary
        from dpcalc.report.guarantees import gdp_json, gdp_line, gdp_text
        from dpcalc.work import optional

        checks, errors = cross_checks(composition), prefix_errors(loaded.plan)
        output = evaluation_output(evaluation, loaded, checks=checks, errors=errors, verbose=True)
        gdp, missing = optional("mu-GDP", lambda: gaussian_summary(composition), None)
        if gdp is not None:
            output = output.with_last("gdp", gdp_json(gdp), line=gdp_line(gdp), row=("mu-GDP", gdp_text(gdp)))
        if missing:
            notes.append(missing)
    if cost is None:
        return _Answer(output, (loaded,), tuple(notes))

    from dpcalc.pate.view import WARNING, votes_json, votes_text

    words = votes_text(cost)
    output = output.with_last("with_these_votes", votes_json(cost), line=words, row=("these votes", words))
    return _Answer(output, (loaded,), tuple(notes), (f"warning: {WARNING}",))


def _epsilon_of_several(context: typer.Context, paths: tuple[str, ...]) -> _Answer:
    """Return the answer on all configs that have one, with the errors of the others; ExceptionGroup if none has."""
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import costs_output, note_texts
    from dpcalc.report.guarantees import config_names

    costs, errors = plan_results(context, paths, evaluate)
    files = [loaded for _, loaded in costs]
    named = zip(config_names(files), costs, strict=True)
    notes = tuple(f"{name}: {text}" for name, (each, _) in named for text in note_texts(each))
    return _Answer(with_errors(costs_output(costs), errors), files, notes, errors=errors)


def _epsilon_of_every_unit(files: tuple[Loaded, ...]) -> _Answer:
    """Return the answer on one config that was loaded once for each protected level."""
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import note_texts, units_output

    answers: list[tuple[Evaluation | DpcalcError, Loaded]] = []
    for loaded in files:
        try:
            answers.append((evaluate(loaded.plan), loaded))
        except (InputError, UnsupportedError) as error:  # the level has no bound: the others are answered all the same
            answers.append((error, loaded))
    errors = [each for each, _ in answers if isinstance(each, DpcalcError)]
    if len(errors) == len(answers):
        raise errors[0]
    notes = []
    for each, loaded in answers:
        texts = (f"no bound: {each}",) if isinstance(each, DpcalcError) else note_texts(each)
        notes += [f"{loaded.plan.unit_name}: {text}" for text in texts]
    return _Answer(units_output(answers), files, tuple(notes))


def _cost_of_votes(loaded: Loaded) -> DataDependentResult | None:
    """Return the data-dependent cost of a config with votes; None if no votes apply."""
    aggregation = _aggregation_of_votes(loaded.plan)
    if aggregation is None:
        return None

    from dpcalc.planner.pate import data_dependent_guarantee

    try:
        return data_dependent_guarantee(aggregation, _votes(loaded), delta=loaded.plan.delta)
    except InputError as error:  # votes that cannot be read, or do not fit the config
        place = loaded.mark("mechanism.votes")
        stated_at = "" if place is None else f"{loaded.path}:{place[0]}:{place[1]}: "
        raise InputError(f"{stated_at}`mechanism.votes`: {error}") from error


def _aggregation_of_votes(plan: Plan) -> Aggregation | None:
    """Return the aggregation of a plain PATE run with a votes file; None for any other run.

    A plain run has a single phase, no tuning, and protects one unit.
    """
    phase = plan.phases[0]
    if not phase.votes or len(plan.phases) > 1 or plan.group_size > 1 or plan.tuning is not None or not phase.steps:
        return None

    from dpcalc.mechanisms.pate import GNMax, LNMax

    return phase.mechanism if isinstance(phase.mechanism, LNMax | GNMax) else None


def _votes(loaded: Loaded) -> Votes:
    """Return the votes of the file beside the config, one query for each step; InputError if it has too few."""
    from dpcalc.mechanisms.pate import Votes
    from dpcalc.pate.votes_file import read_votes

    (phase,) = loaded.plan.phases
    teachers = phase.hierarchy.levels[0]
    # As the config means it: beside itself.
    path = posixpath.join(posixpath.dirname(loaded.path), phase.votes)
    votes_read = read_votes(path, teachers=teachers.count if teachers.is_equal else None)
    if votes_read.queries < phase.steps:
        raise InputError(f"{path}: expected votes on {phase.steps} queries, one a step, got {votes_read.queries}")
    return Votes(counts=votes_read.counts[: phase.steps], teachers=votes_read.teachers)


# `dpcalc delta`: delta for a given epsilon.

DELTA_EXAMPLE = "Example: dpcalc delta clinic.yaml --epsilon 1"
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

    loaded = _without_delta_warning(loaded)
    answer = delta_of(loaded.plan, epsilon=epsilon_value or 0.0)
    asides = remarks(loaded.diagnostics, answer.notes, quiet=quiet)
    return CommandResult(text=output_text(delta_output(answer, loaded), as_json=as_json, quiet=quiet), asides=asides)


def _without_delta_warning(loaded: Loaded) -> Loaded:
    """Return the config without the finding DPC203, on the size of its delta, which `dpcalc delta` does not use."""
    return replace(loaded, diagnostics=tuple(finding for finding in loaded.diagnostics if finding.code != "DPC203"))


# `dpcalc risk`: bounds on the success of membership inference, attribute inference and reconstruction.

RISK_EXAMPLE = "Example: dpcalc risk clinic.yaml --prior 0.1 --fpr 1e-4"


def risk(
    context: typer.Context,
    *,
    prior: Annotated[
        str, typer.Option(metavar="P", help="The attacker's prior probability that the unit is in the data.")
    ] = "0.5",
    rates: Annotated[
        list[str] | None,
        typer.Option(
            "--fpr", metavar="Y", help="A false positive rate. May be repeated.", show_default="0.001, 0.01 and 0.1"
        ),
    ] = None,
    given_baselines: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            metavar="P",
            help="Bound attribute inference and reconstruction: how often the attacker would succeed without the "
            "output. May be repeated.",
            show_default="none",
        ),
    ] = None,
    as_json: options.Json = False,
) -> CommandResult:
    """Bound the success of membership inference, and of reconstruction.

    The bounds hold for every attacker and every data set.
    """
    prior_value = options.probability("--prior", prior) or 0.0
    given_rates = tuple(sorted({options.probability("--fpr", rate) or 0.0 for rate in rates or ()}))
    baselines = tuple(sorted({options.probability("--baseline", each) or 0.0 for each in given_baselines or ()}))
    loaded = loaded_plan(context)

    from dpcalc.planner.risk import FALSE_POSITIVE_RATES
    from dpcalc.planner.risk import risk as risk_of
    from dpcalc.planner.search import require_pld_method
    from dpcalc.report.solution import risk_output

    plan = require_pld_method(loaded.plan)
    result = risk_of(
        plan, prior=prior_value, false_positive_rates=given_rates or FALSE_POSITIVE_RATES, baselines=baselines
    )
    text = output_text(risk_output(result, loaded), as_json=as_json)
    return CommandResult(text=text, asides=remarks(loaded.diagnostics, result.notes))


# `dpcalc compare`: all accountants and bounds in one table.

COMPARE_EXAMPLE = "Example: dpcalc compare clinic.yaml --json"


def compare(
    context: typer.Context, configs: options.SeveralConfigs = None, *, as_json: options.Json = False
) -> CommandResult:
    """Show every accountant and bound side by side.

    Each row states its claim, and why it does not apply or is not valid here.
    """
    from dpcalc.planner.compare import compare as rows_of
    from dpcalc.report.evaluation import comparison_output, comparisons_output

    errors: tuple[DpcalcError, ...] = ()
    if paths := several_paths(context, configs):
        comparisons, errors = plan_results(context, paths, rows_of)
        output = with_errors(comparisons_output(comparisons), errors)
    else:
        loaded = loaded_plan(context)
        comparisons = [(rows_of(loaded.plan), loaded)]
        output = comparison_output(*comparisons[0])
    asides = remarks([finding for _, loaded in comparisons for finding in loaded.diagnostics])
    return CommandResult(text=output_text(output, as_json=as_json), asides=asides, errors=errors)


# `dpcalc statement`: a privacy statement for reviewers.

STATEMENT_EXAMPLE = "Example: dpcalc statement clinic.yaml --format markdown > PRIVACY.md"
PLAIN_WIDTH = 80  # columns of a line that goes to a file, where nobody knows the reader's terminal


def statement(
    context: typer.Context,
    *,
    written: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="|".join(STATEMENTS),
            help="Format of the statement.",
            autocompletion=options.one_of(STATEMENTS),
        ),
    ] = "text",
    published: Annotated[
        str, typer.Option(metavar="DATE", help="Date of the release, YYYY-MM-DD; the registry asks for it.")
    ] = "",
) -> CommandResult:
    """Write a privacy statement of a training run, for reviewers.

    It has the guarantee, bounds on attacks, the assumptions, and the limits of the claim. The same config gives the
    same statement.
    """
    if written not in STATEMENTS:
        raise InputError(f"--format: expected one of {', '.join(STATEMENTS)}, got `{written}`")

    if published and not _is_date(published):
        raise InputError(f"--published: expected a date as 2026-01-31, got `{published}`")

    from dpcalc.planner.statement import statement as stated
    from dpcalc.report.registry import registry_notes
    from dpcalc.report.statement import statement_view

    loaded = loaded_plan(context)
    view = statement_view(stated(loaded.plan), loaded, published=published)
    notes = registry_notes(view) if written == "registry" else ()
    return CommandResult(text=_statement_text(view, written), asides=remarks(loaded.diagnostics, notes))


def _statement_text(view: StatementView, written: str) -> str:
    """Return the statement in a format, at the terminal's width; plain text on a terminal has thousands separators."""
    if not on_terminal():
        return statement_format(written)(view, PLAIN_WIDTH)
    text = statement_format(written)(view, width())
    return _with_separated_thousands(text) if written == "text" else text


def _with_separated_thousands(text: str) -> str:
    """Return a statement with thousands separators, except in its last section, on files and hashes."""
    from dpcalc.planner.words import with_thousands_separators

    guarantee, heading, origin = text.partition("\nWhere it comes from\n")
    return f"{with_thousands_separators(guarantee)}{heading}{origin}"


def _is_date(text: str) -> bool:
    """Return True for a date in the form YYYY-MM-DD."""
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text
    return False
