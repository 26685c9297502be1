"""The valid bounds of a phase, from its levels, sampling schemes and redraw periods.

A unit is part of each unit above it, so that the bound for replacing an ancestor as a whole covers it too. For one
unit and a single redraw period that never costs less; elsewhere it can, and the cheaper bound may be taken.

Source: docs/theory.md, Theorem 4.6 and Theorem 7.1.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, replace
from fractions import Fraction
from functools import partial
from itertools import groupby

from dpcalc.amplification.bound import (
    Average,
    Bound,
    Member,
    Part,
    hidden_group_bound,
    joint_step_bound,
    revealed_count_distributions,
)
from dpcalc.amplification.groups import Group, Placement, contexts
from dpcalc.amplification.mates import MatesAverage
from dpcalc.amplification.random_contents import (
    averaged_group_bound,
    averaged_unit_bound,
    exchanged_bound,
    member_contribution_distribution,
    single_unit_bound,
)
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
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import All, CheckIn, FixedAtRate, Poisson, RandomAllocation, Scheme, Shuffle


def phase_bounds(
    hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency, group: Group
) -> tuple[PhaseBound, ...]:
    """Return the valid bounds of a phase, of which any may be the smallest, own ones first; InputError if none is.

    A plain (K), which no other bound is below, is the only one.
    """
    if hierarchy.allocation is not None:
        return _allocated_bounds(hierarchy, path, clip, adjacency, group)
    if is_shortened(hierarchy, unit=len(path.counts), adjacency=adjacency, group=group):
        above = _ancestor_bounds(hierarchy, path, clip, adjacency, group)
        if not above:
            raise shortened_pass_error(hierarchy, unit=len(path.counts), group=group)
        return above
    native = native_bound(hierarchy, path, clip=clip, adjacency=adjacency, group=group)
    if native.plain is not None or hierarchy.episodes is not None:
        return (native,)
    hidden = _hidden_draws_bound(hierarchy, path, clip, adjacency, group)
    others = (_exchanged_bounds, _told_draw_bounds, _secret_order_bounds, _ancestor_bounds)
    more = (bound for others_of in others for bound in others_of(hierarchy, path, clip, adjacency, group))
    return (native, *(() if hidden is None else (hidden,)), *more)


def _secret_order_bounds(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> tuple[PhaseBound, ...]:
    """Return the bounds of passes over units of the outermost level in secret order; () for other draws.

    Members of a group are changed one after the other, or else the units of the outermost level that hold them.

    Source: docs/theory.md, Theorem 7.10.
    """
    shuffle, inner, unit = hierarchy.level(1).scheme, hierarchy.levels[1:], len(path.counts)
    if not (isinstance(shuffle, Shuffle) and shuffle.is_secret and hierarchy.level(1).is_equal):
        return ()
    is_plain = all(not level.scheme.is_shuffled and level.redraw_every == 1 for level in inner)
    if adjacency is Adjacency.ADD_REMOVE or clip < 1 or not is_plain:
        return ()
    whole = replace(hierarchy, levels=(replace(hierarchy.level(1), scheme=All()), *inner))
    drawn = replace(path, schemes=(All(), *path.schemes[1:]))
    # Another unit in the place of the unit's may contribute more than that does.
    mate = _path_down_to(drawn, 1)
    mate = replace(mate, contributions=(max(*mate.contributions, *mate.siblings),), mates=())
    mates = native_bound(whole, mate, clip=clip, adjacency=Adjacency.REPLACE_ONE, group=Group())
    one_by_one = replace(
        native_bound(whole, drawn, clip=clip, adjacency=adjacency, group=Group()),
        secret=shuffle.places(path.counts[0]),
        mates=mates.bound,
        steps_of_a_pass=shuffle.steps_of_a_pass(path.counts[0]),
        links="-" * group.size,
    )
    occupied = len(group.placement) if isinstance(group.placement, tuple) else group.size
    if unit == 1 or occupied == group.size:
        return (one_by_one,)
    return (one_by_one, replace(one_by_one, bound=mates.bound, links="-" * occupied))


def _allocated_bounds(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> tuple[PhaseBound, ...]:
    """Return the bounds of units that choose their steps: with the choice hidden, if one is proved, then revealed.

    Source: docs/theory.md, Theorem 7.6 and Theorem 7.7.
    """
    unit, allocated, base = len(path.counts), hierarchy.allocated, hierarchy.given_allocation()
    if unit < allocated:
        level, above = hierarchy.level(allocated), hierarchy.level(unit).name
        raise UnsupportedError(
            f"level {level.name}: expected a scheme of the protected level, {above}, or of one above it, got "
            f"{level.scheme.name} of each {level.name} of a {above}; state the scheme for {above}, or protect "
            f"{level.name} with group_size"
        )

    # With the choice public: of one unit, of several by links of one unit each, and of the whole group at once.
    revealed = partial(native_bound, base, clip=clip, adjacency=adjacency)
    if group.size == 1:
        bounds: tuple[PhaseBound, ...] = (replace(revealed(path, group=group), is_revealed=True),)
    else:
        removals = removal_paths(hierarchy, path, adjacency, group)
        first, *later = (revealed(each, group=Group()).bound for each in removals)
        by_links = PhaseBound(bound=first, later=tuple(later), is_revealed=True, links="-" * group.size)
        own = replace(revealed(path, group=group), is_revealed=True)
        # A step holds the members below some of the units that choose, at most all; each unit has visits of its own. At
        # the protected level each member is such a unit, and without a placement each may lie below another one.
        is_below = unit > allocated and group.placement is not None
        units = len(group.frames(allocated + 1)) if is_below else group.size
        bounds = (by_links, replace(own, units_together=units))
        if units > 1 and clip >= allocated:
            # Members in one step shift its sum by the sum of their shifts, which costs more than in steps of their own;
            # for Gaussian noise alone, and not where a vector clipped above them turns around at most.
            bounds = (*bounds, replace(own, units_together=1, is_gaussian_alone=True))

    # With the choice hidden: a bound for one unit covers several by links, and replace-one as a removal and an
    # addition. Members of a group choose several of all steps independently, so that no partition into passes is common
    # to them, but for a single one.
    is_common = not isinstance(hierarchy.allocation, RandomAllocation) or hierarchy.allocation.times == 1
    if unit == allocated and (is_common or group.size == 1):
        links, removal = "-" * group.size, adjacency
        if not _is_as_if_absent(adjacency, clip, unit):
            links, removal = links + "+" * group.size, Adjacency.ADD_REMOVE
        hidden = native_bound(base, path, clip=clip, adjacency=removal, group=Group())
        bounds = (replace(hidden, links=links), *bounds)
    return tuple(replace(bound, allocation=hierarchy.allocation) for bound in bounds)


def removal_paths(hierarchy: Hierarchy, path: Path, adjacency: Adjacency, group: Group) -> tuple[Path, ...]:
    """Return the paths of the members of a group as they are removed one after the other, in frames that shrink.

    Frames lose units in turn, so that the rates of no step rise above those of the next one. A draw of a fixed size
    from as many units or fewer takes all that are left; where the size of a frame is not known it counts as one that
    holds just as many and still puts somebody else in the place of the removed one, which costs no less.
    """
    scheme, count = path.schemes[-1], path.counts[-1]
    if adjacency is not Adjacency.ADD_REMOVE or not (scheme.has_stand_in or scheme.can_repeat):
        return (path,) * group.size
    is_known = hierarchy.level(len(path.counts)).is_equal and group.placement is not None
    paths = []
    for lost in sorted(lost for members in group.by_frame for lost in range(members)):
        left = max(count - lost, 1)
        drawn = scheme.for_counts(left, left) if is_known else scheme
        if drawn.has_stand_in:
            left = max(left, drawn.size)
        paths.append(
            replace(path, counts=(*path.counts[:-1], left), schemes=(*path.schemes[:-1], drawn), max_counts=())
        )
    return tuple(paths)


def _is_as_if_absent(adjacency: Adjacency, clip: int, unit: int) -> bool:
    """Return True if D' does not show whether the unit is drawn: removed, or zeroed and not clipped from above."""
    # Clipped from above, a zeroed unit can turn the vector that it is part of.
    return adjacency is Adjacency.ADD_REMOVE or (adjacency is Adjacency.ZERO_OUT and clip >= unit)


