"""Texts of config files with places in them, and diagnostics: errors, warnings and notes at such places."""

import codecs
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import field, replace
from difflib import get_close_matches
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from dpcalc.errors import LOG_COMMAND, InputError, system_message
from dpcalc.errors import ConfigError as ConfigError
from dpcalc.records import dataclass

MAX_SHOWN_LENGTH = 60  # characters of a value that a sentence quotes
_WINDOW = 100  # characters of a source line that a message shows
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Severity(StrEnum):
    """Consequence of a diagnostic."""

    ERROR = "error"  # the file cannot be used
    WARNING = "warning"  # the file can be used, and somebody should look
    NOTE = "note"  # an assumption that the reader of the result must know


def visible(text: str) -> str:
    r"""Return a text that is safe on terminals and in logs: invisible characters are written as escapes.

    So is the first character of what a continuous integration runner would take for a command.

    Example:
        >>> visible("a\x1b[31m"), visible("::error::b")
        ('a\\x1b[31m', '\\x3a:error::b')
    """
    if text.isascii() and text.isprintable() and "::" not in text and "##" not in text:
        return text
    return _printable_part(text, 0, len(text))


def shortened(text: str) -> str:
    """Return a text, cut to 60 characters and "..." if it is longer, so that a sentence can quote it."""
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}..."


