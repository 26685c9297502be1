"""`dpcalc check`: the gate for continuous integration."""
# ruff: noqa: PLC0415  heavy imports wait until a command needs them

from dataclasses import replace
from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.answer import Answer
from dpcalc.cli.sources import found_configs
from dpcalc.errors import InputError

EXAMPLE = "Example: dpcalc check configs/*.yaml --require-budget --report json=privacy.json"


def check(  # noqa: PLR0913  one parameter an option
    configs: options.Configs = None,
    *,
    key: options.Key = "",
    assignments: options.Assignments = None,
    report: Annotated[
        list[str] | None,
        typer.Option(metavar="FORMAT[=PATH]", help="text or json; to PATH or standard output. May be repeated."),
    ] = None,
    as_json: options.Json = False,
    max_epsilon: Annotated[
        str | None, typer.Option(metavar="E", help="Fail above E, even where the budget allows more.")
    ] = None,
    require_budget: Annotated[bool, typer.Option("--require-budget", help="Fail a config without a budget.")] = False,
    allow_empty: Annotated[bool, typer.Option("--allow-empty", help="Pass when there is no config to check.")] = False,
    exit_zero: Annotated[bool, typer.Option("--exit-zero", help="Exit 0 instead of 1; 2 and 3 stay.")] = False,
    verbose: options.Verbose = False,
) -> Answer:
    """Check that every config stays within its budget.

    Exit code 0: all do. 1: one does not. 2: an input must be fixed. 3: there is no verdict. Of several, the highest.
    """
    paths = configs or found_configs()
    if not paths and not allow_empty:
        raise InputError("nothing to check: expected one or more config files, got none; --allow-empty permits that")

    from dpcalc.cli.gate import gate_answer
    from dpcalc.cli.reports import reports
    from dpcalc.gate.check import Limits
    from dpcalc.gate.check import check as results_of

    wanted = reports(report or (), as_json=as_json)
    limits = Limits(max_epsilon=options.number("--max-epsilon", max_epsilon), require_budget=require_budget)
    results = results_of(paths, key=key, assignments=assignments or (), limits=limits)
    answer = gate_answer("check", results, reports=wanted, verbose=verbose)
    return replace(answer, code=0) if exit_zero and answer.code == 1 else answer
