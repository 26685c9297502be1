"""A manifest as nested counts: a CSV or JSONL file with a row for each record and a column for each level."""

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from dpcalc.config.diagnostics import ConfigError
from dpcalc.config.source import open_regular
from dpcalc.errors import InputError, reason
from dpcalc.sampling.trees import Counts

ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson")
DELIMITERS = ",;\t|"
LONGEST_LINE = 16 * 1024 * 1024
"""Longest line that is read, in bytes: a larger one is no row, and would fill the memory."""
_EVERY = 4096  # rows between two words about progress

Key = tuple[str, ...]


def manifest_counts(path: str, columns: Sequence[str], *, distinct: bool, tell: Callable[[float], None]) -> Counts:
    """Nested counts of a manifest.

    Args:
        path: the file.
        columns: one for each level that tells units apart, outermost first; the same word under another parent is
            another unit.
        distinct: whether the last column names the records, so that rows that agree are one; else every row is one.
        tell: hears which part of the file is read, from 0 to 1.

    Returns:
        Counts as a tree file holds them, by the order of the words; a number where there is one level.

    Raises:
        InputError: names the line that cannot be read, or lacks a column.
    """
    rows = _csv if path.lower().endswith((".csv", ".tsv")) else _jsonl
    try:
        with open_regular(path) as stream:
            keys = _told(rows(path, stream, columns), stream, os.fstat(stream.fileno()).st_size, tell)
            found = Counter(dict.fromkeys(keys, 1)) if distinct else Counter(keys)
    except ConfigError as error:
        raise InputError(f"{path}: {error.diagnostics[0].message}; give a regular file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from error
    if not found:
        raise InputError(f"{path}: expected a row for each record, got none")
    if distinct:
        found = Counter(key[:-1] for key in found)
    return _nested(sorted(found.items()), 0)


def _told(keys: Iterator[Key], stream: BinaryIO, size: int, tell: Callable[[float], None]) -> Iterator[Key]:
    """The same keys, and a word about progress now and then."""
    for number, key in enumerate(keys):
        if number % _EVERY == 0:
            tell(min(1.0, stream.tell() / max(size, 1)))
        yield key


def _nested(items: Sequence[tuple[Key, int]], at: int) -> Counts:
    """Counts by key as nested lists; the keys ascend."""
    if len(items[0][0]) == at:
        return items[0][1]
    return [_nested(list(group), at + 1) for _, group in groupby(items, key=lambda item: item[0][at])]


def _csv(path: str, stream: BinaryIO, columns: Sequence[str]) -> Iterator[Key]:
    """The words of each row of a CSV file."""
    lines = _lines(path, stream)
    head = next(lines, "")
    found = ((one, next(csv.reader([head], delimiter=one), [])) for one in DELIMITERS)
    fitting = [(delimiter, header) for delimiter, header in found if set(columns) <= set(header)]
    if not fitting:
        raise InputError(f"{path}: expected columns {', '.join(columns)}, got {head.strip() or 'an empty file'}")
    delimiter, header = fitting[0]
    for column in columns:
        if header.count(column) > 1:
            raise InputError(f"{path}:1: expected one column `{column}`, got {header.count(column)}")
    places = [header.index(column) for column in columns]
    chosen = itemgetter(*places) if len(places) > 1 else None
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if len(row) != len(header):
                if not row:
                    continue
                raise InputError(f"{path}:{reader.line_num + 1}: expected {len(header)} columns, got {len(row)}")
            key: Key = chosen(row) if chosen else tuple(row[place] for place in places)
            if "" in key:
                raise _empty(path, reader.line_num + 1, columns[key.index("")])
            yield key
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num + 1}: cannot be read as CSV: {error}") from error


def _jsonl(path: str, stream: BinaryIO, columns: Sequence[str]) -> Iterator[Key]:
    """The words of each line of a JSONL file."""
    for number, line in enumerate(_lines(path, stream), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}:{number}: cannot be read as JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{path}:{number}: expected an object with {', '.join(columns)}, got {line.strip()[:40]}")
        values = [row.get(column) for column in columns]
        for column, value in zip(columns, values, strict=True):
            if type(value) not in {str, int} or value == "":
                raise _empty(path, number, column, value)
        yield tuple(map(str, values))


def _empty(path: str, line: int, column: str, value: object = "") -> InputError:
    """That a row does not say to which unit a record belongs."""
    got = "nothing" if value in ("", None) else repr(value)[:40]
    return InputError(f"{path}:{line}: expected a word or a whole number in column `{column}`, got {got}")


def _lines(path: str, stream: BinaryIO) -> Iterator[str]:
    """The lines of a UTF-8 text, their ends kept."""
    for number, line in enumerate(iter(lambda: stream.readline(LONGEST_LINE), b""), start=1):
        if len(line) == LONGEST_LINE:
            raise InputError(f"{path}:{number}: expected at most {LONGEST_LINE} characters in a line, got more")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{path}:{number}: expected UTF-8, got other bytes; save the file as UTF-8") from None
