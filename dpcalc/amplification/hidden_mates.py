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
_EPSILONS = 140  # at which the profile is bounded, half as many again more closely near 0
_NEXT_TO_ALL, _LEAST = 0.99, 1e-7  # shares of the profile at 0 between which it is bounded: below, round-off decides
_ROUNDED = 1e-11  # relative error of what is added up, that of half-lines that begin 1e-7 beside included
_HALVINGS = 30  # of the intervals that hold the ends of half-lines
_FAR = 40.0  # deviations within which all mass is that a float holds
_LARGEST = 300.0  # exponent, so that products of two are floats, and epsilon


@cached_with_cost(64)
def hidden_mates_profile(average: Average, plain: Loss, *, noise_multiplier: float) -> Loss:
    """Return `plain`, the profile of the average under that noise, lowered in both directions where that gains.

    Source: docs/theory.md, Theorem 6.15.
    """
    bounds = [part for _, part in average.parts if isinstance(part, StepBound) and part.shift]
    laws = [(bound.inclusion, bound.missed, bound.outer) for bound in bounds if bound.outer]
    if len(bounds) < len(average.parts) or len(set(laws)) == len(laws):
        return plain
    both: list[dict[float, float]] = []
    for is_swapped, known in ((False, plain), (True, plain.swapped)):
        at_0 = known.delta(0.0)
        first, last = (min(known.epsilon(share * at_0), _LARGEST) for share in (_NEXT_TO_ALL, _LEAST))
        epsilons = np.union1d(np.geomspace(first / 10, last, _EPSILONS // 2), np.linspace(first, last, _EPSILONS))
        lowered = shared_deltas(average, epsilons, noise_multiplier=noise_multiplier, is_swapped=is_swapped)
        some = range(0, epsilons.size, 12)
        if not is_swapped and all(lowered[k] > (1 - _MIN_GAIN) * known.delta(float(epsilons[k])) for k in some):
            return plain
        nodes = dict(zip(epsilons.tolist(), np.minimum(lowered, at_0).tolist(), strict=True))
        both.append(nodes | {1.05 * last: known.delta(1.05 * last)})
    # A profile is convex across 0 as well. Halves that are not have more than all mass, which composes to far too much.
    (x, ahead), (y, back) = (np.array([*nodes.items()]).T for nodes in both)
    x, y = np.expm1(x), -np.expm1(-y)[:, None]  # from e^0 to e^epsilon, and to e^-epsilon
    chords = ((y + (1 - y) * back[:, None]) * x + ahead * y) / (x + y)
    at_0 = min(plain.delta(0.0), float(chords.min()) * (1 + _ROUNDED))
    found = plain
    for nodes in both:
        found = with_chords(found, {0.0: at_0} | nodes).swapped
    return found


def shared_deltas(average: Average, epsilons: Array, *, noise_multiplier: float, is_swapped: bool) -> Array:
    """Return upper bounds on the profile of an average of StepBounds at epsilons > 0, in one direction; same shape.

    Source: docs/theory.md, Theorem 6.15.
    """
    kinds: dict[object, list[tuple[float, StepBound]]] = {}
    for chance, part in average.parts:
        if isinstance(part, StepBound):
            kinds.setdefault((part.inclusion, part.missed, part.outer), []).append((float(chance), part))
    return np.asarray(
        sum(_deltas_of_one_law(parts, epsilons, noise_multiplier, is_swapped=is_swapped) for parts in kinds.values())
    )


def _deltas_of_one_law(
    parts: Sequence[tuple[float, StepBound]], epsilons: Array, noise_multiplier: float, *, is_swapped: bool
) -> Array:
    """Return `shared_deltas` of parts whose batches that miss the outermost ancestor have one law."""
    alpha, excess = np.exp(epsilons)[:, None], np.expm1(epsilons)[:, None]
    # On a line, in deviations of the noise, with the nearest such batch at 0.
    one, number = parts[0][1], len(parts[0][1].outer)
    distances = [bound.distances_swapped if is_swapped else bound.distances for _, bound in parts]
    chances, inclusion = np.array([chance for chance, _ in parts]), float(one.inclusion)
    shifts = np.array([bound.shift for _, bound in parts])
    inner = np.array([each[number:] for each in distances], dtype=float).reshape(len(parts), -1)
    stand_ins = np.array(one.outer, dtype=float) / noise_multiplier
    outer_weights = np.array([float(v) for v in one.missed[:number]]) * chances.sum()
    places = np.array([each[0] - one.outer[0] if number else 0 for each in distances]) / noise_multiplier
    moved = np.concatenate([shifts[:, None], inner], axis=1) / noise_multiplier  # of what is subtracted, towards 0
    inner_weights = excess * np.array([float(v) for v in one.missed[number:]])
    weights = np.concatenate([alpha * inclusion, inner_weights], axis=1)
    spend(ELEMENT * epsilons.size * (moved.size + 2 * stand_ins.size) * 2 * _HALVINGS)

    def heights(y: Array) -> Array:  # of each part over the density of its own batch, at y from that; they rise
        ratios = np.exp(np.clip(-y[..., None] * moved - moved**2 / 2, -_LARGEST, _LARGEST))
        return np.asarray(inclusion - np.einsum("ek,epk->ep", weights, ratios))

    # Where each part begins to be positive, relative to its place: at `high` if it is so nowhere.
    low, high = (np.full((epsilons.size, places.size), end) for end in (-_FAR - moved.max(), _FAR))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_above = heights(middle) > 0
        low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
    begin = high + places
    parts_above = chances * (high < _FAR)
    if number:
        # Where all of them exceed the batches that miss the ancestor: their shares of these are what is left.
        first = np.full(epsilons.size, -_FAR - stand_ins.max())
        last = np.full(epsilons.size, _FAR + places.max())
        for _ in range(_HALVINGS):
            middle = (first + last) / 2
            inside = np.where(middle[:, None] > begin, heights(middle[:, None] - places), 0.0)
            logs = np.clip(middle[:, None] * places - places**2 / 2, -_LARGEST, _LARGEST)
            away = np.exp(np.clip(-middle[:, None] * stand_ins - stand_ins**2 / 2, -_LARGEST, _LARGEST))
            missed = excess[:, 0] * (outer_weights * away).sum(axis=1)
            is_above = (chances * inside * np.exp(logs)).sum(axis=1) > missed
            first, last = np.where(is_above, first, middle), np.where(is_above, middle, last)
        begin = np.maximum(begin, last[:, None])
    at = begin - places
    gained = (parts_above * inclusion * _above(at)).sum(axis=1)
    lost = (parts_above * np.einsum("ek,epk->ep", weights, _above(at[..., None] + moved))).sum(axis=1)
    if number:
        lost += excess[:, 0] * (outer_weights * _above(last[:, None] + stand_ins)).sum(axis=1)
    return np.asarray(np.maximum(gained - lost, 0.0) + _ROUNDED * (gained + lost))


def _above(x: Array) -> Array:
    """Return the probability that a normal variable is above x, elementwise."""
    spend(TURN * x.size)
    return np.array([normal_cdf(-value) for value in x.ravel().tolist()]).reshape(x.shape)
