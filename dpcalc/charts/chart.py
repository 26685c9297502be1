"""A chart as data: axes, lines and limits."""

from dpcalc.errors import InputError
from dpcalc.guarantee import Kind, Result, html_table, shown_number
from dpcalc.records import dataclass

LINEAR, LOG = "linear", "log"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis of a chart.

    Attributes:
        name: the quantity, which names the column of a table: "steps", "epsilon".
        scale: LINEAR or LOG.
        title: title for people; "" to use the name.
    """

    name: str
    scale: str = LINEAR
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of a chart.

    Attributes:
        name: name of a config, an accountant or a direction.
        kind: claim of its numbers.
        xs: increasing numbers.
        ys: one for each x; None where there is no answer, infinite where there is no bound.
        method: the accountant; "" if the name says it.
        about: unit, adjacency and delta of the numbers, as far as lines of the chart differ in them; "" if not.
        is_reference: True for a line to compare with, such as guessing.
    """

    name: str
    kind: Kind
    xs: tuple[float, ...]
    ys: tuple[float | None, ...]
    method: str = ""
    about: str = ""
    is_reference: bool = False


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit, drawn as a straight line.

    Attributes:
        name: its name: "budget", "delta".
        value: value on the axis.
        axis: "x" or "y", the axis of the value.
    """

    name: str
    value: float
    axis: str = "y"


@dataclass(frozen=True, kw_only=True)
class Chart(Result):
    """Lines over one pair of axes.

    Attributes:
        title: one line.
        subtitle: facts that all lines share: run, unit, sampling, noise, delta; "" for none.
        x: the horizontal axis.
        y: the vertical axis.
        series: the lines, at least one.
        limits: budgets and deltas.
    """

    title: str
    subtitle: str = ""
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    limits: tuple[Limit, ...] = ()

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the picture, if matplotlib is installed, and a table of all points."""
        # The table has a row for each x and a column for each line, "" where it has no answer.
        from base64 import b64encode  # noqa: PLC0415  few processes need it

        # As an image, the picture cannot change the page or run anything, whatever names a config holds.
        try:
            image = f'<img alt="chart" src="data:image/svg+xml;base64,{b64encode(self.picture()).decode()}">'
        except InputError:
            image = ""
        xs = sorted({x for line in self.series for x in line.xs})
        ys = [(str(line.kind), dict(zip(line.xs, line.ys, strict=True))) for line in self.series]
        rows = [
            (f"{x:.6g}", *("" if (y := line.get(x)) is None else shown_number(kind, y) for kind, line in ys))
            for x in xs
        ]
        return image + html_table((self.x.name, *(f"{line.name} ({line.kind})" for line in self.series)), rows)

    def picture(self, file_format: str = "svg") -> bytes:
        """Return the chart as the content of a picture file; InputError for other formats, or without matplotlib.

        Args:
            file_format: "svg", "png" or "pdf".

        Raises:
            InputError: the format is another one, or matplotlib is not installed.
        """
        from dpcalc.charts.plot import chart_picture  # noqa: PLC0415  matplotlib is optional

        return chart_picture(self, file_format)
