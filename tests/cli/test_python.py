"""Python gets what the command line prints, and what the formulas say."""

import inspect
import json
import math
import re
import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
import yaml

import dpcalc
from dpcalc import epsilon, plan
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError, NoSolution
from dpcalc.guarantee import Kind, Row
from dpcalc.sampling.schemes import SCHEMES
from tests.oracles.exact_gaussian import exact_epsilon

ROWS = yaml.safe_load(Path(__file__).with_name("python.yaml").read_text(encoding="utf-8"))
SAMPLES = Path(__file__).parents[2] / "sample_configs"
PATH = str(SAMPLES / "mnist_dpsgd.yaml")
FLAT = {"steps": 1000, "noise_multiplier": 1.0, "delta": 1e-5}
BATCHES = {"scheme": "poisson", "batch_size": 256, "dataset_size": 60_000, "noise_multiplier": 1.0, "delta": 1e-5}
SMALL = plan(sample_rate=0.1, noise_multiplier=2.0, steps=10, delta=1e-5)
SMALL_FLAGS = ["--no-config", "--sample-rate", "0.1", "--noise-multiplier", "2", "--steps", "10", "--delta", "1e-5"]
POISSON, FIXED = {"scheme": "poisson"}, {"scheme": "fixed"}
CLINIC, TWO_FULL = ROWS["clinic"], ROWS["two phases"]
CONFIG = {
    "version": 1,
    "data": {"examples": 1000},
    "sampling": {"scheme": "poisson", "rate": Fraction(1, 97)},
    "mechanism": {"noise_multiplier": np.float64(1.5)},
    "training": {"steps": np.int64(10)},
    "privacy": {"delta": 1e-5, "adjacency": "add-remove"},
}


def sample(name):
    return str(SAMPLES / f"{name}.yaml")


