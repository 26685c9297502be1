"""The valid bounds of a phase, from its levels, sampling schemes and redraw periods.

A unit is part of each unit above it, so that the bound for replacing an ancestor as a whole covers it too. For one
unit and a single redraw period that never costs less; elsewhere it can, and the cheaper bound may be taken.

Source: docs/theory.md, Theorem 4.6 and Theorem 7.1.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import groupby

from dpcalc.amplification.counts import Average, Bound, Member, Part, hidden_group_bound, revealed_count_distributions
from dpcalc.amplification.groups import Group, Placement, contexts
from dpcalc.amplification.joint_distances import joint_step_bound
from dpcalc.amplification.mates import MatesAverage
from dpcalc.amplification.random_contents import (
    averaged_unit_bound,
    member_contribution_distribution,
    single_unit_bound,
)
from dpcalc.amplification.random_group_contents import averaged_group_bound
from dpcalc.amplification.schedule import (
    PhaseBound,
    bound_per_pass,
    is_shortened,
    is_shuffled,
    pass_as_draw,
    shortened_pass_error,
)
from dpcalc.errors import UnsupportedError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.black_box import RandomizedResponse
from dpcalc.mechanisms.kinds import Mechanism
from dpcalc.sampling.counts import FullBatch, full_batch
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import (
    All,
    BallsInBins,
    CappedPoisson,
    CheckIn,
    Fixed,
    FixedAtRate,
    Poisson,
    Scheme,
    Shuffle,
    WithReplacement,
)


def phase_bounds(
    hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency, group: Group
) -> tuple[PhaseBound, ...]:
    """Return all valid bounds of a phase; InputError if a removal shortens its passes and no ancestor covers it.

    Args:
        hierarchy: levels and schemes.
        path: the path to the protected unit, or to one that costs as much as any.
        clip: clipping level, 0 to depth.
        adjacency: relation between D and D'.
        group: the protected units and their placement.

    Raises:
        InputError: removing what is protected takes a step from the passes, and no bound covers that.
        UnsupportedError: the protected unit is above the allocated level.
    """
    if hierarchy.allocation is not None:
        return _allocated_bounds(hierarchy, path, clip, adjacency, group)
    if is_shortened(hierarchy, unit=len(path.counts), adjacency=adjacency, group=group):
        above = _ancestor_bounds(hierarchy, path, clip, group)
        if not above:
            raise shortened_pass_error(hierarchy, unit=len(path.counts), group=group)
        return above
    native = native_bound(hierarchy, path, clip=clip, adjacency=adjacency, group=group)
    if native.plain is not None or hierarchy.episodes is not None:
        return (native,)
    hidden = _hidden_draws_bound(hierarchy, path, clip, adjacency, group)
    own = (native,) if hidden is None else (native, replace(native, bound=hidden))
    check_in = _check_in_bound(hierarchy, path, clip, adjacency, group)
    below_draw = () if check_in is None else (check_in,)
    return (*own, *below_draw, *_ancestor_bounds(hierarchy, path, clip, group))


def _allocated_bounds(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> tuple[PhaseBound, ...]:
    """Return the bounds with the choice of steps public or hidden; UnsupportedError for a unit above the choice.

    Raises:
        UnsupportedError: the protected unit is above the allocated level.

    Source: docs/theory.md, Theorem 7.6 and Theorem 7.7.
    """
    # A bound for one unit covers several by links, one change of the data after the other, and replace-one as a removal
    # and an addition. The last bound, of a group as a whole, is for Gaussian noise alone. Of a group whose members
    # choose several of all steps, the choice is revealed.
    unit, allocated = len(path.counts), hierarchy.level(hierarchy.allocated)
    if unit < hierarchy.allocated:
        above = hierarchy.level(unit).name
        raise UnsupportedError(
            f"level {allocated.name}: expected a scheme of the protected level, {above}, or of one above it, got "
            f"{allocated.scheme.name} of each {allocated.name} of a {above}; state the scheme for {above}, or protect "
            f"{allocated.name} with group_size"
        )
    base, allocation = hierarchy.given_allocation(), hierarchy.allocation
    single = native_bound(base, path, clip=clip, adjacency=adjacency, group=Group())
    bounds = [replace(single, allocation=allocation, is_revealed=True, links="-" * group.size)]
    if group.size > 1 and clip >= hierarchy.allocated:
        # Members in one step shift its sum by the sum of their shifts, which costs more than in steps of their own. A
        # vector clipped above them turns around at most: there steps of their own cost more.
        together = native_bound(base, path, clip=clip, adjacency=adjacency, group=group)
        bounds.append(replace(together, allocation=allocation, is_revealed=True))
    # Members of a group choose several of all steps independently, so that no partition into passes is common to them.
    has_passes = isinstance(allocation, BallsInBins) or group.size == 1
    if unit == hierarchy.allocated and has_passes:
        bounds.insert(0, replace(_hidden_choice_bound(base, path, clip, adjacency, group), allocation=allocation))
    return tuple(bounds)


def _hidden_choice_bound(base: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group) -> PhaseBound:
    """Return one unit's bound with its choice of steps hidden, and the links that extend it to the group."""
    links, removal = "-" * group.size, adjacency
    if not _is_as_if_absent(adjacency, clip, len(path.counts)):
        links, removal = links + "+" * group.size, Adjacency.ADD_REMOVE
    return replace(native_bound(base, path, clip=clip, adjacency=removal, group=Group()), links=links)


