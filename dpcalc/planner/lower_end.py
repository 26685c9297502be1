"""Certified lower bounds on epsilon and delta: the privacy loss of one explicit pair of data sets.

Source: docs/theory.md, Theorem 10.1.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from operator import itemgetter
from typing import NamedTuple

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
_MIN_GAIN_FACTOR = 1.001  # factor on the moment bound below which another length may not raise epsilon
_NEGLIGIBLE_WEIGHT = Fraction(1, 2**60)  # of a weight: less than the round-off of weights near 1
_COMPOSITION_FAILURES = (ArithmeticError, UnsupportedError, MemoryError)
_LIKELY_COPIES = 64  # about the copies of a unit in one draw with replacement: more are so rare that they are merged
_MAX_COPIES = 10_000  # of the protected unit in nested draws; with more, one data set takes minutes


class LowerEpsilon(NamedTuple):
    """A certified lower bound on epsilon.

    Attributes:
        value: never above what the data set that it is of costs.
        is_tight: True if the pair of that data set is the bound's own in every phase.
    """

    value: float
    is_tight: bool


def epsilon_lower(plan: Plan | Composition, *, direction: str = "") -> LowerEpsilon | None:
    """Return a certified lower bound on epsilon that one data set attains; None if no such data set is known."""
    bounding = composed(plan)
    composition = bounding.attained
    if not releasing_phases(composition.plan):
        return LowerEpsilon(value=0.0, is_tight=True)
    worst = _worst_data_set(composition, direction)
    if worst is None:
        return None
    counts, delta = worst.counts, composition.plan.delta
    two_outcomes = partial(two_outcome_epsilon, counts, delta=delta)
    value, is_composed = _lower_bound(two_outcomes, lambda: epsilon_bounds(counts, delta=delta, sides=(LOWER,))[0])
    return LowerEpsilon(value or two_outcomes(), is_tight=is_composed and worst.is_tight and bounding.is_attained)


def delta_lower(plan: Plan | Composition, *, epsilon: float, direction: str = "") -> float:
    """Return a certified lower bound on delta, that of the worst data set known; 0 if none is known."""
    composition = composed(plan).attained
    worst = _worst_data_set(composition, direction) if releasing_phases(composition.plan) else None
    if worst is None:
        return 0.0
    counts, two_outcomes = worst.counts, partial(two_outcome_delta, worst.counts, epsilon=epsilon)
    value, is_composed = _lower_bound(two_outcomes, lambda: delta_bounds(counts, epsilon=epsilon, sides=(LOWER,))[0])
    return max(value, two_outcomes()) if is_composed else value


def _lower_bound(two_outcomes: Callable[[], float], compose: Callable[[], float]) -> tuple[float, bool]:
    """Return (bound by composition, True) or, if that fails, (two_outcomes(), False); raise its error if that is 0."""
    try:
        with allowance(_COMPOSITION_WORK):
            return compose(), True
    except _COMPOSITION_FAILURES:
        value = two_outcomes()
        if not value:
            raise
        return value, False


class _WorstRun(NamedTuple):
    """The steps of a data set of all phases, how often each occurs, and whether they attain the upper bound."""

    counts: dict[Curve, int]
    is_tight: bool


def _worst_data_set(composition: Composition, direction: str) -> _WorstRun | None:
    """Return the costliest known data set of the unit in `direction`, or of the costliest unit; None without any."""
    if not composition.plan.adds_noise:  # for other mechanisms no worst data set is known
        return None
    protected, order = composition.costliest(direction)
    # That order decides the upper bound; of a data set that costs much less it is a larger one.
    best_runs = _best_runs(composition.plan, protected, direction, np.array([order, _LARGER_ORDER * order]))
    if not best_runs or not any(candidate.counts for candidate in best_runs[0]):
        return None
    if not all(candidate.is_tight for candidate in best_runs[0]):
        return _WorstRun(_with_best_lengths(best_runs, composition.plan.delta), is_tight=False)
    return _WorstRun(_total_counts(best_runs[0]), is_tight=bool(direction) or len(composition.units) == 1)


def _best_runs(plan: Plan, protected: ProtectedUnit, direction: str, orders: Array) -> "list[_Run]":
    """Return, for each order, the run with the largest sum of log moments; none for an order without a complete run."""
    # Log moments add up, and the data may change from phase to phase: the best candidate of each phase is in it.
    best = _best_candidates(_candidates(plan, protected, direction), orders)
    number, runs = len(releasing_phases(plan)), []
    for index in range(orders.size):
        by_direction = [[best[place] for place in best if place[:2] == (index, swapped)] for swapped in (False, True)]
        complete = [run for run in by_direction if len(run) == number]
        if complete:
            largest = max(complete, key=lambda run: sum(each.log_moment for each in run))
            runs.append(tuple(each.candidate for each in largest))
    return runs


class _Ranked(NamedTuple):
    """A candidate with what ranks it among those of its phase and direction: its log moment, then its tightness."""

    log_moment: float
    is_tight: bool
    candidate: "_Candidate"


def _best_candidates(candidates: "Iterable[_Candidate]", orders: Array) -> dict[tuple[int, bool, int], _Ranked]:
    """Return the candidate with the largest log moment by (index of the order, is_swapped, phase), as work allows."""
    best: dict[tuple[int, bool, int], _Ranked] = {}
    with suppress(TooLargeError), allowance(_SEARCH_WORK):
        for candidate in candidates:
            for index, log_moment in enumerate(_log_moments(candidate.counts, orders)):
                place = (index, candidate.is_swapped, candidate.phase)
                if place not in best or (log_moment, candidate.is_tight) > best[place][:2]:
                    best[place] = _Ranked(log_moment, candidate.is_tight, candidate)
    return best


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A data set of one phase in one direction.

    Attributes:
        phase: number of the phase among those that release something.
        is_swapped: True for D'||D.
        others: contributions of the other units by level.
        counts: its steps and how often each occurs; {} if D and D' look the same.
        is_tight: True if they attain the unit's bound.
        counts_of: those of other contributions; None if they take too long.
    """

    phase: int
    is_swapped: bool
    others: tuple[Fraction, ...]
    counts: dict[Curve, int]
    is_tight: bool
    counts_of: Callable[[Contributions], dict[Curve, int] | None]


