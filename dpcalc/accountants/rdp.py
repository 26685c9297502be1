"""Renyi differential privacy and the moments accountant.

From log moments of the composed loss to epsilon: the order that minimises the bound.

delta <= e^{K(z) - z epsilon} w(z), w(z) = max_x e^{-zx} (1 - e^{-x}) = z^z / (z + 1)^(z + 1), for every z > 0.
With a = z + 1 and K(z) = z rdp(a) this is Canonne, Kamath, Steinke 2020 (2004.00010v4), Proposition 12.

Source: docs/theory.md, Theorem 3.5.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpcalc.accountants.result import AccountantResult
from dpcalc.arrays import Array
from dpcalc.losses.moments import (
    ComposedMoments,
    Curve,
    composed_moments,
    min_component_probability,
    segment_ends,
    total_infinity_mass,
    widest_span,
)
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.numerics.roots import Sample, inverse_at_zero, zoomed_minimum
from dpcalc.records import dataclass

NEGLIGIBLE = 1e-7  # share of delta for what is too rare to matter
MOMENT_ROUNDING = 1e-12  # relative error that sums over quadrature nodes and atoms stay below
_FLOORS = 1e-40, 1e-150, 1e-290  # mass left out of moments and added to delta, tried until it is a small share
_SMALLEST_ORDER, _LARGEST_ORDER = 1e-9, 1e16  # epsilons down to about 1e-15; smaller ones are bounded by that
_FIRST_ORDER, _FIRST_REACH = 32.0, 1e3  # largest order tried first, and how many deviations far its nodes may reach
_LARGEST_PLAIN_ORDER = 1e4  # with nothing left out: at 1e7 nodes took 500 MB and 3 s
_MAX_GROWTH_FACTOR = 1024.0  # between one largest order and the next
_ORDERS, _ROUNDS = 8, 12  # orders tried first, and how often orders are tried at most
_NARROW = 1e-4  # relative distance of orders that ends the search; 5e-4 cost 2e-6 of epsilon where moments grow fast
_OFFSETS = -0.1, -0.01, -0.001, 0.0, 0.001, 0.01, 0.1  # from an interpolated order, in shares of the interval
_PROFILE_ORDERS = 48  # of a whole profile; any set of orders gives a bound


def log_peak(orders: Array) -> Array:
    """Return log w(z) = z log z - (z + 1) log(z + 1) at orders z > 0: the constant of the conversion to delta."""
    result: Array = -orders * np.log1p(1 / orders) - np.log1p(orders)
    return result


def sum_rounded_up(*terms: Array | float) -> Array:
    """Return an upper bound on a sum of logarithms: it is raised by MOMENT_ROUNDING of the terms' absolute values.

    Args:
        terms: natural logarithms, at least one of them an array.

    Returns:
        An upper bound on the exact sum, also where the terms cancel: at orders for which quadrature and rounding err by
        less than MOMENT_ROUNDING of each term. Every moment bound is read through this function.
    """
    total = sum(terms) + MOMENT_ROUNDING * sum(map(np.abs, terms))
    return np.asarray(total, dtype=np.float64)


@dataclass(frozen=True)
class MomentBound:
    """The best bound on epsilon or delta that any Renyi order proves.

    Attributes:
        value: the smallest upper bound any order proves; may be negative for epsilon, above 1 for delta.
        order: the order z that gives it.
        moments: the moments used.
        max_order: the largest order they are good for.
    """

    value: float
    order: float
    moments: ComposedMoments
    max_order: float


def best_epsilon(counts: dict[Curve, int], *, delta: float, truncated_mass: float = 0.0) -> MomentBound:
    """Return the smallest upper bound on epsilon over all orders, perhaps < 0; inf if infinity mass uses up delta.

    Args:
        counts: steps and how often each occurs, not empty.
        delta: in (0, 1).
        truncated_mass: P mass a step may leave out at each end of each segment, which the caller has taken from delta.
            With 0 it is chosen here, and taken from delta where it is not 0.
    """
    delta -= total_infinity_mass(counts.items())
    if delta <= 0:
        return MomentBound(math.inf, 1.0, composed_moments(counts, max_order=1.0), 1.0)
    if truncated_mass or all(isinstance(curve, RdpCurve) for curve in counts):  # no nodes reach farther with the order
        return _best_epsilon(counts, delta, truncated_mass, _LARGEST_ORDER)
    return _best_epsilon_with_little_truncated(counts, delta)


def _best_epsilon_with_little_truncated(counts: dict[Curve, int], delta: float) -> MomentBound:
    """Return the smallest upper bound without truncation; with 1e-7 of delta truncated where nodes reach too far."""
    # Components so rare that they cannot matter at this delta are truncated, and at orders above 1e4 all losses so
    # rare, because nodes would have to reach thousands of deviations far.
    share = NEGLIGIBLE * delta / segment_ends(counts.items())
    if min_component_probability(counts.items()) >= share:
        best = _best_epsilon(counts, delta, 0.0, _LARGEST_PLAIN_ORDER)
        if best.max_order < _LARGEST_PLAIN_ORDER or any(isinstance(curve, RdpCurve) for curve in counts):
            return best
    return _best_epsilon(counts, delta * (1 - NEGLIGIBLE), share, _LARGEST_ORDER)


def trimmed_epsilon(counts: dict[Curve, int], *, delta: float) -> MomentBound:
    """Return `best_epsilon` with a little of delta spent on truncation, which is cheaper and hardly larger.

    Args:
        counts: steps and how often each occurs, not empty.
        delta: in (0, 1).
    """
    finite = delta - total_infinity_mass(counts.items())
    if finite <= 0:
        return best_epsilon(counts, delta=delta)
    share = NEGLIGIBLE * finite
    return best_epsilon(counts, delta=delta - share, truncated_mass=share / segment_ends(counts.items()))


def _best_epsilon(counts: dict[Curve, int], delta: float, truncated_mass: float, largest: float) -> MomentBound:
    """Return the smallest upper bound, perhaps < 0, by orders up to `largest`; `delta` is that of finite losses."""
    # The derivative of (K(z) + log w(z) - log delta) / z has the sign of z K'(z) - K(z) + log(z + 1) + log delta, which
    # increases with z.
    near = _zoom_to_minimum(
        counts, truncated_mass, lambda z, k, slope: z * slope - k + np.log1p(z) + math.log(delta), largest
    )
    epsilon = sum_rounded_up(near.log_moments, log_peak(near.orders), -math.log(delta)) / near.orders
    best = int(np.argmin(epsilon))
    return MomentBound(float(epsilon[best]), float(near.orders[best]), near.moments, near.max_order)


def best_delta(counts: dict[Curve, int], *, epsilon: float, truncated_mass: float = 0.0) -> MomentBound:
    """Return the smallest upper bound on delta over all orders, with infinity mass but without `truncated_mass`.

    Args:
        counts: steps and how often each occurs, not empty.
        epsilon: >= 0.
        truncated_mass: P mass a step may leave out at each end of each segment, which the caller counts in delta; with
            0 next to nothing is left out, and it is counted here.

    Returns: a bound that may be above 1.
    """
    # The derivative of K(z) - z epsilon + log w(z) is K'(z) - epsilon + log(z / (z + 1)), which increases with z.
    infinity_mass, ends = total_infinity_mass(counts.items()), segment_ends(counts.items())
    if truncated_mass:
        return _best_delta(counts, epsilon, truncated_mass, infinity_mass)
    for floor in _FLOORS:
        best = _best_delta(counts, epsilon, floor / ends, infinity_mass + floor)
        if floor <= NEGLIGIBLE * best.value:
            break
    return best


def _best_delta(counts: dict[Curve, int], epsilon: float, truncated_mass: float, left_out: float) -> MomentBound:
    """Return the smallest upper bound on delta over all orders, with `left_out` added; may be above 1."""
    # Rounding up costs a share of z epsilon: next to the largest loss, where K(z) grows as fast, no order is best else.
    slower = epsilon * (1 - MOMENT_ROUNDING)
    near = _zoom_to_minimum(
        counts,
        truncated_mass,
        lambda z, _, slope: slope * (1 + MOMENT_ROUNDING) - slower - np.log1p(1 / z),
        _LARGEST_ORDER,
    )
    log_delta = sum_rounded_up(near.log_moments, -near.orders * epsilon, log_peak(near.orders))
    best = int(np.argmin(log_delta))
    value = math.exp(min(float(log_delta[best]), 1.0)) + left_out
    return MomentBound(value, float(near.orders[best]), near.moments, near.max_order)


def moment_profile(best: MomentBound | None, epsilons: Array, *, left_out: float) -> Array:
    """Return upper bounds on delta, in [0, 1], by 48 orders up to that of `best`; 0 if `best` is None.

    Args:
        best: a bound on epsilon, with its order and moments; None where nothing is released, then delta is 0.
        epsilons: shape (n,).
        left_out: P mass that the moments leave out, and that of infinite losses.
    """
    if best is None:
        return np.zeros(epsilons.shape)
    orders = np.geomspace(best.order / 1e3, best.order, _PROFILE_ORDERS)
    value, _ = best.moments.cumulants(orders)
    log_delta = sum_rounded_up((value + log_peak(orders))[:, None], -orders[:, None] * epsilons)
    profile: Array = np.exp(np.minimum(log_delta.min(axis=0), 0.0)) + left_out
    return np.minimum(profile, 1.0)


class _OrdersNearMinimum(NamedTuple):
    """Orders around the one that gives the smallest bound, and where they come from.

    Attributes:
        orders: z, increasing, and corners of RDP curves between them; the last ones tried where the minimum
            lies outside what is allowed.
        log_moments: K at each.
        moments: the moments that gave them.
        max_order: largest order that these are good for.
    """

    orders: Array
    log_moments: Array
    moments: ComposedMoments
    max_order: float


def _zoom_to_minimum(
    counts: dict[Curve, int], truncated_mass: float, derivative: Callable[[Array, Array, Array], Array], largest: float
) -> _OrdersNearMinimum:
    """Return orders, with K, close around the zero of a rising `derivative`, after moving a range of orders onto it."""
    # Nodes for an order reach order times span far. With little noise the best order is small, and 32 would take 1 GB.
    high = min(_FIRST_ORDER, _FIRST_REACH / max(widest_span(counts.items()), 1.0))
    low, has_grown = high / 3200, False
    while True:
        moments = composed_moments(counts, max_order=high, truncated_mass=truncated_mass)
        zoomed = _zoom_to_zero(moments, np.geomspace(low, high, _ORDERS), derivative)
        if zoomed.at == zoomed.orders.size and high < largest:
            low, high, has_grown = high / 2, min(high * _growth_factor(zoomed, high), largest), True
        elif (
            zoomed.at == 0 and low > _SMALLEST_ORDER and not has_grown
        ):  # up and down again: the sign is lost in round-off
            low, high = low / 1e3, 2 * low
        else:
            orders, value = _with_corners(counts, moments, zoomed.orders, zoomed.value)
            return _OrdersNearMinimum(orders, value, moments, high)


def _growth_factor(zoomed: "_ZoomedOrders", high: float) -> float:
    """Return a factor on the largest order `high`, 4 to 1024: twice that to the zero if the loss were Gaussian."""
    # The derivative of a Gaussian loss grows with the square of the order.
    growth = high * float(zoomed.slope[-1]) - float(zoomed.value[-1])
    factor = 2 * math.sqrt(-float(zoomed.derivative[-1]) / max(growth, 1e-300))
    return min(max(4.0, factor), _MAX_GROWTH_FACTOR)


def _with_corners(
    counts: dict[Curve, int], moments: ComposedMoments, orders: Array, values: Array
) -> tuple[Array, Array]:
    """Add the corners of RdpCurves to the orders; return (orders, K at them), unchanged without such curves."""
    # K is a chord between the corners of such a curve, so that the best order is at one.
    corners = [z for curve in counts if isinstance(curve, RdpCurve) for z in curve.corners]
    if not corners:
        return orders, values
    orders = np.unique([*orders, *(z for z in corners if orders[0] < z < orders[-1])])
    return orders, moments.cumulants(orders)[0]


class _ZoomedOrders(NamedTuple):
    """Orders z, rising, with K, K' and `derivative` of each; `at`: the first where that is above 0, or the size."""

    orders: Array
    value: Array
    slope: Array
    derivative: Array
    at: int


