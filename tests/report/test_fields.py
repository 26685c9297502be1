"""Forms of a result agree: plain lines have the names and values of the JSON, numbers on the safe side of it."""

import json
import math
from dataclasses import replace

import pytest

from dpcalc.audit.simulate import Check, Simulation, simulation_output
from dpcalc.guarantee import Kind, Row
from dpcalc.planner.compare import CrossCheck
from dpcalc.report.evaluation import (
    comparison_output,
    comparisons_output,
    costs_output,
    evaluation_output,
    units_output,
)
from dpcalc.report.fields import Field, Output, Section, json_only, plain_lines, plain_only, terminal_only
from dpcalc.report.gate import ledger_add_output, ledger_show_output
from dpcalc.report.rounding import rounded_down, rounded_up
from dpcalc.report.solution import delta_output, no_solution_output, risk_output, solution_output
from tests.report.risks import RISK
from tests.report.samples import EVALUATION, HOSTILE, INFINITE, PLAN, ROWS, TWO_PHASES
from tests.report.solutions import CERTAIN, DELTA, FACTOR, NEVER, NOISE, NONE, RATE, STEPS
from tests.report.statements import loaded
from tests.report.test_ledger import ACCOUNT, OPEN_ENDED

CHECK = Check(phase="main", quantity="inclusion", computed=(0.25, 0.25), observed=0.26, interval=(0.2, 0.3), trials=9)
CROSS_CHECK = CrossCheck(direction="D||D'", upper=1.0, lower=0.9, estimate=0.95, order=8.0)
PLAIN_ONLY = {"solution.held", "solution.name", "solution.value", "solution.target"}
"""Lines without a JSON field: words beside a result, and what was asked for where JSON has `"solution": null`."""

INLINE = {"config", "guarantee", "risk"}


def solved(solution):
    return solution_output("solve-sigma", solution, loaded(), written=())


OUTPUTS = {
    "epsilon": evaluation_output(EVALUATION, loaded()),
    "epsilon, checked": evaluation_output(EVALUATION, loaded(), checks=(CROSS_CHECK,)),
    "epsilon, hostile": evaluation_output(EVALUATION, loaded(replace(PLAN, name=HOSTILE))),
    "epsilon, infinite": evaluation_output(INFINITE, loaded(replace(PLAN, budget=None))),
    "epsilon, phases": evaluation_output(TWO_PHASES, loaded()),
    "noise": solved(NOISE),
    "steps": solved(STEPS),
    "rate": solved(RATE),
    "factor": solved(FACTOR),
    "no size": no_solution_output("solve-rate", NONE, loaded()),
    "no noise": no_solution_output("solve-sigma", NEVER, loaded()),
    "delta": delta_output(DELTA, loaded()),
    "delta 1": delta_output(CERTAIN, loaded()),
    "risk": risk_output(RISK, loaded()),
    "ledger": ledger_show_output(ACCOUNT),
    "ledger, added": ledger_add_output(ACCOUNT, is_added=True),
    "ledger, infinite": ledger_show_output(OPEN_ENDED),
    "simulate": simulation_output(Simulation(checks=(CHECK,), seed=7, notes=()), loaded()),
}
TABLES = {
    "compare": comparison_output(ROWS, loaded()),
    "compare, two": comparisons_output([(ROWS, loaded()), (ROWS[:2], loaded(path="b.yaml"))]),
    "epsilon, units": units_output([(EVALUATION, loaded()), (INFINITE, loaded())]),
    "epsilon, two": costs_output([(EVALUATION, loaded()), (INFINITE, loaded(path="b.yaml"))]),
}


