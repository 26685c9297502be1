"""A Renyi curve from a CSV file in every command that reads configs, and its changes between two commits."""

import json
import os

import pytest

from tests.cli.repository import Repository

CONFIG = """\
version: 1
name: curve
data: {examples: 60_000}
sampling: {scheme: poisson, rate: 0.01}
mechanism: {type: rdp-curve, curve: {file: curves/step.csv}}
training: {steps: 1000}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 1}
"""
CSV = "order,epsilon\n2,0.0625\n4,0.125\n32,1\n64,2\n"


@pytest.fixture
def tree(real, tmp_path, monkeypatch):  # noqa: ARG001  real goes to a directory of its own first
    """A repository with a config and its curve in one commit, and the current directory in it."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    made = Repository.fresh(tmp_path / "work")
    made.commit(run__yaml=CONFIG)
    (made.folder / "curves").mkdir()
    (made.folder / "curves" / "step.csv").write_text(CSV, encoding="utf-8")
    made.git("add", ".")
    made.git("commit", "--quiet", "--message=curve")
    monkeypatch.chdir(made.folder)
    return made


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    "words",
    ["epsilon", "compare", "delta --epsilon 0.5", "risk", "statement", "show", "validate", "curve rdp", "curve steps"],
)
def test_every_command_reads_it(real, words):
    command, *rest = words.split()
    ended = real(command, *rest[:1], "run.yaml", *rest[1:]) if command == "curve" else real(command, "run.yaml", *rest)
    assert ended.code == 0
    assert all("`odd_moments: nonnegative` may be said" in line for line in ended.err.splitlines())


@pytest.mark.usefixtures("tree")
def test_what_can_be_solved_for(real):
    solved = json.loads(real("solve-steps", "run.yaml", "--json").out)["solution"]
    for steps, fits in ((solved["value"], True), (solved["fails_at"], False)):
        assert (float(real("epsilon", "run.yaml", "--steps", str(steps), "-q").out) <= 1) == fits
    refused = real("solve-sigma", "run.yaml")
    assert refused.code == 2
    assert "expected a mechanism that adds noise in training, got rdp-curve" in refused.err


def test_a_cheaper_curve_is_a_claim_of_the_file(real, tree):
    (tree.folder / "curves" / "step.csv").write_text(CSV.replace("0.125", "0.1"), encoding="utf-8")
    (result,) = json.loads(real("check", "run.yaml", "--base", "main", "--json").out)["results"]
    (finding,) = result["findings"]
    assert (finding["code"], finding["line"]) == ("DPC405", 5)
    assert "(its content changed)" in finding["message"]


def test_a_dearer_curve_is_a_rise(real, tree):
    (tree.folder / "curves" / "step.csv").write_text(CSV.replace("0.125", "0.5"), encoding="utf-8")
    (result,) = json.loads(real("check", "run.yaml", "--base", "main", "--json").out)["results"]
    assert "DPC401" in {finding["code"] for finding in result["findings"]}
    assert any("mechanism.curve" in finding["message"] for finding in result["findings"])


@pytest.mark.heavy
def test_a_lock_holds_the_content(real, tree):
    real("lock", "run.yaml")
    assert real("check", "run.yaml", "--locked").code == 0
    (tree.folder / "curves" / "step.csv").write_text(CSV.replace("64,2", "64,2.5"), encoding="utf-8")
    assert real("check", "run.yaml", "--locked").code == 1


@pytest.mark.usefixtures("tree")
def test_a_ledger_keeps_the_curve_itself(real):
    assert real("ledger", "add", "ledger.yaml", "run.yaml", "--name", "one").code == 0
    assert real("ledger", "add", "ledger.yaml", "run.yaml", "--name", "two", "--set", "training.steps=100").code == 0
    assert "curve: [[2, 0.0625], [4, 0.125], [32, 1], [64, 2]]" in real("show", "ledger.yaml").out


def test_errors_are_at_their_line_of_the_curve(real, tree):
    (tree.folder / "curves" / "step.csv").write_text(CSV.replace("0.125", "a lot"), encoding="utf-8")
    ended = real("epsilon", "run.yaml")
    assert ended.code == 2
    assert "curves/step.csv:3:3: error[DPC102]: `epsilon` must be a number, got `a lot`" in ended.err
