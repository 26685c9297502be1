import json
from pathlib import Path

import pytest

from tests.cli.running import CONFIG
from tests.cli.stand_in import CRASHING, INFINITE, NOT_A_NUMBER, STUCK


def test_all_within_budget(dpcalc, config):
    path = config()
    ended = dpcalc("check", path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"{path}: passed, epsilon 0.500 of 2.0, 25.0% used\nchecked 1 file: 1 passed\n"


def test_over_budget_is_found_where_the_budget_stands(dpcalc, config):
    path = config(steps=2020)
    ended = dpcalc("check", path)
    assert ended.code == 1
    message = "epsilon 2.02 exceeds the budget 2.0 (unit example, delta 1e-05)"
    assert f"{path}:8:10: error[DPC301]: {message}\n" in ended.out
    assert ended.out.endswith("checked 1 file: 1 failed\n")


@pytest.mark.parametrize(
    ("steps", "budget", "code"),
    [
        (1999, "budget: {epsilon: 2.0}", 0),
        (2000, "budget: {epsilon: 2.0}", 0),
        (2001, "budget: {epsilon: 2.0}", 1),
        (INFINITE, "budget: {epsilon: 2.0}", 1),
        (INFINITE, "", 1),
        (NOT_A_NUMBER, "budget: {epsilon: 2.0}", 3),
        (NOT_A_NUMBER, "", 3),
        (CRASHING, "budget: {epsilon: 2.0}", 3),
        (STUCK, "budget: {epsilon: 2.0}", 3),
        (500, "budget: {epsilon: two}", 2),
        (500, "", 0),
    ],
)
def test_exit_codes(dpcalc, config, steps, budget, code):
    assert dpcalc("check", config(steps=steps, budget=budget)).code == code


@pytest.mark.parametrize(
    ("steps", "code"),
    [((500, 5000), 1), ((5000, "x"), 2), (("x", CRASHING), 3), ((STUCK, 5000, 500), 3), ((CRASHING, 500), 3)],
)
def test_several_files_the_worst_decides_and_all_are_told(dpcalc, config, steps, code):
    paths = [config(steps=one, file=f"{number}.yaml") for number, one in enumerate(steps)]
    ended = dpcalc("check", *paths)
    assert ended.code == code
    verdicts = [line for line in ended.out.splitlines() if line.split(": ")[0] in paths]
    assert len(verdicts) >= len(paths)
    assert f"checked {len(paths)} files: " in ended.out


@pytest.mark.parametrize(("steps", "code"), [(500, 0), (5000, 0), ("x", 2), (CRASHING, 3)])
def test_exit_zero_forgives_only_no(dpcalc, config, steps, code):
    assert dpcalc("check", config(steps=steps), "--exit-zero").code == code


def test_nothing_to_check(dpcalc):
    ended = dpcalc("check")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: nothing to check: expected one or more config files, got none: here, up to the")
    assert "is no dpcalc.yaml or dpcalc.yml, and no `configs = [PATTERN, ...]` below [tool.dpcalc]" in ended.err
    allowed = dpcalc("check", "--allow-empty")
    assert (allowed.code, allowed.out) == (0, "checked 0 files\n")


def test_a_missing_budget(dpcalc, config):
    path = config(budget="")
    ended = dpcalc("check", path)
    assert ended.code == 0
    assert "warning[DPC304]" in ended.out
    required = dpcalc("check", path, "--require-budget")
    assert required.code == 1
    assert "error[DPC304]" in required.out


def test_the_strictest_limit(dpcalc, config):
    path = config()
    assert dpcalc("check", path, "--max-epsilon", "0.5").code == 0
    ended = dpcalc("check", path, "--max-epsilon", "0.4")
    assert ended.code == 1
    assert "exceeds --max-epsilon 0.4 " in ended.out


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "two", ""])
def test_a_limit_is_a_finite_number(dpcalc, config, text):
    ended = dpcalc("check", config(), "--max-epsilon", text)
    assert ended.code == 2
    assert "'--max-epsilon': expected a finite number >= 0" in ended.err


def test_json(dpcalc, config):
    path = config(steps=2020)
    for option in (["--json"], ["--report", "json"]):
        ended = dpcalc("check", path, *option)
        document = json.loads(ended.out)
        assert ended.code == 1
        assert set(document) == {"schema", "version", "command", "results", "verdict"}
        assert document["verdict"] == "failed"
        (result,) = document["results"]
        assert (result["path"], result["verdict"]) == (path, "failed")
        assert result["guarantee"]["epsilon"] == 2.02
        (finding,) = result["findings"]
        assert (finding["code"], finding["level"], finding["line"], finding["column"]) == ("DPC301", "error", 8, 10)


