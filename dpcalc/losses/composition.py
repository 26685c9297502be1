"""Composition of many copies of a loss, in rounds with a wider lattice after each, and capping of rare losses.

Source: docs/theory.md, Theorem 9.3 and Theorem 9.7.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dpcalc.losses.cells import ROUND
from dpcalc.losses.coarsen import Rounding, coarsened, growth_by_rounding_up
from dpcalc.losses.loss import Loss
from dpcalc.losses.moments import Curve, PublicDraw
from dpcalc.losses.pair import half_line_end
from dpcalc.losses.pmf import LossPmf, SplitPmf, add_measures, compose, powers, powers_beyond, trim
from dpcalc.losses.rdp_curve import RdpCurve
from dpcalc.numerics import Array, in_rows, normal_log_cdf

# Capping: the mass of privacy losses above a limit becomes one atom, or the limit and infinity, and needs no grid.
#
# delta(epsilon) asks of losses above epsilon only for their P and Q mass. The optimistic cap merges {L > x} into one
# loss, the pessimistic one into the loss x and infinity; both keep the P mass and the Q mass. They are valid for any
# limit, and sharp where it exceeds epsilon by more than the other losses can take back.
#
# For x >= 0 {L > x} is a half-line if the weights p_i - e^x q_i change sign once (Karlin 1968, Total Positivity,
# theorem 3.1 of chapter 5); segments where that is not certain are left as they are.
#
# Source: docs/theory.md, Theorem 9.7.

_FAR = 40.0  # deviations from the centers beyond which a normal variable has less mass than any float
_LARGEST = 700.0  # largest exponent of a float
_ROUNDED = 1e-11  # relative margin on a probability and on a loss, far above their round-off


CappedTail = tuple[float, float, float]
"""What the losses above a limit become: (the one finite loss, its P mass, P mass of an infinite loss)."""
TailCap = Callable[[float, float, float], CappedTail]
"""From (P mass, log of the Q mass, limit) of the losses above the limit."""


def cap_pessimistic(p: float, log_q: float, limit: float) -> CappedTail:
    """Cap losses at `limit` as far as their Q mass allows, the remaining P mass infinite: an upper bound on delta."""
    # Source: docs/theory.md, Theorem 9.7.
    # P mass x at the limit has Q mass x e^-limit: what the Q mass does not allow becomes infinite. Rounding the limit
    # down only moves more to infinity.
    loss = limit * (1 - _ROUNDED) - _ROUNDED
    mass = min(p, math.exp(min(log_q + loss, 0.0)))
    return loss, mass, (p - mass) + _ROUNDED * p


def cap_optimistic(p: float, log_q: float, limit: float) -> CappedTail:
    """Merge losses above `limit` into one loss with their P and Q mass, rounded down: a lower bound on delta."""
    # Source: docs/theory.md, Theorem 9.7.
    loss = max(math.log(p) - log_q, limit)
    return loss * (1 - _ROUNDED) - _ROUNDED, p * (1 - _ROUNDED), 0.0


def capped(curve: Curve, limit: float, cap: TailCap, *, min_mass: float) -> Curve:
    """Replace losses above `limit` by `cap`, in each step of a public draw; a step known by RDP is unchanged."""
    if isinstance(curve, RdpCurve):
        return curve
    # A public draw is known before the loss: what it chooses from is capped one by one.
    if isinstance(curve, PublicDraw):
        counts = tuple((capped(step, limit, cap, min_mass=min_mass), count) for step, count in curve.counts)
        return replace(curve, counts=counts)
    segments, tails, growth = [], [], math.expm1(min(limit, _LARGEST))
    for segment in curve.segments:
        # By Karlin's theorem P - e^limit Q has at most as many sign changes along the line as its weights have. A
        # weight that is 0 up to round-off leaves the number of changes unknown.
        kept, weights_q = segment, segment.pair.weights_q
        gaps = [d - q * growth for d, q in zip(segment.pair.differences, weights_q, strict=True)]
        is_certain = all(abs(gap) >= 1e-12 * q * growth for gap, q in zip(gaps, weights_q, strict=True))
        signs = [gap > 0 for gap in gaps if gap]
        changes = [after for before, after in pairwise(signs) if before != after]
        is_right = changes == [True]
        if segment.max_loss > limit and is_certain and len(changes) == 1 and not (is_right and segment.high < math.inf):
            # The half-line of losses above the limit, mirrored to the left, unless it is far out or has no mass.
            pair = segment.pair.mirrored if is_right else segment.pair
            near = pair.centers[-1] + _FAR * pair.deviation
            end = half_line_end(pair, near, limit)
            p = segment.weight * pair.mass_below(end) if pair.centers[0] - _FAR * pair.deviation < end < near else -1.0
            if p >= min_mass:
                kept = replace(segment, max_loss=limit)
                kept = replace(kept, high=min(kept.high, -end)) if is_right else replace(kept, low=max(kept.low, end))
                if p:  # the Q mass as a logarithm: it may be smaller than any float
                    parts = [
                        math.log(weight) + normal_log_cdf((end - center) / pair.deviation)
                        for center, weight in zip(pair.centers, pair.weights_q, strict=True)
                        if weight
                    ]
                    log_q = max(parts) + math.log(math.fsum(math.exp(part - max(parts)) for part in parts))
                    tails.append(cap(p, math.log(segment.weight) + log_q, limit))
        segments.append(kept)
    if not tails:
        return curve
    finite = [(loss, math.log(mass)) for loss, mass, _ in tails if mass > 0]
    return Loss(
        segments=tuple(segments),
        given_zero_mass=curve.zero_loss_mass,
        losses=(*curve.losses, *(loss for loss, _ in finite)),
        log_masses=(*curve.log_masses, *(log_mass for _, log_mass in finite)),
        infinity_mass=curve.infinity_mass + math.fsum(infinite for _, _, infinite in tails),
    )


# Composition in rounds, with a wider lattice after each: time grows like log(count).

_MAX_REFINED = 1 << 19  # entries of a loss after it was put on a finer lattice: 4 MB, and transforms of that length

Pmf = LossPmf | SplitPmf
_OPTIMISTIC_FACTOR = 4.0  # times the budget that rounding down may cost: it costs more than rounding up
_MAX_FINE_ENTRIES = 1 << 18  # entries above which a lattice is widened even if that costs more than the budget
_VANISHED_BULK = 1e-15  # tilted mass of a composed bulk below which it has no window of its own and joins the jumps


def compose_two(a: LossPmf, b: LossPmf, budget: float, rounding: Rounding) -> LossPmf:
    """Return the trimmed composition of two losses, of which the finer one is coarsened within the budget."""
    # Refining a lattice costs memory and no accuracy, coarsening the other way round: the finer loss is coarsened as
    # far as the budget goes, then the wider one is refined to meet it.
    fine, wide = sorted((a, b), key=lambda part: part.level)
    fine = _coarsen_within_budget(fine, 1, budget, wide.level - fine.level, rounding)
    return trim(compose(*_on_one_lattice(fine, wide, rounding)))


def compose_all(parts: list[LossPmf], budget: float, rounding: Rounding) -> LossPmf:
    """Compose losses, finest lattices first, and coarsen the sums within the budget; a single loss is unchanged."""
    if len(parts) == 1:
        return parts[0]
    # Like Huffman's tree: the two finest lattices are summed first, so that no loss is put on a much finer lattice than
    # its own. The budget is shared by the levels of the tree.
    levels = [part.level for part in parts]
    depth = math.ceil(math.log2(len(parts))) + max(levels) - min(levels) + 1  # of the tree of sums
    share = budget / (len(parts) * depth)
    waiting = [(part.level, 1, number, part) for number, part in enumerate(parts)]
    heapq.heapify(waiting)
    for number in range(len(parts), 2 * len(parts) - 1):
        (_, few, _, a), (_, more, _, b) = heapq.heappop(waiting), heapq.heappop(waiting)
        count = few + more
        total = trim(compose(*_on_one_lattice(a, b, rounding)))
        total = _coarsen_within_budget(total, 1, count * share, math.inf, rounding).normalized()
        heapq.heappush(waiting, (total.level, count, number, total))
    return waiting[0][3]


def _on_one_lattice(a: LossPmf, b: LossPmf, rounding: Rounding) -> tuple[LossPmf, LossPmf]:
    """Put a and the coarser b on one lattice by refining b, and by coarsening a where b would exceed 2^19 entries."""
    gap = b.level - a.level
    free = min(gap, max(0, math.floor(math.log2(_MAX_REFINED / b.mass.size))))
    if free:  # zeros between the entries of b
        mass = np.zeros(((b.mass.size - 1) << free) + 1, dtype=b.mass.dtype)
        mass[:: 1 << free] = b.mass
        b = replace(b, level=b.level - free, start=b.start << free, mass=mass)
    return coarsened(a, gap - free, rounding), b


def compose_copies(loss: Pmf, count: int, budget: float, rounding: Rounding) -> LossPmf:
    """Compose `count` >= 1 copies onto one lattice, 16 at a time, coarsened within the budget after each round."""
    # `count` in base 16, the lowest digit first: loss^16 replaces the loss, loss^digit is set aside and composed last.
    digits: LossPmf | None = None
    rounds = max(1, math.ceil(math.log(count, ROUND)))
    while count >= 4 * ROUND:
        count, digit = divmod(count, ROUND)
        powered, *extra = _powers(loss, (ROUND, digit) if digit else (ROUND,), rounding)
        for part in extra:
            alone = _to_single_lattice(part, budget / rounds, rounding)
            digits = alone if digits is None else compose_two(digits, alone, budget / rounds, rounding)
        if isinstance(powered, SplitPmf):  # a bulk that reaches the jumps' lattice joins them
            wide = _coarsen_within_budget(powered.bulk, count, budget / rounds, powered.gap, rounding)
            if wide.level < powered.jumps.level:
                loss = SplitPmf(bulk=wide, jumps=powered.jumps).normalized()
                continue
            powered = add_measures(wide, powered.jumps)
        loss = _coarsen_within_budget(powered, count, budget / rounds, math.inf, rounding).normalized()
    loss = _to_single_lattice(_powers(loss, (count,), rounding)[0] if count > 1 else loss, budget / rounds, rounding)
    return loss if digits is None else compose_two(digits, loss, budget / rounds, rounding)


def _powers(loss: Pmf, counts: tuple[int, ...], rounding: Rounding) -> list[Pmf]:
    """Return the trimmed k-fold composition for each k in counts; a SplitPmf with hardly any bulk becomes a LossPmf."""
    if isinstance(loss, LossPmf):
        return [trim(power) for power in powers(loss, counts)]
    on_wide = coarsened(loss.bulk, loss.gap, rounding)
    if float(loss.bulk.mass.sum()) ** max(counts) < _VANISHED_BULK:
        return _powers(add_measures(on_wide, loss.jumps).normalized(), counts, rounding)
    # On the coarser lattice what has a jump: (bulk + jumps)^k - bulk^k.
    parts = zip(powers(loss.bulk, counts), powers_beyond(on_wide, loss.jumps, counts), strict=True)
    split = (SplitPmf(bulk=bulk, jumps=jumps).normalized() for bulk, jumps in parts)
    return [SplitPmf(bulk=trim(each.bulk), jumps=trim(each.jumps)) for each in split]


def _to_single_lattice(loss: Pmf, budget: float, rounding: Rounding) -> LossPmf:
    """Add bulk and jumps on one lattice, coarsened within the budget to <= 2^19 entries; a LossPmf is unchanged."""
    if isinstance(loss, LossPmf):
        return loss
    bulk = _coarsen_within_budget(loss.bulk, 1, budget, loss.gap, rounding)
    return add_measures(*_on_one_lattice(bulk, loss.jumps, rounding)).normalized()


def _coarsen_within_budget(
    loss: LossPmf, copies: int, budget: float, max_doublings: float, rounding: Rounding
) -> LossPmf:
    """Coarsen a loss as far as the budget affords, less far if that loses too much mass and leaves <= 2^17 entries."""
    # Sums by residue, by index modulo 2, 4, 8, ..., give the growth for every width from one pass over the entries:
    # each is folded from the next. Up to 1 / tilt: what was lost or rounded would swell with the tilt.
    mass = float(loss.mass.sum())
    largest = int(min(max_doublings, loss.mass.size.bit_length() - 1))
    residues = [in_rows(loss.mass, 1 << largest).sum(axis=0)] if largest > 0 else []
    while residues and residues[-1].size > 2:
        half = residues[-1].size // 2
        residues.append(residues[-1][:half] + residues[-1][half:])
    doublings = 0
    for folded in reversed(residues):
        width = loss.spacing * folded.size
        offset: Array = np.arange(folded.size, dtype=np.float64) * loss.spacing
        growth = float((folded * growth_by_rounding_up(offset, loss.tilt, width)).sum()) / float(folded.sum())
        if loss.tilt * width > 1 or copies * growth > budget:
            break
        doublings += 1
    while doublings:
        wide = coarsened(loss, doublings, rounding)
        is_cheap = copies * (mass - float(wide.mass.sum())) < _OPTIMISTIC_FACTOR * budget * mass
        if is_cheap or 2 * wide.mass.size > _MAX_FINE_ENTRIES:
            return wide
        doublings -= 1
    return loss
