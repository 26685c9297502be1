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
from dpcalc.arrays import Array
from dpcalc.planner.composition import ProtectedUnit
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.sampling.counts import CountDistribution, binomial, convolve_power, hypergeometric
from dpcalc.sampling.hierarchy import Episodes, Hierarchy, Level
from dpcalc.sampling.paths import Path, one_pass
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
    """Computed distribution of the number of draws of protected units.

    Attributes:
        probabilities: by number of draws, of one step or one pass.
        is_exact: True for the distribution itself, False for an upper bound in stochastic order.
        is_of_pass: True if draws of a whole pass of a shuffle are counted, False for those of one step.
        in_round: probability that some step of a round draws the unit; None where it is not computed.
    """

    probabilities: CountDistribution
    is_exact: bool
    is_of_pass: bool
    in_round: float | None = None


def member_distribution(plan: Plan, protected: ProtectedUnit, phase_index: int) -> MemberDistribution:
    """Return the distribution of draws of the protected units in a step, or in a pass if some level is shuffled.

    Args:
        plan: a training run.
        protected: the unit or group.
        phase_index: of the phase, from 0.
    """
    hierarchy, path = plan.phases[phase_index].hierarchy, _path_of_a_step(plan, protected, phase_index)
    if hierarchy.episodes is not None:
        law = _episode_distribution(hierarchy, hierarchy.episodes, plan.unit, plan.group_size)
        return MemberDistribution(probabilities=law, is_exact=True, is_of_pass=_has_shuffle(hierarchy))
    if plan.group_size > 1 or any(isinstance(scheme, WithReplacement) for scheme in path.schemes):
        return _placed_members(plan, hierarchy, _placement(plan, protected), one_pass(path))
    on_path = _units_on_path(hierarchy, protected, phase_index, plan.unit)
    rates = [level.scheme.rate(unit.frame_size) for level, unit in zip(hierarchy.levels, on_path, strict=False)]
    return _single_draw(hierarchy, rates)


def _single_draw(hierarchy: Hierarchy, rates: Sequence[Fraction]) -> MemberDistribution:
    """Return the exact distribution of a unit that a step or pass draws at most once, with these rates by level."""
    return MemberDistribution(
        probabilities={1: math.prod(rates, start=Fraction(1))},
        is_exact=True,
        is_of_pass=_has_shuffle(hierarchy),
        in_round=_round_inclusion(hierarchy, rates),
    )


def _placed_members(plan: Plan, hierarchy: Hierarchy, placement: Placement | None, path: Path) -> MemberDistribution:
    """Return the distribution of the draws of placed units in a batch, with `is_exact` False for an upper bound."""
    law = _placed_distribution(plan, placement, path)
    is_exact = placement is not None and _is_exact(plan, hierarchy, path, law)
    return MemberDistribution(probabilities=law, is_exact=is_exact, is_of_pass=_has_shuffle(hierarchy))


def _has_shuffle(hierarchy: Hierarchy) -> bool:
    """Return True if some level is shuffled."""
    return any(isinstance(level.scheme, Shuffle) for level in hierarchy.levels)


def _path_of_a_step(plan: Plan, protected: ProtectedUnit, phase_index: int) -> Path:
    """Return the protected path in one step; an allocated level on it counts as Poisson draws at its rate."""
    hierarchy, path = plan.phases[phase_index].hierarchy, protected.paths[phase_index]
    if not 0 < hierarchy.allocated <= len(path.schemes):
        return path
    schemes = [*path.schemes]
    schemes[hierarchy.allocated - 1] = Poisson(probability=hierarchy.chosen_rate)
    return replace(path, schemes=tuple(schemes))


