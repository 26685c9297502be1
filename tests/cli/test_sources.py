"""How commands find their config, and what the command line changes in it."""

import json
from pathlib import Path

import pytest

RUN = ("--sample-rate", "0.004", "--noise-multiplier", "1.1", "--steps", "1400", "--delta", "1e-5")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current directory: a folder in a git repository."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    monkeypatch.delenv("DPCALC_CONFIG", raising=False)
    return tmp_path


@pytest.mark.parametrize("command", ["epsilon", "compare", "show"])
def test_a_found_config_is_named(dpcalc, config, folder, command):
    assert config(file="dpcalc.yaml") == str(folder / "dpcalc.yaml")
    ended = dpcalc(command)
    assert (ended.code, ended.err.startswith("using ../dpcalc.yaml\n")) == (0, True)
    config(file="dpcalc.yaml", budget="budgets: 3")
    ended = dpcalc(command)
    assert ended.code == 2
    assert ended.err.startswith("using ../dpcalc.yaml\n../dpcalc.yaml:8:1: error[DPC101]")


@pytest.mark.usefixtures("folder")
def test_quiet_does_not_name_it_and_flags_override_it(dpcalc, config):
    config(file="dpcalc.yaml")
    ended = dpcalc("epsilon", "-q")
    assert (ended.code, ended.out, ended.err) == (0, "0.500000\n", "")
    document = json.loads(dpcalc("epsilon", "--steps", "700", "--json").out)
    assert (document["steps"], document["config"]["path"]) == (700, "../dpcalc.yaml")


def test_no_config_ignores_it(dpcalc, config, folder, monkeypatch):
    monkeypatch.setenv("DPCALC_CONFIG", config(file="dpcalc.yaml"))
    ended = dpcalc("epsilon", "--no-config")
    assert (ended.code, "--no-config ignores those that are found" in ended.err) == (2, True)
    document = json.loads(dpcalc("epsilon", "--no-config", *RUN, "--json").out)
    assert (document["steps"], document["config"]["path"]) == (1400, "<command line>")
    assert str(folder) not in json.dumps(document)


def test_the_environment_names_one(dpcalc, config, folder, monkeypatch):
    path = config(file="other.yaml")
    (folder / "dpcalc.yaml").write_text("broken")
    monkeypatch.setenv("DPCALC_CONFIG", path)
    ended = dpcalc("epsilon", "-q")
    assert (ended.code, ended.out) == (0, "0.500000\n")
    assert f"using {path} (DPCALC_CONFIG)\n" in dpcalc("epsilon").err


def test_several_named_by_a_project(dpcalc, config, folder):
    config(file="a.yaml")
    config(file="b.yaml")
    (folder / "pyproject.toml").write_text('[tool.dpcalc]\nconfigs = ["*.yaml"]\n')
    ended = dpcalc("epsilon")
    assert (ended.code, ended.out) == (2, "")
    assert "expected one config, got 2 (../a.yaml, ../b.yaml)" in ended.err


@pytest.mark.parametrize("command", ["epsilon", "compare", "show"])
def test_neither_config_nor_flags(dpcalc, folder, command):
    ended = dpcalc(command, "--steps", "3", "--delta", "1e-5")
    assert (ended.code, ended.out) == (2, "")
    first, *ways = ended.err.splitlines()
    inner = folder / "inner"
    assert first == (
        f"error: no config found: no dpcalc.yaml in {inner} or the folders above it, up to the git root; "
        "without one --sample-rate, --noise-multiplier are needed"
    )
    assert ways == [
        f"  give one:            dpcalc {command} config.yaml",
        f"  or say it directly:  dpcalc {command} --delta 1e-5 --steps 3 --sample-rate RATE --noise-multiplier SIGMA",
    ]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "first", "ways"),
    [
        ("curve epochs --method pld --method rdp --csv", "curve epochs", "--method pld --method rdp --format csv"),
        ("sweep --over training.steps=1,2 --jobs 2", "sweep", "--over training.steps=1,2 --jobs 2"),
        ("risk --fpr 0.1 --prior 0.5", "risk", "--fpr 0.1"),
        ("solve-sigma --target-eps 2 -q", "solve-sigma", "--target-eps 2 --quiet"),
    ],
)
def test_every_way_keeps_arguments_and_repeated_options_of_the_command(dpcalc, words, first, ways):
    *_, config, flags = dpcalc(*words.split()).err.splitlines()
    assert config == f"  give one:            dpcalc {first} config.yaml {ways}"
    assert flags.startswith(f"  or say it directly:  dpcalc {first} {ways} --sample-rate ")


@pytest.mark.usefixtures("folder")
def test_what_is_said_directly_is_enough(dpcalc):
    *_, last = dpcalc("epsilon", "-q").err.splitlines()
    assert dpcalc("epsilon", *last.partition("dpcalc epsilon ")[2].split()).code == 0


def test_key(dpcalc, folder, config):
    path = folder / "train.yaml"
    text = "".join(f"    {line}\n" for line in Path(config()).read_text(encoding="utf-8").splitlines())
    path.write_text(f"lr: 0.1\nrun:\n  privacy:\n{text}", encoding="utf-8")
    assert dpcalc("epsilon", str(path), "--key", "run.privacy", "-q").out == "0.500000\n"
    ended = dpcalc("epsilon", str(path), "--key", "run.private")
    assert (ended.code, ended.err.startswith("--key:1:5: error[DPC103]")) == (2, True)
    assert dpcalc("epsilon", "--no-config", "--key", "a", *RUN).code == 2


def test_errors_of_flags_stand_at_the_flag(dpcalc, config):
    ended = dpcalc("epsilon", config(), "--delta", "x", "--steps", "-3", "--unit", "us\x1b[31mer")
    assert (ended.code, ended.out) == (2, "")
    for place in ("--delta:1:1: error[DPC102]", "--steps:1:1: error[DPC106]", "--unit:1:3: error[DPC100]"):
        assert place in ended.err
    assert "\x1b" not in ended.err


def test_unset(dpcalc, config):
    path = config()
    assert (
        json.loads(dpcalc("epsilon", path, "--unset", "budget", "--json").out)["budget"]
        != json.loads(dpcalc("epsilon", path, "--json").out)["budget"]
    )
    ended = dpcalc("epsilon", path, "--unset", "budgets")
    assert (ended.code, "--unset #1:1:1: error[DPC103]" in ended.err) == (2, True)


@pytest.mark.heavy
def test_standard_input_is_named_by_a_dash(process, config, tmp_path):
    with Path(config()).open(encoding="utf-8") as file:
        ended = process("show", "-", stdin=file, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("version: 1\nname: clinic\n")
