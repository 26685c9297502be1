"""Log moments K(z) = log E_P[e^{zL}] of steps and compositions, and other numbers of a composition.

Those of one step come from quadrature over its loss. The nodes cover all of P and of Q on every segment; mass outside
the segments has loss 0. E[e^{zL}] - 1 is summed as E[(e^{zL} - 1) + z (e^{-L} - 1)]: the second term adds E_P[e^{-L}] -
1 = 0 and removes the leading term, so that K keeps its digits when one step leaks next to nothing.

Source: docs/theory.md, Definition 3.4 and Theorem 2.7.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from dpcalc.errors import ConvergenceError, TooLargeError
from dpcalc.losses.loss import Loss, LossCurve, under_draw
from dpcalc.losses.pair import Segment, length_scales, lower_quantile, rough_points, subdivided
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.numerics import Array, Complex, gauss_legendre_panels
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, TURN, alike, cached_with_cost, spend

_Orders = TypeVar("_Orders", Array, Complex)
_MAX_PANELS = 200_000  # of 8 nodes: 13 MB an array; more are refused with exit code 3
_MANY_CENTERS = 256  # of a mixture; upper bounds have fewer, so that only the lower bound of a data set is given up
_MAX_DENSITIES = 1 << 24  # of components at nodes, about 2 s
_ELEMENTS_AT_ONCE = 1 << 16  # orders times nodes: 1 MB in the cache of a processor; larger arrays are slower
_GAP = 4  # rough points without mass between ranges that are integrated separately
_ROUND_OFF = 1e-15  # of a sum of masses: a smaller difference is no mass
_SMALL = 0.5  # |x| below which e^x - 1 - x is summed as a series
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
    def _sorted(self) -> tuple[Array, Array, Array, Array]:
        """(log P mass, loss, P mass) of the nodes by rising |loss|, and the sums that log moments near order 0 need."""
        # Those are, for each i up to the number of losses of size below 0.5, the sum of the P mass times e^-L - 1 over
        # all nodes, plus that of the P mass times L over the first i.
        # For each order the nodes that need a series, or e^x - 1, are then the first ones.
        by_size = np.argsort(np.abs(self.loss), kind="stable")
        log_mass, loss = self.log_mass[by_size], self.loss[by_size]
        mass, count = np.exp(log_mass), int(np.searchsorted(np.abs(loss), _SMALL))
        from_node_on = np.cumsum(_mass_times_expm1(-loss, mass, np.exp(log_mass - loss))[::-1])[::-1]
        back = np.append(from_node_on, 0.0)[: count + 1]
        back[1:] += np.cumsum(mass[:count] * _exp_remainder(-loss[:count]))
        return log_mass, loss, mass, back

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return (K, K') at orders z, with K(z) = log E_P[e^{zL}; L < inf], accurate also near order 0."""
        spend(1.5 * ELEMENT * (orders.size + 6) * (self.size + 200))
        at_once = max(_ELEMENTS_AT_ONCE // max(self.size, 1), 1)
        log_mass, loss, mass, back = self._sorted
        # All orders of a block in one call: with the few hundred nodes of a usual step the calls cost more than the
        # arithmetic. A block has t and the nodes' E[e^{zL}], E[L e^{zL}] and E[e^{zL} - 1 + z (e^-L - 1)] over e^t.
        blocks = [np.empty((4, 0))]
        for start in range(0, orders.size, at_once):
            z = orders[start : start + at_once]
            exponent = z[:, None] * loss
            raised = exponent + log_mass
            top = raised.max(axis=1, initial=0.0)
            tilted, scale = np.exp(raised - top[:, None]), np.exp(-top)
            # E[e^{zL} - 1] without cancellation: of the smallest losses without its linear term, as a series; then by
            # expm1, then as it is.
            few = np.searchsorted(np.abs(loss), _SMALL / np.maximum(z, 1.0))
            near = np.maximum(few, np.searchsorted(np.abs(loss), 1 / z))
            grown = tilted - scale[:, None] * mass
            for ends, function, bound in ((near, np.expm1, 1.0), (few, _exp_remainder, _SMALL)):
                last = int(ends.max(initial=0))
                exact = scale[:, None] * (mass[:last] * function(np.clip(exponent[:, :last], -bound, bound)))
                np.copyto(grown[:, :last], exact, where=np.arange(last) < ends[:, None])
            excess = grown.sum(axis=1) + scale * z * back[few]
            blocks.append(np.array([top, tilted.sum(axis=1), (tilted * loss).sum(axis=1), excess]))
        top, total, weighted, grown = np.concatenate(blocks, axis=1)
        excess = grown - np.exp(-top) * self._surplus(orders)
        moment = np.maximum(np.exp(-top) + excess, total + _MIN_MOMENT)  # next to all mass may be infinite
        rough = (top > 0) | (moment < _SMALL)
        log_moment = np.where(rough, np.log(moment) + top, np.log1p(np.maximum(excess, -_SMALL)))
        return log_moment, weighted / moment

    def _surplus(self, orders: _Orders) -> _Orders:
        """Return by how much E[e^{zL} - 1 + z (e^-L - 1)] of the nodes exceeds E_P[e^{zL}; L < inf] - 1."""
        return self.infinity_mass + orders * (self.infinity_mass - self.only_other)

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
        return np.asarray(np.log(math.exp(-top) * (1 - self._surplus(orders)) + moment) + top, dtype=np.complex128)


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
    # L * frequency grows by at most 4 in each panel, unless that takes more than 1000 parts of it. TooLargeError above
    # 2^24 densities.
    losses, pieces = np.array(curve.losses), []
    spend(_PANELS_WORK * len(curve.segments))
    for segment in curve.segments:
        runs, log_negligible = _smooth_panels(segment, max_order, truncated_mass)
        if not runs:
            continue
        panels = []
        for run in runs:
            edges = run
            if frequency:
                _, loss = segment.log_density_and_loss(edges)
                # Eight nodes integrate e^{ix} over 4 radians to round-off.
                turns = np.minimum(np.ceil(np.abs(np.diff(loss)) * frequency / 4), 1000)
                below = np.concatenate([[0.0], np.cumsum(np.maximum(turns, 1.0))])
                if below[-1] > _MAX_PANELS:
                    raise ConvergenceError(f"quadrature: expected at most {_MAX_PANELS} panels, needs more; use pld")
                edges = np.interp(np.arange(below[-1] + 1), below, edges)
            panels.append(gauss_legendre_panels(edges, order=8))
        y, log_weight = (np.concatenate([panel[i] for panel in panels]) for i in (0, 1))
        if len(segment.pair.centers) > _MANY_CENTERS and y.size * len(segment.pair.centers) > _MAX_DENSITIES:
            raise TooLargeError(f"quadrature: expected at most {_MAX_DENSITIES} densities, needs more; use rdp")
        log_density, loss = segment.log_density_and_loss(y)
        log_mass = log_density + log_weight
        keep = _log_largest_mass(log_mass, loss, max_order) > log_negligible
        pieces.append((log_mass[keep], loss[keep]))
    log_mass, loss = (np.concatenate(each) for each in zip(*pieces, (np.array(curve.log_masses), losses), strict=True))
    if not losses.size:
        return LossMoments(log_mass, loss)
    # Q mass where P has none: infinity_mass + P mass - Q mass of all nodes.
    only_other = curve.infinity_mass - float(np.exp(log_mass - loss).sum() - np.exp(log_mass).sum())
    if only_other <= _ROUND_OFF:
        only_other = 0.0
    return LossMoments(log_mass, loss, infinity_mass=curve.infinity_mass, only_other=only_other)


@cached_with_cost(4)
def _smooth_panels(segment: Segment, max_order: float, truncated_mass: float) -> tuple[tuple[Array, ...], float]:
    """Return (runs of rising points, log of a mass that does not matter), cached."""
    # A run is a stretch whose mass matters, cut into panels on which moments are smooth, or 50,000 wider ones.
    low, high = reach(segment, max_order, truncated_mass)
    if low >= high:
        return (), _LOG_NEGLIGIBLE
    # K(z) / z increases with z from the divergence at 0 on: a node that is negligible against that divergence is so at
    # every order. A step that leaks next to nothing needs nodes for probabilities that are as small.
    y = rough_points(segment.pair, low, high)
    # Losses near 0.5 count up to ten times too much, far ones too little: little beside 20 digits.
    log_density, loss = segment.log_density_and_loss(y)
    excess = np.minimum(np.where(np.abs(loss) < _SMALL, _exp_remainder(-np.clip(loss, -_SMALL, _SMALL)), 1.0), 1.0)
    divergence = float(np.trapezoid(np.exp(np.minimum(log_density, 700.0)) * excess, y))  # 700: no overflow
    log_divergence = min(0.0, max(math.log(divergence), _LOG_MIN_DIVERGENCE)) if divergence > 0 else _LOG_MIN_DIVERGENCE
    log_negligible = _LOG_NEGLIGIBLE + log_divergence
    y = rough_points(segment.pair, *reach(segment, max_order, truncated_mass, negligible=log_negligible))
    log_density, loss = segment.log_density_and_loss(y)
    log_mass = log_density + math.log(segment.pair.deviation)
    used = np.flatnonzero(_log_largest_mass(log_mass, loss, max_order) > _LOG_NEGLIGIBLE + log_negligible)
    # With little noise, mass sits in a few places far apart: each run of points that matter, with its neighbours, has
    # panels of its own.
    places = np.split(used, np.flatnonzero(np.diff(used) > _GAP) + 1)
    runs = [y[max(run[0] - 1, 0) : run[-1] + 2] for run in places if run.size]
    parts = [np.ceil(np.diff(run) / (0.75 * length_scales(segment.pair, run, order=max_order))) for run in runs]
    total = sum(float(part.sum()) for part in parts)
    if total > _MAX_PANELS / 4:
        parts = [np.ceil(part * (_MAX_PANELS / 4 / total)) for part in parts]
    return tuple(subdivided(run, part) for run, part in zip(runs, parts, strict=True)), log_negligible


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

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return the log moments K(z) and their derivative K'(z) at orders z > 0."""
        value, slope = np.zeros(orders.shape), np.zeros(orders.shape)
        for moments, count in self.parts:
            step_value, step_slope = moments.cumulants(orders)
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

    def log_moments(curve: Curve) -> LossMoments | ComposedMoments | RdpCurve:
        if isinstance(curve, RdpCurve):
            return curve
        if isinstance(curve, PublicDraw):
            return ComposedMoments(tuple((log_moments(step), count) for step, count in curve.counts), curve.rate)
        return loss_moments(curve, max_order=max_order, truncated_mass=truncated_mass, frequency=frequency)

    return ComposedMoments(tuple((log_moments(curve), count) for curve, count in alike(counts.items())))
