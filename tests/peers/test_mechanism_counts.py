"""Randomized response several times: the peer takes it for once, however the repetition is written."""

import math

import pytest
from dp_accounting import NeighboringRelation, RandomizedResponseDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from dpcalc.adjacency import Adjacency
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All

TRUTH, TIMES, DELTA = 0.6, 10, 1e-5
EVENT = RandomizedResponseDpEvent(noise_parameter=2 * (1 - TRUTH), num_buckets=2)


def theirs(event, count):
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE)
    return accountant.compose(event, count).get_epsilon(DELTA)


def exact_delta(epsilon, steps):
    """The losses of independent bits, by the binomial sum."""
    ways = [math.comb(steps, true) for true in range(steps + 1)]
    p = [way * TRUTH**true * (1 - TRUTH) ** (steps - true) for true, way in enumerate(ways)]
    return sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, reversed(p), strict=True))


@pytest.mark.parametrize(
    ("event", "count"), [(EVENT, TIMES), (SelfComposedDpEvent(EVENT, TIMES), 1)], ids=["count", "self-composed"]
)
def test_the_count_is_ignored(event, count):
    level = Level(name="record", count=10, scheme=All())
    phase = Phase(
        name="survey",
        hierarchy=Hierarchy(levels=(level,)),
        mechanism=RandomizedResponse(truth_probability=TRUTH),
        clip=1,
        steps=TIMES,
    )
    ours = guarantee(Plan(phases=(phase,), unit=1, adjacency=Adjacency.REPLACE_ONE, delta=DELTA)).epsilon
    assert exact_delta(ours, TIMES) <= DELTA < exact_delta(ours * (1 - 1e-3), TIMES)
    assert theirs(event, count) == pytest.approx(theirs(EVENT, 1), rel=1e-9)
    assert exact_delta(theirs(event, count), TIMES) > 1000 * DELTA
