"""Several noisy sums over one sample: data sets in the plane, their output integrated with the noise of each sum."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtr

from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import Gaussian, GaussianNoise
from dpcalc.mechanisms.kinds import mechanism_class
from dpcalc.planner.evaluate import delta_of, guarantee
from dpcalc.planner.lower_end import epsilon_lower
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Poisson
from tests.oracles.adversary import random_problem
from tests.oracles.brute_force import ADD_REMOVE, Experiment, poisson
from tests.oracles.other_noise import discrete_gaussian_cells, discrete_laplace_cells, laplace_cells
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


# Noise of other kinds: the cell of each sum is seen, which never tells more than the sum.


def gaussian_cells(means, noise):
    ends = (np.linspace(means.min() - 8 * noise, means.max() + 8 * noise, 200) - means[:, None]) / noise
    return np.where(ends[:, 1:] < 0, np.diff(ndtr(ends)), -np.diff(ndtr(-ends)))


CELLS = {
    "gaussian": gaussian_cells,
    "laplace": lambda means, noise: laplace_cells(means, noise, steps=1),
    "discrete-laplace": discrete_laplace_cells,
    "discrete-gaussian": discrete_gaussian_cells,
}


def cost_of_cells(mixtures, sums, epsilon):
    """H_{e^eps} of two mixtures in any dimension, the noise of each coordinate a (kind, noise)."""
    laws = []
    places = np.concatenate([mixture.means for mixture in mixtures])
    rows = [CELLS[kind](places[:, axis], noise) for axis, (kind, noise) in enumerate(sums)]
    for mixture, start in zip(mixtures, (0, len(mixtures[0].means)), strict=True):
        own = [row[start : start + len(mixture.means)] for row in rows]
        laws.append(mixture.weights @ reduce(lambda a, b: (a[:, :, None] * b[:, None, :]).reshape(len(a), -1), own))
    return float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum())


def mechanism_of(sums):
    (kind, noise), *others = sums
    also = [SimpleNamespace(type=each, noise_multiplier=Fraction(other)) for each, other in others]
    return mechanism_class(kind).of(noise_multiplier=noise, also=also)


KINDS = [
    ("laplace", "laplace"),
    ("gaussian", "laplace"),
    ("discrete-laplace", "gaussian"),
    ("discrete-gaussian", "discrete-laplace"),
    ("laplace", "gaussian", "discrete-laplace"),
]


@pytest.mark.heavy
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", thinned(range(6), 2))
def test_no_data_set_costs_more_than_sums_of_different_noise(seed, kinds):
    rng = np.random.default_rng([seed, 97, *map(len, kinds)])
    tree, unit, clip, relation, _ = random_problem(rng, most_outcomes=30)
    sums = tuple((kind, float(rng.uniform(0.4, 3))) for kind in kinds)
    experiment = Experiment(tree, unit, clip, relation)
    plan = planned(tree, unit, clip, relation, (1.0,))
    plan = replace(plan, phases=(replace(plan.phases[0], mechanism=mechanism_of(sums)),))
    values = [rng.choice([-1.0, 1.0], size=(len(experiment.keys), len(sums))) for _ in range(2)]
    values += [np.repeat(rng.choice([-1.0, 1.0], (len(experiment.keys), 1)), len(sums), axis=1) for _ in range(2)]
    pairs = [experiment.mixtures(each) for each in values]
    for epsilon in EPSILONS:
        bound = delta_of(plan, epsilon=epsilon).delta
        found = max(cost_of_cells(pair, sums, epsilon) for p, q in pairs for pair in ((p, q), (q, p)))
        assert found <= bound * (1 + 1e-9) + 1e-13, (tree, unit, clip, relation, sums, epsilon)


@pytest.mark.parametrize(
    ("sums", "close"),
    [
        ((("laplace", 1.0), ("laplace", 1.0)), 1e-5),
        ((("gaussian", 1.0), ("laplace", 1.0)), 1e-3),
        ((("discrete-laplace", 1.5), ("gaussian", 2.0)), 1e-3),
        ((("gaussian", 0.05), ("laplace", 1e4)), 5e-3),
    ],
)
def test_sums_of_different_noise_on_one_poisson_draw(sums, close):
    """The unit adds 1 to each sum, others nothing; two Laplace answers at rate .1 cost .494011."""
    rate, delta = Fraction(1, 10), 1e-6
    phase = Phase(
        name="one step",
        hierarchy=Hierarchy(levels=(Level(name="unit", count=1000, scheme=Poisson(probability=rate)),)),
        mechanism=mechanism_of(sums),
        clip=1,
        steps=1,
    )
    plan = Plan(phases=(phase,), unit=1, adjacency=Adjacency.ADD_REMOVE, delta=delta)
    p, q = (np.array([[1.0] * len(sums)]), np.array([[0.0] * len(sums)]))
    drawn = SimpleNamespace(means=np.concatenate([p, q]), weights=np.array([0.1, 0.9]))
    missed = SimpleNamespace(means=np.concatenate([p, q]), weights=np.array([0.0, 1.0]))
    upper = guarantee(plan).epsilon
    at_upper = cost_of_cells((drawn, missed), sums, upper)
    assert at_upper <= delta
    assert cost_of_cells((drawn, missed), sums, upper * (1 - close)) > delta
    assert (1 - close) * upper * (1 - 1e-5) <= epsilon_lower(plan).value <= upper
    if sums[0] == sums[-1]:
        assert upper == pytest.approx(0.4940107, abs=1e-6)


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


@pytest.mark.heavy
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


@pytest.mark.parametrize(("first", "second"), [("laplace", "gaussian"), ("discrete-gaussian", "laplace")])
@pytest.mark.parametrize("noise", [1e-6, 1e-4, 0.02, 1.0])
@pytest.mark.parametrize("records", [1, 5_000, 2_000_000])
def test_a_second_sum_tells_no_less(first, second, noise, records):
    """Losses beyond 1e9 count as infinite where pairs are composed: epsilon 0 was printed for above 1e9."""
    if first == "discrete-gaussian" and noise < 1e-3:
        pytest.skip("the noise of a whole number has a least value")
    alone, other = mechanism_class(first).of(noise_multiplier=noise), mechanism_class(second).of(noise_multiplier=1)
    both = mechanism_class(first).of(
        noise_multiplier=noise, also=(SimpleNamespace(type=second, noise_multiplier=Fraction(1)),)
    )
    pair, single, beside = both.pair(records), alone.pair(records), GaussianNoise(noise_multiplier=1).pair(records)
    beside = beside if second == "gaussian" else other.pair(records)
    for epsilon in (0.0, 0.1, 3.0, 100.0, 1e6):
        for ours, one, two in ((pair, single, beside), (pair.swapped, single.swapped, beside.swapped)):
            assert ours.delta(epsilon) >= (1 - 1e-9) * max(one.delta(epsilon), two.delta(epsilon))


@pytest.mark.parametrize("sigma", [1e-6, 1e-3, 0.03, 0.5, 20.0])
def test_cells_of_gaussian_noise_are_exact(sigma):
    centers = [0, 1, 5, 3000]
    for center in centers:
        masses = np.exp(GaussianNoise(noise_multiplier=sigma).own_cells(center, centers))
        ends = np.linspace(-9, 3000 / sigma + 9, masses.size + 1) - center / sigma
        assert masses == pytest.approx(np.maximum(np.diff(ndtr(ends)), np.diff(-ndtr(-ends))), rel=1e-9, abs=1e-15)
        assert masses.sum() <= 1 + 1e-12
