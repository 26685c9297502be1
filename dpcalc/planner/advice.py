"""Notes beside a result: numbers of other tools that are lower, and changes of the run that would lower epsilon."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from dpcalc.amplification.bound import StepBound
from dpcalc.amplification.counts import Bound
from dpcalc.errors import WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.kinds import Promise, change_of
from dpcalc.planner.composition import Composition
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.published import are_one_step_bounds, opacus_epsilon, opacus_steps, rates_in_words
from dpcalc.records import dataclass
from dpcalc.sampling.counts import full_batch
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import BallsInBins, CappedPoisson, CyclicPoisson, Fixed, Poisson, Shuffle, WithReplacement
from dpcalc.work import PART

WORTH_SAYING = 1.1  # a change that does not lower epsilon by this factor is not worth a line
_NEARLY_FREE = 1.01  # factor on epsilon below which a cap on batches costs next to nothing


@dataclass(frozen=True, kw_only=True)
class Note:
    """A remark beside a result.

    Attributes:
        text: one sentence with one `{}` for each number.
        epsilons: the numbers, unrounded.
    """

    text: str
    epsilons: tuple[float, ...] = ()


def advice_work(composition: Composition) -> float:
    """Return the units of work that the notes on a result may take: twice a `PART` if batches are cut."""
    return PART if _uncut(composition) is composition else 2 * PART


def advice(composition: Composition, epsilon: float, cost: Callable[[Composition], float]) -> tuple[Note, ...]:
    """Return the notes on what caps on batches cost, then those on other tools and on changes that lower epsilon.

    Changes of the run are named where they would lower epsilon by more than a tenth; see `_other_notes`.
    """
    uncut = _uncut(composition)
    others = list(_other_notes(composition, uncut, epsilon, cost))
    return (*_cap_notes(composition, uncut, epsilon, cost), *others)  # last, since its search takes what work is left


def _other_notes(
    composition: Composition, uncut: Composition, epsilon: float, cost: Callable[[Composition], float]
) -> Iterator[Note]:
    """Yield the notes on tools and changes for Gaussian noise, on odd moments for other; none if it is correlated."""
    if composition.has_correlated_noise:
        return
    if composition.plan.is_gaussian:
        yield from _tool_notes(composition, uncut, epsilon)
        yield from _change_notes(composition, epsilon, cost)
    else:
        yield from _exchange_notes(composition.plan)
        yield from _odd_moments_notes(composition, epsilon, cost)


def _exchange_notes(plan: Plan) -> Iterator[Note]:
    """Yield a note where draws exchange units and a promise that is stated for a missing one is charged twice."""
    for phase in plan.phases:
        mechanism, levels = phase.mechanism, phase.hierarchy.levels[: plan.unit]
        exchanges = plan.adjacency is Adjacency.REPLACE_ONE or phase.hierarchy.episodes is not None
        exchanges = exchanges or any(isinstance(level.scheme, Fixed | WithReplacement | Shuffle) for level in levels)
        if isinstance(mechanism, Promise) and exchanges and change_of(mechanism, plan.adjacency).exchange > 1:
            yield Note(
                text=f"the guarantee of {mechanism.name} is stated for {mechanism.relation or plan.adjacency}, and a "
                "unit in the place of another is two changes of it; only if it is proved for replaced units at the "
                "same cost, `relation: any` may be said"
            )
            return


def _tool_notes(composition: Composition, uncut: Composition, epsilon: float) -> Iterator[Note]:
    """Yield notes on the epsilon that Opacus would print, if it is no valid bound here and over 1 % too low."""
    steps = opacus_steps(uncut)
    if steps is None or (uncut is composition and are_one_step_bounds(composition, steps)):
        return
    printed = opacus_epsilon(uncut)
    if printed is not None and epsilon > 1.01 * printed:
        asked = f"asked with the rate {rates_in_words(steps)}"
        text = f"Opacus would print {{}}, {asked}: it assumes Poisson sampling of single units, add-remove"
        yield Note(text=text, epsilons=(printed,))
        yield from _stand_in_notes(composition)


def _change_notes(composition: Composition, epsilon: float, cost: Callable[[Composition], float]) -> Iterator[Note]:
    """Yield a note with both epsilons for each change of the run that divides epsilon by more than 1.1."""
    for change, changed in _changes(composition):
        lower = cost(changed)
        if epsilon > WORTH_SAYING * lower:
            text = f"{change}, with the same noise multiplier: epsilon {{}} -> {{}}"
            yield Note(text=text, epsilons=(epsilon, lower))


def _uncut(composition: Composition) -> Composition:
    """Return the run without caps on its batches; the same object if no batch is cut."""
    plan = _with_cap(composition.stated, None)
    return composition if plan == composition.stated else composition.changed(plan)


def _with_cap(plan: Plan, cap: int | None) -> Plan:
    """Return the plan with another cap on each cut batch, or without one for None."""
    hierarchies = (
        replace(phase.hierarchy, levels=tuple(_level_with_cap(level, cap) for level in phase.hierarchy.levels))
        for phase in plan.phases
    )
    phases = (replace(phase, hierarchy=new) for phase, new in zip(plan.phases, hierarchies, strict=True))
    return replace(plan, phases=tuple(phases))


def _level_with_cap(level: Level, cap: int | None) -> Level:
    """Return the level with another cap on its batches, or without one for None; unchanged if they are not cut."""
    if isinstance(level.scheme, CyclicPoisson) and level.scheme.max_batch_size:
        return replace(level, scheme=replace(level.scheme, max_batch_size=cap))
    if not isinstance(level.scheme, CappedPoisson):
        return level
    poisson = Poisson(probability=level.scheme.probability)
    return replace(level, scheme=poisson if cap is None else replace(level.scheme, max_batch_size=cap))


def _cap_notes(
    composition: Composition, uncut: Composition, epsilon: float, cost: Callable[[Composition], float]
) -> Iterator[Note]:
    """Yield a note if cutting batches raises epsilon by over 1 %, with a larger cap if just one level is cut."""
    free = epsilon if uncut is composition else cost(uncut)
    if epsilon <= _NEARLY_FREE * free:
        return
    caps = _capped_levels(composition.stated)
    sizes = dict.fromkeys(f"{scheme.max_batch_size} ({level.name})" for level, scheme in caps.items())
    text = f"cutting batches to {' and '.join(sizes)} raises epsilon {{}} -> {{}}"
    if len(caps) == 1:
        ((level, scheme),) = caps.items()
        cap = _nearly_free_cap(composition, level, scheme, lambda changed: cost(changed) / free)
        text += f"; the smallest larger maximum that costs less than 1% is {cap}" if cap else ""
    yield Note(text=f"{text}; see `dpcalc explain DPC209`", epsilons=(free, epsilon))


def _capped_levels(plan: Plan) -> dict[Level, CappedPoisson | CyclicPoisson]:
    """Return the levels whose batches are cut, in all phases, with their schemes."""
    levels = {level: level.scheme for phase in plan.phases for level in phase.hierarchy.levels}
    return {
        level: scheme
        for level, scheme in levels.items()
        if isinstance(scheme, CappedPoisson | CyclicPoisson) and scheme.max_batch_size
    }


def _nearly_free_cap(
    composition: Composition,
    level: Level,
    scheme: CappedPoisson | CyclicPoisson,
    epsilon_factor: Callable[[Composition], float],
) -> int | None:
    """Return the smallest larger cap that raises epsilon, by pld for `auto`, by at most 1 %; None if work runs out."""
    plan = composition.stated
    # Of cut batches the composed loss alone tells: rare large losses make moment bounds several times too large.
    by_pld = replace(plan, method="pld") if plan.method == "auto" else plan
    steps = sum(phase.steps for phase in plan.phases if level in phase.hierarchy.levels)
    return _smallest_cap(
        (scheme.max_batch_size or level.count, _most_candidates(level)),
        lambda cap: _chance_of_full_batch(level, scheme, cap),
        lambda cap: (epsilon_factor(composition.changed(_with_cap(by_pld, cap))) - 1) / (_NEARLY_FREE - 1),
        first_chance=plan.delta / max(steps, 1),
    )


def _most_candidates(level: Level) -> int:
    """Return the most units of which one draw of a level chooses: all, or a largest group of `cyclic-poisson`."""
    scheme = level.scheme
    return scheme.group_sizes(level.min_count, level.count)[1] if isinstance(scheme, CyclicPoisson) else level.count


def _chance_of_full_batch(level: Level, scheme: CappedPoisson | CyclicPoisson, cap: int) -> float:
    """Return the probability that the level's other units fill a batch of `cap`; 1 if it takes too much work."""
    full = full_batch(_most_candidates(level) - 1, scheme.probability, cap)
    return 1.0 if full is None else float(full.chance)


