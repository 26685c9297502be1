"""What an attacker can gain who must tell two neighbouring data sets apart, from the composed bound.

Every test with false positive rate a has, for every epsilon >= 0 with its delta, a true positive rate of at most

    e^epsilon a + delta    and    1 - e^-epsilon (1 - a - delta)

(Wasserman and Zhou 2010, Theorem 2.4; Kairouz, Oh, Viswanath 2015, 1311.0776v4, Theorem 2.1). The pair is chosen well,
and certified; whichever is chosen, the bound holds.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpcalc.accountants.conversion import best_delta, best_epsilon
from dpcalc.accountants.costliest import Counts, costliest
from dpcalc.accountants.pld import UPPER, delta_curve, delta_interval
from dpcalc.errors import ConvergenceError, InputError
from dpcalc.planner.plan import Plan
from dpcalc.planner.releases import BACKWARD, FORWARD, alternatives, is_noiseless, releases
from dpcalc.release.tree import step_counts

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
_NEGLIGIBLE = 1e-3  # a delta that is this part of the false positive rate ends the search
_COARSE, _FINE = 8, 1000  # epsilons tried by moments and by composition


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Upper bounds for every attacker, who may know all other units and see every step.

    Attributes:
        advantage: true minus false positive rate, at most; in [0, 1].
        detection: (false positive rate, true positive rate at most).
    """

    advantage: float
    detection: tuple[tuple[float, float], ...]


def attack(plan: Plan, *, false_positive_rates: tuple[float, ...] = FALSE_POSITIVE_RATES) -> Attack:
    """How well any attacker can tell whether the unit was in the data.

    Args:
        plan: a training run.
        false_positive_rates: in (0, 1).

    Returns:
        Upper bounds; 1 without noise.
    """
    rates = tuple((rate, true_positive_rate(plan, rate)) for rate in false_positive_rates)
    return Attack(advantage=advantage(plan), detection=rates)


@lru_cache(maxsize=32)
def advantage(plan: Plan) -> float:
    """The largest difference of true and false positive rate of any attacker: delta(0), an upper bound in [0, 1]."""
    if is_noiseless(plan):
        return 1.0
    trees = {name: step_counts(tree) for name, tree in releases(plan).releases.items()}
    return costliest(trees, answer=_delta_at_zero, cost=float, ceiling=_moment_delta_at_zero)[0]


def true_positive_rate(plan: Plan, false_positive_rate: float) -> float:
    """The largest true positive rate of any attacker with a false positive rate.

    Args:
        plan: a training run.
        false_positive_rate: in (0, 1).

    Returns:
        An upper bound in [false_positive_rate, 1], whichever of the two data sets the attacker wants to detect.

    Raises:
        InputError: for a rate outside (0, 1).
    """
    if not 0 < false_positive_rate < 1:
        expected = "expected a number between 0 and 1, both excluded"
        raise InputError(f"false positive rate: {expected}, got {false_positive_rate!r}")
    if is_noiseless(plan):
        return 1.0
    trees = {name: step_counts(tree) for name, tree in releases(plan).releases.items()}
    found, at = false_positive_rate, 0.0
    for one in alternatives(plan):
        both = trees[one.named(FORWARD)], trees[one.named(BACKWARD)]
        for own, other in (both, both[::-1]):
            if _ceiling(own, at, false_positive_rate) > found:
                bound, epsilon = _detected(own, other, false_positive_rate)
                found, at = max((found, at), (bound, epsilon))
    return min(1.0, found)


def _ceiling(counts: Counts, epsilon: float, rate: float) -> float:
    """A cheap upper bound on the true positive rate: the line of one epsilon, with delta by moments."""
    return rate if not counts else math.exp(min(epsilon, 700.0)) * rate + best_delta(counts, epsilon=epsilon).value


def _detected(own: Counts, other: Counts, rate: float) -> tuple[float, float]:
    """(true positive rate of one direction, at most; the epsilon >= 0 whose line shows it, else 0)."""
    last = max(best_epsilon(own, delta=_NEGLIGIBLE * rate).value, 0.0)
    coarse = np.linspace(0.0, last, _COARSE)
    at = float(min(coarse, key=lambda epsilon: _ceiling(own, float(epsilon), rate)))
    epsilons = np.linspace(0.0, last, _FINE)
    try:
        lines = np.exp(epsilons) * rate + delta_curve(own, epsilons=epsilons, around=at)
        best = int(np.argmin(lines))
        if best:
            return float(lines[best]), float(epsilons[best])
        back = 1 - np.exp(-epsilons) * np.maximum(0.0, 1 - rate - delta_curve(other, epsilons=epsilons, around=at))
        return float(min(lines[0], back.min())), 0.0
    except ConvergenceError:
        return _ceiling(own, at, rate), at


def _delta_at_zero(counts: Counts) -> float:
    """Certified delta at epsilon 0, by moments where there is no certified answer."""
    try:
        return delta_interval(counts, epsilon=0.0, sides=(UPPER,))[0]
    except ConvergenceError:
        return _moment_delta_at_zero(counts)


def _moment_delta_at_zero(counts: Counts) -> float:
    """An upper bound on delta at epsilon 0 that is cheap."""
    return min(1.0, best_delta(counts, epsilon=0.0).value) if counts else 0.0
