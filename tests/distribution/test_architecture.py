"""Every path and dotted name that the pages for contributors name exists."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("dpcalc/", "tests/", "docs/", "sample_configs/", ".github/", ".ci/")
PATH = re.compile(r"(?!dpcalc\.)[\w./-]+\.(py|md|yml|yaml|toml|cff|csv|json)")
FILES = {"dpcalc.yaml", "dpcalc.lock"}


def resolved(name):
    """The object of a dotted name, None if there is none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            there = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            there = getattr(there, part, None)
        return there
    return None


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_named_path_and_module_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    quoted = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))
    paths = [name for name in quoted if name.startswith(FOLDERS) or PATH.fullmatch(name)]
    names = [*quoted, *re.findall(r"dpcalc\.\w+", "".join(blocks))]
    names = [name for name in names if re.fullmatch(r"dpcalc(\.\w+)+", name) and name not in FILES]
    assert paths
    assert names
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [name for name in names if resolved(name) is None] == []
