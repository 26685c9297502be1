"""The composition of a plan: its protected units, their one-step bounds, and how often each step loss occurs.

`composed` makes it; whatever asks about the plan is handed the same object, so that each part is computed once.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import permutations, product

from dpcalc.accountants.pld import auto, pld, worst_direction
from dpcalc.accountants.rdp import trimmed_epsilon
from dpcalc.amplification.any_mechanism import (
    BlackBoxSteps,
    black_box_releases,
    repeated_releases,
    secret_releases,
    unamplified_releases,
)
from dpcalc.amplification.bound import MIN_GAIN, Bound, JointStepBound
from dpcalc.amplification.groups import Group, groups
from dpcalc.amplification.mates import with_few_parts
from dpcalc.amplification.phase import averaged_choices, black_box_refusal, phase_bounds
from dpcalc.amplification.schedule import (
    PhaseBound,
    allocated_gaussian_steps,
    ensemble_refusal,
    phase_steps,
    query_steps,
    secret_pass_steps,
    step_profile,
)
from dpcalc.errors import ConvergenceError, UnsupportedError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import Steps, together
from dpcalc.mechanisms.additive import AdditiveNoise, Gaussian
from dpcalc.mechanisms.black_box import ApproximateDp, Exponential, PateMechanism
from dpcalc.mechanisms.kinds import BlackBox, Mechanism, PairOnly, change_of
from dpcalc.planner.plan import Phase, Plan
from dpcalc.records import dataclass
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path, path_above_all, worst_paths
from dpcalc.work import SECOND, Meter, allowance, own_allowance, share_of_work

MAX_AVERAGED = 4
"""Different units averaged over their mates, up to a second each; more share one average of them all."""
_MAX_MATES = 512  # draws of a unit's mates that are told apart before they are merged; 5,000 take a second
FORWARD, BACKWARD = "D||D'", "D'||D"
BOUND = "one-step bound"
_LAWS_WORK = 0.6 * SECOND  # for the exact laws of what draws hold; with more they are bounded
_STEPS_WORK = 1.5 * SECOND  # for the losses of all steps; with more, those other than Gaussian ones are not amplified
_CHOICE_WORK = 2.0 * SECOND  # for the choice among the valid bounds of each phase; with more its first one is taken
_LOOSE_ORDER = 8.0  # of moments: below it losses are so large that moments may rank bounds in the wrong order
_FEW_PHASES = 8  # of runs of which other choices are composed, where moments are loose
_SECOND_LOOK_WORK = 1.0 * SECOND  # for them
_RIVALS_WORK = 9.0  # times what it took to rank by moments, so that other questions keep their work
_WORTH_A_LOOK = 1e-4  # relative gain of another choice that is taken
_CHOICES_WORK = 1.5 * SECOND  # of the choices at several deltas, after which no other one is begun
_Choice = tuple[tuple[int, ...], Mechanism, int, float]  # ids of the bounds, and mechanism, steps and delta
_Costs = tuple[float | None, ...]  # of valid bounds; None for one that is still to be ranked
_Ranked = tuple[PhaseBound, _Costs]  # the bound that is chosen, and the costs of all


@dataclass(frozen=True, kw_only=True)
class ProtectedUnit:
    """A unit, or a group of units, that may be the costliest to protect; the same one in every phase."""

    place: str  # "task 2, session 1" (the first of its like), or how a group lies; "" where all are alike
    paths: tuple[Path, ...]  # the way to it, one for each phase
    group: Group  # how many units it is, and where they are
    choices: tuple[tuple[PhaseBound, ...], ...]  # of each phase the valid bounds, the protected level's own first
    # of each phase the bounds of steps that units choose, where each of them chooses all of them; () elsewhere
    chosen_steps: tuple[tuple[PhaseBound, ...], ...] = ()
    is_rough: bool = False  # bounds on probabilities are in the place of exact ones, which need too much work
    shares: int = 1  # units or groups of the run that may be the costliest, itself too, which share the work

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The protected level's own one-step bound, one for each phase."""
        return tuple(bounds[0].bound for bounds in self.choices)

    @property
    def direction_names(self) -> tuple[str, str]:
        """The names of D||D' and D'||D with the unit's place, as "D||D', task 2"."""
        place = f", {self.place}" if self.place else ""
        return FORWARD + place, BACKWARD + place


