"""Training scripts and dpcalc read the same file: what the loop is run with is what the guarantee is about."""

import importlib.util
from pathlib import Path

import pytest
import yaml

from dpcalc.config.load import load
from tests.config.texts import SAMPLES

RESOLVED = Path(__file__).with_name("hydra_resolved.yaml")
COMPOSED = yaml.safe_load(RESOLVED.read_text(encoding="utf-8"))
"""What Hydra 1.3 makes of the folder: `python train.py --cfg job --resolve`, recorded."""


def script(folder):
    """The sample's script as a module: that imports none of what it trains with."""
    spec = importlib.util.spec_from_file_location(f"sample_{folder}", SAMPLES / folder / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_of(path, key=""):
    """The only phase, and for each level its count, scheme and size, of which Poisson has none."""
    (phase,) = load(str(SAMPLES / path), key=key).plan.phases
    levels = [(each.count, each.scheme.name, getattr(each.scheme, "size", None)) for each in phase.hierarchy.levels]
    return phase, levels


def test_there_is_a_script_beside_each_config():
    scripts = sorted(path.parent.name for path in SAMPLES.glob("*/train.py"))
    assert scripts == ["hydra_femnist", "learn2learn_clinics", "opacus_mnist"]


def test_opacus():
    chosen, (phase, [(count, scheme, _)]) = script("opacus_mnist").settings(), run_of("opacus_mnist/train.yaml")
    batches = count // chosen["loader"]["batch_size"]
    assert batches * chosen["loader"]["batch_size"] == count  # or Opacus would draw with another rate
    assert (scheme, phase.hierarchy.level(1).rate) == ("poisson", pytest.approx(1 / batches))
    assert phase.steps == chosen["epochs"] * batches
    noise, norm = chosen["privacy"]["noise_multiplier"], chosen["privacy"]["max_grad_norm"]
    assert (phase.mechanism.noise_multiplier, phase.mechanism.max_grad_norm) == (noise, norm)
    assert chosen["delta"] == load(str(SAMPLES / "opacus_mnist/train.yaml")).plan.delta


def test_learn2learn():
    chosen, (phase, levels) = script("learn2learn_clinics").settings(), run_of("learn2learn_clinics/maml.yaml")
    data, meta, dp = chosen["data"], chosen["meta"], chosen["dp"]
    assert levels == [
        (data["clinics"], "fixed", meta["clinics_per_step"]),
        (data["records_per_clinic"], "fixed", meta["records_per_clinic"]),
    ]
    assert (phase.steps, phase.clip) == (meta["iterations"], 1)
    assert (phase.mechanism.noise_multiplier, phase.mechanism.max_grad_norm) == (
        dp["noise_multiplier"],
        dp["clip_norm"],
    )


def test_hydra():
    chosen, (phase, (writer, example)) = script("hydra_femnist").settings(COMPOSED), run_of("hydra_femnist/dpcalc.yaml")
    assert writer == (chosen["writers"], "fixed", chosen["writers_per_round"])
    assert example[1] == "all"
    assert phase.mechanism.noise_multiplier == chosen["noise_multiplier"]
    assert phase.mechanism.max_grad_norm == chosen["clip_norm"]
    assert phase.steps == chosen["rounds"]
    assert run_of(RESOLVED, key="privacy_of_this_run")[0] == phase
    assert run_of("hydra_femnist/conf/config.yaml", key="privacy_of_this_run")[0] == phase
    notes = load(str(SAMPLES / "hydra_femnist/conf/config.yaml"), key="privacy_of_this_run").diagnostics
    assert any("no launch overrides the defaults of `this file`" in each.message for each in notes)


def test_the_recorded_composition_is_that_of_the_folder():
    conf = SAMPLES / "hydra_femnist" / "conf"
    primary, relaxed, femnist = (
        yaml.safe_load((conf / name).read_text(encoding="utf-8"))
        for name in ("config.yaml", "dp/relaxed.yaml", "data/femnist.yaml")
    )
    assert {key: COMPOSED[key] for key in ("rounds", "server", "client")}.items() <= primary.items()
    assert {**COMPOSED["dp"], "delta": repr(COMPOSED["dp"]["delta"])} == {**relaxed, "delta": "1e-05"}
    assert COMPOSED["data"] == femnist
