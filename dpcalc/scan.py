"""Count the units of a data set in a folder tree or in a manifest (`dpcalc scan`).

In a folder tree every file is a record and every folder a unit: class folders, or users/sessions/...; a manifest is a
CSV or JSONL file with a row for each record and a column for each level. The counts become a tree file or the `data:`
section of a config. Names of levels stand outermost first.
"""

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import groupby
from operator import itemgetter
from typing import BinaryIO

from dpcalc.config.data_files import MAX_TREE_BYTES
from dpcalc.config.expand import quoted
from dpcalc.config.readers import json_content
from dpcalc.config.scalars import LEVEL_NAME
from dpcalc.config.source import readable, visible
from dpcalc.errors import InputError, system_message
from dpcalc.keys import WrongValueError
from dpcalc.records import dataclass
from dpcalc.report.output import Output
from dpcalc.sampling.hierarchy import NestedCounts, tree_of

# Folder trees
#
# Links to folders are never followed, so that no loop and no folder is counted twice. A link into the tree, or above
# it, is only named; a link elsewhere, like an unreadable folder, is an error, because its files would be missing.

SKIPPED = "-"  # in place of a level's name: folders of this depth are no level
RECORD = "example"  # name of the level of records where nobody named it
MAX_DEPTH = 64  # of folders: no data set is deeper
MAX_SHOWN = 3  # places of one kind that a message names
_MIN_SHARE = 1e-4  # part of the work below which a folder reports no progress
_LAST = chr(0x10FFFF)  # sorts after every name of a folder

HIDDEN = "hidden, not counted"
OTHER = "with another ending, not counted"
LINK = "links to folders of the same tree, not followed"
NO_FILE = "broken links and what is neither file nor folder, not counted"
EMPTY = "units that hold nothing, left out (a sampler must not draw from them either)"
UNREADABLE = "cannot be read"
OUTSIDE = "links to folders elsewhere, not followed (put the folders in their place)"
FAULTS = (UNREADABLE, OUTSIDE)
"""Kinds of places that make a count wrong, and so end the scan; the others become remarks."""


@dataclass(frozen=True)
class Skipped:
    """Places that are not counted, by kind: their number, and the first of them."""

    numbers: Counter[str] = field(default_factory=Counter)
    shown: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, place: str) -> None:
        self.numbers[kind] += 1
        shown = self.shown.setdefault(kind, [])
        if len(shown) < MAX_SHOWN:
            shown.append(visible(place))

    def lines(self, *, faults: bool) -> tuple[str, ...]:
        """Return "KIND: NUMBER (first places, ...)" for each kind of FAULTS if `faults`, else for the others."""
        shown = ((kind, number, self.shown[kind]) for kind, number in self.numbers.items())
        return tuple(
            f"{kind}: {number} ({', '.join(places)}{', ...' if number > len(places) else ''})"
            for kind, number, places in shown
            if (kind in FAULTS) is faults
        )


