"""A folder tree as nested counts: class folders, users/sessions/..., one file a record.

Links to folders are never followed, so that no loop and no folder is counted twice: one that leads back into the tree,
or above it, is only named; one that leads elsewhere, like a folder that cannot be read, is an error, because what is
behind it would be missing from the counts.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dpcalc.config.diagnostics import visible
from dpcalc.errors import InputError, reason
from dpcalc.sampling.trees import Counts

SKIPPED = "-"  # in place of a level's name: folders of this depth are no level
MAX_DEPTH = 64
SHOWN = 3  # places named of one kind

HIDDEN = "hidden, not counted"
OTHER = "with another ending, not counted"
LINK = "links to folders of the same tree, not followed"
NO_FILE = "broken links and what is neither file nor folder, not counted"
EMPTY = "units that hold nothing, left out (a sampler must not draw from them either)"
UNREADABLE = "cannot be read"
OUTSIDE = "links to folders elsewhere, not followed (put the folders in their place)"
FAULTS = (UNREADABLE, OUTSIDE)


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder and what is in it.

    Attributes:
        place: its path from the top, "" for the top.
        files: how many files are counted in it.
        folders: the folders in it, by name.
    """

    place: str
    files: int
    folders: tuple["Folder", ...]


@dataclass(kw_only=True)
class Places:
    """Where something was found: how often, and the first places."""

    number: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, place: str) -> None:
        """One more place of a kind."""
        self.number[kind] += 1
        named = self.first.setdefault(kind, [])
        if len(named) < SHOWN:
            named.append(visible(place))

    def lines(self, *, faults: bool) -> tuple[str, ...]:
        """One sentence a kind; either those that make a count wrong, or the others."""
        return tuple(self._line(kind) for kind in self.number if (kind in FAULTS) is faults)

    def _line(self, kind: str) -> str:
        """How many of a kind there are, and the first ones."""
        number, named = self.number[kind], self.first[kind]
        return f"{kind}: {number} ({', '.join(named)}{', ...' if number > len(named) else ''})"


@dataclass(frozen=True, kw_only=True)
class Walk:
    """One pass over a folder tree.

    Attributes:
        top: real path of the folder.
        endings: of the files that are counted, in lower case; () for all.
        apart: real path of a file that is not counted: the output of an earlier pass.
        tell: hears which part of the work is done, from 0 to 1.
        places: what was found that is no plain file or folder.
        depths: how many files lie at each depth (1: in the folder itself), and the first of them.
    """

    top: str
    endings: tuple[str, ...]
    apart: str
    tell: Callable[[float], None]
    places: Places = field(default_factory=Places)
    depths: dict[int, tuple[int, str]] = field(default_factory=dict)

    def folder(self, place: str = "", depth: int = 1, done: float = 0.0, share: float = 1.0) -> Folder:
        """What is under one folder; `share` of the whole work begins where `done` is done."""
        path = os.path.join(self.top, place) if place else self.top  # noqa: PTH118  for speed
        files: list[str] = []
        names: list[str] = []
        try:
            files, names = self._listed(path, place)
        except OSError as error:
            self.places.add(UNREADABLE, f"{place or '.'} ({reason(error)})")
        if files:
            number, first = self.depths.get(depth, (0, ""))
            self.depths[depth] = (number + len(files), first or os.path.join(place, min(files)))  # noqa: PTH118
        if names and depth > MAX_DEPTH:
            raise InputError(f"{self.top}: expected folders at most {MAX_DEPTH} deep, got deeper ones")
        folders = []
        part = share / max(len(names), 1)
        for number, name in enumerate(names):
            below = f"{place}{os.sep}{name}" if place else name
            folders.append(self.folder(below, depth + 1, done + number * part, part))
            if part > 1e-4:
                self.tell(done + (number + 1) * part)
        return Folder(place=place, files=len(files), folders=tuple(folders))

    def _listed(self, path: str, place: str) -> tuple[list[str], list[str]]:
        """(files to count, folders by name) of a folder; everything else goes to `places`."""
        files, folders, odd = [], [], []
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith("."):
                    odd.append((name, HIDDEN))
                elif entry.is_file(follow_symlinks=False):
                    files.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif os.path.isfile(entry.path):  # noqa: PTH113  a link to a file; a loop of links is none
                    files.append(name)
                else:
                    odd.append((name, self._kind(entry)))
        if self.endings:
            odd += [(name, OTHER) for name in files if not name.lower().endswith(self.endings)]
            files = [name for name in files if name.lower().endswith(self.endings)]
        if self.apart.startswith(path):
            files = [name for name in files if os.path.join(path, name) != self.apart]  # noqa: PTH118
        for name, kind in sorted(odd):
            self.places.add(kind, os.path.join(place, name))  # noqa: PTH118
        return files, sorted(folders)

    def _kind(self, entry: os.DirEntry[str]) -> str:
        """What an entry is that is neither a file, a folder, nor a link to a file."""
        if not os.path.isdir(entry.path):  # noqa: PTH112
            return NO_FILE
        target = os.path.realpath(entry.path)
        above, below = (f"{one.rstrip(os.sep)}{os.sep}" for one in (self.top, target))
        return LINK if above.startswith(below) or below.startswith(above) else OUTSIDE


def folder_counts(walk: Walk, names: Sequence[str] | None) -> tuple[Counts, tuple[str, ...] | None]:
    """Nested counts of a folder tree.

    Args:
        walk: over the folder; its `places` are filled.
        names: of the levels, outermost first, `-` for folders that are no level; None if the files tell how many.

    Returns:
        (counts as a tree file holds them, a number where there is one level; names without `-`, None if not given).

    Raises:
        InputError: nothing to count, files at another depth than the levels say, or something that cannot be counted.
    """
    top = walk.folder()
    faults = walk.places.lines(faults=True)
    if faults:
        lines = "".join(f"\n  {line}" for line in faults)
        raise InputError(f"{walk.top}: the counts would not be complete{lines}")
    if not walk.depths:
        seen = "".join(f"\n  {line}" for line in walk.places.lines(faults=False))
        raise InputError(f"{walk.top}: expected files to count, got none{seen}")
    depth = len(names) if names else max(walk.depths)
    if set(walk.depths) != {depth}:
        raise InputError(_scattered(walk, depth if names else None))
    counts = _counts(top, list(names or [""] * depth), walk.places)
    return counts, tuple(name for name in names if name != SKIPPED) if names else None


def _scattered(walk: Walk, depth: int | None) -> str:
    """That files are not all where the levels say."""
    found = (f"{number} at depth {at} ({visible(first)})" for at, (number, first) in sorted(walk.depths.items()))
    expected = "at one depth" if depth is None else f"at depth {depth}, one for each name of --levels"
    return (
        f"{walk.top}: expected all files {expected}, got {', '.join(found)}\n"
        "  = --suffix .jpg counts only some; --levels user,-,example skips folders that are no level"
    )


def _counts(folder: Folder, names: Sequence[str], places: Places) -> Counts:
    """Nested counts under one folder; what holds nothing is left out."""
    _, *below = names
    if not below:
        return folder.files
    found = list(_below(folder, below, places))
    if names[0] != SKIPPED:
        return found
    if all(isinstance(counts, int) for counts in found):
        return sum(counts for counts in found if isinstance(counts, int))
    return [one for counts in found if isinstance(counts, list) for one in counts]


def _below(folder: Folder, names: Sequence[str], places: Places) -> Iterator[Counts]:
    """The counts of each folder in a folder."""
    for one in folder.folders:
        counts = _counts(one, names, places)
        if counts:
            yield counts
        else:
            places.add(EMPTY, one.place)
