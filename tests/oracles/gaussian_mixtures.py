"""The hockey-stick divergence between two mixtures of equal-variance Gaussians, by integration over its exact regions.

H_{e^eps}(P || Q) = sup_E P(E) - e^eps Q(E) is the integral of P - e^eps Q over {log P/Q > eps}. The log-likelihood
ratio is evaluated on a grid finer than its shortest transition, its turning points and its crossings of eps are
refined, and the mass of every component between two crossings is a difference of normal distribution functions in the
tail that does not cancel. A wrong region could only make the result smaller: every region is a legitimate test.
"""

import itertools
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
from scipy.special import ndtr

TAIL = 11.0  # standard deviations beyond the outermost mean; the mass further out is below 1e-27


@dataclass(frozen=True)
class Mixture:
    """sum_i weights[i] N(means[i], sigma^2 I); means of shape (k,) on the line, (k, 2) in the plane."""

    weights: np.ndarray
    means: np.ndarray

    @staticmethod
    def on_line(weights, means):
        """Merge equal means, which lattice-valued contributions produce in plenty."""
        positions, where = np.unique(np.asarray(means, dtype=float), return_inverse=True)
        merged = np.zeros(positions.size, dtype=np.longdouble)  # hundreds of weights: plain sums would lose 1e-14
        np.add.at(merged, where.ravel(), np.asarray(weights, dtype=np.longdouble))
        return Mixture(merged[merged > 0].astype(float), positions[merged > 0])


def log_density(mixture, sigma, points):
    """Log density on the line up to the common constant -log(sigma sqrt(2 pi))."""
    exponents = np.log(mixture.weights) - (points[:, None] - mixture.means) ** 2 / (2 * sigma**2)
    top = exponents.max(axis=1)
    return top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))


def hockey_stick(p, q, sigma, epsilons):
    """H_{e^eps}(p || q) on the line for every epsilon, of either sign. Weights need not sum to one."""
    epsilons = np.asarray(epsilons, dtype=float)

    def ratio(points):
        return log_density(p, sigma, points) - log_density(q, sigma, points)

    grid = _grid(p, q, sigma)
    values = ratio(grid)
    grid, values = _with_turning_points(ratio, grid, values, epsilons)
    found = []
    for eps in epsilons:
        low, high = _intervals_above(ratio, grid, values, eps)
        gain = (p.weights * mass_between(p.means, sigma, low, high)).sum()
        found.append(gain - np.exp(eps) * (q.weights * mass_between(q.means, sigma, low, high)).sum())
    return np.maximum(found, 0.0)


def _grid(p, q, sigma, tail=TAIL):
    lowest = min(p.means.min(), q.means.min())
    highest = max(p.means.max(), q.means.max())
    # exp(spread y / sigma^2) is the steepest factor in any ratio of two components
    step = min(sigma / 12, sigma**2 / (5 * max(highest - lowest, 1e-9)))
    start, stop = lowest - tail * sigma, highest + tail * sigma
    return np.linspace(start, stop, int(np.ceil((stop - start) / step)) + 1)


def _with_turning_points(ratio, grid, values, epsilons):
    """Insert the local extrema that a grid could jump over on either side of some epsilon."""
    rise = np.diff(values)
    turning = np.flatnonzero((rise[:-1] * rise[1:]) < 0) + 1
    reach = np.maximum(np.abs(rise[turning - 1]), np.abs(rise[turning]))
    near = np.abs(values[turning][:, None] - epsilons).min(axis=1) <= reach
    turning = turning[near & (reach > 1e-13)]
    if turning.size == 0:
        return grid, values
    low, high = grid[turning - 1], grid[turning + 1]
    sign = np.where(rise[turning] > 0, -1.0, 1.0)  # +1 at a local maximum
    fractions = np.linspace(0, 1, 21)
    for _ in range(5):
        points = low[:, None] + (high - low)[:, None] * fractions
        heights = sign[:, None] * ratio(points.ravel()).reshape(points.shape)
        best = heights.argmax(axis=1)
        rows = np.arange(turning.size)
        low, high = points[rows, np.maximum(best - 1, 0)], points[rows, np.minimum(best + 1, 20)]
    extra = (low + high) / 2
    order = np.argsort(np.concatenate([grid, extra]), kind="stable")
    return np.concatenate([grid, extra])[order], np.concatenate([values, ratio(extra)])[order]


