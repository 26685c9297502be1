"""Epsilon in closed form: Gaussians without sampling, single steps, large delta; and the central limit approximation.

Gaussians without sampling compose to one Gaussian step: T_i steps of distance d_i over deviation sigma_i to the pair
N(0, 1), N(mu, 1), mu^2 = sum T_i (d_i/sigma_i)^2 (Dong, Roth, Su 2022, 1905.02383, corollary 3.3), with
delta(epsilon) = Phi(a) - e^epsilon Phi(a - mu), a = mu/2 - epsilon/mu (Balle, Wang 2018, 1805.06530, theorem 8).

`counts` is always: the steps of one direction and how often each occurs. Bounds are certified: None where no form
applies, or where round-off exceeds 1e-6 of delta.

Source: docs/theory.md, Theorem 9.8 and Theorem 3.1.
"""

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import Curve
from dpcalc.losses.pair import MixturePair, half_line_terms, set_terms
from dpcalc.numerics.roots import bracket_root
from dpcalc.numerics.special import mills_ratio, normal_log_cdf

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
