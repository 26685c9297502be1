"""Training scripts and dpcalc read the same file: what the loop is run with is what the guarantee is about."""

import importlib.util
import re
from pathlib import Path

import pytest
import yaml

from dpcalc.config.load import load, load_text
from dpcalc.config.source import ConfigError
from dpcalc.sampling.schemes import All, Fixed, Poisson

SAMPLES = Path(__file__).parents[2] / "sample_configs"
RESOLVED = Path(__file__).with_name("hydra_resolved.yaml")
SCRIPTS = sorted(SAMPLES.glob("*/train.py"))


def script(folder):
    """The sample's script as a module: that imports none of what it trains with."""
    spec = importlib.util.spec_from_file_location(f"sample_{folder}", SAMPLES / folder / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def only_phase(path):
    (phase,) = load(str(SAMPLES / path)).plan.phases
    return phase


def test_there_is_a_script_beside_each_config():
    assert [path.parent.name for path in SCRIPTS] == ["hydra_femnist", "learn2learn_clinics", "opacus_mnist"]


def test_opacus():
    chosen, phase = script("opacus_mnist").settings(), only_phase("opacus_mnist/train.yaml")
    (level,) = phase.hierarchy.levels
    batches = level.count // chosen["loader"]["batch_size"]
    assert batches * chosen["loader"]["batch_size"] == level.count  # or Opacus would draw with another rate
    assert level.scheme == Poisson(probability=phase.hierarchy.level(1).rate)
    assert level.rate == pytest.approx(1 / batches)
    assert phase.steps == chosen["epochs"] * batches
    assert chosen["privacy"] == {
        "noise_multiplier": phase.mechanism.noise_multiplier,
        "max_grad_norm": phase.mechanism.max_grad_norm,
    }
    assert chosen["delta"] == load(str(SAMPLES / "opacus_mnist/train.yaml")).plan.delta


def test_learn2learn():
    chosen, phase = script("learn2learn_clinics").settings(), only_phase("learn2learn_clinics/maml.yaml")
    clinic, record = phase.hierarchy.levels
    assert (clinic.count, record.count) == (chosen["data"]["clinics"], chosen["data"]["records_per_clinic"])
    assert clinic.scheme == Fixed(size=chosen["meta"]["clinics_per_step"])
    assert record.scheme == Fixed(size=chosen["meta"]["records_per_clinic"])
    assert phase.steps == chosen["meta"]["iterations"]
    assert phase.mechanism.noise_multiplier == chosen["dp"]["noise_multiplier"]
    assert phase.mechanism.max_grad_norm == chosen["dp"]["clip_norm"]
    assert phase.clip == 1


def composed():
    """What Hydra 1.3 makes of the folder: `python train.py --cfg job --resolve`, recorded."""
    return yaml.safe_load(RESOLVED.read_text(encoding="utf-8"))


def test_hydra():
    chosen, phase = script("hydra_femnist").settings(composed()), only_phase("hydra_femnist/dpcalc.yaml")
    writer, example = phase.hierarchy.levels
    assert writer.count == chosen["writers"]
    assert (writer.scheme, example.scheme) == (Fixed(size=chosen["writers_per_round"]), All())
    assert phase.mechanism.noise_multiplier == chosen["noise_multiplier"]
    assert phase.mechanism.max_grad_norm == chosen["clip_norm"]
    assert phase.steps == chosen["rounds"]


def test_the_recorded_composition_is_that_of_the_folder():
    found = composed()
    conf = SAMPLES / "hydra_femnist" / "conf"
    primary = yaml.safe_load((conf / "config.yaml").read_text(encoding="utf-8"))
    assert {key: found[key] for key in ("rounds", "server", "client")} == {
        key: primary[key] for key in ("rounds", "server", "client")
    }
    relaxed = yaml.safe_load((conf / "dp" / "relaxed.yaml").read_text(encoding="utf-8"))
    assert {**found["dp"], "delta": repr(found["dp"]["delta"])} == {**relaxed, "delta": "1e-05"}
    assert found["data"] == yaml.safe_load((conf / "data" / "femnist.yaml").read_text(encoding="utf-8"))


def test_what_hydra_resolves_costs_the_same():
    text = RESOLVED.read_text(encoding="utf-8")
    resolved = load_text(text, path="resolved.yaml", key="privacy_of_this_run").plan
    assert resolved.phases == load(str(SAMPLES / "hydra_femnist" / "dpcalc.yaml")).plan.phases


def test_a_section_of_a_main_config_reads_what_hydra_composes():
    loaded = load(str(SAMPLES / "hydra_femnist" / "conf" / "config.yaml"), key="privacy_of_this_run")
    assert loaded.plan.phases == load(str(SAMPLES / "hydra_femnist" / "dpcalc.yaml")).plan.phases
    assert any("no launch overrides the defaults of `this file`" in each.message for each in loaded.diagnostics)


@pytest.mark.parametrize(
    "reference", ["${hydra:runtime.cwd}", "${oc.env:STEPS}", "${oc.env:STEPS,7}", "${oc.select:a}"]
)
def test_resolvers_are_named(reference):
    text = (SAMPLES / "clinic_maml.yaml").read_text(encoding="utf-8").replace("10_000", f"'{reference}'")
    with pytest.raises(ConfigError) as caught:
        load_text(text, path="run.yaml")
    (found,) = caught.value.diagnostics
    resolver = re.split("[:}]", reference[2:])[0]
    assert f"resolvers such as `{resolver}` are not run" in found.message
    assert "--cfg job --resolve" in found.hint
