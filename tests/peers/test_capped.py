"""Poisson batches cut to a maximum: dp_accounting takes the pair of replace-one for full ones under every relation."""

from fractions import Fraction

import dp_accounting
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant

from dpcalc.planner.evaluate import evaluate
from tests.oracles.test_capped import flat_plan

GRID = 1e-3
RELATIONS = {"add-remove": "ADD_OR_REMOVE_ONE", "zero-out": "REPLACE_SPECIAL", "replace-one": "REPLACE_ONE"}


@pytest.mark.heavy
@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize(("draw", "sigma"), [((4_000, Fraction(1, 100), 50), 1.0), ((30, Fraction(1, 6), 5), 2.0)])
def test_no_more_than_dp_accounting(adjacency, draw, sigma):
    count, rate, cap = draw
    event = dp_event.TruncatedSubsampledGaussianDpEvent(count, float(rate), cap, sigma)
    relation = dp_accounting.NeighboringRelation[RELATIONS[adjacency]]
    theirs = PLDAccountant(relation, value_discretization_interval=GRID).compose(event, 100).get_epsilon(1e-5)
    ours = evaluate(flat_plan(*draw, sigma=sigma, steps=100, adjacency=adjacency)).guarantee
    assert ours.epsilon_lower <= ours.epsilon <= theirs
    if count == 4_000:  # where rates are small their pair is nearly that of the adjacency, zero-out excepted
        assert theirs <= ours.epsilon * (1.3 if adjacency == "zero-out" else 1.01)
