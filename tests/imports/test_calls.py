"""Calls in scripts and notebooks: the run that they make, and the numbers that have names, without running anything."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from dpcalc.config.load import load_text
from dpcalc.errors import InputError
from dpcalc.imports.read import imported, read_run
from dpcalc.imports.run import Terms, number_text
from dpcalc.planner.evaluate import guarantee

ROWS = yaml.safe_load(Path(__file__).with_name("texts.yaml").read_text(encoding="utf-8"))

CONSTANTS = """
N, RATE = 60_000, None
BATCH = 256
SIGMA: float = 1.1
STEPS = BATCH * 3
{more}
engine.make_private(sample_rate=BATCH / 60_000, noise_multiplier=SIGMA, steps=STEPS, delta=1e-5)
"""


def test_numbers_that_the_file_states_once_are_read(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(CONSTANTS.format(more=""), encoding="utf-8")
    (part,) = read_run(str(path), Terms()).parts
    assert part.steps == 768
    assert "noise_multiplier: 1.1" in part.mechanism
    assert "16/3750" in part.sampling or "8/1875" in part.sampling


@pytest.mark.parametrize("more", ROWS["another number"])
def test_a_name_that_may_be_another_number_is_asked_for(tmp_path, more):
    path = tmp_path / "train.py"
    path.write_text(CONSTANTS.format(more=more), encoding="utf-8")
    with pytest.raises(InputError, match="noise_multiplier"):
        read_run(str(path), Terms())


JAX = "train_size=50_000, clipping_norm=1.0, batch_size=250, train_steps=1000, delta=1e-5, epsilon=2"
DP_PARAMS = "noise_multipliers=1.2, batch_size=250, num_samples=50_000, delta=1e-5"
FLAT = "{{version: 1, data: {{examples: 50_000}}, {}, privacy: {{adjacency: {}, delta: 1e-5{}}}}}"


def flat(sampling, mechanism, training, adjacency="add-remove", more=""):
    sections = f"sampling: {{{sampling}}}, mechanism: {{{mechanism}}}, training: {{{training}}}"
    return FLAT.format(sections, adjacency, more)


@pytest.mark.parametrize(("call", "options", "config"), ROWS["runs"])
def test_calls_of_jax_privacy_and_of_keras_are_the_run_that_they_make(tmp_path, call, options, config):
    numbers = {"examples", "batch_size", "epochs", "steps"}
    given = {key: Fraction(value) if key in numbers else value for key, value in options.items()}
    path = tmp_path / "train.py"
    path.write_text(f"x = {call}", encoding="utf-8")
    result = imported(read_run(str(path), Terms(**given)), Terms(**given), str(path))
    plan = load_text(flat(*config), path="by hand").plan
    ours, by_hand = guarantee(result.loaded.plan), guarantee(plan)
    assert ours.epsilon == pytest.approx(by_hand.epsilon, rel=1e-9)


@pytest.mark.parametrize(("call", "message"), ROWS["other runs"])
def test_calls_that_make_another_run_are_refused(tmp_path, call, message):
    path = tmp_path / "train.py"
    path.write_text(f"x = {call}", encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_run(str(path), Terms())


@pytest.mark.parametrize(("code", "by", "is_asked"), ROWS["told"])
def test_what_a_library_is_told_that_looks_for_noise(tmp_path, code, by, is_asked):
    path = tmp_path / "train.py"
    path.write_text(code, encoding="utf-8")
    run = read_run(str(path), Terms())
    assert run.found_by == f"by: {by}, assuming: {{rate: 1/100, steps: 300}}".replace(
        "1/100", number_text(Fraction(1, 100))
    )
    assert any(each.startswith(("accountant:", "noise_lbd:")) for each in run.unknown) is is_asked


INFINITE = ["float('inf')", "math.inf", "np.inf", "inf", "float('Infinity')", "np.infty", "None", "1e999", "-1.0"]


@pytest.mark.parametrize("norm", INFINITE)
@pytest.mark.parametrize(
    "call",
    [
        "e.make_private(sample_rate=1/100, noise_multiplier=1.1, steps=100, delta=1e-5, max_grad_norm={})",
        f"DPKerasConfig({JAX}, noise_multiplier=1.2, poisson_sampling_in_fit=True, clipping_norm={{}})".replace(
            "clipping_norm=1.0, ", ""
        ),
    ],
)
def test_a_run_that_clips_nothing_is_no_run_that_clips(tmp_path, call, norm):
    path = tmp_path / "train.py"
    path.write_text(f"x = {call.format(norm)}", encoding="utf-8")
    with pytest.raises(InputError, match="without clipping no noise hides a unit"):
        read_run(str(path), Terms())


def test_a_guarantee_that_the_library_calls_infinite_is_none(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(f"DpParams({DP_PARAMS}, is_finite_guarantee=False)", encoding="utf-8")
    with pytest.raises(InputError, match="without clipping no noise hides a unit"):
        read_run(str(path), Terms(steps=Fraction(1000)))


def notebook(tmp_path, *cells):
    path = tmp_path / "train.ipynb"
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    content = {"cells": [{"cell_type": "markdown", "source": "# x"}, *code], "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


CELL = "engine.make_private(sample_rate=1/100, noise_multiplier=SIGMA, steps=100, delta=1e-5)"


def test_the_code_cells_of_a_notebook_are_read(tmp_path):
    path = notebook(tmp_path, "!pip install opacus\n%matplotlib inline\nSIGMA = 1.1", "%%bash\nSIGMA=2", CELL)
    run = read_run(path, Terms())
    assert run.parts[0].mechanism == "{noise_multiplier: 1.1}"
    assert run.origin == "a call of make_private on line 4 of the code cells"


@pytest.mark.parametrize("magic", ["%run settings.py", "SIGMA = !cat sigma", "%load settings", "  %sigma 3"])
def test_a_magic_may_bind_a_name(tmp_path, magic):
    path = notebook(tmp_path, "SIGMA = 1.1", f"if True:\n  pass\n{magic}", CELL)
    with pytest.raises(InputError, match="noise_multiplier"):
        read_run(path, Terms())


def test_several_states_are_phases_of_one_run(dpcalc, tmp_path):
    paths = [tmp_path / "first.json", tmp_path / "second.json"]
    for path, history in zip(paths, [[[1.1, 0.01, 100], [2, 0.01, 50]], [[1.1, 0.01, 30]]], strict=True):
        path.write_text(json.dumps({"history": history, "mechanism": "rdp"}), encoding="utf-8")
    ended = dpcalc("import", *map(str, paths), "--delta", "1e-5")
    assert "training: {steps: 130}" in ended.out
    assert "the steps of each are added" in ended.out
    call = tmp_path / "train.py"
    call.write_text(f"calibrate_noise_multiplier({DP_PARAMS}, num_updates=5, target_epsilon=2)", encoding="utf-8")
    assert "import it alone" in dpcalc("import", str(paths[0]), str(call), "--delta", "1e-5").err
    assert "each file once" in dpcalc("import", str(paths[0]), str(paths[0])).err


@pytest.mark.parametrize(("loader", "is_said"), [("shuffle", True), ("fixed", False)])
def test_a_shuffled_order_counts_as_known_and_what_a_secret_one_takes_is_said(tmp_path, loader, is_said):
    path = tmp_path / "run.py"
    path.write_text(f"DPKerasConfig({JAX}, noise_multiplier=1.2)", encoding="utf-8")
    comments, _, config = imported(read_run(str(path), Terms(loader=loader)), Terms(), "run.py").text.partition(
        "version"
    )
    assert ("`order: secret` beside it" in comments and "from a seed that nobody else knows" in comments) == is_said
    assert "secret" not in config
