"""`dpcalc epsilon`, `delta`, `risk`, `compare`, `statement` and `pate`: the privacy cost of configs and of votes."""

from __future__ import annotations

import posixpath
from contextlib import suppress
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, on_terminal, output_text, remarks, width, with_errors, write_file
from dpcalc.cli.sources import (
    has_every_unit,
    loaded_for_every_unit,
    loaded_plan,
    plan_results,
    set_config,
    several_paths,
)
from dpcalc.errors import InputError
from dpcalc.report.formats import STATEMENTS, statement_format

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from dpcalc.config.load import Loaded
    from dpcalc.errors import DpcalcError
    from dpcalc.mechanisms.pate import Aggregation, Votes
    from dpcalc.pate.answer import PateAnswer
    from dpcalc.planner.compare import CrossCheck, PrefixErrors
    from dpcalc.planner.pate import DataDependentResult
    from dpcalc.report.fields import Fields, Output


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
    warnings: tuple[str, ...] = ()
    errors: tuple[DpcalcError, ...] = ()
    files: Sequence[Loaded]
    if has_every_unit(context):
        set_config(context, configs)
        files = loaded_for_every_unit(context)
        output, notes = _of_every_unit(files)
    elif paths := several_paths(context, configs):
        output, notes, files, errors = _of_several(context, paths)
    else:
        files = (loaded_plan(context),)
        # Cross-checks take as long as the answer: only where they are printed.
        with_checks = verbose and (as_json or not quiet)
        output, notes, warnings = _of_one(files[0], with_checks=with_checks, with_votes=as_json or not quiet)
    findings = tuple(dict.fromkeys(finding for loaded in files for finding in loaded.diagnostics))
    asides = (*remarks(findings, notes, quiet=quiet), *warnings)
    text = output_text(output, as_json=as_json, quiet=quiet, verbose=verbose)
    return CommandResult(text=text, asides=asides, errors=errors)


def _of_one(loaded: Loaded, *, with_checks: bool, with_votes: bool) -> tuple[Output, tuple[str, ...], tuple[str, ...]]:
    """Return (result, notes, warnings) of one config; cross-checks, and the votes that it names, only on request."""
    from dpcalc.planner.composition import composed
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import evaluation_output, note_texts

    composition = composed(loaded.plan)
    evaluation = evaluate(composition)
    notes = note_texts(evaluation)
    private = _cost_of_votes(loaded) if with_votes else None
    checks: tuple[CrossCheck, ...] = ()
    errors: tuple[PrefixErrors, ...] = ()
    extra: Fields = ()
    if with_checks:
        from dpcalc.planner.compare import cross_checks, prefix_errors
        from dpcalc.planner.gdp import gaussian_summary
        from dpcalc.report.fields import Section
        from dpcalc.report.guarantees import gdp_field
        from dpcalc.work import optional

        checks, errors = cross_checks(composition), prefix_errors(loaded.plan)
        gdp, missing = optional("mu-GDP", lambda: gaussian_summary(composition), None)
        notes += (missing,) if missing else ()
        extra = () if gdp is None else (gdp_field(gdp, Section.LAST),)
    warnings: tuple[str, ...] = ()
    if private is not None:
        from dpcalc.pate.view import WARNING, votes_field

        extra, warnings = (*extra, votes_field(private)), (f"warning: {WARNING}",)
    return evaluation_output(evaluation, loaded, checks=checks, errors=errors, extra=extra), notes, warnings


def _of_several(
    context: typer.Context, paths: tuple[str, ...]
) -> tuple[Output, tuple[str, ...], list[Loaded], tuple[DpcalcError, ...]]:
    """Return (result, notes, configs with an answer, errors of the others); each note begins with the config's name."""
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import costs_output, note_texts
    from dpcalc.report.guarantees import config_names

    costs, errors = plan_results(context, paths, evaluate)
    files = [loaded for _, loaded in costs]
    named = zip(config_names(files), costs, strict=True)
    notes = tuple(f"{name}: {text}" for name, (each, _) in named for text in note_texts(each))
    return with_errors(costs_output(costs), errors), notes, files, errors


def _of_every_unit(files: tuple[Loaded, ...]) -> tuple[Output, tuple[str, ...]]:
    """Return (result, notes) of one config loaded once for each protected level; each note begins with the level."""
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import note_texts, units_output

    answers = [(evaluate(loaded.plan), loaded) for loaded in files]
    return units_output(answers), tuple(
        f"{each.guarantee.unit}: {text}" for each, _ in answers for text in note_texts(each)
    )


