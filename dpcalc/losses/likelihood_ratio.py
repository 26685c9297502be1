"""Distribution of a likelihood ratio U = dP/dQ under Q, bounded from above or below, and of sums of such ratios.

A profile is E f(U) with a convex f: delta(epsilon) is E (U - e^epsilon)_+ in one direction and E (1 - e^epsilon U)_+
in the other. To move the mass of a cell to its two ends, mean kept, raises E f for every convex f. To merge masses into
their mean lowers it. Both remain true when independent ratios are added. So every law here lies on a lattice, and after
a sum it is brought back there in one of the two ways. All numbers that are added and multiplied are positive and no
transform is used: a tail of 1e-25 keeps its digits.

Source: docs/theory.md, Theorem 9.12.
"""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dpcalc.arrays import Array
from dpcalc.errors import TooLargeError
from dpcalc.losses.atoms import Atoms, glued
from dpcalc.losses.cells import points_with_losses, turning_points
from dpcalc.losses.moments import reach
from dpcalc.losses.pair import LossCurve, Segment, length_scales, rough_points, subdivided
from dpcalc.losses.ratio_lattice import (
    MAX_POINTS,
    TAIL_LEVEL,
    TOLERANCE,
    WINDOW,
    Estimate,
    Lattice,
    RatioCells,
    RatioLaw,
    lattice_for,
    mean_and_widths,
    on_lattice,
    refined_tail,
    trimmed,
    widened,
)
from dpcalc.numerics.convolution import UNIT_ROUNDOFF, sorted_unique
from dpcalc.numerics.special import gauss_legendre_panels, log_sum_exp
from dpcalc.work import ELEMENT, spend

_CLUMPS = 96  # points to which the bulk is reduced before it is added to a tail of about its size
_FEW_CLUMPS = 12  # the same for a tail that is larger
_TAIL_CLUMPS = 200  # values to which two tails are reduced before they are added, which matters to second order
_LARGER = 16.0  # factor from which on a tail is larger
_MAX_LOSSES = 4000  # of a pair from above; what composes it takes time in proportion
_BLOCK = 4096  # numbers in a row of a direct convolution
_PRODUCT = 0.25  # units of work of one of its products
_NO_ZERO = 1e-18  # Q mass at ratio 0 up to which its sum with another ratio is not resolved point by point
_NODES = 5  # Gauss-Legendre nodes of a panel, which is at most a quarter of the length on which densities change
_QUADRATURE = 1e-13  # bound on the relative error of the mass of a panel; measured 1e-15
_LOG_TAIL = -62.0  # log of the mass of a step that is neglected
_LOG_NOTHING = -690.0  # log of the smallest mass under Q that is a float
_LARGEST = 300.0  # loss of a step beyond which its ratio is called infinite or 0
_MOST_ZERO = 0.99  # Q mass at ratio 0 up to which the other masses are made to sum to what is missing to 1
_MOST_INFINITE = 0.5  # P mass at infinite ratios from which on a bound tells nothing
_NO_MASS = 1e-13  # difference of masses that is round-off
_MARGIN = 1e-15  # relative, for a logarithm and a product