def _placed_distribution(plan: Plan, placement: Placement | None, path: Path) -> CountDistribution:
    """Return the distribution of the number of members in a batch; for placement None a bound for every placement."""
    if placement is None:
        parent_rate = math.prod((path.rate(level) for level in range(1, plan.unit)), start=Fraction(1))
        return _mixed(large_group(plan.group_size, parent_rate, path.rate(plan.unit)))
    # The contexts are public, but a batch is drawn under all of them.
    by_context = contexts(placement, path.schemes, path.counts)
    return _mixed(
        [(p, members_in_batch(context, path.schemes[-1], path.counts[-1])) for context, p in by_context.items()]
    )


def _is_exact(plan: Plan, hierarchy: Hierarchy, path: Path, law: CountDistribution) -> bool:
    """Return True if a law is exact: frames are equal, no parents of a group are repeated, no counts were merged."""
    has_equal_frames = all(level.is_equal for level in hierarchy.levels[: plan.unit])
    has_repeated_parents = any(isinstance(scheme, WithReplacement) for scheme in path.schemes[:-1])
    return has_equal_frames and not (plan.group_size > 1 and has_repeated_parents) and max(law) <= _MAX_EXACT_COUNTS


def _mixed(mixture: Sequence[tuple[Fraction, CountDistribution]]) -> CountDistribution:
    """Return the mixture of (weight, distribution) pairs as one distribution: weighted probabilities add by count."""
    total: CountDistribution = {}
    for weight, law in mixture:
        for count, probability in law.items():
            total[count] = total.get(count, Fraction(0)) + weight * probability
    return total


def watched_units(plan: Plan, protected: ProtectedUnit, phase_index: int) -> tuple[int, ...]:
    """Return the numbers, from 0, of the protected units in their level; the first ones if no placement is stated.

    Args:
        plan: a training run.
        protected: the unit or group.
        phase_index: of the phase, from 0.
    """
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


def _round_inclusion(hierarchy: Hierarchy, rates: Sequence[Fraction]) -> float | None:
    """Return the probability that a unit with these rates by level is drawn in a round; None if a level is shuffled."""
    if _has_shuffle(hierarchy):
        return None
    if hierarchy.allocation is not None:
        return _pass_inclusion(hierarchy, hierarchy.allocation, rates)
    return _period_inclusion(hierarchy.levels, rates)


