"""Epsilon in closed form: basic, advanced and optimal composition, Gaussians without sampling, Renyi divergences.

`counts` is always: the steps of one direction and how often each occurs, not empty.

Source: docs/theory.md, Theorem 3.1, Theorem 3.2 and Theorem 3.3.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

import numpy as np

from dpcalc.accountants import AccountantResult
from dpcalc.accountants.rdp import log_peak
from dpcalc.errors import ConvergenceError, UnsupportedError
from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import Curve, PublicDraw, RdpCurve, Steps, largest_loss, total_infinity_mass
from dpcalc.losses.pair import MixturePair, half_line_terms, set_terms
from dpcalc.numerics import Array, bracket_root, mills_ratio, normal_log_cdf, zoomed_minimum
from dpcalc.work import ELEMENT, TURN, cached_with_cost, spend


def basic(counts: Steps, *, delta: float) -> AccountantResult:
    """Return the sum of the steps' epsilons, each at delta / (number of steps): Dwork, Roth 2014, Theorem 3.16."""
    share = delta / sum(counts.values())
    total = sum(count * step_epsilon(curve, share) for curve, count in counts.items())
    return AccountantResult(epsilon=total, note=f"delta {share:.3g} a step")


def step_epsilon(curve: Curve, delta: float) -> float:
    """Return the larger epsilon at `delta` of `curve` and its swapped pair; UnsupportedError unless a Loss."""
    if not isinstance(curve, Loss):
        raise UnsupportedError(
            "method: expected pld, rdp, rdp-classic or moments, got one that composes "
            "steps by their epsilon and delta, which are not known here for single steps"
        )
    return max(curve.epsilon(delta), curve.swapped.epsilon(delta))


# Fractions of delta that are tried, from 0.84 down to 1e-9. Any is valid, so that the scan costs tightness only.
_FRACTIONS: list[float] = [0.5 ** (k / 4) for k in range(1, 121)]


def advanced(counts: Steps, *, delta: float) -> AccountantResult:
    """Return an upper bound on epsilon by advanced composition at the best split of delta."""
    # With delta' for the theorem and the rest spread evenly over the steps, epsilon = sqrt(2 ln(1/delta') sum eps_i^2)
    # + sum eps_i (e^eps_i - 1): Dwork, Roth 2014, Theorem 3.20; unequal steps by the same martingale.
    steps = sum(counts.values())

    def epsilon_with(fraction: float) -> float:
        share = delta * (1 - fraction) / steps
        squares, drift = 0.0, 0.0
        for curve, count in counts.items():
            epsilon = step_epsilon(curve, share)
            squares += count * epsilon**2
            drift += count * epsilon * math.expm1(epsilon) if epsilon < 700 else math.inf
        return math.sqrt(2 * math.log(1 / (delta * fraction)) * squares) + drift

    best = best_fraction(epsilon_with)
    return AccountantResult(epsilon=epsilon_with(best), note=f"delta' = {best * delta:.3g}")


def best_fraction(epsilon_with: Callable[[float], float]) -> float:
    """Return the fraction in (0, 0.999] with the smallest `epsilon_with` on a geometric grid that is refined twice."""
    coarse = min(_FRACTIONS[::8], key=epsilon_with)
    fine = min((f for f in _FRACTIONS if coarse / 5 < f < 5 * coarse), key=epsilon_with)
    low, high = fine / 2**0.25, min(fine * 2**0.25, 0.999)
    return min((low + (high - low) * k / 16 for k in range(17)), key=epsilon_with)


