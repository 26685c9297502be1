"""A sharper average over the mates: the batches that miss an ancestor are shared among the draws of the mates.

The average of (K) over the draws beside the unit subtracts, for each of them, all batches in which the outermost
ancestor is missed. These have the same law whatever is drawn under that ancestor, so that they may be shared out among
the draws in any way: a draw far away from them, which they do not hide, leaves its share to the nearer ones. The best
shares put the end of every draw's half-line at the same place, and if all draws need some, what is left is the pair in
which the mates are hidden.

Source: docs/theory.md, Theorem 6.15.
"""

from collections.abc import Sequence

import numpy as np

from dpcalc.amplification.bound import StepBound
from dpcalc.amplification.counts import Average
from dpcalc.arrays import Array
from dpcalc.losses.loss import Loss, with_chords
from dpcalc.numerics.special import normal_cdf
from dpcalc.work import ELEMENT, TURN, cached_with_cost, spend

_MIN_GAIN = 0.01  # of the profile somewhere, below which it stays as it is
_EPSILONS, _COARSE = 100, 120  # at which the profile is bounded, and at which it is looked at first
_RANGE = 1e-7, 1e7  # of the coarse ones, in units of the largest shift over the noise
_NEXT_TO_ALL, _LEAST = 0.99, 1e-7  # shares of the profile at 0 between which it is bounded: below, round-off decides
_ROUNDED = 1e-14  # absolute error of the sums of one part, for each unit of weight
_HALVINGS = 60  # of the intervals that hold the ends of half-lines
_FAR = 40.0  # deviations within which all mass is that a float holds
_LARGEST = 300.0  # exponent, so that products of two are floats, and epsilon


