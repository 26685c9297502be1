"""Certified lower bounds on epsilon and delta: the privacy loss of one explicit pair of data sets.

Of each phase data sets are known that differ in what other units contribute. They are released as independent
observations; the ones that cost most, phase by phase, are composed.

Source: docs/theory.md, Theorem 10.1.
"""

import math
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from dpcalc.accountants.composed_loss import LOWER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.accountants.two_outcomes import two_outcome_delta, two_outcome_epsilon
from dpcalc.amplification.bound import Average, CountPair, StepBound
from dpcalc.amplification.data_sets import (
    FEW_CELLS,
    FULL,
    Contributions,
    DrawnNumbers,
    Mixture,
    Pair,
    RoughLoss,
    data_set_atoms,
    data_set_pair,
    episode_pair,
    line_masses,
    rough_epsilon,
    rough_normal_masses,
)
from dpcalc.amplification.groups import Group
from dpcalc.amplification.schedule import PhaseBound, is_shortened, is_shuffled, pass_losses, steps_of_a_pass
from dpcalc.errors import TooLargeError, UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.likelihood_ratio import Estimate
from dpcalc.losses.loss import LossCurve
from dpcalc.losses.moments import Curve, Steps, composed_moments
from dpcalc.losses.pair import MixturePair
from dpcalc.mechanisms.additive import AdditiveNoise, Gaussian
from dpcalc.numerics import Array
from dpcalc.planner.composition import BACKWARD, Composition, ProtectedUnit, composed, draws_unit, releasing_phases
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.counts import binomial, drop_rare_tail
from dpcalc.sampling.paths import CoSampled, Path, co_sampled_with, one_pass
from dpcalc.sampling.schemes import AllocatedPass, Allocation, BallsInBins, Fixed, RandomAllocation
from dpcalc.work import SECOND, allowance, own_allowance

