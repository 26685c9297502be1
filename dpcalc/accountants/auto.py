"""The tightest accountant that answers."""

from dpcalc.accountants.answer import Answer
from dpcalc.accountants.pld import pld
from dpcalc.accountants.rdp import rdp
from dpcalc.curves.loss_moments import Curve
from dpcalc.errors import UnsupportedError


def auto(counts: dict[Curve, int], *, delta: float) -> Answer:
    """The certified upper end, or the moment bound where that would not fit in memory or nothing else is known.

    Args:
        counts: steps of one direction and how often each occurs, not empty.
        delta: in (0, 1).

    Returns:
        An upper bound; its note is the name of the accountant.
    """
    try:
        return Answer(epsilon=pld(counts, delta=delta).epsilon, note="pld")
    except (ArithmeticError, UnsupportedError):  # of the first ConvergenceError is one
        return Answer(epsilon=rdp(counts, delta=delta).epsilon, note="rdp")
