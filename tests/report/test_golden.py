"""Outputs of commands over fixed results: whole in golden files, and their forms agree, rounded to the safe side.

After a wanted change run `pytest tests/report --renew` and read the difference.
"""

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpcalc._version import __version__
from dpcalc.charts.chart import chart_output
from dpcalc.charts.plot import chart_text
from dpcalc.config.source import Severity
from dpcalc.errors import UnsupportedError
from dpcalc.gate.verdict import Result, Verdict
from dpcalc.guarantee import Kind
from dpcalc.planner.compare import CrossCheck
from dpcalc.planner.search import EpsilonGoal
from dpcalc.report.evaluation import (
    comparison_output,
    comparisons_output,
    costs_output,
    evaluation_output,
    units_output,
)
from dpcalc.report.formats import report_format, statement_format
from dpcalc.report.gate import GateAnswer
from dpcalc.report.ledger import ledger_output
from dpcalc.report.solution import delta_output, no_solution_output, risk_output, solution_output
from dpcalc.report.statement import statement_view
from dpcalc.report.terminal import terminal_text
from tests.report.gate_samples import EVERYTHING, RESULTS, RISEN
from tests.report.ledgers import ACCOUNT, OPEN_ENDED
from tests.report.risks import RISK
from tests.report.samples import EVALUATION, GUARANTEE, HOSTILE, INFINITE, PLAN, ROWS, TWO_PHASES
from tests.report.solutions import CERTAIN, DELTA, EVERY_RATE, FACTOR, NEVER, NOISE, NONE, RATE, SIZE, STEPS
from tests.report.statements import HOSTILE_LOADED, HOSTILE_STATEMENT, NOTHING, STATEMENT, loaded
from tests.report.test_chart import CHART, LOGARITHMIC

GOLDEN = Path(__file__).parent / "golden"

HOSTILE_PLAN = replace(PLAN, name=HOSTILE)
SEEN = (Severity.ERROR, Severity.WARNING)


def terminal(output, **options):
    return terminal_text(output, **{"width": 80, "styled": False} | options)


def evaluated(evaluation, plan=PLAN, **options):
    return evaluation_output(evaluation, loaded(plan), **options)


def solved(solution):
    return solution_output("solve-sigma", solution, loaded(), written=())


def stated(form, statement, config, **options):
    return statement_format(form)(statement_view(statement, config, **options), 80)


def report(name, results, *, levels=SEEN, command="check"):
    return report_format(name).text(GateAnswer(command=command, results=results, levels=levels))


VALID = Result(path="ok.yaml", verdict=Verdict.PASSED)
COMPARED, RISKS = comparison_output(ROWS, loaded()), risk_output(RISK, loaded())
UNITS = units_output([(EVALUATION, loaded()), (UnsupportedError("no bound"), loaded()), (INFINITE, loaded())])
COSTS = costs_output([(EVALUATION, loaded()), (TWO_PHASES, loaded(replace(PLAN, budget=None), path="b.yaml"))])
CURVE = chart_output("epochs", CHART, [loaded()])
DELTAS, NO_SOLUTION = delta_output(DELTA, loaded()), no_solution_output("solve-rate", NONE, loaded())

