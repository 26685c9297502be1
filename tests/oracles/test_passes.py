"""Shuffles against every order there is: upper bounds, lower ends and what is called tight, each for itself."""

import itertools

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.planner.lower import delta_lower, epsilon_lower
from dpcalc.planner.releases import alternatives

from .brute_force import ADD_REMOVE
from .multistage import bound, data_sets
from .passes import Passes, Turns, random_passes, truth

NEVER = 1 + 1e-9  # relative slack of two float64 evaluations
ROUND_OFF = 1e-13


def is_answered(problem):
    """Whether the run is not refused; nothing is refused that does not remove."""
    if problem.relation != ADD_REMOVE:
        return True
    try:
        alternatives(problem.plan)
    except InputError:
        return False
    return True


def worst_ratio(problem, rng, **amounts):
    """Largest truth / bound of a run, with the values that reach it."""
    run, epsilons = problem.run, np.array([0.0, 0.04, 1 / problem.sigma, 1.5])
    allowed = np.maximum(bound(problem.plan, epsilons), ROUND_OFF)
    worst, at = 0.0, None
    for values in data_sets(run, rng, **amounts):
        ratio = ((truth(run, values, problem.sigma, epsilons) - ROUND_OFF) / allowed).max()
        if ratio > 0.999:  # in the plane the quick sum is good to three digits
            exact = truth(run, values, problem.sigma, epsilons, per_sigma=256)
            ratio = ((exact - ROUND_OFF) / allowed).max()
        if ratio > worst:
            worst, at = ratio, values
    return worst, at


def check_upper(rng, number, most_outcomes, **amounts):
    done = 0
    while done < number:
        problem = random_passes(rng, most_outcomes=most_outcomes)
        if not is_answered(problem):
            continue
        ratio, values = worst_ratio(problem, rng, **amounts)
        assert ratio <= NEVER, (problem, ratio, values)
        done += 1


@pytest.mark.parametrize("block", range(3))
def test_no_data_set_exceeds_the_bound_of_a_shuffle(block):
    check_upper(np.random.default_rng([block, 41]), 12, 300, extreme=4, random=1, in_plane=0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(60))
def test_no_data_set_exceeds_the_bound_of_a_shuffle_at_length(block):
    check_upper(np.random.default_rng([block, 43]), 20, 3000, extreme=12, random=3, in_plane=1)


def simple_patterns(run, most=7):
    """Values -1, 0 or 1 by role; None where there are too many roles."""
    roles = list(dict.fromkeys(run.roles))
    if len(roles) > most:
        return
    for values in itertools.product([1.0, -1.0, 0.0], repeat=len(roles)):
        by_role = dict(zip(roles, values, strict=True))
        yield np.array([[by_role[role] for role in run.roles]] * run.steps)


def best(problem, epsilon):
    """The most that any simple data set costs: all steps, or the sums over blocks of them."""
    run, found = problem.run, 0.0
    for values in simple_patterns(run):
        for block in range(problem.steps + 1):
            found = max(found, truth(run, values, problem.sigma, [epsilon], block=block).max())
    return found


def check_lower(rng, number, most_outcomes):
    """Lower ends that some data set reaches; at least a third of them say anything."""
    done = said = 0
    while done < number:
        problem = random_passes(rng, most_outcomes=most_outcomes, group=False)
        drawn_below = problem.turns[-1].kind == "poisson" and problem.clip < len(problem.turns)
        if drawn_below or not is_answered(problem):  # an empty clipped unit is another matter
            continue
        lower = delta_lower(problem.plan, epsilon=0.1)
        done += 1
        if lower > 1e-9:
            said += 1
            assert lower <= best(problem, 0.1) * (1 + 1e-6), problem
    assert said >= number / 3


def test_some_data_set_costs_as_much_as_the_lower_end_of_a_shuffle_says():
    check_lower(np.random.default_rng(47), 15, 200)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(30))
def test_some_data_set_costs_as_much_as_the_lower_end_of_a_shuffle_says_at_length(block):
    check_lower(np.random.default_rng([block, 53]), 15, 1500)


def check_tight(rng, number, most_outcomes):
    """What is called tight costs some data set as much as the bound says, in the costlier direction."""
    done = 0
    while done < number:
        problem = random_passes(rng, most_outcomes=most_outcomes, group=False)
        drawn_below = problem.turns[-1].kind == "poisson" and problem.clip < len(problem.turns)
        if problem.steps > 2 or drawn_below or not is_answered(problem):
            continue
        found = epsilon_lower(problem.plan)
        if found is None or not found[1] or not bound(problem.plan, [0.1]).max():
            continue
        done += 1
        run = problem.run
        most = max(truth(run, v, problem.sigma, [0.1], per_sigma=64).max() for v in simple_patterns(run))
        assert most == pytest.approx(bound(problem.plan, [0.1]).max(), rel=2e-3), problem


def test_a_shuffle_that_is_called_tight_is():
    check_tight(np.random.default_rng(59), 4, 200)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_a_shuffle_that_is_called_tight_is_at_length(block):
    check_tight(np.random.default_rng([block, 61]), 8, 800)


def test_the_oracle_sees_a_pass_that_gets_shorter():
    """Three units, two in a batch: once said as if the second batch were released without anybody in it."""
    problem = Passes(3, (Turns("shuffle", 2),), ((0,),), 1, ADD_REMOVE, 1.0, 2)
    run = problem.run
    values = np.array([[-1.0 if role[0] == "unit" else 1.0 for role in run.roles]] * 2)
    assert truth(run, values, 1.0, [7.03], per_sigma=64).max() == pytest.approx(0.0280, rel=0.01)
    assert not is_answered(problem)
