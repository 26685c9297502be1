"""Composition of many copies of a loss, in rounds with a wider lattice after each: time grows like log(count).

Source: docs/theory.md, Theorem 9.3.
"""

import heapq
import math

import numpy as np

from dpcalc.arrays import Array
from dpcalc.losses.cells import ROUND
from dpcalc.losses.coarsen import Rounding, SplitPmf, coarsened, mean_growth_by_rounding_up, split_powers
from dpcalc.losses.pmf import LossPmf, add_measures, compose, powers, refine, trim

_MAX_REFINED = 1 << 19  # entries of a loss after it was put on a finer lattice: 4 MB, and transforms of that length

Loss = LossPmf | SplitPmf
_OPTIMISTIC_FACTOR = 4.0  # times the budget that rounding down may cost: it costs more than rounding up
_MAX_FINE_ENTRIES = 1 << 18  # entries above which a lattice is widened even if that costs more than the budget
_VANISHED_BULK = 1e-15  # tilted mass of a composed bulk below which it has no window of its own and joins the jumps


def compose_two(a: LossPmf, b: LossPmf, budget: float, rounding: Rounding) -> LossPmf:
    """Return two losses' trimmed composition: the finer coarsened as far as the budget allows, the wider refined.

    Args:
        a: one loss on a lattice.
        b: another one.
        budget: how much the log of the tilted mass may change.
        rounding: `coarsen_pessimistic` for an upper, `coarsen_optimistic` for a lower bound.
    """
    # Refining a lattice costs memory and no accuracy, coarsening the other way round: the finer loss is coarsened as
    # far as the budget goes, then the wider one is refined to meet it.
    fine, wide = sorted((a, b), key=lambda part: part.level)
    fine = _coarsen_within_budget(fine, 1, budget, wide.level - fine.level, rounding)
    return trim(compose(*_on_one_lattice(fine, wide, rounding)))


def compose_all(parts: list[LossPmf], budget: float, rounding: Rounding) -> LossPmf:
    """Return the composition of losses, two finest first, sums widened within shares of `budget`; one loss unchanged.

    Args:
        parts: not empty.
        budget: how much the log of the tilted mass may change in all, about.
        rounding: `coarsen_pessimistic` for an upper, `coarsen_optimistic` for a lower bound.
    """
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
        total = _widen_pmf(trim(compose(*_on_one_lattice(a, b, rounding))), 1, count * share, rounding)
        heapq.heappush(waiting, (total.level, count, number, total))
    return waiting[0][3]


def _on_one_lattice(a: LossPmf, b: LossPmf, rounding: Rounding) -> tuple[LossPmf, LossPmf]:
    """Return (a, b) on a's lattice, the finer; on a wider one if b would have more than 2^19 entries there."""
    gap = b.level - a.level
    free = min(gap, _affordable_halvings(b))
    return coarsened(a, gap - free, rounding).normalized(), refine(b, free).normalized()


def compose_copies(loss: Loss, count: int, budget: float, rounding: Rounding) -> LossPmf:
    """Return the composition of `count` >= 1 copies of a loss, 16 a round, its lattice widened within `budget`.

    Args:
        loss: one step.
        count: >= 1.
        budget: how much the log of the tilted mass may change in all, about.
        rounding: `coarsen_pessimistic` for an upper, `coarsen_optimistic` for a lower bound.
    """
    # `count` in base 16, the lowest digit first: loss^16 replaces the loss, loss^digit is set aside and composed last.
    digits: LossPmf | None = None
    rounds = max(1, math.ceil(math.log(count, ROUND)))
    while count >= 4 * ROUND:
        count, digit = divmod(count, ROUND)
        powered, *extra = _powers(loss, (ROUND, digit) if digit else (ROUND,), rounding)
        for part in extra:
            alone = _to_single_lattice(part, budget / rounds, rounding)
            digits = alone if digits is None else compose_two(digits, alone, budget / rounds, rounding)
        loss = _widen(powered, count, budget / rounds, rounding)
    loss = _to_single_lattice(_powers(loss, (count,), rounding)[0] if count > 1 else loss, budget / rounds, rounding)
    return loss if digits is None else compose_two(digits, loss, budget / rounds, rounding)


