"""Read the votes of an ensemble of teachers from a NumPy or CSV file; every cell is checked, no code in it is run."""

import math
import warnings
from collections.abc import Iterator
from typing import Any, SupportsInt

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dpcalc.arrays import IntArray
from dpcalc.config.source import ConfigError, open_regular
from dpcalc.errors import InputError, system_message
from dpcalc.mechanisms.pate import Votes
from dpcalc.records import dataclass

_ENDINGS = (".npy", ".csv", ".tsv")
_DELIMITERS = ",;\t"
_MAX_CELLS = 50_000_000
"""Largest table, 400 MB as int64; ten times more does not fit into the memory of a small machine."""
_MAX_TEACHERS = 1_000_000
"""Largest number of teachers; sums of votes stay exact far beyond it, but larger numbers are surely a mistake."""
_NPY_MAGIC = b"\x93NUMPY"
_MAX_LINE_BYTES = 64 * 1024 * 1024
_COUNT = f"a whole number from 0 to {_MAX_TEACHERS}"


@dataclass(frozen=True, kw_only=True)
class VotesFile:
    """A file of votes, and the form in which it holds them.

    Attributes:
        path: a .npy, .csv or .tsv file.
        teachers: their number, or None for the sum of the first row.
        classes: number of labels >= 2 if the file holds the label, from 0, that each teacher (row) gives each query
            (column); None if it holds the number of teachers (cell) that give each query (row) each label (column).
        queries: number of queries to use, from the first on, or None for all.
    """

    path: str
    teachers: int | None = None
    classes: int | None = None
    queries: int | None = None


def read_votes(source: VotesFile) -> Votes:
    """Return the votes on the first `queries` queries in a file, counted from labels if `classes` is given.

    Raises:
        InputError: a file that is not regular or not readable, or a cell, row or size that is wrong; the message names
            the row and column, counted from 1.
    """
    path = source.path
    table = _checked_table(path)
    counts = table if source.classes is None else _counts_of_labels(source, table, source.classes)
    if counts.shape[1] < 2:
        raise InputError(f"{path}: expected a column for each of at least 2 labels, got {counts.shape[1]}")
    if source.queries is not None and not 1 <= source.queries <= len(counts):
        raise InputError(f"--queries: expected 1 to {len(counts)}, the queries in {path}, got {source.queries}")
    counts = counts[: source.queries]
    return Votes(counts=counts, teachers=_number_of_teachers(source, counts))


def _checked_table(path: str) -> IntArray:
    """Return the table in a .npy, .csv or .tsv file; InputError if unreadable or a cell is not in [0, 1,000,000]."""
    if not path.lower().endswith(_ENDINGS):
        raise InputError(f"{path}: expected a file *{', *'.join(_ENDINGS)}, got another ending")
    try:
        table = _npy_table(path) if path.lower().endswith(".npy") else _csv_table(path)
    except ConfigError as error:
        raise InputError(f"{path}: {error.diagnostics[0].message}; give a regular file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {system_message(error)}") from error
    outside = (table < 0) | (table > _MAX_TEACHERS)
    if outside.any():
        row, column = np.unravel_index(int(outside.argmax()), table.shape)
        raise _cell_error(path, row, column, _COUNT, table[row, column])
    return table


def _number_of_teachers(source: VotesFile, counts: IntArray) -> int:
    """Return `teachers`, or else the sum of row 1; InputError unless each row sums to it and it is 1 to 1,000,000."""
    sums = counts.sum(axis=1)
    teachers = int(sums[0]) if source.teachers is None else source.teachers
    wrong = np.flatnonzero(sums != teachers)
    if wrong.size:
        row = int(wrong[0])
        origin = "as in row 1" if source.teachers is None else "the number of teachers"
        raise InputError(
            f"{source.path}: row {row + 1}: expected {teachers} votes, {origin}, got {int(sums[row])}; "
            "columns are labels (--classes N for a file with the label of every teacher)"
        )
    if not 1 <= teachers <= _MAX_TEACHERS:
        raise InputError(f"{source.path}: row 1: expected 1 to {_MAX_TEACHERS} votes, got {teachers}")
    return teachers


def _counts_of_labels(source: VotesFile, table: IntArray, classes: int) -> IntArray:
    """Return how often each query of a (teachers, queries) table has each label, shape (queries, classes)."""
    _require_labels(source, table, classes)
    # One number for each pair (query, label), so that a single count gives the whole table.
    queries = table.shape[1]
    cells = (table + classes * np.arange(queries)).ravel()
    return np.bincount(cells, minlength=queries * classes).reshape(queries, classes)


def _require_labels(source: VotesFile, table: IntArray, classes: int) -> None:
    """Raise InputError for classes < 2, other than `teachers` rows, a label >= classes, or over 50,000,000 counts."""
    if classes < 2:
        raise InputError(f"--classes: expected at least 2, got {classes}")
    if source.teachers is not None and len(table) != source.teachers:
        raise InputError(f"{source.path}: expected a row for each of {source.teachers} teachers, got {len(table)}")
    if table.size and table.max() >= classes:
        row, column = np.unravel_index(int((table >= classes).argmax()), table.shape)
        raise _cell_error(source.path, row, column, f"a label from 0 to {classes - 1}", table[row, column])
    if table.shape[1] * classes > _MAX_CELLS:
        raise InputError(f"--classes: expected at most {_MAX_CELLS} counts, got {table.shape[1]} x {classes}")


