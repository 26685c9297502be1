"""`dpcalc scan`: tables in every form, what cannot be read, and what is no table; more in `transcripts/scan.txt`."""

import json
import os
from pathlib import Path

import pytest
import yaml

WRONG = yaml.safe_load(Path(__file__).with_name("scan.yaml").read_text(encoding="utf-8"))
SESSIONS = {"ann": {"s1": 3, "s2": 1}, "bob": {"s1": 2}, "cy": {"s1": 1, "s2": 4, "s3": 2}}
COUNTS = [[3, 1], [2], [1, 4, 2]]
ROWS = [(user, session, str(n)) for user, inside in SESSIONS.items() for session, k in inside.items() for n in range(k)]
USER_SESSION = ("--columns", "user,session")


@pytest.fixture
def data(tmp_path):
    for user, session, number in ROWS:
        (tmp_path / "data" / user / session).mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / user / session / f"{number}.jpg").touch()
    return tmp_path / "data"


@pytest.fixture
def counted(real):
    """The counts that are found, nested by level, and what is said."""

    def scanned(path, *options):
        ended = real("scan", str(path), *options, "--output", "-")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)["tree"], ended.err

    return scanned


@pytest.fixture
def refused(real):
    def said(path, *options):
        ended = real("scan", str(path), *options)
        assert (ended.code, ended.out) == (2, "")
        return ended.err

    return said


def test_names_that_steer_a_terminal_are_spelled_out(counted, data):
    (data / "x\n\x1b[31m").mkdir()
    tree, said = counted(data)
    assert (tree, "(x\\x0a\\x1b[31m)" in said, "\x1b" in said) == (COUNTS, True, False)


def test_what_cannot_be_read_is_an_error(refused, data, monkeypatch):
    real = os.scandir

    def scandir(path):
        if str(path).endswith("s2"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert "cannot be read: 2 (ann/s2 (Permission denied), cy/s2 (Permission denied))" in refused(data)


def test_progress_is_told_up_to_the_end(counted, data, monkeypatch):
    heard = []
    monkeypatch.setattr("dpcalc.cli.configs.report_progress", heard.append)
    counted(data)
    assert (heard, heard[-1], len(heard)) == (sorted(heard), pytest.approx(1), 6)  # folders of files


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
    for words in (USER_SESSION, ("--levels", "user,session,photo"), (*USER_SESSION, "--levels", "user,session,photo")):
        assert counted(path, *words)[0] == COUNTS
    assert counted(path, "--columns", "user")[0] == [4, 2, 7]


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
