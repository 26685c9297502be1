"""What is wrong with a file, where, and the way out."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dpcalc.errors import COMMAND, InputError

_WINDOW = 100  # characters of a source line worth showing
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Severity(StrEnum):
    """How much a finding matters.

    Attributes:
        ERROR: the file cannot be used.
        WARNING: the file can be used, and somebody should look.
        NOTE: a default that the reader of the result must know.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


def visible(text: str) -> str:
    r"""Text that is safe on a terminal and in a log: escape sequences and commands to the runner are spelled out.

    Args:
        text: anything, for example a value taken from an untrusted file.

    Returns:
        The same text with control, format, surrogate and separator characters written as escapes, and so the first
        character of what a continuous integration runner would take for a command.

    Example:
        >>> visible("a\x1b[31m"), visible("::error::b")
        ('a\\x1b[31m', '\\x3a:error::b')
    """
    if text.isascii() and text.isprintable() and "::" not in text and "##" not in text:
        return text
    return _part(text, 0, len(text))


def excerpt(line: str, column: int, width: int) -> tuple[str, int, int]:
    """The part of a source line around a place.

    Args:
        line: the raw line.
        column: 1-based first character of interest.
        width: number of characters of interest, at least 1.

    Returns:
        The text to show, the 1-based terminal cell of the first caret in it, and the number of carets.
    """
    start = max(0, min(column - 1 - _WINDOW // 2, len(line) - _WINDOW))
    stop = min(len(line), start + _WINDOW)
    window = line[start:stop].replace("\t", " ")
    first, last = column - 1 - start, min(column - 1 - start + width, len(window))
    before, marked, after = _part(window, 0, first), _part(window, first, last), _part(window, last, len(window))
    left, right = ("..." if start else ""), ("..." if stop < len(line) else "")
    return left + before + marked + after + right, _cells(left + before) + 1, max(1, _cells(marked))


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One finding, ready to print.

    Attributes:
        code: stable rule code, "DPC101".
        severity: how much it matters.
        message: one sentence.
        hint: what to do, or "".
        path: the file as the user named it, "<stdin>" or "--set #1".
        line: 1-based, None when the finding concerns the file as a whole.
        column: 1-based character in that line.
        width: number of carets.
        source_line: the text of the line, control characters made visible, long lines cut.
        caret: 1-based terminal cell of the first caret in `source_line`; it differs from `column` where
            the line was cut or characters were spelled out.
    """

    code: str
    severity: Severity
    message: str
    hint: str = ""
    path: str
    line: int | None = None
    column: int | None = None
    width: int = 1
    source_line: str = ""
    caret: int | None = None

    def __post_init__(self) -> None:
        """Keep control characters that a message quotes away from every output."""
        object.__setattr__(self, "message", visible(self.message))
        object.__setattr__(self, "hint", visible(self.hint))

    def format(self) -> str:
        """Plain text: the sentence, then the line of the file with carets and the hint."""
        place = visible(self.path) if self.line is None else f"{visible(self.path)}:{self.line}:{self.column}"
        head = f"{place}: {self.severity}[{self.code}]: {self.message}"
        if self.line is None or not self.source_line:
            return f"{head}\n  = {self.hint}" if self.hint else head
        number = str(self.line)
        margin = " " * len(number)
        carets = " " * ((self.caret or self.column or 1) - 1) + "^" * self.width
        return f"{head}\n{margin} |\n{number} | {self.source_line}\n{margin} | {carets} {self.hint}".rstrip()


class ConfigError(InputError):
    """A file cannot be used; every error found in it at once."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Keep the findings.

        Args:
            diagnostics: the errors, in the order of the file.
        """
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        """All findings as text, a blank line between them."""
        return "\n\n".join(diagnostic.format() for diagnostic in self.diagnostics)


def _part(text: str, start: int, stop: int) -> str:
    """A part of a text as people may see it; what is a command is told from the whole of it."""
    commands = {found.start() for found in COMMAND.finditer(text)}
    return "".join(_spelled(text[at]) if at in commands else _shown(text[at]) for at in range(start, stop))


def _shown(character: str) -> str:
    """One character, spelled out if a terminal would obey it or a reader would not see it."""
    return _spelled(character) if unicodedata.category(character) in _INVISIBLE else character


def _spelled(character: str) -> str:
    """One character as an escape."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _cells(text: str) -> int:
    """Terminal cells of a text: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)
