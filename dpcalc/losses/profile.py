"""Privacy profiles of one step: two directions glued at epsilon = 0, one monotone pair, and public mixtures.

Source: docs/theory.md, Theorem 2.6, Theorem 4.5, Theorem 6.1 and Theorem 2.7.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Protocol, runtime_checkable

import numpy as np

from dpcalc.arrays import Array
from dpcalc.losses.pair import LossCurve, MixturePair, Segment
from dpcalc.numerics.roots import bracket_root
from dpcalc.numerics.special import normal_log_cdf
from dpcalc.records import dataclass
from dpcalc.work import TURN, spend


@runtime_checkable
class PrivacyProfile(LossCurve, Protocol):
    """The loss of one step in one direction whose privacy profile can be evaluated at every real epsilon."""

    @property
    def swapped(self) -> "PrivacyProfile":
        """The profile of the opposite direction."""
        ...

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on the profile, in [0, 1], at any real epsilon."""
        ...

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon >= 0 with delta(epsilon) <= delta, rounded up; inf if delta < infinity_mass."""
        # From 1 upwards by doubling, since a profile falls; the bracket's upper end is the safe one.
        if delta < self.infinity_mass:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        high = 1.0
        while self.delta(high) > delta:
            high *= 2
        return bracket_root(lambda epsilon: self.delta(epsilon) - delta, 0.0, high, tolerance=1e-12)[1]


@dataclass(frozen=True, kw_only=True)
class GluedProfile(PrivacyProfile):
    """Upper bound on the privacy profile of one step whose two directions are bounded by different pairs.

    At epsilon >= 0 it is the profile of `own`, at epsilon < 0 it follows from that of `other` at -epsilon. As a loss
    distribution: losses > 0 from `own`, losses < 0 from the swapped `other`, the remaining mass at 0. Both pairs have
    the form eta N(0) + M against eta N(shift) + M with M on centers >= 0, so {P > e^eps Q} is a half-line for eps >= 0.

    Source: docs/theory.md, Theorem 2.6.
    """

    own: MixturePair  # the pair of this direction
    other: MixturePair  # the pair of the opposite direction
    shift: float  # s > 0, in clip norms

    @property
    def swapped(self) -> "GluedProfile":
        """The profile of the opposite direction."""
        return GluedProfile(own=self.other, other=self.own, shift=self.shift)

    @property
    def deviation(self) -> float:
        """Sigma, common to both pairs."""
        return self.own.deviation

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The losses > 0 of `own` and the losses < 0 of the swapped `other`, each as the segment y < shift / 2."""
        edge = self.shift / 2
        return (
            Segment(pair=self.own, high=edge, max_loss=self.own.max_loss),
            Segment(pair=self.other.swapped, high=edge, max_loss=0.0),
        )

    @cached_property
    def unassigned(self) -> float:
        """P mass on neither half; below 0 if the halves have more than all mass."""
        edge = self.shift / 2
        return 1 - self.own.mass_below(edge) - self.other.swapped.mass_below(edge)

    @property
    def zero_loss_mass(self) -> float:
        """P mass with loss 0: `unassigned`, never negative."""
        return max(0.0, self.unassigned)

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta, in [0, 1]: from `own` at epsilon >= 0, from `other` at a negative epsilon."""
        if epsilon < 0:
            return _reversed(epsilon, half_line_delta(self.other, self.shift / 2, -epsilon))
        return half_line_delta(self.own, self.shift / 2, epsilon)


def _reversed(epsilon: float, opposite: float) -> float:
    """Return delta(epsilon < 0) = 1 - e^epsilon + e^epsilon delta' of the `opposite` direction's delta'(-epsilon)."""
    return max(0.0, -math.expm1(epsilon) + math.exp(epsilon) * opposite)


def half_line_delta(pair: MixturePair, high: float, epsilon: float) -> float:
    """Return delta, in [0, 1], at epsilon >= 0 of a pair whose loss exceeds epsilon exactly below one point y.

    Source: docs/theory.md, Theorem 4.5.
    """
    # Written with the differences of weights, so that the common part costs no digits; for (K) that is eta [Phi(t) -
    # e^eps Phi(t - s)] - (e^eps - 1) sum_j v_j Phi(t - d_j).
    return min(1.0, max(0.0, sum(half_line_terms(pair, high, epsilon))))