OUTPUTS = {
    "epsilon_terminal.txt": lambda: terminal(evaluated(EVALUATION)),
    "epsilon_terminal_styled.txt": lambda: terminal(evaluated(EVALUATION), styled=True),
    "epsilon_terminal_verbose.txt": lambda: terminal(evaluated(EVALUATION, verbose=True)),
    "epsilon_terminal_infinite.txt": lambda: terminal(evaluated(INFINITE)),
    "epsilon_terminal_phases.txt": lambda: terminal(evaluated(TWO_PHASES)),
    "epsilon_terminal_hostile.txt": lambda: terminal(evaluated(EVALUATION, HOSTILE_PLAN)),
    "epsilon_plain.txt": lambda: evaluated(EVALUATION).plain_text(),
    "epsilon_plain_infinite.txt": lambda: evaluated(INFINITE).plain_text(),
    "epsilon_json.txt": lambda: evaluated(EVALUATION).json_text(),
    "epsilon_json_infinite.txt": lambda: evaluated(INFINITE).json_text(),
    "epsilon_units_terminal.txt": lambda: terminal(UNITS),
    "epsilon_units_plain.txt": UNITS.plain_text,
    "epsilon_units_json.txt": UNITS.json_text,
    "epsilon_configs_terminal.txt": lambda: terminal(COSTS, width=100),
    "epsilon_configs_plain.txt": COSTS.plain_text,
    "compare_terminal.txt": lambda: terminal(COMPARED),
    "compare_plain.txt": COMPARED.plain_text,
    "compare_json.txt": COMPARED.json_text,
    "curve_terminal.txt": lambda: chart_text(CHART, width=80),
    "curve_terminal_logarithmic.txt": lambda: chart_text(LOGARITHMIC, width=80),
    "curve_plain.txt": lambda: f"{CHART}\n",
    "curve_csv.txt": lambda: CURVE.csv,
    "curve_json.txt": CURVE.json_text,
    "solve_terminal.txt": lambda: terminal(solved(NOISE)),
    "solve_terminal_phases.txt": lambda: terminal(solved(FACTOR)),
    "solve_terminal_none.txt": lambda: terminal(NO_SOLUTION),
    "solve_plain.txt": lambda: solved(NOISE).plain_text(),
    "solve_plain_none.txt": NO_SOLUTION.plain_text,
    "solve_json.txt": lambda: solved(FACTOR).json_text(),
    "solve_json_none.txt": NO_SOLUTION.json_text,
    "delta_terminal.txt": lambda: terminal(DELTAS),
    "delta_plain.txt": DELTAS.plain_text,
    "delta_json.txt": DELTAS.json_text,
    "ledger_terminal.txt": lambda: terminal(ledger_output(ACCOUNT)),
    "ledger_plain.txt": lambda: ledger_output(ACCOUNT).plain_text(),
    "ledger_json.txt": lambda: ledger_output(ACCOUNT).json_text(),
    "ledger_terminal_added.txt": lambda: terminal(ledger_output(OPEN_ENDED, is_added=False)),
    "ledger_plain_added.txt": lambda: ledger_output(OPEN_ENDED, is_added=False).plain_text(),
    "risk_terminal.txt": lambda: terminal(RISKS),
    "risk_plain.txt": RISKS.plain_text,
    "risk_json.txt": RISKS.json_text,
    "statement_text.txt": lambda: stated("text", STATEMENT, loaded()),
    "statement_text_infinite.txt": lambda: stated("text", NOTHING, loaded()),
    "statement_markdown.txt": lambda: stated("markdown", STATEMENT, loaded(section="dpcalc")),
    "statement_markdown_hostile.txt": lambda: stated("markdown", HOSTILE_STATEMENT, HOSTILE_LOADED),
    "statement_latex.txt": lambda: stated("latex", STATEMENT, loaded(), published="2026-01-31"),
    "statement_latex_hostile.txt": lambda: stated("latex", HOSTILE_STATEMENT, HOSTILE_LOADED),
    "statement_registry.txt": lambda: stated("registry", STATEMENT, loaded(), published="2026-01-31"),
    "statement_json.txt": lambda: stated("json", STATEMENT, loaded()),
    "check_text.txt": lambda: report("text", RESULTS),
    "check_text_verbose.txt": lambda: report("text", RESULTS[:1], levels=Severity),
    "check_json.txt": lambda: report("json", RESULTS),
    "check_text_base.txt": lambda: report("text", EVERYTHING[len(RESULTS) :], levels=Severity),
    "check_json_base.txt": lambda: report("json", (RISEN,)),
    **{
        f"check_{name}.txt": lambda name=name: report(name, EVERYTHING)
        for name in ("concise", "github", "gitlab", "junit", "markdown", "sarif")
    },
    "validate_text.txt": lambda: report("text", (VALID, RESULTS[4]), command="validate"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_golden(name, same_as_file):
    version = rf"(?<![\w.]){re.escape(__version__)}(?![\w.])"  # a release changes no golden file
    same_as_file(re.sub(version, "VERSION", OUTPUTS[name]()), GOLDEN / name)


def test_every_golden_file_is_used():
    assert {path.name for path in GOLDEN.iterdir()} == set(OUTPUTS)


@pytest.mark.parametrize("name", [name for name in OUTPUTS if "terminal" in name])
def test_nothing_on_a_terminal_is_cut_or_wider_than_it(name):
    text = (GOLDEN / name).read_text(encoding="utf-8").replace("\x1b[0m", "").replace("\x1b[1m", "")
    assert all(len(line.replace("\x1b[2m", "")) <= (100 if "configs" in name else 80) for line in text.splitlines())
    assert "…" not in text


@pytest.mark.parametrize("name", [name for name in OUTPUTS if "styled" not in name])
def test_only_styled_output_holds_escape_sequences(name):
    text = (GOLDEN / name).read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_loses_no_digit(width):
    text = terminal(COMPARED, width=width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    assert {"0.947", "0.946", "1.24", "inf", "0.500", "n/a"} <= set(text.split())


# Forms that agree, numbers on the safe side

OUTSIDE = "outside pld's interval: please report this run"
CROSS_CHECK = CrossCheck(direction="D||D'", upper=1.0000003, lower=0.9999999, estimate=1.0, order=17.283)
NO_BUDGET = replace(PLAN, budget=None)


def changed(plan=PLAN, **changes):
    return evaluation_output(replace(EVALUATION, guarantee=replace(GUARANTEE, **changes)), loaded(plan))


FACTS = {
    "epsilon": changed(),
    "epsilon, checked": evaluation_output(EVALUATION, loaded(), checks=(CROSS_CHECK,)),
    "epsilon, hostile": changed(replace(PLAN, name=HOSTILE)),
    "epsilon, infinite": evaluation_output(INFINITE, loaded(NO_BUDGET)),
    "epsilon, phases": evaluation_output(TWO_PHASES, loaded()),
    "noise": solved(NOISE),
    "steps": solved(STEPS),
    "rate": solved(RATE),
    "factor": solved(FACTOR),
    "no size": NO_SOLUTION,
    "no noise": no_solution_output("solve-sigma", NEVER, loaded()),
    "delta": DELTAS,
    "delta 1": delta_output(CERTAIN, loaded()),
    "risk": RISKS,
    "ledger": ledger_output(ACCOUNT),
    "ledger, added": ledger_output(ACCOUNT, is_added=True),
    "ledger, infinite": ledger_output(OPEN_ENDED),
}
TABLES = {
    "compare": COMPARED,
    "compare, two": comparisons_output([(ROWS, loaded()), (ROWS[:2], loaded(path="b.yaml"))]),
    "epsilon, units": units_output([(EVALUATION, loaded()), (INFINITE, loaded())]),
    "epsilon, two": costs_output([(EVALUATION, loaded()), (INFINITE, loaded(path="b.yaml"))]),
}
WITHOUT_JSON = {"solution.held", "solution.name", "solution.value", "solution.target"}
"""Lines without a JSON field: words beside a result, and what was asked for where JSON has `"solution": null`."""


def parsed(output):
    return json.loads(output.json_text(), parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


def plain(output):
    return [tuple(line.split(": ", 1)) for line in output.plain_text().splitlines()]


def json_entries(document, prefix=""):
    """Every dotted path of a document with its value, without the names of objects that plain lines leave out."""
    for name, value in document.items():
        yield prefix + name, value
        if isinstance(value, dict):
            yield from json_entries(value, prefix if name in {"config", "guarantee", "risk"} else f"{prefix}{name}.")


@pytest.mark.parametrize("name", FACTS)
def test_plain_lines_say_what_the_json_says(name):
    """The same names; lower bounds rounded down, upper ones up; what was given in full."""
    entries = dict(json_entries(parsed(FACTS[name])))
    compared = 0
    for key, text in plain(FACTS[name]):
        assert key in entries or key in WITHOUT_JSON
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
    blocks = list(map(dict, output.blocks))
    assert output.plain_text().count("\n\n") == len(blocks) - 1
    if len(blocks) == len(table.rows):
        for block, row in zip(blocks, table.rows, strict=True):
            shared = {column: cell for column, cell in zip(table.columns, row, strict=True) if column in block}
            shared = {column: cell for column, cell in shared.items() if column not in {"config", "note"}}
            assert "epsilon" in shared
            assert shared == {column: block[column].removeprefix("as-published, ") for column in shared}


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        ({"epsilon": 1.9999}, "epsilon <= 1.9999 "),
        ({"epsilon": 1.9999, "plan": NO_BUDGET}, "epsilon <= 2.00 "),
        ({"kind": Kind.ESTIMATE}, "epsilon ~ 0.947 (estimate) "),
        ({"kind": Kind.LOWER}, "epsilon >= 0.947 (lower) "),
        ({"kind": Kind.AS_PUBLISHED}, "epsilon = 0.947 (as-published) "),
    ],
)
def test_the_headline_shows_the_verdict_and_the_claim(changes, headline):
    assert changed(**changes).headline.startswith(headline)


def test_a_group_is_named_wherever_somebody_is():
    config = loaded(replace(PLAN, group_size=3))
    outputs = [delta_output(DELTA, config), no_solution_output("solve", NONE, config), changed(group_size=3)]
    assert {dict(output.rows)["protects"] for output in outputs} == {"a group of 3 (example), add-remove"}
    assert comparison_output((), config).table.headline.startswith("a group of 3 (example), add-remove")


HELD = "given a draw of rate 1/10 that lasts 20 steps and is assumed public"


@pytest.mark.parametrize(
    ("changes", "sampling", "distances"),
    [
        ({"hold": 10}, "inclusion 1/4 in each draw for 10 steps", "2, 2, times the root of 10"),
        ({"revealed": ((Fraction(1, 10), 20),)}, f"inclusion 1/4, {HELD}", "2, 2"),
        ({"steps_of_a_pass": 235}, "inclusion 1/4 in each pass of 235 steps", "2, 2"),
        ({"distances": (), "distances_swapped": ()}, "inclusion 1/4", "none"),
    ],
)
def test_draws_in_words(changes, sampling, distances):
    phase = replace(EVALUATION.phases[0], sampling="drawn", inclusion=Fraction(1, 4), **changes)
    evaluation = replace(EVALUATION, phases=(phase,))
    rows = dict(evaluation_output(evaluation, loaded(), verbose=True).rows)
    assert (rows["sampling"], rows["distances"]) == (f"drawn; {sampling}", distances)
    assert "distances" not in dict(evaluation_output(evaluation, loaded()).rows)


@pytest.mark.parametrize(
    ("inclusion", "text"),
    [(Fraction(1, 150), "1/150"), (Fraction(10**99 + 1, 3 * 10**99), "0.33333333333333334")],
)
def test_a_fraction_of_many_digits_is_a_decimal(inclusion, text):
    phase = replace(EVALUATION.phases[0], inclusion=inclusion)
    (printed,) = parsed(evaluation_output(replace(EVALUATION, phases=(phase,)), loaded()))["phases"]
    assert printed["inclusion"] == text


def test_floats_are_written_in_full_and_nan_never():
    assert parsed(changed(epsilon=0.1 + 0.2))["guarantee"]["epsilon"] == 0.1 + 0.2
    with pytest.raises(ValueError, match="got NaN"):
        changed(epsilon=math.nan)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "inversion agrees with pld to 3e-7"),
        ({"upper": 1.0 - 3e-12, "lower": 1.0 - 3.5e-12}, "inversion agrees with pld to 4e-12"),
        ({"upper": 1.0 - 3e-9, "lower": 1.0 - 4e-9}, f"inversion gives 1.00000, {OUTSIDE}"),
        ({"estimate": 1.1}, f"inversion gives 1.10000, {OUTSIDE}"),
        ({"estimate": None, "note": "inversion: too slow"}, "inversion gives no estimate of this run to compare with"),
        ({"estimate": 0.0, "upper": 0.0, "lower": 0.0}, "inversion agrees with pld to 0"),
    ],
)
def test_the_agreement_of_two_accountants(changes, words):
    """The costlier direction decides."""
    check = replace(CROSS_CHECK, **changes)
    back = replace(CROSS_CHECK, direction="D'||D", upper=-1.0, lower=-2.0)
    output = evaluation_output(EVALUATION, loaded(), checks=[check, back], verbose=True)
    assert dict(output.rows)["cross-check"] == words
    assert [text for key, text in plain(output) if key == "cross_check"][-1] == words
    assert parsed(output)["cross_check"][0]["estimate"] == check.estimate
    assert "cross_check" not in parsed(changed())


