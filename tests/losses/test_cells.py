"""Losses whose cells were once a crash or a wide answer: both ends meet."""

import math
from fractions import Fraction

import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.losses.loss import of_falling_pair
from dpcalc.losses.pair import MixturePair


@pytest.mark.parametrize("delta", [1e-14, 1e-9])
def test_a_bulk_of_which_nothing_is_left(delta):
    """Poisson draws of rate .29 with little noise, D'||D: the tilt puts nearly all mass on the largest losses."""
    q = Fraction(29, 100)
    pair = MixturePair.of({0: Fraction(1)}, {0: 1 - q, 2: q}, deviation=0.5386478117956821)
    counts = {of_falling_pair(pair): 92}
    low, high = epsilon_bounds(counts, delta=delta, sides=(LOWER, UPPER))
    assert low <= high <= 1.0001 * low
    low, high = delta_bounds(counts, epsilon=high, sides=(LOWER, UPPER))
    assert 0.9 * delta < low <= high < 1.001 * delta


def test_nodes_whose_loss_is_so_low_that_the_tilt_leaves_them_no_mass():
    """Three draws with replacement of 60,000 units each: e^(-tilt * loss) at the lowest loss is above any float."""
    chances = [Fraction(math.comb(3, k) * 19 ** (3 - k), 8000) for k in range(4)]
    p, q = ({(3 - k) * 60_000 + sign * k: chance for k, chance in enumerate(chances)} for sign in (1, -1))
    low, high = epsilon_bounds({MixturePair.of(p, q, deviation=45.492): 13}, delta=1e-12, sides=(LOWER, UPPER))
    assert 0.91 < low <= high <= 1.0001 * low


def test_a_lattice_may_be_widened_by_any_power_of_two():
    """A step that shows next to nothing, on a lattice of width 2^-983, beside another step was once a crash."""
    rare, often = (
        MixturePair.of({0: Fraction(1)}, {0: 1 - rate, 1: rate}, deviation=1.0)
        for rate in (Fraction(1, 10**300), Fraction(1, 10))
    )
    alone, both = (
        epsilon_bounds(counts, delta=1e-6, sides=(LOWER, UPPER)) for counts in ({often: 20}, {rare: 1, often: 20})
    )
    assert both == pytest.approx(alone, rel=1e-4)
    assert both[0] <= alone[1]
    assert alone[0] <= both[1]
