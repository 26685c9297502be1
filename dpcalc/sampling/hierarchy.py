"""Nested sampling units, how one step draws them, and the probabilities and counts that follow.

Levels are numbered from 1 (primary sampling units) to `depth` (records); level 0 is everything.
Equal sizes: every unit of level j - 1 holds `count` units of level j. Source: Algorithm 1 of
Tombs, Kotevska and Young 2022 (CEUR Vol-3318 short 3), generalised to a scheme per level.
"""

from dataclasses import dataclass
from fractions import Fraction

from dpcalc.errors import InputError
from dpcalc.sampling.schemes import All, Fixed, Scheme


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of nesting.

    Attributes:
        name: the user's word for its units.
        count: units under each parent, >= 1; for add-remove the count of the larger data set.
        scheme: how one step draws them from each drawn parent.
    """

    name: str
    count: int
    scheme: Scheme

    def __post_init__(self) -> None:
        """Refuse empty levels and draws that cannot exist; a draw of everything is `all`."""
        if self.count < 1:
            raise InputError(f"level {self.name}: expected a count >= 1, got {self.count}")
        if isinstance(self.scheme, Fixed):
            if self.scheme.size > self.count:
                raise InputError(
                    f"level {self.name}: expected a size of at most the count {self.count}, got {self.scheme.size}; "
                    "a draw without replacement cannot hold more than there are"
                )
            if self.scheme.size == self.count:
                object.__setattr__(self, "scheme", All())

    @property
    def rate(self) -> Fraction:
        """Exact probability that one unit is drawn, given its parent is."""
        return self.scheme.rate(self.count)

    @property
    def most_drawn(self) -> int:
        """Most units drawn from one drawn parent."""
        return self.scheme.most_drawn(self.count)


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """The levels, outermost first."""

    levels: tuple[Level, ...]

    def __post_init__(self) -> None:
        """Refuse an empty hierarchy and ambiguous names."""
        names = [level.name for level in self.levels]
        if not names:
            raise InputError("data.levels: expected at least one level, got none")
        if len(set(names)) < len(names):
            raise InputError(f"data.levels: expected different names, got {', '.join(names)}")

    @property
    def depth(self) -> int:
        """Number of levels; the records are level `depth`."""
        return len(self.levels)

    def level(self, number: int) -> Level:
        """The level with a number from 1 to `depth`."""
        return self.levels[number - 1]

    def inclusion(self, number: int) -> Fraction:
        """Exact probability that one step draws a given unit of level `number` (0: certain)."""
        product = Fraction(1)
        for level in self.levels[:number]:
            product *= level.rate
        return product

    def missed(self, number: int) -> Fraction:
        """Exact probability that a unit's parent is drawn and its level-`number` ancestor is not."""
        return self.inclusion(number - 1) * (1 - self.level(number).rate)

    def contributions(self, number: int, clip: int) -> int:
        """Most clipped contributions drawn under one unit of level `number` (theory: m_j).

        Args:
            number: level of the unit, 0 to `depth`.
            clip: level whose vectors are clipped; 0 is the whole batch.

        Returns:
            1 at the clipping level and below, else the product of what the levels between can draw.
        """
        product = 1
        for level in self.levels[number:clip]:
            product *= level.most_drawn
        return product
