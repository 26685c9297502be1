"""Results of the gate in words, drawn by every format of `--report`, and as JSON; `ledger`; the text of a lock file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dpcalc.config.source import STDIN, Diagnostic, Severity, visible
from dpcalc.gate.diff import NOT_SET
from dpcalc.gate.lock import VERSION, Lock, LockEntry
from dpcalc.gate.verdict import Change, Fits, Problem, Result, Verdict, worst_verdict
from dpcalc.guarantee import Guarantee
from dpcalc.records import dataclass
from dpcalc.report.fields import Field, Fields, Output, Section, diagnostic_fields, json_only, terminal_only
from dpcalc.report.formats import ReportFormat
from dpcalc.report.guarantees import (
    assumptions_field,
    budget_field,
    budget_limit,
    budget_used,
    guarantee_field,
    guarantee_headline,
    protects_row,
)
from dpcalc.report.rounding import BARE_DIGITS, as_given, percent_up, rounded_down, rounded_up

if TYPE_CHECKING:  # `check` needs no ledger
    from dpcalc.gate.ledger import Account, Run

VERDICT_WORDS = {("lock", Verdict.PASSED): "locked"}
"""Verdicts that a command words differently: `lock` compares with no budget, so that nothing passes there."""
PAST_TENSES = {"check": "checked", "validate": "read", "diff": "compared", "lock": "read"}


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

    def place(self, finding: Diagnostic) -> tuple[str, int, int]:
        """Return (location, line, column), 1 where a finding has none; (this file, 1, 1) for one in an unknown file."""
        if finding.path == self.result.path:
            return self.location, finding.line or 1, finding.column or 1
        if finding.path in self.elsewhere:
            return self.elsewhere[finding.path], finding.line or 1, finding.column or 1
        return self.location, 1, 1


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
    """Return the results of all files in words, in the order given; the verdict is the worst, `passed` for no file.

    Args:
        command: `check`, `validate`, `diff` or `lock`.
        results: one for each file.
        levels: levels of findings that formats for people show.
        locate: turns a path, as the user gave it, into one from the top of the repository.

    Returns:
        The view; epsilons rounded up, with more digits where the verdict is close.
    """
    return GateView(
        command=command,
        files=tuple(_file_view(command, result, locate) for result in results),
        verdict=worst_verdict(result.verdict for result in results),
        summary=f"{PAST_TENSES[command]} {_verdict_counts(command, results)}",
        levels=frozenset(levels),
    )


def finding_fingerprints(view: GateView) -> Iterator[tuple[FileView, Diagnostic, str]]:
    """Yield (file, finding, SHA-256 in hex of rule, file and running number of the rule in the file) of every finding.

    The count is that of the findings of the rule in the file so far, so that a fingerprint stays the same when lines
    and numbers change.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for file in view.files:
        for finding in file.findings:
            seen[finding.code, file.location] += 1
            subject = f"{finding.code}\0{file.location}\0{seen[finding.code, file.location]}"
            yield file, finding, hashlib.sha256(subject.encode(errors="surrogatepass")).hexdigest()


def _verdict_counts(command: str, results: Sequence[Result]) -> str:
    """Return "3 files: 1 failed, 2 passed", the worst verdict first."""
    counts = Counter(result.verdict for result in results)
    files = f"{len(results)} file{'' if len(results) == 1 else 's'}"
    words = [f"{counts[verdict]} {_verdict_word(command, verdict)}" for verdict in reversed(Verdict) if counts[verdict]]
    return f"{files}: {', '.join(words)}" if words else files


def _file_view(command: str, result: Result, locate: Callable[[str], str]) -> FileView:
    """Return one file's result in words, the gate's findings before the config's; `locate` maps paths, stdin is ""."""
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
    """Return "VERDICT, epsilon X of LIMIT, N% used" as far as known; "epsilon infinite"; "no budget" in `check`."""
    guarantee, limit, word = result.guarantee, result.limit, _verdict_word(command, result.verdict)
    if guarantee is None:
        return word
    if not guarantee.finite:
        return f"{word}, epsilon infinite"
    epsilon = rounded_up(guarantee.epsilon, apart_from=None if limit is None else limit.value)
    if limit is None:
        return f"{word}, epsilon {epsilon}{', no budget' if command == 'check' else ''}"
    return f"{word}, epsilon {epsilon} of {as_given(limit.value)}, {budget_used(guarantee.epsilon, limit.value)}"


def _problem_diagnostic(problem: Problem, result: Result) -> Diagnostic:
    """Return a finding of the gate as a diagnostic, its sentence and hint in words, in its own file or the config."""
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


