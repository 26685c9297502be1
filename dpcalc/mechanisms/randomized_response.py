"""Randomized response: every drawn record answers with its own category, or with another one."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from dpcalc.curves.atoms import Atoms
from dpcalc.errors import InputError


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
        true = self.truth_probability
        false = (1 - true) / (self.categories - 1)
        loss = math.log(true) - math.log(false)
        if not loss:
            return Atoms(losses=(), masses=())
        one = np.array([false, max(0.0, 1 - true - false) if self.categories > 2 else 0.0, true])
        masses = reduce(np.convolve, [one] * answers)
        losses = loss * np.arange(-answers, answers + 1)
        told = masses > 0
        rest = float(masses[::-1][~told].sum())  # of the other records' answers, where no float holds these
        return Atoms(losses=tuple(losses[told].tolist()), masses=tuple(masses[told].tolist()), other_infinite=rest)
