"""The end of every command that is a gate: reports, remarks, exit code."""

import os
import traceback
from collections.abc import Sequence

from dpcalc.cli.answer import Answer
from dpcalc.cli.reports import Report
from dpcalc.config.diagnostics import Severity
from dpcalc.errors import InputError
from dpcalc.gate.verdict import Result, Verdict, worst
from dpcalc.report import FORMATS
from dpcalc.report.gate_view import gate_view

EXIT_CODES = {Verdict.PASSED: 0, Verdict.FAILED: 1, Verdict.INVALID: 2, Verdict.UNDECIDED: 3}


def gate_answer(command: str, results: Sequence[Result], *, reports: Sequence[Report], verbose: bool) -> Answer:
    """Write the report files and render what goes to standard output.

    Args:
        command: `check` or `validate`.
        results: one a file.
        reports: formats and places; the last one is for standard output.
        verbose: whether people see notes, beside errors and warnings.

    Returns:
        The answer, with the worst exit code of all files; a report that cannot be written counts as 2.
    """
    levels = set(Severity) if verbose else {Severity.ERROR, Severity.WARNING}
    view = gate_view(command, results, levels=levels)
    code = EXIT_CODES[worst(result.verdict for result in results)]
    asides = _tracebacks(results)
    *files, spoken = reports
    for report in files:
        try:
            report.write(FORMATS[report.format](view))
        except InputError as error:  # the verdict is known: say it all the same
            asides.append(f"error: {error}")
            code = max(code, 2)
    return Answer(text=FORMATS[spoken.format](view), code=code, asides=tuple(asides))


def _tracebacks(results: Sequence[Result]) -> list[str]:
    """Where answers got lost, if DPCALC_TRACEBACK asks for it."""
    if not os.environ.get("DPCALC_TRACEBACK"):
        return []
    causes = [result.cause for result in results if result.verdict is Verdict.UNDECIDED and result.cause]
    return ["".join(traceback.format_exception(cause)).rstrip() for cause in causes]
