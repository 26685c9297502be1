"""The pairs of mechanisms against closed forms, 50 digits and enumeration."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.amplification.any_mechanism import step_pair
from dpcalc.amplification.bound import Average, CountPair, MissedBatch, StepBound
from dpcalc.losses.atoms import chain_of
from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import loss_moments
from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace, Laplace
from dpcalc.mechanisms.black_box import ApproximateDp, RandomizedResponse
from tests.thinning import thinned

ORDERS = (1.5, 2.0, 5.0, 32.0)
EPSILONS = (-1.0, -0.2, 0.0, 0.05, 0.3, 1.0)


def renyi(pair, order):
    z = order - 1
    return float(loss_moments(pair, max_order=64.0).cumulants(np.array([z]))[0][0]) / z


@pytest.mark.parametrize("pure", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("order", ORDERS)
def test_laplace(pure, order):
    """Renyi divergence by integration of the densities with 50 digits."""
    with mpmath.workdps(50):
        s, a = mpmath.mpf(pure), mpmath.mpf(order)

        def integrand(y):
            p, q = mpmath.exp(-abs(y)) / 2, mpmath.exp(-abs(y - s)) / 2
            return p**a * q ** (1 - a)

        exact = float(mpmath.log(mpmath.quad(integrand, [-60, 0, s, s + 60])) / (a - 1))
    assert Laplace(noise_multiplier=1 / pure).rdp(order) == pytest.approx(exact, rel=1e-12)
    assert exact * (1 - 1e-12) <= renyi(Laplace(noise_multiplier=1 / pure).pair(1), order) <= exact * (1 + 1e-5)
    assert Laplace(noise_multiplier=1 / pure).rdp(math.inf) == pure


def test_randomized_response_of_many():
    """Four answers of two records that differ, category by category."""
    pair = RandomizedResponse(truth_probability=0.4, categories=4).pair()
    here, there = [0.4, 0.2, 0.2, 0.2], [0.2, 0.4, 0.2, 0.2]
    for epsilon in EPSILONS:
        exact = sum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(here, there, strict=True))
        assert pair.delta(epsilon) == pytest.approx(exact, abs=1e-14)
    assert RandomizedResponse(truth_probability=0.25, categories=4).pair().delta(0.0) == 0


@pytest.mark.parametrize(("sigma", "shift"), thinned([(1000.0, 2), (2500.0, 1), (9999.5, 3)], 1))
def test_a_wide_discrete_gaussian_on_fewer_losses(sigma, shift):
    """From above, both ways, by little, down to the smallest delta."""
    pair = DiscreteGaussian(noise_multiplier=sigma).pair(shift)
    assert len(pair.losses) <= 16_001
    x = np.arange(-math.ceil(30 * sigma), math.ceil(30 * sigma) + 1)
    p, q = (mass / mass.sum() for mass in (np.exp(-(((x - c) / sigma) ** 2) / 2) for c in (0, shift)))
    for deviations in (-4.0, -1.0, 0.0, 0.5, 2.0, 5.0, 8.0):
        epsilon = deviations * shift / sigma
        terms = p - math.exp(epsilon) * q
        exact = math.fsum(terms[terms > 0].tolist())
        for found in (pair.delta(epsilon), pair.swapped.delta(epsilon)):
            assert exact * (1 - 1e-9) <= found <= exact * (1 + 3e-4)


@pytest.mark.parametrize(("sigma", "shift"), [(0.0236, 1), (0.04, 1), (0.1, 3), (1.0, 19), (1.0, 30)])
def test_discrete_gaussians_far_apart_cost_the_same_both_ways(sigma, shift):
    """Once only one way: what P does not reach counted as if Q did not either."""
    pair = DiscreteGaussian(noise_multiplier=sigma).pair(shift)
    for epsilon in (0.0, 1.0, 50.0):
        assert pair.swapped.delta(epsilon) == pytest.approx(pair.delta(epsilon), rel=1e-9)
        assert pair.delta(epsilon) > 0.9


NOTHING = Loss()


def one_draw(rate, *, near, near_swapped):
    """(K*) of one level."""
    return StepBound(inclusion=rate, shift=1, missed=(MissedBatch(1 - rate, near, near_swapped),))


def mixture(law, *, both_ways=False):
    return CountPair(law=tuple(law.items()), shift=2 if both_ways else 1, both_ways=both_ways)


def test_hidden_losses_keep_what_only_one_side_has():
    told = ApproximateDp(epsilon=0.5, delta=0.1).pair()
    rate = Fraction(1, 5)
    for bound in (one_draw(rate, near=1, near_swapped=0), mixture({0: 1 - rate, 1: rate})):
        pair = step_pair(bound, lambda changes: told if changes else NOTHING)
        assert pair.infinity_mass == pytest.approx(0.02)
        for epsilon in (0.0, 0.05, 0.2):
            inner = math.log1p(math.expm1(epsilon) / 0.2)
            assert pair.delta(epsilon) == pytest.approx(0.2 * told.delta(inner), rel=1e-12)
        assert pair.swapped.infinity_mass == pytest.approx(0.0, abs=1e-15)
        assert pair.swapped.delta(-math.log1p(-0.2)) == pytest.approx(0.0, abs=1e-15)


def test_a_chain_of_pairs():
    """Shifts add up; (epsilon, delta) becomes (k epsilon, delta (1 + ... + e^((k - 1) epsilon)))."""
    for epsilon in EPSILONS:
        found = chain_of([Laplace(noise_multiplier=4.0).pair(1)] * 4).delta(epsilon)
        assert found == pytest.approx(Laplace(noise_multiplier=1.0).pair(1).delta(epsilon), rel=1e-6, abs=1e-12)
    found = chain_of([ApproximateDp(epsilon=0.5, delta=1e-3).pair()] * 3)
    assert found.delta(1.5) == pytest.approx(1e-3 * (1 + math.exp(0.5) + math.exp(1.0)), rel=1e-9)
    assert chain_of([]).delta(0.0) == 0


HIDDEN, STAND_IN = mixture({0: Fraction(9, 10), 1: Fraction(1, 10)}), one_draw(Fraction(9, 10), near=1, near_swapped=1)
SEVERAL = mixture({0: Fraction(1, 2), 1: Fraction(3, 8), 2: Fraction(1, 8)})
TOLD = Average(parts=((Fraction(1, 2), HIDDEN), (Fraction(1, 4), SEVERAL)))


@pytest.mark.parametrize("bound", [HIDDEN, SEVERAL, replace(SEVERAL, shift=2, both_ways=True), STAND_IN, TOLD])
@pytest.mark.parametrize("mechanism", [Laplace(noise_multiplier=2.0), DiscreteLaplace(noise_multiplier=2.0)], ids=repr)
def test_round_off_is_no_loss_that_tells_all(bound, mechanism):
    pair = step_pair(bound, lambda changes: mechanism.pair(changes) if changes else NOTHING)
    largest = 4 / mechanism.noise_multiplier  # of as many changes; no draw tells more
    for one in (pair, pair.swapped, pair.swapped.swapped, chain_of([pair] * 2).swapped):
        assert one.infinity_mass == 0
        assert one.delta(2 * largest + 1e-9) == 0
    for delta in (1e-12, 1e-18, 1e-30):
        for one in (pair, pair.swapped):
            assert epsilon_bounds({one: 100}, delta=delta, sides=(UPPER,))[0] <= 100 * largest


def test_what_tells_all_does_so_both_ways():
    pair = ApproximateDp(epsilon=0.5, delta=1e-4).pair()
    assert pair.swapped.infinity_mass == pair.infinity_mass == 1e-4
    assert delta_bounds({pair.swapped: 2}, epsilon=9.0, sides=(UPPER,))[0] == pytest.approx(2e-4 - 1e-8, rel=1e-9)
    assert ApproximateDp(epsilon=0.0, delta=0.25).pair().delta(0.0) == 0.25
    for links in (1, 2, 3):
        delta = 1e-4 * math.expm1(0.5 * links) / math.expm1(0.5)  # of a group
        ahead = chain_of([pair] * links)
        assert ahead.infinity_mass == pytest.approx(delta, rel=1e-6)
        assert ahead.swapped.infinity_mass == pytest.approx(delta, rel=1e-6)


def test_answers_that_no_float_holds_are_told_apart_by_the_others():
    pair = RandomizedResponse(truth_probability=1 - 1e-9, categories=2).pair(60)
    assert pair.swapped.delta(100.0) == pytest.approx(1.0, rel=1e-6)
    assert pair.delta(100.0) == pytest.approx(1.0, rel=1e-6)
