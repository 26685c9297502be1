"""Charts: the data of a curve, its drawing as text, table or picture, and the curves of `dpcalc curve`."""

from __future__ import annotations

import dataclasses
import io
import itertools
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dpcalc.accountants import METHODS as ACCOUNTING_METHODS
from dpcalc.accountants.rdp import sum_rounded_up
from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.errors import InputError, WorkExceededError, one_of
from dpcalc.guarantee import Kind, Result, Row, html_table, shown_number
from dpcalc.losses.moments import UNKNOWN, composed_moments, total_infinity_mass
from dpcalc.mechanisms.additive import DiscreteGaussian
from dpcalc.mechanisms.black_box import ApproximateDp
from dpcalc.numerics import Array
from dpcalc.planner.compare import gdp_row, inversion_row
from dpcalc.planner.composition import composed, is_noiseless
from dpcalc.planner.evaluate import CLOSED_FORM, delta_of, guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.published import (
    GROUP_AS_ONE,
    GROUP_MIXTURE,
    flat_poisson_row,
    general_rdp_row,
    group_rows,
    published_rdp_bounds,
    strong_composition_row,
    theorem_3_row,
)
from dpcalc.planner.risk import true_positive_rates
from dpcalc.planner.solve import require_pld_method
from dpcalc.planner.vary import (
    is_covered,
    largest_group,
    refusal,
    with_level,
    with_noise,
    with_scaled_noise,
    with_total_steps,
)
from dpcalc.planner.words import differing_facts, facts, mechanism_text, shared_facts, with_thousands_separators
from dpcalc.records import dataclass
from dpcalc.report.guarantees import epsilon_text, unit_json
from dpcalc.report.output import Output, Table, cell, csv_document, diagnostics_json, rounded_up
from dpcalc.sampling.hierarchy import Level
from dpcalc.work import FAILURES, SECOND, allowance

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINEAR, LOG = "linear", "log"
_LOG_RATIO = 100.0


def scale_for(values: Iterable[float]) -> str:
    """Return LOG for numbers > 0 that differ by more than a factor of 100, else LINEAR (also for none)."""
    # Two decades on a linear axis leave the small half of the numbers on one line of pixels.
    shown = tuple(values)
    return LOG if shown and min(shown) > 0 and max(shown) > _LOG_RATIO * min(shown) else LINEAR


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis: its name is that of a table's column, as "false_positive_rate", its title that for people, or ""."""

    name: str
    scale: str = LINEAR
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line over increasing xs; a reference is a line to compare with, such as guessing."""

    name: str  # of a config, an accountant or a direction
    kind: Kind  # the claim of its numbers
    xs: tuple[float, ...]
    ys: tuple[float | None, ...]  # None where there is no answer, infinite where there is no bound
    method: str = ""  # the accountant, "" if the name says it
    about: str = ""  # unit, adjacency and delta as far as the lines of the chart differ in them
    is_reference: bool = False


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A budget or delta on one of the axes, drawn as a straight line across the other."""

    name: str
    value: float
    axis: str = "y"


@dataclass(frozen=True, kw_only=True)
class Chart(Result):
    """Lines over one pair of axes; the subtitle has facts that all lines share, then a line for each run."""

    title: str
    subtitle: str = ""
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    limits: tuple[Limit, ...] = ()

    def __str__(self) -> str:
        """Return the title and a table with a column for each line."""
        return f"{self.title}\n{chart_lines(self)}".rstrip()

    def _repr_html_(self) -> str:
        """Return the chart as HTML: a picture, if matplotlib is installed, and a table with a column for each line."""
        from base64 import b64encode

        # As an image, the picture cannot change the page or run anything, whatever names a config holds.
        try:
            image = f'<img alt="chart" src="data:image/svg+xml;base64,{b64encode(self.picture()).decode()}">'
        except InputError:
            image = ""
        kinds = [str(line.kind) for line in self.series]
        rows = [
            (f"{x:.6g}", *("" if y is None else shown_number(kind, y) for kind, y in zip(kinds, ys, strict=True)))
            for x, ys in _values_by_x(self)
        ]
        names = (line.name if line.name == line.kind else f"{line.name} ({line.kind})" for line in self.series)
        return image + html_table((self.x.name, *names), rows)

    def picture(self, file_format: str = "svg") -> bytes:
        """Return the chart as the content of a picture file; InputError for other formats, or without matplotlib."""

        return chart_picture(self, file_format)


