"""Where the table falls short of what we ask of ourselves."""

import math
import statistics

from tests.benchmarks.report import cold_of, cpu_of, memory_of, seconds_of
from tests.benchmarks.results import Results, geometric_mean
from tests.benchmarks.running import (
    CALIBRATE,
    INTERVAL,
    INVERSION,
    ONE_INVERSION,
    PLD,
    PLD_DEFAULT,
    PRV,
    SOLVE,
    SOLVE_COMMAND,
    UPPER_END,
)
from tests.benchmarks.whole import Goal

WIDTH, ABSOLUTE_WIDTH = 1e-3, 1e-6
INVERSION_SECONDS, INVERSION_ERROR = 5e-3, 1e-8  # the time in the median
PHASES, PHASES_SECONDS, MEBIBYTES = 200, 2.0, 500
EXCESS = 1e-4  # of a noise multiplier over the optimum
DIGITS = 1e-9  # of the exact values
RATIOS = [
    (INTERVAL, PLD, seconds_of, 5),
    (UPPER_END, PLD, seconds_of, 2),
    (INTERVAL, PRV, seconds_of, 20),
    (SOLVE, CALIBRATE, seconds_of, 60),
    (SOLVE_COMMAND, CALIBRATE, cold_of, 6),
]
"""What takes how many times as long as ours, on the geometric mean."""
WORDS = {
    INTERVAL: "our interval",
    UPPER_END: "our upper end",
    SOLVE: "our search",
    SOLVE_COMMAND: "`dpcalc solve-sigma`, cold processes",
    PLD: "dp_accounting PLD, one end at the same accuracy,",
    PRV: "prv_accountant",
    CALIBRATE: "dp_accounting calibrate",
}
README_ROWS = {
    "dp_accounting PLD, our upper bound": RATIOS[1],
    "dp_accounting PLD, one bound; dpcalc, both": RATIOS[0],
    "prv_accountant, our interval": RATIOS[2],
    "dp_accounting `calibrate_dp_mechanism`, our search": RATIOS[3],
    "the same in cold processes": RATIOS[4],
}
"""First cells of the table of README.md."""


def checklist(measured):
    """Each goal that can be measured: whether it holds, and what was measured (wall time, CPU time)."""
    results = Results(measured)
    goals = [*_check_widths(results), *_check_ratios(results), *_check_growth(results), *_check_inversion(results)]
    both = {row.case.name: seconds_of(row) for row, _ in results.of(INTERVAL)}
    for row, _ in results.of(UPPER_END):
        if len(row.case.phases) >= PHASES and seconds_of(row):
            measured_seconds = (
                f"{seconds_of(row):.2f} s (CPU {cpu_of(row):.2f}); the interval {both[row.case.name]:.2f} s"
            )
            what = f"upper ends of {PHASES} phases in {PHASES_SECONDS:g} s"
            goals.append(Goal(what, measured_seconds, seconds_of(row) <= PHASES_SECONDS))
    memory = max((memory_of(row) or 0 for row in results.ours()), default=0)
    goals.append(Goal(f"memory under {MEBIBYTES} MiB", f"{memory:.0f} MiB at most", memory < MEBIBYTES))
    excess = [last.upper / exact - 1 for row, exact, last in results.known(SOLVE)]
    if excess:
        holds = min(excess) >= -DIGITS and max(excess) <= EXCESS
        what = "noise multiplier at most 1e-4 over the optimum, never below"
        goals.append(Goal(what, f"{min(excess):.1e} to {max(excess):.1e}", holds))
    return goals


def _check_widths(results):
    found = [(last.upper - last.lower, exact) for _, exact, last in results.answers(INTERVAL)]
    known = [
        (last.lower * (1 - DIGITS), exact, last.upper * (1 + DIGITS)) for _, exact, last in results.known(INTERVAL)
    ]
    if not found:
        return []
    narrow = all(width <= max(WIDTH * exact, ABSOLUTE_WIDTH) for width, exact in found)
    widest = max(width / exact for width, exact in found)
    inside = sum(low <= exact <= high for low, exact, high in known)
    what = "interval width at most 1e-3 relative or 1e-6"
    return [
        Goal(what, f"{widest:.1e} relative at most, {len(found)} cases", narrow),
        Goal("exact value inside", f"{inside} of {len(known)} known values", inside == len(known)),
    ]


def _check_ratios(results):
    goals = []
    for ours, theirs, measure, least in RATIOS:
        ratios = results.ratios(ours, theirs, measure)
        if not ratios:
            continue
        mean, worst = geometric_mean(ratios.values()), min(ratios.values())
        cpu = (
            "" if measure is cold_of else f" (CPU {geometric_mean(results.ratios(ours, theirs, cpu_of).values()):.3g})"
        )
        what = f"{WORDS[theirs]} takes {least} times as long as {WORDS[ours]}, on the mean"
        goals.append(
            Goal(what, f"geometric mean {mean:.3g}{cpu}, least {worst:.3g}, {len(ratios)} cases", mean >= least)
        )
        if theirs == PLD:
            goals.append(Goal(f"{WORDS[ours]} is slower in no case", f"least {worst:.3g}", worst >= 1))
    return goals


