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

import numpy as np

from dpcalc.errors import TooLargeError
from dpcalc.losses.atoms import glued
from dpcalc.losses.cells import MonotonePiece, monotone_runs, points_with_losses
from dpcalc.losses.loss import Loss, LossCurve
from dpcalc.losses.pair import length_scales, rough_points, subdivided
from dpcalc.losses.quadrature import reach
from dpcalc.losses.ratio_lattice import (
    Estimate,
    RatioLaw,
    law_of,
    points_of,
    rows_where,
    spacings_for,
    sum_of,
    trimmed,
)
from dpcalc.numerics import Array, gauss_legendre_panels, log_sum_exp, log_sum_exp_by_index
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
    """Return the law of the likelihood ratio dP/dQ under Q, on lattices; TooLargeError if too few ratios are floats."""
    # The spacings are those for a mean of `count` ratios.
    pieces = _pieces(curve)
    log_p, losses = _some_losses(curve, pieces)
    used = (np.abs(losses) < _LARGEST) & (log_p - losses > _LOG_NOTHING)
    if not used.any():
        raise TooLargeError(f"expected some losses between -{_LARGEST:.0f} and {_LARGEST:.0f}, got none")
    spacings = spacings_for(np.exp(losses[used]), np.exp((log_p - losses)[used]), estimate, total=count)
    parts = [_atoms(curve)]
    for piece in pieces:
        low, high = np.exp(np.clip([piece.loss.min(), piece.loss.max()], -_LARGEST, _LARGEST)).tolist()
        # A panel lies between two lattice points, so that its mass may be moved as one mass at its mean.
        parts.append(_panels(piece, np.log(spacings.lattice(low, high))))
    log_p, losses = _sorted_by_loss(parts)
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
    rounded_to_zero = float(np.exp(np.minimum(log_p[small] - losses[small], 0.0)).sum())
    missing = max(0.0, 1 - float(q.sum()) - float(np.exp(log_p[large] - losses[large]).sum()))
    zero = missing if missing > _NO_MASS else rounded_to_zero
    error = max(_QUADRATURE, missing if missing < _DOUBTFUL_MASS else 0.0)
    ratios = np.exp(losses[finite])
    if estimate is Estimate.LOWER_REVERSED:
        # Mass at 0 would be an infinite loss in the other direction: what was rounded to it goes to ratio e^-560, and
        # what remains is told from what the quadrature missed.
        ratios, q, zero = np.append(math.exp(-_LARGEST), ratios), np.append(rounded_to_zero, q), zero - rounded_to_zero
        zero = zero if zero > _DOUBTFUL_MASS else 0.0
    # Next to a ratio of 0 the sum to 1 says nothing about what is left.
    law = law_of(ratios, q * (1 - zero) / float(q.sum()) if zero < _MOST_ZERO else q, spacings, estimate)
    return trimmed(replace(law, zero=zero, infinite=infinite, error=error, total=count), estimate)


