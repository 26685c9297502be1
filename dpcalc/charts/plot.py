"""Drawings of a chart: in characters, a mark for each line, or as a picture by matplotlib, loaded only then."""

from __future__ import annotations

import io
import itertools
import math
import os
import textwrap
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpcalc.charts.chart import LINEAR, LOG, Axis, Chart, Series, legend, x_text
from dpcalc.config.source import visible
from dpcalc.errors import InputError
from dpcalc.guarantee import Kind
from dpcalc.planner.words import with_thousands_separators
from dpcalc.records import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")
# Okabe and Ito's colours, which people with any colour vision tell apart. The style is the claim of a line.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = {Kind.UPPER: "-", Kind.LOWER: "--"}  # others are no bounds, and dotted
_VISIBLE_BAND = 0.01  # relative difference of two ends from which on there is a band to see
_DECADE_RATIO = 1e3  # ratio of the ends of a logarithmic axis from which on only powers of ten are labelled
_SUBTITLE_WIDTH = 110  # characters of a line of small letters
_SMALL_LINE = 10  # points that it is high
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
    """Return a file name's ending; InputError if it is none of FORMATS, or without matplotlib."""
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise InputError(f"--plot: expected a file name ending in {', '.join(FORMATS)}, got {path}")
    try:
        _load_matplotlib()
    except InputError as error:
        raise InputError(f"--plot: {error}, or leave --plot out") from error
    return ending


def _load_matplotlib() -> None:
    """Import matplotlib, from dpcalc's own folder if possible; InputError if it is not installed."""
    # matplotlib reads `matplotlibrc` of the current directory while it is imported. That file may come from a hostile
    # checkout, and its settings can run LaTeX and change every picture.
    try:
        original = os.open(os.curdir, os.O_RDONLY)
    except OSError:  # the directory has been deleted, or Windows opens none
        original = None
    else:
        os.chdir(Path(__file__).parent)
    try:
        import matplotlib.figure  # noqa: F401  loads matplotlib, and what draws
    except ImportError as error:
        raise InputError("expected matplotlib, which is not installed; run `pip install matplotlib`") from error
    finally:
        if original is not None:
            os.fchdir(original)
            os.close(original)


def figure_bytes(draw: Callable[[Figure], object], ending: str) -> bytes:
    """Return the picture of what `draw` draws into an empty figure, always the same bytes; InputError if it cannot."""
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


def set_titles(axes: Axes, title: str, subtitle: str) -> None:
    """Write the title and, smaller, the subtitle above the axes."""
    lines: list[str] = []
    for text in subtitle.split("\n"):
        # Lines about equally long: so no word is left alone in the last one.
        count = len(textwrap.wrap(text, _SUBTITLE_WIDTH, break_on_hyphens=False))
        widths = (textwrap.wrap(text, width, break_on_hyphens=False) for width in range(40, _SUBTITLE_WIDTH + 1))
        lines += next(wrapped for wrapped in widths if len(wrapped) <= count)
    text = "\n".join(map(plain_text, lines))
    axes.annotate(text, (0.5, 1), (0, 5), "axes fraction", "offset points", ha="center", va="bottom", fontsize=8)
    axes.set_title(plain_text(title), pad=8 + _SMALL_LINE * len(lines))


def tick_text(number: float) -> str:
    return f"{number:,.0f}" if number == round(number) and abs(number) < 1e6 else f"{number:g}"


def plain_text(text: str) -> str:
    """Return a text that matplotlib shows unchanged, not as a formula."""
    return visible(text).replace("$", r"\$")


