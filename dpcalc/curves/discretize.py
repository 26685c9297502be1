"""From a loss curve to a lattice, and from a lattice to a coarser one, from above or from below.

Both ways are second order in the spacing. From above ("connect the dots", Doroshenko et al. 2022,
2207.04380v3, section 4): each cell's P and Q mass goes to the two ends of the cell so that both are
kept; the profile becomes the chords of the true convex profile in (e^epsilon, delta). From below: the
chords are lowered at each lattice point by the largest gap between chord and profile in the two
neighbouring cells. The profile used for the gap is that of the cell merged into one atom, which is
post-processing; a chord lowered by the gap at both ends lies below it, so the result is below the true
profile everywhere. Where lowering leaves a negative mass it is cut to 0 and counted as lost.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.dominating_pair import Segment
from dpcalc.curves.loss_moments import LossCurve, reach
from dpcalc.curves.loss_pmf import MOST_ENTRIES, LossPmf
from dpcalc.errors import ConvergenceError
from dpcalc.numerics.quadrature import panels_between

Array = NDArray[np.float64]

# (masses of the cells at their lower ends, share of each that belongs to its upper end, tilt, widths)
#   -> (tilted masses of the n + 1 lattice points, tilted mass cut)
Rounding = Callable[[Array, Array, float, Array], tuple[Array, float]]

_NODES = 3  # Gauss-Legendre nodes between neighbouring edges
_NEGLIGIBLE = 1e-20


def round_up(mass: Array, share: Array, tilt: float, widths: Array) -> tuple[Array, float]:
    """Chords of the profile: each cell's share to its upper end, the rest to its lower end."""
    points = np.zeros(mass.size + 1)
    points[:-1] = np.maximum(mass - share, 0.0)
    points[1:] += share * np.exp(tilt * widths)
    return points, 0.0


def round_down(mass: Array, share: Array, tilt: float, widths: Array) -> tuple[Array, float]:
    """Chords of the profile, lowered at each lattice point by the larger gap of its two cells."""
    points, _ = round_up(mass, share, tilt, widths)
    losses = np.concatenate([[0.0], np.cumsum(widths)])
    safe = np.where(mass > 0, mass, 1.0)
    merged = -np.log1p(np.minimum(share / safe, 1.0) * np.expm1(-widths))  # above the cell's lower end
    gap = share * -np.expm1(np.minimum(merged - widths, 0.0))
    swell = np.exp(tilt * widths)
    lowered = np.zeros(points.size)
    lowered[:-1] = gap
    lowered[1:] = np.maximum(lowered[1:], gap * swell)
    last = _ends_at_zero(points, losses, tilt, lowered)
    points[0] += lowered[0]  # the chord from epsilon = -inf
    points[:-1] -= (lowered[1:] / swell - lowered[:-1]) / np.expm1(widths)
    points[1:] -= (lowered[1:] - lowered[:-1] * swell) / np.expm1(-widths)
    points[last + 1 :] = 0.0
    if float(np.maximum(-points, 0.0).sum()) > 1e-14:
        points[: last + 1] = convexified(points[: last + 1], losses[: last + 1], tilt)
    return np.maximum(points, 0.0), float(np.maximum(-points, 0.0).sum())


def _ends_at_zero(points: Array, losses: Array, tilt: float, lowered: Array) -> int:
    """Makes the lowered profile end at 0 instead of below it; returns the lattice point from which it is 0.

    Where lowering would leave less than nothing, the profile is 0 from one lattice point earlier on: the
    chord before that only sinks. Only the right end can be so low; 600 is what a float's exponent holds.
    """
    back = losses[-1] - losses
    near = int(np.searchsorted(-back, -600 / (1 + tilt)))
    plain = points[near:] * np.exp(tilt * back[near:])
    above = np.append(np.cumsum(plain[::-1])[::-1][1:], 0.0)
    discounted = np.append(np.cumsum((plain * np.exp(back[near:]))[::-1])[::-1][1:], 0.0)
    profile = np.maximum(above - np.exp(-back[near:]) * discounted, 0.0) * np.exp(-tilt * back[near:])
    first = near + int(np.argmax(profile <= lowered[near:] * (1 + 1e-9)))  # the last profile value is 0
    last = max(first - 1, near)
    lowered[last:] = profile[last - near :]
    return last


