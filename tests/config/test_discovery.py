"""Which config is meant when none is named, and patterns with `*` and `**`."""

import itertools
import os
import random
import time
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from dpcalc.config.discovery import find_configs, matches
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError
from tests.config.texts import corpus


@pytest.fixture
def tree(tmp_path):
    """A repository with a folder in a folder, in a directory that holds a config itself."""
    (tmp_path / "dpcalc.yaml").touch()
    root = tmp_path / "repository"
    (root / "a" / "b").mkdir(parents=True)
    (root / ".git").mkdir()
    return root


def found(folder, **environment):
    answer = find_configs(folder, environment)
    return None if answer is None else (answer.paths, str(answer))


def refused(folder):
    with pytest.raises(ConfigError) as caught:
        find_configs(folder, {})
    (error,) = caught.value.diagnostics
    return error


def pyproject(folder, configs, files=()):
    (folder / "pyproject.toml").write_text(f"[tool.dpcalc]\nconfigs = {configs}\n")
    for name in files:
        (folder / f"{name}.yaml").touch()


def test_a_repository_is_searched_to_its_top(tree):
    assert found(tree / "a" / "b") is None
    (tree / "dpcalc.yaml").touch()
    assert found(tree / "a" / "b") == (("../../dpcalc.yaml",), "using ../../dpcalc.yaml")
    (tree / "a" / ".git").write_text("gitdir: elsewhere\n")  # a worktree has a file in place of the folder
    assert found(tree / "a" / "b") is None


def test_outside_git_only_here(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "dpcalc.yaml").touch()
    assert found(tmp_path / "folder") is None
    assert found(tmp_path) == (("./dpcalc.yaml",), "using ./dpcalc.yaml")


@pytest.mark.parametrize("name", ["dpcalc.yaml", "dpcalc.yml"])
@pytest.mark.parametrize(("folder", "seen"), [("a/b", "./"), ("a", "../"), ("", "../../")])
def test_the_nearest_is_taken(tree, name, folder, seen):
    (tree / name).touch()
    (tree / folder / name).touch()
    assert found(tree / "a" / "b") == ((f"{seen}{name}",), f"using {seen}{name}")


def test_two_names_in_one_folder(tree):
    (tree / "dpcalc.yaml").touch()
    (tree / "dpcalc.yml").touch()
    (tree / "a" / "dpcalc.yaml").mkdir()  # a folder of that name is no config
    error = refused(tree / "a")
    assert (error.code, error.path) == ("DPC107", "../dpcalc.yaml")
    assert "`dpcalc.yml`" in error.message


def test_the_environment_comes_first(tree):
    (tree / "dpcalc.yaml").touch()
    assert found(tree, DPCALC_CONFIG="x/y.yaml") == (("x/y.yaml",), "using x/y.yaml (DPCALC_CONFIG)")
    assert found(tree, DPCALC_CONFIG="a\x1b[31m")[1] == "using a\\x1b[31m (DPCALC_CONFIG)"
    assert found(tree, DPCALC_CONFIG="") == (("./dpcalc.yaml",), "using ./dpcalc.yaml")


def test_a_python_project_names_its_configs(tree):
    pyproject(tree / "a", '["one.yaml"]', ["one"])
    origin = "[tool.dpcalc] in ../pyproject.toml"
    assert found(tree / "a" / "b") == (("../one.yaml",), f"using ../one.yaml ({origin})")
    (tree / "a" / "dpcalc.yaml").touch()  # the own name comes first
    assert found(tree / "a") == (("./dpcalc.yaml",), "using ./dpcalc.yaml")
    pyproject(tree, '["*.yaml"]', "abcdefg")
    assert found(tree)[1].startswith("using ./a.yaml, ./b.yaml, ./c.yaml, ./d.yaml, ./e.yaml, and 2 more ([tool")


@pytest.mark.parametrize("content", ["", "[tool.dpcalc]\n", "[tool.black]\n", "tool = 3\n", "[tool]\ndpcalc = 1\n"])
def test_a_project_without_configs_is_passed_by(tree, content):
    (tree / "a" / "pyproject.toml").write_text(content)
    (tree / "dpcalc.yaml").touch()
    assert found(tree / "a") == (("../dpcalc.yaml",), "using ../dpcalc.yaml")


def test_patterns(tree):
    pyproject(tree, '["c*.yaml", "b.yaml", "cx.yaml"]', ["cy", "b", "cx", "d"])
    answer = find_configs(tree, {})
    assert answer.paths == ("./cx.yaml", "./cy.yaml", "./b.yaml")
    with pytest.raises(InputError, match=r"expected one config, got 3 \(./cx.yaml, ./cy.yaml, ./b.yaml\)"):
        _ = answer.only