@cached_with_cost(64)
def hidden_mates_profile(average: Average, plain: Loss, *, noise_multiplier: float) -> Loss:
    """Return `plain`, the profile of the average under that noise, lowered in both directions where that gains.

    Source: docs/theory.md, Theorem 6.15.
    """
    kinds: dict[object, list[tuple[float, StepBound]]] = {}
    for chance, part in average.parts:
        if not isinstance(part, StepBound) or part.shift == 0:
            return plain
        kinds.setdefault((part.inclusion, part.missed, part.outer), []).append((float(chance), part))
    if all(len(parts) == 1 or not parts[0][1].outer for parts in kinds.values()):
        return plain
    found = plain
    for is_swapped in (False, True):
        sides = [_Kind(parts, noise_multiplier, is_swapped=is_swapped) for parts in kinds.values()]

        def deltas(epsilons: Array, sides: Sequence[_Kind] = sides) -> Array:
            return np.asarray(sum(side.deltas(epsilons) for side in sides))

        at_0 = found.delta(0.0)
        largest = max(part.shift for _, part in average.parts if isinstance(part, StepBound)) / noise_multiplier
        coarse = np.minimum(np.geomspace(*_RANGE, _COARSE) * largest * min(1.0, at_0), _LARGEST)
        known = deltas(coarse)
        below = [int(np.argmax(known < share * at_0)) for share in (_NEXT_TO_ALL, _LEAST)]  # 0 if nowhere
        if not below[1]:
            return plain
        ends = coarse[max(below[0] - 1, 0)], coarse[below[1]]
        epsilons = np.union1d(np.geomspace(*ends, _EPSILONS // 2), np.linspace(*ends, _EPSILONS))
        lowered = deltas(epsilons)
        some = range(0, epsilons.size, 12)
        if not is_swapped and all(lowered[k] > (1 - _MIN_GAIN) * found.delta(float(epsilons[k])) for k in some):
            return plain
        values = {0.0: at_0} | dict(zip(epsilons.tolist(), np.minimum(lowered, at_0).tolist(), strict=True))
        end = float(1.05 * epsilons[-1])
        found = with_chords(found, values | {end: found.delta(end)}).swapped
    return found


class _Kind:
    """Parts of one average whose batches that miss the outermost ancestor have one law."""

    def __init__(self, parts: Sequence[tuple[float, StepBound]], deviation: float, *, is_swapped: bool) -> None:
        """Lay the parts out on a line, in deviations of the noise, with the nearest such batch at 0."""
        one, number = parts[0][1], len(parts[0][1].outer)
        distances = [bound.distances_swapped if is_swapped else bound.distances for _, bound in parts]
        self.chances = np.array([chance for chance, _ in parts])
        self.inclusion = float(one.inclusion)
        self.shifts = np.array([bound.shift for _, bound in parts]) / deviation
        self.inner = np.array([each[number:] for each in distances], dtype=float).reshape(len(parts), -1) / deviation
        self.inner_weights = np.array([float(v) for v in one.missed[number:]])
        stand_ins = np.array(one.outer, dtype=float)
        self.stand_ins = stand_ins / deviation
        self.outer_weights = np.array([float(v) for v in one.missed[:number]]) * self.chances.sum()
        places = [each[0] - one.outer[0] if number else 0 for each in distances]
        self.places = np.array(places, dtype=float) / deviation

    def deltas(self, epsilons: Array) -> Array:
        """Return upper bounds on what these parts add to the profile at epsilons > 0."""
        alpha, excess = np.exp(epsilons)[:, None], np.expm1(epsilons)[:, None]
        moved = np.concatenate([self.shifts[:, None], self.inner], axis=1)  # of what is subtracted, towards 0
        weights = np.concatenate(
            [
                alpha * self.inclusion,
                excess * np.broadcast_to(self.inner_weights, (epsilons.size, self.inner.shape[1])),
            ],
            axis=1,
        )
        spend(ELEMENT * epsilons.size * (moved.size + 2 * self.stand_ins.size) * 2 * _HALVINGS)

        def heights(y: Array) -> Array:  # of each part over the density of its own batch, at y from that; they rise
            ratios = np.exp(np.clip(-y[..., None] * moved - moved**2 / 2, -_LARGEST, _LARGEST))
            return np.asarray(self.inclusion - np.einsum("ek,epk->ep", weights, ratios))

        # Where each part begins to be positive, relative to its place: at `high` if it is so nowhere.
        low, high = (np.full((epsilons.size, self.places.size), end) for end in (-_FAR, _FAR))
        low -= moved.max(initial=0.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_above = heights(middle) > 0
            low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
        own = high + self.places

        # Where all of them together exceed the batches that miss the ancestor: their shares of these are what is left.
        first = np.full(epsilons.size, -_FAR - self.stand_ins.max(initial=0.0))
        last = np.full(epsilons.size, _FAR + self.places.max())
        for _ in range(_HALVINGS if self.stand_ins.size else 0):
            middle = (first + last) / 2
            inside = heights(middle[:, None] - self.places)
            logs = np.clip(middle[:, None] * self.places - self.places**2 / 2, -_LARGEST, _LARGEST)
            gained = (self.chances * np.where(middle[:, None] > own, inside, 0.0) * np.exp(logs)).sum(axis=1)
            away = np.exp(np.clip(-middle[:, None] * self.stand_ins - self.stand_ins**2 / 2, -_LARGEST, _LARGEST))
            is_above = gained > excess[:, 0] * (self.outer_weights * away).sum(axis=1)
            first, last = np.where(is_above, first, middle), np.where(is_above, middle, last)
        begin = np.maximum(own, last[:, None] if self.stand_ins.size else -np.inf)
        at = begin - self.places
        kept = self.inclusion * _above(at) - np.einsum("ek,epk->ep", weights, _above(at[..., None] + moved))
        total = (self.chances * np.where(high < _FAR, kept, 0.0)).sum(axis=1)
        if self.stand_ins.size:
            missed = _above(last[:, None] + self.stand_ins)
            total -= excess[:, 0] * (self.outer_weights * missed).sum(axis=1)
        rounded: Array = np.maximum(total, 0.0) + _ROUNDED * (1 + 2 * alpha[:, 0]) * self.chances.sum()
        return rounded


def _above(x: Array) -> Array:
    """Return the probability that a normal variable is above x, elementwise."""
    spend(TURN * x.size)
    return np.array([normal_cdf(-value) for value in x.ravel().tolist()]).reshape(x.shape)
