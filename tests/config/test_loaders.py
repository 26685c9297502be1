"""Loaders by their class, batches of parts, parties, layers, powers: each is what it stands for."""

from pathlib import Path

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.loaders import LOADERS
from dpcalc.config.source import ConfigError
from dpcalc.planner.evaluate import evaluate
from tests.config.texts import corpus

ROWS = corpus("loaders")

RUN = """
version: 1
data: {{examples: {count}}}
sampling: {sampling}
mechanism: {mechanism}
training: {{steps: 90{training}}}
privacy: {{adjacency: {adjacency}, delta: {delta}}}
"""


def loaded(sampling, **changes):
    usual = {"count": "1000", "mechanism": "{noise_multiplier: 2}", "training": "", "adjacency": "add-remove"}
    usual |= {"sampling": f"{{{sampling}}}", "delta": "1e-5"}
    return load_text(RUN.format(**usual | changes), path="run.yaml")


MEANT = ROWS["meant"]


@pytest.mark.parametrize(("loader", "draw", "adjacency"), MEANT)
def test_a_loader_is_the_scheme_that_it_stands_for(loader, draw, adjacency):
    changes = {"adjacency": adjacency or "add-remove"}
    found, meant = (loaded(f"scheme: {text}", **changes) for text in (f"loader, of: {loader}", draw))
    assert found.plan == meant.plan
    assert found.config_hash == meant.config_hash


def test_every_class_is_tried_and_none_has_a_default():
    for name, loader in LOADERS.items():
        tried = [text for text, *_ in MEANT if text.startswith((name, name.rpartition(".")[2]))]
        assert tried or name == "lightning.Trainer", name
        with pytest.raises(ConfigError) as caught:
            loaded(f"scheme: loader, of: {name}")
        assert [each.message for each in caught.value.diagnostics] == [
            f"`sampling` lacks `{needed}` of {name}" for needed in loader.needs
        ]


@pytest.mark.parametrize(("loader", "draw"), ROWS["secret"])
def test_an_order_that_is_stated_as_secret(loader, draw):
    found = loaded(f"scheme: loader, of: {loader}, order: secret", adjacency="zero-out").plan
    assert found == loaded(f"scheme: shuffle, order: secret, {draw}", adjacency="zero-out").plan
    known = f"scheme: loader, of: {loader.removesuffix(', reshuffle_each_iteration: true')}"
    of_any, unstated = (loaded(each, adjacency="zero-out") for each in (f"{known}, order: any", known))
    assert of_any.config_hash == unstated.config_hash


def test_a_phase_with_another_class_does_not_take_over_that_the_order_is_secret():
    text = RUN.format(
        count=1000,
        sampling="{scheme: loader, of: DataLoader, batch_size: 64, shuffle: true, drop_last: true, order: secret}",
        mechanism="{noise_multiplier: 2}",
        training="",
        adjacency="zero-out",
        delta="1e-5",
    )
    other = "{sampling: {of: keras.Model.fit, batch_size: 64, shuffle: true}}"
    phases = load_text(f"{text}phases: [{{training: {{steps: 9}}}}, {other}]\n", path="run.yaml").plan.phases
    assert [phase.hierarchy.level(1).scheme.is_secret for phase in phases] == [True, False]


@pytest.mark.parametrize(("loader", "why"), ROWS["no uniform order"])
def test_an_order_that_cannot_be_secret(loader, why):
    with pytest.raises(ConfigError, match=why):
        loaded(f"scheme: loader, of: {loader}, order: secret", adjacency="zero-out")


@pytest.mark.parametrize(("draw", "why"), ROWS["refused"])
def test_what_no_scheme_stands_for_is_refused_with_a_way_out(draw, why):
    with pytest.raises(ConfigError) as caught:
        loaded(f"scheme: {draw}")
    assert any(why in each.message for each in caught.value.diagnostics)
    assert all(each.hint for each in caught.value.diagnostics if "must be" not in each.message)


def test_an_unknown_count_is_no_length_of_a_loader():
    loader = "scheme: loader, of: opacus.PrivacyEngine, batch_size: 64, drop_last: true, poisson_sampling: true"
    with pytest.raises(ConfigError, match="what its loader draws depends on it"):
        loaded(loader, count="unknown")


