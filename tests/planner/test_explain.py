"""`epsilon --explain`: what it says adds up is what epsilon is made of; other choices are as if a config said so."""

import pytest

from dpcalc.config.load import load_text
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.statement import reasons
from tests.thinning import thinned

DRAWS = (
    "all",
    "poisson, rate: 1/50",
    "poisson, rate: 1/50, redraw_every: 4",
    "poisson, rate: 1/50, draws: 3",
    "poisson, rate: 1/50, max_batch_size: 60",
    "fixed, size: 40",
    "fixed, size: 40, redraw_every: 4",
    "with-replacement, size: 40",
    "shuffle, size: 60",
    "shuffle, size: 60, drop_last: true",
    "shuffle, size: 40, order: secret",
    "balls-in-bins, bins: 50",
    "balls-in-bins, bins: 50, assignment: held",
    "random-allocation, times: 4",
)
GROUPS = (
    "all",
    "poisson, rate: 1/50",
    "fixed, size: 40",
    "shuffle, size: 60",
    "shuffle, size: 40, order: secret",
    "balls-in-bins, bins: 50",
)
FLAT = """
version: 1
data: {{examples: 2000}}
sampling: {{scheme: {draw}}}
mechanism: {{noise_multiplier: {noise}, max_grad_norm: 1}}
training: {{steps: {steps}}}
privacy: {{adjacency: {adjacency}, delta: 1e-5, group_size: {group}}}
"""
NESTED = """
version: 1
data: {{levels: [{{name: user, count: 100}}, {{name: example, count: 20}}]}}
sampling: {{user: {{scheme: {draw}}}, example: {{scheme: {inner}}}}}
mechanism: {{noise_multiplier: {noise}, max_grad_norm: 1, clip: {clip}}}
training: {{steps: 200}}
privacy: {{unit: {unit}, adjacency: {adjacency}, delta: 1e-5}}
"""
RUN = FLAT.format(draw="fixed, size: 20", noise=4, steps=1000, adjacency="add-remove", group=1)
TREE = NESTED.format(
    draw="poisson, rate: 0.01", inner="poisson, rate: 0.5", noise=4, clip="user", unit="example", adjacency="add-remove"
)
NEIGHBOURS = ("add-remove", "zero-out", "replace-one")


def bounds(text):
    """Return (epsilon, what the reason says with its bins known, what it says if each bin held a hit by chance)."""
    composition = composed(load_text(text, path="run").plan)
    found = guarantee(composition)
    (reason,) = reasons(composition, found.direction or "")

    def again(probability, number, distance):
        noise, rate = reason.noise_multiplier / distance, float(probability)
        other = FLAT.format(draw=f"poisson, rate: {rate}", noise=noise, steps=number, adjacency="add-remove", group=1)
        return guarantee(load_text(other, path="again").plan).epsilon

    known = again(reason.probability, reason.number, reason.farthest)
    chance = again(reason.probability / reason.bins, reason.number * reason.bins, reason.distance)
    return found.epsilon, known, chance


@pytest.mark.parametrize(
    ("adjacency", "words"),
    [
        ("add-remove", "by at most 2 clip norms where others take its place, and the last sum, which then lacks one"),
        ("zero-out", "by at most 1 clip norm for it"),
        ("replace-one", "by at most 2 clip norms for it"),
    ],
)
def test_the_passes_of_a_shuffle(adjacency, words):
    """One exchange and one addition in each pass: it once said one clip norm, in each of all steps."""
    text = FLAT.format(draw="shuffle, size: 60", noise=4, steps=68, adjacency=adjacency, group=1)
    (reason,) = reasons(composed(load_text(text, path="run").plan), "")
    assert words in reason.words
    assert reason.adds_up == "2 such passes"


@pytest.mark.parametrize(
    ("draw", "group", "adjacency"),
    thinned(
        [
            (draw, group, adjacency)
            for draw, group in [*((draw, 1) for draw in DRAWS), *((draw, 3) for draw in GROUPS)]
            for adjacency in NEIGHBOURS
        ],
        25,
    ),
)
def test_what_adds_up_is_what_epsilon_is_made_of(draw, group, adjacency):
    epsilon, known, chance = bounds(FLAT.format(draw=draw, noise=4, steps=100, adjacency=adjacency, group=group))
    assert chance / 4 <= epsilon <= 2 * known


@pytest.mark.parametrize(
    ("draw", "unit", "clip", "adjacency"),
    thinned(
        [
            (draw, unit, clip, adjacency)
            for draw in ("poisson, rate: 1/20", "fixed, size: 5", "shuffle, size: 6")
            for unit, clip in (("user", "user"), ("example", "user"), ("example", "example"), ("example", "batch"))
            for adjacency in NEIGHBOURS
        ],
        13,
    ),
)
def test_nested(draw, unit, clip, adjacency):
    text = NESTED.format(draw=draw, inner="fixed, size: 4", noise=8, unit=unit, clip=clip, adjacency=adjacency)
    epsilon, known, chance = bounds(text)
    assert chance / 4 <= epsilon <= 2 * known


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("text", "choice", "old", "new"),
    [
        (RUN, "if every draw held the example: no amplification", "fixed, size: 20", "fixed, size: 2_000"),
        (RUN, "if you draw Poisson batches of the same expected size", "fixed, size: 20", "poisson, rate: 1/100"),
        (RUN, "with twice the noise", "multiplier: 4", "multiplier: 8"),
        (RUN, "with half as many steps", "steps: 1000", "steps: 500"),
        (RUN, "against replace-one", "add-remove", "replace-one"),
        (RUN, "at delta = 1e-06", "delta: 1e-5", "delta: 1e-6"),
        (TREE, "for one user", "unit: example", "unit: user"),
        (TREE, "with twice the noise", "multiplier: 4", "multiplier: 8"),
    ],
)
def test_one_choice_made_otherwise(printed, file, text, choice, old, new):
    assert text.count(old) == 1
    changed = text.replace(old, new)
    if "amplification" in choice:  # the bound without amplification has the largest shift of a step, 2, in each
        changed = changed.replace("r: 4", "r: 2")
    otherwise = printed("epsilon", str(file(text)), "--explain")["explanation"]["otherwise"]
    (found,) = (each["epsilon"] for each in otherwise if each["change"] == choice)
    assert found == pytest.approx(guarantee(load_text(changed, path="changed").plan).epsilon, rel=1e-9)
