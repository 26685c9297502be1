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
GIVEN = {
    *("configs", "base", "policy", "max-epsilon", "require-budget", "locked", "strict", "timeout", "memory-limit"),
    "reports",
}
LIMITS = ("--timeout=600", "--memory-limit=4")
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
    command = tmp_path / "runner" / "dpcalc" / "bin" / "python"
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
        if words is not None:
            assert words[:3] == ["-I", "-m", "dpcalc"]
        return ended, words and words[3:]

    ran.work = work
    return ran


def test_without_inputs_dpcalc_finds_the_configs(action):
    _, words = action()
    assert words == ["check", "--report", "github", *LIMITS, "--"]


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
        memory_limit="2",
        reports="sarif=a.sarif\njunit=b.xml\n",
    )
    assert words == [
        *("check", "--report", "github", "--base=origin/main", "--policy=policy.toml", "--max-epsilon=3"),
        *("--timeout=60", "--memory-limit=2", "--require-budget", "--locked", "--strict"),
        *("--report=sarif=a.sarif", "--report=junit=b.xml"),
        *("--", "a.yaml", "b c.yaml"),
    ]


@pytest.mark.parametrize("code", [1, 2, 3])
def test_the_exit_code_is_that_of_dpcalc(action, code):
    assert action(code=code)[0].returncode == code


def test_patterns_are_left_to_dpcalc(action):
    """A shell would expand `**` by its own rules, split names at line breaks, and know nothing of the base."""
    for name in ("a.yaml", "b c.yaml", "d\ne.yaml"):
        (action.work / name).write_text("")
    patterns = ["*.yaml", "cf/**/*.yaml", "[ab]?.yaml", " a b.yaml ", "~/x.yaml", "e\\f.yaml"]
    _, words = action(configs="\n".join(patterns))
    assert words[words.index("--") + 1 :] == patterns


@pytest.mark.heavy
def test_dpcalc_reaches_every_directory_and_name(tmp_path):
    paths = [
        "cf/top.yaml",
        "cf/a/mid.yaml",
        "cf/a/b/deep.yaml",
        "cf/a/b/c/deeper.yaml",
        "cf/li\nne.yaml",
        "cf/ b .yaml",
    ]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("version: 1\n", encoding="utf-8")
    command = [sys.executable, "-P", "-m", "dpcalc", "validate", "--json", "--", "cf/**/*.yaml"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert sorted(one["path"] for one in json.loads(ended.stdout)["results"]) == sorted(paths)


@pytest.mark.parametrize("name", ["base", "policy", "max_epsilon", "timeout", "memory_limit"])
def test_an_empty_input_switches_nothing_off(action, name):
    ended, words = action(**{name: ""})
    assert (ended.returncode, words) == (2, None)
    assert f"--{name.replace('_', '-')}: expected a value, got nothing" in ended.stderr


HOSTILE = [
    '"; touch injected; "',
    "$(touch injected)",
    "`touch injected`",
    "a' && touch injected && '",
    "-x",
    "a;b|c>injected",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["configs", "base", "policy", "max_epsilon", "timeout", "memory_limit", "reports"])
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
