"""Matrices, curves and trees of counts in files: what they mean, and hostile ones. CSV: corpus/data_files.yaml."""

import hashlib
import io
import json
import math
import pickle
import random
import time

import numpy as np
import pytest
from numpy.lib import format as npy

from dpcalc.config.edit import differences, with_difference
from dpcalc.config.expand import normal_form
from dpcalc.config.load import load
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError
from tests.config.texts import SAMPLES, clinics, flat, text_of

LOWER = np.tril(np.ones((4, 4)))


def loaded(folder, strategy="strategy: {file: c.npy}"):
    path = folder / "c.yaml"
    path.write_text(text_of({"strategy": f"{strategy}, max_participations: 1"}))
    return load(str(path))


def refused(folder, words, strategy="strategy: {file: c.npy}"):
    with pytest.raises(ConfigError) as error:
        loaded(folder, strategy)
    (diagnostic,) = error.value.diagnostics
    assert words in diagnostic.message
    assert diagnostic.line in {3, 4, 5}


def changed(folder, entries):
    np.save(folder / "c.npy", entries, allow_pickle=True)
    return folder


@pytest.mark.parametrize(
    "entries", [LOWER, LOWER.astype("f4"), np.asfortranarray(LOWER), LOWER.astype(">f8"), LOWER.astype(int)]
)
def test_matrices_of_every_kind_mean_the_same(tmp_path, entries):
    plan = loaded(changed(tmp_path, entries)).plan
    assert (plan.phases[0].mechanism.strategy.entries == LOWER).all()
    np.savetxt(tmp_path / "c.csv", entries, delimiter=",")
    assert loaded(tmp_path, "strategy: {file: c.csv}").plan == plan
    (tmp_path / "c.csv").write_text("1,,,\n1,1,,\n1,1,1,\n1,1,1,1\n")  # cells above the diagonal may be empty
    assert loaded(tmp_path, "strategy: {file: c.csv}").plan == plan


def test_a_stated_sum_is_that_of_the_entries(tmp_path):
    digest = hashlib.sha256(b"4\n" + LOWER.astype("<f8").tobytes()).hexdigest()
    stated = f"strategy: {{file: c.npy, sha256: {digest}}}"
    one = loaded(changed(tmp_path, LOWER), stated)
    assert one.config_hash == loaded(tmp_path).config_hash
    assert f"{{file: c.npy, sha256: {digest}}}" in normal_form(one.plan)
    words = "`mechanism.strategy.sha256` is not that of the matrix in `c.npy`, which is "
    refused(changed(tmp_path, 2 * LOWER), words, stated)
    refused(tmp_path, words, "strategy: {sha256: [1], file: c.npy}")
    refused(tmp_path, "unknown key `sha` in `mechanism.strategy`", "strategy: {file: c.npy, sha: 1}")


def test_the_content_of_a_matrix_is_hashed_and_its_name_is_not(tmp_path):
    np.save(tmp_path / "d.npy", LOWER)
    one, other = loaded(changed(tmp_path, LOWER)), loaded(tmp_path, "strategy: {file: d.npy}")
    assert one.config_hash == other.config_hash
    new = loaded(changed(tmp_path, 2 * LOWER))
    assert new.config_hash != one.config_hash
    (difference,) = differences(one, new)
    assert (difference.key, difference.is_claim) == ("mechanism.strategy", True)
    assert difference.new.endswith("(its content changed)")


def with_entry(row, column, value):
    entries = LOWER.copy()
    entries[row, column] = value
    return entries


class Bomb:
    """Unpickling it ends the test."""

    def __reduce__(self):
        return (pytest.exit, ("a pickle was loaded",))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (np.ones((4, 4)), "row 1, column 2 is not 0: a strategy is lower triangular"),
        (LOWER[:3], "is not square: its shape is (3, 4)"),
        (np.ones(4), "is not square: its shape is (4,)"),
        (np.ones((0, 0)), "is not square"),
        (with_entry(2, 1, np.nan), "row 3, column 2 is not finite"),
        (with_entry(2, 1, np.inf), "row 3, column 2 is not finite"),
        (with_entry(0, 3, -np.inf), "row 1, column 4 is not finite"),
        (LOWER * [1, 0, 1, 1], "row 2, column 2 is 0 like all of its column"),
        (with_entry(1, 1, 0), "row 2, column 2 is 0: a strategy has an inverse"),
        (1e200 * LOWER, "row 1, column 1 is larger than 1e100"),
        (np.array([[Bomb()]], dtype=object), "holds Python objects, which are not loaded"),
        (LOWER.astype(complex), "holds complex128, not real numbers"),
        (np.tril(np.ones((5, 5))), "`mechanism.strategy` has 5 rows, and the phase has 4 steps"),
    ],
)
def test_bad_matrices_are_one_sentence(tmp_path, entries, words):
    refused(changed(tmp_path, entries), words)


