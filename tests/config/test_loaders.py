"""Loaders by their class, batches of parts, parties, layers, powers: each is what it stands for."""

from pathlib import Path

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.loaders import LOADERS
from dpcalc.config.source import ConfigError
from dpcalc.planner.evaluate import evaluate

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


JAX, HF = "jax_privacy.batch_selection.", "transformers.Trainer, per_device_train_batch_size: 8, "
TF = "tf.data.Dataset, batch_size: 64, drop_remainder: false"
TFF = "tff.simulation."
MEANT = [  # what follows `of:`, the draw that the class makes, adjacency
    ("torch.utils.data.DataLoader, batch_size: 64, shuffle: true, drop_last: false", "shuffle, size: 64", ""),
    ("DataLoader, batch_size: 64, shuffle: true, drop_last: true", "shuffle, size: 64, drop_last: true", ""),
    ("DataLoader, batch_size: 64, shuffle: false, drop_last: true", "shuffle, size: 64", "zero-out"),
    ("RandomSampler, batch_size: 64, replacement: true, drop_last: false", "with-replacement, size: 64", ""),
    ("RandomSampler, batch_size: 64, replacement: false, drop_last: false", "shuffle, size: 64", ""),
    ("opacus.PrivacyEngine, batch_size: 64, drop_last: false, poisson_sampling: true", "poisson, rate: 1/16", ""),
    ("opacus.PrivacyEngine, batch_size: 64, drop_last: true, poisson_sampling: true", "poisson, rate: 1/15", ""),
    ("keras.Model.fit, batch_size: 64, shuffle: true", "shuffle, size: 64", ""),
    (
        "tf.data.Dataset, batch_size: 64, drop_remainder: true, buffer_size: 1000",
        "shuffle, size: 64, drop_last: true",
        "",
    ),
    ("tf.data.Dataset, batch_size: 64, drop_remainder: true, buffer_size: 999", "shuffle, size: 64", "replace-one"),
    (HF + "gradient_accumulation_steps: 4, world_size: 1, dataloader_drop_last: false", "shuffle, size: 32", ""),
    (
        HF + "gradient_accumulation_steps: 1, world_size: 3, dataloader_drop_last: true",
        "shuffle, size: 24, drop_last: true",
        "",
    ),
    (HF + "gradient_accumulation_steps: 4, world_size: 2, dataloader_drop_last: true", "shuffle, size: 64", "zero-out"),
    (
        HF + "gradient_accumulation_steps: 1, world_size: 5, dataloader_drop_last: false",
        "shuffle, size: 40",
        "zero-out",
    ),
    (
        "lightning.Trainer, batch_size: 8, shuffle: true, drop_last: false, devices: 1, accumulate_grad_batches: 3",
        "shuffle, size: 24",
        "",
    ),
    (
        JAX + "CyclicPoissonSampling, sampling_prob: .1, cycle_length: 1, truncated_batch_size: none",
        "poisson, rate: .1",
        "",
    ),
    (
        JAX + "CyclicPoissonSampling, sampling_prob: .1, cycle_length: 1, truncated_batch_size: 120",
        "poisson, rate: .1, max_batch_size: 120",
        "",
    ),
    (JAX + "BallsInBinsSampling, cycle_length: 30", "balls-in-bins, bins: 30, assignment: held", ""),
    (JAX + "FixedBatchSampling, batch_size: 64, replace: false", "fixed, size: 64", ""),
    (JAX + "FixedBatchSampling, batch_size: 64, replace: true", "with-replacement, size: 64", ""),
    ("webdataset.WebDataset, batch_size: 64, resampled: false", "shuffle, size: 64", "zero-out"),
    ("flwr.server.strategy.FedAvg, fraction_fit: .29, min_fit_clients: 2", "fixed, size: 290", ""),
    ("flwr.server.strategy.FedAvg, fraction_fit: .001, min_fit_clients: 2", "fixed, size: 2", ""),
    ("flwr.serverapp.strategy.FedAvg, fraction_train: 0.5, min_train_nodes: 2", "fixed, size: 500", ""),
    ("grain.IndexSampler, batch_size: 50, worker_count: 0", "shuffle, size: 50", "zero-out"),
    ("grain.IndexSampler, batch_size: 50, worker_count: 4", "shuffle, size: 50", "replace-one"),
    (
        "streaming.StreamingDataset, batch_size: 64, num_canonical_nodes: 8, world_size: 1",
        "shuffle, size: 64",
        "zero-out",
    ),
    (
        "streaming.StreamingDataset, batch_size: 4, num_canonical_nodes: 1, world_size: 8",
        "shuffle, size: 32",
        "zero-out",
    ),
    ("pfl.data.FederatedDataset, cohort_size: 30, sample_type: random", "with-replacement, size: 30", ""),
    ("pfl.data.FederatedDataset, cohort_size: 50, sample_type: minimize_reuse", "shuffle, size: 50", "zero-out"),
    (TFF + "build_uniform_sampling_fn, size: 30, replace: false, random_seed: none", "fixed, size: 30", ""),
    (TFF + "build_uniform_sampling_fn, size: 30, replace: true, random_seed: None", "with-replacement, size: 30", ""),
    ("tff.program.DatasetDataSource, k: 30", "fixed, size: 30", ""),
]


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


