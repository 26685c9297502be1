"""What should hold of a run of the benchmark, as rows of the table of docs/benchmarks.md."""

import math
import statistics

from benchmarks.cases import BY_NAME
from benchmarks.running import (
    CALIBRATE,
    INTERVAL,
    INVERSION,
    ONE_INVERSION,
    PLD,
    PRV,
    SOLVE,
    SOLVE_COMMAND,
    UPPER_END,
)

WIDTH, ABSOLUTE_WIDTH = 1e-3, 1e-6
DIGITS = 1e-9  # of the exact values
RATIOS = [  # ours, theirs, their words, our words, what is compared, how many times as long they should take
    (INTERVAL, PLD, "dp_accounting PLD, one end at the same accuracy,", "our interval", "seconds", 5),
    (UPPER_END, PLD, "dp_accounting PLD, one end at the same accuracy,", "our upper end", "seconds", 2),
    (INTERVAL, PRV, "prv_accountant", "our interval", "seconds", 20),
    (SOLVE, CALIBRATE, "dp_accounting calibrate", "our search", "seconds", 60),
    (SOLVE_COMMAND, CALIBRATE, "dp_accounting calibrate", "`dpcalc solve-sigma`, cold processes", "cold", 6),
]


def line(what, measured, holds):
    return f"| {what} | {measured} | {'holds' if holds else 'falls short'} |"


def goals(table):
    """Lines of the check-list, from rows as __main__.py makes them; goals that cannot be measured are left out."""

    def answers(tool, *, known=False):
        return [
            row
            for row in table
            if row["tool"] == tool
            and row["error"] is not None
            and not row["status"]
            and (BY_NAME[row["case"]].exact or not known)
        ]

    def ratios(ours, theirs, measure):
        """How many times as long they take, where they answered as sharply as asked."""
        mine = {row["case"]: row[measure] for row in table if row["tool"] == ours and row[measure]}
        return [
            row[measure] / mine[row["case"]]
            for row in table
            if row["tool"] == theirs and row["case"] in mine and row[measure]
            if not row["status"] or row["status"].endswith("the exact value")
        ]

    lines = []
    if intervals := answers(INTERVAL):
        is_narrow = all(row["width"] <= WIDTH or row["upper"] - row["lower"] <= ABSOLUTE_WIDTH for row in intervals)
        widest = f"{max(row['width'] for row in intervals):.1e} relative at most, {len(intervals)} cases"
        lines.append(line("interval width at most 1e-3 relative or 1e-6", widest, is_narrow))
        known = answers(INTERVAL, known=True)
        inside = sum(
            row["lower"] * (1 - DIGITS) <= BY_NAME[row["case"]].exact <= row["upper"] * (1 + DIGITS) for row in known
        )
        lines.append(line("exact value inside", f"{inside} of {len(known)} known values", inside == len(known)))
    for ours, theirs, their_words, our_words, measure, wanted in RATIOS:
        if found := ratios(ours, theirs, measure):
            mean, least = statistics.geometric_mean(found), min(found)
            of_cpu = "" if measure == "cold" else f" (CPU {statistics.geometric_mean(ratios(ours, theirs, 'cpu')):.3g})"
            what = f"{their_words} takes {wanted} times as long as {our_words}, on the mean"
            measured = f"geometric mean {mean:.3g}{of_cpu}, least {least:.3g}, {len(found)} cases"
            lines.append(line(what, measured, mean >= wanted))
            if theirs == PLD:
                lines.append(line(f"{our_words} is slower in no case", f"least {least:.3g}", least >= 1))
    sweep = sorted(
        (BY_NAME[row["case"]].phases[0].steps, row["seconds"]) for row in intervals if BY_NAME[row["case"]].is_sweep
    )
    if len(sweep) > 1:
        (fewest, first), (most, last) = sweep[0], sweep[-1]
        allowed = math.log(most) / math.log(fewest)
        what = f"time from {fewest:.0e} to {most:.0e} steps: at most {allowed:.2g} times"
        lines.append(line(what, f"{last / first:.2f} times", last / first <= allowed))
    if inversions := answers(ONE_INVERSION):
        wall, cpu = (1e3 * statistics.median(row[name] for row in inversions) for name in ("seconds", "cpu"))
        lines.append(line("one inversion in 5 ms, median", f"{wall:.2f} ms (CPU {cpu:.2f})", wall <= 5))
    if errors := [abs(row["error"]) for row in answers(INVERSION, known=True)]:
        lines.append(line("inversion within 1e-8", f"{max(errors):.1e} at most", max(errors) <= 1e-8))
    both = {row["case"]: row["seconds"] for row in table if row["tool"] == INTERVAL}
    for row in answers(UPPER_END):
        if len(BY_NAME[row["case"]].phases) >= 200:
            measured = f"{row['seconds']:.2f} s (CPU {row['cpu']:.2f}); the interval {both[row['case']]:.2f} s"
            lines.append(line("upper ends of 200 phases in 2 s", measured, row["seconds"] <= 2))
    memory = max((row["mebibytes"] or 0 for row in table if row["tool"].startswith("dpcalc")), default=0)
    lines.append(line("memory under 500 MiB", f"{memory:.0f} MiB at most", memory < 500))
    if excess := [row["error"] for row in answers(SOLVE, known=True)]:
        holds = min(excess) >= -DIGITS and max(excess) <= 1e-4
        what = "noise multiplier at most 1e-4 over the optimum, never below"
        lines.append(line(what, f"{min(excess):.1e} to {max(excess):.1e}", holds))
    return lines
