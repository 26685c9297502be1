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
from dpcalc.report.output import Output

_GAP = 2  # spaces between two columns
_MAX_LINES = 3  # of a cell of a table; cells of more lines are listed one below the other
_NARROW = 40  # columns below which a text has no room beside its label
_NAME = "run"  # label of the row whose text the user chose: a number in it is no count
_SHORT_TITLES = {"epsilon_lower": "lower"}
_TRAILING = re.compile(r"\s+((?:\x1b\[[0-9;]*m)*)$")


def terminal_text(output: Output, *, width: int, styled: bool) -> str:
    """Return a result in at most `width` columns, nothing cut; escape sequences only if `styled`."""
    table = output.table
    if table is None:
        # All numbers but those in the run's name; only here, since plain lines and JSON are read by programs.
        rows = [
            (label, text if label == _NAME else with_thousands_separators(text)) for label, text in output.rows if text
        ]
        headline = Text(with_thousands_separators(output.headline), style="bold")
        headline.highlight_words([with_thousands_separators(output.verdict[0])], output.verdict[1])
        return _rendered([headline, *_labelled(rows, width)], width=width, styled=styled)
    titles = [_SHORT_TITLES.get(column, column) for column in table.columns]
    lines = [[first, *map(with_thousands_separators, texts)] for first, *texts in table.rows]
    parts: list[RenderableType] = [Text(with_thousands_separators(table.headline), style="bold")]
    # Notes are the widest column and stand below the table, so that they do not decide whether it fits.
    widths = _column_widths([titles[:-1], *(line[:-1] for line in lines)], width)
    if widths is None:  # each row as a block: its first cell, then its other cells with their titles, but empty ones
        for first, *others in lines:
            parts.append(Text(first, style="bold"))
            parts += _labelled([pair for pair in zip(titles[1:], others, strict=True) if pair[1]], width)
        return _rendered(parts, width=width, styled=styled)
    grid = RichTable(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for title, size in zip(titles[:-1], widths, strict=True):
        grid.add_column(Text(title), width=size)
    of_note: dict[str, list[str]] = {}  # the rows that have it, by as many cells as tell them apart
    told = 1 if len({line[0] for line in lines}) == len(lines) else 2
    for *texts, note in lines:
        grid.add_row(*map(Text, texts))
        of_note.setdefault(note, []).append(", ".join(filter(None, texts[:told])))
    notes = RichTable.grid(padding=(0, _GAP))
    for note, rows_of_it in of_note.items():
        if note:
            notes.add_row(Text("\n".join(rows_of_it), style="dim"), Text(note))
    parts.append(grid)
    if notes.row_count:
        parts += [Text("notes", style="bold"), notes]
    return _rendered(parts, width=width, styled=styled)


def grid_text(
    headline: str,
    header: Sequence[str],
    rows: Sequence[Sequence[tuple[str, str]]],
    notes: Sequence[str],
    *,
    width: int,
    styled: bool,
) -> str:
    """Return a headline, right-aligned cells (text, style of rich), and notes; cells wrap where the width is short."""
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
    room = width - _GAP * (len(widths) - 1)
    while True:
        # The column whose cells have most lines becomes wider by one.
        lines = [
            max(len(textwrap.wrap(text, size or 1, break_on_hyphens=False)) for text in texts)
            for texts, size in zip(columns, widths, strict=True)
        ]
        if max(lines) == 1 or sum(widths) >= room:
            return widths if max(lines) <= _MAX_LINES and sum(widths) <= room else None
        widths[lines.index(max(lines))] += 1


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
