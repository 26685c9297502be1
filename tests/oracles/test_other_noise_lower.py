"""Under other noise too, the lower end is what some actual data set costs, and meets the bound where that is tight."""

import itertools
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Laplace
from dpcalc.planner import lower_end as lower
from dpcalc.planner.composition import composed
from dpcalc.planner.lower_end import delta_lower, epsilon_lower
from tests.oracles.brute_force import ADD_REMOVE, RELATIONS
from tests.oracles.draws import Draw
from tests.oracles.multistage import Problem, bound, capped, constructed, group, held, random_problem
from tests.oracles.other_noise import hockey_sticks, mixtures
from tests.oracles.test_multistage_lower import alone
from tests.oracles.test_other_noise import NOISE, steps_of, with_mechanism
from tests.thinning import thinned


def best_pattern(problem, kind, epsilon):
    """The most that any data set costs whose contributions are -1, 0 or 1 by role."""
    run, found = problem.run, 0.0
    roles = list(dict.fromkeys(run.roles))
    for values in itertools.product([1.0, -1.0, 0.0], repeat=len(roles)):
        by_role = dict(zip(roles, values, strict=True))
        pattern = np.array([[by_role[role] for role in run.roles]] * run.steps)
        p, q = mixtures(run, pattern, partial(NOISE[kind], problem))
        found = max(found, hockey_sticks(p, q, [epsilon]).max())
    return found


@pytest.mark.parametrize("kind", NOISE, ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "flavour", thinned([held, group, constructed, capped], 1), ids=lambda flavour: flavour.__name__
)
def test_some_data_set_costs_as_much_as_the_lower_end_says(flavour, kind):
    rng, said = np.random.default_rng(6), 0
    for _ in range(8):
        problem = random_problem(rng, alone(flavour), most_outcomes=60)
        if len(set(problem.run.roles)) > 4 or steps_of(problem) > 2:
            continue
        least = delta_lower(with_mechanism(problem, kind(noise_multiplier=problem.sigma)), epsilon=0.1)
        said += least > 1e-6
        slack = 1e-3 if kind is Laplace else 1e-9  # the oracle's cells
        assert least <= best_pattern(problem, kind, 0.1) * (1 + slack) + 1e-12, problem
    assert said >= 2


POISSON, FIXED, AGAIN = Draw(5, "poisson", Fraction(3, 20)), Draw(6, "fixed", 2), Draw(4, "again", 3)
TIGHT = [
    *((draw, size, relation) for draw in (POISSON, Draw(4)) for size in (1, 3) for relation in RELATIONS),
    *((draw, size, ADD_REMOVE) for draw in (FIXED, AGAIN) for size in (1, 3)),
]


@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace, DiscreteGaussian], ids=lambda kind: kind.name)
@pytest.mark.parametrize(("draw", "size", "relation"), TIGHT)
def test_where_the_bound_is_tight_both_ends_meet(draw, size, relation, kind):
    problem = Problem((draw,), tuple((i,) for i in range(size)), 1, relation, 2.0)
    plan = with_mechanism(problem, kind(noise_multiplier=2.0))
    composition, epsilons = composed(replace(plan, delta=0.01)), (0.0, 0.1, 0.5)
    found = []
    for direction in ("D||D'", "D'||D"):
        (steps,), tight = lower._worst_data_sets(composition, direction)
        assert tight
        ((curve, _),) = steps.items()
        found.append([curve.delta(epsilon) for epsilon in epsilons])
    for upper, lowest in zip(bound(plan, epsilons).max(axis=0), np.max(found, axis=0), strict=True):
        assert upper * (1 - 2e-5) - 1e-9 <= lowest <= upper * (1 + 1e-9) + 1e-12


def test_a_look_at_one_step_of_each_held_draw_does_not_make_the_bound_tight():
    problem = Problem((replace(POISSON, every=2),), ((0,),), 1, ADD_REMOVE, 2.0, steps=4)
    plan = replace(with_mechanism(problem, Laplace(noise_multiplier=2.0)), delta=0.01)
    value, tight = epsilon_lower(plan)
    assert value > 0
    assert not tight
    shuffled = Problem((Draw(4, "shuffle", 2),), ((0,),), 1, ADD_REMOVE, 2.0, steps=2)
    assert epsilon_lower(with_mechanism(shuffled, Laplace(noise_multiplier=2.0))) is None
