"""Laplace noise on the sum of contributions clipped in the 1-norm."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpcalc.curves.atoms import Atoms
from dpcalc.errors import InputError

_POINTS = 2001  # of the profile; its chords cost less than 1e-6 of epsilon


@dataclass(frozen=True, kw_only=True)
class Laplace:
    """Laplace noise on the sum of the clipped contributions.

    Attributes:
        noise_multiplier: scale of the noise divided by the clip norm, > 0.
        max_grad_norm: clip norm in the 1-norm, > 0; reported, epsilon does not depend on it.
    """

    name: ClassVar[str] = "laplace"
    noise_multiplier: float
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers that are not positive and finite."""
        for name in ("noise_multiplier", "max_grad_norm"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{name}: expected a finite number > 0, got {value!r}")

    def pair(self, shift: int) -> Atoms:
        """The mechanism where sums differ by `shift` clip norms in the 1-norm; an upper bound, the same both ways."""
        return laplace_pair(shift / self.noise_multiplier)


@lru_cache(maxsize=256)
def laplace_pair(pure: float) -> Atoms:
    """Lap(0, 1) against Lap(pure, 1), pure > 0: delta(eps) = 1 - e^((eps - pure) / 2) for |eps| < pure, by chords.

    The loss is pure with probability 1/2, -pure with e^-pure / 2, and between them has the density e^((x - pure) / 2)
    / 4 at x, which chords split over the ends of each interval of length h: e^((a - pure) / 2) w at its lower end a and
    e^(h / 2) times that at its upper one, w = (1 - e^(-h / 2))^2 / (2 (1 - e^-h)).

    Many coordinates cost no more than one in which they all differ: change one after the other, then powers of tests
    compose (as in `chained`), and those of two shifts on one line compose to that of their sum.

    References:
        Balle, Barthe, Gaboardi 2018 (1807.01647v2), Theorem 3.
    """
    losses = np.linspace(-pure, pure, _POINTS)
    step = 2 * pure / (_POINTS - 1)
    lower = np.exp((losses[:-1] - pure) / 2) * math.expm1(-step / 2) ** 2 / (-2 * math.expm1(-step))
    masses = np.append(lower, 0.5) + np.append(math.exp(-pure) / 2, lower * math.exp(step / 2))
    kept = masses > 0
    return Atoms(losses=tuple(losses[kept].tolist()), masses=tuple(masses[kept].tolist()), other_infinite=0.0)


def laplace_rdp(pure: float, order: float) -> float:
    """Renyi divergence of order a > 1 of Lap(0, 1) and Lap(pure, 1); a may be infinite.

    References:
        Mironov 2017 (1702.07476v3), Proposition 6.
    """
    if math.isinf(order):
        return pure
    head = math.log(order / (2 * order - 1)) + (order - 1) * pure
    tail = math.log((order - 1) / (2 * order - 1)) - order * pure
    return float(np.logaddexp(head, tail)) / (order - 1)
