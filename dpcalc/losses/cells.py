"""The loss of one step cut into cells, fine where the tilted loss has its mass, and put on its first grid."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.errors import ConvergenceError, TooLargeError
from dpcalc.losses.composition import MOST_ENTRIES, ROUND, LossPmf, SplitPmf, growth_by_rounding_up, merged_onto_lattice
from dpcalc.losses.loss import LossCurve
from dpcalc.losses.moments import reach
from dpcalc.losses.pair import Segment, length_scales, rough_points, subdivided
from dpcalc.numerics import UNIT_ROUNDOFF, Array, gauss_legendre_panels, sum_by_index
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, spend

NODES = 3  # Gauss-Legendre nodes between neighbouring edges
NEGLIGIBLE = 1e-20  # tilted mass per deviation that is left out: 100 times that is booked as lost
_TILTED = 0.25  # tilt times the width of a cell, at most: three nodes sum e^(t loss) to 1e-10 then
_NEAR_POINTS = 1 << 14  # lattice points from 0 up to which no lattice is wider; a multiple of 2^_MAX_DOUBLINGS
_MAX_CELLS = 200_000  # of a piece; more are refused with exit code 3
_MAX_NODES = 3 << 20  # of a step: 25 MB an array, of which about ten are alive at once
_MISS = 0.001  # share of the budget that cells which end beside lattice points may cost
_MAX_SECANTS = 4  # steps towards the point that has a loss
_MAX_DOUBLINGS = 13  # between the two lattices of a step; the wide one may not be wider than the losses that it holds


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """The accuracy of a composition, and to which one of its steps must be cut into cells."""

    tilt: float  # order t > 0 of the exponential tilt e^(t loss) under which the masses are kept
    budget: float  # about how much rounding may change the log of the composed tilted mass
    truncated_mass: float  # P mass that a step may leave out at each end of each segment
    has_long_doubles: bool = False  # whether sums have extended precision, on machines that have it
    log_norm: float = 0.0  # of a step its log moment at t, taken out of the tilted masses
    copies: int = 1  # how often the step is composed


@dataclass(frozen=True, kw_only=True)
class Cells:
    """One step's loss cut into cells that lie between lattice points, finer where it matters."""

    tilt: float  # t
    log_norm: float  # log of the factor taken out of the tilted masses
    level: int  # lattice spacing is 2.0 ** level
    gap: int  # doublings of the spacing beyond 2^14 lattice points from 0
    edges: Array  # lattice indices between which the cells lie, increasing, shape (n + 1,)
    mass: Array  # tilted mass at the quadrature nodes of each cell, shape (cells, nodes)
    loss: Array  # loss at these nodes, shape (cells, nodes)
    zero_loss_mass: float  # tilted mass with loss 0
    below: float  # P mass, times e^{-log_norm}, of losses so low that they were left out
    overshoot: float  # largest distance by which a loss lies outside its lattice points, from inverting the loss

    @property
    def spacing(self) -> float:
        """Distance of neighbouring lattice points, 2^level."""
        return math.ldexp(1.0, self.level)


class MonotonePiece(NamedTuple):
    """Part of a segment on which the loss is monotone, sampled at points y, rising, shape (n,)."""

    segment: Segment
    y: Array
    loss: Array


