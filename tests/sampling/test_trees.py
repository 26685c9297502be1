"""Trees of nested counts: places, order, what a hierarchy makes of them, and units that are alike."""

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.paths import alike_units
from dpcalc.sampling.schemes import All, Fixed
from dpcalc.sampling.trees import faults, tree_of

NAMES = ("clinic", "patient", "visit")
EXAMPLE = [[4, 2, 3], [4, 5]]


def test_sizes_and_places():
    tree = tree_of(EXAMPLE, NAMES)
    assert tree.sizes == ((2,), (3, 2), (4, 2, 3, 4, 5))
    assert [tree.place(2, unit) for unit in range(5)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert tree.place(3, 4) == (0, 1, 0)
    assert tree.place(0, 0) == ()
    assert [tree.smallest_parent(level) for level in (1, 2, 3)] == ["data.tree", "data.tree[1]", "data.tree[0][1]"]
    assert tree.nested() == EXAMPLE


def test_order_does_not_matter():
    tree = tree_of(EXAMPLE, NAMES)
    same, other = tree_of([[5, 4], [3, 4, 2]], NAMES), tree_of([[4, 2, 4], [3, 5]], NAMES)
    assert (tree, hash(tree), tree.digest) == (same, hash(same), same.digest)
    assert tree != other
    assert tree.digest != other.digest
    assert tree_of([[1, 2], [3]], NAMES) != tree_of([[3, 1], [2]], NAMES)
    counts = [[[1, 3, 2], [2, 2, 1]], [[3, 3, 1], [1, 1, 1]], [[2, 1, 3]]]
    turned = [[one[::-1] for one in each[::-1]] for each in counts[::-1]]
    assert tree_of(counts, ("a", *NAMES)).digest == tree_of(turned, ("a", *NAMES)).digest


@pytest.mark.parametrize(
    ("counts", "at"),
    [
        ([], [()]),
        (3, [()]),
        ({"a": 1}, [()]),
        ([[4], 3], [(1,)]),
        ([[4], []], [(1,)]),
        ([[4], [[3]]], [(1, 0)]),
        *(([[4, wrong]], [(0, 1)]) for wrong in (True, 2.0, "2", 0, 10**15 + 1, None)),
        ([[0, 1, -1], 7, [], [2, "x"]], [(0, 0), (0, 2), (1,), (2,), (3, 1)]),  # all faults are found
    ],
)
def test_what_is_no_tree(counts, at):
    assert [fault.at for fault in faults(counts, NAMES)] == at
    with pytest.raises(InputError, match=r"tree.*: expected"):
        tree_of(counts, NAMES)
    assert len(list(faults([3], ("visit",)))) == 1  # of a single level


def test_a_hierarchy_of_a_tree():
    hierarchy = Hierarchy.of_tree(tree_of(EXAMPLE, NAMES), NAMES, [Fixed(size=2), Fixed(size=2), Fixed(size=2)])
    assert [(level.min_count, level.count) for level in hierarchy.levels] == [(2, 2), (2, 3), (2, 5)]
    assert hierarchy.levels[0].scheme == All()
    assert hierarchy.levels[1].scheme == Fixed(size=2)
    assert [hierarchy.units(number) for number in range(4)] == [1, 2, 5, 18]


@pytest.mark.parametrize(
    ("sizes", "limit"),
    [
        ((1, 1, 3), r"visit.size is 3, more than the 2 of `data.tree\[0\]\[1\]`"),
        ((1, 3, 1), r"patient.size is 3, more than the 2 of `data.tree\[1\]`"),
        ((3, 1, 1), "clinic.size is 3, more than the count 2 of level `clinic`"),
    ],
)
def test_draws_larger_than_a_unit_name_it(sizes, limit):
    with pytest.raises(InputError, match=limit):
        Hierarchy.of_tree(tree_of(EXAMPLE, NAMES), NAMES, [Fixed(size=size) for size in sizes])


def test_equal_sizes_need_no_tree():
    schemes = [Fixed(size=1), Fixed(size=2), All()]
    levels = [Level(name=name, count=count, scheme=s) for name, count, s in zip(NAMES, (2, 3, 4), schemes, strict=True)]
    assert Hierarchy.of_tree(tree_of([[4] * 3] * 2, NAMES), NAMES, schemes) == Hierarchy(levels=tuple(levels))


def test_what_does_not_go_together():
    tree = tree_of(EXAMPLE, NAMES)
    levels = tuple(Level(name=name, count=5, scheme=All()) for name in NAMES)
    with pytest.raises(InputError, match="that the tree has"):
        Hierarchy(levels=levels, tree=tree)
    with pytest.raises(InputError, match="least count"):
        Level(name="a", count=3, min_count=4, scheme=All())
    with pytest.raises(InputError, match="more than the smallest count 2"):
        Level(name="a", count=9, min_count=2, scheme=Fixed(size=3))
    with pytest.raises(InputError, match="records in all"):
        Hierarchy(levels=tuple(Level(name=name, count=10**9, scheme=All()) for name in NAMES))


# Units that are alike stand once.

LEVELS = ("user", "session", "example")


def rows(counts):
    return [
        list(zip(one.parent.tolist(), one.number.tolist(), one.unit.tolist(), strict=True))
        for one in alike_units(tree_of(counts, LEVELS).sizes)
    ]


def test_kinds_under_kinds():
    users, sessions, examples = rows([[4, 2], [2, 2, 2], [2, 4], [3], [2, 2], [2, 2]])
    assert users == [(0, 2, 0), (0, 1, 1), (0, 1, 3), (0, 2, 4)]
    assert sessions == [(0, 1, 0), (0, 1, 1), (1, 3, 2), (2, 1, 7), (3, 2, 8)]
    assert examples == [(0, 4, 0), (1, 2, 1), (2, 2, 2), (3, 3, 7), (4, 2, 8)]


def test_a_million_units_of_few_kinds():
    kinds = np.array([[5, 20, 64, 5, 5], [20, 5, 5, 5, 64], [5, 5, 5, 5, 5]])
    sessions = tuple(kinds[np.arange(200_000) % 3].ravel().tolist())
    users, kinds_of_sessions, examples = alike_units(((200_000,), (5,) * 200_000, sessions))
    assert users.number.tolist() == [133_334, 66_666]
    assert kinds_of_sessions.number.tolist() == [3, 1, 1, 5]
    assert examples.number.tolist() == [5, 20, 64, 5]
