"""`show`: the normal form says the same, and nothing that is left out."""

from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.config.expand import normal_form
from dpcalc.config.load import load, load_text
from dpcalc.errors import InputError
from dpcalc.planner.plan import Plan
from dpcalc.sampling.schemes import Poisson
from tests.config.texts import DIFFERENT, classes, flat, nested, plan

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


@pytest.mark.parametrize("text", [*DIFFERENT, *(path.read_text() for path in sorted(FOLDER.glob("*.yaml")))])
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


WORDS = "true|null|yes|NO|~|1e5|a: b|a #b|'|\"|ü ö|- a|x|{a}|日本| a |???x"


@pytest.mark.parametrize("word", WORDS.split("|"))
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
