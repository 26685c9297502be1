"""JSON Schema, reference table and validator: three views of the same models."""

import json
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest

from dpcalc.config.load import load_text
from dpcalc.config.schema import DIALECT, SECTIONS, json_schema, json_schema_text, key_table, keys_in, table_rows
from dpcalc.config.source import ConfigError, source_of
from dpcalc.config.tree import parse_yaml
from tests.config import test_malformed
from tests.config.texts import DIFFERENT, corpus, flat, marked, nested, plain_values, plan, text_of

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def instance(text):
    """What a YAML reader with our rules for numbers hands to a JSON Schema validator."""
    tree, _ = parse_yaml(source_of(text, "f"))
    return _json(plain_values(tree))


def _json(value):
    if isinstance(value, dict):
        return {key: _json(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_json(below) for below in value]
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    return value


def accepted_by_schema(text):
    return VALIDATOR.is_valid(instance(text))


def accepted_by_dpcalc(text):
    try:
        load_text(text, path="f")
    except ConfigError:
        return False
    return True


def test_it_is_a_schema_of_the_draft_it_names():
    assert json_schema()["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(json.loads(json_schema_text()))


VALID = [
    *DIFFERENT,
    *map(text_of, corpus("valid")),
    *(text_of(case) for case in corpus("plans") if "set" not in case),
    *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "sample_configs").glob("*.yaml"))),
    *(
        path.read_text(encoding="utf-8").replace("scheme: ???", "scheme: shuffle")
        for path in sorted((ROOT / "dpcalc/config/templates").glob("*.yaml"))
    ),
]


@pytest.mark.parametrize("text", VALID)
def test_both_accept(text):
    assert accepted_by_dpcalc(text)
    assert list(VALIDATOR.iter_errors(instance(text))) == []


@pytest.mark.parametrize(
    "key", ["data.examples", "sampling.expected", "mechanism.noise_multiplier", "training.steps", "privacy.delta"]
)
def test_references_are_accepted_for_numbers(key):
    section, name = key.split(".")
    others = {"mechanism": "max_grad_norm: 1, ", "privacy": "adjacency: add-remove, ", "sampling": "scheme: poisson, "}
    text = flat({section: f"{{{others.get(section, '')}{name}: '${{x-v.a}}'}}"})
    assert accepted_by_schema(text)
    assert not accepted_by_schema(text.replace("${x-v.a}", "x-v.a"))


def test_every_place_but_plain_texts_takes_a_reference():
    schema = json_schema()
    sections = [schema, *(one for one in schema["$defs"].values() if "properties" in one)]
    for section in sections:
        for key, value in section["properties"].items():
            structure = "$ref" in value or value.get("type") == "array"
            text = value.get("type") == "string" and "pattern" not in value
            assert structure or text or {"$ref": "#/$defs/reference"} in value["anyOf"], key


BEYOND = {"DPC105", "DPC107", "DPC108", "DPC100", "DPC111"}
ONLY_DPCALC = corpus("only_dpcalc")


def cases():
    for name, text, expected, *options in test_malformed.CASES:
        if any(options):
            continue  # the file alone is right
        try:
            clean, _ = marked(text)
            instance(clean)
        except ConfigError:
            continue  # no tree at all: nothing for a JSON Schema to look at
        yield pytest.param(name, clean, expected, id=name)


@pytest.mark.parametrize(("name", "text", "expected"), list(cases()))
def test_both_refuse_what_json_schema_can_express(name, text, expected):
    assert not accepted_by_dpcalc(text)
    codes = {item[0] for item in expected if item}
    beyond = codes & BEYOND or any(name in names for names in ONLY_DPCALC.values()) or "${" in text
    if not beyond:
        assert not accepted_by_schema(text)


def test_the_table_has_every_key_once_with_a_meaning():
    told = [key.strip("`") for key, *_ in table_rows()]
    assert len(told) == len(set(told))
    (sums,) = (meaning for key, _, _, meaning in table_rows() if key == "`mechanism.also`")
    for section in SECTIONS:
        keys = keys_in(section)
        if section == "mechanism.also":  # as short as it is, it is told where it stands
            assert all(key in sums for key in keys)
            continue
        for key in keys:
            place = section.replace("sampling.*", "sampling")
            assert (f"{place}.{key}" if place else key) in told
    for key, kind, _, meaning in table_rows():
        assert kind, key
        assert len(meaning) > 15, key
        assert meaning.endswith("."), key
    assert key_table().count("\n|") == len(told) + 2


TASKS = {
    "data": "{levels: [{name: class, count: 64}, {name: image, count: 600}]}",
    "sampling": "{episodes: {tasks: 4, ways: 5, shots: 1, queries: 15}}",
    "privacy": "{unit: image, delta: 1e-6}",
}


EFFECTS = corpus("effects")


def test_every_key_has_an_effect_to_test():
    assert {key.strip("`") for key, *_ in table_rows()} == EFFECTS.keys()


@pytest.mark.parametrize("key", [key for key, (good, _) in EFFECTS.items() if good])
def test_every_key_has_an_effect(key):
    text = flat(EFFECTS[key][0])
    assert accepted_by_schema(text)
    base = TASKS if key.startswith("sampling.episodes.") else {}
    assert load_text(text, path="f").plan != load_text(flat(base), path="f").plan


@pytest.mark.parametrize("key", EFFECTS)
def test_every_key_is_checked_by_both(key):
    text = flat(EFFECTS[key][1])
    assert not accepted_by_dpcalc(text)
    assert not accepted_by_schema(text)


def test_the_unit_has_an_effect():
    assert plan(nested({})).unit != plan(nested({"privacy": "{unit: task, delta: 1e-6}"})).unit
