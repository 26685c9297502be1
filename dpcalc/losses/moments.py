"""Log moments K(z) = log E_P[e^{zL}] of steps and compositions, and other numbers of a composition.

Source: docs/theory.md, Definition 3.4 and Theorem 2.7.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np

from dpcalc.arrays import Array, Complex
from dpcalc.losses.pair import LossCurve, Segment
from dpcalc.losses.quadrature import loss_moments
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.records import dataclass

_LARGE = 30.0  # log moment above which log(1 - q + q e^K) is taken directly; below, by expm1 and log1p


@dataclass(frozen=True, kw_only=True)
class RevealedSubsample:
    """Steps that share one public draw: with probability `rate` their losses, composed adaptively, else 0."""

    rate: float  # in (0, 1), the same in D and D'
    counts: "tuple[tuple[Curve, int], ...]"  # (loss of one step, how often), not empty


class LogMoments(Protocol):
    """K(z) = log E_P[e^{zL}] of a loss, natural logarithm."""

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return K(z) and its derivative K'(z) at some orders z > 0, each of the shape of `orders`."""
        ...

    def tilted_moments(self, order: float) -> tuple[float, float]:
        """Return the variance and the fourth cumulant of the loss tilted by e^{order L}."""
        ...

    def cumulants_on_line(self, real: float, *, step: float, count: int) -> Complex:
        """Protocol method: log E_P[e^{zL}] at z = real + i k step, k = 0, ..., count - 1, shape (count,)."""
        ...

    @property
    def size(self) -> int:
        """Number of quadrature nodes, a measure of work."""
        ...


@dataclass(frozen=True)
class ComposedMoments:
    """Log moments of a composition: the sums over its steps."""

    parts: tuple[tuple[LogMoments, int], ...]  # (moments of one step, how often it occurs)

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return the steps' summed log moments K(z) and their derivative K'(z) at orders z > 0."""
        value, slope = np.zeros(orders.shape), np.zeros(orders.shape)
        for moments, count in self.parts:
            step_value, step_slope = moments.cumulants(orders)
            value, slope = value + count * step_value, slope + count * step_slope
        return value, slope

    def tilted_moments(self, order: float) -> tuple[float, float]:
        """Return (variance, fourth cumulant) of the composed loss tilted by e^{order L}."""
        steps = [(*moments.tilted_moments(order), count) for moments, count in self.parts]
        return sum(count * variance for variance, _, count in steps), sum(count * fourth for _, fourth, count in steps)

    def cumulants_on_line(self, real: float, *, step: float, count: int) -> Complex:
        """Return the sum over the steps of log E_P[e^{zL}] at z = real + i k step, 0 <= k < count."""
        value = np.zeros(count, dtype=np.complex128)
        for moments, copies in self.parts:
            value += copies * moments.cumulants_on_line(real, step=step, count=count)
        return value

    @property
    def size(self) -> int:
        """Number of quadrature nodes of all steps."""
        return sum(moments.size for moments, _ in self.parts)


@dataclass(frozen=True)
class RevealedSubsampleMoments:
    """Log moments log(1 - rate + rate e^{K(z)}) of steps under one public draw."""

    rate: float  # probability that the draw hits, in (0, 1)
    steps: ComposedMoments  # log moments K of the steps together

    def cumulants(self, orders: Array) -> tuple[Array, Array]:
        """Return the log moment of steps under a public draw, log(1 - rate + rate e^{K(z)}), and its derivative."""
        # For a small K a sum with 1 would round it away, and a large one overflows: two forms of one number.
        value, slope = self.steps.cumulants(orders)
        mixed = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + value)
        mixed = np.where(value < _LARGE, np.log1p(self.rate * np.expm1(np.minimum(value, _LARGE))), mixed)
        return mixed, slope * np.exp(math.log(self.rate) + value - mixed)

    def tilted_moments(self, order: float) -> tuple[float, float]:
        """Return (variance, fourth cumulant) of the mixture tilted by e^{order L}; the steps' skewness is neglected."""
        # Under the tilt the loss is 0, or with probability `drawn` that of the steps: a mixture of two.
        at = np.array([order])
        inside, mean = (float(values[0]) for values in self.steps.cumulants(at))
        drawn = math.exp(math.log(self.rate) + inside - float(self.cumulants(at)[0][0]))
        variance, fourth = self.steps.tilted_moments(order)
        gap = mean * (1 - drawn)
        spread = drawn * variance + drawn * gap * mean
        central = fourth + 3 * variance**2 + 6 * variance * gap**2 + gap**4
        return spread, drawn * central + (1 - drawn) * (drawn * mean) ** 4 - 3 * spread**2

    def cumulants_on_line(self, real: float, *, step: float, count: int) -> Complex:
        """Return log(1 - rate + rate e^{K(z)}), K being that of the steps, at `count` orders z = real + i k step."""
        # |e^K| is largest on the real axis, at k = 0; above e^30 it is taken out, below it cancels nothing.
        value = self.steps.cumulants_on_line(real, step=step, count=count)
        top = float(value[0].real)
        if top < _LARGE:
            return np.asarray(np.log1p(self.rate * np.expm1(value)), dtype=np.complex128)
        missed = (1 - self.rate) * math.exp(-top)
        return np.asarray(np.log(missed + self.rate * np.exp(value - top)) + top, dtype=np.complex128)

    @property
    def size(self) -> int:
        """Number of quadrature nodes of all steps."""
        return self.steps.size


