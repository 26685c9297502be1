"""Texts that `import` reads: events, states, calls in scripts and notebooks. The rows stand in texts.yaml."""

import json
import re
import warnings
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from dpcalc.config.load import load_text
from dpcalc.errors import InputError
from dpcalc.imports.read import imported, read_run
from dpcalc.imports.run import Terms
from dpcalc.planner.evaluate import guarantee

ROWS = yaml.safe_load(Path(__file__).with_name("texts.yaml").read_text(encoding="utf-8"))
JAX = "train_size=50_000, clipping_norm=1.0, batch_size=250, train_steps=1000, delta=1e-5, epsilon=2"


def terms_of(given):
    words = {"delta", "loader", "adjacency"}
    return Terms(**{name: value if name in words else Fraction(value) for name, value in given.items()})


@pytest.fixture
def run(tmp_path):
    """Read a text with what options say; imported as a config where `is_imported`."""

    def read(text, given=(), *, is_imported=False, name="train.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        terms = terms_of(dict(given))
        found = read_run(str(path), terms)
        return imported(found, terms, str(path)) if is_imported else found

    return read


def refused(run, text, given=()):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(InputError) as caught:
            run(text, given)
    assert not heard  # of what others wrote
    return str(caught.value)


PLAIN = [(text, words, {"delta": "1e-5"}) for text, words in ROWS["not expressed"]]
PLAIN += [(text, words, {}) for text, words in ROWS["lacking"]]


@pytest.mark.parametrize(("text", "words", "given"), [*PLAIN, *ROWS["refused"]])
def test_what_is_refused_is_named(text, words, given, run):
    assert words in refused(run, text, given)


@pytest.mark.parametrize(
    ("text", "pattern"), [*ROWS["not read"], *((f"x = {call}", said) for call, said in ROWS["other runs"])]
)
def test_what_is_not_read_or_missing_is_told_at_once(text, pattern, run):
    message = refused(run, text)
    assert re.search(pattern, message), message


@pytest.mark.parametrize(("event", "sampling", "mechanism"), ROWS["events"])
def test_events_as_parts(event, sampling, mechanism, run):
    (part,) = run(event, {"delta": "1e-5"}).parts
    assert part.sampling.endswith(sampling)
    assert part.mechanism.endswith(mechanism)


@pytest.mark.parametrize(
    ("number", "value"), [("int(1.9)", 1), ("np.int64(2)", 2), ("int(2.5 * 3)", 7), ("float(1.9)", 1.9)]
)
def test_int_cuts_the_fraction_off(number, value, run):
    """Noise of int(1.9) was once read as 1.9."""
    (part,) = run(f"[[{number}, 0.25, 100]]").parts
    assert part.mechanism == f"{{noise_multiplier: {value}}}"


def test_a_rate_is_the_quotient_that_its_float_is_of(run):
    for batches in (2, 3, 97, 235, 4850, 99_991):
        (part,) = run(json.dumps([[1.1, 1 / batches, 10]])).parts
        assert part.sampling in {f"{{scheme: poisson, rate: 1/{batches}}}", f"{{scheme: poisson, rate: {1 / batches}}}"}
    (part,) = run("[[1.1, 0.00123456789, 10]]").parts
    assert "rate: 0.00123456789}" in part.sampling


@pytest.mark.parametrize(("text", "given", "plan"), ROWS["plans"])
def test_calls_as_plans(text, given, plan, run):
    found = run(text, given, is_imported=True).loaded.plan
    examples = run(text, given).examples or 235
    privacy = "privacy: {delta: 1e-5, adjacency: add-remove}"
    assert found == load_text(f"{{version: 1, data: {{examples: {examples}}}, {plan}, {privacy}}}", path="hand").plan


@pytest.mark.parametrize(("call", "given", "config"), ROWS["runs"])
def test_calls_of_jax_privacy_and_of_keras_are_the_run_that_they_make(run, call, given, config):
    sampling, mechanism, training, adjacency, more = [*config, *("add-remove", "")[len(config) - 3 :]]
    by_hand = (
        f"{{version: 1, data: {{examples: 50_000}}, sampling: {{{sampling}}}, mechanism: {{{mechanism}}}, "
        f"training: {{{training}}}, privacy: {{adjacency: {adjacency}, delta: 1e-5{more}}}}}"
    )
    ours = guarantee(run(f"x = {call}", given, is_imported=True).loaded.plan)
    assert ours.epsilon == pytest.approx(guarantee(load_text(by_hand, path="by hand").plan).epsilon, rel=1e-9)


@pytest.mark.parametrize(("code", "by", "is_asked"), ROWS["told"])
def test_what_a_library_is_told_that_looks_for_noise(run, code, by, is_asked):
    found = run(code)
    assert found.found_by in {f"by: {by}, assuming: {{rate: {rate}, steps: 300}}" for rate in ("0.01", "1/100")}
    assert any(each.startswith(("accountant:", "noise_lbd:")) for each in found.unknown) is is_asked


@pytest.mark.parametrize("norm", ROWS["infinite"])
@pytest.mark.parametrize(
    "call",
    [
        "e.make_private(sample_rate=1/100, noise_multiplier=1.1, steps=100, delta=1e-5, max_grad_norm={})",
        f"DPKerasConfig({JAX}, noise_multiplier=1.2, poisson_sampling_in_fit=True)".replace("norm=1.0", "norm={}"),
    ],
)
def test_a_run_that_clips_nothing_is_no_run_that_clips(run, call, norm):
    assert "without clipping no noise hides a unit" in refused(run, f"x = {call.format(norm)}")


@pytest.mark.parametrize(("loader", "is_said"), [("shuffle", True), ("fixed", False)])
def test_a_shuffled_order_counts_as_known_and_what_a_secret_one_takes_is_said(run, loader, is_said):
    text = run(f"DPKerasConfig({JAX}, noise_multiplier=1.2)", {"loader": loader}, is_imported=True).text
    comments, _, config = text.partition("version")
    assert ("`order: secret` beside it" in comments and "from a seed that nobody else knows" in comments) == is_said
    assert "secret" not in config


# Numbers that have names.

CONSTANTS = """
N, RATE = 60_000, None
BATCH = 256
SIGMA: float = 1.1
STEPS = BATCH * 3
{more}
engine.make_private(sample_rate=BATCH / 60_000, noise_multiplier=SIGMA, steps=STEPS, delta=1e-5)
"""


def test_numbers_that_the_file_states_once_are_read(run):
    (part,) = run(CONSTANTS.format(more="")).parts
    assert part.steps == 768
    assert "noise_multiplier: 1.1" in part.mechanism
    assert "16/3750" in part.sampling or "8/1875" in part.sampling


@pytest.mark.parametrize("more", ROWS["another number"])
def test_a_name_that_may_be_another_number_is_asked_for(run, more):
    assert "noise_multiplier" in refused(run, CONSTANTS.format(more=more))


def notebook(*cells):
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    content = {"cells": [{"cell_type": "markdown", "source": "# x"}, *code], "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content)


CELL = "engine.make_private(sample_rate=1/100, noise_multiplier=SIGMA, steps=100, delta=1e-5)"


def test_the_code_cells_of_a_notebook_are_read(run):
    text = notebook("!pip install opacus\n%matplotlib inline\nSIGMA = 1.1", "%%bash\nSIGMA=2", CELL)
    found = run(text, name="train.ipynb")
    assert found.parts[0].mechanism == "{noise_multiplier: 1.1}"
    assert found.origin == "a call of make_private on line 4 of the code cells"


@pytest.mark.parametrize("magic", ["%run settings.py", "SIGMA = !cat sigma", "%load settings", "  %sigma 3"])
def test_a_magic_may_bind_a_name(run, magic):
    assert "noise_multiplier" in refused(run, notebook("SIGMA = 1.1", f"if True:\n  pass\n{magic}", CELL))


# The command.


@pytest.mark.parametrize(("text", "option"), ROWS["no effect"])
def test_an_option_that_would_have_no_effect_is_refused(real, tmp_path, text, option):
    (tmp_path / "run.py").write_text(text, encoding="utf-8")
    ended = real("import", str(tmp_path / "run.py"), "--delta", "1e-5", option, "0.5")
    assert (ended.code, ended.out) == (2, "")
    assert f"{option}: expected" in ended.err
