"""Membership inference: bounds on true and false positive rates of the best attacker, from the composed loss.

Every test with false positive rate a has, for every epsilon >= 0 with its delta, a true positive rate of at most

    e^epsilon a + delta    and    1 - e^-epsilon (1 - a - delta of the opposite direction)

(Wasserman and Zhou 2010, Theorem 2.4; Kairouz, Oh, Viswanath 2015, 1311.0776v4, Theorem 2.1). All epsilons together
give the whole curve (Dong, Roth, Su 2022, 1905.02383v3, Proposition 2.12); the bound is the least at some thousand of
them, with certified deltas.

Source: docs/theory.md, Theorem 11.1.
"""

import math
from dataclasses import replace
from itertools import product
from operator import itemgetter

import numpy as np

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.plain import closed_form_profile, closed_form_rdp, closed_form_rdp_delta
from dpcalc.accountants.pld import delta_bounds, delta_upper_curve
from dpcalc.accountants.rdp import NEGLIGIBLE, best_delta, best_epsilon, moment_profile
from dpcalc.accountants.result import StepCounts, costliest_release
from dpcalc.arrays import Array
from dpcalc.errors import InputError, UnsupportedError, WorkExceededError
from dpcalc.guarantee import Result
from dpcalc.losses.moments import total_infinity_mass
from dpcalc.numerics.convolution import UNIT_ROUNDOFF
from dpcalc.planner.composition import Composition, composed, is_noiseless
from dpcalc.planner.gdp import GaussianSummary, gaussian_summary
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.work import SECOND, allowance, own_allowance

RISK_WORK = 6.0 * SECOND  # for the whole answer; from there on closed-form moments bound it
_COMPOSITION_WORK, _MOMENT_WORK = 2.0 * SECOND, 1.0 * SECOND
"""For one of the few compositions of an answer, and for the moments of one unit that bound it in its place."""
ROUGH_NOTE = "some bounds are looser ones, by Renyi divergences: the sharp ones need more work than one answer may take"
_NEGLIGIBLE_SHARE = 1e-3  # a delta that is this part of a false positive rate matters no more
_DENSE_EPSILONS = 3000  # number of epsilons near 0, where most rates are decided
_SPARSE_EPSILONS = 1000  # of those beyond, for misses and deltas
_LAST_DENSE_EPSILON = 20.0  # last epsilon near 0, at least
_LARGEST_EPSILON = 700.0  # largest epsilon whose exponential is finite
_TYPICAL_DELTA = 0.5  # at epsilon 0, where bounds of phases are ranked, too
_FEW_MISSES = 0.01  # a false negative rate below it is decided by epsilons of its own, for which it is composed anew
_MISS_ROUNDS = 3  # compositions for them at most; each finds the deciding epsilon by the delta of the one before


_BothCounts = tuple[StepCounts, StepCounts]  # of the directions D||D' and D'||D