@pytest.mark.parametrize(("steps", "code"), [(2020, 2), (500, 2), (CRASHING, 3)])
def test_a_report_that_cannot_be_written_hides_nothing_graver(dpcalc, config, tmp_path, steps, code):
    assert dpcalc("check", config(steps=steps), "--report", f"json={tmp_path}").code == code


def test_a_report_that_cannot_be_written(dpcalc, config, tmp_path):
    path = config(steps=2020)
    ended = dpcalc("check", path, "--report", f"json={tmp_path}", "--report", "text")
    assert ended.code == 2
    assert f"--report json={tmp_path}: cannot write it" in ended.err
    assert ended.out.endswith("checked 1 file: 1 failed\n")


@pytest.mark.parametrize("options", [("--json", "--report", "text"), ("--report", "text", "--report", "json=-")])
def test_two_reports_cannot_share_standard_output(dpcalc, config, options):
    ended = dpcalc("check", config(), *options)
    assert ended.code == 2
    assert "at most one on standard output" in json.loads(ended.out)["error"]["message"]
    assert "at most one on standard output" in ended.err


def test_a_name_of_a_file_cannot_steer_a_terminal(dpcalc, config):
    path = config(file="\x1b[31m[bold]\u202e.yaml")
    assert Path(path).exists()
    ended = dpcalc("check", path)
    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert "\\x1b[31m[bold]\\u202e.yaml: passed" in ended.out


def test_a_crash_of_one_file_is_told_in_short(dpcalc, config, monkeypatch):
    path = config(steps=CRASHING)
    ended = dpcalc("check", path)
    assert "error[DPC999]: internal error: ZeroDivisionError: division \\x1b[31m by zero" in ended.out
    assert "DPCALC_TRACEBACK=1" in ended.out
    assert ended.err == ""
    monkeypatch.setenv("DPCALC_TRACEBACK", "1")
    assert "Traceback" in dpcalc("check", path).err


def test_validate(dpcalc, config):
    good, bad = config(), config(steps="x", file="b.yaml")
    ended = dpcalc("validate", good, bad)
    assert ended.code == 2
    assert ended.out.startswith(f"{good}: passed\n{bad}: invalid\n{bad}:6:")
    assert ended.out.endswith("read 2 files: 1 invalid, 1 passed\n")
    assert dpcalc("validate", good).code == 0
    assert [one["verdict"] for one in json.loads(dpcalc("validate", good, bad, "--json").out)["results"]] == [
        "passed",
        "invalid",
    ]


def policy(folder, text):
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_policy(dpcalc, config, tmp_path):
    path = config(steps=1900)
    assert dpcalc("check", path, "--policy", policy(tmp_path, "max_epsilon = 1.9")).code == 0
    over = dpcalc("check", path, "--policy", policy(tmp_path, "max_epsilon = 1.8"), "--max-epsilon", "1.85")
    assert over.code == 1
    assert "epsilon 1.90 exceeds max_epsilon of policy.toml 1.8 " in over.out
    stricter = dpcalc("check", path, "--policy", policy(tmp_path, "max_epsilon = 1.8"), "--max-epsilon", "1.7")
    assert "exceeds --max-epsilon 1.7 " in stricter.out
    assert dpcalc("check", config(budget=""), "--policy", policy(tmp_path, "require_budget = true")).code == 1
    assert dpcalc("check", path, "--policy", policy(tmp_path, "max_epsilom = 9")).code == 2
    assert dpcalc("check", path, "--policy", "").code == 2


def test_a_policy_of_the_project_is_found(dpcalc, config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.dpcalc.policy]\nmax_epsilon = 0.4\n", encoding="utf-8")
    ended = dpcalc("check", config())
    assert ended.code == 1
    assert "exceeds max_epsilon of pyproject.toml 0.4 " in ended.out


@pytest.mark.parametrize(("steps", "warned"), [(1800, False), (1801, True)])
def test_a_share_of_the_budget_is_worth_a_warning(dpcalc, config, tmp_path, steps, warned):
    named = policy(tmp_path, "warn_at_pct = 90")
    ended = dpcalc("check", config(steps=steps), "--policy", named)
    assert (ended.code, "warning[DPC302]" in ended.out) == (0, warned)
    assert dpcalc("check", config(steps=steps), "--policy", named, "--strict").code == int(warned)


def test_strict_fails_a_warning_and_says_which(dpcalc, config, tmp_path):
    for path in (config(budget=""), config(file="b.yaml")):
        large = [] if "b.yaml" not in path else ["--delta", "0.001"]  # what the config layer warns of counts as well
        assert dpcalc("check", path, *large).code == 0
        assert dpcalc("check", path, *large, "--strict").code == 1
    path = config(budget="")
    assert dpcalc("check", path, "--policy", policy(tmp_path, "strict = true")).code == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--steps", "2001"], 1),
        (["--set", "training.steps=2001"], 1),
        (["--unset", "budget"], 0),
        (["--delta", "two"], 2),
        (["--unset", "nothing"], 2),
    ],
)
def test_what_overrides_a_config_overrides_every_config(dpcalc, config, options, code):
    paths = config(), config(file="b.yaml")
    ended = dpcalc("check", *paths, *options, "--json")
    assert ended.code == code
    assert len({one["verdict"] for one in json.loads(ended.out)["results"]}) == 1
    assert dpcalc("validate", *paths, *options).code == (2 if code == 2 else 0)


