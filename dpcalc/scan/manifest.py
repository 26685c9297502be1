"""Count the units of a manifest: a CSV or JSONL file with a row for each record and a column for each level."""

import csv
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from dpcalc.config.documents import json_content
from dpcalc.config.source import ConfigError, open_regular
from dpcalc.errors import InputError, system_message
from dpcalc.sampling.trees import NestedCounts

ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson")
DELIMITERS = ",;\t|"
MAX_LINE = 16 * 1024 * 1024  # bytes: a longer line is no row, and would fill the memory
_PROGRESS_ROWS = 4096  # rows between two reports of progress

Key = tuple[str, ...]


def manifest_counts(
    path: str, columns: Sequence[str], *, distinct: bool, on_progress: Callable[[float], None]
) -> NestedCounts:
    """Return the records of each unit, nested by column; `distinct` ones by the last column: equal rows are one."""
    rows = _csv_rows if path.lower().endswith((".csv", ".tsv")) else _jsonl_rows

    def keys(stream: BinaryIO) -> Iterator[Key]:
        size = max(os.fstat(stream.fileno()).st_size, 1)
        for number, key in enumerate(rows(path, stream, columns)):
            if number % _PROGRESS_ROWS == 0:
                on_progress(min(1.0, stream.tell() / size))
            yield key

    try:
        with open_regular(path) as stream:
            counts = Counter(keys(stream))  # keys are held in memory, rows are not
    except ConfigError as error:
        raise InputError(f"{path}: {error.diagnostics[0].message}; give a regular file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {system_message(error)}") from error
    if not counts:
        raise InputError(f"{path}: expected a row for each record, got none")
    if distinct:
        counts = Counter(key[:-1] for key in counts)
    return nested(sorted(counts.items()), 0)


def nested(items: Sequence[tuple[Key, int]], level: int) -> NestedCounts:
    """Return (key, count) pairs, those of one parent together, as nested lists of counts from position `level` on."""
    if len(items[0][0]) == level:
        return items[0][1]
    return [nested(list(group), level + 1) for _, group in groupby(items, key=lambda item: item[0][level])]


def _csv_rows(path: str, stream: BinaryIO, columns: Sequence[str]) -> Iterator[Key]:
    """Yield the columns' values of each row, empty rows skipped; InputError for a malformed row or an empty value."""
    lines = _lines(path, stream)
    first = next(lines, "")
    # A delimiter fits if it splits the header into names that hold all columns: a comma in a quoted name does no harm.
    fitting: list[tuple[str, list[str]]] = []
    wrong = ""
    for delimiter in DELIMITERS:
        try:
            header = next((cells for _, cells in _csv_records(path, [first], delimiter, start=1)), [])
        except InputError as error:  # for another delimiter it may be a header
            wrong = wrong or str(error)
        else:
            fitting += [(delimiter, header)] if set(columns) <= set(header) else []
    if not fitting:
        got = first.strip() or "an empty file"
        raise InputError(wrong or f"{path}: expected columns {', '.join(columns)}, got {got}")
    delimiter, header = fitting[0]
    for column in columns:
        if header.count(column) > 1:
            raise InputError(f"{path}:1: expected one column `{column}`, got {header.count(column)}")
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
