"""Several configs in one table, with the real accounting."""

import json

import pytest

from tests.cli.running import on_a_terminal
from tests.cli.solving import FLAT
from tests.thinning import thinned

OTHER = FLAT.replace("clinic", "other").replace("1e-5", "1e-8").replace("1.1", "2.2").replace("1.5", "0.1")


@pytest.fixture
def two(file, tmp_path):
    """Two configs that differ in noise, delta and budget."""
    second = tmp_path / "b.yaml"
    second.write_text(OTHER, encoding="utf-8")
    return str(file()), str(second)


def test_costs_side_by_side_are_those_of_each_alone(real, two):
    together = json.loads(real("epsilon", *two, "--json").out)
    assert together["command"] == "epsilon"
    for path, found in zip(two, together["configs"], strict=True):
        alone = json.loads(real("epsilon", path, "--json").out)
        assert found == {key: alone[key] for key in alone if key not in {"schema", "version", "command"}}
    assert real("epsilon", *two, "-q").out == real("epsilon", two[0], "-q").out + real("epsilon", two[1], "-q").out
    blocks = real("epsilon", *two).out.split("\n\n")
    for path, block in zip(two, blocks, strict=True):
        assert block.strip() == f"config: {path}\n{real('epsilon', path).out}".strip()


@pytest.mark.heavy
def test_comparisons_side_by_side_are_those_of_each_alone(real, two):
    together = json.loads(real("compare", *two, "--json").out)
    for path, found in zip(two, together["configs"], strict=True):
        alone = json.loads(real("compare", path, "--json").out)
        assert found == {key: alone[key] for key in alone if key not in {"schema", "version", "command"}}


@pytest.mark.slow
def test_tables_side_by_side_are_those_of_each_alone(real, two):
    blocks = real("compare", *two).out.split("\n\n")
    alone = [block for path in two for block in real("compare", path).out.split("\n\n")]
    assert [block.partition("\n")[2].strip() for block in blocks] == [block.strip() for block in alone]


@pytest.mark.heavy
def test_what_differs_is_in_the_table(two):
    code, text = on_a_terminal("epsilon", *two, columns=120, NO_COLOR="1")
    assert code == 0
    clinic, other = (
        next(line.split() for line in text.splitlines() if line.startswith(name)) for name in ("clinic", "other")
    )
    assert "1e-05" in clinic
    assert "1e-08" in other
    code, text = on_a_terminal("compare", *two, columns=120, NO_COLOR="1")
    assert code == 0
    head = next(line for line in text.splitlines() if line.startswith("method"))
    assert "clinic, delta 1e-05" in head
    assert "other, delta 1e-08" in head


def test_options_hold_for_all(real, two):
    lines = real("epsilon", *two, "-q", "--delta", "1e-6", "--noise-multiplier", "3").out.split()
    assert lines[0] == lines[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("epsilon", "--no-config"), "--no-config: expected no config beside it"),
        (("compare", "--no-config"), "--no-config: expected no config beside it"),
        (("epsilon", "--unit", "all"), "--unit all: expected one config"),
    ],
)
def test_refusals(real, two, words, message):
    ended = real(words[0], *two, *words[1:])
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_a_file_that_is_named_twice_has_two_rows(real, two):
    assert len(json.loads(real("epsilon", two[0], two[0], "--json").out)["configs"]) == 2


SHUFFLED = FLAT.replace("1_000", "1001").replace("{scheme: poisson, rate: 0.01}", "{scheme: shuffle, size: 100}")


@pytest.mark.parametrize("command", ["epsilon", "compare", "curve steps --range 1,2"])
def test_a_refused_run_among_several_is_named(real, file, tmp_path, command):
    name, *options = command.split()
    kind, options = options[:1], options[1:]
    path = tmp_path / "shuffled.yaml"
    path.write_text(SHUFFLED.replace("clinic", "shuffled"), encoding="utf-8")
    alone = real(name, *kind, str(path), *options)
    assert (alone.code, alone.out) == (2, "")
    said = f"{path}:4:35: error[DPC104]: level example: expected a shuffle whose passes have as many steps"
    assert alone.err.startswith(said)
    among = real(name, *kind, str(path), str(file()), *options)
    is_one_picture = name == "curve"
    assert (among.code, among.out == "") == (2, is_one_picture)
    assert said in among.err


@pytest.mark.heavy
@pytest.mark.parametrize("command", thinned(["validate", "show", "check", "lock", "epsilon", "solve-sigma"], 3))
def test_a_shuffle_that_no_bound_covers_is_refused_where_it_stands(real, file, command):
    path = file(SHUFFLED)
    ended = real(command, str(path))
    assert ended.code == 2
    assert f"{path}:4:35: error[DPC104]: level example: expected a shuffle" in ended.out + ended.err
    if command in {"validate", "check", "epsilon"}:
        document = json.loads(real(command, str(path), "--json").out)
        (finding,) = (document["results"][0] if "results" in document else document["error"])["findings"]
        assert (finding["code"], finding["line"], finding["column"]) == ("DPC104", 4, 35)
    for way_out in ("privacy.adjacency=zero-out", "sampling.drop_last=true", "sampling.size=99"):
        assert real(command, str(path), "--set", way_out).code in ({1, 2} if command in {"check", "lock"} else {0, 1})


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


def test_an_accountant_that_does_not_go_with_tuning_is_refused_where_it_stands(real, file):
    path = file(FLAT + "tuning: {distribution: poisson, mean: 10}\naccounting: {method: pld}\n")
    for command in ("validate", "epsilon"):
        ended = real(command, str(path))
        assert ended.code == 2
        said = "error[DPC107]: `accounting.method` must be auto or rdp beside `tuning`, got the string 'pld'"
        assert said in ended.out + ended.err
    assert real("validate", str(path), "--set", "accounting.method=rdp").code == 0


def test_a_curve_over_sizes_leaves_out_those_that_are_refused(real, file):
    ended = real("curve", "rate", str(file(SHUFFLED)), "--range", "99,100")
    assert ended.code == 0
    assert [line.split()[1] == "-" for line in ended.out.splitlines()[1:3]] == [False, True]


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


def test_a_command_on_one_config_takes_no_pattern(real):
    assert "no such file\n  = this command takes one config: name it" in real("risk", "*.yaml").err


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
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(FLAT.replace("steps", "stepz"), encoding="utf-8")
    document = json.loads(real("epsilon", "missing.yaml", str(wrong), *two, "--json").out)
    assert document["configs"] == json.loads(real("epsilon", *two, "--json").out)["configs"]
    error = document["error"]
    assert (error["exit_code"], error["code"]) == (2, "DPC100")
    assert [(each["path"], each["code"]) for each in error["findings"]] == [
        ("missing.yaml", "DPC100"),
        (str(wrong), "DPC101"),
    ]


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


def test_a_computation_without_a_verdict_among_others_is_exit_code_3(dpcalc, config):
    paths = [config(file=f"{steps}.yaml", steps=steps) for steps in (500, 901, 700)]
    ended = dpcalc("epsilon", *paths, "missing.yaml", "-q")
    assert (ended.code, ended.out) == (3, "0.500000\n0.700000\n")
    assert f"error[DPC901]: {paths[1]}: the grid did not converge" in ended.err
    assert "missing.yaml: error[DPC100]" in ended.err
    document = json.loads(dpcalc("epsilon", *paths, "--json").out)
    assert (len(document["configs"]), document["error"]["code"], document["error"]["exit_code"]) == (2, "DPC901", 3)
