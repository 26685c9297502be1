"""Drawings of a chart: in characters, a mark for each line, or as a picture by matplotlib, loaded only then."""

from __future__ import annotations

import io
import itertools
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
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
_STYLES = {Kind.UPPER: "-", Kind.CONDITIONAL: "-.", Kind.LOWER: "--"}  # others are no bounds, and dotted
_ONE_LINE = 1e-3  # relative difference of two ends up to which they are one line
_VISIBLE_BAND = 0.01  # relative difference of two ends from which on there is a band to see
_DECADE_RATIO = 1e3  # ratio of the ends of a logarithmic axis from which on only powers of ten are labelled
_SUBTITLE_WIDTH = 110  # characters of a line of small letters
_SMALL_LINE = 10  # points that it is high
_LABEL_WIDTH, _LABEL_LINE = 26, 12  # characters of a line of a label beside the axes; points from one to the next
_HEIGHT, _AROUND = 4.5, 1.3  # inches: of a picture, unless its labels need more; of what is above and below the axes
_TOGETHER = 0.1  # part of the axes' height within which ends of all lines leave no place for labels beside them
_GRAY = "#6e7781"  # of lines that are no bounds; enough contrast on white and on black
_DASHES = ((6, 3), (2, 2), (8, 2, 2, 2))  # of limits
# Charts are shown on pages that may be dark: paper and ink change places.
_DARK = """@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 !important }
[style*="fill: #ffffff"] { fill: #0d1117 !important }
[style*="stroke: #000000"] { stroke: #e6edf3 !important }
}"""
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
        raise InputError("needs matplotlib, which is not installed; run `pip install matplotlib`") from error
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
        figure = Figure(figsize=(8, _HEIGHT), layout="constrained")
        draw(figure)
        file = io.BytesIO()
        stamps = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
        figure.savefig(file, format=ending, dpi=150, metadata=stamps[ending])
    return file.getvalue().replace(b"</style>", f"\n{_DARK}\n</style>".encode(), int(ending == "svg"))


def set_titles(axes: Axes, title: str, subtitle: str) -> None:
    """Write the title and, smaller, the subtitle above the axes, at their left edge."""
    lines: list[str] = []
    for text in subtitle.split("\n"):
        # Lines about equally long: so no word is left alone in the last one.
        count = len(textwrap.wrap(text, _SUBTITLE_WIDTH, break_on_hyphens=False))
        widths = (textwrap.wrap(text, width, break_on_hyphens=False) for width in range(40, _SUBTITLE_WIDTH + 1))
        lines += next(wrapped for wrapped in widths if len(wrapped) <= count)
    text = "\n".join(map(plain_text, lines))
    axes.annotate(text, (0, 1), (0, 5), "axes fraction", "offset points", ha="left", va="bottom", fontsize=8)
    axes.set_title(plain_text(title[:1].upper() + title[1:]), loc="left", pad=8 + _SMALL_LINE * len(lines))


def tick_text(number: float) -> str:
    return f"{number:,.0f}" if number == round(number) and abs(number) < 1e6 else f"{number:g}"


def plain_text(text: str) -> str:
    """Return a text that matplotlib shows unchanged, not as a formula."""
    return visible(text).replace("$", r"\$")


