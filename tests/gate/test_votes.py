"""Votes from files: what is read, and what is wrong with its row and column."""

import io
import os
import pickle

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.pate import votes_file as module
from dpcalc.pate.votes_file import read_votes

GOOD = np.array([[5, 3, 2], [10, 0, 0], [1, 4, 5]])


@pytest.fixture
def saved(tmp_path):
    """Write a file and return its path."""

    def written(content, name="votes.csv"):
        path = tmp_path / name
        if isinstance(content, np.ndarray):
            np.save(path, content)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return written


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int16", "float64", "float32", ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays(saved, dtype, order):
    found = read_votes(saved(np.asarray(GOOD.astype(dtype), order=order), "a.npy"), teachers=10)
    assert (found.counts == GOOD).all()
    assert found.counts.shape == (3, 3)
    assert found.teachers == 10
    assert found.counts.dtype == np.int64


@pytest.mark.parametrize(
    "text",
    [
        "5,3,2\n10,0,0\n1,4,5\n",
        "5,3,2\r\n10,0,0\r\n1,4,5",
        "\ufeffcat,dog,fox\n5, 3 ,2\n\n10,0,0\n1,4,5\n\n",
        "5.0;3;2e0\n10;0;-0\n1;4;5\n",
        "5\t3\t2\n10\t0\t0\n1\t4\t5\n",
    ],
)
def test_texts(saved, text):
    found = read_votes(saved(text))
    assert (found.counts == GOOD).all()
    assert found.teachers == 10


def test_labels_of_every_teacher(saved):
    table = np.array([[0, 1, 2, 2], [0, 1, 1, 2], [3, 1, 0, 2]])  # three teachers, four queries
    expected = [[2, 0, 0, 1, 0], [0, 3, 0, 0, 0], [1, 1, 1, 0, 0], [0, 0, 3, 0, 0]]
    for path in (saved(table, "a.npy"), saved("\n".join(",".join(map(str, row)) for row in table))):
        found = read_votes(path, classes=5, teachers=3)
        assert found.counts.tolist() == expected
        assert found.teachers == 3


def test_the_first_queries(saved):
    assert read_votes(saved(GOOD, "a.npy"), queries=2).counts.tolist() == GOOD[:2].tolist()
    with pytest.raises(InputError, match=r"--queries: expected 1 to 3, the queries in .*, got 4"):
        read_votes(saved(GOOD, "a.npy"), queries=4)


def changed(row, column, value, dtype="float64"):
    table = GOOD.astype(dtype)
    table[row, column] = value
    return table


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("5,3,2\n10,-1,1\n", "row 2, column 2: expected a whole number from 0 to 1000000, got -1"),
        ("5,3,2\n9.5,0,.5\n", "row 2, column 1: expected a whole number from 0 to 1000000, got 9.5"),
        ("5,3,2\n10,0,nan\n", "row 2, column 3: expected a whole number from 0 to 1000000, got nan"),
        ("5,3,2\n10,inf,0\n", "row 2, column 2: expected a whole number from 0 to 1000000, got inf"),
        ("5,3,2\n10,many,0\n", "row 2, column 2: expected a whole number from 0 to 1000000, got many"),
        ("5,3,2\n10,,0\n", "row 2, column 2: expected a whole number from 0 to 1000000, got nothing"),
        ("5,3,2\n10,0x1,0\n", "row 2, column 2: expected a whole number from 0 to 1000000, got 0x1"),
        ("5,3,2\n1_0,0,0\n", "row 2, column 1: expected a whole number from 0 to 1000000, got 1_0"),
        (
            "5,3,2\n10,0,99999999999999999999\n",
            "row 2, column 3: expected a whole number from 0 to 1000000, got 9999999",
        ),
        ("5,3,2\n10,0,1000001\n", "row 2, column 3: expected a whole number from 0 to 1000000, got 1000001"),
        ("500000,500000,1\n", "row 1: expected 1 to 1000000 votes, got 1000001"),
        ("5,3,2\n10,0\n", "row 2: expected 3 columns, got 2"),
        ("a,b,c\n5,3,2\n10,0,0,0\n", "row 3: expected 3 columns, got 4"),
        ("5,3,2\n9,0,0\n", "row 2: expected 10 votes, as in row 1, got 9"),
        ("0,0,0\n", "row 1: expected 1 to 1000000 votes, got 0"),
        ("5\n5\n", "expected a column for each of at least 2 labels, got 1"),
        ("", "expected a row for each query, got none"),
        ("a,b,c\n", "expected a row for each query, got none"),
        ("a,b,c\nd,e,f\n", "row 2, column 1: expected a whole number from 0 to 1000000, got d"),
        (b"5,3,2\n\xff\xfe,1,2\n", "row 2: expected UTF-8 text, got other bytes"),
        (b"5,3,2\n\x1b[31m,1,2\n", "row 2, column 1: expected a whole number"),
    ],
)
def test_texts_that_are_wrong(saved, content, message):
    path = saved(content)
    with pytest.raises(InputError) as caught:
        read_votes(path)
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed(1, 2, -3), "row 2, column 3: expected a whole number from 0 to 1000000, got -3"),
        (changed(2, 0, 0.5), "row 3, column 1: expected a whole number from 0 to 1000000, got 0.5"),
        (changed(0, 1, np.nan), "row 1, column 2: expected a whole number from 0 to 1000000, got nan"),
        (changed(0, 1, np.inf), "row 1, column 2: expected a whole number from 0 to 1000000, got inf"),
        (changed(0, 1, 1e30), "row 1, column 2: expected a whole number from 0 to 1000000, got 1e+30"),
        (changed(2, 1, 5, "int64"), "row 3: expected 10 votes, as in row 1, got 11"),
        (
            np.full((2, 2), 2**63, dtype=np.uint64),
            "row 1, column 1: expected a whole number from 0 to 1000000, got 9223372036854775808",
        ),
        (np.full((2, 2), 2**62), "row 1, column 1: expected a whole number from 0 to 1000000"),
        (GOOD[0], "expected two dimensions, queries x labels, none of them empty, got (3,)"),
        (GOOD[None], "expected two dimensions"),
        (GOOD[:0], "expected two dimensions, queries x labels, none of them empty, got (0, 3)"),
        (GOOD > 3, "expected a NumPy array of whole numbers, got bool"),
        (GOOD.astype("complex128"), "expected a NumPy array of whole numbers, got complex128"),
        (GOOD.astype("U2"), "expected a NumPy array of whole numbers, got <U2"),
        (b"", "expected a NumPy array of whole numbers, got something else"),
        (b"5,3,2\n", "expected a NumPy array of whole numbers, got something else"),
        (b"\x93NUMPY\x01\x00v\x00{'descr': 'nonsense", "expected a NumPy array of whole numbers, got a damaged one"),
    ],
)
def test_arrays_that_are_wrong(saved, content, message):
    path = saved(content, "votes.npy")
    with pytest.raises(InputError) as caught:
        read_votes(path)
    assert str(caught.value).startswith(f"{path}: {message}")


