"""Exit codes and streams of the real process: usage, limits of time, signals, and output that cannot be written."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

import dpcalc as package
from dpcalc.cli.app import run
from dpcalc.config.files import save
from dpcalc.errors import InputError
from tests.cli.repository import Repository
from tests.cli.running import STAND_IN, environment
from tests.cli.stand_in import SLOW

ROWS = yaml.safe_load(Path(__file__).with_name("exits.yaml").read_text(encoding="utf-8"))

FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals, shells and permissions")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ended_into(out, *arguments, program=(STAND_IN,), **options):
    """Exit code and standard error of a process whose standard output is some stream."""
    ended = subprocess.run(
        [sys.executable, *program, *arguments],
        **({"env": environment(), "stdout": out, "stderr": subprocess.PIPE, "text": True, "timeout": 60} | options),
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.mark.heavy
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


def test_a_broken_installation_is_no_verdict(dpcalc, config, monkeypatch):
    monkeypatch.setitem(sys.modules, "dpcalc.cli.commands", None)
    ended = dpcalc("epsilon", config())
    assert ended.code == 3
    assert "ModuleNotFoundError" in ended.err


def test_no_command_at_all_and_an_ordinary_option(dpcalc):
    ended = dpcalc()
    assert (ended.code, "Usage: dpcalc" in ended.out) == (2, True)
    assert dpcalc("ledger").code == 2
    assert dpcalc("--version", "epsilon").out == f"dpcalc {package.__version__}\n"


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
    assert (ended.returncode, ended.stderr, "DPC301" in ended.stdout) == (1, "", True)
    ended = process("epsilon", config(name="klinik-ä"), env={"PYTHONIOENCODING": "ascii", "GITHUB_ACTIONS": "1"})
    assert (ended.returncode, "name: klinik-\\xe4\n" in ended.stdout) == (0, True)
    assert "\x1b" not in ended.stdout + ended.stderr  # colours are not forced into a pipe


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


# Limits of time


@pytest.mark.heavy
@pytest.mark.parametrize("command", ["epsilon", "compare", "statement"])
def test_a_single_command_ends_in_time(config, command):
    code, said = ended_into(subprocess.DEVNULL, command, config(steps=SLOW), "--timeout", "2.5", timeout=50)
    assert code == 3  # the work itself takes 60
    assert said.endswith("error[DPC902]: no answer within 2.5 s; --timeout allows more\n")


@pytest.mark.heavy
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


def test_every_command_that_may_take_long_has_a_timeout(dpcalc):
    """Of a gate it has a default: configs that others wrote must not keep it busy for hours."""
    for command in ("epsilon", "show", "solve-sigma", "curve", "sweep", "scan", "pate", "simulate"):
        assert "--timeout " in dpcalc(command, "--help").out
    for command in ("check", "diff", "lock", "validate", "ledger check"):
        shown = " ".join(dpcalc(*command.split(), "--help").out.replace("│", " ").split())
        assert "Give up after S seconds, with exit code 3. [default: 600]" in shown


# Readers that are gone


def gone(*arguments):
    """Exit code and standard error of a command whose reader is gone before it speaks."""
    reader, writer = os.pipe()
    os.close(reader)
    ended = ended_into(writer, *arguments)
    os.close(writer)
    return ended


@pytest.mark.heavy
def test_the_reader_of_an_answer_or_a_verdict_is_gone(config, tmp_path):
    assert gone("epsilon", "--help") == (141, "")
    report = tmp_path / "report.json"
    assert gone("check", config(steps=2020), "--report", f"json={report}") == (141, "")
    assert report.exists()


@pytest.mark.heavy
def test_the_reader_of_an_error_is_gone():
    reader, writer = os.pipe()
    os.close(reader)
    for arguments in (("--what",), ("epsilon",)):
        assert ended_into(subprocess.DEVNULL, *arguments, stderr=writer) == (2, None)
    os.close(writer)


# Output that cannot be written


@POSIX
@pytest.mark.parametrize(
    ("words", "closed", "code"),
    [
        ("epsilon", ">&-", 3),
        pytest.param("check", ">&-", 3, marks=pytest.mark.heavy),
        pytest.param("check", "2>&-", 1, marks=pytest.mark.heavy),
        pytest.param("check", ">&- 2>&-", 3, marks=pytest.mark.heavy),
    ],
)
def test_closed_streams(config, words, closed, code):
    command = f'"{sys.executable}" "{STAND_IN}" {words} "{config(steps=2020)}" {closed}'
    options = {"env": environment(), "stderr": subprocess.PIPE, "text": True, "timeout": 60}
    ended = subprocess.run(command, shell=True, check=False, **options)  # noqa: S602
    assert ended.returncode == code
    said = "error[DPC903]: standard output cannot be written: standard output is closed; no file was changed"
    assert closed != ">&-" or said in ended.stderr


@FULL
@pytest.mark.parametrize("words", ["--help", "epsilon a.yaml -q"])
def test_a_full_disk_is_no_verdict(config, tmp_path, words):
    config()
    with Path("/dev/full").open("w") as full:
        code, said = ended_into(full, *words.split(), cwd=tmp_path)
    sentence = "standard output cannot be written: No space left on device; no file was changed"
    assert (code, said) == (3, f"error[DPC903]: {sentence}\n")


@pytest.mark.heavy
@FULL
@pytest.mark.parametrize(("words", "written", "changed"), ROWS["written"])
def test_a_file_that_was_written_is_told(config, tmp_path, words, written, changed):
    config()
    program = (STAND_IN,) if words.split()[0] in {"lock", "check", "init"} else ("-m", "dpcalc")
    with Path("/dev/full").open("w") as full:
        code, said = ended_into(full, *words.split(), program=program, cwd=tmp_path)
    first, *_ = (line for line in said.splitlines() if not line.startswith("using "))
    assert code == 3
    assert first.startswith("error[DPC903]: standard output cannot be written: No space left on device; ")
    assert (changed in first, "internal" in said) == (True, False)
    assert (tmp_path / written).stat().st_size > 0


# Signals


@POSIX
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


STOPPED = """\
import os, signal, sys
import dpcalc.config.files as saving
import dpcalc.__main__ as command
fsync = os.fsync
def interrupted(descriptor):
    os.kill(os.getpid(), signal.{name})
    fsync(descriptor)
