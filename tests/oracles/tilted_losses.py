"""Privacy losses drawn at random, and delta estimated from them beside its certified bounds.

Losses are drawn under a tilt, which makes the rare large ones common (importance sampling). This checks composition by
other means: it takes the densities of a pair as they are defined, and shares no code with the grid or with the moments.
Under the tilt z the loss L of a step has the density e^{z L - K(z)} with respect to its own distribution, so that over
a whole run

    delta(epsilon) = E_tilted[ e^{K - z S} (1 - e^{epsilon - S})_+ ] + Pr[S infinite],

S the sum of the losses and K the sum of the K(z); the number inside is at most e^{K - z epsilon} z^z / (z + 1)^(z + 1).
Parts so rare that they cannot matter are truncated, because under the tilt nothing else would be drawn; they add at
most their probability to delta. Points are drawn from cells that lie above the tilted density by the largest slope its
logarithm can have in them, and accepted with the ratio of the two (von Neumann's rejection): no error but that of the
tails, below 1e-20 of the mass.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpcalc.accountants.rdp import best_delta
from dpcalc.audit.laws import mean_interval
from dpcalc.losses.moments import PublicDraw, segment_ends
from dpcalc.losses.pair import MixturePair
from dpcalc.numerics import gauss_legendre_panels, normal_cdf
from dpcalc.records import dataclass

Array, IntArray = NDArray[np.float64], NDArray[np.int64]
Ends = tuple[float, float]

# Tilted losses of one step.


# Tilted densities this far below the largest, in logarithms, are not drawn: e^-50 is 2e-22 of it.
_NEGLIGIBLE_LOG = 50.0
# Largest excess of a cell over the log density in it; ten times more would reject two of three points.
_MAX_CELL_SLACK = 0.1
# Cells of one segment, 16 MB an array; with fewer of them more points are rejected, nothing else.
_MAX_CELLS = 2_000_000
_CHUNK = 500_000  # losses drawn together, 4 MB an array
_ALMOST_ONE = 1 - 1e-16  # largest probability of which log1p(-p) is taken


@dataclass(frozen=True)
class TiltedStep:
    """One step under a tilt, prepared for drawing its losses."""

    tilt: float  # z
    log_norm: float  # K(z) = log E[e^{z L}], of the finite losses that are not truncated
    infinity_mass: float  # probability of an infinite loss
    truncated_mass: float  # upper bound on the probability of the losses that are not drawn
    segments: tuple  # of the curve, those that are not truncated
    owner: IntArray  # index in `segments` of each cell, shape (cells,)
    low: Array  # left end of each cell, shape (cells,)
    width: Array  # of each cell, shape (cells,)
    ceiling: Array  # log of an upper bound on the tilted density in each cell, shape (cells,)
    atoms: Array  # single values of the loss, 0 the last of them, shape (atoms,)
    # running sums of the masses of the cells and then of the atoms, over their total, shape (cells + atoms,)
    cumulative: Array

    def draw_sums(self, copies: IntArray, rng: Generator) -> Array:
        """Return the sum of copies[i] tilted losses for each run i, drawn by rejection sampling; shape (runs,)."""
        sums = np.zeros(copies.size)
        ends = np.cumsum(copies)
        # Losses of all runs are drawn in one row; those that are rejected are drawn again in the next chunk.
        start, number = 0, int(copies.sum())
        while start < number:
            losses = self._accepted_losses(min(_CHUNK, number - start), rng)
            runs = np.searchsorted(ends, np.arange(start, start + losses.size), side="right")
            sums += np.bincount(runs, weights=losses, minlength=copies.size)
            start += losses.size
        return sums

    def _accepted_losses(self, number: int, rng: Generator) -> Array:
        """Draw `number` points by rejection sampling and return the tilted losses of those accepted, perhaps none."""
        # A cell or an atom by its share of the mass under the ceilings, then a point in the cell, then acceptance.
        drawn = np.searchsorted(self.cumulative, rng.random(number), side="right")
        is_atom = drawn >= self.low.size
        losses = np.zeros(number)
        losses[is_atom] = self.atoms[drawn[is_atom] - self.low.size]
        accepted = is_atom
        log_uniform = np.log(rng.random(number))
        owner = np.append(self.owner, -1)[np.minimum(drawn, self.low.size)]
        for index, segment in enumerate(self.segments):
            members = np.flatnonzero(owner == index)
            cell = drawn[members]
            y = self.low[cell] + self.width[cell] * rng.random(members.size)
            log_density, losses[members] = _tilted_log_density(segment, y, self.tilt)
            accepted[members] = log_uniform[members] <= log_density - self.ceiling[cell]
        return losses[accepted]


@dataclass(frozen=True)
class TiltedSubsample:
    """Steps that share one revealed draw, under a tilt: with a probability all of their losses, else 0."""

    log_norm: float  # K(z) of the sum of the losses
    infinity_mass: float  # probability that any of the losses is infinite
    truncated_mass: float  # upper bound on the probability of the losses that are not drawn
    hit_probability: float  # probability of the draw under the tilt
    # (tilted step, number of times it occurs under one draw)
    steps: "tuple[tuple[TiltedStep | TiltedSubsample, int], ...]"

    def draw_sums(self, copies: IntArray, rng: Generator) -> Array:
        """Return the sum of tilted losses over copies[i] draws for each run i; a draw that misses adds 0."""
        hits = rng.binomial(copies, self.hit_probability)
        sums = np.zeros(copies.size)
        for step, count in self.steps:
            sums += step.draw_sums(count * hits, rng)
        return sums


Tilted = TiltedStep | TiltedSubsample


def tilt_curve(curve, *, tilt: float, truncated_mass: float) -> Tilted:
    """Return a curve under a tilt, prepared for drawing its losses."""
    if isinstance(curve, PublicDraw):
        steps = tuple((tilt_curve(x, tilt=tilt, truncated_mass=truncated_mass), count) for x, count in curve.counts)
        # E[e^{zL}] = 1 - rate + rate * (product of the steps' moments); the share of the second term is the probability
        # of the draw under the tilt.
        log_hit = math.log(curve.rate) + math.fsum(count * step.log_norm for step, count in steps)
        log_norm = float(np.logaddexp(math.log1p(-curve.rate), log_hit))
        return TiltedSubsample(
            log_norm=log_norm,
            infinity_mass=curve.rate * any_infinite(steps),
            truncated_mass=curve.rate * math.fsum(count * step.truncated_mass for step, count in steps),
            hit_probability=math.exp(log_hit - log_norm),
            steps=steps,
        )
    # Cells with ceilings above the tilted density, on what is left of each segment, then atoms, of which loss 0 is one.
    segments, edges, ceilings, integrals = [], [], [np.zeros(0)], []
    for segment in curve.segments:
        ends = _cell_edges(segment, tilt, truncated_mass) if segment.weight > truncated_mass else np.zeros(0)
        if not ends.size:
            continue
        # The density in the middle of a cell, and the largest slope times half its width.
        slope = _max_slope(segment.pair, np.maximum(np.abs(ends[:-1]), np.abs(ends[1:])), tilt)
        log_density, _ = _tilted_log_density(segment, (ends[:-1] + ends[1:]) / 2, tilt)
        nodes, log_weights = gauss_legendre_panels(ends, order=6)
        segments.append(segment)
        edges.append(ends)
        ceilings.append(log_density + slope * np.diff(ends) / 2)
        integrals.append(_log_sum_exp(_tilted_log_density(segment, nodes, tilt)[0] + log_weights))
    values, logs = curve.losses, curve.log_masses
    atoms = np.array([*values, 0.0])
    with np.errstate(divide="ignore"):
        log_masses = np.append(np.array(logs), np.log(curve.zero_loss_mass)) + tilt * atoms
    ceiling, width = np.concatenate(ceilings), np.concatenate([np.zeros(0), *map(np.diff, edges)])
    # Masses are scaled by the largest, since under a large tilt none of them is a float.
    top = max(float(ceiling.max(initial=0.0)), float(log_masses.max()))
    cumulative = np.cumsum(np.concatenate([np.exp(ceiling - top) * width, np.exp(log_masses - top)]))
    return TiltedStep(
        tilt=tilt,
        log_norm=_log_sum_exp(np.array([*log_masses, *integrals])),
        infinity_mass=curve.infinity_mass,
        truncated_mass=2 * truncated_mass * len(curve.segments),
        segments=tuple(segments),
        owner=np.repeat(np.arange(len(edges)), np.array([ends.size - 1 for ends in edges], dtype=np.int64)),
        low=np.concatenate([np.zeros(0), *(ends[:-1] for ends in edges)]),
        width=width,
        ceiling=ceiling,
        atoms=atoms,
        cumulative=cumulative / cumulative[-1],
    )


def any_infinite(steps: Iterable[tuple[Tilted, int]]) -> float:
    """Return the probability that any loss of the steps is infinite; `steps` are (step, count)."""
    return -math.expm1(math.fsum(count * math.log1p(-min(step.infinity_mass, _ALMOST_ONE)) for step, count in steps))


def _tilted_log_density(segment, y: Array, tilt: float) -> tuple[Array, Array]:
    """Return (log of weight * P density * e^{z L}, privacy loss L) at the points y, shape of `y` each."""
    pair = segment.pair
    log_p, log_q = _log_density(pair, pair.weights_p, y), _log_density(pair, pair.weights_q, y)
    loss = log_p - log_q
    return math.log(segment.weight) + log_p + tilt * loss, loss


def _log_density(pair: MixturePair, weights: tuple[float, ...], y: Array) -> Array:
    """Return log sum_i weights[i] N(y; c_i, sigma^2), c_i the centers of the pair, shape of `y`."""
    used = [(weight, c) for weight, c in zip(weights, pair.centers, strict=True) if weight]
    exponents = [(2 * c * y - c * c) / (2 * pair.deviation**2) for _, c in used]
    top = exponents[0]
    for exponent in exponents[1:]:
        top = np.maximum(top, exponent)
    total = sum(weight * np.exp(exponent - top) for (weight, _), exponent in zip(used, exponents, strict=True))
    base = math.log(pair.deviation * math.sqrt(2 * math.pi))
    return np.asarray(np.log(total) + top - y * y / (2 * pair.deviation**2) - base)


def _cell_edges(segment, tilt: float, truncated_mass: float) -> Array:
    """Return edges of equal cells, narrow enough for close ceilings, on the untruncated part of a segment, if any."""
    pair = segment.pair
    reach = tilt * pair.span + 12 * pair.deviation  # beyond it the tilted density is negligible
    low, high = pair.centers[0] - reach, min(pair.centers[-1] + reach, segment.high)
    if truncated_mass:
        low = max(low, _lower_quantile(pair, truncated_mass / segment.weight))
        high = min(high, -_lower_quantile(pair.mirrored, truncated_mass / segment.weight))
    if low >= high:
        return np.zeros(0)
    # Where the tilted density exceeds e^-50 of its maximum, outwards on a coarse grid.
    coarse = np.linspace(low, high, min(_MAX_CELLS, 8 + int(8 * (high - low) / pair.deviation)))
    log_density, _ = _tilted_log_density(segment, coarse, tilt)
    near = np.flatnonzero(log_density > log_density.max() - _NEGLIGIBLE_LOG)
    low, high = float(coarse[max(near[0] - 1, 0)]), float(coarse[min(near[-1] + 1, coarse.size - 1)])
    # A ceiling exceeds the log density by at most slope * width, whose half is on either side of the cell's middle.
    width = 2 * _MAX_CELL_SLACK / _max_slope(pair, max(abs(low), abs(high)), tilt)
    return np.linspace(low, high, min(_MAX_CELLS, 2 + int((high - low) / width)))


def _lower_quantile(pair: MixturePair, mass: float) -> float:
    """Return the point below which P has this mass, rounded down, by bisection."""
    # Not `pair.lower_quantile`, which the grid uses: the check shares no code with what it checks.
    low, high = pair.centers[0] - 40 * pair.deviation, pair.centers[-1] + 40 * pair.deviation
    for _ in range(60):
        middle = (low + high) / 2
        below = (
            weight * normal_cdf((middle - center) / pair.deviation)
            for center, weight in zip(pair.centers, pair.weights_p, strict=True)
        )
        low, high = (middle, high) if math.fsum(below) <= mass else (low, middle)
    return low


def _max_slope(pair: MixturePair, max_distance: float | Array, tilt: float) -> float | Array:
    """Return an upper bound on the absolute slope of log P + z L, L = log P/Q, at every y with |y| <= max_distance."""
    # The slope of a mixture's log density is (c - y) / sigma^2 with c a mean of the centers, so that of (1 + z) log P -
    # z log Q is (-y + (1 + z) c_P - z c_Q) / sigma^2.
    low, high = pair.centers[0], pair.centers[-1]
    return (max_distance + max(abs(low), abs(high)) + tilt * (high - low)) / pair.deviation**2


def _log_sum_exp(x: Array) -> float:
    """Return the log of the sum of e^x over a nonempty array."""
    top = float(x.max())
    return top + math.log(float(np.exp(x - top).sum()))


# Delta of a whole run, estimated from tilted losses.


_TRUNCATED_SHARE = 1e-4  # share of delta that truncated losses may have; the interval is wider by it
_MAX_TILT = 1000.0  # larger tilts do not make the estimate better


def drawn_delta(counts: dict, *, epsilon: float, delta: float, runs: int, doubt: float) -> Ends:
    """Return an interval of delta at epsilon that misses with probability `doubt`; `delta` is about what it is."""
    # The tilt z gives the smallest RDP bound on delta: at the best order the tilted sum has the mean
    # K'(z) = epsilon + log(1 + 1/z), so that losses above epsilon are common.
    truncated_mass = _TRUNCATED_SHARE * delta / segment_ends(counts)
    z = min(best_delta(counts, epsilon=epsilon, truncated_mass=truncated_mass).order, _MAX_TILT)
    steps = [(tilt_curve(curve, tilt=z, truncated_mass=truncated_mass), count) for curve, count in counts.items()]
    log_norm = math.fsum(count * step.log_norm for step, count in steps)
    # Divided by their largest possible value the weights lie in [0, 1], as `mean_interval` needs it.
    log_max = log_norm - z * epsilon - z * math.log1p(1 / z) - math.log1p(z)
    rng = np.random.default_rng(11)
    sums = sum((step.draw_sums(np.full(runs, count), rng) for step, count in steps), np.zeros(runs))
    above = sums[sums > epsilon]
    weights = np.exp(log_norm - z * above - log_max) * -np.expm1(epsilon - above)
    low, high = mean_interval(float(weights.sum()) / runs, runs, miss_probability=doubt)
    infinity_mass, max_weight = any_infinite(steps), math.exp(min(log_max, 700.0))
    truncated = math.fsum(count * step.truncated_mass for step, count in steps)  # only the upper end covers these
    return low * max_weight + infinity_mass, min(1.0, high * max_weight + infinity_mass + truncated)
