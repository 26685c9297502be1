"""JSON Schema (draft 2020-12) of config files, generated from the declarations of `schema`, and the table of all keys.

JSON Schema cannot state the following, which dpcalc alone checks: that levels, `unit` and `clip` name each other; that
draws, groups and tasks fit into counts, and periods into each other; that every level and phase in the end has a
scheme, an amount and a length; that a draw does not stand next to level names; that names differ; which letters a name
may hold; what a reference leads to; which version of dpcalc this is; that a number with underscores has no quotes.
"""

import inspect
import json
import math
from collections.abc import Iterator, Mapping

from dpcalc.config.scalars import DRAW_KEYS, QUOTIENT_PATTERN
from dpcalc.config.schema import (
    SCHEMES,
    SECTIONS,
    Data,
    Draw,
    File,
    Sampling,
    Training,
    all_mechanism_keys,
    mechanism_keys,
)
from dpcalc.keys import Key, Schema, ValueType, keys_of
from dpcalc.mechanisms.kinds import MECHANISMS
from dpcalc.sampling.hierarchy import Episodes

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_INHERITED = {Data, Draw, Episodes, Sampling, Training}
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
    conditions = _section_conditions()
    definitions = {
        section.__name__: _section_schema(section) | conditions.get(section, {})
        for section in dict.fromkeys(SECTIONS.values())
        if section not in {None, File}
    }
    description = "The mechanism that one step applies to its batch."
    definitions["Mechanism"] = _mapping_schema(all_mechanism_keys(), description, []) | _type_conditions()
    return {
        "$schema": DIALECT,
        "title": "dpcalc config",
        **_section_schema(File),
        **_requirements_without_phases(),
        "$defs": definitions | {"reference": _REFERENCE, "digits": _DIGITS},
    }


def _section_conditions() -> dict[type, Schema]:
    """Return the JSON Schema, by section, of the keys in data, draws, sampling and training that exclude each other."""
    return {
        Data: _size_conditions(),
        Draw: _scheme_conditions(),
        Sampling: {
            "additionalProperties": {"$ref": "#/$defs/Draw"},
            **_scheme_conditions(),
            "if": {"required": ["episodes"]},  # tasks are constructed: no draws by level
            "then": {"propertyNames": {"pattern": "^(episodes$|x-)"}},
        },
        Training: _not_both("steps", "epochs"),
    }