# Optimal composition: the smallest epsilon that the guarantees (epsilon_0, delta_0) of the steps can prove.
#
# Every (epsilon_0, delta_0)-DP step is post-processing of one that tells all with probability delta_0 and else
# answers a bit by randomized response, true with probability e^epsilon_0 / (1 + e^epsilon_0). Of k such bits l are
# false with probability P(l) = C(k, l) e^((k - l) epsilon_0) / (1 + e^epsilon_0)^k, and the loss is then (k - 2 l)
# epsilon_0. Hence k steps have, at every epsilon, the delta
#
#     1 - (1 - delta_0)^k (1 - H(epsilon)),    H(epsilon) = sum_l P(l) [1 - e^(epsilon - (k - 2 l) epsilon_0)]_+ ,
#
# and no smaller one holds for all such steps (Kairouz, Oh, Viswanath 2015, 1311.0776v4, Theorem 3.3, which states it
# at epsilon = (k - 2 i) epsilon_0; between these points H is linear in e^epsilon).
#
# Source: docs/theory.md, Theorem 3.3.


_DEPTH = 40.0  # -log of the mass that sums leave out, relative to delta or 1: e^-40 is below float64's round-off
_ROUNDOFF = 2.0**-53  # of one float operation, relative
_MAX_STEPS = 10**10  # sums then have about 1e6 terms, which grow with the square root of the steps


def optimal(counts: Steps, *, delta: float) -> AccountantResult:
    """Return epsilon by optimal composition at the best split of delta: exact for equal steps, else a closed form."""
    # For different steps the optimum is #P-complete to compute (Murtagh, Vadhan 2016, 1507.03113). Kairouz, Oh,
    # Viswanath 2015 (1311.0776v4), Theorem 3.3 for equal steps, Theorem 3.5 for different ones.
    steps = sum(counts.values())

    def epsilon_with(fraction: float) -> float:
        share = -math.expm1((1 - fraction) * math.log1p(-delta) / steps)
        delta_composition = -math.expm1(fraction * math.log1p(-delta))
        one_step = [(step_epsilon(curve, share), count) for curve, count in counts.items()]
        if len(one_step) == 1:
            return equal_steps(*one_step[0], delta=delta_composition)
        return different_steps(one_step, delta=delta_composition)

    best = min(best_fraction(epsilon_with), 0.0, key=epsilon_with)
    theorem = "exact" if len(counts) == 1 else "steps differ: closed form"
    return AccountantResult(epsilon=epsilon_with(best), note=f"{theorem}, {best:.2g} of delta for the composition")


def equal_steps(epsilon: float, count: int, *, delta: float) -> float:
    """Return the optimal epsilon of `count` (epsilon, 0)-DP steps, rounded up; ConvergenceError if count > 1e10.

    Example:
        >>> round(equal_steps(0.1, 1, delta=0.0), 12), round(equal_steps(0.1, 1000, delta=1e-6), 3)
        (0.1, 19.345)
    """
    if count > _MAX_STEPS:
        raise ConvergenceError(f"optimal: expected at most {_MAX_STEPS:.0e} equal steps, got {count}; try --method pld")
    if epsilon in {0.0, math.inf} or delta == 0:
        return count * epsilon
    # Log masses P(l) of the numbers l of false answers that matter, from the mode outwards by the ratio P(l + 1) / P(l)
    # = (k - l) / (l + 1) e^-epsilon, scaled to sum to 1. By Bernstein's inequality l lies t below its mean m with
    # probability at most e^(-t^2 / 2m), and t above it at most e^(-t^2 / (2m + 2t/3)). The mass left out on the side of
    # few false answers (large losses) is small against delta, on the other against 1.
    log_delta = math.log(delta)
    mean = count / (1 + math.exp(min(epsilon, 700.0)))
    first = max(0, math.floor(mean - math.sqrt(2 * mean * (_DEPTH - log_delta))))
    last = min(count, math.ceil(mean + _DEPTH / 3 + math.sqrt((_DEPTH / 3) ** 2 + 2 * _DEPTH * mean)))
    mode = min(max(round(mean), first), last)
    spend(10 * ELEMENT * (last - first + 1))
    steps = np.arange(first, last, dtype=np.float64)
    log_ratio = np.log((count - steps) / (steps + 1)) - epsilon
    right = np.cumsum(log_ratio[mode - first :])
    left = -np.cumsum(log_ratio[: mode - first][::-1])[::-1]
    log_p = np.concatenate([left, [0.0], right])
    log_p -= np.logaddexp.reduce(log_p)

    # With A_i = sum_{l < i} P(l) and B_i = sum_{l < i} P(l) e^(-2 (i - l) epsilon_0), H((k - 2 i) epsilon_0) = A_i -
    # B_i, and between the points i - 1 and i the root of H(epsilon) = delta is (k - 2 i) epsilon_0 + log((A_i - delta)
    # / B_i).
    places = np.arange(first + 1, first + 1 + log_p.size)  # i
    turn = 2 * epsilon * (places - 1 - first)  # keeps the sum for B in range
    below = np.logaddexp.accumulate(log_p)
    above = np.logaddexp.accumulate(log_p + turn) - turn - 2 * epsilon
    with np.errstate(divide="ignore"):
        log_h = below + np.log(-np.expm1(np.minimum(above - below, 0.0)))
    at = int(np.argmax(log_h > log_delta))
    if log_h[at] > log_delta:
        slack = 4 * _ROUNDOFF * log_p.size * (_DEPTH - log_delta)
        mass = math.exp(below[at]) * (1 + slack)
        root = (count - 2 * int(places[at])) * epsilon + math.log(mass - delta) - float(above[at]) + slack
    else:
        root = (count - 2 * int(places[-1])) * epsilon
    return min(max(0.0, root), count * epsilon)


