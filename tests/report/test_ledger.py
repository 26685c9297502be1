"""A ledger in words and as JSON: safe sides, infinities, names without power."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

from dpcalc.gate.ledger import Account, Run
from dpcalc.report.fields import plain_lines
from dpcalc.report.gate import ledger_add_output, ledger_show_output
from tests.report.samples import GUARANTEE, HOSTILE, PLAN

LOADED = SimpleNamespace(plan=PLAN, path="all.yaml", config_hash="0123")
RUNS = (
    Run(name="first", steps=10, guarantee=replace(GUARANTEE, epsilon=0.5001)),
    Run(name="second", steps=20, guarantee=replace(GUARANTEE, epsilon=0.7001)),
)
ACCOUNT = Account(loaded=LOADED, runs=RUNS, guarantee=GUARANTEE)
OPEN_ENDED = replace(
    ACCOUNT,
    runs=(replace(RUNS[0], name=HOSTILE, guarantee=replace(GUARANTEE, epsilon=math.inf)),),
    guarantee=replace(GUARANTEE, epsilon=math.inf, epsilon_lower=None),
)


def test_what_is_told_of_a_ledger():
    view = ledger_show_output(ACCOUNT)
    assert view.headline == "epsilon <= 0.947   (tight: at least 0.946)   delta = 1e-05"
    assert view.rows()[:3] == (
        ("run", "first: 10 steps, epsilon 0.501 alone"),
        ("run", "second: 20 steps, epsilon 0.701 alone"),
        ("sum", "1.21, if epsilons were added up"),
    )
    assert dict(plain_lines(view.fields))["budget.used"] == "47.4%"
    assert ACCOUNT.keeps_budget


def test_of_an_addition_only_the_new_run_is_told():
    view = ledger_add_output(replace(ACCOUNT, runs=RUNS[1:]), is_added=False)
    assert view.rows()[0] == ("not added", "second: 20 steps, epsilon 0.701 alone")
    assert dict(plain_lines(view.fields))["added"] == "no"
    assert "sum_of_epsilons" not in dict(plain_lines(view.fields))


def test_an_exceeded_budget_is_called_so_on_a_terminal_too():
    above = ledger_show_output(replace(ACCOUNT, guarantee=replace(GUARANTEE, epsilon=2.1)))
    assert dict(above.rows())["budget"] == "2.0, 105% used: exceeded"
    assert dict(plain_lines(above.fields))["budget.ok"] == "no"


def test_no_guarantee():
    assert not OPEN_ENDED.keeps_budget
    assert ledger_show_output(OPEN_ENDED).headline == "epsilon is infinite: no guarantee at delta = 1e-05"
    document = json.loads(ledger_show_output(OPEN_ENDED).json_text())
    assert document["guarantee"]["epsilon"] is None
    assert document["sum_of_epsilons"] is None
    assert document["budget"] == {"epsilon": 2.0, "used": None, "ok": False}


def test_names_steer_nothing():
    text = ledger_show_output(OPEN_ENDED).plain_text()
    assert all(line.isprintable() for line in text.splitlines())
    assert json.loads(ledger_show_output(OPEN_ENDED).json_text())["runs"][0]["name"] == HOSTILE
