"""Dominating pairs (P, Q) of Gaussian mixtures on the line, and the segments on which their privacy loss is read."""

import math
from fractions import Fraction
from typing import Protocol

import numpy as np

from dpcalc.arrays import Array
from dpcalc.errors import ConvergenceError, InputError
from dpcalc.numerics.special import normal_cdf
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, TURN, cached_with_cost, spend

_CALL = 100  # array elements that take as long as one call of numpy, for estimates of work
_FAR = 1e3  # deviations of a center from 0 above which squares of points would cost digits: 1e-10 of a density here
_TOO_FAR = 1e8  # deviations beyond which a float is too coarse: it errs by 1e-8 deviations, a density by 1e-7
_MAX_EXPONENTS = 1 << 22  # of components at points held at once: 32 MB an array, of which there are a few


class LossCurve(Protocol):
    """Privacy loss of one step in one direction, as accountants read it; hashable, equal for equal steps.

    A class that inherits from it has all of its loss on the segments, unless it overrides the other properties.
    """

    @property
    def segments(self) -> tuple["Segment", ...]:
        """The pieces of the line that carry the losses different from 0."""
        ...

    @property
    def zero_loss_mass(self) -> float:
        """P mass whose loss is exactly 0 and lies on no segment."""
        return 0.0

    @property
    def atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(losses, log P masses) of single values."""
        return (), ()

    @property
    def infinity_mass(self) -> float:
        """P mass where Q has none: its loss is infinite, and enters no moment."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class MixturePair(LossCurve):
    """P = sum_i p_i N(c_i, sigma^2) against Q = sum_i q_i N(c_i, sigma^2).

    The privacy loss at y is log P(y)/Q(y); it is computed from the exact weight differences p_i - q_i,
    so that it keeps its digits where P and Q nearly agree.
    """

    centers: tuple[float, ...]  # c_i, increasing, in clip norms
    weights_p: tuple[float, ...]  # p_i, summing to 1
    weights_q: tuple[float, ...]  # q_i, summing to 1
    differences: tuple[float, ...]  # p_i - q_i, rounded once from the exact values
    deviation: float  # sigma > 0, the noise multiplier

    @classmethod
    def of(cls, p: dict[int, Fraction], q: dict[int, Fraction], *, deviation: float) -> "MixturePair":
        """Return the pair with exact weights {center: weight}; InputError if they are none, or sigma is not > 0."""
        weights = (*p.values(), *q.values())
        if sum(p.values()) != 1 or sum(q.values()) != 1 or any(weight < 0 for weight in weights) or not deviation > 0:
            raise InputError(f"mixture: expected weights >= 0 that sum to 1, and sigma > 0, got {p}, {q}, {deviation}")
        centers = sorted(c for c in {*p, *q} if p.get(c, 0) or q.get(c, 0))
        zero = Fraction(0)
        return cls(
            centers=tuple(float(c) for c in centers),
            weights_p=tuple(float(p.get(c, zero)) for c in centers),
            weights_q=tuple(float(q.get(c, zero)) for c in centers),
            differences=tuple(float(p.get(c, zero) - q.get(c, zero)) for c in centers),
            deviation=deviation,
        )

    @property
    def swapped(self) -> "MixturePair":
        """The pair (Q, P)."""
        return MixturePair(
            centers=self.centers,
            weights_p=self.weights_q,
            weights_q=self.weights_p,
            differences=tuple(-d for d in self.differences),
            deviation=self.deviation,
        )

    @property
    def mirrored(self) -> "MixturePair":
        """The pair reflected at 0: y becomes -y."""
        return MixturePair(
            centers=tuple(-c for c in reversed(self.centers)),
            weights_p=self.weights_p[::-1],
            weights_q=self.weights_q[::-1],
            differences=self.differences[::-1],
            deviation=self.deviation,
        )

    @property
    def span(self) -> float:
        """Largest distance between two centers."""
        return self.centers[-1] - self.centers[0]

    @property
    def max_loss(self) -> float:
        """Upper bound on the loss: log of the largest p_i / q_i; infinite if some q_i is 0 where p_i is not."""
        pairs = zip(self.weights_p, self.weights_q, strict=True)
        ratio = max((p / q if q else math.inf) for p, q in pairs if p)
        return math.log(ratio) if ratio < math.inf else math.inf

    def mass_below(self, y: float) -> float:
        """Return P(-inf, y)."""
        return sum(p * normal_cdf((y - c) / self.deviation) for c, p in zip(self.centers, self.weights_p, strict=True))

    def difference_below(self, y: float) -> float:
        """Return P(-inf, y) - Q(-inf, y), accurate where the two nearly agree."""
        terms = zip(self.centers, self.differences, strict=True)
        return sum(d * normal_cdf((y - c) / self.deviation) for c, d in terms)

    @property
    def segments(self) -> tuple["Segment", ...]:
        """The whole line as one segment."""
        return (Segment(pair=self, high=math.inf, max_loss=self.max_loss),)

    def log_density_and_loss(self, y: Array) -> tuple[Array, Array]:
        """Return (log P(y), log P(y)/Q(y)), accurate also where P is near Q; ConvergenceError as in `log_densities`."""
        if y.size * len(self.centers) > _MAX_EXPONENTS and y.size > 1:
            halves = [self.log_density_and_loss(half) for half in np.array_split(y.ravel(), 2)]
            log_p, loss = (np.concatenate([half[i] for half in halves]).reshape(y.shape) for i in (0, 1))
            return log_p, loss
        spend(3 * ELEMENT * (y.size + _CALL) * len(self.centers))
        exponents, log_base = self.log_densities(y)
        log_p, _ = _scaled_sum(exponents, self.weights_p)
        # log P/Q is the difference of two logarithms, which cancels where P and Q nearly agree. There P/Q - 1 is summed
        # from the exact differences of weights, relative to Q, and log1p keeps all of its digits.
        log_q, top = _scaled_sum(exponents, self.weights_q)
        gap = sum(d * np.exp(np.minimum(e - top, 700.0)) for d, e in zip(self.differences, exponents, strict=True) if d)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # where it is large it is not used
            relative = gap / np.exp(log_q - top)
            near = np.log1p(relative)
        return log_p + log_base, np.where(np.abs(relative) < 0.5, near, log_p - log_q)

    def log_densities(self, y: Array) -> tuple[list[Array], Array]:
        """Return (log densities of the components less a common log_base, it); ConvergenceError over 1e8 sigma."""
        farthest = max(-self.centers[0], self.centers[-1]) / self.deviation
        if farthest > _TOO_FAR:
            raise ConvergenceError(f"privacy loss: expected centers within {_TOO_FAR:g} deviations, got {farthest:.3g}")
        # Far from 0, y^2 and c^2 would cancel and leave no digit of (y - c)^2. Distances from a close center have all.
        anchor: Array | float = 0.0
        if farthest > _FAR:
            centers = np.array(self.centers)
            anchor = centers[np.searchsorted((centers[1:] + centers[:-1]) / 2, y)]
        variance = self.deviation**2
        from_anchor = y - anchor
        exponents = [((c - anchor) * from_anchor - (c - anchor) ** 2 / 2) / variance for c in self.centers]
        log_factor = math.log(self.deviation * math.sqrt(2 * math.pi))
        return exponents, -from_anchor * from_anchor / (2 * variance) - log_factor