def _zoom_to_zero(
    moments: ComposedMoments, orders: Array, derivative: Callable[[Array, Array, Array], Array]
) -> _ZoomedOrders:
    """Return orders within 1e-4 of the zero of a rising `derivative`; the given ones if it has one sign on them."""
    for left in range(_ROUNDS - 1, -1, -1):
        value, slope = moments.cumulants(orders)
        rises = derivative(orders, value, slope)
        rising = rises > 0
        at = int(np.argmax(rising)) if rising.any() else orders.size
        if not left or at in {0, orders.size} or orders[at] < orders[at - 1] * (1 + _NARROW):
            break
        orders = _orders_about_zero(orders, rises, at)
    return _ZoomedOrders(orders, value, slope, rises, at)


def _orders_about_zero(orders: Array, values: Array, at: int) -> Array:
    """Return orders near the zero, by inverse interpolation, between orders[at - 1] and orders[at], and these two.

    Args: rising orders; finite function values there, values[at - 1] <= 0 < values[at]; index of the first above 0.
    """
    low, high = math.log(orders[at - 1]), math.log(orders[at])
    around = slice(max(at - 2, 0), at + 2)
    samples = zip(values[around].tolist(), np.log(orders[around]).tolist(), strict=True)
    guess = inverse_at_zero([Sample(value, order, math.nan) for value, order in samples])
    guess = guess if low < guess < high else (low + high) / 2
    near = guess + (high - low) * np.array(_OFFSETS)
    result: Array = np.exp(np.concatenate([[low], near[(near > low) & (near < high)], [high]]))
    return result


