"""`delta` of groups under a tree, with little noise and in every relation: an answer, which falls with epsilon."""

import contextlib
import itertools
import json

import numpy as np
import pytest

from dpcalc.config.load import load_text
from dpcalc.config.source import ConfigError
from dpcalc.errors import InputError
from dpcalc.planner.evaluate import delta_of

TREES = ([[2, 3, 1], [4, 4], [5]], [[1, 1, 1], [6]])
SCHEMES = ({"scheme": "all"}, {"scheme": "fixed", "size": 1}, {"scheme": "poisson", "rate": 0.3})
SIGMAS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.7, 1.0, 2.0)
EPSILONS = (0.0, 1.0, 20.0, 100.0)


def random_config(rng):
    def one_of(values):
        return values[int(rng.integers(len(values)))]

    tree = one_of((*TREES, [2, 3, 1], [4, 4], [5]))
    names = ("user", "session", "example") if isinstance(tree[0], list) else ("user", "example")
    phase = {
        "name": "p",
        "sampling": {name: one_of(SCHEMES) for name in names},
        "mechanism": {"type": "gaussian", "noise_multiplier": one_of(SIGMAS), "clip": one_of((*names, "batch"))},
        "training": {"steps": one_of((1, 2, 5))},
    }
    privacy = {
        "adjacency": one_of(("replace-one", "zero-out", "add-remove")),
        "delta": 1e-5,
        "unit": one_of(names),
        "group_size": one_of((1, 2, 3)),
    }
    levels = {"levels": [{"name": name} for name in names], "tree": tree}
    return {"version": 1, "data": levels, "privacy": privacy, "phases": [phase]}


def deltas(config):
    """Delta at each epsilon, or none where the config is refused."""
    with contextlib.suppress(ConfigError, InputError):
        plan = load_text(json.dumps(config), path="f.yaml").plan
        return [delta_of(plan, epsilon=epsilon) for epsilon in EPSILONS]
    return []


def run(first, count):
    answered = 0
    for place in range(first, first + count):
        config = random_config(np.random.default_rng([1, place, 307]))
        found = deltas(config)
        answered += bool(found)
        # Next to the smallest delta that is told, 1e-280, a lower end may take too much work.
        assert not any(one.notes for one in found if one.delta > 1e-270), config
        assert all(0 <= (one.delta_lower or 0.0) <= one.delta <= 1 for one in found), config
        assert all(one.delta_lower is not None for one in found if not one.notes), config
        assert all(after.delta <= max(one.delta * (1 + 1e-12), 1e-280) for one, after in itertools.pairwise(found)), (
            config
        )
    assert answered


@pytest.mark.heavy
def test_deltas_of_groups():
    run(100_000, 6)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_deltas_of_many_groups(block):
    run(20 * block, 20)
