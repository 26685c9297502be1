"""Outcomes of a grid as a table, as CSV, as JSON, over one key as a chart, over two as a map."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dpcalc.charts.chart import KINDS, LINEAR, LOG, Axis, Chart, Limit, Series, aligned, cell, fitted
from dpcalc.charts.plot import figure_bytes, plain_text, set_titles, tick_text
from dpcalc.config.source import visible
from dpcalc.errors import counted
from dpcalc.guarantee import Kind
from dpcalc.report.fields import Field, Fields, Output, cells, json_only, yes_no
from dpcalc.report.rounding import rounded_up
from dpcalc.sweep.points import GridAxis, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as DrawnAxis
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    from dpcalc.arrays import Array

COLUMNS = ("epsilon", "kind", "method", "budget", "fits", "error")
"""Fields of a point in CSV."""
SHOWN = ("epsilon", "kind", "method", "fits")
"""Fields of a point in a table."""
_LOG_RATIO = 100.0  # ratio of the ends of an axis from which on it is logarithmic


def point_fields(outcome: Outcome) -> Fields:
    """Return the fields of one outcome; texts round epsilon up, but never onto the budget."""
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


def sweep_lines(axes: Sequence[GridAxis], outcomes: Sequence[Outcome], *, width: int = 0) -> str:
    """Return an aligned table of the points, with errors beside their rows or, on a terminal, below the table.

    Args:
        axes: axes of the grid.
        outcomes: one for each point.
        width: columns of a terminal, to which the table is fitted, its errors below it; 0 for a pipe.
    """
    keys = [axis.key for axis in axes]
    rows: list[tuple[str, ...]] = [(*keys, *SHOWN), *map(_table_row, outcomes)]
    if width:
        short = (*_short_keys(keys), *SHOWN)
        lines = (*fitted(rows, short=short, width=width), *_error_lines(outcomes, width))
        return "".join(f"{line}\n" for line in lines)
    # Errors stand behind the aligned columns, which their length would tear apart.
    notes = ["", *(f"  {visible(outcome.error)}" if outcome.error else "" for outcome in outcomes)]
    return "".join(f"{line}{note}\n" for line, note in zip(aligned(rows), notes, strict=True))


def _table_row(outcome: Outcome) -> tuple[str, ...]:
    """Return the values of a point and its fields SHOWN as texts, "-" for each of these without epsilon."""
    texts = ("-",) * len(SHOWN) if outcome.epsilon is None else cells(point_fields(outcome), SHOWN)
    return (*outcome.values, *texts)


def _short_keys(keys: Sequence[str]) -> Sequence[str]:
    """Return the last names of dotted keys if they differ from each other, else the keys."""
    last_names = [key.rpartition(".")[2] for key in keys]
    return last_names if len({*last_names}) == len(last_names) else keys


def _error_lines(outcomes: Sequence[Outcome], width: int) -> Iterator[str]:
    """Yield each different error once, with the number of its points, wrapped to `width` columns."""
    errors = Counter(visible(outcome.error) for outcome in outcomes if outcome.error)
    for error, count in errors.items():
        yield from textwrap.wrap(f"{error} ({counted(count, 'point', ',')})", width, subsequent_indent="  ")


def sweep_csv(axes: Sequence[GridAxis], outcomes: Sequence[Outcome]) -> str:
    """Return CSV with a header and a row for each point, numbers unrounded, words safe for spreadsheets.

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
    """Return a value as a CSV cell, with floats unrounded and text safe for spreadsheets; "" for None."""
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
    """Return the JSON of `sweep`: config, axes, `is_complete`, and the values and fields of each finished point.

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
    """Return a text as a float, if it is one, else unchanged."""
    try:
        return float(text)
    except ValueError:
        return text


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return a line that counts the points by kind of epsilon, within and over the budget, and without an answer."""
    fits = Counter(outcome.fits for outcome in outcomes)
    kinds = Counter(outcome.kind for outcome in outcomes if outcome.epsilon is not None)
    unknown = sum(outcome.epsilon is None for outcome in outcomes)
    words = [
        f"{counted(len(outcomes), 'point', ',')}",
        f"{kinds[Kind.ESTIMATE]:,} by estimate",
        f"{kinds[Kind.UPPER]:,} certified",
    ]
    words += [f"{fits[True]:,} within the budget", f"{fits[False]:,} over it"] if fits[True] or fits[False] else []
    words += [f"{unknown:,} without an answer"] if unknown else []
    return ", ".join(words)


