"""Renyi curves of single steps, and log moments of steps and compositions.

With z = a - 1 the log moment of the loss, K(z) = log E_P[e^{zL}] = z D_a(P || Q), is convex in z by Hoelder's
inequality, and K(0) = 0; the largest K of several pairs is convex too. So bounds K(z_i) <= z_i rdp(a_i) at some orders
bound K in between by the lower convex hull. Nothing is claimed beyond the last order.

Source: docs/theory.md, Definition 3.4 and Theorem 8.6.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import ConvergenceError, InputError, TooLargeError
from dpcalc.losses.loss import Loss, LossCurve, under_draw
from dpcalc.losses.pair import PairsAtPoints, Segment, length_scales, lower_quantile, rough_points
from dpcalc.numerics import Array, Complex, IntArray, gauss_legendre_panels
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, TURN, alike, cached_with_cost, spend

Renyi = Callable[[float], float]
"""rdp(a) of a mechanism: an upper bound on its Renyi divergence of order a > 1, in nats; `inf` where none is known."""

LARGEST_ORDER = 256  # of a bound that sums over whole orders: its time grows with the square
MANY_ORDERS = (
    *(1 + float(z) for z in np.geomspace(1e-3, 0.97, 100)),
    *map(float, range(2, LARGEST_ORDER)),
    *map(float, np.geomspace(LARGEST_ORDER, 1e7, 700)),
)
"""So close that chords between them cost less than 1e-3 of what a curve adds to epsilon."""
UNKNOWN = 1e100
"""Divergences from here on count as unknown."""
_BEYOND = 1e200  # log moment above the last order: finite, so that differences are not NaN
_FACTOR = 3.0  # of the Poisson bound if the signs of odd moments are not known


@dataclass(frozen=True, kw_only=True)
class RdpCurve:
    """A step of which only Renyi divergences at some orders are known, in nats, the same in both directions."""

    name: str  # identifies the curve; equal names must have equal values
    points: tuple[tuple[float, float], ...]  # (a, rdp(a)), upper bounds at increasing orders a > 1; finite, >= 0
    segments: ClassVar[tuple[Segment, ...]] = ()  # nothing is known of its losses, which count as finite
    infinity_mass: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Raise InputError for orders that do not increase from above 1, and divergences not in [0, inf)."""
        orders = [order for order, _ in self.points]
        if not orders or not orders[0] > 1 or orders != sorted(set(orders)) or math.isinf(orders[-1]):
            raise InputError("rdp curve: expected finite orders above 1 that rise, at least one")
        if not all(math.isfinite(value) and value >= 0 for _, value in self.points):
            raise InputError("rdp curve: expected finite divergences >= 0")

    @property
    def swapped(self) -> "RdpCurve":
        """The curve of the opposite direction: the same one."""
        return self

    @cached_property
    def _hull(self) -> tuple[Array, Array]:
        """Corners of the lower convex hull of the log moment, as arrays of orders z = a - 1 and of values."""
        # Andrew's monotone chain: a corner goes when the next point shows that it lies above the chord.
        corners = [(0.0, 0.0)]
        for order, value in self.points:
            new = (order - 1, (order - 1) * value)
            while len(corners) > 1:
                (x, y), (middle, height) = corners[-2:]
                rise = (new[1] - y) / (new[0] - x)
                if height < y + rise * (middle - x):
                    break
                corners.pop()
            corners.append(new)
        places, heights = np.array(corners).T
        return places, heights

    @property
    def corners(self) -> Array:
        """The orders z > 0 at which the slope of K changes."""
        return self._hull[0][1:]

    def rdp(self, order: float) -> float:
        """Return an upper bound on the divergence of order > 1, from the convex hull; inf above the last order."""
        if order > self.points[-1][0]:
            return math.inf
        return float(self.cumulants(np.array([order - 1]))[0][0]) / (order - 1)

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return (log moment, its slope) on the hull at orders z = a - 1; (1e200, 1e250) above the last order."""
        places, heights = self._hull
        right = np.clip(np.searchsorted(places, orders), 1, len(places) - 1)
        left = right - 1
        slope = (heights[right] - heights[left]) / (places[right] - places[left])
        value = heights[left] + slope * (orders - places[left])
        is_unknown = orders > places[-1]
        return np.where(is_unknown, _BEYOND, value), np.where(is_unknown, _BEYOND**1.25, slope)


def finite_points(rdp: Renyi, orders: Iterable[float]) -> tuple[tuple[float, float], ...]:
    """Return (order, divergence) at those of the orders at which the divergence is finite."""
    points = ((float(order), rdp(order)) for order in orders)
    return tuple((order, value) for order, value in points if value < math.inf)


def fixed_size_upper(rdp: Renyi, rate: float, order: int) -> float:
    """Return Wang et al.'s upper bound on the Renyi divergence of whole order >= 2 under a fixed-size draw."""
    # Source: Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Theorem 9.
    pure = rdp(math.inf)
    log_range = math.log(math.expm1(pure)) if 0 < pure < 700 else (math.inf if pure else -math.inf)
    second = min(
        math.log(4) + _log_expm1(rdp(2.0)),
        rdp(2.0) + min(math.log(2), 2 * log_range),
    )
    terms = [0.0, 2 * math.log(rate) + _log_comb(order, 2) + second]
    terms += [
        j * math.log(rate) + _log_comb(order, j) + (j - 1) * rdp(float(j)) + min(math.log(2), j * log_range)
        for j in range(3, order + 1)
    ]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def fixed_size_lower(rdp: Renyi, rate: float, order: int) -> float:
    """Return Wang et al.'s lower bound on the divergence of whole order >= 2 under a fixed-size draw, rate < 1."""
    # It holds for mechanisms that attain `rdp` and can distinguish batches with the record.
    # Source: Wang, Balle, Kasiviswanathan 2019 (1808.00087v2), Proposition 11.
    odds = math.log(rate) - math.log1p(-rate)
    terms = [0.0, math.log(order) + odds]
    terms += [j * odds + _log_comb(order, j) + (j - 1) * rdp(float(j)) for j in range(2, order + 1)]
    return (order * math.log1p(-rate) + float(np.logaddexp.reduce(terms))) / (order - 1)


