"""Worker processes within limits of time and memory, isolated from the checkout; the costs that they compute.

The parent starts a worker with `python -P`, so that nothing is imported from the current directory, and gives it
`sys.path` on the command line. Each message is its length in 8 bytes, then a pickle: to the worker the function with
its memory limit, then tasks; from it answers.
"""

import io
import math
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Generic, TypeVar

from dpcalc.errors import InputError, OutOfMemoryError, OutOfTimeError
from dpcalc.guarantee import ROUGH_COUNTS, Guarantee
from dpcalc.planner.calibration import LIBRARIES
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.work import SECOND, allowance

_LENGTH = struct.Struct(">Q")


def serve() -> None:
    """Answer tasks from standard input until it closes: the worker's whole life. Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers and blocks it first
    requests, answers = io.BufferedReader(io.FileIO(0)), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints must not mix with the answers
    first = read_message(requests)
    if first is None:
        return
    function, memory = pickle.loads(first)  # noqa: S301  written by the parent
    if memory is not None:
        limit_memory(memory)

    def queue_tasks() -> None:
        while (message := read_message(requests)) is not None:
            tasks.put(message)
        os._exit(0)

    def pickled_answer(task: bytes) -> bytes:
        try:
            return pickle.dumps(function(pickle.loads(task)))  # noqa: S301  written by the parent
        except MemoryError:
            pass  # its traceback holds what filled the memory, until the block ends
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
            # A traceback does not travel in a pickle; a note does.
            error.add_note("".join(traceback.format_exception(error)))
            try:
                parcel = pickle.dumps(error)
                pickle.loads(parcel)  # noqa: S301  our own, of a moment ago
            except Exception:  # noqa: BLE001  an exception that cannot travel
                return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
            return parcel
        allowed = "" if memory is None else f" within {memory / 1e9:g} GB"
        return pickle.dumps(OutOfMemoryError(f"no answer{allowed} of memory; --memory-limit allows more"))

    # A thread reads: it notices that the parent is gone while the main thread computes, and ends the process.
    tasks: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=queue_tasks, daemon=True).start()
    while True:
        write_message(answers, pickled_answer(tasks.get()))


def limit_memory(memory: int) -> None:
    """Limit this process to `memory` bytes of address space beyond its present size; no-op where not Linux.

    The present size depends on the machine (the linear algebra library reserves some for every processor), so the
    limit is relative.
    """
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limit, macOS does not enforce it
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def read_message(stream: IO[bytes]) -> bytes | None:
    """Return the next message of a stream; None at its end, or if the message is incomplete."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    return body if len(body) == length else None


def write_message(stream: IO[bytes], body: bytes) -> None:
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()


# The parent of the workers.

PROCESSES = 2  # processors of a small machine for continuous integration; each process has its own memory limit
OnProgress = Callable[[float], object]
T = TypeVar("T")
R = TypeVar("R")
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from dpcalc.gate.workers import serve; serve()"
_FLAGS = {"isolated": "-I", "ignore_environment": "-E", "no_user_site": "-s", "no_site": "-S"}


def ignore_progress(part: float) -> None:
    """Do nothing: the progress callback of callers that show none."""
    del part


@dataclass(kw_only=True, eq=False)
class _Worker:
    """A worker process with its listener thread; the number of its present task, -1 for none."""

    process: subprocess.Popen[bytes]
    listener: threading.Thread = field(init=False)
    task: int = -1

    def send(self, message: bytes) -> None:
        # The process may have died in the meantime; its listener says so.
        with suppress(OSError):
            if self.process.stdin is not None:
                write_message(self.process.stdin, message)


