"""Every bound that may be taken holds for the placement it is meant for, not only the cheapest of the costliest."""

import numpy as np
import pytest

from dpcalc.amplification.groups import groups
from dpcalc.amplification.schedule import phase_steps
from dpcalc.planner.composition import protected_units
from tests.oracles.multistage import (
    capped,
    data_sets,
    delta_at,
    fresh_below,
    group,
    held,
    random_problem,
    shuffled,
    truth_of,
)
from tests.oracles.test_multistage import NEVER, excess, telling


def canonical(placement):
    """A placement without the order of siblings."""
    return tuple(sorted(map(canonical, placement), key=repr)) if isinstance(placement, tuple) else placement


def placement_of(members):
    """Where the members are, level by level from the outermost."""
    if len(members[0]) == 1:
        return len(members)
    parents = sorted({member[0] for member in members})
    return tuple(placement_of([member[1:] for member in members if member[0] == parent]) for parent in parents)


def choices_of(problem):
    """The bounds for the problem's own placement."""
    plan, size = problem.plan, len(problem.members)
    found = protected_units(plan)
    if size == 1:
        return found[0].choices[0]
    ways = groups(size, [phase.hierarchy for phase in plan.phases], unit=plan.unit, adjacency=plan.adjacency)
    own = canonical(placement_of(problem.members))
    (choices,) = (one.choices[0] for one, way in zip(found, ways, strict=True) if canonical(way.placement) == own)
    return choices


def capped_alike(rng):
    """One unit under draws that are cut, where all units are alike."""
    problem = capped(rng)
    return None if problem.sizes else problem


def told(timed, problem, epsilons):
    """Both directions of one bound."""
    if not timed.bound.inclusion:
        return np.zeros((2, len(epsilons)))
    both = phase_steps(timed, steps=problem.steps, noise_multiplier=problem.sigma)
    return np.array([[delta_at(one, float(eps)) for eps in epsilons] for one in both])


def check(rng, flavour, number, **amounts):
    for _ in range(number):
        problem = random_problem(rng, flavour, most_outcomes=200)
        run, epsilons = problem.run, telling(problem)
        allowed = [told(timed, problem, epsilons) for timed in choices_of(problem)]
        for values in data_sets(run, rng, **amounts):
            truth = truth_of(run, values, problem.sigma, epsilons)
            if any(excess(truth, one) > 0.999 for one in allowed):
                truth = truth_of(run, values, problem.sigma, epsilons, per_sigma=256)
            assert all(excess(truth, one) <= NEVER for one in allowed), (problem, values)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "flavour", [group, held, fresh_below, shuffled, capped_alike], ids=lambda flavour: flavour.__name__
)
def test_every_choice_holds_by_itself(flavour):
    check(np.random.default_rng(3), flavour, 12, extreme=3, random=1, in_plane=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flavour", [group, held, fresh_below, shuffled, capped_alike], ids=lambda flavour: flavour.__name__
)
@pytest.mark.parametrize("block", range(8))
def test_every_choice_holds_by_itself_at_length(flavour, block):
    check(np.random.default_rng([block, 29]), flavour, 25, extreme=8, random=2, in_plane=1)
