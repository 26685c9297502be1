"""Runs beside the plain Gaussian one: other mechanisms, other sums on the same sample, held draws, Renyi curves."""

import json
import os
from pathlib import Path

import pytest

from dpcalc.config.load import load
from tests.cli.repository import Repository
from tests.cli.solving import FLAT
from tests.config.texts import nested

SAMPLES = Path(__file__).parents[2] / "sample_configs"
ADAPTIVE = SAMPLES / "adaptive_clipping.yaml"
JOINT = (1.4**-2 + 10.0**-2) ** -0.5


def test_json_names_the_mechanism_and_says_each_assumption_once(real):
    document = json.loads(real("epsilon", str(SAMPLES / "survey_and_training.yaml"), "--json").out)
    phases, assumed = document["phases"], " ".join(document["assumptions"])
    assert [assumed.count(words) for words in ("sum of the clipped vectors", "1-norm", "randomized")] == [1, 1, 1]
    assert [phase["noise_multiplier"] for phase in phases] == [4.0, 3.0, None]
    assert phases[2]["mechanism"] == "randomized-response, truth probability 0.75, categories 2"
    assert [phase["shift"] for phase in phases][1:] == [None, None]


@pytest.mark.heavy
@pytest.mark.parametrize("mechanism", ["{type: zcdp, rho: 0.1}", "{type: exponential, epsilon: 0.5}"])
def test_divergences_alone_answer_too(real, file, mechanism):
    path = str(file(FLAT.replace("{noise_multiplier: 1.1}", mechanism)))
    for command in ("delta --epsilon 0.3", "check --max-epsilon 5", "statement"):
        ended = real(*command.split(), path)
        assert (ended.code, ended.err) == (0, ""), command
    refused = real("solve-sigma", path, "--target-epsilon", "1")
    assert (refused.code, "solve for steps or rate" in refused.err) == (2, True)


def test_a_draw_that_counts_as_revealed_is_named(real, file):
    sampling = "{task: {scheme: poisson, rate: 0.1, redraw_every: 10}, example: {scheme: fixed, size: 5}}"
    loud = {"sampling": sampling, "mechanism": "{noise_multiplier: 8, clip: task}", "training": "{steps: 1000}"}
    ended = real("epsilon", str(file(nested(loud))))
    assert (ended.code, "given a draw of rate 1/10 that lasts 10 steps and is assumed public" in ended.out) == (0, True)


# Other sums: `mechanism.also`


@pytest.fixture
def adaptive(file):
    return file(ADAPTIVE.read_text(encoding="utf-8"))


def test_the_sums_together_are_one_gaussian(real, adaptive):
    together = json.loads(real("epsilon", str(adaptive), "--json").out)
    (phase,) = together["phases"]
    assert (phase["also"], phase["noise_multiplier"]) == ([10.0], 1.4)
    assert phase["joint_noise_multiplier"] == pytest.approx(JOINT, rel=1e-12)
    assert "other sums are over the same sample" in " ".join(together["assumptions"])
    as_one = ("--set", f"mechanism.noise_multiplier={JOINT!r}", "--unset", "mechanism.also")
    alone = json.loads(real("epsilon", str(adaptive), *as_one, "--json").out)
    assert together["guarantee"]["epsilon"] == pytest.approx(alone["guarantee"]["epsilon"], rel=1e-6)
    assert "also" not in alone["phases"][0]


def test_the_noise_of_the_gradients_is_solved_for(real, adaptive):
    before = adaptive.read_text(encoding="utf-8")
    held = "the other sums on the same sample, noise multiplier"
    ended = real("solve-sigma", str(adaptive), "--target-eps", "3", "--write")
    assert (ended.code, f"solution.held: {held} 10.0\n" in ended.out) == (0, True)
    (phase,) = load(str(adaptive)).plan.phases
    assert (phase.mechanism.also, phase.mechanism.noise_multiplier > 1.4) == ((10.0,), True)
    said = f"noise_multiplier: {phase.mechanism.noise_multiplier}"
    assert adaptive.read_text(encoding="utf-8") == before.replace("noise_multiplier: 1.4", said)
    assert float(real("epsilon", str(adaptive), "-q").out) <= 3
    alone = real("solve-sigma", str(adaptive), "--set", "mechanism.also.noise_multiplier=1", "--target-eps", "1")
    assert alone.code == 1  # that sum costs too much by itself
    assert "solution.value: none\n" in alone.out
    assert f"solution.held: {held} 1.0\n" in alone.out


