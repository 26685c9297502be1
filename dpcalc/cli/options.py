"""Arguments and options that commands share, the configs that they name, progress and limits of long commands."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dpcalc.accountants import METHODS
from dpcalc.cli.output import print_remark
from dpcalc.config.discovery import VARIABLE, find_configs, folders_to_search, matching_names
from dpcalc.config.expand import ASSUMED, SCHEME_QUESTION, Overrides, missing_flags
from dpcalc.config.load import Loaded, load, load_every_unit, load_from_flags
from dpcalc.config.scalars import parse_number, parse_quotient, word_hint
from dpcalc.config.schema import json_schema
from dpcalc.config.source import ConfigError, visible
from dpcalc.errors import DpcalcError, InputError, OutOfTimeError, listed, no_verdict_reason
from dpcalc.gate.diff import ConfigReader
from dpcalc.gate.verdict import Limit
from dpcalc.gate.workers import Costs
from dpcalc.guarantee import Adjacency
from dpcalc.records import dataclass
from dpcalc.report.gate import REPORTS
from dpcalc.sampling.schemes import SCHEMES

if TYPE_CHECKING:
    from dpcalc.planner.plan import Plan

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


# Options of commands that read a config, which they all get alike: see `dpcalc.cli.options.Request`.


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


# Progress bar on standard error for commands that take longer than a second, and limits of their time and memory.
# The bar shows the name of the work, the part that is done, and the time left; it moves to and fro while the part is
# unknown.


PATIENCE = 1.0  # seconds before the bar appears
_REFRESH = 0.1  # seconds between two looks at the state
_LONGEST = 28  # characters of a name
_NUMBERS = 44  # columns for a short bar, the count, the times


@dataclass
class _State:
    label: str = "computing"  # name of the work
    file: str = ""  # that is worked on
    part: float | None = None  # of the work that is done, from 0 to 1
    total: int = 0  # number of items, 0 if not counted


_state = _State()


def report_progress(part: float) -> None:
    """Set the part of the work that is done, from 0 to 1."""
    _state.part = part


def report_file(path: str) -> None:
    """Set the file that the bar names."""
    _state.file = path


def announce(label: str, *, total: int = 0) -> None:
    """Start the bar anew with a label and a number of items."""
    _state.label, _state.part, _state.total, _state.file = label, None, total, ""


def announce_files(paths: Sequence[str]) -> None:
    """Announce work on files: the bar's label is the name of the only one, or "8,000 files"."""
    announce(paths[0] if len(paths) == 1 else f"{len(paths):,} files")


@contextmanager
def progress(label: str = "computing") -> Iterator[None]:
    """Context that announces a label and, on a capable terminal, shows the progress bar until it ends."""
    announce(label)
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    done = threading.Event()
    artist = threading.Thread(target=_draw, args=(done,), daemon=True)
    artist.start()
    try:
        yield
    finally:
        done.set()
        artist.join()


def _draw(done: threading.Event) -> None:
    """Draw the progress bar ten times a second until `done`, beginning after one second."""
    if done.wait(PATIENCE):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[label]}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[counted]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True, emoji=False), transient=True, expand=False) as bar:
        longest = max(8, min(_LONGEST, bar.console.width - _NUMBERS))
        shown = (_state.label, _state.total)
        task = bar.add_task("", total=None, label="", counted="", left="")
        # The state is read without a lock: what is stale is shown for a tenth of a second.
        while True:
            if (_state.label, _state.total) != shown:
                bar.reset(task)
                shown = (_state.label, _state.total)
            part, total = _state.part, shown[1]
            name = "".join(char if char.isprintable() else "?" for char in _state.file or shown[0])
            name = name if len(name) <= longest else f"...{name[3 - longest :]}"
            count = f"{round(part * total):,}/{total:,} " if part is not None and total else ""
            bar.update(task, label=name, counted="" if part is None else f"{count}{int(100 * part)}%")
            if part is not None:
                bar.update(task, total=1.0, completed=part, left="left")
            if done.wait(_REFRESH):
                return


# Limits of time and memory of a command.

GRACE = 2.0  # seconds after which even what cannot be stopped (a pipe that never ends) is given up


@contextmanager
def ended_after(seconds: float, grace: float = 0.0) -> Iterator[None]:
    """Context that ends the process with exit code 3, from a thread, after `seconds` + `grace`; never for infinity."""
    done = threading.Event()

    def end() -> None:
        if not done.wait(seconds + grace):
            code, sentence = no_verdict_reason(OutOfTimeError(f"no answer within {seconds:g} s; --timeout allows more"))
            print_remark(f"error[{code}]: {sentence}")
            os._exit(3)  # neither a long call of a library nor a handler in the block can stop it

    if seconds < math.inf:
        threading.Thread(target=end, daemon=True).start()
    try:
        yield
    finally:
        done.set()


