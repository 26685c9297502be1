"""Draws at the edge: frames that a removed group nearly empties, and steps that tell all."""

from fractions import Fraction

import numpy as np
import pytest

from dpcalc.accountants.composed_loss import UPPER
from dpcalc.accountants.pld import delta_bounds
from dpcalc.errors import ConvergenceError
from dpcalc.guarantee import Adjacency
from dpcalc.mechanisms.additive import DiscreteGaussian, DiscreteLaplace
from dpcalc.planner.composition import composed
from dpcalc.planner.evaluate import delta_of
from dpcalc.planner.plan import Phase, Plan
from dpcalc.sampling.hierarchy import Hierarchy, Level
from dpcalc.sampling.schemes import Fixed, Poisson, Shuffle


@pytest.mark.parametrize("group", [1, 2, 3])
def test_a_group_that_nearly_empties_frames_below_a_shuffle(group):
    """Three tasks of two records, one drawn of each; the members +1, all others -1; passes of two steps."""
    levels = (
        Level(name="task", count=3, scheme=Shuffle(size=2)),
        Level(name="record", count=2, scheme=Fixed(size=1)),
    )
    mechanism = DiscreteLaplace(noise_multiplier=2.0)
    phase = Phase(name="one", hierarchy=Hierarchy(levels=levels), mechanism=mechanism, clip=2, steps=2)
    plan = Plan(phases=(phase,), unit=2, adjacency=Adjacency.ADD_REMOVE, delta=1e-5, group_size=group)
    y = np.arange(-60, 61)
    noise = {mean: np.tanh(1 / 4) * np.exp(-np.abs(y - mean) / 2) for mean in range(-2, 3)}

    def step(chances):
        law = {0: 1.0}
        for up in chances:
            law = {m: law.get(m - 1, 0) * up + law.get(m + 1, 0) * (1 - up) for m in range(-2, 3)}
        return sum(chance * noise[mean] for mean, chance in law.items() if chance)

    def a_pass(chances):
        return sum(np.outer(step([*chances[:at], *chances[at + 1 :]]), step([chances[at]])) for at in range(3)) / 3

    p, q = a_pass([0.5] * group + [0.0] * (3 - group)), a_pass([0.0] * 3)
    for epsilon in (0.0, 0.2, 0.5):
        truth = max(np.maximum(a - np.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))
        assert 0 < truth <= delta_of(plan, epsilon=epsilon).delta * (1 + 1e-9)


def test_held_draws_below_which_all_is_told_have_a_delta():
    """Once a division by zero: the draw that tells all has no weight at the order that is best for the others."""
    levels = (
        Level(name="site", count=3, scheme=Poisson(probability=Fraction(9, 10)), redraw_every=2),
        Level(name="user", count=2, scheme=Poisson(probability=Fraction(9, 10)), redraw_every=2),
        Level(name="record", count=2, scheme=Poisson(probability=Fraction(1, 5)), redraw_every=2),
    )
    mechanism = DiscreteGaussian(noise_multiplier=0.3)
    phase = Phase(name="one", hierarchy=Hierarchy(levels=levels), mechanism=mechanism, clip=3, steps=2)
    plan = Plan(phases=(phase,), unit=2, adjacency=Adjacency.ZERO_OUT, delta=1e-5, group_size=3)
    shows = 1 - 0.8**2  # a user who is drawn gives a record
    least, most = 1 - (1 - 0.81 * shows) ** 3, 1 - (1 - 0.81) ** 3  # apart in three sites, or two in one
    for counts in composed(plan).steps.values():
        for epsilon in (0.0, 0.2, 2.0):
            try:
                found = delta_bounds(counts, epsilon=epsilon, sides=(UPPER,))[0]
            except ConvergenceError:  # another accountant is asked
                continue
            assert least * 0.9 <= found <= most + 1e-3
    assert least * 0.9 <= delta_of(plan, epsilon=0.2).delta <= most + 1e-3
