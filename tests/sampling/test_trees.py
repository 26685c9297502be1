"""Trees of nested counts: order, and what a hierarchy makes of them."""

from dpcalc.sampling.hierarchy import Hierarchy, Level, tree_of
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
