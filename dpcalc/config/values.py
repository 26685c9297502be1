"""Types of values that only a config has: sizes of draws, names of levels, names that are printed."""

import re
from dataclasses import dataclass
from fractions import Fraction

from dpcalc.config.scalars import QUOTIENT
from dpcalc.config.source import visible
from dpcalc.config.tree import USER_KEY
from dpcalc.keys import COUNT, TEXT, Schema, ValueType, WholeNumber, WrongValueError

MAX_LABEL = 200  # characters of a name that is only printed; longer ones break tables
AT_MOST = "at_most"  # `size: {at_most: 8}` draws all units of a parent that has fewer
EVERY = "all"  # `--unit all` protects each level in turn
BATCH = "batch"  # `clip: batch` is level 0, the whole batch
EPISODES = "episodes"  # key of `sampling` that excludes draws by level
BATCH_SIZE = "batch_size"  # moved into the draw under this name until the scheme is known
DRAW_KEYS = (
    "scheme",
    "size",
    "rate",
    "expected",
    "max_batch_size",
    "redraw_every",
    "drop_last",
    "groups",
    "max_group_size",
    "bins",
    "assignment",
    "times",
)
AMOUNT_KEYS = frozenset({"size", "rate", "expected", BATCH_SIZE})  # each says how many are drawn
QUOTIENT_PATTERN = f"^{QUOTIENT}$"
# Not allowed as names of levels: keys that stand beside level names in `sampling`, or decide how sections are merged.
RESERVED = frozenset({BATCH, EVERY, *DRAW_KEYS, EPISODES, BATCH_SIZE, "steps", "epochs", "type"})
_INVISIBLE = r"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # control and formatting characters
_COUNT_RANGE: Schema = {
    "type": "object",
    "properties": {end: COUNT.as_json_schema() for end in ("min", "max")},
    "required": ["min", "max"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class AtMost:
    """A fixed draw size that is capped by what a parent holds.

    Attributes:
        size: largest number drawn from one parent, >= 1; a parent that holds fewer gives all of them.
    """

    size: int


class DrawSize(ValueType):
    """Size of a draw without replacement: an integer >= 1, or `{at_most: 8}`, which `sections` reads."""

    def check(self, value: object) -> int:
        """Return a whole number from 1 as int; WrongValueError for anything else (`sections` reads `at_most`).

        Raises:
            WrongValueError: the value is of another type, or not allowed.
        """
        if not isinstance(value, Fraction):
            raise WrongValueError("DPC102", f"a whole number, or {{{AT_MOST}: 8}}")
        return COUNT.check(value)

    def as_json_schema(self) -> Schema:
        """Return the JSON Schema of a whole number, or of `{at_most: number}`."""
        limit: Schema = {
            "type": "object",
            "properties": {AT_MOST: COUNT.as_json_schema()},
            "required": [AT_MOST],
            "patternProperties": {"^x-": True},
            "additionalProperties": False,
        }
        return {"anyOf": [COUNT.as_json_schema(), limit]}


class LevelName(ValueType):
    """Names of levels: words that fit into a dotted path and into a sentence, and are no reserved key."""

    def check(self, value: object) -> str:
        """Return a name of a level; WrongValueError if it is no text, no word of 64 letters, or a key of ours.

        Raises:
            WrongValueError: the value is of another type, or not allowed.
        """
        if not isinstance(value, str):
            raise WrongValueError("DPC102", "a name")
        if not re.fullmatch(r"[^\W\d_][\w-]{0,63}", value) or value.startswith(USER_KEY):
            words = "a word of at most 64 letters, digits, `-` and `_` that begins with a letter and not with `x-`"
            raise WrongValueError("DPC104", words)
        if value in RESERVED:
            raise WrongValueError("DPC104", "a name of your own: this one has a meaning in dpcalc")
        return value

    def as_json_schema(self) -> Schema:
        """Return the JSON Schema of nearly the same names: regular expressions disagree on what a letter is."""
        pattern = r"^(?!x-)[^\s0-9_.$\-\[\]=][^\s.$\[\]=]{0,63}$"
        return {"type": "string", "pattern": pattern, "not": {"enum": sorted(RESERVED)}}


@dataclass(frozen=True)
class Label(ValueType):
    """Texts that are only printed: `min_length` to MAX_LABEL characters, all printable, not spaces alone."""

    min_length: int = 0

    def check(self, value: object) -> str:
        """Return a text of `min_length` (blank ends not counted) to MAX_LABEL printable characters; WrongValueError.

        Raises:
            WrongValueError: the value is of another type, or not allowed.
        """
        text: str = TEXT.check(value)
        if len(text) > MAX_LABEL or visible(text) != text:
            raise WrongValueError("DPC104", f"at most {MAX_LABEL} printable characters")
        if len(text.strip()) < self.min_length:
            raise WrongValueError("DPC104", "a text that is not empty")
        return text

    def as_json_schema(self) -> Schema:
        """Return the JSON Schema of nearly the same texts: it excludes the best-known control characters."""
        text = rf"[^\s{_INVISIBLE}][^{_INVISIBLE}]*" if self.min_length else ""
        return {"type": "string", "maxLength": MAX_LABEL, "pattern": f"^[^{_INVISIBLE}]*{text}$"}


class LevelCount(WholeNumber):
    """A number of units; users may also write a range, which the long form splits into `min` and `max`."""

    def as_json_schema(self) -> Schema:
        """Return the JSON Schema that allows either form."""
        return {"anyOf": [super().as_json_schema(), _COUNT_RANGE]}


LABEL, FILLED_LABEL, LEVEL_NAME = Label(), Label(min_length=1), LevelName()