IN_SECRET = [  # loaders that may have a secret order, and the draw that they then are
    ("DataLoader, batch_size: 64, shuffle: true, drop_last: true", "size: 64, drop_last: true"),
    ("RandomSampler, batch_size: 64, replacement: false, drop_last: false", "size: 64"),
    ("keras.Model.fit, batch_size: 64, shuffle: true", "size: 64"),
    (f"{TF}, buffer_size: 1000, reshuffle_each_iteration: true", "size: 64"),
    (HF + "gradient_accumulation_steps: 4, world_size: 1, dataloader_drop_last: false", "size: 32"),
]


@pytest.mark.parametrize(("loader", "draw"), IN_SECRET)
def test_an_order_that_is_stated_as_secret(loader, draw):
    found = loaded(f"scheme: loader, of: {loader}, order: secret", adjacency="zero-out").plan
    assert found == loaded(f"scheme: shuffle, order: secret, {draw}", adjacency="zero-out").plan
    known = f"scheme: loader, of: {loader.removesuffix(', reshuffle_each_iteration: true')}"
    assert loaded(f"{known}, order: any").config_hash == loaded(known).config_hash


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


IN_NO_UNIFORM_ORDER = [
    ("DataLoader, batch_size: 64, shuffle: false, drop_last: true", "no pass has a uniform order"),
    ("RandomSampler, batch_size: 64, replacement: true, drop_last: false", "no pass has a uniform order"),
    ("opacus.PrivacyEngine, batch_size: 64, drop_last: true, poisson_sampling: true", "no pass has a uniform order"),
    ("webdataset.WebDataset, batch_size: 64, resampled: false", "no pass has a uniform order"),
    ("flwr.server.strategy.FedAvg, fraction_fit: .29, min_fit_clients: 2", "no pass has a uniform order"),
    (f"{TF}, buffer_size: 999, reshuffle_each_iteration: true", "no pass has a uniform order"),
    (f"{TF}, buffer_size: 1000, reshuffle_each_iteration: false", "repeats it in each pass"),
    (f"{TF}, buffer_size: 1000", "lacks `reshuffle_each_iteration`"),
    (HF + "gradient_accumulation_steps: 1, world_size: 5, dataloader_drop_last: true", "several processes"),
    (HF + "gradient_accumulation_steps: 2, world_size: 1, dataloader_drop_last: true", "beside accumulated batches"),
]


