"""Arguments and options that commands share, and the numbers that their texts mean."""

import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpcalc.accountants import METHODS
from dpcalc.errors import InputError, listed
from dpcalc.guarantee import Adjacency
from dpcalc.report.formats import REPORTS
from dpcalc.sampling.schemes import SCHEMES

if TYPE_CHECKING:
    from dpcalc.planner.plan import Phase

PANEL = "Override the config, or replace it"
ADJACENCIES = tuple(map(str, Adjacency))
EVERY_UNIT = "all"  # what `--unit` takes instead of a level


def one_of(words: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a shell completion: the function from the beginning of a word to the words that begin so."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def config_keys(*, ending: str = "") -> Callable[[str], list[str]]:
    """Return a shell completion of the config's dotted keys, `ending` after each."""

    def offered(incomplete: str) -> list[str]:
        """Return the config's dotted keys, each with `ending`, that begin with the incomplete word."""
        from dpcalc.config.json_schema import json_schema

        schema = json_schema()
        keys = _keys(schema, schema["$defs"], "")
        return [f"{key}{ending}" for key in keys if f"{key}{ending}".startswith(incomplete)]

    return offered


def _phases_in_use(context: typer.Context) -> "tuple[Phase, ...]":
    """Return the phases of the config that an unfinished command line names, or else of the only one that is found."""
    from dpcalc.config.discovery import find_configs
    from dpcalc.config.load import load

    # The parser stops at the option that has no value yet: the words before it are left over.
    paths = [context.params.get("config"), *(context.params.get("configs") or ()), *context.args]
    path = next((path for path in paths if path and not path.startswith("-")), None)
    discovery = find_configs(Path.cwd(), os.environ) if path is None else None
    return load(str(discovery.only if discovery else path)).plan.phases


def names_of_config(section: str, *more: str) -> Callable[[typer.Context, str], list[str]]:
    """Return a shell completion of the names of levels or phases in the config that the command would use."""

    def offered(context: typer.Context, incomplete: str) -> list[str]:
        """Return the names and words that begin with `incomplete`; the words alone where no config can be read."""
        names: list[str] = []
        with suppress(Exception):  # a shell that completes has no place for a message
            phases = _phases_in_use(context)
            levels = phases[0].hierarchy.levels
            names = [level.name for level in levels] if section == "levels" else [phase.name for phase in phases]
        return [name for name in (*names, *more) if name.startswith(incomplete)]

    return offered


def _keys(section: Any, definitions: Any, prefix: str) -> Iterator[str]:
    """Yield the dotted keys that take a value in a section of the JSON Schema, each with `prefix` before it.

    Items of a list have the key "[0]".
    """
    for key, value in section["properties"].items():
        is_list = value.get("type") == "array"
        name = str((value["items"] if is_list else value).get("$ref", "")).rpartition("/")[2]
        dotted = f"{prefix}{key}[0]" if is_list else f"{prefix}{key}"
        if "properties" in definitions.get(name, {}):
            yield from _keys(definitions[name], definitions, f"{dotted}.")
        else:
            yield dotted


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
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a key, e.g. training.steps=5000. May be repeated.",
        rich_help_panel=PANEL,
        autocompletion=config_keys(ending="="),
    ),
]
Key = Annotated[
    str,
    typer.Option(
        "--key",
        metavar="PATH",
        help="Section of the file that is the config, e.g. train.privacy; by default dpcalc, if present.",
        rich_help_panel=PANEL,
    ),
]
NoConfig = Annotated[bool, typer.Option("--no-config", help="Do not search for a config file.", rich_help_panel=PANEL)]
Unset = Annotated[
    list[str] | None,
    typer.Option(
        "--unset",
        metavar="KEY",
        help="Remove a key from the config. May be repeated.",
        rich_help_panel=PANEL,
        autocompletion=config_keys(),
    ),
]
OVERRIDES: dict[str, tuple[str, str, Sequence[str]]] = {
    "--unit": ("LEVEL", "The level whose units are protected; all for each level in turn.", (EVERY_UNIT,)),
    "--group-size": ("N", "Units that are protected together.", ()),
    "--delta": ("D", "How much likelier an event may be beyond the factor e^epsilon.", ()),
    "--adjacency": ("NAME", f"{listed(ADJACENCIES)}.", ADJACENCIES),
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
Reports = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FORMAT[=PATH]",
        help=f"{listed(tuple(REPORTS))}; to PATH or standard output. May be repeated.",
        autocompletion=one_of(REPORTS),
    ),
]
Base = Annotated[str | None, typer.Option("--base", metavar="REV", help="Compare with a git revision.")]
GATE_SECONDS, GIGABYTES = "600", "4"  # for configs that others wrote; no sample config comes near
_LARGEST_WHOLE = 2.0**53  # up to which a float holds every whole number
MAX_SECONDS = 1e6  # 11 days; a wait of more than 24 days overflows the clock of some systems
_TIMEOUT = typer.Option("--timeout", metavar="S", help="Give up after S seconds, with exit code 3.")
Timeout = Annotated[str | None, _TIMEOUT]
GateTimeout = Annotated[str, _TIMEOUT]
MemoryLimit = Annotated[
    str,
    typer.Option("--memory-limit", metavar="GB", help="Memory of each worker process; beyond it exit code 3 (Linux)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON: every number in full, schema dpcalc.result/1.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print one number only: 6 significant digits, rounded up, or inf.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show details.")]


