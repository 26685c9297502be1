"""Distribution of a likelihood ratio U = dP/dQ under Q, bounded from above or below, and of sums of such ratios.

A profile is E f(U) with a convex f: delta(epsilon) is E (U - e^epsilon)_+ in one direction and E (1 - e^epsilon U)_+
in the other. To move the mass of a cell to its two ends, mean kept, raises E f for every convex f. To merge masses into
their mean lowers it. Both remain true when independent ratios are added. So every law here lies on lattices, and a sum
is brought back there in one of the two ways. All masses that are added and multiplied are positive and no transform is
used: a tail of 1e-25 keeps its digits.

Source: docs/theory.md, Theorem 9.12.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcalc.arrays import Array
from dpcalc.errors import TooLargeError
from dpcalc.losses.atoms import Atoms, OneWayAtoms, glued
from dpcalc.losses.cells import points_with_losses, turning_points
from dpcalc.losses.pair import LossCurve, Segment, length_scales, rough_points, subdivided
from dpcalc.losses.quadrature import reach
from dpcalc.losses.ratio_lattice import (
    Estimate,
    RatioLaw,
    Resolution,
    law_of,
    points_of,
    resolution_for,
    rows_where,
    sum_of,
    trimmed,
)
from dpcalc.numerics.convolution import sorted_unique
from dpcalc.numerics.special import gauss_legendre_panels, log_sum_exp, log_sum_exp_by_index
from dpcalc.records import dataclass
from dpcalc.work import ELEMENT, spend

_MAX_LOSSES = 16_000  # of a pair from above; what composes it takes time in proportion
_NODES = 5  # Gauss-Legendre nodes of a panel, which is at most a quarter of the length on which densities change
_CELLS = 30_000  # of equal width in the loss where one ratio of a mean decides: 1e-4 of the loss, and less
_RARE = 50.0  # loss of a pass above which its large ratios are rare: two of them have P mass e^-50
_NO_SMALL = 1e-18  # P mass of smaller losses up to which one ratio decides
_LEFT_OUT = 1e-20  # Q mass of smaller ratios of all steps that quadrature leaves out
_MOVED = 1e-12  # P mass that is moved from large ratios to the others, to cover round-off
_QUADRATURE = 1e-13  # bound on the relative error of the mass of a panel; measured 1e-15
_LOG_TAIL = -62.0  # log of the mass of a step that is neglected
_LOG_NOTHING = -690.0  # log of the smallest mass under Q that is a float
_LARGEST = 560.0  # loss of a step beyond which its ratio is called infinite or 0
_MOST_ZERO = 0.99  # Q mass at ratio 0 up to which the other masses are made to sum to what is missing to 1
_MOST_INFINITE = 0.5  # P mass at infinite ratios from which on a bound tells nothing
_TOLERANCE = 1e-13  # relative error of a ratio from round-off
_MAX_QUOTIENT = 5e-6  # relative error of a ratio from below; about 10^7 ratios
_NO_MASS = 1e-13  # difference of masses that is round-off
_DOUBTFUL_MASS = 1e-9  # difference of masses that may be the quadrature's: of mixtures of many it misses 5e-12
_MARGIN = 1e-15  # relative, for a logarithm and a product


def ratio_law(curve: LossCurve, estimate: Estimate, count: int = 1) -> RatioLaw:
    """Return the trimmed law under Q of the likelihood ratio dP/dQ; TooLargeError if too few ratios are floats.

    Args:
        curve: loss of the step in the direction (P, Q).
        estimate: what the result bounds.
        count: number of ratios in the mean that the law is for: its losses above 11 are less resolved.

    Raises:
        ConvergenceError: if too many quadrature nodes would be needed.
        TooLargeError: if the lattice would have too many points.
    """
    pieces = [_pieces(segment) for segment in curve.segments]
    resolution = _resolution_for_step(curve, pieces, estimate, count)
    log_p, losses = _masses_on_panels(curve, pieces, resolution)
    ratios, q, zero, infinite, error = _separate_floats(log_p, losses, curve.infinity_mass, estimate)
    # Next to a ratio of 0 the sum to 1 says nothing about what is left.
    law = law_of(ratios, q * (1 - zero) / float(q.sum()) if zero < _MOST_ZERO else q, resolution, estimate)
    return trimmed(replace(law, zero=zero, infinite=infinite, error=error, total=count), estimate)


def _resolution_for_step(
    curve: LossCurve, pieces: list[list[tuple[Array, Array]]], estimate: Estimate, count: int
) -> Resolution:
    """Return the resolution for a step's ratios in a mean of `count`; TooLargeError if no loss is within +-560."""
    log_p, losses = _some_losses(curve, pieces)
    used = (np.abs(losses) < _LARGEST) & (log_p - losses > _LOG_NOTHING)
    if not used.any():
        raise TooLargeError(f"expected some losses between -{_LARGEST:.0f} and {_LARGEST:.0f}, got none")
    return resolution_for(np.exp(losses[used]), np.exp((log_p - losses)[used]), estimate, total=count)