@pytest.mark.parametrize(("loader", "why"), IN_NO_UNIFORM_ORDER)
def test_an_order_that_cannot_be_secret(loader, why):
    with pytest.raises(ConfigError, match=why):
        loaded(f"scheme: loader, of: {loader}, order: secret", adjacency="zero-out")


DL = "loader, of: DataLoader, batch_size: 64, drop_last: true"
LIGHTNING = "loader, of: lightning.Trainer, batch_size: 8, shuffle: true, drop_last: true, accumulate_grad_batches: 1"
PARTS = "{per_device: 16, devices: 2, accumulation: 2"
REFUSED = [
    (f"{DL}, shuffle: true, sampler: WeightedRandomSampler", "`sampling.sampler` is an argument"),
    (f"{DL}, shuffle: false", "one unit fewer moves all after it"),
    (f"{DL}, shuffle: 1", "`sampling.shuffle` must be"),
    ("loader, of: Trainer, batch_size: 3", "must name one class"),
    ("loader, of: DaliIterator, batch_size: 3", "must name one class"),
    ("loader, batch_size: 3", "lacks `of`"),
    ("loader, of: opacus.PrivacyEngine, batch_size: 64, drop_last: true, poisson_sampling: false", "is false"),
    ("loader, of: opacus.PrivacyEngine, batch_size: 2000, drop_last: true, poisson_sampling: true", "without batches"),
    (f"loader, of: {HF}gradient_accumulation_steps: 1, world_size: 5, dataloader_drop_last: false", "come twice"),
    (
        f"loader, of: {HF}gradient_accumulation_steps: 4, world_size: 2, dataloader_drop_last: true",
        "not covered for add",
    ),
    (
        f"loader, of: {HF}gradient_accumulation_steps: 1, world_size: 1, dataloader_drop_last: true, lengths: 1",
        "lengths",
    ),
    (f"{LIGHTNING}, devices: 2", "DistributedSampler"),
    (
        f"loader, of: {JAX}CyclicPoissonSampling, sampling_prob: .1, cycle_length: 2, truncated_batch_size: none",
        "partition",
    ),
    ("loader, of: webdataset.WebDataset, batch_size: 64, resampled: true", "with replacement"),
    ("loader, of: grain.IndexSampler, batch_size: 64, worker_count: 0", "64 units do not divide all"),
    ("loader, of: grain.IndexSampler, batch_size: 50, worker_count: 3", "150 units do not divide all"),
    ("loader, of: grain.IndexSampler, batch_size: 50, worker_count: 0", "one unit fewer moves all after it"),
    ("loader, of: StreamingDataset, batch_size: 64, num_canonical_nodes: 64, world_size: 1", "come twice in a pass"),
    ("loader, of: StreamingDataset, batch_size: 64, num_canonical_nodes: 1, world_size: 3", "come twice in a pass"),
    (
        "loader, of: StreamingDataset, batch_size: 64, num_canonical_nodes: 1, world_size: 1",
        "one unit fewer moves all after it",
    ),
    (
        "loader, of: StreamingDataset, batch_size: 64, num_canonical_nodes: 1, world_size: 1, epoch_size: 9",
        "`sampling.epoch_size`",
    ),
    (
        "loader, of: pfl.data.FederatedDataset, cohort_size: 30, sample_type: minimize_reuse",
        "30 units do not divide all",
    ),
    ("loader, of: pfl.data.FederatedDataset, cohort_size: 30, sample_type: random, num_silos: 4", "num_silos"),
    ("loader, of: build_uniform_sampling_fn, size: 30, replace: false, random_seed: 1", "everybody can know"),
    (f"{DL.replace('64', PARTS + ', accumulates: physical}')}, shuffle: true", "their DistributedSampler"),
    (f"{DL.replace('64', PARTS.replace('2', '1', 1) + ', accumulates: draws}')}, shuffle: true", "which makes passes"),
    (f"{DL.replace('64', PARTS + '}')}, shuffle: true", "lacks `accumulates`"),
]


