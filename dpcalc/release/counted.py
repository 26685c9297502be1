"""The one-step bound where it depends on how many copies or members H of what is protected are in the batch.

Groups of units, draws with replacement, constructed episodes and random numbers of contributions: H is 0 where nothing
protected was drawn. Where nobody stands in for what was not drawn, D and D' are mixtures over H on one line

    sum_h Pr[H = h] N(s h)   against   N(0);      replace-one:   sum_h Pr[H = h] N(m h)   against   the same of N(-m h),

and where somebody does (draws of a fixed size, D and D' both in the frame), given H >= 1 advanced joint convexity as in
`bounds` leaves, with eta = Pr[H >= 1], the average over h >= 1 of (K) with inclusion eta, shift s h and distance d h:

    delta(eps) = sum_{h >= 1} Pr[H = h] H_{e^eps0}(N(0) || (1 - b) N(d h) + b N(s h)).

All of these grow with H in stochastic order, because (K) grows with every distance and mixtures of Gaussians on one
line are ordered by likelihood ratio. Draws of the levels above are revealed: their law is the same in D and D', so a
reader who is told gets at least as much, and the profile is the average over what was told.
Sources: Schuchardt et al. 2024 (2403.04867) for groups under one draw; the rest follows the proof in `bounds`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from dpcalc.adjacency import Adjacency
from dpcalc.release.bounds import StepBound
from dpcalc.sampling.laws import Law, at_least_one, put_together


@dataclass(frozen=True, kw_only=True)
class CountPair:
    """A pair of mixtures over H, nobody standing in.

    Attributes:
        law: (h, Pr[H = h]), ascending.
        shift: s, what one more of H moves the mean by, in clip norms.
        both_ways: whether H moves the mean of D' as far to the other side (replace-one); s is then the sum of both.
    """

    law: tuple[tuple[int, Fraction], ...]
    shift: int
    both_ways: bool

    @property
    def most(self) -> int:
        """The largest shift of the mean."""
        return self.shift * self.law[-1][0]

    @property
    def inclusion(self) -> Fraction:
        """Probability that H is not 0."""
        return at_least_one(dict(self.law))

    @property
    def distances(self) -> tuple[int, ...]:
        """The distance to a batch without what is protected, for one of H."""
        return (self.shift,)

    @property
    def distances_swapped(self) -> tuple[int, ...]:
        """The same from D'."""
        return (self.shift if self.both_ways else 0,)


Part = StepBound | CountPair
_UNIT = 2**1600  # in whole multiples of its inverse are chances of parts added, rounded up
_MOST_PARTS = 64  # of an average, each of which is integrated by itself


@dataclass(frozen=True, kw_only=True)
class Average:
    """One of several bounds, by a draw that is revealed; no release in the rest of the cases.

    Attributes:
        parts: (probability > 0, bound).
    """

    parts: tuple[tuple[Fraction, StepBound | CountPair], ...]

    @property
    def inclusion(self) -> Fraction:
        """Probability that a step draws anything that is protected."""
        return sum((chance * bound.inclusion for chance, bound in self.parts), start=Fraction(0))

    @property
    def shift(self) -> int:
        """The largest s."""
        return max(bound.shift for _, bound in self.parts)

    @property
    def distances(self) -> tuple[int, ...]:
        """The largest distance of any part."""
        return (max(distance for _, bound in self.parts for distance in bound.distances),)

    @property
    def distances_swapped(self) -> tuple[int, ...]:
        """The same from D'."""
        return (max(distance for _, bound in self.parts for distance in bound.distances_swapped),)


Bound = StepBound | CountPair | Average


def always(bound: Bound) -> StepBound | CountPair:
    """The bound of a step that is known to hold what is protected, as much of it as can be: no amplification."""
    match bound:
        case StepBound():
            return replace(bound, inclusion=Fraction(1), missed=tuple(Fraction(0) for _ in bound.missed))
        case CountPair(law=law):
            return replace(bound, law=((law[-1][0], Fraction(1)),))
        case Average(parts=parts):
            return max((always(one) for _, one in parts), key=lambda one: one.most)