@dataclass(frozen=True, eq=False)
class Profiles:
    """Privacy profiles of a run in both directions, upper bounds on delta at the same epsilons.

    Attributes:
        epsilons: increasing, the first is 0, shape (n,).
        forward: delta of D||D' at each, shape (n,).
        backward: delta of D'||D at each, shape (n,).
        is_rough: whether a composition needed too much work, so that Renyi divergences bound it.
    """

    epsilons: Array
    forward: Array
    backward: Array
    is_rough: bool = False

    def true_positive_rates(self, rates: Array) -> tuple[Array, Array]:
        """Return upper bounds on true positive rates of attackers that detect D, and D', at n false positive rates."""
        ahead, back = self.forward, self.backward
        return self._max_detected(rates, ahead, back), self._max_detected(rates, back, ahead)

    def _max_detected(self, rates: Array, own: Array, other: Array) -> Array:
        """Return the smallest of the upper bounds on true positive rates that either profile proves at any epsilon."""
        a = rates[:, None]
        ahead, back = self._by_own_profile(a, own).min(axis=1), 1 - self._by_opposite_profile(a, other).max(axis=1)
        lowest: Array = np.clip(np.minimum(ahead, back), rates, 1.0)
        return lowest

    def false_negative_rates(self, rates: Array) -> tuple[Array, Array]:
        """Return lower bounds on false negative rates of attackers that detect D, and D', at n false positive rates.

        They are 1 - the true positive rates, with all digits where next to nothing is missed.
        """
        ahead, back = self.forward, self.backward
        return self._min_missed(rates, ahead, back), self._min_missed(rates, back, ahead)

    def _min_missed(self, rates: Array, own: Array, other: Array) -> Array:
        """Return the largest of the lower bounds on false negative rates that either profile proves at any epsilon."""
        a = rates[:, None]
        ahead = 1 - self._by_own_profile(a, own).min(axis=1) - 4 * UNIT_ROUNDOFF
        missed: Array = np.clip(np.maximum(ahead, self._by_opposite_profile(a, other).max(axis=1)), 0.0, 1 - rates)
        return missed

    def _by_own_profile(self, rates: Array, own: Array) -> Array:
        """Return e^epsilon a + own for each rate a and each epsilon; `own` is the delta of this direction."""
        detected: Array = np.exp(np.minimum(self.epsilons, _LARGEST_EPSILON)) * rates + own
        return detected

    def _by_opposite_profile(self, rates: Array, other: Array) -> Array:
        """Return the lower bounds on false negative rates that the opposite profile proves at each epsilon."""
        # Rounded down, since it is taken from 1 where an upper bound is asked.
        remaining: Array = np.exp(-self.epsilons) * np.maximum(1 - rates - other - 4 * UNIT_ROUNDOFF, 0.0)
        return remaining * (1 - 8 * UNIT_ROUNDOFF)

    def deciding_epsilon(self, rate: float, *, forward: bool) -> float:
        """Return the epsilon at which the opposite profile proves the largest false negative rate."""
        back = self._by_opposite_profile(np.array([[rate]]), self.backward if forward else self.forward)
        return float(self.epsilons[int(np.argmax(back))])


_Alternatives = tuple[tuple[Profiles, ...], ...]
"""For each valid composition of a run, the profiles of its units: what all of them allow is an upper bound."""


def both_profiles(
    plan: Plan | Composition, rates: tuple[float, ...], deltas: tuple[float, ...] = ()
) -> tuple[Profiles, ...]:
    """Return both directions' upper profiles, sharp near the rates and deltas, of each unit that may cost most."""
    composition = composed(plan)
    rates = rates or FALSE_POSITIVE_RATES  # none where only the advantage, or mu, is asked for
    rate_array = np.array(rates)
    both = [tuple(composition.steps[name] for name in each_unit.direction_names) for each_unit in composition.units]
    rough = [(_moment_profiles((ahead, back), rates, deltas), (ahead, back)) for ahead, back in both]
    # The costliest by moments first: it often shows that the others cost no more, which then are not composed.
    certified: list[Profiles] = []
    for cheap, pair in sorted(rough, key=lambda entry: -float(np.max(entry[0].true_positive_rates(rate_array)))):
        if not any(_costs_at_least(known, cheap, rate_array, everywhere=bool(deltas)) for known in certified):
            certified.append(_sharp_for_few_misses(_composed_profiles(cheap, pair, rates, deltas), pair, rates))
    return tuple(certified)


def _costs_at_least(known: Profiles, cheap: Profiles, rates: Array, *, everywhere: bool) -> bool:
    """Return True if `known` costs at least as much as `cheap` at the rates and, if `everywhere`, in all deltas."""
    pairs = zip(known.true_positive_rates(rates), cheap.true_positive_rates(rates), strict=True)
    if not all(bool(np.all(cheap_rates <= known_rates)) for known_rates, cheap_rates in pairs):
        return False
    if not everywhere:
        return True
    # Where deltas are asked for, only the epsilons of `known` are looked at. Between epsilons of its own the other
    # profile, which is convex in e^epsilon, lies below the chord; above the last one it falls.
    known_powers, cheap_powers = (np.exp(np.minimum(x, _LARGEST_EPSILON)) for x in (known.epsilons, cheap.epsilons))
    ahead, back = (np.interp(known_powers, cheap_powers, x) for x in (cheap.forward, cheap.backward))
    return bool(np.all(ahead <= known.forward) and np.all(back <= known.backward))