_Run = tuple[_Candidate, ...]
"""A candidate of each phase, all in one direction."""


def _total_counts(candidates: Iterable[_Candidate]) -> dict[Curve, int]:
    """Return how often each loss occurs in the given data sets of all phases together."""
    counts: Counter[Curve] = Counter()
    for candidate in candidates:
        counts.update(candidate.counts)
    return dict(counts)


def _log_moments(counts: dict[Curve, int], orders: Array) -> list[float]:
    """Return the log moments of a composition at some orders, 0 without steps."""
    if not counts:
        return [0.0] * orders.size
    return [float(value) for value in composed_moments(counts, max_order=orders.max()).cumulants(orders)[0]]


def _with_best_lengths(starts: Sequence[_Run], delta: float) -> dict[Curve, int]:
    """Return the costliest run's step losses, after varying what other units contribute to raise its epsilon.

    What others contribute tells whether their parent was drawn, and hides the unit if their number is random; of a
    length below 1 they may tell enough and hide less.
    """
    best = starts[0]
    with suppress(TooLargeError), allowance(_LENGTH_WORK):
        for run in _costlier_runs(starts, delta):
            best = run
    return _total_counts(best)


def _costlier_runs(starts: Sequence[_Run], delta: float) -> Iterator[_Run]:
    """Yield `_costliest_start`, then ever costlier runs with other contributions of other units, by moment bound.

    One level of one phase after the other is moved by a step that is doubled after a success and halved otherwise.
    """
    bound, best = _costliest_start(starts, delta)
    yield best
    step = _FINEST_LENGTH
    while step >= _FINEST_LENGTH:
        is_better = False
        for place, level, move in product(range(len(best)), reversed(range(len(best[0].others))), (-step, step)):
            changed = _moved_run(best, place, level, move)
            if changed and (value := _moment_bound(changed, delta)) > _MIN_GAIN_FACTOR * bound:
                bound, best, is_better = value, changed, True
                yield best
        step = step * 2 if is_better else step / 2


def _costliest_start(starts: Sequence[_Run], delta: float) -> tuple[float, _Run]:
    """Return (moment bound on epsilon, run) of the run with the largest one."""
    bound, best = _moment_bound(starts[0], delta), starts[0]
    for start in starts[1:]:
        if _total_counts(start) != _total_counts(best):
            bound, best = max((bound, best), (_moment_bound(start, delta), start), key=itemgetter(0))
    return bound, best


