"""Which config is meant when none is named."""

import os

import pytest

from dpcalc.config.discovery import MAX_CONFIGS, find_configs, folders_to_search
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError
from tests.config.texts import corpus

ROWS = corpus("discovered")


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


def pyproject(folder, configs, **files):
    (folder / "pyproject.toml").write_text(f"[tool.dpcalc]\nconfigs = {configs}\n")
    for name in files:
        (folder / f"{name}.yaml").touch()


def test_the_repository_is_searched_to_its_top(tree):
    assert folders_to_search(tree / "a" / "b") == (tree / "a" / "b", tree / "a", tree)
    assert found(tree / "a" / "b") is None


def test_a_worktree_has_a_file_in_place_of_the_folder(tree):
    (tree / "a" / ".git").write_text("gitdir: elsewhere\n")
    assert folders_to_search(tree / "a" / "b") == (tree / "a" / "b", tree / "a")


def test_outside_git_only_here(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "dpcalc.yaml").touch()
    assert folders_to_search(folder) == (folder,)
    assert found(folder) is None
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
    error = refused(tree / "a")
    assert (error.code, error.path) == ("DPC107", "../dpcalc.yaml")
    assert "`dpcalc.yml`" in error.message


def test_a_folder_of_that_name_is_no_config(tree):
    (tree / "a" / "dpcalc.yaml").mkdir()
    assert found(tree / "a") is None


def test_the_environment_comes_first(tree):
    (tree / "dpcalc.yaml").touch()
    assert found(tree, DPCALC_CONFIG="x/y.yaml") == (("x/y.yaml",), "using x/y.yaml (DPCALC_CONFIG)")
    assert found(tree, DPCALC_CONFIG="") == (("./dpcalc.yaml",), "using ./dpcalc.yaml")


def test_a_python_project_names_its_configs(tree):
    pyproject(tree / "a", '["one.yaml"]', one="")
    origin = "[tool.dpcalc] in ../pyproject.toml"
    assert found(tree / "a" / "b") == (("../one.yaml",), f"using ../one.yaml ({origin})")


def test_the_own_name_comes_before_the_python_project(tree):
    pyproject(tree / "a", '["one.yaml"]', one="", dpcalc="")
    assert found(tree / "a") == (("./dpcalc.yaml",), "using ./dpcalc.yaml")


def test_of_many_configs_the_first_ones_are_named(tree):
    pyproject(tree, '["*.yaml"]', **dict.fromkeys("abcdefg", ""))
    _, told = found(tree)
    assert told.startswith("using ./a.yaml, ./b.yaml, ./c.yaml, ./d.yaml, ./e.yaml, and 2 more ([tool")


@pytest.mark.parametrize("content", ["", "[tool.dpcalc]\n", "[tool.black]\n", "tool = 3\n", "[tool]\ndpcalc = 1\n"])
def test_a_project_without_configs_is_passed_by(tree, content):
    (tree / "a" / "pyproject.toml").write_text(content)
    (tree / "dpcalc.yaml").touch()
    assert found(tree / "a") == (("../dpcalc.yaml",), "using ../dpcalc.yaml")


def test_patterns(tree):
    pyproject(tree, '["c*.yaml", "b.yaml", "cx.yaml"]', cy="", b="", cx="", d="")
    answer = find_configs(tree, {})
    assert answer.paths == ("./cx.yaml", "./cy.yaml", "./b.yaml")
    with pytest.raises(InputError, match=r"expected one config, got 3 \(./cx.yaml, ./cy.yaml, ./b.yaml\)"):
        _ = answer.only


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        *ROWS["projects"],
        ("configs = " + "[" * 5000, "DPC100", "cannot be read as TOML"),
        ("#" * 300_000, "DPC111", "is larger than"),
        ("a." * 100_000 + "a = 1", "DPC111", "more than 500 points"),
    ],
)
def test_projects_that_are_wrong(tree, content, code, words):
    (tree / "a" / "link.yaml").symlink_to(tree.parent / "dpcalc.yaml")
    (tree / "a" / "pyproject.toml").write_text(f"[tool.dpcalc]\n{content}\n")
    error = refused(tree / "a")
    assert (error.code, error.path) == (code, "./pyproject.toml")
    assert words is None or words in error.message


def test_no_config_is_left_out_because_there_are_many(tree):
    for index in range(MAX_CONFIGS):
        (tree / f"{index}.yaml").touch()
    pyproject(tree, '["*.yaml"]')
    assert len(find_configs(tree, {}).paths) == MAX_CONFIGS
    (tree / "one_more.yaml").touch()
    error = refused(tree)
    assert (error.code, "at most 1000 files" in error.message) == ("DPC111", True)


def test_names_cannot_steer_a_terminal(tree):
    assert found(tree, DPCALC_CONFIG="a\x1b[31m")[1] == "using a\\x1b[31m (DPCALC_CONFIG)"


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="the superuser reads everything")
def test_a_project_that_cannot_be_read(tree):
    (tree / "pyproject.toml").touch(mode=0)
    assert refused(tree).code == "DPC100"
