"""Actual data sets of unequal trees: the pair that is called one is what the enumerator finds for its values."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.amplification.data_sets import Contributions, data_set_pair
from dpcalc.guarantee import Adjacency
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.paths import co_sampled_with, path_table
from dpcalc.sampling.schemes import All, Poisson, WithReplacement
from tests.oracles.brute_force import RELATIONS
from tests.oracles.test_unequal import hierarchy_of
from tests.oracles.unequal import UnequalExperiment, children, max_drawn, units
from tests.thinning import thinned

HALF = ("poisson", Fraction(1, 2))
TREES = [
    ([3, 2, 4], [("fixed", 1), ("fixed", 2)]),
    ([3, 2, 4], [HALF, ("fixed", 2)]),
    ([3, 1, 2], [("fixed", 2), ("all", None)]),
    ([3, 1, 2], [HALF, ("all", None)]),
    ([[2, 1], [1, 3, 2]], [("fixed", 1), ("fixed", 1), ("all", None)]),
    ([[2, 1], [1, 3, 2]], [("fixed", 1), ("fixed", 2), ("all", None)]),
    ([[2, 1], [1, 2, 2]], [HALF, ("all", None), ("fixed", 1)]),
    ([3, 1, 2], [("fixed", 2), ("at most", 2)]),
    ([3, 1, 2], [HALF, ("at most", 2)]),
    ([4, 1, 2], [("all", None), ("at most", 3)]),
    ([[2, 1], [1, 3, 2]], [("fixed", 1), ("at most", 2), ("all", None)]),
    ([[2, 1], [1, 3, 2]], [("fixed", 1), ("at most", 2), ("at most", 2)]),
    ([[1, 1], [1, 1, 1]], [HALF, ("at most", 2), ("all", None)]),
]


def certain(tree, draws, path, clip):
    """Contributions of a unit whenever it is drawn; in these trees the least of its children's, or their sum."""
    if len(path) >= clip:
        return 1
    below = [certain(tree, draws, child, clip) for child in children(tree, path)]
    return draws[len(path)][1] * min(below) if some_are_drawn(tree, draws, path) else sum(below)


def some_are_drawn(tree, draws, path):
    """Whether a fixed number of the children of a unit is drawn, and others are not, or as many as there are."""
    kind, amount = draws[len(path)]
    return kind == "fixed" or (kind == "at most" and len(children(tree, path)) > amount)


def value(key, context, contributions, beside):
    """What a clipped vector contributes: the unit's -1 (+1 once replaced), the mates' as long as the least of them."""
    tree, draws, protected, clip = context
    path, _, primed = key
    common = next((i for i, (a, b) in enumerate(zip(path, protected.place, strict=False)) if a != b), None)
    if common is None:
        return 1.0 if primed else -1.0
    if all(isinstance(scheme, All) for scheme in protected.schemes[: common + 1]):  # they are in every batch
        return 0.0
    mate = path[: common + 1]
    share = beside[common] / certain(tree, draws, mate, clip)
    for level in range(common + 1, clip):  # under a fixed draw of unequal children the larger ones scale down
        if some_are_drawn(tree, draws, path[:level]):
            siblings = [certain(tree, draws, child, clip) for child in children(tree, path[:level])]
            share *= min(siblings) / certain(tree, draws, path[: level + 1], clip)
    return contributions.others[common] / contributions.length * share


def merged(weights, means):
    found = {}
    for weight, mean in zip(weights, means, strict=True):
        found[round(float(mean), 9)] = found.get(round(float(mean), 9), 0.0) + float(weight)
    return found


@pytest.mark.parametrize(("tree", "draws"), thinned(TREES, 6))
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_pair_is_that_of_an_actual_data_set(tree, draws, relation):
    hierarchy, clip = hierarchy_of(tree, draws), len(draws)
    for level in range(1, len(draws) + 1):
        table = path_table([(hierarchy, clip)], unit=level)
        for row in range(len(table.counts)):
            (path,) = table.paths(row)
            co_sampled = co_sampled_with(hierarchy, path, clip=clip)
            context = tree, draws, path, clip
            experiment = UnequalExperiment(tree, draws, path.place, clip, relation)
            shorter = Contributions((5, -3, 1)[:level], 8), Contributions((-1, 2, -1)[:level], 3)
            for contributions in (*map(Contributions, itertools.product((1, -1, 0), repeat=level)), *shorter):
                values = np.array(
                    [value(key, context, contributions, co_sampled.sibling_contributions) for key in experiment.keys]
                )
                found = data_set_pair(co_sampled, adjacency=Adjacency(relation), contributions=contributions)
                for mine, actual in zip(found, experiment.mixtures(values), strict=True):
                    expected = merged(actual.weights, actual.means)
                    told = {round(center / contributions.length, 9): float(weight) for center, weight in mine.items()}
                    assert told == pytest.approx(expected, abs=1e-12), (path, contributions)


def test_every_unit_of_every_tree_is_looked_at():
    assert all(len(units(tree, len(draws))) > 3 for tree, draws in TREES)
    assert max_drawn([3, 1, 2], [("fixed", 2), ("all", None)], (), 2) == 5


def pair_of_equal_units(*levels, unit, clip, relation, others):
    """The pair of a unit of one level; levels of (count, scheme)."""
    named = (Level(name=f"level {number}", count=count, scheme=one) for number, (count, one) in enumerate(levels))
    hierarchy = Hierarchy(levels=tuple(named))
    (path,) = path_table([(hierarchy, clip)], unit=unit).paths(0)
    co_sampled = co_sampled_with(hierarchy, path, clip=clip)
    return data_set_pair(co_sampled, adjacency=Adjacency(relation), contributions=Contributions(others))


def test_all_of_many_units_contribute():
    """A user is drawn with 1/2 * 1/4, each of its two records with 1/2, as are those of the 39 users beside it."""
    half, quarter = (Poisson(probability=Fraction(1, n)) for n in (2, 4))
    levels = (2, half), (40, quarter), (2, half)
    found = pair_of_equal_units(*levels, unit=2, clip=3, relation="add-remove", others=(0, 1))
    one = np.array([3 / 4 + 1 / 16, 1 / 8, 1 / 16])
    beside = np.ones(1)
    for _ in range(39):
        beside = np.convolve(beside, one)
    for own, law in zip(([1 / 16, 1 / 8, 3 / 4 + 1 / 16], [0, 0, 1]), found, strict=True):
        expected = np.convolve(beside, own) / 2
        expected[2] += 1 / 2
        assert [float(law.get(center, 0)) for center in range(-2, 79)] == pytest.approx(expected, rel=1e-12, abs=1e-40)


def test_a_batch_drawn_with_replacement_from_users_may_be_empty():
    """Two draws of one of 3 users, each time of its 2 records with 1/4; the whole batch is one vector."""
    levels = (3, WithReplacement(size=2)), (2, Poisson(probability=Fraction(1, 4)))
    kept = Fraction(3, 4)
    unseen, empty = (1 - Fraction(1, 3) * (1 - kept)) ** 2, (kept**2) ** 2
    without = ((2 * kept**2 + kept) / 3) ** 2  # the user of the removed record has one record left
    found = pair_of_equal_units(*levels, unit=2, clip=0, relation="add-remove", others=(1, 1))
    assert found == ({-1: 1 - unseen, 1: unseen - empty, 0: empty}, {1: 1 - without, 0: without})
