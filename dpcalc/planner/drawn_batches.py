"""Draws of a phase's sampler beside what is computed of them."""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dpcalc.numerics.confidence import mean_interval
from dpcalc.planner.chance import DOUBT, Chance, Check, Ends
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.releases import likeliest
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Poisson
from dpcalc.sampling.simulate import Drawn, LevelCount, Watched, mean_drawn, simulate, synthetic_sizes, work

_WORK = 2e7  # units looked at in all rounds, by default
_FEWEST, _MOST = 400, 20_000  # rounds drawn by default


def batch_checks(plan: Plan, number: int, chance: Chance) -> Iterator[Check]:
    """The draws of one phase."""
    phase = plan.phases[number]
    hierarchy = phase.hierarchy
    rounds = chance.effort.draws or int(min(_MOST, max(_FEWEST, _WORK / work(hierarchy))))
    unit, inclusion = _watched(hierarchy, likeliest(plan).paths[number].place, plan.unit)
    watched = Watched(level=plan.unit, units=(unit,))
    drawn = simulate(hierarchy, watched, rounds=rounds, rng=chance.rng, tell=lambda done: chance.tell(done / rounds))
    name = phase.name if len(plan.phases) > 1 else ""
    hits = int((drawn.members > 0).sum())
    yield Check(
        phase=name,
        quantity=f"inclusion of one {plan.unit_name}",
        computed=(float(inclusion), float(inclusion)),
        observed=hits / rounds,
        interval=mean_interval(hits / rounds, rounds, doubt=DOUBT),
        trials=rounds,
        note=f"{inclusion} computed" if inclusion.denominator <= 10**7 else "",
    )
    for level, count in zip(hierarchy.levels, drawn.levels, strict=True):
        yield _share(name, level, count)
    yield _batch(name, phase, drawn)


def _watched(hierarchy: Hierarchy, place: tuple[int, ...], unit: int) -> tuple[int, Fraction]:
    """The number of the unit at a place (the first of all where there is none), and how likely a step draws it."""
    found, inclusion = 0, Fraction(1)
    for number in range(1, unit + 1):
        first, size = synthetic_sizes(hierarchy, number, np.array([found]))
        found = int(first[0]) + (place[number - 1] if place else 0)
        inclusion *= hierarchy.level(number).scheme.rate(int(size[0]))
    return found, inclusion


def _share(phase: str, level: Level, count: LevelCount) -> Check:
    """How much is drawn of what there is under drawn units: by chance for Poisson draws, else a fixed number."""
    if isinstance(level.scheme, Poisson) and count.offered:
        rate, observed = float(level.scheme.probability), count.drawn / count.offered
        return Check(
            phase=phase,
            quantity=f"share of {level.name} drawn",
            computed=(rate, rate),
            observed=observed,
            interval=mean_interval(observed, count.offered, doubt=DOUBT),
            trials=count.offered,
        )
    parents = max(count.parents, 1)
    expected, observed = mean_drawn(level.scheme, count.offered / parents), count.drawn / parents
    return Check(
        phase=phase,
        quantity=f"{level.name} drawn at a time",
        computed=(expected, expected),
        observed=observed,
        interval=(observed, observed),
        trials=count.parents,
    )


def _batch(name: str, phase: Phase, drawn: Drawn) -> Check:
    """How many clipped vectors a batch has, or for a clipped batch how many units of the first level."""
    hierarchy, at = phase.hierarchy, max(phase.clip, 1)
    sizes = drawn.levels[at - 1].by_round
    observed, expected = float(sizes.mean()), _mean_batch(hierarchy, at)
    return Check(
        phase=name,
        quantity=f"batch size ({hierarchy.level(at).name})",
        computed=(expected, expected),
        observed=observed,
        interval=_batch_interval(hierarchy, at, drawn),
        trials=sizes.size,
        note=f"from {sizes.min()} to {sizes.max()}",
    )


def _mean_batch(hierarchy: Hierarchy, depth: int) -> float:
    """Expected number of units of a level that a step draws, by linearity over all units above it."""
    likely = np.ones(1)  # for each unit of a level (equal siblings of the first one together) how often it is drawn
    for number in range(1, depth + 1):
        scheme = hierarchy.level(number).scheme
        if hierarchy.tree is None:
            first, others = hierarchy.level(number).least, hierarchy.level(number).count
            drawn = [mean_drawn(scheme, first), mean_drawn(scheme, others)]
            total = drawn[0] * likely[0] + drawn[1] * (likely.sum() - likely[0])
            alone = drawn[0] / first * likely[0]
            likely = np.array([alone, total - alone])
        else:
            sizes = np.array(hierarchy.tree.sizes[number - 1])
            each = np.array([mean_drawn(scheme, size) / size for size in sizes.tolist()])
            likely = np.repeat(each * likely, sizes)
    return float(likely.sum())


def _batch_interval(hierarchy: Hierarchy, depth: int, drawn: Drawn) -> Ends:
    """Where the expected batch size lies.

    Equal sizes: each level multiplies it by a fixed number or by the share of Poisson draws, whose interval is known.
    Otherwise by the bounded number that each round draws.
    """
    levels = hierarchy.levels[:depth]
    if all(level.is_equal for level in levels):
        low = high = 1.0
        for level, count in zip(levels, drawn.levels, strict=False):
            share = _share("", level, count)
            times = level.count if isinstance(level.scheme, Poisson) else 1
            low, high = low * share.interval[0] * times, high * share.interval[1] * times
        return low, high
    most = math.prod(level.most_drawn for level in levels)
    sizes = drawn.levels[depth - 1].by_round
    low, high = mean_interval(float(sizes.mean()) / most, sizes.size, doubt=DOUBT)
    return low * most, high * most
