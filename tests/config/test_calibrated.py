"""Noise that a library found for a target: what commands and Python answer. See corpus/calibrated_refused.yaml."""

from fractions import Fraction

import mpmath
import pytest

import dpcalc
from dpcalc.config.expand import normal_form
from dpcalc.config.load import load_text
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from tests.config.texts import BASES, corpus, loaded, varied

ROWS = corpus("calibrated")

TOLD_OF = "if opacus.prv at its default settings was told of 14100 Poisson steps at the rate 1/235 and the target 8"
RATE = Fraction(1, 235)


def noise(asked="by: opacus.prv", target="{epsilon: 8}"):
    """The line of a mechanism with calibrated noise."""
    return {"mechanism": f"{{noise_multiplier: {{calibrated_to: {target}, {asked}}}}}"}


TELLING = noise("by: opacus.prv, assuming: {rate: 1/235, steps: 14_100}")
SHUFFLED = {**TELLING, "sampling": "{scheme: shuffle, size: 256}"}


def run(changes=()):
    return loaded(varied(BASES["calibrated"], dict(changes)))


@pytest.mark.parametrize(("changes", "asked"), ROWS["asked"])
def test_what_the_library_was_asked(changes, asked):
    (phase,) = run(changes).plan.phases
    found = phase.calibration
    assert [found.epsilon, found.delta, str(found.rate), found.steps] == asked
    assert phase.noise_multiplier == found.noise


@pytest.mark.parametrize(("changes", "epsilon", "by"), ROWS["costs"])
def test_what_the_run_costs(changes, epsilon, by):
    """The target where the library assumed this run or a longer one, else what the least noise costs."""
    found = guarantee(run(changes).plan)
    assert found.epsilon == (epsilon if by == "opacus.prv" else pytest.approx(epsilon, rel=0.02))
    assert (found.kind, found.method, found.epsilon_lower) == ("conditional", by, None)
    assert any(note.startswith("conditional: noise >= ") for note in found.notes)


@pytest.mark.parametrize(("epsilon", "delta"), [("1/2", "0.1"), ("3", "1e-5"), ("1e6", "0.9"), ("1e-9", "1e-300")])
def test_the_classical_formula_is_a_number_and_no_condition(epsilon, delta):
    target = f"{{epsilon: {float(Fraction(epsilon))!r}, delta: {delta}}}"
    plan = run({**SHUFFLED, **noise("by: gaussian.classical", target)}).plan
    exact = mpmath.sqrt(2 * mpmath.log(mpmath.mpf(5) / 4 / mpmath.mpf(delta))) / mpmath.mpf(float(Fraction(epsilon)))
    assert 1 - 1e-13 < plan.phases[0].noise_multiplier / exact < 1
    assert (plan.calibrations, plan.budget) == ((), None)


@pytest.mark.heavy
def test_no_lower_end_is_claimed():
    plan = run(SHUFFLED).plan
    answer = evaluate(plan)
    assert answer.guarantee.epsilon_lower is delta_of(plan, epsilon=8).delta_lower is None
    assert sum("Opacus 1.4 to 1.6" in line for line in answer.assumptions) == 1
    assert not any("would print" in note.text for note in answer.notes)
    (row,) = [row for row in dpcalc.compare(plan) if row.method == "opacus.prv"]
    assert (row.epsilon, row.valid, row.kind) == (8, False, "as-published")


@pytest.mark.parametrize("changes", [{}, SHUFFLED])
def test_show_and_hash(changes):
    config = run(changes)
    again = load_text(normal_form(config.plan), path="again.yaml")
    assert (again.plan, again.config_hash) == (config.plan, config.config_hash)
    stated = {"mechanism": f"{{noise_multiplier: {config.plan.phases[0].noise_multiplier!r}}}"}
    assert run({**changes, **stated, "budget": "{epsilon: 8}"}).config_hash != config.config_hash


@pytest.mark.parametrize(("changes", "budget"), ROWS["gate"])
def test_the_gate_is_the_budget_or_else_the_target(changes, budget):
    assert getattr(run(changes).plan.budget, "epsilon", None) == budget


@pytest.mark.heavy
@pytest.mark.parametrize(("command", "in_words"), ROWS["answers"])
def test_every_answer_says_that_it_is_conditional(real, tmp_path, command, in_words):
    for name, steps in (("run", 14_100), ("old", 9_000)):
        (tmp_path / f"{name}.yaml").write_text(varied(BASES["calibrated"], {"training": f"{{steps: {steps}}}"}))
    ended = real(*command.split())
    assert in_words in " ".join((ended.out + ended.err).split())
    if command == "lock run.yaml":
        assert '"kind": "conditional"' in (tmp_path / "dpcalc.lock").read_text(encoding="utf-8")
    answer = real(*command.split(), *(["--format", "json"] if "statement" in command else ["--json"])).out
    assert '"kind": "conditional"' in answer
    assert '"kind": "upper"' not in answer


@pytest.mark.heavy
def test_noise_that_is_solved_for_is_no_longer_conditional(real, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(varied(BASES["calibrated"], SHUFFLED), encoding="utf-8")
    assert real("check", str(path)).code == 1
    ended = real("solve-sigma", str(path))
    assert "solution.value: 10.3" in ended.out
    assert "kind: upper" in ended.out
    assert f"noise >= 0.655383, {TOLD_OF} (delta 1e-05); this is dpcalc's own smallest" in ended.err
    assert "conditional" not in ended.err


def test_python():
    asked = {"noise_multiplier": {"calibrated_to": {"epsilon": 8}, "by": "opacus.prv"}, "sample_rate": "1/235"}
    plan = dpcalc.plan(**asked, steps=14_100, delta=1e-5)
    assert plan.calibrations == run().plan.calibrations
    assert dpcalc.epsilon(plan).epsilon == 8
    accountant = dpcalc.Accountant(**asked, steps=14_100, delta=1e-5)
    accountant.step(count=14_100)
    assert accountant.guarantee().epsilon == 8
    accountant.step()
    assert accountant.guarantee().epsilon > 8
    assert accountant.guarantee().kind == "conditional"