def different_steps(one_step: list[tuple[float, int]], *, delta: float) -> float:
    """Return the smallest of the summed epsilons and two closed-form bounds (Theorem 3.5); the sum if delta is 0."""
    plain = sum(count * epsilon for epsilon, count in one_step)
    if delta == 0:
        return plain
    drift = sum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in one_step)
    squares = sum(count * epsilon**2 for epsilon, count in one_step)
    log_room = min(math.log(1 / delta), math.log(math.e + math.sqrt(squares) / delta))
    return min(plain, drift + math.sqrt(2 * squares * log_room))


# Epsilon in closed form: Gaussians without sampling, single steps, large delta; and the central limit approximation.
# Gaussians without sampling compose to one Gaussian step: T_i steps of distance d_i over deviation sigma_i to the pair
# N(0, 1), N(mu, 1), mu^2 = sum T_i (d_i/sigma_i)^2 (Dong, Roth, Su 2022, 1905.02383, corollary 3.3), with
# delta(epsilon) = Phi(a) - e^epsilon Phi(a - mu), a = mu/2 - epsilon/mu (Balle, Wang 2018, 1805.06530, theorem 8).
# `counts` is always: the steps of one direction and how often each occurs. Bounds are certified: None where no form
# applies, or where round-off exceeds 1e-6 of delta.
# Source: docs/theory.md, Theorem 9.8 and Theorem 3.1.


_UNIT = 2.0**-53  # unit round-off
_CERTAIN = 30.0  # deviations beyond which a normal variable has a mass below e^-450
_MIN_DELTA = 1e-300  # smallest delta that is printed; a smaller one is called this (upper) or 0 (lower)
_LOG_VANISHING = -720.0  # log of a probability below _MIN_DELTA by far more than its round-off
_LOG_ROOT = math.log(math.sqrt(2 * math.pi))
_MAX_ROUNDOFF = 1e-6  # round-off as a share of delta above which the composition on a grid takes over
_PER_LOSS = 4e-15  # share of delta by which a profile of finitely many losses may be read too high, for each of them
_UNDERFLOWN = 1e-307  # a smaller float has lost digits
_LOWER_MARGIN = 1e-11  # relative; wider than the bracket of a root, whose upper end was read


