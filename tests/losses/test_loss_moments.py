"""Moments of losses with very many quadrature nodes, and of mixtures of many components or of such far apart."""

import math
import tracemalloc
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import epsilon_bounds
from dpcalc.accountants.rdp import best_epsilon
from dpcalc.errors import ConvergenceError
from dpcalc.losses import moments
from dpcalc.losses.moments import LossMoments, StackedMoments, composed_moments, loss_moments
from dpcalc.losses.pair import MixturePair
from dpcalc.numerics import gauss_legendre_panels


def test_many_nodes_and_orders_take_little_memory():
    """A Gaussian loss, K(z) = z (z + 1) mu / 2: all orders at once took half a gigabyte."""
    y = np.linspace(-12.0, 12.0, 100_001)
    mu = 0.5
    mass = -y * y / 2 - np.log(2 * np.pi) / 2 + np.log(y[1] - y[0])
    moments = LossMoments(mass, mu / 2 + np.sqrt(mu) * y)
    orders = np.linspace(0.1, 4.0, 50)
    tracemalloc.start()
    values, slopes = moments.cumulants(orders)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert values == pytest.approx(orders * (orders + 1) * mu / 2, rel=1e-10)
    assert slopes == pytest.approx((2 * orders + 1) * mu / 2, rel=1e-10)
    assert peak < 100e6


def test_moments_of_steps_together_are_those_of_each():
    """Losses of all sizes beside one another, against sums of 60 digits."""
    numbers = np.random.default_rng(3)
    steps = [LossMoments(np.zeros(1), np.zeros(1))]
    for size, far in ((3, 1e-9), (40, 1e-3), (200, 0.4), (17, 5.0), (60, 300.0)):
        loss = far * numbers.normal(size=size) * np.geomspace(1e-3, 1, size)
        mass = numbers.dirichlet(np.ones(size))
        mass[0] += 1 - mass.sum()
        steps.append(LossMoments(np.log(mass), loss + math.log(float((mass * np.exp(-loss)).sum()))))
    orders = np.geomspace(1e-3, 1e4, 29)
    values, slopes = StackedMoments(steps).cumulants(orders)
    for step, value, slope in zip(steps, values, slopes, strict=True):
        alone = step.cumulants(orders)
        assert value == pytest.approx(alone[0], rel=1e-13, abs=1e-300)
        assert slope == pytest.approx(alone[1], rel=1e-9, abs=1e-300)
        with mpmath.workdps(60):
            masses = [mpmath.exp(mpmath.mpf(float(x))) for x in step.log_mass]
            losses = [mpmath.mpf(float(x)) for x in step.loss]
            # as the sums have it: nodes whose masses sum to 1 but for round-off, in D and in D'
            missing = sum(m * mpmath.expm1(-x) for m, x in zip(masses, losses, strict=True))
            for z, found in zip(orders.tolist(), value.tolist(), strict=True):
                grown = sum(m * mpmath.expm1(z * x) for m, x in zip(masses, losses, strict=True))
                exact = float(mpmath.log1p(grown + z * missing))
                assert found == pytest.approx(exact, rel=1e-11, abs=4e-16)


def test_steps_share_the_calls_that_make_their_nodes(monkeypatch):
    """1,000 phases called for the nodes of each segment by itself, which took most of the time of every question."""
    calls = []

    def counted(*args, **more):
        calls.append(args)
        return gauss_legendre_panels(*args, **more)

    monkeypatch.setattr(moments, "gauss_legendre_panels", counted)
    pairs = [far_component(Fraction(1, 100 + k), 2.0) for k in range(64)]
    together = composed_moments(dict.fromkeys(pairs, 1), max_order=30.0)
    assert len(calls) <= 64 / 8
    orders = np.array([0.1, 3.0, 30.0])
    alone = sum(loss_moments(pair, max_order=30.0).cumulants(orders)[0] for pair in pairs)
    assert together.cumulants(orders)[0] == pytest.approx(alone, rel=1e-13)


def far_component(rate, sigma, *, distance=1):
    """P = N(0) against Q = (1 - rate) N(0) + rate N(distance): where P is, the loss is -log(1 - rate)."""
    return MixturePair.of({0: Fraction(1)}, {0: 1 - rate, distance: rate}, deviation=sigma)