def crossings(ratio, grid, values, epsilon):
    """Points where the log-likelihood ratio passes epsilon; an error x here costs only O(x^2) in the integral."""
    above = values > epsilon
    at = np.flatnonzero(above[:-1] != above[1:])
    low, high, low_above = grid[at], grid[at + 1], above[at]
    for _ in range(30 if at.size else 0):
        middle = (low + high) / 2
        same = (ratio(middle) > epsilon) == low_above
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return (low + high) / 2, above[0]


def _intervals_above(ratio, grid, values, epsilon):
    roots, starts_above = crossings(ratio, grid, values, epsilon)
    edges = np.concatenate([[-np.inf], roots, [np.inf]])
    first = 0 if starts_above else 1
    return edges[:-1][first::2], edges[1:][first::2]


def mass_between(means, sigma, low, high):
    """N(mean, sigma^2)((low, high)) per interval (rows) and mean (columns), without cancellation in either tail."""
    left, right = (low[:, None] - means) / sigma, (high[:, None] - means) / sigma
    flip = left > 0  # both ends in the right tail: mirror them
    left, right = np.where(flip, -right, left), np.where(flip, -left, right)
    return ndtr(right) - ndtr(left)


def hockey_stick_in_plane(p, q, sigma, epsilons, nodes_per_sigma=4):
    """H_{e^eps} in two dimensions: exact along the second axis, trapezoid (spectrally accurate) along the first."""
    first = np.concatenate([p.means[:, 0], q.means[:, 0]])
    start, stop = first.min() - 7.5 * sigma, first.max() + 7.5 * sigma
    points = np.linspace(start, stop, int((stop - start) / sigma * nodes_per_sigma) + 1)
    total = np.zeros(len(epsilons))
    for x in points:
        slices = []
        for mixture in (p, q):
            log_weights = np.log(mixture.weights) - (x - mixture.means[:, 0]) ** 2 / (2 * sigma**2)
            slices.append(Mixture(np.exp(log_weights) / (sigma * np.sqrt(2 * np.pi)), mixture.means[:, 1]))
        total += hockey_stick(*slices, sigma, epsilons)
    return total * (points[1] - points[0])


def hockey_stick_mpmath(p, q, sigma, epsilon, digits=50):
    """One value on the line at many digits: bisected crossings from the float grid, masses by mpmath.

    Weights may be Fractions and means integers; they are taken exactly.
    """
    floats = [Mixture.on_line([float(w) for w in m.weights], [float(c) for c in m.means]) for m in (p, q)]

    def ratio(points):
        return log_density(floats[0], sigma, points) - log_density(floats[1], sigma, points)

    grid = _grid(*floats, sigma, tail=60)  # where a crossing may leave less than any float64 sum can see
    grid, values = _with_turning_points(ratio, grid, ratio(grid), np.array([float(epsilon)]))
    roots, starts_above = crossings(ratio, grid, values, float(epsilon))
    with mpmath.workdps(digits):
        growth = mpmath.exp(mpmath.mpf(epsilon))
        terms = [(_exact(w), _exact(c)) for w, c in zip(p.weights, p.means, strict=True)]
        terms += [(-growth * _exact(w), _exact(c)) for w, c in zip(q.weights, q.means, strict=True)]
        refined = [_bisected(terms, sigma, mpmath.mpf(root)) for root in roots]
        edges = [-mpmath.inf, *refined, mpmath.inf]
        total = mpmath.mpf(0)
        for low, high in list(itertools.pairwise(edges))[0 if starts_above else 1 :: 2]:
            total += sum(w * _mass_mpmath(c, sigma, low, high) for w, c in terms)
        return total


def _mass_mpmath(mean, sigma, low, high):
    """The larger distribution function would lose the mass of a far right tail: mirror it."""
    if low > mean:
        low, high = 2 * mean - high, 2 * mean - low
    return mpmath.ncdf(high, mean, sigma) - mpmath.ncdf(low, mean, sigma)


def _exact(number):
    if isinstance(number, int | Fraction):
        return mpmath.mpf(number.numerator) / number.denominator
    return mpmath.mpf(float(number))


def _bisected(terms, sigma, root):
    variance = mpmath.mpf(sigma) ** 2

    def difference(y):
        # relative to a component at the root, so that no tail underflows
        return sum(w * mpmath.exp((c * (2 * y - c) - root * (2 * y - root)) / (2 * variance)) for w, c in terms)

    low, high = root - mpmath.mpf("1e-6"), root + mpmath.mpf("1e-6")
    if difference(low) * difference(high) >= 0:
        return root  # a touching point: the integrand vanishes there to second order
    return mpmath.findroot(difference, (low, high), solver="anderson", tol=mpmath.mpf(10) ** (-2 * mpmath.mp.dps // 3))
