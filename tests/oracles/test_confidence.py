"""Confidence intervals against the exact distribution of what they are made for."""

import math

import pytest
from scipy import stats

from dpcalc.audit.laws import mean_interval


@pytest.mark.parametrize("trials", [1, 2, 7, 40])
@pytest.mark.parametrize("doubt", [0.3, 0.01, 1e-6])
def test_an_interval_misses_as_rarely_as_it_says(trials, doubt):
    ends = [mean_interval(hits / trials, trials, miss_probability=doubt) for hits in range(trials + 1)]
    for chance in (0.0, 1e-4, 0.03, 0.2, 0.5, 0.77, 0.999, 1.0):
        missed = sum(
            math.comb(trials, hits) * chance**hits * (1 - chance) ** (trials - hits)
            for hits, (low, high) in enumerate(ends)
            if not low <= chance <= high
        )
        assert missed <= doubt


def test_the_ends_in_closed_form():
    low, high = mean_interval(0.0, 50, miss_probability=0.02)
    assert low == 0
    assert high == pytest.approx(1 - 0.01 ** (1 / 50), rel=1e-12)
    assert mean_interval(1.0, 50, miss_probability=0.02) == (pytest.approx(1 - high, rel=1e-12), 1.0)


@pytest.mark.parametrize("trials", [20, 1000, 20_000])
def test_frequencies_have_a_little_wider_intervals_than_the_exact_ones_of_scipy(trials):
    for hits in {0, 1, trials // 100, trials // 10, trials // 2, trials}:
        low, high = mean_interval(hits / trials, trials, miss_probability=1e-6)
        exact = stats.binomtest(hits, trials).proportion_ci(1 - 1e-6, method="exact")
        assert low <= exact.low + 1e-11
        assert high >= exact.high - 1e-11
        assert high - low <= 1.11 * (exact.high - exact.low)
