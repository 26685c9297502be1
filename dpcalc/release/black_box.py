"""One step of any mechanism under one random draw, from its profiles alone.

With eta the probability that the unit is drawn, e^eps0 = 1 + (e^eps - 1) / eta and b = e^(eps - eps0), advanced joint
convexity gives for eps >= 0, with delta_rel the profile of the mechanism on the batch for a relation,

    eta delta(eps0)                                         where D' without the unit is the batch that misses it
    eta [(1 - b) delta_missed(eps0) + b delta_same(eps0)]   elsewhere: against a batch that misses the unit, and against
                                                            the same batch with the unit replaced or zeroed.

Draws above the protected level are revealed. For eps < 0 a direction takes what the other one says.
Source: Balle, Barthe, Gaboardi 2018 (1807.01647v2), Theorems 8 to 11.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpcalc.adjacency import Adjacency
from dpcalc.curves.atoms import Atoms, of_profile

_POINTS = 4001  # of a profile at most
_FARTHEST = 14.0  # further down a profile is too close to 1 for its digits; the chord from -inf is taken


@dataclass(frozen=True, kw_only=True)
class BatchPairs:
    """The mechanism on a batch: (with the unit, otherwise) for each way a batch can differ.

    Attributes:
        removed: the unit is not in the batch.
        replaced: another one stands in its place.
        zeroed: it contributes nothing.
    """

    removed: Atoms
    replaced: Atoms
    zeroed: Atoms


def drawn(pairs: BatchPairs, rate: float, *, stand_in: bool, adjacency: Adjacency) -> tuple[Atoms, Atoms]:
    """The step in the directions D||D' and D'||D.

    Args:
        pairs: of the mechanism.
        rate: eta, in (0, 1].
        stand_in: whether somebody is drawn in place of the unit (a draw of a fixed size).
        adjacency: relation between D and D'.

    Returns:
        Upper bounds on the two profiles.
    """
    same = {
        Adjacency.ADD_REMOVE: pairs.replaced if stand_in else pairs.removed,
        Adjacency.ZERO_OUT: pairs.zeroed,
        Adjacency.REPLACE_ONE: pairs.replaced,
    }[adjacency]
    if rate == 1:
        return same, same.swapped
    if adjacency is Adjacency.ADD_REMOVE or (adjacency is Adjacency.ZERO_OUT and not stand_in):
        pair = hidden(same, rate)  # D' draws as D does where it misses the unit
        return pair, pair.swapped
    missed = pairs.replaced if stand_in else pairs.removed
    missed_back = same.swapped if adjacency is Adjacency.ZERO_OUT else missed
    ahead, back = _Mixed(missed=missed, same=same, rate=rate), _Mixed(missed=missed_back, same=same.swapped, rate=rate)
    return _glued(ahead, back), _glued(back, ahead)


def hidden(pair: Atoms, rate: float) -> Atoms:
    """((1 - rate) Q + rate P, Q): losses log(1 - rate + rate e^L); exact."""
    found = {}
    for loss, mass in zip(pair.losses, pair.masses, strict=True):
        other = mass * math.exp(-loss)
        found[_hidden_loss(loss, rate)] = (1 - rate) * other + rate * mass
    if pair.only_other:
        lowest = math.log1p(-rate)
        found[lowest] = found.get(lowest, 0.0) + (1 - rate) * pair.only_other
    losses = sorted(found)
    return Atoms(losses=tuple(losses), masses=tuple(found[x] for x in losses), infinite=rate * pair.infinite)


def _hidden_loss(loss: float, rate: float) -> float:
    """log(1 - rate + rate e^loss)."""
    if loss > 0:
        return loss + math.log(rate + (1 - rate) * math.exp(-loss))
    return math.log1p(rate * math.expm1(loss))


@dataclass(frozen=True)
class _Mixed:
    """eta [(1 - b) delta_missed(eps0) + b delta_same(eps0)] for eps >= 0."""

    missed: Atoms
    same: Atoms
    rate: float

    def delta(self, epsilon: float) -> float:
        """The bound at epsilon >= 0."""
        inner = math.log1p(math.expm1(epsilon) / self.rate) if epsilon < 700 else epsilon - math.log(self.rate)
        share = math.exp(epsilon - inner)  # b
        if self.missed == self.same:
            return self.rate * self.same.delta(inner)
        return self.rate * ((1 - share) * self.missed.delta(inner) + share * self.same.delta(inner))

    @property
    def infinite(self) -> float:
        """What it does not fall below: b falls to the rate."""
        return self.rate * ((1 - self.rate) * self.missed.infinite + self.rate * self.same.infinite)

    @property
    def losses(self) -> set[float]:
        """The positive values of epsilon where it bends."""
        inner = {loss for pair in (self.missed, self.same) for loss in pair.losses if loss > 0}
        return {_hidden_loss(loss, self.rate) for loss in inner}


def _glued(own: _Mixed, other: _Mixed) -> Atoms:
    """The pair of a profile with the sides eps >= 0 of two directions."""

    def delta(epsilon: float) -> float:
        if epsilon >= 0:
            return own.delta(epsilon)
        return max(0.0, -math.expm1(epsilon) + math.exp(epsilon) * other.delta(-epsilon))

    bends = np.array(sorted({0.0, *own.losses, *(-min(loss, _FARTHEST) for loss in other.losses)}))
    if len(bends) > _POINTS:  # chords over several bends lie above the profile too
        bends = bends[np.linspace(0, len(bends) - 1, _POINTS).round().astype(np.int64)]
    return of_profile(delta, bends, own.infinite)
