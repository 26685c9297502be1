"""The solvers: what they print is the last value that fits; `transcripts/solve.txt` has more."""

import json
import shutil
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

import dpcalc.report.solution
from dpcalc.config.load import load
from tests.cli.solving import FLAT, facts
from tests.thinning import thinned

SAMPLES = sorted((Path(__file__).parents[2] / "sample_configs").glob("*.yaml"))
SLOW = {"mnist_with_replacement", "omniglot_5way_1shot", "mini_imagenet_5way_1shot"}  # averages over many laws
BATCH = FLAT.replace("1_000}", "50_000}").replace(", rate: 0.01", "").replace("500}", "500, batch_size: 500}")
EXPECTED = BATCH.replace("poisson", "poisson, expected: 500").replace(", batch_size: 500", "")
EPOCHS = BATCH.replace("steps: 500", "epochs: 5")
NO_BATCH = EPOCHS.replace(", batch_size: 500", "")
CYCLIC, LIMIT = yaml.safe_load(Path(__file__).with_name("solve.yaml").read_text(encoding="utf-8")).values()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("command", "text", "stated", "place"),
    [
        ("solve-sigma", FLAT, "noise_multiplier: 1.1", "mechanism.noise_multiplier"),
        ("solve-steps", FLAT, "steps: 500", "training.steps"),
        ("solve-rate", FLAT, "rate: 0.01", "sampling.rate"),
        ("solve-rate", BATCH, "batch_size: 500", "training.batch_size"),
        ("solve-rate", EXPECTED, "expected: 500", "sampling.expected"),
        ("solve-rate", EPOCHS, "batch_size: 500", "training.batch_size"),  # epochs stay
        ("solve-rate", NO_BATCH.replace("poisson", "poisson, rate: 1/97"), "rate: 1/97", "sampling.rate"),
        ("solve-rate", NO_BATCH.replace("poisson", "fixed, size: 4").replace("1.1", "6"), "size: 4", "sampling.size"),
        ("solve-rate", LIMIT, "at_most: 3", "sampling.example.size.at_most"),
        ("solve-rate", CYCLIC, "expected: 500", "sampling.expected"),
        ("solve-group", FLAT.replace("1.1", "6.0"), "", "privacy.group_size"),
    ],
)
def test_the_printed_value_meets_the_target_and_the_other_one_does_not(real, file, command, text, stated, place):
    path = file(text)
    told = facts(real(command, str(path)))
    value, fails_at = told["solution.value"], told["solution.fails_at"]
    meets, misses = (
        float(real("epsilon", str(path), "-q", "--set", f"{place}={each}").out) for each in (value, fails_at)
    )
    assert meets <= float(told["epsilon"]) <= float(told["solution.target"]) < misses
    assert "." in value or int(fails_at) == int(value) + 1  # whole numbers are the neighbours
    assert real(command, str(path), "-q").out == f"{value}\n"
    if stated:  # the same, written into the file
        document = json.loads(real(command, str(path), "--write", "--json").out)
        said = f"{stated.partition(':')[0]}: {value}"
        assert path.read_text(encoding="utf-8") == text.replace(stated, said)
        loaded = load(str(path))
        assert (loaded.config_hash, loaded.plan.steps) == (document["config_hash"], document["steps"])
        assert document["guarantee"]["epsilon"] == document["solution"]["epsilon"] <= meets


@pytest.mark.parametrize(("misses", "fewest", "most"), [(0, 1, 6), (1, 7, 9), (9, 10, 17)])
def test_a_value_has_more_digits_where_six_miss_the_target(file, monkeypatch, misses, fewest, most):
    asked, measure = [], dpcalc.report.solution.certified_measure

    def missing(plan, goal):
        asked.append(plan)
        reached, guarantee = measure(plan, goal)
        return goal.limit + 1 if len(asked) <= misses else reached, guarantee

    monkeypatch.setattr(dpcalc.report.solution, "certified_measure", missing)
    found = dpcalc.solve(file(), "sigma")
    assert fewest <= len(Decimal(repr(found.value)).as_tuple().digits) <= most
    assert (found.plan.phases[0].noise_multiplier, found.guarantee.epsilon <= 1.5) == (found.value, True)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "sample",
    [
        *thinned([pytest.param(one, id=one.stem) for one in SAMPLES if one.stem not in SLOW], 7),
        *(pytest.param(one, id=one.stem, marks=pytest.mark.slow) for one in SAMPLES if one.stem in SLOW),
    ],
)
def test_write_on_every_sample(real, tmp_path, sample):
    path = Path(shutil.copy(sample, tmp_path))
    old = path.read_text(encoding="utf-8")
    ended = real("solve-sigma", path.name, "--target-eps", "2.5", "--write", "--json")
    document = json.loads(ended.out)
    assert ended.code == 0
    before = load(str(sample)).plan.phases
    noisy = [phase for phase in before if phase.noise_multiplier is not None]
    assert [one.partition(":")[0] for one in document["written"]] == [path.name] * len(noisy)
    for phase, was in zip(document["phases"], before, strict=True):
        if was.noise_multiplier is not None:
            texts = (repr(was.mechanism.noise_multiplier), f"{was.mechanism.noise_multiplier:g}")
            said = next(f"noise_multiplier: {text}" for text in texts if f"noise_multiplier: {text}" in old)
            old = old.replace(said, f"noise_multiplier: {phase['noise_multiplier']}", 1)
    assert path.read_text(encoding="utf-8") == old
    assert load(str(path)).config_hash == document["config_hash"]
    assert float(real("epsilon", path.name, "-q").out) <= 2.5


def test_write_is_refused_before_anything_is_computed(real, monkeypatch):
    monkeypatch.setattr("dpcalc.planner.solve.solve", None)
    words = "solve-sigma --no-config --delta 1e-5 --sample-rate 0.01 --steps 500 --target-eps 2 --write"
    ended = real(*words.split())
    assert (ended.code, ended.out) == (2, "")
    assert "expected a config file to change, got <command line>" in ended.err
