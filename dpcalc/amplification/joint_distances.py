"""A sharper D||D' for a removed unit under a draw of a fixed size: its mates and a stand-in share one geometry.

(K) takes the distance of each missed batch at its largest. Under a draw of a fixed size the removed unit takes the
place of one of its mates. A mate that is opposite to the unit and a sum of mates that is opposite to the stand-in of an
ancestor exclude each other, so that not all distances are at their largest at once. The bound is the largest value of
an integral over three angles and lengths, found by branch and bound over cells in each of which the integral has a
proved upper bound.

Source: docs/theory.md, Theorem 6.10.
"""

import math
from dataclasses import fields
from fractions import Fraction

import numpy as np

from dpcalc.amplification.bound import StepBound
from dpcalc.guarantee import Adjacency
from dpcalc.losses.loss import Loss, with_chords
from dpcalc.numerics import Array
from dpcalc.records import dataclass
from dpcalc.sampling.paths import Path
from dpcalc.work import ELEMENT, cached_with_cost, spend

MIN_GAIN = 0.05  # of epsilon, below which the bound is not worth its half second
_MIN_NOISE = 0.25  # of the largest contribution: with less noise exponentials of the search overflow
_EPSILONS = 20  # at which the profile is bounded; chords between 16 of them cost .2 % of epsilon more
_SHARES = 0.9, 1e-6  # of (K) at epsilon 0, between which the search is made: beyond them it does not matter
_MORE_EPSILONS, _FAR_SHARE = 60, 1e-12  # values of (K) itself beside them, up to this share
_MATE_CELLS = 24  # of the angle between a mate and the missed batch
_MAX_DISTANCE = 20.0  # deviations to the missed batch
_NODES = 36  # of the law of a likelihood ratio that is integrated
_FIRST_CELLS = 6  # of the unit's angle, and of the missed batch's distance, to begin with
_ROUNDS, _SPLIT = 3, 12  # rounds in each of which the cells with the largest values are cut into four
_THREATS = 0.0, 0.6  # shares of what is missed that are charged to mates by their angle
_ROUNDOFF = 1e-13  # of an integral of terms of about 1; its largest values are 1e-7 and more
_TELLING_SHARES = 0.3, 0.1, 0.03  # of (K) at epsilon 0, where the gain is estimated
_NEARLY = 0.8  # of (K) there, above which the search ends: a profile .8 of another one lowers epsilon by 3 %
_LINES, _POINTS_OF_A_LINE = 9, 400  # data sets on a line, and points of the integral over the noise
_NEARLY_ON_A_LINE = 0.75  # the same for data on a line, which are below the bound: it then lowers epsilon by under 5 %
_LOGS = 5  # transcendental functions of an element


@dataclass(frozen=True, kw_only=True)
class JointStepBound(StepBound):
    """(K), and what is known of the places of the missed batches relative to each other."""

    mates: int  # units of the protected level that are drawn from the frame without the unit, >= 1
    radius: int  # most contributions of the unit and of a mate, >= 1: the length of their sums, in clip norms
    reach: int  # most contributions, other than the mates', that a missed ancestor takes away and its stand-in brings
    missed_chance: Fraction  # v_j of that ancestor


def joint_step_bound(bound: StepBound, path: Path, *, clip: int, adjacency: Adjacency) -> JointStepBound | None:
    """Return (K) with the geometry of its likeliest missed ancestor; None unless a removed unit has one and a stand-in.

    Source: docs/theory.md, Theorem 6.10.
    """
    unit, scheme = len(path.counts), path.schemes[-1]
    if adjacency is not Adjacency.ADD_REMOVE or clip < unit or not scheme.has_stand_in or path.rate(unit) == 1:
        return None
    ancestor = max(range(unit - 1), key=lambda at: bound.missed[at].chance, default=None)
    if ancestor is None or not bound.missed[ancestor].chance:
        return None
    return JointStepBound(
        **{field.name: getattr(bound, field.name) for field in fields(StepBound)},
        mates=scheme.size,
        radius=max(path.contributions[-1], path.siblings[-1]),
        reach=sum(path.mates[ancestor + 1 : unit - 1]) + path.stand_in(ancestor + 1),
        missed_chance=bound.missed[ancestor].chance,
    )


