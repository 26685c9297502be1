"""`python -m tests.benchmarks.scan [FOLDER]`: counting a folder tree against a bare os.walk, alternating, one process.

Without FOLDER it makes one of 50 users with 40 sessions of 100 files each, and a wide one of 20 classes of 10,000.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from dpcalc.scan.count import scan

ROUNDS = 7
SHAPES = {"50 x 40 x 100": (50, 40, 100), "20 x 10000": (20, 10_000), "20000 x 5": (20_000, 5)}


def walked(folder):
    return sum(len(files) for _, _, files in os.walk(folder))


def counted(folder):
    return scan(folder, on_progress=lambda _: None).sizes[-1].units


def counted_with_suffix(folder):
    return scan(folder, endings=(".jpg",), on_progress=lambda _: None).sizes[-1].units


def grow(folder, shape):
    first, *rest = shape
    for number in range(first):
        if rest:
            (folder / f"unit_{number}").mkdir()
            grow(folder / f"unit_{number}", rest)
        else:
            (folder / f"record_{number:06}.jpg").touch()


def seconds(work, folder):
    start = time.perf_counter()
    found = work(folder)
    return time.perf_counter() - start, found


def compare(name, folder):
    ways = (walked, counted, counted_with_suffix)
    best = {way: float("inf") for way in ways}
    for _ in range(ROUNDS):
        for way in ways:
            taken, records = seconds(way, folder)
            best[way] = min(best[way], taken)
    ratios = " | ".join(f"{best[way]:.3f} ({best[way] / best[walked]:.2f})" for way in ways)
    print(f"| {name} | {records} | {ratios} |", flush=True)  # noqa: T201


def main():
    print("| folder | files | os.walk, s | scan | scan --suffix |\n|---|---|---|---|---|")  # noqa: T201
    for folder in sys.argv[1:]:
        compare(folder, folder)
    for name, shape in ({} if sys.argv[1:] else SHAPES).items():
        with tempfile.TemporaryDirectory() as folder:
            grow(Path(folder), shape)
            compare(name, folder)


if __name__ == "__main__":
    main()
