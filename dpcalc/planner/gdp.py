"""Gaussian differential privacy: the smallest mu that a run keeps to, certified from above, and how well it sums it up.

A run keeps to mu at a floor if delta(epsilon) <= max(delta_mu(epsilon), floor) for every epsilon and both orders of the
pair, delta_mu the profile of N(0, 1) against N(mu, 1). The floor is needed: rare, large losses of sampled steps make
the mu without one that of a run without sampling.

Source: docs/theory.md, Theorem 11.6.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from statistics import NormalDist

import numpy as np

from dpcalc.accountants.gaussian import (
    composed_gaussian_mu,
    gaussian_mu,
    gaussian_tangent,
)
from dpcalc.accountants.plain import closed_form_profile, closed_form_rdp
from dpcalc.accountants.pld import upper_profile
from dpcalc.accountants.rdp import best_epsilon
from dpcalc.accountants.result import costliest_release
from dpcalc.arrays import Array
from dpcalc.errors import UnsupportedError, WorkExceededError
from dpcalc.guarantee import MAX_REGRET, Result
from dpcalc.losses.moments import Steps
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.numerics.convolution import UNIT_ROUNDOFF
from dpcalc.numerics.special import normal_cdf
from dpcalc.planner.composition import Composition, composed, is_noiseless
from dpcalc.planner.plan import Plan
from dpcalc.records import dataclass
from dpcalc.work import SECOND, allowance, own_allowance

_COMPOSITION_WORK = 1.0 * SECOND  # for each; where all need more, moments in closed form bound the direction
_COMPOSITIONS = 4  # of one direction, at most: sharp at 0, then at the epsilons that decide, mostly at the floor
_NEAR = 0.05  # part of the last epsilon within which a composition is sharp enough
_NARROW_INTERVAL = 0.005  # times mu: intervals of epsilon that are not halved again; 3e-6 of mu may be lost in one
_LARGEST_EPSILON = 1e5  # of a larger one no mu is known
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
        with allowance(_COMPOSITION_WORK):
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
        with suppress(ArithmeticError, UnsupportedError), allowance(_COMPOSITION_WORK):
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
        nodes = np.linspace(0.0, max(min(end, _LARGEST_EPSILON), _SMALLEST_EPSILON), _NODES)
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
    if end >= _LARGEST_EPSILON:
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
            step = 1e-7
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
