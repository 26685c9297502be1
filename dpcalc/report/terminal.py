"""Results drawn for a terminal; the only module that imports rich."""

import io
from collections.abc import Iterator, Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from dpcalc.planner.words import with_thousands_separators
from dpcalc.report.fields import Output, Table

_GAP = 2  # spaces between two columns


def terminal_text(output: Output, *, width: int, styled: bool, verbose: bool = False) -> str:
    """Return a result as its table, or as a headline and labelled rows.

    Args:
        output: the result.
        width: columns of the terminal.
        styled: True for bold and dim text; False for text without escape sequences.
        verbose: True for the rows of `-v` too.

    Returns:
        Lines of at most `width` columns; long text wraps, nothing is cut.
    """
    if output.table is not None:
        return _rendered(_table_parts(output.table, width), width=width, styled=styled)
    grid = RichTable.grid(padding=(0, _GAP))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in output.rows(verbose=verbose):
        grid.add_row(Text(label, style="dim"), Text(text))
    return _rendered((Text(output.headline, style="bold"), Padding(grid, (0, 0, 0, 2))), width=width, styled=styled)


def _table_parts(table: Table, width: int) -> list[RenderableType]:
    """Return a table with its notes below; on a narrow terminal blocks of labelled cells."""
    *columns, _ = table.columns
    headline = Text(with_thousands_separators(table.headline), style="bold")
    if _min_width(table) > width:
        return [headline, *_stacked_rows(table)]
    grid = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    notes = RichTable.grid(padding=(0, _GAP))
    for column in columns:
        title = "lower" if column == "epsilon_lower" else column
        grid.add_column(title, no_wrap=title in {"epsilon", "lower"}, overflow="fold")
    for *texts, note in table.rows:
        grid.add_row(*map(Text, texts))
        if note:
            notes.add_row(Text(", ".join(filter(None, texts[:2])), style="dim"), Text(with_thousands_separators(note)))
    return [headline, grid, *((Text("notes", style="bold"), notes) if notes.row_count else ())]


def grid_text(  # noqa: PLR0913  the parts of a table, and the terminal
    headline: str,
    header: Sequence[str],
    rows: Sequence[Sequence[tuple[str, str]]],
    notes: Sequence[str],
    *,
    width: int,
    styled: bool,
) -> str:
    """Return a headline, a table of numbers aligned to the right, and notes; nothing is left out to fit the width.

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


def _min_width(table: Table) -> int:
    """Return the terminal columns that the table, without its notes, needs to break no word."""
    count = len(table.columns) - 1
    rows = [table.columns, *table.rows]
    longest = (max(len(word) for row in rows for word in (row[column].split() or [""])) for column in range(count))
    return sum(longest) + _GAP * (count - 1)


def _stacked_rows(table: Table) -> Iterator[RenderableType]:
    """Yield each row as its first cell and a line for each other cell, for a terminal too narrow for the table."""
    for row in table.rows:
        method, *cells = (Text(cell) for cell in row)
        method.stylize("bold")
        yield method
        pairs = zip(table.columns[1:], cells, strict=True)
        grid = RichTable.grid(padding=(0, _GAP))
        for name, cell in pairs:
            if cell.plain:
                grid.add_row(Text(name, style="dim"), cell)
        yield Padding(grid, (0, 0, 0, 2))


def _rendered(parts: Sequence[RenderableType], *, width: int, styled: bool) -> str:
    """Return what rich prints for the parts, one below the other, without trailing spaces; escapes only if styled."""
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
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
