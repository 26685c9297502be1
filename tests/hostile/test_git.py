"""A repository whose `.git/config` names commands, as one from an archive may: none of them runs."""

import json
import os
import subprocess
import sys

import pytest

from tests.thinning import thinned

RUN = """\
version: 1
data: {examples: 100}
sampling: {scheme: all}
mechanism: {noise_multiplier: %d}
training: {steps: 2}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 9}
"""
USER = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")


def git(folder, *words):
    command = ["git", *USER, *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """Two commits; the second one renames the config and raises its cost."""
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "--quiet", "--initial-branch=main")
    (work / "a.yaml").write_text(RUN % 40, encoding="utf-8")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "a")
    git(work, "mv", "a.yaml", "b.yaml")
    (work / "b.yaml").write_text(RUN % 30, encoding="utf-8")
    git(work, "commit", "--quiet", "-a", "-m", "b")
    return work


def checked(work, path="b.yaml", base="HEAD~1", **environment):
    command = [sys.executable, "-P", "-m", "dpcalc", "check", path, "--base", base, "--json"]
    ended = subprocess.run(
        command, cwd=work, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=300
    )
    return ended.returncode, json.loads(ended.stdout)["results"][0] if ended.stdout else ended.stderr


def codes(result):
    return [one["code"] for one in result["findings"]]


@pytest.mark.heavy
def test_a_renamed_config_is_compared_with_what_it_was(repository):
    code, result = checked(repository)
    assert (code, codes(result)) == (0, ["DPC401"])
    git(repository, "mv", "b.yaml", "c.yaml")  # not committed
    assert codes(checked(repository, "c.yaml")[1]) == ["DPC401"]


@pytest.mark.heavy
def test_no_command_of_the_configuration_runs(repository, tmp_path):
    mark = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f'#!/bin/sh\necho "$0 $*" >> "{mark}"\nexit 1\n', encoding="utf-8")
    script.chmod(0o755)
    (repository / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout", "reference-transaction"):
        (repository / ".git" / "hooks" / hook).write_text(script.read_text(encoding="utf-8"), encoding="utf-8")
        (repository / ".git" / "hooks" / hook).chmod(0o755)
    for key in (
        *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "core.gitProxy"),
        *(
            "filter.x.clean",
            "filter.x.smudge",
            "filter.x.process",
            "diff.external",
            "diff.x.textconv",
            "diff.x.command",
        ),
        *("credential.helper", "remote.origin.uploadpack", "gpg.program", "merge.x.driver", "alias.diff-index"),
        "alias.ls-tree",
        *("alias.cat-file", "alias.rev-parse", "uploadpack.packObjectsHook", "core.alternateRefsCommand"),
    ):
        git(repository, "config", key, str(script))
    git(repository, "config", "filter.x.required", "true")
    (repository / ".gitattributes").write_text("* filter=x diff=x merge=x\n", encoding="utf-8")
    os.utime(repository / "b.yaml", (1, 1))  # git would have to look at its content
    (repository / "p.toml").write_text("max_epsilon = 9\n", encoding="utf-8")
    assert codes(checked(repository)[1]) == ["DPC401"]
    for words in ("check *.yaml --policy p.toml", "diff b.yaml", "diff *.yaml", "ledger check b.yaml"):
        command = [sys.executable, "-P", "-m", "dpcalc", *words.split(), "--base", "HEAD~1"]
        ended = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False, timeout=300)
        assert ended.returncode in {0, 1}, ended.stderr
    assert not mark.exists(), mark.read_text(encoding="utf-8")


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["local", "ext"])
def test_nothing_is_fetched(repository, tmp_path, kind):
    """A clone without the content of old files names the repository, and the command, to get it from."""
    git(repository, "config", "uploadpack.allowFilter", "true")
    clone, mark = tmp_path / "clone", tmp_path / "ran"
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", repository.as_uri(), str(clone))
    assert codes(checked(clone, base="HEAD")[1]) == []
    if kind == "ext":
        git(clone, "config", "remote.origin.url", f"ext::touch {mark}")
        git(clone, "config", "protocol.ext.allow", "always")
    else:
        git(clone, "config", "remote.origin.uploadpack", f"touch {mark}; git-upload-pack")
        git(clone, "config", "protocol.allow", "always")
    git(clone, "mv", "b.yaml", "a.yaml")
    code, result = checked(clone, "a.yaml")  # it is named in the base, and its old content is not there
    assert not mark.exists()
    assert (code, codes(result)) == (2, ["DPC104"])
    assert "clone without `--filter`" in result["findings"][0]["message"]


@pytest.mark.heavy
@pytest.mark.parametrize("name", thinned(["GIT_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE"], 2))
def test_the_environment_names_no_other_repository(repository, tmp_path, name):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    code, result = checked(repository, **{name: str(other / ".git")})
    assert (code, codes(result)) == (0, ["DPC401"])


@pytest.mark.heavy
def test_git_is_not_taken_from_the_checkout(repository, tmp_path):
    mark = tmp_path / "ran"
    (repository / "git").write_text(f'#!/bin/sh\ntouch "{mark}"\n', encoding="utf-8")
    (repository / "git").chmod(0o755)
    code, result = checked(repository, PATH=os.pathsep.join((".", "", os.environ["PATH"])))
    assert (code, codes(result)) == (0, ["DPC401"])
    assert not mark.exists()