def _smallest_cap(
    ends: tuple[int, int], chance: Callable[[int], float], excess: Callable[[int], float], *, first_chance: float
) -> int | None:
    """Return the smallest cap between the ends whose excess is at most 1, else the upper end; None if work runs out."""
    low, high = ends
    # What a cap costs takes a composition, its chance of a full batch next to nothing, and both fall together: the last
    # cost says at which chance the next cap is tried.
    max_chance = first_chance
    with suppress(WorkExceededError):
        while high - low > 1:
            cap = _seldom_full_cap(low, high - 1, chance, max_chance)
            value = excess(cap)
            max_chance = chance(cap) / max(value, 1e-3)
            low, high = (low, cap) if value <= 1 else (cap, high)
        return high
    return None


def _seldom_full_cap(low: int, high: int, chance: Callable[[int], float], max_chance: float) -> int:
    """Return the smallest cap above `low` and below `high` with at most this chance of a full batch; `high` if none."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) <= max_chance else (middle, high)
    return high


def _stand_in_notes(composition: Composition) -> Iterator[Note]:
    """Yield a note if fixed-size batches shift sums by more clip norms than the group has units, unless replace-one."""
    plan = composition.plan
    # Below the clipped level a draw changes one vector, which may turn around under Poisson draws just as well.
    levels = (level for phase in plan.phases for level in phase.hierarchy.levels[: min(plan.unit, phase.clip)])
    fixed = next((level for level in levels if isinstance(level.scheme, (Fixed, WithReplacement))), None)
    farthest = max((d for entry in composition.units for bound in entry.bounds for d in _distances(bound)), default=0)
    if fixed is not None and plan.adjacency is not Adjacency.REPLACE_ONE and farthest > plan.group_size:
        yield Note(
            text=f"with batches of a fixed size another {fixed.name} takes the place of one that is not drawn, so the "
            f"sum shifts by up to {farthest} clip norms instead of {plan.group_size}; see `dpcalc explain DPC208`"
        )


def _odd_moments_notes(
    composition: Composition, epsilon: float, cost: Callable[[Composition], float]
) -> tuple[Note, ...]:
    """Return a note if stating `odd_moments: nonnegative` would lower epsilon by a factor over 1.1, else ()."""
    plan = composition.plan
    known = replace(plan, phases=tuple(map(_with_signs, plan.phases)))
    lower = epsilon if known == plan else cost(composition.changed(known))
    if epsilon <= WORTH_SAYING * lower:
        return ()
    text = (
        "only where E_Q[(P/Q - 1)^j] is proved never to be negative for odd j and neighbouring batches, "
        "`odd_moments: nonnegative` may be said: epsilon {} -> {}"
    )
    return (Note(text=text, epsilons=(epsilon, lower)),)


def _with_signs(phase: Phase) -> Phase:
    """Return the phase with odd moments stated nonnegative where they are unknown; unchanged otherwise."""
    if getattr(phase.mechanism, "odd_moments", "") != "unknown":
        return phase
    return replace(phase, mechanism=replace(phase.mechanism, odd_moments="nonnegative"))  # type: ignore[call-arg]  # it has them


def _changes(composition: Composition) -> Iterator[tuple[str, Composition]]:
    """Yield (description, changed run) for other clip levels, for Poisson draws and for balls in bins.

    Runs equal to the plan are left out.
    """
    plan = composition.plan
    yield from _clip_changes(composition)
    drawn = replace(plan, phases=tuple(_with_poisson_draws(phase, plan.unit) for phase in plan.phases))
    if drawn != plan:
        yield "draw Poisson batches of the same expected size", composition.changed(drawn)
    binned = replace(plan, phases=tuple(map(_with_bins, plan.phases)))
    if binned != plan:
        bins = dict.fromkeys(
            phase.hierarchy.allocation.steps_of_a_pass for phase in binned.phases if phase.hierarchy.allocation
        )
        sizes = " and ".join(map(str, bins))
        text = f"let each unit choose its batch of a pass by itself, scheme balls-in-bins with bins: {sizes}"
        yield text, composition.changed(binned)


def _clip_changes(composition: Composition) -> Iterator[tuple[str, Composition]]:
    """Yield (description, changed run) for each other clip level, except those that surely shorten no distance."""
    plan = composition.plan
    names = plan.phases[0].clip_names
    for clip in range(1, len(names)):
        changed = composition.changed(replace(plan, phases=tuple(replace(phase, clip=clip) for phase in plan.phases)))
        if changed.plan != plan and not _shortens_no_distance(composition, changed):
            yield f"clip per {names[clip]}", changed


def _with_poisson_draws(phase: Phase, unit: int) -> Phase:
    """Return the phase with Poisson draws down to the unit or a shuffle below; unchanged if shuffled sizes differ."""
    # Passes become Poisson draws all together or not at all.
    hierarchy = phase.hierarchy
    shuffled = [number for number, level in enumerate(hierarchy.levels, start=1) if isinstance(level.scheme, Shuffle)]
    if not all(hierarchy.level(number).is_equal for number in shuffled):
        return phase
    last = max([unit, *shuffled])
    levels = (_poisson_level(level) for level in hierarchy.levels[:last])
    drawn = Hierarchy(levels=(*levels, *hierarchy.levels[last:]), tree=hierarchy.tree, episodes=hierarchy.episodes)
    return replace(phase, hierarchy=drawn)


def _with_bins(phase: Phase) -> Phase:
    """Return the phase with balls in bins for an only shuffle; unchanged if sizes differ or a higher level is drawn."""
    levels = phase.hierarchy.levels
    shuffled = [at for at, level in enumerate(levels) if isinstance(level.scheme, Shuffle)]
    if len(shuffled) != 1 or phase.hierarchy.allocation or not all(x.is_whole for x in levels[: shuffled[0]]):
        return phase
    level = levels[shuffled[0]]
    if not isinstance(level.scheme, Shuffle) or not level.is_equal:
        return phase
    bins = BallsInBins(bins=level.scheme.steps_of_a_pass(level.count))
    changed = (*levels[: shuffled[0]], replace(level, scheme=bins), *levels[shuffled[0] + 1 :])
    return replace(phase, hierarchy=replace(phase.hierarchy, levels=changed))


def _poisson_level(level: Level) -> Level:
    """Return the level with Poisson draws of the same expected size; unchanged if that is not possible."""
    if not level.is_equal or not isinstance(level.scheme, (Fixed, Shuffle, WithReplacement)):
        return level
    rate = min(Fraction(1), Fraction(level.scheme.size, level.count))
    return replace(level, scheme=Poisson(probability=rate))


def _shortens_no_distance(composition: Composition, changed: Composition) -> bool:
    """Return True if the change makes no shift or distance smaller; False also for several units, or without (K)."""
    # The bound (K) grows with each of them.
    if len(composition.units) > 1 or not composition.is_plain or not changed.is_plain:
        return False
    bounds = [composition.phase_bound(phase) for phase in composition.plan.phases]
    changed_bounds = [changed.phase_bound(phase) for phase in changed.plan.phases]
    if not all(isinstance(bound, StepBound) for bound in (*bounds, *changed_bounds)):
        return False
    pairs = zip(bounds, changed_bounds, strict=True)
    return all(x >= y for old, new in pairs for x, y in zip(_distances(new), _distances(old), strict=True))


def _distances(bound: Bound) -> tuple[int, ...]:
    """Return the shift of a bound and its distances in both directions, in clip norms."""
    return (bound.shift, *bound.distances, *bound.distances_swapped)
