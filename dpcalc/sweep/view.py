"""Outcomes of a grid as a table, as CSV, as JSON, over one key as a chart, over two as a map.

`axes` are those of the grid and `outcomes` its points, one for each, the last axis changing fastest; `subtitle` has the
facts that all points share.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpcalc.charts.chart import KINDS, Axis, Chart, Limit, Series, aligned, fitted, scale_for
from dpcalc.charts.plot import figure_bytes, plain_text, set_titles, tick_text
from dpcalc.config.source import visible
from dpcalc.errors import counted
from dpcalc.guarantee import Kind
from dpcalc.report.output import Json, Output, Table, cell, cells, csv_document, lines, yes_no
from dpcalc.report.rounding import rounded_up
from dpcalc.sweep.points import GridAxis, Outcome, numbers_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = ("epsilon", "kind", "method", "budget", "fits", "error")  # of a point in CSV
SHOWN = ("epsilon", "kind", "method", "fits")  # of a point in a table


def point_json(outcome: Outcome) -> Json:
    is_known = outcome.epsilon is not None
    return {
        "epsilon": outcome.epsilon,
        "finite": None if outcome.epsilon is None else math.isfinite(outcome.epsilon),
        "kind": str(outcome.kind) if is_known else None,
        "method": outcome.method or None,
        "budget": outcome.budget,
        "fits": outcome.fits,
        "error": visible(outcome.error) or None,
    }


def sweep_lines(axes: Sequence[GridAxis], outcomes: Sequence[Outcome], *, width: int = 0) -> str:
    """Return a table with errors beside their rows (`width` 0, a pipe), or fitted to a terminal, errors below it."""
    keys = [key for key, _ in axes]
    rows = [(*keys, *SHOWN), *map(_row, outcomes)]
    if not width:  # errors stand behind the aligned columns, which their length would tear apart
        ends = ["", *(f"  {visible(each.error or each.note)}".rstrip() for each in outcomes)]
        return "".join(f"{line}{end}\n" for line, end in zip(aligned(rows), ends, strict=True))
    names = [key.rpartition(".")[2] for key in keys]
    short = names if len({*names}) == len(names) else keys
    fitting = fitted(rows, short=(*short, *SHOWN), width=width)
    times = Counter(note for outcome in outcomes if (note := visible(outcome.error or outcome.note)))
    for note, count in times.items():
        fitting += textwrap.wrap(f"{note} ({counted(count, 'point', ',')})", width, subsequent_indent="  ")
    return "".join(f"{line}\n" for line in fitting)


def _row(outcome: Outcome) -> tuple[str, ...]:
    """Return the values of a point, and its answer as a table shows it: rounded up, but never onto the budget."""
    if outcome.epsilon is None:
        return (*outcome.values, *("-",) * len(SHOWN))
    epsilon = rounded_up(outcome.epsilon, apart_from=outcome.budget)
    return (*outcome.values, *cells(lines(point_json(outcome), epsilon=epsilon), SHOWN))


def sweep_csv(axes: Sequence[GridAxis], outcomes: Sequence[Outcome]) -> str:
    def shown(value: object) -> str:
        if isinstance(value, bool):
            return yes_no(value)
        return repr(value) if isinstance(value, float) else cell(str(value or ""))

    rows = [[*(cell(key) for key, _ in axes), *COLUMNS]]
    for outcome in outcomes:
        kind = None if outcome.epsilon is None else outcome.kind
        columns = (outcome.epsilon, kind, outcome.method, outcome.budget, outcome.fits, outcome.error)
        rows.append([*map(cell, outcome.values), *map(shown, columns)])
    return csv_document(rows)


def sweep_output(axes: Sequence[GridAxis], outcomes: Sequence[Outcome], *, path: str, is_complete: bool) -> Output:
    """Return the result of `sweep`: axes, whether all points are finished, and those that are."""

    def number_or_word(text: str) -> float | str:
        try:
            return float(text)
        except ValueError:
            return text

    points = []
    for outcome in outcomes:
        values = {key: number_or_word(text) for (key, _), text in zip(axes, outcome.values, strict=True)}
        points.append({"values": values, **point_json(outcome)})
    return Output(
        command="sweep",
        result={
            "config": {"path": path},
            "over": [{"key": key, "values": list(map(number_or_word, texts))} for key, texts in axes],
            "complete": is_complete,
            "points": points,
        },
        table=Table(
            headline=summary(outcomes),
            columns=(*(key for key, _ in axes), *SHOWN, "note"),
            rows=[(*_row(outcome), visible(outcome.error or outcome.note)) for outcome in outcomes],
        ),
        csv=sweep_csv(axes, outcomes),
    )


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
    if number := kinds[Kind.CONDITIONAL]:
        words.append(
            f"{number:,} conditional (a library counts as told of each point's run, unless `assuming` is stated)"
        )
    words += [f"{fits[True]:,} within the budget", f"{fits[False]:,} over it"] if fits[True] or fits[False] else []
    words += [f"{unknown:,} without an answer"] if unknown else []
    unused = sum(bool(outcome.note) for outcome in outcomes)
    words += [f"{unused:,} where the secret order lowers nothing, as with order: any"] if unused else []
    return ", ".join(words)


def sweep_chart(key: str, outcomes: Sequence[Outcome], *, subtitle: str = "") -> Chart:
    """Return epsilon over one key, with the budget if all share one; estimates and bounds are a line each."""
    ordered = sorted(outcomes, key=lambda outcome: float(outcome.values[0]))
    xs = tuple(float(outcome.values[0]) for outcome in ordered)
    series = []
    for kind, name in ((Kind.ESTIMATE, "inversion"), (Kind.UPPER, "certified"), (Kind.CONDITIONAL, "conditional")):
        ys = tuple(outcome.epsilon if outcome.kind is kind else None for outcome in ordered)
        methods = {outcome.method for outcome in ordered if outcome.kind is kind and outcome.method}
        if any(y is not None for y in ys):
            method = methods.pop() if len(methods) == 1 else ""
            series.append(Series(name=name, kind=kind, xs=xs, ys=ys, method=method))
    if not series:
        series = [Series(name="no answer", kind=Kind.ESTIMATE, xs=xs, ys=(None,) * len(xs))]
    budgets = {outcome.budget for outcome in ordered}
    return Chart(
        title=f"epsilon over {key}",
        subtitle=subtitle,
        x=Axis(name=key, scale=scale_for(xs)),
        y=Axis(name="epsilon", scale=scale_for(y for line in series for y in line.ys if y and y < math.inf)),
        series=tuple(series),
        limits=tuple(Limit(name="budget", value=limit) for limit in budgets if limit is not None and len(budgets) == 1),
    )


# Grids over two keys as maps, for a terminal and as pictures.

OVER_BUDGET, UNKNOWN = "*", "-"
_STYLES = {True: "green", False: "red", None: ""}  # of cells within the budget, over it, and without one
_DIGITS = 2  # significant digits of a cell, so that a terminal has room for a dozen columns
_PLAIN = 1e7  # from here on a number is written with an exponent
_MAX_ROWS = 40  # what fits on a screen
_DECADES = 100  # ratio of the largest to the smallest epsilon below which a bar has more numbers than powers of ten
_MAX_NUMBERS, _MAX_TICKS = 150, 12  # numbers in cells, and labels on an axis, that a picture has room for


def _ticks(axis: GridAxis) -> list[str]:
    numbers = numbers_of(axis)
    if numbers is None:
        return list(axis[1])
    return [f"{x:,.0f}" if x.is_integer() and abs(x) < _PLAIN else f"{x:.4g}" for x in numbers]


def heat_text(
    axes: Sequence[GridAxis], outcomes: Sequence[Outcome], *, width: int, styled: bool, subtitle: str = ""
) -> str:
    """Return a table of epsilon over two keys, rounded up; what has no room is left out evenly, never averaged."""
    from dpcalc.report.terminal import grid_text

    def evenly_spaced(count: int, limit: int) -> list[int]:  # the first and the last among them
        return [round(at * (count - 1) / (limit - 1)) for at in range(limit)] if count > limit else list(range(count))

    down, across = map(_ticks, axes)
    texts = []
    for outcome in outcomes:
        number = UNKNOWN if outcome.epsilon is None else rounded_up(outcome.epsilon, digits=_DIGITS)
        texts.append(number + (OVER_BUDGET if outcome.fits is False else ""))
    size = max(map(len, (*texts, *across)))
    rows = evenly_spaced(len(down), _MAX_ROWS)
    columns = evenly_spaced(len(across), max(2, (width - max(map(len, down))) // (size + 2)))
    table = []
    for row in rows:
        places = [row * len(across) + column for column in columns]
        table.append(((down[row], "bold"), *((texts[at], _STYLES[outcomes[at].fits]) for at in places)))
    notes = [f"{OVER_BUDGET} over the budget"] if any(outcome.fits is False for outcome in outcomes) else []
    if (len(rows), len(columns)) != (len(down), len(across)):
        notes.append(f"shown: {len(rows)} of {len(down)} rows, {len(columns)} of {len(across)} columns")
    return grid_text(
        f"epsilon: {axes[0][0]} (down), {axes[1][0]} (across)",
        ("", *(across[column] for column in columns)),
        table,
        [*notes, *([visible(subtitle)] if subtitle else [])],
        width=width,
        styled=styled,
    )


def heat_picture(axes: Sequence[GridAxis], outcomes: Sequence[Outcome], ending: str, *, subtitle: str = "") -> bytes:
    """Return the picture of a map; the scale is of finite epsilons > 0, a line runs along the edge of the budget."""
    up, across = axes
    shape = len(up[1]), len(across[1])
    epsilons = np.array([each.epsilon or math.nan for each in outcomes], dtype=float).reshape(shape)
    epsilons[~np.isfinite(epsilons)] = math.nan
    known = [outcome for outcome in outcomes if outcome.epsilon is not None]
    # Cell (row, column) is centred at (column, row); beside a cell that is not known there is no edge of the budget.
    inside = np.array([math.nan if each.fits is None else each.fits for each in outcomes], dtype=float).reshape(shape)
    upright, level = (np.argwhere(np.abs(np.diff(inside, axis=axis)) == 1) for axis in (1, 0))
    edges = [[(column + 0.5, row - 0.5), (column + 0.5, row + 0.5)] for row, column in upright]
    edges += [[(column - 0.5, row + 0.5), (column + 0.5, row + 0.5)] for row, column in level]
    title = "epsilon"
    budgets = {outcome.budget for outcome in known}
    if len(budgets) == 1 and None not in budgets:  # a budget that is swept itself has no single border to name
        title += f"; line: budget {budgets.pop()!r}" if edges else f"; budget {budgets.pop()!r}"

    def draw(figure: Figure) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator

        plot = figure.add_subplot()
        # Logarithmic colours: epsilon often spans decades. Without two different numbers there is nothing to scale by.
        shown = epsilons[np.isfinite(epsilons)]
        scale = LogNorm(shown.min(), shown.max()) if shown.size and shown.min() < shown.max() else None
        mesh = plot.imshow(epsilons, origin="lower", aspect="auto", cmap="viridis_r", norm=scale, gid="heat")
        kinds = {outcome.kind for outcome in known}
        label = "epsilon: " + " or ".join(KINDS[kind] for kind in KINDS if kind in kinds)
        # So few decades say too little by their powers of ten alone.
        is_short = scale is not None and shown.max() < _DECADES * shown.min()
        ticks = LogLocator(subs=(1, 2, 3, 5, 7) if is_short else (1,)) if scale is not None else None
        bar = figure.colorbar(mesh, label=label, ticks=ticks, format=lambda number, _: tick_text(number))
        bar.ax.yaxis.set_minor_formatter("")
        if epsilons.size <= _MAX_NUMBERS:
            style = {"facecolor": "white", "alpha": 0.6, "edgecolor": "none", "pad": 1.0}
            for (row, column), value in np.ndenumerate(epsilons):
                if math.isfinite(value):
                    plot.text(column, row, rounded_up(value), ha="center", va="center", fontsize=7, bbox=style)
        plot.add_collection(LineCollection(edges, colors="black", linewidths=2, gid="budget"))
        set_titles(plot, title, subtitle)
        for drawn, axis in ((plot.xaxis, across), (plot.yaxis, up)):
            step = max(1, math.ceil(len(axis[1]) / _MAX_TICKS))
            drawn.set_ticks(list(range(0, len(axis[1]), step)), _ticks(axis)[::step])
        plot.set_xlabel(plain_text(across[0]))
        plot.set_ylabel(plain_text(up[0]))

    return figure_bytes(draw, ending)