def _sorted_by_loss(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return the (log masses, losses) of all parts as one, by rising loss."""
    log_p, losses = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    order = np.argsort(losses, kind="stable")
    return log_p[order], losses[order]


def _pieces(curve: LossCurve) -> list[MonotonePiece]:
    """Cut a step's segments into pieces on which the loss is monotone; a segment without mass has none."""
    pieces = []
    for segment in curve.segments:
        low, high = reach(segment, 1.0, 0.0, negligible=_LOG_TAIL)
        if low < high:
            y = rough_points(segment.pair, low, high)
            y = subdivided(y, np.ceil(4 * np.diff(y) / length_scales(segment.pair, y)))
            loss = segment.log_density_and_loss(y)[1]
            pieces += [MonotonePiece(segment, y[run], loss[run]) for run in monotone_runs(loss)]
    return pieces


def _some_losses(curve: LossCurve, pieces: list[MonotonePiece]) -> tuple[Array, Array]:
    """Return (log P masses, losses) by rising loss, only accurate enough to choose a lattice."""
    parts = [_atoms(curve)]
    for piece in pieces:
        nodes, log_width = gauss_legendre_panels(piece.y, order=1)
        density, loss = piece.segment.log_density_and_loss(nodes)
        parts.append((density + log_width, loss))
    return _sorted_by_loss(parts)


def _atoms(curve: LossCurve) -> tuple[Array, Array]:
    """Return (log P masses, losses), unsorted, of the curve's atoms, and of loss 0 if its mass is over 1e-13."""
    losses, log_masses = (np.array(values, dtype=np.float64) for values in (curve.losses, curve.log_masses))
    if curve.zero_loss_mass > _NO_MASS:
        losses, log_masses = np.append(losses, 0.0), np.append(log_masses, math.log(curve.zero_loss_mass))
    return log_masses, losses


def _panels(piece: MonotonePiece, ends: Array) -> tuple[Array, Array]:
    """Cut a piece at its points and where its loss is in `ends`; return each panel's (log P mass, log P / Q mass)."""
    inner, _ = points_with_losses(piece, np.unique(ends))
    edges = np.unique(np.append(piece.y, inner))
    spend(6 * ELEMENT * _NODES * edges.size)
    nodes, log_weight = gauss_legendre_panels(edges, order=_NODES)
    log_p, losses = (values.reshape(-1, _NODES) for values in piece.segment.log_density_and_loss(nodes))
    log_p = log_p + log_weight.reshape(-1, _NODES)
    log_q = log_p - losses
    panel_p, panel_q = (log_sum_exp([values[:, i] for i in range(_NODES)]) for values in (log_p, log_q))
    return panel_p, panel_p - panel_q


def sum_of_copies(law: RatioLaw, count: int, estimate: Estimate) -> RatioLaw:
    """Return the law of the sum of `count` independent copies; TooLargeError if a lattice has too many points."""
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


def large_ratio_pair(bins: Sequence[tuple[LossCurve, int]], estimate: Estimate, *, share: float = 1.0) -> Loss | None:
    """Return the `mean_pair` of ratios that are 0 or so large that one decides; None if others have P mass > 1e-18."""
    # Source: docs/theory.md, Theorem 7.9.
    log_count, cut = math.log(sum(number for _, number in bins)), []
    for curve, number in bins:
        cut.append((curve, number, _pieces(curve)))
        log_p, losses = _some_losses(curve, cut[-1][-1])
        small_mass = float(np.exp(log_p[losses < log_count + _RARE]).sum())
        if curve.infinity_mass > _MOST_INFINITE or small_mass > _NO_SMALL:
            return None
    infinite = share * math.fsum(curve.infinity_mass * number for curve, number in bins) / math.exp(log_count)
    # Each step is cut into cells of equal width in loss: log P masses times its share of the mean, log Q masses, ends.
    log_ps, log_qs, lows, highs = [], [], [], []
    for curve, number, pieces in cut:
        parts = [_atoms(curve)]
        span = np.ptp(np.concatenate([parts[0][1], *(piece.loss[[0, -1]] for piece in pieces)]))
        step = max(float(span), 1.0) / _CELLS
        for piece in pieces:
            ends = np.arange(math.floor(piece.loss.min() / step), math.ceil(piece.loss.max() / step) + 1) * step
            parts.append(_panels(piece, ends))
        log_p, losses = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        cells, place = np.unique(np.floor(losses / step), return_inverse=True)
        log_ps.append(log_sum_exp_by_index(place, log_p, size=cells.size) + math.log(number) - log_count)
        log_qs.append(log_sum_exp_by_index(place, log_p - losses, size=cells.size))
        lows.append(cells * step)
        highs.append((cells + 1) * step)

    if estimate is not Estimate.UPPER:
        # Each large ratio alone, rounded down; else, with Q mass 1, ratio 1e-12. Some P mass is moved from large ratios
        # to the others, which covers the round-off of the large ones.
        losses = np.concatenate(lows) - log_count
        is_large = losses > _RARE
        log_p = np.concatenate(log_ps)[is_large] + math.log1p(-_MOVED - 4 * _QUADRATURE)
        log_q, losses = np.append(0.0, log_p - losses[is_large]), np.append(math.log(_MOVED), losses[is_large])
        order = np.argsort(losses, kind="stable")
        losses, place = np.unique(_with_share(losses[order], share), return_inverse=True)
        log_q = log_sum_exp_by_index(place, log_q[order], size=losses.size)
        margin = 4 * _TOLERANCE * (1 + np.abs(losses))
        return _lower_bound((losses, log_q + losses, log_q), (infinite, 0.0), margin, estimate)

    # From above: each cell's P mass at a loss of >= 50. The other direction is bounded by the largest ratio alone,
    # which is at most that of a cell if all are: 0 or in a cell that begins at or below it.
    losses = np.maximum(np.concatenate(highs) - log_count, _RARE)
    log_q, losses = np.concatenate(log_ps) - losses, _with_share(losses, share)
    points = np.unique(np.concatenate(lows))
    log_below, log_zero = np.zeros(points.size), 0.0
    for (_, number), logs, low in zip(bins, log_qs, lows, strict=True):
        order = np.argsort(low, kind="stable")
        masses = np.exp(logs[order])
        missing = max(0.0, 1 - float(masses.sum()))
        zero = missing if missing > _NO_MASS else 0.0
        at = np.searchsorted(low[order], points, side="right")
        below = np.append(0.0, np.cumsum(masses))[at] + zero
        above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)[at]
        with np.errstate(divide="ignore"):
            log_below += number * np.where(above < 0.5, np.log1p(-np.minimum(above, 0.5)), np.log(below))
            log_zero += number * float(np.log(zero))
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.append(log_zero, log_below[:-1])
        log_max = np.where(log_below > before, log_below + np.log(-np.expm1(before - log_below)), -np.inf)
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


