"""What files mean: hand-computed plans for every form."""

from fractions import Fraction
from pathlib import Path

import pytest

from dpcalc.config.load import load, load_text
from dpcalc.config.source import ConfigError, Severity
from dpcalc.guarantee import Adjacency
from dpcalc.planner.plan import Budget
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.config.texts import errors, flat, nested, plan

SAMPLES = Path(__file__).parents[2] / "sample_configs"


def shape(loaded_plan):
    """Levels, clip, noise and steps of each phase."""
    return [
        (
            [(level.name, level.count, level.scheme) for level in phase.hierarchy.levels],
            phase.clip,
            phase.mechanism.noise_multiplier,
            phase.steps,
        )
        for phase in loaded_plan.phases
    ]


def poisson(numerator, denominator):
    return Poisson(probability=Fraction(numerator, denominator))


# ceil(60 * 60000 / 256) = ceil(14062.5) = 14063; ceil(15 * 60000 / 256) = ceil(3515.625) = 3516
GOLDEN = {
    "mnist_dpsgd": [([("example", 60_000, poisson(256, 60_000))], 1, 1.1, 14_063)],
    "mnist_fixed_batch": [([("example", 60_000, Fixed(size=256))], 1, 1.1, 14_063)],
    "imagenet_dpsgd": [([("example", 1_281_167, poisson(16_384, 1_281_167))], 1, 2.5, 7020)],
    "femnist_users": [([("user", 3400, poisson(100, 3400)), ("example", 200, All())], 1, 1.0, 1500)],
    "two_phase": [
        ([("example", 60_000, poisson(256, 60_000))], 1, 1.3, 3516),
        ([("example", 60_000, poisson(1024, 60_000))], 1, 1.0, 586),
    ],
    "abadi_slide": [([("example", 60_000, poisson(1, 100))], 1, 4.0, 10_000)],
    "example_e_record": [([("task", 200, Fixed(size=4)), ("example", 20, Fixed(size=5))], 2, 6.0, 20_000)],
    "example_e_task": [([("task", 200, Fixed(size=4)), ("example", 20, Fixed(size=5))], 1, 6.0, 20_000)],
    "clinic_maml": [([("task", 1200, Fixed(size=32)), ("example", 20, Fixed(size=5))], 1, 6.0, 10_000)],
}


def test_every_sample_has_a_golden_shape():
    assert {path.stem for path in SAMPLES.glob("*.yaml")} >= GOLDEN.keys()


@pytest.mark.parametrize("name", GOLDEN)
def test_samples(name):
    loaded = load(str(SAMPLES / f"{name}.yaml"))
    assert shape(loaded.plan) == GOLDEN[name]
    assert not [diagnostic for diagnostic in loaded.diagnostics if diagnostic.code != "DPC203"]


def test_the_rest_of_a_sample():
    loaded = load(str(SAMPLES / "clinic_maml.yaml"))
    assert loaded.plan.name == "clinic-maml"
    assert (loaded.plan.unit, loaded.plan.unit_name) == (2, "example")
    assert loaded.plan.adjacency is Adjacency.ADD_REMOVE
    assert loaded.plan.delta == 1e-5
    assert loaded.plan.budget == Budget(epsilon=2.0, max_increase_pct=10.0)
    assert loaded.plan.method == "auto"


def test_imagenet_delta_is_above_one_over_n():
    (warning,) = load(str(SAMPLES / "imagenet_dpsgd.yaml")).diagnostics  # 8e-7 * 1281167 = 1.0249336
    assert (warning.code, warning.severity) == ("DPC203", Severity.WARNING)
    assert "1281167" in warning.message


