"""Charts as pictures, drawn by matplotlib, which is imported only when a picture is drawn."""
# ruff: noqa: PLC0415  matplotlib is an extra, and slow to load

from __future__ import annotations

import io
import math
import os
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcalc.charts.chart import LINEAR, LOG, legend
from dpcalc.config.source import visible
from dpcalc.errors import InputError
from dpcalc.guarantee import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpcalc.charts.chart import Chart

FORMATS = ("svg", "png", "pdf")
# Okabe and Ito's colours, which people with any colour vision tell apart; without colour, dashes and markers do.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":")
_MARKERS = "oxs^vD*+"
_DECADE_RATIO = 1e3  # ratio of the ends of a logarithmic axis from which on only powers of ten are labelled
_SUBTITLE_WIDTH = 110  # characters of a line of small letters
_MAX_HALF_ENTRY = 45  # characters of the longest legend entry for which the legend has two columns
_HEIGHT, _LEGEND_ROW = 4.5, 0.2  # inches: of a picture with up to two rows of legend; of each row more
_DASHES = ((6, 3), (2, 2), (8, 2, 2, 2))  # of limits
_SETTINGS = {
    "svg.hashsalt": "dpcalc",  # equal charts give equal bytes
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.size": 10.0,
    "path.simplify": False,
}


def picture_format(path: str) -> str:
    """Return the ending svg, png or pdf of a file's name; InputError for others, or if matplotlib is not installed.

    Raises:
        InputError: the ending is none of FORMATS, or matplotlib is not installed.
    """
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise InputError(f"--plot: expected a file name ending in {', '.join(FORMATS)}, got {path}")
    try:
        _load_matplotlib()
    except InputError as error:
        raise InputError(f"--plot: {error}, or leave --plot out") from error
    return ending


def _load_matplotlib() -> None:
    """Import matplotlib from a folder of dpcalc; InputError if it is not installed."""
    try:
        with _in_own_folder():
            import matplotlib.figure  # noqa: F401  loads matplotlib, and what draws
    except ImportError as error:
        raise InputError("expected matplotlib, which is not installed; run `pip install matplotlib`") from error


@contextmanager
def _in_own_folder() -> Iterator[None]:
    """Change to a folder of dpcalc for the block, if possible: matplotlib reads settings of the current folder."""
    # matplotlib reads `matplotlibrc` of the current directory while it is imported. That file may come from a hostile
    # checkout, and its settings can run LaTeX and change every picture.
    try:
        original = os.open(os.curdir, os.O_RDONLY)
    except OSError:  # the directory has been deleted, or Windows opens none
        yield
        return
    os.chdir(Path(__file__).parent)
    try:
        yield
    finally:
        os.fchdir(original)
        os.close(original)


def chart_picture(chart: Chart, ending: str) -> bytes:
    """Return a chart as a picture file's content, equal charts as equal bytes; InputError: ending, no matplotlib.

    Args:
        chart: the chart; infinite and missing numbers are left out.
        ending: one of FORMATS.

    Returns:
        The content of a file; equal charts give equal bytes.

    Raises:
        InputError: the ending is none of FORMATS, or matplotlib is not installed.
    """
    return figure_bytes(lambda figure: _draw_chart(figure, chart), ending)