def sweep_chart(axis: GridAxis, outcomes: Sequence[Outcome], *, subtitle: str = "") -> Chart:
    """Return the chart of epsilon over one numeric key: a line for each kind, and the budget if all points share it.

    Args:
        axis: the axis; all its values are numbers.
        outcomes: one for each point.
        subtitle: facts that all points share; "" for none.
    """
    ordered = sorted(outcomes, key=lambda outcome: float(outcome.values[0]))
    xs = tuple(float(outcome.values[0]) for outcome in ordered)
    shown = [outcome.epsilon for outcome in ordered if outcome.epsilon is not None and 0 < outcome.epsilon < math.inf]
    budgets = {outcome.budget for outcome in ordered}
    return Chart(
        title=f"epsilon over {axis.key}",
        subtitle=subtitle,
        x=Axis(name=axis.key, scale=_scale(xs)),
        y=Axis(name="epsilon", scale=_scale(shown)),
        series=_epsilon_series(xs, ordered),
        limits=tuple(Limit(name="budget", value=limit) for limit in budgets if limit is not None and len(budgets) == 1),
    )


def _epsilon_series(xs: tuple[float, ...], outcomes: Sequence[Outcome]) -> tuple[Series, ...]:
    """Return a chart line for estimates and one for certified bounds, if any; else an empty "no answer"."""
    # Near the budget certified bounds take the place of estimates: one line of both would mix two claims.
    kinds = {outcome.kind for outcome in outcomes if outcome.epsilon is not None}
    names = {Kind.ESTIMATE: "inversion", Kind.UPPER: "certified"}
    series = tuple(_kind_series(kind, name, xs, outcomes) for kind, name in names.items() if kind in kinds)
    return series or (Series(name="no answer", kind=Kind.ESTIMATE, xs=xs, ys=(None,) * len(xs)),)


def _kind_series(kind: Kind, name: str, xs: tuple[float, ...], outcomes: Sequence[Outcome]) -> Series:
    """Return a chart line with gaps at outcomes of another kind, and with the method if all on it share one."""
    ys = tuple(outcome.epsilon if outcome.kind is kind else None for outcome in outcomes)
    methods = {outcome.method for outcome in outcomes if outcome.kind is kind and outcome.method}
    return Series(name=name, kind=kind, xs=xs, ys=ys, method=methods.pop() if len(methods) == 1 else "")


def _scale(values: Sequence[float]) -> str:
    """Return LOG for numbers > 0 of which the largest is over 100 times the smallest, else LINEAR (also for none)."""
    return LOG if values and min(values) > 0 and max(values) > _LOG_RATIO * min(values) else LINEAR


# Grids over two keys as maps, for a terminal and as pictures.


OVER_BUDGET, UNKNOWN = "*", "-"
_STYLES = {True: "green", False: "red", None: ""}  # of cells within the budget, over it, and without one
_DIGITS = 2  # significant digits of a cell, so that a terminal has room for a dozen columns
_PLAIN = 1e7  # from here on a number is written with an exponent
_MAX_ROWS = 40  # what fits on a screen
_MAX_NUMBERS, _MAX_TICKS = 150, 12  # numbers in cells, and labels on an axis, that a picture has room for