# The moments accountant as published: integer moments 1 to 32 (docs/theory.md, Theorem 3.5).


MAX_MOMENT = 32  # as published; a larger one would be another accountant


def moments(counts: dict[Curve, int], *, delta: float) -> AccountantResult:
    """Return the best epsilon of the integer moments 1 to 32 (the published accountant); inf if no delta is left.

    Epsilon = min over lambda of (alpha(lambda) - log delta) / lambda, alpha summed over the steps.

    Args:
        counts: steps of one direction and how often each occurs, not empty.
        delta: in (0, 1).

    References:
        Abadi et al. 2016 (1607.00133v2), Theorem 2 and section 3.2 (lambda up to 32).
    """
    delta -= total_infinity_mass(counts.items())
    if delta <= 0:
        return AccountantResult(epsilon=math.inf, note="some loss is infinite more often than delta allows")
    orders = np.arange(1.0, MAX_MOMENT + 1)
    value, _ = composed_moments(counts, max_order=float(MAX_MOMENT)).cumulants(orders)
    epsilon = sum_rounded_up(value, -math.log(delta)) / orders
    best = int(np.argmin(epsilon))
    return AccountantResult(epsilon=float(epsilon[best]), note=f"lambda {best + 1}")


# Renyi differential privacy at real orders, converted at the best order (docs/theory.md, Theorem 3.5).

