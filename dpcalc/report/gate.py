"""The results of a gate and the ledger in every format of `--report`. A new one: a function, a line in REPORTS.

The lines are texts, so that the names are known to help and completion before any format is loaded.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree as ET

from dpcalc._version import __version__
from dpcalc.config.source import STDIN, Diagnostic, Severity, visible
from dpcalc.errors import counted
from dpcalc.gate.verdict import Result, Verdict, worst_verdict
from dpcalc.guarantee import CONDITIONAL
from dpcalc.records import dataclass
from dpcalc.report.guarantees import (
    assumes_rows,
    budget_json,
    budget_limit,
    budget_lines,
    budget_used,
    guarantee_headline,
    guarantee_lines,
    lower_row,
    protects_row,
)
from dpcalc.report.output import (
    Json,
    Output,
    as_given,
    before_and_after,
    config_json,
    diagnostics_json,
    json_document,
    lines,
    rounded_up,
)
from dpcalc.report.rules import RULES, rule_address

if TYPE_CHECKING:
    from dpcalc.gate.ledger import Account


@dataclass(frozen=True, kw_only=True)
class ReportFormat:
    """A format of `--report`; a new report may replace an earlier one, and no other file."""

    text: Callable[[GateAnswer], str]  # turns the answer of a gate into a report
    start: str = ""  # a pattern at the beginning of an earlier report
    end: str = ""  # or one at its end
    for_people: bool = False  # True if a terminal wraps and colours the report

    def is_report(self, start: str, end: str) -> bool:
        """Return True for an earlier report, by the beginning and the end of a file."""
        return bool((self.start and re.match(self.start, start)) or (self.end and re.search(self.end, end)))


# The result of a gate in every format of `--report`, a section and a function a format.
# Epsilons are rounded up, with more digits where a verdict is close.


NO_BUDGET = "no budget"
"""What stands in the place of `passed` where there is nothing to compare with."""
PAST_TENSES = {"check": "checked", "validate": "read", "diff": "compared", "lock": "read"}


@dataclass(frozen=True, kw_only=True)
class GateAnswer:
    """The answer of a gate, as each format gets it."""

    command: str  # `check`, `validate`, `diff` or `lock`
    results: Sequence[Result]  # one for each file, in the order given
    levels: Collection[Severity] = tuple(Severity)  # that formats for people show; machine formats have all
    locate: Callable[[str], str] = str  # gives a file's path from the top of the repository

    @property
    def verdict(self) -> Verdict:
        return worst_verdict(result.verdict for result in self.results)

    def shown(self, result: Result) -> list[Diagnostic]:
        return [finding for finding in result.findings if finding.severity in self.levels]

    def location(self, result: Result) -> str:
        return "" if result.path == STDIN else self.locate(result.path)

    def place(self, result: Result, finding: Diagnostic) -> tuple[str, int, int]:
        """Return file, line and column; the start of the judged file for a finding in a file that no finding names."""
        if finding.path == result.path:
            return self.location(result), finding.line or 1, finding.column or 1
        if any(finding.path == problem.path for problem in result.problems):
            return self.locate(finding.path), finding.line or 1, finding.column or 1
        return self.location(result), 1, 1

    def fingerprinted(self) -> Iterator[tuple[Result, Diagnostic, str]]:
        """Yield findings with fingerprints by rule, file and position, which edits above and other epsilons keep."""
        seen: Counter[tuple[str, str]] = Counter()
        for result in self.results:
            for finding in result.findings:
                rule_and_file = (finding.code, self.location(result))
                seen[rule_and_file] += 1
                text = f"{finding.code}\0{rule_and_file[1]}\0{seen[rule_and_file]}"
                yield result, finding, hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

    def is_without_budget(self, result: Result) -> bool:
        """Return True for a file that `check` passes only because nothing limits it."""
        return self.command == "check" and result.verdict is Verdict.PASSED and result.limit is None

    def word(self, verdict: Verdict) -> str:
        """Return a verdict as the command words it: `lock` compares with no budget, so that nothing passes there."""
        return "locked" if self.command == "lock" and verdict is Verdict.PASSED else str(verdict)

    def cells(self, result: Result) -> tuple[str, str, str, str]:
        """Return verdict, epsilon with its limit, part of the limit that is used, and path; "" for what is unknown."""
        verdict = NO_BUDGET if self.is_without_budget(result) else self.word(result.verdict)
        epsilon, used, limit = "", "", _limit(result)
        if result.guarantee is not None:
            value = result.guarantee.epsilon
            epsilon = f"epsilon {rounded_up(value, apart_from=limit)}" if math.isfinite(value) else "epsilon infinite"
            if limit is not None:
                epsilon += f" of {as_given(limit)}"
                used = budget_used(value, limit).removesuffix(" used") if math.isfinite(value) else ""
        return verdict, epsilon, used, visible(result.path)

    def head(self, result: Result) -> str:
        """Return the cells in a line, as they stand where there is no table."""
        *facts, path = self.cells(result)
        return f"{path}: {', '.join(filter(None, facts))}"

    def heads(self) -> Iterator[tuple[Result, str]]:
        """Yield each result with its cells in aligned columns."""
        table = list(map(self.cells, self.results))
        verdict, epsilon, used = (max((len(cells[at]) for cells in table), default=0) for at in range(3))
        for result, cells in zip(self.results, table, strict=True):
            parts = (cells[0].ljust(verdict), cells[1].ljust(epsilon), cells[2].rjust(used), cells[3])
            yield result, "  ".join(part for part in parts if part)

    def summary(self) -> str:
        """Return "checked 4 files: 1 failed, 2 passed, 1 without a budget, 3 warnings", the worst first."""
        counts = Counter(result.verdict for result in self.results)
        unlimited = sum(map(self.is_without_budget, self.results))
        counts[Verdict.PASSED] -= unlimited
        warnings = sum(each.severity is Severity.WARNING for result in self.results for each in result.findings)
        words = [f"{counts[verdict]} {self.word(verdict)}" for verdict in reversed(Verdict) if counts[verdict]]
        words += [f"{unlimited} without a budget"] if unlimited else []
        words += [counted(warnings, "warning")] if warnings else []
        files = f"{PAST_TENSES[self.command]} {counted(len(self.results), 'file')}"
        return f"{files}: {', '.join(words)}" if words else files


def _limit(result: Result) -> float | None:
    return None if result.limit is None else result.limit.value


def _details(result: Result) -> list[str]:
    """Return indented lines on the changes since the base, or on why there is nothing to compare with (DPC406).

    Then what the answer rests on: defaults that no launch overrides (DPC212), another file as the base (DPC410), noise
    that a library found.
    """
    without_base = [f"  {each.message}" for each in result.problems if each.code == "DPC406"]
    base, guarantee = result.base, result.guarantee
    claims = [f"  {each.message}" for each in result.findings if each.code in {"DPC212", "DPC410"}]
    costs = (each.guarantee if each else None for each in (result, base))
    notes = dict.fromkeys(note for cost in costs if cost for note in cost.notes)
    claims += [f"  {visible(note)}" for note in notes if note.startswith(CONDITIONAL)]
    if without_base or base is None or guarantee is None:
        return without_base + claims
    before, now = base.guarantee.epsilon, guarantee.epsilon
    if not base.changes and before == now:
        return claims
    moved = f"stays {rounded_up(now)}" if now == before else before_and_after(before, now)
    lines = [f"  epsilon {moved} since {visible(base.name)}"]
    for change, alone in base.changes:
        shown = visible(str(change))
        if alone is not None:
            shown += f" (alone: epsilon {'stays' if alone == before else before_and_after(before, alone)})"
        lines.append(f"  {shown}")
    return lines + claims


# Text for people: with the lines of the file that findings stand in, or a line a finding.


def gate_text(gate: GateAnswer) -> str:
    lines = []
    for result, head in gate.heads():
        lines += [head, *_details(result), *(finding.format() for finding in gate.shown(result))]
    return "".join(f"{line}\n" for line in [*lines, gate.summary()])


def concise_text(gate: GateAnswer) -> str:
    """Return each visible finding as `path:line:column: level[code]: message (hint)`, then the counts of verdicts."""
    lines = []
    for finding in (finding for result in gate.results for finding in gate.shown(result)):
        place = "" if finding.line is None else f":{finding.line}:{finding.column}"
        hint = f" ({finding.hint})" if finding.hint else ""
        lines.append(f"{visible(finding.path)}{place}: {finding.severity}[{finding.code}]: {finding.message}{hint}")
    return "".join(f"{line}\n" for line in [*lines, gate.summary()])


# The last line counts verdicts ("checked 3 files: ..."), as no config and no lock file ends.
_LOG = r"(?:\A|\n)(?:checked|read|compared) \d+ files?(?:: [^\n]*)?\n?\Z"
TEXT = ReportFormat(text=gate_text, end=_LOG, for_people=True)
CONCISE = ReportFormat(text=concise_text, end=_LOG, for_people=True)


# JSON, every number in full


def gate_json(gate: GateAnswer) -> str:
    """Return a JSON document with `results`, one for each file, and `verdict`, the worst one."""
    results: list[Json] = []
    for result in gate.results:
        guarantee, base = result.guarantee, result.base
        changes = []
        for change, alone in () if base is None else base.changes:
            line, column = change.mark or (None, None)
            changes.append(
                {
                    "key": change.key,
                    "old": change.old,
                    "new": change.new,
                    "epsilon": alone,
                    "finite": None if alone is None else math.isfinite(alone),
                    "path": change.path,
                    "line": line,
                    "column": column,
                }
            )
        results.append(
            {
                "path": result.path,
                "verdict": str(result.verdict),
                "guarantee": None if guarantee is None else guarantee.to_dict(),
                "budget": None if guarantee is None else budget_json(guarantee.epsilon, _limit(result)),
                "base": None if base is None else {"name": base.name, "guarantee": base.guarantee.to_dict()},
                "changes": changes,
                "fits": {"noise_multiplier": None, "noise_factor": None, "steps": None, **result.fits},
                "findings": diagnostics_json(result.findings),
            }
        )
    return json_document(gate.command, {"results": results, "verdict": str(gate.verdict)})


JSON = ReportFormat(text=gate_json, start=r'\{\s*"schema":\s*"dpcalc\.result/')  # in any version


# Markdown: the summary of a CI step, or a comment on a pull request.
#
# Text that comes from a file stands in code blocks, where it makes no link, image or mention.

MAX_CELL = 200  # characters of a name or a change in the table; below it they are whole
MAX_FILES = 50  # largest number of files whose findings are written out: a step summary may hold 1 MiB


def markdown_text(gate: GateAnswer) -> str:
    """Return verdict, table of files, and a code block for each of the first 50 files with changes or findings.

    comment/comment.py knows the head and the rows by their form.
    """

    def fence(shown: str) -> str:
        """Return more backticks than stand together anywhere in a text: no text of a file can close such a fence."""
        return "`" * max(3, 1 + max((len(run) for run in re.findall("`+", shown)), default=0))

    def code(text: str) -> str:
        """Return code in a cell, which no backtick ends, and no bar, which splits cells in code too."""
        return f"`{visible(text).replace('`', chr(39)).replace('|', '¦')[:MAX_CELL]}`"

    rows, blocks = [], []
    for result in gate.results:
        guarantee, limit, base = result.guarantee, _limit(result), result.base
        verdict = NO_BUDGET if gate.is_without_budget(result) else str(result.verdict)
        before = "" if base is None else rounded_up(base.guarantee.epsilon)
        epsilon = "" if guarantee is None else rounded_up(guarantee.epsilon, apart_from=limit)
        budget = "" if limit is None or guarantee is None else as_given(limit)
        causes = sorted({each.code for each in result.findings if each.severity is Severity.ERROR})
        causes = [f"[{each}]({rule_address(each)})" if rule_address(each) else each for each in causes]
        if base is not None and base.changes:  # the costliest first
            causes.append(code(str(base.changes[0][0])))
            causes += [f"and {len(base.changes) - 1} more"] if base.changes[1:] else []
        cells = (code(result.path), verdict, before, epsilon, budget, ", ".join(causes))
        rows.append(f"| {' | '.join(cells)} |")
        texts = [*_details(result), *(finding.format() for finding in gate.shown(result))]
        if texts:
            block = "\n".join([gate.head(result), *texts])
            blocks.append((f"{fence(block)}text", block, fence(block), ""))
    parts = [f"**dpcalc {gate.command}: {gate.verdict}**, {gate.summary()}", ""]
    if rows:
        parts += ["| config | verdict | before | after | budget | cause |", f"|{' --- |' * 6}", *rows, ""]
    for block_lines in blocks[:MAX_FILES]:
        parts += block_lines
    if len(blocks) > MAX_FILES:
        parts += [f"and {len(blocks) - MAX_FILES} more files with findings", ""]
    return "\n".join(parts)


MARKDOWN = ReportFormat(text=markdown_text, start=r"\*\*dpcalc \w+: ")


# Workflow commands of GitHub Actions: annotations on the lines of a pull request.
#
# Source: docs.github.com, "Workflow commands for GitHub Actions": `::error file=...,line=...,col=...,title=...::text`,
# percent, carriage return and line feed escaped everywhere, colon and comma in properties too.

MAX_ANNOTATIONS = 10
"""Largest number of annotations of one level that GitHub shows for a step."""
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def github_commands(gate: GateAnswer) -> str:
    """Return ten annotations of a level at most (GitHub drops others silently: the tenth counts them), then text."""

    def escaped(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    lines = []
    for level, command in _COMMANDS.items():
        found = [(result, finding) for result in gate.results for finding in gate.shown(result)]
        found = [pair for pair in found if pair[1].severity is level]
        shown = found if len(found) <= MAX_ANNOTATIONS else found[: MAX_ANNOTATIONS - 1]
        for result, finding in shown:
            rule = RULES.get(finding.code)
            properties = {"title": f"{finding.code} {rule.title}" if rule else finding.code}
            location, line, column = gate.place(result, finding)
            if location:  # there is no place for standard input
                properties = {"file": visible(location), "line": str(line), "col": str(column), **properties}
            values = ",".join(
                f"{name}={escaped(value).replace(':', '%3A').replace(',', '%2C')}" for name, value in properties.items()
            )
            hint = f"\n{finding.hint}" if finding.hint else ""
            lines.append(f"::{command} {values}::{escaped(finding.message + hint)}\n")
        if len(found) > len(shown):
            lines.append(f"::{command}::{len(found) - len(shown)} more, see the log or the summary of this step\n")
    return "".join(lines) + gate_text(gate)


GITHUB = ReportFormat(text=github_commands, end=_LOG)


# A code quality report of GitLab.
#
# Source: docs.gitlab.com, "Code Quality": a list of objects with description, check_name, fingerprint, severity and
# location.

_GITLAB_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def gitlab_json(gate: GateAnswer) -> str:
    """Return all findings as a JSON list; "critical" is an error in an undecided file."""
    # GitLab tells new findings from old ones by the fingerprint: were a line number in it, a shifted line would be new.
    entries = []
    for result, finding, fingerprint in gate.fingerprinted():
        location, line, _ = gate.place(result, finding)
        hint = f" ({finding.hint})" if finding.hint else ""
        # Without a verdict nothing is known of the run, which is worse than a budget that is exceeded.
        is_critical = finding.severity is Severity.ERROR and result.verdict is Verdict.UNDECIDED
        entries.append(
            {
                "description": f"{finding.message}{hint}",
                "check_name": finding.code,
                "fingerprint": fingerprint,
                "severity": "critical" if is_critical else _GITLAB_SEVERITIES[finding.severity],
                "location": {"path": visible(location or "stdin"), "lines": {"begin": line}},
            }
        )
    return json.dumps(entries, indent=2) + "\n"


# A list, maybe empty, of objects with a rule of ours as `check_name`.
_ENTRIES = r'\[\s*\{\s*(?="(?:description|check_name)": ")(?s:.*)"check_name": "DPC\d{3}"'
GITLAB = ReportFormat(text=gitlab_json, start=rf"\s*\[\]\s*\Z|{_ENTRIES}")


# JUnit XML: one test case a file.
#
# Source: the schema `junit-10.xsd` of the xUnit plugin of Jenkins.

_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'


def junit_xml(gate: GateAnswer) -> str:
    """Return JUnit XML with a test case for each file, in which invalid and undecided files are errors."""

    def xml_text(text: str) -> str:
        # ElementTree escapes markup; characters that XML cannot hold at all are up to us. `visible` leaves U+FFFE and
        # U+FFFF, which XML 1.0 has on no plane, for a terminal shows them.
        return "\n".join(
            "".join(char if ord(char) & 0xFFFE != 0xFFFE else f"\\U{ord(char):08x}" for char in visible(line))
            for line in text.split("\n")
        )

    # JUnit knows two ways not to pass: a failure is an answer, an error is the lack of one.
    kinds = {Verdict.FAILED: "failure", Verdict.INVALID: "error", Verdict.UNDECIDED: "error"}
    found = Counter(kinds.get(result.verdict, "") for result in gate.results)
    counts = {"tests": str(len(gate.results)), "failures": str(found["failure"]), "errors": str(found["error"])}
    suites = ET.Element("testsuites", {"name": "dpcalc", **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": f"dpcalc {gate.command}", **counts})
    for result in gate.results:
        names = {"name": xml_text(visible(result.path)), "classname": f"dpcalc.{gate.command}"}
        case = ET.SubElement(suite, "testcase", names)
        texts = [finding.format() for finding in gate.shown(result)]
        if result.verdict in kinds:
            # The attributes are one line of an overview: the first error, or else warning, stands for all findings.
            levels = (Severity.ERROR, Severity.WARNING)
            causes = [each for level in levels for each in result.findings if each.severity is level]
            cause = {"type": causes[0].code, "message": xml_text(causes[0].message)} if causes else {}
            ET.SubElement(case, kinds[result.verdict], cause).text = xml_text("\n".join(texts))
        lines = [gate.head(result), *_details(result), *texts]
        ET.SubElement(case, "system-out").text = xml_text("\n".join(lines))
    ET.indent(suites)
    return f"{_XML}{ET.tostring(suites, encoding='unicode')}\n"


JUNIT = ReportFormat(text=junit_xml, start=re.escape(f'{_XML}<testsuites name="dpcalc" '))


# SARIF 2.1.0, for code scanning.
#
# Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0"; GitHub's "SARIF support for code
# scanning": an alert shows in a pull request where its line was changed, so that findings of a comparison stand at
# the changed key. In messages a backslash escapes brackets (3.11.6), and braces are doubled (3.11.5).

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif_json(gate: GateAnswer) -> str:
    """Return all findings as SARIF, marked as an unsuccessful run if there is no verdict."""

    def message(text: str) -> dict[str, str]:
        """Return a text in which no `[name](url)` is a link and no `{0}` a placeholder."""
        return {"text": re.sub(r"[\\\[\]]", r"\\\g<0>", text).replace("{", "{{").replace("}", "}}")}

    codes = sorted({finding.code for result in gate.results for finding in result.findings})
    rules, results = [], []
    for code in codes:
        rule = RULES[code]
        rules.append(
            {
                **({"helpUri": rule_address(code)} if rule_address(code) else {}),
                "id": code,
                # Without blanks, as SARIF asks for; the title is for people.
                "name": rule.title.title().replace(" ", "").replace("-", ""),
                "shortDescription": message(rule.title),
                "fullDescription": message(rule.rule),
                "help": message(f"{rule.reason}\n\n{rule.fix}"),
            }
        )
    for result, finding, fingerprint in gate.fingerprinted():
        location, line, column = gate.place(result, finding)
        hint = f"\n{finding.hint}" if finding.hint else ""
        # A file name is bytes: those that are no UTF-8 are surrogates, which `quote` would refuse.
        uri = quote(location or "stdin", errors="surrogatepass")
        place = {
            "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": line, "startColumn": column},
        }
        results.append(
            {
                "ruleId": finding.code,
                "ruleIndex": codes.index(finding.code),
                "level": str(finding.severity),  # error, warning and note, as here
                "message": message(f"{finding.message}{hint}"),
                "locations": [{"physicalLocation": place}],
                "partialFingerprints": {"dpcalc/v1": fingerprint},
            }
        )
    run = {
        "tool": {"driver": {"name": "dpcalc", "version": __version__, "rules": rules}},
        "invocations": [{"executionSuccessful": gate.verdict is not Verdict.UNDECIDED}],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


# Its first run is of a tool named dpcalc.
_HEAD = r'\{\s*"\$schema":\s*"[^"]*sarif[^"]*",\s*"version":\s*"2\.1\.0",\s*'
_RUN = r'"runs":\s*\[\s*\{\s*"tool":\s*\{\s*"driver":\s*\{\s*"name":\s*"dpcalc"'
SARIF = ReportFormat(text=sarif_json, start=_HEAD + _RUN)


REPORTS = {
    "text": TEXT,
    "concise": CONCISE,
    "json": JSON,
    "github": GITHUB,
    "gitlab": GITLAB,
    "junit": JUNIT,
    "sarif": SARIF,
    "markdown": MARKDOWN,
}
"""Formats of `--report` by name."""


# The results of `ledger show` and `ledger add`.


def ledger_output(account: Account, *, is_added: bool | None = None) -> Output:
    """Return the runs alone and composed, with their sum; of `ledger add` (`is_added` or not) the new one alone."""
    from dpcalc.planner.words import assumptions

    plan = account.loaded.plan
    guarantee = account.guarantee
    limit = budget_limit(account.loaded.plan)
    runs, run_lines, run_rows = [], list[tuple[str, str]](), []
    label = "run" if is_added is None else "added" if is_added else "not added"
    for name, part, steps, alone in account.runs:
        runs.append({"name": name, "part": part or None, "steps": steps, "guarantee": alone.to_dict()})
        cost = f"epsilon {rounded_up(alone.epsilon)}" if alone.finite else "no finite epsilon"
        shown = f"{visible(name)}{f' (part {visible(part)})' if part else ''}"
        run_lines.append(("runs", f"{shown}: {counted(steps, 'step')}, {cost} alone"))
        run_rows.append((label, f"{shown}: {counted(steps, 'step', ',')}, {cost} alone"))
    assumed = list(assumptions(plan))
    added: Json = {} if is_added is None else {"added": is_added}
    sums: Json = {}
    if is_added is None:
        total = math.fsum(alone.epsilon for *_, alone in account.runs)  # of basic composition, for the sum of deltas
        sums = {"sum_of_epsilons": total}
        run_rows.append(("sum", f"{rounded_up(total)}, if epsilons were added up"))
    headline, verdict = guarantee_headline(guarantee, limit)
    return Output(
        command="ledger show" if is_added is None else "ledger add",
        result={
            "config": config_json(account.loaded),
            **added,
            "runs": runs,
            "guarantee": guarantee.to_dict(),
            "steps": plan.steps,
            **sums,
            "budget": budget_json(guarantee.epsilon, limit),
            "assumptions": assumed,
            "config_hash": account.loaded.config_hash,
        },
        headline=headline,
        verdict=verdict,
        lines=[
            *run_lines,
            *lines(added),
            *guarantee_lines(guarantee, limit),
            ("steps", str(plan.steps)),
            *lines({"assumptions": assumed}),
            *lines(sums, sum_of_epsilons=rounded_up),
            *budget_lines(guarantee.epsilon, limit),
        ],
        rows=[
            lower_row(guarantee),
            *run_rows,
            protects_row(guarantee.unit, guarantee.group_size, guarantee.adjacency),
            *assumes_rows(assumed),
        ],
    )
