"""The glued profile against fifty digits, and what every profile must satisfy; its closed form: test_bound_code."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcalc.amplification.random_contents import single_unit_bound
from dpcalc.amplification.schedule import glued_profile, step_profile
from dpcalc.guarantee import Adjacency
from dpcalc.losses.loss import of_falling_pair, of_two_halves, under_draw
from dpcalc.losses.pair import MixturePair
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.paths import path_table
from dpcalc.sampling.schemes import Fixed, Poisson
from tests.amplification.equal_sizes import one_step_bound


@st.composite
def profiles(draw):
    """One level, any relation, extreme numbers."""
    if draw(st.booleans()):
        scheme = Poisson(probability=Fraction(draw(st.integers(1, 10**9)), 10**9))
    else:
        scheme = Fixed(size=draw(st.integers(1, 50)))
    level = Level(name="record", count=draw(st.integers(50, 10**9)), scheme=scheme)
    adjacency = draw(st.sampled_from(Adjacency))
    bound = one_step_bound(Hierarchy(levels=(level,)), unit=1, clip=1, adjacency=adjacency)
    found = glued_profile(bound, noise_multiplier=10 ** draw(st.floats(-1.3, 3)))
    return found.swapped if draw(st.booleans()) else found


@pytest.mark.heavy
@settings(deadline=None, max_examples=150)
@given(profiles(), st.lists(st.floats(-3, 2.5), min_size=3, max_size=8))
def test_a_profile_falls_is_convex_in_e_to_the_epsilon_and_lies_in_the_unit_interval(profile, exponents):
    """And both directions are tied: delta'(-eps) = 1 - e^-eps + e^-eps delta(eps)."""
    epsilons = sorted({s * 10**x for x in exponents for s in (1, -1) if 10**x < 300})
    values = [profile.delta(e) for e in epsilons]
    assert all(max(0.0, -math.expm1(e)) - 1e-12 <= v <= 1 for e, v in zip(epsilons, values, strict=True))
    assert all(a >= b - 1e-15 for a, b in pairwise(values))
    for k in range(1, len(values) - 1):
        x, y, z = (math.exp(e - epsilons[k + 1]) for e in epsilons[k - 1 : k + 2])
        share = (y - x) / (z - x) if z > x else 0.0
        assert values[k] <= (1 - share) * values[k - 1] + share * values[k + 1] + 1e-13
    for epsilon, value in zip(epsilons, values, strict=True):
        if epsilon > 0:
            tied = -math.expm1(-epsilon) + math.exp(-epsilon) * value
            assert profile.swapped.delta(-epsilon) == pytest.approx(tied, rel=1e-12)


def excess_of(curve, epsilon):
    """The mean of (1 - e^(epsilon - L))_+ over the measure of a curve, by the midpoint rule."""
    total = curve.zero_loss_mass * max(0.0, -math.expm1(epsilon))
    for one in curve.segments:
        low, high = one.pair.centers[0] - 12 * one.pair.deviation, min(one.high, one.pair.centers[-1] + 12)
        edges = np.linspace(low, high, 4001)
        log_p, loss = one.log_density_and_loss((edges[1:] + edges[:-1]) / 2)
        total += float((np.exp(log_p) * np.maximum(0.0, -np.expm1(epsilon - loss))).sum() * (edges[1] - edges[0]))
    return total


@pytest.mark.parametrize("sigma", [1.0, 5.0])
def test_only_the_average_of_parts_must_leave_mass_for_loss_0(sigma):
    """Fixed draws of users, some of them empty: single parts of the bound take more than all of their mass."""
    levels = (
        Level(name="user", count=3, scheme=Fixed(size=1)),
        Level(name="record", count=3, scheme=Poisson(probability=Fraction(1, 20))),
    )
    hierarchy = Hierarchy(levels=levels)
    (path,) = path_table([(hierarchy, 2)], unit=1).paths(0)
    bound = single_unit_bound(hierarchy, path, clip=2, adjacency=Adjacency.ADD_REMOVE)
    curve = step_profile(bound, noise_multiplier=sigma)
    masses = [sum(each.weight * each.pair.mass_below(each.high) for each in part) for part in curve.parts]
    assert max(mass / part[0].weight for mass, part in zip(masses, curve.parts, strict=True)) > 1.1
    for side in (curve, curve.swapped):
        assert side.zero_loss_mass > 0
        for epsilon in (-3.0, -0.5, -0.01, 0.0, 0.01, 0.5, 3.0):
            assert excess_of(side, epsilon) == pytest.approx(side.delta(epsilon), rel=1e-5, abs=1e-9)


def test_a_symmetric_step_is_one_loss_in_both_directions():
    """Two equal directions are composed once."""
    half, center = Fraction(1, 2), Fraction(1)
    mixture = MixturePair.of({-2: half, 0: half}, {0: half, 2: half}, deviation=1.0)
    single = MixturePair.of({0: center}, {1: center}, deviation=2.0)
    steps = [of_falling_pair(mixture), of_two_halves(own=single, other=single, ends=(0.5, 0.5))]
    steps.append(under_draw([(0.3, each) for each in steps]))
    for step in steps:
        assert step.swapped == step
        assert step.swapped.swapped == step
