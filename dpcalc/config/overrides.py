"""Command-line changes of a config, such as `--set a.b=v`, `--unset a.b` and --delta, and a run of options alone."""

from collections.abc import Iterable
from dataclasses import replace

from dpcalc.config import scalars
from dpcalc.config.schema import SCHEMES
from dpcalc.config.source import ConfigError, Diagnostic, Mark, Severity, Source, config_error, error, source_of
from dpcalc.config.tree import Node, Scalar, dotted, split_path, with_path, within
from dpcalc.config.yaml_text import Flaw, parse_yaml
from dpcalc.records import dataclass

ASSUMED = "assumed"  # name of the source of values that dpcalc assumes; their marks have it as the path
OVER, _UNSET = "--over", "--unset"
# Options that are short for `--set KEY=...`, and their keys.
FLAGS = {
    "--unit": "privacy.unit",
    "--group-size": "privacy.group_size",
    "--delta": "privacy.delta",
    "--adjacency": "privacy.adjacency",
    "--method": "accounting.method",
    "--scheme": "sampling.scheme",
    "--sample-rate": "sampling.rate",
    "--batch-size": "training.batch_size",
    "--dataset-size": "data.examples",
    "--steps": "training.steps",
    "--epochs": "training.epochs",
    "--noise-multiplier": "mechanism.noise_multiplier",
}


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One value for one path."""

    keys: tuple[str | int, ...]  # never empty
    marks: tuple[Mark, ...]  # place of each part of the path in the argument
    value: Node

    @property
    def path(self) -> str:
        """The dotted path."""
        return dotted(self.keys)


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Everything the command line says about the content of a file, as text."""

    assignments: tuple[str, ...] = ()  # values of `--set`, such as "training.steps=1e4"
    flags: tuple[tuple[str, str], ...] = ()  # such as ("--delta", "1e-5"); each is short for its key in `FLAGS`
    unset: tuple[str, ...] = ()  # values of `--unset`: keys to remove from the file before anything is set
    assumed: tuple[str, ...] = ()  # "key=value" texts that hold where nothing else states the key
    swept: tuple[str, ...] = ()  # values of `--over` at one point of a grid, such as "training.steps=1e4"


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Parsed overrides, one for each key, by the order in which they are made."""

    unset: tuple[Assignment, ...] = ()  # keys to remove; their values are empty
    settings: tuple[Assignment, ...] = ()
    assumed: tuple[Assignment, ...] = ()  # for keys that are still missing then


def parse_overrides(overrides: Overrides) -> tuple[Changes, tuple[Diagnostic, ...]]:
    """Return the changes that the command line states, and the errors of unreadable values and repeated keys."""
    problems: list[Diagnostic] = []

    def parsed(words: Iterable[tuple[str, str]]) -> tuple[Assignment, ...]:
        first: dict[tuple[str | int, ...], Assignment] = {}
        for option, text in words:
            # A flag has the text of its value, --unset that of a key, the others "key=value".
            flaws: tuple[Flaw, ...] = ()
            try:
                source = source_of(text, option)
                if option in FLAGS:
                    mark, path = Mark(source, 1, 1, max(1, len(text))), FLAGS[option]
                    if not text.strip():
                        raise config_error(
                            "DPC102", mark, f"{option} is empty", f"give it a value, or leave {option} out"
                        )
                    keys = tuple[str | int, ...](path.split("."))
                    marks = (mark,) * len(keys)  # no path is written: each key has the place of the whole option
                    value, flaws = parse_yaml(source)
                elif option.startswith(_UNSET):
                    path = source.text
                    keys, marks = parse_path(path, source)
                    value = Scalar(text="", mark=marks[-1])
                else:
                    path, separator, right = source.text.partition("=")
                    if not separator:
                        hint = "write `--set training.steps=1000`"
                        raise config_error("DPC100", Mark(source, 1, 1), "an assignment needs a `=`", hint)
                    keys, marks = parse_path(path, source)
                    if not right.strip():
                        hint = "give it a value, e.g. `--set a.b=1`"
                        raise config_error("DPC102", marks[-1], f"`{path}` is empty", hint)
                    # Blanks in the place of the path: columns of the parsed value are columns of the argument.
                    value, flaws = parse_yaml(Source(option, " " * (len(path) + 1) + right, source.lines))
            except ConfigError as cause:
                problems.extend(cause.diagnostics)
                continue
            problems.extend(flaw.diagnostic for flaw in flaws)
            item = Assignment(keys=keys, marks=marks, value=replace(with_path(value, path), key=marks[-1]))
            earlier = first.setdefault(item.keys, item)
            if earlier is not item:
                names = [each.marks[0].source.path.partition(" ")[0] for each in (earlier, item)]
                both = "twice" if names[0] == names[1] else f"by {names[0]} and by {names[1]}"
                problems.append(error("DPC105", item.marks[0], f"`{item.path}` is set {both}", "keep one of them"))
        return tuple(first.values())

    unset = parsed((f"{_UNSET} #{number}", text) for number, text in enumerate(overrides.unset, start=1))
    stated = [(f"--set #{number}", text) for number, text in enumerate(overrides.assignments, start=1)]
    settings = parsed([*stated, *((OVER, text) for text in overrides.swept), *overrides.flags])
    assumed = parsed((ASSUMED, text) for text in overrides.assumed)
    return Changes(unset=unset, settings=settings, assumed=assumed), tuple(problems)


def parse_path(text: str, source: Source) -> tuple[tuple[str | int, ...], tuple[Mark, ...]]:
    """Return the keys and 0-based indices of a dotted path with their places; ConfigError (DPC100) if it is none."""
    steps, read = split_path(text)
    if not steps or read < len(text):
        hint = "write e.g. `phases[0].training.steps`"
        raise config_error("DPC100", Mark(source, 1, read + 1), f"`{text}` is no path of keys", hint)
    return tuple(key for key, _, _ in steps), tuple(Mark(source, 1, start + 1, width) for _, start, width in steps)


# A run described by options alone: no file, one level of examples.

COMMAND_LINE = "<command line>"  # in the place of a path
_AMOUNTS = ("sampling.rate", "sampling.expected", "sampling.size", "training.batch_size")
_SCHEME, _RATE, _SIZE, _GROUP = "sampling.scheme", "sampling.rate", "data.examples", "privacy.group_size"
SCHEME_QUESTION = (
    "how does the loader draw? shuffle: it goes through shuffled data, as DataLoader(shuffle=True) does; poisson: a "
    "coin for each example, as Opacus' loader; fixed: so many drawn afresh in each step. What it costs differs by far"
)
_CHOOSING_STEPS = {"balls-in-bins": "sampling.bins", "random-allocation": "sampling.times"}


def _given(overrides: Overrides) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts that are stated and those that are assumed, by dotted key; options win over settings."""
    stated, assumed = (
        {key.strip(): text.strip() for key, _, text in (each.partition("=") for each in assignments)}
        for assignments in ((*overrides.assignments, *overrides.swept), overrides.assumed)
    )
    return stated | {FLAGS[option]: text.strip() for option, text in overrides.flags}, assumed


