"""`delta`, with the real accounting."""

import json

from tests.cli.solving import FLAT, bare, facts


def test_delta_goes_with_epsilon(real, file):
    path = str(file())
    epsilon = bare(real("epsilon", path, "-q"))
    ended = real("delta", path, "--epsilon", str(epsilon), "--json")
    guarantee = json.loads(ended.out)["guarantee"]
    assert (ended.code, ended.err) == (0, "")
    assert 0.99e-5 <= guarantee["delta_lower"] <= guarantee["delta"] <= 1.001e-5
    told = facts(real("delta", path, "--epsilon", str(epsilon)))
    assert float(told["delta"]) >= guarantee["delta"]
    assert float(told["delta_lower"]) <= guarantee["delta_lower"]
    assert bare(real("delta", path, "--epsilon", str(epsilon), "-q")) >= guarantee["delta"]


def test_delta_needs_an_epsilon_and_no_delta(real, file):
    assert real("delta", str(file())).code == 2
    assert real("delta", str(file()), "--epsilon", "-1").code == 2
    whole = bare(real("delta", str(file()), "--epsilon", "1", "-q"))
    ended = real("delta", str(file(FLAT.replace(", delta: 1e-5", ""))), "--epsilon", "1")
    assert ended.err == ""  # nothing is said about a delta that nobody chose
    assert bare(real("delta", str(file(FLAT.replace("1e-5", "0.9"))), "--epsilon", "1", "-q")) == whole


def test_delta_without_noise_is_one(real, file):
    ended = real("delta", str(file(FLAT.replace("1.1", "0"))), "--epsilon", "1")
    assert (ended.code, facts(ended)["delta"]) == (0, "1.00")
    assert "DPC207" in ended.err
    assert facts(real("delta", str(file()), "--epsilon", "1e9"))["epsilon"] == "1e+9"  # a large epsilon is short
