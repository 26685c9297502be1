"""Whole releases with correlated noise, drawn at random: C G + Z of an actual data set beside the bound on its delta.

The strategy is written out, and the loss is that of the mixture over all steps in which the unit can take part. Nothing
of the sensitivities and reductions of docs/theory.md is used: a bound that is too small is contradicted.

Source: docs/theory.md, Definition 16.1.
"""

import math
from functools import cached_property

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcalc.audit.laws import mean_interval
from dpcalc.mechanisms.additive import joint_noise_multiplier
from dpcalc.mechanisms.matrix_factorization import Matrix, MatrixFactorization, Toeplitz, Tree
from dpcalc.planner.plan import Phase
from dpcalc.records import dataclass
from dpcalc.sampling.schemes import BallsInBins, CyclicPoisson

Array, IntArray = NDArray[np.float64], NDArray[np.int64]
Ends = tuple[float, float]

_CHUNK = 2_000_000  # random numbers at once, 16 MB


@dataclass(frozen=True, kw_only=True)
class Release:
    """The release of a phase of a data set in which one unit alone contributes, always the same vector of clip norm."""

    # scalar products of what the unit adds to the release in two cases, over the variance of the noise, shape (cases,
    # cases)
    products: Array
    # probability of each case, independent of the others, which are in other rows; None where exactly one happens, each
    # as likely
    rate: float | None

    @cached_property
    def root(self) -> Array:
        """A matrix R with R R^T equal to the products: R times independent normals is the noise along the cases."""
        # No Cholesky factor: the products are singular where two cases add the same to the release.
        values, vectors = np.linalg.eigh(self.products)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def losses(self, runs: int, rng: Generator, *, is_present: bool) -> Array:
        """Return the privacy losses of `runs` drawn releases, with the unit (P) or without it (Q)."""
        # The loss depends on the release only through its scalar products with what each case adds, which are normal
        # with the products as covariance; with the unit they are shifted by the products of the cases that happen.
        cases, rate = len(self.products), self.rate
        along = rng.standard_normal((runs, cases)) @ self.root.T
        if is_present and rate is None:
            along += self.products[rng.integers(cases, size=runs)]
        elif is_present and rate is not None:
            along += (rng.random((runs, cases)) < rate) @ self.products
        logs = along - np.diagonal(self.products) / 2
        if rate is None:
            top = logs.max(axis=1, keepdims=True)
            return np.asarray(np.log(np.exp(logs - top).mean(axis=1)) + top[:, 0])
        missed = math.log1p(-rate) if rate < 1 else -math.inf
        return np.asarray(np.logaddexp(missed, math.log(rate) + logs).sum(axis=1))


def drawn_delta(phase: Phase, *, epsilon: float, sign: int, runs: int, doubt: float) -> Ends:
    """Return an interval of delta at epsilon of a lone unit's releases, D||D' for sign 1 and D'||D for -1."""
    release, rng = lone_release(phase), np.random.default_rng(11)
    total, chunk = 0.0, max(1, _CHUNK // len(release.products))
    for start in range(0, runs, chunk):
        losses = release.losses(min(chunk, runs - start), rng, is_present=sign > 0)
        total -= float(np.expm1(np.minimum(epsilon - sign * losses, 0.0)).sum())
    return mean_interval(total / runs, runs, miss_probability=doubt)


def lone_release(phase: Phase) -> Release:
    """Return a lone unit's release in the form that losses are drawn from; TypeError unless noise is correlated."""
    mechanism, steps = phase.mechanism, phase.steps
    if not isinstance(mechanism, MatrixFactorization):
        raise TypeError(f"{phase.name}: expected correlated noise, got {mechanism.name}")
    # The steps of the unit in each case.
    level, rate = phase.hierarchy.level(max(1, phase.hierarchy.allocated)), None
    match level.scheme:
        case BallsInBins(bins=bins):
            own = [np.arange(place, steps, bins) for place in range(bins)]
        case CyclicPoisson(groups=groups) as cyclic:
            rate = float(cyclic.group_draw(level.min_count, level.count).rate(level.min_count))
            own = [np.array([step]) for step in range(0, steps, groups)]
        case _:
            limits = mechanism.limits
            own = [limits.separation * np.arange(limits.times(steps))]
    strategy = mechanism.strategy
    shifts = np.stack([_shift(strategy, steps, places) for places in own])
    # Noise multipliers are in units of the largest column norm, those of a tree in units of 1.
    if isinstance(strategy, Tree):
        unit = 1.0
    elif isinstance(strategy, Matrix):
        unit = float(np.sqrt((strategy.entries**2).sum(axis=0).max()))
    else:
        unit = float(np.linalg.norm(_shift(strategy, steps, np.zeros(1, dtype=np.int64))))
    deviation = joint_noise_multiplier(mechanism) * unit
    return Release(products=shifts @ shifts.T / deviation**2, rate=rate)


def _shift(strategy, steps: int, places: IntArray) -> Array:
    """Return the sum of a strategy's columns at the steps `places`; for a tree the number of them below each node."""
    taken = np.zeros(steps)
    taken[places] = 1.0
    if isinstance(strategy, Matrix):
        return strategy.entries[:steps, :steps] @ taken
    if isinstance(strategy, Tree):
        leaves, counts, nodes = min(steps, strategy.restart_every or steps), np.append(0.0, np.cumsum(taken)), []
        for start in range(0, steps, leaves):  # binary trees, without incomplete nodes
            for size in (1 << level for level in range(leaves.bit_length())):
                ends = np.arange(start + size, min(start + leaves, steps) + 1, size)
                nodes.append(counts[ends] - counts[ends - size])
        return np.concatenate(nodes)
    # The columns of the other strategies are one sequence moved down; that of prefix sums consists of ones.
    coefficients = np.array(strategy.coefficients[:steps]) if isinstance(strategy, Toeplitz) else np.ones(steps)
    shift = np.zeros(steps + len(coefficients))
    for place in places.tolist():
        shift[place : place + len(coefficients)] += coefficients
    return shift[:steps]
