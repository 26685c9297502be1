"""The wheel holds the schema, the templates, the mark for type checkers, no tests; the source archive the chapters."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

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
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dpcalc"}
    (points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert b"dpcalc = dpcalc.__main__:main" in wheel.read(points)


def test_the_chapters_that_the_readme_links_are_in_the_source_archive(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert inside >= {"README.md", "CHANGELOG.md", "LICENSE", *(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))}


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
