"""Losses gathered beyond a limit: the profile by sums over the line, on the right side everywhere, sharp below it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcalc.amplification.bound import MissedBatch, StepBound
from dpcalc.amplification.schedule import glued_profile
from dpcalc.losses.composition import cap_optimistic, cap_pessimistic, capped
from dpcalc.losses.loss import under_draw
from dpcalc.losses.moments import PublicDraw
from dpcalc.losses.pair import MixturePair

LIMIT = 0.75
EPSILONS = (-1.0, 0.0, 0.1, 0.5, 0.74, 0.8, 1.5, 3.0)
RATE = Fraction(1, 100)


def add_remove(sigma):
    """Its loss rises along the line."""
    return MixturePair.of({0: 1 - RATE, 2: RATE}, {0: Fraction(1)}, deviation=sigma)


def remove_add(sigma):
    """Its loss falls."""
    return MixturePair.of({-2: RATE, 0: 1 - RATE}, {0: Fraction(1)}, deviation=sigma)


def fixed(sigma):
    """(K) with a common part farther away than the shift: no monotone loss."""
    bound = StepBound(inclusion=RATE, shift=2, missed=(MissedBatch(1 - RATE, 5, 3),))
    return glued_profile(bound, noise_multiplier=sigma)


def with_public_draw(sigma):
    return under_draw([(0.5, fixed(sigma)), (0.2, fixed(2 * sigma))])


CURVES = [make(sigma) for make in (add_remove, remove_add, fixed, with_public_draw) for sigma in (0.8, 2.0)]


def profile(curve, epsilon):
    """delta(epsilon), midpoints of a fine grid."""
    total = curve.infinity_mass + curve.zero_loss_mass * max(0.0, -math.expm1(epsilon))
    for segment in curve.segments:
        pair, root = segment.pair, segment.pair.deviation * math.sqrt(2 * math.pi)
        low = max(segment.low, pair.centers[0] - 12 * pair.deviation)
        high = min(segment.high, pair.centers[-1] + 12 * pair.deviation)
        edges = np.linspace(low, high, 200_001)
        y = (edges[1:] + edges[:-1]) / 2
        weights = np.array(pair.weights_p) - math.exp(epsilon) * np.array(pair.weights_q)
        parts = zip(weights, pair.centers, strict=True)
        gap = sum(w * np.exp(-(((y - c) / pair.deviation) ** 2) / 2) for w, c in parts) / root
        total += segment.weight * float(np.maximum(gap, 0.0).sum()) * (edges[1] - edges[0])
    return total + sum(
        math.exp(m) * max(0.0, -math.expm1(epsilon - x)) for x, m in zip(curve.losses, curve.log_masses, strict=True)
    )


@pytest.mark.parametrize("curve", CURVES)
def test_the_ends_are_on_their_side_and_sharp_below_the_limit(curve):
    above = capped(curve, LIMIT, cap_pessimistic, min_mass=1e-12)
    below = capped(curve, LIMIT, cap_optimistic, min_mass=1e-12)
    assert above != curve != below
    for found in (above, below):
        assert profile(found, -40.0) == pytest.approx(1, abs=1e-7)  # no mass is made
        assert all(segment.max_loss <= LIMIT for segment in found.segments)
    for epsilon in EPSILONS:
        exact = profile(curve, epsilon)
        high, low = profile(above, epsilon), profile(below, epsilon)
        error = 1e-7 * exact + 1e-15  # of the sums
        assert low - error <= exact <= high + error
        if epsilon < LIMIT:
            assert high == pytest.approx(exact, rel=1e-6)
            assert low == pytest.approx(exact, rel=1e-6)


def test_what_has_no_such_losses_or_too_few_or_at_both_ends_stays_as_it_is():
    both = MixturePair.of({-2: RATE, 0: 1 - 2 * RATE, 2: RATE}, {0: Fraction(1)}, deviation=1.0)
    for curve, limit, least in ((fixed(2.0), 50.0, 1e-12), (fixed(2.0), LIMIT, 0.5), (both, LIMIT, 1e-12)):
        assert capped(curve, limit, cap_pessimistic, min_mass=least) is curve


def test_under_a_held_draw_every_step_is_gathered():
    held = PublicDraw(rate=0.1, counts=((fixed(1.0), 3), (add_remove(1.0), 2)))
    found = capped(held, LIMIT, cap_optimistic, min_mass=1e-12)
    assert found.counts == tuple((capped(one, LIMIT, cap_optimistic, min_mass=1e-12), n) for one, n in held.counts)
