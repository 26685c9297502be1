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
from typing import NamedTuple

import numpy as np

from dpcalc.arrays import Array
from dpcalc.losses.pmf import LossPmf, powers, powers_beyond
from dpcalc.numerics.convolution import sum_by_index
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, TURN, spend


class CellSums(NamedTuple):
    """Tilted masses of the wide cells, as if moved to their lower ends; shape (n,) each.

    Attributes:
        at_end: what lies at the lower end.
        inside: what lies above it, within the cell.
        to_upper: the part of `inside` that has to go to the upper end so that P and Q mass stay.
    """

    at_end: Array
    inside: Array
    to_upper: Array


Rounding = Callable[[CellSums, float, float], Array]
"""From (sums, tilt, spacing of the wide lattice) to the tilted masses at the lattice points, from one point below the
first cell to the end of the last, shape (n + 2,)."""

_IGNORED = 1e-14  # negative mass that is cut (and counted as lost) rather than cured


def coarsened(pmf: LossPmf, doublings: int, rounding: Rounding) -> LossPmf:
    """Return the loss on a lattice of 2^doublings times the spacing, masses moved by `rounding`; unchanged for 0.

    Args:
        pmf: a loss on a lattice.
        doublings: of the spacing, >= 0.
        rounding: `coarsen_pessimistic` for an upper, `coarsen_optimistic` for a lower bound.
    """
    if doublings == 0:
        return pmf
    spend(ELEMENT * pmf.mass.size)
    block = 1 << doublings
    start = pmf.start >> doublings
    spacing = math.ldexp(pmf.spacing, doublings)
    sums = _sums_of_cells if block <= 4 * pmf.mass.size else _sums_of_two_cells
    points = rounding(sums(pmf, doublings), pmf.tilt, spacing)
    cut = float(np.maximum(-points, 0.0).sum())
    swell = math.exp(pmf.tilt * spacing)  # a misplaced tilted mass moves by less than one new spacing
    return replace(
        pmf,
        level=pmf.level + doublings,
        start=start - 1,
        mass=np.maximum(points, 0.0),
        lost=(pmf.lost + cut) * swell,
        noise=pmf.noise * math.sqrt(min(block, pmf.mass.size)) * swell,
    )


def _sums_of_cells(pmf: LossPmf, doublings: int) -> CellSums:
    """Return the sums of tilted masses that a coarser lattice needs, one entry a wide cell."""
    # The wide lattice keeps index 0: the first cell begins below the first entry unless that is on the wide lattice.
    block = 1 << doublings
    head = pmf.start - (pmf.start >> doublings << doublings)
    # Rows are wide cells; column k holds the masses k points above the lower end of their cell.
    padded = np.pad(pmf.mass, (head, -(head + pmf.mass.size) % block)).reshape(-1, block)
    at_low, share = _move_to_lower_end(pmf, np.arange(block, dtype=np.float64), doublings)
    return CellSums(padded[:, 0], (padded[:, 1:] * at_low[1:]).sum(axis=1), (padded * share).sum(axis=1))


def _sums_of_two_cells(pmf: LossPmf, doublings: int) -> CellSums:
    """Return `_sums_of_cells` where cells are wider than all entries, which then lie in one cell or two."""
    # A step that shows next to nothing has its losses on a lattice with a spacing down to 2^-996.
    first = pmf.start - (pmf.start >> doublings << doublings)
    border = (1 << doublings) - first  # index of the first point of the second cell
    sums = []
    for offset, mass in ((float(first), pmf.mass[: min(border, pmf.mass.size)]), (0.0, pmf.mass[border:])):
        if mass.size:
            at_low, share = _move_to_lower_end(pmf, offset + np.arange(mass.size, dtype=np.float64), doublings)
            is_aligned = offset == 0
            aligned = mass[:1].sum() if is_aligned else mass[:0].sum()
            sums.append((aligned, (mass * at_low)[int(is_aligned) :].sum(), (mass * share).sum()))
    return CellSums(*(np.array(column, dtype=pmf.mass.dtype) for column in zip(*sums, strict=True)))


