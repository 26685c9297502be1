"""Verdicts and findings as a terminal shows them: wrapped at its width, the words that decide in colour.

The colour is only an aid: the word beside it says the same.
"""

import os
import re
import shutil
import textwrap
from typing import TextIO

_RED, _GREEN, _YELLOW, _MAGENTA, _CYAN = "1;31", "32", "33", "1;35", "36"
_COLOURS = {
    "passed": _GREEN,
    "failed": _RED,
    "invalid": _MAGENTA,
    "undecided": _YELLOW,
    "error": _RED,
    "warning": _YELLOW,
    "note": _CYAN,
}
_WORDS = re.compile(
    r"(?m)"
    r"(?P<finding>(?:^|(?<=\s))(?P<level>error|warning|note)(?:\[DPC\d{3}\])?(?=:))"
    r"|(?<=: )(?P<verdict>passed|failed|invalid|undecided)(?=,|$)"
    r"|(?<=\d )(?P<counted>passed|failed|invalid|undecided)(?=,|$)"
)
_EXCERPT = re.compile(r"\d* *\|")  # a line of a file, and the marks below it, keep their columns
_LEAST_WIDTH = 20


def painted(text: str, stream: TextIO) -> str:
    """Return a text for a stream: unchanged where that is no terminal.

    Args:
        text: lines with nothing in them that could steer a terminal.
        stream: where it is written.
    """
    if not stream.isatty():
        return text
    width = _width(stream)
    wrapped = "\n".join(_wrapped(line, width) for line in text.split("\n"))
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return wrapped if plain else _WORDS.sub(_coloured, wrapped)


def _width(stream: TextIO) -> int:
    """Return the columns of the terminal that a stream is."""
    try:
        columns = 0 if os.environ.get("COLUMNS") else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(_LEAST_WIDTH, columns or shutil.get_terminal_size().columns)


def _wrapped(line: str, width: int) -> str:
    """Return a line in lines of the terminal's width; what is indented is to be pasted, or drawn, as it is."""
    if len(line) <= width or _EXCERPT.match(line) or (line.startswith("  ") and not line.startswith("  = ")):
        return line
    return textwrap.fill(line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _coloured(found: re.Match[str]) -> str:
    """Return a word in its colour."""
    word = found["level"] or found["verdict"] or found["counted"]
    return f"\x1b[{_COLOURS[word]}m{found[0]}\x1b[0m"
