"""Count the units of a manifest: a CSV or JSONL file with a row for each record and a column for each level."""

import csv
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from dpcalc.config.json_text import json_content
from dpcalc.config.source import ConfigError, open_regular
from dpcalc.errors import InputError, system_message
from dpcalc.sampling.trees import NestedCounts

ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson")
DELIMITERS = ",;\t|"
MAX_LINE = 16 * 1024 * 1024
"""Longest line that is read, in bytes: a longer one is no row, and would fill the memory."""
_PROGRESS_ROWS = 4096  # rows between two reports of progress

RECORD = "example"
"""Name of the level of records where nobody named it."""

Key = tuple[str, ...]


def levels_and_columns(levels: tuple[str, ...], columns: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (levels, columns), an empty one made from the other; InputError unless all levels above records have one.

    Args:
        levels: names of the levels, outermost first, the last that of the records; () for the columns and RECORD.
        columns: columns of a manifest, one for each level or for each but the last; () for all levels but the last.

    Raises:
        InputError: there is no column, or another number of them.
    """
    columns = columns or levels[:-1]
    levels = levels or (*columns, RECORD)
    if not columns:
        raise InputError("--columns: expected the column of each level, e.g. --columns user,session, got none")
    if len(columns) not in {len(levels), len(levels) - 1}:
        raise InputError(
            f"--columns: expected one for each of {', '.join(levels)}, or all but the last, got {len(columns)}"
        )
    return levels, columns


def manifest_counts(
    path: str, columns: Sequence[str], *, distinct: bool, on_progress: Callable[[float], None]
) -> NestedCounts:
    """Return the number of records of each unit in a manifest, nested by column; InputError if there are none.

    Args:
        path: a file whose name ends in one of ENDINGS.
        columns: the column of each level, outermost first; the same value under another parent is another unit.
        distinct: True if the last column names the records, so that equal rows are one record; False if every row is a
            record.
        on_progress: called with the share of the file that is read, in [0, 1].

    Returns:
        Counts in the form of a tree file, units in the order of their names; a number where there is one level.

    Raises:
        InputError: the file or a line cannot be read, or lacks a column; the message names the line.
    """
    counts = _rows_by_key(path, columns, on_progress)
    if not counts:
        raise InputError(f"{path}: expected a row for each record, got none")
    if distinct:
        counts = Counter(key[:-1] for key in counts)
    return _nested(sorted(counts.items()), 0)


def _rows_by_key(path: str, columns: Sequence[str], on_progress: Callable[[float], None]) -> Counter[Key]:
    """Return the number of rows with each combination of the columns' values; InputError if they cannot be read."""
    rows = _csv_rows if path.lower().endswith((".csv", ".tsv")) else _jsonl_rows
    try:
        with open_regular(path) as stream:
            keys = _with_progress(rows(path, stream, columns), stream, os.fstat(stream.fileno()).st_size, on_progress)
            # Keys are held in memory, rows are not.
            return Counter(keys)
    except ConfigError as error:
        raise InputError(f"{path}: {error.diagnostics[0].message}; give a regular file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {system_message(error)}") from error


def _with_progress(
    keys: Iterator[Key], stream: BinaryIO, size: int, on_progress: Callable[[float], None]
) -> Iterator[Key]:
    """Yield the keys unchanged, and every 4096 keys report the share of the file's bytes that is read."""
    for number, key in enumerate(keys):
        if number % _PROGRESS_ROWS == 0:
            on_progress(min(1.0, stream.tell() / max(size, 1)))
        yield key


def _nested(items: Sequence[tuple[Key, int]], level: int) -> NestedCounts:
    """Return sorted (key, count) pairs as nested lists of counts, grouped by the key from position `level` (from 0)."""
    # Equal values of one column stand together, because the keys are sorted.
    if len(items[0][0]) == level:
        return items[0][1]
    return [_nested(list(group), level + 1) for _, group in groupby(items, key=lambda item: item[0][level])]


def _csv_rows(path: str, stream: BinaryIO, columns: Sequence[str]) -> Iterator[Key]:
    """Yield the columns' values of each row, empty rows skipped; InputError for a malformed row or an empty value."""
    lines = _lines(path, stream)
    delimiter, header = _delimiter_and_header(path, next(lines, ""), columns)
    places = [header.index(column) for column in columns]
    chosen = itemgetter(*places) if len(places) > 1 else None
    for line, row in _csv_records(path, lines, delimiter, start=2):
        if len(row) != len(header):
            if not row:
                continue
            raise InputError(f"{path}:{line}: expected {len(header)} columns, got {len(row)}")
        key: Key = chosen(row) if chosen else tuple(row[place] for place in places)
        if "" in key:
            raise _no_value_error(path, line, columns[key.index("")])
        yield key


def _csv_records(path: str, lines: Iterable[str], delimiter: str, *, start: int) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its last line, cells) of each row, `lines` beginning at line `start`; InputError if wrong."""
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num + start - 1, row
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num + start - 1}: cannot be read as CSV: {error}") from error


def _delimiter_and_header(path: str, line: str, columns: Sequence[str]) -> tuple[str, list[str]]:
    """Return (delimiter, column names) of a header; InputError unless it has each of the columns once."""
    # A delimiter fits if it splits the header into names that hold all columns: a comma in a quoted name does no harm.
    fitting: list[tuple[str, list[str]]] = []
    wrong = ""
    for delimiter in DELIMITERS:
        try:
            header = next((cells for _, cells in _csv_records(path, [line], delimiter, start=1)), [])
        except InputError as error:  # for another delimiter it may be a header
            wrong = wrong or str(error)
        else:
            fitting += [(delimiter, header)] if set(columns) <= set(header) else []
    if not fitting:
        if wrong:
            raise InputError(wrong)
        raise InputError(f"{path}: expected columns {', '.join(columns)}, got {line.strip() or 'an empty file'}")
    delimiter, header = fitting[0]
    for column in columns:
        if header.count(column) > 1:
            raise InputError(f"{path}:1: expected one column `{column}`, got {header.count(column)}")
    return delimiter, header


def _jsonl_rows(path: str, stream: BinaryIO, columns: Sequence[str]) -> Iterator[Key]:
    """Yield the columns' values of each JSON line as texts; InputError unless they are words or whole numbers."""
    for number, line in enumerate(_lines(path, stream), start=1):
        if not line.strip():
            continue
        try:
            row = json_content(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number}: cannot be read as JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number}: expected an object with {', '.join(columns)}, got {line.strip()[:40]}")
        values = [row.get(column) for column in columns]
        for column, value in zip(columns, values, strict=True):
            # By `type`: to isinstance `true` is a whole number.
            if type(value) not in {str, int} or value == "":
                raise _no_value_error(path, number, column, value)
        yield tuple(map(str, values))


def _no_value_error(path: str, line: int, column: str, value: object = "") -> InputError:
    """Return the InputError that a row (line from 1) has no word or whole number in a column."""
    got = "nothing" if value in ("", None) else repr(value)[:40]
    return InputError(f"{path}:{line}: expected a word or a whole number in column `{column}`, got {got}")


def _lines(path: str, stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of a file as text with their ends; InputError for one that is too long or not UTF-8."""
    for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), start=1):
        if len(line) == MAX_LINE:
            raise InputError(f"{path}:{number}: expected at most {MAX_LINE} characters in a line, got more")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{path}:{number}: expected UTF-8, got other bytes; save the file as UTF-8") from None
