"""From a plan to the release trees that accountants fold, and to the parameters of each phase's bound."""

from dataclasses import dataclass
from functools import lru_cache

from dpcalc.adjacency import Adjacency
from dpcalc.planner.plan import Phase, Plan
from dpcalc.release.bounds import StepBound, path_bound
from dpcalc.release.step import glued_profile
from dpcalc.release.tree import Release, Repeat, Sequence, Single, WorstOf
from dpcalc.release.worst_paths import worst_paths
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import Path

FORWARD, BACKWARD = "D||D'", "D'||D"
BOUND = "one-step bound"


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """A protected unit that may be the costliest to protect; the unit is the same in every phase.

    Attributes:
        place: where it is, "task 2, session 1" (the first of its like), or what its frames hold; "" where all units
            of its level are alike.
        paths: the way to it, one for each phase.
        bounds: the one-step bound (K), one for each phase.
    """

    place: str
    paths: tuple[Path, ...]
    bounds: tuple[StepBound, ...]

    def named(self, direction: str) -> str:
        """A direction with the place."""
        return f"{direction}, {self.place}" if self.place else direction


def alternatives(plan: Plan) -> tuple[Alternative, ...]:
    """The protected units of which one is the costliest; equal ones once, never none."""
    draws = tuple((phase.hierarchy, phase.clip) for phase in plan.phases)
    return _alternatives(draws, plan.unit, plan.adjacency)


@lru_cache(maxsize=32)
def _alternatives(draws: tuple[tuple[Hierarchy, int], ...], unit: int, adjacency: Adjacency) -> tuple[Alternative, ...]:
    """The alternatives; neither noise nor steps matter."""
    return tuple(
        Alternative(
            place=_place(draws[0][0], paths[0]),
            paths=paths,
            bounds=tuple(
                path_bound(path, clip=clip, adjacency=adjacency) for path, (_, clip) in zip(paths, draws, strict=True)
            ),
        )
        for paths in worst_paths(draws, unit=unit)
    )


def _place(hierarchy: Hierarchy, path: Path) -> str:
    """Where a path leads to; records of one parent are alike, so theirs is not named."""
    levels = hierarchy.levels
    if path.place:
        steps = list(zip(levels, path.place, strict=False))[: hierarchy.depth - 1]
        return ", ".join(f"{level.name} {index + 1}" for level, index in steps)
    sizes = zip(levels, path.counts, strict=False)
    return ", ".join(f"{count} ({level.name}) under one parent" for level, count in sizes if not level.is_equal)


def alternative_of(plan: Plan, direction: str) -> Alternative | None:
    """The alternative that a direction of `releases` names."""
    named = (x for x in alternatives(plan) if direction in {x.named(FORWARD), x.named(BACKWARD)})
    return next(named, None)


def likeliest(plan: Plan) -> Alternative:
    """The alternative that a step draws with the largest probability, in the first phase that draws it at all."""
    return max(alternatives(plan), key=lambda one: [bound.inclusion for bound in one.bounds])


def phase_bound(plan: Plan, phase: Phase) -> StepBound:
    """The one-step bound (K) of one phase, of the likeliest protected unit where they differ."""
    return likeliest(plan).bounds[plan.phases.index(phase)]


def releasing_phases(plan: Plan) -> tuple[Phase, ...]:
    """The phases that can draw the protected unit at all."""
    return tuple(p for p in plan.phases if p.steps and p.hierarchy.inclusion(plan.unit))


def is_noiseless(plan: Plan) -> bool:
    """Whether some phase releases the protected unit without noise: no epsilon is finite then."""
    return any(phase.mechanism.noise_multiplier == 0 for phase in releasing_phases(plan))


def releases(plan: Plan) -> WorstOf:
    """Every alternative in both directions, the whole run under the one-step bound; the plan must not be noiseless."""
    found: dict[str, Release] = {}
    for one in alternatives(plan):
        forward: list[Release] = []
        backward: list[Release] = []
        for phase in releasing_phases(plan):
            bound = one.bounds[plan.phases.index(phase)]
            profile = glued_profile(bound, noise_multiplier=phase.mechanism.noise_multiplier)
            forward.append(Repeat(node=Single(curve=profile), count=phase.steps))
            backward.append(Repeat(node=Single(curve=profile.swapped), count=phase.steps))
        found[one.named(FORWARD)] = Sequence(nodes=tuple(forward))
        found[one.named(BACKWARD)] = Sequence(nodes=tuple(backward))
    return WorstOf(releases=found)
