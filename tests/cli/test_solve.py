"""The solvers, with the real accounting: `solve-sigma`, `solve-steps`, `solve-rate`, `solve-group`, and `--write`."""

import json
import shutil
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import dpcalc.api
import dpcalc.planner.solve
import dpcalc.report.solution
from dpcalc.config.load import load
from tests.cli.solving import FLAGS, FLAT, NO_SOLUTION, PHASES, SOLVERS, bare, facts, number
from tests.thinning import thinned

SAMPLES = sorted((Path(__file__).parents[2] / "sample_configs").glob("*.yaml"))
SLOW = {"mnist_with_replacement", "omniglot_5way_1shot", "mini_imagenet_5way_1shot"}  # averages over many laws


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("command", "key", "side", "flags"),
    [
        ("solve-sigma", "mechanism.noise_multiplier", -1, "--sample-rate 0.01 --steps 500"),
        ("solve-steps", "training.steps", 1, "--sample-rate 0.01 --noise-multiplier 1.1"),
        ("solve-rate", "sampling.rate", 1, "--steps 500 --noise-multiplier 1.1"),
    ],
)
def test_the_printed_value_meets_the_target_and_the_other_one_does_not(real, file, command, key, side, flags):
    path = str(file())
    ended = real(command, path)
    assert (ended.code, ended.err) == (0, "")
    told = facts(ended)
    value, fails_at = told["solution.value"], told["solution.fails_at"]
    assert (float(fails_at) - float(value)) * side > 0
    assert (told["solution.target"], told["name"], told["delta"]) == ("1.5", "clinic", "1e-05")
    meets = bare(real("epsilon", path, "-q", "--set", f"{key}={value}"))
    misses = bare(real("epsilon", path, "-q", "--set", f"{key}={fails_at}"))
    assert meets <= float(told["epsilon"]) <= 1.5 < misses
    assert real(command, path, "-q").out == f"{value}\n"
    assert bare(real(command, *flags.split(), *FLAGS, "--target-eps", "1.5", "-q")) == float(value)


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


def test_phases_share_a_factor(real, file):
    document = json.loads(real("solve-sigma", str(file(PHASES)), "--target-eps", "1", "--json").out)
    factor = document["solution"]["value"]
    assert document["solution"]["name"] == "noise_multiplier factor"
    noises = [phase["noise_multiplier"] for phase in document["phases"]]
    assert noises == pytest.approx([1.3 * factor, factor], rel=1e-15)


BATCH = (
    FLAT.replace("1_000}", "50_000}")
    .replace(", rate: 0.01", "")
    .replace("{steps: 500}", "{steps: 500, batch_size: 500}")
)


@pytest.mark.heavy
@pytest.mark.parametrize(("key", "place"), [("batch_size", "training.batch_size"), ("expected", "sampling.expected")])
def test_who_states_batches_gets_a_whole_batch(real, file, key, place):
    expected = BATCH.replace("{scheme: poisson}", "{scheme: poisson, expected: 500}").replace(", batch_size: 500", "")
    path = str(file(BATCH if key == "batch_size" else expected))
    told = facts(real("solve-rate", path))
    value = int(told["solution.value"])
    assert (told["solution.key"], told["solution.fails_at"], told["steps"]) == (key, str(value + 1), "500")
    meets, misses = (
        bare(real("epsilon", path, "-q", "--unset", place, "--set", f"sampling.rate={batch}/50_000"))
        for batch in (value, value + 1)
    )
    assert meets <= 1.5 < misses
    words = "--steps 500 --noise-multiplier 1.1 --batch-size 500 --dataset-size 50_000 --scheme poisson"
    assert bare(real("solve-rate", *FLAGS, *words.split(), "--target-eps", "1.5", "-q")) == value


@pytest.mark.heavy
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


# What need not be stated


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


