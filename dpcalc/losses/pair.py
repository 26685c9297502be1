"""Dominating pairs (P, Q) of Gaussian mixtures on the line, segments and half-lines on which their loss is read."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpcalc.errors import ConvergenceError, InputError
from dpcalc.numerics import Array, IntArray, bracket_root, normal_cdf, normal_log_cdf
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, TURN, cached_with_cost, spend

_CALL = 100  # array elements that take as long as one call of numpy, for estimates of work
_FAR = 1e3  # deviations of a center from 0 above which squares of points would cost digits: 1e-10 of a density here
_TOO_FAR = 1e8  # deviations beyond which a float is too coarse: it errs by 1e-8 deviations, a density by 1e-7
_MAX_EXPONENTS = 1 << 22  # of components at points held at once: 32 MB an array, of which there are a few


@dataclass(frozen=True, kw_only=True)
class MixturePair:
    """P = sum_i p_i N(c_i, sigma^2) against Q = sum_i q_i N(c_i, sigma^2)."""

    # The privacy loss at y is log P(y)/Q(y); it is computed from the exact weight differences p_i - q_i, so that it
    # keeps its digits where P and Q nearly agree.

    centers: tuple[float, ...]  # c_i, increasing, in clip norms
    weights_p: tuple[float, ...]  # p_i, summing to 1
    weights_q: tuple[float, ...]  # q_i, summing to 1
    differences: tuple[float, ...]  # p_i - q_i, rounded once from the exact values
    deviation: float  # sigma > 0, the noise multiplier
    # as the loss of a step, in the words of `dpcalc.losses.loss.Loss`: all of it is on `segments`
    losses: ClassVar[tuple[float, ...]] = ()
    log_masses: ClassVar[tuple[float, ...]] = ()
    zero_loss_mass: ClassVar[float] = 0.0
    infinity_mass: ClassVar[float] = 0.0

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
        swapped = tuple(-d for d in self.differences)
        return replace(self, weights_p=self.weights_q, weights_q=self.weights_p, differences=swapped)

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
        return (Segment(pair=self, max_loss=self.max_loss, min_loss=-self.swapped.max_loss),)

    @property
    def farthest(self) -> float:
        """Distance of the farthest center from 0, in deviations."""
        return max(-self.centers[0], self.centers[-1]) / self.deviation

    @property
    def form(self) -> tuple[object, ...]:
        """What pairs have in common that are evaluated together: which weights are 0, and centers that are not far."""
        weights = (*self.weights_p, *self.weights_q, *self.differences)
        return len(self.centers), self.farthest <= _FAR or self, *(weight == 0 for weight in weights)

    def log_density_and_loss(self, y: Array) -> tuple[Array, Array]:
        """Return (log P(y), log P(y)/Q(y)), accurate also where P is near Q; ConvergenceError as in `log_densities`."""
        if y.size * len(self.centers) > _MAX_EXPONENTS and y.size > 1:
            halves = [self.log_density_and_loss(half) for half in np.array_split(y.ravel(), 2)]
            log_p, loss = (np.concatenate([half[i] for half in halves]).reshape(y.shape) for i in (0, 1))
            return log_p, loss
        spend(3 * ELEMENT * (y.size + _CALL) * len(self.centers))
        return _log_density_and_loss(self, y)

    def log_densities(self, y: Array) -> tuple[list[Array], Array]:
        """Return (log densities of the components less a common log_base, it); ConvergenceError over 1e8 sigma."""
        if self.farthest > _TOO_FAR:
            raise ConvergenceError(
                f"privacy loss: expected centers within {_TOO_FAR:g} deviations, got {self.farthest:.3g}"
            )
        # Far from 0, y^2 and c^2 would cancel and leave no digit of (y - c)^2. Distances from a close center have all.
        anchor: Array | float = 0.0
        if self.farthest > _FAR:
            centers = np.array(self.centers)
            anchor = centers[np.searchsorted((centers[1:] + centers[:-1]) / 2, y)]
        return _log_densities(self, y, anchor)


class PairsAtPoints:
    """Pairs of one `form`, each at points of its own, one after the other; weights that are 0 in all stay numbers."""

    def __init__(self, pairs: Sequence[MixturePair], owner: IntArray) -> None:
        """Take the pairs, and the place of its pair for each point."""
        self.owner = owner

        def at_points(values: Iterable[tuple[float, ...]]) -> tuple[Array | float, ...]:
            columns = (np.array(column) for column in zip(*values, strict=True))
            return tuple(column[owner] if column.any() else 0.0 for column in columns)

        self.centers = at_points(pair.centers for pair in pairs)
        self.weights_p = at_points(pair.weights_p for pair in pairs)
        self.weights_q = at_points(pair.weights_q for pair in pairs)
        self.differences = at_points(pair.differences for pair in pairs)
        self.deviation = np.array([pair.deviation for pair in pairs])[owner]

    def log_densities(self, y: Array) -> tuple[list[Array], Array]:
        """Return `MixturePair.log_densities` of each point's pair."""
        return _log_densities(self, y, 0.0)

    def log_density_and_loss(self, y: Array) -> tuple[Array, Array]:
        """Return `MixturePair.log_density_and_loss` of each point's pair."""
        spend(3 * ELEMENT * (y.size + _CALL * (1 + self.owner.max(initial=0))) * len(self.centers))
        return _log_density_and_loss(self, y)


