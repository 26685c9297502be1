"""Which units are worked out: the same one in every phase, few of many, and what draws above a group reveal of it."""

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from dpcalc.accountants import accountant_of
from dpcalc.errors import InputError
from dpcalc.guarantee import Adjacency
from dpcalc.planner.composition import composed, protected_units
from dpcalc.planner.evaluate import guarantee
from dpcalc.sampling.hierarchy import tree_of
from dpcalc.sampling.schemes import All, Fixed, Poisson, RandomAllocation
from tests.runs import of_tree, run_of

NAMES = ("task", "session", "example")
ONE = Fixed(size=1)


def phases_of(*runs):
    """One run of the phases of several."""
    return replace(runs[0], phases=tuple(replace(each.phases[0], name=f"{at}") for at, each in enumerate(runs)))


def run(tree, schemes, *, unit=3):
    return run_of(of_tree(tree, NAMES, schemes), unit=unit, clip=3, steps=50, delta=1e-4)


@pytest.mark.heavy
def test_the_unit_is_the_same_in_every_phase():
    """Each phase has another worst unit; charging both would cost more than any unit can."""
    tree = tree_of([[9], [1, 1]], NAMES)
    runs = [run(tree, (draw, ONE, ONE), unit=2) for draw in (Poisson(probability=Fraction(1, 2)), ONE)]
    first, second = (composed(each).steps for each in runs)

    def cost(*steps):
        return accountant_of("pld")(sum(map(Counter, steps), Counter()), delta=1e-4).epsilon

    worst, other = (max(steps, key=lambda unit, steps=steps: cost(steps[unit])) for steps in (first, second))
    both = guarantee(phases_of(*runs)).epsilon
    assert worst != other
    assert both == pytest.approx(max(cost(first[unit], second[unit]) for unit in first), rel=1e-9)
    assert both < cost(first[worst], second[other]) * (1 - 1e-3)


@pytest.mark.heavy
@pytest.mark.usefixtures("fresh_caches")
def test_a_million_counts_are_few_classes():
    rng = random.Random(2)  # noqa: S311  sizes, no secrets
    tree = tree_of([[rng.randint(5, 60) for _ in range(rng.randint(900, 1100))] for _ in range(1000)], NAMES)
    for schemes in ([Fixed(size=5)] * 3, [Poisson(probability=Fraction(1, 9))] * 3, [Fixed(size=5), ONE, All()]):
        assert len(protected_units(run(tree, schemes))) <= 3
    assert len(protected_units(run(tree, [ONE, ONE, All()], unit=1))) == 1


@pytest.mark.heavy
@pytest.mark.parametrize("inner", [Fixed(size=2), Poisson(probability=Fraction(1, 4))])
def test_bounds_of_phases_that_differ_in_noise_are_those_of_each_by_itself(inner):
    runs = [
        run_of((20, Fixed(size=2)), (6, inner), noise=sigma, steps=100, adjacency="zero-out", group_size=2)
        for sigma in (30.0, 0.3, 2.0, 0.6, 8.0)
    ]
    together = composed(phases_of(*runs)).bounds
    alone = [composed(each).bounds for each in runs]
    for unit, bounds in enumerate(together):
        assert bounds == tuple(each[unit][0] for each in alone)
    assert len({*map(str, together[0])}) > 1


def revealed(*levels, group, adjacency="add-remove"):
    """What held draws reveal of a group, by its placement."""
    run = run_of(*levels, adjacency=adjacency, group_size=group)
    return {one.group.placement: one.choices[0][0].revealed for one in protected_units(run)}


def test_held_draws_above_a_group_release_nothing_unless_they_reach_a_member():
    """Two of ten tasks for four steps: neither of two tasks with probability 28/45; 20 units can be in all of them."""
    levels = (10, Fixed(size=2), 4), (12, Fixed(size=3))
    found = revealed(*levels, group=2, adjacency=Adjacency.REPLACE_ONE)
    assert found == {(1, 1): ((Fraction(17, 45), 4),), (2,): ((Fraction(1, 5), 4),)}
    assert [*revealed(*levels, group=20, adjacency=Adjacency.REPLACE_ONE).values()] == [()]


def test_held_draws_of_two_rhythms_above_a_group():
    """Members in two sessions of one user, or of two: the chance of the second rhythm is that of all reached users."""
    half, third, both = Fraction(1, 2), Fraction(1, 3), Fraction(5, 9)
    levels = (4, Poisson(probability=half), 6), (3, Poisson(probability=third), 2), (5, Poisson(probability=half / 2))
    assert revealed(*levels, group=2) == {
        ((2,),): ((half, 6), (third, 2)),
        ((1, 1),): ((half, 6), (both, 2)),
        ((1,), (1,)): ((Fraction(3, 4), 6), (both, 2)),
    }


def test_a_run_has_one_set_of_data_and_no_step_beyond_those_that_units_choose_among():
    with pytest.raises(InputError, match="same levels and counts"):
        phases_of(*(run(tree_of(tree, NAMES), (ONE, ONE, ONE)) for tree in ([[4, 2], [4, 5]], [[4, 2], [5, 5]])))
    with pytest.raises(InputError, match="steps: expected at most 16"):
        run_of((60_000, RandomAllocation(times=2, steps=16)), steps=17)