def _states(texts: Iterable[str], *keys: str) -> bool:
    """Return True if the command line states one of some keys: itself, a section around it, or a part of it."""
    return any(within(stated, key) or within(key, stated) for stated in texts for key in keys)


def missing_flags(overrides: Overrides) -> tuple[str, ...]:
    """Return the options that a run without a file needs: scheme, amount or else data set size, noise, steps, delta."""
    texts, assumed = _given(overrides)

    def has(*keys: str) -> bool:
        return _states(texts, *keys) or not assumed.keys().isdisjoint(keys)

    # Only a rate alone tells how examples are drawn: a size needs its scheme.
    has_scheme = _states(texts, _SCHEME) and not ("sampling" in texts and "scheme" not in texts["sampling"])
    sizes = ["sampling.expected", "sampling.size", "sampling.max_batch_size", "training.batch_size"]
    whole = [texts.get(section, "") for section in ("sampling", "training")]
    names_size = any(size in text for size in ("expected", "size") for text in whole)
    needs_scheme = not has_scheme and (names_size or not texts.keys().isdisjoint(sizes))

    scheme = texts.get(_SCHEME, "" if _states(texts, _SCHEME) else "poisson")  # "" if it is part of a longer value
    takes, parameter = SCHEMES.get(scheme or "poisson", ()), _CHOOSING_STEPS.get(scheme, "")
    amount = ""
    if "size" in takes and not has("sampling.size", "training.batch_size"):
        amount = "--batch-size"
    elif parameter and not has(parameter):
        amount = f"--set {parameter}=N"
    elif "rate" in takes and not has(*_AMOUNTS):
        amount = "--sample-rate"

    # Epsilon depends on the number of examples with a size, an expected number or capped batches.
    is_rated = _RATE in texts or (_RATE in assumed and not _states(texts, *_AMOUNTS))
    is_free = scheme in {"all", "any-order"} or (scheme in {"poisson", "cyclic-poisson"} and is_rated)
    needs_size = not is_free or has("sampling.max_batch_size")
    needs_size = needs_size and not parameter and (not scheme or scheme in SCHEMES) and not _states(texts, _SIZE)

    options = (
        "--scheme" if needs_scheme else "",
        amount or ("--dataset-size" if needs_size else ""),
        "" if has("mechanism.noise_multiplier", "mechanism.type") else "--noise-multiplier",
        "" if has("training.steps", "training.epochs") else "--steps",
        "" if has("privacy.delta") else "--delta",
    )
    return tuple(filter(None, options))


def with_assumptions(overrides: Overrides) -> tuple[Overrides, tuple[Diagnostic, ...]]:
    """Return the options with unstated sampling and number of examples assumed, and a note on each assumption."""
    texts, given = _given(overrides)
    assumed, notes = [*overrides.assumed], []
    if not _states(texts, _SCHEME):
        assumed.append(f"{_SCHEME}=poisson")
        message = "a rate without a scheme is Poisson's: a step draws every example on its own, with that probability"
        hint = "a shuffled loader is `--scheme shuffle`, a fixed number drawn afresh `--scheme fixed`; both with "
        hint += "--batch-size and --dataset-size"
        notes.append(note(message, hint))
    if not _states(texts, _SIZE):
        # Epsilon of Poisson draws depends on the rate alone, but a plan needs a number of examples. Nothing is computed
        # from it, and wrong numbers do not count.
        stated, group = texts.get(_RATE) or given.get(_RATE, "1"), texts.get(_GROUP, "1")
        rate = None if texts.get(_SCHEME) == "all" else scalars.parse_number(stated) or scalars.parse_quotient(stated)
        assumed.append(f"{_SIZE}={scalars.least_count([rate], scalars.parse_number(group))}")
        hint = "epsilon depends on the rate only, but delta should be well below 1 / it; --dataset-size states it"
        notes.append(note("the number of examples is not stated", hint))
    return replace(overrides, assumed=tuple(assumed)), tuple(notes)


def note(message: str, hint: str, code: str = "DPC201") -> Diagnostic:
    """Return a note without a place."""
    return Diagnostic(code=code, severity=Severity.NOTE, message=message, hint=hint, path=COMMAND_LINE)
