"""Coarser grids for a loss on a lattice, pessimistic or optimistic; both are second order in the spacing.

Pessimistic ("connect the dots", Doroshenko et al. 2022, 2207.04380v3, section 4): each mass goes to the two ends of its
wide cell so that P and Q mass are kept; the profile becomes the chords of the convex profile in (e^epsilon, delta).

Optimistic: the chords are lowered at each lattice point by the largest gap between chord and profile in its two cells.
The profile used for the gap is that of the cell merged into one atom, which is post-processing; a chord lowered by the
gap at both ends lies below it, so the result is below the true profile everywhere. Where that would need negative
masses, the cells' atoms are merged further until they meet the lattice.

Source: docs/theory.md, Theorem 9.1 and Theorem 9.2.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dpcalc.losses.pmf import LossPmf
from dpcalc.numerics import Array, in_rows, sum_by_index
from dpcalc.work import ELEMENT, TURN, spend

Rounding = Callable[[Array, Array, Array, float, float], Array]
"""From the tilted masses of n wide cells, as if moved to their lower ends, (what lies there, what lies above it within
the cell, the part of that which has to go to the upper end so that P and Q mass stay), tilt and spacing of the wide
lattice, to the tilted masses at the lattice points, from one point below the first cell to the end of the last, shape
(n + 2,)."""

_MAX_COST = 1.25  # tilted mass that lowered chords may lose, in shares of what the chords gain; else atoms are merged
_MAX_EXPONENT = 600.0  # of a tilted mass; floats end at 709
_IGNORED = 1e-14  # negative mass that is cut (and counted as lost) rather than cured


def coarsened(pmf: LossPmf, doublings: int, rounding: Rounding) -> LossPmf:
    """Return the loss rounded to a lattice 2^doublings times as wide, negative masses cut and counted in `lost`."""
    # 0 doublings leave it unchanged; the bounds on errors grow with the tilt.
    if doublings == 0:
        return pmf
    spend(ELEMENT * pmf.mass.size)
    block, spacing = 1 << doublings, math.ldexp(pmf.spacing, doublings)
    # The wide lattice keeps index 0: the first cell begins below the first entry unless that is on the wide lattice.
    head = pmf.start % block

    def factors(place: Array) -> tuple[Array, Array]:  # that move tilted masses to the lower end; times the upper share
        offset = place * pmf.spacing
        at_low = np.exp(-pmf.tilt * offset)
        return at_low, at_low * (np.expm1(-offset) / math.expm1(-spacing))

    if block <= 4 * pmf.mass.size:
        # Rows are wide cells; column k holds the masses k points above the lower end of their cell.
        rows = in_rows(pmf.mass, block, before=head)
        at_low, share = factors(np.arange(block, dtype=np.float64))
        at_low[0] = 0.0  # what lies at the lower end is not inside
        at_end, inside, to_upper = rows[:, 0], np.einsum("ij,j->i", rows, at_low), np.einsum("ij,j->i", rows, share)
    else:
        # All entries lie in one cell or two: a step that shows next to nothing has its losses on a lattice with a
        # spacing down to 2^-996.
        border, of_cells = block - head, []  # index of the first point of the second cell
        for offset, mass in ((float(head), pmf.mass[: min(border, pmf.mass.size)]), (0.0, pmf.mass[border:])):
            if mass.size:
                at_low, share = factors(offset + np.arange(mass.size, dtype=np.float64))
                aligned = int(offset == 0)  # whether the first mass is at the lower end, not inside
                of_cells.append((mass[:aligned].sum(), (mass * at_low)[aligned:].sum(), (mass * share).sum()))
        at_end, inside, to_upper = (np.array(column, dtype=pmf.mass.dtype) for column in zip(*of_cells, strict=True))
    points = rounding(at_end, inside, to_upper, pmf.tilt, spacing)
    cut = float(np.maximum(-points, 0.0).sum())
    swell = math.exp(pmf.tilt * spacing)  # a misplaced tilted mass moves by less than one new spacing
    return replace(
        pmf,
        level=pmf.level + doublings,
        start=(pmf.start >> doublings) - 1,
        mass=np.maximum(points, 0.0),
        lost=(pmf.lost + cut) * swell,
        noise=pmf.noise * math.sqrt(min(block, pmf.mass.size)) * swell,
    )


def coarsen_pessimistic(at_end: Array, inside: Array, to_upper: Array, tilt: float, spacing: float) -> Array:
    """Split the masses of n cells over their ends, P and Q mass unchanged: an upper bound at n + 2 lattice points."""
    points = np.zeros(inside.size + 2, dtype=inside.dtype)
    points[1:-1] = at_end + np.maximum(inside - to_upper, 0.0)
    points[2:] += to_upper * math.exp(tilt * spacing)
    return points


def coarsen_optimistic(at_end: Array, inside: Array, to_upper: Array, tilt: float, spacing: float) -> Array:
    """Lower the chords below the profile: a lower bound; if masses are < 0 then, take the envelope or merge atoms."""
    # How far above its cell's lower end the inside of each cell lies if merged into one atom.
    lifted = np.minimum(to_upper / np.where(inside > 0, inside, 1.0), 1 - 1e-15)
    above = np.minimum(-np.log1p(lifted * math.expm1(-spacing)), spacing)
    chords = coarsen_pessimistic(at_end, inside, to_upper, tilt, spacing)
    # Between the chord and the profile of the merged atom the gap is largest at the atom.
    points = _lower_chords(chords, to_upper * -np.expm1(above - spacing), tilt, spacing)
    if float(np.maximum(-points, 0.0).sum()) <= _IGNORED:
        return points
    # Lowered chords with concave corners are no profile, but the largest convex function below them is one. Merging the
    # atoms at the ends and inside of cells takes ten times as long, but next to a few heavy atoms it costs less tilted
    # mass: about as much as the chords had gained.
    masses = np.stack([at_end, inside * np.exp(tilt * above)], axis=1).astype(np.float64).ravel()
    envelope, merged = _lower_envelope(points, tilt, spacing), float(masses.sum())
    if envelope is not None and merged - float(envelope.sum()) <= _MAX_COST * (float(chords.sum()) - merged):
        return envelope
    losses = (np.arange(above.size)[:, None] * spacing + np.stack([np.zeros(above.size), above], axis=1)).ravel()
    used = np.flatnonzero(masses)
    places, at_places = merged_onto_lattice(masses[used], losses[used].astype(np.float64), tilt, spacing)
    return sum_by_index(np.array(places) + 1, np.array(at_places), size=above.size + 2).astype(inside.dtype)


def _lower_chords(points: Array, gap: Array, tilt: float, spacing: float) -> Array:
    """Return masses, some < 0, of chords lowered at each point by the larger gap of its cells, at most to profile 0."""
    # Lowering point j by g_j changes the profile's slopes on both sides: in masses, that is a second difference with
    # the weights of a lattice in e^epsilon.
    swell = math.exp(tilt * spacing)
    lowering = np.zeros(points.size - 1, dtype=points.dtype)  # at the lattice points from the first cell's lower end on
    lowering[:-1] = gap
    lowering[1:] = np.maximum(lowering[1:], gap * swell)
    points = points[1:].copy()
    # Where lowering would leave less than nothing, the profile is 0 from one lattice point earlier on: the chord before
    # that only sinks. Only the right end can be so low; 600 is what a float's exponent holds.
    back = np.arange(points.size - 1, -1, -1) * spacing
    near = int(np.searchsorted(-back, -600 / (1 + tilt)))
    plain = points[near:] * np.exp(tilt * back[near:])
    above = np.append(np.cumsum(plain[::-1])[::-1][1:], 0.0)
    discounted = np.append(np.cumsum((plain * np.exp(back[near:]))[::-1])[::-1][1:], 0.0)
    profile = np.maximum(above - np.exp(-back[near:]) * discounted, 0.0) * np.exp(-tilt * back[near:])
    first = near + int(np.argmax(profile <= lowering[near:] * (1 + 1e-9)))  # the last profile value is 0
    last = max(first - 1, near)
    lowering[last:] = profile[last - near :]
    points[0] += lowering[0]  # the chord from epsilon = -inf
    points[:-1] -= (lowering[1:] / swell - lowering[:-1]) * (math.exp(-spacing) / -math.expm1(-spacing))
    points[1:] -= (lowering[1:] - lowering[:-1] * swell) / math.expm1(-spacing)
    points[last + 1 :] = 0.0
    return np.concatenate([[0.0], points])


def _lower_envelope(points: Array, tilt: float, spacing: float) -> Array | None:
    """Remove negative masses by splitting them over their neighbours, P and Q mass unchanged; None if that fails."""
    # It fails if the last mass is negative, or if an exponent exceeds 600.
    # The chord over a concave corner splits its negative mass over both neighbours, with its P and Q mass; that may
    # make them concave in turn. Below the first point the profile is a chord from e^epsilon = 0, which keeps P mass.
    masses, size = points.tolist(), points.size
    above, below = list(range(1, size + 1)), list(range(-1, size - 1))
    corners = np.flatnonzero(points < 0).tolist()
    spend(3 * TURN * len(corners))
    while corners:
        i = corners.pop()
        mass = masses[i]
        if mass >= 0:
            continue
        low, high = below[i], above[i]
        if high == size or tilt * (high - low) * spacing > _MAX_EXPONENT:
            return None
        up, masses[i] = (high - i) * spacing, 0.0
        share = 1.0
        if low >= 0:
            down = (i - low) * spacing
            share = math.expm1(-down) / math.expm1(-down - up)
            masses[low] += mass * (1 - share) * math.exp(-tilt * down)
            above[low] = high
            corners.append(low)
        masses[high] += mass * share * math.exp(tilt * up)
        below[high] = low
        corners.append(high)
    return np.array(masses, dtype=points.dtype)


def merged_onto_lattice(mass: Array, loss: Array, tilt: float, spacing: float) -> tuple[list[int], list[float]]:
    """Merge sorted atoms onto lattice points, or round them down if no partner is near: a lower bound."""
    # Merging is post-processing, and an atom may be split at random. A sweep from one end groups what it meets before a
    # lattice point with as much of what lies beyond it as keeps both the P and the Q mass. Loss without a partner near
    # enough are rounded down; so the sweep goes to the end with less mass.
    if not mass.size:
        return [], []
    spend(3 * TURN * mass.size)
    top, bottom = mass[loss > loss[-1] - spacing].sum(), mass[loss < loss[0] + spacing].sum()
    return _sweep(mass, loss, tilt, spacing) if bottom > top else _sweep(mass[::-1], loss[::-1], tilt, -spacing)


def _sweep(mass: Array, loss: Array, tilt: float, step: float) -> tuple[list[int], list[float]]:
    """Merge the atoms before each point with later ones near by, else round them down; return (indices, masses)."""
    end, spacing, masses, losses = int(math.copysign(1, step)), abs(step), mass.tolist(), loss.tolist()
    # An atom moves to the lattice point at or beyond it, or as a partner of atoms before it to the one before: for all
    # at once the factors on the tilted mass, and on the error of the Q mass relative to the Q mass at the point.
    steps = np.ceil(loss / step)
    distance = steps * step - loss
    with np.errstate(over="raise"):
        at_next, excess = np.exp(tilt * distance), end * np.expm1(np.minimum(distance, 700.0))
    at_last = np.exp(np.minimum(tilt * (distance - step), 700.0))  # merged only where the exponent is at most 2
    at, moved_next, moved_excess = steps.astype(np.int64).tolist(), at_next.tolist(), (at_next * excess).tolist()
    moved_last, moved_gain = at_last.tolist(), (-end * np.expm1(np.minimum(distance - step, 700.0))).tolist()
    places, points, i, count = [], [], 0, len(masses)
    while i < count:
        place, total, missing = at[i], 0.0, 0.0
        while i < count and at[i] == place:
            total += masses[i] * moved_next[i]
            missing += masses[i] * moved_excess[i]
            i += 1
        # Merging is worth its cost as long as it is below that of rounding what is missing down by one spacing. Loss
        # so far off that they cost more are left alone: in shares of the tilted mass divided by the tilt, each costs
        # (1 + tilt) / 2 times its distance times its mass.
        limit = 1.0 if end < 0 else min(1.0, spacing * total / missing - 1) if missing else 0.0
        goal, more, gained = place * step, 0.0, 0.0
        while i < count and gained < missing:
            gap = goal - losses[i]
            if not 0.5 * (1 + tilt) * abs(gap) <= limit:
                break
            near = at[i] == place + 1
            moved = masses[i] * (moved_last[i] if near else math.exp(tilt * gap))
            part = moved * (moved_gain[i] if near else -end * math.expm1(gap))
            if part > missing - gained:
                share = (missing - gained) / part
                masses[i] *= 1 - share
                more, gained = more + share * moved, missing
                break
            more, gained, i = more + moved, gained + part, i + 1
        if end > 0 and gained < missing:  # what they do not suffice for is rounded down
            leftover = (1 - gained / missing) * total
            total -= leftover
            places.append(place - 1)
            points.append(leftover * math.exp(-tilt * spacing))
        places.append(end * place)
        points.append(total + more)
    return places, points


def growth_by_rounding_up(offset: Array, tilt: float, width: Array | float) -> Array:
    """Return the relative growth of a tilted mass `offset` above its cell's lower end if split over both ends."""
    share = np.expm1(-offset) / np.expm1(-width)
    return (1 - share) * np.expm1(-tilt * offset) + share * np.expm1(np.minimum(tilt * (width - offset), 600.0))