def test_a_sum_that_is_gone_and_a_sum_of_a_list(real, adaptive, tmp_path):
    text = adaptive.read_text(encoding="utf-8")
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("  also: {noise_multiplier: 10}\n", ""), encoding="utf-8")
    assert "mechanism.also" in real("diff", str(adaptive), str(other)).out
    adaptive.write_text(text.replace("{noise_multiplier: 10}", "[{noise_multiplier: 10}, {noise_multiplier: 9}]"))
    refused = real("epsilon", str(adaptive), "--set", "mechanism.also.noise_multiplier=20")
    assert (refused.code, "list items are numbered from [0]" in refused.err) == (2, True)
    changed = real("show", str(adaptive), "--set", "mechanism.also[1].noise_multiplier=20")
    assert "also: [{noise_multiplier: 10}, {noise_multiplier: 20}]" in changed.out


# A Renyi curve from a CSV file, in every command that reads configs, and its changes between two commits

CURVE = """\
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
def step(real, tmp_path, monkeypatch):  # noqa: ARG001  real goes to a directory of its own first
    """The curve of a config in the current directory, a repository with both in its last commit."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    made = Repository.fresh(tmp_path / "work")
    made.commit(run__yaml=CURVE)
    path = Path(made.write("curves/step.csv", CSV))
    made.commit()
    monkeypatch.chdir(made.folder)
    return path


COMMANDS = [
    "epsilon",
    "compare",
    "delta --epsilon 0.5",
    "risk",
    "statement",
    "show",
    "validate",
    "curve rdp",
    "curve steps",
]


@pytest.mark.usefixtures("step")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_reads_a_curve(real, command):
    ended = real(*command.split(), "run.yaml")
    assert ended.code == 0
    assert all("`odd_moments: nonnegative` may be said" in line for line in ended.err.splitlines())


@pytest.mark.usefixtures("step")
def test_what_can_be_solved_for_with_a_curve(real):
    solved = json.loads(real("solve-steps", "run.yaml", "--json").out)["solution"]
    for steps, fits in ((solved["value"], True), (solved["fails_at"], False)):
        assert (float(real("epsilon", "run.yaml", "--steps", str(steps), "-q").out) <= 1) == fits
    refused = real("solve-sigma", "run.yaml")
    assert refused.code == 2
    assert "expected a mechanism that adds noise in training, got rdp-curve" in refused.err


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("point", "code", "words"),
    [("0.1", "DPC405", "(its content changed)"), ("0.5", "DPC401", "mechanism.curve")],
    ids=["a cheaper one is a claim of the file", "a dearer one is a rise"],
)
def test_a_changed_curve(real, step, point, code, words):
    step.write_text(CSV.replace("0.125", point), encoding="utf-8")
    (result,) = json.loads(real("check", "run.yaml", "--base", "main", "--json").out)["results"]
    said = {finding["code"]: finding["message"] for finding in result["findings"]}
    assert words in said[code]
    assert all(finding["line"] == 5 for finding in result["findings"] if finding["code"] == code)


@pytest.mark.heavy
def test_a_lock_holds_the_content_of_a_curve(real, step):
    real("lock", "run.yaml")
    assert real("check", "run.yaml", "--locked").code == 0
    step.write_text(CSV.replace("64,2", "64,2.5"), encoding="utf-8")
    assert real("check", "run.yaml", "--locked").code == 1


@pytest.mark.usefixtures("step")
def test_a_ledger_keeps_the_curve_itself(real):
    assert real("ledger", "add", "ledger.yaml", "run.yaml", "--name", "one").code == 0
    assert real("ledger", "add", "ledger.yaml", "run.yaml", "--name", "two", "--set", "training.steps=100").code == 0
    assert "curve: [[2, 0.0625], [4, 0.125], [32, 1], [64, 2]]" in real("show", "ledger.yaml").out


def test_errors_are_at_their_line_of_the_curve(real, step):
    step.write_text(CSV.replace("0.125", "a lot"), encoding="utf-8")
    ended = real("epsilon", "run.yaml")
    assert ended.code == 2
    assert "curves/step.csv:3:3: error[DPC102]: `epsilon` must be a number, got `a lot`" in ended.err