LOWER_WORK = 2.0 * SECOND  # for the data sets that are tried, the composition of the costliest, and what replaces it
_SEARCH_WORK, _COMPOSITION_WORK = 1.1 * SECOND, 0.9 * SECOND
_LAWS_WORK = 0.7 * SECOND  # for the numbers of vectors that a phase's steps draw
_PAIR_WORK = 0.2 * SECOND  # for an exact pair on the line
_ORDERS = 0.5, 8.0, 24  # of data sets, over that of the upper bound, and their number
_HALF_TURN = 32  # steps of half a turn: epsilon is flat near the best ones
# The contributions (length, angle) that are tried first of each level, on the line and in the plane, and their moves.
_ON_THE_LINE = (FULL, 0), (-FULL, 0), (0, 0)
_IN_THE_PLANE = (*_ON_THE_LINE, (FULL, _HALF_TURN // 2))
_MOVES = (1, 0), (-1, 0), (0, 1), (0, -1)
_MAX_CENTERS = 200  # of a mixture on the line: twice as many take twice as long to compose
_FEW_CENTERS = 48  # of the numbers that a unit contributes in a step that it chose, where more take too much work
_MANY_CENTERS = 250  # of which it is known that they do
_LEFT_OUT_BELOW, _LEFT_OUT_ABOVE = 1e-3, 1e-7  # shares of these numbers that are rounded to 0, and to the largest
_MIN_GAIN_FACTOR = 1.0002  # factor on the estimate below which other contributions may not raise epsilon
_NEGLIGIBLE_WEIGHT = 2.0**-60  # of a weight: less than the round-off of weights near 1
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


def _fewer_centers(side: Mixture, other: Mixture) -> Mixture:
    """Return the mixture with few centers, each rounded towards 0, if the other one is at 0 and all lie on one side.

    Events that tell most are half-lines then, which this makes tell less: a lower bound in both directions.

    Source: docs/theory.md, Theorem 10.1.
    """
    if len(side) <= _FEW_CENTERS or other.keys() != {0} or min(side) < 0 < max(side):
        return side
    sign, centers = -1 if min(side) < 0 else 1, sorted(side, key=abs)
    weights = np.cumsum([float(side[center]) for center in centers])
    first, last = np.searchsorted(weights, [_LEFT_OUT_BELOW, 1 - _LEFT_OUT_ABOVE])
    low, high = abs(centers[first]), abs(centers[min(int(last), len(centers) - 1)])
    kept = [0, *(low + (high - low) * at // _FEW_CENTERS for at in range(_FEW_CENTERS + 1))]
    rounded: Mixture = {}
    for center, weight in side.items():
        nearest = sign * kept[bisect_right(kept, abs(center)) - 1]
        rounded[nearest] = rounded.get(nearest, Fraction(0)) + weight
    return rounded


_Polar = dict[tuple[int, int], tuple[int, int]]  # by place of a phase and level: signed length, angle


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """An observation of a phase, with the numbers of vectors that a step draws."""

    place: int  # of the phase among those that release something
    phase: Phase
    each: "_Observation"
    law: DrawnNumbers

    @property
    def noise(self) -> AdditiveNoise | float:
        """The noise of one release; if Gaussian, its deviation."""
        if isinstance(self.phase.mechanism, AdditiveNoise):
            return self.phase.mechanism
        return self.phase.gaussian.noise_multiplier * self.each.factor

    @property
    def in_plane(self) -> bool:
        return isinstance(self.phase.mechanism, Gaussian) and self.each.allocated is None

    def is_free(self, level: int) -> bool:
        """Return True if a step draws a random number of vectors beside the unit's ancestor at that level."""
        return bool(self.law.numbers[:, level].any())

    def loss(self, polar: Sequence[tuple[int, int]], *, is_swapped: bool, is_rounded: bool = False) -> Curve | None:
        """Return a lower bound on the loss, if others contribute vectors (length, angle) by level; None for P = Q.

        Of a unit that chooses its steps the own contributions may be rounded down to few numbers.
        """
        polar = [each if self.is_free(level) else (0, 0) for level, each in enumerate(polar, start=1)]
        if all(angle == 0 or length == 0 for length, angle in polar):
            lengths = [length for length, _ in polar]
            shared = math.gcd(FULL, *lengths)
            signs, length = tuple(each // shared for each in lengths), FULL // shared
            allocated = self.each.allocated
            is_short = allocated or self.law.on_line([each / FULL for each in lengths])[0].size <= _MAX_CENTERS
            p = q = None
            with suppress(*() if allocated else (TooLargeError,)), allowance(_PAIR_WORK):
                if is_short:
                    p, q = self.each.pair(Contributions(signs, length))[:: -1 if is_swapped else 1]
                    if allocated and is_rounded:
                        p, q = _fewer_centers(p, q), _fewer_centers(q, p)
            if p is not None and q is not None and (allocated or len({*p, *q}) <= _MAX_CENTERS):
                if p == q:
                    return None
                sides, mechanism = (_with_normal_weights(p), _with_normal_weights(q)), self.phase.mechanism

                def of_bin(steps: int) -> LossCurve:  # of the sum of its steps
                    if isinstance(mechanism, AdditiveNoise):
                        return data_set_atoms(mechanism.scaled(length), p, q)
                    noise = self.phase.gaussian.noise_multiplier * self.each.factor * length / math.sqrt(steps)
                    return MixturePair.of(*sides, deviation=noise)

                if allocated is None:
                    return of_bin(1)
                estimate = Estimate.LOWER_REVERSED if is_swapped else Estimate.LOWER
                ((curve, _),) = pass_losses((replace(allocated, number=1),), of_bin, estimate)
                return curve
        law = self.law.swapped if is_swapped else self.law
        return law.loss(_vectors(polar), noise=self.noise)


def _vectors(polar: Sequence[tuple[int, int]]) -> Array:
    """Return vectors of the plane, shape (levels, 2), from their lengths and angles."""
    lengths, angles = np.array(polar, dtype=float).T
    lengths, angles = (1 - 2.0**-50) / FULL * lengths, math.pi / _HALF_TURN * angles
    return np.stack([lengths * np.cos(angles), lengths * np.sin(angles)], axis=1)


def _worst_data_sets(composition: Composition, direction: str) -> tuple[list[dict[Curve, int]], bool]:
    """Return (losses of the costliest known data sets of all phases, whether the first attains the bound).

    They are of the unit in `direction`, or of the costliest unit: one on the line, and perhaps one in the plane.
    """
    plan = composition.plan
    if not plan.adds_noise:  # for other mechanisms no worst data set is known
        return [], False
    protected, order = composition.costliest(direction)
    places = [place for place, phase in enumerate(plan.phases) if draws_unit(plan, phase)]
    phases = [plan.phases[place] for place in places]
    for place, phase in zip(places, phases, strict=True):  # the copies of a unit that draws with replacement can make
        schemes = protected.paths[place].schemes[: min(phase.clip, plan.unit)]
        sizes = (min(scheme.size, _LIKELY_COPIES) for scheme in schemes if scheme.can_repeat)
        if math.prod(sizes) > _MAX_COPIES:
            return [], False
    found = [_data_set(plan, phase, protected) for phase in phases]
    data_sets = [each for each in found if each is not None]
    if len(data_sets) < len(phases):
        return [], False
    directions: tuple[bool, ...] = (False, True)
    if direction and any(phase.hierarchy.allocated for phase in phases):  # which is slow
        directions = (direction.startswith(BACKWARD),)

    with suppress(TooLargeError), allowance(_SEARCH_WORK):
        seen = []
        for place, (phase, data_set) in enumerate(zip(phases, data_sets, strict=True)):
            for each in data_set.observations:
                law = _drawn_numbers(plan, phase, each)
                seen.append(_Seen(place=place, phase=phase, each=each, law=law))
        if not seen:  # no step is known in which the unit has its turn
            return [], False

        def losses(data: _Polar, *, is_swapped: bool, is_rounded: bool = False) -> dict[Curve, int]:
            counts = Counter[Curve]()
            for one in seen:
                polar = [data.get((one.place, level), (0, 0)) for level in range(1, plan.unit + 1)]
                loss = one.loss(polar, is_swapped=is_swapped, is_rounded=is_rounded)
                if loss is not None:
                    counts[loss] += one.each.number
            return dict(counts)

        # A data set with the bound's own pairs costs most.
        attaining: _Polar = {}
        for place, data_set in enumerate(data_sets):
            laws = [one.law for one in seen if one.place == place]
            bound = protected.choices[places[place]][0]
            pattern = _attaining_pattern(bound, laws, plan.unit) if data_set.is_complete else None
            if pattern is None:
                break
            attaining |= {(place, level): (FULL * sign, 0) for level, sign in enumerate(pattern, start=1)}
        attains = len(attaining) == plan.unit * len(phases)
        costliest = [(attaining, False)] if attains else _search(plan, seen, order)

        def costlier(data: _Polar, *, is_rounded: bool = False) -> dict[Curve, int]:
            both = [losses(data, is_swapped=is_swapped, is_rounded=is_rounded) for is_swapped in directions]
            moments = [composed_moments(counts, max_order=order).cumulants(np.array([order]))[0][0] for counts in both]
            return both[int(np.argmax(moments))]

        is_long = any(one.each.allocated and len(one.law.numbers) > _MANY_CENTERS for one in seen)
        runs: list[dict[Curve, int]] = []
        with suppress(TooLargeError):  # of steps that units choose the search does not see what they hide
            if attains or any(one.each.allocated for one in seen):
                runs = [] if is_long else [costlier(costliest[-1][0])]
            else:
                runs = [losses(data, is_swapped=is_swapped) for data, is_swapped in costliest]
        if not runs:  # then others contribute nothing, and the unit fewer numbers
            attains = False
            with own_allowance(_COMPOSITION_WORK):
                runs = [costlier({}, is_rounded=True)]
        is_tight = attains and (bool(direction) or len(composition.units) == 1)
        return [run for run in runs if run], is_tight
    return [], False


def _drawn_numbers(plan: Plan, phase: Phase, each: "_Observation") -> DrawnNumbers:
    """Return the law of what a release draws, with as many levels' other units as the work for it allows."""
    # Others of outer levels contribute where cases are few, and if they depend on the unit's draw: what is beside an
    # outermost Poisson draw of it does not. A further level of random numbers makes many more cases.
    hierarchy = phase.hierarchy
    first = 2 if hierarchy.episodes is None and hierarchy.levels[0].scheme.is_independent else 1
    law = DrawnNumbers.of(each.pair, plan.unit, ())
    for least in range(plan.unit, first - 1, -1):
        with suppress(TooLargeError), allowance(_LAWS_WORK) as work:
            law = DrawnNumbers.of(each.pair, plan.unit, range(least, plan.unit + 1))
        if work.spent > _LAWS_WORK / 8:
            break
    return law


def _search(plan: Plan, seen: Sequence[_Seen], order: float) -> list[tuple[_Polar, bool]]:
    """Return the costliest data set found in which others contribute +1, -1 or 0, the one found from there, and for
    each whether in D'||D.

    Under Gaussian noise others may contribute vectors of the plane. Across the line on which the unit does, they show
    whether their parent was drawn and do not hide it; on it, of a length below 1, they may tell enough and hide less.
    From the best pattern of few directions on one level of one phase after the other is lengthened, shortened or
    turned, in smaller and smaller steps, as long as an estimate of epsilon rises.
    """
    least, most, number = _ORDERS
    orders = np.geomspace(min(1.0, least * order), most * order, number)
    rough, masses = [], []
    for one in seen:
        scale = one.phase.mechanism.noise_multiplier * one.each.factor  # type: ignore[attr-defined]
        law = one.law.merged(max(1, round(scale / 2)))
        rough.append(law)
        if isinstance(one.noise, AdditiveNoise):
            reach = np.abs(law.numbers[:, 1:]).sum(axis=1).max()
            low, high = law.numbers[:, 0].min() - reach, law.numbers[:, 0].max() + reach
            grid = np.arange(low, high + 1 / FULL, 1 if one.noise.is_whole else 1 / FULL)
            masses.append(line_masses(one.noise, grid, cells=FEW_CELLS))
        else:
            far = orders.max() * np.ptp(law.numbers[:, 0]) / one.noise
            masses.append(partial(rough_normal_masses, deviation=one.noise, far=far))
    free = {(one.place, level): one for one in seen for level in range(1, plan.unit + 1) if one.is_free(level)}
    sides: dict[int, list[tuple[Sequence[RoughLoss], int]]] = {}  # by place: losses in both directions, and how often

    def epsilons(data: _Polar, changed: int) -> Array:  # in both directions, if the data of one phase are new
        sides[changed] = []
        for one, law, noise in zip(seen, rough, masses, strict=True):
            if one.place == changed:
                polar = [data.get((changed, level), (0, 0)) for level in range(1, plan.unit + 1)]
                sides[changed].append((law.rough_losses(_vectors(polar), noise), one.each.number))
        found = []
        for side in range(2):
            steps = [(losses[side], number) for each in sides.values() for losses, number in each]
            found.append(rough_epsilon(steps, orders, delta=plan.delta))
        return np.array(found)

    best: _Polar = {}
    places = sorted({one.place for one in seen})
    values = [epsilons(best, place) for place in places][-1:]

    def improve(data: _Polar, place: int) -> bool:
        nonlocal best
        before = sides[place]
        found = epsilons(data, place)
        if found.max() <= _MIN_GAIN_FACTOR * values[-1].max():
            sides[place] = before
            return False
        best = data
        values.append(found)
        return True

    costliest: list[tuple[_Polar, bool]] = []  # of whole contributions on the line, and of others
    for in_plane in (False, True):
        with suppress(TooLargeError):
            for place in places:
                levels = [key for key in sorted(free) if key[0] == place]
                pattern_of = _IN_THE_PLANE if in_plane else _ON_THE_LINE
                if levels and (not in_plane or free[levels[0]].in_plane):
                    for pattern in product(pattern_of, repeat=len(levels)):
                        improve(best | dict(zip(levels, pattern, strict=True)), place)
            step = FULL if in_plane else 0
            while step:
                is_better = False
                for key, (longer, turn) in product(sorted(free), _MOVES):
                    noise = free[key].noise
                    if (turn and not free[key].in_plane) or (isinstance(noise, AdditiveNoise) and noise.is_whole):
                        continue
                    length, angle = best.get(key, (0, 0))
                    turned, angle_now = divmod(angle + turn * step, _HALF_TURN)
                    other = (1 - 2 * (turned % 2)) * max(-FULL, min(length + longer * step, FULL)), angle_now
                    is_better |= other != (length, angle) and improve(best | {key: other}, key[0])
                step = step if is_better else step // 2
        costliest.append((best, bool(values[-1].argmax())))
    return costliest if costliest[0] != costliest[1] else costliest[:1]


def _with_normal_weights(mixture: Mixture) -> Mixture:
    """Return the mixture with weights below the least normal float raised to it, at the cost of the largest weight."""
    # A weight of Q that vanished as a float would make losses infinite. Those of P add less than 1e-303 to delta.
    tiny = [center for center, weight in mixture.items() if float(weight) < sys.float_info.min]
    if not tiny:
        return mixture
    raised = mixture | dict.fromkeys(tiny, Fraction(sys.float_info.min))
    raised[max(mixture, key=mixture.__getitem__)] -= sum(raised.values()) - 1
    return raised


def _attaining_pattern(phase_bound: PhaseBound, laws: Sequence[DrawnNumbers], unit: int) -> tuple[int, ...] | None:
    """Return +1, -1 or 0 by level with which others make exactly the pairs of the bound; None also in doubt."""
    if phase_bound.squared > 1 or phase_bound.revealed or phase_bound.steps_of_a_pass > 1 or not laws:
        return None
    if phase_bound.allocation is not None and (phase_bound.is_revealed or phase_bound.links != "-"):
        return None
    bound = phase_bound.bound
    while isinstance(bound, Average) and len(bound.parts) == 1 and bound.parts[0][0] == 1:
        ((_, bound),) = bound.parts
    if isinstance(bound, CountPair):
        bound = replace(bound, law=tuple(drop_rare_tail(dict(bound.law)).items()))
    if not isinstance(bound, StepBound | CountPair):
        return None
    own, other = bound.mixtures

    def canonical(centers: Array, p: Array, q: Array) -> Array:
        """A pair of mixtures as rows (center, p, q) from the first center that is likely in either on."""
        p, q = (np.where(side > _NEGLIGIBLE_WEIGHT, side, 0.0) for side in (p, q))
        rows = np.stack([centers, p, q], axis=1)[(p > 0) | (q > 0)]
        return np.asarray(rows - [rows[0, 0], 0, 0])

    def bound_pair(p: Mixture, q: Mixture) -> Array:
        centers = sorted({*p, *q})
        sides = ([float(side.get(center, 0)) for center in centers] for side in (p, q))
        return canonical(np.array(centers, dtype=float), *map(np.array, sides))

    # Symmetric noise hides as much after a common shift or a reflection of all centers.
    ahead, back = bound_pair(*own), bound_pair(*other)[:, [0, 2, 1]]
    turned = [np.concatenate([each[-1:, :1] - each[::-1, :1], each[::-1, 1:]], axis=1) for each in (ahead, back)]
    for pattern in product((1, -1, 0), repeat=unit):
        pairs = [canonical(*law.on_line(pattern)) for law in laws]
        if all(
            any(pair.shape == one.shape and np.allclose(pair, one, rtol=1e-12, atol=0) for one in ways)
            for pair, ways in product(pairs, zip((ahead, back), turned, strict=True))
        ):
            return pattern
    return None


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
    """The observations of a phase, and whether they leave no step of the bound out."""

    observations: tuple[_Observation, ...]
    is_complete: bool = True  # else the lower bound is valid, but not tight


def _data_set(plan: Plan, phase: Phase, protected: ProtectedUnit) -> _DataSet | None:
    """Return the known data set of a phase; None if none is known."""
    place, hierarchy = plan.phases.index(phase), phase.hierarchy
    if hierarchy.allocation is not None:
        return _allocated_data_set(plan, phase, hierarchy.allocation, protected.paths[place])
    if hierarchy.episodes is not None:
        built = partial(episode_pair, hierarchy, unit=plan.unit, clip=phase.clip, members=plan.group_size)
        return _DataSet((_Observation(pair=cache(partial(built, adjacency=plan.adjacency)), number=phase.steps),))
    co_sampled = co_sampled_with(hierarchy, protected.paths[place], clip=phase.clip, members=plan.group_size)
    return _drawn_data_set(plan, phase, co_sampled, protected.choices[place][0].hold)


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
