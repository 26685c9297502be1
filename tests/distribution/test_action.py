"""The GitHub action: its metadata is valid, and nothing that it is given becomes a part of a script."""

import json
import os
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from dpcalc.cli.commands import application

ROOT = Path(__file__).parents[2]
SCHEMA = Path(__file__).with_name("schemas") / "github-action.json"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
GIVEN = {
    *("configs", "base", "policy", "max-epsilon", "require-budget", "locked", "strict", "timeout", "memory-limit"),
    "reports",
}
STAND_IN = '#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done > "$RECORD"\nexit "${CODE:-0}"\n'


def test_the_metadata_is_valid_and_every_input_arrives_through_the_environment():
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(ACTION)
    scripts = [step["run"] for step in STEPS if "run" in step]
    assert len(scripts) == 2
    assert not [script for script in scripts if "${{" in script]
    arriving = {value: name for name, value in STEPS[-1]["env"].items()}
    assert set(ACTION["inputs"]) == {*GIVEN, "python-version"}
    for name in GIVEN:
        assert arriving[f"${{{{ inputs.{name} }}}}"] == f"DPCALC_{name.upper().replace('-', '_')}"
    assert "github.action_repository" in STEPS[-1]["env"]["DPCALC_RULES"]  # links lead to the version that runs
    check = application().commands["check"]
    options = {option for each in (*check.params, *getattr(check, "shared", ())) for option in each.opts}
    assert set(re.findall(r"(?:option|flag) (--[\w-]+)", STEPS[-1]["run"])) <= options


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
        record = tmp_path / "record"
        record.unlink(missing_ok=True)
        env = {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(tmp_path / "runner"), "RECORD": str(record)}
        env |= {"CODE": str(code)} | {f"DPCALC_{name.upper().replace('-', '_')}": one for name, one in given.items()}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[-1]["run"]]  # as GitHub runs it
        ended = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, check=False, timeout=30)
        words = record.read_bytes().decode().split("\0")[:-1] if record.exists() else None
        if words is not None:
            assert words[:3] == ["-I", "-m", "dpcalc"]
        return ended, words and words[3:]

    ran.work = work
    return ran


def test_every_input_becomes_an_option(action):
    assert action()[1] == ["check", "--report", "github", "--timeout=600", "--memory-limit=4", "--"]
    given = {"configs": "a.yaml\nb c.yaml\n", "base": "origin/main", "policy": "policy.toml", "max_epsilon": "3"}
    given |= {"require_budget": "true", "locked": "true", "strict": "true", "timeout": "60", "memory_limit": "2"}
    assert action(**given, reports="sarif=a.sarif\njunit=b.xml\n")[1] == [
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