def chart_picture(chart: Chart, ending: str) -> bytes:
    """Return the picture file of a chart by `figure_bytes`; infinite and missing numbers are left out."""

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import LogLocator, MaxNLocator

        axes = figure.add_subplot()
        axes.set_xscale(chart.x.scale)
        axes.set_yscale(chart.y.scale)

        colors: list[str] = []
        fresh = itertools.cycle(_COLORS)
        for number, line in enumerate(chart.series):
            is_second_end = number > 0 and _are_ends(chart.series[number - 1], line)
            colors.append(colors[-1] if is_second_end else next(fresh))
            style: dict[str, Any] = {
                "color": colors[number],
                "linestyle": _STYLES.get(line.kind, ":"),
                "linewidth": 1.8,
            }
            if line.is_reference:
                style = {"color": "gray", "linestyle": ":", "linewidth": 1.2}
            shown = [math.nan if y is None or not math.isfinite(y) else y for y in line.ys]
            axes.plot(line.xs, shown, label=plain_text(legend(line)), gid=f"series-{number}", **style)

        # A band in their colour between an upper bound and the lower bound after it, where both are finite.
        label = "where the exact value lies"
        for number, (upper, lower) in enumerate(pairwise(chart.series)):
            if _are_ends(upper, lower):
                high, low = np.array([upper.ys, lower.ys], dtype=float)
                known = np.isfinite(high) & np.isfinite(low)
                if not np.any(high[known] - low[known] > _VISIBLE_BAND * np.abs(high[known])):
                    continue
                style = {"color": colors[number], "alpha": 0.2, "linewidth": 0}
                axes.fill_between(upper.xs, low, high, where=known, label=label, gid=f"band-{number}", **style)
                label = "_"  # one entry of the legend is enough: names that begin so are left out

        for number, limit in enumerate(dict.fromkeys(chart.limits)):
            across = axes.axhline if limit.axis == "y" else axes.axvline
            dashes = (0, _DASHES[number % len(_DASHES)])
            label = plain_text(f"{limit.name} {limit.value!r}")
            across(limit.value, color="black", linewidth=1, linestyle=dashes, label=label, gid=f"limit-{number}")

        if chart.y.scale == LINEAR:
            axes.set_ylim(bottom=0)
        for axis, scale in ((axes.xaxis, chart.x.scale), (axes.yaxis, chart.y.scale)):
            if scale == LOG:
                start, end = sorted(axis.get_view_interval())
                axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if end < _DECADE_RATIO * start else (1.0,)))
                axis.set_minor_formatter("")
            axis.set_major_formatter(lambda number, _: tick_text(number))
        if chart.x.scale == LINEAR and all(x == round(x) for line in chart.series for x in line.xs):
            axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 2.5, 5, 10], integer=True))

        set_titles(axes, chart.title, chart.subtitle)
        axes.set_xlabel(plain_text(chart.x.title or chart.x.name))
        axes.set_ylabel(plain_text(chart.y.title or chart.y.name))
        axes.grid(visible=True, alpha=0.3)
        # The legend is below the axes; many rows make the figure higher.
        entries = axes.get_legend_handles_labels()
        columns = 2 if max(map(len, entries[1])) < _MAX_HALF_ENTRY else 1
        rows = math.ceil(len(entries[1]) / columns)
        figure.set_figheight(_HEIGHT + _LEGEND_ROW * max(0, rows - 2))
        figure.legend(*entries, loc="outside lower center", ncols=columns, fontsize=9)

    return figure_bytes(draw, ending)


def _are_ends(upper: Series, lower: Series) -> bool:
    """Return True for an upper and a lower bound on one quantity: equal xs, and the lower one is no reference line."""
    are_bounds = (upper.kind, lower.kind) == (Kind.UPPER, Kind.LOWER) and not lower.is_reference
    return are_bounds and upper.xs == lower.xs


# Charts in characters, for a terminal: every line has a mark of its own, so that no colour is needed.

MARKS = "ox+*#@%&"
HEIGHT = 18  # rows between title and axis: a chart with its legend fits on a screen of 24 lines
_MIN_WIDTH = 60  # columns that are used even on a narrower terminal
_MIN_PLOT_WIDTH = 30  # of these, for the lines beside long labels
_MAX_TICKS = 5
_STEPS = (1, 2, 2.5, 5, 10)
_DECADES = 2.0  # length of a logarithmic axis from which on its ticks are powers of ten
_FROM_ZERO_X, _FROM_ZERO_Y = 0.2, 0.5  # smallest over largest number up to which a linear axis begins at 0


def round_ticks(low: float, high: float, *, max_ticks: int, is_log: bool) -> tuple[float, ...]:
    """Return at most `max_ticks` round numbers in [low, high], or the two ends if there is at most one such number.

    Multiples of the smallest round step; on a long logarithmic axis every n-th power of ten.

    Example:
        >>> round_ticks(0.0, 4.7, max_ticks=5, is_log=False)
        (0.0, 1.0, 2.0, 3.0, 4.0)
        >>> round_ticks(1e-4, 1.0, max_ticks=5, is_log=True)
        (0.0001, 0.001, 0.01, 0.1, 1.0)
    """
    ticks: tuple[float, ...] = ()
    if is_log and high > low * 10**_DECADES:
        # The logarithm of a power of ten may be a last digit off.
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        spacing = max(1, math.ceil((last - first + 1) / max_ticks))
        ticks = tuple(float(f"1e{power}") for power in range(first, last + 1) if power % spacing == 0)
    else:
        # From a step that is surely too small upwards; 1e-9 of a step is the round-off of a division.
        power = math.floor(math.log10((high - low) / max_ticks))
        for part in _STEPS:
            step = part * 10.0**power
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            if last - first < max_ticks:
                ticks = tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
                break
    return ticks if len(ticks) > 1 else (low, high)


