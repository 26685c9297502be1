"""An upper bound on epsilon that always answers: Renyi divergences in closed form, without quadrature.

Let P = sum_i p_i N(c_i, sigma^2) and Q = sum_i q_i N(c_i, sigma^2). Move the mass of P that Q does not have there onto
the mass of Q that P does not have there, in any way: mass w_k goes over a distance d_k, and the rest eta_0 stays. A
hockey-stick divergence is jointly convex, so the profile of (P, Q) is at most that of a step which reveals the move:
with probability w_k two Gaussians at a distance d_k, no loss with probability eta_0. For the log moment,

    K(z) <= log(eta_0 + sum_k w_k e^{z (z + 1) d_k^2 / (2 sigma^2)}).

This is amplified by the draw as if the draw were revealed. Of two halves that are glued (`of_two_halves`) each is
bounded so, and a larger mass at every distance bounds both. Losses under a revealed draw are mixed likewise, atoms are
summed exactly. Sources: Balle, Barthe, Gaboardi 2018 (1807.01647v2), Theorem 1, for joint convexity; Mironov 2017
(1702.07476v3), Proposition 7, for Gaussians; conversion as in `rdp`. `counts` is always: the steps of one direction and
how often each occurs.

Source: docs/theory.md, Theorem 3.6.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from dpcalc.accountants.rdp import log_peak
from dpcalc.accountants.result import AccountantResult
from dpcalc.arrays import Array
from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import Curve, PublicDraw, Steps, largest_loss, total_infinity_mass
from dpcalc.losses.pair import MixturePair
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.numerics.roots import zoomed_minimum
from dpcalc.work import ELEMENT, TURN, cached_with_cost, spend

Moves = tuple[Array, Array]
"""(distances in deviations of the noise, log of the mass that is moved over each)."""

LogMoment = Callable[[Array], Array]
"""From orders z > 0, shape (n,), to upper bounds on K(z)."""

_ORDERS, _ROUNDS = 64, 4  # orders tried at once, and how often the interval around the best is cut again
_MIN_ORDER, _MAX_ORDER = 1e-12, 1e12  # any order is valid, so that these limits cost tightness only
_MIN_PROFILE_ORDER, _MAX_PROFILE_ORDER, _PROFILE_ORDERS = 1e-6, 1e6, 400  # any set of orders gives a bound
_ROUNDED = 1e-11  # relative error of sums over moves and atoms: thousands of terms of 1e-16 and a margin
_LARGEST = 700.0  # exponent of a float
_HUGE = 1e300  # exponents are cut to this: infinity minus infinity would be NaN


def closed_form_rdp(counts: Steps, *, delta: float) -> AccountantResult:
    """Return an upper bound on epsilon by closed-form log moments and largest losses; inf if infinity mass >= delta."""
    finite = delta - total_infinity_mass(counts)
    if finite <= 0:
        return AccountantResult(epsilon=math.inf, note="some loss is infinite more often than delta allows")
    smallest = _min_over_orders(counts, lambda orders, value: (value + log_peak(orders) - math.log(finite)) / orders)
    epsilon = min(smallest + _ROUNDED * abs(smallest), largest_loss(counts))
    return AccountantResult(epsilon=max(epsilon, 0.0), note="closed-form Renyi divergences")


def closed_form_rdp_delta(counts: Steps, *, epsilon: float) -> float:
    """Return an upper bound on delta, at most 1, by closed-form log moments at the best order; 0 for no steps."""
    if not counts:
        return 0.0
    log_delta = _min_over_orders(counts, lambda orders, value: value - orders * epsilon + log_peak(orders))
    rounded_up = math.exp(min(log_delta + _ROUNDED * (1 + abs(log_delta)), 0.0))
    return min(1.0, rounded_up + total_infinity_mass(counts))


def closed_form_profile(counts: Steps, epsilons: Array) -> Array:
    """Return upper bounds on delta in [0, 1] at some epsilons >= 0, by closed-form log moments at 400 fixed orders."""
    if not counts:
        return np.zeros(epsilons.shape)
    orders = np.geomspace(_MIN_PROFILE_ORDER, _MAX_PROFILE_ORDER, _PROFILE_ORDERS)
    value = closed_form_cumulants(counts)(orders) + log_peak(orders)
    log_delta = np.full(epsilons.shape, math.inf)
    for order, constant in zip(orders, value, strict=True):
        bound = constant - order * epsilons
        np.minimum(log_delta, bound + _ROUNDED * (1 + abs(constant) + order * epsilons), out=log_delta)
    return np.minimum(np.exp(np.minimum(log_delta, 0.0)) + total_infinity_mass(counts), 1.0)


def closed_form_cumulants(counts: Steps) -> LogMoment:
    """Return upper bounds on the log moments of a run's finite losses, the sum over its steps; inf on overflow."""
    log_moment = _log_moment_of_steps(counts.items())

    def cumulants(orders: Array) -> Array:
        spend(len(counts) * 100 * TURN)
        with np.errstate(over="ignore", invalid="ignore"):
            value = log_moment(orders)
        return np.where(np.isnan(value), math.inf, value * (1 + _ROUNDED))

    return cumulants


