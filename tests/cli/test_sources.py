"""How commands find their config, and what the command line changes in it."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory: a folder in a git repository."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    monkeypatch.delenv("DPCALC_CONFIG", raising=False)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_what_is_said_directly_is_enough(dpcalc):
    *_, last = dpcalc("epsilon", "-q").err.splitlines()
    assert dpcalc("epsilon", *last.partition("dpcalc epsilon ")[2].split()).code == 0


def test_errors_of_flags_stand_at_the_flag(dpcalc, config):
    ended = dpcalc("epsilon", config(), "--delta", "x", "--steps", "-3", "--unit", "us\x1b[31mer")
    assert (ended.code, ended.out) == (2, "")
    for place in ("--delta:1:1: error[DPC102]", "--steps:1:1: error[DPC106]", "--unit:1:3: error[DPC100]"):
        assert place in ended.err
    assert "\x1b" not in ended.err


@pytest.mark.heavy
def test_standard_input_is_named_by_a_dash(process, config, tmp_path):
    with Path(config()).open(encoding="utf-8") as file:
        ended = process("show", "-", stdin=file, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("version: 1\nname: clinic\n")
