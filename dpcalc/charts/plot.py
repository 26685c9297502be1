"""Drawings of a chart: in characters, a mark for each line, or as a picture by matplotlib, loaded only then."""

from __future__ import annotations

import io
import itertools
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpcalc.charts.chart import LINEAR, LOG, Axis, Chart, Limit, Series, legend, x_text
from dpcalc.config.source import visible
from dpcalc.errors import InputError
from dpcalc.guarantee import Kind
from dpcalc.planner.words import with_thousands_separators
from dpcalc.records import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as MatplotlibAxis
    from matplotlib.figure import Figure

FORMATS = ("svg", "png", "pdf")
# Okabe and Ito's colours, which people with any colour vision tell apart; without colour, dashes and markers do.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES = ("-", "--", "-.", ":")
_MARKERS = "oxs^vD*+"
_REFERENCE: dict[str, Any] = {"linestyle": ":", "linewidth": 1.2}
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
    """Return a file name's ending "svg", "png" or "pdf"; InputError for any other, or if matplotlib is missing."""
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise InputError(f"--plot: expected a file name ending in {', '.join(FORMATS)}, got {path}")
    try:
        _load_matplotlib()
    except InputError as error:
        raise InputError(f"--plot: {error}, or leave --plot out") from error
    return ending


def _load_matplotlib() -> None:
    """Import matplotlib without the settings of the current folder; InputError if it is not installed."""
    try:
        with _in_own_folder():
            import matplotlib.figure  # noqa: F401  loads matplotlib, and what draws
    except ImportError as error:
        raise InputError("expected matplotlib, which is not installed; run `pip install matplotlib`") from error


@contextmanager
def _in_own_folder() -> Iterator[None]:
    """Change into dpcalc's folder for the block, if possible, so that no matplotlibrc of the user's folder is read."""
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
    """Return a chart as a picture's bytes, reproducibly; InputError if the ending is unknown or matplotlib missing.

    Args:
        chart: the chart; infinite and missing numbers are left out.
        ending: one of FORMATS.
    """
    return figure_bytes(lambda figure: _draw_chart(figure, chart), ending)


def _draw_chart(figure: Figure, chart: Chart) -> None:
    """Draw the whole chart into a figure: lines, bands, limits, ticks, titles and legend."""
    axes = figure.add_subplot()
    axes.set_xscale(chart.x.scale)
    axes.set_yscale(chart.y.scale)
    _draw_lines(axes, chart)
    _shade_between(axes, chart)
    for number, limit in enumerate(chart.limits):
        _draw_limit(axes, limit, number)
    if chart.y.scale == LINEAR:
        axes.set_ylim(bottom=0)
    _set_ticks(axes, chart)
    set_titles(axes, chart.title, chart.subtitle)
    axes.set_xlabel(plain_text(chart.x.title or chart.x.name))
    axes.set_ylabel(plain_text(chart.y.title or chart.y.name))
    axes.grid(visible=True, alpha=0.3)
    _draw_legend(figure, axes)


def _draw_lines(axes: Axes, chart: Chart) -> None:
    """Draw the lines, each in its own style so that all are seen where they coincide; reference lines are gray."""
    colors = _line_colors(chart.series)
    for number, series in enumerate(chart.series):
        shown = [math.nan if y is None or not math.isfinite(y) else y for y in series.ys]
        style = _REFERENCE if series.is_reference else _line_style(number, len(chart.series))
        color = "gray" if series.is_reference else colors[number]
        label = plain_text(legend(series))
        axes.plot(series.xs, shown, label=label, gid=f"series-{number}", color=color, **style)


def _line_style(number: int, lines: int) -> dict[str, Any]:
    """Return dashes, width and markers of a line by its number from 0; the first of several is wide and pale."""
    # Lines can coincide: with markers at points of its own each is seen.
    is_below = number == 0 and lines > 1
    return {
        "linestyle": _STYLES[number % len(_STYLES)],
        "linewidth": 4.5 if is_below else 1.6,
        "alpha": 0.5 if is_below else 1.0,
        "marker": _MARKERS[number % len(_MARKERS)],
        "markersize": 5,
        "markevery": (number % 4, min(4, lines)),
    }


