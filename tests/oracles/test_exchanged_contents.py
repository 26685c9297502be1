"""Theorem 6.16: the two mixtures of a unit of random contents, put together and integrated here, on a line."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.amplification.bound import ExchangedPair
from dpcalc.amplification.schedule import step_profile
from dpcalc.guarantee import Adjacency


def mixtures(pair, *, is_swapped):
    """({mean: probability} of the likelier side, of the other one)."""
    eta, sign = float(pair.inclusion), -1 if is_swapped and pair.adjacency is Adjacency.ADD_REMOVE else 1
    replaced = {Adjacency.ADD_REMOVE: pair.other, Adjacency.ZERO_OUT: ((0, 1),), Adjacency.REPLACE_ONE: pair.own}
    sides = (pair.own, replaced[pair.adjacency])
    common = [(float(d), float(v)) for d, v in pair.above]
    common += [(sign * float(k), float(pair.missed * v)) for k, v in pair.other]
    both = sides[::-1] if is_swapped else sides
    return tuple(
        [*common, *((way * float(number), eta * float(chance)) for number, chance in side)]
        for way, side in zip((-1, 1), both, strict=True)
    )


def integrated(p, q, sigma, epsilons):
    """The integral of (p - e^epsilon q)^+ under Gaussian noise, by trapezes of a two-hundredth deviation."""
    centers = np.unique([center for center, _ in (*p, *q)])
    # Points between two centers lie near the nearest one of them, so that none comes twice.
    edges = np.concatenate([[-np.inf], (centers[1:] + centers[:-1]) / 2, [np.inf]])
    lines = [np.linspace(max(c - 9 * sigma, low), min(c + 9 * sigma, high), 3601)
             for c, low, high in zip(centers, edges[:-1], edges[1:], strict=True)]  # fmt: skip
    y = np.concatenate(lines)
    densities = [
        sum(chance * np.exp(-(((y - center) / sigma) ** 2) / 2) for center, chance in side)
        / (sigma * math.sqrt(2 * math.pi))
        for side in (p, q)
    ]
    return [float(np.trapezoid(np.maximum(densities[0] - math.exp(e) * densities[1], 0), y)) for e in epsilons]


def binomial(number, percent):
    rate = Fraction(percent, 100)
    return tuple((k, math.comb(number, k) * rate**k * (1 - rate) ** (number - k)) for k in range(number + 1))


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("seed", range(25))
def test_both_directions_are_those_of_their_mixtures(seed, adjacency):
    """Half-lines ended where all that both sides have in common hid the unit: delta 0, epsilon .13 for 29.9."""
    rng = random.Random(seed)  # noqa: S311  plans, no secrets
    own = binomial(rng.choice([1, 3, 12]), rng.choice([2, 10, 30, 60]))
    other = rng.choice([((0, Fraction(1)),), binomial(rng.choice([1, 3, 12, 30]), rng.choice([2, 30]))])
    inclusion = Fraction(1, rng.choice([2, 10, 100]))
    missed = (1 - inclusion) * rng.choice([Fraction(1), Fraction(1, 2)])
    rest = 1 - inclusion - missed
    above = tuple((far, rest / 2) for far in sorted({rng.choice([0, 5, 50]), rng.choice([1, 6, 301])})) if rest else ()
    pair = ExchangedPair(
        inclusion=inclusion, missed=missed, own=own, other=other, adjacency=adjacency, above=above
    )  # fmt: skip
    epsilons = (0.0, 1e-7, 0.1, 1.0, 4.0)
    for sigma in (0.2, 0.7, 3.0, 20.0):
        loss = step_profile(pair, noise_multiplier=sigma)
        for is_swapped, side in ((False, loss), (True, loss.swapped)):
            truth = integrated(*mixtures(pair, is_swapped=is_swapped), sigma, epsilons)
            deltas = [side.delta(epsilon) for epsilon in epsilons]
            assert deltas == pytest.approx(truth, rel=1e-4, abs=1e-11)
            assert deltas == sorted(deltas, reverse=True)
