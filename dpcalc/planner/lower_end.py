"""Certified lower bounds on epsilon and delta: the privacy loss of one explicit pair of data sets.

Of each phase data sets are known that differ in what other units contribute. They are released as independent
observations; the ones that cost most, phase by phase, are composed.

Source: docs/theory.md, Theorem 10.1.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from dpcalc.accountants.composed_loss import LOWER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.accountants.rdp import log_peak, trimmed_epsilon
from dpcalc.accountants.two_outcomes import two_outcome_delta, two_outcome_epsilon
from dpcalc.amplification.allocation import pass_losses
from dpcalc.amplification.bound import StepBound, bound_mixtures
from dpcalc.amplification.counts import Average, CountPair, count_mixtures
from dpcalc.amplification.data_sets import (
    Contributions,
    DrawnNumbers,
    Mixture,
    Pair,
    data_set_atoms,
    data_set_pair,
    episode_pair,
    sign_patterns,
)
from dpcalc.amplification.groups import Group
from dpcalc.amplification.schedule import PhaseBound, is_shortened, is_shuffled, steps_of_a_pass
from dpcalc.arrays import Array
from dpcalc.errors import TooLargeError, UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.loss import LossCurve
from dpcalc.losses.moments import Curve, Steps, composed_moments
from dpcalc.losses.pair import MixturePair
from dpcalc.losses.ratio_lattice import Estimate
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import AdditiveNoise
from dpcalc.planner.composition import BACKWARD, Composition, ProtectedUnit, composed, releasing_phases
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.co_sampled import CoSampled, co_sampled_with
from dpcalc.sampling.counts import binomial, drop_rare_tail
from dpcalc.sampling.paths import Path, one_pass
from dpcalc.sampling.schemes import AllocatedPass, Allocation, BallsInBins, Fixed, RandomAllocation
from dpcalc.work import SECOND, allowance

LOWER_WORK = 2.0 * SECOND  # for the data sets that are tried, the composition of the costliest, and what replaces it
_SEARCH_WORK, _COMPOSITION_WORK = 1.1 * SECOND, 0.9 * SECOND
_LAWS_WORK = 0.35 * SECOND  # for the numbers of vectors that a phase's steps draw
_LARGER_ORDER = 4.0  # factor on the order of the upper bound: a data set that costs half as much has about this one
_ORDERS = np.geomspace(0.5, 8.0, 24)  # of data sets, over that of the upper bound
_FULL, _HALF_TURN = 8, 32  # steps of a length up to 1, and of half a turn: epsilon is flat near the best ones
# The contributions (length, angle) that are tried first of each level, on the line and in the plane, and their moves.
_ON_THE_LINE = (_FULL, 0), (-_FULL, 0), (0, 0)
_IN_THE_PLANE = (*_ON_THE_LINE, (_FULL, _HALF_TURN // 2))
_MOVES = (1, 0), (-1, 0), (0, 1), (0, -1)
_MAX_CENTERS = 200  # of a mixture on the line: twice as many take twice as long to compose
_MIN_GAIN_FACTOR = 1.0002  # factor on the moment bound below which other contributions may not raise epsilon
_NEGLIGIBLE_WEIGHT = Fraction(1, 2**60)  # of a weight: less than the round-off of weights near 1
_COMPOSITION_FAILURES = (ArithmeticError, UnsupportedError, MemoryError)
_LIKELY_COPIES = 64  # about the copies of a unit in one draw with replacement: more are so rare that they are merged
_MAX_COPIES = 10_000  # of the protected unit in nested draws; with more, one data set takes minutes
_MAX_SUMMED = 32  # draws under one draw above them whose sum is observed; more are left out
_BELOW_1 = 1 - 2.0**-53  # the largest float below 1
_SURE = 1400.0  # -log Pr[no copy] from which on `binomial` may be a bound: below, no work is spent on it


class LowerEpsilon(NamedTuple):
    """A certified lower bound on epsilon, and whether the pair of its data set is the bound's own in every phase."""

    value: float
    is_tight: bool


