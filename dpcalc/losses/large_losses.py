"""Sets of the line where the loss of two mixtures exceeds epsilon: any such set gives a lower bound on delta."""

import math

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.losses.pair import MixturePair
from dpcalc.numerics.special import normal_log_cdf

PER_DEVIATION = 4
"""Points in a standard deviation: fewer would miss short intervals, more only take longer."""
_FAR = 40  # deviations from each center that are searched; a normal variable has no mass there that a float holds
_MAX_WORK = 20_000_000  # points times centers: 2 s
_BISECTIONS = 60  # of an interval's end: down to the spacing of floats. An end that is off only loosens the bound
_LARGEST = 1e100  # distance in deviations whose square still is a float


def points_around(pair: MixturePair) -> Array | None:
    """Return rising points, 4 to a standard deviation, within 40 of them from any center; None if too many."""
    # Points are multiples of a fixed width, so that centers which lie close together share them.
    width, centers = pair.deviation / PER_DEVIATION, np.array(pair.centers)
    if not max(pair.span, 1.0) / pair.deviation < _LARGEST:
        return None
    reach = np.arange(-_FAR * PER_DEVIATION, _FAR * PER_DEVIATION + 1.0)
    if min(centers.size * reach.size, pair.span / width + reach.size) * centers.size > _MAX_WORK:
        return None
    return np.unique(np.unique(np.concatenate([reach + place for place in np.rint(centers / width)])) * width)


def set_terms(pair: MixturePair, epsilon: float) -> list[float]:
    """Return summands of P(E) - e^epsilon Q(E), E about {loss > epsilon}: a lower bound on delta; [] if E is empty.

    Each term is good to a few units in the last place of its exponents.

    Args:
        pair: two mixtures.
        epsilon: >= 0.

    Returns:
        Terms of differences of weights, so that what P and Q share costs no digits; [] where there is no such set.
    """
    terms = []
    for low, high in _intervals(pair, epsilon):
        for center, difference, q in zip(pair.centers, pair.differences, pair.weights_q, strict=True):
            for sign, log_mass in _tails((low - center) / pair.deviation, (high - center) / pair.deviation):
                terms += [
                    sign * difference * math.exp(log_mass),
                    sign * q * math.expm1(-epsilon) * math.exp(min(epsilon + log_mass, 700.0)),
                ]
    return terms


def _tails(low: float, high: float) -> list[tuple[int, float]]:
    """Return 1 or 2 (sign, log mass) whose signed sum is the N(0, 1) mass of [low, high], of the nearer tail."""
    if low > 0:
        low, high = -high, -low
    return [(sign, normal_log_cdf(x)) for sign, x in ((1, high), (-1, low)) if x > -math.inf]


def _intervals(pair: MixturePair, epsilon: float) -> list[tuple[float, float]]:
    """Return intervals (low, high) with loss > epsilon, by bisection, uncertified; [] for too many points."""
    points = points_around(pair)
    if points is None:
        return []

    def is_above(y: Array) -> NDArray[np.bool_]:
        result: NDArray[np.bool_] = pair.log_density_and_loss(y)[1] > epsilon
        return result

    # All ends at once. An end that bisection misses only changes the set: any set gives a lower bound.
    above = is_above(points)
    (changes,) = np.nonzero(above[1:] != above[:-1])
    low, high, before = points[changes], points[changes + 1], above[changes]
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        same = is_above(middle) == before
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    ends = [*([-math.inf] if above[0] else []), *low.tolist(), *([math.inf] if above[-1] else [])]
    return list(zip(ends[::2], ends[1::2], strict=True))
