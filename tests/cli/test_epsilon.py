"""Forms of one result, and commands that agree about one run; what `epsilon` says is in `transcripts/epsilon.txt`."""

import csv
import json

import pytest


@pytest.mark.heavy
@pytest.mark.parametrize(
    "words",
    [
        "epsilon",
        "epsilon {0} {0}",
        "compare",
        "compare {0} {0}",
        "delta --epsilon 1",
        "risk",
        "solve-sigma --target-eps 1",
    ],
)
def test_forms_of_one_result(real, file, words):
    """The same numbers in each: CSV has those of JSON in full, a row for each config or row of the result."""
    path = str(file())
    words = words.format(path) if "{0}" in words else f"{words} {path}"
    said = {form: real(*words.split(), "--format", form) for form in ("table", "csv", "markdown", "json")}
    assert [ended.code for ended in said.values()] == [0] * 4
    assert said["json"].out == real(*words.split(), "--json").out
    document = json.loads(said["json"].out)
    header, *rows = csv.reader(said["csv"].out.splitlines())
    results = document.get("configs", [document])
    assert len(rows) == sum(len(each.get("rows", [each])) for each in results)
    column = next(name for name in ("epsilon", "advantage", "delta") if name in header)
    numbers = [row[header.index(column)] for row in rows if row[header.index(column)]]
    assert all(number in said["json"].out for number in numbers)
    assert said["markdown"].out.startswith("**")
    assert len({line.count(" | ") for line in said["markdown"].out.splitlines()[2:]}) == 1


@pytest.mark.heavy
def test_a_statement_and_a_check_agree_with_epsilon(real, printed, file):
    path = str(file())
    answer, (checked,) = printed("epsilon", path), printed("check", path)["results"]
    stated = json.loads(real("statement", path, "--format", "json").out)
    assert answer["guarantee"] == stated["guarantee"] == checked["guarantee"]
    assert stated["config_hash"] == answer["config_hash"]
    assert stated["attack"]["advantage"] < answer["guarantee"]["epsilon"] < stated["without_amplification"]["epsilon"]
    sizes = [group["epsilon"] for group in stated["groups"]]
    assert sizes == sorted(sizes)


@pytest.mark.heavy
def test_detections_at_a_rate_and_inference_at_a_baseline(printed, file):
    path = str(file())
    document = printed("risk", path, "--fpr", "0.01", "--prior", "0.1", "--baseline", "0.5", "--baseline", "0.01")
    (one,), (few, half) = document["risk"]["detections"], document["risk"]["reconstructions"]
    odds = 0.1 * one["present"] / (0.9 * 0.01)
    assert one["true_positive_rate"] == max(one["present"], one["absent"])
    assert one["posterior"] == pytest.approx(odds / (1 + odds))
    assert (few["baseline"], half["baseline"]) == (0.01, 0.5)
    assert few["success"] == pytest.approx(one["present"], rel=2e-3)
    assert 0.5 < half["success"] <= 0.5 + document["risk"]["advantage"]


@pytest.mark.heavy
def test_delta_goes_with_epsilon(real, printed, file):
    path = str(file())
    epsilon = real("epsilon", path, "-q").out.strip()
    guarantee = printed("delta", path, "--epsilon", epsilon)["guarantee"]
    assert 0.99e-5 <= guarantee["delta_lower"] <= guarantee["delta"] <= 1.001e-5
    assert float(real("delta", path, "--epsilon", epsilon, "-q").out) >= guarantee["delta"]