def convexified(points: Array, losses: Array, tilt: float) -> Array:
    """The largest convex function below a piecewise linear one: no negative mass is left.

    A lattice point of negative mass is a concave kink; it is removed by giving its P and Q mass to its two
    neighbours, which replaces the two chords that meet there by one below them.
    """
    places: list[int] = []
    mass = points.tolist()
    at = losses.tolist()
    for k in range(len(mass)):
        places.append(k)
        while len(places) > 1 and mass[places[-2]] < 0:
            middle, right = places[-2], places[-1]
            wide, offset = at[right], at[middle]
            if len(places) > 2:
                left = places[-3]
                wide, offset = wide - at[left], offset - at[left]
                share = math.expm1(-offset) / math.expm1(-wide)
                mass[left] += mass[middle] * (1 - share) * math.exp(-tilt * offset)
            else:
                share = 1.0
            mass[right] += mass[middle] * share * math.exp(tilt * (at[right] - at[middle]))
            mass[middle] = 0.0
            del places[-2]
    return np.array(mass)


def coarsened(pmf: LossPmf, doublings: int, rounding: Rounding) -> LossPmf:
    """The same loss on a lattice 2 ** doublings as wide, rounded up or down."""
    if doublings == 0:
        return pmf
    block = 1 << doublings
    start = pmf.start >> doublings
    head = pmf.start - (start << doublings)
    padded = np.pad(pmf.mass, (head, -(head + pmf.mass.size) % block)).reshape(-1, block)
    spacing = pmf.spacing * block
    offset = np.arange(block) * pmf.spacing
    at_low = np.exp(-pmf.tilt * offset)
    share = np.expm1(-offset) / math.expm1(-spacing)
    widths = np.full(padded.shape[0], spacing)
    points, cut = rounding((padded * at_low).sum(axis=1), (padded * (at_low * share)).sum(axis=1), pmf.tilt, widths)
    swell = math.exp(pmf.tilt * spacing)  # a misplaced tilted mass moves by less than one new spacing
    coarse = replace(
        pmf,
        level=pmf.level + doublings,
        start=start,
        mass=points,
        lost=(pmf.lost + cut) * swell,
        noise=pmf.noise * math.sqrt(block) * swell,
    )
    return coarse.normalized()


def inflation(residues: Array, tilt: float, spacing: float) -> float:
    """Relative growth of the tilted mass when a lattice is rounded up to a wider one.

    Args:
        residues: tilted mass by position within the wide cell, shape (block,).
        tilt: t.
        spacing: of the wide lattice.
    """
    offset = np.arange(residues.size) * (spacing / residues.size)
    return float((residues * _growth(offset, tilt, spacing)).sum()) / float(residues.sum())


def _growth(offset: Array, tilt: float, width: Array | float) -> Array:
    """What rounding up a unit tilted mass at `offset` above a cell's lower end adds to it."""
    share = np.expm1(-offset) / np.expm1(-width)
    return (1 - share) * np.expm1(-tilt * offset) + share * np.expm1(tilt * (width - offset))


@dataclass(frozen=True)
class Cells:
    """One step's loss cut into cells between lattice points, finer where it matters.

    Attributes:
        tilt: t.
        log_norm: log of the factor taken out of the tilted masses.
        level: lattice spacing is 2.0 ** level.
        edges: lattice indices of the cell ends, increasing, shape (n + 1,).
        mass: tilted mass of each cell, moved to the cell's lower end, shape (n,).
        share: the part of it that belongs to the upper end, shape (n,).
        at_zero: tilted mass with loss 0.
        overshoot: largest distance by which a loss lies outside its cell, from inverting the loss.
    """

    tilt: float
    log_norm: float
    level: int
    edges: NDArray[np.int64]
    mass: Array
    share: Array
    at_zero: float
    overshoot: float


