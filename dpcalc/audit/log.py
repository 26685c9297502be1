"""Read a log of batches as blocks of whole steps: JSONL, one array of indices a step, or CSV, one row an index.

The log is untrusted: every cell is checked, lines are bounded, and memory does not grow with the length of the log.
"""

import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain, starmap
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import IntArray
from dpcalc.config.source import STDIN, ConfigError, open_regular, visible
from dpcalc.errors import InputError, counted, system_message
from dpcalc.records import dataclass

_CHUNK = 4 * 1024 * 1024  # bytes read at once
MAX_LINE = 64 * 1024 * 1024
"""Longest line, in bytes: a step of 8 million indices; as Python lists ten times more would fill the memory."""
_BLOCK_ROWS = 500_000  # indices in a block, more only if one step has more
_BLOCK_STEPS = 100_000  # steps in a block
DELIMITERS = ",;\t"
_INDEX = re.compile(r"\s*[0-9]{1,18}\s*")


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive steps of a log, each with all of its entries."""

    first: int  # the first step, from 0
    end: int  # the step after the last one
    steps: IntArray  # step of each entry, ascending, shape (entries,)
    paths: IntArray  # indices of each entry, shape (entries, levels), each >= 0
    lines: IntArray  # line of each entry, from 1, shape (entries,)


def read_blocks(
    path: str, names: Sequence[str], steps: int, *, on_progress: Callable[[float], None]
) -> Iterator[Block]:
    """Yield the steps of a log, CSV or JSONL by its content, in blocks; InputError if it cannot be used.

    `names` are those of the columns of a path, outermost first: one for each level.
    """
    with opened(path) as (name, stream):
        pieces = text_pieces(name, stream)
        # By content, not by name: standard input has none.
        first = next(((at, text) for at, text in pieces if text.strip()), (1, ""))
        is_csv = not first[1].lstrip().startswith(("[", "{")) and bool(first[1])
        blocks = _csv_blocks if is_csv else _json_blocks
        for block in blocks(name, chain([first], pieces), names, steps):
            yield block
            on_progress(block.end / steps)


@contextmanager
def opened(path: str) -> Iterator[tuple[str, BinaryIO]]:
    """Context manager of (name, stream) of a file, "-" for standard input; InputError if it cannot be read."""
    name = STDIN if path == "-" else path
    if path == "-" and sys.stdin is None:
        raise InputError(f"{STDIN}: expected a log, got a closed standard input")
    try:
        with open_regular(path) if path != "-" else nullcontext(sys.stdin.buffer) as stream:
            yield name, stream
    except ConfigError as error:
        raise InputError(
            f"{name}: {error.diagnostics[0].message}; give a regular file, or - for standard input"
        ) from None
    except InputError:
        raise  # it is a ValueError too
    except (OSError, ValueError) as error:
        raise InputError(f"{name or repr(name)}: cannot be read: {system_message(error)}") from error


def text_pieces(name: str, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield (number of the first line, text) of pieces of whole lines; InputError if one is too long or not UTF-8."""
    line, waiting, is_begin = 1, b"", True
    while data := stream.read(_CHUNK):
        # `tail` is a line that goes on in the next chunk. It is bounded before it is kept: a file without line ends
        # must not fill the memory.
        head, newline, tail = data.rpartition(b"\n")
        if len(waiting) + len(tail) > MAX_LINE:
            raise InputError(f"{name}:{line}: expected at most {MAX_LINE} characters in a line, got more")
        if not newline:
            waiting += tail
            continue
        text = _decoded(name, line, waiting + head + newline, is_begin=is_begin)
        yield line, text
        line = line + text.count("\n")
        waiting = tail
        is_begin = False
    if waiting:
        yield line, _decoded(name, line, waiting, is_begin=is_begin)


def numbered_lines(start: int, text: str) -> Iterator[tuple[int, str]]:
    return ((line, words) for line, words in enumerate(text.split("\n"), start=start) if words.strip())