@contextmanager
def costs_in_time(seconds: float | None, gigabytes: float) -> Iterator[Costs]:
    """Context that gives a cost evaluator with both limits, and ends the process soon after the timeout."""
    seconds = math.inf if seconds is None else seconds
    costs = Costs(seconds=seconds, memory=bytes_of(gigabytes), on_progress=report_progress, on_file=report_file)
    with ended_after(seconds, GRACE), closing(costs):
        yield costs


# The configs of a command: found or named, and changed by the options that all commands with a config share.


Result = TypeVar("Result")
# (example for whoever has said nothing of a run yet, placeholder beside what somebody has said)
EXAMPLES = {
    "--scheme": ("SCHEME", "SCHEME"),
    "--sample-rate": ("0.004", "RATE"),
    "--batch-size": ("256", "N"),
    "--dataset-size": ("60_000", "N"),
    "--noise-multiplier": ("1.1", "SIGMA"),
    "--steps": ("14_000", "N"),
    "--delta": ("1e-5", "D"),
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the shared options of a command line say; those that a command does not have count as not given."""

    context: typer.Context
    config: str | None  # CONFIG as given
    no_config: bool  # whether no config file is searched for
    key: str  # dotted path of the section of the file that is the config, or ""
    assignments: tuple[str, ...]
    unset: tuple[str, ...]
    form: str = ""  # of --format, which holds --json and --csv too; "" for the form that fits where it goes
    flags: tuple[tuple[str, str], ...]  # the other overriding options with their texts

    def overrides(self, assumed: Sequence[str] = ()) -> Overrides:
        """Return the changes to a config; `assumed` ones hold for keys that nothing else states."""
        return Overrides(assignments=self.assignments, flags=self.flags, unset=self.unset, assumed=tuple(assumed))

    def reader(self, *, base: str | None = None, against: str | None = None) -> ConfigReader:

        return ConfigReader(key=self.key, overrides=self.overrides(), base=base or "", against=against or "")

    def about(self, configs: Sequence[str] | None) -> Request:
        """Return the request with the only config, or None to search for one; InputError for several."""
        if configs and len(configs) > 1:
            raise InputError(
                f"--unit {EVERY_UNIT}: expected one config, got {', '.join(configs)}; ask about one at a time"
            )
        return replace(self, config=configs[0] if configs else None)

    def paths(self, words: Sequence[str] | None) -> tuple[str, ...]:
        """Return the files that the words name or match; InputError for several beside --no-config."""
        paths = tuple(path for word in words or () for path in matching_paths(word))
        if len(paths) > 1 and self.no_config:
            raise InputError(
                f"--no-config: expected no config beside it, got {', '.join(paths)}; leave one of them out"
            )
        return paths

    def path(self) -> str | None:
        """Return the path of the named or the only found config, and print a found one; None if there is none."""
        if self.config is not None and self.no_config:
            raise InputError(f"--no-config: expected no config beside it, got {self.config}; leave one of them out")
        if self.config is not None or self.no_config:
            return self.config

        discovery = find_configs(Path.cwd(), os.environ)
        if discovery is None:
            return None
        path = discovery.only
        if not self.context.params.get("quiet"):
            print_remark(str(discovery))
        return path

    def load(self, *, assumed: Sequence[str] = (), allow_any_size: bool = False) -> Loaded:
        """Return the config that is named, found or made of options; InputError for none, or if no bound covers it."""
        overrides = self.overrides(assumed)
        path = self.path()
        if path is not None:
            loaded = load(path, key=self.key, overrides=overrides)
        else:
            missing = missing_flags(overrides)
            if missing or self.key:
                raise self._no_config_error(missing)
            loaded = load_from_flags(overrides)
        return without_assumed_places(loaded if allow_any_size else loaded.accepted())

    def load_every_unit(self) -> tuple[Loaded, ...]:
        """Return the config once for each level that can be protected; without a file, one made of options."""
        path = self.path()
        if path is None:
            flags = tuple(flag for flag in self.flags if flag[0] != "--unit")  # flags alone tell of one level
            return (replace(self, flags=flags).load(),)
        configs = load_every_unit(path, key=self.key, overrides=self.overrides())
        return tuple(without_assumed_places(config.accepted()) for config in configs)

    def results(
        self, paths: Sequence[str], compute: Callable[[Plan], Result]
    ) -> tuple[list[tuple[Result, Loaded]], tuple[DpcalcError, ...]]:
        """Return the results of the configs that have one, and the errors of the others; ExceptionGroup if none has."""
        reader = self.reader()

        def computed(path: str) -> tuple[Result, Loaded]:
            loaded = without_assumed_places(reader.load(path))
            return compute(loaded.plan), loaded

        results, errors = for_each(paths, computed)
        if not results:
            raise ExceptionGroup("no config has a result", errors)
        return results, errors

    def _no_config_error(self, missing: Sequence[str]) -> InputError:
        """Return the error with the folders searched, what is missing, and two commands that would work."""
        context = self.context
        if self.no_config:
            looked = "--no-config ignores those that are found"
        else:
            folders = folders_to_search(Path.cwd())
            above = " or the folders above it, up to the git root" if len(folders) > 1 else ""
            looked = f"no dpcalc.yaml in {folders[0]}{above}"
        lacks = f"; without one {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} needed" if missing else ""
        lacks += f": {SCHEME_QUESTION}" if "--scheme" in missing else ""
        # The command as it was typed: its own arguments, and its own options that differ from their defaults.
        command, own = [context.command_path], []
        for param in context.command.params:
            value = context.params.get(param.name or "")
            if param.param_type_name == "argument":
                command += [value] if isinstance(value, str) else []
            elif param.name in SHARED or value is None or value is False or value == param.default:
                continue
            elif value is True:
                own.append(param.opts[0])
            else:
                texts = value if isinstance(value, list | tuple) else [value]
                texts = [f"{each:.15g}" if isinstance(each, float) else str(each) for each in texts]
                own += [f"{param.opts[0]} {text}" for text in texts]
        own += [f"--format {self.form}"] if self.form else []
        # Beside the numbers of somebody's run an example would be taken for a part of it.
        targets = [context.params.get(name) for name in ("target", "target_tpr", "target_advantage")]
        has_target = any(target is not None for target in targets)
        is_begun = bool(self.flags or self.assignments or has_target)
        more = [f"{option} {EXAMPLES[option][is_begun]}" if option in EXAMPLES else option for option in missing]
        if "target" in context.params and not has_target:  # without a config there is no budget
            more.append(f"--target-eps {'E' if is_begun else '2'}")
        flags = [f"{option} {text}" for option, text in self.flags]
        return InputError(
            f"no config found: {looked}{lacks}\n"
            f"  give one:            {' '.join((*command, 'config.yaml', *own))}\n"
            f"  or say it directly:  {' '.join((*command, *own, *flags, *more))}"
        )


def without_assumed_places(loaded: Loaded) -> Loaded:
    """Return a config whose diagnostics on assumed values name the config's path, without line and column."""
    diagnostics = (
        replace(finding, path=loaded.path, line=None, column=None) if finding.path == ASSUMED else finding
        for finding in loaded.diagnostics
    )
    return replace(loaded, diagnostics=tuple(diagnostics))


def for_each(paths: Sequence[str], compute: Callable[[str], Result]) -> tuple[list[Result], tuple[DpcalcError, ...]]:
    """Return the results of a computation on files, and the errors of those without, each once, with their file."""
    results: list[Result] = []
    errors: dict[str, DpcalcError] = {}
    for path in paths:
        try:
            results.append(compute(path))
        except DpcalcError as error:
            if not isinstance(error, ConfigError):  # which says the place itself
                error.args = (f"{visible(path)}: {error}",)
            errors.setdefault(str(error), error)
    return results, tuple(errors.values())


def chosen_configs(words: Sequence[str] | None) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Return the files of a gate, and CONFIG... as given, relative to the current directory.

    Without words a search finds the files, and prints them; then the second is None, unless an environment variable
    names them.
    """
    if words:
        paths = dict.fromkeys(path for word in words for path in matching_paths(word))
        return tuple(paths), tuple(os.path.relpath(word or os.curdir) for word in words)

    discovery = find_configs(Path.cwd(), os.environ)
    if discovery is None:
        return (), None
    print_remark(str(discovery))
    return discovery.paths, discovery.paths if discovery.origin == VARIABLE else None


def matching_paths(word: str) -> Sequence[str]:
    """Return [word] if it has no "*", or else all files that it names or matches; InputError if there are none."""

    if "*" not in word:
        return [word]
    own = [word] if os.path.lexists(word) else []
    matches = matching_names(Path.cwd(), os.path.relpath(word))
    if not matches and not own:
        raise InputError(f"{visible(word)}: expected a pattern that matches config files, got one that matches none")
    return [*own, *(name for name in matches if os.path.relpath(word) != name)] if own else matches
