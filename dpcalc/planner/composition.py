"""From a plan to the release trees that accountants fold, and to the one-step bounds of each phase."""

from dataclasses import dataclass, replace
from fractions import Fraction

from dpcalc.accountants.rdp import MomentBound, trimmed_epsilon
from dpcalc.amplification.any_mechanism import (
    BlackBoxSteps,
    ProtectedUnits,
    black_box_refusal,
    black_box_releases,
    repeated_releases,
)
from dpcalc.amplification.counts import Bound
from dpcalc.amplification.groups import Group, groups
from dpcalc.amplification.phase import phase_bounds
from dpcalc.amplification.schedule import PhaseBound, phase_release
from dpcalc.amplification.tree import Chain, Release, WorstOf, ensemble_refusal, query_release, step_counts
from dpcalc.amplification.worst_paths import path_above_all, worst_paths
from dpcalc.errors import UnsupportedError, WorkExceededError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.mechanisms.kinds import BlackBox
from dpcalc.mechanisms.pate import PateMechanism
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path
from dpcalc.work import SECOND, cached_with_cost, own_allowance

FORWARD, BACKWARD = "D||D'", "D'||D"
BOUND = "one-step bound"
_LAWS = 0.8 * SECOND  # work for the exact laws of what draws hold; with more they are bounded


@dataclass(frozen=True, kw_only=True)
class ProtectedUnit:
    """A unit, or a group of units, that may be the costliest to protect; the same one in every phase.

    Attributes:
        place: where it is, "task 2, session 1" (the first of its like), what its frames hold, or how a group lies; ""
            where there is nothing to tell apart.
        paths: the way to it, one for each phase.
        group: how many units it is, and where they are.
        choices: for each phase the valid bounds, the protected level's own first.
        is_rough: whether bounds on probabilities are in the place of exact ones, which need too much work.
    """

    place: str
    paths: tuple[Path, ...]
    group: Group
    choices: tuple[tuple[PhaseBound, ...], ...]
    is_rough: bool = False

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The protected level's own one-step bound, one for each phase."""
        return tuple(bounds[0].bound for bounds in self.choices)

    def direction_name(self, direction: str) -> str:
        """Return the name of a direction with the unit's place: "D||D'" or "D||D', task 2"."""
        return f"{direction}, {self.place}" if self.place else direction


def protected_units(plan: Plan) -> tuple[ProtectedUnit, ...]:
    """Return the units or groups of which one is the costliest, equal ones once; never empty.

    Raises:
        InputError: no bound covers the sampling, or the group does not fit into the data.
    """
    draws = tuple((phase.hierarchy, phase.clip) for phase in plan.phases)
    return _alternatives(draws, plan.unit, plan.adjacency, plan.group_size)


@cached_with_cost(32)
def _alternatives(
    draws: tuple[tuple[Hierarchy, int], ...], unit: int, adjacency: Adjacency, group_size: int
) -> tuple[ProtectedUnit, ...]:
    """Return the protected units for (hierarchy, clipping level) of each phase; noise and steps do not matter."""
    with own_allowance(_LAWS) as meter:
        units = _with_bounds(draws, unit, adjacency, group_size)
    is_exhausted = meter.spent > meter.limit
    return tuple(replace(each_unit, is_rough=is_exhausted or each_unit.group.is_left_open) for each_unit in units)


def _with_bounds(
    draws: tuple[tuple[Hierarchy, int], ...], unit: int, adjacency: Adjacency, group_size: int
) -> tuple[ProtectedUnit, ...]:
    """Return the protected units, with exact distributions of counts as long as the allowance of work lasts."""
    ways = worst_paths(draws, unit=unit)
    if group_size > 1:
        ways = (path_above_all(ways),)
    return tuple(
        ProtectedUnit(
            place=_place(draws[0][0], paths[0]) if group_size == 1 else group.words,
            paths=paths,
            group=group,
            choices=tuple(
                phase_bounds(hierarchy, path, clip=clip, adjacency=adjacency, group=group)
                for path, (hierarchy, clip) in zip(paths, draws, strict=True)
            ),
        )
        for paths in ways
        for group in groups(group_size, [hierarchy_only for hierarchy_only, _ in draws], unit=unit, adjacency=adjacency)
    )


def _place(hierarchy: Hierarchy, path: Path) -> str:
    """Return the words for the end of a path, "" where all units are alike; records of one parent count as alike."""
    levels = hierarchy.levels
    if path.place:
        steps = list(zip(levels, path.place, strict=False))[: hierarchy.depth - 1]
        return ", ".join(f"{level.name} {index + 1}" for level, index in steps)
    sizes = zip(levels, path.counts, strict=False)
    return ", ".join(
        f"{count} ({level.name}){' under one parent' if depth else ' in all'}"
        for depth, (level, count) in enumerate(sizes)
        if not level.is_equal
    )


