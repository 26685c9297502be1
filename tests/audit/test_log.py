"""Logs that cannot be used are refused in one sentence with their line; both formats say the same."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from dpcalc.audit.audit import audit_log
from dpcalc.config.load import load_text
from dpcalc.errors import InputError
from tests.audit.loaders import flat_config, jsonl, nested_config

ROWS = yaml.safe_load(Path(__file__).with_name("files.yaml").read_text(encoding="utf-8"))
FLAT = flat_config("fixed", units=5, batch=2, steps=4)
NESTED = nested_config("{scheme: all}", "{scheme: poisson, rate: 0.5}", tasks=4, examples=3, steps=2)


def audited(path, config=FLAT):
    """Entries, and all statistics of a log."""
    found = audit_log(load_text(config, path="run.yaml").plan, str(path), on_progress=lambda _: None)
    return found.entries, found.tests


@pytest.fixture
def log(tmp_path):
    def written(text, name="log"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return written


@pytest.mark.parametrize(
    ("config", "entries", "texts"),
    [
        (
            FLAT,
            4,
            [
                "[3, 1]\n[]\n[0]\n[2]\n",
                "\ufeff[3,1]\r\n\r\n[]\r\n[0]\r\n[2]",
                "step,index\n0,3\n0,1\n2,0\n3,2\n",
                "step;example\r\n0;3\r\n0; 1\r\n1;\r\n2;00\r\n3;2",
            ],
        ),
        (
            NESTED,
            3,
            [
                "[[3, 1], [0, 0]]\n[[2, 2]]\n",
                "step,task,example\n0,3,1\n0,0,0\n1,2,2\n",
                "step\ttask\texample\n0\t3\t1\n0\t0\t0\n\n1\t2\t2",
            ],
        ),
    ],
)
def test_both_formats_say_the_same(log, config, entries, texts):
    first, *others = (audited(log(text), config) for text in texts)
    assert first[0] == entries
    assert all(each == first for each in others)


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
        audited("log")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "message"), ROWS["wrong nested logs"])
def test_unusable_nested_logs(log, text, message):
    with pytest.raises(InputError) as caught:
        audited(log(text), NESTED)
    assert message in str(caught.value)


def test_small_pieces_and_blocks_read_the_same(log, monkeypatch):
    """Pieces of few bytes and blocks of few entries, as if the log were huge."""
    rng = np.random.default_rng(4)
    batches = [rng.integers(0, 1000, rng.integers(0, 9)).tolist() for _ in range(300)]
    config = flat_config("{scheme: poisson, rate: 0.004}", units=1000, length="", steps=300)
    lines = "".join(f"{step},{index}\n" for step, batch in enumerate(batches) for index in batch)
    lines += "299,\n" if not batches[-1] else ""
    paths = [log(jsonl(batches), "a"), log(f"step,index\n{lines}", "b")]
    whole = audited(paths[0], config)
    assert whole[0] == sum(map(len, batches))
    for piece, block in ((1 << 22, 500_000), (50, 20), (7, 1)):
        monkeypatch.setattr("dpcalc.audit.log._CHUNK", piece)
        monkeypatch.setattr("dpcalc.audit.log._BLOCK_ROWS", block)
        assert all(audited(path, config) == whole for path in paths)


def test_a_line_without_end_is_refused(log, monkeypatch):
    monkeypatch.setattr("dpcalc.audit.log._CHUNK", 100)
    monkeypatch.setattr("dpcalc.audit.log.MAX_LINE", 1000)
    with pytest.raises(InputError, match="expected at most 1000 characters in a line, got more"):
        audited(log("[" + "1," * 2000))


def test_what_is_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero", tmp_path / "missing", "", "a\0b"):
        with pytest.raises(InputError) as caught:
            audited(path)
        assert "\n" not in str(caught.value)


@pytest.mark.heavy
def test_standard_input(log):
    config = log(FLAT, "run.yaml")
    command = [sys.executable, "-m", "dpcalc", "audit-sampler", str(config), "-"]
    text = "step,index\n0,0\n0,1\n1,2\n1,3\n2,0\n2,4\n3,1\n3,2\n"
    ended = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("agrees: yes\nsteps: 4\nentries: 8\n")
