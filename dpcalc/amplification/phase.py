"""The valid bounds of a phase, from its levels, sampling schemes and redraw periods.

A unit is part of each unit above it, so that the bound for replacing an ancestor as a whole covers it too. For one
unit and a single redraw period that never costs less; elsewhere it can, and the cheaper bound may be taken.

Source: docs/theory.md, Theorem 4.6 and Theorem 7.1.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
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
from dpcalc.mechanisms.kinds import Mechanism, Promise, change_of
from dpcalc.sampling.counts import full_batch
from dpcalc.sampling.hierarchy import Episodes, Hierarchy, scheme_for_count
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
    """Return the valid bounds of a phase, of which any may be the smallest, own ones first; InputError if none is.

    A plain (K), which no other bound is below, is the only one.
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
    check_in = _check_in_bound(hierarchy, path, clip, adjacency, group)
    own = (bound for bound in (native, hidden, check_in) if bound is not None)
    return (*own, *_ancestor_bounds(hierarchy, path, clip, group))


def _allocated_bounds(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> tuple[PhaseBound, ...]:
    """Return the bounds of units that choose their steps: with the choice hidden, if one is proved, then revealed.

    Source: docs/theory.md, Theorem 7.6 and Theorem 7.7.
    """
    # A bound for one unit covers several by links, and replace-one as a removal and an addition.
    unit, allocation = len(path.counts), hierarchy.allocation
    _check_not_above_allocation(hierarchy, unit)
    bounds = _revealed_choice_bounds(hierarchy, path, clip, adjacency, group)
    # Members of a group choose several of all steps independently, so that no partition into passes is common to them.
    has_passes = isinstance(allocation, BallsInBins) or group.size == 1
    if unit == hierarchy.allocated and has_passes:
        bounds = (_hidden_choice_bound(hierarchy, path, clip, adjacency, group), *bounds)
    return tuple(replace(bound, allocation=allocation) for bound in bounds)


def _check_not_above_allocation(hierarchy: Hierarchy, unit: int) -> None:
    """Raise UnsupportedError if the protected level is above the one whose units choose their steps."""
    if unit < hierarchy.allocated:
        allocated, above = hierarchy.level(hierarchy.allocated), hierarchy.level(unit).name
        raise UnsupportedError(
            f"level {allocated.name}: expected a scheme of the protected level, {above}, or of one above it, got "
            f"{allocated.scheme.name} of each {allocated.name} of a {above}; state the scheme for {above}, or protect "
            f"{allocated.name} with group_size"
        )


def _revealed_choice_bounds(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> tuple[PhaseBound, ...]:
    """Return bounds with the choice of steps public: one unit's with links, then a group's own.

    Source: docs/theory.md, Theorem 7.7 (4).
    """
    base = hierarchy.given_allocation()
    bound = partial(native_bound, base, clip=clip, adjacency=adjacency)
    if group.size == 1:
        return (replace(bound(path, group=group), is_revealed=True),)
    first, *later = (bound(each, group=Group()).bound for each in removal_paths(hierarchy, path, adjacency, group))
    by_links = PhaseBound(bound=first, later=tuple(later), is_revealed=True, links="-" * group.size)
    own = replace(bound(path, group=group), is_revealed=True)
    # A step holds the members below some of the units that choose, at most all; each unit has visits of its own.
    units = _occupied_units(group, hierarchy.allocated)
    together = replace(own, units_together=units)
    if units == 1 or clip < hierarchy.allocated:
        return by_links, together
    # Members in one step shift its sum by the sum of their shifts, which costs more than in steps of their own; for
    # Gaussian noise alone, and not where a vector clipped above them turns around at most.
    return by_links, together, replace(own, units_together=1, is_gaussian_alone=True)


def removal_paths(hierarchy: Hierarchy, path: Path, adjacency: Adjacency, group: Group) -> tuple[Path, ...]:
    """Return the paths of the members of a group as they are removed one after the other, in frames that shrink.

    Frames lose units in turn, so that the rates of no step rise above those of the next one. A draw of a fixed size
    from as many units or fewer takes all that are left; where the size of a frame is not known it counts as one that
    holds just as many and still puts somebody else in the place of the removed one, which costs no less.
    """
    scheme, count = path.schemes[-1], path.counts[-1]
    if adjacency is not Adjacency.ADD_REMOVE or not isinstance(scheme, Fixed | WithReplacement):
        return (path,) * group.size
    is_known = hierarchy.level(len(path.counts)).is_equal and group.placement is not None
    frames = _leaves(group.placement) if group.placement is not None else (group.size,)
    paths = []
    for lost in sorted(lost for members in frames for lost in range(members)):
        left = max(count - lost, 1)
        drawn = scheme_for_count(scheme, left) if is_known else scheme
        if isinstance(drawn, Fixed):
            left = max(left, drawn.size)
        paths.append(
            replace(path, counts=(*path.counts[:-1], left), schemes=(*path.schemes[:-1], drawn), max_counts=())
        )
    return tuple(paths)


def _leaves(placement: Placement) -> tuple[int, ...]:
    """Return the numbers of members in the frames of a placement."""
    return tuple(leaf for each in placement for leaf in _leaves(each)) if isinstance(placement, tuple) else (placement,)


def _occupied_units(group: Group, level: int) -> int:
    """Return how many units of a level hold members, at most; at the protected level each member is one."""
    if group.placement is None:
        return group.size
    frames = [group.placement]
    for _ in range(level):
        if not all(isinstance(frame, tuple) for frame in frames):
            return group.size
        frames = [inner for frame in frames if isinstance(frame, tuple) for inner in frame]
    return len(frames)


def _hidden_choice_bound(hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group) -> PhaseBound:
    """Return the bound for removing one unit whose choice of steps is hidden, and the links that lead to D'."""
    links, removal = "-" * group.size, adjacency
    if not _is_as_if_absent(adjacency, clip, len(path.counts)):
        links, removal = links + "+" * group.size, Adjacency.ADD_REMOVE
    base = hierarchy.given_allocation()
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
    """Return the choices of a phase with averages over random mates, added to them or in the place of a plain (K).

    The choices are unchanged for episodes, for steps that units choose, and for other draws than fixed, Poisson and
    `all` ones.

    For one unit, if (K) is the only choice, every step draws anew and nothing is shared: its average, nowhere above
    (K), then the bound from joint distances. Else all choices, then the averages of the unit and its ancestors, or
    of the group; any may be the smallest.

    Source: docs/theory.md, Theorem 6.9, Theorem 6.10 and Theorem 6.11.
    """
    (hierarchy, clip), (path, shared) = hierarchy_and_clip, path_and_shared
    is_constructed = hierarchy.episodes is not None or hierarchy.allocation is not None
    if is_constructed or not {*map(type, path.schemes)} <= {Fixed, Poisson, All}:
        return choices
    if group.size > 1:
        average = _averaged_group_bound(hierarchy, path, clip, adjacency, group)
        return choices if average is None else (*choices, average)
    own = _averaged_unit_bound(hierarchy, shared or path, clip, adjacency)
    if choices[0].plain is not None and shared is None:
        return (own, *_joint_distances_bound(own, path, clip, adjacency))
    ancestors = _averaged_ancestor_bounds(hierarchy, shared or path, clip) if len(choices) > 1 else ()
    return (*choices, *(bound for bound in (own, *ancestors) if isinstance(bound.bound, MatesAverage)))


def _averaged_unit_bound(hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency) -> PhaseBound:
    """Return the phase bound of one unit, averaged over its mates wherever `averaged_unit_bound` is."""
    average = partial(averaged_unit_bound, hierarchy, clip=clip, adjacency=adjacency)
    return bound_with_redraws(hierarchy, path, Group(), average)


def _joint_distances_bound(own: PhaseBound, path: Path, clip: int, adjacency: Adjacency) -> tuple[PhaseBound, ...]:
    """Return the bound from joint distances in place of a plain (K); () if that is averaged or none is proved."""
    if own.plain is None or own.plain is not own.bound:
        return ()
    joint = joint_step_bound(own.plain, path, clip=clip, adjacency=adjacency)
    return () if joint is None else (replace(own, bound=joint),)


def _averaged_ancestor_bounds(hierarchy: Hierarchy, path: Path, clip: int) -> tuple[PhaseBound, ...]:
    """Return averaged replace-one bounds of the ancestors below the outermost that are clipped or of known contents."""
    return tuple(
        _averaged_unit_bound(hierarchy, _path_down_to(path, level), clip, Adjacency.REPLACE_ONE)
        for level in range(2, len(path.counts))
        if level >= clip or _knows_contents(hierarchy, path, level)
    )


def _check_in_bound(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> PhaseBound | None:
    """Return a bound, with a CheckIn, of a step with one unit in it; None unless its Poisson draw is held above fresh.

    Source: docs/theory.md, Theorem 7.8.
    """
    unit, scheme = len(path.counts), path.schemes[-1]
    is_check_in = group.size == 1 and _is_as_if_absent(adjacency, clip, unit) and _is_held_above_fresh(hierarchy, unit)
    if not isinstance(scheme, Poisson) or not scheme.probability or not is_check_in:
        return None
    present = replace(path, schemes=(*path.schemes[:-1], All()))
    base = _with_unit_in_every_step(hierarchy, unit)
    step = native_bound(base, present, clip=clip, adjacency=adjacency, group=group)
    return replace(step, allocation=CheckIn(rate=scheme.probability, length=hierarchy.level(unit).redraw_every))


def _with_unit_in_every_step(hierarchy: Hierarchy, unit: int) -> Hierarchy:
    """Return the hierarchy with level `unit` drawn whole and all draws made anew in every step."""
    levels = [
        replace(level, scheme=All() if at == unit else level.scheme, redraw_every=1)
        for at, level in enumerate(hierarchy.levels, start=1)
    ]
    return replace(hierarchy, levels=tuple(levels))


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
) -> PhaseBound | None:
    """Return a placed group's bound with the draws above its members hidden; None if not proved or too costly."""
    if not isinstance(group.placement, tuple) or not _can_hide_draws(hierarchy, path, clip):
        return None
    each = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=adjacency)
    member = _member_effect(path, clip, adjacency, is_counted=each is not None)
    with suppress(WorkExceededError):
        bound = hidden_group_bound(path, group.placement, member, each=each)
        return None if bound is None else PhaseBound(bound=bound, hold=hierarchy.level(len(path.counts)).redraw_every)
    return None


def _can_hide_draws(hierarchy: Hierarchy, path: Path, clip: int) -> bool:
    """Return True if draws down to the unit may be hidden: fixed, Poisson or `all`, of one period, contents known."""
    simple = all(isinstance(scheme, Fixed | Poisson | All) for scheme in path.schemes)
    periods = {level.redraw_every for level in hierarchy.levels[: len(path.counts)]}
    return simple and clip > 0 and len(periods) == 1 and _knows_contents(hierarchy, path, 1)


def _averaged_group_bound(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> PhaseBound | None:
    """Return `_hidden_draws_bound` averaged over what non-members contribute; None too if clipped above the members."""
    if not isinstance(group.placement, tuple) or clip < len(path.counts) or not _can_hide_draws(hierarchy, path, clip):
        return None
    each = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=adjacency)
    member = _member_effect(path, clip, adjacency, is_counted=each is not None)
    with suppress(WorkExceededError):
        bound = averaged_group_bound(hierarchy, path, group.placement, member, clip=clip)
        return None if bound is None else PhaseBound(bound=bound, hold=hierarchy.level(len(path.counts)).redraw_every)
    return None


def _path_down_to(path: Path, unit: int) -> Path:
    """Return the part of the path from level 1 down to level `unit`."""
    return Path(**{field.name: getattr(path, field.name)[:unit] for field in fields(path)})


def native_bound(hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency, group: Group) -> PhaseBound:
    """Return the bound of the protected units themselves: of a pass if their path has a shuffle, else of a draw.

    Passes are taken to have the same number of steps in D and D'.
    """
    if (built := hierarchy.episodes) is not None:
        member = _member_of_episode(built, path, hierarchy.level(len(path.counts)).count, clip, adjacency)
        return PhaseBound(bound=member.bound(revealed_count_distributions(hierarchy, path, clip=clip, group=group)))
    shuffled = is_shuffled(path)
    # A group can be in several batches of a pass, and their vectors count separately even if each batch is one vector.
    levels = clip, max(clip, 1) if shuffled and group.size > 1 else clip
    draw = partial(_draw_bound, hierarchy, clip_and_counted_level=levels, adjacency=adjacency, group=group)
    phase_bound = bound_with_redraws(hierarchy, path, group, draw)
    return bound_per_pass(phase_bound, path, clip=clip, adjacency=adjacency, group=group) if shuffled else phase_bound


def bound_with_redraws(hierarchy: Hierarchy, path: Path, group: Group, bound: Callable[[Path], Bound]) -> PhaseBound:
    """Return a phase bound from that of a draw, where draws of ancestors that are held for longer are public.

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
    """Return an upper bound on the chance that draws of consecutive `levels` reach any member, if all above do."""
    if group.size > 1 and group.placement is not None:
        with suppress(WorkExceededError):
            return _chance_of_any_placed(path, group.placement, levels)
    return min(Fraction(1), group.size * math.prod(map(path.rate, levels), start=Fraction(1)))


def _chance_of_any_placed(path: Path, placement: Placement, levels: list[int]) -> Fraction:
    """Return the exact chance that draws of `levels` reach a unit that holds members; WorkExceededError if costly."""
    # Members under different drawn units are reached independently, so that the chance that none is reached is the
    # product over the frames in which a draw of `levels` begins.
    first, last = levels[0] - 1, levels[-1]
    frames = [placement]
    for _ in range(first):
        frames = [inner for frame in frames if isinstance(frame, tuple) for inner in frame]
    none = Fraction(1)
    for frame in frames:
        occupied = _truncated_placement(frame, last - first)
        none *= contexts(occupied, path.schemes[first:last], path.counts[first:last]).get((), Fraction(0))
    return 1 - none


def _truncated_placement(placement: Placement, depth: int) -> Placement:
    """Return the placement cut off `depth` levels down; each unit there that holds members becomes the number 1."""
    if not depth or not isinstance(placement, tuple):
        return 1
    return tuple(_truncated_placement(inner, depth - 1) for inner in placement)


def _draw_bound(
    hierarchy: Hierarchy, path: Path, clip_and_counted_level: tuple[int, int], adjacency: Adjacency, group: Group
) -> Bound:
    """Return one unit's bound of one draw; for groups and with replacement by the law of how many members are drawn."""
    clip, counted_level = clip_and_counted_level
    if group.size == 1 and not any(isinstance(scheme, WithReplacement) for scheme in path.schemes):
        return single_unit_bound(hierarchy, path, clip=clip, adjacency=adjacency)
    each = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=adjacency)
    laws = revealed_count_distributions(hierarchy, path, clip=counted_level, group=group, each=each)
    return _member_effect(path, clip, adjacency, is_counted=each is not None).bound(laws)


