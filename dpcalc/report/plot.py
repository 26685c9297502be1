"""Charts and maps as pictures: the only module that knows matplotlib, which is loaded when a picture is asked for."""
# ruff: noqa: PLC0415  matplotlib is an extra, and slow to load

from __future__ import annotations

import io
import math
import os
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcalc.config.diagnostics import visible
from dpcalc.errors import InputError
from dpcalc.planner.chart import LOG
from dpcalc.report.chart_table import legend
from dpcalc.report.rounding import rounded_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpcalc.gate.sweep import Outcome, Over
    from dpcalc.planner.chart import Chart

FORMATS = ("svg", "png", "pdf")
_STYLES = ("-", "--", "-.", ":")  # with the markers, lines differ without colour
_MARKERS = "oxs^vD*+"
_WIDE = 1e3  # ratio of ends from which on only powers of ten are named
_MOST_NUMBERS, _MOST_TICKS = 150, 12  # that a map has room for
_LINE, _HALF = 110, 45  # characters of a small line, and of a legend's entry that leaves room for one beside it
_DASHES = ((6, 3), (2, 2), (8, 2, 2, 2))  # of limits
_FIXED = {
    "svg.hashsalt": "dpcalc",  # the same chart, the same bytes
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.size": 10.0,
    "path.simplify": False,
}


def picture_format(path: str) -> str:
    """The format of a picture, by the end of its name.

    Raises:
        InputError: there is no such format, or nothing to draw with.
    """
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise InputError(f"--plot: expected a file name ending in {', '.join(FORMATS)}, got {path}")
    try:
        with _away():
            import matplotlib as mpl  # noqa: F401  is it there?
    except ImportError as error:
        extra = "run `pip install matplotlib`, or leave --plot out"
        raise InputError(f"--plot: expected matplotlib, which is not installed; {extra}") from error
    return ending


@contextmanager
def _away() -> Iterator[None]:
    """Be in a directory of dpcalc's own: matplotlib reads `matplotlibrc` of the current one while it is imported.

    That file may come from a checkout, and its settings run LaTeX and change every picture.
    """
    try:
        before = os.open(os.curdir, os.O_RDONLY)
    except OSError:  # the directory has been deleted, or Windows opens none
        yield
        return
    os.chdir(Path(__file__).parent)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)


def chart_picture(chart: Chart, ending: str) -> bytes:
    """A picture of a chart.

    Args:
        chart: what is shown; infinite numbers are left out.
        ending: one of FORMATS.

    Returns:
        The content of a file; the same chart gives the same bytes.
    """
    return _drawn(lambda figure: _chart(figure.add_subplot(), chart), ending)


def _chart(axes: Axes, chart: Chart) -> None:
    """Draw lines, limits and names.

    Of lines that coincide the first is wide and pale, and each has markers at points of its own, so that all are seen.
    """
    from matplotlib.ticker import LogLocator

    axes.set_xscale(chart.x.scale)
    axes.set_yscale(chart.y.scale)
    for number, one in enumerate(chart.series):
        shown = [math.nan if y is None or not math.isfinite(y) else y for y in one.ys]
        first = number == 0 and len(chart.series) > 1
        reference: dict[str, Any] = {"color": "gray", "linestyle": ":", "linewidth": 1.2}
        style: dict[str, Any] = {
            "linestyle": _STYLES[number % len(_STYLES)],
            "linewidth": 4.5 if first else 1.6,
            "alpha": 0.5 if first else 1.0,
            "marker": _MARKERS[number % len(_MARKERS)],
            "markersize": 5,
            "markevery": (number % 4, min(4, max(1, len(chart.series)))),
        }
        drawn = reference if one.is_reference else style
        axes.plot(one.xs, shown, label=words(legend(one)), gid=f"series-{number}", **drawn)
    for number, limit in enumerate(chart.limits):
        draw = axes.axhline if limit.axis == "y" else axes.axvline
        dashes = (0, _DASHES[number % len(_DASHES)])
        name = words(f"{limit.name} {limit.value!r}")
        draw(limit.value, color="black", linewidth=1, linestyle=dashes, label=name, gid=f"limit-{number}")
    if chart.x.scale == LOG:
        low, high = axes.get_xlim()
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < _WIDE * low else (1.0,)))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        axes.xaxis.set_minor_formatter("")
    _titled(axes, chart.title, chart.subtitle)
    axes.set_xlabel(words(chart.x.title or chart.x.name))
    axes.set_ylabel(words(chart.y.title or chart.y.name))
    axes.grid(visible=True, alpha=0.3)
    longest = max(len(legend(one)) for one in chart.series)
    axes.figure.legend(loc="outside lower center", ncols=2 if longest < _HALF else 1, fontsize=9)