def poisson_upper(rdp: Renyi, rate: float, order: int, *, factor: float = _FACTOR) -> float:
    """Return Zhu and Wang's upper bound on the Renyi divergence of whole order >= 2 under a Poisson draw."""
    # `factor` is 3, or 1 where the odd moments E_Q[(P/Q - 1)^j] of all P, Q on neighbouring batches are known not to be
    # negative, as with Gaussian and Laplace noise; the bound is then exact if some pair attains every rdp(j).
    # Source: Zhu, Wang 2019, "Poisson subsampled Renyi differential privacy", Theorems 5 and 6.
    terms = [
        (order - 1) * math.log1p(-rate) + math.log1p((order - 1) * rate),
        _log_comb(order, 2) + 2 * math.log(rate) + (order - 2) * math.log1p(-rate) + rdp(2.0),
    ]
    terms += [
        math.log(factor)
        + _log_comb(order, j)
        + (order - j) * math.log1p(-rate)
        + j * math.log(rate)
        + (j - 1) * rdp(float(j))
        for j in range(3, order + 1)
    ]
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def _log_comb(n: int, k: int) -> float:
    """Return the log of the binomial coefficient C(n, k)."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _log_expm1(x: float) -> float:
    """Return log(e^x - 1); -inf for x <= 0."""
    return x + math.log(-math.expm1(-x)) if x > 0 else -math.inf


# Log moments K(z) = log E_P[e^{zL}] of steps and compositions, and other numbers of a composition.
# Those of one step come from quadrature over its loss. The nodes cover all of P and of Q on every segment; mass outside
# the segments has loss 0. E[e^{zL}] - 1 is summed as E[(e^{zL} - 1) + z (e^{-L} - 1)]: the second term adds E_P[e^{-L}]
# - 1 = 0 and removes the leading term, so that K keeps its digits when one step leaks next to nothing.
# Source: docs/theory.md, Definition 3.4 and Theorem 2.7.


_MAX_PANELS = 200_000  # of 8 nodes: 13 MB an array; more are refused with exit code 3
_MANY_CENTERS = 256  # of a mixture; upper bounds have fewer, so that only the lower bound of a data set is given up
_MAX_DENSITIES = 1 << 24  # of components at nodes, about 2 s
_POINTS_AT_ONCE = 1 << 14  # of several segments
_ELEMENTS_AT_ONCE = 1 << 16  # orders times nodes: 1 MB in the cache of a processor; larger arrays are slower
_MAX_POINTS = 1 << 20  # of a segment, between panels: 100 MB in all
_GAP = 4  # rough points without mass between ranges that are integrated separately
_ROUND_OFF = 1e-15  # of a sum of masses: a smaller difference is no mass
_SMALL = 0.5  # |x| below which e^x - 1 - x is summed as a series
_SERIES, _SCALES = 16, 60  # its terms, down to round-off; halvings of a loss that are told apart, for orders to 1e18
_PANELS_WORK = 600 * TURN  # of the panels of a segment with few centers
_MIN_MOMENT = 1e-300  # so that a moment has a logarithm
_LOG_NEGLIGIBLE = -46.0  # e^-46 = 1e-20: below the round-off of what is kept
# Log of the Kullback-Leibler divergence of a step below which its moments matter at no number of steps.
_LOG_MIN_DIVERGENCE = -230.0


@dataclass(frozen=True)
class LossMoments:
    """Log moments K(z) = log E_P[e^{zL}; L < inf] of one step, by quadrature nodes that reach far enough."""

    log_mass: Array  # log of the P mass of each node, shape (n,)
    loss: Array  # privacy loss at each node, shape (n,)
    infinity_mass: float = 0.0  # P mass where Q has none, which no node has
    only_other: float = 0.0  # Q mass where P has none

    @property
    def size(self) -> int:
        """Number of quadrature nodes."""
        return int(self.loss.size)

    @cached_property
    def _alone(self) -> "StackedMoments":
        return StackedMoments([self])

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return (K, K') at orders z, with K(z) = log E_P[e^{zL}; L < inf], accurate also near order 0."""
        spend(self.work(orders.size))
        (value,), (slope,) = self._alone.cumulants(orders)
        return value, slope

    def work(self, orders: int) -> float:
        """Return the work of `cumulants` at so many orders."""
        return 1.5 * ELEMENT * (orders + 6) * (self.size + 200)

    def tilted_moments(self, order: float) -> tuple[float, float]:
        """Return (variance, fourth cumulant) of the nodes' loss under the tilt e^{order L}."""
        raised = self.log_mass + order * self.loss
        weights = np.exp(raised - float(raised.max(initial=0.0)))
        weights /= weights.sum()
        gap = self.loss - float((weights * self.loss).sum())
        variance = float((weights * gap**2).sum())
        return variance, float((weights * gap**4).sum()) - 3 * variance**2

    def cumulants_on_line(self, real: float, *, step: float, count: int) -> Complex:
        """Return K(z), on any branch, at z = real + i k step, 0 <= k < count, from nodes that matter at `real`."""
        top = float((self.log_mass + real * self.loss).max(initial=0.0))
        kept = _log_largest_mass(self.log_mass, self.loss, real) > _LOG_NEGLIGIBLE + top
        log_mass, loss = self.log_mass[kept], self.loss[kept]
        mass, tilted, other = (np.exp(x - top) for x in (log_mass, log_mass + real * loss, log_mass - loss))
        straight = float(_mass_times_expm1(real * loss, mass, tilted).sum())
        back = float(_mass_times_expm1(-loss, mass, other).sum())
        orders: Complex = np.asarray(real + 1j * step * np.arange(count), dtype=np.complex128)
        angle = step * loss
        turn = (-2 * np.sin(angle / 2) ** 2 + 1j * np.sin(angle)).astype(np.complex128)  # e^{i angle} - 1
        turned, rotated = np.zeros(turn.shape, dtype=np.complex128), np.zeros(count, dtype=np.complex128)
        spend(ELEMENT * count * (angle.size + 200))
        for k in range(1, count):
            turned = (turned * turn + turned + turn).astype(np.complex128)  # e^{i k angle} - 1
            rotated[k] = (turned * tilted).sum()
        moment = rotated + straight + orders * back
        # By so much E[e^{zL} - 1 + z (e^-L - 1)] of the nodes exceeds E_P[e^{zL}; L < inf] - 1.
        surplus = self.infinity_mass + orders * (self.infinity_mass - self.only_other)
        return np.asarray(np.log(math.exp(-top) * (1 - surplus) + moment) + top, dtype=np.complex128)