@pytest.mark.parametrize(
    ("epsilon", "limit", "budget", "text"),
    [
        (2.0, 2.0, {"epsilon": 2.0, "used": 1.0, "ok": True}, "within the budget 2.0 (100%)"),
        (1.9999, 2.0, {"epsilon": 2.0, "used": 0.99995, "ok": True}, "within the budget 2.0 (99.995%)"),
        (2.00001, 2.0, {"epsilon": 2.0, "used": 1.000005, "ok": False}, "EXCEEDS the budget 2.0 (100.0005%)"),
        (2.1, 2.0, {"epsilon": 2.0, "used": 1.05, "ok": False}, "EXCEEDS the budget 2.0 (105%)"),
        (math.inf, 2.0, {"epsilon": 2.0, "used": None, "ok": False}, "EXCEEDS the budget 2.0"),
        (0.0, 0.0, {"epsilon": 0.0, "used": 0.0, "ok": True}, "within the budget 0.0"),
        (0.1, 0.0, {"epsilon": 0.0, "used": None, "ok": False}, "EXCEEDS the budget 0.0"),
        (0.5, None, None, ""),
    ],
)
def test_the_part_of_a_budget_that_is_used(epsilon, limit, budget, text):
    plan = replace(PLAN, budget=None if limit is None else replace(PLAN.budget, epsilon=limit))
    output = changed(plan, epsilon=epsilon)
    assert (parsed(output)["budget"], output.verdict[0]) == (budget, text)
    assert text in output.headline
    assert dict(plain(output)).get("budget.ok") == (None if budget is None else "yes" if budget["ok"] else "no")