def _log_density_and_loss(pair: MixturePair | PairsAtPoints, y: Array) -> tuple[Array, Array]:
    exponents, log_base = pair.log_densities(y)
    log_p, _ = _scaled_sum(exponents, pair.weights_p)
    # log P/Q is the difference of two logarithms, which cancels where P and Q nearly agree. There P/Q - 1 is summed
    # from the exact differences of weights, relative to Q, and log1p keeps all of its digits.
    log_q, top = _scaled_sum(exponents, pair.weights_q)
    terms = zip(pair.differences, exponents, strict=True)
    gap = sum(d * np.exp(np.minimum(e - top, 700.0)) for d, e in terms if not is_zero(d))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # where it is large it is not used
        relative = gap / np.exp(log_q - top)
        near = np.log1p(relative)
    return log_p + log_base, np.where(np.abs(relative) < 0.5, near, log_p - log_q)


def _log_densities(pair: MixturePair | PairsAtPoints, y: Array, anchor: Array | float) -> tuple[list[Array], Array]:
    from_anchor, variance = y - anchor, pair.deviation**2
    exponents = [((c - anchor) * from_anchor - (c - anchor) ** 2 / 2) / variance for c in pair.centers]
    log_factor = np.log(pair.deviation * math.sqrt(2 * math.pi))
    return exponents, -from_anchor * from_anchor / (2 * variance) - log_factor


def is_zero(weight: Array | float) -> bool:
    """Return True if a weight is 0, of `PairsAtPoints` in all pairs."""
    return not isinstance(weight, np.ndarray) and weight == 0


def _scaled_sum(exponents: list[Array], weights: Sequence[Array | float]) -> tuple[Array, Array]:
    """Return (log of the weighted sum of e^x, largest x of positive weight) over the components, elementwise."""
    used = [(w, e) for w, e in zip(weights, exponents, strict=True) if not is_zero(w)]
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
    width = pair.deviation * math.sqrt(2)
    terms = [(c, p / 2) for c, p in zip(pair.centers, pair.weights_p, strict=True) if p]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = sum([p * math.erfc((c - middle) / width) for c, p in terms])
        low, high = (middle, high) if below <= mass else (low, middle)
    return low


@dataclass(frozen=True, kw_only=True)
class Segment:
    """The part low < y < high of the line, with the loss of one pair."""

    pair: MixturePair  # the pair whose density P and loss are read
    max_loss: float  # upper bound on the loss on the segment
    min_loss: float  # lower bound on it
    weight: float = 1.0  # > 0, factor on the densities of P and Q: the probability of this pair under a public draw
    low: float = -math.inf  # left end, -inf for no end
    high: float = math.inf  # right end, inf for no end

    @property
    def swapped(self) -> "Segment":
        """The same part with P and Q exchanged; the whole line also mirrored, so that a loss that fell falls again."""
        pair = self.pair.swapped.mirrored if self.high == math.inf else self.pair.swapped
        return replace(self, pair=pair, max_loss=-self.min_loss, min_loss=-self.max_loss)

    def log_density_and_loss(self, y: Array) -> tuple[Array, Array]:
        """Return (log of weight * P density, privacy loss) at points y of any shape."""
        log_p, loss = self.pair.log_density_and_loss(y)
        return (log_p, loss) if self.weight == 1 else (log_p + math.log(self.weight), loss)


# Half-lines below which a loss exceeds epsilon: where the loss falls, they have all of delta.


