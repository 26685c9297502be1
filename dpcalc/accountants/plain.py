"""An upper bound on epsilon that always answers: Renyi divergences in closed form, without quadrature.

Let P = sum_i p_i N(c_i, sigma^2) and Q = sum_i q_i N(c_i, sigma^2). Move the mass of P that Q does not have there onto
the mass of Q that P does not have there, in any way: mass w_k goes over a distance d_k, and the rest eta_0 stays. A
hockey-stick divergence is jointly convex, so the profile of (P, Q) is at most that of a step which reveals the move:
with probability w_k two Gaussians at a distance d_k, no loss with probability eta_0. For the log moment,

    K(z) <= log(eta_0 + sum_k w_k e^{z (z + 1) d_k^2 / (2 sigma^2)}).

This is amplified by the draw as if the draw were revealed. Of two halves that are glued (`GluedProfile`) each is
bounded so, and a larger mass at every distance bounds both. Losses under a revealed draw are mixed likewise, atoms are
summed exactly. Sources: Balle, Barthe, Gaboardi 2018 (1807.01647v2), Theorem 1, for joint convexity; Mironov 2017
(1702.07476v3), Proposition 7, for Gaussians; conversion as in `rdp`.

Source: docs/theory.md, Theorem 3.6.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from dpcalc.accountants.rdp import log_peak
from dpcalc.accountants.result import AccountantResult
from dpcalc.arrays import Array
from dpcalc.losses.atoms import Atoms
from dpcalc.losses.moments import Curve, RevealedSubsample, largest_loss, total_infinity_mass
from dpcalc.losses.pair import MixturePair
from dpcalc.losses.profile import GluedProfile, MonotonePair, PublicMixture
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.numerics.roots import zoomed_minimum
from dpcalc.work import ELEMENT, TURN, spend

Moves = tuple[Array, Array]
"""(distances in deviations of the noise, log of the mass that is moved over each)."""

_ORDERS, _ROUNDS = 64, 4  # orders tried at once, and how often the interval around the best is cut again
_MIN_ORDER, _MAX_ORDER = 1e-12, 1e12  # any order is valid, so that these limits cost tightness only
_MIN_PROFILE_ORDER, _MAX_PROFILE_ORDER, _PROFILE_ORDERS = 1e-6, 1e6, 400  # any set of orders gives a bound
_ROUNDED = 1e-11  # relative error of sums over moves and atoms: thousands of terms of 1e-16 and a margin
_HUGE = 1e300  # exponents are cut to this: infinity minus infinity would be NaN


def closed_form_rdp(counts: dict[Curve, int], *, delta: float) -> AccountantResult:
    """Return an upper bound on epsilon by closed-form log moments and largest losses; inf if infinity mass >= delta."""
    finite = delta - total_infinity_mass(counts.items())
    if finite <= 0:
        return AccountantResult(epsilon=math.inf, note="some loss is infinite more often than delta allows")
    smallest = _min_over_orders(counts, lambda orders, value: (value + log_peak(orders) - math.log(finite)) / orders)
    epsilon = min(smallest + _ROUNDED * abs(smallest), largest_loss(counts.items()))
    return AccountantResult(epsilon=max(epsilon, 0.0), note="closed-form Renyi divergences")


def closed_form_rdp_delta(counts: dict[Curve, int], *, epsilon: float) -> float:
    """Return an upper bound on delta, at most 1, by closed-form log moments at the best order; 0 for no steps."""
    if not counts:
        return 0.0
    log_delta = _min_over_orders(counts, lambda orders, value: value - orders * epsilon + log_peak(orders))
    return min(
        1.0, math.exp(min(log_delta + _ROUNDED * (1 + abs(log_delta)), 0.0)) + total_infinity_mass(counts.items())
    )


def closed_form_cumulants(counts: dict[Curve, int]) -> Callable[[Array], Array]:
    """Return a function from orders z > 0 to upper bounds on the log moments of a run's finite losses."""
    log_moment = _log_moment_of_steps(counts.items())

    def cumulants(orders: Array) -> Array:
        """Return upper bounds on K(z), the sum over the steps; inf where it overflows."""
        spend(len(counts) * 100 * TURN)
        with np.errstate(over="ignore", invalid="ignore"):
            value = log_moment(orders)
        return np.where(np.isnan(value), math.inf, value * (1 + _ROUNDED))

    return cumulants


def closed_form_profile(counts: dict[Curve, int], epsilons: Array) -> Array:
    """Return upper bounds on delta in [0, 1] at some epsilons >= 0, by closed-form log moments at 400 fixed orders."""
    if not counts:
        return np.zeros(epsilons.shape)
    orders = np.geomspace(_MIN_PROFILE_ORDER, _MAX_PROFILE_ORDER, _PROFILE_ORDERS)
    value = closed_form_cumulants(counts)(orders) + log_peak(orders)
    log_delta = np.full(epsilons.shape, math.inf)
    for order, constant in zip(orders, value, strict=True):
        bound = constant - order * epsilons
        np.minimum(log_delta, bound + _ROUNDED * (1 + abs(constant) + order * epsilons), out=log_delta)
    profile: Array = np.minimum(np.exp(np.minimum(log_delta, 0.0)) + total_infinity_mass(counts.items()), 1.0)
    return profile


