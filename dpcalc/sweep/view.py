"""Outcomes of a grid as a table, as CSV, as JSON, and over one key as a chart."""

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence

from dpcalc.charts.chart import LINEAR, LOG, Axis, Chart, Limit, Series
from dpcalc.charts.table import cell
from dpcalc.config.source import visible
from dpcalc.guarantee import Kind
from dpcalc.report.fields import document, finite
from dpcalc.report.rounding import rounded_up
from dpcalc.sweep.points import GridAxis, Outcome

COLUMNS = ("epsilon", "kind", "method", "budget", "fits", "error")
_LOG_RATIO = 100.0  # ratio of the ends of an axis from which on it is logarithmic


def sweep_lines(axes: Sequence[GridAxis], outcomes: Sequence[Outcome]) -> str:
    """Return a table with a row for each point, epsilon rounded up to three digits, errors at the end of the line.

    Args:
        axes: axes of the grid.
        outcomes: one for each point.
    """
    rows = [(*(axis.key for axis in axes), *COLUMNS[:3], COLUMNS[4])]
    rows += [(*outcome.values, *_cells(outcome)) for outcome in outcomes]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows]
    notes = ["", *(f"  {visible(outcome.error)}" if outcome.error else "" for outcome in outcomes)]
    return "".join(f"{line}{note}\n" for line, note in zip(lines, notes, strict=True))


def _cells(outcome: Outcome) -> tuple[str, ...]:
    """Return (epsilon, kind, method, "yes" or "no" for the budget) of a point; dashes without epsilon."""
    if outcome.epsilon is None:
        return ("-", "-", "-", "-")
    fits = {True: "yes", False: "no", None: ""}[outcome.fits]
    return (rounded_up(outcome.epsilon, apart_from=outcome.budget), str(outcome.kind), outcome.method, fits)


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
        fits = {True: "yes", False: "no", None: ""}[outcome.fits]
        epsilon, budget = ("" if value is None else repr(value) for value in (outcome.epsilon, outcome.budget))
        kind = "" if outcome.epsilon is None else outcome.kind
        writer.writerow((*map(cell, outcome.values), epsilon, kind, outcome.method, budget, fits, cell(outcome.error)))
    return text.getvalue()


def sweep_json(axes: Sequence[GridAxis], outcomes: Sequence[Outcome], *, path: str, is_complete: bool = True) -> str:
    """Return the output of `sweep --json`: the axes, and for each point values, epsilon, method, budget, error.

    Args:
        axes: axes of the grid.
        outcomes: one for each finished point.
        path: file of the config.
        is_complete: True if all points of the grid are finished.
    """
    points = [
        {
            "values": dict(zip((axis.key for axis in axes), map(_number_or_word, outcome.values), strict=True)),
            "epsilon": finite(outcome.epsilon),
            "finite": None if outcome.epsilon is None else math.isfinite(outcome.epsilon),
            "kind": None if outcome.epsilon is None else str(outcome.kind),
            "method": outcome.method or None,
            "budget": outcome.budget,
            "fits": outcome.fits,
            "error": visible(outcome.error) or None,
        }
        for outcome in outcomes
    ]
    over = [{"key": axis.key, "values": [_number_or_word(value) for value in axis.values]} for axis in axes]
    return document("sweep", {"config": {"path": path}, "over": over, "complete": is_complete, "points": points})


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
