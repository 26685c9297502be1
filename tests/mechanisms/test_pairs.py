"""The pairs of mechanisms against closed forms, 50 digits and enumeration."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from dpcalc.adjacency import Adjacency
from dpcalc.curves.atoms import of_profile
from dpcalc.curves.loss_moments import loss_moments
from dpcalc.curves.privacy_profile import GluedProfile
from dpcalc.errors import InputError
from dpcalc.mechanisms.approximate_dp import ApproximateDp, approximate_dp_rdp
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.laplace import Laplace, laplace_pair, laplace_rdp
from dpcalc.mechanisms.randomized_response import RandomizedResponse
from dpcalc.mechanisms.zcdp import Exponential, Zcdp
from dpcalc.release.black_box import BatchPairs, drawn, hidden
from dpcalc.release.bounds import StepBound
from dpcalc.release.step import glued_profile

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
    assert laplace_rdp(pure, order) == pytest.approx(exact, rel=1e-12)
    assert exact * (1 - 1e-12) <= renyi(laplace_pair(pure), order) <= exact * (1 + 1e-5)
    assert laplace_rdp(pure, math.inf) == pure
    assert Laplace(noise_multiplier=2.0).pair(1) == laplace_pair(0.5)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_pure_dp(epsilon, order):
    assert renyi(ApproximateDp(epsilon=epsilon).pair(), order) == pytest.approx(
        approximate_dp_rdp(epsilon, order), rel=1e-9
    )
    assert approximate_dp_rdp(epsilon, math.inf) == epsilon


@pytest.mark.parametrize("order", ORDERS)
def test_randomized_response_of_two(order):
    """Mironov 2017 (1702.07476v3), Proposition 5, as in the slides: by the probability of the truth."""
    p = 0.8
    pair = RandomizedResponse(truth_probability=p).pair()
    exact = math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (order - 1)
    assert renyi(pair, order) == pytest.approx(exact, rel=1e-12)
    assert approximate_dp_rdp(math.log(p / (1 - p)), order) == pytest.approx(exact, rel=1e-12)


def test_randomized_response_of_many():
    """Four answers of two records that differ, category by category."""
    pair = RandomizedResponse(truth_probability=0.4, categories=4).pair()
    here, there = [0.4, 0.2, 0.2, 0.2], [0.2, 0.4, 0.2, 0.2]
    for epsilon in EPSILONS:
        exact = sum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(here, there, strict=True))
        assert pair.delta(epsilon) == pytest.approx(exact, abs=1e-15)
    assert RandomizedResponse(truth_probability=0.25, categories=4).pair().delta(0.0) == 0


@pytest.mark.parametrize(("sigma", "shift"), [(0.7, 1), (3.0, 2), (40.0, 5)])
def test_the_discrete_gaussian(sigma, shift):
    pair = DiscreteGaussian(noise_multiplier=sigma).pair(shift)
    x = np.arange(-math.ceil(30 * sigma), math.ceil(30 * sigma) + 1)
    p, q = (np.exp(-((x - c) ** 2) / (2 * sigma**2)) for c in (0, shift))
    p, q = p / p.sum(), q / q.sum()
    for epsilon in EPSILONS:
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert exact - 1e-13 <= pair.delta(epsilon) <= exact * (1 + 1e-15 * len(pair.losses)) + 1e-13
    assert renyi(pair, 2.0) == pytest.approx(math.log((p**2 / q).sum()), rel=1e-9)


@pytest.mark.parametrize(("sigma", "shift"), [(1000.0, 2), (2500.0, 1), (9999.5, 3)])
def test_a_wide_discrete_gaussian_on_fewer_losses(sigma, shift):
    """From above, both ways, by little, down to the smallest delta."""
    pair = DiscreteGaussian(noise_multiplier=sigma).pair(shift)
    assert len(pair.losses) <= 16_001
    x = np.arange(-math.ceil(30 * sigma), math.ceil(30 * sigma) + 1)
    p, q = (np.exp(-(((x - c) / sigma) ** 2) / 2) for c in (0, shift))
    p, q = p / p.sum(), q / q.sum()
    for deviations in (-4.0, -1.0, 0.0, 0.5, 2.0, 5.0, 8.0):
        epsilon = deviations * shift / sigma
        terms = p - math.exp(epsilon) * q
        exact = math.fsum(terms[terms > 0].tolist())
        for found in (pair.delta(epsilon), pair.swapped.delta(epsilon)):
            assert exact * (1 - 1e-9) <= found <= exact * (1 + 3e-4)


@pytest.mark.parametrize(("scale", "shift"), [(0.5, 1), (3.0, 1), (3.0, 4)])
def test_the_discrete_laplace(scale, shift):
    pair = DiscreteLaplace(noise_multiplier=scale).pair(shift)
    x = np.arange(-math.ceil(60 * scale), math.ceil(60 * scale) + shift + 1)
    p, q = (np.exp(-np.abs(x - c) / scale) for c in (0, shift))
    p, q = p / p.sum(), q / q.sum()
    for epsilon in EPSILONS:
        assert pair.delta(epsilon) == pytest.approx(np.maximum(p - math.exp(epsilon) * q, 0).sum(), abs=1e-13)
        assert pair.swapped.delta(epsilon) == pytest.approx(pair.delta(epsilon), abs=1e-13)


def test_curves_of_divergences():
    assert Zcdp(rho=0.5).rdp(3.0) == 1.5
    assert Zcdp(rho=0.5, omega=3).rdp(3.0) == math.inf
    assert Exponential(epsilon=2.0).rdp(1.5) == pytest.approx(0.75)
    assert Exponential(epsilon=2.0).rdp(100.0) == 2.0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Laplace(noise_multiplier=0.0),
        lambda: Laplace(noise_multiplier=1.0, max_grad_norm=math.inf),
        lambda: ApproximateDp(epsilon=-1.0),
        lambda: ApproximateDp(epsilon=1.0, delta=1.0),
        lambda: RandomizedResponse(truth_probability=1.0),
        lambda: RandomizedResponse(truth_probability=0.2, categories=3),
        lambda: RandomizedResponse(truth_probability=0.9, categories=1),
        lambda: DiscreteGaussian(noise_multiplier=math.nan),
        lambda: DiscreteGaussian(noise_multiplier=1e6),
        lambda: DiscreteLaplace(noise_multiplier=-1.0),
        lambda: Zcdp(rho=math.inf),
        lambda: Zcdp(rho=1.0, omega=1.0),
        lambda: Exponential(epsilon=0.0),
    ],
)
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(InputError, match="expected"):
        wrong()


def answers(data, scheme, truth):
    """Law of what a step prints of some bits: the sorted randomized responses of those drawn."""
    batches = [(i,) for i in range(len(data))] if scheme == "one" else None
    law = {}
    for drawn_bits in product((0, 1), repeat=len(data)) if batches is None else batches:
        held = [data[i] for i in drawn_bits] if batches else [x for x, d in zip(data, drawn_bits, strict=True) if d]
        chance = 1 / len(batches) if batches else 0.3 ** sum(drawn_bits) * 0.7 ** (len(data) - sum(drawn_bits))
        for told in product((0, 1), repeat=len(held)):
            p = chance * math.prod(truth if a == b else 1 - truth for a, b in zip(held, told, strict=True))
            law[tuple(sorted(told))] = law.get(tuple(sorted(told)), 0.0) + p
    return law


@pytest.mark.parametrize(("scheme", "rate"), [("one", 1 / 3), ("poisson", 0.3)])
def test_sampled_responses_cost_no_more_than_the_bound(scheme, rate):
    """Every pair of data sets of three bits that differ in one of them, every draw."""
    truth = 0.8
    pair = RandomizedResponse(truth_probability=truth).pair()
    told_all = ApproximateDp(epsilon=0.0, delta=1.0 - 1e-16).pair()  # how many answers there are tells who is missing
    pairs = BatchPairs(removed=told_all, replaced=pair, zeroed=pair)
    bounds = drawn(pairs, rate, stand_in=scheme == "one", adjacency=Adjacency.REPLACE_ONE)
    largest = 0.0
    for rest in product((0, 1), repeat=2):
        p, q = (answers((bit, *rest), scheme, truth) for bit in (1, 0))
        for epsilon in (0.0, 0.1, 0.3, 1.0):
            for one, other, bound in ((p, q, bounds[0]), (q, p, bounds[1])):
                exact = sum(max(0.0, one.get(k, 0.0) - math.exp(epsilon) * other.get(k, 0.0)) for k in {*one, *other})
                assert exact <= bound.delta(epsilon) + 1e-12
                largest = max(largest, exact / max(bound.delta(epsilon), 1e-300)) if scheme == "one" else 1.0
    assert largest == pytest.approx(1.0, rel=0.5)


def gaussian(shift, sigma):
    """A Gaussian pair as atoms, by its profile."""
    bound = StepBound(inclusion=Fraction(1), shift=shift, missed=(), distances=(), distances_swapped=())
    profile = glued_profile(bound, noise_multiplier=sigma)
    far = 9 * shift / sigma
    assert isinstance(profile, GluedProfile)
    return of_profile(profile.delta, np.linspace(-far, far, 4001), profile.delta(far))


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("stand_in", [True, False])
def test_a_gaussian_as_a_black_box_is_above_its_own_bound_and_often_equal(stand_in, adjacency):
    """(K) for one level against the same from profiles alone: equal where all distances are one."""
    sigma = 2.0
    pairs = BatchPairs(removed=gaussian(1, sigma), replaced=gaussian(2, sigma), zeroed=gaussian(1, sigma))
    shift, near, near_swapped = {
        (Adjacency.ADD_REMOVE, True): (2, 2, 0),
        (Adjacency.ADD_REMOVE, False): (1, 1, 0),
        (Adjacency.ZERO_OUT, True): (1, 2, 1),
        (Adjacency.ZERO_OUT, False): (1, 1, 0),
        (Adjacency.REPLACE_ONE, True): (2, 2, 2),
        (Adjacency.REPLACE_ONE, False): (2, 1, 1),
    }[adjacency, stand_in]
    bound = StepBound(
        inclusion=Fraction(1, 10),
        shift=shift,
        missed=(Fraction(9, 10),),
        distances=(near,),
        distances_swapped=(near_swapped,),
    )
    own = glued_profile(bound, noise_multiplier=sigma)
    found = drawn(pairs, 0.1, stand_in=stand_in, adjacency=adjacency)
    for epsilon in (0.0, 0.01, 0.1, 0.5, 1.0):
        for exact, box in ((own, found[0]), (own.swapped, found[1])):
            assert exact.delta(epsilon) <= box.delta(epsilon) * (1 + 1e-9) + 1e-15
            if near_swapped == 0:
                assert box.delta(epsilon) <= exact.delta(epsilon) * (1 + 1e-3) + 1e-9


def test_a_rate_of_one_is_no_draw():
    pair = laplace_pair(1.0)
    pairs = BatchPairs(removed=pair, replaced=laplace_pair(2.0), zeroed=pair)
    assert drawn(pairs, 1.0, stand_in=False, adjacency=Adjacency.ADD_REMOVE) == (pair, pair.swapped)
    for epsilon in EPSILONS:
        assert hidden(pair, 1 - 1e-12).delta(epsilon) == pytest.approx(pair.delta(epsilon), abs=1e-11)


def test_hidden_losses_keep_what_only_one_side_has():
    told = ApproximateDp(epsilon=0.5, delta=0.1).pair()
    pair = hidden(told, 0.2)
    assert pair.infinite == pytest.approx(0.02)
    for epsilon in (0.0, 0.05, 0.2):
        inner = math.log1p(math.expm1(epsilon) / 0.2)
        assert pair.delta(epsilon) == pytest.approx(0.2 * told.delta(inner), rel=1e-12)
    assert pair.swapped.infinite == 0
    assert pair.swapped.delta(-math.log1p(-0.2)) == pytest.approx(0.0, abs=1e-15)
