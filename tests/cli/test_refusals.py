"""What is no question: every command says in one sentence what it expects, and answers nothing."""

import shlex
from pathlib import Path

import numpy as np
import pytest
import yaml

ROWS = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("words", "said"), ROWS)
def test_what_is_no_question(real, file, words, said):
    path = str(file())
    np.save("votes.npy", np.array([[220, 20, 10], [120, 110, 20], [250, 0, 0], [180, 40, 30]] * 25))
    ended = real(*shlex.split(words.replace("FILE", path)))
    assert (ended.code, bool(ended.out)) == (2, "--json" in words)
    last = ended.err.splitlines()[-1]
    assert said in (ended.err if last.startswith("  |") else last)  # of a finding the last line shows its place
    assert "Value error" not in ended.err
