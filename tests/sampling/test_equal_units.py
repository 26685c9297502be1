"""Units that are alike stand once."""

import numpy as np

from dpcalc.sampling.co_sampled import co_sampled_with
from dpcalc.sampling.hierarchy import Hierarchy
from dpcalc.sampling.paths import alike_units, path_table
from dpcalc.sampling.schemes import All, Fixed
from dpcalc.sampling.trees import tree_of

NAMES = ("user", "session", "example")


def rows(counts):
    return [
        list(zip(one.parent.tolist(), one.number.tolist(), one.unit.tolist(), strict=True))
        for one in alike_units(tree_of(counts, NAMES).sizes)
    ]


def test_kinds_under_kinds():
    users, sessions, examples = rows([[4, 2], [2, 2, 2], [2, 4], [3], [2, 2], [2, 2]])
    assert users == [(0, 2, 0), (0, 1, 1), (0, 1, 3), (0, 2, 4)]
    assert sessions == [(0, 1, 0), (0, 1, 1), (1, 3, 2), (2, 1, 7), (3, 2, 8)]
    assert examples == [(0, 4, 0), (1, 2, 1), (2, 2, 2), (3, 3, 7), (4, 2, 8)]


def test_two_levels():
    (users, examples) = alike_units(((5,), (7, 3, 7, 7, 3)))
    assert (users.number.tolist(), users.unit.tolist()) == ([3, 2], [0, 1])
    assert (examples.parent.tolist(), examples.number.tolist()) == ([0, 1], [7, 3])


def test_parts_of_a_unit_that_are_alike_are_several():
    counts = [[5, 5, 2, 5], [3, 3, 3, 3], [5, 2, 5, 5]]
    hierarchy = Hierarchy.of_tree(tree_of(counts, NAMES), NAMES, (Fixed(size=1), Fixed(size=2), All()))
    table = path_table([(hierarchy, 3)], unit=1)
    paths = [table.paths(row)[0] for row in range(len(table.counts))]
    assert [path.place for path in paths] == [(0,), (1,)]
    companies = [co_sampled_with(hierarchy, path, clip=3) for path in paths]
    assert [sorted(co_sampled.child_contributions) for co_sampled in companies] == [[2, 5, 5, 5], []]
    assert [co_sampled.sibling_contributions for co_sampled in companies] == [(4,), (4,)]  # two sessions of 2 at least
    assert [path.siblings for path in paths] == [(10,), (10,)]


def test_a_million_units_of_few_kinds():
    kinds = np.array([[5, 20, 64, 5, 5], [20, 5, 5, 5, 64], [5, 5, 5, 5, 5]])
    sessions = tuple(kinds[np.arange(200_000) % 3].ravel().tolist())
    users, kinds_of_sessions, examples = alike_units(((200_000,), (5,) * 200_000, sessions))
    assert users.number.tolist() == [133_334, 66_666]
    assert kinds_of_sessions.number.tolist() == [3, 1, 1, 5]
    assert examples.number.tolist() == [5, 20, 64, 5]
