"""The bar shows on a terminal, after a while, and nowhere else."""

import os
import subprocess
import sys

import pytest

from dpcalc.cli import progress
from tests.cli.running import environment, shown_on

# works until somebody writes to its standard input, or not at all
WORK = "from dpcalc.cli import progress\nprogress.PATIENCE = {patience}\nwith progress.progress():\n    {work}\n"


def on_a_terminal(patience, work, term="xterm"):
    """The process and the other end of its standard error, a terminal."""
    reader, writer = os.openpty()
    program = WORK.format(patience=patience, work=work)
    wide = environment(TERM=term, COLUMNS="80")
    run = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=writer, env=wide)
    os.close(writer)
    return run, reader


def test_a_bar_appears_on_a_terminal_when_work_takes_long():
    run, terminal = on_a_terminal(0.01, "input()")
    assert "computing" in shown_on(terminal, until="computing")
    run.communicate(b"\n", timeout=60)
    assert run.returncode == 0
    os.close(terminal)


def test_no_bar_appears_when_work_is_done_before():
    run, terminal = on_a_terminal(3600, "pass")
    run.communicate(timeout=60)
    assert (run.returncode, shown_on(terminal)) == (0, "")
    os.close(terminal)


def test_a_dumb_terminal_gets_not_even_an_empty_line():
    run, terminal = on_a_terminal(0.0, "import time; time.sleep(0.3)", term="dumb")
    run.communicate(timeout=60)
    assert (run.returncode, shown_on(terminal)) == (0, "")
    os.close(terminal)


def test_nothing_is_drawn_off_a_terminal():
    program = WORK.format(patience=0.0, work="import time; time.sleep(0.3)")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert (run.stdout, run.stderr) == (b"", b"")


SHOWN = """
from dpcalc.cli import progress
progress.PATIENCE = 0.0
with progress.progress():
    progress.announce({label!r}, total={total})
    progress.report_progress({part})
    input()
"""


@pytest.mark.parametrize(
    ("label", "total", "part", "columns", "expected"),
    [
        ("sweep", 8_000, 0.1015, 80, ["sweep", "812/8,000 10%", "left"]),
        ("configs/cifar.yaml", 0, 0.5, 80, ["configs/cifar.yaml", " 50%", "left"]),
        ("[red]x[/red] :B: \x1b[2Jy", 0, 0.25, 80, ["[red]x[/red] :B: ?[2Jy", "25%"]),
        ("a/very/long/path/to/a/config/that/is/cut.yaml", 0, 1.0, 80, ["...a/config/that/is/cut.yaml", "100%"]),
        (
            "a/very/long/path/to/a/config/that/is/cut.yaml",
            500,
            0.5,
            60,
            ["...t/is/cut.yaml", "250/500 50%", "-:--:-- left"],
        ),
    ],
)
def test_the_bar_says_what_how_much_and_how_long(label, total, part, columns, expected):
    reader, writer = os.openpty()
    program = SHOWN.format(label=label, total=total, part=part)
    wide = environment(TERM="xterm", COLUMNS=str(columns), NO_COLOR="1")
    run = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=writer, env=wide)
    os.close(writer)
    text = shown_on(reader, until=expected[-1])
    run.communicate(b"\n", timeout=60)
    os.close(reader)
    assert run.returncode == 0
    assert all(word in text for word in expected), text


def test_files_are_named_or_counted(monkeypatch):
    monkeypatch.setattr(progress, "_state", progress._State())
    progress.announce_files(["a.yaml"])
    assert progress._state.label == "a.yaml"
    progress.announce_files(["a.yaml"] * 1200)
    assert progress._state.label == "1,200 files"


def test_of_several_files_the_one_that_is_worked_on_is_named(monkeypatch, dpcalc, config, tmp_path):
    """Each config costs something else, so that each is a question; equal ones are asked about once."""
    monkeypatch.chdir(tmp_path)  # `lock` must not write into the lock of this repository
    state, seen = progress._State(), []
    monkeypatch.setattr(progress, "_state", state)
    report_file = progress.report_file
    monkeypatch.setattr(
        progress,
        "report_file",
        lambda path, total: (report_file(path, total), seen.append((state.label, state.file, state.total))),
    )
    paths = [config(file=f"{name}.yaml", steps=500 + steps) for name, steps in (("a", 0), ("b", 1), ("c", 1), ("d", 2))]
    for command in ("check", "lock"):
        seen.clear()
        assert dpcalc(command, *paths).code == 0
        assert [one for one in seen if one[1]] == [("4 files", paths[number], 3) for number in (0, 1, 3)]
