"""`dpcalc simulate`: what it compares, a wrong sampler is found; laws of all schemes: `audit/test_simulate.py`."""

import json
from fractions import Fraction

import pytest

from dpcalc.sampling.schemes import Fixed, Poisson
from tests.cli.solving import FLAT, facts

pytestmark = pytest.mark.usefixtures("fresh_caches")


def found(ended):
    return json.loads(ended.out)


def test_what_is_compared(real, file):
    ended = real("simulate", str(file()), "--draws", "3000", "--json")
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
