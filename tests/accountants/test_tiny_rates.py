"""Poisson steps of rates down to 1e-12 at deltas down to 1e-60: one and two steps at forty digits, more by merging."""

import math
from functools import cache
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpcalc import epsilon, plan

SEEDS = [(0, 4), *(pytest.param((seed, 30), marks=pytest.mark.slow) for seed in range(1, 11))]
"""(seed, problems): by default, and in the slow suite."""


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(40):
        yield


def normal_above(x):
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


class Step:
    """(1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2): what a Poisson step shows of a unit that is removed."""

    def __init__(self, rate, sigma):
        self.rate, self.sigma = mpmath.mpf(rate), mpmath.mpf(sigma)

    def density(self, y):
        normal = mpmath.exp(-((y / self.sigma) ** 2) / 2) / (self.sigma * mpmath.sqrt(2 * mpmath.pi))
        return normal * mpmath.exp(self.loss(y))

    def loss(self, y):
        return mpmath.log1p(self.rate * mpmath.expm1((2 * y - 1) / (2 * self.sigma**2)))

    def place(self, loss):
        """The point where the loss is as large; -inf if it is so everywhere."""
        excess = mpmath.expm1(loss) + self.rate
        if excess <= 0:
            return -mpmath.inf
        return self.sigma**2 * mpmath.log(excess / self.rate) + mpmath.mpf(1) / 2

    def above(self, y):
        """(P, Q) mass above a point."""
        q = normal_above(y / self.sigma)
        return (1 - self.rate) * q + self.rate * normal_above((y - 1) / self.sigma), q

    def delta(self, epsilon):
        """The hockey-stick divergence at any real epsilon; below the least loss all of P and Q are above."""
        if self.place(epsilon) == -mpmath.inf:
            return -mpmath.expm1(epsilon)
        p, q = self.above(self.place(epsilon))
        return p - mpmath.exp(epsilon) * q

    def delta_added(self, epsilon):
        """The divergence of N(0) from the mixture, epsilon >= 0."""
        if self.place(-epsilon) == -mpmath.inf:
            return mpmath.mpf(0)
        p, q = self.above(self.place(-epsilon))
        return max((1 - q) - mpmath.exp(epsilon) * (1 - p), 0)

    def delta_2(self, epsilon):
        """Two steps: the divergence of one, averaged over the loss of the other.

        Where the other loses so much that any loss of the one is enough, the average bends sharply.
        """
        bend = self.place(epsilon - mpmath.log1p(-self.rate))
        width = bend - self.place(epsilon)
        ends = {self.sigma * z for z in range(-9, 20)} | {1 + self.sigma * z for z in range(20)}
        ends |= {bend + sign * width * mpmath.mpf(4) ** -k for sign in (-1, 1) for k in range(-1, 18)}
        ends = sorted({*ends, bend, self.place(epsilon / 2)})
        nodes, weights = gauss_legendre()
        total = mpmath.mpf(0)
        for low, high in pairwise(ends):
            middle, half = (low + high) / 2, (high - low) / 2
            for node, weight in zip(nodes, weights, strict=True):
                y = middle + half * node
                total += half * weight * self.density(y) * self.delta(epsilon - self.loss(y))
        return total


@cache
def gauss_legendre():
    nodes, weights = np.polynomial.legendre.leggauss(12)
    return [mpmath.mpf(float(x)) for x in nodes], [mpmath.mpf(float(w)) for w in weights]


def merged_delta(rate, sigma, steps, epsilon, *, cells=2000, reach=4):
    """A divergence that is never above the exact one, by about a thousandth where few draws decide.

    Every step is merged into few outcomes: all below a point that few draws exceed is one, the rest are cells of equal
    width in the loss, each rounded down. Sums beyond `reach` epsilon count as `reach` epsilon. Only positive numbers
    are added and multiplied, so that a probability of 1e-60 keeps its digits.
    """
    bulk = -sigma * ndtri(1e-4 / steps)
    p, q = above(bulk, rate, sigma)
    base, width = float(np.log1p(-p) - np.log1p(-q)), epsilon / cells
    ends = base + np.arange(1, reach * cells + 1) * width
    places = sigma**2 * np.log1p(np.expm1(ends) / rate) + 0.5
    p_above = np.minimum(above(places, rate, sigma)[0], p)
    mass = np.append(p, p_above) - np.append(p_above, 0.0)
    mass[0] += 1 - p
    composed, power, left = np.eye(1, mass.size)[0], mass, steps
    while left:
        if left % 2:
            composed = clipped(np.convolve(composed, power), mass.size)
        power, left = clipped(np.convolve(power, power), mass.size), left // 2
    losses = steps * base + np.arange(mass.size) * width
    over = losses > epsilon
    return float((composed[over] * -np.expm1(epsilon - losses[over])).sum())