# Findings of the gate as sentences, by rule

FIT_DIGITS = 4  # significant digits of a suggested noise multiplier, rounded up so that the next check passes


def problem_sentence(problem: Problem, result: Result) -> str:
    """Return the sentence of a finding's rule, `detail` for a rule without; numbers rounded up, but still apart.

    Args:
        problem: the finding; its `detail` is the message of rules that are not in `_SENTENCES`.
        result: result of the file that it is in.
    """
    wording = _SENTENCES.get(problem.code)
    return problem.detail if wording is None else wording(problem, result)


def problem_hint(problem: Problem, result: Result) -> str:
    """Return the way out of a finding, "" for none; of DPC205 and DPC301 the noise or steps that fit, if known.

    Args:
        problem: the finding.
        result: result of the file that it is in.
    """
    if problem.code in {"DPC205", "DPC301"} and result.fits != Fits():
        return f"to fit: {_fits_text(result.fits)}"
    return problem.hint


def _fits_text(fits: Fits) -> str:
    """Return the changes that would keep to the limit: "noise_multiplier >= X or steps <= N"; X rounded up; or ""."""
    texts = []
    if fits.noise_multiplier is not None:
        texts.append(f"noise_multiplier >= {rounded_up(fits.noise_multiplier, digits=FIT_DIGITS)}")
    if fits.noise_factor is not None:
        texts.append(f"noise_multiplier of every phase times {rounded_up(fits.noise_factor, digits=FIT_DIGITS)}")
    if fits.steps is not None:
        texts.append(f"steps <= {fits.steps}")
    return " or ".join(texts)


def comparison_lines(result: Result) -> tuple[str, ...]:
    """Return lines on epsilon and each change since the base, or on why it is not known; () if nothing changed."""
    base, now = result.base, result.guarantee
    without_base = tuple(f"  {visible(each.detail)}" for each in result.problems if each.code == "DPC406")
    if without_base:
        return without_base
    if base is None or now is None or not (base.changes or base.guarantee.epsilon != now.epsilon):
        return ()
    before = base.guarantee.epsilon
    moved = f"stays {rounded_up(now.epsilon)}" if now.epsilon == before else _from_to(before, now.epsilon)
    lines = [f"  epsilon {moved} since {visible(base.name)}"]
    lines += [f"  {_change_text(change, before)}" for change in base.changes]
    return tuple(lines)


def _change_text(change: Change, before: float) -> str:
    """Return "KEY: OLD -> NEW" and, if known, "(alone: epsilon A -> B)", the base with this change alone."""
    text = visible(f"{change.key}: {change.old or NOT_SET} -> {change.new or NOT_SET}")
    if change.alone is None:
        return text
    if change.alone == before:
        return f"{text} (alone: epsilon stays)"
    return f"{text} (alone: epsilon {_from_to(before, change.alone)})"


def _from_to(before: float, after: float) -> str:
    """Return two bounds as "A -> B", rounded up, with as many digits as show which is larger."""
    return f"{rounded_up(before, apart_from=after)} -> {rounded_up(after, apart_from=before)}"


def _claim_text(guarantee: Guarantee) -> str:
    """Return protected unit and delta of an epsilon in parentheses."""
    return f"(unit {guarantee.unit}, delta {as_given(guarantee.delta)})"


def _no_bound_text(problem: Problem, result: Result) -> str:
    """Return the message of DPC205: there is no finite epsilon; the finding's detail where there is no guarantee."""
    return problem.detail if result.guarantee is None else f"there is no finite epsilon {_claim_text(result.guarantee)}"


def _over_budget_text(problem: Problem, result: Result) -> str:
    """Return DPC301's message: epsilon X exceeds the limit; `problem.detail` without a guarantee or limit."""
    guarantee, limit = result.guarantee, result.limit
    if guarantee is None or limit is None:
        return problem.detail
    name = "the budget" if limit.source == "budget.epsilon" else limit.source
    epsilon = rounded_up(guarantee.epsilon, apart_from=limit.value)
    return f"epsilon {epsilon} exceeds {name} {as_given(limit.value)} {_claim_text(guarantee)}"


def _near_budget_text(problem: Problem, result: Result) -> str:
    """Return DPC302's message: the percent of the limit used; `problem.detail` without a guarantee or limit."""
    guarantee, limit, (share,) = result.guarantee, result.limit, problem.numbers
    if guarantee is None or limit is None:
        return problem.detail
    used = percent_up(guarantee.epsilon, limit.value)
    return f"{used}% of {limit.source} {as_given(limit.value)} is used; a warning was asked for above {share:g}%"


