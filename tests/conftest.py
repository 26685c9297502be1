"""What all tests share: the hypothesis profiles, and caches that remember nothing of a patched module."""

import os
import sys
import zlib

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, print_blob=True)
settings.register_profile("random", deadline=None, print_blob=True)


def pytest_addoption(parser):
    """Add --part K/N, a share of the tests for suites of hours, and --renew."""
    parser.addoption("--part", metavar="K/N", help="run the K-th of N parts of the tests, the same every time")
    parser.addoption("--renew", action="store_true", help="write golden files and docs/rules.md anew")


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
    from xdist.scheduler import LoadFileScheduling  # noqa: PLC0415  pytest-xdist need not be installed

    return LoadFileScheduling(config, log)


def pytest_configure(config):
    """Choose the profile: HYPOTHESIS_PROFILE, else `random` for `pytest -m slow`, else `fixed`.

    The default suite tries the same examples every time, the slow suite new ones.
    """
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
    """Begin and end with empty caches: for tests that patch what cached functions compute with.

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
