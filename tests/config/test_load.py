"""What files mean: hand-computed plans of the samples, and other ways to say the same (corpus/plans.yaml)."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dpcalc.config.expand import FLAGS
from dpcalc.config.load import load
from dpcalc.guarantee import Adjacency
from dpcalc.planner.plan import Budget
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.config.texts import (
    BASES,
    clinics,
    corpus,
    errors,
    flat,
    loaded,
    plan,
    text_of,
    users,
    varied,
)

SAMPLES = Path(__file__).parents[2] / "sample_configs"
PLANS, REMARKS = corpus("plans"), corpus("remarks")


def nameless(found):
    """The plan, an only phase without its name, which says whether it stands under `phases`."""
    return replace(found, phases=(replace(found.phases[0], name=""),)) if len(found.phases) == 1 else found


@pytest.mark.parametrize("case", PLANS, ids=str)
def test_another_way_to_say_the_same(case):
    base = BASES[next((key for key in BASES if key in case), "flat")]
    found = loaded(text_of(case), case.get("set", ()), case.get("flags", ()))
    same = loaded(varied(base, case["same"]))
    assert nameless(found.plan) == nameless(same.plan)
    assert found.config_hash == same.config_hash


def test_every_option_of_a_run_is_among_them():
    assert {flag for case in PLANS for flag in case.get("flags", ())} == FLAGS.keys()


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


@pytest.mark.parametrize("name", GOLDEN)
def test_samples(name):
    found = load(str(SAMPLES / f"{name}.yaml"))
    assert shape(found.plan) == GOLDEN[name]
    assert not [each for each in found.diagnostics if each.code != "DPC203"]


def test_the_rest_of_a_sample():
    found = load(str(SAMPLES / "clinic_maml.yaml")).plan
    assert (found.name, found.unit, found.unit_name) == ("clinic-maml", 2, "example")
    assert (found.adjacency, found.delta, found.method) == (Adjacency.ADD_REMOVE, 1e-5, "auto")
    assert found.budget == Budget(epsilon=2.0, max_increase_pct=10.0)


def test_defaults():
    found = plan(flat({"mechanism": "{noise_multiplier: 2}", "privacy": "{delta: 1e-6}"}))
    (phase,) = found.phases
    assert (phase.mechanism.max_grad_norm, phase.clip, found.unit, found.name) == (1.0, 1, 1, "")
    assert (found.adjacency, found.budget, phase.name) == (Adjacency.ADD_REMOVE, None, "training")


@pytest.mark.parametrize(("base", "changes", "number", "name"), REMARKS["clipped"])
def test_what_is_clipped(base, changes, number, name):
    (phase,) = plan(varied(BASES[base], changes)).phases
    assert (phase.clip, phase.clip_names[number]) == (number, name)


def test_the_sizes_of_a_tree():
    hierarchy = plan(clinics({})).phases[0].hierarchy
    assert [(level.min_count, level.count) for level in hierarchy.levels] == [(2, 2), (2, 3), (2, 5)]
    assert hierarchy.tree.sizes == ((2,), (3, 2), (4, 2, 3, 4, 5))
    ends = plan(users({"data": "{levels: [{name: user, count: 50}, {name: example, min: 5, max: 64}]}"}))
    assert [(level.min_count, level.count) for level in ends.phases[0].hierarchy.levels] == [(50, 50), (5, 64)]


# Warnings and notes: their code, severity and place.


def remarks(text):
    return [[one.code, str(one.severity), one.line, one.column] for one in loaded(text).diagnostics]


@pytest.mark.parametrize(("base", "changes", "expected"), REMARKS["remarks"])
def test_warnings_and_notes(base, changes, expected):
    assert remarks(varied(BASES[base], changes)) == expected


def test_the_delta_of_a_sample_that_is_large_for_its_data():
    text = (SAMPLES / "imagenet_dpsgd.yaml").read_text(encoding="utf-8")  # 8e-7 * 1281167 = 1.0249336
    assert remarks(text) == [["DPC203", "warning", 10, 41]]


@pytest.mark.parametrize(("rule", "adjacency", "is_warned"), REMARKS["partitions"])
def test_a_partition_by_position_is_a_warning(rule, adjacency, is_warned):
    changes = {
        "partition": f"{{rule: '{rule}', parts: [{{name: r1}}, {{name: r2}}]}}",
        "sampling": "{scheme: poisson, rate: 0.032}",
        "training": None,
        "phases": "[{name: a, part: r1, training: {steps: 32}}, {name: b, part: r2, training: {steps: 32}}]",
        "privacy": f"{{adjacency: {adjacency}, delta: 1e-5}}",
    }
    assert ("DPC211" in {item.code for item in loaded(flat(changes)).diagnostics}) is is_warned


# Keys that YAML merges.


@pytest.mark.parametrize(("text", "mechanism", "lines"), REMARKS["merged"])
def test_a_key_that_readers_of_yaml_merge_differently(text, mechanism, lines):
    found = [one for one in errors(text + flat({"mechanism": mechanism})) if one.code == "DPC105"]
    assert found[0].message.startswith(f"`<<` brings two values of `noise_multiplier`, from lines {lines}")
    assert "PyYAML" in found[0].hint


# Places.


def test_marks():
    text = flat(
        {
            "training": "{batch_size: 256, steps: 3}",
            "sampling": "{scheme: poisson}",
            "budget": "{epsilon: 3}",
            "phases": "[{name: a}]",
        }
    )
    places = {
        "budget.epsilon": (7, 10),
        "budget": (7, 1),
        "data.examples": (2, 8),
        "data.levels[0].count": (2, 8),
        "sampling.scheme": (3, 12),
        "sampling.example.scheme": (3, 12),
        "sampling.example.expected": None,  # only the phase knows what the batch size means
        "phases[0].sampling.example.expected": (5, 12),
        "training.batch_size": (5, 12),
        "phases[0]": (8, 10),
        "phases[0].training.steps": (5, 29),
        "privacy.delta": (6, 34),
        "privacy.unit": None,
        "nothing.here": None,
    }
    found = loaded(text, ["privacy.unit=example", "privacy.delta=1e-7"])
    assert {key: found.mark(key) for key in places} == places


# Words that YAML 1.1 reads otherwise.

NO_QUOTIENTS = "1/0 0/5 -1/97 1/-97 01/97 1/97/2 1.0/97 1/9_ 1//9 x/9"


@pytest.mark.parametrize("written", ["no", "off", "2024-01-01", "12:30", "010", "=", "'5'", "a b", "naïve", "日本"])
def test_texts_stay_texts(written):
    assert plan(flat({"name": written})).name == written.strip("'")


@pytest.mark.parametrize("written", NO_QUOTIENTS.split())
def test_what_is_no_quotient(written):
    (error,) = errors(flat({"sampling": f"{{scheme: poisson, rate: {written}}}"}))
    assert (error.code, error.line) == ("DPC102", 3)
    assert f"got the string '{written}'" in error.message


def test_a_quotient_too_long_to_be_taken():
    (error,) = errors(flat({"sampling": f"{{scheme: poisson, rate: 1/{'9' * 80}}}"}))
    assert error.code == "DPC102"


@pytest.mark.parametrize("key", ["data.examples", "training.steps", "mechanism.noise_multiplier"])
def test_quotients_are_for_probabilities(key):
    section, name = key.split(".")
    (error,) = errors(flat({section: f"{{{name}: 8/2}}"}))
    assert (error.code, "rates and probabilities may be quotients" in error.hint) == ("DPC102", True)


@pytest.mark.parametrize("written", ["1e-5", "1.0e-5", "0.00001", "3e-6", "1/60_000"])
def test_delta_is_the_nearest_float(written):
    value = 1 / 60_000 if "/" in written else float(written)
    assert plan(flat({"privacy": f"{{delta: {written}}}"})).delta == value
