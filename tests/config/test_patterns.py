"""Patterns with `*` and `**`, against a definition by all ways of cutting a path, and against pathlib."""

import itertools
import os
import random
import time
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from dpcalc.config.discovery import MAX_PATTERNS, find_configs, matches, paths_matching, split_pattern
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError

NAMES = ("a", "b", "a.yaml", "b.yaml")
PARTS = ("a", "*", "**", "a*", "*.yaml", "[ab]", "?")


def matches_by_definition(names, parts):
    """Whether directories for each `**` can be chosen so that the rest matches name by name."""
    if not parts or not names:
        return not parts and not names
    if parts[0] != "**":
        return fnmatchcase(names[0], parts[0]) and matches_by_definition(names[1:], parts[1:])
    return any(matches_by_definition(names[skipped:], parts[1:]) for skipped in range(len(names)))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_every_short_pattern(length):
    paths = [path for depth in (1, 2, 3) for path in itertools.product(NAMES, repeat=depth)]
    for parts in itertools.product(PARTS, repeat=length):
        for path in paths:
            assert matches(path, parts) == matches_by_definition(path, parts), (path, parts)


@pytest.mark.parametrize("seed", range(20))
def test_what_pathlib_finds_in_a_random_tree(tmp_path, seed):
    chance = random.Random(seed)  # noqa: S311
    for _ in range(30):
        folder = tmp_path.joinpath(*chance.choices(("a", "b", "c"), k=chance.randrange(4)))
        if not folder.is_file() and not any(parent.is_file() for parent in folder.parents):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / chance.choice(("a.yaml", "b.yaml", "c.txt"))).touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "loop").symlink_to(".")
    for _ in range(40):
        parts = [
            *chance.choices(("a", "b", "*", "**", "[ab]*", "l*"), k=chance.randrange(4)),
            chance.choice(("*.yaml", "*")),
        ]
        start, rest = split_pattern("/".join(parts))
        if rest:
            found = sorted(paths_matching(tmp_path / start, rest))
            assert found == sorted(set(tmp_path.glob("/".join(parts)))), parts
            if "l*" not in parts and "*" not in parts[:-1]:  # links apart, both ways agree
                relative = [one.relative_to(tmp_path).parts for one in tmp_path.rglob("*")]
                expected = {"/".join(one) for one in relative if matches(one, tuple(parts))}
                assert {os.path.relpath(one, tmp_path) for one in found} == expected, parts


ATTACKS = [
    "**/" * 40 + "x.yaml",
    "**/*/" * 20 + "x.yaml",
    "**/a/" * 20 + "x.yaml",
    "*/" * 90 + "**/x.yaml",
    "a" + "*a" * 60 + "b",
]


@pytest.mark.parametrize("pattern", ATTACKS)
def test_no_pattern_takes_long(tmp_path, pattern):
    for top in ("a", "b"):
        Path(tmp_path, *([top] + ["a"] * 39)).mkdir(parents=True)
    (tmp_path / ("a" * 200)).touch()
    start, parts = split_pattern(pattern)
    began = time.process_time()
    assert list(paths_matching(tmp_path / start, parts)) == []
    assert not matches(["a"] * 200 + ["y.yaml"], parts)
    assert time.process_time() - began < 2  # 0.01 s; backtracking takes years


def test_links_among_siblings_take_no_time(tmp_path):
    """Twenty links to the folder itself and seven parts make a billion paths."""
    for number in range(20):
        (tmp_path / str(number)).symlink_to(".")
    began = time.process_time()
    with pytest.raises(InputError, match="at most 1000 links"):
        list(paths_matching(tmp_path, ["*"] * 7))
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "patterns",
    ["**/" * 40 + "*.yaml", "*/" * 101 + "*.yaml", ["*.y"] * (MAX_PATTERNS + 1)],
)
def test_a_project_with_such_patterns(tmp_path, patterns):
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.dpcalc]\nconfigs = {[patterns] if isinstance(patterns, str) else patterns}\n"
    )
    (tmp_path / "a.yaml").touch()
    if patterns == ATTACKS[0].replace("x", "*"):
        assert find_configs(tmp_path, {}).paths == ("./a.yaml",)
    else:
        with pytest.raises(ConfigError, match="at most"):
            find_configs(tmp_path, {})


def test_a_pattern_does_not_look_through_folders_outside(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to("/")
    monkeypatch.setattr("os.scandir", None)
    for pattern in ("../../**/*.yaml", "link/**/*.yaml"):
        (tmp_path / "pyproject.toml").write_text(f'[tool.dpcalc]\nconfigs = ["{pattern}"]\n')
        with pytest.raises(ConfigError, match="lies outside the repository"):
            find_configs(tmp_path, {})
