"""`--write` of the solvers, with the real accounting."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import dpcalc.planner.solve
from dpcalc.config.load import load
from tests.cli.solving import FLAGS, FLAT, bare, facts, number
from tests.thinning import thinned

SAMPLES = sorted((Path(__file__).parents[2] / "sample_configs").glob("*.yaml"))
SLOW = {"mnist_with_replacement", "omniglot_5way_1shot", "mini_imagenet_5way_1shot"}  # averages over many laws


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
    noisy = [phase for phase in load(str(sample)).plan.phases if phase.noise_multiplier is not None]
    assert [one.partition(":")[0] for one in document["written"]] == [path.name] * len(noisy)
    new = path.read_text(encoding="utf-8")
    for phase, was in zip(document["phases"], load(str(sample)).plan.phases, strict=True):
        if was.noise_multiplier is None:
            continue
        texts = (repr(was.mechanism.noise_multiplier), f"{was.mechanism.noise_multiplier:g}")
        said = next(f"noise_multiplier: {text}" for text in texts if f"noise_multiplier: {text}" in old)
        old = old.replace(said, f"noise_multiplier: {phase['noise_multiplier']}", 1)
    assert new == old
    loaded = load(str(path))
    assert loaded.config_hash == document["config_hash"]
    assert number(real("epsilon", path.name, "-q")) <= 2.5


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("solve-sigma", "noise_multiplier: 1.1", "noise_multiplier: {}"),
        ("solve-steps", "steps: 500", "steps: {}"),
        ("solve-rate", "rate: 0.01", "rate: {}"),
    ],
)
def test_write_puts_the_printed_value_into_the_file(real, file, command, old, new):
    path = file()
    ended = real(command, str(path), "--write")
    said = new.format(facts(ended)["solution.value"])
    assert ended.code == 0
    assert path.read_text(encoding="utf-8") == FLAT.replace(old, said)
    assert ended.err == f"note: wrote {path}:{FLAT[: FLAT.index(old)].count(chr(10)) + 1}: {said} (was {old})\n"


def test_write_is_refused_before_anything_is_computed(real, monkeypatch):
    monkeypatch.setattr(dpcalc.planner.solve, "solve", None)
    words = ("solve-sigma", *FLAGS, "--sample-rate", "0.01", "--steps", "500", "--target-eps", "2", "--write")
    ended = real(*words)
    assert (ended.code, ended.out) == (2, "")
    assert "expected a config file to change, got <command line>" in ended.err


@pytest.mark.parametrize("option", thinned([pytest.param(words) for words in (("--json",), ("-q",), ())], 1))
def test_a_value_that_cannot_be_written_is_told_all_the_same(real, file, option):
    path = file()
    ended = real("solve-steps", str(path), "--set", "mechanism.noise_multiplier=2", "--write", *option)
    assert ended.code == 2
    assert "--write: " in ended.err
    assert "one that options change" in ended.err
    assert ended.out
    assert path.read_text(encoding="utf-8") == FLAT
    if option == ("--json",):
        assert json.loads(ended.out)["written"] == []


def test_write_adds_what_was_not_stated(real, file):
    text = FLAT.replace("training: {steps: 500}\n", "")
    path = file(text)
    ended = real("solve-steps", str(path), "-q", "--write")
    steps = int(bare(ended))
    assert path.read_text(encoding="utf-8") == text.replace(
        "version: 1\n", f"version: 1\ntraining: {{steps: {steps}}}\n"
    )


def test_a_solution_keeps_what_it_was_not_asked_about(real, file):
    path = file()
    before = load(str(path)).plan
    assert real("solve-sigma", str(path), "--write", "-q").code == 0
    after = load(str(path)).plan
    (phase,) = after.phases
    noise = before.phases[0].mechanism
    assert replace(after, phases=(replace(phase, mechanism=noise),)) == before


def test_a_quotient_stays_as_it_is_written(real, file):
    text = FLAT.replace("rate: 0.01", "rate: 1/97").replace("delta: 1e-5", "delta: 1/100_000")
    path = file(text)
    told = facts(real("solve-sigma", str(path), "--write"))
    value = told["solution.value"]
    assert path.read_text(encoding="utf-8") == text.replace("noise_multiplier: 1.1", f"noise_multiplier: {value}")
    assert number(real("epsilon", str(path), "-q")) <= 1.5


def test_a_limit_stays_a_limit(real, file):
    """A tree of 8, 9 and 30 records of which at most 8 are drawn: some of the larger ones, all of the smallest."""
    data = "data: {levels: [{name: user}, {name: example}], tree: [8, 9, 30]}"
    text = FLAT.replace("data: {examples: 1_000}", data).replace("delta: 1e-5", "delta: 1e-5, unit: example")
    text = text.replace(
        "{scheme: poisson, rate: 0.01}", "{user: {scheme: all}, example: {scheme: fixed, size: {at_most: 3}}}"
    )
    path = file(text.replace("1.1", "100"))
    told = facts(real("solve-rate", str(path), "--write"))
    value = told["solution.value"]
    assert f"size: {{at_most: {value}}}" in path.read_text(encoding="utf-8")
    assert number(real("epsilon", str(path), "-q")) <= 1.5


def test_a_value_that_the_file_has_already(real, file):
    path = file()
    assert real("solve-steps", str(path), "--write").code == 0
    before = path.read_bytes()
    ended = real("solve-steps", str(path), "--write")
    assert (ended.code, ended.err) == (0, f"note: {path} has this value already: nothing was written\n")
    assert path.read_bytes() == before
