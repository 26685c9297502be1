"""Read the votes of an ensemble of teachers from a NumPy or CSV file; every cell is checked, no code in it is run."""

import math
import warnings
from typing import SupportsInt

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dpcalc.arrays import IntArray
from dpcalc.config.source import ConfigError, open_regular
from dpcalc.errors import InputError, system_message
from dpcalc.mechanisms.pate import Votes

_ENDINGS = (".npy", ".csv", ".tsv")
_DELIMITERS = ",;\t"
_MAX_CELLS = 50_000_000  # 400 MB as int64; ten times more does not fit into the memory of a small machine
_MAX_TEACHERS = 1_000_000  # sums of votes stay exact far beyond it, but larger numbers are surely a mistake
_NPY_MAGIC = b"\x93NUMPY"
_MAX_LINE_BYTES = 64 * 1024 * 1024
_COUNT = f"a whole number from 0 to {_MAX_TEACHERS}"


def read_votes(
    path: str, *, teachers: int | None = None, classes: int | None = None, queries: int | None = None
) -> Votes:
    """Return the votes on the first `queries` queries in a .npy, .csv or .tsv file (None: on all).

    A cell is the number of teachers that give a query (row) a label (column); with `classes`, the number of labels, it
    is the label, from 0, that a teacher (row) gives a query (column). `teachers` is their number, None for the sum of
    the first row. InputError: a file that is not regular or not readable, or a wrong cell, row or size, by row
    and column, counted from 1.
    """
    if not path.lower().endswith(_ENDINGS):
        raise InputError(f"{path}: expected a file *{', *'.join(_ENDINGS)}, got another ending")
    try:
        table = _npy_table(path) if path.lower().endswith(".npy") else _csv_table(path)
    except ConfigError as error:
        raise InputError(f"{path}: {error.diagnostics[0].message}; give a regular file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {system_message(error)}") from error
    _refuse_cells(path, (table < 0) | (table > _MAX_TEACHERS), table, _COUNT)

    counts = table
    if classes is not None:
        if classes < 2:
            raise InputError(f"--classes: expected at least 2, got {classes}")
        if teachers is not None and len(table) != teachers:
            raise InputError(f"{path}: expected a row for each of {teachers} teachers, got {len(table)}")
        _refuse_cells(path, table >= classes, table, f"a label from 0 to {classes - 1}")
        columns = table.shape[1]
        if columns * classes > _MAX_CELLS:
            raise InputError(f"--classes: expected at most {_MAX_CELLS} counts, got {columns} x {classes}")
        # One number for each pair (query, label), so that a single count gives the whole table.
        pairs = (table + classes * np.arange(columns)).ravel()
        counts = np.bincount(pairs, minlength=columns * classes).reshape(columns, classes)
    if counts.shape[1] < 2:
        raise InputError(f"{path}: expected a column for each of at least 2 labels, got {counts.shape[1]}")
    if queries is not None and not 1 <= queries <= len(counts):
        raise InputError(f"--queries: expected 1 to {len(counts)}, the queries in {path}, got {queries}")
    counts = counts[:queries]

    sums = counts.sum(axis=1)
    expected = int(sums[0]) if teachers is None else teachers
    wrong = np.flatnonzero(sums != expected)
    if wrong.size:
        row = int(wrong[0])
        origin = "as in row 1" if teachers is None else "the number of teachers"
        raise InputError(
            f"{path}: row {row + 1}: expected {expected} votes, {origin}, got {int(sums[row])}; "
            "columns are labels (--classes N for a file with the label of every teacher)"
        )
    if not 1 <= expected <= _MAX_TEACHERS:
        raise InputError(f"{path}: row 1: expected 1 to {_MAX_TEACHERS} votes, got {expected}")
    return Votes(counts=counts, teachers=expected)


