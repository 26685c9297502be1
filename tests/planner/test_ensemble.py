"""Plans of queries to teachers: exact compositions, actual ensembles, and what one teacher or several can change."""

import itertools
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from dpcalc.errors import UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.mechanisms.black_box import ConfidentGNMax, GNMax, LNMax
from dpcalc.pate import data_independent_guarantee
from dpcalc.planner.evaluate import delta_of, guarantee
from dpcalc.planner.solve import EpsilonGoal, solve
from dpcalc.planner.statement import unsampled_epsilon
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import All, Poisson, Shuffle
from tests.oracles.ballots import neighbours, outcomes
from tests.oracles.exact_gaussian import exact_epsilon
from tests.runs import run_of

DELTA = 1e-5
TEACHERS = Level(name="teacher", count=250, scheme=All())
MECHANISMS = [
    LNMax(gamma=0.05),
    GNMax(noise_multiplier=40.0),
    ConfidentGNMax(noise_multiplier=40.0, threshold=200.0, threshold_noise_multiplier=150.0),
]


def plan(mechanism, *levels, queries=100, unit=1, adjacency=Adjacency.REPLACE_ONE, group_size=1):
    asked = {"unit": unit, "adjacency": adjacency, "group_size": group_size, "steps": queries}
    return run_of(*(levels or (TEACHERS,)), mechanism=mechanism, **asked)


def optimal_delta(epsilon, pure, count):
    """Of `count` answers by randomized response that are (pure, 0)-DP, by the binomial sum."""
    with mpmath.workdps(40):
        true = 1 / (1 + mpmath.exp(-mpmath.mpf(pure)))
        total = mpmath.mpf(0)
        for hits in range(count + 1):
            ways = mpmath.binomial(count, hits)
            p, q = true**hits * (1 - true) ** (count - hits), true ** (count - hits) * (1 - true) ** hits
            total += ways * max(mpmath.mpf(0), p - mpmath.exp(epsilon) * q)
        return float(total)


@pytest.mark.parametrize("together", [1, 3])
@pytest.mark.parametrize("mechanism", MECHANISMS[1:])
def test_gaussian_answers_are_one_gaussian_release(mechanism, together):
    """Squared distances in deviations: 2 of the counts, 1 of the largest one."""
    squared = 2 / 40.0**2 + (1 / 150.0**2 if mechanism.name == "pate-confident-gnmax" else 0)
    found = guarantee(plan(mechanism, group_size=together)).epsilon
    assert found * (1 - 1e-4) < exact_epsilon(100, 1 / (together * math.sqrt(squared)), DELTA) <= found


@pytest.mark.parametrize("together", [1, 4])
def test_lnmax_is_the_optimal_composition(together):
    found = guarantee(plan(MECHANISMS[0], group_size=together)).epsilon
    pure = 2 * 0.05 * together
    assert optimal_delta(found, pure, 100) <= DELTA < optimal_delta(found * (1 - 1e-4), pure, 100)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_whatever_unit_and_relation(mechanism):
    """All of a teacher, or a record of it; nobody is left out by chance."""
    records = Level(name="record", count=100, scheme=All())
    found = guarantee(plan(mechanism)).epsilon
    for unit, adjacency in itertools.product((1, 2), Adjacency):
        assert guarantee(plan(mechanism, TEACHERS, records, unit=unit, adjacency=adjacency)).epsilon == found
    assert unsampled_epsilon(plan(mechanism)) == found
    assert found == pytest.approx(data_independent_guarantee(mechanism, 100, delta=DELTA).epsilon, rel=1e-4)


def test_a_phase_beside_training():
    """Answers of GNMax and Gaussian noise on a sum over the same units are one Gaussian release."""
    answers = plan(MECHANISMS[1], adjacency=Adjacency.ADD_REMOVE)
    noise = Gaussian(noise_multiplier=20.0)
    training = replace(answers.phases[0], name="training", mechanism=noise, steps=30)
    found = guarantee(replace(answers, phases=(answers.phases[0], training))).epsilon
    squared = 100 * 2 / 40.0**2 + 30 / 20.0**2
    assert found * (1 - 1e-4) < exact_epsilon(1, 1 / math.sqrt(squared), DELTA) <= found


@pytest.mark.parametrize(
    "mechanism",
    [
        LNMax(gamma=0.3),
        GNMax(noise_multiplier=2.0),
        ConfidentGNMax(noise_multiplier=2.0, threshold=4.0, threshold_noise_multiplier=1.0),
    ],
)
def test_actual_ensembles_cost_no_more(mechanism):
    """One teacher votes otherwise, or is not there."""
    worst = dict.fromkeys((0.0, 0.1, 0.3, 0.6), 0.0)
    for row in ([5, 0, 0], [3, 2, 0], [2, 2, 1], [1, 4, 0]):
        gone = [[count - (at == who) for at, count in enumerate(row)] for who in range(3) if row[who]]
        for other in (*neighbours(row), *gone):
            p, q = (np.exp(outcomes(each, mechanism)) for each in (row, other))
            for epsilon, known in worst.items():
                found = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))
                worst[epsilon] = max(known, float(found))
    for epsilon, found in worst.items():
        bound = delta_of(plan(mechanism, queries=1), epsilon=epsilon).delta
        assert found <= bound + 1e-7
        assert epsilon or found > 0.3 * bound


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (Level(name="teacher", count=250, scheme=Poisson(probability=0.5)), "got poisson"),
        (Level(name="teacher", count=250, scheme=Shuffle(size=25)), "got shuffle"),
    ],
)
def test_all_teachers_vote(level, words):
    with pytest.raises(
        UnsupportedError, match=f"training: expected scheme all at every level with pate-gnmax, {words}"
    ):
        guarantee(plan(MECHANISMS[1], level))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_solving(mechanism):
    goal = EpsilonGoal(limit=1.0)
    noise = solve(plan(mechanism), "sigma", goal=goal)
    assert guarantee(noise.plan).epsilon <= 1.0
    louder = noise.plan.phases[0].mechanism.noise_multiplier
    assert guarantee(plan(noise.plan.phases[0].with_noise(louder * (1 - 2e-4)).mechanism)).epsilon > 1.0
    steps = solve(plan(mechanism), "steps", goal=goal).value
    within, beyond = (guarantee(plan(mechanism, queries=steps + more)).epsilon for more in (0, 1))
    assert within <= 1.0 < beyond


def test_next_to_no_noise_costs_what_pure_privacy_does():
    """One bit that is true but for e^-102: delta(eps) = 1 - e^(eps - 102)."""
    exact = 102 + math.log1p(-1e-5)
    assert exact <= guarantee(plan(LNMax(gamma=51.0), queries=1)).epsilon <= 102