def _min_over_orders(counts: dict[Curve, int], bound: Callable[[Array, Array], Array]) -> float:
    """Return the least `bound(orders, log moments)` over orders from 1e-12 to 1e12, zooming in four times."""
    cumulants = closed_form_cumulants(counts)
    corners = [curve.corners for curve in counts if isinstance(curve, RdpCurve)]
    orders = np.unique(np.concatenate([np.geomspace(_MIN_ORDER, _MAX_ORDER, _ORDERS), *corners]))
    with np.errstate(over="ignore", invalid="ignore"):
        return zoomed_minimum(lambda z: bound(z, cumulants(z)), orders, rounds=_ROUNDS, count=_ORDERS)[0]


def _log_expm1(x: Array) -> Array:
    """Return log(e^x - 1) for x >= 0, elementwise; -inf at 0."""
    with np.errstate(divide="ignore"):
        logs: Array = np.where(x < 1, np.log(np.expm1(np.minimum(x, 1.0))), x + np.log1p(-np.exp(-np.maximum(x, 1.0))))
    return logs


LogMoment = Callable[[Array], Array]
"""From orders z > 0, shape (n,), to upper bounds on K(z) of one step."""


def _log_moment(curve: Curve) -> LogMoment:
    """Return the closed-form upper bound on a step's K as a function of orders z > 0; TypeError for an unknown kind."""
    match curve:
        case RevealedSubsample(rate=rate, counts=counts):
            return _log_moment_of_mixture([(math.log(rate), _log_moment_of_steps(counts))])
        case RdpCurve():
            return lambda orders: curve.cumulants(orders)[0]
        case Atoms():
            return _log_moment_of_atoms(curve)
        case PublicMixture() if any(isinstance(profile, Atoms) for profile in curve.profiles):
            # A draw less likely than any float is left out: it adds less than that to delta.
            drawn = zip(curve.weights, curve.profiles, strict=True)
            return _log_moment_of_mixture([(math.log(weight), _log_moment(part)) for weight, part in drawn if weight])
        case _:
            return _log_moment_of_moves(_moves(curve))


def _log_moment_of_steps(counts: Iterable[tuple[Curve, int]]) -> LogMoment:
    """Return the sum of the steps' log moments as a function of orders z."""
    log_moments = [(count, _log_moment(curve)) for curve, count in counts]

    def log_moment(orders: Array) -> Array:
        """Return the sum at each order."""
        return sum((count * of_step(orders) for count, of_step in log_moments), start=np.zeros(orders.shape))

    return log_moment


def _log_moment_of_mixture(parts: list[tuple[float, LogMoment]]) -> LogMoment:
    """Return the log moment, by z, of a public mixture of (log weight, log moment); the remaining weight has loss 0."""

    def log_moment(orders: Array) -> Array:
        """Return log(1 + sum of weight (e^K(z) - 1)) at each order z."""
        gains = [log_weight + _log_expm1(np.minimum(part(orders), _HUGE)) for log_weight, part in parts]
        gain = np.logaddexp.reduce(gains, axis=0) if gains else np.full(orders.shape, -math.inf)
        return np.asarray(np.logaddexp(0.0, gain), dtype=np.float64)

    return log_moment


def _log_moment_of_atoms(atoms: Atoms) -> LogMoment:
    """Return an upper bound, at least 0, on the log moment of atoms as a function of orders z."""
    losses, logs = np.array(atoms.losses), np.array(atoms.log_masses)
    log_zero = math.log(atoms.zero_loss_mass) if atoms.zero_loss_mass > 0 else -math.inf

    def log_moment(orders: Array) -> Array:
        """Return log E_P[e^(z loss)] at each order z, at least 0, with a margin for round-off."""
        value = np.full(orders.shape, log_zero)
        if losses.size:
            raised = logs + orders[:, None] * losses
            top = raised.max(axis=1)  # finite; summed on its scale, which takes a fifth of the time of logaddexp
            value = np.logaddexp(top + np.log(np.exp(raised - top[:, None]).sum(axis=1)), value)
        return np.asarray(np.maximum(value, 0.0) + 1e-15 * losses.size, dtype=np.float64)

    return log_moment


