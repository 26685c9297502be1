"""Results of the gate in words, drawn by every format of `--report`, and as JSON; `ledger`; the text of a lock file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dpcalc.config.source import STDIN, Diagnostic, Severity, visible
from dpcalc.gate.lock import VERSION, Lock, LockEntry
from dpcalc.gate.verdict import BaseCost, Problem, Result, Verdict, worst_verdict
from dpcalc.records import dataclass
from dpcalc.report.findings import before_and_after_text, change_text, problem_hint, problem_sentence
from dpcalc.report.formats import ReportFormat
from dpcalc.report.guarantees import budget_json, budget_used
from dpcalc.report.output import Json, diagnostics_json, json_document
from dpcalc.report.rounding import BARE_DIGITS, as_given, rounded_up

VERDICT_WORDS = {("lock", Verdict.PASSED): "locked"}
"""Verdicts that a command words differently: `lock` compares with no budget, so that nothing passes there."""
NO_BUDGET = "no budget"
"""What stands in the place of `passed` where there is nothing to compare with."""
PAST_TENSES = {"check": "checked", "validate": "read", "diff": "compared", "lock": "read"}


class Place(NamedTuple):
    """A place for a report: file from the top of the repository ("" for standard input), line and column from 1."""

    location: str
    line: int
    column: int


@dataclass(frozen=True, kw_only=True)
class FileView:
    """The result of one file in words.

    Attributes:
        location: the file from the top of the repository, for reports; "" for standard input.
        summary: the verdict in one line.
        details: lines on the changes since the base; () without a base.
        findings: those of the gate first, then those of the config layer.
        result: the result, unrounded.
        elsewhere: locations of other files that findings stand in, by their paths.
    """

    location: str
    summary: str
    details: tuple[str, ...]
    findings: tuple[Diagnostic, ...]
    result: Result
    elsewhere: Mapping[str, str]

    def place(self, finding: Diagnostic) -> Place:
        """Return a finding's place in this file or in `elsewhere`; if it is in neither, the start of this file."""
        locations = {**self.elsewhere, self.result.path: self.location}
        if finding.path not in locations:
            return Place(self.location, 1, 1)
        return Place(locations[finding.path], finding.line or 1, finding.column or 1)


@dataclass(frozen=True, kw_only=True)
class GateView:
    """The results of all files in words.

    Attributes:
        command: `check`, `validate`, `diff` or `lock`.
        files: one for each file, in the order given.
        verdict: the worst verdict of the files.
        summary: the number of files with each verdict, in one line.
        levels: levels of findings that formats for people show; machine formats have all.
    """

    command: str
    files: tuple[FileView, ...]
    verdict: Verdict
    summary: str
    levels: frozenset[Severity]

    def visible_findings(self, file: FileView) -> list[Diagnostic]:
        """Return the findings of a file that formats for people show, in their order."""
        return [finding for finding in file.findings if finding.severity in self.levels]


def gate_view(
    command: str, results: Sequence[Result], *, levels: Iterable[Severity], locate: Callable[[str], str] = str
) -> GateView:
    """Return the results of all files in words, in the order given, and their worst verdict (`passed` for no file).

    The view; epsilons rounded up, with more digits where the verdict is close.
    """
    return GateView(
        command=command,
        files=tuple(_file_view(command, result, locate) for result in results),
        verdict=worst_verdict(result.verdict for result in results),
        summary=f"{PAST_TENSES[command]} {_verdict_counts(command, results)}",
        levels=frozenset(levels),
    )


class TrackedFinding(NamedTuple):
    """A finding, its file, and a fingerprint by which a service tells it from new ones."""

    file: FileView
    finding: Diagnostic
    fingerprint: str


def tracked_findings(view: GateView) -> Iterator[TrackedFinding]:
    """Yield each finding with a fingerprint of its rule, file, and position among the file's findings of this rule."""
    seen: Counter[tuple[str, str]] = Counter()
    for file in view.files:
        for finding in file.findings:
            rule_and_file = (finding.code, file.location)
            seen[rule_and_file] += 1
            yield TrackedFinding(file, finding, _fingerprint(*rule_and_file, seen[rule_and_file]))


