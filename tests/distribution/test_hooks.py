"""The hooks for pre-commit, read and run by pre-commit itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from pre_commit.clientlib import load_manifest

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
CONFIG = """\
version: 1
data: {examples: 1_000}
sampling: {scheme: all}
mechanism: {noise_multiplier: "${optim.yaml:sigma}"}
training: {steps: 5}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 1}
"""


def test_the_manifest_is_valid():
    hooks = load_manifest(str(MANIFEST))
    assert [hook["id"] for hook in hooks] == ["dpcalc-check", "dpcalc-validate", "dpcalc-lock"]


def test_the_manifest_fits_the_schema_of_editors():
    schema = json.loads((Path(__file__).with_name("schemas") / "pre-commit-hooks.json").read_text(encoding="utf-8"))
    hooks = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(hooks)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate([{**hooks[0], "pass_filenames": "sometimes"}])


def test_every_hook_is_a_command():
    for hook in load_manifest(str(MANIFEST)):
        command = [sys.executable, "-m", *hook["entry"].split()]
        assert subprocess.run([*command, "--help"], capture_output=True, check=False).returncode == 0
        assert hook["language"] == "python"
        assert not hook["pass_filenames"]


def test_the_gate_runs_whatever_has_changed():
    """A curve in a CSV file, a config called run.txt and a config that was deleted start no hook by their type."""
    gate, *_ = load_manifest(str(MANIFEST))
    assert (gate["id"], gate["always_run"]) == ("dpcalc-check", True)


def git(folder, *words):
    command = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run([*command, *words], cwd=folder, check=True, capture_output=True, text=True)


@pytest.mark.slow  # it builds a virtual environment with everything that dpcalc needs
def test_try_repo_runs_the_hooks(tmp_path):
    source, work = tmp_path / "dpcalc", tmp_path / "work"
    git(tmp_path, "clone", "--quiet", str(ROOT), str(source))
    work.mkdir()
    git(work, "init", "--quiet")
    (work / "dpcalc.yaml").write_text(CONFIG, encoding="utf-8")
    (work / "optim.yaml").write_text("sigma: 11\n", encoding="utf-8")
    git(work, "add", ".")
    environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home"), "PRE_COMMIT_COLOR": "never"}

    def tried(hook):
        command = [sys.executable, "-m", "pre_commit", "try-repo", str(source), hook, "--all-files", "--verbose"]
        return subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, check=False, timeout=600
        )

    passed = tried("dpcalc-check")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "dpcalc.yaml: passed, epsilon" in passed.stdout
    assert tried("dpcalc-validate").returncode == 0
    locked = tried("dpcalc-lock")
    assert (work / "dpcalc.lock").exists(), locked.stdout + locked.stderr

    (work / "optim.yaml").write_text("sigma: 1\n", encoding="utf-8")  # only a file that the config refers to
    git(work, "add", ".")
    failed = tried("dpcalc-check")
    assert failed.returncode == 1
    assert "error[DPC301]" in failed.stdout
