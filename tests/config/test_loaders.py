"""Each class of a loader is tried in corpus/loaders.yaml and told in the docs; noise of parties and layers; powers."""

from pathlib import Path

import pytest

from dpcalc.config.loaders import LOADERS
from dpcalc.planner.evaluate import guarantee
from tests.config.texts import BASES, cases, errors, plan, varied


def loader(**changes):
    return varied(BASES["loader"], changes)


def test_every_class_is_tried_and_none_has_a_default():
    tried = [case["name"].partition(": ")[2] for case in cases("loaders") if "stands for" in case.get("name", "")]
    for name, needed in LOADERS.items():
        assert name == "lightning.Trainer" or any(text.startswith((name, name.rpartition(".")[2])) for text in tried), (
            name
        )
        found = errors(loader(sampling=f"{{scheme: loader, of: {name}}}"))
        assert [each.message for each in found] == [f"`sampling` lacks `{key}` of {name}" for key in needed.needs]


def test_the_table_of_the_docs_is_that_of_the_classes():
    page = (Path(__file__).parents[2] / "docs" / "samplers.md").read_text(encoding="utf-8")
    for name, loader in LOADERS.items():
        needs = ", ".join(f"`{each}`" for each in loader.needs)
        beside = {"order": "`order: secret`", "cycle_length": "a `cycle_length` above 1"}
        needs += "".join(f"; with {beside[other]} `{each}`" for each, (other, _) in loader.when.items())
        assert f"| `{name}` | {needs} | {loader.about} | {loader.read} |\n" in page


@pytest.mark.parametrize(
    ("mechanism", "noise"),
    [
        ("{noise_multiplier: 1, parties: {count: 4, dropouts: 0}}", 2.0),
        ("{noise_multiplier: .5, parties: {count: 5, dropouts: 3}}", 0.5 * 2**0.5),
        ("{noise_multiplier: 1, max_grad_norm: [1, 1, 1, 1], noise_relative_to: layer}", 0.5),
        ("{noise_multiplier: 1, max_grad_norm: [3, 4], noise_relative_to: joint}", 1.0),
        ("{noise_multiplier: 1, max_grad_norm: [1, 2, 3], noise_relative_to: layer}", 3**-0.5),
    ],
)
def test_noise_of_parties_and_of_layers_is_never_rounded_up(mechanism, noise):
    assert (1 - 1e-13) * noise <= plan(loader(mechanism=mechanism)).phases[0].noise_multiplier <= noise


def test_clip_norms_of_layers_cost_what_an_accountant_says():
    """100 steps at noise 1/2: dp_accounting 0.6.0 says 26.1622 for rate .08."""
    noise = "{noise_multiplier: 1, max_grad_norm: [1, 1, 1, 1], noise_relative_to: layer}"
    found = guarantee(plan(loader(mechanism=noise, training="{steps: 100}")))
    assert found.epsilon == pytest.approx(26.1622, rel=1e-5)


def test_delta_is_a_power_of_the_fewest_protected_units():
    for count in (1000, 60_000):
        found = plan(loader(data=f"{{examples: {count}}}", privacy="{adjacency: add-remove, delta: {power: 1.1}}"))
        assert (1 - 1e-11) * count**-1.1 <= found.delta < count**-1.1
    rows = "{levels: [{name: user, count: {min: 20, max: 30}}, {name: row, count: 7}]}"
    users = "{user: {scheme: poisson, rate: .08}}"
    privacy = "{unit: row, adjacency: zero-out, delta: {power: 2}}"
    assert plan(loader(data=rows, sampling=users, privacy=privacy)).delta == pytest.approx(140**-2.0)
