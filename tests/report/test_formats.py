"""The reports of a gate: whole in golden files, and as their readers take them, whatever names and values are.

Epsilon is steps / 1000 here.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import xmlschema

from tests.cli.repository import Repository
from tests.cli.running import CONFIG
from tests.cli.stand_in import CRASHING, INFINITE
from tests.report.test_golden import GOLDEN, steady

SCHEMAS = Path(__file__).parent / "schemas"
FORMATS = ("text", "concise", "json", "github", "gitlab", "junit", "sarif", "markdown")
BUDGET = "budget: {epsilon: 2.0}"
HOSTILE = "[bold] \x1b[31mred\nsecond\u202e line.yaml"
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
    "\ufffe\uffff\udc80",
    "javascript:alert(1)",
    "//example.org/a b?c#d",
)


def schema_of_sarif():
    schema = json.loads((SCHEMAS / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
    return jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())


SARIF, JUNIT = schema_of_sarif(), xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd")


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A repository with configs of which some have changed, and the current directory in it."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    made = Repository.fresh(tmp_path / "work")
    monkeypatch.chdir(made.folder)

    def written(name, steps, budget=BUDGET, **changes):
        text = CONFIG.format(name=changes.pop("name", "run"), steps=steps, budget=budget)
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        made.write(name, text)

    made.config = written
    return made


@pytest.fixture
def everything(tree):
    """Every verdict, every kind of finding, names that mean something elsewhere; the names of the files."""
    tree.config("ok.yaml", 500, **{"adjacency: add-remove, delta: 1e-5": "delta: 2e-5"})
    tree.config("over.yaml", 2020)
    tree.config("narrow.yaml", 2000, "budget: {epsilon: 1.99999}")
    tree.config("infinite.yaml", INFINITE, "")
    tree.config("broken.yaml", 500, max_grad_norm="l2_norm_clip")
    tree.config("crash.yaml", CRASHING)
    tree.config(HOSTILE, 500, "")
    tree.config("conf/risen.yaml", 1000, "budget: {epsilon: 2.0, max_increase_pct: 10}")
    tree.commit()
    tree.config("conf/risen.yaml", 2300, "budget: {epsilon: 3.0, max_increase_pct: 10}", **{"1e-5": "1e-4"})
    tree.config("near.yaml", 1990)
    tree.write("policy.toml", "warn_at_pct = 90\n")
    names = ("ok", "over", "narrow", "infinite", "broken", "crash", "conf/risen", "near")
    return (*(f"{name}.yaml" for name in names), HOSTILE)


@pytest.fixture
def reports(dpcalc, tree):
    """The texts of all formats of one check, and its results as JSON has them."""

    def of(*names, options=("--base", "HEAD")):
        wanted = [word for form in FORMATS for word in ("--report", f"{form}=../{form}")]
        dpcalc("check", "-v", *options, *wanted, "--", *names)
        texts = {form: (tree.folder.parent / form).read_bytes().decode() for form in FORMATS}
        return texts, json.loads(texts["json"])["results"]

    return of


@pytest.fixture
def attacked(reports, tree):
    """All formats of a check in which everything that somebody else may write is an attack."""

    def of(text):
        name, quoted = text.replace("/", "_"), json.dumps(text.encode("utf-8", "replace").decode())
        names = [f"{name}{number}.yaml" for number in range(4)]
        tree.config(names[0], 1000)
        tree.commit()
        tree.config(names[0], 2500, "budget: {epsilon: 3.0}")
        tree.config(names[1], 500, f"{quoted}: {quoted}\nphases: [{{name: {quoted}}}]")
        tree.config(names[2], CRASHING)
        tree.config(names[3], quoted)
        return reports(*names)

    return of


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


def is_read(texts, results):
    """Each format is what its readers take, and has every finding."""
    levels = Counter(finding["level"] for result in results for finding in result["findings"])
    verdicts = Counter(result["verdict"] for result in results)

    sarif = json.loads(texts["sarif"])
    SARIF.validate(sarif)
    (run,) = sarif["runs"]
    codes = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(codes[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    for result in run["results"]:
        (location,) = result["locations"]
        assert re.fullmatch(r"[A-Za-z0-9/._~%-]+", location["physicalLocation"]["artifactLocation"]["uri"])
    assert run["invocations"][0]["executionSuccessful"] is not bool(verdicts["undecided"])

    JUNIT.validate(texts["junit"])
    suites = ET.fromstring(texts["junit"])  # noqa: S314  our own
    failed, errors = verdicts["failed"], verdicts["invalid"] + verdicts["undecided"]
    kinds = Counter(one.tag for case in suites.iter("testcase") for one in case)
    assert (kinds["failure"], kinds["error"], kinds["system-out"]) == (failed, errors, len(results))
    counted = {"tests": str(len(results)), "failures": str(failed), "errors": str(errors)}
    assert suites.attrib == {"name": "dpcalc", **counted}

    # docs.gitlab.com, Code Quality: a report is an array of objects with these fields, the path without `./`
    entries = json.loads(texts["gitlab"])
    assert len(entries) == levels.total() == len({entry["fingerprint"] for entry in entries})
    for entry in entries:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert entry["location"]["lines"]["begin"] >= 1
        assert not entry["location"]["path"].startswith("./")
        assert all(isinstance(entry[key], str) for key in ("description", "check_name", "fingerprint"))

    annotations = commands(texts["github"])
    assert {command for command, *_ in annotations} <= {"error", "warning", "notice"}
    assert all(set(properties) <= {"file", "line", "col", "title"} for _, properties, _ in annotations)
    assert len(annotations) == sum(min(10, count) for count in levels.values())

    # every line of Markdown is ours, a row of a table of six cells, or inside a fence that only its own end closes
    fence = None
    for line in texts["markdown"].split("\n"):
        if fence:
            fence = None if line == fence else fence
            assert not (fence and re.fullmatch(rf"\s{{0,3}}`{{{len(fence)},}}\s*", line))
        elif re.fullmatch("`{3,}text", line):
            fence = line.removesuffix("text")
        elif line.startswith("|"):
            outside = re.sub(r"`[^`|]+`", "code", line)
            cause = r"(cause|---|[DPC0-9, ]*(code(, and \d more)?)?)"
            assert re.fullmatch(rf"\| (code|config|---) \|( [a-z0-9.-]*( [a-z]+)? \|){{4}} {cause} \|", outside), line
        else:
            assert re.fullmatch(r"|\*\*dpcalc check: \w+\*\*, checked .*", line)
    assert fence is None

    for form in set(FORMATS) - {"github"}:
        assert commands(texts[form]) == []
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", texts[form])


def test_every_verdict_and_finding_in_every_format(everything, reports, same_as_file):
    texts, results = reports(*everything, options=("--base", "HEAD", "--policy", "policy.toml"))
    verdicts = {"passed", "failed", "invalid", "undecided"}
    assert {result["verdict"] for result in results} == verdicts
    is_read(texts, results)
    for form, text in texts.items():
        same_as_file(steady(text), GOLDEN / f"check_{form}.txt")
    is_read(*reports(options=("--allow-empty",)))


@pytest.mark.parametrize("text", ATTACKS)
def test_whatever_files_hold(attacked, text):
    is_read(*attacked(text))


def test_a_name_survives_as_a_uri_and_as_an_annotation(reports, tree):
    for name in ("a b/ä#?%41.yaml", "50%,a:b.yaml"):
        tree.config(name, 2500)
        texts, _ = reports(name, options=())
        (run,) = json.loads(texts["sarif"])["runs"]
        assert unquote(run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) == name
        command, properties, text = commands(texts["github"])[0]
        assert properties["file"].replace("%3A", ":").replace("%2C", ",").replace("%25", "%") == name
        assert (command, properties["line"], properties["col"]) == ("error", "8", "10")
        assert text.startswith("epsilon 2.50 exceeds the budget 2.0 ")


def test_github_shows_ten_of_a_level(reports, tree):
    for number in range(11):
        tree.config(f"{number}.yaml", 500, "", **{"adjacency: add-remove, ": ""})
    texts, _ = reports(*(f"{number}.yaml" for number in range(11)), options=())
    found = commands(texts["github"])
    warnings = [(properties, text) for command, properties, text in found if command == "warning"]
    assert len(warnings) == 10
    assert warnings[8][0]["file"] == "8.yaml"
    assert warnings[9] == ({}, "2 more, see the log or the summary of this step")
    assert len([one for one in found if one[0] == "notice"]) == 10


def test_no_text_of_a_config_is_a_link_or_a_placeholder_of_sarif(reports, tree):
    """SARIF 2.1.0, 3.11.5 and 3.11.6: brackets are escaped, braces doubled."""
    tree.config("a.yaml", 500, r"'[Approve](https://example.org) {0} a\\b': 1")
    (run,) = json.loads(reports("a.yaml", options=())[0]["sarif"])["runs"]
    (text,) = (each["message"]["text"] for each in run["results"] if each["ruleId"] == "DPC101")
    assert r"`\[Approve\](https://example.org) {{0}} a" + "\\" * 4 + "b`" in text


@pytest.mark.usefixtures("fresh_caches")
@pytest.mark.parametrize(
    ("stated", "known"), [("https://example.org/docs/rules.md", True), ("javascript:alert(1)", False), ("", False)]
)
def test_codes_lead_to_the_rules_page_where_its_address_is_known(
    dpcalc, everything, reports, monkeypatch, stated, known
):
    page = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
    heads = re.findall("^## (.*)$", page, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}  # as GitHub makes them
    monkeypatch.setenv("DPCALC_RULES", stated)
    for head in heads:  # `explain` ends with the address
        address = dpcalc("explain", head.partition(":")[0]).out.split()[-1]
        assert (address.partition("#")[0] == stated and address.partition("#")[2] in anchors) is known
    texts, _ = reports(*everything)
    (run,) = json.loads(texts["sarif"])["runs"]
    uris = [rule.get("helpUri") for rule in run["tool"]["driver"]["rules"]]
    assert all((uri or "").startswith(f"{stated}#dpc") is known for uri in uris)
    assert (f"[DPC301]({stated}#dpc301-over-budget)" in texts["markdown"]) is known