def _fingerprint(rule_code: str, location: str, number: int) -> str:
    """Return the SHA-256 in hex of a rule, a file and the number (from 1) of a finding of this rule in this file."""
    # Without its line and message: an edit above a finding, or another epsilon in it, does not make it a new one.
    return hashlib.sha256(f"{rule_code}\0{location}\0{number}".encode(errors="surrogatepass")).hexdigest()


def _verdict_counts(command: str, results: Sequence[Result]) -> str:
    """Return "4 files: 1 failed, 2 passed, 1 without a budget, 3 warnings", the worst first; "0 files" alone."""
    counts = Counter(result.verdict for result in results)
    unlimited = sum(is_without_budget(command, result) for result in results)
    counts[Verdict.PASSED] -= unlimited
    levels = [each.severity for result in results for each in result.problems]
    levels += [each.severity for result in results for each in result.diagnostics]
    warnings = levels.count(Severity.WARNING)
    files = f"{len(results)} file{'' if len(results) == 1 else 's'}"
    words = [f"{counts[verdict]} {_verdict_word(command, verdict)}" for verdict in reversed(Verdict) if counts[verdict]]
    words += [f"{unlimited} without a budget"] if unlimited else []
    words += [f"{warnings} warning{'' if warnings == 1 else 's'}"] if warnings else []
    return f"{files}: {', '.join(words)}" if words else files


def is_without_budget(command: str, result: Result) -> bool:
    """Return True for a file that `check` passes only because nothing limits it."""
    return command == "check" and result.verdict is Verdict.PASSED and result.limit is None


def _file_view(command: str, result: Result, locate: Callable[[str], str]) -> FileView:
    """Return one file's result in words, with the gate's findings before the config's; stdin has the location ""."""
    problems = [_problem_diagnostic(problem, result) for problem in result.problems]
    return FileView(
        location="" if result.path == STDIN else locate(result.path),
        summary=f"{visible(result.path)}: {_verdict_text(command, result)}",
        details=comparison_lines(result),
        findings=(*problems, *result.diagnostics),
        result=result,
        elsewhere={each.elsewhere: locate(each.elsewhere) for each in result.problems if each.elsewhere},
    )


def _verdict_word(command: str, verdict: Verdict) -> str:
    """Return a verdict as the command words it: "locked" for what passes in `lock`, else its own name."""
    return VERDICT_WORDS.get((command, verdict), str(verdict))


def _verdict_text(command: str, result: Result) -> str:
    """Return the verdict in the words of the command, then epsilon and its limit unless there is no guarantee."""
    word = NO_BUDGET if is_without_budget(command, result) else _verdict_word(command, result.verdict)
    if result.guarantee is None:
        return word
    return f"{word}, {_epsilon_and_limit_text(result.guarantee.epsilon, _limit_value(result))}"


def _epsilon_and_limit_text(epsilon: float, limit: float | None) -> str:
    """Return "epsilon X of LIMIT, N% used", "epsilon X", or "epsilon infinite"."""
    if not math.isfinite(epsilon):
        return "epsilon infinite"
    text = f"epsilon {rounded_up(epsilon, apart_from=limit)}"
    if limit is not None:
        return f"{text} of {as_given(limit)}, {budget_used(epsilon, limit)}"
    return text


def _limit_value(result: Result) -> float | None:
    """Return the largest epsilon that passes, None without a limit."""
    return None if result.limit is None else result.limit.value


def _problem_diagnostic(problem: Problem, result: Result) -> Diagnostic:
    """Return a finding of the gate as a Diagnostic with its sentence, its hint and its place."""
    line, column = problem.mark or (None, None)
    return Diagnostic(
        code=problem.code,
        severity=problem.severity,
        message=problem_sentence(problem, result),
        hint=problem_hint(problem, result),
        path=problem.elsewhere or result.path,
        line=line,
        column=column,
    )


