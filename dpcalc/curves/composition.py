"""Many copies of a loss, in rounds, the lattice widened after each: the cost grows like the logarithm of the count."""

import math

import numpy as np

from dpcalc.curves.cells import ROUND
from dpcalc.curves.coarsen import Rounding, coarsened, inflation
from dpcalc.curves.loss_pmf import LossPmf, added, compose, powers, trimmed
from dpcalc.curves.split_pmf import SplitPmf, split_powers

Loss = LossPmf | SplitPmf
_NOTHING = 1e-15  # a bulk of which so little is left has no window: it goes with the jumps


def merged(a: LossPmf, b: LossPmf, rounding: Rounding) -> LossPmf:
    """The composition of two losses, on the wider of their lattices."""
    level = max(a.level, b.level)
    a, b = (coarsened(part, level - part.level, rounding).normalized() for part in (a, b))
    return trimmed(compose(a, b))


def power(one: Loss, count: int, budget: float, rounding: Rounding) -> LossPmf:
    """`count` copies of one loss, digit by digit in base ROUND, the lattice widened after each round."""
    rest: LossPmf | None = None
    rounds = max(1, math.ceil(math.log(count, ROUND)))
    while count >= 4 * ROUND:
        count, digit = divmod(count, ROUND)
        powered, *extra = _powers(one, (ROUND, digit) if digit else (ROUND,), rounding)
        for part in extra:
            rest = _joined(part, rounding) if rest is None else merged(rest, _joined(part, rounding), rounding)
        one = _widened(powered, count, budget / rounds, rounding)
    one = _joined(_powers(one, (count,), rounding)[0] if count > 1 else one, rounding)
    return one if rest is None else merged(rest, one, rounding)


def _powers(one: Loss, counts: tuple[int, ...], rounding: Rounding) -> list[Loss]:
    """Self-compositions of a loss on one lattice or two."""
    if isinstance(one, SplitPmf) and float(one.bulk.mass.sum()) ** max(counts) < _NOTHING:
        return _powers(one.joined(rounding), counts, rounding)
    if isinstance(one, SplitPmf):
        return [
            SplitPmf(bulk=trimmed(power.bulk), jumps=trimmed(power.jumps))
            for power in split_powers(one, counts, rounding)
        ]
    return [trimmed(power) for power in powers(one, counts)]


def _joined(one: Loss, rounding: Rounding) -> LossPmf:
    """A loss on one lattice."""
    return one.joined(rounding) if isinstance(one, SplitPmf) else one


def _widened(one: Loss, copies: int, budget: float, rounding: Rounding) -> Loss:
    """On the widest lattice that costs less than `budget` in the log of the composed tilted mass.

    The bulk of a split loss is widened until it meets the lattice of the jumps.
    """
    bulk, most = (one.bulk, one.gap) if isinstance(one, SplitPmf) else (one, 60)
    doublings = 0
    while doublings < most:
        block = 2 << doublings
        if bulk.tilt * bulk.spacing * block > 1:  # what was lost or rounded would swell with the tilt
            break
        residues = np.pad(bulk.mass, (0, -bulk.mass.size % block)).reshape(-1, block).sum(axis=0)
        if copies * inflation(residues, bulk.tilt, bulk.spacing * block) > budget or block > bulk.mass.size:
            break
        doublings += 1
    wide = coarsened(bulk, doublings, rounding)
    if not isinstance(one, SplitPmf):
        return wide.normalized()
    if doublings == most:
        return added(wide, one.jumps).normalized()
    return SplitPmf(bulk=wide, jumps=one.jumps).normalized()
