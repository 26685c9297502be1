"""The pages for contributors name what exists: paths, modules, functions, commands."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
FOLDERS = ("dpcalc/", "tests/", "docs/", "sample_configs/", ".github/", ".ci/")
SUFFIXES = (".py", ".md", ".yml", ".yaml", ".toml", ".cff", ".csv", ".json")
FILES = {"dpcalc.yaml", "dpcalc.lock"}


def named(page):
    """What stands in backticks on a page, and in the cells and lines of text blocks."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [*re.findall(r"`([^`\n]+)`", prose), *re.findall(r"dpcalc\.\w+", "".join(blocks))]


def is_path(name):
    is_file = name.endswith(SUFFIXES) and re.fullmatch(r"[\w./-]+", name) is not None
    return name.startswith(FOLDERS) or (is_file and not name.startswith("dpcalc."))


def resolved(name):
    """The object of a dotted name, None if there is none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part, None)
        return found
    return None


@pytest.mark.parametrize("page", PAGES)
def test_every_named_path_exists(page):
    paths = [name for name in named(page) if is_path(name)]
    assert paths
    assert [name for name in paths if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_named_module_and_function_exists(page):
    names = [name for name in named(page) if re.fullmatch(r"dpcalc(\.\w+)+", name) and name not in FILES]
    assert names
    assert [name for name in names if resolved(name) is None] == []


def test_what_does_not_exist_is_noticed():
    assert resolved("dpcalc.amplification.bound.path_bound") is not None
    assert resolved("dpcalc.amplification.bound.path_boundary") is None
    assert resolved("dpcalc.releases.bounds") is None
