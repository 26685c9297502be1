"""Certified lower bounds on epsilon and delta: the privacy loss of one explicit pair of data sets.

Source: docs/theory.md, Theorem 10.1.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np

from dpcalc.accountants.composed_loss import LOWER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.accountants.rdp import trimmed_epsilon
from dpcalc.accountants.two_outcomes import two_outcome_delta, two_outcome_epsilon
from dpcalc.amplification.allocation import pass_losses
from dpcalc.amplification.bound import StepBound, bound_mixtures
from dpcalc.amplification.counts import Average, Bound, CountPair, count_mixtures
from dpcalc.amplification.data_set_atoms import data_set_atoms
from dpcalc.amplification.data_sets import Contributions, Mixture, sign_patterns
from dpcalc.amplification.schedule import PhaseBound
from dpcalc.arrays import Array
from dpcalc.errors import TooLargeError, UnsupportedError
from dpcalc.losses.moments import Curve, composed_moments
from dpcalc.losses.pair import LossCurve, MixturePair
from dpcalc.losses.ratio_lattice import Estimate
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import AdditiveNoise
from dpcalc.planner.composition import BACKWARD, Composition, ProtectedUnit, composed, releasing_phases
from dpcalc.planner.phase_data_set import Pair, PhaseDataSet, Repetition, allocated_data_set, drawn_data_set
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.counts import drop_rare_tail
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import WithReplacement
from dpcalc.work import SECOND, allowance

LOWER_WORK = 2.0 * SECOND  # for the data sets that are tried, the composition of the costliest, and what replaces it
_SEARCH_WORK, _COMPOSITION_WORK = 1.1 * SECOND, 0.9 * SECOND
_LENGTH_WORK = 0.08 * SECOND  # for other lengths of contributions
_LARGER_ORDER = 4.0  # factor on the order of the upper bound: a data set that costs half as much has about this one
_FINEST_LENGTH = Fraction(1, 8)  # of a clip norm: epsilon is flat near the best length
_MAX_CENTERS = 200  # of a mixture with other lengths: twice as many take twice as long to compose
_WORTH_TAKING = 1.001  # factor on the moment bound below which another length may not raise epsilon
_UNSEEN = Fraction(1, 2**60)  # of a weight: less than the round-off of weights near 1
_NO_ANSWER = (ArithmeticError, UnsupportedError, MemoryError)
_LIKELY_COPIES = 64  # about the copies of a unit in one draw with replacement: more are so rare that they are merged
_MAX_COPIES = 10_000  # of the protected unit in nested draws; with more, one data set takes minutes


def epsilon_lower(plan: Plan | Composition, *, direction: str = "") -> tuple[float, bool] | None:
    """Return (certified lower bound on epsilon, is tight) of the worst data set known; None without one; may raise.

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
    # For mechanisms that add no noise to a sum no worst data set is known.
    worst = _worst_data_set(composition, direction) if run.adds_noise else None
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
    """Return a certified lower bound on delta at an epsilon, of the worst data set known; 0 without one; may raise.

    Args:
        plan: one that is not noiseless, or its composition where that is at hand.
        epsilon: >= 0.
        direction: the one that decides the bound; "" takes the costliest by the moment bound.
    """
    composition = composed(plan).attained
    has_data_set = composition.plan.adds_noise and releasing_phases(composition.plan)
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


