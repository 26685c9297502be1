"""`${...}`: what it must not lead to; corpus/plans.yaml and corpus/malformed.yaml hold what it leads to."""

import time

import pytest

from dpcalc.config.documents import MAX_CHAIN
from tests.config.texts import errors, flat, indented, loaded, marked, plan


def steps(reference):
    return flat({"training": f"{{steps: '{reference}'}}"})


def test_the_mark_is_that_of_the_reference():
    text, (place,) = marked(flat({"training": "{§steps: '${x-n}'}"}) + "x-n: 5\n")
    assert loaded(text).mark("training.steps") == place
    text, places = marked(flat({"training": "{steps: §'${x-n}'}"}) + "x-n: five\n")
    (found,) = errors(text)
    assert (found.code, [(found.line, found.column)]) == ("DPC102", places)
    assert "got the string 'five'" in found.message


def test_hydra_is_named_where_hydra_composes():
    (found,) = errors("defaults: [optim: sgd]\ndpcalc:\n" + indented(steps("${optim.steps}")))
    assert (found.code, "Hydra" in found.hint) == ("DPC110", True)


def test_a_misspelt_key_is_suggested():
    (found,) = errors(steps("${x-run.stepz}") + "x-run: {steps: 4}\n")
    assert found.hint == "did you mean `steps`?"


def test_a_long_reference_is_not_followed():
    (found,) = errors(steps("${" + "a" * 500 + "}"))
    assert (found.code, "more than 400 characters" in found.message) == ("DPC110", True)


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
