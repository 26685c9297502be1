"""A run described by command-line options alone: no file, one level of examples."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil

from dpcalc.config import scalars
from dpcalc.config.load import Loaded, load_text
from dpcalc.config.overrides import FLAGS, Overrides
from dpcalc.config.schema import SCHEMES
from dpcalc.config.source import Diagnostic, Severity
from dpcalc.config.tree import within
from dpcalc.keys import MAX_COUNT
from dpcalc.records import dataclass

PATH = "<command line>"
_TEXT = "version: 1\n"
_AMOUNTS = ("sampling.rate", "sampling.expected", "sampling.size", "training.batch_size")
_SCHEME, _RATE, _SIZE, _GROUP = "sampling.scheme", "sampling.rate", "data.examples", "privacy.group_size"
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
        """The stated scheme, "poisson" by default; "" if it is part of a longer value."""
        return self.texts.get(_SCHEME, "" if self.states(_SCHEME) else "poisson")

    @property
    def needs_no_size(self) -> bool:
        """True if the result does not depend on the number of examples: each is drawn at a rate, uncut, or all are."""
        if self.has("sampling.max_batch_size"):
            return False
        rated = _RATE in self.texts or (_RATE in self.assumed and not self.states(*_AMOUNTS))
        is_rated = self.scheme in {"poisson", "cyclic-poisson"} and rated
        return is_rated or self.scheme in {"all", "any-order", *_CHOOSING_STEPS}


def missing_flags(overrides: Overrides) -> tuple[str, ...]:
    """Return the options, such as "--delta", that a run without a file lacks; for an unknown scheme none of its draw.

    Args:
        overrides: overrides of the command line.

    Returns:
        Options such as "--delta"; () if there are enough.
    """
    given = _given_keys(overrides)
    needed = []
    takes = SCHEMES.get(given.scheme or "poisson", ())
    if given.scheme and given.scheme not in SCHEMES:
        pass  # which of the next four it needs is not known
    elif "size" in takes and not given.has("sampling.size", "training.batch_size"):
        needed.append("--batch-size")
    elif given.scheme in _CHOOSING_STEPS:
        if not given.has(_CHOOSING_STEPS[given.scheme]):
            needed.append(f"--set {_CHOOSING_STEPS[given.scheme]}=N")
    elif "rate" in takes and not given.has(*_AMOUNTS):
        needed.append("--sample-rate")
    elif not given.needs_no_size and not given.states(_SIZE):
        needed.append("--dataset-size")
    if not given.has("mechanism.noise_multiplier", "mechanism.type"):
        needed.append("--noise-multiplier")
    if not given.has("training.steps", "training.epochs"):
        needed.append("--steps")
    if not given.has("privacy.delta"):
        needed.append("--delta")
    return tuple(needed)


def load_from_flags(overrides: Overrides) -> Loaded:
    """Return the plan of options alone, Poisson and a fitting data set if unstated, each noted; ConfigError if wrong.

    Args:
        overrides: overrides of the command line, for which `missing_flags` returns nothing.

    Returns:
        The plan, with Poisson sampling unless another scheme is stated, and a note on each assumption.

    Raises:
        ConfigError: an option is wrong; holds all errors, each at its option.
    """
    given = _given_keys(overrides)
    assumed = [*overrides.assumed]
    if not given.states(_SCHEME):
        assumed.append(f"{_SCHEME}=poisson")
    if not given.states(_SIZE):
        # Epsilon of Poisson draws depends on the rate alone, but a plan needs a number of examples: the smallest that
        # fits.
        rate = given.texts.get(_RATE) or given.assumed.get(_RATE, "1")
        fitting = _fitting_size("1" if given.scheme == "all" else rate)
        assumed.append(f"{_SIZE}={max(fitting, _group_size(given.texts.get(_GROUP, '1')))}")
    loaded = load_text(_TEXT, path=PATH, overrides=replace(overrides, assumed=tuple(assumed)))
    return replace(loaded, diagnostics=(*_assumption_notes(given), *map(_without_file_hint, loaded.diagnostics)))


def _given_keys(overrides: Overrides) -> _GivenKeys:
    """Return the texts that the command line states, and those that a solver assumes, by dotted key."""
    flags = {FLAGS[option]: text.strip() for option, text in overrides.flags}
    texts = _texts_by_key((*overrides.assignments, *overrides.swept))
    return _GivenKeys(texts={**texts, **flags}, assumed=_texts_by_key(overrides.assumed))


def _texts_by_key(assignments: Iterable[str]) -> dict[str, str]:
    """Return the values of "key=value" texts by dotted key."""
    pairs = (assignment.partition("=") for assignment in assignments)
    return {key.strip(): text.strip() for key, _, text in pairs}


def _fitting_size(rate: str) -> int:
    """Return the fewest examples of which a step draws one on average, 1 / rate rounded up; 1 for an invalid rate."""
    # Nothing is computed from it: the rate itself is stated, and exact.
    number = scalars.parse_number(rate) or scalars.parse_quotient(rate)
    return ceil(1 / number) if number is not None and Fraction(1, MAX_COUNT) <= number <= 1 else 1


def _group_size(group_size: str) -> int:
    """Return the size of a group, which needs as many examples; 1 if it is no valid size."""
    number = scalars.parse_number(group_size)
    return int(number) if number is not None and number.denominator == 1 and 1 <= number <= MAX_COUNT else 1


def _assumption_notes(given: _GivenKeys) -> Iterator[Diagnostic]:
    """Yield a note that Poisson sampling is assumed, and one that the number of examples is, if not stated."""
    if not given.states(_SCHEME):
        message = "Poisson sampling assumed: a step draws every example on its own, with the same probability"
        yield _note(message, "`--scheme fixed` if batches have a fixed size; then also --batch-size and --dataset-size")
    if not given.states(_SIZE):
        message = "the number of examples is not stated; a number that fits the rate is shown"
        yield _note(message, "the result depends on the rate only; --dataset-size states the number")


def _without_file_hint(diagnostic: Diagnostic) -> Diagnostic:
    """Return a diagnostic; DPC204 (adjacency assumed) as a note whose hint is `--adjacency`, not a key of a file."""
    if diagnostic.code != "DPC204":
        return diagnostic
    return _note(diagnostic.message, "state `--adjacency add-remove`, or replace-one or zero-out", code="DPC204")


def _note(message: str, hint: str, *, code: str = "DPC201") -> Diagnostic:
    """Return a note without a place."""
    return Diagnostic(code=code, severity=Severity.NOTE, message=message, hint=hint, path=PATH)
