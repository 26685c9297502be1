"""Accountants: from how often each step occurs to an upper bound on epsilon, one direction at a time."""

from collections.abc import Callable

from dpcalc.accountants.advanced import advanced
from dpcalc.accountants.answer import Answer
from dpcalc.accountants.basic import basic
from dpcalc.accountants.moments import moments
from dpcalc.accountants.optimal import optimal
from dpcalc.accountants.pld import pld
from dpcalc.accountants.rdp import rdp, rdp_classic
from dpcalc.curves.loss_moments import LossCurve
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
    answers: list[tuple[Answer, str]] = []
    for name, release in alternatives.releases.items():
        counts: dict[LossCurve, int] = step_counts(release)
        answers.append((accountant(counts, delta=delta) if counts else Answer(epsilon=0.0), name))
    return max(answers, key=lambda answer: answer[0].epsilon)
