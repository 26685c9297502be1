"""The setting at which a peer answers as sharply as ours.

The goal is an error of at most that of our certified upper end in the same case (or of what `--accuracy` says), and
never less than 1e-6 absolute.

dp_accounting: the coarsest grid of the form 1e-4 * 2^k whose pessimistic end exceeds the exact value by no more than
the goal (1e-4 is its default). From the default the grid is doubled while the goal is still met, else halved until it
is. Where the default exceeds the caps, the search starts from the first grid of eight, sixty-four, ... times as much
that does not. It ends without success when a run fails, when halving does not take a quarter off the error (round-off,
not the grid, is in the way), or after four time-outs' worth of trials.

prv_accountant: `eps_error` equal to the goal or 1e-4 relative, whichever is larger (its interval is twice that wide,
which favours it), else ten times that, which still counts, else a hundred times; whichever first ends within the caps.

A search takes minutes. The setting of an earlier run is taken if it still meets the goal; what failed is not asked
again.
"""

import math
import time
from dataclasses import dataclass

from tests.benchmarks.running import PLD, PRV, Run, asked

RELATIVE, ABSOLUTE = 1e-4, 1e-6
DEFAULT_GRID = 1e-4
PATIENCE = 4  # time-outs


@dataclass(frozen=True)
class Match:
    """A setting, whether it meets the goal, and the run that showed it."""

    setting: float
    reached: bool
    run: Run


def matched_grid(case, exact, goal, caps):
    """For dp_accounting's PLD accountant; the goal is absolute."""
    goal = max(goal, ABSOLUTE)
    start = time.monotonic()
    grid, best = _affordable(case, caps)
    error = _error(best, exact)
    coarsen = error <= goal
    while (coarsen or error > goal) and time.monotonic() - start < PATIENCE * caps.seconds:
        trial = grid * (2 if coarsen else 0.5)
        run = asked(PLD, case, trial, caps)
        new = _error(run, exact)
        if new > goal and (coarsen or not new < 0.75 * error):
            break
        grid, best, error = trial, run, new
    return Match(setting=grid, reached=error <= goal, run=best)


def _affordable(case, caps):
    """The default grid, or the finest tried that ends within the caps, with its run."""
    grid = DEFAULT_GRID
    run = asked(PLD, case, grid, caps)
    for _ in range(PATIENCE - 1):
        if not run.failure:
            break
        grid *= 8
        run = asked(PLD, case, grid, caps)
    return grid, run


def _error(run, exact):
    """A result below the exact value is wrong by as much as one above it."""
    return math.inf if run.upper is None else abs(run.upper - exact)


def matched_eps_error(case, exact, goal, caps):
    """For prv_accountant."""
    goal = max(goal, RELATIVE * exact, ABSOLUTE)
    for factor in (1, 10, 100):
        setting = factor * goal
        run = asked(PRV, case, setting, caps)
        if not run.failure:
            return Match(setting=setting, reached=factor < 100, run=run)
    return Match(setting=setting, reached=False, run=run)


def recorded_match(case, tool, exact, goal, *, caps, recorded):
    """The setting of an earlier run of the benchmark, or None if there is none that meets the goal.

    Args:
        goal: absolute error.
        recorded: {(case, tool): (setting, status)}.
    """
    setting, status = recorded.get((case.name, tool.name), (None, ""))
    if setting is None:
        return None
    if status and not status.endswith("the exact value"):
        return Match(setting=setting, reached=False, run=Run(failure=status))
    run = asked(tool, case, setting, caps)
    if tool == PLD and _error(run, exact) > 1.01 * max(goal, ABSOLUTE):
        return None
    return Match(setting=setting, reached=True, run=run)
