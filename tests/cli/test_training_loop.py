"""`dpcalc.Accountant`: certified at every step, exact where it says so, its state, and the sample callbacks."""

import gc
import importlib.util
import json
import math
import sys
import types
import warnings
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import yaml

import dpcalc
from dpcalc import epsilon, plan
from dpcalc.errors import ConvergenceError, InputError
from tests.cli import stand_in
from tests.oracles.exact_gaussian import exact_epsilon
from tests.sweeps.random_configs import generator, random_config

ROWS = yaml.safe_load(Path(__file__).with_name("accountants.yaml").read_text(encoding="utf-8"))

SAMPLES = Path(__file__).parents[2] / "sample_configs"
FULL = {"scheme": "all", "dataset_size": 100, "delta": 1e-6}
FLAT = {"sample_rate": 0.01, "noise_multiplier": 1.0, "delta": 1e-5}


def exact(squares, delta=1e-6):
    """The epsilon of Gaussian releases of whole batches: one of which 1 / noise^2 is the sum of theirs."""
    return float(exact_epsilon(1, 1 / math.sqrt(squares), delta))


def test_epsilon_is_never_below_the_exact_one_and_near_it():
    accountant = dpcalc.Accountant(noise_multiplier=30.0, steps=200, **FULL)
    assert accountant.epsilon == 0
    readings = {}
    for step in range(1, 61):
        accountant.step()
        readings[step] = accountant.epsilon
    truth = {step: exact(step / 900) for step in range(1, 61, 7)}
    assert all(truth[step] * (1 - 1e-9) <= readings[step] <= truth[step] * 1.02 for step in truth)
    assert all(readings[step] <= readings[step + 1] for step in range(1, 60))
    accountant.step(count=140)
    assert accountant.epsilon == pytest.approx(exact(200 / 900), rel=1e-4)
    assert accountant.guarantee() == epsilon(plan(noise_multiplier=30.0, steps=200, **FULL))


def test_noise_that_changes_is_composed_exactly():
    accountant = dpcalc.Accountant(noise_multiplier=30.0, steps=400, **FULL)
    squares = 0
    for noise, count in ((20.0, 3), (None, 5), (20.0, 4), (25.0, 1), (None, 50), (40.0, 2)):
        accountant.step(noise_multiplier=noise, count=count)
        squares += count / (noise or 30.0) ** 2
        truth = exact(squares)
        assert truth * (1 - 1e-9) <= accountant.epsilon <= truth * 1.08  # default steps: the bound of the next 16th
        assert accountant.guarantee().epsilon == pytest.approx(truth, rel=1e-4)
    assert accountant.steps == 65
    assert accountant  # also before the first step


def phased(one, other, **more):
    """A config of two phases."""
    return {
        "version": 1,
        "data": {"examples": 100},
        "phases": [{"name": "a"} | one, {"name": "b"} | other],
        "privacy": {"delta": more.pop("delta", 1e-5), "adjacency": "add-remove"},
    } | more


