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


def checklist(measured):
    """Each requirement that can be measured: whether it holds, and what was measured (wall time, CPU time)."""
    results = Results(measured)
    lines = [*_check_widths(results), *_check_ratios(results), *_check_growth(results), *_check_inversion(results)]
    phases = [row for row, _ in results.of(INTERVAL) if len(row.case.phases) >= PHASES and seconds_of(row)]
    lines += [
        _line(seconds_of(row) <= PHASES_SECONDS, f"{PHASES} phases", f"{seconds_of(row):.2f} s (CPU {cpu_of(row):.2f})")
        for row in phases
    ]
    memory = max((memory_of(row) or 0 for row in results.ours()), default=0)
    lines.append(_line(memory < MEBIBYTES, f"memory under {MEBIBYTES} MiB", f"{memory:.0f} MiB at most"))
    excess = [last.upper / exact - 1 for row, exact, last in results.known(SOLVE)]
    if excess:
        good = min(excess) >= -DIGITS and max(excess) <= EXCESS
        lines.append(_line(good, "noise multiplier over the optimum", f"{min(excess):.1e} to {max(excess):.1e}"))
    return lines


def _line(holds, what, found):
    return f"{'holds' if holds else 'falls short'}: {what}: {found}"


def _check_widths(results):
    found = [(last.upper - last.lower, exact, last) for _, exact, last in results.answers(INTERVAL)]
    known = [
        (last.lower * (1 - DIGITS), exact, last.upper * (1 + DIGITS)) for _, exact, last in results.known(INTERVAL)
    ]
    if not found:
        return []
    narrow = all(width <= max(WIDTH * exact, ABSOLUTE_WIDTH) for width, exact, _ in found)
    widest = max(width / exact for width, exact, _ in found)
    inside = sum(low <= exact <= high for low, exact, high in known)
    return [
        _line(
            narrow, "interval width at most 1e-3 relative or 1e-6", f"{widest:.1e} relative at most, {len(found)} cases"
        ),
        _line(inside == len(known), "exact value inside", f"{inside} of {len(known)} known values"),
    ]


def _check_ratios(results):
    lines = []
    for ours, theirs, measure, least in RATIOS:
        ratios = results.ratios(ours, theirs, measure)
        if not ratios:
            continue
        mean, worst = geometric_mean(ratios.values()), min(ratios.values())
        cpu = (
            "" if measure is cold_of else f" (CPU {geometric_mean(results.ratios(ours, theirs, cpu_of).values()):.3g})"
        )
        what = f"{theirs.name} takes at least {least} times as long as {ours.name}, on the geometric mean"
        lines.append(
            _line(mean >= least, what, f"geometric mean {mean:.3g}{cpu}, least {worst:.3g}, {len(ratios)} cases")
        )
        if theirs == PLD:
            lines.append(_line(worst >= 1, "slower in no case", f"least {worst:.3g}"))
    return lines


def _check_growth(results):
    times = results.growth(INTERVAL)
    if len(times) < 2:
        return []
    grown, allowed = times[-1][1] / times[0][1], math.log(times[-1][0]) / math.log(times[0][0])
    return [_line(grown <= allowed, f"time from {times[0][0]:.0e} to {times[-1][0]:.0e} steps", f"{grown:.2f} times")]


def _check_inversion(results):
    times = [(seconds_of(row), cpu_of(row)) for row, _, _ in results.answers(ONE_INVERSION)]
    errors = [abs(last.upper / exact - 1) for _, exact, last in results.known(INVERSION)]
    if not times or not errors:
        return []
    wall, cpu = (1e3 * statistics.median(each) for each in zip(*times, strict=True))
    return [
        _line(wall <= 5, "one inversion in 5 ms, median", f"{wall:.2f} ms (CPU {cpu:.2f})"),
        _line(max(errors) <= INVERSION_ERROR, "inversion within 1e-8", f"{max(errors):.1e} at most"),
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
