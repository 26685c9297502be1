"""Randomized response: every drawn record answers with its own category, or with another one."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.atoms import Atoms
from dpcalc.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse:
    """The answer is true with one probability, else one of the other categories, each alike; for exchanged records.

    Attributes:
        truth_probability: at least 1 / categories, below 1.
        categories: k >= 2.
    """

    name: ClassVar[str] = "randomized-response"
    truth_probability: float
    categories: int = 2

    def __post_init__(self) -> None:
        """Refuse what answers no question, and what always tells the truth."""
        if self.categories < 2:
            raise InputError(f"categories: expected a whole number >= 2, got {self.categories}")
        if not 1 / self.categories <= self.truth_probability < 1:
            least = 1 / self.categories
            raise InputError(
                f"truth_probability: expected a number from {least:g} to 1, 1 excluded, got {self.truth_probability!r}"
            )

    def pair(self, answers: int = 1) -> Atoms:
        """The answers of some records and of those they are exchanged for; exact, the same both ways.

        Args:
            answers: independent ones, >= 1: each has the loss l if it is true, -l if it is that of the other record,
                else 0, so that the sum lies on a lattice.
        """
        loss = math.log(self.truth_probability * (self.categories - 1) / (1 - self.truth_probability))
        true = math.log(self.truth_probability)
        false = math.log1p(-self.truth_probability) - math.log(self.categories - 1)
        if loss <= 0:
            return Atoms(losses=(), log_masses=())
        neither = false + math.log(self.categories - 2) if self.categories > 2 else -math.inf
        logs = _self_convolved(np.array([false, neither, true]), answers)
        losses = loss * np.arange(-answers, answers + 1)
        told = logs > -np.inf
        return Atoms(losses=tuple(losses[told].tolist()), log_masses=tuple(logs[told].tolist()), other_infinite=0.0)


def _self_convolved(logs: Array, copies: int) -> Array:
    """Log masses of the sum of independent copies of a variable on a lattice, copies >= 1."""
    found, square = np.zeros(1), logs
    while True:
        copies, odd = divmod(copies, 2)
        found = _convolved(found, square) if odd else found
        if not copies:
            return found
        square = _convolved(square, square)


def _convolved(a: Array, b: Array) -> Array:
    """Log masses of the sum of two independent variables on a lattice.

    Each sum is taken on the scale of its largest term: masses of hundreds of answers are smaller than any float.
    """
    few, many = sorted((a, b), key=len)
    top = np.full(few.size + many.size - 1, -np.inf)
    for at, value in enumerate(few):
        np.maximum(top[at : at + many.size], value + many, out=top[at : at + many.size])
    scale = np.where(np.isfinite(top), top, 0.0)
    total = np.zeros(top.size)
    for at, value in enumerate(few):
        total[at : at + many.size] += np.exp(value + many - scale[at : at + many.size])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total) + scale, dtype=np.float64)
