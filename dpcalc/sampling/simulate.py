"""Draws as a training loop makes them, index by index: an oracle for the formulas, with which it shares no code.

Units of a level are numbered through, those of one parent in a row. One round draws level after level: from each drawn
unit, as often as it was drawn, some of the units under it. Many rounds are drawn at once, as rows (round, unit).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcalc.errors import InputError, UnsupportedError
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import All, Fixed, Poisson, Scheme

Whole = NDArray[np.int64]
Rows = tuple[Whole, Whole]

_AT_ONCE = 2_000_000  # units looked at together
_MOST = 50_000_000  # units one round may look at
_CROWDED = 64  # a smaller part of a frame is picked unit by unit
_PICKING = 200.0  # what that costs, in units looked at


@dataclass(frozen=True, kw_only=True)
class LevelCount:
    """What all rounds together drew at one level.

    Attributes:
        parents: drawn units of the level above, repetitions included.
        offered: units under them.
        drawn: those drawn.
        by_round: drawn in each round.
    """

    parents: int
    offered: int
    drawn: int
    by_round: Whole


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What many independent rounds drew.

    Attributes:
        levels: counts of each level, outermost first.
        members: for each round, how often it holds one of the units that were watched.
    """

    levels: tuple[LevelCount, ...]
    members: Whole


@dataclass(frozen=True, kw_only=True)
class Watched:
    """Units whose draws are counted.

    Attributes:
        level: theirs, from 1.
        units: their numbers.
    """

    level: int
    units: tuple[int, ...]


def simulate(
    hierarchy: Hierarchy, watched: Watched, *, rounds: int, rng: Generator, tell: Callable[[int], None]
) -> Drawn:
    """Draw rounds from a synthetic data set of the declared sizes.

    Args:
        hierarchy: levels and schemes. Where sizes are only known to lie between two ends the first unit of each level
            holds the fewest, all others the most.
        watched: units that are counted.
        rounds: how many, >= 1.
        rng: where chance comes from.
        tell: hears how many rounds are done.

    Returns:
        What they drew.

    Raises:
        InputError: one round draws more than can be drawn here.
    """
    at_once = max(1, min(rounds, int(_AT_ONCE / work(hierarchy))))
    parts = []
    done = 0
    while done < rounds:
        number = min(at_once, rounds - done)
        parts.append(_rounds(hierarchy, watched, number, rng))
        done += number
        tell(done)
    return Drawn(
        levels=tuple(_sum([part.levels[at] for part in parts]) for at in range(hierarchy.depth)),
        members=np.concatenate([part.members for part in parts]),
    )


def synthetic_sizes(hierarchy: Hierarchy, number: int, units: Whole) -> Rows:
    """(number of the first unit of a level under some units of the level above, how many there are under each)."""
    level = hierarchy.level(number)
    if hierarchy.tree is not None:
        sizes = np.array(hierarchy.tree.sizes[number - 1], dtype=np.int64)
        return (np.cumsum(sizes) - sizes)[units], sizes[units]
    first = np.where(units > 0, level.least + (units - 1) * level.count, 0)
    return first, np.where(units > 0, level.count, level.least)


def work(hierarchy: Hierarchy) -> float:
    """About how many units one round looks at.

    Raises:
        InputError: more than can be drawn here.
    """
    total, parents = 0.0, 1.0
    for number, level in enumerate(hierarchy.levels, start=1):
        count = hierarchy.units(number) / hierarchy.units(number - 1)
        drawn = mean_drawn(level.scheme, count)
        few = isinstance(level.scheme, Fixed) and not _is_crowded(level.scheme, level.count)
        total += parents * (drawn + _PICKING if few else count if isinstance(level.scheme, Fixed) else drawn)
        parents *= drawn
    if total > _MOST:
        raise InputError(f"simulate: expected steps that draw at most {_MOST:.0e} units, got about {total:.0e}")
    return max(total, 1.0)


def mean_drawn(scheme: Scheme, count: float) -> float:
    """How many of `count` units a scheme draws on average, repetitions included."""
    if isinstance(scheme, Fixed):
        return scheme.size
    return count * float(scheme.probability) if isinstance(scheme, Poisson) else count


