"""`[tool.dpcalc.maps]`: tables that are wrong; the rest is told in `transcripts/maps.txt`."""

import os

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


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs" / "a").mkdir(parents=True)
    for number in (1, 2, 3):
        (tmp_path / "configs" / "a" / f"train{number}.yaml").write_text(TRAIN.format(number))
    (tmp_path / "dp.map.yaml").write_text(MAP)
    (tmp_path / "pyproject.toml").write_text(TABLE)
    (tmp_path / ".git").mkdir()
    return tmp_path


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