def _shared() -> Iterator[inspect.Parameter]:
    """Yield the parameters for the options that commands share, from CONFIG to --timeout."""
    annotated: dict[str, tuple[Any, Any]] = {
        "config": (Config, None),
        "no_config": (NoConfig, False),
        "key": (Key, ""),
        "assignments": (Assignments, None),
        "unset": (Unset, None),
    }
    for option, (metavar, text, words) in OVERRIDES.items():
        offered = names_of_config("levels", *words) if option == "--unit" else one_of(words)
        declared = typer.Option(option, metavar=metavar, help=text, rich_help_panel=PANEL, autocompletion=offered)
        annotated[parameter_name(option)] = (Annotated[str | None, declared], None)
    annotated["timeout"] = (Timeout, None)
    for name, (annotation, default) in annotated.items():
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def parameter_name(option: str) -> str:
    """Return the name of the parameter that has the value of an option: "group_size" of "--group-size"."""
    return option.removeprefix("--").replace("-", "_")


SHARED = {parameter.name: parameter for parameter in _shared()}
"""Parameters of the options that commands share, by name."""


def number(option: str, text: str | None, *, positive: bool = False) -> float | None:
    """Return an option's number or quotient >= 0; None if it is absent, InputError if it is not valid."""
    if positive:
        return _valid_number(option, text, "a finite number > 0", lambda value: 0 < value < math.inf)
    return _valid_number(option, text, "a finite number >= 0", lambda value: 0 <= value < math.inf)


def any_number(option: str, text: str) -> float:
    """Return the finite number or quotient that an option states, also below 0; InputError for other texts."""
    return _valid_number(option, text, "a finite number", math.isfinite) or 0.0


def probability(option: str, text: str | None) -> float | None:
    """Return an option's number strictly between 0 and 1; None if it is absent, InputError if not valid."""
    return _valid_number(option, text, "a probability between 0 and 1, both excluded", lambda value: 0 < value < 1)


def whole_number(option: str, text: str | None, *, min_value: int) -> int | None:
    """Return an option's whole number from min_value to 2^53; None if it is absent, InputError if not valid."""

    def is_valid(value: float) -> bool:
        return min_value <= value <= _LARGEST_WHOLE and value == int(value)

    value = _valid_number(option, text, f"a whole number >= {min_value}", is_valid, quotients=False)
    return None if value is None else int(value)


def _valid_number(
    option: str, text: str | None, expected: str, is_valid: Callable[[float], bool], *, quotients: bool = True
) -> float | None:
    """Return an option's number or quotient; None if it is absent, InputError if `is_valid` refuses it."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        from dpcalc.config.scalars import parse_quotient

        quotient = parse_quotient(text.strip()) if quotients else None
        value = math.nan if quotient is None else float(quotient)
    if not is_valid(value):
        from dpcalc.config.scalars import word_hint

        hint = word_hint(text)
        raise InputError(f"{option}: expected {expected}, got `{text}`{hint and f'; {hint}'}")
    return value


def seconds(text: str | None) -> float:
    """Return the limit of `--timeout` in seconds, > 0, at most 1e6; infinite for None; InputError for other texts."""
    value = number("--timeout", text, positive=True)
    return math.inf if value is None else min(value, MAX_SECONDS)


def memory(text: str) -> int:
    """Return the number of bytes that `--memory-limit` states in gigabytes; InputError unless it is > 0."""
    value = number("--memory-limit", text)
    if not value:
        raise InputError(f"--memory-limit: expected a number of gigabytes > 0, got `{text}`")
    return int(min(value * 1e9, 2**60)) or 1


def revision(text: str | None) -> str:
    """Return the revision of `--base`, "" if the option is absent; InputError for a blank one (an unset variable)."""
    if text is not None and not text.strip():
        raise InputError("--base: expected a git revision, got nothing; is a variable of the workflow not set?")
    return text or ""