def _moment_profiles(both_counts: _BothCounts, rates: tuple[float, ...], deltas: tuple[float, ...]) -> Profiles:
    """Return both directions' profiles by moments: by quadrature, or in closed form, marked rough, if work runs out."""
    smallest_delta = min([_NEGLIGIBLE_SHARE * min(rates), *(delta / 10 for delta in deltas)])
    try:
        with allowance(_MOMENT_WORK):
            return _quadrature_profiles(both_counts, rates, smallest_delta)
    except WorkExceededError:
        with own_allowance(math.inf):
            return _closed_form_profiles(both_counts, rates, smallest_delta)


def _quadrature_profiles(both_counts: _BothCounts, rates: tuple[float, ...], smallest_delta: float) -> Profiles:
    """Return both directions' profiles by moments from quadrature, on epsilons as far as the smallest delta."""
    bests = [best_epsilon(counts, delta=smallest_delta) if counts else None for counts in both_counts]
    epsilons = _epsilons(max([1e-3, *(best.value for best in bests if best)]), rates)
    forward, backward = (
        # The moments are those of finite losses.
        moment_profile(best, epsilons, left_out=NEGLIGIBLE * smallest_delta + total_infinity_mass(counts.items()))
        for best, counts in zip(bests, both_counts, strict=True)
    )
    return Profiles(epsilons, forward, backward)


def _closed_form_profiles(both_counts: _BothCounts, rates: tuple[float, ...], smallest_delta: float) -> Profiles:
    """Return both directions' profiles by moments in closed form, marked rough, as far as the smallest delta."""
    ends = [closed_form_rdp(counts, delta=smallest_delta).epsilon for counts in both_counts if counts]
    epsilons = _epsilons(max([1e-3, *ends]), rates)
    forward, backward = (closed_form_profile(counts, epsilons) for counts in both_counts)
    return Profiles(epsilons, forward, backward, is_rough=True)


def _epsilons(last: float, rates: tuple[float, ...]) -> Array:
    """Return the grid of epsilons from 0 to `last` or 700, the smaller; dense up to 20 or -log of the smallest rate."""
    last = min(last, _LARGEST_EPSILON)
    end = min(last, max(_LAST_DENSE_EPSILON, -math.log(min(rates))))
    epsilons = np.linspace(0.0, end, _DENSE_EPSILONS)
    if last > end:
        epsilons = np.concatenate([epsilons, np.linspace(end, last, _SPARSE_EPSILONS + 1)[1:]])
    return epsilons


def _composed_profiles(
    cheap: Profiles, both_counts: _BothCounts, rates: tuple[float, ...], deltas: tuple[float, ...]
) -> Profiles:
    """Return the profiles lowered by compositions, each sharp near one epsilon; marked rough if work runs out."""
    some = _at_most_three(rates)
    (forward, is_forward_rough), (backward, is_backward_rough) = (
        _lowered_side(counts, cheap.epsilons, side, _anchor_epsilons(cheap.epsilons, side, some, deltas))
        for counts, side in zip(both_counts, (cheap.forward, cheap.backward), strict=True)
    )
    is_rough = cheap.is_rough or is_forward_rough or is_backward_rough
    return Profiles(cheap.epsilons, forward, backward, is_rough=is_rough)


def _lowered_side(counts: StepCounts, epsilons: Array, side: Array, anchors: list[float]) -> tuple[Array, bool]:
    """Return (deltas lowered by a composition near each anchor that does not fail, True if one ran out of work)."""
    ran_out_of_work = False
    for around in anchors:
        try:
            with allowance(_COMPOSITION_WORK):
                side = np.minimum(side, delta_upper_curve(counts, epsilons=epsilons, around=around))
        except (ArithmeticError, UnsupportedError) as error:
            ran_out_of_work |= isinstance(error, WorkExceededError)
    return side, ran_out_of_work


def _sharp_for_few_misses(known: Profiles, both_counts: _BothCounts, rates: tuple[float, ...]) -> Profiles:
    """Return the profiles, composed anew for the least and the largest rate where attackers miss under 1 %."""
    some = {min(rates), max(rates)}
    for rate, (forward, counts) in product(some, ((True, both_counts[1]), (False, both_counts[0]))):
        missed = known.false_negative_rates(np.array([rate]))[not forward][0]
        if missed < _FEW_MISSES:
            known = _sharp_at(rate, known, counts, forward=forward)
    return known