def folder_counts(
    path: str, names: Sequence[str], *, endings: tuple[str, ...], excluded: str, on_progress: Callable[[float], None]
) -> tuple[NestedCounts, tuple[str, ...]]:
    """Return the records of each unit, nested, and a line on each kind not counted; InputError if incomplete."""
    top, skipped = os.path.realpath(path), Skipped()
    records: dict[tuple[str, ...], int] = {}  # number of files in each folder, by its path, folders before their own
    first: dict[int, str] = {}  # the first file by depth, from 1
    # Folders of a level count as equally large for progress: their sizes are only known after the walk.
    ahead: list[tuple[tuple[str, ...], float, float]] = [((), 0.0, 1.0)]
    while ahead:
        folder, done, share = ahead.pop()
        place = os.sep.join(folder)
        files, folders, others = _entries(top, place, skipped)
        if endings:
            others += [(name, OTHER) for name in files if not name.lower().endswith(endings)]
            files = [name for name in files if name.lower().endswith(endings)]
        if excluded.startswith(os.path.join(top, place)):
            files = [name for name in files if os.path.join(top, place, name) != excluded]
        # Sorted, because file systems list folders in any order, and the first places of a kind are shown.
        for name, kind in sorted(others):
            skipped.add(kind, os.path.join(place, name))
        records[folder] = len(files)
        if files:
            first.setdefault(len(folder) + 1, os.path.join(place, min(files)))
        if folders and len(folder) >= MAX_DEPTH:
            raise InputError(f"{top}: expected folders at most {MAX_DEPTH} deep, got deeper ones")
        part = share / max(len(folders), 1)
        below = [((*folder, name), done + at * part, part) for at, name in enumerate(sorted(folders))]
        ahead += reversed(below)
        if not below and share > _MIN_SHARE:
            on_progress(done + share)
    faults = skipped.lines(faults=True)
    if faults or not first:
        what = "the counts would not be complete" if faults else "expected files to count, got none"
        lines = "".join(f"\n  {line}" for line in faults or skipped.lines(faults=False))
        raise InputError(f"{top}: {what}{lines}")
    # A level must mean the same everywhere, so that files at two depths are refused before anything is counted.
    depth = len(names) if names else max(first)
    if set(first) != {depth}:
        depths: Counter[int] = Counter()
        for folder, count in records.items():
            depths[len(folder) + 1] += count
        found = (f"{depths[at]} at depth {at} ({visible(first[at])})" for at in sorted(first))
        expected = f"at depth {depth}, one for each name of --levels" if names else "at one depth"
        raise InputError(
            f"{top}: expected all files {expected}, got {', '.join(found)}\n"
            "  = --suffix .jpg counts only some; --levels user,-,example skips folders that are no level"
        )
    # The key of a unit has a part for each level: the folders that are no level stand before the next that is one, or
    # are left out below the last one, where the records of several folders are those of one unit.
    units: Counter[tuple[str, ...]] = Counter()
    filled: set[tuple[str, ...]] = set()
    for folder, count in records.items():
        if count:
            key, part_of_key = [], ""
            for at, name in enumerate(folder):
                part_of_key = os.path.join(part_of_key, name)
                if not names or names[at] != SKIPPED:
                    key.append(part_of_key)
                    part_of_key = ""
                filled.add(folder[: at + 1])
            units[tuple(key)] += count
    empty = (folder for folder in records if 0 < len(folder) < depth and folder not in filled)
    for folder in sorted(empty, key=lambda folder: (*folder, _LAST)):  # what is in a folder before the folder itself
        skipped.add(EMPTY, os.sep.join(folder))
    return nested(list(units.items()), 0), skipped.lines(faults=False)


def _entries(top: str, place: str, skipped: Skipped) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    """Return names of files and of folders, and (name, kind) of what is neither; none, and a fault, if unreadable."""
    files: list[str] = []
    folders: list[str] = []
    others: list[tuple[str, str]] = []
    try:
        with os.scandir(os.path.join(top, place)) as entries:
            for entry in entries:
                name = entry.name
                # Tests that need no call of the system first: millions of records are files without links.
                if name.startswith("."):
                    others.append((name, HIDDEN))
                elif entry.is_file(follow_symlinks=False):
                    files.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif os.path.isfile(entry.path):
                    files.append(name)
                elif not os.path.isdir(entry.path):
                    others.append((name, NO_FILE))
                else:
                    # With a separator at the end, so that /data/a is not taken for a folder above /data/ab.
                    target = os.path.realpath(entry.path)
                    above, linked = (f"{each.rstrip(os.sep)}{os.sep}" for each in (top, target))
                    is_within = above.startswith(linked) or linked.startswith(above)
                    others.append((name, LINK if is_within else OUTSIDE))
    except OSError as error:
        skipped.add(UNREADABLE, f"{place or '.'} ({system_message(error)})")
        return [], [], []
    return files, folders, others


# Manifests

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

    with readable(path) as (_, stream):
        counts = Counter(keys(stream))  # keys are held in memory, rows are not
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


# Sizes of a data set from a folder tree or a manifest


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Sizes of the levels of a data set, its counts as in a tree file, and lines on what was not counted or named.

    A size is the name of the level, its number of units in all, and the smallest and largest number under one parent.
    """

    sizes: tuple[tuple[str, int, int, int], ...]
    counts: NestedCounts
    remarks: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        return all(low == high for *_, low, high in self.sizes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, *_ in self.sizes)


def is_folder(path: str) -> bool:
    """Return True for a folder, False for a name with a manifest's ending; InputError for any other path."""
    if not os.path.isdir(path) and not path.lower().endswith(ENDINGS):
        raise InputError(f"{path}: expected a folder or a file *{', *'.join(ENDINGS)}, got neither")
    return os.path.isdir(path)


