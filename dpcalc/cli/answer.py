"""What a command hands back to be written."""

import errno
import os
import sys
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The end of a command.

    Attributes:
        text: for standard output, whole lines.
        code: exit code.
        asides: for standard error, one entry a remark.
    """

    text: str
    code: int = 0
    asides: tuple[str, ...] = ()


def say(answer: Answer) -> None:
    """Write an answer; nothing is left in a buffer.

    Raises:
        OSError: if standard output cannot take it, a BrokenPipeError if its reader is gone. Nothing is written to it
            any more, so that the interpreter's own flush at the end cannot fail a second time.
    """
    if answer.text:
        if sys.stdout is None:
            raise OSError(errno.EBADF, "standard output is closed")
        try:
            sys.stdout.write(answer.text)
            sys.stdout.flush()
        except OSError:
            _abandon(sys.stdout)
            raise
    for remark in answer.asides:
        aside(remark)


def aside(text: str) -> None:
    """Write a remark to standard error, if there is one: an answer does not fail for a remark."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        _abandon(sys.stderr)


def _abandon(stream: TextIO) -> None:
    """Send what a stream still holds, and all that follows, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
