"""Findings as SARIF 2.1.0, for code scanning.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0"; GitHub's "SARIF support for code
scanning": an alert shows in a pull request where its line was changed, so that findings of a comparison stand at
the changed key.
"""

import json
from urllib.parse import quote

from dpcalc._version import __version__
from dpcalc.config.source import Diagnostic, Severity
from dpcalc.gate.verdict import Verdict
from dpcalc.report.formats import ReportFormat
from dpcalc.report.gate import FileView, GateView, finding_fingerprints
from dpcalc.report.rules import RULES

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif_json(view: GateView) -> str:
    """Return all findings as SARIF with the rules they name; `executionSuccessful` is false without a verdict."""
    findings = tuple(finding_fingerprints(view))
    codes = sorted({finding.code for _, finding, _ in findings})
    driver = {
        "name": "dpcalc",
        "version": __version__,
        "rules": [_rule(code) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": view.verdict is not Verdict.UNDECIDED}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(file, finding, fingerprint, codes) for file, finding, fingerprint in findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str) -> dict[str, object]:
    """Return the description of a rule of RULES; raise KeyError for a code that is not in it."""
    rule = RULES[code]
    return {
        "id": code,
        "name": rule.title.title().replace(" ", "").replace("-", ""),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.rule},
        "help": {"text": f"{rule.reason}\n\n{rule.fix}"},
    }


def _result(file: FileView, finding: Diagnostic, fingerprint: str, codes: list[str]) -> dict[str, object]:
    """Return a finding as SARIF: rule, level, message and hint, place ("stdin" without a file)."""
    location, line, column = file.place(finding)
    uri = quote(location or "stdin", errors="surrogatepass")
    hint = f"\n{finding.hint}" if finding.hint else ""
    return {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}{hint}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": line, "startColumn": column},
                }
            }
        ],
        "partialFingerprints": {"dpcalc/v1": fingerprint},
    }


def _is_report(_: str, content: object) -> bool:
    """Return True for SARIF whose first run is of a tool named dpcalc; the text is ignored."""
    match content:
        case {"runs": [{"tool": {"driver": {"name": "dpcalc"}}}, *_]}:
            return True
    return False


SARIF = ReportFormat(text=sarif_json, is_report=_is_report)