def _draw_limit(axes: Axes, limit: Limit, number: int) -> None:
    """Draw a limit across the axes as a black line, with dashes by its number from 0."""
    draw = axes.axhline if limit.axis == "y" else axes.axvline
    dashes = (0, _DASHES[number % len(_DASHES)])
    name = plain_text(f"{limit.name} {limit.value!r}")
    draw(limit.value, color="black", linewidth=1, linestyle=dashes, label=name, gid=f"limit-{number}")


def _set_ticks(axes: Axes, chart: Chart) -> None:
    """Set the ticks of both axes and their labels; a linear x axis of whole numbers has whole ticks only."""
    from matplotlib.ticker import MaxNLocator

    for axis, scale in ((axes.xaxis, chart.x.scale), (axes.yaxis, chart.y.scale)):
        if scale == LOG:
            _set_log_ticks(axis)
        axis.set_major_formatter(lambda number, _: tick_text(number))
    if chart.x.scale == LINEAR and all(x == round(x) for series in chart.series for x in series.xs):
        axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 2.5, 5, 10], integer=True))


def _set_log_ticks(axis: MatplotlibAxis) -> None:
    """Set ticks at powers of ten, below a range of 1000 at 1, 2 and 5 times them; minor ticks have no labels."""
    from matplotlib.ticker import LogLocator

    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < _DECADE_RATIO * low else (1.0,)))
    axis.set_minor_formatter("")


def _draw_legend(figure: Figure, axes: Axes) -> None:
    """Draw the legend below the axes, in two columns if its entries are short; many rows make the figure higher."""
    entries = axes.get_legend_handles_labels()
    columns = 2 if max(map(len, entries[1])) < _MAX_HALF_ENTRY else 1
    rows = math.ceil(len(entries[1]) / columns)
    figure.set_figheight(_HEIGHT + _LEGEND_ROW * max(0, rows - 2))
    figure.legend(*entries, loc="outside lower center", ncols=columns, fontsize=9)


def tick_text(number: float) -> str:
    """Return the label of a tick: a whole number below a million with separators, any other with six digits."""
    return f"{number:,.0f}" if number == round(number) and abs(number) < 1e6 else f"{number:g}"


def _are_ends(upper: Series, lower: Series) -> bool:
    """Return True for an upper and a lower bound on one quantity: equal xs, and the lower one is no reference line."""
    are_bounds = (upper.kind, lower.kind) == (Kind.UPPER, Kind.LOWER) and not lower.is_reference
    return are_bounds and upper.xs == lower.xs


def _line_colors(series: Sequence[Series]) -> list[str]:
    """Return a colour for each line; a lower bound has the colour of the upper bound just before it."""
    colors: list[str] = []
    fresh = itertools.cycle(_COLORS)
    for number, line in enumerate(series):
        is_second_end = number > 0 and _are_ends(series[number - 1], line)
        colors.append(colors[-1] if is_second_end else next(fresh))
    return colors


def _shade_between(axes: Axes, chart: Chart) -> None:
    """Shade between each upper bound and the lower bound after it in `series`, in its colour, where both are finite."""
    label, colors = "where the exact value lies", _line_colors(chart.series)
    for number, (upper, lower) in enumerate(pairwise(chart.series)):
        if _are_ends(upper, lower):
            high, low = np.array([upper.ys, lower.ys], dtype=float)
            known = np.isfinite(high) & np.isfinite(low)
            style: dict[str, Any] = {"color": colors[number], "alpha": 0.2, "linewidth": 0}
            axes.fill_between(upper.xs, low, high, where=known, label=label, gid=f"band-{number}", **style)
            label = "_"  # one entry of the legend is enough: names that begin so are left out


