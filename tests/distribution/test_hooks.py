"""The hooks for pre-commit, and the snippets of README and docs: their commands run where they are meant to run."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from pre_commit.clientlib import load_manifest

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
CONFIG = """\
version: 1
data: {examples: 1_000}
sampling: {scheme: all}
mechanism: {noise_multiplier: "${optim.yaml:sigma}"}
training: {steps: 5}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 1}
"""


def git(folder, *words):
    command = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run([*command, *words], cwd=folder, check=True, capture_output=True, text=True)


def snippets(path):
    """Those for one file, as its first line names it."""
    texts = (
        text
        for page in ("README.md", "docs/gate.md")
        for text in re.findall(r"```YAML\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    )
    return [yaml.safe_load(text) for text in texts if text.startswith(f"# {path}\n")]


@pytest.mark.heavy
def test_the_hooks():
    hooks = load_manifest(str(MANIFEST))
    names = [hook["id"] for hook in hooks]
    assert names == ["dpcalc-check", "dpcalc-validate", "dpcalc-lock"]
    schema = json.loads((Path(__file__).with_name("schemas") / "pre-commit-hooks.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load(MANIFEST.read_text(encoding="utf-8")))
    for hook in hooks:
        command = [sys.executable, "-m", *hook["entry"].split(), "--help"]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
        assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    # A curve in a CSV file, a config called run.txt and a config that was deleted start no hook by their type.
    assert hooks[0]["always_run"]
    ((shown,),) = (snippet["repos"] for snippet in snippets(".pre-commit-config.yaml"))
    assert {hook["id"] for hook in shown["hooks"]} <= set(names)


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
    assert "passed  epsilon" in passed.stdout
    assert tried("dpcalc-validate").returncode == 0
    locked = tried("dpcalc-lock")
    assert (work / "dpcalc.lock").exists(), locked.stdout + locked.stderr

    (work / "optim.yaml").write_text("sigma: 1\n", encoding="utf-8")  # only a file that the config refers to
    git(work, "add", ".")
    failed = tried("dpcalc-check")
    assert failed.returncode == 1
    assert "error[DPC301]" in failed.stdout


@pytest.mark.heavy
def test_the_gitlab_job_checks_against_the_base(tmp_path):
    (job,) = (snippet["privacy"] for snippet in snippets(".gitlab-ci.yml"))
    clone, checkout, locked, own = map(shlex.split, job["before_script"])
    folder = clone[-1]
    assert checkout == ["git", "-C", folder, "checkout", "--quiet", "COMMIT"]
    assert "--require-hashes" in locked
    assert (ROOT / Path(locked[-1]).relative_to(folder)).is_file()
    assert own[-1] == folder
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(own)
    git(tmp_path, "init", "--quiet")
    (tmp_path / "dpcalc.yaml").write_text(CONFIG, encoding="utf-8")
    for sigma in (12, 11):  # the second commit raises the cost
        (tmp_path / "optim.yaml").write_text(f"sigma: {sigma}\n", encoding="utf-8")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "--message", f"sigma {sigma}")
    base = git(tmp_path, "rev-parse", "HEAD~1").stdout.strip()
    words = shlex.split(job["script"][0].replace("$CI_MERGE_REQUEST_DIFF_BASE_SHA", base))
    command = [sys.executable, "-m", *words]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "passed" in ended.stdout
    assert all((tmp_path / path).exists() for path in job["artifacts"]["reports"].values())


def test_the_github_job_gives_inputs_that_there_are():
    for snippet in snippets(".github/workflows/privacy.yml"):
        *_, step = snippet["jobs"]["privacy"]["steps"]
        assert {"configs", "base"} <= set(step["with"]) <= set(ACTION["inputs"])


@pytest.mark.heavy
def test_the_gate_of_this_repository_passes():
    gate = yaml.safe_load((ROOT / ".github" / "workflows" / "gate.yml").read_text(encoding="utf-8"))
    (step,) = (each for each in gate["jobs"]["privacy"]["steps"] if each.get("uses") == "./")
    assert set(step["with"]) <= set(ACTION["inputs"])
    configs = sorted({path for pattern in step["with"]["configs"].split() for path in ROOT.glob(pattern)})
    folders = {path.parent.name for path in configs}
    assert folders >= {"sample_configs", "opacus_mnist", "hydra_femnist", "learn2learn_clinics"}
    limit = step["with"]["max-epsilon"]
    command = [sys.executable, "-m", "dpcalc", "check", "--max-epsilon", limit, *map(str, configs)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