def half_line_terms(pair: MixturePair, high: float, epsilon: float) -> list[float]:
    """Return terms that sum to P(y < t) - e^epsilon Q(y < t), with loss epsilon at t <= high; [] from max_loss on."""
    # Where the loss falls that is delta.
    # Source: docs/theory.md, Theorem 4.5.
    if epsilon >= pair.max_loss:
        return []
    spend(60 * TURN * (1 + len(pair.centers)))
    return interval_terms(
        pair, -math.inf, half_line_end(pair, min(high, pair.centers[-1] + pair.deviation), epsilon), epsilon
    )


def interval_terms(pair: MixturePair, begin: float, end: float, epsilon: float) -> list[float]:
    """Return terms that sum to P - e^epsilon Q of begin < y < end; what P and Q share costs no digits."""
    # Written with the differences of weights; for (K) below t that is eta [Phi(t) - e^eps Phi(t - s)] - (e^eps - 1)
    # sum_j v_j Phi(t - d_j).
    terms = []
    for center, difference, q in zip(pair.centers, pair.differences, pair.weights_q, strict=True):
        low, high = (begin - center) / pair.deviation, (end - center) / pair.deviation
        if low > 0:
            low, high = -high, -low
        for sign, x in ((1, high), (-1, low)):
            if x > -math.inf:  # else a tail without mass
                log_mass = normal_log_cdf(x)
                terms += [
                    sign * difference * math.exp(log_mass),
                    sign * q * math.expm1(-epsilon) * math.exp(min(epsilon + log_mass, 700.0)),
                ]
    return terms


def half_line_end(pair: MixturePair, high: float, epsilon: float) -> float:
    """Return the y below which the loss exceeds epsilon, at most `high` and rounded down; -inf if none in 1e9 sigma."""
    if _loss(pair, high) >= epsilon:  # only for epsilon 0, where the loss at `high` is 0 up to round-off
        return high
    # To the left by steps that double until the loss is large enough: 30 of them cover 1e9 deviations.
    step = pair.deviation
    low = high - step
    while _loss(pair, low) < epsilon:
        step *= 2
        low -= step
        if step > 1e9 * pair.deviation:
            return -math.inf
    return bracket_root(lambda y: _loss(pair, y) - epsilon, low, high, tolerance=1e-14)[0]


def _loss(pair: MixturePair, y: float) -> float:
    """Return log P(y)/Q(y) at one point, without cancellation where P and Q nearly agree."""
    # Exponents are relative to the largest of Q; P/Q - 1 from exact differences of weights where it is small.
    exponents = [(c * y - c * c / 2) / pair.deviation**2 for c in pair.centers]
    top = max(e for e, q in zip(exponents, pair.weights_q, strict=True) if q)
    q_sum = sum(q * math.exp(min(e - top, 700.0)) for e, q in zip(exponents, pair.weights_q, strict=True))
    gap = sum(d * math.exp(min(e - top, 700.0)) for e, d in zip(exponents, pair.differences, strict=True))
    if abs(gap) < 0.5 * q_sum:
        return math.log1p(gap / q_sum)
    above = max(e for e, p in zip(exponents, pair.weights_p, strict=True) if p)
    p_sum = sum(p * math.exp(min(e - above, 700.0)) for e, p in zip(exponents, pair.weights_p, strict=True))
    return math.log(p_sum) + above - math.log(q_sum) - top


# Grids on the line on which a mixture is smooth between neighbouring points


_LOG_PRESENT = math.log(1e-13)  # log share of a density below which a component does not affect its smoothness
_NEAR_DEVIATIONS = 50.0  # deviations from a center within which rough points are half a deviation apart
_MAX_ROUGH = 100_000  # equally spaced rough points; above, they spread with the distance from the centers
_MAX_POINTS = 1 << 20  # 100 MB in all; runs with so little noise that they need more are bounded by moments


def rough_points(pair: MixturePair, low: float, high: float) -> Array:
    """Return rising points from low to high, half a sigma apart."""
    # If those were over 100,000, beyond 50 sigma from any center 1 % of that distance apart.
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
    return points[np.append(True, np.diff(points) > 1e-9 * pair.deviation)]


