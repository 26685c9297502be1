"""Delta of whole runs drawn at random: losses of composed steps, and releases with correlated noise."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import delta_bounds, pld
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.matrix_factorization import Bounds, Matrix, MatrixFactorization, PrefixSum, Toeplitz, Tree
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import delta_of, guarantee
from dpcalc.sampling.schemes import AnyOrder, BallsInBins, CyclicPoisson, Poisson
from tests.audit.test_simulate import PLANS, plan_named
from tests.oracles import correlated_releases, tilted_losses
from tests.runs import run_of
from tests.thinning import thinned

DOUBT = 1e-6


def plan(count, scheme, steps):
    return run_of((count, scheme), steps=steps, adjacency=Adjacency.ADD_REMOVE, noise=8.0, delta=1e-4)


FLAT = plan(1000, Poisson(probability=Fraction(1, 100)), 500)


def drawn_and_certified(asked, runs):
    """For each direction, the interval of delta that drawn losses give and its certified bounds."""
    composition = composed(asked)
    for name in composition.costliest()[0].direction_names:
        counts = composition.steps[name]
        epsilon = pld(counts, delta=asked.delta).epsilon
        drawn = tilted_losses.drawn_delta(counts, epsilon=epsilon, delta=asked.delta, runs=runs, doubt=DOUBT)
        yield drawn, delta_bounds(counts, epsilon=epsilon, sides=(LOWER, UPPER))


@pytest.mark.heavy
@pytest.mark.parametrize("name", thinned(PLANS, 6))
def test_delta_of_composed_steps_is_that_of_drawn_losses(name):
    for (low, high), (lower, upper) in drawn_and_certified(plan_named(name), 100):
        assert low <= upper
        assert lower <= high


def test_twice_and_half_the_delta_are_told_from_it():
    for (low, high), (lower, upper) in drawn_and_certified(FLAT, 2000):
        assert low <= upper < 2 * lower
        assert lower / 2 < low < high < 2 * upper


# Correlated noise: the whole release of one data set.

ONES = Toeplitz(coefficients=(1.0, 1.0, 1.0, 1.0))
GROUPS = CyclicPoisson(probability=Fraction(1, 5), groups=4, max_batch_size=4, max_group_size=10)
MATRIX = Matrix(
    name="c.npy", digest="1", entries=np.tril(np.random.default_rng(3).normal(size=(12, 12))) + 2 * np.eye(12)
)
CORRELATED = {  # strategy, scheme, steps, limits
    "any order": (ONES, AnyOrder(), 12, {"min_separation": 2}),
    "prefix sums": (PrefixSum(), AnyOrder(), 12, {"min_separation": 4, "max_participations": 2}),
    "tree": (Tree(restart_every=5), AnyOrder(), 12, {"min_separation": 3}),
    "matrix": (MATRIX, AnyOrder(), 12, {"min_separation": 5}),
    "longer matrix": (MATRIX, AnyOrder(), 7, {"min_separation": 5}),
    "bins": (ONES, BallsInBins(bins=8, is_held=True), 20, {}),
    "groups": (ONES, GROUPS, 12, {}),
}


def correlated_plan(name):
    strategy, scheme, steps, limits = CORRELATED[name]
    noise = MatrixFactorization(strategy=strategy, noise_multiplier=1.5, **limits)
    asked = plan(40, scheme, steps)
    return replace(asked, phases=(replace(asked.phases[0], mechanism=noise),))


def release_deltas(name):
    """For each direction, the interval of delta that drawn releases give, and its certified upper bound."""
    alone = replace(correlated_plan(name), delta=0.01)
    epsilon = guarantee(alone).epsilon
    upper = delta_of(alone, epsilon=epsilon).delta
    for sign in (1, -1):
        yield (
            correlated_releases.drawn_delta(alone.phases[0], epsilon=epsilon, sign=sign, runs=20_000, doubt=DOUBT),
            upper,
        )


@pytest.mark.heavy
@pytest.mark.parametrize("name", CORRELATED)
def test_whole_releases_cost_no_more_than_the_bound(name):
    intervals = list(release_deltas(name))
    assert all(low <= upper for (low, _), upper in intervals)
    (low, high), upper = intervals[0]
    assert high > 0
    if name in {"any order", "prefix sums"}:  # exact, and of this very data set
        assert low < upper < high


@pytest.mark.heavy
@pytest.mark.usefixtures("fresh_caches")
def test_a_bound_of_a_release_that_is_too_small_is_found(monkeypatch):
    def made_smaller(sensitivity):
        def smaller(strategy, steps, limits):
            right = sensitivity(strategy, steps, limits)
            return replace(right, squared=Bounds(right.squared.lower / 2, right.squared.upper / 2))

        return smaller

    for kind in (Matrix, PrefixSum, Toeplitz, Tree):
        monkeypatch.setattr(kind, "sensitivity", made_smaller(kind.sensitivity))
    monkeypatch.setattr("dpcalc.amplification.correlated._separated_bins", lambda scheme, steps, _: (scheme, steps))
    monkeypatch.setattr(CyclicPoisson, "group_draw", lambda *_: Poisson(probability=Fraction(1, 5)))
    for name in ("any order", "prefix sums", "tree", "bins"):
        assert any(low > upper for (low, _), upper in release_deltas(name))
