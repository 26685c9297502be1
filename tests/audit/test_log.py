"""Logs that cannot be used are refused in one sentence with their line; both formats say the same."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from dpcalc.audit import log as reader
from dpcalc.audit.log import read_blocks
from dpcalc.errors import InputError
from tests.audit.loaders import jsonl

ROWS = yaml.safe_load(Path(__file__).with_name("files.yaml").read_text(encoding="utf-8"))

FLAT = ("example",), 4
NESTED = ("task", "example"), 2


def rows(path, form):
    """Every entry as (step, path), and the steps that the blocks cover."""
    blocks = list(read_blocks(str(path), *form, on_progress=lambda _: None))
    entries = [
        (int(step), *map(int, indices))
        for block in blocks
        for step, indices in zip(block.steps, block.paths, strict=True)
    ]
    return entries, [(block.first, block.end) for block in blocks]


@pytest.fixture
def log(tmp_path):
    def written(text, name="log"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("[3, 1]\n[]\n[0]\n[2]\n", FLAT),
        ("\ufeff[3,1]\r\n\r\n[]\r\n[0]\r\n[2]", FLAT),
        ("step,index\n0,3\n0,1\n2,0\n3,2\n", FLAT),
        ("step;example\r\n0;3\r\n0; 1\r\n1;\r\n2;00\r\n3;2", FLAT),
        ("[[3, 1], [0, 0]]\n[[2, 2]]\n", NESTED),
        ("step,task,example\n0,3,1\n0,0,0\n1,2,2\n", NESTED),
        ("step\ttask\texample\n0\t3\t1\n0\t0\t0\n\n1\t2\t2", NESTED),
    ],
)
def test_both_formats(log, text, form):
    entries, covered = rows(log(text), form)
    if form is FLAT:
        assert entries == [(0, 3), (0, 1), (2, 0), (3, 2)]
    else:
        assert entries == [(0, 3, 1), (0, 0, 0), (1, 2, 2)]
    assert (covered[0][0], covered[-1][1]) == (0, form[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *ROWS["wrong logs"],
        (f"[1]\n[{'9' * 5000}]\n", "log:2: expected a JSON array, the batch of one step, got [999"),
        ("[1]\n" + "[" * 100_000 + "\n", "log:2: expected a JSON array, the batch of one step, got [[["),
        (b"[1]\n[\xff]\n", "log:2: expected UTF-8 text, got other bytes"),
    ],
)
def test_unusable_logs(log, monkeypatch, text, message):
    path = log(text)
    monkeypatch.chdir(path.parent)
    with pytest.raises(InputError) as caught:
        rows("log", FLAT)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "message"), ROWS["wrong nested logs"])
def test_unusable_nested_logs(log, text, message):
    with pytest.raises(InputError) as caught:
        rows(log(text), NESTED)
    assert message in str(caught.value)


def test_small_pieces_and_blocks_read_the_same(log, monkeypatch):
    """Pieces of few bytes and blocks of few entries, as if the log were huge."""
    rng = np.random.default_rng(4)
    batches = [rng.integers(0, 1000, rng.integers(0, 9)).tolist() for _ in range(300)]
    form = ("example",), 300
    lines = "".join(f"{step},{index}\n" for step, batch in enumerate(batches) for index in batch)
    lines += "299,\n" if not batches[-1] else ""
    expected = [(step, index) for step, batch in enumerate(batches) for index in batch]
    paths = [log(jsonl(batches), "a"), log(f"step,index\n{lines}", "b")]
    for piece, block in ((1 << 22, 500_000), (50, 20), (7, 1)):
        monkeypatch.setattr(reader, "_CHUNK", piece)
        monkeypatch.setattr(reader, "_BLOCK_ROWS", block)
        for path in paths:
            entries, covered = rows(path, form)
            assert entries == expected
            assert [first for first, _ in covered[1:]] == [end for _, end in covered[:-1]]


def test_a_line_without_end_is_refused(log, monkeypatch):
    monkeypatch.setattr(reader, "_CHUNK", 100)
    monkeypatch.setattr(reader, "MAX_LINE", 1000)
    with pytest.raises(InputError, match="expected at most 1000 characters in a line, got more"):
        rows(log("[" + "1," * 2000), FLAT)


def test_what_is_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero", tmp_path / "missing", "", "a\0b"):
        with pytest.raises(InputError) as caught:
            rows(path, FLAT)
        assert "\n" not in str(caught.value)


CONFIG = """\
version: 1
data: {examples: 5}
sampling: {scheme: fixed}
mechanism: {noise_multiplier: 2}
training: {batch_size: 2, steps: 4}
privacy: {adjacency: add-remove, delta: 1e-6}
"""


@pytest.mark.heavy
def test_standard_input(log):
    config = log(CONFIG, "run.yaml")
    command = [sys.executable, "-m", "dpcalc", "audit-sampler", str(config), "-"]
    text = "step,index\n0,0\n0,1\n1,2\n1,3\n2,0\n2,4\n3,1\n3,2\n"
    ended = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("agrees: yes\nsteps: 4\nentries: 8\n")
