"""`show`: the normal form says the same, and nothing that is left out."""

from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.config import scalars
from dpcalc.config.load import load, load_text
from dpcalc.config.normal import normal_form
from dpcalc.errors import InputError
from dpcalc.planner.plan import Plan
from dpcalc.sampling.schemes import Poisson
from tests.config.texts import classes, flat, nested, plan

FOLDER = Path(__file__).parents[2] / "sample_configs"


def test_the_form():
    text = flat({"name": "one", "training": "{epochs: 0.5}", "mechanism": "{noise_multiplier: 1.10}"})
    assert normal_form(plan(text, ["budget.epsilon=2.50"])) == (
        "version: 1\n"
        "name: one\n"
        "data:\n"
        "  levels:\n"
        "    - {name: example, count: 60000}\n"
        "sampling:\n"
        "  example: {scheme: poisson, expected: 256}  # rate 0.00426667\n"
        "mechanism: {type: gaussian, noise_multiplier: 1.1, max_grad_norm: 1, clip: example}\n"
        "training: {steps: 118}\n"  # 0.5 * 60000 / 256 = 117.1875
        "privacy: {unit: example, adjacency: add-remove, delta: 1e-6, group_size: 1}\n"
        "accounting: {method: auto}\n"
        "budget: {epsilon: 2.5}\n"
    )


def test_the_form_of_draws_that_are_held_and_of_tasks():
    text = nested(
        {
            "sampling": "{task: {scheme: fixed, size: 4, redraw_every: 10}, example: {scheme: shuffle, size: 6}}",
            "privacy": "{unit: task, delta: 1e-6, group_size: 3}",
        }
    ).replace("fixed, size: 4", "all")
    form = normal_form(plan(text))
    assert "  task: {scheme: all, redraw_every: 10}\n" in form
    assert "  example: {scheme: shuffle, size: 6}  # 4 steps a pass\n" in form
    assert "privacy: {unit: task, adjacency: add-remove, delta: 1e-6, group_size: 3}\n" in form
    built = normal_form(plan(classes({})))
    assert "sampling:\n  episodes: {tasks: 4, ways: 5, shots: 1, queries: 15}\n" in built
    assert "clip: task}" in built


TEXTS = [
    flat({}),
    flat({"sampling": "{scheme: poisson, rate: 0.123456789012345678901234567890}"}),
    flat({"sampling": "{scheme: poisson, rate: 1e-15}"}),
    flat({"sampling": "{scheme: poisson, expected: 0.1}"}),
    flat({"sampling": "{scheme: poisson, rate: 1/97}", "privacy": "{delta: 1/60000}"}),
    flat({"sampling": "{scheme: poisson, rate: '3 / 1_000_003'}", "training": "{epochs: 2}"}),
    flat({"sampling": "{scheme: all}"}),
    flat({"sampling": "{scheme: fixed, size: 60_000}"}),
    flat({"mechanism": "{noise_multiplier: 0, max_grad_norm: 1e100, clip: batch}"}),
    flat({"mechanism": "{noise_multiplier: 1e9, max_grad_norm: 1e-100}"}),
    flat({"mechanism": "{noise_multiplier: 0.30000000000000004}"}),
    flat({"mechanism": "{type: rdp-curve, curve: [[1.5, 0], [2, 0.1], [1e3, 3.25e1]]}"}),
    flat({"mechanism": "{type: rdp-curve, curve: [[2, 0.1]], epsilon: 2.5, odd_moments: nonnegative}"}),
    flat({"mechanism": "{noise_multiplier: 2, also: {noise_multiplier: 0.1}}"}),
    flat(
        {"phases": "[{mechanism: {also: [{noise_multiplier: 3}, {noise_multiplier: 1e9}]}}, {mechanism: {also: []}}]"}
    ),
    flat({"privacy": "{delta: 1e-300, adjacency: zero-out}"}),
    flat({"privacy": "{delta: 0.999999999999999, adjacency: replace-one}"}),
    flat({"training": "{steps: 1e15}"}),
    flat({"budget": "{epsilon: 0, max_increase_pct: 0.5}", "accounting": "{method: rdp}"}),
    flat({"phases": "[{name: 'a: b'}, {training: {steps: 5}, sampling: {scheme: all}}]"}),
    nested({}),
    nested({"sampling": "{task: {scheme: poisson, rate: 0.1}}", "privacy": "{unit: task, delta: 1e-7}"}),
    nested(
        {"sampling": "{task: {scheme: poisson, rate: 0.1, redraw_every: 10}, example: {scheme: all, redraw_every: 5}}"}
    ),
    flat({"sampling": "{scheme: with-replacement, size: 70_000}", "privacy": "{delta: 1e-6, group_size: 12}"}),
    flat({"sampling": "{scheme: poisson, rate: 0.1, max_batch_size: 300}", "training": "{epochs: 3}"}),
    nested({"sampling": "{task: {scheme: poisson, expected: 1, max_batch_size: 2}, example: {scheme: all}}"}),
    flat({"sampling": "{scheme: balls-in-bins, bins: 25}", "training": "{epochs: 3}"}),
    flat({"sampling": "{scheme: balls-in-bins, bins: 25, assignment: held}"}),
    flat({"sampling": "{scheme: random-allocation, times: 25}"}),
    flat({"sampling": "{scheme: shuffle, size: 256}", "training": "{epochs: 3}"}),
    flat({"sampling": "{scheme: shuffle, size: 256, drop_last: true}", "training": "{epochs: 3}"}),
    nested(
        {
            "data": "{levels: [{name: task, count: 9}, {name: example, count: {min: 5, max: 20}}]}",
            "sampling": "{task: {scheme: shuffle, size: 2}, example: {scheme: with-replacement, size: 3}}",
        }
    ),
    nested(
        {
            "data": "{levels: [{name: task, count: 9}, {name: example, count: {min: 5, max: 20}}]}",
            "sampling": "{task: {scheme: fixed, size: 2}, example: {scheme: fixed, size: {at_most: 8}}}",
        }
    ),
    classes({}),
    classes({"mechanism": "{noise_multiplier: 6}", "privacy": "{unit: class, delta: 1e-6, group_size: 5}"}),
    classes({"phases": "[{mechanism: {clip: batch}}, {sampling: {class: {scheme: all}}, mechanism: {clip: image}}]"}),
]


