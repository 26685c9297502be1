"""The data sets of one phase as independent observations, from which lower bounds are composed.

Source: docs/theory.md, Theorem 10.1.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise

from dpcalc.amplification.data_sets import Contributions, Mixture, data_set_pair, episode_pair
from dpcalc.amplification.groups import Group
from dpcalc.amplification.schedule import PhaseBound, is_shortened, is_shuffled, steps_of_a_pass
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import AdditiveNoise
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.co_sampled import CoSampled, co_sampled_with
from dpcalc.sampling.counts import binomial
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path, one_pass
from dpcalc.sampling.schemes import (
    All,
    AllocatedPass,
    Allocation,
    BallsInBins,
    CappedPoisson,
    Fixed,
    Poisson,
    RandomAllocation,
    Scheme,
    Shuffle,
    WithReplacement,
)

Pair = tuple[Mixture, Mixture]
"""(P, Q): distributions of a sum without its noise in D and D'."""

_MAX_SUMMED = 32  # draws under one draw above them whose sum is observed; more are left out
_BELOW_1 = 1 - 2.0**-53  # the largest float below 1
_SURE = 1400.0  # -log Pr[no copy] from which on `binomial` may be a bound: below, no work is spent on it


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """Independent releases of a phase that have the same pair of distributions.

    Attributes:
        pair: (P, Q) of one release for the contributions of all units.
        factor: noise deviation of a release over that of a step: 1 / sqrt(k) for k steps under one draw, sqrt(n) for
            the sum of the n steps of a pass.
        number: number of such releases, >= 1.
        allocated: the pass in whose bins a release happens, if the unit, or one above it, chooses its steps.
    """

    pair: Callable[[Contributions], Pair]
    factor: float
    number: int
    allocated: AllocatedPass | None = None


@dataclass(frozen=True, kw_only=True)
class PhaseDataSet:
    """The data sets of one phase as independent Gaussian observations; k steps under one draw count as one.

    Attributes:
        phase_bound: the upper bound of the phase, for comparison.
        repetitions: the observations, independent of one another. Gradients do not change under one draw, so only the
            sum of a pass, or of all steps under one outermost draw, is observed. A sum of other than Gaussian noise has
            no distribution of the same kind: then one step under each outermost draw is observed.
        is_complete: False if steps of the bound were left out, so that the lower bound is valid but not tight.
        random_levels: indices of the levels whose siblings contribute a random number of vectors when drawn.
    """

    phase_bound: PhaseBound
    repetitions: tuple[Repetition, ...]
    is_complete: bool = True
    random_levels: tuple[int, ...] = ()


def drawn_pair(co_sampled: CoSampled, plan: Plan, repeats: tuple[int, ...], contributions: Contributions) -> Pair:
    """Return (P, Q) of the sum, without noise, under one draw of the outermost level; see `data_set_pair`."""
    if needs_zero_others(co_sampled, plan):
        contributions = contributions._replace(others=(0,) * plan.unit)
    return data_set_pair(
        co_sampled, adjacency=plan.adjacency, contributions=contributions, members=plan.group_size, repeats=repeats
    )


def needs_zero_others(co_sampled: CoSampled, plan: Plan) -> bool:
    """Return True if only a lower law is known of copies or members drawn, and is a bound only if others are zero."""
    # Where nobody else contributes P lies left of 0 and Q does not: the best events are half-lines, so that fewer own
    # contributions tell less. Others, fewer of whom are drawn the more own there are, can hide larger numbers better.
    path = co_sampled.path
    is_rough_above = any(
        isinstance(scheme, WithReplacement) and _has_rough_law(scheme.size, Fraction(1, count))
        for scheme, count in zip(path.schemes[: min(co_sampled.clip, plan.unit - 1)], path.counts, strict=False)
    )
    if is_rough_above or co_sampled.clip < plan.unit:
        return is_rough_above
    match path.schemes[-1]:
        case WithReplacement(size=size):
            # In a single draw, but for zero-out, P or Q is one point: then fewer own contributions tell less as well.
            is_half_line = plan.unit == 1 and plan.adjacency is not Adjacency.ZERO_OUT
            return not is_half_line and _has_rough_law(size, Fraction(plan.group_size, path.counts[-1]))
        case Poisson(probability=rate):
            return _has_rough_law(plan.group_size, rate)
        case _:
            return False


