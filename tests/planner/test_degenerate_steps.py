"""Runs of pure steps, steps with a delta of their own, next to no delta: the smallest bound, the cause of infinity."""

import math

import pytest

from dpcalc import compare, delta, epsilon, load
from dpcalc.planner.evaluate import guarantee
from tests.thinning import thinned

# Each with its epsilon where one record is exchanged: the noise on a sum hides a change of 2.
PURE = [
    ("{type: pure-dp, epsilon: 50}", 50.0),
    ("{type: pure-dp, epsilon: 0.3}", 0.3),
    ("{type: exponential, epsilon: 5}", 5.0),
    ("{type: laplace, noise_multiplier: 3}", 2 / 3),
    ("{type: discrete-laplace, noise_multiplier: 0.5}", 4.0),
    ("{type: randomized-response, truth_probability: 0.7}", math.log(7 / 3)),
]
OTHERS = [
    "{type: approximate-dp, epsilon: 1, delta: 1e-9}",
    "{type: discrete-gaussian, noise_multiplier: 0.02}",
    "{type: zcdp, rho: 0.1}",
]


def run(file, mechanisms, *, steps, at, extra="", sampling="{scheme: all}"):
    phases = "\n".join(
        f"  - {{name: p{n}, mechanism: {each}, sampling: {sampling}, training: {{steps: {count}}}}}"
        for n, (each, count) in enumerate(zip(mechanisms, steps, strict=True))
    )
    text = f"version: 1\ndata: {{examples: 100}}\nphases:\n{phases}\n"
    return load(file(f"{text}privacy: {{adjacency: replace-one, delta: {at}}}\n{extra}"))


MIXTURES = [
    ([PURE[0][0]], [2]),
    ([each for each, _ in PURE[:4]], [1, 10, 1, 2]),
    ([each for each, _ in PURE], [1, 1, 1, 1, 1, 1]),
    ([PURE[2][0], PURE[4][0]], [10, 10]),
    ([PURE[1][0], OTHERS[0]], [10, 3]),
    ([OTHERS[1], PURE[1][0]], [1, 10]),
    ([OTHERS[2], PURE[3][0], PURE[2][0]], [3, 2, 1]),
]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("mechanisms", "steps", "at"), thinned([(*mix, at) for mix in MIXTURES for at in (1e-300, 1e-20, 1e-5, 0.9)], 9)
)
@pytest.mark.filterwarnings("ignore:.*DPC203")
def test_auto_is_never_above_another_valid_row(file, mechanisms, steps, at):
    plan = run(file, mechanisms, steps=steps, at=at)
    found = guarantee(plan).epsilon
    assert all(found <= row.epsilon for row in compare(plan) if row.valid and row.epsilon is not None)


@pytest.mark.heavy
@pytest.mark.parametrize("at", [1e-300, 1e-100, 1e-5])
def test_pure_steps_cost_no_more_than_the_sum_of_their_epsilons(file, at):
    steps = [1, 10, 2, 3, 1, 4]
    plan = run(file, [each for each, _ in PURE], steps=steps, at=at)
    total = sum(count * each for (_, each), count in zip(PURE, steps, strict=True))
    assert epsilon(plan).epsilon <= total * (1 + 1e-9)
    assert delta(plan, epsilon=total * (1 + 1e-9)).delta == 0
    assert delta(plan, epsilon=total * 0.99).delta > 0


@pytest.mark.heavy
def test_steps_whose_deltas_use_up_delta_are_named(file, real):
    mechanisms, steps = [PURE[1][0], "{type: approximate-dp, epsilon: 1, delta: 1e-5}"], [1, 20]
    plan = run(file, mechanisms, steps=steps, at=1e-5)
    found = guarantee(plan)
    assert found.epsilon == math.inf
    (note,) = found.notes
    assert "0.0002 (0.0002 in p1)" in note
    assert "delta 1e-05" in note
    path = str(file())
    run(file, mechanisms, steps=steps, at=1e-5)
    assert "note: epsilon is infinite: " in real("epsilon", path).err
    checked = real("check", path)
    assert checked.code == 1
    assert "there is no finite epsilon (unit example, delta 1e-05): what steps may reveal" in checked.out
    assert "0.0002" in real("compare", path).out
    assert "no finite epsilon is known for this run: what" in " ".join(real("statement", path).out.split())
    assert guarantee(run(file, mechanisms, steps=steps, at=3e-4)).finite


def test_phases_without_noise_are_named(file):
    mechanisms = [PURE[1][0], "{noise_multiplier: 0}", "{noise_multiplier: 1}"]
    with pytest.warns(UserWarning, match="DPC207"):
        plan = run(file, mechanisms, steps=[1, 1, 1], at=1e-5)
    (note,) = guarantee(plan).notes
    assert "without noise in p1 " in note


def test_repeated_runs_name_the_cause_too(file):
    mechanisms = ["{type: approximate-dp, epsilon: 1, delta: 1e-5}"]
    extra = "tuning: {mean: 5, distribution: poisson}\n"
    plan = run(file, mechanisms, steps=[20], at=1e-5, extra=extra)
    (note,) = guarantee(plan).notes
    assert "0.0002, times 5 runs on average" in note