def test_rates_that_change_cost_what_phases_do():
    accountant = dpcalc.Accountant(steps=100, **FLAT)
    for _ in range(10):
        accountant.step(rate=0.02, count=2)
        accountant.step(count=3)
    config = phased(
        {"sampling": {"scheme": "poisson", "rate": 0.02}, "training": {"steps": 20}},
        {"sampling": {"scheme": "poisson", "rate": 0.01}, "training": {"steps": 30}},
        mechanism={"noise_multiplier": 1},
    )
    assert accountant.guarantee().epsilon == pytest.approx(epsilon(config).epsilon, rel=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize("target", [0.5, 3.0])
def test_steps_left_are_exact(target):
    accountant = dpcalc.Accountant(steps=1000, target_epsilon=target, **FLAT)
    left = accountant.steps_left
    assert epsilon(plan(steps=left, **FLAT)).epsilon <= target < epsilon(plan(steps=left + 1, **FLAT)).epsilon
    assert left == dpcalc.solve(plan(steps=1, **FLAT), "steps", target_epsilon=target).value
    accountant.step(count=left - 1)
    assert (accountant.steps_left, accountant.should_stop) == (1, False)
    accountant.step()
    assert (accountant.steps_left, accountant.should_stop) == (0, True)
    assert accountant.epsilon <= target
    accountant.step(count=5)
    assert (accountant.steps_left, accountant.should_stop) == (0, True)
    assert accountant.epsilon > target


def test_steps_left_after_other_settings_and_over_phases():
    config = phased(
        {"mechanism": {"noise_multiplier": 100}, "training": {"steps": 400}},
        {"mechanism": {"noise_multiplier": 200}, "training": {"steps": 100}},
        sampling={"scheme": "all"},
        budget={"epsilon": 2},
        delta=1e-6,
    )

    def whole(step):  # the second phase goes on beyond the plan
        return min(step, 400) / 100**2 + max(0, step - 400) / 200**2

    accountant = dpcalc.Accountant(config)
    left = accountant.steps_left
    assert left > 3000
    assert exact(whole(left)) <= 2 < exact(whole(left + 3))  # our bound is 1e-4 above the exact one
    accountant.step(count=400)
    assert accountant.steps_left == left - 400
    assert accountant.epsilon == pytest.approx(exact(whole(400)), rel=1e-4)  # the end of a phase is exact
    accountant.step(noise_multiplier=50, count=50)
    fewer = accountant.steps_left
    squares = 400 / 100**2 + 50 / 50**2
    assert exact(squares + fewer / 200**2) <= 2 < exact(squares + (fewer + 3) / 200**2)
    accountant.step(count=fewer)
    assert accountant.guarantee().epsilon <= 2
    accountant.step()
    assert accountant.guarantee().epsilon > 2


def test_a_reading_does_not_exceed_the_budget_while_the_steps_do_not():
    accountant = dpcalc.Accountant(target_epsilon=1.0, **FLAT)
    limit = dpcalc.solve(plan(steps=1, **FLAT), "steps", target_epsilon=1.0).value
    accountant.step(count=limit - 3)
    assert accountant.epsilon <= 1.0  # the next certified count would be beyond the budget
    accountant.step(count=3)
    assert accountant.epsilon <= 1.0
    assert accountant.should_stop


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["held_tasks", "mnist_shuffle", "mnist_bins", "clinic_maml"])
def test_other_ways_of_drawing_cost_what_their_first_steps_do(name):
    run = dpcalc.load(SAMPLES / f"{name}.yaml")
    accountant = dpcalc.Accountant(run)
    accountant.step(count=7)
    accountant.step(count=6)
    assert accountant.epsilon >= epsilon(run, steps=13).epsilon
    assert accountant.guarantee().epsilon == epsilon(run, steps=13).epsilon


def test_runs_whose_cost_depends_on_their_length_cannot_go_on():
    accountant = dpcalc.Accountant(SAMPLES / "stack_overflow_ftrl.yaml", target_epsilon=100)
    steps = dpcalc.load(SAMPLES / "stack_overflow_ftrl.yaml").steps
    assert accountant.steps_left == steps
    accountant.step(count=steps - 1)
    with pytest.raises(InputError, match=f"step: expected at most {steps} steps"):
        accountant.step(count=2)
    assert accountant.steps == steps - 1  # a refused call records nothing
    accountant.step()
    with pytest.raises(InputError, match="noise_multiplier: expected steps that draw afresh"):
        dpcalc.Accountant(SAMPLES / "stack_overflow_ftrl.yaml").step(noise_multiplier=3.0)
    with pytest.raises(InputError, match="rate: expected steps that draw afresh"):
        dpcalc.Accountant(SAMPLES / "held_tasks.yaml").step(rate=0.5)


