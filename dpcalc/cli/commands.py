"""The Typer application: every command by its name."""

from typing import Annotated

import typer

import dpcalc
from dpcalc.cli import (
    check,
    compare,
    curve,
    delta,
    diff,
    epsilon,
    explain,
    init,
    ledger,
    lock,
    pate,
    risk,
    scan,
    schema,
    show,
    simulate,
    solve,
    statement,
    sweep,
    validate,
)
from dpcalc.cli.sources import AsWrittenCommand, ManyCommand, SourceCommand
from dpcalc.cli.terminal import styled


def application() -> typer.Typer:
    """All commands; markup in the help only where escape sequences are welcome, which Typer itself does not ask."""
    commands = typer.Typer(
        name="dpcalc",
        help="Compute, compare and gate the privacy budget of training runs, nested sampling included.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode="rich" if styled() else None,
    )
    commands.callback()(root)
    commands.command(cls=SourceCommand, epilog=epsilon.EXAMPLE)(epsilon.epsilon)
    commands.command(cls=SourceCommand, epilog=delta.EXAMPLE)(delta.delta)
    commands.command(cls=SourceCommand, epilog=solve.SIGMA_EXAMPLE)(solve.solve_sigma)
    commands.command(cls=SourceCommand, epilog=solve.STEPS_EXAMPLE)(solve.solve_steps)
    commands.command(cls=SourceCommand, epilog=solve.RATE_EXAMPLE)(solve.solve_rate)
    commands.command(cls=SourceCommand, epilog=solve.GROUP_EXAMPLE)(solve.solve_group)
    commands.command(cls=SourceCommand, epilog=compare.EXAMPLE)(compare.compare)
    commands.command(cls=SourceCommand, epilog=risk.EXAMPLE)(risk.risk)
    commands.command(cls=curve.LinesCommand, epilog=curve.EXAMPLE)(curve.curve)
    commands.command(cls=SourceCommand, epilog=sweep.EXAMPLE)(sweep.sweep)
    commands.command(cls=ManyCommand, epilog=check.EXAMPLE)(check.check)
    commands.command(cls=ManyCommand, epilog=diff.EXAMPLE)(diff.diff)
    commands.command(cls=AsWrittenCommand, epilog=lock.EXAMPLE)(lock.lock)
    commands.add_typer(ledger.application())
    commands.command(cls=SourceCommand, epilog=statement.EXAMPLE)(statement.statement)
    commands.command(cls=ManyCommand, epilog=validate.EXAMPLE)(validate.validate)
    commands.command(cls=SourceCommand, epilog=show.EXAMPLE)(show.show)
    commands.command(epilog=scan.EXAMPLE)(scan.scan)
    commands.command(cls=SourceCommand, epilog=simulate.EXAMPLE)(simulate.simulate)
    commands.command(epilog=pate.EXAMPLE)(pate.pate)
    commands.command(epilog=schema.EXAMPLE)(schema.schema)
    commands.command(epilog=explain.EXAMPLE)(explain.explain)
    commands.command(epilog=init.EXAMPLE)(init.init)
    return commands


def _tell_version(asked: bool) -> None:  # noqa: FBT001  Typer calls it so
    """Print the version and leave."""
    if asked:
        typer.echo(f"dpcalc {dpcalc.__version__}")
        raise typer.Exit


def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of dpcalc itself."""
