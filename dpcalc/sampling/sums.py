"""Distributions of sums over draws: upper bounds for many counts, quick ones for deep levels, few counts for many.

Exact fractions of such sums have thousands of digits. All terms are positive, so that floats lose almost nothing: each
of the few roundings errs by 2^-53, relative, and a margin on all tails covers their sum.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.numerics import Array, normal_cdf
from dpcalc.sampling.counts import (
    CountDistribution,
    move_up,
    power_by_squaring,
)
from dpcalc.sampling.schemes import Scheme
from dpcalc.work import TURN, spend

_MARGIN = 1e-7  # relative margin on every tail: a sum of 1e9 counts errs by less, and epsilon hardly moves
_MAX_WIDTH = 8192  # counts of a distribution; wider ones are rounded up to a coarser grid
_RARE_ABOVE = 1e-60  # mass of the largest counts that is moved to the largest of all
_RARE_BELOW = 1e-20  # mass of the smallest counts that is moved up to the next one
WHOLE = 1 << 256  # of a probability in whole numbers
_PRODUCTS_OF_A_UNIT = 2.0  # terms of a convolution by numpy in a nanosecond


class _Masses(NamedTuple):
    """The law of a count in floats, on a grid."""

    law: Array  # masses of the counts from `start` up, in steps of the grid
    start: int  # first count, in steps of the grid
    rare: float  # mass cut off above, which the caller gives to the largest count that is possible


def independent_sum(each: CountDistribution, number: int, *, rate: Fraction) -> CountDistribution:
    """Return an upper law, in floats on a grid, of the sum of `number` counts that each enter with `rate`."""
    # At most about 8192 counts; their tails are at least the true ones, and larger by 1e-7, relative.
    largest = number * max(each)
    if not largest or not rate:
        return {0: Fraction(1)}
    # Grid points so far apart that the likely range of the sum, 26 deviations, needs at most 8192 of them.
    masses = {count: float(rate) * float(chance) for count, chance in each.items()}
    mean = sum(count * mass for count, mass in masses.items())
    square = sum(count * count * mass for count, mass in masses.items())
    width = 26 * math.sqrt(number * max(square - mean * mean, 0.0)) + max(each)
    step = max(1, math.ceil(min(width, number * max(each)) / _MAX_WIDTH))
    term = np.zeros(-(-max(each) // step) + 1)
    for count, chance in each.items():
        term[-(-count // step)] += float(rate * chance)
    term[0] += float(1 - rate)
    total = power_by_squaring(_Masses(term, 0, 0.0), number, _trimmed_sum, identity=_Masses(np.ones(1), 0, 0.0))
    # Every mass is raised by 1e-7; the largest count takes all above it and what was cut off.
    raised: CountDistribution = {}
    for index in range(total.law.size - 1, -1, -1):
        count = min(step * (total.start + index), largest)
        raised[count] = raised.get(count, Fraction(0)) + Fraction(float(total.law[index]) * (1 + _MARGIN))
    raised[largest] = raised.get(largest, Fraction(0)) + Fraction(total.rare * (1 + _MARGIN) + _RARE_ABOVE)
    # What is too much is taken from the smallest counts, what lacks is added to the smallest. Tails are sums from
    # above: those of the counts that are left as they are do not fall.
    law, excess = dict(sorted(raised.items())), sum(raised.values(), start=Fraction(0)) - 1
    for count, mass in list(law.items()):
        taken = min(excess, mass)
        law[count], excess = mass - taken, excess - taken
        if not excess:
            break
    return {count: chance for count, chance in law.items() if chance}


def _trimmed_sum(a: _Masses, b: _Masses) -> _Masses:
    """Return the law of the sum of two counts; low tails below 1e-20 move up, high ones below 1e-60 go to `rare`."""
    spend(a.law.size * b.law.size / _PRODUCTS_OF_A_UNIT + TURN)
    law, rare = np.convolve(a.law, b.law), a.rare + b.rare
    above = np.cumsum(law[::-1])
    end = law.size - int(np.searchsorted(above, _RARE_ABOVE))
    below = np.cumsum(law)
    first = min(int(np.searchsorted(below, _RARE_BELOW)), end - 1)
    if end < law.size:
        rare += float(above[law.size - end - 1])
    kept = law[first:end].copy()
    kept[0] += float(below[first - 1]) if first else 0.0
    return _Masses(kept, a.start + b.start + first, rare)


# Few counts in the place of many


def quantile_counts(weights: Mapping[int, int | Fraction], deviations: Sequence[float]) -> list[int]:
    """Return, ascending, the quantiles of a law at the normal `deviations`, and its largest count."""
    # Searched from the largest count down, where tails are small and floats keep their digits.
    total, counts = sum(weights.values()), sorted(weights)
    tails, above = [], 0.0  # probability of larger counts, from the largest count downwards
    for count in reversed(counts):
        tails.append(above)
        above += float(weights[count] / total)
    return sorted({counts[-1], *(counts[-bisect_right(tails, normal_cdf(-z))] for z in deviations)})


def coarsen_at_quantiles(law: CountDistribution, deviations: Sequence[float]) -> CountDistribution:
    """Return an upper law, in which each count moves up to the next of the law's `quantile_counts`."""
    whole = whole_weights(law)
    moved = move_up(whole, WHOLE, quantile_counts(whole, deviations))
    return {count: chance for count, chance in moved.items() if chance}


