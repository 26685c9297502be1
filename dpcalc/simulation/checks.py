"""Comparison of one computed number with a Monte Carlo estimate, by a confidence interval for every sample size."""

import math
from collections.abc import Callable
from dataclasses import replace

from numpy.random import Generator

from dpcalc.records import dataclass

MISS_PROBABILITY = 1e-6
"""Probability with which one confidence interval may miss the true value: a run of a thousand checks contradicts a
correct number once in a thousand runs. Ten times more would do so every hundred runs."""

Ends = tuple[float, float]
"""(lower, upper) end of an interval."""


def mean_interval(mean: float, trials: int, *, miss_probability: float) -> Ends:
    """Return Hoeffding's confidence interval for the expectation of numbers in [0, 1], rounded outwards.

    All m with trials * kl(mean, m) <= log(2 / miss_probability), kl(a, m) = a log(a / m) + (1 - a) log((1 - a) /
    (1 - m)): by Hoeffding 1963 (J. Amer. Statist. Assoc. 58, 13-30), Theorem 1, the mean of independent numbers in
    [0, 1] with expectation m is at least a >= m with probability at most e^{-trials kl(a, m)}, and at most a <= m
    likewise.

    Example:
        >>> mean_interval(0.0, 100, miss_probability=0.02)
        (0.0, 0.045007...)
    """
    max_divergence = math.log(2 / miss_probability) / trials

    def is_inside(expectation: float) -> bool:
        return _coin_divergence(mean, expectation) <= max_divergence

    return _interval_end(mean, 0.0, is_inside), _interval_end(mean, 1.0, is_inside)


def _interval_end(inside: float, limit: float, is_inside: Callable[[float], bool]) -> float:
    """Return the end of an interval between `inside` and `limit`, rounded outwards; `limit` if that is inside too."""
    if is_inside(limit):
        return limit
    # 100 halvings leave the two neighbouring floats; `outside` is never inside the interval.
    outside = limit
    for _ in range(100):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_inside(middle) else (inside, middle)
    return outside


def _coin_divergence(mean: float, expectation: float) -> float:
    """Return the divergence KL(mean||expectation) of two coins with these probabilities of heads; inf if infinite."""
    total = 0.0
    for p, q in ((mean, expectation), (1 - mean, 1 - expectation)):
        if p > 0:
            total += p * math.log(p / q) if q > 0 else math.inf
    return total


@dataclass(frozen=True, kw_only=True)
class Check:
    """One computed number beside its Monte Carlo estimate."""

    phase: str  # name of the phase, "" for the whole run
    quantity: str  # name of the number, for people
    computed: Ends  # (lower, upper) bound that is computed, equal where the number is exact
    observed: float  # the estimate
    interval: Ends  # contains the true value but for MISS_PROBABILITY; equal ends where nothing is random
    trials: int  # number of independent draws
    note: str = ""  # a remark, or ""

    @property
    def agrees(self) -> bool:
        """True if the interval and the computed bounds overlap, up to a relative 1e-9 of round-off."""
        slack = 1e-9 * abs(self.observed)
        return self.interval[0] <= self.computed[1] + slack and self.computed[0] <= self.interval[1] + slack


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Seed and size of a simulation."""

    seed: int = 1  # of the random numbers
    draws: int | None = None  # steps drawn from the sampler of each phase; None for as many as take a second or two
    runs: int | None = None  # training runs whose privacy loss is drawn; None for as many as take a second or two


@dataclass(frozen=True, kw_only=True)
class RandomSource:
    """Random numbers, effort and progress callback of one part of the work."""

    rng: Generator  # random numbers
    effort: Effort  # number of draws and runs
    on_progress: Callable[[float], None]  # is called with the share of the part that is done, from 0 to 1

    def part(self, index: int, parts: int) -> "RandomSource":
        """Return this source, with the same generator, and progress scaled to part `index` (from 0) of `parts`."""
        return replace(self, on_progress=lambda share: self.on_progress((index + share) / parts))
