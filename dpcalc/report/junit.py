"""The result of a gate as JUnit XML: one test case a file.

Source: the schema `junit-10.xsd` of the xUnit plugin of Jenkins.
"""

from xml.etree import ElementTree as ET

from dpcalc.config.source import Severity, visible
from dpcalc.gate.verdict import Verdict
from dpcalc.report.formats import ReportFormat
from dpcalc.report.gate import FileView, GateView

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'


def junit_xml(view: GateView) -> str:
    """Return JUnit XML: failed files are failures, invalid and undecided ones errors; findings are the output."""
    failed = sum(file.result.verdict is Verdict.FAILED for file in view.files)
    broken = sum(file.result.verdict in {Verdict.INVALID, Verdict.UNDECIDED} for file in view.files)
    counts = {"tests": str(len(view.files)), "failures": str(failed), "errors": str(broken)}
    suites = ET.Element("testsuites", {"name": "dpcalc", **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": f"dpcalc {view.command}", **counts})
    for file in view.files:
        _add_case(suite, view, file)
    ET.indent(suites)
    return f"{_DECLARATION}{ET.tostring(suites, encoding='unicode')}\n"


def _add_case(suite: ET.Element, view: GateView, file: FileView) -> None:
    """Append the test case of one file to the suite."""
    case = ET.SubElement(
        suite, "testcase", {"name": _xml_text(visible(file.result.path)), "classname": f"dpcalc.{view.command}"}
    )
    causes = [each for level in (Severity.ERROR, Severity.WARNING) for each in file.findings if each.severity is level]
    texts = [finding.format() for finding in view.visible_findings(file)]
    if file.result.verdict is not Verdict.PASSED:
        attributes = {"type": causes[0].code, "message": _xml_text(causes[0].message)} if causes else {}
        kind = "failure" if file.result.verdict is Verdict.FAILED else "error"
        ET.SubElement(case, kind, attributes).text = _xml_text("\n".join(texts))
    ET.SubElement(case, "system-out").text = _xml_text("\n".join([file.summary, *file.details, *texts]))


def _xml_text(text: str) -> str:
    """Return a text with escapes for characters that XML cannot hold; line breaks stay."""
    return "\n".join(
        "".join(char if ord(char) & 0xFFFE != 0xFFFE else f"\\U{ord(char):08x}" for char in visible(line))
        for line in text.split("\n")
    )


def _is_report(text: str, _: object) -> bool:
    """Return whether a file begins with the suites of dpcalc."""
    return text.startswith(f'{_DECLARATION}<testsuites name="dpcalc" ')


JUNIT = ReportFormat(text=junit_xml, is_report=_is_report)
