"""References into Python, gin and shell: what is read, at which place, and what is refused."""

import json
import time
from contextlib import suppress

import pytest

from dpcalc.config.files import SUFFIXES, Refusal
from dpcalc.config.readers import READERS, read_document
from dpcalc.config.source import source_of
from dpcalc.config.tree import Scalar, node_at, split_path
from tests.config.texts import corpus

ROWS = corpus("code_files")
BEGINNINGS = ROWS["beginnings"] | {"": ""}


def found(text, path, suffix=".py"):
    """The scalar at a path of a file, or the words of its refusal."""
    try:
        document = read_document(source_of(text, f"file{suffix}"), suffix)
    except Refusal as cause:
        return f"{cause.message} {cause.hint}"
    steps, _ = split_path(path)
    keys = [key for key, _, _ in steps]
    for length in range(1, len(keys) + 1):
        if ".".join(map(str, keys[:length])) in document.refused:
            return document.refused[".".join(map(str, keys[:length]))].message
    node = node_at(document.tree, *keys)
    return node if isinstance(node, Scalar) else "none"


@pytest.mark.parametrize(("beginning", "text", "path", "value", "line"), ROWS["states"])
def test_what_python_states(beginning, text, path, value, line):
    text = BEGINNINGS[beginning] + text
    node = found(text, path)
    assert isinstance(node, Scalar), node
    assert (node.text, node.plain, node.mark.line) == (value, True, line)
    assert text.splitlines()[line - 1][node.mark.column - 1 :].lstrip('"').startswith(value)


LARGE = [["", text, "x", "Python"] for text in ("x = " + "-" * 100_000 + "1", "x = " + "9" * 5000)]


@pytest.mark.parametrize(("beginning", "text", "path", "words"), ROWS["refuses"] + LARGE)
def test_what_python_does_not_state(beginning, text, path, words):
    said = found(BEGINNINGS[beginning] + text, path)
    assert isinstance(said, str), said
    assert words in said


def notebook(*cells):
    """The text of a notebook with these code cells."""
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": ["S = 3\n"]}, *made]}, indent=1)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (("%matplotlib inline\n!pip install x\nimport y", "S = 1.1\nN = 2"), "1.1"),
        (("%%time\nS = 1.1",), "1.1"),
        (("%%bash\nS=3", "S = 1.1"), "1.1"),
        (("S = 1.1", "S = 2"), "more than once, in lines"),
        (("S = 1.1", "%run other.py"), "`%run other.py`, which may bind any name"),
        (("S = 1.1", "get_ipython().run_line_magic('run', 'x')"), "`get_ipython`, which may bind any name"),
        (("S = 1.1", "%%prun\nS = 2"), "`%%prun`, which may bind any name"),
        (("S = 1.1", "%time S = 2"), "`%time S = 2`, which may bind any name"),
        (("S = 1.1", "%%capture S\nprint(2)"), "`%%capture S`, which may bind any name"),
        (("S = 1.1", "%%bash --out S\necho 2"), "`%%bash --out S`, which may bind any name"),
        (("S = 1.1", "%%js\nIPython.notebook.kernel.execute('S = 2')"), "`%%js`, which may bind any name"),
    ],
)
def test_a_notebook(cells, said):
    text = notebook(*cells)
    node = found(text, "S", ".ipynb")
    assert getattr(node, "text", None) == said or said in node
    assert not isinstance(node, Scalar) or "S = 1.1" in text.splitlines()[node.mark.line - 1]


def test_a_notebook_without_lines():
    assert "not written line by line" in found(json.dumps(json.loads(notebook("S = 1\nT = 2"))), "S", ".ipynb")


def test_every_ending_has_a_reader():
    assert set(READERS) == set(SUFFIXES)


@pytest.mark.parametrize(("text", "suffix", "path", "value", "line", "column"), ROWS["gin and shell"])
def test_what_gin_and_shell_state(text, suffix, path, value, line, column):
    node = found(text, path, suffix)
    assert isinstance(node, Scalar), node
    assert (node.text, node.mark.line, node.mark.column) == (value, line, column)


LONG = ["Opt.s = (\n" + "x\n" * 300, ".gin", "Opt.s", "line 1: the value cannot be read"]
CHAIN = ["".join(f"A{x} = %A{x + 1}\n" for x in range(30)) + "A30 = 1\n", ".gin", "A0", "no literal"]


@pytest.mark.parametrize(("text", "suffix", "path", "words"), [*ROWS["gin and shell refuse"], LONG, CHAIN])
def test_what_gin_and_shell_do_not_state(text, suffix, path, words):
    said = found(text, path, suffix)
    assert isinstance(said, str), said
    assert words in said


BOMBS = {
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
@pytest.mark.parametrize(("suffix", "text"), BOMBS.values(), ids=BOMBS)
def test_a_hostile_file_is_read_or_refused_soon(suffix, text):
    start = time.process_time()
    with suppress(Refusal):
        read_document(source_of(text, f"file{suffix}"), suffix)
    assert time.process_time() - start < 15
