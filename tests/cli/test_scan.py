"""`dpcalc scan` from the command line: what it prints goes straight into a config."""

import json

import pytest

from dpcalc.config.load import load

REST = """
version: 1
sampling:
  user: {scheme: fixed, size: 1}
  image: {scheme: all}
mechanism: {noise_multiplier: 2}
training: {steps: 3}
privacy: {unit: user, adjacency: add-remove, delta: 1e-3}
"""
LEVELS = ("--levels", "user,image")


@pytest.fixture
def folder(tmp_path):
    for user, images in (("ann", 3), ("bob", 1), ("cy", 2)):
        (tmp_path / "data" / user).mkdir(parents=True)
        for number in range(images):
            (tmp_path / "data" / user / f"{number}.png").touch()
    return "data"


def test_what_is_printed_is_a_section_of_a_config(real, folder, tmp_path):
    ended = real("scan", folder, *LEVELS)
    assert (ended.code, ended.err) == (0, "note: wrote counts.json\n")
    assert ended.out.startswith("# user: 3\n# image: 6, 1 to 3 in each user\ndata:\n")
    (tmp_path / "run.yaml").write_text(ended.out + REST, encoding="utf-8")
    assert load("run.yaml").plan.phases[0].hierarchy.tree.sizes == ((3,), (3, 1, 2))
    assert real("epsilon", "run.yaml", "-q").code == 0


def test_equal_sizes_need_no_tree(real, folder, tmp_path):
    for name in ("ann/1.png", "ann/2.png", "cy/1.png"):
        (tmp_path / "data" / name).unlink()
    ended = real("scan", folder, *LEVELS)
    assert ended.out.endswith("data:\n  levels: [{name: user, count: 3}, {name: image, count: 1}]\n")
    assert not (tmp_path / "counts.json").exists()
    (tmp_path / "run.yaml").write_text(ended.out + REST, encoding="utf-8")
    assert load("run.yaml").plan.phases[0].hierarchy.units(2) == 3
    assert real("scan", "data/ann").out == "# example: 1\ndata:\n  levels: [{name: example, count: 1}]\n"
    assert real("scan", folder, *LEVELS, "--output", "equal.json").code == 0
    assert json.loads((tmp_path / "equal.json").read_text(encoding="utf-8"))["tree"] == [1, 1, 1]


def test_a_file_that_is_there_stays(real, folder, tmp_path):
    (tmp_path / "counts.json").write_text("mine", encoding="utf-8")
    ended = real("scan", folder, *LEVELS)
    assert ended.code == 2
    assert "already exists; use --force to overwrite it" in ended.err
    assert (tmp_path / "counts.json").read_text(encoding="utf-8") == "mine"
    assert "already exists; use --force to overwrite it" in real("scan", folder, *LEVELS, "--output", "counts.json").err
    assert real("scan", folder, *LEVELS, "--force").code == 0
    assert json.loads((tmp_path / "counts.json").read_text(encoding="utf-8"))["tree"] == [3, 1, 2]


def test_its_own_output_is_no_record(real, folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path / folder)
    first = real("scan", ".", *LEVELS)
    assert first.code == 0
    assert real("scan", ".", *LEVELS, "--force").out == first.out


def test_json_and_standard_output(real, folder):
    ended = real("scan", folder, *LEVELS, "--json")
    found = json.loads(ended.out)
    assert found["levels"][1] == {"name": "image", "units": 6, "min": 1, "max": 3}
    assert (found["schema"], found["command"], found["output"]) == ("dpcalc.result/1", "scan", "counts.json")
    ended = real("scan", folder, *LEVELS, "--output", "-")
    assert json.loads(ended.out) == {"levels": ["user", "image"], "tree": [3, 1, 2]}
    assert "tree: {file: counts.json}" in ended.err


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        ("data --levels user,1x", "got `1x`"),
        ("data --levels user,-", "got `-`"),
        ("data --levels user,user", "expected different names"),
        ("data --levels user,all", "a name of your own"),
        ("data --output counts.yaml", "expected a file *.json"),
        ("data --output nowhere/counts.json", "cannot be written"),
        ("data --levels user,image --output - --json", "expected a file beside --json"),
        ("data/ann --output one.json", "expected two or more levels, got one (example: 3); its count needs no tree"),
        ("nowhere", "nowhere: expected a folder or a file"),
        ("nowhere --output counts.json", "expected a folder"),
    ],
)
def test_refusals(real, folder, arguments, phrase, tmp_path):
    ended = real("scan", *arguments.split())
    assert (ended.code, bool(ended.out)) == (2, "--json" in arguments)
    assert phrase in ended.err
    assert [one.name for one in tmp_path.iterdir()] == [folder]


def test_column_names_that_are_no_level_names(real, tmp_path):
    (tmp_path / "rows.csv").write_text("user id\na\nb\na\n", encoding="utf-8")
    ended = real("scan", "rows.csv", "--columns", "user id")
    assert ended.code == 2
    assert "--levels: expected a word" in ended.err
    ended = real("scan", "rows.csv", "--columns", "user id", "--levels", "user,example")
    assert "levels: [{name: user}, {name: example}]" in ended.out