def averaged_choices(
    choices: tuple[PhaseBound, ...],
    hierarchy: Hierarchy,
    path: Path,
    *,
    shared: Path | None,
    clip: int,
    adjacency: Adjacency,
    group: Group,
) -> tuple[PhaseBound, ...]:
    """Return the choices of a phase with averages over random mates, added to them or in the place of a plain (K).

    The choices are unchanged for episodes, for steps that units choose, and for draws that are made in passes or with
    replacement.

    For one unit, if (K) is the only choice, every step draws anew and nothing is shared: its average, nowhere above
    (K), then the bound from joint distances. Else all choices, then the averages of the unit and its ancestors, or
    of the group; any may be the smallest.

    Source: docs/theory.md, Theorem 6.9, Theorem 6.10 and Theorem 6.11.
    """
    is_constructed = hierarchy.episodes is not None or hierarchy.allocation is not None
    if is_constructed or not all(scheme.is_simple or scheme.is_cut for scheme in path.schemes):
        return choices
    if group.size > 1:
        average = None
        if clip >= len(path.counts):
            average = _hidden_draws_bound(hierarchy, path, clip, adjacency, group, is_averaged=True)
        return choices if average is None else (*choices, average)

    def averaged(path: Path, adjacency: Adjacency) -> PhaseBound:
        average = partial(averaged_unit_bound, hierarchy, clip=clip, adjacency=adjacency)
        return bound_with_redraws(hierarchy, path, Group(), average)

    own = averaged(shared or path, adjacency)
    if choices[0].plain is not None and shared is None:
        if own.plain is None or own.plain is not own.bound:  # joint distances are proved for a plain (K) alone
            return (own,)
        joint = joint_step_bound(own.plain, path, clip=clip, adjacency=adjacency)
        return (own,) if joint is None else (own, replace(own, bound=joint))
    # The ancestors below the outermost that are clipped, or whose contents the bound knows.
    ancestors = [
        averaged(_path_down_to(shared or path, level), Adjacency.REPLACE_ONE)
        for level in range(2, len(path.counts) if len(choices) > 1 else 0)
        if level >= clip or _knows_contents(hierarchy, shared or path, level)
    ]
    return (*choices, *(bound for bound in (own, *ancestors) if isinstance(bound.bound, MatesAverage)))


