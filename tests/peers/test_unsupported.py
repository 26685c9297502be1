"""What a peer refuses to answer, it refuses loudly; ours answers."""

from fractions import Fraction

import pytest
from dp_accounting import (
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    UnsupportedEventError,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from dpcalc.guarantee import Adjacency
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import Fixed, Poisson
from tests.peers.settings import NEIGHBORS, Flat, fixed, google_pld, google_rdp, our_rdp, ours, plan, prv
from tests.thinning import thinned

ACCOUNTANTS = {"pld": PLDAccountant, "rdp": lambda relation: RdpAccountant(neighboring_relation=relation)}
TENTH = Poisson(probability=Fraction(1, 10))
REPLACED = Adjacency.REPLACE_ONE
BATCHES = SampledWithoutReplacementDpEvent(10_000, 100, GaussianDpEvent(4))
FLAT = PoissonSampledDpEvent(0.02, GaussianDpEvent(2))
NESTED = PoissonSampledDpEvent(0.1, PoissonSampledDpEvent(0.1, GaussianDpEvent(4)))  # redrawn in every step
TASKS = SampledWithoutReplacementDpEvent(200, 4, SampledWithoutReplacementDpEvent(20, 5, GaussianDpEvent(6)))


def nested(relation, *schemes, clip=2, sigma=6, delta=1e-5):
    tasks, examples = schemes
    levels = (Level(name="task", count=40, scheme=tasks), Level(name="example", count=20, scheme=examples))
    return plan(*levels, run=Flat("1/100", sigma, 1_000, delta, relation), clip=clip)


@pytest.mark.parametrize(
    ("accountant", "relation", "event"),
    [
        *(("pld", relation, BATCHES) for relation in Adjacency),
        *(("rdp", relation, BATCHES) for relation in Adjacency if relation is not REPLACED),
        ("rdp", REPLACED, FLAT),
        *((accountant, relation, NESTED) for accountant in ACCOUNTANTS for relation in Adjacency),
        *((accountant, REPLACED, TASKS) for accountant in ACCOUNTANTS),
    ],
)
def test_dp_accounting_refuses(accountant, relation, event):
    with pytest.raises(UnsupportedEventError):
        ACCOUNTANTS[accountant](NEIGHBORS[relation]).compose(event, 1_000)


@pytest.mark.parametrize(
    "case",
    [
        *(fixed(100, 10_000, Flat("1/100", 4, 1_000, 1e-5, relation)) for relation in Adjacency),
        Flat("1/50", 2, 1_000, 1e-5, REPLACED).plan,
        *(nested(relation, TENTH, TENTH, clip=clip) for relation in Adjacency for clip in (1, 2)),
        *(nested(relation, Fixed(size=4), Fixed(size=5), clip=clip) for relation in Adjacency for clip in (1, 2)),
    ],
)
def test_ours_answers(case):
    lower, upper = ours(case)
    assert 0 < lower <= upper <= our_rdp(case)


def test_one_flat_draw_at_the_product_of_rates_is_too_cheap_for_two_levels_clipped_per_task():
    """What people type instead; below what an actual data set costs, even where all is redrawn in every step."""
    two_levels = nested(Adjacency.ADD_REMOVE, TENTH, TENTH, clip=1, sigma=4, delta=1e-6)
    assert ours(two_levels)[0] > google_pld(Flat("1/100", 4, 1_000, 1e-6))


@pytest.mark.parametrize("delta", thinned([1e-14, 1e-15, 1e-30], 1))
def test_tiny_delta_by_prv_accountant(delta):
    run = Flat("1/100", 1, 1_000, delta)
    with pytest.raises(ValueError, match="Floating point errors"):
        prv(run)
    lower, upper = ours(run.plan)
    assert upper - lower < 1e-3 * upper
    assert upper < google_rdp(run)
