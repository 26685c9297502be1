"""Reading what is no good file: bounded, never waiting."""

import io
import os
import sys
from pathlib import Path

import pytest

from dpcalc.config.load import load, load_text
from dpcalc.config.source import MAX_BYTES, ConfigError
from tests.config.texts import flat


def refusal(path):
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    (found,) = caught.value.diagnostics
    return found


def written(directory, content):
    path = directory / "f.yaml"
    path.write_bytes(content)
    return path


def stdin_of(content):
    return io.TextIOWrapper(io.BytesIO(content))


def test_a_missing_file(tmp_path):
    found = refusal(tmp_path / "none.yaml")
    assert (found.code, found.message, found.line) == ("DPC100", "no such file", None)
    assert found.path == str(tmp_path / "none.yaml")


def test_a_directory(tmp_path):
    assert (refusal(tmp_path).code, refusal(tmp_path).message) == ("DPC100", "is a folder")
    assert refusal(tmp_path).hint == f"name its files, e.g. '{tmp_path}/*.yaml'"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe").message == "is not a regular file"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no devices here")
def test_a_device_is_not_read():
    assert refusal("/dev/zero").message == "is not a regular file"


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="the superuser reads everything")
def test_an_unreadable_file(tmp_path):
    path = written(tmp_path, b"version: 1")
    path.chmod(0)
    assert "cannot be read" in refusal(path).message


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000])
def test_impossible_names(path):
    assert refusal(path).code == "DPC100"


def test_the_size_limit_is_exact(tmp_path):
    text = flat({}).encode()
    padded = text + b"#" * (MAX_BYTES - len(text))
    assert load(str(written(tmp_path, padded))).plan.steps == 100
    found = refusal(written(tmp_path, padded + b"#"))
    assert (found.code, found.message) == ("DPC111", "is larger than 256 KiB")


def test_the_limit_is_on_bytes_of_texts_too():
    with pytest.raises(ConfigError, match="DPC111"):
        load_text("#" + "é" * (MAX_BYTES // 2), path="f")


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf" + flat({}).encode(), flat({}).replace("\n", "\r\n").encode()])
def test_byte_order_mark_and_windows_lines(tmp_path, content):
    loaded = load(str(written(tmp_path, content)))
    assert loaded.plan == load_text(flat({}), path="f").plan
    assert loaded.mark("training.steps") == (5, 12)


@pytest.mark.parametrize(
    ("content", "offset", "line", "column"),
    [
        (b"version: 1\nname: caf\xe9\n", 20, 2, 10),
        (b"\xef\xbb\xbfversion: 1\nname: caf\xe9\n", 23, 2, 10),
        ("é: ".encode() + b"\xff", 4, 1, 4),
    ],
)
def test_bytes_that_are_not_utf8(tmp_path, content, offset, line, column):
    found = refusal(written(tmp_path, content))
    assert (found.code, found.line, found.column) == ("DPC100", line, column)
    assert f"0x{content[offset]:02x} at offset {offset}" in found.message


def test_utf16_is_named(tmp_path):
    assert "UTF-16" in refusal(written(tmp_path, "version: 1".encode("utf-16"))).message


def test_binary(tmp_path):
    found = refusal(written(tmp_path, b"\x7fELF\0\0"))
    assert (found.code, found.line, found.column) == ("DPC100", 1, 1)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", stdin_of(flat({}).encode()))
    loaded = load("-")
    assert (loaded.path, loaded.plan.steps) == ("<stdin>", 100)


def test_standard_input_has_the_same_limits(monkeypatch):
    monkeypatch.setattr(sys, "stdin", stdin_of(b"#" * (MAX_BYTES + 1)))
    found = refusal("-")
    assert (found.code, found.path) == ("DPC111", "<stdin>")
    monkeypatch.setattr(sys, "stdin", None)
    assert refusal("-").message == "cannot be read: standard input is closed"


def test_an_empty_name_is_shown():
    assert refusal("").format().startswith("'': error[DPC100]: no such file")
