"""Curves of Renyi divergences; amplification from divergences alone is in tests/published/test_subsampled_rdp.py."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcalc.accountants.rdp import best_epsilon
from dpcalc.losses.moments import RdpCurve
from dpcalc.mechanisms.black_box import RdpTable, Zcdp
from dpcalc.planner.evaluate import guarantee
from dpcalc.sampling.schemes import All, Fixed
from tests.runs import HUNDREDTH, plan_of, run_of

FEW = Fixed(size=50)


def test_a_curve_is_composed_and_converted_like_any_loss():
    rho = 0.01
    curve = RdpCurve(name="zcdp", points=tuple((float(a), rho * a) for a in range(2, 257)))
    best = best_epsilon({curve: 10}, delta=1e-6)
    exact = min(10 * rho * a + math.log1p(-1 / a) - math.log(1e-6 * a) / (a - 1) for a in np.linspace(1.5, 60, 5000))
    assert exact <= best.value <= exact * 1.001


def test_between_its_orders_a_curve_is_a_chord_of_log_moments():
    """By hand: z = 1, 3 with K = 0.2, 1.2 make K = 0.7 at z = 2; from 0 to 1 it is a line through 0."""
    curve = RdpCurve(name="two", points=((2.0, 0.2), (4.0, 0.4)))
    found = [curve.rdp(order) for order in (1.5, 2.0, 3.0, 4.0, 4.1)]
    assert found == pytest.approx([0.2, 0.2, 0.35, 0.4, math.inf])
    hump = RdpCurve(name="a point above the chord of others", points=((2.0, 0.2), (3.0, 0.9), (4.0, 1.0)))
    assert hump.rdp(3.0) == pytest.approx((0.2 + 3) / 4)


@pytest.mark.heavy
@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=2, max_size=6),
    st.lists(st.floats(1.05, 12), min_size=1, max_size=5, unique=True),
    st.floats(1.01, 12),
)
def test_curves_are_above_the_divergences_they_are_made_from(weights, orders, order):
    """Renyi divergences of two distributions on a few points, summed directly."""
    p, q = (np.array(side) / sum(side) for side in zip(*weights, strict=True))

    def exact(a):
        return max(0.0, math.log((p**a * q ** (1 - a)).sum()) / (a - 1))

    curve = RdpCurve(name="points", points=tuple((order, exact(order)) for order in sorted(orders)))
    assert curve.rdp(order) >= exact(order) * (1 - 1e-9) - 1e-12


@pytest.mark.parametrize(
    ("scheme", "adjacency"), [(All(), "add-remove"), (HUNDREDTH, "add-remove"), (FEW, "replace-one")]
)
def test_a_curve_of_all_whole_orders_is_what_it_was_taken_from(scheme, adjacency):
    curve = tuple((float(order), 0.1 * order) for order in range(2, 257))
    table, zcdp, few = (
        guarantee(run_of((1000, scheme), mechanism=each, steps=100, adjacency=adjacency)).epsilon
        for each in (RdpTable(curve=curve), Zcdp(rho=0.1), RdpTable(curve=curve[:1] + curve[6:8]))
    )
    assert table == pytest.approx(zcdp, rel=1e-3)
    assert few >= table * (1 - 1e-9)


def test_the_factor_of_the_poisson_bound():
    """Of Gaussian noise the odd moments are known, and the bound without the factor is exact: the golden pair."""
    curve = tuple((float(order), order / 32) for order in range(2, 257))
    unknown, known = (
        guarantee(plan_of(HUNDREDTH, mechanism=RdpTable(curve=curve, odd_moments=said), steps=10_000)).epsilon
        for said in ("unknown", "nonnegative")
    )
    exact = guarantee(plan_of(HUNDREDTH, steps=10_000), method="rdp").epsilon
    assert exact <= known < unknown
    assert known == pytest.approx(exact, rel=2e-3)