@pytest.mark.parametrize(("draw", "batch", "meant"), ROWS["batches"])
def test_a_batch_of_parts(draw, batch, meant):
    training = f", batch_size: {batch}" if batch else ""
    assert loaded(f"scheme: {draw}", training=training).plan == loaded(f"scheme: {meant}").plan


@pytest.mark.parametrize(("draw", "batch", "why"), ROWS["no batch"])
def test_a_batch_of_parts_that_means_nothing(draw, batch, why):
    with pytest.raises(ConfigError, match=why):
        loaded(f"scheme: {draw}", training=f", batch_size: {batch}")


def test_a_phase_changes_one_argument_and_a_flag_another():
    text = """
version: 1
data: {examples: 1000}
sampling: {scheme: loader, of: DataLoader, batch_size: 50, shuffle: true, drop_last: false}
mechanism: {noise_multiplier: 2}
training: {epochs: 1}
phases: [{name: a}, {name: b, sampling: {batch_size: 25}}, {name: c, sampling: {scheme: poisson, rate: .1}}]
privacy: {adjacency: add-remove, delta: 1e-5}
"""
    plan = load_text(text, path="run.yaml", assignments=["sampling.batch_size=40"]).plan
    assert [phase.steps for phase in plan.phases] == [25, 40, 10]
    assert [phase.hierarchy.level(1).scheme.name for phase in plan.phases] == ["shuffle", "shuffle", "poisson"]


DRAW = "scheme: poisson, rate: .08"


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
    found = loaded(DRAW, mechanism=mechanism).plan.phases[0].noise_multiplier
    assert (1 - 1e-13) * noise <= found <= noise


@pytest.mark.parametrize(("mechanism", "why"), ROWS["no noise"])
def test_parties_and_layers_that_mean_nothing(mechanism, why):
    with pytest.raises(ConfigError) as caught:
        loaded(DRAW, mechanism=mechanism)
    assert why in str(caught.value)


def test_clip_norms_of_layers_cost_what_an_accountant_says():
    """100 steps at noise 1/2: dp_accounting 0.6.0 says 26.1622 for rate .08."""
    noise = "{noise_multiplier: 1, max_grad_norm: [1, 1, 1, 1], noise_relative_to: layer}"
    text = RUN.format(
        count=1000, sampling=f"{{{DRAW}}}", mechanism=noise, training="", adjacency="add-remove", delta="1e-5"
    )
    assert evaluate(
        load_text(text.replace("steps: 90", "steps: 100"), path="f").plan
    ).guarantee.epsilon == pytest.approx(26.1622, rel=1e-5)


def test_delta_is_a_power_of_the_fewest_protected_units():
    for count in (1000, 60_000):
        exact = count**-1.1
        assert (1 - 1e-11) * exact <= loaded(DRAW, count=count, delta="{power: 1.1}").plan.delta < exact
    text = RUN.replace(
        "{{examples: {count}}}", "{{levels: [{{name: user, count: {{min: 20, max: 30}}}}, {{name: row, count: 7}}]}}"
    )
    text = text.replace("{{adj", "{{unit: row, adj")
    text = text.format(
        sampling=f"{{user: {{{DRAW}}}}}",
        mechanism="{noise_multiplier: 2}",
        training="",
        adjacency="zero-out",
        delta="{power: 2}",
    )
    assert load_text(text, path="f").plan.delta == pytest.approx(140**-2.0)
    for delta, count, why in (
        ("{power: x}", 1000, "got a mapping"),
        ("{power: 1.1}", "unknown", "is unknown"),
        ("{power: 1.1}", 1, "no probability below 1"),
    ):
        with pytest.raises(ConfigError, match=why):
            loaded(DRAW, delta=delta, count=count)


def test_the_table_of_the_docs_is_that_of_the_classes():
    page = (Path(__file__).parents[2] / "docs" / "samplers.md").read_text(encoding="utf-8")
    for name, loader in LOADERS.items():
        needs = ", ".join(f"`{each}`" for each in loader.needs)
        beside = {"order": "`order: secret`", "cycle_length": "a `cycle_length` above 1"}
        needs += "".join(f"; with {beside[other]} `{each}`" for each, (other, _) in loader.when.items())
        assert f"| `{name}` | {needs} | {loader.about} | {loader.read} |\n" in page