def _npy_table(path: str) -> IntArray:
    """Return the whole numbers in a .npy file, whose header is untrusted.

    Type, shape and size are checked before NumPy allocates or unpickles anything.
    """
    damaged = InputError(f"{path}: expected a NumPy array of whole numbers, got a damaged one")
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
            raise damaged from error
    if dtype.hasobject:
        raise InputError(f"{path}: expected a NumPy array of whole numbers, got Python objects, which are not loaded")
    if dtype.kind not in "iuf":
        raise InputError(f"{path}: expected a NumPy array of whole numbers, got {dtype}")
    lengths = [length for length in shape if type(length) is int and length > 0]
    if len(shape) != 2 or len(lengths) != 2:
        got = str(shape)[:60]
        raise InputError(f"{path}: expected two dimensions, queries x labels, none of them empty, got {got}")
    _refuse_huge(path, math.prod(lengths))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            raw = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:  # the file is shorter than its header says
        raise damaged from error
    # Fractions, NaN and numbers beyond int64 do not survive the conversion and are found by comparing.
    with np.errstate(invalid="ignore", over="ignore"):
        table = np.asarray(raw).astype(np.int64)
        is_rounded = np.asarray(raw) != table
    _refuse_cells(path, is_rounded, raw, _COUNT)
    return table


def _csv_table(path: str) -> IntArray:
    """Return the whole numbers of a CSV file, without blank lines and a header, a first line without numbers."""
    # Rows as arrays of four bytes a number: lists of Python's numbers take several times the memory.
    rows: list[NDArray[np.int32]] = []
    delimiter, columns, number = "", 0, 0
    with open_regular(path) as stream:
        while line := stream.readline(_MAX_LINE_BYTES):
            number += 1
            if len(line) == _MAX_LINE_BYTES:  # a file without line ends is refused before it fills the memory
                raise InputError(f"{path}: row {number}: expected at most {_MAX_LINE_BYTES} characters, got more")
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise InputError(f"{path}: row {number}: expected UTF-8 text, got other bytes") from None
            if not text.strip():
                continue
            text = text.rstrip("\r\n")
            delimiter = delimiter or max(_DELIMITERS, key=text.count)
            words = text.split(delimiter)
            is_first, columns = not columns, columns or len(words)
            if len(words) != columns:
                raise InputError(f"{path}: row {number}: expected {columns} columns, got {len(words)}")
            if is_first and all(_as_number(word) is None for word in words):
                continue
            try:
                # int() would read 1_000 as 1000; with the underscore replaced it refuses it.
                rows.append(np.array([int(word.replace("_", "-")) for word in words], dtype=np.int32))
            except (ValueError, OverflowError):  # "3.0" is a whole number too
                values = [_as_number(word) for word in words]
                for column, (value, word) in enumerate(zip(values, words, strict=True)):
                    if value is None or not (value.is_integer() and abs(value) <= _MAX_TEACHERS):
                        got = word.strip()[:40] or "nothing"
                        raise _cell_error(path, number - 1, column, _COUNT, got) from None
                rows.append(np.array(values, dtype=np.float64).astype(np.int32))
            _refuse_huge(path, len(rows) * columns)
    if not rows:
        raise InputError(f"{path}: expected a row for each query, got none")
    return np.stack(rows).astype(np.int64)


def _as_number(word: str) -> float | None:
    """Return a word as a float; None if it is no number or has an underscore."""
    try:
        return None if "_" in word else float(word)
    except ValueError:
        return None


def _refuse_huge(path: str, cells: int) -> None:
    if cells > _MAX_CELLS:
        raise InputError(f"{path}: expected at most {_MAX_CELLS} numbers, got more")


def _refuse_cells(path: str, wrong: NDArray[np.bool_], table: NDArray[np.generic], expected: str) -> None:
    """Raise the error of the first cell that is wrong, if there is one."""
    if wrong.any():
        row, column = np.unravel_index(int(wrong.argmax()), table.shape)
        raise _cell_error(path, row, column, expected, table[row, column])


def _cell_error(path: str, row: SupportsInt, column: SupportsInt, expected: str, got: object) -> InputError:
    """Return the error for a cell; row and column are indices from 0, which the message counts from 1."""
    return InputError(f"{path}: row {int(row) + 1}, column {int(column) + 1}: expected {expected}, got {got}")
