"""Cold `dpcalc epsilon CONFIG` beside a cold process that asks dp_accounting's default PLD accountant the same.

    python tests/benchmarks/cold_start.py [--repeats 5] [CONFIG ...]

Both sides start a fresh interpreter and alternate within one run, so that a busy machine slows both. dp_accounting gets
the flat Poisson pair of the protected unit, phase by phase: it has no PLD for fixed-size batches or nested sampling, so
there it answers an easier question. Prints a Markdown table of medians; exits 1 if ours takes more than half as long
anywhere or uses 300 MiB or more. Needs the test extra and a system with `wait4`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from dpcalc.config.load import load
from dpcalc.planner.published import flat_poisson_row

SAMPLES = Path(__file__).parents[2] / "sample_configs"
MOST_RATIO, MOST_MEBIBYTES = 0.5, 300
PEER = """\
import dp_accounting
from dp_accounting import pld
accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.{relation})
for rate, sigma, steps in {phases}:
    event = dp_accounting.GaussianDpEvent(sigma)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, event) if rate < 1 else event, steps)
print(accountant.get_epsilon({delta!r}))
"""
HEADINGS = [
    "config",
    "dpcalc",
    "dp_accounting",
    "its question",
    "dpcalc, s",
    "dp_accounting, s",
    "ratio",
    "dpcalc, MiB",
    "dp_accounting, MiB",
]
RELATIONS = {"add-remove": "ADD_OR_REMOVE_ONE", "replace-one": "REPLACE_ONE", "zero-out": "REPLACE_SPECIAL"}


@dataclass(frozen=True)
class Ran:
    """One cold process."""

    seconds: float
    mebibytes: float
    output: str


def ran(command: list[str]) -> Ran:
    """Wall time from start to exit, and peak resident memory."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command[:4])}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Ran(seconds=seconds, mebibytes=usage.ru_maxrss / unit, output=output.strip())


def peer_program(path: Path) -> tuple[str, bool]:
    """The same run for dp_accounting, and whether it is the same question."""
    plan = load(str(path)).plan
    phases = [
        (float(p.hierarchy.inclusion(plan.unit)), p.mechanism.noise_multiplier, p.steps) for p in plan.phases if p.steps
    ]
    program = PEER.format(relation=RELATIONS[str(plan.adjacency)], phases=phases, delta=plan.delta)
    return program, flat_poisson_row(plan).valid


def row(path: Path, repeats: int) -> tuple[str, bool]:
    """One line of the table, and whether it meets the requirement, which is of the same question alone."""
    program, same = peer_program(path)
    ours_command = [sys.executable, "-m", "dpcalc", "epsilon", str(path)]
    peer_command = [sys.executable, "-c", program]
    ours, peer = [], []
    for _ in range(repeats):
        ours.append(ran(ours_command))
        peer.append(ran(peer_command))
    seconds, peer_seconds = (statistics.median(r.seconds for r in runs) for runs in (ours, peer))
    memory, peer_memory = (max(r.mebibytes for r in runs) for runs in (ours, peer))
    ratio = seconds / peer_seconds
    cells = [
        path.stem,
        next(line.removeprefix("epsilon: ") for line in ours[0].output.splitlines() if line.startswith("epsilon: ")),
        f"{float(peer[0].output):.4g}",
        "the same" if same else "flat Poisson",
        f"{seconds:.3f}",
        f"{peer_seconds:.3f}",
        f"{ratio:.2f}",
        f"{memory:.0f}",
        f"{peer_memory:.0f}",
    ]
    line = f"| {' | '.join(cells)} |"
    return line, not same or (ratio <= MOST_RATIO and memory < MOST_MEBIBYTES)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Cold start beside dp_accounting's PLD accountant.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("configs", nargs="*", type=Path, default=sorted(SAMPLES.glob("*.yaml")))
    arguments = parser.parse_args()
    lines = [f"| {' | '.join(HEADINGS)} |", "|---" * len(HEADINGS) + "|"]
    met = True
    for path in arguments.configs:
        if not load(str(path)).plan.is_gaussian:
            lines.append(f"| {path.stem} | not asked: not all noise is Gaussian |")
            continue
        line, good = row(path, arguments.repeats)
        met = met and good
        lines.append(line)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
