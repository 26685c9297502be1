"""Discretization of one step: from its cells to its first grid, pessimistic or optimistic.

The pessimistic way splits the P and Q mass of each cell over the lattice points around it. The optimistic way merges
each cell into one atom, and the atoms until they meet the lattice; `coarsen` says why that is valid.

Source: docs/theory.md, Theorem 9.1 and Theorem 9.2.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.errors import ConvergenceError
from dpcalc.losses.cells import NEGLIGIBLE, NODES, Cells
from dpcalc.losses.coarsen import SplitPmf, merged_onto_lattice
from dpcalc.losses.pmf import MOST_ENTRIES, LossPmf
from dpcalc.numerics.convolution import UNIT_ROUNDOFF, sum_by_index
from dpcalc.work import ELEMENT, spend

_ATOM = 1e-9  # tilted mass at 0 above which the lattice stays at 0, where it is exact
_HALF = 0.5  # |ratio - 1| above which log1p would have lost its digits
_LARGEST = 600.0  # exponent of a tilted mass; floats end at 709


def discretize_pessimistic(cut: Cells) -> LossPmf | SplitPmf:
    """Return one step on a lattice or two, each cell's mass split over its ends (upper bound); or ConvergenceError.

    Raises:
        ConvergenceError: cells are too wide for the tilt, or the lattice would have too many entries.
    """
    spend(8 * ELEMENT * cut.mass.size)
    # A cell lies between the two lattice points around its middle node, but for the overshoot of its ends, which the
    # slack of the composition counts.
    ends = cut.edges * cut.spacing
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
    points += sum_by_index(place + 1, up, size=ends.size)
    points[0] += cut.below * math.exp(min(cut.tilt * ends[0], 690.0))  # moved up to the lowest loss that was kept
    return _on_lattices(cut, cut.edges.astype(np.int64), points, 0.0)


def discretize_optimistic(cut: Cells) -> LossPmf | SplitPmf:
    """Return one step on a lattice or two: cells merged to atoms, these merged onto lattice points (lower bound)."""
    spend(8 * ELEMENT * cut.mass.size)
    top = cut.loss.max(axis=1)[:, None]
    plain = cut.mass * np.exp(-cut.tilt * (cut.loss - top))  # P masses times e^{t top - log_norm}
    total = plain.sum(axis=1)
    low = cut.loss.min(axis=1)
    loss = low - np.log1p((plain * np.expm1(low[:, None] - cut.loss)).sum(axis=1) / total)
    mass = total * np.exp(cut.tilt * (loss - top[:, 0]))
    cut, mass, loss, origin = _choose_origin(cut, np.append(mass, cut.zero_loss_mass), np.append(loss, 0.0))
    order = np.argsort(loss)
    mass, loss = mass[order], loss[order] - origin
    loss[np.abs(loss) <= 4 * UNIT_ROUNDOFF * abs(origin)] = 0.0
    limit, wide = cut.border * cut.spacing, 1 << cut.gap
    places: list[int] = []
    points: list[float] = []
    for inside, factor in ((loss < -limit, wide), (np.abs(loss) <= limit, 1), (loss > limit, wide)):
        indices, merged = merged_onto_lattice(mass[inside], loss[inside], cut.tilt, cut.spacing * factor)
        places += [factor * place for place in indices]
        points += merged
    return _on_lattices(cut, np.array(places, dtype=np.int64), np.array(points), origin)


def _choose_origin(cut: Cells, mass: Array, loss: Array) -> tuple[Cells, Array, Array, float]:
    """Return (cells, masses, losses, origin): origin is the heaviest cell's loss, its mass set apart without jumps."""
    # Optimistic rounding costs in proportion to the mass that is off the lattice. One heavy cell (a step that rarely
    # draws the unit has nearly all mass near one loss) would cost nearly everything; on the lattice it costs nothing.
    split = bool((np.abs(loss) > cut.border * cut.spacing).any()) and cut.zero_loss_mass <= _ATOM
    place = np.rint(loss / math.ldexp(cut.spacing, cut.gap if split else 0)).astype(np.int64)
    sums = sum_by_index(place - place.min(), mass, size=int(np.ptp(place)) + 1)
    inside = place == place.min() + int(np.argmax(sums))
    zero_loss_mass, origin = _merge_atoms(mass[inside], loss[inside], cut.tilt)
    if split:
        return replace(cut, zero_loss_mass=0.0), mass, loss, origin
    return replace(cut, zero_loss_mass=zero_loss_mass), mass[~inside], loss[~inside], origin


def _merge_atoms(mass: Array, loss: Array, tilt: float) -> tuple[float, float]:
    """Return (tilted mass, loss) of atoms merged into one, keeping P and Q mass; not all masses are 0."""
    mass, loss = mass[mass > 0], loss[mass > 0]  # the reference must have mass: far below the others, all would vanish
    reference = float(loss.min())
    plain = mass * np.exp(tilt * (reference - loss))
    total = float(plain.sum())
    less = float((plain * np.expm1(reference - loss)).sum()) / total
    rough = less < -_HALF  # far from the reference, where 1 + less has lost its digits
    merged = reference - (
        math.log(float((plain * np.exp(reference - loss)).sum()) / total) if rough else math.log1p(less)
    )
    return total * math.exp(tilt * (merged - reference)), merged


def _on_lattices(cut: Cells, places: NDArray[np.int64], points: Array, origin: float) -> LossPmf | SplitPmf:
    """Return masses at lattice indices, with the atom at 0, as LossPmf; as SplitPmf if some lie beyond the border."""
    near = np.abs(places) <= cut.border
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
    """Return a LossPmf of these masses at these indices, 0 between, index 0 included; ConvergenceError above 2^22."""
    first = int(places.min(initial=0))
    size = int(places.max(initial=0)) - first + 1
    if size > MOST_ENTRIES:
        raise ConvergenceError(
            f"privacy loss lattice: expected at most {MOST_ENTRIES} entries, needs {size}; try --method rdp"
        )
    mass = sum_by_index(places - first, points, size=size)
    return LossPmf(
        tilt=cut.tilt,
        level=cut.level,
        start=first,
        origin=origin,
        mass=mass,
        log_norm=cut.log_norm,
        lost=100 * NEGLIGIBLE,
    )
