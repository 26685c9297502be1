"""Executors of a sweep: this process, other processes of this machine, or a Dask cluster."""
# ruff: noqa: PLC0415  distributed is an extra

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from dpcalc.errors import InputError
from dpcalc.gate.workers import Workers

TASK_SECONDS = 3600.0  # time limit of one task of up to 50 points: a hundred times what ordinary ones take
T = TypeVar("T")
R = TypeVar("R")


def in_process(function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[int, R]]:
    """Yield (task number from 0, result) of each task in order, computed here; an exception ends it.

    Args:
        function: called for each task.
        tasks: its arguments.
    """
    return enumerate(map(function, tasks))


def processes(
    function: Callable[[T], R], tasks: Sequence[T], *, jobs: int | None, memory: int | None
) -> Iterator[tuple[int, R | Exception]]:
    """Yield (task number from 0, result or exception) from processes as they finish; an exception also after an hour.

    Args:
        function: pure, importable by its name.
        tasks: its arguments.
        jobs: number of processes; None for one for each processor.
        memory: bytes that a process may allocate after its start; None for no limit.

    Yields:
        Results; exceptions in their place, also for a task that takes more than TASK_SECONDS.
    """
    # Workers can be ended one by one: a task that takes too long does not end the sweep.
    with Workers(function, processes=jobs or _processors(), memory=memory) as workers:
        yield from workers.finished(tasks, seconds=TASK_SECONDS)


def dask(
    function: Callable[[T], R], tasks: Sequence[T], *, scheduler: str | None, memory: int | None
) -> Iterator[tuple[int, R | Exception]]:
    """Yield (task number from 0, result or exception) from a Dask cluster as tasks finish; InputError if there is none.

    Args:
        function: pure, importable by its name.
        tasks: its arguments.
        scheduler: address of the cluster, such as "tcp://host:8786"; None starts one on this machine.
        memory: bytes for each process of a cluster that is started; None for no limit.

    Raises:
        InputError: distributed is not installed, there is no cluster at the address, or a cluster would have to be
            started from a Python that was started with `-E` alone.
    """
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        extra = "run `pip install distributed`, or leave --executor out"
        raise InputError(f"--executor dask: expected distributed, which is not installed; {extra}") from error
    local = {} if scheduler else _local_options(memory)
    try:
        # Not the default: a Python program that calls dpcalc may have a client of its own.
        client = Client(scheduler, timeout=10, set_as_default=False, **local)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler: expected a Dask cluster at {scheduler}, got none: {error}") from error
    with client:
        numbers = {future: number for number, future in enumerate(client.map(function, tasks, pure=False))}
        for future in as_completed(list(numbers), loop=client.loop):
            yield numbers[future], future.exception() or future.result()


def _local_options(memory: int | None) -> dict[str, object]:
    """Return options for a Dask cluster here; set PYTHONSAFEPATH (no imports from `.`); InputError under `-E` alone."""
    # Dask starts its processes, and later replacements of dead ones, with this process's environment: there is no
    # argument for `-P`, so that the variable is the only way.
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise InputError(
            "--executor dask: expected `python -P` or `-I`, got `-E` alone: processes would import from the current "
            "directory; add -P"
        )
    os.environ["PYTHONSAFEPATH"] = "1"
    limits = {} if memory is None else {"memory_limit": memory}
    return {"n_workers": _processors(), "threads_per_worker": 1, "dashboard_address": None, **limits}


def _processors() -> int:
    """Return the number of processors that this process may use (its affinity), else of the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