def lattice(cut: Cells, rounding: Rounding) -> LossPmf:
    """One step on the lattice, rounded up or down."""
    widths = np.diff(cut.edges) * math.ldexp(1.0, cut.level)
    points, lost = rounding(cut.mass, cut.share, cut.tilt, widths)
    first = min(int(cut.edges[0]), 0)
    if int(cut.edges[-1]) - first > MOST_ENTRIES:
        raise ConvergenceError(f"privacy loss lattice: expected at most {MOST_ENTRIES} entries, needs more; try --method rdp")
    mass = np.zeros(max(int(cut.edges[-1]), 0) - first + 1)
    mass[cut.edges - first] = points
    mass[-first] += cut.at_zero
    pmf = LossPmf(
        tilt=cut.tilt, level=cut.level, start=first, mass=mass, log_norm=cut.log_norm, lost=lost + 10 * _NEGLIGIBLE
    )
    return pmf.normalized()


@dataclass(frozen=True)
class _Piece:
    """Part of a segment with monotone loss: points, losses, and the weight that says where cells should be fine."""

    segment: Segment
    y: Array
    loss: Array
    weight: Array


def cells(
    curve: LossCurve, *, tilt: float, log_norm: float, copies: int, budget: float, neglect: float
) -> Cells:
    """Cells fine enough that rounding them up costs less than `budget` in the log of the composed tilted mass.

    Splitting a cell of tilted mass m and width w adds m t (t + 1) w^2 / 12; for a given number of cells
    the sum is least for widths proportional to (density * slope^2)^(-1/3). At each end of each segment a
    P mass of at most `neglect` is left out.
    """
    pieces = [piece for segment in curve.segments for piece in _pieces(segment, tilt, log_norm, neglect)]
    areas = sum(float(np.trapezoid(piece.weight, piece.y)) for piece in pieces)
    count = math.sqrt(copies * tilt * (tilt + 1) * max(areas, 1e-300) ** 3 / (6 * budget))
    per_area = min(max(count, 96.0), 1e5) / max(areas, 1e-300)
    rough = [_edges(piece, per_area) for piece in pieces]
    level = _first_level(pieces, rough, tilt=tilt, log_norm=log_norm, copies=copies, budget=budget / 2)
    spacing = math.ldexp(1.0, level)
    ends = np.concatenate([np.interp(edges, piece.y, piece.loss) for piece, edges in zip(pieces, rough, strict=True)])
    edges = np.unique(np.concatenate([np.rint(ends / spacing), [np.floor(ends.min() / spacing), np.ceil(ends.max() / spacing)]]))
    sums = np.zeros((3, edges.size - 1))
    overshoot = 0.0
    for piece, fine in zip(pieces, rough, strict=True):
        part, over = _piece_cells(piece, fine, edges * spacing, tilt, log_norm)
        sums += part
        overshoot = max(overshoot, over)
    at_zero = max(0.0, 1 - float(sums[2].sum())) * math.exp(-log_norm)
    return Cells(
        tilt=tilt, log_norm=log_norm, level=level, edges=edges.astype(np.int64), mass=sums[0], share=sums[1],
        at_zero=at_zero, overshoot=overshoot,
    )


def _pieces(segment: Segment, tilt: float, log_norm: float, neglect: float) -> list[_Piece]:
    """The monotone pieces of a segment, where the tilted density is not negligible."""
    pair = segment.pair
    low, high = reach(segment, tilt, neglect)
    if low >= high:
        return []
    scale = min(pair.deviation, pair.deviation**2 / max(pair.span, 1e-300))
    y = np.linspace(low, high, min(max(400, math.ceil(4 * (high - low) / scale)), 100_000))
    log_p, loss = pair.log_density_and_loss(y)
    density = np.exp(np.minimum(log_p + tilt * loss - log_norm, 700.0))
    used = np.flatnonzero(density * pair.deviation > _NEGLIGIBLE)
    if used.size < 2:
        return []
    kept = slice(max(0, used[0] - 1), used[-1] + 2)
    y, loss, weight = y[kept], loss[kept], np.cbrt(density * np.gradient(loss, y) ** 2)[kept]
    bounds = [0, *_turns(loss), y.size - 1]
    return [
        _Piece(segment, y[i : j + 1], loss[i : j + 1], weight[i : j + 1])
        for i, j in zip(bounds, bounds[1:], strict=False)
        if j > i
    ]


