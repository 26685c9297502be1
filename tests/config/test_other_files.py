"""Files that are no config of ours: what is shown of them is a statement of theirs, or `???`."""

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError


def shown(text):
    with pytest.raises(ConfigError) as caught:
        load_text(text, path="train.yaml")
    (only,) = caught.value.diagnostics
    return "\n".join(map(str, only.example))


def test_the_epsilon_of_one_release_is_no_budget_of_the_run():
    text = "dp_args: {enable_dp: true, mechanism_type: gaussian, epsilon: 0.5, delta: 1e-5, sensitivity: 1.0}\n"
    said = shown(text + "train_args: {comm_round: 50}\n")
    assert "budget: {epsilon: 0.5}" not in said
    assert "privacy: {delta" not in said
    assert "of one release" in said


def test_the_eps_of_an_optimizer_is_no_budget():
    said = shown("lr: 1e-3\neps: 1e-8\nweight_decay: 0.1\nnoise_multiplier: 1.1\ntarget_delta: 1e-5\n")
    assert "1e-8" not in said
    assert "noise_multiplier: 1.1" in said


@pytest.mark.parametrize("stated", ["mechanism_type: laplace", "mechanism_name: Laplace", "noise_type: laplacian"])
def test_laplace_noise_becomes_no_gaussian_noise(stated):
    said = shown(f"{stated}\nnoise_multiplier: 2\nmax_grad_norm: 1.0\ntarget_delta: 1e-5\n")
    assert "noise_multiplier: ???" in said
    assert "state its `type`" in said
