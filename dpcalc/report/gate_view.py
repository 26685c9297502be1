"""The results of a gate as rows of text, made once and drawn by every report format."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpcalc.config.diagnostics import Diagnostic, Severity, visible
from dpcalc.gate.verdict import Limit, Problem, Result, Verdict, worst
from dpcalc.guarantee import Guarantee
from dpcalc.report.rounding import as_given, rounded_up
from dpcalc.report.view import used


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding in one file, in words.

    Attributes:
        code: the rule.
        level: error, warning or note.
        message: one sentence.
        hint: what to do, or "".
        path: the file, or the option, that it is about.
        line: in the file, from 1, or None.
        column: in the line, from 1, or None.
        text: the finding as people read it: place, level, code, sentence, and the line of the file if that helps.
    """

    code: str
    level: Severity
    message: str
    hint: str
    path: str
    line: int | None
    column: int | None
    text: str


@dataclass(frozen=True, kw_only=True)
class FileView:
    """One file, in words.

    Attributes:
        path: as the user gave it, unchanged.
        verdict: of this file.
        summary: the verdict in one line.
        findings: those of the gate first, then those of the config layer.
        guarantee: unrounded, or None.
        limit: unrounded, or None.
    """

    path: str
    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...]
    guarantee: Guarantee | None
    limit: Limit | None


@dataclass(frozen=True, kw_only=True)
class GateView:
    """A whole run of a gate, in words.

    Attributes:
        command: `check` or `validate`.
        files: in the order given.
        verdict: the worst of theirs.
        summary: the run in one line.
        levels: findings that people see; machine formats hold all.
    """

    command: str
    files: tuple[FileView, ...]
    verdict: Verdict
    summary: str
    levels: frozenset[Severity]


def gate_view(command: str, results: Sequence[Result], *, levels: Iterable[Severity]) -> GateView:
    """The rows of a run.

    Args:
        command: `check` or `validate`.
        results: one a file.
        levels: findings that people see.

    Returns:
        The view; epsilons rounded up, with more digits where the verdict is close.
    """
    done = "checked" if command == "check" else "read"
    return GateView(
        command=command,
        files=tuple(_file(result) for result in results),
        verdict=worst(result.verdict for result in results),
        summary=f"{done} {_counted(results)}",
        levels=frozenset(levels),
    )


def findings(diagnostics: Iterable[Diagnostic]) -> tuple[Finding, ...]:
    """What the config layer found, in words."""
    return tuple(
        Finding(
            code=diagnostic.code,
            level=diagnostic.severity,
            message=diagnostic.message,
            hint=diagnostic.hint,
            path=diagnostic.path,
            line=diagnostic.line,
            column=diagnostic.column,
            text=diagnostic.format(),
        )
        for diagnostic in diagnostics
    )


def _counted(results: Sequence[Result]) -> str:
    """How many files have which verdict, worst first."""
    counts = Counter(result.verdict for result in results)
    files = f"{len(results)} file{'' if len(results) == 1 else 's'}"
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in reversed(Verdict) if counts[verdict])
    return f"{files}: {parts}" if parts else files


def _file(result: Result) -> FileView:
    """The rows of one file."""
    by_gate = [_diagnosed(problem, result) for problem in result.problems]
    return FileView(
        path=result.path,
        verdict=result.verdict,
        summary=f"{visible(result.path)}: {_summary(result)}",
        findings=findings([*by_gate, *result.diagnostics]),
        guarantee=result.guarantee,
        limit=result.limit,
    )


def _summary(result: Result) -> str:
    """The verdict on a file with the number behind it."""
    guarantee, limit = result.guarantee, result.limit
    if guarantee is None:
        return str(result.verdict)
    if not guarantee.finite:
        return f"{result.verdict}, epsilon infinite"
    epsilon = rounded_up(guarantee.epsilon, apart_from=None if limit is None else limit.epsilon)
    if limit is None:
        return f"{result.verdict}, epsilon {epsilon}, no budget"
    return f"{result.verdict}, epsilon {epsilon} of {as_given(limit.epsilon)}, {used(guarantee.epsilon, limit.epsilon)}"


def _diagnosed(problem: Problem, result: Result) -> Diagnostic:
    """A finding of the gate, in the form of those of the config layer."""
    line, column = problem.mark or (None, None)
    return Diagnostic(
        code=problem.code,
        severity=problem.severity,
        message=_message(problem, result),
        hint=problem.hint,
        path=result.path,
        line=line,
        column=column,
    )


def _message(problem: Problem, result: Result) -> str:
    """The sentence of a rule."""
    guarantee, limit = result.guarantee, result.limit
    if problem.code == "DPC304":
        return "no budget.epsilon: nothing says what this run may cost"
    if guarantee is None:
        return problem.detail
    asked = f"(unit {guarantee.unit}, delta {as_given(guarantee.delta)})"
    if problem.code == "DPC205":
        return f"there is no finite epsilon {asked}"
    if problem.code == "DPC301" and limit is not None:
        name = "the budget" if limit.source == "budget.epsilon" else limit.source
        epsilon = rounded_up(guarantee.epsilon, apart_from=limit.epsilon)
        return f"epsilon {epsilon} exceeds {name} {as_given(limit.epsilon)} {asked}"
    return problem.detail
