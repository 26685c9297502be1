"""The wheel holds the schema, the templates, the mark for type checkers, no tests; the source archive the chapters."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from dpcalc._version import __version__

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_everything_of_the_package_is_in_the_wheel(wheel):
    inside = {name for name in wheel.namelist() if name.startswith("dpcalc/")}
    tracked = subprocess.run(["git", "ls-files", "dpcalc"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert set(tracked.split()) <= inside


def test_nothing_else_is_in_the_wheel(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"dpcalc"}
    data = [name.partition("/data/")[2] for name in wheel.namelist() if ".data/" in name]
    assert data == ["share/man/man1/dpcalc.1"]
    assert all(
        name.endswith((".py", ".yaml", ".md", "py.typed")) for name in wheel.namelist() if name.startswith("dpcalc/")
    )
    (points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert b"dpcalc = dpcalc.__main__:main" in wheel.read(points)


def test_the_source_archive_holds_every_file_of_the_repository(tmp_path):
    """Its tests read workflows, the site and the container; it once lacked some of these."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert inside == {*tracked.splitlines(), "PKG-INFO"}  # no caches, nothing of the builder


def test_the_metadata_name_every_supported_python(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    lines = wheel.read(name).decode().split("\n\n")[0].splitlines()
    pythons = {
        line.rpartition(" ")[2] for line in lines if line.startswith("Classifier: Programming Language :: Python :: 3.")
    }
    tried = set(re.findall(r'"(3\.[0-9]+)"', (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")))
    assert {"Requires-Python: >=3.11", "Classifier: Typing :: Typed", "License-Expression: Apache-2.0"} <= set(lines)
    assert pythons == {"3.11", "3.12", "3.13", "3.14"} <= tried


def test_the_version_is_that_of_the_citation_and_of_the_examples():
    """A release changes `_version.py`, CITATION.cff and the examples of workflows; nothing else names the version."""
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for page in ("README.md", "docs/gate.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert set(re.findall(r"OWNER/dpcalc@COMMIT # v([0-9.]+)\b|rev: v([0-9.]+)", text)) <= {
            (__version__, ""),
            ("", __version__),
        }


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
