"""What an actual data set costs in one step where the noise is not Gaussian: a lower end, exact but for cells.

Two mixtures of the noise around whole centers are looked at cell by cell. Telling only the cell is post-processing, so
that no pair of this kind costs more than the data set; the cells are so small that it hardly costs less.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.atoms import Atoms
from dpcalc.mechanisms.discrete import DiscreteGaussian, DiscreteLaplace
from dpcalc.mechanisms.kinds import Shifted
from dpcalc.mechanisms.laplace import Laplace
from dpcalc.numerics.log_sums import log1m_exp, log_sum_of, log_sums_by_place
from dpcalc.release.data_sets import Mixture

Array = NDArray[np.float64]

_CELLS = 4000
_FAR = 39.0  # deviations beyond which a discrete Gaussian is left out
_LEAST = 1e-300
_KEPT = 1 - 1e-12  # of the masses, so that no round-off makes them too large
_ROUNDED = 2e-15  # error of a loss, relative to the logarithms of which it is the difference


def data_set_atoms(mechanism: Shifted, p: Mixture, q: Mixture) -> Atoms:
    """A pair with a profile that is nowhere above that of the noise around two mixtures.

    Args:
        mechanism: noise on a sum.
        p: of the sum in D, weight by center, in clip norms.
        q: in D', another one.
    """
    centers = sorted({*p, *q})
    rows = {center: _row(mechanism, center, centers) for center in centers}
    here, there = (
        log_sum_of([math.log(weight) + rows[center] for center, weight in mixture.items() if weight])
        for mixture in (p, q)
    )
    both = (here > -np.inf) & (there > -np.inf)
    losses = here[both] - there[both]
    losses -= _ROUNDED * (1 + np.abs(here[both]) + np.abs(there[both]))
    values, place = np.unique(losses, return_inverse=True)
    logs = log_sums_by_place(place, here[both], size=values.size) + math.log(_KEPT)
    alone = float(np.exp(here[there == -np.inf]).sum()) * _KEPT
    if not values.size:  # accountants look at losses
        return Atoms.of_masses((0.0,), (_LEAST,), infinite=alone)
    return Atoms(losses=tuple(values.tolist()), log_masses=tuple(logs.tolist()), infinite=alone)


def _row(mechanism: Shifted, center: int, centers: list[int]) -> Array:
    """Log probability of each cell, the noise around one center; beyond all centers ratios of Laplace noise stay."""
    low, high = centers[0], centers[-1]
    match mechanism:
        case Laplace(noise_multiplier=scale):
            cuts = np.unique(np.append(np.linspace(low, high, _CELLS + 1), centers))
            near = np.where(cuts[:-1] >= center, cuts[:-1] - center, center - cuts[1:])
            inside = math.log(0.5) + log1m_exp(np.diff(cuts) / scale) - near / scale
            ends = (math.log(0.5) - (center - low) / scale, math.log(0.5) - (high - center) / scale)
            return np.concatenate([ends[:1], inside, ends[1:]])
        case DiscreteLaplace(noise_multiplier=scale):
            rest = math.log1p(math.exp(-1 / scale))
            inside = math.log(math.tanh(0.5 / scale)) - np.abs(np.arange(low + 1, high) - center) / scale
            return np.concatenate([[-(center - low) / scale - rest], inside, [-(high - center) / scale - rest]])
        case DiscreteGaussian(noise_multiplier=sigma):
            far = math.ceil(_FAR * sigma)
            log_total = math.log(math.fsum(np.exp(-(np.arange(-far, far + 1) ** 2) / (2 * sigma * sigma)).tolist()))
            places = np.arange(low - far, high + far + 1)
            logs = -((places - center) ** 2) / (2 * sigma * sigma) - log_total
            together = -(-places.size // (4 * _CELLS))
            padded = np.pad(logs, (0, -logs.size % together), constant_values=-np.inf).reshape(-1, together)
            return log_sum_of([*padded.T])