def test_importing_loads_nothing_and_nothing_else_is_there():
    code = (
        "import sys, dpcalc; assert dpcalc.__version__; assert {'load', 'plan', 'epsilon', 'solve'} <= {*dir(dpcalc)}; "
        "print([name for name in ('numpy', 'pydantic', 'yaml', 'dpcalc.plans') if name in sys.modules]); "
        "from dpcalc import load; print('dpcalc.plans' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "True"]
    names = {"load", "plan", "epsilon", "solve", "delta", "risk", "compare", "curve", "Accountant"}
    names |= {"from_opacus", "from_dp_accounting", "from_jax_privacy"}
    assert {*dpcalc.__all__} == {"__version__", *names} == {*dir(dpcalc)}
    assert all(callable(getattr(dpcalc, name)) for name in names)
    assert issubclass(NoSolution, dpcalc.errors.DpcalcError)
    with pytest.raises(AttributeError, match="module 'dpcalc' has no attribute 'ledger'"):
        _ = dpcalc.ledger


# What is printed


def answered(name, given, named):
    """What a function of dpcalc says; `X.yaml` is a sample config, a mapping what differs in a flat run."""
    plans = [plan(**FLAT | each) if isinstance(each, dict) else str(SAMPLES / each) for each in given[:1]]
    found = getattr(dpcalc, name)(*plans, *given[1:], **named)
    return getattr(found, "guarantee", found).to_dict()


@pytest.mark.filterwarnings("ignore:.*DPC203")  # delta is for users
@pytest.mark.parametrize(
    ("words", "name", "given", "named"),
    [
        *ROWS["printed"],
        *(pytest.param(*row, marks=pytest.mark.heavy) for row in ROWS["printed, heavy"]),
    ],
)
def test_answers_are_what_is_printed(words, name, given, named, printed):
    shown = printed(*(str(SAMPLES / word) if word.endswith(".yaml") else word for word in words.split()))["guarantee"]
    found = json.loads(json.dumps(answered(name, given, named)))
    compared = found.keys() & shown.keys()
    assert {"epsilon", "delta"} <= compared
    assert {key: found[key] for key in compared} == {key: shown[key] for key in compared}


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:.*DPC203")
@pytest.mark.parametrize("unit", ["user", "example"])
def test_what_is_asked_of_a_plan_may_be_said_when_it_is_loaded(unit):
    asked = {"unit": unit, "group_size": 2}
    assert epsilon(dpcalc.load(Path(sample("femnist_users")), **asked)) == epsilon(sample("femnist_users"), **asked)


@pytest.mark.heavy
def test_other_results_are_what_is_printed(printed):
    shown = printed("risk", *SMALL_FLAGS, "--prior", "0.1", "--fpr", "0.01")
    result = dpcalc.risk(SMALL, prior=0.1, false_positive_rates=[0.01])
    told = result.to_dict()
    assert json.dumps(result.advantage) in json.dumps(shown)
    assert (told["prior"], [each["false_positive_rate"] for each in told["detections"]]) == (0.1, [0.01])
    shown, rows = printed("compare", *SMALL_FLAGS)["rows"], dpcalc.compare(SMALL, unit="example")
    assert [row["epsilon"] for row in rows.to_dict()["rows"]] == [row["epsilon"] for row in shown]
    assert [row.method for row in rows] == [row["method"] for row in shown]
    assert (len(rows), rows[0].valid) == (len(shown), True)
    shown = printed("curve", "steps", PATH, "--range", "100,200", "--method", "rdp")
    chart = dpcalc.curve(PATH, "steps", grid=[200, 100], methods=["rdp"])
    (line,) = chart.series
    assert list(line.xs) == [100, 200]
    assert all(json.dumps(y) in json.dumps(shown) for y in line.ys)
    assert json.loads(json.dumps(chart.to_dict()))["series"][0]["kind"] == "upper"
    assert chart.picture("svg").startswith(b"<?xml")
    shown = printed("solve-rate", PATH, "--target-eps", "1.5")
    found = dpcalc.solve(dpcalc.load(PATH), "batch", target_epsilon=1.5, epochs=60)
    assert (found.value, found.fails_at) == (shown["solution"]["value"], shown["solution"]["fails_at"])
    assert found.plan.steps == shown["steps"] == -(-60 * 60_000 // found.value)
    assert epsilon(found.plan) == found.guarantee


# Epsilon


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "steps", "changes"),
    [
        ("clinic_maml", 4321, ["--set", "training.steps=4321"]),
        ("held_tasks", 1234, ["--set", "training.steps=1234"]),  # the last draw is held for 4 steps instead of 10
        ("mnist_shuffle", 300, ["--unset", "training.epochs", "--set", "training.steps=300"]),  # in the second pass
        ("two_phase", 3600, ["--set", "phases[1].training.steps=84"]),
    ],
)
def test_the_first_steps_cost_what_a_run_of_that_length_does(name, steps, changes, printed):
    shown = printed("epsilon", sample(name), *changes)["guarantee"]
    found = epsilon(dpcalc.load(sample(name)), steps=steps)
    assert (found.epsilon, found.delta, found.kind, found.method) == tuple(
        shown[key] for key in ("epsilon", "delta", "kind", "method")
    )
    assert found.epsilon_lower is None


@pytest.mark.parametrize(("steps", "squares"), [(1, 1 / 100), (4, 4 / 100), (7, 4 / 100 + 3 / 400), (12, 24 / 400)])
def test_the_first_steps_of_two_phases_are_one_gaussian(steps, squares, tmp_path):
    (tmp_path / "run.yaml").write_text(TWO_FULL, encoding="utf-8")
    exact = exact_epsilon(1, 1 / mpmath.sqrt(squares), 1e-6)
    found = epsilon(dpcalc.load(tmp_path / "run.yaml"), steps=steps).epsilon
    assert exact * (1 - mpmath.mpf("1e-12")) <= found <= exact * (1 + mpmath.mpf("1e-4"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"sample_rate": 0.1}, Fraction(1, 10)),
        ({"sample_rate": "0.1"}, Fraction(1, 10)),
        ({"sample_rate": Fraction(1, 10)}, Fraction(1, 10)),
        ({"sample_rate": Fraction(256, 60_000)}, Fraction(8, 1875)),
        ({"sample_rate": Fraction(1, 97)}, Fraction(1, 97)),
        ({"sample_rate": "1/97"}, Fraction(1, 97)),
        ({"sample_rate": 1}, Fraction(1)),
        ({"sample_rate": Fraction(1, 97), "dataset_size": 50_000}, Fraction(1, 97)),
    ],
)
def test_rates_are_exact(given, expected):
    (phase,) = plan(**FLAT, **given).phases
    assert phase.hierarchy.level(1).rate == expected
    assert "dataset_size" not in given or phase.hierarchy.units(1) == given["dataset_size"]


