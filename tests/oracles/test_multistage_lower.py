"""The lower end that is printed is what some actual data set costs, and no more."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.planner.lower_end import delta_lower
from tests.oracles.brute_force import ADD_REMOVE
from tests.oracles.draws import Draw
from tests.oracles.multistage import Problem, capped, constructed, group, held, random_problem, shuffled, truth_of
from tests.thinning import thinned


def best_pattern(problem, epsilon):
    """The most that any data set costs whose contributions are -1, 0 or 1 by role."""
    run = problem.run
    roles = list(dict.fromkeys(run.roles))
    found = 0.0
    for values in itertools.product([1.0, -1.0, 0.0], repeat=len(roles)):
        by_role = dict(zip(roles, values, strict=True))
        pattern = np.array([[by_role[role] for role in run.roles]] * run.steps)
        found = max(found, truth_of(run, pattern, problem.sigma, [epsilon]).max())
    return found


def alone(flavour):
    """One unit where all are alike, with few roles: every simple data set can be tried."""

    def problem(rng):
        found = flavour(rng)
        if found is None or len(found.members) > 1 or (found.sizes and min(found.sizes) < max(found.sizes)):
            return None
        return found

    return problem


@pytest.mark.heavy
@pytest.mark.parametrize("flavour", [group, held, shuffled, constructed, capped], ids=lambda flavour: flavour.__name__)
def test_some_data_set_costs_as_much_as_the_lower_end_says(flavour):
    rng, said = np.random.default_rng(5), 0
    for _ in range(8):
        problem = random_problem(rng, alone(flavour), most_outcomes=100)
        if len(set(problem.run.roles)) > 5:
            continue
        lower = delta_lower(problem.plan, epsilon=0.1)
        said += lower > 1e-6
        assert lower <= best_pattern(problem, 0.1) * (1 + 1e-6), problem
    assert said >= 4


@pytest.mark.parametrize("shape", [(3, 2, 1, 1, 2), (2, 2, 2, 2, 1)])
def test_nobody_stands_in_where_tasks_take_all_there_is(shape):
    """Once said: as if another record, or class, were drawn in the place of the removed one."""
    classes, records, *_ = shape
    unit = (0, 0) if shape[4] == records else (0,)
    problem = Problem((Draw(classes), Draw(records)), (unit,), 2, ADD_REMOVE, 1.5, shape=shape)
    lower, best = delta_lower(problem.plan, epsilon=0.3), best_pattern(problem, 0.3)
    assert 0 < lower <= best * (1 + 1e-6)


@pytest.mark.parametrize(("kept", "every"), thinned([(1, 2), (2, 3), (4, 3)], 1))
def test_a_phase_that_ends_within_the_first_outer_draw_has_a_lower_bound(kept, every):
    """Once a ZeroDivisionError: no whole period of the outer draw fits into the phase."""
    steps = every * -(-kept // every)
    tree = (Draw(2, "fixed", 1, every), Draw(2, "poisson", Fraction(1, 2)))
    problem = Problem(tree, ((0, 0),), 2, ADD_REMOVE, 1.5, steps=steps, kept=kept)
    assert 0 < delta_lower(problem.plan, epsilon=0.1) <= best_pattern(problem, 0.1) * (1 + 1e-6)