def _min_over_orders(counts: Steps, bound: Callable[[Array, Array], Array]) -> float:
    """Return the least `bound(orders, log moments)` over orders from 1e-12 to 1e12, zooming in four times."""
    cumulants = closed_form_cumulants(counts)
    corners = [curve.corners for curve in counts if isinstance(curve, RdpCurve)]
    orders = np.unique(np.concatenate([np.geomspace(_MIN_ORDER, _MAX_ORDER, _ORDERS), *corners]))
    with np.errstate(over="ignore", invalid="ignore"):
        return zoomed_minimum(lambda z: bound(z, cumulants(z)), orders, rounds=_ROUNDS, count=_ORDERS)[0]


def _log_moment_of_steps(counts: Iterable[tuple[Curve, int]]) -> LogMoment:
    log_moments = [(count, _log_moment(curve)) for curve, count in counts]
    return lambda orders: sum((count * of_step(orders) for count, of_step in log_moments), np.zeros(orders.shape))


@cached_with_cost(1024)
def _log_moment(curve: Curve) -> LogMoment:
    """Return the closed-form upper bound on a step's K; TypeError for an unknown kind."""
    match curve:
        case PublicDraw():
            log_rate, of_steps = math.log(curve.rate), _log_moment_of_steps(curve.counts)
            return lambda orders: np.logaddexp(0.0, log_rate + _log_expm1(np.minimum(of_steps(orders), _HUGE)))
        case RdpCurve():
            return lambda orders: curve.cumulants(orders)[0]
        case Loss() if not curve.segments:
            return _log_moment_of_atoms(curve)

    # Chords lie below the profile of their pair: its moves cover their atoms as well.
    parts = [(np.zeros(0), np.zeros(0))]
    for part in curve.parts if isinstance(curve, Loss) else [curve.segments]:
        halves = [_moves_of_pair(each.pair) for each in part]
        far, logs_of_part = halves[0] if len(halves) == 1 else _dominating_moves(*halves)
        parts.append((far, logs_of_part + math.log(part[0].weight)))
    distances, logs = (np.concatenate([each[i] for each in parts]) for i in (0, 1))
    half_squares, place = np.unique(distances**2 / 2, return_inverse=True)
    log_masses = np.full(half_squares.size, -math.inf)
    np.logaddexp.at(log_masses, place, logs)

    def log_moment(orders: Array) -> Array:  # log(1 + sum of mass (e^(z (z + 1) distance^2 / 2) - 1))
        exponent = np.minimum((orders * (orders + 1))[:, None] * half_squares, _HUGE)
        gain = np.logaddexp.reduce(log_masses + _log_expm1(exponent), axis=1, initial=-math.inf)
        return np.logaddexp(0.0, gain)

    return log_moment


