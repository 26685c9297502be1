"""One step of a mechanism of which only Renyi divergences are known, from its one-step bound.

Three bounds are computed at each order, and the smallest is taken: the average over the revealed number of members
drawn, which holds at every order above 1, and the theorems for Poisson and for fixed-size draws, at whole orders.

Source: docs/theory.md, Theorem 8.6 and Theorem 11.4.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache, partial

from dpcalc.amplification.bound import StepBound
from dpcalc.amplification.counts import Average, Bound, CountPair, unamplified
from dpcalc.errors import UnsupportedError
from dpcalc.losses.rdp_curve import LARGEST_ORDER, RdpCurve, Renyi, finite_points, fixed_size_upper, poisson_upper
from dpcalc.mechanisms.black_box import RdpTable
from dpcalc.mechanisms.kinds import RdpOnly
from dpcalc.work import TURN, cached_with_cost, spend

_WHOLE_ORDERS = range(2, LARGEST_ORDER + 1)
_OTHER_ORDERS = (1.05, 1.1, 1.2, 1.35, 1.5, 1.75, *(2.0**power for power in range(9, 24)))
"""Orders outside the theorems on draws; there only the average over a revealed draw is a bound."""
_SURE_ORDERS = (*_OTHER_ORDERS[:6], *map(float, range(2, 33)), *_OTHER_ORDERS[6:])
_MAX_CHANGES = 1000  # above, only the largest loss bounds a group: the chain takes time proportional to the changes
_MAX_FINE_CHANGES = 16  # up to which all orders of the mechanism are computed, above only a few


@cached_with_cost(128)
def step_divergences(mechanism: RdpOnly, bound: Bound) -> RdpCurve:
    """Return upper bounds on the Renyi divergences of one step; UnsupportedError if none is finite."""
    parts = len(bound.parts if isinstance(bound, Average) else getattr(bound, "missed", ())) or 1
    spend(4 * TURN * parts * (LARGEST_ORDER**2 / 2 + _MAX_FINE_CHANGES * len(mechanism.orders)))
    changes = unamplified(bound).max_shift
    orders: Sequence[float] = mechanism.orders
    if changes <= _MAX_FINE_CHANGES:
        orders = _orders_after(changes, orders)
    elif bound.inclusion < 1:
        orders = _OTHER_ORDERS
    if bound.inclusion < 1:
        orders = sorted({*map(float, _WHOLE_ORDERS), *orders})
    return _curve(f"{mechanism!r} under {bound!r}", _step_divergence(mechanism, bound), orders, changes)


def unamplified_divergences(mechanism: RdpOnly, changes: int) -> RdpCurve:
    """Return upper bounds on the divergences of `changes` sure changes; UnsupportedError if none is finite."""
    rdp = partial(group_divergence, mechanism.rdp, changes)
    return _curve(f"{mechanism!r} after {changes} changes", rdp, _SURE_ORDERS, changes)


def chained_divergences(curves: Sequence[RdpCurve], links: int) -> RdpCurve:
    """Return upper bounds on the divergences of `links` changes that each cost the sum of `curves`."""
    orders = sorted({*_SURE_ORDERS, *_orders_after(links, [order for curve in curves for order, _ in curve.points])})
    rdp = partial(group_divergence, lambda at: sum(curve.rdp(at) for curve in curves), links)
    return _curve(f"{links} links of {curves!r}", rdp, orders, links)


def _orders_after(changes: int, orders: Iterable[float]) -> list[float]:
    """Return orders, and those at which the first and the last of several changes are read off at one of them."""
    more = {order for each in orders for order in (each / changes, (each + changes - 1) / changes) if order > 1}
    return sorted({*orders, *more})


def _curve(name: str, rdp: Renyi, orders: Sequence[float], changes: int) -> RdpCurve:
    """Return the curve of the divergences that are finite at these orders; UnsupportedError if none is."""
    points = finite_points(rdp, orders)
    if not points:
        raise UnsupportedError(
            f"mechanism: expected divergences at orders above {changes}, as many changes as a step can make at once, "
            "got none there; state more orders, or an epsilon"
        )
    return RdpCurve(name=name, points=points)


def _step_divergence(mechanism: RdpOnly, bound: Bound) -> Renyi:
    """Return a function from order to an upper bound on a step's divergence, at the best number of public misses."""
    match bound:
        case Average(parts=parts):
            several = [(_positive_float(chance), _step_divergence(mechanism, part)) for chance, part in parts]
            return lambda order: _public_mixture_divergence([(chance, part(order)) for chance, part in several], order)
        case StepBound():
            choices = [
                _divergence_with_public_misses(mechanism, bound, first) for first in range(max(1, len(bound.missed)))
            ]
            return lambda order: min(choice(order) for choice in choices)
        case CountPair():  # of a public H given H >= 1, amplified by Pr[H >= 1]
            shares = [(_positive_float(chance / bound.inclusion), h) for h, chance in bound.law if h]
            mixed = cache(
                lambda order: _public_mixture_divergence(
                    [(p, group_divergence(mechanism.rdp, bound.shift * h, order)) for p, h in shares], order
                )
            )
            theorem = _poisson_bound(mechanism, bound.max_shift)
            return partial(_subsampled_divergence, mixed, mixed, _positive_float(bound.inclusion), theorem)
        case _:
            raise TypeError("a pair of two random contents bounds Gaussian noise alone")


