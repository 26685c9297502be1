"""Configs of teachers who vote: every command, and who is told what the votes cost."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpcalc.mechanisms.pate import ConfidentGNMax, GNMax, LNMax, Votes
from dpcalc.planner.pate import data_dependent_guarantee, data_independent_guarantee
from tests.cli.solving import facts
from tests.thinning import thinned

COUNTS = np.array([[220, 20, 10], [120, 110, 20], [250, 0, 0], [180, 40, 30]] * 25)
GNMAX = "{type: pate-gnmax, noise_multiplier: 40, votes: votes.npy}"
KINDS = {
    "{type: pate-lnmax, gamma: 0.02, votes: votes.npy}": LNMax(gamma=0.02),
    GNMAX: GNMax(noise_multiplier=40.0),
    "{type: pate-confident-gnmax, noise_multiplier: 40, threshold: 180, threshold_noise_multiplier: 100, "
    "votes: votes.npy}": ConfidentGNMax(noise_multiplier=40.0, threshold=180.0, threshold_noise_multiplier=100.0),
}
TEXT = """version: 1
data: {levels: [{name: teacher, count: 250}]}
sampling: {teacher: {scheme: all}}
mechanism: %s
training: {steps: 60}
privacy: {unit: teacher, adjacency: replace-one, delta: 1e-5}
budget: {epsilon: 3}
"""
WARNING = "warning: what depends on the votes is itself private"


@pytest.fixture
def config(tmp_path):
    def write(mechanism=GNMAX, counts=COUNTS):
        np.save(tmp_path / "votes.npy", counts)
        path = tmp_path / "teachers.yaml"
        path.write_text(TEXT % mechanism, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("mechanism", KINDS)
def test_both_numbers(real, config, mechanism):
    """As `dpcalc pate` has them, of the first 60 queries."""
    ended = real("epsilon", config(mechanism))
    told = facts(ended)
    whatever = data_independent_guarantee(KINDS[mechanism], 60, delta=1e-5).epsilon
    of_votes = data_dependent_guarantee(
        KINDS[mechanism], Votes(counts=COUNTS[:60], teachers=250), delta=1e-5
    ).guarantee.epsilon
    assert whatever * (1 - 1e-9) <= float(told["epsilon"]) < whatever * 1.01
    number = float(told["with_these_votes"].split()[2])
    assert of_votes <= number < of_votes * 1.01 < whatever
    assert "itself private: do not publish" in told["with_these_votes"]
    assert WARNING in ended.err


def test_json(real, config):
    path = config()
    told = json.loads(real("epsilon", path, "--json").out)["with_these_votes"]
    assert told["private"] is True
    assert told["guarantee"]["bound"] == "data-dependent"
    assert "with_these_votes" not in json.loads(real("epsilon", path, "--json", "--unset", "mechanism.votes").out)


COMMANDS = [
    ("epsilon", "-q"),
    ("check",),
    ("statement",),
    ("compare",),
    ("risk",),
    ("delta", "--epsilon", "1"),
    ("validate",),
    ("show",),
    ("solve-sigma", "--target-eps", "1"),
    ("solve-steps", "--target-eps", "1"),
    ("solve-group", "--target-eps", "10"),
    ("epsilon", "--set", "privacy.group_size=2"),
    ("lock",),
]


@pytest.mark.parametrize("arguments", thinned([pytest.param(words) for words in COMMANDS], 5), ids=" ".join)
def test_nothing_else_reads_the_votes(real, config, tmp_path, arguments):
    path = config()
    seen = real(arguments[0], path, *arguments[1:])
    (tmp_path / "votes.npy").unlink()
    (tmp_path / "dpcalc.lock").unlink(missing_ok=True)
    again = real(arguments[0], path, *arguments[1:])
    assert seen.code == again.code == 0
    assert (seen.out, seen.err) == (again.out, again.err)
    assert "private: do not publish" not in seen.out
    assert WARNING not in seen.err


def test_the_hash_does_not_depend_on_them(real, config):
    path = config()
    hashes = {
        json.loads(real("epsilon", path, "--json", *more).out)["config_hash"]
        for more in ((), ("--unset", "mechanism.votes"))
    }
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (COUNTS[:59], "expected votes on 60 queries, one a step, got 59"),
        (COUNTS * 2, "row 1: expected 250 votes, the number of teachers, got 500"),
        (np.where(np.arange(100)[:, None] == 7, -COUNTS, COUNTS), "row 8, column 1: expected a whole number"),
        (COUNTS + 0.5, "row 1, column 1: expected a whole number"),
        (None, "cannot be read: No such file"),
    ],
    ids=["few", "many", "negative", "broken", "gone"],
)
def test_votes_that_are_none(real, config, tmp_path, counts, words):
    path = config(counts=COUNTS if counts is None else counts)
    if counts is None:
        (tmp_path / "votes.npy").unlink()
    ended = real("epsilon", path)
    assert (ended.code, ended.out) == (2, "")
    assert f"{path}:4:53: `mechanism.votes`: " in ended.err
    assert "votes.npy: " in ended.err
    assert words in ended.err


def test_solved_noise_is_written(real, config):
    """The key is gamma, and the noise its inverse."""
    path = config("{type: pate-lnmax, gamma: 0.02}  # loud")
    ended = real("solve-sigma", path, "--target-eps", "0.5", "--write")
    assert ended.code == 0
    (line,) = (line for line in Path(path).read_text(encoding="utf-8").splitlines() if "gamma" in line)
    assert line.endswith("}  # loud")
    gamma = float(line.split("gamma: ")[1].split("}")[0])
    assert gamma == pytest.approx(1 / float(facts(ended)["solution.value"]), rel=1e-5)
    assert data_independent_guarantee(LNMax(gamma=gamma), 60, delta=1e-5).epsilon == pytest.approx(0.5, rel=1e-3)


def test_a_change_of_votes_changes_nothing(real, config, tmp_path):
    old = config()
    other = tmp_path / "other.yaml"
    other.write_text(Path(old).read_text(encoding="utf-8").replace("votes.npy", "others.npy"), encoding="utf-8")
    ended = real("diff", old, str(other))
    assert (ended.code, ended.err) == (0, "")


def test_a_ledger_keeps_no_votes(real, config, tmp_path):
    ledger = str(tmp_path / "ledger.yaml")
    assert real("ledger", "add", ledger, config(), "--name", "labels").code == 0
    text = Path(ledger).read_text(encoding="utf-8")
    assert "pate-gnmax" in text
    assert "votes.npy" not in text