def chart_picture(chart: Chart, ending: str) -> bytes:
    """Return the picture file of a chart by `figure_bytes`; infinite and missing numbers are left out.

    A colour is a run or an accountant, with both its ends; solid is an upper bound, dashed a lower one, dotted and gray
    is no bound, black a budget. Each line is named at its right end.
    """

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import LogLocator, MaxNLocator

        axes = figure.add_subplot()
        axes.set_xscale(chart.x.scale)
        axes.set_yscale(chart.y.scale)
        axes.margins(x=0)

        colors: list[str] = []
        style: dict[str, Any]
        labels: list[Label] = []
        fresh = itertools.cycle(_COLORS)
        for number, (line, above) in enumerate(zip(chart.series, (None, *chart.series), strict=False)):
            is_bound = line.kind in _STYLES and not line.is_reference
            is_second_end = above is not None and _are_ends(above, line)
            colors.append(colors[-1] if is_second_end else next(fresh) if is_bound else _GRAY)
            if is_second_end and above is not None and not _differ(above, line, _ONE_LINE):
                labels[-1:] = [(f"{text}, tight", *more) for text, *more in labels[-1:]]
                continue
            dashes = _STYLES[line.kind] if is_bound else ":"
            width = 1.2 if line.is_reference else 1.8
            ys = np.array(line.ys, dtype=float)
            ys[~np.isfinite(ys)] = math.nan
            axes.plot(line.xs, ys, gid=f"series-{number}", color=colors[number], linestyle=dashes, linewidth=width)
            ends = [(x, y) for x, y in _finite_points(line) if y > 0 or chart.y.scale == LINEAR]
            labels += [(legend(line, chart), ends[-1], colors[number], dashes)] if ends else []

        # A band in their colour between an upper bound and the lower bound after it, where both are finite.
        for number, (upper, lower) in enumerate(pairwise(chart.series)):
            if _are_ends(upper, lower) and _differ(upper, lower, _VISIBLE_BAND):
                high, low = np.array([upper.ys, lower.ys], dtype=float)
                style = {"color": colors[number], "alpha": 0.2, "linewidth": 0, "gid": f"band-{number}"}
                axes.fill_between(upper.xs, low, high, where=np.isfinite(high) & np.isfinite(low), **style)

        right = max((x for line in chart.series for x in line.xs), default=1.0)
        limits: dict[tuple[str, float], list[str]] = {}  # names by place: one line for all budgets of 3
        for limit in chart.limits:
            limits.setdefault((limit.axis, limit.value), []).append(limit.name)
        for number, ((axis, value), names) in enumerate(limits.items()):
            style = {"color": "black", "linewidth": 1, "linestyle": (0, _DASHES[number % len(_DASHES)])}
            (axes.axhline if axis == "y" else axes.axvline)(value, gid=f"limit-{number}", **style)
            text = f"{names[0] if len(set(names)) == 1 else names[0].rpartition(', ')[2]} {value!r}"
            if axis == "y":
                labels.append((text, (right, value), "black", style["linestyle"]))
            else:
                place: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "top", "fontsize": 9}
                axes.annotate(
                    plain_text(text), (value, 0.98), (-2, 0), axes.get_xaxis_transform(), "offset points", **place
                )

        if chart.y.scale == LINEAR:
            axes.set_ylim(bottom=0)
        for drawn, scale in ((axes.xaxis, chart.x.scale), (axes.yaxis, chart.y.scale)):
            if scale == LOG:
                start, end = sorted(drawn.get_view_interval())
                drawn.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if end < _DECADE_RATIO * start else (1.0,)))
                drawn.set_minor_formatter("")
            drawn.set_major_formatter(lambda number, _: tick_text(number))
        if chart.x.scale == LINEAR and all(x == round(x) for line in chart.series for x in line.xs):
            axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 2.5, 5, 10], integer=True))

        set_titles(axes, chart.title, chart.subtitle)
        axes.set_xlabel(plain_text(chart.x.title or chart.x.name))
        axes.set_ylabel(plain_text(chart.y.title or chart.y.name))
        axes.grid(visible=True, alpha=0.3)
        _name_lines(figure, axes, labels)

    return figure_bytes(draw, ending)


Label = tuple[str, tuple[float, float], str, Any]
"""What a line is called, where it ends, its colour and its style."""


