"""Arguments and options that commands share: how each is declared, read from its text, and completed by a shell."""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from dpcalc.accountants import METHODS
from dpcalc.config.discovery import find_configs
from dpcalc.config.load import load
from dpcalc.config.scalars import parse_number, parse_quotient, word_hint
from dpcalc.config.schema import json_schema
from dpcalc.errors import listed
from dpcalc.gate.verdict import Limit
from dpcalc.guarantee import Adjacency
from dpcalc.report.formats import REPORTS
from dpcalc.sampling.schemes import SCHEMES

PANEL = "Override the config, or replace it"
EVERY_UNIT = "all"  # what `--unit` takes instead of a level

# What a text means. Typer calls these with the text, or with the default.


def number(expected: str, is_valid: Callable[[float], bool], *, quotients: bool = True) -> Callable[[str], float]:
    """Return a parser of numbers, and of quotients such as 1/97, that `is_valid` accepts."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            quotient = parse_quotient(text.strip()) if quotients else None
            value = math.nan if quotient is None else float(quotient)
        if is_valid(value):
            return value
        hint = word_hint(text)
        raise typer.BadParameter(f"expected {expected}, got `{text}`{hint and f'; {hint}'}")

    return parse


nonnegative = number("a finite number >= 0", lambda value: 0 <= value < math.inf)
positive = number("a finite number > 0", lambda value: 0 < value < math.inf)
finite = number("a finite number", math.isfinite)
probability = number("a probability between 0 and 1, both excluded", lambda value: 0 < value < 1)


def whole(min_value: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `min_value` to 2^53, up to which a float holds every whole number."""
    parse = number(
        f"a whole number >= {min_value}",
        lambda value: min_value <= value <= 2.0**53 and value == int(value),
        quotients=False,
    )
    return lambda text: int(parse(text))


def exact(text: str) -> Any:
    """Return a number > 0, also a quotient, as an exact fraction."""
    value = parse_number(text.strip()) or parse_quotient(text.strip())
    if value is None or value <= 0:
        raise typer.BadParameter(f"expected a number > 0, got `{text}`")
    return value


_gigabytes = number("a number of gigabytes > 0", lambda value: 0 < value < math.inf)


