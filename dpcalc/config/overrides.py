"""Command-line changes of a config, such as `--set a.b=v`, `--unset a.b` and --delta, and a run of options alone."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import ceil

from dpcalc.config import scalars
from dpcalc.config.schema import SCHEMES
from dpcalc.config.source import ConfigError, Diagnostic, Mark, Severity, Source, error, source_of
from dpcalc.config.tree import Node, Scalar, dotted, split_path, with_path, within
from dpcalc.config.yaml_text import Flaw, parse_yaml
from dpcalc.keys import MAX_COUNT
from dpcalc.records import dataclass

ASSUMED = "assumed"  # name of the source of values that dpcalc assumes; their marks have it as the path
OVER = "--over"
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
    """One value for one path.

    Attributes:
        keys: path as keys and 0-based indices, never empty.
        marks: place of each part of the path in the argument.
        value: the assigned value.
    """

    keys: tuple[str | int, ...]
    marks: tuple[Mark, ...]
    value: Node

    @property
    def path(self) -> str:
        """The dotted path."""
        return dotted(self.keys)

    def below(self, start: int) -> "Assignment":
        """Return the same value at the path without its first `start` keys."""
        return replace(self, keys=self.keys[start:], marks=self.marks[start:])


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Everything the command line says about the content of a file, as text.

    Attributes:
        assignments: values of `--set`, such as "training.steps=1e4".
        flags: (option, text) such as ("--delta", "1e-5"); each is short for its key in `FLAGS`.
        unset: values of `--unset`: keys to remove from the file before anything is set.
        assumed: "key=value" texts that hold where nothing else states the key.
        swept: values of `--over` at one point of a grid, such as "training.steps=1e4".
    """

    assignments: tuple[str, ...] = ()
    flags: tuple[tuple[str, str], ...] = ()
    unset: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Parsed overrides, by the order in which they are made.

    Attributes:
        unset: keys to remove; their values are empty.
        settings: values to set, one for each key.
        assumed: values for keys that are still missing then.
    """

    unset: tuple[Assignment, ...] = ()
    settings: tuple[Assignment, ...] = ()
    assumed: tuple[Assignment, ...] = ()


def parse_overrides(overrides: Overrides) -> tuple[Changes, tuple[Diagnostic, ...]]:
    """Return the changes that the command line states, and the errors of unreadable values and repeated keys."""
    problems: list[Diagnostic] = []
    removals = [partial(_removal, text, f"--unset #{number}") for number, text in enumerate(overrides.unset, start=1)]
    settings = [partial(_assignment, text, f"--set #{at}") for at, text in enumerate(overrides.assignments, start=1)]
    settings += [partial(_assignment, text, OVER) for text in overrides.swept]
    settings += [partial(_flag, option, text) for option, text in overrides.flags]
    assumed = [partial(_assignment, text, ASSUMED) for text in overrides.assumed]
    unset, set_values, assumed_values = (_first_for_each_key(each, problems) for each in (removals, settings, assumed))
    return Changes(unset=unset, settings=set_values, assumed=assumed_values), tuple(problems)


def _first_for_each_key(
    parsers: Iterable[Callable[[], tuple[Assignment, tuple[Flaw, ...]]]], problems: list[Diagnostic]
) -> tuple[Assignment, ...]:
    """Return the first assignment to each key; errors of parsing and repeated keys are added to `problems`."""
    first: dict[tuple[str | int, ...], Assignment] = {}
    for parse_word in parsers:
        try:
            item, flaws = parse_word()
        except ConfigError as cause:
            problems.extend(cause.diagnostics)
            continue
        problems.extend(flaw.diagnostic for flaw in flaws)
        earlier = first.setdefault(item.keys, item)
        if earlier is not item:
            problems.append(_repeated_key_error(earlier, item))
    return tuple(first.values())


def _repeated_key_error(earlier: Assignment, item: Assignment) -> Diagnostic:
    """Return DPC105 at the second assignment to a key, which names the options of both."""
    names = [assignment.marks[0].source.path.partition(" ")[0] for assignment in (earlier, item)]
    both = "twice" if names[0] == names[1] else f"by {names[0]} and by {names[1]}"
    return error("DPC105", item.marks[0], f"`{item.path}` is set {both}", "keep one of them")


def _flag(option: str, text: str) -> tuple[Assignment, tuple[Flaw, ...]]:
    """Return an option's text as an assignment to its key, and the flaws of its YAML; ConfigError if it is empty."""
    source = source_of(text, option)
    mark = Mark(source, 1, 1, max(1, len(text)))
    key = FLAGS[option]
    if not text.strip():
        raise ConfigError([error("DPC102", mark, f"{option} is empty", f"give it a value, or leave {option} out")])
    value, flaws = parse_yaml(source)
    # Each key has the place of the whole option, in which no path is written.
    keys = tuple(key.split("."))
    return Assignment(keys=keys, marks=(mark,) * len(keys), value=replace(with_path(value, key), key=mark)), flaws


