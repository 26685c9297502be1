"""Paths that stand for several: they cost at least as much as each, and every weight is a probability."""

import math
from fractions import Fraction

import pytest

import dpcalc
from dpcalc.amplification.bound import MissedBatch, StepBound
from dpcalc.errors import InputError
from dpcalc.losses.pair import MixturePair
from dpcalc.sampling.paths import path_above_all, worst_paths


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "tree",
    [
        [[3, 1, 6, 5], [1]],
        [[7], [2, 5, 2, 2], [4, 4, 4, 1, 4]],
        pytest.param([[1], [6, 3, 7, 2], [5], [2, 4, 2, 7, 8]], marks=pytest.mark.slow),
        pytest.param([[7, 6, 8, 8, 2], [3, 3], [6]], marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("unit", "size"), [("b", 2), ("c", 2), ("b", 4)])
def test_a_merged_path_holds_no_draw_that_is_larger_than_its_frame(tree, unit, size):
    """Frames smaller and larger than `at_most`: a rate of 7/1 once gave negative weights, or a crash."""
    draws = {"a": {"scheme": "poisson", "rate": 0.3}, "b": {"scheme": "fixed", "size": {"at_most": size}}}
    config = {
        "version": 1,
        "data": {"levels": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "tree": tree},
        "sampling": draws | {"c": {"scheme": "poisson", "rate": 0.1}},
        "mechanism": {"noise_multiplier": 2.0, "clip": "c"},
        "training": {"steps": 1},
        "privacy": {"unit": unit, "adjacency": "replace-one", "delta": 1e-5},
    }
    plan = dpcalc.load(config)
    draws = [(phase.hierarchy, plan.counted_level(phase)) for phase in plan.phases]
    (above,) = path_above_all(worst_paths(draws, unit=plan.unit))
    levels = range(1, len(above.counts) + 1)
    assert all(0 <= above.rate(level) <= 1 and above.missed(level) >= 0 for level in levels)
    assert 0 < dpcalc.epsilon(plan).epsilon < math.inf


def test_weights_below_zero_are_refused_where_a_bound_is_built():
    with pytest.raises(ArithmeticError, match="probabilities"):
        StepBound(inclusion=Fraction(7), shift=1, missed=(MissedBatch(Fraction(-6), 1, 1),))
    with pytest.raises(InputError, match="weights >= 0"):
        MixturePair.of({0: Fraction(2), 1: Fraction(-1)}, {0: Fraction(1)}, deviation=1.0)
