"""A run of a gate as a code quality report of GitLab.

Source: docs.gitlab.com, "Code Quality": a list of objects with description, check_name, fingerprint, severity and
location.
"""

import hashlib
import json
from collections import Counter

from dpcalc.config.diagnostics import Severity, visible
from dpcalc.gate.verdict import Verdict
from dpcalc.report.gate_view import FileView, Finding, GateView

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.NOTE: "info"}


def gitlab_json(view: GateView) -> str:
    """Every finding; the same one keeps its fingerprint while numbers and lines around it move."""
    seen: Counter[str] = Counter()
    entries = [_entry(file, finding, seen) for file in view.files for finding in file.findings]
    return json.dumps(entries, indent=2) + "\n"


def _entry(file: FileView, finding: Finding, seen: Counter[str]) -> dict[str, object]:
    """One finding."""
    path = visible(file.location or "stdin")
    line, _ = file.place(finding) or (1, 1)
    subject = f"{finding.code}\0{path}"
    seen[subject] += 1
    hint = f" ({finding.hint})" if finding.hint else ""
    lost = finding.level is Severity.ERROR and file.verdict is Verdict.UNDECIDED
    return {
        "description": f"{finding.message}{hint}",
        "check_name": finding.code,
        "fingerprint": hashlib.sha256(f"{subject}\0{seen[subject]}".encode()).hexdigest(),
        "severity": "critical" if lost else _SEVERITIES[finding.level],
        "location": {"path": path, "lines": {"begin": line}},
    }