@pytest.mark.parametrize("text", [*TEXTS, *(path.read_text() for path in sorted(FOLDER.glob("*.yaml")))])
def test_it_loads_to_the_same_plan_and_hash(text):
    loaded = load_text(text, path="f")
    again = load_text(normal_form(loaded.plan), path="f")
    assert (again.plan, again.config_hash) == (loaded.plan, loaded.config_hash)
    assert normal_form(again.plan) == normal_form(loaded.plan)
    assert "DPC204" not in {note.code for note in again.diagnostics}


def test_overrides_and_references_are_resolved():
    text = flat({"training": "{steps: '${x-n}'}"}) + "x-n: 12\n"
    assert "training: {steps: 12}\n" in normal_form(plan(text))
    assert "training: {steps: 13}\n" in normal_form(plan(text, ["training.steps=13"]))


WORDS = [
    "true",
    "null",
    "yes",
    "NO",
    "~",
    "1e5",
    "a: b",
    "a #b",
    "'",
    '"',
    "ü ö",
    "- a",
    "x",
    "${a}"[1:],
    "日本",
    " a ",
    "???x",
]


@pytest.mark.parametrize("word", WORDS)
def test_names_are_quoted_where_they_must_be(word):
    quoted = word.replace("'", "''")
    found = plan(flat({"name": f"'{quoted}'"}))
    assert found.name == word
    assert yaml.safe_load(normal_form(found))["name"] == word  # other readers know more words for true
    assert load_text(normal_form(found), path="f").plan.name == word


@pytest.mark.heavy
@given(st.text(max_size=30))
def test_names_of_any_kind(word):
    try:
        found = plan(flat({}), [f"name='{word.replace(chr(39), chr(39) * 2)}'"])
    except InputError:
        return
    assert load_text(normal_form(found), path="f").plan == found


@pytest.mark.parametrize("level", ["true", "yes", "null", "y", "On", "ä-1"])
def test_level_names_are_quoted_where_they_must_be(level):
    changes = {"data": f"{{levels: [{{name: '{level}', count: 9}}]}}", "sampling": f"{{'{level}': {{scheme: all}}}}"}
    found = plan(flat(changes))
    assert load_text(normal_form(found), path="f").plan == found


@given(st.integers(-(10**30), 10**30), st.integers(-60, 40))
def test_decimals_are_exact_and_rules_of_the_file(digits, exponent):
    number = Fraction(digits) * Fraction(10) ** exponent
    text = scalars.decimal_text(number)
    assert scalars.parse_number(text) == number


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(60_000), "60000"),
        (Fraction(1, 250), "0.004"),
        (Fraction(1, 10_000), "0.0001"),
        (Fraction(1, 100_000), "1e-5"),
        (Fraction(10**100), "1e+100"),
        (Fraction(-5, 4), "-1.25"),
        (Fraction(1, 3), None),
        (Fraction(1, 2**500), None),
    ],
)
def test_decimals(number, text):
    assert scalars.decimal_text(number) == text


def test_a_rate_that_no_file_can_say():
    loaded = load(str(FOLDER / "mnist_dpsgd.yaml"))
    (phase,) = loaded.plan.phases
    (level,) = phase.hierarchy.levels

    def with_rate(rate):
        changed = type(level)(name=level.name, count=level.count, scheme=Poisson(probability=rate))
        hierarchy = type(phase.hierarchy)(levels=(changed,))
        run = type(phase)(name="", hierarchy=hierarchy, mechanism=phase.mechanism, clip=phase.clip, steps=phase.steps)
        return Plan(phases=(run,), unit=1, adjacency=loaded.plan.adjacency, delta=1e-5)

    assert "expected: 20000}" in normal_form(with_rate(Fraction(1, 3)))
    assert "rate: 1/7}" in normal_form(with_rate(Fraction(1, 7)))
    with pytest.raises(InputError, match="at most 80 characters"):
        normal_form(with_rate(Fraction(1, 3**200)))


def test_a_cyclic_rate_that_no_config_may_state():
    """It was once written as a quotient of over 80 characters, which loading refuses."""
    found = plan(
        flat(
            {
                "data": "{examples: 97}",
                "sampling": f"{{scheme: cyclic-poisson, groups: 3, expected: 0.{'123456789' * 6}}}",
                "mechanism": "{type: matrix-factorization, noise_multiplier: 4, strategy: identity}",
            }
        )
    )
    with pytest.raises(InputError, match="at most 80 characters"):
        normal_form(found)
