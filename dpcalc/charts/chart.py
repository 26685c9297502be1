"""A chart as data: axes, lines and limits; and as a table, CSV and JSON."""

import dataclasses
import itertools
import textwrap
from collections.abc import Iterable, Sequence

from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.errors import InputError
from dpcalc.guarantee import Kind, Result, html_table, shown_number
from dpcalc.planner.words import with_thousands_separators
from dpcalc.records import dataclass
from dpcalc.report.guarantees import epsilon_text, unit_json
from dpcalc.report.output import Output, Table, cell, csv_document, diagnostics_json
from dpcalc.report.rounding import rounded_up

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
        from dpcalc.charts.plot import chart_picture

        return chart_picture(self, file_format)


# Charts as tables, CSV and JSON


NO_ANSWER = "-"
LOWER = "lower"  # the method of lower bounds, whose name says their kind
KINDS = {
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
        name = name.removesuffix(KINDS[Kind.LOWER]).removesuffix(LOWER).rstrip(", ")
    kind = "" if KINDS[series.kind] in f"{name} {chart.y.title}" else KINDS[series.kind]
    details = ", ".join(filter(None, (method, kind, series.about)))
    return visible(": ".join(filter(None, (name, details))))


def chart_rows(chart: Chart) -> tuple[tuple[str, ...], ...]:
    """Return a header and a row for each x, rounded to the safe side; "-" where a line has no answer."""
    header = [chart.x.name]
    for series in chart.series:
        name = visible(", ".join(filter(None, (series.name, series.about))))
        is_named = series.name.endswith((str(series.kind), KINDS[series.kind]))
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
