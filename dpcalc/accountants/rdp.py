"""Renyi differential privacy and the moments accountant: from log moments of the composed loss to epsilon and delta.

delta <= e^{K(z) - z epsilon} w(z), w(z) = max_x e^{-zx} (1 - e^{-x}) = z^z / (z + 1)^(z + 1), for every z > 0.
With a = z + 1 and K(z) = z rdp(a) this is Canonne, Kamath, Steinke 2020 (2004.00010v4), Proposition 12;
docs/theory.md, Theorem 3.5. `counts` is always: the steps of one direction and how often each occurs, not empty.
"""

import math

import numpy as np

from dpcalc.accountants import AccountantResult
from dpcalc.losses.moments import ComposedMoments, RdpCurve, Steps, composed_moments, segment_ends, total_infinity_mass
from dpcalc.numerics import Array, inverse_at_zero, zoomed_minimum
from dpcalc.records import dataclass

NEGLIGIBLE = 1e-7  # share of delta for what is too rare to matter
MOMENT_ROUNDING = 1e-12  # relative error that sums over quadrature nodes and atoms stay below
MAX_MOMENT = 32  # of the accountant as published; a larger one would be another accountant
_FLOORS = 1e-40, 1e-150, 1e-290  # mass left out of moments and added to delta, tried until it is a small share
_SMALLEST_ORDER, _LARGEST_ORDER = 1e-9, 1e16  # epsilons down to about 1e-15; smaller ones are bounded by that
_LARGEST_PLAIN_ORDER = 1e4  # with nothing left out: at 1e7 nodes took 500 MB and 3 s
_LARGEST_CLASSICAL_ORDER = 1e7  # log(1/delta) / order is below 1e-4 there for every delta
_NARROW = 1e-4  # relative distance of orders that ends the search; 5e-4 cost 2e-6 of epsilon where moments grow fast
_OFFSETS = -0.1, -0.01, -0.001, 0.0, 0.001, 0.01, 0.1  # from an interpolated order, in shares of the interval


def log_peak(orders: Array) -> Array:
    """Return log w(z) = z log z - (z + 1) log(z + 1) at orders z > 0: the constant of the conversion to delta."""
    return -orders * np.log1p(1 / orders) - np.log1p(orders)


def sum_rounded_up(*terms: Array | float) -> Array:
    """Return an upper bound on a sum of logarithms, also where they cancel; every moment bound is read through it."""
    return np.asarray(sum(terms) + MOMENT_ROUNDING * sum(map(np.abs, terms)), dtype=np.float64)


@dataclass(frozen=True)
class MomentBound:
    """The smallest upper bound that any Renyi order proves (on epsilon perhaps < 0, on delta perhaps > 1)."""

    # `moments`, good for orders up to `max_order`, give it at `order`.

    value: float
    order: float
    moments: ComposedMoments
    max_order: float


def best_epsilon(counts: Steps, *, delta: float, truncated_mass: float = 0.0) -> MomentBound:
    """Return the smallest upper bound on epsilon over all orders; inf if infinity mass uses up delta."""
    # `truncated_mass` is what a step may leave out of P at each end of each segment, and what the caller has taken from
    # delta; with 0 it is chosen here, and taken from delta.
    delta -= total_infinity_mass(counts)
    if delta <= 0:
        return MomentBound(math.inf, 1.0, composed_moments(counts, max_order=1.0), 1.0)
    if truncated_mass or all(isinstance(curve, RdpCurve) for curve in counts):  # no nodes reach farther with the order
        return _best_order(counts, truncated_mass, _LARGEST_ORDER, delta=delta)
    # Components so rare that they cannot matter at this delta are truncated, and at orders above 1e4 all losses so
    # rare, because nodes would have to reach thousands of deviations far.
    share = NEGLIGIBLE * delta / segment_ends(counts)
    segments = [segment for curve in counts for segment in curve.segments]
    if all(segment.weight * weight >= share for segment in segments for weight in segment.pair.weights_p if weight):
        best = _best_order(counts, 0.0, _LARGEST_PLAIN_ORDER, delta=delta)
        if best.max_order < _LARGEST_PLAIN_ORDER or any(isinstance(curve, RdpCurve) for curve in counts):
            return best
    return _best_order(counts, share, _LARGEST_ORDER, delta=delta * (1 - NEGLIGIBLE))


