"""What a gate says of a file: a verdict, and what led to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from dpcalc.config.diagnostics import ConfigError, Diagnostic, Severity
from dpcalc.errors import ConvergenceError, InputError
from dpcalc.guarantee import Guarantee


class Verdict(StrEnum):
    """The answers of a gate, from best to worst.

    Attributes:
        PASSED: every question has the answer yes.
        FAILED: the answer is no.
        INVALID: the input must be fixed before there is a question.
        UNDECIDED: there is no answer: a computation did not converge, or a defect of dpcalc.
    """

    PASSED = "passed"
    FAILED = "failed"
    INVALID = "invalid"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What epsilon is compared with.

    Attributes:
        epsilon: the largest that passes.
        source: where it comes from, in the user's words: `budget.epsilon` or `--max-epsilon`.
    """

    epsilon: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing a gate found, beside what the config layer found.

    Attributes:
        code: the rule, e.g. "DPC301".
        severity: an error stands behind every verdict but `passed`.
        mark: line and column in the file, from 1, or None.
        detail: one sentence for rules without a sentence of their own.
        hint: what to do, or "".
    """

    code: str
    severity: Severity
    mark: tuple[int, int] | None = None
    detail: str = ""
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What is known of one file.

    Attributes:
        path: as the user gave it; `<stdin>` for standard input.
        verdict: of this file.
        guarantee: what the plan costs, or None where that is not known or was not asked.
        limit: what it was compared with, or None.
        problems: what the gate found.
        diagnostics: what the config layer found.
        cause: the exception behind a missing answer, or None.
    """

    path: str
    verdict: Verdict
    guarantee: Guarantee | None = None
    limit: Limit | None = None
    problems: tuple[Problem, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    cause: Exception | None = None


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of several files: the worst of theirs; of none, `passed`."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.PASSED)


def stopped(path: str, error: Exception) -> Result:
    """The result of a file whose question ended in an exception: never `passed`, never `failed`."""
    shown = "<stdin>" if path == "-" else path
    hint = "no number was computed; DPCALC_TRACEBACK=1 shows where it happened"
    match error:
        case ConfigError():
            return Result(path=shown, verdict=Verdict.INVALID, diagnostics=error.diagnostics, cause=error)
        case InputError():
            verdict, code, detail, hint = Verdict.INVALID, "DPC104", str(error), ""
        case ConvergenceError():
            verdict, code, detail = Verdict.UNDECIDED, "DPC901", str(error)
        case _:
            verdict, code, detail = Verdict.UNDECIDED, "DPC999", f"internal error: {type(error).__name__}: {error}"
    problem = Problem(code=code, severity=Severity.ERROR, detail=detail, hint=hint)
    return Result(path=shown, verdict=verdict, problems=(problem,), cause=error)
