"""Gaussian steps in which the unit is drawn: one step exactly, and many from below by merging outcomes."""

import mpmath
import numpy as np
from scipy.special import ndtr, ndtri


def normal_above(x):
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


class Step:
    """(1 - q) N(0, s^2) + q N(1, s^2) against N(0, s^2): what a Poisson step shows of a unit that is removed."""

    def __init__(self, rate, sigma):
        self.rate, self.sigma = mpmath.mpf(rate), mpmath.mpf(sigma)

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


def merged_delta(rate, sigma, steps, epsilon, *, cells=2000, reach=4):
    """A divergence that is never above the exact one, by about a thousandth where few draws decide.

    Every step is merged into few outcomes: all below a point that few draws exceed is one, the rest are cells of equal
    width in the loss, each rounded down. Sums beyond `reach` epsilon count as `reach` epsilon. Only positive numbers
    are added and multiplied, so that a probability of 1e-60 keeps its digits.
    """

    def above(y):
        q = ndtr(-y / sigma)
        return (1 - rate) * q + rate * ndtr((1 - y) / sigma), q

    def clipped(mass):
        """The masses beyond the last entry moved down to it."""
        return np.append(mass[: size - 1], mass[size - 1 :].sum())

    p, q = above(-sigma * ndtri(1e-4 / steps))
    base, width = float(np.log1p(-p) - np.log1p(-q)), epsilon / cells
    ends = base + np.arange(1, reach * cells + 1) * width
    p_above = np.minimum(above(sigma**2 * np.log1p(np.expm1(ends) / rate) + 0.5)[0], p)
    mass = np.append(p, p_above) - np.append(p_above, 0.0)
    mass[0] += 1 - p
    size, left = mass.size, steps
    composed, power = np.eye(1, size)[0], mass
    while left:
        if left % 2:
            composed = clipped(np.convolve(composed, power))
        power, left = clipped(np.convolve(power, power)), left // 2
    losses = steps * base + np.arange(size) * width
    over = losses > epsilon
    return float((composed[over] * -np.expm1(epsilon - losses[over])).sum())
