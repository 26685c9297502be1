"""Passes over shuffled units whose order is secret, in a config."""

import pytest

from dpcalc.config.load import load_text
from dpcalc.planner.evaluate import evaluate, guarantee

CONFIG = """
version: 1
data: {levels: [{name: user, count: 6000}, {name: example, count: 5}]}
sampling: {user: {scheme: shuffle, size: 30, order: secret}, example: {scheme: fixed, size: 2}}
mechanism: {noise_multiplier: 12, clip: user}
training: {steps: 1000}
privacy: {unit: user, adjacency: replace-one, delta: 1e-5}
"""


def epsilon(*settings):
    return guarantee(load_text(CONFIG, path="run.yaml", assignments=settings).plan).epsilon


def test_a_secret_order_costs_less_and_any_order_what_it_did():
    secret, known = epsilon(), epsilon("sampling.user.order=any")
    assert secret < known / 3
    assert known == pytest.approx(epsilon("sampling.user.order=any", "sampling.user.size=30"))


@pytest.mark.parametrize("unit", ["user", "example"])
@pytest.mark.parametrize("clip", ["user", "example"])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_below_and_at_the_shuffled_level(unit, clip, adjacency):
    settings = (f"privacy.unit={unit}", f"mechanism.clip={clip}", f"privacy.adjacency={adjacency}")
    secret, known = epsilon(*settings), epsilon(*settings, "sampling.user.order=any")
    assert 0 < secret < known
    evaluation = evaluate(load_text(CONFIG, path="run.yaml", assignments=settings).plan)
    assert evaluation.guarantee.epsilon_lower <= secret


@pytest.mark.parametrize(
    "settings",
    [
        ["privacy.adjacency=add-remove"],
        ["mechanism.noise_multiplier=0.5"],
        ["mechanism.clip=batch"],
        ["sampling.example={scheme: shuffle, size: 2}"],
        ["mechanism={type: zcdp, rho: 0.001}"],
        ["mechanism={type: pure-dp, epsilon: 0.1}", "privacy.unit=example"],
    ],
)
def test_where_nothing_is_known_it_is_the_bound_of_any_order(settings):
    assert epsilon(*settings) == epsilon(*settings, "sampling.user.order=any")


def test_groups_are_changed_one_by_one():
    alone, three = epsilon(), epsilon("privacy.group_size=3")
    assert 2.9 * alone < three < epsilon("privacy.group_size=3", "sampling.user.order=any")


def test_a_pass_that_is_not_finished_counts_whole_and_noise_of_phases_differs():
    assert epsilon("training.steps=801") == epsilon("training.steps=1000")
    phases = "phases=[{training: {steps: 400}}, {training: {steps: 600}, mechanism: {noise_multiplier: 14}}]"
    both = epsilon(phases)
    assert epsilon("mechanism.noise_multiplier=14") < both < epsilon()


def test_the_last_batch_smaller_or_dropped():
    even = epsilon()
    for count in (6010, 6029):
        smaller = epsilon(f"data.levels[0].count={count}")
        dropped = epsilon(f"data.levels[0].count={count}", "sampling.user.drop_last=true")
        assert smaller == pytest.approx(even, rel=0.01)
        assert dropped <= smaller


def test_what_it_takes_is_said():
    loaded = load_text(CONFIG, path="run.yaml")
    said = " ".join(evaluate(loaded.plan).assumptions)
    assert "from a seed that nobody else knows" in said
    assert "nothing is claimed" not in said
    assert not [each for each in loaded.diagnostics if each.code == "DPC202"]
    other = load_text(CONFIG, path="run.yaml", assignments=["privacy.adjacency=add-remove"])
    assert [each for each in other.diagnostics if each.code == "DPC202"]
    assert "nothing is claimed" in " ".join(evaluate(other.plan).assumptions)


def of_users(data, unit, adjacency, example="{scheme: fixed, size: {at_most: 5}}"):
    settings = (f"data={data}", f"privacy.unit={unit}", f"privacy.adjacency={adjacency}")
    changed = ("mechanism.clip=example", f"sampling.example={example}", "sampling.user.size=5", "training.steps=400")
    return epsilon(*settings, *changed, "mechanism.noise_multiplier=20")


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_mates_may_contribute_more_than_the_unit_that_is_protected(adjacency):
    # A record of a user who has no other one, beside users who contribute five: it is they that the order must hide.
    sizes = ", ".join(["1"] * 100 + ["10"] * 100)
    tree = of_users(f"{{levels: [{{name: user}}, {{name: example}}], tree: [{sizes}]}}", "example", adjacency)
    between = "{levels: [{name: user, count: 200}, {name: example, count: {min: 1, max: 10}}]}"
    assert tree == pytest.approx(of_users(between, "example", adjacency), rel=1e-3)


def test_a_user_whose_batch_is_seen_by_what_is_missing_in_it():
    # One user contributes 1, all others 1,000: the batch of that one is seen in spite of the noise.
    sizes = ", ".join(["1"] + ["4000"] * 199)
    data = f"{{levels: [{{name: user}}, {{name: example}}], tree: [{sizes}]}}"
    settings = (f"data={data}", "privacy.unit=example", "mechanism.clip=example", "sampling.user.size=1")
    example = "sampling.example={scheme: fixed, size: {at_most: 1000}}"
    changed = (example, "training.steps=2000", "mechanism.noise_multiplier=20")
    assert epsilon(*settings, *changed) == epsilon(*settings, *changed, "sampling.user.order=any")


@pytest.mark.parametrize(
    "settings",
    [
        ["mechanism.noise_multiplier=0.01"],
        ["mechanism.noise_multiplier=1e-6", "privacy.adjacency=zero-out"],
        ["mechanism.noise_multiplier=1e9"],
        ["mechanism.noise_multiplier=1e7"],
        *[
            [
                *(f"mechanism={{noise_multiplier: {noise}, clip: example}}", f"privacy.adjacency={adjacency}"),
                *("data.levels[0].count=1000", "data.levels[1].count=1", "sampling.user.size=1"),
                *("sampling.example={scheme: poisson, rate: 0.001}", f"privacy.unit={unit}"),
            ]
            for noise in (0.15, 0.2, 0.22)
            for adjacency in ("zero-out", "replace-one")
            for unit in ("user", "example")
        ],
    ],
)
def test_next_to_no_noise_and_next_to_nothing_else(settings):
    assert epsilon(*settings) <= epsilon(*settings, "sampling.user.order=any")


def test_moments_are_not_those_of_round_off_far_out():
    plan = load_text(CONFIG, path="run.yaml").plan
    assert evaluate(plan, method="rdp").guarantee.epsilon < 1.5 * evaluate(plan, method="pld").guarantee.epsilon
