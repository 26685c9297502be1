"""Version 1 of the config file as strict models, one per section, in the long form.

Numbers arrive as exact fractions. A model says what a section may hold; what sections mean together
is settled in `checks`. Nothing a library says reaches the user: `messages` words every failure.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, PlainValidator, Tag, TypeAdapter
from pydantic_core import PydanticCustomError

from dpcalc.adjacency import Adjacency
from dpcalc.config.diagnostics import visible

MAX_COUNT = 10**15
MAX_LEVELS = 16
MAX_LABEL = 200
BATCH = "batch"  # `clip: batch` is level 0, the whole batch
# Words that mean something where level names stand, or where sections are merged.
RESERVED = frozenset(
    {
        BATCH,
        "all",
        "scheme",
        "size",
        "rate",
        "expected",
        "redraw_every",
        "episodes",
        "batch_size",
        "steps",
        "epochs",
        "type",
    }
)
TAG = "\0"  # begins the tags of a union: no key of a file can hold it


@dataclass(frozen=True)
class WholeNumber:
    """Accepts exact whole numbers between two ends."""

    least: int
    most: int

    def __call__(self, value: object) -> int:
        """The number, if it is one."""
        if not isinstance(value, Fraction) or value.denominator != 1:
            raise PydanticCustomError("wrong_type", "a whole number")
        if value < self.least:
            raise PydanticCustomError("out_of_range", "at least {end}", {"end": self.least})
        if value > self.most:
            raise PydanticCustomError("out_of_range", "at most {end}", {"end": f"{self.most:.0e}"})
        return value.numerator


@dataclass(frozen=True)
class Exact:
    """Accepts exact numbers between two ends, or zero beside them."""

    least: Fraction
    most: Fraction
    words: str
    gap: tuple[Fraction, ...] = ()

    def __call__(self, value: object) -> Fraction:
        """The number, if it is one."""
        if not isinstance(value, Fraction):
            raise PydanticCustomError("wrong_type", "a number")
        if not self.least <= value <= self.most and value not in self.gap:
            raise PydanticCustomError("out_of_range", "{words}", {"words": self.words})
        return value


def _level_name(value: object) -> str:
    """A name that can stand in a dotted path and in a sentence."""
    if not isinstance(value, str):
        raise PydanticCustomError("wrong_type", "a name")
    if not re.fullmatch(r"[^\W\d_][\w-]{0,63}", value) or value.startswith("x-"):
        words = "a word of at most 64 letters, digits, `-` and `_` that begins with a letter and not with `x-`"
        raise PydanticCustomError("not_allowed", "{words}", {"words": words})
    if value in RESERVED:
        words = "a name of your own: this one has a meaning in dpcalc"
        raise PydanticCustomError("not_allowed", "{words}", {"words": words})
    return value


def label(value: object) -> str:
    """A name that is only shown: any text that a terminal prints as it is.

    Args:
        value: what the file says.

    Returns:
        The name.

    Raises:
        PydanticCustomError: no text, too long, or with characters that a terminal would obey.
    """
    if not isinstance(value, str):
        raise PydanticCustomError("wrong_type", "a text")
    if len(value) > MAX_LABEL or visible(value) != value:
        words = f"at most {MAX_LABEL} printable characters"
        raise PydanticCustomError("not_allowed", "{words}", {"words": words})
    return value


def _limited(value: "list[Level]") -> "list[Level]":
    """At least one level and not more than anybody nests."""
    if not 1 <= len(value) <= MAX_LEVELS:
        raise PydanticCustomError("list_length", "{words}", {"words": f"1 to {MAX_LEVELS} levels"})
    return value


_TINY = Fraction(1, 10**15)
Count = Annotated[int, PlainValidator(WholeNumber(1, MAX_COUNT))]
Steps = Annotated[int, PlainValidator(WholeNumber(0, MAX_COUNT))]
Group = Annotated[int, PlainValidator(WholeNumber(1, MAX_COUNT))]
Rate = Annotated[Fraction, PlainValidator(Exact(_TINY, Fraction(1), "more than 0 (at least 1e-15) and at most 1"))]
Expected = Annotated[Fraction, PlainValidator(Exact(_TINY, Fraction(MAX_COUNT), "more than 0 and at most 1e+15"))]
Epochs = Annotated[Fraction, PlainValidator(Exact(Fraction(0), Fraction(MAX_COUNT), "from 0 to 1e+15"))]
Noise = Annotated[
    Fraction,
    PlainValidator(Exact(Fraction(1, 10**6), Fraction(10**9), "0, or from 1e-6 to 1e9", gap=(Fraction(0),))),
]
Norm = Annotated[
    Fraction,
    PlainValidator(Exact(Fraction(1, 10**100), Fraction(10**100), "more than 0 and at most 1e100")),
]
Delta = Annotated[
    Fraction,
    PlainValidator(Exact(Fraction(1, 10**300), 1 - _TINY, "more than 0 (at least 1e-300) and below 1")),
]
Amount = Annotated[Fraction, PlainValidator(Exact(Fraction(0), Fraction(10**9), "from 0 to 1e9"))]
Label = Annotated[str, PlainValidator(label)]
LevelName = Annotated[str, PlainValidator(_level_name)]


class Model(BaseModel):
    """A section: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Level(Model):
    """An entry of `data.levels`."""

    name: LevelName
    count: Count


