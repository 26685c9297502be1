"""JSON Schema (draft 2020-12) of config files, generated from the declarations of `schema`, and the table of all keys.

JSON Schema cannot state the following, which dpcalc alone checks: that levels, `unit` and `clip` name each other; that
draws, groups and tasks fit into counts, and periods into each other; that every level and phase in the end has a
scheme, an amount and a length; that a draw does not stand next to level names; that names differ; which letters a name
may hold; what a reference leads to; which version of dpcalc this is; that a number with underscores has no quotes.
"""

import json
import math
from collections.abc import Iterator, Mapping

from dpcalc.config.scalars import QUOTIENT_PATTERN
from dpcalc.config.schema import (
    DRAW,
    SCHEMES,
    SECTIONS,
    SectionKind,
    keys_in,
    mechanism_keys,
)
from dpcalc.keys import Key, Schema
from dpcalc.mechanisms.kinds import MECHANISMS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_INHERITED = {"Data", "Draw", "Episodes", "Sampling", "Training"}
"""Sections whose keys a phase may leave out, or that have a short form: nothing is required of them."""
_REFERENCE = {
    "type": "string",
    "pattern": r"^\s*\$\{",
    "description": "Elsewhere: `${section.key}` of this file, `${conf/train.yaml:section.key}` of another.",
}
_DIGITS = {
    "type": "string",
    "pattern": r"^[-+]?[0-9]+(_[0-9]+)+(\.[0-9_]*)?([eE][-+]?[0-9]+)?$",
    "description": "A number with underscores, without quotes: some editors take it for a text.",
}

_Row = tuple[str, str, str, str]  # dotted key, type of its value, default, meaning


def json_schema() -> Schema:
    """Return the JSON Schema of a whole config, with one definition in `$defs` for each kind of section."""
    file, *sections = filter(None, SECTIONS.values())
    definitions = {section.name: _section_schema(section) for section in sections}
    description = "The mechanism that one step applies to its batch."
    definitions["Mechanism"] = _mapping_schema(keys_in("mechanism"), description, [])
    for name, conditions in _conditions().items():
        definitions[name] |= conditions
    # Without `phases` a file needs complete sampling, mechanism and training. What a mechanism needs depends on its
    # type, Gaussian if none is stated: a chain of if and else, since JSON Schema has no distinction of cases.
    needed: Schema = {"required": ["noise_multiplier"]}
    for name in MECHANISMS:
        required = [key for key, each in mechanism_keys(name).items() if each.is_required]
        needed = {"if": _states("type", name), "then": {"required": required}, "else": needed}
    parts = {
        "sampling": {"properties": {"episodes": {"required": ["tasks", "ways", "shots", "queries"]}}},
        "mechanism": needed,
        "training": {"anyOf": [{"required": ["steps"]}, {"required": ["epochs"]}]},
    }
    return {
        "$schema": DIALECT,
        "title": "dpcalc config",
        **_section_schema(file),
        "if": {"not": {"required": ["phases"]}},
        "then": {"required": ["sampling", "mechanism", "training"], "properties": parts},
        "$defs": definitions | {"reference": _REFERENCE, "digits": _DIGITS},
    }


def _conditions() -> dict[str, Schema]:
    """Return the JSON Schema, by section, of the keys that exclude each other or need each other."""
    # Sizes: `examples`, or levels with a count or range each, or named levels and a tree.
    ends = [{"required": ["min"]}, {"required": ["max"]}]
    count = {"required": ["count"], "not": {"anyOf": ends}}
    level = {"oneOf": [count, {"required": ["min", "max"], "not": {"required": ["count"]}}]}
    name_only = {"not": {"anyOf": [{"required": ["count"]}, *ends]}}
    sizes: Schema = {
        "oneOf": [{"required": ["levels"]}, {"required": ["examples"]}],
        "not": {"required": ["examples", "tree"]},
        "if": {"required": ["tree"]},
        "then": {"properties": {"levels": {"items": name_only, "minItems": 2}}},
        "else": {"properties": {"levels": {"items": level}}},
    }
    # Draws: `rate` excludes `expected`, each scheme excludes what it does not take, and only fixed takes {at_most: 8}.
    draws: list[Schema] = [{"not": {"required": ["rate", "expected"]}}]
    for name, taken in SCHEMES.items():
        others = [{"required": [key]} for key in DRAW if key not in ("scheme", *taken)]
        size: Schema = {} if name == "fixed" else {"properties": {"size": {"not": {"type": "object"}}}}
        draws.append({"if": _states("scheme", name), "then": {"not": {"anyOf": others}, **size}})
    # Mechanisms: each type has its own keys; without `type` all are allowed.
    types = []
    for name in MECHANISMS:
        keys = {"propertyNames": {"anyOf": [{"enum": [*mechanism_keys(name)]}, {"pattern": "^x-"}]}}
        types.append({"if": _states("type", name), "then": keys})
    return {
        "Data": sizes,
        "Draw": {"allOf": draws},
        "Sampling": {
            "additionalProperties": {"$ref": "#/$defs/Draw"},
            "allOf": draws,
            "if": {"required": ["episodes"]},  # tasks are constructed: no draws by level
            "then": {"propertyNames": {"pattern": "^(episodes$|x-)"}},
        },
        "Training": {"not": {"required": ["steps", "epochs"]}},
        "Mechanism": {"allOf": types},
    }


