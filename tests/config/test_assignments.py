"""`--set`: the rules of the file, of merging, and nothing without effect."""

from fractions import Fraction
from pathlib import Path

import pytest

from dpcalc.config.load import load_text
from dpcalc.config.overrides import Overrides
from dpcalc.config.source import ConfigError, source_of
from dpcalc.config.tree import Scalar, walk
from dpcalc.config.yaml_text import parse_yaml
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.config.texts import errors, flat, nested, plan


@pytest.mark.parametrize(
    ("assignments", "scheme", "count", "steps"),
    [
        (["training.steps=1e3"], Poisson(probability=Fraction(256, 60_000)), 60_000, 1000),
        (["training.epochs=1"], Poisson(probability=Fraction(256, 60_000)), 60_000, 235),
        (["sampling.rate=0.5"], Poisson(probability=Fraction(1, 2)), 60_000, 100),
        (["sampling.example.rate=0.5"], Poisson(probability=Fraction(1, 2)), 60_000, 100),
        (["training.batch_size=6"], Poisson(probability=Fraction(1, 10_000)), 60_000, 100),
        (["sampling.scheme=fixed", "sampling.size=5"], Fixed(size=5), 60_000, 100),
        (["sampling.size=5", "sampling.scheme=fixed"], Fixed(size=5), 60_000, 100),
        (["training.batch_size=5", "sampling.scheme=fixed"], Fixed(size=5), 60_000, 100),
        (["sampling={scheme: fixed, size: 5}"], Fixed(size=5), 60_000, 100),
        (["sampling.scheme=all"], All(), 60_000, 100),
        (["data.examples=1000"], Poisson(probability=Fraction(256, 1000)), 1000, 100),
        (["data.levels[0].count=1000"], Poisson(probability=Fraction(256, 1000)), 1000, 100),
        (["data.levels=[{name: example, count: 1_000}]"], Poisson(probability=Fraction(256, 1000)), 1000, 100),
    ],
)
def test_flat(assignments, scheme, count, steps):
    (phase,) = plan(flat({}), assignments).phases
    level = phase.hierarchy.level(1)
    assert (level.scheme, level.count, phase.steps) == (scheme, count, steps)


def test_nested_levels_by_index_and_name():
    levels = plan(nested({}), ["data.levels[1].count=30", "sampling.example.size=6"]).phases[0].hierarchy.levels
    assert [(level.count, level.scheme) for level in levels] == [(200, Fixed(size=4)), (30, Fixed(size=6))]


def test_new_sections_and_names():
    loaded = plan(
        flat({}), ["budget.epsilon=2", "name='a b'", "accounting.method=rdp", "x-mine.a=[~, 010]", "privacy.x-why=3"]
    )
    assert loaded.budget is not None
    assert (loaded.budget.epsilon, loaded.name, loaded.method) == (2.0, "a b", "rdp")


def test_one_phase():
    text = flat({"phases": "[{name: a}, {name: b}]"})
    assert [phase.steps for phase in plan(text, ["phases[1].training.steps=7"]).phases] == [100, 7]
    assert [phase.steps for phase in plan(text, ["phases[1].training.epochs=1"]).phases] == [100, 235]
    assert [phase.steps for phase in plan(text, ["training.steps=7"]).phases] == [7, 7]


def test_a_file_completed_from_the_command_line():
    assert plan(flat({"data": None}), ["data.examples=1000"]).phases[0].hierarchy.level(1).count == 1000
    assert plan(flat({"sampling": None}), ["sampling={scheme: all}"]).phases[0].hierarchy.level(1).scheme == All()


@pytest.mark.parametrize(
    ("assignment", "code", "column", "phrase"),
    [
        ("training.steps", "DPC100", 1, "needs a `=`"),
        ("=3", "DPC100", 1, "no path of keys"),
        ("a b=3", "DPC100", 2, "no path of keys"),
        ("[0].a=3", "DPC100", 1, "no path of keys"),
        ("a.[0]=3", "DPC100", 3, "no path of keys"),
        ("a..b=3", "DPC100", 3, "no path of keys"),
        ("training.steps=", "DPC102", 10, "is empty"),
        ("training.steps=~", "DPC102", 16, "is empty"),
        ("training.steps=1e4x", "DPC102", 16, "got the string '1e4x'"),
        ("training.steps='5'", "DPC102", 16, "remove the quotes"),
        ("training.steps=[1", "DPC100", 16, "missing in the list"),
        ("training.steps=!!int 5", "DPC100", 16, "tags are not allowed"),
        ("training.steps=${a}", "DPC110", 16, "there is no `a`"),
        ("training.num_steps=5", "DPC101", 10, "dpcalc calls this `steps`"),
        ("trainin.steps=5", "DPC101", 1, "did you mean `training`?"),
        ("sampling.rate=2", "DPC106", 15, "at most 1"),
        ("sampling.expected=60_001", "DPC106", 19, "more than the count 60000"),
        ("privacy.unit=user", "DPC108", 14, "must name a level"),
        ("data.levels[1].count=5", "DPC103", 12, "there is no [1]"),
        ("phases[0].training.steps=5", "DPC103", 1, "there is no `phases`"),
        ("privacy.delta.x=5", "DPC102", 9, "got a mapping"),
        ("version=2", "DPC104", 9, "version 2"),
        ("name=a\x1b[31m", "DPC100", 7, "U+001B"),
    ],
)
def test_mistakes(assignment, code, column, phrase):
    (error,) = errors(flat({}), [assignment])
    assert (error.code, error.path, error.line, error.column) == (code, "--set #1", 1, column)
    assert phrase in f"{error.message} | {error.hint}"


