"""The Typer application with all commands."""

from collections.abc import Collection
from importlib import import_module
from keyword import iskeyword
from typing import Annotated

import typer

from dpcalc._version import __version__
from dpcalc.cli.help import HelpfulCommand, HelpfulGroup
from dpcalc.cli.options import SHARED
from dpcalc.cli.sources import CURVE, GATE, SEVERAL, with_shared

COMPUTE, SOLVE, EXPLORE = "Compute the privacy cost of one run", "Solve for a setting", "Compare and explore"
JUDGE, RECORD, FILES = "Gate changes in continuous integration", "State and record", "Write and read configs"
ONE, TIME, SECTION = SHARED.keys(), {"timeout"}, {"key"}
COMMANDS: dict[str, tuple[str, str, Collection[str]]] = {
    "epsilon": (COMPUTE, "epsilon", SEVERAL),
    "delta": (COMPUTE, "epsilon", ONE),
    "risk": (COMPUTE, "epsilon", ONE),
    "pate": (COMPUTE, "pate", TIME),
    "solve-sigma": (SOLVE, "solve", ONE),
    "solve-steps": (SOLVE, "solve", ONE),
    "solve-rate": (SOLVE, "solve", ONE),
    "solve-group": (SOLVE, "solve", ONE),
    "compare": (EXPLORE, "epsilon", SEVERAL),
    "curve": (EXPLORE, "curve", CURVE),
    "sweep": (EXPLORE, "sweep", ONE),
    "simulate": (EXPLORE, "audit", ONE),
    "audit": (EXPLORE, "audit", SEVERAL),
    "audit-sampler": (EXPLORE, "audit", SEVERAL),
    "check": (JUDGE, "check", GATE),
    "diff": (JUDGE, "check", GATE),
    "lock": (JUDGE, "check", SECTION),
    "validate": (JUDGE, "check", GATE),
    "explain": (JUDGE, "explain", ()),
    "statement": (RECORD, "statement", ONE),
    "ledger": (RECORD, "ledger", ()),
    "init": (FILES, "configs", ()),
    "import": (FILES, "configs", TIME),
    "scan": (FILES, "configs", TIME),
    "show": (FILES, "configs", ONE),
    "schema": (FILES, "configs", ()),
}
"""By name: the section of the help, the module in `dpcalc.cli`, and the names of options that are shared with others.

`solve-sigma` is the function `solve_sigma` there, with the example SOLVE_SIGMA_EXAMPLE; that of `import` is `import_`.
`ledger` is a group of commands with an `application` of its own.
"""


def application(only: str = "") -> typer.Typer:
    """Return the Typer application, its commands grouped in sections of the help.

    Args:
        only: name of the one command to load: the modules of the others cost a tenth of the time to start. All commands
            if it names none.

    Returns:
        A Typer group, also if it has one command.
    """
    commands = typer.Typer(
        name="dpcalc",
        cls=HelpfulGroup,
        help="Compute, compare and gate the privacy budget of training runs, nested sampling included.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    commands.callback()(root)
    for name in (only,) if only in COMMANDS else COMMANDS:
        _add(commands, name)
    return commands


def _add(commands: typer.Typer, name: str) -> None:
    """Import the module of a command in COMMANDS and add it to the application, with the options that it shares."""
    panel, module_name, shared = COMMANDS[name]
    module = import_module(f"dpcalc.cli.{module_name}")
    if hasattr(module, "application"):
        commands.add_typer(module.application(), rich_help_panel=panel)
        return
    word = name.replace("-", "_")
    example = getattr(module, f"{word.upper()}_EXAMPLE")
    function = getattr(module, f"{word}_" if iskeyword(word) else word)
    add = commands.command(name, cls=HelpfulCommand, epilog=example, rich_help_panel=panel)
    add(with_shared(function, names=shared) if shared else function)


def _print_version(is_given: bool) -> None:  # noqa: FBT001  Typer calls it so
    """Print the version and raise typer.Exit, if the option is given."""
    if is_given:
        typer.echo(f"dpcalc {__version__}")
        raise typer.Exit


def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options of dpcalc itself."""
