"""A loss whose small values need a finer lattice than its rare large ones.

One step that rarely draws the unit leaks next to nothing most of the time, and sometimes a lot. On one lattice fine
enough for the bulk the jumps would span millions of points; here the bulk is on a fine lattice, the jumps on a coarse
one, and they meet only in the composition: the part of (F + C)^m without a jump is F^m on the fine lattice, the rest
is (F + C)^m - F^m, both on the coarse one. Rounding F up (or down) to the coarse lattice is weighted by the chance
of a jump, so it costs little.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcalc.curves.coarsen import Rounding, coarsened
from dpcalc.curves.loss_pmf import LossPmf, powers, powers_beyond

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SplitPmf:
    """Two parts of one tilted measure; their masses sum to about 1 together.

    Attributes:
        bulk: on the finer lattice.
        jumps: on the coarser lattice, with the same tilt, origin and log_norm.
    """

    bulk: LossPmf
    jumps: LossPmf

    @property
    def gap(self) -> int:
        """How many doublings of the spacing lie between the two lattices."""
        return self.jumps.level - self.bulk.level

    @property
    def log_norm(self) -> float:
        """Log of the factor taken out of both."""
        return self.bulk.log_norm

    def wider(self) -> "SplitPmf":
        """The bulk in extended precision, where the machine has it: round-off is relative, and the jumps are rare."""
        return SplitPmf(bulk=self.bulk.wider(), jumps=self.jumps)

    def normalized(self) -> "SplitPmf":
        """The same measure with masses that sum to 1."""
        total = float(self.bulk.mass.sum() + self.jumps.mass.sum())
        return SplitPmf(bulk=self.bulk.over(total), jumps=self.jumps.over(total))


def split_powers(split: SplitPmf, counts: tuple[int, ...], rounding: Rounding) -> list[SplitPmf]:
    """Self-compositions of a split loss, several counts at once; as `powers`."""
    bulk = powers(split.bulk, counts)
    without = coarsened(split.bulk, split.gap, rounding)
    jumps = powers_beyond(without, split.jumps, counts)
    return [SplitPmf(bulk=a, jumps=b).normalized() for a, b in zip(bulk, jumps, strict=True)]