def _has_rough_law(trials: int, rate: Fraction) -> bool:
    """Return True if `binomial` gives Chernoff's bound, since Pr[0] is too small to start from."""
    is_surely_above_0 = 0 < rate < 1 and -trials * math.log1p(-min(float(rate), _BELOW_1)) > _SURE
    return is_surely_above_0 and 0 not in binomial(trials, rate)


def zero_neighbours_pair(
    co_sampled: CoSampled, plan: Plan, repeats: tuple[int, ...], contributions: Contributions
) -> Pair:
    """Return `drawn_pair` of a data set in which all other units contribute zero, whatever `contributions` says."""
    none = contributions._replace(others=tuple(0 for _ in contributions.others))
    return drawn_pair(co_sampled, plan, repeats, none)


def allocated_data_set(
    plan: Plan, phase: Phase, allocation: Allocation, path: Path, phase_bound: PhaseBound
) -> PhaseDataSet | None:
    """Return the passes of an allocated phase, or, if units choose several steps, the sum of all; None if not Gaussian.

    Other units contribute zero. None where a unit chooses several steps and a sum of them has another kind of
    noise, or some steps are missing.
    """
    pair = _chosen_step_pair(plan, phase, path)
    is_certain = all(len(side) == 1 for side in pair(Contributions((0,) * plan.unit)))
    has_gaussian_sums = isinstance(phase.mechanism, Gaussian) and is_certain
    if not isinstance(allocation, RandomAllocation) or allocation.times == 1:
        return _data_set_of_passes(pair, allocation, phase, phase_bound, has_gaussian_sums=has_gaussian_sums)
    if not has_gaussian_sums or phase.steps < allocation.steps:
        return None
    of_all = _sum_of_all_steps(pair, allocation)
    return PhaseDataSet(phase_bound=phase_bound, repetitions=(of_all,), is_complete=False)


def _chosen_step_pair(plan: Plan, phase: Phase, path: Path) -> Callable[[Contributions], Pair]:
    """Return the pair of a step that one unit chose while others contribute zero; a replaced unit counts as zeroed."""
    co_sampled = co_sampled_with(phase.hierarchy.given_allocation(), path, clip=phase.clip, members=1)
    adjacency = Adjacency.ZERO_OUT if plan.adjacency is Adjacency.REPLACE_ONE else plan.adjacency
    single = replace(plan, group_size=1, adjacency=adjacency)
    return cache(partial(zero_neighbours_pair, co_sampled, single, ()))


def _data_set_of_passes(
    pair: Callable[[Contributions], Pair],
    allocation: Allocation,
    phase: Phase,
    phase_bound: PhaseBound,
    *,
    has_gaussian_sums: bool,
) -> PhaseDataSet:
    """Return the passes of an allocated phase; only the first one if bins are held and sums are not Gaussian."""
    # Steps under a choice that is held depend on each other; only a sum of Gaussians is again of the same kind.
    steps, is_cut = phase.steps, False
    if isinstance(allocation, BallsInBins) and allocation.is_held and not has_gaussian_sums:
        steps, is_cut = min(steps, allocation.bins), True
    repetitions = tuple(
        Repetition(pair=pair, factor=1.0, number=each_pass.number, allocated=each_pass)
        for each_pass in allocation.passes(steps)
    )
    return PhaseDataSet(phase_bound=phase_bound, repetitions=repetitions, is_complete=not is_cut)


def _sum_of_all_steps(pair: Callable[[Contributions], Pair], allocation: RandomAllocation) -> Repetition:
    """Return the sum of all steps as one observation, for units that choose several steps of all."""

    def sum_of_all(contributions: Contributions) -> Pair:
        p, q = ({center * allocation.times: w for center, w in side.items()} for side in pair(contributions))
        return p, q

    return Repetition(pair=sum_of_all, factor=math.sqrt(allocation.steps), number=1)


