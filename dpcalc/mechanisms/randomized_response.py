"""Randomized response: every drawn record answers with its own category, or with another one."""

import math
from dataclasses import dataclass
from typing import ClassVar

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

    def pair(self) -> Atoms:
        """The answers of a record and of the one it is exchanged for; exact, the same both ways."""
        true = self.truth_probability
        false = (1 - true) / (self.categories - 1)
        loss = math.log(true) - math.log(false)
        return Atoms(losses=(-loss, loss), masses=(false, true)) if loss else Atoms(losses=(), masses=())
