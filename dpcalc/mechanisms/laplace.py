"""Laplace noise on the sum of contributions clipped in the 1-norm."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.atoms import Atoms
from dpcalc.errors import InputError

Array = NDArray[np.float64]

_POINTS = 2001  # of the profile; its chords cost less than 1e-6 of epsilon
_EVEN = 20.0  # largest loss up to which points are evenly spaced
_NEAREST, _WIDER = 0.02, 10.0  # distance of points at the ends of a longer range, and how far from there it doubles


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
    """Lap(0, 1) against Lap(pure, 1), pure > 0, by chords of its profile; an upper bound, the same both ways.

    Many coordinates cost no more than one in which they all differ: change one after the other, then powers of tests
    compose (as in `chained`), and those of two shifts on one line compose to that of their sum.
    """
    return laplace_chords(laplace_points(pure))


def laplace_chords(losses: Array) -> Atoms:
    """The chords of the profile of Laplace noise, delta(eps) = 1 - e^((eps - pure) / 2) for |eps| < pure.

    The loss is pure with probability 1/2, -pure with e^-pure / 2, and between them has the density e^((x - pure) / 2)
    / 4 at x. Of each interval of length h chords leave e^((a - pure) / 2) w to either end a of it, w = tanh(h / 4) / 2.

    Args:
        losses: from -pure to pure, increasing, n >= 2.

    References:
        Balle, Barthe, Gaboardi 2018 (1807.01647v2), Theorem 3.
    """
    halves = np.tanh(np.diff(losses) / 4) / 2
    share = np.append(0.5, halves) + np.append(halves, 0.5)
    logs = np.log(share) + (losses - losses[-1]) / 2
    return Atoms(losses=tuple(losses.tolist()), log_masses=tuple(logs.tolist()), other_infinite=0.0)


def laplace_points(pure: float) -> Array:
    """Losses from -pure to pure where chords end: evenly in a small range, in a large one close at its likely ends."""
    if pure <= _EVEN:
        return np.linspace(-pure, pure, _POINTS)
    number = math.ceil(math.log1p(pure / _WIDER) * _WIDER / _NEAREST)
    inward = _WIDER * np.expm1(np.linspace(0.0, math.log1p(pure / _WIDER), number + 1))
    below = inward[:-1] - pure
    return np.concatenate([below, [0.0], -below[::-1]])


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