def _decoded(name: str, line: int, data: bytes, *, is_begin: bool) -> str:
    try:
        return data.decode("utf-8-sig" if is_begin else "utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line += data[: error.start].count(b"\n")
        raise InputError(f"{name}:{line}: expected UTF-8 text, got other bytes") from None


def _count_error(place: str, steps: int, got: str) -> InputError:
    return InputError(
        f"{place}: expected {counted(steps, 'step')}, as the config says, got {got}; "
        "for a shorter run, state its length: --steps N"
    )


def _json_blocks(name: str, pieces: Iterator[tuple[int, str]], names: Sequence[str], steps: int) -> Iterator[Block]:
    """Yield the blocks of a JSONL log, a step for each line; InputError for a wrong line or number of steps."""
    first, levels = 0, len(names)
    entry_form = f"an index of {names[0]}" if levels == 1 else f"a path [{', '.join(names)}]"
    values: list[int] = []  # indices of all steps that wait for their block
    sizes: list[int] = []  # entries of each of these steps
    lines: list[int] = []

    def block() -> Block:
        return Block(
            first=first,
            end=first + len(sizes),
            steps=np.repeat(np.arange(first, first + len(sizes)), sizes),
            paths=np.array(values, dtype=np.int64).reshape(-1, levels),
            lines=np.repeat(np.array(lines, dtype=np.int64), sizes),
        )

    for line, words in chain.from_iterable(starmap(numbered_lines, pieces)):
        place = f"{name}:{line}"
        if first + len(sizes) >= steps:
            raise _count_error(place, steps, "more")
        try:
            batch = json.loads(words)
        except (ValueError, RecursionError):
            raise InputError(f"{place}: expected a JSON array, the batch of one step, got {short(words)}") from None
        if type(batch) is not list:
            raise InputError(f"{place}: expected an array, the batch of one step, got {short(batch)}")
        indices = batch
        if levels > 1:
            for entry in batch:
                if type(entry) is not list or len(entry) != levels:
                    raise InputError(f"{place}: expected {entry_form} for each entry, got {short(entry)}")
            indices = list(chain.from_iterable(batch))
        # A bool is an int to Python, so that types are compared; -1 and numbers beyond 10^18 are no index anywhere.
        if not set(map(type, indices)) <= {int} or (indices and not 0 <= min(indices) <= max(indices) < 10**18):
            wrong = next(each for each in indices if type(each) is not int or not 0 <= each < 10**18)
            expected = entry_form if levels == 1 and type(wrong) is list else "a whole number >= 0"
            raise InputError(f"{place}: expected {expected} for each entry, got {short(wrong)}")
        values += indices
        sizes.append(len(indices) // levels)
        lines.append(line)
        if len(values) >= _BLOCK_ROWS * levels or len(sizes) >= _BLOCK_STEPS:
            yield block()
            first = first + len(sizes)
            values = []
            sizes = []
            lines = []
    if sizes:
        yield block()
    if first + len(sizes) < steps:
        raise _count_error(name, steps, str(first + len(sizes)))


def unquoted(cell: str) -> str:
    """Return a CSV cell without spaces at its ends, and without double quotes around it if none is inside."""
    text = cell.strip()
    inner = text[1:-1].strip()
    return inner if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in inner else text


def short(value: object) -> str:
    """Return a value, JSON unless it is text, as escaped text for a message, cut after 40 characters."""
    text = value.strip() if isinstance(value, str) else json.dumps(value)
    return visible(text if len(text) <= 40 else f"{text[:40]}...")


def _csv_blocks(name: str, pieces: Iterator[tuple[int, str]], names: Sequence[str], steps: int) -> Iterator[Block]:
    """Yield the blocks of a CSV log, in whole steps; InputError for a wrong header, row or order of steps."""
    number, text = next(pieces)
    header, _, text = text.partition("\n")
    delimiter = max(DELIMITERS, key=header.count)
    named = [unquoted(cell) for cell in header.split(delimiter)]
    expected = ["step", *names]
    if named != expected and (len(names) > 1 or named != ["step", "index"]):
        got = short(header) or "nothing"
        raise InputError(f"{name}:{number}: expected the header {','.join(expected)}, got {got}")

    def block(rows: IntArray, end: int) -> Block:
        rows = rows[rows[:, 1] >= 0]  # -1 is no entry
        return Block(first=first, end=end, steps=rows[:, 0], paths=rows[:, 1:-1], lines=rows[:, -1])

    first = 0
    waiting = np.zeros((0, len(names) + 2), dtype=np.int64)  # rows of the last step, which may go on
    marked = -1  # the last step that has a row
    for start, piece in chain([(number + 1, text)], pieces):
        rows = np.concatenate([waiting, _csv_rows(name, start, piece.replace(delimiter, ","), expected)])
        if not rows.size:
            continue
        at_step, lines = rows[:, 0], rows[:, -1]
        falls = np.flatnonzero(np.diff(at_step, prepend=max(marked, 0)) < 0)
        if falls.size:
            row = int(falls[0])
            got = f"{at_step[row]} after {at_step[row - 1]}"
            raise InputError(f"{name}:{lines[row]}: expected the steps in ascending order, got {got}")
        if at_step[-1] >= steps:
            row = int(np.searchsorted(at_step, steps))
            raise _count_error(f"{name}:{lines[row]}", steps, f"step {at_step[row]}; steps count from 0")
        marked = int(at_step[-1])
        split = int(np.searchsorted(at_step, marked))
        waiting = rows[split:]
        if marked > first:
            yield block(rows[:split], marked)
            first = marked
    # The last step must be there, or a log that was cut off would pass for one that ends with empty batches.
    if marked != steps - 1:
        got = f"{marked + 1}; steps count from 0, and a row without indices (`{steps - 1},`) is an empty batch"
        raise _count_error(name, steps, got)
    yield block(waiting, steps)


def plain_table(text: str, width: int, characters: str, kind: type) -> NDArray[Any] | None:
    """Return CSV text of plain numbers as an array, read at once; None if it has other cells, or no rows."""
    # Most pieces are numbers and delimiters in rows of one length. All others are read row by row, also to find what is
    # wrong and where.
    lines = text.removesuffix("\n").count("\n") + 1
    if not text.strip() or text.translate(dict.fromkeys(map(ord, f"0123456789,\n{characters}"))):
        return None
    try:
        values: NDArray[Any] = np.loadtxt(io.StringIO(text), dtype=kind, delimiter=",", comments=None, ndmin=2)
    except ValueError:  # an empty cell, rows of several lengths, too many digits
        return None
    return values if values.shape == (lines, width) else None


def split_rows(name: str, start: int, text: str, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    for line, words in numbered_lines(start, text):
        cells = words.split(",")
        if len(cells) != len(columns):
            expected = f"expected {len(columns)} columns ({', '.join(columns)})"
            raise InputError(f"{name}:{line}: {expected}, got {len(cells)}")
        yield line, cells


def _csv_rows(name: str, start: int, text: str, columns: list[str]) -> IntArray:
    """Return rows (step, index of each level, line); indices are -1 for an empty batch."""
    table = plain_table(text, len(columns), "", np.int64)
    if table is not None and table.max() < 10**18:
        return np.column_stack([table, np.arange(start, start + len(table))])
    rows = []
    for line, cells in split_rows(name, start, text, columns):
        if not any(cell.strip() for cell in cells[1:]) and _INDEX.fullmatch(cells[0]):
            rows.append([int(cells[0]), *(-1 for _ in cells[1:]), line])
            continue
        for column, cell in zip(columns, cells, strict=True):
            if not _INDEX.fullmatch(cell):
                got = short(cell) or "nothing"
                raise InputError(f"{name}:{line}: expected a whole number >= 0 in column `{column}`, got {got}")
        rows.append([*map(int, cells), line])
    return np.array(rows, dtype=np.int64).reshape(-1, len(columns) + 1)
