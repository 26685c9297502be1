"""The cross-check in words."""

import json

import pytest

from dpcalc.planner.compare import CrossCheck
from dpcalc.report.evaluation import cross_check_rows, evaluation_output
from dpcalc.report.fields import plain_lines
from tests.report.samples import EVALUATION
from tests.report.statements import loaded


def check(**changes):
    fields = {"direction": "D||D'", "upper": 1.0000003, "lower": 0.9999999, "estimate": 1.0, "order": 17.283}
    return CrossCheck(**fields | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "inversion agrees with pld to 3e-7"),
        ({"estimate": 1.0, "upper": 1.0 - 3e-12, "lower": 1.0 - 3.5e-12}, "inversion agrees with pld to 4e-12"),
        (
            {"estimate": 1.0, "upper": 1.0 - 3e-9, "lower": 1.0 - 4e-9},
            "inversion gives 1.00000, outside pld's interval: please report this run",
        ),
        ({"estimate": 1.1}, "inversion gives 1.10000, outside pld's interval: please report this run"),
        (
            {"estimate": None, "note": "inversion: too slow; use pld"},
            "inversion gives no estimate of this run to compare with",
        ),
        ({"estimate": 0.0, "upper": 0.0, "lower": 0.0}, "inversion agrees with pld to 0"),
    ],
)
def test_the_agreement(changes, words):
    assert list(cross_check_rows([check(**changes)]))[-1] == ("cross-check", words)


def test_the_costlier_direction_decides():
    back = check(direction="D'||D", upper=0.5, lower=0.4, estimate=0.45)
    rows = list(cross_check_rows([check(), back]))
    assert rows == [
        ("D||D'", "epsilon between 0.999999 and 1.00001 by pld; best RDP order 17.3"),
        ("D'||D", "epsilon between 0.400000 and 0.500000 by pld; best RDP order 17.3"),
        ("cross-check", "inversion agrees with pld to 3e-7"),
    ]
    output = evaluation_output(EVALUATION, loaded(), checks=[check(), back])
    lines = [text for key, text in plain_lines(output.fields) if key == "cross_check"]
    assert lines == [text if label == "cross-check" else f"{label}: {text}" for label, text in rows]
    assert set(rows) <= set(output.rows(verbose=True))
    assert not set(rows) & set(output.rows())


def test_nothing_to_check():
    assert list(cross_check_rows([])) == []


def test_json_has_the_checks_only_where_they_were_asked_for():
    with_checks = json.loads(evaluation_output(EVALUATION, loaded(), checks=[check()]).json_text())
    assert with_checks["cross_check"] == [
        {
            "direction": "D||D'",
            "epsilon": 1.0000003,
            "epsilon_lower": 0.9999999,
            "estimate": 1.0,
            "order": 17.283,
            "note": "",
        }
    ]
    assert "cross_check" not in json.loads(evaluation_output(EVALUATION, loaded()).json_text())
