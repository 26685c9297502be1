"""Each bound of a group below drawn units by itself against enumerated data sets, whichever of them is chosen."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import delta_bounds
from dpcalc.amplification.schedule import phase_release, step_counts
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.composition import protected_units
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Fixed
from tests.oracles.multistage import data_sets, group, random_problem, truth_of, unequal_group
from tests.oracles.test_multistage import NEVER, ROUND_OFF, telling


def bounds_of(plan, epsilons):
    """The largest delta over placements and directions, for each kind of bound that is offered."""
    found = {}
    for one in protected_units(plan):
        for number, timed in enumerate(one.choices[0]):
            for release in phase_release(
                timed, steps=plan.steps, noise_multiplier=plan.phases[0].mechanism.noise_multiplier
            ):
                counts = step_counts(release)
                deltas = np.array([delta_bounds(counts, epsilon=float(e), sides=(UPPER,))[0] for e in epsilons])
                found[number] = np.maximum(found.get(number, 0.0), deltas)
    return found


@pytest.mark.parametrize("enough", [2, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("flavour", [group, unequal_group], ids=lambda flavour: flavour.__name__)
def test_every_bound_holds(flavour, enough):
    rng, offered = np.random.default_rng(11), Counter()
    while offered[1] < enough:
        problem = random_problem(rng, flavour, most_outcomes=100)
        if problem.plan.unit == 1 or len({len(one.choices[0]) for one in protected_units(problem.plan)}) > 1:
            continue
        epsilons = telling(problem)
        bounds = bounds_of(problem.plan, epsilons)
        offered.update(bounds.keys())
        for values in data_sets(problem.run, rng, extreme=2, random=0, in_plane=0):
            truth = truth_of(problem.run, values, problem.sigma, epsilons)
            for allowed in bounds.values():
                assert ((truth - ROUND_OFF) / np.maximum(allowed, ROUND_OFF)).max() <= NEVER


def test_hiding_the_draws_above_is_worth_it():
    """Two records under 32 of 1200 tasks, clipped per task: far below three times one record; revealed, ten times."""
    levels = (
        Level(name="task", count=1200, scheme=Fixed(size=32)),
        Level(name="record", count=20, scheme=Fixed(size=5)),
    )
    phase = Phase(
        name="run",
        hierarchy=Hierarchy(levels=levels),
        mechanism=Gaussian(noise_multiplier=6.0),
        clip=1,
        steps=10_000,
    )
    one = Plan(phases=(phase,), unit=2, adjacency=Adjacency.ADD_REMOVE, delta=1e-5)
    single, pair = (guarantee(replace(one, group_size=size), method="rdp").epsilon for size in (1, 2))
    assert single < pair < 3 * single