class Data(Model):
    """`data`: the levels, outermost first."""

    levels: Annotated[list[Level], AfterValidator(_limited)]


class FixedDraw(Model):
    """`sampling.<level>` with scheme fixed."""

    scheme: Literal["fixed"]
    size: Count


class PoissonDraw(Model):
    """`sampling.<level>` with scheme poisson; exactly one of rate and expected (see `checks`)."""

    scheme: Literal["poisson"]
    rate: Rate | None = None
    expected: Expected | None = None


class AllDraw(Model):
    """`sampling.<level>` with scheme all."""

    scheme: Literal["all"]


def _scheme(value: object) -> str | None:
    """Which draw a mapping describes."""
    name = value.get("scheme") if isinstance(value, Mapping) else None
    return None if name is None else f"{TAG}{name}"


Draw = Annotated[
    Annotated[FixedDraw, Tag(f"{TAG}fixed")]
    | Annotated[PoissonDraw, Tag(f"{TAG}poisson")]
    | Annotated[AllDraw, Tag(f"{TAG}all")],
    Discriminator(_scheme),
]
LABEL: TypeAdapter[str] = TypeAdapter(Label)
SAMPLING: TypeAdapter[dict[str, FixedDraw | PoissonDraw | AllDraw]] = TypeAdapter(dict[str, Draw])


class Mechanism(Model):
    """`mechanism`: the noise of one step."""

    type: Literal["gaussian"] = "gaussian"
    noise_multiplier: Noise
    max_grad_norm: Norm = Fraction(1)
    clip: str | None = None


class Training(Model):
    """`training`: the length; exactly one of steps and epochs (see `checks`)."""

    steps: Steps | None = None
    epochs: Epochs | None = None


class Privacy(Model):
    """`privacy`: what is promised to whom."""

    unit: str | None = None
    adjacency: Annotated[Adjacency | None, Field(strict=False)] = None
    delta: Delta
    group_size: Group = 1


class Accounting(Model):
    """`accounting`: which accountant answers."""

    method: Literal["auto", "pld", "rdp", "moments", "advanced", "basic"] = "auto"


class Budget(Model):
    """`budget`: what the run may cost."""

    epsilon: Amount
    max_increase_pct: Amount | None = None


# The keys of every kind of section as a user writes it, for spelling hints.
KEYS: dict[str, tuple[str, ...]] = {
    "": (
        "version",
        "name",
        "requires",
        "data",
        "sampling",
        "mechanism",
        "training",
        "phases",
        "privacy",
        "accounting",
        "budget",
    ),
    "data": ("examples", "levels"),
    "data.levels[]": tuple(Level.model_fields),
    "sampling": ("scheme", "size", "rate", "expected"),
    "sampling.*": ("scheme", "size", "rate", "expected"),
    "mechanism": tuple(Mechanism.model_fields),
    "training": (*Training.model_fields, "batch_size"),
    "phases[]": ("name", "sampling", "mechanism", "training"),
    "privacy": tuple(Privacy.model_fields),
    "accounting": tuple(Accounting.model_fields),
    "budget": tuple(Budget.model_fields),
}
