"""Every accountant on every type of mechanism: a number, or one sentence in the words of the config."""

import re
from pathlib import Path

import pytest

from dpcalc import epsilon
from dpcalc.accountants import ACCOUNTANTS
from dpcalc.config.load import load_text
from dpcalc.errors import InputError
from dpcalc.mechanisms.kinds import MECHANISMS
from tests.config.texts import flat
from tests.thinning import thinned

KEYS = {
    "gaussian": "noise_multiplier: 8",
    "laplace": "noise_multiplier: 20",
    "randomized-response": "truth_probability: 0.6, categories: 2",
    "approximate-dp": "epsilon: 0.05, delta: 1e-9",
    "pure-dp": "epsilon: 0.05",
    "zcdp": "rho: 0.001",
    "discrete-gaussian": "noise_multiplier: 8",
    "discrete-laplace": "noise_multiplier: 20",
    "exponential": "epsilon: 0.05",
    "matrix-factorization": "noise_multiplier: 8, strategy: tree, min_separation: 1",
    "rdp-curve": "curve: [[2, 0.01], [4, 0.02], [16, 0.08], [64, 0.3]]",
    "pate-lnmax": "gamma: 0.01",
    "pate-gnmax": "noise_multiplier: 40",
    "pate-confident-gnmax": "noise_multiplier: 40, threshold: 100, threshold_noise_multiplier: 60",
}
METHODS = ("auto", *ACCOUNTANTS)
DRAWS = ("{scheme: all}", "{scheme: poisson, rate: 0.1}", "{scheme: fixed, size: 100}", "{scheme: any-order}")


def test_every_type_is_tried():
    assert KEYS.keys() == MECHANISMS.keys()


def answer(kind, draw, method):
    """An epsilon, the text of an error, or None for a run that no config states."""
    sections = {
        "data": "{examples: 1000}",
        "sampling": draw,
        "mechanism": f"{{type: {kind}, {KEYS[kind]}}}",
        "training": "{steps: 10}",
    }
    try:
        plan = load_text(flat(sections), path="f").plan
    except InputError:
        return None
    try:
        return epsilon(plan, method=method).epsilon
    except InputError as error:
        return str(error)


@pytest.mark.parametrize(("draw", "kind"), thinned([(draw, kind) for draw in DRAWS for kind in KEYS], 12))
def test_what_an_accountant_cannot_do_is_one_sentence_with_those_that_can(kind, draw):
    answers = {method: answer(kind, draw, method) for method in METHODS}
    for method, said in answers.items():
        if not isinstance(said, str):
            continue
        assert len(said) < 300
        assert "\n" not in said
        assert not re.search(r"[A-Z][a-z]+[A-Z]\w*\(|Fraction|<\w+|points=", said)  # no repr of a record
        named = {each for each in METHODS if re.search(rf"(?<![\w-]){each}(?![\w-])", said)} - {method}
        assert named
        assert all(isinstance(answers[each], float) for each in named), (method, said)


@pytest.mark.heavy
def test_the_gate_counts_the_best_of_several_runs(real, file):
    sections = {"training": "{steps: 500}", "mechanism": "{noise_multiplier: 2}", "tuning": "{mean: 10}"}
    path = str(file(flat(sections)))
    assert real("check", path, "--max-epsilon", "0.5").code == 1
    Path(path).write_text(flat(sections | {"tuning": None}), encoding="utf-8")
    assert real("check", path, "--max-epsilon", "0.5").code == 0