def readme_ratios(measured):
    """{first cell of a row of README.md: (goal, geometric mean, least)}."""
    results = Results(measured)
    found = {}
    for name, (ours, theirs, measure, least) in README_ROWS.items():
        if ratios := results.ratios(ours, theirs, measure).values():
            found[name] = (least, geometric_mean(ratios), min(ratios))
    return found


def _check_growth(results):
    times = results.growth(INTERVAL)
    if len(times) < 2:
        return []
    grown, allowed = times[-1][1] / times[0][1], math.log(times[-1][0]) / math.log(times[0][0])
    what = f"time from {times[0][0]:.0e} to {times[-1][0]:.0e} steps: at most {allowed:.2g} times"
    return [Goal(what, f"{grown:.2f} times", grown <= allowed)]


def _check_inversion(results):
    times = [(seconds_of(row), cpu_of(row)) for row, _, _ in results.answers(ONE_INVERSION)]
    errors = [abs(last.upper / exact - 1) for _, exact, last in results.known(INVERSION)]
    if not times or not errors:
        return []
    wall, cpu = (1e3 * statistics.median(each) for each in zip(*times, strict=True))
    return [
        Goal("one inversion in 5 ms, median", f"{wall:.2f} ms (CPU {cpu:.2f})", wall <= 5),
        Goal("inversion within 1e-8", f"{max(errors):.1e} at most", max(errors) <= INVERSION_ERROR),
    ]


def shortfalls(measured):
    """Each case that misses a requirement, in words."""
    results = Results(measured)
    lines = [*_means(results), *_growth(results)]
    lines += [f"{row.case.name}: {row.tool.name}: {row.failure}" for row in results.ours() if _failed(row)]
    for rows, _ in results.cases:
        lines += _slower(rows)
    for row, exact, last in results.answers(INTERVAL):
        lines += _of_interval(row, exact, last)
    lines += _of_inversion(results)
    for row, exact, last in results.known(SOLVE):
        if not -DIGITS <= last.upper / exact - 1 <= EXCESS:
            lines.append(f"{row.case.name}: noise multiplier {last.upper / exact - 1:+.1e} off the optimum")
    heavy = [row for row in results.ours() if (memory_of(row) or 0) > MEBIBYTES]
    return [*lines, *(f"{row.case.name}: {row.tool.name}: {memory_of(row):.0f} MiB" for row in heavy)]


def _means(results):
    """Geometric means of the ratios below what they should be."""
    lines = []
    for ours, theirs, measure, least in RATIOS:
        ratios = results.ratios(ours, theirs, measure)
        if ratios and geometric_mean(ratios.values()) < least:
            mean = geometric_mean(ratios.values())
            lines.append(f"{theirs.name} / {ours.name}: geometric mean {mean:.3g}, at least {least} wanted")
    return lines


def _growth(results):
    times = results.growth(INTERVAL)
    if len(times) < 2:
        return []
    (least, first), (most, last) = times[0], times[-1]
    grown, allowed = last / first, math.log(most) / math.log(least)
    return [f"{grown:.2f} times the time at {most:.0e} steps, {allowed:.2f} wanted"] if grown > allowed else []


def _failed(row):
    """An inversion may say that it converges slowly; everything else must answer."""
    return row.failure and not (row.tool in (INVERSION, ONE_INVERSION) and row.failure == "ConvergenceError")


def _slower(rows):
    """Peers that were quicker than ours at the same question: an upper end, or an interval."""
    lines = []
    for ours, theirs in ((UPPER_END, PLD), (UPPER_END, PLD_DEFAULT), (INTERVAL, PRV)):
        pair = [next((row for row in rows if row.tool == tool), None) for tool in (ours, theirs)]
        seconds = [seconds_of(row) if row and not row.failure else None for row in pair]
        if all(seconds) and seconds[1] < seconds[0]:
            mine, row = pair
            wider = "" if row.reached and theirs != PLD_DEFAULT else " (not held to our accuracy)"
            cpu = cpu_of(mine) / cpu_of(row)
            lines.append(
                f"{row.case.name}: {theirs.name} {seconds[0] / seconds[1]:.2f}x as fast (CPU {cpu:.2f}x){wider}"
            )
    return lines


def _of_interval(row, exact, last):
    lines, width = [], last.upper - last.lower
    if width > max(WIDTH * exact, ABSOLUTE_WIDTH):
        lines.append(f"{row.case.name}: interval {width / exact:.1e} wide")
    if not last.lower * (1 - DIGITS) <= exact <= last.upper * (1 + DIGITS):
        lines.append(f"{row.case.name}: {exact!r} is outside [{last.lower!r}, {last.upper!r}]")
    return lines


def _of_inversion(results):
    times = {row.case.name: seconds_of(row) for row, _, _ in results.answers(ONE_INVERSION)}
    lines = []
    if times and statistics.median(times.values()) > INVERSION_SECONDS:
        slow = [f"{name}: one inversion {1e3 * seconds:.1f} ms" for name, seconds in times.items()]
        lines += [line for line, seconds in zip(slow, times.values(), strict=True) if seconds > INVERSION_SECONDS]
    errors = {row.case.name: last.upper / exact - 1 for row, exact, last in results.known(INVERSION)}
    return lines + [
        f"{name}: inversion {error:+.1e} off" for name, error in errors.items() if abs(error) > INVERSION_ERROR
    ]
