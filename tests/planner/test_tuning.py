"""A plan that is repeated: every command that knows no bound for the best of several runs says so."""

from dataclasses import replace

import pytest

from dpcalc.cli.app import run
from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from dpcalc.errors import UnsupportedError
from dpcalc.planner import evaluate as evaluating
from dpcalc.planner.compare import compare, cross_checks
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.planner.gdp import gaussian_summary
from dpcalc.planner.risk import attack_bounds
from dpcalc.planner.search import EpsilonGoal
from dpcalc.planner.solve import solve
from dpcalc.planner.tuning import Poisson, TruncatedNegativeBinomial

TEXT = """\
version: 1
data: {examples: 10_000}
sampling: {scheme: poisson, rate: 0.01}
mechanism: {noise_multiplier: 2}
training: {steps: 500}
privacy: {adjacency: add-remove, delta: 1e-5}
"""
NEGATIVE = "{mean: 4, distribution: negative-binomial, shape: 0.5}"


def plan(tuning, text=TEXT):
    return load_text(f"{text}tuning: {tuning}\n", path="tuned.yaml").plan


@pytest.mark.parametrize(
    ("tuning", "repeated"),
    [
        ("{mean: 10}", TruncatedNegativeBinomial(shape=1.0, mean=10.0)),
        ("{mean: 10, distribution: logarithmic}", TruncatedNegativeBinomial(shape=0.0, mean=10.0)),
        (NEGATIVE, TruncatedNegativeBinomial(shape=0.5, mean=4.0)),
        ("{mean: 1.5, distribution: poisson}", Poisson(mean=1.5)),
    ],
)
def test_the_best_of_several_runs(tuning, repeated):
    asked = plan(tuning)
    assert asked.tuning == repeated
    one = replace(asked, tuning=None)
    counts = tuple(composed(one).steps.values())
    found = evaluate(asked)
    assert found.guarantee.epsilon == repeated.epsilon(counts, delta=1e-5)
    assert found.guarantee.epsilon > guarantee(one).epsilon
    assert (found.guarantee.method, found.guarantee.epsilon_lower) == ("rdp", None)
    assert "best of several runs" in found.guarantee.bound
    assert [(row.epsilon, row.valid) for row in found.alternatives] == [(guarantee(one).epsilon, False)]
    assert found.notes[0].epsilons == (guarantee(one).epsilon,)
    assert any("stays secret" in line for line in found.assumptions)
    assert not any("tuning and other runs" in line for line in found.assumptions)


def test_solvers_keep_to_the_best_of_several():
    asked = plan("{mean: 10}")
    goal = EpsilonGoal(limit=2.0)
    found = solve(asked, "sigma", goal=goal)
    assert guarantee(found.plan).epsilon <= 2.0
    assert found.value > solve(replace(asked, tuning=None), "sigma", goal=goal).value


@pytest.mark.parametrize(
    "question",
    [
        lambda plan: composed(plan).steps,
        compare,
        attack_bounds,
        gaussian_summary,
        lambda asked: delta_of(asked, epsilon=1.0),
        lambda asked: guarantee(asked, method="pld"),
        lambda asked: guarantee(replace(asked, method="moments")),
    ],
)
def test_questions_without_a_bound_for_several_runs(question):
    with pytest.raises(UnsupportedError, match="tuning"):
        question(plan("{mean: 10}"))


def test_without_noise_or_without_a_step():
    silent = plan("{mean: 10}", TEXT.replace("steps: 500", "steps: 0"))
    loud = plan("{mean: 10}", TEXT.replace("noise_multiplier: 2", "noise_multiplier: 0"))
    assert guarantee(silent).epsilon == 0
    assert not guarantee(loud).finite
    assert evaluate(loud).alternatives == ()
    assert cross_checks(plan("{mean: 10}")) == ()


@pytest.mark.parametrize(
    ("tuning", "code", "message"),
    [
        ("{}", "DPC103", "mean"),
        ("{mean: 1}", "DPC106", "more than 1 and at most 1e9"),
        ("{mean: 2, shape: 1}", "DPC107", "`tuning.shape` is of `distribution: negative-binomial`"),
        ("{mean: 2, distribution: negative-binomial}", "DPC103", "`tuning` lacks `shape`"),
        ("{mean: 2, distribution: negative-binomial, shape: -1}", "DPC106", "more than -1"),
        ("{mean: 2, distribution: binomial}", "DPC104", "binomial"),
        ("{mean: 2, trials: 3}", "DPC101", "trials"),
        ("10", "DPC102", "a mapping"),
    ],
)
def test_blocks_that_are_wrong(tuning, code, message):
    with pytest.raises(ConfigError) as caught:
        plan(tuning)
    assert [one.code for one in caught.value.diagnostics] == [code]
    assert message in caught.value.diagnostics[0].message


def test_it_is_part_of_what_a_config_means():
    texts = [TEXT, *(f"{TEXT}tuning: {one}\n" for one in ("{mean: 3}", "{mean: 4}", NEGATIVE))]
    loaded = [load_text(text, path="a.yaml") for text in texts]
    assert len({one.config_hash for one in loaded}) == 4
    assert loaded[0].plan.tuning is None


@pytest.mark.heavy
def test_the_gate_counts_it_and_a_ledger_refuses_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tuned.yaml").write_text(f"{TEXT}tuning: {{mean: 10}}\nbudget: {{epsilon: 0.8}}\n", encoding="utf-8")
    one = guarantee(replace(plan("{mean: 10}"), tuning=None)).epsilon
    assert one < 0.8 < guarantee(plan("{mean: 10}")).epsilon
    assert run(["check", "tuned.yaml"]) == 1
    assert run(["ledger", "add", "runs.yaml", "tuned.yaml"]) == 2
    assert not (tmp_path / "runs.yaml").exists()


@pytest.mark.parametrize("repeated", ["{mean: 10}", "{mean: 10, distribution: poisson}"])
def test_moments_that_take_too_much_work_are_those_in_closed_form(repeated, monkeypatch):
    asked = plan(repeated)
    sharp = guarantee(asked)
    monkeypatch.setattr(evaluating, "_SHARP_WORK", 0.0)
    rough = guarantee(asked)
    assert (sharp.notes, rough.notes) == ((), (evaluating.CLOSED_FORM_NOTE,))
    assert sharp.epsilon <= rough.epsilon < 20 * sharp.epsilon
