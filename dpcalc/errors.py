"""The exceptions that dpcalc raises on purpose; the command line maps each class to one exit code."""

import math
import re
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

FIX_INPUT, NO_VERDICT = 2, 3  # exit codes
LOG_COMMAND = re.compile(r"(?<!\S)::|##(?=\w*\[)")
"""Text in a log line that the CI runner of GitHub, Azure or TeamCity would execute as a command."""


class DpcalcError(Exception):
    """Base class of every deliberate error; its text is one clear sentence for the user."""


class InputError(DpcalcError, ValueError):
    """An input that the user must change (exit code 2); the text is `where: expected X, got Y`, then what to do."""


class KeyedInputError(InputError):
    """An input error at one key, which config turns into a message at the place of that key.

    Attributes:
        key: dotted key, relative to the section that the raising class describes.
        problem: sentence whose subject is the key, such as "must be at least 1 / 4".
        hint: what to do, or "".
        code: rule code, DPC106 for a number out of range, DPC107 for a contradiction between keys.
    """

    def __init__(self, key: str, problem: str, hint: str = "", *, code: str = "DPC106") -> None:
        """Compose the text from the parts."""
        super().__init__(f"{key} {problem}{hint and f'; {hint}'}")
        self.key, self.problem, self.hint, self.code = key, problem, hint, code


class ConfigError(InputError):
    """All errors of a file that cannot be used.

    Attributes:
        diagnostics: one a place, with its rule code, line and column (`dpcalc.config.source.Diagnostic`).
    """

    def __init__(self, diagnostics: Iterable[Any]) -> None:
        """Store what is wrong."""
        self.diagnostics: tuple[Any, ...] = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        """Return every error with its place and way out."""
        return "\n\n".join(diagnostic.format() for diagnostic in self.diagnostics)


class UnsupportedError(InputError):
    """A plan that the chosen accountant or bound does not cover (exit code 2); the text names those that do."""


class ConvergenceError(DpcalcError, ArithmeticError):
    """A computation that reached no certified number (exit code 3); nothing is reported."""


class NoSolution(DpcalcError):
    """No value of a quantity meets the goal (exit code 1); the text has the nearest one.

    Attributes:
        name: of the quantity, such as "noise_multiplier".
        goal: what was asked.
        best_value: the value that comes nearest.
        best_reached: what the goal measures there, an upper bound.
    """

    def __init__(self, name: str, goal: Any, best_value: Any, best_reached: float) -> None:
        """Compose the text from the parts."""
        super().__init__(
            f"{name}: no value gives {goal.name} <= {goal.limit!r}; "
            f"the best, {name} {best_value}, gives {best_reached:.6g}"
        )
        self.name, self.goal, self.best_value, self.best_reached = name, goal, best_value, best_reached


class TooLargeError(ConvergenceError):
    """A grid of losses that would not fit in memory (exit code 3)."""


class WorkExceededError(TooLargeError):
    """A computation would take more work than its allowance (`dpcalc.work`); a cheaper bound answers in its place."""


class OutOfTimeError(DpcalcError):
    """A computation that exceeded its time limit (exit code 3); nothing is reported."""


class OutputError(DpcalcError):
    """An answer that could not be written to standard output (exit code 3).

    Attributes:
        asides: lines for standard error that belong to the answer.
    """

    def __init__(self, message: str, asides: tuple[str, ...] = ()) -> None:
        """Store the message and the lines for standard error."""
        super().__init__(message)
        self.asides = asides


class OutOfMemoryError(DpcalcError):
    """A computation that exceeded its memory limit (exit code 3); nothing is reported."""


def system_message(error: Exception) -> str:
    """Return the operating system's message for a file error, without errno and file name; else the error's text."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


NO_VERDICT_HINT = "no number was computed; DPCALC_TRACEBACK=1 shows where it happened"
"""Hint of exit code 3: the input is not at fault."""


def no_verdict_reason(error: Exception) -> tuple[str, str]:
    """Return (rule, sentence) for an exit without a verdict (code 3), by the type of the error."""
    match error:
        case ConvergenceError():
            return "DPC901", str(error)
        case OutOfTimeError():
            return "DPC902", str(error)
        case OutputError():
            return "DPC903", str(error)
        case OutOfMemoryError():
            return "DPC904", str(error)
        case MemoryError():
            return "DPC904", "no answer within the memory of this machine"
        case _:
            return "DPC999", f"internal error: {type(error).__name__}: {error}"


def diagnosis(error: Exception) -> tuple[str, int]:
    """Return (printable text, exit code) of an error: 2 for an InputError, 3 (no verdict) for any other."""
    if isinstance(error, InputError):
        located = hasattr(error, "diagnostics")  # a ConfigError says where, line by line
        return printable(str(error) if located else f"error: {error}"), FIX_INPUT
    rule, sentence = no_verdict_reason(error)
    hint = "" if isinstance(error, OutputError) else f"\n  = {NO_VERDICT_HINT}"
    return printable(f"error[{rule}]: {sentence}{hint}"), NO_VERDICT


def printable(text: str) -> str:
    """Return lines in which unprintable characters, and commands to a CI runner, are escaped."""
    lines = []
    for line in text.split("\n"):
        commands = {match.start() for match in LOG_COMMAND.finditer(line)}
        shown = (char if char.isprintable() else ascii(char)[1:-1] for char in line)
        lines.append("".join(f"\\x{ord(line[at]):02x}" if at in commands else each for at, each in enumerate(shown)))
    return "\n".join(lines)


def require_positive(name: str, value: float) -> None:
    """Raise InputError, naming the parameter, unless the value is a finite number > 0."""
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name}: expected a finite number > 0, got {value!r}")


def require_nonnegative(name: str, value: float) -> None:
    """Raise InputError, naming the parameter, unless the value is a finite number >= 0."""
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{name}: expected a finite number >= 0, got {value!r}")


def require_order(name: str, lower: float, upper: float) -> None:
    """Raise ConvergenceError if a data set costs more than an upper bound, beyond round-off: one of them is wrong."""
    if lower > upper * (1 + 1e-3) + 1e-6 * (name == "epsilon"):
        raise ConvergenceError(
            f"{name}: expected an upper bound above what an actual data set costs, got {upper:.6g} below {lower:.6g}; "
            "no number is reported, since one of the two is wrong: please report this run"
        )


def require_whole(name: str, value: object, expected: str = "a whole number >= 0") -> int:
    """Return an integer >= 0 of any integer type as int; InputError for any other value, also for 3.0 or True."""
    # True is 1 for `index`, and surely a mistake.
    try:
        number = -1 if isinstance(value, bool) else index(value)  # type: ignore[arg-type]  # what has no index is refused
    except TypeError:
        number = -1
    if number < 0:
        raise InputError(f"{name}: expected {expected}, got {value!r}")
    return number


def counted(number: int, noun: str, form: str = "") -> str:
    """Return a number with its noun, such as "1 step" or "2 steps"."""
    return f"{number:{form}} {noun}{'' if number == 1 else 's'}"


def one_of(name: str, words: Iterable[str], given: object, **meanings: str) -> InputError:
    """Return the error of a word that is none of those allowed, with the one that it means or is near to."""
    allowed = tuple(words)
    near = meanings.get(str(given)) or nearest(str(given), allowed)
    meant = f"; did you mean {near}?" if near else ""
    return InputError(f"{name}: expected one of {', '.join(allowed)}, got {given!r}{meant}")


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the word that is nearest to a misspelt one; "" if none is near."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word[:64], tuple(words), n=1)), "")


def listed(words: Sequence[str]) -> str:
    """Return one or more words as "a, b or c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
