"""No enumerated data set costs more than what the package says, whatever the mechanism."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Laplace
from tests.oracles.brute_force import ADD_REMOVE
from tests.oracles.draws import Draw
from tests.oracles.multistage import (
    Problem,
    bound,
    capped,
    constructed,
    cut_short,
    data_sets,
    emptied,
    group,
    held,
    random_problem,
    shuffled,
    sparse,
    unequal_group,
)
from tests.oracles.other_noise import (
    discrete_gaussian_cells,
    discrete_laplace_cells,
    hockey_sticks,
    laplace_cells,
    mixtures,
)
from tests.thinning import thinned

NEVER = 1 + 1e-9
ROUND_OFF = 1e-13
BLOCKS = [(0, 6), *(pytest.param(block, 60, marks=pytest.mark.slow) for block in range(1, 4))]
"""(seed, problems): by default, and in the slow suite."""
FLAVOURS = [group, unequal_group, held, shuffled, cut_short, constructed, sparse, emptied, capped]
NOISE = {
    Laplace: lambda problem, means: laplace_cells(means, problem.sigma, steps=steps_of(problem)),
    DiscreteLaplace: lambda problem, means: discrete_laplace_cells(means, problem.sigma),
    DiscreteGaussian: lambda problem, means: discrete_gaussian_cells(means, problem.sigma),
}


def steps_of(problem):
    return problem.kept or problem.steps


def with_mechanism(problem, mechanism):
    plan = problem.plan
    return replace(plan, phases=(replace(plan.phases[0], mechanism=mechanism),))


def worst_ratio(problem, kind, rng, **amounts):
    """Largest truth / bound of one problem, with the values that reach it."""
    run, scale = problem.run, problem.sigma
    epsilons = np.array([0.0, 0.04, 0.3 / scale, 1 / scale, 2.5 / scale])
    allowed = bound(with_mechanism(problem, kind(noise_multiplier=scale)), epsilons)
    worst, at = 0.0, None
    for values in data_sets(run, rng, in_plane=0, **amounts):
        p, q = mixtures(run, values, partial(NOISE[kind], problem))
        ratio = float(((hockey_sticks(p, q, epsilons) - ROUND_OFF) / np.maximum(allowed, ROUND_OFF)).max())
        if ratio > worst:
            worst, at = ratio, values
    return worst, at


@pytest.mark.parametrize(("block", "number"), BLOCKS)
@pytest.mark.parametrize("kind", NOISE, ids=lambda kind: kind.name)
@pytest.mark.parametrize("flavour", thinned(FLAVOURS, 2), ids=lambda flavour: flavour.__name__)
def test_no_data_set_exceeds_the_bound(flavour, kind, block, number):
    rng = np.random.default_rng([FLAVOURS.index(flavour), 5, block])
    for _ in range(number):
        problem = enumerable(rng, flavour, kind)
        ratio, values = worst_ratio(problem, kind, rng, extreme=3, random=1)
        assert ratio <= NEVER, (problem, values)


def test_two_sides_of_a_profile_that_leave_no_room_for_losses_of_0():
    """Chords of both once made a pair with masses of more than 1, by 6e-8."""
    tree = Draw(3, "poisson", Fraction(1, 2)), Draw(2, "poisson", Fraction(9, 10))
    problem = Problem(tree, ((0, 0),), 1, ADD_REMOVE, 1.017355406590438)
    ratio, values = worst_ratio(problem, Laplace, np.random.default_rng(1), extreme=8, random=1)
    assert 0.5 < ratio <= NEVER, values


def enumerable(rng, flavour, kind, most=150):
    """A problem with few enough outputs."""
    while True:
        problem = random_problem(rng, flavour, most)
        if steps_of(problem) <= (3 if kind is DiscreteLaplace else 2):
            return problem
