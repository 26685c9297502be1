import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dpcalc._version import __version__
from dpcalc.config.normal import fingerprint
from dpcalc.report.solution import delta_output, no_solution_output, solution_output
from tests.report.samples import PLAN
from tests.report.solutions import CERTAIN, DELTA, EVERY_RATE, FACTOR, NEVER, NOISE, NONE, RATE, SIZE, STEPS

LOADED = SimpleNamespace(plan=PLAN, path="a.yaml", diagnostics=(), config_hash="0123abcd")
GUARANTEE = {
    "epsilon": 1.99996,
    "epsilon_lower": 1.99987,
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
}


def parsed(text):
    return json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


def test_a_solution_has_the_fields_of_the_contract():
    written = ("a.yaml:4: noise_multiplier: 3.47913",)
    assert parsed(solution_output("solve-sigma", NOISE, LOADED, written=written).json_text()) == {
        "schema": "dpcalc.result/1",
        "version": __version__,
        "command": "solve-sigma",
        "config": {"path": "a.yaml", "name": "clinic-maml"},
        "solution": {
            "name": "noise_multiplier",
            "value": 3.47913,
            "epsilon": 1.99996,
            "target": 2.0,
            "fails_at": 3.479061234,
            "key": "noise_multiplier",
            "goal": {"measure": "epsilon", "words": "epsilon", "limit": 2.0, "reached": 1.99996},
            "held": None,
        },
        "best": None,
        "guarantee": GUARANTEE,
        "steps": 10_000,
        "phases": [
            {
                "name": "main",
                "steps": 10_000,
                "mechanism": "gaussian, noise multiplier 3.47913",
                "noise_multiplier": 3.47913,
                "sampling": "32 of 1200 (task), fixed size; then 5 of 20 (example), fixed size",
            }
        ],
        "written": list(written),
        "diagnostics": [],
        "config_hash": fingerprint(NOISE.plan),
    }


@pytest.mark.parametrize(
    ("found", "value", "fails_at"),
    [(STEPS, 39_871, 39_872), (SIZE, 67, 68), (RATE, 0.00431, 0.00431043215), (EVERY_RATE, 1.0, None)],
)
def test_values_are_numbers(found, value, fails_at):
    document = parsed(solution_output("solve", found, LOADED, written=()).json_text())
    solution = document["solution"]
    assert (solution["value"], solution["fails_at"]) == (value, fails_at)
    assert type(solution["value"]) is type(value)
    assert solution["epsilon"] == document["guarantee"]["epsilon"]


def test_a_factor_comes_with_the_noise_of_each_phase():
    document = parsed(solution_output("solve-sigma", FACTOR, LOADED, written=()).json_text())
    assert document["solution"]["name"] == "noise_multiplier factor"
    assert [phase["noise_multiplier"] for phase in document["phases"]] == [3.0, 3.0]


@pytest.mark.parametrize(("answer", "epsilon"), [(NONE, 2.0003), (NEVER, None)])
def test_no_solution_has_the_same_fields(answer, epsilon):
    document = parsed(no_solution_output("solve-rate", answer, LOADED).json_text())
    assert set(document) == set(parsed(solution_output("solve-rate", SIZE, LOADED, written=()).json_text()))
    assert (document["solution"], document["guarantee"], document["steps"]) == (None, None, None)
    best = {"name": answer.name, "value": answer.best_value, "epsilon": epsilon, "target": 2.0}
    best["goal"] = {"measure": "epsilon", "words": "epsilon", "limit": 2.0, "reached": epsilon}
    best["held"] = None
    assert document["best"] == best


def test_delta_has_the_fields_of_the_contract():
    assert parsed(delta_output(DELTA, LOADED).json_text()) == {
        "schema": "dpcalc.result/1",
        "version": __version__,
        "command": "delta",
        "config": {"path": "a.yaml", "name": "clinic-maml"},
        "guarantee": {
            "delta": 4.36123e-6,
            "delta_lower": 5.5399e-7,
            "epsilon": 1.0,
            "kind": "upper",
            "unit": "example",
            "adjacency": "add-remove",
            "group_size": 1,
            "method": "pld",
            "direction": "D||D'",
            "notes": [],
        },
        "steps": 10_000,
        "diagnostics": [],
    }
    assert parsed(delta_output(CERTAIN, LOADED).json_text())["guarantee"]["delta_lower"] is None
    group = SimpleNamespace(**{**vars(LOADED), "plan": replace(PLAN, group_size=3)})
    assert parsed(delta_output(DELTA, group).json_text())["guarantee"]["group_size"] == 3
