"""dpcalc beside dp_accounting and prv_accountant on the same cases, in one run.

    python -m tests.benchmarks [--only TEXT ...] [--rounds 3] [--seconds 60] [--gibibytes 12]
        [--accuracy A] [--output FOLDER]

Every question runs in a process of its own, the tools of a case taking turns; a process repeats a quick call for a
moment. A peer is given the setting at which it answers as sharply as ours (matching.py says how it is found). Writes
benchmarks.md and benchmarks.csv into the folder and prints the summary; exits 1 if a requirement is missed. Needs the
test extra and a POSIX system, and about an hour; run it from the root of the repository on a machine with nothing
else to do.
"""

import argparse
import datetime as dt
import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from tests.benchmarks.cases import CASES
from tests.benchmarks.measuring import measured
from tests.benchmarks.report import markdown, records, write_csv
from tests.benchmarks.requirements import checklist, shortfalls
from tests.benchmarks.running import GIBIBYTE, Caps
from tests.benchmarks.summary import summary

PACKAGES = ["dpcalc-privacy", "dp-accounting", "prv-accountant", "numpy", "scipy"]


def parsed():
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="dpcalc beside its peers.")
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose name contains it")
    parser.add_argument("--rounds", type=int, default=3, help="processes for each tool and case")
    parser.add_argument("--seconds", type=float, default=60, help="time-out of one process")
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
    return f"{today}; Python {platform.python_version()}, {versions}; {size}"


def page(found, table):
    """The Markdown file."""
    parts = {
        "Summary": summary(found),
        "Requirements": checklist(found),
        "Short of what must hold, case by case": shortfalls(found) or ["nothing"],
    }
    lines = [f"{machine()}\n", markdown(table)]
    for heading, each in parts.items():
        lines += [f"\n## {heading}\n", *(f"- {line}" for line in each)]
    return "\n".join([*lines, ""])


def main():
    arguments = parsed()
    caps = Caps(seconds=arguments.seconds, gibibytes=arguments.gibibytes, accuracy=arguments.accuracy)
    arguments.output.mkdir(parents=True, exist_ok=True)
    found, table = [], []
    for case in chosen(arguments.only):
        rows, exact = measured(case, arguments.rounds, caps)
        found.append((rows, exact))
        table += records(rows, exact)
        sys.stdout.write(f"{case.name}\n")
        sys.stdout.flush()
        write_csv(arguments.output / "benchmarks.csv", table)
        (arguments.output / "benchmarks.md").write_text(page(found, table), encoding="utf-8")
    requirements = checklist(found)
    sys.stdout.write("\n".join(["", *summary(found), "", *requirements, ""]))
    return 0 if all(line.startswith("holds") for line in requirements) else 1


if __name__ == "__main__":
    sys.exit(main())