def _sharp_at(rate: float, known: Profiles, opposite: StepCounts, *, forward: bool) -> Profiles:
    """Return `known`, its opposite profile lowered by up to 3 compositions near the epsilon that decides at a rate."""
    last = -1.0
    for _ in range(_MISS_ROUNDS):
        around = known.deciding_epsilon(rate, forward=forward)
        if around == last:
            break
        last = around
        try:
            with allowance(_COMPOSITION_WORK):
                side = delta_upper_curve(opposite, epsilons=known.epsilons, around=around, min_difference=rate)
        except (ArithmeticError, UnsupportedError):
            break
        lowest = np.minimum(known.backward if forward else known.forward, side)
        known = replace(known, backward=lowest) if forward else replace(known, forward=lowest)
    return known


def _anchor_epsilons(epsilons: Array, side: Array, rates: tuple[float, ...], deltas: tuple[float, ...]) -> list[float]:
    """Return the epsilons that decide at the rates and deltas, and 0 unless a single rate is asked for."""
    # A composition is sharp near one epsilon, the one that its tilt suits.
    at = [int(np.argmin(np.exp(np.minimum(epsilons, _LARGEST_EPSILON)) * rate + side)) for rate in rates]
    at += [int(np.argmax(side <= delta)) for delta in deltas]
    if len(rates) > 1 or deltas:
        at.append(0)
    return [float(epsilons[index]) for index in dict.fromkeys(at)]


def _at_most_three(rates: tuple[float, ...]) -> tuple[float, ...]:
    """Return the rates if there are at most three, else the least, the largest and their geometric mean."""
    return rates if len(rates) <= 3 else tuple(np.geomspace(min(rates), max(rates), 3))


# Success of membership inference (docs/theory.md, Theorem 11.2).

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)


@dataclass(frozen=True, kw_only=True)
class AttackBounds:
    """Upper bounds for every attacker, who may know all other units and see every step.

    Attributes:
        advantage: true minus false positive rate, at most; in [0, 1].
        detection: (false positive rate, true positive rate at most).
        is_rough: whether a looser bound was taken, since the sharp one needs too much work.
    """

    advantage: float
    detection: tuple[tuple[float, float], ...]
    is_rough: bool = False


@dataclass(frozen=True, kw_only=True)
class Detection:
    """Upper bounds for attackers with one false positive rate.

    Attributes:
        false_positive_rate: in (0, 1).
        present: true positive rate of who raises the alarm for "the unit is in the data".
        absent: true positive rate of who raises it for "the unit is not".
        posterior: probability that an alarm "in the data" is right, from the prior.
        present_missed: false negative rate of who raises it for "in the data", at least; 1 - `present`, no digit lost.
        absent_missed: the same of who raises it for "not in the data".
    """

    false_positive_rate: float
    present: float
    absent: float
    posterior: float
    present_missed: float
    absent_missed: float


@dataclass(frozen=True, kw_only=True)
class Risk(Result):
    """Success of the best attacker; every number is an upper bound but false negative rates.

    Attributes:
        advantage: true minus false positive rate; in [0, 1].
        detections: one a false positive rate.
        prior: probability of "in the data" before the run, in (0, 1).
        belief: what the probability of the truth can rise to, if it was `prior`, but with probability `exception`.
        exception: the plan's delta.
        gdp: the Gaussian mechanism that hides no more, at the plan's delta as floor.
        reconstructions: (baseline, success): of an attacker who infers an attribute or reconstructs a record, and
            would succeed with probability `baseline` without the output.
        notes: one sentence if a looser bound was taken.
    """

    advantage: float
    detections: tuple[Detection, ...]
    prior: float
    belief: float
    exception: float
    gdp: GaussianSummary
    reconstructions: tuple[tuple[float, float], ...] = ()
    notes: tuple[str, ...] = ()


def attack_bounds(
    plan: Plan | Composition, *, false_positive_rates: tuple[float, ...] = FALSE_POSITIVE_RATES
) -> AttackBounds:
    """Return upper bounds on advantage and true positive rates, 1 without noise; InputError outside (0, 1)."""
    composition = composed(plan)
    profiles = _profiles_at(composition, false_positive_rates)
    bounds = np.maximum(*_detected(profiles, false_positive_rates))
    largest_gain, is_rough = _advantage(composition)
    return AttackBounds(
        advantage=largest_gain,
        detection=tuple((rate, float(bound)) for rate, bound in zip(false_positive_rates, bounds, strict=True)),
        is_rough=is_rough or _is_rough(profiles),
    )