def _log_moment_of_atoms(atoms: Loss) -> LogMoment:
    """Return that of finitely many losses, at least 0, with a margin for round-off."""
    losses, logs = np.array(atoms.losses), np.array(atoms.log_masses)
    log_zero = math.log(atoms.zero_loss_mass) if atoms.zero_loss_mass > 0 else -math.inf
    drawn = float(np.exp(logs).sum()) if atoms.is_drawn else 1.0

    def log_moment(orders: Array) -> Array:
        value = np.full(orders.shape, log_zero)
        if losses.size:
            raised = logs + orders[:, None] * losses
            top = raised.max(axis=1)  # finite; summed on its scale, which takes a fifth of the time of logaddexp
            value = np.logaddexp(top + np.log(np.exp(raised - top[:, None]).sum(axis=1)), value)
        if atoms.is_drawn:  # of a rare draw 1 + sum of mass (e^(z loss) - 1) would lose what is beside the 1
            growth = np.exp(logs) * np.expm1(np.minimum(orders[:, None] * losses, _LARGEST))
            value = np.where(value < 1, np.log1p(growth.sum(axis=1) - atoms.infinity_mass), value)
        return np.maximum(value, 0.0) + 1e-15 * losses.size * drawn

    return log_moment


def _log_expm1(x: Array) -> Array:
    """Return log(e^x - 1) for x >= 0, elementwise; -inf at 0."""
    with np.errstate(divide="ignore"):
        logs: Array = np.where(x < 1, np.log(np.expm1(np.minimum(x, 1.0))), x + np.log1p(-np.exp(-np.maximum(x, 1.0))))
    return logs


def _dominating_moves(a: Moves, b: Moves) -> Moves:
    """Return moves that cover both: at every cumulative mass from the farthest on, the larger of their distances."""
    by_distance = []
    for distances, logs in (a, b):
        order = np.argsort(-distances, kind="stable")
        by_distance.append((np.append(distances[order], 0.0), np.cumsum(np.exp(logs[order])) * (1 + _ROUNDED)))
    (first, second), log_masses = _at_common_ends(by_distance)
    return np.maximum(first, second), log_masses


def _at_common_ends(laws: list[tuple[Array, Array]]) -> tuple[list[Array], Array]:
    """Return each law's value in every cell between any two of their cumulative masses, and the log masses of cells."""
    # `laws` are (values, cumulative masses); a last value stands for what is above the last mass.
    ends = np.unique(np.concatenate([own for _, own in laws]))
    masses = np.diff(ends, prepend=0.0)
    used = masses > 0
    places = ((values, np.searchsorted(own, ends[used], side="left")) for values, own in laws)
    return [values[np.minimum(at, values.size - 1)] for values, at in places], np.log(masses[used])


def _moves_of_pair(pair: MixturePair) -> Moves:
    """Return moves of P's excess mass to Q's, outermost to outermost, in deviations; empty for P = Q."""
    spend(100 * TURN + 40 * ELEMENT * len(pair.centers))
    gaps = np.array(pair.differences)
    centers = np.array(pair.centers) / pair.deviation
    is_p_left = float((gaps * centers).sum()) < 0
    # Where mass lies far out it is rare, and is summed first, so that it keeps its digits. Sums are raised by more than
    # they were rounded by: then at least as much is moved over each distance or a larger one.
    sides = []
    for excess, from_left in ((gaps, is_p_left), (-gaps, not is_p_left)):
        order = np.flatnonzero(excess > 0)[:: 1 if from_left else -1]
        sides.append((centers[order], np.cumsum(excess[order]) * (1 + _ROUNDED)))
    (_, moved), (_, filled) = sides
    if not moved.size or not filled.size:
        return np.zeros(0), np.zeros(0)
    # Both sums are the total variation of the weights, but for rounding: the last of each goes as far as the larger.
    moved[-1] = filled[-1] = max(moved[-1], filled[-1])
    (start, goal), log_masses = _at_common_ends(sides)
    return np.abs(start - goal) * (1 + _ROUNDED), log_masses