def revision(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("expected a git revision, got nothing; is a variable of the workflow not set?")
    return text


def bytes_of(gigabytes: float) -> int:
    return int(min(gigabytes * 1e9, 2**60)) or 1


# What a shell offers for a word that is begun.


def one_of(words: Iterable[str]) -> Callable[[str], list[str]]:
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def config_keys(*, ending: str = "") -> Callable[[str], list[str]]:
    """Return the completion of the config's dotted keys, `ending` after each; items of a list have the key "[0]"."""

    def offered(incomplete: str) -> list[str]:

        schema: Any = json_schema()

        def keys(section: Any, prefix: str) -> Iterator[str]:
            for key, value in section["properties"].items():
                is_list = value.get("type") == "array"
                kinds = [value["items"] if is_list else value, *value.get("anyOf", ())]
                named = (schema["$defs"].get(str(each.get("$ref", "")).rpartition("/")[2], {}) for each in kinds)
                inner = next((each for each in named if "properties" in each), None)
                dotted = f"{prefix}{key}[0]" if is_list else f"{prefix}{key}"
                if inner is None or "anyOf" in value:  # a value, or one that may be a mapping
                    yield f"{dotted}{ending}"
                yield from keys(inner, f"{dotted}.") if inner else ()

        return [key for key in keys(schema, "") if key.startswith(incomplete)]

    return offered


def names_of_config(section: str, *more: str) -> Callable[[typer.Context, str], list[str]]:
    """Return the completion of the names of levels or phases in the config that the command would use, and `more`."""

    def offered(context: typer.Context, incomplete: str) -> list[str]:

        names: list[str] = []
        with suppress(Exception):  # a shell that completes has no place for a message
            # The parser stops at the option that has no value yet: the words before it are left over.
            paths = [context.params.get("config"), *(context.params.get("configs") or ()), *context.args]
            path = next((path for path in paths if path and not path.startswith("-")), None)
            discovery = find_configs(Path.cwd(), os.environ) if path is None else None
            phases = load(str(discovery.only if discovery else path)).plan.phases
            parts: Any = phases[0].hierarchy.levels if section == "levels" else phases
            names = [part.name for part in parts]
        return one_of((*names, *more))(incomplete)

    return offered


def given(metavar: str, text: str, parser: Callable[[str], Any] | None = None, /, *names: str, **more: Any) -> Any:
    """Return an option as Typer takes it, by what every one has: the name of its value, its help, what reads it."""
    return typer.Option(*names, metavar=metavar, help=text, parser=parser, **more)


# Options of more than one command.

Config = Annotated[
    str | None,
    typer.Argument(metavar="CONFIG", help="The config file; - is standard input. Without it the nearest dpcalc.yaml."),
]
Configs = Annotated[list[str] | None, typer.Argument(metavar="CONFIG", help="Config files; - is standard input.")]
SeveralConfigs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CONFIG",
        help="The config file, or several for one table; - is standard input. Without it the nearest dpcalc.yaml.",
    ),
]
Reports = Annotated[
    list[str] | None,
    given(
        "FORMAT[=PATH]",
        f"{listed(tuple(REPORTS))}; to PATH or standard output. May be repeated.",
        None,
        "--report",
        autocompletion=one_of(REPORTS),
    ),
]
Base = Annotated[str | None, given("REV", "Compare with a git revision.", revision, "--base")]
MaxEpsilon = Annotated[
    Limit | None,
    given(
        "E",
        "Fail above E, even if the budget allows more.",
        lambda text: Limit(value=nonnegative(text), source="--max-epsilon"),
        "--max-epsilon",
    ),
]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="Exit 0 instead of 1; 2 and 3 stay.")]
GATE_SECONDS, GIGABYTES = 600, 4  # for configs that others wrote; no sample config comes near
# At most 11 days: a wait of more than 24 days overflows the clock of some systems.
Timeout = Annotated[
    float | None,
    given("S", "Give up after S seconds, with exit code 3.", lambda text: min(positive(text), 1e6), "--timeout"),
]
MemoryLimit = Annotated[
    float, given("GB", "Memory of each worker process; beyond it exit code 3 (Linux).", _gigabytes, "--memory-limit")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON: every number in full, schema dpcalc.result/1.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print one number only: 6 significant digits, rounded up, or inf.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show details.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Plot = Annotated[
    str | None, given("FILE", "Write a picture too: *.svg, *.png, *.pdf; it needs matplotlib.", None, "--plot")
]
FORMATS = ("table", "csv", "markdown", "json")
Format = Annotated[
    str | None,
    given(
        "NAME",
        f"{listed(FORMATS)}; csv and json have numbers in full.",
        None,
        "--format",
        show_default="a table on a terminal, else lines",
        autocompletion=one_of(FORMATS),
    ),
]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, every number in full.")]


# Options of commands that read a config, which they all get alike: see `dpcalc.cli.sources.Request`.


OVERRIDES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "--unit": ("LEVEL", "The level whose units are protected; all for each level in turn.", (EVERY_UNIT,)),
    "--group-size": ("N", "Units that are protected together.", ()),
    "--delta": ("D", "How much likelier an event may be beyond the factor e^epsilon.", ()),
    "--adjacency": ("NAME", f"{listed(tuple(Adjacency))}.", tuple(Adjacency)),
    "--method": ("NAME", f"The accountant: {listed(METHODS)}.", METHODS),
    "--scheme": ("NAME", f"{listed(tuple(SCHEMES))}.", tuple(SCHEMES)),
    "--sample-rate": ("Q", "Probability that a Poisson step draws an example, e.g. 0.01 or 1/97.", ()),
    "--batch-size": ("N", "Examples drawn in a step; for Poisson the expected number.", ()),
    "--dataset-size": ("N", "Number of examples.", ()),
    "--steps": ("N", "Number of noisy updates.", ()),
    "--epochs": ("N", "Passes over the data, rounded up to whole steps.", ()),
    "--noise-multiplier": ("S", "Noise standard deviation / clip norm of one step.", ()),
}
"""Options that are short for `--set` of one key: (name of the value, help, words that the shell completes)."""
SHARED: dict[str, tuple[Any, object]] = {
    "config": (Config, None),
    "no_config": (
        Annotated[bool, typer.Option("--no-config", help="Do not search for a config file.", rich_help_panel=PANEL)],
        False,
    ),
    "key": (
        Annotated[
            str,
            given(
                "PATH",
                "Section of the file that is the config, e.g. train.privacy; by default dpcalc, if present.",
                None,
                "--key",
                rich_help_panel=PANEL,
            ),
        ],
        "",
    ),
    "assignments": (
        Annotated[
            list[str] | None,
            given(
                "KEY=VALUE",
                "Override a key, e.g. training.steps=5000. May be repeated.",
                None,
                "--set",
                rich_help_panel=PANEL,
                autocompletion=config_keys(ending="="),
            ),
        ],
        None,
    ),
    "unset": (
        Annotated[
            list[str] | None,
            given(
                "KEY",
                "Remove a key from the config. May be repeated.",
                None,
                "--unset",
                rich_help_panel=PANEL,
                autocompletion=config_keys(),
            ),
        ],
        None,
    ),
    **{
        option.removeprefix("--").replace("-", "_"): (
            Annotated[
                str | None,
                given(
                    metavar,
                    text,
                    None,
                    option,
                    rich_help_panel=PANEL,
                    autocompletion=names_of_config("levels", *words) if option == "--unit" else one_of(words),
                ),
            ],
            None,
        )
        for option, (metavar, text, words) in OVERRIDES.items()
    },
    "timeout": (Timeout, None),
    "form": (Format, None),
    "as_json": (Json, False),
    "as_csv": (Csv, False),
}
"""(declaration, default) of each, by the name of its parameter."""
