"""Who answers many questions: this process, processes beside it, or a Dask cluster."""
# ruff: noqa: PLC0415  distributed is an extra

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from dpcalc.errors import InputError
from dpcalc.gate.workers import Told, answers

T = TypeVar("T")
R = TypeVar("R")


def here(function: Callable[[T], R], tasks: Sequence[T]) -> tuple[R, ...]:
    """Answers one after the other."""
    return tuple(map(function, tasks))


def processes(
    function: Callable[[T], R], tasks: Sequence[T], *, jobs: int | None, told: Told
) -> tuple[R | Exception, ...]:
    """Answers from processes of this machine.

    Args:
        function: pure, importable by its name.
        tasks: what to ask it.
        jobs: how many processes; None for one a processor.
        told: is told which part is done.
    """
    return answers(function, tasks, deadline=None, told=told, processes=jobs or _processors())


def dask(
    function: Callable[[T], R], tasks: Sequence[T], *, scheduler: str | None, told: Told
) -> tuple[R | Exception, ...]:
    """Answers from a Dask cluster, on which the same version of dpcalc must be installed.

    Args:
        function: pure, importable by its name.
        tasks: what to ask it.
        scheduler: address of the cluster, such as "tcp://host:8786"; None starts one on this machine.
        told: is told which part is done.

    Raises:
        InputError: the extra is not installed, or nobody answers at the address.
    """
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        extra = "install it as `pip install '.[dask]'`, or leave --executor out"
        raise InputError(f"--executor dask: expected distributed, which is not installed; {extra}") from error
    local = {} if scheduler else {"n_workers": _processors(), "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(scheduler, timeout=10, set_as_default=False, **local)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"--scheduler: expected a Dask cluster at {scheduler}, got none: {error}") from error
    with client:
        futures = client.map(function, tasks, pure=False)
        for done, _ in enumerate(as_completed(futures, loop=client.loop), start=1):
            told(done / len(futures))
        return tuple(one.exception() or one.result() for one in futures)


def _processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