def test_the_number_of_the_assignment_is_told():
    assert [error.path for error in errors(flat({}), ["training.steps=1", "budget.epsilon=x", "nonsense"])] == [
        "--set #2",
        "--set #3",
    ]


def test_file_errors_come_first():
    found = errors(flat({"training": "{steps: x}"}), ["budget.epsilon=x"])
    assert [error.path for error in found] == ["file.yaml", "--set #1"]


def test_an_override_heals_the_file():
    assert plan(flat({"training": "{steps: '${steps}'}"}), ["training.steps=5"]).steps == 5


@pytest.mark.parametrize(
    ("changes", "assignments", "code"),
    [
        ({"phases": "[{training: {steps: 5}}]"}, ["training.steps=7"], "DPC107"),
        ({"phases": "[{training: {epochs: 5}}]"}, ["training.steps=7"], "DPC107"),
        ({}, ["training.steps=7", "training.epochs=7"], "DPC107"),
        ({}, ["sampling.rate=0.5", "sampling.scheme=fixed", "sampling.size=3"], "DPC107"),
        ({}, ["training.steps=7", "training.steps=8"], "DPC105"),
    ],
)
def test_nothing_is_silently_without_effect(changes, assignments, code):
    assert [error.code for error in errors(flat(changes), assignments)] == [code]


EXCLUSIVE = [
    ({"--steps": "3", "--epochs": "5"}, (), ["`--steps` and `--epochs` both set the length"]),
    ({"--epochs": "5"}, ["training.steps=3"], ["`--set training.steps` and `--epochs` both set the length"]),
    (
        {"--sample-rate": "0.1", "--batch-size": "9"},
        (),
        ["`--sample-rate` and `--batch-size` both set how many are drawn"],
    ),
    (
        {"--batch-size": "9"},
        ["sampling.rate=0.1"],
        ["`--set sampling.rate` and `--batch-size` both set how many are drawn"],
    ),
    (
        {},
        ["sampling.example.rate=0.1", "training.batch_size=5"],
        ["`--set sampling.example.rate` and `--set training.batch_size` both set how many are drawn"],
    ),
    (
        {"--steps": "3", "--epochs": "5", "--sample-rate": "0.1", "--batch-size": "9"},
        (),
        [
            "`--steps` and `--epochs` both set the length",
            "`--sample-rate` and `--batch-size` both set how many are drawn",
        ],
    ),
]


@pytest.mark.parametrize(("flags", "assignments", "messages"), EXCLUSIVE)
@pytest.mark.parametrize("text", [flat({}), "version: 1\n"])
def test_two_settings_that_exclude_each_other(text, flags, assignments, messages):
    given = Overrides(flags=tuple(flags.items()), assignments=tuple(assignments))
    with pytest.raises(ConfigError) as caught:
        load_text(text, path="f", overrides=given)
    found = [one for one in caught.value.diagnostics if one.code == "DPC107" and one.path != "f"]
    assert sorted(one.message for one in found) == sorted(messages)
    assert {one.hint for one in found} == {"keep one of them"}


def test_a_phase_wins_over_a_setting_of_the_same_key():
    (error,) = errors(flat({"phases": "[{mechanism: {noise_multiplier: 3}}]"}), ["mechanism.noise_multiplier=7"])
    assert "e.g. `--set phases[0].mechanism.noise_multiplier=...`" in error.hint
    (error,) = errors(flat({}), ["sampling.rate=0.5", "sampling.scheme=fixed", "sampling.size=3"])
    assert "phase" not in error.hint + error.message


def test_short_settings_need_one_level():
    assert [(error.code, error.column) for error in errors(nested({}), ["data.examples=5"])] == [("DPC107", 6)]
    (error,) = errors(nested({}), ["sampling.scheme=poisson"])
    assert (error.code, error.path, error.column) == ("DPC107", "--set #1", 10)
    (error,) = errors(nested({}), ["training.batch_size=5"])
    assert (error.code, error.path, error.column) == ("DPC107", "--set #1", 10)


