"""Progress bar on standard error for commands that take longer than a second, and limits of their time and memory.

The bar shows the name of the work, the part that is done, and the time left; it moves to and fro while the part is
unknown.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from dpcalc.cli.options import bytes_of
from dpcalc.cli.output import print_remark
from dpcalc.errors import OutOfTimeError, no_verdict_reason
from dpcalc.gate.costs import Costs
from dpcalc.records import dataclass

PATIENCE = 1.0  # seconds before the bar appears
_REFRESH = 0.1  # seconds between two looks at the state
_LONGEST = 28  # characters of a name
_NUMBERS = 44  # columns for a short bar, the count, the times


@dataclass
class _State:
    label: str = "computing"  # name of the work
    file: str = ""  # that is worked on
    part: float | None = None  # of the work that is done, from 0 to 1
    total: int = 0  # number of items, 0 if not counted


_state = _State()


def report_progress(part: float) -> None:
    """Set the part of the work that is done, from 0 to 1."""
    _state.part = part


def report_file(path: str) -> None:
    """Set the file that the bar names."""
    _state.file = path


def announce(label: str, *, total: int = 0) -> None:
    """Start the bar anew with a label and a number of items."""
    _state.label, _state.part, _state.total, _state.file = label, None, total, ""


def announce_files(paths: Sequence[str]) -> None:
    """Announce work on files: the bar's label is the name of the only one, or "8,000 files"."""
    announce(paths[0] if len(paths) == 1 else f"{len(paths):,} files")


@contextmanager
def progress(label: str = "computing") -> Iterator[None]:
    """Context that announces a label and, on a capable terminal, shows the progress bar until it ends."""
    announce(label)
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    done = threading.Event()
    artist = threading.Thread(target=_draw, args=(done,), daemon=True)
    artist.start()
    try:
        yield
    finally:
        done.set()
        artist.join()


def _draw(done: threading.Event) -> None:
    """Draw the progress bar ten times a second until `done`, beginning after one second."""
    if done.wait(PATIENCE):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[label]}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[counted]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True, emoji=False), transient=True, expand=False) as bar:
        longest = max(8, min(_LONGEST, bar.console.width - _NUMBERS))
        shown = (_state.label, _state.total)
        task = bar.add_task("", total=None, label="", counted="", left="")
        # The state is read without a lock: what is stale is shown for a tenth of a second.
        while True:
            if (_state.label, _state.total) != shown:
                bar.reset(task)
                shown = (_state.label, _state.total)
            part, total = _state.part, shown[1]
            name = "".join(char if char.isprintable() else "?" for char in _state.file or shown[0])
            name = name if len(name) <= longest else f"...{name[3 - longest :]}"
            count = f"{round(part * total):,}/{total:,} " if part is not None and total else ""
            bar.update(task, label=name, counted="" if part is None else f"{count}{int(100 * part)}%")
            if part is not None:
                bar.update(task, total=1.0, completed=part, left="left")
            if done.wait(_REFRESH):
                return


# Limits of time and memory of a command.

GRACE = 2.0  # seconds after which even what cannot be stopped (a pipe that never ends) is given up


@contextmanager
def ended_after(seconds: float, grace: float = 0.0) -> Iterator[None]:
    """Context that ends the process with exit code 3, from a thread, after `seconds` + `grace`; never for infinity."""
    done = threading.Event()

    def end() -> None:
        if not done.wait(seconds + grace):
            code, sentence = no_verdict_reason(OutOfTimeError(f"no answer within {seconds:g} s; --timeout allows more"))
            print_remark(f"error[{code}]: {sentence}")
            os._exit(3)  # neither a long call of a library nor a handler in the block can stop it

    if seconds < math.inf:
        threading.Thread(target=end, daemon=True).start()
    try:
        yield
    finally:
        done.set()


@contextmanager
def costs_in_time(seconds: float | None, gigabytes: float) -> Iterator[Costs]:
    """Context that gives a cost evaluator with both limits, and ends the process soon after the timeout."""
    seconds = math.inf if seconds is None else seconds
    costs = Costs(seconds=seconds, memory=bytes_of(gigabytes), on_progress=report_progress, on_file=report_file)
    with ended_after(seconds, GRACE), closing(costs):
        yield costs