def length_scales(pair: MixturePair | PairsAtPoints, y: Array, *, order: float | None = None) -> Array:
    """Return, per interval of y, a length <= sigma on which P (P/Q)^z is smooth for z <= `order`; for None, P/Q too."""
    # Below 1 it may change faster than P and Q do. Where P and Q are one component each, every power times P is the
    # density of one normal variable, times a constant.
    # The logarithmic derivatives of a mixture differ by at most span / deviation^2, where the span is that of the
    # components that matter there; between two points those that matter at either.
    runs = 1 + pair.owner.max(initial=0) if isinstance(pair, PairsAtPoints) else 1
    spend(3 * ELEMENT * (y.size + 100 * runs) * len(pair.centers))
    exponents, _ = pair.log_densities(y)
    # The lowest and highest center, of P and of Q, whose component is not negligible at an end of each interval.
    lows, highs = [], []
    for weights in (pair.weights_p, pair.weights_q):
        low, high, top = (np.full(y.shape, value) for value in (np.inf, -np.inf, -np.inf))
        used = [(c, e + np.log(w)) for c, w, e in zip(pair.centers, weights, exponents, strict=True) if not is_zero(w)]
        for _, log_density in used:
            np.maximum(top, log_density, out=top)
        for center, log_density in used:
            matters = log_density > top + _LOG_PRESENT
            np.minimum(low, center, out=low, where=matters)
            np.maximum(high, center, out=high, where=matters)
        lows.append(np.minimum(low[1:], low[:-1]))
        highs.append(np.maximum(high[1:], high[:-1]))
    together = np.maximum(*highs) - np.minimum(*lows)
    own = np.maximum(*(high - low for low, high in zip(lows, highs, strict=True)))
    if order is not None:
        together = np.where(own > 0, min(order, 1.0) * together, 0.0)
    deviation = pair.deviation if isinstance(pair, MixturePair) else pair.deviation[1:]
    return deviation**2 / np.maximum(np.maximum(own, together), deviation)


def subdivided(y: Array, parts: Array) -> Array:
    """Cut interval i of y into parts[i] equal parts; ConvergenceError above 2^20 parts in all, or for NaN."""
    below = np.concatenate([[0.0], np.cumsum(parts)])
    if not below[-1] <= _MAX_POINTS:  # also for NaN, of scales that are no floats
        raise ConvergenceError(f"privacy loss: expected at most {_MAX_POINTS} points, needs {below[-1]:.3g}; use rdp")
    return np.interp(np.arange(below[-1] + 1), below, y)


# Sets of the line where the loss of two mixtures exceeds epsilon: any such set gives a lower bound on delta.

PER_DEVIATION = 4
"""Points in a standard deviation: fewer would miss short intervals, more only take longer."""
_SEARCHED = 40  # deviations from each center that are searched; a normal variable has no mass there that a float holds
_MAX_WORK = 20_000_000  # points times centers: 2 s
_BISECTIONS = 60  # of an interval's end: down to the spacing of floats. An end that is off only loosens the bound
_LARGEST = 1e100  # distance in deviations whose square still is a float


def points_around(pair: MixturePair) -> Array | None:
    """Return rising points, a quarter deviation apart, within 40 deviations of any center; None for too many."""
    # Points are multiples of a fixed width, so that centers which lie close together share them.
    width, centers = pair.deviation / PER_DEVIATION, np.array(pair.centers)
    if not max(pair.span, 1.0) / pair.deviation < _LARGEST:
        return None
    reach = np.arange(-_SEARCHED * PER_DEVIATION, _SEARCHED * PER_DEVIATION + 1.0)
    if min(centers.size * reach.size, pair.span / width + reach.size) * centers.size > _MAX_WORK:
        return None
    return np.unique(np.unique(np.concatenate([reach + place for place in np.rint(centers / width)])) * width)


def set_terms(pair: MixturePair, epsilon: float) -> list[float]:
    """Return terms that sum to P(E) - e^epsilon Q(E), a lower bound on delta, E the losses > epsilon; [] for no set."""
    points = points_around(pair)
    if points is None:
        return []
    is_above = pair.log_density_and_loss(points)[1] > epsilon
    # Where the loss passes epsilon, by bisection of all crossings at once. One that bisection misses only changes the
    # set: any set gives a lower bound.
    (changes,) = np.nonzero(is_above[1:] != is_above[:-1])
    low, high, before = points[changes], points[changes + 1], is_above[changes]
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        is_as_before = (pair.log_density_and_loss(middle)[1] > epsilon) == before
        low, high = np.where(is_as_before, middle, low), np.where(is_as_before, high, middle)
    ends = [*([-math.inf] if is_above[0] else []), *low.tolist(), *([math.inf] if is_above[-1] else [])]
    pieces = zip(ends[::2], ends[1::2], strict=True)
    return [term for begin, end in pieces for term in interval_terms(pair, begin, end, epsilon)]