def ratio_law(curve: LossCurve, estimate: Estimate) -> RatioLaw:
    """Return the law under Q of one step's ratio dP/dQ, on a lattice for its bulk; raise if most ratios are infinite.

    Args:
        curve: loss of the step in the direction (P, Q).
        estimate: what the result bounds.

    Raises:
        ConvergenceError: if too many quadrature nodes would be needed.
        TooLargeError: if the lattice would have too many points.
    """
    rough = [_pieces(segment) for segment in curve.segments]
    ratios, masses = _some_ratios(curve, rough)
    if not ratios.size:
        raise TooLargeError(f"expected some losses between -{_LARGEST:.0f} and {_LARGEST:.0f}, got none")
    lattice = lattice_for(ratios, masses, 0.0)
    parts = [_atoms(curve)]
    for segment, pieces in zip(curve.segments, rough, strict=True):
        parts += [_panels(segment, y, loss, lattice) for y, loss in pieces]
    log_p, losses = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    order = np.argsort(losses, kind="stable")
    log_p, losses = log_p[order], losses[order]
    if estimate is not Estimate.UPPER:
        # P mass at a smaller ratio: what is larger, and some mass at ratios next to 0, are merged into their mean.
        losses = np.minimum(losses, _LARGEST - 1)
    finite = (np.abs(losses) < _LARGEST) & (log_p - losses > _LOG_NOTHING)
    # A ratio that is no float after a sum is called infinite or 0, which raises both profiles. A lower bound has none
    # of the former, and rounds the latter up where 0 would raise it.
    large, small = ~finite & (losses > 0), ~finite & (losses <= 0)
    infinite = curve.infinity_mass + (float(np.exp(log_p[large]).sum()) if estimate is Estimate.UPPER else 0.0)
    if infinite > _MOST_INFINITE:
        raise TooLargeError(f"expected ratios up to e^{_LARGEST:.0f}, got larger ones in most cases")
    q = np.exp(log_p[finite] - losses[finite])
    zero = max(0.0, 1 - float(q.sum()) - float(np.exp(log_p[large] - losses[large]).sum()))
    rounded_to_zero = float(np.exp(np.minimum(log_p[small] - losses[small], 0.0)).sum())
    zero = zero if zero > _NO_MASS else rounded_to_zero
    ratios = np.exp(losses[finite])
    if estimate is Estimate.LOWER_REVERSED and rounded_to_zero > _NO_MASS:
        zero = max(0.0, zero - rounded_to_zero)
        zero = zero if zero > _NO_MASS else 0.0
        ratios, q = np.append(math.exp(-_LARGEST), ratios), np.append(rounded_to_zero, q)
    cells = RatioCells.between(lattice, float(ratios[0]), float(ratios[-1]), estimate)
    # Next to a ratio of 0 the sum to 1 says nothing about what is left.
    cells.add(ratios, q * (1 - zero) / float(q.sum()) if zero < _MOST_ZERO else q)
    law = cells.law()
    law = replace(law, zero=law.zero + zero, infinite=infinite, error=_QUADRATURE, shift=TOLERANCE)
    return trimmed(law, estimate)


def _pieces(segment: Segment) -> list[tuple[Array, Array]]:
    """Return [(points, losses)] of the pieces of a segment with monotone loss, which share ends; [] if empty."""
    low, high = reach(segment, 1.0, 0.0, negligible=_LOG_TAIL)
    if low >= high:
        return []
    y = rough_points(segment.pair, low, high)
    y = subdivided(y, np.ceil(4 * np.diff(y) / length_scales(segment.pair, y)))
    loss = segment.log_density_and_loss(y)[1]
    bounds = [0, *turning_points(loss), y.size - 1]
    return [(y[i : j + 1], loss[i : j + 1]) for i, j in pairwise(bounds) if j > i]


def _some_ratios(curve: LossCurve, pieces: list[list[tuple[Array, Array]]]) -> tuple[Array, Array]:
    """Return (ratios dP/dQ, Q masses), increasing, by one quadrature node an interval: enough to choose a lattice."""
    log_p, losses = _atoms(curve)
    parts = [(log_p, losses)]
    for segment, runs in zip(curve.segments, pieces, strict=True):
        for y, _ in runs:
            nodes, log_width = gauss_legendre_panels(y, order=1)
            density, loss = segment.log_density_and_loss(nodes)
            parts.append((density + log_width, loss))
    log_p, losses = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    kept = (np.abs(losses) < _LARGEST) & (log_p - losses > _LOG_NOTHING)
    order = np.argsort(losses[kept], kind="stable")
    return np.exp(losses[kept][order]), np.exp((log_p - losses)[kept][order])


def _atoms(curve: LossCurve) -> tuple[Array, Array]:
    """Return (log P masses, losses) of the single values of a loss, that of loss 0 included."""
    losses, log_masses = (np.array(values, dtype=np.float64) for values in curve.atoms)
    if curve.zero_loss_mass > _NO_MASS:
        losses, log_masses = np.append(losses, 0.0), np.append(log_masses, math.log(curve.zero_loss_mass))
    return log_masses, losses