def _is_as_if_absent(adjacency: Adjacency, clip: int, unit: int) -> bool:
    """Return True if D' does not show whether the unit is drawn: removed, or zeroed and not clipped from above."""
    # Clipped from above, a zeroed unit can turn the vector that it is part of.
    return adjacency is Adjacency.ADD_REMOVE or (adjacency is Adjacency.ZERO_OUT and clip >= unit)


def averaged_choices(
    choices: tuple[PhaseBound, ...],
    hierarchy_and_clip: tuple[Hierarchy, int],
    path_and_shared: tuple[Path, Path | None],
    group: Group,
    adjacency: Adjacency,
) -> tuple[PhaseBound, ...]:
    """Return the choices with averages over random mates added, or in their place for a single fresh draw.

    None hold for episodes, for steps that units choose, for other draws than fixed, Poisson and `all` ones, where no
    number of mates or contributions is random, and for groups that `_averaged_group_bound` excepts.

    Args:
        choices: from `phase_bounds`.
        hierarchy_and_clip: levels and schemes, and the clipping level, 0 to depth.
        path_and_shared: the path to the unit, from `worst_paths`; and one that is nowhere below those of many units,
            which then share one average, else None. For a group the former is above all units.
        group: the protected units and their placement.
        adjacency: relation between D and D'.

    Returns:
        Of one unit, if (K) is the only choice, every step draws anew and nothing is shared: its average in its place,
        which is nowhere above it, and the bound from joint distances after it. Else all choices, and after them the
        averages of the unit and of its ancestors, or of the group, of which any may be the smallest.

    Source: docs/theory.md, Theorem 6.9, Theorem 6.10 and Theorem 6.11.
    """
    (hierarchy, clip), (path, shared) = hierarchy_and_clip, path_and_shared
    if hierarchy.episodes is not None or hierarchy.allocation is not None:
        return choices
    if not {*map(type, path.schemes)} <= {Fixed, Poisson, All}:
        return choices
    if group.size > 1:
        average = _averaged_group_bound(hierarchy, path, clip, adjacency, group)
        return choices if average is None else (*choices, replace(choices[0], bound=average))

    def _averaged(level: int, relation: Adjacency) -> PhaseBound:
        """Return the bound of the path cut at `level`, averaged over its mates, with the redraw period there."""
        return bound_with_redraws(
            hierarchy,
            _path_down_to(shared or path, level),
            Group(),
            lambda drawn: averaged_unit_bound(hierarchy, drawn, clip=clip, adjacency=relation),
        )

    own = _averaged(len(path.counts), adjacency)
    if choices[0].plain is not None and shared is None:
        joint = own.plain and joint_step_bound(own.plain, path, clip=clip, adjacency=adjacency)
        return (own, replace(own, bound=joint)) if joint and own.plain is own.bound else (own,)
    above = [
        _averaged(level, Adjacency.REPLACE_ONE)
        for level in range(2, len(path.counts))
        if len(choices) > 1 and (level >= clip or _knows_contents(hierarchy, shared or path, level))
    ]
    return (*choices, *(bound for bound in (own, *above) if isinstance(bound.bound, MatesAverage)))


