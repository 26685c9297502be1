"""dpcalc beside dp_accounting and prv_accountant on the same cases, in one run.

    python -m tests.benchmarks [--renew] [--only TEXT ...] [--rounds 2] [--seconds 30] [--gibibytes 12]
        [--search] [--accuracy A] [--output FOLDER]

Every question runs in a process of its own, the tools of a case taking turns; a process repeats a quick call for a
moment. A peer is given the setting at which it answers as sharply as ours (matching.py says how it is found). Writes
benchmarks.md and benchmarks.csv into the folder and prints the goals; exits 1 if one is missed. Needs the test extra
and a POSIX system; run it from the root of the repository on a machine with nothing else to do. It takes ten minutes
with the settings of the recorded run, an hour with `--search`. `--renew` is for a release: it replaces the recorded
run, the table of docs/benchmarks.md and the measured ratios of README.md.
"""

import argparse
import csv
import datetime as dt
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from dpcalc._version import __version__
from tests.benchmarks.cases import CASES
from tests.benchmarks.measuring import measured
from tests.benchmarks.pages import ROOT, rewrite, rows
from tests.benchmarks.report import markdown, records, write_csv
from tests.benchmarks.requirements import checklist, readme_ratios, shortfalls
from tests.benchmarks.running import GIBIBYTE, Caps
from tests.benchmarks.summary import summary
from tests.benchmarks.whole import whole_processes

RESULTS = ROOT / "tests" / "benchmarks" / "results"

PACKAGES = ["dp-accounting", "prv-accountant", "numpy", "scipy"]


def parsed():
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="dpcalc beside its peers.")
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose name contains it")
    parser.add_argument("--renew", action="store_true", help="replace the recorded run and the figures of the pages")
    parser.add_argument("--rounds", type=int, default=2, help="processes for each tool and case")
    parser.add_argument("--seconds", type=float, default=30, help="time-out of one process")
    parser.add_argument("--search", action="store_true", help="find the peers' settings anew")
    parser.add_argument("--gibibytes", type=float, default=12, help="address space of one process")
    parser.add_argument(
        "--accuracy", type=float, help="relative error asked of the peers; by default that of our upper end"
    )
    parser.add_argument("--output", type=Path, default=Path("benchmark_results"))
    return parser.parse_args()


def chosen(only):
    return [case for case in CASES if not only or any(text in case.name for text in only)]


def machine():
    """Date, versions, size of the machine."""
    today = dt.datetime.now(tz=dt.UTC).date()
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIBIBYTE
    size = f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}"
    return f"{today}; dpcalc {__version__}, Python {platform.python_version()}, {versions}; {size}"


def recorded_settings():
    """{(case, tool): (setting, status)} of the recorded run."""
    with (RESULTS / "benchmarks.csv").open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["setting"]]
    return {(line["case"], line["tool"]): (float(line["setting"]), line["status"]) for line in lines}


def page(found, table, goals):
    """The Markdown file."""
    parts = {
        "Summary": summary(found),
        "Goals": [f"{'holds' if goal.holds else 'falls short'}: {goal.what}: {goal.measured}" for goal in goals],
        "Short of what must hold, case by case": shortfalls(found) or ["nothing"],
    }
    lines = [f"{machine()}\n", markdown(table)]
    for heading, each in parts.items():
        lines += [f"\n## {heading}\n", *(f"- {line}" for line in each)]
    return "\n".join([*lines, ""])


def main():
    arguments = parsed()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled once, not at every start
    caps = Caps(seconds=arguments.seconds, gibibytes=arguments.gibibytes, accuracy=arguments.accuracy)
    output = RESULTS if arguments.renew else arguments.output
    output.mkdir(parents=True, exist_ok=True)
    recorded = {} if arguments.search or arguments.accuracy else recorded_settings()
    whole = [] if arguments.only else whole_processes(arguments.rounds + 1)
    found, table = [], []
    for case in chosen(arguments.only):
        each, exact = measured(case, arguments.rounds, caps, recorded)
        found.append((each, exact))
        table += records(each, exact)
        sys.stdout.write(f"{case.name}\n")
        sys.stdout.flush()
    goals = [*checklist(found), *whole]
    write_csv(output / "benchmarks.csv", table)
    (output / "benchmarks.md").write_text(page(found, table, goals), encoding="utf-8")
    if arguments.renew:
        rewrite(goals, readme_ratios(found), machine())
    sys.stdout.write("\n".join(["", *summary(found), "", *rows(goals), ""]))
    return 0 if all(goal.holds for goal in goals) else 1


if __name__ == "__main__":
    sys.exit(main())
