"""Where reports may be written: never in the place of another file; more in `transcripts/reports.txt`."""

import os
import stat
from pathlib import Path

import pytest

from dpcalc.report.gate import REPORTS
from tests.thinning import thinned


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A repository as the current directory, and a directory beside it."""
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", REPORTS)
def test_an_input_is_not_replaced(dpcalc, config, name):
    for path in (config(file="work/a.yaml"), config(file="work/b.yaml", steps=5000)):
        before = Path(path).read_bytes()
        ended = dpcalc("check", path, "--report", f"{name}={path}")
        assert (ended.code, ended.out) == (2, "")
        assert "expected a new file or an earlier report of dpcalc, got another file" in ended.err
        assert Path(path).read_bytes() == before


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "content",
    [
        b"precious\n",
        b"[1]\n",
        b'{"runs": []}\n',
        b"{}",
        b"\xff",
        b"x\nchecked 1 file: y\nz\n",
        b'[{"description": "mine", "check_name": "E501", "fingerprint": "1"}]',
        b'{"runs": [{"tool": {"driver": {"name": "ruff"}}}]}',
        b'{"mine": {"schema": "dpcalc.result/1", "command": "check"}}',
        b"[" + b'{"":{"":{}}},' * 5_000_000 + b"{}]",  # 65 MB, of which two pieces of 4 KB are read
    ],
    ids=lambda content: content[:20],
)
def test_no_other_file_is_replaced(dpcalc, config, content):
    Path("precious").write_bytes(content)
    assert dpcalc("check", config(), "--report", "text=precious").code == 2
    assert dpcalc("validate", config(), "--report", "json=precious").code == 2
    assert Path("precious").read_bytes() == content


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("steps", thinned([5000, 500, "x"], 1))
def test_an_earlier_report_is_replaced_in_one_step(dpcalc, config, name, steps):
    for command in ("check", "validate", "check"):
        dpcalc(command, config(steps=steps), "--report", f"{name}=report")
        assert Path("report").is_file()
        held = Path("report").open("rb")  # noqa: SIM115  whoever reads it keeps what it was
        before = Path("report").read_bytes()
        dpcalc(command, config(steps=steps), config(file="b.yaml"), "--report", f"{name}=report")
        assert held.read() == before
        held.close()
    assert {path.name for path in Path.cwd().iterdir()} == {".git", "report"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_devices_and_pipes(dpcalc, config, tmp_path):
    assert dpcalc("check", config(), "--report", "json=/dev/null").code == 0
    assert dpcalc("check", config(), "--report", "json=/dev/full").code == 2
    assert all(stat.S_ISCHR(Path(name).stat().st_mode) for name in ("/dev/null", "/dev/full"))
    os.mkfifo(tmp_path / "pipe")  # without a reader it is not waited for
    assert dpcalc("check", config(), "--report", f"json={tmp_path / 'pipe'}").code == 2
