"""An imported run: phases as a config states them, and what the file does not say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpcalc.config.scalars import decimal_text
from dpcalc.errors import InputError
from dpcalc.imports.values import Call, Expression

MAX_PHASES = 500
"""Different phases of an imported run; a thousand need a config that exceeds the limits of `dpcalc.config`."""
DECIMAL_LENGTH = 8  # characters from which on a rate is written as 1/n where that is the same float


@dataclass(frozen=True, kw_only=True)
class Part:
    """Steps of a run with one sampling and one mechanism.

    Attributes:
        sampling: content of the `sampling:` section.
        mechanism: content of the `mechanism:` section; "{noise}" stands for a noise multiplier that is looked for.
        training: content of the `training:` section, without `steps`.
        steps: noisy updates; None where `training` says the length.
        rate: inclusion probability, 1 without sampling; the smallest number of examples follows from it.
    """

    sampling: str
    mechanism: str
    training: str = ""
    steps: int | None = None
    rate: Fraction = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Terms that the user adds to a file, or puts in the place of its own; None for nothing.

    Attributes:
        delta: text of a number in (0, 1).
        adjacency: name of an adjacency.
        examples: number of examples.
        batch_size: examples in a batch.
        sample_rate: inclusion probability.
        epochs: passes over the data, > 0.
        steps: noisy updates.
        noise_multiplier: noise standard deviation / clip norm.
    """

    delta: str | None = None
    adjacency: str | None = None
    examples: Fraction | None = None
    batch_size: Fraction | None = None
    sample_rate: Fraction | None = None
    epochs: Fraction | None = None
    steps: Fraction | None = None
    noise_multiplier: Fraction | None = None


@dataclass(frozen=True, kw_only=True)
class ImportedRun:
    """A run that a file of another library describes.

    Attributes:
        origin: what the file is, in words.
        parts: in their order, equal ones once.
        unknown: what the file does not say, a sentence each.
        delta: text of a number that the file states, "" for none.
        adjacency: what the library assumes.
        examples: their number, None where the file does not say it.
        group_size: units that are protected together.
        tuning: content of the `tuning:` section, "" for one run.
        target_epsilon: the epsilon for which a noise multiplier is looked for; None where the file states the noise.
    """

    origin: str
    parts: tuple[Part, ...]
    unknown: tuple[str, ...]
    delta: str = ""
    adjacency: str = "add-remove"
    examples: int | None = None
    group_size: int = 1
    tuning: str = ""
    target_epsilon: float | None = None


def merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return parts, the steps of equal ones added, those of 0 steps left out; InputError for none or over 500 kinds.

    Raises:
        InputError: there is none, or there are too many different ones.
    """
    steps: dict[Part, int] = {}
    for part in parts:
        kind = Part(sampling=part.sampling, mechanism=part.mechanism, rate=part.rate)
        steps[kind] = steps.get(kind, 0) + (part.steps or 0)
    if not any(steps.values()):
        raise InputError("expected a run with steps, got one without any; there is nothing to account for")
    if len(steps) > MAX_PHASES:
        raise InputError(
            f"expected at most {MAX_PHASES} different pairs of noise and rate, got {len(steps):,}; state a few of "
            "them, each with less noise and a larger rate than those that it stands for"
        )
    return tuple(
        Part(sampling=each.sampling, mechanism=each.mechanism, steps=count, rate=each.rate)
        for each, count in steps.items()
        if count
    )


# Numbers of a file, checked where they are read so that messages name what the file calls them.


def finite_number(value: Any, where: str, *, low: float = 0, high: float = math.inf) -> Fraction:  # noqa: ANN401
    """Return a Fraction from `low` to `high`; InputError for anything else, infinity too.

    Args:
        value: a value of the file.
        where: what it is, for the message.
        low: smallest valid number.
        high: largest valid number.

    Raises:
        InputError: it is none.
    """
    limits = f"from {low:g} to {high:g}" if high < math.inf else f">= {low:g}"
    if not isinstance(value, Fraction) or not low <= value <= high:
        raise InputError(f"{where}: expected a finite number {limits}, got {shown(value)}")
    return value


def whole_number(value: Any, where: str, *, low: int = 1) -> int:  # noqa: ANN401  a value of the file
    """Return a whole number from `low` on; InputError for anything else.

    Args:
        value: a value of the file.
        where: what it is, for the message.
        low: smallest valid number.

    Raises:
        InputError: it is none.
    """
    if not isinstance(value, Fraction) or value.denominator != 1 or value < low:
        raise InputError(f"{where}: expected a whole number >= {low}, got {shown(value)}")
    return int(value)


def shown(value: Any) -> str:  # noqa: ANN401  a value
    """Return words for a message: a number, a text up to 60 characters, or what kind of thing was not run."""
    match value:
        case Fraction():
            return number_text(value)
        case Expression(text=text):
            return f"`{text}`, which is not run"
        case Call(name=name):
            return f"a call of {name}, which is not run"
        case None:
            return "none"
        case _:
            is_plain = isinstance(value, (str, int, float, bool))
            text = repr(value) if is_plain else getattr(value, "name", f"a {type(value).__name__}")
            return text if len(text) <= 60 else f"{text[:57]}..."


def number_text(number: Fraction) -> str:
    """Return a number as a config states it: a decimal, or a quotient where no short decimal is the same number."""
    return decimal_text(number) or f"{number.numerator}/{number.denominator}"


def decimal_down(number: Fraction) -> str:
    """Return a noise multiplier or delta as a decimal; one that is none is rounded down, to a larger epsilon."""
    return decimal_text(number) or repr(math.nextafter(float(number), 0.0))


def rate_of(value: Any, where: str) -> Fraction:  # noqa: ANN401  a value of the file
    """Return a rate in (0, 1], or 1/n if a long decimal is the float of that; InputError outside.

    Args:
        value: a value of the file.
        where: what it is, for the message.

    Raises:
        InputError: it is none; above 1 the message speaks of accumulated batches.
    """
    rate = finite_number(value, where, low=0)
    if not 0 < rate <= 1:
        more = "; Opacus multiplies it by the accumulated batches: state what one step draws" if rate > 1 else ""
        raise InputError(f"{where}: expected a probability above 0 and at most 1, got {number_text(rate)}{more}")
    batches = round(1 / rate)
    is_quotient = len(number_text(rate)) > DECIMAL_LENGTH and float(Fraction(1, batches)) == float(rate)
    return Fraction(1, batches) if is_quotient else rate
