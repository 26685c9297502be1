"""Results of commands, and their output to terminal, file or pipe."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from dpcalc.config.files import create, is_device, refuse_outward_link, save, send
from dpcalc.config.source import Diagnostic, Severity, visible
from dpcalc.errors import DpcalcError, InputError, OutputError, diagnosis, system_message
from dpcalc.records import dataclass
from dpcalc.report.output import Output, error_json
from dpcalc.report.rules import rule_address

INTERRUPTED = 130  # exit code after Ctrl-C


def on_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def has_styles(stream: TextIO | None = None) -> bool:
    """Return whether a stream, by default standard output, takes colours; NO_COLOR comes before FORCE_COLOR."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in {"", "0"}:
        return True
    stream = stream or sys.stdout
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Return the columns of the terminal, 80 if unknown."""
    return shutil.get_terminal_size().columns


def output_text(output: Output, *, form: str = "", quiet: bool = False) -> str:
    """Return a result in a form of `--format`, or numbers alone; by default as lines or, on a terminal, as a table."""
    forms = {"json": output.json_text, "csv": output.csv_text, "markdown": output.markdown_text}
    if form in forms:
        return forms[form]()
    if quiet:
        return output.quiet_text
    if not on_terminal() and form != "table":
        return output.plain_text()

    from dpcalc.report.terminal import terminal_text

    return terminal_text(output, width=width(), styled=has_styles())


def with_errors(output: Output, errors: Sequence[DpcalcError]) -> Output:
    """Return a result with the errors as one more field, the `error` of JSON; unchanged if there are none."""
    if not errors:
        return output

    described = error_json([(error, *diagnosis(error)) for error in errors])
    return replace(output, result={**output.result, **described})


# Verdicts and findings as a terminal shows them: wrapped at its width, the words that decide in colour.
#
# The colour is only an aid: the word beside it says the same.


_RED, _GREEN, _YELLOW, _MAGENTA, _CYAN = "1;31", "32", "33", "1;35", "36"
_COLOURS = {
    "passed": _GREEN,
    "locked": _GREEN,
    "failed": _RED,
    "invalid": _MAGENTA,
    "undecided": _YELLOW,
    "no budget": _YELLOW,
    "without a budget": _YELLOW,
    "error": _RED,
    "warning": _YELLOW,
    "note": _CYAN,
}
_WORDS = re.compile(
    r"(?m)"
    r"(?P<finding>(?:^|(?<=\s))(?P<level>error|warning|note)(?:\[(?P<code>DPC\d{3})\])?(?=:))"
    r"|^(?P<verdict>passed|failed|invalid|undecided|no budget|locked)(?=  )"
    r"|(?<=\d )(?P<counted>passed|failed|invalid|undecided|without a budget)(?=,|$)"
)
_EXCERPT = re.compile(r"\d* *\| ?")  # a line of a file, and the marks below it, keep their columns
_MARKS = re.compile(r" *\| +(\^+) ?(.*)")
_COMMAND = re.compile(r"(  .*?:) {2,}(\w[^'\"]*)$")
_NOTE = re.compile(r"note: |  = ")  # a path before a finding may hold a number that is no count
_CUT = "..."
_LEAST_WIDTH = 20


def styled_text(text: str, stream: TextIO) -> str:
    """Return a text wrapped and with links to rules for a terminal, coloured for a stream that takes colours."""
    wrapped = _wrapped(text, stream) if stream.isatty() else text

    def coloured(match: re.Match[str]) -> str:
        word = match["level"] or match["verdict"] or match["counted"]
        shown = f"\x1b[{_COLOURS[word]}m{match[0]}\x1b[0m"
        address = rule_address(match["code"]) if match["code"] and stream.isatty() else ""
        return f"\x1b]8;;{address}\x1b\\{shown}\x1b]8;;\x1b\\" if address else shown

    return _WORDS.sub(coloured, wrapped) if has_styles(stream) else wrapped


def _wrapped(text: str, stream: TextIO) -> str:
    from dpcalc.planner.words import with_thousands_separators

    try:
        columns = 0 if os.environ.get("COLUMNS") else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    columns = max(_LEAST_WIDTH, columns or shutil.get_terminal_size().columns)
    whole_words = textwrap.TextWrapper(columns, break_long_words=False, break_on_hyphens=False)
    whole_words.subsequent_indent = "    "
    lines = [with_thousands_separators(line) if _NOTE.match(line) else line for line in text.split("\n")]
    shown: list[str] = []
    at = 0
    while at < len(lines):
        line, below = lines[at], "".join(lines[at + 1 : at + 2])
        excerpt, marks, command = _EXCERPT.match(line), _MARKS.match(below), _COMMAND.match(line)
        if excerpt and marks and max(len(line), len(below)) > columns:
            # The part of the line around its marks, which stand a third of the way into what is shown.
            gutter, room = excerpt.end(), columns - excerpt.end()
            code, start = line[gutter:], marks.start(1) - gutter
            cut = max(0, min(start - room // 3, len(code) - room)) if len(code) > room else 0
            part = code[cut : cut + room]
            part = (_CUT + part[len(_CUT) :]) if cut else part
            part = (part[: -len(_CUT)] + _CUT) if cut + room < len(code) else part
            shown += [line[:gutter] + part, below[:gutter] + " " * (start - cut) + marks[1][: room - (start - cut)]]
            lines[at + 1 : at + 2] = [f"  = {marks[2]}"] if marks[2] else []
        elif len(line) <= columns or excerpt:
            shown.append(line)
        elif command:  # below its label, in lines that a shell reads as one
            wrapper = textwrap.TextWrapper(columns - 2, initial_indent="    ", subsequent_indent="      ")
            wrapper.break_long_words = wrapper.break_on_hyphens = False
            *parts, last = wrapper.wrap(command[2])
            shown += [command[1], *(f"{part} \\" for part in parts), last]
        else:
            shown += whole_words.wrap(line)
        at += 1
    return "\n".join(shown)


# What commands say beside their answer.


def remarks(diagnostics: Sequence[Diagnostic], notes: Sequence[str] = (), *, quiet: bool = False) -> tuple[str, ...]:
    """Return the texts for standard error: findings on a config, and then notes on the result unless quiet."""
    shown = [finding for finding in diagnostics if not (quiet and finding.severity is Severity.NOTE)]
    said = {finding.message for finding in shown}
    more = (f"note: {visible(note)}" for note in notes if not quiet and note not in said)
    return (*(finding.format() for finding in shown), *more)


_OF_STREAMS = frozenset({errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE})


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """What a command hands back to be written."""

    text: str  # for standard output, whole lines
    code: int = 0  # exit code
    asides: tuple[str, ...] = ()  # for standard error, one entry a remark
    changed: tuple[str, ...] = ()  # files that the command has written: they stay so if the answer cannot be
    errors: tuple[DpcalcError, ...] = ()  # of inputs that the text leaves out: printed after it, for the exit code too


def answer(
    output: Output,
    diagnostics: Sequence[Diagnostic],
    notes: Sequence[str] = (),
    *,
    form: str = "",
    quiet: bool = False,
    asides: Sequence[str] = (),
    **more: Any,
) -> CommandResult:
    """Return a result as its text, with the `remarks` and further `asides`; `more` is for CommandResult."""
    said = remarks(diagnostics, notes, quiet=quiet)
    return CommandResult(text=output_text(output, form=form, quiet=quiet), asides=(*said, *asides), **more)


def print_result(answer: CommandResult) -> None:
    """Print a result and then its remarks; BrokenPipeError or OutputError if standard output fails."""
    try:
        if answer.text:
            if sys.stdout is None:
                raise OSError(errno.EBADF, "standard output is closed")
            sys.stdout.write(answer.text)
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output(sys.stdout)
        raise
    except OSError as error:
        raise _lost_answer(error, answer.changed, answer.asides) from error
    for remark in answer.asides:
        print_remark(remark)


def _lost_answer(error: OSError, changed: tuple[str, ...] = (), asides: tuple[str, ...] = ()) -> OutputError:
    """Discard the rest of standard output, and return the error, which names the files that were changed."""
    discard_output(sys.stdout)
    written = f"{', '.join(changed)} {'was' if len(changed) == 1 else 'were'} written" if changed else ""
    return OutputError(
        f"standard output cannot be written: {system_message(error)}; {written or 'no file was changed'}", asides
    )


def output_error(error: BaseException) -> OutputError | None:
    """Return an error of an output stream as an OutputError; None for any other error."""
    if isinstance(error, OutputError):
        return error
    # Only an error of a file that was opened by its name carries a name.
    if isinstance(error, OSError) and error.filename is None and error.errno in _OF_STREAMS:
        return _lost_answer(error)
    return None


def print_remark(text: str) -> None:
    """Print a line to standard error, styled for a terminal; do nothing if it is closed or fails."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{styled_text(text, sys.stderr)}\n")
        sys.stderr.flush()
    except OSError:
        discard_output(sys.stderr)


