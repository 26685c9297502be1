"""The keys of a config, declared once beside the data that they describe: type, range, meaning, default and advice.

A section of a config is a table of what `declare` returns, or a frozen dataclass whose fields are made by `key`;
`keys_of` returns what it declares. From the declaration come the validation, the JSON Schema, the table of keys and the
spelling hints (`dpcalc.config`). Numbers arrive as exact fractions. Nothing here knows YAML.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field
from fractions import Fraction
from typing import Any

from dpcalc.errors import DpcalcError
from dpcalc.records import dataclass

MAX_COUNT = 10**15
"""Largest number of units or steps; below 2**53, so that every count is exact as a float."""
TINY = Fraction(1, 10**15)
"""Smallest positive probability of a draw; 1 - TINY still differs from 1 as a float."""

Schema = dict[str, Any]
"""A JSON Schema, or a part of one."""


def mapping_of(properties: Schema, required: list[str]) -> Schema:
    """Return the JSON Schema of a mapping that takes these keys, of which some are required, and `x-` keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "patternProperties": {"^x-": True},
        "additionalProperties": False,
    }


class WrongValueError(DpcalcError):
    """A value that a key does not take."""

    # `code` is DPC102 for the wrong type, DPC106 for a number out of range, DPC104 for a text that is not allowed;
    # `expected` completes "must be".

    def __init__(self, code: str, expected: str) -> None:
        super().__init__(f"expected {expected}")
        self.code, self.expected = code, expected


class ValueType:
    """Type of the value of a key."""

    # `check` returns a value as the type has it, or raises WrongValueError; `as_json_schema` describes the type.

    def check(self, value: object) -> Any:
        raise NotImplementedError

    def as_json_schema(self) -> Schema:
        raise NotImplementedError


@dataclass(frozen=True)
class WholeNumber(ValueType):
    """Exact integers from `min_value` to `max_value`; `others` describes what a config may state in their place."""

    min_value: int
    max_value: int = MAX_COUNT
    words: str = "a whole number"
    others: tuple[Schema, ...] = ()

    def check(self, value: object) -> int:
        if not isinstance(value, Fraction) or value.denominator != 1:
            raise WrongValueError("DPC102", "a whole number" if isinstance(value, Fraction) else self.words)
        if value < self.min_value:
            raise WrongValueError("DPC106", f"at least {self.min_value}")
        if value > self.max_value:
            raise WrongValueError("DPC106", f"at most {self.max_value:.0e}")
        return value.numerator

    def as_json_schema(self) -> Schema:
        number: Schema = {"type": "integer", "minimum": self.min_value, "maximum": self.max_value}
        return {"anyOf": [number, *self.others]} if self.others else number


@dataclass(frozen=True)
class Exact(ValueType):
    """Exact numbers from `min_value` to `max_value`, or one of `gap`; `quotients`: also written as 1/97."""

    min_value: Fraction
    max_value: Fraction
    words: str
    gap: tuple[Fraction, ...] = ()
    quotients: bool = False

    def check(self, value: object) -> Fraction:
        if not isinstance(value, Fraction):
            raise WrongValueError("DPC102", "a number")
        if not self.min_value <= value <= self.max_value and value not in self.gap:
            raise WrongValueError("DPC106", self.words)
        return value

    def as_json_schema(self) -> Schema:
        inside: Schema = {"type": "number", "minimum": float(self.min_value), "maximum": float(self.max_value)}
        others: list[Schema] = [{"const": float(value)} for value in self.gap]
        return {"anyOf": [*others, inside]} if others else inside


@dataclass(frozen=True)
class Word(ValueType):
    """One of some words; `words` is a function where the list is a registry that may grow."""

    words: tuple[str, ...] | Callable[[], tuple[str, ...]]
    as_enum: type | None = None

    @property
    def allowed(self) -> tuple[str, ...]:
        return self.words() if callable(self.words) else self.words

    def check(self, value: object) -> Any:
        if value not in self.allowed:
            raise WrongValueError("DPC104", "one of " + ", ".join(self.allowed))
        return value if self.as_enum is None else self.as_enum(value)

    def as_json_schema(self) -> Schema:
        return {"enum": [*self.allowed], **({"type": "string"} if self.as_enum is None else {})}


@dataclass(frozen=True)
class OfType(ValueType):
    """Values of one Python type: its words for people and its name in JSON Schema."""

    python_type: type[bool] | type[str]
    words: str
    json_type: str

    def check(self, value: object) -> Any:
        if not isinstance(value, self.python_type):
            raise WrongValueError("DPC102", self.words)
        return value

    def as_json_schema(self) -> Schema:
        return {"type": self.json_type}


