"""`mechanism.also` on the command line: adaptive clipping in every command that can be asked about it."""

import json
from pathlib import Path

import pytest

from dpcalc.config.load import load

SAMPLE = Path(__file__).parents[2] / "sample_configs" / "adaptive_clipping.yaml"
JOINT = (1.4**-2 + 10.0**-2) ** -0.5


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_bytes(SAMPLE.read_bytes())
    return path


def test_the_sums_together_are_one_gaussian(real, file):
    together = json.loads(real("epsilon", str(file), "--json").out)
    assert together["phases"][0]["also"] == [10.0]
    assert together["phases"][0]["noise_multiplier"] == 1.4
    assert together["phases"][0]["joint_noise_multiplier"] == pytest.approx(JOINT, rel=1e-12)
    assert "other sums are over the same sample" in " ".join(together["assumptions"])
    as_one = ("--set", f"mechanism.noise_multiplier={JOINT!r}", "--unset", "mechanism.also")
    alone = json.loads(real("epsilon", str(file), *as_one, "--json").out)
    assert together["guarantee"]["epsilon"] == pytest.approx(alone["guarantee"]["epsilon"], rel=1e-6)
    assert "also" not in alone["phases"][0]


def test_the_noise_of_the_gradients_is_solved_for(real, file):
    ended = real("solve-sigma", str(file), "--target-eps", "3", "--write")
    assert ended.code == 0
    assert "solution.held: the other sums on the same sample, noise multiplier 10.0\n" in ended.out
    again = json.loads(real("solve-sigma", str(file), "--target-eps", "3", "--json").out)
    assert again["solution"]["held"] == "the other sums on the same sample, noise multiplier 10.0"
    (phase,) = load(str(file)).plan.phases
    assert phase.mechanism.also == (10.0,)
    assert phase.mechanism.noise_multiplier > 1.4
    text = SAMPLE.read_text(encoding="utf-8")
    said = f"noise_multiplier: {phase.mechanism.noise_multiplier}"
    assert file.read_text(encoding="utf-8") == text.replace("noise_multiplier: 1.4", said)
    assert float(real("epsilon", str(file), "-q").out) <= 3


def test_a_sum_can_cost_too_much_by_itself(real, file):
    ended = real("solve-sigma", str(file), "--set", "mechanism.also.noise_multiplier=1", "--target-eps", "1")
    assert ended.code == 1
    assert "solution.value: none\n" in ended.out
    assert "solution.held: the other sums on the same sample, noise multiplier 1.0\n" in ended.out


def test_diff_tells_that_a_sum_is_gone(real, file, tmp_path):
    other = tmp_path / "other.yaml"
    text = SAMPLE.read_text(encoding="utf-8").replace("  also: {noise_multiplier: 10}\n", "")
    other.write_text(text, encoding="utf-8")
    ended = real("diff", str(file), str(other))
    assert "mechanism.also" in ended.out
    assert load(str(file)).config_hash != load(str(other)).config_hash


def test_of_a_list_a_sum_is_set_by_its_number(real, file):
    text = SAMPLE.read_text(encoding="utf-8").replace(
        "{noise_multiplier: 10}", "[{noise_multiplier: 10}, {noise_multiplier: 9}]"
    )
    file.write_text(text, encoding="utf-8")
    refused = real("epsilon", str(file), "--set", "mechanism.also.noise_multiplier=20")
    assert refused.code == 2
    assert "list items are numbered from [0]" in refused.err
    changed = real("show", str(file), "--set", "mechanism.also[1].noise_multiplier=20")
    assert "also: [{noise_multiplier: 10}, {noise_multiplier: 20}]" in changed.out
