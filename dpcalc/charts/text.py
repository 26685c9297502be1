"""Charts in characters, for a terminal, and round numbers on an axis.

Every line has a mark of its own, so that no colour is needed.
"""

import itertools
import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Self

from dpcalc.charts.chart import Axis, Chart, Series, legend, x_text
from dpcalc.config.source import visible
from dpcalc.planner.words import with_thousands_separators
from dpcalc.records import dataclass

_STEPS = (1, 2, 2.5, 5, 10)
_DECADES = 2.0  # length of a logarithmic axis from which on its ticks are powers of ten


def round_ticks(low: float, high: float, *, max_ticks: int, is_log: bool) -> tuple[float, ...]:
    """Return at most `max_ticks` round numbers from low to high, the two ends if there are fewer than two.

    Args:
        low: lower end; > 0 on a logarithmic axis.
        high: upper end, greater than `low`.
        max_ticks: largest number of ticks, >= 2.
        is_log: True for a logarithmic axis.

    Returns:
        Increasing numbers, at least two; the ends themselves where no round ones lie between them.

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
    """Return the multiples in [low, high] of the smallest step 1, 2, 2.5, 5 * 10^n that has at most `max_ticks`."""
    # From a step that is surely too small upwards; 1e-9 of a step is the round-off of a division.
    power = math.floor(math.log10((high - low) / max_ticks))
    for part in _STEPS:
        step = part * 10.0**power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < max_ticks:
            return tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
    return (low, high)


def _powers_of_ten(low: float, high: float, max_ticks: int) -> tuple[float, ...]:
    """Return the powers of ten in [low, high], only every n-th so that there are at most about `max_ticks`."""
    # The logarithm of a power of ten may be a last digit off.
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    spacing = max(1, math.ceil((last - first + 1) / max_ticks))
    return tuple(float(f"1e{power}") for power in range(first, last + 1) if power % spacing == 0)


# Charts in characters


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
        """Return the scale from the smallest to the largest value; a linear one from 0 if 0 <= low < from_zero * high.

        Args:
            axis: the axis.
            values: finite values; those <= 0 are ignored on a logarithmic axis.
            size: number of rows or columns.
            from_zero: largest ratio of the smallest to the largest value with which a linear scale begins at 0.
        """
        is_log = axis.scale == "log"
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
    """Return a chart in characters: titles, 18 rows of marks, axes with ticks, legend; 60 columns or more.

    Args:
        chart: the chart; infinite and missing numbers are left out.
        width: columns of the terminal.

    Returns:
        Title, canvas, axis and legend, in lines of at most `width` columns, or 60 if that is more.
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
    lines = [*_wrapped(chart.title, width), *_wrapped(chart.subtitle, width), visible(chart.y.title or chart.y.name)]
    for row in reversed(range(HEIGHT)):
        tick = labels.get(row, "")
        lines.append(f"{tick:>{margin}} {'+' if tick else '|'}{''.join(cells[row])}".rstrip())
    lines += [f"{'':>{margin}} +{'-' * across.size}", _tick_line(across, margin)]
    lines.append(f"{visible(chart.x.title or chart.x.name):^{across.size + margin + 2}}".rstrip())
    for mark, series in _with_marks(chart.series):
        lines += _wrapped(f"{mark} {legend(series)}", width)
    for limit in chart.limits:
        lines += _wrapped(f"{'-' if limit.axis == 'y' else ':'} {limit.name} {limit.value!r}", width)
    return "".join(f"{line}\n" for line in lines)


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
    """Return rows of characters, the lowest first: limits as - or :, over them the marks of lines, the first on top."""
    cells = [[" "] * across.size for _ in range(down.size)]
    for limit in chart.limits:
        place = (down if limit.axis == "y" else across).place(limit.value)
        if place is None:
            continue
        if limit.axis == "y":
            cells[round(place)] = ["-"] * across.size
        else:
            for row in cells:
                row[round(place)] = ":"
    # Drawn from the last to the first, so that the first line is on top where lines meet.
    for mark, series in reversed(list(_with_marks(chart.series))):
        for column, height in _line_cells(series, across, down):
            cells[height][column] = mark
    return cells


def _line_cells(series: Series, across: _Scale, down: _Scale) -> Iterable[tuple[int, int]]:
    """Yield (column, row) of a line's points and of the straight way between neighbours; gaps at points not shown."""
    # A point that is not shown interrupts the line.
    places: list[tuple[float, float] | None] = []
    for x, y in zip(series.xs, series.ys, strict=True):
        column = across.place(x)
        row = None if y is None or not math.isfinite(y) else down.place(y)
        places.append(None if column is None or row is None else (column, row))
    yield from ((round(place[0]), round(place[1])) for place in places if place is not None)
    # As many points between two neighbours as the longer of the two distances has cells: no cell is left out.
    for start, end in pairwise(places):
        if start is None or end is None:
            continue
        (x, y), (to_x, to_y) = start, end
        count = math.ceil(max(abs(to_x - x), abs(to_y - y)))
        yield from ((round(x + (to_x - x) * at / count), round(y + (to_y - y) * at / count)) for at in range(1, count))


def _tick_line(across: _Scale, margin: int) -> str:
    """Return the numbers below the horizontal axis, centred at their ticks; left out where they would touch."""
    line = [" "] * (across.size + margin + 2)
    # A number is written only where it and the character on either side of it are blank.
    for value, place in across.ticks():
        text = _tick_text(value)
        start = min(max(round(place) + margin + 2 - len(text) // 2, 0), len(line) - len(text))
        if "".join(line[max(start - 1, 0) : start + len(text) + 1]).strip() == "":
            line[start : start + len(text)] = text
    return "".join(line).rstrip()