def _cost_of_votes(loaded: Loaded) -> DataDependentResult | None:
    """Return the data-dependent cost of a config's votes; None unless the run is one untuned PATE phase, for one unit.

    The cost is itself private.

    Raises:
        InputError: the votes cannot be read or do not fit the config; it begins with the place of `mechanism.votes`.
    """
    plan = loaded.plan
    phase = plan.phases[0]
    if not phase.votes or len(plan.phases) > 1 or plan.group_size > 1 or plan.tuning is not None or not phase.steps:
        return None

    from dpcalc.mechanisms.pate import PateMechanism
    from dpcalc.planner.pate import data_dependent_guarantee

    if not isinstance(phase.mechanism, PateMechanism):
        return None
    try:
        return data_dependent_guarantee(phase.mechanism.aggregation, _votes(loaded), delta=plan.delta)
    except InputError as error:
        place = loaded.mark("mechanism.votes")
        stated_at = "" if place is None else f"{loaded.path}:{place[0]}:{place[1]}: "
        raise InputError(f"{stated_at}`mechanism.votes`: {error}") from error


def _votes(loaded: Loaded) -> Votes:
    """Return the votes of the config's file, on one query for each step; InputError if the file has fewer queries."""
    from dpcalc.mechanisms.pate import Votes
    from dpcalc.pate.votes_file import VotesFile, read_votes

    (phase,) = loaded.plan.phases
    teachers = phase.hierarchy.levels[0]
    # As the config means it: beside itself.
    path = posixpath.join(posixpath.dirname(loaded.path), phase.votes)
    votes_read = read_votes(VotesFile(path=path, teachers=teachers.count if teachers.is_equal else None))
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

    # The config's own delta is not used: no warning about its size.
    loaded = replace(loaded, diagnostics=tuple(finding for finding in loaded.diagnostics if finding.code != "DPC203"))
    answer = delta_of(loaded.plan, epsilon=epsilon_value or 0.0)
    asides = remarks(loaded.diagnostics, answer.notes, quiet=quiet)
    return CommandResult(text=output_text(delta_output(answer, loaded), as_json=as_json, quiet=quiet), asides=asides)


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
    given_rates = tuple(options.probability("--fpr", rate) or 0.0 for rate in rates or ())
    baselines = tuple(sorted({options.probability("--baseline", each) or 0.0 for each in given_baselines or ()}))
    loaded = loaded_plan(context)

    from dpcalc.planner.risk import FALSE_POSITIVE_RATES
    from dpcalc.planner.risk import risk as risk_of
    from dpcalc.planner.search import require_pld_method
    from dpcalc.report.solution import risk_output

    false_positive_rates = tuple(sorted(set(given_rates))) or FALSE_POSITIVE_RATES
    result = risk_of(
        require_pld_method(loaded.plan),
        prior=prior_value,
        false_positive_rates=false_positive_rates,
        baselines=baselines,
    )
    return CommandResult(
        text=output_text(risk_output(result, loaded), as_json=as_json), asides=remarks(loaded.diagnostics, result.notes)
    )


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
    text = statement_format(written)(view, width() if on_terminal() else PLAIN_WIDTH)
    if on_terminal() and written == "text":
        from dpcalc.planner.words import with_thousands_separators

        guarantee, place, origin = text.partition("\nWhere it comes from\n")
        text = f"{with_thousands_separators(guarantee)}{place}{origin}"
    notes = registry_notes(view) if written == "registry" else ()
    return CommandResult(text=text, asides=remarks(loaded.diagnostics, notes))


def _is_date(text: str) -> bool:
    """Return True for a date in the form YYYY-MM-DD."""
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat() == text
    return False


# `dpcalc pate`: the privacy cost of the answers of an ensemble of teachers.

PATE_EXAMPLE = "Example: dpcalc pate votes.npy --sigma 40 --delta 1e-5 --target-eps 2"


