"""Answers of a pure function from processes that can be stopped, and whose end is no end of ours."""

import multiprocessing
import pickle
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeVar

from dpcalc.errors import OutOfTimeError

PROCESSES = 2
Told = Callable[[float], object]
T = TypeVar("T")
R = TypeVar("R")


def nobody(part: float) -> None:
    """Is told which part is done, and does nothing about it."""
    del part


@dataclass(kw_only=True, eq=False)
class _Worker:
    """A process, the way to it, and the number of the task it works on."""

    process: BaseProcess
    pipe: Connection
    task: int = field(default=-1)


def answers(
    function: Callable[[T], R],
    tasks: Sequence[T],
    *,
    deadline: float | None,
    told: Told = nobody,
    processes: int = PROCESSES,
) -> tuple[R | Exception, ...]:
    """The function's value for each task, or the exception that stands in its place.

    Args:
        function: pure, importable by its name, as are its tasks and values.
        tasks: what to ask it.
        deadline: on the clock of `time.monotonic`, or None.
        told: is told which part is done, from 0 to 1.
        processes: how many there are at most.

    Returns:
        One answer a task, in their order: a value; what the function raised; an OutOfTimeError for what was not
        answered by the deadline; a ChildProcessError for a task whose process died of it.

    Note:
        A fresh interpreter a process (not a copy of this one, which may have threads).
    """
    found: dict[int, R | Exception] = {}
    waiting = iter(range(len(tasks)))
    in_time = deadline is None or time.monotonic() < deadline
    with _workers(function, min(processes, len(tasks)) if in_time else 0) as workers:
        for worker in workers:
            _give(worker, waiting, tasks)
        while len(found) < len(tasks):
            busy = {worker.pipe: worker for worker in workers if worker.task >= 0}
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            for pipe in wait([*busy], timeout=left):
                worker = busy[pipe]  # type: ignore[index]  # what came back is one of those that went in
                found[worker.task] = _taken(worker)
                if isinstance(found[worker.task], ChildProcessError):
                    _replace(worker, function)
                _give(worker, waiting, tasks)
                told(len(found) / len(tasks))
            if deadline is not None and time.monotonic() >= deadline:
                break
    late = OutOfTimeError("no answer within the time allowed")
    return tuple(found.get(number, late) for number in range(len(tasks)))


@contextmanager
def _workers(function: Callable[[T], R], number: int) -> Iterator[list[_Worker]]:
    """Processes that are gone afterwards, whatever they are at."""
    workers: list[_Worker] = []
    try:
        while len(workers) < number:
            workers.append(_started(function))
        yield workers
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()


def _started(function: Callable[[T], R]) -> _Worker:
    """A new process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(function, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process=process, pipe=ours)


def _replace(worker: _Worker, function: Callable[[T], R]) -> None:
    """A new process in the place of a dead one."""
    worker.process.join()
    worker.pipe.close()
    fresh = _started(function)
    worker.process, worker.pipe = fresh.process, fresh.pipe


def _give(worker: _Worker, waiting: Iterator[int], tasks: Sequence[T]) -> None:
    """The next task, if there is one."""
    worker.task = next(waiting, -1)
    if worker.task >= 0:
        with suppress(BrokenPipeError):  # it is dead, as its end of the pipe will tell
            worker.pipe.send(tasks[worker.task])


def _taken(worker: _Worker) -> R | Exception:
    """What a process has to say."""
    try:
        answer: R | Exception = worker.pipe.recv()
    except EOFError:
        worker.process.join()
        return ChildProcessError(f"the process that computed it died (exit code {worker.process.exitcode})")
    return answer


def _work(function: Callable[[T], R], pipe: Connection) -> None:
    """What a process does until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that asks
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        pipe.send_bytes(_parcel(function, task))


def _parcel(function: Callable[[T], R], task: T) -> bytes:
    """An answer ready to be sent."""
    try:
        return pickle.dumps(function(task))
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        error.add_note("".join(traceback.format_exception(error)))
        try:
            parcel = pickle.dumps(error)
            pickle.loads(parcel)  # noqa: S301  our own, of a moment ago
        except Exception:  # noqa: BLE001  an exception that cannot travel
            return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        return parcel