def drawn_data_set(plan: Plan, phase: Phase, path: Path, phase_bound: PhaseBound) -> PhaseDataSet | None:
    """Return the built tasks, or else the drawn sums, of a phase without an allocation; None if none is known."""
    if phase.hierarchy.episodes is not None:
        return PhaseDataSet(phase_bound=phase_bound, repetitions=(_built_tasks(plan, phase),))
    co_sampled = co_sampled_with(phase.hierarchy, path, clip=phase.clip, members=plan.group_size)
    data_set = _drawn_sums(plan, phase, co_sampled, phase_bound)
    return data_set and replace(data_set, random_levels=_random_levels(co_sampled))


def _random_levels(co_sampled: CoSampled) -> tuple[int, ...]:
    """Return the indices of the levels whose siblings contribute a random number of vectors when drawn."""
    certain = co_sampled.sibling_contributions if co_sampled.frames else ()
    return tuple(at for at, vectors in enumerate(certain) if not vectors)


def _built_tasks(plan: Plan, phase: Phase) -> Repetition:
    """Return all steps of a phase that builds a task in each step (`episodes`)."""
    draw = (plan.unit, phase.clip)
    pair = partial(episode_pair, phase.hierarchy, unit_and_clip=draw, adjacency=plan.adjacency, members=plan.group_size)
    return Repetition(pair=cache(pair), factor=1.0, number=phase.steps)


def _drawn_sums(plan: Plan, phase: Phase, co_sampled: CoSampled, phase_bound: PhaseBound) -> PhaseDataSet | None:
    """Return sums of passes or periods, or single steps where sums have no Gaussian law; None if counts are unknown."""
    path, co_sampled = co_sampled.path, replace(co_sampled, path=one_pass(co_sampled.path))
    if not _has_known_counts(plan, phase, co_sampled.path, path):
        return None
    if isinstance(phase.mechanism, AdditiveNoise) or not _is_held(plan, phase, co_sampled, phase_bound.hold):
        return _single_steps(plan, phase, co_sampled, path, phase_bound)
    if not is_shuffled(path):
        return _sums_of_periods(plan, phase, co_sampled, phase_bound)
    # Of vectors clipped above the unit, a removal that shortens a pass may leave one out.
    may_lack_a_vector = phase.clip < plan.unit and _is_shortened(plan, phase)
    return None if may_lack_a_vector else _sums_of_passes(plan, phase, co_sampled, path, phase_bound)


def _is_held(plan: Plan, phase: Phase, co_sampled: CoSampled, hold: int) -> bool:
    """Return True if all levels from below the clip, or the unit if higher, to the last random one are held so long."""
    levels = phase.hierarchy.levels[min(phase.clip, plan.unit - 1) : _lowest_random(phase.hierarchy, co_sampled)]
    return all(level.redraw_every == hold for level in levels)


def _sums_of_periods(plan: Plan, phase: Phase, co_sampled: CoSampled, phase_bound: PhaseBound) -> PhaseDataSet:
    """Return sums of the steps under one outermost draw: one for all whole periods, one for the steps that remain."""
    periods = [level.redraw_every for level in phase.hierarchy.levels]
    whole, remaining = divmod(phase.steps, periods[0])
    repetitions = tuple(
        _sum_of_a_period(co_sampled, plan, [min(period, length) for period in periods[: plan.unit]], number)
        for length, number in ((periods[0], whole), (remaining, 1))
        if length and number
    )
    return PhaseDataSet(phase_bound=phase_bound, repetitions=repetitions)


def _has_known_counts(plan: Plan, phase: Phase, drawn: Path, path: Path) -> bool:
    """Return True if one parent can hold the protected group, and no draw `_is_irregular`."""
    can_hold = _max_units_together(drawn, path, plan.adjacency) >= plan.group_size
    return can_hold and not _is_irregular(phase.hierarchy, plan.unit, phase.clip)


def _lowest_random(hierarchy: Hierarchy, co_sampled: CoSampled) -> int:
    """Return the number of the last level with random Poisson draws, or that of the unit's level if larger.

    If children contribute differently, it is at least their level.
    """
    unit = len(co_sampled.path.counts)
    drawn = (level.scheme for level in hierarchy.levels)
    chances = (scheme.probability if isinstance(scheme, (Poisson, CappedPoisson)) else 1 for scheme in drawn)
    lowest = max((number for number, chance in enumerate(chances, start=1) if chance < 1), default=0)
    return max(lowest, unit + 1 if co_sampled.child_contributions else unit)


