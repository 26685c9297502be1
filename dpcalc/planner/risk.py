"""Membership inference: rates of the best attacker, and the smallest mu of Gaussian differential privacy.

A run keeps to mu at a floor if delta(epsilon) <= max(delta_mu(epsilon), floor) for every epsilon and both orders of the
pair, delta_mu the profile of N(0, 1) against N(mu, 1). The floor is needed: rare, large losses of sampled steps make
the mu without one that of a run without sampling.

Source: docs/theory.md, Theorem 11.6.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import product
from operator import itemgetter
from statistics import NormalDist

import numpy as np

from dpcalc.accountants import costliest_release
from dpcalc.accountants.closed_forms import (
    closed_form_profile,
    closed_form_rdp,
    closed_form_rdp_delta,
    composed_gaussian_mu,
    gaussian_mu,
    gaussian_tangent,
)
from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import delta_bounds, upper_profile
from dpcalc.accountants.rdp import NEGLIGIBLE, best_delta, best_epsilon, moment_profile
from dpcalc.errors import InputError, UnsupportedError, WorkExceededError
from dpcalc.guarantee import MAX_REGRET, Result, shown_number
from dpcalc.losses.moments import RdpCurve, Steps, total_infinity_mass
from dpcalc.numerics import UNIT_ROUNDOFF, Array, normal_cdf
from dpcalc.planner.advice import unused_order
from dpcalc.planner.composition import Composition, composed, is_noiseless
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.work import SECOND, allowance, own_allowance

_MU_WORK = 1.0 * SECOND  # for each; where all need more, moments in closed form bound the direction
_COMPOSITIONS = 4  # of one direction, at most: sharp at 0, then at the epsilons that decide, mostly at the floor
_NEAR = 0.05  # part of the last epsilon within which a composition is sharp enough
_NARROW_INTERVAL = 0.005  # times mu: intervals of epsilon that are not halved again; 3e-6 of mu may be lost in one
_LARGEST_KNOWN = 1e5  # of a larger one no mu is known
_SMALLEST_EPSILON = 1e-9  # nodes up to a smaller one would coincide
_WIDE_INTERVAL = 30.0  # intervals above it are halved unseen: e^_WIDE_INTERVAL is finite
_ZOOM_POINTS, _ZOOM_ROUNDS = 64, 4  # points of each round that looks for the epsilon where a profile reaches the floor
_NODES, _TESTS = 1200, 400  # epsilons whose lines make up a trade-off curve; points at which curves are compared
_FLOAT_ERROR = 1e-11  # relative: what floats may err by in a tangent, whose exponents are below 500
_RATES = np.geomspace(1e-3, 0.5, 50)
Profile = Callable[[Array], Array]
_Point = tuple[float, float]
"""(epsilon, delta)"""


@dataclass(frozen=True, kw_only=True)
class GaussianSummary(Result):
    """A run as a Gaussian mechanism of sensitivity mu and noise 1 that hides no more.

    Attributes:
        mu: upper bound on the smallest mu that the run keeps to at the floor; `inf` for none.
        floor: delta that is written off, in (0, 1).
        regret: least D for which the run's trade-off curve, moved by D towards both axes, lies nowhere above that of
            mu: how much more the run may hide than mu says. From an upper bound on the run's cost, it understates the
            regret of the run itself.
        misfit: by how much true positive rates at mu exceed those of the run, at most, at rates of .001 to .5.
        is_rough: whether moments in closed form bound the run, since the sharp bound needs too much work.
    """

    mu: float
    floor: float
    regret: float
    misfit: float
    is_rough: bool = False

    @property
    def is_good(self) -> bool:
        """True if mu says nearly all that the whole trade-off curve does."""
        return math.isfinite(self.mu) and self.regret < MAX_REGRET


@dataclass(frozen=True, kw_only=True)
class _Bound:
    """Upper bounds on delta of one direction, and on its mu."""

    mu: float
    profile: Profile  # upper bounds on delta at epsilons from 0 to `end`
    end: float  # an epsilon from which on delta is at most the floor
    decides: float = 0.0  # the epsilon that no smaller mu would allow
    is_rough: bool = False  # the profile is by moments in closed form
    is_exact: bool = False  # the direction is a Gaussian mechanism of this mu, or nothing for mu 0


def gaussian_summary(plan: Plan | Composition) -> GaussianSummary:
    """Return the smallest mu certified for all units at the plan's delta, regret and misfit; infinite without noise."""
    # mu is an upper bound, exact for Gaussian noise without sampling.
    composition = composed(plan)
    floor = composition.plan.delta
    if is_noiseless(composition.plan):
        return GaussianSummary(mu=math.inf, floor=floor, regret=0.0, misfit=0.0)
    steps, known = composition.steps, dict[int, _Bound]()

    def bound(counts: Steps) -> _Bound:
        if id(counts) not in known:
            known[id(counts)] = _sharp_bound(counts, floor)
        return known[id(counts)]

    def ceiling(counts: Steps) -> float:  # of a single unit both directions are needed, whichever costs more
        return _rough_bound(counts, floor).mu if counts and len(composition.units) > 1 else math.inf

    try:
        _, name = costliest_release(steps, answer=bound, cost=lambda bound: bound.mu, ceiling=ceiling)
    except WorkExceededError:
        known = {id(counts): _rough_bound(counts, floor) for counts in steps.values() if counts}
        name = max(steps, key=lambda each: bound(steps[each]).mu)
    mu = bound(steps[name]).mu
    ahead, back = (bound(steps[each]) for each in composition.by_direction[name].direction_names)
    is_exact, is_rough = ahead.is_exact and back.is_exact, ahead.is_rough or back.is_rough
    regret, misfit = (0.0, 0.0) if is_exact else _regret_and_misfit(mu, ahead, back)
    return GaussianSummary(mu=mu, floor=floor, regret=regret, misfit=misfit, is_rough=is_rough)


