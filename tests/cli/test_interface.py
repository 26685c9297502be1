"""Python gets what the command line prints, and what the formulas say."""

import json
import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

import dpcalc
from dpcalc import epsilon, load, plan, solve
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError
from dpcalc.planner.search import NoSolution
from tests.oracles.exact_gaussian import exact_epsilon
from tests.thinning import thinned

SAMPLES = Path(__file__).parents[2] / "sample_configs"
FLAT = {"steps": 1000, "noise_multiplier": 1.0, "delta": 1e-5}
TWO_FULL = """\
version: 1
data: {examples: 100}
sampling: {scheme: all}
phases:
  - {name: loud, mechanism: {noise_multiplier: 10}, training: {steps: 4}}
  - {name: quiet, mechanism: {noise_multiplier: 20}, training: {steps: 8}}
privacy: {adjacency: add-remove, delta: 1e-6}
"""


def sample(name):
    return str(SAMPLES / f"{name}.yaml")


def test_importing_loads_nothing():
    code = (
        "import sys, dpcalc; assert dpcalc.__version__; assert {'load', 'plan', 'epsilon', 'solve'} <= {*dir(dpcalc)}; "
        "print([name for name in ('numpy', 'pydantic', 'yaml', 'dpcalc.plans') if name in sys.modules]); "
        "from dpcalc import load; print('dpcalc.plans' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "True"]


def test_nothing_else_is_there():
    names = {"load", "plan", "epsilon", "solve", "delta", "risk", "compare", "curve", "Accountant"}
    assert {*dpcalc.__all__} == {"__version__", *names}
    assert all(callable(getattr(dpcalc, name)) for name in names)
    with pytest.raises(AttributeError, match="module 'dpcalc' has no attribute 'ledger'"):
        _ = dpcalc.ledger


@pytest.mark.parametrize(
    "name",
    thinned(
        [
            "clinic_maml",
            "two_phase",
            "mnist_group",
            "held_tasks",
            "mnist_shuffle",
            "survey_and_training",
            "femnist_users",
        ],
        4,
    ),
)
def test_a_file_costs_what_is_printed(name, printed):
    shown = printed("epsilon", sample(name))["guarantee"]
    found = epsilon(load(Path(sample(name))))
    assert found.to_dict() == shown


def test_another_delta_and_accountant(printed):
    shown = printed("epsilon", sample("two_phase"), "--delta", "1e-7", "--method", "rdp")["guarantee"]
    found = epsilon(load(sample("two_phase")), delta=1e-7, method="rdp")
    assert found.to_dict() == shown


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
    found = epsilon(load(sample(name)), steps=steps)
    assert (found.epsilon, found.delta, found.kind, found.method) == tuple(
        shown[key] for key in ("epsilon", "delta", "kind", "method")
    )
    assert found.epsilon_lower is None


@pytest.mark.parametrize(("steps", "squares"), [(1, 1 / 100), (4, 4 / 100), (7, 4 / 100 + 3 / 400), (12, 24 / 400)])
def test_the_first_steps_of_two_phases_are_one_gaussian(steps, squares, tmp_path):
    (tmp_path / "run.yaml").write_text(TWO_FULL, encoding="utf-8")
    exact = exact_epsilon(1, 1 / mpmath.sqrt(squares), 1e-6)
    found = epsilon(load(tmp_path / "run.yaml"), steps=steps).epsilon
    assert exact * (1 - mpmath.mpf("1e-12")) <= found <= exact * (1 + mpmath.mpf("1e-4"))


def test_no_steps_cost_nothing():
    assert epsilon(load(sample("two_phase")), steps=0).epsilon == 0.0


@pytest.mark.parametrize("steps", [-1, 1001, np.int64(1001)])
def test_steps_beyond_the_run(steps):
    with pytest.raises(InputError, match=f"steps: expected a whole number from 0 to 1000, .* got {steps}$"):
        epsilon(plan(sample_rate=0.01, **FLAT), steps=steps)


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ({"sample_rate": 0.01}, "--sample-rate 0.01"),
        ({"sample_rate": "4e-3", "adjacency": "replace-one"}, "--sample-rate 0.004 --adjacency replace-one"),
        (
            {"scheme": "poisson", "batch_size": 256, "dataset_size": 6e4},
            "--scheme poisson --batch-size 256 --dataset-size 60000",
        ),
        (
            {"batch_size": 256, "dataset_size": "6e4", "scheme": "fixed"},
            "--batch-size 256 --dataset-size 6e4 --scheme=fixed",
        ),
        ({"sample_rate": np.float64(0.01), "method": "rdp"}, "--sample-rate 0.01 --method rdp"),
    ],
)
def test_numbers_mean_what_flags_do(given, flags, printed):
    words = [*flags.split(), "--steps", "1000", "--noise-multiplier", "1", "--delta", "1e-5"]
    shown = printed("epsilon", *words)["guarantee"]
    found = epsilon(plan(**FLAT, **given))
    assert found.to_dict() == shown


