"""Names and values that try to steer a terminal, a log, a web page or a parser: through every command and report."""

import json
import re
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from dpcalc.cli.app import run
from dpcalc.report.gate import REPORTS
from tests.thinning import thinned

STEERING = "\x1b[2J\x1b]0;title\x07\x9b31m\r\u202e\u2066\u200b\u2028"
COMMANDS = ["::error::injected", "::add-mask::x", "##[error]injected", "##vso[task.complete result=Succeeded;]done"]
PRINTABLE = (
    "<script>x</script> ![i](http://e.vil) `c` | ]]> <!-- @team %0A::error::b {{ x }} $x$ $(x) 'q' \"d\" \\ [/b] {0}"
)
CONFIG = """\
version: 1
name: {name}
data: {{levels: [{{name: user, count: 100}}, {{name: example, count: 5}}]}}
sampling: {{user: {{scheme: all}}}}
mechanism: {{noise_multiplier: 30, clip: user}}
phases:
  - {{name: {phase}, training: {{steps: 2}}}}
  - {{name: two, training: {{steps: 1}}}}
privacy: {{unit: user, adjacency: add-remove, delta: 1e-5}}
budget: {{epsilon: {budget}}}
x-comment: {comment}
"""
# What is wrong in a file echoes what stands there: keys, values, references, whole lines.
BROKEN = [
    "{hostile}: 1",
    "version: {hostile}",
    "version: 1\nname: {hostile}",
    "version: 1\ndata: {{levels: [{{name: {hostile}, count: 1}}]}}",
    "version: 1\nsampling: {{{hostile}: {{scheme: all}}}}",
    "version: 1\nsampling: {{scheme: {hostile}}}",
    "version: 1\nprivacy: {{unit: {hostile}}}",
    "version: 1\nmechanism: {{type: {hostile}, clip: {hostile}}}",
    "version: 1\ntraining: {{steps: {hostile}}}",
    "version: 1\nphases: [{{name: {hostile}}}, {{name: {hostile}}}]",
    "version: 1\ndata: {{tree: {{file: {hostile}}}}}",
    "version: 1\nrequires: {hostile}",
    "{hostile}: [",
]


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A git repository of somebody else's, as the current directory."""
    for name in ("GITHUB_STEP_SUMMARY", "DPCALC_CONFIG", "DPCALC_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.fixture
def dpcalc(capsys):
    """Run a command; nothing that it says may steer anything."""

    def ran(*arguments, harmless=True):
        capsys.readouterr()
        code = run(arguments)
        out, err = capsys.readouterr()
        assert "DPC999" not in out + err
        if harmless:
            assert_harmless(out)
        assert_harmless(err)
        return SimpleNamespace(code=code, out=out, err=err)

    return ran


def assert_harmless(text):
    """No character that a terminal obeys, no line that a runner obeys."""
    for line in text.split("\n"):
        assert line.isprintable(), line
        assert not line.lstrip().startswith("::"), line
        assert not re.search(r"##\w*\[", line), line


def quoted(text):
    return json.dumps(text)


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("hostile", [COMMANDS[0], COMMANDS[3], PRINTABLE, STEERING])
def test_messages_about_a_broken_file(repository, dpcalc, broken, hostile):
    (repository / "a.yaml").write_text(broken.format(hostile=quoted(hostile)), encoding="utf-8")
    assert dpcalc("epsilon", "a.yaml").code == 2
    assert dpcalc("validate", "a.yaml", "--json").code == 2


@pytest.mark.parametrize("hostile", [*COMMANDS, PRINTABLE])
def test_raw_lines_are_shown_without_power(repository, dpcalc, hostile):
    for text in (f"{hostile}\nx: [", f"# {hostile}\nversion: 1\n  {hostile}: x", f"version: 1\nx: {{y: {hostile}"):
        (repository / "a.yaml").write_text(text, encoding="utf-8")
        assert dpcalc("check", "a.yaml").code == 2


@pytest.mark.parametrize("form", REPORTS)
@pytest.mark.parametrize("budget", thinned(["0.01", "9"], 1))
def test_reports_on_a_valid_file(repository, dpcalc, form, budget):
    names = {"name": quoted(PRINTABLE), "phase": quoted(f"p {PRINTABLE}"), "comment": quoted(STEERING + COMMANDS[0])}
    (repository / "a.yaml").write_text(CONFIG.format(budget=budget, **names), encoding="utf-8")
    (repository / f"{PRINTABLE.replace('/', '_')}.yaml").write_text("version: [", encoding="utf-8")
    ended = dpcalc(
        "check", "a.yaml", f"{PRINTABLE.replace('/', '_')}.yaml", "--report", form, harmless=form != "github"
    )
    assert ended.code == 2
    PARSED[form](ended.out)


FILES = ["::error::a.yaml", "##[error]b.yaml", "\x1b[31mc\u202e.yaml", "a\n::error::d.yaml"]


@pytest.mark.parametrize("form", REPORTS)
def test_reports_on_files_with_such_names(repository, dpcalc, form):
    for name in FILES:
        (repository / name).write_text(CONFIG.format(name="n", phase="p", comment="c", budget="9"), encoding="utf-8")
    ended = dpcalc("check", "--report", form, "--", *FILES, harmless=form != "github")
    assert ended.code == 0
    PARSED[form](ended.out)


def annotations(text):
    """The commands of the GitHub report: the tool's own, each with one known property after the other."""
    for line in text.split("\n"):
        assert line.isprintable()
        assert not re.search(r"##\w*\[", line)
        if line.lstrip().startswith("::"):
            assert re.fullmatch(r"::(error|warning|notice)( \w+=[^:,]*(,\w+=[^:,]*)*)?::.*", line), line


def code_quality(text):
    assert all(one["location"]["path"] for one in json.loads(text))


def markdown(text):
    """Outside of code nothing is left of what a file says."""
    plain = re.sub(r"(`{3,})text\n.*?\n\1", "", text, flags=re.DOTALL)
    plain = re.sub(r"(`+).*?\1", "", plain)
    assert not re.search(r"[<@]|!\[", plain)


PARSED = {
    "text": str,
    "concise": str,
    "json": json.loads,
    "github": annotations,
    "gitlab": code_quality,
    "junit": ET.fromstring,
    "sarif": json.loads,
    "markdown": markdown,
}


def test_every_format_is_parsed_here():
    assert PARSED.keys() == REPORTS.keys()


ONE_CONFIG = [
    ["epsilon", "-v"],
    ["epsilon", "--json"],
    ["epsilon", "--format", "markdown"],
    ["epsilon", "--format", "csv"],
    ["compare"],
    ["delta", "--epsilon", "1"],
    ["solve-sigma", "--target-eps", "1"],
    ["show"],
    ["statement", "--format", "markdown"],
    ["statement", "--format", "registry"],
    ["statement", "--format", "latex"],
    ["statement", "--format", "html"],
    ["ledger", "add", "--dry-run", "l.yaml"],
    ["lock"],
    ["simulate", "--draws", "50"],
]


@pytest.mark.parametrize("command", ONE_CONFIG, ids=" ".join)
def test_answers_about_a_valid_file(repository, dpcalc, command):
    names = {"name": quoted(PRINTABLE), "phase": quoted(PRINTABLE[:60]), "comment": quoted(STEERING)}
    (repository / "a.yaml").write_text(CONFIG.format(budget="9", **names), encoding="utf-8")
    ended = dpcalc(*command, "a.yaml")
    assert ended.code == 0
    if {"markdown", "registry"} & set(command):  # the registry shows its texts as Markdown
        assert not re.search(r"(?<!\\)<(?!!-- -->)|@(?!<!-- -->)|(?<!\\)!\[", ended.out)


@pytest.mark.parametrize("hostile", [*COMMANDS, STEERING])
def test_names_that_steer_are_no_names(repository, dpcalc, hostile):
    text = CONFIG.format(name=quoted(hostile), phase="p", comment="c", budget="9")
    (repository / "a.yaml").write_text(text, encoding="utf-8")
    assert dpcalc("validate", "a.yaml").code == 2


@pytest.mark.parametrize("hostile", [*COMMANDS, PRINTABLE, STEERING.replace("\u2028", "")])
def test_a_policy_and_a_lock_file(repository, dpcalc, hostile):
    (repository / "a.yaml").write_text(CONFIG.format(name="n", phase="p", comment="c", budget="9"), encoding="utf-8")
    for text in (
        f"[tool.dpcalc.policy]\n{quoted(hostile)} = 1\n",
        f"[tool.dpcalc.policy]\nmax_epsilon = {quoted(hostile)}\n",
        hostile,
    ):
        (repository / "pyproject.toml").write_text(text, encoding="utf-8")
        assert dpcalc("check", "a.yaml").code == (0 if text.startswith("##") else 2)  # a comment of TOML
    (repository / "pyproject.toml").unlink()
    for text in (
        hostile,
        json.dumps({hostile: 1}),
        json.dumps({"version": 1, "configs": {hostile: {"hash": hostile}}}),
    ):
        (repository / "dpcalc.lock").write_text(text, encoding="utf-8")
        assert dpcalc("check", "a.yaml", "--locked").code in {1, 2}
        assert dpcalc("lock", "--check", "a.yaml").code in {1, 2}


@pytest.mark.parametrize("hostile", [*COMMANDS, PRINTABLE, STEERING])
def test_scanned_folders_and_manifests(repository, dpcalc, hostile):
    name = hostile.replace("/", "_")
    (repository / "data" / name / "b").mkdir(parents=True)
    (repository / "data" / name / "b" / f"{name}.txt").write_text("")
    (repository / "data" / "loop").symlink_to(".")
    (repository / "data" / f"link {name}").symlink_to("..")
    assert dpcalc("scan", "data", "--levels", "user,-,example", "-o", "-").code in {0, 2}
    (repository / "m.csv").write_text(f"{quoted(hostile)},b\n{quoted(hostile)},1\n,\n", encoding="utf-8")
    assert dpcalc("scan", "m.csv", "--levels", "user,example", "--columns", hostile).code in {0, 2}
    assert dpcalc("scan", "m.csv", "--levels", f"{hostile},example", "--columns", "b").code == 2
