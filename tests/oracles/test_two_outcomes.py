"""Lower bounds from two outcomes: never above exact values, and far above 0 where nearly no noise is added."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.accountants.two_outcomes import two_outcome_delta, two_outcome_epsilon
from dpcalc.losses.loss import Loss
from dpcalc.losses.pair import MixturePair
from tests.oracles.exact_gaussian import exact_delta, exact_epsilon
from tests.oracles.gaussian_mixtures import Mixture, hockey_stick
from tests.oracles.joint import divergences

EPSILONS = np.array([0.0, 0.1, 1.0, 5.0])
NOTHING = 1e-15  # what round-off of the oracles in floats may be


def drawn(rate, sigma, distance=1):
    """(1 - rate) N(0) + rate N(distance) against N(0)."""
    return MixturePair.of({0: 1 - rate, distance: rate}, {0: Fraction(1)}, deviation=sigma)


@pytest.mark.parametrize("steps", [1, 7, 1000])
@pytest.mark.parametrize("sigma", [20.0, 1.0, 0.1, 1e-4])
def test_steps_without_sampling(steps, sigma):
    counts = {drawn(Fraction(1), sigma): steps}
    for delta in (0.3, 1e-5, 1e-30):
        found = two_outcome_epsilon(counts, delta=delta)
        assert found <= exact_epsilon(steps, sigma, delta)
    with mpmath.workdps(50):
        mu = mpmath.sqrt(steps) / mpmath.mpf(sigma)
        for epsilon in EPSILONS:
            assert two_outcome_delta(counts, epsilon=epsilon) <= exact_delta(mu, mpmath.mpf(epsilon))
    if sigma <= 0.1:
        assert two_outcome_epsilon(counts, delta=1e-5) > 0.1 / sigma**2
        assert two_outcome_delta(counts, epsilon=1.0) > 0.999


def random_pair(rng):
    """Two mixtures around a few centers, and the same for the oracle."""
    centers = sorted({int(c) for c in rng.integers(-3, 4, size=rng.integers(2, 5))} | {0, 1})
    shares = [rng.integers(0, 5, size=len(centers)) for _ in range(2)]
    p, q = ([Fraction(int(n), int(one.sum())) for n in one] for one in shares if one.sum())
    sigma = float(10 ** rng.uniform(-1, 0.5))
    pair = MixturePair.of(dict(zip(centers, p, strict=True)), dict(zip(centers, q, strict=True)), deviation=sigma)
    return pair, centers, np.array([p, q], dtype=float), sigma


@pytest.mark.heavy
def test_mixtures_once_and_twice():
    """Of one step nearly the whole divergence is found: the loss is read cell by cell."""
    rng = np.random.default_rng(17)
    above = 0
    for _ in range(10):
        pair, centers, weights, sigma = random_pair(rng)
        p, q = (Mixture.on_line(one, centers) for one in weights)
        truth = hockey_stick(p, q, sigma, EPSILONS)
        found = np.array([two_outcome_delta({pair: 1}, epsilon=epsilon) for epsilon in EPSILONS])
        assert (found <= truth * (1 + 1e-9) + NOTHING).all()
        above += int((found > 0.3 * truth).sum())
        means = np.array([[a, b] for a in centers for b in centers], dtype=float)
        both = [np.outer(one, one).ravel() for one in weights]
        twice = divergences(both, [means, means], sigma, EPSILONS, per_sigma=8)[0]
        found = np.array([two_outcome_delta({pair: 2}, epsilon=epsilon) for epsilon in EPSILONS])
        assert (found <= twice * (1 + 1e-6) + 1e-12).all()
    assert above >= 25


def binomial_delta(losses, log_chances, steps, epsilon):
    """Delta of coins: sum over the number of heads, of losses and log chances of heads and tails."""
    total = mpmath.mpf(0)
    for heads in range(steps + 1):
        number = (heads, steps - heads)
        mass = mpmath.binomial(steps, heads) * mpmath.exp(sum(n * c for n, c in zip(number, log_chances, strict=True)))
        loss = sum(n * x for n, x in zip(number, losses, strict=True))
        total += mass * max(mpmath.mpf(0), 1 - mpmath.exp(epsilon - loss))
    return total


@pytest.mark.parametrize("steps", [1, 2, 30, 200])
@pytest.mark.parametrize("chances", [(0.9, 0.1), (0.6, 0.4), (1e-3, 1e-9), (0.5, 0.499)])
def test_coins(chances, steps):
    """P shows heads with the first chance, Q with the second: exact sums over the number of heads."""
    with mpmath.workdps(50):
        p, q = (mpmath.mpf(one) for one in chances)
        losses = [mpmath.log(p / q), mpmath.log((1 - p) / (1 - q))]
        logs = [mpmath.log(p), mpmath.log(1 - p)]
        order = sorted(range(2), key=lambda at: losses[at])
        curve = Loss(losses=tuple(float(losses[at]) for at in order), log_masses=tuple(float(logs[at]) for at in order))
        for epsilon in EPSILONS:
            exact = binomial_delta(losses, logs, steps, mpmath.mpf(epsilon))
            assert two_outcome_delta({curve: steps}, epsilon=epsilon) <= exact * (1 + mpmath.mpf(1e-12)) + 1e-16
        for delta in (1e-2, 1e-5):
            found = two_outcome_epsilon({curve: steps}, delta=delta)
            assert not found or binomial_delta(losses, logs, steps, mpmath.mpf(found)) >= delta * (1 - 1e-12)
    if chances == (0.9, 0.1) and steps == 200:
        assert two_outcome_epsilon({curve: steps}, delta=1e-5) > 150


def test_next_to_no_noise_tells_what_was_drawn():
    """With probability 1 - .99^10 some step shows the unit, and noise of 1e-5 never looks like that."""
    chance, sigma = Fraction(1, 100), 1e-5
    for steps in (1, 10, 10**6):
        counts = {drawn(chance, sigma, distance=2): steps, drawn(chance / 2, 2 * sigma): 3}
        shown = -math.expm1(steps * math.log1p(-0.01) + 3 * math.log1p(-0.005))
        found = two_outcome_delta(counts, epsilon=1e3)
        assert shown * (1 - 1e-6) <= found <= shown
        assert 1e8 < two_outcome_epsilon(counts, delta=1e-5) <= 2 * (steps + 3) / sigma**2
        if steps == 1:  # in the four steps nothing else can happen that Q does not show
            assert two_outcome_epsilon(counts, delta=shown * (1 + 1e-9)) == 0


def test_a_run_of_unknown_steps_has_no_lower_bound():
    """Of more cells than can be looked at, and of a distance that leaves the range of floats, nothing is said."""
    wide = MixturePair.of({n: Fraction(1, 4000) for n in range(4000)}, {0: Fraction(1)}, deviation=1e-3)
    for counts in ({}, {wide: 3}, {drawn(Fraction(1, 2), 1e-200): 2}):
        assert two_outcome_epsilon(counts, delta=1e-5) == 0
        assert two_outcome_delta(counts, epsilon=1.0) == 0
