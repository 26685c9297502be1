"""`epsilon --unit all`: what a run costs whichever level is protected."""

import json

import pytest

from tests.config.texts import classes, flat, nested

TEXT = nested({"training": "{steps: 500}", "budget": "{epsilon: 2}"})


@pytest.fixture
def path(file):
    return str(file(TEXT))


def blocks(out):
    return [dict(line.split(": ", 1) for line in block.splitlines()) for block in out.split("\n\n")]


def test_a_block_of_plain_lines_for_each_level(dpcalc, path):
    ended = dpcalc("epsilon", path, "--unit", "all")
    assert ended.code == 0
    assert [(block["unit"], block["epsilon"], block["delta"]) for block in blocks(ended.out)] == [
        ("task", "0.500", "1e-06"),
        ("example", "0.500", "1e-06"),
    ]
    assert ended.err == "note: task: Opacus would print the same\nnote: example: Opacus would print the same\n"


def test_json_has_the_fields_of_each_level(dpcalc, path):
    one = json.loads(dpcalc("epsilon", path, "--unit", "task", "--json").out)
    document = json.loads(dpcalc("epsilon", path, "--unit", "all", "--json").out)
    assert (document["schema"], document["command"]) == ("dpcalc.result/1", "epsilon")
    assert document["config"] == one["config"]
    assert [unit["guarantee"]["unit"] for unit in document["units"]] == ["task", "example"]
    assert document["units"][0] == {key: one[key] for key in document["units"][0]}
    assert document["units"][0]["config_hash"] != document["units"][1]["config_hash"]


def test_quiet_is_one_number_a_line(dpcalc, path):
    assert dpcalc("epsilon", path, "--unit", "all", "-q").out == "0.500000\n0.500000\n"


def test_a_table_for_people(dpcalc, path, monkeypatch):
    monkeypatch.setattr("dpcalc.cli.output.on_terminal", lambda: True)
    monkeypatch.setattr("dpcalc.cli.output.has_styles", lambda: False)
    lines = dpcalc("epsilon", path, "--unit", "all").out.splitlines()
    assert lines[0] == "every level, add-remove, delta = 1e-06, 500 steps"
    assert [line.split()[:2] for line in lines[1:4]] == [["unit", "epsilon"], ["task", "0.500"], ["example", "0.500"]]


def test_a_file_need_not_state_a_unit_then(dpcalc, file):
    silent = str(file(nested({"privacy": "{adjacency: add-remove, delta: 1e-6}", "training": "{steps: 500}"})))
    assert dpcalc("epsilon", silent).code == 2
    assert len(blocks(dpcalc("epsilon", silent, "--unit", "all").out)) == 2


def test_a_level_may_be_called_anything(dpcalc, file):
    text = nested({"training": "{steps: 500}"}).replace("example", '"null"')
    assert [one["unit"] for one in blocks(dpcalc("epsilon", str(file(text)), "--unit", "all").out)] == ["task", "null"]


def test_standard_input_is_read_once(process, path):
    with open(path, encoding="utf-8") as text:
        ended = process("epsilon", "-", "--unit", "all", "-q", stdin=text)
    assert (ended.returncode, ended.stdout) == (0, "0.500000\n0.500000\n")


def test_flags_alone_have_one_level(dpcalc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--sample-rate", "0.01", "--steps", "500", "--noise-multiplier", "1", "--delta", "1e-5"]
    assert dpcalc("epsilon", "--unit", "all", *flags, "-q").out == "0.500000\n"


BINS_BELOW = """
version: 1
data: {levels: [{name: a, count: 3}, {name: b, count: 4}, {name: c, count: 2}]}
sampling: {a: {scheme: all}, b: {scheme: balls-in-bins, bins: 4}, c: {scheme: poisson, rate: 0.5}}
mechanism: {noise_multiplier: 1.5, clip: c}
training: {steps: 10}
privacy: {unit: b, adjacency: replace-one, delta: 1e-3}
"""


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


def test_no_level_with_a_bound_is_an_error(real, file):
    text = BINS_BELOW.replace("training:", "tuning: {mean: 3}\naccounting: {method: pld}\ntraining:")
    ended = real("epsilon", str(file(text)), "--unit", "all")
    assert (ended.code, ended.out) == (2, "")


def test_what_is_wrong_with_the_file_is_said_once(dpcalc, file):
    ended = dpcalc("epsilon", str(file(nested({"training": "{steps: many}"}))), "--unit", "all")
    assert ended.code == 2
    assert ended.err.count("DPC102") == 1


@pytest.mark.parametrize(
    "command", [["delta", "--epsilon", "1"], ["solve-sigma", "--target-eps", "2"], ["compare"], ["statement"]]
)
def test_other_commands_ask_for_one_unit(dpcalc, path, command):
    ended = dpcalc(*command, path, "--unit", "all")
    assert ended.code == 2
    assert "`privacy.unit` must name one level, got `all`" in ended.err
    assert "choose one of task, example; `dpcalc epsilon --unit all` tells of each" in ended.err


def test_only_the_flag_means_every_level(dpcalc, file):
    for text in (nested({"privacy": "{unit: all, delta: 1e-6}"}), flat({"privacy": "{unit: all, delta: 1e-6}"})):
        assert "DPC108" in dpcalc("epsilon", str(file(text))).err


def test_the_classes_and_the_records_of_constructed_tasks(real, file):
    out = real("epsilon", str(file(classes({"training": "{steps: 5}"}))), "--unit", "all", "-q").out
    by_class, by_record = map(float, out.split())
    assert by_class > by_record > 0