def _with_share(losses: Array, share: float) -> Array:
    """Return the logarithms of 1 - share + share * ratio."""
    return losses if share == 1 else np.logaddexp(math.log1p(-share), math.log(share) + losses)


def mean_pair(bins: Sequence[tuple[LossCurve, int]], estimate: Estimate, *, share: float = 1.0) -> Loss:
    """Return the pair of 1 - share + share * (mean of the ratios), a bound of the kind that `estimate` says."""
    # Source: docs/theory.md, Theorem 7.9 and Theorem 9.12.
    if (large := large_ratio_pair(bins, estimate, share=share)) is not None:
        return large
    count = sum(number for _, number in bins)
    laws, rare_ratios, rare_masses = [], [], []
    for curve, number in bins:
        # Sums of ratios that are rare in the mean, those above e^50 count, need not be resolved: at most one of them
        # comes. They are taken out, unless all are.
        law = ratio_law(curve, estimate, count)
        ratios, masses = law.flat()
        is_large = ratios > count * math.exp(_RARE)
        if is_large.any() and (masses[~is_large] > 0).any():
            law = replace(law, rows=rows_where(law, ~is_large))
            rare_ratios.append(ratios[is_large])
            rare_masses.append(masses[is_large] * number)
        laws.append(sum_of_copies(law, number, estimate))
    total = reduce(lambda a, b: sum_of(a, b, estimate), laws)
    # From below, delta(D', D) asks for the small ratios: mass that is left out covers the rare ones.
    rare = None
    if rare_ratios and estimate is not Estimate.LOWER_REVERSED:
        rare = np.concatenate(rare_ratios), np.concatenate(rare_masses)
    return pair_of(total, count, estimate, share=share, rare=rare)


