"""Reports of a gate, a section a format: text for people, Markdown, GitHub, GitLab, JUnit and SARIF."""

import json
import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote
from xml.etree import ElementTree as ET

from dpcalc._version import __version__
from dpcalc.config.source import Diagnostic, Severity, visible
from dpcalc.gate.verdict import Verdict
from dpcalc.report.formats import ReportFormat
from dpcalc.report.gate import NO_BUDGET, FileView, GateView, Place, TrackedFinding, is_without_budget, tracked_findings
from dpcalc.report.rounding import as_given, rounded_up
from dpcalc.report.rules import RULES

# Text for people: with the lines of the file that findings stand in, or a line a finding.

# Recognises an earlier report, which a new one may replace. A config or a lock file has no such last line.
_LAST_LINE = re.compile(r"(?:\A|\n)(?:checked|read|compared) \d+ files?(?:: [^\n]*)?\n?\Z")


def gate_lines(view: GateView) -> str:
    """Return the verdict, changes and visible findings of each file as lines, then a line that counts the verdicts."""
    lines: list[str] = []
    for file in view.files:
        lines += [file.summary, *file.details, *(finding.format() for finding in view.visible_findings(file))]
    return "".join(f"{line}\n" for line in [*lines, view.summary])


def concise_lines(view: GateView) -> str:
    """Return each visible finding as `path:line:column: level[code]: message`, then the counts of verdicts."""
    lines = [_finding_line(finding) for file in view.files for finding in view.visible_findings(file)]
    return "".join(f"{line}\n" for line in [*lines, view.summary])


def _finding_line(finding: Diagnostic) -> str:
    """Return "PATH:LINE:COLUMN: LEVEL[CODE]: MESSAGE (HINT)", without the place or the hint that a finding lacks."""
    place = "" if finding.line is None else f":{finding.line}:{finding.column}"
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{visible(finding.path)}{place}: {finding.severity}[{finding.code}]: {finding.message}{hint}"


def is_log(_: str, end: str) -> bool:
    """Return True if the last line counts verdicts ("checked 3 files: ..."), as text reports of a gate end."""
    return _LAST_LINE.search(end) is not None


TEXT = ReportFormat(text=gate_lines, is_report=is_log, for_people=True)
CONCISE = ReportFormat(text=concise_lines, is_report=is_log, for_people=True)


# The result of a gate as Markdown: the summary of a CI step, or a comment on a pull request.
#
# Text that comes from a file stands in code blocks, where it makes no link, image or mention.

MAX_FILES = 50  # largest number of files whose findings are written out: a step summary may hold 1 MiB


def markdown_text(view: GateView) -> str:
    """Return verdict, table of files, and a code block for each of the first 50 files with changes or findings."""
    rows = [f"| {_inline_code(file.result.path)} | {' | '.join(_result_cells(view, file))} |" for file in view.files]
    parts = [f"**dpcalc {view.command}: {view.verdict}**, {view.summary}", ""]
    if rows:
        parts += ["| config | verdict | epsilon | budget |", "| --- | --- | --- | --- |", *rows, ""]
    blocks = [lines for file in view.files if (lines := _finding_lines(view, file))]
    for lines in blocks[:MAX_FILES]:
        parts += [*_code_block(lines), ""]
    if len(blocks) > MAX_FILES:
        parts += [f"and {len(blocks) - MAX_FILES} more files with findings", ""]
    return "\n".join(parts)


def _result_cells(view: GateView, file: FileView) -> tuple[str, str, str]:
    """Return (verdict, epsilon rounded up, limit) of a file; without a guarantee or a limit the latter are ""."""
    result, guarantee = file.result, file.result.guarantee
    if guarantee is None:
        return str(result.verdict), "", ""
    limit = None if result.limit is None else result.limit.value
    epsilon = rounded_up(guarantee.epsilon, apart_from=limit)
    verdict = NO_BUDGET if is_without_budget(view.command, result) else str(result.verdict)
    return verdict, epsilon, "" if limit is None else as_given(limit)


