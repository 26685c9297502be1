"""The one-step bound where a drawn unit makes a random number of contributions; an empty unit contributes exactly zero.

A unit of which nothing is drawn is the same in D and D', so the inclusion probability falls to that of a non-empty
unit, and (K) is averaged over its contributions. A removed unit under a fixed draw keeps a stand-in out even if it is
empty; there the bound is averaged over the contributions of both. Below a clipping level, what matters is whether the
unit, and any other record in its clipping unit, is drawn.

Source: docs/theory.md, Theorem 6.6.
"""

from dataclasses import replace
from fractions import Fraction

from dpcalc.amplification.bound import StepBound, path_bound
from dpcalc.amplification.counts import Average, Bound, Member
from dpcalc.errors import WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.sampling.co_sampled import contribution_distribution, max_nonempty_probability
from dpcalc.sampling.counts import CountDistribution, coarsen_upwards_to, nonzero_probability, power
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import All, Fixed, Poisson, Scheme, WithReplacement

_MAX_COUNTS = 6  # of contributions if those of a stand-in are random too: 36 pairs; 60 would take 100 times as long
_NEGLECTED_CHANCE = Fraction(
    1, 2**60
)  # probability below which being the only drawn record is neglected: it would lower delta less


def single_unit_bound(hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency) -> Bound:
    """Return the bound of one draw for one unit: `path_bound`, or averaged over contributions if random and cheap.

    Args:
        hierarchy: levels and schemes.
        path: the path to the unit; all draws have one redraw period.
        clip: clipping level, 0 to depth.
        adjacency: relation between D and D'.

    Returns:
        An upper bound; (K) with the largest contributions where these are not random or need too much work.
    """
    bound = path_bound(path, clip=clip, adjacency=adjacency)
    unit, fixed = len(path.counts), isinstance(path.schemes[-1], Fixed)
    if clip < unit:
        return _bound_below_clipping_level(hierarchy, path, bound, clip=clip, adjacency=adjacency)
    own = _affordable_contribution_distribution(hierarchy, unit, clip, path.contributions[-1])
    if own is None or not nonzero_probability(own):
        return bound
    if unit == 1 and not fixed:
        law: CountDistribution = {h: path.rate(1) * chance for h, chance in own.items()}
        law[0] = law.get(0, Fraction(0)) + 1 - path.rate(1)
        try:
            return Member(own=1, stand_in=None, adjacency=adjacency).bound([(Fraction(1), law)])
        except WorkExceededError:
            return bound
    stand_in = {0: Fraction(1)}
    if fixed:
        own = coarsen_upwards_to(own, _MAX_COUNTS)
        sibling_law = _affordable_contribution_distribution(hierarchy, unit, clip, path.siblings[-1])
        stand_in = coarsen_upwards_to(sibling_law or {path.siblings[-1]: Fraction(1)}, _MAX_COUNTS)
        if adjacency is Adjacency.ADD_REMOVE:
            return _average_over_own_and_stand_in(bound, own, stand_in, path.contributions[-1])
    return _average_over_own_counts(bound, own, stand_in, max_contributions=path.contributions[-1], adjacency=adjacency)


def member_contribution_distribution(
    hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency
) -> CountDistribution | None:
    """Return an upper bound (stochastic order) on a member's contributions (clip above it: 0 or 1); None: use maximum.

    Below the clipping level (clip < unit) it is that of whether the member holds any drawn record: 0 or 1.

    Args:
        hierarchy: levels and schemes.
        path: the path to the members; all draws have one redraw period.
        clip: clipping level, 0 to depth.
        adjacency: relation between D and D'.

    Returns:
        None where the maximum must be taken: the number is not random, another unit may take the member's place, or
        draws are with replacement or build episodes.
    """
    unit = len(path.counts)
    if hierarchy.episodes is not None or any(isinstance(scheme, WithReplacement) for scheme in path.schemes):
        return None
    if isinstance(path.schemes[-1], Fixed) and (clip >= unit or adjacency is Adjacency.ADD_REMOVE):
        return None
    if clip >= unit:
        law = _affordable_contribution_distribution(hierarchy, unit, clip, path.contributions[-1])
    else:
        nonempty = max_nonempty_probability(hierarchy, unit, hold=hierarchy.level(unit).redraw_every)
        law = {0: 1 - nonempty, 1: nonempty} if nonempty < 1 else None
    return law if law is not None and nonzero_probability(law) else None


def _affordable_contribution_distribution(
    hierarchy: Hierarchy, unit: int, clip: int, max_contributions: int
) -> CountDistribution | None:
    """Return `contribution_distribution`; None also if it needs too much work."""
    try:
        return contribution_distribution(hierarchy, unit=unit, clip=clip, max_contributions=max_contributions)
    except WorkExceededError:
        return None


