"""An error that ends a command before it has an answer, as JSON."""

from dpcalc.config.diagnostics import ConfigError
from dpcalc.errors import lost_answer
from dpcalc.report.gate_view import findings
from dpcalc.report.json_parts import document, finding_fields


def error_json(command: str, error: Exception, *, message: str, exit_code: int) -> str:
    """Return the output of a command with `--json` that has no answer.

    Args:
        command: name of the command, "" if none was given.
        error: what ended it.
        message: the text on standard error.
        exit_code: 2 if the input must be fixed, 3 if there is no verdict.

    Returns:
        A document whose `error` holds the exit code, the rule, the message and, for a config
        that cannot be used, the findings with line and column.
    """
    located = error.diagnostics if isinstance(error, ConfigError) else ()
    code = lost_answer(error)[0] if exit_code == 3 else located[0].code if located else "DPC104"
    fields = {
        "exit_code": exit_code,
        "code": code,
        "message": message.removeprefix("error: "),
        "findings": [finding_fields(finding) for finding in findings(located)],
    }
    return document(command, {"error": fields})