def trimmed_epsilon(counts: Steps, *, delta: float) -> MomentBound:
    """Return `best_epsilon` with a little of delta spent on truncation, which is cheaper and hardly larger."""
    finite = delta - total_infinity_mass(counts)
    if finite <= 0:
        return best_epsilon(counts, delta=delta)
    share = NEGLIGIBLE * finite
    return best_epsilon(counts, delta=delta - share, truncated_mass=share / segment_ends(counts))


def best_delta(counts: Steps, *, epsilon: float, truncated_mass: float = 0.0) -> MomentBound:
    """Return the smallest upper bound on delta over all orders, infinity mass included."""
    # `truncated_mass` as for `best_epsilon`, not included; with 0 next to nothing is left out, and it is included.
    infinity_mass, ends = total_infinity_mass(counts), segment_ends(counts)
    for floor in (0.0,) if truncated_mass else _FLOORS:
        near = _best_order(counts, truncated_mass or floor / ends, _LARGEST_ORDER, epsilon=epsilon)
        value = math.exp(min(near.value, 1.0)) + infinity_mass + floor
        if floor <= NEGLIGIBLE * value:
            break
    return MomentBound(value, near.order, near.moments, near.max_order)


def moment_profile(best: MomentBound | None, epsilons: Array, *, left_out: float) -> Array:
    """Return upper bounds on delta, in [0, 1], by 48 orders up to that of `best`; 0 if `best` is None (no release)."""
    # `left_out` is the P mass that the moments leave out.
    if best is None:
        return np.zeros(epsilons.shape)
    orders = np.geomspace(best.order / 1e3, best.order, 48)  # any set of orders gives a bound
    value, _ = best.moments.cumulants(orders)
    log_delta = sum_rounded_up((value + log_peak(orders))[:, None], -orders[:, None] * epsilons)
    return np.minimum(np.exp(np.minimum(log_delta.min(axis=0), 0.0)) + left_out, 1.0)


def _best_order(
    counts: Steps, truncated_mass: float, largest: float, *, delta: float = 0.0, epsilon: float | None = None
) -> MomentBound:
    """Return the smallest bound on epsilon at `delta`, or on log delta at `epsilon`, of all orders up to `largest`."""
    # Its derivative by the order changes its sign from - to +: a range of orders is moved onto that place.
    # Nodes for an order reach order times span far. With little noise the best order is small, and 32 would take 1 GB.
    spans = (segment.pair.span / segment.pair.deviation for curve in counts for segment in curve.segments)
    high = min(32.0, 1e3 / max([1.0, *spans]))
    low, has_grown = high / 3200, False
    while True:
        moments = composed_moments(counts, max_order=high, truncated_mass=truncated_mass)
        # Orders within 1e-4 of the zero of the derivative, and `at` the first at which it is above 0; the first eight,
        # with 0 or their number, if it has one sign on them.
        orders = np.geomspace(low, high, 8)
        for rounds_left in range(11, -1, -1):
            value, slope = moments.cumulants(orders)
            if epsilon is None:
                rises = orders * slope - value + np.log1p(orders) + math.log(delta)
            else:
                # Rounding up costs a share of z epsilon: next to the largest loss, where K(z) grows as fast, no order
                # is best else.
                rises = slope * (1 + MOMENT_ROUNDING) - epsilon * (1 - MOMENT_ROUNDING) - np.log1p(1 / orders)
            at = int(np.argmax(rises > 0)) if (rises > 0).any() else orders.size
            if not rounds_left or at in {0, orders.size} or orders[at] < orders[at - 1] * (1 + _NARROW):
                break
            left, right = math.log(orders[at - 1]), math.log(orders[at])
            around = slice(max(at - 2, 0), at + 2)
            samples = zip(rises[around].tolist(), np.log(orders[around]).tolist(), strict=True)
            guess = inverse_at_zero([(y, x, math.nan) for y, x in samples])
            near = (guess if left < guess < right else (left + right) / 2) + (right - left) * np.array(_OFFSETS)
            orders = np.exp(np.concatenate([[left], near[(near > left) & (near < right)], [right]]))
        if at == orders.size and high < largest:
            # The derivative of a Gaussian loss grows with the square of the order: twice the factor to its zero.
            growth = high * float(slope[-1]) - float(value[-1])
            factor = 2 * math.sqrt(-float(rises[-1]) / max(growth, 1e-300))
            low, high, has_grown = high / 2, min(high * min(max(4.0, factor), 1024.0), largest), True
        elif at == 0 and low > _SMALLEST_ORDER and not has_grown:  # up and down again: the sign is lost in round-off
            low, high = low / 1e3, 2 * low
        else:
            break
    # K is a chord between the corners of an RDP curve, so that the best order is at one.
    corners = [z for curve in counts if isinstance(curve, RdpCurve) for z in curve.corners]
    if corners:
        orders = np.unique([*orders, *(z for z in corners if orders[0] < z < orders[-1])])
        value = moments.cumulants(orders)[0]
    if epsilon is None:
        bounds = sum_rounded_up(value, log_peak(orders), -math.log(delta)) / orders
    else:
        bounds = sum_rounded_up(value, -orders * epsilon, log_peak(orders))
    best = int(np.argmin(bounds))
    return MomentBound(float(bounds[best]), float(orders[best]), moments, high)