def _period_inclusion(levels: Sequence[Level], rates: Sequence[Fraction]) -> float:
    """Return the probability that a unit with these rates is drawn within the redraw period of the outermost level."""
    # From the innermost level outwards: a drawn parent stays for several draws of its children, which are independent.
    probability = float(rates[-1])
    for level, below, rate in reversed(list(zip(levels, levels[1 : len(rates)], rates, strict=False))):
        probability = float(rate) * _any_of(level.redraw_every // below.redraw_every, probability)
    return probability


def _pass_inclusion(hierarchy: Hierarchy, allocation: Allocation, rates: Sequence[Fraction]) -> float:
    """Return the probability that a unit, of the allocated level or below, is drawn in one of its steps of a pass."""
    # The steps that a unit chooses are different ones, in which what lies below it is drawn independently.
    in_step = math.prod(rates, start=Fraction(1)) / hierarchy.chosen_rate
    return _any_of(allocation.visits(allocation.steps_of_a_pass), float(in_step))


def _any_of(trials: int, probability: float) -> float:
    """Return the probability that at least one of several independent trials of a probability succeeds."""
    return -math.expm1(trials * math.log1p(-probability)) if probability < 1 else 1.0


def _episode_distribution(hierarchy: Hierarchy, episodes: Episodes, level: int, members: int) -> CountDistribution:
    """Return the distribution of draws in a step of constructed tasks: of `members` classes, at level 2 of a record."""
    classes, records = hierarchy.levels
    if level == 1:
        return convolve_power(hypergeometric(classes.count, members, episodes.ways), episodes.tasks)
    return binomial(episodes.tasks, episodes.class_rate(classes.count) * episodes.record_rate(records.count))


# Drawn rounds of one phase beside the computed numbers.


_DEFAULT_COST = 2e7  # units looked at in all rounds by default: about two seconds
_MIN_ROUNDS, _MAX_ROUNDS = 100, 20_000  # rounds drawn by default
_MAX_TOGETHER = 4  # of a group, up to so many members drawn together are checked; more are too rare to be seen


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """A phase and the counts of its drawn rounds.

    Attributes:
        name: of the phase, "" if it is the only one.
        hierarchy: its levels.
        counts: of the rounds.
    """

    name: str
    hierarchy: Hierarchy
    counts: DrawCounts

    def check(self, quantity: str, computed: Ends, observed: float, interval: Ends, trials: int) -> Check:
        """Return a Check of this phase with these numbers and without a note.

        Args: those of `Check`.
        """
        return Check(
            phase=self.name,
            quantity=quantity,
            computed=computed,
            observed=observed,
            interval=interval,
            trials=trials,
        )

    def frequency_check(self, quantity: str, computed: Ends, happened: NDArray[np.bool_]) -> Check:
        """Return a Check of the probability of an event from where it happened, its rows independent rounds.

        Args:
            quantity: name of the probability.
            computed: bounds that are computed.
            happened: True where the event happened, shape (rounds, times in a round).
        """
        observed, rounds = float(happened.mean()), len(happened)
        interval = mean_interval(observed, rounds, miss_probability=MISS_PROBABILITY)
        return self.check(quantity, computed, observed, interval, rounds)


def batch_checks(plan: Plan, protected: ProtectedUnit, phase_index: int, source: RandomSource) -> Iterator[Check]:
    """Draw rounds of a phase and yield checks of the protected units, of each level's draws and of the batch size.

    Args:
        plan: a training run.
        protected: the unit or group that is watched.
        phase_index: of the phase, from 0.
        source: random numbers, effort and progress.

    Yields:
        Checks of the inclusion of the protected units, alone and together; of the share of each level that is drawn; of
        the batch size.

    Raises:
        InputError: one round draws too many units.
        UnsupportedError: shuffles whose passes do not end together.
    """
    phase = plan.phases[phase_index]
    hierarchy = phase.hierarchy
    rounds = _rounds_to_draw(hierarchy, source.effort.draws)
    watched = WatchedUnits(level=plan.unit, units=watched_units(plan, protected, phase_index))
    counts = draw_rounds(
        hierarchy, watched, rounds=rounds, rng=source.rng, on_progress=lambda done: source.on_progress(done / rounds)
    )
    drawn = _Phase(name=phase.name if len(plan.phases) > 1 else "", hierarchy=hierarchy, counts=counts)
    yield from _inclusion_checks(drawn, plan, member_distribution(plan, protected, phase_index))
    _, schemes = draws_of_step(hierarchy)
    for level, scheme, count in zip(hierarchy.levels, schemes, counts.levels, strict=True):
        yield _level_check(drawn, level.name, scheme, count)
    yield _batch_size_check(drawn, hierarchy.depth if hierarchy.episodes else max(phase.clip, 1))


def _rounds_to_draw(hierarchy: Hierarchy, draws: int | None) -> int:
    """Return the rounds that hold so many steps; for None or 0 as many, 100 to 20,000, as take about two seconds."""
    rounds = int(min(_MAX_ROUNDS, max(_MIN_ROUNDS, _DEFAULT_COST / round_cost(hierarchy))))
    return -(-draws // steps_per_round(hierarchy)) if draws else rounds


def _inclusion_checks(phase: _Phase, plan: Plan, distribution: MemberDistribution) -> Iterator[Check]:
    """Yield checks of how often protected units are drawn in a step or pass and, where it is computed, in a round."""
    units = f"any of {plan.group_size} {plan.unit_name}" if plan.group_size > 1 else f"one {plan.unit_name}"
    yield from _together_checks(phase, units, distribution)
    in_round, steps = distribution.in_round, phase.counts.members.shape[1]
    if in_round is not None and steps > 1:
        drawn = np.asarray((phase.counts.members > 0).any(axis=1))
        yield phase.frequency_check(f"inclusion of {units} in any of {steps} steps", (in_round, in_round), drawn)


def _together_checks(phase: _Phase, units: str, distribution: MemberDistribution) -> Iterator[Check]:
    """Yield checks of how often a step or pass has k or more draws of protected units, k from 1 to 4 if not rare."""
    members = phase.counts.members.sum(axis=1, keepdims=True) if distribution.is_of_pass else phase.counts.members
    when = " in a pass" if distribution.is_of_pass else ""
    for number in range(1, min(max(distribution.probabilities), _MAX_TOGETHER) + 1):
        tail = float(sum(p for count, p in distribution.probabilities.items() if count >= number))
        if number > 1 and tail * len(members) < 1:  # not expected once in all rounds
            break
        quantity = f"inclusion of {units}" if number == 1 else f"{number} or more draws of {units}"
        yield phase.frequency_check(quantity + when, (tail if distribution.is_exact else 0.0, tail), members >= number)


def _level_check(phase: _Phase, name: str, scheme: Scheme, count: LevelCount) -> Check:
    """Return the check of one level: the share of units drawn if it is Poisson, else the mean draws from a frame."""
    if isinstance(scheme, Poisson) and count.offered:
        rate, observed = float(scheme.probability), count.drawn / count.offered
        interval = mean_interval(observed, count.offered, miss_probability=MISS_PROBABILITY)
        return phase.check(f"share of {name} drawn", (rate, rate), observed, interval, count.offered)
    return _mean_draws_check(phase, name, scheme, count)


def _mean_draws_check(phase: _Phase, name: str, scheme: Scheme, count: LevelCount) -> Check:
    """Return the check of the mean number of draws from a frame; its interval is one number unless draws are capped."""
    observed, expected = count.drawn / max(count.parents, 1), _expected_from_frame(scheme, count)
    interval = observed, observed
    if isinstance(scheme, CappedPoisson):
        interval = _bounded_mean_interval(observed, scheme.max_batch_size, max(count.parents, 1))
    when = "in a pass" if isinstance(scheme, Shuffle | Allocation) else "at a time"
    return phase.check(f"{name} drawn {when}", (expected, expected), observed, interval, count.parents)


def _expected_from_frame(scheme: Scheme, count: LevelCount) -> float:
    """Return the expected draws from one of the frames, on average, in a step or pass; 0 if there are no frames."""
    if not count.parents:
        return 0.0
    # Of most schemes the expectation is linear in the size of a frame, so that the mean size gives the mean.
    if isinstance(scheme, Fixed | CappedPoisson):
        return count.nominal / count.parents
    frame_size = count.offered / count.parents
    return expected_draws(scheme, frame_size) * _steps_of_draw(scheme, int(frame_size))


def _bounded_mean_interval(mean: float, max_value: int, trials: int) -> Ends:
    """Return a confidence interval for the expectation of numbers in [0, max_value], from their mean."""
    low, high = mean_interval(mean / max_value, trials, miss_probability=MISS_PROBABILITY)
    return low * max_value, high * max_value


def _steps_of_draw(scheme: Scheme, count: int) -> int:
    """Return the number of steps that one draw from a frame of `count` units serves: those of a pass, else 1."""
    if isinstance(scheme, Shuffle):
        return scheme.steps_of_a_pass(count)
    return scheme.steps_of_a_pass if isinstance(scheme, Allocation) else 1


def _batch_size_check(phase: _Phase, depth: int) -> Check:
    """Return the check of the mean batch size, in units of level `depth` (from 1), with its range in the note."""
    hierarchy, count = phase.hierarchy, phase.counts.levels[depth - 1]
    expected = _expected_batch(hierarchy, depth)
    quantity, note = f"batch size ({hierarchy.level(depth).name})", f"from {count.min_batch} to {count.max_batch}"
    interval, trials = _batch_interval(phase, depth), count.batches.size
    return replace(
        phase.check(quantity, (expected, expected), float(count.batches.mean()), interval, trials), note=note
    )


def _expected_batch(hierarchy: Hierarchy, depth: int) -> float:
    """Return the expected number of units of level `depth` (from 1) in a step, repeated draws included."""
    copies, schemes = draws_of_step(hierarchy)
    draws = np.full(1, float(copies))
    for level, scheme in enumerate(schemes[:depth], start=1):
        if hierarchy.tree is None:
            draws = _draws_by_declared_sizes(hierarchy.level(level), scheme, draws)
        else:
            draws = _draws_by_tree_sizes(hierarchy.tree.sizes[level - 1], scheme, draws)
    return float(draws.sum())


def _draws_by_declared_sizes(level: Level, scheme: Scheme, parent_draws: Array) -> Array:
    """Return the expected draws of (first unit, all others together), where the first parent has the fewest units.

    `parent_draws` are those of (first parent, all others together), of shape (1,) for the whole data set.
    """
    of_first, of_other = expected_draws(scheme, level.min_count), expected_draws(scheme, level.count)
    total = of_first * parent_draws[0] + of_other * (parent_draws.sum() - parent_draws[0])
    first_draws = of_first / level.min_count * parent_draws[0]
    return np.array([first_draws, total - first_draws])


def _draws_by_tree_sizes(sizes: Sequence[int], scheme: Scheme, parent_draws: Array) -> Array:
    """Return the expected draws of every unit of a level, from those of its parents, which hold `sizes` units each."""
    rates = np.array([expected_draws(scheme, size) / size for size in sizes])
    return np.repeat(rates * parent_draws, np.array(sizes))


def _batch_interval(phase: _Phase, depth: int) -> Ends:
    """Return an interval of the mean batch size: the product of its levels' if it is one, else from the rounds."""
    if _is_product_of_levels(phase, depth):
        return _product_of_levels(phase, depth)
    copies, schemes = draws_of_step(phase.hierarchy)
    levels, batches = phase.hierarchy.levels[:depth], phase.counts.levels[depth - 1].batches
    largest = copies * math.prod(scheme.max_drawn(level.count) for scheme, level in zip(schemes, levels, strict=False))
    return _bounded_mean_interval(float(batches.mean()), largest, batches.size)


def _is_product_of_levels(phase: _Phase, depth: int) -> bool:
    """Return True if, down to `depth`, every level has drawn frames that all give the same expected number of draws."""
    _, schemes = draws_of_step(phase.hierarchy)
    levels = zip(phase.hierarchy.levels[:depth], phase.counts.levels, schemes, strict=False)
    return all(count.parents and (level.is_equal or _is_of_fixed_size(scheme)) for level, count, scheme in levels)


def _is_of_fixed_size(scheme: Scheme) -> bool:
    """Return True if a scheme draws the same number of units from every frame."""
    return isinstance(scheme, WithReplacement) or (isinstance(scheme, Fixed) and not scheme.at_most)


def _product_of_levels(phase: _Phase, depth: int) -> Ends:
    """Return an interval of the mean batch size: the product of intervals of each level's draws from one frame."""
    # Each level multiplies the batch by a number of draws or, of Poisson draws, by the share of a frame's units.
    copies, schemes = draws_of_step(phase.hierarchy)
    low = high = float(copies)
    for level, scheme, count in zip(phase.hierarchy.levels[:depth], schemes, phase.counts.levels, strict=False):
        ends = _level_check(phase, level.name, scheme, count).interval
        factor = (level.count if isinstance(scheme, Poisson) else 1) / _steps_of_draw(scheme, level.count)
        low, high = low * ends[0] * factor, high * ends[1] * factor
    return low, high
