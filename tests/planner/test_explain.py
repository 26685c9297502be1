"""`epsilon --explain`: each epsilon is that of the run with the one choice made otherwise, as if a config said so."""

import pytest

from dpcalc.config.load import load_text
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import guarantee
from dpcalc.planner.explain import other_choices

FLAT = """
version: 1
data: {examples: 60_000}
sampling: {scheme: fixed, size: 600}
mechanism: {noise_multiplier: 4}
training: {steps: 1000}
privacy: {adjacency: add-remove, delta: 1e-5}
"""
NESTED = """
version: 1
data: {levels: [{name: user, count: 1000}, {name: example, count: 20}]}
sampling: {user: {scheme: poisson, rate: 0.01}, example: {scheme: poisson, rate: 0.5}}
mechanism: {noise_multiplier: 4, clip: user}
training: {steps: 1000}
privacy: {unit: example, adjacency: add-remove, delta: 1e-5}
"""


@pytest.mark.parametrize(
    ("text", "choice", "old", "new"),
    [
        (FLAT, "if every draw held the example: no amplification", "fixed, size: 600", "fixed, size: 60_000"),
        (FLAT, "if you draw Poisson batches of the same expected size", "fixed, size: 600", "poisson, rate: 1/100"),
        (FLAT, "with twice the noise", "multiplier: 4", "multiplier: 8"),
        (FLAT, "with half as many steps", "steps: 1000", "steps: 500"),
        (FLAT, "against replace-one", "add-remove", "replace-one"),
        (FLAT, "at delta = 1e-06", "delta: 1e-5", "delta: 1e-6"),
        (NESTED, "for one user", "unit: example", "unit: user"),
        (NESTED, "with twice the noise", "multiplier: 4", "multiplier: 8"),
    ],
)
def test_one_choice_made_otherwise(text, choice, old, new):
    assert text.count(old) == 1
    changed = guarantee(load_text(text.replace(old, new), path="changed").plan).epsilon
    if "amplification" in choice:  # the bound without amplification has the largest shift of a step, 2, in each
        changed = guarantee(load_text(text.replace(old, new).replace("r: 4", "r: 2"), path="changed").plan).epsilon
    choices = dict(other_choices(composed(load_text(text, path="run").plan)))
    assert choices[choice] == pytest.approx(changed, rel=1e-9)
