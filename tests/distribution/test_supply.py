"""What the repository takes from others: actions by commit, what the action installs by hash."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
WORKFLOWS = [ROOT / "action.yml", *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LOCK = ROOT / ".github" / "action-requirements.txt"
RELEASE_LOCK = ROOT / ".github" / "release-requirements.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def locked():
    return read_lock(LOCK)


def read_lock(path):
    """Requirements of a lock by name, and the hashes of each."""
    text = "".join(line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line[0] != "#")
    found = {}
    for entry in re.sub(r"\\\n", " ", text).splitlines():
        requirement, *hashes = entry.split(" --hash=")
        known = Requirement(requirement.strip())
        found[canonicalize_name(known.name)] = (known, [one.strip() for one in hashes])
    return found


def version(requirement):
    (only,) = requirement.specifier
    assert only.operator == "=="
    assert "*" not in only.version
    return only.version


@pytest.mark.parametrize("path", [*WORKFLOWS, *PAGES], ids=lambda path: path.name)
def test_every_action_is_a_commit_with_its_version_beside_it(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        used = re.search(r"\buses: *(\S+)(.*)", line)
        if used is None or used[1] == "./":
            continue
        if path.suffix == ".md" and used[1].startswith("OWNER/dpcalc@"):
            assert re.match(r"OWNER/dpcalc@COMMIT # v\d+\.\d+\.\d+", used[0].removeprefix("uses: "))
            continue
        assert re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}", used[1]), line
        assert re.match(r" +# v\d+\.\d+\.\d+", used[2]), line


def test_one_version_of_each_action():
    lines = (line for path in (*WORKFLOWS, *PAGES) for line in path.read_text(encoding="utf-8").splitlines())
    used = {match[1] for line in lines if (match := re.search(r"uses: *(actions/\S+)", line))}
    assert len({name.partition("@")[0] for name in used}) == len(used) == 4


@pytest.mark.parametrize("path", WORKFLOWS[1:], ids=lambda path: path.name)
def test_workflows_keep_no_credentials_and_have_no_rights(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        checkouts = [step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert all(step["with"]["persist-credentials"] is False for step in checkouts)
        if "permissions" in job:  # who may publish runs nothing of the checkout, and does not see it
            assert job["permissions"] in ({"id-token": "write"}, {"contents": "write"})
            assert not checkouts
            assert all(step["run"].startswith("gh release create ") for step in job["steps"] if "run" in step)
        else:
            assert checkouts


def test_a_release_publishes_what_was_built_and_tested():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    commands = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in jobs.items()}
    assert commands["test"] == ["bash .ci/run"]
    assert jobs["build"]["needs"] == "test"
    # Packages without hashes, which the tests need, run on another machine than the one that makes the files.
    assert [command for command in commands["build"] if "install" in command] == [
        "pip install --require-hashes --only-binary :all: --requirement .github/release-requirements.txt"
    ]
    assert "python -m hatchling build --directory dist" in commands["build"]
    assert jobs["publish"]["needs"] == "build"
    assert jobs["page"]["needs"] == "publish"


def test_continuous_integration_tries_the_python_that_its_job_has_set_up():
    """It once preferred a python3.11 of the machine, so that the jobs of 3.13 and 3.14 tried that one."""
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"python3[.0-9]*", text) == ["python3"]


def test_the_container_installs_what_is_locked():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "--require-hashes --only-binary :all:" in text
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*)", text, re.MULTILINE) for word in line.split()[:-1]}
    assert copied == {
        ".github/action-requirements.txt",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "docs/dpcalc.1",
        "dpcalc",
    }


@pytest.mark.parametrize("path", [LOCK, RELEASE_LOCK], ids=lambda path: path.name)
def test_the_lock_pins_every_version_with_hashes(path):
    for requirement, hashes in read_lock(path).values():
        assert version(requirement)
        assert hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes)
        assert len(set(hashes)) == len(hashes)
    assert not re.search(r"^ *-|://", re.sub(r"--hash=", "", path.read_text(encoding="utf-8")), re.MULTILINE)


def test_compiled_libraries_are_locked_for_every_platform(locked):
    for name in ("numpy", "pydantic-core", "pyyaml"):  # four versions of Python, and at least seven platforms
        assert len(locked[name][1]) >= 28


def test_the_lock_keeps_to_the_ranges_of_the_project(locked):
    ranges = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    for wanted in map(Requirement, ranges):
        requirement, _ = locked[canonicalize_name(wanted.name)]
        assert version(requirement) in wanted.specifier
        assert requirement.marker is None


def test_the_lock_is_complete(locked):
    """As far as the environment of the tests holds the same versions."""
    looked_at = 0
    for name, (requirement, _) in locked.items():
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        if installed.version != version(requirement):
            continue
        looked_at += 1
        for needed in map(Requirement, installed.requires or ()):
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                found, _ = locked[canonicalize_name(needed.name)]
                assert version(found) in needed.specifier
    assert looked_at


def test_dependabot_looks_after_all_of_them():
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text(encoding="utf-8"))["updates"]
    assert {(one["package-ecosystem"], one["directory"]) for one in updates} == {
        ("github-actions", "/"),
        ("docker", "/"),
        ("pip", f"/{LOCK.parent.relative_to(ROOT)}"),
    }