@cached_with_cost(64)
def joint_profile(bound: JointStepBound, plain: Loss) -> Loss:
    """Return an upper profile of (K) that uses the joint distances; `plain` if noise is low or the gain small.

    Source: docs/theory.md, Theorem 6.10.
    """
    deviation = plain.segments[0].pair.deviation
    if deviation < _MIN_NOISE * bound.radius:
        return plain
    at_0 = plain.delta(0.0)
    first, last = (plain.epsilon(share * at_0) for share in _SHARES)
    far = plain.epsilon(_FAR_SHARE * at_0)
    search = _Search(bound, deviation)
    # Data on one line cost no more than the bound, and are quicker: where they cost nearly (K), nothing can be gained.
    telling = [(plain.epsilon(share * at_0), share * at_0) for share in _TELLING_SHARES]
    for value, nearly in ((search.on_a_line, _NEARLY_ON_A_LINE), (search.largest, _NEARLY)):
        if all(value(epsilon) > nearly * delta for epsilon, delta in telling):
            return plain
    deltas = dict.fromkeys([0.0], at_0)
    deltas |= {epsilon: plain.delta(epsilon) for epsilon in np.geomspace(first / 20, far, _MORE_EPSILONS).tolist()}
    for epsilon in np.geomspace(first, last, _EPSILONS).tolist():
        deltas[epsilon] = min(plain.delta(epsilon), search.largest(epsilon))
    return with_chords(plain, deltas)


_Cells = tuple[Array, Array]
"""Least and largest (angle between the unit and the missed batch, distance of that in radii), shape (cells, 2) each."""