def _panels(segment: Segment, y: Array, loss: Array, lattice: Lattice) -> tuple[Array, Array]:
    """Return (log P masses, logs of mean ratios) of panels of a piece, cut at lattice points and half-way between."""
    # Panels end at lattice points and half-way between them, so that a panel's mass may be moved as one mass at its
    # mean, for a bound from above as for one from below.
    low, high = float(loss.min()), float(loss.max())
    log_top = math.log(lattice.top) if lattice.level is not None else -math.inf
    half = lattice.log_spacing / 2
    ends = (
        [np.arange(math.floor(max(low, log_top) / half), math.ceil(high / half) + 1) * half] if high > log_top else []
    )
    if low < log_top:
        half = lattice.spacing / 2
        last = math.ceil(math.exp(min(high, log_top)) / half)
        ends.append(np.log(np.arange(max(math.floor(math.exp(low) / half), 1), last + 1) * half))
    inner, _ = points_with_losses(segment, y, loss, sorted_unique(np.concatenate(ends)))
    edges = sorted_unique(np.append(y, inner))
    spend(6 * ELEMENT * _NODES * edges.size)
    nodes, log_weight = gauss_legendre_panels(edges, order=_NODES)
    log_p, losses = (values.reshape(-1, _NODES) for values in segment.log_density_and_loss(nodes))
    log_p = log_p + log_weight.reshape(-1, _NODES)
    log_q = log_p - losses
    panel_p, panel_q = (log_sum_exp([values[:, i] for i in range(_NODES)]) for values in (log_p, log_q))
    return panel_p, panel_p - panel_q


def sum_of_copies(law: RatioLaw, count: int, estimate: Estimate) -> RatioLaw:
    """Return the law of the sum of `count` >= 1 independent copies of a ratio, by binary doubling.

    Args:
        law: of one ratio.
        count: >= 1.
        estimate: what `law` and the result bound.

    Raises:
        TooLargeError: if a lattice would have too many points.
    """
    # From the lowest binary digit up, so that laws of about the same width are added.
    digits = [digit == "1" for digit in reversed(f"{count:b}")]
    result, power = None, law
    for place, digit in enumerate(digits):
        if place:
            power = _on_own_lattice(sum_of(power, power, estimate), estimate)
        if digit:
            result = power if result is None else sum_of(result, power, estimate)
    return result or law


def _on_own_lattice(law: RatioLaw, estimate: Estimate) -> RatioLaw:
    """Return the law on a lattice that suits its bulk: linear spacings only widen, geometric ones only narrow."""
    lattice = lattice_for(*law.points(), law.zero)
    if law.lattice.level is not None:
        return law if lattice.level is None else widened(law, lattice.level, estimate)
    if lattice.level is not None:
        return on_lattice(law, lattice, estimate)
    return refined_tail(law, min(lattice.tail_level, law.lattice.tail_level))


def pair_of(law: RatioLaw, count: int, estimate: Estimate, *, share: float = 1.0) -> Atoms:
    """Return the pair of ratio 1 - share + share * sum / count; UPPER: both directions, LOWER: (P, Q), else (Q, P).

    Args:
        law: of the sum.
        count: how many ratios were added, >= 1.
        estimate: what `law` bounds.
        share: in (0, 1].

    Returns:
        UPPER: a pair that bounds the losses of both directions from above. LOWER: one that bounds delta(D, D') of
        (P, Q) from below; LOWER_REVERSED: one that bounds delta(D', D) from below, with D' as its first distribution.
    """
    ratios, q = law.points()
    ratios, q = _fewer(ratios, q, estimate)
    ratios = 1 - share + share * (ratios / count)
    losses = np.log(ratios)
    if share < 1 and law.zero:
        ratios, q = np.append(1 - share, ratios), np.append(law.zero, q)
        losses = np.append(math.log1p(-share), losses)
    zero, infinite = (law.zero if share == 1 else 0.0), share * law.infinite / count
    margin = law.shift + _MARGIN * (1 + np.abs(losses))
    raised = math.log1p(2 * law.error + 1e-14)
    log_q, log_p = np.log(q), np.log(q) + losses
    if estimate is Estimate.UPPER:
        above = losses > 0
        return glued(
            (log_p[above] + raised, (losses + margin)[above]),
            (log_q[~above] + raised, (losses - margin)[~above]),
            infinity_mass=infinite,
            only_other=zero,
        )
    # With a small probability nothing is released: that covers masses that are too large by round-off.
    if estimate is Estimate.LOWER:
        return _with_losses(losses - margin, log_p - raised, infinite * math.exp(-raised))
    return _with_losses((-losses - margin)[::-1], (log_q - raised)[::-1], zero * math.exp(-raised))


