"""Solving for goals other than an epsilon, on the command line."""

import json

import pytest

from tests.cli.solving import FLAT, facts

GOALS = {
    "true_positive_rate": ("--target-tpr", "0.05", "--at-fpr", "0.01"),
    "advantage": ("--target-advantage", "0.2"),
}


@pytest.mark.heavy
@pytest.mark.parametrize(("measure", "words"), GOALS.items())
def test_a_goal_is_met_and_named(real, file, measure, words):
    ended = real("solve-sigma", str(file()), *words)
    assert (ended.code, ended.err) == (0, "")
    told = facts(ended)
    assert float(told[f"solution.{measure}"]) <= float(told["solution.target"]) == float(words[1])
    assert "solution.epsilon" not in told
    assert float(told["epsilon"]) > 0
    document = json.loads(real("solve-sigma", str(file()), *words, "--json").out)
    goal = document["solution"]["goal"]
    assert (goal["measure"], goal["limit"]) == (measure, float(words[1]))
    assert goal["reached"] <= goal["limit"]
    assert document["solution"]["epsilon"] == document["guarantee"]["epsilon"]


@pytest.mark.heavy
def test_a_group(real, file):
    path = str(file(FLAT.replace("1.1", "6.0")))
    told = facts(real("solve-group", path))
    found, fails_at = (int(told[f"solution.{key}"]) for key in ("value", "fails_at"))
    assert fails_at == found + 1
    meets, misses = (
        float(real("epsilon", path, "-q", "--set", f"privacy.group_size={size}").out) for size in (found, fails_at)
    )
    assert meets <= 1.5 < misses
    assert real("solve-group", path, "-q").out == f"{found}\n"


def test_no_group_is_the_answer_no(real, file):
    ended = real("solve-group", str(file()), "--target-advantage", "0.01")
    assert ended.code == 1
    assert facts(ended)["best.value"] == "1"
    assert float(facts(ended)["best.advantage"]) > 0.01
    document = json.loads(real("solve-group", str(file()), "--target-advantage", "0.01", "--json").out)
    assert (document["solution"], document["best"]["epsilon"]) == (None, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target-tpr", "0.05"), "--at-fpr: expected both or none"),
        (("--at-fpr", "0.05"), "--at-fpr: expected both or none"),
        (("--target-eps", "1", "--target-advantage", "0.2"), "expected one, got --target-eps and --target-advantage"),
        (("--target-tpr", "0.01", "--at-fpr", "0.05"), "guessing"),
        (("--target-advantage", "0.2", "--method", "rdp"), "leave --method out"),
    ],
)
def test_goals_that_are_none(real, file, words, message):
    ended = real("solve-sigma", str(file()), *words)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
