"""Solving for what an attacker may gain and for the size of a group, against runs whose answer is known exactly."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from statistics import NormalDist

import pytest

from dpcalc.errors import InputError
from dpcalc.planner.solve import AttackGoal, EpsilonGoal, solve
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.oracles.exact_gaussian import exact_epsilon
from tests.planner.test_edges import plan_of

NORMAL = NormalDist()
DETECTION = AttackGoal(limit=0.05, false_positive_rate=0.01)
ADVANTAGE = AttackGoal(limit=0.2)
MU = {  # of the Gaussian mechanism that just meets the goal
    DETECTION: NORMAL.inv_cdf(0.05) - NORMAL.inv_cdf(0.01),
    ADVANTAGE: 2 * NORMAL.inv_cdf(0.6),
}
GOALS = [DETECTION, ADVANTAGE]


@pytest.mark.heavy
@pytest.mark.parametrize("goal", GOALS)
def test_noise_and_steps_of_the_gaussian_mechanism(goal):
    found = solve(plan_of(All(), steps=100), "sigma", goal=goal)
    exact = 10 / MU[goal]
    assert exact <= found.value <= exact * (1 + 3e-4)
    assert found.fails_at < found.value
    assert goal.certified(found.plan) == found.reached <= goal.limit
    found = solve(plan_of(All(), noise=200.0), "steps", goal=goal)
    exact = math.floor((200 * MU[goal]) ** 2)
    assert exact * (1 - 1e-3) <= found.value <= exact
    assert found.fails_at == found.value + 1


@pytest.mark.heavy
@pytest.mark.parametrize("goal", GOALS)
def test_the_rate_of_a_single_step_is_that_of_the_mixture(goal):
    found = solve(plan_of(Poisson(probability=Fraction(1, 2)), noise=0.5, steps=1), "rate", goal=goal)
    (level,) = found.plan.phases[0].hierarchy.levels
    assert level.scheme.probability == found.value < found.fails_at
    if goal is ADVANTAGE:  # rate times that of the step that draws
        exact = 0.2 / (2 * NORMAL.cdf(1) - 1)
        assert exact * 0.99 <= found.value <= exact


@pytest.mark.parametrize(
    ("goal", "mu"),
    [(EpsilonGoal(limit=2.0), None), (DETECTION, MU[DETECTION]), (ADVANTAGE, MU[ADVANTAGE])],
)
def test_the_largest_group_has_so_many_times_the_sensitivity(goal, mu):
    found = solve(plan_of(All(), noise=100.0, steps=100), "group", goal=goal)
    assert (found.key, found.fails_at, found.plan.group_size) == ("group_size", found.value + 1, found.value)
    if mu is None:
        assert exact_epsilon(found.value**2, 10, 1e-5) <= 2 < exact_epsilon(found.fails_at**2, 10, 1e-5)
    else:
        assert found.value == math.floor(10 * mu)


@pytest.mark.heavy
def test_a_group_ends_where_no_more_can_be_removed():
    found = solve(plan_of(Fixed(size=59_990), noise=1e6, steps=1), "group", goal=EpsilonGoal(limit=2.0))
    assert (found.value, found.fails_at) == (60_000, None)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        *((partial(AttackGoal, limit=limit), "advantage") for limit in (0.0, 1.0, math.nan)),
        *((partial(EpsilonGoal, limit=limit), "target epsilon") for limit in (0.0, math.inf, math.nan)),
        *(
            (partial(AttackGoal, limit=limit, false_positive_rate=rate), "expected a number between")
            for limit, rate in ((0.01, 0.01), (1.0, 0.01), (0.5, 0.0), (0.5, math.nan), (math.nan, 0.1))
        ),
        (partial(solve, plan_of(All()), "group", goal=ADVANTAGE, phase="training"), "--phase"),
        (partial(ADVANTAGE.certified, replace(plan_of(All()), method="rdp")), "leave --method out"),
    ],
)
def test_questions_that_have_no_answer(wrong, words):
    with pytest.raises(InputError, match=words):
        wrong()