def closed_form_epsilon(counts: Mapping[Curve, int], *, delta: float, is_upper: bool) -> float | None:
    """Return a bound on epsilon by the first closed form that applies."""
    for form in (gaussian_epsilon, one_step_epsilon):
        epsilon = form(counts, delta=delta, is_upper=is_upper)
        if epsilon is not None:
            return epsilon
    # 0 if all steps are of atoms or two halves whose deltas at epsilon 0 sum to at most `delta`.
    total = 0.0
    for curve, count in counts.items():
        if not isinstance(curve, Loss) or curve.is_drawn or len(curve.segments) == 1:
            return None
        total += count * curve.delta(0.0)
    return 0.0 if total <= delta * (1 - _MAX_ROUNDOFF) else None


def closed_form_delta(counts: Mapping[Curve, int], *, epsilon: float, is_upper: bool) -> float | None:
    """Return a bound on delta, in [0, 1], of unsampled Gaussians, or of one step with a profile."""
    mu = composed_gaussian_mu(counts)
    if mu:
        if normal_log_cdf(mu / 2 - epsilon / mu) < _LOG_VANISHING:  # delta is less than this probability
            return _MIN_DELTA if is_upper else 0.0
        log_delta, error = gaussian_log_delta(mu, epsilon)
        if error <= _MAX_ROUNDOFF:
            sign = 1 if is_upper else -1
            return min(1.0, max(0.0, math.exp(log_delta) * (1 + sign * error) + sign * _UNDERFLOWN))
    match _only_step(counts):
        case Loss(is_drawn=False, segments=(ahead, back)):
            terms = half_line_terms(ahead.pair, max(ahead.high, back.high), epsilon)  # as if it had no chords
        case MixturePair() as pair if not is_upper:  # its largest losses may lie anywhere: a set misses some
            terms = set_terms(pair, epsilon)
        case _:
            return None
    value, error = math.fsum(terms), 2 * _roundoff_of_sum(terms, epsilon)
    if terms and error > _MAX_ROUNDOFF * value:
        return None
    return min(1.0, max(0.0, value + error if is_upper else value - error))


def gaussian_epsilon(counts: Mapping[Curve, int], *, delta: float, is_upper: bool) -> float | None:
    """Return a bound on epsilon of unsampled Gaussians of mu > 0, about 1e-9 relative from the exact value."""
    mu = composed_gaussian_mu(counts)
    bracket = None if mu is None else _epsilon_bracket(mu, delta, 1 if is_upper else -1)
    if mu is None or bracket is None:
        return None
    epsilon = bracket[is_upper]
    return epsilon if not epsilon or gaussian_log_delta(mu, epsilon)[1] < _MAX_ROUNDOFF else None


def _epsilon_bracket(mu: float, delta: float, sign: int) -> tuple[float, float] | None:
    """Return a bracket of a Gaussian's epsilon, delta rounded up (sign 1) or down; (0, 0) if delta is met at 0."""
    # None if floats do not hold the profile, for mu 0 or one whose square overflows.
    log_delta = math.log(delta)

    def excess(epsilon: float) -> float:
        log_value, error = gaussian_log_delta(mu, epsilon)
        return log_value + math.log1p(sign * min(error, _MAX_ROUNDOFF)) - log_delta

    far = mu * mu / 2 + mu * math.sqrt(-2 * log_delta) * (1 + 1e-9)  # there delta is at most half of e^(-a^2 / 2)
    if not 0 < far < math.inf or excess(far) > 0:
        return None
    return (0.0, 0.0) if excess(0.0) <= 0 else bracket_root(excess, 0.0, far, tolerance=1e-13)


