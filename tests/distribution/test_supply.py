"""What the repository takes from others: actions by commit, what the action installs by hash."""

import os
import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
ACTIONS = [ROOT / "action.yml", ROOT / "comment" / "action.yml"]
WORKFLOWS = [*ACTIONS, *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LOCKS = [ROOT / ".github" / f"{name}-requirements.txt" for name in ("action", "release")]


def version(requirement):
    (only,) = requirement.specifier
    assert only.operator == "=="
    assert "*" not in only.version
    return only.version


def read_lock(path):
    """Requirements of a lock by name, each with hashes."""
    text = "".join(line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line[0] != "#")
    assert not re.search(r"^ *-|://", re.sub(r"--hash=", "", text), re.MULTILINE)
    found = {}
    for entry in re.sub(r"\\\n", " ", text).splitlines():
        requirement, *hashes = entry.split(" --hash=")
        known = Requirement(requirement.strip())
        assert version(known)
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each.strip()) for each in hashes)
        found[canonicalize_name(known.name)] = known
    return found


def test_every_action_is_a_commit_with_its_version_beside_it():
    used = set()
    for path in (*WORKFLOWS, *PAGES):
        for name, rest in re.findall(r"\buses: *(\S+)(.*)", path.read_text(encoding="utf-8")):
            if path.suffix == ".md" and name.startswith("OWNER/dpcalc"):
                assert re.match(r"OWNER/dpcalc(/comment)?@COMMIT # v\d+\.\d+\.\d+", f"{name}{rest}")
            elif not name.startswith("./"):
                assert re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}", name), (path, name)
                assert re.match(r" +# v\d+\.\d+\.\d+", rest), (path, name)
                used.add(name)
    assert len({name.partition("@")[0] for name in used}) == len(used)  # one version of each


@pytest.mark.parametrize("path", WORKFLOWS[len(ACTIONS) :], ids=lambda path: path.name)
def test_workflows_keep_no_credentials_and_have_no_rights(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in workflow[True]  # YAML reads `on` as a truth value
    for job in workflow["jobs"].values():
        checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert all(step["with"]["persist-credentials"] is False for step in checkouts)
        if "permissions" in job:  # who may publish runs nothing of the checkout, and does not see it
            comments = {"actions": "read", "contents": "read", "pull-requests": "write"}
            assert job["permissions"] in ({"id-token": "write"}, {"contents": "write"}, comments)
            assert not checkouts or set(workflow[True]) == {"workflow_run"}  # whose checkout is of the main branch
            assert all(step["run"].startswith("gh release create ") for step in job["steps"] if "run" in step)
        else:
            assert checkouts


def test_a_release_publishes_what_was_built_and_tested():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert commands["test"] == ["bash .ci/run"]
    # Packages without hashes, which the tests need, run on another machine than the one that makes the files.
    assert [command for command in commands["build"] if "install" in command] == [
        "pip install --require-hashes --only-binary :all: --requirement .github/release-requirements.txt"
    ]
    assert [jobs[name]["needs"] for name in ("build", "publish", "page")] == ["test", "build", "publish"]


def test_the_page_of_an_index_has_no_relative_links(tmp_path):
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    (command,) = (step["run"] for step in jobs["build"]["steps"] if "README.md" in step.get("run", ""))
    (tmp_path / "README.md").write_text((ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    named = {"GITHUB_SERVER_URL": "https://a.example", "GITHUB_REPOSITORY": "o/dpcalc", "GITHUB_REF_NAME": "v1"}
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, env=os.environ | named)
    links = re.findall(r"\]\(([^)]*)\)", (tmp_path / "README.md").read_text(encoding="utf-8"))
    assert all(link.startswith(("https://", "#")) for link in links)
    assert "https://a.example/o/dpcalc/blob/v1/docs/gate.md" in links
    assert "https://raw.githubusercontent.com/o/dpcalc/v1/docs/pictures/epsilon.svg?sanitize=true" in links


def test_continuous_integration_tries_the_python_that_its_job_has_set_up():
    """It once preferred a python3.11 of the machine, so that the jobs of 3.13 and 3.14 tried that one."""
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"python3[.0-9]*", text) == ["python3"]


def test_the_container_installs_what_is_locked():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "--require-hashes --only-binary :all:" in text
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*)", text, re.MULTILINE) for word in line.split()[:-1]}
    ours = {"pyproject.toml", "README.md", "LICENSE", "docs/dpcalc.1", "dpcalc"}
    assert copied == {".github/action-requirements.txt", *ours}


def test_the_locks_have_hashes_keep_to_our_ranges_and_are_complete():
    """Complete as far as the environment of the tests holds the same versions."""
    locked, _ = map(read_lock, LOCKS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for name, requirement in locked.items():
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        if installed.version == version(requirement):
            needed += installed.requires or ()
    for wanted in map(Requirement, needed):
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            assert version(locked[canonicalize_name(wanted.name)]) in wanted.specifier