def test_a_run_without_noise_stops_at_once():
    accountant = dpcalc.Accountant(sample_rate=0.1, delta=1e-5, target_epsilon=3)
    assert accountant.should_stop
    accountant.step(noise_multiplier=5.0)
    assert math.isfinite(accountant.epsilon)
    accountant.step()
    assert accountant.epsilon == math.inf
    assert "epsilon <= inf" in accountant.summary()


@pytest.mark.heavy
def test_readings_leave_no_compositions_behind():
    """A run of a million steps with a schedule of its own reads epsilon as often; each composition has losses."""

    def alive():
        gc.collect()
        return sum(type(each).__name__ == "Composition" for each in gc.get_objects())

    accountant = dpcalc.Accountant(noise_multiplier=30.0, steps=400, **FULL)
    before = alive()
    for step in range(12):
        accountant.step(noise_multiplier=20.0 + step % 2)
        _ = accountant.epsilon, accountant.guarantee()
        accountant.step(count=3)
        _ = accountant.epsilon
    assert alive() <= before + 3


def test_few_compositions_are_made(monkeypatch):
    """Of 14,063 steps with a reading after each, some 150 compose; the others look the bound up."""
    asked = []

    def cost(composition):
        return math.sqrt(composition.plan.steps) / 100

    def guarantee(composition, method=None):  # noqa: ARG001
        asked.append(composition.plan.steps)
        return replace(stand_in.guarantee(composition), epsilon=cost(composition))

    monkeypatch.setattr("dpcalc.training.guarantee", guarantee)
    monkeypatch.setattr("dpcalc.planner.solve.guarantee", guarantee)
    estimate = lambda plan, **_: types.SimpleNamespace(value=cost(plan), direction="", change=math.nan)  # noqa: E731
    monkeypatch.setattr("dpcalc.planner.solve.estimate_epsilon", estimate)
    accountant = dpcalc.Accountant(SAMPLES / "mnist_dpsgd.yaml", target_epsilon=1.1)
    assert accountant.steps_left == 12_100  # sqrt(12,100) / 100 = 1.1
    searches = len(asked)
    assert searches <= 12
    for step in range(1, 14_064):
        accountant.step()
        reading = (100 * accountant.epsilon) ** 2 + 1e-9
        assert step <= reading <= step + max(27, step / 32) + 1e-6  # 14,063 / 512 is 27
        assert accountant.should_stop == (step >= 12_100)
    assert len(asked) - searches <= 160


@pytest.mark.heavy
def test_the_state_round_trips_exactly():
    accountant = dpcalc.Accountant(steps=1000, target_epsilon=2, **FLAT)
    accountant.step(count=30)
    accountant.step(noise_multiplier=0.1 + 0.2, rate=Fraction(1, 97), count=2)
    accountant.step(count=3)
    state = accountant.state_dict()
    again = dpcalc.Accountant(steps=1000, target_epsilon=2, **FLAT)
    again.load_state_dict(json.loads(json.dumps(state)))
    assert again.state_dict() == state
    assert (again.steps, again.guarantee(), again.steps_left) == (35, accountant.guarantee(), accountant.steps_left)
    again.step()
    accountant.step()
    assert again.epsilon == accountant.epsilon


@pytest.mark.parametrize("change", [{"noise_multiplier": 1.1}, {"delta": 1e-6}, {"steps": 2000}, {"sample_rate": 0.02}])
def test_states_of_other_configs_are_refused(change):
    accountant = dpcalc.Accountant(target_epsilon=1, **({"steps": 1000} | FLAT))
    accountant.step(count=np.int64(4))  # kept as a plain number
    other = dpcalc.Accountant(**({"steps": 1000} | FLAT | change))
    words = r"state: expected one of Plan\(.*\), .*, got one of Plan\(.*another config"
    with pytest.raises(InputError, match=words) as told:
        other.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert other.steps == 0
    expected, found = str(told.value).removeprefix("state: expected one of ").split("; its")[0].split(", got one of ")
    assert expected != found
    again = dpcalc.Accountant(target_epsilon=2, **({"steps": 1000} | FLAT))  # a budget may change while training runs
    again.load_state_dict(accountant.state_dict())
    assert (again.steps, again.budget) == (4, 2)


