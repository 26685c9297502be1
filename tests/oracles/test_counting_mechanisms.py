"""Mechanisms that count units: answers, counts with noise, and divergences, against every draw of tiny data sets."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpcalc.losses.moments import composed_moments
from dpcalc.mechanisms.black_box import ApproximateDp, RandomizedResponse, Zcdp
from dpcalc.planner.composition import FORWARD, composed
from tests.oracles.brute_force import REPLACE_ONE
from tests.oracles.multistage import (
    bound,
    capped,
    constructed,
    cut_short,
    group,
    held,
    random_problem,
    shuffled,
    unequal_group,
)
from tests.oracles.other_noise import answers, discrete_laplace_cells, hockey_sticks, mixtures
from tests.oracles.test_other_noise import NEVER, ROUND_OFF, enumerable, steps_of, with_mechanism
from tests.thinning import thinned

BLOCKS = [(0, 6), *(pytest.param(block, 25, marks=pytest.mark.slow) for block in range(1, 8))]
"""(seed, problems): by default, and in the slow suite."""
FLAVOURS = [group, unequal_group, held, shuffled, cut_short, constructed, capped]


def excess(truth, allowed):
    return float(((truth - ROUND_OFF) / np.maximum(allowed, ROUND_OFF)).max())


def of_units(problem):
    """The same with the protected level clipped: a copy of a unit that is drawn counts once."""
    return replace(problem, clip=len(problem.members[0]))


def records(rng, flavour):
    """One step that draws records, of which some are protected and exchanged."""
    while True:
        problem = random_problem(rng, flavour, 150)
        if steps_of(problem) == 1 and len(problem.members[0]) == len(problem.tree):
            return replace(of_units(problem), relation=REPLACE_ONE)


@pytest.mark.parametrize(("block", "number"), BLOCKS)
@pytest.mark.parametrize("flavour", [group, unequal_group, constructed, capped], ids=lambda flavour: flavour.__name__)
def test_no_answers_cost_more_than_the_bound(flavour, block, number):
    rng, highest = np.random.default_rng([FLAVOURS.index(flavour), 3, block]), 0.0
    for _ in range(number):
        problem, truth = records(rng, flavour), rng.uniform(0.55, 0.95)
        run, epsilons = problem.run, np.array([0.0, 0.05, 0.5, 1.5])
        allowed = bound(with_mechanism(problem, RandomizedResponse(truth_probability=truth)), epsilons)
        for ours, others in ((1, 0), (1, 1), (1, None)):
            bits = rng.integers(0, 2, len(run.keys)) if others is None else np.full(len(run.keys), others)
            for at, role in enumerate(run.roles):
                bits[at] = {("unit", 0): ours, ("unit", 1): 1 - ours}.get(role, bits[at])
            p, q = answers(run, truth, bits)
            ratio = excess(hockey_sticks(p, q, epsilons), allowed)
            assert ratio <= NEVER, (problem, truth, bits)
            highest = max(highest, ratio)
    assert highest > 0.5


def marked(run, rng):
    """Which units count: those that are protected, or all others, or some."""
    primed = np.array([role == ("unit", 1) for role in run.roles])
    own = np.array([role == ("unit", 0) for role in run.roles])
    yield own.astype(float)
    yield (~own).astype(float)
    yield primed.astype(float)
    yield rng.integers(0, 2, len(run.keys)).astype(float)


@pytest.mark.heavy
@pytest.mark.parametrize(("block", "number"), BLOCKS)
@pytest.mark.parametrize("flavour", thinned(FLAVOURS, 3), ids=lambda flavour: flavour.__name__)
def test_no_count_costs_more_than_what_is_promised_of_each_step(flavour, block, number):
    """Laplace noise of scale 1 / epsilon on a count of units is epsilon-DP, and told with probability delta else."""
    rng, highest = np.random.default_rng([FLAVOURS.index(flavour), 29, block]), 0.0
    for _ in range(number):
        problem = of_units(enumerable(rng, flavour, None))
        epsilon, told = rng.uniform(0.2, 2), float(rng.choice([0.0, 0.02]))
        run, epsilons = problem.run, np.array([0.0, 0.05, 0.5 * epsilon, 1.5 * epsilon, 2.5 * epsilon])
        allowed = bound(with_mechanism(problem, ApproximateDp(epsilon=epsilon, delta=told)), epsilons)

        def cells(means, told=told, epsilon=epsilon):
            exact = (means[:, None] == np.unique(means)[None, :]).astype(float)
            return np.hstack([(1 - told) * discrete_laplace_cells(means, 1 / epsilon), told * exact])

        for counts in marked(run, rng):
            p, q = mixtures(run, np.array([counts] * run.steps), cells)
            ratio = excess(hockey_sticks(p, q, epsilons), allowed)
            assert ratio <= NEVER, (problem, epsilon, told, counts)
            highest = max(highest, ratio)
    assert highest > 0.5


def gaussian_cells(sigma):
    def cells(means):
        y = np.arange(means.min() - 9 * sigma, means.max() + 9 * sigma, sigma / 24)
        return np.exp(-((y[None, :] - means[:, None]) ** 2) / (2 * sigma**2)) / (math.sqrt(2 * math.pi) * 24)

    return cells


def log_moments(p, q, order):
    """log E_P[(P / Q)^(order - 1)] in both directions."""
    kept = (p > 0) & (q > 0)
    logs = np.log(p[kept]), np.log(q[kept])
    return [float(np.logaddexp.reduce(order * a + (1 - order) * b)) for a, b in (logs, logs[::-1])]


@pytest.mark.parametrize(("block", "number"), BLOCKS)
@pytest.mark.parametrize("flavour", thinned(FLAVOURS, 1), ids=lambda flavour: flavour.__name__)
def test_no_count_diverges_more_than_what_is_promised_of_each_step(flavour, block, number):
    """Gaussian noise on a count of units is 1 / (2 sigma^2)-zCDP."""
    rng, highest = np.random.default_rng([FLAVOURS.index(flavour), 31, block]), 0.0
    for _ in range(number):
        problem = of_units(enumerable(rng, flavour, Zcdp))
        sigma = rng.uniform(0.8, 4)
        run, plan = problem.run, with_mechanism(problem, Zcdp(rho=1 / (2 * sigma**2)))
        by_direction = composed(plan).steps
        for counts in marked(run, rng):
            p, q = mixtures(run, np.array([counts] * run.steps), gaussian_cells(sigma))
            for order in (1.5, 2.0, 3.0, 8.0):
                found = [0.0, 0.0]
                for name, steps in by_direction.items():
                    way = 0 if name.startswith(FORWARD) else 1
                    moment = composed_moments(steps, max_order=order) if steps else None
                    value = float(moment.cumulants(np.array([order - 1]))[0][0]) if moment else 0.0
                    found[way] = max(found[way], value)
                for exact, allowed in zip(log_moments(p, q, order), found, strict=True):
                    assert exact <= allowed * (1 + 1e-6) + 1e-7, (problem, sigma, order)
                    highest = max(highest, (exact - 1e-7) / max(allowed, 1e-7))
    assert highest > 0.5
