"""References into Python, gin and shell: what is read, at which place, and what is refused."""

import time
from contextlib import suppress

import pytest

from dpcalc.config.files import SUFFIXES, Refusal
from dpcalc.config.readers import READERS, read_document
from dpcalc.config.source import source_of
from dpcalc.config.tree import Scalar, node_at, split_path

HEAD = "import argparse\nparser = argparse.ArgumentParser()\n"
ARGUMENT = HEAD + 'parser.add_argument("--sigma", type=float, default=1.1)\n'
PARSED = "args = parser.parse_args()\n"
DATACLASS = "from dataclasses import dataclass, field\n@dataclass\nclass DP:\n    sigma: float = 1.1\n"
ABSL = "from absl import flags\n"
TYPER = "import typer\napp = typer.Typer()\n"
COLLECTIONS = "import ml_collections\ndef get_config():\n    config = ml_collections.ConfigDict()\n"


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


VALUES = [  # file, path, text, line
    (ARGUMENT + PARSED, "flags.sigma", "1.1", 3),
    (HEAD + 'parser.add_argument("-s", "--sigma", default=1e-5)\n', "flags.sigma", "1e-5", 3),
    (HEAD + 'parser.add_argument("--noise-multiplier", default=1_0)\n', "flags.noise_multiplier", "1_0", 3),
    (HEAD + 'parser.add_argument("--x", dest="sigma", default=-2)\n', "flags.sigma", "-2", 3),
    (HEAD + 'parser.add_argument("--sigma", type=float, default="1.1")\n', "flags.sigma", "1.1", 3),
    ("def main(argv=None):\n  p.add_argument('--é', default=3)\n  p.parse_args(argv)\n", "flags.é", "3", 2),
    ("if __name__ == '__main__':\n  p.add_argument('--n', default=3)\n", "flags.n", "3", 2),
    (ARGUMENT + "print(args.sigma, vars(args))\nmodel.eval()\n", "flags.sigma", "1.1", 3),
    (ARGUMENT + "class Net:\n  def __init__(self, sigma):\n    self.sigma = sigma\n", "flags.sigma", "1.1", 3),
    (ABSL + 'flags.DEFINE_float("sigma", 1.1, "noise")\n', "flags.sigma", "1.1", 2),
    (ABSL + '_S = flags.DEFINE_float(name="sigma", default=1.1, help="")\n', "flags.sigma", "1.1", 2),
    ('@click.command()\n@click.option("--sigma", default=1.1)\ndef main(sigma):\n  pass\n', "flags.sigma", "1.1", 2),
    (TYPER + "@app.command()\ndef main(sigma: float = 1.1):\n  pass\n", "flags.sigma", "1.1", 4),
    (TYPER + '@app.command()\ndef main(x: float = typer.Option(1.1, "--sigma")):\n  pass\n', "flags.x", "1.1", 4),
    ("import typer\ndef main(sigma: float = 1.1):\n  pass\ntyper.run(main)\n", "flags.sigma", "1.1", 2),
    (DATACLASS + "parser = HfArgumentParser((DP, Other))\n", "flags.sigma", "1.1", 4),
    (DATACLASS + "parser = HfArgumentParser(DP)\n", "DP.sigma", "1.1", 4),
    (DATACLASS, "DP.sigma", "1.1", 4),
    (DATACLASS + "    n: int = field(default=60_000)\n", "DP.n", "60_000", 5),
    ("class Config:\n  sigma = 1.1\n", "Config.sigma", "1.1", 2),
    ("SIGMA: float = 1.1\n", "SIGMA", "1.1", 1),
    ("C = {'dp': {'sigma': 1.1, 'list': [1, 2]}}\n", "C.dp.sigma", "1.1", 1),
    ("C = {'dp': {'sigma': 1.1, 'list': [1, 2]}}\n", "C.dp.list[1]", "2", 1),
    (COLLECTIONS + "    config.sigma = 1.1\n    return config\n", "get_config.sigma", "1.1", 4),
    (COLLECTIONS + "    config.dp = ml_collections.ConfigDict()\n    config.dp.sigma = 1.1\n    return config\n",
     "get_config.dp.sigma", "1.1", 5),
    ("def get_config():\n  c = config_dict.create(sigma=1.1)\n  return c\n", "get_config.sigma", "1.1", 2),
]  # fmt: skip


@pytest.mark.parametrize(("text", "path", "value", "line"), VALUES)
def test_what_python_states(text, path, value, line):
    node = found(text, path)
    assert isinstance(node, Scalar), node
    assert (node.text, node.plain, node.mark.line) == (value, True, line)
    assert text.splitlines()[line - 1][node.mark.column - 1 :].lstrip('"').startswith(value)


