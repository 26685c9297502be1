"""Configs of many phases that once took half a minute: their work is counted, and stays within that of one answer."""

import math

import numpy as np
import pytest

from dpcalc import work
from dpcalc.amplification import groups
from dpcalc.planner import advice, lower_end, risk
from dpcalc.planner.composition import Composition, composed, draws_unit, protected_units
from dpcalc.planner.evaluate import EVALUATION_WORK, evaluate
from dpcalc.sampling import paths
from tests.planner.test_work_budget import plan_of

LEVELS = [{"name": name} for name in "abc"]


def unequal(phases, *, sizes=120):
    """Phases that draw at most so many of the records under each of some hundred users of 1 to 30."""
    numbers = np.random.default_rng(1)
    tree = [[int(numbers.integers(1, 31)) for _ in range(numbers.integers(1, 5))] for _ in range(sizes)]
    draws = [{"a": {"rate": 0.1 + k / 1000}, "c": {"size": {"at_most": 1 + k % 25}}} for k in range(phases)]
    return {
        "version": 1,
        "data": {"levels": LEVELS, "tree": tree},
        "sampling": {
            "a": {"scheme": "poisson", "rate": 0.3},
            "b": {"scheme": "fixed", "size": {"at_most": 2}},
            "c": {"scheme": "fixed", "size": {"at_most": 2}},
        },
        "mechanism": {"noise_multiplier": 2.0, "clip": "c"},
        "phases": [{"name": f"p{k}", "sampling": each, "training": {"steps": 10 + k}} for k, each in enumerate(draws)],
        "privacy": {"unit": "c", "adjacency": "replace-one", "delta": 1e-5},
    }


def nested(phases, *, held=False, group=1):
    """Phases of three nested levels with draws of their own."""
    counts = {"a": 50, "b": 20, "c": 30}
    sizes = [{"a": {"size": 1 + k % 40}, "c": {"size": 1 + k % 29}} for k in range(phases)]
    return {
        "version": 1,
        "data": {"levels": [{"name": name, "count": count} for name, count in counts.items()]},
        "sampling": {
            "a": {"scheme": "fixed", "size": 5, "redraw_every": 4 if held else 1},
            "b": {"scheme": "poisson", "rate": 0.2, "redraw_every": 2 if held else 1},
            "c": {"scheme": "fixed", "size": 3},
        },
        "mechanism": {"noise_multiplier": 2.0, "clip": "c"},
        "phases": [{"name": f"p{k}", "sampling": each, "training": {"steps": 10 + k}} for k, each in enumerate(sizes)],
        "privacy": {"unit": "c", "adjacency": "replace-one", "delta": 1e-5, "group_size": group},
    }


@pytest.mark.parametrize("phases", [3, 40, 100])
def test_units_of_many_phases_are_few(phases):
    units = protected_units(plan_of(unequal(phases)))
    assert len(units) * phases <= max(paths.MAX_PATHS_OF_ALL_PHASES, phases)
    groups_of_six = protected_units(plan_of(nested(phases, group=6)))
    assert len(groups_of_six) * phases <= max(groups.MAX_PLACEMENTS_OF_ALL_PHASES, phases)


@pytest.mark.heavy
def test_fewer_units_of_many_phases_cost_no_less(monkeypatch):
    plan = plan_of(unequal(4, sizes=12))
    exact = evaluate(plan).guarantee
    for most in (8, 4):  # two paths, then one
        monkeypatch.setattr(paths, "MAX_PATHS_OF_ALL_PHASES", most)
        assert evaluate(plan).guarantee.epsilon >= exact.epsilon * (1 - 1e-4)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "config", [unequal(60), nested(60, held=True), nested(60, group=6)], ids=["unequal", "held", "group"]
)
def test_the_work_of_many_phases_is_that_of_one_answer(config):
    with work.allowance(math.inf) as meter:
        found = evaluate(plan_of(config)).guarantee
    assert math.isfinite(found.epsilon)
    assert meter.spent <= 1.5 * EVALUATION_WORK  # the laws, the choice, the losses and the bound have their own


def test_held_draws_are_composed_once():
    """The run that attains the bound is equal to it, but was another object, of which everything was computed again."""
    config = nested(3, held=True)
    config["sampling"]["b"]["rate"] = 1
    composition = composed(plan_of(config))
    assert composition.stated is not composition.plan
    assert composition.attained is composition


@pytest.mark.heavy
def test_no_question_about_a_phase_looks_at_all_phases(monkeypatch):
    """With 1,000 phases that was a million looks, of 6 s."""
    looks = []

    def counted(plan, phase):
        looks.append(phase)
        return draws_unit(plan, phase)

    for module in (advice, lower_end):
        monkeypatch.setattr(module, "draws_unit", counted)
    plan = plan_of(nested(20))
    advice.places_of_unused_order(Composition(plan))
    lower_end.epsilon_lower(plan)
    assert len(looks) <= 3 * len(plan.phases)


@pytest.mark.heavy
@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.0])
def test_the_risk_of_many_units_is_answered_wherever_work_ends(monkeypatch, seconds):
    plan = plan_of(unequal(4, sizes=12))
    exact = risk.risk(plan)
    monkeypatch.setattr(risk, "RISK_WORK", seconds * work.SECOND)
    found = risk.risk(plan)
    assert found.advantage >= exact.advantage * (1 - 1e-9)
    assert found.gdp.mu >= exact.gdp.mu * (1 - 1e-9)
