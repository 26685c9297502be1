"""Phases whose correlated noise is a matrix: against its columns and quadrature. Others: planner/costs.yaml."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.errors import InputError
from dpcalc.mechanisms.matrix_factorization import Matrix, MatrixFactorization, Toeplitz
from dpcalc.planner.evaluate import delta_of, evaluate, guarantee
from dpcalc.planner.solve import EpsilonGoal, solve
from dpcalc.planner.statement import chain_epsilon, statement
from dpcalc.sampling.schemes import AnyOrder, CyclicPoisson
from tests.oracles.exact_gaussian import exact_epsilon
from tests.runs import plan_of

DENSE = Matrix(name="c.npy", digest="0", entries=np.tril(np.random.default_rng(2).uniform(0.1, 1, (10, 10))))


def run(strategy, multiplier, *, steps, times=None, apart=None, scheme=None):
    limits = {"max_participations": times, "min_separation": apart}
    noise = MatrixFactorization(strategy=strategy, noise_multiplier=multiplier, **limits)
    return plan_of(scheme or AnyOrder(), mechanism=noise, steps=steps, adjacency="zero-out", delta=1e-6)


def gaussian_epsilon(mu):
    return float(exact_epsilon(1, 1 / mu, 1e-6))


def test_a_bound_that_is_not_attained_is_not_called_tight():
    result = evaluate(run(DENSE, 10.0, steps=10, times=3, apart=2)).guarantee
    assert result.epsilon_lower < result.epsilon * 0.999
    assert not result.tight
    # What the earliest or any later fixed pattern of equal contributions costs.
    norms = [
        np.linalg.norm(DENSE.entries[:, list(places)].sum(axis=1))
        for places in itertools.combinations(range(10), 3)
        if min(np.diff(places)) >= 2
    ]
    column = np.max(np.linalg.norm(DENSE.entries, axis=0))
    assert result.epsilon_lower <= gaussian_epsilon(max(norms) / column / 10) <= result.epsilon


def test_the_first_steps_of_a_matrix_keep_its_noise():
    """A curve over steps: the first 4 rows, with noise relative to the largest column of all 10."""
    first = np.max(np.linalg.norm(DENSE.entries[:4, :4], axis=0)) / np.max(np.linalg.norm(DENSE.entries, axis=0))
    found = guarantee(run(DENSE, 4.0, steps=4, times=1)).epsilon
    assert found == pytest.approx(gaussian_epsilon(first / 4), rel=1e-8)
    with pytest.raises(InputError, match="at most 10, the rows of the strategy, got 11"):
        guarantee(run(DENSE, 4.0, steps=11, times=1))
    with pytest.raises(InputError, match="whose cost is proved to rise"):
        solve(run(DENSE, 10.0, steps=10, times=1), "steps", goal=EpsilonGoal(limit=2.0))


@pytest.mark.heavy
def test_cyclic_draws_under_a_matrix_against_quadrature():
    """Two groups, four steps, all outputs: no group costs more than the bound, and one nearly as much."""
    banded = np.array([[1.0, 0, 0, 0], [0.5, 0.8, 0, 0], [0, 0.3, 1.0, 0], [0, 0, 0.5, 0.6]])
    deviation = 1.2 * np.max(np.linalg.norm(banded, axis=0))
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    outputs = deviation * np.array(list(itertools.product(nodes, repeat=4)))
    masses = np.prod(list(itertools.product(weights, repeat=4)), axis=1) / (2 * np.pi) ** 2
    scheme = CyclicPoisson(probability=Fraction(2, 5), groups=2)
    plan = run(Matrix(name="b.npy", digest="1", entries=banded), 1.2, steps=4, scheme=scheme)
    ratios = 0.6 + 0.4 * np.exp((outputs @ banded - (banded**2).sum(axis=0) / 2) / deviation**2)
    for epsilon in (0.3, 1.0):
        bound = delta_of(plan, epsilon=epsilon)
        shown = [np.maximum(ratios[:, group::2].prod(axis=1) - math.exp(epsilon), 0) for group in (0, 1)]
        most = max(float(masses @ each) for each in shown)
        assert bound.delta * 0.9 <= most <= bound.delta * 1.02
        assert bound.delta_lower <= most * 1.02


def test_a_group_whose_members_cyclic_draws_part_is_chained():
    single = run(
        Toeplitz(coefficients=(1.0,)), 2.0, steps=8, scheme=CyclicPoisson(probability=Fraction(1, 10), groups=4)
    )
    chained = dict(statement(single).groups)[2]
    assert chained == chain_epsilon(single, 2) > guarantee(single).epsilon