def test_hostile_matrices(tmp_path):
    path = tmp_path / "c.npy"
    path.write_bytes(pickle.dumps(Bomb()))
    refused(tmp_path, "is no NumPy file")
    for shape, words in (((4000, 4000), "is shorter or longer"), ((10**9, 10**9), "at most 4,096 are read")):
        header = io.BytesIO()
        npy.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
        path.write_bytes(header.getvalue())
        refused(tmp_path, words)
    with path.open("wb") as stream:
        stream.truncate(10**9)
    refused(tmp_path, "")
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(tmp_path, "")
    for name, words in (
        ("../../c.npy", "outside the repository"),
        ("/c.npy", "is an absolute path"),
        ("c.txt", "no NumPy"),
    ):
        refused(tmp_path, words, f"strategy: {{file: {name}}}")


# Curves.

FILE = flat({"mechanism": "{type: rdp-curve, curve: {file: curve.csv}}"})
CSV = "order,epsilon\n2,0.1\n4,0.25\n32.5,3\n"


@pytest.fixture
def curve(tmp_path):
    def made(content, text=FILE):
        (tmp_path / "curve.csv").write_text(content)
        (tmp_path / "run.yaml").write_text(text, encoding="utf-8")
        return load(str(tmp_path / "run.yaml"))

    return made


def test_a_changed_curve_is_a_difference(curve):
    old, new = curve(CSV), curve(CSV.replace("0.25", "0.2"))
    (one,) = differences(old, new)
    assert (one.key, one.is_claim) == ("mechanism.curve", True)
    assert one.new.endswith("(its content changed)")
    assert with_difference(old, new, one) == new.plan
    assert old.config_hash != new.config_hash
    steps = curve(CSV.replace("0.25", "0.2"), FILE.replace("steps: 100", "steps: 101"))
    assert [one.key for one in differences(old, steps)] == ["training.steps", "mechanism.curve"]


@pytest.mark.parametrize(
    ("other", "key"),
    [
        ("phases: [{}, {mechanism: {type: zcdp, rho: RHO}}]\n", "phases[1].mechanism.rho"),
        ("phases: [{mechanism: {epsilon: RHO}}, {}]\n", "phases[0].mechanism.epsilon"),
        ("phases: [{mechanism: {curve: [[2, RHO]]}}, {}]\n", "phases[0].mechanism.curve[0][1]"),
    ],
)
def test_no_other_change_of_a_mechanism_hides_a_changed_curve(curve, other, key):
    """A pull request once hid a cheaper curve by another number of any phase."""
    text = FILE.replace("training: {steps: 100}\n", "training: {steps: 5}\n") + other
    old, new = curve(CSV, text.replace("RHO", "0.1")), curve(CSV.replace("0.25", "0.2"), text.replace("RHO", "0.11"))
    found = {one.key: one.is_claim for one in differences(old, new)}
    assert found["mechanism.curve"]
    assert key in found or len(found) == 2


def test_the_sample_is_the_sum_that_it_says_it_is():
    """Gaussian noise 4 and Laplace noise 10, rounded up to seven decimals."""
    (phase,) = load(str(SAMPLES / "known_curve" / "dpcalc.yaml")).plan.phases
    for a, epsilon in phase.mechanism.curve:
        laplace = a / (2 * a - 1) * math.exp((a - 1) / 10) + (a - 1) / (2 * a - 1) * math.exp(-a / 10)
        exact = a / 32 + math.log(laplace) / (a - 1)
        assert exact <= epsilon <= exact + 1.01e-7


# Trees.


def test_200_000_counts_in_a_file(tmp_path):
    """The promise is three seconds for reading; ten here, for slow machines."""
    rng = random.Random(0)  # noqa: S311  sizes, no secrets
    counts = [[rng.randint(2, 60) for _ in range(rng.randint(2, 38))] for _ in range(10_000)]
    assert sum(map(len, counts)) > 190_000
    (tmp_path / "counts.json").write_text(json.dumps(counts), encoding="utf-8")
    tree = "{levels: [{name: clinic}, {name: patient}, {name: visit}], tree: {file: counts.json}}"
    (tmp_path / "run.yaml").write_text(clinics({"data": tree}), encoding="utf-8")
    start = time.process_time()
    found = load(str(tmp_path / "run.yaml")).plan
    assert time.process_time() - start < 10
    assert found.phases[0].hierarchy.units(2) == sum(map(len, counts))
    with pytest.raises(InputError, match="at most 10000 units"):
        normal_form(found)
