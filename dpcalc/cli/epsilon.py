"""`dpcalc epsilon`, `delta`, `risk`, `compare`, `statement` and `pate`: the privacy cost of configs and of votes."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from dpcalc.cli import options
from dpcalc.cli.options import Request, given, nonnegative, one_of, probability, whole
from dpcalc.cli.output import (
    CommandResult,
    answer,
    on_terminal,
    output_text,
    refuse_existing,
    remarks,
    width,
    with_errors,
    write_file,
)
from dpcalc.config.load import Loaded
from dpcalc.errors import DpcalcError, InputError, UnsupportedError, listed
from dpcalc.gate.check import fit_text, fits
from dpcalc.gate.workers import compute_answer
from dpcalc.guarantee import Guarantee
from dpcalc.report.guarantees import config_names, gdp_json, gdp_line, gdp_text
from dpcalc.report.statement import STATEMENTS, registry_notes, statement_view
from dpcalc.work import optional

if TYPE_CHECKING:
    from dpcalc.pate import DataDependentResult
    from dpcalc.planner.evaluate import Evaluation


def epsilon(
    request: Request,
    configs: options.SeveralConfigs = None,
    *,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why epsilon is what it is, and what each choice costs.")
    ] = False,
) -> CommandResult:
    """Compute the privacy cost (epsilon) of a training run.

    The epsilon is a certified upper bound for every data set.

    Example: dpcalc epsilon clinic.yaml --set mechanism.noise_multiplier=8
    """
    from dpcalc.planner.composition import composed
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.evaluation import costs_output, evaluation_output, note_texts, units_output

    warnings: tuple[str, ...] = ()
    errors: tuple[DpcalcError, ...] = ()
    is_single = len(paths := request.paths(configs)) < 2 and ("--unit", options.EVERY_UNIT) not in request.flags
    if explain and not is_single:
        raise InputError("--explain: expected one config and one unit, got several; ask about one at a time")
    if ("--unit", options.EVERY_UNIT) in request.flags:
        files: Sequence[Loaded] = request.about(configs).load_every_unit()
        answers: list[tuple[Evaluation | DpcalcError, Loaded]] = []
        notes = []
        for loaded in files:
            try:
                answers.append((evaluated := evaluate(loaded.plan), loaded))
                texts = [*note_texts(evaluated)]
            except (InputError, UnsupportedError) as error:  # this level has no bound: the others are answered
                answers.append((error, loaded))
                texts = [f"no bound: {error}"]
            notes += [f"{loaded.plan.unit_name}: {text}" for text in texts]
        refused = [each for each, _ in answers if isinstance(each, DpcalcError)]
        if len(refused) == len(answers):
            raise refused[0]
        output = units_output(answers)
    elif len(paths) > 1:
        costs, errors = request.results(paths, evaluate)
        files = [loaded for _, loaded in costs]
        named = zip(config_names(files), costs, strict=True)
        notes = [f"{name}: {text}" for name, (each, _) in named for text in note_texts(each)]
        output = with_errors(costs_output(costs), errors)
    else:
        loaded = request.about(paths).load()
        files = [loaded]
        composition = composed(loaded.plan)
        evaluation = evaluate(composition)
        notes = [*note_texts(evaluation)]
        is_shown = bool(request.form) or not quiet
        cost = _cost_of_votes(loaded) if is_shown else None
        if verbose and is_shown:  # they take as long as the answer
            from dpcalc.planner.compare import cross_checks, prefix_errors
            from dpcalc.planner.risk import gaussian_summary

            checks, prefixes = cross_checks(composition), prefix_errors(loaded.plan)
            output = evaluation_output(evaluation, loaded, checks=checks, errors=prefixes, verbose=True)
            gdp, missing = optional("mu-GDP", lambda: gaussian_summary(composition), None)
            if gdp is not None:
                output = output.with_last(
                    "gdp", gdp_json(gdp, loaded.plan.bound_kind), line=gdp_line(gdp), row=("mu-GDP", gdp_text(gdp))
                )
            notes += [missing] if missing else []
        else:
            output = evaluation_output(evaluation, loaded)
        if explain and is_shown:
            from dpcalc.planner.statement import other_choices, reasons
            from dpcalc.report.evaluation import explained

            why = reasons(composition, evaluation.guarantee.direction or "")
            output = explained(output, evaluation, why, other_choices(composition))
        budget = loaded.plan.budget
        if is_shown and budget is not None and evaluation.guarantee.epsilon > budget.epsilon:
            values: list[float | None] = []  # the noise and the steps that would fit, as `check` says them
            for question in fits(loaded.plan, budget.epsilon):
                values.append(None)
                with suppress(DpcalcError):
                    found = compute_answer(question)
                    values[-1] = None if isinstance(found, Guarantee) else found
            if text := fit_text(values, loaded):
                output = replace(output, rows=[("to fit", text), *output.rows])
                notes += [] if on_terminal() else [f"to fit: {text}"]
        if cost is not None:
            from dpcalc.pate import WARNING, votes_json, votes_text

            words = votes_text(cost)
            output = output.with_last("with_these_votes", votes_json(cost), line=words, row=("these votes", words))
            warnings = (f"warning: {WARNING}",)
    findings = tuple(dict.fromkeys(finding for loaded in files for finding in loaded.diagnostics))
    return answer(output, findings, notes, form=request.form, quiet=quiet, asides=warnings, errors=errors)


def _cost_of_votes(loaded: Loaded) -> DataDependentResult | None:
    """Return the data-dependent cost of a plain PATE run with votes: one phase, no tuning, one unit; else None."""
    plan = loaded.plan
    phase = plan.phases[0]
    if not phase.votes or len(plan.phases) > 1 or plan.group_size > 1 or plan.tuning is not None or not phase.steps:
        return None

    from dpcalc.mechanisms.black_box import GNMax, LNMax, Votes
    from dpcalc.pate import data_dependent_guarantee, read_votes

    if not isinstance(phase.mechanism, LNMax | GNMax):
        return None
    teachers = phase.hierarchy.levels[0]
    path = posixpath.join(posixpath.dirname(loaded.path), phase.votes)  # beside the config, as it means it
    try:
        read = read_votes(path, teachers=teachers.count if teachers.is_equal else None)
        if len(read.counts) < phase.steps:
            raise InputError(f"{path}: expected votes on {phase.steps} queries, one a step, got {len(read.counts)}")
        votes = Votes(counts=read.counts[: phase.steps], teachers=read.teachers)
        return data_dependent_guarantee(phase.mechanism, votes, delta=plan.delta)
    except InputError as error:  # votes that cannot be read, or do not fit the config
        place = loaded.mark("mechanism.votes")
        stated_at = "" if place is None else f"{loaded.path}:{place[0]}:{place[1]}: "
        raise InputError(f"{stated_at}`mechanism.votes`: {error}") from error


def delta(
    request: Request,
    *,
    epsilon: Annotated[float, given("E", "The epsilon of the guarantee.", nonnegative, "--epsilon")],
    quiet: options.Quiet = False,
) -> CommandResult:
    """Compute delta for a given epsilon.

    The delta is a certified upper bound for every data set.

    Example: dpcalc delta clinic.yaml --epsilon 1
    """
    from dpcalc.planner.evaluate import delta_of
    from dpcalc.report.solution import delta_output

    # Any delta in (0, 1): the config need not state what is computed, and its size is no finding.
    loaded = request.load(assumed=["privacy.delta=0.5"])
    loaded = replace(loaded, diagnostics=tuple(finding for finding in loaded.diagnostics if finding.code != "DPC203"))
    found = delta_of(loaded.plan, epsilon=epsilon)
    return answer(delta_output(found, loaded), loaded.diagnostics, found.notes, form=request.form, quiet=quiet)


def risk(
    request: Request,
    *,
    prior: Annotated[
        float, given("P", "The attacker's prior probability that the unit is in the data.", probability)
    ] = 0.5,
    rates: Annotated[
        list[float] | None,
        given("Y", "A false positive rate. May be repeated.", probability, "--fpr", show_default="0.001, 0.01 and 0.1"),
    ] = None,
    baselines: Annotated[
        list[float] | None,
        given(
            "P",
            "Bound attribute inference and reconstruction: how often the attacker would succeed without the "
            "output. May be repeated.",
            probability,
            "--baseline",
            show_default="none",
        ),
    ] = None,
) -> CommandResult:
    """Bound the success of membership inference, and of reconstruction.

    The bounds hold for every attacker and every data set.

    Example: dpcalc risk clinic.yaml --prior 0.1 --fpr 1e-4
    """
    loaded = request.load()

    from dpcalc.planner.risk import FALSE_POSITIVE_RATES
    from dpcalc.planner.risk import risk as risk_of
    from dpcalc.planner.solve import require_pld_method
    from dpcalc.report.solution import risk_output

    result = risk_of(
        require_pld_method(loaded.plan),
        prior=prior,
        false_positive_rates=tuple(sorted({*(rates or FALSE_POSITIVE_RATES)})),
        baselines=tuple(sorted({*(baselines or ())})),
    )
    return answer(risk_output(result, loaded), loaded.diagnostics, result.notes, form=request.form)


def compare(request: Request, configs: options.SeveralConfigs = None) -> CommandResult:
    """Show every accountant and bound side by side.

    Each row states its claim, and why it does not apply or is not valid here.

    Example: dpcalc compare clinic.yaml --format csv
    """
    from dpcalc.planner.compare import compare as rows_of
    from dpcalc.report.evaluation import comparison_output, comparisons_output

    errors: tuple[DpcalcError, ...] = ()
    if len(paths := request.paths(configs)) > 1:
        comparisons, errors = request.results(paths, rows_of)
        output = with_errors(comparisons_output(comparisons), errors)
    else:
        loaded = request.about(paths).load()
        comparisons = [(rows_of(loaded.plan), loaded)]
        output = comparison_output(*comparisons[0])
    findings = [finding for _, loaded in comparisons for finding in loaded.diagnostics]
    return answer(output, findings, form=request.form, errors=errors)


def _date(text: str) -> str:
    with suppress(ValueError):
        if not text or date.fromisoformat(text).isoformat() == text:
            return text
    raise typer.BadParameter(f"expected a date as 2026-01-31, got `{text}`")


def statement(
    request: Request,
    *,
    written: Annotated[
        str, given("NAME", f"{listed(tuple(STATEMENTS))}.", None, "--format", autocompletion=one_of(STATEMENTS))
    ] = "text",
    published: Annotated[str, given("DATE", "Date of the release, YYYY-MM-DD; the registry asks for it.", _date)] = "",
) -> CommandResult:
    """Write a privacy statement of a training run, for reviewers.

    It has the guarantee, bounds on attacks, the assumptions, and the limits of the claim. The same config gives the
    same statement.

    Example: dpcalc statement clinic.yaml --format markdown > PRIVACY.md
    """
    if written not in STATEMENTS:
        raise InputError(f"--format: expected one of {', '.join(STATEMENTS)}, got `{written}`")

    from dpcalc.planner.statement import statement as stated
    from dpcalc.planner.words import with_thousands_separators

    loaded = request.load()
    view = statement_view(stated(loaded.plan), loaded, published=published)
    notes = registry_notes(view) if written == "registry" else ()
    if written == "html":
        from dpcalc.charts import CurveRequest, curve

        try:
            chart = curve("steps", CurveRequest(plans=((loaded.plan.name, loaded.plan),)))
            view = replace(view, picture=chart.picture())
        except DpcalcError as error:  # without matplotlib, or where no curve is defined
            notes = (f"the page has no chart: {error}",)
    # In a file, 80 columns: nobody knows the reader's terminal.
    text = STATEMENTS[written](view, width() if on_terminal() else 80)
    if on_terminal() and written == "text":  # thousands separators, except in the last section, on files and hashes
        guarantee, heading, origin = text.partition("\nWhere it comes from\n")
        text = f"{with_thousands_separators(guarantee)}{heading}{origin}"
    return CommandResult(text=text, asides=remarks(loaded.diagnostics, notes))


# `dpcalc pate`: the privacy cost of the answers of an ensemble of teachers.


def pate(
    votes: Annotated[
        str | None,
        typer.Argument(
            metavar="VOTES",
            help="A .npy or .csv file: a row for each query, a column for each label, the teachers that chose it.",
        ),
    ] = None,
    *,
    gamma: Annotated[float | None, given("G", "LNMax: inverse scale of the Laplace noise.", nonnegative)] = None,
    sigma: Annotated[float | None, given("S", "GNMax: standard deviation of the noise in votes.", nonnegative)] = None,
    threshold: Annotated[
        float | None,
        given("T", "Confident-GNMax: answer only if the largest noisy count reaches T votes.", nonnegative),
    ] = None,
    threshold_sigma: Annotated[
        float | None, given("S", "Standard deviation of the noise of that comparison.", nonnegative)
    ] = None,
    delta: Annotated[float | None, given("D", "The delta of the guarantee.", nonnegative)] = None,
    teachers: Annotated[int | None, given("N", "Teachers; by default the votes of the first row.", whole(1))] = None,
    classes: Annotated[
        int | None,
        given(
            "N",
            "Number of labels, of a file with a row for each teacher and a column for each query: label 0 to N-1.",
            whole(2),
        ),
    ] = None,
    queries: Annotated[int | None, given("N", "Only the first N queries; alone: without VOTES.", whole(1))] = None,
    target_eps: Annotated[
        float | None, given("E", "Compute how many answers an epsilon of E allows.", nonnegative)
    ] = None,
    sanitise: Annotated[
        bool,
        typer.Option("--sanitise", "--sanitize", help="Draw a data-dependent epsilon that may be published, once."),
    ] = False,
    csv: Annotated[str | None, given("PATH", "Write a table of the queries to PATH.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print one number only: the data-independent epsilon, rounded up.")
    ] = False,
    verbose: options.Verbose = False,
) -> CommandResult:
    """Compute the privacy cost of labels from an ensemble of teachers (PATE: LNMax, GNMax, Confident-GNMax).

    The data-independent epsilon holds for all votes. The data-dependent one is often far smaller, and itself private.

    Example: dpcalc pate votes.npy --sigma 40 --delta 1e-5 --target-eps 2
    """
    import numpy as np

    from dpcalc.mechanisms.black_box import ConfidentGNMax, GNMax, LNMax, PateMechanism
    from dpcalc.pate import pate_output, read_votes

    if votes is not None and Path(votes).suffix in {".yaml", ".yml"}:
        raise InputError(f"VOTES: expected a table of votes, got a config; `dpcalc epsilon {votes}` evaluates that")
    match gamma, sigma, threshold, threshold_sigma:
        case float(), None, None, None:
            aggregation: PateMechanism = LNMax(gamma=gamma)
        case None, float(), None, None:
            aggregation = GNMax(noise_multiplier=sigma)
        case None, float(), float(), float():
            aggregation = ConfidentGNMax(
                noise_multiplier=sigma, threshold=threshold, threshold_noise_multiplier=threshold_sigma
            )
        case noise:
            names = ("--gamma", "--sigma", "--threshold", "--threshold-sigma")
            given = [name for name, value in zip(names, noise, strict=True) if value is not None]
            raise InputError(
                "noise: expected --gamma (LNMax), --sigma (GNMax), or --sigma with --threshold and --threshold-sigma "
                f"(Confident-GNMax), got {', '.join(given) or 'none of them'}"
            )
    if delta is None:
        raise InputError("--delta: expected one, well below 1 / number of records, e.g. --delta 1e-5, got none")
    votes_read = None
    if votes is not None:
        votes_read = read_votes(votes, teachers=teachers, classes=classes, queries=queries)
    elif queries is None:
        raise InputError(
            "VOTES: expected a .npy or .csv file, or --queries N for the bound that holds without votes, got neither"
        )
    elif sanitise or csv is not None:
        raise InputError("VOTES: expected a file for --sanitise and --csv, got none")
    if csv is not None:
        refuse_existing("--csv", csv, force=force)  # before a sanitised epsilon is drawn: each draw costs
    output = pate_output(
        aggregation,
        votes_read,
        queries=len(votes_read.counts) if votes_read else queries or 0,
        delta=delta,
        target=target_eps,
        rng=np.random.default_rng() if sanitise else None,  # seeded by the system: the seed must stay secret
        verbose=verbose,
        with_csv=csv is not None,
    )
    asides = [] if quiet else [f"warning: {note}" for note in cast(list[str], output.result["notes"])]
    if csv is not None:
        write_file("--csv", csv, output.csv.encode(), force=force)
        asides.append(f"note: wrote {csv}")
    text = output_text(output, form="json" if as_json else "", quiet=quiet)
    return CommandResult(text=text, asides=tuple(asides), changed=(csv,) if csv else ())
