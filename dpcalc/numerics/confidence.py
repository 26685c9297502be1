"""Confidence intervals that hold for every sample size."""

import math
from collections.abc import Callable


def mean_interval(mean: float, trials: int, *, doubt: float) -> tuple[float, float]:
    """Where the expectation of bounded independent numbers lies.

    All m with trials * kl(mean, m) <= log(2 / doubt), kl(a, m) = a log(a / m) + (1 - a) log((1 - a) / (1 - m)): by
    Hoeffding 1963 (J. Amer. Statist. Assoc. 58, 13-30), Theorem 1, the mean of independent numbers in [0, 1] with
    expectation m is at least a >= m with probability at most e^{-trials kl(a, m)}, and likewise below.

    Args:
        mean: observed, of numbers in [0, 1]; a frequency where they are 0 or 1.
        trials: how many, >= 1.
        doubt: probability with which the interval may miss, in (0, 1).

    Returns:
        (lower, upper) end; for frequencies never shorter than about the exact interval of Clopper and Pearson.

    Example:
        >>> mean_interval(0.0, 100, doubt=0.02)
        (0.0, 0.045007...)
    """
    reach = math.log(2 / doubt) / trials

    def is_near(expectation: float) -> bool:
        return _divergence(mean, expectation) <= reach

    return _end(mean, 0.0, is_near), _end(mean, 1.0, is_near)


def _end(inside: float, outside: float, is_near: Callable[[float], bool]) -> float:
    """The last point, seen from inside, for which something holds, rounded outwards."""
    if is_near(outside):
        return outside
    for _ in range(100):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_near(middle) else (inside, middle)
    return outside


def _divergence(mean: float, expectation: float) -> float:
    """Kullback-Leibler divergence of two coins."""
    total = 0.0
    for part, other in ((mean, expectation), (1 - mean, 1 - expectation)):
        if part > 0:
            total += part * math.log(part / other) if other > 0 else math.inf
    return total