def _divergence_with_public_misses(mechanism: RdpOnly, bound: StepBound, public_misses: int) -> Renyi:
    """Return a function from order to an upper bound, with the first `public_misses` misses revealed, others hidden."""
    reached = 1 - sum(bound.missed[:public_misses], start=Fraction(0))
    hidden = [x for x, chance in enumerate(bound.missed) if x >= public_misses and chance]
    distances = [bound.distances[x] for x in hidden], [bound.distances_swapped[x] for x in hidden]
    changes = max((bound.shift, *distances[0], *distances[1]))
    farthest = cache(partial(group_divergence, mechanism.rdp, changes))
    if_drawn = cache(partial(group_divergence, mechanism.rdp, bound.shift))
    # Where all that is missed is the batch of D' without the unit, that of draws with which nobody is replaced holds.
    theorem = fixed_size_upper if any(distances[1]) else _poisson_bound(mechanism, changes)
    rate = _positive_float(bound.inclusion / reached)
    return lambda order: _public_mixture_divergence(
        [(_positive_float(reached), _subsampled_divergence(if_drawn, farthest, rate, theorem, order))], order
    )


def _poisson_bound(mechanism: RdpOnly, changes: int) -> Callable[[Renyi, float, int], float]:
    """Return the theorem on draws with which nobody is replaced, without its factor 3 if odd moments are known."""
    signs = isinstance(mechanism, RdpTable) and mechanism.odd_moments == "nonnegative" and changes == 1
    return partial(poisson_upper, factor=1.0) if signs else poisson_upper


def _positive_float(chance: Fraction) -> float:
    """Return the probability as a float, at least the smallest positive one."""
    return max(float(chance), math.ulp(0.0))


def _subsampled_divergence(
    if_drawn: Renyi, farthest: Renyi, rate: float, theorem: Callable[[Renyi, float, int], float], order: float
) -> float:
    """Return an upper bound for a random draw, amplified by `theorem` at whole orders where that is smaller.

    `if_drawn` is between batches of D and D' that hold the unit, `farthest` between any of them and one that misses it.
    """
    if rate == 1:
        return if_drawn(order)
    revealed = _public_mixture_divergence([(rate, if_drawn(order))], order)
    if order not in _WHOLE_ORDERS or math.isinf(revealed):
        return revealed
    return min(revealed, max(0.0, theorem(farthest, rate, int(order))))


def group_divergence(rdp: Renyi, changes: int, order: float) -> float:
    """Return an upper bound on the divergence at one order after `changes` changes; at most `changes` * rdp(inf).

    By D_a(P || Q) <= k a / (k a - 1) D_b(P || R) + D_{k a}(R || Q) with b = (k a - 1) / (k - 1), for k - 1 changes from
    P to R and one from R to Q. No loss exceeds k times the largest, which is the bound above 1000 changes.

    Source: Bun, Steinke 2016 (1605.02065v1), Lemma 5.2.
    """
    if not changes:
        return 0.0
    max_loss = changes * rdp(math.inf)
    if changes == 1:
        return min(max_loss, rdp(order))
    if math.isinf(order) or changes > _MAX_CHANGES:
        return max_loss
    # The inequality is unrolled from k changes down to 1, then summed back up; the order of the part with fewer changes
    # falls towards 1 while that of the last single change stays far above, where the divergence must be known.
    steps: list[tuple[float, float]] = []  # (factor, divergence) of the last change, of the one before, ...
    for left in range(changes, 1, -1):
        far = left * order
        value = rdp(far)
        if math.isinf(value):
            return max_loss
        steps.append((far / (far - 1), value))
        order = (far - 1) / (left - 1)
    total = min(rdp(math.inf), rdp(order))
    for left, (factor, value) in zip(range(2, changes + 1), reversed(steps), strict=True):
        total = min(left * rdp(math.inf), factor * total + value)
    return total


def _public_mixture_divergence(parts: list[tuple[float, float]], order: float) -> float:
    """Return the divergence of a public mixture, in which missing probability releases nothing."""
    top = max((value for _, value in parts), default=0.0)
    if math.isinf(order) or math.isinf(top):
        return top
    # log(1 - sum p + sum p e^((a - 1) D)): by expm1 where that is near 0, relative to its largest term where it is
    # large.
    scale = (order - 1) * top
    if scale < 1:
        inside = math.fsum(chance * math.expm1((order - 1) * value) for chance, value in parts)
        return math.log1p(inside) / (order - 1)
    missed = max(0.0, 1 - math.fsum(chance for chance, _ in parts)) * math.exp(-scale)
    inside = missed + math.fsum(chance * math.exp((order - 1) * value - scale) for chance, value in parts)
    return top + math.log(inside) / (order - 1)