def _scaled_sum(exponents: list[Array], weights: tuple[float, ...]) -> tuple[Array, Array]:
    """Return (log of the weighted sum of e^x, largest x of positive weight) over the components, elementwise."""
    used = [(w, e) for w, e in zip(weights, exponents, strict=True) if w]
    top = used[0][1]
    for _, exponent in used[1:]:
        top = np.maximum(top, exponent)
    total = sum(w * np.exp(e - top) for w, e in used)
    return np.log(total) + top, top


_HALVINGS = 40  # of 80 deviations and more: down to 1e-10 of one, by which no mass that may be left out changes


@cached_with_cost(256)
def lower_quantile(pair: MixturePair, mass: float) -> float:
    """Return the largest y, rounded down, with a P mass of at most `mass` > 0 below it; cached."""
    # Of the two ends that are left the lower one is safe: no more than `mass` lies below it.
    low = pair.centers[0] - 40 * pair.deviation
    high = pair.centers[-1] + 40 * pair.deviation
    spend(_HALVINGS * TURN * len(pair.centers))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if pair.mass_below(middle) <= mass else (low, middle)
    return low


@dataclass(frozen=True, kw_only=True)
class Segment:
    """The part low < y < high of the line, with the loss of one pair."""

    pair: MixturePair  # the pair whose density P and loss are read
    high: float  # right end, inf for no end
    max_loss: float  # upper bound on the loss on the segment
    weight: float = 1.0  # > 0, factor on the densities of P and Q: the probability of this pair in a public mixture
    low: float = -math.inf  # left end, -inf for no end

    def log_density_and_loss(self, y: Array) -> tuple[Array, Array]:
        """Return (log of weight * P density, privacy loss) at points y of any shape."""
        log_p, loss = self.pair.log_density_and_loss(y)
        return (log_p, loss) if self.weight == 1 else (log_p + math.log(self.weight), loss)


