"""`dpcalc epsilon`: the privacy cost of one config, of several, or of every level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from dpcalc.cli import options
from dpcalc.cli.output import CommandResult, has_styles, on_terminal, remarks, width
from dpcalc.cli.sources import add_path_to_errors, has_every_unit, loaded_for_every_unit, loaded_plans, set_config
from dpcalc.cli.votes import cost_of_votes

if TYPE_CHECKING:
    from dpcalc.config.load import Loaded

EXAMPLE = "Example: dpcalc epsilon clinic.yaml --set mechanism.noise_multiplier=8"


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
    from dpcalc.planner.estimates import cross_checks
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.view import bare_epsilon, evaluation_view, note_texts

    if has_every_unit(context):
        set_config(context, configs)
        return _of_every_unit(context, as_json=as_json, quiet=quiet)
    files = loaded_plans(context, configs)
    if len(files) > 1:
        return _of_several(files, as_json=as_json, quiet=quiet)
    (loaded,) = files
    evaluation = evaluate(loaded.plan)
    asides = remarks(loaded.diagnostics, note_texts(evaluation), quiet=quiet)
    if quiet:
        return CommandResult(text=f"{bare_epsilon(evaluation)}\n", asides=asides)
    private = cost_of_votes(loaded)
    if private is not None:
        from dpcalc.pate.view import WARNING, with_votes

        asides = (*asides, f"warning: {WARNING}")
    if as_json:
        from dpcalc.report.json import evaluation_json

        return CommandResult(text=evaluation_json(evaluation, loaded, private), asides=asides)
    checks = cross_checks(loaded.plan) if verbose else ()
    view = evaluation_view(evaluation, loaded.plan, verbose=verbose, checks=checks)
    if private is not None:
        view = with_votes(view, private)
    if not on_terminal():
        from dpcalc.report.plain import evaluation_lines

        return CommandResult(text=evaluation_lines(view), asides=asides)

    from dpcalc.report.table import evaluation_text

    return CommandResult(text=evaluation_text(view, width=width(), styled=has_styles()), asides=asides)


def _of_several(files: tuple[Loaded, ...], *, as_json: bool, quiet: bool) -> CommandResult:
    """Compute epsilon of several configs; return one table, or bare numbers if quiet."""
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.json import costs_json
    from dpcalc.report.plain import fact_blocks
    from dpcalc.report.several import costs_facts, costs_notes, costs_view
    from dpcalc.report.view import bare_epsilon

    costs = []
    for loaded in files:
        with add_path_to_errors(loaded, among=files):
            costs.append((evaluate(loaded.plan), loaded))
    findings = tuple(diagnostic for loaded in files for diagnostic in loaded.diagnostics)
    asides = remarks(findings, costs_notes(costs), quiet=quiet)
    if as_json:
        return CommandResult(text=costs_json(costs), asides=asides)
    if quiet:
        return CommandResult(text="".join(f"{bare_epsilon(evaluation)}\n" for evaluation, _ in costs), asides=asides)
    if not on_terminal():
        return CommandResult(text=fact_blocks(costs_facts(costs)), asides=asides)

    from dpcalc.report.table import comparison_text

    return CommandResult(text=comparison_text(costs_view(costs), width=width(), styled=has_styles()), asides=asides)


def _of_every_unit(context: typer.Context, *, as_json: bool, quiet: bool) -> CommandResult:
    """Compute epsilon with each level of a config protected in turn; return one table, or bare numbers if quiet."""
    from dpcalc.planner.evaluate import evaluate
    from dpcalc.report.comparison import unit_notes, units_view
    from dpcalc.report.json import units_json
    from dpcalc.report.plain import units_lines
    from dpcalc.report.view import bare_epsilon

    files = loaded_for_every_unit(context)
    answers = [(evaluate(loaded.plan), loaded) for loaded in files]
    findings = dict.fromkeys(diagnostic for loaded in files for diagnostic in loaded.diagnostics)
    evaluations = [evaluation for evaluation, _ in answers]
    asides = remarks(tuple(findings), unit_notes(evaluations), quiet=quiet)
    if as_json:
        return CommandResult(text=units_json(answers), asides=asides)
    if quiet:
        return CommandResult(text="".join(f"{bare_epsilon(evaluation)}\n" for evaluation in evaluations), asides=asides)
    if not on_terminal():
        return CommandResult(text=units_lines(evaluations), asides=asides)

    from dpcalc.report.table import comparison_text

    view = units_view(evaluations, files[0].plan)
    return CommandResult(text=comparison_text(view, width=width(), styled=has_styles()), asides=asides)
