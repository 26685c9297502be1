"""Counting folders and manifests: the counts, and everything that is no plain file in a plain folder."""

import json
import os

import pytest

from dpcalc.errors import InputError
from dpcalc.scan import manifest as manifests
from dpcalc.scan.count import scan

SESSIONS = {"ann": {"s1": 3, "s2": 1}, "bob": {"s1": 2}, "cy": {"s1": 1, "s2": 4, "s3": 2}}
COUNTS = [[3, 1], [2], [1, 4, 2]]


def grow(folder, shape):
    """Folders by name, and in the last ones so many files."""
    folder.mkdir(exist_ok=True)
    if isinstance(shape, int):
        for number in range(shape):
            (folder / f"{number}.jpg").touch()
        return
    for name, inside in shape.items():
        grow(folder / name, inside)


@pytest.fixture
def data(tmp_path):
    grow(tmp_path / "data", SESSIONS)
    return tmp_path / "data"


def counted(path, **options):
    return scan(str(path), **options, on_progress=lambda _: None)


def refused(path, **options):
    with pytest.raises(InputError) as caught:
        counted(path, **options)
    return str(caught.value)


def test_folders(data):
    found = counted(data, levels=("user", "session", "image"))
    assert found.counts == COUNTS
    assert [(one.name, one.units, one.min_units, one.max_units) for one in found.sizes] == [
        ("user", 3, 3, 3),
        ("session", 6, 1, 3),
        ("image", 13, 1, 4),
    ]
    assert found.remarks == ()


def test_levels_without_names_are_numbered_and_said_so(data):
    found = counted(data)
    assert (found.names, found.counts) == (("level_1", "level_2", "example"), COUNTS)
    assert "--levels" in found.remarks[-1]


@pytest.mark.parametrize(
    ("levels", "counts"),
    [
        (("user", "-", "image"), [4, 2, 7]),
        (("-", "session", "image"), [3, 1, 2, 1, 4, 2]),
        (("-", "-", "image"), 13),
    ],
)
def test_folders_that_are_no_level(data, levels, counts):
    assert counted(data, levels=levels).counts == counts


def test_one_folder_of_files(data):
    found = counted(data / "cy" / "s2")
    assert (found.names, found.counts) == (("example",), 4)


def test_only_some_endings(data):
    (data / "README.md").touch()
    (data / "ann" / "s1" / "A.JPG").touch()
    (data / "bob" / "s1" / "notes.txt").touch()
    for ending in (".jpg", "jpg", ".JPG"):
        found = counted(data, endings=(ending,))
        assert found.counts == [[4, 1], [2], [1, 4, 2]]
        assert found.remarks[0] == "with another ending, not counted: 2 (README.md, bob/s1/notes.txt)"
    assert counted(data / "bob" / "s1", endings=(".jpg", ".txt")).counts == 3


def test_files_beside_folders_are_named(data):
    (data / "labels.csv").touch()
    message = refused(data)
    assert "1 at depth 1 (labels.csv), 13 at depth 3 (ann/s1/0.jpg)" in message
    assert "--suffix" in message
    assert "at depth 2, one for each name" in refused(data, levels=("user", "image"))


def test_hidden_files_and_folders_are_no_records(data):
    (data / ".DS_Store").touch()
    grow(data / "ann" / ".git", {"objects": 5})
    found = counted(data, levels=("user", "session", "image"))
    assert found.counts == COUNTS
    assert found.remarks == ("hidden, not counted: 2 (.DS_Store, ann/.git)",)


def test_units_that_hold_nothing_are_left_out_and_named(data):
    grow(data / "bob", {"s2": 0})
    grow(data / "dee", {"s1": 0, "s2": 0})
    found = counted(data, levels=("user", "session", "image"))
    assert found.counts == COUNTS
    assert "4 (bob/s2, dee/s1, dee/s2, ...)" in found.remarks[0]


