"""How this suite is run: in parts, and the same way every time."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

from tests import conftest
from tests.thinning import thinned

ROOT = Path(__file__).parents[2]


def part_of(names, part):
    """The tests that `--part` leaves of some."""
    items = [SimpleNamespace(nodeid=name) for name in names]
    hook = SimpleNamespace(pytest_deselected=lambda **_: None)
    conftest.pytest_collection_modifyitems(SimpleNamespace(getoption={"part": part}.get, hook=hook), items)
    return [item.nodeid for item in items]


def test_parts_are_the_whole(request):
    names = [item.nodeid for item in request.session.items]
    names += [f"tests/test_{number}.py::test" for number in range(100)]  # if this test runs alone
    parts = [part_of(names, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert all(parts)
    assert part_of(names, None) == names


def test_a_thinned_grid_keeps_its_cases_in_order_and_marks_the_others_slow():
    cases = thinned([*range(5), pytest.param(5, id="five")], 3)
    kept = [case for case in cases if not isinstance(case, type(pytest.param()))]
    slow = {case.values[0]: case for case in cases if isinstance(case, type(pytest.param()))}
    assert kept == [0, 2, 4]
    assert list(slow) == [1, 3, 5]
    assert slow[5].id == "five"
    assert all([mark.name for mark in case.marks] == ["slow"] for case in slow.values())
    assert thinned([(1, 2), (3, 4)], 1)[1].values == (3, 4)


@pytest.mark.skipif("HYPOTHESIS_PROFILE" in os.environ, reason="somebody chose another profile")
def test_the_default_suite_tries_the_same_examples_every_time(request):
    is_slow = request.config.getoption("markexpr") == "slow"
    assert settings().derandomize is not is_slow


def test_no_test_measures_a_quick_answer_by_the_clock_of_the_wall():
    """On a busy machine it stands still for seconds; CPU time is what is promised."""
    for path in (ROOT / "tests").rglob("*.py"):
        if "benchmarks" not in path.parts and path != Path(__file__):
            assert not re.search(r"perf_counter\(\)|time\.time\(\)", path.read_text(encoding="utf-8")), path