saving.os.fsync = interrupted
sys.argv[1:] = {arguments!r}
command.main()
"""


def stopped(name, handler, arguments, folder):
    """The exit code of a command that gets a signal while it writes a file."""
    program = f"import signal; signal.signal(signal.{name}, signal.{handler})\n"
    program += STOPPED.format(name=name, arguments=arguments.split())
    ended = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment(), timeout=60, check=False)
    return ended.returncode


@POSIX
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("SIGTERM", "init -o new.yaml"),
        ("SIGHUP", "init -o a.yaml --force"),
        ("SIGINT", "init -o new.yaml"),
        pytest.param("SIGTERM", "ledger add l.yaml a.yaml", marks=pytest.mark.slow),
        pytest.param("SIGHUP", "lock a.yaml", marks=pytest.mark.slow),
    ],
)
def test_a_signal_leaves_nothing_half_done(config, tmp_path, name, arguments):
    path = Path(config())
    before = path.read_bytes()
    handler = "default_int_handler" if name == "SIGINT" else "SIG_DFL"  # whatever this process has inherited
    assert stopped(name, handler, arguments, tmp_path) == 128 + getattr(signal, name)
    assert [one.name for one in tmp_path.iterdir()] == ["a.yaml"]
    assert path.read_bytes() == before


@POSIX
def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    assert stopped("SIGHUP", "SIG_IGN", "init -o new.yaml", tmp_path) == 0
    assert (tmp_path / "new.yaml").exists()


INTERRUPTED_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupt:
    def find_spec(name, path=None, target=None):
        if name == "dpcalc.cli.output":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt)
import dpcalc.__main__
"""


