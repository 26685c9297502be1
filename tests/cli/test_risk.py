"""`dpcalc risk` and `delta`, with the real accounting."""

import json

import pytest

from tests.cli.solving import FLAT, bare, facts


@pytest.mark.heavy
def test_all_forms_tell_the_same(real, file):
    path = str(file())
    told = facts(real("risk", path, "--fpr", "0.01", "--prior", "0.1"))
    document = json.loads(real("risk", path, "--fpr", "0.01", "--prior", "0.1", "--json").out)
    (one,) = document["risk"]["detections"]
    assert one["true_positive_rate"] == max(one["present"], one["absent"])
    odds = 0.1 * one["present"] / (0.9 * 0.01)
    assert one["posterior"] == pytest.approx(odds / (1 + odds))
    assert float(told["advantage"]) >= document["risk"]["advantage"]
    assert told["detections"].startswith("fpr 0.01: tpr 0.")
    gdp = document["risk"]["gdp"]
    assert (gdp["kind"], gdp["floor"], gdp["good_summary"]) == ("upper", 1e-5, True)
    assert told["gdp"].startswith("mu ")
    assert float(told["gdp"].split()[1].rstrip(",")) >= gdp["mu"]


@pytest.mark.heavy
def test_inference_at_a_baseline_is_detection_at_that_rate(real, file):
    path = str(file())
    document = json.loads(real("risk", path, "--baseline", "0.5", "--baseline", "0.01", "--json").out)["risk"]
    detected = json.loads(real("risk", path, "--fpr", "0.01", "--json").out)["risk"]["detections"][0]["present"]
    few, half = document["reconstructions"]
    assert (few["baseline"], half["baseline"]) == (0.01, 0.5)
    assert few["success"] == pytest.approx(detected, rel=2e-3)
    assert 0.5 < half["success"] <= 0.5 + document["advantage"]
    assert "reconstructions: baseline 0.5: success 0." in real("risk", path, "--baseline", "0.5").out
    assert json.loads(real("risk", path, "--json").out)["risk"]["reconstructions"] == []


def test_without_noise_there_is_no_mu(real, file):
    document = json.loads(real("risk", str(file()), "--noise-multiplier", "0", "--json").out)
    found = [document["risk"]["gdp"][key] for key in ("mu", "finite", "misfit", "kind", "good_summary")]
    assert found == [None, False, 0, "upper", False]
    assert "no good summary" in real("risk", str(file()), "--noise-multiplier", "0").out


# `delta`


@pytest.mark.heavy
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


@pytest.mark.heavy
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
