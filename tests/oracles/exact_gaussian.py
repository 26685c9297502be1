"""The Gaussian mechanism exactly (Balle, Wang 2018): T steps of deviation sigma are one with mu = sqrt(T) / sigma."""

import mpmath

DIGITS = 50


def exact_delta(mu, epsilon):
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu); the caller sets the precision."""
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def exact_epsilon(steps, sigma, delta):
    """The smallest epsilon >= 0 of `steps` releases of shift 1, to 40 digits; the floats are taken exactly."""
    with mpmath.workdps(DIGITS):
        mu, delta = mpmath.sqrt(steps) / mpmath.mpf(sigma), mpmath.mpf(delta)
        if exact_delta(mu, mpmath.mpf(0)) <= delta:
            return mpmath.mpf(0)
        low, high = mpmath.mpf(0), mpmath.mpf(1)
        while exact_delta(mu, high) > delta:
            low, high = high, 2 * high
        for _ in range(140):
            middle = (low + high) / 2
            low, high = (middle, high) if exact_delta(mu, middle) > delta else (low, middle)
        return high