FOLDER = Path(__file__).parents[2] / "sample_configs"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_setting_what_the_file_says_changes_nothing(name):
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    tree, _ = parse_yaml(source_of(text, "f"))
    said = [(path, node.text) for path, node in walk(tree, "") if isinstance(node, Scalar)]
    assert said
    before = load_text(text, path="f")
    for path, value in said:
        after = load_text(text, path="f", assignments=[f"{path}={value}"])
        assert (after.plan, after.config_hash) == (before.plan, before.config_hash), path
    assert load_text(text, path="f", assignments=[f"{path}={value}" for path, value in said]).plan == before.plan


PURE = {"sampling": "{scheme: all}", "mechanism": "{type: exponential, epsilon: 1}"}
DISCRETE = {"mechanism": "{noise_multiplier: 1.3, max_grad_norm: 1.5}"}
FACTORIZED = {
    "sampling": "{scheme: any-order}",
    "mechanism": "{type: matrix-factorization, noise_multiplier: 8, strategy: tree, min_separation: 4}",
}


@pytest.mark.parametrize(
    ("changes", "assignment", "kept", "dropped"),
    [
        (PURE, "mechanism.type=pure-dp", {"epsilon": 1.0}, None),
        (DISCRETE, "mechanism.type=discrete-gaussian", {"noise_multiplier": 1.3}, "`max_grad_norm`"),
        (
            {**PURE, "mechanism": "{type: approximate-dp, epsilon: 1, delta: 1e-9}"},
            "mechanism.type=pure-dp",
            {"epsilon": 1.0},
            "`delta`",
        ),
        ({}, "sampling={scheme: fixed, size: 5}", {"noise_multiplier": 1.1}, None),
    ],
)
def test_a_new_type_keeps_what_it_takes_in_the_same_meaning(changes, assignment, kept, dropped):
    loaded = load_text(flat(changes), path="f", assignments=[assignment])
    (phase,) = loaded.plan.phases
    assert {name: getattr(phase.mechanism, name) for name in kept} == kept
    notes = [each for each in loaded.diagnostics if "drops" in each.message]
    assert [each.message.partition(" drops ")[2] for each in notes] == ([f"{dropped} of the file"] if dropped else [])


@pytest.mark.parametrize(
    ("changes", "assignment", "missing", "dropped"),
    [
        (PURE, "mechanism.type=laplace", "noise_multiplier", "epsilon"),
        ({}, "mechanism.type=laplace", "noise_multiplier", "noise_multiplier"),  # it is another number there
        ({"sampling": "{scheme: poisson, rate: 0.1}"}, "sampling.scheme=fixed", "size", "rate"),
    ],
)
def test_what_a_new_type_or_scheme_drops_is_said_where_something_is_missing(changes, assignment, missing, dropped):
    (error,) = errors(flat(changes), [assignment])
    assert f"{missing}` is missing" in error.message
    assert f"drops `{dropped}`" in error.hint


def test_another_strategy_replaces_the_word_before_it():
    changed = plan(
        flat({**FACTORIZED, "mechanism": FACTORIZED["mechanism"].replace("tree", "{toeplitz: [1, 0.5]}")}),
        ["mechanism.strategy={banded: {bands: 4}}"],
    )
    assert type(changed.phases[0].mechanism.strategy) is type(
        plan(flat({**FACTORIZED, "mechanism": FACTORIZED["mechanism"].replace("tree", "{banded: {bands: 4}}")}))
        .phases[0]
        .mechanism.strategy
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[{}]", "`phases` has a phase that says nothing"),
        ("[]", "must hold 1 to 1000 phases"),
        ("[{steps: 5}]", "unknown key `steps` in `phases[0]`"),
        ("{a: 1}", "must be a list of phases"),
        ("[1]", "must be a mapping"),
    ],
)
def test_a_list_of_phases_on_the_command_line_gets_one_message(value, words):
    (error,) = errors(flat({}), [f"phases={value}"])
    assert words in error.message
    assert "phases[0].phases" not in error.hint
    assert plan(flat({}), ["phases=[{training: {steps: 5}}, {training: {steps: 7}}]"]).steps == 12


def test_a_phase_that_is_not_there_leads_to_a_list():
    (error,) = errors(flat({}), ["phases[0].training.steps=5"])
    assert "--set 'phases=[{training: {steps: 100}}]'" in error.hint


def test_a_budget_without_noise_leads_to_the_solver():
    (error,) = errors(flat({"mechanism": "{max_grad_norm: 1.0}", "budget": "{epsilon: 1}"}))
    assert "`dpcalc solve-sigma file.yaml`" in error.hint
    (error,) = errors(flat({"mechanism": "{max_grad_norm: 1.0}"}))
    assert "solve-sigma" not in error.hint


def test_the_history_of_an_accountant_leads_to_import():
    (error,) = errors('{"history": [[1.1, 0.0042, 500]], "mechanism": "rdp"}')
    assert "`dpcalc import FILE" in error.hint
