"""Heat map of epsilon over two keys, as a coloured table or as a picture."""
# ruff: noqa: PLC0415  matplotlib is an extra, and slow to load

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcalc.charts.plot import figure_bytes, plain_text, set_titles
from dpcalc.report.rounding import rounded_up

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpcalc.sweep.points import GridAxis, Outcome

OVER_BUDGET, UNKNOWN = "*", "-"
_STYLES = {True: "green", False: "red", None: ""}  # of cells within the budget, over it, and without one
_DIGITS = 2  # significant digits of a cell, so that a terminal has room for a dozen columns
_MAX_ROWS = 40  # what fits on a screen
_MAX_NUMBERS, _MAX_TICKS = 150, 12  # numbers in cells, and labels on an axis, that a picture has room for


def heat_text(axes: tuple[GridAxis, GridAxis], outcomes: Sequence[Outcome], *, width: int, styled: bool) -> str:
    """Return a table of epsilons (axes down, across), rounded up, red with a star over the budget; thinned to `width`.

    Args:
        axes: (vertical axis, horizontal axis).
        outcomes: one for each point, the horizontal axis changing fastest.
        width: columns of the terminal; rows and columns that do not fit are left out evenly.
        styled: True for colours.

    Returns:
        Lines of the table below the names of its axes, and above what its marks mean.
    """
    from dpcalc.report.terminal import grid_text

    down, across = (tuple(map(_tick, axis.values, axis.numbers or axis.values)) for axis in axes)
    texts = tuple(map(_cell, outcomes))
    margin, size = max(map(len, down)), max(map(len, (*texts, *across)))
    rows = _evenly_spaced(len(down), _MAX_ROWS)
    columns = _evenly_spaced(len(across), max(2, (width - margin) // (size + 2)))
    cells = (
        ((down[row], "bold"), *((texts[at], _STYLES[outcomes[at].fits]) for at in places))
        for row, places in ((row, [row * len(across) + column for column in columns]) for row in rows)
    )
    notes = [f"{OVER_BUDGET} over the budget"] if any(outcome.fits is False for outcome in outcomes) else []
    if len(rows) < len(down) or len(columns) < len(across):
        notes.append(f"shown: {len(rows)} of {len(down)} rows, {len(columns)} of {len(across)} columns")
    return grid_text(
        f"epsilon: {axes[0].key} (down), {axes[1].key} (across)",
        ("", *(across[column] for column in columns)),
        tuple(cells),
        notes,
        width=width,
        styled=styled,
    )


def _tick(text: str, number: float | str) -> str:
    """Return a value of an axis for people: a number with four digits, any other value as it was given."""
    return text if isinstance(number, str) else f"{number:.4g}"


def _cell(outcome: Outcome) -> str:
    """Return epsilon rounded up, with a star if it is over the budget; "-" without epsilon."""
    if outcome.epsilon is None:
        return UNKNOWN
    return rounded_up(outcome.epsilon, digits=_DIGITS) + (OVER_BUDGET if outcome.fits is False else "")


def _evenly_spaced(count: int, limit: int) -> list[int]:
    """Return at most `limit` indices (from 0) of `count` items, evenly spaced, the first and the last among them."""
    if count <= limit:
        return list(range(count))
    return [round(index * (count - 1) / (limit - 1)) for index in range(limit)]


def heat_picture(
    axes: tuple[GridAxis, GridAxis], outcomes: Sequence[Outcome], ending: str, *, subtitle: str = ""
) -> bytes:
    """Return the heat map as a picture, with a line between cells within the budget and cells over it.

    Args:
        axes: (vertical axis, upwards; horizontal axis).
        outcomes: one for each point, the horizontal axis changing fastest; those without a finite epsilon stay empty.
        ending: "svg", "png" or "pdf".
        subtitle: facts that all points share; "" for none.

    Returns:
        The content of a file; equal arguments give equal bytes.
    """
    return figure_bytes(lambda figure: _draw_heat_map(figure, axes, outcomes, subtitle), ending)


def _draw_heat_map(figure: Figure, axes: tuple[GridAxis, GridAxis], outcomes: Sequence[Outcome], subtitle: str) -> None:
    """Draw the cells, their epsilons rounded up if they are few, and the border of the budget into a figure."""
    import numpy as np
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LogNorm

    up, across = axes
    width = len(across.values)
    finite = (each.epsilon for each in outcomes)
    cells = [math.nan if epsilon is None or not 0 < epsilon < math.inf else epsilon for epsilon in finite]
    epsilons = np.array(cells).reshape(len(up.values), width)
    shown = epsilons[np.isfinite(epsilons)]
    norm = LogNorm(shown.min(), shown.max()) if shown.size and shown.min() < shown.max() else None
    plot = figure.add_subplot()
    mesh = plot.imshow(epsilons, origin="lower", aspect="auto", cmap="viridis_r", norm=norm, gid="heat")
    figure.colorbar(mesh, label="epsilon")
    if epsilons.size <= _MAX_NUMBERS:
        for (row, column), value in np.ndenumerate(epsilons):
            if math.isfinite(value):
                style = {"facecolor": "white", "alpha": 0.6, "edgecolor": "none", "pad": 1.0}
                plot.text(column, row, rounded_up(value), ha="center", va="center", fontsize=7, bbox=style)
    budgets = {each.budget for each in outcomes if each.epsilon is not None}
    budget = next(iter(budgets)) if len(budgets) == 1 else None
    edges = _budget_edges([[each.fits for each in outcomes[at : at + width]] for at in range(0, len(outcomes), width)])
    plot.add_collection(LineCollection(edges, colors="black", linewidths=2, gid="budget"))
    note = "" if budget is None else f"; line: budget {budget!r}" if edges else f"; budget {budget!r}"
    set_titles(plot, f"epsilon{note}", subtitle)
    for axis, values, numbers in ((plot.xaxis, across.values, across.numbers), (plot.yaxis, up.values, up.numbers)):
        ticks = range(0, len(values), max(1, math.ceil(len(values) / _MAX_TICKS)))
        axis.set_ticks(list(ticks), [_tick(values[at], (numbers or values)[at]) for at in ticks])
    plot.set_xlabel(plain_text(across.key))
    plot.set_ylabel(plain_text(up.key))


def _budget_edges(fits: Sequence[Sequence[bool | None]]) -> list[list[tuple[float, float]]]:
    """Return the edges between cells within the budget (True) and over it (False), each as its two (x, y) ends.

    Cell (row, column) is centred at (column, row); beside a cell that is not known (None) there is no edge.
    """
    edges = []
    for row, cells in enumerate(fits):
        for column, cell in enumerate(cells):
            if column + 1 < len(cells) and {cell, cells[column + 1]} == {True, False}:
                edges.append([(column + 0.5, row - 0.5), (column + 0.5, row + 0.5)])
            if row + 1 < len(fits) and {cell, fits[row + 1][column]} == {True, False}:
                edges.append([(column - 0.5, row + 0.5), (column + 0.5, row + 0.5)])
    return edges
