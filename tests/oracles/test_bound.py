"""No data set of any tiny hierarchy may cost more than the one-step bound."""

from dataclasses import replace

import numpy as np
import pytest

from tests.oracles.adversary import (
    climb,
    data_sets,
    excess,
    extreme_patterns,
    random_problem,
    random_tree,
    telling_epsilons,
    truth_of,
    worst_ratio,
)
from tests.oracles.brute_force import RELATIONS, Experiment, outcome_count
from tests.oracles.gaussian_mixtures import hockey_stick
from tests.oracles.transcription import both_directions, pair, row
from tests.thinning import thinned

NEVER = 1 + 1e-9  # relative slack of two float64 evaluations, far below any modelling error


@pytest.mark.heavy
@pytest.mark.parametrize("block", thinned(range(30), 1))
def test_no_enumerated_data_set_exceeds_the_bound(block):
    rng = np.random.default_rng([block, 2024])
    for _ in range(10):
        problem = random_problem(rng)
        ratio, values = worst_ratio(problem, rng, most_extreme=8, lattice=3, uniform=2)
        assert ratio <= NEVER, (problem, values)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(15))
def test_no_enumerated_data_set_exceeds_the_bound_at_length(block):
    rng = np.random.default_rng([block, 4048])
    for _ in range(60):
        problem = random_problem(rng, most_outcomes=900)
        ratio, values = worst_ratio(problem, rng, most_extreme=16, lattice=6, uniform=4)
        assert ratio <= NEVER, (problem, values)


def climbed(problem, rng, sweeps):
    """The largest truth / bound that coordinate ascent reaches, from the best extreme pattern, in each direction."""
    tree, unit, clip, relation, sigma = problem
    experiment, found = Experiment(tree, unit, clip, relation), row(tree, unit, clip, relation)
    epsilons = telling_epsilons(found, sigma)[1:4]
    bound = both_directions(found, sigma, epsilons)
    start = list(data_sets(experiment, rng, most_extreme=16, lattice=1, uniform=0))
    for direction in (0, 1):
        for at, eps in enumerate(epsilons):
            if bound[direction, at] < 1e-10:
                continue

            def objective(values, direction=direction, at=at, eps=eps):
                return truth_of(experiment, values, sigma, [eps])[direction, 0] / bound[direction, at]

            values = climb(max(start, key=objective), objective, rng, sweeps=sweeps)
            reached = truth_of(experiment, values, sigma, epsilons)
            yield excess(reached, bound, epsilons), values


@pytest.mark.heavy
@pytest.mark.parametrize("seed", thinned(range(6), 3))
def test_no_data_set_found_by_ascent_exceeds_the_bound(seed):
    rng = np.random.default_rng([seed, 77])
    problem = random_problem(rng)
    for ratio, values in climbed(problem, rng, sweeps=1):
        assert ratio <= NEVER, (problem, values)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_no_data_set_found_by_ascent_exceeds_the_bound_at_length(seed):
    rng = np.random.default_rng([seed, 99])
    problem = random_problem(rng, most_outcomes=250)
    for ratio, values in climbed(problem, rng, sweeps=3):
        assert ratio <= NEVER, (problem, values)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", thinned(range(8), 4))
def test_no_data_set_in_the_plane_exceeds_the_bound(seed):
    rng = np.random.default_rng([seed, 31])
    while True:
        tree, unit, clip, relation, sigma = problem = random_problem(rng, most_outcomes=40)
        if len(tree) > 1 and sigma > 1:
            break
    experiment, found = Experiment(tree, unit, clip, relation), row(tree, unit, clip, relation)
    epsilons = telling_epsilons(found, sigma)
    angles = rng.uniform(0, 2 * np.pi, len(experiment.keys))
    values = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ratio = excess(truth_of(experiment, values, sigma, epsilons), both_directions(found, sigma, epsilons), epsilons)
    assert ratio <= NEVER, (problem, values)


def test_a_shift_one_too_small_is_caught():
    """The oracle must be able to fail: halve the replaced sibling of a fixed draw and the bound is exceeded."""
    rng = np.random.default_rng(0)
    tree = random_tree(rng, depth=1)
    while not (tree[0].is_fixed and outcome_count(tree) > 3):
        tree = random_tree(rng, depth=1)
    experiment, found = Experiment(tree, 1, 1, "add-remove"), row(tree, 1, 1, "add-remove")
    epsilons = telling_epsilons(found, 1.5)
    classical = replace(found, s=1, d=(1,))
    wrong = both_directions(classical, 1.5, epsilons)
    patterns = [experiment.pattern(by_role) for by_role in extreme_patterns(experiment)]
    assert max(excess(truth_of(experiment, v, 1.5, epsilons), wrong, epsilons) for v in patterns) > 1.2


@pytest.mark.parametrize("seed", thinned(range(60), 30))
def test_the_closed_form_is_the_integral_of_its_pair(seed):
    """Also that {P > e^eps Q} is a half-line: the integrator looks for every crossing."""
    rng = np.random.default_rng([seed, 5])
    while True:
        tree, unit, clip, relation, sigma = random_problem(rng)
        found = row(tree, unit, clip, relation)
        if found.eta > 0:  # a unit that is never drawn has no pair
            break
    epsilons = telling_epsilons(found, sigma)[:5]
    closed = both_directions(found, sigma, epsilons)
    for direction, distances in enumerate((found.d, found.d_swapped)):
        assert closed[direction] == pytest.approx(hockey_stick(*pair(found, distances), sigma, epsilons), abs=2e-14)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_unit_that_is_never_drawn_costs_nothing(relation):
    rng = np.random.default_rng(8)
    tree, unit, *_ = random_problem(rng)
    while row(tree, unit, 1, relation).eta != 0:
        tree, unit, *_ = random_problem(rng)
    found = both_directions(row(tree, unit, 1, relation), 1.0, [0.0, 0.5])
    assert (found == 0).all()
    experiment = Experiment(tree, unit, 1, relation)
    for values in data_sets(experiment, rng, most_extreme=4, lattice=1, uniform=1):
        assert truth_of(experiment, values, 1.0, [0.0, 0.5]).max() < 1e-15
