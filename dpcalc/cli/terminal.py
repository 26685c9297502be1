"""What standard output is connected to."""

import os
import shutil
import sys


def on_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout is not None and sys.stdout.isatty()


def styled() -> bool:
    """Whether escape sequences are welcome: on a terminal that knows them, unless NO_COLOR is set."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal, 80 where it does not tell."""
    return shutil.get_terminal_size().columns
