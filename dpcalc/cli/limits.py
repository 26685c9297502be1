"""Limits of time and memory of a command."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpcalc.cli import options
from dpcalc.cli.output import print_remark
from dpcalc.cli.progress import report_file, report_progress
from dpcalc.errors import OutOfTimeError, no_verdict_reason

if TYPE_CHECKING:
    from dpcalc.gate.costs import Costs

GRACE = 2.0  # seconds after which even what cannot be stopped (a pipe that never ends) is given up


@contextmanager
def ended_after(seconds: float, grace: float = 0.0) -> Iterator[None]:
    """End this process, with its workers, by exit code 3 if the block takes longer than limit and grace together.

    Args:
        seconds: the limit, infinite for none.
        grace: seconds more, for a block that watches the limit itself.
    """
    done = threading.Event()
    if seconds < math.inf:
        threading.Thread(target=_end, args=(done, seconds, grace), daemon=True).start()
    try:
        yield
    finally:
        done.set()


@contextmanager
def costs_in_time(timeout: str, memory_limit: str) -> Iterator[Costs]:
    """Yield an evaluator that stops by itself at its limits, so that known results are printed; InputError for texts.

    Args:
        timeout: text of `--timeout`.
        memory_limit: text of `--memory-limit`.
    """
    from dpcalc.gate.costs import Costs, Limits

    limits = Limits(seconds=options.seconds(timeout), memory=options.memory(memory_limit))
    with ended_after(limits.seconds, GRACE):
        costs = Costs(limits=limits, on_progress=report_progress, on_file=report_file)
        try:
            yield costs
        finally:
            costs.close()


def _end(done: threading.Event, seconds: float, grace: float) -> None:
    """End the process with a message and exit code 3 unless `done` is set within the limit and the grace time."""
    if not done.wait(seconds + grace):
        code, sentence = no_verdict_reason(OutOfTimeError(f"no answer within {seconds:g} s; --timeout allows more"))
        print_remark(f"error[{code}]: {sentence}")
        os._exit(3)
