"""The GitHub action: its metadata is valid, and nothing that it is given becomes a part of a script."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCHEMA = Path(__file__).with_name("schemas") / "github-action.json"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
GIVEN = {"configs", "base", "policy", "max-epsilon", "require-budget", "locked", "strict", "timeout", "reports"}
STAND_IN = '#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done > "$RECORD"\nexit "${CODE:-0}"\n'


def test_the_metadata_is_valid():
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(ACTION)


def test_scripts_hold_no_expression():
    scripts = [step["run"] for step in STEPS if "run" in step]
    assert len(scripts) == 2
    assert not [script for script in scripts if "${{" in script]


def test_every_input_arrives_through_the_environment():
    arriving = {value: name for name, value in STEPS[-1]["env"].items()}
    assert set(ACTION["inputs"]) == {*GIVEN, "python-version"}
    for name in GIVEN:
        assert arriving[f"${{{{ inputs.{name} }}}}"] == f"DPCALC_{name.upper().replace('-', '_')}"


@pytest.fixture
def action(tmp_path):
    """Run the script of the last step with inputs, a recorder in the place of dpcalc."""
    command = tmp_path / "runner" / "dpcalc" / "bin" / "dpcalc"
    command.parent.mkdir(parents=True)
    command.write_text(STAND_IN, encoding="utf-8")
    command.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()

    def ran(code=0, **inputs):
        defaults = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}
        given = {name: defaults[name] for name in GIVEN} | {name.replace("_", "-"): one for name, one in inputs.items()}
        env = {f"DPCALC_{name.upper().replace('-', '_')}": one for name, one in given.items()}
        record = tmp_path / "record"
        record.unlink(missing_ok=True)
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[-1]["run"]],  # as GitHub runs it
            cwd=work,
            env={
                "PATH": os.environ["PATH"],
                "RUNNER_TEMP": str(tmp_path / "runner"),
                "RECORD": str(record),
                "CODE": str(code),
            }
            | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        words = record.read_bytes().decode().split("\0")[:-1] if record.exists() else None
        return ended, words

    ran.work = work
    return ran


def test_without_inputs_dpcalc_finds_the_configs(action):
    _, words = action()
    assert words == ["check", "--report", "github", "--timeout=600", "--"]


def test_every_input_becomes_an_option(action):
    _, words = action(
        configs="a.yaml\nb c.yaml\n",
        base="origin/main",
        policy="policy.toml",
        max_epsilon="3",
        require_budget="true",
        locked="true",
        strict="true",
        timeout="60",
        reports="sarif=a.sarif\njunit=b.xml\n",
    )
    assert words == [
        *("check", "--report", "github", "--base=origin/main", "--policy=policy.toml", "--max-epsilon=3"),
        *("--timeout=60", "--require-budget", "--locked", "--strict", "--report=sarif=a.sarif", "--report=junit=b.xml"),
        *("--", "a.yaml", "b c.yaml"),
    ]


@pytest.mark.parametrize("code", [1, 2, 3])
def test_the_exit_code_is_that_of_dpcalc(action, code):
    assert action(code=code)[0].returncode == code


def test_patterns_name_files_also_with_blanks(action):
    for name in ("a.yaml", "b c.yaml", "-x.yaml", "$(touch injected).yaml"):
        (action.work / name).write_text("")
    _, words = action(configs="*.yaml")
    assert sorted(words[words.index("--") + 1 :]) == ["$(touch injected).yaml", "-x.yaml", "a.yaml", "b c.yaml"]
    assert action(configs="none*.yaml")[1][-1] == "none*.yaml"  # dpcalc says that there is no such file
    assert not (action.work / "injected").exists()


HOSTILE = [
    '"; touch injected; "',
    "$(touch injected)",
    "`touch injected`",
    "a' && touch injected && '",
    "-x",
    "a;b|c>injected",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["configs", "base", "policy", "max_epsilon", "timeout", "reports"])
def test_inputs_are_words_and_nothing_else(action, name, text):
    _, words = action(**{name: text})
    option = {"configs": "", "reports": "--report="}.get(name, f"--{name.replace('_', '-')}=")
    assert f"{option}{text}" in words
    assert not (action.work / "injected").exists()


@pytest.mark.parametrize("text", ["yes", "$(touch injected)", "true; touch injected", ""])
def test_a_switch_is_true_or_false(action, text):
    ended, words = action(strict=text)
    assert (ended.returncode, words) == (2, None)
    assert not (action.work / "injected").exists()


def test_the_options_exist():
    told = subprocess.run(
        [sys.executable, "-m", "dpcalc", "check", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout
    for option in re.findall(r"(?:option|flag) (--[\w-]+)", STEPS[-1]["run"]):
        assert option in told