def cells(curve: LossCurve, aim: Resolution) -> Cells:
    """Return a step cut into Cells so that rounding costs about `aim.budget`, or ConvergenceError, TooLargeError."""
    # Of each piece of monotone loss: the number of cells per length it needs, up to a factor, and their largest width.
    weighted: list[tuple[MonotonePiece, Array, Array]] = []
    for segment in curve.segments:
        low, high = reach(segment, aim.tilt, aim.truncated_mass)
        y = rough_points(segment.pair, low, high) if low < high else np.zeros(0)
        y, density, loss = _non_negligible(segment, y, aim)
        if not y.size:
            continue
        min_parts = np.diff(y) / max(y[-1] - y[0], 1e-300) * 400  # points or more
        y = subdivided(y, np.maximum(np.ceil(4 * np.diff(y) / length_scales(segment.pair, y)), np.ceil(min_parts)))
        y, density, loss = _non_negligible(segment, y, aim)
        if not y.size:
            continue
        slope = np.abs(np.gradient(loss, y))
        weight = np.cbrt(density * slope**2)
        widest = np.interp(y, (y[1:] + y[:-1]) / 2, 0.125 * length_scales(segment.pair, y))
        widest = np.minimum(widest, _TILTED / np.maximum(aim.tilt * slope, 1e-300))  # where few nodes sum e^{t loss}
        weighted += [
            (MonotonePiece(segment, y[run], loss[run]), weight[run], widest[run]) for run in monotone_runs(loss)
        ]
    atom_loss, log_mass = np.array(curve.losses), np.array(curve.log_masses)
    atom_mass = np.exp(np.minimum(log_mass + aim.tilt * atom_loss - aim.log_norm, 700.0))
    atom_mass, atom_loss = atom_mass[atom_mass > NEGLIGIBLE], atom_loss[atom_mass > NEGLIGIBLE]
    if not weighted and not atom_loss.size:
        raise ConvergenceError("privacy loss cells: expected some mass at the best order, found none; try --method rdp")

    # Edges of cells in y. Splitting a cell of tilted mass m and width w adds m t (t + 1) w^2 / 12; for a given number
    # of cells the sum is least for widths proportional to (density * slope^2)^(-1/3).
    area = max(sum((float(np.trapezoid(weight, piece.y)) for piece, weight, _ in weighted), start=0.0), 1e-300)
    count = math.sqrt(aim.copies * aim.tilt * (aim.tilt + 1) * area**3 / (6 * aim.budget))
    rough = []
    for piece, weight, widest in weighted:
        rate = weight * (min(max(count, 96.0), 1e5) / area) + 1 / widest
        below = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(piece.y))])
        if below[-1] > _MAX_CELLS:
            raise ConvergenceError(f"privacy loss cells: expected at most {_MAX_CELLS}, needs more; try --method rdp")
        rough.append(np.interp(np.linspace(0, below[-1], max(2, math.ceil(below[-1])) + 1), below, piece.y))
    if NODES * sum(edges.size for edges in rough) > _MAX_NODES:
        raise TooLargeError(f"privacy loss cells: expected at most {_MAX_NODES} nodes, needs more; try --method rdp")

    # The widest affordable spacing, as log2, and its further doublings for losses beyond 2^14 points from 0.
    pieces = [piece for piece, _, _ in weighted]
    nodes = [_tilted_nodes(piece.segment, edges, aim) for piece, edges in zip(pieces, rough, strict=True)]
    mass, loss = (np.concatenate(parts) for parts in zip(*nodes, (atom_mass, atom_loss), strict=True))

    def costs_too_much(level: int) -> bool:  # rounding up the losses near 0 takes over a quarter of the budget
        near = np.abs(loss) <= math.ldexp(_NEAR_POINTS, level)
        return _growth_by_rounding(mass, loss, near, level, aim) > aim.budget / 4

    # The growth falls with the level, as the square of the spacing: steps of 1, 2, 4, ... down, then halving.
    top = level = math.ceil(math.log2(max(float(np.abs(loss).max()), 1e-300)))
    step = 1
    while costs_too_much(level) and level > -300:
        top, level, step = level, max(level - step, -300), 2 * step
    while top - level > 1:
        middle = (top + level) // 2
        top, level = (middle, level) if costs_too_much(middle) else (top, middle)
    # Far losses may cost an eighth, when in every round each of the ROUND losses that meet a far loss is rounded too.
    is_far = ~(np.abs(loss) <= math.ldexp(_NEAR_POINTS, level))
    gap, rounds = 0, max(1, math.ceil(math.log(aim.copies, ROUND)))
    while gap < _MAX_DOUBLINGS and is_far.any():
        wider = level + gap + 1
        is_too_wide = (1 + aim.tilt) * math.ldexp(1.0, wider) > 1 / 16  # the bulk would swell on it
        if is_too_wide or ROUND * rounds * _growth_by_rounding(mass, loss, is_far, wider, aim) > aim.budget / 8:
            break
        gap += 1

    # Edges as lattice indices: ends of pieces, neighbours of atoms, +-2^14 if that is in range, rounded to whole
    # numbers, beyond 2^14 from 0 away from 0 to multiples of `wide`. Each piece lies between two of its own.
    spacing, wide = math.ldexp(1.0, level), 1 << gap
    ends = [np.interp(edges, piece.y, piece.loss) / spacing for piece, edges in zip(pieces, rough, strict=True)]
    ends += [np.floor(atom_loss / (spacing * unit)) * unit + up for unit in (1, wide) for up in (0, unit)]
    around = [rounded for end in ends if end.size for rounded in (math.floor(end.min()), math.ceil(end.max()))]
    edges = np.concatenate([*ends, around, [-_NEAR_POINTS, _NEAR_POINTS]])
    outwards = np.sign(edges) * np.ceil(np.abs(edges) / wide) * wide
    edges = np.where(np.abs(edges) <= _NEAR_POINTS, np.rint(edges), outwards)
    edges = np.unique(edges[(edges >= min(around) - wide) & (edges <= max(around) + wide)])

    # Three nodes for each cell and each atom, and the largest miss of the ends of cells.
    masses, losses, overshoot, max_miss = [], [], 0.0, _MISS * aim.budget / (aim.copies * aim.tilt)
    for piece, fine in zip(pieces, rough, strict=True):
        inner, miss = points_with_losses(piece, edges * spacing, max_miss=max_miss)
        mass, loss = _tilted_nodes(piece.segment, np.unique(np.append(fine, inner)), aim)
        masses.append(np.maximum(mass, 1e-300))
        losses.append(loss)
        overshoot = max(overshoot, miss)
    mass = np.concatenate([*masses, np.repeat(atom_mass / NODES, NODES)]).reshape(-1, NODES)
    loss = np.concatenate([*losses, np.repeat(atom_loss, NODES)]).reshape(-1, NODES)
    # What is left out: a very negative loss may hold next to no tilted mass, or the least a node may have; no node has
    # more P mass than 1.
    plain = float(np.exp(np.minimum(aim.log_norm - aim.tilt * loss + np.log(mass), 0.0)).sum())
    left_out = max(0.0, 1 - curve.zero_loss_mass - curve.infinity_mass - plain)
    return Cells(
        tilt=aim.tilt,
        log_norm=aim.log_norm,
        level=level,
        gap=gap,
        edges=edges,
        mass=mass,
        loss=loss,
        zero_loss_mass=curve.zero_loss_mass * math.exp(-aim.log_norm),
        below=left_out * math.exp(-aim.log_norm),
        overshoot=overshoot,
    )


