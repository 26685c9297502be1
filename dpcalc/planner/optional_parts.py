"""Parts of an answer beside the guarantee: one that cannot be computed is left out and named, the guarantee stays."""

import warnings
from collections.abc import Callable
from typing import TypeVar

from dpcalc.errors import ConvergenceError, InputError, OutOfTimeError, TooLargeError
from dpcalc.work import SECOND, allowance

Part = TypeVar("Part")
Absent = TypeVar("Absent")

FAILURES = (InputError, ArithmeticError, MemoryError, RecursionError)
"""What a computation may end with on a valid plan: ConvergenceError is an ArithmeticError, UnsupportedError an
InputError. Anything else is a defect of dpcalc."""


class DefectWarning(RuntimeWarning):
    """A defect of dpcalc in a part of an answer that could be left out; please report it."""


PART = 1.0 * SECOND
"""Work that a part of an answer may take beside the guarantee: together with the guarantee's it stays below 10 s."""


def optional(
    name: str, compute: Callable[[], Part], absent: Absent, *, units: float = PART
) -> tuple[Part | Absent, str]:
    """Return (part, "") or (`absent`, why it is missing) on any failure; a defect warns, OutOfTimeError passes.

    Args:
        name: of the part, for the sentence that says that it is missing.
        compute: what returns the part.
        absent: what stands in its place where it fails.
        units: of work that it may take.

    Returns:
        (the part, ""), or (what stands in its place, a sentence that says what is missing and why).

    Raises:
        OutOfTimeError: the time allowed for the whole answer is over.

    Warns:
        DefectWarning: the part failed with an error that only a defect can cause. Tests turn warnings into errors.
    """
    try:
        with allowance(units):
            return compute(), ""
    except OutOfTimeError:
        raise
    except FAILURES as error:
        return absent, f"{name} is missing: {_reason(error)}"
    except Exception as error:  # noqa: BLE001  a defect in a part does not take away what is certified
        text = f"{name} is missing: internal error: {type(error).__name__}: {error}"
        warnings.warn(text, DefectWarning, stacklevel=2)
        return absent, text


def _reason(error: Exception) -> str:
    """Return the words for a failure that is no defect."""
    match error:
        case TooLargeError():
            return "it needs more work or memory than one answer may take"
        case ConvergenceError():
            return "its computation did not reach a certified number"
        case InputError():
            return "it is not defined for this run"
        case MemoryError():
            return "there is not enough memory"
        case _:
            return f"its numbers leave the range of floats ({type(error).__name__})"
