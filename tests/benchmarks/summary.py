"""What the table says, in one line each."""

import math

from tests.benchmarks.report import cold_of, cpu_of, memory_of, seconds_of
from tests.benchmarks.results import Results, geometric_mean
from tests.benchmarks.running import (
    CALIBRATE,
    COMMAND,
    INTERVAL,
    INVERSION,
    ONE_INVERSION,
    PLD,
    PLD_DEFAULT,
    PRV,
    RDP,
    SOLVE,
    SOLVE_COMMAND,
    UPPER_END,
)


def summary(measured):
    """Lines of the summary."""
    results = Results(measured)
    lines = []
    for theirs in (PLD, PLD_DEFAULT):
        lines += _library(results, INTERVAL, theirs) + _library(results, UPPER_END, theirs)
        lines += _cold(results, COMMAND, theirs)
    for theirs in (PRV, RDP):
        lines += _library(results, INTERVAL, theirs) + _cold(results, COMMAND, theirs)
    lines += _library(results, SOLVE, CALIBRATE) + _cold(results, SOLVE_COMMAND, CALIBRATE)
    return [*lines, *_widths(results), *_inversions(results), *_growth(results), *_memory(results)]


def _library(results, ours, theirs):
    """The geometric mean, the least, and how often the peer answered."""
    wall, cpu = (results.ratios(ours, theirs, measure) for measure in (seconds_of, cpu_of))
    if not wall:
        return []
    means = f"geometric mean {geometric_mean(wall.values()):.3g} (CPU {geometric_mean(cpu.values()):.3g})"
    least = min(wall, key=wall.get)
    lowest = f"least {wall[least]:.3g} (CPU {cpu[least]:.3g}; {least})"
    answered = f"{len(wall)} of {len(results.of(theirs))} cases answered as asked"
    return [f"{theirs.name} / {ours.name}, library: {means}, {lowest}; {answered}"]


def _cold(results, ours, theirs):
    ratios = results.ratios(ours, theirs, cold_of)
    if not ratios:
        return []
    least = min(ratios, key=ratios.get)
    mean = geometric_mean(ratios.values())
    return [
        f"{theirs.name} / {ours.name}, cold process: geometric mean {mean:.3g}, least {ratios[least]:.3g} ({least})"
    ]


def _widths(results):
    found = [(last.upper - last.lower, exact, row.case.name) for row, exact, last in results.answers(INTERVAL)]
    if not found:
        return []
    width, exact, name = max(found, key=lambda each: each[0] / each[1])
    return [f"widest interval: {width / exact:.2e} relative, {width:.2e} absolute ({name})"]


def _inversions(results):
    lines = []
    for tool in (INVERSION, ONE_INVERSION):
        times = sorted((seconds_of(row), cpu_of(row), row.case.name) for row, _ in results.of(tool) if seconds_of(row))
        if times:
            middle, cpu, _ = times[len(times) // 2]
            slowest, _, name = times[-1]
            lines.append(
                f"{tool.name}: median over cases {1e3 * middle:.2f} ms (CPU {1e3 * cpu:.2f}), slowest "
                f"{1e3 * slowest:.2f} ms ({name}); {len(times)} of {len(results.of(tool))} cases answered"
            )
    errors = [(abs(last.upper / exact - 1), row.case.name) for row, exact, last in results.known(INVERSION)]
    if errors:
        worst, name = max(errors)
        lines.append(f"dpcalc inversion against the exact values: worst relative error {worst:.1e} ({name})")
    return lines


def _growth(results):
    """Time of our interval over the number of steps."""
    times = results.growth(INTERVAL)
    if len(times) < 2:
        return []
    (least, first), (most, last) = times[0], times[-1]
    listed = ", ".join(f"T={steps:.0e} {1e3 * seconds:.0f} ms" for steps, seconds in times)
    growth = f"{last / first:.2f} times the time, {math.log(most) / math.log(least):.2f} times the logarithm"
    return [f"dpcalc interval over the steps at q=1/1000 sigma=1: {listed}; {growth}"]


def _memory(results):
    found = [(memory_of(row), row.case.name, row.tool.name) for row in results.ours() if memory_of(row)]
    if not found:
        return []
    most, name, tool = max(found)
    return [f"most memory of ours: {most:.0f} MiB ({tool}, {name})"]
