"""Every scheme drawn index by index against its computed law: with and without groups, held, shuffled, built."""

from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from dpcalc.audit import simulate
from dpcalc.errors import UnsupportedError
from tests.planner.test_costs import planned
from tests.thinning import thinned

PLANS = yaml.safe_load(Path(__file__).with_name("simulate.yaml").read_text(encoding="utf-8"))


def plan_named(name, *changes):
    config, settings = PLANS.get(name, (name, {}))
    usual = {"steps": 60, "noise": 8, "delta": 1e-4, "adjacency": "replace-one"}
    return planned(config, usual, settings, *changes)


def simulated(name, *changes, draws=4000):
    return simulate.simulate_plan(plan_named(name, *changes), seed=11, draws=draws, on_progress=lambda _: None)


def checks(name, draws=4000):
    return {check["quantity"]: check for check in simulated(name, draws=draws)[0]}


@pytest.mark.parametrize("name", thinned(PLANS, 6))
def test_what_is_drawn_agrees_with_what_is_computed(name):
    found, notes = simulated(name)
    assert notes == []
    assert [check for check in found if not check["agrees"]] == []


def test_held_draws_are_held():
    found = checks("held", draws=60_000)
    once, ever = found["inclusion of one record"], found["inclusion of one record in any of 6 steps"]
    assert once["computed_lower"] == pytest.approx(2 / 10 * 2 / 5)
    assert ever["computed_lower"] == pytest.approx(2 / 10 * (1 - (3 / 5) ** 6))
    assert ever["draws"] == 10_000
    assert ever["observed_upper"] < 1 - (1 - 2 / 10 * 2 / 5) ** 6  # what draws of both levels in every step would give


def test_everything_has_its_turn_in_a_pass():
    found = checks("shuffle")
    assert found["inclusion of one example in a pass"]["observed"] == 1
    batch = found["batch size (example)"]
    assert (batch["note"], batch["observed"]) == ("from 3 to 4", pytest.approx(23 / 6))


def test_a_batch_of_a_certain_size_is_that_number():
    """Others were 12.000000000000002, shown as 12.001."""
    batch = checks("certain", draws=100)["batch size (record)"]
    assert (batch["computed_lower"], batch["computed_upper"]) == (6.0, 6.0)


def test_records_of_the_smallest_class_are_in_most_tasks():
    found = checks("smallest class")
    assert found["inclusion of one image"]["computed_lower"] == pytest.approx(1 - (1 - 2 / 5 * 2 / 3) ** 3)
    assert all(check["agrees"] for check in found.values())


@pytest.mark.usefixtures("fresh_caches")
@pytest.mark.parametrize("name", ["again", "nested group", "held", "record of built tasks"])
def test_a_wrong_law_is_found(name, monkeypatch):
    distribution = simulate.member_distribution

    def rarer(*arguments):
        law, *claimed = distribution(*arguments)
        return {count: p * (1 if count == 0 else Fraction(3, 4)) for count, p in law.items()}, *claimed

    monkeypatch.setattr(simulate, "member_distribution", rarer)
    wrong = [check["quantity"] for check in simulated(name, draws=90_000)[0] if not check["agrees"]]
    assert wrong
    assert wrong[0].startswith("inclusion of ")


def test_shuffles_that_are_not_drawn():
    uneven = {"counts": [3, {"min": 3, "max": 9}], "record": {"scheme": "shuffle", "size": 3}}
    with pytest.raises(UnsupportedError, match="one shuffle, of frames of one size"):
        simulated("pair", uneven)


@pytest.mark.parametrize("scheme", ["with-replacement, size: 3", "fixed, size: 2", "all"])
def test_levels_that_no_round_reaches_contradict_nothing(scheme):
    rare = {"counts": [10, 6], "user": {"scheme": "poisson", "rate": "1/1000000000"}, "unit": "user"}
    found, _ = simulated("pair", rare, {"record": yaml.safe_load(f"{{scheme: {scheme}}}")}, draws=100)
    assert all(check["agrees"] for check in found)
    assert [check["observed"] for check in found if check["quantity"].startswith("batch size")] == [0.0]


@pytest.mark.parametrize(
    ("scheme", "why"),
    [
        ({"scheme": "any-order"}, "the config states limits alone"),
        ({"scheme": "cyclic-poisson", "rate": "1/5", "groups": 4}, "the training code splits the units into groups"),
        ({"scheme": "balls-in-bins", "bins": 8, "assignment": "held"}, ""),
    ],
)
def test_batches_are_drawn_where_the_scheme_says_who_is_in_a_step(scheme, why):
    limits = {"mechanism.min_separation": 2} if scheme["scheme"] == "any-order" else {}
    more = {"data": {"examples": 40}, "draw": scheme, "steps": 20, "adjacency": "add-remove"}
    found, notes = simulated("correlated", more, limits, draws=300)
    assert all(check["agrees"] for check in found)
    assert bool(found) is not bool(why)
    assert notes == ([f"no batches of training are drawn: {why}; `audit-sampler` tests a log"] if why else [])
