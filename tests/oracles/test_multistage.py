"""No enumerated data set costs more than what the package says: groups, held draws, passes, constructed tasks."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.planner.evaluate import delta_of
from tests.oracles.brute_force import ADD_REMOVE, REPLACE_ONE, ZERO_OUT
from tests.oracles.draws import Draw
from tests.oracles.joint import Adaptive
from tests.oracles.multistage import (
    Problem,
    all_of_one,
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
    truth_of,
    unequal_group,
)
from tests.thinning import thinned

NEVER = 1 + 1e-9  # relative slack of two float64 evaluations
ROUND_OFF = 1e-13
FLAVOURS = [group, unequal_group, held, shuffled, cut_short, constructed, sparse, emptied, capped]
HALF = Fraction(1, 2)


def telling(problem):
    """Zero, where rarely drawn units tell, and where the noise is about to hide everything."""
    return np.array([0.0, 0.04, 1 / problem.sigma])


def excess(truth, allowed):
    return float(((truth - ROUND_OFF) / np.maximum(allowed, ROUND_OFF)).max())


def worst_ratio(problem, rng, **amounts):
    """Largest truth / bound of one problem, with the values that reach it."""
    run, epsilons = problem.run, telling(problem)
    allowed = bound(problem.plan, epsilons)
    worst, at = 0.0, None
    for values in data_sets(run, rng, **amounts):
        ratio = excess(truth_of(run, values, problem.sigma, epsilons), allowed)
        if ratio > 0.999:  # in the plane the quick sum is good to three digits
            ratio = excess(truth_of(run, values, problem.sigma, epsilons, per_sigma=256), allowed)
        if ratio > worst:
            worst, at = ratio, values
    return worst, at


@pytest.mark.heavy
@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.__name__)
@pytest.mark.parametrize("block", thinned(range(5), 1))
def test_no_data_set_exceeds_the_bound(flavour, block):
    rng = np.random.default_rng([block, 7])
    for _ in range(10):
        problem = random_problem(rng, flavour, most_outcomes=200)
        ratio, values = worst_ratio(problem, rng, extreme=3, random=1, in_plane=1)
        assert ratio <= NEVER, (problem, values)


@pytest.mark.slow
@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.__name__)
@pytest.mark.parametrize("block", range(12))
def test_no_data_set_exceeds_the_bound_at_length(flavour, block):
    rng = np.random.default_rng([block, 11])
    for _ in range(20):
        problem = random_problem(rng, flavour, most_outcomes=600)
        ratio, values = worst_ratio(problem, rng, extreme=8, random=3, in_plane=2)
        assert ratio <= NEVER, (problem, values)


@pytest.mark.heavy
@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 10))])
def test_all_units_of_one_parent_cost_no_more_than_the_parent_zeroed(block):
    """By the bound of the parent alone, in both directions: the bound of the group is that of its worst placement."""
    rng = np.random.default_rng([block, 29])
    for _ in range(10):
        problem = random_problem(rng, all_of_one, most_outcomes=200)
        epsilons = telling(problem)
        allowed = bound(replace(problem, members=(problem.members[0][:-1],)).plan, epsilons)
        for values in data_sets(problem.run, rng, extreme=3, random=1, in_plane=0):
            assert excess(truth_of(problem.run, values, problem.sigma, epsilons), allowed) <= NEVER, (problem, values)


def in_two_steps(rng):
    """A problem of two steps that share a draw."""
    while True:
        problem = random_problem(rng, held, most_outcomes=200)
        if problem.steps == 2:
            return problem


def answered(problem, rng, epsilon):
    """(direction, divergence) where the second step answers the first in one of four ways."""
    run = problem.run
    patterns = [values[0] for values in data_sets(run, rng, extreme=1, random=1, in_plane=0)]
    begun = patterns[int(rng.integers(len(patterns)))]
    first = tuple(matrix[:, 0] @ begun for matrix in run.incidence)
    answers = [tuple(sign * matrix[:, 1] @ p for matrix in run.incidence) for p in patterns[:2] for sign in (1, -1)]
    adversary = Adaptive(run.weights(), first, answers, problem.sigma)
    return [(direction, adversary.divergence(epsilon, direction)) for direction in (0, 1)]


def check_answers(rng, number):
    for _ in range(number):
        problem = in_two_steps(rng)
        epsilon = float(rng.choice(telling(problem)))
        allowed = bound(problem.plan, [epsilon])
        for direction, reached in answered(problem, rng, epsilon):
            assert (reached - ROUND_OFF) <= NEVER * max(allowed[direction, 0], ROUND_OFF), (problem, epsilon)


@pytest.mark.heavy
@pytest.mark.parametrize("block", [0, pytest.param(1, marks=pytest.mark.heavy)])
def test_no_answer_to_the_first_output_exceeds_the_bound_of_a_held_draw(block):
    check_answers(np.random.default_rng([block, 13]), 6)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_no_answer_to_the_first_output_exceeds_the_bound_at_length(block):
    check_answers(np.random.default_rng([block, 17]), 25)


ALL_TWICE = Draw(2, every=2)
FOUND = [  # data sets that once cost more than was said
    Problem((Draw(5, "shuffle", 3),), ((0,),), 0, ADD_REMOVE, 3.0, steps=2),
    Problem((ALL_TWICE, Draw(2, "shuffle", 1)), ((0, 0), (1, 0)), 2, ZERO_OUT, 3.0, steps=2),
    Problem((ALL_TWICE, Draw(2, "shuffle", 1)), ((0, 0), (1, 0)), 2, REPLACE_ONE, 3.0, steps=2),
    Problem((Draw(2, "shuffle", 1), Draw(2, "again", 2)), ((0, 1), (1, 0)), 0, ZERO_OUT, 1.1, steps=2),
    Problem(
        (Draw(3, "again", 2), Draw(2, "poisson", Fraction(1, 20))),
        ((1, 0), (2, 0), (2, 1)),
        *(2, ADD_REMOVE, 3.46),
        sizes=[1, 1, 2],
    ),
    Problem((Draw(2), Draw(4, "fixed", 2)), ((1, 0), (1, 1)), 2, ADD_REMOVE, 1.0, sizes=[2, 4]),
    Problem((Draw(2), Draw(4)), ((1, 0),), 2, ADD_REMOVE, 1.5, sizes=[4, 2], shape=(2, 4, 1, 1, 1)),
    Problem((Draw(2), Draw(3, "fixed", 1)), ((0, 0), (0, 1), (0, 2)), 0, ADD_REMOVE, 0.5),
    Problem((Draw(2), Draw(3, "again", 1)), ((0, 0), (0, 1), (0, 2)), 0, ADD_REMOVE, 0.5),
]


@pytest.mark.parametrize("problem", FOUND, ids=range(len(FOUND)))
def test_data_sets_that_once_cost_more_than_was_said(problem):
    ratio, values = worst_ratio(problem, np.random.default_rng(3), extreme=16, random=6, in_plane=0)
    assert 0.1 < ratio <= NEVER, values


@pytest.mark.usefixtures("fresh_caches")
@pytest.mark.parametrize("block", range(2))
def test_groups_too_large_for_their_placements_to_be_told_apart(block, monkeypatch):
    """The same bound with small groups: nothing above one member is told apart."""
    monkeypatch.setattr("dpcalc.amplification.groups.MAX_PLACED_MEMBERS", 1)
    rng = np.random.default_rng([block, 19])
    for _ in range(10):
        problem = random_problem(rng, without_replacement, most_outcomes=200)
        ratio, values = worst_ratio(problem, rng, extreme=3, random=1, in_plane=0)
        assert ratio <= NEVER, (problem, values)


def without_replacement(rng):
    """A group of several under levels that are drawn without replacement."""
    problem = group(rng)
    again = any(draw.kind == "again" for draw in problem.tree)
    return None if again or len(problem.members) < 2 else problem


def test_what_a_user_is_told_is_the_larger_of_the_two_directions():
    rng = np.random.default_rng(23)
    for flavour in FLAVOURS:
        plan = random_problem(rng, flavour, most_outcomes=200).plan
        told, read = delta_of(plan, epsilon=0.3).delta, bound(plan, [0.3]).max()
        assert read * (1 - 1e-12) <= told <= read * 1.01 + 1e-9


TWO_OF_SIX = Problem((Draw(6, "fixed", 2),), ((0,), (1,)), 1, ADD_REMOVE, 2.0)
CUT_TO_ONE = Problem((Draw(4, "capped", HALF, cap=1),), ((0,),), 1, ADD_REMOVE, 2.0)
MISREAD = [  # a problem, and another whose bound somebody could take for its own
    (TWO_OF_SIX, {"tree": (Draw(6, "poisson", Fraction(1, 3)),)}),
    (TWO_OF_SIX, {"members": ((0,),)}),
    (Problem((Draw(6, "fixed", 2, every=2),), ((0,),), 1, ADD_REMOVE, 2.0, steps=2), {"steps": 1}),
    (Problem((Draw(4, "again", 3),), ((0,),), 1, ADD_REMOVE, 2.0), {"tree": (Draw(4, "fixed", 3),)}),
    (Problem((Draw(4, "shuffle", 2),), ((0,),), 1, REPLACE_ONE, 1.0, steps=2), {"relation": ZERO_OUT}),
    (CUT_TO_ONE, {"tree": (Draw(4, "poisson", HALF),)}),
    (CUT_TO_ONE, {"tree": (Draw(4, "poisson", Fraction(15, 64)),)}),  # at the rate with which a unit stays
]


@pytest.mark.parametrize(("problem", "mistaken"), MISREAD, ids=range(len(MISREAD)))
def test_the_oracle_can_fail(problem, mistaken):
    epsilons = np.array([0.1, 1.0])
    allowed = bound(replace(problem, **mistaken).plan, epsilons)
    values = data_sets(problem.run, np.random.default_rng(1), extreme=4, random=0, in_plane=0)
    truths = [truth_of(problem.run, one, problem.sigma, epsilons) for one in values]
    assert max(excess(truth, allowed) for truth in truths) > 1.1
