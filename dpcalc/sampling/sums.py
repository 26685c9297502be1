"""Upper bounds, in stochastic order, on sums of many independent counts, and distributions of fewer counts.

Exact fractions of such sums have thousands of digits. All terms are positive, so that floats lose almost nothing: each
of the few roundings errs by 2^-53, relative, and a margin on all tails covers their sum.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dpcalc.arrays import Array
from dpcalc.numerics.special import normal_cdf
from dpcalc.sampling.counts import CountDistribution
from dpcalc.work import TURN, spend

_MARGIN = 1e-7  # relative margin on every tail: a sum of 1e9 counts errs by less, and epsilon hardly moves
_MAX_WIDTH = 8192  # counts of a distribution; wider ones are rounded up to a coarser grid
_RARE_ABOVE = 1e-60  # mass of the largest counts that is moved to the largest of all
_RARE_BELOW = 1e-20  # mass of the smallest counts that is moved up to the next one
WHOLE = 1 << 256  # of a probability in whole numbers
_PRODUCTS_OF_A_UNIT = 2.0  # terms of a convolution by numpy in a nanosecond


def independent_sum(each: CountDistribution, number: int, *, rate: Fraction) -> CountDistribution:
    """Return an upper bound (stochastic order, in floats) on the sum of `number` counts that enter with `rate`.

    Args:
        each: distribution of a count that enters.
        number: how many may enter, >= 0.
        rate: probability, in [0, 1], with which each of them enters, independently of the others.

    Returns:
        At most about 8192 counts; their tails are at least the true ones, and larger by 1e-7, relative.
    """
    largest = number * max(each)
    if not largest or not rate:
        return {0: Fraction(1)}
    step = _grid(each, number, float(rate))
    term = np.zeros(-(-max(each) // step) + 1)
    for count, chance in each.items():
        term[-(-count // step)] += float(rate * chance)
    term[0] += float(1 - rate)
    total, rare = np.ones(1), 0.0
    start = term_start = 0
    term_rare, left = 0.0, number
    while left:
        left, odd = divmod(left, 2)
        if odd:
            total, start, rare = _trimmed(_convolve(total, term), start + term_start, rare + term_rare)
        if left:
            term, term_start, term_rare = _trimmed(_convolve(term, term), 2 * term_start, 2 * term_rare)
    law: CountDistribution = {}
    for index in range(total.size - 1, -1, -1):
        mass = Fraction(float(total[index]) * (1 + _MARGIN))
        count = min(step * (start + index), largest)
        law[count] = law.get(count, Fraction(0)) + mass
    law[largest] = law.get(largest, Fraction(0)) + Fraction(rare * (1 + _MARGIN) + _RARE_ABOVE)
    # The margin is taken from the smallest counts, so that no tail falls.
    excess = sum(law.values(), start=Fraction(0)) - 1
    for count in sorted(law):
        taken = min(excess, law[count])
        law[count], excess = law[count] - taken, excess - taken
        if not excess:
            break
    law[min(law)] -= excess  # below 0 where float masses sum to less than 1: the smallest count takes the rest
    return {count: chance for count, chance in sorted(law.items()) if chance}


def _grid(each: CountDistribution, number: int, rate: float) -> int:
    """Return the width of the grid to which counts are rounded up, so that a sum has about 8192 of them at most."""
    masses = {count: rate * float(chance) for count, chance in each.items()}
    mean = sum(count * mass for count, mass in masses.items())
    square = sum(count * count * mass for count, mass in masses.items())
    width = 26 * math.sqrt(number * max(square - mean * mean, 0.0)) + max(each)
    return max(1, math.ceil(min(width, number * max(each)) / _MAX_WIDTH))


def _convolve(a: Array, b: Array) -> Array:
    """Return the law of the sum of two counts, given as arrays of masses; WorkExceededError passes."""
    spend(a.size * b.size / _PRODUCTS_OF_A_UNIT + TURN)
    return np.convolve(a, b)


def _trimmed(law: Array, start: int, rare: float) -> tuple[Array, int, float]:
    """Return (law without its rare ends, its first count, mass that was cut off above); rare counts below move up."""
    above = np.cumsum(law[::-1])
    end = law.size - int(np.searchsorted(above, _RARE_ABOVE))
    below = np.cumsum(law)
    first = min(int(np.searchsorted(below, _RARE_BELOW)), end - 1)
    if end < law.size:
        rare += float(above[law.size - end - 1])
    kept = law[first:end].copy()
    kept[0] += float(below[first - 1]) if first else 0.0
    return kept, start + first, rare


# Few counts in the place of many


def quantile_counts(weights: Mapping[int, int | Fraction], deviations: Sequence[float]) -> list[int]:
    """Return the counts of a distribution at the quantiles of a normal variable, and the largest count; ascending.

    Args:
        weights: by count, >= 0, not all 0; they need not sum to 1.
        deviations: quantile numbers: at z the smallest count that is exceeded with probability at most Phi(-z).
    """
    total, counts = sum(weights.values()), sorted(weights)
    tails, above = [], 0.0  # probability of larger counts, from the largest count downwards
    for count in reversed(counts):
        tails.append(above)
        above += float(weights[count] / total)
    return sorted({counts[-1], *(counts[-bisect_right(tails, normal_cdf(-z))] for z in deviations)})


def coarsen_at_quantiles(law: CountDistribution, deviations: Sequence[float]) -> CountDistribution:
    """Return an upper bound (stochastic order) with the counts of `quantile_counts`; others move up to the next.

    Args:
        law: the distribution.
        deviations: quantile numbers, as for `quantile_counts`.
    """
    whole = whole_weights(law)
    ends = quantile_counts(whole, deviations)
    result: dict[int, int] = {}
    for count, weight in whole.items():
        end = ends[bisect_left(ends, count)]
        result[end] = result.get(end, 0) + weight
    return {count: Fraction(result[count], WHOLE) for count in sorted(result) if result[count]}


def whole_weights(law: CountDistribution) -> dict[int, int]:
    """Return the weights as whole numbers of which `WHOLE` make 1, rounded down; the largest count takes the rest."""
    whole = {count: chance.numerator * WHOLE // chance.denominator for count, chance in law.items()}
    whole[max(law)] += WHOLE - sum(whole.values())
    return whole