@pytest.mark.parametrize("noise", thinned(["1.000000123", "1"], 1))
def test_a_stated_noise_is_never_taken_for_an_assumed_one(real, noise):
    flags = ("--sample-rate", "0.01", "--dataset-size", "1000", "--steps", "100", "--delta", "1e-5")
    ended = real("solve-group", *flags, "--noise-multiplier", noise, "--target-eps", "8", "--json")
    assert json.loads(ended.out)["phases"][0]["noise_multiplier"] == float(noise)


@pytest.mark.parametrize("option", thinned(["--target-eps", "--target-epsilon"], 1))
def test_a_target_comes_before_the_budget(real, file, option):
    ended = real("solve-steps", str(file()), option, "0.8")
    assert facts(ended)["solution.target"] == "0.8"
    assert float(facts(ended)["epsilon"]) <= 0.8


def test_no_noise_is_no_remark_where_noise_is_sought(real, file):
    path = str(file(FLAT.replace("1.1", "0  ")))
    ended = real("solve-sigma", path)
    assert (ended.code, ended.err) == (0, "")
    assert "DPC207" in real("epsilon", path).err


# Phases


@pytest.mark.heavy
@pytest.mark.parametrize(("phase", "other"), [("warm-up", 1), ("main", 0)])
def test_one_phase(real, file, phase, other):
    """Also where the other one has the same noise."""
    path = str(file(PHASES.replace("1.3", "1.0")))
    document = json.loads(real("solve-sigma", path, f"--phase={phase}", "--target-eps=1.9", "--json").out)
    kept = document["phases"][other]
    assert (kept["steps"], kept["noise_multiplier"]) == ((100, 300)[other], 1.0)
    assert document["phases"][1 - other]["noise_multiplier"] == document["solution"]["value"]
    assert document["guarantee"]["epsilon"] <= 1.9


@pytest.mark.parametrize(("misses", "fewest", "most"), [(0, 1, 6), (1, 7, 9), (9, 10, 17)])
def test_a_value_has_more_digits_where_six_miss_the_target(file, monkeypatch, misses, fewest, most):
    asked, measure = [], dpcalc.report.solution.certified_measure

    def missing(plan, goal):
        asked.append(plan)
        reached, guarantee = measure(plan, goal)
        return goal.limit + 1 if len(asked) <= misses else reached, guarantee

    monkeypatch.setattr(dpcalc.report.solution, "certified_measure", missing)
    found = dpcalc.solve(file(), "sigma")
    assert fewest <= len(Decimal(repr(found.value)).as_tuple().digits) <= most
    assert (found.plan.phases[0].noise_multiplier, found.guarantee.epsilon <= 1.5) == (found.value, True)


def test_only_the_phase_that_states_no_noise_is_solved_for(real, file):
    path = str(file(PHASES.replace(", mechanism: {noise_multiplier: 1.0}", "").replace("1.3", "1.000000123")))
    document = json.loads(real("solve-sigma", path, "--phase", "main", "--target-eps", "3", "--json").out)
    assert document["phases"][0]["noise_multiplier"] == 1.000000123
    assert document["solution"]["name"] == "noise_multiplier"
    for more in ((), ("--phase", "warm-up")):
        ended = real("solve-sigma", path, "--target-eps", "3", *more)
        assert (ended.code, ended.out) == (2, "")
        assert ", got none in main; --phase" in ended.err


@pytest.mark.heavy
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


# No solution, no question, no verdict


@pytest.mark.parametrize("more", [(), ("-q",), ("--json",), ("--write",)], ids=str)
@pytest.mark.parametrize(
    ("command", "text", "key", "target"),
    [("solve-steps", FLAT, "steps", "0.001"), ("solve-rate", NO_SOLUTION, "size", "1.5")],
)
def test_no_solution_tells_the_best_there_is_and_changes_no_file(real, file, command, text, key, target, more):
    path = file(text)
    ended = real(command, str(path), "--target-eps", target, *more)
    assert (ended.code, path.read_text(encoding="utf-8")) == (1, text)
    if more == ("--json",):
        document = json.loads(ended.out)
        assert (document["solution"], document["guarantee"]) == (None, None)
        assert document["best"]["epsilon"] > document["best"]["target"] == float(target)
    elif more == ("-q",):
        assert ended.out == ""
        assert f"no value of {key} gives epsilon <= {target}" in ended.err
        assert f"{key} 1 gives epsilon <= " in ended.err
    else:
        told = facts(ended)
        assert (told["solution.value"], told["best.value"]) == ("none", "1")
        assert float(told["best.epsilon"]) > float(target)