_LARGEST_REAL_ORDER = 1e7  # of the classical conversion: log(1/delta) / order is below 1e-4 there for every delta
_REAL_ORDERS, _REAL_ROUNDS = 8, 5  # orders tried at once, and how often the interval around the best is cut again


def rdp(counts: dict[Curve, int], *, delta: float) -> AccountantResult:
    """Return epsilon >= 0 from summed Renyi divergences at the best real order; inf if infinity mass >= delta.

    Glued profiles enter with the moments of both halves (losses/moments), never with one half's pair.

    Args:
        counts: steps of one direction and how often each occurs, not empty.
        delta: in (0, 1).

    References:
        Mironov 2017 (1702.07476v3), Propositions 1 and 3; Canonne, Kamath, Steinke 2020 (2004.00010v4), Proposition 12.
    """
    best = best_epsilon(counts, delta=delta)
    return AccountantResult(epsilon=max(0.0, best.value), note=f"order {best.order + 1:.4g}")


def rdp_classic(counts: dict[Curve, int], *, delta: float) -> AccountantResult:
    """Return an upper bound on epsilon by the classical conversion at the best real order; inf if no delta is left.

    Args:
        counts: steps of one direction and how often each occurs, not empty.
        delta: in (0, 1).

    Returns:
        An upper bound, the smallest rdp(a) + log(1/delta) / (a - 1): never below that of `rdp`, and at most that of
        `moments`, which allows whole orders only.

    References:
        Mironov 2017 (1702.07476v3), Proposition 3.
    """
    delta -= total_infinity_mass(counts.items())
    if delta <= 0:
        return AccountantResult(epsilon=math.inf, note="some loss is infinite more often than delta allows")
    low, high = _bracket_classical_order(counts, delta)
    moments = composed_moments(counts, max_order=max(math.ceil(high), 1))
    orders = _orders_of_classical_minimum(moments, low, high, delta)
    epsilon = _classical_epsilon(moments, orders, delta)
    best = int(np.argmin(epsilon))
    return AccountantResult(
        epsilon=float(epsilon[best]), note=f"order {float(orders[best]) + 1:.4g}, classical conversion"
    )


