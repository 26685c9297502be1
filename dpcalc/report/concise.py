"""A run of a gate with one line a finding, for editors and for eyes that scan."""

from dpcalc.config.diagnostics import visible
from dpcalc.report.gate_view import Finding, GateView


def concise_lines(view: GateView) -> str:
    """Findings as `path:line:column: level[code]: sentence`, and a last line that counts the verdicts."""
    lines = [_line(finding) for file in view.files for finding in file.findings if finding.level in view.levels]
    return "".join(f"{line}\n" for line in [*lines, view.summary])


def _line(finding: Finding) -> str:
    """One finding."""
    place = "" if finding.line is None else f":{finding.line}:{finding.column}"
    hint = f" ({finding.hint})" if finding.hint else ""
    return f"{visible(finding.path)}{place}: {finding.level}[{finding.code}]: {finding.message}{hint}"
