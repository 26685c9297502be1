"""`dpcalc scan`: counts of folders and tables, what is no plain file or row, and a section that goes into a config."""

import json
import os
from pathlib import Path

import pytest
import yaml

from dpcalc import load

WRONG = yaml.safe_load(Path(__file__).with_name("scan.yaml").read_text(encoding="utf-8"))
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
SESSIONS = {"ann": {"s1": 3, "s2": 1}, "bob": {"s1": 2}, "cy": {"s1": 1, "s2": 4, "s3": 2}}
COUNTS = [[3, 1], [2], [1, 4, 2]]
THREE = ("--levels", "user,session,image")
USER_SESSION = ("--columns", "user,session")


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


@pytest.fixture
def counted(real):
    """The counts that are found, nested by level; `names` and `remarks` of the last scan beside them."""

    def scanned(path, *options):
        ended = real("scan", str(path), *options, "--output", "-")
        assert ended.code == 0, ended.err
        scanned.said = ended.err
        if ended.out.startswith("# "):  # of one level: "# example: 4", and no tree
            name, count = ended.out.splitlines()[0].removeprefix("# ").split(": ")
            scanned.names = [name]
            return int(count)
        found = json.loads(ended.out)
        scanned.names = found["levels"]
        return found["tree"]

    return scanned


@pytest.fixture
def refused(real):
    def said(path, *options):
        ended = real("scan", str(path), *options)
        assert (ended.code, ended.out) == (2, "")
        return ended.err

    return said


# Folders


@pytest.mark.parametrize(
    ("path", "options", "names", "counts"),
    [
        ("data", THREE, ["user", "session", "image"], COUNTS),
        ("data", (), ["level_1", "level_2", "example"], COUNTS),
        ("data", ("--levels", "user,-,image"), ["user", "image"], [4, 2, 7]),
        ("data", ("--levels", "-,session,image"), ["session", "image"], [3, 1, 2, 1, 4, 2]),
        ("data", ("--levels", "-,-,image"), ["image"], 13),
        ("data/cy/s2", (), ["example"], 4),
    ],
)
@pytest.mark.usefixtures("data")
def test_folders(counted, path, options, names, counts):
    assert counted(path, *options) == counts
    assert counted.names == names
    assert ("--levels" in counted.said) == (options == () and len(names) > 1)


def test_only_some_endings(counted, data):
    for name in ("README.md", "ann/s1/A.JPG", "bob/s1/notes.txt"):
        (data / name).touch()
    for ending in (".jpg", "jpg", ".JPG"):
        assert counted(data, "--suffix", ending) == [[4, 1], [2], [1, 4, 2]]
        assert "with another ending, not counted: 2 (README.md, bob/s1/notes.txt)" in counted.said
    assert counted(data / "bob" / "s1", "--suffix", ".jpg", "--suffix", ".txt") == 3


def test_files_beside_folders_are_named(refused, data):
    (data / "labels.csv").touch()
    message = refused(data)
    assert "1 at depth 1 (labels.csv), 13 at depth 3 (ann/s1/0.jpg)" in message
    assert "--suffix" in message
    assert "at depth 2, one for each name" in refused(data, *LEVELS)


def test_what_is_no_record_is_left_out_and_named(counted, data, tmp_path):
    (data / ".DS_Store").touch()
    grow(data / "ann" / ".git", {"objects": 5})
    assert counted(data, *THREE) == COUNTS
    assert "hidden, not counted: 2 (.DS_Store, ann/.git)" in counted.said
    grow(data / "bob", {"s2": 0})
    grow(data / "dee", {"s1": 0, "s2": 0})
    (data / "x\n\x1b[31m").mkdir()
    assert counted(data, *THREE) == COUNTS
    assert "5 (bob/s2, dee/s1, dee/s2, ...)" in counted.said
    for name, target in {"ann/s1/loop": data, "bob/s1/up": tmp_path, "again": "ann", "cy/s1/self": "self"}.items():
        (data / name).symlink_to(target, target_is_directory=True)
    assert counted(data, *THREE) == COUNTS
    assert "links to folders of the same tree, not followed: 3 (again, ann/s1/loop, bob/s1/up)" in counted.said
    assert "broken links and what is neither file nor folder, not counted: 1 (cy/s1/self)" in counted.said
    assert "\x1b" not in counted.said


