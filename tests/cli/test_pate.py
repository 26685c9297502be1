"""`dpcalc pate`: votes from files, what is wrong with them, an epsilon that is drawn; `transcripts/pate.txt`."""

import io
import json
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.thinning import thinned

ROWS = yaml.safe_load(Path(__file__).with_name("votes.yaml").read_text(encoding="utf-8"))
COUNTS = np.array([[220, 20, 10], [120, 110, 20], [250, 0, 0], [180, 40, 30]] * 25)
GOOD = np.array([[5, 3, 2], [10, 0, 0], [1, 4, 5]])
WHOLE = "expected a whole number from 0 to 1000000, got "
FORM = "expected a NumPy array of whole numbers, got "
NOISE = ("--sigma", "40", "--delta", "1e-5")


@pytest.fixture
def saved(tmp_path):
    """Write a file and return its name."""

    def written(content, name="votes.csv"):
        path = tmp_path / name
        if isinstance(content, np.ndarray):
            np.save(path, content)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogateescape"))
        return name

    return written


@pytest.fixture
def read(real):
    """The answer to votes of a file, with (most votes, lead) of each query."""

    def answered(name, *options):
        ended = real("pate", name, *NOISE, *options, "--json", "-v")
        assert ended.code == 0, ended.err
        answer = json.loads(ended.out)
        return answer, [(each["votes"], each["lead"]) for each in answer["per_query"]]

    return answered


@pytest.fixture
def refused(real):
    def said(name, *options):
        ended = real("pate", name, *NOISE, *options)
        assert (ended.code, ended.out) == (2, "")
        return ended.err

    return said


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int16", "float64", "float32", ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays(saved, read, dtype, order):
    found, told = read(saved(np.asarray(GOOD.astype(dtype), order=order), "a.npy"), "--teachers", "10")
    assert told == [(5, 2), (10, 10), (5, 1)]
    assert (found["queries"], found["labels"], found["teachers"]) == (3, 3, 10)


@pytest.mark.parametrize("text", ROWS["texts"])
def test_texts(saved, read, text):
    found, told = read(saved(text))
    assert (told, found["labels"], found["teachers"]) == ([(5, 2), (10, 10), (5, 1)], 3, 10)


def test_labels_of_every_teacher_and_the_first_queries(saved, read, refused):
    table = np.array([[0, 1, 2, 2], [0, 1, 1, 2], [3, 1, 0, 2]])  # three teachers, four queries
    for name in (saved(table, "a.npy"), saved("\n".join(",".join(map(str, row)) for row in table))):
        found, told = read(name, "--classes", "5", "--teachers", "3")
        assert (told, found["labels"], found["teachers"]) == ([(2, 1), (3, 3), (1, 0), (3, 3)], 5, 3)
    assert read(saved(GOOD, "a.npy"), "--queries", "2")[1] == [(5, 2), (10, 10)]
    for options, words in {
        "--queries 4": "--queries: expected 1 to 3, the queries in a.npy, got 4",
        "--teachers 12": "row 1: expected 12 votes, the number of teachers, got 10",
        "--teachers 4 --classes 20": "expected a row for each of 4 teachers, got 3",
        "--classes 10": "row 2, column 1: expected a label from 0 to 9, got 10",
    }.items():
        assert words in refused("a.npy", *options.split())


def changed(row, column, value, dtype="float64"):
    table = GOOD.astype(dtype)
    table[row, column] = value
    return table


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *ROWS["wrong"],
        (changed(1, 2, -3), "row 2, column 3: " + WHOLE + "-3"),
        (changed(2, 0, 0.5), "row 3, column 1: " + WHOLE + "0.5"),
        (changed(0, 1, np.nan), "row 1, column 2: " + WHOLE + "nan"),
        (changed(0, 1, np.inf), "row 1, column 2: " + WHOLE + "inf"),
        (changed(0, 1, 1e30), "row 1, column 2: " + WHOLE + "1e+30"),
        (changed(2, 1, 5, "int64"), "row 3: expected 10 votes, as in row 1, got 11"),
        (np.full((2, 2), 2**63, dtype=np.uint64), "row 1, column 1: " + WHOLE + "9223372036854775808"),
        (np.full((2, 2), 2**62), "row 1, column 1: expected a whole number from 0 to 1000000"),
        (GOOD[0], "expected two dimensions, queries x labels, none of them empty, got (3,)"),
        (GOOD[None], "expected two dimensions"),
        (GOOD[:0], "expected two dimensions, queries x labels, none of them empty, got (0, 3)"),
        (GOOD > 3, FORM + "bool"),
        (GOOD.astype("complex128"), FORM + "complex128"),
        (GOOD.astype("U2"), FORM + "<U2"),
        (b"", FORM + "something else"),
        (b"5,3,2\n", FORM + "something else"),
        (b"\x93NUMPY\x01\x00v\x00{'descr': 'nonsense", FORM + "a damaged one"),
    ],
)
def test_what_is_wrong(saved, refused, content, message):
    name = saved(content, "votes.csv" if isinstance(content, str) else "votes.npy")
    assert refused(name).startswith(f"error: {name}: {message}")


