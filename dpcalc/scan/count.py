"""Count the units of a data set in a folder tree or in a manifest.

In a folder tree every file is a record and every folder a unit: class folders, or users/sessions/...; manifests are
counted by `dpcalc.scan.manifest`. The counts become a tree file or the `data:` section of a config.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field

from dpcalc.config.data_files import MAX_TREE_BYTES
from dpcalc.config.normal import quoted
from dpcalc.config.scalars import LEVEL_NAME
from dpcalc.config.source import visible
from dpcalc.errors import InputError, system_message
from dpcalc.keys import WrongValueError
from dpcalc.records import dataclass
from dpcalc.report.fields import Output, json_only
from dpcalc.sampling.trees import NestedCounts, tree_of
from dpcalc.scan.manifest import ENDINGS, RECORD, levels_and_columns, manifest_counts

# Folder trees
#
# Links to folders are never followed, so that no loop and no folder is counted twice. A link into the tree, or above
# it, is only named; a link elsewhere, like an unreadable folder, is an error, because its files would be missing.


SKIPPED = "-"  # in place of a level's name: folders of this depth are no level
# Of folders: no data set is deeper, and the walk is recursive; at ten times the value Python would stop it.
MAX_DEPTH = 64
MAX_SHOWN = 3  # places of one kind that a message names
_MIN_SHARE = 1e-4  # part of the work below which a folder reports no progress

HIDDEN = "hidden, not counted"
OTHER = "with another ending, not counted"
LINK = "links to folders of the same tree, not followed"
NO_FILE = "broken links and what is neither file nor folder, not counted"
EMPTY = "units that hold nothing, left out (a sampler must not draw from them either)"
UNREADABLE = "cannot be read"
OUTSIDE = "links to folders elsewhere, not followed (put the folders in their place)"
FAULTS = (UNREADABLE, OUTSIDE)
"""Kinds of places that make a count wrong, and so end the scan; the others become remarks."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder and its contents.

    Attributes:
        place: path from the top, "" for the top.
        files: number of counted files directly in it.
        folders: the folders directly in it, in the order of names.
    """

    place: str
    files: int
    folders: tuple["Folder", ...]


@dataclass(kw_only=True)
class SkippedPlaces:
    """Places that are not counted, by kind (HIDDEN, LINK, ...).

    Attributes:
        counts: number of places of each kind.
        first: the first MAX_SHOWN places of each kind.
    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, place: str) -> None:
        """Count a place of a kind, and store it for display if it is among the first three of its kind.

        Args:
            kind: one of the constants above.
            place: path from the top.
        """
        self.counts[kind] += 1
        shown = self.first.setdefault(kind, [])
        if len(shown) < MAX_SHOWN:
            shown.append(visible(place))

    def lines(self, *, faults: bool) -> tuple[str, ...]:
        """Return one line for each kind: of FAULTS if `faults`, else of all other kinds."""
        return tuple(self._kind_line(kind) for kind in self.counts if (kind in FAULTS) is faults)

    def _kind_line(self, kind: str) -> str:
        """Return "KIND: NUMBER (first places, ...)"."""
        count, shown = self.counts[kind], self.first[kind]
        return f"{kind}: {count} ({', '.join(shown)}{', ...' if count > len(shown) else ''})"


