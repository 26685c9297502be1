"""`show` and the hash: the normal form says the same, and nothing that is left out; the hash is of the meaning."""

import hashlib
from fractions import Fraction
from itertools import combinations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.config.expand import normal_form
from dpcalc.errors import InputError
from tests.config.test_edit import rate, with_draw
from tests.config.texts import DIFFERENT, SAMPLES, classes, flat, loaded, nested, plan


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
    sampling = "{task: {scheme: all, redraw_every: 10}, example: {scheme: shuffle, size: 6}}"
    form = normal_form(plan(nested({"sampling": sampling, "privacy": "{unit: task, delta: 1e-6, group_size: 3}"})))
    assert "  task: {scheme: all, redraw_every: 10}\n" in form
    assert "  example: {scheme: shuffle, size: 6}  # 4 steps a pass\n" in form
    assert "privacy: {unit: task, adjacency: add-remove, delta: 1e-6, group_size: 3}\n" in form
    built = normal_form(plan(classes({})))
    assert "sampling:\n  episodes: {tasks: 4, ways: 5, shots: 1, queries: 15}\n" in built
    assert "clip: task}" in built


@pytest.mark.parametrize("text", [*DIFFERENT, *(path.read_text() for path in sorted(SAMPLES.glob("*.yaml")))])
def test_it_loads_to_the_same_plan_and_hash(text):
    found = loaded(text)
    again = loaded(normal_form(found.plan))
    assert (again.plan, again.config_hash) == (found.plan, found.config_hash)
    assert normal_form(again.plan) == normal_form(found.plan)
    assert "DPC204" not in {note.code for note in again.diagnostics}


WORDS = "true|null|yes|NO|~|1e5|a: b|a #b|'|\"|ü ö|- a|x|{a}|日本| a |???x"


@pytest.mark.parametrize("word", WORDS.split("|"))
def test_names_are_quoted_where_they_must_be(word):
    quoted = word.replace("'", "''")
    found = plan(flat({"name": f"'{quoted}'"}))
    assert found.name == word
    assert yaml.safe_load(normal_form(found))["name"] == word  # other readers know more words for true
    assert plan(normal_form(found)).name == word


@pytest.mark.heavy
@given(st.text(max_size=30))
def test_names_of_any_kind(word):
    try:
        found = plan(flat({}), [f"name='{word.replace(chr(39), chr(39) * 2)}'"])
    except InputError:
        return
    assert plan(normal_form(found)) == found


@pytest.mark.parametrize("level", ["true", "yes", "null", "y", "On", "ä-1"])
def test_level_names_are_quoted_where_they_must_be(level):
    changes = {"data": f"{{levels: [{{name: '{level}', count: 9}}]}}", "sampling": f"{{'{level}': {{scheme: all}}}}"}
    found = plan(flat(changes))
    assert plan(normal_form(found)) == found


def test_a_rate_that_no_file_can_say():
    known = plan(flat({}))
    assert "expected: 20000}" in normal_form(with_draw(known, rate(Fraction(1, 3))))
    assert "rate: 1/7}" in normal_form(with_draw(known, rate(Fraction(1, 7))))
    with pytest.raises(InputError, match="at most 80 characters"):
        normal_form(with_draw(known, rate(Fraction(1, 3**200))))
    changes = {
        "data": "{examples: 97}",
        "sampling": f"{{scheme: cyclic-poisson, groups: 3, expected: 0.{'123456789' * 6}}}",
        "mechanism": "{type: matrix-factorization, noise_multiplier: 4, strategy: identity}",
    }
    with pytest.raises(InputError, match="at most 80 characters"):  # it was written as a quotient of over 80
        normal_form(plan(flat(changes)))


# The hash.

BASE = loaded(flat({})).config_hash


@pytest.mark.parametrize(
    "text",
    [
        "# a comment\n" + flat({}),
        flat({}).replace("\n", "\n\n").replace(": {", ":   {"),
        "".join(reversed(flat({}).splitlines(keepends=True))),
        flat({}).replace("\n", "\r\n"),
        flat({"accounting": "{method: auto}", "name": "another", "x-owner": "me"}),
    ],
)
def test_what_does_not_count(text):
    assert loaded(text).config_hash == BASE


def test_everything_else_counts():
    digests = [loaded(text).config_hash for text in DIFFERENT]
    for (first, one), (second, other) in combinations(enumerate(digests), 2):
        assert one != other, (DIFFERENT[first], DIFFERENT[second])


def test_it_is_the_same_for_ever():
    """Lock files outlive updates: this text, written by hand, may only change with the format of the lock file."""
    content = (
        '{"adjacency":"add-remove","budget":null,"delta":"0x1.0c6f7a0b5ed8dp-20","method":"auto","phases":['
        '{"clip":1,"levels":[{"amount":"8/1875","count":60000,"name":"example","scheme":"poisson"}],'
        '"max_grad_norm":"0x1.0000000000000p+0","mechanism":"gaussian","noise_multiplier":"0x1.199999999999ap+0",'
        '"steps":100}],"unit":1}'
    )
    assert hashlib.sha256(content.encode()).hexdigest() == BASE
