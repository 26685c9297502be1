"""Every key of the config file in one table, from its JSON Schema."""

import math
from collections.abc import Iterator

from dpcalc.config.json_schema import json_schema
from dpcalc.config.values import QUOTIENT_PATTERN, Schema

LEVEL = "<level>"  # stands for the name of a level
_HEAD = """# Keys of a dpcalc config

A value may be a reference: `${section.key}` of the same file, `${conf/train.yaml:section.key}` of another one in the
repository. Keys that begin with `x-` are yours.

| key | value | default | meaning |
|---|---|---|---|
"""


def key_table() -> str:
    """All keys as a Markdown table, in the order of the file.

    Returns:
        Markdown with a line break at the end.
    """
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows())


def rows() -> Iterator[tuple[str, str, str, str]]:
    """The rows of the table: dotted key, what its value is, default, meaning."""
    schema = json_schema()
    return _rows(schema, "", schema["$defs"], set())


def _rows(section: Schema, path: str, sections: Schema, told: set[str]) -> Iterator[tuple[str, str, str, str]]:
    """The rows of one mapping and of what is in it; a kind of mapping is told once."""
    for key, value in section["properties"].items():
        here = f"{path}.{key}" if path else key
        listed = value.get("type") == "array"
        name = str((value["items"] if listed else value).get("$ref", "")).rpartition("/")[2]
        kind = ("list of mappings" if listed else "mapping") if name else _words(value)
        meaning = f"{value['description']} Keys as above." if name in told else value["description"]
        yield f"`{here}`", kind, _default(key, section), meaning.replace("|", "\\|")
        if name and name not in told:
            told.add(name)
            yield from _rows(sections[name], f"{here}[]" if listed else here, sections, told)
    if isinstance(section.get("additionalProperties"), dict):
        yield f"`{path}.{LEVEL}`", "mapping", "", "The draw of one level, by its name. Keys as above."


def _default(key: str, section: Schema) -> str:
    """What holds when a key is left out."""
    if key in section.get("required", ()):
        return "required"
    value = section["properties"][key].get("default", "")
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`" if value != "" else ""


def _words(value: Schema) -> str:
    """What a value may be."""
    kinds = [one for one in value.get("anyOf", [value]) if "$ref" not in one]
    flat = [inner for one in kinds for inner in one.get("anyOf", [one])]
    return " or ".join(_kind(one) for one in flat)


def _kind(one: Schema) -> str:
    """One kind of value."""
    if "enum" in one:
        return ", ".join(f"`{word}`" for word in one["enum"])
    if "const" in one:
        return f"`{one['const']:g}`" if isinstance(one["const"], float) else f"`{one['const']}`"
    if one.get("pattern") == QUOTIENT_PATTERN:
        return "quotient such as `1/97`"
    if one["type"] in {"string", "boolean"}:
        return "text" if one["type"] == "string" else "true or false"
    if one["type"] in {"array", "object"}:
        return "list" if one["type"] == "array" else "mapping"
    noun = "whole number" if one["type"] == "integer" else "number"
    return f"{noun}, {_end(one['minimum'])} to {_end(one['maximum'])}"


def _end(number: float) -> str:
    """An end of a range."""
    return "1" if math.isclose(number, 1) else f"{number:g}"
