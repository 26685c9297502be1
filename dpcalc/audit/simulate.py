"""`simulate`: batches of the sampler of Algorithm 1, drawn index by index, beside the computed law of the draws.

It shares no formula with the computed laws, which `dpcalc.audit.simulate` checks by it.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcalc.amplification.bound import member_counts
from dpcalc.amplification.groups import Placement
from dpcalc.audit.laws import Ends, mean_interval
from dpcalc.config.load import Loaded
from dpcalc.config.source import visible
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.numerics import IntArray
from dpcalc.planner.composition import ProtectedUnit, composed
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.report.output import Json, Output, Table, as_given, config_output, lines, rounded_down, rounded_up, yes_no
from dpcalc.sampling.counts import CountDistribution, binomial, convolve_power, hypergeometric, mixture
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import one_pass
from dpcalc.sampling.schemes import BallsInBins, Fixed, Poisson, RandomAllocation, Scheme, SummedPoisson

# One draw from each of many frames: (index of the frame of each drawn unit, index of the unit in its frame), both from
# 0, shape (drawn units,) each.

UnitIndices = tuple[IntArray, IntArray]

CHUNK = 2_000_000
"""Units handled together, 16 MB an array, of which there are about ten."""
# Frames of at most so many times the draw are put in random order as a whole; from larger ones units are picked.
_DENSE_FACTOR = 64


def draw_units(scheme: Scheme, sizes: IntArray, rng: Generator) -> UnitIndices:
    """Draw units of each frame by a scheme; of a shuffle all, in the order of the pass."""
    if scheme.has_stand_in:
        return _draw_fixed(scheme.size, sizes, rng)
    if scheme.can_repeat:
        frames = np.repeat(np.arange(sizes.size), scheme.size)
        return frames, rng.integers(0, sizes[frames])
    if isinstance(scheme, SummedPoisson):
        frames, places = _draw_poisson(float(scheme.probability), sizes * scheme.draws, rng)  # one draw after the other
        return frames, places % sizes[frames]
    if scheme.is_independent or scheme.is_cut:
        frames, units = _draw_poisson(float(scheme.probability), sizes, rng)
        if scheme.limit is None:
            return frames, units
        order = np.lexsort((rng.random(frames.size), frames))  # a random order within each frame, cut at the cap
        drawn = np.bincount(frames, minlength=sizes.size)
        kept = order[index_in_frame(frames, drawn) < scheme.limit]
        return frames[kept], units[kept]
    frames = np.repeat(np.arange(sizes.size), sizes)
    units = index_in_frame(frames, sizes)
    if scheme.is_shuffled:
        units = units[np.lexsort((rng.random(frames.size), frames))]
    return frames, units


def index_in_frame(frames: IntArray, sizes: IntArray) -> IntArray:
    return np.arange(frames.size) - (np.cumsum(sizes) - sizes)[frames]


def _draw_fixed(number: int, sizes: IntArray, rng: Generator) -> UnitIndices:
    """Draw a fixed number of distinct units from each frame, or all units of a smaller frame, in the fastest way."""
    max_size = int(sizes.max(initial=0))
    frames = np.repeat(np.arange(sizes.size), np.minimum(number, sizes))
    if max_size <= _DENSE_FACTOR * number:
        # Every unit has a random key, columns beyond a small frame one that is larger: the smallest keys are drawn.
        pieces = [np.zeros(0, dtype=np.int64)]
        rows = max(1, CHUNK // max(max_size, 1))
        for start in range(0, sizes.size, rows):
            chunk = sizes[start : start + rows, None]
            keys = np.where(np.arange(max_size) < chunk, rng.random((chunk.size, max_size)), 2.0)
            smallest = np.argpartition(keys, min(number, max_size) - 1, axis=1)[:, :number]
            pieces.append(smallest[smallest < chunk])
        return frames, np.concatenate(pieces)
    if number**2 > int(sizes.min(initial=max_size)):  # most frames would draw some unit twice, again and again
        picked = [rng.choice(size, min(number, size), replace=False, shuffle=False) for size in sizes.tolist()]
        return frames, np.concatenate([np.zeros(0, dtype=np.int64), *picked])
    units = rng.integers(0, sizes[:, None], (sizes.size, number))
    repeated = np.arange(sizes.size)
    # Rows that draw a unit twice, at most half of them, are drawn anew as a whole: so every set stays equally likely.
    while True:
        in_order = np.sort(units[repeated], axis=1)
        repeated = repeated[(in_order[:, 1:] == in_order[:, :-1]).any(axis=1)]
        if not repeated.size:
            return frames, units.ravel()
        units[repeated] = rng.integers(0, sizes[repeated, None], (repeated.size, number))


def _draw_poisson(rate: float, sizes: IntArray, rng: Generator) -> UnitIndices:
    """Draw each unit of each frame independently with probability `rate`, by geometric gaps; none at rate 0."""
    # All frames stand in one line, along which the distances between drawn units are geometric.
    total = int(sizes.sum())
    if not total or not rate:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    pieces, last = [], -1
    while last < total:
        # A tenth more than expected, so that one turn nearly always reaches the end.
        number = int(1.1 * (total - last) * rate) + 20
        positions = last + np.cumsum(np.minimum(rng.geometric(rate, number), total + 1))
        pieces.append(positions)
        last = int(positions[-1])
    line = np.concatenate(pieces)
    line = line[line < total]
    ends = np.cumsum(sizes)
    frames = np.searchsorted(ends, line, side="right")
    return frames, line - (ends - sizes)[frames]


# Rounds of a nested draw.
#
# The units of a level are numbered from 0, those of one parent in a row. A round is the time after which everything is
# drawn afresh: one step, or the longest redraw period, or one pass of a shuffle. It draws level after level: from each
# drawn unit, as often as it was drawn, some of its children. Many rounds are drawn at once, as rows (step, unit).


_MAX_ROUND_COST = 20_000_000  # units that one round may look at: about a second and a gigabyte
_PICKING_COST = 200.0  # time to pick a few units of a large frame, in units looked at
# Time for a unit that is not looked at; with it, data sets of more units than int64 holds exceed the limit.
_SKIPPING_COST = 1e-9


@dataclass(kw_only=True)
class LevelDraws:
    """Running totals of the draws of one level over all rounds."""

    frames: Counter[int] = field(default_factory=Counter)  # number of frames that were drawn from, by their size
    drawn: int = 0  # units that were drawn, repetitions included
    batches: list[NDArray[np.float64]] = field(default_factory=list)  # mean number of units in a step, by round
    sizes: list[int] = field(default_factory=list)  # of the smallest and the largest step of each chunk of rounds


def draw_rounds(
    hierarchy: Hierarchy,
    level: int,
    units: tuple[int, ...],
    *,
    rounds: int,
    rng: Generator,
    on_progress: Callable[[float], None],
) -> tuple[list[LevelDraws], IntArray]:
    """Return the totals of each level, and how often each step draws the watched units, shape (rounds, steps)."""
    copies, schemes = drawn_schemes(hierarchy)
    length = steps_per_round(hierarchy)
    totals = [LevelDraws() for _ in schemes]
    members = []
    done = 0
    # Rounds are independent, so that chunks of them bound the memory without changing what is drawn.
    chunk = max(1, min(rounds, int(CHUNK / round_cost(hierarchy))))
    while done < rounds:
        number = min(chunk, rounds - done)
        # A row for each draw of a unit: the first step of the draw, counted through all rounds, and the unit; `span` is
        # the number of steps for which a draw is held.
        steps = np.repeat(np.arange(number) * length, copies)
        rows = np.zeros(steps.size, dtype=np.int64)
        span = length
        for depth, (scheme, total) in enumerate(zip(schemes, totals, strict=True), start=1):
            # Each parent is drawn from once a redraw period, or once a pass if this or a lower level has passes.
            has_passes = any(inner.is_shuffled or inner.is_allocated for inner in schemes[depth - 1 :])
            redraws = 1 if has_passes else span // hierarchy.level(depth).redraw_every
            span //= redraws
            steps = (steps[:, None] + np.arange(redraws) * span).ravel()
            first, sizes = children(hierarchy, depth, np.repeat(rows, redraws))
            frames, indices = draw_units(scheme, sizes, rng)
            steps = steps[frames]
            rows = first[frames] + indices
            if isinstance(scheme, BallsInBins):
                steps = steps + rng.integers(0, scheme.bins, rows.size)
                span = 1
            elif isinstance(scheme, RandomAllocation):
                chosen, in_pass = _draw_fixed(scheme.times, np.full(rows.size, scheme.steps), rng)
                steps = steps[chosen] + in_pass
                rows = rows[chosen]
                span = 1
            elif scheme.is_shuffled:
                in_pass = index_in_frame(frames, sizes) // scheme.size
                is_kept = in_pass < length  # drop_last leaves out what is beyond the last whole batch
                steps = (steps + in_pass)[is_kept]
                rows = rows[is_kept]
                span = 1

            shape = number, length // span
            batches = np.bincount(steps // span, minlength=math.prod(shape)).reshape(shape)
            values, counts = np.unique(sizes, return_counts=True)
            total.frames.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            total.drawn += int(batches.sum())
            total.batches.append(batches.mean(axis=1))
            total.sizes += [int(batches.min()), int(batches.max())]
            if depth == level:  # a drawn unit takes part in every step that its draw spans
                own = steps[np.isin(rows, units)] // span
                members.append(np.repeat(np.bincount(own, minlength=math.prod(shape)).reshape(shape), span, axis=1))
        done += number
        on_progress(done / rounds)
    return totals, np.concatenate(members)


def drawn_schemes(hierarchy: Hierarchy) -> tuple[int, tuple[Scheme, ...]]:
    """Return (draws in a step, scheme of each level); constructed tasks count as draws of fixed sizes."""
    episodes = hierarchy.episodes
    if episodes is not None:
        return episodes.tasks, (Fixed(size=episodes.ways), Fixed(size=episodes.records))
    return 1, tuple(level.scheme for level in hierarchy.levels)


def steps_per_round(hierarchy: Hierarchy) -> int:
    """Return the steps of a pass or of the outermost redraw period; UnsupportedError if passes do not end together."""
    shuffled = [level for level in hierarchy.levels if level.scheme.is_shuffled]
    if len(shuffled) > 1 or any(not level.is_equal for level in shuffled):
        raise UnsupportedError(
            "simulate: expected at most one shuffle, of frames of one size, got more or unequal ones"
        )
    level = shuffled[0] if shuffled else hierarchy.level(max(1, hierarchy.allocated))
    has_passes = level.scheme.is_shuffled or level.scheme.is_allocated
    return level.scheme.steps_of_a_pass(level.count) if has_passes else hierarchy.level(1).redraw_every


def children(hierarchy: Hierarchy, level: int, parents: IntArray) -> tuple[IntArray, IntArray]:
    """Return (first child's number, child count) of each parent; where counts are a range parent 0 has the fewest."""
    if hierarchy.tree is not None:
        sizes = np.array(hierarchy.tree.sizes[level - 1], dtype=np.int64)
        return (np.cumsum(sizes) - sizes)[parents], sizes[parents]
    declared = hierarchy.level(level)
    first = np.where(parents > 0, declared.min_count + (parents - 1) * declared.count, 0)
    return first, np.where(parents > 0, declared.count, declared.min_count)


def round_cost(hierarchy: Hierarchy) -> float:
    """Return the expected cost of a round, at least 1, in units that its draws look at; InputError if too high."""
    # Level by level: the expected number of frames that are drawn from, times what a draw from one of them looks at:
    # the units drawn, for a fixed draw what its method costs.
    copies, schemes = drawn_schemes(hierarchy)
    total, parents = 0.0, float(copies)
    for level, scheme in enumerate(schemes, start=1):
        count = Fraction(hierarchy.units(level), hierarchy.units(level - 1))
        cost = drawn = float(expected_draws(scheme, count))
        if scheme.is_cut:
            cost = float(count * scheme.probability)
        elif scheme.has_stand_in:
            is_dense = hierarchy.level(level).count <= _DENSE_FACTOR * scheme.size
            cost = float(count) if is_dense else drawn + _PICKING_COST
        total += parents * (cost + _SKIPPING_COST * float(count))
        parents *= drawn
    total *= steps_per_round(hierarchy)
    if total > _MAX_ROUND_COST:
        raise InputError(
            f"simulate: expected steps that draw at most {_MAX_ROUND_COST:.0e} units, got about {total:.0e}"
        )
    return max(total, 1.0)


def expected_draws(scheme: Scheme, count: int | Fraction) -> Fraction:
    """Return the expected number of draws from a frame in a step, repetitions included."""
    if scheme.is_shuffled:
        return Fraction(scheme.drawn_in_a_pass(int(count)), scheme.steps_of_a_pass(int(count)))
    if scheme.is_cut or scheme.is_allocated:
        return count * scheme.rate(round(count))
    # Not `rate`, which the simulation checks.
    number, chance = scheme.tried(count)  # type: ignore[arg-type]  # a mean of unequal frames
    return number * chance


# `simulate`: batches of the sampler of Algorithm 1, drawn index by index, beside the computed law of the draws.
# How often the protected unit or group is drawn in a step, what each level draws, and the sizes of batches.


MISS_PROBABILITY = 1e-6
"""Probability with which one confidence interval may miss the true value: a run of a thousand checks contradicts a
correct number once in a thousand runs. Ten times more would do so every hundred runs."""
DIGITS = 5
"""Significant digits of computed and drawn numbers."""
_DEFAULT_COST = 4e6  # units looked at in all rounds by default: a second at most
_MIN_ROUNDS, _MAX_ROUNDS = 10, 20_000  # rounds drawn by default
_MAX_TOGETHER = 4  # of a group, up to so many members drawn together are checked; more are too rare to be seen
# Distributions of more counts are merged upwards in `sampling.counts`, and are then upper bounds.
_MAX_EXACT_COUNTS = 48


def simulate_plan(
    plan: Plan, *, seed: int = 1, draws: int | None = None, on_progress: Callable[[float], None]
) -> tuple[list[Json], list[str]]:
    """Return the checks of the phases' sampling, and a note on each whose batches are not drawn.

    `draws` steps of each are drawn, by default a second of work. A check is a computed number, or bounds on it that are
    equal where it is exact, beside its estimate, with an interval that contains the true value but for MISS_PROBABILITY
    (of equal ends where nothing is random).
    """
    protected = composed(plan).likeliest
    rng = np.random.default_rng(seed)
    checks, notes = list[Json](), list[str]()
    for index, phase in enumerate(plan.phases):
        if phase.hierarchy.spans_steps:  # the training code decides who is in which step
            is_cyclic = not phase.hierarchy.level(1).scheme.is_whole
            why = "the training code splits the units into groups" if is_cyclic else "the config states limits alone"
            notes.append(f"no batches of {phase.name} are drawn: {why}; `audit-sampler` tests a log")
            continue
        rounds = int(min(_MAX_ROUNDS, max(_MIN_ROUNDS, _DEFAULT_COST / len(plan.phases) / round_cost(phase.hierarchy))))
        if draws:
            rounds = -(-draws // steps_per_round(phase.hierarchy))
        checks += _phase_checks(plan, protected, index, rounds, rng, on_progress)
    return checks, notes


def _phase_checks(
    plan: Plan,
    protected: ProtectedUnit,
    index: int,
    rounds: int,
    rng: Generator,
    on_progress: Callable[[float], None],
) -> Iterator[Json]:
    phase = plan.phases[index]
    hierarchy = phase.hierarchy
    name = phase.name if len(plan.phases) > 1 else ""
    copies, schemes = drawn_schemes(hierarchy)
    totals, members = draw_rounds(
        hierarchy,
        plan.unit,
        watched_units(plan, protected, index),
        rounds=rounds,
        rng=rng,
        on_progress=lambda share: on_progress((index + share) / len(plan.phases)),
    )

    def check(quantity: str, computed: Ends, observed: float, interval: Ends, draws: int, note: str = "") -> Json:
        slack = 1e-9 * abs(observed)
        return {
            "phase": name,
            "quantity": quantity,
            "computed_lower": computed[0],
            "computed_upper": computed[1],
            "observed": observed,
            "observed_lower": interval[0],
            "observed_upper": interval[1],
            "draws": draws,
            "note": note,
            "agrees": interval[0] <= computed[1] + slack and computed[0] <= interval[1] + slack,
        }

    def frequency_check(quantity: str, computed: Ends, happened: NDArray[np.bool_]) -> Json:  # (rounds, times in each)
        observed, draws = float(happened.mean()), len(happened)
        return check(quantity, computed, observed, _interval(observed, draws), draws)

    # How often k or more of the protected units are drawn together, and one in a round.
    law, is_exact, in_round = member_distribution(plan, protected, index)
    is_of_pass = any(level.scheme.is_shuffled for level in hierarchy.levels)
    units = f"any of {plan.group_size} {plan.unit_name}" if plan.group_size > 1 else f"one {plan.unit_name}"
    together = members.sum(axis=1, keepdims=True) if is_of_pass else members
    for number in range(1, min(max(law), _MAX_TOGETHER) + 1):
        tail = float(sum(p for count, p in law.items() if count >= number))
        if number > 1 and tail * len(together) < 1:  # not expected once in all rounds
            break
        quantity = f"inclusion of {units}" if number == 1 else f"{number} or more draws of {units}"
        when = " in a pass" if is_of_pass else ""
        yield frequency_check(quantity + when, (tail if is_exact else 0.0, tail), together >= number)
    if in_round is not None and members.shape[1] > 1:
        quantity = f"inclusion of {units} in any of {members.shape[1]} steps"
        yield frequency_check(quantity, (in_round, in_round), np.asarray((members > 0).any(axis=1)))

    # Each level. A draw of a certain size is compared as it is, others by intervals.
    ends: list[Ends] = []  # of the mean share of a Poisson draw, else of the mean number drawn from a frame
    for level, scheme, total in zip(hierarchy.levels, schemes, totals, strict=True):
        frames = total.frames.total()
        offered = sum(size * times for size, times in total.frames.items())
        if (scheme.is_independent or scheme.is_summed) and offered:
            offered *= scheme.tried(1)[0]  # once in each of the draws that are added up
            rate = float(scheme.probability)
            share = total.drawn / offered
            ends.append(_interval(share, offered))
            quantity = f"share of {level.name} drawn"
            yield check(quantity, (rate, rate), share, ends[-1], offered)
            continue
        # An exact mean: of equal frames it is the very number of one of them.
        expected = Fraction(0)
        for size, times in total.frames.items():
            expected += times * expected_draws(scheme, size) * scheme.steps_of_a_pass(size) / frames
        mean = total.drawn / max(frames, 1)
        computed = (float(expected), float(expected))
        ends.append((mean, mean))
        if scheme.is_cut and scheme.limit:
            ends[-1] = _interval(mean, max(frames, 1), largest=scheme.limit)
        when = "in a pass" if scheme.is_shuffled or scheme.is_allocated else "at a time"
        yield check(f"{level.name} drawn {when}", computed, mean, ends[-1], frames)

    # The batch size is a product of the levels' numbers if each level has drawn frames that all give the same expected
    # number of draws: of Poisson draws by the share of a frame's units. Else its interval comes from the rounds.
    depth = hierarchy.depth if hierarchy.episodes else max(phase.clip, 1)
    levels = list(zip(hierarchy.levels[:depth], schemes, totals, ends, strict=False))
    total = totals[depth - 1]
    batches = np.concatenate(total.batches)
    if all(
        total.frames and (level.is_equal or scheme.can_repeat or (scheme.has_stand_in and not scheme.at_most))
        for level, scheme, total, _ in levels
    ):
        low = high = float(copies)
        for level, scheme, _, (low_each, high_each) in levels:
            is_share = scheme.is_independent or scheme.is_summed
            factor = (scheme.tried(level.count)[0] if is_share else 1) / scheme.steps_of_a_pass(level.count)
            low = low * low_each * factor
            high = high * high_each * factor
    else:
        largest = copies * math.prod(scheme.max_drawn(level.count) for level, scheme, *_ in levels)
        low, high = _interval(float(batches.mean()), batches.size, largest=largest)
    batch = _expected_batch(hierarchy, copies, schemes[:depth])
    quantity = f"batch size ({hierarchy.level(depth).name})"
    note = f"from {min(total.sizes)} to {max(total.sizes)}"
    yield check(quantity, (batch, batch), float(batches.mean()), (low, high), batches.size, note)


def _interval(mean: float, trials: int, *, largest: int = 1) -> Ends:
    low, high = mean_interval(mean / largest, trials, miss_probability=MISS_PROBABILITY)
    return low * largest, high * largest


def _expected_batch(hierarchy: Hierarchy, copies: int, schemes: tuple[Scheme, ...]) -> float:
    """Return the expected number of units in a step after the draws of these levels, repeated draws included."""
    draws = np.full(1, float(copies))  # of each parent; without a tree, of (the first, all others together)
    for level, scheme in enumerate(schemes, start=1):
        if hierarchy.tree is not None:
            sizes = hierarchy.tree.sizes[level - 1]
            rates = {size: float(expected_draws(scheme, size) / size) for size in {*sizes}}
            draws = np.repeat([rates[size] * drawn for size, drawn in zip(sizes, draws, strict=True)], sizes)
            continue
        fewest, most = hierarchy.level(level).min_count, hierarchy.level(level).count  # the first parent has the fewest
        of_first, of_other = (float(expected_draws(scheme, size)) for size in (fewest, most))
        total = of_first * draws[0] + of_other * (draws.sum() - draws[0])
        first = of_first / fewest * draws[0]
        draws = np.array([first, total - first])
    return float(f"{draws.sum():.13g}")  # what the sum is off by would be rounded up


# Computed distributions of the number of draws, and the watched units of the synthetic data set.


def member_distribution(
    plan: Plan, protected: ProtectedUnit, index: int
) -> tuple[CountDistribution, bool, float | None]:
    """Return the law of draws of the protected units in a step, or in a pass of a shuffle, and whether it is exact.

    An inexact one is an upper bound in stochastic order. Then the probability that some step of a round draws the unit,
    None where it is not computed.
    """
    hierarchy = plan.phases[index].hierarchy
    path = protected.paths[index]
    episodes = hierarchy.episodes
    if episodes is not None:
        if plan.unit == 1:
            law = convolve_power(hypergeometric(path.counts[0], plan.group_size, episodes.ways), episodes.tasks)
        else:
            law = binomial(episodes.tasks, episodes.rate(path.counts))
        return law, True, None
    if 0 < hierarchy.allocated <= len(path.schemes):  # in one step, an allocated level is a Poisson draw at its rate
        schemes = [*path.schemes]
        schemes[hierarchy.allocated - 1] = Poisson(probability=hierarchy.chosen_rate)
        path = replace(path, schemes=tuple(schemes))
    if 0 < hierarchy.summed <= len(path.schemes):  # the path is that of copies
        at = hierarchy.summed - 1
        path = replace(path, schemes=(*path.schemes[:at], hierarchy.levels[at].scheme, *path.schemes[at + 1 :]))
    if plan.group_size == 1 and not any(scheme.can_repeat for scheme in path.schemes):
        on_path = _units_on_path(plan, protected, index)
        rates = [level.scheme.rate(size) for level, (_, size) in zip(hierarchy.levels, on_path, strict=False)]
        has_passes = any(level.scheme.is_shuffled for level in hierarchy.levels)
        in_round = None if has_passes else _round_inclusion(hierarchy, rates)
        return {1: math.prod(rates, start=Fraction(1))}, True, in_round
    law = mixture(member_counts(hierarchy, one_pass(path), plan.unit, protected.group))
    is_exact = all(level.is_equal for level in hierarchy.levels[: plan.unit]) and max(law) <= _MAX_EXACT_COUNTS
    if plan.group_size > 1:
        has_repeated_parents = any(scheme.can_repeat for scheme in path.schemes[:-1])
        is_exact = is_exact and protected.group.placement is not None and not has_repeated_parents
    return law, is_exact, None


def _round_inclusion(hierarchy: Hierarchy, rates: list[Fraction]) -> float:
    """Return the probability that a unit with these rates by level is drawn in a round; no level is shuffled."""

    def any_of(trials: int, probability: float) -> float:
        return -math.expm1(trials * math.log1p(-probability)) if probability < 1 else 1.0

    allocation, levels = hierarchy.allocation, hierarchy.levels
    if allocation is not None:
        # The steps that a unit chooses are different ones, in which what lies below it is drawn independently.
        in_step = math.prod(rates, start=Fraction(1)) / hierarchy.chosen_rate
        return any_of(allocation.visits(allocation.steps_of_a_pass(1)), float(in_step))
    # From the innermost level outwards: a drawn parent stays for several draws of its children, which are independent.
    probability = float(rates[-1])
    for level, below, rate in reversed(list(zip(levels, levels[1 : len(rates)], rates, strict=False))):
        probability = float(rate) * any_of(level.redraw_every // below.redraw_every, probability)
    return probability


def watched_units(plan: Plan, protected: ProtectedUnit, index: int) -> tuple[int, ...]:
    """Return the numbers, from 0, of the protected units in their level; the first ones if no placement is stated."""
    hierarchy = plan.phases[index].hierarchy

    def placed(placement: Placement, parent: int, level: int) -> Iterator[int]:  # always the first children of a parent
        first = int(children(hierarchy, level, np.array([parent]))[0][0])
        if isinstance(placement, int):
            yield from range(first, first + placement)
            return
        for offset, inner in enumerate(placement):
            yield from placed(inner, first + offset, level + 1)

    # A single unit lies on its path; members of a group fill their placement from the first units on.
    if plan.group_size == 1:
        return (_units_on_path(plan, protected, index)[-1][0],)
    placement = protected.group.placement
    return tuple(range(plan.group_size)) if placement is None else tuple(placed(placement, 0, 1))


def _units_on_path(plan: Plan, protected: ProtectedUnit, index: int) -> list[tuple[int, int]]:
    """Return (number of the unit from 0, size of its frame) by level; the first child where no place is stated."""
    unit, places, on_path = 0, protected.paths[index].place, []
    for depth in range(1, plan.unit + 1):
        first, size = children(plan.phases[index].hierarchy, depth, np.array([unit]))
        unit = int(first[0]) + (places[depth - 1] if places else 0)
        on_path.append((unit, int(size[0])))
    return on_path


def simulation_output(checks: Sequence[Json], notes: Sequence[str], seed: int, loaded: Loaded) -> Output:
    """Return the output of `simulate`: a verdict, a row for each check, and notes."""
    contradicted = sum(not check["agrees"] for check in checks)
    verdict = "computed agrees with drawn"
    if contradicted:
        verdict = f"{contradicted} of {len(checks)} computed numbers contradicted"
    texts, rows = [], []
    for check in checks:
        ends: Any = [check[name] for name in ("computed_lower", "computed_upper", "observed_lower", "observed_upper")]
        observed: Any = check["observed"]
        low, high = ends[2:]
        phase, quantity, note = (visible(str(check[name])) for name in ("phase", "quantity", "note"))
        quantity = f"{phase}: {quantity}" if phase else quantity
        computed = _between(*ends[:2])
        drawn = _shown(observed)
        note = f" ({note})" if note else ""
        interval = "" if low == high else _between(low, high)
        draws = str(check["draws"])
        rows.append((quantity, computed, f"{drawn}{note}", interval, draws, yes_no(bool(check["agrees"])), ""))
        between = "" if low == high else f", so between {_shown(low, rounded_down)} and {_shown(high)}"
        end = "" if check["agrees"] else "; NOT the same"
        texts.append(f"{quantity}: computed {computed}, drawn {drawn}{between}, {draws} draws{note}{end}")
    summary = {"agrees": not contradicted, "seed": seed, "doubt": MISS_PROBABILITY}
    return config_output(
        "simulate",
        loaded,
        {**summary, "checks": list(checks), "notes": list(notes)},
        lines=[*lines(summary), *(("checks", text) for text in texts)],
        table=Table(
            headline=f"{verdict}   seed {seed}, intervals miss with probability <= {as_given(MISS_PROBABILITY)}",
            columns=("quantity", "computed", "drawn", "interval", "draws", "agrees", "note"),
            rows=tuple(rows),
        ),
    )


def _between(low: float, high: float) -> str:
    return _shown(high) if low == high else f"{_shown(low, rounded_down)} to {_shown(high)}"


def _shown(value: float, rounding: Callable[..., str] = rounded_up) -> str:
    return str(int(value)) if float(value).is_integer() else rounding(value, digits=DIGITS)
