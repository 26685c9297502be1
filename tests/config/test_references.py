"""`${...}`: what it leads to, and everything that it must not lead to."""

import time
from fractions import Fraction

import pytest

from dpcalc.config.documents import MAX_CHAIN
from dpcalc.config.load import load_text
from tests.config.texts import errors, flat, marked, plan


def steps(reference):
    return flat({"training": f"{{steps: '{reference}'}}"})


@pytest.mark.parametrize(
    "value", ["${x-run.steps}", '"${x-run.steps}"', "'${x-run.steps}'", " ${x-run.steps} ", '" ${ x-run.steps } "']
)
def test_quoted_or_not(value):
    text = flat({"training": f"\n  steps: {value}"}) + "x-run: {steps: 1_234}\n"
    assert plan(text).steps == 1234


@pytest.mark.parametrize("path", ["x-a.b[1].c", "x-a.b.1.c", "x-a.b.0000001.c", "x-a.d", "x-e"])
def test_paths(path):
    text = steps(f"${{{path}}}") + "x-a: {b: [0, {c: 7}], d: &seven 7}\nx-e: *seven\n"
    assert plan(text).steps == 7


@pytest.mark.parametrize(
    ("written", "delta"),
    [("1e-5", 1e-5), ("1E-5", 1e-5), ("0.000_01", 1e-5), ("1.0e-5", 1e-5), (".00001", 1e-5)],
)
def test_numbers_are_those_of_omegaconf(written, delta):
    text = flat({"privacy": "{adjacency: add-remove, delta: '${x-d}'}"}) + f"x-d: {written}\n"
    assert plan(text).delta == delta


def test_an_exact_value_stays_exact():
    text = flat({"sampling": "{scheme: poisson, rate: '${x-q}'}"}) + "x-q: 0.1234567890123456789\n"
    scheme = plan(text).phases[0].hierarchy.level(1).scheme
    assert scheme.probability == Fraction(1234567890123456789, 10**19)


def test_words_and_names_too():
    changes = {"sampling": "{scheme: '${x-s}', size: '${x-b}'}", "name": "'${x-n}'"}
    found = plan(flat(changes) + "x-s: fixed\nx-b: 3\nx-n: run one\n")
    assert (found.phases[0].hierarchy.level(1).scheme.size, found.name) == (3, "run one")


def test_a_value_of_the_config_itself():
    text = flat({"training": "{steps: '${x-n}'}", "data": "{examples: '${training.steps}'}"}) + "x-n: 5_000\n"
    found = plan(text)
    assert (found.steps, found.phases[0].hierarchy.level(1).count) == (5000, 5000)


def test_what_is_set_is_what_is_referred_to():
    text = steps("${x-n}") + "x-n: 5\n"
    assert plan(text, ["x-n=9"]).steps == 9
    assert plan(text, ["training.steps=${x-n}"]).steps == 5
    assert plan(text, ["x-m=8", "training.steps=${x-m}"]).steps == 8


def test_the_mark_is_that_of_the_reference():
    text, ((line, column),) = marked(flat({"training": "{§steps: '${x-n}'}"}) + "x-n: 5\n")
    assert load_text(text, path="f").mark("training.steps") == (line, column)
    text, places = marked(flat({"training": "{steps: §'${x-n}'}"}) + "x-n: five\n")
    (found,) = errors(text)
    assert (found.code, [(found.line, found.column)]) == ("DPC102", places)
    assert "got the string 'five'" in found.message


def test_the_hash_is_that_of_the_values():
    written, referred = flat({"training": "{steps: 7}"}), steps("${x-n}") + "x-n: 7\n"
    assert load_text(written, path="f").config_hash == load_text(referred, path="f").config_hash


