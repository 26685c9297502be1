"""Whole releases with correlated noise, drawn at random: C G + Z of an actual data set beside the bound on its delta.

The strategy is written out, and the loss is that of the mixture over all steps in which the unit can take part. Nothing
of the sensitivities and reductions of docs/theory.md is used: a bound that is too small is contradicted.

Source: docs/theory.md, Definition 16.1.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator

from dpcalc.arrays import Array, IntArray
from dpcalc.mechanisms.matrix_factorization import Matrix, MatrixFactorization, Strategy, Toeplitz, Tree
from dpcalc.planner.composition import is_noiseless, releasing_phases
from dpcalc.planner.evaluate import delta_of, guarantee
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.schemes import All, BallsInBins, CyclicPoisson
from dpcalc.simulation.checks import MISS_PROBABILITY, Check, RandomSource, mean_interval

_DELTA = 0.01  # at whose epsilon delta is compared; for one that is ten times smaller ten times as many runs are needed
_MAX_ENTRIES = 4_000_000  # of the releases that are written out, 32 MB
_MAX_CASES = 2_000  # the square root of a matrix of products of ten times more takes minutes
_MAX_PRODUCTS = 300_000_000  # of random numbers and shifts by default: a second or two
_MIN_RUNS, _MAX_RUNS = 1_000, 100_000
_CHUNK = 2_000_000  # random numbers at once, 16 MB


@dataclass(frozen=True, kw_only=True)
class Release:
    """The release of a phase of a data set in which one unit alone contributes, always the same vector of clip norm.

    Attributes:
        products: scalar products of what the unit adds to the release in two cases, over the variance of the noise,
            shape (cases, cases).
        rate: probability of each case, independent of the others, which are in other rows; None where exactly one
            happens, each as likely.
    """

    products: Array
    rate: float | None

    @cached_property
    def root(self) -> Array:
        """A square root of the products: the noise along the cases is that of as many independent directions."""
        values, vectors = np.linalg.eigh(self.products)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def losses(self, runs: int, rng: Generator, *, is_present: bool) -> Array:
        """Return log P/Q of `runs` releases, drawn from P (the unit is present) or from Q, shape (runs,).

        Args:
            runs: number of releases.
            rng: random numbers.
            is_present: True to draw from P, False to draw from Q.
        """
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


def no_release_reason(plan: Plan, phase: Phase) -> str:
    """Return why a phase with correlated noise cannot be drawn: noise, levels below, size; "" if it can.

    Args:
        plan: the training run.
        phase: one of its phases, with correlated noise.
    """
    alone = replace(plan, phases=(phase,))
    if not releasing_phases(alone) or is_noiseless(alone):
        return "it has no noise, or never draws the protected unit"
    deciding = phase.hierarchy.level(max(1, phase.hierarchy.allocated))
    if any(level is not deciding and level.scheme != All() for level in phase.hierarchy.levels):
        return "levels below the one that decides when a unit takes part are drawn, too"
    if _case_count(phase) > _MAX_CASES or _case_count(phase) * phase.steps > _MAX_ENTRIES:
        return "its strategy has too many entries"
    return ""


def release_checks(plan: Plan, phase: Phase, source: RandomSource) -> tuple[Check, ...]:
    """Return the checks of one phase with correlated noise: delta of one data set, drawn, beside the bound, both ways.

    Args:
        plan: the training run.
        phase: one of its phases, for which `no_release_reason` returns "".
        source: random numbers, effort and progress.
    """
    # What the removal of its only unit costs is at most the bound of every adjacency and group size.
    release = _release(phase)
    alone = replace(plan, phases=(phase,), delta=_DELTA, tuning=None)
    epsilon = guarantee(alone).epsilon
    upper = delta_of(alone, epsilon=epsilon).delta
    cases = len(release.products)
    runs = source.effort.runs or max(_MIN_RUNS, min(_MAX_RUNS, _MAX_PRODUCTS // cases**2))
    chunk = max(1, _CHUNK // cases)
    checks = []
    for index, name in enumerate(("D||D'", "D'||D")):
        total, sign = 0.0, 1 - 2 * index
        for start in range(0, runs, chunk):
            losses = release.losses(min(chunk, runs - start), source.rng, is_present=not index)
            total -= float(np.expm1(np.minimum(epsilon - sign * losses, 0.0)).sum())
            source.part(index, 2).on_progress(min(1.0, (start + chunk) / runs))
        checks.append(
            Check(
                phase=phase.name if len(plan.phases) > 1 else "",
                quantity=f"delta of one data set at epsilon {epsilon:.6g}, {name}",
                computed=(0.0, upper),
                observed=total / runs,
                interval=mean_interval(total / runs, runs, miss_probability=MISS_PROBABILITY),
                trials=runs,
                note="whole releases C G + Z; computed is the bound for all data sets",
            )
        )
    return tuple(checks)


def _case_count(phase: Phase) -> int:
    """Return how many ways a unit can take part in a release: bins, steps of its group, else 1."""
    match phase.hierarchy.allocation or phase.hierarchy.level(1).scheme:
        case BallsInBins(bins=bins):
            return bins
        case CyclicPoisson(groups=groups):
            return -(-phase.steps // groups)
        case _:
            return 1


def _release(phase: Phase) -> Release:
    """Return the release of a data set with one unit: in a random bin, in the first group, or as early as it may be."""
    mechanism, steps = phase.mechanism, phase.steps
    if not isinstance(mechanism, MatrixFactorization):
        raise TypeError(f"{phase.name}: expected correlated noise, got {mechanism.name}")
    level, rate = phase.hierarchy.level(max(1, phase.hierarchy.allocated)), None
    match level.scheme:
        case BallsInBins(bins=bins):
            own = [np.arange(place, steps, bins) for place in range(bins)]
        case CyclicPoisson(groups=groups) as cyclic:
            own = [np.array([step]) for step in range(0, steps, groups)]
            rate = float(cyclic.group_draw(level.min_count, level.count).rate(level.min_count))
        case _:
            limits = mechanism.limits
            own = [limits.separation * np.arange(limits.times(steps))]
    shifts = np.stack([_shift(mechanism.strategy, steps, places) for places in own])
    deviation = mechanism.joint_noise_multiplier * _noise_unit(mechanism.strategy, steps)
    return Release(products=shifts @ shifts.T / deviation**2, rate=rate)


def _noise_unit(strategy: Strategy, steps: int) -> float:
    """Return the largest column norm of a strategy, to which noise multipliers are relative; 1 for a tree."""
    if isinstance(strategy, Tree):
        return 1.0
    if isinstance(strategy, Matrix):
        return float(np.sqrt((strategy.entries**2).sum(axis=0).max()))
    return float(np.linalg.norm(_shift(strategy, steps, np.zeros(1, dtype=np.int64))))


def _shift(strategy: Strategy, steps: int, places: IntArray) -> Array:
    """Return the sum of a strategy's columns at the steps `places`, from 0; of a tree those steps below each node.

    Args:
        strategy: of the noise.
        steps: length of the run.
        places: steps, from 0.
    """
    taken = np.zeros(steps)
    taken[places] = 1.0
    if isinstance(strategy, Matrix):
        return strategy.entries @ taken
    if not isinstance(strategy, Tree):
        coefficients = np.array(strategy.coefficients[:steps]) if isinstance(strategy, Toeplitz) else np.ones(steps)
        shift = np.zeros(steps + len(coefficients))
        for place in places.tolist():
            shift[place : place + len(coefficients)] += coefficients
        return shift[:steps]
    leaves, counts = min(steps, strategy.restart_every or steps), np.concatenate(([0.0], np.cumsum(taken)))
    nodes = []
    for start in range(0, steps, leaves):
        for size in (1 << level for level in range(leaves.bit_length())):
            ends = np.arange(start + size, min(start + leaves, steps) + 1, size)
            nodes.append(counts[ends] - counts[ends - size])
    return np.concatenate(nodes)
