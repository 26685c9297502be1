"""Running commands in tests: in this process, or in one of their own."""

import fcntl
import os
import struct
import subprocess
import sys
import termios
from pathlib import Path
from types import SimpleNamespace

from dpcalc.cli.app import run
from tests.cli import stand_in

STAND_IN = Path(stand_in.__file__)
CONFIG = """\
version: 1
name: {name}
data: {{examples: 60_000}}
sampling: {{scheme: poisson}}
mechanism: {{type: gaussian, noise_multiplier: 1.1, max_grad_norm: 1.0}}
training: {{batch_size: 256, steps: {steps}}}
privacy: {{unit: example, adjacency: add-remove, delta: 1e-5}}
{budget}
"""
STEERING = (
    "NO_COLOR",
    "FORCE_COLOR",
    "GITHUB_ACTIONS",
    "PY_COLORS",
    "TERM",
    "COLUMNS",
    "DPCALC_TRACEBACK",
    "DPCALC_CONFIG",
)


def in_this_process(capsys):
    """Run a command and return what it says."""

    def ran(*arguments):
        capsys.readouterr()
        code = run(arguments)
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return ran


def shown_on(terminal, until=""):
    """Text that a terminal shows, up to a word, or until nobody writes to it any more."""
    text = b""
    while not until or until.encode() not in text:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux reports the end of a terminal so
            break
        if not part:
            break
        text += part
    return text.decode()


def environment(**changes):
    """This process's environment without what steers colours, plus changes."""
    return {name: value for name, value in os.environ.items() if name not in STEERING} | changes


def on_a_terminal(*arguments, columns=80, errors=None, **changes):
    """Exit code and output of a command on a terminal that shows colours; standard error too, or to `errors`."""
    reader, writer = os.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, STAND_IN, *arguments]
    env = environment(**({"TERM": "xterm-256color"} | changes))
    running = subprocess.Popen(command, stdout=writer, stderr=writer if errors is None else errors, env=env)
    os.close(writer)
    text = shown_on(reader)
    os.close(reader)
    return running.wait(timeout=60), text.replace("\r\n", "\n")