WRONG = [
    ("${x-none}", "DPC110", "there is no `x-none` in the file"),
    ("${x-run.stepz}", "DPC110", "there is no `stepz` in `x-run`"),
    ("${x-run.list[9]}", "DPC110", "there is no [9] in `x-run.list`"),
    ("${x-run.steps.more}", "DPC110", "there is no `more` in `x-run.steps`"),
    ("${x-run}", "DPC110", "it leads to a mapping, not to one value"),
    ("${x-run.list}", "DPC110", "it leads to a list"),
    ("${x-run.nothing}", "DPC110", "it leads to nothing"),
    ("${x-run.later}", "DPC110", "it leads to `???`"),
    ("${x-run.tagged}", "DPC110", "`x-run.tagged` has a tag"),
    ("${training.steps}", "DPC111", "it leads back to itself"),
    ("${x-run.circle}", "DPC111", "it leads back to itself"),
    ("${}", "DPC110", "`` is no path of keys"),
    ("${x-run..steps}", "DPC110", "is no path of keys"),
    ("${x-run.steps", "DPC110", "a reference is the whole value"),
    ("1${x-run.steps}", "DPC110", "a reference is the whole value"),
    ("${x-run.steps}0", "DPC110", "a reference is the whole value"),
    ("${x-run.${x-run.steps}}", "DPC110", "a reference is the whole value"),
    ("${a}${b}", "DPC110", "a reference is the whole value"),
    ("${.steps}", "DPC110", "relative references are not followed"),
    ("${..x-run.steps}", "DPC110", "relative references are not followed"),
    ("${oc.env:HOME}", "DPC110", "are not run"),
    ("${oc.env:HOME,7}", "DPC110", "are not run"),
    ("${a.yaml.exe:b}", "DPC110", "are not run"),
    ("${" + "a" * 500 + "}", "DPC110", "more than 400 characters"),
]
RUN = """\
x-run: {steps: 4, list: [1], nothing: ~, later: '???', tagged: !t 5, circle: '${x-other}'}
x-other: ${x-run.circle}
"""


@pytest.mark.parametrize(("reference", "code", "words"), WRONG)
def test_dead_ends(reference, code, words):
    clean, places = marked(flat({"training": f"{{steps: §'{reference}'}}"}) + RUN)
    found = [error for error in errors(clean) if "tags are not" not in error.message]
    assert [(error.code, error.line, error.column) for error in found] == [(code, *place) for place in places]
    assert words in found[0].message


def test_a_key_given_twice_is_no_target():
    text = "train: {steps: 4, steps: 40}\ndpcalc:\n" + _indented(steps("${train.steps}"))
    (found,) = errors(text)
    assert (found.code, "`steps` stands there more than once" in found.message) == ("DPC110", True)


def test_a_key_given_twice_behind_a_merge_is_no_target():
    text = "base: &b {steps: 4, steps: 40}\ntrain: {<<: *b}\ndpcalc:\n" + _indented(steps("${train.steps}"))
    (found,) = errors(text)
    assert "more than once" in found.message


def _indented(text):
    return "".join(f"  {line}\n" for line in text.splitlines())


def test_hydra_is_named_where_hydra_composes():
    (found,) = errors("defaults: [optim: sgd]\ndpcalc:\n" + _indented(steps("${optim.steps}")))
    assert (found.code, "Hydra" in found.hint) == ("DPC110", True)


def test_a_misspelt_key_is_suggested():
    (found,) = errors(steps("${x-run.stepz}") + RUN.replace("tagged: !t 5, ", ""))
    assert found.hint == "did you mean `steps`?"


def test_chains_end():
    def chain(length):
        links = "".join(f"x-c{index}: ${{x-c{index + 1}}}\n" for index in range(length - 1))
        return steps("${x-c0}") + links + f"x-c{length - 1}: 3\n"

    assert plan(chain(MAX_CHAIN)).steps == 3
    (found,) = errors(chain(MAX_CHAIN + 1))
    assert (found.code, f"more than {MAX_CHAIN} references" in found.message) == ("DPC111", True)


@pytest.mark.heavy
def test_many_dead_references_are_told_quickly():
    names = ", ".join(f"k{index}: '${{k{index}x}}'" for index in range(4000))
    start = time.process_time()
    assert len(errors(flat({"training": f"{{{names}}}"}))) > 4000
    assert time.process_time() - start < 20
