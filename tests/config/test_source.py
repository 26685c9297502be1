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


CODE_BOMBS = {
    "an f-string": (".py", 'x = f"' + "{a}" * 60_000 + '"'),
    "a chain": (".py", "x = a" + ".b" * 100_000),
    "many classes": (".py", "".join(f"class C{at}(C{at - 1}):\n x = 1\n" for at in range(8_000))),
    "one name again and again": (".py", "N = 1\n" * 40_000),
    "fields and calls": (".py", "class A:\n" + "".join(f" f{at} = 1\n" for at in range(9_000)) + "A()\n" * 15_000),
    "a class of flags": (".py", "class A:\n" + "".join(f" f{x}: int=1\n" for x in range(7999)) + "HfArgumentParser(A)"),
    "a config": (".py", "def get_config():\n c = ConfigDict()\n" + " c.a = 1\n" * 20_000 + " return c\n"),
    "gin that goes on": (".gin", ("X.a = (\n" + "1,\n" * 98 + ")\n") * 700),
    "many bindings": (".gin", "".join(f"m{at}.A.b = 1\n" for at in range(15_000))),
    "an open quote": (".sh", '"' + "a" * 200_000),
    "flags": (".sh", "--a 1\n" * 40_000),
    "a chain of classes": (".py", "".join(f"class C{at}(C{at - 1}):\n" + " x = a(b)\n" * 20 for at in range(490))),
    "set inside": (".py", "def f():\n c = ConfigDict({'a': {}})\n" + " c.a.b = 1\n" * 20_000 + " return c\n"),
    "arguments": (".py", "f(" + ",".join(f"a{x}=a{x}*1" for x in range(16_000)) + ")"),
    "arguments and a list": (".py", "f(" + ",".join(f"a{x}=1" for x in range(990)) + ",b=[" + "1," * 60_000 + "])"),
    "calls alike": (".py", "f(a=1,b=2)\n" * 499 + "x['a'] = 1\n" * 15_000),
    "many calls": (".py", "".join(f"f{x}(a=1)\n" for x in range(16_000))),
    "options handed on": (".sh", "t " + " ".join(f"--a{x} 1" for x in range(15_000)) + ' "$@"' * 9_000),
    "names handed on": (".py", "p=ArgumentParser()\nn0=p\n" + "".join(f"n{x + 1}=n{x}\n" for x in range(16_000))),
    "one function again and again": (".py", "p=ArgumentParser()\ndef f(x): return x\n" + "f(p)\n" * 40_000),
    "fields": (".py", "@dataclass\nclass A:\n" + "".join(f" a{x}: int=1\n" for x in range(15_000))),
    "parts": (".py", "C={'a': {}}\ndef f(" + ",".join(map("a{}".format, range(8_000))) + "): 0\n" + "f(**C)\n" * 9000),
    "words made behind": (".sh", "t " + " ".join(f"--a{x} 1 $A$B" for x in range(15_000))),
    "parsers": (".py", "p=ArgumentParser()\n" * 6_000 + "p.add_argument('--a')\n" * 6_000),
    "parsed flags": (".py", "".join(f"a{x}=p.parse_args()\n" for x in range(6_000)) + "def f("
                     + ",".join(map("a{}".format, range(6_000))) + "): 0\np.add_argument('--a')\n"),
    "functions that give": (".py", "".join(f"def f{x}(): return f{x + 1}()\na=f{x}()\n" for x in range(499))),
    "points": (".toml", "\n".join(f"x{at}." + ".".join(["a"] * 400) + " = 1" for at in range(250))),
}  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize(("suffix", "text"), CODE_BOMBS.values(), ids=CODE_BOMBS)
def test_a_hostile_file_of_code_is_read_or_refused_soon(suffix, text, tmp_path):
    (tmp_path / f"file{suffix}").write_text(text, encoding="utf-8")
    (tmp_path / "run.yaml").write_text(flat({"training": f"{{steps: '${{file{suffix}:none}}'}}"}), encoding="utf-8")
    start = time.process_time()
    assert refusal(tmp_path / "run.yaml").code in {"DPC110", "DPC111"}
    assert time.process_time() - start < 15


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