@pytest.mark.parametrize(
    "changes",
    [
        {"data": "{levels: [{name: example, count: 60_000}]}"},
        {"sampling": "{example: {scheme: poisson, expected: 256}}"},
        {"sampling": "{scheme: poisson}", "training": "{steps: 100, batch_size: 256}"},
        {"sampling": "{example: {scheme: poisson}}", "training": "{batch_size: 256.0, steps: 1e2}"},
        {"privacy": "{unit: example, adjacency: add-remove, delta: 0.000001, group_size: 1}"},
        {"mechanism": "{type: gaussian, noise_multiplier: 1.10, clip: example}"},
        {"accounting": "{method: auto}", "x-notes": "{anything: [~, 010, !!str x]}".replace("!!str ", "")},
        {"x-base": "&base {noise_multiplier: 1.1}", "mechanism": "{<<: *base}"},
        {"x-base": "&base {noise_multiplier: 7}", "mechanism": "{<<: *base, noise_multiplier: 1.1}"},
        {"x-n": "&n 1.1", "mechanism": "{noise_multiplier: *n}"},
    ],
)
def test_long_and_short_forms_say_the_same(changes):
    # An anchor must stand before its alias, so the user's own keys go first.
    first = {key: value for key, value in changes.items() if key.startswith("x-")}
    text = "".join(f"{key}: {value}\n" for key, value in first.items())
    rest = {key: value for key, value in changes.items() if key not in first}
    assert plan(text + flat(rest)) == plan(flat({}))


MERGED = "x-a: &a {noise_multiplier: 2}\nx-b: &b {noise_multiplier: 3, max_grad_norm: 5}\n"


@pytest.mark.parametrize(
    ("text", "mechanism", "noise"),
    [
        (MERGED, "{<<: [*a, *b], noise_multiplier: 4}", 4),
        (MERGED, "{<<: *b, noise_multiplier: 4}", 4),
        (MERGED.replace("3", "2"), "{<<: [*a, *b]}", 2),
        (MERGED + "x-c: &c {<<: *a, noise_multiplier: 6}\n", "{<<: *c}", 6),
    ],
)
def test_merged_mappings(text, mechanism, noise):
    assert plan(text + flat({"mechanism": mechanism})).phases[0].mechanism.noise_multiplier == noise


@pytest.mark.parametrize(
    ("text", "mechanism", "lines"),
    [
        (MERGED, "{<<: [*a, *b]}", "1 and 2"),
        (MERGED, "{<<: [*b, *a]}", "2 and 1"),
        (MERGED, "{<<: [*b, {noise_multiplier: 7}]}", "2 and "),
        (MERGED, "{<<: {<<: [*a, *b]}}", "1 and 2"),
        (MERGED + "x-c: &c {<<: *a, noise_multiplier: 6}\n", "{<<: [*a, *c]}", "1 and 3"),
        (MERGED + "x-c: &c {<<: *a}\n", "{<<: [*c, *b]}", "1 and 2"),
        (MERGED.replace("2", "'3'"), "{<<: [*a, *b]}", "1 and 2"),
        ("x-a: &a {&k noise_multiplier: 2}\nx-b: &b {<<: *a, *k : 3}\n", "{<<: *b}", "1 and 1"),
    ],
)
def test_a_key_that_readers_of_yaml_merge_differently(text, mechanism, lines):
    found = [one for one in errors(text + flat({"mechanism": mechanism})) if one.code == "DPC105"]
    assert found[0].message.startswith(f"`<<` brings two values of `noise_multiplier`, from lines {lines}")
    assert "PyYAML" in found[0].hint


@pytest.mark.parametrize("merged", ["{<<: [*a, *b]}", "{<<: {<<: *a, n: 5}}"])
def test_such_a_key_is_no_target_of_a_reference(merged):
    text = f"x-a: &a {{n: 3}}\nx-b: &b {{n: 4}}\nx-c: {merged}\n"
    found = errors(text + flat({"training": "{steps: '${x-c.n}'}"}))
    assert any("`n` stands there more than once" in one.message for one in found)


@pytest.mark.parametrize(
    ("sampling", "epochs", "steps"),
    [
        ("{scheme: poisson, expected: 256}", "60", 14_063),
        ("{scheme: poisson, expected: 250}", "60", 14_400),
        ("{scheme: fixed, size: 256}", "60", 14_063),
        ("{scheme: poisson, rate: 0.01}", "1", 100),
        ("{scheme: poisson, rate: 0.03}", "1", 34),
        ("{scheme: poisson, rate: 0.01}", "0.1", 10),  # exact: 0.1 / 0.01, where floats give 11
        ("{scheme: poisson, rate: 0.01}", "0", 0),
        ("{scheme: all}", "7", 7),
        ("{scheme: all}", "6.5", 7),
        ("{scheme: fixed, size: 60_000}", "7", 7),
    ],
)
def test_epochs_are_exact_steps(sampling, epochs, steps):
    assert plan(flat({"sampling": sampling, "training": f"{{epochs: {epochs}}}"})).steps == steps


