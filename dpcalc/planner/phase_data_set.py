"""The data sets of one phase as independent observations, from which lower bounds are composed.

Source: docs/theory.md, Theorem 10.1.
"""

import math
from collections.abc import Callable
from dataclasses import replace
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
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path, one_pass
from dpcalc.sampling.schemes import (
    All,
    AllocatedPass,
    BallsInBins,
    CappedPoisson,
    Fixed,
    Poisson,
    RandomAllocation,
    Scheme,
    Shuffle,
)

Pair = tuple[Mixture, Mixture]
"""(P, Q): distributions of a sum without its noise in D and D'."""

_MAX_SUMMED = 32  # draws under one draw above them whose sum is observed; more are left out


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
    """Return (P, Q) of the sum, without noise, under one draw of the outermost level; see `data_set_pair`.

    Args:
        co_sampled: the protected unit and the units drawn with it.
        plan: what is protected.
        repeats: draws of a level that are summed under one draw above it, see `data_set_pair`.
        contributions: of all units.
    """
    return data_set_pair(
        co_sampled, adjacency=plan.adjacency, contributions=contributions, members=plan.group_size, repeats=repeats
    )


def zero_neighbours_pair(
    co_sampled: CoSampled, plan: Plan, repeats: tuple[int, ...], contributions: Contributions
) -> Pair:
    """Return (P, Q) of one draw of a data set in which all other units contribute zero; arguments as `drawn_pair`.

    Args:
        co_sampled: the protected unit and the units drawn with it.
        plan: what is protected.
        repeats: draws of a level that are summed under one draw above it.
        contributions: of all units; of the others only their number counts.
    """
    none = contributions._replace(others=tuple(0 for _ in contributions.others))
    return drawn_pair(co_sampled, plan, repeats, none)


def allocated_data_set(plan: Plan, phase: Phase, path: Path, phase_bound: PhaseBound) -> PhaseDataSet | None:
    """Return an allocated phase by passes, others zero; `times` > 1: sum of all steps, or None unless Gaussian, whole.

    A unit that is replaced by one of zeros is as good as removed.

    Args:
        plan: what is protected.
        phase: one of its phases, with an allocation.
        path: the path to the protected unit in a step that is chosen.
        phase_bound: the upper bound of the phase.

    Raises:
        LookupError: the phase has no allocation.
    """
    hierarchy, allocation = phase.hierarchy.given_allocation(), phase.hierarchy.allocation
    if allocation is None:
        raise LookupError(f"{phase.name}: expected units that choose their steps")
    co_sampled = co_sampled_with(hierarchy, path, clip=phase.clip, members=1)
    adjacency = Adjacency.ZERO_OUT if plan.adjacency is Adjacency.REPLACE_ONE else plan.adjacency
    single = replace(plan, group_size=1, adjacency=adjacency)
    pair = cache(partial(zero_neighbours_pair, co_sampled, single, ()))
    is_gaussian = isinstance(phase.mechanism, Gaussian) and all(
        len(side) == 1 for side in pair(Contributions((0,) * plan.unit))
    )
    if isinstance(allocation, RandomAllocation) and allocation.times > 1:
        if not is_gaussian or phase.steps < allocation.steps:
            return None
        of_all = _sum_of_all_steps(pair, allocation)
        return PhaseDataSet(phase_bound=phase_bound, repetitions=(of_all,), is_complete=False)
    # Steps under a choice that is held depend on each other; only a sum of Gaussians is again of the same kind.
    is_cut = isinstance(allocation, BallsInBins) and allocation.is_held and not is_gaussian
    steps = min(phase.steps, allocation.bins) if is_cut and isinstance(allocation, BallsInBins) else phase.steps
    passes = allocation.passes(steps)
    repetitions = tuple(
        Repetition(pair=pair, factor=1.0, number=each_pass.number, allocated=each_pass) for each_pass in passes
    )
    return PhaseDataSet(phase_bound=phase_bound, repetitions=repetitions, is_complete=not is_cut)


def _sum_of_all_steps(pair: Callable[[Contributions], Pair], allocation: RandomAllocation) -> Repetition:
    """Return the sum of all steps of an allocation as one observation: the centers of `pair` times `times`."""

    def sum_of_all(contributions: Contributions) -> Pair:
        p, q = ({center * allocation.times: w for center, w in side.items()} for side in pair(contributions))
        return p, q

    return Repetition(pair=sum_of_all, factor=math.sqrt(allocation.steps), number=1)


