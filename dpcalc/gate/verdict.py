"""Results of a gate: a verdict on each file, with the problems, costs and suggestions behind it."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum

from dpcalc.config.source import ConfigError, Diagnostic, Severity
from dpcalc.errors import NO_VERDICT_HINT, InputError, no_verdict_reason
from dpcalc.guarantee import Guarantee
from dpcalc.records import dataclass


class Verdict(StrEnum):
    """The answers of a gate, from best to worst.

    Attributes:
        PASSED: every requirement is met.
        FAILED: a requirement is not met.
        INVALID: the input must be fixed first.
        UNDECIDED: there is no answer: a computation did not converge or took too long, or dpcalc has a defect.
    """

    PASSED = "passed"
    FAILED = "failed"
    INVALID = "invalid"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A largest value that passes, with its source.

    Attributes:
        value: the largest that passes.
        source: key or option that states it: `budget.epsilon` or `--max-epsilon`.
    """

    value: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A finding of the gate, beside those of the config layer.

    Attributes:
        code: the rule, e.g. "DPC301".
        severity: an error stands behind every verdict but `passed`.
        mark: line and column, from 1, or None.
        elsewhere: path of the file that `mark` is in; "" for the config itself.
        detail: the sentence of a rule that has no fixed one, else the subject of that sentence.
        numbers: unrounded, by name, for the sentence; its function in `dpcalc.report.findings` says which there are.
        hint: the way out, or "".
    """

    code: str
    severity: Severity
    mark: tuple[int, int] | None = None
    elsewhere: str = ""
    detail: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A part of a config that differs from the base.

    Attributes:
        key: dotted, as the file writes it.
        old: value in the base, "" for none.
        new: value in the config, "" for none.
        mark: line and column, or None.
        elsewhere: path of the file that `mark` is in; "" for the config itself.
        alone: epsilon of the base with nothing but this changed, an upper bound; None where that is not known.
    """

    key: str
    old: str
    new: str
    mark: tuple[int, int] | None = None
    elsewhere: str = ""
    alone: float | None = None


@dataclass(frozen=True, kw_only=True)
class BaseCost:
    """The base of a config: its cost, and the effect of each change.

    Attributes:
        name: revision or file of the base.
        guarantee: its upper bound.
        changes: the changes, the largest epsilon first.
        without: by the key of each changed claim about the data, the epsilon of the config with the old claim, an upper
            bound; None if unknown.
    """

    name: str
    guarantee: Guarantee
    changes: tuple[Change, ...] = ()
    without: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Fits:
    """Values that would keep a config within its limit, everything else unchanged.

    Attributes:
        noise_multiplier: the smallest that fits, or None if unknown.
        noise_factor: the smallest common factor for the noise of several phases, or None.
        steps: the most that fit, or None.
    """

    noise_multiplier: float | None = None
    noise_factor: float | None = None
    steps: int | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result for one file.

    Attributes:
        path: as the user gave it; `<stdin>` for standard input.
        verdict: of this file.
        guarantee: upper bound of the plan, or None if not computed.
        limit: the limit that epsilon was compared with, or None.
        problems: findings of the gate.
        diagnostics: findings of the config layer.
        base: cost of the base, or None.
        fits: suggestions that would keep to the limit.
        cause: the exception behind a missing answer, or None.
    """

    path: str
    verdict: Verdict
    guarantee: Guarantee | None = None
    limit: Limit | None = None
    problems: tuple[Problem, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    base: BaseCost | None = None
    fits: Fits = Fits()
    cause: Exception | None = None


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of several verdicts; `passed` for none."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.PASSED)


def error_result(path: str, error: Exception) -> Result:
    """Return the result of a file that raised: `invalid` for ConfigError and InputError, else `undecided`."""
    shown = "<stdin>" if path == "-" else path
    match error:
        case ConfigError():
            return Result(path=shown, verdict=Verdict.INVALID, diagnostics=error.diagnostics, cause=error)
        case InputError():
            verdict, code, detail, hint = Verdict.INVALID, "DPC104", str(error), ""
        case _:
            verdict, (code, detail), hint = Verdict.UNDECIDED, no_verdict_reason(error), NO_VERDICT_HINT
    problem = Problem(code=code, severity=Severity.ERROR, detail=detail, hint=hint)
    return Result(path=shown, verdict=verdict, problems=(problem,), cause=error)