def _move_to_lower_end(pmf: LossPmf, place: Array, doublings: int) -> tuple[Array, Array]:
    """Return (factor on a tilted mass moved from `place` to its cell's lower end, share of it for the upper end).

    Args:
        pmf: the loss.
        place: points of its lattice above the cell's lower end, shape (n,).
        doublings: by which a cell is wider than a point.
    """
    offset = place * pmf.spacing
    at_low = np.exp(-pmf.tilt * offset)
    return at_low, at_low * (np.expm1(-offset) / math.expm1(-math.ldexp(pmf.spacing, doublings)))


def coarsen_pessimistic(sums: CellSums, tilt: float, spacing: float) -> Array:
    """Split each cell's mass over its two ends, P and Q mass kept (chords of the profile): an upper bound.

    Args:
        sums: tilted masses of the wide cells, shape (n,) each.
        tilt: t.
        spacing: of the wide lattice.

    Returns:
        Tilted masses from one lattice point below the first cell to the end of the last, shape (n + 2,).
    """
    points = np.zeros(sums.inside.size + 2, dtype=sums.inside.dtype)
    points[1:-1] = sums.at_end + np.maximum(sums.inside - sums.to_upper, 0.0)
    points[2:] += sums.to_upper * math.exp(tilt * spacing)
    return points


def coarsen_optimistic(sums: CellSums, tilt: float, spacing: float) -> Array:
    """Lower the chords below the profile, or if that takes negative masses merge atoms: a lower bound.

    Args: those of `coarsen_pessimistic`; the result has its shape.
    """
    at_end, mass, to_upper = sums
    # The inside of each cell, merged into one atom, lies `above` the cell's lower end; between the chord and the
    # profile of that atom the gap is largest at the atom.
    lifted = np.minimum(to_upper / np.where(mass > 0, mass, 1.0), 1 - 1e-15)
    above = -np.log1p(lifted * math.expm1(-spacing))  # merged loss less the cell's lower end
    above = np.minimum(above, spacing)
    chords = coarsen_pessimistic(sums, tilt, spacing)
    points = _lower_chords(chords, to_upper * -np.expm1(above - spacing), tilt, spacing)
    if float(np.maximum(-points, 0.0).sum()) <= _IGNORED:
        return points
    # Lowered chords with a concave corner are no profile: the atoms at the ends and inside of cells are merged instead.
    masses = np.stack([at_end, mass * np.exp(tilt * above)], axis=1).astype(np.float64).ravel()
    losses = (np.arange(mass.size)[:, None] * spacing + np.stack([np.zeros(mass.size), above], axis=1)).ravel()
    used = np.flatnonzero(masses)
    atoms, losses = masses[used], losses[used].astype(np.float64)
    places, merged = merged_onto_lattice(atoms, losses, tilt, spacing)
    return sum_by_index(np.array(places) + 1, np.array(merged), size=mass.size + 2).astype(mass.dtype)


def _lower_chords(points: Array, gap: Array, tilt: float, spacing: float) -> Array:
    """Return the masses of chords lowered at each lattice point by the larger gap of its two cells: a lower bound."""
    # Lowering point j by g_j changes the profile's slopes on both sides: in masses, that is a second difference with
    # the weights of a lattice in e^epsilon.
    swell = math.exp(tilt * spacing)
    lowering = np.zeros(points.size - 1, dtype=points.dtype)  # at the lattice points from the first cell's lower end on
    lowering[:-1] = gap
    lowering[1:] = np.maximum(lowering[1:], gap * swell)
    points = points[1:].copy()
    last = _cut_where_zero(points, tilt, spacing, lowering)
    points[0] += lowering[0]  # the chord from epsilon = -inf
    points[:-1] -= (lowering[1:] / swell - lowering[:-1]) * (math.exp(-spacing) / -math.expm1(-spacing))
    points[1:] -= (lowering[1:] - lowering[:-1] * swell) / math.expm1(-spacing)
    points[last + 1 :] = 0.0
    return np.concatenate([[0.0], points])


