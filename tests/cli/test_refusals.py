"""What is no question: every command says in one sentence what it expects, and answers nothing."""

import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.cli.solving import FLAT

ROWS = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}, {row[1]}")
def test_what_is_no_question(real, file, row):
    words, said, *texts = row
    path = file(*(texts or [FLAT]))
    np.save("votes.npy", np.array([[220, 20, 10], [120, 110, 20], [250, 0, 0], [180, 40, 30]] * 25))
    ended = real(*shlex.split(words.replace("FILE", str(path))))
    assert (ended.code, bool(ended.out)) == (2, "--json" in words)
    last = ended.err.splitlines()[-1]
    assert said in (ended.err if last.startswith("  |") else last)  # of a finding the last line shows its place
    assert said != "DPC102" or ended.err.count(said) == 1
    assert "Value error" not in ended.err