def _sharp_bound(counts: Steps, floor: float) -> _Bound:
    """Return one direction's bound on mu: exact for Gaussian releases, else by composition, or else by moments."""
    exact = composed_gaussian_mu(counts)
    if exact is not None:
        return _Bound(
            mu=exact * (1 + _FLOAT_ERROR),
            profile=lambda epsilons: np.array(
                [gaussian_tangent(exact, x)[0] if exact else 0.0 for x in epsilons.tolist()]
            ),
            end=0.0,
            is_exact=True,
        )
    try:
        with allowance(_MU_WORK):
            end = best_epsilon(counts, delta=floor).value
            # Where delta is next to 1, what counts is its distance from 1: at least about that of the largest mu.
            digits = max(min(floor, 2 * normal_cdf(-gaussian_mu(end, delta=floor) / 2)), UNIT_ROUNDOFF)
    except (ArithmeticError, UnsupportedError):  # too much work among them
        return _rough_bound(counts, floor)

    parts: list[Profile] = []

    def profile(epsilons: Array) -> Array:
        return np.minimum.reduce([part(epsilons) for part in parts])

    known, around, sharp = None, 0.0, list[float]()
    # A composition whose tilt suits one epsilon says little of another: the next one suits the epsilon that decides.
    while len(sharp) < _COMPOSITIONS and all(abs(around - each) > _NEAR * end for each in sharp):
        sharp.append(around)
        with suppress(ArithmeticError, UnsupportedError), allowance(_MU_WORK):
            parts.append(upper_profile(counts, around=around, min_difference=digits))
        around = end
        if parts:
            known = _bound_of_profile(profile, end, floor)
            end, around = known.end, known.decides
    return known or _rough_bound(counts, floor)


def _rough_bound(counts: Steps, floor: float) -> _Bound:
    """Return one direction's bound on mu by closed-form moments, marked rough unless some step is an RdpCurve."""
    with own_allowance(math.inf):  # it always answers, whatever work is left
        end = closed_form_rdp(counts, delta=floor).epsilon
        nodes = np.linspace(0.0, max(min(end, _LARGEST_KNOWN), _SMALLEST_EPSILON), _NODES)
        deltas = closed_form_profile(counts, nodes)

    def chords(epsilons: Array) -> Array:
        """Upper bounds between the nodes: a profile is convex in e^epsilon. Beyond them those of the end."""
        right = np.clip(np.searchsorted(nodes, epsilons), 1, nodes.size - 1)
        width = nodes[right] - nodes[right - 1]
        before = np.clip(epsilons - nodes[right - 1], 0.0, width)
        share = np.exp(before - width) * np.expm1(-before) / np.expm1(-width)
        return deltas[right - 1] + share * (deltas[right] - deltas[right - 1])

    has_sharper = not any(isinstance(step, RdpCurve) for step in counts)
    return _bound_of_profile(chords, end, floor, is_rough=has_sharper)


