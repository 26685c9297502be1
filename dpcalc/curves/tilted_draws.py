"""Privacy losses drawn at random, under a tilt that makes the rare large ones common.

An oracle for composition: it takes the densities of a pair as they are defined, and shares no code with the lattice or
with the moments. Under the tilt z the loss L of a step has the density e^{z L - K(z)} with respect to its own law, so
that over a whole run

    delta(epsilon) = E_tilted[ e^{K - z S} (1 - e^{epsilon - S})_+ ],

S the sum of the losses and K the sum of the K(z); the number inside is at most e^{K - z epsilon} z^z / (z + 1)^(z + 1).
Points are drawn from cells that lie above the tilted density by the largest slope its logarithm can have in them, and
kept with the ratio of the two (von Neumann's rejection): no error but that of the tails, below 1e-20 of the mass.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcalc.curves.dominating_pair import MixturePair, Segment
from dpcalc.curves.held import Held
from dpcalc.curves.loss_moments import Curve, LossCurve
from dpcalc.curves.rdp_curve import RdpCurve
from dpcalc.errors import UnsupportedError
from dpcalc.numerics.quadrature import panels_between

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

_NEGLIGIBLE = 50.0  # a log density this far below the largest
_SLACK = 0.1  # of the log density within a cell
_MOST_CELLS = 2_000_000
_AT_ONCE = 500_000  # losses drawn together


@dataclass(frozen=True)
class TiltedStep:
    """One step under a tilt.

    Attributes:
        tilt: z.
        log_norm: K(z) = log E[e^{z L}].
        segments: of the curve.
        owner: number of the segment of each cell.
        low: left end of each cell.
        width: of each cell.
        ceiling: log of an upper end of the tilted density in each cell.
        heap: sums of the cells' masses up to each one, with that of loss 0 at the end, over their total.
    """

    tilt: float
    log_norm: float
    segments: tuple[Segment, ...]
    owner: Whole
    low: Array
    width: Array
    ceiling: Array
    heap: Array

    def sums(self, copies: Whole, rng: Generator) -> Array:
        """For each number of copies the sum of as many independent tilted losses."""
        total = np.zeros(copies.size)
        ends = np.cumsum(copies)
        start, number = 0, int(copies.sum())
        while start < number:
            losses = self._losses(min(_AT_ONCE, number - start), rng)
            runs = np.searchsorted(ends, np.arange(start, start + losses.size), side="right")
            total += np.bincount(runs, weights=losses, minlength=copies.size)
            start += losses.size
        return total

    def _losses(self, number: int, rng: Generator) -> Array:
        """At least one and at most `number` tilted losses."""
        cell = np.searchsorted(self.heap, rng.random(number), side="right")
        losses = np.zeros(number)
        kept = cell >= self.low.size  # loss 0
        luck = np.log(rng.random(number))
        for at, segment in enumerate(self.segments):
            here = np.flatnonzero((cell < self.low.size) & (np.append(self.owner, -1)[cell] == at))
            own = cell[here]
            y = self.low[own] + self.width[own] * rng.random(here.size)
            density, losses[here] = _tilted(segment, y, self.tilt)
            kept[here] = luck[here] <= density - self.ceiling[own]
        return losses[kept]


@dataclass(frozen=True)
class TiltedHeld:
    """Steps under a held draw: their losses with a probability, else 0.

    Attributes:
        tilt: z.
        log_norm: K(z).
        hit: probability of the draw under the tilt.
        steps: (one tilted step, how often).
    """

    tilt: float
    log_norm: float
    hit: float
    steps: "tuple[tuple[TiltedStep | TiltedHeld, int], ...]"

    def sums(self, copies: Whole, rng: Generator) -> Array:
        """As `TiltedStep.sums`."""
        hits = rng.binomial(copies, self.hit)
        total = np.zeros(copies.size)
        for step, count in self.steps:
            total += step.sums(count * hits, rng)
        return total


def tilted(curve: Curve, *, tilt: float) -> TiltedStep | TiltedHeld:
    """A step under a tilt z > 0.

    Raises:
        UnsupportedError: for a step that is not made of Gaussian mixtures.
    """
    if isinstance(curve, RdpCurve) or (not isinstance(curve, Held) and curve.atoms[0]):
        raise UnsupportedError("losses: expected steps with Gaussian noise to be drawn from, got another mechanism")
    if not isinstance(curve, Held):
        return _tilted_step(curve, tilt)
    steps = tuple((tilted(inner, tilt=tilt), count) for inner, count in curve.counts)
    inside = math.fsum(count * step.log_norm for step, count in steps)
    drawn = math.log(curve.rate) + inside
    log_norm = float(np.logaddexp(math.log1p(-curve.rate), drawn))
    return TiltedHeld(tilt=tilt, log_norm=log_norm, hit=math.exp(drawn - log_norm), steps=steps)


def _tilted_step(curve: LossCurve, tilt: float) -> TiltedStep:
    """Cells above the tilted density of every segment."""
    edges = [_edges(segment, tilt) for segment in curve.segments]
    mass = curve.at_zero
    log_masses = [math.log(mass)] if mass > 0 else []
    ceilings = []
    for segment, ends in zip(curve.segments, edges, strict=True):
        nodes, log_weights = panels_between(ends, order=6)
        log_masses.append(_log_sum(_tilted(segment, nodes, tilt)[0] + log_weights))
        ceilings.append(_ceiling(segment, ends, tilt))
    ceiling = np.concatenate(ceilings)
    width = np.concatenate([np.diff(ends) for ends in edges])
    top = max(float(ceiling.max()), 0.0)
    heap = np.append(np.exp(ceiling - top) * width, mass * math.exp(-top))
    return TiltedStep(
        tilt=tilt,
        log_norm=_log_sum(np.array(log_masses)),
        segments=curve.segments,
        owner=np.repeat(np.arange(len(edges)), [ends.size - 1 for ends in edges]),
        low=np.concatenate([ends[:-1] for ends in edges]),
        width=width,
        ceiling=ceiling,
        heap=np.cumsum(heap) / heap.sum(),
    )


def _tilted(segment: Segment, y: Array, tilt: float) -> tuple[Array, Array]:
    """(log of P's density times e^{z L}, L) at some points."""
    pair = segment.pair
    log_p, log_q = _log_density(pair, pair.weights_p, y), _log_density(pair, pair.weights_q, y)
    loss = log_p - log_q
    return math.log(segment.weight) + log_p + tilt * loss, loss


def _log_density(pair: MixturePair, weights: tuple[float, ...], y: Array) -> Array:
    """Log density of a mixture of normal distributions."""
    used = [(weight, c) for weight, c in zip(weights, pair.centers, strict=True) if weight]
    exponents = [(2 * c * y - c * c) / (2 * pair.deviation**2) for _, c in used]
    top = exponents[0]
    for exponent in exponents[1:]:
        top = np.maximum(top, exponent)
    total = sum(weight * np.exp(exponent - top) for (weight, _), exponent in zip(used, exponents, strict=True))
    base = math.log(pair.deviation * math.sqrt(2 * math.pi))
    return np.asarray(np.log(total) + top - y * y / (2 * pair.deviation**2) - base)


def _edges(segment: Segment, tilt: float) -> Array:
    """Ends of cells that cover all of the tilted density that matters, fine where it is steep."""
    pair = segment.pair
    reach = tilt * pair.span + 12 * pair.deviation
    low, high = pair.centers[0] - reach, min(pair.centers[-1] + reach, segment.high)
    rough = np.linspace(low, high, min(_MOST_CELLS, 8 + int(8 * (high - low) / pair.deviation)))
    density, _ = _tilted(segment, rough, tilt)
    near = np.flatnonzero(density > density.max() - _NEGLIGIBLE)
    low, high = rough[max(near[0] - 1, 0)], rough[min(near[-1] + 1, rough.size - 1)]
    fine = 2 * _SLACK / _steepness(pair, max(abs(low), abs(high)), tilt)
    return np.linspace(low, high, min(_MOST_CELLS, 2 + int((high - low) / fine)))


def _steepness(pair: MixturePair, farthest: float | Array, tilt: float) -> float | Array:
    """Bound on the slope of the log of the tilted density where |y| <= farthest.

    The slope of a mixture's log density is (c - y) / sigma^2 with c a mean of the centers, so that of
    (1 + z) log P - z log Q is (-y + (1 + z) c_P - z c_Q) / sigma^2.
    """
    low, high = pair.centers[0], pair.centers[-1]
    return (farthest + max(abs(low), abs(high)) + tilt * (high - low)) / pair.deviation**2


def _ceiling(segment: Segment, ends: Array, tilt: float) -> Array:
    """Log of an upper end of the tilted density in each cell."""
    middle = (ends[:-1] + ends[1:]) / 2
    steepest = _steepness(segment.pair, np.maximum(np.abs(ends[:-1]), np.abs(ends[1:])), tilt)
    return np.asarray(_tilted(segment, middle, tilt)[0] + steepest * np.diff(ends) / 2)


def _log_sum(x: Array) -> float:
    """Log of a sum of exponentials."""
    top = float(x.max())
    return top + math.log(float(np.exp(x - top).sum()))
