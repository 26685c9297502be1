"""The comment on a pull request: of a report made by somebody, our rows alone; the event says which request."""

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.distribution.test_action import SCHEMA
from tests.report.test_formats import ATTACKS, attacked, everything, reports, tree  # noqa: F401  fixtures
from tests.report.test_golden import GOLDEN
from tests.thinning import thinned

ACTION = Path(__file__).parents[2] / "comment"
MARKDOWN = (GOLDEN / "check_markdown.txt").read_text(encoding="utf-8")
ROWS = yaml.safe_load(Path(__file__).with_name("comment.yaml").read_text(encoding="utf-8"))
EVENT, PULLS, OTHERS, OURS = (ROWS[name] for name in ("event", "pulls", "others", "ours"))
GH = """#!{python}
import json, pathlib, sys
answers = json.loads(pathlib.Path("answers").read_text())
with open("asked", "a") as asked:
    asked.write(json.dumps(sys.argv[1:]) + "\\n")
path = sys.argv[2].partition("?")[0].removeprefix("repos/us/repo/")
answer = pathlib.Path("zip").read_bytes() if path.endswith("/zip") else json.dumps(answers[path]).encode()
sys.stdout.buffer.write(answer)
"""


def archive(*files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in files:
            packed.writestr(name, data)
    return stream.getvalue()


@pytest.fixture
def posted(tmp_path):
    """Run the script with a stand-in of `gh`; return what it posted, as (method, path, body), and how it ended."""
    gh = tmp_path / "bin" / "gh"
    gh.parent.mkdir()
    gh.write_text(GH.format(python=sys.executable), encoding="utf-8")
    gh.chmod(0o755)

    def ran(report="", *, event=EVENT, pulls=PULLS, comments=(), packed=None):
        (tmp_path / "asked").unlink(missing_ok=True)
        (tmp_path / "event.json").write_text(json.dumps(event), encoding="utf-8")
        (tmp_path / "zip").write_bytes(archive(("dpcalc.md", report)) if packed is None else packed)
        answers = {"pulls": pulls, "actions/runs/9/artifacts": {"artifacts": [{"id": 5}]}, "issues/comments/3": {}}
        (tmp_path / "answers").write_text(json.dumps(answers | {"issues/7/comments": [[*OTHERS], [*comments]]}))
        env = {"PATH": f"{gh.parent}:{os.environ['PATH']}", "GITHUB_EVENT_PATH": str(tmp_path / "event.json")}
        command = [sys.executable, "-I", str(ACTION / "comment.py")]
        env["DPCALC_ARTIFACT"] = "dpcalc-report"
        ended = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60)
        asked = tmp_path / "asked"
        calls = [json.loads(line) for line in asked.read_text().splitlines()] if asked.exists() else []
        assert not (tmp_path / "x").exists()
        return [(call[3], call[1], call[5].removeprefix("body=")) for call in calls if "--method" in call], ended

    return ran


@pytest.mark.heavy
def test_the_table_is_one_comment_at_the_pull_request_of_the_event(posted, everything, reports, monkeypatch):  # noqa: F811
    monkeypatch.setenv("DPCALC_RULES", "https://example.org/rules.md")
    report = reports(*everything)[0]["markdown"]
    for comments, place in (([], ("POST", "issues/7/comments")), ([OURS], ("PATCH", "issues/comments/3"))):
        ((method, path, body),), _ = posted(report, comments=comments)
        assert (method, path) == (place[0], f"repos/us/repo/{place[1]}")
    assert body.startswith("<!-- dpcalc -->\n**dpcalc: undecided**, checked 9 files: 1 undecided,")
    assert body.count("\n| `") == len(everything)
    assert "| `conf/risen.yaml` | failed | 1.00 | 2.30 | 2.0 | DPC301, DPC303, " in re.sub(
        r"\[(DPC\d+)\]\(.*?\)", r"\1", body
    )
    assert "`training.steps: 1000 -> 2300`, and 1 more |" in body
    assert "[the run](https://github.com/us/repo/actions/runs/9)" in body
    assert "more in the run" not in body


@pytest.mark.parametrize("text", thinned(ATTACKS, 8))
def test_texts_of_files_stay_code(posted, attacked, text):  # noqa: F811
    ((_, _, body),), _ = posted(attacked(text)[0]["markdown"])
    assert body.count("\n| `") == 4 or body.endswith(" 4 more in the run.")  # with characters that nothing shows


ROW = "| `a.yaml` | failed | 1 | 2 | 2.0 | DPC301 |"
HEAD = "**dpcalc check: passed**, checked 1 file: 1 passed"


@pytest.mark.heavy
@pytest.mark.parametrize("line", [*ROWS["lines"], ROW.replace("a.yaml", "a" * 500)])
def test_no_other_line_of_a_report_is_posted(posted, line):
    ((_, _, body),), _ = posted(f"{HEAD}\n\n{ROW}\n{line}\n")
    lines = body.split("\n")
    assert [each for each in lines if each.startswith("| `")] == [ROW]
    assert len(lines) == 8 - (not lines[-1])
    assert line not in body.replace(ROW, "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"report": "x" * 60_001}, "expected at most 60000 bytes"),
        ({"report": "@everyone"}, "expected the Markdown report"),
        ({"report": f"{HEAD} @everyone"}, "expected the Markdown report"),
        ({"packed": os.urandom(1_000_001)}, "expected at most 1000000 bytes"),
        ({"packed": b"no archive"}, "expected an archive with one file"),
        ({"packed": archive(("a", "x"), ("b", "x"))}, "expected an archive with one file"),
        ({"packed": archive(("a", b"0" * 500_000_000))}, "expected at most 60000 bytes"),
    ],
)
def test_what_is_no_report_posts_nothing(posted, given, said):
    calls, ended = posted(**given)
    assert (calls, ended.returncode) == ([], 1)
    assert said in ended.stderr


def run(**changes):
    return EVENT | {"workflow_run": EVENT["workflow_run"] | changes}


@pytest.mark.parametrize(
    "given",
    [
        {"event": run(event="push")},
        {"event": run(head_repository=None)},
        {"event": run(head_sha="older than the last commit")},
        {"pulls": []},
    ],
)
def test_a_run_of_no_open_pull_request_posts_nothing(posted, given):
    calls, ended = posted(MARKDOWN, **given)
    assert (calls, ended.returncode) == ([], 0)
    assert "no comment: " in ended.stdout


def test_fifty_rows_are_posted_and_the_others_counted(posted):
    rows = "\n".join(ROW.replace("a.yaml", f"{number}.yaml") for number in range(60))
    ((_, _, body),), _ = posted(f"{HEAD}\n\n{rows}\n")
    assert body.count("\n| `") == 50
    assert "10 more in the run." in body


def test_the_action_hands_nothing_to_a_shell():
    action = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(action)
    (step,) = action["runs"]["steps"]
    assert step["run"] == 'python3 -I "$DPCALC_COMMENT"'
    assert step["env"]["DPCALC_ARTIFACT"] == "${{ inputs.artifact }}"
