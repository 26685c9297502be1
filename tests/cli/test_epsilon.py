import json
import re
from pathlib import Path

import pytest

from tests.cli.stand_in import INFINITE


def test_plain_lines_off_a_terminal(dpcalc, config):
    ended = dpcalc("epsilon", config())
    lines = dict(line.split(": ", 1) for line in ended.out.splitlines())
    assert ended.code == 0
    assert lines["epsilon"] == "0.500"
    assert lines["delta"] == "1e-05"
    assert lines["method"] == "pld"
    assert lines["steps"] == "500"
    assert lines["budget.used"] == "25.0%"
    assert ended.err == "note: Opacus would print the same\n"


def test_json(dpcalc, config):
    path = config()
    ended = dpcalc("epsilon", path, "--json")
    document = json.loads(ended.out)
    assert ended.code == 0
    assert document["schema"] == "dpcalc.result/1"
    assert document["config"]["path"] == path
    assert document["guarantee"]["epsilon"] == 0.5
    assert document["budget"] == {"epsilon": 2.0, "used": 0.25, "ok": True}
    assert len(document["config_hash"]) > 20


def test_quiet_is_one_bare_number_and_silence(dpcalc, config):
    ended = dpcalc("epsilon", config(steps=1234), "-q")
    assert (ended.code, ended.out, ended.err) == (0, "1.23400\n", "")


def test_infinite_is_an_answer(dpcalc, config):
    path = config(steps=INFINITE)
    assert dpcalc("epsilon", path).code == 0
    assert dpcalc("epsilon", path, "-q").out == "inf\n"
    document = json.loads(dpcalc("epsilon", path, "--json").out)
    assert (document["guarantee"]["epsilon"], document["guarantee"]["finite"]) == (None, False)


def test_over_budget_is_an_answer(dpcalc, config):
    assert dpcalc("epsilon", config(steps=5000)).code == 0


def test_set_overrides_and_may_repeat(dpcalc, config):
    ended = dpcalc("epsilon", config(), "--set", "training.steps=700", "--set", "budget.epsilon=0.7", "--json")
    document = json.loads(ended.out)
    assert (document["steps"], document["budget"]["epsilon"]) == (700, 0.7)


@pytest.mark.parametrize("method", ["auto", "pld", "rdp", "rdp-classic", "moments", "optimal", "advanced", "basic"])
def test_methods(dpcalc, config, method):
    ended = dpcalc("epsilon", config(), "--method", method)
    assert ended.code == 0
    assert f"\nmethod: {'pld' if method == 'auto' else method}\n" in ended.out


def test_an_unknown_method_is_a_usage_error(dpcalc, config):
    ended = dpcalc("epsilon", config(), "--method", "magic")
    assert (ended.code, ended.out) == (2, "")
    assert "moments" in ended.err


def test_verbose_adds_a_cross_check_and_mu(dpcalc, config):
    path = config()
    brief, verbose = (dpcalc("epsilon", path, *flags).out for flags in ((), ("-v",)))
    assert verbose.startswith(brief)
    both, back, agreement, gdp = verbose[len(brief) :].splitlines()
    assert both.startswith("cross_check: D||D': epsilon between 0.")
    assert "best RDP order" in back
    assert agreement.startswith("cross_check: inversion agrees with pld to ")
    assert float(agreement.split()[-1]) < 1e-4
    assert re.fullmatch(r"gdp: mu 0\.\d+, floor 1e-05, regret \S+", gdp)
    found = json.loads(dpcalc("epsilon", path, "-v", "--json").out)["gdp"]
    assert (found["kind"], found["floor"], found["good_summary"]) == ("upper", 1e-5, True)
    assert "gdp" not in json.loads(dpcalc("epsilon", path, "--json").out)


def test_of_the_best_of_several_runs_mu_is_missing(real, config):
    path = config()
    with Path(path).open("a", encoding="utf-8") as file:
        file.write("tuning: {distribution: poisson, mean: 5}\n")
    ended = real("epsilon", path, "-v")
    assert ended.code == 0
    assert "gdp:" not in ended.out
    assert "mu-GDP is missing: it is not defined for this run" in ended.err


def test_standard_input(process, config):
    with Path(config()).open(encoding="utf-8") as file:
        ended = process("epsilon", "-", "-q", stdin=file)
    assert (ended.returncode, ended.stdout) == (0, "0.500000\n")


def test_names_cannot_steer_a_terminal(dpcalc, config):
    ended = dpcalc("epsilon", config(name='"red \\e[31m \\u202e"'))
    assert (ended.code, ended.out) == (2, "")
    assert "\x1b" not in ended.err
    assert "red \\x1b[31m \\u202e" in ended.err


def test_compare_plain(dpcalc, config):
    ended = dpcalc("compare", config())
    assert ended.code == 0
    blocks = ended.out.split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == ["method: pld", "method: rdp", "method: gdp"]
    assert "note: does [not] apply\n" in blocks[2]


def test_compare_json(dpcalc, config):
    document = json.loads(dpcalc("compare", config(), "--json").out)
    assert [row["epsilon"] for row in document["rows"]] == [0.5, 1.0, None]


@pytest.mark.parametrize("command", ["epsilon", "compare"])
def test_a_config_is_required(dpcalc, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = dpcalc(command)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: no config: none given, no dpcalc.yaml in ")


@pytest.mark.parametrize("command", ["epsilon", "compare", "check", "validate"])
def test_a_missing_file(dpcalc, command, tmp_path):
    path = str(tmp_path / "none.yaml")
    ended = dpcalc(command, path)
    assert ended.code == 2
    assert path in (ended.err if command in {"epsilon", "compare"} else ended.out)


def test_errors_of_a_file_are_all_told_on_standard_error(dpcalc, config):
    path = config(budget="budgets: {epsilon: 2.0}\nextra: 1")
    ended = dpcalc("epsilon", path)
    assert (ended.code, ended.out) == (2, "")
    assert f"{path}:8:1: error[DPC101]" in ended.err
    assert f"{path}:9:1: error[DPC101]" in ended.err


def test_a_lower_bound_that_fails_leaves_the_upper_bound_and_a_note(real, config, monkeypatch):
    path = config()
    whole = json.loads(real("epsilon", path, "--json").out)["guarantee"]

    def fail(*_args, **_named):
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr("dpcalc.planner.evaluate.epsilon_lower", fail)
    ended = real("epsilon", path, "--json")
    found = json.loads(ended.out)
    assert ended.code == 0
    assert (found["guarantee"]["epsilon"], found["guarantee"]["epsilon_lower"]) == (whole["epsilon"], None)
    assert any("lower bound is missing" in note for note in found["notes"])
    assert "note: the lower bound is missing" in real("epsilon", path).err