Curve = LossCurve | RevealedSubsample | RdpCurve
"""The loss of one step, or of steps under one public draw, as an accountant composes it."""


def segment_ends(counts: Iterable[tuple[Curve, int]]) -> int:
    """Return how many ends of segments share a truncated mass: two a segment, under public draws too, or one a copy."""
    total = 0
    for curve, count in counts:
        match curve:
            case RevealedSubsample():
                ends = segment_ends(curve.counts)
            case RdpCurve():
                ends = 1
            case _:
                ends = max(1, 2 * len(curve.segments))
        total += count * ends
    return total


def total_infinity_mass(counts: Iterable[tuple[Curve, int]]) -> float:
    """Return the probability under P that any loss is infinite, also after public draws; RDP curves count as finite."""
    # Logarithms of 1 - mass are added up: a product of such numbers would lose masses below 1e-16.
    log_finite = 0.0
    for curve, count in counts:
        match curve:
            case RevealedSubsample():
                mass = curve.rate * total_infinity_mass(curve.counts)
            case RdpCurve():
                mass = 0.0
            case _:
                mass = curve.infinity_mass
        if mass:
            log_finite += count * math.log1p(-mass) if mass < 1 else -math.inf
    return -math.expm1(log_finite)


def largest_loss(counts: Iterable[tuple[Curve, int]]) -> float:
    """Return the sum of the steps' largest finite losses, 0 for negative ones, rounded up; inf with RDP curves."""
    total = 0.0
    for curve, count in counts:
        match curve:
            case RevealedSubsample():
                bound = largest_loss(curve.counts)
            case RdpCurve():
                bound = math.inf
            case _:
                bound = max([0.0, *(part.max_loss for part in curve.segments), *curve.atoms[0]])
        total += count * bound
    return total * (1 + 1e-12)


def min_component_probability(counts: Iterable[tuple[Curve, int]]) -> float:
    """Return the smallest (segment weight * P weight of a center) of any step; 1 if no step has segments."""
    segments = _all_segments(counts)
    return min([1.0, *(segment.weight * min(w for w in segment.pair.weights_p if w) for segment in segments)])


def widest_span(counts: Iterable[tuple[Curve, int]]) -> float:
    """Return the largest distance between two centers of any step, in standard deviations; 0 if none has segments."""
    return max([0.0, *(segment.pair.span / segment.pair.deviation for segment in _all_segments(counts))])


def _all_segments(counts: Iterable[tuple[Curve, int]]) -> Iterator[Segment]:
    """Yield the segments of each different step once, also under a public draw; steps known by RDP have none."""
    for curve, _ in counts:
        if isinstance(curve, RevealedSubsample):
            yield from _all_segments(curve.counts)
        elif not isinstance(curve, RdpCurve):
            yield from curve.segments


def composed_moments(
    counts: Mapping[Curve, int], *, max_order: float, truncated_mass: float = 0.0, frequency: float = 0.0
) -> ComposedMoments:
    """Return the log moments of each step with its count, from quadrature that serves orders up to `max_order`."""
    steps = (
        (log_moments(curve, max_order=max_order, truncated_mass=truncated_mass, frequency=frequency), count)
        for curve, count in counts.items()
    )
    return ComposedMoments(tuple(steps))


def log_moments(curve: Curve, *, max_order: float, truncated_mass: float = 0.0, frequency: float = 0.0) -> LogMoments:
    """Return the log moments of a step or public draw, accurate up to `max_order`; an RDP curve is returned itself."""
    if isinstance(curve, RdpCurve):
        return curve
    if not isinstance(curve, RevealedSubsample):
        return loss_moments(curve, max_order=max_order, truncated_mass=truncated_mass, frequency=frequency)
    steps = (
        (log_moments(step, max_order=max_order, truncated_mass=truncated_mass, frequency=frequency), count)
        for step, count in curve.counts
    )
    return RevealedSubsampleMoments(curve.rate, ComposedMoments(tuple(steps)))