def _bound_of_profile(profile: Profile, end: float, floor: float, *, is_rough: bool = False) -> _Bound:
    """Return the bound on mu that an upper profile proves down to the floor; infinite if `end` is at least 1e5."""
    if end >= _LARGEST_KNOWN:
        return _Bound(mu=math.inf, profile=profile, end=0.0, is_rough=is_rough)
    # About the smallest epsilon at which the falling profile is at most the floor.
    low, high = 0.0, end
    for _ in range(_ZOOM_ROUNDS):
        nodes = np.linspace(low, high, _ZOOM_POINTS)
        deltas = profile(nodes)
        reached = int(np.argmax(deltas <= floor))
        if reached == 0:  # the first node, or none
            high = low if deltas[0] <= floor else high
            break
        low, high = float(nodes[reached - 1]), float(nodes[reached])

    # The smallest mu whose profile covers this convex one above the floor, at most 1e-5 too large.
    def point_at(epsilon: float) -> _Point:
        return epsilon, float(profile(np.array([epsilon]))[0])

    first, last = point_at(0.0), (high, min(point_at(high)[1], floor))
    if first[1] <= floor:
        return _Bound(mu=0.0, profile=profile, end=high, is_rough=is_rough)
    mu, decides = max((gaussian_mu(epsilon, delta=delta), epsilon) for epsilon, delta in (first, last))
    # An interval whose chord lies below delta_mu is done. Others are halved until they are narrow; then mu grows until
    # the chord fits.
    intervals = [(first, last)]
    while intervals and mu < math.inf:
        left, right = intervals.pop()
        width = right[0] - left[0]
        if width <= _WIDE_INTERVAL and _chord_lies_below(left, right, mu):
            continue
        if width <= min(_NARROW_INTERVAL * mu, _WIDE_INTERVAL):
            step = 1e-10
            while not _chord_lies_below(left, right, mu):
                mu, step = mu * (1 + step), 2 * step
            continue
        middle = point_at((left[0] + right[0]) / 2)
        if middle[1] > gaussian_tangent(mu, middle[0])[0]:
            mu, decides = max((mu, decides), (gaussian_mu(middle[0], delta=middle[1]), middle[0]))
        intervals += [(left, middle), (middle, right)]
    return _Bound(mu=mu, profile=profile, end=high, decides=decides, is_rough=is_rough)


def _chord_lies_below(left: _Point, right: _Point, mu: float) -> bool:
    """Return True if the chord between two points is proved to lie below the profile of mu."""
    # A convex function lies above each of its tangents: one that is above the chord at both ends is above it between.
    for at in ((left[0] + right[0]) / 2, right[0], left[0]):
        height, slope = gaussian_tangent(mu, at)
        falls = [(slope * math.expm1(epsilon - at), delta) for epsilon, delta in (left, right)]
        if all(height - fall - _FLOAT_ERROR * (height + abs(fall)) >= delta for fall, delta in falls):
            return True
    return False


