"""The results of `audit-sampler` and `audit`."""

import math

from dpcalc.audit.audit import Audit
from dpcalc.audit.p_values import EXTREMES, FALSE_ALARM, Guesses
from dpcalc.audit.scores import ScoreAudit
from dpcalc.charts.chart import LOG, Axis, Chart, Series, x_text
from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.errors import counted
from dpcalc.guarantee import Kind
from dpcalc.planner.words import shared_facts
from dpcalc.report.guarantees import assumes_rows, epsilon_text, unit_json
from dpcalc.report.output import Json, Output, Table, config_output, lines, yes_no
from dpcalc.report.rounding import as_given, rounded_down, rounded_up


def audit_output(result: Audit, loaded: Loaded, log: str) -> Output:
    """Return the output of `audit-sampler`, of the log of this name: a verdict with findings, a row for each test."""
    verdict = "the log agrees with the declared sampling"
    if not result.agrees:
        verdict = f"the log contradicts the declared sampling: {'; '.join(map(visible, result.findings))}"
    tests, texts, rows = [], [], []
    for phase, name, test in result.tests:
        is_contradicted = test.contradicts(len(result.tests))
        tests.append(
            {
                "phase": phase,
                "level": name,
                "test": str(test.kind),
                "quantity": test.quantity,
                "expected": test.expected,
                "observed": test.observed,
                "p_value": math.exp(test.log_p_value),
                "agrees": not is_contradicted,
            }
        )
        level = f"{f'{visible(phase)}: ' if phase else ''}{visible(name)}"
        expected = f"{x_text(test.expected, 5)}{' (mean)' if test.kind in EXTREMES else ''}"
        logged = x_text(test.observed, 5)
        # Logarithms down to the end: a p-value of 1e-4000 would be 0 as a float, and 0 means impossible.
        p_value = "0"
        if test.log_p_value > math.log(0.01):
            p_value = f"<= {math.ceil(100 * math.exp(test.log_p_value)) / 100:g}"
        elif test.log_p_value > -math.inf:
            p_value = f"<= 1e{math.ceil(test.log_p_value / math.log(10))}"
        note = visible(test.sentence) if is_contradicted else ""
        rows.append((level, test.quantity, expected, logged, p_value, yes_no(not is_contradicted), note))
        end = f"; CONTRADICTED{f': {note}' if note else ''}" if is_contradicted else ""
        texts.append(f"{level}: {test.quantity}: expected {expected}, logged {logged}, p-value {p_value}{end}")
    summary = {
        "agrees": result.agrees,
        "findings": list(result.findings),
        "steps": result.steps,
        "entries": result.entries,
        "false_alarm": FALSE_ALARM,
    }
    return config_output(
        "audit-sampler",
        loaded,
        {"log": log, **summary, "tests": tests, "notes": list(result.notes)},
        lines=[*lines(summary), *(("tests", text) for text in texts)],
        table=Table(
            headline=f"{verdict}\n{counted(result.steps, 'step')}, {result.entries} entries; an honest log is "
            f"contradicted with probability <= {FALSE_ALARM:g}",
            columns=("level", "quantity", "expected", "logged", "p-value", "agrees", "note"),
            rows=tuple(rows),
        ),
    )


def score_output(result: ScoreAudit, loaded: Loaded, path: str) -> Output:
    """Return the output of `audit`: a verdict, p-values, and epsilon by the scores beside that of the config."""
    declared = epsilon_text(result.guarantee.epsilon, Kind.UPPER)
    verdict = "the scores agree with the config" if result.agrees else "the scores contradict the config"
    confidence = f"{1 - result.false_alarm:.12g}"  # 1 - 0.9 is 0.09999999999999998
    shown = f"at least {rounded_down(result.epsilon_lower)} by the scores (confidence {confidence})"
    rules, texts = [], []
    for rule, counts, p_value in result.tests:
        if isinstance(counts, Guesses):
            numbers = {"guesses": counts.guessed, "correct": counts.correct}
            words = f"{counts.correct:,} of {counts.guessed:,} guesses right"
        else:
            numbers = {
                "included": counts.included,
                "true_positives": counts.detected,
                "excluded": counts.excluded,
                "false_positives": counts.false,
            }
            words = (
                f"alarms in {counts.detected:,} of {counts.included:,} runs with the canary and in {counts.false:,} of "
                f"{counts.excluded:,} without"
            )
        rules.append({"rule": rule, **numbers, "p_value": p_value})
        texts.append(f"{rule}: {words}, p-value {_bound_text(p_value)}")
    summary: Json = {
        "agrees": result.agrees,
        "test": "many runs" if result.has_many_runs else "one run",
        "canaries": result.canaries,
        "included": result.included,
        "rules": rules,
        "p_value": result.p_value,
        "false_alarm": result.false_alarm,
        "epsilon_lower": result.epsilon_lower,
        "confidence": float(confidence),
        "epsilon": result.guarantee.epsilon,
        "delta": result.guarantee.delta,
        **unit_json(loaded.plan),
        "assumptions": list(result.assumptions),
    }
    facts = lines({**summary, "rules": texts}, p_value=_bound_text, epsilon_lower=rounded_down, epsilon=rounded_up)
    roc = [
        {"false_positive_rate": false, "true_positive_rate": true, "certified": certified}
        for false, true, certified in result.roc
    ]
    return config_output(
        "audit",
        loaded,
        {"scores": path, **summary, "roc": roc, "notes": list(result.notes)},
        headline=f"{verdict}: p-value {_bound_text(result.p_value)}",
        lines=facts,
        rows=[
            ("run", visible(loaded.plan.name)),
            ("test", str(summary["test"])),
            ("canaries", f"{result.canaries:,}, of which {result.included:,} were in"),
            *(("rule", text) for text in texts),
            (
                "false alarm",
                f"an honest run is contradicted with probability <= {as_given(result.false_alarm)}",
            ),
            ("epsilon", f"{shown}; at most {declared} by the config; delta {as_given(result.guarantee.delta)}"),
            *assumes_rows(result.assumptions),
        ],
    )


def _bound_text(value: float) -> str:
    return f"<= {rounded_up(value, digits=2)}"


def score_chart(result: ScoreAudit, loaded: Loaded) -> Chart:
    rates, detected, certified = zip(*result.roc, strict=True)
    name = "scores of the runs" if result.has_many_runs else "scores of the canaries"
    return Chart(
        title="true over false positive rate of the scores, and its certified bound",
        subtitle=f"{loaded.plan.name or loaded.path}: {shared_facts((loaded.plan,), without=('delta',))}",
        x=Axis(name="false_positive_rate", scale=LOG, title="false positive rate"),
        y=Axis(name="true_positive_rate", scale=LOG, title="true positive rate"),
        series=(
            Series(name="certified", kind=loaded.plan.bound_kind, xs=rates, ys=certified),
            Series(name=name, kind=Kind.ESTIMATE, xs=rates, ys=detected),
            Series(name="guessing", kind=Kind.LOWER, xs=rates, ys=rates, is_reference=True),
        ),
    )