def comparison_lines(result: Result) -> tuple[str, ...]:
    """Return indented lines on the changes since the base, or on why there is nothing to compare with (DPC406)."""
    without_base = tuple(f"  {visible(each.detail)}" for each in result.problems if each.code == "DPC406")
    if without_base or result.base is None or result.guarantee is None:
        return without_base
    return _change_lines(result.base, result.guarantee.epsilon)


def _change_lines(base: BaseCost, now: float) -> tuple[str, ...]:
    """Return a line on how epsilon changed since the base and one line for each change; () if nothing changed."""
    before = base.guarantee.epsilon
    if not base.changes and before == now:
        return ()
    moved = f"stays {rounded_up(now)}" if now == before else before_and_after_text(before, now)
    changes = (f"  {visible(change_text(change))}{_alone_text(before, change.alone)}" for change in base.changes)
    return (f"  epsilon {moved} since {visible(base.name)}", *changes)


def _alone_text(before: float, alone: float | None) -> str:
    """Return " (alone: epsilon A -> B)", or " (alone: epsilon stays)" if both are equal, or "" if `alone` is None."""
    if alone is None:
        return ""
    return f" (alone: epsilon {'stays' if alone == before else before_and_after_text(before, alone)})"


# The report as JSON, every number in full


def gate_json(view: GateView) -> str:
    """Return a JSON document with `results`, one for each file, and `verdict`, the worst one."""
    return json_document(view.command, {"results": list(map(_file_json, view.files)), "verdict": str(view.verdict)})


def _file_json(file: FileView) -> Json:
    """Return one file for JSON; guarantee, budget and base are None if it has none."""
    result = file.result
    guarantee, base = result.guarantee, result.base
    changes = []
    for change in () if base is None else base.changes:
        line, column = change.mark or (None, None)
        changes.append(
            {
                "key": change.key,
                "old": change.old,
                "new": change.new,
                "epsilon": change.alone,
                "finite": None if change.alone is None else math.isfinite(change.alone),
                "path": change.elsewhere or result.path,
                "line": line,
                "column": column,
            }
        )
    return {
        "path": result.path,
        "verdict": str(result.verdict),
        "guarantee": None if guarantee is None else guarantee.to_dict(),
        "budget": None if guarantee is None else budget_json(guarantee.epsilon, _limit_value(result)),
        "base": None if base is None else {"name": base.name, "guarantee": base.guarantee.to_dict()},
        "changes": changes,
        "fits": dataclasses.asdict(result.fits),
        "findings": diagnostics_json(file.findings),
    }


def _is_report(start: str, _: str) -> bool:
    """Return True for a text that begins as a JSON object with a `schema` of "dpcalc.result/" in any version."""
    return re.match(r'\{\s*"schema":\s*"dpcalc\.result/', start) is not None


JSON = ReportFormat(text=gate_json, is_report=_is_report)


# The text of a lock file


def lock_text(lock: Lock) -> str:
    """Return the content of `dpcalc.lock`: JSON of its entries sorted by path, epsilons rounded up to six digits."""
    configs = {name: _entry_fields(lock.entries[name]) for name in sorted(lock.entries)}
    return json.dumps({"version": VERSION, "configs": configs}, indent=2, allow_nan=False) + "\n"


def _entry_fields(entry: LockEntry) -> dict[str, object]:
    """Return a lock entry as a dict: epsilon rounded up to six digits, None if infinite; `sources` only if known."""
    finite = math.isfinite(entry.epsilon)
    return {
        "config_hash": entry.config_hash,
        "epsilon": float(rounded_up(entry.epsilon, digits=BARE_DIGITS)) if finite else None,
        "delta": entry.delta,
        "unit": entry.unit,
        "adjacency": entry.adjacency,
        "group_size": entry.group_size,
        **({} if entry.sources is None else {"sources": dict(entry.sources)}),
    }