def _check_in_bound(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> PhaseBound | None:
    """Return the bound of one unit whose hidden Poisson draw is held above fresh draws; None for any other case.

    Source: docs/theory.md, Theorem 7.8.
    """
    unit, scheme = len(path.counts), path.schemes[-1]
    is_check_in = group.size == 1 and _is_as_if_absent(adjacency, clip, unit) and _is_held_above_fresh(hierarchy, unit)
    if not isinstance(scheme, Poisson) or not scheme.probability or not is_check_in:
        return None
    levels = [
        replace(each, scheme=All() if at == unit else each.scheme, redraw_every=1)
        for at, each in enumerate(hierarchy.levels, start=1)
    ]
    present = replace(path, schemes=(*path.schemes[:-1], All()))
    base = replace(hierarchy, levels=tuple(levels))
    step = native_bound(base, present, clip=clip, adjacency=adjacency, group=group)
    return replace(step, allocation=CheckIn(rate=scheme.probability, length=hierarchy.level(unit).redraw_every))


def _is_held_above_fresh(hierarchy: Hierarchy, unit: int) -> bool:
    """Return True if the unit's draw is held, those below are not and some are random, and those above are whole."""
    above, below = hierarchy.levels[: unit - 1], hierarchy.levels[unit:]
    is_held = hierarchy.level(unit).redraw_every > 1 and all(level.redraw_every == 1 for level in below)
    return is_held and all(level.is_whole for level in above) and not all(level.is_whole for level in below)


def _ancestor_bounds(hierarchy: Hierarchy, path: Path, clip: int, group: Group) -> tuple[PhaseBound, ...]:
    """Return replace-one bounds of the ancestors with known contents; () if members have several parents."""
    if not group.is_together:
        return ()
    return tuple(
        native_bound(hierarchy, _path_down_to(path, level), clip=clip, adjacency=Adjacency.REPLACE_ONE, group=Group())
        for level in range(1, len(path.counts))
        if _knows_contents(hierarchy, path, level)
    )


def _knows_contents(hierarchy: Hierarchy, path: Path, level: int) -> bool:
    """Return True if a bound knows what an ancestor holds: no tree, or its level is shuffled or drawn at rate < 1."""
    return hierarchy.tree is None or isinstance(path.schemes[level - 1], Shuffle) or path.rate(level) < 1


def _hidden_draws_bound(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> Bound | None:
    """Return a group's bound with draws above its members hidden; None if it is not proved or takes too much work."""
    if not isinstance(group.placement, tuple) or not _can_hide_draws(hierarchy, path, clip):
        return None
    each = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=adjacency)
    member = _member_effect(path, clip, adjacency, is_counted=each is not None)
    try:
        return hidden_group_bound(path, group.placement, member, each=each)
    except WorkExceededError:
        return None


def _can_hide_draws(hierarchy: Hierarchy, path: Path, clip: int) -> bool:
    """Return True if draws down to the unit may be hidden: simple ones of one period, with known contents."""
    simple = all(isinstance(scheme, Fixed | Poisson | All) for scheme in path.schemes)
    periods = {level.redraw_every for level in hierarchy.levels[: len(path.counts)]}
    return simple and clip > 0 and len(periods) == 1 and _knows_contents(hierarchy, path, 1)


def _averaged_group_bound(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> Bound | None:
    """Return a group's bound averaged over mates; None if it is not proved or takes too much work."""
    if not isinstance(group.placement, tuple) or clip < len(path.counts) or not _can_hide_draws(hierarchy, path, clip):
        return None
    each = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=adjacency)
    member = _member_effect(path, clip, adjacency, is_counted=each is not None)
    try:
        return averaged_group_bound(hierarchy, path, group.placement, member, clip=clip)
    except WorkExceededError:
        return None


def _path_down_to(path: Path, unit: int) -> Path:
    """Return the part of the path from level 1 down to level `unit`."""
    return Path(
        place=path.place[:unit],
        counts=path.counts[:unit],
        max_counts=path.max_counts[:unit],
        schemes=path.schemes[:unit],
        contributions=path.contributions[:unit],
        siblings=path.siblings[:unit],
        mates=path.mates[:unit],
    )


def native_bound(hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency, group: Group) -> PhaseBound:
    """Return the bound of the protected units themselves, by step or, if they are shuffled, by pass.

    Args:
        hierarchy: levels and schemes, or how episodes are built.
        path: the path to the protected unit.
        clip: clipping level, 0 to depth.
        adjacency: relation between D and D'.
        group: the protected units and their placement.

    Returns:
        An upper bound; passes are taken to have the same number of steps in D and D'.
    """
    if hierarchy.episodes is not None:
        return PhaseBound(bound=_episode_bound(hierarchy, path, clip, adjacency, group))
    shuffled = is_shuffled(path)
    # A group can be in several batches of a pass, and their vectors count separately even if each batch is one vector.
    vectors = max(clip, 1) if shuffled and group.size > 1 else clip

    def draw(drawn: Path) -> Bound:
        return _draw_bound(hierarchy, drawn, (clip, vectors), adjacency, group)

    phase_bound = bound_with_redraws(hierarchy, path, group, draw)
    return bound_per_pass(phase_bound, path, clip=clip, adjacency=adjacency, group=group) if shuffled else phase_bound


def bound_with_redraws(hierarchy: Hierarchy, path: Path, group: Group, bound: Callable[[Path], Bound]) -> PhaseBound:
    """Return the phase bound of a draw, in which ancestors redrawn less often than the unit have public draws.

    Args:
        hierarchy: levels and schemes.
        path: the path to the protected units.
        group: the protected units and their placement.
        bound: from a path whose draws all have the protected level's redraw period to the bound of one draw.

    Source: docs/theory.md, Theorem 7.1 and Theorem 7.2.
    """
    unit = len(path.counts)
    hold = hierarchy.level(unit).redraw_every
    slow = [level for level in range(1, unit) if hierarchy.level(level).redraw_every > hold]
    periods = groupby(slow, key=lambda level: hierarchy.level(level).redraw_every)
    revealed = [(_chance_of_any_member(path, group, [*levels]), period) for period, levels in periods]
    drawn = pass_as_draw(path, group)
    schemes = tuple(All() if at in slow else scheme for at, scheme in enumerate(drawn.schemes, start=1))
    return PhaseBound(
        bound=average_over_cuts(replace(drawn, schemes=schemes), bound),
        hold=hold,
        revealed=tuple((rate, period) for rate, period in revealed if rate < 1),
    )


def _chance_of_any_member(path: Path, group: Group, levels: list[int]) -> Fraction:
    """Return an upper bound on the chance that draws of `levels` reach any member, if all above do.

    Args:
        path: the path to the protected units.
        group: the protected units; a union bound over them if they have no placement or it needs too much work.
        levels: consecutive levels above the protected one, from 1; not empty.
    """
    # Members under different drawn units are reached independently, so that the chance that none is reached is the
    # product over the frames in which a draw of `levels` begins.
    first, last = levels[0] - 1, levels[-1]
    union_bound = min(Fraction(1), group.size * math.prod(map(path.rate, levels), start=Fraction(1)))
    if group.size == 1 or group.placement is None:
        return union_bound
    frames = [group.placement]
    for _ in range(first):
        frames = [inner for frame in frames if isinstance(frame, tuple) for inner in frame]
    none = Fraction(1)
    for frame in frames:
        try:
            drawn = contexts(
                _truncated_placement(frame, last - first), path.schemes[first:last], path.counts[first:last]
            )
        except WorkExceededError:
            return union_bound
        none *= drawn.get((), Fraction(0))
    return 1 - none


def _truncated_placement(placement: Placement, depth: int) -> Placement:
    """Return the placement cut off `depth` levels down; each unit there that holds members becomes the number 1."""
    if not depth or not isinstance(placement, tuple):
        return 1
    return tuple(_truncated_placement(inner, depth - 1) for inner in placement)


def _draw_bound(
    hierarchy: Hierarchy, path: Path, clip_and_counted_level: tuple[int, int], adjacency: Adjacency, group: Group
) -> Bound:
    """Return the bound of one draw, for a single unit or by the law of how many members it holds."""
    # Vectors of another level than the clipped one count for groups in passes: a group can be in several batches, each
    # clipped as one vector.
    clip, vectors = clip_and_counted_level
    replaced = any(isinstance(scheme, WithReplacement) for scheme in path.schemes)
    if group.size == 1 and not replaced:
        return single_unit_bound(hierarchy, path, clip=clip, adjacency=adjacency)
    each = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=adjacency)
    laws = revealed_count_distributions(hierarchy, path, clip=vectors, group=group, each=each)
    return _member_effect(path, clip, adjacency, is_counted=each is not None).bound(laws)