def scan(
    path: str,
    *,
    levels: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
    endings: tuple[str, ...] = (),
    output: str = "",
    on_progress: Callable[[float], None],
) -> Scan:
    """Return the sizes of a folder tree or, for a file, a manifest; InputError if not all of it can be counted.

    Of a folder, files with one of the `endings` are counted, () for all, but the tree file `output` of an earlier scan;
    a level `-` is for folders that are no level, and levels without names are numbered. Of a manifest each level has a
    column, or all but the last, where every row is a record; either of levels and columns names both.
    """
    remarks: tuple[str, ...] = ()
    if is_folder(path):
        if columns:
            raise InputError("--columns: expected with a CSV or JSONL file, got a folder; --levels names its levels")
        counts, remarks = folder_counts(
            path,
            levels,
            endings=tuple(f".{ending.lower().removeprefix('.')}" for ending in endings),
            excluded=os.path.realpath(output) if output else "",
            on_progress=on_progress,
        )
        names = tuple(name for name in levels if name != SKIPPED)
        if not levels:
            depth, below = 1, counts
            while isinstance(below, list):
                depth, below = depth + 1, below[0]
            names = (*(f"level_{number}" for number in range(1, depth)), RECORD)
            if len(names) > 1:
                remarks += ("name the levels with --levels, e.g. --levels user,session,example",)
    else:
        if endings:
            raise InputError("--suffix: expected with a folder, got a file of rows")
        columns = columns or levels[:-1]
        names = levels or (*columns, RECORD)
        if not columns:
            raise InputError("--columns: expected the column of each level, e.g. --columns user,session, got none")
        if len(columns) not in {len(names), len(names) - 1}:
            raise InputError(
                f"--columns: expected one for each of {', '.join(names)}, or all but the last, got {len(columns)}"
            )
        counts = manifest_counts(path, columns, distinct=len(columns) == len(names), on_progress=on_progress)
    sizes_by_level = ((counts,),) if isinstance(counts, int) else tree_of(counts, names).sizes
    sizes = ((name, sum(sizes), min(sizes), max(sizes)) for name, sizes in zip(names, sizes_by_level, strict=True))
    return Scan(sizes=tuple(sizes), counts=counts, remarks=remarks)


# Counted sizes as a tree file, as the `data:` section of a config, and as JSON.

TREE_SUFFIX = ".json"  # required ending of a tree file's name


def check_level_names(names: Sequence[str]) -> None:
    for name in names:
        try:
            LEVEL_NAME.check(name)
        except WrongValueError as error:
            raise InputError(f"--levels: {error}, got `{name}`") from None
    if len(set(names)) < len(names):
        raise InputError(f"--levels: expected different names, got {', '.join(names)}")


def tree_text(names: Sequence[str], counts: NestedCounts) -> str:
    """Return a tree file as JSON; InputError if it would be larger than a config may read."""
    units = counts if isinstance(counts, list) else [counts]
    # A line for each unit of the first level, so that a change of the data is a readable change of the file.
    lines = ",\n".join(json.dumps(unit, separators=(",", ":")) for unit in units)
    text = f'{{"levels": {json.dumps(list(names), ensure_ascii=False)}, "tree": [\n{lines}\n]}}\n'
    if len(text.encode()) > MAX_TREE_BYTES:
        raise InputError(
            f"tree: expected a file of at most {MAX_TREE_BYTES // 2**20} MiB, got a larger one; state what the "
            "sizes lie between, `count: {min: 5, max: 64}`, or count whole units, e.g. --levels user,-,example"
        )
    return text


def data_section(scan: Scan, *, file: str) -> str:
    """Return a config's `data:` section, with counts if the sizes of each level are equal, else with the tree file."""
    if scan.is_equal:
        levels = (f"{{name: {quoted(name)}, count: {count}}}" for name, *_, count in scan.sizes)
        return f"data:\n  levels: [{', '.join(levels)}]\n"
    levels = (f"{{name: {quoted(name)}}}" for name in scan.names)
    name = file if re.fullmatch(r"[A-Za-z_][\w./-]*", file) else quoted(file)
    return f"data:\n  levels: [{', '.join(levels)}]\n  tree: {{file: {name}}}\n"


def scan_output(scan: Scan, *, output: str | None, section: str) -> Output:
    levels = [{"name": name, "units": units, "min": low, "max": high} for name, units, low, high in scan.sizes]
    result = {"levels": levels, "output": output, "config": section, "notes": list(scan.remarks)}
    return Output(command="scan", result=result)