def risk(
    plan: Plan | Composition,
    *,
    prior: float = 0.5,
    false_positive_rates: tuple[float, ...] = FALSE_POSITIVE_RATES,
    baselines: tuple[float, ...] = (),
) -> Risk:
    """Return bounds on the success of membership inference and reconstruction; InputError outside (0, 1)."""
    if not 0 < prior < 1:
        raise InputError(f"prior: expected a probability between 0 and 1, both excluded, got {prior!r}")
    composition = composed(plan)
    delta = composition.plan.delta
    with allowance(RISK_WORK):
        at_rates = _profiles_at(composition, false_positive_rates)
        sides = _alternative_profiles(composition, false_positive_rates, (delta,)) if at_rates else ()
        largest_gain, is_rough = _advantage(composition)
        at_baselines = _profiles_at(composition, baselines, name="baseline") if baselines else ()
        gdp = gaussian_summary(composition)
    successes, _ = _detected(at_baselines, baselines)
    is_rough = is_rough or gdp.is_rough or any(map(_is_rough, (at_rates, sides, at_baselines)))
    return Risk(
        advantage=largest_gain,
        detections=_detections(at_rates, false_positive_rates, prior),
        prior=prior,
        belief=_largest_belief(sides, prior, delta),
        exception=delta,
        gdp=gdp,
        reconstructions=tuple(zip(baselines, map(float, successes), strict=True)),
        notes=(ROUGH_NOTE,) if is_rough else (),
    )


def _detections(profiles: _Alternatives, rates: tuple[float, ...], prior: float) -> tuple[Detection, ...]:
    """Return, for each rate, the bounds for units in the data and not in it, and the posterior by Bayes' theorem."""
    bounds = zip(rates, *_detected(profiles, rates), *_missed(profiles, rates), strict=True)
    return tuple(
        Detection(
            false_positive_rate=rate,
            present=float(present),
            absent=float(absent),
            posterior=prior * float(present) / (prior * float(present) + (1 - prior) * rate),
            present_missed=float(present_missed),
            absent_missed=float(absent_missed),
        )
        for rate, present, absent, present_missed, absent_missed in bounds
    )


def _largest_belief(profiles: _Alternatives, prior: float, exception: float) -> float:
    """Return the largest posterior of the truth, exceeded with probability `exception` at most; 1 without profiles."""
    # Bayes: the posterior odds are the prior odds times the likelihood ratio, which stays below e^growth except with
    # the probability `exception`. After an alarm it is the ratio of the true to the false positive rate.
    each = (max(_max_log_odds_growth(sides, exception) for sides in units) for units in profiles)
    growth = min(each, default=math.inf)
    return 1 / (1 + (1 / prior - 1) * math.exp(-growth))


def advantage(plan: Plan | Composition) -> float:
    """Return the largest true minus false positive rate of any attacker: delta(0), an upper bound in [0, 1]."""
    return _advantage(composed(plan))[0]


def _advantage(composition: Composition) -> tuple[float, bool]:
    """Return (upper bound on the advantage, 1 without noise; True if it is rough because work ran out)."""
    if is_noiseless(composition.plan):
        return 1.0, False
    gain, is_rough = _advantage_by(composition)
    for other in composition.alternatives(gain)[1:]:
        gain = min(gain, _advantage_by(other)[0])
    return gain, is_rough


def _advantage_by(composition: Composition) -> tuple[float, bool]:
    """Return (upper bound on the advantage by the bounds of one composition; True if work ran out)."""
    try:
        (gain, is_rough), _ = costliest_release(
            composition.steps, answer=_delta_at_zero, cost=itemgetter(0), ceiling=_moment_delta_at_zero
        )
    except WorkExceededError:
        with own_allowance(math.inf):
            return max(closed_form_rdp_delta(counts, epsilon=0.0) for counts in composition.steps.values()), True
    return gain, is_rough


def true_positive_rates(plan: Plan | Composition, rates: tuple[float, ...]) -> tuple[Array, Array]:
    """Return upper bounds on true positive rates for units in the data and not in it; InputError outside (0, 1)."""
    return _detected(_profiles_at(plan, rates), rates)


