"""Results of a gate: a verdict on each file, with the findings, costs and suggestions behind it."""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum

from dpcalc.config.edit import Difference
from dpcalc.config.source import ConfigError, Diagnostic, Severity
from dpcalc.errors import NO_VERDICT_HINT, InputError, no_verdict_reason
from dpcalc.guarantee import Guarantee
from dpcalc.records import dataclass


class Verdict(StrEnum):
    """The answers of a gate, from best to worst; `undecided`: nothing converged, time ran out, dpcalc has a defect."""

    PASSED = "passed"
    FAILED = "failed"
    INVALID = "invalid"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A largest value that passes, and the key or option that states it: `budget.epsilon` or `--max-epsilon`."""

    value: float
    source: str


@dataclass(frozen=True, kw_only=True)
class BaseCost:
    """The base of a config, a revision or file: its upper bound, and the changes, the largest epsilon first.

    A change is a difference with epsilon of the base with nothing but this changed, a claim one about the data with
    epsilon of the config with the old claim; both are upper bounds, None if unknown.
    """

    name: str
    guarantee: Guarantee
    changes: tuple[tuple[Difference, float | None], ...] = ()
    claims: tuple[tuple[Difference, float | None], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result for one file.

    `path` is as the user gave it, `<stdin>` for standard input. `problems` are findings of the gate, `diagnostics` of
    the config layer: an error stands behind every verdict but `passed`. `fits` has values that would keep the config
    within its limit, everything else unchanged, None if unknown: the smallest `noise_multiplier`, or the smallest
    common `noise_factor` for several phases, and the most `steps`. `cause` is the exception behind no answer.
    """

    path: str
    verdict: Verdict
    guarantee: Guarantee | None = None
    limit: Limit | None = None
    problems: tuple[Diagnostic, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    base: BaseCost | None = None
    fits: Mapping[str, float | None] = field(default_factory=dict)
    cause: Exception | None = None

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        return (*self.problems, *self.diagnostics)


def finding(
    code: str, severity: Severity, message: str, path: str, mark: tuple[int, int] | None = None, hint: str = ""
) -> Diagnostic:
    """Return a finding of the gate at a place of a file, without the line itself; no mark for the whole file."""
    line, column = mark or (None, None)
    return Diagnostic(code=code, severity=severity, message=message, hint=hint, path=path, line=line, column=column)


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of several verdicts; `passed` for none."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.PASSED)


def verdict_on(findings: Iterable[Diagnostic], *, strict: bool = False) -> Verdict:
    """Return `failed` for an error of gate or config layer, if `strict` also for a warning, else `passed`."""
    failing = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return Verdict.PASSED if failing.isdisjoint(each.severity for each in findings) else Verdict.FAILED


def error_result(path: str, error: Exception) -> Result:
    """Return the result of a file that raised: `invalid` for ConfigError and InputError, else `undecided`."""
    shown = "<stdin>" if path == "-" else path
    if isinstance(error, ConfigError):
        return Result(path=shown, verdict=Verdict.INVALID, diagnostics=error.diagnostics, cause=error)
    verdict, code, message, hint = Verdict.INVALID, "DPC104", str(error), ""
    if not isinstance(error, InputError):
        verdict, (code, message), hint = Verdict.UNDECIDED, no_verdict_reason(error), NO_VERDICT_HINT
    problem = finding(code, Severity.ERROR, message, shown, hint=hint)
    return Result(path=shown, verdict=verdict, problems=(problem,), cause=error)