def unit_of_direction(plan: Plan, direction: str) -> ProtectedUnit | None:
    """Return the protected unit that a direction of `releases` names, None for other names.

    Args:
        plan: a training run.
        direction: for example "D||D', task 2".
    """
    named = (x for x in protected_units(plan) if direction in {x.direction_name(FORWARD), x.direction_name(BACKWARD)})
    return next(named, None)


def likeliest_unit(plan: Plan) -> ProtectedUnit:
    """Return the protected unit with the largest inclusion probability in the first phase, then in the next ones."""
    return max(protected_units(plan), key=lambda each_unit: [bound.inclusion for bound in each_unit.bounds])


def phase_bound(plan: Plan, phase: Phase) -> Bound:
    """Return the one-step bound of one phase for the likeliest protected unit.

    Args:
        plan: a training run.
        phase: one of its phases.
    """
    return likeliest_unit(plan).bounds[plan.phases.index(phase)]


def is_plain(plan: Plan) -> bool:
    """Return True if all noise is Gaussian, every step is a draw of its own, and the bound of each is (K)."""
    return plan.is_gaussian and all(
        bounds[0].is_plain for each_unit in protected_units(plan) for bounds in each_unit.choices
    )


def inclusion_probability(plan: Plan, phase: Phase) -> Fraction:
    """Return the exact probability that a step of a phase by itself draws a given unit, the largest over the units.

    Args:
        plan: a training run.
        phase: one of its phases.
    """
    place = plan.phases.index(phase)
    built = phase.hierarchy.episodes
    if built is not None:
        return likeliest_unit(plan).bounds[place].inclusion
    return max(each_unit.paths[place].inclusion(plan.unit) for each_unit in protected_units(plan))


def releasing_phases(plan: Plan) -> tuple[Phase, ...]:
    """Return the phases that can draw the protected unit: with steps, and a positive rate at every level down to it."""
    return tuple(phase for phase in plan.phases if _releases(plan, phase))


def _releases(plan: Plan, phase: Phase) -> bool:
    """Return True if a phase can draw the protected unit; no product of probabilities that may have 1000 digits."""
    return phase.steps > 0 and all(level.rate > 0 for level in phase.hierarchy.levels[: plan.unit])


def is_noiseless(plan: Plan) -> bool:
    """Return True if some phase releases the protected unit without noise, so that no epsilon is finite."""
    return any(phase.noise_multiplier == 0 for phase in releasing_phases(plan))


def releases(plan: Plan) -> WorstOf:
    """Return the release trees of every protected unit in both directions, by direction name; the plan must have noise.

    Raises:
        UnsupportedError: the run is repeated, and composing one of the runs would tell too little.
    """
    if plan.tuning is not None:
        raise UnsupportedError(
            "tuning: expected a question about epsilon, the only bound for the best of several runs, got another one; "
            "--unset tuning asks about one run"
        )
    trees: dict[str, Release] = {}
    for each_unit in protected_units(plan):
        both = [
            _release(plan, each_unit, place, bound)
            for place, bound in enumerate(cheapest_bounds(plan, each_unit))
            if _releases(plan, plan.phases[place])
        ]
        trees[each_unit.direction_name(FORWARD)] = Chain(nodes=tuple(ahead for ahead, _ in both))
        trees[each_unit.direction_name(BACKWARD)] = Chain(nodes=tuple(back for _, back in both))
    return WorstOf(releases=trees)


def _release(plan: Plan, protected: ProtectedUnit, place: int, bound: PhaseBound) -> tuple[Release, Release]:
    """One phase in both directions under one of its bounds."""
    phase = plan.phases[place]
    if isinstance(phase.mechanism, Gaussian):
        return phase_release(bound, steps=phase.steps, noise_multiplier=phase.gaussian.noise_multiplier)
    if isinstance(phase.mechanism, PateMechanism):
        return ensemble_release(plan, phase)
    protected_question = ProtectedUnits(unit=plan.unit, adjacency=plan.adjacency, group_size=plan.group_size)
    why = black_box_refusal(phase.mechanism, phase.hierarchy, protected_question)
    if why:
        raise UnsupportedError(f"{phase.name}: {why}")
    return black_box_releases(black_box_steps(plan, protected, place, bound))


