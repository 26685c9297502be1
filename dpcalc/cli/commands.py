"""The Typer application with all commands, and their plain help pages."""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from dpcalc._version import __version__
from dpcalc.cli.options import SHARED
from dpcalc.cli.output import width
from dpcalc.cli.progress import progress
from dpcalc.cli.sources import CURVE, GATE, SEVERAL, with_shared
from dpcalc.errors import InputError

# Plain help pages: no markup or emoji codes, options in sections, no line cut off.

_OPTIONS, _ARGUMENTS, _COMMANDS = "Options", "Arguments", "Commands"
_HYPHEN = "\N{NON-BREAKING HYPHEN}"
_NARROW, _LEAST_WIDTH = 52, 36  # columns below which click's layout does not fit; of the narrowest help page


class HelpfulCommand(TyperCommand):
    """A command with a plain help page, and a progress bar while it runs."""

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        """Return the command's parameters; texts, lists of texts and flags are not converted by pydantic."""
        return _without_conversion(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the words of the usage line after the command's name: "[OPTIONS]", then its arguments."""
        return [self.options_metavar or "", *map(_usage_word, filter(_is_argument, self.get_params(ctx)))]

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write arguments and options, in a section for each panel."""
        _write_parameters(self.get_params(ctx), formatter)

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        """Run the command below a progress bar with its name; InputError if the current directory was deleted."""
        try:
            Path.cwd()
        except FileNotFoundError:
            raise InputError(
                "current directory: expected one that exists, got a deleted one; change to another"
            ) from None
        with progress(self.name or "computing"):
            return super().invoke(ctx)


def _without_conversion(params: list[Any]) -> list[Any]:
    """Return the parameters after making those for texts and flags skip the conversion by pydantic."""
    for param in params:
        declared = getattr(param, "type_descriptor", None)  # a Typer without it does not convert with pydantic
        is_changed = isinstance(param.process_value, partial)
        if not is_changed and getattr(declared, "annotation", None) in (str, list[str], bool):
            param.process_value = partial(_unconverted, param, param.process_value)
    return params


def _unconverted(param: Any, converted: Callable[[Any, Any], Any], ctx: typer.Context, value: Any) -> Any:
    """Return texts as typed, after any callback; convert what is no text, or required and missing, as Typer would."""
    is_list = param.multiple or param.nargs != 1
    words = (value or ()) if is_list else (() if value is None else (value,))
    is_usual = isinstance(words, list | tuple) and all(isinstance(word, str) for word in words)
    if not is_usual or (param.required and not words):
        return converted(ctx, value)
    kept = (list(words) or ()) if is_list else value
    return kept if param.callback is None else param.callback(ctx, param, kept)


class HelpfulGroup(TyperGroup):
    """A group of commands with a plain help page."""

    def get_params(self, ctx: typer.Context) -> list[Any]:  # type: ignore[override]
        """Return the group's own parameters; texts, lists of texts and flags are not converted by pydantic."""
        return _without_conversion(super().get_params(ctx))

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write options, then the commands with the first paragraphs of their help, in a section for each panel."""
        _write_parameters(self.get_params(ctx), formatter)
        rows = []
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            summary = (command.help or "").partition("\n\n")[0].replace("\n", " ")
            rows.append((_panel(command, _COMMANDS), name, summary))
        _write_sections(formatter, rows)


def _narrow_width() -> int | None:
    """Return the width of help pages on a terminal of under 52 columns, where click writes 50; else None."""
    columns = width()
    return max(columns, _LEAST_WIDTH) if columns < _NARROW else None


def _write_rows(formatter: Any, rows: list[tuple[str, str]]) -> None:
    """Write (name, text) rows in two columns, or each text below its name on a narrow page; no hyphen ends a line."""
    col_max = 30 if formatter.width >= _NARROW - 2 else 2  # on a narrow terminal texts stand below their names
    formatter.write_dl([(name, text.replace("-", _HYPHEN)) for name, text in rows], col_max=col_max)
    formatter.buffer = [each.replace(_HYPHEN, "-") for each in formatter.buffer]


def _write_parameters(params: Iterable[Any], formatter: Any) -> None:
    """Write names and help of parameters that are not hidden in a section for each panel, arguments first."""
    shown = [param for param in params if not getattr(param, "hidden", False)]
    rows = [
        (_panel(param, _ARGUMENTS if _is_argument(param) else _OPTIONS), _name_column(param), _text_column(param))
        for param in sorted(shown, key=_is_argument, reverse=True)
    ]
    _write_sections(formatter, rows)


def _panel(item: Any, usual: str) -> str:
    """Return the title of the help section that a command or parameter declares; `usual` if it declares none."""
    declared = getattr(item, "rich_help_panel", None)
    return declared if isinstance(declared, str) else usual


def _write_sections(formatter: Any, rows: Iterable[tuple[str, str, str]]) -> None:
    """Write (section, name, text) rows, a section after the other in the order of their first rows."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for section, name, text in rows:
        sections.setdefault(section, []).append((name, text))
    for section, rows_of_section in sections.items():
        with formatter.section(section):
            _write_rows(formatter, rows_of_section)


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _usage_word(argument: Any) -> str:
    """Return an argument as the usage line shows it: optional ones in brackets, repeated ones with dots."""
    name = argument.metavar or argument.name.upper()
    return f"{name if argument.required else f'[{name}]'}{'' if argument.nargs == 1 else '...'}"


def _name_column(param: Any) -> str:
    """Return the left help column of a parameter: its spellings, and its METAVAR unless it is a flag."""
    metavar = param.metavar or param.name.upper()
    if _is_argument(param):
        return str(metavar)
    spellings = ", ".join(sorted((*param.opts, *param.secondary_opts), key=len))
    return spellings if param.is_flag else f"{spellings} {metavar}"


def _text_column(param: Any) -> str:
    """Return the right help column of a parameter: its help, "[default: ...]" if it has one, and "[required]"."""
    default = _default_column(param)
    return f"{param.help or ''}{default and f'  [default: {default}]'}{'  [required]' if param.required else ''}"


def _default_column(param: Any) -> str:
    """Return the description of a default, or else its value; "" for no default, a flag's or a computed one."""
    if param.show_default is not True:
        return param.show_default or ""
    if callable(param.default) or getattr(param, "is_flag", False):
        return ""
    return str(getattr(param.default, "value", param.default) or "")


# The Typer application with all commands.

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
    "curve": (EXPLORE, "explore", CURVE),
    "sweep": (EXPLORE, "explore", ONE),
    "simulate": (EXPLORE, "explore", ONE),
    "audit": (EXPLORE, "explore", SEVERAL),
    "audit-sampler": (EXPLORE, "explore", SEVERAL),
    "check": (JUDGE, "check", GATE),
    "diff": (JUDGE, "check", GATE),
    "lock": (JUDGE, "check", SECTION),
    "validate": (JUDGE, "check", GATE),
    "explain": (JUDGE, "check", ()),
    "statement": (RECORD, "epsilon", ONE),
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
    """Return the Typer application with all commands, or with the one command `only`, which starts faster."""
    commands = typer.Typer(
        name="dpcalc",
        cls=HelpfulGroup,
        help="Compute, compare and gate the privacy budget of training runs, nested sampling included.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "terminal_width": _narrow_width()},
        pretty_exceptions_enable=False,  # `app.run` turns exceptions into exit codes
        rich_markup_mode=None,
    )
    commands.callback()(root)
    for name in (only,) if only in COMMANDS else COMMANDS:
        _add_command(commands, name)
    return commands


def _add_command(commands: typer.Typer, name: str) -> None:
    """Import the command or group that COMMANDS has under a name, and add it to the application."""
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


def _print_version(is_given: bool) -> None:
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
    """Do nothing: the parameter declares `dpcalc --version`, which its callback prints."""