@dataclass(frozen=True)
class AnyOf(ValueType):
    """Values of one of several types, for the JSON Schema of a key that mechanisms declare differently."""

    kinds: tuple[ValueType, ...]

    def as_json_schema(self) -> Schema:
        return {"anyOf": [kind.as_json_schema() for kind in self.kinds]}


@dataclass(frozen=True, eq=False)  # a schema is a dict, which has no hash
class Structure(ValueType):
    """A value of many parts, which has a reader of its own (curves, trees of counts)."""

    schema: Schema

    def check(self, value: object) -> object:
        return value

    def as_json_schema(self) -> Schema:
        return self.schema


@dataclass(frozen=True)
class ListOf(ValueType):
    """A list of `min_length` to `max_length` mappings, each of the keys `item`, or those of this dataclass."""

    item: type | Mapping[str, "Key"]
    min_length: int
    max_length: int
    length_words: str  # what the list must hold
    form: str = "a list"  # how the list is written
    definition: str = ""  # the item's own definition in the JSON Schema; "" writes it out, and takes a single one too

    def as_json_schema(self) -> Schema:
        if self.definition:
            ends = {"minItems": self.min_length, "maxItems": self.max_length}
            return {"type": "array", "items": {"$ref": f"#/$defs/{self.definition}"}, **ends}
        keys = keys_of(self.item)
        properties = {name: each.kind.as_json_schema() for name, each in keys.items()}
        single = mapping_of(properties, [name for name, each in keys.items() if each.is_required])
        return {"anyOf": [single, {"type": "array", "items": single, "maxItems": self.max_length}]}


@dataclass(frozen=True, kw_only=True, eq=False)
class Key:
    """A key of a section."""

    kind: ValueType
    meaning: str  # sentences for the JSON Schema and the table of keys
    default: object = MISSING
    is_required: bool = False  # whether a config must state it; with a default, that is Python's alone
    advice: str = ""  # hint where a required key is missing
    is_short_form: bool = False  # whether it is replaced before validation


def declare(kind: ValueType, meaning: str, *, default: object = MISSING, is_required: bool = False, **more: Any) -> Key:
    """Return the declaration of a key; without a default the key is required."""
    is_required = is_required or default is MISSING
    return Key(kind=kind, meaning=meaning, default=default, is_required=is_required, **more)


def optional(kind: ValueType, meaning: str, **more: Any) -> Key:
    """Return the declaration of a key that may be left out, which is None then."""
    return declare(kind, meaning, default=None, **more)


def key(kind: ValueType, meaning: str, *, default: object = MISSING, **more: Any) -> Any:
    """Return a dataclass field that declares a key of a config, as `declare` does."""
    return field(default=default, metadata={"key": declare(kind, meaning, default=default, **more)})


def keys_of(section: type | Mapping[str, Key]) -> dict[str, Key]:
    """Return {name: Key} of the keys that a dataclass declares, by fields or class variables, in its order."""
    # A class variable is a key that the class does not hold itself: `clip` and `votes` of a mechanism are of its phase.
    if isinstance(section, Mapping):
        return dict(section)
    keys = {}
    declared: Mapping[str, Any] = section.__dataclass_fields__  # type: ignore[attr-defined]  # every dataclass has it
    for name, item in declared.items():
        declaration = item.metadata.get("key") or item.default
        if isinstance(declaration, Key):
            keys[name] = declaration
    return keys


def exact(low: float | str | Fraction, high: float | str | Fraction, words: str, **more: Any) -> Exact:
    """Return the type of exact numbers in a range; ends as text are decimal."""
    return Exact(Fraction(low), Fraction(high), words, **more)


COUNT = WholeNumber(1)
NUMBER = WholeNumber(0)
TRUTH = OfType(bool, "true or false", "boolean")
TEXT = OfType(str, "a text", "string")
POSITIVE_NOISE = exact("1e-6", 10**9, "from 1e-6 to 1e9")
NOISE = exact("1e-6", 10**9, "0, or from 1e-6 to 1e9", gap=(Fraction(0),))
CHANCE = Exact(Fraction(0), 1 - TINY, "at least 0 and below 1", quotients=True)
DATA_FILE = mapping_of({"file": {"type": "string"}}, ["file"])
"""JSON Schema of `{file: name}` in the place of data."""