def _finding_lines(view: GateView, file: FileView) -> list[str]:
    """Return verdict, changes and visible findings of a file; [] if it has neither changes nor findings."""
    texts = [finding.format() for finding in view.visible_findings(file)]
    return [file.summary, *file.details, *texts] if texts or file.details else []


def _code_block(lines: list[str]) -> list[str]:
    """Return lines as a Markdown code block, in a fence longer than any run of backticks in them."""
    text = "\n".join(lines)
    # No text of a file can close such a fence, and so leave the block.
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return [f"{fence}text", text, fence]


def _inline_code(text: str) -> str:
    """Return a text as inline Markdown code that is safe in a table cell, whatever bars or backticks it has."""
    # A bar ends the cell even in code.
    shown = visible(text).replace("|", "\\|")
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    edge = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{edge}{shown}{edge}{ticks}"


def _is_markdown(start: str, _: str) -> bool:
    """Return True if a text begins with the verdict of a dpcalc command in bold."""
    return re.match(r"\*\*dpcalc \w+: ", start) is not None


MARKDOWN = ReportFormat(text=markdown_text, is_report=_is_markdown)


# Findings as workflow commands of GitHub Actions: annotations on the lines of a pull request.
#
# Source: docs.github.com, "Workflow commands for GitHub Actions": `::error file=...,line=...,col=...,title=...::text`,
# percent, carriage return and line feed escaped everywhere, colon and comma in properties too.

MAX_ANNOTATIONS = 10
"""Largest number of annotations of one level that GitHub shows for a step."""
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def github_commands(view: GateView) -> str:
    """Return the first ten annotations of each level, then the result as text for the log."""
    return "".join(f"{line}\n" for line in _annotations(view)) + gate_lines(view)


def _annotations(view: GateView) -> Iterator[str]:
    """Yield GitHub's commands for the visible findings, errors first and at most ten for each level."""
    for level, command in _COMMANDS.items():
        if level in view.levels:
            findings = [(file, finding) for file in view.files for finding in file.findings]
            yield from _limited_annotations(command, [pair for pair in findings if pair[1].severity is level])


def _limited_annotations(command: str, findings: Sequence[tuple[FileView, Diagnostic]]) -> Iterator[str]:
    """Yield a command for each finding; if there are more than ten, for the first nine, then one counts the others."""
    # GitHub drops what is beyond the tenth without a word: the tenth says how many there are.
    shown = findings if len(findings) <= MAX_ANNOTATIONS else findings[: MAX_ANNOTATIONS - 1]
    yield from (_annotation(command, file, finding) for file, finding in shown)
    if len(findings) > len(shown):
        yield f"::{command}::{len(findings) - len(shown)} more, see the log or the summary of this step"


def _annotation(command: str, file: FileView, finding: Diagnostic) -> str:
    """Return the command by which GitHub annotates a finding with its hint; it has no place for standard input."""
    rule = RULES.get(finding.code)
    properties = {"title": f"{finding.code} {rule.title}" if rule else finding.code}
    location, line, column = file.place(finding)
    if location:
        properties = {"file": visible(location), "line": str(line), "col": str(column), **properties}
    values = ",".join(f"{name}={_escaped_property(value)}" for name, value in properties.items())
    hint = f"\n{finding.hint}" if finding.hint else ""
    return f"::{command} {values}::{_escaped_data(finding.message + hint)}"