def test_what_would_fit(dpcalc, config):
    paths = [config(steps=2000 + number, file=f"{number}.yaml") for number in range(1, 13)]
    ended = dpcalc("check", *paths, "--json")
    fits = [one["fits"]["steps"] for one in json.loads(ended.out)["results"]]
    assert fits == [2000] * 10 + [None] * 2
    assert "  = to fit: steps <= 2000\n" in dpcalc("check", paths[0]).out


def test_files_come_before_standard_output_and_all_formats_are_written(dpcalc, config, tmp_path):
    names = ("text", "concise", "json", "github", "gitlab", "junit", "sarif", "markdown")
    wanted = [word for name in names for word in ("--report", f"{name}={tmp_path / name}")]
    ended = dpcalc("check", config(steps=2020), *wanted, "--report", "concise")
    assert ended.code == 1
    assert ended.out.startswith(config(steps=2020))
    written = {name: (tmp_path / name).read_text(encoding="utf-8") for name in names}
    assert all("DPC301" in text for text in written.values())
    assert len(set(written.values())) == len(names)
    assert written["concise"] == ended.out


def test_a_report_of_an_earlier_run_does_not_outlive_a_crash(dpcalc, config, tmp_path, monkeypatch):
    report = tmp_path / "dpcalc.json"
    wanted = ("--report", f"json={report}")
    assert dpcalc("check", config(), *wanted).code == 0
    assert report.exists()
    monkeypatch.setattr("dpcalc.cli.gate.GateAnswer", lambda *_, **__: 1 / 0)
    assert dpcalc("check", config(), *wanted).code == 3
    assert not report.exists()


def test_a_step_of_github_gets_a_summary(dpcalc, config, tmp_path, monkeypatch):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    dpcalc("check", config(steps=2020))
    assert summary.read_text(encoding="utf-8") == "before\n"
    dpcalc("check", config(steps=2020), "--report", "github")
    assert summary.read_text(encoding="utf-8").startswith("before\n**dpcalc check: failed**")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    ended = dpcalc("check", config(steps=2020), "--report", "github")
    assert ended.code == 1
    assert "GITHUB_STEP_SUMMARY: cannot write it" in ended.err


def test_reports_name_files_from_the_top_of_the_repository(dpcalc, config, tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    config(steps=2020, file="sub/a.yaml")
    monkeypatch.chdir(tmp_path / "sub")
    assert "::error file=sub/a.yaml,line=8,col=10,title=DPC301 " in dpcalc("check", "a.yaml", "--report", "github").out
    (entry,) = json.loads(dpcalc("check", "a.yaml", "--report", "gitlab").out)
    assert entry["location"] == {"path": "sub/a.yaml", "lines": {"begin": 8}}


def test_no_budget_is_no_pass_for_people(dpcalc, config):
    """What passes because nothing limits it says so, and is counted apart; in JSON it passes as before."""
    path, other = config(), config(file="other.yaml", budget="")
    ended = dpcalc("check", path, other)
    lines = ended.out.splitlines()
    assert (ended.code, lines[0].startswith(f"{path}: passed, epsilon")) == (0, True)
    assert f"{other}: no budget, epsilon 0.500" in lines
    assert lines[-1] == "checked 2 files: 1 passed, 1 without a budget, 1 warning"
    assert "| no budget | 0.500 |  |" in dpcalc("check", path, other, "--report", "markdown").out
    _, result = json.loads(dpcalc("check", path, other, "--json").out)["results"]
    assert (result["verdict"], result["budget"]) == ("passed", None)


@pytest.mark.parametrize("length", ["steps: 0", "epochs: 0", "epochs: 0.0"])
def test_a_run_without_steps_is_a_warning(dpcalc, tmp_path, length):
    text = CONFIG.format(name="run", steps=1, budget="budget: {epsilon: 1}").replace("steps: 1", length)
    text = text.replace("batch_size: 256, ", "").replace("scheme: poisson", "scheme: poisson, rate: 0.01")
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    ended = dpcalc("check", str(path))
    assert (ended.code, "warning[DPC210]" in ended.out) == (0, True)
    assert ended.out.endswith("checked 1 file: 1 passed, 1 warning\n")
    assert dpcalc("check", str(path), "--strict").code == 1
    assert "DPC210" in dpcalc("epsilon", str(path)).err
