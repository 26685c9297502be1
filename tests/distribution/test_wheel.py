"""What is installed: the wheel holds the schema, the templates and the mark for type checkers, and no tests."""

import subprocess
import sys
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


def test_the_schema_is_in_the_wheel(wheel):
    assert wheel.read("dpcalc/config/schema.json") == (ROOT / "dpcalc/config/schema.json").read_bytes()


def test_everything_of_the_package_is_in_the_wheel(wheel):
    inside = {name for name in wheel.namelist() if name.startswith("dpcalc/")}
    tracked = subprocess.run(["git", "ls-files", "dpcalc"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert set(tracked.split()) <= inside


def test_nothing_else_is_in_the_wheel(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dpcalc"}
    (points,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert b"dpcalc = dpcalc.__main__:main" in wheel.read(points)
