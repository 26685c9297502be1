"""Findings as a code quality report of GitLab.

Source: docs.gitlab.com, "Code Quality": a list of objects with description, check_name, fingerprint, severity and
location.
"""

import json

from dpcalc.config.source import Diagnostic, Severity, visible
from dpcalc.gate.verdict import Verdict
from dpcalc.report.formats import ReportFormat
from dpcalc.report.gate import FileView, GateView, finding_fingerprints

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def gitlab_json(view: GateView) -> str:
    """Return all findings as a JSON list; a finding keeps its fingerprint when only numbers or lines change."""
    entries = [_entry(file, finding, fingerprint) for file, finding, fingerprint in finding_fingerprints(view)]
    return json.dumps(entries, indent=2) + "\n"


def _entry(file: FileView, finding: Diagnostic, fingerprint: str) -> dict[str, object]:
    """Return one finding; an error that left a file without a verdict is critical."""
    location, line, _ = file.place(finding)
    hint = f" ({finding.hint})" if finding.hint else ""
    is_critical = finding.severity is Severity.ERROR and file.result.verdict is Verdict.UNDECIDED
    return {
        "description": f"{finding.message}{hint}",
        "check_name": finding.code,
        "fingerprint": fingerprint,
        "severity": "critical" if is_critical else _SEVERITIES[finding.severity],
        "location": {"path": visible(location or "stdin"), "lines": {"begin": line}},
    }


def _is_report(_: str, content: object) -> bool:
    """Return True for a list of findings as above, also an empty one; the text is ignored."""
    return isinstance(content, list) and all(
        isinstance(entry, dict) and {"check_name", "fingerprint"} <= entry.keys() for entry in content
    )


GITLAB = ReportFormat(text=gitlab_json, is_report=_is_report)
