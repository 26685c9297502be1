"""Pld and inversion on the same composition."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dpcalc.planner.compare import cross_checks
from dpcalc.planner.composition import BACKWARD, FORWARD
from dpcalc.planner.evaluate import guarantee
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import Fixed, Poisson
from tests.planner.test_compare import FIXED, FLAT, NESTED, WHOLE, plan, two_phases

EMPTY = (
    Level(name="user", count=3, scheme=Fixed(size=1)),
    Level(name="record", count=3, scheme=Poisson(probability=Fraction(1, 20))),
)
CASES = {
    "flat": plan(FLAT),
    "fixed": plan(FIXED),
    "not sampled": plan(WHOLE, sigma=300.0),
    "of a closed form whose ends are closer than the estimate is accurate": plan(WHOLE, sigma=100.0, steps=10_000),
    "nested": plan(NESTED, sigma=6.0),
    "phases": two_phases(),
    "users who may be empty": plan(EMPTY, unit=1, sigma=20.0, steps=1000, delta=1e-3),
}


@pytest.mark.heavy
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_they_agree(case):
    checks = cross_checks(case)
    assert [check.direction for check in checks] == [FORWARD, BACKWARD]
    assert all(check.is_bracketed and check.difference < 1e-3 for check in checks)
    assert max(check.upper for check in checks) == pytest.approx(guarantee(case, method="pld").epsilon, rel=1e-4)


def test_without_anything_to_compose_there_is_nothing_to_check():
    assert cross_checks(plan(sigma=0.0)) == ()
    assert cross_checks(plan(steps=0)) == ()


def test_a_delta_that_nothing_reaches():
    assert [(check.upper, check.estimate) for check in cross_checks(replace(plan(steps=1), delta=0.5))] == [(0, 0)] * 2