def _escaped_data(text: str) -> str:
    """Return the text after `::` with escapes for percent signs and line breaks."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    """Return the value of a property with escapes for colons and commas too."""
    return _escaped_data(text).replace(":", "%3A").replace(",", "%2C")


GITHUB = ReportFormat(text=github_commands, is_report=is_log)


# Findings as a code quality report of GitLab.
#
# Source: docs.gitlab.com, "Code Quality": a list of objects with description, check_name, fingerprint, severity and
# location.

_GITLAB_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def gitlab_json(view: GateView) -> str:
    """Return all findings as a JSON list; a finding keeps its fingerprint when only numbers or lines change."""
    # GitLab tells new findings from old ones by the fingerprint: were a line number in it, a shifted line would be new.
    return json.dumps(list(map(_gitlab_entry, tracked_findings(view))), indent=2) + "\n"


def _gitlab_entry(tracked: TrackedFinding) -> dict[str, object]:
    """Return a finding for GitLab; "critical" for an error in an undecided file, "stdin" for standard input."""
    file, finding, fingerprint = tracked
    location, line, _ = file.place(finding)
    hint = f" ({finding.hint})" if finding.hint else ""
    # Without a verdict nothing is known of the run, which is worse than a budget that is exceeded.
    is_critical = finding.severity is Severity.ERROR and file.result.verdict is Verdict.UNDECIDED
    return {
        "description": f"{finding.message}{hint}",
        "check_name": finding.code,
        "fingerprint": fingerprint,
        "severity": "critical" if is_critical else _GITLAB_SEVERITIES[finding.severity],
        "location": {"path": visible(location or "stdin"), "lines": {"begin": line}},
    }


def _is_gitlab(start: str, _: str) -> bool:
    """Return True if a text begins as a list, maybe empty, of objects with a rule of ours as `check_name`."""
    is_list_of_objects = re.match(r'\[\s*\{\s*"(description|check_name)": "', start) is not None
    return start.strip() == "[]" or (is_list_of_objects and re.search(r'"check_name": "DPC\d{3}"', start) is not None)


GITLAB = ReportFormat(text=gitlab_json, is_report=_is_gitlab)


# The result of a gate as JUnit XML: one test case a file.
#
# Source: the schema `junit-10.xsd` of the xUnit plugin of Jenkins.

_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'


def junit_xml(view: GateView) -> str:
    """Return JUnit XML with a test case for each file, in which invalid and undecided files are errors."""
    # JUnit knows two ways not to pass: a failure is an answer, an error is the lack of one.
    failed = sum(file.result.verdict is Verdict.FAILED for file in view.files)
    broken = sum(file.result.verdict in {Verdict.INVALID, Verdict.UNDECIDED} for file in view.files)
    counts = {"tests": str(len(view.files)), "failures": str(failed), "errors": str(broken)}
    # ElementTree escapes markup; characters that XML cannot hold at all are up to us (_xml_text).
    suites = ET.Element("testsuites", {"name": "dpcalc", **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": f"dpcalc {view.command}", **counts})
    for file in view.files:
        _add_case(suite, view, file)
    ET.indent(suites)
    return f"{_XML}{ET.tostring(suites, encoding='unicode')}\n"


def _add_case(suite: ET.Element, view: GateView, file: FileView) -> None:
    """Append a file's test case: its result and findings as output, and a `failure` or `error` unless it passed."""
    case = ET.SubElement(
        suite, "testcase", {"name": _xml_text(visible(file.result.path)), "classname": f"dpcalc.{view.command}"}
    )
    texts = [finding.format() for finding in view.visible_findings(file)]
    if file.result.verdict is not Verdict.PASSED:
        kind = "failure" if file.result.verdict is Verdict.FAILED else "error"
        ET.SubElement(case, kind, _cause_attributes(file)).text = _xml_text("\n".join(texts))
    ET.SubElement(case, "system-out").text = _xml_text("\n".join([file.summary, *file.details, *texts]))


def _cause_attributes(file: FileView) -> dict[str, str]:
    """Return the code and message of a file's first error, or else of its first warning; {} without either."""
    # The attribute is one line of an overview: one finding stands for all.
    causes = [each for level in (Severity.ERROR, Severity.WARNING) for each in file.findings if each.severity is level]
    return {"type": causes[0].code, "message": _xml_text(causes[0].message)} if causes else {}