@pytest.mark.parametrize(
    ("task", "example", "steps"),
    [
        ("{scheme: fixed, size: 4}", "{scheme: fixed, size: 5}", 150),  # 3 * 200 / 4
        ("{scheme: all}", "{scheme: fixed, size: 6}", 10),  # 3 * 20 / 6
        ("{scheme: fixed, size: 200}", "{scheme: poisson, expected: 3}", 20),  # a full draw is `all`; 3 * 20 / 3
    ],
)
def test_epochs_count_at_the_outermost_sampled_level(task, example, steps):
    changes = {"sampling": f"{{task: {task}, example: {example}}}", "training": "{epochs: 3}"}
    assert plan(nested(changes)).steps == steps


def test_defaults():
    loaded = load_text(
        flat({"mechanism": "{noise_multiplier: 2}", "privacy": "{delta: 1e-6}"}), path="f", assignments=()
    )
    (phase,) = loaded.plan.phases
    assert (phase.mechanism.max_grad_norm, phase.clip, loaded.plan.unit, loaded.plan.name) == (1.0, 1, 1, "")
    assert loaded.plan.adjacency is Adjacency.ADD_REMOVE
    assert loaded.plan.budget is None
    (note,) = loaded.diagnostics
    assert (note.code, note.severity, note.line, note.column) == ("DPC204", Severity.NOTE, 6, 1)


def test_clip_defaults_to_the_last_level_and_batch_is_level_zero():
    assert plan(nested({"mechanism": "{noise_multiplier: 1}"})).phases[0].clip == 2
    assert plan(nested({"mechanism": "{noise_multiplier: 1, clip: batch}"})).phases[0].clip == 0


def test_an_omitted_inner_level_is_drawn_whole():
    levels = plan(nested({"sampling": "{task: {scheme: fixed, size: 4}}"})).phases[0].hierarchy.levels
    assert [level.scheme for level in levels] == [Fixed(size=4), All()]


@pytest.mark.parametrize(
    ("rule", "adjacency", "is_warned"),
    [
        ("np.array_split of the shuffled list", "add-remove", True),
        ("the first half and the second", "add-remove", True),
        ("rows[i::2]", "add-remove", True),
        ("row index modulo 2", "add-remove", True),
        ("torch.utils.data.random_split", "add-remove", True),
        ("sha256 of the user id, modulo 2", "add-remove", False),
        ("np.array_split of the shuffled list", "replace-one", False),
    ],
)
def test_a_partition_by_position_is_a_warning(rule, adjacency, is_warned):
    text = flat(
        {
            "partition": f"{{rule: '{rule}', parts: [{{name: r1}}, {{name: r2}}]}}",
            "sampling": "{scheme: poisson, rate: 0.032}",
            "training": None,
            "phases": "[{name: a, part: r1, training: {steps: 32}}, {name: b, part: r2, training: {steps: 32}}]",
            "privacy": f"{{adjacency: {adjacency}, delta: 1e-5}}",
        }
    )
    found = [item.code for item in load_text(text, path="f").diagnostics]
    assert ("DPC211" in found) is is_warned


def test_zero_noise_and_zero_steps_are_warnings():
    loaded = load_text(flat({"mechanism": "{noise_multiplier: 0}", "training": "{steps: 0}"}), path="f")
    assert [(item.code, item.severity, item.line, item.column) for item in loaded.diagnostics] == [
        ("DPC207", Severity.WARNING, 4, 31),
        ("DPC210", Severity.WARNING, 5, 19),
    ]
    assert loaded.plan.steps == 0


@pytest.mark.parametrize(
    ("unit", "delta", "warned"),
    [
        ("task", "0.005", True),
        ("task", "0.004_999", False),
        ("example", "0.000_25", True),
        ("example", "0.000_249", False),
    ],
)
def test_delta_against_the_units_in_all(unit, delta, warned):  # 200 tasks, 4000 examples
    loaded = load_text(nested({"privacy": f"{{unit: {unit}, adjacency: zero-out, delta: {delta}}}"}), path="f")
    assert [item.code for item in loaded.diagnostics] == ["DPC203"] * warned


