"""dpcalc beside dp_accounting and prv_accountant on the same cases, in one run.

    python -m benchmarks [--renew] [--only TEXT ...] [--rounds 2] [--seconds 30] [--search] [--output FILE]

Every question runs in a process of its own, the tools of a case taking turns; a process repeats a quick call for a
moment. A peer is given the setting at which it answers as sharply as ours (running.py says how it is found). Writes a
row for each tool and case as CSV, prints the goals as rows of Markdown, and exits 1 if one is missed. Needs the test
extra and a POSIX system; run it from the root of the repository on a machine with nothing else to do. It takes ten
minutes with the settings of the recorded run, an hour with `--search`. `--renew` is for a release: it replaces the
recorded run, results.csv; the printed rows then go into docs/benchmarks.md, their ratios into README.md.
"""

import argparse
import csv
import datetime as dt
import importlib.metadata
import math
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.cases import CASES, SAMPLES
from benchmarks.goals import goals, line
from benchmarks.running import (
    CALIBRATE,
    DEFAULT_GRID,
    EPSILON,
    INTERVAL,
    INVERSION,
    ONE_INVERSION,
    PLD,
    PLD_DEFAULT,
    PRV,
    RDP,
    RELATIVE,
    SOLVE,
    SOLVE_COMMAND,
    UPPER_END,
    asked,
    matched,
    ran,
)
from dpcalc._version import __version__
from dpcalc.config.load import load

RESULTS = Path(__file__).with_name("results.csv")
WORDS = ("case", "tool", "status")
NUMBERS = ("setting", "lower", "upper", "width", "error", "seconds", "cpu", "cold", "mebibytes")
"""Columns of numbers: `width` and `error` relative, `seconds`, `cpu` and `cold` medians, `mebibytes` the peak."""
SLOW = 4.0  # seconds of a process after which it is not run again
WRONG = 3e-5  # relative; the middle of our interval, where nothing better is known, is as good as that
FLAT, LEVELS = SAMPLES / "mnist_dpsgd.yaml", SAMPLES / "clinics_unequal.yaml"  # one level, three levels
GATED = """\
version: 1
data: {{examples: 60_000}}
sampling: {{scheme: poisson, expected: 256}}
mechanism: {{noise_multiplier: {sigma:g}, max_grad_norm: 1.0}}
training: {{steps: {steps}}}
privacy: {{adjacency: add-remove, delta: 1e-5}}
budget: {{epsilon: 8}}
"""


PEER = """\
import dp_accounting
from dp_accounting import pld
accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
accountant.compose(dp_accounting.PoissonSampledDpEvent({rate}, dp_accounting.GaussianDpEvent({sigma})), {steps})
print(accountant.get_epsilon({delta}))
"""


def peer_program(path):
    """A program that asks dp_accounting's default PLD accountant about a flat Poisson run."""
    plan = load(str(path)).plan
    (phase,) = plan.phases
    rate, sigma = float(phase.hierarchy.inclusion(plan.unit)), phase.mechanism.noise_multiplier
    return PEER.format(rate=rate, sigma=sigma, steps=phase.steps, delta=plan.delta)