def _turns(loss: Array) -> list[int]:
    """Where a sampled loss changes direction by more than round-off."""
    steps = np.diff(loss)
    real = np.flatnonzero(np.abs(steps) > 1e-14 * max(float(np.ptp(loss)), 1e-300))
    signs = np.sign(steps[real])
    turned: list[int] = real[1:][signs[1:] != signs[:-1]].tolist()
    return turned


def _edges(piece: _Piece, per_area: float) -> Array:
    """Edges in y: `per_area` cells per unit of weight, none wider than a quarter of the scale of the densities."""
    pair = piece.segment.pair
    widest = 0.25 * min(pair.deviation, pair.deviation**2 / max(pair.span, 1e-300))
    rate = piece.weight * per_area + 1 / widest
    below = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(piece.y))])
    return np.interp(np.linspace(0, below[-1], max(2, math.ceil(below[-1])) + 1), below, piece.y)


def _first_level(
    pieces: list[_Piece], rough: list[Array], *, tilt: float, log_norm: float, copies: int, budget: float
) -> int:
    """Widest power-of-two spacing whose rounding up costs less than `budget` in the log of the composed mass."""
    nodes = [_tilted_nodes(piece.segment, edges, tilt, log_norm) for piece, edges in zip(pieces, rough, strict=True)]
    mass = np.concatenate([m for m, _ in nodes])
    loss = np.concatenate([x for _, x in nodes])
    level = math.ceil(math.log2(max(float(np.abs(loss).max()), 1e-300)))
    while True:
        spacing = math.ldexp(1.0, level)
        offset = loss - np.floor(loss / spacing) * spacing
        if copies * float((mass * _growth(offset, tilt, spacing)).sum()) <= budget or level < -300:
            return level
        level -= 1


def _tilted_nodes(segment: Segment, edges: Array, tilt: float, log_norm: float) -> tuple[Array, Array]:
    """(tilted mass, loss) at the quadrature nodes between edges."""
    y, log_weight = panels_between(edges, order=_NODES)
    log_p, loss = segment.pair.log_density_and_loss(y)
    return np.exp(log_p + log_weight + tilt * loss - log_norm), loss


def _piece_cells(piece: _Piece, fine: Array, losses: Array, tilt: float, log_norm: float) -> tuple[Array, float]:
    """Sums by cell of (tilted mass at the lower end, share of the upper end, plain mass), and the overshoot."""
    inner, overshoot = _inverse(piece, losses)
    edges = np.union1d(fine, inner)
    mass, loss = _tilted_nodes(piece.segment, edges, tilt, log_norm)
    middle = loss.reshape(-1, _NODES)[:, _NODES // 2]
    cell = np.clip(np.searchsorted(losses, middle, side="right") - 1, 0, losses.size - 2)
    cell = np.repeat(cell, _NODES)
    offset, width = loss - losses[cell], np.diff(losses)[cell]
    at_low = mass * np.exp(-tilt * offset)
    share = at_low * np.expm1(-offset) / np.expm1(-width)
    plain = np.exp(log_norm - tilt * loss) * mass
    size = losses.size - 1
    return np.array([np.bincount(cell, weights=w, minlength=size) for w in (at_low, share, plain)]), overshoot


def _inverse(piece: _Piece, losses: Array) -> tuple[Array, float]:
    """Points where the loss takes the given values, as far as the piece has them, and the largest miss."""
    order = slice(None) if piece.loss[-1] > piece.loss[0] else slice(None, None, -1)
    table_y, table_loss = piece.y[order], np.maximum.accumulate(piece.loss[order])
    wanted = losses[(losses > table_loss[0]) & (losses < table_loss[-1])]
    if not wanted.size:
        return wanted, 0.0
    place = np.searchsorted(table_loss, wanted)
    rise = np.maximum(table_loss[place] - table_loss[place - 1], 1e-300)
    slope = rise / (table_y[place] - table_y[place - 1])
    low = np.minimum(table_y[place], table_y[place - 1])
    high = np.maximum(table_y[place], table_y[place - 1])
    y = np.interp(wanted, table_loss, table_y)
    for _ in range(4):
        miss = piece.segment.pair.log_density_and_loss(y)[1] - wanted
        y = np.clip(y - miss / slope, low, high)
    miss = piece.segment.pair.log_density_and_loss(y)[1] - wanted
    return y, float(np.abs(miss).max())
