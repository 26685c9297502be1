"""Upper bounds on the number H of copies of protected units in a batch, quickly, however deep the levels are nested.

The copies of a unit are a branching process. With g_j(x) = log E e^{x C_j} of the copies C_j that one copy of the level
above draws,

    log E e^{x H} = g_1(g_2(... g_p(x) ...)),

x real or complex. On the circle x = 2 pi i k / n this gives Pr[H = h] by one Fourier transform; on the real line it
gives Chernoff's bound Pr[H >= h] <= e^{K(x) - x h} far out, where the transform has no digits left. Of k members, some
one has at least h copies with at most k times that probability; else all together have at most k (h - 1).

Source: docs/theory.md, Theorem 6.8.
"""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.sampling.counts import CountDistribution
from dpcalc.sampling.paths import Path
from dpcalc.sampling.schemes import Scheme, WithReplacement

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
    path: Path, members: int, max_contributions: int
) -> list[tuple[Fraction, CountDistribution]]:
    """Return [(probability, {H: 1})] at some 48 counts H > 0 of all members' contributions, upper bound; else H is 0.

    Args:
        path: the path to the protected units, passes taken as one draw.
        members: number of units protected together, with any placement, >= 1.
        max_contributions: largest number of contributions of one copy, >= 1.
    """
    draws = list(zip(path.schemes, path.counts, strict=True))
    largest = math.prod(scheme.size for scheme, _ in draws if isinstance(scheme, WithReplacement))
    points, log_tails, end = _tails(draws, members, largest)
    tails = [*map(_probability_upper, log_tails), Fraction(0)]
    # Mass between two points is moved up to just before the next one.
    ends = [*(point - 1 for point in points[1:]), end]
    shares = (before - after for before, after in pairwise(tails))
    return [
        (chance, {members * max_contributions * h: Fraction(1)})
        for h, chance in zip(ends, shares, strict=True)
        if chance
    ]


def _probability_upper(log: float) -> Fraction:
    """Return a probability of at least e^log, for log <= 0, as a fraction with few digits."""
    if log > _MIN_EXPONENT:
        return Fraction(min(1.0, math.exp(log) * (1 + _ROUNDED)))
    return Fraction(1, 2 ** int(-log / math.log(2)))


def _tails(draws: list[tuple[Scheme, int]], members: int, largest: int) -> tuple[list[int], list[float], int]:
    """Return (counts h from 1 up, log bounds on Pr[any member has >= h copies], the largest h that matters)."""
    moments = _log_moment(draws, _SLOPES)
    known = moments < _LARGEST_MOMENT
    slopes, moments = _SLOPES[known], moments[known]
    by_transform = np.ones(2)
    if largest > 1 and slopes.size and moments[0] < _MAX_MEAN * slopes[0]:
        by_transform = np.minimum(members * _tails_by_transform(draws), 1.0)
    points, logs = [1], [min(0.0, math.log(members) + _log_chance_of_any_copy(draws), math.log(by_transform[1]))]
    at = 1
    while at < largest:
        at = min(largest, max(at + 1, math.ceil(at * _GROWTH)))
        chernoff = math.log(members) + float((moments - slopes * at).min(initial=0.0)) * (1 - _ROUNDED) + _ROUNDED
        log = min(logs[-1], chernoff, math.log(by_transform[at]) if at < by_transform.size else 0.0)
        if log < -_VANISHING:
            at -= 1
            break
        points.append(at)
        logs.append(log)
    # Small counts are kept one by one: most of the mass is there.
    kept = [i for i in range(len(points)) if i < _POINTS // 2]
    extra = len(points) - len(kept)
    kept += [len(kept) + extra * i // (_POINTS // 2) for i in range(min(extra, _POINTS // 2))]
    return [points[i] for i in kept], [logs[i] for i in kept], max(at, 1)


def _log_chance_of_any_copy(draws: list[tuple[Scheme, int]]) -> float:
    """Return the log of an upper bound on the chance that a unit is drawn: product of min(1, mean copies) by level."""
    total = 0.0
    for scheme, count in draws:
        expected = scheme.size / count if isinstance(scheme, WithReplacement) else float(scheme.rate(count))
        total += math.log(min(1.0, max(expected, 1e-300)))
    return total


def _tails_by_transform(draws: list[tuple[Scheme, int]]) -> Array:
    """Return upper bounds on Pr[H >= h] for h = 0 to 16383, by Fourier transform."""
    angles = 2j * np.pi * np.arange(_CIRCLE) / _CIRCLE
    values = np.exp(_log_moment(draws, angles.astype(np.complex128)))
    law = np.fft.fft(values).real / _CIRCLE
    return np.asarray(np.minimum(np.cumsum(np.maximum(law, 0.0)[::-1])[::-1] + _ERROR, 1.0), dtype=np.float64)


def _log_moment(draws: list[tuple[Scheme, int]], x: NDArray) -> NDArray:  # type: ignore[type-arg]  # real or complex
    """Return log E e^{x H}, H the copies of a unit in a batch, elementwise, x real or complex; inf on overflow."""
    for scheme, count in reversed(draws):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            growth = np.expm1(x)
            if isinstance(scheme, WithReplacement):
                x = scheme.size * np.log1p(growth / count)
            else:
                x = np.log1p(float(scheme.rate(count)) * growth)
        x = np.where(np.isneginf(x.real), _LOG_OF_ZERO, x)
        x = np.where(np.isfinite(x), x, np.inf)
    return x
