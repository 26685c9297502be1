"""Cells of a loss: quadrature keeps all mass, merged cells keep P and Q mass, lattices are widened to their side."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcalc.accountants.composed_loss import LOWER, UPPER
from dpcalc.accountants.pld import delta_bounds, epsilon_bounds
from dpcalc.losses.cells import Resolution, _merge_atoms, cells
from dpcalc.losses.composition import LossPmf, coarsen_optimistic, coarsen_pessimistic, coarsened
from dpcalc.losses.loss import of_falling_pair
from dpcalc.losses.pair import MixturePair


def random_cell(rng):
    """Tilted masses and losses of one cell, near one another or hundreds apart, and the tilt."""
    size = int(rng.integers(1, 9))
    mass = 10.0 ** rng.uniform(-float(rng.choice([3, 30, 200])), 0, size)
    spread = float(rng.choice([1e-9, 1e-3, 1.0, 30.0, 300.0, 700.0]))
    tilt = float(10 ** rng.uniform(-6, 3)) / max(spread, 1.0)
    return mass, float(rng.uniform(-300, 300)) + spread * rng.uniform(0, 1, size), tilt


@mpmath.workdps(60)
def test_a_merged_cell_has_the_masses_of_its_atoms():
    rng = np.random.default_rng(1)
    for number in range(400):
        mass, loss, tilt = random_cell(rng)
        if number % 4 == 0:  # the loss 0 of a step that always shows something has no mass: once a math domain error
            loss += 800 - loss.min()
            assert _merge_atoms(np.append(mass, 0.0), np.append(loss, 0.0), tilt) == _merge_atoms(mass, loss, tilt)
        merged_mass, merged = _merge_atoms(mass, loss, tilt)
        atoms = [(mpmath.mpf(float(m)), mpmath.mpf(float(x))) for m, x in zip(mass, loss, strict=True)]
        t, far = mpmath.mpf(tilt), float(np.abs(loss).max())
        log_p, log_q = (mpmath.log(mpmath.fsum(m * mpmath.exp(-(t + z) * x) for m, x in atoms)) for z in (0, 1))
        exact = log_p - log_q
        assert merged == pytest.approx(float(exact), abs=1e-14 * (1 + far))
        exact_mass = float(mpmath.exp(log_p + t * exact))
        assert merged_mass == pytest.approx(exact_mass, rel=1e-14 * (1 + tilt * (1 + far)) + 1e-13)


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


@pytest.mark.heavy
def test_nodes_whose_loss_is_so_low_that_the_tilt_leaves_them_no_mass():
    """Three draws with replacement of 60,000 units each: e^(-tilt * loss) at the lowest loss is above any float."""
    chances = [Fraction(math.comb(3, k) * 19 ** (3 - k), 8000) for k in range(4)]
    p, q = ({(3 - k) * 60_000 + sign * k: chance for k, chance in enumerate(chances)} for sign in (1, -1))
    pair = MixturePair.of(p, q, deviation=45.492)
    cut = cells(pair, Resolution(tilt=30.84, log_norm=0.772, copies=13, budget=4.9e-4, truncated_mass=3.5e-39))
    assert -cut.tilt * cut.loss.min() > 710
    held = cut.mass > 1e-299
    plain = np.exp(cut.log_norm - cut.tilt * cut.loss[held] + np.log(cut.mass[held])).sum()
    assert plain + cut.below * math.exp(cut.log_norm) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("rounding", [coarsen_pessimistic, coarsen_optimistic])
def test_a_lattice_may_be_widened_by_any_power_of_two(rounding):
    """A step that shows nothing, on a lattice of width 2^-996, brought to that of another step was once a crash."""
    nothing = LossPmf(tilt=1.0, level=-996, start=0, origin=0.0, mass=np.ones(1), log_norm=0.0, lost=0.0)
    wider = coarsened(nothing, 975, rounding)
    assert (wider.level, wider.start + int(wider.mass.argmax())) == (-21, 0)
    assert (wider.mass.max(), wider.mass.sum()) == (pytest.approx(1, rel=1e-6), pytest.approx(1, rel=1e-6))
    wider = coarsened(replace(nothing, start=-1, mass=np.full(3, 1 / 3)), 975, rounding)
    assert (wider.level, wider.start) == (-21, -2)
    assert wider.mass.sum() == pytest.approx(1, rel=1e-6)
    assert wider.lost < 1e-12
