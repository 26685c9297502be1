"""Cold `dpcalc epsilon CONFIG` beside a cold process that asks dp_accounting's default PLD accountant the same.

    python -m tests.benchmarks.cold_start [--repeats 5] [CONFIG ...]

Both sides start a fresh interpreter and alternate within one run, so that a busy machine slows both. dp_accounting gets
the flat Poisson pair of the protected unit, phase by phase: it has no PLD for fixed-size batches or nested sampling, so
there it answers an easier question. Prints a Markdown table of medians; exits 1 if ours takes more than half as long
anywhere or uses 300 MiB or more. Needs the test extra and a system with `wait4`.
"""

import argparse
import statistics
import sys
from pathlib import Path

from dpcalc.config.load import load
from dpcalc.planner.published import flat_poisson_row
from tests.benchmarks.cases import SAMPLES
from tests.benchmarks.running import ran

PEER = """\
import dp_accounting
from dp_accounting import pld
accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.{relation})
for rate, sigma, steps in {phases}:
    event = dp_accounting.GaussianDpEvent(sigma)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, event) if rate < 1 else event, steps)
print(accountant.get_epsilon({delta!r}))
"""
RELATIONS = {"add-remove": "ADD_OR_REMOVE_ONE", "replace-one": "REPLACE_ONE", "zero-out": "REPLACE_SPECIAL"}


def peer_program(path):
    """The same run for dp_accounting, and whether it is the same question."""
    plan = load(str(path)).plan
    phases = [
        (float(each.hierarchy.inclusion(plan.unit)), each.mechanism.noise_multiplier, each.steps)
        for each in plan.phases
        if each.steps
    ]
    program = PEER.format(relation=RELATIONS[str(plan.adjacency)], phases=phases, delta=plan.delta)
    return program, flat_poisson_row(plan).valid


def main():
    parser = argparse.ArgumentParser(description="Cold start beside dp_accounting's PLD accountant.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("configs", nargs="*", type=Path, default=sorted(SAMPLES.glob("*.yaml")))
    arguments = parser.parse_args()
    table = [
        ["config", "dpcalc", "dp_accounting", "its question", "s", "its s", "ratio", "MiB", "its MiB"],
        ["---"] * 9,
    ]
    is_met = True
    for path in arguments.configs:
        if not load(str(path)).plan.is_gaussian:
            table.append([path.stem, "not asked: not all noise is Gaussian", *[""] * 7])
            continue
        program, is_same = peer_program(path)
        commands = [sys.executable, "-m", "dpcalc", "epsilon", "-q", str(path)], [sys.executable, "-c", program]
        ours, theirs = zip(*[[ran(command) for command in commands] for _ in range(arguments.repeats)], strict=True)
        seconds, their_seconds = (statistics.median(each for _, each, _ in runs) for runs in (ours, theirs))
        memory, their_memory = (max(each for *_, each in runs) for runs in (ours, theirs))
        ratio = seconds / their_seconds
        is_met = is_met and (not is_same or (ratio <= 0.5 and memory < 300))
        epsilons = [ours[0][0], f"{float(theirs[0][0]):.4g}", "the same" if is_same else "flat Poisson"]
        times = [f"{seconds:.3f}", f"{their_seconds:.3f}", f"{ratio:.2f}"]
        table.append([path.stem, *epsilons, *times, f"{memory:.0f}", f"{their_memory:.0f}"])
    sys.stdout.write("".join(f"| {' | '.join(cells)} |\n" for cells in table))
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