def _regret_and_misfit(mu: float, bound: _Bound, other: _Bound) -> tuple[float, float]:
    """Return (regret, misfit), both >= 0, of mu against the bounds of both directions; see GaussianSummary."""
    nodes = np.linspace(0.0, max(bound.end, other.end), _NODES)
    factor = np.exp(np.minimum(nodes, 700.0))[:, None]
    ahead, back = (1 - each.profile(nodes)[:, None] for each in (bound, other))

    # Points of a trade-off curve are written as (t, s), difference and sum of both error rates: a move by D towards
    # both axes takes 2 D from s, and the two orders of the pair are t and -t.
    if math.isfinite(mu):
        z = np.linspace(-8 - mu / 2, 8 + mu / 2, _TESTS)
        first, second = (np.array([normal_cdf(sign * x - mu / 2) for x in z]) for sign in (-1, 1))
        t, smallest = first - second, first + second
    else:
        t = np.linspace(-1.0, 1.0, _TESTS)
        smallest = np.abs(t)

    def least_sum(differences: Array) -> Array:
        # Each epsilon of a profile gives a line in each direction that the trade-off curve is above.
        one_way = 2 * ahead + differences * (1 - factor)
        other_way = 2 * back - differences * (1 - factor)
        lines = np.maximum(one_way, other_way) / (1 + factor)
        return np.maximum(lines.max(axis=0), np.abs(differences))

    regret = float((np.minimum(least_sum(t), least_sum(-t)) - smallest).max()) / 2
    missed = [
        np.maximum(own - factor * _RATES, (opposite - _RATES) / factor).max(axis=0)
        for own, opposite in ((ahead, back), (back, ahead))
    ]
    inverse = NormalDist().inv_cdf
    at_mu = np.array([normal_cdf(inverse(rate) + mu) for rate in _RATES.tolist()])  # the best test's, 1 if mu is inf
    misfit = float((at_mu - (1 - np.minimum(*missed))).max())
    return max(regret, 0.0), max(misfit, 0.0)


# Membership inference: bounds on true and false positive rates of the best attacker, from the composed loss.
# Every test with false positive rate a has, for every epsilon >= 0 with its delta, a true positive rate of at most
#     e^epsilon a + delta    and    1 - e^-epsilon (1 - a - delta of the opposite direction)
# (Wasserman and Zhou 2010, Theorem 2.4; Kairouz, Oh, Viswanath 2015, 1311.0776v4, Theorem 2.1). All epsilons together
# give the whole curve (Dong, Roth, Su 2022, 1905.02383v3, Proposition 2.12); the bound is the least at some thousand of
# them, with certified deltas.
# Source: docs/theory.md, Theorem 11.1.


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


FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)

_BothCounts = tuple[Steps, Steps]  # of the directions D||D' and D'||D


@dataclass(frozen=True, eq=False)
class Profiles:
    """Privacy profiles of a run in both directions, upper bounds on delta at the same epsilons."""

    epsilons: Array  # increasing, the first is 0, shape (n,)
    deltas: Array  # of D||D' and of D'||D at each, shape (2, n)
    is_rough: bool = False  # a composition needed too much work, so that Renyi divergences bound it

    def attack_rates(self, rates: Array) -> tuple[Array, Array]:
        """Return (true positive rates at most, false negative rates at least) at n rates, shape (2, n)."""
        # First of the attackers that detect D, then of those that detect D'. What is missed is 1 - what is detected,
        # with all digits where that is next to nothing.
        detected, missed = [], []
        for own in (0, 1):
            by_own, by_opposite = self.lines(rates, own)
            ahead, back = by_own.min(axis=1), by_opposite.max(axis=1)
            detected.append(np.clip(np.minimum(ahead, 1 - back), rates, 1.0))
            missed.append(np.clip(np.maximum(1 - ahead - 4 * UNIT_ROUNDOFF, back), 0.0, 1 - rates))
        return np.array(detected), np.array(missed)

    def lines(self, rates: Array, own: int) -> tuple[Array, Array]:
        """Return what each epsilon proves at each rate, shape (rates, n): bounds on detected and on missed units."""
        # The former by the profile of direction `own`, the latter, rounded down, by the opposite one.
        a = rates[:, None]
        detected = np.exp(np.minimum(self.epsilons, _LARGEST_EPSILON)) * a + self.deltas[own]
        missed = np.exp(-self.epsilons) * np.maximum(1 - a - self.deltas[1 - own] - 4 * UNIT_ROUNDOFF, 0.0)
        return detected, missed * (1 - 8 * UNIT_ROUNDOFF)


_Alternatives = tuple[tuple[Profiles, ...], ...]
"""For each valid composition of a run, the profiles of its units: what all of them allow is an upper bound."""


