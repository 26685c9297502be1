"""The one-step bound (K), averaged over the draws of the unit's mates: all that is drawn with it under its ancestors.

A missed ancestor takes away what was drawn under it, and a stand-in brings what is drawn under that. Where such
numbers are random, (K) at their largest is far above the cost of any data set. Given the draw of the mates the proof of
(K) holds with the distances of that draw, so that the average over the draws is a bound too; the contents of a stand-in
are independent of that draw and stay a mixture inside (K).

Source: docs/theory.md, Theorem 6.9 and Theorem 6.15.
"""

import math
import operator
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dpcalc.amplification.bound import Average, Bound, MissedBatch, Part, StepBound, with_largest_lengths
from dpcalc.losses.loss import Loss, with_chords
from dpcalc.numerics import Array
from dpcalc.records import dataclass
from dpcalc.sampling.counts import CountDistribution, convolve
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path, contribution_distribution, number_of_poisson_levels, sum_upper
from dpcalc.sampling.sums import WHOLE, coarsen_at_quantiles, quantile_counts, whole_weights
from dpcalc.work import ELEMENT, TURN, cached_with_cost, spend

_MAX_EXACT = 24  # numbers of contributions that get a part each; of more the quantiles
# Quantiles, in deviations of a normal variable: of the number that is averaged, where a step of 1/4 changes epsilon by
# less than 1 %; of the same with many cases of the unit; of what is drawn under inner ancestors, which costs less;
# and of a stand-in's, each of which is a center of every part.
_OUTER_DEVIATIONS = tuple(sorted({*(0.25 * i for i in range(-14, 21)), *(0.5 * i for i in range(-12, 19))}))
_COARSE_DEVIATIONS = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)
_INNER_DEVIATIONS = (-1.0, 0.0, 1.0, 2.0, 3.5, 6.0)
_FEW_DEVIATIONS = (0.0, 2.0, 5.0)
# Of the outer and the inner one of two ancestors, the first of these pairs with few enough numbers in all.
_OF_TWO = (
    (_OUTER_DEVIATIONS, _COARSE_DEVIATIONS),
    *((_COARSE_DEVIATIONS, each) for each in (_COARSE_DEVIATIONS, _INNER_DEVIATIONS, _FEW_DEVIATIONS, (3.0,), ())),
)
_MAX_SUMS = 1 << 12  # pairs of numbers that are added one by one; with more, the law that is added is rounded up first
_MANY_LEVELS = 4  # ancestors that can be missed from which on inner ones get the fewest quantiles
_FEW_QUANTILES = (-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class MatesAverage(Average):
    """An average over the draws of the unit's mates; parts are merged where the noise hides their difference."""

    # the bound with the numbers of the mates and stand-ins at their largest, which is valid too
    largest: StepBound | Average
    units: int = 1  # different protected units of the run, each of which has an average of its own, >= 1

    @property
    def distances(self) -> tuple[int, ...]:
        """The distances of `largest`, seen from D."""
        return self.largest.distances

    @property
    def distances_swapped(self) -> tuple[int, ...]:
        """The distances of `largest`, seen from D'."""
        return self.largest.distances_swapped


@dataclass(frozen=True, kw_only=True)
class UnitCase:
    """One number of contributions of the unit and of what takes its place, without the draws of the mates."""

    chance: Fraction  # its probability
    inclusion: Fraction  # probability that the unit is in the batch and counts
    shift: int  # s of (K), in clip norms
    contents: int  # clipped contributions of the unit in a batch of D that holds it
    contents_swapped: int  # of the unit, or of what stands in its place, in the batch of D'
    # the missed batches that hold the unit's parent, or the clipping unit's if that is higher
    near: tuple[MissedBatch, ...]
    is_sure: bool = False  # True if nothing about the unit is random but whether it is drawn


MatesLaw = tuple[tuple[Fraction, tuple[int, ...]], ...]
"""(probability, contributions of the mates under each ancestor, outermost first), largest numbers last."""
_MatesWeights = dict[tuple[int, tuple[int, ...]], int]
"""Weight by (number of mates under an ancestor, those of each ancestor inside it that are kept)."""
_Distance = Callable[[int, int], int]  # (contributions that go, that come) -> distance, never falling


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Ancestors that a step can miss, their stand-ins, and the mates that are drawn with the unit."""

    # for each ancestor, outermost first, the probability that a step draws its parent and misses it
    missed: tuple[Fraction, ...]
    # for each the distribution of the contributions of what is drawn in its place; {0: 1} for nothing
    stand_ins: tuple[CountDistribution, ...]
    largest: tuple[int, ...]  # for each the most contributions that can be drawn under it
    own: int  # the most of the unit itself
    mates: MatesLaw  # joint law of the numbers under each ancestor

    @property
    def is_certain(self) -> bool:
        """True if the numbers are not random."""
        return len(self.mates) == 1 and all(len(law) == 1 for law in self.stand_ins)

    def parts(
        self, cases: Sequence[UnitCase], *, exchange_distance: _Distance = operator.add
    ) -> tuple[tuple[Fraction, StepBound], ...]:
        """Return (probability, (K)) for each case of the unit combined with each draw of the mates, as independent."""
        if not self.is_certain:
            spend(8 * TURN * len(cases) * len(self.mates) * (1 + sum(map(len, self.stand_ins))))
        return tuple(
            (case.chance * chance, self._bound(case, mates, exchange_distance))
            for case in cases
            for chance, mates in self.mates
        )

    def _bound(self, case: UnitCase, mates: tuple[int, ...], exchange_distance: _Distance) -> StepBound:
        """Return (K) of one case of the unit, given what the mates contribute under each ancestor."""
        # The place of a removed unit is taken by a stand-in of perhaps more contents, but under an ancestor there are
        # never more than its largest number.
        batches: list[MissedBatch] = []
        shared: list[tuple[int, tuple[int, ...]]] = []
        around = 0  # mates under the ancestor above that can be missed
        # What is drawn beside each of the ancestors is told by itself where two of them can be missed.
        for v, law, cap, all_mates in zip(self.missed, self.stand_ins, self.largest, mates, strict=True):
            if not v:
                continue
            if exchange_distance is operator.add and (not shared or sum(map(bool, self.missed)) == 2):
                shared.append((around - all_mates if shared else 0, tuple(law)))
            around, w = all_mates, min(all_mates, cap - self.own)
            leaving, leaving_swapped = min(case.contents + w, cap), min(case.contents_swapped + w, cap)
            batches += (
                MissedBatch(v * p, exchange_distance(leaving, z), exchange_distance(leaving_swapped, z))
                for z, p in law.items()
            )
        batches += case.near
        return StepBound(inclusion=case.inclusion, shift=case.shift, missed=tuple(batches), shared=tuple(shared))


def surroundings(hierarchy: Hierarchy, path: Path, *, clip: int, max_mates: int) -> Surroundings:
    """Return the ancestors above unit and clip, with upper laws of what mates and stand-ins under each contribute.

    For the ancestors above both the unit and the clipping level. Numbers that are not random are at their largest.

    Source: docs/theory.md, Theorem 6.9.
    """
    largest = largest_surroundings(path, clip=clip)
    if not any(largest.missed):
        return largest
    mates = _joint_mates(hierarchy, path, clip, max_mates) or largest.mates
    stand_ins = []
    for number, law in enumerate(largest.stand_ins, start=1):
        if max(law) and path.missed(number) and _is_redrawn_with_unit(hierarchy, path, number):
            known = contribution_distribution(hierarchy, unit=number, clip=clip, max_contributions=max(law))
            stand_ins.append(law if known is None else few_counts(known))
        else:
            stand_ins.append(law)
    return replace(largest, mates=mates, stand_ins=tuple(stand_ins))


def largest_surroundings(path: Path, *, clip: int) -> Surroundings:
    """Return the ancestors above unit and clip; what mates and stand-ins under each contribute is at its largest."""
    lowest, own = min(len(path.counts), clip), path.contributions[-1]
    above = range(1, lowest)
    largest = tuple(path.contributions[number - 1] for number in above)
    others = (min(path.contributions[number - 1] - own, sum(path.mates[number:lowest])) for number in above)
    return Surroundings(
        missed=tuple(path.missed(number) for number in above),
        stand_ins=tuple({path.stand_in(number): Fraction(1)} for number in above),
        largest=largest,
        own=own,
        mates=((Fraction(1), tuple(others)),),
    )


def few_counts(law: CountDistribution) -> CountDistribution:
    """Return an upper bound (stochastic order) with few counts: a law of at most 24 itself, else a dozen quantiles."""
    return coarsen_at_quantiles(law, _FEW_QUANTILES) if len(law) > _MAX_EXACT else law


def _is_redrawn_with_unit(hierarchy: Hierarchy, path: Path, number: int) -> bool:
    """Return True if levels `number` to the unit's share one period and all draws are fixed, Poisson, cut or `all`."""
    levels = hierarchy.levels[: len(path.counts)]
    return len({level.redraw_every for level in levels[number - 1 :]}) == 1 and all(
        level.scheme.is_simple or level.scheme.is_cut for level in levels
    )


def _joint_mates(hierarchy: Hierarchy, path: Path, clip: int, max_mates: int) -> MatesLaw:
    """Return an upper law of the mates under each missed ancestor jointly, in few values; () if all are certain."""
    lowest, own = min(len(path.counts), clip), path.contributions[-1]
    laws = {}  # of what the mates drawn at a level contribute; the most for certain without a law
    for number in range(2, lowest + 1):
        most = path.mates[number - 1]
        law: CountDistribution | None = None
        if most and _is_redrawn_with_unit(hierarchy, path, number - 1):
            level, *inner_levels = hierarchy.levels[number - 1 : clip]
            if number_of_poisson_levels(hierarchy, number - 1, clip) > 1 or all(
                x.is_equal for x in (level, *inner_levels)
            ):
                # Each mate is taken as a unit of largest sizes.
                max_each = math.prod(below.max_drawn for below in inner_levels)
                each = contribution_distribution(hierarchy, unit=number, clip=clip, max_contributions=max_each)
                places, rate = path.schemes[number - 1].tried(level.count)  # of which the unit takes one
                law = sum_upper(each or {max_each: Fraction(1)}, places - 1, rate)
            elif not level.scheme.is_cut:  # of a full one the path alone knows how many are drawn
                law = contribution_distribution(hierarchy, unit=number - 1, clip=clip, max_contributions=most)
        laws[number] = {most: Fraction(1)} if law is None else law
    if all({*law} == {path.mates[number - 1]} for number, law in laws.items()):
        return ()
    missed = [number for number in range(1, lowest) if path.missed(number)]
    if len(missed) == 2:
        # What is drawn under the outer one beside the inner one, and what under that, are independent.
        both: list[CountDistribution] = []
        for first, last in pairwise((*missed, lowest)):
            known = laws[first + 1]
            for number in range(first + 2, last + 1):
                known = convolve(*(_at_most(each, _OUTER_DEVIATIONS) for each in (known, laws[number])))
            both.append(known)
        for deviations in _OF_TWO:
            beside, under = map(_at_most, both, deviations)
            if len(beside) * len(under) <= max_mates:
                break
        return tuple(
            (p * q, tuple({missed[0]: number + most, missed[1]: number}.get(at, 0) for at in range(1, lowest)))
            for most, p in sorted(beside.items())
            for number, q in sorted(under.items())
        )
    outermost = missed[0]
    # Numbers of the outermost and of the inner missed ancestors are rounded up to these normal quantiles.
    inner = _INNER_DEVIATIONS if len(missed) < _MANY_LEVELS else _FEW_DEVIATIONS
    fits = len(_OUTER_DEVIATIONS) * len(inner) ** (len(missed) - 1) <= max_mates
    outer = _OUTER_DEVIATIONS if fits else _COARSE_DEVIATIONS

    # From the innermost ancestor outwards. Draws outside the outermost ancestor that can be missed do not matter.
    states: _MatesWeights = {(0, ()): WHOLE}
    for number in range(lowest - 1, outermost - 1, -1):
        # Add the mates of this level to each total. Of an ancestor that cannot be missed the path need not know the
        # contributions (`worst_paths`).
        cap = path.contributions[number - 1] - own if path.missed(number) else sys.maxsize
        more_mates = laws[number + 1]
        is_short = len(states) * len(more_mates) <= _MAX_SUMS
        added = whole_weights(more_mates if is_short else coarsen_at_quantiles(more_mates, _OUTER_DEVIATIONS))
        spend(4 * TURN * len(states) * len(added))
        sums: _MatesWeights = {}
        for (total, inside), weight in states.items():
            for more, chance in added.items():
                key = min(total + more, cap), inside
                sums[key] = sums.get(key, 0) + weight * chance

        # Keep the number under this ancestor, and carry it on to the next one.
        kept = _quantile_above(sums, outer if number == outermost else inner) if path.missed(number) else {}
        onwards = _quantile_above(sums, _OUTER_DEVIATIONS) if number > outermost else {}
        states = {}
        for (total, inside), weight in sums.items():
            key = onwards.get(total, 0), (kept.get(total, 0), *inside)
            states[key] = states.get(key, 0) + weight // WHOLE

    # The weight that is rounded off goes to the largest numbers.
    joint: dict[tuple[int, ...], int] = {}
    for (_, inside), weight in states.items():
        joint[inside] = joint.get(inside, 0) + weight
    largest = tuple(max(column) for column in zip(*joint, strict=True))
    joint[largest] = joint.get(largest, 0) + WHOLE - sum(joint.values())
    return tuple(
        (Fraction(joint[numbers], WHOLE), (*(0,) * (outermost - 1), *numbers))
        for numbers in sorted(joint, key=lambda numbers: numbers[::-1])
        if joint[numbers]
    )


def _at_most(law: CountDistribution, deviations: Sequence[float]) -> CountDistribution:
    """Return an upper law at normal quantiles and the largest count; one of few counts stays as it is."""
    return law if len(law) <= min(_MAX_EXACT, len(deviations)) else coarsen_at_quantiles(law, deviations)


def _quantile_above(sums: _MatesWeights, deviations: Sequence[float]) -> dict[int, int]:
    """Return {total: quantile that it is rounded up to} at normal `deviations`; few totals stay unchanged."""
    weights: dict[int, int] = {}
    for (total, _), weight in sums.items():
        weights[total] = weights.get(total, 0) + weight
    totals = sorted(weights)
    ends = totals if len(totals) <= min(_MAX_EXACT, len(deviations)) else quantile_counts(weights, deviations)
    return {total: ends[bisect_left(ends, total)] for total in totals}


# Parts that cost nearly the same are merged into the one with the largest distances, which is an upper bound


_TOLERANCE = 2e-4  # of the average profile that merging may add for each part that is kept: 3e-4 of epsilon in all
_NEGLIGIBLE = 1e-15  # of the profile at 0, below which it is not resolved
_MERGED_ABOVE = 12  # parts; fewer are kept as they are
MAX_CENTERS = 450  # of all parts together: composing takes 5 ms for each
_MAX_CENTERS_OF_ALL = 900  # of the averages of several units: with 1,300 composing exceeds what an answer may take
_OF_A_PART = 4  # centers for which the work on a part itself counts
_EPSILONS = 10  # at which profiles are compared, up to the largest loss that matters
_MAX_ROUNDS = 60  # in each of which parts may differ by 1.5 times as much: 4e10 in all
_LARGEST_EPSILON = 300.0  # and of all: exponentials of it, and of it times odds of 1e100, are floats
_HALVINGS = 40  # of the interval that holds the end of the half-line: it only decides what is merged


def merge_close_parts(average: MatesAverage, *, noise_multiplier: float, max_centers: int = MAX_CENTERS) -> Average:
    """Return an Average above this one: close parts are merged until about `max_centers` are left; few are unchanged.

    Merged parts share the batches that miss the outermost ancestor alone, or none if they shared more.

    Source: docs/theory.md, Theorem 4.6.
    """
    spend(40 * TURN * len(average.parts))
    bounds = [
        replace(bound, shared=()) if len(bound.shared) > 1 else bound
        for _, bound in average.parts
        if isinstance(bound, StepBound)
    ]
    if len(bounds) <= _MERGED_ABOVE or len(bounds) < len(average.parts):
        return average
    max_centers = min(max_centers, _MAX_CENTERS_OF_ALL // average.units)
    chances = np.array([float(chance) for chance, _ in average.parts])
    # The rise of the average profile that merging into one part may cause; beyond the floats all parts count as equal.
    profiles = _rough_profiles(bounds, noise_multiplier)
    total = chances @ profiles
    if not np.isfinite(total).all():
        profiles, total = np.zeros(profiles.shape), np.ones(total.shape)
    allowed = _TOLERANCE * np.maximum(total, _NEGLIGIBLE * total.max())

    # Bounds of equal probabilities and stand-ins are of one kind. A row of lengths holds the shift and the distances,
    # of which each bound may have fewer than the longest one.
    numbers: dict[object, int] = {}
    kinds = [numbers.setdefault((bound.inclusion, bound.chances, bound.shared), len(numbers)) for bound in bounds]
    lengths = np.zeros((len(bounds), 1 + 2 * max(len(bound.missed) for bound in bounds)))
    for row, bound in zip(lengths, bounds, strict=True):
        values = (bound.shift, *bound.distances, *bound.distances_swapped)
        row[: len(values)] = values

    for _ in range(_MAX_ROUNDS):
        # Each part into the longer one of its kind that it raises least, by at most the allowed rise in all. From the
        # largest distances downwards: (K) grows with the shift and with every distance, and within a kind the
        # probabilities of what is missed are the same.
        scaled = profiles / allowed
        merged: dict[int, list[int]] = {}  # kept part: itself and the parts merged into it
        added: dict[int, Array] = {}
        for at in np.argsort(-lengths.sum(axis=1), kind="stable").tolist():
            lifts = {
                kept: added[kept] + chances[at] * np.maximum(scaled[kept] - scaled[at], 0.0)
                for kept in merged
                if kinds[kept] == kinds[at] and (lengths[kept] >= lengths[at]).all()
            }
            best = min(lifts, key=lambda kept: float(lifts[kept].max()), default=at)
            if best != at and lifts[best].max() <= 1:
                merged[best].append(at)
                added[best] = lifts[best]
            else:
                merged[at], added[at] = [at], np.zeros(scaled.shape[1])
        centers = sum(_OF_A_PART + len(bounds[at].missed) for at in merged)
        if len(merged) == len({*kinds}) or centers <= max_centers:  # of a kind one is left
            break
        allowed *= 1.5
    return Average(
        parts=tuple(
            (sum((average.parts[k][0] for k in members), start=Fraction(0)), bounds[at])
            for at, members in sorted(merged.items())
        )
    )


def with_few_parts(bound: Bound) -> Bound:
    """Return an upper bound with fewer parts: the largest over the mates, with parts of equal probabilities merged."""
    largest = bound.largest if isinstance(bound, MatesAverage) else bound
    if not isinstance(largest, Average):
        return largest
    kinds: dict[object, list[tuple[Fraction, StepBound]]] = {}
    parts: list[tuple[Fraction, Part]] = []
    for chance, part in largest.parts:
        if isinstance(part, StepBound):
            kinds.setdefault((part.inclusion, part.chances, part.shared[:1]), []).append((chance, part))
        else:
            parts.append((chance, part))
    for members in kinds.values():
        chance = sum((share for share, _ in members), start=Fraction(0))
        parts.append((chance, with_largest_lengths([part for _, part in members])))
    return Average(parts=tuple(parts))


def _rough_profiles(bounds: Sequence[StepBound], deviation: float) -> Array:
    """Return each bound's deltas at 10 epsilons of D||D', then of D'||D, to about 1e-6 relative, not certified."""
    largest = max(bound.shift for bound in bounds) / deviation
    inclusions = np.array([[float(bound.inclusion)] for bound in bounds])
    low = 0.1 * float(inclusions.max()) * min(1.0, largest)
    high_epsilon = min(largest * largest / 2 + 6 * largest, _LARGEST_EPSILON)
    epsilons = np.append(0.0, np.geomspace(low, high_epsilon, _EPSILONS - 1))
    shifts = np.array([[bound.shift / deviation] for bound in bounds])
    sides = []
    for distances in ([bound.distances for bound in bounds], [bound.distances_swapped for bound in bounds]):
        width = max(map(len, distances))
        spend(ELEMENT * len(bounds) * epsilons.size * (width + 1) * (_HALVINGS + 20))
        odds, places = np.zeros((len(bounds), 1, width)), np.zeros((len(bounds), 1, width))
        for row, (bound, missed) in enumerate(zip(bounds, distances, strict=True)):
            odds[row, 0, : len(missed)] = [float(v / bound.inclusion) for v in bound.chances]
            places[row, 0, : len(missed)] = missed
        places /= deviation
        weights = np.expm1(epsilons)[None, :, None] * odds
        # The best event is a half-line: `excess` is above 0 where the loss is below epsilon, and rises with the output.
        # The end is found by bisection. Without missed batches it is `high`, and they only move it down. Beyond 40
        # deviations a normal variable has no mass that a float holds.
        high: Array = shifts / 2 - epsilons / shifts
        ends = np.minimum(high, -40.0)
        for _ in range(_HALVINGS):
            middle = (ends + high) / 2
            with np.errstate(over="ignore", divide="ignore"):
                others = (weights * np.exp(np.minimum((middle[..., None] - places / 2) * places, 700.0))).sum(axis=2)
                excess = np.log(np.exp(np.minimum(epsilons + (middle - shifts / 2) * shifts, 700.0)) + others)
            ends, high = np.where(excess > 0, ends, middle), np.where(excess > 0, middle, high)
        masses = normal_cdf(ends) - np.exp(epsilons) * normal_cdf(ends - shifts)
        masses -= (weights * normal_cdf(ends[..., None] - places)).sum(axis=2)
        sides.append(inclusions * np.maximum(masses, 0.0))
    return np.hstack(sides)


def normal_cdf(x: Array) -> Array:
    """Return Phi elementwise without SciPy, which loads slowly; as accurate as `dpcalc.numerics.normal_cdf`."""
    return np.array([*map(math.erfc, (x / -math.sqrt(2)).ravel().tolist())]).reshape(x.shape) / 2


# A sharper average: the batches that miss an ancestor are shared among the draws of the mates
#
# The average of (K) over the draws beside the unit subtracts, for each of them, all batches in which the outermost
# ancestor is missed. These have the same law whatever is drawn under that ancestor, so that they may be shared out
# among the draws in any way: a draw far away from them, which they do not hide, leaves its share to the nearer ones.
# Those that miss the next ancestor have one law given what is drawn beside it, and are shared among what is drawn under
# it. The best shares put the end of every draw's half-line at the same place, and if all draws need some, what is left
# is the pair in which the mates are hidden.


_MIN_GAIN = 0.01  # of the profile somewhere, below which it stays as it is
_SHARED_EPSILONS = 140  # at which the profile is bounded, as many again more closely near 0
_PROBES = 60  # epsilons at which it is looked where these should be
_NEXT_TO_ALL, _LEAST = 0.99, 1e-7  # shares of the profile at 0 between which it is bounded: below, round-off decides
_ROUNDED = 1e-11  # relative error of what is added up
_SHARED_HALVINGS = 50  # of the intervals that hold the ends of half-lines
_FAR = 40.0  # deviations within which all mass is that a float holds
_LARGEST = 300.0  # exponent, so that products of two are floats, and epsilon


@cached_with_cost(64)
def hidden_mates_profile(average: Average, plain: Loss, *, noise_multiplier: float) -> Loss:
    """Return `plain`, the profile of the average under that noise, lowered in both directions where that gains.

    Source: docs/theory.md, Theorem 6.15.
    """
    bounds = [part for _, part in average.parts if isinstance(part, StepBound) and part.shift]
    laws = [(bound.inclusion, bound.chances, bound.shared[:1]) for bound in bounds if bound.shared]
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
        epsilons = np.union1d(np.geomspace(low / 10, high, _SHARED_EPSILONS), np.linspace(low, high, _SHARED_EPSILONS))
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
            kinds.setdefault((part.inclusion, part.chances, stand_ins), []).append((chance, part))
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
        chances = one.chances[number : number + len(contents)]
        number += len(contents)
        missed.append((np.array(contents) / noise_multiplier, np.array([float(v) for v in chances])))
    near = np.array([float(v) for v in one.chances[number:]])
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
        for _ in range(_SHARED_HALVINGS):
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
