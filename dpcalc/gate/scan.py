"""What a folder tree or a manifest says about the sizes of a data set."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpcalc.errors import InputError
from dpcalc.gate.folders import Walk, folder_counts
from dpcalc.gate.manifests import ENDINGS, manifest_counts
from dpcalc.sampling.trees import Counts, tree_of

RECORD = "example"


@dataclass(frozen=True, kw_only=True)
class Size:
    """How many units of a level there are.

    Attributes:
        name: of the level.
        units: in all.
        least: fewest under one parent.
        most: most under one parent.
    """

    name: str
    units: int
    least: int
    most: int


@dataclass(frozen=True, kw_only=True)
class Scan:
    """Counted sizes.

    Attributes:
        sizes: one a level, outermost first.
        counts: nested as a tree file holds them; a number where there is one level.
        remarks: what was left out, and whether the levels want names.
    """

    sizes: tuple[Size, ...]
    counts: Counts
    remarks: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether all units of each level hold the same number: such sizes need no tree."""
        return all(size.least == size.most for size in self.sizes)

    @property
    def names(self) -> tuple[str, ...]:
        """The levels, outermost first."""
        return tuple(size.name for size in self.sizes)


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is to be counted.

    Attributes:
        path: a folder, or a manifest.
        levels: names, outermost first, `-` for folders that are no level; () if nobody said.
        columns: of a manifest, one for each level above the records, or one for each level; () for those of `levels`.
        endings: of the files to count, () for all.
        output: file that is not counted itself.
    """

    path: str
    levels: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    output: str = ""


def scan(source: Source, *, tell: Callable[[float], None]) -> Scan:
    """Count a data set.

    Args:
        source: where it is.
        tell: hears which part of the work is done, from 0 to 1.

    Returns:
        Its sizes; the same data give the same result.

    Raises:
        InputError: there is nothing to count, or it cannot be counted completely.
    """
    return _folders(source, tell) if is_folder(source.path) else _manifest(source, tell)


def is_folder(path: str) -> bool:
    """Whether a path is a folder; else it is the name of a manifest.

    Raises:
        InputError: it is neither.
    """
    if os.path.isdir(path):  # noqa: PTH112  also of names that Path refuses
        return True
    if not path.lower().endswith(ENDINGS):
        raise InputError(f"{path}: expected a folder or a file *{', *'.join(ENDINGS)}, got neither")
    return False


def _folders(source: Source, tell: Callable[[float], None]) -> Scan:
    """Count files in folders."""
    if source.columns:
        raise InputError("--columns: expected with a CSV or JSONL file, got a folder; --levels names its levels")
    endings = tuple(one.lower() if one.startswith(".") else f".{one.lower()}" for one in source.endings)
    top, apart = os.path.realpath(source.path), os.path.realpath(source.output) if source.output else ""
    walk = Walk(top=top, endings=endings, apart=apart, tell=tell)
    counts, names = folder_counts(walk, source.levels or None)
    return _scanned(counts, names, walk.places.lines(faults=False))


def _manifest(source: Source, tell: Callable[[float], None]) -> Scan:
    """Count the rows of a file."""
    if source.endings:
        raise InputError("--suffix: expected with a folder, got a file of rows")
    levels = source.levels or ((*source.columns, RECORD) if source.columns else ())
    columns = source.columns or levels[:-1]
    if not columns:
        raise InputError("--columns: expected the column of each level, e.g. --columns user,session, got none")
    if len(columns) not in {len(levels), len(levels) - 1}:
        raise InputError(
            f"--columns: expected one for each of {', '.join(levels)}, or all but the last, got {len(columns)}"
        )
    counts = manifest_counts(source.path, columns, distinct=len(columns) == len(levels), tell=tell)
    return _scanned(counts, levels, ())


def _scanned(counts: Counts, names: Sequence[str] | None, remarks: tuple[str, ...]) -> Scan:
    """The sizes of nested counts; levels that nobody named are numbered."""
    if names is None:
        depth = _depth(counts)
        names = (*(f"level_{number}" for number in range(1, depth)), RECORD)
        if depth > 1:
            remarks = (*remarks, "name the levels with --levels, e.g. --levels user,session,example")
    if isinstance(counts, int):
        return Scan(
            sizes=(Size(name=names[0], units=counts, least=counts, most=counts),), counts=counts, remarks=remarks
        )
    tree = tree_of(counts, names)
    sizes = (
        Size(name=name, units=sum(level), least=min(level), most=max(level))
        for name, level in zip(names, tree.sizes, strict=True)
    )
    return Scan(sizes=tuple(sizes), counts=counts, remarks=remarks)


def _depth(counts: Counts) -> int:
    """Levels of nested counts."""
    return 1 + _depth(counts[0]) if isinstance(counts, list) else 1