def _powers(loss: Loss, counts: tuple[int, ...], rounding: Rounding) -> list[Loss]:
    """Return the k-fold compositions for k in counts, tails cut; a split loss whose bulk vanishes joins one lattice."""
    if isinstance(loss, SplitPmf) and float(loss.bulk.mass.sum()) ** max(counts) < _VANISHED_BULK:
        return _powers(
            add_measures(coarsened(loss.bulk, loss.gap, rounding), loss.jumps).normalized(), counts, rounding
        )
    if isinstance(loss, SplitPmf):
        return [
            SplitPmf(bulk=trim(power.bulk), jumps=trim(power.jumps)) for power in split_powers(loss, counts, rounding)
        ]
    return [trim(power) for power in powers(loss, counts)]


def _to_single_lattice(loss: Loss, budget: float, rounding: Rounding) -> LossPmf:
    """Return a split loss on the bulk's lattice, widened within the budget or to fit memory; else unchanged."""
    if isinstance(loss, LossPmf):
        return loss
    bulk = _coarsen_within_budget(loss.bulk, 1, budget, loss.gap, rounding)
    free = min(loss.jumps.level - bulk.level, _affordable_halvings(loss.jumps))
    wide = coarsened(bulk, loss.jumps.level - free - bulk.level, rounding)
    return add_measures(wide, refine(loss.jumps, free)).normalized()


def _affordable_halvings(loss: LossPmf) -> int:
    """Return how often the spacing can be halved until a loss has 2^19 entries."""
    return max(0, math.floor(math.log2(_MAX_REFINED / loss.mass.size)))


def _widen(loss: Loss, copies: int, budget: float, rounding: Rounding) -> Loss:
    """Return the loss, or the bulk of a split loss, on the widest lattice that costs at most `budget` for `copies`."""
    if isinstance(loss, LossPmf):
        return _widen_pmf(loss, copies, budget, rounding)
    # The bulk of a split loss alone is widened, until it meets the lattice of the jumps.
    wide = _coarsen_within_budget(loss.bulk, copies, budget, loss.gap, rounding)
    if wide.level == loss.jumps.level:
        return _widen_pmf(add_measures(wide, loss.jumps), copies, budget, rounding)
    return SplitPmf(bulk=wide, jumps=loss.jumps).normalized()


def _widen_pmf(loss: LossPmf, copies: int, budget: float, rounding: Rounding) -> LossPmf:
    """Return a loss on one lattice, normalized, on the widest lattice that costs less than `budget`."""
    return _coarsen_within_budget(loss, copies, budget, 60, rounding).normalized()


def _coarsen_within_budget(
    loss: LossPmf, copies: int, budget: float, max_doublings: int, rounding: Rounding
) -> LossPmf:
    """Return the loss on the widest lattice whose rounding costs `copies` at most the budget (down: 4 times it)."""
    doublings, mass = _affordable_doublings(loss, copies, budget, max_doublings), float(loss.mass.sum())
    while doublings:
        wide = coarsened(loss, doublings, rounding)
        if (
            copies * (mass - float(wide.mass.sum())) < _OPTIMISTIC_FACTOR * budget * mass
            or 2 * wide.mass.size > _MAX_FINE_ENTRIES
        ):
            return wide
        doublings -= 1
    return loss


def _affordable_doublings(loss: LossPmf, copies: int, budget: float, max_doublings: int) -> int:
    """Return the most doublings of the spacing, up to a maximum, for which rounding `copies` up costs <= budget."""
    # Sums by residue give the growth for every width from one pass over the entries: each is folded from the next.
    for doublings, residues in enumerate(_mass_by_residue(loss.mass, max_doublings)):
        block = residues.size
        if loss.tilt * loss.spacing * block > 1:  # what was lost or rounded would swell with the tilt
            return doublings
        if copies * mean_growth_by_rounding_up(residues, loss.tilt, loss.spacing * block) > budget:
            return doublings
    return min(max_doublings, loss.mass.size.bit_length() - 1)


def _mass_by_residue(mass: Array, max_doublings: int) -> list[Array]:
    """Return [mass summed by index modulo 2, modulo 4, ...] up to 2^max_doublings or the size; [] for one entry."""
    largest = 1 << min(max_doublings, mass.size.bit_length() - 1)
    if largest == 1:
        return []
    residues = [np.pad(mass, (0, -mass.size % largest)).reshape(-1, largest).sum(axis=0)]
    while residues[-1].size > 2:
        half = residues[-1].size // 2
        residues.append(residues[-1][:half] + residues[-1][half:])
    return residues[::-1]
