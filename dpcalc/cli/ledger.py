"""`dpcalc ledger`: the privacy cost of all runs on one data set together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from dpcalc.cli import options
from dpcalc.cli.commands import HelpfulCommand, HelpfulGroup
from dpcalc.cli.output import CommandResult, output_text, remarks
from dpcalc.cli.sources import with_shared
from dpcalc.errors import InputError

if TYPE_CHECKING:
    from dpcalc.planner.plan import Plan

ADD_EXAMPLE = "Example: dpcalc ledger add clinics.ledger.yaml clinic.yaml --budget 8"
SHOW_EXAMPLE = "Example: dpcalc ledger show clinics.ledger.yaml"
CHECK_EXAMPLE = "Example: dpcalc ledger check clinics.ledger.yaml --base origin/main"

Ledger = Annotated[str, typer.Argument(metavar="LEDGER", help="The ledger, a YAML file.")]


def add(
    ledger: Ledger,
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="The config of the run; - is standard input.")],
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the run; by default that of its config.")] = "",
    delta: Annotated[str | None, typer.Option(metavar="D", help="Delta of a new ledger; else the config's.")] = None,
    budget: Annotated[str | None, typer.Option(metavar="E", help="Budget of a new ledger; else the config's.")] = None,
    part: Annotated[
        str,
        typer.Option(metavar="NAME", help="The part of the data that the run draws from, of the ledger's partition."),
    ] = "",
    over_budget: Annotated[
        bool, typer.Option("--over-budget", help="Add the run although it exceeds the budget: it has been done.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compute the cost, and write nothing.")] = False,
    key: options.Key = "",
    assignments: options.Assignments = None,
    as_json: options.Json = False,
) -> CommandResult:
    """Add a run to a ledger, unless that would exceed its budget.

    The first run creates the ledger and sets its data, unit, adjacency and delta. Exit code 1: not added.
    """
    from dpcalc.config.load import load
    from dpcalc.gate.ledger import add as added_to
    from dpcalc.report.ledger import ledger_output

    run = load(config, key=key, assignments=assignments or ())
    account, written = added_to(
        ledger,
        run.plan,
        name=name or run.plan.name or _name_of(config),
        part=part,
        opening=(options.number("--delta", delta), options.number("--budget", budget)),
        allow_over_budget=over_budget,
        dry_run=dry_run,
    )
    asides = [*remarks(run.diagnostics), *_promise_notes(run.plan, account.loaded.plan)]
    asides += _budget_remarks(account.keeps_budget, written, dry_run)
    # A dry run answers as the real one would.
    code = 0 if written or (dry_run and account.keeps_budget) else 1
    text = output_text(ledger_output(account, is_added=written), as_json=as_json)
    return CommandResult(text=text, code=code, asides=tuple(asides), changed=(ledger,) if written else ())


def show(ledger: Ledger, *, as_json: options.Json = False) -> CommandResult:
    """Show the cost of each run in a ledger alone, and of all together."""
    from dpcalc.gate.ledger import account
    from dpcalc.report.ledger import ledger_output

    evaluated = account(ledger)
    text = output_text(ledger_output(evaluated), as_json=as_json)
    return CommandResult(text=text, asides=remarks(evaluated.loaded.diagnostics))


def check(
    ledger: Ledger,
    *,
    base: Annotated[
        str | None, typer.Option(metavar="REV", help="A git revision whose entries must all be there.")
    ] = None,
    max_epsilon: Annotated[
        str | None, typer.Option(metavar="E", help="Fail above E, even if the budget allows more.")
    ] = None,
    report: options.Reports = None,
    as_json: options.Json = False,
    timeout: options.GateTimeout = options.GATE_SECONDS,
    memory_limit: options.MemoryLimit = options.GIGABYTES,
) -> CommandResult:
    """Check that a ledger keeps to its budget and that no entry was changed or removed.

    Exit code 0: it does. 1: it does not. 2: an input must be fixed. 3: there is no verdict.
    """
    from dpcalc.cli.gate import gate_answer, max_epsilon_limit, reports
    from dpcalc.cli.progress import costs_in_time
    from dpcalc.gate.check import Demands
    from dpcalc.gate.ledger import check_ledger
    from dpcalc.gate.policy import Policy

    chosen_reports = reports(report or (), as_json=as_json)
    policy = Policy(max_epsilon=max_epsilon_limit(max_epsilon))
    with costs_in_time(timeout, memory_limit) as costs:
        result = check_ledger(ledger, base=options.revision(base), demands=Demands(policy=policy), costs=costs)
    return gate_answer("check", [result], reports=chosen_reports, verbose=False)


def application() -> typer.Typer:
    """Return the Typer group of `dpcalc ledger` with its commands add, show and check."""
    commands = typer.Typer(
        name="ledger",
        cls=HelpfulGroup,
        help="Record the runs on one data set and compute what they cost together.",
        epilog=ADD_EXAMPLE,
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    commands.command(cls=HelpfulCommand, epilog=ADD_EXAMPLE)(with_shared(add, names={"timeout"}))
    commands.command(cls=HelpfulCommand, epilog=SHOW_EXAMPLE)(with_shared(show, names={"timeout"}))
    commands.command(cls=HelpfulCommand, epilog=CHECK_EXAMPLE)(check)
    return commands


def _name_of(config: str) -> str:
    """Return the file name of a config without folder and ending; InputError for standard input ("-")."""
    if config == "-":
        raise InputError("--name: expected a name for a run that is read from standard input, got none")
    return PurePath(config).stem


def _promise_notes(run: Plan, ledger: Plan) -> Iterator[str]:
    """Yield a note if a run and its ledger differ in unit, adjacency or group size."""
    from dpcalc.config.source import visible

    ours, theirs = (f"unit {plan.unit_name}, {plan.adjacency}, groups of {plan.group_size}" for plan in (ledger, run))
    if ours != theirs:
        yield f"note: the ledger states {visible(ours)}; the config of the run states {visible(theirs)}"


def _budget_remarks(fits: bool, written: bool, dry_run: bool) -> tuple[str, ...]:
    """Return a remark if nothing was written or the ledger now exceeds its budget; () otherwise."""
    if fits:
        return ("note: nothing was written: --dry-run",) if dry_run else ()
    if written:
        return ("warning: the run was added although the ledger now exceeds its budget",)
    return ("note: nothing was written: the budget would be exceeded; --over-budget adds a run that has been done",)