def _worst_data_set(composition: Composition, direction: str) -> tuple[dict[Curve, int], bool] | None:
    """Return (step counts of the data set with the largest log moment, is tight) found in the work allowed; or None."""
    # Candidates are data sets of the unit that a direction names, or of the costliest one by the moment bound, at whose
    # order they are compared, phase by phase: log moments add up, and the data may change from phase to phase. Where
    # the search needs too much work, the best ones until then are returned.
    protected, order = composition.costliest(direction)
    # That order decides the upper bound; of a data set that costs much less it is a larger one.
    orders = np.array([order, _LARGER_ORDER * order])
    best: dict[tuple[int, bool, int], tuple[float, bool, _Candidate]] = {}
    with suppress(TooLargeError), allowance(_SEARCH_WORK):  # the best so far is a data set, too
        for candidate in _candidates(composition.plan, protected, direction):
            for index, score in enumerate(_log_moments(candidate.counts, orders)):
                place = (index, candidate.is_swapped, candidate.phase)
                if place not in best or (score, candidate.is_tight) > best[place][:2]:
                    best[place] = (score, candidate.is_tight, candidate)
    number = len(releasing_phases(composition.plan))
    best_ways = []
    for index in range(orders.size):
        ways = [[best[place] for place in best if place[:2] == (index, swapped)] for swapped in (False, True)]
        complete = [way for way in ways if len(way) == number]
        if complete:
            way = max(complete, key=lambda way: sum(part[0] for part in way))
            best_ways.append([candidate for _, _, candidate in way])
    tight = bool(best_ways) and all(candidate.is_tight for candidate in best_ways[0])
    if not best_ways or not any(candidate.counts for candidate in best_ways[0]):
        return None
    counts = _total_counts(best_ways[0]) if tight else _with_best_lengths(best_ways, composition.plan.delta)
    return counts, tight and (bool(direction) or len(composition.units) == 1)


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A data set of one phase in one direction.

    Attributes:
        phase: number of the phase among those that release something.
        is_swapped: True for D'||D.
        others: contributions of the other units by level.
        counts: its steps and how often each occurs; {} if D and D' look the same.
        is_tight: True if they attain the unit's bound.
        steps: those of other contributions; None if they take too long.
    """

    phase: int
    is_swapped: bool
    others: tuple[Fraction, ...]
    counts: dict[Curve, int]
    is_tight: bool
    steps: Callable[[Contributions], dict[Curve, int] | None]


def _total_counts(candidates: Iterable[_Candidate]) -> dict[Curve, int]:
    """Return how often each loss occurs in all phases."""
    counts: Counter[Curve] = Counter()
    for candidate in candidates:
        counts.update(candidate.counts)
    return dict(counts)


def _log_moments(counts: dict[Curve, int], orders: Array) -> list[float]:
    """Return the log moments of a composition at some orders, 0 without steps."""
    if not counts:
        return [0.0] * orders.size
    return [float(value) for value in composed_moments(counts, max_order=orders.max()).cumulants(orders)[0]]


def _with_best_lengths(starts: list[list[_Candidate]], delta: float) -> dict[Curve, int]:
    """Return the steps of the costliest start, after moving other units' lengths as long as the moment bound grows.

    What others contribute tells whether their parent was drawn, and hides the unit if their number is random; of a
    length below 1 they may tell enough and hide less. One level after the other is moved by a step that is doubled
    after a success and halved otherwise.

    Args:
        starts: data sets to begin with, a candidate of each phase; the first is kept where no time is left.
        delta: of the bound.
    """
    best = starts[0]
    with suppress(TooLargeError), allowance(_LENGTH_WORK):
        score = trimmed_epsilon(_total_counts(best), delta=delta).value
        for start in starts[1:]:
            if _total_counts(start) != _total_counts(best):
                value = trimmed_epsilon(_total_counts(start), delta=delta).value
                score, best = max((score, best), (value, start), key=lambda pair: pair[0])
        step = _FINEST_LENGTH
        while step >= _FINEST_LENGTH:
            is_better = False
            for place, level in product(range(len(best)), reversed(range(len(best[0].others)))):
                for move in (-step, step):
                    moved = _with_other_length(best[place], level, move)
                    if moved is None or moved.counts == best[place].counts:
                        continue
                    changed = [*best[:place], moved, *best[place + 1 :]]
                    value = trimmed_epsilon(_total_counts(changed), delta=delta).value
                    if value > _WORTH_TAKING * score:
                        score, best, is_better = value, changed, True
            step = step * 2 if is_better else step / 2
    return _total_counts(best)


def _with_other_length(candidate: _Candidate, level: int, move: Fraction) -> _Candidate | None:
    """Return the data set whose others at a level (from 0) contribute `move` more; None if over 1 or slow to count."""
    others = [*candidate.others[:level], candidate.others[level] + move, *candidate.others[level + 1 :]]
    if abs(others[level]) > 1:
        return None
    length = math.lcm(*(each.denominator for each in others))
    counts = candidate.steps(Contributions(tuple(int(each * length) for each in others), length))
    return replace(candidate, others=tuple(others), counts=counts) if counts else None


def _candidates(plan: Plan, protected: ProtectedUnit, direction: str) -> Iterator[_Candidate]:
    """Yield distinct data sets of each phase and direction, random siblings last; none if a phase has no known one."""
    # With an allocation, whose losses take long, only in the direction that is named, if one is.
    phases = releasing_phases(plan)
    paths = [(protected.paths[plan.phases.index(phase)], min(phase.clip, plan.unit)) for phase in phases]
    if not all(_is_enumerable(path, lowest) for path, lowest in paths):
        return
    is_named = bool(direction) and any(phase.hierarchy.allocated for phase in phases)
    both_ways = (direction.startswith(BACKWARD),) if is_named else (False, True)
    seen: set[tuple[int, bool, frozenset[tuple[Curve, int]]]] = set()
    phase_sets = [_data_set(plan, phase, protected) for phase in phases]
    known = [x for x in phase_sets if x is not None]
    if len(known) < len(phases):
        return
    # Siblings whose contributions are random make many centers: data sets in which they contribute come last.
    for is_random, signs, (place, phase_set) in product((False, True), sign_patterns(plan.unit), enumerate(known)):
        if any(signs.others[level] for level in phase_set.random_levels) is not is_random:
            continue
        is_tight = phase_set.is_complete and _attains_bound(phase_set.phase_bound, phase_set.repetitions, signs)
        for is_swapped in both_ways:
            released = partial(_released_curve, phases[place], is_swapped=is_swapped)
            counts = _steps(released, phase_set, signs)
            key = (place, is_swapped, frozenset(counts.items()))
            if key not in seen:
                seen.add(key)
                yield _Candidate(
                    phase=place,
                    is_swapped=is_swapped,
                    others=tuple(map(Fraction, signs.others)),
                    counts=counts,
                    is_tight=is_tight,
                    steps=partial(_steps_if_few, phases[place], released, phase_set),
                )


def _steps(
    released: Callable[[Repetition, Pair], Curve], phase_set: PhaseDataSet, contributions: Contributions
) -> dict[Curve, int]:
    """Return the steps of a data set and how often each occurs; {} if D looks like D'."""
    counts: Counter[Curve] = Counter()
    for part in phase_set.repetitions:
        p, q = part.pair(contributions)
        if p != q:
            counts[released(replace(part, factor=part.factor * contributions.length), (p, q))] += part.number
    return dict(counts)


