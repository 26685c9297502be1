"""References into Python, gin and shell: what is read, at which place, and what is refused."""

import json
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
DP = HEAD + (
    "parser.add_argument('--dp', default=True); parser.add_argument('--off', action='store_true')\n"
    "parser.add_argument('--mode', type=str, default='BK-yes')\n" + PARSED
)
DATACLASS = "from dataclasses import dataclass, field\n@dataclass\nclass DP:\n    sigma: float = 1.1\n"
ABSL = "from absl import flags\n"
CLICK = "import click\n"
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
    ("C = dict(dp=dict(sigma=1.1))\n", "C.dp.sigma", "1.1", 1),
    # Arguments of calls.
    ("e.make_private(model, sigma=1.1)\n", "calls.make_private.sigma", "1.1", 1),
    ("a = L(d, n=3)\nb = L(e, n=3)\nL(f)\n", "calls.L.n", "3", 1),
    ("def main():\n  dp = True\n  s = 1.1\n  if dp:\n    p = K(sigma=s)\n", "calls.K.sigma", "1.1", 3),
    ("x = 1.1\nL(d['n'], s=x)\nkw['s'] = x\nM(n={'n': 3})\n", "calls.L.s", "1.1", 1),
    ("K(s=1.1, n=2)\nx.n = 3\n", "calls.K.s", "1.1", 1),
    ("def f():\n  return App(config=K(sigma=1.1))\n", "calls.K.sigma", "1.1", 2),
    ("@wrap\ndef get(c):\n  c.k = ConfigDict(dict(\n    dp=dict(n=dict(s=1.1))))\n  return c\n",
     "calls.ConfigDict.dp.n.s", "1.1", 4),
    # Under a condition that flags fulfil by default.
    (DP + "if args.dp:\n  K(s=1.1)\n", "calls.K.s", "1.1", 7),
    (DP + "if not args.off:\n  if 'no' not in args.mode:\n    K(s=1.1)\n", "calls.K.s", "1.1", 8),
    # What leaves a flag as it is.
    (ARGUMENT + PARSED + "t = L(test_set, sigma=2 * args.sigma)\n", "flags.sigma", "1.1", 3),
    (ARGUMENT + PARSED + "run(f'--sigma {args.sigma} --n 3')\n", "flags.sigma", "1.1", 3),
    (ARGUMENT + "parser.add_argument('--dp', default=True)\n" + PARSED + "sigma = args.sigma if args.dp else None\n"
     .replace("None", "0"), "flags.sigma", "1.1", 3),
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
    (ARGUMENT + "parser.set_defaults(sigma=2)\n", "flags.sigma", "line 4 has `parser`"),
    (ARGUMENT + "f = parser.set_defaults\nf(sigma=2)\n", "flags.sigma", "line 4"),
    (ARGUMENT + 'parser.parse_args(["--sigma", "2"])\n', "flags.sigma", "line 4 has `parser`"),
    (ARGUMENT + 'parser.parse_args(["--" + "sigma=2"])\n', "flags.sigma", "line 4 has `parser`"),
    (ARGUMENT + "def f(a=['x']):\n  parser.parse_args(a)\n", "flags.sigma", "line 5 has `parser` in `parser.parse_args(a)`"),  # noqa: E501
    (ARGUMENT + "parser.parse_args(namespace=n)\n", "flags.sigma", "line 4 has `parser`"),
    (ARGUMENT + 'sys.argv.append("--sigma=2")\n', "flags.sigma", "line 4 has `argv`"),
    (ARGUMENT + "sys.argv = argv\n", "flags.sigma", "line 4 has `argv` in `sys.argv = argv`"),
    (ARGUMENT + PARSED + "args.sigma = 2\n", "flags.sigma", "line 5 gives another `sigma`"),
    (ARGUMENT + PARSED + "args.sigma *= 2\n", "flags.sigma", "line 5 gives another `sigma`"),
    (ARGUMENT + PARSED + "vars(args)['sigma'] = 2\n", "flags.sigma", "line 5 gives another `sigma`"),
    (ARGUMENT + PARSED + "vars(args).update(other)\n", "flags.sigma", "line 5 has `args`"),
    (ARGUMENT + PARSED + "args.__dict__.update(other)\n", "flags.sigma", "line 5 has `args.__dict__`"),
    (ARGUMENT + PARSED + "setattr(args, 'sigma', 2)\n", "flags.sigma", "line 5 has `args`"),
    ('p = ArgumentParser(fromfile_prefix_chars="@")\np.add_argument("--s", default=1)\n', "flags.s", "fromfile_prefix"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nflags.FLAGS.s = 2\n', "flags.s", "line 3 gives another `s`"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nFLAGS["s"].value = 2\n', "flags.s", "line 3 has `FLAGS`"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nflags.set_default(S, 2)\n', "flags.s", "line 3 has `flags`"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nflags.mark_flag_as_required("s")\n', "flags.s", "mark_flag"),
    ('@click.option("--s", default=1.1, envvar="S")\ndef main(s):\n  pass\n', "flags.s", "`envvar`"),
    ('@click.option("--s", default=1.1, prompt=True)\ndef main(s):\n  pass\n', "flags.s", "required"),
    ('@click.option("--s", default=1.1)\ndef main(s):\n  s = s * 2\n', "flags.s", "line 3 has `s` in `s = s * 2`"),
    ('@click.option("--s", default=1.1)\ndef main(s):\n  pass\nmain(s=2)\n', "flags.s", "line 4 has `main` in `main(s=2)`"),  # noqa: E501
    ('@click.option("--s", default=1.1)\ndef f(s):\n  pass\nf(default_map={})\n', "flags.s", "default_map"),
    (TYPER + "@app.command()\ndef f(s: float = typer.Option(...)):\n  pass\n", "flags.s", "no default"),
    (TYPER + "@app.command()\ndef f(s: float = typer.Argument(1.1)):\n  pass\n", "flags.s", "positional"),
    (TYPER + '@app.command()\ndef f(s: float = typer.Option(1, envvar="S")):\n  pass\n', "flags.s", "`envvar`"),
    (TYPER + "@app.command()\ndef f(s: float = typer.Option(1, **more)):\n  pass\n", "flags.s", "not all of its"),
    (DATACLASS + "config = DP(sigma=2)\n", "DP.sigma", "line 5 has `DP` in `config = DP(sigma=2)`"),
    (DATACLASS + "config = DP(**given)\n", "DP.sigma", "line 5 has `DP` in `config = DP(**given)`"),
    (DATACLASS + "config = replace(DP(), sigma=2)\n", "DP.sigma", "line 5 gives another `sigma`"),
    (DATACLASS + "    def __post_init__(self):\n        self.sigma = 2\n", "DP.sigma", "line 6 has `sigma` in `self.sigma = 2`"),  # noqa: E501
    (DATACLASS + "    sigma = 2\n", "DP.sigma", TWICE),
    (DATACLASS + "class More(DP):\n    sigma = 2\n", "DP.sigma", TWICE),
    (DATACLASS + "class DP:\n    pass\n", "DP.sigma", TWICE),
    (DATACLASS + "    if X:\n        sigma = 2\n", "DP.sigma", TWICE),
    (DATACLASS + "    n: int = field(default_factory=make)\n", "DP.n", "`field(default_factory=make)` is not run"),
    (DATACLASS + "    n: int\n", "DP.n", "no default"),
    ("@magic\nclass DP:\n    sigma = 1\n", "DP.sigma", "line 1 has `magic`"),
    ("SIGMA = 1\nSIGMA = 2\n", "SIGMA", "lines 1 and 2"),
    ("SIGMA = 1\ndef f():\n  global SIGMA\n  SIGMA = 2\n", "SIGMA", TWICE),
    ("SIGMA = 1\nfrom x import *\n", "SIGMA", "may bind any name"),
    ("SIGMA = 1\nexec(code)\n", "SIGMA", "may bind any name"),
    ("SIGMA = 1\n\uff33IGMA = 2\n", "SIGMA", TWICE),  # the same name to Python
    ("SIGMA = 1 if x else 2\n", "SIGMA", "code"),
    ("SIGMA = [1][0]\n", "SIGMA", "code"),
    ("C = {'s': 1}\nC['s'] = 2\n", "C.s", "line 2 has `C` in `C['s'] = 2`"),
    ("C = {'s': 1}\nC.update(s=2)\n", "C", "line 2 has `C` in `C.update(s=2)`"),
    ("if x:\n  SIGMA = 1\n", "SIGMA", "none"),
    (COLLECTIONS + "    config.s = 1\n    config.s = 2\n    return config\n", "get_config.s", TWICE),
    (COLLECTIONS + "    config.s = 1\n    if x:\n        config.s = 2\n    return config\n", "get_config.s", TWICE),
    (COLLECTIONS + "    config.s = 1\n    change(config)\n    return config\n", "get_config.s", "line 5 has `config` in `change(config)`"),  # noqa: E501
    (COLLECTIONS + "    config.s = 1\n    config.update(x)\n    return config\n", "get_config.s", "line 5 has `config` in `config.update(x)`"),  # noqa: E501
    (COLLECTIONS + "    config.s = 1\n    b = config\n    b.s = 2\n    return config\n", "get_config.s", "line 5 has `config` in `b = config`"),  # noqa: E501
    (COLLECTIONS + "    config.a = ConfigDict()\n    config.a.s = 1\n    config.a = ConfigDict()\n    return config\n",
     "get_config.a.s", TWICE),
    (COLLECTIONS + "    config.a = d()\n    config.a.s = 1\n    return config\n", "get_config.a", "code"),
    ("x = (\n", "x", "cannot be read as Python, line"),
    ("(" * 300 + ")" * 300, "x", "Python"),
    ("x = " + "-" * 100_000 + "1", "x", "Python"),
    ("x = " + "9" * 5000, "x", "Python"),
    # Of calls.
    ("a = L(n=3)\nb = L(n=4)\n", "calls.L.n", "other values of `n`, in lines 1 and 2"),
    ("s = 1\ns = 2\nK(s=s)\n", "calls.K.s", "code"),
    ("f = K\nK(s=1)\nf(s=2)\n", "calls.K.s", "line 1 has `K` in `f = K`"),
    ("p = partial(K, s=2)\nK(s=1)\n", "calls.K.s", "line 1 has `K`"),
    ("p = K(s=1)\np.s = 2\n", "calls.K.s", "line 2 gives another `s`"),
    ("x = 1\ny = 2\np = K(s=x)\nkw['s'] = y\n", "calls.K.s", "line 4 gives another `s`"),
    ("p = K(s=1)\nvars(p)['s'] = 2\n", "calls.K.s", "line 2 gives another `s`"),
    ("p = K(s=1)\nq = replace(p, s=2)\n", "calls.K.s", "line 2 gives another `s`"),
    ("K(s=1)\nK(2)\n", "calls.K.s", "arguments without names"),
    ("K(s=1)\nK(**x)\n", "calls.K.s", "not all arguments of `K`"),
    ("def K(s):\n  s = 2\nK(s=1)\n", "calls.K.s", "`K` is defined in the file"),
    ("if x:\n  K(s=1)\n", "calls.K.s", "the `if` of line 1"),
    ("dp = False\nif dp:\n  K(s=1)\n", "calls.K.s", "the `if` of line 2"),
    (DP + "if args.dp:\n  pass\nelse:\n  K(s=1)\n", "calls.K.s", "the `if` of line 6"),
    (DP + "if args.off:\n  K(s=1)\n", "calls.K.s", "the `if` of line 6"),
    (DP + "if 'no' in args.mode:\n  K(s=1)\n", "calls.K.s", "the `if` of line 6"),
    (DP + "if args.mode and args.dp:\n  K(s=1)\n", "calls.K.s", "the `if` of line 6"),
    (DP + "args.dp = x\nif args.dp:\n  K(s=1)\n", "calls.K.s", "the `if` of line 7"),
    (DP + "if x.args.dp:\n  K(s=1)\n", "calls.K.s", "the `if` of line 6"),
    (DP + "while args.dp:\n  K(s=1)\n", "calls.K.s", "the `while` of line 6"),
    ("dp = True\nif dp:\n  pass\nelse:\n  K(s=1)\n", "calls.K.s", "the `if` of line 2"),
    ("x = K(s=1) if y else K(s=1)\n", "calls.K.s", "part of another expression"),
    ("x = lambda: K(s=1)\n", "calls.K.s", "part of another expression"),
    ("exec(x)\nK(s=1)\n", "calls.K.s", "`exec`"),
    ("c = ConfigDict(dict(dp=dict(s=1)))\nc.dp.s = 2\n", "calls.ConfigDict.dp.s", "line 2 gives another `s`"),
    ("from x import dict\nC = dict(s=1)\n", "C.s", "`dict(s=1)`, which is code"),
    ("C = dict(s=1, **x)\n", "C.s", "code"),
    ("calls = 3\nK(s=1)\n", "calls.K.s", "`calls` is a name of the file, too"),
    # What changes a flag.
    (ARGUMENT + PARSED + "run(f'--sigma {2}')\n", "flags.sigma", "`--sigma` stands in lines 3 and 5"),
    (ARGUMENT + PARSED + "train(sigma=2 * args.sigma, data=x)\n", "flags.sigma", "line 5 gives another `sigma`"),
    (ARGUMENT + "parser.add_argument('--dp', default=False)\n" + PARSED + "sigma = args.sigma if args.dp else 0\n",
     "flags.sigma", "line 6 gives another `sigma`"),
    (ARGUMENT + "parser.add_argument('--dp', default=True)\n" + PARSED + "sigma = 0 if args.dp else args.sigma\n",
     "flags.sigma", "line 6 gives another `sigma`"),
    # What another object, name or call gives instead.
    (ARGUMENT + "getattr(parser, 'set_defaults')(sigma=2)\n", "flags.sigma", "line 4 has `parser`"),
    (ARGUMENT + "parser._defaults.update(x)\n", "flags.sigma", "line 4 has `parser`"),
    ("a = p.add_argument('--s', default=1.1)\na.default = 2\n", "flags.s", "line 1 has `p`"),
    (ARGUMENT + PARSED + "args = merge(args, more)\n", "flags.sigma", "line 5 has `args`"),
    (ARGUMENT + PARSED + "args = argparse.Namespace(sigma=2)\n", "flags.sigma", "line 5 has `args`"),
    (ARGUMENT + PARSED + "train({**vars(args), 'sigma': 2})\n", "flags.sigma", "line 5 gives another `sigma`"),
    (ARGUMENT + PARSED + "d = vars(args)\nd |= x\n", "flags.sigma", "line 6 has `d` in `d |= x`"),
    (ARGUMENT + PARSED + "d = args.__dict__\nd.update(x)\n", "flags.sigma", "line 5 has `args.__dict__`"),
    (ARGUMENT + PARSED + "def f(a):\n  a.update(x)\nf(args)\n", "flags.sigma", "line 6 has `a` in `a.update(x)`"),
    (ARGUMENT + PARSED + "args.__setattr__('sigma', 2)\n", "flags.sigma", "line 5 has `args`"),
    (ARGUMENT + PARSED + "sigma = args.sigma * 2\n", "flags.sigma", "line 5 gives another `sigma`"),
    (ARGUMENT + PARSED + "train(sigma=args.sigma or 2)\n", "flags.sigma", "line 5 gives another `sigma`"),
    (ARGUMENT + "sys.argv.extend(x.split())\n", "flags.sigma", "line 4 has `argv`"),
    (ARGUMENT + "sys.argv[1:] = x\n", "flags.sigma", "line 4 has `argv` in `sys.argv[1:] = x`"),
    (ARGUMENT + "from sys import argv\n", "flags.sigma", "line 4 has `argv` in `from sys import argv`"),
    (ARGUMENT + "f = parser.parse_args\nf(['--sig', '2'])\n", "flags.sigma", "line 4 has `parser`"),
    ("def f(a=None):\n  p.add_argument('--s', default=3)\n  p.parse_args(a)\nf('-s 4'.split())\n", "flags.s", "line 4 has `f` in `f('-s 4'.split())`"),  # noqa: E501
    ("class P(ArgumentParser):\n  def parse_args(self):\n    pass\np = P()\np.add_argument('--s', default=1)\n", "flags.s", "line 4 has `p` in `p = P()`"),  # noqa: E501
    ("argparse.ArgumentParser.add_argument = x\n" + ARGUMENT, "flags.sigma", "line 1 has `argparse.ArgumentParser.add_argument =`"),  # noqa: E501
    ("p = ArgumentParser(conflict_handler='resolve')\np.add_argument('--s', default=1)\n", "flags.s", "conflict_handler"),  # noqa: E501
    (ARGUMENT + "p.add_argument(NAME, dest='sigma', default=2)\n", "flags.sigma", TWICE),
    (HEAD + "p.add_argument('--s', dest=D, default=2)\n", "flags.s", "line 3 has `p`"),
    ("p.add_argument('--s', default=1, env_var='S')\n", "flags.s", "`env_var`"),
    ("match x:\n  case 1:\n    p.add_argument('--s', default=1)\n", "flags.s", "the `match` of line 1"),
    ("def float(x):\n  pass\np.add_argument('--s', type=float, default='1')\n", "flags.s", "converted by `float`"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nFLAGS(argv)\n', "flags.s", "line 3 has `FLAGS` in `FLAGS(argv)`"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\napp.run(main, argv=x)\n', "flags.s", "line 3 has `run` in `app.run(main, argv=x)`"),  # noqa: E501
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nwith flagsaver(s=2):\n  main()\n', "flags.s", "gives another `s`"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nFLAGS["s"].parse("2")\n', "flags.s", "line 3 has `FLAGS` in `FLAGS[\"s\"].parse(\"2\")`"),  # noqa: E501
    ('@click.option("--s", default=1.1)\ndef f(s):\n  pass\nf.callback(2)\n', "flags.s", "line 4 has `f` in `f.callback(2)`"),  # noqa: E501
    ('@click.option("--s", default=1.1)\ndef f(s):\n  pass\nc.invoke(f, s=2)\n', "flags.s", "line 4 has `f` in `c.invoke(f, s=2)`"),  # noqa: E501
    ('@click.option("--s", default=1.1)\ndef f(**kw):\n  kw.update(x)\n', "flags.s", "line 3 has `kw` in `kw.update(x)`"),  # noqa: E501
    ('@click.option("--s", default=1.1)\ndef f(s):\n  import x as s\n', "flags.s", "line 3 has `s` in `import x as s`"),
    ('@click.option("--s", default=1.9, type=int)\ndef f(s):\n  pass\n', "flags.s", "converted by `int`"),
    ('@click.option("--s", default=9, type=IntRange(0, 5, clamp=True))\ndef f(s):\n  pass\n', "flags.s", "converted by"),  # noqa: E501
    ('def g(f):\n  pass\n@g\n@click.option("--s", default=1)\ndef f(s):\n  pass\n', "flags.s", "decorated by `g`"),
    (TYPER + "@app.command()\ndef f(s: int = 1.9):\n  pass\n", "flags.s", "converted by `int`"),
    (TYPER + "@app.command()\ndef f(s: float = 1):\n  pass\nf.__defaults__ = (2,)\n", "flags.s", "line 6 has `f` in `f.__defaults__ = (2,)`"),  # noqa: E501
    (DATACLASS + "D = DP\nD(2)\n", "DP.sigma", "line 5 has `DP` in `D = DP`"),
    (DATACLASS + "partial(DP, 2)()\n", "DP.sigma", "line 5 has `DP` in `partial(DP, 2)()`"),
    (DATACLASS + "    @classmethod\n    def make(cls):\n        return cls(2)\n", "DP.sigma", "line 7 has `cls(2)`"),
    (DATACLASS + "    def make(self):\n        return type(self)(2)\n", "DP.sigma", "line 6 has `type(self)(2)`"),
    (DATACLASS + "class E(DP):\n    def __init__(self):\n        super().__init__(2)\n", "DP.sigma", "line 7 has `super().__init__(2)`"),  # noqa: E501
    (DATACLASS + "DP.from_yaml(x)\n", "DP.sigma", "line 5 has `DP` in `DP.from_yaml(x)`"),
    (DATACLASS + "setattr(c, 'sigma', 2)\n", "DP.sigma", "line 5 has `setattr`"),
    (DATACLASS + "object.__setattr__(c, 'sigma', 2)\n", "DP.sigma", "line 5 has `__setattr__`"),
    (DATACLASS + "from dataclasses import replace as r\nr(DP(), sigma=2)\n", "DP.sigma", "line 6 gives another `sigma`"),  # noqa: E501
    (DATACLASS + "copy.replace(DP(), **x)\n", "DP.sigma", "line 5 has `replace`"),
    (DATACLASS + "class M:\n    sigma = 2\nclass E(M, DP):\n    pass\n", "DP.sigma", TWICE),
    (DATACLASS + "class E(DP[int]):\n    sigma = 2\n", "DP.sigma", TWICE),
    (DATACLASS + "    from x import sigma\n", "DP.sigma", TWICE),
    (DATACLASS + "from x import *\n", "DP.sigma", "`import *`"),
    (DATACLASS + "    def __getattribute__(self, n):\n        return 2\n", "DP.sigma", "`__getattribute__`"),
    ("class DP(metaclass=M):\n    sigma = 1\n", "DP.sigma", "line 1 has `metaclass=M`"),
    ("class DP(BaseSettings):\n    sigma = 1\n", "DP.sigma", "`BaseSettings`"),
    ("class DP:\n    sigma = 1\n    @field_validator('sigma')\n    def f(x): pass\n", "DP.sigma", "line 3 has `field_validator('sigma')`"),  # noqa: E501
    ("dataclass = magic\n@dataclass\nclass DP:\n    sigma = 1\n", "DP.sigma", "line 2 has `dataclass`"),
    ("def field(**x): pass\nclass DP:\n    sigma = field(default=1)\n", "DP.sigma", "`field(default=1)` is not run"),
    (DATACLASS + "p = HfArgumentParser(DP)\np.parse_yaml_file('x')\n", "flags.sigma", "line 6 has `p` in `p.parse_yaml_file('x')`"),  # noqa: E501
    (DATACLASS + "p = HfArgumentParser(DP)\np.parse_yaml_file('x')\n", "DP.sigma", "line 6 has `p` in `p.parse_yaml_file('x')`"),  # noqa: E501
    ("C = {'s': 1}\nD = C\nD.update(x)\n", "C", "line 3 has `D` in `D.update(x)`"),
    ("C = {'s': 1}\nC[k] = 2\n", "C", "line 2 has `C` in `C[k] = 2`"),
    ("C = {'a': {'s': 1}}\nC['a'].update(x)\n", "C", "line 2 has `C` in `C['a'].update(x)`"),
    ("C = {'a': {'s': 1}}\nC.get('a').update(x)\n", "C", "line 2 has `C` in `C.get('a').update(x)`"),
    ("C = {'s': 1}\nD = {**C, 's': 2}\n", "C.s", "line 2 has `C` in `D = {**C, 's': 2}`"),
    ("C = {'s': 1}\nD = C | {'s': 2}\n", "C.s", "line 2 has `C` in `D = C | {'s': 2}`"),
    ("C = [1, 2]\nC.reverse()\n", "C", "line 2 has `C` in `C.reverse()`"),
    ("C = [*x, 1, 2]\n", "C[1]", "code"),
    ("S = 1\nobject.__setattr__(m, 'S', 2)\n", "S", "line 2 has `__setattr__`"),
    ("import builtins\nS = 1\n", "S", "line 1 has `builtins`"),
    ("# coding: utf-7\nS = 1\n#+AAo-S = 2\n", "S", "encoded as `utf-7`"),
    (COLLECTIONS + "    config.s = 1\n    if x:\n        return y\n    return config\n", "get_config.s", "returns elsewhere"),  # noqa: E501
    (COLLECTIONS + "    config.a.s = 1\n    f(config.a)\n    return config\n", "get_config.a.s", "line 5 has `config` in `f(config.a)`"),  # noqa: E501
    (COLLECTIONS + "    config.a.s = 1\n    a = config.a\n    return config\n", "get_config.a.s", "line 5 has `config` in `a = config.a`"),  # noqa: E501
    (COLLECTIONS + "    config.s = 1\n    config.reset()\n    return config\n", "get_config.s", "line 5 has `config` in `config.reset()`"),  # noqa: E501
    (COLLECTIONS + "    config.a.s = 1\n    config.a = f()\n    return config\n", "get_config.a.s", "which is code"),
    (COLLECTIONS + "    config.s = 1\n    return config\nget_config().update(s=2)\n", "get_config.s", "line 6 has `get_config`"),  # noqa: E501
    ("def get_config():\n  c = ConfigDict({'a': {'s': 1}})\n  c.a.s = 2\n  return c\n", "get_config.a.s", "`a.s` is set inside another value"),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("text", "path", "words"), REFUSED)