def test_links_to_folders_are_not_followed(data, tmp_path):
    (data / "ann" / "s1" / "loop").symlink_to(data, target_is_directory=True)
    (data / "bob" / "s1" / "up").symlink_to(tmp_path, target_is_directory=True)
    (data / "again").symlink_to("ann", target_is_directory=True)
    (data / "cy" / "s1" / "self").symlink_to("self")
    found = counted(data, levels=("user", "session", "image"))
    assert found.counts == COUNTS
    assert found.remarks == (
        "links to folders of the same tree, not followed: 3 (again, ann/s1/loop, bob/s1/up)",
        "broken links and what is neither file nor folder, not counted: 1 (cy/s1/self)",
    )


def test_a_link_out_of_the_tree_hides_records(data, tmp_path):
    grow(tmp_path / "elsewhere", {"s1": 3})
    (data / "dee").symlink_to("../elsewhere", target_is_directory=True)
    message = refused(data)
    assert "would not be complete" in message
    assert "(dee)" in message


def test_links_to_files_are_records(data):
    (data / "bob" / "s1" / "copy.jpg").symlink_to("0.jpg")
    (data / "bob" / "s1" / "gone.jpg").symlink_to("nothing.jpg")
    found = counted(data)
    assert found.counts == [[3, 1], [3], [1, 4, 2]]
    assert "1 (bob/s1/gone.jpg)" in found.remarks[0]


def test_what_cannot_be_read_is_an_error(data, monkeypatch):
    real = os.scandir

    def scandir(path):
        if path.endswith("s2"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    message = refused(data)
    assert "cannot be read: 2 (ann/s2 (Permission denied), cy/s2 (Permission denied))" in message


def test_nothing_to_count(data, tmp_path):
    (tmp_path / "void").mkdir()
    assert "expected files to count, got none" in refused(tmp_path / "void")
    message = refused(data, endings=(".png",))
    assert "with another ending, not counted: 13" in message


def test_neither_folder_nor_manifest(tmp_path):
    assert "expected a folder or a file" in refused(tmp_path / "nowhere")
    assert "cannot be read: No such file" in refused(tmp_path / "nowhere.csv", columns=("user",))


def test_names_that_steer_a_terminal_are_spelled_out(data):
    (data / "x\n\x1b[31m").mkdir()
    assert counted(data).remarks[0].endswith("(x\\x0a\\x1b[31m)")


def test_too_deep_a_tree(tmp_path):
    folder = tmp_path
    for _ in range(80):
        folder = folder / "d"
        folder.mkdir()
    assert "at most 64 deep" in refused(tmp_path)


def test_progress_is_told_up_to_the_end(data):
    heard = []
    scan(str(data), on_progress=heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1)
    assert len(heard) == 6  # folders of files


ROWS = [(user, session, str(n)) for user, inside in SESSIONS.items() for session, k in inside.items() for n in range(k)]


def csv_text(rows, delimiter=",", head=("user", "session", "image")):
    return "".join(delimiter.join(row) + "\n" for row in (head, *rows))


def jsonl_text(rows):
    return "".join(json.dumps(dict(zip(("user", "session", "image"), row, strict=True))) + "\n" for row in rows)


@pytest.fixture
def manifest(tmp_path):
    def written(text, name="rows.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (csv_text(ROWS[::-1]), "rows.csv"),
        (csv_text(ROWS, ";"), "rows.csv"),
        (csv_text(ROWS, "\t"), "rows.TSV"),
        ("\ufeff" + csv_text(ROWS).replace("\n", "\r\n"), "rows.csv"),
        (csv_text(ROWS) + "\n", "rows.csv"),
        (jsonl_text(ROWS), "rows.jsonl"),
        (jsonl_text(ROWS).replace("\n", "\n\n"), "rows.ndjson"),
    ],
)
def test_manifests(manifest, text, name):
    path = manifest(text, name)
    assert counted(path, columns=("user", "session")).counts == COUNTS
    assert counted(path, levels=("user", "session", "photo"), columns=("user", "session")).names[-1] == "photo"
    assert counted(path, levels=("user", "session", "photo")).counts == COUNTS
    assert counted(path, columns=("user",)).counts == [4, 2, 7]


def test_rows_that_agree_are_one_record_where_the_last_column_tells(manifest):
    path = manifest(csv_text(ROWS + ROWS[:4]))
    names = ("user", "session", "image")
    assert counted(path, levels=names, columns=names).counts == COUNTS
    assert counted(path, levels=names).counts == [[6, 2], [2], [1, 4, 2]]


