"""Advice on what would cost less: on plans of every kind, and never in the way of the answer."""

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from dpcalc import api
from dpcalc.config.load import load
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.black_box import RdpTable
from dpcalc.mechanisms.matrix_factorization import IDENTITY, MatrixFactorization
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import evaluate, guarantee
from dpcalc.sampling.hierarchy import Hierarchy, Level, tree_of
from dpcalc.sampling.schemes import All, CappedPoisson, CyclicPoisson, Fixed, Poisson, Shuffle
from tests.runs import of_tree, run_of

NAMES = ("user", "record")
SHUFFLE = (Shuffle(size=2), Shuffle(size=2))
TWENTIETH = Poisson(probability=Fraction(1, 20))


def run(hierarchy, *, adjacency=Adjacency.ZERO_OUT, noise=9.0, steps=12, **more):
    return run_of(hierarchy, adjacency=adjacency, noise=noise, steps=steps, delta=1e-3, **more)


def notes(plan, words):
    return [note for note in evaluate(plan).notes if words in note.text]


def hierarchy(*schemes):
    pairs = zip(NAMES, schemes, strict=True)
    return Hierarchy(levels=tuple(Level(name=name, count=40, scheme=scheme) for name, scheme in pairs))


@pytest.mark.heavy
@pytest.mark.parametrize("unit", [1, 2])
def test_shuffles_within_shuffles_become_poisson_together(unit):
    (note,) = notes(run(hierarchy(*SHUFFLE), unit=unit), "Poisson batches")
    drawn = run(hierarchy(*(Poisson(probability=Fraction(1, 20)) for _ in NAMES)), unit=unit)
    assert note.epsilons[1] == pytest.approx(evaluate(drawn).guarantee.epsilon)


@pytest.mark.parametrize(
    ("draws", "unit"),
    [
        *((of_tree(tree_of([2, 2, 2, 5], NAMES), NAMES, SHUFFLE), unit) for unit in (1, 2)),
        (hierarchy(All(), Fixed(size=2)), 1),
    ],
)
def test_unequal_frames_have_no_rate_and_draws_below_the_unit_are_left_alone(draws, unit):
    assert notes(run(draws, unit=unit), "Poisson batches") == []


@pytest.mark.parametrize(
    ("scheme", "said", "told"),
    [
        (Poisson(probability=Fraction(1, 10)), "unknown", 1),
        (Poisson(probability=Fraction(1, 10)), "nonnegative", 0),
        (All(), "unknown", 0),  # nothing is drawn, and no factor there
    ],
)
def test_what_the_factor_of_the_poisson_bound_costs_is_told(scheme, said, told):
    table = RdpTable(curve=tuple((float(order), 0.1 * order) for order in range(2, 65)), odd_moments=said)
    found = evaluate(run_of((1000, scheme), mechanism=table, steps=500))
    assert len(found.notes) == told
    for note in found.notes:
        assert note.epsilons[0] == found.guarantee.epsilon
        assert note.epsilons[1] < found.guarantee.epsilon / 1.1


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("draws", "unit", "clip", "farthest"),
    [
        ((Fixed(size=2), All()), 1, 1, 2),
        ((Fixed(size=2), Fixed(size=5)), 2, 2, 10),  # five records each of two users
        ((TWENTIETH, TWENTIETH), 1, 2, 0),
        ((TWENTIETH, TWENTIETH), 2, 2, 0),
        (SHUFFLE, 1, 2, 0),
        (SHUFFLE, 2, 2, 0),
    ],
)
def test_the_reason_why_a_fixed_batch_costs_more(draws, unit, clip, farthest):
    found = evaluate(run(hierarchy(*draws), unit=unit, clip=clip, adjacency=Adjacency.ADD_REMOVE)).notes
    reasons = [note.text for note in found if "takes the place" in note.text or "DPC208" in note.text]
    assert len(reasons) == bool(farthest)
    for reason in reasons:
        assert reason.startswith("with batches of a fixed size another user takes the place of one that is not drawn")
        assert f"by up to {farthest} clip norms instead of 1; see `dpcalc explain DPC208`" in reason


def test_a_fixed_draw_within_the_clipped_vector_is_not_the_reason():
    hundredth, five = Poisson(probability=Fraction(1, 100)), Level(name="example", count=5, scheme=Fixed(size=3))
    draws = Hierarchy(levels=(Level(name="user", count=4000, scheme=hundredth), five))
    plan = run(draws, unit=2, clip=1, adjacency=Adjacency.ADD_REMOVE, noise=1.5, steps=200)
    assert notes(plan, "Opacus would print")
    assert not notes(plan, "takes the place")


def cut(cap, *, method="auto", steps=1000):
    """A run of 256 of 60,000 examples on average, of which `cap` at most stay; None cuts nothing."""
    poisson = Poisson(probability=Fraction(256, 60_000))
    scheme = poisson if cap is None else CappedPoisson(probability=poisson.probability, max_batch_size=cap)
    return run_of(Level(name="example", count=60_000, scheme=scheme), noise=1.1, steps=steps, method=method)


def epsilon(plan):
    return guarantee(composed(plan)).epsilon


@pytest.mark.heavy
@pytest.mark.parametrize("cap", [200, 300])
def test_a_cap_that_costs_much_is_told_with_the_smallest_that_does_not(cap):
    (note,) = (note for note in evaluate(cut(cap)).notes if note.text.startswith("cutting"))
    free = epsilon(cut(None))
    assert note.epsilons == (free, epsilon(cut(cap)))
    assert note.text.startswith(f"cutting batches to {cap} (example) raises epsilon {{}} -> {{}}")
    assert "see `dpcalc explain DPC209`" in note.text
    (smallest,) = re.findall(r"less than 1% is (\d+)", note.text)
    assert epsilon(cut(int(smallest))) <= 1.01 * free < epsilon(cut(int(smallest) - 1))


@pytest.mark.heavy
def test_of_the_draws_only_those_with_a_cap_are_named():
    capped = cut(200).phases[0]
    scheme = CyclicPoisson(probability=Fraction(256, 60_000), groups=1)
    level = Level(name="example", count=60_000, scheme=scheme)
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
