"""`dpcalc ledger`: runs recorded, told and checked from the command line."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from dpcalc.gate.ledger import account
from tests.cli.repository import Repository
from tests.cli.running import environment
from tests.cli.solving import facts

FLAT = """\
version: 1
name: clinic
data: {examples: 1_000}
sampling: {scheme: all}
mechanism: {noise_multiplier: 11}
training: {steps: 5}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 1.5}
"""
PHASES = FLAT.replace("clinic", "phases").replace(
    "training: {steps: 5}", "phases: [{name: a, training: {steps: 50}}, {name: b, training: {steps: 9}}]"
)
FILE = """\
version: 1
data: {examples: 1_000}
sampling: {scheme: any-order}
mechanism: {type: matrix-factorization, strategy: {file: c.npy}, noise_multiplier: 11, max_participations: 1}
training: {steps: 5}
privacy: {adjacency: zero-out, delta: 1e-5}
"""
LEDGER = "all.yaml"


@pytest.fixture
def configs(tmp_path):
    for name, text in {"flat": FLAT, "phases": PHASES, "noisy": FLAT.replace("11", "90")}.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("configs")
def test_add_show_check(real):
    added = real("ledger", "add", LEDGER, "flat.yaml")
    told = facts(added)
    assert (added.code, told["added"], told["runs"]) == (0, "yes", "clinic: 5 steps, epsilon 0.739 alone")
    assert real("ledger", "check", LEDGER).code == 0
    assert real("ledger", "add", LEDGER, "noisy.yaml", "--name", "more noise").code == 0
    document = json.loads(real("ledger", "show", LEDGER, "--json").out)
    assert (document["schema"], document["command"]) == ("dpcalc.result/1", "ledger show")
    assert [run["name"] for run in document["runs"]] == ["clinic", "more noise"]
    alone = [run["guarantee"]["epsilon"] for run in document["runs"]]
    assert max(alone) < document["guarantee"]["epsilon"] < sum(alone) == document["sum_of_epsilons"]
    assert document["budget"]["ok"] is True
    text = real("ledger", "show", LEDGER).out
    assert (text.count("runs: "), "sum_of_epsilons: " in text) == (2, True)


@pytest.mark.usefixtures("configs")
def test_what_does_not_fit_is_not_added(real, tmp_path):
    real("ledger", "add", LEDGER, "flat.yaml")
    before = (tmp_path / LEDGER).read_bytes()
    tried = real("ledger", "add", LEDGER, "phases.yaml")
    assert (tried.code, facts(tried)["added"], (tmp_path / LEDGER).read_bytes()) == (1, "no", before)
    assert "--over-budget adds a run that has been done" in tried.err
    asked = real("ledger", "add", LEDGER, "noisy.yaml", "--name", "b", "--dry-run")
    assert (asked.code, (tmp_path / LEDGER).read_bytes()) == (0, before)
    assert real("ledger", "add", LEDGER, "phases.yaml", "--dry-run").code == 1
    done = real("ledger", "add", LEDGER, "phases.yaml", "--over-budget", "--json")
    assert (done.code, json.loads(done.out)["added"], json.loads(done.out)["budget"]["ok"]) == (0, True, False)
    checked = real("ledger", "check", LEDGER)
    assert (checked.code, "exceeds the budget" in checked.out, "to fit" in checked.out) == (1, True, False)


@pytest.mark.usefixtures("configs")
def test_a_new_ledger_has_the_terms_that_are_said(real):
    added = real("ledger", "add", LEDGER, "flat.yaml", "--delta", "1e-7", "--budget", "4", "--set", "training.steps=3")
    assert [facts(added)[key] for key in ("delta", "budget.epsilon", "steps")] == ["1e-07", "4.0", "3"]
    assert real("ledger", "check", LEDGER, "--max-epsilon", "0.1").code == 1
    assert "note: the ledger states" not in added.err
    added = real("ledger", "add", LEDGER, "noisy.yaml", "--name", "b", "--set", "privacy.adjacency=zero-out")
    assert "note: the ledger states unit example, add-remove, groups of 1; " in added.err
    assert facts(added)["adjacency"] == "add-remove"


@pytest.mark.usefixtures("configs")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", LEDGER, "none.yaml"], "no such file"),
        (["add", "flat.yaml", "flat.yaml"], "ends with its `phases:`"),
        (["add", LEDGER, "flat.yaml", "--budget", "x"], "'--budget': expected a finite number"),
        (["add", "none/all.yaml", "flat.yaml"], "cannot be written"),
        (["add", LEDGER, "-"], "standard input"),
        (["show", "none.yaml"], "no such file"),
        (["check", "none.yaml"], "no such file"),
        (["check", "flat.yaml", "--base", "main"], "in none"),
        ([], ""),
    ],
)
def test_wrong_input_is_exit_code_2(real, monkeypatch, arguments, words):
    unnamed = FLAT.replace("name: clinic\n", "").encode()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=SimpleNamespace(read=lambda _: unnamed)))
    ended = real("ledger", *arguments)
    assert ended.code == 2
    assert words in ended.err + ended.out


@pytest.mark.heavy
def test_a_ledger_begins_with_what_its_base_says(real, tmp_path):
    git = Repository(tmp_path).git
    (tmp_path / "flat.yaml").write_text(FLAT.replace("1.5", "9"), encoding="utf-8")
    git("init", "--quiet")
    real("ledger", "add", LEDGER, "flat.yaml")
    ledger = tmp_path / LEDGER
    first = ledger.read_bytes()
    git("add", ".")
    assert real("ledger", "check", LEDGER, "--base", "HEAD").code == 2  # there is no commit yet
    git("commit", "--quiet", "--message", "first")
    real("ledger", "add", LEDGER, "flat.yaml", "--name", "second")
    second = ledger.read_bytes()
    assert real("ledger", "check", LEDGER, "--base", "HEAD").code == 0
    git("commit", "--quiet", "--all", "--message", "second")
    base = git("rev-parse", "HEAD")  # what HEAD is is asked once in a process
    for changed in (first, second.replace(b"epsilon: 9", b"epsilon: 10"), second.replace(b"second", b"2nd")):
        ledger.write_bytes(changed)
        ended = real("ledger", "check", LEDGER, "--base", base)
        assert (ended.code, "error[DPC407]" in ended.out) == (1, True)
    ledger.write_bytes(second.replace(b"\n", b"\r\n"))
    assert real("ledger", "check", LEDGER, "--base", base).code == 0
    ledger.unlink()
    assert real("ledger", "check", LEDGER, "--base", base).code == 2


PARTITION = "partition: {rule: sha256 of the example id, parts: [{name: north}, {name: south}]}\n"
NORTH = """\
  - name: new
    part: north
    sampling:
      example: {scheme: all}
    mechanism: {type: gaussian, noise_multiplier: 11, max_grad_norm: 1, clip: example}
    training: {steps: 5}
