"""Mechanisms beside the Gaussian one on the command line."""

import json
from pathlib import Path

import pytest

from tests.thinning import thinned

SAMPLE = str(Path(__file__).parents[2] / "sample_configs" / "survey_and_training.yaml")
TEXT = """version: 1
data: {examples: 10_000}
sampling: {scheme: poisson, rate: 0.01}
mechanism: %s
training: {steps: 50}
privacy: {adjacency: add-remove, delta: 1e-5}
"""


@pytest.fixture
def config(tmp_path):
    def write(mechanism):
        path = tmp_path / "run.yaml"
        path.write_text(TEXT % mechanism, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("command", thinned(["epsilon", "statement", "compare", "risk", "check", "show"], 3))
def test_a_run_of_three_mechanisms(real, command):
    ended = real(command, SAMPLE)
    assert (ended.code, ended.err) == (0, "")


def test_json_names_the_mechanism_and_says_each_assumption_once(real):
    document = json.loads(real("epsilon", SAMPLE, "--json").out)
    phases, assumed = document["phases"], " ".join(document["assumptions"])
    assert [assumed.count(words) for words in ("sum of the clipped vectors", "1-norm", "randomized")] == [1, 1, 1]
    assert [phase["noise_multiplier"] for phase in phases] == [4.0, 3.0, None]
    assert phases[2]["mechanism"] == "randomized-response, truth probability 0.75, categories 2"
    assert [phase["shift"] for phase in phases][1:] == [None, None]


@pytest.mark.heavy
@pytest.mark.parametrize("mechanism", ["{type: zcdp, rho: 0.1}", "{type: exponential, epsilon: 0.5}"])
def test_divergences_alone_answer_too(real, config, mechanism):
    path = config(mechanism)
    for arguments in (["delta", path, "--epsilon", "0.3"], ["check", path, "--max-epsilon", "1"], ["statement", path]):
        ended = real(*arguments)
        assert (ended.code, ended.err) == (0, ""), arguments
    refused = real("solve-sigma", path, "--target-epsilon", "1")
    assert refused.code == 2
    assert "solve for steps or rate" in refused.err


def test_what_is_refused_has_its_place(real, config):
    ended = real("epsilon", config("{type: randomized-response, truth_probability: 0.75}"))
    assert ended.code == 2
    assert "run.yaml:4:1: error[DPC104]" in ended.err
    assert "expected adjacency replace-one" in ended.err