@dataclass(frozen=True, kw_only=True)
class Walk:
    """One pass over a folder tree.

    Attributes:
        top: real path of the folder.
        endings: endings of the files that are counted, in lower case; () for all files.
        excluded: real path of a file that is not counted, the output of an earlier scan; "" for none.
        on_progress: called with the share of the work that is done, in [0, 1].
        skipped: filled with the places that are not counted.
        depths: filled with (number of files, the first file) of each depth; files directly in `top` have depth 1.
    """

    top: str
    endings: tuple[str, ...]
    excluded: str
    on_progress: Callable[[float], None]
    skipped: SkippedPlaces = field(default_factory=SkippedPlaces)
    depths: dict[int, tuple[int, str]] = field(default_factory=dict)

    def folder(self, place: str = "", depth: int = 1, done: float = 0.0, share: float = 1.0) -> Folder:
        """Read a folder and all below it, fill `skipped` and `depths`; InputError if folders nest beyond MAX_DEPTH.

        Args:
            place: path of the folder from the top.
            depth: depth of the files in it, from 1.
            done: part of the whole work that is done before it, in [0, 1].
            share: part of the whole work that it is.

        Raises:
            InputError: folders are nested more than MAX_DEPTH deep.
        """
        files, names = self._entries(place)
        self._note_depth(place, depth, files)
        if names and depth > MAX_DEPTH:
            raise InputError(f"{self.top}: expected folders at most {MAX_DEPTH} deep, got deeper ones")
        # Folders of a level count as equally large for progress: their sizes are only known after the walk.
        folders = []
        part = share / max(len(names), 1)
        for number, name in enumerate(names):
            below = f"{place}{os.sep}{name}" if place else name
            folders.append(self.folder(below, depth + 1, done + number * part, part))
            if part > _MIN_SHARE:
                self.on_progress(done + (number + 1) * part)
        return Folder(place=place, files=len(files), folders=tuple(folders))

    def _note_depth(self, place: str, depth: int, files: Sequence[str]) -> None:
        """Add the files of one folder to their number in `depths`, and keep the first file of each depth."""
        if files:
            count, first = self.depths.get(depth, (0, ""))
            self.depths[depth] = (count + len(files), first or os.path.join(place, min(files)))

    def _entries(self, place: str) -> tuple[list[str], list[str]]:
        """Return (names of files to count, sorted names of folders), empty if unreadable, and note what is skipped."""
        path = os.path.join(self.top, place) if place else self.top
        try:
            files, folders, others = self._entries_by_kind(path)
        except OSError as error:
            self.skipped.add(UNREADABLE, f"{place or '.'} ({system_message(error)})")
            return [], []
        if self.endings:
            others += [(name, OTHER) for name in files if not name.lower().endswith(self.endings)]
            files = [name for name in files if name.lower().endswith(self.endings)]
        if self.excluded.startswith(path):
            files = [name for name in files if os.path.join(path, name) != self.excluded]
        # Sorted, because file systems list folders in any order, and the first places of a kind are shown.
        for name, kind in sorted(others):
            self.skipped.add(kind, os.path.join(place, name))
        return files, sorted(folders)

    def _entries_by_kind(self, path: str) -> tuple[list[str], list[str], list[tuple[str, str]]]:
        """Return (names of files and links to files, names of folders, (name, kind) of hidden or other entries)."""
        files, folders, others = [], [], []
        with os.scandir(path) as entries:
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
                else:
                    others.append((name, self._other_kind(entry)))
        return files, folders, others

    def _other_kind(self, entry: os.DirEntry[str]) -> str:
        """Return the kind of an entry that is not counted: a link within the tree, a link out of it, or no file."""
        if not os.path.isdir(entry.path):
            return NO_FILE
        # With a separator at the end, so that /data/a is not taken for a folder above /data/ab.
        target = os.path.realpath(entry.path)
        top, linked = (f"{path.rstrip(os.sep)}{os.sep}" for path in (self.top, target))
        return LINK if top.startswith(linked) or linked.startswith(top) else OUTSIDE


def folder_counts(walk: Walk, names: Sequence[str]) -> NestedCounts:
    """Return the number of records of each unit in a folder tree; InputError if it cannot be counted completely.

    Args:
        walk: walk over the folder; its `skipped` and `depths` are filled.
        names: names of the levels, outermost first, `-` for folders that are no level; () to take one level for each
            depth of folders.

    Returns:
        Counts in the form of a tree file, a number where there is one level, units without records left out.

    Raises:
        InputError: there is nothing to count, files lie at another depth than the levels, or a folder cannot be
            counted.
    """
    top = walk.folder()
    _check_walk(walk)
    depth = len(names) if names else max(walk.depths)
    if set(walk.depths) != {depth}:
        raise InputError(_depths_message(walk, depth if names else None))
    # A level must mean the same everywhere, so that files at two depths are refused before anything is counted.
    return _nested_counts(top, names or [""] * depth, walk.skipped)


def _check_walk(walk: Walk) -> None:
    """Raise InputError, naming places, if a walk met something that it could not count, or no file at all."""
    faults = walk.skipped.lines(faults=True)
    if faults:
        lines = "".join(f"\n  {line}" for line in faults)
        raise InputError(f"{walk.top}: the counts would not be complete{lines}")
    if not walk.depths:
        lines = "".join(f"\n  {line}" for line in walk.skipped.lines(faults=False))
        raise InputError(f"{walk.top}: expected files to count, got none{lines}")