# Charts as tables, CSV and JSON


NO_ANSWER = "-"
LOWER = "lower"  # the method of lower bounds, whose name says their kind
KIND_NAMES = {
    Kind.UPPER: "upper bound",
    Kind.CONDITIONAL: "conditional upper bound",
    Kind.LOWER: "lower bound",
    Kind.ESTIMATE: "estimate",
    Kind.APPROXIMATION: "approximation",
    Kind.AS_PUBLISHED: "as published, not proved here",
}


def legend(series: Series, chart: Chart) -> str:
    """Return "NAME: METHOD, KIND, FACTS" of a line, nothing said twice or on the axis; of a reference only the name."""
    if series.is_reference:
        return visible(series.name)
    # The name may end in the method or the kind already: nothing is said twice.
    named = {series.name, series.name.rpartition(", ")[2], LOWER}
    accountants = {line.method for line in chart.series} - {"", LOWER}
    method = "" if series.method in named or len(accountants) < 2 else series.method
    name = series.name
    if series.kind is Kind.LOWER:
        name = name.removesuffix(KIND_NAMES[Kind.LOWER]).removesuffix(LOWER).rstrip(", ")
    kind = "" if KIND_NAMES[series.kind] in f"{name} {chart.y.title}" else KIND_NAMES[series.kind]
    details = ", ".join(filter(None, (method, kind, series.about)))
    return visible(": ".join(filter(None, (name, details))))


def chart_rows(chart: Chart) -> tuple[tuple[str, ...], ...]:
    """Return a header and a row for each x, rounded to the safe side; "-" where a line has no answer."""
    header = [chart.x.name]
    for series in chart.series:
        name = visible(", ".join(filter(None, (series.name, series.about))))
        is_named = series.name.endswith((str(series.kind), KIND_NAMES[series.kind]))
        is_clear = series.kind is Kind.UPPER or series.is_reference or is_named
        header.append(name if is_clear else f"{name} ({series.kind})")
    rows = [tuple(header)]
    for x, ys in _values_by_x(chart):
        row = [x_text(x)]
        for y, series in zip(ys, chart.series, strict=True):
            if not y:
                row.append(NO_ANSWER if y is None else "0")
            else:
                row.append(rounded_up(y) if series.is_reference else epsilon_text(y, series.kind))
        rows.append(tuple(row))
    return tuple(rows)


def _values_by_x(chart: Chart) -> list[tuple[float, list[float | None]]]:
    """Return (x, the y of each line, None where it has none) for each x of any line, in ascending order."""
    # Lines may have different x, as published bounds at whole orders do: every x of any of them has a row.
    columns = [dict(zip(series.xs, series.ys, strict=True)) for series in chart.series]
    return [(x, [ys.get(x) for ys in columns]) for x in sorted({x for ys in columns for x in ys})]


def chart_lines(chart: Chart, *, marks: str = "", width: int = 0) -> str:
    """Return an aligned table, then the limits; on a terminal too narrow for the names marks head the columns."""
    rows = chart_rows(chart)
    short = (chart.x.name, *(mark for mark, _ in zip(itertools.cycle(marks), chart.series, strict=False)))
    lines = fitted(rows, short=short, width=width) if width else aligned(rows)
    limits = (f"{visible(limit.name)}: {limit.value!r}" for limit in chart.limits)
    return "".join(f"{line}\n" for line in (*lines, *limits))