def _non_negligible(segment: Segment, y: Array, aim: Resolution) -> tuple[Array, Array, Array]:
    """Return (y, tilted density, loss) at rising points y, less both ends where the density is negligible."""
    if not y.size:
        return y, y, y
    log_p, loss = segment.log_density_and_loss(y)
    density = np.exp(np.minimum(log_p + aim.tilt * loss - aim.log_norm, 700.0))
    used = np.flatnonzero(density * segment.pair.deviation > NEGLIGIBLE)
    kept = slice(max(0, used[0] - 1), used[-1] + 2) if used.size else slice(0)
    return y[kept], density[kept], loss[kept]


def monotone_runs(loss: Array) -> list[slice]:
    """Cut a sampled loss where it turns between rising and falling by over 1e-14 of its range; runs share a point."""
    steps = np.diff(loss)
    real = np.flatnonzero(np.abs(steps) > 1e-14 * max(float(np.ptp(loss)), 1e-300))
    signs = np.sign(steps[real])
    turns: list[int] = real[1:][signs[1:] != signs[:-1]].tolist()
    return [slice(i, j + 1) for i, j in pairwise([0, *turns, loss.size - 1]) if j > i]


def _growth_by_rounding(mass: Array, loss: Array, inside: NDArray[np.bool_], level: int, aim: Resolution) -> float:
    """Return the growth of the composed tilted mass's log if losses `inside` are split over multiples of 2^level."""
    spend(3 * ELEMENT * loss.size)
    spacing = math.ldexp(1.0, level)
    offset = loss[inside] - np.floor(loss[inside] / spacing) * spacing
    return aim.copies * float((mass[inside] * growth_by_rounding_up(offset, aim.tilt, spacing)).sum())


def _tilted_nodes(segment: Segment, edges: Array, aim: Resolution) -> tuple[Array, Array]:
    """Return (tilted mass, loss) at 3 Gauss-Legendre nodes between neighbouring edges in y, shape (3 n,) each."""
    y, log_weight = gauss_legendre_panels(edges, order=NODES)
    log_p, loss = segment.log_density_and_loss(y)
    return np.exp(log_p + log_weight + aim.tilt * loss - aim.log_norm), loss