def _moment_bound(run: _Run, delta: float) -> float:
    """Return the moment bound on epsilon of a run."""
    return trimmed_epsilon(_total_counts(run), delta=delta).value


def _moved_run(run: _Run, place: int, level: int, move: Fraction) -> _Run | None:
    """Return the run with other contributions in one phase; None if that is impossible or changes nothing."""
    moved = _with_other_length(run[place], level, move)
    if moved is None or moved.counts == run[place].counts:
        return None
    return (*run[:place], moved, *run[place + 1 :])


def _with_other_length(candidate: _Candidate, level: int, move: Fraction) -> _Candidate | None:
    """Return the data set whose other units at a level add `move` clip norms more; None if over 1 or slow to count."""
    others = [*candidate.others[:level], candidate.others[level] + move, *candidate.others[level + 1 :]]
    if abs(others[level]) > 1:
        return None
    length = math.lcm(*(each.denominator for each in others))
    counts = candidate.counts_of(Contributions(tuple(int(each * length) for each in others), length))
    return replace(candidate, others=tuple(others), counts=counts) if counts else None


def _candidates(plan: Plan, protected: ProtectedUnit, direction: str) -> Iterator[_Candidate]:
    """Yield the data sets of each phase that differ in their losses, in the directions that `_swaps` allows."""
    phases, seen = releasing_phases(plan), set[tuple[int, bool, frozenset[tuple[Curve, int]]]]()
    for place, phase_set, signs in _signed_data_sets(plan, protected):
        is_tight = phase_set.is_complete and _attains_bound(phase_set.phase_bound, phase_set.repetitions, signs)
        for is_swapped in _swaps(phases, direction):
            released = partial(_released_curve, phases[place], is_swapped=is_swapped)
            counts = _loss_counts(released, phase_set, signs)
            key = (place, is_swapped, frozenset(counts.items()))
            if key not in seen:
                seen.add(key)
                yield _Candidate(
                    phase=place,
                    is_swapped=is_swapped,
                    others=tuple(map(Fraction, signs.others)),
                    counts=counts,
                    is_tight=is_tight,
                    counts_of=partial(_loss_counts_if_few, phases[place], released, phase_set),
                )


def _swaps(phases: tuple[Phase, ...], direction: str) -> tuple[bool, ...]:
    """Return both values of `is_swapped`, or only that of a named direction if a phase has a (slow) allocation."""
    if direction and any(phase.hierarchy.allocated for phase in phases):
        return (direction.startswith(BACKWARD),)
    return (False, True)


def _signed_data_sets(plan: Plan, protected: ProtectedUnit) -> Iterator[tuple[int, PhaseDataSet, Contributions]]:
    """Yield (place of the phase, its data set, signs of contributions) for all signs, with random siblings last."""
    places = tuple(enumerate(_phase_data_sets(plan, protected)))
    # Siblings whose contributions are random make many centers: data sets in which they contribute come last.
    for is_random, signs, (place, phase_set) in product((False, True), sign_patterns(plan.unit), places):
        if any(signs.others[level] for level in phase_set.random_levels) is is_random:
            yield place, phase_set, signs


def _phase_data_sets(plan: Plan, protected: ProtectedUnit) -> tuple[PhaseDataSet, ...]:
    """Return the known data sets of each releasing phase; () if one has none, or too many copies of a unit."""
    phases = releasing_phases(plan)
    paths = [(protected.paths[plan.phases.index(phase)], min(phase.clip, plan.unit)) for phase in phases]
    if not all(_is_enumerable(path, lowest) for path, lowest in paths):
        return ()
    known = tuple(each for phase in phases if (each := _data_set(plan, phase, protected)) is not None)
    return known if len(known) == len(phases) else ()


def _loss_counts(
    released: Callable[[Repetition, Pair], Curve], phase_set: PhaseDataSet, contributions: Contributions
) -> dict[Curve, int]:
    """Count the losses of a data set, with noise multiplied by the contributions' length; P = Q is left out."""
    counts: Counter[Curve] = Counter()
    for part in phase_set.repetitions:
        p, q = part.pair(contributions)
        if p != q:
            counts[released(replace(part, factor=part.factor * contributions.length), (p, q))] += part.number
    return dict(counts)