def fitted(rows: Sequence[Sequence[str]], *, short: Sequence[str], width: int) -> list[str]:
    """Return an aligned table if it fits the width, else with the short header, else each row as a wrapped sentence."""
    header, *body = rows
    texts = [[with_thousands_separators(cell) for cell in row] for row in body]
    for names in (header, short):
        lines = aligned([names, *texts])
        if max(map(len, lines)) <= width:
            return lines
    pairs = (", ".join(f"{name} {cell}" for name, cell in zip(short, row, strict=True)) for row in texts)
    return [
        line for text in pairs for line in textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
    ]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in rows]


def chart_csv(chart: Chart) -> str:
    """Return the chart as CSV with numbers in full, a column for each line; "" where it has no answer."""
    names = (f"{visible(', '.join(filter(None, (line.name, line.about))))} ({line.kind})" for line in chart.series)
    rows = [[cell(name) for name in (chart.x.name, *names)]]
    for x, ys in _values_by_x(chart):
        full = str(int(x)) if float(x).is_integer() and abs(x) < 1e15 else repr(x)
        rows.append([full, *("" if y is None else repr(y) for y in ys)])
    return csv_document(rows)


def chart_output(kind: str, chart: Chart, configs: Sequence[Loaded]) -> Output:
    """Return the result of `curve KIND` as a table, CSV and JSON."""
    sources = []
    for loaded in configs:
        named = {"path": loaded.path, "name": loaded.plan.name, "config_hash": loaded.config_hash}
        sources.append({**named, **unit_json(loaded.plan), "delta": loaded.plan.delta})
    lines = []
    for series in chart.series:
        pairs = zip(series.xs, series.ys, strict=True)
        points = [{"x": x, "y": y, "answer": y is not None} for x, y in pairs]
        named = {"name": series.name, "kind": str(series.kind)}
        lines.append({**named, "method": series.method or None, "points": points})
    columns, *rows = chart_rows(chart)
    return Output(
        command="curve",
        result={
            "curve": kind,
            "configs": sources,
            "x": {"name": chart.x.name, "scale": chart.x.scale},
            "y": {"name": chart.y.name, "scale": chart.y.scale},
            "series": lines,
            "limits": [dataclasses.asdict(limit) for limit in chart.limits],
            "diagnostics": diagnostics_json(each for loaded in configs for each in loaded.diagnostics),
        },
        table=Table(headline=chart.title, columns=(*columns, "note"), rows=[(*row, "") for row in rows]),
        csv=chart_csv(chart),
    )


def x_text(x: float, digits: int = 6) -> str:
    return str(int(x)) if float(x).is_integer() and abs(x) < 1e15 else f"{x:.{digits}g}"


# Drawings of a chart: in characters, a mark for each line, or as a picture by matplotlib, loaded only then.


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


# The curves of `dpcalc curve`: functions from a request to a chart, which raise InputError where there is none.
# Epsilon over one quantity of a plan, by each accountant and by formulas to compare with; delta over epsilon, true over
# false positive rate, and Renyi divergence over its order.


POINTS = 25  # of a curve by default
_SQUEEZED = 5.0  # ratio of two lines at their ends from which on a linear axis would press the lower ones together
_MOST_DESCRIBED = 6  # plans that a line below the title describes: more would leave no room for the chart