@pytest.mark.parametrize(
    ("rate", "exact"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (Fraction(1, 10), Fraction(1, 10)),
        (Fraction(256, 60_000), Fraction(8, 1875)),
        (Fraction(1, 97), Fraction(1, 97)),
        ("1/97", Fraction(1, 97)),
        (1, Fraction(1)),
    ],
)
def test_rates_are_exact(rate, exact):
    (phase,) = plan(sample_rate=rate, **FLAT).phases
    assert phase.hierarchy.level(1).rate == exact


def test_a_quotient_beside_a_number_of_examples():
    (phase,) = plan(sample_rate=Fraction(1, 97), dataset_size=50_000, **FLAT).phases
    assert (phase.hierarchy.level(1).rate, phase.hierarchy.units(1)) == (Fraction(1, 97), 50_000)
    assert plan(sample_rate=Fraction(1, 97), **(FLAT | {"delta": Fraction(1, 60_000)})).delta == 1 / 60_000


def test_a_plan_without_noise_is_for_solving():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = plan(scheme="poisson", batch_size=512, dataset_size=50_000, epochs=5, delta=1e-5)
    assert not epsilon(run).finite
    found = solve(run, "sigma", target_epsilon=3)
    stated = plan(
        scheme="poisson", batch_size=512, dataset_size=50_000, epochs=5, delta=1e-5, noise_multiplier=found.value
    )
    assert found.plan == stated
    assert found.guarantee.epsilon <= 3


@pytest.mark.parametrize("way", [str, Path, load])
def test_a_file_may_stand_for_its_plan(way):
    path = sample("two_phase")
    assert epsilon(way(path), steps=100) == epsilon(load(path), steps=100)


@pytest.mark.heavy
def test_solvers_take_a_file_for_its_plan():
    path = sample("two_phase")
    assert solve(path, "group", target_epsilon=20).value == solve(load(path), "group", target_epsilon=20).value


@pytest.mark.parametrize("given", [3, None, b"run.yaml"])
def test_what_is_no_plan(given):
    with pytest.raises(InputError, match="plan: expected a plan of `load` or `plan`, or the path of a config, got"):
        epsilon(given)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sigma", "dpcalc calls this noise_multiplier"),
        ("q", "dpcalc calls this sample_rate"),
        ("n_samples", "what a sampler draws in an epoch"),
        ("target_delta", "dpcalc calls this delta"),
        ("num_epochs", "dpcalc calls this epochs"),
        ("accountant", "dpcalc calls this method"),
        ("noise_multipler", "unexpected keyword argument 'noise_multipler'"),
        ("noise_mult", "dpcalc calls this noise_multiplier"),
        ("l2_norm_clip", "leave it out"),
        ("max_grad_norm", "leave it out"),
        ("num_microbatches", "moves by up to 2 clip norms"),
        ("data_loader", "len.loader"),
        ("target_epsilon", "solve.plan, 'sigma', target_epsilon="),
        ("redraw_every", "a config says more"),
    ],
)
def test_an_argument_of_another_name(name, told):
    with pytest.raises(TypeError, match=told):
        plan(sample_rate=0.1, **FLAT, **{name: 1})


