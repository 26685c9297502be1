"""Launches that a repository tracks: another value than the default that a config refers to fails."""

import subprocess
from pathlib import Path

import pytest
import yaml

from dpcalc.config.load import load
from dpcalc.gate.launches import overridden
from tests.config.texts import flat

ROWS = yaml.safe_load(Path(__file__).with_name("launches.yaml").read_text(encoding="utf-8"))

TRAIN = 'p.add_argument("--noise-multiplier", "-s", type=float, default=1.1)\n'
OTHER = 'p.add_argument("--noise-multiplier", default=3)\n'
SCRIPTS = {"other.py": OTHER, "b/train.py": OTHER, "alone.py": "print(1)\n", "wrap.py": "import train\ntrain.main()\n"}
PATH = "${train.py:flags.noise_multiplier}"


def problems(folder, files, reference=PATH, tracked=True, others=()):
    for name, text in {"train.py": TRAIN, **SCRIPTS, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "dpcalc.yaml").write_text(flat({"mechanism": f"{{noise_multiplier: '{reference}'}}"}), encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    if tracked:
        subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    return list(overridden(load(str(folder / "dpcalc.yaml")), others))


OTHERS = ROWS["others"]


@pytest.mark.parametrize(("name", "text", "place"), OTHERS.values(), ids=OTHERS)
def test_another_value_fails(tmp_path, name, text, place, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (only,) = problems(tmp_path, {name: text})
    assert (only.code, only.path, [only.line, only.column]) == ("DPC409", name, place)
    assert "takes the default 1.1 of train.py, line 1" in only.message


SAME = ROWS["same"]


@pytest.mark.parametrize(("name", "text"), SAME.values(), ids=SAME)
def test_what_overrides_nothing(tmp_path, name, text):
    assert not problems(tmp_path, {name: text})


@pytest.mark.parametrize(
    ("pattern", "is_left_out"),
    [
        *((each, True) for each in (".github/**", "**/*.yml", "**/ci.yml", ".github/workflows/*.yml")),
        *((each, False) for each in ("workflows/*.yml", ".github/*", "workflows/**", "*.yml", "")),
    ],
)
def test_files_that_launch_other_runs_are_left_out(tmp_path, pattern, is_left_out):
    smoke, others = "run: python train.py --noise-multiplier 0.5\n", ["docs/*", pattern]
    found = problems(tmp_path, {".github/workflows/ci.yml": smoke}, others=others)
    assert [each.code for each in found] == ([] if is_left_out else ["DPC409"])
    for only in found:
        assert "other_launches" in only.hint


def test_a_link_to_the_script_is_the_script(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "train.py").symlink_to("../train.py")
    assert problems(tmp_path, {"c/run.sh": "python train.py --noise-multiplier 0.5\n"})


def test_what_is_not_tracked_is_not_searched(tmp_path):
    assert not problems(tmp_path, {"run.sh": "python train.py --noise-multiplier 3\n"}, tracked=False)


@pytest.mark.parametrize(("files", "reference", "words"), ROWS["defaults"])
def test_other_kinds_of_defaults(tmp_path, files, reference, words):
    (only,) = problems(tmp_path, files, reference)
    assert words in only.message


def test_a_link_that_leaves_the_repository_is_not_read(tmp_path):
    (tmp_path / "secret.sh").write_text("python train.py --noise-multiplier 3\n", encoding="utf-8")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "run.sh").symlink_to("../secret.sh")
    assert not problems(folder, {})


@pytest.mark.heavy
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
