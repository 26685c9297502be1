"""The wheel holds the schema, the templates, the mark for type checkers, no tests; the source archive the chapters."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import dpcalc

ROOT = Path(__file__).parents[2]


def built(target, folder):
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.iterdir()
    return path


def tracked(*paths):
    done = subprocess.run(["git", "ls-files", *paths], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(done.stdout.splitlines())


@pytest.mark.heavy
def test_the_wheel_holds_the_package_the_manual_and_nothing_else(tmp_path):
    with zipfile.ZipFile(built("wheel", tmp_path)) as archive:
        inside = [name for name in archive.namelist() if ".dist-info/" not in name]
        (points,) = [archive.read(name) for name in archive.namelist() if name.endswith("entry_points.txt")]
        (metadata,) = [archive.read(name) for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    assert {name for name in inside if name.startswith("dpcalc/")} == tracked("dpcalc")
    beside = [name.partition("/data/")[2] for name in inside if not name.startswith("dpcalc/")]
    assert beside == ["share/man/man1/dpcalc.1"]
    assert b"dpcalc = dpcalc.__main__:main" in points
    lines = set(metadata.decode().split("\n\n")[0].splitlines())
    assert {"Requires-Python: >=3.11", "Classifier: Typing :: Typed", "License-Expression: Apache-2.0"} <= lines
    pythons = set(re.findall(r"Python :: (3\.\d+)", "\n".join(lines)))
    tried = set(re.findall(r'"(3\.[0-9]+)"', (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")))
    assert pythons == {"3.11", "3.12", "3.13", "3.14"} <= tried


@pytest.mark.heavy
def test_the_source_archive_holds_every_file_of_the_repository(tmp_path):
    """Its tests read workflows, the site and the container; it once lacked some of these."""
    with tarfile.open(built("sdist", tmp_path)) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert inside == {*tracked(), "PKG-INFO"}  # no caches, nothing of the builder


def test_the_version_is_that_of_the_citation_and_of_the_examples():
    """A release changes `_version.py`, CITATION.cff and the examples of workflows; nothing else names the version."""
    assert f"\nversion: {dpcalc.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for page in ("README.md", "docs/gate.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert set(re.findall(r"(?:OWNER/dpcalc@COMMIT # v|rev: v)([0-9.]+)\b", text)) <= {dpcalc.__version__}


PROGRAM = """\
from dpcalc import epsilon, plan

run = plan(sample_rate="1/100", noise_multiplier=1.0, steps=100, delta=1e-5)
reveal_type(epsilon(run).epsilon)
epsilon(run).epsilon + "a text"
"""


@pytest.mark.heavy
def test_a_program_that_uses_dpcalc_is_type_checked(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "program.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert 'program.py:4: note: Revealed type is "float"' in told
    assert "program.py:5: error: Unsupported operand types" in told
    assert "Found 1 error in 1 file" in told