def test_a_link_out_of_the_tree_hides_records_and_one_to_a_file_is_one(counted, refused, data, tmp_path):
    (data / "bob" / "s1" / "copy.jpg").symlink_to("0.jpg")
    assert counted(data) == [[3, 1], [3], [1, 4, 2]]
    grow(tmp_path / "elsewhere", {"s1": 3})
    (data / "dee").symlink_to("../elsewhere", target_is_directory=True)
    message = refused(data)
    assert "would not be complete" in message
    assert "(dee)" in message


def test_names_that_steer_a_terminal_are_spelled_out(counted, data):
    (data / "x\n\x1b[31m").mkdir()
    counted(data)
    assert "(x\\x0a\\x1b[31m)" in counted.said


def test_what_cannot_be_read_is_an_error(refused, data, monkeypatch):
    real = os.scandir

    def scandir(path):
        if str(path).endswith("s2"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert "cannot be read: 2 (ann/s2 (Permission denied), cy/s2 (Permission denied))" in refused(data)


def test_nothing_to_count_and_too_deep_a_tree(refused, data, tmp_path):
    assert "with another ending, not counted: 13" in refused(data, "--suffix", ".png")
    folder = tmp_path / "void"
    folder.mkdir()
    assert "expected files to count, got none" in refused("void")
    for _ in range(80):
        folder = folder / "d"
        folder.mkdir()
    assert "at most 64 deep" in refused("void")


def test_progress_is_told_up_to_the_end(counted, data, monkeypatch):
    heard = []
    monkeypatch.setattr("dpcalc.cli.configs.report_progress", heard.append)
    counted(data)
    assert (heard, heard[-1], len(heard)) == (sorted(heard), pytest.approx(1), 6)  # folders of files


# Tables


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
def test_tables(counted, manifest, text, name):
    path = manifest(text, name)
    assert counted(path, *USER_SESSION) == COUNTS
    assert counted(path, *USER_SESSION, "--levels", "user,session,photo") == COUNTS
    assert counted.names[-1] == "photo"
    assert counted(path, "--levels", "user,session,photo") == COUNTS
    assert counted(path, "--columns", "user") == [4, 2, 7]


def test_rows_that_agree_are_one_record_where_the_last_column_tells(counted, manifest):
    path = manifest(csv_text(ROWS + ROWS[:4]))
    assert counted(path, *THREE, "--columns", "user,session,image") == COUNTS
    assert counted(path, *THREE) == [[6, 2], [2], [1, 4, 2]]
    text = '{"user": 1, "session": "a"}\n{"user": "1", "session": "b"}\n{"user": 2, "session": "a"}\n'
    assert counted(manifest(text, "rows.jsonl"), "--columns", "user") == [2, 1]  # whole numbers are words


@pytest.mark.parametrize(
    ("text", "name", "phrase"),
    [
        (csv_text([*ROWS, ("ann", "", "1")]), "a.csv", "a.csv:15: expected a word"),
        (csv_text([*ROWS, ("ann", "s1")]), "a.csv", "a.csv:15: expected 3 columns, got 2"),
        (csv_text([*ROWS, ('"ann', "s1", "1")]), "a.csv", "cannot be read as CSV"),
        (csv_text(ROWS, head=("person", "session", "image")), "a.csv", "expected columns user, session, got person"),
        (csv_text(ROWS, head=("user", "session", "user")), "a.csv", "expected one column `user`, got 2"),
        (csv_text([]), "a.csv", "expected a row for each record, got none"),
        (csv_text(ROWS).encode() + b"\xff,s,1\n", "a.csv", "a.csv:15: expected UTF-8"),
        (jsonl_text(ROWS) + "{", "a.jsonl", "a.jsonl:14: cannot be read as JSON"),
        (jsonl_text(ROWS) + "[1]", "a.jsonl", "a.jsonl:14: expected an object with user, session"),
        (jsonl_text(ROWS) + '{"user": "ann"}', "a.jsonl", "a.jsonl:14: expected a word or a whole number in column"),
        (jsonl_text([("ann", "", "1")]), "a.jsonl", "in column `session`, got nothing"),
        ("user," + "a" * 200_000 + "\n1,2\n", "a.csv", ":1: cannot be read as CSV"),
        *WRONG["tables"],
    ],
)
def test_what_is_wrong_with_a_table(refused, manifest, text, name, phrase):
    assert phrase in refused(manifest(text.encode() if isinstance(text, str) else text, name), *USER_SESSION)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".ndjson"])
