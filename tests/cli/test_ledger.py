"""`dpcalc ledger`: runs compose as an oracle says; a ledger only grows, also when several add at once.

More is in `transcripts/ledger.txt`.
"""

import json
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml

from dpcalc.cli.app import run as command
from dpcalc.config.files import exclusive_lock
from dpcalc.errors import InputError
from tests.cli.running import environment
from tests.oracles.exact_gaussian import exact_epsilon

ROWS = yaml.safe_load(Path(__file__).with_name("ledger.yaml").read_text(encoding="utf-8"))
LEDGER = "all.yaml"
RUN, FILE, PARTITION = (ROWS["texts"][name] for name in ("run", "file", "partition"))


def run(steps=4, *, noise=20, count=1000, scheme="all", adjacency="add-remove", budget=None, name="", more=""):
    """The text of a run."""
    text = RUN.format(steps=steps, noise=noise, count=count, scheme=scheme, adjacency=adjacency) + more
    return text + (f"budget: {{epsilon: {budget}}}\n" if budget else "") + (f"name: {name}\n" if name else "")


def exact(steps, noise=20):
    return pytest.approx(float(exact_epsilon(steps, noise, 1e-5)), rel=1e-3)


def contents():
    """The bytes of every file here but those of runs."""
    return {path.name: path.read_bytes() for path in Path.cwd().iterdir() if not path.name.startswith("run")}


@pytest.fixture
def shown(real):
    def of():
        return json.loads(real("ledger", "show", LEDGER, "--json").out)

    return of


@pytest.fixture
def add(real):
    """Add the text of a run to the ledger, which is `all.yaml` here."""

    def added(name="first", text=None, *options, code=0):
        Path("run.yaml").write_text(text or run(), encoding="utf-8")
        ended = real("ledger", "add", LEDGER, "run.yaml", f"--name={name}", *options)
        assert ended.code == code, ended
        return ended

    return added


def test_runs_are_composed_not_added(shown, add):
    for number in range(4):
        add(f"run {number}")
    alone, together = (float(exact_epsilon(steps, 20, 1e-5)) for steps in (4, 16))
    found = shown()
    assert [each["guarantee"]["epsilon"] for each in found["runs"]] == pytest.approx([alone] * 4, rel=1e-3)
    assert together <= found["guarantee"]["epsilon"] <= together * 1.001 < 4 * alone
    assert found["guarantee"]["epsilon_lower"] <= together
    assert found["sum_of_epsilons"] == pytest.approx(4 * alone, rel=1e-3)


@pytest.mark.parametrize("is_of_windows", [False, True])
def test_what_is_there_stays_byte_for_byte(shown, add, is_of_windows):
    add("a")
    path = Path(LEDGER)
    if is_of_windows:  # its line ends, and a mark of the byte order
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    else:  # no line break at the end
        path.write_bytes(path.read_bytes().removesuffix(b"\n") + b"  # kept \xe2\x9c\x93")
    before = path.read_bytes()
    add("b")
    add("c")
    after = path.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\r\n") == (after.count(b"\n") if is_of_windows else 0)
    assert len(shown()["runs"]) == 3


@pytest.mark.parametrize(("name", "text", "options", "words"), ROWS["not added"])
def test_what_is_not_added(add, name, text, options, words):
    add()
    before = contents()
    assert words in add(name, text and run(**text), *options, code=2).err
    assert contents() == before


@pytest.mark.parametrize("name", ["a: b", "# x", "- c", "null", "0x1", '"', "'", "{}", "é ✓", "a" * 200])
def test_any_name_is_kept(shown, add, name):
    add(name)
    add("last")
    assert [each["name"] for each in shown()["runs"]] == [name, "last"]


# The file


def test_runs_that_are_added_at_once(shown, add):
    """None is lost; and of runs that fit one by one only those are added that fit together."""
    one, two = (float(exact_epsilon(steps, 20, 1e-5)) for steps in (4, 8))
    Path("run.yaml").write_text(run(), encoding="utf-8")

    def added(name):
        words = ["ledger", "add", LEDGER, "run.yaml", "--name", name]
        code = command([*words, "--budget", str((one + two) / 2)])
        return command(words) if code == 2 else code  # another has opened the ledger by now

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(added, "abcd")) == [0, 1, 1, 1]
    assert shown()["budget"]["ok"] is True
    Path(LEDGER).unlink()
    add()
    with ThreadPoolExecutor(8) as pool:
        words = [["ledger", "add", LEDGER, "run.yaml", "--name", name] for name in "abcdefgh"]
        assert [*pool.map(command, words)] == [0] * 8
    assert {each["name"] for each in shown()["runs"]} == {"first", *"abcdefgh"}
    assert [*contents()] == [LEDGER]


