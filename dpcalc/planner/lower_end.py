"""Certified lower bounds on epsilon and delta: the privacy loss of one explicit pair of data sets.

Source: docs/theory.md, Theorem 10.1.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise

import numpy as np

from dpcalc.accountants.composed_loss import LOWER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.accountants.two_outcomes import two_outcome_delta, two_outcome_epsilon
from dpcalc.amplification.allocation import pass_losses
from dpcalc.amplification.bound import StepBound, bound_mixtures
from dpcalc.amplification.counts import Average, Bound, CountPair, count_mixtures
from dpcalc.amplification.data_sets import Mixture, data_set_atoms, episode_pair, sign_patterns
from dpcalc.amplification.groups import Group
from dpcalc.amplification.schedule import (
    PhaseBound,
    is_shortened,
    is_shuffled,
    steps_of_a_pass,
)
from dpcalc.errors import TooLargeError, UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.moments import Curve, composed_moments
from dpcalc.losses.pair import LossCurve, MixturePair
from dpcalc.losses.ratio_lattice import Estimate
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import AdditiveNoise
from dpcalc.planner.composition import BACKWARD, Composition, ProtectedUnit, composed, releasing_phases
from dpcalc.planner.phase_data_set import (
    Pair,
    PhaseDataSet,
    Repetition,
    allocated_data_set,
    drawn_pair,
    zero_neighbours_pair,
)
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.co_sampled import CoSampled, co_sampled_with
from dpcalc.sampling.counts import drop_rare_tail
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path, one_pass
from dpcalc.sampling.schemes import (
    All,
    CappedPoisson,
    Fixed,
    Poisson,
    Scheme,
    Shuffle,
    WithReplacement,
)
from dpcalc.work import SECOND, allowance

LOWER_WORK = 2.0 * SECOND  # for the data sets that are tried, the composition of the costliest, and what replaces it
_SEARCH_WORK, _COMPOSITION_WORK = 1.1 * SECOND, 0.9 * SECOND
_UNSEEN = Fraction(1, 2**60)  # of a weight: less than the round-off of weights near 1
_NO_ANSWER = (ArithmeticError, UnsupportedError, MemoryError)
_MAX_SUMMED = 32  # draws under one draw above them whose sum is observed; more are left out
_LIKELY_COPIES = 64  # about the copies of a unit in one draw with replacement: more are so rare that they are merged
_MAX_COPIES = 10_000  # of the protected unit in nested draws; with more, one data set takes minutes


def epsilon_lower(plan: Plan | Composition, *, direction: str = "") -> tuple[float, bool] | None:
    """Return (certified lower bound on epsilon, is tight) of the worst known data set or None; composing may raise.

    The candidates are ranked by their log moment at the order that decides the bound; the first is composed.

    Args:
        plan: one that is not noiseless, or its composition where that is at hand.
        direction: the one that decides the bound, for units that differ; "" takes that which the moment bound finds
            costliest.

    Returns:
        (a certified lower end of its epsilon: never above what that data set costs; whether its pair is the
        bound's own in every phase, so that the bound is tight); None where no data set can be written down.
    """
    bounding = composed(plan)
    composition = bounding.attained
    run = composition.plan
    if not releasing_phases(run):
        return 0.0, True
    worst = _worst_data_set(composition, direction) if _adds_noise(run) else None
    if worst is None:
        return None
    counts, tight = worst[0], worst[1] and bounding.is_attained
    try:
        with allowance(_COMPOSITION_WORK):
            (value,) = epsilon_bounds(counts, delta=run.delta, sides=(LOWER,))
    except _NO_ANSWER:
        value = two_outcome_epsilon(counts, delta=run.delta)
        if not value:
            raise
        return value, False
    return (value, tight) if value else (two_outcome_epsilon(counts, delta=run.delta), tight)


def delta_lower(plan: Plan | Composition, *, epsilon: float, direction: str = "") -> float:
    """Return a certified lower bound on delta of the worst known data set, 0 without; raise if composing fails.

    Args:
        plan: one that is not noiseless, or its composition where that is at hand.
        epsilon: >= 0.
        direction: the one that decides the bound; "" takes the costliest by the moment bound.

    Returns:
        A lower bound in [0, 1].
    """
    composition = composed(plan).attained
    has_data_set = _adds_noise(composition.plan) and releasing_phases(composition.plan)
    worst = _worst_data_set(composition, direction) if has_data_set else None
    if worst is None:
        return 0.0
    try:
        with allowance(_COMPOSITION_WORK):
            (value,) = delta_bounds(worst[0], epsilon=epsilon, sides=(LOWER,))
    except _NO_ANSWER:
        value = two_outcome_delta(worst[0], epsilon=epsilon)
        if not value:
            raise
        return value
    return max(value, two_outcome_delta(worst[0], epsilon=epsilon))


def _adds_noise(plan: Plan) -> bool:
    """Return True if every phase adds noise to a sum; for other mechanisms no worst data set is known."""
    return all(isinstance(phase.mechanism, Gaussian | AdditiveNoise) for phase in plan.phases)


def _worst_data_set(composition: Composition, direction: str) -> tuple[dict[Curve, int], bool] | None:
    """Return (steps with the largest log moment, is tight: attained by a named or only unit), the best in time."""
    # Candidates are data sets of the unit that a direction names, or of the costliest one by the moment bound, at whose
    # order they are compared. Where the search needs too much work, the best one until then is returned.
    protected, order = composition.costliest(direction)
    best: tuple[float, bool, dict[Curve, int]] | None = None
    with suppress(TooLargeError), allowance(_SEARCH_WORK):  # the best so far is a data set, too
        for counts, attained in _candidates(composition.plan, protected, direction):
            score = float(composed_moments(counts, max_order=order).cumulants(np.array([order]))[0][0])
            tight = attained and (bool(direction) or len(composition.units) == 1)
            if best is None or (score, tight) > best[:2]:
                best = (score, tight, counts)
    return None if best is None else (best[2], best[1])


def _candidates(plan: Plan, protected: ProtectedUnit, direction: str) -> Iterator[tuple[dict[Curve, int], bool]]:
    """Yield (steps, True if they attain the unit's bound) of each different data set in each direction; maybe none."""
    # With an allocation, whose losses take long, only in the direction that is named, if one is.
    seen_candidates: set[frozenset[tuple[Curve, int]]] = set()
    phases = releasing_phases(plan)
    paths = [(protected.paths[plan.phases.index(phase)], min(phase.clip, plan.unit)) for phase in phases]
    if not all(_is_enumerable(path, lowest) for path, lowest in paths):
        return
    # Siblings whose contributions are random make many centers: data sets in which they contribute come last.
    for choose in (_without_random_siblings, _as_drawn):
        phase_sets = [_data_set(plan, phase, protected, choose) for phase in phases]
        yield from _of_signs(plan, phases, [x for x in phase_sets if x is not None], seen_candidates, direction)


def _without_random_siblings(co_sampled: CoSampled) -> CoSampled:
    """Return what is drawn with the unit where siblings of random contributions contribute nothing."""
    return replace(co_sampled, frames=())


def _as_drawn(co_sampled: CoSampled) -> CoSampled:
    """Return what is drawn with the unit, unchanged."""
    return co_sampled


def _of_signs(
    plan: Plan,
    phases: tuple[Phase, ...],
    phase_sets: list[PhaseDataSet],
    seen_candidates: set[frozenset[tuple[Curve, int]]],
    direction: str,
) -> Iterator[tuple[dict[Curve, int], bool]]:
    """Yield unseen candidates of each sign pattern, added to `seen_candidates`; none if a phase lacks data sets."""
    if len(phase_sets) < len(phases):
        return
    is_named = bool(direction) and any(phase.hierarchy.allocated for phase in phases)
    both_ways = (direction.startswith(BACKWARD),) if is_named else (False, True)
    for signs in sign_patterns(plan.unit):
        parts = [
            (phase, part, part.pair(signs))
            for phase, phase_set in zip(phases, phase_sets, strict=True)
            for part in phase_set.repetitions
        ]
        tight = all(
            phase_set.is_complete and _attains_bound(phase_set.phase_bound, phase_set.repetitions, signs)
            for phase_set in phase_sets
        )
        for swapped in both_ways:
            counts: Counter[Curve] = Counter()
            for phase, part, (p, q) in parts:
                if p != q:
                    counts[_released_curve(phase, part, (p, q), swapped=swapped)] += part.number
            steps = frozenset(counts.items())
            if steps and steps not in seen_candidates:
                seen_candidates.add(steps)
                yield dict(counts), tight


def _released_curve(phase: Phase, part: "Repetition", pair: Pair, *, swapped: bool) -> Curve:
    """Return the loss of one repetition in D||D' (swapped: D'||D); of an allocated pass a lower bound on it."""
    if part.allocated is None:
        return _curve(phase, *(pair[::-1] if swapped else pair), part.factor)
    estimate = Estimate.LOWER_REVERSED if swapped else Estimate.LOWER

    def loss(steps: int) -> LossCurve:
        return _curve(phase, *pair, part.factor / math.sqrt(steps))

    ((curve, _),) = pass_losses((replace(part.allocated, number=1),), loss, estimate)
    return curve


def _curve(phase: Phase, p: Mixture, q: Mixture, noise_factor: float) -> LossCurve:
    """Return the loss of an observation: Gaussian, its noise times the factor; other noise: lower, factor unused."""
    if isinstance(phase.mechanism, AdditiveNoise):
        return data_set_atoms(phase.mechanism, p, q)
    return MixturePair.of(p, q, deviation=phase.gaussian.noise_multiplier * noise_factor)


def _data_set(
    plan: Plan, phase: Phase, protected: ProtectedUnit, choose: Callable[[CoSampled], CoSampled]
) -> PhaseDataSet | None:
    """Return the data sets of one phase, with or without an allocation; None where none is known."""
    if phase.hierarchy.allocation is None:
        return _phase_data_set(plan, phase, protected, choose)
    place = plan.phases.index(phase)
    return allocated_data_set(plan, phase, protected.paths[place], protected.choices[place][0])


def _phase_data_set(
    plan: Plan, phase: Phase, protected: ProtectedUnit, choose: Callable[[CoSampled], CoSampled]
) -> PhaseDataSet | None:
    """Return the data sets of a phase that is not allocated; None where none is known, as for irregular units."""
    place = plan.phases.index(phase)
    hierarchy, path, clip = phase.hierarchy, protected.paths[place], phase.clip
    phase_bound = protected.choices[place][0]
    if hierarchy.episodes is not None:
        built = Repetition(pair=cache(partial(_episode_pair, plan, phase)), factor=1.0, number=phase.steps)
        return PhaseDataSet(phase_bound=phase_bound, repetitions=(built,))
    periods = [level.redraw_every for level in hierarchy.levels]
    co_sampled = choose(co_sampled_with(hierarchy, path, clip=clip, members=plan.group_size))
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
        return None if _ends_visits(plan, phase) else _sums_of_passes(plan, phase, co_sampled, path, phase_bound)
    whole, remaining = divmod(phase.steps, periods[0])
    repetitions = tuple(
        _sum_of_a_period(co_sampled, plan, [min(period, length) for period in periods[: plan.unit]], number)
        for length, number in ((periods[0], whole), (remaining, 1))
        if length and number
    )
    return PhaseDataSet(phase_bound=phase_bound, repetitions=repetitions)


def _is_enumerable(path: Path, lowest: int) -> bool:
    """Return True if draws with replacement down to level `lowest` make at most about 10,000 copies of a unit.

    Args:
        path: the way to the protected units.
        lowest: the lowest level that draws clipped vectors.
    """
    sizes = (scheme.size for scheme in path.schemes[:lowest] if isinstance(scheme, WithReplacement))
    return math.prod(min(size, _LIKELY_COPIES) for size in sizes) <= _MAX_COPIES


def _lowest_random(hierarchy: Hierarchy, co_sampled: CoSampled) -> int:
    """Return the lowest level with Poisson draws at rate < 1; at least the unit's, or the next if children differ."""
    unit = len(co_sampled.path.counts)
    drawn = (level.scheme for level in hierarchy.levels)
    chances = (scheme.probability if isinstance(scheme, (Poisson, CappedPoisson)) else 1 for scheme in drawn)
    lowest = max((number for number, chance in enumerate(chances, start=1) if chance < 1), default=0)
    return max(lowest, unit + 1 if co_sampled.child_contributions else unit)


def _is_irregular(hierarchy: Hierarchy, unit: int, clip: int) -> bool:
    """Return True if units contribute at random in different ways: some mixes of cut, at_most, shuffled and Poisson."""
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
    """Return the sum of the steps (at most 32 draws a level) under one outermost draw as one observation.

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
    """Return a shuffled phase's data sets: sums of whole passes, perhaps of the unfinished one, no single steps."""
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
    """Return True if, in every order of a pass, a clipped vector with the protected units has another record too.

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


def _ends_visits(plan: Plan, phase: Phase) -> bool:
    """Return True if vectors above the unit are clipped and a removal shortens a pass, so that one may be missing."""
    return phase.clip < plan.unit and _is_shortened(plan, phase)


def _passes_are_aligned(path: Path) -> bool:
    """Return True if it is known when passes over the innermost shuffled level begin: no unit above is left out."""
    shuffled = [number for number, scheme in enumerate(path.schemes, start=1) if isinstance(scheme, Shuffle)]
    return all(path.rate(number) == 1 for number in shuffled[:-1])


def _single_steps(
    plan: Plan, phase: Phase, co_sampled: CoSampled, path: Path, phase_bound: PhaseBound
) -> PhaseDataSet | None:
    """Return data sets of one step under each outermost draw; None for passes, irregular or too few units."""
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
    """Return the most units of one parent protected together; removed from passes, as many as one draws must stay.

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


def _episode_pair(plan: Plan, phase: Phase, signs: tuple[int, ...]) -> Pair:
    """Return (P, Q) of a step that builds its tasks."""
    draw, adjacency = (plan.unit, phase.clip), plan.adjacency
    return episode_pair(phase.hierarchy, signs[-1], draw=draw, adjacency=adjacency, members=plan.group_size)


def _attains_bound(phase_bound: PhaseBound, repetitions: tuple[Repetition, ...], signs: tuple[int, ...]) -> bool:
    """Return True if every pair is the bound's in both directions; False for passes, revealed draws and links."""
    if phase_bound.squared > 1 or phase_bound.revealed or phase_bound.steps_of_a_pass > 1 or not repetitions:
        return False
    if phase_bound.allocation is not None and (phase_bound.is_revealed or phase_bound.links != "-"):
        return False
    return all(_has_pair(phase_bound.bound, part.pair(signs)) for part in repetitions)


def _has_pair(bound: Bound, pair: Pair) -> bool:
    """Return True if a pair is a bound's in both directions, up to `_canonical`; False for several parts."""
    p, q = pair
    match bound:
        case Average(parts=((chance, one),)) if chance == 1:
            return _has_pair(one, pair)
        case StepBound():
            own = bound_mixtures(bound, bound.distances)
            other = bound_mixtures(bound, bound.distances_swapped)
            return _canonical((p, q)) == _canonical(own) and _canonical((q, p)) == _canonical(other)
        case CountPair():
            exact = replace(bound, law=tuple(drop_rare_tail(dict(bound.law)).items()))
            return _canonical((p, q)) == _canonical(count_mixtures(exact))
        case _:
            return False


def _canonical(pair: Pair) -> tuple[tuple[int, float, float], ...]:
    """Return a pair of mixtures up to shift, reflection and weights below 2^-60, as (center, p, q) triples."""
    p, q = ({center: float(weight) for center, weight in side.items() if weight > _UNSEEN} for side in pair)
    centers = sorted({*p, *q})
    ahead = tuple((c - centers[0], p.get(c, 0.0), q.get(c, 0.0)) for c in centers)
    back = tuple((centers[-1] - c, p.get(c, 0.0), q.get(c, 0.0)) for c in reversed(centers))
    return min(ahead, back)
