"""Settings of matplotlib in the current directory: they run LaTeX and change pictures, and are not read."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = """\
version: 1
data: {examples: 1000}
sampling: {scheme: poisson, rate: 0.01}
mechanism: {noise_multiplier: 1.1}
training: {steps: 10}
privacy: {unit: example, adjacency: add-remove, delta: 1e-5}
"""
SETTINGS = "text.usetex: True\nfont.size: 40\nsvg.fonttype: path\nnonsense\nlines.linewidth: broken\n"


def drawn(folder):
    """The picture that a command draws in a directory, and what it says."""
    (folder / "run.yaml").write_text(CONFIG, encoding="utf-8")
    ended = subprocess.run(
        [Path(sys.executable).with_name("dpcalc"), "curve", "steps", "run.yaml", "--range", "5,10", "--plot", "a.svg"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "note: wrote a.svg\n")
    return (folder / "a.svg").read_bytes()


@pytest.mark.heavy
@pytest.mark.skipif(
    not Path(sys.executable).with_name("dpcalc").exists(), reason="dpcalc is not installed as a command"
)
def test_pictures_do_not_depend_on_the_directory(tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "hostile").mkdir()
    (tmp_path / "hostile" / "matplotlibrc").write_text(SETTINGS, encoding="utf-8")
    assert drawn(tmp_path / "hostile") == drawn(tmp_path / "plain")