TWICE = "more than once"
REFUSED = [  # file, path, words
    (HEAD + 'parser.add_argument("--sigma", default=2 * 3)\n', "flags.sigma", "`2 * 3`, which is code"),
    (HEAD + 'parser.add_argument("--sigma", type=float)\n', "flags.sigma", "no default"),
    (HEAD + 'parser.add_argument("--sigma", default=None)\n', "flags.sigma", "is None"),
    (HEAD + 'parser.add_argument("--sigma", required=True, default=1.1)\n', "flags.sigma", "required"),
    (HEAD + 'parser.add_argument("sigma", default=1.1)\n', "flags.sigma", "positional"),
    (HEAD + 'parser.add_argument("--sigma", type=Noise, default="1.1")\n', "flags.sigma", "converted by `Noise`"),
    (HEAD + 'parser.add_argument("--sigma", default=1.1, action=Mine)\n', "flags.sigma", "`action`"),
    (HEAD + 'parser.add_argument("--sigma", default=1.1, **more)\n', "flags.sigma", "not all of its arguments"),
    (HEAD + 'if x:\n  parser.add_argument("--sigma", default=1.1)\n', "flags.sigma", "the `if` of line 3"),
    (HEAD + 'for x in y:\n  parser.add_argument("--sigma", default=1.1)\n', "flags.sigma", "the `for` of line 3"),
    (HEAD + 'try:\n  parser.add_argument("--sigma", default=1.1)\nfinally:\n  pass\n', "flags.sigma", "`try`"),
    (HEAD + 'with x:\n  parser.add_argument("--sigma", default=1.1)\n', "flags.sigma", "`with`"),
    (HEAD + 'match x:\n  case 1:\n    parser.add_argument("--sigma", default=1.1)\n', "flags.sigma", "`match`"),
    (HEAD + 'x and parser.add_argument("--sigma", default=1.1)\n', "flags.sigma", "part of another expression"),
    (ARGUMENT + 'other.add_argument("--sigma", default=2)\n', "flags.sigma", TWICE),
    (ARGUMENT + 'other.add_argument("--x", dest="sigma", default=2)\n', "flags.sigma", TWICE),
    (ARGUMENT + "parser.set_defaults(sigma=2)\n", "flags.sigma", "line 4 uses `set_defaults`"),
    (ARGUMENT + "f = parser.set_defaults\nf(sigma=2)\n", "flags.sigma", "line 4"),
    (ARGUMENT + 'parser.parse_args(["--sigma", "2"])\n', "flags.sigma", "arguments of its own"),
    (ARGUMENT + 'parser.parse_args(["--" + "sigma=2"])\n', "flags.sigma", "arguments of its own"),
    (ARGUMENT + "def f(a=['x']):\n  parser.parse_args(a)\n", "flags.sigma", "arguments of its own"),
    (ARGUMENT + "parser.parse_args(namespace=n)\n", "flags.sigma", "arguments of its own"),
    (ARGUMENT + 'sys.argv.append("--sigma=2")\n', "flags.sigma", "`--sigma` stands in lines 3 and 4"),
    (ARGUMENT + "sys.argv = argv\n", "flags.sigma", "assigns `argv`"),
    (ARGUMENT + PARSED + "args.sigma = 2\n", "flags.sigma", "line 5 assigns another `sigma`"),
    (ARGUMENT + PARSED + "args.sigma *= 2\n", "flags.sigma", "line 5 assigns another"),
    (ARGUMENT + PARSED + "vars(args)['sigma'] = 2\n", "flags.sigma", "line 5 assigns another"),
    (ARGUMENT + PARSED + "vars(args).update(other)\n", "flags.sigma", "changes parsed flags"),
    (ARGUMENT + PARSED + "args.__dict__.update(other)\n", "flags.sigma", "changes parsed flags"),
    (ARGUMENT + PARSED + "setattr(args, 'sigma', 2)\n", "flags.sigma", "uses `setattr`"),
    ('p = ArgumentParser(fromfile_prefix_chars="@")\np.add_argument("--s", default=1)\n', "flags.s", "fromfile_prefix"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nflags.FLAGS.s = 2\n', "flags.s", "line 3 assigns another"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nFLAGS["s"].value = 2\n', "flags.s", "line 3 assigns another"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nflags.set_default(S, 2)\n', "flags.s", "uses `set_default`"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nflags.mark_flag_as_required("s")\n', "flags.s", "mark_flag"),
    ('@click.option("--s", default=1.1, envvar="S")\ndef main(s):\n  pass\n', "flags.s", "`envvar`"),
    ('@click.option("--s", default=1.1, prompt=True)\ndef main(s):\n  pass\n', "flags.s", "required"),
    ('@click.option("--s", default=1.1)\ndef main(s):\n  s = s * 2\n', "flags.s", "`main` assigns another `s`"),
    ('@click.option("--s", default=1.1)\ndef main(s):\n  pass\nmain(s=2)\n', "flags.s", "calls `main` with values"),
    ('@click.option("--s", default=1.1)\ndef f(s):\n  pass\nf(default_map={})\n', "flags.s", "default_map"),
    (TYPER + "@app.command()\ndef f(s: float = typer.Option(...)):\n  pass\n", "flags.s", "no default"),
    (TYPER + "@app.command()\ndef f(s: float = typer.Argument(1.1)):\n  pass\n", "flags.s", "positional"),
    (TYPER + '@app.command()\ndef f(s: float = typer.Option(1, envvar="S")):\n  pass\n', "flags.s", "`envvar`"),
    (TYPER + "@app.command()\ndef f(s: float = typer.Option(1, **more)):\n  pass\n", "flags.s", "not all of its"),
    (DATACLASS + "config = DP(sigma=2)\n", "DP.sigma", "line 5 calls `DP` with values of its own"),
    (DATACLASS + "config = DP(**given)\n", "DP.sigma", "calls `DP` with values of its own"),
    (DATACLASS + "config = replace(DP(), sigma=2)\n", "DP.sigma", "line 5 replaces `sigma`"),
    (DATACLASS + "    def __post_init__(self):\n        self.sigma = 2\n", "DP.sigma", "assigns another `sigma`"),
    (DATACLASS + "    sigma = 2\n", "DP.sigma", TWICE),
    (DATACLASS + "class More(DP):\n    sigma = 2\n", "DP.sigma", TWICE),
    (DATACLASS + "class DP:\n    pass\n", "DP.sigma", TWICE),
    (DATACLASS + "    if X:\n        sigma = 2\n", "DP.sigma", TWICE),
    (DATACLASS + "    n: int = field(default_factory=make)\n", "DP.n", "default_factory `make`"),
    (DATACLASS + "    n: int\n", "DP.n", "no default"),
    ("@magic\nclass DP:\n    sigma = 1\n", "DP.sigma", "decorated by `magic`"),
    ("SIGMA = 1\nSIGMA = 2\n", "SIGMA", "lines 1 and 2"),
    ("SIGMA = 1\ndef f():\n  global SIGMA\n  SIGMA = 2\n", "SIGMA", TWICE),
    ("SIGMA = 1\nfrom x import *\n", "SIGMA", "may bind any name"),
    ("SIGMA = 1\nexec(code)\n", "SIGMA", "may bind any name"),
    ("SIGMA = 1\n\uff33IGMA = 2\n", "SIGMA", TWICE),  # the same name to Python
    ("SIGMA = 1 if x else 2\n", "SIGMA", "code"),
    ("SIGMA = [1][0]\n", "SIGMA", "code"),
    ("C = {'s': 1}\nC['s'] = 2\n", "C.s", "assigns another `s`"),
    ("C = {'s': 1}\nC.update(s=2)\n", "C", "line 2 changes `C`"),
    ("if x:\n  SIGMA = 1\n", "SIGMA", "none"),
    (COLLECTIONS + "    config.s = 1\n    config.s = 2\n    return config\n", "get_config.s", TWICE),
    (COLLECTIONS + "    config.s = 1\n    if x:\n        config.s = 2\n    return config\n", "get_config.s", TWICE),
    (COLLECTIONS + "    config.s = 1\n    change(config)\n    return config\n", "get_config.s", "handed to other code"),
    (COLLECTIONS + "    config.s = 1\n    config.update(x)\n    return config\n", "get_config.s", "changes it by"),
    (COLLECTIONS + "    config.s = 1\n    b = config\n    b.s = 2\n    return config\n", "get_config.s", "handed to"),
    (COLLECTIONS + "    config.a = ConfigDict()\n    config.a.s = 1\n    config.a = ConfigDict()\n    return config\n",
     "get_config.a.s", TWICE),
    (COLLECTIONS + "    config.a = d()\n    config.a.s = 1\n    return config\n", "get_config.a", "code"),
    ("x = (\n", "x", "cannot be read as Python, line"),
    ("(" * 300 + ")" * 300, "x", "Python"),
    ("x = " + "-" * 100_000 + "1", "x", "Python"),
    ("x = " + "9" * 5000, "x", "Python"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "path", "words"), REFUSED)
