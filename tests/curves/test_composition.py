"""Splits into bulk and rare jumps that are not rare under the tilt."""

from fractions import Fraction

import pytest

from dpcalc.accountants.pld import LOWER, UPPER, delta_interval, interval
from dpcalc.curves.dominating_pair import MixturePair
from dpcalc.curves.monotone_pair import MonotonePair


@pytest.mark.parametrize("delta", [1e-14, 1e-9])
def test_a_bulk_of_which_nothing_is_left(delta):
    """Poisson draws of rate .29 with little noise, D'||D: the tilt puts nearly all mass on the largest losses."""
    q = Fraction(29, 100)
    pair = MixturePair.of({0: Fraction(1)}, {0: 1 - q, 2: q}, deviation=0.5386478117956821)
    counts = {MonotonePair(pair=pair): 92}
    low, high = interval(counts, delta=delta, sides=(LOWER, UPPER))
    assert low <= high <= 1.0001 * low
    low, high = delta_interval(counts, epsilon=high, sides=(LOWER, UPPER))
    assert 0.9 * delta < low <= high < 1.001 * delta
