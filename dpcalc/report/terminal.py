"""Results drawn for a terminal; the only module that imports rich."""

import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from dpcalc.planner.words import with_thousands_separators
from dpcalc.report.fields import Output, Table

_GAP = 2  # spaces between two columns
_MAX_LINES = 3  # of a cell of a table; cells of more lines are listed one below the other
_NARROW = 40  # columns below which a text has no room beside its label
_NAME = "run"  # label of the row whose text the user chose: a number in it is no count
_SHORT_TITLES = {"epsilon_lower": "lower"}
_TRAILING = re.compile(r"\s+((?:\x1b\[[0-9;]*m)*)$")


def terminal_text(output: Output, *, width: int, styled: bool, verbose: bool = False) -> str:
    """Return a result for a terminal, no line over `width`: its table, or else its headline and labelled rows.

    Args:
        output: the result.
        width: columns of the terminal.
        styled: True for bold and dim text; False for text without escape sequences.
        verbose: True for the rows of `-v` too.

    Returns:
        Lines of at most `width` columns; long text wraps, nothing is cut.
    """
    parts = _row_parts(output, width, verbose=verbose) if output.table is None else _table_parts(output.table, width)
    return _rendered(parts, width=width, styled=styled)


def _row_parts(output: Output, width: int, *, verbose: bool) -> list[RenderableType]:
    """Return the headline and the labelled rows; all numbers but those in the run's name have thousands separators."""
    rows = (
        (label, text if label == _NAME else with_thousands_separators(text))
        for label, text in output.rows(verbose=verbose)
    )
    # Separators here only: plain lines and JSON are read by programs.
    return [Text(with_thousands_separators(output.headline), style="bold"), *_labelled(rows, width)]


def _table_parts(table: Table, width: int) -> list[RenderableType]:
    """Return the headline, the table and its notes below; if the table is too wide, its rows as blocks of lines."""
    titles = [_SHORT_TITLES.get(column, column) for column in table.columns]
    rows = [(first, *map(with_thousands_separators, texts)) for first, *texts in table.rows]
    headline = Text(with_thousands_separators(table.headline), style="bold")
    # Notes are the widest column and stand below the table, so that they do not decide whether it fits.
    texts = [titles[:-1], *(row[:-1] for row in rows)]
    widths = _column_widths(texts, width)
    if widths is None:
        return [headline, *_stacked_rows(titles, rows, width)]
    return [headline, _grid(texts, widths), *_notes(rows)]


def _grid(rows: Sequence[Sequence[str]], widths: Iterable[int]) -> RichTable:
    """Return a table with columns of these widths, whose titles, the first row, are bold."""
    grid = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for title, size in zip(rows[0], widths, strict=True):
        grid.add_column(Text(title), width=size)
    for texts in rows[1:]:
        grid.add_row(*map(Text, texts))
    return grid


def _notes(rows: Iterable[Sequence[str]]) -> list[RenderableType]:
    """Return the heading "notes" and a line for each row that has a note, its last cell; [] if none has."""
    notes = RichTable.grid(padding=(0, _GAP))
    for *texts, note in rows:
        if note:
            notes.add_row(Text(", ".join(filter(None, texts[:2])), style="dim"), Text(note))
    return [Text("notes", style="bold"), notes] if notes.row_count else []


def grid_text(
    headline: str,
    header: Sequence[str],
    rows: Sequence[Sequence[tuple[str, str]]],
    notes: Sequence[str],
    *,
    width: int,
    styled: bool,
) -> str:
    """Return a headline, a table of right-aligned cells and lines of notes as text; cells wrap where width is short.

    Args:
        headline: its first line.
        header: name of each column.
        rows: (text, style of rich) of each cell.
        notes: lines below it.
        width: columns of the terminal, enough for all columns.
        styled: as for `terminal_text`.
    """
    grid = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for name in header:
        grid.add_column(Text(name), justify="right", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(text, style=style) for text, style in row))
    return _rendered((Text(headline, style="bold"), grid, *map(Text, notes)), width=width, styled=styled)


def _column_widths(rows: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return column widths that fit into `width`, cut no word and keep cells to three lines; None if there are none."""
    columns = list(zip(*rows, strict=True))
    widths = [max(len(word) for text in texts for word in (text.split() or [""])) for texts in columns]
    room = width - _GAP * len(widths)
    while True:
        # The column whose cells have most lines becomes wider by one.
        lines = [_max_lines(texts, size) for texts, size in zip(columns, widths, strict=True)]
        if max(lines) == 1 or sum(widths) >= room:
            return widths if max(lines) <= _MAX_LINES and sum(widths) <= room else None
        widths[lines.index(max(lines))] += 1


def _max_lines(texts: Iterable[str], width: int) -> int:
    """Return the largest number of lines that one of the texts takes when it is wrapped at `width`."""
    return max(len(textwrap.wrap(text, width or 1, break_on_hyphens=False)) for text in texts)


def _stacked_rows(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[RenderableType]:
    """Yield for each row a line with its first cell, then its other cells with their titles, without empty ones."""
    for first, *cells in rows:
        yield Text(first, style="bold")
        yield from _labelled([pair for pair in zip(titles[1:], cells, strict=True) if pair[1]], width)


def _labelled(rows: Iterable[tuple[str, str]], width: int) -> Iterator[RenderableType]:
    """Yield (label, text) rows as a grid with aligned texts; under 40 columns, yield each text below its label."""
    # Beside a label so little room is left that words would stand one below the other.
    if width < _NARROW:
        for label, text in rows:
            yield Padding(Text(label, style="dim"), (0, 0, 0, 2))
            yield Padding(Text(text), (0, 0, 0, 4))
        return
    # Without a frame: lines can be copied, and a screen reader reads no bars.
    grid = RichTable.grid(padding=(0, _GAP))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in rows:
        grid.add_row(Text(label, style="dim"), Text(text))
    yield Padding(grid, (0, 0, 0, 2))


def _rendered(parts: Sequence[RenderableType], *, width: int, styled: bool) -> str:
    """Return the parts as rich prints them below one another, without trailing spaces; with escapes only if styled."""
    # Texts hold names of the user: markup, emoji codes and highlights in them are not for rich to interpret.
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=styled,
        color_system="standard" if styled else None,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return "".join(_TRAILING.sub(r"\1", line) + "\n" for line in capture.get().splitlines())
