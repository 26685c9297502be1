"""`dpcalc simulate`: agrees with itself, and finds what is wrong."""

import json
from fractions import Fraction

import pytest

from dpcalc.sampling.schemes import Fixed, Poisson
from tests.cli.solving import FLAT, PHASES, facts

SMALL = ("--draws", "3000")
NESTED = """\
version: 1
data:
  levels: [{name: clinic}, {name: patient}, {name: visit}]
  tree: [[4, 2, 3], [4, 5]]
sampling: {clinic: {scheme: fixed, size: 1}, patient: {scheme: poisson, rate: 0.5}, visit: {scheme: fixed, size: 2}}
mechanism: {noise_multiplier: 4, clip: clinic}
training: {steps: 100}
privacy: {unit: visit, adjacency: add-remove, delta: 1e-3}
"""

pytestmark = pytest.mark.usefixtures("fresh_caches")


def found(ended):
    return json.loads(ended.out)


def test_what_is_compared(real, file):
    ended = real("simulate", str(file()), *SMALL, "--json")
    assert ended.code == 0
    answer = found(ended)
    assert (answer["command"], answer["agrees"], answer["seed"]) == ("simulate", True, 1)
    quantities = [check["quantity"] for check in answer["checks"]]
    assert quantities == ["inclusion of one example", "share of example drawn", "batch size (example)"]
    for check in answer["checks"]:
        assert check["observed_lower"] <= check["observed"] <= check["observed_upper"]
        assert check["observed_lower"] <= check["computed_upper"]
        assert check["computed_lower"] <= check["observed_upper"]
    assert answer["checks"][0]["computed_upper"] == 0.01
    assert answer["checks"][2]["computed_upper"] == 10


@pytest.mark.heavy
def test_levels_phases_and_text(real, file):
    ended = real("simulate", str(file(NESTED)), *SMALL)
    assert ended.code == 0
    assert "checks: inclusion of one visit: computed 0.25000" in ended.out
    assert "checks: clinic drawn at a time: computed 1, drawn 1, 3000 draws" in ended.out
    assert "checks: share of patient drawn: computed 0.50000" in ended.out
    assert "checks: visit drawn at a time: computed 2, drawn 2" in ended.out
    assert "checks: batch size (clinic): computed 1, drawn 1, 3000 draws (from 1 to 1)" in ended.out
    ended = real("simulate", str(file(PHASES)), *SMALL)
    assert "checks: main: share of example drawn" in ended.out


def test_the_same_seed_draws_the_same(real, file):
    first, again, other = (real("simulate", str(file()), *SMALL, "--seed", seed).out for seed in ("3", "3", "4"))
    assert first == again
    assert first.replace("seed: 3", "seed: 4") != other


def wrong(real, file, text=FLAT):
    """The quantities that are contradicted."""
    words = ("simulate", str(file(text)), "--draws", "20000")
    plain, ended = real(*words), real(*words, "--json")
    assert (plain.code, facts(plain)["agrees"], "NOT the same" in plain.out) == (1, "no", True)
    assert (ended.code, found(ended)["agrees"]) == (1, False)
    return [check["quantity"] for check in found(ended)["checks"] if not check["agrees"]]


def test_a_wrong_rate_is_found(real, file, monkeypatch):
    monkeypatch.setattr(Poisson, "rate", lambda self, _: self.probability / 2)
    assert wrong(real, file) == ["inclusion of one example"]


@pytest.mark.heavy
def test_a_sampler_that_draws_too_often_is_found(real, file, monkeypatch):
    fixed = FLAT.replace("{scheme: poisson, rate: 0.01}", "{scheme: fixed, size: 10}")
    monkeypatch.setattr(Fixed, "rate", lambda self, count: Fraction(self.size, 2 * count))
    assert wrong(real, file, fixed) == ["inclusion of one example"]


def test_on_a_terminal_it_is_a_table(real, file, monkeypatch):
    monkeypatch.setattr("dpcalc.cli.output.on_terminal", lambda: True)
    monkeypatch.setattr("dpcalc.cli.output.has_styles", lambda: False)
    monkeypatch.setenv("COLUMNS", "100")
    ended = real("simulate", str(file(PHASES)), *SMALL)
    assert ended.out.startswith("computed agrees with drawn   seed 1")
    assert "quantity" in ended.out
    assert "main: share of" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 100
    monkeypatch.setattr(Poisson, "rate", lambda self, _: self.probability / 2)
    ended = real("simulate", str(file()), "--draws", "20000")
    assert ended.out.startswith("1 of 3 computed numbers contradicted")


def test_the_sampler_needs_neither_noise_nor_steps(real, file):
    assert real("simulate", str(file()), *SMALL, "--noise-multiplier", "0").code == 0
    assert real("simulate", str(file(FLAT.replace("500", "0"))), *SMALL).code == 0
