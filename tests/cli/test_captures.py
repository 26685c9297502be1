"""What people see in a terminal of 60, 80 and 120 columns: captures that were read; `pytest --renew`, then git diff."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpcalc._version import __version__
from tests.cli.running import environment, shown_on

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_configs"
CAPTURES = Path(__file__).parent / "captures"
WIDTHS = (60, 80, 120)
COMMANDS = """\
--help
sweep --help
epsilon mnist_dpsgd.yaml
epsilon two_phase.yaml -v
epsilon one_step.yaml
epsilon clinic_maml.yaml --unit all
epsilon mnist_dpsgd.yaml clinic_maml.yaml
epsilon --no-config
epsilon wrong.yaml
delta mnist_dpsgd.yaml --epsilon 1
risk mnist_dpsgd.yaml
solve-sigma survey_and_training.yaml --target-eps 3
solve-steps mnist_dpsgd.yaml --target-eps 2
compare mnist_dpsgd.yaml
compare mnist_dpsgd.yaml clinic_maml.yaml
curve steps mnist_dpsgd.yaml clinic_maml.yaml --range 1000,20000
curve rdp mnist_dpsgd.yaml --range 2,4,30
sweep mnist_dpsgd.yaml --over mechanism.noise_multiplier=1,2 --over training.steps=1000,10000
sweep mnist_dpsgd.yaml --over mechanism.noise_multiplier=1,2
check mnist_dpsgd.yaml clinic_maml.yaml wrong.yaml --max-epsilon 1
diff mnist_dpsgd.yaml mnist_opacus.yaml
statement clinic_maml.yaml
pate teacher_votes.csv --gamma 0.1 --delta 1e-5
explain DPC208
""".splitlines()
LONE_WORDS = re.compile(r"\b[0-9a-f]{64}\b")  # a hash is never broken: people copy it
PROGRAM = """
import fcntl, struct, sys, termios, textwrap
from dpcalc.cli import progress
from dpcalc.cli.app import run
from tests import shared_results
progress.PATIENCE = 3600.0
shared_results.install(setattr)  # what the same command costs is computed once for all widths
for width in map(int, sys.argv[1:]):
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    for line in open("commands", encoding="utf-8").read().splitlines():
        print(textwrap.fill(f"$ dpcalc {line}", 58, break_on_hyphens=False), flush=True)
        print(f"[{run(line.split())}]", flush=True)
    print("[end]", flush=True)
"""
WRONG = """\
version: 1
data: {examples: 60_000}
sampling: {scheme: poisson, rate: 0.01}
mechanism: {type: gaussian, max_grad_norm: 1.0, noise_multiplier: 1.1, l2_norm_clip: 1.0, and_another_key_of_ours: 3}
training: {steps: 100}
privacy: {delta: 1e-5, adjacency: add-remove}
"""


def plain(text):
    """A capture without escape sequences, trailing spaces and the version."""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.replace("\r", ""))
    text = re.sub(rf"(?<=  ){re.escape(__version__)}$", "VERSION", text, flags=re.MULTILINE)
    return "".join(f"{line.rstrip()}\n" for line in text.rstrip().splitlines())


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """What the commands write to a pseudo-terminal, by its columns, colours included."""
    folder = tmp_path_factory.mktemp("captures")
    for name in {word for line in COMMANDS for word in line.split() if (SAMPLES / word).is_file()}:
        shutil.copy(SAMPLES / name, folder)
    one_step = re.sub(", l2_norm.*}", "}", WRONG).replace("steps: 100", "steps: 1")
    files = {"wrong.yaml": WRONG, "one_step.yaml": one_step, "commands": "\n".join(COMMANDS), "program.py": PROGRAM}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    ours, theirs = os.openpty()
    env = environment(TERM="xterm", PYTHONPATH=str(ROOT))
    command = [sys.executable, "program.py", *map(str, WIDTHS)]
    running = subprocess.Popen(command, cwd=folder, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = shown_on(ours)
    os.close(ours)
    assert running.wait(timeout=60) == 0
    parts = LONE_WORDS.sub("HASH", shown).split("[end]\r\n")
    return dict(zip(WIDTHS, parts, strict=False))


@pytest.mark.heavy
@pytest.mark.parametrize("width", WIDTHS)
def test_captures_of_a_pseudo_terminal(captured, width, same_as_file):
    shown = captured[width]
    assert "\x1b[1;31mfailed\x1b[0m" in shown
    text = plain(shown)
    assert max(map(len, text.splitlines())) <= width
    assert not re.search(r"note: note:|\b1 (steps|clip norms|configs|files|points)\b|Traceback", text)
    same_as_file(text, CAPTURES / f"{width}.txt")


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed; the pseudo-terminal is tried anyway")
@pytest.mark.parametrize("width", WIDTHS)
def test_tmux_shows_the_same(captured, width, tmp_path):
    """In a real terminal, which breaks wider lines; it shows what was written, and one command is run inside it."""
    (tmp_path / "shown").write_text(captured[width], encoding="utf-8")
    tmux = ["tmux", "-f", "/dev/null", "-S", str(tmp_path / "socket")]
    program = "from dpcalc.cli.app import run; print('[end]', flush=True); run(['risk', '--help']); print('[done]')"
    command = f'stty -onlcr; cat shown; stty onlcr; {shlex.quote(sys.executable)} -c "{program}"; sleep 60'
    start = [
        "set-option",
        "-g",
        "history-limit",
        "5000",
        ";",
        "new-session",
        "-d",
        "-x",
        str(width),
        "-y",
        "50",
        command,
    ]
    env = environment(TERM="xterm", PYTHONPATH=str(ROOT), HOME=str(tmp_path))
    subprocess.run([*tmux, *start], cwd=tmp_path, env=env, check=True)
    try:
        shown, end = "", time.monotonic() + 60
        while "[done]" not in shown and time.monotonic() < end:
            time.sleep(0.1)
            shown = subprocess.run(
                [*tmux, "capture-pane", "-p", "-S", "-"], capture_output=True, text=True, check=True
            ).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    capture, _, live = plain(shown).partition("[end]\n")
    expected = (CAPTURES / f"{width}.txt").read_text(encoding="utf-8")
    assert capture == expected
    assert {60: 50, 80: 70, 120: 70}[width] < max(map(len, live.splitlines())) <= min(width, 80)