class Workers(Generic[T, R]):
    """Pool of processes that compute one function; they end when it is closed, and with this process."""

    def __init__(self, function: Callable[[T], R], *, processes: int = PROCESSES, memory: int | None = None) -> None:
        """Prepare the pool; processes start with the first task."""
        self._preparation = pickle.dumps((function, memory))
        self._processes = processes
        self._workers: list[_Worker] = []
        # One inbox for all workers: waiting for each of them in turn would let a slow one hide the others. No message
        # of a worker means that its process has ended.
        self._inbox: SimpleQueue[tuple[_Worker, bytes | None]] = SimpleQueue()

    def close(self) -> None:
        """End all processes and drop their tasks; a later call starts new ones."""
        for worker in tuple(self._workers):
            self._kill(worker)

    def answers(self, tasks: Sequence[T], *, deadline: float = math.inf) -> tuple[R | Exception, ...]:
        """Return one answer for each task, in order: its value, or the exception that it raised or died of."""
        known = dict(self.finished(tasks, deadline=deadline))
        late = OutOfTimeError("no answer within the time allowed; --timeout allows more")
        return tuple(known.get(number, late) for number in range(len(tasks)))

    def finished(self, tasks: Sequence[T], *, deadline: float = math.inf) -> Iterator[tuple[int, R | Exception]]:
        """Yield task index and answer as they arrive; at `deadline` other tasks are dropped, their processes ended."""
        missing = len(tasks)
        waiting = deque(range(missing))
        # One task a worker at a time: a task that is killed at its limit takes no other one with it.
        while missing and time.monotonic() < deadline:
            while waiting:
                idle = next((worker for worker in self._workers if worker.task < 0), None)
                if idle is None:
                    if len(self._workers) >= self._processes:
                        break
                    idle = self._start_worker()
                idle.task = waiting.popleft()
                idle.send(pickle.dumps(tasks[idle.task]))
            left = deadline - time.monotonic()
            try:
                worker, message = self._inbox.get(timeout=None if left == math.inf else max(0.0, left))
            except Empty:
                break
            if worker not in self._workers:  # it was ended while its answer was on the way
                continue
            number, worker.task = worker.task, -1
            if message is None:  # the process died of its task, or between two tasks
                self._kill(worker)
            if number >= 0:
                missing -= 1
                died = f"the process that computed it died (exit code {worker.process.returncode})"
                yield number, ChildProcessError(died) if message is None else pickle.loads(message)  # noqa: S301  ours
        for worker in [worker for worker in self._workers if worker.task >= 0]:
            self._kill(worker)

    def _start_worker(self) -> _Worker:
        """Start a worker process and the thread that listens to it, and send it the function and the memory limit."""
        # `-P` keeps the current directory, which may hold anybody's `pickle.py`, out of `sys.path`; so does dropping
        # relative entries of ours. `-I` and the like are handed on.
        flags = [option for name, option in _FLAGS.items() if getattr(sys.flags, name)]
        path = [entry for entry in sys.path if Path(entry).is_absolute()]
        home = str(Path(__file__).parents[2])  # last, so that it hides no library where dpcalc is imported otherwise
        command = [sys.executable, *flags, "-P", "-c", _PROGRAM, *path, *([] if home in path else [home])]
        # A process inherits what is blocked: Ctrl-C would end it with a traceback before it can say that it ignores it.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  no shell
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        worker = _Worker(process=process)

        def listen() -> None:
            while process.stdout is not None and (message := read_message(process.stdout)) is not None:
                self._inbox.put((worker, message))
            self._inbox.put((worker, None))

        worker.listener = threading.Thread(target=listen, daemon=True)
        worker.listener.start()
        self._workers.append(worker)
        worker.send(self._preparation)
        return worker

    def _kill(self, worker: _Worker) -> None:
        """Drop a worker: kill its process, wait for it and its listener, close its pipes."""
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.wait()
        # It ends with the pipe. Closed before, its number could belong to another file while the listener still reads.
        worker.listener.join()
        for pipe in (worker.process.stdin, worker.process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not yet sent cannot be any more
                    pipe.close()


# Epsilons of plans, lower bounds and suggestions, each computed once by workers with limits of time and memory.


FIT_WORK = 15.0 * SECOND  # for one suggestion, without which there is a verdict; ordinary ones take under two seconds
CLOSE = 1e-4  # relative margin below the limit that a suggested noise keeps, so that its printed digits still fit


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to compute about a plan, as `cost_relevant` returns it."""

    plan: Plan
    quantity: str = "epsilon"  # the upper bound, "lower" to add the lower one to `upper`, "sigma" or "steps" that fit
    upper: Guarantee | None = None
    limit: float = 0.0  # of epsilon, > 0, within which sigma or steps keep the plan


Answer = Guarantee | float | int


class Costs:
    """Memoised evaluator of requests in worker processes, which start with the first request; `close` ends them.

    `seconds` (infinite for no limit) are for all requests together, from now on; `memory` is in bytes for one process
    beyond its start, None for no limit.
    """

    def __init__(
        self,
        *,
        seconds: float = math.inf,
        memory: int | None = None,
        on_progress: OnProgress = ignore_progress,
        on_file: Callable[[str], object] = str,  # of the file that is worked on
    ) -> None:
        """Start the clock."""
        self._on_progress = on_progress
        self._on_file = on_file
        self._files: dict[Plan, str] = {}
        self._deadline = time.monotonic() + seconds
        self._known: dict[Request, Answer | Exception] = {}
        self._workers: Workers[Request, Answer] = Workers(compute_answer, memory=memory)

    def close(self) -> None:
        self._workers.close()

    def stop(self) -> None:
        """Compute nothing more: what is not yet known has no answer in time."""
        self._deadline = -math.inf

    def compute_files(self, plans: Iterable[tuple[str, Plan]]) -> None:
        """Compute the bounds of the plans of files; progress shows the first file that has the plan."""
        files: dict[Plan, str] = {}
        for path, plan in plans:
            files.setdefault(plan, path)
        self._files |= files
        self.compute(Request(plan=plan) for plan in files)

    def compute(self, requests: Iterable[Request]) -> None:
        """Compute the requests whose answers are not yet known; remember what failed as its exception."""
        batch = [request for request in dict.fromkeys(requests) if request not in self._known]

        def report(part: float) -> None:
            # The file of the next request, if any is left; a single one does not report the part 0.
            done = round(part * len(batch))
            if done < len(batch):
                self._on_file(self._files.get(batch[done].plan, ""))
            if part or len(batch) > 1:
                self._on_progress(part)

        report(0.0)
        for done, (number, answer) in enumerate(self._workers.finished(batch, deadline=self._deadline), start=1):
            self._known[batch[number]] = answer  # at once: Ctrl-C leaves what is finished
            report(done / len(batch))
        late = OutOfTimeError("no answer within the time allowed; --timeout allows more")
        self._known = dict.fromkeys(batch, late) | self._known

    def guarantee(self, plan: Plan) -> Guarantee:
        """Return the upper bound on a plan's epsilon by "auto", >= 0 or infinite; ArithmeticError for anything else."""
        answer = self._answer(Request(plan=cost_relevant(plan)))
        if not isinstance(answer, Guarantee) or answer.kind is not plan.bound_kind or not answer.epsilon >= 0:  # NaN
            raise ArithmeticError(f"expected an upper bound >= 0, got {answer!r}")
        return answer

    def attempt(self, request: Request) -> Answer | None:
        """Return the answer to a request, None if it fails: without it there is a verdict all the same."""
        try:
            return self._answer(request)
        except Exception:  # noqa: BLE001
            return None

    def _answer(self, request: Request) -> Answer:
        """Return the answer to a request, computed if not yet known; raise the exception stored in its place."""
        self.compute([request])
        answer = self._known[request]
        if isinstance(answer, Exception):
            raise answer
        return answer


def cost_relevant(plan: Plan) -> Plan:
    """Return a plan without labels, votes, budget and method, which do not change its cost by "auto"."""
    phases = tuple(replace(phase, name="", votes="") for phase in plan.phases)
    return replace(plan, name="", budget=None, method="auto", phases=phases)


def is_fallback(plan: Plan, guarantee: Guarantee) -> bool:
    """Return True if a bound may be loose although the tight method (pld) applies to the plan; never if it is tuned."""
    # pld is tight up to its grid, and "none" is the infinite epsilon that no method can lower. Another method in their
    # place, or counts that were rounded up, may be far above the truth: such an answer needs a lower bound beside it.
    is_sharp = guarantee.method in {"pld", "none", *LIBRARIES} and ROUGH_COUNTS not in guarantee.notes
    return plan.knows_losses and plan.tuning is None and not is_sharp


def compute_answer(request: Request) -> Answer:
    """Compute in this process an upper bound, a lower bound, or the most steps or the smallest noise that fits."""
    from dpcalc.planner import evaluate

    if request.quantity == "epsilon":
        return evaluate.guarantee(request.plan, method="auto")
    if request.upper is not None:
        return evaluate.with_lower_bound(request.plan, request.upper)

    from dpcalc.planner.solve import EpsilonGoal, solve

    # A noise multiplier is printed with few digits; steps are whole numbers and need no margin.
    target = request.limit * (1 - CLOSE) if request.quantity == "sigma" else request.limit
    with allowance(FIT_WORK):
        value = solve(request.plan, request.quantity, goal=EpsilonGoal(limit=target)).value
    if not isinstance(value, int | float):
        raise InputError(f"{request.quantity}: expected a number, got {value!r}")
    return value