def both_profiles(
    plan: Plan | Composition, rates: tuple[float, ...], deltas: tuple[float, ...] = ()
) -> tuple[Profiles, ...]:
    """Return both directions' upper profiles, sharp near the rates and deltas, of each unit that may cost most."""
    composition = composed(plan)
    rates = rates or FALSE_POSITIVE_RATES  # none where only the advantage, or mu, is asked for
    smallest_delta = min([_NEGLIGIBLE_SHARE * min(rates), *(delta / 10 for delta in deltas)])

    def grid(ends: Iterable[float]) -> Array:
        """Epsilons up to the last end, or 700: dense up to 20 or -log of the smallest rate."""
        last = min(max([1e-3, *ends]), _LARGEST_EPSILON)
        dense_end = min(last, max(_LAST_DENSE_EPSILON, -math.log(min(rates))))
        epsilons = np.linspace(0.0, dense_end, _DENSE_EPSILONS)
        if last > dense_end:
            epsilons = np.concatenate([epsilons, np.linspace(dense_end, last, _SPARSE_EPSILONS + 1)[1:]])
        return epsilons

    # By moments: by quadrature, or in closed form, marked rough, if work runs out.
    rough = []
    for each_unit in composition.units:
        ahead, back = (composition.steps[name] for name in each_unit.direction_names)
        both_counts = ahead, back
        try:
            with allowance(_MOMENT_WORK):
                bests = [best_epsilon(counts, delta=smallest_delta) if counts else None for counts in both_counts]
                epsilons = grid(best.value for best in bests if best)
                profiles = [
                    # The moments are those of finite losses.
                    moment_profile(best, epsilons, left_out=NEGLIGIBLE * smallest_delta + total_infinity_mass(counts))
                    for best, counts in zip(bests, both_counts, strict=True)
                ]
                cheap = Profiles(epsilons, np.array(profiles))
        except WorkExceededError:
            with own_allowance(math.inf):
                epsilons = grid(
                    closed_form_rdp(counts, delta=smallest_delta).epsilon for counts in both_counts if counts
                )
                profiles = [closed_form_profile(counts, epsilons) for counts in both_counts]
                cheap = Profiles(epsilons, np.array(profiles), is_rough=True)
        rough.append((cheap, both_counts, cheap.attack_rates(np.array(rates))[0]))
    # The costliest by moments first: it often shows that the others cost no more, which then are not composed.
    certified: list[tuple[Profiles, Array]] = []
    for cheap, both_counts, detected in sorted(rough, key=lambda entry: -float(np.max(entry[2]))):
        for known, known_detected in certified:
            is_covered = bool(np.all(detected <= known_detected))
            if is_covered and deltas:  # both profiles lie below the known ones at the epsilons of these, too
                # Between epsilons of its own a profile, which is convex in e^epsilon, lies below the chord; above the
                # last one it falls.
                at, own = (np.exp(np.minimum(x, _LARGEST_EPSILON)) for x in (known.epsilons, cheap.epsilons))
                is_covered = all(
                    np.all(np.interp(at, own, x) <= y) for x, y in zip(cheap.deltas, known.deltas, strict=True)
                )
            if is_covered:
                break
        else:
            sharp = _sharp_profiles(cheap, both_counts, rates, deltas)
            certified.append((sharp, sharp.attack_rates(np.array(rates))[0]))
    return tuple(known for known, _ in certified)


def _sharp_profiles(
    known: Profiles, both_counts: _BothCounts, rates: tuple[float, ...], deltas: tuple[float, ...]
) -> Profiles:
    """Return the profiles lowered by compositions; marked rough if the work for one of the first runs out."""
    # A composition is sharp near one epsilon, the one that its tilt suits: those that decide at the rates and deltas,
    # and 0 unless a single rate is asked for.
    epsilons, is_rough, sharp = known.epsilons, known.is_rough, known.deltas.copy()
    some = _at_most_three(rates)
    for own, (counts, side) in enumerate(zip(both_counts, known.deltas, strict=True)):
        at = [int(np.argmin(np.exp(np.minimum(epsilons, _LARGEST_EPSILON)) * rate + side)) for rate in some]
        at += [int(np.argmax(side <= delta)) for delta in deltas]
        if len(some) > 1 or deltas:
            at.append(0)
        for index in dict.fromkeys(at):
            try:
                with allowance(_COMPOSITION_WORK):
                    lower = upper_profile(counts, around=float(epsilons[index]))(epsilons)
                    sharp[own] = np.minimum(sharp[own], lower)
            except (ArithmeticError, UnsupportedError) as error:
                is_rough |= isinstance(error, WorkExceededError)
    known = Profiles(epsilons, sharp, is_rough=is_rough)

    # Where attackers miss under 1 %, the opposite profile decides, at an epsilon of its own: it is composed anew there,
    # for the least and the largest rate.
    for rate, own in product({min(rates), max(rates)}, (0, 1)):
        at_rate, last = np.array([rate]), -1
        if known.attack_rates(at_rate)[1][own, 0] >= _FEW_MISSES:
            continue
        for _ in range(_MISS_ROUNDS):
            decides = int(np.argmax(known.lines(at_rate, own)[1]))
            if decides == last:
                break
            last = decides
            try:
                with allowance(_COMPOSITION_WORK):
                    around = float(epsilons[decides])
                    lower = upper_profile(both_counts[1 - own], around=around, min_difference=rate)(epsilons)
            except (ArithmeticError, UnsupportedError):
                break
            sharp[1 - own] = np.minimum(sharp[1 - own], lower)
    return known


