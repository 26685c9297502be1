"""Whole outputs over fixed results. After a wanted change run `pytest tests/report --renew` and read the difference."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dpcalc._version import __version__
from dpcalc.config.source import Severity
from dpcalc.errors import UnsupportedError
from dpcalc.gate.verdict import Result, Verdict
from dpcalc.report.evaluation import comparison_output, costs_output, evaluation_output, units_output
from dpcalc.report.formats import report_format
from dpcalc.report.gate import GateAnswer
from dpcalc.report.ledger import ledger_output
from dpcalc.report.registry import statement_registry
from dpcalc.report.solution import delta_output, no_solution_output, risk_output, solution_output
from dpcalc.report.statement import statement_json, statement_latex, statement_markdown, statement_text, statement_view
from dpcalc.report.terminal import terminal_text
from tests.report.gate_samples import EVERYTHING, RESULTS, RISEN
from tests.report.ledgers import ACCOUNT, OPEN_ENDED
from tests.report.risks import RISK
from tests.report.samples import EVALUATION, HOSTILE, INFINITE, PLAN, ROWS, TWO_PHASES
from tests.report.solutions import DELTA, FACTOR, NOISE, NONE
from tests.report.statements import HOSTILE_LOADED, HOSTILE_STATEMENT, NOTHING, STATEMENT, loaded

GOLDEN = Path(__file__).parent / "golden"

HOSTILE_PLAN = replace(PLAN, name=HOSTILE)
SEEN = (Severity.ERROR, Severity.WARNING)


def terminal(output, **options):
    return terminal_text(output, **{"width": 80, "styled": False} | options)


def evaluated(evaluation, plan=PLAN, **options):
    return evaluation_output(evaluation, loaded(plan), **options)


def solved(solution):
    return solution_output("solve-sigma", solution, loaded(), written=())


def report(name, results, *, levels=SEEN, command="check"):
    return report_format(name).text(GateAnswer(command=command, results=results, levels=levels))


VALID = Result(path="ok.yaml", verdict=Verdict.PASSED)
COMPARED, RISKS = comparison_output(ROWS, loaded()), risk_output(RISK, loaded())
UNITS = units_output([(EVALUATION, loaded()), (UnsupportedError("no bound"), loaded()), (INFINITE, loaded())])
COSTS = costs_output([(EVALUATION, loaded()), (TWO_PHASES, loaded(replace(PLAN, budget=None), path="b.yaml"))])
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
    "statement_text.txt": lambda: statement_text(statement_view(STATEMENT, loaded())),
    "statement_text_infinite.txt": lambda: statement_text(statement_view(NOTHING, loaded())),
    "statement_markdown.txt": lambda: statement_markdown(statement_view(STATEMENT, loaded(section="dpcalc"))),
    "statement_markdown_hostile.txt": lambda: statement_markdown(statement_view(HOSTILE_STATEMENT, HOSTILE_LOADED)),
    "statement_latex.txt": lambda: statement_latex(statement_view(STATEMENT, loaded(), published="2026-01-31")),
    "statement_latex_hostile.txt": lambda: statement_latex(statement_view(HOSTILE_STATEMENT, HOSTILE_LOADED)),
    "statement_registry.txt": lambda: statement_registry(statement_view(STATEMENT, loaded(), published="2026-01-31")),
    "statement_json.txt": lambda: statement_json(statement_view(STATEMENT, loaded())),
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