@dataclass(frozen=True, kw_only=True)
class CurveRequest:
    """Plans, methods and grid of a curve; the first plan decides the default range."""

    plans: tuple[tuple[str, Plan], ...]  # at least one (name, plan)
    methods: tuple[str, ...] = ()  # some of METHODS, () for that of each plan
    grid: tuple[float, ...] = ()  # increasing values of the horizontal axis, () for a default range
    on_progress: Callable[[float], object] = float  # called with the finished share

    @property
    def first(self) -> Plan:
        return self.plans[0][1]

    @property
    def runs(self) -> tuple[Plan, ...]:
        return tuple(plan for _, plan in self.plans)

    def subtitle(self, *without: str) -> str:
        """Return the facts that all plans share, and for up to 6 plans a line on how each differs."""
        shared = shared_facts(self.runs, without=without)
        if len(self.plans) == 1:
            return f"{self.plans[0][0]}: {shared}" if self.plans[0][0] else shared
        every = [facts(plan) for plan in self.runs]
        names = [name for name in ("sampling", "noise", "length") if name not in without]
        differing = [name for name in names if len({each[name] for each in every}) > 1]
        lines = []
        for (label, _), each in zip(self.plans, every, strict=True):
            text = "; ".join(filter(None, (each[name] for name in differing)))
            lines += [f"{label}: {text}"] if text else []
        return "\n".join([shared, *(lines if len(lines) <= _MOST_DESCRIBED else [])])

    def line(
        self,
        label: str,
        plan: Plan,
        quantity: str,
        xs: Iterable[float],
        ys: Iterable[float | None],
        *,
        kind: Kind | None = None,
        method: str = "",
    ) -> Series:
        """Return a line of one plan; its kind is by default that of the plan's bounds."""
        about = differing_facts(plan, self.runs, without=("delta",))
        name, values = self.line_name(label, quantity), tuple(ys)
        return Series(
            name=name, kind=kind or plan.bound_kind, xs=tuple(map(float, xs)), ys=values, method=method, about=about
        )

    def line_name(self, label: str, quantity: str) -> str:
        return f"{label}, {quantity}" if len(self.plans) > 1 else quantity


def whole_numbers(grid: Iterable[float]) -> tuple[float, ...]:
    return tuple(dict.fromkeys(float(round(x)) for x in grid))


# Epsilon by a method


def _group_row(bound: str) -> Callable[[Plan], Row | None]:
    return lambda plan: next((row for row in group_rows(plan) if row.bound == bound), None)


COMPARED: dict[str, tuple[Kind, Callable[[Plan], Row | None]]] = {
    "inversion": (Kind.ESTIMATE, inversion_row),
    "gdp": (Kind.APPROXIMATION, gdp_row),
    "strong-composition": (Kind.AS_PUBLISHED, strong_composition_row),
    "theorem-3": (Kind.AS_PUBLISHED, theorem_3_row),
    "flat-poisson": (Kind.AS_PUBLISHED, flat_poisson_row),
    "group-mixture": (Kind.AS_PUBLISHED, _group_row(GROUP_MIXTURE)),
    "general-rdp": (Kind.UPPER, general_rdp_row),
    "group-as-one": (Kind.AS_PUBLISHED, _group_row(GROUP_AS_ONE)),
}
"""Methods that are drawn beside the accountants: the kind of their numbers, and their row of `compare`."""

METHODS = (*ACCOUNTING_METHODS, LOWER, *COMPARED)


def claimed_kind(method: str) -> Kind:
    if method not in METHODS:
        raise one_of("method", METHODS, method)
    if method == LOWER:
        return Kind.LOWER
    return COMPARED[method][0] if method in COMPARED else Kind.UPPER


def epsilon_by(plan: Plan, method: str) -> tuple[float | None, Kind, str]:
    """Return epsilon by one of METHODS, its kind, and what answered: for "auto" the accountant.

    It is infinite without noise, None where the method fails or does not apply.
    """
    kind, epsilon = claimed_kind(method), None
    if is_noiseless(plan):
        return math.inf, kind, method
    try:
        if method == LOWER:
            lower = epsilon_lower(plan)
            epsilon = None if lower is None else lower.value
        elif method in COMPARED:
            row = COMPARED[method][1](plan)
            epsilon, kind = (None, kind) if row is None else (row.epsilon, row.kind)
        else:
            try:
                main = guarantee(plan, method=method)
            except WorkExceededError:  # a curve with gaps says less than one with looser points
                main = guarantee(plan, method=CLOSED_FORM)
            epsilon, kind = main.epsilon, main.kind
            method = main.method if plan.tuning is None else f"{main.method}, best of several runs"
    except FAILURES:
        pass
    return epsilon, kind, method


# Curves of epsilon over one quantity

