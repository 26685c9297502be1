"""Teachers who vote: `dpcalc pate`, and configs that every command reads; who is told what the votes cost."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from dpcalc.mechanisms.black_box import ConfidentGNMax, GNMax, LNMax, Votes
from dpcalc.pate import data_dependent_guarantee, data_independent_guarantee
from tests.cli.solving import facts
from tests.oracles.exact_gaussian import exact_epsilon
from tests.thinning import thinned

COUNTS = np.array([[220, 20, 10], [120, 110, 20], [250, 0, 0], [180, 40, 30]] * 25)
NOISE = ("--sigma", "40", "--delta", "1e-5")
WARNING = "warning: what depends on the votes is itself private"


@pytest.fixture
def ballots(tmp_path):
    np.save(tmp_path / "votes.npy", COUNTS)
    return "votes.npy"


def test_what_is_told(real, ballots):
    ended = real("pate", ballots, *NOISE, "--target-eps", "1", "--teachers", "250")
    told = facts(ended)
    assert ended.code == 0
    whatever = data_independent_guarantee(GNMax(noise_multiplier=40.0), 100, delta=1e-5).epsilon
    of_votes = data_dependent_guarantee(
        GNMax(noise_multiplier=40.0), Votes(counts=COUNTS, teachers=250), delta=1e-5
    ).guarantee.epsilon
    assert whatever <= float(told["epsilon"]) < whatever * 1.01
    assert told["bound"] == "data-independent"
    assert told["aggregation"] == "GNMax, sigma 40.0"
    assert told["ensemble"] == "100 queries, 3 labels, 250 teachers"
    number = float(told["with_these_votes"].split()[2])
    assert of_votes <= number < of_votes * 1.01
    assert "private" in told["with_these_votes"]
    assert "Papernot et al. 2018, data-dependent" in ended.out
    bought = int(told["labels"].split()[3])
    assert exact_epsilon(2 * bought, 40, 1e-5) <= 1 < exact_epsilon(2 * bought + 2, 40, 1e-5)
    assert told["labels_with_these_votes"].startswith("100 of 100")
    assert "all 100 queries keep to it" in told["least_noise"]
    assert ended.err.startswith(WARNING)


def test_json(real, ballots):
    ended = real("pate", ballots, "--gamma", "0.05", "--delta", "1e-5", "--json", "--verbose", "--target-eps", "0.5")
    answer = json.loads(ended.out)
    assert ended.code == 0
    assert (answer["command"], answer["queries"], answer["teachers"], answer["labels"]) == ("pate", 100, 250, 3)
    assert answer["aggregation"] == {"gamma": 0.05}
    assert answer["guarantee"]["epsilon"] == data_independent_guarantee(LNMax(gamma=0.05), 100, delta=1e-5).epsilon
    assert answer["guarantee"]["kind"] == "upper"
    private = answer["with_these_votes"]
    assert private["private"] is True
    assert private["guarantee"]["bound"] == "data-dependent"
    assert [row["kind"] for row in answer["published"]] == ["as-published"] * 2
    assert answer["target"]["queries"] == 5  # (0.1, 0)-DP each
    assert answer["target"]["least_noise"]["gamma"] < 0.05
    assert len(answer["per_query"]) == 100
    assert answer["per_query"][1] == {
        "query": 2,
        "votes": 120,
        "lead": 10,
        "other_wins": pytest.approx(0.3790816 + 0.0117914, rel=1e-5),  # (2 + x) / (4 e^x) at x = .5 and 5
        "renyi_divergence": answer["per_query"][1]["renyi_divergence"],
    }
    assert answer["sanitised"] is None
    assert WARNING.removeprefix("warning: ") in answer["notes"][0]


def test_without_votes(real):
    ended = real("pate", "--queries", "1000", *NOISE, "-q")
    assert (ended.code, ended.err) == (0, "")
    assert float(ended.out) == pytest.approx(4.98331, abs=1e-5)
    ended = real("pate", "--queries", "1000", *NOISE, "--json")
    answer = json.loads(ended.out)
    assert (answer["with_these_votes"], answer["published"], answer["notes"]) == (None, [], [])


def test_the_number_of_quiet_may_be_published(real, ballots):
    ended = real("pate", ballots, *NOISE, "-q")
    assert (ended.out, ended.err) == (real("pate", "--queries", "100", *NOISE, "-q").out, "")


def test_the_queries_as_csv(real, ballots, tmp_path):
    ended = real("pate", ballots, *NOISE, "--csv", "queries.csv")
    assert (ended.code, ended.err.splitlines()[-1]) == (0, "note: wrote queries.csv")
    text = (tmp_path / "queries.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [int(row["query"]) for row in rows] == list(range(1, 101))
    assert [int(row["lead"]) for row in rows[:4]] == [200, 10, 250, 140]
    assert float(rows[1]["renyi_divergence"]) > float(rows[0]["renyi_divergence"]) > float(rows[2]["renyi_divergence"])
    again = real("pate", ballots, *NOISE, "--csv", "queries.csv")
    assert again.code == 2
    assert "--force" in again.err
    assert real("pate", ballots, *NOISE, "--csv", "queries.csv", "--force").code == 0
    assert (tmp_path / "queries.csv").read_text() == text


def test_confident(real, ballots):
    words = ("pate", ballots, *NOISE, "--threshold", "200", "--threshold-sigma", "30")
    ended = real(*words, "-v")
    told = facts(ended)
    assert ended.code == 0
    assert told["aggregation"] == "Confident-GNMax, threshold 200.0, threshold sigma 30.0, sigma 40.0"
    assert told["answered"].startswith("about 48.9 of 100")  # Phi of 20, -80, 50, -20 over 30, 25 times each
    answered = json.loads(real(*words, "--json").out)["answered"]
    assert answered == {"private": True, "expected": pytest.approx(48.9, abs=0.05)}
    assert ("published" in told, ended.out.count("costliest: query")) == (False, 10)


@pytest.mark.heavy
def test_a_public_epsilon(real, ballots, monkeypatch):
    ended = [real("pate", ballots, *NOISE, "--sanitise", "--json") for _ in range(2)]
    first, second = (json.loads(one.out)["sanitised"] for one in ended)
    assert first["epsilon"] != second["epsilon"]  # fresh noise that nobody can draw again
    assert {key: first[key] for key in ("delta", "order", "smoothness", "noise")} == {
        key: second[key] for key in ("delta", "order", "smoothness", "noise")
    }
    assert "is drawn once" in ended[0].err
    seeded = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda: seeded(1))
    same = [real("pate", ballots, *NOISE, "--sanitize").out for _ in range(2)]
    assert same[0] == same[1]
    assert "sanitised: epsilon <= " in same[0]
    assert "no smaller than the data-independent one" in same[0]  # few queries: it does not pay
    checked = real("pate", ballots, *NOISE, "--threshold", "200", "--threshold-sigma", "150", "--sanitise")
    assert (checked.code, "sanitised: epsilon <= " in checked.out) == (0, True)


def test_a_file_in_the_way_is_refused_before_an_epsilon_is_drawn(real, ballots, tmp_path, monkeypatch):
    def drawn():
        raise AssertionError("an epsilon that nobody sees was paid for")

    monkeypatch.setattr(np.random, "default_rng", drawn)
    (tmp_path / "queries.csv").write_text("")
    ended = real("pate", ballots, *NOISE, "--sanitise", "--csv", "queries.csv")
    assert (ended.code, "--csv: queries.csv already exists" in ended.err) == (2, True)


def test_in_a_terminal(real, ballots, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    ended = real("pate", ballots, *NOISE, "--target-eps", "1")
    assert "epsilon <= 1.36   delta = 1e-05   whatever the votes are" in ended.out
    assert all(len(line) <= 80 for line in ended.out.splitlines())


# Configs of teachers


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


def test_json_of_a_config_and_its_hash(real, config):
    path = config()
    told = json.loads(real("epsilon", path, "--json").out)
    without = json.loads(real("epsilon", path, "--json", "--unset", "mechanism.votes").out)
    assert told["with_these_votes"]["private"] is True
    assert told["with_these_votes"]["guarantee"]["bound"] == "data-dependent"
    assert "with_these_votes" not in without
    assert without["config_hash"] == told["config_hash"]


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


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (COUNTS[:59], "expected votes on 60 queries, one a step, got 59"),
        (None, "cannot be read: No such file"),
    ],
    ids=["few", "gone"],
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
    assert real("ledger", "add", "ledger.yaml", old, "--name", "labels").code == 0
    text = (tmp_path / "ledger.yaml").read_text(encoding="utf-8")
    assert ("pate-gnmax" in text, "votes.npy" in text) == (True, False)
