"""From which loss on the losses of a step need not be told apart, and whether that helps (curves/capped).

Losses far beyond epsilon draw the tilt that suits the moment bound away from it, and the numbers near epsilon lose
their digits. So it is where a few rare losses decide: one of them is beyond epsilon, and by how much hardly matters.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcalc.accountants.conversion import Moments, best_delta
from dpcalc.curves.capped import Gathering, capped, gathered_up
from dpcalc.curves.held import HeldMoments, LogMoments
from dpcalc.curves.loss_moments import Curve, LossMoments

Array = NDArray[np.float64]

_MARGINS = 2.0 ** np.arange(-20, 4.5, 0.5)  # distances from epsilon that are tried
_RARE = 1e-6  # expected number of losses that take back more than the distance
_DEVIATIONS = 5.0  # of the small losses, which take back more as rarely
_PER_MARGIN = 8  # lattice points of the limit in the distance, at least
_FAR = 1e3  # times delta: a moment bound that says little of it
_NEARER = 0.1  # of the moment bound, with the far losses gathered
_HUGE = 600.0  # exponent that leaves room for sums


@dataclass(frozen=True)
class Losses:
    """How often each loss is expected in a composition.

    Attributes:
        number: expected number, shape (n,).
        loss: increasing, shape (n,).
    """

    number: Array
    loss: Array

    @classmethod
    def of(cls, moments: Moments) -> "Losses":
        """Those at the quadrature nodes of the moments."""
        parts = [(np.zeros(0), np.zeros(0)), *_expected(moments.parts, 1.0)]
        number, loss = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        order = np.argsort(loss)
        return cls(number[order], loss[order])

    def margin(self) -> float:
        """How far beyond epsilon one loss must be for what the others take back not to matter; about."""
        order = np.argsort(np.abs(self.loss))
        number, loss = self.number[order], self.loss[order]
        within = np.searchsorted(np.abs(loss), _MARGINS)
        variance = np.append(0.0, np.cumsum(number * loss**2))[within]
        back = np.where(loss < 0, number, 0.0)
        beyond = float(back.sum()) - np.append(0.0, np.cumsum(back))[within]
        enough = (beyond < _RARE) & (_DEVIATIONS * np.sqrt(variance) + variance / 2 < _MARGINS)
        return float(_MARGINS[int(np.argmax(enough))]) if enough.any() else float(_MARGINS[-1])

    def alone(self, delta: float) -> float:
        """Epsilon if no two losses mattered together: where the expected excess of single losses is delta; about."""
        number, loss = self.number[self.loss > 0], self.loss[self.loss > 0]
        above = np.cumsum(number[::-1])[::-1]
        gone = np.cumsum((number * np.exp(-loss))[::-1])[::-1]
        beyond = np.flatnonzero(above - np.exp(np.minimum(loss, _HUGE)) * gone > delta)
        return float(loss[beyond[-1]]) if beyond.size else 0.0


def _expected(parts: Iterable[tuple[LogMoments, int]], rate: float) -> Iterable[tuple[Array, Array]]:
    """(how often it is met, loss) of every node."""
    for moments, count in parts:
        if isinstance(moments, HeldMoments):
            yield from _expected(moments.parts, rate * moments.rate * count)
        elif isinstance(moments, LossMoments):
            yield rate * count * np.exp(moments.log_mass), moments.loss


@dataclass(frozen=True, kw_only=True)
class Rare:
    """A composition in which a few rare losses decide.

    Attributes:
        counts: steps of one direction and how often each occurs.
        delta: in (0, 1).
        neglect: P mass a step may leave out at each end of each segment.
        most: an upper bound of epsilon.
        away: how far beyond epsilon a loss must be to be gathered.
        guess: of epsilon.
    """

    counts: dict[Curve, int]
    delta: float
    neglect: float
    most: float
    away: float
    guess: float

    def gathered(self, epsilon: float, gather: Gathering) -> dict[Curve, int]:
        """The steps with all losses gathered that are beyond an epsilon by more than the others take back."""
        unit = 2.0 ** math.floor(math.log2(self.away / _PER_MARGIN))
        limit = unit * math.ceil((epsilon + self.away) / unit)  # a point of every lattice that is fine enough
        found: dict[Curve, int] = {}
        for curve, count in self.counts.items():
            one = capped(curve, limit, gather, least=self.neglect)
            found[one] = found.get(one, 0) + count
        return found


def rare(counts: dict[Curve, int], moments: Moments, *, delta: float, neglect: float, most: float) -> Rare | None:
    """The composition, if a few rare losses decide.

    So it is where the moment bound at the epsilon of single losses is far above delta, and much less so when what lies
    beyond is gathered.

    Args:
        counts: steps and how often each occurs, not empty.
        moments: theirs.
        delta: in (0, 1).
        neglect: P mass a step may leave out at each end of each segment.
        most: an upper bound of epsilon.
    """
    losses = Losses.of(moments)
    if not losses.loss.size or losses.loss[-1] <= 0:
        return None
    guess = losses.alone(delta)
    if not 0 < guess < min(most, float(losses.loss[-1])):
        return None
    found = Rare(counts=counts, delta=delta, neglect=neglect, most=most, away=losses.margin(), guess=guess)
    if guess + found.away >= min(most, float(losses.loss[-1])):
        return None
    plain = best_delta(counts, epsilon=guess, neglect=neglect).value
    if plain < _FAR * delta:
        return None
    few = best_delta(found.gathered(guess, gathered_up), epsilon=guess, neglect=neglect).value
    return found if few < _NEARER * plain else None