def pair_of(
    law: RatioLaw, count: int, estimate: Estimate, *, share: float = 1.0, rare: tuple[Array, Array] | None = None
) -> Loss:
    """Return the pair of ratio 1 - share + share S / count, S of the law `law`; TooLargeError if round-off decides."""
    # UPPER: a pair that bounds the losses of both directions from above. LOWER: one that bounds delta(D, D') of (P, Q)
    # from below; LOWER_REVERSED: one that bounds delta(D', D) from below, with D' as its first distribution. `rare` are
    # (ratios above e^50 count, their Q masses in all terms) that `law` leaves out.
    ratios, q = law.points()
    if rare is not None:
        ratios, q = points_of(np.append(ratios, rare[0]), np.append(q, rare[1]))
    if ratios.size > _MAX_LOSSES:
        # Three quarters of the places by mass and width: the error of a cell of width w and mass m is near m w^2, in
        # sum least for widths near the cube root. A quarter evenly in loss: a small delta, or composing, raises what is
        # rare.
        width = np.gradient(np.log(ratios))
        weight = np.cbrt(q * (1 + ratios / float((ratios * q).sum())) * width**2)
        below = np.cumsum(3 * weight / float(weight.sum()) + width / float(width.sum()))
        places = np.searchsorted(below, np.linspace(0, float(below[-1]), _MAX_LOSSES - 1))
        kept = np.unique(np.append(np.minimum(places, ratios.size - 1), 0).astype(np.float64)).astype(np.int64)
        if estimate is Estimate.UPPER:  # other ratios are split over their neighbours
            ends: Array = ratios[kept]
            right = np.clip(np.searchsorted(ends, ratios), 1, kept.size - 1)
            part = np.clip((ratios - ends[right - 1]) / (ends[right] - ends[right - 1]), 0.0, 1.0)
            fewer = np.zeros(kept.size)
            fewer += np.bincount(right, q * part, kept.size) + np.bincount(right - 1, q * (1 - part), kept.size)
            ratios, q = ends[fewer > 0], fewer[fewer > 0]
        else:  # merged into means
            mass = np.add.reduceat(q, kept)
            ratios, q = np.add.reduceat(q * ratios, kept) / mass, mass
    losses = np.log(1 - share + share * (ratios / count))
    zero, infinite = law.zero, share * law.infinite / count
    if share < 1:  # then the loss of ratio 0 is finite
        if zero:
            losses, q = np.append(math.log1p(-share), losses), np.append(zero, q)
        zero = 0.0
    # From below a ratio is a mean, whose error is at most that of its weights times the range of what is merged.
    quotient = 0.0 if estimate is Estimate.UPPER else 8 * law.error * law.distance
    if quotient > _MAX_QUOTIENT:
        raise TooLargeError(
            "likelihood ratios: expected fewer of them for a lower bound, got more than round-off allows"
        )
    margin = _TOLERANCE + _MARGIN * (1 + np.abs(losses)) + quotient
    raised = math.log1p(2 * law.error + 1e-14)
    log_q, log_p = np.log(q), np.log(q) + losses
    if estimate is Estimate.UPPER:
        missed = 0.0 if rare is None else math.exp(-_RARE)
        above = losses > 0  # losses are moved away from 0
        return glued(
            ((log_p + raised)[above], (losses + margin)[above]),
            ((log_q + raised)[~above], (losses - margin)[~above]),
            infinity_mass=infinite + 2 * missed,
            only_other=zero + missed,
            max_losses=_MAX_LOSSES,
        )
    # With a small probability nothing is released: that covers masses that are too large by round-off.
    lowered = math.exp(-raised)
    mean = losses, log_p - raised, log_q - raised
    return _lower_bound(mean, (infinite * lowered, zero * lowered), margin, estimate)


def _lower_bound(
    mean: tuple[Array, Array, Array], infinite: tuple[float, float], margin: Array, estimate: Estimate
) -> Loss:
    """Return the pair of LOWER's or LOWER_REVERSED's direction, each of its losses lowered by `margin`."""
    # `mean`: losses of the mean ratio, rising, their log P and log Q masses; `infinite`: P mass where it is infinite, Q
    # mass where it is 0.
    losses, log_p, log_q = mean
    if estimate is Estimate.LOWER:
        losses, logs, infinity_mass = losses - margin, log_p, infinite[0]
    else:
        losses, logs, infinity_mass = (-losses - margin)[::-1], log_q[::-1], infinite[1]
    return Loss(
        losses=tuple(losses.tolist()), log_masses=tuple(logs.tolist()), infinity_mass=infinity_mass, is_one_way=True
    )
