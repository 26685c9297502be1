"""The solvers, with the real accounting."""

import json
from fractions import Fraction

import pytest

import dpcalc.planner.solve
from dpcalc.config.load import load
from dpcalc.errors import ConvergenceError
from tests.cli.solving import FLAGS, FLAT, NO_SOLUTION, PHASES, SOLVERS, bare, facts, number
from tests.thinning import thinned


@pytest.mark.parametrize(
    ("command", "key", "side"),
    [
        ("solve-sigma", "mechanism.noise_multiplier", -1),
        ("solve-steps", "training.steps", 1),
        ("solve-rate", "sampling.rate", 1),
    ],
)
def test_the_printed_value_meets_the_target_and_the_other_one_does_not(real, file, command, key, side):
    path = str(file())
    ended = real(command, path)
    assert (ended.code, ended.err) == (0, "")
    told = facts(ended)
    value, fails_at = told["solution.value"], told["solution.fails_at"]
    assert (float(fails_at) - float(value)) * side > 0
    assert (told["solution.target"], told["name"], told["delta"]) == ("1.5", "clinic", "1e-05")
    meets = bare(real("epsilon", path, "-q", "--set", f"{key}={value}"))
    misses = bare(real("epsilon", path, "-q", "--set", f"{key}={fails_at}"))
    assert meets <= 1.5 < misses
    assert meets <= float(told["epsilon"]) <= 1.5
    assert real(command, path, "-q").out == f"{value}\n"


@pytest.mark.parametrize("noise", thinned(["1.000000123", "1"], 1))
def test_a_stated_noise_is_never_taken_for_an_assumed_one(real, noise):
    flags = ("--sample-rate", "0.01", "--dataset-size", "1000", "--steps", "100", "--delta", "1e-5")
    ended = real("solve-group", *flags, "--noise-multiplier", noise, "--target-eps", "8", "--json")
    assert json.loads(ended.out)["phases"][0]["noise_multiplier"] == float(noise)


def test_only_the_phase_that_states_no_noise_is_solved_for(real, file):
    config = PHASES.replace(", mechanism: {noise_multiplier: 1.0}", "").replace("1.3", "1.000000123")
    ended = real("solve-sigma", str(file(config)), "--phase", "main", "--target-eps", "3", "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["phases"][0]["noise_multiplier"] == 1.000000123
    refused = real("solve-sigma", str(file(config)), "--target-eps", "3")
    assert "mechanism: expected one in every phase, got none in main; --phase" in refused.err


BATCH = (
    FLAT.replace("1_000}", "50_000}")
    .replace(", rate: 0.01", "")
    .replace("{steps: 500}", "{steps: 500, batch_size: 500}")
)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (BATCH, "batch_size"),
        (
            BATCH.replace("{scheme: poisson}", "{scheme: poisson, expected: 500}").replace(", batch_size: 500", ""),
            "expected",
        ),
    ],
)
def test_who_states_batches_gets_a_whole_batch(real, file, text, key):
    path = str(file(text))
    told = facts(real("solve-rate", path))
    value = int(told["solution.value"])
    assert (told["solution.key"], told["solution.fails_at"], told["steps"]) == (key, str(value + 1), "500")
    meets, misses = (
        bare(real("epsilon", path, "-q", "--unset", place, "--set", f"sampling.rate={batch}/50_000"))
        for batch in (value, value + 1)
        for place in ["training.batch_size" if key == "batch_size" else "sampling.expected"]
    )
    assert meets <= 1.5 < misses