def test_what_python_does_not_state(text, path, words):
    said = found(text, path)
    assert isinstance(said, str), said
    assert words in said


def test_every_ending_has_a_reader():
    assert set(READERS) == set(SUFFIXES)


SHELL = "#!/bin/bash\npython train.py \\\n  --sigma 1.1 --n=5 'a # b' # --sigma 3\n"
GIN = "import a.b\nSIGMA = 1.1\nOpt.sigma = %SIGMA\nOpt.n = 60_000  # all\nOpt.text = 'a # b'\nOpt.f = @make()\n"


@pytest.mark.parametrize(
    ("text", "suffix", "path", "value", "place"),
    [
        (SHELL, ".sh", "flags.sigma", "1.1", (3, 11)),
        (SHELL, ".sh", "flags.n", "5", (3, 15)),
        ('torchrun t.py --noise-multiplier "1.1"\n', ".bash", "flags.noise_multiplier", "1.1", (1, 34)),
        ("x() { y; }\nif z; then python t.py --s 4; fi\n", ".sh", "flags.s", "4", (2, 28)),
        (GIN, ".gin", "Opt.sigma", "1.1", (2, 9)),
        (GIN, ".gin", "SIGMA", "1.1", (2, 9)),
        (GIN, ".gin", "Opt.n", "60_000", (4, 9)),
        ("Opt.n = 1\nOpt.n = 2\n", ".gin", "Opt.n", "2", (2, 9)),  # the last one counts
        ("Opt.n = -2\na.Opt2.n = 3\n", ".gin", "a.Opt2.n", "3", (2, 12)),
        ("Opt.t = (1,\n  2)\nOpt.n = 1\n", ".gin", "Opt.n", "1", (3, 9)),
    ],
)
def test_what_gin_and_shell_state(text, suffix, path, value, place):
    node = found(text, path, suffix)
    assert isinstance(node, Scalar), node
    assert (node.text, (node.mark.line, node.mark.column)) == (value, place)


