"""Checks of sampling: how often the protected units are drawn, the share of each level, the batch size.

The first part computes the distributions that are expected; the second compares them with drawn rounds.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.amplification.groups import Placement, contexts, groups, large_group, members_in_batch
from dpcalc.planner.composition import ProtectedUnit
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.sampling.counts import CountDistribution, binomial, convolve_power, hypergeometric
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import one_pass
from dpcalc.sampling.schemes import (
    Allocation,
    CappedPoisson,
    Fixed,
    Poisson,
    Scheme,
    Shuffle,
    WithReplacement,
)
from dpcalc.simulation.checks import MISS_PROBABILITY, Check, Ends, RandomSource, mean_interval
from dpcalc.simulation.sampler import (
    DrawCounts,
    LevelCount,
    WatchedUnits,
    children,
    draw_rounds,
    draws_of_step,
    expected_draws,
    round_cost,
    steps_per_round,
)

# Computed distributions of the number of draws, and the watched units of the synthetic data set.


# Distributions of more counts are merged upwards in `sampling.counts`, and are then upper bounds.
_MAX_EXACT_COUNTS = 48


@dataclass(frozen=True, kw_only=True)
class MemberDistribution:
    """Computed distribution of the number of draws of protected units."""

    probabilities: CountDistribution  # by number of draws, of one step or one pass
    is_exact: bool  # True for the distribution itself, False for an upper bound in stochastic order
    is_of_pass: bool  # True if draws of a whole pass of a shuffle are counted, False for those of one step
    # probability that some step of a round draws the unit; None where it is not computed
    in_round: float | None = None


def member_distribution(plan: Plan, protected: ProtectedUnit, phase_index: int) -> MemberDistribution:
    """Return the distribution of draws of the protected units in a step, or in a pass if some level is shuffled."""
    hierarchy, path = plan.phases[phase_index].hierarchy, protected.paths[phase_index]
    is_of_pass = any(isinstance(level.scheme, Shuffle) for level in hierarchy.levels)
    episodes = hierarchy.episodes
    if episodes is not None:
        classes, records = hierarchy.levels
        if plan.unit == 1:
            law = convolve_power(hypergeometric(classes.count, plan.group_size, episodes.ways), episodes.tasks)
        else:
            law = binomial(episodes.tasks, episodes.class_rate(classes.count) * episodes.record_rate(records.count))
        return MemberDistribution(probabilities=law, is_exact=True, is_of_pass=is_of_pass)
    if 0 < hierarchy.allocated <= len(path.schemes):  # in one step, an allocated level is a Poisson draw at its rate
        schemes = [*path.schemes]
        schemes[hierarchy.allocated - 1] = Poisson(probability=hierarchy.chosen_rate)
        path = replace(path, schemes=tuple(schemes))
    if plan.group_size == 1 and not any(isinstance(scheme, WithReplacement) for scheme in path.schemes):
        on_path = _units_on_path(hierarchy, protected, phase_index, plan.unit)
        rates = [level.scheme.rate(unit.frame_size) for level, unit in zip(hierarchy.levels, on_path, strict=False)]
        return MemberDistribution(
            probabilities={1: math.prod(rates, start=Fraction(1))},
            is_exact=True,
            is_of_pass=is_of_pass,
            in_round=None if is_of_pass else _round_inclusion(hierarchy, rates),
        )
    path, placement = one_pass(path), _placement(plan, protected)
    if placement is None:  # a bound for every placement
        parent_rate = math.prod((path.rate(level) for level in range(1, plan.unit)), start=Fraction(1))
        law = _mixed(large_group(plan.group_size, parent_rate, path.rate(plan.unit)))
        return MemberDistribution(probabilities=law, is_exact=False, is_of_pass=is_of_pass)
    # The contexts are public, but a batch is drawn under all of them.
    by_context = contexts(placement, path.schemes, path.counts)
    law = _mixed(
        [(p, members_in_batch(context, path.schemes[-1], path.counts[-1])) for context, p in by_context.items()]
    )
    has_equal_frames = all(level.is_equal for level in hierarchy.levels[: plan.unit])
    has_repeated_parents = any(isinstance(scheme, WithReplacement) for scheme in path.schemes[:-1])
    is_exact = has_equal_frames and not (plan.group_size > 1 and has_repeated_parents) and max(law) <= _MAX_EXACT_COUNTS
    return MemberDistribution(probabilities=law, is_exact=is_exact, is_of_pass=is_of_pass)


def _mixed(mixture: Sequence[tuple[Fraction, CountDistribution]]) -> CountDistribution:
    """Return the mixture of (weight, distribution) pairs as one distribution: weighted probabilities add by count."""
    total: CountDistribution = {}
    for weight, law in mixture:
        for count, probability in law.items():
            total[count] = total.get(count, Fraction(0)) + weight * probability
    return total


def watched_units(plan: Plan, protected: ProtectedUnit, phase_index: int) -> tuple[int, ...]:
    """Return the numbers, from 0, of the protected units in their level; the first ones if no placement is stated."""
    hierarchy = plan.phases[phase_index].hierarchy
    # A single unit lies on its path; members of a group fill their placement from the first units on.
    if plan.group_size == 1:
        *_, unit = _units_on_path(hierarchy, protected, phase_index, plan.unit)
        return (unit.number,)
    placement = _placement(plan, protected)
    if placement is not None:
        return tuple(_placed_units(hierarchy, placement, 0, 1))
    return tuple(range(plan.group_size))


def _placement(plan: Plan, protected: ProtectedUnit) -> Placement | None:
    """Return how the protected unit or group lies in the data, as nested counts; None if that is left open."""
    if plan.group_size == 1:
        return _lone_placement(plan.unit)
    phases = [phase.hierarchy for phase in plan.phases]
    options = groups(plan.group_size, phases, unit=plan.unit, adjacency=plan.adjacency)
    return next(group.placement for group in options if group.words == protected.place)


def _lone_placement(level: int) -> Placement:
    """Return the placement of one unit of a level (from 1): the count 1, in a tuple for each level above."""
    return 1 if level == 1 else (_lone_placement(level - 1),)


def _placed_units(hierarchy: Hierarchy, placement: Placement, parent: int, level: int) -> Iterator[int]:
    """Yield the numbers, from 0, of the units that fill a nested placement: always the first children of a parent."""
    first = int(children(hierarchy, level, np.array([parent]))[0][0])
    if isinstance(placement, int):
        yield from range(first, first + placement)
        return
    for offset, inner in enumerate(placement):
        yield from _placed_units(hierarchy, inner, first + offset, level + 1)


class _UnitOnPath(NamedTuple):
    """A unit's number in its level, from 0, and the number of units in its frame."""

    number: int
    frame_size: int