_CHART_WORK, _POINT_WORK = 8.0 * SECOND, 1.0 * SECOND  # shared by the points of a chart; what each has at least
_NOISE_FACTOR = 4.0  # by which noise is varied to both sides of the plan's
_RATE_FACTOR = 8.0  # by which a rate or size is varied to both sides of the plan's
_MAX_GROUP, _MAX_NESTED_GROUP = 16, 4  # drawn by default; a group in nested frames has many placements, and is slow
_MOST_BANDS = 3  # plans with a band between upper and lower bounds by default: more would hide each other
_ROUND_OFF = 1e-3  # passes: a length this close to a whole number of passes counts as that number
_VARIED_FACT = {
    **dict.fromkeys(("steps", "epochs"), "length"),
    **dict.fromkeys(("noise_multiplier", "noise_multiplier factor"), "noise"),
    **dict.fromkeys(("rate", "size", "bins", "times"), "sampling"),
}


def _axis_and_grid(kind: str, request: CurveRequest) -> tuple[Axis, tuple[float, ...]]:
    """Return what epsilon is drawn over, and its values: those asked for, or a range around the first plan's."""
    first, grid = request.first, request.grid
    match kind:
        case "steps":
            return Axis(name="steps"), whole_numbers(grid or np.linspace(1, max(1, first.steps), POINTS))
        case "epochs" if not grid:  # the multiples of a round step, at most 25 of them, and the end itself
            end = first.steps * float(_epochs_of_a_step(first))
            min_step = end / POINTS * (1 - _ROUND_OFF)
            power = math.floor(math.log10(min_step))
            # Exact multiples: 0.1 added up in floats would give 0.30000000000000004 epochs.
            step = next(Fraction(10) ** power * part for part in (1, 2, 5, 10) if 10.0**power * part >= min_step)
            grid = tuple(float(step * number) for number in range(1, math.floor(end / step + _ROUND_OFF) + 1))
            is_end_left = not grid or end > grid[-1] * (1 + _ROUND_OFF)
            return Axis(name="epochs"), (*grid, end) if is_end_left else grid
        case "epochs":
            return Axis(name="epochs"), tuple(map(float, grid))
        case "sigma":
            is_factor = len(first.phases) > 1
            start = 1.0 if is_factor else first.phases[0].noise_multiplier or 1.0
            grid = grid or tuple(np.geomspace(start / _NOISE_FACTOR, start * _NOISE_FACTOR, POINTS))
            name = "noise_multiplier factor" if is_factor else "noise_multiplier"
            return Axis(name=name, scale=LOG if _has_equal_factors(grid) else LINEAR), grid
        case "group":
            default = _MAX_GROUP if first.unit == 1 else _MAX_NESTED_GROUP
            max_group = min(default, *(largest_group(plan) for plan in request.runs))
            return Axis(name="group_size"), whole_numbers(grid or range(1, max_group + 1))

    # What the outermost sampled level is drawn by, from 1/8 to 8 times the first plan's as far as bounds go.
    names, limits, level_names = [], [], set()
    for plan in request.runs:
        phase, _, level = _sampled_level(plan)
        scheme = level.scheme
        level_names.add(level.name if phase.hierarchy.depth > 1 else "")
        names.append(scheme.amount_key)
        # The largest value with which the level is still sampled: a unit is left out of each frame; with `at_most`, of
        # the largest one.
        largest = {"rate": 1, "bins": phase.steps, "times": scheme.steps_of_a_pass(level.count)}
        largest["size"] = max(1, (level.count if scheme.at_most else level.min_count) - 1)
        limits.append(float(largest[names[-1]]))
    name = names[0]
    if len(set(names)) > 1:
        pairs = zip(request.plans, names, strict=True)
        shown = ", ".join(f"{each} ({label})" for (label, _), each in pairs)
        raise InputError(f"curve rate: expected configs drawn by the same quantity, got {shown}; draw them one by one")

    def values(grid: Iterable[float]) -> tuple[float, ...]:
        return tuple(map(float, grid)) if name == "rate" else whole_numbers(max(1.0, value) for value in grid)

    def has_bound(plan: Plan, value: float) -> bool:
        changed, (phase, _, level) = _changed(plan, name, value), _sampled_level(plan)
        if level.scheme.is_shuffled and refusal(changed) is not None:
            return False
        return not phase.is_correlated or is_covered(changed)

    is_log = not grid or _has_equal_factors(grid)
    if grid:
        grid = values(grid)
    else:
        own = float(_sampled_level(first)[2].scheme.amount or 0)
        limit = min(limits)
        around = np.geomspace(min(own / _RATE_FACTOR, limit), min(own * _RATE_FACTOR, limit), POINTS)
        covered = [x for x in values(around) if all(has_bound(plan, x) for plan in request.runs)]
        grid = tuple(covered) or (own,)
    level_name = level_names.pop() if len(level_names) == 1 else ""
    title = f"{name} at level {level_name}" if level_name else name
    return Axis(name=name, scale=LOG if is_log else LINEAR, title=title), grid