# The accountants.

_NO_DELTA_LEFT = AccountantResult(epsilon=math.inf, note="some loss is infinite more often than delta allows")


def moments(counts: Steps, *, delta: float) -> AccountantResult:
    """Return the best epsilon of the integer moments 1 to 32: Abadi et al. 2016 (1607.00133v2), Theorem 2."""
    delta -= total_infinity_mass(counts)
    if delta <= 0:
        return _NO_DELTA_LEFT
    orders = np.arange(1.0, MAX_MOMENT + 1)
    epsilon = _classical(composed_moments(counts, max_order=float(MAX_MOMENT)), orders, delta)
    best = int(np.argmin(epsilon))
    return AccountantResult(epsilon=float(epsilon[best]), note=f"lambda {best + 1}")


def rdp(counts: Steps, *, delta: float) -> AccountantResult:
    """Return epsilon >= 0 from summed Renyi divergences at the best real order (Mironov 2017; module docstring)."""
    best = best_epsilon(counts, delta=delta)
    return AccountantResult(epsilon=max(0.0, best.value), note=f"order {best.order + 1:.4g}")


def rdp_classic(counts: Steps, *, delta: float) -> AccountantResult:
    """Return the smallest rdp(a) + log(1/delta) / (a - 1): Mironov 2017 (1702.07476v3), Proposition 3."""
    # Never below `rdp`, and at most `moments`, which allows whole orders only.
    delta -= total_infinity_mass(counts)
    if delta <= 0:
        return _NO_DELTA_LEFT
    # Its best order is where z K'(z) - K(z) = log(1/delta), which increases with z; the better conversion has
    # log(1/delta) - log(1 + z) there, hence a smaller order; both with all losses, also the rarest, which alone decide
    # at orders so high that `best_epsilon` leaves them out.
    low = _best_order(counts, 0.0, _LARGEST_PLAIN_ORDER, delta=delta).order
    high = 2 * low
    while high < _LARGEST_CLASSICAL_ORDER:
        value, slope = composed_moments(counts, max_order=high).cumulants(np.array([high]))
        if float(high * slope[0] - value[0]) > -math.log(delta):
            break
        low, high = high, 2 * high
    composed = composed_moments(counts, max_order=max(math.ceil(high), 1))
    first_orders = np.geomspace(low, high, 8)
    _, order, (low, high) = zoomed_minimum(lambda z: _classical(composed, z, delta), first_orders, rounds=5, count=8)
    # The grid misses the minimum by up to 5e-8; a secant step on the derivative's sign leaves about the square of that.
    # Whole orders are tried as well, because the bound promises to be at most that of `moments`.
    ends = np.array([low, high])
    value, slope = composed.cumulants(ends)
    first, last = ends * slope - value + math.log(delta)
    secant = low if last <= first else float(np.clip(low - first * (high - low) / (last - first), low, high))
    whole = [float(z) for z in {math.floor(low), math.ceil(low), math.floor(high), math.ceil(high)} if z >= 1]
    orders = np.array([order, secant, *whole])
    epsilon = _classical(composed, orders, delta)
    best = int(np.argmin(epsilon))
    note = f"order {float(orders[best]) + 1:.4g}, classical conversion"
    return AccountantResult(epsilon=float(epsilon[best]), note=note)


def _classical(moments: ComposedMoments, orders: Array, delta: float) -> Array:
    """Return the classical bound (K(z) - log delta) / z, rounded up, at each order z."""
    return sum_rounded_up(moments.cumulants(orders)[0], -math.log(delta)) / orders
