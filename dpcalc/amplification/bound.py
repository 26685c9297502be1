"""The one-step bound (K): the privacy loss of one step for one unit, under any scheme, adjacency and clipping level.

With inclusion probability eta, the direction D||D' is dominated at every epsilon >= 0 by the pair on the line

    eta N(0) + sum_j v_j N(d_j)    against    eta N(s) + sum_j v_j N(d_j),                           (K)

where s is the shift that the unit itself causes, and v_j is the probability that a step draws the unit's ancestor at
level j - 1 and misses the one at level j, which moves the mean by at most d_j. The bound grows with s, with every d_j
and with every rate.

Source: docs/theory.md, Theorem 4.3 (proof), Theorem 4.4 (table of distances) and Theorem 4.6 (monotonicity).
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property

from dpcalc.guarantee import Adjacency
from dpcalc.losses.pair import MixturePair
from dpcalc.records import dataclass
from dpcalc.sampling.paths import Path


@dataclass(frozen=True, kw_only=True)
class StepBound:
    """The parameters of (K) for one step and one unit; lengths in clip norms."""

    inclusion: Fraction  # eta, exact probability that the protected unit is in the batch
    shift: int  # s, distance between the batch means with and without the unit's own contribution
    missed: tuple[Fraction, ...]  # (v_1, ..., v_p), exact; `inclusion` and these sum to 1
    # (d_1, ..., d_p), upper bounds on the distances of missed batches from those of D (direction D||D')
    distances: tuple[int, ...]
    distances_swapped: tuple[int, ...]  # (d'_1, ..., d'_p), the same from the batches of D' (direction D'||D)
    # for each ancestor that can be missed, outermost first, (what mates contribute beside it under the one above,
    # contents of its stand-ins), in the first of the missed batches: given what is beside it and above, these have one
    # law whatever is drawn under it; () if that is not known
    shared: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        """Raise ArithmeticError for what is no probability: the theorem needs weights >= 0."""
        if not 0 <= self.inclusion <= 1 or any(weight < 0 for weight in self.missed):
            raise ArithmeticError(f"expected probabilities in [0, 1], got {self.inclusion} drawn, {self.missed} missed")

    @classmethod
    def sure(cls, shift: int) -> "StepBound":
        """Return the bound of a step that surely moves the batch mean so far."""
        return cls(inclusion=Fraction(1), shift=shift, missed=(), distances=(), distances_swapped=())

    @property
    def max_shift(self) -> int:
        """The largest distance, in clip norms, by which the protected unit moves the batch mean: `shift`."""
        return self.shift

    @cached_property
    def unit_noise_pairs(self) -> tuple[MixturePair, MixturePair]:
        """The dominating pairs of (K) in the directions D||D' and D'||D at noise deviation 1, in floats; cached.

        Phases that differ in their noise alone share them: sums of exact fractions take longer than all the rest.
        """
        own, other = (bound_mixtures(self, distances) for distances in (self.distances, self.distances_swapped))
        return MixturePair.of(*own, deviation=1.0), MixturePair.of(*other, deviation=1.0)


def bound_mixtures(bound: StepBound, distances: Iterable[int]) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    """Return (P, Q) of (K) as {center: weight}: missed batches at `distances` in both, the unit at 0 or (Q) at `shift`.

    This is the pair of (K) at epsilon >= 0.
    """
    # Levels at the same distance share a center: all later work grows with the number of centers.
    common: dict[int, Fraction] = {}
    for weight, distance in zip(bound.missed, distances, strict=True):
        if weight:
            common[distance] = common.get(distance, Fraction(0)) + weight
    p, q = dict(common), dict(common)
    p[0] = p.get(0, Fraction(0)) + bound.inclusion
    q[bound.shift] = q.get(bound.shift, Fraction(0)) + bound.inclusion
    return p, q


def with_largest_lengths(bounds: Sequence[StepBound]) -> StepBound:
    """Return a StepBound that is at least as large as several bounds of equal inclusion and missed probabilities.

    Source: docs/theory.md, Theorem 4.6.
    """
    return StepBound(
        inclusion=bounds[0].inclusion,
        shift=max(bound.shift for bound in bounds),
        missed=bounds[0].missed,
        distances=tuple(map(max, zip(*(bound.distances for bound in bounds), strict=True))),
        distances_swapped=tuple(map(max, zip(*(bound.distances_swapped for bound in bounds), strict=True))),
    )


def path_bound(path: Path, *, clip: int, adjacency: Adjacency) -> StepBound:
    """Return the upper bound (K) on one step for the unit at the end of a path.

    Source: docs/theory.md, Theorem 4.4.
    """
    unit, own, is_fixed = len(path.counts), path.contributions[-1], path.schemes[-1].has_stand_in
    # In clip norms the unit's shift, and the distances from D and from D' of a batch that misses the unit alone.
    if clip < unit:
        # All of the unit enters through one vector of norm 1, which turns around at most. A batch of D', from which the
        # unit was removed, is itself one that misses it: seen from D' the distance is 0.
        lengths = 2, 2, 0 if adjacency is Adjacency.ADD_REMOVE else 2
    else:
        # Under a fixed draw another unit is drawn in the place of a missed or removed one; else its place stays empty.
        stand_in = path.stand_in(unit)
        distance = own + stand_in
        match adjacency:
            case Adjacency.ADD_REMOVE:
                lengths = distance, distance, 0
            case Adjacency.ZERO_OUT:
                lengths = own, distance, stand_in
            case Adjacency.REPLACE_ONE:
                lengths = 2 * own, distance, distance
    shift, missed, missed_swapped = lengths

    # The most by which the mean of D moves if an ancestor is missed: a clipped vector above it turns around at most.
    above = [2 if level > clip else path.contributions[level - 1] + path.stand_in(level) for level in range(1, unit)]
    # An ancestor is nearer to D' by what a missed one could take away of the unit, where D' has nothing of it: not if
    # the clip is above the unit, if the unit is replaced and so contributes in D' too, or if it is removed under a
    # fixed draw, where a stand-in contributes in its place.
    is_kept = adjacency is Adjacency.REPLACE_ONE or (adjacency is Adjacency.ADD_REMOVE and is_fixed)
    drop = 0 if clip < unit or is_kept else own
    return StepBound(
        inclusion=path.inclusion(unit),
        shift=shift,
        missed=tuple(path.missed(level) for level in range(1, unit + 1)),
        distances=(*above, missed),
        distances_swapped=(*(distance - drop for distance in above), missed_swapped),
    )