def points_with_losses(piece: MonotonePiece, losses: Array, max_miss: float = 0.0) -> tuple[Array, float]:
    """Find by secants where a piece has those of `losses` that are in its range; return (points, largest miss)."""
    # From the sampled table, kept inside the table's interval: the loss is monotone on a piece. The first step takes
    # the table's slope, the next ones that of the last step, so that three leave a miss that is round-off. The miss is
    # returned and counted against the bound.
    segment, y, loss = piece
    order = slice(None) if loss[-1] > loss[0] else slice(None, None, -1)
    table_y, table_loss = y[order], np.maximum.accumulate(loss[order])
    goals = losses[(losses > table_loss[0]) & (losses < table_loss[-1])]
    if not goals.size:
        return goals, 0.0
    place = np.searchsorted(table_loss, goals)
    rise = np.maximum(table_loss[place] - table_loss[place - 1], 1e-300)
    slope = rise / (table_y[place] - table_y[place - 1])
    low = np.minimum(table_y[place], table_y[place - 1])
    high = np.maximum(table_y[place], table_y[place - 1])
    roots = np.interp(goals, table_loss, table_y)
    miss = segment.log_density_and_loss(roots)[1] - goals
    for _ in range(_MAX_SECANTS):
        if float(np.abs(miss).max()) <= max_miss:
            break
        step = np.clip(roots - miss / slope, low, high) - roots
        roots = roots + step
        before, miss = miss, segment.log_density_and_loss(roots)[1] - goals
        secant = (miss - before) / np.where(step == 0, 1.0, step)
        is_telling = (np.abs(miss - before) > np.abs(before) / 2) & (secant > slope / 2) & (secant < 2 * slope)
        slope = np.where(is_telling, secant, slope)
    return roots, float(np.abs(miss).max())


# Discretization of one step: from its cells to its first grid.
# The pessimistic way splits the P and Q mass of each cell over the lattice points around it. The optimistic way merges
# each cell into one atom, and the atoms until they meet the lattice; `coarsen` says why that is valid.
# Source: docs/theory.md, Theorem 9.1 and Theorem 9.2.

_ATOM = 1e-9  # tilted mass at 0 above which the lattice stays at 0, where it is exact
_HALF = 0.5  # |ratio - 1| above which log1p would have lost its digits
_LARGEST = 600.0  # exponent of a tilted mass; floats end at 709