def set_titles(axes: Axes, title: str, subtitle: str) -> None:
    """Set the figure's title and, in small letters, the subtitle in the fewest lines of at most 110 characters.

    Args:
        axes: the only axes of the figure.
        title: one line.
        subtitle: lines that are wrapped.
    """
    axes.figure.suptitle(plain_text(title))
    lines = [line for part in subtitle.split("\n") for line in _evenly_wrapped(part)]
    axes.set_title("\n".join(map(plain_text, lines)), fontsize=8)


def _evenly_wrapped(text: str) -> list[str]:
    """Return a text in the fewest lines of at most 110 characters, broken so that they are about equally long."""
    # So no word is left alone in the last line.
    count = len(textwrap.wrap(text, _SUBTITLE_WIDTH, break_on_hyphens=False))
    widths = (textwrap.wrap(text, width, break_on_hyphens=False) for width in range(40, _SUBTITLE_WIDTH + 1))
    return next(lines for lines in widths if len(lines) <= count)


def plain_text(text: str) -> str:
    """Return a text that matplotlib shows unchanged, not as a formula, with control characters escaped."""
    return visible(text).replace("$", r"\$")


def figure_bytes(draw: Callable[[Figure], object], ending: str) -> bytes:
    """Return the file of what `draw` draws, always the same bytes; InputError for an ending, or without matplotlib.

    Args:
        draw: draws into the empty figure.
        ending: one of FORMATS.
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


# Charts in characters, for a terminal: every line has a mark of its own, so that no colour is needed.

_STEPS = (1, 2, 2.5, 5, 10)
_DECADES = 2.0  # length of a logarithmic axis from which on its ticks are powers of ten


def round_ticks(low: float, high: float, *, max_ticks: int, is_log: bool) -> tuple[float, ...]:
    """Return round numbers in [low, high] for the ticks of an axis; the two ends if there is at most one.

    Args:
        low: lower end; > 0 on a logarithmic axis.
        high: upper end, greater than `low`.
        max_ticks: largest number of ticks, >= 2.
        is_log: True for a logarithmic axis.

    Example:
        >>> round_ticks(0.0, 4.7, max_ticks=5, is_log=False)
        (0.0, 1.0, 2.0, 3.0, 4.0)
        >>> round_ticks(1e-4, 1.0, max_ticks=5, is_log=True)
        (0.0001, 0.001, 0.01, 0.1, 1.0)
    """
    spaced = _powers_of_ten if is_log and high > low * 10**_DECADES else _round_multiples
    ticks = spaced(low, high, max_ticks)
    return ticks if len(ticks) > 1 else (low, high)


def _round_multiples(low: float, high: float, max_ticks: int) -> tuple[float, ...]:
    """Return the multiples in [low, high] of the smallest round step that gives at most `max_ticks` of them."""
    # From a step that is surely too small upwards; 1e-9 of a step is the round-off of a division.
    power = math.floor(math.log10((high - low) / max_ticks))
    for part in _STEPS:
        step = part * 10.0**power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < max_ticks:
            return tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
    return (low, high)


def _powers_of_ten(low: float, high: float, max_ticks: int) -> tuple[float, ...]:
    """Return the powers of ten in [low, high], or every n-th of them if there are more than `max_ticks`."""
    # The logarithm of a power of ten may be a last digit off.
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    spacing = max(1, math.ceil((last - first + 1) / max_ticks))
    return tuple(float(f"1e{power}") for power in range(first, last + 1) if power % spacing == 0)


MARKS = "ox+*#@%&"
HEIGHT = 18  # rows between title and axis: a chart with its legend fits on a screen of 24 lines
_MIN_WIDTH = 60  # columns that are used even on a narrower terminal
_MIN_PLOT_WIDTH = 30  # of these, for the lines beside long labels
_MAX_TICKS = 5
_FROM_ZERO_X, _FROM_ZERO_Y = 0.2, 0.5  # smallest over largest number up to which a linear axis begins at 0


@dataclass(frozen=True)
class _Scale:
    """Maps the values of one axis to places on the canvas, from 0 to size - 1.

    Attributes:
        low: value of place 0, its natural logarithm on a logarithmic axis.
        high: value of place size - 1, likewise.
        size: number of rows or columns.
        is_log: True for a logarithmic axis.
    """

    low: float
    high: float
    size: int
    is_log: bool

    @classmethod
    def covering(cls, axis: Axis, values: Iterable[float], size: int, *, from_zero: float) -> Self:
        """Return the scale that covers the values; a linear one from 0 on if min / max of them is below `from_zero`.

        Args:
            axis: linear or logarithmic.
            values: finite values; those <= 0 are ignored on a logarithmic axis.
            size: number of rows or columns.
            from_zero: ratio of the smallest to the largest value, in [0, 1].
        """
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

    def place(self, value: float) -> float | None:
        """Return the place of a value in [0, size - 1], not rounded; None if it is off the scale."""
        if self.is_log and value <= 0:
            return None
        # The smallest and the largest value may lie outside by round-off.
        share = ((math.log(value) if self.is_log else value) - self.low) / (self.high - self.low)
        return share * (self.size - 1) if -1e-9 <= share <= 1 + 1e-9 else None

    def ticks(self) -> tuple[tuple[float, float], ...]:
        """Return (round number, its place) of each tick, at most 5; () for a range without a finite length."""
        low, high = (math.exp(self.low), math.exp(self.high)) if self.is_log else (self.low, self.high)
        if not 0 < high - low < math.inf:
            return ()
        values = round_ticks(low, high, max_ticks=_MAX_TICKS, is_log=self.is_log)
        places = ((value, self.place(value)) for value in values)
        return tuple((value, place) for value, place in places if place is not None)


def chart_text(chart: Chart, *, width: int) -> str:
    """Return the chart drawn in characters, at least 60 columns wide, with titles, axes and legend.

    Args:
        chart: the chart; infinite and missing numbers are left out.
        width: columns of the terminal.
    """
    ys = [y for series in chart.series for y in series.ys if y is not None and math.isfinite(y)]
    ys += [limit.value for limit in chart.limits if limit.axis == "y"]
    xs = [x for series in chart.series for x in series.xs]
    # The vertical axis first: the width of its labels decides how many columns are left for the lines.
    down = _Scale.covering(chart.y, ys, HEIGHT, from_zero=_FROM_ZERO_Y)
    labels = {round(place): _tick_text(value) for value, place in down.ticks()}
    margin = max(map(len, labels.values()), default=0)
    columns = max(_MIN_PLOT_WIDTH, max(width, _MIN_WIDTH) - margin - 2)
    across = _Scale.covering(chart.x, xs, columns, from_zero=_FROM_ZERO_X)
    cells = _canvas(chart, across, down)
    lines = [
        *(line for part in (chart.title, *chart.subtitle.split("\n")) for line in _wrapped(part, width)),
        visible(chart.y.title or chart.y.name),
        *_plot_lines(cells, labels, margin),
        _tick_line(across, margin),
        f"{visible(chart.x.title or chart.x.name):^{across.size + margin + 2}}".rstrip(),
        *_legend_lines(chart, {mark for row in cells for mark in row}, width),
    ]
    return "".join(f"{line}\n" for line in lines)


def _plot_lines(cells: Sequence[Sequence[str]], labels: Mapping[int, str], margin: int) -> Iterator[str]:
    """Yield the rows of the plot from the top, with the vertical axis and its labels, then the horizontal axis."""
    for row in reversed(range(len(cells))):
        tick = labels.get(row, "")
        yield f"{tick:>{margin}} {'+' if tick else '|'}{''.join(cells[row])}".rstrip()
    yield f"{'':>{margin}} +{'-' * len(cells[0])}"


def _legend_lines(chart: Chart, seen: set[str], width: int) -> list[str]:
    """Return the lines of the legend: one for each mark, with a remark if it is hidden, and one for each limit."""
    lines: list[str] = []
    for mark, series in _with_marks(chart.series):
        is_hidden = mark not in seen and any(y is not None and math.isfinite(y) for y in series.ys)
        remark = " (hidden by the lines named above it)" if is_hidden else ""
        lines += _wrapped(f"{mark} {legend(series)}{remark}", width)
    for limit in chart.limits:
        lines += _wrapped(f"{'-' if limit.axis == 'y' else ':'} {limit.name} {limit.value!r}", width)
    return lines


def _tick_text(value: float) -> str:
    """Return a number beside an axis, with thousands separators."""
    return with_thousands_separators(x_text(value))


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines of at most `width` columns, or 60 if that is more."""
    return textwrap.wrap(visible(text), max(width, _MIN_WIDTH), subsequent_indent="  ", break_on_hyphens=False)