def test_other_numbers_are_exact():
    assert plan(sample_rate=Fraction(1, 97), **(FLAT | {"delta": Fraction(1, 60_000)})).delta == 1 / 60_000
    assert plan(epochs=60, **BATCHES).steps == 14_063
    assert plan(epochs=Fraction(1, 2), **BATCHES).steps == 118
    assert epsilon(SMALL, steps=np.int64(3), group_size=np.int8(1)) == epsilon(SMALL, steps=3)
    assert epsilon(dpcalc.load(sample("two_phase")), steps=0).epsilon == 0.0


def test_a_file_or_a_mapping_may_stand_for_its_plan():
    path = sample("two_phase")
    assert len({epsilon(way(path), steps=100) for way in (str, Path, dpcalc.load)}) == 1
    run = dpcalc.load(CONFIG)
    (phase,) = run.phases
    assert (phase.hierarchy.level(1).rate, phase.steps, phase.noise_multiplier) == (Fraction(1, 97), 10, 1.5)
    assert dpcalc.load({"train": {"privacy": CONFIG}}, key="train.privacy") == dpcalc.load({"dpcalc": CONFIG}) == run
    assert epsilon(CONFIG) == epsilon(run)


def test_a_plan_is_shown_in_a_line():
    assert repr(plan(sample_rate=0.01, **FLAT)) == (
        "Plan(1000 steps, gaussian 1, poisson example; protects example, add-remove, delta 1e-05)"
    )
    assert len(repr(dpcalc.load(sample("two_phase")))) < 250


def test_what_somebody_should_look_at_is_a_warning_of_the_caller(tmp_path):
    with pytest.warns(UserWarning, match="noise_multiplier is 0: without noise there is no privacy") as caught:
        run = plan(sample_rate=0.1, steps=3, noise_multiplier=0, delta=1e-5)
    assert [one.filename for one in caught] == [__file__]
    assert not epsilon(run).finite
    assert epsilon(run, steps=0).epsilon == 0.0
    (tmp_path / "run.yaml").write_text(TWO_FULL.replace("1e-6", "0.1"), encoding="utf-8")
    with pytest.warns(UserWarning, match=r"run\.yaml:7:41: warning\[DPC203\]") as caught:
        dpcalc.load(tmp_path / "run.yaml")
    assert [one.filename for one in caught] == [__file__]


@pytest.mark.heavy
def test_unit_and_group_reach_every_question():
    run = plan(scheme="all", dataset_size=10, noise_multiplier=3, steps=4, delta=1e-5)
    for number in (
        lambda **more: dpcalc.delta(run, epsilon=2, **more).delta,
        lambda **more: dpcalc.risk(run, **more).advantage,
        lambda **more: dpcalc.curve(run, "steps", grid=[4], **more).series[0].ys[0],
    ):
        assert number(unit="example") == number() < number(group_size=2)
        with pytest.raises(InputError, match="unit: expected one of example"):
            number(unit="user")


def test_a_batch_size_alone_does_not_tell_how_examples_are_drawn():
    run = {name: value for name, value in BATCHES.items() if name != "scheme"} | {"epochs": 2}
    with pytest.raises(InputError, match="expected scheme too"):
        plan(**run)
    epsilons = {scheme: epsilon(plan(scheme=scheme, **run)).epsilon for scheme in ("poisson", "fixed", "shuffle")}
    assert epsilons["poisson"] < min(epsilons["fixed"], epsilons["shuffle"])


# Nested plans


@pytest.mark.heavy
def test_a_nested_plan_is_that_of_its_file():
    of_file = dpcalc.load(SAMPLES / "clinic_maml.yaml")
    (phase,), (stated,) = of_file.phases, plan(**CLINIC).phases
    assert stated.hierarchy == phase.hierarchy
    assert (stated.mechanism, stated.clip, stated.steps) == (phase.mechanism, phase.clip, phase.steps)
    ranged = plan(**CLINIC | {"levels": {"task": 1200, "example": {"min": 5, "max": 20}}})
    assert ranged.phases[0].hierarchy.level(2).min_count == 5
    silent = plan(**{name: value for name, value in CLINIC.items() if name != "noise_multiplier"})
    found = dpcalc.solve(silent, "sigma", target_epsilon=2)
    assert found.value == dpcalc.solve(SAMPLES / "clinic_maml.yaml", "sigma", target_epsilon=2).value


