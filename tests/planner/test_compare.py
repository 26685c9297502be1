"""Every accountant and bound side by side: which rows there are, what they claim, and why they do not apply."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dpcalc.accountants import ACCOUNTANTS
from dpcalc.guarantee import Adjacency, Kind
from dpcalc.mechanisms.additive import DiscreteGaussian, Gaussian
from dpcalc.planner.compare import compare, cross_checks, gdp_row, tool_rows
from dpcalc.planner.composition import composed
from dpcalc.planner.published import opacus_steps, strong_composition_row
from dpcalc.sampling.hierarchy import Level
from dpcalc.sampling.schemes import All, CappedPoisson, Fixed, Poisson, Shuffle, WithReplacement
from tests.runs import run_of
from tests.thinning import thinned

FLAT = (Level(name="example", count=60_000, scheme=Poisson(probability=Fraction(1, 100))),)
FIXED = (Level(name="example", count=60_000, scheme=Fixed(size=600)),)
WHOLE = (Level(name="example", count=60_000, scheme=All()),)
SHUFFLED = (Level(name="example", count=1000, scheme=Shuffle(size=100)),)
NESTED = (Level(name="task", count=200, scheme=Fixed(size=4)), Level(name="example", count=20, scheme=Fixed(size=5)))
USERS = (
    Level(name="user", count=5000, scheme=Poisson(probability=Fraction(1, 100))),
    Level(name="example", count=8, scheme=All()),
)


def plan(levels=FLAT, *, sigma=4.0, steps=10_000, **more):
    return run_of(*levels, noise=sigma, steps=steps, **more)


def two_phases():
    one = plan().phases[0]
    return replace(plan(), phases=(one, replace(one, name="later", mechanism=Gaussian(noise_multiplier=6.0))))


PLANS = {
    "flat": plan(),
    "flat zero-out": plan(adjacency=Adjacency.ZERO_OUT),
    "flat replace-one": plan(adjacency=Adjacency.REPLACE_ONE),
    "fixed": plan(FIXED),
    "not sampled": plan(WHOLE, sigma=300.0),
    "nested": plan(NESTED, sigma=6.0),
    "users clipped whole": plan(USERS, unit=1, clip=1),
    "users clipped in parts": plan(USERS, unit=1, sigma=20.0),
    "two phases": two_phases(),
    "nothing released": plan(steps=0),
    "little noise": plan(sigma=0.3, steps=3),
}


def row(rows, method, bound=None):
    (found,) = (one for one in rows if one.method == method and bound in {None, one.bound})
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("name", thinned(PLANS, 2))
def test_what_the_rows_claim(name):
    rows = compare(PLANS[name])
    order = [(not one.valid, one.epsilon is None, one.epsilon or 0.0) for one in rows]
    assert order == sorted(order)
    assert sorted(one.method for one in rows if one.bound == "one-step bound") == sorted([*ACCOUNTANTS, "inversion"])
    assert all(one.note for one in rows if not one.valid or one.epsilon is None)
    assert {one.kind for one in rows if one.valid} <= {Kind.UPPER, Kind.AS_PUBLISHED}
    assert all(one.valid for one in rows if one.kind is Kind.UPPER and one.epsilon is not None)
    lower = row(rows, "pld", "one-step bound").epsilon_lower
    assert all(one.epsilon >= lower * (1 - 1e-4) for one in rows if one.valid and one.epsilon is not None)
    said = {one for one in rows if one.note.endswith("an actual data set costs more")}
    assert said == {one for one in rows if not one.valid and one.epsilon is not None and one.epsilon < lower}


def test_what_tools_print_holds_for_what_they_assume():
    for levels, valid in ((FLAT, True), (FIXED, False), (NESTED, False)):
        printed = {one.method: one.valid for one in tool_rows(plan(levels)) if one.bound == "flat Poisson"}
        assert printed == {"opacus-prv": valid, "opacus-rdp": valid, "tf-privacy": valid}
    assert row(tool_rows(plan(WHOLE, sigma=300.0)), "tf-privacy", "once per epoch").valid
    assert not row(tool_rows(plan()), "tf-privacy", "once per epoch").valid


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (plan(FIXED), "assumes Poisson draws, not batches of a fixed size; asked"),
        (plan(NESTED), "one level of draws, not 2"),
        (plan(adjacency=Adjacency.REPLACE_ONE), "assumes add-remove, not replace-one"),
        (plan(FIXED, adjacency=Adjacency.REPLACE_ONE), "not batches of a fixed size; add-remove, not replace-one"),
        (plan(USERS, unit=1, sigma=20.0), "one clipped contribution of the unit, not several"),
        (plan(SHUFFLED, steps=50), "assumes one Poisson draw, made afresh in every step; asked"),
    ],
)
def test_a_tool_row_tells_how_its_run_differs(case, words):
    assert words in row(tool_rows(case), "opacus-prv").note


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (plan(NESTED), "one level of draws"),
        (plan(USERS, unit=1), "one clipped vector a unit"),
        (plan(adjacency=Adjacency.REPLACE_ONE), "add-remove"),
        (plan(sigma=0.02, steps=3), "little noise"),
    ],
)
def test_the_central_limit_does_not_always_apply(case, words):
    found = gdp_row(case)
    assert found.epsilon is None
    assert words in found.note


@pytest.mark.heavy
def test_the_central_limit_may_lie_below_the_truth():
    case = plan(sigma=1.0, steps=1000)
    found = row(compare(case), "gdp")
    assert found.epsilon == pytest.approx(1.618, abs=5e-4)
    assert (found.kind, found.valid) == (Kind.APPROXIMATION, False)
    assert "an actual data set costs more" in found.note
    assert found == replace(gdp_row(case), note=found.note)
    assert "Poisson draws only" in gdp_row(plan(FIXED)).note
    exact = gdp_row(plan(WHOLE, sigma=100.0)).epsilon
    assert exact == pytest.approx(4.377178, abs=1e-6)  # mu = 1 at 1e-5


def test_strong_composition_as_published():
    found = strong_composition_row(plan())
    assert found.epsilon == pytest.approx(9.34, abs=5e-3)
    assert (found.kind, found.valid) == (Kind.AS_PUBLISHED, False)
    assert strong_composition_row(two_phases()).epsilon is None


@pytest.mark.heavy
def test_inversion_says_when_it_does_not_converge():
    rare = (Level(name="example", count=10**6, scheme=Poisson(probability=Fraction(1, 1000))),)
    found = row(compare(plan(rare, sigma=0.5, steps=20)), "inversion")
    assert (found.epsilon, found.kind, found.valid) == (None, Kind.ESTIMATE, False)
    assert "pld needs no such sum" in found.note


# The cross-check: pld and inversion on the same composition.


def test_without_anything_to_compose_there_is_nothing_to_check():
    assert cross_checks(plan(sigma=0.0)) == ()
    assert cross_checks(plan(steps=0)) == ()


def test_a_delta_that_nothing_reaches():
    assert [(check.upper, check.estimate) for check in cross_checks(replace(plan(steps=1), delta=0.5))] == [(0, 0)] * 2


@pytest.mark.parametrize(("mechanism", "attains"), [(DiscreteGaussian(noise_multiplier=1.0), False), (None, True)])
def test_a_data_set_attains_a_bound_only_where_both_ends_agree(mechanism, attains):
    """Of one pair the ends were 1.22 and .0148, for losses that are rounded to either side, and said to be one."""
    draw = Poisson(probability=Fraction(1, 10**6 if mechanism else 10))
    run = run_of((100_000, draw), mechanism=mechanism, steps=100, delta=1e-18 if mechanism else 1e-5)
    run = replace(run, group_size=5 if mechanism else 1)
    row = next(row for row in compare(run) if row.method == "pld")
    assert ("the data set that attains the bound" in row.note) is attains
    assert (row.epsilon_lower >= 0.999 * row.epsilon) is attains


@pytest.mark.parametrize(
    ("count", "scheme", "rate"),
    [
        (16, Shuffle(size=10, drop_last=True), 1),  # 10/16 in a step, but len(loader) is 1
        (16, CappedPoisson(probability=Fraction(1), max_batch_size=4), 1),
        (16, WithReplacement(size=1), Fraction(1, 16)),
    ],
)
def test_tools_are_told_the_loader_not_a_simpler_draw_of_its_law(count, scheme, rate):
    run = run_of((count, scheme), noise=3.0, steps=20, adjacency=Adjacency.ZERO_OUT)
    assert [each[0] for each in opacus_steps(composed(run))] == [rate]
    once = [row for row in compare(run) if row.method == "tf-privacy" and row.bound.startswith("once per epoch")]
    assert all(row.valid for row in once) is (scheme.is_shuffled)