def _fewer(ratios: Array, masses: Array, estimate: Estimate) -> tuple[Array, Array]:
    """Return (ratios, masses), 4,000 at most: others split over neighbours (UPPER) or merged into means."""
    if ratios.size <= _MAX_LOSSES:
        return ratios, masses
    # The error of a cell of width w and mass m is near m w^2: in sum it is least for widths near the cube root.
    width = np.gradient(np.log(ratios))
    weight = np.cbrt(masses * (1 + ratios / float((ratios * masses).sum())) * width**2)
    # A quarter of them is spread evenly: composing may raise what is rare.
    below = np.cumsum(3 * weight / float(weight.sum()) + 1 / weight.size)
    places = np.searchsorted(below, np.linspace(0, float(below[-1]), _MAX_LOSSES - 1))
    kept = sorted_unique(np.append(np.minimum(places, ratios.size - 1), 0).astype(np.float64)).astype(np.int64)
    if estimate is not Estimate.UPPER:
        mass = np.add.reduceat(masses, kept)
        return np.add.reduceat(masses * ratios, kept) / mass, mass
    ends: Array = ratios[kept]
    right = np.clip(np.searchsorted(ends, ratios), 1, kept.size - 1)
    share = np.clip((ratios - ends[right - 1]) / (ends[right] - ends[right - 1]), 0.0, 1.0)
    fewer = np.zeros(kept.size)
    fewer += np.bincount(right, masses * share, kept.size)
    fewer += np.bincount(right - 1, masses * (1 - share), kept.size)
    return ends[fewer > 0], fewer[fewer > 0]


def _with_losses(losses: Array, log_masses: Array, infinity_mass: float) -> Atoms:
    """Return the pair with these losses, increasing, and P masses; the remaining P mass has loss 0."""
    return Atoms(losses=tuple(losses.tolist()), log_masses=tuple(log_masses.tolist()), infinity_mass=infinity_mass)


def sum_of(a: RatioLaw, b: RatioLaw, estimate: Estimate) -> RatioLaw:
    """Return the law of the sum of two independent ratios, on the wider of their linear lattices, ends trimmed.

    Args:
        a: of one ratio, or of a sum of them.
        b: of the other.
        estimate: what both laws and the result bound.

    Raises:
        TooLargeError: if it would have too many points.
    """
    a, b = _on_one_lattice(a, b, estimate)
    (low_a, high_a), (low_b, high_b) = _range(a), _range(b)
    low = min(low_a, low_b) if a.lattice.level is None or max(a.zero, b.zero) > _NO_ZERO else low_a + low_b
    lattice = replace(a.lattice, top=_top_of_sum(a, b) if a.lattice.level is not None else 0.0)
    cells = RatioCells.between(lattice, low, 2 * max(high_a, high_b), estimate)
    if a.linear.size and b.linear.size:
        cells.add_linear(a.start + b.start, _convolved(a.linear, b.linear))
    for x, y in ((a, b), (b, a)):
        if x.linear.size and y.tail.size:
            _add_bulk_and_tail(cells, x, y)
    if a.tail.size and b.tail.size:
        _add_tails(cells, a, b)
    zero = a.zero * b.zero
    for x, y in ((a, b), (b, a)):
        zero += _add_zero(cells, x, y.zero, high_a + high_b)
    terms = min(a.linear.size, b.linear.size) + min(a.tail.size, b.tail.size) + 64
    law = cells.law()
    law = replace(
        law,
        zero=law.zero + zero,
        infinite=a.infinite + b.infinite,
        error=a.error + b.error + terms * UNIT_ROUNDOFF,
        shift=max(a.shift, b.shift) + 3 * TOLERANCE,
    )
    return trimmed(law, estimate)