@dataclass(frozen=True, kw_only=True)
class Member:
    """What one of H does to the batch.

    Attributes:
        own: its clipped contributions at most; 2 stands for a clipped vector above it that it can turn around.
        stand_in: the same for whoever is drawn in its place; None where nobody is, 0 where nobody could be.
        adjacency: the relation.
    """

    own: int
    stand_in: int | None
    adjacency: Adjacency

    @property
    def shift(self) -> int:
        """How far it moves the mean of a batch that holds it."""
        match self.adjacency:
            case Adjacency.ADD_REMOVE:
                return self.distance
            case Adjacency.ZERO_OUT:
                return self.own
            case Adjacency.REPLACE_ONE:
                return 2 * self.own

    @property
    def distance(self) -> int:
        """How far a batch is that misses it."""
        return self.own + (self.stand_in or 0)

    def bound(self, contexts: Iterable[tuple[Fraction, Law]]) -> Bound:
        """The one-step bound.

        Args:
            contexts: (probability, law of H given it) of what a step reveals; probabilities sum to at most 1.
        """
        parts = tuple(
            (chance * share, bound)
            for chance, law in contexts
            if chance and at_least_one(law)
            for share, bound in self._given(put_together(law))
        )
        parts = _fewer(parts)
        return parts[0][1] if len(parts) == 1 and parts[0][0] == 1 else Average(parts=parts)

    def _given(self, law: Law) -> list[tuple[Fraction, StepBound | CountPair]]:
        """(share, bound) for one law of H."""
        if self.adjacency is Adjacency.ADD_REMOVE or self.stand_in is None:
            both = self.adjacency is Adjacency.REPLACE_ONE
            return [(Fraction(1), _pair(law, self.shift, both_ways=both))]
        near_swapped = self.stand_in if self.adjacency is Adjacency.ZERO_OUT else self.distance
        return averaged(law, shift=self.shift, near=self.distance, near_swapped=near_swapped)


def _fewer(parts: tuple[tuple[Fraction, Part], ...]) -> tuple[tuple[Fraction, Part], ...]:
    """An upper bound with few parts: of neighbours the largest distances and inclusion; the likeliest are not moved.

    (K) grows with every distance and with the inclusion. All parts are of one kind, with one level.
    """
    told = [(float(chance), chance, one) for chance, one in parts if isinstance(one, StepBound)]
    if len(told) <= _MOST_PARTS or len(told) < len(parts):
        return parts
    # Probabilities may have thousands of digits, and are those of a few contexts: each is rounded once.
    nearest = {id(exact): float(exact) for exact in {id(one.inclusion): one.inclusion for _, _, one in told}.values()}
    told.sort(key=lambda part: (part[2].shift, nearest[id(part[2].inclusion)]))
    likely = sorted((rounded for rounded, _, _ in told), reverse=True)[_MOST_PARTS // 2]
    rest = [(chance, one) for rounded, chance, one in told if rounded <= likely]
    found: list[tuple[Fraction, Part]] = [(chance, one) for rounded, chance, one in told if rounded > likely]
    width = -(-len(rest) // (_MOST_PARTS // 2))
    for start in range(0, len(rest), width):
        some = rest[start : start + width]
        inclusion = min(Fraction(1), Fraction(math.nextafter(max(nearest[id(one.inclusion)] for _, one in some), 2.0)))
        largest = some[-1][1]  # of the shifts, and of the distances, which are multiples of it
        chance = Fraction(sum(-(-share.numerator * _UNIT // share.denominator) for share, _ in some), _UNIT)
        found.append((chance, replace(largest, inclusion=inclusion, missed=(1 - inclusion,))))
    return tuple(found)


def averaged(law: Law, *, shift: int, near: int, near_swapped: int) -> list[tuple[Fraction, StepBound | CountPair]]:
    """(share, bound): the average over h >= 1 of (K) with distances h times those given."""
    inclusion = at_least_one(law)
    return [
        (
            chance / inclusion,
            StepBound(
                inclusion=inclusion,
                shift=shift * h,
                missed=(1 - inclusion,),
                distances=(near * h,),
                distances_swapped=(near_swapped * h,),
            ),
        )
        for h, chance in sorted(law.items())
        if h
    ]


def _pair(law: Law, shift: int, *, both_ways: bool) -> CountPair:
    """The mixtures over H."""
    return CountPair(law=tuple(sorted(law.items())), shift=shift, both_ways=both_ways)
