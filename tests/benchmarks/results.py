"""Rows by case and tool, and how many times longer one tool takes than another."""

import math
import statistics

from tests.benchmarks.report import seconds_of


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


class Results:
    """Rows by case and tool, and each case's exact value."""

    def __init__(self, measured):
        self.cases = [(rows, exact) for rows, exact in measured if rows]

    def of(self, tool):
        """(row, exact) of each case the tool was asked."""
        return [(row, exact) for rows, exact in self.cases for row in rows if row.tool == tool]

    def answers(self, tool):
        """(row, exact, last run) where the tool answered and there is something to compare it with."""
        return [(row, exact, row.runs[-1]) for row, exact in self.of(tool) if exact and row.runs and not row.failure]

    def known(self, tool):
        """The same, where the exact value is not ours."""
        return [found for found in self.answers(tool) if found[0].case.exact]

    def ours(self):
        return [row for rows, _ in self.cases for row in rows if row.tool.ours]

    def ratios(self, ours, theirs, measure):
        """{case: how many times longer they take}, where they answered as sharply as asked."""
        mine = {row.case.name: measure(row) for row, _ in self.of(ours)}
        found = {}
        for row, _ in self.of(theirs):
            here, there = mine.get(row.case.name), measure(row)
            if here and there and row.reached and not row.failure:
                found[row.case.name] = there / here
        return found

    def growth(self, tool):
        """[(steps, seconds)] of the cases that differ in their steps only."""
        rows = [row for row, _ in self.of(tool) if seconds_of(row)]
        return sorted((row.case.phases[0].steps, seconds_of(row)) for row in rows if row.case.sweep)
