"""Plans whose units choose their steps: numbers of an independent program, refusals, words, advice, the fewest bins."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dpcalc.errors import InputError, UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import DiscreteGaussian, Gaussian
from dpcalc.mechanisms.black_box import ApproximateDp
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import evaluate, guarantee
from dpcalc.planner.solve import EpsilonGoal, solve
from dpcalc.planner.words import phase_summaries
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, BallsInBins, Poisson, RandomAllocation, Shuffle
from tests.runs import run_of

ADD_REMOVE = Adjacency.ADD_REMOVE


def plan(*schemes, sigma=1.0, steps=64, delta=1e-8, unit=1, **more):
    sizes = zip(("user", "record"), (60_000, 8), schemes, strict=False)
    levels = (Level(name=name, count=count, scheme=scheme) for name, count, scheme in sizes)
    return run_of(*levels, noise=sigma, steps=steps, delta=delta, unit=unit, **more)


def bins(number, **changes):
    return BallsInBins(bins=number, **changes)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("number", "sigma", "passes", "delta", "reference"),
    [
        (8, 1.0, 1, 1e-8, 3.71852),
        (64, 1.0, 1, 1e-8, 1.798662),
        (64, 2.0, 1, 1e-8, 0.32954),
        (100, 1.4262, 10, 1e-5, 0.94275),
        (235, 1.1, 60, 1e-5, 2.3349),
    ],
)
def test_fresh_choices(number, sigma, passes, delta, reference):
    answer = evaluate(plan(bins(number), sigma=sigma, steps=number * passes, delta=delta)).guarantee
    assert answer.epsilon_lower <= reference * (1 + 1e-5)
    assert answer.epsilon >= reference * (1 - 1e-5)
    assert answer.tight
    assert answer.epsilon - answer.epsilon_lower <= 3e-4 * answer.epsilon


@pytest.mark.parametrize(
    ("number", "passes", "sigma", "reference"), [(16, 2, 1.0, 5.76415), (32, 4, 2.0, 2.40376), (64, 4, 2.0, 1.79866)]
)
def test_choices_that_are_held(number, passes, sigma, reference):
    answer = evaluate(plan(bins(number, is_held=True), sigma=sigma, steps=number * passes)).guarantee
    assert answer.epsilon_lower <= reference * (1 + 1e-5)
    assert answer.epsilon >= reference * (1 - 1e-5)
    assert answer.tight


def test_two_of_sixteen_steps():
    answer = evaluate(plan(RandomAllocation(times=2, steps=16), steps=16)).guarantee
    assert answer.epsilon == pytest.approx(4.6856, rel=5e-5)
    assert answer.epsilon_lower < answer.epsilon


def test_a_level_above_the_choice_is_refused():
    with pytest.raises(UnsupportedError, match="level record: expected a scheme of the protected level, user"):
        evaluate(plan(All(), bins(64)))


def test_a_phase_longer_than_its_choice_is_refused():
    with pytest.raises(InputError, match="steps: expected at most 16"):
        plan(RandomAllocation(times=2, steps=16), steps=17)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"unit": 2}, "; the chosen steps count as known"),
        ({"group_size": 3}, "; bounded by a chain of 3 removals"),
        ({"adjacency": Adjacency.REPLACE_ONE}, "; bounded by a chain of 1 removal and 1 addition"),
    ],
)
def test_fallbacks_are_told(changes, words):
    inner = plan(bins(64), Poisson(probability=Fraction(1, 2)), sigma=3.0, steps=640, **changes)
    (summary,) = phase_summaries(composed(inner), "")
    assert summary.sampling.endswith(f"Poisson{words}")


@pytest.mark.heavy
def test_a_shuffle_is_told_of_bins():
    shuffled = plan(Shuffle(size=256), sigma=10.0, steps=2350, delta=1e-5, adjacency=Adjacency.ZERO_OUT)
    (note,) = (note for note in evaluate(shuffled).notes if "balls-in-bins with bins: 235" in note.text)
    binned = evaluate(replace_scheme(shuffled, bins(235))).guarantee.epsilon
    assert note.epsilons[1] == pytest.approx(binned)
    assert note.epsilons[0] > 10 * binned


def replace_scheme(old, scheme):
    (phase,) = old.phases
    level = replace(phase.hierarchy.levels[0], scheme=scheme)
    return replace(old, phases=(replace(phase, hierarchy=Hierarchy(levels=(level,))),))


@pytest.mark.heavy
def test_the_fewest_bins_and_the_most_times():
    goal = EpsilonGoal(limit=1.0)
    answer = solve(plan(bins(10), sigma=2.0, steps=600, delta=1e-5), "rate", goal=goal)
    fewest = answer.plan.phases[0].hierarchy.allocation.bins
    assert answer.guarantee.epsilon <= 1.0
    assert evaluate(plan(bins(fewest - 1), sigma=2.0, steps=600, delta=1e-5)).guarantee.epsilon > 1.0
    several = solve(plan(RandomAllocation(times=1, steps=600), sigma=2.0, steps=600, delta=1e-5), "rate", goal=goal)
    times = several.plan.phases[0].hierarchy.allocation.times
    more = plan(RandomAllocation(times=times + 1, steps=600), sigma=2.0, steps=600, delta=1e-5)
    assert evaluate(more).guarantee.epsilon > 1.0 >= several.guarantee.epsilon


@pytest.mark.heavy
@pytest.mark.parametrize("delta", [1e-8, 1e-12])
def test_an_unfinished_pass_of_a_group_costs_less_than_a_whole_one(delta):
    """Moments rank the hidden and the revealed choice wrongly where large losses are rare."""
    costs = [
        evaluate(plan(bins(10), sigma=300.0, steps=steps, delta=delta, group_size=3)).guarantee.epsilon
        for steps in (1, 10, 11, 19, 20)
    ]
    assert costs == sorted(costs)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("mechanism", "changes"),
    [
        (ApproximateDp(epsilon=4.0), {"group_size": 2}),
        (DiscreteGaussian(noise_multiplier=0.05), {"adjacency": Adjacency.REPLACE_ONE}),
        (DiscreteGaussian(noise_multiplier=0.05), {"group_size": 2}),
        (Gaussian(noise_multiplier=0.02), {"group_size": 3}),
    ],
)
def test_losses_too_large_to_hide_the_choice_are_bounded_by_a_known_one(mechanism, changes):
    three = plan(bins(3), steps=3, delta=1e-6, **changes)
    (phase,) = three.phases
    answer = evaluate(replace(three, phases=(replace(phase, mechanism=mechanism),))).guarantee
    assert answer.finite


def test_groups_that_choose_several_of_all_steps_take_the_choice_as_known():
    """Their members have no partition of the steps in common."""
    group = plan(RandomAllocation(times=2, steps=16), steps=16, group_size=2)
    known = plan(All(), steps=2, group_size=2)
    assert evaluate(group).guarantee.epsilon == pytest.approx(evaluate(known).guarantee.epsilon, rel=2e-5)


@pytest.mark.heavy
def test_more_bins_than_can_be_added_cost_at_most_what_fewer_do():
    most = evaluate(plan(bins(10**15), steps=10**15)).guarantee
    assert 0 <= most.epsilon <= evaluate(plan(bins(10**6), steps=10**6)).guarantee.epsilon
    assert most.epsilon_lower is None or most.epsilon_lower <= most.epsilon


@pytest.mark.heavy
def test_a_large_group_is_chained_by_halves():
    few, many = (evaluate(plan(bins(8), sigma=400.0, steps=8, delta=1e-5, group_size=k)).guarantee for k in (16, 64))
    assert few.epsilon < many.epsilon < 5.5 * few.epsilon


@pytest.mark.heavy
def test_the_choice_of_a_bound_is_affordable_for_several_phases():
    """With too little work the hidden choice of the second phase was taken, whose losses are infinite."""
    replaced = {"delta": 2.5e-4, "adjacency": Adjacency.REPLACE_ONE}
    first = plan(bins(20), sigma=13.196, steps=73, **replaced)
    second = plan(bins(40, is_held=True), sigma=0.486, steps=2383, **replaced)
    named = tuple(replace(each.phases[0], name=name) for each, name in ((first, "first"), (second, "second")))
    alone = evaluate(second).guarantee.epsilon
    assert alone < evaluate(replace(first, phases=named)).guarantee.epsilon < alone + 0.2


@pytest.mark.heavy
def test_the_first_placement_of_a_group_that_pays_for_all_is_ranked_with_what_the_others_leave():
    """With its equal share of the work alone it took a looser bound, and the group cost 5.677."""
    run = run_of(
        Level(name="user", count=200, scheme=RandomAllocation(times=2, steps=3)),
        Level(name="record", count=5, scheme=Poisson(probability=Fraction(1348, 100_000))),
        noise=2.007,
        steps=3,
        unit=2,
        clip=1,
        adjacency=Adjacency.REPLACE_ONE,
        delta=8.157e-6,
        group_size=6,
    )
    first, *others = composed(run).bounds
    assert {bound.links for (bound,) in others} == {"------"}
    assert all(first == each for each in others)
    assert guarantee(run).epsilon == guarantee(composed(run)).epsilon < 4.27
