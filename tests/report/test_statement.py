"""Statements: every number on its safe side, and nothing that a file says has power over a reader's screen."""

import json
import re
from dataclasses import replace
from decimal import Context, Decimal

import pytest

from dpcalc.guarantee import Adjacency
from dpcalc.planner.plan import Budget
from dpcalc.planner.risk import AttackBounds
from dpcalc.report.statement import escaped, statement_json, statement_markdown, statement_text, statement_view
from tests.report.samples import EVALUATION, GUARANTEE, PLAN
from tests.report.statements import HOSTILE_LOADED, HOSTILE_STATEMENT, NOTHING, STATEMENT, loaded


def text_of(statement=STATEMENT, config=None):
    return " ".join(statement_text(statement_view(statement, config or loaded())).split())


def test_upper_bounds_are_rounded_up_and_lower_ends_down():
    text = text_of(replace(STATEMENT, evaluation=EVALUATION))
    assert "epsilon at most 0.947 " in text
    assert "epsilon_lower 0.946:" in text
    assert "advantage at most 10.2%" in text
    assert "right in at most 55.1% of cases" in text
    assert "0.1% false alarms detects at most 0.230%, where guessing detects 0.1%" in text
    assert "epsilon at most 697, if every draw held the unit" in text


@pytest.mark.parametrize("budget", [None, Budget(epsilon=4.2613)])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.946867, 4.26123, 7.7251, 19.84, *(0.05 * 1.37**n for n in range(18))])
def test_the_factor_is_that_of_the_printed_epsilon(epsilon, budget):
    """A reviewer's calculator is asked: e^4.27 is 71.53, to three digits 71.6, however epsilon goes on."""
    evaluation = replace(EVALUATION, guarantee=replace(GUARANTEE, epsilon=epsilon, epsilon_lower=None))
    text = text_of(replace(STATEMENT, evaluation=evaluation), loaded(replace(PLAN, budget=budget)))
    exponent, factor = re.search(r"a factor of e\^(\S+) \((\S+)\),", text).groups()
    assert f"epsilon at most {exponent} " in text
    exact = Decimal(exponent).exp(Context(prec=40))
    excess = Decimal(factor) - exact
    assert 0 <= excess < Decimal(10) ** (exact.adjusted() - 2)


def test_groups_say_what_is_not_known():
    text = text_of()
    assert "2 together (example) epsilon at most 2.19 at the same delta" in text
    assert "5 together (example) no finite epsilon" in text
    assert "10 together (example) no bound is known" in text


@pytest.mark.parametrize(
    ("adjacency", "words"),
    [
        (Adjacency.ADD_REMOVE, "Whether one example is in the data or not changes"),
        (Adjacency.REPLACE_ONE, "Whether the data hold one example or another in its place changes"),
        (Adjacency.ZERO_OUT, "Whether one example contributes to the training or counts as zero changes"),
    ],
)
def test_the_promise_follows_the_relation(adjacency, words):
    evaluation = replace(EVALUATION, guarantee=replace(GUARANTEE, adjacency=adjacency))
    assert words in text_of(replace(STATEMENT, evaluation=evaluation))


def test_without_a_guarantee_nothing_is_promised():
    text = text_of(NOTHING)
    assert "There is no guarantee" in text
    assert "epsilon infinite" in text
    assert not [words for words in ("attacker can gain", "What is covered", "upper bound", "at most") if words in text]
    assert "What is not covered" in text


def test_certain_detection_is_no_more_than_certain():
    certain = replace(STATEMENT, attack=AttackBounds(advantage=1.0, detection=((0.001, 1.0),)))
    assert "detects at most 100%," in text_of(certain)


def test_an_exceeded_budget_is_said():
    config = loaded(replace(PLAN, budget=Budget(epsilon=0.9468)))
    assert "budget 0.9468, 100.01% used: exceeded" in text_of(config=config)


def test_json_holds_the_numbers_unrounded():
    document = json.loads(statement_json(statement_view(STATEMENT, loaded())))
    assert document["schema"] == "dpcalc.result/1"
    assert document["attack"]["detection"][0] == {"false_positive_rate": 0.001, "true_positive_rate": 0.00229315}
    assert [group["epsilon"] for group in document["groups"]] == [2.18446, None, None]
    assert [group["finite"] for group in document["groups"]] == [True, False, None]
    assert document["without_amplification"] == {"epsilon": 696.7838, "kind": "upper"}
    assert document["guarantee"]["epsilon"] == GUARANTEE.epsilon
    assert document["config_hash"] == loaded().config_hash


def test_without_sampling_nothing_is_said_of_amplification():
    epsilon = STATEMENT.evaluation.guarantee.epsilon
    texts = [
        statement_text(statement_view(replace(STATEMENT, unsampled=epsilon * factor), loaded())) for factor in (1, 1.01)
    ]
    assert [text.count("amplification") + text.count("leaves the unit out") for text in texts] == [0, 2]
    assert all("has the weaker guarantee" in " ".join(text.split()) for text in texts)


@pytest.mark.parametrize("drawn", [statement_text, statement_markdown])
def test_nothing_steers_a_terminal(drawn):
    text = drawn(statement_view(HOSTILE_STATEMENT, HOSTILE_LOADED))
    assert all(line.isprintable() for line in text.splitlines())
    assert "\nsecond" not in text


HOSTILE_MARKDOWN = "</td><script>x</script> ![a](http://e.vil) | `c` *b* _i_ # @someone <!-- $x$ & ~s~ [l]: \\"


def test_markdown_shows_every_word_as_it_is():
    config = loaded(replace(PLAN, name=HOSTILE_MARKDOWN), path="a|b.yaml")
    text = statement_markdown(statement_view(STATEMENT, config))
    title = text.splitlines()[0]
    assert not re.search(r"(?<!\\)[<`*\[|]", title.removeprefix("# ").replace("@<!-- -->", ""))
    assert "http://" not in title
    assert "@someone" not in title
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


def test_ordinary_words_are_not_escaped():
    assert (
        escaped("epsilon_lower e^2.69, 8/1875; 5% (example) - D'D")
        == "epsilon_lower e^2.69, 8/1875; 5% (example) - D'D"
    )


COMMANDS = "::error::a ::add-mask::b ##[error]c ##vso[task.setvariable]d"


@pytest.mark.parametrize("drawn", [statement_text, statement_markdown])
def test_nothing_is_a_command_to_a_runner(drawn):
    config = loaded(replace(PLAN, name=COMMANDS), path=COMMANDS)
    text = drawn(statement_view(STATEMENT, config))
    assert "error" in text
    assert not re.search(r"^\s*::|##\w*\[", text, flags=re.MULTILINE)
    document = statement_json(statement_view(STATEMENT, config))
    assert "##" not in document.replace("u0023#", "")
    assert json.loads(document)["config"]["name"] == COMMANDS