@pytest.mark.parametrize("command", thinned(SOLVERS, 1))
def test_without_a_config_both_ways_out_are_named_and_whole_commands(real, command):
    ended = real(command)
    assert (ended.code, ended.out) == (2, "")
    assert "give one:" in ended.err
    (way,) = (line.partition(":  dpcalc ")[2] for line in ended.err.splitlines() if "say it directly" in line)
    assert real(*way.split(), "-q").code == 0


# `--write`


@pytest.mark.heavy
@pytest.mark.parametrize(
    "sample",
    [
        *thinned([pytest.param(one, id=one.stem) for one in SAMPLES if one.stem not in SLOW], 7),
        *(pytest.param(one, id=one.stem, marks=pytest.mark.slow) for one in SAMPLES if one.stem in SLOW),
    ],
)
def test_write_on_every_sample(real, tmp_path, sample):
    path = Path(shutil.copy(sample, tmp_path))
    old = path.read_text(encoding="utf-8")
    ended = real("solve-sigma", path.name, "--target-eps", "2.5", "--write", "--json")
    document = json.loads(ended.out)
    assert ended.code == 0
    noisy = [phase for phase in load(str(sample)).plan.phases if phase.noise_multiplier is not None]
    assert [one.partition(":")[0] for one in document["written"]] == [path.name] * len(noisy)
    new = path.read_text(encoding="utf-8")
    for phase, was in zip(document["phases"], load(str(sample)).plan.phases, strict=True):
        if was.noise_multiplier is None:
            continue
        texts = (repr(was.mechanism.noise_multiplier), f"{was.mechanism.noise_multiplier:g}")
        said = next(f"noise_multiplier: {text}" for text in texts if f"noise_multiplier: {text}" in old)
        old = old.replace(said, f"noise_multiplier: {phase['noise_multiplier']}", 1)
    assert new == old
    loaded = load(str(path))
    assert loaded.config_hash == document["config_hash"]
    assert number(real("epsilon", path.name, "-q")) <= 2.5


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("command", "old", "new"),
    [
        ("solve-sigma", "noise_multiplier: 1.1", "noise_multiplier: {}"),
        ("solve-steps", "steps: 500", "steps: {}"),
        ("solve-rate", "rate: 0.01", "rate: {}"),
    ],
)
def test_write_puts_the_printed_value_into_the_file(real, file, command, old, new):
    path = file()
    ended = real(command, str(path), "--write")
    said = new.format(facts(ended)["solution.value"])
    assert ended.code == 0
    assert path.read_text(encoding="utf-8") == FLAT.replace(old, said)
    assert ended.err == f"note: wrote {path}:{FLAT[: FLAT.index(old)].count(chr(10)) + 1}: {said} (was {old})\n"


def test_write_is_refused_before_anything_is_computed(real, monkeypatch):
    monkeypatch.setattr(dpcalc.planner.solve, "solve", None)
    words = ("solve-sigma", *FLAGS, "--sample-rate", "0.01", "--steps", "500", "--target-eps", "2", "--write")
    ended = real(*words)
    assert (ended.code, ended.out) == (2, "")
    assert "expected a config file to change, got <command line>" in ended.err


