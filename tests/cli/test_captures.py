"""What people see in a terminal of 80 columns: a capture that was read; `pytest --renew`, then git diff."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpcalc._version import __version__
from tests.cli.running import environment, shown_on

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_configs"
CAPTURE = Path(__file__).parent / "capture.txt"
WIDTH = 80
COMMANDS = """\
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
PROGRAM = """
import fcntl, struct, sys, termios, textwrap
from dpcalc.cli import progress
from dpcalc.cli.app import run
from tests import shared_results
progress.PATIENCE = 3600.0
shared_results.install(setattr)  # what the same command costs is computed once
fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, int(sys.argv[1]), 0, 0))
for line in open("commands", encoding="utf-8").read().splitlines():
    print(textwrap.fill(f"$ dpcalc {line}", 58, break_on_hyphens=False), flush=True)
    print(f"[{run(line.split())}]", flush=True)
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


@pytest.mark.heavy
def test_a_capture_of_a_pseudo_terminal(tmp_path, same_as_file):
    for name in {word for line in COMMANDS for word in line.split() if (SAMPLES / word).is_file()}:
        shutil.copy(SAMPLES / name, tmp_path)
    one_step = re.sub(", l2_norm.*}", "}", WRONG).replace("steps: 100", "steps: 1")
    files = {"wrong.yaml": WRONG, "one_step.yaml": one_step, "commands": "\n".join(COMMANDS), "program.py": PROGRAM}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    ours, theirs = os.openpty()
    command = [sys.executable, "program.py", str(WIDTH)]
    env = environment(TERM="xterm", PYTHONPATH=str(ROOT))
    running = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    shown = shown_on(ours)
    os.close(ours)
    assert running.wait(timeout=60) == 0
    assert "\x1b[1;31mfailed\x1b[0m" in shown
    text = plain(shown)
    # A hash is never broken: people copy it.
    assert max(map(len, re.sub(r"\b[0-9a-f]{64}\b", "HASH", text).splitlines())) <= WIDTH
    assert not re.search(r"note: note:|\b1 (steps|clip norms|configs|files|points)\b|Traceback", text)
    same_as_file(re.sub(r"\b[0-9a-f]{64}\b", "HASH", text), CAPTURE)
