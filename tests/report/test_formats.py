"""The reports of a gate as their readers take them."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import xmlschema

from dpcalc.config.source import ConfigError, Diagnostic, Severity
from dpcalc.gate.verdict import Verdict, finding
from dpcalc.report.formats import report_format
from dpcalc.report.gate import GateAnswer
from dpcalc.report.rules import RULES
from tests.report.gate_samples import EVERYTHING, NEAR, RESULTS, RISEN, changed, error_result, moved

SCHEMAS = Path(__file__).parent / "schemas"
ATTACKS = (
    "::error::owned",
    "a\n::add-mask::secret",
    "a\r::set-output name=x::y",
    "##[error]owned",
    "##vso[task.setvariable variable=x]y",
    "%0A::error::owned",
    "a,line=9::owned",
    "\x1b]0;title\x07\x1b[2J",
    "\u202egnp.yaml",
    "```\n# owned\n![x](https://example.org/x.png)",
    "a|b|c `code` ``two`` @everyone <img src=x onerror=alert(1)>",
    "]]><failure/>&amp;<![CDATA[",
    "\ufffe\uffff\ud800",
    "javascript:alert(1)",
    "//example.org/a b?c#d",
)


def drawn(name, results, levels=tuple(Severity)):
    return report_format(name).text(GateAnswer(command="check", results=results, levels=levels))


def attacked(text):
    """Results in which everything that somebody else may write is an attack."""
    change = changed(text, text, text, (1, 1), text), 3.0
    guarantee = replace(RISEN.guarantee, unit=text)
    problem = finding("DPC404", Severity.ERROR, text, text, hint=text)
    wrong = Diagnostic(code="DPC101", severity=Severity.ERROR, message=text, hint=text, path=text, line=1, column=1)
    base = replace(RISEN.base, name=text, changes=(change,))
    limit = replace(RISEN.limit, source=text)
    risen = moved(RISEN, text)
    risen = replace(risen, guarantee=guarantee, base=base, limit=limit, problems=(*risen.problems, problem))
    return (risen, error_result(text, ConfigError([wrong])), error_result(text, ZeroDivisionError(text)))


def schema_of_sarif():
    schema = json.loads((SCHEMAS / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
    return jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())


SARIF, JUNIT = schema_of_sarif(), xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd")
RUNS = {"everything": EVERYTHING, "nothing": (), **{repr(text): attacked(text) for text in ATTACKS}}


@pytest.mark.parametrize("run", RUNS)
def test_sarif_is_what_its_schema_says(run):
    document = json.loads(drawn("sarif", RUNS[run]))
    SARIF.validate(document)
    (only,) = document["runs"]
    codes = [rule["id"] for rule in only["tool"]["driver"]["rules"]]
    assert all(codes[result["ruleIndex"]] == result["ruleId"] for result in only["results"])
    for result in only["results"]:
        (location,) = result["locations"]
        uri = location["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9/._~%-]+", uri)


def test_a_run_without_a_verdict_was_not_successful():
    for results, successful in ((EVERYTHING, False), (RESULTS[:5], True)):
        (run,) = json.loads(drawn("sarif", results))["runs"]
        assert run["invocations"][0]["executionSuccessful"] is successful


def test_a_name_survives_as_a_uri():
    result = moved(NEAR, "a b/ä#?%41.yaml")
    (run,) = json.loads(drawn("sarif", (result,)))["runs"]
    uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(uri) == "a b/ä#?%41.yaml"


@pytest.mark.parametrize("run", RUNS)
def test_junit_is_what_its_schema_says(run):
    text = drawn("junit", RUNS[run])
    JUNIT.validate(text)
    suites = ET.fromstring(text)  # noqa: S314  our own
    results = RUNS[run]
    kinds = Counter(one.tag for case in suites.iter("testcase") for one in case)
    failed = sum(one.verdict is Verdict.FAILED for one in results)
    broken = sum(one.verdict in {Verdict.INVALID, Verdict.UNDECIDED} for one in results)
    assert (kinds["failure"], kinds["error"], kinds["system-out"]) == (failed, broken, len(results))
    assert suites.attrib == {
        "name": "dpcalc",
        "tests": str(len(results)),
        "failures": str(failed),
        "errors": str(broken),
    }


@pytest.mark.parametrize("run", RUNS)
def test_gitlab_has_what_its_documentation_asks_for(run):
    """docs.gitlab.com, Code Quality: a report is an array of objects with these fields, the path without `./`."""
    entries = json.loads(drawn("gitlab", RUNS[run]))
    assert isinstance(entries, list)
    assert len(entries) == sum(len(one.problems) + len(one.diagnostics) for one in RUNS[run])
    for entry in entries:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert entry["location"]["lines"]["begin"] >= 1
        assert not entry["location"]["path"].startswith("./")
        assert all(isinstance(entry[key], str) for key in ("description", "check_name", "fingerprint"))
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)


def commands(text):
    """What the runner of GitHub Actions obeys: lines that begin with `::` (blanks apart), or hold `##[`."""
    found = []
    for line in re.split(r"\r\n|\r|\n", text):
        assert "##[" not in line
        match = re.match(r"\s*::([^ :]+)(?: ([^:]*))?::(.*)", line)
        if match:
            properties = dict(one.split("=", 1) for one in (match[2] or "").split(",") if one)
            found.append((match[1], properties, match[3]))
    return found


@pytest.mark.parametrize("run", RUNS)
def test_github_obeys_only_our_annotations(run):
    found = commands(drawn("github", RUNS[run]))
    assert {command for command, *_ in found} <= {"error", "warning", "notice"}
    assert all(set(properties) <= {"file", "line", "col", "title"} for _, properties, _ in found)
    assert len(found) == min(10, errors(RUNS[run])) + sum(
        min(10, count) for count in (at(RUNS[run], Severity.WARNING), at(RUNS[run], Severity.NOTE))
    )


def at(results, level):
    return sum(one.severity is level for result in results for one in (*result.problems, *result.diagnostics))


def errors(results):
    return at(results, Severity.ERROR)


@pytest.mark.parametrize("name", ["text", "concise", "markdown", "json", "gitlab", "sarif", "junit"])
@pytest.mark.parametrize("text", ATTACKS)
def test_no_format_holds_a_command_or_an_escape_sequence(name, text):
    shown = drawn(name, attacked(text))
    assert commands(shown) == []
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", shown)


def test_github_shows_ten_of_a_level():
    found = commands(drawn("github", [moved(NEAR, f"{number}.yaml") for number in range(11)]))
    warnings = [(properties, text) for command, properties, text in found if command == "warning"]
    assert len(warnings) == 10
    assert warnings[8][0]["file"] == "8.yaml"
    assert warnings[9] == ({}, "2 more, see the log or the summary of this step")
    assert len([one for one in found if one[0] == "notice"]) == 10


def test_github_reads_back_what_was_meant():
    result = moved(NEAR, "50%,a:b.yaml")
    command, properties, text = commands(drawn("github", (result,)))[0]
    decoded = properties["file"].replace("%3A", ":").replace("%2C", ",").replace("%25", "%")
    assert (command, decoded, properties["line"], properties["col"]) == ("warning", "50%,a:b.yaml", "14", "19")
    assert text.replace("%25", "%").startswith("99.5% of budget.epsilon")


@pytest.mark.parametrize("text", ATTACKS)
def test_markdown_means_nothing_but_ours(text):
    """Every line is ours, a row of a table of six cells, or inside a fence that only its own end closes."""
    fence = None
    for line in drawn("markdown", attacked(text)).split("\n"):
        if fence:
            fence = None if line == fence else fence
            assert not (fence and re.fullmatch(rf"\s{{0,3}}`{{{len(fence)},}}\s*", line))
        elif re.fullmatch("`{3,}text", line):
            fence = line.removesuffix("text")
        elif line.startswith("|"):
            outside = re.sub(r"`[^`|]+`", "code", line)
            assert re.fullmatch(
                r"\| (code|config|---) \|( [a-z0-9.-]* \|){4} (cause|---|[DPC0-9, ]*(code)?) \|", outside
            )
        else:
            assert re.fullmatch(r"|\*\*dpcalc check: \w+\*\*, checked .*", line)
    assert fence is None


def test_no_text_of_a_config_is_a_link_or_a_placeholder_of_sarif():
    """SARIF 2.1.0, 3.11.5 and 3.11.6: brackets are escaped, braces doubled."""
    message = "unknown key `[Approve](https://example.org)`, `{0}`, `a\\\\b`"
    named = replace(NEAR, diagnostics=(Diagnostic(code="DPC101", severity=Severity.ERROR, message=message, path="a"),))
    (run,) = json.loads(drawn("sarif", (named,)))["runs"]
    text = next(each["message"]["text"] for each in run["results"] if each["ruleId"] == "DPC101")
    assert text == r"unknown key `\[Approve\](https://example.org)`, `{{0}}`, `a" + "\\" * 4 + "b`"


@pytest.mark.usefixtures("fresh_caches")
@pytest.mark.parametrize(
    ("stated", "known"), [("https://example.org/docs/rules.md", True), ("javascript:alert(1)", False), ("", False)]
)
def test_codes_lead_to_the_rules_page_where_its_address_is_known(monkeypatch, stated, known):
    page = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
    heads = re.findall("^## (.*)$", page, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}  # as GitHub makes them
    monkeypatch.setenv("DPCALC_RULES", stated)
    one_of_each = replace(NEAR, problems=tuple(finding(code, Severity.ERROR, "said", "a.yaml") for code in RULES))
    (run,) = json.loads(drawn("sarif", [one_of_each]))["runs"]
    uris = [rule.get("helpUri") for rule in run["tool"]["driver"]["rules"]]
    assert len(uris) == len(RULES)
    if known:
        assert all(uri.partition("#")[0] == stated and uri.partition("#")[2] in anchors for uri in uris)
    else:
        assert not any(uris)
    assert (f"[DPC301]({stated}#dpc301-over-budget)" in drawn("markdown", EVERYTHING)) is known