def _loss_counts_if_few(
    phase: Phase, released: Callable[[Repetition, Pair], Curve], phase_set: PhaseDataSet, contributions: Contributions
) -> dict[Curve, int] | None:
    """Return `_loss_counts` if it is quick; None for noise that is not Gaussian, an allocation or over 200 centers."""
    if not isinstance(phase.mechanism, Gaussian) or phase.hierarchy.allocation is not None:
        return None
    sizes = [len(side) for part in phase_set.repetitions for side in part.pair(contributions)]
    return None if max(sizes, default=0) > _MAX_CENTERS else _loss_counts(released, phase_set, contributions)


def _released_curve(phase: Phase, part: Repetition, pair: Pair, *, is_swapped: bool) -> Curve:
    """Return the loss of one repetition, or a lower bound on that of an allocated pass, in the given direction."""
    if part.allocated is None:
        return _observed_loss(phase, *(pair[::-1] if is_swapped else pair), part.factor)

    def bin_loss(steps: int) -> LossCurve:  # of the sum of a bin's steps
        return _observed_loss(phase, *pair, part.factor / math.sqrt(steps))

    estimate = Estimate.LOWER_REVERSED if is_swapped else Estimate.LOWER
    ((curve, _),) = pass_losses((replace(part.allocated, number=1),), bin_loss, estimate)
    return curve


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


def _data_set(plan: Plan, phase: Phase, protected: ProtectedUnit) -> PhaseDataSet | None:
    """Return the known data set of a phase, with or without an allocation; None if none is known."""
    place, allocation = plan.phases.index(phase), phase.hierarchy.allocation
    path, phase_bound = protected.paths[place], protected.choices[place][0]
    if allocation is None:
        return drawn_data_set(plan, phase, path, phase_bound)
    return allocated_data_set(plan, phase, allocation, path, phase_bound)


def _is_enumerable(path: Path, lowest: int) -> bool:
    """Return True if draws with replacement down to level `lowest` make at most about 10,000 copies of a unit."""
    sizes = (scheme.size for scheme in path.schemes[:lowest] if isinstance(scheme, WithReplacement))
    return math.prod(min(size, _LIKELY_COPIES) for size in sizes) <= _MAX_COPIES


def _attains_bound(phase_bound: PhaseBound, repetitions: tuple[Repetition, ...], signs: Contributions) -> bool:
    """Return True if the data set has exactly the pairs of the bound; False also where they cannot be compared."""
    if phase_bound.squared > 1 or phase_bound.revealed or phase_bound.steps_of_a_pass > 1 or not repetitions:
        return False
    if phase_bound.allocation is not None and (phase_bound.is_revealed or phase_bound.links != "-"):
        return False
    return all(_has_pair(phase_bound.bound, part.pair(signs)) for part in repetitions)


def _has_pair(bound: Bound, pair: Pair) -> bool:
    """Return True if a step or count bound, or the only one averaged, has this pair up to `_canonical`; else False."""
    match bound:
        case Average(parts=((chance, one),)) if chance == 1:
            return _has_pair(one, pair)
        case StepBound():
            own, other = (bound_mixtures(bound, each) for each in (bound.distances, bound.distances_swapped))
            return _canonical(pair) == _canonical(own) and _canonical(pair[::-1]) == _canonical(other)
        case CountPair():
            exact = replace(bound, law=tuple(drop_rare_tail(dict(bound.law)).items()))
            return _canonical(pair) == _canonical(count_mixtures(exact))
        case _:
            return False


def _canonical(pair: Pair) -> tuple[tuple[int, float, float], ...]:
    """Return a pair of mixtures as triples (center, p, q), equal for pairs that differ by a shift or reflection."""
    # Symmetric noise hides as much after a common shift or a reflection of all centers.
    p, q = ({center: float(weight) for center, weight in side.items() if weight > _NEGLIGIBLE_WEIGHT} for side in pair)
    centers = sorted({*p, *q})
    ahead = tuple((c - centers[0], p.get(c, 0.0), q.get(c, 0.0)) for c in centers)
    back = tuple((centers[-1] - c, p.get(c, 0.0), q.get(c, 0.0)) for c in reversed(centers))
    return min(ahead, back)
