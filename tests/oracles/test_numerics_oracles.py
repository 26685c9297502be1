"""The numerical oracles against each other, the exact Gaussian, and values recorded with the theory."""

import math
from fractions import Fraction

import pytest

from tests.oracles.conditioning import exact_epsilon as two_steps
from tests.oracles.exact_gaussian import exact_epsilon
from tests.oracles.fine_lattice import lattice_epsilon
from tests.oracles.inversion import inverted_epsilon
from tests.oracles.loss_parts import glued_curve, pair_curve
from tests.oracles.numerics_problems import generator, random_problem
from tests.thinning import thinned

ONE = Fraction(1)
FLAT = [
    (Fraction(1, 100), 4.0, 10_000, 1e-5, 0.9468668),
    (Fraction(256, 60_000), 1.1, 14_063, 1e-5, 2.381690),
    (Fraction(16_384, 1_281_167), 2.5, 7020, 8e-7, 2.033493),
    (Fraction(1, 5), 10.0, 1000, 1e-6, 2.944543),
    (Fraction(1, 1000), 0.5, 5000, 1e-6, 5.435249),
    (ONE, 20.0, 100, 1e-5, 1.993091),
]


def flat(rate):
    return {c: w for c, w in ((0, 1 - rate), (1, rate)) if w}, {0: ONE}


@pytest.mark.parametrize(("rate", "sigma", "steps", "delta", "recorded"), FLAT)
def test_inversion_of_flat_sampling(rate, sigma, steps, delta, recorded):
    counts = [(pair_curve(*flat(rate), sigma), steps)]
    half_a_digit = 0.5 * 10 ** (-7 if recorded < 1 else -6)
    assert inverted_epsilon(counts, delta) == pytest.approx(recorded, abs=half_a_digit)


def test_inversion_of_the_swapped_pair():
    p, q = flat(Fraction(1, 100))
    assert inverted_epsilon([(pair_curve(q, p, 4.0), 10_000)], 1e-5) == pytest.approx(0.9370364, abs=5e-8)


@pytest.mark.parametrize(("swapped", "recorded"), [(False, 5.0250), (True, 4.7087)])
def test_inversion_of_two_fixed_levels(swapped, recorded):
    sides = ((10, 2), (10, 0))[:: -1 if swapped else 1]
    curve = glued_curve(Fraction(1, 200), 2, (Fraction(98, 100), Fraction(15, 1000)), *sides, sigma=6.0)
    assert inverted_epsilon([(curve, 20_000)], 1e-5) == pytest.approx(recorded, abs=5e-5)


@pytest.mark.parametrize(("steps", "delta"), [(60, 1e-5), (200, 1e-12), (1000, 1e-30), (10**8, 1e-8)])
def test_inversion_of_the_gaussian(steps, delta):
    sigma = math.sqrt(steps) / 1.5
    found = inverted_epsilon([(pair_curve({0: ONE}, {1: ONE}, sigma), steps)], delta)
    assert found == pytest.approx(float(exact_epsilon(steps, sigma, delta)), rel=1e-8)


@pytest.mark.parametrize("seed", thinned(range(4), 2))
def test_inversion_and_the_fine_lattice_agree(seed):
    problem = random_problem(generator(seed, 31), rarest=1e-3, farthest=40)
    counts = [(problem.curve, problem.steps)]
    coarse, fine = (lattice_epsilon(counts, problem.delta, size=1 << n) for n in (16, 18))
    assert inverted_epsilon(counts, problem.delta) == pytest.approx(fine, rel=1e-8, abs=2 * abs(fine - coarse))


@pytest.mark.heavy
@pytest.mark.parametrize("seed", thinned(range(4), 1))
def test_conditioning_and_the_fine_lattice_agree(seed):
    problem = random_problem(generator(seed, 37), steps=2, rarest=1e-2, farthest=40)
    coarse, fine = (lattice_epsilon([(problem.curve, 2)], problem.delta, size=1 << n) for n in (16, 18))
    assert two_steps(problem.curve, 2, problem.delta) == pytest.approx(fine, rel=1e-8, abs=2 * abs(fine - coarse))
