"""The Typer application: every command with its section of the help and the options that it shares with others.

The first paragraphs of a command's docstring are its help, the last one an example. A command with a parameter
`request` gets what the shared options say as a `Request`.
"""

import inspect
import math
from collections.abc import Callable, Collection
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from dpcalc._version import __version__
from dpcalc.cli.check import check, diff, explain, lock, validate
from dpcalc.cli.configs import import_, init, scan, schema, show
from dpcalc.cli.epsilon import compare, delta, epsilon, pate, risk, statement
from dpcalc.cli.explore import audit, audit_sampler, curve, simulate, sweep
from dpcalc.cli.ledger import add
from dpcalc.cli.ledger import check as check_ledger
from dpcalc.cli.ledger import show as show_ledger
from dpcalc.cli.options import FORMATS, OVERRIDES, SHARED, Request, ended_after, progress
from dpcalc.cli.output import CommandResult
from dpcalc.cli.solve import solve_group, solve_rate, solve_sigma, solve_steps
from dpcalc.errors import InputError

Command = Callable[..., CommandResult]
ONE = SHARED.keys() - {"form", "as_json", "as_csv"}
SEVERAL = ONE - {"config"}  # of commands with CONFIG... of their own
FORM = {"form", "as_json"}  # of commands whose result can be a table
CURVE = SEVERAL - {"method"}  # which takes several methods
GATE = CURVE - {"no_config"}  # which judges every config by one accountant
TIME, SECTION = {"timeout"}, {"key"}
COMMANDS: dict[str, dict[Command, Collection[str]]] = {
    "Compute the privacy cost of one run": {epsilon: SEVERAL | FORM, delta: ONE | FORM, risk: ONE | FORM, pate: TIME},
    "Solve for a setting": dict.fromkeys((solve_sigma, solve_steps, solve_rate, solve_group), ONE | FORM),
    "Compare and explore": {
        compare: SEVERAL | FORM,
        curve: CURVE | FORM | {"as_csv"},
        sweep: ONE | FORM | {"as_csv"},
        simulate: ONE,
        audit: SEVERAL,
        audit_sampler: SEVERAL,
    },
    "Gate changes in continuous integration": {check: GATE, diff: GATE, lock: SECTION, validate: GATE, explain: ()},
    "State and record": {statement: ONE},
    "Write and read configs": {init: (), import_: TIME, scan: TIME, show: ONE, schema: ()},
}
"""By section of the help: commands, and the names of the options in SHARED that each takes."""
LEDGER: dict[Command, Collection[str]] = {add: {"key", "assignments", "timeout"}, show_ledger: TIME, check_ledger: ()}


@cache
def application() -> Any:
    """Return the command `dpcalc` with all others below it, as Typer builds it."""
    app = typer.Typer(
        help="Compute, compare and gate the privacy budget of training runs, nested sampling included.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,  # `app.run` turns exceptions into exit codes
    )
    app.callback()(_root)
    for panel, commands in COMMANDS.items():
        for function, shared in commands.items():
            _add(app, function, shared, panel)
        if statement in commands:
            ledger = typer.Typer(
                help="Record the runs on one data set and compute what they cost together.", no_args_is_help=True
            )
            for function, shared in LEDGER.items():
                _add(ledger, function, shared, None)
            app.add_typer(ledger, name="ledger", rich_help_panel=panel)
    return typer.main.get_command(app)


def _add(app: typer.Typer, function: Command, shared: Collection[str], panel: str | None) -> None:
    """Add a command that takes the shared options too, runs below a progress bar, and is ended after its --timeout."""
    name = function.__name__.rstrip("_").replace("_", "-")
    # Evaluated, since the modules of commands postpone their annotations as texts.
    own = inspect.signature(function, eval_str=True).parameters
    more = [option for option in SHARED if option in shared and option not in own]

    def run(context: typer.Context, **values: Any) -> CommandResult:
        try:
            Path.cwd()
        except FileNotFoundError:
            raise InputError(
                "current directory: expected one that exists, got a deleted one; change to another"
            ) from None
        given = {option: values.pop(option) for option in more}
        forms = [name for name in ("json", "csv") if given.get(f"as_{name}")]  # options of their own, for two formats
        forms += [given["form"]] if given.get("form") else []
        if set(forms) - {*FORMATS}:
            raise InputError(f"--format: expected one of {', '.join(FORMATS)}, got `{forms[-1]}`")
        if len(set(forms)) > 1:
            raise InputError(f"--format: expected one, got {' and '.join(forms)}; leave out all but one")
        form = forms[0] if forms else ""
        if "request" in own:
            texts = [(option, given.get(option.removeprefix("--").replace("-", "_"))) for option in OVERRIDES]
            values["request"] = Request(
                context=context,
                config=given.get("config"),
                no_config=given.get("no_config", False),
                key=given.get("key", ""),
                form=form,
                assignments=tuple(given.get("assignments") or ()),
                unset=tuple(given.get("unset") or ()),
                flags=tuple((option, text) for option, text in texts if text is not None),
            )
        bar = nullcontext() if function is init else progress(name)  # it asks, and a bar would run over the answers
        with bar, ended_after(given.get("timeout") or math.inf):
            return function(**values)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("context", keyword, annotation=typer.Context)]
    parameters += [each.replace(kind=keyword) for each in own.values() if each.name != "request"]
    for option in more:
        annotation, default = SHARED[option]
        parameters.append(inspect.Parameter(option, keyword, default=default, annotation=annotation))
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # Typer reads the options from it
    *paragraphs, example = (" ".join(each.split()) for each in (function.__doc__ or "").split("\n\n"))
    app.command(name, help="\n\n".join(paragraphs), epilog=example, rich_help_panel=panel)(run)


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"dpcalc {__version__}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Declare `dpcalc --version`."""