class Trap:
    """An object that does something when it is loaded."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def test_pickles_are_not_loaded(saved, refused):
    whole = np.empty((1, 2), dtype=object)
    whole[0] = [Trap(), Trap()]
    stream = io.BytesIO()
    np.save(stream, whole, allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, votes=GOOD)
    for content in (stream.getvalue(), pickle.dumps(Trap()), archive.getvalue()):
        assert FORM in refused(saved(content, "votes.npy"))
    assert not Trap.sprung
    np.save(stream := io.BytesIO(), GOOD)
    assert "got a damaged one" in refused(saved(stream.getvalue()[:-8], "votes.npy"))


def array_file(header, version=(1, 0), content=b""):
    """A .npy file with any header."""
    text = header.encode()
    size = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + text + content


def header(shape, kind="'<i8'"):
    return f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n"


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), (9, 9)])
@pytest.mark.parametrize(
    "text",
    [
        *(header(shape) for shape in (f"({10**30}, 2)", f"(2, {10**30})", f"({'9' * 5000}, 2)", *ROWS["shapes"])),
        *(header("(2, 2)", kind) for kind in ROWS["kinds"]),
        header("(50000, 1000)"),  # longer than the file
        "-" * 4000 + "1",
        "1+" * 4000 + "1",
        "[" * 4000,
        "(" * 9000 + ")" * 9000,
        "\0" * 100,
        *ROWS["headers"],
    ],
    ids=lambda text: text[:60] if isinstance(text, str) else str(text),
)
@pytest.mark.filterwarnings("error")
def test_headers_that_are_hostile(saved, refused, text, version):
    said = refused(saved(array_file(text, version, b"\1" * 64), "votes.npy"))
    assert re.match(r"error: votes.npy: expected (a NumPy array|two dimensions|at most)", said)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["votes.npy", "votes.csv", "votes.tsv"])
def test_what_never_ends_is_not_read(refused, tmp_path, name):
    os.mkfifo(tmp_path / name)
    assert "is not a regular file" in refused(name)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    assert "is not a regular file" in refused(name)


@pytest.mark.parametrize("name", ["gone.csv", "gone.npy", ".", "votes.txt", "votes.npz"])
def test_files_that_are_no_votes(saved, refused, name):
    saved("5,3,2\n", "votes.txt")
    assert re.search(r"expected a file|cannot be read", refused(name))


def test_huge_files(saved, refused, monkeypatch):
    monkeypatch.setattr("dpcalc.pate._MAX_VOTES", 8)
    monkeypatch.setattr("dpcalc.pate._MAX_LINE_BYTES", 20)
    for content, name in ((GOOD, "a.npy"), ("5,3,2\n" * 3, "a.csv"), ("1" * 30, "b.csv")):
        assert re.search(r"expected at most (8|20) .*, got more", refused(saved(content, name)))
    said = refused(saved(np.zeros((2, 2), dtype=int), "c.npy"), "--classes", "5")
    assert "--classes: expected at most 8 counts, got 2 x 5" in said


# An epsilon that is drawn


@pytest.mark.heavy
def test_a_public_epsilon(real, saved, monkeypatch):
    ballots = saved(COUNTS, "votes.npy")
    ended = [real("pate", ballots, *NOISE, "--sanitise", "--json") for _ in range(2)]
    first, second = (json.loads(one.out)["sanitised"] for one in ended)
    assert first["epsilon"] != second["epsilon"]  # fresh noise that nobody can draw again
    assert {key: first[key] for key in ("delta", "order", "smoothness", "noise")} == {
        key: second[key] for key in ("delta", "order", "smoothness", "noise")
    }
    assert "is drawn once" in ended[0].err
    seeded = np.random.default_rng
    monkeypatch.setattr(np.random, "default_rng", lambda: seeded(1))
    same = [real("pate", ballots, *NOISE, "--sanitize").out for _ in range(2)]
    assert same[0] == same[1]
    assert "sanitised: epsilon <= " in same[0]
    assert "no smaller than the data-independent one" in same[0]  # few queries: it does not pay
    checked = real("pate", ballots, *NOISE, "--threshold", "200", "--threshold-sigma", "150", "--sanitise")
    assert (checked.code, "sanitised: epsilon <= " in checked.out) == (0, True)


def test_a_file_in_the_way_is_refused_before_an_epsilon_is_drawn(real, saved, tmp_path, monkeypatch):
    def drawn():
        raise AssertionError("an epsilon that nobody sees was paid for")

    monkeypatch.setattr(np.random, "default_rng", drawn)
    (tmp_path / "queries.csv").write_text("")
    ended = real("pate", saved(COUNTS, "votes.npy"), *NOISE, "--sanitise", "--csv", "queries.csv")
    assert (ended.code, "--csv: queries.csv already exists" in ended.err) == (2, True)


# Configs of teachers


@pytest.mark.parametrize("words", thinned(ROWS["commands"], 5))
def test_nothing_else_reads_the_votes(real, file, saved, tmp_path, words):
    saved(COUNTS, "votes.npy")
    path, (command, *options) = str(file(ROWS["teachers"])), words.split()
    seen = real(command, path, *options)
    (tmp_path / "votes.npy").unlink()
    (tmp_path / "dpcalc.lock").unlink(missing_ok=True)
    again = real(command, path, *options)
    assert seen.code == again.code == 0
    assert (seen.out, seen.err) == (again.out, again.err)
    assert "private: do not publish" not in seen.out
    assert "what depends on the votes is itself private" not in seen.err