def composed_gaussian_mu(counts: Mapping[Curve, int]) -> float | None:
    """Return the mu of the one Gaussian step that all compose to, 0 if empty; None for other steps."""
    squares = []
    for curve, count in counts.items():
        match curve:
            case MixturePair() | Loss(is_drawn=False, segments=(_, _)):
                pairs = [segment.pair for segment in curve.segments]
            case _:
                return None
        distances = set()
        for pair in pairs:
            # A weight that rounds to 1 is not enough: beside it a component of 1e-17 may decide.
            if any(sum(weight > 0 for weight in weights) != 1 for weights in (pair.weights_p, pair.weights_q)):
                return None
            p, q = (pair.centers[weights.index(1.0)] for weights in (pair.weights_p, pair.weights_q))
            distances.add(abs(p - q) / pair.deviation)
        if len(distances) > 1:
            return None
        squares.append(count * distances.pop() ** 2)
    return math.sqrt(math.fsum(squares))


def one_step_epsilon(counts: Mapping[Curve, int], *, delta: float, is_upper: bool) -> float | None:
    """Return a bound on epsilon of a single step of atoms or two halves, about 1e-6 of delta from the exact."""
    # An exponent x of a probability is good to x units in the last place.
    match _only_step(counts):
        case Loss(is_drawn=False, segments=()) as curve:
            if is_upper:
                return curve.epsilon(delta)
            epsilon = curve.epsilon(delta * (1 + _PER_LOSS * (1 + len(curve.losses))))
            return epsilon * (1 - _LOWER_MARGIN) if epsilon < math.inf else None
        case Loss(is_drawn=False, segments=(ahead, back)) as curve:
            epsilon = curve.epsilon(delta)
            error = _roundoff_of_sum(half_line_terms(ahead.pair, max(ahead.high, back.high), epsilon), epsilon)
            if error > _MAX_ROUNDOFF * delta:
                return None
            epsilon = curve.epsilon(delta - 2 * error if is_upper else delta + 2 * error)
            return epsilon if is_upper else epsilon * (1 - _LOWER_MARGIN)
    return None


def _only_step(counts: Mapping[Curve, int]) -> Curve | None:
    """Return the step if there is exactly one, which occurs once; else None."""
    ((curve, count), *more) = counts.items()
    return None if more or count > 1 else curve


def _roundoff_of_sum(terms: list[float], epsilon: float) -> float:
    """Return a bound on the round-off of a sum of terms +-e^x, each with an error of |x| units in the last place."""
    error = 1e-15 * sum(abs(term) * (50 + 2 * epsilon - 2 * math.log(min(abs(term), 1.0))) for term in terms if term)
    return error + _UNDERFLOWN * len(terms)


def gaussian_log_delta(mu: float, epsilon: float) -> tuple[float, float]:
    """Return (log delta(epsilon) of N(0, 1) against N(mu, 1), bound on delta's relative round-off), mu > 0."""
    # With a = mu/2 - epsilon/mu the normal density phi has e^epsilon phi(a - mu) = phi(a), so that delta = phi(a)
    # (R(-a) - R(mu - a)) with Mills' ratio R: no term underflows, however small delta is. A rounded a is that of
    # another epsilon nearby, and d delta / d epsilon = -phi(a) R(mu - a), d delta / d mu = phi(a).
    a = mu / 2 - epsilon / mu
    if a > _CERTAIN:  # the discounted term is below e^-450
        return normal_log_cdf(a), 8 * _UNIT
    near, far = mills_ratio(-a), mills_ratio(mu - a)
    error = 16 * _UNIT * (far * (mu * mu / 2 + epsilon + 1) + mu + near * (1 + a * a))
    difference = max(near - far, _MIN_DELTA)
    return -a * a / 2 - _LOG_ROOT + math.log(difference), error / difference


def gaussian_tangent(mu: float, epsilon: float) -> tuple[float, float]:
    """Return delta, rounded down, and -d delta / d epsilon at epsilon, for N(0, 1) against N(mu, 1)."""
    log_delta, error = gaussian_log_delta(mu, epsilon)
    a = mu / 2 - epsilon / mu
    return math.exp(log_delta) * max(0.0, 1 - error), math.exp(-a * a / 2 - _LOG_ROOT) * mills_ratio(mu - a)


