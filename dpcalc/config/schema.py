"""Version 1 of the config file as strict models, one per section, in the long form.

Numbers arrive as exact fractions. A model says what a section may hold; what sections mean together
is settled in `meaning`. Nothing a library says reaches the user: `messages` words every failure.
The descriptions are those of the JSON Schema and of the reference table.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, TypeAdapter
from pydantic_core import PydanticCustomError

from dpcalc.adjacency import Adjacency
from dpcalc.config.mechanisms import MECHANISMS, OtherSum
from dpcalc.config.model import Model
from dpcalc.config.values import (
    Amount,
    Count,
    Delta,
    Epochs,
    Expected,
    LevelName,
    Number,
    Rate,
    Repeats,
    Shape,
    Size,
    Steps,
    Truth,
)

MAX_LEVELS = 16
TAG = "\0"  # begins the tags of a union: no key of a file can hold it


def _limited(value: "list[Level]") -> "list[Level]":
    """At least one level and not more than anybody nests."""
    if not 1 <= len(value) <= MAX_LEVELS:
        raise PydanticCustomError("list_length", "{words}", {"words": f"1 to {MAX_LEVELS} levels"})
    return value


class Level(Model):
    """One level of nesting."""

    name: LevelName = Field(description="What one unit of this level is called, e.g. user, task, example.")
    count: Count | None = Field(
        default=None,
        description="How many there are under each unit of the level above; for add-remove in the larger data set. "
        "{min: 5, max: 64} where it varies; left out with `data.tree`.",
    )
    min: Count | None = Field(default=None, description="The fewest under one unit of the level above, with `max`.")
    max: Count | None = Field(default=None, description="The most under one unit of the level above, with `min`.")

    @property
    def ends(self) -> tuple[int, int] | None:
        """The fewest and the most under one parent, None where that is not said rightly."""
        least, most = (self.min, self.max) if self.count is None else (self.count, self.count)
        return None if least is None or most is None or least > most else (least, most)


class Data(Model):
    """What is sampled from: units within units."""

    levels: Annotated[list[Level], AfterValidator(_limited)] = Field(
        description=f"The levels of nesting, outermost first, 1 to {MAX_LEVELS} of them.",
        json_schema_extra={"minItems": 1, "maxItems": MAX_LEVELS},
    )
    tree: object = Field(
        default=None,
        description="How many records every unit holds, where units differ in size: nested lists such as "
        "[[4, 2, 3], [4, 5]], or {file: counts.json}.",
    )


class HeldDraw(Model):
    """A draw that may be held for several steps."""

    redraw_every: Count = Field(
        default=1,
        description="Steps for which one draw is held, an episode; for each level a multiple of that of the next. Not "
        "for schemes with-replacement and shuffle.",
    )


class FixedDraw(HeldDraw):
    """A fixed number, uniformly, without replacement."""

    scheme: Literal["fixed"]
    size: Size = Field(
        description="How many are drawn, for schemes fixed, with-replacement and shuffle; for fixed and shuffle all of "
        "them is the same as scheme all. For fixed also {at_most: 8}: all of a parent that holds fewer."
    )


class ReplacingDraw(Model):
    """A fixed number of independent draws of one: the same one may come several times."""

    scheme: Literal["with-replacement"]
    size: Count


class ShuffledDraw(Model):
    """A fixed number of those whose turn it is, pass after pass in random order."""

    scheme: Literal["shuffle"]
    size: Count
    drop_last: Truth = Field(
        default=False,
        description="For scheme shuffle: whether a pass leaves out those that fill no whole batch, another random part "
        "in each pass, so that every batch holds `size`.",
    )


class PoissonDraw(HeldDraw):
    """Each one on its own with the same probability; exactly one of rate and expected (see `meaning`)."""

    scheme: Literal["poisson"]
    rate: Rate | None = Field(
        default=None,
        description="Probability that one is drawn, for scheme poisson; exact, also as a quotient such as 1/97.",
    )
    expected: Expected | None = Field(
        default=None, description="How many are drawn on average, for scheme poisson; the rate is expected / count."
    )


class AllDraw(HeldDraw):
    """Everything, every time."""

    scheme: Literal["all"]


def _scheme(value: object) -> str | None:
    """Which draw a mapping describes."""
    name = value.get("scheme") if isinstance(value, Mapping) else None
    return None if name is None else f"{TAG}{name}"


Draw = PoissonDraw | FixedDraw | ReplacingDraw | ShuffledDraw | AllDraw
SCHEMES = ("poisson", "fixed", "with-replacement", "shuffle", "all")
_TaggedDraw = Annotated[
    Annotated[PoissonDraw, Tag(f"{TAG}poisson")]
    | Annotated[FixedDraw, Tag(f"{TAG}fixed")]
    | Annotated[ReplacingDraw, Tag(f"{TAG}with-replacement")]
    | Annotated[ShuffledDraw, Tag(f"{TAG}shuffle")]
    | Annotated[AllDraw, Tag(f"{TAG}all")],
    Discriminator(_scheme),
]
SAMPLING: TypeAdapter[dict[str, Draw]] = TypeAdapter(dict[str, _TaggedDraw])


class Episodes(Model):
    """How a step constructs its tasks from two levels, classes and their records."""

    tasks: Count = Field(description="Tasks that a step constructs, independently of each other.")
    ways: Count = Field(description="Classes in a task, drawn without replacement.")
    shots: Number = Field(description="Records of each class in a task that it learns from.")
    queries: Number = Field(description="Further records of each class in a task, by which it is judged.")


class Training(Model):
    """The length; exactly one of steps and epochs (see `meaning`)."""

    steps: Steps | None = Field(default=None, description="Noisy updates. Either this or `epochs`.")
    epochs: Epochs | None = Field(
        default=None,
        description="Passes over the outermost level that is not drawn whole, rounded up to whole steps.",
    )


class Privacy(Model):
    """What is promised to whom."""

    unit: str | None = Field(
        default=None, description="The level whose units are protected; may be left out where there is only one."
    )
    adjacency: Annotated[Adjacency | None, Field(strict=False)] = Field(
        default=None,
        description="What two data sets that must look alike differ in: one unit more or less (add-remove, the "
        "default), one exchanged (replace-one), or one whose contribution is nothing (zero-out).",
    )
    delta: Delta = Field(
        description="The delta of the guarantee, also as a quotient such as 1/1000000; well below 1 / number of "
        "protected units to mean anything."
    )
    group_size: Count = Field(default=1, description="Units that are protected together, wherever they are.")


class Accounting(Model):
    """Which accountant answers."""

    method: Literal["auto", "pld", "rdp", "rdp-classic", "moments", "optimal", "advanced", "basic"] = Field(
        default="auto", description="The accountant; auto is the tightest that applies."
    )


class Budget(Model):
    """What the run may cost, for `check`."""

    epsilon: Amount = Field(description="The largest epsilon that passes.")
    max_increase_pct: Amount | None = Field(
        default=None, description="The largest rise of epsilon against a base, in percent."
    )


class Tuning(Model):
    """The run is repeated a random number of times, and only the best result is released."""

    mean: Repeats = Field(description="Runs on average; how many it really are is drawn at random and stays secret.")
    distribution: Literal["geometric", "logarithmic", "negative-binomial", "poisson"] = Field(
        default="geometric", description="How the number of runs is drawn; all but poisson make at least one."
    )
    shape: Shape | None = Field(
        default=None, description="Of negative-binomial alone: 1 is geometric, near 0 logarithmic."
    )


DRAW_KEYS = ("scheme", "size", "rate", "expected", "redraw_every", "drop_last")
# The keys of every kind of section as a user writes it, for spelling hints; `written` describes them.
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
        "tuning",
    ),
    "data": ("examples", "levels", "tree"),
    "data.levels[]": tuple(Level.model_fields),
    "sampling": (*DRAW_KEYS, "episodes"),
    "sampling.*": DRAW_KEYS,
    "sampling.episodes": tuple(Episodes.model_fields),
    "mechanism": tuple(dict.fromkeys(key for kind in MECHANISMS.values() for key in kind.model_fields)),
    "mechanism.also": tuple(OtherSum.model_fields),
    "training": (*Training.model_fields, "batch_size"),
    "phases[]": ("name", "sampling", "mechanism", "training"),
    "privacy": tuple(Privacy.model_fields),
    "accounting": tuple(Accounting.model_fields),
    "budget": tuple(Budget.model_fields),
    "tuning": tuple(Tuning.model_fields),
}
