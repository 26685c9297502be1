"""Noise on whole numbers: the discrete Gaussian and the discrete Laplace distribution."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpcalc.curves.atoms import Atoms
from dpcalc.errors import InputError

_LARGEST = 1_000_000  # values of the noise
_FAR = 39.0  # deviations beyond which a discrete Gaussian has less than 1e-330
_LEAST = 1e-290  # mass that a value is kept for
_ROUND_OFF = 1e-12  # of masses in all
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
    """The losses (shift^2 - 2 shift x) / (2 sigma^2) of x, from the largest x down; many of them on a wider grid.

    There each mass goes to the ends of its cell so that P and Q masses are kept: chords of the profile, convex in
    e^epsilon (Doroshenko et al. 2022, 2207.04380v3, section 4).
    """
    far = math.ceil(_FAR * sigma)
    x = np.arange(far, -far - 1, -1, dtype=np.float64)
    weights = np.exp(-0.5 * (x / sigma) ** 2)
    mass = weights / weights.sum() * (1 - 4e-15)
    width = -(-x.size // _TOLD_APART)
    cells = np.pad(mass, (0, -x.size % width)).reshape(-1, width)
    gap = shift / sigma**2
    share = np.expm1(-gap * np.arange(width)) / math.expm1(-gap * width)  # of a mass, to the upper end
    at_ends = np.append((cells * (1 - share)).sum(axis=1), 0.0) + np.append(0.0, (cells * share).sum(axis=1))
    losses = shift * (shift - 2 * (far - width * np.arange(at_ends.size))) / (2 * sigma * sigma)
    kept = at_ends > _LEAST
    losses, at_ends = losses[kept], at_ends[kept]
    last = shift / 2 - losses[0] * sigma * sigma / shift  # x of the least loss; Q has its values beyond it alone
    beyond = float(mass[x > last - shift].sum())
    lacking = max(0.0, 1 - float(np.exp(np.log(at_ends) - losses).sum())) + _ROUND_OFF
    other = max(_LEAST, min(beyond, lacking))
    return Atoms(losses=tuple(losses.tolist()), masses=tuple(at_ends.tolist()), infinite=_LEAST, other_infinite=other)


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
        decay = math.exp(-1 / self.noise_multiplier)  # Pr[x] = (1 - decay) / (1 + decay) decay^|x|
        below = 1 / (1 + decay)  # x <= 0
        inside = [-math.expm1(-1 / self.noise_multiplier) / (1 + decay) * decay**x for x in range(1, shift)]
        above = decay**shift / (1 + decay)  # x >= shift
        masses = (above, *reversed(inside), below)
        losses = tuple((shift - 2 * x) / self.noise_multiplier for x in range(shift, -1, -1))
        return Atoms(losses=losses, masses=masses, other_infinite=0.0)