@pytest.mark.parametrize("scheme", ["fixed", "shuffle", "with-replacement"])
def test_a_curve_over_a_size_that_cannot_grow(scheme):
    """A parent may have a single example, so that a draw of one example has no larger size to show."""
    run = plan(
        levels={"user": 50, "example": {"min": 1, "max": 8}},
        sampling={"user": {"scheme": "all"}, "example": {"scheme": scheme, "size": 1}},
        unit="user",
        noise_multiplier=1.0,
        steps=10,
        delta=1e-5,
    )
    line = dpcalc.curve(run, "rate").series[0]
    assert set(line.xs) == {1.0}
    assert set(line.ys) == {epsilon(run).epsilon}


def test_a_curve_over_small_batches_has_each_size_once():
    run = plan(scheme="fixed", batch_size=4, dataset_size=1000, noise_multiplier=2.0, steps=10, delta=1e-5)
    sizes = dpcalc.curve(run, "rate", methods=["rdp"]).series[0].xs
    assert sizes[0] == 1
    assert len(set(sizes)) == len(sizes)


# Solvers


def test_a_plan_without_noise_is_for_solving():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = plan(scheme="poisson", batch_size=512, dataset_size=50_000, epochs=5, delta=1e-5)
    assert not epsilon(run).finite
    found = dpcalc.solve(run, "sigma", target_epsilon=3)
    stated = plan(
        scheme="poisson", batch_size=512, dataset_size=50_000, epochs=5, delta=1e-5, noise_multiplier=found.value
    )
    assert found.plan == stated
    assert found.guarantee.epsilon <= 3


# What is refused


def called(row):
    name, given, named, said = row
    plans = {"SMALL": SMALL, "PATH": PATH}
    return lambda: getattr(dpcalc, name)(
        *(plans.get(each, each) if isinstance(each, str) else each for each in given), **named
    ), said


UNWRITTEN = [
    (lambda: epsilon(SMALL, steps=np.int64(11)), "the length of the run, got 11"),
    (lambda: epsilon(b"run.yaml"), "plan: expected a plan of `load` or `plan`, or the path of a config, got b"),
    (lambda: dpcalc.load(CONFIG | {"name": object()}), "config: expected words, numbers, lists and mappings, got <"),
    (lambda: dpcalc.delta(SMALL, epsilon=10**400), "epsilon: expected a number, got 1000"),
]


@pytest.mark.parametrize(("call", "words"), [*map(called, ROWS["values"]), *UNWRITTEN])
def test_values_are_refused_in_one_sentence(call, words):
    with pytest.raises(InputError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        *(({"flat": {}, "clinic": CLINIC}[base] | given, told) for base, given, told in ROWS["plans"]),
        ({"sample_rate": float("nan")}, ["sample_rate: error[DPC102]"]),
        ({"sample_rate": Fraction(4, 3)}, ["sample_rate: error[DPC106]", "4/3"]),
        ({"sample_rate": 0.1, "steps": Fraction(1, 3)}, ["steps: error[DPC102]", "1/3"]),
        ({"sample_rate": Fraction(1, 3), "scheme": "fixed"}, ["batch_size"]),
    ],
)
def test_errors_of_a_plan_name_the_argument(given, told):
    with pytest.raises(InputError) as caught:
        plan(**(FLAT | given))
    assert all(part in str(caught.value) for part in told), str(caught.value)
    assert "--" not in str(caught.value)