@pytest.mark.parametrize(
    "broken",
    ROWS["broken"],
    ids=str,
)
def test_broken_states_are_refused_and_change_nothing(broken):
    accountant = dpcalc.Accountant(steps=1000, **FLAT)
    accountant.step(count=2)
    state = {**accountant.state_dict(), **broken} if broken else broken
    with pytest.raises(InputError, match=r"state: expected"):
        accountant.load_state_dict(state)
    assert accountant.steps == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dpcalc.Accountant("a.yaml", delta=1e-5), "config: expected a config or numbers, got both: delta"),
        (lambda: dpcalc.Accountant(**FLAT).steps_left, "target_epsilon: expected a budget, got none"),
        (lambda: dpcalc.Accountant(**FLAT).step(count=np.int64(-1)), "count: expected a whole number >= 0"),
        (lambda: dpcalc.Accountant(**FLAT).step(noise_multiplier=np.True_), "noise_multiplier: expected a number, got"),
        (lambda: plan(sample_rate=0.1, noise_multiplier=1.1, delta=1e-5, steps=np.array(True)), "steps: expected a"),
        (lambda: plan(levels={"a": np.True_}, sampling={}, delta=1e-5, steps=1), "config: expected words, numbers"),
        (lambda: dpcalc.Accountant(steps=3, noise_multiplier=1.0, **FULL).step(rate=0.5), "one Poisson draw"),
        (lambda: dpcalc.Accountant(**FLAT).get_epsilon(delta=1e-5), "dpcalc calls this epsilon"),
        (lambda: dpcalc.Accountant(**FLAT).nothing, "no attribute 'nothing'"),
        (lambda: dpcalc.Accountant(**FLAT).require(sigma=1), "noise_multiplier"),
        *((lambda name=name, run=run: getattr(dpcalc, name)(**run), words) for name, run, words in ROWS["wrong runs"]),
        *((lambda step=step: dpcalc.Accountant(**FLAT).step(**step), words) for step, words in ROWS["wrong steps"]),
    ],
)
def test_errors_say_what_to_do(call, words):
    with pytest.raises((InputError, TypeError, AttributeError), match=words):
        call()


def test_the_summary_is_rounded_to_the_safe_side():
    accountant = dpcalc.Accountant(target_epsilon=1, **FLAT)
    accountant.step(count=100)
    text = accountant.summary()
    assert text.startswith("100 steps: epsilon <= 0.")
    assert float(text.split("<= ")[1].split()[0]) >= accountant.epsilon
    assert f"{accountant.steps_left:,} steps left to the budget of 1.0" in text
    assert accountant._repr_html_() == f"<p>{text.replace('<', '&lt;')}</p>"
    assert repr(accountant) == f"Accountant(100 steps of {accountant._plan!r})"


@pytest.mark.slow
@pytest.mark.parametrize("place", range(40))
def test_readings_of_random_runs_are_never_below_their_first_steps(place):
    rng = generator(77, place)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = dpcalc.load(random_config(rng))
        whole = epsilon(run, steps=run.steps)
    except (InputError, ConvergenceError):
        pytest.skip("no bound covers the run")
    if not (whole.finite and whole.epsilon and 1 < run.steps < 10**5 and len(run.phases) < 3):
        pytest.skip("nothing to count")
    accountant = dpcalc.Accountant(run, target_epsilon=0.6 * whole.epsilon)
    left = accountant.steps_left
    assert left == 0 or epsilon(run, steps=min(left, run.steps)).epsilon <= accountant.budget
    accountant.step(count=int(rng.integers(1, run.steps + 1)))
    assert accountant.epsilon >= epsilon(run, steps=accountant.steps).epsilon * (1 - 1e-9)


# What a trainer compares with the plan


