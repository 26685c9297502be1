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
from typing import NamedTuple

from dpcalc.guarantee import Adjacency
from dpcalc.losses.pair import MixturePair
from dpcalc.records import dataclass
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import Fixed


@dataclass(frozen=True, kw_only=True)
class StepBound:
    """The parameters of (K) for one step and one unit; lengths in clip norms.

    Attributes:
        inclusion: eta, exact probability that the protected unit is in the batch.
        shift: s, distance between the batch means with and without the unit's own contribution.
        missed: (v_1, ..., v_p), exact; `inclusion` and these sum to 1.
        distances: (d_1, ..., d_p), upper bounds on the distances of missed batches from those of D (direction D||D').
        distances_swapped: (d'_1, ..., d'_p), the same from the batches of D' (direction D'||D).
    """

    inclusion: Fraction
    shift: int
    missed: tuple[Fraction, ...]
    distances: tuple[int, ...]
    distances_swapped: tuple[int, ...]

    def __post_init__(self) -> None:
        """Raise ArithmeticError for what is no probability: the theorem needs weights >= 0."""
        if not 0 <= self.inclusion <= 1 or any(weight < 0 for weight in self.missed):
            raise ArithmeticError(f"expected probabilities in [0, 1], got {self.inclusion} drawn, {self.missed} missed")

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

    eta N(0) + sum_j v_j N(d_j) and eta N(s) + sum_j v_j N(d_j), the pair of (K) at epsilon >= 0.
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

    A unit that is clipped from above turns one vector of norm 1 around at most.

    The parameters of (K), an upper bound on the privacy loss of one step.

    Source: docs/theory.md, Theorem 4.4.
    """
    unit, own = len(path.counts), _unit_lengths(path, clip, adjacency)
    above = [_ancestor_distance(path, j, clip) for j in range(1, unit)]
    drop = _ancestor_drop(path, clip, adjacency)
    return StepBound(
        inclusion=path.inclusion(unit),
        shift=own.shift,
        missed=tuple(path.missed(j) for j in range(1, unit + 1)),
        distances=(*above, own.distance),
        distances_swapped=(*(d - drop for d in above), own.distance_swapped),
    )


class _UnitLengths(NamedTuple):
    """In clip norms the unit's shift, and the distances from D and from D' of a batch that misses the unit alone."""

    shift: int
    distance: int
    distance_swapped: int


def _unit_lengths(path: Path, clip: int, adjacency: Adjacency) -> _UnitLengths:
    """Return the lengths of the unit's own clipped vectors or, clipped above it, of the one vector that holds it."""
    # Clipped above the unit, all of it enters through one vector of norm 1, which turns around at most. A batch of D',
    # from which the unit was removed, is itself one that misses it: seen from D' the distance is 0.
    if clip < len(path.counts):
        return _UnitLengths(2, 2, 0 if adjacency is Adjacency.ADD_REMOVE else 2)
    # Under a fixed draw another unit is drawn in the place of a missed or removed one; else its place stays empty.
    stand_in = path.siblings[-1] if isinstance(path.schemes[-1], Fixed) else 0
    return _lengths_of_contributions(path.contributions[-1], stand_in, adjacency)


def _lengths_of_contributions(own: int, stand_in: int, adjacency: Adjacency) -> _UnitLengths:
    """Return the lengths of a unit with `own` vectors; if missed or removed, `stand_in` others take their place."""
    distance = own + stand_in
    match adjacency:
        case Adjacency.ADD_REMOVE:
            return _UnitLengths(distance, distance, 0)
        case Adjacency.ZERO_OUT:
            return _UnitLengths(own, distance, stand_in)
        case Adjacency.REPLACE_ONE:
            return _UnitLengths(2 * own, distance, distance)


def _ancestor_distance(path: Path, level: int, clip: int) -> int:
    """Return the most clip norms by which the batch mean of D moves if the unit's ancestor at `level` is missed."""
    if level > clip:
        return 2
    fixed = isinstance(path.schemes[level - 1], Fixed)
    return path.contributions[level - 1] + (path.siblings[level - 1] if fixed else 0)


def _ancestor_drop(path: Path, clip: int, adjacency: Adjacency) -> int:
    """Return by how many clip norms an ancestor is nearer to D' than to D; 0 unless D' lacks the unit's own vectors."""
    # d_j - d'_j: in a batch of D' nothing of the unit is left that a missed ancestor could take away. It is 0 if the
    # clip is above the unit, if the unit is replaced and so contributes in D' too, and if it is removed under a fixed
    # draw, where a stand-in contributes in its place.
    if clip < len(path.counts) or adjacency is Adjacency.REPLACE_ONE:
        return 0
    if adjacency is Adjacency.ADD_REMOVE and isinstance(path.schemes[-1], Fixed):
        return 0
    return path.contributions[-1]