def _changed(plan: Plan, name: str, value: float) -> Plan:
    """Return the plan with a value of what the axis of this name has."""
    match name:
        case "steps":
            return with_total_steps(plan, int(value))
        case "epochs":
            # In the fewest whole steps that make them up. An epoch as its decimal: the float nearest to 0.7 is a little
            # more, which could cost a whole step.
            return with_total_steps(plan, math.ceil(Fraction(repr(value)) / _epochs_of_a_step(plan)))
        case "noise_multiplier":
            return with_noise(plan, _single_phase(plan), value)
        case "noise_multiplier factor":
            return with_scaled_noise(plan, value)
        case "group_size":
            return replace(plan, group_size=int(value))
    phase, place, level = _sampled_level(plan)
    amount = Fraction(repr(value)) if level.scheme.amount_key == "rate" else int(value)
    return with_level(plan, phase, place, replace(level, scheme=level.scheme.with_amount(amount)))


def _epochs_of_a_step(plan: Plan) -> Fraction:
    """Return the share of the outermost sampled level's units that a step draws."""
    _, _, level = _sampled_level(plan)
    return level.scheme.share(level.count)


def _epsilon(kind: str, request: CurveRequest) -> Chart:
    """Return the chart of epsilon, a line for each plan and method; InputError for a line no bound covers."""
    x, grid = _axis_and_grid(kind, request)
    for method in request.methods:
        claimed_kind(method)  # refuses unknown methods before the first line is computed
    below = (LOWER,) if not request.methods and len(request.plans) <= _MOST_BANDS else ()
    lines = [
        (label, plan, method)
        for label, plan in request.plans
        for method in (*(request.methods or (plan.method,)), *below)
    ]
    # Every point has a share of its own, so that no answer depends on how long the points before it took.
    points = len(request.plans) * max(1, len(request.methods)) * len(grid)
    share = max(_POINT_WORK, _CHART_WORK / points)
    series = []
    for number, (label, plan, method) in enumerate(lines):
        results = []
        for index, value in enumerate(grid, start=1):
            with allowance(share):
                results.append(epsilon_by(_changed(plan, x.name, float(value)), method))
            request.on_progress((number + index / len(grid)) / len(lines))
        epsilons = [epsilon for epsilon, _, _ in results]
        answers = [result for result in results if result[0] is not None]
        refused = None if answers else refusal(_changed(plan, x.name, float(grid[-1])))
        if refused is not None:
            raise InputError(f"{label}: {refused}" if len(request.plans) > 1 else str(refused)) from refused
        answering = " or ".join(dict.fromkeys(by for epsilon, _, by in answers if epsilon != math.inf)) or method
        kinds = {kind for _, kind, _ in answers}
        is_named_alone = len(request.plans) > 1 and len(request.methods) <= 1 and answering != LOWER
        if below and method == LOWER and not any(epsilons):
            continue
        series.append(
            Series(
                name=label if is_named_alone else request.line_name(label, answering),
                kind=kinds.pop() if len(kinds) == 1 else claimed_kind(method),
                xs=tuple(map(float, grid)),
                ys=tuple(epsilons),
                method=answering,
                about=differing_facts(plan, request.runs),
            )
        )
    positive = [y for line in series for y in line.ys if y and y < math.inf]
    ends = [line.ys[-1] for line in series if line.kind is not Kind.LOWER]  # a wide band is no reason
    known = [y for y in ends if y and y < math.inf]
    is_apart = len(known) > 1 and max(known) > _SQUEEZED * min(known)
    is_length = _VARIED_FACT.get(x.name) == "length"
    title = x.title or x.name.replace("_", " ")
    has_one_delta = len({plan.delta for plan in request.runs}) == 1
    return Chart(
        title=f"epsilon over {title}" + (f", delta = {request.first.delta!r}" if has_one_delta else ""),
        subtitle=request.subtitle("delta", _VARIED_FACT.get(x.name, "")),
        x=replace(x, title=title),
        y=Axis(name="epsilon", scale=LOG if is_apart else LINEAR if is_length else scale_for(positive)),
        series=tuple(series),
        limits=tuple(
            Limit(name=request.line_name(label, "budget"), value=plan.budget.epsilon)
            for label, plan in request.plans
            if plan.budget is not None
        ),
    )