def _removal(text: str, path: str) -> tuple[Assignment, tuple[Flaw, ...]]:
    """Return the key that `--unset` names as an empty assignment, without flaws; ConfigError if it is no path."""
    source = source_of(text, path)
    keys, marks = parse_path(source.text, source)
    nothing = Scalar(text="", plain=True, mark=marks[-1], key=marks[-1], path=text)
    return Assignment(keys=keys, marks=marks, value=nothing), ()


def _assignment(text: str, path: str) -> tuple[Assignment, tuple[Flaw, ...]]:
    """Return "key=value" as an assignment, and the flaws of its YAML; ConfigError if a part is missing or wrong."""
    source = source_of(text, path)
    left, separator, right = source.text.partition("=")
    if not separator:
        message = "an assignment needs a `=`"
        raise ConfigError([error("DPC100", Mark(source, 1, 1), message, "write `--set training.steps=1000`")])
    keys, marks = parse_path(left, source)
    # The path is replaced by blanks, so that columns of the parsed value are columns of the argument.
    padded = Source(path, " " * (len(left) + 1) + right, source.lines)
    if not right.strip():
        raise ConfigError([error("DPC102", marks[-1], f"`{left}` is empty", "give it a value, e.g. `--set a.b=1`")])
    value, flaws = parse_yaml(padded)
    return Assignment(keys=keys, marks=marks, value=replace(with_path(value, left), key=marks[-1])), flaws


def parse_path(text: str, source: Source) -> tuple[tuple[str | int, ...], tuple[Mark, ...]]:
    """Return the keys and 0-based indices of a dotted path with their places; ConfigError (DPC100) if it is none."""
    steps, read = split_path(text)
    if not steps or read < len(text):
        hint = "write e.g. `phases[0].training.steps`"
        raise ConfigError([error("DPC100", Mark(source, 1, read + 1), f"`{text}` is no path of keys", hint)])
    return tuple(step.key for step in steps), tuple(Mark(source, 1, step.start + 1, step.width) for step in steps)


# A run described by options alone: no file, one level of examples.

COMMAND_LINE = "<command line>"  # in the place of a path
_AMOUNTS = ("sampling.rate", "sampling.expected", "sampling.size", "training.batch_size")
_SCHEME, _RATE, _SIZE, _GROUP = "sampling.scheme", "sampling.rate", "data.examples", "privacy.group_size"
SCHEME_QUESTION = (
    "how does the loader draw? shuffle: it goes through shuffled data, as DataLoader(shuffle=True) does; poisson: a "
    "coin for each example, as Opacus' loader; fixed: so many drawn afresh in each step. What it costs differs by far"
)
_CHOOSING_STEPS = {"balls-in-bins": "sampling.bins", "random-allocation": "sampling.times"}


@dataclass(frozen=True, kw_only=True)
class _GivenKeys:
    """The keys that the command line states.

    Attributes:
        texts: stated values by dotted key.
        assumed: values that a solver assumes, by dotted key.
    """

    texts: dict[str, str]
    assumed: dict[str, str]

    def states(self, *keys: str) -> bool:
        """Return True if the command line states one of some keys: itself, a section around it, or a part of it."""
        return any(within(stated, key) or within(key, stated) for stated in self.texts for key in keys)

    def has(self, *keys: str) -> bool:
        """Return True if one of some keys is stated or assumed."""
        return self.states(*keys) or not self.assumed.keys().isdisjoint(keys)

    @property
    def scheme(self) -> str:
        """The stated scheme, "poisson" by default, of a rate; "" if it is part of a longer value."""
        return self.texts.get(_SCHEME, "" if self.states(_SCHEME) else "poisson")

    @property
    def needs_scheme(self) -> bool:
        """True if a size is stated and no scheme: only a rate alone tells how examples are drawn."""
        if self.states(_SCHEME) and not ("sampling" in self.texts and "scheme" not in self.texts["sampling"]):
            return False
        sizes = ("expected", "size", "batch_size", "max_batch_size")
        stated = ["sampling.expected", "sampling.size", "sampling.max_batch_size", "training.batch_size"]
        whole = [self.texts.get(section, "") for section in ("sampling", "training")]
        return not self.texts.keys().isdisjoint(stated) or any(size in text for size in sizes for text in whole)

    @property
    def needs_size(self) -> bool:
        """True if epsilon depends on the number of examples, as with a size, an expected number or capped batches."""
        if self.scheme in _CHOOSING_STEPS or (self.scheme and self.scheme not in SCHEMES):
            return False
        is_rated = _RATE in self.texts or (_RATE in self.assumed and not self.states(*_AMOUNTS))
        is_free = self.scheme in {"all", "any-order"} or (self.scheme in {"poisson", "cyclic-poisson"} and is_rated)
        return not is_free or self.has("sampling.max_batch_size")


