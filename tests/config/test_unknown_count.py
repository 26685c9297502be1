"""`examples: unknown`: a run of which a rate is known, and not how many examples there are."""

from fractions import Fraction

import pytest

import dpcalc
from dpcalc.config.expand import normal_form
from dpcalc.config.load import load_text
from dpcalc.planner.evaluate import guarantee
from dpcalc.sampling.schemes import Poisson
from tests.config.texts import errors, flat


def text(sampling="{scheme: poisson, rate: 1/235}", delta="1e-3", **more):
    sections = {"data": "{examples: unknown}", "sampling": sampling, "training": "{epochs: 60}"}
    return flat({**sections, "privacy": f"{{adjacency: add-remove, delta: {delta}}}", **more})


def test_epsilon_is_that_of_the_rate():
    unknown = load_text(text(), path="a.yaml").plan
    level = unknown.phases[0].hierarchy.level(1)
    assert (level.scheme, level.is_assumed) == (Poisson(probability=Fraction(1, 235)), True)
    for count in (235, 60_000):
        stated = load_text(
            text(data=f"{{examples: {count}}}", sampling="{scheme: poisson, rate: 1/235}"), path="a"
        ).plan
        assert stated.steps == unknown.steps == 14_100
        assert guarantee(stated).epsilon == guarantee(unknown).epsilon


def test_the_check_of_delta_asks_for_the_number():
    (note,) = load_text(text(), path="a.yaml").diagnostics
    assert (note.code, note.severity.value) == ("DPC203", "note")
    assert "is not checked" in note.message
    stated = load_text(text(data="{examples: 60_000}"), path="a.yaml").diagnostics
    assert [each.severity.value for each in stated if each.code == "DPC203"] == ["warning"]


def test_the_normal_form_keeps_it():
    loaded = load_text(text(), path="a.yaml")
    written = normal_form(loaded.plan)
    assert "{name: example, count: unknown}" in written
    assert "example: {scheme: poisson, rate: 1/235}\n" in written
    assert load_text(written, path="b.yaml").config_hash == loaded.config_hash


@pytest.mark.heavy
@pytest.mark.parametrize("sampling", ["{scheme: all}", "{scheme: balls-in-bins, bins: 10}"])
def test_draws_that_do_not(sampling):
    known = load_text(text(sampling, data="{examples: 1000}"), path="a.yaml").plan
    assert guarantee(load_text(text(sampling), path="a.yaml").plan).epsilon == guarantee(known).epsilon


def test_it_holds_a_group_and_every_phase():
    phases = "[{training: {steps: 3}}, {training: {steps: 3}, sampling: {rate: 1e-4}}]"
    loaded = load_text(text(phases=phases, training=None), path="a.yaml")
    assert [phase.hierarchy.level(1).count for phase in loaded.plan.phases] == [10_000, 10_000]
    group = load_text(text(privacy="{adjacency: add-remove, delta: 1e-3, group_size: 300}"), path="a.yaml")
    assert group.plan.phases[0].hierarchy.level(1).count == 300


def test_only_the_number_of_the_only_level_may_be_unknown():
    levels = "{levels: [{name: user, count: unknown}, {name: example, count: 3}]}"
    first, *_ = errors(text("{user: {scheme: poisson, rate: 0.1}}", data=levels))
    assert first.code == "DPC102"
    assert errors(text(data="{examples: unknwon}"))


def test_words_of_results_state_no_number():
    from dpcalc.planner.words import sampling_text

    words = sampling_text(load_text(text(), path="a.yaml").plan.phases[0])
    assert "their number is not stated" in words
    assert "of 235" not in words


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("mechanism", [{"type": "pure-dp", "epsilon": 1.0}, {"type": "zcdp", "rho": 0.1}])
def test_no_bound_leans_on_a_number_that_nobody_stated(mechanism):
    """The share of a Poisson batch varies most for few examples: 2.17 was said where two examples cost 3.98."""
    config = {
        "version": 1,
        "sampling": {"scheme": "poisson", "rate": 0.1},
        "mechanism": {**mechanism, "relation": "replace-one"},
        "training": {"steps": 10},
        "privacy": {"adjacency": "replace-one", "delta": 1e-5},
    }
    unknown = dpcalc.epsilon({**config, "data": {"examples": "unknown"}}).epsilon
    assert all(unknown >= dpcalc.epsilon({**config, "data": {"examples": n}}).epsilon for n in (1, 2, 10, 1000))