def drawn_data_set(plan: Plan, phase: Phase, path: Path, phase_bound: PhaseBound) -> PhaseDataSet | None:
    """Return the data sets of a phase without allocation, of constructed tasks too; None if none is known.

    Args:
        plan: what is protected.
        phase: one of its phases, without an allocation.
        path: the path to the protected unit.
        phase_bound: the upper bound of the phase.
    """
    hierarchy, clip = phase.hierarchy, phase.clip
    if hierarchy.episodes is not None:
        draw = (plan.unit, clip)
        pair = partial(episode_pair, hierarchy, unit_and_clip=draw, adjacency=plan.adjacency, members=plan.group_size)
        built = Repetition(pair=cache(pair), factor=1.0, number=phase.steps)
        return PhaseDataSet(phase_bound=phase_bound, repetitions=(built,))
    co_sampled = co_sampled_with(hierarchy, path, clip=clip, members=plan.group_size)
    certain = co_sampled.sibling_contributions
    random_levels = tuple(at for at, vectors in enumerate(certain) if co_sampled.frames and not vectors)
    data_set = _drawn_sums(plan, phase, co_sampled, phase_bound)
    return data_set and replace(data_set, random_levels=random_levels)


def _drawn_sums(plan: Plan, phase: Phase, co_sampled: CoSampled, phase_bound: PhaseBound) -> PhaseDataSet | None:
    """Return sums of periods, or of passes if shuffled; other noise, late redraws: single steps; None if none known."""
    hierarchy, clip = phase.hierarchy, phase.clip
    periods = [level.redraw_every for level in hierarchy.levels]
    path, co_sampled = co_sampled.path, replace(co_sampled, path=one_pass(co_sampled.path))
    if isinstance(phase.mechanism, AdditiveNoise):
        return _single_steps(plan, phase, co_sampled, path, phase_bound)
    if not {*periods[min(clip, plan.unit - 1) : _lowest_random(hierarchy, co_sampled)]} <= {phase_bound.hold}:
        return _single_steps(plan, phase, co_sampled, path, phase_bound)
    if _max_units_together(co_sampled.path, path, plan.adjacency) < plan.group_size or _is_irregular(
        hierarchy, plan.unit, clip
    ):
        return None
    if is_shuffled(path):
        # Of vectors clipped above the unit, a removal that shortens a pass may leave one out.
        may_lack_a_vector = clip < plan.unit and _is_shortened(plan, phase)
        return None if may_lack_a_vector else _sums_of_passes(plan, phase, co_sampled, path, phase_bound)
    whole, remaining = divmod(phase.steps, periods[0])
    repetitions = tuple(
        _sum_of_a_period(co_sampled, plan, [min(period, length) for period in periods[: plan.unit]], number)
        for length, number in ((periods[0], whole), (remaining, 1))
        if length and number
    )
    return PhaseDataSet(phase_bound=phase_bound, repetitions=repetitions)


def _lowest_random(hierarchy: Hierarchy, co_sampled: CoSampled) -> int:
    """Return the lowest level (from 1) with Poisson rate < 1; at least the unit's, or its children's if they differ."""
    unit = len(co_sampled.path.counts)
    drawn = (level.scheme for level in hierarchy.levels)
    chances = (scheme.probability if isinstance(scheme, (Poisson, CappedPoisson)) else 1 for scheme in drawn)
    lowest = max((number for number, chance in enumerate(chances, start=1) if chance < 1), default=0)
    return max(lowest, unit + 1 if co_sampled.child_contributions else unit)


def _is_irregular(hierarchy: Hierarchy, unit: int, clip: int) -> bool:
    """Return True for draws whose counts vary in no known way: cut with Poisson or shuffle, Poisson below `at_most`."""
    # Records are drawn at random below a shuffle in the protected unit, whose last batches hold fewer; or below a draw
    # of at most a number, of which smaller units have fewer; or below or beside a draw that is cut to a maximum.
    schemes = [level.scheme for level in hierarchy.levels]
    for at, scheme in enumerate(schemes):
        if not isinstance(scheme, CappedPoisson):
            continue
        is_random_below = any(isinstance(inner, Poisson | CappedPoisson) for inner in schemes[at + 1 :])
        is_unequal = at >= min(clip, unit) and not hierarchy.levels[at].is_equal
        if is_unequal or (at >= clip and is_random_below) or any(isinstance(each, Shuffle) for each in schemes):
            return True
    limited = next(
        (at for at, scheme in enumerate(schemes) if isinstance(scheme, Fixed) and scheme.at_most), len(schemes)
    )
    if any(isinstance(scheme, Poisson) for scheme in schemes[limited:]):
        return True
    below = schemes[unit:]
    return any(isinstance(scheme, Shuffle) for scheme in below) and any(isinstance(scheme, Poisson) for scheme in below)


