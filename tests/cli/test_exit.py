"""Exit codes and streams of the real process."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import dpcalc as package
from dpcalc import errors
from dpcalc.cli import app
from dpcalc.cli.app import run
from tests.cli.running import STAND_IN, environment
from tests.cli.stand_in import CRASHING, NOT_A_NUMBER, SLOW, STUCK


def test_a_flat_epsilon_loads_nothing_that_only_others_need():
    program = "import sys; from dpcalc.cli.app import run; run(sys.argv[1:]); print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program, "epsilon", "sample_configs/mnist_dpsgd.yaml"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert not {"matplotlib", "distributed", "scipy.stats"} & set(ended.stdout.splitlines()[-1].split())


def test_version_is_also_an_ordinary_option(dpcalc):
    assert dpcalc("--version", "epsilon").out == f"dpcalc {package.__version__}\n"


@pytest.mark.parametrize("steps", [CRASHING, STUCK, NOT_A_NUMBER])
@pytest.mark.parametrize("option", ["--json", "-q"])
def test_no_verdict(dpcalc, config, steps, option):
    ended = dpcalc("epsilon", config(steps=steps), option)
    assert ended.code == 3
    assert ended.out == "" if option == "-q" else json.loads(ended.out)["error"]["code"] in {"DPC901", "DPC999"}
    assert ended.err.startswith("error[DPC901]" if steps == STUCK else "error[DPC999]: internal error: ")
    assert "DPCALC_TRACEBACK=1" in ended.err
    assert "Traceback" not in ended.err
    assert "\x1b" not in ended.err


def test_a_traceback_on_demand(dpcalc, config, monkeypatch):
    monkeypatch.setenv("DPCALC_TRACEBACK", "1")
    ended = dpcalc("epsilon", config(steps=CRASHING))
    assert ended.code == 3
    assert "Traceback" in ended.err


def test_a_broken_installation_is_no_verdict(dpcalc, config, monkeypatch):
    monkeypatch.setitem(sys.modules, "dpcalc.cli.commands", None)
    ended = dpcalc("epsilon", config())
    assert ended.code == 3
    assert "ModuleNotFoundError" in ended.err


@pytest.mark.parametrize(
    "arguments", [("--what",), ("what",), ("epsilon", "--what"), ("risk", "a", "b"), ("check", "--max-epsilon")]
)
def test_usage_errors(dpcalc, arguments):
    ended = dpcalc(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Error: " in ended.err


def test_no_command_at_all(dpcalc):
    ended = dpcalc()
    assert (ended.code, "Usage: dpcalc" in ended.out) == (2, True)


def test_typers_own_failures_are_not_our_no(monkeypatch):
    def stopping(error):
        def answer():
            raise error

        command = typer.Typer()
        command.command()(answer)
        return lambda: typer.main.get_command(command)

    for error, code in [(typer.Exit(1), 2), (typer.Exit(0), 0), (typer.Abort(), 130), (KeyboardInterrupt(), 130)]:
        monkeypatch.setattr("dpcalc.cli.commands.application", stopping(error))
        assert run([]) == code


def test_an_answer_of_a_process(process, config):
    ended = process("check", config(steps=2020))
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "DPC301" in ended.stdout


@pytest.mark.heavy
def test_colours_are_not_forced_into_a_pipe(process, config):
    env = {"GITHUB_ACTIONS": "1", "FORCE_COLOR": "1"}
    ended = process("epsilon", config(), env=env)
    assert ended.returncode == 0
    assert "\x1b" not in ended.stdout + ended.stderr
    ended = process("epsilon", "--what", env=env)
    assert ended.returncode == 2
    assert "\x1b" not in ended.stdout + ended.stderr


def _gone(*arguments, env=None):
    """Exit code and standard error of a command whose reader is gone before it speaks."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = subprocess.run(
            [sys.executable, STAND_IN, *arguments],
            env=environment(**(env or {})),
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("arguments", [("epsilon", "--help"), ("--version",), ("--version", "x")])
def test_the_reader_of_an_answer_is_gone(arguments):
    assert _gone(*arguments) == (141, "")


def test_the_reader_of_a_verdict_is_gone(config, tmp_path):
    report = tmp_path / "report.json"
    assert _gone("check", config(steps=2020), "--report", f"json={report}") == (141, "")
    assert report.exists()


@pytest.mark.heavy
def test_the_reader_of_an_error_is_gone():
    reader, writer = os.pipe()
    os.close(reader)
    for arguments in (("--what",), ("epsilon",)):
        ended = subprocess.run(
            [sys.executable, STAND_IN, *arguments],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=writer,
            timeout=60,
            check=False,
        )
        assert (ended.returncode, ended.stdout) == (2, b"")
    os.close(writer)


@pytest.mark.heavy
@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize(("closed", "code"), [(">&-", 3), ("2>&-", 1), (">&- 2>&-", 3)])
def test_closed_streams(config, closed, code):
    command = f'"{sys.executable}" "{STAND_IN}" check "{config(steps=2020)}" {closed}'
    assert subprocess.run(command, shell=True, env=environment(), timeout=60, check=False).returncode == code  # noqa: S602


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_a_full_disk_is_no_verdict(config):
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, STAND_IN, "epsilon", config(), "-q"],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 3
    sentence = "standard output cannot be written: No space left on device; no file was changed"
    assert ended.stderr == f"error[DPC903]: {sentence}\n"


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.usefixtures("children_hear_ctrl_c")
def test_ctrl_c(config):
    with subprocess.Popen(
        [sys.executable, STAND_IN, "epsilon", config(steps=SLOW)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr.readline() == "computing\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, "", "interrupted: no answer\n")


def test_letters_that_the_stream_does_not_know(process, config):
    ended = process("epsilon", config(name="klinik-ä"), env={"PYTHONIOENCODING": "ascii"})
    assert ended.returncode == 0
    assert "name: klinik-\\xe4\n" in ended.stdout


def test_the_exit_codes_of_the_contract():
    assert (errors.FIX_INPUT, errors.NO_VERDICT, app.INTERRUPTED, app.READER_GONE) == (2, 3, 130, 141)


def test_a_missing_answer_names_the_run_and_what_to_try(real, file):
    ended = real("epsilon", str(file()), "--method", "optimal", "--set", "training.steps=20_000_000_000")
    assert (ended.code, ended.out) == (3, "")
    said = r"error\[DPC901\]: .*20000000000 steps, gaussian, noise multiplier .*delta .*; try --method pld\n"
    assert re.match(said, ended.err)


def test_a_deleted_current_directory(tmp_path, monkeypatch, dpcalc, config):
    path = config()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for command in (("check",), ("epsilon",), ("validate",), ("show",), ("lock",), ("diff", path)):
        ended = dpcalc(*command, path)
        assert ended.code == 2
        assert ended.err.startswith("error: current directory: expected one that exists, got a deleted one")
    assert dpcalc("--version").code == 0
    assert dpcalc("check", "--help").code == 0
