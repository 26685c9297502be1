"""Notes beside a result: numbers of other tools that are lower, and changes of the run that would lower epsilon."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from dpcalc.amplification.bound import Bound, StepBound
from dpcalc.errors import WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.loss import Loss
from dpcalc.mechanisms.black_box import RdpTable
from dpcalc.mechanisms.kinds import Promise, change_of
from dpcalc.planner.composition import Composition, draws_unit, releases_of, valid_bounds
from dpcalc.planner.plan import Plan
from dpcalc.planner.published import are_one_step_bounds, opacus_epsilon, opacus_steps, rates_in_words
from dpcalc.planner.vary import with_levels
from dpcalc.records import dataclass
from dpcalc.sampling.counts import full_batch
from dpcalc.sampling.schemes import BallsInBins, CappedPoisson, CyclicPoisson, Poisson, Shuffle
from dpcalc.work import PART, allowance

WORTH_SAYING = 1.1  # a change that does not lower epsilon by this factor is not worth a line
_NEARLY_FREE = 1.01  # factor on epsilon below which a cap on batches costs next to nothing
_Cost = Callable[[Composition], float]
_Value = TypeVar("_Value", int, float)


@dataclass(frozen=True, kw_only=True)
class Note:
    """A remark beside a result: one sentence with a `{}` for each number, and the numbers, unrounded."""

    text: str
    epsilons: tuple[float, ...] = ()


def advice_work(composition: Composition) -> float:
    """Return the units of work that the notes on a result may take: twice a `PART` if batches are cut."""
    return PART if _uncut(composition) is composition else 2 * PART


def advice(composition: Composition, epsilon: float, cost: _Cost) -> tuple[Note, ...]:
    """Return the notes on what caps on batches cost, then those on other tools and on changes that lower epsilon."""
    # Tools and changes for Gaussian noise, promises and odd moments for other noise, neither where it is correlated.
    # Changes of the run are named where they would lower epsilon by more than a tenth.
    uncut = _uncut(composition)
    others: list[Note] = []
    if composition.has_correlated_noise:
        pass
    elif composition.plan.is_gaussian:
        others += _tool_notes(composition, uncut, epsilon)
        for change, changed in changes(composition):
            lower = cost(changed)
            if epsilon > WORTH_SAYING * lower:
                text = f"{change}, with the same noise multiplier: epsilon {{}} -> {{}}"
                others.append(Note(text=text, epsilons=(epsilon, lower)))
    else:
        others += _promise_notes(composition, epsilon, cost)
    return (*_cap_notes(composition, uncut, epsilon, cost), *others)


def _tool_notes(composition: Composition, uncut: Composition, epsilon: float) -> Iterator[Note]:
    """Yield notes on the epsilon that Opacus would print, if it is no valid bound here and over 1 % too low."""
    steps = None if uncut.stated.calibrations else opacus_steps(uncut)  # what it prints for noise that is known
    if steps is None or (uncut is composition and are_one_step_bounds(composition, steps)):
        return
    printed = opacus_epsilon(uncut)
    if printed is None or epsilon <= 1.01 * printed:
        return
    asked = f"asked with the rate {rates_in_words(steps)}"
    text = f"Opacus would print {{}}, {asked}: it assumes Poisson sampling of single units, add-remove"
    yield Note(text=text, epsilons=(printed,))

    # Fixed-size batches may shift sums by more clip norms than the group has units. Below the clipped level a draw
    # changes one vector, which may turn around under Poisson draws just as well.
    plan = composition.plan
    levels = (level for phase in plan.phases for level in phase.hierarchy.levels[: min(plan.unit, phase.clip)])
    fixed = next((x for x in levels if x.scheme.has_stand_in or x.scheme.can_repeat), None)
    farthest = max((d for entry in composition.units for bound in entry.bounds for d in _distances(bound)), default=0)
    if fixed is not None and plan.adjacency is not Adjacency.REPLACE_ONE and farthest > plan.group_size:
        yield Note(
            text=f"with batches of a fixed size another {fixed.name} takes the place of one that is not drawn, so the "
            f"sum shifts by up to {farthest} clip norms instead of {plan.group_size}; see `dpcalc explain DPC208`"
        )


def _promise_notes(composition: Composition, epsilon: float, cost: _Cost) -> Iterator[Note]:
    """Yield notes on steps of which a promise alone is known: one for a missing unit, and unknown odd moments."""
    plan = composition.plan
    for phase in plan.phases:
        mechanism, levels = phase.mechanism, phase.hierarchy.levels[: plan.unit]
        exchanges = plan.adjacency is Adjacency.REPLACE_ONE or phase.hierarchy.episodes is not None
        exchanges = exchanges or any(level.scheme.amount_key == "size" for level in levels)
        if isinstance(mechanism, Promise) and exchanges and change_of(mechanism, plan.adjacency).exchange > 1:
            yield Note(
                text=f"the guarantee of {mechanism.name} is stated for {mechanism.relation or plan.adjacency}, and a "
                "unit in the place of another is two changes of it; only if it is proved for replaced units at the "
                "same cost, `relation: any` may be said"
            )
            break
    phases = tuple(
        replace(phase, mechanism=replace(phase.mechanism, odd_moments="nonnegative"))
        if isinstance(phase.mechanism, RdpTable) and phase.mechanism.odd_moments == "unknown"
        else phase
        for phase in plan.phases
    )
    lower = epsilon if phases == plan.phases else cost(composition.changed(replace(plan, phases=phases)))
    if epsilon > WORTH_SAYING * lower:
        text = (
            "only where E_Q[(P/Q - 1)^j] is proved never to be negative for odd j and neighbouring batches, "
            "`odd_moments: nonnegative` may be said: epsilon {} -> {}"
        )
        yield Note(text=text, epsilons=(epsilon, lower))


def places_of_unused_order(composition: Composition) -> list[int]:
    """Return the places of the phases where a secret order lowers nothing."""
    plan = composition.plan
    if plan.adjacency is Adjacency.ADD_REMOVE or plan.parts:  # DPC202 says so for any order
        return []
    return [
        place
        for place, phase in enumerate(plan.phases)
        if draws_unit(plan, phase)
        and phase.hierarchy.level(1).scheme.is_secret
        and not any(bounds[place].secret for bounds in composition.bounds)
    ]


def unused_order(composition: Composition) -> tuple[str, ...]:
    """Say, of the first phase where a secret order lowers nothing, from which noise or batch size on it would."""
    plan, places = composition.plan, places_of_unused_order(composition)
    phase = plan.phases[places[0] if places else 0]
    level = phase.hierarchy.level(1)
    shuffle = level.scheme
    if not places or not isinstance(shuffle, Shuffle):
        return ()
    protected, where = composition.likeliest, f"in {phase.name}" if plan.phases[1:] else "here"
    if not any(each.secret for each in valid_bounds(plan, phase, protected.choices[places[0]])):
        text = f"no bound is known that counts the secret order {where}: each pass is one release, as in any order"
        return (text,)

    def helps(noise: float | None, size: int) -> bool:
        """Return True if a pass at this noise and batch size tells less by a tenth than one in known order."""
        mechanism = phase.mechanism if noise is None else phase.mechanism.with_noise(noise)
        levels = (replace(level, scheme=replace(shuffle, size=size)), *phase.hierarchy.levels[1:])
        changed = with_levels(replace(phase, mechanism=mechanism), levels)
        run = composition.changed(replace(plan, phases=(changed,)))
        told = {True: 1.0, False: 1.0}
        for bound in run.likeliest.choices[0]:
            ahead, _ = releases_of(run.plan, run.likeliest, 0, bound)
            largest = max(curve.delta(0.0) for curve in ahead if isinstance(curve, Loss))
            told[bool(bound.secret)] = min(told[bool(bound.secret)], largest)
        return WORTH_SAYING * told[True] < told[False]

    ways = []
    with suppress(WorkExceededError), allowance(PART):
        if phase.noise_multiplier and phase.mechanism.adds_noise:
            noises = [float(f"{phase.noise_multiplier * 2 ** (k / 4):.2g}") for k in range(1, 17)]
            noise = _first(noises, lambda noise: helps(noise, shuffle.size))
            ways += [f"from a noise multiplier of {noise:g} on"] if noise else []
        size = _first([shuffle.size >> k for k in range(1, shuffle.size.bit_length())], lambda size: helps(None, size))
        if size:
            before, after = (each.steps_of_a_pass(level.count) for each in (shuffle, replace(shuffle, size=size)))
            ways.append(f"with batches of {size} ({before} -> {after} in a pass)")
    lowers = f"; it would {' or '.join(ways)}" if ways else ""
    return (f"the secret order lowers nothing {where}, where each pass is one release, as in any order{lowers}",)


def _first(values: list[_Value], is_enough: Callable[[_Value], bool]) -> _Value | None:
    """Return the first of the values that is enough, where all later ones are, too; None if the last one is not."""
    if not values or not is_enough(values[-1]):
        return None
    return values[bisect_left(values, 1, hi=len(values) - 1, key=is_enough)]


# Caps on batches.


def _uncut(composition: Composition) -> Composition:
    """Return the run without caps on its batches; the same object if no batch is cut."""
    plan = _with_cap(composition.stated, None)
    return composition if plan == composition.stated else composition.changed(plan)


def _with_cap(plan: Plan, cap: int | None) -> Plan:
    """Return the plan with another cap on each cut batch, or without one for None."""
    phases = []
    for phase in plan.phases:
        levels = []
        for level in phase.hierarchy.levels:
            scheme = level.scheme
            if isinstance(scheme, CyclicPoisson) and scheme.max_batch_size:
                scheme = replace(scheme, max_batch_size=cap)
            elif isinstance(scheme, CappedPoisson):
                poisson = Poisson(probability=scheme.probability)
                scheme = poisson if cap is None else replace(scheme, max_batch_size=cap)
            levels.append(replace(level, scheme=scheme))
        phases.append(with_levels(phase, levels))
    return replace(plan, phases=tuple(phases))


def _cap_notes(composition: Composition, uncut: Composition, epsilon: float, cost: _Cost) -> Iterator[Note]:
    """Yield a note if cutting batches raises epsilon by over 1 %, with a larger cap if just one level is cut."""
    free = epsilon if uncut is composition else cost(uncut)
    if epsilon <= _NEARLY_FREE * free:
        return
    plan = composition.stated
    caps = {
        level: level.scheme
        for phase in plan.phases
        for level in phase.hierarchy.levels
        if isinstance(level.scheme, CappedPoisson | CyclicPoisson) and level.scheme.max_batch_size
    }
    sizes = dict.fromkeys(f"{scheme.max_batch_size} ({level.name})" for level, scheme in caps.items())
    text = f"cutting batches to {' and '.join(sizes)} raises epsilon {{}} -> {{}}"
    if len(caps) == 1:
        ((level, scheme),) = caps.items()
        # Of cut batches the composed loss alone tells: rare large losses make moment bounds several times too large.
        by_pld = replace(plan, method="pld") if plan.method == "auto" else plan
        steps = sum(phase.steps for phase in plan.phases if level in phase.hierarchy.levels)
        # A draw chooses from all units, or from a largest group of `cyclic-poisson`.
        candidates = level.count
        if isinstance(scheme, CyclicPoisson):
            _, candidates = scheme.group_sizes(level.min_count, level.count)

        def chance(cap: int) -> float:
            """Probability that the other units fill a batch; 1 if it takes too much work."""
            full = full_batch(candidates - 1, scheme.probability, cap)
            return 1.0 if full is None else float(full.chance)

        # What a cap costs takes a composition, its chance of a full batch next to nothing, and both fall together: the
        # last cost says at which chance the next cap is tried.
        low, high, max_chance = scheme.max_batch_size or level.count, candidates, plan.delta / max(steps, 1)
        with suppress(WorkExceededError):
            while high - low > 1:
                cap = bisect_left(range(high - 1), 1, low + 1, key=lambda cap: chance(cap) <= max_chance)
                excess = (cost(composition.changed(_with_cap(by_pld, cap))) / free - 1) / (_NEARLY_FREE - 1)
                max_chance = chance(cap) / max(excess, 1e-3)
                low, high = (low, cap) if excess <= 1 else (cap, high)
            text += f"; the smallest larger maximum that costs less than 1% is {high}"
    yield Note(text=f"{text}; see `dpcalc explain DPC209`", epsilons=(free, epsilon))


# Changes of the run.


def changes(composition: Composition) -> Iterator[tuple[str, Composition]]:
    """Yield (description, changed run) for other clip levels, for Poisson draws and for balls in bins."""
    # Runs equal to the plan are left out, and clip levels that surely shorten no distance.
    plan = composition.plan
    names = plan.phases[0].clip_names
    for clip in range(1, len(names) if not any(phase.hierarchy.summed for phase in composition.stated.phases) else 0):
        changed = composition.changed(replace(plan, phases=tuple(replace(phase, clip=clip) for phase in plan.phases)))
        if changed.plan != plan and not _shortens_no_distance(composition, changed):
            yield f"clip per {names[clip]}", changed

    poisson, binned, bins = [], [], dict[int, None]()
    for phase in plan.phases:
        levels = phase.hierarchy.levels
        shuffled = [at for at, level in enumerate(levels) if level.scheme.is_shuffled]
        # Poisson draws of the same expected size, down to the unit or a shuffle below: passes become Poisson draws all
        # together or not at all.
        drawn = list(levels)
        if all(levels[at].is_equal for at in shuffled):
            for at in range(max([plan.unit, *(at + 1 for at in shuffled)])):
                level = levels[at]
                if level.is_equal and level.scheme.amount_key == "size":
                    rate = min(Fraction(1), Fraction(level.scheme.size, level.count))
                    drawn[at] = replace(level, scheme=Poisson(probability=rate))
        poisson.append(with_levels(phase, drawn))
        # Balls in bins for an only shuffle, if no higher level is drawn.
        in_bins = list(levels)
        if len(shuffled) == 1 and not phase.hierarchy.allocation:
            (at,), level = shuffled, levels[shuffled[0]]
            if level.is_equal and all(above.is_whole for above in levels[:at]):
                number = level.scheme.steps_of_a_pass(level.count)
                in_bins[at] = replace(level, scheme=BallsInBins(bins=number))
        binned.append(with_levels(phase, in_bins))
        allocation = binned[-1].hierarchy.allocation
        if allocation:
            bins[allocation.steps_of_a_pass(1)] = None
    if tuple(poisson) != plan.phases:
        changed = composition.changed(replace(plan, phases=tuple(poisson)))
        yield "draw Poisson batches of the same expected size", changed
    if tuple(binned) != plan.phases:
        sizes = " and ".join(map(str, bins))
        text = f"let each unit choose its batch of a pass by itself, scheme balls-in-bins with bins: {sizes}"
        yield text, composition.changed(replace(plan, phases=tuple(binned)))


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