def _depths_message(walk: Walk, depth: int | None) -> str:
    """Return the message that files lie at several depths, or not at the depth of the levels."""
    files = (f"{count} at depth {at} ({visible(first)})" for at, (count, first) in sorted(walk.depths.items()))
    expected = "at one depth" if depth is None else f"at depth {depth}, one for each name of --levels"
    return (
        f"{walk.top}: expected all files {expected}, got {', '.join(files)}\n"
        "  = --suffix .jpg counts only some; --levels user,-,example skips folders that are no level"
    )


def _nested_counts(folder: Folder, names: Sequence[str], skipped: SkippedPlaces) -> NestedCounts:
    """Return the number of files of each unit, nested by level without those named `-`; note empty units as skipped.

    `names` are those of the levels of the folder's contents, one for each depth below it.
    """
    name, *names_below = names
    if not names_below:
        return folder.files
    children = []
    for child in folder.folders:
        counts = _nested_counts(child, names_below, skipped)
        if counts:
            children.append(counts)
        else:
            skipped.add(EMPTY, child.place)
    return _joined(children) if name == SKIPPED else children


def _joined(children: Sequence[NestedCounts]) -> NestedCounts:
    """Return the counts of several units as those of one: their numbers of records added, their lists joined."""
    if all(isinstance(counts, int) for counts in children):
        return sum(counts for counts in children if isinstance(counts, int))
    return [grandchild for counts in children if isinstance(counts, list) for grandchild in counts]


# Sizes of a data set from a folder tree or a manifest


@dataclass(frozen=True, kw_only=True)
class Size:
    """Number of units of one level.

    Attributes:
        name: name of the level.
        units: units in all.
        min_units: smallest number under one parent.
        max_units: largest number under one parent.
    """

    name: str
    units: int
    min_units: int
    max_units: int


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Counted sizes of a data set.

    Attributes:
        sizes: one for each level, outermost first.
        counts: nested counts in the form of a tree file; a number where there is one level.
        remarks: lines on places that were not counted, and on levels without names.
    """

    sizes: tuple[Size, ...]
    counts: NestedCounts
    remarks: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """True if, at each level, all parents hold equally many units, so that no tree file is needed."""
        return all(size.min_units == size.max_units for size in self.sizes)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the levels, outermost first."""
        return tuple(size.name for size in self.sizes)


@dataclass(frozen=True, kw_only=True)
class ScanRequest:
    """Arguments of `dpcalc scan`.

    Attributes:
        path: a folder or a manifest.
        levels: names of the levels, outermost first, `-` for folders that are no level; () for none given.
        columns: columns of a manifest, one for each level above the records, or one for each level; () for the names of
            the levels.
        endings: endings of the files to count, () for all files.
        output: tree file that is written, and therefore not counted.
    """

    path: str
    levels: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    output: str = ""


def scan(source: ScanRequest, *, on_progress: Callable[[float], None]) -> Scan:
    """Return the sizes of a folder tree or, for a file, a manifest; InputError if not all of it can be counted.

    Args:
        source: the data set and its levels.
        on_progress: called with the share of the work that is done, in [0, 1].

    Returns:
        Its sizes, independent of the order in which the file system lists folders.

    Raises:
        InputError: there is nothing to count, or it cannot be counted completely.
    """
    return _scan_folders(source, on_progress) if is_folder(source.path) else _scan_manifest(source, on_progress)


def is_folder(path: str) -> bool:
    """Return True for a folder, False for a name with a manifest's ending; InputError for any other path.

    Raises:
        InputError: the path is neither.
    """
    if os.path.isdir(path):
        return True
    if not path.lower().endswith(ENDINGS):
        raise InputError(f"{path}: expected a folder or a file *{', *'.join(ENDINGS)}, got neither")
    return False


def _scan_folders(source: ScanRequest, on_progress: Callable[[float], None]) -> Scan:
    """Return the sizes of a folder tree, its levels numbered if no names are given; InputError if columns are given."""
    if source.columns:
        raise InputError("--columns: expected with a CSV or JSONL file, got a folder; --levels names its levels")
    walk = _walk_of(source, on_progress)
    counts = folder_counts(walk, source.levels)
    remarks = walk.skipped.lines(faults=False)
    if source.levels:
        return _scan_of(counts, tuple(name for name in source.levels if name != SKIPPED), remarks)
    names = (*(f"level_{number}" for number in range(1, _depth(counts))), RECORD)
    hint = ("name the levels with --levels, e.g. --levels user,session,example",) if len(names) > 1 else ()
    return _scan_of(counts, names, (*remarks, *hint))