def test_what_never_ends_is_not_read(refused, tmp_path, monkeypatch, ending):
    path = tmp_path / f"rows{ending}"
    os.mkfifo(path)
    assert "is not a regular file" in refused(path, "--columns", "user")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "is not a regular file" in refused(path, "--columns", "user")
    monkeypatch.setattr("dpcalc.scan.MAX_LINE", 1000)
    (tmp_path / "rows.csv").unlink(missing_ok=True)
    (tmp_path / "rows.csv").write_text("user\nann\n" + "b" * 2000, encoding="utf-8")
    assert "rows.csv:3: expected at most 1000 characters in a line" in refused("rows.csv", "--columns", "user")


@pytest.mark.parametrize(("arguments", "phrase"), WRONG["arguments"])
def test_refusals(real, data, manifest, arguments, phrase, tmp_path):
    manifest(csv_text(ROWS))
    ended = real("scan", *arguments.split())
    assert (ended.code, bool(ended.out)) == (2, "--json" in arguments)
    assert phrase in ended.err
    assert {one.name for one in tmp_path.iterdir()} == {data.name, "rows.csv"}


# What is printed goes into a config


@pytest.fixture
def folder(tmp_path):
    grow(tmp_path / "data", {"ann": 3, "bob": 1, "cy": 2})
    return "data"


def test_what_is_printed_is_a_section_of_a_config(real, folder, tmp_path):
    ended = real("scan", folder, *LEVELS)
    assert (ended.code, ended.err) == (0, "note: wrote counts.json\n")
    assert ended.out.startswith("# user: 3\n# image: 6, 1 to 3 in each user\ndata:\n")
    (tmp_path / "run.yaml").write_text(ended.out + REST, encoding="utf-8")
    assert load("run.yaml").phases[0].hierarchy.tree.sizes == ((3,), (3, 1, 2))
    assert real("epsilon", "run.yaml", "-q").code == 0


def test_equal_sizes_need_no_tree(real, folder, tmp_path):
    for name in ("ann/1.jpg", "ann/2.jpg", "cy/1.jpg"):
        (tmp_path / "data" / name).unlink()
    ended = real("scan", folder, *LEVELS)
    assert ended.out.endswith("data:\n  levels: [{name: user, count: 3}, {name: image, count: 1}]\n")
    assert not (tmp_path / "counts.json").exists()
    (tmp_path / "run.yaml").write_text(ended.out + REST, encoding="utf-8")
    assert load("run.yaml").phases[0].hierarchy.units(2) == 3
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


def test_column_names_that_are_no_level_names(real, tmp_path):
    (tmp_path / "rows.csv").write_text("user id\na\nb\na\n", encoding="utf-8")
    ended = real("scan", "rows.csv", "--columns", "user id")
    assert ended.code == 2
    assert "--levels: expected a word" in ended.err
    ended = real("scan", "rows.csv", "--columns", "user id", "--levels", "user,example")
    assert "levels: [{name: user}, {name: example}]" in ended.out