@dataclass(frozen=True)
class _Scale:
    """Maps the values of an axis to places from 0 to size - 1; `low` and `high` are logarithms on a logarithmic one."""

    low: float
    high: float
    size: int
    is_log: bool

    @classmethod
    def covering(cls, axis: Axis, values: Iterable[float], size: int, *, from_zero: float) -> Self:
        """Return the scale that covers the values; a linear one from 0 on if min / max of them is below `from_zero`."""
        is_log = axis.scale == LOG
        shown = [math.log(value) if is_log else value for value in values if not is_log or value > 0]
        low, high = min(shown, default=0.0), max(shown, default=1.0)
        if not is_log and 0 <= low < from_zero * high:
            low = 0.0
        # A line of one value has no length: it is put in the middle of an axis around it.
        if high - low <= 1e-9 * max(abs(low), abs(high)):
            around = math.log(2) if is_log else 0.5 * max(1.0, abs(low))
            low, high = low - around, high + around
        return cls(low, high, size, is_log)

    def place(self, value: float | None) -> float | None:
        """Return the place of a value, not rounded; None if it is missing, infinite or off the scale."""
        if value is None or not math.isfinite(value) or (self.is_log and value <= 0):
            return None
        # The smallest and the largest value may lie outside by round-off.
        share = ((math.log(value) if self.is_log else value) - self.low) / (self.high - self.low)
        return share * (self.size - 1) if -1e-9 <= share <= 1 + 1e-9 else None

    def ticks(self) -> list[tuple[str, int]]:
        """Return the text and the place of each tick, at most 5; none for a range without a finite length."""
        low, high = (math.exp(self.low), math.exp(self.high)) if self.is_log else (self.low, self.high)
        if not 0 < high - low < math.inf:
            return []
        values = round_ticks(low, high, max_ticks=_MAX_TICKS, is_log=self.is_log)
        places = ((value, self.place(value)) for value in values)
        return [(with_thousands_separators(x_text(value)), round(at)) for value, at in places if at is not None]


def chart_text(chart: Chart, *, width: int) -> str:
    """Return the chart in characters, at least 60 columns; infinite and missing numbers are left out."""

    def wrapped(text: str) -> list[str]:
        return textwrap.wrap(visible(text), max(width, _MIN_WIDTH), subsequent_indent="  ", break_on_hyphens=False)

    ys = [y for series in chart.series for y in series.ys if y is not None and math.isfinite(y)]
    ys += [limit.value for limit in chart.limits if limit.axis == "y"]
    xs = [x for series in chart.series for x in series.xs]
    # The vertical axis first: the width of its labels decides how many columns are left for the lines.
    down = _Scale.covering(chart.y, ys, HEIGHT, from_zero=_FROM_ZERO_Y)
    labels = {row: text for text, row in down.ticks()}
    margin = max(map(len, labels.values()), default=0)
    columns = max(_MIN_PLOT_WIDTH, max(width, _MIN_WIDTH) - margin - 2)
    across = _Scale.covering(chart.x, xs, columns, from_zero=_FROM_ZERO_X)

    cells = [[" "] * columns for _ in range(HEIGHT)]  # the lowest row first
    for limit in chart.limits:
        place = (down if limit.axis == "y" else across).place(limit.value)
        if place is not None and limit.axis == "y":
            cells[round(place)] = ["-"] * columns
        elif place is not None:
            for row in cells:
                row[round(place)] = ":"
    marked = list(zip(itertools.cycle(MARKS), chart.series, strict=False))
    for mark, series in reversed(marked):  # the first line is on top where lines meet
        places = [(across.place(x), down.place(y)) for x, y in zip(series.xs, series.ys, strict=True)]
        for column, height in places:
            if column is not None and height is not None:
                cells[round(height)][round(column)] = mark
        for (column, height), (to_column, to_height) in pairwise(places):
            if column is None or height is None or to_column is None or to_height is None:
                continue  # a point that is not shown leaves a gap
            # As many points between two neighbours as the longer of the two distances has cells: none is left out.
            count = math.ceil(max(abs(to_column - column), abs(to_height - height)))
            for at in range(1, count):
                between = round(column + (to_column - column) * at / count)
                cells[round(height + (to_height - height) * at / count)][between] = mark

    lines = [line for part in (chart.title, *chart.subtitle.split("\n")) for line in wrapped(part)]
    lines.append(visible(chart.y.title or chart.y.name))
    for number in reversed(range(HEIGHT)):
        tick = labels.get(number, "")
        lines.append(f"{tick:>{margin}} {'+' if tick else '|'}{''.join(cells[number])}".rstrip())
    lines.append(f"{'':>{margin}} +{'-' * columns}")
    # Labels are centred below their ticks; one is left out if it would touch another.
    ticks = [" "] * (columns + margin + 2)
    for text, column in across.ticks():
        start = min(max(column + margin + 2 - len(text) // 2, 0), len(ticks) - len(text))
        if not "".join(ticks[max(start - 1, 0) : start + len(text) + 1]).strip():
            ticks[start : start + len(text)] = text
    lines.append("".join(ticks).rstrip())
    lines.append(f"{visible(chart.x.title or chart.x.name):^{columns + margin + 2}}".rstrip())
    seen = {mark for row in cells for mark in row}
    for mark, series in marked:
        is_hidden = mark not in seen and any(y is not None and math.isfinite(y) for y in series.ys)
        remark = " (hidden by the lines named above it)" if is_hidden else ""
        lines += wrapped(f"{mark} {legend(series)}{remark}")
    for limit in chart.limits:
        lines += wrapped(f"{'-' if limit.axis == 'y' else ':'} {limit.name} {limit.value!r}")
    return "".join(f"{line}\n" for line in lines)