CONFIG = {
    "version": 1,
    "data": {"examples": 1000},
    "sampling": {"scheme": "poisson", "rate": Fraction(1, 97)},
    "mechanism": {"noise_multiplier": np.float64(1.5)},
    "training": {"steps": np.int64(10)},
    "privacy": {"delta": 1e-5, "adjacency": "add-remove"},
}


def test_a_config_may_be_a_mapping():
    run = load(CONFIG)
    (phase,) = run.phases
    assert (phase.hierarchy.level(1).rate, phase.steps, phase.noise_multiplier) == (Fraction(1, 97), 10, 1.5)
    assert load({"train": {"privacy": CONFIG}}, key="train.privacy") == load({"dpcalc": CONFIG}) == run
    assert epsilon(CONFIG) == epsilon(run)
    with pytest.raises(ConfigError, match=r"<mapping>:1:.* unknown key `sigma`"):
        load(CONFIG | {"mechanism": {"sigma": 1}})
    with pytest.raises(InputError, match="config: expected words, numbers, lists and mappings, got <object"):
        load(CONFIG | {"name": object()})


def test_results_as_json(printed):
    run = plan(sample_rate=0.01, **FLAT)
    found = json.loads(json.dumps(epsilon(run).to_dict()))
    shown = printed("epsilon", "--sample-rate", "0.01", "--steps", "1000", "--noise-multiplier", "1", "--delta", "1e-5")
    assert found == shown["guarantee"]
    noiseless = epsilon(plan(sample_rate=0.01, steps=3, delta=1e-5)).to_dict()
    assert (json.loads(json.dumps(noiseless))["epsilon"], noiseless["finite"]) == (None, False)
    solution = solve(run, "rate", target_epsilon=1)
    told = json.loads(json.dumps(solution.to_dict()))
    assert (told["value"], told["target"], told["guarantee"]) == (
        float(solution.value),
        1,
        solution.guarantee.to_dict(),
    )


def test_a_plan_is_shown_in_a_line():
    assert repr(plan(sample_rate=0.01, **FLAT)) == (
        "Plan(1000 steps, gaussian 1, poisson example; protects example, add-remove, delta 1e-05)"
    )
    assert len(repr(load(sample("two_phase")))) < 250


def test_epochs_become_steps():
    given = {"scheme": "poisson", "batch_size": 256, "dataset_size": 60_000, "noise_multiplier": 1.0, "delta": 1e-5}
    assert plan(epochs=60, **given).steps == 14_063
    assert plan(epochs=Fraction(1, 2), **given).steps == 118


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ["sample_rate"]),
        ({"batch_size": 10}, ["dataset_size"]),
        ({"sample_rate": 1.5}, ["sample_rate: error[DPC106]", "1.5"]),
        ({"sample_rate": float("nan")}, ["sample_rate: error[DPC102]"]),
        ({"sample_rate": Fraction(4, 3)}, ["sample_rate: error[DPC106]", "4/3"]),
        ({"sample_rate": 0.1, "steps": Fraction(1, 3)}, ["steps: error[DPC102]", "1/3"]),
        ({"sample_rate": Fraction(1, 3), "scheme": "fixed"}, ["batch_size"]),
        ({"sample_rate": 0.1, "adjacency": "swap"}, ["adjacency: error[DPC104]", "replace-one"]),
        ({"sample_rate": 0.1, "steps": 1.5, "delta": 0}, ["steps: error[DPC102]", "delta: error[DPC106]"]),
    ],
)
def test_errors_name_the_argument(given, told):
    with pytest.raises(InputError) as caught:
        plan(**(FLAT | given))
    assert all(part in str(caught.value) for part in told), str(caught.value)
    assert "--" not in str(caught.value)