def _steps_if_few(
    phase: Phase, released: Callable[[Repetition, Pair], Curve], phase_set: PhaseDataSet, contributions: Contributions
) -> dict[Curve, int] | None:
    """Return `_steps`; None for noise that is not Gaussian, an allocation, or many different centers."""
    if not isinstance(phase.mechanism, Gaussian) or phase.hierarchy.allocation is not None:
        return None
    sizes = [len(side) for part in phase_set.repetitions for side in part.pair(contributions)]
    return None if max(sizes, default=0) > _MAX_CENTERS else _steps(released, phase_set, contributions)


def _released_curve(phase: Phase, part: Repetition, pair: Pair, *, is_swapped: bool) -> Curve:
    """Return the loss of one repetition in D||D' (is_swapped: D'||D); of an allocated pass a lower bound on it."""
    if part.allocated is None:
        return _observed_loss(phase, *(pair[::-1] if is_swapped else pair), part.factor)
    estimate = Estimate.LOWER_REVERSED if is_swapped else Estimate.LOWER

    def loss(steps: int) -> LossCurve:
        return _observed_loss(phase, *pair, part.factor / math.sqrt(steps))

    ((curve, _),) = pass_losses((replace(part.allocated, number=1),), loss, estimate)
    return curve


def _observed_loss(phase: Phase, p: Mixture, q: Mixture, noise_factor: float) -> LossCurve:
    """Return the loss of an observation: Gaussian with its noise times the factor; of other noise a lower bound."""
    if isinstance(phase.mechanism, AdditiveNoise):
        return data_set_atoms(phase.mechanism, p, q)
    return MixturePair.of(p, q, deviation=phase.gaussian.noise_multiplier * noise_factor)


def _data_set(plan: Plan, phase: Phase, protected: ProtectedUnit) -> PhaseDataSet | None:
    """Return the data sets of one phase, drawn or allocated (then all others are zero); None if none is known."""
    place = plan.phases.index(phase)
    path, phase_bound = protected.paths[place], protected.choices[place][0]
    if phase.hierarchy.allocation is None:
        return drawn_data_set(plan, phase, path, phase_bound)
    return allocated_data_set(plan, phase, path, phase_bound)


def _is_enumerable(path: Path, lowest: int) -> bool:
    """Return True if draws with replacement down to level `lowest` make at most about 10,000 copies of a unit.

    Args:
        path: the way to the protected units.
        lowest: the lowest level that draws clipped vectors.
    """
    sizes = (scheme.size for scheme in path.schemes[:lowest] if isinstance(scheme, WithReplacement))
    return math.prod(min(size, _LIKELY_COPIES) for size in sizes) <= _MAX_COPIES


def _attains_bound(phase_bound: PhaseBound, repetitions: tuple[Repetition, ...], signs: Contributions) -> bool:
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
    # Symmetric noise hides as much after a common shift or a reflection of all centers.
    p, q = ({center: float(weight) for center, weight in side.items() if weight > _UNSEEN} for side in pair)
    centers = sorted({*p, *q})
    ahead = tuple((c - centers[0], p.get(c, 0.0), q.get(c, 0.0)) for c in centers)
    back = tuple((centers[-1] - c, p.get(c, 0.0), q.get(c, 0.0)) for c in reversed(centers))
    return min(ahead, back)