@pytest.mark.heavy
def test_processes_that_add_at_once_lose_nothing(shown, tmp_path):
    (tmp_path / "noisy.yaml").write_text(run(5, noise=90), encoding="utf-8")
    words = [sys.executable, "-m", "dpcalc", "ledger", "add", LEDGER, "noisy.yaml", "--over-budget", "--name"]

    def added(name):
        options = {"cwd": tmp_path, "env": environment(), "capture_output": True}
        return subprocess.run([*words, name], check=False, **options).returncode

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(added, "abcd")) == [0, 0, 0, 0]
    assert sorted(each["name"] for each in shown()["runs"]) == list("abcd")
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_nobody_waits_for_ever(tmp_path):
    path = str(tmp_path / LEDGER)
    held, done = threading.Event(), threading.Event()

    def hold():
        with exclusive_lock(path):
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    with pytest.raises(InputError, match="another dpcalc is changing it"), exclusive_lock(path, max_wait=0.05):
        pass
    done.set()
    thread.join()
    with exclusive_lock(path, max_wait=0.05):
        pass


def test_a_ledger_is_on_the_disk_before_it_has_its_name_and_its_name_is_too(add, monkeypatch):
    """The content is synchronised before the file gets its name, and the folder after that."""
    events = []
    really = {name: getattr(os, name) for name in ("fsync", "link", "replace", "rename")}

    def synchronised(descriptor):
        kind = os.fstat(descriptor)
        if stat.S_ISREG(kind.st_mode):
            events.append(f"file of {kind.st_size} bytes")
        else:
            assert kind.st_ino == Path.cwd().stat().st_ino
            events.append("folder")
        really["fsync"](descriptor)

    def named(how):
        def named_so(old, new, **options):
            events.append(Path(new).name)
            really[how](old, new, **options)

        return named_so

    monkeypatch.setattr(os, "fsync", synchronised)
    for how in ("link", "replace", "rename"):
        monkeypatch.setattr(os, how, named(how))
    for name in ("first", "second"):
        events.clear()
        add(name)
        assert events == [f"file of {Path(LEDGER).stat().st_size} bytes", Path(LEDGER).name, "folder"]


# Runs on disjoint parts of the data


@pytest.fixture
def opened(add):
    """Add to a ledger with a partition and one run of 4 steps on all data."""
    add("all", run(more=PARTITION))
    return add


def test_runs_on_different_parts_do_not_add_up(shown, opened):
    for name, text, part, steps in (
        ("n", run(9, count=400), "north", 4 + 9),
        ("s", run(7, count=600), "south", 4 + 9),
        ("s2", run(3, count=600), "south", 4 + 7 + 3),
        ("more", run(2), "", 4 + 7 + 3 + 2),
    ):
        opened(name, text, *(["--part", part] if part else []))
        assert shown()["guarantee"]["epsilon"] == exact(steps)
    assert [each["guarantee"]["epsilon"] for each in shown()["runs"][1:3]] == [exact(9), exact(7)]


def test_a_config_may_name_parts_itself(shown, add):
    phases = "phases: [{name: one}, {name: two, part: south, training: {steps: 6}}]\n"
    add("all", run(more=PARTITION + phases))
    assert shown()["guarantee"]["epsilon"] == exact(4 + 6)
    add("n", run(8, count=400), "--part", "north")
    assert shown()["guarantee"]["epsilon"] == exact(4 + 8)


@pytest.mark.parametrize(("text", "part", "words"), ROWS["no part"])
def test_what_is_no_run_on_a_part(opened, text, part, words):
    before = contents()
    assert words in opened("b", run(**text), *(["--part", part] if part else []), code=2).err
    assert contents() == before


@pytest.mark.parametrize(("text", "words"), ROWS["parts"])
def test_configs_with_parts(real, text, words):
    Path("run.yaml").write_text(run(**text), encoding="utf-8")
    ended = real("epsilon", "run.yaml", "--json")
    assert (ended.code, words in ended.err) == (2 if words else 0, True)
    assert words or json.loads(ended.out)["guarantee"]["epsilon"] == exact(4)


def test_an_entry_pins_the_entries_of_its_strategy(tmp_path, real):
    """A matrix that is exchanged later would change what a recorded run cost."""
    (tmp_path / "file.yaml").write_text(FILE, encoding="utf-8")
    np.save(tmp_path / "c.npy", np.tril(np.ones((5, 5))))
    assert real("ledger", "add", LEDGER, "file.yaml", "--name", "first", "--budget", "5").code == 0
    assert ", sha256: " in (tmp_path / LEDGER).read_text(encoding="utf-8")
    assert real("ledger", "check", LEDGER).code == 0
    np.save(tmp_path / "c.npy", np.eye(5))
    changed = real("ledger", "check", LEDGER)
    assert changed.code == 2
    assert "strategy.sha256` is not that of the matrix in `c.npy`" in changed.out + changed.err
    assert real("epsilon", "file.yaml").code == 0
