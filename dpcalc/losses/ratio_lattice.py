"""Laws of likelihood ratios on a lattice, bounded from above or below, and how masses are moved onto the lattice.

The lattice is linear up to some way above the mean, where sums of lattice points are lattice points, and geometric
beyond. Where ratios of very different size are likely all of it is geometric.

Source: docs/theory.md, Theorem 9.12.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from dpcalc.arrays import Array
from dpcalc.errors import TooLargeError
from dpcalc.numerics.convolution import UNIT_ROUNDOFF
from dpcalc.work import ELEMENT, TURN, spend

# Resolution: the width of the certified interval grows with the square of the distance of lattice points. With half as
# many points tests/losses/test_likelihood_ratio.py finds intervals wider than 1e-3 of epsilon.
_LINEAR_POINTS = 80  # lattice points to a half-width of the bulk
_GEOMETRIC_POINTS = 80  # the same for its logarithm, where all of the lattice is geometric
_WIDEST_LEVEL = -7  # log2 of the largest distance of logarithms there
MAX_POINTS = 20_000  # of the linear part, about
TAIL_LEVEL = -9  # log2 of the distance of logarithms above a linear lattice
WINDOW = 32.0  # half-widths above the mean that a linear lattice covers
_NARROW = 0.15  # half-width of log U below which the lattice is linear: down to a tenth of the mean it is fine enough
_TAIL = 1e-26  # mass under Q and P that is cut at either end after a sum: below any delta after 1e9 passes
_MAX_ENTRIES = 1 << 17  # lattice points of a law; a direct convolution of more takes 10 s
TOLERANCE = 1e-13  # distance of a mean from its lattice point, in cells, that is within round-off
_SETTLED = 1e-14  # relative change of the masses moved at which the search for groups ends
_MAX_ROUNDS = 60  # of that search
_RARE = 1e-13  # share of Q and P mass that may be rounded by a whole cell
_MOST = 0.95  # share of a cell's mass that its neighbours may take


class Estimate(Enum):
    """The profiles that a law bounds, and from which side.

    UPPER: delta of both directions from above. LOWER: delta(D, D') from below; mass that cannot be merged is rounded
    down. LOWER_REVERSED: delta(D', D) from below; mass that cannot be merged is rounded up.
    """

    UPPER = "upper"
    LOWER = "lower"
    LOWER_REVERSED = "lower, reversed"


@dataclass(frozen=True)
class Lattice:
    """Ratios i * 2^level up to `top`, and e^(i * 2^tail_level) above.

    Attributes:
        level: log2 of the distance of ratios in the linear part; None if there is no such part.
        top: largest ratio of the linear part; 0 if there is no such part.
        tail_level: log2 of the distance of logarithms of ratios in the geometric part.
    """

    level: int | None
    top: float
    tail_level: int

    @property
    def spacing(self) -> float:
        """Distance of ratios in the linear part; 0 if there is no such part."""
        return 0.0 if self.level is None else math.ldexp(1.0, self.level)

    @property
    def log_spacing(self) -> float:
        """Distance of logarithms of ratios in the geometric part."""
        return math.ldexp(1.0, self.tail_level)


@dataclass(frozen=True)
class RatioLaw:
    """Q masses of a ratio on a lattice.

    Attributes:
        lattice: the points.
        start: index of the first entry of `linear`, >= 1.
        linear: Q masses on the linear part, >= 0, shape (n,).
        tail_start: index of the first entry of `tail`.
        tail: Q masses on the geometric part, >= 0, shape (m,).
        zero: Q mass at ratio 0.
        infinite: P mass at an infinite ratio, times the number of ratios that were added.
        error: bound on the relative error of every mass from round-off.
        shift: bound on the relative error of every ratio from round-off.
    """

    lattice: Lattice
    start: int
    linear: Array
    tail_start: int
    tail: Array
    zero: float = 0.0
    infinite: float = 0.0
    error: float = 0.0
    shift: float = 0.0

    @property
    def tail_ratios(self) -> Array:
        """Ratios of the geometric part, shape (m,)."""
        indices = self.tail_start + np.arange(self.tail.size)
        return np.asarray(np.exp(indices * self.lattice.log_spacing), dtype=np.float64)

    def points(self) -> tuple[Array, Array]:
        """Return (ratios, Q masses) of the lattice points with mass, 0 left out, increasing, of one shape."""
        linear = (self.start + np.arange(self.linear.size)) * self.lattice.spacing
        ratios, masses = np.concatenate([linear, self.tail_ratios]), np.concatenate([self.linear, self.tail])
        return ratios[masses > 0], masses[masses > 0]


def lattice_for(ratios: Array, masses: Array, zero: float) -> Lattice:
    """Return a lattice of 80 points to a half-width of the bulk: geometric for wide logarithms, else linear.

    Args:
        ratios: values > 0, increasing, shape (n,).
        masses: their Q masses, > 0, shape (n,).
        zero: Q mass at ratio 0.
    """
    mean, width, log_width = mean_and_widths(ratios, masses, zero)
    if log_width > _NARROW:
        return Lattice(None, 0.0, min(_WIDEST_LEVEL, math.floor(math.log2(log_width / _GEOMETRIC_POINTS))))
    top = mean + WINDOW * width
    # Where most of the mass is on a few values their distance says nothing about the width of the rest.
    spacing = max(width / _LINEAR_POINTS, (min(top, float(ratios[-1])) - float(ratios[0])) / MAX_POINTS)
    return Lattice(math.floor(math.log2(spacing)), top, TAIL_LEVEL)


def mean_and_widths(ratios: Array, masses: Array, zero: float) -> tuple[float, float, float]:
    """Return (mean, half-width of the 16 % to 84 % range of the ratio, of its logarithm), widths > 0; `zero` counts.

    Args:
        ratios: values > 0, increasing, shape (n,).
        masses: their Q masses, > 0, shape (n,).
        zero: Q mass at ratio 0.
    """
    below = np.cumsum(masses) + zero
    mean = float((ratios * masses).sum()) / float(below[-1])
    low, high = (float(ratios[min(int(np.searchsorted(below, x * below[-1])), below.size - 1)]) for x in (0.16, 0.84))
    if low < high:  # rare ratios that are very large do not count
        return mean, (high - low) / 2, math.log(high / low) / 2
    deviation = math.sqrt(float(((ratios - mean) ** 2 * masses).sum()) / float(below[-1]))
    width = max(deviation, 1e-9 * mean)
    return mean, width, width / mean


def on_lattice(law: RatioLaw, lattice: Lattice, estimate: Estimate) -> RatioLaw:
    """Return the law on another lattice, each mass split over its cell's ends (UPPER) or merged (lower bounds).

    Args:
        law: any law.
        lattice: the new points.
        estimate: what both laws bound.
    """
    ratios, masses = law.points()
    cells = RatioCells.between(lattice, float(ratios[0]), float(ratios[-1]), estimate)
    cells.add(ratios, masses)
    placed = cells.law()
    return replace(
        placed,
        zero=placed.zero + law.zero,
        infinite=law.infinite,
        error=law.error + 64 * UNIT_ROUNDOFF,
        shift=law.shift + TOLERANCE,
    )


def refined_tail(law: RatioLaw, tail_level: int) -> RatioLaw:
    """Return a law without a linear part on a finer geometric lattice, exactly: zeros between its masses.

    Args:
        law: without a linear part.
        tail_level: log2 of the new distance of logarithms, at most that of the law.
    """
    step = 1 << (law.lattice.tail_level - tail_level)
    tail = np.zeros((law.tail.size - 1) * step + 1)
    tail[::step] = law.tail
    lattice = replace(law.lattice, tail_level=tail_level)
    return replace(law, lattice=lattice, tail_start=law.tail_start * step, tail=tail)


def widened(law: RatioLaw, level: int, estimate: Estimate) -> RatioLaw:
    """Return the law with its linear spacing widened to 2^level; unchanged without a linear part, or if it is as wide.

    Args:
        law: any law.
        level: log2 of the smallest spacing of the result.
        estimate: what both laws bound.
    """
    fine = law.lattice.level
    if fine is None or fine >= level:
        return law
    return on_lattice(law, replace(law.lattice, level=level), estimate)


def _without_index_0(law: RatioLaw) -> RatioLaw:
    """Return the law with a mass at index 0 of the linear part counted as mass at ratio 0."""
    if law.start or not law.linear.size:
        return law
    return replace(law, zero=law.zero + float(law.linear[0]), start=1, linear=law.linear[1:])


def trimmed(law: RatioLaw, estimate: Estimate) -> RatioLaw:
    """Return the law without ends of mass under 1e-26, moved to 0, infinity or inwards so that it bounds what it did.

    Args:
        law: any law.
        estimate: what both laws bound.
    """
    linear = (law.start + np.arange(law.linear.size)) * law.lattice.spacing
    ratios, masses = np.concatenate([linear, law.tail_ratios]), np.concatenate([law.linear, law.tail])
    weight = masses * (1 + ratios / float((ratios * masses).sum()))
    first = int(np.searchsorted(np.cumsum(weight), _TAIL))
    last = masses.size - int(np.searchsorted(np.cumsum(weight[::-1]), _TAIL))
    low, high = masses[:first].sum(), masses[last:].sum()
    zero, infinite = law.zero, law.infinite
    match estimate:
        case Estimate.UPPER:
            share = (masses[:first] * ratios[:first]).sum() / ratios[first]
            zero += float(low - share)
            infinite += float((masses[last:] * (ratios[last:] - ratios[last - 1])).sum())
            masses[first] += share
            masses[last - 1] += high
        case Estimate.LOWER:
            zero += float(low)
            masses[last - 1] += high
        case Estimate.LOWER_REVERSED:
            masses[first] += low
    border = law.linear.size
    return replace(
        law,
        start=law.start + min(first, border),
        linear=masses[first : min(last, border)],
        tail_start=law.tail_start + max(first - border, 0),
        tail=masses[max(first, border) : max(last, border)],
        zero=zero,
        infinite=infinite,
    )


@dataclass(frozen=True)
class RatioCells:
    """Masses and first moments in the cells around the points of a lattice, to which a law adds up.

    The cell of a point reaches to the next point above for UPPER, else half-way to its neighbours. A moment is the sum
    of mass times distance from the point: in units of the spacing, or relative to the point in the geometric part.

    Attributes:
        lattice: the points.
        estimate: what the law will bound.
        start: index of the first entry of `linear`.
        linear: (masses, moments), shape (2, n).
        tail_start: index of the first entry of `tail`.
        tail: (masses, moments), shape (2, m).
    """

    lattice: Lattice
    estimate: Estimate
    start: int
    linear: Array
    tail_start: int
    tail: Array

    @classmethod
    def between(cls, lattice: Lattice, low: float, high: float, estimate: Estimate) -> "RatioCells":
        """Return empty cells over ratios [low, high], low > 0; TooLargeError above 2^17 points.

        Args:
            lattice: the points.
            low: smallest ratio, > 0.
            high: largest ratio, >= low.
            estimate: what the law will bound.

        Raises:
            TooLargeError: if they are too many.
        """
        start = end = tail_start = tail_end = 0
        if lattice.level is not None and low <= lattice.top:
            start = max(0, math.floor(low / lattice.spacing) - 1)
            end = math.ceil(min(high, lattice.top) / lattice.spacing) + 2
        if high > lattice.top:
            tail_start = math.floor(math.log(max(low, lattice.top)) / lattice.log_spacing) - 1
            tail_end = math.ceil(math.log(high) / lattice.log_spacing) + 2
        if max(end - start, tail_end - tail_start) > _MAX_ENTRIES:
            raise TooLargeError(f"likelihood ratios: expected at most {_MAX_ENTRIES} lattice points, needs more")
        return cls(
            lattice, estimate, start, np.zeros((2, end - start)), tail_start, np.zeros((2, tail_end - tail_start))
        )

    def add(self, ratios: Array, masses: Array) -> None:
        """Add masses at ratios > 0 to the cells that hold them, with the distances from the cells' points.

        Args:
            ratios: > 0, in the range of the cells, in any order, shape (n,).
            masses: >= 0, shape (n,).
        """
        spend(2 * ELEMENT * ratios.size)
        inside = ratios <= self.lattice.top
        if inside.any():
            position = ratios[inside] / self.lattice.spacing
            point = self.points_of(position)
            _add_at(self.linear, point - self.start, masses[inside], position - point)
        if not inside.all():
            position = np.log(ratios[~inside]) / self.lattice.log_spacing
            point = self.points_of(position)
            moved = np.expm1((position - point) * self.lattice.log_spacing)
            _add_at(self.tail, point - self.tail_start, masses[~inside], moved)

    def points_of(self, positions: Array) -> Array:
        """Return the index of each position's cell: the point below (UPPER), else the nearest one."""
        return np.floor(positions) if self.estimate is Estimate.UPPER else np.rint(positions)

    def add_linear(self, first: int, masses: Array) -> None:
        """Add masses at linear lattice points `first`, first + 1, ...; beyond the linear part as `add` does.

        Args:
            first: index of the first point.
            masses: of this point and the next ones, shape (n,).
        """
        inside = max(0, min(masses.size, math.floor(self.lattice.top / self.lattice.spacing) - first + 1))
        self.linear[0, first - self.start : first - self.start + inside] += masses[:inside]
        above = inside + np.flatnonzero(masses[inside:])
        if above.size:
            self.add(np.asarray((first + above) * self.lattice.spacing, dtype=np.float64), masses[above])

    def law(self) -> RatioLaw:
        """Return the law: each cell's mass split over its two ends (UPPER), or merged until means are points."""
        lattice, border = self.lattice, self.linear.shape[1]
        if self.estimate is Estimate.UPPER:
            tail = self.tail / np.array([[1.0], [math.expm1(lattice.log_spacing)]])
            return _without_index_0(RatioLaw(lattice, self.start, _spread(self.linear), self.tail_start, _spread(tail)))
        linear = (self.start + np.arange(border)) * lattice.spacing
        tail = np.exp((self.tail_start + np.arange(self.tail.shape[1])) * lattice.log_spacing)
        points = np.concatenate([linear, tail])
        width = np.concatenate([np.full(border, lattice.spacing), tail])
        masses, moments = np.concatenate([self.linear, self.tail], axis=1)
        order = np.argsort(points, kind="stable")
        merged = np.zeros(points.size)
        merged[order] = _merged_onto_points(points[order], masses[order], (moments * width)[order], self.estimate)
        return _without_index_0(RatioLaw(lattice, self.start, merged[:border], self.tail_start, merged[border:]))


def _add_at(cells: Array, index: Array, masses: Array, moved: Array) -> None:
    """Add to (masses, moments) of the cells with some indices the given masses and how far each lies from its point."""
    places = index.astype(np.int64)
    cells[0] += np.bincount(places, masses, cells.shape[1])
    cells[1] += np.bincount(places, masses * moved, cells.shape[1])


def _spread(cells: Array) -> Array:
    """Return the masses when each cell's is split over its point and the next one, mean kept; never negative."""
    masses: Array = cells[0] - cells[1]
    masses[1:] += cells[1, :-1]
    return np.maximum(masses, 0.0)


def _merged_onto_points(points: Array, masses: Array, moments: Array, estimate: Estimate) -> Array:
    """Return masses at lattice points: neighbouring cells grouped so that each mean is a point; else rounded.

    Args:
        points: of the lattice, increasing, shape (n,).
        masses: of their cells, shape (n,).
        moments: mass times the distance of its mean from the point, shape (n,).
        estimate: LOWER or LOWER_REVERSED: groups without a partner are rounded down or up.
    """
    # Each cell is one mass at its mean. If that is below its point the group takes some of the next cell above, if it
    # is above some of the next one below. How much depends on how much is left of each: the amounts are found by
    # iteration. Where that fails, because cells are too few or too different, groups are formed cell by cell.
    used = np.flatnonzero(masses > 0)
    if not used.size:
        return masses
    off = moments[used] / masses[used]
    mass, excess = _exchanged_with_neighbours(points[used], masses[used], off)
    width = points[np.minimum(used + 1, points.size - 1)] - points[used - 1]
    wrong = np.abs(excess) > TOLERANCE * mass * width
    for weight in (mass, mass * points[used]):  # Q mass; P mass
        if float(weight[wrong].sum()) > _RARE * float(weight.sum()):
            return _merged_one_by_one(points, masses[used], points[used] + off, estimate)
    sign = 1 if estimate is Estimate.LOWER else -1
    wrong &= sign * excess < 0  # on the wrong side of its point: rounded to the next one
    result = np.zeros(masses.size)
    result[used[~wrong]] = mass[~wrong]
    np.add.at(result, used[wrong] - sign, mass[wrong])
    return result


def _exchanged_with_neighbours(points: Array, mass: Array, off: Array) -> tuple[Array, Array]:
    """Return (masses, moments left) after cells gave neighbours mass, so that each mean comes to its point.

    Args:
        points: of the cells, increasing, shape (n,).
        mass: of the cells, > 0, shape (n,).
        off: distances of their means from their points, shape (n,).
    """
    gap = np.diff(points)
    above, below = gap + off[1:], gap - off[:-1]  # distance of a point from the mean of the next cell
    above[above <= 0], below[below <= 0] = np.inf, np.inf  # where cells overlap they do not help each other
    to_lower, to_upper = np.zeros(mass.size), np.zeros(mass.size)  # mass that the group below or above takes
    for _ in range(_MAX_ROUNDS):
        excess = (mass - to_lower - to_upper) * off
        lower, upper = np.zeros(mass.size), np.zeros(mass.size)
        lower[1:] = np.maximum(-excess[:-1], 0.0) / above
        upper[:-1] = np.maximum(excess[1:], 0.0) / below
        scale = np.minimum(1.0, _MOST * mass / np.maximum(lower + upper, mass * 1e-9))
        lower, upper = lower * scale, upper * scale
        settled = bool((np.abs(lower - to_lower) + np.abs(upper - to_upper) <= _SETTLED * mass).all())
        to_lower, to_upper = lower, upper
        if settled:
            break
    kept = mass - to_lower - to_upper
    group, excess = kept.copy(), kept * off
    group[:-1] += to_lower[1:]
    group[1:] += to_upper[:-1]
    # What overlaps gave nothing; its distance is infinite.
    excess[:-1] += np.where(to_lower[1:] > 0, to_lower[1:] * np.where(np.isfinite(above), above, 0.0), 0.0)
    excess[1:] -= np.where(to_upper[:-1] > 0, to_upper[:-1] * np.where(np.isfinite(below), below, 0.0), 0.0)
    return group, excess


def _merged_one_by_one(points: Array, masses: Array, values: Array, estimate: Estimate) -> Array:
    """Return masses at lattice points, values merged one by one from both ends until each mean is a point.

    Args:
        points: of the lattice, increasing, shape (n,).
        masses: of the values, > 0, shape (m,).
        values: nearly increasing, between the second and the last point but one, shape (m,).
        estimate: LOWER or LOWER_REVERSED: what finds no mass to be merged with is rounded down or up.
    """
    # From either end up to the heaviest value: what is met before a point is merged, with as much of the next value as
    # moves the mean there. In this direction the next value is the one that has enough to give. What is left in the
    # middle takes of the groups beside it.
    spend(6 * TURN * masses.size)
    order = np.argsort(values, kind="stable")
    cells = list(zip(masses[order].tolist(), values[order].tolist(), strict=True))
    heaviest, result = int(masses[order].argmax()), np.zeros(points.size)
    rising, left = _merged_upwards(cells[: heaviest + 1], points.tolist())
    falling = [(mass, -value) for mass, value in [left, *cells[heaviest + 1 :]][::-1]]
    groups, (mass, negative_mean) = _merged_upwards(falling, (-points[::-1]).tolist())
    for i, group in [*rising, *((points.size - 1 - i, group) for i, group in groups)]:
        result[i] += group
    mean = -negative_mean
    above = int(np.searchsorted(points, mean))
    ways = ((above, range(above + 1, points.size)), (above - 1, range(above - 2, -1, -1)))
    for place, others in ways:
        lacking, group, given = mass * abs(float(points[place]) - mean), mass, result.copy()
        for i in others:
            taken = min(_MOST * float(given[i]), lacking / abs(float(points[i] - points[place])))
            given[i] -= taken
            group += taken
            lacking -= taken * abs(float(points[i] - points[place]))
            if lacking <= TOLERANCE * group * float(points[above] - points[above - 1]):
                given[place] += group
                return given
    result[above - (1 if estimate is Estimate.LOWER else 0)] += mass
    return result


def _merged_upwards(
    cells: list[tuple[float, float]], points: list[float]
) -> tuple[list[tuple[int, float]], tuple[float, float]]:
    """Return ([(index of a point, mass)], (mass, mean) left over) when cells are merged from the lowest up.

    Args:
        cells: (mass, mean), by increasing mean.
        points: lattice points, increasing.
    """
    groups: list[tuple[int, float]] = []
    pool, at = (0.0, 0.0), 0
    for mass, value in cells:
        if pool[0]:
            while points[at] < pool[1]:
                at += 1
            taken = pool[0] * (points[at] - pool[1]) / (value - points[at]) if value > points[at] else math.inf
            if taken < mass:
                groups.append((at, pool[0] + taken))
                pool = (mass - taken, value)
                continue
        pool = _merge_two(pool, (mass, value))
    return groups, pool


def _merge_two(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """Return (mass, mean) of two masses merged; (0, 0) for none."""
    mass = a[0] + b[0]
    return (mass, (a[0] * a[1] + b[0] * b[1]) / mass) if mass else (0.0, 0.0)
