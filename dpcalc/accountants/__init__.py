"""Accountants: from how often each step occurs to an upper bound on epsilon, one direction at a time."""

import math
from collections.abc import Callable
from operator import attrgetter

from dpcalc.accountants.advanced import advanced
from dpcalc.accountants.answer import Answer
from dpcalc.accountants.auto import auto
from dpcalc.accountants.basic import basic
from dpcalc.accountants.conversion import best_epsilon
from dpcalc.accountants.costliest import Counts, costliest
from dpcalc.accountants.moments import moments
from dpcalc.accountants.optimal import optimal
from dpcalc.accountants.pld import pld
from dpcalc.accountants.rdp import rdp, rdp_classic
from dpcalc.release.tree import WorstOf, step_counts

Accountant = Callable[..., Answer]

ACCOUNTANTS: dict[str, Accountant] = {
    "pld": pld,
    "rdp": rdp,
    "rdp-classic": rdp_classic,
    "moments": moments,
    "optimal": optimal,
    "advanced": advanced,
    "basic": basic,
}

__all__ = ["ACCOUNTANTS", "Accountant", "Answer", "worst"]


def worst(alternatives: WorstOf, accountant: Accountant, *, delta: float) -> tuple[Answer, str]:
    """The costliest alternative by one accountant.

    Args:
        alternatives: releases by name.
        accountant: one of ACCOUNTANTS.
        delta: in (0, 1).

    Returns:
        (its answer, the name of the alternative); epsilon 0 where nothing is released.
    """

    def answer(counts: Counts) -> Answer:
        return accountant(counts, delta=delta) if counts else Answer(epsilon=0.0)

    counts = {name: step_counts(release) for name, release in alternatives.releases.items()}
    return costliest(counts, answer=answer, cost=attrgetter("epsilon"), ceiling=_ceiling(accountant, delta))


def _ceiling(accountant: Accountant, delta: float) -> Callable[[Counts], float]:
    """A bound on what a release costs that is far cheaper than the accountant, if there is one."""
    if accountant in {pld, auto}:
        return lambda counts: best_epsilon(counts, delta=delta).value if counts else 0.0
    return lambda _: math.inf
