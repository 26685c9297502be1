"""Whole processes: a cold `dpcalc epsilon` beside a cold dp_accounting, and many configs in one `dpcalc check`."""

import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.cases import SAMPLES
from tests.benchmarks.cold_start import peer_program, ran

FLAT, LEVELS = "mnist_dpsgd.yaml", "clinics_unequal.yaml"  # the sample with three levels
CONFIGS, CONFIGS_SECONDS = 500, 6.0
COLD_RATIO, LEVELS_SECONDS = 0.4, 1.0
CONFIG = """\
version: 1
data: {{examples: 60_000}}
sampling: {{scheme: poisson, expected: 256}}
mechanism: {{noise_multiplier: {sigma:g}, max_grad_norm: 1.0}}
training: {{steps: {steps}}}
privacy: {{adjacency: add-remove, delta: 1e-5}}
budget: {{epsilon: 8}}
"""


@dataclass(frozen=True)
class Goal:
    """One line of the check-list: what should hold, what was measured, whether it holds."""

    what: str
    measured: str
    holds: bool


def whole_processes(rounds):
    """Goals of whole processes, with the median over rounds; each command runs once before it counts."""
    ours = [sys.executable, "-m", "dpcalc"]
    peer = [sys.executable, "-c", peer_program(SAMPLES / FLAT)[0]]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(CONFIGS):
            text = CONFIG.format(sigma=1 + number / CONFIGS, steps=5_000 + 10 * number)
            Path(folder, f"run_{number:03}.yaml").write_text(text, encoding="utf-8")
        commands = [
            [*ours, "epsilon", str(SAMPLES / FLAT)],
            peer,
            [*ours, "epsilon", str(SAMPLES / LEVELS)],
            [*ours, "check", *sorted(map(str, Path(folder).iterdir()))],
        ]
        for command in commands[:-1]:
            ran(command)
        seconds = [[ran(command).seconds for command in commands] for _ in range(rounds)]
    flat, theirs, levels, many = map(statistics.median, zip(*seconds, strict=True))
    ratio = statistics.median(ours / peer for ours, peer, *_ in seconds)
    return [
        Goal(
            f"cold `dpcalc epsilon` of a flat run in {COLD_RATIO:g} of the time of dp_accounting",
            f"{ratio:.2f} ({flat:.2f} s beside {theirs:.2f} s)",
            ratio <= COLD_RATIO,
        ),
        Goal(
            f"cold `dpcalc epsilon` of three levels in {LEVELS_SECONDS:g} s",
            f"{levels:.2f} s",
            levels <= LEVELS_SECONDS,
        ),
        Goal(f"{CONFIGS} configs in one `check` in {CONFIGS_SECONDS:g} s", f"{many:.1f} s", many <= CONFIGS_SECONDS),
    ]