def _member_effect(path: Path, clip: int, adjacency: Adjacency, *, is_counted: bool) -> Member:
    """Return the effect of a drawn member, or of one contribution of it if these are counted."""
    if clip < len(path.counts):
        return _member_of_vector(adjacency)
    replaced = isinstance(path.schemes[-1], (Fixed, WithReplacement))
    own = 1 if is_counted else path.contributions[-1]
    return Member(own=own, stand_in=path.siblings[-1] if replaced else None, adjacency=adjacency)


def _member_of_vector(adjacency: Adjacency) -> Member:
    """Return the effect of a member on a vector clipped above it, which turns around; zero-out is as replace-one."""
    is_removed = adjacency is Adjacency.ADD_REMOVE
    return Member(own=1, stand_in=1, adjacency=adjacency if is_removed else Adjacency.REPLACE_ONE)


def _member_of_episode(built: Episodes, path: Path, max_count: int, clip: int, adjacency: Adjacency) -> Member:
    """Return the effect of one task with the protected class or record, whose level has up to `max_count` units."""
    is_class = len(path.counts) == 1
    if clip < 2:  # without its class a task is any other task
        return _member_of_vector(adjacency if is_class else Adjacency.REPLACE_ONE)
    own, taken = (built.records, built.ways) if is_class else (1, built.records)
    # A task that takes all classes, or all records, leaves no other unit to take the place of a missed one.
    return Member(own=own, stand_in=None if taken == max_count else own, adjacency=adjacency)


