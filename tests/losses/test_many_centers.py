"""Mixtures of many components are read in pieces, and given up where one answer would take too long."""

import math
import tracemalloc
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.errors import ConvergenceError, TooLargeError
from dpcalc.losses.pair import MixturePair
from dpcalc.losses.quadrature import loss_moments


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
    with pytest.raises(TooLargeError, match="densities"):
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
