"""What solvers return is a value that the config takes; runs whose answer is known exactly: costs.yaml."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from dpcalc.errors import InputError
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.solve import AttackGoal, EpsilonGoal, solve
from dpcalc.sampling.schemes import All, Poisson, RandomAllocation
from tests.runs import plan_of, run_of
from tests.thinning import thinned

ADVANTAGE = AttackGoal(limit=0.2)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        *((lambda at=at: AttackGoal(limit=at), "advantage") for at in (0.0, 1.0, math.nan)),
        *((lambda at=at: EpsilonGoal(limit=at), "target epsilon") for at in (0.0, math.inf, math.nan)),
        *(
            (lambda at=at: AttackGoal(limit=at[0], false_positive_rate=at[1]), "expected a number between")
            for at in ((0.01, 0.01), (1.0, 0.01), (0.5, 0.0), (0.5, math.nan), (math.nan, 0.1))
        ),
        (lambda: solve(plan_of(All()), "group", goal=ADVANTAGE, phase="training"), "--phase"),
        (lambda: ADVANTAGE.certified(replace(plan_of(All()), method="rdp")), "leave --method out"),
    ],
)
def test_questions_that_have_no_answer(wrong, words):
    with pytest.raises(InputError, match=words):
        wrong()


# Written back, the file loads and meets the target.

CONFIG = """\
version: 1
data: {{examples: 3152}}
sampling: {sampling}
mechanism: {mechanism}
training: {{steps: {steps}}}
privacy: {{adjacency: {adjacency}, delta: {delta}}}
"""
BINS, TENTH = "{scheme: balls-in-bins, bins: 13}", "{scheme: poisson, rate: 0.1}"
NOISES = [
    "{type: gaussian, noise_multiplier: 1}",
    "{type: laplace, noise_multiplier: 6.5}",
    "{type: discrete-laplace, noise_multiplier: 6.5}",
    "{type: discrete-gaussian, noise_multiplier: 3}",
]
SAMPLINGS = [
    *("{scheme: all}", TENTH, BINS, "{scheme: fixed, size: 400}", "{scheme: shuffle, size: 400, drop_last: true}"),
    *("{scheme: random-allocation, times: 1}", "{scheme: poisson, rate: 0.1, max_batch_size: 500}"),
]
TWO_NOISES = """\
version: 1
data: {examples: 3152}
phases:
  - {name: a, sampling: {scheme: all}, mechanism: {type: laplace, noise_multiplier: 0.5}, training: {steps: 2}}
  - {name: b, sampling: {scheme: all}, mechanism: {type: gaussian, noise_multiplier: 1}, training: {steps: 2}}
privacy: {adjacency: add-remove, delta: 1e-5}
"""


def solved(real, file, command, target, text=None, **changes):
    """How a solver that writes its value ends; if it finds one, `epsilon` of the file is within the target."""
    values = {"sampling": BINS, "mechanism": NOISES[2], "steps": 13, "adjacency": "replace-one", "delta": 1e-5}
    path = str(file(text or CONFIG.format(**(values | changes))))
    ended = real(command, path, "--target-eps", str(target), "--write")
    if ended.code == 0:
        assert "By hand" not in ended.out + ended.err
        after = real("epsilon", "-q", path)
        assert after.code == 0, after.err
        assert float(after.out) <= target
    return ended


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("noise", "target"), thinned([(noise, target) for target in (0.5, 6559.6, 1e5) for noise in NOISES], 5)
)
def test_the_least_noise_is_one_that_the_key_takes(real, file, noise, target):
    """.000912801 was returned, where the key takes .001 and more; one factor scales the noises of several phases."""
    ended = solved(real, file, "solve-sigma", target, sampling=TENTH, steps=8, mechanism=noise)
    assert ended.code == 0 or (ended.code == 1 and target < 1)
    assert solved(real, file, "solve-sigma", 1e8, TWO_NOISES).code == 0


@pytest.mark.heavy
@pytest.mark.parametrize("delta", [1.24e-23, 1e-5])
@pytest.mark.parametrize("target", [0.065626, 0.31, 3.0])
def test_the_most_steps_are_at_least_the_bins(real, file, target, delta):
    """2 steps were returned for 13 bins, which the config refuses."""
    ended = solved(real, file, "solve-steps", target, delta=delta)
    assert ended.code == 0 or (ended.code == 1 and "best.value: 13\n" in ended.out)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["solve-sigma", "solve-steps", "solve-rate"])
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("target", [0.065626, 1.0, 6559.6])
def test_every_solution_loads(real, file, command, sampling, noise, target):
    ended = solved(real, file, command, target, sampling=sampling, mechanism=noise, adjacency="add-remove")
    assert ended.code in {0, 1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("limit", [4.641, 6.6])
def test_the_largest_group_costs_alone_what_its_search_says(limit):
    """What a smaller group paid for may not rank the bounds of a larger one: 8, whose chains take more work than is
    left, cost 7.27 alone."""
    run = run_of(
        (200, RandomAllocation(times=2, steps=3)),
        (5, Poisson(probability=Fraction(1348, 100_000))),
        noise=2.007,
        steps=3,
        clip=1,
        adjacency="replace-one",
        delta=8.157e-6,
    )
    found = solve(run, "group", goal=EpsilonGoal(limit=limit))
    assert guarantee(replace(run, group_size=found.value)).epsilon == found.reached <= limit
    assert guarantee(replace(run, group_size=found.fails_at)).epsilon > limit