def _raised_budget_text(problem: Problem, result: Result) -> str:
    """Return the message of DPC303: the limit before and now (infinite: it is gone), from `problem.numbers`."""
    del result
    before, after = problem.numbers
    now = f"is now {as_given(after)}" if math.isfinite(after) else "is gone"
    return f"{problem.detail} was {as_given(before)} and {now}"


def _no_budget_text(problem: Problem, result: Result) -> str:
    """Return the message of DPC304: no budget is stated."""
    del problem, result
    return "no budget.epsilon: nothing says what this run may cost"


def _rise_text(problem: Problem, result: Result) -> str:
    """Return the message of DPC401: epsilon before and now, and the change that raises it most."""
    before, after = problem.numbers
    return f"epsilon rises, {_from_to(before, after)}{_cause_text(result)}"


def _large_rise_text(problem: Problem, result: Result) -> str:
    """Return DPC402's message: numbers (before, after, allowed), the rise in percent, the change that raises most."""
    before, after, allowed = problem.numbers
    by = f" by {percent_up(after - before, before)}%" if before and math.isfinite(after) else ""
    limit = f"{problem.detail} allows {as_given(allowed)}"
    return f"epsilon rises{by}, {_from_to(before, after)}; {limit}{_cause_text(result)}"


def _cause_text(result: Result) -> str:
    """Return " (KEY: OLD -> NEW)" of the change that alone raises epsilon most; "" if none does."""
    changes = () if result.base is None else result.base.changes  # the largest rise first
    rises = [each for each in changes if result.base and each.alone and each.alone > result.base.guarantee.epsilon]
    return f" ({rises[0].key}: {rises[0].old or NOT_SET} -> {rises[0].new or NOT_SET})" if rises else ""


def _lock_text(problem: Problem, result: Result) -> str:
    """Return DPC403's message: `problem.detail`; with one number "epsilon is X", with two unequal ones "A -> B"."""
    del result
    match problem.numbers:
        case (now,):
            return f"{problem.detail}; epsilon is {rounded_up(now)}"
        case (before, after) if before != after:
            return f"{problem.detail}: epsilon {_from_to(before, after)}"
        case _:
            return problem.detail


def _no_verdict_text(problem: Problem, result: Result) -> str:
    """Return DPC901's message: numbers (lower, upper, limit), `detail` the accountant; without numbers the detail."""
    del result
    if not problem.numbers:
        return problem.detail
    lower, upper, limit = problem.numbers
    name = problem.detail.upper()
    interval = f"epsilon lies between {rounded_down(lower)} and {rounded_up(upper)} ({name})"
    return f"{interval}, so it is not known whether it exceeds {as_given(limit)}; the PLD accountant has no answer"


def _claim_change_text(problem: Problem, result: Result) -> str:
    """Return DPC405's message: numbers (before, now), a third if only with other changes epsilon falls; or unknown."""
    del result
    hint = "make sure that the training code changed with it"
    if not problem.numbers:
        return f"{problem.detail} changes an assumption, and what it does alone is not known; {hint}"
    before, now, *alone = problem.numbers
    how = "with the other changes" if alone else "alone"  # alone it is then no lower
    return f"{problem.detail} {how} lowers epsilon, {_from_to(before, now)}; {hint}"


_SENTENCES: dict[str, Callable[[Problem, Result], str]] = {
    "DPC205": _no_bound_text,
    "DPC301": _over_budget_text,
    "DPC302": _near_budget_text,
    "DPC303": _raised_budget_text,
    "DPC304": _no_budget_text,
    "DPC401": _rise_text,
    "DPC402": _large_rise_text,
    "DPC403": _lock_text,
    "DPC405": _claim_change_text,
    "DPC901": _no_verdict_text,
}


# The report as JSON, every number in full


def gate_json(view: GateView) -> str:
    """Return the results of a gate as one JSON document: each file's guarantee, budget, changes, fits and findings."""
    fields = (
        json_only("results", [_file_fields(file) for file in view.files]),
        json_only("verdict", str(view.verdict)),
    )
    return Output(command=view.command, fields=fields).json_text()