class _Search:
    """The supremum of Theorem 6.10 under one noise, by branch and bound. Lengths are in units of the radius.

    A cell holds all unit vectors x, directions and distances of the missed batch of a range. In a cell each angle of
    the mates, cut into cells as well, has an upper bound; the mean over the mates is the largest under the constraint
    on their mean.

    Source: docs/theory.md, Theorem 6.14.
    """

    def __init__(self, bound: JointStepBound, deviation: float) -> None:
        """Prepare a search with lengths relative to the radius and grids of the mates' angle and the noise."""
        self.noise, self.mates = deviation / bound.radius, bound.mates
        self.reach = bound.reach / bound.radius
        self.inclusion = float(bound.inclusion)
        self.near = float((bound.inclusion + bound.missed[-1].chance) / bound.inclusion)
        self.far = float(bound.missed_chance / bound.inclusion)
        ends = np.linspace(math.pi, 0.0, _MATE_CELLS + 1)  # cosines ascend
        self.angles = np.stack([ends[1:], ends[:-1]], axis=1)
        self.low, self.high = np.cos(ends[:-1]), np.cos(ends[1:])
        self.points = np.linspace(-6.5 - 2 / self.noise, 6.0 + 2 / self.noise, _NODES)
        self.pairs = np.triu_indices(_MATE_CELLS, 1)

    def largest(self, epsilon: float) -> float:
        """Return an upper bound on delta at an epsilon > 0, by three rounds of branch and bound; NaN on overflow."""
        # A grid over all angles of the unit from 0 to pi, and distances up to the largest.
        unit, distance = (np.linspace(0.0, end, _FIRST_CELLS + 1) for end in (math.pi, self.reach + self.mates))
        rows, columns = (index.ravel() for index in np.indices((_FIRST_CELLS, _FIRST_CELLS)))
        angles = np.stack([unit[rows], unit[rows + 1]], axis=1)
        cells = angles, np.stack([distance[columns], distance[columns + 1]], axis=1)
        values, kept = self._upper_bounds(cells, math.expm1(epsilon)), np.zeros(1)
        for _ in range(_ROUNDS):
            order = np.argsort(-values)
            kept = np.append(kept, values[order[_SPLIT:]].max(initial=0.0))  # nan stays nan, which is no bound
            split = order[:_SPLIT]
            # Four blocks of all these cells: block k has half k % 2 of the angle and half k // 2 of the distance.
            halves = [np.stack([x[split, 0], x[split].mean(axis=1), x[split, 1]], axis=1) for x in cells]
            unit_halves, distance_halves = ([each[:, :2], each[:, 1:]] for each in halves)
            doubled = [*unit_halves, *unit_halves]
            cells = np.concatenate(doubled), np.concatenate([distance_halves[k // 2] for k in range(4)])
            values = np.minimum(self._upper_bounds(cells, math.expm1(epsilon)), np.tile(values[split], 4))
        return self.inclusion * (float(np.append(kept, values).max()) + _ROUNDOFF)

    def on_a_line(self, epsilon: float) -> float:
        """Return the largest delta of data on one line, over numbers of mates opposite to the unit; not certified."""
        opposite = np.unique(np.linspace(0, min(self.mates, (self.reach + self.mates) // 2), _LINES).round())[:, None]
        y = np.linspace(-8 - 2 / self.noise, 8.0, _POINTS_OF_A_LINE)
        lengths = np.array([[-2.0]]), self.reach + self.mates - 2 * opposite
        near, far = (np.exp(np.minimum((y - x / self.noise / 2) * x / self.noise, 700.0)) for x in lengths)
        paid = math.expm1(epsilon) * (self.near + self.far * far)
        gained = np.maximum(opposite / self.mates * (near - 1) - paid, 0.0)
        density = np.exp(-y * y / 2) / math.sqrt(2 * math.pi)
        return self.inclusion * float((gained * density).sum(axis=1).max()) * float(y[1] - y[0])

    def _upper_bounds(self, cells: _Cells, expm1_epsilon: float) -> Array:
        """Return, by cell, the smallest bound on delta / inclusion at the worst mates, over the shares in _THREATS."""
        from scipy.special import ndtr

        # The lengths that make the integral largest, in deviations, by cell of the search and cell of a mate's angle:
        # of the unit minus a mate, along the missed batch and across it, and of that batch.
        unit, distances = cells
        along = np.cos(unit[:, 1:]) - self.high
        along = np.where(along > 0, along * (distances[:, :1] / distances[:, 1:]), along)
        sums = [unit[:, at, None] + self.angles[:, at] for at in (0, 1)]
        length = 2 * np.sin(np.clip(math.pi / 2, sums[0] / 2, sums[1] / 2))
        across = np.sqrt(np.maximum(length * length - along * along, 1e-10)) / self.noise
        along, distance = along / self.noise, distances[:, 1] / self.noise
        # Exponentials of longer distances underflow; there X_q, which only subtracts, is next to 0 and is left out.
        far = np.where(distance <= _MAX_DISTANCE, self.far, 0.0)[:, None]
        distance = np.minimum(distance, _MAX_DISTANCE)
        ratios, weights = _ratio_law(distance, self.points)
        step = self.points[1] - self.points[0]
        swell = np.maximum(along * (distance[:, None] - along), 0.0) * step * step / 8
        log_forward = along[:, :, None] * self.points + (swell - along * along / 2)[:, :, None]
        outside = ndtr(self.points[0] - along) + ndtr(along - self.points[-1])

        mean = np.minimum((self.reach - distances[:, 0]) / self.mates, 1.0)[:, None]  # largest mean cosine of the mates
        first, second = self.pairs
        share = (mean - self.low[first]) / (self.low[second] - self.low[first])
        best = np.full(mean.shape[0], np.inf)
        for threat in _THREATS:
            # Charging the mates by their angle for a share of what is missed is valid.
            charge = 1 - threat + threat * (self.low + 1) / (mean + 1 + 1e-12)
            strikes = 1 + expm1_epsilon * charge[:, :, None] * (self.near + far * ratios)[:, None, :]
            spend(_LOGS * ELEMENT * strikes.size)
            # Upper bounds on E (X_p - strike)^+ by cell and mate cell: weighted Black-Scholes prices plus tails.
            upper = (log_forward - np.log(strikes)) / across[:, :, None] + across[:, :, None] / 2
            inside = np.exp(log_forward) * ndtr(upper) - strikes * ndtr(upper - across[:, :, None])
            values = np.maximum((inside * weights[:, None, :]).sum(axis=2), 0.0) + outside
            # Their largest mean over laws of the mates' cosine with mean at most `mean`, a linear programme with two
            # constraints: one cell, or two cells on either side of the mean.
            alone = np.where(self.low <= mean + 1e-12, values, 0.0).max(axis=1)
            both = (1 - share) * values[:, first] + share * values[:, second]
            largest = np.maximum(alone, np.where((share >= 0) & (share <= 1), both, 0.0).max(axis=1))
            best = np.minimum(best, largest)
        return best


def _ratio_law(distance: Array, points: Array) -> tuple[Array, Array]:
    """Return values and masses of a discrete law above the likelihood ratio X_q in convex order, tails left out."""
    # X_q = exp(distance y - distance^2 / 2) under y ~ N(0); the mass between two points is split between them so that
    # the mean stays; mass outside the points is left out.
    d = distance[:, None]
    mass = _normal_masses(points)
    values = np.exp(d * points - d * d / 2)
    upper = (_normal_masses(points - d) - values[:, :-1] * mass) / np.diff(values, axis=1)
    upper = np.clip(upper, 0.0, mass)
    masses = np.zeros(values.shape)
    masses[:, 1:] += upper
    masses[:, :-1] += mass - upper
    return values, masses


def _normal_masses(points: Array) -> Array:
    """Return the masses that N(0, 1) has between neighbouring points, which ascend along the last axis."""
    from scipy.special import ndtr

    # Beyond 8.3 deviations Phi is 1: there the masses are differences of upper tails.
    masses: Array = np.where(points[..., :-1] > 0, -np.diff(ndtr(-points)), np.diff(ndtr(points)))
    return masses