def _masses_on_panels(
    curve: LossCurve, pieces: list[list[tuple[Array, Array]]], resolution: Resolution
) -> tuple[Array, Array]:
    """Return (log P masses, losses), by rising loss, of atoms and of panels that end at lattice points."""
    parts = [_atoms(curve)]
    for segment, runs in zip(curve.segments, pieces, strict=True):
        for y, loss in runs:
            low, high = np.exp(np.clip([loss.min(), loss.max()], -_LARGEST, _LARGEST)).tolist()
            # A panel lies between two lattice points, so that its mass may be moved as one mass at its mean.
            parts.append(_panels(segment, y, loss, np.log(resolution.lattice(low, high))))
    return _sorted_by_loss(parts)


def _sorted_by_loss(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the (log masses, losses) of all parts as one, by rising loss."""
    log_p, losses = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    order = np.argsort(losses, kind="stable")
    return log_p[order], losses[order]


class _FloatRatios(NamedTuple):
    """Ratios > 0 of a step, Q mass of each, Q mass at 0, P mass at infinite ones, bound on masses' relative error."""

    ratios: Array
    q: Array
    zero: float
    infinite: float
    error: float


def _separate_floats(log_p: Array, losses: Array, infinity_mass: float, estimate: Estimate) -> _FloatRatios:
    """Separate ratios within e^+-560 from others, bounded as `estimate` asks; TooLargeError if most are infinite."""
    if estimate is not Estimate.UPPER:
        # P mass at a smaller ratio: what is larger, and some mass at ratios next to 0, are merged into their mean.
        losses = np.minimum(losses, _LARGEST - 1)
    finite = (np.abs(losses) < _LARGEST) & (log_p - losses > _LOG_NOTHING)
    # A ratio that is no float after a sum is called infinite or 0, which raises both profiles. A lower bound has none
    # of the former, and rounds the latter up where 0 would raise it.
    large, small = ~finite & (losses > 0), ~finite & (losses <= 0)
    infinite = infinity_mass + (float(np.exp(log_p[large]).sum()) if estimate is Estimate.UPPER else 0.0)
    if infinite > _MOST_INFINITE:
        raise TooLargeError(f"expected ratios up to e^{_LARGEST:.0f}, got larger ones in most cases")
    q = np.exp(log_p[finite] - losses[finite])
    rounded_to_zero = float(np.exp(np.minimum(log_p[small] - losses[small], 0.0)).sum())
    missing = max(0.0, 1 - float(q.sum()) - float(np.exp(log_p[large] - losses[large]).sum()))
    zero, error = _zero_and_error(missing, rounded_to_zero)
    ratios = np.exp(losses[finite])
    if estimate is Estimate.LOWER_REVERSED:
        # Mass at 0 would be an infinite loss here: it is told from what the quadrature missed, or left out.
        zero = zero - rounded_to_zero if zero - rounded_to_zero > _DOUBTFUL_MASS else 0.0
        ratios, q = np.append(math.exp(-_LARGEST), ratios), np.append(rounded_to_zero, q)
    return _FloatRatios(ratios, q, zero, infinite, error)


def _zero_and_error(missing: float, rounded: float) -> tuple[float, float]:
    """Return (Q mass at ratio 0: `missing` to 1 if over 1e-13, else `rounded`; masses' error: `missing` if < 1e-9)."""
    error = max(_QUADRATURE, missing if missing < _DOUBTFUL_MASS else 0.0)
    return missing if missing > _NO_MASS else rounded, error


def _pieces(segment: Segment) -> list[tuple[Array, Array]]:
    """Return (points, losses) of each piece of a segment on which the loss is monotone; [] if it has no mass."""
    low, high = reach(segment, 1.0, 0.0, negligible=_LOG_TAIL)
    if low >= high:
        return []
    y = rough_points(segment.pair, low, high)
    y = subdivided(y, np.ceil(4 * np.diff(y) / length_scales(segment.pair, y)))
    loss = segment.log_density_and_loss(y)[1]
    bounds = [0, *turning_points(loss), y.size - 1]
    return [(y[i : j + 1], loss[i : j + 1]) for i, j in pairwise(bounds) if j > i]


def _some_losses(curve: LossCurve, pieces: list[list[tuple[Array, Array]]]) -> tuple[Array, Array]:
    """Return (log P masses, losses) by rising loss, only accurate enough to choose a lattice."""
    parts = [_atoms(curve)]
    for segment, runs in zip(curve.segments, pieces, strict=True):
        for y, _ in runs:
            nodes, log_width = gauss_legendre_panels(y, order=1)
            density, loss = segment.log_density_and_loss(nodes)
            parts.append((density + log_width, loss))
    return _sorted_by_loss(parts)


def _atoms(curve: LossCurve) -> tuple[Array, Array]:
    """Return (log P masses, losses), unsorted, of the curve's atoms, and of loss 0 if its mass is over 1e-13."""
    losses, log_masses = (np.array(values, dtype=np.float64) for values in curve.atoms)
    if curve.zero_loss_mass > _NO_MASS:
        losses, log_masses = np.append(losses, 0.0), np.append(log_masses, math.log(curve.zero_loss_mass))
    return log_masses, losses


def _panels(segment: Segment, y: Array, loss: Array, ends: Array) -> tuple[Array, Array]:
    """Integrate panels that end at `y` and where the loss is in `ends`; return (log P mass, log of P over Q mass)."""
    inner, _ = points_with_losses(segment, y, loss, sorted_unique(ends))
    edges = sorted_unique(np.append(y, inner))
    spend(6 * ELEMENT * _NODES * edges.size)
    nodes, log_weight = gauss_legendre_panels(edges, order=_NODES)
    log_p, losses = (values.reshape(-1, _NODES) for values in segment.log_density_and_loss(nodes))
    log_p = log_p + log_weight.reshape(-1, _NODES)
    log_q = log_p - losses
    panel_p, panel_q = (log_sum_exp([values[:, i] for i in range(_NODES)]) for values in (log_p, log_q))
    return panel_p, panel_p - panel_q


def sum_of_copies(law: RatioLaw, count: int, estimate: Estimate) -> RatioLaw:
    """Return the law of the sum of `count` independent copies; TooLargeError if a lattice would have too many points.

    Args:
        law: of one ratio.
        count: >= 1.
        estimate: what `law` and the result bound.

    Raises:
        TooLargeError: if a lattice would have too many points on a spacing.
    """
    if count & (count - 1) == 0:
        for _ in range(count.bit_length() - 1):
            law = sum_of(law, law, estimate)
        return law
    return _multiples(law, count, max(count >> count.bit_length() // 2, 2), estimate)[0]


def _multiples(law: RatioLaw, count: int, fewer: int, estimate: Estimate) -> tuple[RatioLaw, RatioLaw]:
    """Return the laws of sums of `count` and of `fewer` copies, 1 <= fewer < count, by Euclid's algorithm on both."""
    # By count = factor * fewer + rest (Bergeron, Berstel, Brlek and Duboc 1989, "Addition chains using continued
    # fractions"): 65,535 copies take 19 sums, where doubling and adding takes 30.
    factor, remainder = divmod(count, fewer)
    if not remainder:
        smaller = sum_of_copies(law, fewer, estimate)
        return sum_of_copies(smaller, factor, estimate), smaller
    smaller, smallest = _multiples(law, fewer, remainder, estimate)
    return sum_of(sum_of_copies(smaller, factor, estimate), smallest, estimate), smaller


@dataclass(frozen=True)
class _Cells:
    """A step's losses between ends, arrays of one shape.

    Attributes:
        log_p: log P masses.
        log_q: log Q masses.
        low: smallest loss of each.
        high: largest loss of each.
        number: of such steps in the mean.
    """

    log_p: Array
    log_q: Array
    low: Array
    high: Array
    number: int

    @classmethod
    def of(cls, curve: LossCurve, number: int) -> "_Cells":
        """Return a step's log P and log Q masses in cells of equal width in loss; cells without mass are left out.

        Args:
            curve: its loss.
            number: of such steps in the mean.
        """
        pieces = [(segment, y, loss) for segment in curve.segments for y, loss in _pieces(segment)]
        log_p, losses = _atoms(curve)
        span = np.ptp(np.concatenate([losses, *(loss[[0, -1]] for _, _, loss in pieces)]))
        step = max(float(span), 1.0) / _CELLS
        parts = [(log_p, losses)]
        for segment, y, loss in pieces:
            ends = np.arange(math.floor(loss.min() / step), math.ceil(loss.max() / step) + 1) * step
            parts.append(_panels(segment, y, loss, ends))
        log_p, losses = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        cells, place = np.unique(np.floor(losses / step), return_inverse=True)
        sums = [log_sum_exp_by_index(place, logs, size=cells.size) for logs in (log_p, log_p - losses)]
        return cls(sums[0], sums[1], cells * step, (cells + 1) * step, number)


def large_ratio_pair(bins: Sequence[tuple[LossCurve, int]], estimate: Estimate, *, share: float = 1.0) -> Atoms | None:
    """Return `mean_pair` where a single large ratio decides it; None unless losses < log(count) + 50 are very rare.

    Args:
        bins: (loss of a step in the direction (P, Q), number of such ratios in the mean).
        estimate: what the result bounds.
        share: in (0, 1].

    Source: docs/theory.md, Theorem 7.9.
    """
    log_count = math.log(sum(number for _, number in bins))
    if not all(_are_large(curve, log_count) for curve, _ in bins):
        return None
    cells = [_Cells.of(curve, number) for curve, number in bins]
    infinite = share * math.fsum(curve.infinity_mass * number for curve, number in bins) / math.exp(log_count)
    log_p = np.concatenate([each.log_p + math.log(each.number) - log_count for each in cells])
    if estimate is Estimate.UPPER:
        return _large_ratios_above(cells, log_p, log_count, share=share, infinite=infinite)
    losses, log_q = _large_ratios_below(cells, log_p, log_count, share=share)
    lower = losses - 4 * _TOLERANCE * (1 + np.abs(losses))
    if estimate is Estimate.LOWER:
        return _one_way_pair(lower, log_q + losses, infinite)
    return _one_way_pair(-losses[::-1] - 4 * _TOLERANCE * (1 + np.abs(losses[::-1])), log_q[::-1], 0.0)


def _are_large(curve: LossCurve, log_count: float) -> bool:
    """Return True if, roughly, losses below log_count + 50 have P mass <= 1e-18 and infinite ones at most 1/2."""
    log_p, losses = _some_losses(curve, [_pieces(segment) for segment in curve.segments])
    is_small = losses < log_count + _RARE
    return not (curve.infinity_mass > _MOST_INFINITE or float(np.exp(log_p[is_small]).sum()) > _NO_SMALL)


def _large_ratios_below(cells: list[_Cells], log_p: Array, log_count: float, *, share: float) -> tuple[Array, Array]:
    """Return (losses of the mean, rising; their log Q masses) for a lower bound, cells' masses at their lower ends."""
    losses = np.concatenate([each.low for each in cells]) - log_count
    is_large = losses > _RARE
    # Some P mass is moved from large ratios to the others, which covers the round-off of the large ones.
    log_p, losses = log_p[is_large] + math.log1p(-_MOVED - 4 * _QUADRATURE), losses[is_large]
    log_q, losses = np.append(0.0, log_p - losses), np.append(math.log(_MOVED), losses)
    order = np.argsort(losses, kind="stable")
    log_q, losses = log_q[order], _with_share(losses[order], share)
    different, place = np.unique(losses, return_inverse=True)
    return different, log_sum_exp_by_index(place, log_q, size=different.size)


def _large_ratios_above(cells: list[_Cells], log_p: Array, log_count: float, *, share: float, infinite: float) -> Atoms:
    """Return `large_ratio_pair` as an upper bound: losses >= 50 by all P masses, losses < 0 by the largest ratio."""
    losses = np.maximum(np.concatenate([each.high for each in cells]) - log_count, _RARE)
    log_q, losses = log_p - losses, _with_share(losses, share)
    # The other direction is bounded by the largest ratio alone.
    points, log_max, log_zero = _largest_ratio_law(cells)
    points = _with_share(points - log_count, share)
    is_used = (points < 0) & (log_max > -np.inf)
    raised = 4 * _QUADRATURE
    return glued(
        (log_q + losses + raised, losses + _TOLERANCE * (1 + losses)),
        (log_max[is_used] + raised * math.exp(log_count), (points - _TOLERANCE * (1 + np.abs(points)))[is_used]),
        infinity_mass=infinite + math.exp(-_RARE),
        only_other=(math.exp(log_zero) if share == 1 else 0.0) + _LEFT_OUT,
        max_losses=_MAX_LOSSES,
    )


def _largest_ratio_law(cells: list[_Cells]) -> tuple[Array, Array, float]:
    """Return the largest ratio's law: (lower ends of cells, log Q mass in each, log Q mass of all ratios being 0)."""
    # The largest ratio is at most that of a cell if all are.
    points = sorted_unique(np.concatenate([each.low for each in cells]))
    log_below = np.zeros(points.size)
    nothing = 0.0
    for each in cells:
        order = np.argsort(each.low, kind="stable")
        low, masses = each.low[order], np.exp(each.log_q[order])
        zero = max(0.0, 1 - float(masses.sum()))
        zero = zero if zero > _NO_MASS else 0.0
        at = np.searchsorted(low, points, side="right")
        below = np.append(0.0, np.cumsum(masses))[at] + zero
        above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)[at]
        with np.errstate(divide="ignore"):
            log_below += each.number * np.where(above < 0.5, np.log1p(-np.minimum(above, 0.5)), np.log(below))
            nothing += each.number * float(np.log(zero))
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.append(nothing, log_below[:-1])
        log_max = np.where(log_below > before, log_below + np.log(-np.expm1(before - log_below)), -np.inf)
    return points, log_max, nothing


def _with_share(losses: Array, share: float) -> Array:
    """Return the logarithms of 1 - share + share * ratio."""
    return losses if share == 1 else np.logaddexp(math.log1p(-share), math.log(share) + losses)


def mean_pair(bins: Sequence[tuple[LossCurve, int]], estimate: Estimate, *, share: float = 1.0) -> Atoms:
    """Return the pair of 1 - share + share * (mean of the ratios), a bound of the kind that `estimate` says.

    Args:
        bins: (loss of a step in the direction (P, Q), number >= 1 of such ratios in the mean).
        estimate: what the result bounds.
        share: in (0, 1].

    Raises:
        ConvergenceError: if the loss of one step cannot be put on a lattice.
        TooLargeError: if a lattice would have too many points, or round-off is too large for a lower bound.

    Source: docs/theory.md, Theorem 7.9 and Theorem 9.12.
    """
    if (large := large_ratio_pair(bins, estimate, share=share)) is not None:
        return large
    count = sum(number for _, number in bins)
    laws, rare = [], []
    for curve, number in bins:
        # Sums of ratios that are rare in the mean need not be resolved: at most one of them comes.
        law, (ratios, masses) = _split_off_large(ratio_law(curve, estimate, count), count * math.exp(_RARE))
        laws.append(sum_of_copies(law, number, estimate))
        rare.append((ratios, masses * number))
    law = reduce(lambda a, b: sum_of(a, b, estimate), laws)
    large_ratios, large_masses = (np.concatenate(parts) for parts in zip(*rare, strict=True))
    return pair_of(law, count, estimate, share=share, rare=(large_ratios, large_masses))


def _split_off_large(law: RatioLaw, limit: float) -> tuple[RatioLaw, tuple[Array, Array]]:
    """Split ratios above `limit` off a law; return (remaining law, (ratios, Q masses)); unchanged if none or all are.

    Masses above the limit are taken out, not moved to 0: the Q mass of the law falls.
    """
    ratios, masses = law.flat()
    is_large = ratios > limit
    if not is_large.any() or not (masses[~is_large] > 0).any():
        return law, (ratios[:0], masses[:0])
    return replace(law, rows=rows_where(law, ~is_large)), (ratios[is_large], masses[is_large])


def pair_of(
    law: RatioLaw, count: int, estimate: Estimate, *, share: float = 1.0, rare: tuple[Array, Array] | None = None
) -> Atoms:
    """Return the pair of 1 - share + share S / count, S distributed as `law`; TooLargeError for too much round-off.

    Args:
        law: of the sum.
        count: how many ratios were added, >= 1.
        estimate: what `law` bounds.
        share: in (0, 1].
        rare: (ratios above e^50 count, their Q masses in all terms) that `law` leaves out.

    Returns:
        UPPER: a pair that bounds the losses of both directions from above. LOWER: one that bounds delta(D, D') of
        (P, Q) from below; LOWER_REVERSED: one that bounds delta(D', D) from below, with D' as its first distribution.

    Raises:
        TooLargeError: if round-off is too large for a lower bound.
    """
    is_rare = rare is not None and rare[0].size > 0
    losses, q = _losses_of_mean(law, count, estimate, share, rare if is_rare else None)
    zero, infinite = (law.zero if share == 1 else 0.0), share * law.infinite / count
    margin = _error_of_losses(law, losses, estimate)
    raised = math.log1p(2 * law.error + 1e-14)
    log_q, log_p = np.log(q), np.log(q) + losses
    if estimate is Estimate.UPPER:
        missed = math.exp(-_RARE) if is_rare else 0.0
        above = losses > 0
        return glued(
            (log_p[above] + raised, (losses + margin)[above]),
            (log_q[~above] + raised, (losses - margin)[~above]),
            infinity_mass=infinite + 2 * missed,
            only_other=zero + missed,
            max_losses=_MAX_LOSSES,
        )
    # With a small probability nothing is released: that covers masses that are too large by round-off.
    if estimate is Estimate.LOWER:
        return _one_way_pair(losses - margin, log_p - raised, infinite * math.exp(-raised))
    return _one_way_pair((-losses - margin)[::-1], (log_q - raised)[::-1], zero * math.exp(-raised))


def _losses_of_mean(
    law: RatioLaw, count: int, estimate: Estimate, share: float, rare: tuple[Array, Array] | None
) -> tuple[Array, Array]:
    """Return the losses log(1 - share + share S / count) and their Q masses; LOWER_REVERSED leaves `rare` out."""
    ratios, q = law.points()
    if rare is not None and estimate is not Estimate.LOWER_REVERSED:
        ratios, q = points_of(np.append(ratios, rare[0]), np.append(q, rare[1]))
    ratios, q = _fewer(ratios, q, estimate)
    losses = np.log(1 - share + share * (ratios / count))
    if share < 1 and law.zero:
        return np.append(math.log1p(-share), losses), np.append(law.zero, q)
    return losses, q


def _error_of_losses(law: RatioLaw, losses: Array, estimate: Estimate) -> Array:
    """Return a bound on each loss's error by round-off and, unless UPPER, by merging; TooLargeError above 5e-6."""
    # From below a ratio is a mean, whose error is at most that of its weights times the range of what is merged.
    quotient = 0.0 if estimate is Estimate.UPPER else 8 * law.error * law.distance
    if quotient > _MAX_QUOTIENT:
        raise TooLargeError(
            "likelihood ratios: expected fewer of them for a lower bound, got more than round-off allows"
        )
    return _TOLERANCE + _MARGIN * (1 + np.abs(losses)) + quotient


def _fewer(ratios: Array, masses: Array, estimate: Estimate) -> tuple[Array, Array]:
    """Reduce ratios to at most 16,000: others are split over neighbours (UPPER) or merged into means (LOWER)."""
    if ratios.size <= _MAX_LOSSES:
        return ratios, masses
    kept = _places_to_keep(ratios, masses)
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


def _places_to_keep(ratios: Array, masses: Array) -> NDArray[np.int64]:
    """Choose at most 16,000 indices, rising from 0: three quarters by mass and width, a quarter evenly in loss."""
    # The error of a cell of width w and mass m is near m w^2: in sum it is least for widths near the cube root.
    width = np.gradient(np.log(ratios))
    weight = np.cbrt(masses * (1 + ratios / float((ratios * masses).sum())) * width**2)
    # The even quarter: a small delta, or composing, raises what is rare.
    below = np.cumsum(3 * weight / float(weight.sum()) + width / float(width.sum()))
    places = np.searchsorted(below, np.linspace(0, float(below[-1]), _MAX_LOSSES - 1))
    return sorted_unique(np.append(np.minimum(places, ratios.size - 1), 0).astype(np.float64)).astype(np.int64)


def _one_way_pair(losses: Array, log_masses: Array, infinity_mass: float) -> OneWayAtoms:
    """Return the pair with these losses, increasing, and log P masses; the remaining P mass has loss 0."""
    return OneWayAtoms(
        losses=tuple(losses.tolist()), log_masses=tuple(log_masses.tolist()), infinity_mass=infinity_mass
    )
