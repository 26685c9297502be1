"""What README.md and docs/benchmarks.md say of the last run, written anew from its check-list."""

import re
import textwrap
from pathlib import Path

from tests.benchmarks.cold_start import SAMPLES

ROOT = SAMPLES.parent
GOALS = re.compile(r"(?<=\| goal \| measured \| \|\n\|---\|---\|---\|\n)(\|.*\n)*")
MISSED = re.compile(r"(?m)^(?:These goals are missed|All goals hold)(?:.*\n)+?(?=All goals, versions)")
MACHINE = re.compile(r"(?m)^Measured \d{4}-.*\n")


def rewrite(goals, ratios, machine):
    """Write the goals into both pages.

    Args:
        goals: every line of the check-list.
        ratios: {first cell of a row of README.md: (goal or None, geometric mean, least)}.
        machine: date, versions and machine.
    """
    page = Path(ROOT, "docs", "benchmarks.md")
    text = page.read_text(encoding="utf-8")
    text = GOALS.sub(lambda _: "".join(f"{line}\n" for line in rows(goals)), text, count=1)
    page.write_text(MACHINE.sub(f"Measured {machine}.\n", text, count=1), encoding="utf-8")
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    for name, (wanted, mean, least) in ratios.items():
        verdict = "holds" if wanted and mean >= wanted else "falls short"
        goal = f"at least {wanted} times: {verdict}" if wanted else "none"
        row = f"| {name} | {goal} | {mean:.3g} | {least:.3g} |"
        text = re.sub(rf"(?m)^\| {re.escape(name)} \|.*$", lambda _, row=row: row, text)
    readme.write_text(MISSED.sub(lambda _: f"{shortly(goals)}\n", text, count=1), encoding="utf-8")


def rows(goals):
    """The rows of the table of goals."""
    return [f"| {goal.what} | {goal.measured} | {'holds' if goal.holds else 'falls short'} |" for goal in goals]


def shortly(goals):
    """A few lines on the goals that do not hold, each with the first number that was measured."""
    missed = [f"{goal.what} ({re.split('[,;(]', goal.measured)[0].strip()})" for goal in goals if not goal.holds]
    return (
        textwrap.fill(f"These goals are missed; in brackets what was measured: {'; '.join(missed)}.", 128)
        if missed
        else "All goals hold."
    )