def _orders_of_classical_minimum(moments: ComposedMoments, low: float, high: float, delta: float) -> Array:
    """Return estimates of the order in [low, high] that minimises the classical bound, and whole orders next to it."""
    _, order, (low, high) = zoomed_minimum(
        lambda z: _classical_epsilon(moments, z, delta),
        np.geomspace(low, high, _REAL_ORDERS),
        rounds=_REAL_ROUNDS,
        count=_REAL_ORDERS,
    )
    # The grid misses the minimum by up to 5e-8; a secant step on the derivative's sign leaves about the square of that.
    # Whole orders are tried as well, because the bound promises to be at most that of `moments`.
    whole = [float(z) for z in {math.floor(low), math.ceil(low), math.floor(high), math.ceil(high)} if z >= 1]
    return np.array([order, _secant_order(moments, low, high, delta), *whole])


def _bracket_classical_order(counts: dict[Curve, int], delta: float) -> tuple[float, float]:
    """Return (low, 2 low) around the order z = a - 1 at which the classical bound is smallest."""
    # Its best order is where z K'(z) - K(z) = log(1/delta) with z = a - 1 and K(z) = z rdp(a), which increases with z;
    # the better conversion has log(1/delta) - log(1 + z) there, hence a smaller order; both with all losses, also the
    # rarest, which alone decide at orders so high that `best_epsilon` leaves them out.
    low = _best_epsilon(counts, delta, 0.0, _LARGEST_PLAIN_ORDER).order
    high = 2 * low
    while high < _LARGEST_REAL_ORDER and not _bound_rises(counts, high, delta):
        low, high = high, 2 * high
    return low, high


def _classical_epsilon(moments: ComposedMoments, orders: Array, delta: float) -> Array:
    """Return the classical bound on epsilon, (K(z) - log delta) / z, rounded up, at each order z."""
    value, _ = moments.cumulants(orders)
    epsilon: Array = sum_rounded_up(value, -math.log(delta)) / orders
    return epsilon


def _secant_order(moments: ComposedMoments, low: float, high: float, delta: float) -> float:
    """Return the secant estimate of the best order, clipped to [low, high]; low if the derivative does not rise."""
    ends = np.array([low, high])
    value, slope = moments.cumulants(ends)
    first, last = ends * slope - value + math.log(delta)
    return low if last <= first else float(np.clip(low - first * (high - low) / (last - first), low, high))


def _bound_rises(counts: dict[Curve, int], order: float, delta: float) -> bool:
    """Return True if the classical bound on epsilon grows with the order at z = `order`."""
    value, slope = composed_moments(counts, max_order=order).cumulants(np.array([order]))
    return float(order * slope[0] - value[0]) > -math.log(delta)
