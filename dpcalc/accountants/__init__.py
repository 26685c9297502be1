"""Accountants: from the number of times each step loss occurs to an upper bound on epsilon, one direction at a time."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter

from dpcalc.accountants.basic import advanced, basic, optimal
from dpcalc.accountants.gaussian import closed_form_epsilon
from dpcalc.accountants.pld import auto, pld, rough_epsilon_upper
from dpcalc.accountants.rdp import moments, rdp, rdp_classic, trimmed_epsilon
from dpcalc.accountants.result import AccountantResult, StepCounts, costliest_release

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


def worst_direction(
    steps: Mapping[str, StepCounts], accountant: Accountant, *, delta: float, moment_bound: Ceiling | None = None
) -> tuple[AccountantResult, str]:
    """Return (result with the largest epsilon, its name) over all directions, by one accountant; 0 without steps.

    Args:
        steps: how often each step loss occurs, by the name of the direction; not empty.
        accountant: one of ACCOUNTANTS.
        delta: in (0, 1).
        moment_bound: a cheap upper bound on the epsilon of one of the `steps` where it is at hand, by which pld and
            auto rule out directions; None computes it.

    Returns:
        (its answer, the name of the direction); epsilon 0 where nothing is released.

    Raises:
        ConvergenceError, UnsupportedError, WorkExceededError: as the accountant raises them.
    """

    def answer(counts: StepCounts) -> AccountantResult:
        return accountant(counts, delta=delta) if counts else AccountantResult(epsilon=0.0)

    def cheap_ceiling(counts: StepCounts) -> float:
        """Return the closed form where one applies, else the moment bound; 0 for no steps."""
        if not counts:
            return 0.0
        exact = closed_form_epsilon(counts, delta=delta, sign=1)
        if exact is not None:
            return exact
        return moment_bound(counts) if moment_bound else trimmed_epsilon(counts, delta=delta).value

    cost = attrgetter("epsilon")
    if accountant not in {pld, auto}:
        return costliest_release(steps, answer=answer, cost=cost, ceiling=lambda _: math.inf)
    nearer = partial(rough_epsilon_upper, delta=delta)
    return costliest_release(steps, answer=answer, cost=cost, ceiling=cheap_ceiling, nearer=nearer)
