"""Several noisy sums over one sample: data sets in the plane, their output integrated with the noise of each sum."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.gaussian import Gaussian
from dpcalc.planner.evaluate import delta_of, guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Poisson
from tests.oracles.adversary import random_problem
from tests.oracles.brute_force import ADD_REMOVE, Experiment, poisson
from tests.oracles.test_bound_code import hierarchy_of
from tests.thinning import thinned

EPSILONS = (0.05, 0.3, 1.0)


def in_the_plane(mixtures, noises, epsilon):
    """H_{e^eps} of two mixtures, each coordinate with noise of its own, by sums over a grid."""
    axes = []
    for axis, noise in enumerate(noises):
        means = np.concatenate([mixture.means[:, axis] for mixture in mixtures])
        axes.append(np.arange(means.min() - 7 * noise, means.max() + 7 * noise, noise / 8))
    densities = []
    for mixture in mixtures:
        parts = [
            np.exp(-(((axis[:, None] - mixture.means[:, k]) / noise) ** 2) / 2) / (noise * math.sqrt(2 * math.pi))
            for k, (axis, noise) in enumerate(zip(axes, noises, strict=True))
        ]
        densities.append(np.einsum("k,ak,bk->ab", mixture.weights, *parts))
    cell = math.prod(noise / 8 for noise in noises)
    return float(np.maximum(densities[0] - math.exp(epsilon) * densities[1], 0).sum() * cell)


def planned(tree, unit, clip, relation, noises):
    hierarchy = hierarchy_of(tree)
    mechanism = Gaussian(noise_multiplier=noises[0], also=noises[1:])
    phase = Phase(name="one step", hierarchy=hierarchy, mechanism=mechanism, clip=clip, steps=1)
    return Plan(phases=(phase,), unit=unit, adjacency=Adjacency(relation), delta=1e-5)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", thinned(range(10), 4))
def test_no_data_set_costs_more_than_the_joint_bound(seed):
    rng = np.random.default_rng([seed, 83])
    tree, unit, clip, relation, noise = random_problem(rng, most_outcomes=30)
    noises = (noise, float(rng.uniform(0.7, 4)))
    experiment = Experiment(tree, unit, clip, relation)
    plan = planned(tree, unit, clip, relation, noises)
    for number in range(4):
        size = (len(experiment.keys), 2)
        values = rng.choice([-1.0, 1.0], size=size) if number % 2 else np.repeat(rng.choice([-1.0, 1.0], size[0]), 2)
        p, q = experiment.mixtures(values.reshape(size))
        for epsilon in EPSILONS:
            bound = delta_of(plan, epsilon=epsilon).delta
            found = max(in_the_plane(pair, noises, epsilon) for pair in ((p, q), (q, p)))
            assert found <= bound * 1.003 + 1e-7, (tree, unit, clip, relation, noises, epsilon)


TREE = (poisson(Fraction(1, 4), 2),)
NOISES = (1.5, 1.2)


def truth(epsilon):
    """The record adds 1 to both sums, its mate nothing."""
    experiment = Experiment(TREE, 1, 1, ADD_REMOVE)
    values = experiment.pattern({("unit", 0): 1, ("mate", 0): 0})
    p, q = experiment.mixtures(np.stack([values, values], axis=1))
    return in_the_plane((p, q), NOISES, epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_joint_bound_is_met(epsilon):
    plan = planned(TREE, 1, 1, ADD_REMOVE, NOISES)
    assert truth(epsilon) == pytest.approx(delta_of(plan, epsilon=epsilon).delta, rel=2e-3)


@pytest.mark.parametrize("epsilon", EPSILONS[1:])
def test_two_sampled_mechanisms_would_be_too_few(epsilon):
    """The sums share their sample: draws of their own for each of them cost less than an actual data set."""
    apart = planned(TREE, 1, 1, ADD_REMOVE, NOISES[:1])
    (first,) = apart.phases
    other = replace(first, name="other", mechanism=Gaussian(noise_multiplier=NOISES[1]))
    composed = delta_of(replace(apart, phases=(first, other)), epsilon=epsilon).delta
    assert truth(epsilon) > 1.02 * composed
    assert composed > delta_of(apart, epsilon=epsilon).delta


@pytest.mark.parametrize(("noise", "deviation"), [(1.1, 10.0), (0.7, 3.0), (4.0, 100.0)])
def test_adaptive_clipping_as_published(noise, deviation):
    """Andrew et al. 2021 (1905.03871v5), Theorem 1: z_delta = (z^-2 - (2 sigma_b)^-2)^(-1/2) makes z of both."""
    of_sum = (noise**-2 - (2 * deviation) ** -2) ** -0.5
    joint = Gaussian(noise_multiplier=of_sum, also=(2 * deviation,)).joint
    assert joint.noise_multiplier == pytest.approx(noise, rel=1e-12)
    level = Level(name="user", count=10_000, scheme=Poisson(probability=Fraction(1, 100)))

    def cost(mechanism):
        phase = Phase(name="x", hierarchy=Hierarchy(levels=(level,)), mechanism=mechanism, clip=1, steps=500)
        plan = Plan(phases=(phase,), unit=1, adjacency=Adjacency.ADD_REMOVE, delta=1e-6)
        return guarantee(plan).epsilon, epsilon_lower(plan)[0]

    both, alone = cost(Gaussian(noise_multiplier=of_sum, also=(2 * deviation,))), cost(Gaussian(noise_multiplier=noise))
    assert both == pytest.approx(alone, rel=1e-6)


def test_many_sums_are_as_one():
    assert Gaussian(noise_multiplier=6.0, also=(6.0,) * 8).joint.noise_multiplier == pytest.approx(2.0, rel=1e-14)
    assert Gaussian(noise_multiplier=6.0, also=(6.0,) * 8).joint.noise_multiplier < 2.0
    assert Gaussian(noise_multiplier=0.0, also=(6.0,)).joint.noise_multiplier == 0
    assert Gaussian(noise_multiplier=3.0).joint == Gaussian(noise_multiplier=3.0)