def test_errors_of_a_file_tell_the_place(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(TWO_FULL.replace("scheme: all", "shceme: all"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"run\.yaml:3:12: error\[DPC101\]: unknown key `shceme`"):
        load(path)


def test_what_somebody_should_look_at_is_a_warning_of_the_caller():
    with pytest.warns(UserWarning, match="noise_multiplier is 0: without noise there is no privacy") as caught:
        run = plan(sample_rate=0.1, steps=3, noise_multiplier=0, delta=1e-5)
    assert [one.filename for one in caught] == [__file__]
    assert not epsilon(run).finite
    assert epsilon(run, steps=0).epsilon == 0.0


@pytest.mark.parametrize(
    ("quantity", "name", "target", "phase"),
    thinned(
        [
            ("sigma", "two_phase", 2.6, "main"),
            ("sigma", "two_phase", 2.0, None),
            ("steps", "mnist_dpsgd", None, None),
            ("group", "mnist_group", 8.0, None),
            ("rate", "clinic_maml", 1.5, None),
        ],
        3,
    ),
)
def test_solvers_find_what_is_printed(quantity, name, target, phase, printed):
    words = ["--target-eps", str(target)] if target else []
    words += ["--phase", phase] if phase else []
    shown = printed(f"solve-{quantity}", sample(name), *words)
    found = solve(load(sample(name)), quantity, target_epsilon=target, phase=phase)
    solution, guarantee = shown["solution"], shown["guarantee"]
    assert (found.name, float(found.value)) == (solution["name"], solution["value"])
    assert (found.goal.limit, float(found.fails_at)) == (solution["target"], solution["fails_at"])
    assert found.guarantee.to_dict() == guarantee
    assert epsilon(found.plan) == found.guarantee


def test_the_largest_batch_at_fixed_epochs(printed):
    shown = printed("solve-rate", sample("mnist_dpsgd"), "--target-eps", "1.5")
    found = solve(load(sample("mnist_dpsgd")), "batch", target_epsilon=1.5, epochs=60)
    assert (found.value, found.fails_at) == (shown["solution"]["value"], shown["solution"]["fails_at"])
    assert found.plan.steps == shown["steps"] == -(-60 * 60_000 // found.value)
    with pytest.raises(InputError, match="epochs: expected none beside sigma, got 60"):
        solve(load(sample("mnist_dpsgd")), "sigma", target_epsilon=1.5, epochs=60)
    with pytest.raises(InputError, match="epochs: expected a number > 0, got 0"):
        solve(load(sample("mnist_dpsgd")), "batch", target_epsilon=1.5, epochs=0)


def test_a_warning_on_a_file_tells_the_place(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(TWO_FULL.replace("1e-6", "0.1"), encoding="utf-8")
    with pytest.warns(UserWarning, match=r"run\.yaml:7:41: warning\[DPC203\]") as caught:
        load(path)
    assert [one.filename for one in caught] == [__file__]


def test_no_solution_is_an_exception():
    run = plan(sample_rate=0.01, **FLAT)
    with pytest.raises(NoSolution, match=r"group_size: no value gives epsilon <= 0.1"):
        solve(run, "group", target_epsilon=0.1)
    with pytest.raises(InputError, match="target_epsilon: expected a number > 0, got none, and the plan has no budget"):
        solve(run, "sigma")
    with pytest.raises(InputError, match="quantity: expected one of sigma, steps, rate, batch, group, got 'noise'"):
        solve(run, "noise", target_epsilon=1)


@pytest.mark.filterwarnings("ignore:.*DPC203")  # delta is for users
@pytest.mark.parametrize("unit", ["user", "example"])
@pytest.mark.parametrize("group_size", thinned([2, None], 1))
def test_another_unit_and_group_cost_what_is_printed(unit, group_size, printed):
    path = sample("femnist_users")
    words = ("--unit", unit, *(() if group_size is None else ("--group-size", str(group_size))))
    shown = printed("epsilon", path, *words)["guarantee"]
    assert (shown["unit"], shown["group_size"]) == (unit, group_size or 1)
    given = {"unit": unit, "group_size": group_size}
    for found in (epsilon(path, **given), epsilon(load(path), **given), epsilon(load(path, **given))):
        assert found.to_dict() == shown


@pytest.mark.filterwarnings("ignore:.*DPC203")  # delta is for users
@pytest.mark.parametrize(("unit", "group_size"), thinned([("user", 2), ("example", None)], 1))
def test_another_unit_and_group_are_solved_for_as_printed(unit, group_size, printed):
    path, given = sample("femnist_users"), {"unit": unit, "group_size": group_size}
    words = ("--unit", unit, *(() if group_size is None else ("--group-size", str(group_size))))
    target = 1.5 * epsilon(path, **given).epsilon
    solved = printed("solve-steps", path, *words, "--target-eps", repr(target))["solution"]
    for source in (path, load(path)):
        assert solve(source, "steps", target_epsilon=target, **given).value == solved["value"]


@pytest.mark.heavy
def test_a_group_costs_what_so_much_less_noise_does():
    run = plan(dataset_size=100, scheme="all", steps=5, noise_multiplier=60, delta=1e-5, group_size=3)
    exact = float(exact_epsilon(5, 20, 1e-5))
    assert exact <= epsilon(run).epsilon <= exact * (1 + 1e-4)
    assert epsilon(plan(**FLAT, sample_rate=0.01, group_size=1000)).group_size == 1000


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda run: epsilon(run, unit="user"), r"^unit: expected one of example, got 'user'"),
        (lambda run: epsilon(run, group_size=0), "^group_size: expected a whole number >= 1, got 0"),
        (lambda run: epsilon(run, group_size=1.5), r"^group_size: expected a whole number >= 1, got 1\.5"),
        (lambda run: epsilon(run, group_size=True), "^group_size: expected a whole number >= 1, got True"),
        (lambda run: epsilon(run, group_size=101), "^dataset_size: expected it beside a group of 101"),
        (lambda run: solve(run, "batch", target_epsilon=5), "^dataset_size: expected it beside batch"),
        (lambda run: solve(run, "group", target_epsilon=1e6), "^dataset_size: expected it beside group"),
        (lambda _: plan(**FLAT, sample_rate=0.01, group_size=0), "^group_size: error.DPC106"),
        (lambda _: plan(**FLAT, dataset_size=9, scheme="all", group_size=10), "^group_size: error.DPC106"),
        (lambda _: load(sample("femnist_users"), unit="writer"), "^unit: error.DPC108.*: `privacy.unit` must name a"),
        *(
            (
                lambda _, given=given: plan(**FLAT, **given, scheme="foo"),
                "^scheme: error.DPC104.*must be poisson, cyclic-poisson, fixed,",
            )
            for given in ({"sample_rate": 0.01}, {"batch_size": 10}, {"batch_size": 10, "dataset_size": 100}, {})
        ),
    ],
)
def test_what_cannot_be_protected_or_drawn(asked, told):
    with pytest.raises(InputError, match=told):
        asked(plan(**FLAT, sample_rate=0.01))


def test_a_batch_size_alone_does_not_tell_how_examples_are_drawn():
    run = {"batch_size": 256, "dataset_size": 60_000, "epochs": 2, "noise_multiplier": 1.0, "delta": 1e-5}
    with pytest.raises(InputError, match="expected scheme too"):
        plan(**run)
    epsilons = {scheme: epsilon(plan(scheme=scheme, **run)).epsilon for scheme in ("poisson", "fixed", "shuffle")}
    assert epsilons["poisson"] < epsilons["fixed"]
    assert epsilons["poisson"] < epsilons["shuffle"]
    assert plan(sample_rate=0.01, steps=3, delta=1e-5).phases[0].hierarchy.level(1).rate == Fraction("0.01")