def test_phases_inherit_deeply():
    text = nested(
        {
            "training": None,
            "phases": "[{name: a, training: {steps: 1}}, {training: {steps: 2}, mechanism: {clip: example}, "
            "sampling: {task: {size: 7}}}]",
        }
    )
    first, second = plan(text).phases
    assert (first.name, first.steps, first.clip, first.hierarchy.level(1).scheme) == ("a", 1, 1, Fixed(size=4))
    assert (second.name, second.steps, second.clip, second.hierarchy.level(1).scheme) == (
        "phase 2",
        2,
        2,
        Fixed(size=7),
    )
    assert second.mechanism.noise_multiplier == 6.0
    assert second.hierarchy.level(2).scheme == Fixed(size=5)


@pytest.mark.parametrize(
    ("top", "below", "expected"),
    [
        ({"training": "{steps: 5}"}, "training: {epochs: 1}", (poisson(256, 60_000), 235)),  # ceil(234.375)
        ({"training": "{epochs: 1}"}, "training: {steps: 5}", (poisson(256, 60_000), 5)),
        ({}, "sampling: {rate: 0.5}", (poisson(1, 2), 100)),
        ({"sampling": "{scheme: poisson, rate: 0.1}"}, "sampling: {expected: 6}", (poisson(1, 10_000), 100)),
        ({}, "training: {batch_size: 6}", (poisson(1, 10_000), 100)),
        ({}, "sampling: {scheme: fixed, size: 6}", (Fixed(size=6), 100)),
        ({}, "sampling: {scheme: fixed}, training: {batch_size: 6}", (Fixed(size=6), 100)),
        ({}, "sampling: {scheme: all}", (All(), 100)),
        (
            {"sampling": "{scheme: poisson}", "training": "{batch_size: 6, steps: 3}"},
            "sampling: {scheme: fixed}",
            (Fixed(size=6), 3),
        ),
        (
            {"sampling": "{scheme: poisson}", "training": "{batch_size: 6, steps: 3}"},
            "sampling: {rate: 0.5}",
            (poisson(1, 2), 3),
        ),
        (
            {"sampling": "{scheme: poisson}", "training": "{batch_size: 6, steps: 3}"},
            "sampling: {scheme: all}",
            (All(), 3),
        ),
        ({"sampling": "{scheme: fixed, size: 9}"}, "training: {batch_size: 6}", (Fixed(size=6), 100)),
    ],
)
def test_naming_one_of_an_exclusive_set_drops_the_inherited_others(top, below, expected):
    (phase,) = plan(flat({**top, "phases": f"[{{{below}}}]"})).phases
    assert (phase.hierarchy.level(1).scheme, phase.steps) == expected


def test_naming_the_same_type_keeps_its_parameters():
    (phase,) = plan(flat({"phases": "[{mechanism: {type: gaussian}}]"})).phases
    assert phase.mechanism.noise_multiplier == 1.1


def test_the_name_of_the_only_phase():
    assert [phase.name for phase in plan(flat({})).phases] == ["training"]


def test_marks():
    text = flat(
        {
            "training": "{batch_size: 256, steps: 3}",
            "sampling": "{scheme: poisson}",
            "budget": "{epsilon: 3}",
            "phases": "[{name: a}]",
        }
    )
    loaded = load_text(text, path="f", assignments=["privacy.unit=example", "privacy.delta=1e-7"])
    assert loaded.mark("budget.epsilon") == (7, 10)
    assert loaded.mark("budget") == (7, 1)
    assert loaded.mark("data.examples") == (2, 8)
    assert loaded.mark("data.levels[0].count") == (2, 8)
    assert loaded.mark("sampling.scheme") == (3, 12)
    assert loaded.mark("sampling.example.scheme") == (3, 12)
    assert loaded.mark("sampling.example.expected") is None  # only the phase knows what the batch size means
    assert loaded.mark("phases[0].sampling.example.expected") == (5, 12)
    assert loaded.mark("training.batch_size") == (5, 12)
    assert loaded.mark("phases[0]") == (8, 10)
    assert loaded.mark("phases[0].training.steps") == (5, 29)
    assert loaded.mark("privacy.delta") == (6, 34)
    assert loaded.mark("privacy.unit") is None
    assert loaded.mark("nothing.here") is None


@pytest.mark.parametrize("text", ["version = 1\n", "[data]\nexamples = 3\n", flat({})])
def test_a_toml_file_is_told_to_be_one(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(str(path))
    (error,) = caught.value.diagnostics
    assert (error.code, error.message) == ("DPC100", "the file is TOML")
    assert "a config is YAML or JSON" in error.hint
