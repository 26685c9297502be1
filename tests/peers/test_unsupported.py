"""What a peer refuses to answer, it refuses loudly; ours answers."""

from fractions import Fraction

import pytest
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
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


def assert_refused(accountant, relation, event):
    with pytest.raises(UnsupportedEventError):
        ACCOUNTANTS[accountant](relation).compose(event, 1_000)


def assert_answered(plan):
    lower, upper = ours(plan)
    assert 0 < lower <= upper <= our_rdp(plan)


@pytest.mark.parametrize("relation", list(Adjacency))
def test_fixed_batches_by_privacy_loss_distribution(relation):
    run = Flat("1/100", 4, 1_000, 1e-5, relation)
    assert_refused("pld", NEIGHBORS[relation], SampledWithoutReplacementDpEvent(10_000, 100, GaussianDpEvent(4)))
    assert_answered(fixed(100, 10_000, run))


@pytest.mark.parametrize("relation", [Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT])
def test_fixed_batches_by_renyi_divergence_unless_replaced(relation):
    run = Flat("1/100", 4, 1_000, 1e-5, relation)
    assert_refused("rdp", NEIGHBORS[relation], SampledWithoutReplacementDpEvent(10_000, 100, GaussianDpEvent(4)))
    assert_answered(fixed(100, 10_000, run))


def test_poisson_batches_under_replacement_by_renyi_divergence():
    run = Flat("1/50", 2, 1_000, 1e-5, Adjacency.REPLACE_ONE)
    assert_refused("rdp", NEIGHBORS[run.adjacency], run.event)
    assert_answered(run.plan)


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_nested_poisson_sampling(accountant, relation):
    """Redrawn at both levels in every step."""
    inner = PoissonSampledDpEvent(0.1, GaussianDpEvent(4))
    assert_refused(accountant, relation, PoissonSampledDpEvent(0.1, inner))


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_nested_fixed_sampling(accountant):
    inner = SampledWithoutReplacementDpEvent(20, 5, GaussianDpEvent(6))
    assert_refused(accountant, NeighboringRelation.REPLACE_ONE, SampledWithoutReplacementDpEvent(200, 4, inner))


@pytest.mark.parametrize("relation", list(Adjacency))
@pytest.mark.parametrize("clip", [1, 2])
@pytest.mark.parametrize("schemes", [(TENTH, TENTH), (Fixed(size=4), Fixed(size=5))])
def test_nested_sampling_has_an_answer_of_ours(relation, clip, schemes):
    run = Flat("1/100", 6, 1_000, 1e-5, relation)
    tasks, examples = schemes
    levels = (Level(name="task", count=40, scheme=tasks), Level(name="example", count=20, scheme=examples))
    assert_answered(plan(*levels, run=run, clip=clip))


def test_one_flat_draw_at_the_product_of_rates_is_too_cheap_for_two_levels_clipped_per_task():
    """What people type instead; below what an actual data set costs, even where all is redrawn in every step."""
    run = Flat("1/100", 4, 1_000, 1e-6)
    levels = (Level(name="task", count=40, scheme=TENTH), Level(name="example", count=20, scheme=TENTH))
    assert ours(plan(*levels, run=run, clip=1))[0] > google_pld(run)


DELTAS = [1e-14, 1e-15, 1e-30]


@pytest.mark.parametrize("delta", thinned(DELTAS, 1))
def test_tiny_delta_by_prv_accountant(delta):
    run = Flat("1/100", 1, 1_000, delta)
    with pytest.raises(ValueError, match="Floating point errors"):
        prv(run)
    lower, upper = ours(run.plan)
    assert upper - lower < 1e-3 * upper
    assert upper < google_rdp(run)