def _sum_of_a_period(co_sampled: CoSampled, plan: Plan, periods: list[int], number: int) -> Repetition:
    """Return the sum of the steps under one outermost draw, of at most 32 draws a level, as one observation.

    Args:
        co_sampled: the protected unit and the units drawn beside it.
        plan: what is protected.
        periods: for each level down to the protected one, the steps for which a draw is held within the period.
        number: of such periods.
    """
    repeats = tuple(min(above // below, _MAX_SUMMED) for above, below in pairwise(periods))
    factor = math.sqrt(math.prod(repeats) / periods[-1])
    return Repetition(pair=cache(partial(drawn_pair, co_sampled, plan, repeats)), factor=factor, number=number)


def _sums_of_passes(
    plan: Plan, phase: Phase, co_sampled: CoSampled, path: Path, phase_bound: PhaseBound
) -> PhaseDataSet:
    """Return a shuffled phase's observations: sums of aligned whole passes, and that of a begun one if known."""
    # In it every unit has had its turn once, or with drop_last those that were drawn for the pass, of which the
    # company's path has the law. The steps of a pass that is not over draw a fixed number. Under another shuffle a pass
    # takes as many steps as the passes above it together.
    length = steps_of_a_pass(path, Group())
    number, remaining = divmod(phase.steps, length) if _passes_are_aligned(path) else (0, 0)
    # A sum of several clipped vectors, each of which may be empty, is certain only where they are 0.
    drawn_below = any(isinstance(level.scheme, Poisson) for level in phase.hierarchy.levels[phase.clip :])
    may_be_empty = phase.clip < plan.unit and (drawn_below or not _keeps_a_record(plan, path, phase.clip))
    pair_of = zero_neighbours_pair if length > 1 and may_be_empty else drawn_pair
    pair = cache(partial(pair_of, co_sampled, plan, ()))
    repetitions = [Repetition(pair=pair, factor=math.sqrt(length), number=number)] if number else []
    ((at, scheme), *others) = ((at, scheme) for at, scheme in enumerate(path.schemes) if isinstance(scheme, Shuffle))
    if remaining and not others and not _is_shortened(plan, phase):
        schemes = list(co_sampled.path.schemes)
        schemes[at] = Fixed(size=remaining * scheme.size)
        begun = replace(co_sampled, path=replace(co_sampled.path, schemes=tuple(schemes)))
        repetitions.append(
            Repetition(pair=cache(partial(pair_of, begun, plan, ())), factor=math.sqrt(remaining), number=1)
        )
    return PhaseDataSet(phase_bound=phase_bound, repetitions=tuple(repetitions), is_complete=length == 1)


def _keeps_a_record(plan: Plan, path: Path, clip: int) -> bool:
    """Return True for replace-one, or if another record is certain in each clipped vector of the protected units.

    Args:
        plan: what is protected, all in one frame.
        path: the way to the protected units, with its shuffles, below which all drawn units hold records.
        clip: clipping level, above the protected one.
    """
    if plan.adjacency is Adjacency.REPLACE_ONE:
        return True
    if plan.adjacency is Adjacency.ADD_REMOVE and path.counts[-1] > plan.group_size:
        return True  # others are drawn in their place
    lost = [1] * (plan.unit - 1) + [plan.group_size]
    levels = list(zip(path.schemes, path.counts, lost, strict=True))[clip:]
    if plan.adjacency is Adjacency.ADD_REMOVE:
        levels.pop()
    return any(_fewest_in_a_step(scheme, count) > removed for scheme, count, removed in levels)


def _fewest_in_a_step(scheme: Scheme, count: int) -> int:
    """Return the fewest different units of one parent in a step that draws any; 0 where that is left to chance."""
    match scheme:
        case Shuffle(size=size, drop_last=drop_last):
            return size if drop_last or not count % size else count % size
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
    """Return data sets of one step under each outermost draw; None for passes of several steps, or if none is known."""
    # For noise other than Gaussian, and for units whose contributions change while their draw is held.
    if not _passes_are_aligned(path) or steps_of_a_pass(path, Group()) > 1:
        return None
    if _max_units_together(co_sampled.path, path, plan.adjacency) < plan.group_size or _is_irregular(
        phase.hierarchy, plan.unit, phase.clip
    ):
        return None
    period = max((level.redraw_every for level in phase.hierarchy.levels if not level.is_whole), default=1)
    single = Repetition(
        pair=cache(partial(drawn_pair, co_sampled, plan, ())), factor=1.0, number=-(-phase.steps // period)
    )
    return PhaseDataSet(phase_bound=phase_bound, repetitions=(single,), is_complete=phase_bound.hold == 1)


def _max_units_together(drawn: Path, path: Path, adjacency: Adjacency) -> int:
    """Return the most units of one parent protected together: all, or all but a batch if removed from passes.

    Args:
        drawn: the way to the protected units, a pass taken as one draw.
        path: the same with its shuffles.
        adjacency: relation between D and D'.
    """
    # Where units are removed, a pass needs as many units left as its steps hold.
    scheme = drawn.schemes[-1]
    in_passes = isinstance(path.schemes[-1], Shuffle) and adjacency is Adjacency.ADD_REMOVE
    left = scheme.size if in_passes and isinstance(scheme, Fixed) else 0
    return drawn.counts[-1] - left