def _range(law: RatioLaw) -> tuple[float, float]:
    """Return the smallest and the largest ratio > 0 of the lattice on which a law is stored."""
    ends = []
    if law.linear.size:
        ends += [law.start * law.lattice.spacing, (law.start + law.linear.size - 1) * law.lattice.spacing]
    if law.tail.size:
        ends += law.tail_ratios[[0, -1]].tolist()
    return ends[0], ends[-1]


def _convolved(a: Array, b: Array) -> Array:
    """Return the convolution of two rows by sums of products, no FFT: each right to a few units in its last place."""
    spend(_PRODUCT * a.size * b.size)
    result = np.zeros(a.size + b.size - 1)
    # In blocks: scalar products of more than 10,000 numbers are spread over threads, which takes 60 times as long.
    for at in range(0, a.size, _BLOCK):
        block = a[at : at + _BLOCK]
        result[at : at + block.size + b.size - 1] += np.convolve(block, b)
    return result


def _top_of_sum(a: RatioLaw, b: RatioLaw) -> float:
    """Return where the linear part of a sum ends: sum of means + hypot of how far each part reaches above its mean."""
    means = [float(np.prod(law.points(), axis=0).sum()) for law in (a, b)]
    return sum(means) + math.hypot(*(max(law.lattice.top - mean, 0.0) for law, mean in zip((a, b), means, strict=True)))


def _on_one_lattice(a: RatioLaw, b: RatioLaw, estimate: Estimate) -> tuple[RatioLaw, RatioLaw]:
    """Return both laws on one lattice: geometric if both are, else linear, as wide as the wider and the sum need."""
    levels = [law.lattice.level for law in (a, b) if law.lattice.level is not None]
    if not levels:
        tail_level = min(a.lattice.tail_level, b.lattice.tail_level)
        return refined_tail(a, tail_level), refined_tail(b, tail_level)
    level = max(levels)
    for _ in range(2):
        first = _on_level(a, level, estimate)
        a, b = first, first if a is b else _on_level(b, level, estimate)
        (low_a, high_a), (low_b, high_b) = _range(a), _range(b)
        linear_range = min(_top_of_sum(a, b), high_a + high_b) - (low_a + low_b)
        level = max(level, math.ceil(math.log2(max(linear_range, 1e-300) / (4 * MAX_POINTS))))
    return a, b


def _on_level(law: RatioLaw, level: int, estimate: Estimate) -> RatioLaw:
    """Return a law with a linear part of spacing >= 2^level; a geometric law gets one up to 32 widths past its mean."""
    if law.lattice.level is not None:
        return widened(law, level, estimate)
    mean, width, _ = mean_and_widths(*law.points(), law.zero)
    return on_lattice(law, Lattice(level, mean + WINDOW * width, TAIL_LEVEL), estimate)


def _add_bulk_and_tail(cells: RatioCells, bulk: RatioLaw, tail: RatioLaw) -> None:
    """Add the sums of the linear part of one law, merged to few values, and the tail of the other to the cells."""
    # The bulk is reduced to a few values first: their distance is small against that of the points of the tail, more so
    # where the tail is large.
    points = np.arange(bulk.start, bulk.start + bulk.linear.size, dtype=np.float64) * bulk.lattice.spacing
    near = int(np.searchsorted(tail.tail_ratios, _LARGER * bulk.lattice.top))
    for part, count in ((slice(0, near), _CLUMPS), (slice(near, None), _FEW_CLUMPS)):
        _add_sums(cells, _clumps(points, bulk.linear, count, cells.estimate), (tail.tail_ratios[part], tail.tail[part]))


def _add_tails(cells: RatioCells, a: RatioLaw, b: RatioLaw) -> None:
    """Add the sums of two tails to the cells, all of them between laws that have no linear part, else of 200 values."""
    if a.lattice.level is None:
        _add_geometric(cells, a, b)
        return
    some = [_clumps(law.tail_ratios, law.tail, _TAIL_CLUMPS, cells.estimate) for law in (a, b)]
    _add_sums(cells, some[0], some[1])


