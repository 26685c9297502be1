"""Adding a report format is one module, `tests.cli.toy_format`, and one line in the registry."""

import json
from pathlib import Path

import pytest

from dpcalc.report.gate import REPORTS
from dpcalc.report.statement import STATEMENTS
from tests.cli.toy_format import TOY, toy_statement

ROOT = Path(__file__).parents[2]


@pytest.fixture
def with_toy(dpcalc, monkeypatch, tmp_path):
    """Run a command of a dpcalc that has the toy format, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(REPORTS, "toy", TOY)
    return dpcalc


@pytest.mark.parametrize("code", [0, 1])
def test_a_format_of_one_module_and_one_line(with_toy, config, tmp_path, code):
    config(steps=(500, 5000)[code])
    verdict = ("passed", "failed")[code]
    report = f"<toy>\na.yaml={verdict}\n</toy>\n"
    ended = with_toy("check", "a.yaml", "--report", "toy", "--report", "json=out.json")
    assert (ended.code, ended.out, ended.err) == (code, report, "")
    for _ in range(2):  # the second report replaces the first
        assert with_toy("check", "a.yaml", "--report", "toy=out.toy").code == code
        assert (tmp_path / "out.toy").read_text(encoding="utf-8") == report
    assert with_toy("check", "a.yaml", "--report", "sarif=out.toy").code == code  # as does one in another format
    (tmp_path / "out.toy").write_text("precious\n", encoding="utf-8")
    assert with_toy("validate", "a.yaml", "--report", "toy=out.toy").code == 2
    assert (tmp_path / "out.toy").read_text(encoding="utf-8") == "precious\n"
    assert "markdown, toy, got `tex`" in with_toy("check", "a.yaml", "--report", "tex").err


@pytest.mark.heavy
def test_a_statement_in_a_format_of_one_function_and_one_line(with_toy, config, monkeypatch):
    monkeypatch.setitem(STATEMENTS, "toy", toy_statement)
    ended = with_toy("statement", config(name="toys"), "--format", "toy")
    first, *headings, epsilon = ended.out.splitlines()
    assert (ended.code, first, headings[0]) == (0, "Privacy statement: toys", "The guarantee")
    assert float(epsilon) == json.loads(with_toy("statement", config(), "--format", "json").out)["guarantee"]["epsilon"]
    assert (
        "text, markdown, json, registry, latex, html, toy, got `tex`"
        in with_toy("statement", config(), "--format", "tex").err
    )