"""
UNPARTED = NORTH.replace("    part: north\n", "")


@pytest.mark.heavy
@pytest.mark.parametrize("has_parts", [True, False])
def test_no_change_of_parts_lowers_the_total(real, tmp_path, has_parts):
    """A pull request that puts runs of the base into a part, or changes what parts are, does not extend the ledger."""
    repository = Repository(tmp_path)
    repository.git("init", "--quiet")
    config = FLAT.replace("1.5", "9") + (PARTITION if has_parts else "")
    (tmp_path / "flat.yaml").write_text(config, encoding="utf-8")
    (tmp_path / "half.yaml").write_text(FLAT.replace("1_000", "500").replace("clinic", "half"), encoding="utf-8")
    real("ledger", "add", LEDGER, "flat.yaml")
    if has_parts:
        assert real("ledger", "add", LEDGER, "half.yaml", "--part", "north").code == 0
    ledger = tmp_path / LEDGER
    text = ledger.read_text(encoding="utf-8")
    base = repository.commit()
    total = account(str(ledger)).guarantee.epsilon
    attacks = {
        "relabelled": text.replace("  - name: clinic\n", "  - name: clinic\n    part: south\n"),
        "a partition below": text + PARTITION.replace("north}", "north}, {name: more}"),
        "a partition above": text.replace("phases:", PARTITION.replace("south}", "south}, {name: more}") + "phases:"),
        "other rule": text.replace("sha256", "md5") + NORTH,
        "another part": text.replace("{name: south}]", "{name: south}, {name: new}]") + NORTH.replace("north", "new"),
        "inherited": text + "sampling: {example: {redraw_every: 5}}\n",
        "moved": text.replace("part: north", "part: south") + NORTH,
        "no partition": text.replace(PARTITION, "").replace("    part: north\n", "") + UNPARTED,
        "unit": text + "privacy: {unit: example, delta: 1e-5}\n",
    }
    for name, changed in attacks.items():
        if changed in {text, *(text + run for run in (NORTH, NORTH.replace("north", "new"), UNPARTED))}:
            continue  # nothing to attack in this ledger
        ledger.write_text(changed, encoding="utf-8")
        ended = real("ledger", "check", LEDGER, "--base", base)
        assert ended.code in {1, 2}, name
        assert (ended.code == 2) or "DPC407" in ended.out, name
    ledger.write_text(text + NORTH, encoding="utf-8")
    ended = real("ledger", "check", LEDGER, "--base", base)
    assert ended.code == (0 if has_parts else 2)
    if has_parts:  # an honest run is added, and adds up with what its part and all data have cost
        assert account(str(ledger)).guarantee.epsilon > total


@pytest.mark.heavy
@pytest.mark.usefixtures("configs")
def test_processes_that_add_at_once_lose_nothing(tmp_path):
    command = [sys.executable, "-m", "dpcalc", "ledger", "add", LEDGER, "noisy.yaml", "--over-budget", "--name"]

    def added(name):
        return subprocess.run(
            [*command, name], cwd=tmp_path, env=environment(), capture_output=True, check=False
        ).returncode

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(added, "abcd")) == [0, 0, 0, 0]
    assert sorted(run.name for run in account(str(tmp_path / LEDGER)).runs) == list("abcd")
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_entry_pins_the_entries_of_its_strategy(tmp_path, real):
    """A matrix that is exchanged later would change what a recorded run cost."""
    (tmp_path / "file.yaml").write_text(FILE, encoding="utf-8")
    np.save(tmp_path / "c.npy", np.tril(np.ones((5, 5))))
    assert real("ledger", "add", LEDGER, "file.yaml", "--name", "first", "--budget", "5").code == 0
    assert ", sha256: " in (tmp_path / LEDGER).read_text(encoding="utf-8")
    assert real("ledger", "check", LEDGER).code == 0
    np.save(tmp_path / "c.npy", np.eye(5))
    changed = real("ledger", "check", LEDGER)
    assert changed.code == 2
    assert "strategy.sha256` is not that of the matrix in `c.npy`" in changed.out + changed.err
    assert real("epsilon", "file.yaml").code == 0