def protected_units(plan: Plan) -> tuple[ProtectedUnit, ...]:
    """Return the protected units or groups one of which costs most; InputError if the plan is not covered."""
    # Single units, one for each worst path, or groups on the merged path, one for each placement. Noise, steps and
    # delta do not matter. Probabilities are exact while their allowance of work lasts, then bounds.
    if plan.parts:  # no unit takes part in every phase
        raise UnsupportedError(
            "part: expected a question about epsilon or delta, the only ones answered for runs on parts of the data, "
            "got another one; ask about one run"
        )
    units = []
    with own_allowance(_LAWS_WORK) as meter:
        draws = _draws(plan)
        first: dict[tuple[Hierarchy, int], int] = {}
        places = [first.setdefault(draw, place) for place, draw in enumerate(draws)]  # many phases have equal draws
        # Where units choose their steps, the path is that of a step which they have chosen.
        in_step = [(hierarchy.given_allocation(), clip) for hierarchy, clip in draws]
        ways, is_group = worst_paths(in_step, unit=plan.unit), plan.group_size > 1
        shared = path_above_all(ways) if is_group or len(ways) > MAX_AVERAGED else ()
        ways = (shared,) if is_group else ways
        placed = groups(plan.group_size, [levels for levels, _ in in_step], unit=plan.unit, adjacency=plan.adjacency)

        # Averages over mates share the work, so that all are composed; those of two placements cost as much as those of
        # four units. One average on the shared path serves all single units; otherwise each path needs its own.
        is_averaged = len(placed) <= MAX_AVERAGED and (plan.is_gaussian if is_group else plan.adds_noise)
        single = 1 if shared else len(ways)
        sharing = 2 * len(placed) if is_group else single
        common: dict[object, tuple[PhaseBound, ...]] = {}
        for paths, group in product(ways, placed):
            bounds: dict[int, tuple[PhaseBound, ...]] = {}
            for place in dict.fromkeys(places):
                (hierarchy, clip), path = draws[place], paths[place]
                if hierarchy.chosen_rate == 1:  # of one law with `all`
                    hierarchy = hierarchy.given_allocation()
                bounds[place] = phase_bounds(hierarchy, path, clip=clip, adjacency=plan.adjacency, group=group)
                if is_averaged:
                    # The averages on a path that single units share depend on nothing else of them.
                    own, key = bounds[place], (place, len(bounds[place]) > 1) if shared and not is_group else None
                    averaged = (
                        (*own, *common[key])
                        if key in common
                        else averaged_choices(
                            own,
                            hierarchy,
                            path,
                            shared=shared[place] if shared else None,
                            clip=clip,
                            adjacency=plan.adjacency,
                            group=group,
                        )
                    )
                    if key is not None:
                        common[key] = averaged[len(own) :]
                    bounds[place] = tuple(bound.one_of(sharing) for bound in averaged)
            units.append(
                ProtectedUnit(
                    place=group.words if is_group else _place(in_step[0][0], paths[0]),
                    paths=paths,
                    group=group,
                    choices=tuple(bounds[place] for place in places),
                    shares=len(ways),
                )
            )
        # Bounds of one law with those of `all`, with the work that these leave. Source: docs/theory.md, Theorem 4.11.
        sure = {
            place
            for place in places
            if draws[place][0].allocation is not None
            and draws[place][0].chosen_rate == 1
            and plan.unit >= draws[place][0].allocated
        }
        for at, each_unit in enumerate(units if sure else []):
            chosen_steps = {
                place: phase_bounds(
                    draws[place][0],
                    each_unit.paths[place],
                    clip=draws[place][1],
                    adjacency=plan.adjacency,
                    group=each_unit.group,
                )
                for place in sure
            }
            units[at] = replace(each_unit, chosen_steps=tuple(chosen_steps.get(place, ()) for place in places))
    is_rough = meter.spent > meter.limit
    return tuple(replace(each_unit, is_rough=is_rough or each_unit.group.is_left_open) for each_unit in units)


def _draws(plan: Plan) -> tuple[tuple[Hierarchy, int], ...]:
    """Return (levels and schemes, level whose drawn units count) of each phase."""
    return tuple((phase.hierarchy, plan.counted_level(phase)) for phase in plan.phases)


def _place(hierarchy: Hierarchy, path: Path) -> str:
    """Return the unit's place above the last level, as "task 2, session 1"; for merged paths the unequal counts."""
    # Records of one parent count as alike, so that the last level is never named. A path that stands for merged ones
    # has no numbers: it is described by the number of units in each frame of unequal size.
    levels = hierarchy.levels
    if path.place:
        steps = list(zip(levels, path.place, strict=False))[: hierarchy.depth - 1]
        return ", ".join(f"{level.name} {index + 1}" for level, index in steps)
    return ", ".join(
        f"{count} ({level.name}){' under one parent' if depth else ' in all'}"
        for depth, (level, count) in enumerate(zip(levels, path.counts, strict=False))
        if not level.is_equal
    )


def releasing_phases(plan: Plan) -> tuple[Phase, ...]:
    """Return the phases that can draw the protected unit."""
    return tuple(phase for phase in plan.phases if draws_unit(plan, phase))


def draws_unit(plan: Plan, phase: Phase) -> bool:
    """Return True if a phase has steps, and a positive rate at every level down to the protected one."""
    return phase.steps > 0 and all(level.is_drawn for level in phase.hierarchy.levels[: plan.unit])


def is_noiseless(plan: Plan) -> bool:
    """Return True if some phase releases the protected unit without noise, so that no epsilon is finite."""
    return any(phase.noise_multiplier == 0 for phase in releasing_phases(plan))


