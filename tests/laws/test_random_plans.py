"""Certified bounds of random plans of many phases: they exist, in order, and under the moment bound."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.accountants.rdp import rdp
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import evaluate, guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import BallsInBins, Poisson, RandomAllocation
from tests.laws.random_plans import generator, random_plan
from tests.thinning import thinned

GAUSSIAN = {"mechanisms": ("gaussian",), "schemes": ("poisson",)}
WITHOUT_COPIES = ("poisson", "fixed", "all", "shuffle")


def check_order(plan):
    """Lower <= upper <= rdp in both directions, and a lower bound beside the guarantee."""
    for counts in composed(plan).steps.values():
        upper, lower = epsilon_bounds(counts, delta=plan.delta, sides=(UPPER, LOWER))
        assert 0 <= lower <= upper <= rdp(counts, delta=plan.delta).epsilon * (1 + 1e-9), plan
    found = evaluate(plan).guarantee
    assert found.epsilon_lower is not None, plan
    assert found.epsilon_lower <= found.epsilon == guarantee(plan).epsilon, plan


def check_answer(plan):
    """An answer that is no NaN, without a warning of a defect, which pytest makes an error."""
    found = evaluate(plan).guarantee
    assert found.epsilon >= 0, plan
    assert found.epsilon_lower is None or found.epsilon_lower <= found.epsilon, plan


def gaussian(block, number, least=5, most=50):
    rng = generator(block, number, 211)
    return random_plan(rng, int(rng.integers(least, most + 1)), delta=(1e-20, 1e-5), most_steps=8000, **GAUSSIAN)


def mixed(block, number, least, most):
    rng = generator(block, number, 223)
    return random_plan(rng, int(rng.integers(least, most + 1)), delta=(1e-40, 0.5), schemes=WITHOUT_COPIES)


def allocated(block, number):
    """A schedule whose first phase lets the units choose their steps: fresh or held bins, or so many of all steps."""
    rng = generator(block, number, 227)
    plan = random_plan(rng, int(rng.integers(1, 4)), delta=(1e-12, 1e-2), schemes=("poisson", "fixed", "all"))
    bins, passes = int(10 ** rng.uniform(0.3, 4)), int(10 ** rng.uniform(0, 2))
    steps = bins * passes + int(rng.integers(bins)) * (number % 2)
    kind = int(rng.integers(3))
    scheme = RandomAllocation(times=passes, steps=steps) if kind == 2 else BallsInBins(bins=bins, is_held=kind == 1)
    first = plan.phases[0]
    levels = tuple(replace(level, scheme=scheme) for level in first.hierarchy.levels)
    chosen = replace(first, hierarchy=replace(first.hierarchy, levels=levels), steps=steps)
    return replace(plan, phases=(chosen, *plan.phases[1:]))


@pytest.mark.heavy
@pytest.mark.parametrize("number", range(5))
def test_schedules_in_which_units_choose_their_steps(number):
    check_answer(allocated(0, number))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(1, 11))
def test_schedules_in_which_units_choose_their_steps_more(block):
    for number in range(20):
        check_answer(allocated(block, number))


@pytest.mark.heavy
@pytest.mark.parametrize("number", thinned(range(4), 1))
def test_gaussian_schedules(number):
    check_order(gaussian(0, number, most=12))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(1, 11))
def test_gaussian_schedules_more(block):
    for number in range(8):
        check_order(gaussian(block, number))


@pytest.mark.heavy
@pytest.mark.parametrize("number", [0, 1, pytest.param(2, marks=pytest.mark.heavy), 3, 4, 5])
def test_mixed_schedules(number):
    check_answer(mixed(0, number, 1, 6))


@pytest.mark.slow
@pytest.mark.parametrize("block", range(1, 11))
def test_mixed_schedules_more(block):
    for number in range(15):
        check_answer(mixed(block, number, 1, 50))


def phase(number, sigma, rate, steps):
    level = Level(name="example", count=1_000_000, scheme=Poisson(probability=Fraction(rate)))
    noise = Gaussian(noise_multiplier=sigma)
    return Phase(name=f"phase {number}", hierarchy=Hierarchy(levels=(level,)), mechanism=noise, clip=1, steps=steps)


@pytest.mark.heavy
@pytest.mark.parametrize("delta", thinned([1e-15, 1e-20, 5.1e-21], 1))
def test_a_step_too_small_for_the_lattice_has_a_lower_bound(delta):
    """Two phases: on the lattice that the second one needs, all losses of the first lie in one cell."""
    phases = phase(1, 2.3225, "1.838e-05", 1), phase(2, 0.84911, "5.7174e-06", 548)
    plan = Plan(phases=phases, unit=1, adjacency=Adjacency.ADD_REMOVE, delta=delta)
    check_order(plan)
    found = evaluate(plan).guarantee
    alone = evaluate(replace(plan, phases=plan.phases[1:])).guarantee
    assert found.epsilon >= alone.epsilon_lower
    assert found.epsilon_lower >= 0.999 * alone.epsilon_lower