@pytest.mark.parametrize(("draw", "why"), REFUSED)
def test_what_no_scheme_stands_for_is_refused_with_a_way_out(draw, why):
    with pytest.raises(ConfigError) as caught:
        loaded(f"scheme: {draw}")
    assert any(why in each.message for each in caught.value.diagnostics)
    assert all(each.hint for each in caught.value.diagnostics if "must be" not in each.message)


def test_an_unknown_count_is_no_length_of_a_loader():
    loader = "scheme: loader, of: opacus.PrivacyEngine, batch_size: 64, drop_last: true, poisson_sampling: true"
    with pytest.raises(ConfigError, match="what its loader draws depends on it"):
        loaded(loader, count="unknown")


PHYSICAL, DRAWS = (f"{PARTS}, accumulates: {kind}}}" for kind in ("physical", "draws"))
LOCAL = "loader, of: DataLoader, shuffle: true, drop_last: false, batch_size: "
OPACUS = "loader, of: opacus.PrivacyEngine, drop_last: false, poisson_sampling: true, batch_size: "


@pytest.mark.parametrize(
    ("draw", "batch", "meant"),
    [
        ("poisson", PHYSICAL, "poisson, expected: 64"),
        ("poisson", DRAWS, "poisson, expected: 32, draws: 2"),
        ("shuffle", PHYSICAL, "shuffle, size: 64"),
        ("with-replacement", DRAWS, "with-replacement, size: 64"),
        ("fixed", "{per_device: 16, devices: 2, accumulation: 1}", "fixed, size: 32"),
        (OPACUS + PHYSICAL, "", "poisson, rate: 1/16"),
        (OPACUS + DRAWS, "", "poisson, rate: 1/32, draws: 2"),
        (LOCAL + PHYSICAL.replace("devices: 2", "devices: 1"), "", "shuffle, size: 32"),
    ],
)
def test_a_batch_of_parts(draw, batch, meant):
    training = f", batch_size: {batch}" if batch else ""
    assert loaded(f"scheme: {draw}", training=training).plan == loaded(f"scheme: {meant}").plan


@pytest.mark.parametrize(
    ("draw", "batch", "why"),
    [
        ("poisson", PARTS + "}", "lacks `accumulates`"),
        ("poisson", "{per_device: 16, accumulation: 2, accumulates: draws}", "lacks `devices`"),
        ("poisson", "{per_device: 16, devices: x, accumulation: 1}", "must be a whole number"),
        ("poisson", "{per_device: 16, devices: 1, accumulation: 1, nodes: 2}", "is no part of a batch"),
        ("shuffle", DRAWS, "adds up 2 draws of scheme shuffle: not covered"),
        ("fixed", DRAWS, "adds up 2 draws of scheme fixed: not covered"),
    ],
)
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


@pytest.mark.parametrize(
    ("mechanism", "why"),
    [
        ("{noise_multiplier: 1, parties: {count: 4}}", "must be {count: 4, dropouts: 0}"),
        ("{noise_multiplier: 1, parties: {count: 4, dropouts: 4}}", "must be {count: 4, dropouts: 0}"),
        ("{type: laplace, noise_multiplier: 1, parties: {count: 4, dropouts: 0}}", "type gaussian alone"),
        (
            "{noise_multiplier: 1, also: {noise_multiplier: 2}, parties: {count: 4, dropouts: 0}}",
            "parties with one sum",
        ),
        ("{noise_multiplier: 1, max_grad_norm: [1, 1]}", "needs `noise_relative_to`"),
        ("{noise_multiplier: 1, max_grad_norm: [1, 0], noise_relative_to: joint}", "must be numbers above 0"),
        ("{noise_multiplier: 1, max_grad_norm: 1, noise_relative_to: joint}", "is for `max_grad_norm` as a list"),
    ],
)
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