def read(path=RESULTS):
    """The rows of an earlier run."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        return [row | {name: float(row[name]) if row[name] else None for name in NUMBERS} for row in rows]


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def measured(case, rounds, seconds, recorded):
    """Rows of one case, of all tools, taking turns."""
    first = asked(SOLVE if case.target else INTERVAL, case, None, seconds)
    exact = case.exact or (None if first.failure else (first.lower + first.upper) / 2)
    tools = [SOLVE, SOLVE_COMMAND, CALIBRATE]
    if not case.target:
        tools = [INTERVAL, UPPER_END, INVERSION, ONE_INVERSION, EPSILON]
    is_reached, settings, runs = {}, {}, {tool: [] for tool in tools}
    if case.peers and not case.target and exact is not None:
        runs[PLD_DEFAULT], settings[PLD_DEFAULT] = [], DEFAULT_GRID
        # Of batches that are cut dp_accounting takes a larger loss, and the others know none.
        if not any(phase.cap for phase in case.phases):
            goal = RELATIVE * exact
            if not first.failure:
                goal = first.upper - exact if case.exact else (first.upper - first.lower) / 2
            runs[RDP] = []
            for tool in (PLD, PRV):
                settings[tool], is_reached[tool], run = matched(tool, case, exact, goal, seconds, recorded)
                runs[tool] = [run] if run.failure or run.cold > SLOW else []
    for _ in range(rounds):
        for tool, each in runs.items():
            if not any(run.failure or run.upper == math.inf or (run.cold or 0) > SLOW for run in each):
                each.append(asked(tool, case, settings.get(tool), seconds))
    rows = []
    for tool, each in runs.items():
        last = next((run for run in reversed(each) if not run.failure), None)
        lower, upper = (last.lower, last.upper) if last else (None, None)
        status = next((run.failure for run in each if run.failure), "")
        if not status and any(run.upper == math.inf for run in each):
            status = "infinite"
        if not status and not is_reached.get(tool, True):
            status = "accuracy not reached"
        if not status and not tool.startswith("dpcalc") and not case.target and exact and upper is not None:
            if upper < exact * (1 - WRONG):
                status = "below the exact value"
            elif lower is not None and lower > exact * (1 + WRONG):
                status = "above the exact value"
        rows.append(
            {
                "case": case.name,
                "tool": tool,
                "setting": settings.get(tool),
                "lower": lower,
                "upper": upper,
                "width": None if lower is None or not exact else (upper - lower) / exact,
                "error": None if upper is None or not exact else upper / exact - 1,
                "seconds": median(value for run in each for value in run.seconds),
                "cpu": median(value for run in each for value in run.cpu),
                "cold": median(run.cold for run in each),
                "mebibytes": max((run.mebibytes for run in each if run.mebibytes), default=None),
                "status": status,
            }
        )
    return rows


def whole_processes(rounds):
    """Goals of a cold `dpcalc epsilon` beside a cold dp_accounting, and of many configs in one `dpcalc check`."""
    ours = [sys.executable, "-m", "dpcalc"]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(500):
            text = GATED.format(sigma=1 + number / 500, steps=5_000 + 10 * number)
            Path(folder, f"run_{number:03}.yaml").write_text(text, encoding="utf-8")
        commands = [
            [*ours, "epsilon", str(FLAT)],
            [sys.executable, "-c", peer_program(FLAT)],
            [*ours, "epsilon", str(LEVELS)],
            [*ours, "check", *sorted(map(str, Path(folder).iterdir()))],
        ]
        for command in commands[:-1]:  # once before it counts
            ran(command)
        seconds = [[ran(command)[1] for command in commands] for _ in range(rounds)]
    flat, theirs, levels, many = map(statistics.median, zip(*seconds, strict=True))
    ratio = statistics.median(our / peer for our, peer, *_ in seconds)
    what = "cold `dpcalc epsilon` of a flat run in half of the time of dp_accounting"
    return [
        line(what, f"{ratio:.2f} ({flat:.2f} s beside {theirs:.2f} s)", ratio <= 0.5),
        line("cold `dpcalc epsilon` of three levels in 1 s", f"{levels:.2f} s", levels <= 1),
        line("500 configs in one `check` in 6 s", f"{many:.1f} s", many <= 6),
    ]


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="dpcalc beside its peers.")
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose name contains it")
    parser.add_argument("--renew", action="store_true", help="replace the recorded run")
    parser.add_argument("--rounds", type=int, default=2, help="processes for each tool and case")
    parser.add_argument("--seconds", type=float, default=30, help="time-out of one process")
    parser.add_argument("--search", action="store_true", help="find the peers' settings anew")
    parser.add_argument("--output", type=Path, default=Path("benchmark_results.csv"))
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once, not at every start
    recorded = {}
    if not options.search:
        recorded = {(row["case"], row["tool"]): (row["setting"], row["status"]) for row in read() if row["setting"]}
    of_processes = [] if options.only else whole_processes(options.rounds + 1)
    table = []
    for case in CASES:
        if not options.only or any(text in case.name for text in options.only):
            table += measured(case, options.rounds, options.seconds, recorded)
            sys.stdout.write(f"{case.name}\n")
            sys.stdout.flush()
    with (RESULTS if options.renew else options.output).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*WORDS[:2], *NUMBERS, WORDS[2]])
        writer.writeheader()
        writer.writerows(table)
    lines = [*goals(table), *of_processes]
    versions = (
        f"{name} {importlib.metadata.version(name)}" for name in ("dp-accounting", "prv-accountant", "numpy", "scipy")
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}"
    today = dt.datetime.now(tz=dt.UTC).date()
    software = f"dpcalc {__version__}, Python {platform.python_version()}, {', '.join(versions)}"
    sys.stdout.write("\n".join(["", *lines, "", f"Measured {today}; {software}; {machine}.", ""]))
    return 1 if any(each.endswith("falls short |") for each in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
