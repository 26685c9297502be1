"""One worker process: reads tasks from standard input, writes answers to standard output, ends with its parent.

The parent starts it with `python -P`, so that nothing is imported from the current directory, and gives it `sys.path`
on the command line. Each message is its length in 8 bytes, then a pickle.
"""

import io
import os
import pickle
import signal
import struct
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Protocol

from dpcalc.errors import OutOfMemoryError

_LENGTH = struct.Struct(">Q")


class Function(Protocol):
    """A pure function of one argument that can be imported by its name."""

    def __call__(self, task: Any, /) -> object:  # noqa: ANN401  the caller of the workers knows its own types
        """Return the answer to a task."""


def serve() -> None:
    """Answer the parent's tasks on standard input until it closes the pipe or dies, which ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a library prints must not mix with the answers
    requests = io.BufferedReader(io.FileIO(0))
    first = read_message(requests)
    if first is None:
        return
    function, memory = pickle.loads(first)  # noqa: S301  written by the parent
    if memory is not None:
        limit_memory(memory)
    # A thread reads: it notices that the parent is gone while the main thread computes, and ends the process.
    tasks: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_queue_tasks, args=(requests, tasks), daemon=True).start()
    while True:
        write_message(answers, _pickled_answer(function, tasks.get(), memory))


def _queue_tasks(requests: IO[bytes], tasks: "SimpleQueue[bytes]") -> None:
    """Queue the parent's tasks; end the process (exit code 0) when the pipe is closed."""
    while (message := read_message(requests)) is not None:
        tasks.put(message)
    os._exit(0)


def _pickled_answer(function: Function, task: bytes, memory: int | None) -> bytes:
    """Return the pickled answer, or the exception: OutOfMemoryError for memory, RuntimeError if unpicklable."""
    try:
        return pickle.dumps(function(pickle.loads(task)))  # noqa: S301  written by the parent
    except MemoryError:
        allowed = "" if memory is None else f" within {memory / 1e9:g} GB"
        return pickle.dumps(OutOfMemoryError(f"no answer{allowed} of memory; --memory-limit allows more"))
    except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
        error.add_note("".join(traceback.format_exception(error)))
        try:
            parcel = pickle.dumps(error)
            pickle.loads(parcel)  # noqa: S301  our own, of a moment ago
        except Exception:  # noqa: BLE001  an exception that cannot travel
            return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        return parcel


def limit_memory(memory: int) -> None:
    """Limit this process to `memory` bytes of address space beyond its present size; no-op where not Linux.

    The present size depends on the machine (the linear algebra library reserves some for every processor), so the
    limit is relative.
    """
    with suppress(ImportError, OSError, ValueError):  # Windows has no such limit, macOS does not enforce it
        import resource  # noqa: PLC0415  see above

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
    """Write the length of a message in 8 bytes, then the message, and flush.

    Args:
        stream: binary.
        body: the message, any length.
    """
    stream.write(_LENGTH.pack(len(body)) + body)
    stream.flush()