# The central limit approximation by Gaussian differential privacy, which proves nothing (docs/theory.md, Remark 9.10).


def central_limit_mu(steps: Iterable[tuple[Fraction, float, int]]) -> float:
    """Return mu of Poisson-sampled Gaussian steps, exact for rate 1, else in the central limit; inf on overflow.

    sqrt(sum T q^2 (e^(1/sigma^2) - 1)), an approximation for small q and large T (Bu, Dong, Long, Su 2020,
    1911.11607v3, section 3: Poisson, add-remove); without sampling sqrt(sum T / sigma^2), which is exact (Dong, Roth,
    Su 2022, 1905.02383v3, Corollary 3.3; Theorem 3.4 for the limit).

    Example:
        >>> round(central_limit_mu([(Fraction(1, 100), 1.0, 1000)]), 4)
        0.4145
    """
    squares = 0.0
    for rate, noise_multiplier, count in steps:
        exponent = noise_multiplier**-2
        if rate == 1:
            squares += count * exponent
        elif exponent > 700:
            return math.inf
        else:
            squares += count * float(rate) ** 2 * math.expm1(exponent)
    return math.sqrt(squares)


def epsilon_of_mu(mu: float, *, delta: float) -> float:
    """Return epsilon of N(0, 1) against N(mu, 1), uncertified; 0 if delta is met at 0, inf if mu^2 overflows.

    Within about 1e-12 relative: Balle, Wang 2018 (1805.06530v2), Theorem 8.

    Example:
        >>> round(epsilon_of_mu(1.0, delta=1e-8), 5)
        5.7761
    """
    bracket = _epsilon_bracket(mu, delta, 0)
    return math.inf if bracket is None else bracket[1]


def gaussian_mu(epsilon: float, *, delta: float) -> float:
    """Return the mu whose Gaussian has this delta at epsilon, rounded up; 0 for delta 0, inf for delta 1 or mu > 1e6.

    Rounded up to a relative 1e-9: Balle, Wang 2018 (1805.06530v2), Theorem 8.

    Example:
        >>> round(gaussian_mu(5.7761, delta=1e-8), 5)
        1.0
    """
    if delta <= 0 or delta >= 1:
        return 0.0 if delta <= 0 else math.inf

    def excess(mu: float) -> float:
        return gaussian_log_delta(mu, epsilon)[0] - math.log(delta)

    high = 1.0
    while excess(high) < 0:
        high *= 2
        if high > 1e6:
            return math.inf
    return bracket_root(excess, 1e-12, high, tolerance=1e-9)[1]


# An upper bound on epsilon that always answers: Renyi divergences in closed form, without quadrature.
# Let P = sum_i p_i N(c_i, sigma^2) and Q = sum_i q_i N(c_i, sigma^2). Move the mass of P that Q does not have there
# onto the mass of Q that P does not have there, in any way: mass w_k goes over a distance d_k, and the rest eta_0
# stays. A hockey-stick divergence is jointly convex, so the profile of (P, Q) is at most that of a step which reveals
# the move: with probability w_k two Gaussians at a distance d_k, no loss with probability eta_0. For the log moment,
#     K(z) <= log(eta_0 + sum_k w_k e^{z (z + 1) d_k^2 / (2 sigma^2)}).
# This is amplified by the draw as if the draw were revealed. Of two halves that are glued (`of_two_halves`) each is
# bounded so, and a larger mass at every distance bounds both. Losses under a revealed draw are mixed likewise, atoms
# are summed exactly. Sources: Balle, Barthe, Gaboardi 2018 (1807.01647v2), Theorem 1, for joint convexity; Mironov 2017
# (1702.07476v3), Proposition 7, for Gaussians; conversion as in `rdp`. `counts` is always: the steps of one direction
# and how often each occurs.
# Source: docs/theory.md, Theorem 3.6.


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


@cached_with_cost(4096)
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
