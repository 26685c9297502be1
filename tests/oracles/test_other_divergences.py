"""Steps known by their Renyi divergences against exact laws of such a step: discrete Laplace noise on a sum of +-1."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dpcalc.amplification.any_mechanism import group_divergence
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.black_box import Exponential, RdpTable, Zcdp
from dpcalc.planner.evaluate import delta_of
from dpcalc.planner.plan import Phase, Plan
from dpcalc.planner.words import assumptions
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Fixed, Poisson

_SCALE = 8.0
_Y = np.arange(-150, 151)


def noise(mean):
    """Masses of `mean` plus discrete Laplace noise."""
    decay = math.exp(-1 / _SCALE)
    return (1 - decay) / (1 + decay) * np.exp(-np.abs(_Y - mean) / _SCALE)


def divergence(p, q, order):
    """Renyi divergence of an order above 1."""
    return math.log((p * (p / q) ** (order - 1)).sum()) / (order - 1)


def output(values, scheme):
    """Masses of the noisy sum over what is drawn."""
    n = len(values)
    if isinstance(scheme, Fixed):
        draws = list(combinations(values, scheme.size))
        return sum(noise(sum(draw)) for draw in draws) / len(draws)
    rate, found = float(scheme.probability), np.zeros(_Y.size)
    for size in range(n + 1):
        for draw in combinations(values, size):
            found += rate**size * (1 - rate) ** (n - size) * noise(sum(draw))
    return found


@pytest.mark.parametrize("scheme", [Fixed(size=2), Fixed(size=1), Poisson(probability=Fraction(9, 10))], ids=str)
@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("orders", [(6.0,), (1.5, 2.0, 3.0, 8.0, 32.0)], ids=len)
def test_a_known_largest_loss_is_that_of_one_change(scheme, group, orders):
    count = 5
    points = tuple((order, divergence(noise(0), noise(2), order)) for order in orders)
    mechanism = RdpTable(curve=points, epsilon=2 / _SCALE)
    hierarchy = Hierarchy(levels=(Level(name="record", count=count, scheme=scheme),))
    phase = Phase(name="one", hierarchy=hierarchy, mechanism=mechanism, clip=1, steps=1)
    plan = Plan(phases=(phase,), unit=1, adjacency=Adjacency.REPLACE_ONE, delta=1e-5, group_size=group)
    p, q = (output([sign] * group + [-1] * (count - group), scheme) for sign in (1, -1))
    for epsilon in (0.0, 0.1, 0.3, 0.5, 0.7):
        truth = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))
        assert truth <= delta_of(plan, epsilon=epsilon).delta * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_what_zeroed_units_do_is_stated_where_nothing_else_tells(adjacency):
    """Found by the worst mechanism of all: told from no unit, two zeroed ones of a Poisson draw cost more."""
    hierarchy = Hierarchy(levels=(Level(name="record", count=3, scheme=Poisson(probability=Fraction(1, 2))),))
    mechanism = RdpTable(curve=((2.0, 0.1),))
    phase = Phase(name="one", hierarchy=hierarchy, mechanism=mechanism, clip=1, steps=1)
    said = assumptions(Plan(phases=(phase,), unit=1, adjacency=adjacency, delta=1e-5))
    assert any("zeroed" in line for line in said) == (adjacency is Adjacency.ZERO_OUT)


@pytest.mark.parametrize("changes", [1, 2, 3, 50, 999])
def test_changes_one_after_the_other_are_no_recursion(changes):
    """Of zCDP they make k^2 rho a (Bun, Steinke 2016, 1605.02065v1, Proposition 1.9)."""
    for order in (1.5, 2.0, 7.0):
        assert group_divergence(Zcdp(rho=0.01).rdp, changes, order) == pytest.approx(
            changes**2 * 0.01 * order, rel=1e-12
        )
        assert group_divergence(Exponential(epsilon=0.5).rdp, changes, order) <= 0.5 * changes
        assert group_divergence(Exponential(epsilon=0.5).rdp, changes, order) <= changes**2 * 0.25 / 8 * order * (
            1 + 1e-12
        )
