"""`dpcalc ledger`: the privacy cost of all runs on one data set together."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.check import gate_answer, reports
from dpcalc.cli.options import Request, costs_in_time, given, nonnegative
from dpcalc.cli.output import CommandResult, answer
from dpcalc.config.load import load
from dpcalc.config.source import visible
from dpcalc.errors import InputError
from dpcalc.gate.policy import Policy
from dpcalc.report.gate import ledger_output

Ledger = Annotated[str, typer.Argument(metavar="LEDGER", help="The ledger, a YAML file.")]


def add(
    request: Request,
    ledger: Ledger,
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="The config of the run; - is standard input.")],
    *,
    name: Annotated[str, given("NAME", "Name of the run; by default that of its config.")] = "",
    delta: Annotated[float | None, given("D", "Delta of a new ledger; else the config's.", nonnegative)] = None,
    budget: Annotated[float | None, given("E", "Budget of a new ledger; else the config's.", nonnegative)] = None,
    part: Annotated[
        str, given("NAME", "The part of the data that the run draws from, of the ledger's partition.")
    ] = "",
    over_budget: Annotated[
        bool, typer.Option("--over-budget", help="Add the run although it exceeds the budget: it has been done.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compute the cost, and write nothing.")] = False,
    as_json: options.Json = False,
) -> CommandResult:
    """Add a run to a ledger, unless that would exceed its budget.

    The first run creates the ledger and sets its data, unit, adjacency and delta. Exit code 1: not added.

    Example: dpcalc ledger add clinics.ledger.yaml clinic.yaml --budget 8
    """
    from dpcalc.gate.ledger import add as added_to

    run = load(config, key=request.key, assignments=request.assignments)
    name = name or run.plan.name or ("" if config == "-" else PurePath(config).stem)
    if not name:
        raise InputError("--name: expected a name for a run that is read from standard input, got none")
    account, written = added_to(
        ledger,
        run.plan,
        name=name,
        part=part,
        opening=(delta, budget),
        allow_over_budget=over_budget,
        dry_run=dry_run,
    )
    fits = account.keeps_budget
    asides = []
    ours, theirs = (
        f"unit {plan.unit_name}, {plan.adjacency}, groups of {plan.group_size}"
        for plan in (account.loaded.plan, run.plan)
    )
    if ours != theirs:
        asides.append(f"note: the ledger states {visible(ours)}; the config of the run states {visible(theirs)}")
    if fits and dry_run:
        asides.append("note: nothing was written: --dry-run")
    elif not fits and written:
        asides.append("warning: the run was added although the ledger now exceeds its budget")
    elif not fits:
        asides.append(
            "note: nothing was written: the budget would be exceeded; --over-budget adds a run that has been done"
        )
    return answer(
        ledger_output(account, is_added=written),
        run.diagnostics,
        form="json" if as_json else "",
        asides=asides,
        code=0 if written or (dry_run and fits) else 1,  # a dry run answers as the real one would
        changed=(ledger,) if written else (),
    )


def show(ledger: Ledger, *, as_json: options.Json = False) -> CommandResult:
    """Show the cost of each run in a ledger alone, and of all together.

    Example: dpcalc ledger show clinics.ledger.yaml
    """
    from dpcalc.gate.ledger import account

    evaluated = account(ledger)
    return answer(ledger_output(evaluated), evaluated.loaded.diagnostics, form="json" if as_json else "")


def check(
    ledger: Ledger,
    *,
    base: Annotated[
        str | None, given("REV", "A git revision whose entries must all be there.", options.revision)
    ] = None,
    max_epsilon: options.MaxEpsilon = None,
    report: options.Reports = None,
    as_json: options.Json = False,
    timeout: options.Timeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
) -> CommandResult:
    """Check that a ledger keeps to its budget and that no entry was changed or removed.

    Exit code 0: it does. 1: it does not. 2: an input must be fixed. 3: there is no verdict.

    Example: dpcalc ledger check clinics.ledger.yaml --base origin/main
    """
    from dpcalc.gate.ledger import check_ledger

    chosen_reports = reports(report or (), as_json=as_json)
    policy = Policy(max_epsilon=max_epsilon)
    with costs_in_time(timeout, memory_limit) as costs:
        result = check_ledger(ledger, base=base or "", policy=policy, costs=costs)
    return gate_answer("check", [result], reports=chosen_reports, verbose=False)