def _npy_table(path: str) -> IntArray:
    """Return the whole numbers in a two-dimensional .npy file; InputError for anything else, never loading objects."""
    _require_table(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            raw = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:  # the file is shorter than its header says
        raise InputError(f"{path}: expected a NumPy array of whole numbers, got a damaged one") from error
    # Fractions, NaN and numbers beyond int64 do not survive the conversion and are found by comparing.
    with np.errstate(invalid="ignore", over="ignore"):
        table = np.asarray(raw).astype(np.int64)
        is_rounded = np.asarray(raw) != table
    if is_rounded.any():
        row, column = np.unravel_index(int(is_rounded.argmax()), raw.shape)
        raise _cell_error(path, row, column, _COUNT, raw[row, column])
    return table


def _require_table(path: str) -> None:
    """Raise InputError unless a .npy file's header promises a numeric two-dimensional table, not empty nor huge."""
    # The header is untrusted: type, shape and size are checked before NumPy allocates or unpickles anything.
    shape, dtype = _npy_header(path)
    if dtype.hasobject:
        raise InputError(f"{path}: expected a NumPy array of whole numbers, got Python objects, which are not loaded")
    if dtype.kind not in "iuf":
        raise InputError(f"{path}: expected a NumPy array of whole numbers, got {dtype}")
    lengths = [length for length in shape if type(length) is int and length > 0]
    if len(shape) != 2 or len(lengths) != 2:
        got = str(shape)[:60]
        raise InputError(f"{path}: expected two dimensions, queries x labels, none of them empty, got {got}")
    _refuse_huge(path, math.prod(lengths))


def _npy_header(path: str) -> tuple[tuple[object, ...], np.dtype[Any]]:
    """Return shape and type from a .npy file's header, before anything is allocated; InputError if it is damaged."""
    with open_regular(path) as stream:
        if stream.read(len(_NPY_MAGIC)) != _NPY_MAGIC:
            raise InputError(f"{path}: expected a NumPy array of whole numbers, got something else")
        stream.seek(0)
        try:
            read = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of headers that Python 2 wrote
                shape, _, dtype = read(stream)
        except Exception as error:  # NumPy reads it with Python's own parser, which raises many exceptions
            raise InputError(f"{path}: expected a NumPy array of whole numbers, got a damaged one") from error
    return shape, dtype


def _csv_table(path: str) -> IntArray:
    """Return the whole numbers of a CSV file, without any header; InputError for other cells, no row or too many."""
    # Rows as arrays of four bytes a number: lists of Python's numbers take several times the memory.
    rows: list[NDArray[np.int32]] = []
    for number, words in _csv_words(path):
        rows.append(_csv_row(path, number, words))
        _refuse_huge(path, len(rows) * len(words))
    if not rows:
        raise InputError(f"{path}: expected a row for each query, got none")
    return np.stack(rows).astype(np.int64)


def _csv_words(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield number and words of each line but a header, a first line without numbers; InputError if lengths differ."""
    delimiter, cells = "", 0
    for number, line in _lines(path):
        delimiter = delimiter or max(_DELIMITERS, key=line.count)
        words = line.split(delimiter)
        is_header = not cells and all(_as_number(word) is None for word in words)
        cells = cells or len(words)
        if len(words) != cells:
            raise InputError(f"{path}: row {number}: expected {cells} columns, got {len(words)}")
        if not is_header:
            yield number, words


def _csv_row(path: str, number: int, words: list[str]) -> NDArray[np.int32]:
    """Return the words of line `number` as whole numbers, "3.0" too; InputError for other words."""
    try:
        # int() would read 1_000 as 1000; with the underscore replaced it refuses it.
        return np.array([int(word.replace("_", "-")) for word in words], dtype=np.int32)
    except (ValueError, OverflowError):
        values = [_as_number(word) for word in words]
    for column, (value, word) in enumerate(zip(values, words, strict=True)):
        if value is None or not (value.is_integer() and abs(value) <= _MAX_TEACHERS):
            raise _cell_error(path, number - 1, column, _COUNT, word.strip()[:40] or "nothing")
    return np.array(values, dtype=np.float64).astype(np.int32)


def _as_number(word: str) -> float | None:
    """Return a word as a float; None if it is no number or has an underscore."""
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that is not blank; InputError if it is not UTF-8 or too long."""
    with open_regular(path) as stream:
        # A file without line ends is refused before it fills the memory.
        number = 0
        while line := stream.readline(_MAX_LINE_BYTES):
            number += 1
            if len(line) == _MAX_LINE_BYTES:
                raise InputError(f"{path}: row {number}: expected at most {_MAX_LINE_BYTES} characters, got more")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise InputError(f"{path}: row {number}: expected UTF-8 text, got other bytes") from None
            if text.strip():
                yield number, text.rstrip("\r\n")


def _refuse_huge(path: str, cells: int) -> None:
    """Raise InputError for more than 50,000,000 cells."""
    if cells > _MAX_CELLS:
        raise InputError(f"{path}: expected at most {_MAX_CELLS} numbers, got more")


def _cell_error(path: str, row: SupportsInt, column: SupportsInt, expected: str, got: object) -> InputError:
    """Return the error for a cell; row and column are indices from 0, which the message counts from 1."""
    return InputError(f"{path}: row {int(row) + 1}, column {int(column) + 1}: expected {expected}, got {got}")