def excerpt(line: str, column: int, width: int) -> tuple[str, int, int]:
    """Return the part of a line around `column`, escaped, with the first cell and the number of its carets."""
    start = max(0, min(column - 1 - _WINDOW // 2, len(line) - _WINDOW))
    stop = min(len(line), start + _WINDOW)
    # The line is cut before it is escaped, so that columns of the file can be turned into cells of the terminal.
    window = line[start:stop].replace("\t", " ")
    first, last = column - 1 - start, min(column - 1 - start + width, len(window))
    ends = ((0, first), (first, last), (last, len(window)))
    before, marked, after = (_printable_part(window, begin, end) for begin, end in ends)
    left, right = ("..." if start else ""), ("..." if stop < len(line) else "")
    return left + before + marked + after + right, _cell_count(left + before) + 1, max(1, _cell_count(marked))


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """An error, warning or note, ready to print."""

    code: str  # stable rule code, "DPC101"
    severity: Severity
    message: str  # one sentence
    hint: str = ""  # what to do
    path: str  # the file as the user named it, "<stdin>" or "--set #1"
    line: int | None = None  # from 1, None if it concerns the file as a whole
    column: int | None = None  # from 1, the character in that line
    width: int = 1  # number of carets
    source_line: str = ""  # text of the line, control characters escaped, long lines cut
    caret: int | None = None  # from 1, cell of the first caret: not `column` where the line was cut or escaped

    def __post_init__(self) -> None:
        # Once, here: whatever prints a diagnostic then prints nothing that a terminal or a runner obeys.
        object.__setattr__(self, "message", visible(self.message))
        object.__setattr__(self, "hint", visible(self.hint))

    def format(self) -> str:
        """Return the diagnostic as text, with its line and carets if known, and with a hint."""
        place = visible(self.path) if self.line is None else f"{visible(self.path)}:{self.line}:{self.column}"
        head = f"{place}: {self.severity}[{self.code}]: {self.message}"
        if self.line is None or not self.source_line:
            return f"{head}\n  = {self.hint}" if self.hint else head
        number = str(self.line)
        margin = " " * len(number)
        carets = " " * ((self.caret or self.column or 1) - 1) + "^" * self.width
        shown = f"{head}\n{margin} |\n{number} | {self.source_line}\n{margin} | {carets}"
        return f"{shown} {self.hint}".rstrip()


def _printable_part(text: str, start: int, stop: int) -> str:
    """Return text[start:stop] with invisible characters and the beginnings of runner commands escaped."""
    # A runner's command can begin before the part that is shown, so the whole text is searched.
    commands = {match.start() for match in LOG_COMMAND.finditer(text)}
    shown = []
    for at in range(start, stop):
        character, code = text[at], ord(text[at])
        if at in commands or unicodedata.category(character) in _INVISIBLE:
            character = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        shown.append(character)
    return "".join(shown)


def _cell_count(text: str) -> int:
    """Return the terminal cells of a text: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


# Reading untrusted files: bounded, never waiting, text only.


MAX_BYTES = 256 * 1024  # of a config or a file that it refers to; configs have a few kilobytes
MAX_NEIGHBOURS = 1000  # files of a folder among which the name of a missing one is looked for
STDIN = "<stdin>"
# Printable characters, and some that are not; none of the separators that YAML and editors count differently as lines.
_ALLOWED = r"\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
_BREAKS = dict.fromkeys(map(ord, "\t\n\r"))
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, eq=False, slots=True)
class Source:
    """A text, without byte order mark, with the name that the user knows it by: a file, "<stdin>" or "--set #1"."""

    path: str
    text: str = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, eq=False, slots=True)
class Mark:
    """A place in a source: line and column (in characters) from 1, and the number of characters within the line."""

    source: Source
    line: int
    column: int
    width: int = 1

    @property
    def place(self) -> tuple[int, int]:
        """Line and column: an alias has those of its anchor."""
        return self.line, self.column


def finding(severity: Severity, code: str, mark: Mark, message: str, hint: str = "") -> Diagnostic:
    """Return a diagnostic of any severity, with an excerpt of the line that `mark` is in."""
    lines = mark.source.lines
    line = lines[mark.line - 1] if mark.line <= len(lines) else ""
    shown, caret, width = excerpt(line, mark.column, mark.width)
    return Diagnostic(
        code=code,
        severity=severity,
        message=message,
        hint=hint,
        path=mark.source.path,
        line=mark.line,
        column=mark.column,
        width=width,
        source_line=shown,
        caret=caret,
    )


def error(code: str, mark: Mark, message: str, hint: str = "") -> Diagnostic:
    """Return a diagnostic of severity ERROR, with an excerpt of the line that `mark` is in."""
    return finding(Severity.ERROR, code, mark, message, hint)


def config_error(code: str, mark: Mark, message: str, hint: str = "") -> ConfigError:
    """Return a ConfigError of one error, for the caller to raise."""
    return ConfigError([error(code, mark, message, hint)])


def read_bytes(path: str, *, limit: int = MAX_BYTES) -> bytes:
    """Return the bytes of a regular file or standard input ("-"); ConfigError if unreadable or over `limit`.

    Note:
        A named pipe or a device is refused without waiting for it: a gate must not hang.
    """
    count = limit + 1  # one more than the limit tells a file that is too large
    try:
        if path != "-":
            with open_regular(path) as stream:
                data = stream.read(count)
        elif sys.stdin is None:
            raise OSError("standard input is closed")
        else:
            data = sys.stdin.buffer.read(count)
    except ConfigError:
        raise  # it is a ValueError too
    except FileNotFoundError:
        hint = "this command takes one config: name it"
        if "*" not in path:  # the file beside it whose name is nearest
            folder, name = os.path.split(path)
            names: list[str] = []
            with suppress(OSError):
                entries = islice(os.scandir(folder or os.curdir), MAX_NEIGHBOURS)
                names = [each.name for each in entries if each.is_file()]
            near = get_close_matches(name[:255], names, n=1)
            meant = f"did you mean {visible(os.path.join(folder, *near))}?"
            hint = meant if near else "check the name and the directory you are in"
        raise whole_file(path or "''", "DPC100", "no such file", hint) from None
    except (OSError, ValueError) as cause:
        raise whole_file(path, "DPC100", f"cannot be read: {system_message(cause)}", "") from None
    if len(data) > limit:
        raise _too_large_error(path, limit)
    return data


def decode(data: bytes, path: str, *, shows_lines: bool = True, limit: int = MAX_BYTES) -> Source:
    """Return UTF-8 bytes as a source, without byte order mark; ConfigError if they are no text for a config."""
    body = data.removeprefix(codecs.BOM_UTF8)
    try:
        return source_of(body.decode("utf-8"), path, limit=limit)
    except UnicodeDecodeError as cause:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise whole_file(path, "DPC100", "the text is UTF-16", "save it as UTF-8") from None
        # The place is found by decoding what comes before the wrong byte; the line has replacement characters.
        start = cause.start
        mark = _mark_after(_source(body.decode("utf-8", errors="replace"), path), body[:start].decode("utf-8"))
        message = f"byte 0x{body[start]:02x} at offset {start + len(data) - len(body)} is not UTF-8"
        wrong = (error("DPC100", mark, message, "save the file as UTF-8"),)
    except ConfigError as cause:
        wrong = cause.diagnostics
    raise ConfigError(wrong if shows_lines else [replace(each, source_line="", caret=None) for each in wrong])


def source_of(text: str, path: str, *, limit: int = MAX_BYTES) -> Source:
    """Return a text as a source; ConfigError if it is above the limit or has characters that YAML forbids."""
    if len(text) > limit or len(text.encode("utf-8", errors="surrogatepass")) > limit:
        raise _too_large_error(path, limit)
    source = _source(text, path)
    if source.text.translate(_BREAKS).isprintable():  # as most are; to compile the pattern takes 10 ms
        return source
    match = re.search(f"[^{_ALLOWED}]", source.text)
    if match:
        message = f"character U+{ord(match.group()):04X} is not allowed in a YAML file"
        hint = "is this a binary file?" if match.group() == "\0" else "remove it; in double quotes it can be escaped"
        raise config_error("DPC100", _mark_after(source, source.text[: match.start()]), message, hint)
    return source


def whole_file(path: str, code: str, message: str, hint: str) -> ConfigError:
    """Return a ConfigError about a file as a whole, for the caller to raise."""
    name = STDIN if path == "-" else path
    return ConfigError([Diagnostic(code=code, severity=Severity.ERROR, message=message, hint=hint, path=name)])


@contextmanager
def open_regular(path: str) -> Iterator[BinaryIO]:
    """Context manager that opens a regular file for reading; ConfigError for others, OSError if it is missing.

    All reading of files that a user or a checkout names ends here, so that no caller can forget the links.
    """
    # The author of a link is not the user who named the file, and a message would show lines of the target.
    if leaves_repository(path):
        raise whole_file(path, "DPC110", "is a symbolic link that leaves the repository", "name the file itself")
    # Without O_NONBLOCK opening a named pipe waits for a writer; O_BINARY exists on Windows only.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise whole_file(path, "DPC100", "is a folder", f"name its files, e.g. '{path.rstrip('/')}/*.yaml'")
        if not stat.S_ISREG(mode):
            raise whole_file(path, "DPC100", "is not a regular file", "give a file, or `-` for standard input")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(descriptor)


@contextmanager
def readable(path: str, *, hint: str = "give a regular file") -> Iterator[tuple[str, BinaryIO]]:
    """Context manager of (name, stream) of a file that is no config, "-" for standard input; InputError if it fails."""
    name = STDIN if path == "-" else path
    if path == "-" and sys.stdin is None:
        raise InputError(f"{STDIN}: expected a file, got a closed standard input")
    try:
        with open_regular(path) if path != "-" else nullcontext(sys.stdin.buffer) as stream:
            yield name, stream
    except ConfigError as error:
        raise InputError(f"{name}: {error.diagnostics[0].message}; {hint}") from None
    except InputError:
        raise  # it is a ValueError too
    except (OSError, ValueError) as error:
        raise InputError(f"{name or repr(name)}: cannot be read: {system_message(error)}") from error


def _too_large_error(path: str, limit: int) -> ConfigError:
    """Return the error for a file above the size limit."""
    message = f"is larger than {limit // 1024} KiB"
    return whole_file(path, "DPC111", message, "a config is a few lines: is this the right file?")


def _source(text: str, path: str) -> Source:
    """Return a source without any check."""
    text = text.removeprefix("\ufeff")
    return Source(path, text, tuple(_LINE_BREAK.split(text)))


def _mark_after(source: Source, before: str) -> Mark:
    """Return the place after a beginning of the text."""
    lines = _LINE_BREAK.split(before)
    return Mark(source, len(lines), len(lines[-1]) + 1)


# The git repository around a file, and links that lead out of it.


def git_root(folder: Path) -> Path | None:
    """Return the nearest directory upwards with `.git`, but none that a link of a repository around it leads to.

    The directory as written; None outside git.
    """
    top = None
    for candidate in (*reversed(folder.parents), folder):
        try:
            holds_git = (candidate / ".git").exists()
        except (OSError, ValueError):  # a name that no file can have
            continue
        # Whoever fills a repository can put a link to another one into it: what lies there is not theirs to show.
        if holds_git and (top is None or real_path(candidate) == real_path(top) / candidate.relative_to(top)):
            top = candidate
    return top


def leaves_repository(path: str) -> bool:
    """Return True if links lead a path out of the git repository in which its name lies, or into its `.git`.

    Outside git: False.
    """
    root = git_root(Path(absolute(path)).parent)
    if root is None or path == "-":
        return False
    # Links before `..`, as the system does: the place that `link/../x` names is above the link's target.
    real, top = real_path(Path(os.path.join(os.getcwd(), path))), real_path(root)
    if not real.is_relative_to(top):
        return True
    # `.git` has tokens in its configuration; only a user who writes the name, in any case, means it.
    enters, means_it = (".git" in map(str.lower, each.parts) for each in (real.relative_to(top), Path(absolute(path))))
    return enters and not means_it


def absolute(path: str) -> str:
    """Return a path from the root, links not followed; impossible names are left for reading to refuse."""
    return os.path.normpath(os.path.join(os.getcwd(), path))


def real_path(path: Path) -> Path:
    """Return a path with every link followed; one that no file can have is returned as it is."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return path