def _add_sums(cells: RatioCells, a: tuple[Array, Array], b: tuple[Array, Array]) -> None:
    """Add all sums of two ratios with few values, (ratios, masses) each, to the cells."""
    if a[0].size and b[0].size:
        cells.add(np.add.outer(a[0], b[0]).ravel(), np.multiply.outer(a[1], b[1]).ravel())


def _clumps(ratios: Array, masses: Array, count: int, estimate: Estimate) -> tuple[Array, Array]:
    """Return (ratios, masses) with about `count` values: means of blocks (lower bounds) or their ends (UPPER).

    Args:
        ratios: increasing, shape (n,).
        masses: >= 0, shape (n,).
        count: about how many values to keep: means of so many blocks, or both ends of half as many.
        estimate: what the result bounds.
    """
    ratios, masses = ratios[masses > 0], masses[masses > 0]
    is_upper = estimate is Estimate.UPPER
    block = -(-ratios.size // (count // 2 if is_upper else count))
    if block <= 1:
        return ratios, masses
    first = np.arange(0, ratios.size, block)
    mass = np.add.reduceat(masses, first)
    mean = np.add.reduceat(masses * ratios, first) / mass
    if not is_upper:
        return mean, mass
    low, high = ratios[first], ratios[np.append(first[1:], ratios.size) - 1]
    share = np.clip((mean - low) / np.maximum(high - low, 1e-300), 0.0, 1.0)
    return np.append(low, high), np.append(mass * (1 - share), mass * share)


def _add_geometric(cells: RatioCells, a: RatioLaw, b: RatioLaw) -> None:
    """Add the sums of two laws without linear parts, on the lattice of the cells, to the cells, grouped by distance."""
    # With g the distance of logarithms, e^(ig) + e^((i+k)g) = e^((i+k)g) (1 + e^(-kg)): where a sum lies in its cell
    # depends on k alone, so all sums of one k are added at once. Where e^(-kg) is small against g all of them belong to
    # the cell of the larger summand; then running sums over the smaller one are enough.
    step, first = cells.lattice.log_spacing, min(a.tail_start, b.tail_start)
    size = max(law.tail_start + law.tail.size for law in (a, b)) - first
    p, q = (np.pad(x.tail, (x.tail_start - first, size - (x.tail_start - first) - x.tail.size)) for x in (a, b))
    apart = min(size - 1, math.ceil(math.log(4 / step) / step) + 2)
    spend(apart * (2000 + 1.5 * size))
    position = np.log1p(np.exp(-np.arange(apart + 1) * step)) / step
    point = cells.points_of(position)
    moved, shift = np.expm1((position - point) * step), point.astype(np.int64) + first - cells.tail_start
    masses, moments = cells.tail
    for k in range(apart + 1):
        both = p[k:] * q[: size - k]
        if k:
            both += q[k:] * p[: size - k]
        place = k + int(shift[k])
        masses[place : place + size - k] += both
        both *= moved[k]
        moments[place : place + size - k] += both
    far, offset = apart + 1, first - cells.tail_start
    if far < size:
        scaled = np.exp(np.arange(-size, 0) * step)
        for large, small in ((p, q), (q, p)):
            below, sizes = np.cumsum(small)[: size - far], np.cumsum(small * scaled)[: size - far]
            masses[offset + far : offset + size] += large[far:] * below
            moments[offset + far : offset + size] += large[far:] * (sizes / scaled[far:])


def _add_zero(cells: RatioCells, law: RatioLaw, zero: float, top: float) -> float:
    """Add law + zero to the cells, `zero` the mass of another ratio at 0; return the mass that stays at 0."""
    # A mass next to nothing is not resolved: it is split over 0 and the top, rounded to 0, or left out.
    if not zero:
        return 0.0
    ratios, masses = law.points()
    if zero > _NO_ZERO:
        cells.add(ratios, masses * zero)
        return 0.0
    if cells.estimate is not Estimate.UPPER:
        return zero if cells.estimate is Estimate.LOWER else 0.0
    share = float((ratios * masses).sum()) / top
    cells.add(np.array([top]), np.array([zero * share]))
    return zero * (1 - share)
