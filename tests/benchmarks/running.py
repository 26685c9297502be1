"""Who is asked, and how: one process per question and round, with a time-out and a memory cap of its own."""

import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.cold_start import ran

GIBIBYTE = 2**30


@dataclass(frozen=True)
class Caps:
    """What one question to one tool may take, and how sharp the answer has to be.

    Attributes:
        accuracy: relative error asked of the peers, or None for the width of our interval.
    """

    seconds: float
    gibibytes: float
    accuracy: float | None = None


@dataclass(frozen=True)
class Tool:
    """A column of the comparison: `question` of `module`, or without a module the arguments of the dpcalc command."""

    name: str
    module: str
    question: str

    @property
    def ours(self):
        return self.name.startswith("dpcalc")


INTERVAL = Tool("dpcalc interval", "ours", "interval")
UPPER_END = Tool("dpcalc upper end", "ours", "upper_end")
INVERSION = Tool("dpcalc inversion", "ours", "estimate")
ONE_INVERSION = Tool("dpcalc inversion, one call", "ours", "one_inversion")
COMMAND = Tool("dpcalc epsilon (command)", "", "epsilon")
PLD_DEFAULT = Tool("dp_accounting PLD, default grid", "google", "pld")
PLD = Tool("dp_accounting PLD, same accuracy", "google", "pld")
RDP = Tool("dp_accounting RDP", "google", "rdp")
PRV = Tool("prv_accountant", "prv", "interval")
SOLVE = Tool("dpcalc solve-sigma", "ours", "sigma")
SOLVE_COMMAND = Tool("dpcalc solve-sigma (command)", "", "solve-sigma")
CALIBRATE = Tool("dp_accounting calibrate", "google", "calibrated")


@dataclass(frozen=True)
class Run:
    """One process: what it answered, or why it did not.

    Attributes:
        lower, upper: epsilon; noise multipliers for a search (the one that fails, the one that is returned).
        seconds, cpu: of each call inside the process.
        cold: seconds from its start to its first answer.
        mebibytes: peak resident memory by then.
    """

    lower: float | None = None
    upper: float | None = None
    seconds: tuple[float, ...] = ()
    cpu: tuple[float, ...] = ()
    cold: float | None = None
    mebibytes: float | None = None
    failure: str = ""


def asked(tool, case, setting, caps):
    """One process that asks a tool once or, if that is quick, a few times."""
    if not tool.module:
        return _commanded(tool, case)
    request = {
        "module": tool.module,
        "question": tool.question,
        "case": case.name,
        "setting": setting,
        "memory": int(caps.gibibytes * GIBIBYTE),
        "started": time.monotonic(),
    }
    command = [sys.executable, "-m", "tests.benchmarks.worker", json.dumps(request)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=caps.seconds, check=False)
    except subprocess.TimeoutExpired:
        return Run(failure=f"over {caps.seconds:g} s")
    if done.returncode:
        return Run(failure=_reason(done))
    answer = json.loads(done.stdout.splitlines()[-1])
    return Run(**{key: tuple(value) if isinstance(value, list) else value for key, value in answer.items()})


def _reason(done):
    """The name of the exception, or that there was none."""
    names = re.findall(r"^(?:\w+\.)*_?(?:Array)?(\w+)(?::|$)", done.stderr, flags=re.MULTILINE)
    return names[-1] if names and done.returncode > 0 else f"killed (exit code {done.returncode})"


def _commanded(tool, case):
    """A cold `dpcalc`, from its start to its exit."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "case.yaml")
        config.write_text(case.config, encoding="utf-8")
        target = ["--target-eps", repr(case.target)] if case.target else []
        try:
            found = ran([sys.executable, "-m", "dpcalc", tool.question, str(config), *target, "--quiet"])
        except SystemExit as stopped:
            return Run(failure=str(stopped).split(":")[0])
    return Run(upper=float(found.output), cold=found.seconds, mebibytes=found.mebibytes)