def ensemble_release(plan: Plan, phase: Phase) -> tuple[Release, Release]:
    """Return (forward, backward) release of a phase whose steps are queries to teachers; both are the same.

    Args:
        plan: a training run.
        phase: one of its phases, with a PATE mechanism.

    Raises:
        UnsupportedError: not all teachers vote.
        TypeError: the phase has another mechanism.
    """
    if not isinstance(phase.mechanism, PateMechanism):
        raise TypeError(f"{phase.name}: expected teachers, got {phase.mechanism.name}")
    why = ensemble_refusal(phase.mechanism, phase.hierarchy)
    if why:
        raise UnsupportedError(f"{phase.name}: {why}")
    release = query_release(phase.mechanism, group_size=plan.group_size, queries=phase.steps)
    return release, release


def black_box_steps(plan: Plan, protected: ProtectedUnit, place: int, bound: PhaseBound) -> BlackBoxSteps:
    """Return the steps of a phase under any mechanism but the Gaussian one and PATE.

    Args:
        plan: a training run.
        protected: a unit or a group of them.
        place: number of the phase, from 0.
        bound: the bound of the phase if it adds noise to a sum.

    Raises:
        TypeError: the phase has Gaussian noise or a PATE mechanism.
    """
    phase = plan.phases[place]
    if not isinstance(phase.mechanism, BlackBox):
        raise TypeError(f"{phase.name}: expected a mechanism on a batch, got {phase.mechanism.name}")
    return BlackBoxSteps(
        mechanism=phase.mechanism,
        hierarchy=phase.hierarchy,
        path=protected.paths[place],
        clip=phase.clip,
        adjacency=plan.adjacency,
        group=protected.group,
        noise=bound,
        number=phase.steps,
    )


def cheapest_bounds(plan: Plan, protected: ProtectedUnit) -> tuple[PhaseBound, ...]:
    """Return for each phase the one-step bound with the smallest moment bound on epsilon; every choice is valid.

    Args:
        plan: a training run.
        protected: the unit that the bounds are for.
    """
    pairs = zip(plan.phases, protected.choices, strict=True)
    cheapest: list[PhaseBound] = []
    for phase, choices in pairs:
        try:
            cheapest.append(_cheapest(choices, phase, plan.delta))
        except WorkExceededError:
            cheapest.append(choices[0])
    return tuple(cheapest)


@cached_with_cost(2048)
def _cheapest(choices: tuple[PhaseBound, ...], phase: Phase, delta: float) -> PhaseBound:
    """Return the bound with the smallest moment bound on epsilon of the whole phase; the first if none is compared."""
    if len(choices) == 1 or not phase.noise_multiplier or not phase.steps or isinstance(phase.mechanism, PateMechanism):
        return choices[0]
    if not isinstance(phase.mechanism, Gaussian) and choices[0].steps_of_a_pass > 1:
        return choices[0]

    def cost(bound: PhaseBound) -> float:
        counts = [step_counts(release) for release in _noisy(phase, bound)]
        return max(
            (trimmed_epsilon(step_numbers, delta=delta).value for step_numbers in counts if step_numbers), default=0.0
        )

    return min(choices, key=cost)


def _noisy(phase: Phase, bound: PhaseBound) -> tuple[Release, Release]:
    """Return (forward, backward) release of a phase that adds noise to a sum; refuses PATE."""
    if isinstance(phase.mechanism, Gaussian):
        return phase_release(bound, steps=phase.steps, noise_multiplier=phase.gaussian.noise_multiplier)
    if not isinstance(phase.mechanism, BlackBox):
        raise TypeError(f"{phase.name}: expected noise on a sum, got {phase.mechanism.name}")
    return repeated_releases(phase.mechanism, bound, phase.steps)


# The costliest protected unit, by the moment bound.


def costliest_by_moment_bound(plan: Plan, direction: str = "") -> tuple[ProtectedUnit, MomentBound]:
    """Return (the protected unit with the largest moment bound on epsilon, that bound): a cheap proxy for the pld one.

    Args:
        plan: one that releases something and is not noiseless.
        direction: one of `releases`, to look at no other unit than the one it names; "" looks at all.
    """
    trees = releases(plan).releases
    named = {
        name: each_unit
        for each_unit in protected_units(plan)
        for name in (each_unit.direction_name(FORWARD), each_unit.direction_name(BACKWARD))
    }
    only = named.get(direction)
    bests = {
        name: trimmed_epsilon(step_counts(trees[name]), delta=plan.delta)
        for name, each_unit in named.items()
        if only is None or each_unit is only
    }
    costliest = max(bests, key=lambda name: bests[name].value)
    return named[costliest], bests[costliest]