def json_schema_text() -> str:
    """Return the JSON Schema as `dpcalc schema` prints it: indented JSON with a line break at the end."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _requirements_without_phases() -> Schema:
    """Return the JSON Schema by which a file without `phases` needs complete sampling, mechanism and training."""
    sections = {
        "sampling": {"properties": {"episodes": {"required": ["tasks", "ways", "shots", "queries"]}}},
        "mechanism": _mechanism_requirements(),
        "training": {"anyOf": [{"required": ["steps"]}, {"required": ["epochs"]}]},
    }
    return {
        "if": {"not": {"required": ["phases"]}},
        "then": {"required": ["sampling", "mechanism", "training"], "properties": sections},
    }


def _mechanism_requirements() -> Schema:
    """Return the JSON Schema of the keys that each mechanism type requires; Gaussian if no type is stated."""
    # A chain of if and else, since JSON Schema has no distinction of cases.
    needed: Schema = {"required": ["noise_multiplier"]}
    for name in MECHANISMS:
        required = [key for key, each in mechanism_keys(name).items() if each.is_required]
        needed = {"if": _states("type", name), "then": {"required": required}, "else": needed}
    return needed


def _scheme_conditions() -> Schema:
    """Return the JSON Schema of draws: `rate` excludes `expected`, and each scheme excludes what it does not take."""
    rules: list[Schema] = [_not_both("rate", "expected")]
    rules += [{"if": _states("scheme", name), "then": _draw_condition(name)} for name in SCHEMES]
    return {"allOf": rules}


def _draw_condition(scheme: str) -> Schema:
    """Return, as JSON Schema, that a draw has no key which its scheme lacks, and no mapping as `size` unless fixed."""
    others = [{"required": [key]} for key in DRAW_KEYS[1:] if key not in SCHEMES[scheme]]
    sizes: Schema = {} if scheme == "fixed" else {"properties": {"size": {"not": {"type": "object"}}}}
    return {"not": {"anyOf": others}, **sizes}


def _states(key: str, word: str) -> Schema:
    """Return, as JSON Schema, that a key is stated and has this word as its value."""
    return {"properties": {key: {"const": word}}, "required": [key]}


def _not_both(first: str, second: str) -> Schema:
    """Return, as JSON Schema, that two keys exclude each other."""
    return {"not": {"required": [first, second]}}


def _size_conditions() -> Schema:
    """Return the JSON Schema of sizes: `examples`, or levels with a count or range each, or named levels and a tree."""
    ends = [{"required": ["min"]}, {"required": ["max"]}]
    count = {"required": ["count"], "not": {"anyOf": ends}}
    level = {"oneOf": [count, {"required": ["min", "max"], "not": {"required": ["count"]}}]}
    name_only = {"not": {"anyOf": [{"required": ["count"]}, *ends]}}
    return {
        "oneOf": [{"required": ["levels"]}, {"required": ["examples"]}],
        "not": {"required": ["examples", "tree"]},
        "if": {"required": ["tree"]},
        "then": {"properties": {"levels": {"items": name_only, "minItems": 2}}},
        "else": {"properties": {"levels": {"items": level}}},
    }


def _type_conditions() -> Schema:
    """Return the JSON Schema of the keys that each stated mechanism type takes; without `type` all are allowed."""
    rules = []
    for name in MECHANISMS:
        keys = {"propertyNames": {"anyOf": [{"enum": [*mechanism_keys(name)]}, {"pattern": "^x-"}]}}
        rules.append({"if": _states("type", name), "then": keys})
    return {"allOf": rules}


def _section_schema(section: type) -> Schema:
    """Return the JSON Schema of a section of the file; it requires no key that a phase may inherit."""
    keys = keys_of(section)
    # What may be inherited or written in short is required by dpcalc alone.
    required = [name for name, each in keys.items() if each.is_required and section not in _INHERITED]
    return _mapping_schema(keys, inspect.getdoc(section) or "", required)


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
    """Return the JSON Schema of a key: its value, its meaning, and its default if that is a finite scalar."""
    about: Schema = {"description": declared.meaning}
    is_shown = isinstance(declared.default, bool | int | float | str) and declared.default != math.inf
    if is_shown and not declared.is_required:
        about["default"] = declared.default
    return about | _value_schema(declared.kind)


def _value_schema(kind: ValueType) -> Schema:
    """Return the JSON Schema of a value or, except for lists and mappings, of a reference in its place."""
    core = _type_schema(kind)
    # A text may be a reference anyway, and what stands in a list or mapping has its own alternatives.
    if "$ref" in core or core.get("type") == "array" or core == {"type": "string"}:
        return core
    is_number = any(schema.get("type") in {"integer", "number"} for schema in (core, *core.get("anyOf", ())))
    digits = [{"$ref": "#/$defs/digits"}] if is_number else []  # with underscores
    return {"anyOf": [core, {"$ref": "#/$defs/reference"}, *digits]}


def _type_schema(kind: ValueType) -> Schema:
    """Return the JSON Schema of a type's values, with quotients such as "1/97" if the type takes them."""
    core = kind.as_json_schema()
    if not getattr(kind, "quotients", False):
        return core
    return {"anyOf": [*core.get("anyOf", [core]), {"type": "string", "pattern": QUOTIENT_PATTERN}]}


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
        yield f"`{dotted}`", _value_text(value), _default_text(key, section), meaning.replace("|", "\\|")
        if name and name not in described:
            described.add(name)
            inner = dotted if "$ref" in value else f"{dotted}[]"
            yield from _section_rows(sections[name], inner, sections, described)
    if isinstance(section.get("additionalProperties"), dict):  # `sampling`, whose other keys name levels
        yield f"`{path}.{_LEVEL_NAME}`", "mapping", "", "The draw of a level, by its name. Keys as above."


def _mapping_name(value: Schema) -> str:
    """Return the name in `$defs` of the mapping that a value is or, as a list, consists of; "" for other values."""
    return str(value.get("items", value).get("$ref", "")).rpartition("/")[2]


def _default_text(key: str, section: Schema) -> str:
    """Return a key's default in Markdown, "required", or "" for an optional key without one."""
    if key in section.get("required", ()):
        return "required"
    value = section["properties"][key].get("default", "")
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`" if value != "" else ""


def _value_text(value: Schema) -> str:
    """Return the types of a value in words, joined by "or" and without references, such as "list of mappings"."""
    if _mapping_name(value):
        return "mapping" if "$ref" in value else "list of mappings"
    kinds = [schema for schema in value.get("anyOf", [value]) if "$ref" not in schema]
    flat = [inner for schema in kinds for inner in schema.get("anyOf", [schema])]
    return " or ".join(_type_text(schema) for schema in flat)


def _type_text(schema: Schema) -> str:
    """Return the type of a JSON Schema without alternatives in words, such as "whole number, 1 to 100"."""
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']:g}`" if isinstance(schema["const"], float) else f"`{schema['const']}`"
    if schema.get("pattern") == QUOTIENT_PATTERN:
        return "quotient such as `1/97`"
    if schema["type"] in _TYPE_WORDS:
        return _TYPE_WORDS[schema["type"]]
    noun = "whole number" if schema["type"] == "integer" else "number"
    return f"{noun}, {_bound_text(schema['minimum'])} to {_bound_text(schema['maximum'])}"


def _bound_text(number: float) -> str:
    """Return an end of a range; numbers within rounding of 1 are 1."""
    return "1" if math.isclose(number, 1) else f"{number:g}"