def _at_most_three(rates: tuple[float, ...]) -> tuple[float, ...]:
    """Return the rates if there are at most three, else the least, the largest and their geometric mean."""
    return rates if len(rates) <= 3 else tuple(np.geomspace(min(rates), max(rates), 3))


# Success of membership inference (docs/theory.md, Theorem 11.2).


@dataclass(frozen=True, kw_only=True)
class AttackBounds:
    """Upper bounds for every attacker, who may know all other units and see every step."""

    advantage: float  # true minus false positive rate, in [0, 1]
    detection: tuple[tuple[float, float], ...]  # (false positive rate, true positive rate)
    is_rough: bool = False  # a looser bound was taken, since the sharp one needs too much work


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

    def __str__(self) -> str:
        """Return the bounds on an attacker in a line."""
        return "; ".join(f"{name}{': ' if name == 'note' else ' <= '}{text}" for name, text in self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        """Return the bounds: advantage, true positive rates, belief, successes, mu."""
        rows = [("advantage", self.advantage)]
        rows += [(f"true positive rate at {each.false_positive_rate:g}", each.present) for each in self.detections]
        rows += [(f"belief, from {self.prior:g}", self.belief)]
        rows += [(f"success of inference, from {baseline:g}", success) for baseline, success in self.reconstructions]
        rows += [("mu", self.gdp.mu)]
        return [(name, shown_number("", value, 3)) for name, value in rows] + [("note", note) for note in self.notes]


def attack_bounds(
    plan: Plan | Composition, *, false_positive_rates: tuple[float, ...] = FALSE_POSITIVE_RATES
) -> AttackBounds:
    """Return upper bounds on advantage and true positive rates, 1 without noise; InputError outside (0, 1)."""
    composition = composed(plan)
    profiles = _profiles_at(composition, false_positive_rates)
    bounds = np.maximum(*_attack_rates(profiles, false_positive_rates)[0])
    largest_gain, is_rough = advantage(composition)
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
        largest_gain, is_rough = advantage(composition)  # before what a statement does not ask for
        sides = _profiles_at(composition, false_positive_rates, (delta,))
        at_baselines = _profiles_at(composition, baselines, name="baseline") if baselines else ()
        gdp = gaussian_summary(composition)
    (present, absent), (present_missed, absent_missed) = _attack_rates(at_rates, false_positive_rates)
    bounds = zip(false_positive_rates, present, absent, present_missed, absent_missed, strict=True)
    # Bayes: the posterior odds are the prior odds times the likelihood ratio, which stays below e^growth except with
    # the probability delta. After an alarm it is the ratio of the true to the false positive rate.
    # The loss exceeds x with probability p, p (1 - e^{epsilon - x}) <= delta(epsilon) for every epsilon < x, by the
    # definition of delta as the mean of (1 - e^{epsilon - loss})_+; so take x = epsilon - log(1 - delta(epsilon) / p).
    growths = []
    for units in sides:
        growths.append(0.0)
        for side, deltas in ((each, own) for each in units for own in each.deltas):
            ends = side.epsilons[deltas < delta] - np.log1p(-deltas[deltas < delta] / delta)
            growths[-1] = max(growths[-1], float(ends.min(initial=math.inf)))
    successes = _attack_rates(at_baselines, baselines)[0][0]
    is_rough = is_rough or gdp.is_rough or any(map(_is_rough, (at_rates, sides, at_baselines)))
    return Risk(
        advantage=largest_gain,
        detections=tuple(
            Detection(
                false_positive_rate=rate,
                present=float(detected),
                absent=float(detected_absent),
                posterior=prior * float(detected) / (prior * float(detected) + (1 - prior) * rate),
                present_missed=float(missed),
                absent_missed=float(missed_absent),
            )
            for rate, detected, detected_absent, missed, missed_absent in bounds
        ),
        prior=prior,
        belief=1 / (1 + (1 / prior - 1) * math.exp(-min(growths, default=math.inf))),
        exception=delta,
        gdp=gdp,
        reconstructions=tuple(zip(baselines, map(float, successes), strict=True)),
        notes=((ROUGH_NOTE,) if is_rough else ()) + unused_order(composition),
    )


def advantage(composition: Composition) -> tuple[float, bool]:
    """Return (upper bound on the advantage, 1 without noise; True if it is rough because work ran out)."""
    if is_noiseless(composition.plan):
        return 1.0, False

    def by_moments(counts: Steps) -> float:
        return min(1.0, best_delta(counts, epsilon=0.0).value) if counts else 0.0

    def delta_at_zero(counts: Steps) -> tuple[float, bool]:
        try:
            with allowance(_COMPOSITION_WORK):
                return delta_bounds(counts, epsilon=0.0, sides=(UPPER,))[0], False
        except (ArithmeticError, UnsupportedError) as error:
            return by_moments(counts), isinstance(error, WorkExceededError)

    def by_bounds_of(each: Composition) -> tuple[float, bool]:
        try:
            return costliest_release(each.steps, answer=delta_at_zero, cost=itemgetter(0), ceiling=by_moments)[0]
        except WorkExceededError:
            with own_allowance(math.inf):
                return max(closed_form_rdp_delta(counts, epsilon=0.0) for counts in each.steps.values()), True

    gain, is_rough = by_bounds_of(composition)
    for other in composition.alternatives(gain)[1:]:
        gain = min(gain, by_bounds_of(other)[0])
    return gain, is_rough


def true_positive_rates(plan: Plan | Composition, rates: tuple[float, ...]) -> tuple[Array, Array]:
    """Return upper bounds on true positive rates for units in the data and not in it; InputError outside (0, 1)."""
    present, absent = _attack_rates(_profiles_at(plan, rates), rates)[0]
    return present, absent


def _profiles_at(
    plan: Plan | Composition,
    rates: tuple[float, ...],
    deltas: tuple[float, ...] = (),
    *,
    name: str = "false positive rate",
) -> _Alternatives:
    """Return the profiles by all bounds that rank cheapest, () without noise; InputError for rates outside (0, 1)."""
    for rate in rates:
        if not 0 < rate < 1:
            raise InputError(f"{name}: expected a number between 0 and 1, both excluded, got {rate!r}")
    composition = composed(plan)
    if is_noiseless(composition.plan):
        return ()
    # An attacker with false positive rate a is decided by a delta between a and the advantage, the delta at 0.
    near = tuple(sorted({*_at_most_three(rates), _TYPICAL_DELTA}))
    return tuple(both_profiles(each, rates, deltas) for each in composition.alternatives(*near))


def _is_rough(alternatives: _Alternatives) -> bool:
    """Return True if the profiles by the bounds of the plan itself are rough."""
    return any(side.is_rough for units in alternatives[:1] for side in units)


def _attack_rates(alternatives: _Alternatives, rates: tuple[float, ...]) -> tuple[Array, Array]:
    """Return `Profiles.attack_rates` of the unit that is detected best, as all bounds allow; 1 and 0 without any."""
    at = np.array(rates)
    detected, missed = np.ones((2, len(rates))), np.zeros((2, len(rates)))
    for units in alternatives:
        of_units = [side.attack_rates(at) for side in units]
        detected = np.minimum(detected, np.max([ahead for ahead, _ in of_units], axis=0))
        missed = np.maximum(missed, np.min([back for _, back in of_units], axis=0))
    return detected, missed