def parsed(output):
    return json.loads(output.json_text(), parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


def json_entries(document, prefix=""):
    """Every dotted path of a document with its value, without the names of objects that plain lines leave out."""
    for name, value in document.items():
        yield prefix + name, value
        if isinstance(value, dict):
            yield from json_entries(value, prefix if name in INLINE else f"{prefix}{name}.")


@pytest.mark.parametrize("name", OUTPUTS)
def test_plain_lines_have_the_names_of_the_json(name):
    entries = dict(json_entries(parsed(OUTPUTS[name])))
    keys = [key for key, _ in plain_lines(OUTPUTS[name].fields)]
    assert keys
    assert {key for key in keys if key not in entries} <= PLAIN_ONLY


@pytest.mark.parametrize("name", OUTPUTS)
def test_numbers_of_plain_lines_are_on_the_safe_side_of_the_json(name):
    """Lower bounds are rounded down, upper ones up; what was given is there in full."""
    entries = dict(json_entries(parsed(OUTPUTS[name])))
    compared = 0
    for key, text in plain_lines(OUTPUTS[name].fields):
        value = entries.get(key)
        if isinstance(value, bool):
            assert text == ("yes" if value else "no")
        elif isinstance(value, str) and value.isprintable():
            assert text == value
        elif isinstance(value, int | float) and not text.endswith("%"):
            compared += 1
            printed = float(text)
            assert printed == pytest.approx(value, rel=1e-2)
            if key.endswith("_lower"):
                assert printed <= value
            elif key in {"epsilon", "delta", "advantage", "solution.epsilon", "best.epsilon"}:
                assert printed >= value
        elif isinstance(value, list) and value and isinstance(value[0], str):
            assert text in value
    assert compared


@pytest.mark.parametrize("name", TABLES)
def test_tables_show_what_the_blocks_say(name):
    output = TABLES[name]
    parsed(output)
    table = output.table
    assert {len(row) for row in table.rows} == {len(table.columns)}
    blocks = [dict(plain_lines(block)) for block in output.blocks]
    assert output.plain_text().count("\n\n") == len(blocks) - 1
    if len(blocks) == len(table.rows):
        for block, row in zip(blocks, table.rows, strict=True):
            shared = {column: cell for column, cell in zip(table.columns, row, strict=True) if column in block}
            shared = {column: cell for column, cell in shared.items() if column not in {"config", "note"}}
            assert "epsilon" in shared
            assert shared == {column: block[column] for column in shared}


def test_a_comparison_says_the_same_in_every_form():
    row = Row(method="gdp", bound="b", epsilon=0.12345, epsilon_lower=0.12341, kind=Kind.LOWER, valid=False, note="n")
    output = comparison_output([row], loaded())
    (printed,) = parsed(output)["rows"]
    (block,) = output.blocks
    assert (printed["epsilon"], dict(plain_lines(block))["epsilon"]) == (0.12345, "0.123")  # a lower bound: down
    assert set(dict(plain_lines(block))) == set(printed) - {"finite"}
    shown = {name: text for name, text in plain_lines(block) if name not in {"kind", "valid"}}  # the claim says both
    assert output.table.rows == (tuple(shown.values()),)


TOY = Output(
    command="toy",
    headline="a toy",
    fields=(
        Field("late", 2.34567, rounding=rounded_up, label="shown late", section=Section.LAST),
        Field("early", 2.34567, rounding=rounded_down, label="shown early", section=Section.RUN),
        Field(
            "object",
            (Field("flag", value=False), Field("none"), Field("inf", math.inf, label="inner", verbose=True)),
            section=Section.UNIT,
        ),
        Field("inline", (Field("inside", "a\x1bb"),), is_inline=True),
        Field("list", ["x", "y"], label="list", row="x and y"),
        Field("records", [(Field("number", 1), Field("infinite", -math.inf))], plain="one record"),
        json_only("hidden", {"a": None}),
        plain_only("words", ("first", "", "second"), Section.UNIT),
        terminal_only("people", "only"),
    ),
    quiet_text="3\n",
)


def test_the_forms_of_a_result():
    document = parsed(TOY)
    assert list(document) == [
        "schema",
        "version",
        "command",
        "late",
        "early",
        "object",
        "inline",
        "list",
        "records",
        "hidden",
    ]
    assert document["object"] == {"flag": False, "none": None, "inf": None}
    assert (document["inline"], document["list"]) == ({"inside": "a\x1bb"}, ["x", "y"])
    assert document["records"] == [{"number": 1, "infinite": None}]
    assert TOY.plain_text().splitlines() == [
        "early: 2.34",
        "object.flag: no",
        "object.inf: inf",
        "words: first",
        "words: second",
        "inside: a\\x1bb",
        "list: x",
        "list: y",
        "records: one record",
        "late: 2.35",
    ]
    assert TOY.rows() == (
        ("shown early", "2.34"),
        ("list", "x and y"),
        ("people", "only"),
        ("shown late", "2.35"),
    )
    assert ("inner", "inf") in TOY.rows(verbose=True)
