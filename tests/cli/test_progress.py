"""The bar shows on a terminal, after a while, and nowhere else."""

import os
import subprocess
import sys

import pytest

WORK = "from dpcalc.cli.progress import progress\nimport time\nwith progress():\n    time.sleep({seconds})\n"


def stderr_of(seconds, stream):
    run = subprocess.Popen([sys.executable, "-c", WORK.format(seconds=seconds)], stderr=stream, env={**os.environ})
    return run.wait()


@pytest.mark.parametrize(("seconds", "shown"), [(1.8, True), (0.1, False)])
def test_a_bar_appears_on_a_terminal_when_work_takes_long(seconds, shown):
    reader, writer = os.openpty()
    assert stderr_of(seconds, writer) == 0
    os.close(writer)
    os.set_blocking(reader, False)
    try:
        text = os.read(reader, 65536).decode()
    except (OSError, BlockingIOError):
        text = ""
    os.close(reader)
    assert ("computing" in text) is shown


def test_nothing_is_drawn_off_a_terminal():
    run = subprocess.run([sys.executable, "-c", WORK.format(seconds=1.3)], capture_output=True, check=True)
    assert (run.stdout, run.stderr) == (b"", b"")
