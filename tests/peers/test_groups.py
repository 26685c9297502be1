"""Groups under one Poisson draw: the mixtures of Gaussians of dp_accounting."""

from dataclasses import replace
from fractions import Fraction
from math import comb

import dp_accounting
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant

from dpcalc.planner.evaluate import evaluate
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import Poisson
from tests.peers.settings import Flat, plan

GRID = 1e-4


@pytest.mark.heavy
@pytest.mark.parametrize(("members", "rate", "sigma", "steps"), [(5, "256/60000", 3.0, 4000), (3, "1/20", 10.0, 500)])
def test_mixtures_of_gaussians_agree(members, rate, sigma, steps):
    q = Fraction(rate)
    chances = [float(comb(members, k) * q**k * (1 - q) ** (members - k)) for k in range(members + 1)]
    event = dp_event.MixtureOfGaussiansDpEvent(sigma, [float(k) for k in range(members + 1)], chances)
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=GRID)
    theirs = accountant.compose(event, steps).get_epsilon(1e-5)
    level = Level(name="example", count=60_000, scheme=Poisson(probability=q))
    run = replace(plan(level, run=Flat(rate, sigma, steps, 1e-5)), group_size=members)
    ours = evaluate(run).guarantee
    assert ours.tight
    assert ours.epsilon_lower <= theirs <= ours.epsilon * (1 + 1e-3)
