"""The result of `audit-sampler`."""

import math

from dpcalc.audit.audit import Audit, AuditedTest
from dpcalc.audit.tails import FALSE_ALARM
from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.report.fields import Field, Output, Table, config_field, json_only, origin_fields, yes_no


def audit_output(result: Audit, loaded: Loaded, log: str) -> Output:
    """Return the result of `audit-sampler`, with one row of the table for each test.

    Args:
        result: of the audit.
        loaded: the config.
        log: name of the log.
    """
    verdict = "the log agrees with the declared sampling"
    if not result.agrees:
        verdict = f"the log contradicts the declared sampling: {'; '.join(map(visible, result.findings))}"
    tests = [
        {
            "phase": each.phase,
            "level": each.level,
            "test": str(each.test.kind),
            "quantity": each.test.quantity,
            "expected": each.test.expected,
            "observed": each.test.observed,
            "p_value": math.exp(each.test.log_p_value),
            "agrees": not each.contradicts,
        }
        for each in result.tests
    ]
    return Output(
        command="audit-sampler",
        fields=(
            config_field(loaded),
            json_only("log", log),
            Field("agrees", result.agrees),
            Field("findings", list(result.findings)),
            Field("steps", result.steps),
            Field("entries", result.entries),
            Field("false_alarm", FALSE_ALARM),
            Field("tests", tests, plain=tuple(map(_line, result.tests))),
            json_only("notes", list(result.notes)),
            *origin_fields(loaded),
        ),
        table=Table(
            headline=f"{verdict}\n{result.steps} steps, {result.entries} entries; an honest log is contradicted with "
            f"probability <= {FALSE_ALARM:g}",
            columns=("level", "quantity", "expected", "logged", "p-value", "agrees", "note"),
            rows=tuple(_row(each) for each in result.tests),
        ),
    )


def _row(each: AuditedTest) -> tuple[str, ...]:
    """Return the cells of the row of a test."""
    phase = f"{visible(each.phase)}: " if each.phase else ""
    test = each.test
    numbers = (_number(test.expected), _number(test.observed), _p_value(test.log_p_value))
    note = visible(test.sentence) if each.contradicts else ""
    return (phase + visible(each.level), test.quantity, *numbers, yes_no(not each.contradicts), note)


def _line(each: AuditedTest) -> str:
    """Return a test as one fact."""
    level, quantity, expected, observed, p_value, _, note = _row(each)
    verdict = f"; CONTRADICTED{f': {note}' if note else ''}" if each.contradicts else ""
    return f"{level}: {quantity}: expected {expected}, logged {observed}, p-value {p_value}{verdict}"


def _number(value: float) -> str:
    """Format a number of events: whole numbers exactly, others with five digits."""
    return str(int(value)) if float(value).is_integer() else f"{value:.5g}"


def _p_value(log_p_value: float) -> str:
    """Format a bound on a p-value rounded up, also one too small for a float."""
    if log_p_value == -math.inf:
        return "0"
    if log_p_value > math.log(0.01):
        return f"<= {math.ceil(100 * math.exp(log_p_value)) / 100:g}"
    return f"<= 1e{math.ceil(log_p_value / math.log(10))}"