def _is_irregular(hierarchy: Hierarchy, unit: int, clip: int) -> bool:
    """Return True if draws are cut beside a shuffle, `_is_cut_irregularly`, or `_has_uneven_parents`."""
    has_cuts, has_shuffle = (
        any(isinstance(level.scheme, kind) for level in hierarchy.levels) for kind in (CappedPoisson, Shuffle)
    )
    is_irregular = _is_cut_irregularly(hierarchy, unit, clip) or _has_uneven_parents(hierarchy, unit)
    return is_irregular or (has_cuts and has_shuffle)


def _is_cut_irregularly(hierarchy: Hierarchy, unit: int, clip: int) -> bool:
    """Return True if draws below the clip are cut above Poisson draws, or below clip or unit among unequal parents."""
    levels = hierarchy.levels
    cut = [at for at, level in enumerate(levels) if isinstance(level.scheme, CappedPoisson)]
    inner = [level.scheme for at in cut if at >= clip for level in levels[at + 1 :]]
    is_above_poisson = any(isinstance(scheme, Poisson | CappedPoisson) for scheme in inner)
    return is_above_poisson or any(not levels[at].is_equal for at in cut if at >= min(clip, unit))


def _has_uneven_parents(hierarchy: Hierarchy, unit: int) -> bool:
    """Return True if Poisson draws are below an `at_most` draw, or below the unit together with a shuffle."""
    # Smaller units have fewer than an `at_most` draw allows, and the last batches of a shuffle hold fewer.
    schemes = [level.scheme for level in hierarchy.levels]
    limited = next(
        (at for at, scheme in enumerate(schemes) if isinstance(scheme, Fixed) and scheme.at_most), len(schemes)
    )
    if any(isinstance(scheme, Poisson) for scheme in schemes[limited:]):
        return True
    below = schemes[unit:]
    return any(isinstance(scheme, Shuffle) for scheme in below) and any(isinstance(scheme, Poisson) for scheme in below)