def _cut_where_zero(points: Array, tilt: float, spacing: float, lowering: Array) -> int:
    """Limit `lowering` in place so that the lowered profile is >= 0; return the index from which on it is 0."""
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
    return last


def merged_onto_lattice(mass: Array, loss: Array, tilt: float, spacing: float) -> tuple[list[int], list[float]]:
    """Merge atoms into groups whose merged loss is a lattice point: return (lattice indices, masses), a lower bound.

    Args:
        mass: tilted masses, by increasing loss.
        loss: their losses.
        tilt: t.
        spacing: of the lattice.

    Returns:
        (lattice indices, tilted masses).
    """
    # Merging is post-processing, and an atom may be split at random. A sweep from one end groups what it meets before a
    # lattice point with as much of what lies beyond it as keeps both the P and the Q mass. Atoms without a partner near
    # enough are rounded down; so the sweep goes to the end with less mass.
    if not mass.size:
        return [], []
    spend(3 * TURN * mass.size)
    top, bottom = mass[loss > loss[-1] - spacing].sum(), mass[loss < loss[0] + spacing].sum()
    return _sweep(_AtomSweep(mass.tolist(), loss.tolist(), tilt, 1 if bottom > top else -1), spacing)


def _sweep(atoms: "_AtomSweep", spacing: float) -> tuple[list[int], list[float]]:
    """Return (lattice indices, masses): atoms up to each point merged with enough later ones to keep P and Q mass."""
    mass, loss, tilt, end = atoms.mass, atoms.loss, atoms.tilt, atoms.end
    places: list[int] = []
    points: list[float] = []
    i, last = (0, len(mass)) if end > 0 else (len(mass) - 1, -1)
    while i != last:
        place = end * math.ceil(end * loss[i] / spacing)
        goal = place * spacing
        total = missing = 0.0
        while i != last and (distance := goal - loss[i]) * end >= 0:
            moved = mass[i] * math.exp(tilt * distance)
            total += moved
            missing += end * moved * (math.expm1(distance) if distance < 700 else math.inf)
            i += end
        # Merging is worth its cost as long as it is below that of rounding what is missing down by one spacing.
        limit = 1.0 if end < 0 else min(1.0, spacing * total / missing - 1) if missing else 0.0
        more, gained, i = atoms.merged_until_balanced(i, goal, missing, limit)
        if end > 0 and gained < missing:  # what they do not suffice for is rounded down
            leftover = (1 - gained / missing) * total
            total -= leftover
            places.append(place - 1)
            points.append(leftover * math.exp(-tilt * spacing))
        places.append(place)
        points.append(total + more)
    return places, points


@dataclass(frozen=True)
class _AtomSweep:
    """Tilted masses by increasing loss, and the direction of the sweep: 1 from the lowest loss, -1 from the highest."""

    mass: list[float]
    loss: list[float]
    tilt: float
    end: int

    def merged_until_balanced(self, i: int, goal: float, missing: float, limit: float) -> tuple[float, float, int]:
        """Move atoms from index i on to loss `goal` to balance `missing`; return (mass, part balanced, next index).

        Args:
            i: index of the first atom.
            goal: loss of the lattice point.
            missing: excess to be balanced, > 0.
            limit: largest cost of a merge.
        """
        # Atoms so far off that merging them costs more than it saves by rounding less down are left alone: in shares of
        # the tilted mass divided by the tilt, each costs (1 + tilt) / 2 times its distance times its mass.
        mass, loss, tilt, end = self.mass, self.loss, self.tilt, self.end
        total, gained, last = 0.0, 0.0, len(mass) if end > 0 else -1
        while i != last and gained < missing:
            distance = goal - loss[i]
            if not 0.5 * (1 + tilt) * abs(distance) <= limit:
                break
            moved = mass[i] * math.exp(tilt * distance)
            gain = -end * moved * math.expm1(distance)
            if gain > missing - gained:
                part = (missing - gained) / gain
                mass[i] *= 1 - part
                return total + part * moved, missing, i
            total, gained, i = total + moved, gained + gain, i + end
        return total, gained, i