def _with_marks(series: Sequence[Series]) -> Iterable[tuple[str, Series]]:
    """Return (mark, line) of each line; marks repeat after eight."""
    return zip(itertools.cycle(MARKS), series, strict=False)


def _canvas(chart: Chart, across: _Scale, down: _Scale) -> list[list[str]]:
    """Return the rows of characters of the plot, lowest first; lines cover limits, and the first line is on top."""
    cells = [[" "] * across.size for _ in range(down.size)]
    for limit in chart.limits:
        _mark_limit(cells, limit, down if limit.axis == "y" else across)
    # Drawn from the last to the first, so that the first line is on top where lines meet.
    for mark, series in reversed(list(_with_marks(chart.series))):
        for column, height in _line_cells(series, across, down):
            cells[height][column] = mark
    return cells


def _mark_limit(cells: list[list[str]], limit: Limit, scale: _Scale) -> None:
    """Fill the row of a limit on y with "-", or the column of one on x with ":"; nothing if it is off the scale."""
    place = scale.place(limit.value)
    if place is None:
        return
    if limit.axis == "y":
        cells[round(place)] = ["-"] * len(cells[0])
    else:
        for row in cells:
            row[round(place)] = ":"


def _line_cells(series: Series, across: _Scale, upward: _Scale) -> Iterable[tuple[int, int]]:
    """Yield (column, row from below) of each character of a line; a point that is not shown leaves a gap."""
    places = [_point_place(x, y, across, upward) for x, y in zip(series.xs, series.ys, strict=True)]
    yield from ((round(place[0]), round(place[1])) for place in places if place is not None)
    # As many points between two neighbours as the longer of the two distances has cells: no cell is left out.
    for start, end in pairwise(places):
        if start is None or end is None:
            continue
        (x, y), (to_x, to_y) = start, end
        count = math.ceil(max(abs(to_x - x), abs(to_y - y)))
        yield from ((round(x + (to_x - x) * at / count), round(y + (to_y - y) * at / count)) for at in range(1, count))


def _point_place(x: float, y: float | None, across: _Scale, upward: _Scale) -> tuple[float, float] | None:
    """Return (column, row from below) of a point, not rounded; None if it is infinite, missing or off a scale."""
    column = across.place(x)
    row = None if y is None or not math.isfinite(y) else upward.place(y)
    return None if column is None or row is None else (column, row)


def _tick_line(across: _Scale, margin: int) -> str:
    """Return the tick labels of the horizontal axis, centred below their ticks; those that would touch are left out."""
    line = [" "] * (across.size + margin + 2)
    # A number is written only where it and the character on either side of it are blank.
    for value, place in across.ticks():
        text = _tick_text(value)
        start = min(max(round(place) + margin + 2 - len(text) // 2, 0), len(line) - len(text))
        if "".join(line[max(start - 1, 0) : start + len(text) + 1]).strip() == "":
            line[start : start + len(text)] = text
    return "".join(line).rstrip()
