"""`data.tree` in a file: what it means, and every way to get it wrong."""

import json
import random
import time

import pytest

from dpcalc.config.expand import MAX_WRITTEN_COUNTS, normal_form
from dpcalc.config.load import load
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError
from tests.config.texts import clinics, corpus, loaded

ROWS = corpus("discovered")

TREE = "[[4, 2, 3], [4, 5]]"


def tree(text):
    return clinics({"data": f"{{levels: [{{name: clinic}}, {{name: patient}}, {{name: visit}}], tree: {text}}}"})


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_tree_in_a_file(tmp_path, wrapped, bom):
    counts = json.loads(TREE)
    content = {"levels": ["clinic", "patient", "visit"], "tree": counts} if wrapped else counts
    (tmp_path / "counts.json").write_text(bom + json.dumps(content), encoding="utf-8")
    (tmp_path / "run.yaml").write_text(tree("{file: counts.json}"), encoding="utf-8")
    found = load(str(tmp_path / "run.yaml"))
    assert found.plan == loaded(clinics({})).plan
    assert found.config_hash == loaded(clinics({})).config_hash


def test_the_hash_is_of_the_tree_up_to_order():
    assert loaded(clinics({})).config_hash == loaded(tree("[[5, 4], [2, 3, 4]]")).config_hash


def refusal(tmp_path, content, name="counts.json", written="counts.json"):
    """The one error of a config whose tree is in a file."""
    if content is not None:
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
    (tmp_path / "run.yaml").write_text(tree(f"{{file: {written}}}"), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path / "run.yaml"))
    (found,) = caught.value.diagnostics
    assert (found.path, found.line) == (str(tmp_path / "run.yaml"), 2)
    return found


@pytest.mark.parametrize(
    ("content", "code", "phrase"),
    [
        *ROWS["trees"],
        (b"\xff\xfe", "DPC110", "cannot be read as JSON"),
        ("[" * 100_000, "DPC111", "nested too deeply"),
        ("[[" + "9" * 5000 + "]]", "DPC110", "cannot be read as JSON"),
        (" " * (16 * 1024 * 1024 + 1), "DPC111", "larger than 16384 KiB"),
    ],
)
def test_what_is_wrong_with_a_file_stands_at_its_name(tmp_path, content, code, phrase):
    found = refusal(tmp_path, content)
    assert found.code == code
    assert phrase in found.message


@pytest.mark.parametrize(
    ("written", "phrase"),
    [
        ("../../counts.json", "outside the repository"),
        ("/etc/counts.json", "absolute path"),
        ("counts.csv", "is no JSON file"),
        ("counts.yaml", "is no JSON file"),
    ],
)
def test_where_a_file_may_not_be(tmp_path, written, phrase):
    (tmp_path / "counts.yaml").write_text(TREE, encoding="utf-8")
    assert phrase in refusal(tmp_path, None, written=written).message


def test_many_faults_of_a_file_are_cut(tmp_path):
    (tmp_path / "counts.json").write_text(json.dumps([[0] * 5000]), encoding="utf-8")
    (tmp_path / "run.yaml").write_text(tree("{file: counts.json}"), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(str(tmp_path / "run.yaml"))
    assert len(caught.value.diagnostics) == 10


def test_200_000_counts_in_a_file(tmp_path):
    """The promise is three seconds for reading; ten here, for slow machines."""
    rng = random.Random(0)  # noqa: S311  sizes, no secrets
    counts = [[rng.randint(2, 60) for _ in range(rng.randint(2, 38))] for _ in range(10_000)]
    assert sum(map(len, counts)) > 190_000
    (tmp_path / "counts.json").write_text(json.dumps(counts), encoding="utf-8")
    (tmp_path / "run.yaml").write_text(tree("{file: counts.json}"), encoding="utf-8")
    start = time.process_time()
    found = load(str(tmp_path / "run.yaml")).plan
    assert time.process_time() - start < 10
    assert found.phases[0].hierarchy.units(2) == sum(map(len, counts))
    with pytest.raises(InputError, match=f"at most {MAX_WRITTEN_COUNTS} units"):
        normal_form(found)