def missing_flags(overrides: Overrides) -> tuple[str, ...]:
    """Return the options that a run without a file needs: scheme, amount or else data set size, noise, steps, delta."""
    given = _given_keys(overrides)
    options = (
        "--scheme" if given.needs_scheme else "",
        _missing_amount_option(given) or ("--dataset-size" if given.needs_size and not given.states(_SIZE) else ""),
        "" if given.has("mechanism.noise_multiplier", "mechanism.type") else "--noise-multiplier",
        "" if given.has("training.steps", "training.epochs") else "--steps",
        "" if given.has("privacy.delta") else "--delta",
    )
    return tuple(filter(None, options))


def _missing_amount_option(given: _GivenKeys) -> str:
    """Return the option for the amount that the scheme needs and no key states, such as "--batch-size"; else ""."""
    takes = SCHEMES.get(given.scheme or "poisson", ())
    if "size" in takes and not given.has("sampling.size", "training.batch_size"):
        return "--batch-size"
    key = _CHOOSING_STEPS.get(given.scheme, "")
    if key and not given.has(key):
        return f"--set {key}=N"
    return "--sample-rate" if "rate" in takes and not given.has(*_AMOUNTS) else ""


def with_assumptions(overrides: Overrides) -> tuple[Overrides, tuple[Diagnostic, ...]]:
    """Return the options with unstated sampling and number of examples assumed, and a note on each assumption."""
    given = _given_keys(overrides)
    assumed, notes = [*overrides.assumed], []
    if not given.states(_SCHEME):
        assumed.append(f"{_SCHEME}=poisson")
        message = "a rate without a scheme is Poisson's: a step draws every example on its own, with that probability"
        hint = "a shuffled loader is `--scheme shuffle`, a fixed number drawn afresh `--scheme fixed`; both with "
        hint += "--batch-size and --dataset-size"
        notes.append(_note(message, hint))
    if not given.states(_SIZE):
        assumed.append(f"{_SIZE}={_assumed_size(given)}")
        hint = "epsilon depends on the rate only, but delta should be well below 1 / it; --dataset-size states it"
        notes.append(_note("the number of examples is not stated", hint))
    return replace(overrides, assumed=tuple(assumed)), tuple(notes)


def _assumed_size(given: _GivenKeys) -> int:
    """Return the fewest examples that hold a group and of which a step draws one on average."""
    # Epsilon of Poisson draws depends on the rate alone, but a plan needs a number of examples.
    rate = given.texts.get(_RATE) or given.assumed.get(_RATE, "1")
    fitting = _fitting_size("1" if given.scheme == "all" else rate)
    return max(fitting, _group_size(given.texts.get(_GROUP, "1")))


def _given_keys(overrides: Overrides) -> _GivenKeys:
    """Return the texts that are stated and those that are assumed, by dotted key; options win over settings."""
    flags = {FLAGS[option]: text.strip() for option, text in overrides.flags}
    texts = _texts_by_key((*overrides.assignments, *overrides.swept))
    return _GivenKeys(texts={**texts, **flags}, assumed=_texts_by_key(overrides.assumed))


def _texts_by_key(assignments: Iterable[str]) -> dict[str, str]:
    """Return the values of "key=value" texts by dotted key."""
    pairs = (assignment.partition("=") for assignment in assignments)
    return {key.strip(): text.strip() for key, _, text in pairs}


def _fitting_size(rate: str) -> int:
    """Return the fewest examples of which a step draws one on average; 1 for an invalid rate."""
    # Nothing is computed from it: the rate itself is stated, and exact.
    number = scalars.parse_number(rate) or scalars.parse_quotient(rate)
    return ceil(1 / number) if number is not None and Fraction(1, MAX_COUNT) <= number <= 1 else 1


def _group_size(group_size: str) -> int:
    """Return the size of a group, which needs as many examples; 1 if it is no valid size."""
    number = scalars.parse_number(group_size)
    return int(number) if number is not None and number.denominator == 1 and 1 <= number <= MAX_COUNT else 1


def without_file_hint(diagnostic: Diagnostic) -> Diagnostic:
    """Return a diagnostic for a run without a file: DPC204 becomes a note with `--adjacency` as its hint."""
    if diagnostic.code != "DPC204":
        return diagnostic
    return _note(diagnostic.message, "state `--adjacency add-remove`, or replace-one or zero-out", code="DPC204")


def _note(message: str, hint: str, *, code: str = "DPC201") -> Diagnostic:
    """Return a note without a place."""
    return Diagnostic(code=code, severity=Severity.NOTE, message=message, hint=hint, path=COMMAND_LINE)
