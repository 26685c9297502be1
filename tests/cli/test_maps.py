"""`[tool.dpcalc.maps]`, configs in TOML, and `check --against`."""

import os
import subprocess

import pytest

from dpcalc.config.load import load
from dpcalc.config.source import ConfigError

MAP = """\
version: 1
data: {examples: 60_000}
sampling: {scheme: poisson, expected: "${per_device} * ${accumulation}"}
mechanism: {noise_multiplier: "${dp.sigma}"}
training: {steps: "${steps}"}
privacy: {adjacency: add-remove, delta: 1e-5}
budget: {epsilon: 1}
"""
TRAIN = "per_device: 64\naccumulation: 4\nsteps: {}00\ndp: {{sigma: 1.1}}\n"
TABLE = '[tool.dpcalc.maps]\n"configs/**/train*.yaml" = "dp.map.yaml"\n'
RUN = """\
[tool.dpcalc.run]
version = 1
data = {examples = 60_000}
mechanism.noise_multiplier = 1.1
[tool.dpcalc.run.sampling]
scheme = "poisson"
expected = "${tool.train.batch}"
[tool.dpcalc.run.training]
steps = 100
[tool.dpcalc.run.privacy]
adjacency = "add-remove"
delta = 1e-5
[tool.train]
batch = 256
"""


def git(folder, *words):
    person = ["-c", "user.email=a@b", "-c", "user.name=a"]
    subprocess.run(["git", *person, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs" / "a").mkdir(parents=True)
    for number in (1, 2, 3):
        (tmp_path / "configs" / "a" / f"train{number}.yaml").write_text(TRAIN.format(number))
    (tmp_path / "dp.map.yaml").write_text(MAP)
    (tmp_path / "pyproject.toml").write_text(TABLE)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "base")
    return tmp_path


@pytest.mark.usefixtures("repository")
def test_each_file_has_its_answer(dpcalc):
    ended = dpcalc("check")
    assert ended.code == 0, ended.err
    assert [f"/train{number}.yaml\n" in ended.out for number in (1, 2, 3)] == [True] * 3
    assert load("configs/a/train2.yaml").plan.steps == 200
    assert dpcalc("epsilon", "-q", "configs/a/train2.yaml").code == 0
    assert dpcalc("validate").code == 0
    assert "steps: 200" in dpcalc("show", "configs/a/train2.yaml").out


def test_places_are_those_of_the_file(repository, dpcalc):
    path = repository / "configs" / "a" / "train2.yaml"
    path.write_text(path.read_text().replace("200", "5000"))
    ended = dpcalc("check", "--base", "HEAD")
    assert ended.code == 1
    assert "configs/a/train2.yaml:3:1: error[DPC301]" in ended.out
    path.write_text(path.read_text().replace("1.1", "high"))
    with pytest.raises(ConfigError, match=r"configs/a/train2.yaml, line 4, column 13") as caught:
        load(str(path))
    assert caught.value.diagnostics[0].path == "dp.map.yaml"
    path.write_text("steps: 3\n")
    with pytest.raises(ConfigError, match=r"`configs/a/train2.yaml`: there is no `per_device`"):
        load(str(path))


@pytest.mark.parametrize("now", ["", TABLE.replace("dp.map", "lax.map"), TABLE.replace("train*", "train1")])
def test_the_table_of_the_base_decides(repository, dpcalc, now):
    (repository / "lax.map.yaml").write_text(MAP.replace('"${steps}"', "9"))
    (repository / "pyproject.toml").write_text(now)
    for number in (1, 2, 3):
        (repository / "configs" / "a" / f"train{number}.yaml").write_text(TRAIN.format(number).replace("00", "5000"))
    ended = dpcalc("check", "--base", "HEAD")
    assert ended.code == 1
    assert ended.out.count("error[DPC301]") == 3
    if not now:
        assert ended.out.count("HEAD checks this config, but it is no longer found") == 3


def test_a_match_of_the_base_that_is_gone_is_an_error(repository, dpcalc):
    (repository / "configs" / "a" / "train3.yaml").unlink()
    ended = dpcalc("check", "--base", "HEAD")
    assert ended.code == 1
    assert "train3.yaml: error[DPC408]: HEAD checks this config, but the file is gone" in ended.out


def test_a_new_map_has_no_base(repository, dpcalc):
    git(repository, "rm", "-q", "--cached", "pyproject.toml", "dp.map.yaml")
    git(repository, "commit", "-qm", "without a map")
    ended = dpcalc("check", "--base", "HEAD")
    assert ended.code == 0, ended.out
    assert ended.out.count("nothing to compare with") == 3


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[tool.dpcalc]\nmaps = 3\n", "must be a table"),
        ('[tool.dpcalc.maps]\n"configs/**/*.yaml" = 3\n', "must be a table"),
        ('[tool.dpcalc.maps]\n"configs/**/*.yaml" = "../other.yaml"\n', "lies outside the repository"),
        ('[tool.dpcalc.maps]\n"configs/**/*.yaml" = "/etc/passwd.yaml"\n', "is an absolute path"),
        ('[tool.dpcalc.maps]\n"configs/**/*.yaml" = "link.yaml"\n', "is a symbolic link that leaves the repository"),
        ('[tool.dpcalc.maps]\n"configs/**/*.yaml" = "none.yaml"\n', "no such file"),
        (f'{TABLE}"configs/a/*.yaml" = "lax.map.yaml"\n', "name different maps"),
        ("[tool.dpcalc.maps]\n" + "".join(f'"a{x}*" = "m.yaml"\n' for x in range(101)), "at most 100 patterns"),
    ],
)
def test_tables_that_are_wrong(repository, table, words):
    (repository / "link.yaml").symlink_to(repository.parent / "outside.yaml")
    (repository / "pyproject.toml").write_text(table)
    with pytest.raises(ConfigError, match=words):
        load("configs/a/train1.yaml")


