"""Accountants: from the number of times each step loss occurs to an upper bound on epsilon, one direction at a time."""

import math
from collections.abc import Callable
from functools import partial
from operator import attrgetter

from dpcalc.accountants.basic import advanced, basic, optimal
from dpcalc.accountants.gaussian import closed_form_epsilon
from dpcalc.accountants.pld import auto, pld, rough_epsilon_upper
from dpcalc.accountants.rdp import moments, rdp, rdp_classic, trimmed_epsilon
from dpcalc.accountants.result import AccountantResult, StepCounts, costliest_release
from dpcalc.amplification.tree import WorstOf, step_counts

Accountant = Callable[..., AccountantResult]
Ceiling = Callable[[StepCounts], float]

ACCOUNTANTS: dict[str, Accountant] = {
    "pld": pld,
    "rdp": rdp,
    "rdp-classic": rdp_classic,
    "moments": moments,
    "optimal": optimal,
    "advanced": advanced,
    "basic": basic,
}

__all__ = ["ACCOUNTANTS", "Accountant", "AccountantResult", "worst_direction"]


def worst_direction(alternatives: WorstOf, accountant: Accountant, *, delta: float) -> tuple[AccountantResult, str]:
    """Return (result with the largest epsilon, its name) over all releases, by one accountant; 0 for one without steps.

    Args:
        alternatives: releases by name.
        accountant: one of ACCOUNTANTS.
        delta: in (0, 1).

    Returns:
        (its answer, the name of the alternative); epsilon 0 where nothing is released.

    Raises:
        ConvergenceError, UnsupportedError, WorkExceededError: as the accountant raises them.
    """

    def answer(counts: StepCounts) -> AccountantResult:
        return accountant(counts, delta=delta) if counts else AccountantResult(epsilon=0.0)

    counts = {name: step_counts(release) for name, release in alternatives.releases.items()}
    ceiling, nearer = _ceilings(accountant, delta)
    return costliest_release(counts, answer=answer, cost=attrgetter("epsilon"), ceiling=ceiling, nearer=nearer)


def _ceilings(accountant: Accountant, delta: float) -> tuple[Ceiling, Ceiling | None]:
    """Return (cheap upper bound on a release's epsilon, sharper one or None); (always inf, None) unless pld or auto."""
    if accountant not in {pld, auto}:
        return lambda _: math.inf, None

    def cheap_ceiling(counts: StepCounts) -> float:
        """Return the closed form where one applies, else `trimmed_epsilon`; 0 for no steps."""
        if not counts:
            return 0.0
        exact = closed_form_epsilon(counts, delta=delta, sign=1)
        return trimmed_epsilon(counts, delta=delta).value if exact is None else exact

    return cheap_ceiling, partial(rough_epsilon_upper, delta=delta)
