"""The central limit approximation by Gaussian differential privacy: instructive, proves nothing."""

import math
from collections.abc import Iterable
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from dpcalc.accountants.closed_form import gaussian_log_delta
from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.curves.privacy_profile import GluedProfile
from dpcalc.numerics.roots import bracket_root


def central_limit_mu(steps: Iterable[tuple[Fraction, float, int]]) -> float:
    """The mu of the Gaussian that many subsampled Gaussian steps approach, mu^2 summed over the phases.

    Args:
        steps: (rate, noise multiplier, how often) of Poisson-sampled Gaussian steps of sensitivity 1.

    Returns:
        sqrt(sum T q^2 (e^(1/sigma^2) - 1)), an approximation for small q and large T; without sampling
        sqrt(sum T / sigma^2), which is exact; `inf` where the exponential overflows.

    References:
        Bu, Dong, Long, Su 2020 (1911.11607v3), section 3 (Poisson, add-remove); Dong, Roth, Su 2022 (1905.02383v3),
        Corollary 3.3 (composition of Gaussians) and Theorem 3.4 (the limit).

    Example:
        >>> round(central_limit_mu([(Fraction(1, 100), 1.0, 1000)]), 4)
        0.4145
    """
    squares = 0.0
    for rate, noise_multiplier, count in steps:
        exponent = noise_multiplier**-2
        if rate == 1:
            squares += count * exponent
        elif exponent > 700:
            return math.inf
        else:
            squares += count * float(rate) ** 2 * math.expm1(exponent)
    return math.sqrt(squares)


def gaussian_epsilon(mu: float, *, delta: float) -> float:
    """Epsilon of one Gaussian release of sensitivity `mu` and noise 1.

    Args:
        mu: > 0.
        delta: in (0, 1).

    Returns:
        The epsilon >= 0 with Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) = delta, 0 if there is none,
        rounded up to a relative 1e-12; `inf` for an infinite mu.

    References:
        Balle, Wang 2018 (1805.06530v2), Theorem 8.

    Example:
        >>> round(gaussian_epsilon(1.0, delta=1e-8), 5)
        5.7761
    """
    if math.isinf(mu):
        return math.inf
    here, there = {0: Fraction(1)}, {1: Fraction(1)}
    pair = MixturePair.of(here, there, deviation=1 / mu)
    back = MixturePair.of(here, there, deviation=1 / mu)
    return GluedProfile(own=pair, other=back, shift=1.0).epsilon(delta)


def mu_of(epsilon: float, *, delta: float) -> float:
    """The sensitivity of the Gaussian release of noise 1 that has a delta at an epsilon.

    Args:
        epsilon: >= 0.
        delta: in [0, 1].

    Returns:
        mu, rounded up to a relative 1e-9; 0 for delta 0, `inf` for delta 1.

    References:
        Balle, Wang 2018 (1805.06530v2), Theorem 8.

    Example:
        >>> round(mu_of(5.7761, delta=1e-8), 5)
        1.0
    """
    if delta <= 0 or delta >= 1:
        return 0.0 if delta <= 0 else math.inf

    def excess(mu: float) -> float:
        return gaussian_log_delta(mu, epsilon)[0] - math.log(delta)

    high = 1.0
    while excess(high) < 0:
        high *= 2
        if high > 1e6:
            return math.inf
    return bracket_root(excess, 1e-12, high, tolerance=1e-9)[1]


def gaussian_detected(mu: float, rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """True positive rates of the best test of N(mu, 1) against N(0, 1), at false positive rates in (0, 1)."""
    normal = NormalDist()
    if math.isinf(mu):
        return np.ones(rates.shape)
    return np.array([normal.cdf(normal.inv_cdf(float(rate)) + mu) for rate in rates])