@pytest.mark.parametrize("option", thinned([pytest.param(words) for words in (("--json",), ("-q",), ())], 1))
def test_a_value_that_cannot_be_written_is_told_all_the_same(real, file, option):
    path = file()
    ended = real("solve-steps", str(path), "--set", "mechanism.noise_multiplier=2", "--write", *option)
    assert ended.code == 2
    assert "--write: " in ended.err
    assert "one that options change" in ended.err
    assert ended.out
    assert path.read_text(encoding="utf-8") == FLAT
    if option == ("--json",):
        assert json.loads(ended.out)["written"] == []


def test_write_adds_what_was_not_stated(real, file):
    text = FLAT.replace("training: {steps: 500}\n", "")
    path = file(text)
    ended = real("solve-steps", str(path), "-q", "--write")
    steps = int(bare(ended))
    assert path.read_text(encoding="utf-8") == text.replace(
        "version: 1\n", f"version: 1\ntraining: {{steps: {steps}}}\n"
    )


def test_a_limit_stays_a_limit(real, file):
    """A tree of 8, 9 and 30 records of which at most 8 are drawn: some of the larger ones, all of the smallest."""
    data = "data: {levels: [{name: user}, {name: example}], tree: [8, 9, 30]}"
    text = FLAT.replace("data: {examples: 1_000}", data).replace("delta: 1e-5", "delta: 1e-5, unit: example")
    text = text.replace(
        "{scheme: poisson, rate: 0.01}", "{user: {scheme: all}, example: {scheme: fixed, size: {at_most: 3}}}"
    )
    path = file(text.replace("1.1", "100"))
    told = facts(real("solve-rate", str(path), "--write"))
    value = told["solution.value"]
    assert f"size: {{at_most: {value}}}" in path.read_text(encoding="utf-8")
    assert number(real("epsilon", str(path), "-q")) <= 1.5


def test_a_value_that_the_file_has_already(real, file):
    path = file()
    assert real("solve-steps", str(path), "--write").code == 0
    before = path.read_bytes()
    ended = real("solve-steps", str(path), "--write")
    assert (ended.code, ended.err) == (0, f"note: {path} has this value already: nothing was written\n")
    assert path.read_bytes() == before


# Groups in turn


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


# Goals other than an epsilon


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("true_positive_rate", ("--target-tpr", "0.05", "--at-fpr", "0.01")),
        ("advantage", ("--target-advantage", "0.2")),
    ],
)
def test_a_goal_is_met_and_named(real, file, measure, words):
    ended = real("solve-sigma", str(file()), *words)
    assert (ended.code, ended.err) == (0, "")
    told = facts(ended)
    assert float(told[f"solution.{measure}"]) <= float(told["solution.target"]) == float(words[1])
    assert "solution.epsilon" not in told
    assert float(told["epsilon"]) > 0
    document = json.loads(real("solve-sigma", str(file()), *words, "--json").out)
    goal = document["solution"]["goal"]
    assert (goal["measure"], goal["limit"]) == (measure, float(words[1]))
    assert goal["reached"] <= goal["limit"]
    assert document["solution"]["epsilon"] == document["guarantee"]["epsilon"]


@pytest.mark.heavy
def test_a_group(real, file):
    path = str(file(FLAT.replace("1.1", "6.0")))
    told = facts(real("solve-group", path))
    found, fails_at = (int(told[f"solution.{key}"]) for key in ("value", "fails_at"))
    assert fails_at == found + 1
    meets, misses = (
        float(real("epsilon", path, "-q", "--set", f"privacy.group_size={size}").out) for size in (found, fails_at)
    )
    assert meets <= 1.5 < misses
    assert real("solve-group", path, "-q").out == f"{found}\n"


def test_no_group_is_the_answer_no(real, file):
    ended = real("solve-group", str(file()), "--target-advantage", "0.01")
    assert ended.code == 1
    assert facts(ended)["best.value"] == "1"
    assert float(facts(ended)["best.advantage"]) > 0.01
    document = json.loads(real("solve-group", str(file()), "--target-advantage", "0.01", "--json").out)
    assert (document["solution"], document["best"]["epsilon"]) == (None, None)
