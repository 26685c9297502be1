"""`epsilon` and `compare`: their forms, one config or several, one level or all (`--unit all`)."""

import csv
import json
import re

import pytest

from tests.cli.solving import FLAT, facts
from tests.config.texts import classes, nested
from tests.thinning import thinned


@pytest.mark.heavy
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


def test_of_the_best_of_several_runs_mu_is_missing(real, file):
    path = str(file(FLAT + "tuning: {distribution: poisson, mean: 5}\n"))
    ended = real("epsilon", path, "-v")
    assert (ended.code, "gdp:" in ended.out) == (0, False)
    assert "mu-GDP is missing: it is not defined for this run" in ended.err
    for command in ("validate", "epsilon"):
        refused = real(command, path, "--set", "accounting.method=pld")
        said = "error[DPC107]: `accounting.method` must be auto or rdp beside `tuning`, got the string 'pld'"
        assert (refused.code, said in refused.out + refused.err) == (2, True)


@pytest.mark.heavy
def test_a_bound_has_the_same_digits_in_every_command(real, file):
    """Near the budget there are more digits, so that the verdict shows."""
    found = json.loads(real("epsilon", str(file()), "--json").out)["guarantee"]["epsilon"]
    budget = found * (1 - 1e-4)
    path = str(file(FLAT.replace("epsilon: 1.5", f"epsilon: {budget!r}")))
    shown = facts(real("epsilon", path))["epsilon"]
    assert budget < found <= float(shown) < 2 * found - budget
    row = next(block for block in real("compare", path).out.split("\n\n") if block.startswith("method: pld\n"))
    assert f"\nepsilon: {shown}\n" in row


# Several configs in one table


OTHER = FLAT.replace("clinic", "other").replace("1e-5", "1e-8").replace("1.1", "2.2").replace("1.5", "0.1")


@pytest.fixture
def two(file, tmp_path):
    """Two configs that differ in noise, delta and budget."""
    second = tmp_path / "b.yaml"
    second.write_text(OTHER, encoding="utf-8")
    return str(file()), str(second)


@pytest.mark.heavy
@pytest.mark.parametrize("command", ["epsilon", pytest.param("compare", marks=pytest.mark.heavy)])
def test_answers_side_by_side_are_those_of_each_alone(real, two, command):
    together = json.loads(real(command, *two, "--json").out)
    assert together["command"] == command
    for path, found in zip(two, together["configs"], strict=True):
        alone = json.loads(real(command, path, "--json").out)
        assert found == {key: alone[key] for key in alone if key not in {"schema", "version", "command"}}
    blocks = real(command, *two).out.split("\n\n")
    alone = [block for path in two for block in real(command, path).out.split("\n\n")]
    assert [block.partition("\n")[2].strip() for block in blocks] == [block.strip() for block in alone]
    if command == "epsilon":
        assert [block.partition("\n")[0] for block in blocks] == [f"config: {path}" for path in two]
        assert real(command, *two, "-q").out == "".join(real(command, path, "-q").out for path in two)


def test_options_hold_for_all_and_a_file_may_be_named_twice(real, two):
    first, second = real("epsilon", *two, "-q", "--delta", "1e-6", "--noise-multiplier", "3").out.split()
    assert first == second
    assert len(json.loads(real("epsilon", two[0], two[0], "--json").out)["configs"]) == 2