# What a phase releases under one of its bounds, and which of its bounds hold and is the cheapest


def releases_of(plan: Plan, protected: ProtectedUnit, place: int, bound: PhaseBound) -> tuple[Steps, Steps]:
    """Return the upper releases (forward, backward) of a phase; UnsupportedError if it is not covered."""
    # Passes in secret order are bounded for use at about delta, a bound at every epsilon; where they are not amplified
    # the first of the valid bounds is taken. Where work runs out a Gaussian phase takes the largest part of each kind.
    phase = plan.phases[place]
    mechanism, hierarchy = phase.mechanism, phase.hierarchy
    if isinstance(mechanism, PateMechanism):
        return ensemble_release(plan, phase)
    why = black_box_refusal(mechanism, hierarchy, unit=plan.unit, adjacency=plan.adjacency, group_size=plan.group_size)
    if why:
        raise UnsupportedError(f"{phase.name}: {why}")
    with own_allowance(math.inf):  # nothing cheaper stands in for them: they are charged, and never left out
        if bound.secret:
            # Of delta each phase has a share by its passes.
            levels = [each.hierarchy.level(1) for each in plan.phases]
            passes = [
                -(-each.steps // level.scheme.steps_of_a_pass(level.count)) if level.scheme.is_secret else 0
                for each, level in zip(plan.phases, levels, strict=True)
            ]
            delta = plan.delta * passes[place] / sum(passes) if phase.steps else plan.delta
            if isinstance(mechanism, Gaussian):
                loss = partial(step_profile, noise_multiplier=phase.gaussian.noise_multiplier)
                steps = secret_pass_steps(bound, loss, steps=phase.steps, delta=delta)
            else:
                steps = secret_releases(black_box_steps(plan, protected, place, bound), delta)
            if steps is not None:
                return steps
            bound = protected.choices[place][0]
    if isinstance(mechanism, Gaussian):
        with suppress(WorkExceededError):
            return gaussian_releases(phase, bound)
        with own_allowance(math.inf):
            return gaussian_releases(phase, replace(bound, bound=with_few_parts(bound.bound)))
    black_box = black_box_steps(plan, protected, place, bound)
    try:
        return black_box_releases(black_box)
    except WorkExceededError:  # not amplified
        with own_allowance(math.inf):
            return unamplified_releases(black_box)


def gaussian_releases(phase: Phase, bound: PhaseBound) -> tuple[Steps, Steps]:
    """Return the upper releases (forward, backward) of a Gaussian phase; UnsupportedError for other noise."""
    releases = phase_steps if bound.allocation is None else allocated_gaussian_steps
    return releases(bound, steps=phase.steps, noise_multiplier=phase.gaussian.noise_multiplier)


def ensemble_release(plan: Plan, phase: Phase) -> tuple[Steps, Steps]:
    """Return a group's release of PATE queries, twice; UnsupportedError if it is not covered, TypeError for others."""
    if not isinstance(phase.mechanism, PateMechanism):
        raise TypeError(f"{phase.name}: expected teachers, got {phase.mechanism.name}")
    why = ensemble_refusal(phase.mechanism, phase.hierarchy)
    if why:
        raise UnsupportedError(f"{phase.name}: {why}")
    steps = query_steps(phase.mechanism, group_size=plan.group_size, queries=phase.steps)
    return steps, steps


def black_box_steps(plan: Plan, protected: ProtectedUnit, place: int, bound: PhaseBound) -> BlackBoxSteps:
    """Return the black-box steps of a unit or group, of one unit if units choose steps; TypeError for other phases."""
    phase = plan.phases[place]
    if not isinstance(phase.mechanism, BlackBox):
        raise TypeError(f"{phase.name}: expected a mechanism on a batch, got {phase.mechanism.name}")
    change = change_of(phase.mechanism, plan.adjacency)
    # To a promise for batches of one size a zeroed unit is one that takes the place of another.
    is_replaced = plan.adjacency is Adjacency.ZERO_OUT and not change.covers_missing
    adjacency = Adjacency.REPLACE_ONE if is_replaced else plan.adjacency
    # What an allocation hides is the removal of one unit; its links make up the group, and the addition of another.
    is_removal = "+" in bound.links
    return BlackBoxSteps(
        mechanism=phase.mechanism,
        hierarchy=phase.hierarchy.given_allocation(),
        path=protected.paths[place],
        clip=plan.counted_level(phase),
        adjacency=Adjacency.ADD_REMOVE if is_removal else adjacency,
        group=protected.group if bound.allocation is None or bound.units_together else Group(),
        removed=protected.group,
        noise=bound,
        number=phase.steps,
        max_mates=_MAX_MATES if protected.shares <= MAX_AVERAGED else 0,
        change=change,
    )


def cheapest_bound(
    plan: Plan,
    protected: ProtectedUnit,
    place: int,
    choices: tuple[PhaseBound, ...],
    known: _Costs,
    *,
    is_sharp: bool,
) -> tuple[PhaseBound, PhaseBound, _Costs]:
    """Return the valid bounds with the least epsilon for a phase alone, by moments and by pld where `is_sharp`; costs.

    The first one if they cannot be compared. `known` has the costs of an earlier try, None for each that is still to be
    ranked; so do those that are returned, for bounds of steps that units choose and that need too much work.
    """
    # Each may take an equal share of the work that is left; one that needs more is not taken.
    phase = plan.phases[place]
    mechanism = phase.mechanism
    first, has_secret = choices[0], any(bound.secret for bound in choices)
    # Whether units choose their steps and, if they choose all, the first bound is the cheapest one of `all`.
    are_chosen = phase.hierarchy.allocated > 0 and choices[-1].allocation is not None
    is_sure = are_chosen and phase.hierarchy.chosen_rate == 1
    # Without noise or steps epsilon ranks nothing, nor for PATE or a black box with passes in known order.
    is_single = first.steps_of_a_pass == first.squared == 1
    is_known = isinstance(mechanism, Gaussian) or (isinstance(mechanism, BlackBox) and (is_single or has_secret))
    is_noisy = phase.noise_multiplier or ((has_secret or is_sure) and phase.noise_multiplier is None)  # None: a promise
    if len(choices) == 1 or not (is_noisy and phase.steps and is_known):
        return first, first, (0.0,) * len(choices)
    orders: dict[int, float] = {}  # of the moments that bound a choice, by its place

    def cost(at: int, *, by_pld: bool = False) -> float:
        """Return the costlier direction's epsilon: by pld where asked or where steps are chosen, else by moments."""
        bound = choices[at]
        if has_secret:
            releases = releases_of(plan, protected, place, bound)
        elif isinstance(mechanism, BlackBox) and is_sure:
            releases = black_box_releases(black_box_steps(plan, protected, place, bound))
        elif isinstance(mechanism, BlackBox):
            releases = repeated_releases(mechanism, bound, phase.steps)
        else:
            releases = gaussian_releases(phase, bound)
        steps = list({frozenset(each.items()): each for each in releases if each}.values())  # often equal ones
        if has_secret:  # passes all: those that tell more cost more
            curves = [(curve, n) for each in steps for curve, n in each.items() if isinstance(curve, Loss)]
            is_hopeless = any(curve.infinity_mass * number > 0.9 * plan.delta for curve, number in curves)
            return math.inf if is_hopeless else max((curve.delta(0.0) for curve, _ in curves), default=0.0)
        if are_chosen:  # whose large losses are rare: moments would rank them wrongly
            accountant = auto if is_sure else pld
            return max((accountant(each, delta=plan.delta).epsilon for each in steps), default=0.0)
        # A joint bound takes longer to compose: it is chosen only where it gains something.
        worth = 1 - MIN_GAIN if isinstance(bound.bound, JointStepBound) else 1.0
        if by_pld:
            return max((pld(each, delta=plan.delta).epsilon for each in steps), default=0.0) / worth
        value, orders[at] = max(
            ((best.value, best.order) for best in (trimmed_epsilon(each, delta=plan.delta) for each in steps)),
            default=(0.0, math.inf),
        )
        return value / worth

    costs = [*known]
    missing = [at for at, value in enumerate(costs) if value is None]
    with share_of_work(1) as ranking:
        for done, at in enumerate(missing):
            try:
                with share_of_work(len(missing) - done):
                    costs[at] = cost(at)
            except WorkExceededError:
                # Moments, which rank others, can be wrong about those that take much work: these are not tried again.
                costs[at] = None if are_chosen else math.inf
            except ConvergenceError:  # centers too far apart
                costs[at] = math.inf
    ranked = [math.inf if value is None else value for value in costs]
    # The cheapest bound of `all` gives way only to what is known to be cheaper.
    chosen = sharpest = 0 if is_sure and costs[0] is None else ranked.index(min(ranked))
    if is_sharp and plan.group_size == 1 and orders.get(chosen, math.inf) < _LOOSE_ORDER:
        # Moments of large losses are loose, each by its own factor: what is at most twice as far above pld is a rival.
        # Placements of a group share the work: none of them is looked at twice.
        with suppress(ArithmeticError, UnsupportedError), allowance(_RIVALS_WORK * ranking.spent):
            least = cost(chosen, by_pld=True)
            far = ranked[chosen] * (ranked[chosen] / least) ** 2 if least else 0.0
            for at in sorted(set(range(len(choices))) - {chosen}, key=ranked.__getitem__):
                if ranked[at] < far and (epsilon := cost(at, by_pld=True)) < least:
                    least, sharpest = epsilon, at
    return choices[chosen], choices[sharpest], tuple(costs)


def valid_bounds(plan: Plan, phase: Phase, choices: tuple[PhaseBound, ...]) -> tuple[PhaseBound, ...]:
    """Return the bounds, in their order, that hold for the mechanism of a phase; all of them if it is Gaussian."""
    mechanism = phase.mechanism
    if isinstance(mechanism, Gaussian):
        return choices
    if phase.hierarchy.allocated and choices[-1].allocation is not None:
        # To hide the choice takes a mechanism that knows its losses and what a missing unit does.
        hides = isinstance(mechanism, AdditiveNoise) or (
            isinstance(mechanism, PairOnly) and change_of(mechanism, plan.adjacency).covers_missing
        )
        known = (bound for bound in choices if not bound.is_gaussian_alone)
        return tuple(bound for bound in known if hides or bound.is_revealed or bound.allocation is None)
    # The first is that of the unit's own level, whose passes are taken apart; of ancestors a pass is one release of the
    # sum of squared distances. In secret order the loss of a step must be known for the unit, and for any other one in
    # its place, which a mechanism that counts units knows at level 1 alone.
    may_hide = isinstance(mechanism, AdditiveNoise) or (isinstance(mechanism, PairOnly) and plan.unit == 1)
    others = (each for each in choices[1:] if each.squared == 1 and not each.is_gaussian_alone)
    return (choices[0], *(each for each in others if may_hide or not each.secret))


class Composition:
    """The protected units of a plan, their bounds and their step losses; each is computed when it is first asked for.

    Attributes:
        stated: the training run.
        plan: the run that is composed: `stated`, with correlated noise as independent steps that cost as much.
    """

    def __init__(self, plan: Plan, *, relative: "Composition | None" = None) -> None:
        """Store the plan and its independent steps; share units and chosen bounds with `relative` if draws agree."""
        # Bounds of a phase that is alone are ranked by pld where moments are loose.
        self.stated = plan
        self.plan = plan.independent()
        knows_losses = plan.method in {"auto", "pld"} and plan.tuning is None and not plan.parts
        self._may_be_sharp = knows_losses and len(self.plan.phases) <= _FEW_PHASES
        self._is_sharp = self._may_be_sharp and len(self.plan.phases) == 1
        # Bounds depend on draws, protection and the kind of noise, not on its amount, steps or delta: a search over
        # those computes them once.
        shares = relative is not None and _unit_facts(self.plan) == _unit_facts(relative.plan)
        self._relative = relative if shares else None
        # What is chosen for a phase, the costs of its bounds, and the work that this took.
        self._chosen: dict[tuple[_Choice, _Costs, bool], tuple[_Ranked, float]] = (
            self._relative._chosen if self._relative is not None else {}
        )
        self._choice_work = 0.0
        self._moment_bounds: dict[int, tuple[float, float]] = {}

    def changed(self, plan: Plan) -> "Composition":
        """Return the composition of `plan`, with shared units if draws and protection are equal; itself for its own."""
        return self if plan is self.plan or plan is self.stated else Composition(plan, relative=self)

    @property
    def choice(self) -> tuple[PhaseBound, ...]:
        """The `bounds` of all protected units in a row; none for parts of the data, each composed by itself."""
        return () if self.plan.parts else tuple(bound for each_unit in self.bounds for bound in each_unit)

    def near(self, plan: Plan) -> "Composition":
        """Return the composition of `plan` with the bounds that are chosen here, which hold for any noise and steps."""
        # To choose takes most of the work of an estimate; for nearly the same run the choice is mostly the same.
        composition = self.changed(plan)
        if composition is not self and composition._relative is not None and not composition.plan.parts:
            composition.bounds = self.bounds
        return composition

    @cached_property
    def ranked_sharply(self) -> "Composition | None":
        """The composition with other bounds of some phases, by which epsilon is less; None if no such ones are found.

        It is sought where moments are loose, for runs of a few phases.
        """
        if self._is_sharp or not self._may_be_sharp or self.plan.parts or is_noiseless(self.plan):
            return None
        if all(len(choices) == 1 for each_unit in self.units for choices in each_unit.choices):
            return None
        best = self
        with suppress(ArithmeticError, UnsupportedError), own_allowance(_SECOND_LOOK_WORK):
            if self.costliest()[1] >= _LOOSE_ORDER:
                return None
            least, direction = self._epsilon_by_pld()
            is_better = True
            while is_better:
                # Phases of the costliest unit take another bound: those of equal draws together, then each by itself.
                at, is_better = self.units.index(self.by_direction[direction]), False
                valid = [
                    valid_bounds(self.plan, phase, choices)
                    for phase, choices in zip(self.plan.phases, self.units[at].choices, strict=True)
                ]
                alike: dict[tuple[int, ...], tuple[int, ...]] = {}
                for place, bounds in enumerate(valid):
                    key = tuple(map(id, bounds))
                    alike[key] = (*alike.get(key, ()), place)
                for places in dict.fromkeys([*alike.values(), *((place,) for place in range(len(valid)))]):
                    for bound in valid[places[0]]:
                        if all(bound is best.bounds[at][place] for place in places):
                            continue
                        other, taken = Composition(self.stated, relative=self), [list(each) for each in best.bounds]
                        for place in places:
                            taken[at][place] = bound
                        other.bounds = tuple(map(tuple, taken))
                        epsilon, its_direction = other._epsilon_by_pld()
                        if epsilon < least * (1 - _WORTH_A_LOOK):
                            best, least, direction, is_better = other, epsilon, its_direction, True
        return None if best is self else best

    def _epsilon_by_pld(self) -> tuple[float, str]:
        """Return (epsilon by pld, its direction), the costliest one."""
        found, direction = worst_direction(
            self.steps, pld, delta=self.plan.delta, moment_bound=lambda counts: self.moment_bound(counts)[0]
        )
        return found.epsilon, direction

    @cached_property
    def one_run(self) -> "Composition":
        """The composition of the plan without its repetitions; the composition itself where there are none."""
        return self if self.plan.tuning is None else self.changed(replace(self.stated, tuning=None))

    @property
    def has_correlated_noise(self) -> bool:
        """True if some phase of the training run has noise that is correlated over its steps."""
        return any(phase.is_correlated or phase.hierarchy.spans_steps for phase in self.stated.phases)

    @cached_property
    def attained(self) -> "Composition":
        """The composition that lower bounds are of: correlated noise with contributions that are written down."""
        plan = self.stated.independent(attained=True)
        return self if plan == self.plan else self.changed(plan)

    @property
    def is_attained(self) -> bool:
        """True if the lower bound is for the same phases as the upper one, with equal noise up to round-off."""
        pairs = [*zip(self.plan.phases, self.attained.plan.phases, strict=True)]
        return all(upper == replace(lower, mechanism=upper.mechanism) for upper, lower in pairs) and all(
            math.isclose(upper.noise_multiplier or 0, lower.noise_multiplier or 0) for upper, lower in pairs
        )

    @cached_property
    def units(self) -> tuple[ProtectedUnit, ...]:
        """The units or groups of which one is the costliest; see `protected_units`, also for the errors."""
        return protected_units(self.plan) if self._relative is None else self._relative.units

    @property
    def is_rough(self) -> bool:
        """True if bounds on probabilities are in the place of exact ones, which need too much work."""
        return not self.plan.parts and any(each_unit.is_rough for each_unit in self.units)

    @property
    def is_plain(self) -> bool:
        """True if all noise is Gaussian, every step draws afresh and (K) is the first bound of each phase."""
        return self.plan.is_gaussian and all(
            bounds[0].plain is not None for each_unit in self.units for bounds in each_unit.choices
        )

    @cached_property
    def likeliest(self) -> ProtectedUnit:
        """The protected unit with the largest inclusion probability in the first phase, then in the next ones."""
        return max(self.units, key=lambda each_unit: [bound.inclusion for bound in each_unit.bounds])

    def phase_bound(self, phase: Phase) -> Bound:
        """Return the one-step bound of one of the plan's phases for the likeliest protected unit."""
        return self.likeliest.bounds[self.plan.phases.index(phase)]

    def inclusion(self, phase: Phase) -> Fraction:
        """Return the largest exact probability of any unit to be drawn in a step; for built tasks that of the bound."""
        # Batches that are cut count as drawn before the cut, of which the tools that this is for know nothing.
        place = self.plan.phases.index(phase)
        if phase.hierarchy.episodes is not None:
            return self.likeliest.bounds[place].inclusion
        in_step = max(each_unit.paths[place].uncut.inclusion(self.plan.unit) for each_unit in self.units)
        return phase.hierarchy.chosen_rate * in_step

    @property
    def by_direction(self) -> dict[str, ProtectedUnit]:
        """The protected unit of each direction, by the name of the direction."""
        return {name: each_unit for each_unit in self.units for name in each_unit.direction_names}

    @cached_property
    def bounds(self) -> tuple[tuple[PhaseBound, ...], ...]:
        """For each protected unit, the bound of each phase that ranks cheapest; the first if ranking is too costly."""
        units = self.units
        with own_allowance(_CHOICE_WORK) as whole:
            chosen = self._cheapest_of_units([each_unit.choices for each_unit in units])
            if any(each_unit.chosen_steps for each_unit in units):
                chosen = self._cheapest_of_units(
                    [
                        tuple((bound, *more) for bound, more in zip(bounds, each_unit.chosen_steps, strict=True))
                        for each_unit, bounds in zip(units, chosen, strict=True)
                    ]
                )
        self._choice_work = min(whole.spent, whole.limit)
        return chosen

    def _cheapest_of_units(
        self, choices: list[tuple[tuple[PhaseBound, ...], ...]]
    ) -> tuple[tuple[PhaseBound, ...], ...]:
        """Return the cheapest bound of each phase for each unit, of its `choices` for each phase."""
        chosen = dict[int, tuple[PhaseBound, ...]]()
        ranked: list[dict[_Choice, _Ranked]] = [{} for _ in choices]
        waiting = [*range(len(choices))]
        # The first ones pay for what all share: those whose part was too small for it try again with what is left.
        for _ in range(2):
            for done, at in enumerate(waiting):
                with share_of_work(len(waiting) - done) as meter:
                    chosen[at], ranked[at] = self._cheapest_bounds(self.units[at], choices[at], meter, ranked[at])
            waiting = [at for at in waiting if any(None in costs for _, costs in ranked[at].values())]
        return tuple(chosen[at] for at in range(len(choices)))

    def _cheapest_bounds(
        self,
        protected: ProtectedUnit,
        choices: tuple[tuple[PhaseBound, ...], ...],
        meter: Meter,
        earlier: dict[_Choice, _Ranked],
    ) -> tuple[tuple[PhaseBound, ...], dict[_Choice, _Ranked]]:
        """Return the cheapest bound of each phase, sought by bisection over the noise of phases with equal choices.

        Also what was ranked for that, after an `earlier` try.
        """
        phases, ranked = self.plan.phases, dict[_Choice, _Ranked]()
        chosen, alike = dict[int, PhaseBound](), dict[tuple[int, ...], list[int]]()

        def cheapest(place: int) -> PhaseBound:
            # The unit keeps the bounds alive, so that ids stand for them; their hash would be that of many mixtures.
            asked = (tuple(map(id, choices[place])), phases[place].mechanism, phases[place].steps, self.plan.delta)
            valid = valid_bounds(self.plan, phases[place], choices[place])
            if len(valid) == 1:
                return valid[0]
            if asked in ranked:
                return ranked[asked][0]
            bound, known = ranked[asked] = earlier.get(asked, (valid[0], (None,) * len(valid)))
            key = (asked, known, self._is_sharp)
            if None not in known:
                return bound
            if not meter.left:
                if valid[-1].allocation is None:  # not tried again
                    ranked[asked] = bound, ()
                return bound
            if key in self._chosen:  # which costs as much as anew: the answer may not depend on earlier ones
                meter.spent += self._chosen[key][1]
            else:
                before = meter.spent
                by_moments, sharpest, costs = cheapest_bound(
                    self.plan, protected, place, valid, known, is_sharp=self._is_sharp
                )
                self._chosen[(asked, known, False)] = (by_moments, costs), meter.spent - before
                self._chosen[key] = (sharpest, costs), meter.spent - before
            ranked[asked] = self._chosen[key][0]
            return ranked[asked][0]

        # Phases with the same draws share their choices, of which those hold that the kind of mechanism allows. Which
        # is the cheapest changes once or not at all with the noise: where the ends of a run of phases agree, all
        # between them take that bound, which is valid anyway.
        for place, each in enumerate(choices):
            valid = valid_bounds(self.plan, phases[place], each)
            alike.setdefault(tuple(map(id, valid)), []).append(place)
        runs = [sorted(places, key=lambda at: phases[at].noise_multiplier or 0.0) for places in alike.values()]
        while runs:
            run = runs.pop()
            first, last = cheapest(run[0]), cheapest(run[-1])
            if first is last or len(run) <= 2:
                chosen |= dict.fromkeys(run[1:-1], first) | {run[-1]: last, run[0]: first}
            else:
                runs += [run[: len(run) // 2 + 1], run[len(run) // 2 :]]
        return tuple(chosen[place] for place in range(len(choices))), ranked

    @cached_property
    def statements(self) -> tuple["Composition", ...]:
        """This composition, and one of the same run with exponential mechanisms as the pure ones that they are, too."""
        # Each of them bounds the run.
        phases = tuple(
            replace(phase, mechanism=ApproximateDp(epsilon=phase.mechanism.epsilon, relation=phase.mechanism.relation))
            if isinstance(phase.mechanism, Exponential)
            else phase
            for phase in self.stated.phases
        )
        return (self,) if phases == self.stated.phases else (self, self.changed(replace(self.stated, phases=phases)))

    def alternatives(self, *deltas: float) -> tuple["Composition", ...]:
        """Return the `statements`, and those with the bounds of phases that rank cheapest at other deltas."""
        # Each of them bounds the run at every epsilon; which is the smallest depends on the question. None is
        # sought once the choices have taken most of the work of one.
        found: dict[tuple[Composition, tuple[int, ...], float], Composition] = {}
        work = 0.0
        with own_allowance(math.inf):
            for delta, each in product((self.plan.delta, *deltas), self.statements):
                is_other = delta != self.plan.delta and 0 < delta < 1 and not each.plan.parts
                if is_other and work > _CHOICES_WORK:
                    break
                asked = each.changed(replace(each.stated, delta=delta)) if is_other else each
                # A secret pass is bounded for one delta, which is worth its time if no other one is asked about.
                aim = delta if len(deltas) == 1 and any(bound.secret for bound in asked.choice) else 0.0
                found.setdefault((each, tuple(map(id, asked.choice)), aim), asked)
                work += asked._choice_work
                sharp = asked.ranked_sharply if not is_other or len(deltas) == 1 else None
                if sharp is not None:
                    found.setdefault((each, tuple(map(id, sharp.choice)), aim), sharp)
        return tuple(found.values())

    @cached_property
    def steps(self) -> dict[str, Steps]:
        """Upper counts of step losses by name of the direction; UnsupportedError for tuning and what is not covered."""
        # Upper bounds; the plan must have noise. Directions with equal losses hold the same object.
        if self.plan.tuning is not None:
            raise UnsupportedError(
                "tuning: expected a question about epsilon, the only bound for the best of several runs, got another "
                "one; --unset tuning asks about one run"
            )
        bounds = () if self.plan.parts else self.bounds  # whose choice has an allowance of its own

        def releases(number: int, place: int) -> tuple[Steps, Steps]:
            return releases_of(self.plan, self.units[number], place, bounds[number][place])

        with own_allowance(_STEPS_WORK):
            # Directions of equal losses share one object, by whose id their moment bound is remembered.
            steps = self._steps_of_parts() if self.plan.parts else self.steps_of_units(releases)
            distinct: dict[frozenset[tuple[object, int]], Steps] = {}
            return {name: distinct.setdefault(frozenset(counts.items()), counts) for name, counts in steps.items()}

    def steps_of_units(self, releases: Callable[[int, int], tuple[Steps, Steps]]) -> dict[str, Steps]:
        """Return counts of step losses by direction name, of the releases by (number of the unit, of the phase)."""
        steps: dict[str, Steps] = {}
        drawing = [place for place, phase in enumerate(self.plan.phases) if draws_unit(self.plan, phase)]
        for number, each_unit in enumerate(self.units):
            pairs = [releases(number, place) for place in drawing]
            for at, name in enumerate(each_unit.direction_names):
                steps[name] = together(pair[at] for pair in pairs)
        return steps

    def _steps_of_parts(self) -> dict[str, Steps]:
        """Return the counts of step losses of a unit of each part and, if units move, of each ordered pair of parts."""
        # A unit pays for the runs on its own part and on all data. Source: docs/theory.md, Theorem 13.3.
        plan = self.plan

        def both_directions(run: Plan, part: str) -> tuple[Steps, Steps]:
            phases = tuple(replace(phase, part="") for phase in run.phases if phase.part == part)
            if not phases:
                return {}, {}
            counts = Composition(replace(run, phases=phases, partition=None)).steps  # as if on all data
            if len(counts) != 2:
                raise UnsupportedError("part: expected units of one cost with parts of the data, got several")
            forward, backward = counts.values()
            return forward, backward

        on_all, steps = both_directions(plan, ""), dict[str, Steps]()
        for part in plan.parts:
            on_part = both_directions(plan, part)
            for direction, of_all, of_part in zip((FORWARD, BACKWARD), on_all, on_part, strict=True):
                steps[f"{direction}, part {part}"] = together((of_all, of_part))
        if plan.moves_between_parts:
            removal = replace(plan, adjacency=Adjacency.ADD_REMOVE)
            removals = {part: both_directions(removal, part) for part in plan.parts}
            for part, other in permutations((*removals, ""), 2):
                removed, added = (removals.get(name, ({}, {})) for name in (part, other))
                words = f"a unit of {part or 'no part'} replaced by one of {other or 'no part'}"
                for direction, of_all in zip((FORWARD, BACKWARD), on_all, strict=True):
                    steps[f"{direction}, {words}"] = together((of_all, removed[0], added[1]))
        return steps

    def moment_bound(self, counts: Steps) -> tuple[float, float]:
        """Return (bound on epsilon by trimmed moments, its order) of one value of `steps`; (0, 1) if that is empty."""
        if id(counts) not in self._moment_bounds:
            best = trimmed_epsilon(counts, delta=self.plan.delta) if counts else None
            self._moment_bounds[id(counts)] = (0.0, 1.0) if best is None else (best.value, best.order)
        return self._moment_bounds[id(counts)]

    def costliest(self, direction: str = "") -> tuple[ProtectedUnit, float]:
        """Return (unit with the largest moment bound on epsilon, its order); only the unit in a named `direction`."""
        # The plan must release something and have noise.
        named = self.by_direction.get(direction)
        directions = named.direction_names if named is not None else self.by_direction
        costliest = max(directions, key=lambda name: self.moment_bound(self.steps[name])[0])
        return self.by_direction[costliest], self.moment_bound(self.steps[costliest])[1]


def composed(plan: Plan | Composition) -> Composition:
    """Return the composition of a plan, of which nothing is computed yet; a composition is returned as it is."""
    return plan if isinstance(plan, Composition) else Composition(plan)


def _unit_facts(plan: Plan) -> tuple[object, ...]:
    """Return all that units and their bounds depend on: draws, clips, unit, adjacency, group, kind of noise."""
    return plan.unit, plan.adjacency, plan.group_size, plan.adds_noise, plan.is_gaussian, _draws(plan)