def _has_equal_factors(grid: Sequence[float]) -> bool:
    """Return True if three or more positive numbers grow by one and the same factor, up to round-off."""
    if len(grid) < 3 or min(grid) <= 0:
        return False
    factors = np.diff(np.log(grid))
    return bool(np.ptp(factors) <= 1e-3 * factors.max())


def _single_phase(plan: Plan) -> Phase:
    if len(plan.phases) > 1:
        names = ", ".join(phase.name for phase in plan.phases)
        raise InputError(f"curve: expected a run of one phase, got {names}; draw them over steps, sigma or group")
    return plan.phases[0]


def _sampled_level(plan: Plan) -> tuple[Phase, int, Level]:
    """Return the only phase, and the index and level that is sampled outermost; InputError if there is none such."""
    phase = _single_phase(plan)
    for place, level in enumerate(phase.hierarchy.levels):
        if not level.scheme.is_whole:
            return phase, place, level
    raise InputError("curve: expected a level that is sampled, got only `all`; there is no rate")


# Curves of a whole run, which are not those of an accountant

_MASS_ROUND_OFF = 1e-12  # infinity mass below which it is round-off
_RATES = tuple(map(float, (*np.geomspace(1e-4, 0.02, 12), *np.linspace(0.04, 0.98, POINTS), 0.999)))
"""False positive rates, dense where the axis is: logarithmic at small rates, even beyond."""
_ORDERS = 1.25, 1.5, 1.75, *range(2, 20), *sorted({round(order) for order in np.geomspace(20, 64, 8)})
"""Every whole order where a divergence may leap, of a sampled step from the first order that sees its tail."""


def _profile(request: CurveRequest) -> Chart:
    grid = request.grid
    if not grid:
        epsilon = guarantee(request.first).epsilon
        grid = tuple(map(float, np.linspace(0.0, 1.5 * epsilon if 0 < epsilon < math.inf else 1.5, POINTS)))
    series = []
    for number, (label, plan) in enumerate(request.plans):
        answers = []
        for index, epsilon in enumerate(grid, start=1):
            answers.append(delta_of(require_pld_method(plan), epsilon=epsilon))
            request.on_progress((number + index / len(grid)) / len(request.plans))
        methods = " or ".join(dict.fromkeys(answer.method for answer in answers))
        series.append(request.line(label, plan, "delta", grid, [answer.delta for answer in answers], method=methods))
        lower = [answer.delta_lower for answer in answers]
        if any(delta is not None for delta in lower):
            series.append(request.line(label, plan, "delta, lower bound", grid, lower, kind=Kind.LOWER))
    budgets = dict.fromkeys(plan.budget.epsilon for plan in request.runs if plan.budget)
    return Chart(
        title="delta over epsilon",
        subtitle=request.subtitle("delta"),
        x=Axis(name="epsilon"),
        y=Axis(name="delta", scale=LOG),
        series=tuple(series),
        limits=(
            *(Limit(name="budget", value=budget, axis="x") for budget in budgets),
            *(Limit(name="delta", value=delta) for delta in dict.fromkeys(plan.delta for plan in request.runs)),
        ),
    )


