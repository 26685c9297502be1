"""The snippets in README and docs: their commands run where they are meant to run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pre_commit.clientlib import load_manifest

from tests.distribution.test_hooks import CONFIG, git

ROOT = Path(__file__).parents[2]
SNIPPETS = [
    (text.split("\n")[0].removeprefix("# "), yaml.safe_load(text))
    for page in ("README.md", "docs/gate.md")
    for text in re.findall(r"```YAML\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GATE = yaml.safe_load((ROOT / ".github" / "workflows" / "gate.yml").read_text(encoding="utf-8"))


def snippets(path):
    """Those for one file."""
    return [content for name, content in SNIPPETS if name == path]


@pytest.fixture
def repository(tmp_path):
    """A repository with two commits: the second one raises the cost."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "dpcalc.yaml").write_text(CONFIG, encoding="utf-8")
    for sigma in (12, 11):
        (tmp_path / "optim.yaml").write_text(f"sigma: {sigma}\n", encoding="utf-8")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "--message", f"sigma {sigma}")
    return tmp_path


def test_the_gitlab_job_checks_against_the_base(repository):
    (snippet,) = snippets(".gitlab-ci.yml")
    job = snippet["privacy"]
    clone, checkout, locked, own = map(shlex.split, job["before_script"])
    folder = clone[-1]
    assert checkout == ["git", "-C", folder, "checkout", "--quiet", "COMMIT"]
    assert "--require-hashes" in locked
    assert (ROOT / Path(locked[-1]).relative_to(folder)).is_file()
    assert own[-1] == folder
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(own)
    (command,) = job["script"]
    base = git(repository, "rev-parse", "HEAD~1").stdout.strip()
    words = [word.replace("$CI_MERGE_REQUEST_DIFF_BASE_SHA", base) for word in shlex.split(command)]
    ended = subprocess.run(
        [sys.executable, "-m", *words], cwd=repository, env=os.environ, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "passed" in ended.stdout
    assert all((repository / path).exists() for path in job["artifacts"]["reports"].values())


def test_the_github_job_gives_inputs_that_there_are():
    short, long = snippets(".github/workflows/privacy.yml")
    for snippet in (short, long):
        *_, step = snippet["jobs"]["privacy"]["steps"]
        assert {"configs", "base"} <= set(step["with"]) <= set(ACTION["inputs"])


def test_the_hook_is_one_of_ours():
    (snippet,) = snippets(".pre-commit-config.yaml")
    (repository,) = snippet["repos"]
    known = {hook["id"] for hook in load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))}
    assert {hook["id"] for hook in repository["hooks"]} <= known


@pytest.mark.heavy
def test_the_gate_of_this_repository_passes():
    *_, step, _ = GATE["jobs"]["privacy"]["steps"]
    assert step["uses"] == "./"
    assert set(step["with"]) <= set(ACTION["inputs"])
    patterns = step["with"]["configs"].split()
    configs = sorted({path for pattern in patterns for path in ROOT.glob(pattern)})
    assert {path.parent.name for path in configs} >= {
        "sample_configs",
        "opacus_mnist",
        "hydra_femnist",
        "learn2learn_clinics",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "dpcalc", "check", "--max-epsilon", step["with"]["max-epsilon"], *map(str, configs)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
