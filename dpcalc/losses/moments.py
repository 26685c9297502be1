"""Log moments K(z) = log E_P[e^{zL}] of steps and compositions, and other numbers of a composition.

Source: docs/theory.md, Definition 3.4 and Theorem 2.7.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dpcalc.losses.loss import Loss, LossCurve, under_draw
from dpcalc.losses.pair import Segment
from dpcalc.losses.quadrature import LossMoments, loss_moments
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.numerics import Array, Complex
from dpcalc.records import dataclass
from dpcalc.work import alike

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