# Grids on the line on which a mixture is smooth between neighbouring points


_LOG_PRESENT = math.log(1e-13)  # log share of a density below which a component does not affect its smoothness
_NEAR_DEVIATIONS = 50.0  # deviations from a center within which rough points are half a deviation apart
_MAX_ROUGH = 100_000  # equally spaced rough points; above, they spread with the distance from the centers
_MAX_POINTS = 1 << 20  # 100 MB in all; runs with so little noise that they need more are bounded by moments


def rough_points(pair: MixturePair, low: float, high: float) -> Array:
    """Return rising points from low to high, half a sigma apart.

    If those were over 100,000, beyond 50 sigma from any center 1 % of that distance apart.
    """
    number = max(8, math.ceil(2 * (high - low) / pair.deviation))
    spend(ELEMENT * (number if number <= _MAX_ROUGH else len(pair.centers) * 1000))
    if number <= _MAX_ROUGH:
        return np.linspace(low, high, number + 1)
    doublings = math.log((high - low) / pair.deviation) - math.log(_NEAR_DEVIATIONS)
    near = np.arange(0.0, _NEAR_DEVIATIONS, 0.5)
    far = _NEAR_DEVIATIONS * np.exp(np.arange(0.0, max(doublings, 0.0) + 0.01, 0.01))
    offsets = np.concatenate([near, far]) * pair.deviation
    around = [c + sign * offsets for c in pair.centers for sign in (1, -1)]
    points: Array = np.sort(np.concatenate([*around, [low, high]]))
    points = points[(points >= low) & (points <= high)]
    rough: Array = points[np.append(True, np.diff(points) > 1e-9 * pair.deviation)]
    return rough


def length_scales(pair: MixturePair, y: Array, *, order: float | None = None) -> Array:
    """Return, per interval of y, a length <= sigma on which P (P/Q)^z is smooth for z <= `order`; for None, P/Q too.

    Below 1 it may change faster than P and Q do. Where P and Q are one component each, every power times P is the
    density of one normal variable, times a constant.
    """
    # The logarithmic derivatives of a mixture differ by at most span / deviation^2, where the span is that of the
    # components that matter there; between two points those that matter at either.
    spend(3 * ELEMENT * (y.size + 100) * len(pair.centers))
    exponents, _ = pair.log_densities(y)
    (low_p, high_p), (low_q, high_q) = (
        _present_centers(pair.centers, weights, exponents) for weights in (pair.weights_p, pair.weights_q)
    )
    together = np.maximum(high_p, high_q) - np.minimum(low_p, low_q)
    own = np.maximum(high_p - low_p, high_q - low_q)
    if order is not None:
        together = np.where(own > 0, min(order, 1.0) * together, 0.0)
    result: Array = pair.deviation**2 / np.maximum(np.maximum(own, together), pair.deviation)
    return result


def _present_centers(
    centers: tuple[float, ...], weights: tuple[float, ...], exponents: list[Array]
) -> tuple[Array, Array]:
    """Return, for each interval, the lowest and highest center whose component is not negligible at one of its ends."""
    low, high, top = (np.full(exponents[0].shape, value) for value in (np.inf, -np.inf, -np.inf))
    used = [(c, math.log(w), e) for c, w, e in zip(centers, weights, exponents, strict=True) if w]
    for _, log_w, exponent in used:
        np.maximum(top, exponent + log_w, out=top)
    for c, log_w, exponent in used:
        matters = exponent + log_w > top + _LOG_PRESENT
        low[matters] = np.minimum(low[matters], c)
        high[matters] = np.maximum(high[matters], c)
    return np.minimum(low[1:], low[:-1]), np.maximum(high[1:], high[:-1])


def subdivided(y: Array, parts: Array) -> Array:
    """Cut interval i of y into parts[i] equal parts; ConvergenceError above 2^20 parts in all, or for NaN."""
    below = np.concatenate([[0.0], np.cumsum(parts)])
    if not below[-1] <= _MAX_POINTS:  # also for NaN, of scales that are no floats
        raise ConvergenceError(f"privacy loss: expected at most {_MAX_POINTS} points, needs {below[-1]:.3g}; use rdp")
    return np.interp(np.arange(below[-1] + 1), below, y)
