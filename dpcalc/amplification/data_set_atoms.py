"""Lower bounds under noise on a sum that is not Gaussian: the loss of an actual pair of data sets as atoms.

Noise around whole centers is reduced to the cell into which it falls. That is post-processing, so the pair costs at
most as much as the data set; the cells are so small that it hardly costs less.

Source: docs/theory.md, Theorem 10.1.
"""

import math

import numpy as np

from dpcalc.amplification.data_sets import Mixture
from dpcalc.losses.atoms import OneWayAtoms
from dpcalc.mechanisms.kinds import AdditiveNoise
from dpcalc.numerics.special import log_fraction, log_sum_exp, log_sum_exp_by_index
from dpcalc.work import ELEMENT, TURN, spend

_MIN_MASS = 1e-300  # of the only loss of two equal distributions
_KEPT_SHARE = 1 - 1e-12  # factor on the masses, so that no round-off makes them too large: it lowers the bound
_ROUNDED = 2e-15  # by which a loss is lowered, relative to the two logarithms whose difference it is


def data_set_atoms(mechanism: AdditiveNoise, p: Mixture, q: Mixture) -> OneWayAtoms:
    """Return atoms with a lower bound on the loss D||D' between p and q plus noise, if only the output's cell is seen.

    Source: docs/theory.md, Theorem 10.1.
    """
    centers = sorted({*p, *q})
    spend(len(centers) * (mechanism.cell_count(centers) * 3 * ELEMENT + TURN))
    rows = {center: mechanism.cell_log_masses(center, centers) for center in centers}
    log_p, log_q = (
        log_sum_exp([log_fraction(weight) + rows[center] for center, weight in mixture.items() if weight])
        for mixture in (p, q)
    )

    # Losses lowered by their round-off, and masses by a share of 1e-12, are those of a profile nowhere above.
    both = (log_p > -np.inf) & (log_q > -np.inf)
    losses = log_p[both] - log_q[both]
    losses -= _ROUNDED * (1 + np.abs(log_p[both]) + np.abs(log_q[both]))
    values, place = np.unique(losses, return_inverse=True)
    logs = log_sum_exp_by_index(place, log_p[both], size=values.size) + math.log(_KEPT_SHARE)
    alone = float(np.exp(log_p[log_q == -np.inf]).sum()) * _KEPT_SHARE
    if not values.size:  # accountants look at losses
        return OneWayAtoms(losses=(0.0,), log_masses=(math.log(_MIN_MASS),), infinity_mass=alone)
    return OneWayAtoms(losses=tuple(values.tolist()), log_masses=tuple(logs.tolist()), infinity_mass=alone)
