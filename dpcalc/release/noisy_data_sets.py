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
from dpcalc.release.data_sets import Mixture

Array = NDArray[np.float64]

_CELLS = 4000
_FAR = 39.0  # deviations beyond which a discrete Gaussian is left out
_LARGEST = 300.0  # losses beyond it are taken for it
_LEAST = 1e-300
_KEPT = 1 - 1e-12  # of the masses, so that no round-off makes them too large


def data_set_atoms(mechanism: Shifted, p: Mixture, q: Mixture) -> Atoms:
    """A pair with a profile that is nowhere above that of the noise around two mixtures.

    Args:
        mechanism: noise on a sum.
        p: of the sum in D, weight by center, in clip norms.
        q: in D', another one.
    """
    centers = sorted({*p, *q})
    here, there = np.zeros(1), np.zeros(1)
    for center in centers:
        row = _row(mechanism, center, centers)
        here = here + float(p.get(center, 0)) * row
        there = there + float(q.get(center, 0)) * row
    both = (here > 0) & (there > 0)
    losses = np.clip(np.log(here[both]) - np.log(there[both]), -_LARGEST, _LARGEST)
    values, place = np.unique(losses, return_inverse=True)
    masses = np.bincount(place, weights=here[both], minlength=values.size) * _KEPT
    alone = float(here[(here > 0) & (there == 0)].sum()) * _KEPT
    if not values.size:  # accountants look at losses
        return Atoms(losses=(0.0,), masses=(_LEAST,), infinite=alone)
    return Atoms(losses=tuple(values.tolist()), masses=tuple(masses.tolist()), infinite=alone)


def _row(mechanism: Shifted, center: int, centers: list[int]) -> Array:
    """Probability of each cell, the noise around one center; beyond all centers ratios of Laplace noise stay."""
    low, high = centers[0], centers[-1]
    match mechanism:
        case Laplace(noise_multiplier=scale):
            cuts = np.unique(np.append(np.linspace(low, high, _CELLS + 1), centers))
            inside = -0.5 * np.expm1(-np.diff(cuts) / scale)
            near = np.where(cuts[:-1] >= center, cuts[:-1] - center, center - cuts[1:])
            inside = inside * np.exp(-near / scale)
            ends = (0.5 * math.exp(-(center - low) / scale), 0.5 * math.exp(-(high - center) / scale))
            return np.concatenate([ends[:1], inside, ends[1:]])
        case DiscreteLaplace(noise_multiplier=scale):
            decay = math.exp(-1 / scale)
            inside = math.tanh(0.5 / scale) * np.exp(-np.abs(np.arange(low + 1, high) - center) / scale)
            ends = (math.exp(-(center - low) / scale) / (1 + decay), math.exp(-(high - center) / scale) / (1 + decay))
            return np.concatenate([ends[:1], inside, ends[1:]])
        case DiscreteGaussian(noise_multiplier=sigma):
            far = math.ceil(_FAR * sigma)
            total = math.fsum(np.exp(-(np.arange(-far, far + 1) ** 2) / (2 * sigma * sigma)).tolist())
            places = np.arange(low - far, high + far + 1)
            masses = np.exp(-((places - center) ** 2) / (2 * sigma * sigma)) / total
            together = -(-places.size // (4 * _CELLS))
            return np.asarray(np.add.reduceat(masses, np.arange(0, places.size, together)), dtype=np.float64)
