"""What a statement adds to the guarantee: groups by the chain of single units, and the run without amplification."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest

from dpcalc.accountants.composed_loss import LOWER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.losses.pair import MixturePair
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.statement import chain_epsilon, statement
from dpcalc.sampling.hierarchy import tree_of
from dpcalc.sampling.schemes import All, Fixed, Poisson, Shuffle, WithReplacement
from tests.oracles.exact_gaussian import exact_delta, exact_epsilon
from tests.runs import of_tree, plan_of, run_of

RELATIONS = pytest.mark.parametrize("adjacency", ["add-remove", "zero-out"])


@pytest.mark.parametrize("size", [2, 3, 10])
@RELATIONS
def test_the_chain_of_gaussians_needs_just_its_delta(size, adjacency):
    plan = plan_of(All(), noise=40.0, steps=100, adjacency=adjacency)
    link = mpmath.mpf(chain_epsilon(plan, size)) / size
    chain = sum(mpmath.exp(number * link) for number in range(size))
    spent = exact_delta(mpmath.mpf("0.25"), link) * chain
    assert 0.97 * plan.delta < spent <= plan.delta
    assert size * link >= exact_epsilon(100, 40.0 / size, plan.delta)  # of one release with `size` times the shift


@pytest.mark.parametrize("size", [2, 3])
def test_the_chain_lies_above_a_data_set_where_fixed_batches_lose_units(size):
    """All others +1, the group -1: with them gone, others stand in (theory: a hypergeometric number of them)."""
    count, drawn, sigma, steps = 40, 8, 6.0, 20
    held = {
        2 * held: Fraction(math.comb(size, held) * math.comb(count - size, drawn - held), math.comb(count, drawn))
        for held in range(size + 1)
    }
    pair = MixturePair.of(held, {0: Fraction(1)}, deviation=sigma)
    costs = [epsilon_bounds(Counter({one: steps}), delta=1e-5, sides=(LOWER,))[0] for one in (pair, pair.swapped)]
    assert max(costs) <= chain_epsilon(run_of((count, Fixed(size=drawn)), noise=sigma, steps=steps), size)


def test_links_of_removal_are_computed_with_the_largest_rate():
    """The last link removes one of 38: its rate is 8/38, not 8/40."""
    link = chain_epsilon(run_of((40, Fixed(size=8)), noise=6.0, steps=20), 3) / 3
    delta = 1e-5 / sum(math.exp(number * link) for number in range(3))
    last = guarantee(run_of((38, Fixed(size=8)), noise=6.0, steps=20, delta=delta)).epsilon
    assert link * (1 - 2e-3) <= last <= link * (1 + 1e-9)


def test_no_chain_is_claimed_where_it_proves_nothing():
    plan = run_of((10, Fixed(size=8)))
    assert chain_epsilon(plan, 2) is not None
    assert chain_epsilon(plan, 3) is None  # a draw of 8 of 7
    assert chain_epsilon(run_of((10, Fixed(size=8)), adjacency="zero-out"), 3) is not None
    other = replace(run_of((10, Poisson(probability=Fraction(1, 2)))).phases[0], name="other")
    assert chain_epsilon(replace(plan, phases=(plan.phases[0], other)), 2) is None
    tree = of_tree(tree_of([9, 12], ("user", "example")), ("user", "example"), (All(), Fixed(size=4)))
    assert chain_epsilon(run_of(tree), 2) is None


@pytest.mark.heavy
@RELATIONS
def test_draws_that_a_removal_changes_in_other_ways_are_not_chained(adjacency):
    for level in ((40, WithReplacement(size=8)), (40, Shuffle(size=8)), (40, Fixed(size=8), 2)):
        claimed = chain_epsilon(run_of(level, noise=20.0, steps=4, adjacency=adjacency), 2) is not None
        assert claimed == (adjacency == "zero-out")  # where nothing is removed


@pytest.mark.parametrize(
    ("run", "epsilon", "advantage"),
    [(plan_of(All(), noise=0.0), math.inf, 1.0), (plan_of(Poisson(probability=Fraction(0))), 0.0, 0.0)],
)
def test_without_noise_nothing_is_claimed_and_without_draws_nothing_is_spent(run, epsilon, advantage):
    found = statement(run)
    assert (found.unsampled, found.attack.advantage) == (epsilon, advantage)
    assert {bound for _, bound in found.groups} == {epsilon}


@pytest.mark.heavy
def test_a_group_takes_the_smaller_of_both_bounds():
    flat = plan_of(Poisson(probability=Fraction(256, 60000)), noise=3.0, steps=4000, adjacency="zero-out")
    assert 1.848026 <= dict(statement(flat).groups)[5] <= 1.8482 < chain_epsilon(flat, 5)
    levels = (200, Fixed(size=4)), (20, Fixed(size=5))
    nested = run_of(*levels, noise=3.0, steps=500, clip=1)
    assert dict(statement(nested).groups)[2] == chain_epsilon(nested, 2)
    assert chain_epsilon(nested, 2) < guarantee(run_of(*levels, noise=3.0, steps=500, clip=1, group_size=2)).epsilon
