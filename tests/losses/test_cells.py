"""Cells of a step: quadrature within them keeps the P and the Q mass to far more digits than are certified."""

from fractions import Fraction

import numpy as np
import pytest

from dpcalc.accountants.rdp import best_epsilon
from dpcalc.losses.cells import Resolution, cells
from dpcalc.losses.moments import composed_moments
from dpcalc.losses.pair import MixturePair

STEPS = [  # rate, noise, steps, delta
    (Fraction(1, 100), 1.0, 1000, 1e-5),
    (Fraction(1, 100), 4.0, 10_000, 1e-5),
    (Fraction(1, 1000), 0.5, 5000, 1e-6),
    (Fraction(1, 5), 10.0, 1000, 1e-6),
    (Fraction(3, 10), 0.3, 10, 1e-6),
    (Fraction(1, 1000), 2.0, 10**8, 1e-6),
]


@pytest.mark.parametrize(("rate", "noise", "steps", "delta"), STEPS)
def test_cells_hold_all_mass_of_both_laws(rate, noise, steps, delta):
    pair = MixturePair.of({0: 1 - rate, 1: rate}, {0: Fraction(1)}, deviation=noise)
    tilt = best_epsilon({pair: steps}, delta=delta).order
    log_norm = float(composed_moments({pair: 1}, max_order=tilt).cumulants(np.array([tilt]))[0][0])
    aim = Resolution(tilt=tilt, log_norm=log_norm, copies=steps, budget=1e-4, truncated_mass=1e-60)
    cut = cells(pair, aim)
    plain = np.exp(log_norm - tilt * cut.loss) * cut.mass
    found = np.array([cut.mass.sum(), plain.sum(), (plain * np.exp(-cut.loss)).sum()])
    assert np.abs(found - 1).max() < 3e-13
