"""`mechanism.strategy` and what goes with it: every form, every error at its place, hostile files."""

import hashlib
import io
import pickle
from fractions import Fraction

import numpy as np
import pytest
from numpy.lib import format as npy

from dpcalc.config.edit import differences
from dpcalc.config.expand import Overrides, missing_flags, normal_form
from dpcalc.config.load import load, load_from_flags, load_text
from dpcalc.config.source import ConfigError
from dpcalc.mechanisms.matrix_factorization import IDENTITY, Matrix, PrefixSum, Toeplitz, Tree, banded_square_root
from dpcalc.planner.words import mechanism_text
from dpcalc.sampling.schemes import AnyOrder, CyclicPoisson
from tests.config.texts import correlated as text

ONCE = "max_participations: 1"
LOWER = np.tril(np.ones((4, 4)))


def loaded(folder, strategy, **more):
    path = folder / "c.yaml"
    path.write_text(text(strategy, **more))
    return load(str(path))


@pytest.mark.parametrize(
    ("strategy", "meant"),
    [
        ("identity", IDENTITY),
        ("prefix-sum", PrefixSum()),
        ("tree", Tree()),
        ("{tree: {restart_every: 3}}", Tree(restart_every=3)),
        ("{toeplitz: [1, .5, 1e-3]}", Toeplitz(coefficients=(1.0, 0.5, 1e-3))),
        ("{toeplitz: [2, -1]}", Toeplitz(coefficients=(2.0, -1.0))),
        ("{banded: {bands: 3, x-why: speed}}", banded_square_root(3)),
    ],
)
def test_every_form_and_its_normal_form(strategy, meant):
    one = load_text(text(f"strategy: {strategy}, min_separation: 2"), path="f")
    assert one.plan.phases[0].mechanism.strategy == meant
    again = load_text(normal_form(one.plan), path="g")
    assert again.plan == one.plan
    assert again.config_hash == one.config_hash


def test_cyclic_draws_and_their_normal_form():
    config = text("strategy: {banded: {bands: 3}}", "scheme: cyclic-poisson, groups: 3, expected: 10", steps=30)
    one = load_text(config, path="f")
    scheme = one.plan.phases[0].hierarchy.level(1).scheme
    assert (scheme.probability, scheme.groups) == (Fraction(3, 10), 3)
    assert load_text(normal_form(one.plan), path="g").plan == one.plan
    epochs = load_text(config.replace("steps: 30", "epochs: 2"), path="f").plan
    assert epochs.steps == 20
    thirds = load_text(config.replace("expected: 10", "rate: 1/7"), path="f")
    assert load_text(normal_form(thirds.plan), path="g").config_hash == thirds.config_hash


@pytest.mark.parametrize(
    "write", [np.save, lambda name, a: np.savetxt(str(name).replace("npy", "csv"), a, delimiter=",")]
)
@pytest.mark.parametrize(
    "entries", [LOWER, LOWER.astype("f4"), np.asfortranarray(LOWER), LOWER.astype(">f8"), LOWER.astype(int)]
)
def test_files_of_every_kind_mean_the_same(tmp_path, write, entries):
    write(tmp_path / "c.npy", entries)
    name = "c.npy" if (tmp_path / "c.npy").exists() else "c.csv"
    strategy = loaded(tmp_path, f"strategy: {{file: {name}}}, {ONCE}").plan.phases[0].mechanism.strategy
    assert isinstance(strategy, Matrix)
    assert (strategy.entries == LOWER).all()
    np.save(tmp_path / "d.npy", LOWER)
    assert strategy == loaded(tmp_path, f"strategy: {{file: d.npy}}, {ONCE}").plan.phases[0].mechanism.strategy


def test_a_stated_sum_is_that_of_the_entries(tmp_path):
    np.save(tmp_path / "c.npy", LOWER)
    digest = hashlib.sha256(b"4\n" + LOWER.astype("<f8").tobytes()).hexdigest()
    one = loaded(tmp_path, f"strategy: {{file: c.npy, sha256: {digest}}}, {ONCE}")
    assert one.config_hash == loaded(tmp_path, f"strategy: {{file: c.npy}}, {ONCE}").config_hash
    assert f"{{file: c.npy, sha256: {digest}}}" in normal_form(one.plan)
    assert f"{{file: c.npy, sha256: {digest[:16]}...}}" in mechanism_text(one.plan.phases[0])
    np.save(tmp_path / "c.npy", 2 * LOWER)
    words = "`mechanism.strategy.sha256` is not that of the matrix in `c.npy`, which is "
    refused(tmp_path, f"strategy: {{file: c.npy, sha256: {digest}}}, {ONCE}", words)
    refused(tmp_path, f"strategy: {{sha256: [1], file: c.npy}}, {ONCE}", words)
    refused(tmp_path, f"strategy: {{file: c.npy, sha: 1}}, {ONCE}", "unknown key `sha` in `mechanism.strategy`")


