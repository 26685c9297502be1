"""How the children of one drawn unit are drawn in one step (Bun et al. 2020, 2007.12674, section 2)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dpcalc.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """`size` of the children, uniformly, without replacement.

    Attributes:
        size: children drawn, a whole number >= 1.
    """

    name: ClassVar[str] = "fixed"
    size: int

    def __post_init__(self) -> None:
        """Refuse an empty or negative draw."""
        if self.size < 1:
            raise InputError(f"size: expected a whole number >= 1, got {self.size}; a draw of nothing trains nothing")

    def rate(self, count: int) -> Fraction:
        """Exact probability that one of `count` children is drawn."""
        return Fraction(self.size, count)

    def most_drawn(self, count: int) -> int:
        """Most children that one draw can contain."""
        return min(self.size, count)


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Each child independently with one probability.

    Attributes:
        probability: exact, in [0, 1].
    """

    name: ClassVar[str] = "poisson"
    probability: Fraction

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        if not 0 <= self.probability <= 1:
            raise InputError(f"rate: expected a probability in [0, 1], got {float(self.probability)!r}")

    def rate(self, count: int) -> Fraction:
        """Exact probability that one child is drawn, whatever the count."""
        del count
        return self.probability

    def most_drawn(self, count: int) -> int:
        """Most children that one draw can contain: all of them."""
        return count


@dataclass(frozen=True, kw_only=True)
class All:
    """Every child, every time."""

    name: ClassVar[str] = "all"

    def rate(self, count: int) -> Fraction:
        """Certainty."""
        del count
        return Fraction(1)

    def most_drawn(self, count: int) -> int:
        """All children."""
        return count


Scheme = Fixed | Poisson | All
SCHEMES: dict[str, type[Scheme]] = {"fixed": Fixed, "poisson": Poisson, "all": All}
