"""Answers within a budget of work: what replaces a sharp bound is never below it (also `short` in costs.yaml)."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcalc import work
from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError, WorkExceededError
from dpcalc.planner.composition import composed, protected_units
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.planner.risk import risk
from dpcalc.sampling.schemes import Poisson
from tests.runs import plan_of
from tests.sweeps.heavy_configs import heavy_config
from tests.sweeps.random_configs import generator, random_config

MOST_UNITS = 6.5 * work.SECOND  # the last bound there is may go beyond the allowance


def planned(config):
    return load_text(json.dumps(config), path="f.yaml").plan


def nested(counts, sizes, *, noise=30.0, steps=1000, clip=None, **privacy):
    """A config of draws with replacement under draws with replacement."""
    names = [f"l{level}" for level in range(len(counts))]
    return {
        "version": 1,
        "data": {"levels": [{"name": name, "count": count} for name, count in zip(names, counts, strict=True)]},
        "sampling": {
            name: {"scheme": "with-replacement", "size": size} for name, size in zip(names, sizes, strict=True)
        },
        "mechanism": {"noise_multiplier": noise, "clip": clip or names[-1]},
        "training": {"steps": steps},
        "privacy": {"unit": names[-1], "adjacency": "replace-one", "delta": 1e-12, **privacy},
    }


def of_phases(draws, data, changes, *, noise=2.0, adjacency="replace-one", group=1):
    """A config of three levels whose phases change what some levels draw."""
    phases = [{"name": f"p{k}", "sampling": each, "training": {"steps": 10 + k}} for k, each in enumerate(changes)]
    privacy = {"unit": "c", "adjacency": adjacency, "delta": 1e-5, "group_size": group}
    mechanism = {"noise_multiplier": noise, "clip": "c"}
    return {"version": 1, "data": data, "sampling": draws, "mechanism": mechanism, "phases": phases, "privacy": privacy}


def unequal(phases, *, sizes=120):
    """Phases that draw at most so many of the records under each of some hundred users of 1 to 30."""
    numbers = np.random.default_rng(1)
    tree = [[int(numbers.integers(1, 31)) for _ in range(numbers.integers(1, 5))] for _ in range(sizes)]
    two = {"scheme": "fixed", "size": {"at_most": 2}}
    changes = [{"a": {"rate": 0.1 + k / 1000}, "c": {"size": {"at_most": 1 + k % 25}}} for k in range(phases)]
    data = {"levels": [{"name": name} for name in "abc"], "tree": tree}
    return of_phases({"a": {"scheme": "poisson", "rate": 0.3}, "b": two, "c": two}, data, changes)


def fixed_phases(phases, *, held=False, group=1):
    """Phases of three nested levels with draws of their own."""
    draws = {
        "a": {"scheme": "fixed", "size": 5, "redraw_every": 4 if held else 1},
        "b": {"scheme": "poisson", "rate": 0.2, "redraw_every": 2 if held else 1},
        "c": {"scheme": "fixed", "size": 3},
    }
    data = {"levels": [{"name": "a", "count": 50}, {"name": "b", "count": 20}, {"name": "c", "count": 30}]}
    changes = [{"a": {"size": 1 + k % 40}, "c": {"size": 1 + k % 29}} for k in range(phases)]
    return of_phases(draws, data, changes, group=group)


def drawn_phases(phases):
    """500 phases of three nested levels took 6.6 units; a step has as much work as is left, then its largest part."""
    draws = {"a": {"scheme": "poisson", "rate": 0.01}, "b": {"scheme": "fixed", "size": 3}}
    draws["c"] = {"scheme": "poisson", "rate": 0.1}
    data = {"levels": [{"name": "a", "count": 100}, {"name": "b", "count": 10}, {"name": "c", "count": 20}]}
    changes = [{"a": {"rate": round(0.01 + k / 2000, 4)}} for k in range(phases)]
    return of_phases(draws, data, changes, adjacency="add-remove")


def spent_on(plan):
    """(units of work of an evaluation, the evaluation)."""
    with work.allowance(math.inf) as meter:
        found = evaluate(plan)
    return meter.spent, found


@pytest.mark.heavy
@pytest.mark.parametrize(
    "config",
    [
        nested([1000] * 3, [500] * 3),
        pytest.param(nested([20] * 6, [10] * 6, adjacency="add-remove", group_size=5), marks=pytest.mark.slow),
        pytest.param(nested([10**6], [43716], noise=0.34, steps=175), marks=pytest.mark.slow),
        drawn_phases(500),
        unequal(60),
        fixed_phases(60, held=True),
        fixed_phases(60, group=6),
    ],
)
def test_heavy_runs_are_answered_within_the_budget(config):
    spent, found = spent_on(planned(config))
    assert spent <= (7.5 if "phases" in config else 6.5) * work.SECOND  # laws, choice, losses and bound have their own
    assert 0 < found.guarantee.epsilon < 1e6


@pytest.mark.parametrize(
    ("seed", "place"),
    [*((2, place) for place in (0, 1, 23, 42)), *(pytest.param(3, n, marks=pytest.mark.slow) for n in range(150))],
)
def test_heavy_configs_are_answered_within_the_budget(seed, place):
    try:
        plan = planned(heavy_config(generator(seed, place)))
    except ConfigError:
        return
    with work.allowance(math.inf) as meter:
        try:
            found = evaluate(plan)
        except InputError:  # of refusals there is no number
            return
    assert meter.spent <= MOST_UNITS
    assert found.guarantee.epsilon >= (found.guarantee.epsilon_lower or 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("place", [395, 586, 801, 1088])
def test_random_plans_that_once_took_longest_are_answered_within_the_budget(place):
    """40 placements of six records in eight phases, for example."""
    spent, found = spent_on(planned(random_config(generator(1, place))))
    assert spent <= MOST_UNITS
    assert found.guarantee.finite


@pytest.mark.parametrize("phases", [3, 40, 100])
def test_units_of_many_phases_are_few(phases):
    assert len(protected_units(planned(unequal(phases)))) * phases <= max(3200, phases)
    assert len(protected_units(planned(fixed_phases(phases, group=6)))) * phases <= max(512, phases)


@pytest.mark.heavy
def test_fewer_units_of_many_phases_cost_no_less(monkeypatch):
    plan = planned(unequal(4, sizes=12))
    exact = guarantee(plan).epsilon
    for most in (8, 4):  # two paths, then one
        monkeypatch.setattr("dpcalc.sampling.paths.MAX_PATHS_OF_ALL_PHASES", most)
        assert guarantee(plan).epsilon >= exact * (1 - 1e-4)


# What is remembered, and what stands in


@pytest.mark.heavy
def test_what_is_remembered_costs_as_much_as_anew():
    plan = planned(nested([20, 10], [5, 3], noise=5.0, steps=30))
    cold, first = spent_on(plan)
    warm, second = spent_on(plan)
    assert warm == pytest.approx(cold, rel=1e-12)
    assert first.guarantee == second.guarantee


def test_what_stands_in_where_work_ran_out_is_returned_and_not_remembered():
    """It once raised an error, so that a whole answer was lost."""

    @work.cached_with_cost(4)
    def costly():
        try:
            work.spend(100.0)
        except WorkExceededError:
            return "rough"
        return "exact"

    for _ in range(2):  # whether or not the exact result is remembered
        with work.allowance(50.0) as meter:
            assert costly() == "rough"
            assert meter.spent > meter.limit
            with pytest.raises(WorkExceededError):
                work.spend(1.0)
        with work.allowance(150.0) as meter:
            assert costly() == "exact"
            assert meter.spent == 100.0


def test_a_question_of_its_own_pays_for_all_and_the_outer_one_once():
    @work.cached_with_cost(4)
    def costly(units):
        work.spend(units)

    with work.allowance(100.0) as outer:
        costly(40.0)
        with work.question_of_its_own():
            with pytest.raises(WorkExceededError), work.own_allowance(30.0):
                costly(40.0)
            costly(40.0)
            costly(20.0)
        costly(20.0)
        assert outer.spent == 40.0 + 30.0 + 20.0


def test_an_inner_allowance_is_part_of_the_outer_one():
    with work.allowance(100.0) as outer:
        with pytest.raises(WorkExceededError), work.allowance(1000.0):
            work.spend(110.0)
        assert outer.spent == outer.limit
        with pytest.raises(WorkExceededError):
            work.spend(1.0)


# Looser bounds are above the sharp ones, and say so


@pytest.mark.parametrize(
    "number", [pytest.param(15, marks=pytest.mark.heavy), pytest.param(60, marks=pytest.mark.slow)]
)
def test_the_closed_form_is_never_below_the_sharp_bound(number, monkeypatch):
    compared = 0
    for place in range(1000):
        try:
            plan = replace(planned(random_config(generator(77, place))), tuning=None)
            if len(plan.phases) > 3 or plan.steps > 10**5 or not composed(plan).steps:
                continue
            sharp = guarantee(plan, method="pld").epsilon
            delta = delta_of(plan, epsilon=sharp).delta if 0 < sharp < 300 else 0.0
        except (InputError, ArithmeticError):
            continue
        assert guarantee(plan, method="closed-form").epsilon >= sharp * (1 - 1e-4)
        with monkeypatch.context() as patched:
            for name in ("_SHARP_DELTA_WORK", "_MOMENT_WORK"):
                patched.setattr(f"dpcalc.planner.evaluate.{name}", 0.0)
            assert delta == 0 or delta_of(plan, epsilon=sharp).delta >= delta * (1 - 1e-3)
        compared += 1
        if compared == number:
            return
    raise AssertionError(compared)


def test_drawn_laws_fall_back_without_losing_the_clipping_level(monkeypatch):
    """A batch that is clipped as one vector changes by one vector, however many members it holds."""
    plan = planned(nested([20, 10], [5, 3], noise=5.0, steps=30, clip="batch"))
    sharp = guarantee(plan).epsilon

    def exceeded(*_, **__):
        raise WorkExceededError("test")

    monkeypatch.setattr("dpcalc.amplification.bound.member_counts", exceeded)
    assert sharp * (1 - 1e-4) <= guarantee(plan).epsilon < 5 * sharp


@pytest.mark.heavy
def test_moments_at_hand_answer_where_the_sharp_bound_is_too_costly(monkeypatch):
    plan = planned(nested([20, 10], [5, 3], noise=5.0, steps=30, adjacency="zero-out"))
    composition = composed(plan)
    with work.allowance(math.inf) as meter:
        steps, spent = composition.steps, meter.spent
        largest = max(composition.moment_bound(counts)[0] for counts in steps.values() if counts)
    for name, units in (("_SHARP_WORK", 1.2 * (meter.spent - spent)), ("_MOMENT_WORK", 0.0)):
        monkeypatch.setattr(f"dpcalc.planner.evaluate.{name}", units)
    found = guarantee(plan)
    assert "the looser one of rdp" in " ".join(found.notes)
    assert found.epsilon == pytest.approx(largest, rel=1e-12)


@pytest.mark.heavy
def test_many_phases_that_differ_in_noise_are_composed():
    """dp_accounting says 2.805876; with less work for each phase the answer was the closed form's, 47.7."""
    one = plan_of(Poisson(probability=Fraction(1, 100)), steps=50)
    noises = (replace(one.phases[0].mechanism, noise_multiplier=1 + k / 100) for k in range(200))
    phases = tuple(replace(one.phases[0], name=f"p{k}", mechanism=noise) for k, noise in enumerate(noises))
    found = guarantee(replace(one, phases=phases))
    assert not found.notes
    assert 2.805876 < found.epsilon < 2.805877 * (1 + 1e-4)


@pytest.mark.heavy
@pytest.mark.parametrize("seconds", [0.0, 0.3, 1.0])
def test_the_risk_of_many_units_is_answered_wherever_work_ends(monkeypatch, seconds):
    plan = planned(unequal(4, sizes=12))
    exact = risk(plan)
    monkeypatch.setattr("dpcalc.planner.risk.RISK_WORK", seconds * work.SECOND)
    found = risk(plan)
    assert found.advantage >= exact.advantage * (1 - 1e-9)
    assert found.gdp.mu >= exact.gdp.mu * (1 - 1e-9)