def half_line_terms(pair: MixturePair, high: float, epsilon: float) -> list[float]:
    """Return terms that sum to P(y < t) - e^epsilon Q(y < t), which is delta; [] from max_loss on."""
    if epsilon >= pair.max_loss:
        return []
    spend(60 * TURN * (1 + len(pair.centers)))
    root, terms = half_line_end(pair, high, epsilon), []
    for center, difference, q in zip(pair.centers, pair.differences, pair.weights_q, strict=True):
        log_below = normal_log_cdf((root - center) / pair.deviation) if root > -math.inf else -math.inf
        terms += [
            math.exp(log_below) * difference,
            -q * -math.expm1(-epsilon) * math.exp(min(epsilon + log_below, 700.0)),
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


@dataclass(frozen=True, kw_only=True)
class ChordProfile(GluedProfile):
    """A `GluedProfile` one half of which is lowered to chords, linear in e^epsilon, between values at some epsilons.

    A profile is convex in e^epsilon, so that chords between upper bounds on it are upper bounds. They are the profile
    of finitely many losses; beyond the last epsilon the half is that of its pair.

    Source: docs/theory.md, Lemma 2.5 and Theorem 2.6.
    """

    # (epsilon, delta), epsilons ascending from 0, deltas convex in e^epsilon; the last delta is the pair's
    nodes: tuple[tuple[float, float], ...]
    end: float  # y below which the loss of the pair is above the last epsilon
    is_swapped: bool = False  # True if the half of `other` is lowered, False for that of `own`

    @classmethod
    def of(cls, profile: GluedProfile, deltas: Mapping[float, float]) -> "ChordProfile":
        """Return `profile` with its own half up to the last epsilon replaced by the lower hull of {epsilon: delta}."""
        hull: list[tuple[float, float]] = []
        for x, y in sorted((math.expm1(epsilon), delta) for epsilon, delta in deltas.items()):
            while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0]) >= (y - hull[-2][1]) * (
                hull[-1][0] - hull[-2][0]
            ):
                hull.pop()  # it lies on or above the chord
            hull.append((x, y))
        nodes = tuple((math.log1p(x), y) for x, y in hull)
        end = half_line_end(profile.own, profile.shift / 2, nodes[-1][0])
        return cls(own=profile.own, other=profile.other, shift=profile.shift, nodes=nodes, end=end)

    @property
    def swapped(self) -> "ChordProfile":
        """The profile of the opposite direction."""
        return replace(self, own=self.other, other=self.own, is_swapped=not self.is_swapped)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The segments of the glued profile, of which the lowered half has only y < `end`."""
        plain, last = super().segments, self.nodes[-1][0]
        if self.is_swapped:
            return plain[0], replace(plain[1], high=self.end, max_loss=-last)
        return replace(plain[0], high=self.end), plain[1]

    @cached_property
    def atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(losses, log P masses), rising, at the corners of the chords: their epsilons, negative if is_swapped."""
        # The profile falls with e^epsilon as fast as the Q mass above epsilon: its slope changes by the mass of a loss.
        lowered = self.other if self.is_swapped else self.own
        slopes = [(b - a) / (math.exp(x) * math.expm1(y - x)) for (x, a), (y, b) in pairwise(self.nodes)]
        slopes.append(-lowered.swapped.mass_below(self.end))
        changes = zip(self.nodes[1:], pairwise(slopes), strict=True)
        corners = [(x, after - before) for (x, _), (before, after) in changes if after > before]
        if self.is_swapped:
            return tuple(-x for x, _ in corners[::-1]), tuple(math.log(mass) for _, mass in corners[::-1])
        return tuple(x for x, _ in corners), tuple(math.log(mass) + x for x, mass in corners)

    @cached_property
    def unassigned(self) -> float:
        """P mass on neither half; below 0 if the halves have more than all mass."""
        on_segments = (segment.pair.mass_below(segment.high) for segment in self.segments)
        return math.fsum((1.0, *(-mass for mass in on_segments), *(-math.exp(log) for log in self.atoms[1])))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta, in [0, 1], from the chords where they are, else from the glued profile."""
        is_lowered_half = self.is_swapped == (epsilon < 0)
        if not (is_lowered_half and abs(epsilon) < self.nodes[-1][0]):
            return super().delta(epsilon)
        at = bisect_right(self.nodes, (abs(epsilon), math.inf))
        (x, a), (y, b) = self.nodes[at - 1 : at + 1]
        on_chord = a + (b - a) * math.expm1(abs(epsilon) - x) / math.expm1(y - x)  # linear in e^epsilon
        return _reversed(epsilon, on_chord) if self.is_swapped else on_chord


@dataclass(frozen=True, kw_only=True)
class MonotonePair(PrivacyProfile):
    """Exact privacy profile of a pair (P, Q) of mixtures whose loss falls along the line.

    {P > e^eps Q} is then a half-line y < t for every real eps. That holds for P on centers <= 0 and Q on centers >= 0.

    Source: docs/theory.md, Theorem 6.1.
    """

    pair: MixturePair  # P and Q

    @property
    def swapped(self) -> "MonotonePair":
        """The profile of (Q, P), with the line mirrored so that the loss falls again."""
        return MonotonePair(pair=self.pair.swapped.mirrored)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The whole line as one segment."""
        return self.pair.segments

    def delta(self, epsilon: float) -> float:
        """Return the exact delta, in [0, 1], at any real epsilon; if that is negative, from the swapped pair."""
        if epsilon < 0:
            return _reversed(epsilon, self.swapped.delta(-epsilon))
        return half_line_delta(self.pair, self.pair.centers[-1] + self.pair.deviation, epsilon)


