"""Advice on what would cost less (notes: costs.yaml): the sample configs changed as it says."""

import re
from pathlib import Path

import pytest
import yaml

import dpcalc
from dpcalc.config.load import load
from dpcalc.planner.evaluate import evaluate

SAMPLES = {  # every sample config whose notes name a change, and how many changes they name
    "clinic_maml": 1,
    "clinics_unequal": 3,
    "example_e_record": 2,
    "example_e_task": 1,
    "mini_imagenet_episodes": 1,
    "mnist_fixed_batch": 1,
    "mnist_shuffle": 2,
    "mnist_with_replacement": 1,
    "omniglot_maml": 1,
}


def config_with(config, change):
    """The config as a person who follows a note would write it."""
    levels = config["data"].get("levels", [{"name": "example", "count": config["data"].get("examples")}])
    counts = {level["name"]: level.get("count", len(config["data"].get("tree", []))) for level in levels}
    if change.startswith("clip per "):
        return config | {"mechanism": config["mechanism"] | {"clip": change.removeprefix("clip per ")}}
    if "scheme" in config["sampling"]:
        bins = re.search(r"bins: (\d+)", change)
        if bins is None:
            training = config["training"]
            if config["sampling"]["scheme"] == "shuffle":  # a Poisson epoch has no last batch that is smaller
                batches = -(-config["data"]["examples"] // training["batch_size"])
                training = {"batch_size": training["batch_size"], "steps": training["epochs"] * batches}
            return config | {"sampling": {"scheme": "poisson"}, "training": training}
        training = {name: value for name, value in config["training"].items() if name != "batch_size"}
        return config | {"sampling": {"scheme": "balls-in-bins", "bins": int(bins[1])}, "training": training}
    # Of a tree only the outermost level has one size.
    outer = [levels[0]["name"]] if "tree" in config["data"] else [*config["sampling"]]
    rates = {name: f"{config['sampling'][name]['size']}/{counts[name]}" for name in outer}
    drawn = {name: {"scheme": "poisson", "rate": rate} for name, rate in rates.items()}
    return config | {"sampling": config["sampling"] | drawn}


@pytest.mark.heavy
@pytest.mark.parametrize("name", SAMPLES)
def test_a_config_that_follows_the_advice_costs_what_was_said(name):
    path = Path(__file__).parents[2] / "sample_configs" / f"{name}.yaml"
    run = evaluate(load(str(path)).plan)
    notes = [note for note in run.notes if note.text.endswith("epsilon {} -> {}")]
    assert len(notes) == SAMPLES[name]
    for note in notes:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        config["privacy"]["delta"] = float(config["privacy"]["delta"])
        changed = config_with(config, note.text.partition(", with the same noise multiplier")[0])
        assert note.epsilons[0] == run.guarantee.epsilon
        assert note.epsilons[1] == pytest.approx(dpcalc.epsilon(changed).epsilon, rel=1e-9), changed
