"""What fails beside a finished upper bound is left out and named; the upper bound stays."""

import pytest

from dpcalc import epsilon, plan
from dpcalc.charts import epsilon_by
from dpcalc.errors import ConvergenceError, OutOfTimeError, TooLargeError, UnsupportedError
from dpcalc.planner import compare as comparing
from dpcalc.planner import evaluate as evaluating
from dpcalc.planner.compare import compare, cross_checks
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.work import DefectWarning, optional
from tests.thinning import thinned

RUN = plan(sample_rate=0.01, noise_multiplier=2.0, steps=100, delta=1e-5)
FAILURES = [
    ConvergenceError("no answer"),
    TooLargeError("too large"),
    UnsupportedError("unknown"),
    OverflowError("math range error"),
    ZeroDivisionError("division by zero"),
    FloatingPointError("overflow"),
    MemoryError(),
    RecursionError("maximum recursion depth exceeded"),
]
DEFECTS = [ValueError("zero-size array"), TypeError("None"), KeyError("x"), IndexError(), AssertionError()]


def failing(error):
    def fail(*_args, **_named):
        raise error

    return fail


def broken(monkeypatch, error):
    """Let both lower bounds fail."""
    for module, name in ((evaluating, "epsilon_lower"), (evaluating, "delta_lower"), (comparing, "epsilon_lower")):
        monkeypatch.setattr(module, name, failing(error))


@pytest.fixture(scope="module")
def whole():
    """Epsilon of the run, its delta at .5, and its rows, while nothing fails."""
    return guarantee(RUN).epsilon, delta_of(RUN, epsilon=0.5).delta, compare(RUN)


@pytest.mark.heavy
@pytest.mark.parametrize("error", thinned(FAILURES, 2), ids=repr)
def test_a_lower_bound_that_fails_leaves_the_upper_bound(monkeypatch, whole, error):
    upper, delta, _ = whole
    broken(monkeypatch, error)
    found = evaluate(RUN)
    assert found.guarantee.epsilon == epsilon(RUN).epsilon == upper
    assert found.guarantee.epsilon_lower is None
    assert not found.guarantee.tight
    assert any("lower bound is missing" in note for note in found.guarantee.notes)
    answer = delta_of(RUN, epsilon=0.5)
    assert (answer.delta, answer.delta_lower) == (delta, None)
    assert any("lower bound is missing" in note for note in answer.notes)


@pytest.mark.parametrize("error", DEFECTS, ids=repr)
def test_a_defect_in_the_lower_bound_leaves_the_upper_bound_and_stays_visible(monkeypatch, whole, error):
    upper, *_ = whole
    broken(monkeypatch, error)
    with pytest.warns(DefectWarning, match="internal error"):
        found = evaluate(RUN)
    assert (found.guarantee.epsilon, found.guarantee.epsilon_lower) == (upper, None)
    assert any(type(error).__name__ in note for note in found.guarantee.notes)


@pytest.mark.parametrize("name", ["advice", "theorem_3_row", "group_rows"])
def test_advice_and_alternatives_that_fail_leave_the_upper_bound(monkeypatch, name):
    upper = guarantee(RUN).epsilon
    monkeypatch.setattr(evaluating, name, failing(MemoryError()))
    assert evaluate(RUN).guarantee.epsilon == upper


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name", thinned(["theorem_3_row", "inversion_row", "gdp_row", "strong_composition_row", "group_rows"], 1)
)
def test_a_row_that_fails_leaves_the_others(monkeypatch, whole, name):
    _, _, before = whole
    monkeypatch.setattr(comparing, name, failing(OverflowError("math range error")))
    after = compare(RUN)
    assert {row.method for row in after if row.valid} == {row.method for row in before if row.valid}


def test_a_drawn_lower_bound_and_a_cross_check_that_fail_are_left_out(monkeypatch):
    monkeypatch.setattr("dpcalc.charts.epsilon_lower", failing(RecursionError()))
    monkeypatch.setattr("dpcalc.planner.compare.epsilon_bounds", failing(MemoryError()))
    assert epsilon_by(RUN, "lower")[0] is None
    assert cross_checks(RUN) == ()


def test_the_end_of_the_time_is_not_held_back():
    with pytest.raises(OutOfTimeError):
        optional("a part", failing(OutOfTimeError("30 s are over")), None)
