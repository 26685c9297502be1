"""The bound for a step with a likely outcome: against everything that a step can make of its pair."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpcalc.mechanisms.black_box import gaussian_moments, pure_dp_moments

ORDERS = np.array([0.2, 1.0, 4.0, 15.0, 60.0])
SHIFTS = (0.03, 0.4, 1.5)
EPSILONS = (0.01, 0.1, 1.0)


def moment(p, q, z):
    """log sum p^(z+1) q^-z."""
    used = p > 0
    return np.logaddexp.reduce((z + 1) * np.log(p[used]) - z * np.log(q[used]))


@pytest.mark.parametrize("shift", SHIFTS)
def test_no_step_made_from_a_gaussian_pair_costs_more(shift):
    rng = np.random.default_rng(5)
    # A Gaussian pair made coarser, hence another step that the pair dominates; each tail by its own function.
    edges = np.array([-40.0, *np.linspace(-6, 6 + shift, 300), 40.0])
    p, q = (
        np.where(edges[1:] > mean, -np.diff(norm.sf(edges, mean)), np.diff(norm.cdf(edges, mean)))
        for mean in (shift, 0.0)
    )
    for _ in range(60):
        chance = rng.uniform(0, 1, size=p.size) ** rng.choice([1, 8, 40])
        if rng.integers(2):  # those that tell most: one end of the line, or both
            chance = np.where(np.abs(np.arange(p.size) / p.size - rng.uniform(0.2, 0.8)) < rng.uniform(0, 0.4), 0, 1.0)
        own, other = (np.append(chance * each, ((1 - chance) * each).sum()) for each in (p, q))
        truth = np.array([moment(own, other, z) for z in ORDERS])
        for way, data in enumerate((p, q)):  # whose probability is known: that of P's data, of Q's
            bound = gaussian_moments(np.array([(chance * data).sum()]), ORDERS, shift=shift)[way][0]
            assert (truth <= bound * (1 + 1e-9) + 1e-13).all()


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("chance", [1e-9, 1e-3, 0.1, 0.4])
def test_no_pure_step_costs_more(epsilon, chance):
    rng = np.random.default_rng(6)
    ahead, back = (each[0] for each in pure_dp_moments(np.array([chance]), ORDERS, epsilon=epsilon))
    for _ in range(200):
        own = np.append(chance * rng.dirichlet(np.full(3, 0.5)), 1 - chance)
        losses = rng.choice([-epsilon, epsilon, rng.uniform(-epsilon, epsilon)], size=3)
        other = own[:3] * np.exp(-losses)
        rest = 1 - other.sum()
        if not math.exp(-epsilon) * own[3] <= rest <= math.exp(epsilon) * own[3]:
            continue
        other = np.append(other, rest)
        for z, one, two in zip(ORDERS, ahead, back, strict=True):
            assert moment(own, other, z) <= one + 1e-13 * (1 + one)
            assert moment(other, own, z) <= two + 1e-13 * (1 + two)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("chance", [1e-3, 0.1, 0.25])
def test_a_pure_step_attains_the_bound(epsilon, chance):
    ahead, back = (each[0] for each in pure_dp_moments(np.array([chance]), ORDERS, epsilon=epsilon))
    found = []
    for sign in (-1, 1):
        other = chance * math.exp(sign * epsilon)
        own, swapped = np.array([chance, 1 - chance]), np.array([other, 1 - other])
        if swapped[1] <= 0 or not abs(math.log(own[1] / swapped[1])) <= epsilon:
            continue
        found.append([[moment(a, b, z) for z in ORDERS] for a, b in ((own, swapped), (swapped, own))])
    assert np.max(found, axis=0)[0] == pytest.approx(ahead, rel=1e-6)
    assert np.max(found, axis=0)[1] == pytest.approx(back, rel=1e-6)


@pytest.mark.parametrize(
    "moments", [lambda q: gaussian_moments(q, ORDERS, shift=0.1), lambda q: pure_dp_moments(q, ORDERS, epsilon=0.2)]
)
def test_more_doubt_costs_more_and_never_more_than_the_whole_step(moments):
    chances = np.concatenate([np.geomspace(1e-60, 0.2, 200), np.linspace(0.2, 1, 50)])
    for each in moments(chances):
        assert (np.diff(each, axis=0) >= -1e-12 * each[1:]).all()
        assert (each > 0).all()