def _is_crowded(scheme: Fixed, count: int) -> bool:
    """Whether a draw takes so large a part of a frame that it is cheaper to put all of it in random order."""
    return count <= _CROWDED * scheme.size


def _sum(parts: Sequence[LevelCount]) -> LevelCount:
    """The counts of one level in all rounds."""
    return LevelCount(
        parents=sum(part.parents for part in parts),
        offered=sum(part.offered for part in parts),
        drawn=sum(part.drawn for part in parts),
        by_round=np.concatenate([part.by_round for part in parts]),
    )


def _rounds(hierarchy: Hierarchy, watched: Watched, number: int, rng: Generator) -> Drawn:
    """Some rounds, level by level."""
    rounds, units = np.arange(number), np.zeros(number, dtype=np.int64)
    levels = []
    members = np.zeros(number, dtype=np.int64)
    for at, level in enumerate(hierarchy.levels, start=1):
        first, sizes = synthetic_sizes(hierarchy, at, units)
        parents, children = _sampler(level.scheme)(level.scheme, sizes, rng)
        count = LevelCount(
            parents=units.size,
            offered=int(sizes.sum()),
            drawn=parents.size,
            by_round=np.bincount(rounds[parents], minlength=number),
        )
        levels.append(count)
        rounds, units = rounds[parents], first[parents] + children
        if at == watched.level:
            members = np.bincount(rounds[np.isin(units, watched.units)], minlength=number)
    return Drawn(levels=tuple(levels), members=members)


def _sampler(scheme: Scheme) -> "Sampler":
    """The sampler of a scheme."""
    if type(scheme) not in SAMPLERS:
        raise UnsupportedError(f"simulate: expected one of {', '.join(x.name for x in SAMPLERS)}, got {scheme.name}")
    return SAMPLERS[type(scheme)]


def _fixed(scheme: Fixed, sizes: Whole, rng: Generator) -> Rows:
    """Without replacement: small frames are put in random order, of large ones a few units are picked."""
    parents = np.repeat(np.arange(sizes.size), scheme.size)
    most = int(sizes.max(initial=0))
    if not _is_crowded(scheme, most):
        picked = [rng.choice(size, scheme.size, replace=False, shuffle=False) for size in sizes.tolist()]
        return parents, np.concatenate([np.zeros(0, dtype=np.int64), *picked])
    pieces = [np.zeros(0, dtype=np.int64)]
    step = max(1, _AT_ONCE // most)
    for start in range(0, sizes.size, step):
        some = sizes[start : start + step, None]
        keys = np.where(np.arange(most) < some, rng.random((some.size, most)), 2.0)
        pieces.append(np.argpartition(keys, scheme.size - 1, axis=1)[:, : scheme.size].ravel())
    return parents, np.concatenate(pieces)


def _poisson(scheme: Poisson, sizes: Whole, rng: Generator) -> Rows:
    """A coin for each unit, all in one line; the distance from one success to the next is geometric."""
    total, rate = int(sizes.sum()), float(scheme.probability)
    if not total or not rate:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    found, last = [], -1
    while last < total:
        some = int(1.1 * (total - last) * rate) + 20
        places = last + np.cumsum(np.minimum(rng.geometric(rate, some), total + 1))
        found.append(places)
        last = int(places[-1])
    line = np.concatenate(found)
    line = line[line < total]
    ends = np.cumsum(sizes)
    parents = np.searchsorted(ends, line, side="right")
    return parents, line - (ends - sizes)[parents]


def _all(scheme: All, sizes: Whole, rng: Generator) -> Rows:
    """Everything."""
    del scheme, rng
    parents = np.repeat(np.arange(sizes.size), sizes)
    return parents, np.arange(parents.size) - (np.cumsum(sizes) - sizes)[parents]


Sampler = Callable[[Scheme, Whole, Generator], Rows]
"""From a scheme and how many units there are under each drawn parent to (row of the parent, index under it)."""
SAMPLERS: dict[type[Scheme], Sampler] = {Fixed: _fixed, Poisson: _poisson, All: _all}  # type: ignore[dict-item]