def pate(  # noqa: PLR0913  one parameter an option
    votes: Annotated[
        str | None,
        typer.Argument(
            metavar="VOTES",
            help="A .npy or .csv file: a row for each query, a column for each label, the teachers that chose it.",
        ),
    ] = None,
    *,
    gamma: Annotated[str | None, typer.Option(metavar="G", help="LNMax: inverse scale of the Laplace noise.")] = None,
    sigma: Annotated[
        str | None, typer.Option(metavar="S", help="GNMax: standard deviation of the noise in votes.")
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(metavar="T", help="Confident-GNMax: answer only if the largest noisy count reaches T votes."),
    ] = None,
    threshold_sigma: Annotated[
        str | None, typer.Option(metavar="S", help="Standard deviation of the noise of that comparison.")
    ] = None,
    delta: Annotated[str | None, typer.Option(metavar="D", help="The delta of the guarantee.")] = None,
    teachers: Annotated[
        str | None, typer.Option(metavar="N", help="Teachers; by default the votes of the first row.")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Number of labels, of a file with a row for each teacher and a column for each query: label 0 to N-1.",
        ),
    ] = None,
    queries: Annotated[
        str | None, typer.Option(metavar="N", help="Only the first N queries; alone: without VOTES.")
    ] = None,
    target_eps: Annotated[
        str | None, typer.Option("--target-eps", metavar="E", help="Compute how many answers an epsilon of E allows.")
    ] = None,
    sanitise: Annotated[
        bool,
        typer.Option("--sanitise", "--sanitize", help="Draw a data-dependent epsilon that may be published, once."),
    ] = False,
    csv: Annotated[str | None, typer.Option(metavar="PATH", help="Write a table of the queries to PATH.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: options.Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print one number only: the data-independent epsilon, rounded up.")
    ] = False,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Compute the privacy cost of labels from an ensemble of teachers (PATE: LNMax, GNMax, Confident-GNMax).

    The data-independent epsilon holds for all votes. The data-dependent one is often far smaller, and itself private.
    """
    from dpcalc.mechanisms.pate import VOTES
    from dpcalc.pate.answer import PateQuestion, evaluate_pate
    from dpcalc.pate.view import DRAWN, WARNING, pate_output

    noise = {"--gamma": gamma, "--sigma": sigma, "--threshold": threshold, "--threshold-sigma": threshold_sigma}
    aggregation = _aggregation({option: value for option, value in noise.items() if value is not None})
    delta_value = options.number("--delta", delta)
    if delta_value is None:
        raise InputError("--delta: expected one, well below 1 / number of records, e.g. --delta 1e-5, got none")
    query_count = options.whole_number("--queries", queries, min_value=1)
    votes_read = _votes_or_queries(
        votes,
        options.whole_number("--teachers", teachers, min_value=1),
        options.whole_number("--classes", classes, min_value=2),
        query_count,
    )
    if votes_read is None and (sanitise or csv is not None):
        raise InputError("VOTES: expected a file for --sanitise and --csv, got none")
    question = PateQuestion(
        aggregation=aggregation,
        queries=votes_read.queries if votes_read else query_count or 0,
        votes=votes_read,
        delta=delta_value,
        target=options.number("--target-eps", target_eps),
    )
    answer = evaluate_pate(question, rng=_secret_noise() if sanitise else None)
    written = _write_queries(answer, csv, force=force)
    # Data-dependent values are private, and the sanitised one is for one use.
    notes = (*(() if answer.by_votes is None else (WARNING,)), *(() if answer.sanitised is None else (DRAWN,)))
    output = pate_output(answer, assumptions=VOTES, notes=notes, verbose=verbose)
    asides = written if quiet else (*(f"warning: {note}" for note in notes), *written)
    text = output_text(output, as_json=as_json, quiet=quiet)
    return CommandResult(text=text, asides=asides, changed=(csv,) if csv else ())


def _aggregation(given: dict[str, str]) -> Aggregation:
    """Return LNMax, GNMax or ConfidentGNMax for the given noise options, by name; InputError for other combinations."""
    from dpcalc.mechanisms.pate import ConfidentGNMax, GNMax, LNMax

    values = {option: options.number(option, text) or 0.0 for option, text in given.items()}
    match values:
        case {"--gamma": gamma} if len(values) == 1:
            return LNMax(gamma=gamma)
        case {"--sigma": sigma} if len(values) == 1:
            return GNMax(sigma=sigma)
        case {"--sigma": sigma, "--threshold": threshold, "--threshold-sigma": check} if len(values) == 3:
            return ConfidentGNMax(label=GNMax(sigma=sigma), threshold=threshold, check_sigma=check)
    got = ", ".join(given) or "none of them"
    raise InputError(
        "noise: expected --gamma (LNMax), --sigma (GNMax), or --sigma with --threshold and --threshold-sigma "
        f"(Confident-GNMax), got {got}"
    )


def _votes_or_queries(path: str | None, teachers: int | None, classes: int | None, queries: int | None) -> Votes | None:
    """Return the votes of a file, None if only the number of queries is given; raise InputError for neither."""
    if path is not None:
        from dpcalc.pate.votes_file import VotesFile, read_votes

        return read_votes(VotesFile(path=path, teachers=teachers, classes=classes, queries=queries))
    if queries is None:
        raise InputError(
            "VOTES: expected a .npy or .csv file, or --queries N for the bound that holds without votes, got neither"
        )
    return None


def _secret_noise() -> np.random.Generator:
    """Return a generator of random numbers seeded by the operating system."""
    import numpy as np

    return np.random.default_rng()


def _write_queries(answer: PateAnswer, csv: str | None, *, force: bool) -> tuple[str, ...]:
    """Write a CSV table of queries to `csv`, return (remark,), () for None; InputError if it exists and not `force`."""
    if csv is None:
        return ()

    from dpcalc.pate.view import query_csv

    write_file("--csv", csv, query_csv(answer).encode(), force=force)
    return (f"note: wrote {csv}",)