def epsilon_lower(plan: Plan | Composition, *, direction: str = "") -> LowerEpsilon | None:
    """Return a certified lower bound on epsilon that one data set attains; None if no such data set is known."""
    bounding = composed(plan)
    if bounding.stated.calibrations:  # of the noise only the least that it can be is known
        return None
    composition = bounding.attained
    if not releasing_phases(composition.plan):
        return LowerEpsilon(value=0.0, is_tight=True)
    (runs, is_tight), delta = _worst_data_sets(composition, direction), composition.plan.delta
    if not runs:
        return None

    def compose(counts: Steps) -> float:
        return epsilon_bounds(counts, delta=delta, sides=(LOWER,))[0]

    value, is_composed = _lower_bound(runs, compose, partial(two_outcome_epsilon, delta=delta))
    value = value or max(two_outcome_epsilon(counts, delta=delta) for counts in runs)
    return LowerEpsilon(value, is_tight=is_composed and is_tight and bounding.is_attained)


def delta_lower(plan: Plan | Composition, *, epsilon: float, direction: str = "") -> float:
    """Return a certified lower bound on delta, that of the worst data set known; 0 if none is known."""
    composition = composed(plan).attained
    runs, _ = _worst_data_sets(composition, direction) if releasing_phases(composition.plan) else ([], False)
    if not runs:
        return 0.0

    def compose(counts: Steps) -> float:
        return delta_bounds(counts, epsilon=epsilon, sides=(LOWER,))[0]

    two_outcomes = partial(two_outcome_delta, epsilon=epsilon)
    value, is_composed = _lower_bound(runs, compose, two_outcomes)
    return max(value, *map(two_outcomes, runs)) if is_composed else value