def _walk_of(source: ScanRequest, on_progress: Callable[[float], None]) -> Walk:
    """Return a walk, not yet started, over the requested folder without the tree file that the scan will write."""
    endings = tuple(f".{ending.lower().removeprefix('.')}" for ending in source.endings)
    # The tree file of an earlier scan may lie in the folder; counted, it would be a record.
    top, excluded = os.path.realpath(source.path), os.path.realpath(source.output) if source.output else ""
    return Walk(top=top, endings=endings, excluded=excluded, on_progress=on_progress)


def _scan_manifest(source: ScanRequest, on_progress: Callable[[float], None]) -> Scan:
    """Return the sizes counted from the rows of a manifest; InputError if file endings are named."""
    if source.endings:
        raise InputError("--suffix: expected with a folder, got a file of rows")
    levels, columns = levels_and_columns(source.levels, source.columns)
    counts = manifest_counts(source.path, columns, distinct=len(columns) == len(levels), on_progress=on_progress)
    return _scan_of(counts, levels, ())


def _scan_of(counts: NestedCounts, names: Sequence[str], remarks: tuple[str, ...]) -> Scan:
    """Return the scan of nested counts: of each level the units in all, and the fewest and most under one parent."""
    sizes_by_level = ((counts,),) if isinstance(counts, int) else tree_of(counts, names).sizes
    sizes = (
        Size(name=name, units=sum(sizes), min_units=min(sizes), max_units=max(sizes))
        for name, sizes in zip(names, sizes_by_level, strict=True)
    )
    return Scan(sizes=tuple(sizes), counts=counts, remarks=remarks)


def _depth(counts: NestedCounts) -> int:
    """Return the number of levels of nested counts, at least 1."""
    return 1 + _depth(counts[0]) if isinstance(counts, list) else 1


# Counted sizes as a tree file, as the `data:` section of a config, and as JSON.


TREE_SUFFIX = ".json"  # required ending of a tree file's name


def check_level_names(names: Sequence[str]) -> None:
    """Raise InputError for a name of a level that a config does not accept, or one that occurs twice.

    Raises:
        InputError: the message has the first such name.
    """
    for name in names:
        try:
            LEVEL_NAME.check(name)
        except WrongValueError as error:
            raise InputError(f"--levels: {error}, got `{name}`") from None
    if len(set(names)) < len(names):
        raise InputError(f"--levels: expected different names, got {', '.join(names)}")


def tree_text(names: Sequence[str], counts: NestedCounts) -> str:
    """Return a tree file of the counts, as JSON with a line for each first-level unit; InputError if it is too large.

    Args:
        names: names of the levels, outermost first, two or more.
        counts: nested counts.

    Raises:
        InputError: the file would be larger than a config may read.
    """
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


def data_section(names: Sequence[str], ends: Sequence[tuple[int, int]], *, file: str) -> str:
    """Return a config's `data:` section in YAML, with counts if each level's sizes are equal, else with a tree file.

    Args:
        names: names of the levels, outermost first.
        ends: (smallest, largest) number of units under one parent, for each level.
        file: path of the tree file; ignored where all sizes are equal.
    """
    if all(smallest == largest for smallest, largest in ends):
        levels = (f"{{name: {quoted(name)}, count: {count}}}" for name, (count, _) in zip(names, ends, strict=True))
        return f"data:\n  levels: [{', '.join(levels)}]\n"
    levels = (f"{{name: {quoted(name)}}}" for name in names)
    name = file if re.fullmatch(r"[A-Za-z_][\w./-]*", file) else quoted(file)
    return f"data:\n  levels: [{', '.join(levels)}]\n  tree: {{file: {name}}}\n"


def scan_output(scan: Scan, *, output: str | None, section: str) -> Output:
    """Return the output of `scan` for JSON: sizes of the levels, tree file, `data:` section and remarks.

    Args:
        scan: the counted sizes.
        output: path of the tree file, None if none was written.
        section: the `data:` section of a config as YAML.
    """
    levels = [
        {"name": size.name, "units": size.units, "min": size.min_units, "max": size.max_units} for size in scan.sizes
    ]
    return Output(
        command="scan",
        fields=(
            json_only("levels", levels),
            json_only("output", output),
            json_only("config", section),
            json_only("notes", list(scan.remarks)),
        ),
    )
