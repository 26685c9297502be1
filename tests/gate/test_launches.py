"""Launches that a repository tracks: another value than the default that a config refers to fails."""

import json
import subprocess

import pytest

from dpcalc.config.load import load
from dpcalc.gate.launches import overridden
from tests.config.texts import flat

TRAIN = 'p.add_argument("--noise-multiplier", "-s", type=float, default=1.1)\n'
OTHER = 'p.add_argument("--noise-multiplier", default=3)\n'
SCRIPTS = {"other.py": OTHER, "b/train.py": OTHER, "alone.py": "print(1)\n", "wrap.py": "import train\ntrain.main()\n"}
NOTEBOOK = json.dumps({"cells": [{"source": ["!python train.py --noise-multiplier VALUE\n"]}]})
PATH = "${train.py:flags.noise_multiplier}"


def problems(folder, files, reference=PATH, tracked=True):
    for name, text in {"train.py": TRAIN, **SCRIPTS, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "dpcalc.yaml").write_text(flat({"mechanism": f"{{noise_multiplier: '{reference}'}}"}), encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    if tracked:
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    return list(overridden(load(str(folder / "dpcalc.yaml"))))


OTHERS = {
    "shell": ("run.sh", "python train.py --noise-multiplier 0.5\n", (1, 17)),
    "an equals sign": ("run.sh", "python train.py --noise_multiplier=0.5\n", (1, 17)),
    "quotes": ("run.sh", "python train.py --noise-multiplier='0.5'\n", (1, 17)),
    "two lines": ("run.sh", "python train.py \\\n  --noise-multiplier \\\n  0.5\n", (2, 3)),
    "a variable": ("run.sh", "python train.py --noise-multiplier $N\n", (1, 17)),
    "no ending": ("bin/launch", "#!/usr/bin/env bash\npython train.py --noise-multiplier 0.5\n", (2, 17)),
    "a Makefile": ("Makefile", "run:\n\tpython train.py --noise-multiplier 0.5\n", (2, 18)),
    "a Dockerfile": ("docker/Dockerfile.gpu", 'CMD ["train.py", "--noise-multiplier", "0.5"]\n', (1, 19)),
    "YAML": (".github/workflows/a.yml", "run: python train.py --noise-multiplier 0.5\n", (1, 22)),
    "a beginning": ("run.sh", "python train.py --noise-mult 0.5\n", (1, 17)),
    "a letter": ("run.sh", "python train.py -s 0.5\n", (1, 17)),
    "a letter and its value": ("run.sh", "python train.py -s0.5\n", (1, 17)),
    "quotes around both": ("run.sh", "python train.py '--noise-multiplier'='0.5'\n", (1, 18)),
    "a file of arguments": ("args.txt", "--noise-multiplier\n0.5\n", (1, 1)),
    "JSON": (".vscode/launch.json", '{"args": ["--noise-multiplier", "0.5"]}', (1, 12)),
    "TOML": ("pixi.toml", 'train = "python train.py --noise-multiplier 0.5"\n', (1, 26)),
    "a batch file": ("run.bat", "python train.py --noise-multiplier 0.5\n", (1, 17)),
    "a Jenkinsfile": ("Jenkinsfile", "sh 'python train.py --noise-multiplier 0.5'\n", (1, 21)),
    "Python": ("launch.py", 'run(["train.py", "--noise-multiplier", "0.5"])\n', (1, 19)),
    "a list": ("job.yaml", "args:\n  - --noise-multiplier\n  - '0.5'\n", (2, 5)),
    "a list in braces": ("job.yaml", "args: [--noise-multiplier, 0.5]\n", (1, 8)),
    "a notebook": ("a.ipynb", NOTEBOOK.replace("VALUE", "0.5"), (1, 42)),
    "a sweep": ("s.yaml", "program: train.py\nparameters:\n  noise_multiplier:\n    value: 0.5\n", (3, 3)),
    "keys of YAML": ("job.yml", "run: python train.py\nargs: {noise-multiplier: '0.5'}\n", (2, 8)),
    "a script that hands words on": ("run.sh", "python wrap.py --noise-multiplier 0.5\n", (1, 16)),
    "another folder": ("b/run.sh", "cd ..\npython train.py --noise-multiplier 0.5\n", (2, 17)),
    "from another folder": ("b/run.sh", "python ../train.py --noise-multiplier 0.5\n", (1, 20)),
    "a script of nobody": ("run.sh", "python unknown.py --noise-multiplier 0.5\n", (1, 19)),
    "both scripts": ("run.sh", "python other.py train.py --noise-multiplier 0.5\n", (1, 26)),
}


@pytest.mark.parametrize(("name", "text", "place"), OTHERS.values(), ids=OTHERS)
def test_another_value_fails(tmp_path, name, text, place, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (only,) = problems(tmp_path, {name: text})
    assert (only.code, only.path, (only.line, only.column)) == ("DPC409", name, place)
    assert "takes the default 1.1 of train.py, line 1" in only.message


SAME = {
    "the same": ("run.sh", "python train.py --noise-multiplier 1.10\n"),
    "none": ("run.sh", "python train.py --epochs 3\n"),
    "a longer flag": ("run.sh", "python train.py --noise-multiplier-max 3 --x-noise-multiplier 3\n"),
    "another script": ("run.sh", "python train.py --epochs 3\npython other.py --noise-multiplier 3\n"),
    "a comment": ("run.sh", "# python train.py --noise-multiplier 3\n"),
    "the beginning of another option": ("run.sh", "python train.py --noisy 3 --no-cuda 1\n"),
    "a letter of another script": ("run.sh", "python x.py -s 3\nls -s 3\n"),
    "Python without quotes": ("a.py", '"""Usage: train.py --noise-multiplier 3"""\n'),
    "a script that knows nothing of it": ("run.sh", "python alone.py --noise-multiplier 3\n"),
    "a script of that name beside it": ("b/run.sh", "python train.py --noise-multiplier 3\n"),
    "a key beside another script": ("job.yaml", "run: other.py\nargs: {noise_multiplier: 0.5}\n"),
    "another config": ("b.yaml", "steps: ${train.py:flags.n}\nnoise_multiplier: 3\n"),
    "the same key": ("job.yaml", "run: train.py\nargs: {noise_multiplier: 1.10}\n"),
    "no launch": ("notes.md", "python train.py --noise-multiplier 3\n"),
    "the same in a notebook": ("a.ipynb", NOTEBOOK.replace("VALUE", "1.1")),
}


@pytest.mark.parametrize(("name", "text"), SAME.values(), ids=SAME)
def test_what_overrides_nothing(tmp_path, name, text):
    assert not problems(tmp_path, {name: text})


def test_a_link_to_the_script_is_the_script(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "train.py").symlink_to("../train.py")
    assert problems(tmp_path, {"c/run.sh": "python train.py --noise-multiplier 0.5\n"})


def test_what_is_not_tracked_is_not_searched(tmp_path):
    assert not problems(tmp_path, {"run.sh": "python train.py --noise-multiplier 3\n"}, tracked=False)


@pytest.mark.parametrize(
    ("files", "reference", "words"),
    [
        (
            {"a.gin": "Opt.sigma = 1.1\n", "run.sh": "t --gin_bindings='Opt.sigma=2'\n"},
            "${a.gin:Opt.sigma}",
            "`Opt.sigma` is 2",
        ),
        (
            {"c/config.yaml": "defaults: [dp: a, _self_]\n", "c/dp/a.yaml": "sigma: 1.1\n", "run.sh": "t dp.sigma=2\n"},
            "${c/config.yaml:dp.sigma}",
            "`dp.sigma` is 2",
        ),
        (
            {"c/config.yaml": "defaults: [dp: a, _self_]\n", "c/dp/a.yaml": "sigma: 1.1\n", "run.sh": "t dp=b\n"},
            "${c/config.yaml:dp.sigma}",
            "`dp` is b",
        ),
        (
            {
                "get.py": "def get_config():\n  c = ConfigDict()\n  c.s = 1.1\n  return c\n",
                "run.sh": "t --config.s=2\n",
            },
            "${get.py:get_config.s}",
            "`--config.s` is 2",
        ),
        (
            {
                "run.py": "p.add_argument('--off', action='store_true')\nif not args.off:\n  K(s=1.1)\n",
                "run.sh": "python run.py --off\n",
            },
            "${run.py:calls.K.s}",
            "`--off` is given here",
        ),
    ],
)
def test_other_kinds_of_defaults(tmp_path, files, reference, words):
    (only,) = problems(tmp_path, files, reference)
    assert words in only.message


def test_a_link_that_leaves_the_repository_is_not_read(tmp_path):
    (tmp_path / "secret.sh").write_text("python train.py --noise-multiplier 3\n", encoding="utf-8")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "run.sh").symlink_to("../secret.sh")
    assert not problems(folder, {})


def test_a_line_of_a_hundred_thousand_options_fails(tmp_path, monkeypatch):
    """2 MiB in one line took 18 seconds, 16 MiB a quarter of an hour."""
    monkeypatch.chdir(tmp_path)
    assert not problems(tmp_path / "a", {"run.sh": "python train.py " + "--noise-multiplier 1.1 " * 90_000})
    (only,) = problems(tmp_path / "b", {"run.sh": "# " + "--noise-multiplier 2 " * 110_000})
    assert "not all searched" in only.message


def test_an_option_is_no_regular_expression(tmp_path):
    """It was one: an internal error, and a door to one that never ends."""
    train = TRAIN.replace('"-s"', '"--x(a+)+$"')
    (only,) = problems(tmp_path, {"train.py": train, "run.sh": f"python train.py --x{'a' * 40}\n--x(a+)+$=2\n"})
    assert only.line == 2


def test_too_much_to_search_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("dpcalc.gate.launches.MAX_LAUNCH", 10)
    (only,) = problems(tmp_path, {"run.sh": "python train.py --epochs 3\n"})
    assert "launches are not all searched" in only.message
