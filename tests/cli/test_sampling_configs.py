"""A file that says how draws are held, repeated, shuffled or constructed costs what the plan costs that it means."""

import json
from fractions import Fraction

import pytest

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.evaluate import evaluate
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Episodes, Hierarchy, Level
from dpcalc.sampling.schemes import All, Fixed, Poisson, Shuffle, WithReplacement
from tests.config.texts import classes, flat, nested
from tests.thinning import thinned


def plan(levels, *, unit, clip, steps, noise, group_size=1, episodes=None, adjacency=Adjacency.ADD_REMOVE):
    hierarchy = Hierarchy(levels=tuple(levels), episodes=episodes)
    mechanism = Gaussian(noise_multiplier=noise, max_grad_norm=1.0)
    phase = Phase(name="training", hierarchy=hierarchy, mechanism=mechanism, clip=clip, steps=steps)
    return Plan(phases=(phase,), unit=unit, adjacency=adjacency, delta=1e-6, group_size=group_size)


def examples(scheme):
    return [Level(name="example", count=60_000, scheme=scheme)]


def tasks(outer, inner, *, held=1):
    yield Level(name="task", count=200, scheme=outer, redraw_every=held)
    yield Level(name="example", count=20, scheme=inner)


CLASSES = [Level(name="class", count=64, scheme=All()), Level(name="image", count=600, scheme=All())]
BUILT = Episodes(tasks=4, ways=5, shots=1, queries=15)
CASES = {
    "held": (
        nested(
            {
                "sampling": "{task: {scheme: poisson, rate: 0.1, redraw_every: 10}, example: {scheme: fixed, size: 5}}",
                "mechanism": "{noise_multiplier: 8, clip: task}",
                "training": "{steps: 1000}",
            }
        ),
        plan(
            tasks(Poisson(probability=Fraction(1, 10)), Fixed(size=5), held=10), unit=2, clip=1, steps=1000, noise=8.0
        ),
    ),
    "held task": (
        nested(
            {
                "sampling": "{task: {scheme: poisson, expected: 20, redraw_every: 10}}",
                "privacy": "{unit: task, adjacency: add-remove, delta: 1e-6}",
            }
        ),
        plan(tasks(Poisson(probability=Fraction(1, 10)), All(), held=10), unit=1, clip=1, steps=100, noise=6.0),
    ),
    "with replacement": (
        flat({"sampling": "{scheme: with-replacement}", "training": "{epochs: 0.1, batch_size: 256}"}),
        plan(examples(WithReplacement(size=256)), unit=1, clip=1, steps=24, noise=1.1),  # 6000 / 256 = 23.4
    ),
    "shuffle": (
        flat({"sampling": "{scheme: shuffle}", "training": "{epochs: 2.5, batch_size: 256}"}),
        plan(examples(Shuffle(size=256)), unit=1, clip=1, steps=588, noise=1.1),  # 2.5 passes of 235 steps
    ),
    "half a pass": (
        flat({"sampling": "{scheme: shuffle, size: 256}", "training": "{epochs: 0.5}"}),
        plan(examples(Shuffle(size=256)), unit=1, clip=1, steps=118, noise=1.1),
    ),
    "group": (
        flat({"privacy": "{adjacency: zero-out, delta: 1e-6, group_size: 5}"}),
        plan(
            examples(Poisson(probability=Fraction(256, 60_000))),
            unit=1,
            clip=1,
            steps=100,
            noise=1.1,
            group_size=5,
            adjacency=Adjacency.ZERO_OUT,
        ),
    ),
    "episodes": (classes({}), plan(CLASSES, unit=2, clip=1, steps=100, noise=6.0, episodes=BUILT)),
    "episodes by record": (
        classes({"mechanism": "{noise_multiplier: 6}"}),
        plan(CLASSES, unit=2, clip=2, steps=100, noise=6.0, episodes=BUILT),
    ),
    "episodes by batch": (
        classes({"mechanism": "{noise_multiplier: 6, clip: batch}"}),
        plan(CLASSES, unit=2, clip=0, steps=100, noise=6.0, episodes=BUILT),
    ),
}


@pytest.mark.parametrize("name", thinned(CASES, 4))
def test_the_file_costs_what_the_plan_costs(real, file, name):
    text, meant = CASES[name]
    found = json.loads(real("epsilon", str(file(text)), "--json").out)
    wanted = evaluate(meant)
    assert found["guarantee"]["epsilon"] == wanted.guarantee.epsilon
    assert found["guarantee"]["epsilon_lower"] == wanted.guarantee.epsilon_lower
    assert found["guarantee"]["group_size"] == meant.group_size
    assert found["steps"] == meant.steps
    (phase,) = found["phases"]
    (summary,) = wanted.phases
    assert (phase["hold"], phase["steps_of_a_pass"]) == (summary.hold, summary.steps_of_a_pass)
    assert [(one["rate"], one["steps"]) for one in phase["revealed"]] == [(str(r), s) for r, s in summary.revealed]


def test_a_draw_that_counts_as_revealed_is_named(real, file):
    ended = real("epsilon", str(file(CASES["held"][0])))
    assert ended.code == 0
    assert "given a draw of rate 1/10 that lasts 10 steps and is assumed public" in ended.out


def test_what_is_not_claimed_for_a_shuffle_is_noted(real, file):
    ended = real("validate", str(file(CASES["shuffle"][0])))
    assert ended.code == 0
    assert "note[DPC202]" in real("epsilon", str(file(CASES["shuffle"][0]))).err