def mean_growth_by_rounding_up(residues: Array, tilt: float, spacing: float) -> float:
    """Return the mean growth of tilted mass, `residues` by place in a wide cell, if split over the cell's ends.

    Args:
        residues: tilted mass by position within the wide cell, shape (block,).
        tilt: t.
        spacing: of the wide lattice.
    """
    offset: Array = np.arange(residues.size, dtype=np.float64) * (spacing / residues.size)
    return float((residues * growth_by_rounding_up(offset, tilt, spacing)).sum()) / float(residues.sum())


def growth_by_rounding_up(offset: Array, tilt: float, width: Array | float) -> Array:
    """Return the relative growth of a tilted mass `offset` above its cell's lower end if split over both ends.

    Args:
        offset: of the mass above the lower end of its cell, >= 0.
        tilt: t.
        width: of the cell, > 0.
    """
    share = np.expm1(-offset) / np.expm1(-width)
    return (1 - share) * np.expm1(-tilt * offset) + share * np.expm1(np.minimum(tilt * (width - offset), 600.0))


# Split losses: a fine lattice for the bulk, a coarse one for rare large values
#
# One step that rarely draws the unit leaks next to nothing most of the time, and sometimes a lot. On one lattice fine
# enough for the bulk the jumps would span millions of points. The part of (F + C)^m without a jump is F^m on the fine
# lattice, the remainder (F + C)^m - F^m is on the coarse one. Rounding F to the coarse lattice is weighted by
# the chance of a jump, so it costs little.


@dataclass(frozen=True, kw_only=True)
class SplitPmf:
    """A loss whose bulk is on a fine lattice and whose rare large values (jumps) are on a coarse one.

    Attributes:
        bulk: on the finer lattice.
        jumps: on the coarser lattice, with the same tilt, origin and log_norm; masses of both sum to about 1.
    """

    bulk: LossPmf
    jumps: LossPmf

    @property
    def gap(self) -> int:
        """Number of doublings of the spacing from the bulk's lattice to that of the jumps."""
        return self.jumps.level - self.bulk.level

    @property
    def log_norm(self) -> float:
        """Log of the factor taken out of both."""
        return self.bulk.log_norm

    def to_longdouble(self) -> "SplitPmf":
        """Return the measure with the bulk (not the jumps) in extended precision."""
        return SplitPmf(bulk=self.bulk.to_longdouble(), jumps=self.jumps)

    def normalized(self) -> "SplitPmf":
        """Return the measure with masses that sum to 1 over both parts; log_norm keeps the factor."""
        total = float(self.bulk.mass.sum() + self.jumps.mass.sum())
        return SplitPmf(bulk=self.bulk.over(total), jumps=self.jumps.over(total))


def split_powers(split: SplitPmf, counts: tuple[int, ...], rounding: Rounding) -> list[SplitPmf]:
    """Return the k-fold composition for each k in counts, all that has a jump on the coarser lattice alone.

    Args:
        split: one loss on two lattices.
        counts: how many copies, each >= 1.
        rounding: `coarsen_pessimistic` for an upper, `coarsen_optimistic` for a lower bound.
    """
    bulk = powers(split.bulk, counts)
    without = coarsened(split.bulk, split.gap, rounding)
    jumps = powers_beyond(without, split.jumps, counts)
    return [SplitPmf(bulk=a, jumps=b).normalized() for a, b in zip(bulk, jumps, strict=True)]
