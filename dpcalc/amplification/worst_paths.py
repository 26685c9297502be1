"""The paths to a protected unit that can be the costliest: those that no other path exceeds in every respect.

The one-step bound grows with each rate, shift and distance, so a path that is nowhere above another one costs no more
in any phase. For the same reason very many paths may be merged into fewer that are above them.

Source: docs/theory.md, Theorem 4.6 and Theorem 6.7.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcalc.numerics import IntArray
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path, PathTable, path_table
from dpcalc.sampling.schemes import All

MAX_PATHS = 128  # paths composed one by one; beyond, merged ones stand for neighbours, which is looser
MAX_PATHS_OF_ALL_PHASES = 3200  # paths times phases: with more phases fewer paths are composed one by one
_IRRELEVANT = 2**62  # feature value where a feature has no influence: no smaller than any other value


def worst_paths(draws: Sequence[tuple[Hierarchy, int]], *, unit: int) -> tuple[tuple[Path, ...], ...]:
    """Return tuples of paths, one path a phase, of which some tuple costs at least as much as any unit of the data.

    They are in the order of the data, equal paths once. Beyond MAX_PATHS, or fewer of many phases, neighbours in size
    are merged; the cost of a merged path is an upper bound on theirs. `mates` are the most of any path that a path
    stands for, so that bounds which count them are covered too.
    """
    table, most = path_table(draws, unit=unit), max(min(MAX_PATHS, MAX_PATHS_OF_ALL_PHASES // len(draws)), 1)
    kept = _maximal_rows(_features(table), limit=most)
    if len(kept) > most:
        table = _merge_neighbours(table, most)
        kept = _maximal_rows(_features(table), limit=most)
    # Each kept row has the most mates of all rows that it stands for: the order in which rows are left out knows the
    # contributions under each ancestor, not how they are shared out between the levels.
    raised = [mates.copy() for mates in table.mates]
    for mates, before in zip(raised, table.mates, strict=True):
        for row, members in kept.items():
            mates[row] = before[members].max(axis=0)
    table = replace(table, mates=tuple(raised))
    return tuple(table.paths(row) for row in sorted(kept, key=table.rows.__getitem__))


def path_above_all(ways: Sequence[tuple[Path, ...]]) -> tuple[Path, ...]:
    """Return a path, one `Path` a phase without a place, that costs at least as much as each of several.

    It has the fewest units and the most of everything else.
    """
    above = []
    for paths in zip(*ways, strict=True):
        if len(paths) == 1:
            above.append(paths[0])
            continue
        # By level the first scheme that is not `all`, and the fewest units, in whole batches if they differ. A fixed
        # draw that takes all of the smallest frame stays one: in a larger frame a stand-in exists. Its frame is as
        # large as the draw, so that it holds every unit for certain, as in the smaller frames that it exhausts.
        columns = zip(*(path.schemes for path in paths), strict=True)
        schemes = tuple(next((scheme for scheme in column if scheme != All()), All()) for column in columns)
        counts = []
        for scheme, column in zip(schemes, zip(*(path.counts for path in paths), strict=True), strict=True):
            fewest = column[0] if len({*column}) == 1 else scheme.drawn_in_a_pass(min(column))
            counts.append(max(fewest, scheme.size) if scheme.has_stand_in else fewest)
        own = max(path.contributions[-1] for path in paths)
        others = ([x - path.contributions[-1] for x in path.contributions] for path in paths)
        above.append(
            Path(
                place=(),
                counts=tuple(counts),
                schemes=schemes,
                contributions=tuple(own + max(column) for column in zip(*others, strict=True)),
                siblings=tuple(max(column) for column in zip(*(path.siblings for path in paths), strict=True)),
                mates=tuple(max(column) for column in zip(*(path.mates for path in paths), strict=True)),
                max_counts=tuple(map(max, counts, *(path.max_counts for path in paths))),
            )
        )
    return tuple(above)


def _features(table: PathTable) -> IntArray:
    """Return all quantities of a path with which its cost grows as columns, shape (paths, features)."""
    features: list[IntArray] = []
    for phase, hierarchy in enumerate(table.hierarchies):
        contributions, last = table.contributions[phase], table.unit - 1
        features.append(contributions[:, -1])
        if hierarchy.episodes is not None:  # the smaller a class, the likelier is each of its records
            features.extend(-table.counts.T)
            continue
        for at, level in enumerate(hierarchy.levels[: table.unit]):
            scheme, counts, siblings = level.scheme, table.counts[:, at], table.siblings[phase][:, at]
            # Whether the level's draw can miss a unit: a capped draw always can.
            if is_sized := scheme.has_stand_in or scheme.can_repeat or scheme.is_shuffled:
                # Of rows that stand for several frames some may be larger than the draw, and have a stand-in.
                largest = counts if scheme.is_shuffled else table.max_counts[:, at]
                is_sampled = largest > (1 if scheme.can_repeat else scheme.size)
            else:
                is_sampled = np.full(counts.shape, scheme.is_cut or level.rate < 1)
            # Numbers of units with which cost grows: negated, and unnegated if more may cost more; none for Poisson.
            # And the most that another unit contributes in the place of a missed one.
            stand_in = np.zeros(counts.shape, dtype=siblings.dtype)
            if scheme.is_cut and scheme.limit:  # neither more units nor fewer always cost less
                features += [-counts, table.max_counts[:, at]]
                stand_in = np.where(table.max_counts[:, at] > scheme.limit, siblings, 0)
            elif is_sized:
                features.append(np.where(is_sampled, -counts, 0))
                if scheme.drop_last:  # fewer units may be left out more often
                    features.append(np.where(is_sampled, counts, _IRRELEVANT))
                stand_in = np.where(is_sampled, siblings, 0)
            if at < last:
                # Of an ancestor that draws can miss: its contributions, those without the unit, and its stand-in's.
                all_of_it = contributions[:, at]
                own_and_others = (all_of_it, all_of_it - contributions[:, -1], stand_in)
                features.extend(np.where(is_sampled, x, _IRRELEVANT) for x in own_and_others)
            else:
                features.append(stand_in)
    return np.stack(features, axis=1)


def _maximal_rows(rows: IntArray, *, limit: int) -> dict[int, NDArray[np.intp]]:
    """Return {maximal row: rows at or below it, itself included}, each row once; at most `limit` + 1 entries."""
    # The row with the largest sum of scaled features is above no other row of its rank, so it is maximal among those
    # left; then all rows that it dominates are dropped. That takes (number of maximal rows) passes, not rows squared.
    columns = [column for column in rows.T if column.min() < column.max()]
    weight = sum((column / np.abs(column).max() for column in columns), start=np.zeros(len(rows)))
    kept: dict[int, NDArray[np.intp]] = {}
    left: NDArray[np.intp] = np.arange(len(rows))
    while left.size and len(kept) <= limit:
        best = int(np.argmax(weight))
        above = np.zeros(left.size, dtype=np.bool_)
        for column in columns:
            above |= column > column[best]
        kept[int(left[best])] = left[~above]
        left, weight, columns = left[above], weight[above], [column[above] for column in columns]
    return kept


def _merge_neighbours(table: PathTable, most: int) -> PathTable:
    """Return a table of at most so many rows, each of which costs at least as much as the neighbours it replaces."""
    levels = [
        (at, level.scheme) for hierarchy in table.hierarchies for at, level in enumerate(hierarchy.levels[: table.unit])
    ]
    # Sorted by full draws, units under capped draws, and the unit's contributions: neighbours are then alike, so that a
    # row that stands for several is hardly costlier than the costliest.
    full = [table.counts[:, at] <= scheme.size for at, scheme in levels if scheme.has_stand_in]
    capped = {at: table.counts[:, at] for at, scheme in levels if scheme.is_cut}
    own = np.stack([contributions[:, -1] for contributions in table.contributions], axis=1)
    order = np.lexsort((*own.T, *capped.values(), *full))
    # The first rows of blocks of equal size.
    starts = np.flatnonzero(np.diff(np.arange(len(order)) * most // len(order), prepend=-1))

    def highest(values: IntArray) -> IntArray:
        piecewise: IntArray = np.maximum.reduceat(values[order], starts)
        return piecewise

    # What costs most: few units in a frame, many contributions, siblings and mates.
    return replace(
        table,
        rows=-highest(-table.rows),
        counts=-highest(-table.counts),
        max_counts=highest(table.max_counts),
        contributions=tuple(highest(c[:, -1:]) + highest(c - c[:, -1:]) for c in table.contributions),
        siblings=tuple(highest(siblings) for siblings in table.siblings),
        mates=tuple(highest(mates) for mates in table.mates),
        is_merged=True,
    )