@dataclass(frozen=True, kw_only=True)
class PublicMixture(PrivacyProfile):
    """Mixture of privacy profiles whose component is public: profile i with probability weights[i], otherwise loss 0.

    The draw has the same law in D and D', so the profile is bounded by the average.

    Source: docs/theory.md, Theorem 2.7.
    """

    weights: tuple[float, ...]  # > 0, summing to at most 1
    profiles: tuple[PrivacyProfile, ...]  # one for each weight

    @property
    def swapped(self) -> "PublicMixture":
        """The profile of the opposite direction."""
        return PublicMixture(weights=self.weights, profiles=tuple(profile.swapped for profile in self.profiles))

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The segments of every profile, their weights multiplied by the profile's."""
        return tuple(
            replace(segment, weight=weight * segment.weight)
            for weight, profile in zip(self.weights, self.profiles, strict=True)
            for segment in profile.segments
        )

    @cached_property
    def unassigned(self) -> float:
        """P mass without a loss, perhaps < 0: the probability of no component plus each component's own such mass."""
        # A part may have more than all of its mass, the average less. Only the average bounds a step, so only its mass
        # at 0 must not be negative; keeping it from being negative in each part cost up to a quarter of epsilon.
        inside = (
            weight
            * (profile.unassigned if isinstance(profile, GluedProfile | PublicMixture) else profile.zero_loss_mass)
            for weight, profile in zip(self.weights, self.profiles, strict=True)
        )
        return math.fsum((1.0, *(-weight for weight in self.weights), *inside))

    @property
    def zero_loss_mass(self) -> float:
        """P mass with loss 0."""
        return max(0.0, self.unassigned)

    @cached_property
    def atoms(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(losses, log of weight * P mass) of the atoms of all profiles, not sorted."""
        pairs = list(zip(self.weights, (profile.atoms for profile in self.profiles), strict=True))
        losses = tuple(loss for _, (values, _) in pairs for loss in values)
        return losses, tuple(math.log(weight) + log for weight, (_, logs) in pairs for log in logs)

    @cached_property
    def infinity_mass(self) -> float:
        """P mass where Q has none: the sum of weight_i times that of profile i."""
        return math.fsum(
            weight * profile.infinity_mass for weight, profile in zip(self.weights, self.profiles, strict=True)
        )

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at any real epsilon: the mean over the components and the case of none."""
        nothing_drawn = max(0.0, 1 - math.fsum(self.weights)) * max(0.0, -math.expm1(epsilon))
        parts = (weight * profile.delta(epsilon) for weight, profile in zip(self.weights, self.profiles, strict=True))
        return nothing_drawn + math.fsum(parts)


# Sets of the line where the loss of two mixtures exceeds epsilon: any such set gives a lower bound on delta.

PER_DEVIATION = 4
"""Points in a standard deviation: fewer would miss short intervals, more only take longer."""
_FAR = 40  # deviations from each center that are searched; a normal variable has no mass there that a float holds
_MAX_WORK = 20_000_000  # points times centers: 2 s
_BISECTIONS = 60  # of an interval's end: down to the spacing of floats. An end that is off only loosens the bound
_LARGEST = 1e100  # distance in deviations whose square still is a float


def points_around(pair: MixturePair) -> Array | None:
    """Return rising points, a quarter deviation apart, within 40 deviations of any center; None for too many."""
    # Points are multiples of a fixed width, so that centers which lie close together share them.
    width, centers = pair.deviation / PER_DEVIATION, np.array(pair.centers)
    if not max(pair.span, 1.0) / pair.deviation < _LARGEST:
        return None
    reach = np.arange(-_FAR * PER_DEVIATION, _FAR * PER_DEVIATION + 1.0)
    if min(centers.size * reach.size, pair.span / width + reach.size) * centers.size > _MAX_WORK:
        return None
    return np.unique(np.unique(np.concatenate([reach + place for place in np.rint(centers / width)])) * width)


def set_terms(pair: MixturePair, epsilon: float) -> list[float]:
    """Return terms that sum to P(E) - e^epsilon Q(E), a lower bound on delta, E the losses > epsilon; [] for no set.

    Each term is good to a few units in the last place of its exponents: what P and Q share costs no digits.
    """
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
    terms = []
    for begin, end in zip(ends[::2], ends[1::2], strict=True):
        for center, difference, q in zip(pair.centers, pair.differences, pair.weights_q, strict=True):
            for sign, log_mass in _tails((begin - center) / pair.deviation, (end - center) / pair.deviation):
                terms += [
                    sign * difference * math.exp(log_mass),
                    sign * q * math.expm1(-epsilon) * math.exp(min(epsilon + log_mass, 700.0)),
                ]
    return terms


def _tails(low: float, high: float) -> list[tuple[int, float]]:
    """Return signed log masses of normal tails that add up to the mass of [low, high]; tails without mass left out."""
    if low > 0:
        low, high = -high, -low
    return [(sign, normal_log_cdf(x)) for sign, x in ((1, high), (-1, low)) if x > -math.inf]