sigmas = pytest.mark.parametrize("sigma", [0.02, 0.05, 0.07, 0.1])
rates = pytest.mark.parametrize("rate", [Fraction(1, 10**5), Fraction(1, 1000), Fraction(1, 7)])


@sigmas
@rates
@pytest.mark.parametrize("distance", [1, -1, 3])
def test_truncation_keeps_a_component_that_only_q_has(sigma, rate, distance):
    moments = loss_moments(far_component(rate, sigma, distance=distance), max_order=100.0, truncated_mass=1e-12)
    orders = np.array([0.1, 1.0, 30.0])
    missed = math.erfc(abs(distance) / (2 * sigma) / math.sqrt(2))  # P mass on the other side of the middle
    expected = -orders * math.log1p(-rate)
    assert moments.cumulants(orders)[0] == pytest.approx(expected, rel=1e-9, abs=100 * missed)


@sigmas
@rates
def test_upper_bounds_are_above_those_of_one_half_line(sigma, rate):
    """All steps below 1/2: P has at least 1 - n tail there, Q at most ((1 - rate) + rate tail)^n."""
    steps, delta, q = 3000, 1e-6, float(rate)
    tail = math.erfc(1 / (2 * sigma) / math.sqrt(2)) / 2
    below = -steps * math.log1p(-q + q * tail) + math.log(1 - steps * tail - delta)
    counts = {far_component(rate, sigma): steps}
    upper, lower = epsilon_bounds(counts, delta=delta, sides=(UPPER, LOWER))
    assert lower <= upper
    assert upper >= below
    assert lower >= below * (1 - 1e-3)
    assert best_epsilon(counts, delta=delta, truncated_mass=1e-12).value >= below * (1 - 1e-9)
    assert best_epsilon(counts, delta=delta).value >= below


# Mixtures of many components are read in pieces, and given up where one answer would take too long.


def binomial_pair(number, *, deviation):
    """Binomial counts in P, none in Q, as of a draw with replacement."""
    weights = [Fraction(math.comb(number, k), 2**number) for k in range(number + 1)]
    return MixturePair.of(dict(enumerate(weights)), {0: Fraction(1)}, deviation=deviation)


@pytest.mark.heavy
def test_densities_of_many_components_take_little_memory():
    pair = binomial_pair(400, deviation=5.0)
    y = np.linspace(-50.0, 450.0, 200_000)
    tracemalloc.start()
    log_p, loss = pair.log_density_and_loss(y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6  # all at once they would take 640 MB
    for at in (0, 99_999, 100_000, 199_999):
        some = pair.log_density_and_loss(y[at : at + 1])
        assert log_p[at] == pytest.approx(some[0][0], rel=1e-14)
        assert loss[at] == pytest.approx(some[1][0], rel=1e-14)


def test_moments_that_take_too_long_are_given_up():
    with pytest.raises(ConvergenceError, match="densities"):
        loss_moments(binomial_pair(400, deviation=0.5), max_order=10.0)


@mpmath.workdps(40)
@pytest.mark.parametrize("far", [10**2, 10**4, 10**6, 9 * 10**7])
def test_densities_far_from_0_keep_their_digits(far):
    """The squares of a point and of a center would cancel there: their logarithms were off by many orders."""
    centers = {0: Fraction(1, 4), far: Fraction(1, 2), far + 2: Fraction(1, 4)}
    pair = MixturePair.of(centers, {0: Fraction(1, 2), far: Fraction(1, 2)}, deviation=1.0)
    for y in (far - 3.0, far + 0.5, far + 5.0, 2.0):
        log_p, loss = (float(value[0]) for value in pair.log_density_and_loss(np.array([y])))
        p = sum(mpmath.mpf(w.numerator) / w.denominator * mpmath.npdf(mpmath.mpf(y) - c) for c, w in centers.items())
        q = (mpmath.npdf(mpmath.mpf(y)) + mpmath.npdf(mpmath.mpf(y) - far)) / 2
        assert log_p == pytest.approx(float(mpmath.log(p)), abs=1e-6)
        assert loss == pytest.approx(float(mpmath.log(p / q)), abs=1e-6)


def test_centers_too_far_for_floats_are_refused():
    pair = MixturePair.of({10**12: Fraction(1)}, {0: Fraction(1)}, deviation=1.0)
    with pytest.raises(ConvergenceError, match="deviations"):
        pair.log_density_and_loss(np.array([0.0]))
