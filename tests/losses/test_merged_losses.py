"""Cells of losses merged into one keep the mass of P and of Q: 60 digits."""

import mpmath
import numpy as np
import pytest

from dpcalc.losses.cells import _merge_atoms

EPSILON = 1e-14


def random_cell(rng):
    """Tilted masses and losses of one cell, near one another or hundreds apart, and the tilt."""
    size = int(rng.integers(1, 9))
    mass = 10.0 ** rng.uniform(-float(rng.choice([3, 30, 200])), 0, size)
    spread = float(rng.choice([1e-9, 1e-3, 1.0, 30.0, 300.0, 700.0]))
    tilt = float(10 ** rng.uniform(-6, 3)) / max(spread, 1.0)
    return mass, float(rng.uniform(-300, 300)) + spread * rng.uniform(0, 1, size), tilt


@pytest.mark.parametrize("seed", range(300))
def test_a_merged_cell_has_the_masses_of_its_atoms(seed):
    check(*random_cell(np.random.default_rng([1, seed])))


@pytest.mark.parametrize("seed", range(100))
def test_a_loss_without_mass_changes_nothing(seed):
    """The loss 0 is in the list of a step that always shows something, with mass 0: once a math domain error."""
    mass, loss, tilt = random_cell(np.random.default_rng([2, seed]))
    loss += 800 - loss.min()
    found = check(np.append(mass, 0.0), np.append(loss, 0.0), tilt)
    assert found == _merge_atoms(mass, loss, tilt)


def check(mass, loss, tilt):
    merged_mass, merged = _merge_atoms(mass, loss, tilt)
    with mpmath.workdps(60):
        atoms = [(mpmath.mpf(float(m)), mpmath.mpf(float(x))) for m, x in zip(mass, loss, strict=True)]
        t = mpmath.mpf(tilt)
        log_p, log_q = (mpmath.log(mpmath.fsum(m * mpmath.exp(-(t + z) * x) for m, x in atoms)) for z in (0, 1))
        exact = log_p - log_q
        exact_mass = mpmath.exp(log_p + t * exact)
    far = float(np.abs(loss).max())
    assert merged == pytest.approx(float(exact), abs=EPSILON * (1 + far))
    assert merged_mass == pytest.approx(float(exact_mass), rel=EPSILON * (1 + tilt * (1 + far)) + 1e-13)
    return merged_mass, merged