def _draw_chart(figure: Figure, chart: Chart) -> None:
    """Draw lines, limits, titles, labels and legend of a chart; infinite and missing numbers leave gaps."""
    # Lines can coincide: the first is wide and pale, and each has markers at points of its own, so that all are seen.
    from matplotlib.ticker import LogLocator, MaxNLocator

    axes = figure.add_subplot()
    axes.set_xscale(chart.x.scale)
    axes.set_yscale(chart.y.scale)
    for number, series in enumerate(chart.series):
        shown = [math.nan if y is None or not math.isfinite(y) else y for y in series.ys]
        first = number == 0 and len(chart.series) > 1
        reference: dict[str, Any] = {"color": "gray", "linestyle": ":", "linewidth": 1.2}
        style: dict[str, Any] = {
            "color": _COLORS[number % len(_COLORS)],
            "linestyle": _STYLES[number % len(_STYLES)],
            "linewidth": 4.5 if first else 1.6,
            "alpha": 0.5 if first else 1.0,
            "marker": _MARKERS[number % len(_MARKERS)],
            "markersize": 5,
            "markevery": (number % 4, min(4, max(1, len(chart.series)))),
        }
        drawing = reference if series.is_reference else style
        axes.plot(series.xs, shown, label=plain_text(legend(series)), gid=f"series-{number}", **drawing)
    _shade_between(axes, chart)
    for number, limit in enumerate(chart.limits):
        draw = axes.axhline if limit.axis == "y" else axes.axvline
        dashes = (0, _DASHES[number % len(_DASHES)])
        name = plain_text(f"{limit.name} {limit.value!r}")
        draw(limit.value, color="black", linewidth=1, linestyle=dashes, label=name, gid=f"limit-{number}")
    if chart.y.scale == LINEAR:
        axes.set_ylim(bottom=0)
    for axis, scale in ((axes.xaxis, chart.x.scale), (axes.yaxis, chart.y.scale)):
        if scale == LOG:
            low, high = sorted(axis.get_view_interval())
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < _DECADE_RATIO * low else (1.0,)))
            axis.set_minor_formatter("")
        axis.set_major_formatter(lambda number, _: tick_text(number))
    if chart.x.scale == LINEAR and all(x == round(x) for series in chart.series for x in series.xs):
        axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    set_titles(axes, chart.title, chart.subtitle)
    axes.set_xlabel(plain_text(chart.x.title or chart.x.name))
    axes.set_ylabel(plain_text(chart.y.title or chart.y.name))
    axes.grid(visible=True, alpha=0.3)
    entries = axes.get_legend_handles_labels()
    columns = 2 if max(map(len, entries[1])) < _MAX_HALF_ENTRY else 1
    rows = math.ceil(len(entries[1]) / columns)
    figure.set_figheight(_HEIGHT + _LEGEND_ROW * max(0, rows - 2))
    figure.legend(*entries, loc="outside lower center", ncols=columns, fontsize=9)


def tick_text(number: float) -> str:
    """Return the label of a tick: a whole number below a million with separators, any other with six digits."""
    return f"{number:,.0f}" if number == round(number) and abs(number) < 1e6 else f"{number:g}"


def _shade_between(axes: Axes, chart: Chart) -> None:
    """Shade the band between each upper bound and the lower bound after it, where both are finite; no reference."""
    label = "where the exact value lies"
    for number, (upper, lower) in enumerate(pairwise(chart.series)):
        are_ends = (upper.kind, lower.kind) == (Kind.UPPER, Kind.LOWER) and not lower.is_reference
        if are_ends and upper.xs == lower.xs:
            high, low = np.array([upper.ys, lower.ys], dtype=float)
            known = np.isfinite(high) & np.isfinite(low)
            style: dict[str, Any] = {"color": "gray", "alpha": 0.25, "linewidth": 0}
            axes.fill_between(upper.xs, low, high, where=known, label=label, gid=f"band-{number}", **style)
            label = "_"  # one entry of the legend is enough: names that begin so are left out


def set_titles(axes: Axes, title: str, subtitle: str) -> None:
    """Set the title of a figure and, below it in small letters, the subtitle, wrapped at 110 characters.

    Args:
        axes: the only axes of the figure.
        title: one line.
        subtitle: a line that is wrapped.
    """
    axes.figure.suptitle(plain_text(title))
    # The narrowest width that needs no further line: no word is left alone in the last one.
    count = len(textwrap.wrap(subtitle, _SUBTITLE_WIDTH, break_on_hyphens=False))
    widths = (textwrap.wrap(subtitle, width, break_on_hyphens=False) for width in range(40, _SUBTITLE_WIDTH + 1))
    lines = next(lines for lines in widths if len(lines) <= count)
    axes.set_title("\n".join(map(plain_text, lines)), fontsize=8)


def plain_text(text: str) -> str:
    """Return a text that matplotlib shows unchanged, not as a formula, with control characters escaped."""
    return visible(text).replace("$", r"\$")


def figure_bytes(draw: Callable[[Figure], object], ending: str) -> bytes:
    """Return a figure as a file's content, without display or user's settings; InputError: format, no matplotlib.

    Args:
        draw: draws into the empty figure.
        ending: one of FORMATS.

    Raises:
        InputError: the ending is none of FORMATS, or matplotlib is not installed.
    """
    if ending not in FORMATS:
        raise InputError(f"format of a picture: expected one of {', '.join(FORMATS)}, got {ending!r}")
    _load_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Settings of a user's matplotlibrc would change the picture, and dates in a file would change its bytes.
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        figure = Figure(figsize=(7.2, _HEIGHT), layout="constrained")
        draw(figure)
        file = io.BytesIO()
        stamps = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
        figure.savefig(file, format=ending, dpi=150, metadata=stamps[ending])
    return file.getvalue()
