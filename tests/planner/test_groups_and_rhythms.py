"""Groups, held draws, shuffles, draws with replacement and constructed episodes as plans."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dpcalc.errors import InputError, UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.planner.compare import compare
from dpcalc.planner.composition import composed, protected_units
from dpcalc.planner.evaluate import evaluate, guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.sampling.hierarchy import Episodes
from dpcalc.sampling.schemes import All, CappedPoisson, Fixed, Poisson, Shuffle, WithReplacement
from tests.runs import run_of
from tests.thinning import thinned

MNIST = Fraction(256, 60_000)
POISSON, FIXED = Poisson(probability=MNIST), Fixed(size=256)


def plan(*levels, unit=1, clip=1, sigma=4.0, group=1, **more):
    return run_of(*levels, unit=unit, clip=clip, noise=sigma, group_size=group, **more)


def group_of_five(scheme, adjacency=Adjacency.ZERO_OUT):
    return plan((60_000, scheme), adjacency=adjacency, sigma=3.0, steps=4000, group=5)


@pytest.mark.heavy
def test_groups_under_batches_of_a_fixed_size():
    """At least the data set of theory, at most its bound, which is converged to 1e-4; the published pair is below."""
    answer = evaluate(group_of_five(FIXED))
    assert 2.4108 * (1 - 1e-5) <= answer.guarantee.epsilon_lower <= 2.4109
    assert 3.1716 - 3e-4 <= answer.guarantee.epsilon <= 3.1716 + 1e-4
    for rows in (compare(group_of_five(FIXED)), answer.alternatives):
        (row,) = (row for row in rows if row.bound == "group mixture")
        assert not row.valid
        assert row.epsilon == pytest.approx(1.8480, abs=5e-5)


RECORDS = {"unit": 2, "clip": 2}


def test_groups_without_room_are_refused():
    tasks, thirty = ((3, All()), (2, All())), ((30, WithReplacement(size=3)), (20, All()))
    for levels, more, error, match in (
        ([(100, Shuffle(size=40))], {"group": 61}, InputError, "group_size: expected at most 60"),
        (tasks, {**RECORDS, "group": 7}, InputError, "group_size"),
        (thirty, {**RECORDS, "group": 13}, UnsupportedError, "at most 12"),
    ):
        with pytest.raises(error, match=match):
            protected_units(plan(*levels, **more))
    for adjacency in (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT):  # of fewer than 40 that are left all are drawn
        assert protected_units(plan((100, Fixed(size=40)), adjacency=adjacency, group=100))


@pytest.mark.heavy
def test_lower_bounds_of_large_nested_draws_with_replacement_are_left_out():
    """Their exact sums multiply level after level: minutes for three levels of 500 draws."""
    for depth, size, is_known in ((2, 2, True), (3, 22, False)):
        levels = [(1000, WithReplacement(size=size))] * depth
        nested = plan(*levels, unit=depth, clip=depth, adjacency=Adjacency.REPLACE_ONE)
        assert (epsilon_lower(nested) is not None) == is_known


def test_a_last_stretch_that_is_cut_short_costs_less_than_a_whole_one():
    costs = [
        guarantee(plan((100, Poisson(probability=Fraction(1, 10)), 10), sigma=20.0, steps=steps)).epsilon
        for steps in (5000, 5003, 5010)
    ]
    assert costs == sorted(set(costs))


def test_the_unit_above_is_taken_where_it_costs_less():
    """Every record is drawn whenever its task is: revealing the held task draw is worse than hiding the task."""
    levels = ((100, Fixed(size=10), 10), (5, All()))
    record = plan(*levels, unit=2, clip=1, sigma=20.0)
    task = plan(*levels, unit=1, clip=1, adjacency=Adjacency.REPLACE_ONE, sigma=20.0)
    assert guarantee(record).epsilon == guarantee(task).epsilon


RARE, OFTEN = Poisson(probability=Fraction(1, 50)), Poisson(probability=Fraction(1, 10))


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("held", "fresh", "unit"),
    [
        (((8, All(), 5), (20, RARE)), ((8, All()), (20, RARE)), 1),
        (((8, OFTEN, 5), (20, All())), ((8, OFTEN, 5), (20, All(), 5)), 2),
        (((8, All(), 10), (20, All(), 5)), ((8, All()), (20, All())), 2),
    ],
)
def test_the_rhythm_of_a_level_drawn_whole_changes_nothing(held, fresh, unit, adjacency):
    """The first cost 118.9 (replace-one 377.4) in the place of .890 (1.864)."""
    options = {"unit": unit, "clip": 2, "adjacency": adjacency, "sigma": 12.0, "steps": 50}
    assert guarantee(plan(*held, **options)).epsilon == guarantee(plan(*fresh, **options)).epsilon < 6


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("scheme", thinned([Fixed(size=4), Poisson(probability=Fraction(1, 2))], 1))
def test_a_held_draw_above_fresh_ones_costs_no_more_than_all_units(scheme, adjacency):
    """4 of 8 users held for 5 steps cost 325 (zero-out 98.8): what they contribute was at its largest in every step."""
    options = {"clip": 2, "sigma": 12.0, "steps": 50}
    held = guarantee(plan((8, scheme, 5), (20, RARE), adjacency=adjacency, **options)).epsilon
    is_exchanged = scheme.has_stand_in and adjacency is Adjacency.ADD_REMOVE
    whole = plan((8, All()), (20, RARE), adjacency=Adjacency.REPLACE_ONE if is_exchanged else adjacency, **options)
    assert held < 0.8 * guarantee(whole).epsilon


@pytest.mark.heavy
def test_a_removed_user_of_random_contents_is_evaluated():
    """1.741 was printed, where the contents of the user and of the one in its place were both told."""
    run = evaluate(plan((8, Fixed(size=4)), (20, RARE), clip=2, sigma=12.0, steps=50))
    assert 0.87 < run.guarantee.epsilon_lower < run.guarantee.epsilon < 0.876
    assert run.phases[0].shift == 40


@pytest.mark.parametrize(("caps", "factor"), thinned([((5, 10), 1.0), ((5, 9), 1.0001), ((1, 2), 1.2)], 3))
def test_a_cap_that_hardly_ever_cuts_costs_next_to_nothing(caps, factor):
    """A cap anywhere took what is drawn beside a unit at its largest: 2.893 in the place of 1.880, and 5.31."""
    rates = Fraction(1, 50), Fraction(1, 10)
    cut = [CappedPoisson(probability=rate, max_batch_size=cap) for rate, cap in zip(rates, caps, strict=True)]
    free = [Poisson(probability=rate) for rate in rates]
    costs = [guarantee(plan((5, a), (10, b), **RECORDS, sigma=1.0, steps=200)).epsilon for a, b in (free, cut)]
    assert costs[1] <= factor * costs[0]


@pytest.mark.parametrize("steps", [1, 20])
def test_all_units_of_a_parent_cost_no_more_than_the_parent(steps):
    """Nothing outside the parent can change, whichever of its records are drawn; not so if vectors of it can turn."""
    levels = ((1, Poisson(probability=Fraction(2, 5))), (2, All()), (3, Poisson(probability=Fraction(1, 20))))
    options = {"adjacency": Adjacency.ZERO_OUT, "sigma": 2.0, "steps": steps, "clip": 3}
    user = guarantee(plan(*levels, unit=1, **options)).epsilon
    assert guarantee(plan(*levels, unit=2, group=2, **options)).epsilon <= user * (1 + 1e-9)
    turned = plan(*levels, unit=2, group=2, **(options | {"clip": 1}))
    assert guarantee(turned).epsilon > guarantee(plan(*levels, unit=1, **(options | {"clip": 1}))).epsilon


def test_all_records_removed_under_a_clip_above_the_user_cost_no_more_than_the_user():
    """A user without records is drawn as if removed: 20.64 in the place of 5.016, by the batch that turns around."""
    levels, options = ((1, Poisson(probability=Fraction(3, 10))), (3, Poisson(probability=Fraction(1, 5)))), {"clip": 0}
    user = guarantee(plan(*levels, unit=1, sigma=1.0, steps=20, **options)).epsilon
    assert guarantee(plan(*levels, unit=2, group=3, sigma=1.0, steps=20, **options)).epsilon <= user * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", [Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE])
def test_what_a_user_holds_is_hidden_where_all_of_it_is_a_group(adjacency):
    """The contents of the user and of the one in its place were told for such a group: 13.51; a user costs 9.88."""
    levels, options = ((6, Fixed(size=1)), (3, Poisson(probability=Fraction(1, 5)))), {"clip": 2, "sigma": 1.0}
    user = guarantee(plan(*levels, unit=1, adjacency=Adjacency.ZERO_OUT, steps=20, **options)).epsilon
    group = guarantee(plan(*levels, unit=2, adjacency=adjacency, group=3, steps=20, **options)).epsilon
    assert group <= user * (1 + 1e-9)


def test_below_a_shuffle_the_draws_of_a_pass_count_once():
    shuffled = plan((100, Shuffle(size=10)), (20, Fixed(size=5)), unit=2, clip=2, steps=1000)
    whole = plan((100, All()), (20, Fixed(size=5)), unit=2, clip=2, steps=100)
    assert guarantee(shuffled).epsilon == guarantee(whole).epsilon


EPISODES = Episodes(tasks=4, ways=5, shots=1, queries=15)


@pytest.mark.parametrize(("unit", "clip"), thinned([(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)], 3))
def test_constructed_tasks(unit, clip):
    run = plan((100, All()), (600, All()), unit=unit, clip=clip, sigma=60.0, episodes=EPISODES)
    answer = evaluate(run).guarantee
    assert 0 < answer.epsilon_lower <= answer.epsilon
    more = replace(EPISODES, tasks=8)
    assert guarantee(plan((100, All()), (600, All()), unit=unit, clip=clip, sigma=60.0, episodes=more)).epsilon > (
        answer.epsilon
    )


@pytest.mark.heavy
@pytest.mark.parametrize(
    "inner", [Fixed(size=2), pytest.param(Poisson(probability=Fraction(1, 4)), marks=pytest.mark.heavy)]
)
def test_bounds_of_phases_that_differ_in_noise_are_those_of_each_by_itself(inner):
    runs = [
        plan((20, Fixed(size=2)), (6, inner), unit=2, clip=2, sigma=sigma, steps=100, adjacency="zero-out", group=2)
        for sigma in (30.0, 0.3, 2.0, 0.6, 8.0)
    ]
    phases = tuple(replace(each.phases[0], name=f"phase {number}") for number, each in enumerate(runs))
    together = composed(replace(runs[0], phases=phases)).bounds
    alone = [composed(each).bounds for each in runs]
    for unit, bounds in enumerate(together):
        assert bounds == tuple(each[unit][0] for each in alone)
    assert len({*map(str, together[0])}) > 1


def test_held_draws_above_a_group_release_nothing_unless_they_reach_a_member():
    """Two of ten tasks for four steps: neither of two tasks with probability 28/45."""
    run = plan((10, Fixed(size=2), 4), (12, Fixed(size=3)), unit=2, clip=2, adjacency=Adjacency.REPLACE_ONE, group=2)
    found = {one.group.placement: one.choices[0][0].revealed for one in protected_units(run)}
    assert found == {(1, 1): ((Fraction(17, 45), 4),), (2,): ((Fraction(1, 5), 4),)}
    often = plan((10, Fixed(size=2), 4), (12, Fixed(size=3)), unit=2, clip=2, adjacency=Adjacency.REPLACE_ONE, group=20)
    (one,) = protected_units(often)
    assert one.choices[0][0].revealed == ()  # 20 units can be in all the tasks


def test_held_draws_of_two_rhythms_above_a_group():
    """Members in two sessions of one user, or of two: the chance of the second rhythm is that of all reached users."""
    levels = ((4, Poisson(probability=Fraction(1, 2)), 6), (3, Poisson(probability=Fraction(1, 3)), 2))
    run = plan(*levels, (5, Poisson(probability=Fraction(1, 4))), unit=3, clip=3, group=2)
    found = {one.group.placement: one.choices[0][0].revealed for one in protected_units(run)}
    half, third, both = Fraction(1, 2), Fraction(1, 3), Fraction(5, 9)
    assert found == {
        ((2,),): ((half, 6), (third, 2)),
        ((1, 1),): ((half, 6), (both, 2)),
        ((1,), (1,)): ((Fraction(3, 4), 6), (both, 2)),
    }
