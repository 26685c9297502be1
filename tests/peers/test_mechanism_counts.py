"""Repetitions that dp_accounting forgets, however they are written: one mechanism in each of its two accountants.

Release 0.6.0 forgets them for randomized response in the accountant of privacy loss distributions; the development
version (commit b5b0286e, 2026-08-06) also for the exponential mechanism, which 0.6.0 does not have, in the one of Renyi
divergences. All other events are counted in both.
"""

import math

import pytest
from dp_accounting import NeighboringRelation, SelfComposedDpEvent, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.black_box import Exponential, RandomizedResponse
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All
from tests.thinning import thinned

DELTA = 1e-5
TRUTH = 0.6
EPSILON = 0.1
ANSWERS = dp_event.RandomizedResponseDpEvent(noise_parameter=2 * (1 - TRUTH), num_buckets=2)
GAUSSIAN, LAPLACE = dp_event.GaussianDpEvent(8.0), dp_event.LaplaceDpEvent(10.0)
EVENTS = {
    "nothing": dp_event.NoOpDpEvent(),
    "randomized response": ANSWERS,
    "gaussian": GAUSSIAN,
    "laplace": LAPLACE,
    "discrete laplace": dp_event.DiscreteLaplaceDpEvent(0.1, 1),
    "repeated": SelfComposedDpEvent(GAUSSIAN, 3),
    "composed": dp_event.ComposedDpEvent([GAUSSIAN, LAPLACE]),
    "poisson gaussian": dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(2.0)),
    "poisson laplace": dp_event.PoissonSampledDpEvent(0.1, dp_event.LaplaceDpEvent(2.0)),
    "without replacement": dp_event.SampledWithoutReplacementDpEvent(1_000, 100, dp_event.GaussianDpEvent(2)),
    "with replacement": dp_event.SampledWithReplacementDpEvent(1_000, 100, dp_event.GaussianDpEvent(2)),
    "tree": dp_event.SingleEpochTreeAggregationDpEvent(8.0, 4),
    "best of several": dp_event.RepeatAndSelectDpEvent(GAUSSIAN, 5, 1),
    "mixture": dp_event.MixtureOfGaussiansDpEvent(50.0, [0.0, 1.0], [0.5, 0.5]),
    "zcdp": dp_event.ZCDpEvent(0.01),
}
ACCOUNTANTS = {
    "pld": lambda relation: PLDAccountant(relation, value_discretization_interval=4e-3),
    "rdp": lambda relation: RdpAccountant(orders=[2, 4, 8, 16, 32, 64], neighboring_relation=relation),
}
FORGOTTEN = {("randomized response", "pld")}


def theirs(accountant, relation, event, count, *, calls=1):
    total = ACCOUNTANTS[accountant](relation)
    for _ in range(calls):
        total.compose(event, count)
    return float(total.get_epsilon(DELTA))


def cases():
    """Every event that an accountant takes under a relation."""
    for name, event in EVENTS.items():
        for accountant, make in ACCOUNTANTS.items():
            for relation in NeighboringRelation:
                if make(relation).supports(event):
                    yield pytest.param(name, accountant, relation, id=f"{name}-{accountant}-{relation.name.lower()}")


@pytest.mark.parametrize(("name", "accountant", "relation"), thinned(cases(), 17))
def test_what_is_counted(name, accountant, relation):
    event = EVENTS[name]
    once = theirs(accountant, relation, event, 1)
    for count in (2, 10):
        each = theirs(accountant, relation, event, 1, calls=count)
        for found in (
            theirs(accountant, relation, event, count),
            theirs(accountant, relation, SelfComposedDpEvent(event, count), 1),
        ):
            if (name, accountant) in FORGOTTEN:
                assert found == pytest.approx(once, rel=1e-9)
                assert each > 1.9 * once
            else:
                assert found == pytest.approx(each, rel=1e-2, abs=1e-9)
                assert once < found or event == EVENTS["nothing"]


def ours(mechanism, steps):
    level = Level(name="record", count=10, scheme=All())
    hierarchy = Hierarchy(levels=(level,))
    phase = Phase(name="survey", hierarchy=hierarchy, mechanism=mechanism, clip=1, steps=steps)
    return guarantee(Plan(phases=(phase,), unit=1, adjacency=Adjacency.REPLACE_ONE, delta=DELTA)).epsilon


def exact_delta(epsilon, steps, truth):
    """The losses of independent bits, by the binomial sum."""
    ways = [math.comb(steps, true) for true in range(steps + 1)]
    p = [way * truth**true * (1 - truth) ** (steps - true) for true, way in enumerate(ways)]
    return math.fsum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, reversed(p), strict=True))


def assert_exact(epsilon, steps, truth):
    assert exact_delta(epsilon, steps, truth) <= DELTA < exact_delta(epsilon * (1 - 1e-5), steps, truth)


@pytest.mark.parametrize(("steps", "true_epsilon"), [(2, 0.810903), (10, 4.052996), (100, 23.65424)])
def test_answers(steps, true_epsilon):
    """True values: where the binomial sum is DELTA."""
    assert_exact(true_epsilon, steps, TRUTH)
    assert ours(RandomizedResponse(truth_probability=TRUTH), steps) == pytest.approx(true_epsilon, rel=1e-4)
    said = theirs("pld", NeighboringRelation.REPLACE_ONE, ANSWERS, steps)
    assert said == pytest.approx(math.log(TRUTH / (1 - TRUTH)), abs=4e-3)
    assert exact_delta(said, steps, TRUTH) > 1000 * DELTA


RECORDED = 0.103501  # for 1, 2, 10 and 100 choices; composed one by one 0.103501, 0.203501, 0.615800 and 2.165698


@pytest.mark.parametrize(("steps", "true_epsilon"), [(10, 0.491968), (100, 1.968131)])
def test_choices(steps, true_epsilon):
    """True values: of an exponential mechanism with two answers, whose losses are +-EPSILON / 2."""
    truth = 1 / (1 + math.exp(-EPSILON / 2))
    assert_exact(true_epsilon, steps, truth)
    assert true_epsilon < ours(Exponential(epsilon=EPSILON), steps) < 1.3 * true_epsilon
    event = getattr(dp_event, "ExponentialMechanismDpEvent", None)
    said = RECORDED if event is None else RdpAccountant().compose(event(EPSILON), steps).get_epsilon(DELTA)
    assert said == pytest.approx(RECORDED, abs=1e-6)
    assert exact_delta(said, steps, truth) > 1000 * DELTA
