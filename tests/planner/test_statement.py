"""What a statement adds to the guarantee: groups by the chain of single units, and the run without amplification."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest

from dpcalc.accountants.composed_loss import LOWER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.guarantee import Adjacency
from dpcalc.losses.pair import MixturePair
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.statement import chain_epsilon, group_epsilon, statement, unsampled_epsilon
from dpcalc.sampling.hierarchy import Hierarchy, Level, tree_of
from dpcalc.sampling.schemes import All, Fixed, Poisson, Shuffle, WithReplacement
from tests.oracles.exact_gaussian import exact_delta, exact_epsilon
from tests.planner.test_edges import plan_of
from tests.runs import of_tree


def sized(plan, count):
    """A flat plan over another number of units."""
    phases = []
    for phase in plan.phases:
        (level,) = phase.hierarchy.levels
        phases.append(replace(phase, hierarchy=Hierarchy(levels=(replace(level, count=count, min_count=count),))))
    return replace(plan, phases=tuple(phases))


@pytest.mark.parametrize("size", [2, 3, 10])
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT])
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
    plan = sized(plan_of(Fixed(size=drawn), noise=sigma, steps=steps), count)
    held = {
        2 * held: Fraction(math.comb(size, held) * math.comb(count - size, drawn - held), math.comb(count, drawn))
        for held in range(size + 1)
    }
    pair = MixturePair.of(held, {0: Fraction(1)}, deviation=sigma)
    costs = [epsilon_bounds(Counter({one: steps}), delta=1e-5, sides=(LOWER,))[0] for one in (pair, pair.swapped)]
    assert max(costs) <= chain_epsilon(plan, size)


def test_links_of_removal_are_computed_with_the_largest_rate():
    """The last link removes one of 38: its rate is 8/38, not 8/40."""
    plan = sized(plan_of(Fixed(size=8), noise=6.0, steps=20), 40)
    last = sized(plan, 38)
    link = chain_epsilon(plan, 3) / 3
    asked = replace(last, delta=plan.delta / sum(math.exp(number * link) for number in range(3)))
    assert guarantee(asked).epsilon == pytest.approx(link, rel=2e-3)
    assert guarantee(asked).epsilon <= link * (1 + 1e-9)


def test_no_chain_is_claimed_where_it_proves_nothing():
    plan = sized(plan_of(Fixed(size=8)), 10)
    assert chain_epsilon(plan, 2) is not None
    assert chain_epsilon(plan, 3) is None  # a draw of 8 of 7
    assert chain_epsilon(replace(plan, adjacency=Adjacency.ZERO_OUT), 3) is not None
    (phase,) = plan.phases
    (level,) = phase.hierarchy.levels
    mixed = replace(level, scheme=Poisson(probability=Fraction(1, 2)))
    other = replace(phase, name="other", hierarchy=Hierarchy(levels=(mixed,)))
    assert chain_epsilon(replace(plan, phases=(phase, other)), 2) is None
    tree = of_tree(tree_of([9, 12], ("user", "example")), ("user", "example"), (All(), Fixed(size=4)))
    unequal = replace(plan, unit=2, phases=(replace(phase, hierarchy=tree, clip=2),))
    assert chain_epsilon(unequal, 2) is None


def test_without_sampling_every_step_is_a_gaussian_release():
    plan = plan_of(Poisson(probability=Fraction(1, 100)), noise=4.0, steps=50)
    exact = float(exact_epsilon(50, 4.0, 1e-5))
    assert exact <= unsampled_epsilon(plan) <= exact * (1 + 2e-4)
    fixed = plan_of(Fixed(size=600), noise=4.0, steps=50)  # another stands in: twice the shift
    exact = float(exact_epsilon(50, 2.0, 1e-5))
    assert exact <= unsampled_epsilon(fixed) <= exact * (1 + 2e-4)


@pytest.mark.parametrize(
    ("run", "epsilon", "advantage"),
    [(plan_of(All(), noise=0.0), math.inf, 1.0), (plan_of(Poisson(probability=Fraction(0))), 0.0, 0.0)],
)
def test_without_noise_nothing_is_claimed_and_without_draws_nothing_is_spent(run, epsilon, advantage):
    found = statement(run)
    assert (found.unsampled, found.attack.advantage) == (epsilon, advantage)
    assert {bound for _, bound in found.groups} == {epsilon}


@pytest.mark.heavy
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT])
def test_draws_that_a_removal_changes_in_other_ways_are_not_chained(adjacency):
    claimed = adjacency is Adjacency.ZERO_OUT  # nothing is removed
    for scheme in (WithReplacement(size=8), Shuffle(size=8)):
        plan = sized(plan_of(scheme, noise=20.0, steps=4, adjacency=adjacency), 40)
        assert (chain_epsilon(plan, 2) is not None) == claimed
    (phase,) = sized(plan_of(Fixed(size=8), noise=20.0, steps=4, adjacency=adjacency), 40).phases
    (level,) = phase.hierarchy.levels
    held = replace(phase, hierarchy=Hierarchy(levels=(replace(level, redraw_every=2),)))
    assert (chain_epsilon(replace(plan, phases=(held,)), 2) is not None) == claimed


@pytest.mark.heavy
def test_a_group_takes_the_smaller_of_both_bounds():
    flat = plan_of(Poisson(probability=Fraction(256, 60000)), noise=3.0, steps=4000, adjacency=Adjacency.ZERO_OUT)
    assert 1.848026 <= group_epsilon(flat, 5) <= 1.8482 < chain_epsilon(flat, 5)
    levels = (
        Level(name="task", count=200, scheme=Fixed(size=4)),
        Level(name="example", count=20, scheme=Fixed(size=5)),
    )
    phase = replace(flat.phases[0], hierarchy=Hierarchy(levels=levels), clip=1, steps=500)
    nested = replace(flat, phases=(phase,), unit=2, adjacency=Adjacency.ADD_REMOVE)
    assert group_epsilon(nested, 2) == chain_epsilon(nested, 2) < guarantee(replace(nested, group_size=2)).epsilon
