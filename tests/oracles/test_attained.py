"""Data sets that attain the one-step bound where it is called tight: a bound that is merely safe would fail here.

Sampled contributions: the unit's in D, in D', and its mates', which are the contributions of every other unit.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.oracles.adversary import telling_epsilons, truth_of
from tests.oracles.brute_force import (
    ADD_REMOVE,
    RELATIONS,
    REPLACE_ONE,
    ZERO_OUT,
    Experiment,
    everything,
    fixed,
    poisson,
)
from tests.oracles.gaussian_mixtures import Mixture, hockey_stick
from tests.oracles.transcription import both_directions, row

FIXED, POISSON = (fixed(2, 6),), (poisson(Fraction(3, 20), 5),)
USERS = (fixed(1, 5), everything(3))
TASKS = [(fixed(1, 4), -1), (poisson(Fraction(3, 20), 3), 0)]  # and what the records of other tasks contribute
NOISE = (0.9, 2.5)

# (tree, clipping level, relation), (unit in D, unit in D', mates)
ONE_DATA_SET_FOR_BOTH = [
    ((POISSON, 1, ADD_REMOVE), (1, None, 0)),
    ((POISSON, 1, ZERO_OUT), (1, None, 0)),
    ((POISSON, 1, REPLACE_ONE), (1, -1, 0)),
    ((FIXED, 1, ADD_REMOVE), (1, None, -1)),
    ((USERS, 2, ADD_REMOVE), (1, None, -1)),
    ((USERS, 1, ADD_REMOVE), (1, None, -1)),
]

# the same, for the directions D || D' and D' || D
ONE_DATA_SET_EACH = [
    ((FIXED, 1, ZERO_OUT), (1, None, -1), (-1, None, -1)),
    ((FIXED, 1, REPLACE_ONE), (1, -1, -1), (-1, 1, -1)),
    ((USERS, 2, ZERO_OUT), (1, None, -1), (-1, None, -1)),
    ((USERS, 2, REPLACE_ONE), (1, -1, -1), (-1, 1, -1)),
]


def flat_truth(case, values, sigma, epsilons):
    unit, other, mate = values
    tree, clip, relation = case
    experiment = Experiment(tree, 1, clip, relation)
    by_role = {("unit", 0): unit, ("unit", 1): other, ("mate", 0): mate}
    return truth_of(experiment, experiment.pattern(by_role), sigma, epsilons)


@pytest.mark.parametrize(("case", "values"), ONE_DATA_SET_FOR_BOTH)
@pytest.mark.parametrize("sigma", NOISE)
def test_one_flat_data_set_attains_both_directions_and_signs(case, values, sigma):
    tree, clip, relation = case
    found = row(tree, 1, clip, relation)
    epsilons = telling_epsilons(found, sigma)
    bound = both_directions(found, sigma, epsilons)
    assert flat_truth(case, values, sigma, epsilons) == pytest.approx(bound, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize(("case", "forward", "backward"), ONE_DATA_SET_EACH)
@pytest.mark.parametrize("sigma", NOISE)
def test_each_direction_is_attained_by_its_own_flat_data_set(case, forward, backward, sigma):
    tree, clip, relation = case
    found = row(tree, 1, clip, relation)
    epsilons = np.abs(telling_epsilons(found, sigma))
    bound = both_directions(found, sigma, epsilons)
    for direction, values in enumerate((forward, backward)):
        truth = flat_truth(case, values, sigma, epsilons)[direction]
        assert truth == pytest.approx(bound[direction], rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sigma", NOISE)
@pytest.mark.parametrize(("unit", "clip"), [(1, 1), (1, 2), (2, 2)])
def test_without_sampling_the_bound_is_the_plain_gaussian(relation, sigma, unit, clip):
    tree = everything(2), everything(3)
    found = row(tree, unit, clip, relation)
    own = 3 if (unit, clip) == (1, 2) else 1
    shift = 2 * own if relation == REPLACE_ONE else own
    epsilons = telling_epsilons(found, sigma)
    plain = hockey_stick(Mixture.on_line([1], [shift]), Mixture.on_line([1], [0]), sigma, epsilons)
    assert both_directions(found, sigma, epsilons) == pytest.approx(np.stack([plain, plain]), rel=1e-6, abs=1e-14)
    experiment = Experiment(tree, unit, clip, relation)
    values = experiment.pattern({role: {("unit", 0): 1, ("unit", 1): -1}.get(role, 0) for role in experiment.roles})
    assert truth_of(experiment, values, sigma, epsilons) == pytest.approx(np.stack([plain, plain]), rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("sigma", NOISE)
@pytest.mark.parametrize(("tasks", "others"), TASKS)
def test_fixed_draws_below_a_drawn_level_are_attained_from_the_smaller_data_set(tasks, others, sigma):
    tree = tasks, fixed(2, 4)
    found = row(tree, 2, 2, ADD_REMOVE)
    epsilons = np.abs(telling_epsilons(found, sigma))
    experiment = Experiment(tree, 2, 2, ADD_REMOVE)
    values = experiment.pattern({("unit", 0): -1, ("mate", 1): 1, ("mate", 0): others})
    truth, bound = truth_of(experiment, values, sigma, epsilons)[1], both_directions(found, sigma, epsilons)[1]
    assert truth == pytest.approx(bound, rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sigma", NOISE)
@pytest.mark.parametrize(("tasks", "others"), TASKS)
def test_all_records_of_drawn_tasks_attain_both_directions(tasks, others, relation, sigma):
    tree = tasks, everything(3)
    found = row(tree, 2, 2, relation)
    epsilons = np.abs(telling_epsilons(found, sigma))
    experiment = Experiment(tree, 2, 2, relation)
    for direction, unit in enumerate((1, -1)):
        by_role = {("unit", 0): unit, ("unit", 1): -unit, ("mate", 1): 1, ("mate", 0): others}
        values = experiment.pattern({role: by_role[role] for role in experiment.roles})
        truth, bound = truth_of(experiment, values, sigma, epsilons), both_directions(found, sigma, epsilons)
        assert truth[direction] == pytest.approx(bound[direction], rel=1e-6, abs=1e-15)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sigma", NOISE)
def test_one_clipped_vector_for_the_whole_batch_is_attained(relation, sigma):
    """Only where a batch is never empty: then its vector is 0."""
    found = row(FIXED, 1, 0, relation)
    epsilons = np.abs(telling_epsilons(found, sigma))
    bound = both_directions(found, sigma, epsilons)
    experiment = Experiment(FIXED, 1, 0, relation)
    for direction, unit in enumerate((1, -1)):
        # what the batch shows without the unit is what it shows in the data set that is not being recognised
        missed = -1 if relation != ADD_REMOVE else -unit
        by_role = {("holder", 1, 0): unit, ("holder", 1, 1): -unit, ("holder", 0, 0): missed}
        truth = truth_of(experiment, experiment.pattern(by_role), sigma, epsilons)[direction]
        assert truth == pytest.approx(bound[direction], rel=1e-6, abs=1e-15)


def test_a_zeroed_record_in_a_fixed_batch_costs_more_than_the_classical_pair():
    tree, sigma, eta = (fixed(2, 40),), 1.1, 1 / 20
    epsilon = math.log1p(eta * math.expm1(1))
    classical = [Mixture.on_line([1 - eta, eta], [0, 1]), Mixture.on_line([1], [0])]
    said = max(hockey_stick(*classical, sigma, [epsilon])[0], hockey_stick(*classical[::-1], sigma, [epsilon])[0])
    truth = flat_truth((tree, 1, ZERO_OUT), (1, None, -1), sigma, [epsilon])[0, 0]
    assert truth > 1.05 * said
    assert truth == pytest.approx(both_directions(row(tree, 1, 1, ZERO_OUT), sigma, [epsilon])[0, 0], rel=1e-6)