@pytest.mark.parametrize(
    ("epsilon", "text"), [(0.9468671, "0.946868"), (2.0, "2.00000"), (0.0, "0"), (math.inf, "inf")]
)
def test_the_bare_number_is_never_below(epsilon, text):
    assert changed(epsilon=epsilon).quiet_text == f"{text}\n"


@pytest.mark.parametrize(
    ("found", "headline", "values"),
    [
        (NOISE, "noise_multiplier >= 3.47913   gives epsilon <= 2.00 (fails at 3.47906)", (3.47913, 3.479061234)),
        (STEPS, "steps <= 39871   gives epsilon <= 2.00 (fails at 39872)", (39_871, 39_872)),
        (SIZE, "size <= 67   gives epsilon <= 2.00 (fails at 68)", (67, 68)),
        (RATE, "rate <= 0.00431   gives epsilon <= 2.00 (fails at 0.00431044)", (0.00431, 0.00431043215)),
        (EVERY_RATE, "rate <= 1.0   gives epsilon <= 0.500 (nothing beyond it fails)", (1.0, None)),
        (FACTOR, "noise_multiplier factor >= 0.5   gives epsilon <= 2.00 (fails at 0.49999)", (0.5, 0.49999)),
    ],
)
def test_a_solution_in_every_form(found, headline, values):
    output = solved(found)
    document = parsed(output)
    printed = document["solution"]
    assert output.headline == headline
    assert (printed["value"], printed["fails_at"]) == values
    assert type(printed["value"]) is type(values[0])
    assert printed["epsilon"] == document["guarantee"]["epsilon"]
    assert f" {output.quiet_text.strip()} " in headline
    assert set(document) == set(parsed(no_solution_output("solve-rate", NONE, loaded())))


def test_an_epsilon_within_an_odd_target_is_not_shown_above_it():
    facts = dict(plain(solved(replace(NOISE, reached=1.9968, goal=EpsilonGoal(limit=1.997)))))
    assert (facts["solution.epsilon"], facts["epsilon"]) == ("1.997", "1.997")


def test_delta_is_rounded_up_and_its_lower_end_down():
    delta, certain = (delta_output(each, loaded()) for each in (DELTA, CERTAIN))
    assert delta.headline == "delta <= 4.37e-6   (at least 5.53e-7)   epsilon = 1.0"
    assert certain.headline == "delta <= 1.00   epsilon = 1.0"
    assert (delta.quiet_text, certain.quiet_text) == ("4.36123e-6\n", "1.00000\n")
