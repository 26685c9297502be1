"""The table, as Markdown and CSV."""

import csv
import statistics
from fractions import Fraction
from pathlib import Path

from tests.benchmarks.running import INTERVAL, SOLVE

WRONG = 3e-5  # relative; the middle of our interval, where nothing better is known, is as good as that
RECORDED = Path(__file__).parents[1] / "peers" / "recorded.csv"
COLUMNS = {
    "case": "case",
    "tool": "tool",
    "setting": "setting",
    "lower": "lower",
    "upper": "upper",
    "width": "relative width",
    "error": "relative error",
    "seconds": "library, s",
    "cpu": "its CPU, s",
    "cold": "cold process, s",
    "mebibytes": "peak, MiB",
    "ratio": "library / ours",
    "cpu_ratio": "CPU / ours",
    "status": "status",
}


def median(values):
    values = list(values)
    return statistics.median(values) if values else None


def baseline(rows):
    """Our row of a case that the others are divided by."""
    return next(row for row in rows if row.tool in (INTERVAL, SOLVE))


def seconds_of(row):
    """Median over all calls of all rounds."""
    return median(value for run in row.runs for value in run.seconds)


def cpu_of(row):
    return median(value for run in row.runs for value in run.cpu)


def cold_of(row):
    return median(run.cold for run in row.runs if run.cold is not None)


def memory_of(row):
    return max((run.mebibytes for run in row.runs if run.mebibytes is not None), default=None)


def records(rows, exact):
    """One dictionary for each row of a case, with the keys of COLUMNS; numbers or None, except words."""
    return [_record(row, exact, baseline(rows)) for row in rows] + _recorded(rows[0].case, exact)


def _record(row, exact, ours):
    last = next((run for run in reversed(row.runs) if not run.failure), None)
    lower, upper = (last.lower, last.upper) if last else (None, None)
    return {
        "case": row.case.name,
        "tool": row.tool.name,
        "setting": row.setting,
        "lower": lower,
        "upper": upper,
        "width": None if lower is None or not exact else (upper - lower) / exact,
        "error": None if upper is None or not exact else upper / exact - 1,
        "seconds": seconds_of(row),
        "cpu": cpu_of(row),
        "cold": cold_of(row),
        "mebibytes": memory_of(row),
        "ratio": _quotient(seconds_of(row), seconds_of(ours)),
        "cpu_ratio": _quotient(cpu_of(row), cpu_of(ours)),
        "status": row.failure or ("" if row.reached else "accuracy not reached") or _wrong(row, lower, upper, exact),
    }


def _wrong(row, lower, upper, exact):
    """What a bound or an interval of a peer is that misses the exact value by more than our digits."""
    if row.tool.ours or row.case.target or not exact or upper is None:
        return ""
    if upper < exact * (1 - WRONG):
        return "below the exact value"
    return "above the exact value" if lower is not None and lower > exact * (1 + WRONG) else ""


def _quotient(a, b):
    return a / b if a and b else None


def _recorded(case, exact):
    """What Opacus printed elsewhere for the same run."""
    empty = dict.fromkeys(COLUMNS)
    if case.opacus:
        named = {"case": case.name, "tool": "Opacus RDP", "upper": case.opacus, "status": "from its test suite"}
        return [empty | named | {"error": case.opacus / exact - 1 if exact else None}]
    found = []
    with RECORDED.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            if line["tool"] == "Opacus" and _is_same(line, case):
                named = {"case": case.name, "tool": f"Opacus {line['accountant'].upper()}"}
                value = float(line["upper"]) if line["upper"] else None
                error = None if value is None or not exact else value / exact - 1
                status = f"recorded: {line['kind']}"
                found.append(empty | named | {"upper": value, "error": error, "status": status})
    return found


def _is_same(line, case):
    if len(case.phases) != 1:
        return False
    (phase,) = case.phases
    same_run = float(line["noise_multiplier"]) == phase.sigma and int(line["steps"]) == phase.steps
    return same_run and Fraction(line["rate"]) == Fraction(phase.rate) and float(line["delta"]) == case.delta


def write_csv(path, table):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(COLUMNS))
        writer.writeheader()
        writer.writerows(table)


def markdown(table):
    """One line for each row; a case is named once."""
    lines = [f"| {' | '.join(COLUMNS.values())} |", "|---" * len(COLUMNS) + "|"]
    previous = ""
    for record in table:
        shown = record | {"case": "" if record["case"] == previous else record["case"]}
        previous = record["case"]
        lines.append(f"| {' | '.join(_cell(key, shown[key]) for key in COLUMNS)} |")
    return "\n".join(lines)


def _cell(key, value):
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if key in ("width", "error", "setting"):
        return f"{value:.1e}"
    if key in ("lower", "upper"):
        return f"{value:.7g}"
    return f"{value:.0f}" if key == "mebibytes" else f"{value:.3g}"
