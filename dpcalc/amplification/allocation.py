"""Random allocation: in each pass every unit takes part in one step, chosen at random ("balls in bins").

Source: docs/theory.md, Theorem 7.6.
"""

from dpcalc.losses.atoms import Atoms
from dpcalc.losses.likelihood_ratio import pair_of, ratio_law, total
from dpcalc.losses.pair import LossCurve
from dpcalc.losses.ratio_lattice import Estimate


def allocated_pass(curve: LossCurve, bins: int, estimate: Estimate, *, share: float = 1.0) -> Atoms:
    """Return the loss of a pass in which a unit takes part in one of several steps, chosen uniformly.

    Args:
        curve: loss of one step with the unit against the same step without it.
        bins: number of steps, >= 1.
        estimate: which bound; LOWER_REVERSED has the data set without the unit as its first distribution.
        share: probability that the unit takes part in the pass at all, in (0, 1].

    Returns:
        UPPER: a bound in both directions, for any order in which the steps depend on each other.

    Raises:
        ConvergenceError: if the loss of one step cannot be put on a lattice.
    """
    return pair_of(total(ratio_law(curve, estimate), bins, estimate), bins, estimate, share=share)
