"""What fails beside a finished upper bound is left out and named; the upper bound stays or gives way to a looser."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

import dpcalc
from dpcalc.config.load import load
from dpcalc.errors import ConvergenceError, OutOfTimeError, UnsupportedError
from dpcalc.planner.compare import compare, cross_checks
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.sampling.schemes import All
from tests.oracles.exact_gaussian import exact_delta
from tests.runs import plan_of
from tests.thinning import thinned

RUN = dpcalc.plan(sample_rate=0.01, noise_multiplier=2.0, steps=100, delta=1e-5)
FAILURES = [
    ConvergenceError("no answer"),
    UnsupportedError("unknown"),
    OverflowError("math range error"),
    ZeroDivisionError("division by zero"),
    MemoryError(),
    RecursionError("maximum recursion depth exceeded"),
]
DEFECTS = [ValueError("zero-size array"), TypeError("None"), KeyError("x"), IndexError(), AssertionError()]
LOWER = ("evaluate.epsilon_lower", "evaluate.delta_lower", "compare.epsilon_lower")


@pytest.fixture
def broken(monkeypatch):
    """Let functions of the planner fail."""

    def of(error, *names):
        def fail(*_args, **_named):
            raise error

        for name in names:
            monkeypatch.setattr(f"dpcalc.{name if 'charts' in name else f'planner.{name}'}", fail)

    return of


@pytest.fixture(scope="module")
def whole():
    """Epsilon of the run, its delta at .5, and its rows, while nothing fails."""
    return guarantee(RUN).epsilon, delta_of(RUN, epsilon=0.5).delta, compare(RUN)


@pytest.mark.heavy
@pytest.mark.parametrize("error", thinned(FAILURES, 2), ids=repr)
def test_a_lower_bound_that_fails_leaves_the_upper_bound(broken, whole, error):
    upper, delta, _ = whole
    broken(error, *LOWER)
    found = evaluate(RUN).guarantee
    assert (found.epsilon, found.epsilon_lower, found.tight) == (upper, None, False)
    answer = delta_of(RUN, epsilon=0.5)
    assert (answer.delta, answer.delta_lower) == (delta, None)
    assert all("lower bound is missing" in " ".join(each.notes) for each in (found, answer))


@pytest.mark.parametrize("error", DEFECTS, ids=repr)
def test_a_defect_in_the_lower_bound_leaves_the_upper_bound_and_stays_visible(broken, whole, error):
    broken(error, *LOWER)
    with pytest.warns(Warning, match="internal error"):
        found = evaluate(RUN).guarantee
    assert (found.epsilon, found.epsilon_lower) == (whole[0], None)
    assert any(type(error).__name__ in note for note in found.notes)


@pytest.mark.parametrize("name", ["advice", "theorem_3_row", "group_rows"])
def test_advice_and_alternatives_that_fail_leave_the_upper_bound(broken, name):
    upper = guarantee(RUN).epsilon
    broken(MemoryError(), f"evaluate.{name}")
    assert evaluate(RUN).guarantee.epsilon == upper


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name", thinned(["theorem_3_row", "inversion_row", "gdp_row", "strong_composition_row", "group_rows"], 1)
)
def test_a_row_that_fails_leaves_the_others(broken, whole, name):
    broken(OverflowError("math range error"), f"compare.{name}")
    assert {row.method for row in compare(RUN) if row.valid} == {row.method for row in whole[2] if row.valid}


def test_a_drawn_lower_bound_and_a_cross_check_that_fail_are_left_out(broken):
    broken(RecursionError(), "charts.epsilon_lower", "compare.epsilon_bounds")
    assert dpcalc.curve(RUN, "steps", methods=("lower",), grid=(10,)).series[0].ys == (None,)
    assert cross_checks(RUN) == ()


def test_the_end_of_the_time_is_not_held_back(broken):
    broken(OutOfTimeError("30 s are over"), *LOWER)
    with pytest.raises(OutOfTimeError):
        evaluate(RUN)


@pytest.mark.usefixtures("fresh_caches")
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 4.0])
def test_the_moments_give_a_delta_above_the_exact_one(broken, epsilon):
    broken(ConvergenceError("does not fit"), "evaluate.delta_bounds", "lower_end.delta_bounds")
    found = delta_of(plan_of(All(), noise=40.0), epsilon=epsilon)
    exact = exact_delta(math.sqrt(1_000) / 40, epsilon)
    assert found.method == "rdp"
    assert found.delta_lower is None or found.delta_lower <= exact
    assert exact <= found.delta <= min(1, 20 * exact)


@pytest.mark.heavy
def test_a_delta_far_out_is_below_that_of_the_moments(broken):
    plan = load(str(Path(__file__).parents[2] / "sample_configs" / "mini_imagenet_5way_1shot.yaml")).plan
    sharp = [delta_of(plan, epsilon=epsilon) for epsilon in (50.0, 100.0)]
    broken(ConvergenceError("does not fit"), "evaluate.delta_bounds", "lower_end.delta_bounds")
    for found in sharp:
        moments = delta_of(plan, epsilon=found.epsilon)
        assert (found.method, moments.method) == ("pld", "rdp")
        assert 0 < found.delta < moments.delta


def test_a_lower_end_above_the_upper_bound_is_no_tight_answer(monkeypatch):
    """Both are proved: where they cross beyond round-off one is wrong, and was once cut and called tight."""
    upper, delta = guarantee(RUN).epsilon, delta_of(RUN, epsilon=0.3).delta
    asked = {
        "epsilon_lower": (lambda *_, **__: SimpleNamespace(value=1.1 * upper), dpcalc.epsilon, {}),
        "delta_lower": (lambda *_, **__: 1.1 * delta, dpcalc.delta, {"epsilon": 0.3}),
    }
    for name, (lower, ask, given) in asked.items():
        monkeypatch.setattr(f"dpcalc.planner.evaluate.{name}", lower)
        with pytest.raises(ConvergenceError, match="expected an upper bound above what an actual data set costs"):
            ask(RUN, **given)
