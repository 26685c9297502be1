"""All tools on one case, taking turns."""

import math
from dataclasses import dataclass, field

from tests.benchmarks.matching import DEFAULT_GRID, RELATIVE, matched_eps_error, matched_grid, recorded_match
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
    Tool,
    asked,
)

SLOW = 4.0  # seconds of a process after which it is not run again


@dataclass
class Row:
    """One tool on one case.

    Attributes:
        setting: of a peer, or None.
        reached: whether it answers as sharply as ours.
        runs: one for each round.
    """

    case: object
    tool: Tool
    setting: float | None = None
    reached: bool = True
    runs: list = field(default_factory=list)

    @property
    def failure(self):
        """Why there is no number, if so; infinity is none."""
        infinite = ["infinite" for run in self.runs if run.upper == math.inf]
        return next((run.failure for run in self.runs if run.failure), (infinite or [""])[0])

    @property
    def pending(self):
        return not self.failure and not any((run.cold or 0.0) > SLOW for run in self.runs)


def measured(case, rounds, caps, recorded):
    """Rows of one case and the value errors are taken from.

    Args:
        recorded: {(case, tool): (setting, status)} of an earlier run, whose settings are taken.
    """
    first = asked(SOLVE if case.target else INTERVAL, case, None, caps)
    exact = case.exact or (None if first.failure else (first.lower + first.upper) / 2)
    if case.target:
        rows = [Row(case, tool) for tool in (SOLVE, SOLVE_COMMAND, CALIBRATE)]
    else:
        rows = [Row(case, tool) for tool in (INTERVAL, UPPER_END, INVERSION, ONE_INVERSION, COMMAND)]
        if case.peers and exact is not None:
            rows += _peers(case, exact, _goal(first, case, exact, caps), caps, recorded)
    for _ in range(rounds):
        for row in rows:
            if row.pending:
                row.runs.append(asked(row.tool, case, row.setting, caps))
    return rows, exact


def _goal(first, case, exact, caps):
    """The error a peer may have: that of our upper end, where we answered and no other was asked for.

    Where the exact value is not known, half the width of our interval.
    """
    if caps.accuracy is None and not first.failure:
        return first.upper - exact if case.exact else (first.upper - first.lower) / 2
    return (caps.accuracy or RELATIVE) * exact


def _peers(case, exact, goal, caps, recorded):
    """Peers' rows; a search for a setting that ended in a failure or a slow run counts as a round."""
    rows = [Row(case, PLD_DEFAULT, setting=DEFAULT_GRID)]
    if any(phase.cap for phase in case.phases):
        return rows  # dp_accounting takes a larger loss there, and the others know no such batches
    rows.append(Row(case, RDP))
    for tool, search in ((PLD, matched_grid), (PRV, matched_eps_error)):
        match = recorded_match(case, tool, exact, goal, caps=caps, recorded=recorded) or search(case, exact, goal, caps)
        row = Row(case, tool, setting=match.setting, reached=match.reached)
        if match.run.failure or match.run.cold > SLOW:
            row.runs.append(match.run)
        rows.append(row)
    return rows