def discard_output(stream: TextIO | None) -> None:
    """Redirect a stream to the null device, so that the flush at the process's end cannot fail; None: do nothing."""
    if stream is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


# Files that commands write beside their result: `--output`, `--csv`, `--plot`.


def write_file(option: str, path: str, data: bytes, *, force: bool) -> None:
    """Write a file whole or not at all, or to a device; InputError if that fails or it exists without `force`."""
    try:
        if is_device(path):
            send(path, data)
        elif not create(path, data):
            refuse_existing(option, path, force=force)
            save(path, data)
    except (InputError, OSError) as error:
        message = system_message(error)
        if isinstance(error, OSError):
            message = f"{path}: cannot be written: {message}"
        raise InputError(message if message.startswith(option) else f"{option}: {message}") from error


def refuse_existing(option: str, path: str, *, force: bool) -> None:
    """Raise InputError if a file, folder or link has this path, unless `force` or it is a device."""
    if os.path.lexists(path) and not force and not is_device(path):
        raise InputError(f"{option}: {path} already exists; use --force to overwrite it")


def check_picture(path: str) -> None:
    """Raise InputError if the picture of `--plot` has an unknown format or cannot be written."""
    from dpcalc.charts import picture_format

    picture_format(path)
    target = Path(path)
    try:
        refuse_outward_link(path)
        if target.is_dir() or not target.parent.is_dir():
            raise InputError(f"expected a file in an existing folder, got {path}")
        if target.exists() and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
            raise InputError(f"expected a file that may be written, got a read-only one, {path}")
    except InputError as error:
        raise InputError(f"--plot: {error}") from None
    except OSError as error:  # a name that no file can have
        raise InputError(f"--plot: {path}: cannot be written: {system_message(error)}") from error


def write_picture(path: str, picture: Callable[[str], bytes]) -> str:
    """Write a picture in the format that its file name ends in, and return a note; InputError if that fails."""
    from dpcalc.charts import picture_format

    write_file("--plot", path, picture(picture_format(path)), force=True)
    return f"note: wrote {path}"
