"""Advice on what would cost less: the notes of costs.yaml, caps, and the sample configs changed as it says."""

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from dpcalc import api
from dpcalc.config.load import load
from dpcalc.mechanisms.matrix_factorization import IDENTITY, MatrixFactorization
from dpcalc.planner.evaluate import evaluate, guarantee
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import CappedPoisson, CyclicPoisson, Poisson
from tests.runs import plan_of


def cut(cap):
    """A run of 256 of 60,000 examples on average, of which `cap` at most stay; None cuts nothing."""
    rate = Fraction(256, 60_000)
    scheme = Poisson(probability=rate) if cap is None else CappedPoisson(probability=rate, max_batch_size=cap)
    return plan_of(scheme, noise=1.1)


@pytest.mark.heavy
@pytest.mark.parametrize("cap", [200, 300])
def test_a_cap_that_costs_much_is_told_with_the_smallest_that_does_not(cap):
    (note,) = (note for note in evaluate(cut(cap)).notes if note.text.startswith("cutting"))
    free = guarantee(cut(None)).epsilon
    assert note.epsilons == (free, guarantee(cut(cap)).epsilon)
    assert note.text.startswith(f"cutting batches to {cap} (example) raises epsilon {{}} -> {{}}")
    assert "see `dpcalc explain DPC209`" in note.text
    (smallest,) = re.findall(r"less than 1% is (\d+)", note.text)
    within, below = (guarantee(cut(int(smallest) - less)).epsilon for less in (0, 1))
    assert within <= 1.01 * free < below


@pytest.mark.heavy
def test_of_the_draws_only_those_with_a_cap_are_named():
    capped = cut(200).phases[0]
    level = Level(name="example", count=60_000, scheme=CyclicPoisson(probability=Fraction(256, 60_000), groups=1))
    mechanism = MatrixFactorization(strategy=IDENTITY, noise_multiplier=1.1)
    uncapped = replace(capped, name="b", hierarchy=Hierarchy(levels=(level,)), mechanism=mechanism, steps=100)
    (note,) = evaluate(replace(cut(200), phases=(capped, uncapped))).notes
    assert re.match(r"cutting batches to 200 \(example\) raises epsilon {} -> {}; the smallest .* is \d+;", note.text)


@pytest.mark.heavy
@pytest.mark.parametrize("cap", [None, 1, 350, 59_999])
def test_a_cap_that_costs_next_to_nothing_is_not_mentioned(cap):
    assert not evaluate(cut(cap)).notes


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
        assert note.epsilons[1] == pytest.approx(api.epsilon(changed).epsilon, rel=1e-9), changed