def _exchanged_bounds(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> tuple[PhaseBound, ...]:
    """Return the bound of one unit of random contents that are not told; () for others.

    Source: docs/theory.md, Theorem 6.16.
    """
    if group.size > 1 or clip < len(path.counts) or not all(each.is_simple for each in path.schemes):
        return ()
    with suppress(WorkExceededError):
        hidden = partial(exchanged_bound, hierarchy, clip=clip, adjacency=adjacency)
        slow = [level.redraw_every > hierarchy.level(len(path.counts)).redraw_every for level in hierarchy.levels]
        drawn = replace(
            path, schemes=tuple(All() if held else each for each, held in zip(path.schemes, slow, strict=False))
        )
        if (bound := hidden(drawn)) is not None:
            return (replace(bound_with_redraws(hierarchy, path, group, lambda _: bound), is_gaussian_alone=True),)
    return ()


def _told_draw_bounds(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> tuple[PhaseBound, ...]:
    """Return the bounds of a unit whose own draw is held above faster ones: with a CheckIn, and with that draw told.

    Source: docs/theory.md, Theorem 7.8 and Theorem 7.11.
    """
    unit, scheme = len(path.counts), path.schemes[-1]
    level, below = hierarchy.level(unit), hierarchy.levels[unit:]
    faster = [each.redraw_every for each in below if each.redraw_every < level.redraw_every and not each.is_whole]
    if group.size > 1 or not faster or not all(each.is_simple for each in path.schemes):
        return ()
    # Steps that surely hold the unit, in the rhythm of the first faster draw. What Poisson draws below the unit hold as
    # long as it is held is taken to be there.
    rhythm = faster[0]
    levels = tuple(
        each
        if each.redraw_every <= rhythm
        else replace(each, scheme=each.scheme if at > unit and each.scheme.has_stand_in else All(), redraw_every=rhythm)
        for at, each in enumerate(hierarchy.levels, start=1)
    )
    present = replace(path, schemes=(All(),) * unit)
    step = native_bound(replace(hierarchy, levels=levels), present, clip=clip, adjacency=adjacency, group=group)
    is_as_if_absent = _is_as_if_absent(adjacency, clip, unit)
    is_check_in = rhythm == 1 and scheme.is_independent and scheme.probability and is_as_if_absent
    bounds: tuple[PhaseBound, ...] = ()
    if is_check_in and all(each.is_whole for each in hierarchy.levels[: unit - 1]):
        bounds = (replace(step, allocation=CheckIn(rate=scheme.probability, length=level.redraw_every)),)
    if adjacency is Adjacency.ADD_REMOVE and scheme.has_stand_in:  # another unit takes the place of a removed one
        largest = max(path.contributions[-1], path.siblings[-1])
        present = replace(present, contributions=(*path.contributions[:-1], largest))
        step = native_bound(
            replace(hierarchy, levels=levels), present, clip=clip, adjacency=Adjacency.REPLACE_ONE, group=group
        )
    return (*bounds, replace(step, revealed=_public_draws(hierarchy, path, group, range(1, unit + 1))))


def _ancestor_bounds(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group
) -> tuple[PhaseBound, ...]:
    """Return the bounds of the ancestors with known contents, of several if the members have several parents.

    They are replaced; where all that they hold are members they may be zeroed, too.

    Source: docs/theory.md, Theorem 6.12.
    """
    unit, bounds, above = len(path.counts), list[PhaseBound](), group
    for level in range(unit - 1, 0, -1):
        inner = hierarchy.levels[level:unit]
        if isinstance(above.placement, tuple):
            placement = _holders(above.placement)
            above = Group(size=sum(Group(size=2, placement=placement).by_frame), placement=placement)
        elif group.size > 1:
            break
        is_plain = hierarchy.tree is None and all(each.is_simple for each in path.schemes)
        if not _knows_contents(hierarchy, path, level) or (above.size > 1 and not is_plain):
            continue
        alone = Group() if above.size == 1 else above
        relations = [Adjacency.REPLACE_ONE]
        is_known = hierarchy.tree is None and all(each.is_equal for each in inner)
        if is_known and group.size == above.size * math.prod(each.count for each in inner):
            # All that they hold are members. Clipped above the members, zeroed records may still turn the vector that
            # they are part of; without records it is 0, and of a clip above them a unit without records is as good as
            # removed, unless it takes the place of another one.
            if adjacency is Adjacency.ADD_REMOVE and all(each.scheme.is_simple for each in hierarchy.levels):
                if clip >= level:
                    relations.append(Adjacency.ZERO_OUT)
                elif not path.schemes[level - 1].has_stand_in:
                    relations.append(Adjacency.ADD_REMOVE)
            elif adjacency is Adjacency.ZERO_OUT and clip >= unit:
                relations.append(Adjacency.ZERO_OUT)
        holders = _path_down_to(path, level)
        for relation in relations:
            is_replaced = relation is Adjacency.REPLACE_ONE
            found = [native_bound(hierarchy, holders, clip=clip, adjacency=relation, group=alone)]
            if group.size > 1 or not is_replaced:
                found += _exchanged_bounds(hierarchy, holders, clip, relation, alone)
            bounds += found if is_replaced else (replace(each, is_gaussian_alone=True) for each in found)
    return tuple(bounds[::-1])


def _holders(placement: tuple[Placement, ...]) -> Placement:
    """Return the placement of the units that hold members."""
    if any(isinstance(inner, tuple) for inner in placement):
        return tuple(_holders(inner) for inner in placement if isinstance(inner, tuple))
    return len(placement)


def _knows_contents(hierarchy: Hierarchy, path: Path, level: int) -> bool:
    """Return True if a bound knows what an ancestor holds: no tree, or its level is shuffled or drawn at rate < 1."""
    return hierarchy.tree is None or path.schemes[level - 1].is_shuffled or path.rate(level) < 1


def _hidden_draws_bound(
    hierarchy: Hierarchy, path: Path, clip: int, adjacency: Adjacency, group: Group, *, is_averaged: bool = False
) -> PhaseBound | None:
    """Return a placed group's bound with the draws above its members hidden; None if not proved or too costly.

    It is averaged over what non-members contribute if `is_averaged`, for groups that are not clipped from above.
    """
    # Draws down to the unit may be hidden if they are fixed, Poisson or `all`, of one period, and of known contents.
    periods = {level.redraw_every for level in hierarchy.levels[: len(path.counts)]}
    is_simple = all(scheme.is_simple for scheme in path.schemes)
    may_hide = is_simple and clip > 0 and len(periods) == 1 and _knows_contents(hierarchy, path, 1)
    if not isinstance(group.placement, tuple) or not may_hide:
        return None
    each = member_contribution_distribution(hierarchy, path, clip=clip, adjacency=adjacency)
    member = _member_effect(path, clip, adjacency, is_counted=each is not None)
    with suppress(WorkExceededError):
        bound = (
            averaged_group_bound(hierarchy, path, group.placement, member, clip=clip)
            if is_averaged
            else hidden_group_bound(path, group.placement, member, each=each)
        )
        return None if bound is None else PhaseBound(bound=bound, hold=hierarchy.level(len(path.counts)).redraw_every)
    return None


def _path_down_to(path: Path, unit: int) -> Path:
    """Return the part of the path from level 1 down to level `unit`."""
    return Path(**{field.name: getattr(path, field.name)[:unit] for field in fields(path)})


def native_bound(hierarchy: Hierarchy, path: Path, *, clip: int, adjacency: Adjacency, group: Group) -> PhaseBound:
    """Return the bound of the protected units themselves: of a pass if their path has a shuffle, else of a draw.

    Passes are taken to have the same number of steps in D and D'.
    """
    unit = len(path.counts)
    if (built := hierarchy.episodes) is not None:
        if clip < 2:  # without its class a task is any other task
            member = _member_of_vector(adjacency if unit == 1 else Adjacency.REPLACE_ONE)
        else:
            own, taken = (built.records, built.ways) if unit == 1 else (1, built.records)
            # A task that takes all classes, or all records, leaves no other unit to take the place of a missed one.
            stand_in = None if taken == hierarchy.level(unit).count else own
            member = Member(own=own, stand_in=stand_in, adjacency=adjacency)
        return PhaseBound(bound=member.bound(revealed_count_distributions(hierarchy, path, clip=clip, group=group)))
    shuffled = is_shuffled(path)
    # A group can be in several batches of a pass, and their vectors count separately even if each batch is one vector.
    counted_level = max(clip, 1) if shuffled and group.size > 1 else clip

    def of_draw(drawn: Path) -> Bound:
        # Of one unit, or by the law of how many members are drawn.
        if group.size == 1 and not any(scheme.can_repeat for scheme in drawn.schemes):
            return single_unit_bound(hierarchy, drawn, clip=clip, adjacency=adjacency)
        each = member_contribution_distribution(hierarchy, drawn, clip=clip, adjacency=adjacency)
        laws = revealed_count_distributions(hierarchy, drawn, clip=counted_level, group=group, each=each)
        return _member_effect(drawn, clip, adjacency, is_counted=each is not None).bound(laws)

    phase_bound = bound_with_redraws(hierarchy, path, group, of_draw)
    return bound_per_pass(phase_bound, path, clip=clip, adjacency=adjacency, group=group) if shuffled else phase_bound


def bound_with_redraws(hierarchy: Hierarchy, path: Path, group: Group, bound: Callable[[Path], Bound]) -> PhaseBound:
    """Return a phase bound from that of a draw, where draws of ancestors that are held for longer are public.

    Source: docs/theory.md, Theorem 7.1 and Theorem 7.2.
    """
    unit = len(path.counts)
    hold = hierarchy.level(unit).redraw_every
    slow = [level for level in range(1, unit) if hierarchy.level(level).redraw_every > hold]
    drawn = pass_as_draw(path, group)
    schemes = tuple(All() if at in slow else scheme for at, scheme in enumerate(drawn.schemes, start=1))
    return PhaseBound(
        bound=average_over_cuts(replace(drawn, schemes=schemes), bound),
        hold=hold,
        revealed=_public_draws(hierarchy, path, group, slow),
    )


def _public_draws(
    hierarchy: Hierarchy, path: Path, group: Group, levels: Iterable[int]
) -> tuple[tuple[Fraction, int], ...]:
    """Return (chance that draws of these levels reach any member, redraw period) by period, where that is not sure."""
    revealed = []
    for period, of_period in groupby(levels, key=lambda level: hierarchy.level(level).redraw_every):
        drawn = [*of_period]  # consecutive levels, given that all above them reach some member
        rate = min(Fraction(1), group.size * math.prod(map(path.rate, drawn), start=Fraction(1)))
        if group.size > 1 and group.placement is not None:
            # Members under different drawn units are reached independently, so that the chance that none is reached is
            # the product over the frames in which a draw of these levels begins.
            first, last, none = drawn[0] - 1, drawn[-1], Fraction(1)
            with suppress(WorkExceededError):
                for frame in group.frames(drawn[0]):
                    occupied = _truncated_placement(frame, last - first)
                    none *= contexts(occupied, path.schemes[first:last], path.counts[first:last]).get((), Fraction(0))
                rate = 1 - none
        if rate < 1:
            revealed.append((rate, period))
    return tuple(revealed)


def _truncated_placement(placement: Placement, depth: int) -> Placement:
    """Return the placement cut off `depth` levels down; each unit there that holds members becomes the number 1."""
    if not depth or not isinstance(placement, tuple):
        return 1
    return tuple(_truncated_placement(inner, depth - 1) for inner in placement)


def _member_effect(path: Path, clip: int, adjacency: Adjacency, *, is_counted: bool) -> Member:
    """Return the effect of a drawn member, or of one contribution of it if these are counted."""
    if clip < len(path.counts):
        return _member_of_vector(adjacency)
    replaced = path.schemes[-1].has_stand_in or path.schemes[-1].can_repeat
    own = 1 if is_counted else path.contributions[-1]
    return Member(own=own, stand_in=path.siblings[-1] if replaced else None, adjacency=adjacency)


def _member_of_vector(adjacency: Adjacency) -> Member:
    """Return the effect of a member on a vector clipped above it, which turns around; zero-out is as replace-one."""
    is_removed = adjacency is Adjacency.ADD_REMOVE
    return Member(own=1, stand_in=1, adjacency=adjacency if is_removed else Adjacency.REPLACE_ONE)


# Poisson batches that are cut at random to a maximum: whether the other units alone fill the batch is revealed. Given
# that they do not, the draw is a Poisson draw; given that they do, it is a draw of a fixed size, in which another unit
# stands in for a missed one. Whether they do is the same in D and D', so that the bound is the average of the two.

_MAX_AVERAGED = 3  # capped levels of which each is averaged: 27 parts; another one counts as always full


def average_over_cuts(path: Path, bound: Callable[[Path], Bound]) -> Bound:
    """Return the bound averaged over which capped draws are full; unchanged if no draw is capped.

    An upper bound in both directions.

    Source: docs/theory.md, Theorem 4.9.
    """
    if not any(scheme.is_cut for scheme in path.schemes):
        return bound(path)
    outcomes: list[tuple[Fraction, tuple[Scheme, ...]]] = [(Fraction(1), ())]  # (probability, schemes by level)
    capped = 0
    for scheme, min_count, max_count in zip(path.schemes, path.counts, path.max_counts, strict=True):
        cases: list[tuple[Fraction, Scheme]] = [(Fraction(1), scheme)]
        if scheme.is_cut and scheme.limit:
            capped += 1
            rate, cap = scheme.probability, scheme.limit
            # A full batch at the rate of a Poisson draw costs no less than the capped draw.
            always_full = FixedAtRate(size=cap, probability=rate)
            cases = [(Fraction(1), always_full)]
            few = full_batch(min_count - 1, rate, cap) if capped <= _MAX_AVERAGED else None
            many = full_batch(max_count - 1, rate, cap) if capped <= _MAX_AVERAGED else None
            if few is not None and many is not None:
                # Of more units the batch is full more often, and each is in it less often. Where it may or may not be
                # full, a full batch at the rate of a Poisson draw costs no less than either.
                by_size: list[tuple[Fraction, Scheme]] = [
                    (1 - many.chance, Poisson(probability=rate)),
                    (few.chance, FixedAtRate(size=cap, probability=few.inclusion or rate)),
                    (many.chance - few.chance, always_full),
                ]
                cases = [case for case in by_size if case[0]]
        outcomes = [(chance * share, (*above, case)) for chance, above in outcomes for share, case in cases]
    parts: list[tuple[Fraction, Part]] = []
    largest: list[tuple[Fraction, Part]] = []
    for chance, schemes in outcomes:
        part = bound(replace(path, schemes=schemes))
        for found, each in (parts, part), (largest, part.largest if isinstance(part, MatesAverage) else part):
            found.extend((chance * p, x) for p, x in (each.parts if isinstance(each, Average) else ((1, each),)))
    whole = Average(parts=tuple(largest))
    return whole if parts == largest else MatesAverage(parts=tuple(parts), largest=whole)


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
    # A promise for batches of one size holds if a draw takes as many units where `group_size` of them are missing.
    level = hierarchy.level(unit)
    scheme, left = level.scheme, level.min_count - group_size
    if hierarchy.episodes is not None:
        keeps_sizes = (hierarchy.episodes.ways if unit == 1 else hierarchy.episodes.records) <= left
    elif scheme.has_stand_in or scheme.can_repeat:
        keeps_sizes = left >= (1 if scheme.can_repeat else scheme.size)
    else:
        keeps_sizes = scheme.drop_last and not hierarchy.loses_steps(unit, scheme, group_size)
    if keeps_sizes or change_of(mechanism, adjacency).covers_missing:
        return ""
    return (
        "expected a guarantee for a unit that is added or removed, `relation: add-remove` or `any`: with adjacency "
        f"add-remove a batch may lack a unit ({hierarchy.level(unit).name}) in whose place there is no other, got "
        "relation replace-one"
    )