def false_negative_rates(plan: Plan | Composition, rates: tuple[float, ...]) -> tuple[Array, Array]:
    """Return lower bounds on false negative rates for units in the data and not in it; InputError outside (0, 1).

    Two arrays, 0 without noise; they keep all digits where next to nothing is missed.
    """
    return _missed(_profiles_at(plan, rates), rates)


def _profiles_at(
    plan: Plan | Composition, rates: tuple[float, ...], *, name: str = "false positive rate"
) -> _Alternatives:
    """Return the profiles sharp at false positive rates, () without noise; InputError for rates outside (0, 1)."""
    for rate in rates:
        if not 0 < rate < 1:
            raise InputError(f"{name}: expected a number between 0 and 1, both excluded, got {rate!r}")
    composition = composed(plan)
    return () if is_noiseless(composition.plan) else _alternative_profiles(composition, rates)


def _alternative_profiles(
    composition: Composition, rates: tuple[float, ...], deltas: tuple[float, ...] = ()
) -> _Alternatives:
    """Return `both_profiles` of the composition, and with the bounds of phases that rank cheapest at the rates."""
    # An attacker with false positive rate a is decided by a delta between a and the advantage, the delta at 0.
    near = tuple(sorted({*_at_most_three(rates), _TYPICAL_DELTA}))
    return tuple(both_profiles(each, rates, deltas) for each in composition.alternatives(*near))


def _is_rough(alternatives: _Alternatives) -> bool:
    """Return True if the profiles by the bounds of the plan itself are rough."""
    return any(side.is_rough for units in alternatives[:1] for side in units)


def _detected(alternatives: _Alternatives, rates: tuple[float, ...]) -> tuple[Array, Array]:
    """Return the largest true positive rates of (D, D') that some unit allows by all bounds; 1 without any."""
    ahead, back = np.ones(len(rates)), np.ones(len(rates))
    for units in alternatives:
        each = [side.true_positive_rates(np.array(rates)) for side in units]
        ahead = np.minimum(ahead, np.max([of_unit for of_unit, _ in each], axis=0))
        back = np.minimum(back, np.max([of_unit for _, of_unit in each], axis=0))
    return ahead, back


def _missed(alternatives: _Alternatives, rates: tuple[float, ...]) -> tuple[Array, Array]:
    """Return the smallest false negative rates of (D, D') that some unit allows by all bounds; 0 without any."""
    ahead, back = np.zeros(len(rates)), np.zeros(len(rates))
    for units in alternatives:
        each = [side.false_negative_rates(np.array(rates)) for side in units]
        ahead = np.maximum(ahead, np.min([of_unit for of_unit, _ in each], axis=0))
        back = np.maximum(back, np.min([of_unit for _, of_unit in each], axis=0))
    return ahead, back


def _max_log_odds_growth(sides: Profiles, exception: float) -> float:
    """Return a bound on the growth of log odds, exceeded with probability `exception` at most; inf if none holds."""
    # The loss exceeds x with probability p, p (1 - e^{epsilon - x}) <= delta(epsilon) for every epsilon < x, by the
    # definition of delta as the mean of (1 - e^{epsilon - loss})_+; so take x = epsilon - log(1 - delta(epsilon) / p).
    best = 0.0
    for deltas in (sides.forward, sides.backward):
        used = deltas < exception
        ends = sides.epsilons[used] - np.log1p(-deltas[used] / exception)
        best = max(best, float(ends.min(initial=math.inf)))
    return best


def _delta_at_zero(counts: StepCounts) -> tuple[float, bool]:
    """Return (upper bound on delta at epsilon 0, composed or else by moments; True if the work ran out)."""
    try:
        with allowance(_COMPOSITION_WORK):
            return delta_bounds(counts, epsilon=0.0, sides=(UPPER,))[0], False
    except (ArithmeticError, UnsupportedError) as error:
        return _moment_delta_at_zero(counts), isinstance(error, WorkExceededError)


def _moment_delta_at_zero(counts: StepCounts) -> float:
    """Return an upper bound on delta at epsilon 0 by moments: cheap; 0 without steps."""
    return min(1.0, best_delta(counts, epsilon=0.0).value) if counts else 0.0
