"""The package's table and glued profile against the independent transcription, which the data sets cannot exceed."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.amplification.bound import MissedBatch, StepBound
from dpcalc.amplification.schedule import glued_profile
from dpcalc.guarantee import Adjacency
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import All, Fixed, Poisson
from tests.amplification.equal_sizes import one_step_bound
from tests.oracles.adversary import excess, random_problem, telling_epsilons, truth_of
from tests.oracles.brute_force import RELATIONS, Experiment, everything, fixed, poisson
from tests.oracles.gaussian_mixtures import Mixture, hockey_stick, hockey_stick_mpmath
from tests.oracles.transcription import both_directions, pair, row
from tests.thinning import thinned


def scheme_of(stage):
    if stage.rate is not None:
        return Poisson(probability=stage.rate)
    return All() if stage.size is None else Fixed(size=stage.size)


def hierarchy_of(tree):
    return Hierarchy(
        levels=tuple(
            Level(name=f"level {i}", count=stage.count, scheme=scheme_of(stage)) for i, stage in enumerate(tree)
        )
    )


def package_bound(tree, unit, clip, relation):
    return one_step_bound(hierarchy_of(tree), unit=unit, clip=clip, adjacency=Adjacency(relation))


def random_large_tree(rng):
    """Any sizes: a table needs no enumeration."""
    tree = []
    for _ in range(rng.integers(1, 5)):
        count = int(rng.integers(1, 300))
        kind = rng.integers(0, 3)
        if kind == 0:
            tree.append(fixed(int(rng.integers(1, count + 1)), count))
        else:
            tree.append(poisson(Fraction(int(rng.integers(0, 101)), 100), count) if kind == 1 else everything(count))
    return tuple(tree)


def where_it_matters(bound):
    """A distance with probability 0 has no meaning: two transcriptions may fill it differently."""
    return bound.inclusion, bound.shift, bound.chances, [each for each in bound.missed if each.chance]


@pytest.mark.parametrize("seed", range(100))
def test_both_tables_agree_for_every_unit_clip_and_relation(seed):
    tree = random_large_tree(np.random.default_rng([seed, 11]))
    for unit in range(1, len(tree) + 1):
        for clip in range(len(tree) + 1):
            for relation in RELATIONS:
                mine = row(tree, unit, clip, relation)
                missed = tuple(map(MissedBatch, mine.v, mine.d, mine.d_swapped))
                expected = StepBound(inclusion=mine.eta, shift=mine.s, missed=missed)
                found = package_bound(tree, unit, clip, relation)
                assert where_it_matters(found) == where_it_matters(expected), (tree, unit, clip, relation)
                assert found.inclusion + sum(found.chances) == 1


def drawn_problem(rng):
    while True:
        problem = random_problem(rng)
        if row(*problem[:4]).eta > 0:
            return problem


@pytest.mark.parametrize("block", thinned(range(10), 4))
def test_the_glued_profile_is_the_closed_form_in_both_directions_and_signs(block):
    rng = np.random.default_rng([block, 13])
    for _ in range(10):
        tree, unit, clip, relation, sigma = drawn_problem(rng)
        found = row(tree, unit, clip, relation)
        epsilons = telling_epsilons(found, sigma)
        profile = glued_profile(package_bound(tree, unit, clip, relation), noise_multiplier=sigma)
        values = [[direction.delta(float(eps)) for eps in epsilons] for direction in (profile, profile.swapped)]
        expected = both_directions(found, sigma, epsilons)
        assert np.array(values) == pytest.approx(expected, rel=1e-9, abs=1e-14), (tree, unit, clip, relation, sigma)
        integrated = [hockey_stick(*pair(found, d), sigma, epsilons[:5]) for d in (found.d, found.d_swapped)]
        assert np.array(values)[:, :5] == pytest.approx(np.array(integrated), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("block", thinned(range(10), 4))
def test_no_data_set_exceeds_the_profile_of_the_package(block):
    rng = np.random.default_rng([block, 17])
    for _ in range(5):
        tree, unit, clip, relation, sigma = drawn_problem(rng)
        epsilons = telling_epsilons(row(tree, unit, clip, relation), sigma)
        profile = glued_profile(package_bound(tree, unit, clip, relation), noise_multiplier=sigma)
        bound = np.array(
            [[direction.delta(float(eps)) for eps in epsilons] for direction in (profile, profile.swapped)]
        )
        experiment = Experiment(tree, unit, clip, relation)
        for _ in range(6):
            values = rng.choice([-1.0, 1.0], size=len(experiment.keys))
            truth = truth_of(experiment, values, sigma, epsilons)
            assert excess(truth, bound, epsilons) <= 1 + 1e-9, (tree, unit, clip, relation, sigma, values)


DIGITS = [
    ((fixed(1, 100_000),), 1, 1, "add-remove", 0.8),
    ((poisson(Fraction(1, 100_000), 10),), 1, 1, "replace-one", 0.8),
    ((fixed(4, 200), fixed(5, 20)), 2, 2, "add-remove", 6.0),
    ((poisson(Fraction(1, 50), 200), poisson(Fraction(1, 4), 20)), 2, 2, "zero-out", 6.0),
    ((fixed(50, 5000), everything(8)), 1, 2, "zero-out", 3.0),
]


def exact_pair(found, distances):
    sides = []
    for centre in (0, found.s):
        weights = {centre: found.eta}
        for probability, distance in zip(found.v, distances, strict=True):
            weights[distance] = weights.get(distance, Fraction(0)) + probability
        sides.append(Mixture(list(weights.values()), list(weights)))
    return sides


@pytest.mark.parametrize(("tree", "unit", "clip", "relation", "sigma"), DIGITS)
def test_the_glued_profile_keeps_its_digits_where_it_is_tiny(tree, unit, clip, relation, sigma):
    found = row(tree, unit, clip, relation)
    profile = glued_profile(package_bound(tree, unit, clip, relation), noise_multiplier=sigma)
    for direction, distances in ((profile, found.d), (profile.swapped, found.d_swapped)):
        for base in (1e-6, 1.0, 8.0):
            epsilon = math.log1p(float(found.eta) * math.expm1(base))
            exact = float(hockey_stick_mpmath(*exact_pair(found, distances), sigma, epsilon))
            assert direction.delta(epsilon) == pytest.approx(exact, rel=1e-9, abs=0)
