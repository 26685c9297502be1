"""All tools on one case, taking turns."""

import math
from dataclasses import dataclass, field

from tests.benchmarks.matching import DEFAULT_GRID, RELATIVE, matched_eps_error, matched_grid
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

SLOW = 8.0  # seconds of a process after which it is not run again


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


def measured(case, rounds, caps):
    """Rows of one case and the value errors are taken from."""
    first = asked(SOLVE if case.target else INTERVAL, case, None, caps)
    exact = case.exact or (None if first.failure else (first.lower + first.upper) / 2)
    if case.target:
        rows = [Row(case, tool) for tool in (SOLVE, SOLVE_COMMAND, CALIBRATE)]
    else:
        rows = [Row(case, tool) for tool in (INTERVAL, UPPER_END, INVERSION, ONE_INVERSION, COMMAND)]
        if case.peers and exact is not None:
            rows += _peers(case, exact, _goal(first, case, exact, caps), caps)
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


def _peers(case, exact, goal, caps):
    """Peers' rows; a search for a setting that ended in a failure or a slow run counts as a round."""
    rows = [Row(case, PLD_DEFAULT, setting=DEFAULT_GRID), Row(case, RDP)]
    matches = {PLD: matched_grid(case, exact, goal, caps), PRV: matched_eps_error(case, exact, goal, caps)}
    for tool, match in matches.items():
        row = Row(case, tool, setting=match.setting, reached=match.reached)
        if match.run.failure or match.run.cold > SLOW:
            row.runs.append(match.run)
        rows.append(row)
    return rows
