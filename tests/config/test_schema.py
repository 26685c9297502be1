"""JSON Schema, reference table and validator: three views of the same models."""

import json
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest

from dpcalc.config.json_schema import DIALECT, json_schema, json_schema_text, key_table, table_rows
from dpcalc.config.load import load_text
from dpcalc.config.scalars import DRAW_KEYS
from dpcalc.config.schema import SECTIONS, keys_in
from dpcalc.config.source import ConfigError, source_of
from dpcalc.config.tree import Scalar
from dpcalc.config.yaml_text import parse_yaml
from tests.config import test_malformed
from tests.config.texts import DIFFERENT, classes, flat, marked, nested, plain_values, plan

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
    flat({"sampling": "{scheme: all}", "x-own": "{a: [~, .nan]}", "name": "'a b'", "requires": '">=0.1, <9"'}),
    flat({"sampling": "{scheme: fixed, size: 3, x-why: 1}", "training": "{epochs: 0.5}"}),
    flat({"sampling": "{example: {scheme: poisson, rate: 0.5}}", "accounting": "{method: rdp}"}),
    flat({"sampling": "{scheme: poisson}", "training": "{steps: 1e3, batch_size: 60}"}),
    flat({"phases": "[{name: a, training: {epochs: 3}}, {mechanism: {noise_multiplier: 0}, sampling: {size: 3}}]"})
    .replace("expected: 256", "size: 256")
    .replace("poisson", "fixed"),
    flat({"sampling": "{scheme: shuffle}", "training": "{epochs: 3, batch_size: 256}"}),
    nested({"sampling": "{task: {scheme: fixed, size: 4, redraw_every: 10}, example: {scheme: all, redraw_every: 5}}"}),
    classes({"sampling": "{x-a: 1, episodes: {tasks: 4, ways: 5, shots: 1, queries: 15, x-b: 2}}"}),
    classes(
        {
            "phases": "[{}, {sampling: {episodes: {tasks: 8}}}, "
            "{sampling: {class: {scheme: all}}, mechanism: {clip: class}}]"
        }
    ),
    nested({"sampling": "{task: {scheme: fixed, size: 4}, example: {scheme: fixed, size: {at_most: 5, x-why: 1}}}"}),
    flat({"sampling": "{scheme: poisson, rate: 1/97}", "privacy": "{delta: 1/60_000}"}),
    flat({"tuning": "{mean: 1.5, distribution: negative-binomial, shape: -0.5}"}),
    flat({"mechanism": None, "phases": "[{mechanism: {noise_multiplier: 2, type: gaussian, clip: batch}}]"}),
    *(path.read_text(encoding="utf-8") for path in sorted((ROOT / "sample_configs").glob("*.yaml"))),
    *(
        path.read_text(encoding="utf-8").replace("scheme: ???", "scheme: shuffle")
        for path in sorted((ROOT / "dpcalc/config/templates").glob("*.yaml"))
    ),
    flat({"data": "{examples: unknown}", "sampling": "{scheme: poisson, rate: 1/97}", "training": "{steps: 3}"}),
    flat(
        {
            "data": "{levels: [{name: user, count: unknown}]}",
            "sampling": "{scheme: poisson, rate: 1/97}",
            "training": "{steps: 3}",
        }
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


def test_a_number_with_underscores_is_a_text_for_some_editors():
    value = {**instance(flat({})), "data": {"examples": "60_000"}}
    assert VALIDATOR.is_valid(value)
    assert not VALIDATOR.is_valid({**value, "data": {"examples": "60000"}})


# What JSON Schema cannot say: names of the malformed files that only dpcalc refuses, by the reason.
ONLY_DPCALC = {
    "the text, not its content": {
        "duplicate",
        "duplicate top level",
        "list as key",
        "empty key",
        "merge of a word",
        "python tag",
        "float tag",
    },
    "what a quotient is worth": {"large fraction"},
    "which file it is": {"votes of no kind", "votes elsewhere"},
    "one part names or bounds another": {
        "size above some counts",
        "bins left out",
        "more bins than steps",
        "more times than steps",
        "group under a limit",
        "a group whose batches are cut",
        "no outer level",
        "answers below chance",
        "answer of nobody",
        "group under laplace",
        "divergences and poisson draws of exchanged records",
        "laplace under a shuffle",
        "tasks under pure-dp",
        "laplace without noise",
        "drawn teachers",
        "votes under gaussian noise",
        "no unit",
        "expected above count",
        "batch above count",
        "size above count",
        "too large a draw and a period that does not fit",
        "too large a draw above a shuffle",
        "too many records",
        "endless epochs",
        "no rate",
        "no size",
        "no size to replace",
        "no size to shuffle",
        "shuffle of more than there are",
        "group of more than there are",
        "group that leaves too few",
        "group in a tree",
        "large group with replacement",
        "group of constructed records",
        "group of too many classes",
        "more ways than classes",
        "more shots than records",
        "more shots than in the smallest class",
        "more shots than the fewest",
        "tasks without records",
        "constructed task as unit",
        "episodes in a phase only",
        "no scheme",
        "phase without a length",
    },
}


def cases():
    for name, text, expected in test_malformed.CASES:
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
    beyond = codes & {"DPC105", "DPC107", "DPC108", "DPC100", "DPC111"} or any(
        name in names for names in ONLY_DPCALC.values()
    )
    if not beyond:
        assert not accepted_by_schema(text)


@pytest.mark.heavy
def test_enough_malformed_files_reach_the_schema():
    refused = [case.id for case in cases() if not accepted_by_schema(case.values[1])]
    assert len(refused) >= 75


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


def test_the_keys_of_a_draw_are_listed_once():
    assert keys_in("sampling.*").keys() == DRAW_KEYS


POISSON = {"sampling": "{scheme: poisson}"}
OF_A = {"sampling": "{a: {scheme: all}}", "privacy": "{unit: a, delta: 1e-6}"}
TREE_3 = "{levels: [{name: a}, {name: b}], tree: 3}"
PARTS = {"partition": "{rule: hash, parts: [{name: a}]}"}
PHASE = "[{name: one}, {name: two, %s}]"
TASKS = {
    "data": "{levels: [{name: class, count: 64}, {name: image, count: 600}]}",
    "sampling": "{episodes: {tasks: 4, ways: 5, shots: 1, queries: 15}}",
    "privacy": "{unit: image, delta: 1e-6}",
}


def built(said):
    """Constructed tasks with one key said otherwise."""
    key, _, value = said.partition(": ")
    keys = {"tasks": "4", "ways": "5", "shots": "1", "queries": "15", key: value}
    episodes = ", ".join(f"{name}: {number}" for name, number in keys.items())
    return {**TASKS, "sampling": f"{{episodes: {{{episodes}}}}}"}


def correlated(said, sampling="{scheme: any-order}"):
    """Noise that is correlated over the steps, with some keys."""
    return {"sampling": sampling, "mechanism": f"{{type: matrix-factorization, noise_multiplier: 4, {said}}}"}


VOTING = {"sampling": "{scheme: all}"}
CHECKED = "{type: pate-confident-gnmax, noise_multiplier: 40, threshold: %s, threshold_noise_multiplier: %s}"
EXCHANGED = {"privacy": "{adjacency: replace-one, delta: 1e-6}"}

# For every key of the reference table: lines that change the plan, and lines that are wrong because of this key.
EFFECTS = {
    "version": (None, {"version": "2"}),
    "name": ({"name": "other"}, {"name": "3"}),
    "requires": (None, {"requires": "0.1"}),
    "data": ({"data": "{examples: 9_999}"}, {"data": "3"}),
    "data.examples": ({"data": "{examples: 9_999}"}, {"data": "{examples: 0}"}),
    "data.levels": ({"data": "{levels: [{name: image, count: 5e4}]}"}, {"data": "{levels: []}"}),
    "data.levels[].name": (
        {"data": "{levels: [{name: image, count: 6e4}]}"},
        {"data": "{levels: [{name: all, count: 6e4}]}"},
    ),
    "data.levels[].count": (
        {"data": "{levels: [{name: example, count: 5e4}]}"},
        {"data": "{levels: [{name: example, count: 0.5}]}"},
    ),
    "data.levels[].min": (
        {"data": "{levels: [{name: example, min: 5, max: 6e4}]}", "sampling": "{scheme: fixed, size: 2}"},
        {"data": "{levels: [{name: example, min: 0, max: 6e4}]}", "sampling": "{scheme: fixed, size: 2}"},
    ),
    "data.levels[].max": (
        {"data": "{levels: [{name: example, count: {min: 5, max: 9}}]}", "sampling": "{scheme: fixed, size: 2}"},
        {"data": "{levels: [{name: example, count: {min: 5}}]}", "sampling": "{scheme: fixed, size: 2}"},
    ),
    "data.tree": ({"data": "{levels: [{name: a}, {name: b}], tree: [3, 4]}", **OF_A}, {"data": TREE_3, **OF_A}),
    "sampling": ({"sampling": "{scheme: all}"}, {"sampling": "all"}),
    "sampling.scheme": ({"sampling": "{scheme: all}"}, {"sampling": "{scheme: some}"}),
    "sampling.size": ({"sampling": "{scheme: fixed, size: 9}"}, {"sampling": "{scheme: fixed, size: -9}"}),
    "sampling.rate": ({"sampling": "{scheme: poisson, rate: 0.5}"}, {"sampling": "{scheme: poisson, rate: 5}"}),
    "sampling.expected": ({"sampling": "{scheme: poisson, expected: 2}"}, {"sampling": "{scheme: all, expected: 2}"}),
    "sampling.max_batch_size": (
        {"sampling": "{scheme: poisson, rate: 0.1, max_batch_size: 9}"},
        {"sampling": "{scheme: poisson, rate: 0.1, max_batch_size: 0}"},
    ),
    "sampling.redraw_every": (
        {"sampling": "{scheme: all, redraw_every: 2}"},
        {"sampling": "{scheme: all, redraw_every: 0}"},
    ),
    "sampling.drop_last": (
        {"sampling": "{scheme: shuffle, size: 7, drop_last: true}"},
        {"sampling": "{scheme: shuffle, size: 7, drop_last: 1}"},
    ),
    "sampling.order": (
        {"sampling": "{scheme: shuffle, size: 7, order: secret}"},
        {"sampling": "{scheme: shuffle, size: 7, order: public}"},
    ),
    "sampling.max_group_size": (
        correlated("strategy: identity", "{scheme: cyclic-poisson, rate: 0.5, groups: 3, max_group_size: 30_000}"),
        correlated("strategy: identity", "{scheme: cyclic-poisson, rate: 0.5, groups: 3, max_group_size: 0}"),
    ),
    "sampling.groups": (
        correlated("strategy: identity", "{scheme: cyclic-poisson, rate: 0.5, groups: 3}"),
        correlated("strategy: identity", "{scheme: cyclic-poisson, rate: 0.5, groups: 0}"),
    ),
    "sampling.bins": (
        {"sampling": "{scheme: balls-in-bins, bins: 7}"},
        {"sampling": "{scheme: balls-in-bins, bins: 0}"},
    ),
    "sampling.assignment": (
        {"sampling": "{scheme: balls-in-bins, bins: 7, assignment: held}"},
        {"sampling": "{scheme: balls-in-bins, bins: 7, assignment: kept}"},
    ),
    "sampling.times": (
        {"sampling": "{scheme: random-allocation, times: 7}"},
        {"sampling": "{scheme: random-allocation, times: 1.5}"},
    ),
    "sampling.episodes": (TASKS, {**TASKS, "sampling": "{episodes: 3}"}),
    "sampling.episodes.tasks": (built("tasks: 9"), built("tasks: 0")),
    "sampling.episodes.ways": (built("ways: 1"), built("ways: 1.5")),
    "sampling.episodes.shots": (built("shots: 0"), built("shots: -1")),
    "sampling.episodes.queries": (built("queries: 0"), built("queries: few")),
    "sampling.<level>": ({"sampling": "{example: {scheme: all}}"}, {"sampling": "{example: {scheme: 1}}"}),
    "mechanism": ({"mechanism": "{noise_multiplier: 9}"}, {"mechanism": "gaussian"}),
    "mechanism.type": (None, {"mechanism": "{noise_multiplier: 9, type: cauchy}"}),
    "mechanism.noise_multiplier": ({"mechanism": "{noise_multiplier: 9}"}, {"mechanism": "{noise_multiplier: 1e-9}"}),
    "mechanism.max_grad_norm": (
        {"mechanism": "{noise_multiplier: 1.1, max_grad_norm: 2}"},
        {"mechanism": "{noise_multiplier: 1.1, max_grad_norm: 0}"},
    ),
    "mechanism.clip": (
        {"mechanism": "{noise_multiplier: 1.1, clip: batch}"},
        {"mechanism": "{noise_multiplier: 1.1, clip: 1}"},
    ),
    "mechanism.also": (
        {"mechanism": "{noise_multiplier: 1.1, also: {noise_multiplier: 20}}"},
        {"mechanism": "{noise_multiplier: 1.1, also: 20}"},
    ),
    "mechanism.strategy": (
        correlated("strategy: {toeplitz: [1, 0.5]}, min_separation: 1"),
        correlated("strategy: {toeplitz: []}, min_separation: 1"),
    ),
    "mechanism.max_participations": (
        correlated("strategy: tree, min_separation: 1, max_participations: 2"),
        correlated("strategy: tree, min_separation: 1, max_participations: 0"),
    ),
    "mechanism.min_separation": (
        correlated("strategy: tree, min_separation: 2"),
        correlated("strategy: tree, min_separation: 0.5"),
    ),
    "mechanism.participation": (
        correlated("strategy: tree, min_separation: 2, participation: fixed-epochs"),
        correlated("strategy: tree, min_separation: 2, participation: often"),
    ),
    "mechanism.truth_probability": (
        {**EXCHANGED, "mechanism": "{type: randomized-response, truth_probability: 0.75}"},
        {**EXCHANGED, "mechanism": "{type: randomized-response, truth_probability: 1}"},
    ),
    "mechanism.categories": (
        {**EXCHANGED, "mechanism": "{type: randomized-response, truth_probability: 0.75, categories: 4}"},
        {**EXCHANGED, "mechanism": "{type: randomized-response, truth_probability: 0.75, categories: 1}"},
    ),
    "mechanism.epsilon": (
        {"mechanism": "{type: exponential, epsilon: 0.1}"},
        {"mechanism": "{type: pure-dp, epsilon: -1}"},
    ),
    "mechanism.delta": (
        {"mechanism": "{type: approximate-dp, epsilon: 0.1, delta: 1e-9}"},
        {"mechanism": "{type: approximate-dp, epsilon: 0.1, delta: 1}"},
    ),
    "mechanism.relation": (
        {"mechanism": "{type: pure-dp, epsilon: 0.1, relation: any}"},
        {"mechanism": "{type: pure-dp, epsilon: 0.1, relation: both}"},
    ),
    "mechanism.curve": (
        {"mechanism": "{type: rdp-curve, curve: [[2, 0.1], [4, 2e-1]]}"},
        {"mechanism": "{type: rdp-curve, curve: 3}"},
    ),
    "mechanism.odd_moments": (
        {"mechanism": "{type: rdp-curve, curve: [[2, 0.1]], odd_moments: nonnegative}"},
        {"mechanism": "{type: rdp-curve, curve: [[2, 0.1]], odd_moments: positive}"},
    ),
    "mechanism.gamma": (
        {**VOTING, "mechanism": "{type: pate-lnmax, gamma: 0.05}"},
        {**VOTING, "mechanism": "{type: pate-lnmax, gamma: 51}"},
    ),
    "mechanism.threshold": (
        {**VOTING, "mechanism": CHECKED % ("200", "150")},
        {**VOTING, "mechanism": CHECKED % ("-1", "150")},
    ),
    "mechanism.threshold_noise_multiplier": (
        {**VOTING, "mechanism": CHECKED % ("200", "160")},
        {**VOTING, "mechanism": CHECKED % ("200", "0")},
    ),
    "mechanism.votes": (
        {**VOTING, "mechanism": "{type: pate-gnmax, noise_multiplier: 40, votes: v.npy}"},
        {**VOTING, "mechanism": "{type: pate-gnmax, noise_multiplier: 40, votes: 3}"},
    ),
    "mechanism.rho": ({"mechanism": "{type: zcdp, rho: 0.1}"}, {"mechanism": "{type: zcdp, rho: -1}"}),
    "mechanism.omega": (
        {"mechanism": "{type: zcdp, rho: 0.1, omega: 9}"},
        {"mechanism": "{type: zcdp, rho: 0.1, omega: 2}"},
    ),
    "training": ({"training": "{steps: 3}"}, {"training": "3"}),
    "training.steps": ({"training": "{steps: 3}"}, {"training": "{steps: 3.5}"}),
    "training.epochs": ({"training": "{epochs: 3}"}, {"training": "{epochs: -3}"}),
    "training.batch_size": (
        {**POISSON, "training": "{steps: 100, batch_size: 3}"},
        {**POISSON, "training": "{steps: 100, batch_size: x}"},
    ),
    "phases": ({"phases": "[{training: {steps: 3}}]"}, {"phases": "{training: {steps: 3}}"}),
    "phases[].name": ({"phases": PHASE % "training: {steps: 3}"}, {"phases": "[{name: []}]"}),
    "phases[].sampling": ({"phases": PHASE % "sampling: {rate: 0.5}"}, {"phases": PHASE % "sampling: {rate: 5}"}),
    "phases[].mechanism": ({"phases": PHASE % "mechanism: {clip: batch}"}, {"phases": PHASE % "mechanism: 3"}),
    "phases[].training": ({"phases": PHASE % "training: {epochs: 1}"}, {"phases": PHASE % "training: {lr: 1}"}),
    "privacy": ({"privacy": "{delta: 1e-9}"}, {"privacy": "1e-9"}),
    "privacy.unit": (None, {"privacy": "{delta: 1e-6, unit: 1}"}),
    "privacy.adjacency": (
        {"privacy": "{delta: 1e-6, adjacency: zero-out}"},
        {"privacy": "{delta: 1e-6, adjacency: x}"},
    ),
    "privacy.delta": ({"privacy": "{delta: 1e-9}"}, {"privacy": "{delta: 1}"}),
    "privacy.group_size": ({"privacy": "{delta: 1e-6, group_size: 2}"}, {"privacy": "{delta: 1e-6, group_size: 0}"}),
    "accounting": ({"accounting": "{method: rdp}"}, {"accounting": "rdp"}),
    "accounting.method": ({"accounting": "{method: rdp}"}, {"accounting": "{method: magic}"}),
    "budget": ({"budget": "{epsilon: 1}"}, {"budget": "1"}),
    "budget.epsilon": ({"budget": "{epsilon: 1}"}, {"budget": "{epsilon: -1}"}),
    "budget.max_increase_pct": (
        {"budget": "{epsilon: 1, max_increase_pct: 5}"},
        {"budget": "{epsilon: 1, max_increase_pct: 5%}"},
    ),
    "tuning": ({"tuning": "{mean: 2}"}, {"tuning": "2"}),
    "tuning.mean": ({"tuning": "{mean: 2}"}, {"tuning": "{mean: 1}"}),
    "tuning.distribution": (
        {"tuning": "{mean: 2, distribution: poisson}"},
        {"tuning": "{mean: 2, distribution: normal}"},
    ),
    "tuning.shape": (
        {"tuning": "{mean: 2, distribution: negative-binomial, shape: 3}"},
        {"tuning": "{mean: 2, distribution: negative-binomial, shape: -1}"},
    ),
    "partition": (PARTS, {"partition": "3"}),
    "partition.rule": (PARTS, {"partition": "{rule: [], parts: [{name: a}]}"}),
    "partition.parts": (PARTS, {"partition": "{rule: hash, parts: []}"}),
    "partition.parts[].name": (PARTS, {"partition": "{rule: hash, parts: [{name: []}]}"}),
    "phases[].part": (
        {**PARTS, "sampling": "{scheme: poisson, rate: 0.5}", "phases": PHASE % "part: a"},
        {**PARTS, "sampling": "{scheme: poisson, rate: 0.5}", "phases": PHASE % "part: []"},
    ),
}


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


def test_the_reader_of_this_test_keeps_texts_texts():
    tree, _ = parse_yaml(source_of("a: '5'", "f"))
    assert isinstance(tree.entries["a"], Scalar)
    assert instance("a: '5'\nb: 5\nc: 0.5\nd: true") == {"a": "5", "b": 5, "c": 0.5, "d": True}