@pytest.mark.heavy
def test_write_leaves_a_mapped_file_alone(repository, real):
    path = repository / "configs" / "a" / "train1.yaml"
    os.chdir(repository)
    before = path.read_text()
    ended = real("solve-sigma", "configs/a/train1.yaml", "--write")
    assert ended.code == 2
    assert "that the map dp.map.yaml reads" in ended.err
    assert path.read_text() == before


def test_a_config_in_toml(repository, dpcalc):
    path = repository / "pyproject.toml"
    path.write_text(RUN)
    loaded = load("pyproject.toml")
    assert (loaded.section, loaded.plan.steps) == ("tool.dpcalc.run", 100)
    assert loaded.mark("mechanism.noise_multiplier") == (4, 30)
    assert loaded.mark("sampling.expected") == (7, 12)
    ended = dpcalc("epsilon")  # which finds it
    assert ended.code == 0, ended.err
    path.write_text(RUN.replace("1.1", '"1.1"'))
    with pytest.raises(ConfigError) as caught:
        load("pyproject.toml")
    (only,) = caught.value.diagnostics
    assert (only.code, only.line, only.column) == ("DPC102", 4, 30)
    path.write_text(RUN.replace("expected", "expectd"))
    with pytest.raises(ConfigError, match="expectd"):
        load("pyproject.toml")
    path.write_text(RUN + "[[")
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        load("pyproject.toml")


def test_a_config_in_toml_is_compared(repository, dpcalc):
    path = repository / "pyproject.toml"
    path.write_text(RUN)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "toml")
    path.write_text(RUN.replace("steps = 100", "steps = 500"))
    ended = dpcalc("check", "pyproject.toml", "--base", "HEAD", "--report", "github")
    assert "file=pyproject.toml,line=9,col=9,title=DPC401" in ended.out


def test_against_another_file(repository, dpcalc):
    plain = MAP.replace('"${per_device} * ${accumulation}"', "256").replace('"${dp.sigma}"', "1.1")
    plain = plain.replace('"${steps}"', "100")
    (repository / "old.yaml").write_text(plain)
    (repository / "new.yaml").write_text(plain.replace("100", "200"))
    ended = dpcalc("check", "--against", "old.yaml", "new.yaml")
    assert ended.code == 0
    assert "new.yaml:5:12: warning[DPC401]: epsilon rises" in ended.out
    assert "compared with old.yaml: both are claims" in ended.out
    assert "--against: expected CONFIG beside it" in dpcalc("check", "--against", "old.yaml").err
    assert dpcalc("check", "--against", "old.yaml", "--base", "HEAD", "new.yaml").code == 2
    assert dpcalc("check", "--against", "none.yaml", "new.yaml").code == 2
