"""The results of a gate as rows of text, made once and drawn by every report format."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpcalc.config.diagnostics import Diagnostic, Severity, visible
from dpcalc.config.source import STDIN
from dpcalc.gate.verdict import Problem, Result, Verdict, worst
from dpcalc.report.rounding import as_given, rounded_up
from dpcalc.report.sentences import advice, comparison_lines, sentence
from dpcalc.report.view import used

WORDS = {("lock", Verdict.PASSED): "locked"}
"""Verdicts in the words of a command; `lock` compares with no budget, so that nothing passes there."""
DONE = {"check": "checked", "validate": "read", "diff": "compared", "lock": "read"}


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
        location: from the top of the repository, for readers elsewhere; "" for standard input.
        verdict: of this file.
        summary: the verdict in one line.
        details: what changed against a base, line by line.
        findings: those of the gate first, then those of the config layer.
        result: unrounded.
        elsewhere: locations of other files that findings stand in, by their paths.
    """

    path: str
    location: str
    verdict: Verdict
    summary: str
    details: tuple[str, ...]
    findings: tuple[Finding, ...]
    result: Result
    elsewhere: Mapping[str, str]

    def place(self, finding: Finding) -> tuple[str, int, int]:
        """Location, line and column of a finding, for readers that need all three: the first line where it has none."""
        if finding.path == self.path:
            return self.location, finding.line or 1, finding.column or 1
        if finding.path in self.elsewhere:
            return self.elsewhere[finding.path], finding.line or 1, finding.column or 1
        return self.location, 1, 1


@dataclass(frozen=True, kw_only=True)
class GateView:
    """A whole run of a gate, in words.

    Attributes:
        command: `check`, `validate`, `diff` or `lock`.
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


def gate_view(
    command: str, results: Sequence[Result], *, levels: Iterable[Severity], locate: Callable[[str], str] = str
) -> GateView:
    """The rows of a run.

    Args:
        command: `check`, `validate`, `diff` or `lock`.
        results: one a file.
        levels: findings that people see.
        locate: a path, as the user gave it, from the top of the repository.

    Returns:
        The view; epsilons rounded up, with more digits where the verdict is close.
    """
    return GateView(
        command=command,
        files=tuple(_file(command, result, locate) for result in results),
        verdict=worst(result.verdict for result in results),
        summary=f"{DONE[command]} {_counted(command, results)}",
        levels=frozenset(levels),
    )


def told(view: GateView) -> Iterator[tuple[FileView, Finding, str]]:
    """Every finding with its file and a name that it keeps while lines and numbers around it change.

    Args:
        view: the run.

    Yields:
        File, finding, and the digest of rule, file and how many of that rule came before.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for file in view.files:
        for finding in file.findings:
            seen[finding.code, file.location] += 1
            subject = f"{finding.code}\0{file.location}\0{seen[finding.code, file.location]}"
            yield file, finding, hashlib.sha256(subject.encode(errors="surrogatepass")).hexdigest()


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


def _counted(command: str, results: Sequence[Result]) -> str:
    """How many files have which verdict, worst first."""
    counts = Counter(result.verdict for result in results)
    files = f"{len(results)} file{'' if len(results) == 1 else 's'}"
    told = [(counts[verdict], _word(command, verdict)) for verdict in reversed(Verdict) if counts[verdict]]
    parts = ", ".join(f"{count} {word}" for count, word in told)
    return f"{files}: {parts}" if parts else files


def _file(command: str, result: Result, locate: Callable[[str], str]) -> FileView:
    """The rows of one file."""
    by_gate = [_diagnosed(problem, result) for problem in result.problems]
    return FileView(
        path=result.path,
        location="" if result.path == STDIN else locate(result.path),
        verdict=result.verdict,
        summary=f"{visible(result.path)}: {_summary(command, result)}",
        details=comparison_lines(result),
        findings=findings([*by_gate, *result.diagnostics]),
        result=result,
        elsewhere={one.elsewhere: locate(one.elsewhere) for one in result.problems if one.elsewhere},
    )


def _word(command: str, verdict: Verdict) -> str:
    """Return a verdict as a command puts it."""
    return WORDS.get((command, verdict), str(verdict))


def _summary(command: str, result: Result) -> str:
    """The verdict on a file with the number behind it."""
    guarantee, limit, word = result.guarantee, result.limit, _word(command, result.verdict)
    if guarantee is None:
        return word
    if not guarantee.finite:
        return f"{word}, epsilon infinite"
    epsilon = rounded_up(guarantee.epsilon, apart_from=None if limit is None else limit.value)
    if limit is None:
        return f"{word}, epsilon {epsilon}{', no budget' if command == 'check' else ''}"
    return f"{word}, epsilon {epsilon} of {as_given(limit.value)}, {used(guarantee.epsilon, limit.value)}"


def _diagnosed(problem: Problem, result: Result) -> Diagnostic:
    """A finding of the gate, in the form of those of the config layer."""
    line, column = problem.mark or (None, None)
    return Diagnostic(
        code=problem.code,
        severity=problem.severity,
        message=sentence(problem, result),
        hint=advice(problem, result),
        path=problem.elsewhere or result.path,
        line=line,
        column=column,
    )