@pytest.mark.parametrize(
    "command", thinned([pytest.param(words) for words in (("epsilon",), ("compare",), ("curve", "steps"))], 1)
)
def test_a_pattern_that_no_shell_has_expanded(real, tmp_path, monkeypatch, command):
    """The message on a folder says to name its files so, in quotes."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(FLAT.replace("1_000", "10"), encoding="utf-8")
    assert real(*command, "*.yaml").out == real(*command, "a.yaml", "b.yaml").out != ""
    missing = real(*command, "c/*.yaml")
    assert (missing.code, missing.out) == (2, "")
    assert "c/*.yaml: expected a pattern that matches config files, got one that matches none" in missing.err


@pytest.mark.parametrize("command", ["epsilon -q", "epsilon", pytest.param("compare", marks=pytest.mark.heavy)])
def test_a_file_that_cannot_be_used_keeps_no_answer_from_the_others(real, two, tmp_path, command):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(FLAT.replace("steps", "stepz"), encoding="utf-8")
    good = real(*command.split(), *two)
    both = real(*command.split(), two[0], str(wrong), two[1], "missing.yaml")
    assert (good.code, both.code) == (0, 2)
    assert both.out == good.out
    assert f"{wrong}:6:12: error[DPC101]: unknown key `stepz`" in both.err
    assert "missing.yaml: error[DPC100]: no such file" in both.err
    alone = real(*command.split(), two[0], str(wrong))  # the form of the answer is that of several files
    assert alone.out == real(*command.split(), two[0], str(wrong), "missing.yaml").out
    assert alone.out.strip() == good.out[: len(alone.out)].strip()


def test_errors_of_single_files_are_in_json_beside_the_answers(real, two, tmp_path):
    (tmp_path / "wrong.yaml").write_text(FLAT.replace("steps", "stepz"), encoding="utf-8")
    document = json.loads(real("epsilon", "missing.yaml", "wrong.yaml", *two, "--json").out)
    assert document["configs"] == json.loads(real("epsilon", *two, "--json").out)["configs"]
    assert (document["error"]["exit_code"], document["error"]["code"]) == (2, "DPC100")
    findings = [(each["path"], each["code"]) for each in document["error"]["findings"]]
    assert findings == [("missing.yaml", "DPC100"), ("wrong.yaml", "DPC101")]


@pytest.mark.parametrize("command", ["epsilon", "compare", "curve steps"])
def test_without_a_single_answer_every_error_is_said_once(real, two, tmp_path, command):
    (tmp_path / "wrong.yaml").write_text("version: 2\n", encoding="utf-8")
    words = (*command.split(), "missing.yaml", "wrong.yaml")
    ended = real(*words)
    assert (ended.code, ended.out) == (2, "")
    assert "missing.yaml: error[DPC100]" in ended.err
    assert "wrong.yaml:1:10: error" in ended.err
    error = json.loads(real(*words, "--json").out)["error"]
    assert {each["path"] for each in error["findings"]} == {"missing.yaml", "wrong.yaml"}
    assert real(*command.split(), *two, "--set", "foo=1").err.count("unknown key `foo`") == 1


# A shuffle that no bound covers is refused where it stands


SHUFFLED = FLAT.replace("1_000", "1001").replace("{scheme: poisson, rate: 0.01}", "{scheme: shuffle, size: 100}")


@pytest.mark.heavy
@pytest.mark.parametrize("command", ["epsilon", "compare", "curve steps --range 1,2"])
def test_a_refused_run_among_several_is_named(real, file, tmp_path, command):
    (tmp_path / "shuffled.yaml").write_text(SHUFFLED.replace("clinic", "shuffled"), encoding="utf-8")
    said = "shuffled.yaml:4:35: error[DPC104]: level example: expected a shuffle whose passes have as many steps"
    alone = real(*command.split(), "shuffled.yaml")
    assert (alone.code, alone.out, alone.err.startswith(said)) == (2, "", True)
    among = real(*command.split(), "shuffled.yaml", str(file()))
    is_one_picture = command.startswith("curve")
    assert (among.code, among.out == "", said in among.err) == (2, is_one_picture, True)


@pytest.mark.heavy
def test_a_refused_shuffle_of_a_phase_and_of_flags_has_its_place(real, file):
    phases = SHUFFLED + "phases: [{training: {steps: 3}, sampling: {size: 77}}, {training: {steps: 5}}]\n"
    ended = real("validate", str(file(phases)))
    assert (ended.code, ":4:35: error[DPC104]" in ended.out) == (2, True)
    flags = ("--scheme", "shuffle", "--batch-size", "10", "--dataset-size", "101", "--noise-multiplier", "1")
    ended = real("epsilon", "--no-config", *flags, "--steps", "3", "--delta", "1e-5")
    assert ended.err.startswith("--batch-size:1:1: error[DPC104]: level example")
    path = str(file(SHUFFLED))
    found = real("solve-rate", path, "--target-eps", "50", "-q")  # another size is what it looks for
    assert found.code == 0
    assert float(real("epsilon", path, "--set", f"sampling.size={int(found.out)}", "-q").out) <= 50


# Every level: `--unit all`


TEXT = nested({"training": "{steps: 500}", "budget": "{epsilon: 2}"})


@pytest.fixture
def path(file):
    return str(file(TEXT))


def blocks(out):
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in out.split("\n\n")]


def test_standard_input_is_read_once(dpcalc, path, monkeypatch):
    with open(path, encoding="utf-8") as text:
        monkeypatch.setattr("sys.stdin", text)
        assert dpcalc("epsilon", "-", "--unit", "all", "-q").out == "0.500000\n0.500000\n"


BINS_BELOW = """
version: 1
data: {levels: [{name: a, count: 3}, {name: b, count: 4}, {name: c, count: 2}]}
sampling: {a: {scheme: all}, b: {scheme: balls-in-bins, bins: 4}, c: {scheme: poisson, rate: 0.5}}
mechanism: {noise_multiplier: 5, clip: c}
training: {steps: 4}
privacy: {unit: b, adjacency: replace-one, delta: 1e-3}
"""


@pytest.mark.heavy
def test_a_level_without_a_bound_leaves_the_others_their_answers(real, file):
    path = str(file(BINS_BELOW))
    ended = real("epsilon", path, "--unit", "all")
    first, *others = blocks(ended.out)
    assert ended.code == 0
    assert set(first) == {"unit", "no_bound"}
    assert first["unit"] == "a"
    assert "balls-in-bins" in first["no_bound"]
    assert [(one["unit"], one["epsilon"]) for one in others] == [
        (unit, real("epsilon", path, "--unit", unit).out.split()[1]) for unit in ("b", "c")
    ]
    assert "a: no bound" in ended.err
    document = json.loads(real("epsilon", path, "--unit", "all", "--json").out)
    assert [one["guarantee"]["unit"] for one in document["units"]] == ["b", "c"]
    assert [one["unit"] for one in document["without_bound"]] == ["a"]
    assert real("epsilon", path, "--unit", "all", "-q").out.splitlines()[0] == "inf"


@pytest.mark.heavy
def test_the_classes_and_the_records_of_constructed_tasks(real, file):
    out = real("epsilon", str(file(classes({"training": "{steps: 5}"}))), "--unit", "all", "-q").out
    by_class, by_record = map(float, out.split())
    assert by_class > by_record > 0


def test_explain_says_why_and_what_each_choice_costs(real, file):
    path = str(file())
    ended = real("epsilon", path, "--explain")
    assert ended.out.startswith(real("epsilon", path).out)  # the answer, and then the reasons
    why = [line for line in ended.out.splitlines() if line.startswith("why: ")]
    assert "a step holds one example with probability 1/100, and moves the sum by at most 1 clip norm" in why[0]
    assert "otherwise: " in ended.out
    explained = json.loads(real("epsilon", path, "--explain", "--json").out)
    plain = json.loads(real("epsilon", path, "--json").out)
    assert {name: value for name, value in explained.items() if name != "explanation"} == plain
    assert {each["kind"] for each in explained["explanation"]["otherwise"]} == {"upper"}
    assert real("epsilon", path, path, "--explain").code == 2


@pytest.mark.heavy
@pytest.mark.parametrize(
    "words",
    [
        "epsilon",
        "epsilon {0} {0}",
        "compare",
        "compare {0} {0}",
        "delta --epsilon 1",
        "risk",
        "solve-sigma --target-eps 1",
    ],
)
def test_forms_of_one_result(real, file, words):
    """The same numbers in each: CSV has those of JSON in full, a row for each config or row of the result."""
    path = str(file())
    words = words.format(path) if "{0}" in words else f"{words} {path}"
    said = {form: real(*words.split(), "--format", form) for form in ("table", "csv", "markdown", "json")}
    assert [ended.code for ended in said.values()] == [0] * 4
    assert said["json"].out == real(*words.split(), "--json").out
    document = json.loads(said["json"].out)
    header, *rows = csv.reader(said["csv"].out.splitlines())
    results = document.get("configs", [document])
    assert len(rows) == sum(len(each.get("rows", [each])) for each in results)
    column = next(name for name in ("epsilon", "advantage", "delta") if name in header)
    numbers = [row[header.index(column)] for row in rows if row[header.index(column)]]
    assert all(number in said["json"].out for number in numbers)
    assert said["markdown"].out.startswith("**")
    assert len({line.count(" | ") for line in said["markdown"].out.splitlines()[2:]}) == 1


def test_a_form_that_does_not_exist_or_two_of_them(real, file):
    path = str(file())
    assert "expected one of table, csv, markdown, json, got `xml`" in real("epsilon", path, "--format", "xml").err
    ended = real("epsilon", path, "--format", "csv", "--json")
    assert (ended.code, "got json and csv" in ended.err) == (2, True)
    assert real("epsilon", str(file(FLAT.replace("clinic", "=1+1"))), "--format", "csv").out.count("'=1+1") == 1
