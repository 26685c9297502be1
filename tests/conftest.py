"""What all tests share: options and profiles, empty caches, golden files, and commands that are run."""

import json
import os
import signal
import subprocess
import sys
import zlib

import pytest
from hypothesis import settings

import dpcalc.cli.commands
from tests import shared_results
from tests.cli import stand_in
from tests.cli.running import CONFIG, STAND_IN, STEERING, environment, in_this_process
from tests.cli.solving import FLAT

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("random", deadline=None, print_blob=True)


def pytest_addoption(parser):
    """Add --part K/N, a share of the tests for suites of hours, and --renew."""
    parser.addoption("--part", metavar="K/N", help="run the K-th of N parts of the tests, the same every time")
    parser.addoption("--renew", action="store_true", help="write golden files and generated pages anew")


def pytest_collection_modifyitems(config, items):
    """Keep the tests of one part; a test's part depends on its name alone."""
    part = config.getoption("part")
    if part:
        number, parts = map(int, part.split("/"))
        chosen = [zlib.crc32(item.nodeid.encode()) % parts == number - 1 for item in items]
        config.hook.pytest_deselected(items=[item for item, keep in zip(items, chosen, strict=True) if not keep])
        items[:] = [item for item, keep in zip(items, chosen, strict=True) if keep]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give all tests of a file to one worker: what they share is computed once."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


def pytest_configure(config):
    """Try the same examples every time, in the slow suite new ones, if HYPOTHESIS_PROFILE does not say."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that a test starts compiles dpcalc anew
    slow = config.getoption("markexpr") == "slow"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("random" if slow else "fixed"))


def _forget():
    """Empty every cache of dpcalc."""
    for name, module in tuple(sys.modules.items()):
        if name.startswith("dpcalc."):
            for thing in tuple(vars(module).values()):
                if hasattr(thing, "cache_clear"):
                    thing.cache_clear()


@pytest.fixture
def fresh_caches():
    """Begin and end with empty caches, for tests that patch what cached functions compute with.

    Used as a mark, it is set up before `monkeypatch`, hence torn down after it.
    """
    _forget()
    yield
    _forget()


@pytest.fixture
def same_as_file(request):
    """Compare a text with a file that holds what was reviewed; with --renew write the text there first."""

    def compare(text, path):
        if request.config.getoption("renew"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), "if this change is wanted: pytest --renew, then git diff"

    return compare


@pytest.fixture
def config(tmp_path):
    """Write a config and return its path."""

    def written(*, steps=500, budget="budget: {epsilon: 2.0}", name="clinic", file="a.yaml"):
        path = tmp_path / file
        path.write_text(CONFIG.format(steps=steps, budget=budget, name=name), encoding="utf-8")
        return str(path)

    return written


@pytest.fixture
def dpcalc(monkeypatch, capsys):
    """Run a command in this process."""
    for name in STEERING:
        monkeypatch.delenv(name, raising=False)
    stand_in.install(monkeypatch.setattr)
    return in_this_process(capsys)


@pytest.fixture
def real(monkeypatch, capsys, tmp_path):
    """Run a command, the real accounting behind it, in a directory of its own."""
    for name in STEERING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    shared_results.install(monkeypatch.setattr)
    return in_this_process(capsys)


@pytest.fixture
def printed(real):
    """Run a command with --json and return what it prints: every number in full."""

    def ran(*arguments):
        ended = real(*arguments, "--json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    return ran


@pytest.fixture
def process():
    """Run a command in a process of its own."""

    def ran(*arguments, env=None, **options):
        options |= {"env": environment(**(env or {})), "capture_output": True, "text": True, "timeout": 60}
        return subprocess.run([sys.executable, STAND_IN, *arguments], check=False, **options)

    return ran


@pytest.fixture
def children_hear_ctrl_c():
    """Let child processes hear Ctrl-C, which those of tests in the background of a script would ignore as they do."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def file(tmp_path):
    """Write a config and return its path."""

    def written(text=FLAT):
        path = tmp_path / "run.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written