def _titled(axes: Axes, title: str, subtitle: str) -> None:
    """Put the title above the figure and the facts in small letters below it."""
    axes.figure.suptitle(words(title))
    axes.set_title("\n".join(map(words, textwrap.wrap(subtitle, _LINE, break_on_hyphens=False))), fontsize=8)


def words(text: str) -> str:
    """Return a text as it is written, keys with their underscores, and never read as a formula."""
    return visible(text).replace("$", r"\$")


def _drawn(draw: Callable[[Figure], object], ending: str) -> bytes:
    """The bytes of a figure; no state of matplotlib is changed, no display needed."""
    with _away():
        import matplotlib as mpl
        from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_FIXED)
        figure = Figure(figsize=(7.2, 4.5), layout="constrained")
        draw(figure)
        file = io.BytesIO()
        stamps = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
        figure.savefig(file, format=ending, dpi=150, metadata=stamps[ending])
    return file.getvalue()


def heat_picture(axes: tuple[Over, Over], outcomes: Sequence[Outcome], ending: str, *, subtitle: str = "") -> bytes:
    """A grid over two keys as a map, with a line between the cells within the budget and those over it.

    Args:
        axes: the first goes up, the second across.
        outcomes: in their order; what has no finite epsilon stays empty.
        subtitle: what all cells have in common.
        ending: one of FORMATS.

    Returns:
        The content of a file; the same grid gives the same bytes.
    """
    return _drawn(lambda figure: _heat(figure, axes, outcomes, subtitle), ending)


def _heat(figure: Figure, axes: tuple[Over, Over], outcomes: Sequence[Outcome], subtitle: str) -> None:
    """Draw cells, their numbers where there is room, and the line of the budget."""
    import numpy as np
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LogNorm

    up, across = axes
    width = len(across.values)
    found = [one.epsilon if one.epsilon is not None and 0 < one.epsilon < math.inf else math.nan for one in outcomes]
    epsilons = np.array(found).reshape(len(up.values), width)
    shown = epsilons[np.isfinite(epsilons)]
    norm = LogNorm(shown.min(), shown.max()) if shown.size and shown.min() < shown.max() else None
    plot = figure.add_subplot()
    mesh = plot.imshow(epsilons, origin="lower", aspect="auto", cmap="viridis_r", norm=norm, gid="heat")
    figure.colorbar(mesh, label="epsilon")
    if epsilons.size <= _MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(epsilons):
            if math.isfinite(value):
                style = {"facecolor": "white", "alpha": 0.6, "edgecolor": "none", "pad": 1.0}
                plot.text(column, row, rounded_up(value), ha="center", va="center", fontsize=7, bbox=style)
    budgets = {one.budget for one in outcomes if one.epsilon is not None}
    budget = next(iter(budgets)) if len(budgets) == 1 else None
    edges = _edges([[one.fits for one in outcomes[at : at + width]] for at in range(0, len(outcomes), width)])
    plot.add_collection(LineCollection(edges, colors="black", linewidths=2, gid="budget"))
    note = "" if budget is None else f"; line: budget {budget!r}" if edges else f"; budget {budget!r}"
    _titled(plot, f"epsilon{note}", subtitle)
    for axis, values, numbers in ((plot.xaxis, across.values, across.numbers), (plot.yaxis, up.values, up.numbers)):
        some = range(0, len(values), max(1, math.ceil(len(values) / _MOST_TICKS)))
        axis.set_ticks(list(some), [values[at] if numbers is None else f"{numbers[at]:.3g}" for at in some])
    plot.set_xlabel(words(across.key))
    plot.set_ylabel(words(up.key))


def _edges(fits: Sequence[Sequence[bool | None]]) -> list[list[tuple[float, float]]]:
    """Return the edges between cells that keep to the budget and cells that do not; none beside unknown cells."""
    edges = []
    for row, cells in enumerate(fits):
        for column, one in enumerate(cells):
            if column + 1 < len(cells) and {one, cells[column + 1]} == {True, False}:
                edges.append([(column + 0.5, row - 0.5), (column + 0.5, row + 0.5)])
            if row + 1 < len(fits) and {one, fits[row + 1][column]} == {True, False}:
                edges.append([(column - 0.5, row + 0.5), (column + 0.5, row + 0.5)])
    return edges