MANY_PARTS = "*/" * 101 + "*.yaml"
LARGE = [
    ("configs = " + "[" * 5000, "DPC100", "cannot be read as TOML"),
    ("#" * 300_000, "DPC111", "is larger than"),
    ("a." * 100_000 + "a = 1", "DPC111", "more than 500 points"),
    (f'configs = ["{MANY_PARTS}"]', "DPC110", "at most 100 parts"),
    (f"configs = {['*.y'] * 101}", "DPC111", "at most 100 patterns"),
    (f"configs = {['a'] * 1001}", "DPC111", "at most 1000 names"),
]


@pytest.mark.parametrize(("content", "code", "words"), [*corpus("projects"), *LARGE])
def test_projects_that_are_wrong(tree, content, code, words):
    (tree / "a" / "link.yaml").symlink_to(tree.parent / "dpcalc.yaml")
    (tree / "a" / "pyproject.toml").write_text(f"[tool.dpcalc]\n{content}\n")
    error = refused(tree / "a")
    assert (error.code, error.path) == (code, "./pyproject.toml")
    assert words is None or words in error.message


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="the superuser reads everything")
def test_a_project_that_cannot_be_read(tree):
    (tree / "pyproject.toml").touch(mode=0)
    assert refused(tree).code == "DPC100"


def test_no_config_is_left_out_because_there_are_many(tree):
    pyproject(tree, '["*.yaml"]', map(str, range(1000)))
    assert len(find_configs(tree, {}).paths) == 1000
    (tree / "one_more.yaml").touch()
    error = refused(tree)
    assert (error.code, "at most 1000 files" in error.message) == ("DPC111", True)


def matches_by_definition(names, parts):
    """Whether directories for each `**` can be chosen so that the rest matches name by name."""
    if not parts or not names:
        return not parts and not names
    if parts[0] != "**":
        return fnmatchcase(names[0], parts[0]) and matches_by_definition(names[1:], parts[1:])
    return any(matches_by_definition(names[skipped:], parts[1:]) for skipped in range(len(names)))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_every_short_pattern(length):
    names = ("a", "b", "a.yaml", "b.yaml")
    paths = [path for depth in (1, 2, 3) for path in itertools.product(names, repeat=depth)]
    for parts in itertools.product(("a", "*", "**", "a*", "*.yaml", "[ab]", "?"), repeat=length):
        for path in paths:
            assert matches(path, parts) == matches_by_definition(path, parts), (path, parts)


@pytest.mark.parametrize("seed", range(20))
def test_what_pathlib_finds_in_a_random_tree(tmp_path, seed):
    (tmp_path / ".git").mkdir()
    chance = random.Random(seed)  # noqa: S311
    for _ in range(30):
        folder = tmp_path.joinpath(*chance.choices(("a", "b", "c"), k=chance.randrange(4)))
        if not folder.is_file() and not any(parent.is_file() for parent in folder.parents):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / chance.choice(("a.yaml", "b.yaml", "c.yml"))).touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "loop").symlink_to(".")
    for _ in range(40):
        folders = chance.choices(("a", "b", "*", "**", "[ab]*", "l*"), k=chance.randrange(4))
        pattern = "/".join([*folders, chance.choice(("*.yaml", "*.y*"))])
        (tmp_path / "pyproject.toml").write_text(f'[tool.dpcalc]\nconfigs = ["{pattern}"]\n')
        expected = {f"./{path.relative_to(tmp_path).as_posix()}" for path in tmp_path.glob(pattern)}
        if expected:
            assert set(find_configs(tmp_path, {}).paths) == expected, pattern
        else:
            assert "nothing matches" in refused(tmp_path).message


ATTACKS = ["**/" * 40, "**/*/" * 20, "**/a/" * 20, "*/" * 90 + "**/", "a" + "*a" * 60 + "b"]


@pytest.mark.parametrize("pattern", ATTACKS)
def test_no_pattern_takes_long(tmp_path, pattern):
    for top in ("a", "b"):
        Path(tmp_path, *([top] + ["a"] * 39)).mkdir(parents=True)
    (tmp_path / ("a" * 200)).touch()
    began = time.process_time()
    pyproject(tmp_path, [f"{pattern}x.yaml"])
    assert "nothing matches" in refused(tmp_path).message
    assert not matches(["a"] * 200 + ["y.yaml"], f"{pattern}x.yaml".split("/"))
    assert time.process_time() - began < 2  # 0.01 s; backtracking takes years


def test_links_among_siblings_take_no_time(tmp_path):
    """Twenty links to the folder itself and seven parts make a billion paths."""
    for number in range(20):
        (tmp_path / str(number)).symlink_to(".")
    pyproject(tmp_path, ["*/" * 6 + "*.yaml"])
    began = time.process_time()
    error = refused(tmp_path)
    assert (error.code, "at most 1000 links" in error.message) == ("DPC111", True)
    assert time.process_time() - began < 2


def test_a_pattern_does_not_look_through_folders_outside(tree, monkeypatch):
    (tree / "link").symlink_to("/")
    monkeypatch.setattr("os.scandir", None)
    for pattern in ("../../**/*.yaml", "link/**/*.yaml"):
        pyproject(tree, [pattern])
        assert "lies outside the repository" in refused(tree).message