def _file_fields(file: FileView) -> Fields:
    """Return the result of one file, unrounded; None for guarantee, budget or base that is not known."""
    result = file.result
    guarantee, base = result.guarantee, result.base
    limit = None if result.limit is None else result.limit.value
    changes = [] if base is None else [_change_fields(change, result.path) for change in base.changes]
    return (
        Field("path", result.path),
        Field("verdict", str(result.verdict)),
        Field("guarantee", None if guarantee is None else guarantee.to_dict()),
        Field("budget", None if guarantee is None else budget_field(guarantee.epsilon, limit).value),
        Field("base", None if base is None else {"name": base.name, "guarantee": base.guarantee.to_dict()}),
        Field("changes", changes),
        Field("fits", dataclasses.asdict(result.fits)),
        Field("findings", diagnostic_fields(file.findings)),
    )


def _change_fields(change: Change, path: str) -> Fields:
    """Return one difference from the base; `epsilon` is that of the base with this change alone, None if unknown."""
    line, column = change.mark or (None, None)
    return (
        Field("key", change.key),
        Field("old", change.old),
        Field("new", change.new),
        Field("epsilon", change.alone),
        Field("finite", None if change.alone is None else math.isfinite(change.alone)),
        Field("path", change.elsewhere or path),
        Field("line", line),
        Field("column", column),
    )


def _is_report(_: str, content: object) -> bool:
    """Return True for a result of dpcalc: `schema` "dpcalc.result/..." of any version, and a `command`."""
    match content:
        case {"schema": str(schema), "command": str()}:
            return schema.startswith("dpcalc.result/")
    return False


JSON = ReportFormat(text=gate_json, is_report=_is_report)


# The result of `ledger`, and the text of a lock file


def ledger_output(command: str, account: Account, *, added: bool | None = None) -> Output:
    """Return the result of `ledger show` (with the sum of epsilons) or `ledger add`: runs alone, and all composed.

    Args:
        command: "ledger show" or "ledger add".
        account: the ledger, composed.
        added: True or False if `ledger add` added a run or not; None for `ledger show`.

    Returns:
        Upper bounds rounded up, lower bounds down.
    """
    from dpcalc.planner.words import assumptions  # noqa: PLC0415  loads accountants, which `check` leaves to its workers

    plan, guarantee, limit = account.loaded.plan, account.guarantee, budget_limit(account.loaded.plan)
    runs = [
        {"name": run.name, "part": run.part or None, "steps": run.steps, "guarantee": run.guarantee.to_dict()}
        for run in account.runs
    ]
    total = math.fsum(run.guarantee.epsilon for run in account.runs)  # of basic composition, for the sum of the deltas
    sum_text = f"{rounded_up(total)}, if epsilons were added up" if added is None else ""
    sum_field = Field("sum_of_epsilons", total, rounding=rounded_up, section=Section.BUDGET)
    return Output(
        command=command,
        headline=guarantee_headline(guarantee, limit),
        fields=(
            Field("config", (json_only("path", account.loaded.path), json_only("name", plan.name))),
            *(() if added is None else (Field("added", added, section=Section.UNIT),)),
            Field(
                "runs",
                runs,
                plain=tuple(_run_text(run, str(run.steps)) for run in account.runs),
                label="run" if added is None else "added" if added else "not added",
                row=tuple(_run_text(run, f"{run.steps:,}") for run in account.runs),
                section=Section.RUN,
            ),
            terminal_only("sum", sum_text, Section.RUN),
            guarantee_field(guarantee, limit),
            protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
            Field("steps", plan.steps, section=Section.TRAINING),
            *((sum_field,) if added is None else ()),
            budget_field(guarantee.epsilon, limit),
            assumptions_field(assumptions(plan)),
            json_only("config_hash", account.loaded.config_hash),
        ),
    )


def _run_text(run: Run, steps: str) -> str:
    """Return "NAME (part P): STEPS steps, epsilon X alone", rounded up, or "no finite epsilon" for infinity."""
    cost = f"epsilon {rounded_up(run.guarantee.epsilon)}" if run.guarantee.finite else "no finite epsilon"
    part = f" (part {visible(run.part)})" if run.part else ""
    return f"{visible(run.name)}{part}: {steps} {'step' if run.steps == 1 else 'steps'}, {cost} alone"


def lock_text(lock: Lock) -> str:
    """Return the content of `dpcalc.lock`: JSON in the order of paths, epsilons rounded up to six digits."""
    configs = {name: _entry_fields(lock.entries[name]) for name in sorted(lock.entries)}
    return json.dumps({"version": VERSION, "configs": configs}, indent=2, allow_nan=False) + "\n"


def _entry_fields(entry: LockEntry) -> dict[str, object]:
    """Return a lock entry as a dict, epsilon rounded up to six digits, None if infinite; no `sources` if None."""
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
