"""A sharper average over the mates: the batches that miss an ancestor are shared among the draws of the mates.

The average of (K) over the draws beside the unit subtracts, for each of them, all batches in which the outermost
ancestor is missed. These have the same law whatever is drawn under that ancestor, so that they may be shared out among
the draws in any way: a draw far away from them, which they do not hide, leaves its share to the nearer ones. Those that
miss the next ancestor have one law given what is drawn beside it, and are shared among what is drawn under it. The best
shares put the end of every draw's half-line at the same place, and if all draws need some, what is left is the pair in
which the mates are hidden.

Source: docs/theory.md, Theorem 6.15.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from dpcalc.amplification.bound import StepBound
from dpcalc.amplification.counts import Average
from dpcalc.amplification.mates import normal_cdf
from dpcalc.losses.loss import Loss, with_chords
from dpcalc.numerics import Array
from dpcalc.work import ELEMENT, TURN, cached_with_cost, spend

_MIN_GAIN = 0.01  # of the profile somewhere, below which it stays as it is
_EPSILONS = 140  # at which the profile is bounded, as many again more closely near 0
_PROBES = 60  # epsilons at which it is looked where these should be
_NEXT_TO_ALL, _LEAST = 0.99, 1e-7  # shares of the profile at 0 between which it is bounded: below, round-off decides
_ROUNDED = 1e-11  # relative error of what is added up
_HALVINGS = 50  # of the intervals that hold the ends of half-lines
_FAR = 40.0  # deviations within which all mass is that a float holds
_LARGEST = 300.0  # exponent, so that products of two are floats, and epsilon


@cached_with_cost(64)
def hidden_mates_profile(average: Average, plain: Loss, *, noise_multiplier: float) -> Loss:
    """Return `plain`, the profile of the average under that noise, lowered in both directions where that gains.

    Source: docs/theory.md, Theorem 6.15.
    """
    bounds = [part for _, part in average.parts if isinstance(part, StepBound) and part.shift]
    laws = [(bound.inclusion, bound.missed, bound.shared[:1]) for bound in bounds if bound.shared]
    if len(bounds) < len(average.parts) or len(set(laws)) == len(laws):
        return plain
    both: list[dict[float, float]] = []
    shift = max(each.shift for each in bounds) / noise_multiplier
    inclusion = max(float(each.inclusion) for each in bounds)
    farthest = min(shift * shift / 2 + 8 * shift, _LARGEST)
    probes = np.geomspace(min(inclusion * shift, farthest) / 1000, farthest, _PROBES)
    for is_swapped, known in ((False, plain), (True, plain.swapped)):
        at_0 = known.delta(0.0)
        lowered = shared_deltas(average, probes, noise_multiplier=noise_multiplier, is_swapped=is_swapped)
        first, last = (min(int((lowered > share * at_0).sum()), _PROBES - 1) for share in (_NEXT_TO_ALL, _LEAST))
        some = range(first, last + 1, 3)
        if not is_swapped and all(lowered[k] > (1 - _MIN_GAIN) * known.delta(float(probes[k])) for k in some):
            return plain
        end = last  # from where on the plain profile is as small
        while end < _PROBES - 1 and known.delta(float(probes[end])) > _LEAST * at_0:
            end += 1
        low, high = probes[max(first - 1, 0)], probes[last]
        epsilons = np.union1d(np.geomspace(low / 10, high, _EPSILONS), np.linspace(low, high, _EPSILONS))
        nodes = dict(zip(probes[last:end].tolist(), lowered[last:end].tolist(), strict=True))
        lowered = shared_deltas(average, epsilons, noise_multiplier=noise_multiplier, is_swapped=is_swapped)
        nodes |= dict(zip(epsilons.tolist(), np.minimum(lowered, at_0).tolist(), strict=True))
        join = 1.05 * float(probes[end])
        both.append(nodes | {join: known.delta(join)})
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
    kinds: dict[object, list[tuple[Fraction, StepBound]]] = {}
    for chance, part in average.parts:
        if isinstance(part, StepBound):
            stand_ins = tuple(contents for _, contents in part.shared)
            kinds.setdefault((part.inclusion, part.missed, stand_ins), []).append((chance, part))
    return np.asarray(
        sum(_deltas_of_one_law(parts, epsilons, noise_multiplier, is_swapped=is_swapped) for parts in kinds.values())
    )


_Rows = tuple[tuple[int, ...], ...]
"""For each of some parts how far below it what is subtracted from it alone lies, in clip norms."""


class _Pool(NamedTuple):
    """Draws that an ancestor is drawn with, on a line along which what is drawn beside the unit moves it up."""

    level: int  # of the ancestors that can be missed, outermost 0; -1 for all draws
    # (one pool of the next level, or several parts; how far each copy of it, or part, is above this one; their shares)
    below: tuple[tuple["_Pool | _Rows", tuple[int, ...], tuple[Fraction, ...]], ...]


def _pool(parts: Sequence[tuple[Fraction, StepBound]], level: int, *, is_swapped: bool) -> _Pool:
    """Return the pool of parts that share what is drawn with the ancestor of that level; alike pools are equal."""
    share = sum((chance for chance, _ in parts), start=Fraction(0))
    if level + 1 < len(parts[0][1].shared):
        around: dict[int, list[tuple[Fraction, StepBound]]] = {}
        for chance, part in parts:
            around.setdefault(part.shared[level + 1][0], []).append((chance, part))
        pools: dict[_Pool, list[tuple[int, Fraction]]] = {}
        for up, those in sorted(around.items()):
            weight = sum((chance for chance, _ in those), start=Fraction(0)) / share
            pools.setdefault(_pool(those, level + 1, is_swapped=is_swapped), []).append((up, weight))
        rows = ((pool, tuple(up for up, _ in copies), tuple(p for _, p in copies)) for pool, copies in pools.items())
        return _Pool(level, tuple(rows))
    places: dict[tuple[tuple[int, ...], int], Fraction] = {}
    for chance, part in parts:
        distances = part.distances_swapped if is_swapped else part.distances
        # The farthest that any ancestor's mates say, where those that are drawn are not all there can be.
        up = near = 0
        for beside, contents in part.shared:
            up = max(up - beside, distances[near] - contents[0])
            near += len(contents)
        place = (part.shift, *distances[near:]), up
        places[place] = places.get(place, Fraction(0)) + chance / share
    ordered = sorted(places.items())
    lengths, ups = tuple(below for (below, _), _ in ordered), tuple(up for (_, up), _ in ordered)
    return _Pool(level, ((lengths, ups, tuple(share for _, share in ordered)),))


def _deltas_of_one_law(
    parts: Sequence[tuple[Fraction, StepBound]], epsilons: Array, noise_multiplier: float, *, is_swapped: bool
) -> Array:
    """Return `shared_deltas` of parts whose batches that miss an ancestor have one law given the mates around it."""
    one, number = parts[0][1], 0
    alpha, excess, inclusion = np.exp(epsilons), np.expm1(epsilons), float(one.inclusion)
    # For each ancestor the batches that miss it: how far below the nearest one, in deviations, and what they weigh.
    missed: list[tuple[Array, Array]] = []
    for _, contents in one.shared:
        chances = one.missed[number : number + len(contents)]
        number += len(contents)
        missed.append((np.array(contents) / noise_multiplier, np.array([float(v) for v in chances])))
    near = np.array([float(v) for v in one.missed[number:]])
    weights = np.column_stack([alpha * inclusion, excess[:, None] * near])
    farthest = max(max(part.shift, *part.distances, *part.distances_swapped) for _, part in parts) / noise_multiplier

    # Arrays have a row for each epsilon, and their last axis may be that of the parts.
    def ratios(y: Array, lengths: Array, side: int) -> Array:  # of a density moved up (1) or down to that at 0
        spend(ELEMENT * y.size * lengths.shape[-1])
        return np.exp(np.clip(side * y[..., None] * lengths - lengths**2 / 2, -_LARGEST, _LARGEST))

    def heights(each: _Pool | _Rows, y: Array) -> Array:
        """Return what is left of a pool or parts at y, over the density at its place; it rises where it is positive."""
        if not isinstance(each, _Pool):
            lengths = np.array(each) / noise_multiplier
            return np.asarray(inclusion - np.einsum("ek,e...k->e...", weights, ratios(y, lengths, -1)))
        total = np.zeros(y.shape)
        for inner, ups, shares in each.below:
            up = np.array(ups) / noise_multiplier
            inside = np.maximum(heights(inner, y[..., None] - up), 0.0)
            total += (inside * ratios(y, up, 1)) @ np.array([float(share) for share in shares])
        stand_ins, chances = missed[each.level]
        return np.asarray(total - (ratios(y, stand_ins, -1) @ chances) * excess.reshape(-1, *(1,) * (y.ndim - 1)))

    @cache
    def begin(each: _Pool | _Rows) -> tuple[Array, Array]:  # between which it begins to be positive; far up if nowhere
        shape = (epsilons.size,) if isinstance(each, _Pool) else (epsilons.size, len(each))
        low, high = (np.full(shape, side * (_FAR + farthest)) for side in (-1, 1))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_above = heights(each, middle) > 0
            low, high = np.where(is_above, low, middle), np.where(is_above, middle, high)
        return low, high

    def masses(each: _Pool | _Rows, low: Array, high: Array) -> tuple[Array, Array]:
        """Return at least what is added, at most what is subtracted above a place, and where the pool or parts begin.

        The place is known to lie between `low` and `high`, as is that where these begin.
        """
        if not isinstance(each, _Pool):
            ends = (end.reshape(epsilons.size, *(1,) * (low.ndim - 2), len(each)) for end in begin(each))
            low, high = (np.maximum(place, end) for place, end in zip((low, high), ends, strict=True))
            lost = _above(high[..., None] + np.array(each) / noise_multiplier)
            return inclusion * _above(low), np.einsum("ek,e...k->e...", weights, lost)
        gained, lost = np.zeros(low.shape), np.zeros(low.shape)
        if each.level >= 0:
            axes = (epsilons.size, *(1,) * (low.ndim - 1))
            low, high = (np.maximum(y, end.reshape(axes)) for y, end in zip((low, high), begin(each), strict=True))
            stand_ins, chances = missed[each.level]
            lost = (_above(high[..., None] + stand_ins) @ chances) * excess.reshape(axes)
        for inner, ups, shares in each.below:
            up = np.array(ups) / noise_multiplier
            more, less = masses(inner, low[..., None] - up, high[..., None] - up)
            weight = np.array([float(share) for share in shares])
            gained, lost = gained + more @ weight, lost + less @ weight
        return gained, lost

    everywhere = np.full(epsilons.size, -np.inf)
    gained, lost = masses(_pool(parts, -1, is_swapped=is_swapped), everywhere, everywhere)
    chance = float(sum(chance for chance, _ in parts))
    return np.asarray(chance * (np.maximum(gained - lost, 0.0) + _ROUNDED * (gained + lost)))


def _above(x: Array) -> Array:
    """Return the probability that a normal variable is above x, elementwise."""
    spend(TURN * x.size / 4)
    return normal_cdf(-x)