def _sum_of_a_period(co_sampled: CoSampled, plan: Plan, periods: list[int], number: int) -> Repetition:
    """Return the sum of the steps under one outermost draw as one observation, repeated `number` times.

    `periods` has the steps for which a draw is held within the period, for each level down to the protected one.
    """
    repeats = tuple(min(above // below, _MAX_SUMMED) for above, below in pairwise(periods))
    factor = math.sqrt(math.prod(repeats) / periods[-1])
    return Repetition(pair=cache(partial(drawn_pair, co_sampled, plan, repeats)), factor=factor, number=number)


def _sums_of_passes(
    plan: Plan, phase: Phase, co_sampled: CoSampled, path: Path, phase_bound: PhaseBound
) -> PhaseDataSet:
    """Return the sums of passes, complete if a pass is one step; other units contribute 0 if a vector may be empty."""
    length = steps_of_a_pass(path, Group())
    pair_of = zero_neighbours_pair if length > 1 and _may_be_empty(plan, phase, path) else drawn_pair
    repetitions = tuple(
        Repetition(pair=cache(partial(pair_of, drawn, plan, ())), factor=math.sqrt(steps), number=times)
        for drawn, steps, times in _pass_sums(plan, phase, co_sampled, path)
    )
    return PhaseDataSet(phase_bound=phase_bound, repetitions=repetitions, is_complete=length == 1)


def _pass_sums(plan: Plan, phase: Phase, co_sampled: CoSampled, path: Path) -> Iterator[tuple[CoSampled, int, int]]:
    """Yield (units, steps, number) of the whole passes, then of the begun one if known; none if starts are unknown."""
    # In a pass every unit has had its turn once, or with drop_last those that were drawn for the pass, of which the
    # company's path has the law. Under another shuffle a pass takes as many steps as the passes above it together.
    length = steps_of_a_pass(path, Group())
    whole, remaining = divmod(phase.steps, length) if _passes_are_aligned(path) else (0, 0)
    if whole:
        yield co_sampled, length, whole
    begun = _drawn_in_begun_pass(co_sampled, path, remaining) if remaining else None
    if begun is not None and not _is_shortened(plan, phase):
        yield begun, remaining, 1


def _may_be_empty(plan: Plan, phase: Phase, path: Path) -> bool:
    """Return True if vectors clipped above the unit may lack records, by Poisson draws or by the removal of units."""
    # A sum of several clipped vectors, each of which may be empty, is certain only where they are 0.
    drawn_below = any(isinstance(level.scheme, Poisson) for level in phase.hierarchy.levels[phase.clip :])
    return phase.clip < plan.unit and (drawn_below or not _keeps_a_record(plan, path, phase.clip))


def _drawn_in_begun_pass(co_sampled: CoSampled, path: Path, steps: int) -> CoSampled | None:
    """Return the units in one fixed draw as large as the first `steps` batches of a pass; None for several shuffles."""
    ((at, scheme), *others) = ((at, scheme) for at, scheme in enumerate(path.schemes) if isinstance(scheme, Shuffle))
    if others:
        return None
    schemes = list(co_sampled.path.schemes)
    schemes[at] = Fixed(size=steps * scheme.size)
    return replace(co_sampled, path=replace(co_sampled.path, schemes=tuple(schemes)))


def _keeps_a_record(plan: Plan, path: Path, clip: int) -> bool:
    """Return True if no clipped vector can lose all its records when the protected units leave one parent."""
    if plan.adjacency is Adjacency.REPLACE_ONE:
        return True
    lost = [1] * (plan.unit - 1) + [plan.group_size]
    levels = list(zip(path.schemes, path.counts, lost, strict=True))[clip:]
    if plan.adjacency is Adjacency.ADD_REMOVE:
        if path.counts[-1] > plan.group_size:
            return True  # others are drawn in their place
        levels.pop()
    return any(_fewest_in_a_step(scheme, count) > removed for scheme, count, removed in levels)


def _fewest_in_a_step(scheme: Scheme, count: int) -> int:
    """Return the fewest different units of a parent in a step that draws any, a last batch too; 0 if left to chance."""
    match scheme:
        case Shuffle(size=size, drop_last=drop_last):
            return size if drop_last else count % size or size
        case Fixed() | All():
            return scheme.max_drawn(count)
        case _:
            return 0


def _is_shortened(plan: Plan, phase: Phase) -> bool:
    """Return True if removing the protected units from one parent takes a step from its passes."""
    group = Group(size=plan.group_size, placement=plan.group_size)
    return is_shortened(phase.hierarchy, unit=plan.unit, adjacency=plan.adjacency, group=group)


def _passes_are_aligned(path: Path) -> bool:
    """Return True if it is known when passes over the innermost shuffled level begin: no unit above is left out."""
    shuffled = [number for number, scheme in enumerate(path.schemes, start=1) if isinstance(scheme, Shuffle)]
    return all(path.rate(number) == 1 for number in shuffled[:-1])


def _single_steps(
    plan: Plan, phase: Phase, co_sampled: CoSampled, path: Path, phase_bound: PhaseBound
) -> PhaseDataSet | None:
    """Return one step under each longest-held draw as a release; None for passes of several steps or unknown start."""
    # For noise other than Gaussian, and for units whose contributions change while their draw is held.
    if not _passes_are_aligned(path) or steps_of_a_pass(path, Group()) > 1:
        return None
    period = max((level.redraw_every for level in phase.hierarchy.levels if not level.is_whole), default=1)
    pair = cache(partial(drawn_pair, co_sampled, plan, ()))
    single = Repetition(pair=pair, factor=1.0, number=-(-phase.steps // period))  # begun draws count
    return PhaseDataSet(phase_bound=phase_bound, repetitions=(single,), is_complete=phase_bound.hold == 1)


def _max_units_together(drawn: Path, path: Path, adjacency: Adjacency) -> int:
    """Return how many units of a parent can be drawn together, one batch less where units leave shuffled passes.

    `drawn` is the way to the protected units with a pass as one draw, `path` the same with its shuffles.
    """
    # Where units are removed, a pass needs as many units left as its steps hold.
    scheme = drawn.schemes[-1]
    in_passes = isinstance(path.schemes[-1], Shuffle) and adjacency is Adjacency.ADD_REMOVE
    left = scheme.size if in_passes and isinstance(scheme, Fixed) else 0
    return drawn.counts[-1] - left