@pytest.mark.parametrize(("given", "used", "wrong"), ROWS["required"])
def test_require(given, used, wrong):
    accountant = dpcalc.Accountant(**{"noise_multiplier": 1.5, "steps": 50, "delta": 1e-5} | given)
    with pytest.raises(InputError, match=f"^{wrong}: ") if wrong else nullcontext() as caught:
        accountant.require(**used)
    assert not wrong or str(used[wrong]) in str(caught.value) or "known number" in str(caught.value)


# The sample callbacks, with stubs in the place of the frameworks


def sample(name, monkeypatch, **modules):
    for module, content in modules.items():
        monkeypatch.setitem(sys.modules, module.replace("_", "."), types.SimpleNamespace(**content))
    path = SAMPLES / "callbacks" / f"{name}.py"
    assert len(path.read_text().splitlines()) <= 30
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PrivacyBudget


def test_the_lightning_callback(monkeypatch, tmp_path):
    stub = types.SimpleNamespace(Callback=object)
    budget = sample("lightning_callback", monkeypatch, lightning={"pytorch": stub}, lightning_pytorch=vars(stub))
    config = write_config(tmp_path)
    callback, logged = budget(config), {}
    limit = callback.accountant.steps_left
    trainer, module = (
        types.SimpleNamespace(global_step=0, should_stop=False, accumulate_grad_batches=1, world_size=1),
        types.SimpleNamespace(log=logged.__setitem__),
    )
    trainer.train_dataloader, trainer.estimated_stepping_batches = types.SimpleNamespace(batch_size=1), 12
    with pytest.raises(InputError, match="steps: the config states 10, the training uses 12"):
        callback.on_train_start(trainer, module)
    trainer.estimated_stepping_batches = 10
    callback.on_train_start(trainer, module)
    for batch in range(2 * limit):
        trainer.global_step += batch % 2  # two batches are accumulated for each update
        assert not trainer.should_stop
        callback.on_train_batch_end(trainer, module, None, None, batch)
    assert trainer.should_stop
    assert callback.accountant.steps == trainer.global_step == limit
    assert 0 < logged["epsilon"] <= 0.3
    resumed = budget(config)
    resumed.load_state_dict(callback.state_dict())
    assert resumed.accountant.should_stop


def test_the_hugging_face_callback(monkeypatch, tmp_path):
    budget = sample("hf_trainer_callback", monkeypatch, transformers={"TrainerCallback": object})
    config = write_config(tmp_path)
    callback, logs = budget(config), {}
    numbers = {"train_batch_size": 1, "gradient_accumulation_steps": 1, "world_size": 1}
    arguments = types.SimpleNamespace(output_dir=str(tmp_path), **numbers)
    state, control = (
        types.SimpleNamespace(global_step=0, max_steps=10),
        types.SimpleNamespace(should_training_stop=False),
    )
    for name in numbers:
        wrong = types.SimpleNamespace(**numbers | {name: 2})
        with pytest.raises(InputError, match=r"batch_size: the config states 1\.0 on average, the training uses 2"):
            callback.on_train_begin(wrong, state, control)
    callback.on_train_begin(arguments, state, control)
    while not control.should_training_stop:
        state.global_step += 1
        callback.on_step_end(arguments, state, control)
    callback.on_log(arguments, state, control, logs=logs)
    assert 0 < logs["epsilon"] <= 0.3
    (tmp_path / f"checkpoint-{state.global_step}").mkdir()
    callback.on_save(arguments, state, control)
    resumed = budget(config)
    resumed.on_train_begin(arguments, state, control)
    assert resumed.accountant.state_dict() == callback.accountant.state_dict()


def write_config(folder):
    path = folder / "dpcalc.yaml"
    path.write_text(
        "{version: 1, data: {examples: 100}, sampling: {scheme: poisson, rate: 0.01}, mechanism: {noise_multiplier: 1},"
        " training: {steps: 10}, privacy: {delta: 1e-5, adjacency: add-remove}, budget: {epsilon: 0.3}}"
    )
    return path
