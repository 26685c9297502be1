"""One process for each question, with a time-out and a cap of memory, and the settings at which peers are as sharp.

The goal of a peer is an error of at most that of our certified upper end in the same case, and never less than 1e-6
absolute. dp_accounting: the coarsest grid of the form 1e-4 * 2^k whose pessimistic end exceeds the exact value by no
more than the goal (1e-4 is its default, and where the search starts; where that exceeds the caps, the first grid of
eight, sixty-four, ... times as much that does not). The search ends without success when a run fails, when halving does
not take a quarter off the error (round-off, not the grid, is in the way), or after four time-outs' worth of trials.
prv_accountant: `eps_error` equal to the goal or 1e-4 relative, whichever is larger (its interval is twice that wide,
which favours it), else ten times that, which still counts, else a hundred times; whichever first ends within the caps.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MEMORY = 12 * 2**30  # address space of one process
RELATIVE, ABSOLUTE = 1e-4, 1e-6
DEFAULT_GRID = 1e-4
PATIENCE = 4  # time-outs

INTERVAL, UPPER_END = "dpcalc interval", "dpcalc upper end"
INVERSION, ONE_INVERSION = "dpcalc inversion", "dpcalc inversion, one call"
EPSILON, SOLVE, SOLVE_COMMAND = "dpcalc epsilon (command)", "dpcalc solve-sigma", "dpcalc solve-sigma (command)"
PLD_DEFAULT, PLD = "dp_accounting PLD, default grid", "dp_accounting PLD, same accuracy"
RDP, CALIBRATE, PRV = "dp_accounting RDP", "dp_accounting calibrate", "prv_accountant"
COMMANDS = {EPSILON: "epsilon", SOLVE_COMMAND: "solve-sigma"}
QUESTIONS = {
    INTERVAL: "interval",
    UPPER_END: "upper_end",
    INVERSION: "estimate",
    ONE_INVERSION: "one_inversion",
    SOLVE: "smallest_sigma",
    PLD_DEFAULT: "google_pld",
    PLD: "google_pld",
    RDP: "google_rdp",
    CALIBRATE: "google_calibrated",
    PRV: "prv_interval",
}


@dataclass(frozen=True)
class Run:
    """One process: what it answered (a noise multiplier and the one that fails for a search), or why it did not."""

    lower: float | None = None
    upper: float | None = None
    seconds: tuple[float, ...] = ()  # of each call inside the process
    cpu: tuple[float, ...] = ()
    cold: float | None = None  # seconds from its start to its first answer, of a command to its exit
    mebibytes: float | None = None  # peak resident memory by then
    failure: str = ""


def ran(command):
    """A cold process from its start to its exit: what it printed, wall time, peak resident memory."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command[:4])}")
    return output.strip(), seconds, usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def asked(tool, case, setting, seconds):
    """One process that asks a tool once or, if that is quick, a few times."""
    if tool in COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "case.yaml")
            config.write_text(case.config, encoding="utf-8")
            target = ["--target-eps", repr(case.target)] if case.target else []
            try:
                output, cold, peak = ran(
                    [sys.executable, "-m", "dpcalc", COMMANDS[tool], str(config), *target, "--quiet"]
                )
            except SystemExit as stopped:
                return Run(failure=str(stopped).split(":")[0])
        return Run(upper=float(output), cold=cold, mebibytes=peak)
    request = {"question": QUESTIONS[tool], "case": case.name, "setting": setting}
    request |= {"memory": MEMORY, "started": time.monotonic()}
    command = [sys.executable, "-m", "benchmarks.questions", json.dumps(request)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Run(failure=f"over {seconds:g} s")
    if done.returncode:
        names = re.findall(r"^(?:\w+\.)*_?(?:Array)?(\w+)(?::|$)", done.stderr, flags=re.MULTILINE)
        is_exception = names and done.returncode > 0
        return Run(failure=names[-1] if is_exception else f"killed (exit code {done.returncode})")
    answer = json.loads(done.stdout.splitlines()[-1])
    return Run(**{key: tuple(value) if isinstance(value, list) else value for key, value in answer.items()})


def error(run, exact):
    """A result below the exact value is wrong by as much as one above it."""
    return math.inf if run.upper is None else abs(run.upper - exact)


def matched(tool, case, exact, goal, seconds, recorded):
    """(setting, whether it meets the goal, the run that showed it) of PLD or PRV.

    The setting of an earlier run, `recorded`[case, tool] with its status, is taken if it still meets the goal; what
    failed is not asked again.
    """
    goal = max(goal, ABSOLUTE) if tool == PLD else max(goal, RELATIVE * exact, ABSOLUTE)
    if (case.name, tool) in recorded:
        setting, status = recorded[case.name, tool]
        if status and not status.endswith("the exact value"):
            return setting, False, Run(failure=status)
        run = asked(tool, case, setting, seconds)
        if tool == PRV or error(run, exact) <= 1.01 * goal:
            return setting, True, run
    if tool == PRV:
        for factor in (1, 10, 100):
            run = asked(PRV, case, factor * goal, seconds)
            if not run.failure:
                break
        return factor * goal, factor < 100 and not run.failure, run
    start = time.monotonic()
    for grid in (DEFAULT_GRID * 8**power for power in range(PATIENCE)):
        best = asked(PLD, case, grid, seconds)
        if not best.failure:
            break
    off = error(best, exact)
    is_coarsening = off <= goal
    while (is_coarsening or off > goal) and time.monotonic() - start < PATIENCE * seconds:
        trial = grid * (2 if is_coarsening else 0.5)
        run = asked(PLD, case, trial, seconds)
        if error(run, exact) > goal and (is_coarsening or not error(run, exact) < 0.75 * off):
            break
        grid, best, off = trial, run, error(run, exact)
    return grid, off <= goal, best