def _units_on_path(
    hierarchy: Hierarchy, protected: ProtectedUnit, phase_index: int, level: int
) -> Iterator[_UnitOnPath]:
    """Yield the unit of each level, 1 to `level`, on the protected path; the first child where no place is stated."""
    unit, places = 0, protected.paths[phase_index].place
    for depth in range(1, level + 1):
        first, size = children(hierarchy, depth, np.array([unit]))
        unit = int(first[0]) + (places[depth - 1] if places else 0)
        yield _UnitOnPath(unit, int(size[0]))


def _round_inclusion(hierarchy: Hierarchy, rates: Sequence[Fraction]) -> float:
    """Return the probability that a unit with these rates by level is drawn in a round; no level is shuffled."""
    allocation, levels = hierarchy.allocation, hierarchy.levels
    if allocation is not None:
        # The steps that a unit chooses are different ones, in which what lies below it is drawn independently.
        in_step = math.prod(rates, start=Fraction(1)) / hierarchy.chosen_rate
        return _any_of(allocation.visits(allocation.steps_of_a_pass), float(in_step))
    # From the innermost level outwards: a drawn parent stays for several draws of its children, which are independent.
    probability = float(rates[-1])
    for level, below, rate in reversed(list(zip(levels, levels[1 : len(rates)], rates, strict=False))):
        probability = float(rate) * _any_of(level.redraw_every // below.redraw_every, probability)
    return probability


def _any_of(trials: int, probability: float) -> float:
    """Return the probability that at least one of several independent trials of a probability succeeds."""
    return -math.expm1(trials * math.log1p(-probability)) if probability < 1 else 1.0


# Drawn rounds of one phase beside the computed numbers.


_DEFAULT_COST = 2e7  # units looked at in all rounds by default: about two seconds
_MIN_ROUNDS, _MAX_ROUNDS = 100, 20_000  # rounds drawn by default
_MAX_TOGETHER = 4  # of a group, up to so many members drawn together are checked; more are too rare to be seen


def batch_checks(plan: Plan, protected: ProtectedUnit, phase_index: int, source: RandomSource) -> Iterator[Check]:
    """Draw rounds of a phase and yield checks of the protected units, of each level's draws and of the batch size.

    InputError if one round draws too many units, UnsupportedError for shuffles whose passes do not end together.
    """
    phase = plan.phases[phase_index]
    hierarchy, name = phase.hierarchy, phase.name if len(plan.phases) > 1 else ""
    rounds = int(min(_MAX_ROUNDS, max(_MIN_ROUNDS, _DEFAULT_COST / round_cost(hierarchy))))
    if source.effort.draws:
        rounds = -(-source.effort.draws // steps_per_round(hierarchy))
    watched = WatchedUnits(level=plan.unit, units=watched_units(plan, protected, phase_index))
    counts = draw_rounds(
        hierarchy, watched, rounds=rounds, rng=source.rng, on_progress=lambda done: source.on_progress(done / rounds)
    )

    def check(quantity: str, computed: Ends, observed: float, interval: Ends, trials: int, note: str = "") -> Check:
        return Check(
            phase=name,
            quantity=quantity,
            computed=computed,
            observed=observed,
            interval=interval,
            trials=trials,
            note=note,
        )

    def frequency_check(quantity: str, computed: Ends, happened: NDArray[np.bool_]) -> Check:  # (rounds, times in each)
        observed = float(happened.mean())
        interval = mean_interval(observed, len(happened), miss_probability=MISS_PROBABILITY)
        return check(quantity, computed, observed, interval, len(happened))

    # How often k or more of the protected units are drawn together, and one in a round.
    law = member_distribution(plan, protected, phase_index)
    units = f"any of {plan.group_size} {plan.unit_name}" if plan.group_size > 1 else f"one {plan.unit_name}"
    members = counts.members.sum(axis=1, keepdims=True) if law.is_of_pass else counts.members
    for number in range(1, min(max(law.probabilities), _MAX_TOGETHER) + 1):
        tail = float(sum(p for count, p in law.probabilities.items() if count >= number))
        if number > 1 and tail * len(members) < 1:  # not expected once in all rounds
            break
        quantity = f"inclusion of {units}" if number == 1 else f"{number} or more draws of {units}"
        when = " in a pass" if law.is_of_pass else ""
        yield frequency_check(quantity + when, (tail if law.is_exact else 0.0, tail), members >= number)
    in_round, steps = law.in_round, counts.members.shape[1]
    if in_round is not None and steps > 1:
        drawn = np.asarray((counts.members > 0).any(axis=1))
        yield frequency_check(f"inclusion of {units} in any of {steps} steps", (in_round, in_round), drawn)

    _, schemes = draws_of_step(hierarchy)
    for level, scheme, count in zip(hierarchy.levels, schemes, counts.levels, strict=True):
        observed, interval = _level_draws(scheme, count)
        if isinstance(scheme, Poisson) and count.offered:
            rate = float(scheme.probability)
            yield check(f"share of {level.name} drawn", (rate, rate), observed, interval, count.offered)
            continue
        # Of most schemes the expectation is linear in the size of a frame, so that the mean size gives the mean.
        expected = 0.0
        if count.parents and isinstance(scheme, Fixed | CappedPoisson):
            expected = count.nominal / count.parents
        elif count.parents:
            frame_size = count.offered / count.parents
            expected = expected_draws(scheme, frame_size) * _steps_of_draw(scheme, int(frame_size))
        when = "in a pass" if isinstance(scheme, Shuffle | Allocation) else "at a time"
        yield check(f"{level.name} drawn {when}", (expected, expected), observed, interval, count.parents)

    depth = hierarchy.depth if hierarchy.episodes else max(phase.clip, 1)
    count, expected = counts.levels[depth - 1], _expected_batch(hierarchy, depth)
    yield check(
        f"batch size ({hierarchy.level(depth).name})",
        (expected, expected),
        float(count.batches.mean()),
        _batch_interval(hierarchy, counts, depth),
        count.batches.size,
        note=f"from {count.min_batch} to {count.max_batch}",
    )


def _level_draws(scheme: Scheme, count: LevelCount) -> tuple[float, Ends]:
    """Return (mean, interval) of the share of units drawn if the scheme is Poisson, else of the draws from a frame."""
    if isinstance(scheme, Poisson) and count.offered:
        share = count.drawn / count.offered
        return share, mean_interval(share, count.offered, miss_probability=MISS_PROBABILITY)
    mean = count.drawn / max(count.parents, 1)
    if isinstance(scheme, CappedPoisson):
        return mean, _bounded_mean_interval(mean, scheme.max_batch_size, max(count.parents, 1))
    return mean, (mean, mean)


def _bounded_mean_interval(mean: float, max_value: int, trials: int) -> Ends:
    """Return a confidence interval for the expectation of numbers in [0, max_value], from their mean."""
    low, high = mean_interval(mean / max_value, trials, miss_probability=MISS_PROBABILITY)
    return low * max_value, high * max_value


def _steps_of_draw(scheme: Scheme, count: int) -> int:
    """Return the number of steps that one draw from a frame of `count` units serves: those of a pass, else 1."""
    if isinstance(scheme, Shuffle):
        return scheme.steps_of_a_pass(count)
    return scheme.steps_of_a_pass if isinstance(scheme, Allocation) else 1


def _expected_batch(hierarchy: Hierarchy, depth: int) -> float:
    """Return the expected number of units of level `depth` (from 1) in a step, repeated draws included."""
    copies, schemes = draws_of_step(hierarchy)
    draws = np.full(1, float(copies))  # of each parent; without a tree, of (the first, all others together)
    for level, scheme in enumerate(schemes[:depth], start=1):
        if hierarchy.tree is not None:
            sizes = hierarchy.tree.sizes[level - 1]
            rates = np.array([expected_draws(scheme, size) / size for size in sizes])
            draws = np.repeat(rates * draws, np.array(sizes))
            continue
        fewest, most = hierarchy.level(level).min_count, hierarchy.level(level).count  # the first parent has the fewest
        of_first, of_other = expected_draws(scheme, fewest), expected_draws(scheme, most)
        total = of_first * draws[0] + of_other * (draws.sum() - draws[0])
        first = of_first / fewest * draws[0]
        draws = np.array([first, total - first])
    return float(draws.sum())


def _batch_interval(hierarchy: Hierarchy, counts: DrawCounts, depth: int) -> Ends:
    """Return an interval of the mean batch size: the product of its levels' if it is one, else from the rounds."""
    copies, schemes = draws_of_step(hierarchy)
    levels = list(zip(hierarchy.levels[:depth], schemes, counts.levels, strict=False))
    # It is one if every level has drawn frames that all give the same expected number of draws.
    if all(
        count.parents
        and (
            level.is_equal or isinstance(scheme, WithReplacement) or (isinstance(scheme, Fixed) and not scheme.at_most)
        )
        for level, scheme, count in levels
    ):
        # Each level multiplies the batch by a number of draws or, of Poisson draws, by the share of a frame's units.
        low = high = float(copies)
        for level, scheme, count in levels:
            _, ends = _level_draws(scheme, count)
            factor = (level.count if isinstance(scheme, Poisson) else 1) / _steps_of_draw(scheme, level.count)
            low, high = low * ends[0] * factor, high * ends[1] * factor
        return low, high
    batches = counts.levels[depth - 1].batches
    largest = copies * math.prod(scheme.max_drawn(level.count) for level, scheme, _ in levels)
    return _bounded_mean_interval(float(batches.mean()), largest, batches.size)
