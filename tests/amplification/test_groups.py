"""Groups: what a step reveals of one, by enumeration of every draw; and no unit that exists is left out of account."""

from fractions import Fraction

import pytest

from dpcalc.amplification.groups import contexts, large_group, max_group_size, members_in_batch, placements
from dpcalc.errors import InputError, UnsupportedError
from dpcalc.guarantee import Adjacency
from dpcalc.planner.composition import protected_units
from dpcalc.planner.evaluate import guarantee
from dpcalc.sampling.hierarchy import Episodes, Hierarchy, Level, tree_of
from dpcalc.sampling.schemes import All, Fixed, Poisson, Shuffle, WithReplacement
from tests.oracles.exact_gaussian import exact_epsilon
from tests.runs import of_tree, run_of


@pytest.mark.parametrize("placement", placements(4, (9, 9)))
def test_a_large_group_is_drawn_no_less_than_any_placement(placement):
    """Given that any parent is drawn, and revealed, the bound on the tails holds."""
    rate, eta = Fraction(1, 4), Fraction(1, 5)
    schemes = [Poisson(probability=eta), Fixed(size=3)]
    ((drawn, law),) = large_group(4, eta, rate)
    told = contexts(placement, schemes, [9, 12])
    assert sum(chance for context, chance in told.items() if context) <= drawn
    for context in told:
        inside = members_in_batch(context, schemes[-1], 12)
        for j in range(1, 5):
            assert sum(p for h, p in inside.items() if h >= j) <= sum(p for h, p in law.items() if h >= j)


# Groups and records where sizes differ.

NAMES = ("user", "record")


def plan(hierarchy, *, adjacency=Adjacency.REPLACE_ONE, noise=10.0, **more):
    return run_of(hierarchy, adjacency=adjacency, noise=noise, steps=10, **more)


def users(*sizes):
    """Users of some sizes: one of them is drawn, then each record with probability .9."""
    schemes = (Fixed(size=1), Poisson(probability=Fraction(9, 10)))
    return of_tree(tree_of(list(sizes), NAMES), NAMES, schemes)


def built(*sizes):
    """Classes of some sizes: two tasks of two classes and five records of each."""
    levels = (
        Level(name="class", count=len(sizes), scheme=All()),
        Level(name="record", count=max(sizes), min_count=min(sizes), scheme=All()),
    )
    tree = tree_of(list(sizes), ("class", "record")) if len(set(sizes)) > 1 else None
    return Hierarchy(levels=levels, tree=tree, episodes=Episodes(tasks=2, ways=2, shots=1, queries=4))


@pytest.mark.parametrize("small", [1, 2, 3])
def test_a_group_within_the_larger_user_counts_beside_a_small_user(small):
    within = {one.place for one in protected_units(plan(users(small, 50), group_size=4))}
    assert "group of 4 placed (4)" in within
    both_large = guarantee(plan(users(50, 50), group_size=4)).epsilon
    assert guarantee(plan(users(small, 50), group_size=4)).epsilon >= both_large * (1 - 1e-9)


@pytest.mark.parametrize("sizes", [(20, 6, 20), (9, 20, 20), (20, 20, 7)])
def test_the_records_of_the_smallest_class_decide(sizes):
    smallest = min(sizes)
    mixed, equal = (guarantee(plan(built(*x), clip=1)).epsilon for x in (sizes, (smallest,) * 3))
    assert mixed == pytest.approx(equal, rel=1e-12)
    assert mixed > guarantee(plan(built(20, 20, 20), clip=1)).epsilon * 1.1


@pytest.mark.parametrize(
    ("scheme", "left"),
    [(Fixed(size=3), 0), (Shuffle(size=3), 3), (WithReplacement(size=3), 0), (Poisson(probability=Fraction(1, 2)), 0)],
)
def test_what_must_be_left_of_those_that_are_removed(scheme, left):
    levels = (Level(name="user", count=4, scheme=All()), Level(name="record", count=9, scheme=scheme))
    phases = [Hierarchy(levels=levels)]
    assert max_group_size(phases, unit=2, adjacency=Adjacency.ADD_REMOVE) == 4 * (9 - left)
    assert max_group_size(phases, unit=2, adjacency=Adjacency.ZERO_OUT) == 4 * 9


def test_groups_without_room_are_refused():
    removed = {"unit": 1, "adjacency": Adjacency.ADD_REMOVE}
    for hierarchy, size, error, words, changes in (
        (users(2, 3), 6, InputError, "at most 5", {}),
        (built(9, 9, 9), 2, InputError, "at most 1", removed),  # classes that tasks are built of are left
        (built(9, 9, 9), 2, UnsupportedError, "got 2", {}),  # several records of constructed tasks
    ):
        with pytest.raises(error, match=words):
            guarantee(plan(hierarchy, group_size=size, **changes))
    assert guarantee(plan(users(2, 3), group_size=5)).finite
    assert guarantee(plan(built(9, 9, 9), unit=1, group_size=2)).finite


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (1, 5), (1, 1, 6)], ids=str)
@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT])
def test_a_group_costs_its_whole_shift_where_all_is_drawn(sizes, adjacency):
    size, most = 3, 2 if adjacency is Adjacency.REPLACE_ONE else 1
    drawn = of_tree(tree_of(list(sizes), NAMES), NAMES, (All(), All()))
    epsilon = guarantee(plan(drawn, group_size=size, adjacency=adjacency)).epsilon
    assert epsilon >= exact_epsilon(10, 10 / (size * most), 1e-5)  # ten steps under noise of 10