def test_the_content_of_a_file_is_hashed_and_its_name_is_not(tmp_path):
    np.save(tmp_path / "c.npy", LOWER)
    np.save(tmp_path / "d.npy", LOWER)
    one, other = (loaded(tmp_path, f"strategy: {{file: {name}.npy}}, {ONCE}") for name in "cd")
    assert one.config_hash == other.config_hash
    np.save(tmp_path / "d.npy", 2 * LOWER)
    changed = loaded(tmp_path, f"strategy: {{file: d.npy}}, {ONCE}")
    assert changed.config_hash != one.config_hash
    (difference,) = differences(other, changed)
    assert difference.key == "mechanism.strategy"
    assert difference.is_claim
    assert difference.new.endswith("(its content changed)")


def test_a_changed_limit_is_a_changed_assumption():
    one, other = (load_text(text(f"strategy: identity, min_separation: {b}"), path="f") for b in (2, 3))
    (difference,) = differences(one, other)
    assert difference.is_claim


def with_entry(row, column, value):
    entries = LOWER.copy()
    entries[row, column] = value
    return entries


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
        (LOWER.astype(object), "holds Python objects, which are not loaded"),
        (LOWER.astype(complex), "holds complex128, not real numbers"),
        (np.tril(np.ones((5, 5))), "`mechanism.strategy` has 5 rows, and the phase has 4 steps"),
    ],
)
def test_bad_matrices_are_one_sentence(tmp_path, entries, words):
    np.save(tmp_path / "c.npy", entries, allow_pickle=True)
    refused(tmp_path, f"strategy: {{file: c.npy}}, {ONCE}", words)


def refused(folder, strategy, words, **more):
    with pytest.raises(ConfigError) as error:
        loaded(folder, strategy, **more)
    (diagnostic,) = error.value.diagnostics
    assert words in diagnostic.message
    assert diagnostic.line in {3, 4, 5}


class Bomb:
    """Unpickling it ends the test."""

    def __reduce__(self):
        return (pytest.exit, ("a pickle was loaded",))


def test_hostile_files(tmp_path):
    path = tmp_path / "c.npy"
    state = f"strategy: {{file: c.npy}}, {ONCE}"
    np.save(path, np.array([[Bomb()]], dtype=object), allow_pickle=True)
    refused(tmp_path, state, "holds Python objects")
    path.write_bytes(pickle.dumps(Bomb()))
    refused(tmp_path, state, "is no NumPy file")
    for shape, words in (((4000, 4000), "is shorter or longer"), ((10**9, 10**9), "at most 4,096 are read")):
        header = io.BytesIO()
        npy.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
        path.write_bytes(header.getvalue())
        refused(tmp_path, state, words)
    with path.open("wb") as stream:
        stream.truncate(10**9)
    refused(tmp_path, state, "")
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(tmp_path, state, "")
    refused(tmp_path, f"strategy: {{file: ../../c.npy}}, {ONCE}", "lies outside the repository")
    refused(tmp_path, f"strategy: {{file: /c.npy}}, {ONCE}", "is an absolute path")
    refused(tmp_path, f"strategy: {{file: c.txt}}, {ONCE}", "is no NumPy or CSV file")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1,0\n1,x\n", "row 2, column 2 is no number: x"),
        ("1,0\n,1\n", "row 2, column 1 is no number: nothing"),
        ("1,0\n1\n", "has 1 cells in row 2, and 2 rows"),
        ("1,0\n", "is not square"),
        ("", "is not square"),
        ("a,b\n1,1\n", "row 1, column 1 is no number"),
        ("1,0\n1_0,1\n", "row 2, column 1 is no number: 1_0"),
        ("1,0\n1e999,1\n", "row 2, column 1 is not finite"),
        ("1,2\n1,1\n", "row 1, column 2 is not 0"),
        ("\xff", "no UTF-8"),
    ],
)
def test_bad_csv_files(tmp_path, content, words):
    (tmp_path / "c.csv").write_bytes(content.encode("latin-1"))
    refused(tmp_path, f"strategy: {{file: c.csv}}, {ONCE}", words, steps=2)


def test_cells_above_the_diagonal_may_be_empty(tmp_path):
    (tmp_path / "c.csv").write_text("1,\n.5,1\n")
    strategy = loaded(tmp_path, f"strategy: {{file: c.csv}}, {ONCE}", steps=2).plan.phases[0].mechanism.strategy
    assert strategy.entries.tolist() == [[1, 0], [0.5, 1]]


def by_options(*keys, **flags):
    options = tuple((f"--{name.replace('_', '-')}", value) for name, value in flags.items())
    given = Overrides(flags=(("--delta", "1e-6"), *options), assignments=("mechanism.type=matrix-factorization", *keys))
    assert missing_flags(given) == ()
    (phase,) = load_from_flags(given).plan.phases
    return phase


def test_runs_by_options_alone():
    """Batches in any order have no rate, and the number of units has no effect."""
    limits = ("mechanism.strategy=tree", "mechanism.max_participations=1")
    phase = by_options(*limits, scheme="any-order", noise_multiplier="8.83", steps="1600")
    assert isinstance(phase.hierarchy.level(1).scheme, AnyOrder)
    keys = ("mechanism.strategy=identity", "sampling.groups=4")
    phase = by_options(*keys, scheme="cyclic-poisson", sample_rate="1/50", noise_multiplier="2", steps="1600")
    assert phase.hierarchy.level(1).scheme == CyclicPoisson(probability=Fraction(1, 50), groups=4)