def test_errors_of_a_file_or_a_mapping_tell_the_place(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(TWO_FULL.replace("scheme: all", "shceme: all"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"run\.yaml:3:12: error\[DPC101\]: unknown key `shceme`"):
        dpcalc.load(path)
    with pytest.raises(ConfigError, match=r"<mapping>:1:.* unknown key `sigma`"):
        dpcalc.load(CONFIG | {"mechanism": {"sigma": 1}})
    with pytest.raises(InputError, match=r"^unit: error.DPC108.*: `privacy.unit` must name a"):
        dpcalc.load(sample("femnist_users"), unit="writer")
    with pytest.raises(NoSolution, match=r"group_size: no value gives epsilon <= 0.1"):
        dpcalc.solve(plan(sample_rate=0.01, **FLAT), "group", target_epsilon=0.1)


@pytest.mark.parametrize(("call", "words"), [*map(called, ROWS["words"])])
def test_names_of_other_tools_are_recognised_and_slips_answered_with_what_was_meant(call, words):
    with pytest.raises((TypeError, InputError), match=words):
        call()


# Results


def test_results_as_json(printed):
    words = "--sample-rate 0.01 --steps 1000 --noise-multiplier 1 --delta 1e-5"
    run = plan(sample_rate=0.01, **FLAT)
    assert json.loads(json.dumps(epsilon(run).to_dict())) == printed("epsilon", *words.split())["guarantee"]
    noiseless = epsilon(plan(sample_rate=0.01, steps=3, delta=1e-5)).to_dict()
    assert (json.loads(json.dumps(noiseless))["epsilon"], noiseless["finite"]) == (None, False)
    solution = dpcalc.solve(plan(**FLAT, sample_rate=Fraction(1, 97)), "rate", target_epsilon=1)
    told = json.loads(json.dumps(solution.to_dict()))
    assert (told["value"], told["target"]) == (float(solution.value), 1)
    assert told["guarantee"] == solution.guarantee.to_dict()


@pytest.mark.heavy
def test_results_are_shown_in_notebooks_rounded_to_the_safe_side():
    run, guarantee = SMALL, epsilon(SMALL)
    cells = re.findall(r"<t[dh]>(.*?)</t[dh]>", guarantee._repr_html_())
    assert "Guarantee" in cells
    up, down = (float(cells[cells.index(name) + 1].removesuffix(", tight")) for name in ("epsilon", "at least"))
    assert guarantee.epsilon <= up <= guarantee.epsilon * (1 + 1e-5)
    assert guarantee.epsilon_lower * (1 - 1e-5) <= down <= guarantee.epsilon_lower
    results = [dpcalc.delta(run, epsilon=1), dpcalc.risk(run), dpcalc.compare(run), guarantee]
    results += [dpcalc.solve(run, "sigma", target_epsilon=2), dpcalc.curve(run, "steps", grid=[1, 10])]
    for result in results:
        picture, table, rest = result._repr_html_().partition("<table><tr><th>")
        assert table
        assert rest.endswith("</table>")
        assert picture == "" or (
            result is results[-1] and picture.startswith('<img alt="chart" src="data:image/svg+xml')
        )
        assert json.loads(json.dumps(result.to_dict(), allow_nan=False))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("ask", "shown"),
    [
        (epsilon, "epsilon <= 0.679 at delta = 1e-05, tight: one example, add-remove"),
        (lambda run: epsilon(run, steps=500), "epsilon <= 0."),
        (lambda run: dpcalc.delta(run, epsilon=1), "delta <= 6.08e-08, at least 6.07e-08, at epsilon 1.0"),
        (lambda run: dpcalc.solve(run, "sigma", target_epsilon=2), "noise_multiplier = 0.708955: epsilon <= 2 at "),
        (dpcalc.risk, "advantage <= 0.0655; true positive rate at 0.001 <= 0.00182; "),
        (dpcalc.compare, "method              bound                         epsilon   claim\npld "),
        (lambda run: dpcalc.curve(run, "steps", grid=[10]), "epsilon over steps, delta = 1e-05\nsteps    pld"),
    ],
)  # fmt: skip
def test_results_print_as_a_sentence_or_a_table_rounded_to_the_safe_side(ask, shown):
    run = plan(sample_rate=0.004, noise_multiplier=1.0, steps=1000, delta=1e-5)
    assert str(ask(run)).startswith(shown)
    assert "gaussian, noise multiplier 1<" in run._repr_html_()


def test_every_scheme_is_named():
    named = set(re.findall(r'"([\w-]+)"', inspect.getdoc(plan).partition("scheme:")[2].partition("adjacency:")[0]))
    assert named == set(SCHEMES) | {"loader"}


def test_texts_in_tables_are_escaped():
    row = Row(method="<x> & y", bound="b", epsilon=math.inf, kind=Kind.UPPER, valid=True)
    assert "&lt;x&gt; &amp; y" in row._repr_html_()
    assert row.to_dict()["epsilon"] is None