def heat_text(
    axes: tuple[GridAxis, GridAxis], outcomes: Sequence[Outcome], *, width: int, styled: bool, subtitle: str = ""
) -> str:
    """Return a table of epsilon over two keys with "*" over the budget; evenly spaced rows and columns if too large.

    Args:
        axes: (vertical axis, horizontal axis).
        outcomes: one for each point, the horizontal axis changing fastest.
        width: columns of the terminal; cells that do not fit are left out evenly, the first and last ones shown.
        styled: True for colours.
        subtitle: facts that all points share; "" for none.

    Returns:
        Lines of the table below the names of its axes, and above what its marks mean.
    """
    from dpcalc.report.terminal import grid_text

    down, across = (tuple(map(_tick, axis.values, axis.numbers or axis.values)) for axis in axes)
    margin, size = max(map(len, down)), max(map(len, (*map(_cell, outcomes), *across)))
    # What has no room is left out, never averaged: every cell is a number that was computed.
    rows = _evenly_spaced(len(down), _MAX_ROWS)
    columns = _evenly_spaced(len(across), max(2, (width - margin) // (size + 2)))
    thinning = _thinning_note((len(rows), len(columns)), (len(down), len(across)))
    grid = _grid_rows(outcomes, len(across))
    return grid_text(
        f"epsilon: {axes[0].key} (down), {axes[1].key} (across)",
        ("", *(across[column] for column in columns)),
        tuple(((down[row], "bold"), *(_styled_cell(grid[row][column]) for column in columns)) for row in rows),
        [*_over_budget_note(outcomes), *thinning, *([visible(subtitle)] if subtitle else [])],
        width=width,
        styled=styled,
    )


def _grid_rows(outcomes: Sequence[Outcome], width: int) -> list[Sequence[Outcome]]:
    """Return the outcomes of a grid in rows of `width` columns."""
    return [outcomes[at : at + width] for at in range(0, len(outcomes), width)]


def _styled_cell(outcome: Outcome) -> tuple[str, str]:
    """Return a cell's text and its style: green within the budget, red over it, "" where either is unknown."""
    return _cell(outcome), _STYLES[outcome.fits]


def _over_budget_note(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a note on the mark of cells over the budget; none if there is no such cell in the whole grid."""
    return [f"{OVER_BUDGET} over the budget"] if any(outcome.fits is False for outcome in outcomes) else []


def _thinning_note(shown: tuple[int, int], total: tuple[int, int]) -> list[str]:
    """Return a note on the (rows, columns) shown of those of the grid; none if all of them are."""
    note = f"shown: {shown[0]} of {total[0]} rows, {shown[1]} of {total[1]} columns"
    return [note] if shown != total else []


def _tick(text: str, number: float | str) -> str:
    """Return an axis value as people read it: a number with separators or four digits, or a word unchanged."""
    if isinstance(number, str):
        return text
    return f"{number:,.0f}" if float(number).is_integer() and abs(number) < _PLAIN else f"{number:.4g}"


def _cell(outcome: Outcome) -> str:
    """Return epsilon rounded up to two significant digits, then "*" if it is over the budget; "-" without epsilon."""
    if outcome.epsilon is None:
        return UNKNOWN
    return rounded_up(outcome.epsilon, digits=_DIGITS) + (OVER_BUDGET if outcome.fits is False else "")


def _evenly_spaced(count: int, limit: int) -> list[int]:
    """Return at most `limit` (>= 2) indices of `count` items, evenly spaced, the first (0) and the last among them."""
    if count <= limit:
        return list(range(count))
    return [round(index * (count - 1) / (limit - 1)) for index in range(limit)]


def heat_picture(
    axes: tuple[GridAxis, GridAxis], outcomes: Sequence[Outcome], ending: str, *, subtitle: str = ""
) -> bytes:
    """Return the SVG, PNG or PDF file of a heat map of epsilon over two keys, the same bytes for equal arguments.

    Args:
        axes: (vertical axis, upwards; horizontal axis).
        outcomes: one for each point, the horizontal axis changing fastest; those without a finite epsilon > 0 stay
            empty.
        ending: "svg", "png" or "pdf".
        subtitle: facts that all points share; "" for none.

    Returns:
        The content of a file; equal arguments give equal bytes.
    """
    return figure_bytes(lambda figure: _draw_heat_map(figure, axes, outcomes, subtitle), ending)


def _draw_heat_map(figure: Figure, axes: tuple[GridAxis, GridAxis], outcomes: Sequence[Outcome], subtitle: str) -> None:
    """Draw the grid as coloured cells with titles, ticks, axis labels, a colour bar, and the border of the budget."""
    from matplotlib.collections import LineCollection

    up, across = axes
    grid = _grid_rows(outcomes, len(across.values))
    plot = figure.add_subplot()
    _draw_cells(figure, plot, grid)
    edges = _budget_edges([[each.fits for each in row] for row in grid])
    plot.add_collection(LineCollection(edges, colors="black", linewidths=2, gid="budget"))
    set_titles(plot, f"epsilon{_budget_note(outcomes, has_edges=bool(edges))}", subtitle)
    _set_ticks(plot.xaxis, across)
    _set_ticks(plot.yaxis, up)
    plot.set_xlabel(plain_text(across.key))
    plot.set_ylabel(plain_text(up.key))


def _draw_cells(figure: Figure, plot: Axes, grid: Sequence[Sequence[Outcome]]) -> None:
    """Draw cells coloured by epsilon and a colour bar named by kind; with numbers in them if there are at most 150."""
    epsilons = _epsilon_grid(grid)
    scale = _colour_scale(epsilons)
    mesh = plot.imshow(epsilons, origin="lower", aspect="auto", cmap="viridis_r", norm=scale, gid="heat")
    kinds = {each.kind for row in grid for each in row if each.epsilon is not None}
    label = "epsilon: " + " or ".join(KINDS[kind] for kind in KINDS if kind in kinds)
    figure.colorbar(mesh, label=label, format=lambda number, _: tick_text(number)).ax.yaxis.set_minor_formatter("")
    if epsilons.size <= _MAX_NUMBERS:
        _write_numbers(plot, epsilons)


def _colour_scale(epsilons: Array) -> LogNorm | None:
    """Return logarithmic colours from the smallest to the largest finite epsilon; None unless two are different."""
    import numpy as np
    from matplotlib.colors import LogNorm

    # Logarithmic colours: epsilon often spans decades. Without two different numbers there is nothing to scale by.
    shown = epsilons[np.isfinite(epsilons)]
    # A cell without a finite epsilon has no colour, and must not stretch the scale of the others.
    return LogNorm(shown.min(), shown.max()) if shown.size and shown.min() < shown.max() else None


def _epsilon_grid(grid: Sequence[Sequence[Outcome]]) -> Array:
    """Return the epsilons of a grid as a matrix; NaN, for an empty cell, where epsilon is None, 0 or infinite."""
    import numpy as np

    epsilons = [[math.nan if each.epsilon is None else each.epsilon for each in row] for row in grid]
    return np.array([[epsilon if 0 < epsilon < math.inf else math.nan for epsilon in row] for row in epsilons])


def _write_numbers(plot: Axes, epsilons: Array) -> None:
    """Write each finite epsilon, rounded up, on white into the middle of its cell."""
    import numpy as np

    style = {"facecolor": "white", "alpha": 0.6, "edgecolor": "none", "pad": 1.0}
    for (row, column), value in np.ndenumerate(epsilons):
        if math.isfinite(value):
            plot.text(column, row, rounded_up(value), ha="center", va="center", fontsize=7, bbox=style)


def _budget_note(outcomes: Sequence[Outcome], *, has_edges: bool) -> str:
    """Return words on the budget for the title; "" unless all points with an epsilon share one budget."""
    budgets = {each.budget for each in outcomes if each.epsilon is not None}
    # A budget that is swept itself has no single border to name.
    budget = next(iter(budgets)) if len(budgets) == 1 else None
    return "" if budget is None else f"; line: budget {budget!r}" if has_edges else f"; budget {budget!r}"


def _set_ticks(drawn: DrawnAxis, axis: GridAxis) -> None:
    """Label at most 12 evenly spaced cells along an axis of a picture with the values of the grid's axis."""
    ticks = range(0, len(axis.values), max(1, math.ceil(len(axis.values) / _MAX_TICKS)))
    drawn.set_ticks(list(ticks), [_tick(axis.values[at], (axis.numbers or axis.values)[at]) for at in ticks])


def _budget_edges(fits: Sequence[Sequence[bool | None]]) -> list[list[tuple[float, float]]]:
    """Return the edges ((x, y), (x, y)) between neighbouring cells, one within the budget and the other over it."""
    # Cell (row, column) is centred at (column, row); beside a cell that is not known (None) there is no edge.
    edges = []
    for row, columns in enumerate(fits):
        for column, fit in enumerate(columns):
            if column + 1 < len(columns) and {fit, columns[column + 1]} == {True, False}:
                edges.append([(column + 0.5, row - 0.5), (column + 0.5, row + 0.5)])
            if row + 1 < len(fits) and {fit, fits[row + 1][column]} == {True, False}:
                edges.append([(column - 0.5, row + 0.5), (column + 0.5, row + 0.5)])
    return edges