def _lower_bound(
    runs: Sequence[Steps], compose: Callable[[Steps], float], two_outcomes: Callable[[Steps], float]
) -> tuple[float, bool]:
    """Return (largest bound of a run by composition, True) or, if that of the first one fails, (that by two outcomes of
    any, False); raise its error if that is 0."""
    try:
        with allowance(_COMPOSITION_WORK):
            value = compose(runs[0])
            for counts in runs[1:]:
                with suppress(*_COMPOSITION_FAILURES):
                    value = max(value, compose(counts))
    except _COMPOSITION_FAILURES:
        value = max(map(two_outcomes, runs))
        if not value:
            raise
        return value, False
    return value, True


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A data set of one phase in one direction: its losses, how often each occurs, what other units contribute."""

    phase: int  # its number among those that release something
    is_swapped: bool  # True for D'||D
    others: tuple[int, ...]  # +1, -1 or 0, by level
    counts: dict[Curve, int]  # {} if D and D' look the same
    is_tight: bool  # they attain the unit's bound


_Run = tuple[_Candidate, ...]  # of each phase, all in one direction
_Polar = dict[tuple[int, int], tuple[int, int]]  # by place of a phase and level: signed length, angle


def _worst_data_sets(composition: Composition, direction: str) -> tuple[list[dict[Curve, int]], bool]:
    """Return (losses of the costliest known data sets of all phases, whether the first attains the bound).

    They are of the unit in `direction`, or of the costliest unit: one on the line, and perhaps one in the plane.
    """
    plan = composition.plan
    if not plan.adds_noise:  # for other mechanisms no worst data set is known
        return [], False
    # That order decides the upper bound; of a data set that costs much less it is a larger one.
    protected, order = composition.costliest(direction)
    orders, phases = np.array([order, _LARGER_ORDER * order]), releasing_phases(plan)
    for phase in phases:  # the copies of a unit that draws with replacement can make
        schemes = protected.paths[plan.phases.index(phase)].schemes[: min(phase.clip, plan.unit)]
        sizes = (min(scheme.size, _LIKELY_COPIES) for scheme in schemes if scheme.can_repeat)
        if math.prod(sizes) > _MAX_COPIES:
            return [], False
    found = [_data_set(plan, phase, protected) for phase in phases]
    data_sets = [each for each in found if each is not None]
    if len(data_sets) < len(phases):
        return [], False

    # Log moments add up, and the data may change from phase to phase: the largest of each phase is in the costliest.
    best: dict[tuple[int, bool, int], tuple[float, bool, _Candidate]] = {}

    def runs() -> list[_Run]:  # the costliest at each order
        found = []
        for index in range(orders.size):
            by_direction = [
                [best[place] for place in best if place[:2] == (index, swapped)] for swapped in (False, True)
            ]
            complete = [run for run in by_direction if len(run) == len(phases)]
            if complete:
                largest = max(complete, key=lambda run: sum(log_moment for log_moment, _, _ in run))
                found.append(tuple(candidate for _, _, candidate in largest))
        return found

    # Siblings whose contributions are random make many centers: data sets on the line in which they contribute come
    # last, and only where those in the plane cannot be searched.
    in_plane: list[dict[Curve, int]] | None = None
    with suppress(TooLargeError), allowance(_SEARCH_WORK):
        for has_random in (False, True):
            for candidate in _candidates(plan, protected, data_sets, direction, has_random=has_random):
                log_moments = [0.0] * orders.size
                if candidate.counts:
                    moments = composed_moments(candidate.counts, max_order=orders.max())
                    log_moments = moments.cumulants(orders)[0].tolist()
                for index, log_moment in enumerate(log_moments):
                    place = (index, candidate.is_swapped, candidate.phase)
                    if place not in best or (log_moment, candidate.is_tight) > best[place][:2]:
                        best[place] = log_moment, candidate.is_tight, candidate
            if any(candidate.counts for candidate in runs()[0]):
                if all(candidate.is_tight for candidate in runs()[0]):
                    return [_total_counts(runs()[0])], bool(direction) or len(composition.units) == 1
                in_plane = in_plane or _in_the_plane(plan, phases, data_sets, order)
                if in_plane is not None:
                    break
    costliest = [_total_counts(run) for run in runs()]
    if not costliest or not costliest[0]:
        return [], False
    if len(costliest) > 1 and costliest[0] != costliest[1]:
        with suppress(TooLargeError), allowance(_SEARCH_WORK):
            costliest.sort(key=lambda counts: trimmed_epsilon(counts, delta=plan.delta).value, reverse=True)
    return [costliest[0], *(counts for counts in in_plane or () if counts != costliest[0])], False


def _total_counts(candidates: Iterable[_Candidate]) -> dict[Curve, int]:
    """Return how often each loss occurs in the given data sets of all phases together."""
    counts: Counter[Curve] = Counter()
    for candidate in candidates:
        counts.update(candidate.counts)
    return dict(counts)


def _in_the_plane(
    plan: Plan, phases: Sequence[Phase], data_sets: "Sequence[_DataSet]", order: float
) -> list[dict[Curve, int]] | None:
    """Return step losses of the costliest run found in which others contribute +1, -1 or 0, and of that in which they
    contribute vectors of the plane; None if the numbers that steps draw are not known, or noise is not Gaussian.

    Across the line on which the unit contributes, others show whether their parent was drawn and do not hide it; on it,
    of a length below 1, they may tell enough and hide less. From the best pattern of few directions on one level of one
    phase after the other is lengthened, shortened or turned, in smaller and smaller steps, as long as a bound by
    moments rises.
    """
    if not all(isinstance(phase.mechanism, Gaussian) and not phase.hierarchy.allocated for phase in phases):
        return None
    seen = [
        (place, each, phase.gaussian.noise_multiplier * each.factor)
        for place, (phase, data_set) in enumerate(zip(phases, data_sets, strict=True))
        for each in data_set.observations
    ]
    # Others of outer levels contribute where cases are few, and if they depend on the unit's draw: what is beside an
    # outermost Poisson draw of it does not. A further level of random numbers makes many more cases.
    laws: list[DrawnNumbers] = []
    for place, each, deviation in seen:
        hierarchy, law = phases[place].hierarchy, None
        first = 2 if hierarchy.episodes is None and hierarchy.levels[0].scheme.is_independent else 1
        for least in range(plan.unit + 1, first - 1, -1):
            with suppress(TooLargeError), allowance(_LAWS_WORK) as work:
                law = DrawnNumbers.of(each.pair, plan.unit, range(least, plan.unit + 1))
            if work.spent > _LAWS_WORK / 8:
                break
        if law is None or law.is_far(deviation):
            return None
        laws.append(law)
    rough = [law.merged(max(1, round(deviation / 2))) for law, (_, _, deviation) in zip(laws, seen, strict=True)]
    free = {
        (place, level)
        for (place, _, _), law in zip(seen, laws, strict=True)
        for level in range(1, plan.unit + 1)
        if law.numbers[:, level].any()
    }

    def vectors(place: int, data: _Polar) -> Array:
        polar = np.array([data.get((place, level), (0, 0)) for level in range(1, plan.unit + 1)])
        lengths, angles = (1 - 2.0**-50) / _FULL * polar[:, 0], math.pi / _HALF_TURN * polar[:, 1]
        return np.stack([lengths * np.cos(angles), lengths * np.sin(angles)], axis=1)

    orders = order * _ORDERS
    constant = log_peak(orders) - math.log(plan.delta)
    moments: dict[int, Array] = {}

    def epsilons(data: _Polar, changed: int) -> Array:  # in both directions, if the data of one phase are new
        moments[changed] = np.zeros((2, orders.size))
        for (place, each, deviation), law in zip(seen, rough, strict=True):
            if place == changed:
                moments[place] += each.number * law.log_moments(vectors(place, data), orders, deviation=deviation)
        return np.asarray(((sum(moments.values()) + constant) / orders).min(axis=1))

    best: _Polar = {}
    values = [epsilons(best, place) for place in range(len(phases))][-1:]

    def improve(data: _Polar, place: int) -> bool:
        nonlocal best
        before = moments[place]
        found = epsilons(data, place)
        if found.max() <= _MIN_GAIN_FACTOR * values[-1].max():
            moments[place] = before
            return False
        best = data
        values.append(found)
        return True

    costliest: list[tuple[_Polar, bool]] = []  # on the line and in the plane, and whether in D'||D
    for directions, moves in ((_ON_THE_LINE, ()), (_IN_THE_PLANE, _MOVES)):
        with suppress(TooLargeError):
            for place in range(len(phases)):
                levels = [key for key in sorted(free) if key[0] == place]
                for pattern in product(directions, repeat=len(levels)):
                    improve(best | dict(zip(levels, pattern, strict=True)), place)
            step = _FULL
            while step:
                is_better = False
                for key, (longer, turn) in product(sorted(free), moves):
                    length, angle = best.get(key, (0, 0))
                    turned, angle_now = divmod(angle + turn * step, _HALF_TURN)
                    other = (-1) ** turned * max(-_FULL, min(length + longer * step, _FULL)), angle_now
                    is_better |= other != (length, angle) and improve(best | {key: other}, key[0])
                step = step if is_better else step // 2
        costliest.append((best, bool(values[-1].argmax())))

    runs = []
    for data, is_swapped in costliest if costliest[0] != costliest[1] else costliest[:1]:
        counts = Counter[Curve]()
        for (place, each, deviation), law in zip(seen, laws, strict=True):
            loss: LossCurve = (law.swapped if is_swapped else law).loss(vectors(place, data), deviation=deviation)
            polar = [data.get((place, level), (0, 0)) for level in range(1, plan.unit + 1)]
            if not any(angle for _, angle in polar):  # the exact pair is as good, unless fewer others contribute to it
                lengths = [length for length, _ in polar]
                shared = math.gcd(_FULL, *lengths)
                on_line = Contributions(tuple(length // shared for length in lengths), _FULL // shared)
                p, q = each.pair(on_line)[:: -1 if is_swapped else 1]
                if len(p) <= _MAX_CENTERS and p != q:
                    exact = _observed_loss(phases[place], p, q, each.factor * on_line.length)
                    bounds = [trimmed_epsilon({one: each.number}, delta=plan.delta).value for one in (loss, exact)]
                    loss = exact if bounds[1] > bounds[0] / _MIN_GAIN_FACTOR else loss
            counts[loss] += each.number
        runs.append(dict(counts))
    return runs


def _candidates(
    plan: Plan, protected: ProtectedUnit, data_sets: "Sequence[_DataSet]", direction: str, *, has_random: bool
) -> Iterator[_Candidate]:
    """Yield the data sets of each phase that differ in their losses, in both directions.

    Those in which others contribute a random number of vectors, or those in which none do; only in a named direction if
    a phase has an allocation, which is slow.
    """
    phases = releasing_phases(plan)
    directions: tuple[bool, ...] = (False, True)
    if direction and any(phase.hierarchy.allocated for phase in phases):
        directions = (direction.startswith(BACKWARD),)
    seen = set[tuple[int, bool, frozenset[tuple[Curve, int]]]]()
    for signs, (place, data_set) in product(sign_patterns(plan.unit), [*enumerate(data_sets)]):
        if any(signs.others[level] for level in data_set.random_levels) is not has_random:
            continue
        phase_bound = protected.choices[plan.phases.index(phases[place])][0]
        is_tight = data_set.is_complete and _attains_bound(phase_bound, data_set.observations, signs)
        for is_swapped in directions:
            counts = _losses(phases[place], data_set.observations, signs, is_swapped=is_swapped)
            key = (place, is_swapped, frozenset(counts.items()))
            if key not in seen:
                seen.add(key)
                yield _Candidate(
                    phase=place, is_swapped=is_swapped, others=signs.others, counts=counts, is_tight=is_tight
                )


def _losses(
    phase: Phase, observations: "Iterable[_Observation]", contributions: Contributions, *, is_swapped: bool
) -> dict[Curve, int]:
    """Return how often each loss occurs; P = Q is left out, and that of an allocated pass is a lower bound."""
    counts: Counter[Curve] = Counter()
    for each in observations:
        p, q = each.pair(contributions)
        if p == q:
            continue
        factor = each.factor * contributions.length  # of the noise
        if each.allocated is None:
            loss: Curve = _observed_loss(phase, *((q, p) if is_swapped else (p, q)), factor)
        else:

            def bin_loss(steps: int, p: Mixture = p, q: Mixture = q, factor: float = factor) -> LossCurve:
                return _observed_loss(phase, p, q, factor / math.sqrt(steps))  # of the sum of a bin's steps

            estimate = Estimate.LOWER_REVERSED if is_swapped else Estimate.LOWER
            ((loss, _),) = pass_losses((replace(each.allocated, number=1),), bin_loss, estimate)
        counts[loss] += each.number
    return dict(counts)


def _observed_loss(phase: Phase, p: Mixture, q: Mixture, noise_factor: float) -> LossCurve:
    """Return the loss of a noisy observation of (P, Q); unless noise is Gaussian, it is a lower bound."""
    if isinstance(phase.mechanism, AdditiveNoise):
        return data_set_atoms(phase.mechanism, p, q)
    noise = phase.gaussian.noise_multiplier * noise_factor
    return MixturePair.of(_with_normal_weights(p), _with_normal_weights(q), deviation=noise)


def _with_normal_weights(mixture: Mixture) -> Mixture:
    """Return the mixture with weights below the least normal float raised to it, at the cost of the largest weight."""
    # A weight of Q that vanished as a float would make losses infinite. Those of P add less than 1e-303 to delta.
    tiny = [center for center, weight in mixture.items() if float(weight) < sys.float_info.min]
    if not tiny:
        return mixture
    raised = mixture | dict.fromkeys(tiny, Fraction(sys.float_info.min))
    raised[max(mixture, key=mixture.__getitem__)] -= sum(raised.values()) - 1
    return raised


def _attains_bound(phase_bound: PhaseBound, observations: "tuple[_Observation, ...]", signs: Contributions) -> bool:
    """Return True if the data set has exactly the pairs of the bound; False also where they cannot be compared."""
    if phase_bound.squared > 1 or phase_bound.revealed or phase_bound.steps_of_a_pass > 1 or not observations:
        return False
    if phase_bound.allocation is not None and (phase_bound.is_revealed or phase_bound.links != "-"):
        return False
    bound = phase_bound.bound
    while isinstance(bound, Average) and len(bound.parts) == 1 and bound.parts[0][0] == 1:
        ((_, bound),) = bound.parts
    match bound:
        case StepBound():
            own, other = (bound_mixtures(bound, each) for each in (bound.distances, bound.distances_swapped))
        case CountPair():
            own = count_mixtures(replace(bound, law=tuple(drop_rare_tail(dict(bound.law)).items())))
            other = own[::-1]
        case _:
            return False
    pairs = [each.pair(signs) for each in observations]
    return all(_canonical(pair) == _canonical(own) and _canonical(pair[::-1]) == _canonical(other) for pair in pairs)


def _canonical(pair: Pair) -> tuple[tuple[int, float, float], ...]:
    """Return a pair of mixtures as triples (center, p, q), equal for pairs that differ by a shift or reflection."""
    # Symmetric noise hides as much after a common shift or a reflection of all centers.
    p, q = ({center: float(weight) for center, weight in side.items() if weight > _NEGLIGIBLE_WEIGHT} for side in pair)
    centers = sorted({*p, *q})
    ahead = tuple((c - centers[0], p.get(c, 0.0), q.get(c, 0.0)) for c in centers)
    back = tuple((centers[-1] - c, p.get(c, 0.0), q.get(c, 0.0)) for c in reversed(centers))
    return min(ahead, back)


# The data sets of one phase, as independent observations. Gradients do not change under one draw, so only the sum of a
# pass, or of all steps under one outermost draw, is observed. A sum of other than Gaussian noise has no distribution of
# the same kind: then one step under each outermost draw is observed.


@dataclass(frozen=True, kw_only=True)
class _Observation:
    """Independent releases of a phase that have the same pair of distributions."""

    pair: Callable[[Contributions], Pair]  # of one release, for the contributions of all units
    factor: float = 1.0  # noise over that of a step: 1 / sqrt(k) for k steps under a draw, sqrt(n) for a sum of n steps
    number: int  # of such releases, >= 1
    allocated: AllocatedPass | None = None  # in whose bins a release happens, if units choose their steps


class _DataSet(NamedTuple):
    """The observations of a phase, whether they leave no step of the bound out, and levels of random siblings."""

    observations: tuple[_Observation, ...]
    is_complete: bool = True  # else the lower bound is valid, but not tight
    random_levels: tuple[int, ...] = ()  # indices of those whose siblings contribute a random number when drawn


def _data_set(plan: Plan, phase: Phase, protected: ProtectedUnit) -> _DataSet | None:
    """Return the known data set of a phase; None if none is known."""
    place, hierarchy = plan.phases.index(phase), phase.hierarchy
    if hierarchy.allocation is not None:
        return _allocated_data_set(plan, phase, hierarchy.allocation, protected.paths[place])
    if hierarchy.episodes is not None:
        built = partial(episode_pair, hierarchy, unit_and_clip=(plan.unit, phase.clip), members=plan.group_size)
        return _DataSet((_Observation(pair=cache(partial(built, adjacency=plan.adjacency)), number=phase.steps),))
    co_sampled = co_sampled_with(hierarchy, protected.paths[place], clip=phase.clip, members=plan.group_size)
    drawn = _drawn_data_set(plan, phase, co_sampled, protected.choices[place][0].hold)
    certain = co_sampled.sibling_contributions if co_sampled.frames else ()
    return drawn and drawn._replace(random_levels=tuple(at for at, vectors in enumerate(certain) if not vectors))


def _allocated_data_set(plan: Plan, phase: Phase, allocation: Allocation, path: Path) -> _DataSet | None:
    """Return the passes of units that choose their steps, or of several chosen steps of a unit the sum of all steps.

    One unit is zeroed or removed, and other units contribute zero. None where a unit chooses several steps and a sum of
    them has another kind of noise, or some steps are missing.
    """
    co_sampled = co_sampled_with(phase.hierarchy.given_allocation(), path, clip=phase.clip, members=1)
    adjacency = Adjacency.ZERO_OUT if plan.adjacency is Adjacency.REPLACE_ONE else plan.adjacency
    pair = _pair_of(co_sampled, replace(plan, group_size=1, adjacency=adjacency), has_zero_others=True)
    # Steps under a choice that is held depend on each other; only a sum of Gaussians is again of the same kind.
    is_certain = all(len(side) == 1 for side in pair(Contributions((0,) * plan.unit)))
    has_gaussian_sums = isinstance(phase.mechanism, Gaussian) and is_certain
    if isinstance(allocation, RandomAllocation) and (times := allocation.times) > 1:
        if not has_gaussian_sums or phase.steps < allocation.steps:
            return None

        def sum_of_all(contributions: Contributions) -> Pair:
            p, q = ({center * times: weight for center, weight in side.items()} for side in pair(contributions))
            return p, q

        return _DataSet((_Observation(pair=sum_of_all, factor=math.sqrt(allocation.steps), number=1),), False)
    steps, is_complete = phase.steps, True
    if isinstance(allocation, BallsInBins) and allocation.is_held and not has_gaussian_sums:
        steps, is_complete = min(steps, allocation.bins), False
    passes = allocation.passes(steps)
    return _DataSet(tuple(_Observation(pair=pair, number=each.number, allocated=each) for each in passes), is_complete)


def _drawn_data_set(plan: Plan, phase: Phase, co_sampled: CoSampled, hold: int) -> _DataSet | None:
    """Return sums of passes or periods, or single steps where sums have no Gaussian law; None if counts are unknown."""
    levels, unit, clip, members = phase.hierarchy.levels, plan.unit, phase.clip, plan.group_size
    schemes = [level.scheme for level in levels]
    path, co_sampled = co_sampled.path, replace(co_sampled, path=one_pass(co_sampled.path))  # a pass as one draw

    # One parent must hold the group, with as many units left as a pass draws, if the group is removed from it.
    scheme, left = co_sampled.path.schemes[-1], 0
    if path.schemes[-1].is_shuffled and plan.adjacency is Adjacency.ADD_REMOVE and scheme.has_stand_in:
        left = scheme.size
    if co_sampled.path.counts[-1] - left < members:
        return None

    # Numbers of records are not known where draws are cut beside a shuffle; below the clip above Poisson draws; below
    # clip or unit among unequal parents. Nor for Poisson draws below an `at_most` draw, of which smaller units have
    # fewer, or below the unit together with a shuffle, whose last batches hold fewer.
    random = [at for at, scheme in enumerate(schemes) if scheme.is_independent or scheme.is_cut]
    for at, scheme in enumerate(schemes):
        is_above_random = bool(random) and at < random[-1]
        is_uneven = at >= min(clip, unit) and not levels[at].is_equal
        if scheme.is_cut and (any(x.is_shuffled for x in schemes) or is_uneven or (at >= clip and is_above_random)):
            return None
        if scheme.at_most and any(below.is_independent for below in schemes[at:]):
            return None
    if any(x.is_shuffled for x in schemes[unit:]) and any(x.is_independent for x in schemes[unit:]):
        return None

    # A sum is Gaussian if all levels, from below the clip (or the unit if higher) to the last Poisson draw (or the unit
    # if lower, or its children if they differ), are held for as long as the unit.
    length = steps_of_a_pass(path, Group())
    shuffled = [number for number, scheme in enumerate(path.schemes, start=1) if scheme.is_shuffled]
    is_aligned = all(path.rate(number) == 1 for number in shuffled[:-1])  # it is known when innermost passes begin
    lowest = unit + 1 if co_sampled.child_contributions else unit
    for number, scheme in enumerate(schemes, start=1):
        if (scheme.is_independent or scheme.is_cut) and scheme.probability < 1:
            lowest = max(lowest, number)
    is_held = all(level.redraw_every == hold for level in levels[min(clip, unit - 1) : lowest])
    if isinstance(phase.mechanism, AdditiveNoise) or not is_held:
        if not is_aligned or length > 1:
            return None
        period = max((level.redraw_every for level in levels if not level.is_whole), default=1)
        single = _Observation(pair=_pair_of(co_sampled, plan), number=-(-phase.steps // period))  # begun draws count
        return _DataSet((single,), is_complete=hold == 1)

    observations = []
    if not is_shuffled(path):  # the sum under one outermost draw, of whole periods and of the one that remains
        periods = [level.redraw_every for level in levels]
        whole, remaining = divmod(phase.steps, periods[0])
        for steps, number in ((periods[0], whole), (remaining, 1)):
            if steps and number:
                lengths = [min(period, steps) for period in periods[:unit]]
                repeats = tuple(min(above // below, _MAX_SUMMED) for above, below in pairwise(lengths))
                factor = math.sqrt(math.prod(repeats) / lengths[-1])
                pair = _pair_of(co_sampled, plan, repeats)
                observations.append(_Observation(pair=pair, factor=factor, number=number))
        return _DataSet(tuple(observations))

    # The sum of a pass, in which every unit has had its turn once, or with drop_last those that were drawn for the
    # pass, of which the company's path has the law. Under another shuffle a pass takes as many steps as the passes
    # above it together.
    loses_a_step = is_shortened(
        phase.hierarchy, unit=unit, adjacency=plan.adjacency, group=Group(size=members, placement=members)
    )
    if clip < unit and loses_a_step:  # of vectors clipped above the unit it may leave one out
        return None
    # A sum of several clipped vectors, each of which may be empty, is certain only where they are 0.
    is_poisson_below = any(scheme.is_independent for scheme in schemes[clip:])
    may_be_empty = clip < unit and (is_poisson_below or not _keeps_a_record(plan, path, clip))
    whole, remaining = divmod(phase.steps, length) if is_aligned else (0, 0)
    sums = [(co_sampled, length, whole)] if whole else []
    if remaining and len(shuffled) == 1 and not loses_a_step:
        # The units of a begun pass are one fixed draw as large as its batches.
        begun = list(co_sampled.path.schemes)
        for at, scheme in enumerate(path.schemes):
            if scheme.is_shuffled:
                begun[at] = Fixed(size=remaining * scheme.size)
        sums.append((replace(co_sampled, path=replace(co_sampled.path, schemes=tuple(begun))), remaining, 1))
    for drawn, steps, number in sums:
        pair = _pair_of(drawn, plan, has_zero_others=length > 1 and may_be_empty)
        observations.append(_Observation(pair=pair, factor=math.sqrt(steps), number=number))
    return _DataSet(tuple(observations), is_complete=length == 1)


def _pair_of(
    co_sampled: CoSampled, plan: Plan, repeats: tuple[int, ...] = (), *, has_zero_others: bool = False
) -> Callable[[Contributions], Pair]:
    """Return, as a function of all contributions, (P, Q) of the sum under one draw of the outermost level."""
    has_zero_others = has_zero_others or needs_zero_others(co_sampled, plan)

    @cache
    def pair(contributions: Contributions) -> Pair:
        if has_zero_others:
            contributions = contributions._replace(others=(0,) * plan.unit)
        return data_set_pair(
            co_sampled, adjacency=plan.adjacency, contributions=contributions, members=plan.group_size, repeats=repeats
        )

    return pair


def needs_zero_others(co_sampled: CoSampled, plan: Plan) -> bool:
    """Return True if only a lower law is known of copies or members drawn, and is a bound only if others are zero."""

    def is_rough(trials: int, rate: Fraction) -> bool:
        # Pr[0] is too small for `binomial` to start from, so that it gives Chernoff's bound.
        is_surely_above_0 = 0 < rate < 1 and -trials * math.log1p(-min(float(rate), _BELOW_1)) > _SURE
        return is_surely_above_0 and 0 not in binomial(trials, rate)

    # Where nobody else contributes P lies left of 0 and Q does not: the best events are half-lines, so that fewer own
    # contributions tell less. Others, fewer of whom are drawn the more own there are, can hide larger numbers better.
    path = co_sampled.path
    above = zip(path.schemes[: min(co_sampled.clip, plan.unit - 1)], path.counts, strict=False)
    if any(scheme.can_repeat and is_rough(scheme.size, Fraction(1, n)) for scheme, n in above):
        return True
    scheme = path.schemes[-1]
    if co_sampled.clip >= plan.unit and scheme.can_repeat:
        # In a single draw, but for zero-out, P or Q is one point: then fewer own contributions tell less as well.
        is_half_line = plan.unit == 1 and plan.adjacency is not Adjacency.ZERO_OUT
        return not is_half_line and is_rough(scheme.size, Fraction(plan.group_size, path.counts[-1]))
    return co_sampled.clip >= plan.unit and scheme.is_independent and is_rough(plan.group_size, scheme.probability)


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
    for scheme, count, removed in levels:
        # The fewest different units of a parent in a step that draws any, a last batch too; 0 if left to chance.
        fewest = 0
        if scheme.is_shuffled:
            fewest = scheme.size if scheme.drop_last else count % scheme.size or scheme.size
        elif scheme.has_stand_in or scheme.is_whole:
            fewest = scheme.max_drawn(count)
        if fewest > removed:
            return True
    return False