def _member_effect(path: Path, clip: int, adjacency: Adjacency, *, is_counted: bool) -> Member:
    """Return how one drawn member and its stand-in change the sum; by one vector if they are clipped from above."""
    if clip < len(path.counts):
        above = adjacency if adjacency is Adjacency.ADD_REMOVE else Adjacency.REPLACE_ONE
        return Member(own=1, stand_in=1, adjacency=above)
    replaced = isinstance(path.schemes[-1], (Fixed, WithReplacement))
    own = 1 if is_counted else path.contributions[-1]
    return Member(own=own, stand_in=path.siblings[-1] if replaced else None, adjacency=adjacency)


def _episode_bound(hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group) -> Bound:
    """Return the bound of an episode step by the law of H of `_member_of_episode`; LookupError without episodes."""
    member = _member_of_episode(hierarchy, len(path.counts), clip, adjacency)
    return member.bound(revealed_count_distributions(hierarchy, path, clip=clip, group=group))


def _member_of_episode(hierarchy: Hierarchy, unit: int, clip: int, adjacency: Adjacency) -> Member:
    """Return how one task with a protected unit changes the sum, as a Member; LookupError without episodes."""
    built = hierarchy.episodes
    if built is None:
        raise LookupError("episodes: expected constructed tasks, got none")
    if clip < 2:
        removed = unit == 1 and adjacency is Adjacency.ADD_REMOVE  # without the class: any other task
        return Member(own=1, stand_in=1, adjacency=adjacency if removed else Adjacency.REPLACE_ONE)
    own = built.records if unit == 1 else 1
    # A task that takes all classes, or all records, leaves no other unit to take the place of a missed one.
    whole = (built.ways, built.records)[unit - 1] == hierarchy.level(unit).count
    return Member(own=own, stand_in=None if whole else own, adjacency=adjacency)


