import json
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest

from dpcalc._version import __version__
from dpcalc.config.source import Diagnostic, Severity
from dpcalc.report.evaluation import comparison_output, evaluation_output
from dpcalc.report.fields import Field, json_document
from dpcalc.report.guarantees import phase_fields
from tests.report.samples import EVALUATION, GUARANTEE, INFINITE, PLAN, ROWS

NOTED = Diagnostic(
    code="DPC204",
    severity=Severity.NOTE,
    message="add-remove is assumed",
    hint="say it",
    path="a.yaml",
    line=3,
    column=1,
)


def loaded(plan=PLAN):
    return SimpleNamespace(plan=plan, path="a.yaml", diagnostics=(NOTED,), config_hash="0123abcd")


def parsed(text):
    def refuse(constant):
        pytest.fail(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_epsilon_has_the_fields_of_the_contract():
    document = parsed(evaluation_output(EVALUATION, loaded()).json_text())
    assert document == {
        "schema": "dpcalc.result/1",
        "version": __version__,
        "command": "epsilon",
        "config": {"path": "a.yaml", "name": "clinic-maml"},
        "guarantee": {
            "epsilon": 0.946867,
            "epsilon_lower": GUARANTEE.epsilon_lower,
            "tight": True,
            "delta": 1e-5,
            "kind": "upper",
            "finite": True,
            "unit": "example",
            "adjacency": "add-remove",
            "group_size": 1,
            "method": "pld",
            "bound": "one-step bound",
            "direction": "D||D'",
            "notes": [],
        },
        "alternatives": document["alternatives"],
        "steps": 10_000,
        "phases": [
            {
                "name": "main",
                "steps": 10_000,
                "mechanism": "gaussian, noise multiplier 6",
                "noise_multiplier": 6.0,
                "clip": "task",
                "sampling": "32 of 1200 tasks, then 5 of 20 examples, fixed size, redrawn every step",
                "inclusion": "1/150",
                "shift": 0,
                "distances": [2, 2],
                "distances_swapped": [2, 2],
                "hold": 1,
                "revealed": [],
                "steps_of_a_pass": 1,
            }
        ],
        "budget": {"epsilon": 2.0, "used": 0.946867 / 2, "ok": True},
        "assumptions": ["the sampler really draws so", "noise on the sum, fixed divisor"],
        "notes": ["Opacus would print 2.38: it assumes Poisson"],
        "diagnostics": [
            {
                "code": "DPC204",
                "level": "note",
                "message": "add-remove is assumed",
                "hint": "say it",
                "path": "a.yaml",
                "line": 3,
                "column": 1,
            }
        ],
        "config_hash": "0123abcd",
    }


def test_compare_has_the_fields_of_the_contract():
    document = parsed(comparison_output(ROWS, loaded()).json_text())
    assert set(document) == {
        "schema",
        "version",
        "command",
        "config",
        "unit",
        "adjacency",
        "delta",
        "steps",
        "rows",
        "diagnostics",
        "config_hash",
    }
    assert document["rows"][0] == {
        "method": "pld",
        "bound": "one-step bound",
        "epsilon": 0.946867,
        "epsilon_lower": 0.946857,
        "finite": True,
        "kind": "upper",
        "valid": True,
        "claim": "upper bound",
        "note": "",
    }
    by_name = {(row["method"], row["bound"]): (row["epsilon"], row["finite"]) for row in document["rows"]}
    assert by_name["basic", "one-step bound"] == (None, False)  # infinite
    assert by_name["opacus", "Poisson"] == (None, None)  # does not apply


def test_infinity_is_null_and_not_finite():
    document = parsed(evaluation_output(INFINITE, loaded()).json_text())
    assert document["guarantee"]["epsilon"] is None
    assert document["guarantee"]["finite"] is False
    assert document["budget"] == {"epsilon": 2.0, "used": None, "ok": False}


def test_floats_are_written_in_full():
    exact = 0.1 + 0.2
    evaluation = replace(EVALUATION, guarantee=replace(GUARANTEE, epsilon=exact))
    assert parsed(evaluation_output(evaluation, loaded()).json_text())["guarantee"]["epsilon"] == exact


def test_nan_is_never_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_document("epsilon", (Field("epsilon", math.nan),))
    evaluation = replace(EVALUATION, guarantee=replace(GUARANTEE, epsilon=math.nan))
    with pytest.raises(ValueError, match="got NaN"):
        evaluation_output(evaluation, loaded()).json_text()


def test_without_a_budget_there_is_none():
    assert parsed(evaluation_output(EVALUATION, loaded(replace(PLAN, budget=None))).json_text())["budget"] is None


@pytest.mark.parametrize(("epsilon", "used", "ok"), [(0.0, 0.0, True), (0.5, None, False)])
def test_a_budget_of_nothing(epsilon, used, ok):
    plan = replace(PLAN, budget=replace(PLAN.budget, epsilon=0.0))
    evaluation = replace(EVALUATION, guarantee=replace(GUARANTEE, epsilon=epsilon))
    assert parsed(evaluation_output(evaluation, loaded(plan)).json_text())["budget"] == {
        "epsilon": 0.0,
        "used": used,
        "ok": ok,
    }


@pytest.mark.parametrize(
    ("inclusion", "text"),
    [(Fraction(1, 150), "1/150"), (Fraction(10**99 + 1, 3 * 10**99), "0.33333333333333334")],
)
def test_a_fraction_of_many_digits_is_a_decimal(inclusion, text):
    phase = replace(EVALUATION.phases[0], inclusion=inclusion)
    assert phase_fields(phase)["inclusion"] == text