def _xml_text(text: str) -> str:
    """Return a text as `visible` shows its lines, with the characters escaped that XML cannot hold."""
    # XML 1.0 has neither U+FFFE nor U+FFFF, on no plane; `visible` leaves them, for a terminal shows them.
    return "\n".join(
        "".join(char if ord(char) & 0xFFFE != 0xFFFE else f"\\U{ord(char):08x}" for char in visible(line))
        for line in text.split("\n")
    )


def _is_junit(start: str, _: str) -> bool:
    """Return True if a text begins with the test suites of dpcalc."""
    return start.startswith(f'{_XML}<testsuites name="dpcalc" ')


JUNIT = ReportFormat(text=junit_xml, is_report=_is_junit)


# Findings as SARIF 2.1.0, for code scanning.
#
# Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0"; GitHub's "SARIF support for code
# scanning": an alert shows in a pull request where its line was changed, so that findings of a comparison stand at
# the changed key. In messages a backslash escapes brackets (3.11.6), and braces are doubled (3.11.5).

SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif_json(view: GateView) -> str:
    """Return all findings as SARIF, marked as an unsuccessful run if there is no verdict."""
    findings = tuple(tracked_findings(view))
    codes = sorted({each.finding.code for each in findings})
    driver = {
        "name": "dpcalc",
        "version": __version__,
        "rules": [_sarif_rule(code) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": view.verdict is not Verdict.UNDECIDED}],
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(each, codes) for each in findings],
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_text(text: str) -> dict[str, str]:
    """Return a text as a message of SARIF, in which no `[name](url)` is a link and no `{0}` a placeholder."""
    return {"text": re.sub(r"[\\\[\]]", r"\\\g<0>", text).replace("{", "{{").replace("}", "}}")}


def _sarif_rule(code: str) -> dict[str, object]:
    """Return the SARIF entry of a known rule, with its title, condition, reason and fix."""
    # A name without blanks, as SARIF asks for; the title is for people.
    rule = RULES[code]
    return {
        "id": code,
        "name": rule.title.title().replace(" ", "").replace("-", ""),
        "shortDescription": _sarif_text(rule.title),
        "fullDescription": _sarif_text(rule.rule),
        "help": _sarif_text(f"{rule.reason}\n\n{rule.fix}"),
    }


def _sarif_result(tracked: TrackedFinding, codes: list[str]) -> dict[str, object]:
    """Return a finding with its hint, place and fingerprint as a SARIF result; `ruleIndex` is its index in `codes`."""
    file, finding, fingerprint = tracked
    hint = f"\n{finding.hint}" if finding.hint else ""
    return {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _SARIF_LEVELS[finding.severity],
        "message": _sarif_text(f"{finding.message}{hint}"),
        "locations": [{"physicalLocation": _sarif_location(file.place(finding))}],
        "partialFingerprints": {"dpcalc/v1": fingerprint},
    }


def _sarif_location(place: Place) -> dict[str, object]:
    """Return a place as a physical location of SARIF; standard input is the file "stdin"."""
    # A file name is bytes: those that are no UTF-8 are surrogates, which `quote` would refuse.
    uri = quote(place.location or "stdin", errors="surrogatepass")
    return {
        "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": place.line, "startColumn": place.column},
    }


def _is_sarif(start: str, _: str) -> bool:
    """Return True if a text begins as SARIF whose first run is of a tool named dpcalc."""
    run = r'"runs":\s*\[\s*\{\s*"tool":\s*\{\s*"driver":\s*\{\s*"name":\s*"dpcalc"'
    return re.match(r'\{\s*"\$schema":\s*"[^"]*sarif[^"]*",\s*"version":\s*"2\.1\.0",\s*' + run, start) is not None


SARIF = ReportFormat(text=sarif_json, is_report=_is_sarif)
