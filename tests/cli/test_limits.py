"""Limits of time and memory: every command ends, and says in one sentence what it ran out of."""

import subprocess
import sys

import pytest

from tests.cli.running import STAND_IN, environment
from tests.cli.stand_in import SLOW
from tests.thinning import thinned


@pytest.mark.parametrize("text", ["0", "-1", "-0.0", "nan", "inf", "-inf", "x", "", "1e999"])
def test_a_limit_is_a_positive_number(dpcalc, config, text):
    for words in (
        ("check", "--timeout", text),
        ("lock", "--memory-limit", text),
        ("epsilon", "--timeout", text),
        ("validate", "--timeout", text),
        ("sweep", "--over", "training.steps=1,2", "--memory-limit", text),
    ):
        ended = dpcalc(*words, config())
        assert (ended.code, ended.out) == (2, "")
        assert f"'{words[-2]}': expected a " in ended.err


@pytest.mark.parametrize("text", thinned(["1e10", "1e6", "1e300", "1e7", "9.3e9"], 2))
def test_no_number_is_too_large_for_the_clocks_of_the_system(real, file, text):
    ended = real("check", str(file()), "--timeout", text, "--memory-limit", text, "--exit-zero")
    assert (ended.code, ended.err) == (0, "")
    assert real("show", str(file()), "--timeout", text).code == 0


@pytest.mark.heavy
@pytest.mark.parametrize("command", [("epsilon",), ("compare",), ("statement",)])
def test_a_single_command_ends_in_time(config, command):
    ended = subprocess.run(
        [sys.executable, STAND_IN, *command, config(steps=SLOW), "--timeout", "2.5"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=50,  # the work itself takes 60
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr.endswith("error[DPC902]: no answer within 2.5 s; --timeout allows more\n")


def test_a_hanging_file_ends_in_time(tmp_path):
    """`validate` computes nothing, and may still wait: here for somebody to write."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "dpcalc", "validate", "-", "--timeout", "1"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as waiting:
        try:
            assert waiting.wait(timeout=50) == 3
        finally:
            waiting.kill()
        assert waiting.stderr.read() == "error[DPC902]: no answer within 1 s; --timeout allows more\n"


@pytest.mark.parametrize(
    "command", ["epsilon", "show", "validate", "solve-sigma", "curve", "sweep", "scan", "pate", "simulate"]
)
def test_every_command_that_may_take_long_has_a_timeout(dpcalc, command):
    assert "--timeout " in dpcalc(command, "--help").out


@pytest.mark.parametrize("command", [("check",), ("diff",), ("lock",), ("validate",), ("ledger", "check")])
def test_a_gate_has_a_timeout_of_its_own(dpcalc, command):
    """Configs that others wrote must not keep it busy for hours."""
    shown = " ".join(dpcalc(*command, "--help").out.replace("│", " ").split())
    assert "Give up after S seconds, with exit code 3. [default: 600]" in shown
