"""Standard output that cannot take an answer: what was written is told, and nothing is called a defect."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dpcalc.config.files import save
from dpcalc.errors import InputError
from tests.cli.repository import Repository
from tests.cli.running import CONFIG, STAND_IN, environment

FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def into(stream, *arguments, program=STAND_IN, **options):
    """Exit code and standard error of a command whose standard output is some device."""
    with Path(stream).open("w") as out:
        ended = subprocess.run(
            [sys.executable, program, *arguments],
            env=environment(),
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            **options,
        )
    return ended.returncode, ended.stderr


@FULL
@pytest.mark.parametrize(
    "arguments",
    [
        *(("--help",), ("--version",), ("explain", "DPC100"), ("check", "--help")),
    ],
    ids=" ".join,
)
def test_full(arguments):
    code, said = into("/dev/full", *arguments)
    assert (code, said.count("\n")) == (3, 1)
    assert said.startswith(
        "error[DPC903]: standard output cannot be written: No space left on device; no file was changed"
    )


@pytest.mark.heavy
@FULL
@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (("lock", "a.yaml"), "dpcalc.lock"),
        (("check", "a.yaml", "--report", "json=r.json", "--report", "sarif=r.sarif"), "r.json, r.sarif were written"),
        (("init", "--output", "new.yaml"), "new.yaml was written"),
        (("ledger", "add", "runs.yaml", "a.yaml"), "runs.yaml was written"),
        (("solve-sigma", "a.yaml", "--target-eps", "1.9", "--write"), "a.yaml was written"),
        (("curve", "steps", "a.yaml", "--range", "1,2", "--plot", "p.svg"), "p.svg was written"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_file_that_was_written_is_told(config, tmp_path, arguments, changed):
    config()
    program = STAND_IN if arguments[0] in {"lock", "check", "init"} else Path(sys.executable).with_name("dpcalc")
    code, said = into("/dev/full", *arguments, program=program, cwd=tmp_path)
    first, *_ = (line for line in said.splitlines() if not line.startswith("using "))
    assert code == 3
    assert first.startswith("error[DPC903]: standard output cannot be written: No space left on device; ")
    assert changed in first
    assert "internal" not in said
    named = {"lock": "dpcalc.lock", "check": "r.json", "init": "new.yaml", "ledger": "runs.yaml", "curve": "p.svg"}
    assert (tmp_path / named.get(arguments[0], "a.yaml")).stat().st_size > 0


def test_closed(config):
    command = f'"{sys.executable}" "{STAND_IN}" epsilon "{config()}" >&-'
    options = {"env": environment(), "stderr": subprocess.PIPE, "text": True, "timeout": 60}
    ended = subprocess.run(command, shell=True, check=False, **options)  # noqa: S602
    assert ended.returncode == 3
    assert (
        "error[DPC903]: standard output cannot be written: standard output is closed; no file was changed"
        in ended.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "code", "rule"),
    [
        (("epsilon", "broken.yaml", "--json"), 2, "DPC102"),
        (("check", "none.yaml", "--report", "xml", "--json"), 2, "DPC104"),
        (("check", "--report", "json"), 2, "DPC104"),
        (("check", "--report=json=-"), 2, "DPC104"),
        (("check", "--json", "--what"), 2, "DPC104"),
        (("ledger", "show", "none.yaml", "--json"), 2, "DPC100"),
        (("epsilon", "none.yaml", "--json"), 2, "DPC100"),
        (("solve-sigma", "broken.yaml", "--json"), 2, "DPC102"),
        (("nonsense", "--json"), 2, "DPC104"),
    ],
)
@pytest.mark.usefixtures("here")
def test_an_error_is_json_where_json_is_asked_for(dpcalc, config, arguments, code, rule):
    config(steps="'x'", file="broken.yaml")
    ended = dpcalc(*arguments)
    document = json.loads(ended.out)
    assert set(document) == {"schema", "version", "command", "error"}
    assert (ended.code, document["error"]["exit_code"], document["error"]["code"]) == (code, code, rule)
    assert document["command"] == ("ledger show" if arguments[0] == "ledger" else arguments[0])
    assert document["error"]["message"] in ended.err
    if rule == "DPC102":
        (finding,) = document["error"]["findings"]
        assert (finding["path"], finding["line"]) == ("broken.yaml", 6)


@pytest.mark.parametrize(
    "arguments", [("epsilon", "none.yaml"), ("check", "--", "--json"), ("check", "--report", "json=r.json")]
)
@pytest.mark.usefixtures("here")
def test_standard_output_stays_empty_where_json_is_not_asked_for(dpcalc, arguments):
    assert 'error": {' not in dpcalc(*arguments).out


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


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("SIGTERM", ["init", "-o", "new.yaml"]),
        ("SIGHUP", ["init", "-o", "a.yaml", "--force"]),
        ("SIGINT", ["init", "-o", "new.yaml"]),
        pytest.param("SIGTERM", ["ledger", "add", "l.yaml", "a.yaml"], marks=pytest.mark.slow),
        pytest.param("SIGHUP", ["lock", "a.yaml"], marks=pytest.mark.slow),
    ],
)
def test_a_signal_leaves_nothing_half_done(config, tmp_path, name, arguments):
    path = Path(config())
    before = path.read_bytes()
    handler = "default_int_handler" if name == "SIGINT" else "SIG_DFL"  # whatever this process has inherited
    program = f"import signal; signal.signal(signal.{name}, signal.{handler})\n"
    program += STOPPED.format(name=name, arguments=arguments)
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment(), timeout=60, check=False)
    assert ended.returncode == 128 + getattr(signal, name)
    assert [one.name for one in tmp_path.iterdir()] == ["a.yaml"]
    assert path.read_bytes() == before


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


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_ctrl_c_during_the_imports_prints_no_traceback():
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, env=environment(), timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    program = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + STOPPED.format(
        name="SIGHUP", arguments=["init", "-o", "new.yaml"]
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment(), timeout=60, check=False)
    assert (ended.returncode, (tmp_path / "new.yaml").exists()) == (0, True)


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


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
@pytest.mark.usefixtures("here")
def test_a_new_file_has_the_permissions_that_the_user_allows(dpcalc, config, mask, mode):
    path = config()
    before = os.umask(mask)
    try:
        dpcalc("lock", path)
        dpcalc("check", path, "--report", "json=report.json")
        dpcalc("init", "-o", "new.yaml")
    finally:
        os.umask(before)
    modes = {name: Path(name).stat().st_mode & 0o777 for name in ("dpcalc.lock", "report.json", "new.yaml")}
    assert set(modes.values()) == {mode}


WRITERS = [
    ("--output", ("init",)),
    ("--output", ("scan", "data", "--levels", "user,example")),
    ("--output", ("import", "call.txt", "--delta", "1e-5")),
    ("--csv", ("pate", "votes.csv", "--sigma", "40", "--delta", "1e-5")),
    pytest.param("--plot", ("curve", "steps", "run.yaml", "--range", "1,2"), marks=pytest.mark.heavy),
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
    (tmp_path / "run.yaml").write_text(CONFIG.format(name="x", steps=2, budget=""), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("option", "words"), WRITERS)
@pytest.mark.parametrize("place", ["/proc/self/out", "missing/out", "call.txt/out", "data"])
def test_a_file_that_cannot_be_written_is_an_input_to_be_fixed(real, inputs, option, words, place):
    ending = {"--plot": ".svg", "--csv": ".csv"}.get(option, ".json")
    path = place if place == "data" else place + ending
    force = () if option == "--plot" else ("--force",)
    ended = real(*words, option, path, *force)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"error: {option}: ")
    assert path in ended.err
    assert (inputs / "data").is_dir()


@pytest.mark.parametrize(("option", "words"), WRITERS[:-1])
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