def _tradeoff(request: CurveRequest) -> Chart:
    grid = request.grid or _RATES
    series = []
    for label, plan in request.plans:
        present, absent = true_positive_rates(require_pld_method(plan), grid)
        for detected, rates in (("in the data", present), ("not in the data", absent)):
            series.append(request.line(label, plan, detected, grid, map(float, rates), method="pld"))
    series.append(Series(name="guessing", kind=Kind.LOWER, xs=grid, ys=grid, is_reference=True))
    claims = 'the attacker claims "in the data", or "not in the data", and is right or wrong'
    return Chart(
        title="ROC curve of the best attacker",
        subtitle=f"{request.subtitle('delta')}\n{claims}",
        x=Axis(name="false_positive_rate", scale=LOG, title="false positive rate"),
        y=Axis(name="true_positive_rate", scale=LOG, title="true positive rate, upper bound"),
        series=tuple(series),
    )


def _divergences(request: CurveRequest) -> Chart:
    """Renyi divergence over its order: certified bounds where they are finite, and published ones."""
    grid = request.grid or tuple(map(float, _ORDERS))
    if min(grid) <= 1:
        raise InputError(f"order: expected numbers > 1, got {min(grid)!r}")
    whole = sorted({round(order) for order in grid if order >= 2})  # published sums take such orders only
    series = []
    for label, plan in request.plans:
        if is_noiseless(plan):
            raise InputError("rdp: expected noise in every step, got none; every divergence is infinite")
        bounds = _divergence_bounds(plan, np.array(grid) - 1)
        lines = [("rdp", plan.bound_kind, grid, [float(bound) for bound in bounds])]
        lines += [
            (name, kind, tuple(map(float, whole)), list(map(divergence, whole)))
            for name, (kind, divergence) in published_rdp_bounds(plan).items()
        ]
        for name, line_kind, orders, values in lines:
            # UNKNOWN is the mark of no finite bound.
            ys = [value if value < UNKNOWN else None for value in values]
            if name != "rdp" or any(y is not None for y in ys):
                series.append(request.line(label, plan, name, orders, ys, kind=line_kind))
    if not series:
        words = ", ".join(dict.fromkeys(mechanism_text(phase) for plan in request.runs for phase in plan.phases))
        raise InputError(f"rdp: expected steps with finite divergences, got {words}; some losses are infinite")
    return Chart(
        title="Rényi divergence over its order",
        subtitle=request.subtitle("delta"),
        x=Axis(name="order", scale=LOG),
        y=Axis(name="rdp", scale=LOG, title="Rényi divergence"),
        series=tuple(series),
    )


def _divergence_bounds(plan: Plan, z: Array) -> Array:
    """Return upper bounds on the largest divergence at each order z + 1; infinite where a loss may be infinite."""
    divergence = np.zeros(z.shape)
    for phase in plan.phases:
        has_delta = isinstance(phase.mechanism, ApproximateDp) and phase.mechanism.delta > 0
        if has_delta or isinstance(phase.mechanism, DiscreteGaussian):
            return divergence + math.inf
    for counts in composed(plan).steps.values():
        if total_infinity_mass(counts) > _MASS_ROUND_OFF:
            return divergence + math.inf
        if counts:
            value, _ = composed_moments(counts, max_order=float(z.max())).cumulants(z)
            divergence = np.maximum(divergence, sum_rounded_up(value) / z)
    return divergence


KINDS = ("steps", "epochs", "sigma", "rate", "group", "profile", "tradeoff", "rdp")


def curve(kind: str, request: CurveRequest) -> Chart:
    """Return the curve of one of KINDS; InputError where there is none."""
    of_run = {"profile": _profile, "tradeoff": _tradeoff, "rdp": _divergences}
    if kind not in of_run:
        return _epsilon(kind, request)
    if any(method not in {"auto", "pld"} for method in request.methods):
        raise InputError("--method: expected none, such a curve is not that of an accountant; leave it out")
    return of_run[kind](request)