@pytest.mark.parametrize(
    ("text", "suffix", "path", "words"),
    [
        ("t --s 1\nt --s 2\n", ".sh", "flags.s", "more than once, in lines 1 and 2"),
        ("t --a-b 1\nt --a_b 1\n", ".sh", "flags.a_b", "more than once"),
        ("t --s $S\n", ".sh", "flags.s", "which a shell makes a value of"),
        ('t --s "${S:-1}"\n', ".sh", "flags.s", "which a shell makes a value of"),
        ("t --s=`cat s`\n", ".sh", "flags.s", "which a shell makes a value of"),
        ("t --s\n", ".sh", "flags.s", "has no value"),
        ("t --s; u\n", ".sh", "flags.s", "has no value"),
        ("t --s --n 3\n", ".sh", "flags.s", "has no value"),
        ("t 'open\n", ".sh", "flags.s", "the quote of line 1 never ends"),
        ("A.b = 1\nA.b.c = 2\n", ".gin", "A.c", "none"),  # nothing binds it
        ("x#y --s 1 \\\n --s 2\n", ".sh", "flags.s", "more than once"),  # a `#` inside a word begins no comment
        ("cat <<E\n--s 1\nE\nt --s 1\n", ".sh", "flags.s", "more than once"),
        ("include 'a.gin'\nOpt.s = 1\n", ".gin", "Opt.s", "line 1: `include 'a.gin'` includes another file"),
        ("Opt.s = 1\na/Opt.s = 2\n", ".gin", "Opt.s", "`a/Opt.s` in line 2 may bind it, too"),
        ("Opt.s = 1\nm.Opt.s = 2\n", ".gin", "Opt.s", "`m.Opt.s` in line 2 may bind it, too"),
        ("Opt:\n  s = 1\n", ".gin", "Opt.s", "line 1: `Opt:` is no binding"),
        ("Opt.s = 1 * 2\n", ".gin", "Opt.s", "no literal"),
        ("Opt.s = %NONE\n", ".gin", "Opt.s", "no literal"),
        ("A = %B\nB = %A\nOpt.s = %A\n", ".gin", "Opt.s", "no literal"),
        ("Opt.s = (\n" + "x\n" * 300, ".gin", "Opt.s", "line 1: the value cannot be read"),
        ('X.a = """\nOpt.s = 1\n"""\n', ".gin", "Opt.s", "none"),  # inside a text
    ],
)
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
    "points": (".toml", "\n".join(f"x{at}." + ".".join(["a"] * 400) + " = 1" for at in range(250))),
}  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize(("suffix", "text"), BOMBS.values(), ids=BOMBS)
def test_a_hostile_file_is_read_or_refused_soon(suffix, text):
    start = time.process_time()
    with suppress(Refusal):
        read_document(source_of(text, f"file{suffix}"), suffix)
    assert time.process_time() - start < 15