def json_schema_text() -> str:
    """Return the JSON Schema as `dpcalc schema` prints it: indented JSON with a line break at the end."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _states(key: str, word: str) -> Schema:
    """Return, as JSON Schema, that a key is stated and has this word as its value."""
    return {"properties": {key: {"const": word}}, "required": [key]}


def _section_schema(section: SectionKind) -> Schema:
    """Return the JSON Schema of a section of the file; it requires no key that a phase may inherit."""
    # What may be inherited or written in short is required by dpcalc alone.
    required = [name for name, each in section.keys.items() if each.is_required and section.name not in _INHERITED]
    return _mapping_schema(section.keys, section.description, required)


def _mapping_schema(keys: Mapping[str, Key], description: str, required: list[str]) -> Schema:
    """Return the JSON Schema of a mapping that takes some keys, of which some are required, and `x-` keys."""
    return {
        "description": description,
        "type": "object",
        "properties": {name: _property_schema(each) for name, each in keys.items()},
        "additionalProperties": False,
        **({"required": required} if required else {}),
        "patternProperties": {"^x-": True},
    }


def _property_schema(declared: Key) -> Schema:
    """Return the JSON Schema of a key: its meaning, its default if that is a finite scalar, and its value."""
    about: Schema = {"description": declared.meaning}
    is_shown = isinstance(declared.default, bool | int | float | str) and declared.default != math.inf
    if is_shown and not declared.is_required:
        about["default"] = declared.default
    core = declared.kind.as_json_schema()
    if getattr(declared.kind, "quotients", False):
        core = {"anyOf": [*core.get("anyOf", [core]), {"type": "string", "pattern": QUOTIENT_PATTERN}]}
    # A text may be a reference anyway, and what stands in a list or mapping has its own alternatives.
    if "$ref" in core or core.get("type") == "array" or core == {"type": "string"}:
        return about | core
    is_number = any(schema.get("type") in {"integer", "number"} for schema in (core, *core.get("anyOf", ())))
    digits = [{"$ref": "#/$defs/digits"}] if is_number else []  # with underscores
    return about | {"anyOf": [core, {"$ref": "#/$defs/reference"}, *digits]}


# Every key of the config file in a table, from its JSON Schema.


_LEVEL_NAME = "<level>"  # stands for the name of a level
_TYPE_WORDS = {"string": "text", "boolean": "true or false", "array": "list", "object": "mapping"}
_HEAD = """# Keys of a dpcalc config

Every key, its type and range, its default where it may be left out, and what it means.

A value may be a reference: `${section.key}` of the same file, `${conf/train.yaml:section.key}` of another file of the
repository. Keys that begin with `x-` are yours.

| key | value | default | meaning |
|---|---|---|---|
"""


def key_table() -> str:
    """Return all keys as a Markdown table, in the order of the file."""
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in table_rows())


def table_rows() -> Iterator[_Row]:
    """Yield the rows of the table: (dotted key, type of its value, default, meaning)."""
    schema = json_schema()
    return _section_rows(schema, "", schema["$defs"], set())


def _section_rows(section: Schema, path: str, sections: Schema, described: set[str]) -> Iterator[_Row]:
    """Yield the rows of a section's keys and of the mappings in it, which are added to `described` and not repeated."""
    for key, value in section["properties"].items():
        dotted, name = f"{path}.{key}" if path else key, _mapping_name(value)
        meaning = f"{value['description']} Keys as above." if name in described else value["description"]
        default = value.get("default", "")
        if key in section.get("required", ()):
            shown = "required"
        elif isinstance(default, bool):
            shown = f"`{str(default).lower()}`"
        elif isinstance(default, float):
            shown = f"`{default:g}`"
        else:
            shown = f"`{default}`" if default != "" else ""
        yield f"`{dotted}`", _value_text(value), shown, meaning.replace("|", "\\|")
        if name and name not in described:
            described.add(name)
            inner = dotted if "$ref" in value else f"{dotted}[]"
            yield from _section_rows(sections[name], inner, sections, described)
    if isinstance(section.get("additionalProperties"), dict):  # `sampling`, whose other keys name levels
        yield f"`{path}.{_LEVEL_NAME}`", "mapping", "", "The draw of a level, by its name. Keys as above."


def _mapping_name(value: Schema) -> str:
    """Return the name in `$defs` of the mapping that a value is or, as a list, consists of; "" for other values."""
    return str(value.get("items", value).get("$ref", "")).rpartition("/")[2]


def _value_text(value: Schema) -> str:
    """Return the types of a value in words, joined by "or" and without references, such as "list of mappings"."""
    if _mapping_name(value):
        return "mapping" if "$ref" in value else "list of mappings"
    kinds = [schema for schema in value.get("anyOf", [value]) if "$ref" not in schema]
    texts = []
    for schema in (inner for kind in kinds for inner in kind.get("anyOf", [kind])):
        if "enum" in schema:
            texts.append(", ".join(f"`{word}`" for word in schema["enum"]))
        elif "const" in schema:
            number = isinstance(schema["const"], float)
            texts.append(f"`{schema['const']:g}`" if number else f"`{schema['const']}`")
        elif schema.get("pattern") == QUOTIENT_PATTERN:
            texts.append("quotient such as `1/97`")
        elif schema["type"] in _TYPE_WORDS:
            texts.append(_TYPE_WORDS[schema["type"]])
        else:
            noun = "whole number" if schema["type"] == "integer" else "number"
            # an end within rounding of 1 is 1
            low, high = ("1" if math.isclose(end, 1) else f"{end:g}" for end in (schema["minimum"], schema["maximum"]))
            texts.append(f"{noun}, {low} to {high}")
    return " or ".join(texts)
