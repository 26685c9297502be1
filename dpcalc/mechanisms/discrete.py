"""Noise on whole numbers: the discrete Gaussian and the discrete Laplace distribution."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.atoms import Atoms
from dpcalc.errors import InputError
from dpcalc.mechanisms.laplace import laplace_chords, laplace_points
from dpcalc.numerics.log_sums import log1m_exp, log_sum_of

Array = NDArray[np.float64]

_LARGEST = 1_000_000  # values of the noise
_FAR = 39.0  # deviations beyond which a discrete Gaussian has less than 1e-330
_TINIEST = 5e-324  # the least positive float
_TOLD_APART = 16_000  # values on the grid; fewer cost more than 1e-5 of epsilon


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """Noise on a whole number with Pr[x] proportional to e^(-x^2 / (2 noise_multiplier^2)).

    Attributes:
        noise_multiplier: sigma, in units of the largest change of the number by one contribution, > 0, at most 12,820.
    """

    name: ClassVar[str] = "discrete-gaussian"
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Refuse what is not positive, or has too many values to be told apart."""
        most = _LARGEST / (2 * _FAR)
        if not 0 < self.noise_multiplier <= most:
            raise InputError(
                f"noise_multiplier: expected a number above 0 and at most {most:g}, got {self.noise_multiplier!r}"
            )

    def pair(self, shift: int) -> Atoms:
        """The mechanism where the number differs by `shift` >= 1; an upper bound, exact where sigma is at most 200.

        References:
            Canonne, Kamath, Steinke 2020 (2004.00010v4), Definition 1.
        """
        return _discrete_gaussian(self.noise_multiplier, shift)


@lru_cache(maxsize=64)
def _discrete_gaussian(sigma: float, shift: int) -> Atoms:
    """The losses (shift^2 - 2 shift x) / (2 sigma^2) of x; what is far from both centers has next to no mass in P or Q.

    Left out is less than the least float, which is called infinite.
    """
    far = math.ceil(_FAR * sigma)
    whole = np.arange(-far, far + 1, dtype=np.float64)
    log_total = math.log(math.fsum(np.exp(-0.5 * (whole / sigma) ** 2).tolist()))
    together = shift <= 2 * far + 1
    ranges = [(-far, shift + far)] if together else [(-far, far), (shift - far, shift + far)]
    parts = [_on_range(sigma, shift, low, high, log_total) for low, high in reversed(ranges)]
    losses, logs = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    told = logs > -np.inf
    return Atoms(
        losses=tuple(losses[told].tolist()),
        log_masses=tuple(logs[told].tolist()),
        infinite=_TINIEST,
        other_infinite=_TINIEST,
    )


def _on_range(sigma: float, shift: int, low: int, high: int, log_total: float) -> tuple[Array, Array]:
    """(losses, log P masses) of the values from `low` to `high`; many of them on a wider grid.

    There each mass goes to the ends of its cell so that P and Q masses are kept: chords of the profile, convex in
    e^epsilon (Doroshenko et al. 2022, 2207.04380v3, section 4).
    """
    x = np.arange(high, low - 1, -1, dtype=np.float64)
    width = -(-x.size // _TOLD_APART)
    logs = np.pad(-0.5 * (x / sigma) ** 2 - log_total, (0, -x.size % width), constant_values=-np.inf)
    gap = shift / sigma**2
    if width > 1:
        cells, inside = logs.reshape(-1, width), np.arange(width, dtype=np.float64)
        to_upper = log1m_exp(gap * inside) - log1m_exp(np.array(gap * width))
        to_lower = log1m_exp(gap * (width - inside)) - log1m_exp(np.array(gap * width)) - gap * inside
        upper, lower = (log_sum_of([*(cells + share).T]) for share in (to_upper, to_lower))
        logs = np.logaddexp(np.append(lower, -np.inf), np.append(-np.inf, upper))
    x = high - width * np.arange(logs.size, dtype=np.float64)
    losses: Array = shift * (shift - 2 * x) / (2 * sigma * sigma)
    return losses, logs


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace:
    """Noise on a whole number with Pr[x] proportional to e^(-|x| / noise_multiplier).

    Attributes:
        noise_multiplier: scale, in units of the largest change of the number by one contribution, > 0.
    """

    name: ClassVar[str] = "discrete-laplace"
    noise_multiplier: float

    def __post_init__(self) -> None:
        """Refuse what is not positive and finite."""
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0):
            raise InputError(f"noise_multiplier: expected a finite number > 0, got {self.noise_multiplier!r}")

    def pair(self, shift: int) -> Atoms:
        """The mechanism where the number differs by `shift` >= 1; exact.

        References:
            Ghosh, Roughgarden, Sundararajan 2009 (0811.2841v3), Definition 2.2.
        """
        return _discrete_laplace(self.noise_multiplier, shift)


@lru_cache(maxsize=256)
def _discrete_laplace(scale: float, shift: int) -> Atoms:
    """The chords of the profile of Laplace noise between the losses (shift - 2 x) / scale, x = 0, ..., shift.

    Of more losses than are told apart some are left out: chords of the chords.
    """
    if shift < _TOLD_APART:
        x = np.arange(shift + 1, dtype=np.float64)
    else:
        x = np.unique(np.rint((laplace_points(shift / scale) * scale + shift) / 2))
        x = np.concatenate([[0.0], x[(x > 0) & (x < shift)], [float(shift)]])
    return laplace_chords((2.0 * x - shift) / scale)