def whole_weights(law: CountDistribution) -> dict[int, int]:
    """Return the probabilities in units of 2^-256 = 1 / WHOLE, rounded down; the largest count takes the remainder."""
    whole = {count: chance.numerator * WHOLE // chance.denominator for count, chance in law.items()}
    whole[max(law)] += WHOLE - sum(whole.values())
    return whole


# The number H of copies of protected units in a batch, quickly, however deep the levels are nested
#
# The copies of a unit are a branching process. With g_j(x) = log E e^{x C_j} of the copies C_j that one copy of the
# level above draws,
#
#     log E e^{x H} = g_1(g_2(... g_p(x) ...)),
#
# x real or complex. On the circle x = 2 pi i k / n this gives Pr[H = h] by one Fourier transform; on the real line it
# gives Chernoff's bound Pr[H >= h] <= e^{K(x) - x h} far out, where the transform has no digits left. Of k members,
# some one has at least h copies with at most k times that probability; else all together have at most k (h - 1).
# Source: docs/theory.md, Theorem 6.8.


_CIRCLE = 1 << 14  # points of the transform, about 20 ms
_MAX_MEAN = _CIRCLE / 16  # mean copies up to which nearly all mass lies below the number of points
_ERROR = 1e-9  # of a probability by transform: exponents up to 1e6 are rounded by 1e-10
_SLOPES = np.geomspace(1e-9, 60.0, 1200)  # x of Chernoff's bound; any x is valid, more of them only tighten it
_LARGEST_MOMENT = 1e5  # log moment above which a slope is not used: its round-off would come near _ROUNDED
_VANISHING = 830.0  # e^-830 = 1e-360, see sampling/counts
_MIN_EXPONENT = -700.0  # below which e^x is taken as a power of 2: floats end at e^-745
_LOG_OF_ZERO = -1000.0  # stands for log 0 inside the recursion, where -inf would turn into NaN
_ROUNDED = 1e-9  # relative and absolute, of logarithms of probabilities
_POINTS, _GROWTH = 48, 1.02  # counts in the result; factor between neighbouring counts that are examined


def rough_count_distributions(
    draws: list[tuple[Scheme, int]], members: int, max_contributions: int
) -> list[tuple[Fraction, CountDistribution]]:
    """Return an upper law of a group's contributions to a batch: at most 48 pairs (probability, {contributions: 1})."""
    largest = math.prod(scheme.size for scheme, _ in draws if scheme.can_repeat)
    log_members = math.log(members)

    # Chernoff's bound: log Pr[H >= h] <= log E e^{x H} - x h for every x > 0, at those `_SLOPES` whose log moment is
    # below 1e5; at most 0, and raised by its round-off.
    moments = _log_moment(draws, _SLOPES)
    slopes, moments = _SLOPES[moments < _LARGEST_MOMENT], moments[moments < _LARGEST_MOMENT]

    def log_tail(number: int) -> float:
        return float((moments - slopes * number).min(initial=0.0)) * (1 - _ROUNDED) + _ROUNDED

    any_copy = 0.0  # log of the chance that a unit is drawn: the sum by level of log min(1, mean copies), or more
    for scheme, count in draws:
        expected = float(scheme.share(count) if scheme.can_repeat else scheme.rate(count))
        any_copy += math.log(min(1.0, max(expected, 1e-300)))
    # Pr[some member has at least h copies] by the transform, where the smallest slope shows few copies on average. A
    # rare parent can draw very many: what the transform does not count is added at every point.
    by_transform = np.ones(2)
    if largest > 1 and slopes.size and moments[0] < _MAX_MEAN * slopes[0]:
        angles = 2j * np.pi * np.arange(_CIRCLE) / _CIRCLE
        law = np.fft.fft(np.exp(_log_moment(draws, angles.astype(np.complex128)))).real / _CIRCLE
        counted = np.minimum(np.cumsum(np.maximum(law, 0.0)[::-1])[::-1] + _ERROR, 1.0)
        uncounted = math.exp(min(0.0, any_copy, log_tail(_CIRCLE)))
        by_transform = np.minimum(members * (counted + uncounted), 1.0)
    # Bounds on log Pr[some member has at least h copies], made non-increasing, at 1 and counts that are each the next
    # or 2 % above the one before, up to the last above e^-830.
    points, logs = [1], [min(0.0, log_members + any_copy, math.log(by_transform[1]))]
    count, end = 1, max(largest, 1)
    while count < largest:
        count = min(largest, max(count + 1, math.ceil(count * _GROWTH)))
        log = math.log(by_transform[count]) if count < by_transform.size else 0.0
        log = min(logs[-1], log_members + log_tail(count), log)
        if log < -_VANISHING:
            end = count - 1
            break
        points.append(count)
        logs.append(log)
    # At most 48 of them: small counts one by one, for most of the mass is there, the others spread.
    first = min(len(points), _POINTS // 2)
    spread = min(len(points) - first, _POINTS // 2)
    kept = [*range(first), *(first + (len(points) - first) * i // spread for i in range(spread))]
    tails = []  # with few digits; a power of 2 below e^-700
    for i in kept:
        if logs[i] > _MIN_EXPONENT:
            tails.append(Fraction(min(1.0, math.exp(logs[i]) * (1 + _ROUNDED))))
        else:
            tails.append(Fraction(1, 2 ** int(-logs[i] / math.log(2))))
    tails.append(Fraction(0))
    # Mass between two points is moved up to just before the next one.
    ends = [*(points[i] - 1 for i in kept[1:]), end]
    shares = (before - after for before, after in pairwise(tails))
    return [
        (chance, {members * max_contributions * h: Fraction(1)})
        for h, chance in zip(ends, shares, strict=True)
        if chance
    ]


def _log_moment(draws: list[tuple[Scheme, int]], x: NDArray) -> NDArray:  # type: ignore[type-arg]  # real or complex
    """Return log E e^{x H}, H the copies of a unit in a batch, for each of the real or complex x; inf on overflow."""
    for scheme, count in reversed(draws):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            growth = np.expm1(x)
            if scheme.can_repeat:
                x = scheme.size * np.log1p(growth / count)
            else:
                x = np.log1p(float(scheme.rate(count)) * growth)
        x = np.where(np.isneginf(x.real), _LOG_OF_ZERO, x)
        x = np.where(np.isfinite(x), x, np.inf)
    return x