# Poisson batches that are cut at random to a maximum: whether the other units alone fill the batch is revealed. Given
# that they do not, the draw is a Poisson draw; given that they do, it is a draw of a fixed size, in which another unit
# stands in for a missed one. Whether they do is the same in D and D', so that the bound is the average of the two.

_MAX_AVERAGED = 3  # capped levels of which each is averaged: 27 parts; another one counts as always full


def average_over_cuts(path: Path, bound: Callable[[Path], Bound]) -> Bound:
    """Return the bound averaged over which capped draws are full; unchanged if no draw is capped.

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
    """Return (probability, schemes by level) by whether the first 3 capped draws are full; further ones always are."""
    outcomes: list[tuple[Fraction, tuple[Scheme, ...]]] = [(Fraction(1), ())]
    capped = 0
    for scheme, *counts in zip(path.schemes, path.counts, path.max_counts, strict=True):
        cases: list[tuple[Fraction, Scheme]] = [(Fraction(1), scheme)]
        if isinstance(scheme, CappedPoisson):
            capped += 1
            cases = _capped_cases(scheme, *counts) if capped <= _MAX_AVERAGED else [(Fraction(1), _always_full(scheme))]
        outcomes = [(chance * share, (*above, case)) for chance, above in outcomes for share, case in cases]
    return outcomes


def _capped_cases(scheme: CappedPoisson, min_count: int, max_count: int) -> list[tuple[Fraction, Scheme]]:
    """Return (probability, scheme) of a capped draw with room, surely full, perhaps full; the last alone if costly."""
    rate, cap = scheme.probability, scheme.max_batch_size
    few, many = full_batch(min_count - 1, rate, cap), full_batch(max_count - 1, rate, cap)
    if few is None or many is None:
        return [(Fraction(1), _always_full(scheme))]
    # Of more units the batch is full more often, and each is in it less often. Where it may or may not be full, a
    # full batch at the rate of a Poisson draw costs no less than either.
    cases: list[tuple[Fraction, Scheme]] = [
        (1 - many.chance, Poisson(probability=rate)),
        (few.chance, FixedAtRate(size=cap, probability=few.inclusion or rate)),
        (many.chance - few.chance, _always_full(scheme)),
    ]
    return [case for case in cases if case[0]]


def _always_full(scheme: CappedPoisson) -> FixedAtRate:
    """Return the full batch at the rate of the Poisson draw, which costs no less than the capped draw."""
    return FixedAtRate(size=scheme.max_batch_size, probability=scheme.probability)


def black_box_refusal(
    mechanism: Mechanism, hierarchy: Hierarchy, *, unit: int, adjacency: Adjacency, group_size: int
) -> str:
    """Return why a mechanism that counts units has no bound here; "" if it has one, or for other mechanisms."""
    if isinstance(mechanism, RandomizedResponse):
        if adjacency is not Adjacency.REPLACE_ONE:
            return (
                "expected adjacency replace-one with randomized-response, which has no answer of a unit that is not "
                f"there, got {adjacency}"
            )
        if unit < hierarchy.depth:
            last, protected = hierarchy.level(hierarchy.depth).name, hierarchy.level(unit).name
            return f"expected the unit that answers by randomized-response, {last}, to be protected, got {protected}"
    if not isinstance(mechanism, Promise) or adjacency is not Adjacency.ADD_REMOVE:
        return ""
    if change_of(mechanism, adjacency).covers_missing or _keeps_batch_sizes(hierarchy, unit, group_size):
        return ""
    return (
        "expected a guarantee for a unit that is added or removed, `relation: add-remove` or `any`: with adjacency "
        f"add-remove a batch may lack a unit ({hierarchy.level(unit).name}) in whose place there is no other, got "
        "relation replace-one"
    )


def _keeps_batch_sizes(hierarchy: Hierarchy, unit: int, removed: int) -> bool:
    """Return True if a draw takes as many units of the protected level where `removed` of them are missing."""
    level = hierarchy.level(unit)
    if (built := hierarchy.episodes) is not None:
        return (built.ways if unit == 1 else built.records) <= level.min_count - removed
    match level.scheme:
        case Fixed(size=size):
            return size <= level.min_count - removed
        case WithReplacement():
            return level.min_count > removed
        case Shuffle(drop_last=True) as shuffle:
            return not hierarchy.loses_steps(unit, shuffle, removed)
        case _:
            return False
