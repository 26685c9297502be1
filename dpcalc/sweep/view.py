"""Outcomes of a grid as a table, as CSV, as JSON, and over one key as a chart."""

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from functools import partial

from dpcalc.charts.chart import LINEAR, LOG, Axis, Chart, Limit, Series
from dpcalc.charts.table import aligned, cell
from dpcalc.config.source import visible
from dpcalc.guarantee import Kind
from dpcalc.report.fields import Field, Fields, Output, cells, json_only, yes_no
from dpcalc.report.rounding import rounded_up
from dpcalc.sweep.points import GridAxis, Outcome

COLUMNS = ("epsilon", "kind", "method", "budget", "fits", "error")
"""Fields of a point in CSV."""
SHOWN = ("epsilon", "kind", "method", "fits")
"""Fields of a point in a table."""
_LOG_RATIO = 100.0  # ratio of the ends of an axis from which on it is logarithmic


def point_fields(outcome: Outcome) -> Fields:
    """Return the result of one point: a table shows its plain texts, JSON and CSV its values."""
    is_known = outcome.epsilon is not None
    return (
        Field("epsilon", outcome.epsilon, rounding=partial(rounded_up, apart_from=outcome.budget)),
        json_only("finite", None if outcome.epsilon is None else math.isfinite(outcome.epsilon)),
        Field("kind", str(outcome.kind) if is_known else None),
        Field("method", outcome.method or None),
        Field("budget", outcome.budget),
        Field("fits", outcome.fits),
        Field("error", visible(outcome.error) or None),
    )


def sweep_lines(axes: Sequence[GridAxis], outcomes: Sequence[Outcome]) -> str:
    """Return a table with a row for each point, epsilon rounded up to three digits, errors at the end of the line.

    Args:
        axes: axes of the grid.
        outcomes: one for each point.
    """
    rows: list[tuple[str, ...]] = [(*(axis.key for axis in axes), *SHOWN)]
    for outcome in outcomes:
        texts = ("-",) * len(SHOWN) if outcome.epsilon is None else cells(point_fields(outcome), SHOWN)
        rows.append((*outcome.values, *texts))
    notes = ["", *(f"  {visible(outcome.error)}" if outcome.error else "" for outcome in outcomes)]
    return "".join(f"{line}{note}\n" for line, note in zip(aligned(rows), notes, strict=True))


def sweep_csv(axes: Sequence[GridAxis], outcomes: Sequence[Outcome]) -> str:
    """Return CSV with a header and a row for each point, numbers unrounded.

    Args:
        axes: axes of the grid.
        outcomes: one for each point.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*(cell(axis.key) for axis in axes), *COLUMNS))
    for outcome in outcomes:
        values = {field.name: field.value for field in point_fields(outcome)} | {"error": outcome.error}
        writer.writerow((*map(cell, outcome.values), *(_csv_text(values[column]) for column in COLUMNS)))
    return text.getvalue()


def _csv_text(value: object) -> str:
    """Return a value as a CSV cell, a number in full; "" for None."""
    match value:
        case None:
            return ""
        case bool():
            return yes_no(value)
        case float():
            return repr(value)
        case _:
            return cell(str(value))


def sweep_output(axes: Sequence[GridAxis], outcomes: Sequence[Outcome], *, path: str, is_complete: bool) -> Output:
    """Return the result of `sweep` for JSON: the axes, and for each point values, epsilon, method, budget, error.

    Args:
        axes: axes of the grid.
        outcomes: one for each finished point.
        path: file of the config.
        is_complete: True if all points of the grid are finished.
    """
    points = []
    for outcome in outcomes:
        values = dict(zip((axis.key for axis in axes), map(_number_or_word, outcome.values), strict=True))
        points.append((Field("values", values), *point_fields(outcome)))
    return Output(
        command="sweep",
        fields=(
            json_only("config", {"path": path}),
            json_only("over", [{"key": axis.key, "values": list(map(_number_or_word, axis.values))} for axis in axes]),
            json_only("complete", is_complete),
            json_only("points", points),
        ),
    )


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the counts of points: all, by estimate, certified, within and over the budget, without an answer."""
    fits = Counter(outcome.fits for outcome in outcomes)
    kinds = Counter(outcome.kind for outcome in outcomes if outcome.epsilon is not None)
    unknown = sum(outcome.epsilon is None for outcome in outcomes)
    words = [f"{len(outcomes):,} points", f"{kinds[Kind.ESTIMATE]:,} by estimate", f"{kinds[Kind.UPPER]:,} certified"]
    words += [f"{fits[True]:,} within the budget", f"{fits[False]:,} over it"] if fits[True] or fits[False] else []
    words += [f"{unknown:,} without an answer"] if unknown else []
    return ", ".join(words)


def sweep_chart(axis: GridAxis, outcomes: Sequence[Outcome], *, subtitle: str = "") -> Chart:
    """Return the chart of a grid over one key, estimates and certified bounds as two lines.

    Args:
        axis: the axis; all its values are numbers.
        outcomes: one for each point.
        subtitle: facts that all points share; "" for none.
    """
    ordered = sorted(outcomes, key=lambda outcome: float(outcome.values[0]))
    xs = tuple(float(outcome.values[0]) for outcome in ordered)
    series = []
    for kind, name in ((Kind.ESTIMATE, "inversion"), (Kind.UPPER, "certified")):
        if any(outcome.kind is kind and outcome.epsilon is not None for outcome in ordered):
            ys = tuple(outcome.epsilon if outcome.kind is kind else None for outcome in ordered)
            methods = {outcome.method for outcome in ordered if outcome.kind is kind and outcome.method}
            method = methods.pop() if len(methods) == 1 else ""
            series.append(Series(name=name, kind=kind, xs=xs, ys=ys, method=method))
    shown = [outcome.epsilon for outcome in ordered if outcome.epsilon is not None and 0 < outcome.epsilon < math.inf]
    budgets = {outcome.budget for outcome in ordered}
    return Chart(
        title=f"epsilon over {axis.key}",
        subtitle=subtitle,
        x=Axis(name=axis.key, scale=LOG if min(xs) > 0 and max(xs) > _LOG_RATIO * min(xs) else LINEAR),
        y=Axis(name="epsilon", scale=LOG if shown and max(shown) > _LOG_RATIO * min(shown) else LINEAR),
        series=tuple(series) or (Series(name="no answer", kind=Kind.ESTIMATE, xs=xs, ys=(None,) * len(xs)),),
        limits=tuple(Limit(name="budget", value=limit) for limit in budgets if limit is not None and len(budgets) == 1),
    )