def discretize_pessimistic(cut: Cells) -> LossPmf | SplitPmf:
    """Return an upper bound on one step on one lattice or two, each cell's mass split over its two ends."""
    spend(8 * ELEMENT * cut.mass.size)
    ends = cut.edges * cut.spacing
    # Each cell lies around its middle node; the slack of the composition counts the overshoot of its ends.
    place = np.clip(np.searchsorted(ends, cut.loss[:, NODES // 2], side="right") - 1, 0, ends.size - 2)
    widths = np.diff(ends)
    offset = cut.loss - ends[place][:, None]
    at_low = cut.mass * np.exp(-cut.tilt * offset)
    part = np.expm1(-offset) / np.expm1(-widths[place])[:, None]
    raised = np.where(part > 0, np.log(cut.mass) + cut.tilt * (widths[place][:, None] - offset), 0.0)
    if float(raised.max()) > _LARGEST:
        raise ConvergenceError(
            "privacy loss lattice: expected cells that hold the tilt, they are too wide; try --method rdp"
        )
    up = (np.maximum(part, 0.0) * np.exp(raised)).sum(axis=1)
    points = sum_by_index(place, np.maximum((at_low * (1 - part)).sum(axis=1), 0.0), size=ends.size)
    points = points + sum_by_index(place + 1, up, size=ends.size)
    points[0] += cut.below * math.exp(min(cut.tilt * ends[0], 690.0))  # moved up to the lowest loss that was kept
    return _on_lattices(cut, cut.edges.astype(np.int64), points, 0.0)


def discretize_optimistic(cut: Cells) -> LossPmf | SplitPmf:
    """Return a lower bound on one step by merging its cells onto one lattice or two through its heaviest loss."""
    spend(8 * ELEMENT * cut.mass.size)
    # Each cell as one atom with its P and Q mass, and the mass at 0.
    top = cut.loss.max(axis=1)[:, None]
    plain = cut.mass * np.exp(-cut.tilt * (cut.loss - top))  # P masses times e^{t top - log_norm}
    low = cut.loss.min(axis=1)
    total = plain.sum(axis=1)
    loss = low - np.log1p((plain * np.expm1(low[:, None] - cut.loss)).sum(axis=1) / total)
    mass = np.append(total * np.exp(cut.tilt * (loss - top[:, 0])), cut.zero_loss_mass)
    loss = np.append(loss, 0.0)
    # Optimistic rounding costs in proportion to the mass that is off the lattice. One heavy cell (a step that rarely
    # draws the unit has nearly all mass near one loss) would cost nearly everything; on the lattice, which is laid
    # through it, it costs nothing, and on a single lattice it is the mass at loss 0.
    is_split = bool((np.abs(loss) > _NEAR_POINTS * cut.spacing).any()) and cut.zero_loss_mass <= _ATOM
    place = np.rint(loss / math.ldexp(cut.spacing, cut.gap if is_split else 0)).astype(np.int64)
    sums = sum_by_index(place - place.min(), mass, size=int(np.ptp(place)) + 1)
    inside = place == place.min() + int(np.argmax(sums))
    zero_loss_mass, origin = _merge_atoms(mass[inside], loss[inside], cut.tilt)
    if is_split:
        cut = replace(cut, zero_loss_mass=0.0)
    else:
        cut, mass, loss = replace(cut, zero_loss_mass=zero_loss_mass), mass[~inside], loss[~inside]
    order = np.argsort(loss)
    mass, loss = mass[order], loss[order] - origin
    loss[np.abs(loss) <= 4 * UNIT_ROUNDOFF * abs(origin)] = 0.0
    # Onto lattice points, wider apart beyond 2^14 from 0.
    limit, wide = _NEAR_POINTS * cut.spacing, 1 << cut.gap
    places: list[int] = []
    points: list[float] = []
    for part, factor in ((loss < -limit, wide), (np.abs(loss) <= limit, 1), (loss > limit, wide)):
        indices, merged = merged_onto_lattice(mass[part], loss[part], cut.tilt, cut.spacing * factor)
        places += [factor * index for index in indices]
        points += merged
    return _on_lattices(cut, np.array(places, dtype=np.int64), np.array(points), origin)


def _merge_atoms(mass: Array, loss: Array, tilt: float) -> tuple[float, float]:
    """Merge atoms into one with their P and Q mass; return (tilted mass, loss); ValueError unless a mass is > 0."""
    mass, loss = mass[mass > 0], loss[mass > 0]  # the reference must have mass: far below the others, all would vanish
    reference = float(loss.min())
    plain = mass * np.exp(tilt * (reference - loss))
    total = float(plain.sum())
    less = float((plain * np.expm1(reference - loss)).sum()) / total
    is_far = less < -_HALF  # from the reference, where 1 + less has lost its digits
    shift = math.log(float((plain * np.exp(reference - loss)).sum()) / total) if is_far else math.log1p(less)
    merged = reference - shift
    return total * math.exp(tilt * (merged - reference)), merged


def _on_lattices(cut: Cells, places: NDArray[np.int64], points: Array, origin: float) -> LossPmf | SplitPmf:
    """Return these masses and `zero_loss_mass`, normalized, as a LossPmf, or SplitPmf if some are near 0, some far."""
    near = np.abs(places) <= _NEAR_POINTS
    if places.size and not near.any():
        near[:] = True
        places, cut = places >> cut.gap, replace(cut, level=cut.level + cut.gap)
    bulk = _fill_lattice(cut, places[near], points[near], origin)
    bulk.mass[-bulk.start] += cut.zero_loss_mass
    if near.all():
        return bulk.normalized()
    jumps = _fill_lattice(cut, places[~near] >> cut.gap, points[~near], origin)
    return SplitPmf(bulk=bulk, jumps=replace(jumps, level=cut.level + cut.gap)).normalized()


def _fill_lattice(cut: Cells, places: NDArray[np.int64], points: Array, origin: float) -> LossPmf:
    """Return a LossPmf of these masses on a lattice that contains index 0; ConvergenceError above 2^22 entries."""
    first = int(places.min(initial=0))
    size = int(places.max(initial=0)) - first + 1
    if size > MOST_ENTRIES:
        raise ConvergenceError(
            f"privacy loss lattice: expected at most {MOST_ENTRIES} entries, needs {size}; try --method rdp"
        )
    mass = sum_by_index(places - first, points, size=size)
    lost = 100 * NEGLIGIBLE
    return LossPmf(
        tilt=cut.tilt, level=cut.level, start=first, origin=origin, mass=mass, log_norm=cut.log_norm, lost=lost
    )