def _average_over_own_counts(
    bound: StepBound,
    own: CountDistribution,
    stand_in: CountDistribution,
    *,
    max_contributions: int,
    adjacency: Adjacency,
) -> Average:
    """Return an Average of StepBounds by the unit's contributions h >= 1, an empty unit or stand-in as missed."""
    nonempty, replaced = nonzero_probability(own), adjacency is Adjacency.REPLACE_ONE
    empty = bound.inclusion * (1 - nonempty)
    missed = (*bound.missed[:-1], *(bound.missed[-1] * p for p in stand_in.values()), empty)
    parts = [
        (
            chance / nonempty,
            StepBound(
                inclusion=bound.inclusion * nonempty,
                shift=2 * h if replaced else h,
                missed=missed,
                distances=(*(d - max_contributions + h for d in bound.distances[:-1]), *(h + m for m in stand_in), h),
                distances_swapped=(
                    *(d - max_contributions + h if replaced else d for d in bound.distances_swapped[:-1]),
                    *(h + m if replaced else m for m in stand_in),
                    h if replaced else 0,
                ),
            ),
        )
        for h, chance in own.items()
        if h
    ]
    return Average(parts=tuple(parts))


def _average_over_own_and_stand_in(
    bound: StepBound, own: CountDistribution, stand_in: CountDistribution, max_contributions: int
) -> Average:
    """Return the average of StepBounds over the contributions of a removed unit and of its stand-in."""
    missed = (*bound.missed[:-1], *(bound.missed[-1] * p for p in stand_in.values()))
    parts = [
        (
            p * q,
            replace(
                bound,
                shift=x + y,
                missed=missed,
                distances=(*(d - max_contributions + x for d in bound.distances[:-1]), *(x + m for m in stand_in)),
                distances_swapped=(*bound.distances_swapped[:-1], *(0 for _ in stand_in)),
            ),
        )
        for x, p in own.items()
        for y, q in stand_in.items()
        if x + y
    ]
    return Average(parts=tuple(parts))


def _bound_below_clipping_level(
    hierarchy: Hierarchy, path: Path, bound: StepBound, *, clip: int, adjacency: Adjacency
) -> Bound:
    """Return the bound of a unit below the clipping level, better if it may be empty or the only record there."""
    law = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=adjacency)
    if law is not None:
        nonempty = nonzero_probability(law)
        empty = bound.inclusion * (1 - nonempty)
        missed = (*bound.missed[:-1], bound.missed[-1] + empty)
        bound = replace(bound, inclusion=bound.inclusion * nonempty, missed=missed)
    alone = Fraction(0)
    if adjacency is Adjacency.ADD_REMOVE and not isinstance(path.schemes[-1], Fixed):
        alone = _chance_of_being_alone(hierarchy, path, clip)
    if alone < _NEGLECTED_CHANCE:
        return bound if law is None else Average(parts=((Fraction(1), bound),))
    parts = ((alone, _bound_when_alone(hierarchy, path, bound, clip)), (1 - alone, bound))
    return Average(parts=tuple((chance, part) for chance, part in parts if chance))


def _chance_of_being_alone(hierarchy: Hierarchy, path: Path, clip: int) -> Fraction:
    """Return a lower bound on the probability that a drawn unit's clipping unit holds no other drawn record."""
    hold = hierarchy.level(len(path.counts)).redraw_every
    alone = Fraction(1)
    for number in range(clip + 1, len(path.counts) + 1):
        nonempty = max_nonempty_probability(hierarchy, number, hold=hold)
        alone *= _chance_of_no_other_record(path.schemes[number - 1], hierarchy.level(number).count, nonempty)
    return alone


def _chance_of_no_other_record(scheme: Scheme, count: int, nonempty: Fraction) -> Fraction:
    """Return a lower bound on the probability that no unit drawn with a drawn one holds a record; 0 if unknown."""
    match scheme:
        case Poisson(probability=rate):
            return power(1 - rate * nonempty, count - 1)
        case All():
            return power(1 - nonempty, count - 1)
        case Fixed(size=size):
            return power(1 - nonempty, size - 1)
        case _:
            return Fraction(0)


def _bound_when_alone(hierarchy: Hierarchy, path: Path, bound: StepBound, clip: int) -> StepBound:
    """Return the StepBound given that the unit's clipping unit holds no other record: shift 1, for a removed unit."""
    unit, hold = len(path.counts), hierarchy.level(len(path.counts)).redraw_every
    terms: list[tuple[Fraction, int, int]] = []
    # Without other records in it the clipping unit's vector is 0 in D', so that the distances shrink by the direction
    # reversal, from 2 to 1; a stand-in of an ancestor may still hold a record.
    for number, (chance, distance) in enumerate(zip(bound.missed, bound.distances, strict=True), start=1):
        if number < clip:
            terms.append((chance, distance, distance - 1))
        elif number < unit and isinstance(path.schemes[number - 1], Fixed):
            nonempty = max_nonempty_probability(hierarchy, number, hold=hold)
            terms += [(chance * nonempty, 2, 1), (chance * (1 - nonempty), 1, 0)]
        else:
            terms.append((chance, 1, 0))
    missed, distances, swapped = zip(*terms, strict=True)
    return StepBound(inclusion=bound.inclusion, shift=1, missed=missed, distances=distances, distances_swapped=swapped)
