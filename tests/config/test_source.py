"""Reading what is no good file, or one that asks for much work: bounded, never waiting. See corpus/sources.yaml."""

import io
import os
import sys
import time
from pathlib import Path

import pytest

from dpcalc.config.load import load
from dpcalc.config.source import ConfigError
from tests.config.texts import errors, flat, plan

LARGEST = 256 * 1024  # bytes


def refusal(path):
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    (found,) = caught.value.diagnostics
    return found


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe").message == "is not a regular file"


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no devices here")
def test_a_device_is_not_read():
    assert refusal("/dev/zero").message == "is not a regular file"


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="the superuser reads everything")
def test_an_unreadable_file(tmp_path):
    path = tmp_path / "f.yaml"
    path.touch(mode=0)
    assert "cannot be read" in refusal(path).message


@pytest.mark.parametrize("path", ["", "a\0b", "a*", "x" * 5000, "x" * 5000 + "/a.yaml"])
def test_impossible_names(path):
    assert refusal(path).code == "DPC100"
    assert path or refusal(path).format().startswith("'': error[DPC100]: no such file")


def test_standard_input_and_its_limits(tmp_path, monkeypatch):
    """It refers to other files from the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("n: 5\n", encoding="utf-8")
    text = flat({"training": "{steps: '${a.yaml:n}'}"}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text + b"#" * (LARGEST - len(text)))))
    loaded = load("-")
    assert (loaded.path, loaded.plan.steps) == ("<stdin>", 5)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"#" * (LARGEST + 1))))
    assert (refusal("-").code, refusal("-").path) == ("DPC111", "<stdin>")
    monkeypatch.setattr(sys, "stdin", None)
    assert refusal("-").message == "cannot be read: standard input is closed"


ALIASES = list(zip("abcdefgh", "bcdefghi", strict=True))
BOMBS = {
    "aliases": "x-a: &a [1,1,1,1,1,1,1,1,1,1]\n"
    + "".join(f"x-{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in ALIASES),
    "merged aliases": "x-a: &a {k: 1}\n"
    + "".join(f"x-{name}: &{name} {{<<: [{','.join([f'*{before}'] * 10)}]}}\n" for before, name in ALIASES),
    "a chain": "x-a0: &a0 [1]\n" + "".join(f"x-a{index + 1}: &a{index + 1} [*a{index}]\n" for index in range(60)),
    "depth": "\n".join(" " * depth + "a:" for depth in range(300)),
    "phases that inherit": flat(
        {
            "sampling": "{" + ", ".join(f"l{i}: 1" for i in range(4000)) + "}",
            "phases": "[" + "{name: x}, " * 900 + "]",
        }
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_quickly(text):
    start = time.process_time()
    assert [error.code for error in errors(text)] == ["DPC111"]
    assert time.process_time() - start < 5  # seconds; a tenth of a second is usual, without limits it is minutes


@pytest.mark.heavy
def test_many_mistakes_are_all_told_quickly():
    start = time.process_time()
    found = errors(flat({}) + "\n" + "".join(f"stepss{index}: 1\n" for index in range(9000)))
    assert sum(error.code == "DPC101" for error in found) == 9000
    names = ", ".join(f"k{index}: '${{k{index}x}}'" for index in range(4000))
    assert len(errors(flat({"training": f"{{{names}}}"}))) > 4000
    assert time.process_time() - start < 50


def test_chains_of_references_end():
    def chain(length):
        links = "".join(f"x-c{index}: ${{x-c{index + 1}}}\n" for index in range(length - 1))
        return flat({"training": "{steps: '${x-c0}'}"}) + links + f"x-c{length - 1}: 3\n"

    assert plan(chain(8)).steps == 3
    (found,) = errors(chain(9))
    assert (found.code, "more than 8 references" in found.message) == ("DPC111", True)


def test_references_lead_into_at_most_16_files(tmp_path):
    for index in range(17):
        (tmp_path / f"f{index}.yaml").write_text(f"m: 0.5\nn: ${{f{index + 1}.yaml:n}}\n", encoding="utf-8")
    levels = ", ".join(f"{{name: l{index}, count: '${{f{index}.yaml:m}}'}}" for index in range(15))
    privacy = "{adjacency: add-remove, unit: l0, delta: '${f15.yaml:m}', group_size: '${f16.yaml:m}'}"
    text = flat({"data": f"{{levels: [{levels}]}}", "sampling": "{l0: {scheme: all}}", "privacy": privacy})
    (tmp_path / "run.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="more than 16 files"):
        load(str(tmp_path / "run.yaml"))


@pytest.mark.parametrize(("orders", "words"), [(1000, ""), (1001, "1 to 1000 orders, got 1001")])
def test_long_curves(tmp_path, orders, words):
    (tmp_path / "curve.csv").write_text("order,epsilon\n" + "".join(f"{2 + n},{n}\n" for n in range(orders)))
    (tmp_path / "run.yaml").write_text(flat({"mechanism": "{type: rdp-curve, curve: {file: curve.csv}}"}))
    if words:
        assert words in refusal(tmp_path / "run.yaml").message
    else:
        assert len(load(str(tmp_path / "run.yaml")).plan.phases[0].mechanism.curve) == 1000
