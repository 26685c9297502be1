"""Draws as a training loop makes them, index by index: an oracle for the formulas, with which it shares no code.

Units of a level are numbered through, those of one parent in a row. A round is the time after which everything is drawn
afresh: one step, or as long as the longest draw is held, or one pass of a shuffle. It draws level after level: from
each drawn unit, as often as it was drawn, some of the units under it. Many rounds are drawn at once, as rows (step,
unit).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcalc.errors import InputError, UnsupportedError
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.samplers import AT_ONCE, draw, is_crowded, place_in_frame
from dpcalc.sampling.schemes import All, Fixed, Poisson, Scheme, Shuffle, WithReplacement

Whole = NDArray[np.int64]
Rows = tuple[Whole, Whole]

_MOST = 20_000_000  # units one round may look at
_PICKING = 200.0  # what picking a few of a large frame costs, in units looked at
_PASSED = 1e-9  # what a unit costs that nobody looks at; there are no more of them than whole numbers can tell apart


@dataclass(frozen=True, kw_only=True)
class LevelCount:
    """What all rounds together drew at one level.

    Attributes:
        parents: drawn units of the level above, repetitions included, as often as there was a draw from them.
        offered: units under them.
        drawn: those drawn.
        due: those that draws without replacement take by their definition; 0 of other draws.
        batches: units in a step, on average over each round.
        least: fewest in one step.
        most: most in one step.
    """

    parents: int
    offered: int
    drawn: int
    due: int
    batches: NDArray[np.float64]
    least: int
    most: int


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What many independent rounds drew.

    Attributes:
        levels: counts of each level, outermost first.
        members: how often each step of each round holds one of the units that were watched, shape (rounds, steps).
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
    at_once = max(1, min(rounds, int(AT_ONCE / work(hierarchy))))
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


def drawn_schemes(hierarchy: Hierarchy) -> tuple[int, tuple[Scheme, ...]]:
    """(how often a step draws from the whole, the scheme of each level): built tasks are independent draws."""
    built = hierarchy.episodes
    if built is not None:
        return built.tasks, (Fixed(size=built.ways), Fixed(size=built.records))
    return 1, tuple(level.scheme for level in hierarchy.levels)


def steps_of_a_round(hierarchy: Hierarchy) -> int:
    """Steps after which everything is drawn afresh.

    Raises:
        UnsupportedError: shuffles that never end together.
    """
    shuffled = [level for level in hierarchy.levels if isinstance(level.scheme, Shuffle)]
    if len(shuffled) > 1 or any(not level.is_equal for level in shuffled):
        raise UnsupportedError(
            "simulate: expected at most one shuffle, of frames of one size, got more or unequal ones"
        )
    for level in shuffled:
        if isinstance(level.scheme, Shuffle):
            return level.scheme.steps_of_a_pass(level.count)
    return hierarchy.level(1).redraw_every


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
    copies, schemes = drawn_schemes(hierarchy)
    total, parents = 0.0, float(copies)
    for number, scheme in enumerate(schemes, start=1):
        count = hierarchy.units(number) / hierarchy.units(number - 1)
        drawn = mean_drawn(scheme, count)
        few = isinstance(scheme, Fixed) and not is_crowded(scheme, hierarchy.level(number).count)
        looked_at = drawn + _PICKING if few else count if isinstance(scheme, Fixed) else drawn
        total += parents * (looked_at + _PASSED * count)
        parents *= drawn
    total *= steps_of_a_round(hierarchy)
    if total > _MOST:
        raise InputError(f"simulate: expected steps that draw at most {_MOST:.0e} units, got about {total:.0e}")
    return max(total, 1.0)


def mean_drawn(scheme: Scheme, count: float) -> float:
    """How many of `count` units a step draws on average, repetitions included."""
    match scheme:
        case Fixed(size=size):
            return min(size, count)
        case WithReplacement(size=size):
            return size
        case Poisson(probability=rate):
            return count * float(rate)
        case Shuffle():
            return scheme.drawn_in_a_pass(int(count)) / scheme.steps_of_a_pass(int(count))
        case All():
            return count


def _sum(parts: Sequence[LevelCount]) -> LevelCount:
    """The counts of one level in all rounds."""
    return LevelCount(
        parents=sum(part.parents for part in parts),
        offered=sum(part.offered for part in parts),
        drawn=sum(part.drawn for part in parts),
        due=sum(part.due for part in parts),
        batches=np.concatenate([part.batches for part in parts]),
        least=min(part.least for part in parts),
        most=max(part.most for part in parts),
    )


def _rounds(hierarchy: Hierarchy, watched: Watched, number: int, rng: Generator) -> Drawn:
    """Some rounds, level by level; each row (first step, unit) lasts for `span` steps."""
    span = length = steps_of_a_round(hierarchy)
    copies, schemes = drawn_schemes(hierarchy)
    steps = np.repeat(np.arange(number) * length, copies)
    units = np.zeros(steps.size, dtype=np.int64)
    levels = []
    members = np.zeros((number, length), dtype=np.int64)
    for at, scheme in enumerate(schemes, start=1):
        waits = any(isinstance(one, Shuffle) for one in schemes[at - 1 :])  # all there is, until the pass is over
        turns = 1 if waits else span // hierarchy.level(at).redraw_every
        span //= turns
        steps = (steps[:, None] + np.arange(turns) * span).ravel()
        first, sizes = synthetic_sizes(hierarchy, at, np.repeat(units, turns))
        parents, children = draw(scheme, sizes, rng)
        steps, units = steps[parents], first[parents] + children
        if isinstance(scheme, Shuffle):
            turns_of = place_in_frame(parents, sizes) // scheme.size
            kept = turns_of < length
            steps, units, span = (steps + turns_of)[kept], units[kept], 1
        counts = _by_round(steps // span, number, length // span)
        level = LevelCount(
            parents=sizes.size,
            offered=int(sizes.sum()),
            drawn=units.size,
            due=int(np.minimum(scheme.size, sizes).sum()) if isinstance(scheme, Fixed) else 0,
            batches=counts.mean(axis=1),
            least=int(counts.min()),
            most=int(counts.max()),
        )
        levels.append(level)
        if at == watched.level:
            hits = steps[np.isin(units, watched.units)]
            members = np.repeat(_by_round(hits // span, number, length // span), span, axis=1)
    return Drawn(levels=tuple(levels), members=members)


def _by_round(times: Whole, number: int, each: int) -> Whole:
    """How often each time occurs, a row for each round."""
    return np.bincount(times, minlength=number * each).reshape(number, each)