@POSIX
def test_ctrl_c_during_the_imports_prints_no_traceback():
    code, said = ended_into(subprocess.PIPE, INTERRUPTED_IMPORT, program=("-c",))
    assert (code, said) == (-signal.SIGINT, "")


# Files that commands write


@pytest.mark.heavy
def test_locks_at_the_same_time_lose_nothing(config, tmp_path):
    Repository.fresh(tmp_path / "work")
    paths = [config(file=f"work/c{number}.yaml", steps=100 + number) for number in range(5)]
    running = [
        subprocess.Popen(
            [sys.executable, STAND_IN, "lock", path],
            cwd=tmp_path / "work",
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for path in paths
    ]
    assert [one.communicate(timeout=120)[1] and one.returncode for one in running] == [0] * 5
    entries = json.loads((tmp_path / "work" / "dpcalc.lock").read_text(encoding="utf-8"))["configs"]
    assert {name: entry["epsilon"] for name, entry in entries.items()} == {
        f"c{number}.yaml": (100 + number) / 1000 for number in range(5)
    }


@POSIX
@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
@pytest.mark.usefixtures("here")
def test_a_new_file_has_the_permissions_that_the_user_allows_and_keeps_them(dpcalc, config, mask, mode):
    path, before = config(), os.umask(mask)
    names = ("dpcalc.lock", "report.json", "new.yaml", "ledger.yaml")
    try:
        for name in ("one", "two"):
            dpcalc("lock", path)
            dpcalc("check", path, "--report", "json=report.json")
            dpcalc("init", "-o", "new.yaml", "--force")
            assert dpcalc("ledger", "add", "ledger.yaml", path, "--name", name, "--over-budget").code == 0
            assert {Path(one).stat().st_mode & 0o777 for one in (names if name == "one" else names[-1:])} == {mode}
            os.umask(0o077 ^ mask)  # an old file keeps its own
        Path("ledger.yaml").chmod(0o444)
        refused = dpcalc("ledger", "add", "ledger.yaml", path, "--name", "three")
        assert (refused.code, "read-only" in refused.err) == (2, True)
    finally:
        os.umask(before)


WRITERS = [
    ("--output", ("init",)),
    ("--output", ("scan", "data", "--levels", "user,example")),
    pytest.param("--output", ("import", "call.txt", "--delta", "1e-5"), marks=pytest.mark.heavy),
    ("--csv", ("pate", "votes.csv", "--sigma", "40", "--delta", "1e-5")),
]


@pytest.fixture
def inputs(tmp_path):
    """What the commands of `WRITERS` read."""
    for name in ("data/a/1", "data/a/2", "data/b/1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    call = "make_private(noise_multiplier=1.1, max_grad_norm=1.0, sample_rate=0.01, steps=10)"
    (tmp_path / "call.txt").write_text(call, encoding="utf-8")
    (tmp_path / "votes.csv").write_text("90,10\n80,20\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("option", "words"), WRITERS)
def test_a_pipe_is_written_to_and_never_replaced(real, inputs, option, words):
    path = inputs / "pipe.json"
    os.mkfifo(path)
    nobody_reads = real(*words, option, str(path), "--force")
    assert (nobody_reads.code, nobody_reads.out) == (2, "")
    assert "cannot be written" in nobody_reads.err
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    ended = real(*words, option, str(path))  # nothing is lost: no --force is needed
    assert ended.code == 0, ended.err
    assert os.read(reader, 65536)
    os.close(reader)
    assert path.is_fifo()


def test_no_other_writer_replaces_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputError, match="expected a file, got a device or a pipe; nothing was changed"):
        save(str(path), b"x")
    assert path.is_fifo()
