"""The one-step bound (K): one formula for every relation, scheme, level and clipping unit.

Fix the random draw in D and couple the draw in D' to it. Put the mean of the batch that contains the
protected unit at 0. The same draw in D' has its mean at distance at most `shift`; a draw that reaches
the unit's level-(j-1) ancestor and misses its level-j ancestor (probability `missed[j - 1]`) has its
mean at distance at most `distances[j - 1]`, in D and D' alike. With eta the inclusion probability the
direction D||D' has, for epsilon >= 0, at most the profile of the pair on the line

    eta N(0) + sum_j v_j N(d_j)    against    eta N(s) + sum_j v_j N(d_j).                           (K)

Proof. P - Q = eta (C - B) with a common part M, so advanced joint convexity (Balle, Barthe, Gaboardi
2018, 1807.01647v2, Theorem 2) gives H_{e^eps}(P||Q) = eta H_{e^eps0}(C || (1-b) M + b B) with
e^eps0 = 1 + (e^eps - 1)/eta and b = e^(eps - eps0). Given the coupled draw C is N(0) and the rest a
mixture of N(c_i), |c_i| at most the distance. H is a convex functional of sum_i q_i LR_i with
LR_i = exp((<c_i, y> - |c_i|^2 / 2) / sigma^2), y ~ N(0). Each LR_i grows in convex order with |c_i|,
and for given marginals the comonotone sum is the largest in convex order: that is (K), on the line,
all on one side. Any dimension; composition is adaptive because (K) holds for every past. QED.
"""

from dataclasses import dataclass
from fractions import Fraction

from dpcalc.adjacency import Adjacency
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.schemes import Fixed


@dataclass(frozen=True, kw_only=True)
class StepBound:
    """The parameters of (K), all distances in clip norms.

    Attributes:
        inclusion: eta, exact probability that the protected unit is in the batch.
        shift: s, distance between the batches with and without the unit's own contribution.
        missed: (v_1, ..., v_p), exact; `inclusion` and these sum to 1.
        distances: (d_1, ..., d_p), seen from D (direction D||D').
        distances_swapped: (d'_1, ..., d'_p), seen from D' (direction D'||D).
    """

    inclusion: Fraction
    shift: int
    missed: tuple[Fraction, ...]
    distances: tuple[int, ...]
    distances_swapped: tuple[int, ...]


def one_step_bound(hierarchy: Hierarchy, *, unit: int, clip: int, adjacency: Adjacency) -> StepBound:
    """The table of distances of (K) for equal sizes.

    Args:
        hierarchy: levels and schemes.
        unit: protected level p, 1 to depth.
        clip: level c whose vectors are clipped, 0 (the whole batch) to depth.
        adjacency: relation between D and D'.

    Returns:
        The parameters of (K); the profile built from them is an upper bound.
    """
    if clip < unit:
        shift, near, near_swapped = 2, 2, 0 if adjacency is Adjacency.ADD_REMOVE else 2
    else:
        shift, near, near_swapped = _unit_distances(hierarchy, unit, clip, adjacency)
    above = [_ancestor_distance(hierarchy, j, clip) for j in range(1, unit)]
    return StepBound(
        inclusion=hierarchy.inclusion(unit),
        shift=shift,
        missed=tuple(hierarchy.missed(j) for j in range(1, unit + 1)),
        distances=(*above, near),
        distances_swapped=(*(d - _ancestor_drop(hierarchy, unit, clip, adjacency) for d in above), near_swapped),
    )


def _unit_distances(hierarchy: Hierarchy, unit: int, clip: int, adjacency: Adjacency) -> tuple[int, int, int]:
    """(s, d_p, d'_p) where the unit is clipped as a whole or in parts; equal sizes: siblings are as large."""
    own = sibling = hierarchy.contributions(unit, clip)
    fixed = isinstance(hierarchy.level(unit).scheme, Fixed)
    if adjacency is Adjacency.REPLACE_ONE:
        distance = own + sibling if fixed else own
        return 2 * own, distance, distance
    if not fixed:
        return own, own, 0
    if adjacency is Adjacency.ZERO_OUT:
        return own, own + sibling, sibling
    return own + sibling, own + sibling, 0


def _ancestor_distance(hierarchy: Hierarchy, number: int, clip: int) -> int:
    """d_j for an ancestor above the protected unit: what a drawn ancestor can hold, twice if a sibling steps in."""
    if number > clip:
        return 2
    most = hierarchy.contributions(number, clip)
    return 2 * most if isinstance(hierarchy.level(number).scheme, Fixed) else most


def _ancestor_drop(hierarchy: Hierarchy, unit: int, clip: int, adjacency: Adjacency) -> int:
    """How much nearer a missed ancestor is seen from D', where the unit's own contribution is absent or zero."""
    if clip < unit or adjacency is Adjacency.REPLACE_ONE:
        return 0
    if adjacency is Adjacency.ADD_REMOVE and isinstance(hierarchy.level(unit).scheme, Fixed):
        return 0
    return hierarchy.contributions(unit, clip)