# Poisson batches that are cut at random to a maximum: whether the other units alone fill the batch is revealed. Given
# that they do not, the draw is a Poisson draw; given that they do, it is a draw of a fixed size, in which another unit
# stands in for a missed one. Whether they do is the same in D and D', so that the bound is the average of the two.


_MAX_AVERAGED = 3  # capped levels of which each is averaged: 27 parts; another one counts as always full


def average_over_cuts(path: Path, bound: Callable[[Path], Bound]) -> Bound:
    """Return the bound averaged over which capped draws are full; unchanged if no draw is capped.

    Args:
        path: the path to a single protected unit; each of its draws is made anew in every step.
        bound: from a path with Poisson or fixed-size draws in the place of capped ones to the bound of a step; never
            falls with a rate, and a fixed-size draw costs no less than a Poisson draw of the same rate.

    Returns:
        An upper bound in both directions.

    Source: docs/theory.md, Theorem 4.9.
    """
    if not any(isinstance(scheme, CappedPoisson) for scheme in path.schemes):
        return bound(path)
    parts: list[tuple[Fraction, Part]] = []
    for chance, schemes in _schemes_by_cut(path):
        part = bound(replace(path, schemes=schemes))
        parts += [(chance * p, x) for p, x in part.parts] if isinstance(part, Average) else [(chance, part)]
    return Average(parts=tuple(parts))


