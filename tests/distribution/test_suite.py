"""How this suite is run: in parts, and the same way every time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[2]


def collected(*words):
    """The tests that pytest finds in a small folder."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/numerics",
        *words,
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in ended.stdout.splitlines() if "::" in line]


def test_parts_are_the_whole():
    parts = [collected("--part", f"{number}/3") for number in (1, 2, 3)]
    assert sorted(one for part in parts for one in part) == sorted(collected())
    assert all(parts)


@pytest.mark.skipif("HYPOTHESIS_PROFILE" in os.environ, reason="somebody chose another profile")
def test_the_default_suite_tries_the_same_examples_every_time(request):
    is_slow = request.config.getoption("markexpr") == "slow"
    assert settings().derandomize is not is_slow


def test_no_test_measures_a_quick_answer_by_the_clock_of_the_wall():
    """On a busy machine it stands still for seconds; CPU time is what is promised."""
    for path in (ROOT / "tests").rglob("*.py"):
        if "benchmarks" not in path.parts and path != Path(__file__):
            assert not re.search(r"perf_counter\(\)|time\.time\(\)", path.read_text(encoding="utf-8")), path
