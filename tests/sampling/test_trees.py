"""Trees of nested counts: places, order, what a hierarchy makes of them, and units that are alike."""

import numpy as np

from dpcalc.sampling.hierarchy import Hierarchy, Level, tree_of
from dpcalc.sampling.paths import alike_units
from dpcalc.sampling.schemes import All, Fixed
from tests.runs import of_tree

NAMES = ("clinic", "patient", "visit")
EXAMPLE = [[4, 2, 3], [4, 5]]


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


def test_equal_sizes_need_no_tree():
    schemes = [Fixed(size=1), Fixed(size=2), All()]
    levels = [Level(name=name, count=count, scheme=s) for name, count, s in zip(NAMES, (2, 3, 4), schemes, strict=True)]
    assert of_tree(tree_of([[4] * 3] * 2, NAMES), NAMES, schemes) == Hierarchy(levels=tuple(levels))


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
