"""The config file as JSON Schema (draft 2020-12), from the models of `written`.

What JSON Schema cannot say, and only dpcalc checks: that levels, `unit` and `clip` name each other; that draws, groups
and tasks fit into counts, and periods into each other; that every level and phase in the end has a scheme, an amount
and a length; that a draw does not stand beside level names; that names differ; which letters a name may hold;
what a reference leads to; which version of dpcalc this is; that a number with underscores has no quotes.
"""

import json
from fractions import Fraction
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from dpcalc.config.mechanisms import MECHANISMS
from dpcalc.config.values import Schema
from dpcalc.config.written import WrittenFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = {
    "type": "string",
    "pattern": r"^\s*\$\{",
    "description": "Elsewhere: `${section.key}` of this file, `${conf/train.yaml:section.key}` of another.",
}
DIGITS = {
    "type": "string",
    "pattern": r"^[-+]?[0-9]+(_[0-9]+)+(\.[0-9_]*)?([eE][-+]?[0-9]+)?$",
    "description": "A number with underscores, without quotes: some editors take it for a text.",
}


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, which also writes exact numbers."""

    def encode_default(self, dft: Any) -> Any:  # noqa: ANN401  as the method it overrides
        """A default as JSON."""
        return float(dft) if isinstance(dft, Fraction) else super().encode_default(dft)


def json_schema() -> Schema:
    """The JSON Schema of the config file; the same in every run."""
    raw = WrittenFile.model_json_schema(schema_generator=_Generator)
    definitions = raw.pop("$defs")
    sections = {name: section for name, section in definitions.items() if "properties" in section}
    return {
        "$schema": DIALECT,
        "title": "dpcalc config",
        **_section(raw, definitions),
        **_complete(),
        "$defs": {
            **{name: _section(section, definitions) for name, section in sorted(sections.items())},
            "reference": REFERENCE,
            "digits": DIGITS,
        },
    }


def json_schema_text() -> str:
    """The JSON Schema as it is packaged: JSON with a line break at the end."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _complete() -> Schema:
    """What a file without phases must say at the top level."""
    said = {
        "sampling": {"properties": {"episodes": {"required": ["tasks", "ways", "shots", "queries"]}}},
        "mechanism": _parameters(),
        "training": {"anyOf": [{"required": ["steps"]}, {"required": ["epochs"]}]},
    }
    return {
        "if": {"not": {"required": ["phases"]}},
        "then": {"required": ["sampling", "mechanism", "training"], "properties": said},
    }


def _parameters() -> Schema:
    """What each mechanism needs; Gaussian noise where no type is said."""
    needed: Schema = {"required": ["noise_multiplier"]}
    for name, kind in MECHANISMS.items():
        required = [key for key, field in kind.model_fields.items() if field.is_required() and key != "type"]
        said = {"properties": {"type": {"const": name}}, "required": ["type"]}
        needed = {"if": said, "then": {"required": required}, "else": needed}
    return needed


def _section(raw: Schema, definitions: Schema) -> Schema:
    """A mapping as users write it: `x-` keys are theirs."""
    rest = {key: value for key, value in raw.items() if key not in {"title", "properties"}}
    properties = {key: _property(value, definitions) for key, value in raw["properties"].items()}
    return {**rest, "properties": properties, "patternProperties": {"^x-": True}}


def _property(raw: Schema, definitions: Schema) -> Schema:
    """A value as users write it: it may be a reference, and never null."""
    about = {key: raw[key] for key in ("description", "default") if raw.get(key) is not None}
    core = {key: value for key, value in raw.items() if key not in {"title", "description", "default"}}
    given = [one for one in core.pop("anyOf", ()) if one != {"type": "null"}]
    if len(given) == 1:
        core = {**given[0], **core}
    elif given:
        core["anyOf"] = given
    target = definitions.get(core.get("$ref", "").rpartition("/")[2], {})
    if "enum" in target:
        core = {"enum": target["enum"]}
    if "$ref" in core or core.get("type") == "array" or core == {"type": "string"}:
        return {**about, **core}
    return {**about, "anyOf": [core, {"$ref": "#/$defs/reference"}, *_digits(core)]}


def _digits(core: Schema) -> list[Schema]:
    """What else a number may look like."""
    numeric = any(one.get("type") in {"integer", "number"} for one in (core, *core.get("anyOf", ())))
    return [{"$ref": "#/$defs/digits"}] if numeric else []