def _schemes_by_cut(path: Path) -> list[tuple[Fraction, tuple[Scheme, ...]]]:
    """Return (probability, schemes by level) for each combination of full and other capped draws."""
    outcomes: list[tuple[Fraction, tuple[Scheme, ...]]] = [(Fraction(1), ())]
    averaged = 0
    for at, scheme in enumerate(path.schemes):
        cases: list[tuple[Fraction, Scheme]] = [(Fraction(1), scheme)]
        if isinstance(scheme, CappedPoisson):
            averaged += 1
            ends = (path.counts[at], path.max_counts[at]) if averaged <= _MAX_AVERAGED else None
            cases = [case for case in _capped_cases(scheme, ends) if case[0]]
        outcomes = [(chance * share, (*above, case)) for chance, above in outcomes for share, case in cases]
    return outcomes


def _capped_cases(scheme: CappedPoisson, counts: tuple[int, int] | None) -> Iterator[tuple[Fraction, Scheme]]:
    """Yield (probability, scheme) of the cases of a capped draw: Poisson if it has room, FixedAtRate if it may be full.

    Args:
        scheme: of one level.
        counts: (fewest, most) units that the frame may hold; None if it must not be looked at.
    """
    rate, cap = scheme.probability, scheme.max_batch_size
    few, many = (full_batch(count - 1, rate, cap) for count in counts) if counts is not None else (None, None)
    if few is None or many is None:
        few, many = FullBatch(Fraction(0), Fraction(0)), FullBatch(Fraction(1), Fraction(0))
    # Of more units the batch is full more often, and each is in it less often. Where it may or may not be full, a
    # full batch at the rate of a Poisson draw costs no less than either.
    yield 1 - many.chance, Poisson(probability=rate)
    yield few.chance, FixedAtRate(size=cap, probability=few.inclusion or rate)
    yield many.chance - few.chance, FixedAtRate(size=cap, probability=rate)


def randomized_response_refusal(mechanism: Mechanism, hierarchy: Hierarchy, *, unit: int, adjacency: Adjacency) -> str:
    """Return why randomized response has no bound here; "" if it has one, or for other mechanisms.

    Args:
        mechanism: of the phase.
        hierarchy: levels and schemes.
        unit: protected level, 1 (outermost) to depth.
        adjacency: relation between D and D'.
    """
    if not isinstance(mechanism, RandomizedResponse):
        return ""
    if adjacency is not Adjacency.REPLACE_ONE:
        return (
            "expected adjacency replace-one with randomized-response, which has no answer of a unit that is not there, "
            f"got {adjacency}"
        )
    if unit < hierarchy.depth:
        last, protected = hierarchy.level(hierarchy.depth).name, hierarchy.level(unit).name
        return f"expected the unit that answers by randomized-response, {last}, to be protected, got {protected}"
    return ""