class StackedMoments:
    """The nodes of several steps as rows of arrays, by rising |loss|, so that all steps have their log moments at once.

    With the few hundred nodes of a usual step the calls would cost more than the arithmetic.
    """

    def __init__(self, steps: Sequence[LossMoments]) -> None:
        """Sort the nodes and add up the powers of their small losses."""
        shape = len(steps), max(1, *(step.size for step in steps))
        self.steps, distance = steps, np.full(shape, math.inf)
        log_mass, loss = np.full(shape, -math.inf), np.zeros(shape)
        for row, step in enumerate(steps):
            log_mass[row, : step.size], loss[row, : step.size] = step.log_mass, step.loss
            distance[row, : step.size] = np.abs(step.loss)
        by_size = np.argsort(distance, axis=1, kind="stable")
        self.log_mass, self.loss, self.distance = (
            np.take_along_axis(each, by_size, axis=1) for each in (log_mass, loss, distance)
        )
        self.mass = np.exp(self.log_mass)

        # Losses of size below 2^-k, k = 1, 2, ..., of each step: their number, and the sums of P mass times L^i, by
        # which orders z up to 2^(k - 1) have E[e^{zL}] of them as a series. All losses are below 2^0.
        scale = np.where(self.loss == 0, _SCALES, np.clip(-np.frexp(self.loss)[1], 0, _SCALES))
        places = (scale + (_SCALES + 1) * np.arange(len(steps))[:, None]).ravel()

        def by_scale(values: Array) -> Array:
            sums: Array = np.bincount(places, values.ravel(), (_SCALES + 1) * len(steps)).astype(np.float64)
            return sums.reshape(len(steps), -1)

        def below(values: Array) -> Array:
            sums = by_scale(values)
            return np.append(np.cumsum(sums[:, ::-1], axis=1)[:, ::-1], np.zeros((len(steps), 1)), axis=1)

        self.number = below((self.distance < math.inf).astype(np.float64)).astype(np.int64)
        power, sums = self.mass, [below(self.mass)]
        for _ in range(_SERIES):
            power = np.where(scale > 0, power * self.loss, 0.0)
            sums.append(below(power))
        self.sums = np.array(sums)
        # The sum of P mass times e^-L - 1 over all nodes, plus that of P mass times L over the small losses.
        others = by_scale(_mass_times_expm1(-self.loss, self.mass, np.exp(self.log_mass - self.loss)))
        signs = np.array([(-1) ** k / math.factorial(k) for k in range(2, _SERIES)])
        above = np.append(np.zeros((len(steps), 1)), np.cumsum(others, axis=1), axis=1)
        self.back = above + np.tensordot(signs, self.sums[2:_SERIES], axes=1)

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return (K, K') of each step at orders z, shape (steps, orders), as `LossMoments.cumulants`, uncharged."""
        rows, width = self.loss.shape
        at_once = max(_ELEMENTS_AT_ONCE // max(rows * width, 1), 1)
        infinite, only_other = (
            np.array([[value] for value in values])
            for values in zip(*((step.infinity_mass, step.only_other) for step in self.steps), strict=True)
        )
        # Of the small losses only that of nearly all mass may raise the largest term.
        heavy = np.argmax(self.log_mass, axis=1)[:, None]
        heaviest, loss_of_heaviest = (np.take_along_axis(x, heavy, axis=1) for x in (self.log_mass, self.loss))
        # A block has t and the nodes' E[e^{zL}], E[L e^{zL}] and E[e^{zL} - 1 + z (e^-L - 1)] over e^t.
        blocks = [np.empty((4, rows, 0))]
        for start in range(0, orders.size, at_once):
            z = orders[start : start + at_once]
            # E[e^{zL} - 1] without cancellation: of the smallest losses without its linear term, as a series; then by
            # expm1, then as it is.
            small = np.minimum(np.frexp(np.maximum(z, _SMALL))[1] + 1, _SCALES + 1)
            few = self.number[:, small]
            first, last = int(few.min()), int((self.distance < 1 / z.min()).sum(axis=1).max())
            loss, mass = self.loss[:, None, first:], self.mass[:, None, first:]
            exponent = z[:, None] * loss
            raised = exponent + self.log_mass[:, None, first:]
            top = np.maximum(raised.max(axis=2, initial=0.0), heaviest + z * loss_of_heaviest)
            scale = np.exp(-top)
            is_left = np.arange(first, width) >= few[:, :, None]
            tilted = np.where(is_left, np.exp(raised - top[:, :, None]), 0.0)
            grown = tilted - np.where(is_left, scale[:, :, None] * mass, 0.0)
            if last > first:
                near = exponent[:, :, : last - first]
                exact = scale[:, :, None] * (mass[:, :, : last - first] * np.expm1(np.clip(near, -1.0, 1.0)))
                np.copyto(
                    grown[:, :, : last - first],
                    exact,
                    where=is_left[:, :, : last - first] & (np.abs(near) < 1),
                )
            sums, powers = self.sums[:, :, small], np.ones((_SERIES, 1, z.size))
            for k in range(1, _SERIES):
                powers[k] = powers[k - 1] * np.minimum(z, 2.0**_SCALES) / k
            series = (powers[2:] * sums[2:_SERIES]).sum(axis=0)
            blocks.append(
                np.array(
                    [
                        top,
                        tilted.sum(axis=2) + scale * (sums[0] + z * sums[1] + series),
                        (tilted * loss).sum(axis=2) + scale * (powers * sums[1:]).sum(axis=0),
                        grown.sum(axis=2) + scale * (series + z * self.back[:, small]),
                    ]
                )
            )
        top, total, weighted, grown = np.concatenate(blocks, axis=2)
        # By so much the nodes' sum exceeds E_P[e^{zL}; L < inf] - 1.
        surplus = infinite + orders * (infinite - only_other)
        excess = grown - np.exp(-top) * surplus
        moment = np.maximum(np.exp(-top) + excess, total + _MIN_MOMENT)  # next to all mass may be infinite
        rough = (top > 0) | (moment < _SMALL)
        log_moment = np.where(rough, np.log(moment) + top, np.log1p(np.maximum(excess, -_SMALL)))
        return log_moment, weighted / moment


def _log_largest_mass(log_mass: Array, loss: Array, order: float) -> Array:
    """Return the log of the largest of each node's masses under P, under Q and under P tilted by e^{order L}."""
    return log_mass + np.maximum(order * loss, np.maximum(-loss, 0.0))


def _mass_times_expm1(exponent: Array, mass: Array, raised: Array) -> Array:
    """Return mass (e^exponent - 1) elementwise without cancellation, given raised = mass e^exponent."""
    return np.where(np.abs(exponent) < 1, mass * np.expm1(np.clip(exponent, -1, 1)), raised - mass)


def _exp_remainder(x: Array) -> Array:
    """Return e^x - 1 - x by its series, for |x| < 0.5; shape of `x`."""
    total = 1 + x / 16
    for k in range(15, 2, -1):
        total *= x / k
        total += 1
    total *= x * x / 2
    return total


def loss_moments(
    curve: LossCurve, *, max_order: float, truncated_mass: float = 0.0, frequency: float = 0.0
) -> LossMoments:
    """Return log moments for orders up to `max_order`; mass that P or Q alone has counts only if there are atoms."""
    (moments,) = all_loss_moments([curve], max_order=max_order, truncated_mass=truncated_mass, frequency=frequency)
    return moments


def all_loss_moments(
    curves: Sequence[LossCurve], *, max_order: float, truncated_mass: float = 0.0, frequency: float = 0.0
) -> list[LossMoments]:
    """Return the `loss_moments` of several steps, whose segments of one form share their calls of numpy."""
    # L * frequency grows by at most 4 in each panel, unless that takes more than 1000 parts of it. TooLargeError above
    # 2^24 densities.
    alike: dict[tuple[object, ...], list[tuple[int, int, Segment]]] = {}
    for number, curve in enumerate(curves):
        spend(_PANELS_WORK * len(curve.segments))
        for place, segment in enumerate(curve.segments):
            alike.setdefault(segment.pair.form, []).append((number, place, segment))
    nodes: list[dict[int, tuple[Array, Array]]] = [{} for _ in curves]  # by place of the segment
    for group in alike.values():
        segments = tuple(segment for _, _, segment in group)
        runs, log_negligible = _smooth_panels(segments, max_order, truncated_mass)
        if frequency and runs.y.size:
            _, loss = _log_density_and_loss(segments, runs)
            # Eight nodes integrate e^{ix} over 4 radians to round-off.
            turns = np.minimum(np.ceil(np.abs(np.diff(loss)) * frequency / 4), 1000)
            runs = runs.cut(np.maximum(turns, 1.0), _MAX_PANELS)
        panels = runs.intervals(len(group))
        if 8 * panels.max(initial=0) * len(segments[0].pair.centers) > _MAX_DENSITIES and (
            len(segments[0].pair.centers) > _MANY_CENTERS
        ):
            raise TooLargeError(f"quadrature: expected at most {_MAX_DENSITIES} densities, needs more; use rdp")
        y, log_weight = gauss_legendre_panels(runs.y, order=8, inner=runs.is_inner)
        owner = np.repeat(np.arange(len(group)), 8 * panels)
        log_density, loss = _log_density_and_loss(segments, Runs(y, owner, np.diff(owner) == 0))
        log_mass = log_density + log_weight
        keep = _log_largest_mass(log_mass, loss, max_order) > log_negligible[owner]
        ends = np.cumsum(np.bincount(owner[keep], minlength=len(group)))[:-1]
        for (number, place, _), *found in zip(
            group, np.split(log_mass[keep], ends), np.split(loss[keep], ends), strict=True
        ):
            nodes[number][place] = found[0], found[1]
    moments = []
    for curve, of_curve in zip(curves, nodes, strict=True):
        parts = [of_curve[place] for place in range(len(curve.segments))]
        only_other = infinity_mass = 0.0
        if curve.losses or not parts:
            parts.append((np.array(curve.log_masses), np.array(curve.losses)))
        log_mass, loss = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        if curve.losses:
            # Q mass where P has none: infinity_mass + P mass - Q mass of all nodes.
            infinity_mass = curve.infinity_mass
            only_other = infinity_mass - float(np.exp(log_mass - loss).sum() - np.exp(log_mass).sum())
            if only_other <= _ROUND_OFF:
                only_other = 0.0
        moments.append(LossMoments(log_mass=log_mass, loss=loss, infinity_mass=infinity_mass, only_other=only_other))
    return moments


class Runs(NamedTuple):
    """Runs of rising points, one after the other."""

    y: Array
    owner: IntArray  # the number of the segment that each point lies on, rising
    is_inner: NDArray[np.bool_]  # whether the interval after a point lies within a run, one less than points

    def intervals(self, segments: int) -> IntArray:
        """Return how many intervals each of `segments` has in its runs."""
        return np.bincount(self.owner[:-1][self.is_inner], minlength=segments)

    def cut(self, parts: Array, most: int) -> "Runs":
        """Return the runs with each interval in so many equal parts, at most `most` for one segment."""
        parts = np.where(self.is_inner, parts, 1.0)  # those between runs stay
        if not np.bincount(self.owner[:-1], parts).max(initial=0.0) <= most:  # also for NaN
            raise ConvergenceError(f"quadrature: expected at most {most} panels, needs more; use pld or rdp")
        below = np.concatenate([[0.0], np.cumsum(parts)])
        y = np.interp(np.arange(below[-1] + 1), below, self.y)
        number = parts.astype(np.int64)
        return Runs(y, np.append(np.repeat(self.owner[:-1], number), self.owner[-1:]), np.repeat(self.is_inner, number))


def _log_density_and_loss(segments: Sequence[Segment], points: Runs) -> tuple[Array, Array]:
    """Return (log of weight * P density, privacy loss) of segments of one form, at points of each."""
    if len(segments) == 1:
        return segments[0].log_density_and_loss(points.y)
    blocks = [(np.zeros(0), np.zeros(0))]
    pairs, log_weights = [each.pair for each in segments], np.log([each.weight for each in segments])
    for start in range(0, points.y.size, _POINTS_AT_ONCE):
        block = slice(start, start + _POINTS_AT_ONCE)
        first, owner = int(points.owner[start]), points.owner[block]
        at_points = PairsAtPoints(pairs[first : int(owner[-1]) + 1], owner - first)
        log_p, loss = at_points.log_density_and_loss(points.y[block])
        blocks.append((log_p + log_weights[owner], loss))
    log_p, loss = (np.concatenate(each) for each in zip(*blocks, strict=True))
    return log_p, loss


def _rough_points(segments: Sequence[Segment], ends: Sequence[tuple[float, float]]) -> Runs:
    """Return the `rough_points` of each segment between its two ends, none where these are not in order."""
    each = [
        rough_points(segment.pair, low, high) if low < high else np.zeros(0)
        for segment, (low, high) in zip(segments, ends, strict=True)
    ]
    owner = np.repeat(np.arange(len(segments)), [y.size for y in each])
    return Runs(np.concatenate(each), owner, np.diff(owner) == 0)


@cached_with_cost(16)
def _smooth_panels(segments: tuple[Segment, ...], max_order: float, truncated_mass: float) -> tuple[Runs, Array]:
    """Return (runs of points, log of a mass that does not matter on each segment), of segments of one form, cached."""
    # A run is a stretch whose mass matters, cut into panels on which moments are smooth, or 50,000 wider ones.
    # K(z) / z increases with z from the divergence at 0 on: a node that is negligible against that divergence is so at
    # every order. A step that leaks next to nothing needs nodes for probabilities that are as small.
    near = [reach(segment, max_order, truncated_mass) for segment in segments]
    points = _rough_points(segments, near)
    # Losses near 0.5 count up to ten times too much, far ones too little: little beside 20 digits.
    log_density, loss = _log_density_and_loss(segments, points)
    excess = np.minimum(np.where(np.abs(loss) < _SMALL, _exp_remainder(-np.clip(loss, -_SMALL, _SMALL)), 1.0), 1.0)
    height = np.exp(np.minimum(log_density, 700.0)) * excess  # 700: no overflow
    areas = np.where(points.is_inner, np.diff(points.y) * (height[1:] + height[:-1]) / 2, 0.0)
    divergence = np.bincount(points.owner[:-1], areas, len(segments))
    log_divergence = np.log(np.maximum(divergence, math.exp(_LOG_MIN_DIVERGENCE)))
    log_negligible: Array = _LOG_NEGLIGIBLE + np.minimum(log_divergence, 0.0)

    far = [
        reach(segment, max_order, truncated_mass, negligible=log_negligible[at]) if low < high else (0.0, 0.0)
        for at, (segment, (low, high)) in enumerate(zip(segments, near, strict=True))
    ]
    points = _rough_points(segments, far)
    log_density, loss = _log_density_and_loss(segments, points)
    log_mass = log_density + np.log([segment.pair.deviation for segment in segments])[points.owner]
    matters = _log_largest_mass(log_mass, loss, max_order) > _LOG_NEGLIGIBLE + log_negligible[points.owner]
    # With little noise, mass sits in a few places far apart: each run of points that matter, with its neighbours, has
    # panels of its own.
    used = np.flatnonzero(matters)
    if not used.size:
        return Runs(np.zeros(0), used, matters[:0]), log_negligible
    is_last = np.append((np.diff(used) > _GAP) | (np.diff(points.owner[used]) > 0), True)
    first, last = used[np.append(True, is_last[:-1])], used[is_last]
    first -= (first > 0) & (points.owner[np.maximum(first - 1, 0)] == points.owner[first])
    end = np.minimum(last + 1, points.y.size - 1)
    last = np.where(points.owner[end] == points.owner[last], end, last)
    lengths = last - first + 1
    taken = np.repeat(first - np.append(0, np.cumsum(lengths)[:-1]), lengths) + np.arange(lengths.sum())
    is_inner = np.ones(taken.size - 1, dtype=np.bool_)
    is_inner[np.cumsum(lengths)[:-1] - 1] = False
    runs = Runs(points.y[taken], points.owner[taken], is_inner)

    pairs = [segment.pair for segment in segments]
    at_points = pairs[0] if len(pairs) == 1 else PairsAtPoints(pairs, runs.owner)
    parts = np.ceil(np.diff(runs.y) / (0.75 * length_scales(at_points, runs.y, order=max_order)))
    total = np.bincount(runs.owner[:-1][is_inner], parts[is_inner], len(segments))
    if (total > _MAX_PANELS / 4).any():
        share = np.minimum(_MAX_PANELS / 4 / np.maximum(total, 1.0), 1.0)
        parts = np.ceil(parts * share[runs.owner[:-1]])
    return runs.cut(parts, _MAX_POINTS), log_negligible


def reach(
    segment: Segment, max_order: float, truncated_mass: float, *, negligible: float = _LOG_NEGLIGIBLE
) -> tuple[float, float]:
    """Return (low, high) beyond which P has no mass that matters, or only `truncated_mass`; low >= high for all."""
    if truncated_mass >= segment.weight:
        return 0.0, 0.0
    # The tilt e^{zL}, 0 <= z <= order, moves a Gaussian by at most z * span, and by at most sigma sqrt(2 z max_loss)
    # where the loss is bounded; beyond that its mass falls like the normal tail.
    pair = segment.pair
    moved = min(max_order * pair.span, pair.deviation * math.sqrt(2 * max_order * max(0.0, segment.max_loss)))
    slack = moved + pair.deviation * math.sqrt(-2 * negligible)
    low, high = max(pair.centers[0] - slack, segment.low), min(pair.centers[-1] + slack, segment.high)
    if truncated_mass and segment.max_loss > 0:
        # Ends beyond which P has at most this mass, and more than Q: mass that Q has, e^{-L} P, enters every moment. It
        # is that of the whole pair, on a segment there is no more. That the loss is positive at a cut is not enough:
        # with little noise a rare component of Q may lie below it.
        mass, mirrored = truncated_mass / segment.weight, pair.mirrored
        cut_low, cut_high = lower_quantile(pair, mass), lower_quantile(mirrored, mass)
        if cut_low < segment.high and pair.difference_below(cut_low) > pair.difference_below(segment.low):
            low = max(low, cut_low)
        if mirrored.difference_below(cut_high) > mirrored.difference_below(-segment.high):
            high = min(high, -cut_high)
    return low, high


# Steps together

_STACKED = 1 << 13  # nodes of the steps whose log moments are computed at once
_TOGETHER = 16  # steps whose losses are evaluated at once
_LARGE = 30.0  # log moment above which log(1 - q + q e^K) is taken directly; below, by expm1 and log1p


@dataclass(frozen=True, kw_only=True)
class PublicDraw:
    """Steps that share one public draw: with probability `rate` their losses, composed adaptively, else 0."""

    # Accountants mix the draw in after they have composed the steps. A draw of one step is in its `Loss` already.

    rate: float  # in (0, 1), the same in D and D'
    counts: "tuple[tuple[Curve, int], ...]"  # (loss of one step, how often), not empty

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments of each different step once."""
        return tuple(segment for curve, _ in self.counts for segment in curve.segments)

    @property
    def infinity_mass(self) -> float:
        """P mass of an infinite loss."""
        return self.rate * total_infinity_mass(dict(self.counts))


@dataclass(frozen=True)
class ComposedMoments:
    """Log moments of steps together: the sum K over the steps or, under one public draw, log(1 - rate + rate e^K)."""

    # (moments of one step, how often it occurs): LossMoments, ComposedMoments, or an RdpCurve, with `cumulants` only
    parts: tuple[tuple[Any, int], ...]
    rate: float = 1.0  # probability that the draw hits, in (0, 1]

    @cached_property
    def _leaves(self) -> list[LossMoments]:
        """The moments of steps by quadrature, those under public draws too, in their order."""
        own = ([part] if isinstance(part, LossMoments) else getattr(part, "_leaves", []) for part, _ in self.parts)
        return [leaf for leaves in own for leaf in leaves]

    @cached_property
    def _stacks(self) -> list[tuple[list[int], StackedMoments]]:
        """The places of leaves of about equal size, and them together."""
        stacks: list[list[int]] = []
        for place in sorted(range(len(self._leaves)), key=lambda at: self._leaves[at].size):
            if stacks and (len(stacks[-1]) + 1) * self._leaves[place].size <= _STACKED:
                stacks[-1].append(place)
            else:
                stacks.append([place])
        return [(places, StackedMoments([self._leaves[at] for at in places])) for places in stacks]

    def of_parts(self, orders: Array) -> list[tuple[Array, Array]]:
        """Return the log moments of each part and their derivatives at orders z > 0; their `work` is not charged."""
        found = np.empty((2, len(self._leaves), orders.size))
        for places, stack in self._stacks:
            found[0, places], found[1, places] = stack.cumulants(orders)
        return self._of_parts(orders, zip(*found, strict=True))

    def _of_parts(self, orders: Array, leaves: Iterator[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
        return [
            next(leaves)
            if isinstance(moments, LossMoments)
            else moments._mixed(moments._of_parts(orders, leaves))
            if isinstance(moments, ComposedMoments)
            else moments.cumulants(orders)
            for moments, _ in self.parts
        ]

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return the log moments K(z) and their derivative K'(z) at orders z > 0."""
        spend(self.work(orders.size))
        return self._mixed(self.of_parts(orders)) if self.parts else (np.zeros(orders.shape), np.zeros(orders.shape))

    def work(self, orders: int) -> float:
        """Return the work of `cumulants` at so many orders."""
        return sum(leaf.work(orders) for leaf in self._leaves)

    def _mixed(self, of_parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Return the log moments of all parts under the draw, and their derivatives, from those of each."""
        value, slope = np.zeros(of_parts[0][0].shape), np.zeros(of_parts[0][0].shape)
        for (step_value, step_slope), (_, count) in zip(of_parts, self.parts, strict=True):
            value, slope = value + count * step_value, slope + count * step_slope
        if self.rate == 1:
            return value, slope
        # For a small K a sum with 1 would round it away, and a large one overflows: two forms of one number.
        mixed = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + value)
        mixed = np.where(value < _LARGE, np.log1p(self.rate * np.expm1(np.minimum(value, _LARGE))), mixed)
        return mixed, slope * np.exp(math.log(self.rate) + value - mixed)

    def tilted_moments(self, order: float) -> tuple[float, float]:
        """Return (variance, fourth cumulant) of the loss tilted by e^{order L}; a draw neglects the steps' skewness."""
        steps = [(*moments.tilted_moments(order), count) for moments, count in self.parts]
        variance = sum(count * of_step for of_step, _, count in steps)
        fourth = sum(count * of_step for _, of_step, count in steps)
        if self.rate == 1:
            return variance, fourth
        # Under the tilt the loss is 0, or with probability `drawn` that of the steps: a mixture of two.
        at = np.array([order])
        inside, mean = (float(values[0]) for values in replace(self, rate=1.0).cumulants(at))
        drawn = math.exp(math.log(self.rate) + inside - float(self.cumulants(at)[0][0]))
        gap = mean * (1 - drawn)
        spread = drawn * variance + drawn * gap * mean
        central = fourth + 3 * variance**2 + 6 * variance * gap**2 + gap**4
        return spread, drawn * central + (1 - drawn) * (drawn * mean) ** 4 - 3 * spread**2

    def cumulants_on_line(self, real: float, *, step: float, count: int) -> Complex:
        """Return log E_P[e^{zL}] at z = real + i k step, 0 <= k < count."""
        value = np.zeros(count, dtype=np.complex128)
        for moments, copies in self.parts:
            value += copies * moments.cumulants_on_line(real, step=step, count=count)
        if self.rate == 1:
            return value
        # |e^K| is largest on the real axis, at k = 0; above e^30 it is taken out, below it cancels nothing.
        top = float(value[0].real)
        if top < _LARGE:
            return np.log1p(self.rate * np.expm1(value))
        missed = (1 - self.rate) * math.exp(-top)
        return np.asarray(np.log(missed + self.rate * np.exp(value - top)) + top, dtype=np.complex128)

    @property
    def size(self) -> int:
        """Number of quadrature nodes of all steps."""
        return sum(moments.size for moments, _ in self.parts)


Curve = LossCurve | PublicDraw | RdpCurve
"""The loss of one step, or of steps under one public draw, as an accountant composes it."""

Steps = dict[Curve, int]
"""A run, or a part of one, in one direction as accountants see it: {loss of a step: how often it occurs}."""


def together(parts: Iterable[Steps]) -> Steps:
    """Return the adaptive composition of several parts; their order does not change the cost."""
    counts: Counter[Curve] = Counter()
    for part in parts:
        counts.update(part)
    return {curve: count for curve, count in counts.items() if count}


def repeated(steps: Steps, number: int) -> Steps:
    """Return the adaptive composition of `number` >= 0 copies of some steps."""
    return {curve: count * number for curve, count in steps.items()} if number else {}


def under_public_draw(steps: Steps, rate: float) -> Steps:
    """Return steps under a public draw, of the same law in D and D', as one: with probability `rate`, else loss 0."""
    if rate in {0, 1} or not steps:
        return steps if rate else {}
    ((curve, count), *more) = steps.items()
    if not more and count == 1 and isinstance(curve, Loss):
        return {under_draw([(rate, curve)]): 1}
    return {PublicDraw(rate=rate, counts=tuple(steps.items())): 1}


def segment_ends(counts: Steps) -> int:
    """Return how many ends of segments share a truncated mass: two a segment, under public draws too, or one a copy."""
    return sum(
        count * (segment_ends(dict(curve.counts)) if isinstance(curve, PublicDraw) else max(1, 2 * len(curve.segments)))
        for curve, count in counts.items()
    )


def total_infinity_mass(counts: Steps) -> float:
    """Return the probability under P that any loss is infinite, also after public draws; RDP curves count as finite."""
    # Logarithms of 1 - mass are added up: a product of such numbers would lose masses below 1e-16.
    masses = [(curve.infinity_mass, count) for curve, count in counts.items()]
    log_finite = sum(count * math.log1p(-mass) if mass < 1 else -math.inf for mass, count in masses if mass)
    return -math.expm1(log_finite)


def largest_loss(counts: Steps) -> float:
    """Return the sum of the steps' largest finite losses, 0 for negative ones, rounded up; inf with RDP curves."""
    total = 0.0
    for curve, count in counts.items():
        match curve:
            case PublicDraw():
                bound = largest_loss(dict(curve.counts))
            case RdpCurve():
                bound = math.inf
            case _:
                bound = max([0.0, *(segment.max_loss for segment in curve.segments), *curve.losses])
        total += count * bound
    return total * (1 + 1e-12)


def composed_moments(
    counts: Mapping[Curve, int], *, max_order: float, truncated_mass: float = 0.0, frequency: float = 0.0
) -> ComposedMoments:
    """Return the log moments of each step with its count, from quadrature that serves orders up to `max_order`."""

    # Leaves, those under public draws too, share calls of numpy.
    leaves = [*_leaves(counts)]
    chunks = [leaves[at : at + _TOGETHER] for at in range(0, len(leaves), _TOGETHER)]
    found = iter(
        [
            moments
            for chunk in alike(chunks)
            for moments in all_loss_moments(
                chunk, max_order=max_order, truncated_mass=truncated_mass, frequency=frequency
            )
        ]
    )

    def log_moments(curve: Curve) -> LossMoments | ComposedMoments | RdpCurve:
        if isinstance(curve, RdpCurve):
            return curve
        if isinstance(curve, PublicDraw):
            return ComposedMoments(tuple((log_moments(step), count) for step, count in curve.counts), curve.rate)
        return next(found)

    return ComposedMoments(tuple((log_moments(curve), count) for curve, count in counts.items()))


def _leaves(curves: Iterable[Curve]) -> Iterator[LossCurve]:
    """Yield the steps whose losses are known, those under public draws too, in their order."""
    for curve in curves:
        if isinstance(curve, PublicDraw):
            yield from _leaves(step for step, _ in curve.counts)
        elif not isinstance(curve, RdpCurve):
            yield curve
