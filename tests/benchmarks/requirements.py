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

WIDTH, ABSOLUTE_WIDTH = 1e-3, 1e-6
INVERSION_SECONDS, INVERSION_ERROR = 5e-3, 1e-8  # the time in the median
PHASES, PHASES_SECONDS, MEBIBYTES = 200, 2.0, 500
EXCESS = 1e-4  # of a noise multiplier over the optimum
DIGITS = 1e-9  # of the exact values
RATIOS = [
    (UPPER_END, PLD, seconds_of, 2),
    (INTERVAL, PRV, seconds_of, 20),
    (SOLVE, CALIBRATE, seconds_of, 50),
    (SOLVE_COMMAND, CALIBRATE, cold_of, 5),
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
    if len(row.case.phases) >= PHASES and seconds_of(row) > PHASES_SECONDS:
        lines.append(f"{row.case.name}: {seconds_of(row):.2f} s")
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