class Trap:
    """An object that does something when it is loaded."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def test_pickles_are_not_loaded(saved):
    whole = np.empty((1, 2), dtype=object)
    whole[0] = [Trap(), Trap()]
    stream = io.BytesIO()
    np.save(stream, whole, allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, votes=GOOD)
    for content in (stream.getvalue(), pickle.dumps(Trap()), archive.getvalue()):
        with pytest.raises(InputError, match="expected a NumPy array of whole numbers, got"):
            read_votes(saved(content, "votes.npy"))
    assert not Trap.sprung


def test_a_part_of_an_array(saved):
    stream = io.BytesIO()
    np.save(stream, GOOD)
    with pytest.raises(InputError, match="got a damaged one"):
        read_votes(saved(stream.getvalue()[:-8], "votes.npy"))


def test_teachers_are_counted(saved):
    with pytest.raises(InputError, match="row 1: expected 12 votes, the number of teachers, got 10"):
        read_votes(saved(GOOD, "a.npy"), teachers=12)
    with pytest.raises(InputError, match="expected a row for each of 4 teachers, got 3"):
        read_votes(saved(GOOD, "a.npy"), teachers=4, classes=20)
    with pytest.raises(InputError, match="row 2, column 1: expected a label from 0 to 9, got 10"):
        read_votes(saved(GOOD, "a.npy"), classes=10)


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
        *(
            header(shape)
            for shape in (
                f"({10**30}, 2)",
                f"(2, {10**30})",
                "(-1, 10)",
                "(True, 2)",
                "(10000000000000, 1000000)",
                "(2.0, 3)",
                "('2', 3)",
                "2",
                "()",
                "(0, 3)",
                "(3, 2, 2)",
                "None",
                f"({'9' * 5000}, 2)",
            )
        ),
        *(header("(2, 2)", kind) for kind in ("'|O'", "'<U9'", "'<c16'", "3", "'nonsense'", "[('a', '<i8')]", "None")),
        header("(50000, 1000)"),  # longer than the file
        "-" * 4000 + "1",
        "1+" * 4000 + "1",
        "[" * 4000,
        "(" * 9000 + ")" * 9000,
        "{}",
        "",
        "\0" * 100,
        "__import__('os').system('true')",
    ],
    ids=lambda text: text[:60] if isinstance(text, str) else str(text),
)
@pytest.mark.filterwarnings("error")
def test_headers_that_are_hostile(saved, text, version):
    with pytest.raises(InputError, match=r"votes.npy: expected (a NumPy array|two dimensions|at most)"):
        read_votes(saved(array_file(text, version, b"\1" * 64), "votes.npy"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["votes.npy", "votes.csv", "votes.tsv"])
def test_what_never_ends_is_not_read(tmp_path, name):
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(InputError, match="is not a regular file"):
        read_votes(str(path))
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match="is not a regular file"):
        read_votes(str(path))


@pytest.mark.parametrize("name", ["gone.csv", "gone.npy", ".", "votes.txt", "votes.npz"])
def test_files_that_are_no_votes(tmp_path, name):
    (tmp_path / "votes.txt").write_text("5,3,2\n")
    with pytest.raises(InputError, match=r"expected a file|cannot be read"):
        read_votes(str(tmp_path / name))


def test_huge_files(saved, monkeypatch):
    monkeypatch.setattr(module, "_MAX_CELLS", 8)
    monkeypatch.setattr(module, "_MAX_LINE_BYTES", 20)
    for content, name in ((GOOD, "a.npy"), ("5,3,2\n" * 3, "a.csv"), ("1" * 30, "b.csv")):
        with pytest.raises(InputError, match=r"expected at most (8|20) .*, got more"):
            read_votes(saved(content, name))
    with pytest.raises(InputError, match="--classes: expected at most 8 counts, got 2 x 5"):
        read_votes(saved(np.zeros((2, 2), dtype=int), "c.npy"), classes=5)
