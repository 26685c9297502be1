"""JSON Schema, reference table and validator: three views of the same models."""

import json
import re
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest
import yaml

from dpcalc.config.schema import json_schema_text
from dpcalc.config.source import ConfigError
from tests.config.test_corpus import MALFORMED
from tests.config.texts import DIFFERENT, SAMPLES, cases, corpus, flat, loaded, marked, plan, text_of

SCHEMA = json.loads(json_schema_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
TEMPLATES = Path(__file__).parents[2] / "dpcalc/config/templates"
KEY_TABLE = (Path(__file__).parents[2] / "docs/keys.md").read_text(encoding="utf-8")  # which `dpcalc schema` prints
NUMBER = re.compile(r"[-+]?(\d+(_\d+)*(\.(\d+(_\d+)*)?)?|\.\d+(_\d+)*)([eE][-+]?\d+)?")


class Reader(yaml.SafeLoader):
    """YAML with the numbers of dpcalc, as a validator of JSON Schema is handed it."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        "<": [("tag:yaml.org,2002:merge", re.compile("<<$"))],
        **{first: [("tag:yaml.org,2002:bool", re.compile("true$|false$"))] for first in "tf"},
        **{first: [("tag:yaml.org,2002:null", re.compile("null$|~$|$"))] for first in ("n", "~", "")},
        **{first: [("!number", re.compile(f"(?!0\\d)(?:{NUMBER.pattern})$"))] for first in "0123456789.+-"},
    }

    def number(self, node):
        if len(node.value) > 80 or len(node.value.lower().partition("e")[2]) > 4:
            return node.value  # a text to dpcalc
        value = Fraction(node.value)
        return value.numerator if value.denominator == 1 else float(value)


Reader.add_constructor("!number", Reader.number)


def instance(text):
    """A config as a validator sees it, without its `x-` keys; None where it is no YAML."""

    def plain(node):
        if isinstance(node, dict):
            return {str(key): plain(below) for key, below in node.items() if not str(key).startswith("x-")}
        return [plain(each) for each in node] if isinstance(node, list) else node

    try:
        return plain(yaml.load(text, Loader=Reader))  # noqa: S506  a safe one
    except (yaml.YAMLError, ValueError, TypeError, OverflowError):
        return None


def accepted_by_schema(text):
    return VALIDATOR.is_valid(instance(text))


def accepted_by_dpcalc(text):
    try:
        loaded(text)
    except ConfigError:
        return False
    return True


def test_it_is_a_schema_of_the_draft_it_names():
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


VALID = [
    *DIFFERENT,
    *map(text_of, corpus("valid")),
    *(text_of(case) for case in cases("plans") if not {"set", "flags"} & case.keys()),
    *(path.read_text(encoding="utf-8") for path in sorted(SAMPLES.glob("*.yaml"))),
    *(
        path.read_text(encoding="utf-8").replace("scheme: ???", "scheme: shuffle")
        for path in sorted(TEMPLATES.glob("*.yaml"))
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
    sections = [SCHEMA, *(one for one in SCHEMA["$defs"].values() if "properties" in one)]
    for section in sections:
        for key, value in section["properties"].items():
            structure = "$ref" in value or value.get("type") == "array"
            text = value.get("type") == "string" and "pattern" not in value
            assert structure or text or {"$ref": "#/$defs/reference"} in value["anyOf"], key


BEYOND = {"DPC105", "DPC107", "DPC108", "DPC100", "DPC111"}
ONLY_DPCALC = {name for names in corpus("only_dpcalc").values() for name in names}


@pytest.mark.parametrize(
    ("name", "text", "case"),
    [pytest.param(*each, id=each[0]) for each in MALFORMED if not {"set", "flags"} & each[2].keys()],
)
def test_both_refuse_what_json_schema_can_express(name, text, case):
    clean, _ = marked(text)
    assert not accepted_by_dpcalc(clean)
    codes = {code for code, *_ in case.get("errors", [case.get("error")])}
    is_beyond = (
        codes & BEYOND or {name, name.rpartition(": ")[0]} & ONLY_DPCALC or "${" in text or instance(clean) is None
    )
    assert is_beyond or not accepted_by_schema(clean)


ROWS = re.findall(r"^\| `(.*?)` \| (.*?) \| .*? \| (.*) \|$", KEY_TABLE, flags=re.MULTILINE)
EFFECTS = corpus("effects")


def test_the_table_has_every_key_once_with_a_meaning():
    told = [key for key, *_ in ROWS]
    assert len(told) == len(set(told)) == KEY_TABLE.count("\n|") - 2
    assert set(told) == EFFECTS.keys()
    for key, kind, meaning in ROWS:
        assert kind, key
        assert len(meaning) > 15, key
        assert meaning.endswith("."), key


@pytest.mark.parametrize("key", [key for key, (good, _) in EFFECTS.items() if good])
def test_every_key_has_an_effect(key):
    text = flat(EFFECTS[key][0])
    assert accepted_by_schema(text)
    tasks = {
        "data": "{levels: [{name: class, count: 64}, {name: image, count: 600}]}",
        "sampling": "{episodes: {tasks: 4, ways: 5, shots: 1, queries: 15}}",
        "privacy": "{unit: image, delta: 1e-6}",
    }
    assert plan(text) != plan(flat(tasks if key.startswith("sampling.episodes.") else {}))


@pytest.mark.parametrize("key", EFFECTS)
def test_every_key_is_checked_by_both(key):
    text = flat(EFFECTS[key][1])
    assert not accepted_by_dpcalc(text)
    assert not accepted_by_schema(text)
