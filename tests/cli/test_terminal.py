"""What a person sees on a terminal."""

import os
import subprocess
import sys

import pytest

from tests.cli.running import STAND_IN, environment, shown_on

pty = pytest.importorskip("pty")
pytestmark = pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")


def on_terminal(*arguments, env=None):
    """Exit code, standard output (a terminal of 80 columns) and standard error (a pipe) of a command."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, STAND_IN, *arguments],
        env=environment(**({"TERM": "xterm"} | (env or {}))),
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as running:
        os.close(theirs)
        out = shown_on(ours)
        os.close(ours)
        err = running.stderr.read()
    return running.returncode, out.replace("\r\n", "\n"), err.decode()


def test_a_headline_and_labelled_rows(config):
    code, out, err = on_terminal("epsilon", config(name="'[/x] [bold]'"))
    assert code == 0
    assert out.startswith("\x1b[1mepsilon <= 0.500   delta = 1e-05\x1b[0m\n")
    assert "  [/x] [bold]\n" in out
    assert "2.0, 25.0% used\n" in out
    assert err == "note: Opacus would print the same\n"


@pytest.mark.heavy
@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_is_no_escape_at_all(config, env):
    code, out, _ = on_terminal("compare", config(), env=env)
    assert code == 0
    assert "\x1b" not in out
    assert "does [not] apply" in out
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.heavy
def test_quiet_and_json_are_for_programs(config):
    path = config()
    assert on_terminal("epsilon", path, "-q")[:2] == (0, "0.500000\n")
    code, out, _ = on_terminal("epsilon", path, "--json")
    assert (code, out[0], "\x1b" in out) == (0, "{", False)


@pytest.mark.parametrize("command", ["epsilon", "compare"])
def test_the_terminal_form_in_this_process(dpcalc, config, monkeypatch, command):
    monkeypatch.setattr("dpcalc.cli.output.on_terminal", lambda: True)
    monkeypatch.setattr("dpcalc.cli.output.has_styles", lambda: False)
    ended = dpcalc(command, config())
    assert ended.code == 0
    assert "\x1b" not in ended.out  # drawn for a terminal, without escapes for what is none
    assert "delta = 1e-05" in ended.out.splitlines()[0]