def _log_moment_of_moves(moves: Moves) -> LogMoment:
    """Return an upper bound on the log moment, as a function of z, if masses are moved over these distances."""
    distances, logs = moves
    half_squares, place = np.unique(distances**2 / 2, return_inverse=True)
    log_masses = np.full(half_squares.size, -math.inf)
    np.logaddexp.at(log_masses, place, logs)

    def log_moment(orders: Array) -> Array:
        """Return log(1 + sum of mass (e^(z (z + 1) distance^2 / 2) - 1)) at each order z."""
        exponent = np.minimum((orders * (orders + 1))[:, None] * half_squares, _HUGE)
        gain = np.logaddexp.reduce(log_masses + _log_expm1(exponent), axis=1, initial=-math.inf)
        return np.asarray(np.logaddexp(0.0, gain), dtype=np.float64)

    return log_moment


def _moves(curve: Curve) -> Moves:
    """Return moves that turn P into Q, of any kind of step made of Gaussian mixtures; TypeError for other kinds."""
    match curve:
        case PublicMixture():
            return _moves_of_public_mixture(curve)
        case GluedProfile():
            return _dominating_moves(_moves_of_pair(curve.own), _moves_of_pair(curve.other))
        case MonotonePair():
            return _moves_of_pair(curve.pair)
        case MixturePair():
            return _moves_of_pair(curve)
        case _:
            raise TypeError(f"{type(curve).__name__}: expected a step made of Gaussian mixtures")


def _concatenated_moves(parts: Iterable[Moves]) -> Moves:
    """Return the moves of several parts as one pair of arrays; empty ones for no parts."""
    all_parts = [*parts, (np.zeros(0), np.zeros(0))]
    distances, logs = (np.concatenate([part[i] for part in all_parts]) for i in (0, 1))
    return distances, logs


def _dominating_moves(a: Moves, b: Moves) -> Moves:
    """Return moves that cover both: at every cumulative mass from the farthest on, the larger of their distances."""
    (far_a, ends_a), (far_b, ends_b) = (_from_farthest(moves) for moves in (a, b))
    ends = np.unique(np.concatenate([ends_a, ends_b]))
    distances = []
    for far, own in ((far_a, ends_a), (far_b, ends_b)):
        at = np.searchsorted(own, ends, side="left")
        distances.append(np.append(far, 0.0)[np.minimum(at, far.size)])
    masses = np.diff(ends, prepend=0.0)
    used = masses > 0
    return np.maximum(*distances)[used], np.log(masses[used])


def _from_farthest(moves: Moves) -> Moves:
    """Return the distances, falling, and the cumulative masses from the farthest on, rounded up."""
    distances, logs = moves
    order = np.argsort(-distances, kind="stable")
    return distances[order], np.cumsum(np.exp(logs[order])) * (1 + _ROUNDED)


def _moves_of_public_mixture(mixture: PublicMixture) -> Moves:
    """Return the moves of all profiles, their masses times the profile's weight."""
    # A draw less likely than any float is left out: it adds less than that to delta.
    parts = zip(mixture.weights, map(_moves, mixture.profiles), strict=True)
    return _concatenated_moves((distances, logs + math.log(weight)) for weight, (distances, logs) in parts if weight)


def _moves_of_pair(pair: MixturePair) -> Moves:
    """Return moves of P's excess mass to Q's, outermost to outermost, in deviations; empty for P = Q."""
    spend(100 * TURN + 40 * ELEMENT * len(pair.centers))
    gaps = np.array(pair.differences)
    centers = np.array(pair.centers) / pair.deviation
    is_p_left = float((gaps * centers).sum()) < 0
    sums_p, places_p = _excess_from_outside(gaps, centers, from_left=is_p_left)
    sums_q, places_q = _excess_from_outside(-gaps, centers, from_left=not is_p_left)
    if not places_p.size or not places_q.size:
        return np.zeros(0), np.zeros(0)
    # Both sums are the total variation of the weights, but for rounding: the last of each goes as far as the larger.
    sums_p[-1] = sums_q[-1] = max(sums_p[-1], sums_q[-1])
    sums = np.unique(np.concatenate([sums_p, sums_q]))
    start = places_p[np.minimum(np.searchsorted(sums_p, sums, side="left"), places_p.size - 1)]
    goal = places_q[np.minimum(np.searchsorted(sums_q, sums, side="left"), places_q.size - 1)]
    return np.abs(start - goal) * (1 + _ROUNDED), np.log(np.diff(sums, prepend=0.0))


def _excess_from_outside(gaps: Array, centers: Array, *, from_left: bool) -> tuple[Array, Array]:
    """Return (running sums of the positive gaps, rounded up, and their centers), from the left or the right end."""
    # Where mass lies far out it is rare, and is summed first, so that it keeps its digits. Sums are raised by more than
    # they were rounded by: then at least as much is moved over each distance or a larger one.
    order = np.flatnonzero(gaps > 0)
    order = order if from_left else order[::-1]
    return np.cumsum(gaps[order]) * (1 + _ROUNDED), centers[order]