def test_batches_by_flags_alone(real, file):
    words = ("--steps", "500", "--noise-multiplier", "1.1", "--batch-size", "500", "--dataset-size", "50_000")
    words += ("--scheme", "poisson")
    alone = real("solve-rate", *FLAGS, *words, "--target-eps", "1.5", "-q")
    assert bare(alone) == bare(real("solve-rate", str(file(BATCH)), "-q"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("training: {steps: 500, batch_size: 500}", "training: {epochs: 5, batch_size: 500}"),
        ("{scheme: poisson}", "{scheme: poisson, rate: 1/97}"),
        ("{scheme: poisson}", "{scheme: fixed, size: 4}"),
    ],
)
def test_epochs_stay(real, file, old, new):
    text = BATCH.replace(old, new).replace("steps: 500", "epochs: 5")
    text = text if old.startswith("training") else text.replace(", batch_size: 500", "")
    path = file(text.replace("noise_multiplier: 1.1", "noise_multiplier: 6") if "fixed" in new else text)
    before = path.read_text(encoding="utf-8")
    told = facts(real("solve-rate", str(path), "--write"))
    written = path.read_text(encoding="utf-8")
    key, value = told["solution.key"], told["solution.value"]
    was = next(line for line in ("batch_size: 500", "rate: 1/97", "size: 4") if line in before)
    assert written == before.replace(was, f"{key}: {value}")
    rate = Fraction(value) if key == "rate" else Fraction(int(value), 50_000)
    assert load(str(path)).plan.steps == int(told["steps"]) == -(-5 // rate)
    assert number(real("epsilon", str(path), "-q")) <= 1.5
    worse = before.replace(was, f"{key}: {told['solution.fails_at']}")
    path.write_text(worse, encoding="utf-8")
    assert number(real("epsilon", str(path), "-q")) > 1.5


@pytest.mark.parametrize("more", [(), ("-q",), ("--json",), ("--write",)])
def test_no_step_at_all_is_no_solution(real, file, more):
    path = file()
    ended = real("solve-steps", str(path), "--target-eps", "0.001", *more)
    assert ended.code == 1
    assert path.read_text(encoding="utf-8") == FLAT
    if not more:
        assert (facts(ended)["solution.value"], facts(ended)["best.value"]) == ("none", "1")


def test_json(real, file):
    path = file()
    document = json.loads(real("solve-steps", str(path), "--json").out)
    solution, guarantee = document["solution"], document["guarantee"]
    assert set(solution) == {"name", "value", "epsilon", "target", "fails_at", "key", "goal", "held"}
    assert (solution["name"], solution["key"], solution["target"]) == ("steps", "steps", 1.5)
    assert solution["fails_at"] == solution["value"] + 1
    assert 0 < guarantee["epsilon_lower"] <= guarantee["epsilon"] == solution["epsilon"] <= 1.5
    assert (document["steps"], document["best"], document["written"]) == (solution["value"], None, [])
    path.write_text(FLAT.replace("500", str(solution["value"])), encoding="utf-8")
    assert load(str(path)).config_hash == document["config_hash"]


@pytest.mark.parametrize("option", thinned(["--target-eps", "--target-epsilon"], 1))
def test_a_target_comes_before_the_budget(real, file, option):
    ended = real("solve-steps", str(file()), option, "0.8")
    assert facts(ended)["solution.target"] == "0.8"
    assert float(facts(ended)["epsilon"]) <= 0.8


@pytest.mark.parametrize("command", SOLVERS)
def test_without_a_target_both_ways_to_state_one_are_named(real, file, command):
    ended = real(command, str(file(FLAT.replace("budget: {epsilon: 1.5}\n", ""))))
    assert (ended.code, ended.out) == (2, "")
    assert "--target-eps E" in ended.err
    assert "`budget: {epsilon: E}`" in ended.err


@pytest.mark.parametrize("command", SOLVERS)
def test_without_a_config_both_ways_out_are_named(real, command):
    ended = real(command, "--target-eps", "2")
    assert (ended.code, ended.out) == (2, "")
    assert "give one:" in ended.err
    assert "or say it directly:" in ended.err


@pytest.mark.parametrize("command", thinned(SOLVERS, 1))
def test_the_way_out_without_a_config_is_a_whole_command(real, command):
    ended = real(command)
    (way,) = (line.partition(":  dpcalc ")[2] for line in ended.err.splitlines() if "say it directly" in line)
    assert real(*way.split(), "-q").code == 0
    assert "looked above" not in ended.err


@pytest.mark.parametrize("target", ["0", "-1", "nan", "inf", "two"])
def test_a_target_that_is_none(real, file, target):
    ended = real("solve-sigma", str(file()), f"--target-eps={target}")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith(f": expected a finite number > 0, got `{target}`\n")


def test_a_found_config(real, file):
    file().rename("dpcalc.yaml")
    ended = real("solve-steps")
    assert (ended.code, facts(ended)["name"]) == (0, "clinic")
    assert ended.err == "using ./dpcalc.yaml\n"


@pytest.mark.parametrize(
    ("command", "flags"),
    thinned(
        [
            ("solve-sigma", "--sample-rate 0.01 --steps 500"),
            ("solve-steps", "--sample-rate 0.01 --noise-multiplier 1.1"),
            ("solve-rate", "--steps 500 --noise-multiplier 1.1"),
        ],
        2,
    ),
)
def test_flags_alone_give_the_same(real, file, command, flags):
    path = str(file())
    alone = real(command, *flags.split(), *FLAGS, "--target-eps", "1.5", "-q")
    assert bare(alone) == bare(real(command, path, "-q"))


def test_batches_of_a_fixed_size_need_the_number_of_examples(real):
    words = ("solve-rate", *FLAGS, "--scheme", "fixed", "--steps", "500", "--noise-multiplier", "20")
    assert "--dataset-size" in real(*words, "--target-eps", "2").err
    assert bare(real(*words, "--target-eps", "2", "--dataset-size", "1000", "-q")) >= 1


@pytest.mark.parametrize(
    ("command", "stated", "absent"),
    thinned(
        [
            ("solve-sigma", "{noise_multiplier: 1.1} ", "{max_grad_norm: 2} "),
            ("solve-sigma", "mechanism: {noise_multiplier: 1.1}", ""),
            ("solve-steps", "training: {steps: 500}", ""),
            ("solve-rate", ", rate: 0.01", ""),
        ],
        2,
    ),
)
def test_what_is_asked_for_need_not_be_stated(real, file, command, stated, absent):
    whole = real(command, str(file()), "-q").out
    assert stated in FLAT
    assert real(command, str(file(FLAT.replace(stated, absent))), "-q").out == whole


@pytest.mark.parametrize("kind", thinned(["gaussian", "laplace", "discrete-gaussian", "discrete-laplace"], 2))
def test_noise_of_a_stated_type_need_not_be_stated(real, file, kind):
    path = str(file(FLAT.replace("noise_multiplier: 1.1", f"type: {kind}")))
    noise = bare(real("solve-sigma", path, "-q"))
    assert bare(real("epsilon", path, "-q", "--set", f"mechanism.noise_multiplier={noise}")) <= 1.5


def test_another_missing_key_is_an_error_as_ever(real, file):
    ended = real("solve-sigma", str(file(FLAT.replace("steps: 500", ""))))
    assert ended.code == 2
    assert "error[DPC103]" in ended.err
    assert "noise_multiplier" not in ended.err


def test_no_noise_is_no_remark_where_noise_is_sought(real, file):
    path = str(file(FLAT.replace("1.1", "0  ")))
    ended = real("solve-sigma", path)
    assert (ended.code, ended.err) == (0, "")
    assert "DPC207" in real("epsilon", path).err


def test_no_solution_tells_the_best_there_is(real, file):
    path = str(file(NO_SOLUTION))
    ended = real("solve-rate", path)
    assert (ended.code, ended.err) == (1, "")
    told = facts(ended)
    assert (told["solution.value"], told["best.value"]) == ("none", "1")
    assert float(told["best.epsilon"]) > 1.5


def test_no_solution_in_json_and_in_short(real, file):
    path = str(file(NO_SOLUTION))
    ended = real("solve-rate", path, "--json")
    document = json.loads(ended.out)
    assert (ended.code, document["solution"], document["guarantee"]) == (1, None, None)
    assert document["best"]["epsilon"] > document["best"]["target"] == 1.5
    short = real("solve-rate", path, "-q")
    assert (short.code, short.out) == (1, "")
    assert "no value of size gives epsilon <= 1.5" in short.err
    assert "size 1 gives epsilon <= " in short.err


def test_no_solution_changes_no_file(real, file):
    path = file(NO_SOLUTION)
    assert real("solve-rate", str(path), "--write").code == 1
    assert path.read_text(encoding="utf-8") == NO_SOLUTION


def test_no_certified_answer_is_no_verdict(real, file, monkeypatch):
    def stuck(*_, **__):
        raise ConvergenceError("the grid did not converge")

    monkeypatch.setattr(dpcalc.planner.solve, "solve", stuck)
    ended = real("solve-sigma", str(file()))
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("error[DPC901]")


def test_phases_share_a_factor(real, file):
    document = json.loads(real("solve-sigma", str(file(PHASES)), "--target-eps", "1", "--json").out)
    factor = document["solution"]["value"]
    assert document["solution"]["name"] == "noise_multiplier factor"
    noises = [phase["noise_multiplier"] for phase in document["phases"]]
    assert noises == pytest.approx([1.3 * factor, factor], rel=1e-15)


def test_phases_that_state_no_noise_get_the_same(real, file):
    path = str(file(PHASES.replace(", mechanism: {noise_multiplier: 1.3}", "").replace("noise_multiplier: 1.0", "")))
    document = json.loads(real("solve-sigma", path, "--target-eps", "1", "--json").out)
    solution = document["solution"]
    assert solution["name"] == "noise_multiplier"
    assert [phase["noise_multiplier"] for phase in document["phases"]] == [solution["value"]] * 2


@pytest.mark.parametrize("command", thinned(SOLVERS, 1))
def test_one_phase(real, file, command):
    document = json.loads(real(command, str(file(PHASES)), "--phase=main", "--target-eps=1.9", "--json").out)
    before = {"steps": 100, "noise_multiplier": 1.3}
    (warm_up, _) = document["phases"]
    assert {key: warm_up[key] for key in before} == before
    assert document["guarantee"]["epsilon"] <= 1.9


def test_the_phase_that_states_no_noise(real, file):
    path = str(file(PHASES.replace(", mechanism: {noise_multiplier: 1.0}", "")))
    told = facts(real("solve-sigma", path, "--target-eps", "1.9", "--phase", "main"))
    assert told["solution.name"] == "noise_multiplier"
    for more in ((), ("--phase", "warm-up")):
        ended = real("solve-sigma", path, "--target-eps", "1.9", *more)
        assert (ended.code, ended.out) == (2, "")
        assert "got none in main" in ended.err


def test_an_unknown_phase(real, file):
    ended = real("solve-sigma", str(file(PHASES)), "--target-eps", "1", "--phase", "end")
    assert ended.code == 2
    assert "expected one of warm-up, main, got 'end'" in ended.err


def test_on_a_terminal(real, file, monkeypatch):
    monkeypatch.setattr("dpcalc.cli.output.on_terminal", lambda: True)
    monkeypatch.setattr("dpcalc.cli.output.has_styles", lambda: False)
    assert real("solve-steps", str(file())).out.startswith("steps <= ")
    assert real("delta", str(file()), "--epsilon", "1").out.startswith("delta <= ")
    assert real("solve-rate", str(file(NO_SOLUTION))).out.startswith("no value of size gives epsilon <= 1.5")


CYCLIC = """\
version: 1
data: {examples: 50_000}
sampling: {scheme: cyclic-poisson, groups: 8, expected: 500, max_batch_size: 550, max_group_size: 6_800}
mechanism: {type: matrix-factorization, strategy: {banded: {bands: 8}}, noise_multiplier: 1.0}
training: {epochs: 20}
privacy: {adjacency: add-remove, delta: 1e-6}
"""


@pytest.mark.heavy
def test_groups_in_turn_are_solved_in_the_terms_of_the_file(real, file):
    path = file(CYCLIC.replace(", max_batch_size: 550, max_group_size: 6_800", ""))
    before = path.read_text(encoding="utf-8")
    told = facts(real("solve-rate", str(path), "--target-eps", "6", "--write"))
    assert told["solution.key"] == "expected"
    value = told["solution.value"]
    assert path.read_text(encoding="utf-8") == before.replace("expected: 500", f"expected: {value}")
    assert number(real("epsilon", str(path), "-q")) <= 6
    above = before.replace("expected: 500", f"expected: {int(value) + 1}")
    assert number(real("epsilon", str(file(above)), "-q")) > 6


@pytest.mark.heavy
def test_cut_groups_in_turn_are_told_what_the_cut_costs(real, file):
    ended = real("epsilon", str(file(CYCLIC)))
    uncut = number(real("epsilon", str(file(CYCLIC.replace(", max_batch_size: 550", ""))), "-q"))
    assert "cutting batches to 550 (example) raises epsilon 9.93 -> 31.3" in ended.err
    assert uncut == pytest.approx(9.93, rel=1e-3)
    assert "costs less than 1% is 630" in ended.err
    raised = number(real("epsilon", str(file(CYCLIC.replace("550", "630"))), "-q"))
    assert uncut < raised <= 1.01 * uncut
    assert number(real("epsilon", str(file(CYCLIC.replace("550", "629"))), "-q")) > 1.01 * uncut


def test_no_noise_of_one_phase_makes_up_for_the_others(real, tmp_path):
    path = tmp_path / "survey.yaml"
    path.write_text(
        "version: 1\ndata: {examples: 10000}\nphases:\n"
        "  - {name: counts, sampling: {scheme: all}, mechanism: {type: pure-dp, epsilon: 3}, training: {steps: 1}}\n"
        "  - {name: train, sampling: {scheme: poisson, expected: 500}, mechanism: {noise_multiplier: 1},"
        " training: {epochs: 3}}\nprivacy: {adjacency: add-remove, delta: 1e-6}\n",
        encoding="utf-8",
    )
    ended = real("solve-sigma", str(path), "--phase", "train", "--target-eps", "2")
    assert ended.code == 1
    assert "note: the phases that keep their noise cost as much as best.epsilon alone: counts" in ended.err
    assert "best.epsilon: 3.0" in ended.out