def above(y, rate, sigma):
    """(P, Q) mass above a point, by floats."""
    q = ndtr(-y / sigma)
    return (1 - rate) * q + rate * ndtr((1 - y) / sigma), q


def clipped(mass, size):
    """The masses beyond the last entry moved down to it."""
    return np.append(mass[: size - 1], mass[size - 1 :].sum())


def random_problem(rng, *, most):
    rate, sigma = 10 ** rng.uniform(-12, -3), 10 ** rng.uniform(math.log10(0.3), math.log10(20))
    return rate, sigma, int(10 ** rng.uniform(0, math.log10(most))), 10 ** rng.uniform(-60, -3)


def ends(rate, sigma, steps, delta):
    found = epsilon(plan(sample_rate=rate, noise_multiplier=sigma, steps=steps, delta=delta))
    assert found.epsilon_lower is not None
    assert found.epsilon_lower <= found.epsilon
    assert not found.tight or found.epsilon - found.epsilon_lower <= 1e-3 * found.epsilon
    return found.epsilon, found.epsilon_lower


@pytest.mark.heavy
@pytest.mark.parametrize("block", SEEDS)
def test_one_step(block):
    seed, count = block
    rng = np.random.default_rng([seed, 1])
    for _ in range(count):
        rate, sigma, _, delta = random_problem(rng, most=1)
        upper, lower = ends(rate, sigma, 1, delta)
        step = Step(rate, sigma)
        assert max(step.delta(mpmath.mpf(upper)), step.delta_added(mpmath.mpf(upper))) <= delta
        assert not lower or max(step.delta(mpmath.mpf(lower)), step.delta_added(mpmath.mpf(lower))) >= delta


@pytest.mark.heavy
@pytest.mark.parametrize("block", SEEDS)
def test_two_steps(block):
    seed, count = block
    rng = np.random.default_rng([seed, 2])
    for _ in range(count // 3):
        rate, sigma, _, delta = random_problem(rng, most=1)
        upper, lower = ends(rate, sigma, 2, delta)
        step = Step(rate, sigma)
        assert step.delta_2(mpmath.mpf(upper)) <= delta * (1 + 1e-9)
        assert not lower or step.delta_2(mpmath.mpf(lower)) >= delta * (1 - 1e-9)


@pytest.mark.parametrize("block", SEEDS)
def test_many_steps(block):
    seed, count = block
    rng = np.random.default_rng([seed, 3])
    for _ in range(count // 2):
        rate, sigma, steps, delta = random_problem(rng, most=1e6)
        upper, _ = ends(rate, sigma, steps, delta)
        assert not upper or merged_delta(rate, sigma, steps, upper) <= delta


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta"),
    [
        (4.40632e-11, 1.55756, 27, 6.31108e-35),
        (2.29199e-12, 0.82439, 9, 6.46744e-22),
        (1.9e-9, 4.09, 5692, 5e-17),
        (4.1017e-09, 0.455135, 4292, 1.71819e-21),
        pytest.param(1.18958e-12, 0.805043, 462, 7.53405e-49, marks=pytest.mark.slow),
        pytest.param(2.58992e-11, 1.42574, 3, 5.88333e-28, marks=pytest.mark.slow),
        pytest.param(2.04518e-12, 0.835193, 306, 1.91218e-29, marks=pytest.mark.slow),
        pytest.param(4.72311e-12, 0.616746, 303, 2.49809e-29, marks=pytest.mark.slow),
        pytest.param(2.96042e-12, 1.40451, 6, 1.49169e-42, marks=pytest.mark.slow),
    ],
)
def test_few_draws_decide(rate, sigma, steps, delta):
    """Bounds that were far apart, one of them 1000 times: losses were capped 1e-6 above an epsilon of 1e-8 at least."""
    upper, lower = ends(rate, sigma, steps, delta)
    assert upper - lower <= 3e-3 * upper
    assert merged_delta(rate, sigma, steps, upper) <= delta
    if sigma < 4:  # few draws decide: the merged steps are nearly the steps themselves
        assert merged_delta(rate, sigma, steps, 0.99 * lower) >= delta