def _name_lines(figure: Figure, axes: Axes, labels: Sequence[Label]) -> None:
    """Write each text beside the axes at the end of its line, moved apart; as a legend where all lines end together."""
    from matplotlib.lines import Line2D

    to_axes = axes.transScale + axes.transLimits  # from data to parts of the axes, whatever the layout makes of these
    heights = [float(to_axes.transform(end)[1]) for _, end, _, _ in labels]
    if len(labels) > 1 and max(heights) - min(heights) < _TOGETHER:
        handles = [Line2D([], [], color=color, linestyle=style) for *_, color, style in labels]
        axes.legend(handles, [plain_text(text) for text, *_ in labels], loc="best", fontsize=9)
        return
    placed = sorted(zip(heights, labels, strict=True), key=lambda pair: -pair[0])
    texts = [textwrap.wrap(text, _LABEL_WIDTH, break_on_hyphens=False) for _, (text, *_) in placed]
    points = [_LABEL_LINE * (len(lines) + 0.4) for lines in texts]
    figure.set_figheight(max(_HEIGHT, sum(points) / 72 + _AROUND))
    sizes = [each / (72 * (figure.get_figheight() - _AROUND)) for each in points]  # as parts of the axes' height
    # From above each label goes below the one before; from below each goes up as far as the lowest needs it.
    middles, ceiling, floor = [], math.inf, 0.0
    for (height, _), size in zip(placed, sizes, strict=True):
        middles.append(min(height, ceiling - size / 2))
        ceiling = middles[-1] - size / 2
    for at in reversed(range(len(middles))):
        middles[at] = max(middles[at], floor + sizes[at] / 2)
        floor = middles[at] + sizes[at] / 2
    for (_, (_, end, color, _)), lines, middle in zip(placed, texts, middles, strict=True):
        arrow = {"arrowstyle": "-", "color": color, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
        place: dict[str, Any] = {"va": "center", "fontsize": 9, "annotation_clip": False, "arrowprops": arrow}
        axes.annotate("\n".join(map(plain_text, lines)), end, (1.04, middle), "data", "axes fraction", **place)


def _differ(upper: Series, lower: Series, share: float) -> bool:
    """Return True if two ends are anywhere further apart than a share of the upper one, where both are finite."""
    high, low = np.array([upper.ys, lower.ys], dtype=float)
    known = np.isfinite(high) & np.isfinite(low)
    return bool(np.any(high[known] - low[known] > share * np.abs(high[known])))


def _finite_points(line: Series) -> list[tuple[float, float]]:
    return [(x, y) for x, y in zip(line.xs, line.ys, strict=True) if y is not None and math.isfinite(y)]


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
        first = math.ceil(math.log10(low) - 1e-9)
        last = math.floor(math.log10(high) + 1e-9)
        spacing = max(1, math.ceil((last - first + 1) / max_ticks))
        ticks = tuple(float(f"1e{power}") for power in range(first, last + 1) if power % spacing == 0)
    else:
        # From a step that is surely too small upwards; 1e-9 of a step is the round-off of a division.
        power = math.floor(math.log10((high - low) / max_ticks))
        for part in _STEPS:
            step = part * 10.0**power
            first = math.ceil(low / step - 1e-9)
            last = math.floor(high / step + 1e-9)
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
        low = min(shown, default=0.0)
        high = max(shown, default=1.0)
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


def chart_text(chart: Chart, *, width: int, styled: bool = False) -> str:
    """Return the chart in characters, at least 60 columns, marks in colours if `styled`; infinite numbers left out."""
    colours = dict(zip(MARKS, itertools.cycle((34, 33, 32, 35, 36, 31)), strict=False)) if styled else {}

    def painted(text: str) -> str:  # no mark is part of an escape sequence
        for mark, colour in colours.items():
            text = re.sub(f"{re.escape(mark)}+", f"\x1b[{colour}m\\g<0>\x1b[0m", text)
        return text

    def wrapped(text: str) -> list[str]:
        return textwrap.wrap(visible(text), max(width, _MIN_WIDTH), subsequent_indent="  ", break_on_hyphens=False)

    ys = [y for series in chart.series for _, y in _finite_points(series)]
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
        lines.append(f"{tick:>{margin}} {'+' if tick else '|'}{painted(''.join(cells[number]))}".rstrip())
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
        is_hidden = mark not in seen and _finite_points(series)
        remark = " (hidden by the lines named above it)" if is_hidden else ""
        first, *more = wrapped(f"{mark} {legend(series, chart)}{remark}")
        lines += [painted(mark) + first[1:], *more]
    for limit in chart.limits:
        lines += wrapped(f"{'-' if limit.axis == 'y' else ':'} {limit.name} {limit.value!r}")
    return "".join(f"{line}\n" for line in lines)