def test_what_python_does_not_state(text, path, words):
    said = found(text, path)
    assert isinstance(said, str), said
    assert words in said


# Each gives the value anew, or may, in a way that no form of `python_files` allows.
ATTACKS = [
    (
        CLICK
        + 'S={"default_map":{"s":2}}\n@click.command(context_settings=S)\n@click.option("--s",default=1.1)\ndef f(s):\n  pass\n',  # noqa: E501
        "flags.s",
    ),
    (
        CLICK
        + '@click.command(context_settings={"default_map":{"s":2}})\n@click.option("--s",default=1.1)\ndef f(s):\n  pass\n',  # noqa: E501
        "flags.s",
    ),
    (
        CLICK
        + '@click.command(context_settings=dict(default_map={"s":2}))\n@click.option("--s",default=1.1)\ndef f(s):\n  pass\n',  # noqa: E501
        "flags.s",
    ),
    (CLICK + '@click.command(**K)\n@click.option("--s",default=1.1)\ndef f(s):\n  pass\n', "flags.s"),
    (
        CLICK
        + '@click.group(context_settings=S)\ndef g():\n  pass\n@g.command()\n@click.option("--s",default=1.1)\ndef f(s):\n  pass\n',  # noqa: E501
        "flags.s",
    ),
    (CLICK + '@click.command(cls=Mine)\n@click.option("--s",default=1.1)\ndef f(s):\n  pass\n', "flags.s"),
    (
        CLICK + '@click.command()\n@click.option("--s",default=1.1)\ndef f(s):\n  pass\nf(auto_envvar_prefix="X")\n',
        "flags.s",
    ),
    (
        CLICK + '@click.command()\n@click.option("--s",default=1.1)\ndef f(s):\n  pass\nf.params[0].default=2\n',
        "flags.s",
    ),
    (CLICK + '@click.command()\n@click.option("--s",default=1.1)\ndef f(s):\n  pass\ng=f\ng(["--s","2"])\n', "flags.s"),
    (
        TYPER.replace("Typer()", "Typer(context_settings=S)") + "@app.command()\ndef f(s: float=1.1):\n  pass\n",
        "flags.s",
    ),
    (TYPER + '@app.command()\ndef f(s: float=1.1):\n  pass\napp(["--s","2"])\n', "flags.s"),
    ('from reg import REG\n@REG.register("x")\nclass DP:\n  sigma = 1.1\n', "DP.sigma"),
    (DATACLASS + 'REG["x"] = DP\nREG["x"](2)\n', "DP.sigma"),
    (DATACLASS + 'E = make_dataclass("E", [], bases=(DP,))\nE(2)\n', "DP.sigma"),
    (DATACLASS + 'E = type("E", (DP,), {})\n', "DP.sigma"),
    ("import simple_parsing\n" + DATACLASS + 'cfg = simple_parsing.parse(DP, args="--sigma 2")\n', "DP.sigma"),
    ('from simple_parsing import ArgumentParser\np = ArgumentParser()\np.add_argument("--s", default=1)\n', "flags.s"),
    (ARGUMENT + 'for k in ["a"]:\n  parser.add_argument("--" + k, dest="sigma", default=2)\n', "flags.sigma"),
    (ARGUMENT + 'n="--sig"+"ma"\nparser.add_argument(n, default=2)\n', "flags.sigma"),
    (ARGUMENT + 'parser.add_argument(*["--x"], dest="sigma", default=2)\n', "flags.sigma"),
    (ARGUMENT + "q = parser\nq.set_defaults(**K)\n", "flags.sigma"),
    (ARGUMENT + "def t(q):\n  q.set_defaults(**K)\nt(parser)\n", "flags.sigma"),
    (ARGUMENT + "[q.set_defaults(**K) for q in [parser]]\n", "flags.sigma"),
    (ARGUMENT + "(lambda q: q.set_defaults(**K))(parser)\n", "flags.sigma"),
    (ARGUMENT + "with parser as q:\n  q.set_defaults(**K)\n", "flags.sigma"),
    (ARGUMENT + "if q := parser:\n  q.set_defaults(**K)\n", "flags.sigma"),
    (ARGUMENT + "match parser:\n  case q:\n    q.set_defaults(**K)\n", "flags.sigma"),
    (ARGUMENT + "class H: p = parser\nH.p.set_defaults(**K)\n", "flags.sigma"),
    (ARGUMENT + 'd = {"p": parser}\nd["p"].set_defaults(**K)\n', "flags.sigma"),
    (ARGUMENT + 'parser.add_argument_group("x").set_defaults(**K)\n', "flags.sigma"),
    (ARGUMENT + 'g = parser.add_argument_group("x")\ng._defaults.update(K)\n', "flags.sigma"),
    (ARGUMENT + "import argparse as a\na.ArgumentParser.parse_args = lambda s: N\n", "flags.sigma"),
    (ARGUMENT + "parser.parse_args().__dict__.update(K)\n", "flags.sigma"),
    (ARGUMENT + "args = parser.parse_args()\n[args] = [N]\n", "flags.sigma"),
    (ARGUMENT + "args = parser.parse_args()\nargs, _ = N, 1\n", "flags.sigma"),
    (ARGUMENT + "args = parser.parse_args()\nfor args in [N]: pass\n", "flags.sigma"),
    (ARGUMENT + "args = parser.parse_args()\nclass Other: sigma = 2\nargs = Other()\n", "flags.sigma"),
    (ARGUMENT + 'args = parser.parse_args()\nvars(args)["sig"+"ma"] = 2\n', "flags.sigma"),
    (ARGUMENT + "args = parser.parse_args()\nfor k in K: vars(args)[k] = 2\n", "flags.sigma"),
    (ARGUMENT + "args = parser.parse_args()\ndef put(d):\n  d[K] = 2\nput(vars(args))\n", "flags.sigma"),
    (
        ARGUMENT + 'import operator\nargs = parser.parse_args()\noperator.setitem(vars(args), "sig"+"ma", 2)\n',
        "flags.sigma",
    ),
    (ARGUMENT + "from operator import setitem as s\nargs = parser.parse_args()\ns(vars(args), K, 2)\n", "flags.sigma"),
    (ARGUMENT + "def load():\n  a = parser.parse_args()\n  a = N\n  return a\nargs = load()\n", "flags.sigma"),
    (ARGUMENT + "import sys\nsys.argv[:] = X\nparser.parse_args()\n", "flags.sigma"),
    (ARGUMENT + 'import sys\nx = sys.argv\nx += ["--sig", "2"]\nparser.parse_args()\n', "flags.sigma"),
    (ARGUMENT + 'import sys\nx = sys.argv\nx.append("--sig=2")\nparser.parse_args()\n', "flags.sigma"),
    (ARGUMENT + 'import sys\nsetattr(sys, "ar"+"gv", X)\n', "flags.sigma"),
    (ARGUMENT + "import sys as y\ny.argv = X\n", "flags.sigma"),
    (ARGUMENT + "def go(argv=None):\n  return parser.parse_args(argv)\ngo(X)\n", "flags.sigma"),
    (ARGUMENT + "def go(argv=None):\n  return parser.parse_args(argv)\nh = go\nh(X)\n", "flags.sigma"),
    (ARGUMENT + "def go(argv=None):\n  argv = X\n  return parser.parse_args(argv)\n", "flags.sigma"),
    (ABSL + 'S = flags.DEFINE_float("s", 1.1, "")\nS._flagvalues["s"].value = 2\n', "flags.s"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nF = flags.FLAGS\nF.set_default("s", 2)\n', "flags.s"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nF = flags.FLAGS\nf = F["s"]\nf.value = 2\n', "flags.s"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\ndef g(f):\n  for k in f: f[k].value = 2\ng(flags.FLAGS)\n', "flags.s"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nfor f in [flags]: f.FLAGS.set_default(K, 2)\n', "flags.s"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nF = flags.FLAGS\nF(["x", "--s=2"])\n', "flags.s"),
    (ABSL + 'flags.DEFINE_float("s", 1.1, "")\nflags.DEFINE_alias("t", "s")\n', "flags.s"),
    ('C = {"a": {"s": 1}}\nfor v in C.values():\n  v["s"] = 2\n', "C.a.s"),
    ('C = {"a": {"s": 1}}\nfor k in C:\n  C[k]["s"] = 2\n', "C.a.s"),
    ('C = {"a": {"s": 1}}\nx = C["a"]\nx["s"] = 2\n', "C.a.s"),
    ('C = {"a": {"s": 1}}\ndef f(d):\n  d["s"] = 2\nf(C["a"])\n', "C.a.s"),
    ('C = {"a": {"s": 1}}\n(C["a"] or x)["s"] = 2\n', "C.a.s"),
    ('C = {"s": 1}\nL = [C]\nL[0]["s"] = 2\n', "C.s"),
    ('C = {"s": 1}\nclass H:\n  c = C\nH.c["s"] = 2\n', "C.s"),
    ('C = {"s": 1}\nC2 = C if x else C\nC2["s"]=2\n', "C.s"),
    ("S = 1\nimport sys\nsys.modules[__name__].S = 2\n", "S"),
    ("S = 1\nclass A:\n  def f(self):\n    global S\n    S = 2\n", "S"),
    ("S = 1\nfor S in [2]: pass\n", "S"),
    ("S = 1\nwith x as S: pass\n", "S"),
    ("S = 1\ntry:\n  pass\nexcept E as S: pass\n", "S"),
    ("S = 1\nimport S\n", "S"),
    ("S = 1\ndef S(): pass\n", "S"),
    ("S = 1\n(S := 2)\n", "S"),
    ("S = 1\n[S := 2 for x in y]\n", "S"),
    ('S = 1\nmatch x:\n  case {"a": S}: pass\n', "S"),
    ("S = 1\ntype S = int\n", "S"),
    ('S = 1\nlocals()["S"] = 2\n', "S"),
    ('S = 1\n__builtins__.exec("S=2")\n', "S"),
    ('S = 1\ngetattr(b, "ex" + "ec")("S=2")\n', "S"),
    ('S = 1\n(lambda: 0).__globals__["S"] = 2\n', "S"),
    ('S = 1\nimport inspect\ninspect.currentframe().f_globals["S"] = 2\n', "S"),
    (DATACLASS + "DP.sigma = 2\n", "DP.sigma"),
    (DATACLASS + "DP.__init__.__defaults__ = (2,)\n", "DP.sigma"),
    (DATACLASS + 'DP.__dataclass_fields__["sigma"].default = 2\n', "DP.sigma"),
    (DATACLASS + "for c in [DP]: c(2)\n", "DP.sigma"),
    (DATACLASS + "def mk(c): return c(2)\nmk(DP)\n", "DP.sigma"),
    (DATACLASS + "mk = lambda c=DP: c(2)\n", "DP.sigma"),
    (DATACLASS + 'c = DP()\nc2 = replace(c, **{"sig"+"ma": 2})\n', "DP.sigma"),
    (DATACLASS + "import dataclasses as d\nc2 = d.replace(DP(), sigma=2)\n", "DP.sigma"),
    (DATACLASS + "    def __class_getitem__(cls, x): cls.sigma = 2\n", "DP.sigma"),
    (DATACLASS + "    def __setattr__(self, n, v): pass\n", "DP.sigma"),
    (DATACLASS + "class Meta(type):\n    def __call__(cls): pass\nclass E(DP, metaclass=Meta): pass\n", "DP.sigma"),
    (DATACLASS + "    sigma: float = field(default=1.1, kw_only=K)\n", "DP.sigma"),
    (
        "from dataclasses import dataclass\ndef dataclass(c): return Other\n@dataclass\nclass DP:\n  sigma=1\n",
        "DP.sigma",
    ),
    (COLLECTIONS + "    config.s = 1\n    (config).s = 2\n    return config\n", "get_config.s"),
    (COLLECTIONS + '    config.s = 1\n    config["s"] = 2\n    return config\n', "get_config.s"),
    (COLLECTIONS + "    config.s = 1\n    for c in [config]: c.s = 2\n    return config\n", "get_config.s"),
    (COLLECTIONS + "    config.s = 1\n    del config.s\n    return config\n", "get_config.s"),
    (COLLECTIONS + "    config.s = 1\n    config.s += 1\n    return config\n", "get_config.s"),
    (
        COLLECTIONS + "    config.s = 1\n    def f():\n        config.s = 2\n    f()\n    return config\n",
        "get_config.s",
    ),
    (
        COLLECTIONS
        + "    config.s = 1\n    return config\nf = get_config\ndef get_config():\n    c = f(); c.s = 2; return c\n",
        "get_config.s",
    ),
    (COLLECTIONS + "    config.s = 1\n    config.s, config.t = 2, 3\n    return config\n", "get_config.s"),
    (
        "def deco(f): return g\nimport ml_collections\n@deco\ndef get_config():\n    config = ml_collections.ConfigDict()\n    config.s = 1\n    return config\n",  # noqa: E501
        "get_config.s",
    ),
    (ARGUMENT + "parser = argparse.ArgumentParser(parents=[other])\n", "flags.sigma"),
    (ARGUMENT + "parser = argparse.ArgumentParser(argument_default=2)\n", "flags.sigma"),
    (ARGUMENT + "parser = argparse.ArgumentParser(*x)\n", "flags.sigma"),
    (ARGUMENT + "import argparse\nargparse._StoreAction.__call__ = f\n", "flags.sigma"),
    (ARGUMENT + 'subprocess.run(["python", "train.py", "--sigma", "2"])\n', "flags.sigma"),
    (ARGUMENT + 'os.system("python train.py --sigma 2")\n', "flags.sigma"),
]


@pytest.mark.parametrize(("text", "path"), ATTACKS)
def test_what_may_give_a_value_anew_is_refused_with_its_place(text, path):
    said = found(text, path)
    assert isinstance(said, str), said
    assert "line" in said


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


SHELL = "#!/bin/bash\npython train.py \\\n  --sigma 1.1 --n=5 'a # b' # --sigma 3\n"
GIN = "import a.b\nSIGMA = 1.1\nOpt.sigma = %SIGMA\nOpt.n = 60_000  # all\nOpt.text = 'a # b'\nOpt.f = @make()\n"


@pytest.mark.parametrize(
    ("text", "suffix", "path", "value", "place"),
    [
        (SHELL, ".sh", "flags.sigma", "1.1", (3, 11)),
        (SHELL, ".sh", "flags.n", "5", (3, 15)),
        ('torchrun t.py --noise-multiplier "1.1"\n', ".bash", "flags.noise_multiplier", "1.1", (1, 34)),
        ("t --lr_decay 4 --lr no -x 3 -l name\n", ".sh", "flags.lr_decay", "4", (1, 14)),
        ('t --sigma 1 --name $M-$S --out "$D/a-b"\n', ".sh", "flags.sigma", "1", (1, 11)),
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
        ("A='--s 2'\nt --s 1 $A\n", ".sh", "flags.s", "`--s` may be given again in line 1"),
        ("A='-x --s=2'\nt --s 1 $A\n", ".sh", "flags.s", "`--s` may be given again in line 1"),
        ("A=--s\nt --s 1 $A 2\n", ".sh", "flags.s", "again in line 1"),
        ("t --sigma 1 --sig 2\n", ".sh", "flags.sigma", "`--sigma` may be given again in line 1"),
        ("t --sigma 1\nA='--sig 2'\n", ".sh", "flags.sigma", "`--sigma` may be given again in line 2"),
        ("t --sigma 1 -s 2\n", ".sh", "flags.sigma", "`--sigma` may be given again in line 1"),
        ("t --sigma 1 -s2\n", ".sh", "flags.sigma", "`--sigma` may be given again in line 1"),
        ("t --sigma 1 \\\n --sig$X 2\n", ".sh", "flags.sigma", "again by `--sig$X` in line 2"),
        ("t --sigma 1 --{n,sigma}=2\n", ".sh", "flags.sigma", "again by `--{n,sigma}=2` in line 1"),
        ("t --sigma 1 $D-sigma 2\n", ".sh", "flags.sigma", "`--sigma` may be given again in line 1"),
        ('t --sigma 1 "$D"-sig=2\n', ".sh", "flags.sigma", "`--sigma` may be given again in line 1"),
        ("t --sigma 1 $O=2\n", ".sh", "flags.sigma", "again by `$O=2` in line 1"),
        ("t --sigma 1 -`x` 2\n", ".sh", "flags.sigma", "again by `-`x`` in line 1"),
        ('t --sigma 1 "--sig\\\nma" 2\n', ".sh", "flags.sigma", "more than once"),
        (f"t --{'s' * 200} 1\n", ".sh", "flags." + "s" * 200, "more than 100 characters"),
        ("t 'open\n", ".sh", "flags.s", "the quote of line 1 never ends"),
        ("A.b = 1\nA.b.c = 2\n", ".gin", "A.c", "none"),  # nothing binds it
        ("x#y --s 1 \\\n --s 2\n", ".sh", "flags.s", "more than once"),  # a `#` inside a word begins no comment
        ("cat <<E\n--s 1\nE\nt --s 1\n", ".sh", "flags.s", "more than once"),
        ("include 'a.gin'\nOpt.s = 1\n", ".gin", "Opt.s", "`include 'a.gin'` may mean no file of the repository"),
        ("include('a.gin')\nOpt.s = 1\n", ".gin", "Opt.s", "includes another file in an unusual way"),
        ("SIGMA = 1\nx/SIGMA = 2\n", ".gin", "SIGMA", "`x/SIGMA` in line 2 may bind it, too"),
        ("SIGMA = 1\nOpt.s = %SIGMA\nSIGMA/gin.macro.value = 2\n", ".gin", "Opt.s", "in line 3 may bind it, too"),
        ("SIGMA = 1\nOpt.s = %SIGMA\nSIGMA/macro.value = 2\n", ".gin", "Opt.s", "in line 3 may bind it, too"),
        ("Opt.s = 1\na/Opt.s = 2\n", ".gin", "Opt.s", "`a/Opt.s` in line 2 may bind it, too"),
        ("Opt.s = 1\nm.Opt.s = 2\n", ".gin", "Opt.s", "`m.Opt.s` in line 2 may bind it, too"),
        ("Opt:\n  s = 1\n", ".gin", "Opt.s", "line 1: `Opt:` is no binding"),
        ("Opt.s = 1 * 2\n", ".gin", "Opt.s", "no literal"),
        ("Opt.s = %NONE\n", ".gin", "Opt.s", "no literal"),
        ("A = %B\nB = %A\nOpt.s = %A\n", ".gin", "Opt.s", "no literal"),
        ("".join(f"A{x} = %A{x + 1}\n" for x in range(30)) + "A30 = 1\n", ".gin", "A0", "no literal"),
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
    "points": (".toml", "\n".join(f"x{at}." + ".".join(["a"] * 400) + " = 1" for at in range(250))),
}  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize(("suffix", "text"), BOMBS.values(), ids=BOMBS)
def test_a_hostile_file_is_read_or_refused_soon(suffix, text):
    start = time.process_time()
    with suppress(Refusal):
        read_document(source_of(text, f"file{suffix}"), suffix)
    assert time.process_time() - start < 15