def test_whole_numbers_are_words(manifest):
    text = '{"user": 1, "session": "a"}\n{"user": "1", "session": "b"}\n{"user": 2, "session": "a"}\n'
    assert counted(manifest(text, "rows.jsonl"), columns=("user",)).counts == [2, 1]


@pytest.mark.parametrize(
    ("text", "name", "phrase"),
    [
        (csv_text([*ROWS, ("ann", "", "1")]), "a.csv", "a.csv:15: expected a word"),
        (csv_text([*ROWS, ("ann", "s1")]), "a.csv", "a.csv:15: expected 3 columns, got 2"),
        (csv_text([*ROWS, ('"ann', "s1", "1")]), "a.csv", "cannot be read as CSV"),
        (csv_text(ROWS, head=("person", "session", "image")), "a.csv", "expected columns user, session, got person"),
        (csv_text(ROWS, head=("user", "session", "user")), "a.csv", "expected one column `user`, got 2"),
        ("", "a.csv", "got an empty file"),
        (csv_text([]), "a.csv", "expected a row for each record, got none"),
        (csv_text(ROWS).encode() + b"\xff,s,1\n", "a.csv", "a.csv:15: expected UTF-8"),
        (jsonl_text(ROWS) + "{", "a.jsonl", "a.jsonl:14: cannot be read as JSON"),
        (jsonl_text(ROWS) + "[1]", "a.jsonl", "a.jsonl:14: expected an object with user, session"),
        (jsonl_text(ROWS) + '{"user": "ann"}', "a.jsonl", "a.jsonl:14: expected a word or a whole number in column"),
        (jsonl_text([("ann", "", "1")]), "a.jsonl", "in column `session`, got nothing"),
        ('{"user": 1.5, "session": "a"}', "a.jsonl", "in column `user`, got 1.5"),
        ('{"user": true, "session": "a"}', "a.jsonl", "in column `user`, got True"),
        ('{"user": ["x"], "session": "a"}', "a.jsonl", "in column `user`"),
    ],
)
def test_what_is_wrong_with_a_manifest(manifest, text, name, phrase):
    assert phrase in refused(manifest(text, name), columns=("user", "session"))


def test_options_that_do_not_fit(data, manifest):
    path = manifest(csv_text(ROWS))
    assert "--columns: expected with a CSV" in refused(data, columns=("user",))
    assert "--suffix: expected with a folder" in refused(path, columns=("user",), endings=(".jpg",))
    assert "--columns: expected the column of each level" in refused(path)
    assert "got 1" in refused(path, levels=("user", "session", "image"), columns=("user",))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".ndjson"])
def test_what_never_ends_is_not_read(tmp_path, ending):
    path = tmp_path / f"rows{ending}"
    os.mkfifo(path)
    for _ in range(2):
        with pytest.raises(InputError, match="is not a regular file"):
            scan(str(path), columns=("user",), on_progress=lambda _: None)
        path.unlink()
        path.symlink_to("/dev/zero")


def test_a_line_without_an_end_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(manifests, "MAX_LINE", 1000)
    (tmp_path / "rows.csv").write_text("user\nann\n" + "b" * 2000, encoding="utf-8")
    with pytest.raises(InputError, match=r"rows.csv:3: expected at most 1000 characters in a line"):
        scan(str(tmp_path / "rows.csv"), columns=("user",), on_progress=lambda _: None)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("us\rer,a\n1,2\n", "rows.csv", ":1: cannot be read as CSV"),
        ("user,a\n1,2\r3\n", "rows.csv", ":2: cannot be read as CSV"),
        ('"us"er,a\n1,2\n', "rows.csv", ":1: cannot be read as CSV"),
        ('"user\n1,2\n', "rows.csv", ":1: cannot be read as CSV"),
        ("user," + "a" * 200_000 + "\n1,2\n", "rows.csv", ":1: cannot be read as CSV"),
        (
            '{"user": 1, "user": 2}\n',
            "rows.jsonl",
            ":1: cannot be read as JSON: the key `user` stands",
        ),
    ],
)
def test_rows_that_two_readers_may_take_differently(tmp_path, text, name, words):
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    assert words in refused(tmp_path / name, columns=("user",), levels=("user", "record"))
